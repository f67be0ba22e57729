//! Storage that writes to the database first and then to the disk of this machine.
//!
//! The copy on disk has the folders and files of any data directory. Ledgers, blobs, locks and the trash
//! belong to the database. Checkpoints, the index and files set aside after damage belong to this machine
//! only.

use crate::server::{Answer, Ask, Row, Server};
use crate::{ConnectError, encryption, sys};
use becket_session::store::{Disk, Io, OpenMode, PathState};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

const LEDGER: &str = "ledger.jsonl";
const LEDGER_NEW: &str = "ledger.new";
const LOCK: &str = "lock";
const LOCK_NEW: &str = "lock.new";
const BLOBS: &str = "blobs";
const STAMP: &str = "trashed";
const SESSIONS: &str = "sessions";
const TRASH: &str = "trash";

/// Sessions in a database, with a copy in a folder of this machine.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    /// Data directory that holds the copy.
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The session and path of each open file, by device and inode number of the file.
    files: HashMap<(u64, u64), Spot>,
    /// Sessions that another process took over. Nothing more is written to them.
    lost: HashSet<Uuid>,
}

/// A file or folder of a session, as found from its path in the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spot {
    place: String,
    project: String,
    id: Uuid,
    /// Path below the session's folder; empty for the folder itself.
    rest: String,
}

impl Postgres {
    /// Connects to the database at `address` (`postgres://user@host/database`) and updates the copy in
    /// `root`.
    ///
    /// # Errors
    ///
    /// Fails if the address is wrong, the server cannot be used, or the copy cannot be written.
    pub fn connect(address: &str, root: &Path) -> Result<Self, ConnectError> {
        let (config, encryption) = encryption::read(address)?;
        let server = Server::start(config, encryption).map_err(ConnectError::Server)?;
        let store = Self { server, root: root.to_path_buf(), state: Mutex::default() };
        store.pull().map_err(|source| ConnectError::Copy { dir: root.display().to_string(), source })?;
        Ok(store)
    }

