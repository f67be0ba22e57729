//! Systems without Landlock and seccomp: nothing can be confined here.

use crate::policy::Policy;
use crate::stage::Stage;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

fn missing<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has neither Landlock nor seccomp"))
}

pub(crate) fn drop_capabilities() -> io::Result<()> {
    missing()
}

pub(crate) fn landlock_abi() -> u32 {
    0
}

pub(crate) fn restrict(_: &Policy) -> io::Result<()> {
    missing()
}

pub(crate) fn restrict_denied(_: &Policy) -> io::Result<()> {
    missing()
}

pub(crate) fn seccomp(_: &Policy, _: bool) -> io::Result<()> {
    missing()
}

pub(crate) fn restrict_writes(_: &Policy) -> io::Result<()> {
    missing()
}

pub(crate) fn nameless_memory() -> io::Result<File> {
    missing()
}

pub(crate) fn keep_open(_: File) -> io::Result<i32> {
    missing()
}

pub(crate) fn keep_open_high(_: &File) -> io::Result<i32> {
    missing()
}

pub(crate) fn open_kept(_: &Path) -> io::Result<i32> {
    missing()
}

/// Nothing confines here, so there is nothing to try.
pub(crate) const ATTEMPTS: &[(&str, fn(&Stage) -> bool)] = &[];

pub(crate) fn abstract_listener(_: &str) -> Option<UnixListener> {
    None
}

/// Never exists: on these systems nothing is known about the processes of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asleep {}

pub(crate) fn asleep(_: u32) -> Option<Asleep> {
    None
}

pub(crate) fn tree(root: u32) -> Vec<u32> {
    vec![root]
}

pub(crate) fn lives(_: u32) -> bool {
    false
}

pub(crate) fn read_only_mounts(_: u32) -> Vec<PathBuf> {
    Vec::new()
}

/// Only sleeps for the given time, because no new names are reported.
#[derive(Debug)]
pub(crate) struct Alarm;

impl Alarm {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn look_at(&mut self, _: &Path) {}

    pub(crate) fn wait(&mut self, most: std::time::Duration) -> bool {
        std::thread::sleep(most);
        false
    }
}
