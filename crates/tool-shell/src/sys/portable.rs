//! Systems where becket cannot list processes: a command is known only by its process group, which is signalled as a whole.

use super::{Load, Process};
use std::io::PipeReader;
use std::path::{Path, PathBuf};

/// False: [`tree`] finds no processes here.
pub(crate) const LISTS_PROCESSES: bool = false;

pub(crate) fn tree(_group: i32, _mark: &str, _known: &[Process]) -> Vec<Process> {
    Vec::new()
}

/// Claims that the group lives. Zombies cannot be told from living processes here, so they count too.
pub(crate) fn of_group(group: i32) -> Option<i32> {
    Some(group)
}

pub(crate) fn is_of_group(_pid: i32, _group: i32) -> bool {
    true
}

/// Does nothing: here a process's own priority is the only one.
pub(crate) fn yield_to_others(_session: i32, _nice: i32) {}

pub(crate) fn own_command_line() -> Option<String> {
    None
}

/// Does nothing: the size of a pipe is fixed here.
pub(crate) fn widen(_pipe: &PipeReader, _bytes: usize) {}

/// Returns nothing, so limits are not watched here.
pub(crate) fn load() -> Option<Load> {
    None
}

pub(crate) fn tasks(_processes: &[Process]) -> u64 {
    0
}

pub(crate) fn memory_over(_processes: &[Process], _limit: u64) -> bool {
    false
}

/// False: on these systems only a file system that somebody set up on purpose is in memory.
pub(crate) fn is_in_memory(_directory: &Path) -> bool {
    false
}

pub(crate) fn process(_pid: i32) -> Option<Process> {
    None
}

/// There are no control groups here.
#[derive(Debug)]
pub(crate) enum Cgroup {}

impl Cgroup {
    pub(crate) fn new(_name: &str, _tasks: u64, _memory_bytes: u64) -> Option<Self> {
        None
    }
    pub(crate) fn join(&self, _pid: i32) {}
    pub(crate) fn members(&self) -> Vec<i32> {
        Vec::new()
    }
    pub(crate) fn kill(&self) {}
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        false
    }
}

pub(crate) fn cgroups() -> Option<bool> {
    None
}

pub(crate) fn cgroup_path(_name: &str) -> Option<PathBuf> {
    None
}

/// There are no control groups of version 1 here either.
#[derive(Debug)]
pub(crate) enum Pids {}

impl Pids {
    pub(crate) fn new(_name: &str, _tasks: u64) -> Option<Self> {
        None
    }
    pub(crate) fn entrance(&self) -> PathBuf {
        PathBuf::new()
    }
    pub(crate) fn close(&self) {}
    pub(crate) fn open(&self) {}
    pub(crate) fn tasks(&self) -> Option<u64> {
        None
    }
    pub(crate) fn members(&self) -> Vec<i32> {
        Vec::new()
    }
}

pub(crate) fn pids_path(_name: &str) -> Option<PathBuf> {
    None
}
