//! Ledger entries: everything that happened, in order. The ledger is never rewritten; an undo is one more
//! entry.

use crate::{
    BlobId, CacheLifetime, CallId, FinishReason, LeftOut, Message, MessageId, Millis, Part, Seq, SizeChange,
    Tokens, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// One line of a ledger. Its entries are written all together or not at all.
///
/// `hash` is the hex SHA-256 of all bytes of the line before `,"hash"`. It therefore also covers `prev`, the hash of the previous
/// line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// `hash` of the previous line.
    pub prev: String,
    pub entries: Vec<Entry>,
    pub hash: String,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub seq: Seq,
    /// Wall-clock time of the append. For people only; nothing is ordered by it.
    pub time: Millis,
    #[serde(flatten)]
    pub kind: EntryKind,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EntryKind {
    /// Always the first entry.
    Session {
        session: crate::SessionId,
        /// Version of the ledger's format, now 1.
        format: u32,
        /// Version of becket that created the session.
        version: String,
        /// The folder in which the session began, absolute.
        #[serde(with = "crate::path_form")]
        cwd: PathBuf,
        /// The session and entry that this session was forked from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<(crate::SessionId, Seq)>,
        /// Fields of newer versions. They are kept.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// System prompt and rules, sent from here on in place of the previous ones. A boundary.
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
    /// The assistant message is complete. Without this entry a message counts as interrupted.
    Finish {
        message: MessageId,
        reason: FinishReason,
    },
    /// Prune: the view shows stubs for these outputs from here on. A boundary.
    Prune {
        calls: Vec<PrunedCall>,
        /// Images and files that the view shows as text from here on: `(message, index of the part)`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        media: Vec<(MessageId, u32)>,
        /// Outputs that the view shows shortened from here on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cuts: Vec<CutOutput>,
        /// Estimated number of tokens by which the context becomes smaller.
        freed_tokens: Tokens,
        reason: PruneReason,
    },
    /// Inputs of finished calls that the view shows shortened from here on. A boundary.
    CutInputs {
        inputs: Vec<CutInput>,
        /// Estimated number of tokens by which the context becomes smaller.
        freed_tokens: Tokens,
    },
    /// A compaction. Its continuation message is in the same commit. A boundary.
    Compaction(Box<Compaction>),
    /// Cancels the named entry (a compaction, prune, pin, revert …): the view ignores it. A boundary.
    Revert {
        entry: Seq,
    },
    /// Neither prune nor compaction removes the target from the view.
    Pin {
        target: PinTarget,
    },
    /// Messages that a compaction removed are in the view again, at their original positions. A boundary.
    Restore {
        messages: Vec<MessageId>,
    },
    /// The user message is wrapped in a reminder from this step on.
    Reminder {
        message: MessageId,
        step: u64,
    },
    /// Requests go to this model from here on. A boundary.
    ModelSwitch {
        /// `provider/name`.
        model: String,
    },
    /// Names of the tools that the model has from here on. A boundary if the set differs from the previous
    /// one.
    Tools {
        names: Vec<String>,
        /// Hex SHA-256 of the tool specifications.
        hash: String,
        /// Blob with the tool specifications that the model receives, as a JSON array.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        specs: Option<BlobId>,
    },
    /// A request is about to be sent. Together with all earlier entries, this reproduces its bytes.
    Request(Box<SentRequest>),
    /// Tokens that a request used. `purpose` is `turn`, or for a request beside the conversation `summary`, `title`, `btw`
    /// (a side question) or `warm` (only keeps the provider's cache).
    Usage {
        /// The answer to the request; `None` if it is no message of the conversation, such as a summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        /// `provider/name`.
        model: String,
        usage: Usage,
        /// Cost in US dollars, as billed or else by list prices.
        cost_usd: f64,
        purpose: String,
    },
    /// Progress of a tool call, written before and after it runs. It guarantees that every call id runs at
    /// most once, also across crashes.
    ToolJournal {
        call_id: CallId,
        state: JournalState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// One line for people and for the summary, for example the command or the path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
        /// Facts about the finished call (exit code, changed files). The summary's sections that becket fills
        /// in itself are made from them.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
    },
    /// A call was allowed or denied. No effect on the view. Written in the same commit as the call's journal
    /// entry.
    Permission(Box<crate::PermissionDecision>),
    /// A named value of session state that survives compactions: `todo`, `mode`, `skills`, `read_files`,
    /// `cwd`, …; [`EntryKind::IMPORTED`] is one of them.
    State {
        key: String,
        value: Value,
    },
    Title {
        title: String,
    },
    /// The user interrupted.
    Interrupt,
    /// A turn ended. `end` is the machine name of the reason.
    TurnEnd {
        end: String,
        state: TurnState,
    },
    /// A message that the user was shown: a retry, a repair, a truncation, a fallback.
    Notice {
        text: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A hook ran. Has no effect on the view; its text for the model is a message of its own.
    Hook(Box<crate::HookRun>),
    /// State of files before a call that may change them.
    FileSnapshot(Box<crate::FileSnapshot>),
    /// Changes to files by a call, an undo or a redo.
    FileChanges(Box<crate::FileChanges>),
    /// An entry kind written by a newer version of becket. It is kept and has no effect on the view.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl EntryKind {
    /// Key of the state at the place where a session was imported from a file that others may have made. Entries before
    /// it grant nothing: changes of files that they record are not undone here.
    pub const IMPORTED: &'static str = "imported";
}

/// The parameters of one request that do not follow from the earlier entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRequest {
    /// `provider/name`.
    pub model: String,
    /// The purpose, with the same words as in [`EntryKind::Usage`].
    pub purpose: String,
    /// The output limit that was sent, in tokens.
    pub max_output: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// True if the request forbade the model to call tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_calls: bool,
    #[serde(default, skip_serializing_if = "WireLayout::is_standard")]
    pub layout: WireLayout,
    /// The lifetime that the request asked the provider's cache for.
    #[serde(default, skip_serializing_if = "CacheLifetime::is_default")]
    pub cache: CacheLifetime,
    /// Only for a request beside the conversation: a blob with `{"system", "prompt"}`. If `system` is empty, the prompt was
    /// appended to the running conversation; otherwise it was a separate request without tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<BlobId>,
    /// Length of the request body in bytes. `sha256` is its hash in hex.
    pub bytes: u64,
    pub sha256: String,
    /// The expected size of the input, with which becket decided if it fits. Only for `turn`. The report that follows tells
    /// how good the estimate was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Tokens>,
}

/// Layouts of messages for servers whose chat template accepts less than the standard form. Ordered from the
/// standard form to the strictest; each layout includes the restrictions of the ones before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireLayout {
    #[default]
    Standard,
    /// One tool call per assistant message; call ids of nine letters and digits; no `null` content; always an
    /// assistant message between tool results and a user message.
    SingleCalls,
    /// The system prompt is the first user message.
    NoSystem,
    /// Tool calls and results are text; only the roles user and assistant remain.
    TextOnly,
}

impl WireLayout {
    /// True for the layout that is used until a server refuses it.
    pub fn is_standard(&self) -> bool {
        *self == Self::Standard
    }
}

/// A file whose content was attached to a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFile {
    /// Path as the model reads it: relative to the working directory if the file is inside it.
    pub path: String,
    /// Hex SHA-256 of the file's bytes.
    pub hash: String,
    /// Number of lines of the whole file.
    pub total: u64,
    /// First and last line of each attached range.
    pub lines: Vec<(u64, u64)>,
}

