//! Decodes the events of the Responses API. Also accepts the deviations of compatible servers: no sequence numbers, no
//! indexes, no event at the end of arguments, items that are never announced.

use super::encode::PHASE;
use crate::ModelError;
use crate::assemble::{AnswerOf, Assembler};
use crate::billed::billed;
use crate::counts::Counts;
use crate::decoder::Decoder;
use crate::json::{not_json, other_shape, parse_event};
use crate::kind::Kind;
use becket_types::{FinishReason, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// An item of the answer that has started.
#[derive(Debug)]
struct Item {
    id: String,
    index: Option<u64>,
    /// Index of the item's call in the assembler; `None` if the item is no call.
    call: Option<usize>,
    /// True if deltas of the item have arrived.
    streamed: bool,
}

pub(crate) struct ResponsesDecoder {
    assembler: Assembler,
    items: Vec<Item>,
    /// True if a part of a summary has ended, so the next one is a new paragraph.
    paragraph: bool,
    /// Types of items whose contents have arrived.
    seen: BTreeSet<&'static str>,
    ended: bool,
}

/// An event. Rare contents stay JSON values.
#[derive(Default, Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    item_id: Option<String>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(default)]
    delta: Option<Value>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    item: Option<Value>,
    #[serde(default)]
    response: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

impl ResponsesDecoder {
    pub(crate) fn new(answer: AnswerOf) -> Self {
        Self {
            assembler: Assembler::new(answer),
            items: Vec::new(),
            paragraph: false,
            seen: BTreeSet::new(),
            ended: false,
        }
    }

    /// Returns the index of the item to which an event belongs: by its id or index, or the last item if it has neither.
    fn find(&self, id: Option<&str>, index: Option<u64>) -> Option<usize> {
        let id = id.filter(|id| !id.is_empty());
        match (id, index) {
            (Some(id), _) if self.items.iter().any(|item| item.id == id) => {
                self.items.iter().rposition(|item| item.id == id)
            }
            (_, Some(_)) => self.items.iter().rposition(|item| item.index == index),
            (Some(_), None) => None,
            (None, None) => self.items.len().checked_sub(1),
        }
    }

    fn find_or_add(&mut self, id: Option<&str>, index: Option<u64>) -> usize {
        self.find(id, index).unwrap_or_else(|| {
            let id = id.unwrap_or_default().to_owned();
            self.items.push(Item { id, index, call: None, streamed: false });
            self.items.len() - 1
        })
    }

    fn saw(&mut self, kind: &'static str, brings_something: bool) {
        if brings_something {
            self.seen.insert(kind);
        }
    }

    fn added(&mut self, item: &Value, index: Option<u64>) {
        let id = item["id"].as_str().unwrap_or_default().to_owned();
        self.assembler.close_part();
        self.paragraph = false;
        let call = (item["type"] == "function_call").then(|| {
            self.seen.insert("function_call");
            let name = item["name"].as_str().unwrap_or_default();
            self.assembler.call(item["call_id"].as_str().unwrap_or(&id), name)
        });
        self.items.push(Item { id, index, call, streamed: false });
    }

    fn arguments(&mut self, event: &Event) {
        let at = self.find_or_add(event.item_id.as_deref(), event.output_index);
        let slot = match self.items[at].call {
            Some(slot) => slot,
            None => {
                let slot = self.assembler.call("", "");
                self.saw("function_call", true);
                self.items[at].call = Some(slot);
                slot
            }
        };
        self.items[at].streamed = true;
        match &event.delta {
            Some(Value::String(text)) => self.assembler.call_arguments(slot, text),
            Some(object @ Value::Object(_)) => self.assembler.call_arguments(slot, &object.to_string()),
            _ => {}
        }
    }

    /// Handles a complete item: adds everything that its deltas did not contain.
    fn done(&mut self, item: &Value, index: Option<u64>) {
        let id = item["id"].as_str();
        let found = self.find(id, index).filter(|at| {
            // Without ids and indexes, `find` returns the last item. It counts only if it has the same type.
            let is_call = item["type"] == "function_call";
            self.items[*at].call.is_some() == is_call
        });
        let at = found.unwrap_or_else(|| {
            self.added(item, index);
            self.items.len() - 1
        });
        let streamed = std::mem::replace(&mut self.items[at].streamed, true);
        match item["type"].as_str() {
            Some("message") => {
                self.saw("message", item["content"].as_array().is_some_and(|content| !content.is_empty()));
                if !streamed {
                    for content in item["content"].as_array().into_iter().flatten() {
                        let text = content["text"].as_str().or(content["refusal"].as_str());
                        self.assembler.text(text.unwrap_or_default());
                    }
                }
                if let Some(phase) = item[PHASE].as_str() {
                    self.assembler.text_extra(PHASE, Value::from(phase));
                }
                self.assembler.close_part();
            }
            Some("reasoning") => {
                self.saw("reasoning", true);
                if !streamed {
                    let parts = item["summary"].as_array().filter(|parts| !parts.is_empty());
                    let parts = parts.or(item["content"].as_array()).into_iter().flatten();
                    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
                    if !texts.is_empty() {
                        self.assembler.reasoning(&texts.join("\n\n"));
                    }
                }
                if let Some(encrypted) = item["encrypted_content"].as_str().filter(|text| !text.is_empty()) {
                    self.assembler.signature(encrypted);
                }
                self.assembler.close_part();
            }
            Some("function_call") => self.call_done(at, item),
            _ => {}
        }
    }

    /// Adds the items of the final response that no event has brought. Their kind decides, because some servers give the items
    /// other ids there.
    fn missing(&mut self, output: &Value) {
        let kinds = ["message", "reasoning", "function_call"];
        // Reasoning belongs before what it led to.
        let known =
            kinds.map(|kind| self.seen.contains(kind) || kind == "reasoning" && !self.seen.is_empty());
        for (index, item) in output.as_array().into_iter().flatten().enumerate() {
            let kind = kinds.iter().position(|kind| item["type"] == *kind);
            if kind.is_some_and(|kind| !known[kind]) {
                self.items.clear();
                self.done(item, Some(index as u64));
            }
        }
    }

    fn call_done(&mut self, at: usize, item: &Value) {
        let Some(slot) = self.items[at].call else { return };
        self.assembler.call_name(slot, item["name"].as_str().unwrap_or_default());
        let whole = match &item["arguments"] {
            Value::String(text) => text.clone(),
            Value::Object(map) => Value::Object(map.clone()).to_string(),
            _ => String::new(),
        };
        if self.assembler.calls[slot].arguments.is_empty() {
            self.assembler.call_arguments(slot, &whole);
        }
        self.assembler.call_closed(slot);
    }

    fn usage(&mut self, usage: &Value) {
        let Some(mut counts) = Counts::of(usage) else { return };
        let input = counts.at("/input_tokens");
        let cached = counts.at("/input_tokens_details/cached_tokens").min(input);
        let usage = Usage {
            input: input - cached,
            output: counts.at("/output_tokens"),
            cache_read: cached,
            cache_write: 0,
            cache_write_hour: 0,
            reasoning: counts.at("/output_tokens_details/reasoning_tokens"),
            billed: billed(usage),
            estimated: false,
        };
        self.assembler.reported(usage, counts.is_wrong);
    }

    /// Handles the end of an answer, complete or cut off.
    fn response(&mut self, response: &Value) {
        self.usage(&response["usage"]);
        let reason = match (response["status"].as_str(), response["incomplete_details"]["reason"].as_str()) {
            (Some("incomplete"), Some("max_output_tokens" | "max_tokens")) => FinishReason::Length,
            (Some("incomplete"), Some("content_filter")) => FinishReason::ContentFilter,
            (Some("incomplete"), Some(other)) => FinishReason::Other(other.to_owned()),
            (Some("incomplete"), None) => FinishReason::Length,
            (Some("cancelled"), _) => FinishReason::Other("cancelled".to_owned()),
            _ => FinishReason::Stop,
        };
        self.assembler.stopped(reason);
        self.ended = true;
    }
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        let trimmed = data.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        if trimmed == "[DONE]" {
            self.ended = self.assembler.has_reason();
            return Ok(());
        }
        let mut event = parse_event::<Event>(data).ok_or_else(|| not_json(data, self.assembler.server()))?;
        if event.kind.is_empty() {
            name.clone_into(&mut event.kind);
        }
        if event.kind == "error" || event.error.as_ref().is_some_and(|error| !error.is_null()) {
            return Err(self.assembler.failed(data));
        }
        let text = event.delta.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        match event.kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                let at = self.find_or_add(event.item_id.as_deref(), event.output_index);
                self.items[at].streamed = true;
                self.saw("message", !text.is_empty());
                self.assembler.text(&text);
            }
            "response.output_text.done" => {
                let at = self.find_or_add(event.item_id.as_deref(), event.output_index);
                let whole = event.text.unwrap_or_default();
                if !std::mem::replace(&mut self.items[at].streamed, true) {
                    self.saw("message", !whole.is_empty());
                    self.assembler.text(&whole);
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let at = self.find_or_add(event.item_id.as_deref(), event.output_index);
                self.items[at].streamed = true;
                self.saw("reasoning", true);
                if std::mem::take(&mut self.paragraph) {
                    self.assembler.reasoning("\n\n");
                }
                self.assembler.reasoning(&text);
            }
            "response.reasoning_summary_text.done" => self.paragraph = true,
            "response.function_call_arguments.delta" => self.arguments(&event),
            "response.function_call_arguments.done" => {
                if let Some(at) = self.find(event.item_id.as_deref(), event.output_index)
                    && let Some(slot) = self.items[at].call
                {
                    if self.assembler.calls[slot].arguments.is_empty()
                        && let Some(whole) = event.arguments.as_ref().and_then(Value::as_str)
                    {
                        self.assembler.call_arguments(slot, whole);
                    }
                    self.assembler.call_closed(slot);
                }
            }
            "response.output_item.added" => {
                if let Some(item) = &event.item {
                    self.added(item, event.output_index);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = &event.item {
                    self.done(item, event.output_index);
                }
            }
            "response.completed" | "response.incomplete" | "response.done" | "response.failed" => {
                let response = event.response.unwrap_or_default();
                // Some servers end a failed answer with another event than `response.failed`.
                if event.kind == "response.failed" || response["status"] == "failed" {
                    return Err(self.assembler.failed(&response.to_string()));
                }
                self.missing(&response["output"]);
                self.response(&response);
            }
            // Announcements, keep-alives and unknown events.
            _ => {}
        }
        Ok(())
    }

    fn document(&mut self, json: &str) -> Result<(), ModelError> {
        let value = parse_event::<Value>(json).ok_or_else(|| not_json(json, self.assembler.server()))?;
        if !value["error"].is_null() || !value["detail"].is_null() || value["status"] == "failed" {
            return Err(self.assembler.failed(json));
        }
        if !value["output"].is_array() {
            return Err(other_shape(json, self.assembler.server()));
        }
        for (index, item) in value["output"].as_array().into_iter().flatten().enumerate() {
            self.done(item, Some(index as u64));
        }
        self.response(&value);
        Ok(())
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn kind(&self) -> Kind {
        Kind::Responses
    }

    fn is_blank(&self) -> bool {
        self.items.is_empty()
    }

    fn assembler(&mut self) -> &mut Assembler {
        &mut self.assembler
    }
}
