//! The requested session is open in another process: asks in plain lines what to do, before the interface starts.
//!
//! Without a clear answer nothing changes: an empty line or the end of input quits. A single letter is not an answer,
//! because it may have been typed before the question was read.

use super::line_input::LineInput;
use crate::failure::Failure;
use crate::settings::{Fork, RunSettings, SessionChoice};
use std::io::{self, Write as _};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Fork,
    TakeOver,
    /// Show the whole session, as a copy in memory to which nothing is added.
    View,
}

impl Answer {
    fn parse(line: &str) -> Option<Self> {
        match line.trim().to_ascii_lowercase().as_str() {
            "fork" => Some(Self::Fork),
            "take over" => Some(Self::TakeOver),
            "read" | "read only" => Some(Self::View),
            _ => None,
        }
    }

    pub(super) fn apply(self, settings: &mut RunSettings) {
        match self {
            Self::TakeOver => settings.session.take_over = true,
            Self::Fork | Self::View => {
                if let SessionChoice::Continue { fork } | SessionChoice::Resume { fork, .. } =
                    &mut settings.session.choice
                {
                    *fork = Some(Fork::default());
                }
                settings.session.persist &= self == Self::Fork;
                settings.session.only_shown = self == Self::View;
            }
        }
    }
}

/// Asks the user. `None`: quit, or with `goes_back` return to the session before.
pub(super) async fn ask(
    failure: &Failure,
    typed: Option<&mut LineInput>,
    goes_back: bool,
) -> Result<Option<Answer>, Failure> {
    let otherwise =
        if goes_back { "Enter alone goes back to the previous session." } else { "Enter alone quits." };
    let shown = writeln!(
        io::stderr(),
        "{failure}\n\nType one of these words:\n  fork       continue in a copy\n  take over  continue here; the other process can add nothing more\n  \
         read       show all of it; nothing is sent to the model, changed or saved\n{otherwise}"
    );
    shown.map_err(|e| Failure::error(format!("the terminal cannot be used: {e}")))?;
    let _ = write!(io::stderr(), "> ");
    let line = match typed {
        Some(typed) => typed.lines.recv().await,
        None => tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            io::stdin().read_line(&mut line).ok().map(|_| line)
        })
        .await
        .ok()
        .flatten(),
    };
    let answer = line.as_deref().and_then(Answer::parse);
    if answer.is_none()
        && let Some(typed) = line.as_deref().and_then(unknown_answer_line)
    {
        let _ = writeln!(io::stderr(), "{typed}");
    }
    Ok(answer)
}

/// Returns a line that says that the typed text is not one of the expected words; `None` if nothing was typed.
fn unknown_answer_line(line: &str) -> Option<String> {
    let typed = line.trim();
    let shown: String = typed.chars().take(40).collect();
    (!typed.is_empty()).then(|| {
        format!("`{}` is none of these words, so the session is not opened.", becket_print::clean(&shown))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_offered_is_an_answer() {
        for (line, answer) in [
            ("fork\n", Some(Answer::Fork)),
            (" Take over ", Some(Answer::TakeOver)),
            ("read", Some(Answer::View)),
            ("f\n", None),
            ("t\n", None),
            ("r\n", None),
            ("q", None),
            ("", None),
            ("yes", None),
        ] {
            assert_eq!(Answer::parse(line), answer, "{line:?}");
            let is_named = unknown_answer_line(line).is_some_and(|said| said.contains(line.trim()));
            assert_eq!(is_named, !line.trim().is_empty(), "{line:?}");
        }
    }
}
