//! Import from Claude Code: `~/.claude/projects/<project>/<session>.jsonl`.
//!
//! Each line is one record. `user` and `assistant` records form a tree by `uuid` and `parentUuid`
//! (`logicalParentUuid` across a compaction). The conversation is the branch that ends in the last record. An
//! answer consists of several records with the same `message.id`, one block each. Results are blocks of user
//! records. Subagents (`isSidechain`), summaries, hooks, snapshots and the program's own notes do not belong
//! to it.

use super::{Conversation, image, millis, reasoning, text};
use becket_types::{CallId, Message, MessageId, Part};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Description of lines that are not JSON.
const UNREADABLE: &str = "unreadable lines";

pub(super) fn read(file: &str) -> Conversation {
    let mut out = Conversation::default();
    let mut records: Vec<Value> = Vec::new();
    for line in file.lines().filter(|l| !l.trim().is_empty()) {
        match text::record(line) {
            Some(record) => records.push(record),
            None => out.leave_out(UNREADABLE),
        }
    }
    let mut seen = HashSet::new();
    records.retain(|record| {
        let again = record["uuid"].as_str().is_some_and(|id| !seen.insert(id.to_owned()));
        if again {
            out.leave_out("duplicate records");
        }
        !again
    });
    let on_branch = branch(&records, out.left_out.contains_key(UNREADABLE));
    let newest = records.iter().rev().find(|r| r["uuid"].as_str().is_some_and(|id| on_branch.contains(id)));
    let session = newest.and_then(|r| r["sessionId"].as_str()).map(str::to_owned);
    let mut reader = Reader { out, session, answers: HashMap::new(), names: HashMap::new() };
    for record in &records {
        reader.record(record, &on_branch);
    }
    reader.out
}

/// Returns the ids of the records that belong to the branch of the last record: its ancestors, the other
/// blocks of their answers, and the results of their calls. Results may be on side branches if calls ran in
/// parallel. `gaps`: some records could not be read.
fn branch(records: &[Value], gaps: bool) -> HashSet<&str> {
    let by_id: HashMap<&str, &Value> =
        records.iter().filter_map(|r| Some((r["uuid"].as_str()?, r))).collect();
    let spoken = |r: &&Value| {
        matches!(r["type"].as_str(), Some("user" | "assistant"))
            && r["isSidechain"] != true
            && r["uuid"].is_string()
    };
    let before = |id: &str| {
        let behind = records.iter().rev().skip_while(|r| r["uuid"].as_str() != Some(id));
        behind.skip(1).find(spoken).and_then(|r| r["uuid"].as_str())
    };
    let mut found = HashSet::new();
    let mut at = records.iter().rev().find(spoken).and_then(|r| r["uuid"].as_str());
    while let Some(id) = at {
        if !found.insert(id) {
            break;
        }
        let record = by_id.get(id);
        let parent =
            record.and_then(|r| r["parentUuid"].as_str().or_else(|| r["logicalParentUuid"].as_str()));
        // A missing parent may be on a line that could not be read. The previous record in the file is the best substitute.
        let lost = gaps && parent.is_some_and(|parent| !by_id.contains_key(parent));
        at = if lost { before(id) } else { parent };
    }
    let mut answers: HashSet<&str> = HashSet::new();
    let mut calls: HashSet<&str> = HashSet::new();
    for record in records.iter().filter(|r| r["uuid"].as_str().is_some_and(|id| found.contains(id))) {
        answers.extend(record["message"]["id"].as_str());
    }
    for record in records.iter().filter(spoken) {
        let id = record["uuid"].as_str().unwrap_or_default();
        let blocks = record["message"]["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        if record["message"]["id"].as_str().is_some_and(|m| answers.contains(m)) {
            found.insert(id);
            calls.extend(blocks.iter().filter(|b| b["type"] == "tool_use").filter_map(|b| b["id"].as_str()));
        }
        if blocks.iter().filter_map(|b| b["tool_use_id"].as_str()).any(|call| calls.contains(call)) {
            found.insert(id);
        }
    }
    found
}

struct Reader {
    out: Conversation,
    /// Id of the session to which the last record belongs. A file may contain several sessions; records of others are skipped.
    session: Option<String>,
    /// Index of the message of each answer, by its original `message.id`.
    answers: HashMap<String, usize>,
    /// Name of the tool of each call, by the call's id.
    names: HashMap<String, String>,
}

impl Reader {
    fn record(&mut self, record: &Value, on_branch: &HashSet<&str>) {
        let out = &mut self.out;
        let kind = record["type"].as_str().unwrap_or("unknown");
        match kind {
            "summary" => out.title = record["summary"].as_str().map(str::to_owned).or(out.title.take()),
            "custom-title" => out.title = record["customTitle"].as_str().map(str::to_owned),
            "ai-title" => out.title = record["aiTitle"].as_str().map(str::to_owned).or(out.title.take()),
            "user" | "assistant" => {
                if record["isSidechain"] == true {
                    return out.leave_out("messages of subagents");
                }
                let session = record["sessionId"].as_str();
                if !record["uuid"].as_str().is_some_and(|id| on_branch.contains(id)) {
                    let other = session.is_some() && session != self.session.as_deref();
                    return out.leave_out(if other {
                        "messages of other sessions in the file"
                    } else {
                        "messages of abandoned branches"
                    });
                }
                out.id = session.map(str::to_owned).or(out.id.take());
                if let Some(cwd) = record["cwd"].as_str() {
                    out.cwd.get_or_insert_with(|| cwd.into());
                }
                // A summary of a compaction is skipped, because the file has the original messages. At the start of a file, the summary is
                // all that is left of them, so it is kept.
                if record["isCompactSummary"] == true && !out.messages.is_empty() {
                    return out.leave_out("summaries of compactions (their originals are carried)");
                }
                if record["isMeta"] == true {
                    return out.leave_out("notes of the program");
                }
                if record["isApiErrorMessage"] == true {
                    return out.leave_out("errors of the API");
                }
                let before = out.messages.len();
                if kind == "user" {
                    self.user(record);
                } else {
                    self.assistant(record);
                }
                self.keep_id(record, before);
            }
            other => out.leave_out(format!("records of kind {other}")),
        }
    }

