//! The file `checkpoint` beside a ledger: the state after processing the ledger up to one line, so that
//! opening reads only the rest.
//!
//! It is derived. If it is missing, broken, from another version, or does not belong to the ledger, the ledger is processed from its start,
//! and only time is lost. It contains the hash of the last line that it covers. That hash depends on every earlier line, so a replaced
//! ledger is noticed although these lines are not read.
//!
//! It is written under a temporary name and renamed, never while opening. It is written when a commit ends a
//! turn or compacts, if a compaction is in force and the ledger has grown by [`GROWTH`] and by [`GROWTH_FACTOR`]
//! times the size of the last checkpoint. So it adds little to the amount written and to the cost of a turn,
//! regardless of the session's length, and opening reads at most that much more. It is not synced to disk:
//! its checksum shows if it is complete.

use super::SessionInfo;
use crate::context::view::Checkpoint;
use crate::ledger::{End, Ledger};
use crate::store::{Io, OpenMode, layout, write_all};
use becket_types::{Entry, EntryKind, Seq, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io;
use std::path::Path;

/// Minimum growth of the ledger in bytes before the next checkpoint. If [`GROWTH_FACTOR`] times the size of the last checkpoint is more,
/// that counts.
const GROWTH: u64 = 1 << 20;
const GROWTH_FACTOR: u64 = 24;
/// Size of the checksum line: hex digits and a newline.
const HEAD: usize = 65;
const LEVEL: i32 = 1;
/// Maximum unpacked size in bytes. A longer one is not used. A view normally has a small fraction of this.
const MAX_TEXT: usize = 1 << 30;
/// Version of the checkpoint's content. Change this number when processing entries gives another result.
const FOLD: &str = concat!(env!("CARGO_PKG_VERSION"), " fold 9");

/// The content of the file.
#[derive(Serialize, Deserialize)]
pub(super) struct CheckpointFile {
    fold: String,
    /// Number of ledger bytes covered, the hash of the last covered line, and its last entry.
    bytes: u64,
    head: String,
    last_seq: Seq,
    /// The first entry of the ledger, which describes the session.
    first: Entry,
    pub(super) title: Option<String>,
    pub(super) view: Checkpoint,
}

/// The length of the ledger at the last checkpoint, and the size of that checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    at: u64,
    size: u64,
}

impl CheckpointFile {
    pub(super) fn info(&self) -> Option<SessionInfo> {
        SessionInfo::from_entry(&self.first)
    }

    /// Returns the position in the ledger at which reading continues after this checkpoint.
    pub(super) fn end(&self) -> End {
        End {
            good: self.bytes,
            total: self.bytes,
            open: false,
            head: self.head.clone(),
            last_seq: self.last_seq,
        }
    }
}

/// Reads the checkpoint in this folder; `None` if there is none that belongs to the ledger.
pub(super) fn read(io: &dyn Io, dir: &Path) -> Option<(CheckpointFile, Progress)> {
    let file = io.read(&dir.join(layout::CHECKPOINT)).ok()?;
    let (head, packed) = file.split_at_checked(HEAD)?;
    if head.strip_suffix(b"\n")? != hex(&Sha256::digest(packed)).as_bytes() {
        return None;
    }
    let text = zstd::stream::decode_all(packed).ok().filter(|text| text.len() <= MAX_TEXT)?;
    let saved: CheckpointFile = serde_json::from_slice(&text).ok()?;
    let belongs = saved.fold == FOLD
        && saved.last_seq == saved.view.last_seq()
        && crate::ledger::has_line_ending(dir, saved.bytes, &saved.head);
    let progress = Progress { at: saved.bytes, size: file.len() as u64 };
    belongs.then_some((saved, progress))
}

/// True if a checkpoint may be written after a commit with these entries.
pub(super) fn ends_turn_or_compaction(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| matches!(entry.kind, EntryKind::Compaction(_) | EntryKind::TurnEnd { .. }))
}

/// True if the ledger has grown enough since the last checkpoint: by [`GROWTH`], and by [`GROWTH_FACTOR`] times its size.
pub(super) fn is_due(ledger: &Ledger, last: Progress) -> bool {
    ledger.end_on_disk().is_some_and(|end| end.good >= last.at + GROWTH.max(GROWTH_FACTOR * last.size))
}

/// Writes a checkpoint of a ledger. A failure is ignored, because a checkpoint is derived data.
pub(super) fn write(
    io: &dyn Io,
    dir: &Path,
    ledger: &Ledger,
    info: &SessionInfo,
    title: Option<&str>,
    view: Checkpoint,
) -> Option<Progress> {
    let end = ledger.end_on_disk()?;
    let saved = CheckpointFile {
        fold: FOLD.to_owned(),
        bytes: end.good,
        head: end.head,
        last_seq: end.last_seq,
        first: Entry { seq: Seq(1), time: becket_types::Millis(0), kind: info.entry() },
        title: title.map(str::to_owned),
        view,
    };
    // The serialiser writes a few bytes at a time, and each call of the compressor is expensive, so a buffer
    // is used.
    let packed = zstd::stream::write::Encoder::new(Vec::new(), LEVEL).ok()?;
    let mut text = io::BufWriter::with_capacity(1 << 16, packed);
    serde_json::to_writer(&mut text, &saved).ok()?;
    let packed = text.into_inner().ok()?.finish().ok()?;
    let mut file = hex(&Sha256::digest(&packed)).into_bytes();
    file.push(b'\n');
    file.extend_from_slice(&packed);
    put(io, dir, &file).ok()?;
    Some(Progress { at: saved.bytes, size: file.len() as u64 })
}

fn put(io: &dyn Io, dir: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = dir.join(layout::CHECKPOINT_NEW);
    let written = io
        .open(&new, OpenMode::Fresh)
        .and_then(|file| write_all(io, &file, bytes))
        .and_then(|()| io.rename(&new, &dir.join(layout::CHECKPOINT)));
    if written.is_err() {
        let _ = io.remove(&new);
    }
    written
}

impl Progress {
    /// Records that a checkpoint could not be written. The next attempt follows after the ledger has grown by the same amount again.
    pub(super) fn failed(self, ledger: &Ledger) -> Self {
        Self { at: ledger.end_on_disk().map_or(self.at, |end| end.good), ..self }
    }
}
