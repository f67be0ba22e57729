//! Sandbox levels: how much of the machine a command can reach while it runs. The sandbox decides what each
//! level grants; this file only names the levels.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Confinement of a command. Variants are ordered from none to the tightest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxLevel {
    /// No confinement: runs like any program that the user starts.
    #[default]
    Off,
    /// Runs with the user's rights, but the files that deny rules name are hidden from it, or read-only.
    DenyRules,
    /// Writes only in the workspace and a private temporary folder; no network unless the user allows it.
    Workspace,
    /// Writes only in a private temporary folder; reads only the workspace and the system's folders.
    ReadOnly,
}

impl SandboxLevel {
    /// Returns the name in configurations and JSON, such as `read-only`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::DenyRules => "deny-rules",
            Self::Workspace => "workspace",
            Self::ReadOnly => "read-only",
        }
    }

    /// True unless the command runs without a sandbox.
    pub fn is_confined(self) -> bool {
        self != Self::Off
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
