//! Import of sessions: becket's own JSONL, byte for byte, and sessions of Claude Code, Codex and opencode.
//!
//! A foreign file is converted to a [`Conversation`]: messages in becket's own types with their original
//! times, and a count of everything that could not be converted, by kind. [`Conversation::write`] makes a
//! session of it. Every call and result keeps its name and id. Tools that becket does not have are sent as
//! stubs, so any model can continue the session.
//!
//! A file of becket's own is stored unchanged: the same id, the same lines. Damaged lines are reported and kept. If others may have made
//! the file, a line is added that takes back what an edited ledger could grant (see [`becket_session::adopt`]).
//!
//! Invariants: everything that is dropped is counted; no existing session is changed. The foreign formats
//! were derived from files that their programs write; unknown content is counted as left out.

mod claude;
mod codex;
mod opencode;
mod own;
mod text;

pub use becket_session::adopt::Imported;
pub use own::{import_from_others, import_own};

use becket_session::context::{ModelScope, Policy};
use becket_session::store::{Outside, StoreError, first_words};
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    CallId, EntryKind, FinishReason, ImageSource, Message, Millis, Part, Role, SessionId, TurnState,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The program that wrote the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Becket,
    Claude,
    Codex,
    OpenCode,
}

impl Source {
    /// Returns the program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Becket => "becket",
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenCode => "opencode",
        }
    }

    /// Detects the program from the first 20 lines, or from the whole text if it is one JSON document; `None` if it is
    /// unknown.
    pub fn detect(text: &str) -> Option<Self> {
        let head = text::unmarked(text).trim_start();
        for line in head.lines().filter(|l| !l.trim().is_empty()).take(20) {
            // A line that is not complete JSON is skipped, because a later line may be enough to recognise the program.
            let Some(Value::Object(record)) = text::record(line) else { continue };
            let has = |key: &str| record.contains_key(key);
            if has("prev") && has("entries") && has("hash") {
                return Some(Self::Becket);
            }
            if has("payload") && has("type") || has("record_type") {
                return Some(Self::Codex);
            }
            if has("sessionId") || has("parentUuid") || has("leafUuid") || has("isSnapshotUpdate") {
                return Some(Self::Claude);
            }
            if has("instructions") && has("timestamp") && has("id") {
                return Some(Self::Codex);
            }
        }
        let whole = text::record(head)?;
        (whole["info"].is_object() && whole["messages"].is_array()).then_some(Self::OpenCode)
    }
}

/// A foreign session, ready to be written.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// Name of the program that wrote the file.
    pub source: &'static str,
    /// The id of the session in the other program.
    pub id: Option<String>,
    pub title: Option<String>,
    /// Working directory of the session in the other program.
    pub cwd: Option<PathBuf>,
    /// The last model that answered, with its original name.
    pub model: Option<String>,
    /// Messages in order, each with its time.
    pub messages: Vec<(Millis, Message)>,
    /// Kinds of content that could not be converted, with their number.
    pub left_out: BTreeMap<String, u64>,
    /// Hash of the file, which identifies it when it is imported again.
    pub digest: Option<String>,
    /// The id that the session gets; `None`: a new one.
    pub keep_id: Option<SessionId>,
}

/// Reads a foreign file.
///
/// # Errors
///
/// Returns a message for people that says what is wrong with the file.
pub fn read(source: Source, text: &str) -> Result<Conversation, String> {
    let text = text::unmarked(text);
    let mut conversation = match source {
        Source::Claude => claude::read(text),
        Source::Codex => codex::read(text),
        Source::OpenCode => opencode::read(text)?,
        Source::Becket => return Err("a ledger is imported as it is".to_owned()),
    };
    conversation.source = source.name();
    conversation.pair();
    if conversation.messages.is_empty() {
        let mut why = format!("no message could be read from this file of {}", source.name());
        if !conversation.left_out.is_empty() {
            let list: Vec<String> =
                conversation.left_out.iter().map(|(what, count)| format!("{count} {what}")).collect();
            why = format!("{why}; what is in it cannot be carried: {}", list.join(", "));
        }
        return Err(why);
    }
    Ok(conversation)
}

