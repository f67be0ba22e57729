//! Reads a git repository: the files of the workspace that are tracked and unchanged, and the objects that hold them.
//!
//! The index is read as a file (versions 2 to 4, SHA-1). A split, sparse or SHA-256 index is treated as missing: every file then
//! counts as untracked and is kept, which is slower but never less safe. The user's repository is only read, never written.

use crate::sys::{self, Meta};
use becket_types::{FileStamp, hex};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest wait for one answer of git.
const PATIENCE: Duration = Duration::from_secs(10);

/// A larger index, in bytes, is not read.
const MAX_INDEX: u64 = 64 << 20;

/// A larger text file of git, in bytes, is not read.
const MAX_TEXT: u64 = 1 << 20;

/// The folders of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repo {
    /// The top of the working tree.
    pub top: PathBuf,
    /// The directory with HEAD and index.
    pub dir: PathBuf,
    /// The directory with objects and branches. Further working trees use the one of the main working tree.
    pub common: PathBuf,
}

impl Repo {
    /// Finds the repository that contains `dir`.
    pub(crate) fn find(dir: &Path) -> Option<Self> {
        dir.ancestors().find_map(Self::at)
    }

    /// The repository whose working tree begins at `top`.
    pub(crate) fn at(top: &Path) -> Option<Self> {
        let dot = top.join(".git");
        let dir = match sys::lstat(&dot).ok()?.kind {
            sys::Kind::Dir => dot,
            sys::Kind::File => {
                let text = becket_files::read_text(&dot, MAX_TEXT).ok()?;
                top.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?
            }
            _ => return None,
        };
        let common = becket_files::read_text(&dir.join("commondir"), MAX_TEXT)
            .ok()
            .and_then(|text| dir.join(text.trim()).canonicalize().ok())
            .unwrap_or_else(|| dir.clone());
        dir.join("HEAD").exists().then(|| Self { top: top.to_path_buf(), dir, common })
    }

    /// The repository that has this `.git`. If `.git` is damaged, the repository consists of this folder only.
    pub(crate) fn of(dot: &Path) -> Option<Self> {
        let top = dot.parent()?;
        Self::at(top).or_else(|| {
            let is_dir = sys::lstat(dot).is_ok_and(|meta| meta.kind == sys::Kind::Dir);
            let dot = || dot.to_path_buf();
            is_dir.then(|| Self { top: top.to_path_buf(), dir: dot(), common: dot() })
        })
    }

    /// Contents of these objects, in the same order; `None` for each that git cannot read.
    pub(crate) fn objects(&self, ids: &[&str]) -> Vec<Option<Vec<u8>>> {
        self.ask("--batch", ids, answer).unwrap_or_else(|| vec![None; ids.len()])
    }

    /// For each id, in the same order: true if git can read the object, be it loose, packed or from an alternate.
    pub(crate) fn has(&self, ids: &[&str]) -> Vec<bool> {
        let there = |out: &mut BufReader<ChildStdout>| {
            let mut line = String::new();
            out.read_line(&mut line).is_ok_and(|length| length > 0) && !line.trim_end().ends_with(" missing")
        };
        self.ask("--batch-check", ids, there).unwrap_or_else(|| vec![false; ids.len()])
    }

