//! Who decided about a tool call. The words are those of the ledger and of `becket permissions explain`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a call may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    Allow,
    Ask,
    Deny,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecidedBy {
    /// A permission rule.
    Rule,
    /// The answer of the user.
    Person,
    /// The permission mode, with what becket knows of tools and commands.
    Mode,
    Hook,
    Sdk,
    /// The sandbox: nothing confines the command here.
    Sandbox,
}

impl DecidedBy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Person => "person",
            Self::Mode => "mode",
            Self::Hook => "hook",
            Self::Sdk => "sdk",
            Self::Sandbox => "sandbox",
        }
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
