//! Messages on the page, with their calls and outputs in folds, and compactions where they happened.

use super::words::{escape, moment, text, thousands};
use crate::blobs::BlobStore;
use becket_types::{
    Blobs as _, Compaction, CompactionSource, ImageSource, Message, Millis, Part, Role, Seq, SubagentReport,
};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Images up to this size are in the page.
const IMAGE_BYTES: usize = 512 * 1024;
/// Of longer outputs the page has the beginning.
const OUTPUT_BYTES: usize = 64 * 1024;

/// Writes what was said, called and folded away.
pub(super) struct Writer<'a> {
    blobs: &'a BlobStore,
    masked: &'a mut usize,
    subjects: &'a HashMap<String, String>,
    results: HashMap<&'a str, &'a Message>,
}

impl<'a> Writer<'a> {
    /// `results`: the message with the first result of each call.
    pub(super) fn new(
        blobs: &'a BlobStore,
        masked: &'a mut usize,
        subjects: &'a HashMap<String, String>,
        results: HashMap<&'a str, &'a Message>,
    ) -> Self {
        Self { blobs, masked, subjects, results }
    }

    pub(super) fn message(&mut self, message: &Message, time: Millis, out: &mut String) {
        let who = if message.role == Role::User { "user" } else { "assistant" };
        let _ = write!(
            out,
            "<article class=\"{who}\" data-item id=\"m{}\"><div class=\"who\"><span>{who}</span><time>{} · {}</time></div>",
            message.seq,
            message.seq,
            moment(time)
        );
        for part in &message.parts {
            self.part(part, out);
        }
        out.push_str("</article>\n");
    }

    fn part(&mut self, part: &Part, out: &mut String) {
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
            Part::ToolCall { call_id, name, input, invalid, .. } => {
                let input = invalid
                    .clone()
                    .unwrap_or_else(|| serde_json::to_string_pretty(input).unwrap_or_default());
                let subject = self.subjects.get(call_id.as_str()).map_or("", String::as_str);
                let result = self.results.get(call_id.as_str()).copied();
                let failed = result.is_some_and(|m| {
                    m.parts.iter().any(|p| matches!(p, Part::ToolResult { is_error: true, .. }))
                });
                let _ = write!(
                    out,
                    "<details><summary><span class=\"name{}\">{}</span> {}</summary><pre>{}</pre>",
                    if failed { " bad" } else { "" },
                    escape(name),
                    text(subject, self.masked),
                    text(&input, self.masked)
                );
                for part in result.map(|m| m.parts.as_slice()).unwrap_or_default() {
                    self.part(part, out);
                }
                out.push_str("</details>");
            }
            Part::ToolResult { output, details, .. } => {
                if let Some(report) = SubagentReport::of(details) {
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
                let _ =
                    write!(out, "<p class=\"dim\">[Attached {}: {}]</p>", escape(media_type), escape(name));
            }
            Part::Text { .. } | Part::Reasoning { .. } | Part::Unknown(_) => {}
        }
    }

    /// In the page when it is small and of a kind that holds no script.
    fn image(&self, media_type: &str, source: &ImageSource, name: Option<&str>, out: &mut String) {
        use base64::Engine as _;
        let name = name.unwrap_or("image");
        let plain = matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp");
        let data = match source {
            ImageSource::Blob(id) => self
                .blobs
                .get(id)
                .filter(|bytes| bytes.len() <= IMAGE_BYTES)
                .map(|bytes| base64::engine::general_purpose::STANDARD.encode(bytes)),
            ImageSource::Base64(text) => Some(text.clone()).filter(|t| {
                t.len() <= IMAGE_BYTES * 4 / 3
                    && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
            }),
            ImageSource::Url(_) => None,
        };
        let _ = match data.filter(|_| plain) {
            Some(data) => {
                write!(out, "<img alt=\"{}\" src=\"data:{media_type};base64,{data}\">", escape(name))
            }
            None => write!(out, "<p class=\"dim\">[Attached {}: {}]</p>", escape(media_type), escape(name)),
        };
    }

    /// One line of what happened.
    pub(super) fn note(&mut self, time: Millis, words: &str, out: &mut String) {
        let words = text(words, self.masked);
        let _ = writeln!(out, "<p class=\"dim\" data-item>{} · {words}</p>", moment(time));
    }

    pub(super) fn compaction(
        &mut self,
        seq: Seq,
        time: Millis,
        compaction: &Compaction,
        undone: bool,
        out: &mut String,
    ) {
        let by = match compaction.source {
            CompactionSource::Model => escape(&compaction.model),
            CompactionSource::Fallback => "becket, without a model".to_owned(),
        };
        let _ = writeln!(
            out,
            "<details class=\"fold boundary\" data-item id=\"c{seq}\"><summary><span class=\"name\">Compaction</span> \
             {} → {} tokens{} <time>{}</time></summary><p class=\"dim\">Entry {seq}; summary by {by}.</p>\
             <div class=\"text\">{}</div></details>",
            thousands(compaction.tokens_before.0),
            thousands(compaction.tokens_after.0),
            if undone { ", undone" } else { "" },
            moment(time),
            text(&compaction.summary, self.masked)
        );
    }
}
