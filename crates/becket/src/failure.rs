//! An error for the user: what happened, why, and what to do, with the exit status that it causes.

use becket_model::ModelRef;
use becket_print::ExitStatus;
use std::{fmt, io};

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
    /// The model of the session, if the failure is that it has no key. An interactive run asks for the key.
    pub lacks_key: Option<ModelRef>,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::Usage, message.into())
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::Error, message.into())
    }

    fn new(status: ExitStatus, message: String) -> Self {
        Self { status, message, hint: None, in_use: false, lacks_key: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns the failure for output that stdout did not take. If the reader stopped early (`| head`), the command ends without a
/// message and with status 0: the reader has what it wanted.
pub(crate) fn unwritten(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure { status: ExitStatus::Ok, ..Failure::error("") };
    }
    Failure::error(format!("cannot write to stdout: {error}"))
}

/// Returns the failure for a panic of the agent. Everything up to it is in the session.
pub(crate) fn broken(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
    Failure::error(format!("the agent stopped because of a fault of becket: {text}"))
        .hint("the session is saved up to this point: becket -c continues it; please report the fault")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_message_and_exit_code_1() {
        for (panic, want) in [
            (Box::new("static") as Box<dyn std::any::Any + Send>, "static"),
            (Box::new("owned".to_owned()), "owned"),
            (Box::new(7_u8), "it panicked"),
        ] {
            let failure = broken(&*panic);
            assert_eq!(failure.status.code(), 1);
            assert!(failure.message.ends_with(want) && failure.hint.is_some(), "{failure}");
        }
    }
}
