//! Work of a run that waits for MCP servers, while the loop goes on. It must go on, because servers in the program's own
//! process are reached through it.
//!
//! Owns the order: a prompt or a change of the servers that comes while anything waits is held until that is over. So a
//! prompt has the tools of the servers that were set before it, and changes do not overtake each other.

use becket_types::PromptInput;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use std::collections::VecDeque;

/// The result of an operation that was waited for.
pub(super) enum Waited {
    /// The servers in the program's process have started.
    Started,
    /// The answer to a request of the program, by its id.
    Answer(String, Result<Value, String>),
    /// A prompt whose references to servers are expanded.
    Prompt(PromptInput),
}

/// A line of the program that is held.
pub(super) enum Held {
    Prompt(PromptInput),
    /// A control request: its id, its subtype and its body.
    Request(String, String, Value),
}

#[derive(Default)]
pub(super) struct Waits {
    running: FuturesUnordered<BoxFuture<'static, Waited>>,
    /// Lines that came in the meantime.
    held: VecDeque<Held>,
}

impl Waits {
    pub(super) fn add(&mut self, work: impl Future<Output = Waited> + Send + 'static) {
        self.running.push(Box::pin(work));
    }

    /// Returns the next result. Never returns while nothing is waited for.
    pub(super) async fn next(&mut self) -> Waited {
        match self.running.next().await {
            Some(waited) => waited,
            None => std::future::pending().await,
        }
    }

    pub(super) fn hold(&mut self, line: Held) {
        self.held.push_back(line);
    }

    /// True while lines have to be held.
    pub(super) fn any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns the next held line, if nothing is waited for any more.
    pub(super) fn take(&mut self) -> Option<Held> {
        if self.any() { None } else { self.held.pop_front() }
    }

    /// True if nothing waits and no line is held.
    pub(super) fn is_over(&self) -> bool {
        !self.any() && self.held.is_empty()
    }
}
