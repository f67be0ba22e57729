//! Assembles the parts of an answer from deltas. The decoders of all wire formats share it.
//!
//! A decoder reports text, reasoning, the start of a call, more arguments, the stop. The assembler numbers the parts, emits
//! each when it is complete, and decides at the end whether the answer is complete, broken or empty.
//!
//! Invariants: a tool call is emitted only when its arguments are known to be complete or known to be invalid. A call that
//! was cut by the output limit is never emitted. Deltas that arrive together are joined, so the cost is linear in the bytes.
//! Memory is bounded: of a text or reasoning part of more than [`LONG_TEXT`] bytes, only the beginning is in the part, and the
//! deltas are the whole. A call with more than [`MAX_ARGUMENTS`] bytes of arguments is emitted as an invalid one.

use crate::errors::{Failure, classify};
use crate::ids::SeenCalls;
use crate::json::{Arguments, parse_arguments};
use crate::{ModelError, ModelEvent};
use becket_types::{CallId, FinishReason, LONG_TEXT, Part, Usage, cut_end};
use serde_json::{Map, Value};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// Facts about the request that an answer belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerOf {
    pub provider: String,
    pub model: String,
    /// Output limit of the request in tokens; 0 for none.
    pub cap: u64,
    pub seen: SeenCalls,
    /// The server's name in error messages.
    pub server: String,
    /// Codes of this server for a used-up quota, as in [`Failure::fatal_codes`].
    pub fatal_codes: Vec<String>,
    /// The answer's id at the server, once it is known.
    pub id: Arc<OnceLock<String>>,
}

#[derive(Debug)]
enum Open {
    None,
    Text { index: u32, text: String, extra: Map<String, Value> },
    Reasoning { index: u32, text: String, signature: String },
}

#[derive(Debug)]
pub(crate) struct Call {
    index: u32,
    id: CallId,
    /// Id of the call, as the server wrote it.
    pub raw_id: String,
    pub name: String,
    pub arguments: String,
    announced: bool,
    emitted: bool,
    /// Bytes of arguments that were dropped, because there are too many.
    dropped: usize,
    /// Fields that the wire format wants back with the call.
    extra: Map<String, Value>,
}

/// A piece of an answer's text or reasoning.
pub(crate) enum Delta {
    Text(String),
    Reasoning(String),
}

#[derive(Debug)]
pub(crate) struct Assembler {
    of: AnswerOf,
    events: Vec<ModelEvent>,
    next: u32,
    open: Open,
    pub calls: Vec<Call>,
    usage: Usage,
    /// True if a report of tokens could not be right, so no other report of this answer counts.
    usage_is_wrong: bool,
    reason: Option<FinishReason>,
    content: bool,
    finished: bool,
    /// A server's own records of the reasoning.
    pub details: Vec<Value>,
}

/// Bytes of arguments of one call. Models write at most a tenth of this in one answer. A call needs its input whole and several
/// times, so more would take more memory than any use of it is worth.
const MAX_ARGUMENTS: usize = 4 << 20;
/// Bytes of arguments that are too long which are kept, to show which call it was.
const KEPT_ARGUMENTS: usize = 2_000;

/// Marks a reasoning part whose `redacted` is the JSON of OpenRouter's `reasoning_details`.
pub(crate) const DETAILS: &str = "reasoning_details";

impl Call {
    /// Describes arguments of which only the beginning was kept.
    fn too_long(&self) -> String {
        let all = self.arguments.len() + self.dropped;
        format!(
            "{}… [{all} bytes; a call can have {} MB of arguments. Use several calls, such as one for each part of a file.]",
            self.arguments,
            MAX_ARGUMENTS >> 20
        )
    }
}

/// Adds a delta to a part's text, up to the delta with which it exceeds [`LONG_TEXT`]. A longer text is whole only in the
/// deltas that the caller gets.
fn collect(text: &mut String, delta: &str) {
    if text.len() <= LONG_TEXT {
        text.push_str(delta);
    }
}

impl Assembler {
    pub(crate) fn new(of: AnswerOf) -> Self {
        Self {
            of,
            events: Vec::new(),
            next: 0,
            open: Open::None,
            calls: Vec::new(),
            usage: Usage::default(),
            usage_is_wrong: false,
            reason: None,
            content: false,
            finished: false,
            details: Vec::new(),
        }
    }

