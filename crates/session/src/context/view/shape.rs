//! Converts one message of the ledger to the form in which it is sent: escaped, wrapped, pruned, and repaired
//! part by part. Pure; does not consider other messages. An unchanged message is shared, not copied.

use super::super::{ModelScope, escape, media, reminder, repair};
use super::super::{cut, input};
use becket_types::{
    CallId, CutInput, CutOutput, Message, Millis, Origin, Part, Role, Synthetic, TimeMeta, is_blank, quoted,
};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// The facts about an output that is shown as a stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    pub(crate) excerpt: String,
    /// Time of the prune, for the metadata of the sent message.
    pub(crate) at: Millis,
}

/// Instructions for converting a message.
pub(crate) struct RenderOptions<'a> {
    pub(crate) scope: &'a ModelScope,
    pub(crate) wrapped: bool,
    pub(crate) pruned: Option<&'a Mark>,
    /// The shown part of the output, if it is shortened.
    pub(crate) cut: Option<&'a CutOutput>,
    /// Returns the shown part of a call's input, if it is shortened.
    pub(crate) input: &'a dyn Fn(&CallId) -> Option<&'a CutInput>,
    /// Returns true if the media part at this index is shown as text.
    pub(crate) as_text: &'a dyn Fn(u32) -> bool,
}

/// A converted message.
#[derive(Default)]
pub(crate) struct Shaped<'a> {
    /// The parts; borrowed if unchanged.
    pub(crate) parts: Vec<Cow<'a, Part>>,
    pub(crate) applied: Vec<String>,
    /// Notes about changes, as sentences for people.
    pub(crate) notes: Vec<String>,
    pub(crate) compacted: Option<Millis>,
}

impl<'a> Shaped<'a> {
    fn note_rule(&mut self, what: &str) {
        if !self.applied.iter().any(|a| a == what) {
            self.applied.push(what.to_owned());
        }
    }

    fn note_rule_and_report(&mut self, what: &str, note: String) {
        self.note_rule(what);
        self.notes.push(note);
    }

    fn keep(&mut self, part: &'a Part) {
        self.parts.push(Cow::Borrowed(part));
    }

    fn put(&mut self, part: Part) {
        self.parts.push(Cow::Owned(part));
    }

    /// True if the message is unchanged.
    fn is_unchanged(&self, raw: &Message) -> bool {
        let same = |(mine, part): (&Cow<'_, Part>, &Part)| matches!(mine, Cow::Borrowed(mine) if std::ptr::eq(*mine, part));
        self.compacted.is_none()
            && self.parts.len() == raw.parts.len()
            && self.parts.iter().zip(&raw.parts).all(same)
    }

    /// Makes the message from the parts; the ledger's own message if nothing has changed. Also returns the names of the changes, and the
    /// notes.
    pub(crate) fn into_message(self, raw: &Arc<Message>) -> (Arc<Message>, Vec<String>, Vec<String>) {
        if self.is_unchanged(raw) {
            return (Arc::clone(raw), self.applied, self.notes);
        }
        let mut metadata = raw.metadata.clone();
        if let Some(at) = self.compacted {
            let time = metadata.time.get_or_insert_with(TimeMeta::default);
            time.compacted.get_or_insert(at);
        }
        let message = Message {
            id: raw.id,
            seq: raw.seq,
            role: raw.role,
            origin: raw.origin,
            parts: self.parts.into_iter().map(Cow::into_owned).collect(),
            metadata,
            extra: raw.extra.clone(),
        };
        (Arc::new(message), self.applied, self.notes)
    }
}

/// Converts a message to the parts that are sent. Not for tool results.
pub(crate) fn shape<'a>(raw: &'a Message, how: &RenderOptions<'_>) -> Shaped<'a> {
    let mut out = Shaped { parts: Vec::with_capacity(raw.parts.len()), ..Shaped::default() };
    for (at, part) in raw.parts.iter().enumerate() {
        match part {
            Part::Text { ignored: true, .. } | Part::Unknown(_) => {}
            Part::Text { text, .. } if is_blank(text) => out.note_rule("repaired: blank text left out"),
            Part::Text { text, .. } => out_text(raw, part, text, how, &mut out),
            Part::Image { .. } | Part::File { .. } => {
                if raw.role != Role::Assistant && !(how.as_text)(at as u32) {
                    out.keep(part);
                } else {
                    media_text(raw, part, &mut out);
                }
            }
            Part::Reasoning { .. } if raw.role == Role::Assistant => reasoning(part, how.scope, &mut out),
            Part::ToolCall { .. } if raw.role == Role::Assistant => call(part, how, &mut out),
            Part::Reasoning { .. } | Part::ToolCall { .. } | Part::ToolResult { .. } => out
                .note_rule_and_report(
                    "repaired: misplaced part left out",
                    format!("message {}: part {at} does not belong there and is not sent", raw.id),
                ),
        }
    }
    while matches!(out.parts.last().map(Cow::as_ref), Some(Part::Reasoning { .. })) {
        out.parts.pop();
        out.note_rule("repaired: reasoning without an answer left out");
    }
    out
}

fn out_text<'a>(raw: &Message, part: &'a Part, text: &'a str, how: &RenderOptions<'_>, out: &mut Shaped<'a>) {
    let Part::Text { synthetic, extra, .. } = part else { return };
    let shown = match raw.origin {
        _ if how.wrapped && reminder::wraps(part) => {
            out.note_rule("reminder");
            Cow::Owned(reminder::wrap(text))
        }
        Origin::Tool | Origin::Synthetic(Synthetic::Rules) => {
            let escaped = escape::escape(text);
            if matches!(escaped, Cow::Owned(_)) {
                out.note_rule("escaped");
            }
            escaped
        }
        _ => Cow::Borrowed(text),
    };
    match shown {
        Cow::Borrowed(_) => out.keep(part),
        Cow::Owned(text) => {
            out.put(Part::Text {
                text,
                synthetic: *synthetic,
                ignored: false,
                spill: None,
                extra: extra.clone(),
            });
        }
    }
}