/// One block of the system prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemItem {
    pub kind: SystemKind,
    /// Path of the rules file, if this block comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::path_form::option")]
    pub path: Option<PathBuf>,
    pub text: String,
}

/// The source of one block of the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemKind {
    Prompt,
    Environment,
    Rules,
    Skills,
    Appended,
}

/// A tool output that the view shows as a stub. The ledger keeps all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedCall {
    pub call_id: CallId,
    /// Size of the original output.
    pub bytes: u64,
    /// Number of lines of the original output.
    pub lines: u64,
    /// Last lines of the output that stay visible after the stub.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
}

/// A tool output that the view shows only by its beginning and end. The ledger keeps all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOutput {
    pub call_id: CallId,
    /// Size of the original output.
    pub bytes: u64,
    /// Number of lines of the original output.
    pub lines: u64,
    /// Number of bytes shown at the beginning (`head`) and at the end (`tail`).
    pub head: u64,
    pub tail: u64,
}

/// An input of a finished call that the view shows only in part. The ledger keeps all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutInput {
    pub call_id: CallId,
    /// Size of the original input as JSON.
    pub bytes: u64,
    /// Strings of more bytes are shown as their beginning and end. 0: the whole input is replaced by a notice.
    pub keep: u64,
}

/// The reason why outputs were shortened or replaced in the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PruneReason {
    /// Part of a compaction, or made instead of one.
    Compaction,
    /// The provider's cache had expired, so the change cost nothing.
    CacheCold,
    /// The request had more images or bytes than the provider accepts.
    MediaLimit,
    /// At the request of the user.
    Manual,
    /// The results of one step were together too large. The largest ones are shown shortened.
    StepLimit,
}

/// The record of one compaction. The summary is always plain text. In JSON the fields of all parts are fields of the entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// The summary with the anchor block inserted, exactly as the model sees it.
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    #[serde(flatten)]
    pub retained: RetainedMessages,
    /// The previous compaction, if this summary is an update of its summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Seq>,
    #[serde(flatten)]
    pub shortened: ShortenedContent,
    #[serde(flatten)]
    pub repeated: RepeatedContext,
    #[serde(flatten)]
    pub size: SizeChange,
    pub trigger: CompactionTrigger,
    #[serde(flatten)]
    pub origin: SummaryOrigin,
    /// Last entry of the view that was compacted.
    pub snapshot_of: Seq,
    /// State of the turn at the compaction, by which the continuation was chosen.
    pub turn_state: TurnState,
}

