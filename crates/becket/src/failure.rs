//! An error for the user: what happened, why, and what to do, with the exit status that it causes.

use becket_print::ExitStatus;
use std::fmt;

/// Ends a command. It is printed as one message on stderr.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: ExitStatus,
    /// Message with the event and its reason, without a full stop at the end.
    pub message: String,
    /// Advice about what to do.
    pub hint: Option<String>,
    /// Another process has the session open, so an interactive run can ask what to do.
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