    pub(crate) fn server(&self) -> &str {
        &self.of.server
    }

    /// The error that a server sent in place of an answer, or in the middle of one.
    pub(crate) fn failed(&self, body: &str) -> ModelError {
        let fatal_codes = &self.of.fatal_codes;
        classify(&Failure { body, server: self.server(), fatal_codes, ..Failure::default() })
    }

    /// Takes the events that have not been taken yet.
    pub(crate) fn take(&mut self) -> Vec<ModelEvent> {
        std::mem::take(&mut self.events)
    }

    /// True once a piece of the answer itself has arrived. A retry after that would repeat it.
    pub(crate) fn has_content(&self) -> bool {
        self.content
    }

    /// True once the server has given the reason why it stopped.
    pub(crate) fn has_reason(&self) -> bool {
        self.reason.is_some()
    }

    /// Takes the piece of text or reasoning, if nothing else has arrived so far.
    pub(crate) fn only_delta(&mut self) -> Option<Delta> {
        let signed = matches!(&self.open, Open::Reasoning { signature, .. } if !signature.is_empty());
        if signed || !self.details.is_empty() || self.next != 1 || self.reason.is_some() || self.finished {
            return None;
        }
        match <[ModelEvent; 1]>::try_from(self.take()) {
            Ok([ModelEvent::TextDelta { text, .. }]) => Some(Delta::Text(text)),
            Ok([ModelEvent::ReasoningDelta { text, .. }]) => Some(Delta::Reasoning(text)),
            _ => None,
        }
    }

    pub(crate) fn text(&mut self, delta: &str) {
        if delta.is_empty() {
            return;
        }
        self.content = true;
        if !matches!(self.open, Open::Text { .. }) {
            self.close_part();
            self.open = Open::Text { index: self.number(), text: String::new(), extra: Map::new() };
        }
        if let Open::Text { index, text, .. } = &mut self.open {
            collect(text, delta);
            let index = *index;
            match self.events.last_mut() {
                Some(ModelEvent::TextDelta { index: last, text }) if *last == index => text.push_str(delta),
                _ => self.events.push(ModelEvent::TextDelta { index, text: delta.to_owned() }),
            }
        }
    }

    /// Adds to the reasoning. An empty delta opens a reasoning part, so that a signature can be added to it.
    pub(crate) fn reasoning(&mut self, delta: &str) {
        if !matches!(self.open, Open::Reasoning { .. }) {
            self.close_part();
            self.open =
                Open::Reasoning { index: self.number(), text: String::new(), signature: String::new() };
        }
        if let Open::Reasoning { index, text, .. } = &mut self.open
            && !delta.is_empty()
        {
            self.content = true;
            collect(text, delta);
            let index = *index;
            match self.events.last_mut() {
                Some(ModelEvent::ReasoningDelta { index: last, text }) if *last == index => {
                    text.push_str(delta);
                }
                _ => self.events.push(ModelEvent::ReasoningDelta { index, text: delta.to_owned() }),
            }
        }
    }

    pub(crate) fn signature(&mut self, delta: &str) {
        if !matches!(self.open, Open::Reasoning { .. }) {
            self.reasoning("");
        }
        if let Open::Reasoning { signature, .. } = &mut self.open {
            signature.push_str(delta);
        }
    }

    pub(crate) fn redacted(&mut self, data: &str) {
        self.close_part();
        let index = self.number();
        let part = self.reasoning_part(String::new(), None, Some(data.to_owned()));
        self.part(index, part);
    }

