//! Problems of a configuration, each with its position and advice.

use std::fmt;
use std::path::PathBuf;

/// Beginning of the message about a key that becket does not know.
pub(crate) const UNKNOWN_KEY: &str = "unknown key";

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, flag or variable; empty if there is none.
    pub origin: String,
    /// Line and column, from 1.
    pub at: Option<(usize, usize)>,
    /// The key's full path, if the problem concerns one key and `origin` does not already name it.
    pub key: Option<String>,
    /// The problem, and what to write instead.
    pub message: String,
}

impl Problem {
    /// True if the problem is a key that becket does not know, which has no effect.
    pub fn is_unknown_key(&self) -> bool {
        self.message.starts_with(UNKNOWN_KEY)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        let after_origin = if self.origin.is_empty() { "" } else { ": " };
        if let Some(key) = &self.key {
            return write!(f, "{after_origin}{key}: {}", self.message);
        }
        write!(f, "{after_origin}{}", self.message)
    }
}

/// The reason why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
    #[error("{}: cannot be read: {source}; check its permissions or remove it", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: {why}", path.display())]
    Refused { path: PathBuf, why: String },
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
