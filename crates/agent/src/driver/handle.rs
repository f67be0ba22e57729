//! A front end's side of an agent: commands in, events out, and questions about the session.
//!
//! The agent answers a question from what it has in memory, also while it works, so no page has to find the session on
//! disk. A question changes nothing and leaves no entry.

use super::ledger::Core;
use super::live::Live;
use crate::host::lock;
use becket_session::{Snapshot, StoreError};
use becket_types::{Command, Event, Seq};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};

/// A front end's side of an agent.
#[derive(Debug)]
pub struct AgentHandle {
    pub commands: mpsc::Sender<Command>,
    pub events: mpsc::UnboundedReceiver<Event>,
    pub queries: Queries,
    /// The settings of the session as they are now.
    pub live: Arc<Mutex<Live>>,
}

/// A question about the session, with the channel for its answer.
#[derive(Debug)]
pub enum Query {
    /// The session at this moment: its view, and its entries to read.
    Snapshot(oneshot::Sender<Result<Snapshot, StoreError>>),
    /// The session state of this name.
    State { key: &'static str, answer: oneshot::Sender<Option<Value>> },
    /// The number of the last entry.
    LastEntry(oneshot::Sender<Seq>),
}

/// Asks the agent.
#[derive(Clone, Debug)]
pub struct Queries {
    sender: mpsc::UnboundedSender<Query>,
}

impl Queries {
    /// Returns the channel, and the end on which questions arrive.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<Query>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender }, receiver)
    }

    /// Sends a question and returns its answer, to be awaited. It is an error if the agent has ended.
    pub fn ask<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> Query) -> oneshot::Receiver<T> {
        let (answer, receiver) = oneshot::channel();
        // The answer's sender is dropped with a question that cannot be sent, which is an error for the receiver.
        let _ = self.sender.send(query(answer));
        receiver
    }

    /// Like [`Self::ask`] with [`Query::State`].
    pub fn state(&self, key: &'static str) -> oneshot::Receiver<Option<Value>> {
        self.ask(|answer| Query::State { key, answer })
    }
}

/// Answers a question. If nobody waits for the answer any more, nothing happens.
pub(super) fn answer(query: Query, core: &Core) {
    let session = lock(&core.session);
    match query {
        Query::Snapshot(answer) => drop(answer.send(session.snapshot())),
        Query::State { key, answer } => drop(answer.send(session.view().state(key).cloned())),
        Query::LastEntry(answer) => drop(answer.send(session.last_seq())),
    }
}
