//! A session as one HTML page: offline, nothing from elsewhere, readable on a phone, folded, searchable.
//!
//! What a person saw, and what else helps to understand it: calls and outputs in folds, compactions where they happened with
//! their summaries, how full the context was at each request and what of, span by span what the model sees at the end with
//! where it is from, and the list of requests. Secrets are masked by their form.
//! Every text is escaped; the page allows no network at all (`Content-Security-Policy`), so nothing in a session can call
//! home. Works without its script, but for the search.

use super::mask::mask;
use super::provenance::Provenance;
use super::{Transcript, is_shown};
use crate::blobs::BlobStore;
use becket_types::{
    Blobs as _, Compaction, CompactionSource, Entry, EntryKind, ImageSource, Message, MessageId, Millis,
    Part, Role, SentRequest, Seq, Usage,
};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;

/// Images up to this size are in the page.
const IMAGE_BYTES: usize = 512 * 1024;
/// Of longer outputs the page has the beginning.
const OUTPUT_BYTES: usize = 64 * 1024;
const CSS: &str = include_str!("page.css");
const JS: &str = include_str!("page.js");

/// What happens on the page, in order.
enum Piece {
    Message { id: MessageId, time: Millis },
    Compaction { seq: Seq, time: Millis, compaction: Box<Compaction>, undone: bool },
    Prune { time: Millis, calls: usize, freed: u64 },
    Notice { time: Millis, text: String },
}

struct Row {
    seq: Seq,
    time: Millis,
    request: SentRequest,
    usage: Option<Usage>,
}

/// A page in the making: takes entries in order.
#[derive(Default)]
pub struct Page {
    transcript: Transcript,
    pieces: Vec<Piece>,
    rows: Vec<Row>,
    /// Usage without a record of its request (older sessions).
    points: Vec<(Seq, Usage)>,
    compactions: Vec<Seq>,
    first: Option<Entry>,
    last_time: Millis,
    cost: f64,
    used: Usage,
    subjects: HashMap<String, String>,
    provenance: Provenance,
}

impl Page {
    pub fn take(&mut self, entry: &Entry) {
        self.transcript.take(entry);
        self.provenance.take(entry);
        self.last_time = self.last_time.max(entry.time);
        let (seq, time) = (entry.seq, entry.time);
        match &entry.kind {
            EntryKind::Session { .. } => self.first = Some(entry.clone()),
            EntryKind::Message { message } if is_shown(message) => {
                self.pieces.push(Piece::Message { id: message.id, time });
            }
            EntryKind::Compaction(compaction) => {
                self.compactions.push(seq);
                self.pieces.push(Piece::Compaction {
                    seq,
                    time,
                    compaction: compaction.clone(),
                    undone: false,
                });
            }
            EntryKind::Revert { entry: target } => {
                for piece in &mut self.pieces {
                    if let Piece::Compaction { seq, undone, .. } = piece
                        && seq == target
                    {
                        *undone = true;
                    }
                }
            }
            EntryKind::Prune { calls, freed_tokens, .. } => {
                self.pieces.push(Piece::Prune { time, calls: calls.len(), freed: freed_tokens.0 });
            }
            EntryKind::Notice { text, .. } => self.pieces.push(Piece::Notice { time, text: text.clone() }),
            EntryKind::Request(request) => {
                self.rows.push(Row { seq, time, request: SentRequest::clone(request), usage: None });
            }
            EntryKind::Usage { usage, cost_usd, purpose, .. } => {
                self.cost += cost_usd;
                self.used += *usage;
                let open = |row: &&mut Row| row.request.purpose == *purpose && row.usage.is_none();
                if let Some(row) = self.rows.iter_mut().rev().find(open) {
                    row.usage = Some(*usage);
                }
                if purpose == "turn" {
                    self.points.push((seq, *usage));
                }
            }
            EntryKind::ToolJournal { call_id, subject: Some(subject), .. } => {
                self.subjects.insert(call_id.0.clone(), subject.clone());
            }
            _ => {}
        }
    }

    /// A record that could not be read.
    pub fn unreadable(&mut self, text: String) {
        self.pieces.push(Piece::Notice { time: self.last_time, text: format!("unreadable record: {text}") });
    }

