//! What the operating system decides about files: permission bits, directory flushes, and paths as bytes.
//!
//! Sessions hold what people typed and what their tools printed, so directories are 0700 and files 0600 where the
//! platform has such bits. Does nothing else.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// New files are for their owner alone.
pub(super) fn private_file(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// Makes `dir` and its missing parents, for their owner alone.
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

/// The path that `bytes` (as [`OsStr::as_encoded_bytes`] gave them) stand for.
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
