//! The file `checkpoint` beside a ledger: what folding it came to, up to one line, so that opening reads only what follows.
//!
//! It is derived. Whoever finds none, a broken one, one of another version or one that does not belong to this ledger folds
//! the ledger from its start, and nothing is lost but time. It names the hash of the line it ends with, and that hash covers
//! every line before: a ledger that became another one is noticed. Lines before it are not read again on opening.
//!
//! Written beside its place and renamed into it, when a commit ends a turn or compacts, a compaction is in force, and the
//! ledger has grown by [`GROWTH`] and by [`SHARE`] times the size of the last one: so it adds little to what is written and to
//! what a turn costs, however long the session is, and opening reads no more than that on top of it. Never on opening. Not forced to disk: its checksum says whether it is whole.

use super::SessionInfo;
use crate::context::view::Checkpoint;
use crate::ledger::{End, Ledger};
use crate::store::{Io, OpenMode, layout, write_all};
use becket_types::{Entry, EntryKind, Seq, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io;
use std::path::Path;

/// Bytes that a ledger grows by before a checkpoint is worth its while.
const GROWTH: u64 = 1 << 20;
const SHARE: u64 = 24;
/// Hex digits of the checksum in front, and a newline.
const HEAD: usize = 65;
const LEVEL: i32 = 1;
/// Packed text of a view is a small multiple of this at most.
const MAX_TEXT: usize = 1 << 30;
/// Whoever changes what folding gives changes this number or the version of the program.
const FOLD: &str = concat!(env!("CARGO_PKG_VERSION"), " fold 8");

/// What is in the file.
#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    fold: String,
    /// Bytes of the ledger that are folded, the hash of the last of these lines, and its last entry.
    bytes: u64,
    head: String,
    last_seq: Seq,
    /// The session's first entry.
    first: Entry,
    pub(super) title: Option<String>,
    pub(super) view: Checkpoint,
}

/// Where the ledger was when its last checkpoint was written, and how long that is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    at: u64,
    size: u64,
}

impl Saved {
    pub(super) fn info(&self) -> Option<SessionInfo> {
        SessionInfo::of(&self.first)
    }

    /// Where reading goes on.
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

/// The checkpoint of the session in this folder, when there is one that belongs to its ledger.
pub(super) fn read(io: &dyn Io, dir: &Path) -> Option<(Saved, Progress)> {
    let file = io.read(&dir.join(layout::CHECKPOINT)).ok()?;
    let (head, packed) = file.split_at_checked(HEAD)?;
    if head.strip_suffix(b"\n")? != hex(&Sha256::digest(packed)).as_bytes() {
        return None;
    }
    let text = zstd::stream::decode_all(packed).ok().filter(|text| text.len() <= MAX_TEXT)?;
    let saved: Saved = serde_json::from_slice(&text).ok()?;
    let belongs = saved.fold == FOLD
        && saved.last_seq == saved.view.last_seq()
        && crate::ledger::has_line_ending(dir, saved.bytes, &saved.head);
    let progress = Progress { at: saved.bytes, size: file.len() as u64 };
    belongs.then_some((saved, progress))
}

/// Whether a commit with these entries is a moment for a checkpoint.
pub(super) fn is_moment(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| matches!(entry.kind, EntryKind::Compaction(_) | EntryKind::TurnEnd { .. }))
}

/// Whether the ledger has grown enough since the last one.
pub(super) fn is_due(ledger: &Ledger, last: Progress) -> bool {
    ledger.end_on_disk().is_some_and(|end| end.good >= last.at + GROWTH.max(SHARE * last.size))
}

/// Writes the checkpoint of a ledger that ends here. Failing is no matter: it is derived.
pub(super) fn write(
    io: &dyn Io,
    dir: &Path,
    ledger: &Ledger,
    info: &SessionInfo,
    title: Option<&str>,
    view: Checkpoint,
) -> Option<Progress> {
    let end = ledger.end_on_disk()?;
    let saved = Saved {
        fold: FOLD.to_owned(),
        bytes: end.good,
        head: end.head,
        last_seq: end.last_seq,
        first: Entry { seq: Seq(1), time: becket_types::Millis(0), kind: info.entry() },
        title: title.map(str::to_owned),
        view,
    };
    // The serializer writes a few bytes at a time; each call of the packer costs more than packing them.
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
    /// After a failure: not tried again before the ledger has grown as much again.
    pub(super) fn failed(self, ledger: &Ledger) -> Self {
        Self { at: ledger.end_on_disk().map_or(self.at, |end| end.good), ..self }
    }
}
