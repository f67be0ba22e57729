//! Stores a session that was copied as bytes: its ledger, byte for byte, including damaged lines, and its blobs.
//!
//! Each blob is checked against its id. Everything is written under a temporary name and then renamed, so a session exists completely or
//! not at all. Does not know the file formats in which copies travel: the crate `exchange` reads them.
//!
//! A copy may come from somebody else. Then one line is appended to its ledger that takes back what an edited ledger could grant: it sets
//! the state entries that the caller names to `null`, and marks the earlier lines as imported, so that file changes made elsewhere cannot
//! be undone here.

use crate::blobs::is_packed;
use crate::ledger::line::Draft;
use crate::ledger::{BadRecord, End, Item, MAX_SEQ, Reader, claimed_format};
use crate::session::{FORMAT, Session};
use crate::store::{Io, OpenMode, Outside, StoreError, cwd_of, layout, session_dirs, write_all};
use becket_types::{Entry, EntryKind, Seq, SessionId};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A copied session.
#[derive(Debug, Default)]
pub struct SessionCopy {
    /// The lines of the ledger.
    pub ledger: Vec<u8>,
    pub blobs: Vec<CopiedBlob>,
}

/// A blob of a copied session, in its stored form.
#[derive(Debug)]
pub struct CopiedBlob {
    /// Hex SHA-256 of the bytes before compression.
    pub id: String,
    /// Compressed with zstd.
    pub packed: Vec<u8>,
}

/// The result of storing a copied session.
#[derive(Debug)]
pub struct Imported {
    pub id: SessionId,
    /// Folder of the session: the new one, or that of the session that already existed.
    pub dir: PathBuf,
    /// Number of ledger lines of the copy that could be read and whose hashes match.
    pub lines: u64,
    /// Number of blobs of the copy that were stored, or that the session already had.
    pub blobs: u64,
    /// True if this session already existed: the same lines, or these lines and later ones.
    pub was_there: bool,
    /// True if the session that existed has lines after those of the copy, apart from the mark of an earlier import.
    pub went_on: bool,
    /// Damaged lines of the ledger. They were stored unchanged.
    pub bad: Vec<BadRecord>,
    /// Ids of the blobs whose content does not match their id. They were not stored.
    pub bad_blobs: Vec<String>,
}

/// Stores a copied session below `root` with its own id, in the project of its own directory or of `cwd`.
///
/// `given_up`: others may have made the copy. A new session then ends with a line that sets these states to `null` and marks
/// the place with [`EntryKind::IMPORTED`]. `None`: the user made it, and it keeps everything.
///
/// # Errors
///
/// Returns [`StoreError::Exists`] if a session with this id has other lines than the copy, [`StoreError::NotFound`] if the first line
/// names no session, [`StoreError::Newer`] if it has a later format (nothing is stored then, because it could
/// not be opened), or [`StoreError::Io`].
pub fn adopt(
    root: &Path,
    mut copy: SessionCopy,
    cwd: Option<&Path>,
    given_up: Option<&[&str]>,
) -> Result<Imported, StoreError> {
    let (mut bad, mut first, mut lines) = (Vec::new(), None, 0);
    let mut reader = Reader::new(copy.ledger.as_slice());
    for item in &mut reader {
        match item.map_err(StoreError::io("read", root))? {
            Item::Bad(record) => bad.push(record),
            Item::Commit(entries) => {
                lines += 1;
                first = first.or_else(|| entries.into_iter().next());
            }
        }
    }
    let last_line = given_up
        .map(|states| last_line(reader.end(), states))
        .transpose()
        .map_err(StoreError::io("read", root))?;
    let claimed = claimed_format(&mut copy.ledger.as_slice()).filter(|(format, _)| *format > FORMAT);
    let first = first.map(|entry| entry.kind);
    if let Some((format, version)) = claimed {
        let id =
            if let Some(EntryKind::Session { session, .. }) = first { session } else { SessionId::default() };
        return Err(StoreError::Newer { id, format, known: FORMAT, version });
    }
    let Some(EntryKind::Session { session: id, cwd: own, extra, .. }) = first else {
        return Err(StoreError::NotFound { query: "a session in the first line of this file".to_owned() });
    };
    let own = cwd_of(&own, &extra);
    let dir = layout::session_dir(root, cwd.unwrap_or(&own), id);
    let mut imported = Imported {
        id,
        dir: dir.clone(),
        lines,
        blobs: 0,
        was_there: false,
        went_on: false,
        bad,
        bad_blobs: Vec::new(),
    };
    let there = session_dirs(root, None)?.into_iter().find(|dir| layout::id_of(dir) == Some(id));
    if let Some(there) = there {
        let path = layout::ledger_path(&there);
        let known = fs::read(&path).map_err(StoreError::io("read", &path))?;
        // Lines are only appended. So the ledger of a session that was continued after its export begins with the exported lines.
        let Some(later) = known.strip_prefix(copy.ledger.as_slice()) else {
            return Err(StoreError::Exists { id });
        };
        let mut lines = later.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        imported.went_on = lines.next().is_some_and(|line| !is_mark(line)) || lines.next().is_some();
        imported.was_there = true;
        imported.dir = there;
    }
    let io = Outside::default().io;
    put_blobs(io.as_ref(), &mut imported, &copy.blobs)?;
    if !imported.was_there {
        let failed = StoreError::io("write", &dir);
        if let Some(line) = last_line {
            if !copy.ledger.ends_with(b"\n") {
                copy.ledger.push(b'\n');
            }
            copy.ledger.extend_from_slice(&line);
        }
        write(io.as_ref(), &dir, &copy.ledger).map_err(failed)?;
        // Opening a damaged session would move the broken end of its ledger to a side file. The user triggers that by continuing the
        // session.
        if imported.bad.is_empty() {
            drop(copy);
            Session::prepare(&dir);
        }
    }
    Ok(imported)
}