/// The messages that are still in the view after a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetainedMessages {
    /// First entry of the tail, which stays word for word. The view contains everything from here on.
    pub tail_from: Seq,
    /// Messages at or after `tail_from` that the view nevertheless omits: an unanswered prompt that the
    /// continuation repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_out: Vec<MessageId>,
    /// Messages before `tail_from` that stay in the view (pinned messages, the last user message).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<MessageId>,
}

/// Content that a compaction shortened without removing its message. Undoing the compaction restores it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortenedContent {
    /// Outputs that became stubs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pruned: Vec<PrunedCall>,
    /// Outputs that the model has not answered yet, shortened so that their step fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<CutOutput>,
    /// Images and files after `tail_from` that became text: `(message, index of the part)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<(MessageId, u32)>,
}

/// Content that a compaction repeats after its summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RepeatedContext {
    /// Session state as text (todo list, skills, files read).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Rules files below the working directory, each in its own message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<SystemItem>,
    /// Files whose content is included in `state`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<AttachedFile>,
}

/// The origin of a compaction's summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryOrigin {
    /// `provider/name` of the summarising model; empty if the deterministic fallback made the summary.
    pub model: String,
    pub source: CompactionSource,
    /// The kind of request that produced the summary: `pruned_head`, `cached_prefix` or `prepared`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input: String,
    /// Text of the summarising model that was not accepted into the summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// The reason why a compaction was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The threshold was reached.
    Auto,
    /// The provider refused a request as too long.
    Overflow,
    /// At the request of the user.
    Manual,
}

/// The author of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionSource {
    /// The summarising model.
    Model,
    /// Made by fixed rules, without a model.
    Fallback,
}

/// State of the current turn. Stored in the ledger, never guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// The model has answered; the user is next.
    AwaitingUser,
    /// The model is working on the user's message.
    MidTurn,
    /// The last user message has no answer yet.
    Unanswered,
    /// The last user message contains images or files, and the model is working on it.
    Media,
}

/// The progress of one tool call, as recorded in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// The model requested the call. Permission is not decided yet.
    Intended,
    /// The call is about to run or running. If a resumed session finds this without `finished`, the effect is
    /// unknown and the call is never run again.
    Started,
    /// The call has a result, which may be an error or a refusal.
    Finished,
}

/// The message or call that a pin protects from compactions.
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

    /// A compaction as version 1 of the format writes it: flat, with its fields in this order.
    #[test]
    fn a_compaction_is_one_flat_object() {
        let full = concat!(
            r#"{"seq":9,"time":2,"kind":"compaction","summary":"So \"far\".","anchor":"a","tail_from":7,"#,
            r#""taken_out":["0197a5b0-0000-7000-8000-000000000001"],"kept":["0197a5b0-0000-7000-8000-000000000002"],"#,
            r#""replaces":3,"pruned":[{"call_id":"c1","bytes":10,"lines":2}],"#,
            r#""cuts":[{"call_id":"c2","bytes":90,"lines":3,"head":5,"tail":4}],"#,
            r#""media":[["0197a5b0-0000-7000-8000-000000000003",1]],"state":"todo\n","#,
            r#""rules":[{"kind":"rules","path":"a/AGENTS.md","text":"r"}],"#,
            r#""attached":[{"path":"b.rs","hash":"00","total":4,"lines":[[1,4]]}],"#,
            r#""tokens_before":9,"tokens_after":5,"trigger":"manual","model":"p/m","source":"model","input":"prepared","#,
            r#""left_out":[{"section":"Goal","text":"t","why":"w"}],"snapshot_of":8,"turn_state":"mid_turn"}"#,
        );
        let least = concat!(
            r#"{"seq":9,"time":2,"kind":"compaction","summary":"","tail_from":7,"tokens_before":9,"tokens_after":5,"#,
            r#""trigger":"auto","model":"","source":"fallback","snapshot_of":8,"turn_state":"awaiting_user"}"#,
        );
        for json in [full, least] {
            let entry: Entry = serde_json::from_str(json).unwrap();
            assert!(matches!(entry.kind, EntryKind::Compaction(_)), "{entry:?}");
            assert_eq!(serde_json::to_string(&entry).unwrap(), json);
        }
    }

    #[test]
    fn an_interrupt_has_no_payload() {
        let entry = Entry { seq: Seq(1), time: Millis(2), kind: EntryKind::Interrupt };
        let json = serde_json::to_string(&entry).unwrap();
        assert_eq!(json, r#"{"seq":1,"time":2,"kind":"interrupt"}"#);
        assert_eq!(serde_json::from_str::<Entry>(&json).unwrap(), entry);
    }
}
