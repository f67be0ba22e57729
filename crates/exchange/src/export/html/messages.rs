//! Conversations on the page: messages, with their calls and outputs in folds, subagents below their calls,
//! and compactions at their place.

use super::super::conversation::{CallPlace, Conversation, Piece};
use super::super::subagents::{Subagent, Subagents};
use super::words::{moment, text, thousands};
use becket_session::blobs::BlobStore;
use becket_types::{
    Blobs as _, Compaction, CompactionSource, ImageSource, Message, MessageId, Millis, Part, Role, Seq,
    SubagentReport,
};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Maximum size in bytes of an image that is included in the page. A larger one is only named.
const IMAGE_BYTES: usize = 512 * 1024;
/// Maximum number of bytes that are shown of an output.
const OUTPUT_BYTES: usize = 64 * 1024;

/// Writes the messages, calls and compactions of one conversation.
pub(super) struct Writer<'a> {
    talk: &'a Conversation,
    subagents: &'a Subagents,
    /// Source of images. `None` for a subagent, whose images are only named.
    blobs: Option<&'a BlobStore>,
    masked: &'a mut usize,
    results: HashMap<CallPlace, &'a Message>,
    taken_out: HashSet<Seq>,
    /// True for a conversation inside another one. The search treats its content as a part of the enclosing message.
    nested: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        talk: &'a Conversation,
        subagents: &'a Subagents,
        blobs: Option<&'a BlobStore>,
        masked: &'a mut usize,
    ) -> Self {
        Self {
            talk,
            subagents,
            blobs,
            masked,
            results: talk.results(),
            taken_out: talk.taken_out(),
            nested: false,
        }
    }

    /// Writes the whole conversation.
    pub(super) fn all(&mut self, out: &mut String) {
        let talk = self.talk;
        let messages: HashMap<MessageId, &Message> =
            talk.transcript.messages().iter().map(|m| (m.id, m)).collect();
        for piece in &talk.pieces {
            match piece {
                Piece::Message { id, time } => {
                    if let Some(message) = messages.get(id).filter(|m| m.role != Role::Tool) {
                        self.message(message, *time, out);
                    }
                }
                Piece::Compaction { seq, time, compaction } => {
                    self.compaction(*seq, *time, compaction, out);
                }
                Piece::Prune { seq, time, calls, freed } => {
                    let undone = if self.taken_out.contains(seq) { "; undone" } else { "" };
                    let freed = thousands(*freed);
                    self.note(
                        *time,
                        &format!("{calls} old outputs became stubs; {freed} tokens freed{undone}"),
                        out,
                    );
                }
                Piece::Notice { time, text } => self.note(*time, text, out),
            }
        }
        self.subagents(&self.subagents.others, out);
    }

    /// Returns the attributes that make an element a result of the search and a target of links; none for a nested conversation.
    fn item(&self, id: &str) -> String {
        if self.nested { String::new() } else { format!(" data-item id=\"{id}\"") }
    }

    fn message(&mut self, message: &Message, time: Millis, out: &mut String) {
        let who = if message.role == Role::User { "user" } else { "assistant" };
        let taken_out = self.taken_out.contains(&message.seq);
        let (out_class, out_words) = if taken_out { (" out", ", taken out") } else { ("", "") };
        let _ = write!(
            out,
            "<article class=\"{who}{out_class}\"{}><div class=\"who\"><span>{who}{out_words}</span><time>{} · {}</time></div>",
            self.item(&format!("m{}", message.seq)),
            message.seq,
            moment(time)
        );
        for (at, part) in message.parts.iter().enumerate() {
            self.part((message.id, at), part, out);
        }
        out.push_str("</article>\n");
    }

    fn part(&mut self, place: CallPlace, part: &Part, out: &mut String) {
        match part {
            Part::Text { text: words, synthetic: false, .. } if !becket_types::is_blank(words) => {
                let _ = write!(out, "<div class=\"text\">{}</div>", text(words.trim_end(), self.masked));
            }
            Part::Reasoning { text: words, .. } if !becket_types::is_blank(words) => {
                let words = text(words, self.masked);
                let _ = write!(
                    out,
                    "<details><summary class=\"dim\">thinking</summary><div class=\"text\">{words}</div></details>"
                );
            }
            Part::ToolCall { .. } => self.call(place, part, out),
            Part::ToolResult { output, details, .. } => {
                if let Some(report) = SubagentReport::from_details(details) {
                    let _ = write!(out, "<pre>{}</pre>", text(&report.to_string(), self.masked));
                }
                let shown = becket_types::cut_end(output, OUTPUT_BYTES);
                let more = output.len() - shown.len();
                let more = if more > 0 { format!("\n[… {more} more bytes]") } else { String::new() };
                let _ = write!(out, "<pre>{}{more}</pre>", text(shown, self.masked));
            }
            Part::Image { media_type, source, name, .. } => {
                self.image(media_type, source, name.as_deref(), out);
            }
            Part::File { media_type, name, .. } => {
                let name = name.as_deref().unwrap_or("file");
                self.attached(media_type, name, out);
            }
            Part::Text { .. } | Part::Reasoning { .. } | Part::Unknown(_) => {}
        }
    }

    /// Writes a call with its result in a fold, and below it the conversation of the subagent that worked for
    /// it.
    fn call(&mut self, place: CallPlace, part: &Part, out: &mut String) {
        let Part::ToolCall { call_id, name, input, invalid, .. } = part else { return };
        let input =
            invalid.clone().unwrap_or_else(|| serde_json::to_string_pretty(input).unwrap_or_default());
        let subject = self.talk.subjects.get(call_id.as_str()).map_or("", String::as_str);
        let result = self.results.get(&place).copied();
        let failed = result
            .is_some_and(|m| m.parts.iter().any(|p| matches!(p, Part::ToolResult { is_error: true, .. })));
        let _ = write!(
            out,
            "<details><summary><span class=\"name{}\">{}</span> {}</summary><pre>{}</pre>",
            if failed { " bad" } else { "" },
            text(name, self.masked),
            text(subject, self.masked),
            text(&input, self.masked)
        );
        for part in result.map(|m| m.parts.as_slice()).unwrap_or_default() {
            self.part(place, part, out);
        }
        out.push_str("</details>");
        self.subagents(self.subagents.of_call(place), out);
    }

    fn subagents(&mut self, subagents: &[Subagent], out: &mut String) {
        for subagent in subagents {
            let _ = writeln!(
                out,
                "<details class=\"subagent\"><summary><span class=\"name\">{}</span> <span class=\"dim\">{} messages</span>\
                 </summary><p class=\"dim\">Session {}</p>",
                text(&subagent.head(), self.masked),
                subagent.talk.said(),
                subagent.session
            );
            let mut nested = Writer::new(&subagent.talk, &subagent.below, None, self.masked);
            nested.nested = true;
            nested.all(out);
            if let Some(cut) = subagent.cut() {
                let _ = write!(out, "<p class=\"dim\">{}</p>", text(&cut, self.masked));
            }
            out.push_str("</details>");
        }
    }

    /// Includes an image if it is small and of a format that cannot contain a script.
    fn image(&mut self, media_type: &str, source: &ImageSource, name: Option<&str>, out: &mut String) {
        use base64::Engine as _;
        let name = name.unwrap_or("image");
        let plain = matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp");
        let data = match source {
            ImageSource::Blob(id) => self
                .blobs
                .and_then(|blobs| blobs.get(id))
                .filter(|bytes| bytes.len() <= IMAGE_BYTES)
                .map(|bytes| base64::engine::general_purpose::STANDARD.encode(bytes)),
            ImageSource::Base64(text) => Some(text.clone()).filter(|t| {
                self.blobs.is_some()
                    && t.len() <= IMAGE_BYTES * 4 / 3
                    && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
            }),
            ImageSource::Url(_) => None,
        };
        match data.filter(|_| plain) {
            Some(data) => {
                let name = text(name, self.masked);
                let _ = write!(out, "<img alt=\"{name}\" src=\"data:{media_type};base64,{data}\">");
            }
            None => self.attached(media_type, name, out),
        }
    }

    fn attached(&mut self, media_type: &str, name: &str, out: &mut String) {
        let (kind, name) = (text(media_type, self.masked), text(name, self.masked));
        let _ = write!(out, "<p class=\"dim\">[Attached {kind}: {name}]</p>");
    }

    /// Writes one line about an event, such as a prune or a notice.
    fn note(&mut self, time: Millis, words: &str, out: &mut String) {
        let words = text(words, self.masked);
        let item = if self.nested { "" } else { " data-item" };
        let _ = writeln!(out, "<p class=\"dim\"{item}>{} · {words}</p>", moment(time));
    }

    fn compaction(&mut self, seq: Seq, time: Millis, compaction: &Compaction, out: &mut String) {
        let by = match compaction.origin.source {
            CompactionSource::Model => text(&compaction.origin.model, self.masked),
            CompactionSource::Fallback => "becket, without a model".to_owned(),
        };
        let _ = writeln!(
            out,
            "<details class=\"fold boundary\"{}><summary><span class=\"name\">Compaction</span> \
             {} → {} tokens{} <time>{}</time></summary><p class=\"dim\">Entry {seq}; summary by {by}.</p>\
             <div class=\"text\">{}</div></details>",
            self.item(&format!("c{seq}")),
            thousands(compaction.size.before.0),
            thousands(compaction.size.after.0),
            if self.taken_out.contains(&seq) { ", undone" } else { "" },
            moment(time),
            text(&compaction.summary, self.masked)
        );
    }
}
