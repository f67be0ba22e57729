//! Sessions one after the other: the first one, and those that the user changes to.
//!
//! Owns the change between sessions. Only the first session ends the program if it cannot be opened. Later, becket goes
//! back to the session that the user left, and says there why the other one was not opened.

use super::elicitation::AskUser;
use super::line_input::LineInput;
use super::{TerminalHandover, first_run, session, session_in_use};
use crate::assemble::assemble;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::{Fork, RunSettings, Screen, SessionChoice, SessionPlan};
use becket_print::ExitStatus;
use becket_tui::Ended;
use becket_tui::input::To;
use becket_types::{EndReason, Event, NoticeLevel, SessionId};

/// Action after a session has ended.
pub(super) enum Next {
    Quit,
    Terminated,
    /// `from`: the session that the user left.
    Switch {
        to: SessionChoice,
        from: SessionId,
    },
}

impl Next {
    /// Returns the reason for the end of a session, for its hooks.
    pub(super) fn reason(ended: &Ended) -> EndReason {
        match ended {
            Ended::Quit => EndReason::PromptInputExit,
            Ended::Switch(To::New) => EndReason::Clear,
            Ended::Switch(To::Session(_) | To::Fork) => EndReason::Resume,
            Ended::Terminated | Ended::AgentGone => EndReason::Other,
        }
    }

    /// Returns the action after a session that ended in this way.
    pub(super) fn after(ended: Ended, session: SessionId) -> Self {
        let to = match ended {
            Ended::Quit | Ended::AgentGone => return Self::Quit,
            Ended::Terminated => return Self::Terminated,
            Ended::Switch(To::New) => SessionChoice::New { id: None },
            Ended::Switch(To::Session(query)) => SessionChoice::Resume { query, fork: None },
            Ended::Switch(To::Fork) => {
                SessionChoice::Resume { query: session.to_string(), fork: Some(Fork::default()) }
            }
        };
        Self::Switch { to, from: session }
    }
}

/// Runs sessions until the user quits.
///
/// # Errors
///
/// Returns a failure for the user if the first session cannot be opened, or the terminal cannot be used.
pub(super) async fn until_quit(
    environment: &Environment,
    mut settings: RunSettings,
    held: &TerminalHandover,
    mut typed: Option<&mut LineInput>,
) -> Result<ExitStatus, Failure> {
    // A single session may be opened for reading only; the next one uses the original setting.
    let persist = settings.session.persist;
    let (mut left, mut failed): (Option<SessionId>, Option<String>) = (None, None);
    loop {
        // A screen reader reads lines, in which a form cannot be filled in.
        let (ask, asked) = AskUser::new();
        settings.client.ask_user = (settings.screen != Screen::Lines).then_some(ask);
        let assembled = match assemble(environment, &mut settings).await {
            Ok(assembled) => assembled,
            Err(failure) => {
                if failure.in_use
                    && let Some(answer) =
                        session_in_use::ask(&failure, typed.as_deref_mut(), left.is_some()).await?
                {
                    answer.apply(&mut settings);
                    continue;
                }
                // The question for the key is only for a first session. After a change, becket returns to the session
                // that the user left, in which /login takes a key.
                if left.is_none()
                    && failed.is_none()
                    && let Some(model) = &failure.lacks_key
                    && first_run::missing_key(
                        environment,
                        &mut settings,
                        typed.as_deref_mut(),
                        model,
                        &failure,
                    )
                    .await?
                {
                    continue;
                }
                let Some(choice) = session_after_failure(&mut left, &mut failed, &settings, &failure) else {
                    return if failure.in_use { Ok(ExitStatus::Usage) } else { Err(failure) };
                };
                go_to(&mut settings, choice, persist);
                continue;
            }
        };
        let next = Box::pin(session(
            environment,
            &mut settings,
            held,
            typed.as_deref_mut(),
            assembled,
            asked,
            failed.take(),
        ))
        .await?;
        match next {
            Next::Quit => return Ok(ExitStatus::Ok),
            Next::Terminated => return Ok(ExitStatus::Terminated),
            Next::Switch { to, from } => {
                left = Some(from);
                let cleared = matches!(to, SessionChoice::New { .. });
                go_to(&mut settings, to, persist);
                settings.session.cleared = cleared;
            }
        }
    }
}

