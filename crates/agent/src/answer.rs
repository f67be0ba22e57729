//! One streaming answer of the model: it converts [`ModelEvent`]s to events for front ends and entries for
//! the ledger.
//!
//! A part is *open* while only deltas of it have arrived, and *complete* when the adapter says so. Complete
//! parts are written to the ledger at once: the first one as the message, each further one as a `part` entry.
//! If the stream breaks, open text becomes a part too, so that no text that was shown is lost. An open tool
//! call is discarded.
//!
//! Does no IO: the driver sends the events and appends the entries.

use becket_model::ModelEvent;
use becket_types::{
    CallId, EntryKind, Event, FinishReason, Message, MessageId, Metadata, NoticeLevel, Part, Seq, Usage,
    is_blank,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// An answer as received so far.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) id: MessageId,
    /// `provider/name` of the model that answers.
    model: String,
    provider: String,
    open: BTreeMap<u32, Open>,
    pub(crate) parts: Vec<Part>,
    /// Index of the first part that is not in the ledger yet.
    unsaved: usize,
    /// The message's entry, once it has been written.
    pub(crate) entry: Option<Seq>,
    pub(crate) usage: Usage,
    /// True once the provider has accepted the request.
    pub(crate) begun: bool,
    /// True once any content has arrived.
    pub(crate) has_content: bool,
}

#[derive(Debug)]
enum Open {
    Text(String),
    Reasoning(String),
    Call,
}

/// One tool call of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) input: Value,
    pub(crate) invalid: Option<String>,
    /// The model wrote the call into its text, so it runs only with the user's approval.
    pub(crate) from_text: bool,
}

/// Key of a call's part that the model wrote into its text.
pub(crate) const FROM_TEXT: &str = "from_text";

impl Answer {
    pub(crate) fn new(model: String, provider: String) -> Self {
        Self {
            id: MessageId::new(),
            model,
            provider,
            open: BTreeMap::new(),
            parts: Vec::new(),
            unsaved: 0,
            entry: None,
            usage: Usage::default(),
            begun: false,
            has_content: false,
        }
    }

    /// Processes one event. Events for front ends are pushed to `out`; deltas of the same part are joined.
    /// Returns the finish reason if this was the last event.
    pub(crate) fn take(&mut self, event: ModelEvent, out: &mut Vec<Event>) -> Option<FinishReason> {
        let message = self.id;
        match event {
            ModelEvent::Started { .. } => self.begun = true,
            ModelEvent::TextDelta { index, text } => {
                self.touch();
                match self.open.entry(index).or_insert_with(|| Open::Text(String::new())) {
                    Open::Text(so_far) | Open::Reasoning(so_far) => so_far.push_str(&text),
                    Open::Call => {}
                }
                match out.last_mut() {
                    Some(Event::TextDelta { index: last, text: joined, .. }) if *last == index => {
                        joined.push_str(&text);
                    }
                    _ => out.push(Event::TextDelta { message, index, text }),
                }
            }
            ModelEvent::ReasoningDelta { index, text } => {
                self.touch();
                match self.open.entry(index).or_insert_with(|| Open::Reasoning(String::new())) {
                    Open::Text(so_far) | Open::Reasoning(so_far) => so_far.push_str(&text),
                    Open::Call => {}
                }
                match out.last_mut() {
                    Some(Event::ReasoningDelta { index: last, text: joined, .. }) if *last == index => {
                        joined.push_str(&text);
                    }
                    _ => out.push(Event::ReasoningDelta { message, index, text }),
                }
            }
            ModelEvent::ToolCallDelta { index, call_id, name, json } => {
                self.touch();
                self.open.insert(index, Open::Call);
                match out.last_mut() {
                    Some(Event::ToolCallDelta { index: last, json: joined, .. }) if *last == index => {
                        joined.push_str(&json);
                    }
                    _ => out.push(Event::ToolCallDelta { message, index, call_id, name, json }),
                }
            }
            ModelEvent::Part { index, part } => {
                self.touch();
                self.open.remove(&index);
                if !matches!(&part, Part::Text { text, .. } if is_blank(text)) {
                    self.parts.push(part);
                }
            }
            ModelEvent::Usage(usage) => self.usage = usage,
            ModelEvent::Retry { attempt, max, delay, status, error } => {
                out.push(Event::Retry { attempt, max, delay, status, error });
            }
            ModelEvent::Notice(text) => out.push(Event::Notice { level: NoticeLevel::Warning, text }),
            ModelEvent::Finish(reason) => return Some(reason),
        }
        None
    }

    fn touch(&mut self) {
        self.begun = true;
        self.has_content = true;
    }

