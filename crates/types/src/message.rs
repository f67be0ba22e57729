//! Messages, their parts, where they come from, and who may see them.

use crate::{BlobId, CallId, MessageId, Millis, Seq};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who speaks, in the words of the model APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    /// Its name on the wire and in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// Where a message comes from. Decides who sees it, see [`visibility`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    User,
    Model,
    Tool,
    Synthetic(Synthetic),
}

/// The kinds of messages that becket itself writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synthetic {
    /// The summary that stands for the compacted head (T12), with the tail anchor.
    CompactionSummary,
    /// The one message that makes the model go on after a compaction (T11).
    CompactionContinue,
    /// Session state re-injected after a compaction: todo list, active skills, files read.
    SessionState,
    /// A rules file (AGENTS.md, CLAUDE.md) found below the working directory during the session.
    Rules,
    /// A note of the harness to the model: repetition nudge, truncated answer, wrap-up at a limit.
    Reminder,
}

/// Who sees a message: people (TUI, `--print`, exports) and the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    pub user: bool,
    pub model: bool,
}

/// Who sees a message of this origin, if its metadata hides it from nobody; see [`Message::visibility`].
///
/// Exhaustive on purpose: a new kind of message does not compile until its visibility is decided here.
pub fn visibility(origin: &Origin) -> Visibility {
    let (user, model) = match origin {
        Origin::User | Origin::Model | Origin::Tool => (true, true),
        Origin::Synthetic(kind) => match kind {
            Synthetic::CompactionSummary
            | Synthetic::CompactionContinue
            | Synthetic::SessionState
            | Synthetic::Rules
            | Synthetic::Reminder => (false, true),
        },
    };
    Visibility { user, model }
}

