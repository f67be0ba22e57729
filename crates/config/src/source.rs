//! Owns the source of a value, and a merged value with its sources.

use serde_json::Value;
use std::fmt;
use std::path::PathBuf;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Default,
    User(PathBuf),
    Project(PathBuf),
    Local(PathBuf),
    Environment(String),
    Settings(String),
    Flag(String),
    Managed(PathBuf),
    /// An earlier run of the same session.
    Session,
}

impl Source {
    /// True for a file of Claude Code, which is in JSON.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::User(path) | Self::Project(path) | Self::Local(path) | Self::Managed(path) => {
                path.extension().is_some_and(|e| e == "json")
            }
            _ => false,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(path) => write!(f, "user: {}", path.display()),
            Self::Project(path) => write!(f, "project: {}", path.display()),
            Self::Local(path) => write!(f, "local: {}", path.display()),
            Self::Environment(name) => write!(f, "environment: {name}"),
            Self::Settings(label) => write!(f, "settings: {label}"),
            Self::Flag(flag) => write!(f, "flag: {flag}"),
            Self::Managed(path) => write!(f, "managed: {}", path.display()),
            Self::Session => f.write_str("session"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merged {
    pub value: Value,
    pub sources: Vec<Source>,
    /// Line of each element in its file, from 1; `None` outside files.
    pub lines: Vec<Option<usize>>,
}

/// Switches that only the administrator can set. They bind every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagedLimits {
    /// Nobody may use the permission mode `bypassPermissions`.
    pub no_bypass: bool,
    /// Only the administrator's hooks run.
    pub only_hooks: bool,
    /// Only the administrator's rules allow something.
    pub only_rules: bool,
}
