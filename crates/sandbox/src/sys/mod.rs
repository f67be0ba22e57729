//! Enforcement by the kernel. Linux has Landlock and seccomp; other systems have nothing that becket uses yet, and say so.

#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::{drop_capabilities, keep_open, landlock_abi, restrict, seccomp, seccomp_file};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{drop_capabilities, keep_open, landlock_abi, restrict, seccomp, seccomp_file};
