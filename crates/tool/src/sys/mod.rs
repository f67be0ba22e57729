//! Platform-specific file operations: opening without following links or blocking, and kinds of files.
//!
//! One file per platform, all with the same functions. No other part of this crate depends on the platform.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{open_read, special};

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{open_read, special};
