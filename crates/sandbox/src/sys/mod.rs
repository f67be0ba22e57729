//! Enforcement by the kernel. On Linux these are Landlock and seccomp. For other systems becket has no sandbox yet.

#[cfg(target_os = "linux")]
mod activity;
#[cfg(target_os = "linux")]
mod alarm;
#[cfg(target_os = "linux")]
mod attempts;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use activity::{Asleep, asleep, lives, read_only_mounts, tree};
#[cfg(target_os = "linux")]
pub(crate) use alarm::Alarm;
#[cfg(target_os = "linux")]
pub(crate) use attempts::ATTEMPTS;
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    abstract_listener, drop_capabilities, keep_open, keep_open_high, landlock_abi, nameless_memory,
    open_kept, restrict, restrict_denied, restrict_writes, seccomp,
};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    ATTEMPTS, Alarm, Asleep, abstract_listener, asleep, drop_capabilities, keep_open, keep_open_high,
    landlock_abi, lives, nameless_memory, open_kept, read_only_mounts, restrict, restrict_denied,
    restrict_writes, seccomp, tree,
};
