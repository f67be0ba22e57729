//! Fallback for platforms without their own file. Has the same functions, but does not protect against a link
//! that is swapped in while a file is opened.

use std::fs::{File, FileType};
use std::io;
use std::path::Path;

pub(crate) fn open_read(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(crate) fn special(kind: FileType) -> Option<&'static str> {
    (!kind.is_file() && !kind.is_dir() && !kind.is_symlink()).then_some("special file")
}
