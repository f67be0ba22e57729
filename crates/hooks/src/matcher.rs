//! Matchers: exact names, or a regular expression.
//!
//! Names are those of the SDK. A tool also matches the name of a tool that does the same, so that a hook written for
//! `Edit` also sees edits by becket's other tools.

use becket_types::sdk_names::{hook_names, own_name};
use regex::Regex;

/// The subjects to which a group of hooks applies.
#[derive(Clone, Debug)]
pub enum Matcher {
    All,
    Names(Vec<String>),
    Pattern(Regex),
}

impl Matcher {
    /// Parses a matcher. `""` and `*` match everything; words joined by `|` or `,` are exact names; any other text is a
    /// regular expression that may match anywhere in the subject.
    ///
    /// # Errors
    ///
    /// Returns a message if the text is not a valid regular expression.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text == "*" {
            return Ok(Self::All);
        }
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '|' | ',' | ' ');
        if text.chars().all(plain) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self::Names(names.map(str::to_owned).collect()));
        }
        Regex::new(text)
            .map(Self::Pattern)
            .map_err(|_| format!("the matcher {text:?} is not a regular expression"))
    }

    /// True if the matcher matches the subject. A call without a subject matches every matcher.
    pub fn fits(&self, subject: Option<&str>) -> bool {
        let Some(subject) = subject else { return true };
        let one = |name: &str| match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|wanted| wanted == name),
            Self::Pattern(pattern) => pattern.is_match(name),
        };
        // A hook for `Edit` also gets calls of `MultiEdit`, which makes several edits.
        let edits = subject == "MultiEdit" && one("Edit");
        one(subject) || edits || hook_names(&own_name(subject)).into_iter().any(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_and_everything_else_is_a_pattern() {
        for (matcher, subject, fits) in [
            ("", "Bash", true),
            ("*", "Bash", true),
            ("Bash", "Bash", true),
            ("bash", "Bash", true),
            ("Bash", "BashOutput", false),
            ("Edit|Write", "Write", true),
            ("Edit, Write", "Write", true),
            ("Edit|Write", "MultiEdit", true),
            ("Write", "MultiEdit", false),
            ("Write", "apply_patch", true),
            ("Agent", "Task", true),
            ("mcp__.*", "mcp__memory__store", true),
            ("mcp__memory", "mcp__memory__store", false),
            ("^Not", "Notebook", true),
            ("Web.*", "WebFetch", true),
            ("Fetch$", "WebFetch", true),
            ("^Fetch", "WebFetch", false),
        ] {
            assert_eq!(Matcher::new(matcher).unwrap().fits(Some(subject)), fits, "{matcher} {subject}");
        }
        assert!(Matcher::new("Bash").unwrap().fits(None));
        assert!(Matcher::new("(").unwrap_err().contains("not a regular expression"));
    }
}
