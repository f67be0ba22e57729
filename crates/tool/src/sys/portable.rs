//! Where nothing better is known. Owns the same two functions as the other platforms, without their guarantees against
//! links that are swapped while a file is being opened.

use std::fs::{File, FileType};
use std::io;
use std::path::Path;

pub(crate) fn open_read(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(crate) fn special(kind: FileType) -> Option<&'static str> {
    (!kind.is_file() && !kind.is_dir() && !kind.is_symlink()).then_some("special file")
}
