//! The context: what the model sees, message by message, with where each came from.

use crate::{BlobId, Message, MessageId, Seq, Tokens};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the model sees now: the result of `view(ledger, policy)`.
///
/// While `generation` stays the same, `messages` only grows at its end and no message in it changes: an adapter may
/// keep the wire bytes of the messages it has already encoded. A new generation is a boundary that the ledger records
/// (compaction, prune, revert, model or tool-set change).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    pub generation: u64,
    /// System prompt and rules, in order, each a block of its own.
    pub system: Arc<[Arc<str>]>,
    pub messages: Vec<Arc<ContextMessage>>,
}

/// One message as it is sent, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextMessage {
    /// Shared with the view where it is sent as the ledger has it.
    pub message: Arc<Message>,
    pub provenance: Provenance,
    /// Our estimate of what it costs.
    pub tokens: Tokens,
}

/// Where a message in the context comes from and what the engine did to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Provenance {
    pub seq: Seq,
    /// The ledger's message; `None` for what the view made itself (a repair).
    pub message: Option<MessageId>,
    /// Plain names of what was applied: `reminder`, `pruned`, `escaped`, `repaired: …`, `media: …`.
    pub applied: Vec<String>,
}

/// A span of a request for people: `becket context`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    pub kind: SpanKind,
    /// Rules file, tool name, role; what a person would call it.
    pub label: String,
    pub seq: Option<Seq>,
    pub bytes: u64,
    pub tokens: Tokens,
    pub blob: Option<BlobId>,
    pub applied: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    System,
    Rules,
    Tools,
    Summary,
    State,
    User,
    Assistant,
    Reasoning,
    ToolCall,
    ToolOutput,
    Media,
    Continuation,
    Reminder,
}
