//! A session that is only shown, because another process has it open: the interface works, but its commands change nothing.
//!
//! Owns the decision which commands reach the agent. All others are answered here, so that no message is sent to the model
//! and no file is changed.

use crate::settings::RunSettings;
use becket_tui::input::{Input, Reply};
use becket_types::{Command, Event, Message, NoticeLevel, TurnResult};
use tokio::sync::mpsc;

const READ_ONLY_NOTICE: &str = "This session is open for reading only: nothing is sent to the model, and nothing is changed. \
                       /fork continues in a copy; /new begins a session.";

/// Returns the channel for the commands of the interface: that of the agent, unless the session is only shown. The prompt of
/// the command line then waits in the composer.
pub(super) fn commands(
    settings: &mut RunSettings,
    agent: &mpsc::Sender<Command>,
    events: &mpsc::UnboundedSender<Event>,
    inputs: &mpsc::UnboundedSender<Input>,
) -> mpsc::Sender<Command> {
    if !settings.session.only_shown {
        return agent.clone();
    }
    let prompt = settings.task.prompt.take();
    settings.task.draft = prompt.or_else(|| settings.task.draft.take());
    only_shown(agent.clone(), events.clone(), inputs.clone())
}

/// Returns a channel for commands. Only commands that change nothing are passed on to `commands`;
/// a notice on `events` answers the others, and the text of a message goes back into the composer through `inputs`.
fn only_shown(
    commands: mpsc::Sender<Command>,
    events: mpsc::UnboundedSender<Event>,
    inputs: mpsc::UnboundedSender<Input>,
) -> mpsc::Sender<Command> {
    let (sender, mut typed) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Some(command) = typed.recv().await {
            if only_reads(&command) {
                if commands.send(command).await.is_err() {
                    return;
                }
                continue;
            }
            let _ = events.send(match command {
                // The interface expects that a message begins a turn, so it gets the end of one, as a failure.
                Command::Prompt(prompt) => {
                    let text = Message { parts: prompt.parts, ..Message::user("") }.text();
                    let _ = inputs.send(Input::Reply(Reply::Draft(text)));
                    Event::TurnFinished(Box::new(TurnResult::failed(READ_ONLY_NOTICE.to_owned())))
                }
                _ => Event::Notice { level: NoticeLevel::Warning, text: READ_ONLY_NOTICE.to_owned() },
            });
        }
    });
    sender
}

/// True for commands without an effect on the session, the model and files.
fn only_reads(command: &Command) -> bool {
    match command {
        Command::Interrupt
        | Command::WithdrawAll
        | Command::Withdraw { .. }
        | Command::EndInput
        | Command::Leave { .. }
        | Command::Abandon
        | Command::Limits { change: None }
        | Command::AddDirectory { path: None } => true,
        Command::WithReceipt { what, .. } => only_reads(what),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{Part, PromptInput};

    #[tokio::test]
    async fn nothing_that_is_typed_reaches_the_agent() {
        let (to_agent, mut agent) = mpsc::channel(16);
        let (to_screen, mut screen) = mpsc::unbounded_channel();
        let (to_composer, mut composer) = mpsc::unbounded_channel();
        let typed = only_shown(to_agent, to_screen, to_composer);
        let prompt = PromptInput { parts: vec![Part::text("do it")], ..PromptInput::default() };
        let changes = [
            Command::Prompt(prompt),
            Command::Continue,
            Command::Undo,
            Command::Compact { focus: None },
            Command::SideQuestion { question: "why?".to_owned() },
            Command::Rename { title: "x".to_owned() },
        ];
        let refused = changes.len();
        for command in changes {
            typed.send(command).await.unwrap();
        }
        typed.send(Command::Limits { change: None }).await.unwrap();
        drop(typed);
        assert_eq!(agent.recv().await, Some(Command::Limits { change: None }));
        assert_eq!(agent.recv().await, None);
        assert_eq!(
            screen.recv().await,
            Some(Event::TurnFinished(Box::new(TurnResult::failed(READ_ONLY_NOTICE.to_owned()))))
        );
        assert_eq!(composer.recv().await, Some(Input::Reply(Reply::Draft("do it".to_owned()))));
        for _ in 1..refused {
            let notice = screen.recv().await;
            assert!(
                matches!(&notice, Some(Event::Notice { text, .. }) if text == READ_ONLY_NOTICE),
                "{notice:?}"
            );
        }
        assert_eq!(screen.recv().await, None);
    }
}
