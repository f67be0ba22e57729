//! What the operating system decides: finding and measuring the processes that belong to a command, how wide a pipe is,
//! and where files are kept.
//!
//! Owns one file per platform, all with the same functions. Nothing else in this crate asks which platform it is.

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
pub(crate) use cgroup::{Cgroup, available as cgroups, path as cgroup_path};
#[cfg(target_os = "linux")]
mod pids;
#[cfg(target_os = "linux")]
pub(crate) use pids::{Pids, path as pids_path};
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    LISTS_PROCESSES, is_in_memory, is_of_group, load, memory_over, of_group, own_command_line, process,
    tasks, tree, widen, yield_to_others,
};

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{
    Cgroup, LISTS_PROCESSES, Pids, cgroup_path, cgroups, is_in_memory, is_of_group, load, memory_over,
    of_group, own_command_line, pids_path, process, tasks, tree, widen, yield_to_others,
};

/// A process, told apart from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub pid: i32,
    /// In the system's own units.
    pub started: u64,
}
