//! One message of the ledger as it is sent: escaped, wrapped, pruned, repaired part by part. Pure, and blind to its
//! neighbours.

use super::super::{ModelScope, escape, media, reminder, repair};
use becket_types::{Message, Metadata, Millis, Origin, Part, Role, Synthetic, TimeMeta, is_blank};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// An output that is a stub from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    pub(crate) excerpt: String,
    /// When it was pruned.
    pub(crate) at: Millis,
}

/// How a message is to be shown.
pub(crate) struct Paint<'a> {
    pub(crate) scope: &'a ModelScope,
    pub(crate) wrapped: bool,
    pub(crate) pruned: Option<&'a Mark>,
    /// Whether the media part at this index is text.
    pub(crate) as_text: &'a dyn Fn(u32) -> bool,
}

/// What came out.
#[derive(Default)]
pub(crate) struct Shaped {
    pub(crate) parts: Vec<Part>,
    pub(crate) applied: Vec<String>,
    /// Plain text for people; nothing is silent.
    pub(crate) notes: Vec<String>,
    pub(crate) compacted: Option<Millis>,
}

impl Shaped {
    fn did(&mut self, what: &str) {
        if !self.applied.iter().any(|a| a == what) {
            self.applied.push(what.to_owned());
        }
    }

    fn did_and_say(&mut self, what: &str, note: String) {
        self.did(what);
        self.notes.push(note);
    }

    /// The message around the parts.
    pub(crate) fn into_message(self, raw: &Message) -> (Message, Vec<String>, Vec<String>) {
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
            parts: self.parts,
            metadata: Metadata { ..metadata },
            extra: raw.extra.clone(),
        };
        (message, self.applied, self.notes)
    }
}

/// The parts of a message that is no tool result.
pub(crate) fn shape(raw: &Message, how: &Paint<'_>) -> Shaped {
    let mut out = Shaped::default();
    for (at, part) in raw.parts.iter().enumerate() {
        match part {
            Part::Text { ignored: true, .. } | Part::Unknown(_) => {}
            Part::Text { text, .. } if is_blank(text) => out.did("repaired: blank text left out"),
            Part::Text { text, .. } => out_text(raw, part, text, how, &mut out),
            Part::Image { .. } | Part::File { .. } => {
                if raw.role != Role::Assistant && !(how.as_text)(at as u32) {
                    out.parts.push(part.clone());
                } else {
                    media_text(part, &mut out);
                }
            }
            Part::Reasoning { .. } if raw.role == Role::Assistant => reasoning(part, how.scope, &mut out),
            Part::ToolCall { call_id, name, input, invalid, extra } if raw.role == Role::Assistant => {
                let safe = repair::safe_name(name);
                if matches!(safe, Cow::Owned(_)) {
                    out.did_and_say(
                        "repaired: tool name",
                        format!("tool name {name:?} is sent as {safe:?}: providers refuse it"),
                    );
                }
                if invalid.is_some() || !input.is_object() {
                    out.did("repaired: invalid arguments sent as {}");
                }
                out.parts.push(Part::ToolCall {
                    call_id: call_id.clone(),
                    name: safe.into_owned(),
                    input: repair::object_input(input).into_owned(),
                    invalid: None,
                    extra: extra.clone(),
                });
            }
            Part::Reasoning { .. } | Part::ToolCall { .. } | Part::ToolResult { .. } => out.did_and_say(
                "repaired: misplaced part left out",
                format!("message {}: part {at} does not belong there and is not sent", raw.id),
            ),
        }
    }
    while matches!(out.parts.last(), Some(Part::Reasoning { .. })) {
        out.parts.pop();
        out.did("repaired: reasoning without an answer left out");
    }
    out
}

fn out_text(raw: &Message, part: &Part, text: &str, how: &Paint<'_>, out: &mut Shaped) {
    let Part::Text { synthetic, extra, .. } = part else { return };
    let shown = match raw.origin {
        _ if how.wrapped && reminder::wraps(part) => {
            out.did("reminder");
            Cow::Owned(reminder::wrap(text))
        }
        Origin::Tool | Origin::Synthetic(Synthetic::Rules) => {
            let escaped = escape::escape(text);
            if matches!(escaped, Cow::Owned(_)) {
                out.did("escaped");
            }
            escaped
        }
        _ => Cow::Borrowed(text),
    };
    out.parts.push(Part::Text {
        text: shown.into_owned(),
        synthetic: *synthetic,
        ignored: false,
        extra: extra.clone(),
    });
}

fn media_text(part: &Part, out: &mut Shaped) {
    if let Some(text) = media::stub(part) {
        out.did("media: shown as text");
        out.parts.push(Part::Text { text, synthetic: true, ignored: false, extra: Map::new() });
    }
}

fn reasoning(part: &Part, scope: &ModelScope, out: &mut Shaped) {
    let Part::Reasoning { text, provider, model, .. } = part else { return };
    if !repair::reasoning_fits(part, scope) {
        out.did_and_say(
            "reasoning of another model left out",
            format!("reasoning of {provider}/{model} is not sent to {}/{}", scope.provider, scope.model),
        );
    } else if !part.is_signed() && is_blank(text) {
        out.did("repaired: blank reasoning left out");
    } else {
        out.parts.push(part.clone());
    }
}

/// One result of a tool message, with the media beside it when it is the message's first result.
pub(crate) fn shape_result(raw: &Message, nth: usize, how: &Paint<'_>) -> Shaped {
    let mut out = Shaped::default();
    let Some(Part::ToolResult { call_id, name, output, is_error, interrupted, spill, extra, .. }) =
        raw.parts.get(nth)
    else {
        return out;
    };
    let already = raw.metadata.time.and_then(|t| t.compacted).is_some();
    let mut text = match how.pruned {
        Some(mark) if !already => {
            out.did("pruned");
            out.compacted = Some(mark.at);
            super::super::prune::stub(call_id, name, mark.bytes, mark.lines, &mark.excerpt)
        }
        _ => escape_output(output, already, &mut out),
    };
    if is_blank(&text) {
        out.did("repaired: blank output");
        repair::NO_OUTPUT.clone_into(&mut text);
    }
    let mut media = Vec::new();
    let first = raw.parts.iter().position(|p| matches!(p, Part::ToolResult { .. })) == Some(nth);
    for (at, part) in raw.parts.iter().enumerate().filter(|_| first) {
        if !part.is_media() {
            continue;
        }
        if !is_error && how.pruned.is_none() && !(how.as_text)(at as u32) {
            media.push(part.clone());
        } else if let Some(stub) = media::stub(part) {
            out.did("media: shown as text");
            text.push('\n');
            text.push_str(&stub);
        }
    }
    out.parts.push(Part::ToolResult {
        call_id: call_id.clone(),
        name: repair::safe_name(name).into_owned(),
        output: text,
        is_error: *is_error,
        interrupted: *interrupted,
        details: Value::Null,
        spill: spill.clone(),
        extra: extra.clone(),
    });
    out.parts.append(&mut media);
    out
}

/// The output, escaped. A stub that the ledger itself holds (an import) keeps its tag.
fn escape_output(output: &str, already: bool, out: &mut Shaped) -> String {
    let tag = if already && output.starts_with("<tool-output-compacted ") {
        output.find("/>").map_or(0, |at| at + 2)
    } else {
        0
    };
    let rest = escape::escape(&output[tag..]);
    if matches!(rest, Cow::Owned(_)) {
        out.did("escaped");
    }
    format!("{}{rest}", &output[..tag])
}