fn go_to(settings: &mut RunSettings, to: SessionChoice, persist: bool) {
    settings.task.prompt = None;
    settings.session.title = None;
    settings.session.choice = to;
    settings.session.take_over = false;
    settings.session.cleared = false;
    settings.session.persist = persist;
    settings.session.only_shown = false;
}

/// Returns the session to open in place of one that failed, and records the reason: the one that the user left, or a
/// new one if that cannot be opened either. `None`: nothing was left, or a new session fails as well.
fn session_after_failure(
    left: &mut Option<SessionId>,
    failed: &mut Option<String>,
    settings: &RunSettings,
    failure: &Failure,
) -> Option<SessionChoice> {
    if let Some(session) = left.take() {
        *failed = Some(failure_line(failure));
        return Some(SessionChoice::Resume { query: session.to_string(), fork: None });
    }
    let why = failed.as_mut().filter(|_| settings.continues_session())?;
    why.push_str(" The previous session was not saved, so this is a new one.");
    Some(SessionChoice::New { id: None })
}

/// Describes the failure in one line of a session.
fn failure_line(failure: &Failure) -> String {
    let hint = failure.hint.as_deref().map(|hint| format!(" {}.", hint.trim_end_matches('.')));
    format!(
        "The other session was not opened: {}.{}",
        failure.message.trim_end_matches('.'),
        hint.unwrap_or_default()
    )
}

/// Returns the notices with which a session begins. `copied`: the source of a session that is a copy in memory.
/// `failed`: why the session that the user asked for was not opened.
pub(super) fn first_notices(
    plan: &SessionPlan,
    session: SessionId,
    copied: Option<SessionId>,
    warnings: Vec<String>,
    failed: Option<String>,
) -> impl Iterator<Item = Event> {
    let is_fork = matches!(
        plan.choice,
        SessionChoice::Continue { fork: Some(_) } | SessionChoice::Resume { fork: Some(_), .. }
    );
    let forked = match copied {
        Some(source) if plan.only_shown => Some((
            NoticeLevel::Warning,
            format!(
                "Open for reading only, because another process has session {source}. Nothing is sent to the model, \
                 changed or saved. /fork continues in a copy."
            ),
        )),
        Some(source) => Some((
            NoticeLevel::Warning,
            format!(
                "This is a copy of session {source} that is not saved: what you add is lost when you leave it."
            ),
        )),
        None => is_fork.then(|| (NoticeLevel::Info, format!("Forked. This copy is session {session}."))),
    };
    let warnings = warnings.into_iter().map(|text| (NoticeLevel::Warning, text));
    let failed = failed.map(|text| (NoticeLevel::Error, text));
    warnings.chain(forked).chain(failed).map(|(level, text)| Event::Notice { level, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Run;
    use clap::Parser as _;
    use std::path::Path;

    #[test]
    fn a_change_that_fails_goes_back_to_the_session_before() {
        let environment = Environment::below(Path::new("/nowhere"));
        let run = Run::try_parse_from(["becket", "-p", "x"]).unwrap();
        let mut settings = RunSettings::new(run, &environment).unwrap();
        let failure = Failure::usage("There is no key for the OpenAI API.").hint("Set OPENAI_API_KEY.");
        let session = SessionId::new();
        let (mut left, mut failed) = (Some(session), None);
        settings.session.choice = SessionChoice::Resume { query: "other".to_owned(), fork: None };
        let to = session_after_failure(&mut left, &mut failed, &settings, &failure).unwrap();
        assert_eq!(to, SessionChoice::Resume { query: session.to_string(), fork: None });
        let said =
            "The other session was not opened: There is no key for the OpenAI API. Set OPENAI_API_KEY.";
        assert_eq!(failed.as_deref(), Some(said));
        // The session that was left cannot be opened either, so a new one is begun.
        settings.session.choice = to;
        let to = session_after_failure(&mut left, &mut failed, &settings, &failure).unwrap();
        assert_eq!(to, SessionChoice::New { id: None });
        assert!(failed.as_deref().unwrap().starts_with(said));
        settings.session.choice = to;
        assert_eq!(session_after_failure(&mut left, &mut failed, &settings, &failure), None);
        // If the first session fails, there is none to go back to.
        settings.session.choice = SessionChoice::Continue { fork: None };
        assert_eq!(session_after_failure(&mut None, &mut None, &settings, &failure), None);
    }
}
