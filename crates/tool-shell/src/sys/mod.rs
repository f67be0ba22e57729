//! Functions that depend on the operating system: finding and measuring the processes of a command, the size of a pipe,
//! and the kind of a file system.
//!
//! Owns one file per platform, all with the same functions. Nothing else in this crate asks which platform it runs on.

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

/// A process. The start time distinguishes it from a later process with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub pid: i32,
    /// Start time, in clock ticks since boot.
    pub started: u64,
}

/// The state of the whole system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Threads of all processes.
    pub tasks: u64,
    pub available_bytes: u64,
    pub total_bytes: u64,
}
