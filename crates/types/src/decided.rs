//! Who decided about a tool call, and what. The words are those of the ledger and of `becket permissions explain`.

use crate::CallId;
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

/// A decision about a tool call, as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionDecision {
    pub call: CallId,
    /// `allow` or `deny`: an open question is no decision.
    pub decision: Verb,
    pub by: DecidedBy,
    /// The rule that decided, as it was written; of an answer for the session, the rule that it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}
