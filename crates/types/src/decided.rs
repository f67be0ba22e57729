//! Decisions about tool calls, and their source. The ledger and `becket permissions explain` use these names.

use crate::CallId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The three possible judgements about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    Allow,
    Ask,
    Deny,
}

impl Verb {
    /// Returns the word in JSON and on the command line, such as `allow`.
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

/// The source of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecidedBy {
    /// A permission rule.
    Rule,
    /// The answer of the user.
    Person,
    /// The permission mode, together with becket's knowledge of tools and commands.
    Mode,
    Hook,
    /// The answer of the program that drives the session. Older versions recorded it as [`DecidedBy::Person`].
    Sdk,
    /// The sandbox: it could not confine the command, or its proxy refused a connection of the command.
    Sandbox,
}

impl DecidedBy {
    /// Returns the word in JSON and on the command line, such as `person`.
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

/// The cause of a denial. Its readers need different advice: the model what to do next, the user their own words, and a
/// script how it gets the call to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DenialCause {
    /// The user refused the call.
    User {
        /// The user's own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// Permission mode `plan` only reads.
    PlanMode,
    /// A rule, another permission mode, a hook, the sandbox, or that nobody can be asked. The reason says it all.
    #[default]
    Policy,
}

impl DenialCause {
    /// Returns what the model should do instead, to be appended to the reason.
    pub fn advice_for_model(&self) -> &'static str {
        match self {
            Self::PlanMode => "; present the plan instead",
            Self::User { .. } | Self::Policy => "",
        }
    }

    /// Returns how a script gets such a call to run, to be appended to the reason.
    pub fn advice_for_scripts(&self) -> &'static str {
        match self {
            Self::PlanMode => {
                "; to leave this mode, run again with --permission-mode acceptEdits, and allow commands with --allowedTools"
            }
            Self::User { .. } | Self::Policy => "",
        }
    }
}

/// A decision about a tool call, as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionDecision {
    pub call: CallId,
    /// `allow` or `deny`. A question that is still open is not recorded as a decision.
    pub decision: Verb,
    pub by: DecidedBy,
    /// The rule that decided, in its original spelling. If the user answered for the whole session, the rule
    /// that the answer created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Set if this decision denied the call itself. A denial without it concerns something else, such as a host that the
    /// call's command wanted to reach, or is in a ledger that was written before this field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<DenialCause>,
}