impl Conversation {
    fn leave_out(&mut self, what: impl Into<String>) {
        *self.left_out.entry(what.into()).or_default() += 1;
    }

    /// Returns a note, readable for the model and the user, in place of a block that becket cannot represent. The block is counted as left
    /// out.
    fn note(&mut self, what: &str, block: &Value) -> Part {
        let kind = block["type"].as_str().unwrap_or("unknown");
        self.leave_out(format!("{what} of kind {kind} (they are kept as notes)"));
        Part::text(format!(
            "[Imported: a block of a kind that becket does not know, `{kind}`]\n{}",
            shortened(block, 0)
        ))
    }

    /// Returns the blocks of a message. Plain text becomes one block. Anything else is counted as left out.
    fn blocks(&mut self, content: &Value) -> Vec<Value> {
        match content {
            Value::Array(blocks) => blocks.clone(),
            Value::String(text) => vec![json!({ "type": "text", "text": text })],
            Value::Null => Vec::new(),
            _ => {
                self.leave_out("messages of an unknown shape");
                Vec::new()
            }
        }
    }

    /// Arranges the messages in an order that every model accepts. Consecutive answers are joined. A result without a preceding call cannot
    /// be sent as a result, and neither can a second one of the same call. Such a result becomes a note after the other results at that
    /// point.
    fn pair(&mut self) {
        let mut calls = HashSet::new();
        // Calls that have a result. If a later call has the same id, the id is removed, so that this call can get its own.
        let mut answered: HashSet<CallId> = HashSet::new();
        let (mut orphans, mut repeated) = (0, 0);
        let mut notes: Vec<(Millis, Message)> = Vec::new();
        let mut out: Vec<(Millis, Message)> = Vec::with_capacity(self.messages.len());
        for (time, message) in std::mem::take(&mut self.messages) {
            if message.parts.is_empty() {
                continue;
            }
            if message.role != Role::Tool {
                out.append(&mut notes);
            }
            if let Some(id) = message.result_of() {
                if !calls.contains(id) {
                    orphans += 1;
                    notes.push((time, note_of(&message, "whose call is not in the file")));
                    continue;
                }
                if !answered.insert(id.clone()) {
                    repeated += 1;
                    notes.push((time, note_of(&message, "whose call already has a result")));
                    continue;
                }
            }
            for id in message.call_ids() {
                answered.remove(id);
                calls.insert(id.clone());
            }
            match out.last_mut() {
                Some((_, last)) if last.role == Role::Assistant && message.role == Role::Assistant => {
                    last.parts.extend(message.parts);
                }
                _ => out.push((time, message)),
            }
        }
        out.append(&mut notes);
        self.messages = out;
        if orphans > 0 {
            self.left_out.insert("results without a call (they are kept as notes)".to_owned(), orphans);
        }
        if repeated > 0 {
            let what = "second results of a call (they are kept as notes)";
            self.left_out.insert(what.to_owned(), repeated);
        }
    }