    /// Returns the id of the object in a file of this repository, if it is a loose object.
    pub(crate) fn loose_object(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(self.common.join("objects")).ok()?.to_str()?.replace('/', "");
        let is_name = matches!(name.len(), 40 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_name.then_some(name)
    }

    /// Asks `git cat-file` about objects. `read` reads one answer; `None` if there is none.
    fn ask<T>(
        &self,
        how: &str,
        ids: &[&str],
        read: impl Fn(&mut BufReader<ChildStdout>) -> T,
    ) -> Option<Vec<T>> {
        let mut child = Command::new(program())
            .arg("--git-dir")
            .arg(&self.dir)
            .args(["cat-file", how])
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            // The index names the object with the file's content. `git replace` must not substitute another object.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut stdin = child.stdin.take()?;
        let asked: String = ids.iter().flat_map(|id| [*id, "\n"]).collect();
        let writer = std::thread::spawn(move || {
            // If git ends early, the missing answers show it, so this error is ignored.
            let _ = stdin.write_all(asked.as_bytes());
        });
        let mut out = BufReader::new(child.stdout.take()?);
        // If a file of the repository is a pipe, git waits for ever. After the time limit git is killed, and all further answers
        // are missing.
        let (answered, progress) = mpsc::channel::<()>();
        let child = Arc::new(Mutex::new(child));
        let waited = Arc::clone(&child);
        let watch = std::thread::spawn(move || {
            loop {
                match progress.recv_timeout(PATIENCE) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        let _ = waited.lock().unwrap_or_else(PoisonError::into_inner).kill();
                        return;
                    }
                }
            }
        });
        let mut found = Vec::with_capacity(ids.len());
        for _ in ids {
            found.push(read(&mut out));
            let _ = answered.send(());
        }
        drop(answered);
        let _ = watch.join();
        let _ = writer.join();
        let _ = child.lock().unwrap_or_else(PoisonError::into_inner).wait();
        Some(found)
    }
}

/// True if this folder has the layout of a git directory: of a main or bare repository, a submodule, or an additional working tree.
pub(crate) fn is_git_dir(dir: &Path) -> bool {
    let is = |name: &str, kind: sys::Kind| sys::lstat(&dir.join(name)).is_ok_and(|meta| meta.kind == kind);
    (is("HEAD", sys::Kind::File) || is("HEAD", sys::Kind::Symlink))
        && (is("refs", sys::Kind::Dir)
            || is("packed-refs", sys::Kind::File)
            || is("commondir", sys::Kind::File))
}

/// Recognizes files that hold objects of repositories: they are in a folder `objects` of a git directory. Caches the folders that
/// it has examined.
#[derive(Default)]
pub(crate) struct Objects(HashMap<PathBuf, bool>);

impl Objects {
    pub(crate) fn contains(&mut self, path: &Path) -> bool {
        let folders = path.ancestors().filter(|at| at.file_name().is_some_and(|name| name == "objects"));
        folders.filter_map(Path::parent).any(|dir| self.is_repository(dir))
    }

    fn is_repository(&mut self, dir: &Path) -> bool {
        if let Some(known) = self.0.get(dir) {
            return *known;
        }
        let found = dir.ends_with(".git") || is_git_dir(dir);
        self.0.insert(dir.to_path_buf(), found);
        found
    }
}

/// Reads one object as `cat-file --batch` prints it: a line `<id> <type> <size>`, the bytes, a newline.
fn answer(out: &mut BufReader<ChildStdout>) -> Option<Vec<u8>> {
    let mut line = String::new();
    out.read_line(&mut line).ok()?;
    let size: usize = line.trim_end().rsplit_once(' ').and_then(|(_, size)| size.parse().ok())?;
    let mut bytes = vec![0; size];
    out.read_exact(&mut bytes).ok()?;
    out.read_exact(&mut [0]).ok()?;
    Some(bytes)
}

/// One tracked file, as the index has it.
#[derive(Clone, Debug)]
struct Tracked {
    object: String,
    mtime: (u32, u32),
    ctime: (u32, u32),
    inode: u32,
    size: u32,
    /// True if the file is unmerged, only intended to be added, or not checked out. The object need not have the file's content
    /// then.
    odd: bool,
}

/// The index of one repository.
#[derive(Debug, Default)]
pub(crate) struct Index {
    files: HashMap<PathBuf, Tracked>,
    /// All directories with tracked files.
    dirs: HashSet<PathBuf>,
    /// Time at which the index was written, in nanoseconds since 1970. A file that was modified at that time or later may
    /// differ from its object although its stamp is the same.
    written: i64,
    stamp: Option<FileStamp>,
    /// True if git converts line ends or applies filters, so that objects may differ from the files.
    converts: bool,
}

