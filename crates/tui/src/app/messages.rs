//! The user's messages, and earlier messages of a continued session. The end is shown at once, the rest when the user
//! scrolls back.
//!
//! The first frame must not wait for a session of any length to load, and memory must not hold all of it. When earlier
//! messages arrive, the rows on the screen stay in place.

use crate::input::{Effect, Request, Stretch};
use crate::menu::Item;
use crate::picker::Row;
use crate::text;
use crate::theme::Theme;
use crate::transcript::{Transcript, Wanted, pasted};
use becket_types::{Event, FileChange, Message, MessageId, Part, Seq, cut_end, cut_start};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The user's messages that are known so far. Rewind offers them.
///
/// Invariant: they are in order, and each is contained once.
#[derive(Default)]
pub(super) struct Messages {
    said: Vec<(Seq, MessageId, String)>,
    /// Changes after a message and before the next one, as far as they were seen.
    changed: BTreeMap<MessageId, Changes>,
    /// The message that new changes belong to.
    last: Option<MessageId>,
    /// Earlier messages are on disk, so the transcript may evict them and read them again.
    pub on_disk: bool,
}

/// Changed files, and the numbers of added and removed lines.
#[derive(Default)]
struct Changes {
    files: BTreeSet<PathBuf>,
    added: u64,
    removed: u64,
}

/// Maximum number of columns for the name of the only file that changed.
const FILE_NAME: usize = 16;

/// Maximum number of bytes of the beginning and of the end of a message in the list.
const PART: usize = 200;

/// The part of the session that a rewind would take back.
pub(super) struct Since {
    pub messages: usize,
    /// The changed files and numbers of lines in a few words; `None` if not all changes are known.
    pub changes: Option<String>,
}

impl Changes {
    fn add(&mut self, more: &Self) {
        self.files.extend(more.files.iter().cloned());
        self.added += more.added;
        self.removed += more.removed;
    }

    /// Returns the changed files and numbers of lines in a few words.
    fn told(&self) -> String {
        let name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
        let files = match (self.files.len(), self.files.first().and_then(name)) {
            (0, _) => return "no file changed".to_owned(),
            (1, Some(name)) => text::fit(&text::visible(&name), FILE_NAME).into_owned(),
            (1, None) => "1 file".to_owned(),
            (n, _) => format!("{n} files"),
        };
        if self.added + self.removed == 0 {
            return files;
        }
        format!("{files} +{} −{}", self.added, self.removed)
    }
}

/// Returns the beginning and the end of a message in one line. The end is part of the line because words after a long paste must be
/// found by a search.
fn name_of(text: &str) -> String {
    let whole = text.len() <= 2 * PART;
    let ends = if whole { [text, ""] } else { [cut_end(text, PART), cut_start(text, PART)] };
    let [begin, end] = ends.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    if end.is_empty() { begin } else { format!("{begin} … {end}") }
}

impl Messages {
    pub(super) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Returns the message with this id and its text.
    pub(super) fn find(&self, id: &str) -> Option<(MessageId, &str)> {
        let (_, id, text) = self.said.iter().find(|(_, said, _)| said.to_string() == id)?;
        Some((*id, text))
    }

    /// Returns how many messages there are from this one to the end of the session, and what their turns changed in files.
    pub(super) fn since(&self, to: &MessageId) -> Since {
        let later = self.said.iter().skip_while(|(_, id, _)| id != to);
        let (mut messages, mut sum) = (0, Some(Changes::default()));
        for (_, id, _) in later {
            messages += 1;
            match (&mut sum, self.changed.get(id)) {
                (Some(sum), Some(changes)) => sum.add(changes),
                _ => sum = None,
            }
        }
        Since { messages, changes: sum.map(|sum| sum.told()) }
    }