/// One message of a session, as the ledger keeps it.
///
/// A tool message holds exactly one [`Part::ToolResult`], possibly followed by images that the tool returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub id: MessageId,
    /// Place in the ledger; 0 until appended. "Newer" means a greater `seq`, nothing else.
    #[serde(default)]
    pub seq: Seq,
    pub role: Role,
    pub origin: Origin,
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// Keys this version does not know; kept as they were.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Message {
    pub fn new(role: Role, origin: Origin, parts: Vec<Part>) -> Self {
        Self {
            id: MessageId::new(),
            seq: Seq(0),
            role,
            origin,
            parts,
            metadata: Metadata::default(),
            extra: Map::new(),
        }
    }

    /// A message typed by the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, Origin::User, vec![Part::text(text)])
    }

    /// A message of the model.
    pub fn assistant(parts: Vec<Part>) -> Self {
        Self::new(Role::Assistant, Origin::Model, parts)
    }

    /// The result of one tool call.
    pub fn tool_result(
        call_id: CallId,
        name: impl Into<String>,
        output: impl Into<String>,
        is_error: bool,
    ) -> Self {
        let name = name.into();
        let mut message = Self::new(
            Role::Tool,
            Origin::Tool,
            vec![Part::ToolResult {
                call_id,
                name: name.clone(),
                output: output.into(),
                is_error,
                interrupted: false,
                details: Value::Null,
                spill: None,
                extra: Map::new(),
            }],
        );
        message.metadata.tool_name = Some(name);
        message
    }

    /// A text of becket's own for the model, role user.
    pub fn synthetic(kind: Synthetic, text: impl Into<String>) -> Self {
        Self::new(
            Role::User,
            Origin::Synthetic(kind),
            vec![Part::Text { text: text.into(), synthetic: true, ignored: false, extra: Map::new() }],
        )
    }

    /// Typed by a person: what T5, T8, T9 and T11 call "user message".
    pub fn is_user_turn(&self) -> bool {
        self.role == Role::User && self.origin == Origin::User && !self.metadata.compaction_continue
    }

    /// Who sees this message. Front ends and exports ask this, and never the origin alone: a continuation after a compaction is
    /// hidden by its flag too, because a ledger that was imported or written by hand may give it another origin. One that
    /// repeats a user message is on the screen already, as the original.
    pub fn visibility(&self) -> Visibility {
        let Visibility { user, model } = visibility(&self.origin);
        Visibility { user: user && !self.metadata.compaction_continue, model }
    }

    /// All text parts, joined by newline.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            if let Part::Text { text, .. } = part {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(text);
            }
        }
        out
    }

    /// The ids of the tool calls in this message, in order.
    pub fn call_ids(&self) -> impl Iterator<Item = &CallId> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall { call_id, .. } => Some(call_id),
            _ => None,
        })
    }

    /// The id of the call that this tool message answers.
    pub fn result_of(&self) -> Option<&CallId> {
        self.parts.iter().find_map(|part| match part {
            Part::ToolResult { call_id, .. } => Some(call_id),
            _ => None,
        })
    }

    pub fn has_media(&self) -> bool {
        self.parts.iter().any(Part::is_media)
    }
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
        /// Written by becket, not by a person or a model.
        #[serde(default, skip_serializing_if = "is_false")]
        synthetic: bool,
        /// Kept for people, not sent to the model.
        #[serde(default, skip_serializing_if = "is_false")]
        ignored: bool,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    Image {
        media_type: String,
        source: ImageSource,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Pixels, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        width: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        height: Option<u32>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// An attached document (PDF, …) as a blob.
    File {
        media_type: String,
        blob: BlobId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// The model's thinking. With a signature it is sent back byte for byte to the model that signed it, or not at all.
    Reasoning {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Encrypted thinking without readable text (Anthropic's `redacted_thinking.data`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redacted: Option<String>,
        provider: String,
        model: String,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    ToolCall {
        call_id: CallId,
        name: String,
        /// Always a JSON object; arguments that did not parse never become a part (see `invalid`).
        input: Value,
        /// The model's argument text where it was not a JSON object; then `input` is `{}`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        invalid: Option<String>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    ToolResult {
        call_id: CallId,
        name: String,
        /// What the model reads.
        output: String,
        #[serde(default, skip_serializing_if = "is_false")]
        is_error: bool,
        #[serde(default, skip_serializing_if = "is_false")]
        interrupted: bool,
        /// What user interfaces show (diff, exit code, ranges). Never sent to the model.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        details: Value,
        /// The whole output, where `output` is a cut of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spill: Option<BlobId>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A part written by a newer becket: kept, never sent.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), synthetic: false, ignored: false, extra: Map::new() }
    }

    pub fn tool_call(call_id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self::ToolCall {
            call_id: CallId(call_id.into()),
            name: name.into(),
            input,
            invalid: None,
            extra: Map::new(),
        }
    }

    pub fn is_media(&self) -> bool {
        matches!(self, Self::Image { .. } | Self::File { .. })
    }

    /// Reasoning that a provider signed or encrypted: byte-equal or absent.
    pub fn is_signed(&self) -> bool {
        matches!(self, Self::Reasoning { signature, redacted, .. } if signature.is_some() || redacted.is_some())
    }
}

/// Where an image's bytes are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// In the session's blob store: the usual case.
    Blob(BlobId),
    /// Inline, base64: only between a front end and the inbox, before the driver made a blob of it.
    Base64(String),
    /// A link the provider fetches itself.
    Url(String),
}

/// Message metadata under its public names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Continuation after a compaction (T11); hidden in every user interface.
    #[serde(skip_serializing_if = "is_false")]
    pub compaction_continue: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub had_media: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The model that wrote the message, `provider/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeMeta>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Metadata {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeMeta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Millis>,
    /// When the output was pruned from the view (T9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Millis>,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its turn.
    Stop,
    ToolCalls,
    /// Cut by the output limit.
    Length,
    ContentFilter,
    Refusal,
    /// The user interrupted it, or the process died while it was speaking.
    Interrupted,
    /// The stream broke; partial text is kept.
    Error,
    /// A reason this version does not know: ends the turn unless tool calls are present.
    Other(String),
}

impl FinishReason {
    /// Anthropic's `stop_reason` for this, as `stream-json` shows it.
    pub fn stop_reason(&self) -> &str {
        match self {
            Self::Stop => "end_turn",
            Self::ToolCalls => "tool_use",
            Self::Length => "max_tokens",
            Self::ContentFilter | Self::Refusal => "refusal",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
            Self::Other(other) => other,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(crate) fn is_false(b: &bool) -> bool {
    !*b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continuation_is_hidden_by_its_origin_and_by_its_flag() {
        let origins = [
            (Origin::User, true),
            (Origin::Model, true),
            (Origin::Tool, true),
            (Origin::Synthetic(Synthetic::CompactionContinue), false),
        ];
        for (origin, shown) in origins {
            let mut message = Message::new(Role::User, origin, Vec::new());
            assert_eq!(message.visibility().user, shown, "{origin:?}");
            message.metadata.compaction_continue = true;
            assert_eq!(message.visibility(), Visibility { user: false, model: true }, "{origin:?}");
        }
    }

    #[test]
    fn visibility_table() {
        use Synthetic as S;
        let both = Visibility { user: true, model: true };
        let model_only = Visibility { user: false, model: true };
        for (origin, want) in [
            (Origin::User, both),
            (Origin::Model, both),
            (Origin::Tool, both),
            (Origin::Synthetic(S::CompactionSummary), model_only),
            (Origin::Synthetic(S::CompactionContinue), model_only),
            (Origin::Synthetic(S::SessionState), model_only),
            (Origin::Synthetic(S::Rules), model_only),
            (Origin::Synthetic(S::Reminder), model_only),
        ] {
            assert_eq!(visibility(&origin), want, "{origin:?}");
        }
    }

    #[test]
    fn unknown_keys_and_parts_survive_a_round_trip() {
        let json = r#"{"id":"01890a5d-ac96-774b-bcce-b302099a8057","seq":7,"role":"user","origin":"user","parts":[{"type":"text","text":"hi","colour":"red"},{"type":"hologram","depth":3}],"metadata":{"compaction_continue":true,"time":{"created":5},"x":1},"future":[1,2]}"#;
        let message: Message = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), json);
        assert!(matches!(&message.parts[1], Part::Unknown(map) if map["type"] == "hologram"));
    }

    #[test]
    fn origins_have_short_json_names() {
        let origin = Origin::Synthetic(Synthetic::CompactionContinue);
        assert_eq!(serde_json::to_string(&origin).unwrap(), r#"{"synthetic":"compaction_continue"}"#);
        assert_eq!(serde_json::to_string(&Origin::User).unwrap(), r#""user""#);
    }
}