    /// Ends the open text or reasoning part and emits it.
    pub(crate) fn close_part(&mut self) {
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None => {}
            Open::Text { index, text, extra } => {
                self.part(index, Part::Text { text, synthetic: false, ignored: false, spill: None, extra });
            }
            Open::Reasoning { index, text, signature } => {
                if !text.is_empty() || !signature.is_empty() {
                    let signature = (!signature.is_empty()).then_some(signature);
                    let part = self.reasoning_part(text, signature, None);
                    self.part(index, part);
                }
            }
        }
    }

    fn reasoning_part(&self, text: String, signature: Option<String>, redacted: Option<String>) -> Part {
        Part::Reasoning {
            text,
            signature,
            redacted,
            provider: self.of.provider.clone(),
            model: self.of.model.clone(),
            spill: None,
            extra: Map::new(),
        }
    }

    /// Begins a call. Returns its index in [`Assembler::calls`].
    pub(crate) fn call(&mut self, raw_id: &str, name: &str) -> usize {
        self.close_part();
        self.content = true;
        let id = self.unique_id(raw_id);
        let index = self.number();
        self.calls.push(Call {
            index,
            id,
            raw_id: raw_id.to_owned(),
            name: String::new(),
            arguments: String::new(),
            announced: false,
            emitted: false,
            dropped: 0,
            extra: Map::new(),
        });
        let slot = self.calls.len() - 1;
        self.call_name(slot, name);
        slot
    }

    /// Sets the name of a call that began without one.
    pub(crate) fn call_name(&mut self, slot: usize, name: &str) {
        let call = &mut self.calls[slot];
        if call.name.is_empty() && !name.is_empty() {
            name.clone_into(&mut call.name);
            call.announced = true;
            self.events.push(ModelEvent::ToolCallDelta {
                index: call.index,
                call_id: call.id.clone(),
                name: name.to_owned(),
                json: String::new(),
            });
        }
    }

    /// Stores a field that the wire format wants back with the call.
    pub(crate) fn call_extra(&mut self, slot: usize, key: &str, value: Value) {
        self.calls[slot].extra.insert(key.to_owned(), value);
    }

    /// Stores a field that the wire format wants back with the open text.
    pub(crate) fn text_extra(&mut self, key: &str, value: Value) {
        if let Open::Text { extra, .. } = &mut self.open {
            extra.insert(key.to_owned(), value);
        }
    }

    pub(crate) fn answer_of(&self) -> &AnswerOf {
        &self.of
    }

    pub(crate) fn call_arguments(&mut self, slot: usize, delta: &str) {
        if delta.is_empty() {
            return;
        }
        let call = &mut self.calls[slot];
        if call.dropped > 0 {
            call.dropped += delta.len();
            return;
        }
        call.arguments.push_str(delta);
        if call.arguments.len() > MAX_ARGUMENTS {
            let kept = cut_end(&call.arguments, KEPT_ARGUMENTS).to_owned();
            call.dropped = call.arguments.len() - kept.len();
            call.arguments = kept;
            return;
        }
        if !call.announced {
            return;
        }
        match self.events.last_mut() {
            Some(ModelEvent::ToolCallDelta { index, json, .. })
                if *index == call.index && !json.is_empty() =>
            {
                json.push_str(delta);
            }
            _ => self.events.push(ModelEvent::ToolCallDelta {
                index: call.index,
                call_id: call.id.clone(),
                name: call.name.clone(),
                json: delta.to_owned(),
            }),
        }
    }

    /// Handles the server's report that a call is complete. The call is emitted now if its arguments really are complete;
    /// otherwise [`Assembler::end`] decides.
    pub(crate) fn call_closed(&mut self, slot: usize) {
        let call = &self.calls[slot];
        if call.emitted || call.dropped > 0 || call.arguments.trim().is_empty() {
            return;
        }
        if let Arguments::Object(input) = parse_arguments(&call.arguments) {
            self.emit_call(slot, input, None);
        }
    }

    fn emit_call(&mut self, slot: usize, input: Map<String, Value>, invalid: Option<String>) {
        let call = &mut self.calls[slot];
        call.emitted = true;
        let name = if call.name.is_empty() { "unknown_tool".to_owned() } else { call.name.clone() };
        let part = Part::ToolCall {
            call_id: call.id.clone(),
            name,
            input: Value::Object(input),
            invalid,
            extra: std::mem::take(&mut call.extra),
        };
        let index = call.index;
        self.part(index, part);
    }

    /// Takes a report of tokens. A report that cannot be right takes back the earlier ones.
    pub(crate) fn reported(&mut self, usage: Usage, is_wrong: bool) {
        if is_wrong && !self.usage_is_wrong {
            self.usage_is_wrong = true;
            self.usage = Usage { billed: usage.billed.max(self.usage.billed), ..Usage::default() };
            self.events.push(ModelEvent::Usage(self.usage));
        }
        if !self.usage_is_wrong {
            self.usage(usage);
        }
    }

    pub(crate) fn usage(&mut self, usage: Usage) {
        if usage != self.usage && !usage.is_empty() {
            self.usage = usage;
            self.events.push(ModelEvent::Usage(usage));
        }
    }

    pub(crate) fn usage_so_far(&self) -> Usage {
        self.usage
    }

    pub(crate) fn notice(&mut self, text: impl Into<String>) {
        self.events.push(ModelEvent::Notice(text.into()));
    }

    /// Notes the reason for the stop. The first reason counts; [`Assembler::end`] emits it.
    pub(crate) fn stopped(&mut self, reason: FinishReason) {
        if self.reason.is_none() {
            if let FinishReason::Other(word) = &reason {
                self.notice(format!("The model stopped for a reason becket does not know: {word}."));
            }
            self.reason = Some(reason);
        }
    }

    /// Handles a broken stream: the text and reasoning so far are emitted, unfinished calls are dropped.
    pub(crate) fn broken(&mut self) {
        self.close_part();
    }

    /// Handles the end of a complete stream: emits the remaining parts and the finish.
    pub(crate) fn end(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        self.close_part();
        self.emit_details();
        let mut reason = self.reason.clone().unwrap_or_else(|| {
            self.notice("The server ended its answer without saying why.");
            FinishReason::Stop
        });
        let at_cap = self.of.cap > 0 && self.usage.output >= self.of.cap;
        let cut = reason == FinishReason::Length || at_cap;
        let last = self.calls.len().saturating_sub(1);
        for slot in 0..self.calls.len() {
            if self.calls[slot].emitted {
                continue;
            }
            if self.calls[slot].dropped > 0 {
                let text = self.calls[slot].too_long();
                self.emit_call(slot, Map::new(), Some(text));
                continue;
            }
            let text = std::mem::take(&mut self.calls[slot].arguments);
            match parse_arguments(&text) {
                Arguments::Object(input) => self.emit_call(slot, input, None),
                Arguments::Empty | Arguments::Incomplete | Arguments::Invalid if cut && slot == last => {
                    reason = FinishReason::Length;
                    let name = self.calls[slot].name.clone();
                    self.notice(format!(
                        "The call of `{name}` was cut by the output limit and does not run."
                    ));
                }
                Arguments::Empty => self.emit_call(slot, Map::new(), None),
                Arguments::Incomplete | Arguments::Invalid => self.emit_call(slot, Map::new(), Some(text)),
            }
        }
        if reason == FinishReason::Stop && self.calls.iter().any(|c| c.emitted) {
            reason = FinishReason::ToolCalls;
        }
        self.events.push(ModelEvent::Finish(reason));
    }

    /// Emits a server's records of the reasoning as a part of their own, before the calls that they explain.
    fn emit_details(&mut self) {
        if self.details.is_empty() {
            return;
        }
        let index = self.number();
        let details = Value::Array(std::mem::take(&mut self.details)).to_string();
        let mut part = self.reasoning_part(String::new(), None, Some(details));
        if let Part::Reasoning { extra, .. } = &mut part {
            extra.insert(DETAILS.to_owned(), Value::Bool(true));
        }
        self.part(index, part);
    }

    /// True if the answer ended without any content although the model did not stop by itself. If a model stops without a
    /// word, that is an answer, and the caller decides about it.
    pub(crate) fn is_empty_answer(&self) -> bool {
        !self.content && !self.reason.as_ref().is_some_and(FinishReason::is_by_the_model)
    }

    fn part(&mut self, index: u32, part: Part) {
        self.content = true;
        self.events.push(ModelEvent::Part { index, part });
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Returns the server's id unchanged, even if an earlier call has it: the caller judges if the call was delivered twice. An
    /// id that is missing, or that another call of this answer has, is replaced by a new unique one.
    fn unique_id(&self, raw: &str) -> CallId {
        let here = |id: &str| self.calls.iter().any(|c| c.id.as_str() == id);
        if !raw.trim().is_empty() && !here(raw) {
            return CallId(raw.to_owned());
        }
        loop {
            let id: Uuid = becket_types::unique();
            let own = format!("call_{}", id.simple());
            if !self.of.seen.contains(&own) && !here(&own) {
                return CallId(own);
            }
        }
    }
}

#[cfg(test)]
mod tests;