/// Returns the line to append after the copy's last one. It sets these states to `null` and adds the mark [`EntryKind::IMPORTED`].
fn last_line(end: &End, states: &[&str]) -> io::Result<Vec<u8>> {
    let mut seq = end.last_seq.0;
    let mut entry = |key: &str, value: Value| {
        seq += 1;
        let kind = EntryKind::State { key: key.to_owned(), value };
        Entry { seq: Seq(seq), time: crate::store::wall_clock(), kind }
    };
    let mut entries: Vec<Entry> = states.iter().map(|key| entry(key, Value::Null)).collect();
    entries.push(entry(EntryKind::IMPORTED, Value::Bool(true)));
    // The reader rejects a line with higher sequence numbers.
    if seq > MAX_SEQ {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the numbers of its entries leave no room for another",
        ));
    }
    Ok(Draft::new(&end.head, &entries)?.finish().0)
}

/// True for a line that [`last_line`] wrote: it has the key of the import mark.
fn is_mark(line: &[u8]) -> bool {
    memchr::memmem::find(line, format!("\"key\":\"{}\"", EntryKind::IMPORTED).as_bytes()).is_some()
}

fn write(io: &dyn Io, dir: &Path, ledger: &[u8]) -> io::Result<()> {
    io.create_dir(dir)?;
    let new = dir.join(layout::LEDGER_NEW);
    let file = io.open(&new, OpenMode::Fresh)?;
    write_all(io, &file, ledger)?;
    io.sync(&file)?;
    io.open(&dir.join(layout::LOCK), OpenMode::Touch)?;
    io.rename(&new, &dir.join(layout::LEDGER))?;
    io.sync_dir(dir)
}

fn put_blobs(io: &dyn Io, imported: &mut Imported, blobs: &[CopiedBlob]) -> Result<(), StoreError> {
    if blobs.is_empty() {
        return Ok(());
    }
    let dir = imported.dir.join(layout::BLOBS);
    let failed = || StoreError::io("write", &dir);
    io.create_dir(&dir).map_err(failed())?;
    for blob in blobs {
        if !is_packed(blob.packed.as_slice(), &blob.id) {
            imported.bad_blobs.push(blob.id.clone());
            continue;
        }
        let path = dir.join(format!("{}.zst", blob.id));
        if !path.exists() {
            let new = dir.join(format!("{}.new", blob.id));
            let file = io.open(&new, OpenMode::Fresh).map_err(failed())?;
            write_all(io, &file, &blob.packed).map_err(failed())?;
            io.sync(&file).map_err(failed())?;
            io.rename(&new, &path).map_err(failed())?;
        }
        imported.blobs += 1;
    }
    io.sync_dir(&dir).map_err(failed())
}
