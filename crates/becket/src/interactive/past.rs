//! What was said before in a session that is gone on with: the end of it at once, more when somebody reads back.
//!
//! Reads without a lock and changes nothing. Where stretches begin and what rewinds took out is the session's business.

use becket_session::StoreError;
use becket_session::pages::{Page, Pages};
use becket_tui::input::{Reply, Stretch, Want};
use becket_tui::transcript;
use becket_types::{Event, MessageId, NoticeLevel, Seq, TurnEnd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was said before.
#[derive(Debug)]
pub(super) struct Past {
    dir: PathBuf,
    pages: Mutex<Pages>,
}

impl Past {
    pub(super) fn of(session_dir: &Path) -> Self {
        Self { dir: session_dir.to_owned(), pages: Mutex::new(Pages::of(session_dir)) }
    }

    /// The end of it.
    pub(super) fn end(&self) -> Result<Stretch, StoreError> {
        self.pages().last().map(stretch)
    }

    /// A part of it, from one entry to before another. Blocks.
    pub(super) fn part(&self, from: Seq, to: Seq, want: Want) -> Reply {
        let mut pages = self.pages();
        let page = match want {
            Want::Start => pages.after(from, to).map(Some),
            Want::End => pages.before(from, to).map(Some),
            Want::Saying { words, back } => {
                pages.find(from..to, back, &mut |page| transcript::says(&page.events, &words))
            }
        };
        let result = page.map(|page| page.map(stretch)).map_err(|error| error.to_string());
        Reply::Past { from, to, result }
    }

    /// What compactions folded away. Blocks.
    pub(super) fn folded(&self, entry: Option<Seq>) -> Reply {
        let mut folds = transcript::Folds::default();
        self.all(&mut |page| folds.take(&page.events));
        Reply::Folded { entry, folded: folds.folded(entry) }
    }

    /// What one message says. Blocks.
    pub(super) fn message(&self, seq: Seq) -> Reply {
        let text = self.pages().after(seq, Seq(u64::MAX)).map(|page| transcript::said_in(&page.events, seq));
        Reply::Message { seq, text: text.ok().flatten().unwrap_or_default() }
    }

    /// The person's messages, those that a rewind took out left out. Blocks.
    pub(super) fn said(&self) -> Reply {
        let mut said: Vec<(Seq, MessageId, String)> = Vec::new();
        self.all(&mut |page| {
            for event in &page.events {
                if let Event::UserMessage { message, .. } = event
                    && message.visibility().user
                {
                    said.push((message.seq, message.id, message.text()));
                }
            }
        });
        Reply::Said(said)
    }

    /// From the first stretch to the last; what cannot be read ends it.
    fn all(&self, take: &mut dyn FnMut(&Page)) {
        let _ = Pages::of(&self.dir).find(Seq(1)..Seq(u64::MAX), false, &mut |page| {
            take(page);
            false
        });
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stretch(page: Page) -> Stretch {
    Stretch { from: page.from, to: page.to, events: page.events }
}

/// The events of the end, for somebody who cannot read back; that there is more is said.
pub(super) fn read_out(end: Stretch) -> impl Iterator<Item = Event> {
    let text = "more was said before this; `becket export` has all of it".to_owned();
    let more = (end.from > Seq(1)).then_some(Event::Notice { level: NoticeLevel::Info, text });
    more.into_iter().chain(end.events.into_iter().filter_map(spoken))
}

/// The ends of earlier turns are no invitation to go on.
fn spoken(event: Event) -> Option<Event> {
    match event {
        Event::TurnFinished(result) if result.end == TurnEnd::Interrupted => {
            Some(Event::Notice { level: NoticeLevel::Info, text: "This turn was interrupted.".to_owned() })
        }
        Event::TurnFinished(_) => None,
        event => Some(event),
    }
}
