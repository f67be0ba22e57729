//! What was said before in a session that is gone on with: the end of it at once, the whole beside the interface.
//!
//! Owns how much of a ledger is read before the first frame. Reads without a lock; entries that come later are not the past.

use becket_session::{replay, store};
use becket_types::{Entry, EntryKind, Event, Seq};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// A ledger up to this size is read as a whole.
const WHOLE: u64 = 2 * 1024 * 1024;
/// Of a longer one so much of the end, and where that holds no message of the person's, four times as much.
const END: u64 = 512 * 1024;
const LONGEST_END: u64 = 16 * END;

/// What the interface begins with.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub events: Vec<Event>,
    /// There is more before that, up to this entry.
    pub rest: Option<Rest>,
}

/// Where the whole is.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    dir: PathBuf,
    last: Seq,
}

impl Past {
    /// `whole`: all of it, however long that takes.
    pub(super) fn of(dir: &Path, whole: bool) -> Self {
        let ledger = store::ledger_path(dir);
        let length = std::fs::metadata(&ledger).map_or(0, |meta| meta.len());
        let mut bytes = END;
        while !whole && length > WHOLE && bytes <= LONGEST_END {
            if let Some((entries, last)) = end(&ledger, bytes) {
                let rest = Some(Rest { dir: dir.to_owned(), last });
                return Self { events: replay::events(entries), rest };
            }
            bytes *= 4;
        }
        Self { events: Rest { dir: dir.to_owned(), last: Seq(u64::MAX) }.read(), rest: None }
    }
}

impl Rest {
    /// Everything up to the last entry of the past. Blocks.
    pub(super) fn read(&self) -> Vec<Event> {
        let Ok(entries) = store::read_entries(&self.dir) else { return Vec::new() };
        let readable = entries.map_while(Result::ok).filter_map(Result::ok);
        replay::events(readable.take_while(|entry| entry.seq <= self.last))
    }
}

/// The entries from the first message of the person's on in the last bytes, and the last one's number; none where something in
/// them is about what was before.
fn end(ledger: &Path, bytes: u64) -> Option<(Vec<Entry>, Seq)> {
    let all = last_entries(ledger, bytes);
    let last = all.last()?.seq;
    let said = |entry: &Entry| {
        matches!(&entry.kind, EntryKind::Message { message }
        if message.role == becket_types::Role::User && becket_types::visibility(&message.origin).user)
    };
    let from = all.iter().position(said)?;
    let first = all[from].seq;
    let about_before = |entry: &Entry| matches!(&entry.kind, EntryKind::Revert { entry } if *entry < first);
    (!all[from..].iter().any(about_before)).then(|| (all.into_iter().skip(from).collect(), last))
}

/// The entries in the last `bytes` of a ledger, in order.
pub(super) fn last_entries(ledger: &Path, bytes: u64) -> Vec<Entry> {
    let Ok(mut file) = std::fs::File::open(ledger) else { return Vec::new() };
    let from = file.metadata().map_or(0, |meta| meta.len()).saturating_sub(bytes);
    let mut read = Vec::new();
    if file.seek(SeekFrom::Start(from)).is_err() || file.take(bytes).read_to_end(&mut read).is_err() {
        return Vec::new();
    }
    // The first line may be cut.
    let text = String::from_utf8_lossy(&read);
    text.lines().skip(usize::from(from > 0)).flat_map(commit).collect()
}

/// The entries of one commit.
fn commit(line: &str) -> Vec<Entry> {
    let Ok(mut commit) = serde_json::from_str::<serde_json::Value>(line) else { return Vec::new() };
    let lists = commit.as_object_mut().into_iter().flat_map(|map| map.values_mut());
    let lists = lists.filter_map(serde_json::Value::as_array_mut).map(std::mem::take);
    lists.flatten().filter_map(|entry| serde_json::from_value(entry).ok()).collect()
}
