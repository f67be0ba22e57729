//! A disk that remembers what it was asked, and what it may hold after the power was lost at any moment of that.

use becket_session::store::{Disk, Io, OpenMode};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// One thing that the disk was asked to do. `usize` is the number of a file in the order of creation; names are given and
/// removed apart from files.
#[derive(Clone, Debug)]
pub enum Op {
    MakeDir(PathBuf),
    /// Gives a file a name; a file may have several.
    Name(PathBuf, usize),
    Unname(PathBuf),
    Rename(PathBuf, PathBuf, usize),
    Append(usize, Vec<u8>),
    Cut(usize, u64),
    Sync(usize),
    SyncDir(PathBuf),
    /// Everything up to this entry was acknowledged as synced.
    Acknowledged(usize),
}

#[derive(Debug, Default)]
pub struct Log {
    pub ops: Vec<Op>,
    pub files: usize,
    open: HashMap<RawFd, usize>,
    pub names: BTreeMap<PathBuf, usize>,
}

/// The disk, and a record of what it was asked.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Log>);

impl Recorder {
    pub fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.0.lock().unwrap()
    }

    pub fn push(&self, op: Op) {
        self.log().ops.push(op);
    }
}

impl Io for Recorder {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<PathBuf> =
            dir.ancestors().take_while(|d| !d.exists()).map(Path::to_path_buf).collect();
        Disk.create_dir(dir)?;
        missing.into_iter().rev().for_each(|dir| self.push(Op::MakeDir(dir)));
        Ok(())
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        let existed = path.exists();
        let file = Disk.open(path, mode)?;
        let mut log = self.log();
        let known = log.names.get(path).copied();
        let id = known.unwrap_or_else(|| {
            log.files += 1;
            log.files
        });
        if !existed {
            log.ops.push(Op::Name(path.to_path_buf(), id));
        } else if mode == OpenMode::Fresh {
            log.ops.push(Op::Cut(id, 0));
        }
        log.names.insert(path.to_path_buf(), id);
        log.open.insert(file.as_raw_fd(), id);
        Ok(file)
    }
    fn lock(&self, file: &File) -> Result<(), TryLockError> {
        Disk.lock(file)
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let n = Disk.write(file, bytes)?;
        let id = self.log().open[&file.as_raw_fd()];
        self.push(Op::Append(id, bytes[..n].to_vec()));
        Ok(n)
    }
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        Disk.set_len(file, len)?;
        let id = self.log().open[&file.as_raw_fd()];
        self.push(Op::Cut(id, len));
        Ok(())
    }
    fn len(&self, file: &File) -> io::Result<u64> {
        Disk.len(file)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        let id = self.log().open[&file.as_raw_fd()];
        self.push(Op::Sync(id));
        Ok(())
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.push(Op::SyncDir(dir.to_path_buf()));
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)?;
        let mut log = self.log();
        let id = log.names.remove(from).unwrap();
        log.names.insert(to.to_path_buf(), id);
        log.ops.push(Op::Rename(from.to_path_buf(), to.to_path_buf(), id));
        Ok(())
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.link(from, to)?;
        let mut log = self.log();
        let id = log.names[from];
        log.names.insert(to.to_path_buf(), id);
        log.ops.push(Op::Name(to.to_path_buf(), id));
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)?;
        let mut log = self.log();
        log.names.remove(path);
        log.ops.push(Op::Unname(path.to_path_buf()));
        Ok(())
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Disk.read(path)
    }
}

/// Names that a disk may have after a power loss.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Names {
    All,
    /// Only names whose folder was synced.
    Forced,
    /// All changes are there, except one that was not synced: this number, counted from the newest.
    Without(usize),
    /// Of the changes that were not synced only one is there: this number, counted from the newest.
    Only(usize),
}

/// Bytes appended since the last sync that each file may have.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Bytes {
    All,
    Forced,
    /// This many 64ths of the bytes. The others are missing, or, if the flag is set, zeros.
    Share(u8, bool),
    /// The first append is zeros, all later ones are there.
    Hole,
}

/// A file's bytes at its last sync, and its operations since then.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pub forced: Vec<u8>,
    pub pending: Vec<Op>,
}

impl Content {
    fn all(&self) -> Vec<u8> {
        let mut bytes = self.forced.clone();
        self.pending.iter().for_each(|op| apply(&mut bytes, op));
        bytes
    }

    fn after(&self, how: Bytes) -> Vec<u8> {
        let whole = self.all();
        // Without the sync, the file may still be as before, also if an operation has shortened it.
        match how {
            Bytes::All => whole,
            Bytes::Forced => self.forced.clone(),
            Bytes::Share(share, zeros) => {
                let from = self.forced.len().min(whole.len());
                let keep = from + (whole.len() - from) * usize::from(share) / 64;
                let mut bytes = whole.clone();
                if zeros {
                    bytes[keep..].fill(0);
                } else {
                    bytes.truncate(keep);
                }
                bytes
            }
            Bytes::Hole => {
                let mut bytes = self.forced.clone();
                for (nth, op) in self.pending.iter().enumerate() {
                    match op {
                        Op::Append(id, new) if nth == 0 => {
                            apply(&mut bytes, &Op::Append(*id, vec![0; new.len()]));
                        }
                        op => apply(&mut bytes, op),
                    }
                }
                bytes
            }
        }
    }
}

/// Bytes that reach a disk together.
const SECTOR: usize = 512;

