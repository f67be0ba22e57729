//! Messages, their parts, where they come from, and who may see them.

use crate::{BlobId, CallId, MessageId, Millis, Seq};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The author of a message, in the terms of the model APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    /// Name on the wire and in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// The source of a message. Decides who sees it; see [`visibility`].
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
    /// The summary that replaces the compacted head, with the tail anchor.
    CompactionSummary,
    /// The one message after a compaction that tells the model to continue.
    CompactionContinue,
    /// Session state repeated after a compaction: todo list, active skills, files read.
    SessionState,
    /// A rules file (AGENTS.md, CLAUDE.md) found below the working directory during the session.
    Rules,
    /// A note from becket to the model: repeated calls, a truncated answer, a limit that is near.
    Reminder,
    /// Text of a hook for the model.
    Hook,
}

/// The audience of a message: people (TUI, `--print`, exports), the model, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    pub user: bool,
    pub model: bool,
}

/// Returns who sees a message of this origin, unless its metadata hides it; see [`Message::visibility`].
///
/// The match is exhaustive on purpose: a new kind of message does not compile until its visibility is decided
/// here.
pub fn visibility(origin: &Origin) -> Visibility {
    let (user, model) = match origin {
        Origin::User | Origin::Model | Origin::Tool => (true, true),
        Origin::Synthetic(kind) => match kind {
            Synthetic::CompactionSummary
            | Synthetic::CompactionContinue
            | Synthetic::SessionState
            | Synthetic::Rules
            | Synthetic::Reminder
            | Synthetic::Hook => (false, true),
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
    /// Position in the ledger; 0 until appended. "Newer" always means a greater `seq`.
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
    /// Makes a message with a new id, without metadata. `seq` is 0 until the message is appended to a ledger.
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

    /// Makes a message by becket for the model, with the role `user`.
    pub fn synthetic(kind: Synthetic, text: impl Into<String>) -> Self {
        Self::new(
            Role::User,
            Origin::Synthetic(kind),
            vec![Part::Text {
                text: text.into(),
                synthetic: true,
                ignored: false,
                spill: None,
                extra: Map::new(),
            }],
        )
    }

    /// True if a person typed this message. The rules for reminders, compaction, prune and continuation mean
    /// this by "user message".
    pub fn is_user_turn(&self) -> bool {
        self.role == Role::User && self.origin == Origin::User && !self.metadata.compaction_continue
    }

    /// Returns who sees this message. Front ends and exports must call this instead of looking at the origin
    /// alone. A continuation after a compaction is also hidden by its flag, because a ledger that was
    /// imported or written by hand may give it another origin. A continuation that repeats a user message is
    /// hidden because the original is already shown.
    pub fn visibility(&self) -> Visibility {
        let Visibility { user, model } = visibility(&self.origin);
        Visibility { user: user && !self.metadata.compaction_continue, model }
    }

    /// Returns all text parts, joined by newlines.
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

    /// Returns the ids of the tool calls in this message, in order.
    pub fn call_ids(&self) -> impl Iterator<Item = &CallId> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall { call_id, .. } => Some(call_id),
            _ => None,
        })
    }

    /// Returns the id of the call that this tool message answers.
    pub fn result_of(&self) -> Option<&CallId> {
        self.parts.iter().find_map(|part| match part {
            Part::ToolResult { call_id, .. } => Some(call_id),
            _ => None,
        })
    }

    /// True if a part is an image or a file.
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
        /// True if becket wrote the text, and not a person or a model.
        #[serde(default, skip_serializing_if = "is_false")]
        synthetic: bool,
        /// True if the text is kept for people and not sent to the model.
        #[serde(default, skip_serializing_if = "is_false")]
        ignored: bool,
        /// The blob with the whole text, if `text` holds only its beginning and its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spill: Option<BlobId>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    Image {
        /// Media type, such as `image/png`.
        media_type: String,
        source: ImageSource,
        /// Name of the file or link, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Size in pixels, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        width: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        height: Option<u32>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// An attached document (PDF, …) as a blob.
    File {
        /// Media type, such as `application/pdf`.
        media_type: String,
        blob: BlobId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// The model's thinking. If it has a signature, it is sent back byte for byte to the model that signed
    /// it, or not at all.
    Reasoning {
        text: String,
        /// The provider's signature or encrypted form, as it sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Encrypted thinking without readable text (Anthropic's `redacted_thinking.data`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redacted: Option<String>,
        /// Provider and model that signed it. Others never get it.
        provider: String,
        model: String,
        /// The blob with the whole text, if `text` holds only its beginning and its end. Such a part has no signature,
        /// because a signature is valid for the whole only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spill: Option<BlobId>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A call that the model made.
    ToolCall {
        call_id: CallId,
        name: String,
        /// Always a JSON object. Arguments that do not parse are kept in `invalid`.
        input: Value,
        /// The model's argument text if it was not a JSON object. `input` is then `{}`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        invalid: Option<String>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// The result of a call, one for each.
    ToolResult {
        call_id: CallId,
        name: String,
        /// Text that the model reads.
        output: String,
        #[serde(default, skip_serializing_if = "is_false")]
        is_error: bool,
        /// True if the call ended early because of an interrupt or the end of the process.
        #[serde(default, skip_serializing_if = "is_false")]
        interrupted: bool,
        /// Data that user interfaces show (diff, exit code, ranges). Never sent to the model.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        details: Value,
        /// The blob with the whole output, if `output` holds only a part of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spill: Option<BlobId>,
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A part written by a newer version of becket. It is kept and never sent.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl Part {
    /// A text that is shown to the user and sent to the model.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), synthetic: false, ignored: false, spill: None, extra: Map::new() }
    }

    /// A call of the tool `name` with valid input.
    pub fn tool_call(call_id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self::ToolCall {
            call_id: CallId(call_id.into()),
            name: name.into(),
            input,
            invalid: None,
            extra: Map::new(),
        }
    }

    /// Returns the blob with the whole text of this part, if the part holds only a piece of it.
    pub fn spill(&self) -> Option<&BlobId> {
        match self {
            Self::Text { spill, .. } | Self::Reasoning { spill, .. } | Self::ToolResult { spill, .. } => {
                spill.as_ref()
            }
            _ => None,
        }
    }

    /// True for images and files, which count towards a provider's limits on attachments.
    pub fn is_media(&self) -> bool {
        matches!(self, Self::Image { .. } | Self::File { .. })
    }

    /// True for reasoning that a provider signed or encrypted. It must be sent unchanged or not at all.
    pub fn is_signed(&self) -> bool {
        matches!(self, Self::Reasoning { signature, redacted, .. } if signature.is_some() || redacted.is_some())
    }
}

/// Location of an image's bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// In the session's blob store, the usual case.
    Blob(BlobId),
    /// Inline as base64. Used only between a front end and the inbox, until the driver has stored it as a
    /// blob.
    Base64(String),
    /// A link the provider fetches itself.
    Url(String),
}

/// Message metadata with its public JSON names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// True for the continuation after a compaction. Such a message is hidden in every user interface.
    #[serde(skip_serializing_if = "is_false")]
    pub compaction_continue: bool,
    /// True for a continuation that repeats only the words of a user message with images or files.
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
    /// True if nothing is set. Empty metadata is left out of the JSON.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Times of a message, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeMeta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Millis>,
    /// Time at which the output was pruned from the view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Millis>,
}

/// The reason why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its turn.
    Stop,
    ToolCalls,
    /// The output limit was reached.
    Length,
    ContentFilter,
    Refusal,
    /// The user interrupted the model, or the process died during the answer.
    Interrupted,
    /// The stream broke. The partial text is kept.
    Error,
    /// A reason that this version does not know. Ends the turn unless the message has tool calls.
    Other(String),
}

impl FinishReason {
    /// True if the model itself ended the answer, for another reason than to call tools.
    pub fn is_by_the_model(&self) -> bool {
        match self {
            Self::Stop | Self::Length | Self::ContentFilter | Self::Refusal | Self::Other(_) => true,
            Self::ToolCalls | Self::Interrupted | Self::Error => false,
        }
    }

    /// Returns the equivalent `stop_reason` of Anthropic's API, as `stream-json` shows it.
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