    /// Returns the messages as rows of a list, newest first.
    pub(super) fn rows(&self) -> Vec<Row> {
        let detail = |id: &MessageId| self.changed.get(id).map(Changes::told).unwrap_or_default();
        let row = |(_, id, text): &(_, MessageId, String)| {
            let name = name_of(text);
            Row { id: id.to_string(), item: Item { name, detail: detail(id) } }
        };
        self.said.iter().rev().map(row).collect()
    }

    /// Removes the message that the conversation was rewound to, and all after it. Returns its text.
    pub(super) fn take_back(&mut self, to: &MessageId) -> Option<String> {
        let at = self.said.iter().position(|(_, id, _)| id == to)?;
        let text = std::mem::take(&mut self.said[at].2);
        self.said.truncate(at);
        Some(text)
    }

    /// Records a message of the user, so that rewind can offer it, and the changes of a call.
    pub(super) fn remember(&mut self, event: &Event) {
        if let Event::ToolFinished { message, changes, .. } = event {
            return self.remember_changes(message, changes);
        }
        let Event::UserMessage { message, .. } = event else { return };
        if message.visibility().user {
            let said = (message.seq, message.id, pasted::as_written(&message.parts));
            let at = self.said.partition_point(|(seq, ..)| *seq <= message.seq);
            if self.said[..at].last().is_none_or(|(_, id, _)| *id != message.id) {
                self.said.insert(at, said);
            }
            self.changed.entry(message.id).or_default();
            self.last = Some(message.id);
        }
    }

    fn remember_changes(&mut self, message: &Message, changes: &[FileChange]) {
        let Some(of) = self.last.and_then(|last| self.changed.get_mut(&last)) else { return };
        of.files.extend(changes.iter().map(|change| change.path.clone()));
        for part in &message.parts {
            if let Part::ToolResult { details, .. } = part
                && !changes.is_empty()
            {
                let number = |key| details.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
                of.added += number("additions");
                of.removed += number("deletions");
            }
        }
    }

    pub(super) fn remember_all(&mut self, stretch: &Stretch) {
        for event in &stretch.events {
            self.remember(event);
        }
    }

    /// Records an earlier part of the session. It may end in the middle of a turn, so the changes after its last message are
    /// not known.
    fn remember_earlier(&mut self, stretch: &Stretch) {
        let now = self.last.take();
        self.remember_all(stretch);
        if let Some(last) = std::mem::replace(&mut self.last, now) {
            self.changed.remove(&last);
        }
    }

    /// Handles the user's messages of the whole session. Messages that came since the session was read stay after them.
    pub(super) fn complete(&mut self, said: Vec<(Seq, MessageId, String)>) {
        let last = said.last().map_or(Seq(0), |(seq, ..)| *seq);
        let later = self.said.drain(..).filter(|(seq, ..)| *seq > last).collect::<Vec<_>>();
        self.said = said;
        self.said.extend(later);
    }

    /// Handles a part of the session that the transcript asked for. Returns requests for what is in view now.
    pub(super) fn arrived(
        &mut self,
        (from, to): (Seq, Seq),
        result: Result<Option<Stretch>, String>,
        transcript: &mut Transcript,
        theme: &Theme,
    ) -> Vec<Effect> {
        let part = result.as_ref().ok().and_then(|part| part.as_ref()).map(|part| (part.from, part.to));
        match result {
            Ok(Some(part)) => {
                transcript.fill(from, to, &part, theme);
                self.remember_earlier(&part);
            }
            Ok(None) => transcript.gap_stays(from, to),
            Err(why) => transcript.gap_failed(from, to, why),
        }
        transcript.found_past(from, to, part, theme);
        if self.on_disk {
            transcript.let_go();
        }
        wanted_past(transcript)
    }
}

/// Requests the earlier messages that came into view.
pub(super) fn wanted_past(transcript: &mut Transcript) -> Vec<Effect> {
    let ask = |Wanted { from, to, want }| Effect::Ask(Request::Past { from, to, want });
    transcript.wanted_gaps().into_iter().map(ask).collect()
}
