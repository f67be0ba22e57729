//! Import from opencode: the file that `opencode export SESSION` writes.
//!
//! The format is `{info, messages: [{info, parts}]}`. An assistant message contains all steps of its turn,
//! and a `tool` part is a call together with its result. So each step becomes an answer followed by its
//! results. Snapshots, patches and step marks are internal to the program.

use super::{Conversation, arguments, data_url, millis, reasoning, text};
use becket_types::{CallId, Message, Millis, Part};
use serde_json::{Map, Value};

pub(super) fn read(file: &str) -> Result<Conversation, String> {
    let whole = match text::record(file) {
        Some(whole) => whole,
        None => serde_json::from_str(file).map_err(|e| format!("the file is not JSON: {e}"))?,
    };
    let info = &whole["info"];
    let text = |key: &str| info[key].as_str().map(str::to_owned);
    let mut out = Conversation {
        id: text("id"),
        title: text("title"),
        cwd: text("directory").map(Into::into),
        ..Conversation::default()
    };
    for message in whole["messages"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let info = &message["info"];
        let time = millis(&info["time"]["created"]);
        let parts = message["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        match info["role"].as_str() {
            Some("user") => user(&mut out, time, parts),
            Some("assistant") if info["summary"] == true => {
                out.leave_out("summaries of compactions (their originals are carried)");
            }
            Some("assistant") => assistant(&mut out, time, info, parts),
            other => out.leave_out(format!("messages of role {}", other.unwrap_or("unknown"))),
        }
    }
    Ok(out)
}

fn user(out: &mut Conversation, time: Millis, parts: &[Value]) {
    let mut words = Vec::new();
    for part in parts {
        match part["type"].as_str() {
            Some("text") => {
                let text = part["text"].as_str().unwrap_or_default();
                if !text.trim().is_empty() {
                    words.push(Part::Text {
                        text: text.to_owned(),
                        synthetic: part["synthetic"] == true,
                        ignored: part["ignored"] == true,
                        spill: None,
                        extra: Map::new(),
                    });
                }
            }
            Some("file") => match part["url"].as_str().and_then(data_url) {
                Some(image) => words.push(image),
                None => out.leave_out("attached files (their text is carried where it was read)"),
            },
            Some("compaction") => {}
            _ => words.push(out.note("parts", part)),
        }
    }
    if !words.is_empty() {
        let mut message = Message::user("");
        message.parts = words;
        out.messages.push((time, message));
    }
}

fn assistant(out: &mut Conversation, time: Millis, info: &Value, parts: &[Value]) {
    let name = |key: &str| info[key].as_str().or_else(|| info["model"][key].as_str()).unwrap_or("unknown");
    let (provider, model) = (name("providerID").to_owned(), name("modelID").to_owned());
    out.model = Some(format!("{provider}/{model}"));
    let mut step = Step { time, ..Step::default() };
    for part in parts {
        let text = part["text"].as_str().unwrap_or_default();
        match part["type"].as_str() {
            Some("step-start" | "step-finish") => step.flush(out),
            Some("text") if text.trim().is_empty() => {}
            Some("text") => {
                // Text after a result belongs to the next answer, so this step's results are written first.
                step.flush_results(out);
                step.parts.push(Part::text(text));
            }
            Some("reasoning") if text.trim().is_empty() => {}
            Some("reasoning") => {
                step.flush_results(out);
                let signature = part["metadata"][provider.as_str()]["signature"].as_str();
                step.parts.push(reasoning(&provider, &model, text, signature));
            }
            Some("tool") => step.tool(out, part),
            Some("snapshot" | "patch") => out.leave_out("snapshots of files"),
            Some("compaction") => {}
            _ => {
                step.flush_results(out);
                let note = out.note("parts", part);
                step.parts.push(note);
            }
        }
    }
    step.flush(out);
    if info["error"].is_object() {
        out.leave_out("errors of answers");
    }
}

/// One answer and the results of its calls.
#[derive(Default)]
struct Step {
    time: Millis,
    parts: Vec<Part>,
    results: Vec<Message>,
}

impl Step {
    fn flush(&mut self, out: &mut Conversation) {
        if !self.parts.is_empty() {
            out.messages.push((self.time, Message::assistant(std::mem::take(&mut self.parts))));
        }
        let time = self.time;
        out.messages.extend(self.results.drain(..).map(|result| (time, result)));
    }

    fn flush_results(&mut self, out: &mut Conversation) {
        if !self.results.is_empty() {
            self.flush(out);
        }
    }

    fn tool(&mut self, out: &mut Conversation, part: &Value) {
        let state = &part["state"];
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (id, name) = (text(&part["callID"]), text(&part["tool"]));
        self.time = self.time.max(millis(&state["time"]["start"]));
        self.parts.push(Part::tool_call(id.as_str(), name.as_str(), arguments(&state["input"])));
        let (output, failed) = match state["status"].as_str() {
            Some("completed") => (text(&state["output"]), false),
            Some("error") => (text(&state["error"]), true),
            // The call never finished, so it has no result. The view shows it as interrupted.
            _ => return,
        };
        let mut result = Message::tool_result(CallId::from(id.as_str()), name, output, failed);
        for attached in state["attachments"].as_array().map(Vec::as_slice).unwrap_or_default() {
            match attached["url"].as_str().and_then(data_url) {
                Some(image) => result.parts.push(image),
                None => out.leave_out("attachments of results"),
            }
        }
        self.results.push(result);
    }
}
