//! The context: the messages that the model sees, each with its provenance.

use crate::{BlobId, Message, MessageId, Seq, Tokens};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Everything the model sees now: the result of `view(ledger, policy)`.
///
/// While `generation` stays the same, `messages` only grows at its end and no message in it changes. So an
/// adapter may keep the wire bytes of the messages that it has encoded. A new generation is a boundary that
/// the ledger records (compaction, prune, revert, change of the model or the tool set).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Number of the generation. It only grows.
    pub generation: u64,
    /// System prompt and rules, in order. Each block is sent as a block of its own.
    pub system: Arc<[Arc<str>]>,
    pub messages: Vec<Arc<ContextMessage>>,
}

/// One message as it is sent, with its provenance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextMessage {
    /// The message. Its allocation is shared with the view if the message is sent exactly as the ledger has
    /// it.
    pub message: Arc<Message>,
    pub provenance: Provenance,
    /// becket's estimate of the message's size.
    pub tokens: Tokens,
}

/// The origin of a message in the context, and the changes that the view made to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Provenance {
    /// The entry of the ledger that the message comes from.
    pub seq: Seq,
    /// Id of the message in the ledger; `None` for a message that the view made itself (a repair).
    pub message: Option<MessageId>,
    /// Names of the rules that changed this message: `reminder`, `pruned`, `escaped`, `repaired: …`, `media:
    /// …`.
    pub applied: Vec<String>,
}

/// One span of a request, as `becket context` lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    pub kind: SpanKind,
    /// Name of the span for people: a rules file, a tool, a role.
    pub label: String,
    /// The entry of the ledger; `None` for a span that no entry holds, such as tools.
    pub seq: Option<Seq>,
    /// Length of the text as the view has it.
    pub bytes: u64,
    /// becket's estimate of the span's size.
    pub tokens: Tokens,
    /// The blob with the whole content, if the ledger has only a reference or a part of it.
    pub blob: Option<BlobId>,
    /// The changes that the view made, as in [`Provenance::applied`].
    pub applied: Vec<String>,
}

/// The kind of one part of a request, as `/context` and the inspector group them.
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
