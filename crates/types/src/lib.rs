//! The vocabulary of becket: types of messages, events, commands, ledger entries and ids.
//!
//! Owns the types that cross crate borders and are written to files and standard output. Owns [`visibility`],
//! the one function that decides who sees a message. Every crate may depend on this one; it depends on no
//! other.
//!
//! Invariants:
//! - JSON names are stable (see `docs/session-format.md`); unknown keys survive a round trip.
//! - Order is the ledger's sequence number ([`Seq`]), never an array index or a clock.
//!
//! Does no IO, reads no clock, and contains no logic except small pure functions on its own types.

mod answer_text;
mod call;
mod change;
mod compaction;
mod context;
mod decided;
mod entry;
mod event;
mod foreign_json;
mod frontmatter;
mod hook;
mod ids;
pub mod invisible;
mod message;
mod obeyed;
mod path;
pub mod path_form;
mod permission;
mod permission_update;
mod recall_matches;
mod sandbox;
pub mod sdk_names;
mod snapshot;
mod subagent;
mod text;
mod turn;
mod undo;
mod usage;
mod variables;

pub use answer_text::{AnswerText, LONG_TEXT, TextPiece, TrimmedChunks, blob_chunks};
pub use call::{Access, Effect, FileChange, FileChangeKind, ToolOutput, ToolSpec};
pub use change::{ContextChange, ContextPlan};
pub use compaction::{
    CategoryChange, CompactedByHand, CompactionPlan, LeftOut, Loss, Lost, Present, ProtectedContent,
    RemovedMessage, SizeChange, TurnCompaction,
};
pub use context::{Context, ContextMessage, Provenance, Span, SpanKind};
pub use decided::{DecidedBy, DenialCause, PermissionDecision, Verb};
pub use entry::{
    AttachedFile, Commit, Compaction, CompactionSource, CompactionTrigger, CutInput, CutOutput, Entry,
    EntryKind, JournalState, PinTarget, PruneReason, PrunedCall, RepeatedContext, RetainedMessages,
    SentRequest, ShortenedContent, SummaryOrigin, SystemItem, SystemKind, TurnState, WireLayout,
};
pub use event::{
    Command, Decision, DeliveryMode, Event, FilePreview, NoticeLevel, PermissionRequest, PreparationState,
    PromptInput, RuleChange, RuleKind, RuleOffer, RuleOwner,
};
pub use foreign_json::{parse_json, parse_json_bytes, replace_lone_surrogates};
pub use frontmatter::split_frontmatter;
pub use hook::{
    EndReason, HookCall, HookEvent, HookMessage, HookOutcome, HookOutput, HookPermission, HookProgress,
    HookResult, HookRun, HookSpecial, HookText, HookWatch,
};
pub use ids::{BlobId, CallId, EntryId, MessageId, Millis, Seq, SessionId, unique};
pub use invisible::quoted;
pub use message::{
    FinishReason, ImageSource, Message, Metadata, Origin, Part, Role, Synthetic, TimeMeta, Visibility,
    visibility,
};
pub use obeyed::{OBEYED_IN_GIT_DIR, ObeyedPart, has_obeyed_ending, obeyed, obeyed_in};
pub use path::lexical;
pub use permission::PermissionMode;
pub use permission_update::PermissionUpdate;
pub use recall_matches::{RecallMatch, RecallMatches};
pub use sandbox::SandboxLevel;
pub use snapshot::{
    ChangeCause, FileChanges, FileContent, FileNode, FilePath, FileSnapshot, FileStamp, FileState,
    PathChange, SkippedPath,
};
pub use subagent::{SubagentCall, SubagentOf, SubagentReport};
pub use text::{
    at_words, cut_end, cut_end_at_word, cut_start, cut_start_at_word, edit_distance, hex, is_blank, subject,
};
pub use turn::{
    DeferredCall, Fork, ModelUsage, PermissionDenial, RefusedPrompt, TurnEnd, TurnResult, TurnTerms,
};
pub use undo::{
    ConversationPlan, ModeChange, NodeKind, PathFate, PathPlan, RewindWhat, UndoKind, UndoOutcome, UndoPlan,
    UndoTurn,
};
pub use usage::{CacheLifetime, Cost, Limit, Prices, Tokens, Usage, Used};
pub use variables::is_obeyed_variable;

/// Source of a blob's bytes, used when a message that refers to a blob is sent.
///
/// The session's blob store implements it. Model adapters receive it, so they need not know how blobs are
/// stored.
pub trait Blobs: Send + Sync {
    /// Returns the bytes of the blob, or `None` if it is missing. The caller then sends a text stub instead.
    fn get(&self, id: &BlobId) -> Option<Vec<u8>>;

    /// Returns the same bytes as a stream, for blobs that need not be in memory as a whole.
    fn read(&self, id: &BlobId) -> Option<Box<dyn std::io::Read + Send>> {
        Some(Box::new(std::io::Cursor::new(self.get(id)?)))
    }
}
