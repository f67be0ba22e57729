//! Records the contents of files and folders for a later comparison, and renames files that must not stay under their names.
//!
//! A confined command can make a link of each folder that it may write, also while becket reads. Nothing here follows a link: a
//! resolved path is opened folder by folder, so nothing outside is read, renamed or written.
//!
//! Limits: the content is kept only of the first [`MOST_FILES`] entries below a path, and of files up to [`MOST_BYTES`]. Of other
//! files, only name and mode are compared.

use becket_files::dir::Dir;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) const MOST_FILES: usize = 64;
pub(crate) const MOST_BYTES: u64 = 256 << 10;

/// The content of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Folder,
    Link(#[serde(with = "crate::policy::lossless::one")] PathBuf),
    File {
        mode: u32,
        #[serde(with = "crate::record::bytes")]
        content: Option<Vec<u8>>,
    },
    Other,
}

/// Resolves the folders of a path, but not its last component. Components that do not exist stay as they are.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let mut folders = path.ancestors().skip(1);
    let found = folders.find_map(|folder| Some((folder, folder.canonicalize().ok()?)));
    found.map_or_else(
        || path.to_path_buf(),
        |(folder, real)| {
            path.strip_prefix(folder).map_or_else(|_| path.to_path_buf(), |rest| real.join(rest))
        },
    )
}

/// The folder of a resolved path, and the name in it.
fn folder(real: &Path) -> io::Result<(Dir, &OsStr)> {
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((Dir::open(parent)?, name))
}

/// Returns what is at a resolved path and below it. `shown`: the same path in the form that people know; the keys of the map begin
/// with it.
pub(crate) fn contents_below(shown: &Path, real: &Path) -> BTreeMap<PathBuf, Kind> {
    Folders::default().state(shown, real)
}

/// A cache for paths that are examined together. Most of them share a few folders, so each folder is resolved and opened once.
/// Valid for one pass only, because a command can replace a folder at any time.
#[derive(Default)]
pub(crate) struct Folders {
    resolved: HashMap<PathBuf, PathBuf>,
    open: HashMap<PathBuf, Option<Dir>>,
    links: HashMap<PathBuf, BTreeMap<PathBuf, PathBuf>>,
}

impl Folders {
    /// Like [`real_path`].
    pub(crate) fn real_path(&mut self, path: &Path) -> PathBuf {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => self.resolved(parent).join(name),
            _ => real_path(path),
        }
    }

    /// Resolves a folder. If it does not exist, resolves the nearest folder above it that does, and appends the other names.
    fn resolved(&mut self, folder: &Path) -> &Path {
        if !self.resolved.contains_key(folder) {
            let real = match (folder.canonicalize(), folder.parent(), folder.file_name()) {
                (Ok(real), ..) => real,
                (Err(_), Some(parent), Some(name)) => self.resolved(parent).join(name),
                (Err(_), ..) => folder.to_path_buf(),
            };
            self.resolved.insert(folder.to_path_buf(), real);
        }
        &self.resolved[folder]
    }

    /// Like [`contents_below`].
    pub(crate) fn state(&mut self, shown: &Path, real: &Path) -> BTreeMap<PathBuf, Kind> {
        let mut out = BTreeMap::new();
        if let (Some(parent), Some(name)) = (real.parent(), real.file_name()) {
            if !self.open.contains_key(parent) {
                self.open.insert(parent.to_path_buf(), Dir::open(parent).ok());
            }
            if let Some(Some(dir)) = self.open.get(parent) {
                look(dir, name, shown, &mut out);
            }
        }
        out
    }

    /// Returns the folders above `path` that are links, with their targets.
    pub(crate) fn links_above(&mut self, path: &Path) -> &BTreeMap<PathBuf, PathBuf> {
        let parent = path.parent().unwrap_or(path);
        if !self.links.contains_key(parent) {
            let mut links =
                if parent.parent().is_some() { self.links_above(parent).clone() } else { BTreeMap::new() };
            links.extend(std::fs::read_link(parent).ok().map(|target| (parent.to_path_buf(), target)));
            self.links.insert(parent.to_path_buf(), links);
        }
        &self.links[parent]
    }
}

fn look(dir: &Dir, name: &OsStr, shown: &Path, out: &mut BTreeMap<PathBuf, Kind>) {
    use rustix::fs::FileType;
    let Ok(stat) = dir.stat(name) else { return };
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link(dir.read_link(name).unwrap_or_default()),
        FileType::RegularFile => {
            let content = (out.len() < MOST_FILES).then(|| read(dir, name, MOST_BYTES)).flatten();
            Kind::File { mode: stat.st_mode & 0o7777, content }
        }
        _ => Kind::Other,
    };
    let is_folder = kind == Kind::Folder;
    out.insert(shown.to_path_buf(), kind);
    if is_folder && out.len() < MOST_FILES * 4 {
        let Ok(inner) = dir.open_dir(name) else { return };
        let mut names: Vec<OsString> = Vec::new();
        let _ = inner.list(|name, _, _| {
            names.push(name.to_owned());
            true
        });
        for name in names {
            look(&inner, &name, &shown.join(&name), out);
        }
    }
}

/// Returns the content of a regular file of at most `max` bytes.
fn read(dir: &Dir, name: &OsStr, max: u64) -> Option<Vec<u8>> {
    let file = dir.read(name).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= max).then_some(bytes)
}

/// Returns the content of a regular file at a resolved path.
pub(crate) fn read_real(real: &Path, max: u64) -> Option<Vec<u8>> {
    let (dir, name) = folder(real).ok()?;
    read(&dir, name, max)
}

