//! Ledger entries: what happened, in order. The ledger is never rewritten; everything, undo included, is one more entry.

use crate::{BlobId, CallId, FinishReason, LeftOut, Message, MessageId, Millis, Part, Seq, Tokens, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// One line of a ledger: entries that are there whole or not at all.
///
/// `hash` is the hex SHA-256 of the line's JSON without the `hash` key, and so covers `prev`, the hash of the line before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    pub prev: String,
    pub entries: Vec<Entry>,
    pub hash: String,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub seq: Seq,
    /// When it was appended, by the wall clock. For people; nothing is ordered by it.
    pub time: Millis,
    #[serde(flatten)]
    pub kind: EntryKind,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EntryKind {
    /// Always the first entry.
    Session {
        session: crate::SessionId,
        format: u32,
        version: String,
        cwd: PathBuf,
        /// The session and place this one was forked from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<(crate::SessionId, Seq)>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// System prompt and rules as they are sent from here on; replaces the one before. A boundary.
    System {
        items: Vec<SystemItem>,
    },
    /// A whole message, or an assistant's first part(s) while it still streams.
    Message {
        message: Message,
    },
    /// One more part of an assistant message that is still streaming.
    Part {
        message: MessageId,
        part: Part,
    },
    /// The assistant message is finished; before this entry it counts as interrupted.
    Finish {
        message: MessageId,
        reason: FinishReason,
    },
    /// T9: these outputs are stubs in the view from here on. A boundary.
    Prune {
        calls: Vec<PrunedCall>,
        /// Images and files that the view shows as text from here on: message and part index.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<(MessageId, u32)>,
        /// Outputs that the view shows in part from here on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cuts: Vec<CutOutput>,
        freed_tokens: Tokens,
        reason: PruneReason,
    },
    /// T8. Its continuation message is in the same commit. A boundary.
    Compaction(Box<Compaction>),
    /// The entry named (a compaction, prune, pin, revert …) counts as if it were not there. A boundary.
    Revert {
        entry: Seq,
    },
    /// Neither prune nor compaction removes the target from the view.
    Pin {
        target: PinTarget,
    },
    /// Messages that a compaction took out are in the view again, at their places. A boundary.
    Restore {
        messages: Vec<MessageId>,
    },
    /// T5: the user message is wrapped from this step on.
    Reminder {
        message: MessageId,
        step: u64,
    },
    /// Requests go to this model from here on. A boundary.
    ModelSwitch {
        model: String,
    },
    /// Tools the model has from here on, by name. A boundary when it differs from the one before.
    Tools {
        names: Vec<String>,
        hash: String,
        /// What the model is told of them: a blob with the specs as a JSON array.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        specs: Option<BlobId>,
    },
    /// A request goes out. With the entries before it, this is enough to make its bytes again.
    Request(Box<SentRequest>),
    /// What a request used. `purpose` is `turn` or `summary`.
    Usage {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        model: String,
        usage: Usage,
        cost_usd: f64,
        purpose: String,
    },
    /// Every call id runs at most once ever: written before and after it runs.
    ToolJournal {
        call_id: CallId,
        state: JournalState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// One line for people and for the summary: the command, the path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
        /// Exit code, files changed: what the summary's engine-filled sections are made of.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
    },
    /// A call was allowed or denied. Has no effect on the view; in the commit of the call's journal.
    Permission(Box<crate::PermissionDecision>),
    /// Session state that survives compactions, under a name: `todo`, `mode`, `skills`, `read_files`, `cwd`, …
    State {
        key: String,
        value: Value,
    },
    Title {
        title: String,
    },
    /// The user interrupted.
    Interrupt,
    /// A turn is over; `end` is the machine name of why.
    TurnEnd {
        end: String,
        state: TurnState,
    },
    /// Something the user was told: a retry, a repair, a truncation, a fallback. Nothing is silent.
    Notice {
        text: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// What files are, before a call that may change them.
    FileSnapshot(Box<crate::FileSnapshot>),
    /// What a call, an undo or a redo did to files.
    FileChanges(Box<crate::FileChanges>),
    /// A kind written by a newer becket: kept, has no effect on the view.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

/// What makes the bytes of one request, beside the entries before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRequest {
    /// `provider/name`.
    pub model: String,
    /// `turn` or `summary`, as in `usage`.
    pub purpose: String,
    /// Output limit in tokens that was sent.
    pub max_output: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The model was not allowed to call a tool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_calls: bool,
    #[serde(default, skip_serializing_if = "WireLayout::is_standard")]
    pub layout: WireLayout,
    /// Of a summary: a blob `{"system", "prompt"}`. With an empty `system` the prompt stands behind the running
    /// request, else it is a request of its own, without tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<BlobId>,
    /// Length of the body, and its hex SHA-256.
    pub bytes: u64,
    pub sha256: String,
}

/// How messages are laid out for the chat template of a server, from the usual form to the strictest. Each layout includes
/// the restrictions of the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireLayout {
    #[default]
    Standard,
    /// One tool call per assistant message, call ids of nine letters and digits, no `null` content, and always an assistant
    /// message between tool results and a user message.
    SingleCalls,
    /// The system prompt is the first user message.
    NoSystem,
    /// Tool calls and results are text; only the roles user and assistant remain.
    TextOnly,
}

impl WireLayout {
    /// True for the layout that every server gets unless it refused it.
    pub fn is_standard(&self) -> bool {
        *self == Self::Standard
    }
}

/// A file whose content came along with a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFile {
    /// As the model reads it: relative to the working directory where it lies below it.
    pub path: String,
    /// SHA-256 of its bytes.
    pub hash: String,
    /// Lines of the whole file.
    pub total: u64,
    /// First and last line of each range that is there.
    pub lines: Vec<(u64, u64)>,
}

/// One block of the system prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemItem {
    pub kind: SystemKind,
    /// The rules file, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemKind {
    Prompt,
    Environment,
    Rules,
    Skills,
    Appended,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedCall {
    pub call_id: CallId,
    /// Size of the original output.
    pub bytes: u64,
    pub lines: u64,
    /// Lines that stay visible behind the stub.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
}

/// A tool output of which the view shows the beginning and the end. The ledger keeps all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOutput {
    pub call_id: CallId,
    /// Size of the original output.
    pub bytes: u64,
    pub lines: u64,
    /// Bytes that stay at the beginning, and at the end.
    pub head: u64,
    pub tail: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PruneReason {
    /// Inside a compaction, or instead of one.
    Compaction,
    /// The cache was cold anyway.
    CacheCold,
    /// The request had more images or bytes than the provider takes.
    MediaLimit,
    Manual,
    /// The results of one step were too large together: the largest are shown in part.
    StepLimit,
}

/// T8: what a compaction did. The summary is plain text, always.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// With the anchor block spliced in: exactly what the model sees.
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// First ledger entry of the tail that stays verbatim; entries from here on are in the view.
    pub tail_from: Seq,
    /// Messages at or behind `tail_from` that are nevertheless out of the view (an unanswered prompt that the
    /// continuation repeats).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_out: Vec<MessageId>,
    /// Messages before `tail_from` that stay in the view (pins, the last user message).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<MessageId>,
    /// The compaction entry whose summary this one updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Seq>,
    /// Prune that belongs to this compaction; undone with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pruned: Vec<PrunedCall>,
    /// Outputs that the model has not answered yet and that are shown in part, so that their step fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<CutOutput>,
    /// Images and files behind `tail_from` that became text: message and part index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<(MessageId, u32)>,
    /// Session state re-injected behind the summary (todo list, skills, files read).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Rules files below the working directory, shown behind the summary, each as a message of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<SystemItem>,
    /// Files whose content stands in `state`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<AttachedFile>,
    pub tokens_before: Tokens,
    pub tokens_after: Tokens,
    pub trigger: CompactionTrigger,
    /// `provider/name` of the summarising model, empty for the fallback.
    pub model: String,
    pub source: CompactionSource,
    /// `pruned_head`, `cached_prefix` or `prepared`: which request was made for the summary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    /// Text of the summarising model that is not in the summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// The last entry of the view from before.
    pub snapshot_of: Seq,
    pub turn_state: TurnState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The threshold was reached.
    Auto,
    /// The provider refused a request as too long.
    Overflow,
    Manual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionSource {
    Model,
    /// Deterministic, made without a model.
    Fallback,
}

/// Where a turn stands; stored, never guessed (law 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// The model has answered; the user is next.
    AwaitingUser,
    /// The model is at work on the user's message.
    MidTurn,
    /// The last user message has no answer yet.
    Unanswered,
    /// The last user message holds media and work is under way.
    Media,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// The model asked for it; permission not decided yet.
    Intended,
    /// About to run, or running. Seen on resume without `finished`: effect unknown, never run again.
    Started,
    Finished,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinTarget {
    Message(MessageId),
    Call(CallId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_flat_tagged_json_and_unknown_kinds_survive() {
        let json = r#"{"seq":3,"time":9,"kind":"prune","calls":[{"call_id":"c1","bytes":10,"lines":2}],"freed_tokens":7,"reason":"cache_cold"}"#;
        let entry: Entry = serde_json::from_str(json).unwrap();
        assert!(matches!(entry.kind, EntryKind::Prune { .. }));
        assert_eq!(serde_json::to_string(&entry).unwrap(), json);

        let json = r#"{"seq":4,"time":9,"kind":"teleport","to":"mars"}"#;
        let entry: Entry = serde_json::from_str(json).unwrap();
        assert!(matches!(entry.kind, EntryKind::Unknown(_)));
        assert_eq!(serde_json::to_string(&entry).unwrap(), json);
    }

    #[test]
    fn an_interrupt_has_no_payload() {
        let entry = Entry { seq: Seq(1), time: Millis(2), kind: EntryKind::Interrupt };
        let json = serde_json::to_string(&entry).unwrap();
        assert_eq!(json, r#"{"seq":1,"time":2,"kind":"interrupt"}"#);
        assert_eq!(serde_json::from_str::<Entry>(&json).unwrap(), entry);
    }
}