    /// Handles a stream that broke: open text becomes parts, open calls are discarded.
    pub(crate) fn close(&mut self) {
        for (_, open) in std::mem::take(&mut self.open) {
            match open {
                Open::Text(text) if !is_blank(&text) => self.parts.push(Part::text(text)),
                Open::Reasoning(text) if !is_blank(&text) => self.parts.push(Part::Reasoning {
                    text,
                    signature: None,
                    redacted: None,
                    provider: self.provider.clone(),
                    model: self.model.clone(),
                    extra: Map::new(),
                }),
                Open::Text(_) | Open::Reasoning(_) | Open::Call => {}
            }
        }
    }

    /// Returns the parts that are not in the ledger yet.
    pub(crate) fn unsaved_parts(&mut self) -> &mut [Part] {
        let from = self.unsaved.min(self.parts.len());
        &mut self.parts[from..]
    }

    /// Returns entries for the parts that are not in the ledger yet. If [`Answer::entry`] is `None`, the
    /// first entry is the message; the caller then sets `entry`.
    pub(crate) fn unsaved(&mut self) -> Vec<EntryKind> {
        let new = &self.parts[self.unsaved.min(self.parts.len())..];
        if new.is_empty() {
            return Vec::new();
        }
        let entries = if self.entry.is_none() {
            vec![EntryKind::Message { message: self.message(new.to_vec()) }]
        } else {
            new.iter().map(|part| EntryKind::Part { message: self.id, part: part.clone() }).collect()
        };
        self.unsaved = self.parts.len();
        entries
    }

    /// Makes the message with these parts.
    pub(crate) fn message(&self, parts: Vec<Part>) -> Message {
        Message {
            id: self.id,
            metadata: Metadata { model: Some(self.model.clone()), ..Metadata::default() },
            seq: self.entry.unwrap_or_default(),
            ..Message::assistant(parts)
        }
    }

    /// True if the answer has neither text nor calls.
    pub(crate) fn is_empty(&self) -> bool {
        !self.parts.iter().any(|part| matches!(part, Part::Text { .. } | Part::ToolCall { .. }))
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        let call = |part: &Part| match part {
            Part::ToolCall { call_id, name, input, invalid, extra } => Some(Call {
                id: call_id.clone(),
                name: name.clone(),
                input: input.clone(),
                invalid: invalid.clone(),
                from_text: extra.contains_key(FROM_TEXT),
            }),
            _ => None,
        };
        self.parts.iter().filter_map(call).collect()
    }

    /// Returns all text parts, joined by newlines. Removes the text from the parts, because it may be long
    /// and is not needed afterwards.
    pub(crate) fn take_text(&mut self) -> String {
        let mut texts = self.parts.iter_mut().filter_map(|part| match part {
            Part::Text { text, .. } => Some(std::mem::take(text)),
            _ => None,
        });
        let mut all = texts.next().unwrap_or_default();
        for text in texts {
            all.push('\n');
            all.push_str(&text);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_join_and_parts_are_saved_once() {
        let mut answer = Answer::new("p/m".to_owned(), "p".to_owned());
        let mut out = Vec::new();
        for text in ["Hel", "lo"] {
            answer.take(ModelEvent::TextDelta { index: 0, text: text.to_owned() }, &mut out);
        }
        assert_eq!(out, [Event::TextDelta { message: answer.id, index: 0, text: "Hello".to_owned() }]);
        assert_eq!(answer.unsaved(), []);
        answer.take(ModelEvent::Part { index: 0, part: Part::text("Hello") }, &mut out);
        let entries = answer.unsaved();
        assert_eq!(entries, [EntryKind::Message { message: answer.message(vec![Part::text("Hello")]) }]);
        answer.entry = Some(Seq(7));
        assert_eq!(answer.unsaved(), []);
        let call = Part::tool_call("c1", "read", serde_json::json!({"path": "a"}));
        answer.take(ModelEvent::Part { index: 1, part: call.clone() }, &mut out);
        assert_eq!(answer.unsaved(), [EntryKind::Part { message: answer.id, part: call }]);
        assert_eq!(
            answer.take(ModelEvent::Finish(FinishReason::ToolCalls), &mut out),
            Some(FinishReason::ToolCalls)
        );
        assert_eq!((answer.calls().len(), answer.is_empty()), (1, false));
        assert_eq!(answer.take_text(), "Hello");
    }

    #[test]
    fn a_broken_stream_keeps_its_words_and_no_half_call() {
        let mut answer = Answer::new("p/m".to_owned(), "p".to_owned());
        let mut out = Vec::new();
        answer.take(ModelEvent::TextDelta { index: 0, text: "I will".to_owned() }, &mut out);
        let delta = ModelEvent::ToolCallDelta {
            index: 1,
            call_id: "c".into(),
            name: "bash".to_owned(),
            json: "{\"com".to_owned(),
        };
        answer.take(delta, &mut out);
        answer.close();
        assert_eq!(answer.parts, [Part::text("I will")]);
        assert_eq!(answer.calls(), []);
    }
}
