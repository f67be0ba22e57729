//! becket's own JSONL: the ledger's lines as they are, and blobs behind them where they were exported.
//!
//! A line `{"blob":ID,"zstd":BASE64}` is a blob as it is stored; it is checked against its name. All other lines are the
//! ledger, byte for byte, damaged ones included. Everything is written beside its place and renamed into it, so a session
//! is there whole or not at all.

use crate::ledger::{BadRecord, Item, Reader, claimed_format};
use crate::session::{FORMAT, Session};
use crate::store::{Io, OpenMode, Outside, StoreError, layout, session_dirs, write_all};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{EntryKind, SessionId};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How a line with a blob begins.
const BLOB: &[u8] = b"{\"blob\":\"";

/// A blob as a line of an export.
#[derive(Serialize, Deserialize)]
struct BlobLine {
    blob: String,
    zstd: String,
}

/// What an import of becket's own file came to.
#[derive(Debug)]
pub struct Imported {
    pub id: SessionId,
    pub dir: PathBuf,
    pub lines: u64,
    pub blobs: u64,
    /// The same session was there already, byte for byte.
    pub was_there: bool,
    /// Damaged lines, kept as they are.
    pub bad: Vec<BadRecord>,
    /// Blobs that are not what their name says; left out.
    pub bad_blobs: Vec<String>,
}

/// Puts the session of this file below `root`, under its own id, into the project of its own directory, or of `cwd`.
///
/// # Errors
/// [`StoreError::Exists`] when another session has this id, [`StoreError::NotFound`] when the first line names no session,
/// [`StoreError::Newer`] when it has a later format (nothing is taken in then: it could not be opened), [`StoreError::Io`].
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
    let mut imported =
        Imported { id, dir: dir.clone(), lines, blobs: 0, was_there: false, bad, bad_blobs: Vec::new() };
    let there = session_dirs(root, None).into_iter().find(|dir| layout::id_of(dir) == Some(id));
    if let Some(there) = there {
        let path = layout::ledger_path(&there);
        if fs::read(&path).map_err(StoreError::io("read", &path))? != ledger {
            return Err(StoreError::Exists { id });
        }
        imported.was_there = true;
        imported.dir = there;
    }
    let io = Outside::default().io;
    put_blobs(io.as_ref(), &mut imported, &blobs)?;
    if !imported.was_there {
        let failed = StoreError::io("write", &dir);
        write(io.as_ref(), &dir, &ledger).map_err(failed)?;
        // Opening would set a torn end aside; that is for whoever goes on with it.
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
        let packed =
            STANDARD.decode(&line.zstd).ok().filter(|packed| crate::blobs::is_packed(packed, &line.blob));
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

/// All blobs of a session as lines, in the order of their names. `without_secrets`: those that hold one are left out, because
/// their name is the hash of their content; gives the number of these secrets.
pub(crate) fn write_blobs(
    session_dir: &Path,
    without_secrets: bool,
    out: &mut dyn io::Write,
) -> io::Result<usize> {
    let mut left_out = 0;
    let dir = session_dir.join(layout::BLOBS);
    let mut names: Vec<String> = match fs::read_dir(&dir) {
        Ok(entries) => entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e),
    };
    names.sort_unstable();
    for name in names {
        let Some(blob) = name.strip_suffix(".zst") else { continue };
        let packed = fs::read(dir.join(&name))?;
        let secrets = if without_secrets { secrets_in(&packed) } else { 0 };
        if secrets > 0 {
            left_out += secrets;
            continue;
        }
        let line = BlobLine { blob: blob.to_owned(), zstd: STANDARD.encode(packed) };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    Ok(left_out)
}

/// The number of secrets in a blob; none in one that is not text.
fn secrets_in(packed: &[u8]) -> usize {
    let bytes = zstd::stream::decode_all(packed).unwrap_or_default();
    std::str::from_utf8(&bytes).map_or(0, |text| crate::secrets::find(text).len())
}
