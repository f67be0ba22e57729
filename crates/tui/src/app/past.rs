//! What was said before, for a session that is gone on with: its end at once, the rest when it was read.
//!
//! The first frame must not wait for a session of any length. So the end is shown, and what happens until the whole is there
//! is kept; then the transcript is made once more, from the whole and from that. Who reads stays where they are.

use super::App;
use crate::transcript::Transcript;
use crate::transcript::block::Weight;
use becket_types::{Event, NoticeLevel, Part, visibility};

impl App {
    /// The end of what was said before; the whole comes with [`Reply::Past`](crate::input::Reply::Past).
    pub fn show_end(&mut self, events: &[Event]) {
        for event in events {
            self.transcript.event(event);
            self.remember_said(event);
        }
        self.since = Some(Vec::new());
    }

    pub(super) fn whole(&mut self, past: &[Event]) {
        let Some(since) = self.since.take() else { return };
        let mut whole = Transcript::new();
        whole.set_images(self.transcript.next_image());
        self.said.clear();
        for event in past.iter().chain(&since) {
            whole.event(event);
            self.remember_said(event);
        }
        for event in past {
            self.status.past(event);
        }
        whole.takes_the_place_of(&self.transcript);
        self.transcript = whole;
    }

    /// The person's messages, for going back to.
    pub(super) fn remember_said(&mut self, event: &Event) {
        let Event::UserMessage { message, .. } = event else { return };
        if visibility(&message.origin).user {
            let texts = message.parts.iter().filter_map(|part| match part {
                Part::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            self.said.push((message.id, texts.collect::<Vec<_>>().join("\n")));
        }
    }

    /// A line of the interface's own in the transcript.
    pub(super) fn note(&mut self, weight: Weight, text: String) {
        if let Some(since) = &mut self.since {
            let level = match weight {
                Weight::Quiet => NoticeLevel::Info,
                Weight::Warning => NoticeLevel::Warning,
                Weight::Error => NoticeLevel::Error,
            };
            since.push(Event::Notice { level, text: text.clone() });
        }
        self.transcript.note(weight, text);
    }
}
