//! One streaming answer of the model: it converts [`ModelEvent`]s to events for front ends and entries for
//! the ledger.
//!
//! A part is *open* while only deltas of it have arrived, and *complete* when the adapter says so. Complete
//! parts are written to the ledger at once: the first one as the message, each further one as a `part` entry.
//! If the stream breaks, open text becomes a part too, so that no text that was shown is lost. An open tool
//! call is discarded. A long text moves to a blob while it arrives (`growing_text`).
//!
//! Does no other IO: the driver sends the events and appends the entries.

use crate::growing_text::{GrowingText, GrownText, LongText};
use becket_model::ModelEvent;
use becket_session::blobs::BlobStore;
use becket_types::{
    AnswerText, CallId, EntryKind, Event, FinishReason, LONG_TEXT, Message, MessageId, Metadata, NoticeLevel,
    Part, Seq, Usage, is_blank,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An answer as received so far.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) id: MessageId,
    /// `provider/name` of the model that answers.
    model: String,
    provider: String,
    /// Store of the session, for texts that are too long for an entry.
    blobs: Arc<BlobStore>,
    open: BTreeMap<u32, Open>,
    pub(crate) parts: Vec<Part>,
    /// Long texts that moved to a blob, each with the index of its part. The notice in such a part names the message by its
    /// sequence number, which is known only later.
    long: Vec<(usize, LongText)>,
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
    Text(GrowingText),
    Reasoning(GrowingText),
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

/// Key under which a reasoning part keeps its signature if its text is in a blob. The signature is valid for the whole text
/// only, so the part itself has none.
const SIGNATURE_OF_WHOLE: &str = "signature_of_whole";

/// Key that marks the part of a call which the model wrote into its text.
pub(crate) const FROM_TEXT: &str = "from_text";