impl Content {
    /// One possible content after a power loss, drawn at random: of each append all, nothing or some sectors, in any order;
    /// each cut done or not; the length of the file as it is or older. If nothing is drawn (all zeros), everything is there.
    fn some(&self, draw: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
        let (mut bytes, mut length) = (self.forced.clone(), self.forced.len());
        for op in &self.pending {
            match op {
                Op::Append(_, new) => {
                    let whole = draw(4);
                    for (nth, sector) in new.chunks(SECTOR).enumerate() {
                        if whole <= 1 || (whole == 2 && draw(2) == 0) {
                            let (from, to) = (length + nth * SECTOR, length + nth * SECTOR + sector.len());
                            bytes.resize(bytes.len().max(to), 0);
                            bytes[from..to].copy_from_slice(sector);
                        }
                    }
                    length += new.len();
                }
                Op::Cut(_, len) => {
                    length = *len as usize;
                    if draw(2) == 0 {
                        bytes.truncate(length);
                    }
                }
                _ => {}
            }
        }
        match draw(4) {
            // Bytes at the end are missing: the file has its length at the last sync, or a length between that and the full one.
            3 if bytes.len() > self.forced.len() => {
                let behind = (bytes.len() - self.forced.len()) as u64;
                bytes.truncate(self.forced.len() + draw(behind) as usize);
            }
            2 => bytes.resize(bytes.len().max(length), 0),
            _ => {}
        }
        bytes
    }
}

fn apply(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Append(_, new) => bytes.extend_from_slice(new),
        Op::Cut(_, len) => bytes.truncate(*len as usize),
        _ => {}
    }
}

/// Content of the disk at one moment: durable, and pending.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// The folder that exists from the start and is never lost.
    pub root: PathBuf,
    pub files: BTreeMap<usize, Content>,
    pub forced: BTreeMap<PathBuf, Option<usize>>,
    pub pending: Vec<Op>,
    /// Entries that were acknowledged as synced.
    pub acknowledged: usize,
}

fn parent_of(op: &Op) -> Option<&Path> {
    match op {
        Op::MakeDir(path) | Op::Name(path, _) | Op::Unname(path) | Op::Rename(_, path, _) => path.parent(),
        _ => None,
    }
}

fn name(names: &mut BTreeMap<PathBuf, Option<usize>>, op: &Op) {
    match op {
        Op::MakeDir(path) => drop(names.insert(path.clone(), None)),
        Op::Name(path, id) => drop(names.insert(path.clone(), Some(*id))),
        Op::Unname(path) => drop(names.remove(path)),
        Op::Rename(from, to, id) => {
            names.remove(from);
            names.insert(to.clone(), Some(*id));
        }
        _ => {}
    }
}

impl Moment {
    pub fn run(&mut self, op: &Op) {
        match op {
            Op::Append(id, _) | Op::Cut(id, _) => self.files.entry(*id).or_default().pending.push(op.clone()),
            Op::Sync(id) => {
                let file = self.files.entry(*id).or_default();
                file.forced = file.all();
                file.pending.clear();
            }
            Op::SyncDir(dir) => {
                let (now, later) = std::mem::take(&mut self.pending)
                    .into_iter()
                    .partition(|op| parent_of(op) == Some(dir.as_path()));
                self.pending = later;
                let now: Vec<Op> = now;
                for op in &now {
                    name(&mut self.forced, op);
                }
            }
            Op::Acknowledged(entries) => self.acknowledged = *entries,
            _ => self.pending.push(op.clone()),
        }
    }

    /// Files and folders that the disk has if power is lost at this moment.
    pub fn state(&self, names: Names, bytes: Bytes) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let last = self.pending.len();
        let there = |nth: usize| match names {
            Names::All => true,
            Names::Forced => false,
            Names::Without(back) => last - 1 - nth != back,
            Names::Only(back) => last - 1 - nth == back,
        };
        let found = self.names(there);
        self.found(found, |file| file.after(bytes))
    }

    /// The same with names and bytes that were not synced drawn at random, each by itself. No two operations touch the same
    /// bytes, so every subset of them is a state that some order of writing leaves.
    pub fn some_state(&self, draw: &mut impl FnMut(u64) -> u64) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let names = draw(3);
        let found = self.names(|_| names == 0 || draw(2) == 0);
        self.found(found, |file| file.some(draw))
    }

    fn names(&self, mut there: impl FnMut(usize) -> bool) -> BTreeMap<PathBuf, Option<usize>> {
        let mut found = self.forced.clone();
        for (nth, op) in self.pending.iter().enumerate() {
            if there(nth) {
                name(&mut found, op);
            }
        }
        found
    }

    /// The content of the names that were found. A name in a folder that is missing is missing, too.
    fn found(
        &self,
        found: BTreeMap<PathBuf, Option<usize>>,
        mut bytes: impl FnMut(&Content) -> Vec<u8>,
    ) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        // Two names of the same file share its content.
        let mut files: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let mut state: BTreeMap<PathBuf, Option<Vec<u8>>> = BTreeMap::new();
        // The map is sorted, so a folder comes before what is in it.
        for (path, id) in found {
            let there = path.parent().is_some_and(|dir| dir == self.root || state.get(dir) == Some(&None));
            if there {
                let content = id.map(|id| {
                    let made = || bytes(&self.files.get(&id).cloned().unwrap_or_default());
                    files.entry(id).or_insert_with(made).clone()
                });
                state.insert(path, content);
            }
        }
        state
    }
}
