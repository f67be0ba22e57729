//! Import of becket's own JSONL: the ledger's lines unchanged, followed by blobs if they were exported.
//!
//! A line `{"blob":ID,"zstd":BASE64}` is a blob in its stored form; it is checked against its id. All other
//! lines are the ledger, byte for byte, including damaged ones. Everything is written under a temporary name
//! and then renamed, so a session exists completely or not at all.

use crate::export::{BLOB, BlobLine};
use crate::ledger::{BadRecord, Item, Reader, claimed_format};
use crate::session::{FORMAT, Session};
use crate::store::{Io, OpenMode, Outside, StoreError, layout, session_dirs, write_all};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{EntryKind, SessionId};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The result of importing becket's own file.
#[derive(Debug)]
pub struct Imported {
    pub id: SessionId,
    pub dir: PathBuf,
    pub lines: u64,
    pub blobs: u64,
    /// True if this session already existed: the same lines, or these lines and later ones.
    pub was_there: bool,
    /// True if the session that existed has lines after those of the file.
    pub went_on: bool,
    /// Damaged lines, kept unchanged.
    pub bad: Vec<BadRecord>,
    /// Blobs whose content does not match their id; left out.
    pub bad_blobs: Vec<String>,
}

/// Stores the session of this file below `root` with its own id, in the project of its own directory or of
/// `cwd`.
///
/// # Errors
///
/// Returns [`StoreError::Exists`] if a session with this id has other lines than the file, [`StoreError::NotFound`] if the first line
/// names no session, [`StoreError::Newer`] if it has a later format (nothing is stored then, because it could
/// not be opened), or [`StoreError::Io`].
pub fn import_own(root: &Path, bytes: &[u8], cwd: Option<&Path>) -> Result<Imported, StoreError> {
    let mut ledger = Vec::with_capacity(bytes.len());
    let mut blobs = Vec::new();
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        match line.starts_with(BLOB).then(|| serde_json::from_slice::<BlobLine>(line)) {
            Some(Ok(blob)) => blobs.push(blob),
            _ => ledger.extend_from_slice(line),
        }
    }
    let (mut bad, mut first, mut lines) = (Vec::new(), None, 0);
    for item in Reader::new(ledger.as_slice()) {
        match item.map_err(StoreError::io("read", root))? {
            Item::Bad(record) => bad.push(record),
            Item::Commit(entries) => {
                lines += 1;
                first = first.or_else(|| entries.into_iter().next());
            }
        }
    }
    let claimed = claimed_format(&mut ledger.as_slice()).filter(|(format, _)| *format > FORMAT);
    let first = first.map(|entry| entry.kind);
    if let Some((format, version)) = claimed {
        let id =
            if let Some(EntryKind::Session { session, .. }) = first { session } else { SessionId::default() };
        return Err(StoreError::Newer { id, format, known: FORMAT, version });
    }
    let Some(EntryKind::Session { session: id, cwd: own, extra, .. }) = first else {
        return Err(StoreError::NotFound { query: "a session in the first line of this file".to_owned() });
    };
    let own = crate::store::cwd_of(&own, &extra);
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
    let there = session_dirs(root, None).into_iter().find(|dir| layout::id_of(dir) == Some(id));
    if let Some(there) = there {
        let path = layout::ledger_path(&there);
        let known = fs::read(&path).map_err(StoreError::io("read", &path))?;
        // Lines are only appended, so a session that went on since its export begins with the export.
        let Some(later) = known.strip_prefix(ledger.as_slice()) else {
            return Err(StoreError::Exists { id });
        };
        imported.went_on = !later.is_empty();
        imported.was_there = true;
        imported.dir = there;
    }
    let io = Outside::default().io;
    put_blobs(io.as_ref(), &mut imported, &blobs)?;
    if !imported.was_there {
        let failed = StoreError::io("write", &dir);
        write(io.as_ref(), &dir, &ledger).map_err(failed)?;
        // Opening a damaged session would set its torn end aside. That is left to the user who continues it.
        if imported.bad.is_empty() {
            drop(ledger);
            Session::prepare(&dir);
        }
    }
    Ok(imported)
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

fn put_blobs(io: &dyn Io, imported: &mut Imported, blobs: &[BlobLine]) -> Result<(), StoreError> {
    if blobs.is_empty() {
        return Ok(());
    }
    let dir = imported.dir.join(layout::BLOBS);
    let failed = || StoreError::io("write", &dir);
    io.create_dir(&dir).map_err(failed())?;
    for line in blobs {
        let packed = STANDARD
            .decode(&line.zstd)
            .ok()
            .filter(|packed| crate::blobs::is_packed(packed.as_slice(), &line.blob));
        let Some(packed) = packed else {
            imported.bad_blobs.push(line.blob.clone());
            continue;
        };
        let path = dir.join(format!("{}.zst", line.blob));
        if !path.exists() {
            let new = dir.join(format!("{}.new", line.blob));
            let file = io.open(&new, OpenMode::Fresh).map_err(failed())?;
            write_all(io, &file, &packed).map_err(failed())?;
            io.sync(&file).map_err(failed())?;
            io.rename(&new, &path).map_err(failed())?;
        }
        imported.blobs += 1;
    }
    io.sync_dir(&dir).map_err(failed())
}
