//! Platform-specific file operations: permission bits, flushing directories, identity of files, and paths as
//! bytes.
//!
//! Sessions contain what people typed and what their tools printed. Directories are therefore 0700 and files
//! 0600 on platforms with such bits.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Makes new files accessible only to their owner.
pub(super) fn private_file(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// Creates `dir` and its missing parents, accessible only to their owner.
pub(super) fn private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(dir)
}

/// Makes the names in `dir` durable. Platforms that cannot open a directory keep names durable by themselves.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

/// Checks if `path` names the open `file`. Platforms that do not allow replacing an open file always return [`Named::Same`].
pub(super) fn named(file: &File, path: &Path) -> io::Result<PathState> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(PathState::Nothing);
        }
        Err(e) => return Err(e),
    };
    let ours = file.metadata()?;
    #[cfg(unix)]
    let same = {
        use std::os::unix::fs::MetadataExt;
        (found.dev(), found.ino()) == (ours.dev(), ours.ino())
    };
    #[cfg(not(unix))]
    let same = found.is_file() == ours.is_file();
    Ok(if same { PathState::Same } else { PathState::Other })
}

/// Reads a file from its start, independently of other readers of the same handle.
pub(crate) struct FromStart {
    pub file: File,
    pub at: u64,
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let n = std::os::unix::fs::FileExt::read_at(&self.file, buffer, self.at)?;
        #[cfg(not(unix))]
        let n = {
            use std::io::{Seek, SeekFrom};
            let mut file = &self.file;
            file.seek(SeekFrom::Start(self.at))?;
            file.read(buffer)?
        };
        self.at += n as u64;
        Ok(n)
    }
}

/// Returns the path with these bytes, in the encoding of [`OsStr::as_encoded_bytes`].
pub(crate) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        PathBuf::from(OsStr::from_bytes(bytes))
    }
    #[cfg(not(unix))]
    {
        let _: Option<&OsStr> = None;
        PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The file that a path names now, compared with a file that was opened there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    Same,
    /// Another file: it was replaced.
    Other,
    /// Nothing: it was deleted or moved.
    Nothing,
}