    /// Creates a session of the project `cwd` with these messages.
    ///
    /// # Errors
    ///
    /// Fails for the same reasons as [`Session::create`].
    pub fn write(
        &self,
        root: &Path,
        cwd: &Path,
        version: &str,
        policy: Policy,
        scope: ModelScope,
    ) -> Result<Session, StoreError> {
        let clock = Arc::new(AtomicU64::new(self.messages.first().map_or(0, |(time, _)| time.0)));
        let told = Arc::clone(&clock);
        let outside =
            Outside { clock: Arc::new(move || Millis(told.load(Ordering::Relaxed))), ..Outside::default() };
        let mut extra = Map::new();
        let left_out: Map<String, Value> = self.left_out.iter().map(|(k, n)| (k.clone(), json!(n))).collect();
        extra.insert(
            "imported".to_owned(),
            json!({
                "from": self.source, "id": self.id, "model": self.model, "left_out": left_out,
                "digest": self.digest,
            }),
        );
        let options = CreateOptions {
            version: version.to_owned(),
            id: self.keep_id,
            persist: true,
            extra,
            outside,
            ..CreateOptions::default()
        };
        let mut session = Session::create(root, cwd, options, policy, scope)?;
        // A file without a title gets the first words of the user as its title. Otherwise the next turn would generate one.
        let words = || self.messages.iter().find_map(|(_, message)| first_words(message));
        if let Some(title) = self.title.clone().or_else(words) {
            session.append(vec![EntryKind::Title { title }], Durability::Buffered)?;
        }
        let mut last = None;
        for (at, (time, message)) in self.messages.iter().enumerate() {
            clock.fetch_max(time.0, Ordering::Relaxed);
            let mut kinds = vec![EntryKind::Message { message: message.clone() }];
            if message.role == Role::Assistant {
                let calls = message.call_ids().next().is_some();
                let reason = if calls { FinishReason::ToolCalls } else { FinishReason::Stop };
                kinds.push(EntryKind::Finish { message: message.id, reason });
                let next = self.messages.get(at + 1).map(|(_, m)| m.role);
                if !calls && next.is_none_or(|role| role == Role::User) {
                    kinds.push(EntryKind::TurnEnd {
                        end: "completed".to_owned(),
                        state: TurnState::AwaitingUser,
                    });
                }
            }
            last = Some(message.role);
            session.append(kinds, Durability::Buffered)?;
        }
        // Work that was in progress in the other program is not in progress here, so the user is next.
        if last != Some(Role::Assistant) {
            session.append(vec![EntryKind::Interrupt], Durability::Buffered)?;
        }
        let text = format!("Imported from {}.", self.source);
        session.append(vec![EntryKind::Notice { text, extra: Map::new() }], Durability::Synced)?;
        Ok(session)
    }
}

/// Returns a value with long texts cut, because a block may contain a whole file. Text of more than 200 characters without white space
/// counts as encoded data, of which only 40 characters are kept.
fn shortened(value: &Value, depth: usize) -> Value {
    const LONGEST: usize = 2_000;
    const DEEPEST: usize = 16;
    match value {
        Value::String(text) => {
            let count = text.chars().count();
            let is_encoded = count > 200 && !text.contains(char::is_whitespace);
            let kept: String = text.chars().take(if is_encoded { 40 } else { LONGEST }).collect();
            if kept.len() == text.len() {
                value.clone()
            } else {
                json!(format!("{kept}… ({count} characters)"))
            }
        }
        Value::Array(_) | Value::Object(_) if depth == DEEPEST => json!("…"),
        Value::Array(items) => items.iter().map(|item| shortened(item, depth + 1)).collect(),
        Value::Object(keys) => {
            Value::Object(keys.iter().map(|(key, item)| (key.clone(), shortened(item, depth + 1))).collect())
        }
        other => other.clone(),
    }
}

/// Converts a result to a note that the model and the user can read.
fn note_of(result: &Message, why: &str) -> Message {
    let mut note = Message::user("");
    note.parts = result
        .parts
        .iter()
        .map(|part| match part {
            Part::ToolResult { name, output, .. } => {
                Part::text(format!("[Imported: a result of `{name}` {why}]\n{output}"))
            }
            other => other.clone(),
        })
        .collect();
    note
}

