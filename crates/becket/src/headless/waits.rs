//! Work of a run that waits for MCP servers, while the loop goes on. It must go on, because servers in the program's own
//! process are reached through it.
//!
//! Owns the order: a prompt or a change of the servers that comes while anything waits is held until that is over. So a
//! prompt has the tools of the servers that were set before it, and changes do not overtake each other.

use super::known_commands::KnownCommands;
use becket_types::{Command, PromptInput};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use tokio::sync::oneshot;

/// The answer to a request that the program has withdrawn.
const WITHDRAWN: &str = "the request was withdrawn";

/// A request to clear the conversation that the agent has not confirmed yet.
pub(super) struct Clearing {
    /// The id under which the agent confirms it.
    pub(super) request_id: String,
    /// The driving program's id of the message with the command.
    pub(super) client_id: Option<String>,
    /// Releases the lines that wait.
    pub(super) done: oneshot::Sender<()>,
}

/// The result of an operation that was waited for.
pub(super) enum Completion {
    /// The servers in the driving program's process have started.
    Started,
    /// The conversation is cleared.
    Cleared,
    /// The answer to a request of the driving program, by its id.
    Answer(String, Result<Value, String>),
    /// A prompt whose references to servers are expanded.
    Prompt(PromptInput),
    /// The reason why a prompt is not sent.
    Refused(PromptInput, String),
    /// The decision of a tool about a question for permission, by the id of the question.
    Decided(String, Result<Value, String>),
    /// The pause before the result of a message without text is over.
    Blank,
    /// The changed list of slash commands, and the reason if hooks refuse the change.
    Commands(KnownCommands, Option<String>),
}

/// A line of the driving program that is held.
pub(super) enum QueuedLine {
    Prompt(PromptInput),
    /// A prompt that is sent as it is.
    Composed(PromptInput),
    /// A compaction by hand.
    Compact(Command),
    /// A control request: its id, its subtype and its body.
    Request(String, String, Value),
}

impl QueuedLine {
    /// Returns the driving program's id of a message.
    pub(super) fn client_id(&self) -> Option<&str> {
        match self {
            Self::Prompt(input) | Self::Composed(input) => input.client_id.as_deref(),
            Self::Compact(_) | Self::Request(..) => None,
        }
    }

    /// True for a message of the driving program.
    pub(super) fn is_message(&self) -> bool {
        !matches!(self, Self::Request(..))
    }
}

#[derive(Default)]
pub(super) struct PendingWork {
    running: FuturesUnordered<BoxFuture<'static, Completion>>,
    /// Work during which new lines are handled at once. Work in `running` holds them back.
    unordered: FuturesUnordered<BoxFuture<'static, Completion>>,
    /// Lines that came while work in `running` was not finished.
    held_lines: VecDeque<QueuedLine>,
    /// By the id of a request: ends its work if the driving program withdraws the request.
    cancels: HashMap<String, oneshot::Sender<()>>,
}

impl PendingWork {
    pub(super) fn add(&mut self, work: impl Future<Output = Completion> + Send + 'static) {
        self.running.push(Box::pin(work));
    }

    /// Adds work for which later lines do not wait. Only the end of the input waits until this work has finished.
    pub(super) fn add_unordered(&mut self, work: impl Future<Output = Completion> + Send + 'static) {
        self.unordered.push(Box::pin(work));
    }

    /// Does work for a request, until the driving program withdraws the request.
    pub(super) fn until_cancelled(
        &mut self,
        id: &str,
        work: impl Future<Output = Result<Value, String>> + Send + 'static,
    ) {
        let (cancel, cancelled) = oneshot::channel();
        self.cancels.retain(|_, cancel| !cancel.is_closed());
        self.cancels.insert(id.to_owned(), cancel);
        let id = id.to_owned();
        self.add_unordered(async move {
            let answer = tokio::select! {
                answer = work => answer,
                Ok(()) = cancelled => Err(WITHDRAWN.to_owned()),
            };
            Completion::Answer(id, answer)
        });
    }

    /// Ends the work for a request, if there is any, and answers a request that is held. An id that is not known has no effect:
    /// its request was answered, or comes later and is then a new one.
    pub(super) fn cancel(&mut self, id: &str) {
        if let Some(cancel) = self.cancels.remove(id) {
            // Work that has ended needs no signal.
            let _ = cancel.send(());
        }
        let held =
            self.held_lines.iter().position(|line| matches!(line, QueuedLine::Request(of, ..) if of == id));
        if held.and_then(|at| self.held_lines.remove(at)).is_some() {
            self.add_unordered(std::future::ready(Completion::Answer(
                id.to_owned(),
                Err(WITHDRAWN.to_owned()),
            )));
        }
    }

    /// Returns the next result. Never returns while nothing is waited for.
    pub(super) async fn next(&mut self) -> Completion {
        tokio::select! {
            Some(waited) = self.running.next() => waited,
            Some(waited) = self.unordered.next() => waited,
            else => std::future::pending().await,
        }
    }

    /// Discards the prompts that are held. Returns the driving program's ids of them.
    pub(super) fn drop_prompts(&mut self) -> Vec<String> {
        let mut ids = Vec::new();
        self.held_lines.retain(|line| {
            ids.extend(line.client_id().map(str::to_owned));
            !line.is_message()
        });
        ids
    }

    /// Returns the lines that are held.
    pub(super) fn held_lines(&self) -> impl Iterator<Item = &QueuedLine> {
        self.held_lines.iter()
    }

    pub(super) fn hold(&mut self, line: QueuedLine) {
        self.held_lines.push_back(line);
    }

    /// True while lines have to be held.
    pub(super) fn holds(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns the next held line, if nothing is waited for any more.
    pub(super) fn take(&mut self) -> Option<QueuedLine> {
        if self.holds() { None } else { self.held_lines.pop_front() }
    }

    /// True if nothing waits and no line is held.
    pub(super) fn is_over(&self) -> bool {
        !self.holds() && self.unordered.is_empty() && self.held_lines.is_empty()
    }
}
