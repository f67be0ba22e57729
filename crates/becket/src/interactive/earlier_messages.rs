//! Earlier messages of a continued session: the end at once, more when the user scrolls back.
//!
//! Reads without a lock and changes nothing. `becket_session` decides where ranges begin and leaves out what a rewind
//! removed.

use crate::assemble::EarlierMessages;
use becket_session::pages::{Page, Pages};
use becket_tui::input::{Reply, Stretch, Want};
use becket_tui::transcript;
use becket_types::{Event, MessageId, NoticeLevel, Seq, TurnEnd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reads the earlier messages of one session.
#[derive(Debug)]
pub(super) struct EarlierMessagesReader {
    place: EarlierMessages,
    pages: Mutex<Pages>,
}

impl EarlierMessagesReader {
    pub(super) fn new(place: EarlierMessages) -> Self {
        Self { pages: Mutex::new(pages_of(&place)), place }
    }

    /// Reads the session that began in this folder.
    pub(super) fn of_new_session(session_dir: &Path) -> Arc<Self> {
        Arc::new(Self::new(EarlierMessages::all(session_dir)))
    }

    /// Returns the folder that holds the session's images and long outputs.
    pub(super) fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// True if the session itself is on disk, so that messages which left the screen can be read again.
    pub(super) fn is_all(&self) -> bool {
        self.place.copy_of.is_none()
    }

    /// Returns the last section of the session's messages. If it cannot be read, adds a note for the user.
    pub(super) fn last_section(&self, notes: &mut Vec<String>) -> Option<Stretch> {
        let end = self.pages().last().map(stretch);
        end.map_err(|error| notes.push(format!("the earlier conversation cannot be shown: {error}"))).ok()
    }

    /// Returns a part of the session between two entries; `to` is excluded. Blocks.
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

    /// Returns the messages that compactions removed from the context. Blocks.
    pub(super) fn removed(&self, entry: Option<Seq>) -> Reply {
        let mut removed = transcript::RemovedMessages::default();
        self.for_each_page(&mut |page| removed.take(&page.events));
        Reply::Removed { entry, removed: removed.removed(entry) }
    }

    /// Returns the text of one message. Blocks.
    pub(super) fn message(&self, seq: Seq) -> Reply {
        let text = self.pages().after(seq, Seq(u64::MAX)).map(|page| transcript::said_in(&page.events, seq));
        Reply::Message { seq, text: text.ok().flatten().unwrap_or_default() }
    }

    /// Returns the user's messages, without those that a rewind removed. Blocks.
    pub(super) fn users_words(&self) -> Reply {
        let mut said: Vec<(Seq, MessageId, String)> = Vec::new();
        self.for_each_page(&mut |page| {
            for event in &page.events {
                if let Event::UserMessage { message, .. } = event
                    && message.visibility().user
                {
                    said.push((message.seq, message.id, transcript::pasted::as_written(&message.parts)));
                }
            }
        });
        Reply::Said(said)
    }

    /// Passes all ranges in order to `take`. Stops at a range that cannot be read.
    fn for_each_page(&self, take: &mut dyn FnMut(&Page)) {
        let _ = pages_of(&self.place).find(Seq(1)..Seq(u64::MAX), false, &mut |page| {
            take(page);
            false
        });
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pages_of(place: &EarlierMessages) -> Pages {
    let pages = Pages::open(&place.dir);
    match place.copy_of {
        Some((_, last)) => pages.upto(last),
        None => pages,
    }
}

fn stretch(page: Page) -> Stretch {
    Stretch { from: page.from, to: page.to, events: page.events }
}

/// Returns the events of the session's end, for a screen reader that cannot scroll back. Begins with a notice if there
/// are earlier messages.
pub(super) fn read_out(end: Stretch) -> impl Iterator<Item = Event> {
    let text = "there is more above; `becket export` writes all of it".to_owned();
    let more = (end.from > Seq(1)).then_some(Event::Notice { level: NoticeLevel::Info, text });
    more.into_iter().chain(end.events.into_iter().filter_map(spoken))
}

/// Replaces the ends of earlier turns, which would ask the user what to do next.
fn spoken(event: Event) -> Option<Event> {
    match event {
        Event::TurnFinished(result) if result.end == TurnEnd::Interrupted => {
            Some(Event::Notice { level: NoticeLevel::Info, text: "This turn was interrupted.".to_owned() })
        }
        Event::TurnFinished(_) => None,
        event => Some(event),
    }
}

/// The places from which the interface reads earlier messages and images of the session again.
pub(super) struct StoredConversation {
    /// The file of the session's ledger.
    pub(super) transcript: PathBuf,
    /// Earlier messages of a continued session.
    pub(super) past: Option<Arc<EarlierMessagesReader>>,
}

impl StoredConversation {
    /// Returns the folder that holds the session's images.
    pub(super) fn folder(&self) -> PathBuf {
        match &self.past {
            Some(past) => past.dir().to_owned(),
            None => self.transcript.parent().map(Path::to_path_buf).unwrap_or_default(),
        }
    }
}