    /// The whole page. `blobs`: where its images are.
    pub fn write(mut self, blobs: &BlobStore, out: &mut dyn io::Write) -> io::Result<()> {
        let mut masked = 0;
        let body = self.body(blobs, &mut masked);
        let title = self.title(&mut masked);
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\
             <meta name=\"referrer\" content=\"no-referrer\"><title>{title}</title>\n<style>\n{CSS}</style></head>\n<body>\n"
        )?;
        let spans = self.provenance.table(&self.subjects, blobs, &mut masked);
        out.write_all(self.head(&title, masked, blobs).as_bytes())?;
        out.write_all(body.as_bytes())?;
        out.write_all(spans.as_bytes())?;
        write!(out, "</main>\n<script>\n{JS}</script>\n</body></html>\n")
    }

    fn title(&self, masked: &mut usize) -> String {
        let first_words = || {
            let message = self.transcript.messages.iter().find(|m| m.role == Role::User)?;
            Some(message.text().split_whitespace().take(12).collect::<Vec<_>>().join(" "))
        };
        let title =
            self.transcript.title.clone().or_else(first_words).unwrap_or_else(|| "Session".to_owned());
        text(&title, masked)
    }

    fn head(&self, title: &str, masked: usize, blobs: &BlobStore) -> String {
        let mut out = format!("<header><h1>{title}</h1><dl>");
        let mut row = |name: &str, value: &str| {
            let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(value));
        };
        if let Some(Entry { time, kind: EntryKind::Session { session, version, cwd, extra, .. }, .. }) =
            &self.first
        {
            row("session", &session.to_string());
            row("directory", &cwd.display().to_string());
            row("time", &format!("{} – {} (UTC)", moment(*time), moment(self.last_time)));
            row("becket", version);
            if let Some(from) = extra.get("imported").and_then(|i| i["from"].as_str()) {
                row("imported from", from);
            }
        }
        let messages = self.transcript.messages.iter().filter(|m| m.role != Role::Tool).count();
        row("messages", &format!("{messages}, {} compactions", self.compactions.len()));
        row(
            "tokens",
            &format!(
                "{} in, {} from the cache, {} out; ${:.2} at list price",
                self.used.input + self.used.cache_write,
                self.used.cache_read,
                self.used.output,
                self.cost
            ),
        );
        if masked > 0 {
            row("masked", &format!("{masked} secrets, by their form"));
        }
        out.push_str("</dl>");
        out.push_str(&self.plot());
        out.push_str(&self.provenance.plot(&self.compactions, blobs));
        out.push_str(
            "</header>\n<nav><div><input id=\"q\" type=\"search\" placeholder=\"Search\" aria-label=\"Search\">\
             <button id=\"all\">Fold / unfold</button><span id=\"n\" class=\"dim\"></span></div></nav>\n<main>\n",
        );
        out
    }

    /// How full the context was at each request, with compactions as lines.
    fn plot(&self) -> String {
        const W: f64 = 800.0;
        const H: f64 = 180.0;
        const LEFT: f64 = 44.0;
        const TOP: f64 = 14.0;
        let points: Vec<(Seq, u64)> = self.points.iter().map(|(seq, u)| (*seq, u.context().0)).collect();
        let most = points.iter().map(|(_, n)| *n).max().unwrap_or(0);
        if points.len() < 2 || most == 0 {
            return String::new();
        }
        let x = |at: usize| LEFT + (W - LEFT - 8.0) * at as f64 / (points.len() - 1) as f64;
        let y = |n: u64| TOP + (H - TOP - 22.0) * (1.0 - n as f64 / most as f64);
        let mut out = format!(
            "<svg viewBox=\"0 0 {W} {H}\" role=\"img\" aria-label=\"Context at each request\">\
             <title>Context in tokens at each of {} requests</title>",
            points.len()
        );
        for share in [0, 1, 2] {
            let n = most * share / 2;
            let _ = write!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" stroke-opacity=\".15\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                W - 8.0,
                LEFT - 5.0,
                y(n) + 4.0,
                thousands(n),
                y = y(n),
            );
        }
        for seq in &self.compactions {
            let at = points.partition_point(|(point, _)| point < seq).min(points.len() - 1);
            let x = x(at);
            let _ = write!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\" stroke=\"var(--accent)\" stroke-dasharray=\"3 3\">\
                 <title>compaction, entry {seq}</title></line>",
                H - 22.0
            );
        }
        out.push_str("<polyline fill=\"none\" stroke=\"var(--accent)\" stroke-width=\"2\" points=\"");
        for (at, (_, n)) in points.iter().enumerate() {
            let _ = write!(out, "{:.1},{:.1} ", x(at), y(*n));
        }
        let _ = write!(
            out,
            "\"/><text x=\"{LEFT}\" y=\"{}\">context in tokens, request by request; dashed: compactions</text></svg>",
            H - 6.0
        );
        out
    }

    fn body(&self, blobs: &BlobStore, masked: &mut usize) -> String {
        let mut out = String::new();
        let messages: HashMap<MessageId, &Message> =
            self.transcript.messages.iter().map(|m| (m.id, m)).collect();
        let mut results: HashMap<&str, &Message> = HashMap::new();
        for message in &self.transcript.messages {
            if let Some(id) = message.result_of() {
                results.entry(id.as_str()).or_insert(message);
            }
        }
        let mut writer = Writer { blobs, masked, subjects: &self.subjects, results };
        for piece in &self.pieces {
            match piece {
                Piece::Message { id, time } => {
                    if let Some(message) = messages.get(id).filter(|m| m.role != Role::Tool) {
                        writer.message(message, *time, &mut out);
                    }
                }
                Piece::Compaction { seq, time, compaction, undone } => {
                    writer.compaction(*seq, *time, compaction, *undone, &mut out);
                }
                Piece::Prune { time, calls, freed } => {
                    let what =
                        format!("{calls} old outputs became stubs; {} tokens freed", thousands(*freed));
                    let _ = writeln!(out, "<p class=\"dim\" data-item>{} · {what}</p>", moment(*time));
                }
                Piece::Notice { time, text: notice } => {
                    let notice = text(notice, writer.masked);
                    let _ = writeln!(out, "<p class=\"dim\" data-item>{} · {notice}</p>", moment(*time));
                }
            }
        }
        out.push_str(&self.requests());
        out
    }

    fn requests(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut out = format!(
            "<details class=\"fold\" data-item><summary><span class=\"name\">Requests</span> ({})</summary>\
             <div class=\"scroll\"><table><tr><th>N</th><th>entry</th><th>time</th><th>bytes</th><th>tokens</th>\
             <th>cached</th><th>out</th><th>model</th></tr>",
            self.rows.len()
        );
        for (n, row) in (1..).zip(&self.rows) {
            let usage = row.usage.unwrap_or_default();
            let _ = write!(
                out,
                "<tr><td>{n}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{} {}<br>\
                 <span class=\"dim\">{}</span></td></tr>",
                row.seq,
                moment(row.time),
                row.request.bytes,
                usage.context(),
                usage.cache_read,
                usage.output,
                escape(&row.request.model),
                if row.request.purpose == "turn" { "" } else { "(summary)" },
                escape(&row.request.sha256),
            );
        }
        out.push_str("</table></div></details>\n");
        out
    }
}

