//! Owns the means of confinement that becket knows, and their words for people.
//!
//! Data only: [`Sandbox`](crate::Sandbox) chooses one that works.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The means that enforce a confinement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Namespaces and mounts made by bubblewrap, and seccomp.
    /// `takes_files`: it mounts open files and folders (`--bind-fd`), not only paths.
    Bubblewrap { program: PathBuf, takes_files: bool },
    /// Landlock of this ABI version, and seccomp.
    Landlock { abi: u32 },
    /// No backend works on this system. `why` is the reason, for people.
    None { why: String },
}

impl Backend {
    /// True if the backend can confine commands.
    pub fn works(&self) -> bool {
        !matches!(self, Self::None { .. })
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bubblewrap { .. } => f.write_str("bubblewrap and seccomp"),
            Self::Landlock { abi } => write!(f, "Landlock (version {abi}) and seccomp"),
            Self::None { why } => write!(f, "none: {why}"),
        }
    }
}

/// The backends that the configuration can name. A backend may or may not work on this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    Bubblewrap,
    Landlock,
}