impl Answer {
    pub(crate) fn new(model: String, provider: String, blobs: Arc<BlobStore>) -> Self {
        Self {
            id: MessageId::new(),
            model,
            provider,
            blobs,
            open: BTreeMap::new(),
            parts: Vec::new(),
            long: Vec::new(),
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
                match self.open.entry(index).or_insert_with(|| Open::Text(GrowingText::default())) {
                    Open::Text(so_far) | Open::Reasoning(so_far) => so_far.push(&text, &self.blobs),
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
                match self.open.entry(index).or_insert_with(|| Open::Reasoning(GrowingText::default())) {
                    Open::Text(so_far) | Open::Reasoning(so_far) => so_far.push(&text, &self.blobs),
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
                let open = self.open.remove(&index);
                self.complete(open, part);
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

    /// Adds a complete part. `open`: the text that its deltas brought, if any. A long text is taken from them and not from
    /// `part`, because the adapters keep only the beginning of it.
    fn complete(&mut self, open: Option<Open>, mut part: Part) {
        if let Part::Text { text, .. } | Part::Reasoning { text, .. } = &mut part {
            let grown = match open {
                Some(Open::Text(grown) | Open::Reasoning(grown)) if grown.is_long() => Some(grown),
                // An adapter that sends no deltas gives the whole text with the part.
                _ if text.len() > LONG_TEXT => {
                    let mut grown = GrowingText::default();
                    grown.push(text, &self.blobs);
                    Some(grown)
                }
                _ => None,
            };
            if let Some(grown) = grown {
                return self.add_grown(grown, part);
            }
        }
        if !matches!(&part, Part::Text { text, .. } if is_blank(text)) {
            self.parts.push(part);
        }
    }

    /// Adds a part with the text that its deltas brought.
    fn add_grown(&mut self, grown: GrowingText, mut part: Part) {
        let shown = match grown.finish(&self.blobs) {
            GrownText::Whole(whole) => whole,
            GrownText::Long(long) => {
                match &mut part {
                    Part::Text { spill, .. } => *spill = long.blob().cloned(),
                    Part::Reasoning { spill, signature, extra, .. } => {
                        *spill = long.blob().cloned();
                        if let Some(signature) = signature.take() {
                            extra.insert(SIGNATURE_OF_WHOLE.to_owned(), signature.into());
                        }
                    }
                    _ => {}
                }
                let shown = long.shown(None, false);
                self.long.push((self.parts.len(), long));
                shown
            }
        };
        match &mut part {
            Part::Text { text, .. } | Part::Reasoning { text, .. } => *text = shown,
            _ => {}
        }
        let is_blank =
            matches!(&part, Part::Text { text, .. } | Part::Reasoning { text, .. } if is_blank(text));
        if !is_blank {
            self.parts.push(part);
        }
    }

    /// Handles a stream that broke: open text becomes parts, open calls are discarded.
    pub(crate) fn close(&mut self) {
        for (_, open) in std::mem::take(&mut self.open) {
            match open {
                Open::Text(grown) => self.add_grown(grown, Part::text("")),
                Open::Reasoning(grown) => {
                    let part = Part::Reasoning {
                        text: String::new(),
                        signature: None,
                        redacted: None,
                        provider: self.provider.clone(),
                        model: self.model.clone(),
                        spill: None,
                        extra: Map::new(),
                    };
                    self.add_grown(grown, part);
                }
                Open::Call => {}
            }
        }
    }

    /// Puts the id for `recall` into the notices that stand for the middle of long texts. Call it before
    /// [`Answer::unsaved`], with the sequence number that the message has or gets.
    pub(crate) fn name_long_texts(&mut self, seq: Seq) {
        let id = format!("m{seq}");
        for (at, long) in std::mem::take(&mut self.long) {
            // `recall` returns the message from its first text or call on. So the positions in the notice are right only
            // for that part.
            let said = |part: &Part| matches!(part, Part::Text { .. } | Part::ToolCall { .. });
            let exact = !self.parts.iter().take(at).any(said);
            match self.parts.get_mut(at) {
                Some(Part::Text { text, .. }) => *text = long.shown(Some(&id), exact),
                // `recall` does not return reasoning, so the notice names no id.
                Some(Part::Reasoning { text, .. }) => *text = long.shown(None, false),
                _ => {}
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
    pub(crate) fn take_text(&mut self) -> AnswerText {
        let mut all: Option<AnswerText> = None;
        for part in &mut self.parts {
            let Part::Text { text, spill, .. } = part else { continue };
            let text = AnswerText::new(std::mem::take(text), spill.take());
            match &mut all {
                None => all = Some(text),
                Some(all) => all.append("\n", text),
            }
        }
        all.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        let blobs = BlobStore::in_memory(Arc::new(becket_session::store::Disk), None);
        Answer::new("p/m".to_owned(), "p".to_owned(), Arc::new(blobs))
    }

    /// A long text is whole in its blob, whatever the adapter says at its end. Its signature is kept beside it.
    #[test]
    fn long_texts_are_in_blobs() {
        use becket_types::Blobs as _;
        let mut answer = answer();
        let (thought, text) = ("hm. ".repeat(LONG_TEXT / 3), "line\n".repeat(LONG_TEXT / 4));
        let mut out = Vec::new();
        for (index, whole) in [&thought, &text].into_iter().enumerate() {
            for chunk in whole.as_bytes().chunks(100_000) {
                let text = String::from_utf8(chunk.to_vec()).unwrap();
                let index = index as u32;
                let event = match index {
                    0 => ModelEvent::ReasoningDelta { index, text },
                    _ => ModelEvent::TextDelta { index, text },
                };
                answer.take(event, &mut out);
            }
        }
        let part = Part::Reasoning {
            text: "hm. hm.".to_owned(),
            signature: Some("signed".to_owned()),
            redacted: None,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            spill: None,
            extra: Map::new(),
        };
        answer.take(ModelEvent::Part { index: 0, part }, &mut out);
        // The stream ends in the middle of the text: no complete part comes for it.
        answer.close();
        answer.name_long_texts(Seq(7));
        let [
            Part::Reasoning { signature: None, spill: Some(thoughts), extra, .. },
            Part::Text { text: shown, spill: Some(said), .. },
        ] = &answer.parts[..]
        else {
            panic!("{:?}", answer.parts)
        };
        assert_eq!(extra[SIGNATURE_OF_WHOLE], "signed");
        assert!(answer.blobs.get(thoughts).unwrap() == thought.into_bytes());
        assert!(shown.contains(r#"recall {"id":"m7","lines":"#), "{shown}");
        assert!(answer.blobs.get(said).unwrap() == text.clone().into_bytes());
        let blobs = Arc::clone(&answer.blobs);
        assert!(answer.take_text().read_whole(blobs.as_ref()) == text);
    }

    #[test]
    fn deltas_join_and_parts_are_saved_once() {
        let mut answer = answer();
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
        let mut answer = answer();
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