struct Writer<'a> {
    blobs: &'a BlobStore,
    masked: &'a mut usize,
    subjects: &'a HashMap<String, String>,
    results: HashMap<&'a str, &'a Message>,
}

impl Writer<'_> {
    fn message(&mut self, message: &Message, time: Millis, out: &mut String) {
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
            Part::ToolResult { output, .. } => {
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

    fn compaction(
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

/// Masked and escaped.
pub(super) fn text(text: &str, masked: &mut usize) -> String {
    let (text, count) = mask(text);
    *masked += count;
    escape(&text)
}

pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // What would be shown otherwise than it is: controls, and marks that turn the direction of text.
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

pub(super) fn thousands(n: u64) -> String {
    if n < 1_000 { n.to_string() } else { format!("{:.1}k", n as f64 / 1_000.0) }
}

/// `2026-11-21 14:05` in UTC: a page reads the same wherever it is made.
fn moment(time: Millis) -> String {
    let days = i64::try_from(time.0 / 86_400_000).unwrap_or(0);
    let of_day = time.0 % 86_400_000 / 60_000;
    // The civil calendar from days since 1970: eras of 400 years, years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", of_day / 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Disk;
    use serde_json::{Map, json};
    use std::sync::Arc;

    #[test]
    fn a_page_holds_what_was_said_escaped_masked_and_loads_nothing() {
        let answer = Message::assistant(vec![
            Part::text("Looking at <b>it</b>."),
            Part::tool_call("c1", "bash", json!({"command": "echo $KEY"})),
        ]);
        let result = Message::tool_result(
            "c1".into(),
            "bash",
            "</pre><script>alert(1)</script> AKIAIOSFODNN7EXAMPLE",
            true,
        );
        let kinds = [
            EntryKind::Title { title: "A \"title\"".into() },
            EntryKind::Message { message: Message::user("fix it\u{202e}") },
            EntryKind::Message { message: answer },
            EntryKind::Message { message: result },
            EntryKind::Notice { text: "told".into(), extra: Map::new() },
        ];
        let mut page = Page::default();
        for (seq, kind) in (1..).zip(kinds) {
            page.take(&Entry { seq: Seq(seq), time: Millis(1_795_269_906_789), kind });
        }
        let mut out = Vec::new();
        let blobs = BlobStore::in_memory(Arc::new(Disk), None);
        page.write(&blobs, &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        for word in [
            "<title>A &quot;title&quot;</title>",
            "Looking at &lt;b&gt;it&lt;/b&gt;.",
            "&lt;script&gt;alert(1)",
            "‹AWS key masked›",
            "1 secrets",
            "2026-11-21 14:05",
            "name bad",
            "default-src 'none'",
        ] {
            assert!(page.contains(word), "{word}");
        }
        assert!(!page.contains("AKIAIOSFODNN7EXAMPLE") && !page.contains('\u{202e}'));
        assert_eq!(page.matches("<script>").count(), 1);
        assert!(!page.contains("http://") && !page.contains("https://"), "nothing from elsewhere");
    }

    /// Where each part of the context is from, without the words that are not for people; and what each request was made of.
    #[test]
    fn a_page_says_what_the_model_saw_and_where_it_is_from() {
        let request = || {
            EntryKind::Request(Box::new(SentRequest {
                model: "anthropic/claude".into(),
                purpose: "turn".into(),
                max_output: 100,
                effort: None,
                no_calls: false,
                prompt: None,
                bytes: 10,
                sha256: "00".into(),
            }))
        };
        let mut nested = Message::synthetic(becket_types::Synthetic::Rules, "SECRET words of a rules file");
        nested.metadata.extra.insert("rules_path".into(), json!("/p/sub/AGENTS.md"));
        let rules = becket_types::SystemItem {
            kind: becket_types::SystemKind::Rules,
            path: Some("/p/AGENTS.md".into()),
            text: "SECRET rules".into(),
        };
        let kinds = [
            EntryKind::System { items: vec![rules] },
            EntryKind::Message { message: Message::user("fix it") },
            request(),
            EntryKind::Message {
                message: Message::assistant(vec![Part::tool_call("c1", "bash", json!({"command": "ls"}))]),
            },
            EntryKind::Message {
                message: Message::tool_result("c1".into(), "bash", "out\n".repeat(400), false),
            },
            EntryKind::Message { message: nested },
            request(),
        ];
        let mut page = Page::default();
        for (seq, kind) in (1..).zip(kinds) {
            page.take(&Entry { seq: Seq(seq), time: Millis(0), kind });
        }
        let mut out = Vec::new();
        page.write(&BlobStore::in_memory(Arc::new(Disk), None), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        for word in [
            "What the model sees at the end</span> (5 spans",
            "<span class=\"name\">rules</span> /p/AGENTS.md",
            "<span class=\"name\">rules</span> rules /p/sub/AGENTS.md",
            "<a href=\"#m2\">message 2</a>",
            "(call c1)",
            "at each of 2 requests",
            "<polygon class=\"g4\"",
        ] {
            assert!(page.contains(word), "{word}: {page}");
        }
        assert!(page.contains("id=\"m2\""), "the link leads somewhere: {page}");
        assert!(!page.contains("SECRET"), "{page}");
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (millis, want) in [
            (0, "1970-01-01 00:00"),
            (951_782_400_000, "2000-02-29 00:00"),
            (1_709_209_815_250, "2024-02-29 12:30"),
            (1_795_269_906_789, "2026-11-21 14:05"),
        ] {
            assert_eq!(moment(Millis(millis)), want);
        }
    }
}