fn media_text(raw: &Message, part: &Part, out: &mut Shaped<'_>) {
    if let Some(text) = media::placeholder(part, Some(&format!("m{}", raw.seq))) {
        out.note_rule("media: shown as text");
        out.put(Part::Text { text, synthetic: true, ignored: false, spill: None, extra: Map::new() });
    }
}

fn call<'a>(part: &'a Part, how: &RenderOptions<'_>, out: &mut Shaped<'a>) {
    let Part::ToolCall { call_id, name, input, invalid, extra } = part else { return };
    let safe = repair::safe_name(name);
    let cut = (how.input)(call_id).filter(|_| invalid.is_none() && input.is_object());
    if let Some(cut) = cut {
        out.note_rule("input cut");
        return out.put(Part::ToolCall {
            call_id: call_id.clone(),
            name: safe.into_owned(),
            input: input::render(input, cut),
            invalid: None,
            extra: extra.clone(),
        });
    }
    if matches!(safe, Cow::Owned(_)) {
        out.note_rule_and_report(
            "repaired: tool name",
            format!("tool name {name} is sent as {safe:?}: providers refuse it", name = quoted(&name)),
        );
    }
    if invalid.is_some() || !input.is_object() {
        out.note_rule("repaired: invalid arguments sent as {}");
    } else if matches!(safe, Cow::Borrowed(_)) {
        return out.keep(part);
    }
    out.put(Part::ToolCall {
        call_id: call_id.clone(),
        name: safe.into_owned(),
        input: repair::object_input(input).into_owned(),
        invalid: None,
        extra: extra.clone(),
    });
}

fn reasoning<'a>(part: &'a Part, scope: &ModelScope, out: &mut Shaped<'a>) {
    let Part::Reasoning { text, provider, model, .. } = part else { return };
    if !repair::reasoning_fits(part, scope) {
        out.note_rule_and_report(
            "reasoning of another model left out",
            format!("reasoning of {provider}/{model} is not sent to {}/{}", scope.provider, scope.model),
        );
    } else if !part.is_signed() && is_blank(text) {
        out.note_rule("repaired: blank reasoning left out");
    } else {
        out.keep(part);
    }
}

/// Converts one result of a tool message. Media beside it are included with the message's first result.
pub(crate) fn shape_result<'a>(raw: &'a Message, nth: usize, how: &RenderOptions<'_>) -> Shaped<'a> {
    let mut out = Shaped::default();
    let Some(part) = raw.parts.get(nth) else { return out };
    let Part::ToolResult { call_id, name, output, is_error, interrupted, details, spill, extra } = part
    else {
        return out;
    };
    let already = raw.metadata.time.and_then(|t| t.compacted).is_some();
    let mut text = match how.pruned {
        Some(mark) if !already => {
            out.note_rule("pruned");
            out.compacted = Some(mark.at);
            Cow::Owned(super::super::prune::stub(call_id, name, mark.bytes, mark.lines, &mark.excerpt))
        }
        _ if let Some(text) = how.cut.filter(|_| !already).and_then(|cut| cut::render(part, cut)) => {
            out.note_rule("cut");
            Cow::Owned(text)
        }
        _ => escape_output(output, already, &mut out),
    };
    if is_blank(&text) {
        out.note_rule("repaired: blank output");
        text = Cow::Owned(repair::NO_OUTPUT.to_owned());
    }
    let mut media = Vec::new();
    let first = raw.parts.iter().position(|p| matches!(p, Part::ToolResult { .. })) == Some(nth);
    for (at, part) in raw.parts.iter().enumerate().filter(|_| first) {
        if !part.is_media() {
            continue;
        }
        if !is_error && how.pruned.is_none() && !(how.as_text)(at as u32) {
            media.push(Cow::Borrowed(part));
        } else if let Some(stub) = media::placeholder(part, Some(call_id.as_str())) {
            out.note_rule("media: shown as text");
            let text = text.to_mut();
            text.push('\n');
            text.push_str(&stub);
        }
    }
    match (text, repair::safe_name(name)) {
        (Cow::Borrowed(_), Cow::Borrowed(_)) if details.is_null() => out.keep(part),
        (text, name) => out.put(Part::ToolResult {
            call_id: call_id.clone(),
            name: name.into_owned(),
            output: text.into_owned(),
            is_error: *is_error,
            interrupted: *interrupted,
            details: Value::Null,
            spill: spill.clone(),
            extra: extra.clone(),
        }),
    }
    out.parts.append(&mut media);
    out
}

/// Escapes the output. `already`: the message is marked as pruned. A stub that the ledger stores as the output itself (from an import)
/// keeps its tag.
fn escape_output<'a>(output: &'a str, already: bool, out: &mut Shaped<'_>) -> Cow<'a, str> {
    let tag = if already && output.starts_with("<tool-output-compacted ") {
        output.find("/>").map_or(0, |at| at + 2)
    } else {
        0
    };
    match escape::escape(&output[tag..]) {
        Cow::Borrowed(_) => Cow::Borrowed(output),
        Cow::Owned(rest) => {
            out.note_rule("escaped");
            Cow::Owned(format!("{}{rest}", &output[..tag]))
        }
    }
}
