//! A copy of the conversation for hooks: a file of JSON lines beside the ledger, in the form of Claude Code's transcripts, which
//! hooks read for the last answer or the usage.
//!
//! Written only if hooks are configured. A message is added when front ends get it, and nothing is ever taken back: after an undo
//! the file has more than the conversation. becket itself never reads it.

use crate::host::lock;
use becket_session::Session;
use becket_session::store::transcript_path;
use becket_types::{Event, FinishReason, Message, MessageId, Part, Role, Usage, sdk_names};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The version of Claude Code's records that these follow.
const VERSION: &str = "2.1.282";

/// The file of a session.
pub(crate) struct Transcript {
    path: PathBuf,
    cwd: PathBuf,
    session: String,
    is_sidechain: bool,
    /// The last message in the file. The next record names it as its parent.
    after: Mutex<Option<MessageId>>,
}

impl Transcript {
    /// Begins the file, or continues that of an earlier process. A session that had no hooks before gets its messages first.
    pub(super) fn begin(session: &Arc<Mutex<Session>>, cwd: PathBuf, is_sidechain: bool) -> Self {
        let session = lock(session);
        let transcript = Self {
            path: transcript_path(session.dir()),
            cwd,
            session: session.id().to_string(),
            is_sidechain,
            after: Mutex::default(),
        };
        let known: Vec<&Message> = session.view().live().map(|message| &**message).collect();
        if transcript.path.exists() {
            *lock(&transcript.after) = known.last().map(|message| message.id);
        } else {
            for message in known {
                transcript.add(message, None);
            }
        }
        transcript
    }

    /// Adds the message of an event, if it has one.
    pub(super) fn saw(&self, event: &Event) {
        match event {
            Event::UserMessage { message, .. }
            | Event::SyntheticMessage { message }
            | Event::ToolFinished { message, .. } => self.add(message, None),
            Event::AssistantMessage { message, finish, usage, .. } => {
                self.add(message, Some((finish, usage)));
            }
            _ => {}
        }
    }

    fn add(&self, message: &Message, answer: Option<(&FinishReason, &Usage)>) {
        let mut after = lock(&self.after);
        let is_answer = message.role == Role::Assistant;
        let content: Vec<Value> = message.parts.iter().filter_map(|part| self.block(part)).collect();
        let body = if is_answer {
            let mut body = json!({
                "id": message.id, "type": "message", "role": "assistant", "content": content, "stop_sequence": null,
                "model": message.metadata.model.as_deref().unwrap_or_default(), "stop_reason": null, "usage": null,
            });
            if let Some((finish, usage)) = answer {
                body["stop_reason"] = json!(finish.stop_reason());
                body["usage"] = json!({
                    "input_tokens": usage.input, "output_tokens": usage.output,
                    "cache_creation_input_tokens": usage.cache_write, "cache_read_input_tokens": usage.cache_read,
                });
            }
            body
        } else {
            match &content[..] {
                [only] if only["type"] == "text" => json!({ "role": "user", "content": only["text"] }),
                _ => json!({ "role": "user", "content": content }),
            }
        };
        let mut record = json!({
            "parentUuid": *after, "isSidechain": self.is_sidechain, "userType": "external",
            "cwd": self.cwd.to_string_lossy(), "sessionId": self.session, "version": VERSION, "gitBranch": "",
            "type": if is_answer { "assistant" } else { "user" }, "message": body, "uuid": message.id,
            "timestamp": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        });
        if !is_answer && !message.visibility().user {
            record["isMeta"] = json!(true);
        }
        *after = Some(message.id);
        // A session that is not kept has no folder. A file that cannot be written must not end the turn.
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path);
        let _ = file.and_then(|mut file| file.write_all(format!("{record}\n").as_bytes()));
    }

    fn block(&self, part: &Part) -> Option<Value> {
        Some(match part {
            Part::Text { text, .. } => json!({ "type": "text", "text": text }),
            Part::Reasoning { text, signature, redacted: None, .. } => {
                json!({ "type": "thinking", "thinking": text, "signature": signature.as_deref().unwrap_or_default() })
            }
            Part::ToolCall { call_id, name, input, .. } => json!({
                "type": "tool_use", "id": call_id, "name": sdk_names::sdk_name(name),
                "input": sdk_names::sdk_input(name, input, &self.cwd),
            }),
            Part::ToolResult { call_id, output, is_error, .. } => json!({
                "type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error,
            }),
            Part::Image { media_type, .. } | Part::File { media_type, .. } => {
                json!({ "type": "text", "text": format!("[{media_type}]") })
            }
            Part::Reasoning { .. } | Part::Unknown(_) => return None,
        })
    }
}