    /// Updates the copy from the database: takes over lines, sessions, moves and deletions that other machines wrote.
    ///
    /// # Errors
    ///
    /// Returns errors of the database and of the disk.
    pub fn pull(&self) -> io::Result<()> {
        let Answer::Sessions(rows) = self.server.ask(Ask::List(None))? else { return Ok(()) };
        self.drop_others(&rows)?;
        for row in &rows {
            let dir = self.dir(&row.place, &row.project, row.id);
            Disk.create_dir(&dir)?;
            let lock = Disk.open(&dir.join(LOCK), OpenMode::Touch)?;
            // If another process of this machine has the session open, that process keeps the copy up to date.
            if lock.try_lock().is_ok() {
                let pulled = self.pull_session(row, &dir);
                lock.unlock()?;
                pulled?;
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dir(&self, place: &str, project: &str, id: Uuid) -> PathBuf {
        self.root.join(place).join(project).join(id.to_string())
    }

    /// Removes folders of the copy whose sessions were moved or deleted in the database, unless a process has them open.
    fn drop_others(&self, rows: &[Row]) -> io::Result<()> {
        let kept: HashSet<PathBuf> =
            rows.iter().map(|row| self.dir(&row.place, &row.project, row.id)).collect();
        for place in [SESSIONS, TRASH] {
            let there = becket_session::store::session_dirs(&self.root.join(place), None);
            for dir in there.map_err(io::Error::other)? {
                let lock = File::open(dir.join(LOCK));
                let free = lock.as_ref().is_ok_and(|lock| lock.try_lock().is_ok());
                if free && !kept.contains(&dir) {
                    fs::remove_dir_all(&dir)?;
                }
            }
        }
        Ok(())
    }

    /// Updates one session of the copy from the database. The caller must hold the lock of its folder.
    fn pull_session(&self, row: &Row, dir: &Path) -> io::Result<()> {
        let path = dir.join(LEDGER);
        let have = fs::metadata(&path).map_or(0, |m| m.len());
        if have != row.bytes {
            let mut from = if have < row.bytes { have } else { 0 };
            let mut bytes = self.read(row.id, from)?;
            if from > 0 && from + (bytes.len() as u64) < row.bytes {
                // The copy ends inside a piece, so no piece begins there, and the ledger is read from its start.
                from = 0;
                bytes = self.read(row.id, 0)?;
            }
            // The file is emptied or extended, not replaced by another, because another process may have it open for reading.
            let file = Disk.open(&path, if from == 0 { OpenMode::Fresh } else { OpenMode::Append })?;
            write_all(&file, &bytes)?;
        }
        if row.place == TRASH {
            write_all(&Disk.open(&dir.join(STAMP), OpenMode::Fresh)?, row.stamp.as_bytes())?;
        }
        let Answer::Names(names) = self.server.ask(Ask::BlobNames(row.id))? else { return Ok(()) };
        let blobs = dir.join(BLOBS);
        for name in names.into_iter().filter(|name| is_blob(name) && !blobs.join(name).exists()) {
            Disk.create_dir(&blobs)?;
            if let Answer::Bytes(packed) = self.server.ask(Ask::Blob { id: row.id, name: name.clone() })? {
                let new = blobs.join(format!(".tmp-pull-{name}"));
                write_all(&Disk.open(&new, OpenMode::Fresh)?, &packed)?;
                Disk.rename(&new, &blobs.join(&name))?;
            }
        }
        Ok(())
    }

    fn read(&self, id: Uuid, from: u64) -> io::Result<Vec<u8>> {
        match self.server.ask(Ask::Read { id, from })? {
            Answer::Bytes(bytes) => Ok(bytes),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the session and file that a path in the copy belongs to.
    fn spot(&self, path: &Path) -> Option<Spot> {
        let mut parts = path.strip_prefix(&self.root).ok()?.components().map(|part| match part {
            Component::Normal(name) => name.to_str().map(str::to_owned),
            _ => None,
        });
        let place = parts.next()??;
        if place != SESSIONS && place != TRASH {
            return None;
        }
        let (project, id) = (parts.next()??, parts.next()??.parse().ok()?);
        let rest: Option<Vec<String>> = parts.collect();
        Some(Spot { place, project, id, rest: rest?.join("/") })
    }

    fn known(&self, file: &File) -> Option<Spot> {
        let identity = sys::identity(file).ok()?;
        self.state().files.get(&identity).cloned()
    }

    fn learn(&self, file: &File, path: &Path) -> io::Result<()> {
        let identity = sys::identity(file)?;
        let mut state = self.state();
        // The operating system may have reused the inode number of another file, so an old entry is replaced
        // or removed.
        match self.spot(path) {
            Some(spot) => drop(state.files.insert(identity, spot)),
            None => drop(state.files.remove(&identity)),
        }
        Ok(())
    }

    fn put_blob(&self, spot: &Spot, from: &Path) -> io::Result<()> {
        let Some(name) = spot.rest.strip_prefix("blobs/").filter(|name| is_blob(name)) else { return Ok(()) };
        let packed = fs::read(from)?;
        self.server.ask(Ask::PutBlob { id: spot.id, name: name.to_owned(), packed }).map(drop)
    }

    fn lose(&self, spot: &Spot) -> io::Error {
        self.state().lost.insert(spot.id);
        io::Error::other("the session was taken over")
    }

    /// Takes the database lock of a session and updates its copy. Called after the file lock was taken.
    fn locked(&self, spot: &Spot) -> Result<(), TryLockError> {
        let ask = if spot.rest == LOCK_NEW { Ask::TakeOver(spot.id) } else { Ask::Lock(spot.id) };
        match self.server.ask(ask).map_err(TryLockError::Error)? {
            Answer::Yes => {}
            _ => return Err(TryLockError::WouldBlock),
        }
        self.state().lost.remove(&spot.id);
        let listed = self.server.ask(Ask::List(Some(spot.id))).map_err(TryLockError::Error)?;
        if let Answer::Sessions(rows) = listed
            && let Some(row) = rows.first()
        {
            let dir = self.dir(&spot.place, &spot.project, spot.id);
            self.pull_session(row, &dir).map_err(TryLockError::Error)?;
        }
        Ok(())
    }
}

fn is_blob(name: &str) -> bool {
    name.strip_suffix(".zst").is_some_and(|id| id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn write_all(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    io::Write::write_all(&mut file, bytes)
}

impl Io for Postgres {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.create_dir(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        let file = Disk.open(path, mode)?;
        self.learn(&file, path)?;
        Ok(file)
    }

    fn lock(&self, file: &File) -> Result<(), TryLockError> {
        Disk.lock(file)?;
        let Some(spot) = self.known(file) else { return Ok(()) };
        let locked = self.locked(&spot);
        if locked.is_err() {
            let _ = file.unlock();
        }
        locked
    }

    fn unlock(&self, file: &File) -> io::Result<()> {
        if let Some(spot) = self.known(file) {
            // If the server is gone, it has already released the lock.
            let _ = self.server.ask(Ask::Unlock(spot.id));
        }
        file.unlock()
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let Some(spot) = self.known(file).filter(|spot| spot.rest == LEDGER) else {
            return Disk.write(file, bytes);
        };
        let start = Disk.len(file)?;
        match self.server.ask(Ask::Append { id: spot.id, start, bytes: bytes.to_vec() })? {
            Answer::Yes => {}
            _ => return Err(self.lose(&spot)),
        }
        write_all(file, bytes)?;
        Ok(bytes.len())
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        if let Some(spot) = self.known(file).filter(|spot| spot.rest == LEDGER) {
            match self.server.ask(Ask::Cut { id: spot.id, len })? {
                Answer::Yes => {}
                _ => return Err(self.lose(&spot)),
            }
        }
        Disk.set_len(file, len)
    }

    fn len(&self, file: &File) -> io::Result<u64> {
        Disk.len(file)
    }

    /// Does nothing for data that the database has stored durably, because the copy can be made again.
    fn sync(&self, file: &File) -> io::Result<()> {
        match self.known(file) {
            Some(spot) if spot.rest == LEDGER || spot.rest.starts_with("blobs/") => Ok(()),
            _ => Disk.sync(file),
        }
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (Some(old), Some(new)) = (self.spot(from), self.spot(to)) else { return Disk.rename(from, to) };
        if new.rest.is_empty() {
            let stamp = fs::read_to_string(from.join(STAMP)).unwrap_or_default();
            self.server.ask(Ask::Move { id: new.id, place: new.place.clone(), stamp })?;
        } else if new.rest == LEDGER && old.rest == LEDGER_NEW {
            let begin = Ask::Begin { id: new.id, project: new.project.clone(), line: fs::read(from)? };
            match self.server.ask(begin)? {
                Answer::Yes => {}
                _ => return Err(io::ErrorKind::AlreadyExists.into()),
            }
        } else {
            self.put_blob(&new, from)?;
        }
        Disk.rename(from, to)?;
        if let Ok(file) = File::open(to) {
            self.learn(&file, to)?;
        }
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        if let Some(new) = self.spot(to) {
            self.put_blob(&new, from)?;
        }
        Disk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        if let Some(spot) = self.spot(dir).filter(|spot| spot.rest.is_empty()) {
            self.server.ask(Ask::Delete(spot.id))?;
        }
        Disk.remove_dir(dir)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Disk.read(path)
    }

    fn named(&self, file: &File, path: &Path) -> io::Result<PathState> {
        let lost = self.spot(path).is_some_and(|s| s.rest == LOCK && self.state().lost.contains(&s.id));
        if lost { Ok(PathState::Other) } else { Disk.named(file, path) }
    }
}