impl Index {
    /// Loads the index of `repo`, or returns `old` if the file has not changed since.
    pub(crate) fn load(repo: &Repo, old: Option<Self>) -> Self {
        let path = repo.dir.join("index");
        let Ok(meta) = sys::lstat(&path) else { return Self::default() };
        if let Some(old) = old.filter(|old| old.stamp == Some(meta.stamp)) {
            return old;
        }
        let Ok(Some((bytes, meta))) = sys::read_file(&path, MAX_INDEX) else { return Self::default() };
        let Some(entries) = parse(&bytes) else { return Self::default() };
        let mut index = Self {
            written: meta.stamp.0,
            stamp: Some(meta.stamp),
            converts: converts(repo),
            ..Self::default()
        };
        for (name, tracked) in entries {
            let path = repo.top.join(PathBuf::from(OsString::from_vec(name)));
            index.converts |= path.ends_with(".gitattributes") && speaks_of_conversion(&path);
            for dir in path.ancestors().skip(1) {
                if !index.dirs.insert(dir.to_path_buf()) {
                    break;
                }
            }
            index.files.insert(path, tracked);
        }
        index
    }

    pub(crate) fn is_tracked(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    pub(crate) fn has_tracked_below(&self, dir: &Path) -> bool {
        self.dirs.contains(dir)
    }

    /// The object with the content of this file, if the file is known to be unchanged.
    pub(crate) fn object(&self, path: &Path, meta: &Meta) -> Option<&str> {
        let tracked = self.files.get(path).filter(|t| !t.odd && !self.converts)?;
        let FileStamp(mtime, ctime, inode) = meta.stamp;
        let nanos = |(seconds, nanos): (u32, u32)| i64::from(seconds) * 1_000_000_000 + i64::from(nanos);
        let same = nanos(tracked.mtime) == mtime
            && nanos(tracked.ctime) == ctime
            && tracked.inode == inode as u32
            && tracked.size == meta.size as u32
            && mtime < self.written;
        same.then_some(tracked.object.as_str())
    }
}

fn converts(repo: &Repo) -> bool {
    let config = becket_files::read_text(&repo.common.join("config"), MAX_TEXT);
    let config = config.unwrap_or_default().to_lowercase();
    config.contains("autocrlf")
        || config.contains("eol")
        || config.contains("[filter")
        || speaks_of_conversion(&repo.common.join("info/attributes"))
}

fn speaks_of_conversion(attributes: &Path) -> bool {
    let text = becket_files::read(attributes, MAX_TEXT).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    ["filter", "eol", "text", "crlf", "ident", "working-tree-encoding"].iter().any(|word| text.contains(word))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads the names and entries of an index file; `None` unless every byte of it is understood.
fn parse(bytes: &[u8]) -> Option<Vec<(Vec<u8>, Tracked)>> {
    const FIXED: usize = 62;
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(bytes, 4)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let count = number(bytes, 8)? as usize;
    let mut at = 12;
    let mut out = Vec::with_capacity(count.min(1 << 20));
    let mut last: Vec<u8> = Vec::new();
    for _ in 0..count {
        let start = at;
        let flags = u16::from_be_bytes(bytes.get(start + 60..start + 62)?.try_into().ok()?);
        let extended = flags & 0x4000 != 0;
        at = start + FIXED + if extended { 2 } else { 0 };
        let more = if extended { number(bytes, start + FIXED)? >> 16 } else { 0 };
        let name = if version == 4 {
            let (strip, used) = varint(bytes.get(at..)?)?;
            at += used;
            let end = at + bytes.get(at..)?.iter().position(|b| *b == 0)?;
            let mut name = last.get(..last.len().checked_sub(strip)?)?.to_vec();
            name.extend_from_slice(bytes.get(at..end)?);
            at = end + 1;
            name
        } else {
            let end = at + bytes.get(at..)?.iter().position(|b| *b == 0)?;
            let name = bytes.get(at..end)?.to_vec();
            at = start + (end - start + 8) / 8 * 8;
            name
        };
        let field = |index: usize| number(bytes, start + index * 4);
        let tracked = Tracked {
            ctime: (field(0)?, field(1)?),
            mtime: (field(2)?, field(3)?),
            inode: field(5)?,
            size: field(9)?,
            object: hex(bytes.get(start + 40..start + 60)?),
            odd: flags & 0x3000 != 0 || more & 0x6000 != 0 || field(6)? >> 12 != 0o10,
        };
        last.clone_from(&name);
        out.push((name, tracked));
    }
    extensions_known(bytes, at).then_some(out)
}

/// Reads a number in the offset encoding of index version 4. Returns the number and its length in bytes.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = usize::from(*bytes.first()? & 0x7f);
    let mut used = 1;
    while bytes.get(used - 1)? & 0x80 != 0 {
        value = ((value + 1) << 7) | usize::from(bytes.get(used)? & 0x7f);
        used += 1;
        if used > 5 {
            return None;
        }
    }
    Some((value, used))
}

/// True if no extension of the index changes the meaning of its entries. Extensions that do (split or sparse index) have names in
/// lower case.
fn extensions_known(bytes: &[u8], mut at: usize) -> bool {
    while at + 20 < bytes.len() {
        let (Some(name), Some(len)) = (bytes.get(at), number(bytes, at + 4)) else { return false };
        if name.is_ascii_lowercase() {
            return false;
        }
        at += 8 + len as usize;
    }
    at + 20 == bytes.len()
}

/// The content of an index without the stamps of files. Two indexes with the same meaning are the same for the user. `None`
/// if the index is not understood.
pub(crate) fn index_meaning(bytes: &[u8]) -> Option<Vec<(Vec<u8>, String, bool)>> {
    Some(parse(bytes)?.into_iter().map(|(name, t)| (name, t.object, t.odd)).collect())
}

/// The git of the system. `PATH` is used only if git is in none of these folders, because it may contain a folder of the workspace.
fn program() -> PathBuf {
    let folders = ["/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];
    let mut found = folders.iter().map(|folder| Path::new(folder).join("git"));
    found.find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("git"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let done = Command::new("git").args(args).current_dir(dir).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn unchanged_tracked_files_are_told_from_others_in_every_version() {
        for version in ["2", "3", "4"] {
            let dir = tempfile::tempdir().unwrap();
            let top = dir.path().canonicalize().unwrap();
            git(&top, &["init", "-q"]);
            std::fs::create_dir(top.join("sub")).unwrap();
            for name in ["a.txt", "sub/b.txt", "sub/bb.txt"] {
                std::fs::write(top.join(name), format!("content of {name}\n")).unwrap();
                let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
                std::fs::File::options().write(true).open(top.join(name)).unwrap().set_modified(old).unwrap();
            }
            git(&top, &["add", "."]);
            git(&top, &["update-index", "--index-version", version]);
            std::fs::write(top.join("sub/bb.txt"), "changed").unwrap();
            std::fs::write(top.join("new.txt"), "new").unwrap();
            let repo = Repo::find(&top.join("sub")).unwrap();
            let index = Index::load(&repo, None);
            let object = |name: &str| {
                let path = top.join(name);
                index.object(&path, &sys::lstat(&path).unwrap()).map(str::to_owned)
            };
            let a = object("a.txt").unwrap();
            assert_eq!(repo.objects(&[&a, &"0".repeat(40)]), [Some(b"content of a.txt\n".to_vec()), None]);
            assert!(object("sub/b.txt").is_some());
            assert_eq!((object("sub/bb.txt"), object("new.txt")), (None, None));
            assert!(index.is_tracked(&top.join("sub/bb.txt")) && index.has_tracked_below(&top.join("sub")));
        }
    }

    #[test]
    fn a_broken_index_is_none() {
        for bytes in [
            &b""[..],
            b"DIRC",
            b"DIRC\0\0\0\x09\0\0\0\0",
            &[b'D', b'I', b'R', b'C', 0, 0, 0, 2, 255, 255, 255, 255],
        ] {
            assert!(parse(bytes).is_none());
        }
    }
}