/// Converts `2026-11-21T14:05:06.789Z` to milliseconds since 1970; 0 for anything else and for dates outside
/// the supported calendar.
fn millis(value: &Value) -> Millis {
    /// The end of the year 9999.
    const LATEST: u64 = 253_402_300_799_999;
    if let Some(number) = value.as_u64() {
        return Millis(if number > LATEST { 0 } else { number });
    }
    let parse = |text: &str| -> Option<u64> {
        let (date, time) = text.split_once('T')?;
        let mut date = date.split('-').map(str::parse::<i64>);
        let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
        if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let time = time.trim_end_matches('Z').split(['+']).next()?;
        let mut parts = time.split(':');
        let (hour, minute) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
        let seconds = parts.next()?.parse::<f64>().ok()?;
        if !(0..=24).contains(&hour) || !(0..60).contains(&minute) || !(0.0..=61.0).contains(&seconds) {
            return None;
        }
        // Days since 1970, computed with years that begin in March and eras of 400 years.
        let shifted = if month <= 2 { year - 1 } else { year };
        let era = shifted.div_euclid(400);
        let of_era = shifted.rem_euclid(400);
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        let whole = (days * 86_400 + hour * 3_600 + minute * 60) * 1_000;
        u64::try_from(whole + (seconds * 1_000.0).round() as i64).ok()
    };
    Millis(value.as_str().and_then(parse).unwrap_or(0))
}

/// Makes an image from base64 text.
fn image(media_type: &str, base64: &str) -> Part {
    Part::Image {
        media_type: media_type.to_owned(),
        source: ImageSource::Base64(base64.to_owned()),
        name: None,
        width: None,
        height: None,
        extra: Map::new(),
    }
}

/// Parses `data:image/png;base64,…`.
fn data_url(url: &str) -> Option<Part> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    kind.starts_with("image/").then(|| image(kind, data))
}

fn reasoning(provider: &str, model: &str, text: &str, signature: Option<&str>) -> Part {
    Part::Reasoning {
        text: text.to_owned(),
        signature: signature.filter(|s| !s.is_empty()).map(str::to_owned),
        redacted: None,
        provider: provider.to_owned(),
        model: model.to_owned(),
        spill: None,
        extra: Map::new(),
    }
}

/// Converts arguments of any form to an object.
fn arguments(value: &Value) -> Value {
    match value {
        Value::Object(_) => value.clone(),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(object @ Value::Object(_)) => object,
            _ => json!({ "input": text }),
        },
        Value::Null => json!({}),
        other => json!({ "input": other }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_written() {
        for (text, want) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2024-02-29T12:30:15.250Z", 1_709_209_815_250),
            ("2026-11-21T14:05:06.789Z", 1_795_269_906_789),
            ("yesterday", 0),
            ("9223372036854775807-01-01T00:00:00Z", 0),
            ("2026-13-45T99:99:1e300Z", 0),
            ("2026-01-01T00:00:NaNZ", 0),
            ("-1-1-1T", 0),
        ] {
            assert_eq!(millis(&json!(text)), Millis(want), "{text}");
        }
        assert_eq!(millis(&json!(1_767_036_059_338_u64)), Millis(1_767_036_059_338));
        assert_eq!(millis(&json!(u64::MAX)), Millis(0));
    }

    #[test]
    fn a_note_of_a_block_is_short() {
        let mut conversation = Conversation::default();
        let block =
            json!({ "type": "odd", "data": "QUJD".repeat(500), "text": "a b ".repeat(1_000), "n": [1, "x"] });
        let Part::Text { text, .. } = conversation.note("blocks", &block) else { panic!() };
        assert!(
            text.starts_with("[Imported: a block of a kind that becket does not know, `odd`]\n{"),
            "{text}"
        );
        assert!(text.contains("(2000 characters)") && text.contains("(4000 characters)"), "{text}");
        assert!(text.contains("\"n\":[1,\"x\"]") && text.len() < 2_400, "{text}");
        assert_eq!(conversation.left_out["blocks of kind odd (they are kept as notes)"], 1);
    }

    #[test]
    fn arguments_are_objects() {
        assert_eq!(arguments(&json!("{\"a\":1}")), json!({"a": 1}));
        assert_eq!(arguments(&json!("*** Begin Patch")), json!({"input": "*** Begin Patch"}));
        assert_eq!(arguments(&json!([1])), json!({"input": [1]}));
    }
}
