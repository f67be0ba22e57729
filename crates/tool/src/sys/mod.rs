//! What the operating system decides about files: opening without following links or blocking, and kinds of files.
//!
//! Owns one file per platform, all with the same functions. Nothing else in this crate asks which platform it is.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{open_read, special};

#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{open_read, special};
