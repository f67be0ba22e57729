//! Permission modes with their public names. The guard decides what a mode allows; this file only names the
//! modes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Limits of what the agent may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum PermissionMode {
    /// Reading in the workspace is allowed; writing and running commands ask.
    #[default]
    Default,
    /// Like `default`, and writing in the workspace is allowed too.
    AcceptEdits,
    /// Writing and running commands in the workspace are allowed, as far as a sandbox confines the commands.
    Auto,
    /// Reading only.
    Plan,
    /// Everything that would ask is denied.
    DontAsk,
    /// Everything is allowed that no rule denies.
    BypassPermissions,
}

impl PermissionMode {
    /// All modes, in the order of their declaration.
    pub const ALL: [Self; 6] =
        [Self::Default, Self::AcceptEdits, Self::Auto, Self::Plan, Self::DontAsk, Self::BypassPermissions];

    /// Returns the name in configurations and JSON, such as `acceptEdits`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Auto => "auto",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }

    /// True if a switch from `other` to this mode grants no new right. `plan` and `dontAsk` cannot be
    /// compared: each refuses something that the other allows or asks about.
    pub fn is_within(self, other: Self) -> bool {
        fn rank(mode: PermissionMode) -> u8 {
            match mode {
                PermissionMode::Plan | PermissionMode::DontAsk => 0,
                PermissionMode::Default => 1,
                PermissionMode::AcceptEdits => 2,
                PermissionMode::Auto => 3,
                PermissionMode::BypassPermissions => 4,
            }
        }
        self == other || rank(self) < rank(other)
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<PermissionMode> for String {
    fn from(mode: PermissionMode) -> Self {
        mode.as_str().to_owned()
    }
}

impl TryFrom<String> for PermissionMode {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    /// Parses a public name, ignoring case. `manual` means `default`. The error lists the valid names.
    fn from_str(text: &str) -> Result<Self, String> {
        const NAMES: &str = "default, acceptEdits, auto, plan, dontAsk, bypassPermissions";
        if text.eq_ignore_ascii_case("manual") {
            return Ok(Self::Default);
        }
        Self::ALL.into_iter().find(|mode| mode.as_str().eq_ignore_ascii_case(text)).ok_or_else(|| {
            let near = nearest(text).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            format!("unknown permission mode {text:?}: use one of {NAMES}{near}")
        })
    }
}

/// Returns the mode that a mistyped name most likely means: one that begins with it, or differs by two letters.
fn nearest(text: &str) -> Option<&'static str> {
    const SHORTEST: usize = 3;
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let wanted = plain(text);
    let names = PermissionMode::ALL.into_iter().map(PermissionMode::as_str);
    let near = names.map(|name| {
        let begins = wanted.len() >= SHORTEST && plain(name).starts_with(&wanted);
        (if begins { 0 } else { crate::edit_distance(&plain(name), &wanted) }, name)
    });
    near.filter(|(distance, _)| distance * 3 <= wanted.len()).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases() {
        for mode in PermissionMode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
            assert_eq!(serde_json::to_string(&mode).unwrap(), format!("\"{mode}\""));
        }
        assert_eq!("manual".parse(), Ok(PermissionMode::Default));
        assert_eq!("ACCEPTEDITS".parse(), Ok(PermissionMode::AcceptEdits));
        assert_eq!("Auto".parse(), Ok(PermissionMode::Auto));
        assert!("yolo".parse::<PermissionMode>().unwrap_err().contains("dontAsk"));
        for (text, near) in [
            ("accept", Some("acceptEdits")),
            ("acceptEdit", Some("acceptEdits")),
            ("accept-edit", Some("acceptEdits")),
            ("bypass", Some("bypassPermissions")),
            ("plam", Some("plan")),
            ("yolo", None),
            ("", None),
        ] {
            assert_eq!(nearest(text), near, "{text}");
            assert_eq!(text.parse::<PermissionMode>().unwrap_err().contains("did you mean"), near.is_some());
        }
    }

    #[test]
    fn narrowing_is_a_partial_order() {
        use PermissionMode as M;
        assert!(M::Plan.is_within(M::Default) && M::DontAsk.is_within(M::Default));
        assert!(!M::Plan.is_within(M::DontAsk) && !M::DontAsk.is_within(M::Plan));
        assert!(M::AcceptEdits.is_within(M::Auto) && !M::Auto.is_within(M::AcceptEdits));
        assert!(M::Default.is_within(M::AcceptEdits) && !M::AcceptEdits.is_within(M::Default));
        for mode in M::ALL {
            assert!(mode.is_within(mode) && mode.is_within(M::BypassPermissions));
        }
    }
}
