//! Disks for tests: one that forces nothing, and one that remembers what it was asked, to lose the power afterwards.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test uses a part; a test that cannot go on fails"
)]

pub mod hooked;
pub mod lossy;

use becket_session::store::{Disk, Io, OpenMode};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// The real disk, but nothing is synced: for tests that look at what is written, not at when it is safe.
#[derive(Debug)]
pub struct Unforced;

impl Io for Unforced {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.create_dir(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        Disk.open(path, mode)
    }
    fn lock(&self, file: &File) -> Result<(), TryLockError> {
        Disk.lock(file)
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        Disk.write(file, bytes)
    }
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        Disk.set_len(file, len)
    }
    fn len(&self, file: &File) -> io::Result<u64> {
        Disk.len(file)
    }
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Disk.read(path)
    }
}
