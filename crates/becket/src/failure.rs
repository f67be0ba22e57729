//! A user's error: what happened, why, and what to do, with the exit status it leads to.

use becket_print::ExitStatus;
use std::fmt;

/// Ends a command. Printed as one message on stderr.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: ExitStatus,
    /// What and why, without a full stop at the end.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Another process has the session: a terminal can ask what to do.
    pub in_use: bool,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: ExitStatus::Usage, message: message.into(), hint: None, in_use: false }
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self { status: ExitStatus::Error, message: message.into(), hint: None, in_use: false }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "becket: {}", becket_print::clean(&self.message))?;
        if let Some(hint) = &self.hint {
            write!(f, "\n        {}", becket_print::clean(hint))?;
        }
        Ok(())
    }
}