    /// Gives the last message that a record made the record's id, if it made any. So a program that keeps the original records can link new
    /// ones to it. `before`: the number of messages before the record.
    fn keep_id(&mut self, record: &Value, before: usize) {
        let id = record["uuid"].as_str().and_then(|id| id.parse::<MessageId>().ok());
        let made = self.out.messages.get_mut(before..).and_then(<[_]>::last_mut);
        if let (Some(id), Some((_, message))) = (id, made) {
            message.id = id;
        }
    }

    fn user(&mut self, record: &Value) {
        let time = millis(&record["timestamp"]);
        let mut words = Vec::new();
        for block in &self.out.blocks(&record["message"]["content"]) {
            match block["type"].as_str() {
                Some("text") => words.extend(self.words(block["text"].as_str().unwrap_or_default())),
                Some("tool_result") => {
                    let result = self.result(block);
                    self.out.messages.push((time, result));
                }
                _ => words.extend(self.media(block)),
            }
        }
        if !words.is_empty() {
            let mut message = Message::user("");
            message.parts = words;
            self.out.messages.push((time, message));
        }
    }

    /// Returns a text that a person typed. Notes that the program wrote as user messages are left out.
    fn words(&mut self, text: &str) -> Option<Part> {
        const NOTES: [&str; 5] =
            ["<command-name>", "<command-message>", "<local-command-", "<bash-", "<system-reminder>"];
        if text.trim().is_empty() {
            return None;
        }
        if NOTES.iter().any(|note| text.trim_start().starts_with(note))
            || text.starts_with("Caveat: The messages below")
        {
            self.out.leave_out("commands typed at the program");
            return None;
        }
        Some(Part::text(text))
    }

    fn media(&mut self, block: &Value) -> Option<Part> {
        let source = &block["source"];
        let data = source["media_type"].as_str().zip(source["data"].as_str());
        match (block["type"].as_str(), source["type"].as_str(), data) {
            (Some("image"), Some("base64"), Some((kind, data))) => Some(image(kind, data)),
            // becket has no part for these data. For a document, its text would be needed, and the file does not contain it.
            (Some("document" | "image"), ..) => {
                self.out
                    .leave_out(format!("attachments of kind {}", block["type"].as_str().unwrap_or_default()));
                None
            }
            _ => Some(self.out.note("blocks", block)),
        }
    }

    fn result(&mut self, block: &Value) -> Message {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        let name = self.names.get(id).cloned().unwrap_or_else(|| "unknown".to_owned());
        let (mut text, mut images) = (String::new(), Vec::new());
        match &block["content"] {
            Value::String(whole) => text.clone_from(whole),
            Value::Array(blocks) => {
                for piece in blocks {
                    match piece["text"].as_str() {
                        Some(piece) => {
                            text.push_str(if text.is_empty() { "" } else { "\n" });
                            text.push_str(piece);
                        }
                        None => images.extend(self.media(piece)),
                    }
                }
            }
            _ => {}
        }
        let mut message = Message::tool_result(CallId::from(id), name, text, block["is_error"] == true);
        message.parts.extend(images);
        message
    }

    fn assistant(&mut self, record: &Value) {
        let message = &record["message"];
        let model = message["model"].as_str().unwrap_or("unknown").to_owned();
        let mut parts: Vec<Part> = Vec::new();
        let mut results = Vec::new();
        for block in &self.out.blocks(&message["content"]) {
            let text = |key: &str| block[key].as_str().unwrap_or_default();
            match block["type"].as_str() {
                Some("text") if text("text").trim().is_empty() => {}
                Some("text") => parts.push(Part::text(text("text"))),
                Some("thinking") => {
                    parts.push(reasoning("anthropic", &model, text("thinking"), block["signature"].as_str()));
                }
                Some("redacted_thinking") => {
                    let mut part = reasoning("anthropic", &model, "", None);
                    if let Part::Reasoning { redacted, .. } = &mut part {
                        *redacted = Some(text("data").to_owned());
                    }
                    parts.push(part);
                }
                Some("tool_use") => {
                    self.names.insert(text("id").to_owned(), text("name").to_owned());
                    parts.push(Part::tool_call(text("id"), text("name"), super::arguments(&block["input"])));
                }
                // Some versions put results into the same record as their calls.
                Some("tool_result") => results.push(self.result(block)),
                _ => parts.push(self.out.note("blocks", block)),
            }
        }
        self.out.model = Some(model);
        let time = millis(&record["timestamp"]);
        let known = message["id"].as_str().and_then(|id| self.answers.get(id)).copied();
        if let Some((_, answer)) = known.and_then(|at| self.out.messages.get_mut(at)) {
            answer.parts.extend(parts);
        } else if !parts.is_empty() {
            if let Some(id) = message["id"].as_str() {
                self.answers.insert(id.to_owned(), self.out.messages.len());
            }
            self.out.messages.push((time, Message::assistant(parts)));
        }
        self.out.messages.extend(results.into_iter().map(|result| (time, result)));
    }
}
