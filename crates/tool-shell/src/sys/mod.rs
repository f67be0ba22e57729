//! What the operating system decides: finding the processes that belong to a command, and how wide a pipe is.
//!
//! Owns one file per platform, all with the same functions. Nothing else in this crate asks which platform it is.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{LISTS_PROCESSES, own_command_line, tree, widen};

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{LISTS_PROCESSES, own_command_line, tree, widen};

/// A process, told apart from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub pid: i32,
    /// In the system's own units.
    pub started: u64,
}
