//! Making a sound copy of a damaged session: everything readable under a new id, and the unreadable rest
//! beside it.
//!
//! The copy is a fork of all readable commits with its own hash chain. The bytes of unreadable lines are saved in `ledger.damaged` in the
//! copy's folder, in their order; damaged blobs in `damaged/`. A notice in the copy says what is missing. The first entry of the copy names
//! the original session and the length of its ledger, so that the same state is copied only once.
//!
//! Invariant: nothing in the original's folder is written, created, locked or removed.

use crate::context::{ModelScope, Policy};
use crate::ledger::{BadKind, BadRecord, Item};
use crate::store::{self, Io, OpenMode, StoreError, layout, write_all};
use crate::{CreateOptions, Durability, Session, blobs};
use becket_types::{EntryKind, SessionId};
use serde_json::{Map, json};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Key in the copy's first entry. The value names the original session and the length of its ledger in bytes.
const REPAIRED: &str = "repaired";
const DAMAGED: &str = "ledger.damaged";
const DAMAGED_BLOBS: &str = "damaged";
/// Maximum number of damaged records that the notice lists individually.
const NAMED: usize = 20;

/// The result of a salvage.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing is damaged, so nothing was copied.
    Sound,
    /// A copy of the session in its current state already exists.
    Done(SessionId),
    /// The readable part was copied to a new session.
    Copied(Box<Salvaged>),
    /// Nothing can be read, so nothing was copied.
    Lost,
}

/// A finished salvage: the copy, and what was saved beside it.
#[derive(Debug)]
pub struct Salvaged {
    pub id: SessionId,
    pub dir: PathBuf,
    /// Number of entries copied from the original, so without the first entry of the copy.
    pub entries: u64,
    pub bad: Vec<BadRecord>,
    /// Number of bytes in `ledger.damaged`.
    pub damaged_bytes: u64,
    /// Names of the blobs in `damaged/`.
    pub blobs: Vec<String>,
}

impl fmt::Display for Salvaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entries are in the copy {} (becket --resume {1})", self.entries, self.id)?;
        for record in self.bad.iter().take(NAMED) {
            write!(f, "; {record}")?;
        }
        if self.bad.len() > NAMED {
            write!(f, "; and {} more", self.bad.len() - NAMED)?;
        }
        if self.damaged_bytes > 0 {
            write!(
                f,
                "; {} bytes are set aside in {}",
                self.damaged_bytes,
                self.dir.join(DAMAGED).display()
            )?;
        }
        if !self.blobs.is_empty() {
            let place = self.dir.join(DAMAGED_BLOBS);
            write!(f, "; {} damaged blobs are in {}", self.blobs.len(), place.display())?;
        }
        f.write_str("; the original is unchanged")
    }
}

/// Copies the readable part of the session in `source` into a new session of the project `cwd` below `root`,
/// if anything in it is damaged.
///
/// # Errors
///
/// Returns the errors of [`Session::fork`], and [`StoreError::Io`] if the damaged part cannot be set aside.
pub fn salvage(
    source: &Path,
    root: &Path,
    cwd: &Path,
    mut options: CreateOptions,
) -> Result<Outcome, StoreError> {
    let failed = || StoreError::io("repair", source);
    let mut bad = Vec::new();
    let (mut entries, mut readable) = (0, false);
    for item in crate::ledger::read(source)? {
        match item.map_err(failed())? {
            Item::Bad(record) => bad.push(record),
            Item::Commit(commit) => {
                readable |= !commit.is_empty();
                entries += commit.iter().filter(|e| e.seq.0 > 1).count() as u64;
            }
        }
    }
    let broken = blobs::damaged(source);
    if bad.is_empty() && broken.is_empty() {
        return Ok(Outcome::Sound);
    }
    if !readable {
        return Ok(Outcome::Lost);
    }
    let from = layout::id_of(source).unwrap_or_default();
    let bytes = fs::metadata(layout::ledger_path(source)).map_err(failed())?.len();
    let mark = json!({ "from": from, "bytes": bytes, "blobs": broken.len() });
    let made = store::list(root, None)?.into_iter().find(|s| s.extra.get(REPAIRED) == Some(&mark));
    if let Some(made) = made {
        return Ok(Outcome::Done(made.id));
    }
    options.extra.insert(REPAIRED.to_owned(), mark);
    let io = std::sync::Arc::clone(&options.outside.io);
    let mut copy =
        Session::fork(source, None, root, cwd, options, Policy::reading(), ModelScope::no_model())?;
    let dir = copy.dir().to_path_buf();
    let aside = set_lines_aside(io.as_ref(), source, &bad, &dir).map_err(failed())?;
    for name in &broken {
        let place = dir.join(DAMAGED_BLOBS);
        io.create_dir(&place)
            .and_then(|()| io.rename(&dir.join(layout::BLOBS).join(name), &place.join(name)))
            .map_err(failed())?;
    }
    let made = Salvaged { id: copy.id(), dir, entries, bad, damaged_bytes: aside, blobs: broken };
    let title = copy.title().map_or_else(|| from.to_string(), str::to_owned);
    let text = format!("This is a repaired copy of session {from}: {made}.");
    copy.append(
        vec![
            EntryKind::Title { title: format!("{title} (repaired)") },
            EntryKind::Notice { text, extra: Map::new() },
        ],
        Durability::Synced,
    )?;
    if !copy.flush() {
        return Err(failed()(io::Error::other(copy.take_notices().join(" "))));
    }
    Ok(Outcome::Copied(Box::new(made)))
}

/// Saves the bytes of all unusable lines unchanged. Returns the number of bytes.
fn set_lines_aside(io: &dyn Io, source: &Path, bad: &[BadRecord], dir: &Path) -> io::Result<u64> {
    let lost = |record: &&BadRecord| !matches!(record.why, BadKind::ChainBreak | BadKind::Entry(_));
    let mut lines = bad.iter().filter(lost).peekable();
    if lines.peek().is_none() {
        return Ok(0);
    }
    let mut ledger = File::open(layout::ledger_path(source))?;
    let file = io.open(&dir.join(DAMAGED), OpenMode::New)?;
    let mut sum = 0;
    let mut chunk = vec![0; 1 << 16];
    for record in lines {
        ledger.seek(SeekFrom::Start(record.offset))?;
        let mut line = (&ledger).take(record.bytes);
        loop {
            let n = line.read(&mut chunk)?;
            if n == 0 {
                break;
            }
            write_all(io, &file, chunk.get(..n).unwrap_or_default())?;
            sum += n as u64;
        }
    }
    io.sync(&file)?;
    Ok(sum)
}
