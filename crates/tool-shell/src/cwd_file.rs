//! The file in which a command's shell leaves its working directory when it ends.
//!
//! A confined command can write the folder of this file, and can find out the name. So becket does not trust the file: no link is
//! followed, no pipe is waited for, and a file with a second name or of more than a path's length is refused. A file that a
//! confined command may not read can therefore not reach becket in this way.
//!
//! Owns the name, and removes the file.

use becket_tool::dir::Dir;
use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Longest path that Linux takes, with the end of the line.
const MOST_BYTES: u64 = 4096 + 1;

/// Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct CwdFile {
    dir: Dir,
    path: PathBuf,
    name: OsString,
}

impl CwdFile {
    /// Chooses a name in `folder`, which must exist. The shell creates the file.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        // With a name that can be guessed, an earlier command could have put a pipe there, at which the shell would wait for ever.
        let name = format!("cwd-{:016x}", RandomState::new().hash_one(std::process::id()));
        Ok(Self { dir: Dir::open(&folder)?, path: folder.join(&name), name: name.into() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory that the shell wrote, if it wrote one. The directory need not exist.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        let bytes = self.dir.read_own(&self.name, MOST_BYTES).ok()?;
        let path = bytes.strip_suffix(b"\n")?;
        (path.starts_with(b"/") && !path.contains(&0))
            .then(|| PathBuf::from(OsString::from_vec(path.to_vec())))
    }
}

impl Drop for CwdFile {
    fn drop(&mut self) {
        // There may be no file: a shell that was killed or replaced itself wrote none.
        let _ = self.dir.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_path_in_an_ordinary_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "/secret\n").unwrap();
        let directory = |make: &dyn Fn(&Path)| {
            let file = CwdFile::new(folder.path()).unwrap();
            make(file.path());
            file.directory()
        };
        let written = |text: &'static str| move |path: &Path| fs::write(path, text).unwrap();
        assert_eq!(directory(&written("/a b\n")), Some(PathBuf::from("/a b")));
        for text in ["", "\n", "/a", "a/b\n", "SECRET\n", "/a\0\n"] {
            assert_eq!(directory(&written(text)), None, "{text:?}");
        }
        assert_eq!(directory(&|path| fs::write(path, format!("/{}\n", "x".repeat(5000))).unwrap()), None);
        assert_eq!(directory(&|path| symlink(&secret, path).unwrap()), None);
        assert_eq!(directory(&|path| symlink("/dev/zero", path).unwrap()), None);
        assert_eq!(directory(&|path| fs::hard_link(&secret, path).unwrap()), None);
        assert_eq!(directory(&|path| fs::create_dir(path).unwrap()), None);
        let pipe = |path: &Path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
        };
        assert_eq!(directory(&pipe), None);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "/secret\n");
        // Only `secret` and the folder that the test made remain.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