/// Creates a file, folder or link at a resolved path where nothing is. Missing folders above it are created too.
pub(crate) fn put_back(real: &Path, kind: &Kind) -> io::Result<()> {
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let (dir, _) = Dir::create(parent)?;
    match kind {
        Kind::Folder => dir.make_dir(name, 0o777),
        Kind::Link(target) => dir.make_link(name, target),
        Kind::File { mode, content: Some(content) } => {
            let mut file = dir.create_new(name, 0o600)?;
            file.write_all(content)?;
            file.set_permissions(std::fs::Permissions::from_mode(*mode))
        }
        Kind::File { content: None, .. } | Kind::Other => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Names that are tried. From this number on, they contain the time, so that a command cannot have prepared them.
const NUMBERED: u32 = 20;

/// Renames the file, folder or link at a resolved path to a name in the same folder that no program obeys, and returns that name.
/// A command may have prepared for this: if `NAME.refused` exists, another name is tried, and if the folder cannot be written,
/// it gets the permission for the moment of the rename.
pub(crate) fn put_aside(real: &Path) -> Option<PathBuf> {
    let (dir, name) = folder(real).ok()?;
    let shown = name.to_string_lossy().into_owned();
    let moment = || std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
    let free = (0..NUMBERED * 2).map(|n| match n {
        0 => format!("{shown}.refused"),
        n if n < NUMBERED => format!("{shown}.refused-{n}"),
        _ => format!("{shown}.refused-{:x}", moment()),
    });
    let to = free.into_iter().map(OsString::from).find(|to| dir.stat(to).is_err())?;
    let moved = dir.rename_new(name, &to).or_else(|_| {
        let mode = dir.mode()?;
        dir.set_mode(mode | 0o700)?;
        let again = dir.rename_new(name, &to);
        dir.set_mode(mode)?;
        again
    });
    moved.ok().map(|()| real.with_file_name(to))
}

/// True for the names that [`put_aside`] gives.
pub(crate) fn is_put_aside(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.as_encoded_bytes().starts_with(b"refused"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_put_aside_whatever_a_command_prepared() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        for n in 0..NUMBERED {
            let ending = if n == 0 { String::new() } else { format!("-{n}") };
            fs::write(dir.path().join(format!("x.refused{ending}")), "").unwrap();
        }
        fs::write(&path, "evil").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
        let to = put_aside(&path).unwrap();
        assert!(!path.exists() && fs::read_to_string(to).unwrap() == "evil");
        assert_eq!(dir.path().metadata().unwrap().permissions().mode() & 0o777, 0o500);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn nothing_is_read_moved_or_made_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in ["in/a", "out"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("out/f"), "SECRET").unwrap();
        symlink("../out", at("in/link")).unwrap();
        symlink("../../out/f", at("in/a/f")).unwrap();
        fs::write(at("in/a/g"), "text").unwrap();
        let found = contents_below(Path::new("shown"), &at("in"));
        let target = Kind::Link(PathBuf::from("../out"));
        assert_eq!(found.get(Path::new("shown/link")), Some(&target));
        assert!(!format!("{found:?}").contains("SECRET") && found.len() == 5, "{found:?}");
        assert_eq!(contents_below(Path::new("f"), &at("in/link/f")), BTreeMap::new());
        assert!(read_real(&at("in/a/f"), 99).is_none() && read_real(&at("in/link/f"), 99).is_none());
        assert_eq!(read_real(&at("in/a/g"), 99).unwrap(), b"text");
        assert_eq!(put_aside(&at("in/link/f")), None);
        let file = Kind::File { mode: 0o640, content: Some(b"x".to_vec()) };
        assert!(
            put_back(&at("in/link/new"), &file).is_err() && put_back(&at("in/link/d/new"), &file).is_err()
        );
        assert!(put_back(&at("in/a/f"), &file).is_err());
        put_back(&at("in/b/c/new"), &file).unwrap();
        assert_eq!(fs::metadata(at("in/b/c/new")).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(at("out")).unwrap().count(), 1);
        assert_eq!(real_path(&at("in/link/x")), at("out/x"));
        assert_eq!(real_path(&at("in/absent/x")), at("in/absent/x"));
    }

    #[test]
    fn folders_that_are_looked_up_once_give_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir_all(at("in/a")).unwrap();
        fs::create_dir(at("out")).unwrap();
        fs::write(at("in/f"), "text").unwrap();
        fs::write(at("out/f"), "more").unwrap();
        symlink("../out", at("in/link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let mut folders = Folders::default();
        let names = [
            "in",
            "in/f",
            "in/a",
            "in/a/g",
            "in/link",
            "in/link/f",
            "in/link/d/f",
            "absent/d/f",
            "dangling/f",
            "loop/f",
        ];
        for name in names.into_iter().chain(names) {
            let path = at(name);
            let real = real_path(&path);
            assert_eq!(folders.real_path(&path), real, "{name}");
            assert_eq!(folders.state(&path, &real), contents_below(&path, &real), "{name}");
            let is_link = |up: &&Path| up.symlink_metadata().is_ok_and(|found| found.is_symlink());
            let links: Vec<&Path> = path.ancestors().skip(1).filter(is_link).collect();
            let found = folders.links_above(&path);
            assert_eq!(found.keys().rev().map(PathBuf::as_path).collect::<Vec<_>>(), links, "{name}");
        }
        for odd in ["/", "a", "..", ""] {
            assert_eq!(folders.real_path(Path::new(odd)), real_path(Path::new(odd)), "{odd}");
        }
    }
}
