//! Earlier messages of a continued session. The end is shown at once, the rest when the user scrolls back.
//!
//! The first frame must not wait for a session of any length to load, and memory must not hold all of it. When earlier
//! messages arrive, the rows on the screen stay in place.

use super::App;
use crate::input::{Effect, Request, Stretch};
use crate::picker::Kind;
use crate::transcript::Wanted;
use crate::transcript::block::Weight;
use becket_types::{Event, MessageId, Seq};

impl App {
    /// Shows the end of the earlier messages.
    pub fn show_end(&mut self, end: &Stretch) {
        self.transcript.show_end(end);
        self.remember_all(end);
    }

    /// Requests the earlier messages that came into view.
    pub(super) fn wanted_past(&mut self) -> Vec<Effect> {
        let ask = |Wanted { from, to, want }| Effect::Ask(Request::Past { from, to, want });
        self.transcript.wanted_gaps().into_iter().map(ask).collect()
    }

    pub(super) fn past(
        &mut self,
        from: Seq,
        to: Seq,
        result: Result<Option<Stretch>, String>,
    ) -> Vec<Effect> {
        let part = result.as_ref().ok().and_then(|part| part.as_ref()).map(|part| (part.from, part.to));
        match result {
            Ok(Some(part)) => {
                self.transcript.fill(from, to, &part, &self.theme);
                self.remember_all(&part);
            }
            Ok(None) => self.transcript.gap_stays(from, to),
            Err(why) => self.transcript.gap_failed(from, to, why),
        }
        self.transcript.found_past(from, to, part, &self.theme);
        if self.on_disk {
            self.transcript.let_go();
        }
        self.wanted_past()
    }

    /// Handles the user's messages of the whole session, for the rewind list.
    pub(super) fn all_said(&mut self, said: Vec<(Seq, MessageId, String)>) -> Vec<Effect> {
        let last = said.last().map_or(Seq(0), |(seq, ..)| *seq);
        let later = self.said.drain(..).filter(|(seq, ..)| *seq > last).collect::<Vec<_>>();
        self.said = said;
        self.said.extend(later);
        let rows = self.messages();
        if let Some(picker) = self.picker.as_mut().filter(|picker| picker.kind() == Kind::Message) {
            picker.set_rows(rows);
        }
        self.previewed()
    }

    fn remember_all(&mut self, stretch: &Stretch) {
        for event in &stretch.events {
            self.remember_said(event);
        }
    }

    /// Records a message of the user, so that rewind can offer it.
    pub(super) fn remember_said(&mut self, event: &Event) {
        let Event::UserMessage { message, .. } = event else { return };
        if message.visibility().user {
            let said = (message.seq, message.id, message.text());
            let at = self.said.partition_point(|(seq, ..)| *seq <= message.seq);
            if self.said[..at].last().is_none_or(|(_, id, _)| *id != message.id) {
                self.said.insert(at, said);
            }
        }
    }

    /// Adds a line by the interface itself to the transcript.
    pub(super) fn note(&mut self, weight: Weight, text: String) {
        self.transcript.note(weight, text);
    }
}
