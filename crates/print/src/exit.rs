//! Exit codes: one number per way a run can end, the same in every format. Documented in `docs/headless.md`.

use becket_types::{TurnEnd, TurnResult};

/// Exit code of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    Ok,
    /// A failure without a separate code.
    Error,
    /// Invalid flags, files or input. The run did not start, or a line of input was not used.
    Usage,
    MaxTurns,
    /// The limit of the session on money or tokens is used up.
    Budget,
    /// A call was denied, and no later call succeeded.
    PermissionDenied,
    /// The answer does not fit `--json-schema`, although the model was asked again.
    SchemaNotMet,
    /// The model cannot be reached or refuses the request permanently.
    ModelUnreachable,
    /// The model repeated the same calls.
    Repetition,
    /// The context is full and cannot be compacted.
    ContextFull,
    /// Two compactions in a row left no room to show the model anything new.
    NoRoom,
    /// The exit code of a command that `becket sandbox` has run.
    Command(u8),
    /// The model gave no final message, even after it was asked once more.
    NoAnswer,
    /// The model wrote tool calls into its text instead of making them.
    CallsAsText,
    /// The wall time of the turn is over.
    TimeLimit,
    /// The turn ended well, but its session could not be saved.
    NotSaved,
    /// SIGINT.
    Interrupted,
    /// SIGTERM: the turn is left unfinished and can be resumed.
    Terminated,
}

impl ExitStatus {
    /// Returns the exit code of the process, as `docs/headless.md` lists them.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::MaxTurns => 3,
            Self::Budget => 4,
            Self::PermissionDenied => 5,
            Self::SchemaNotMet => 6,
            Self::ModelUnreachable => 7,
            Self::Repetition => 8,
            Self::ContextFull => 9,
            Self::NoRoom => 10,
            Self::Command(code) => code,
            Self::NoAnswer => 11,
            Self::CallsAsText => 12,
            Self::TimeLimit => 13,
            Self::NotSaved => 14,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// Returns the code for a finished turn. `denied_last`: a call was denied and no call succeeded after it.
    pub fn for_turn(result: &TurnResult, denied_last: bool) -> Self {
        match &result.end {
            TurnEnd::Completed if denied_last => Self::PermissionDenied,
            TurnEnd::Completed if result.unsaved => Self::NotSaved,
            TurnEnd::Completed | TurnEnd::Deferred { .. } => Self::Ok,
            TurnEnd::Interrupted => Self::Interrupted,
            TurnEnd::MaxTurns { .. } => Self::MaxTurns,
            TurnEnd::Budget { .. } | TurnEnd::TokenLimit { .. } => Self::Budget,
            TurnEnd::TimeLimit { .. } => Self::TimeLimit,
            TurnEnd::NoAnswer { .. } => Self::NoAnswer,
            TurnEnd::CallsAsText { .. } => Self::CallsAsText,
            TurnEnd::Repetition { .. } => Self::Repetition,
            TurnEnd::ContextFull { .. } => Self::ContextFull,
            TurnEnd::NoRoom { .. } => Self::NoRoom,
            TurnEnd::ModelError { .. } => Self::ModelUnreachable,
            TurnEnd::Refusal { .. } | TurnEnd::Failed { .. } | TurnEnd::HookStopped { .. } => Self::Error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_distinct_and_fixed() {
        use ExitStatus as E;
        let table = [
            (E::Ok, 0),
            (E::Error, 1),
            (E::Usage, 2),
            (E::MaxTurns, 3),
            (E::Budget, 4),
            (E::PermissionDenied, 5),
            (E::SchemaNotMet, 6),
            (E::ModelUnreachable, 7),
            (E::Repetition, 8),
            (E::ContextFull, 9),
            (E::NoRoom, 10),
            (E::NoAnswer, 11),
            (E::CallsAsText, 12),
            (E::TimeLimit, 13),
            (E::NotSaved, 14),
            (E::Interrupted, 130),
            (E::Terminated, 143),
        ];
        let codes: HashSet<u8> = table.iter().map(|(status, _)| status.code()).collect();
        assert_eq!(codes.len(), table.len());
        for (status, code) in table {
            assert_eq!(status.code(), code, "{status:?}");
        }
    }
}
