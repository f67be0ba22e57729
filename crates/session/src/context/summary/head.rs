//! The head as text for the summariser: limited in size, with placeholders for media, and everything from
//! tools escaped as data.

use super::escape_tags;
use crate::context::budget::estimate_text;
use becket_types::{CallId, Message, Part, Role, Tokens, cut_end, cut_start, is_blank};
use std::borrow::Borrow;
use std::collections::HashSet;

/// Maximum number of characters of a tool's output in the summariser's input.
const OUTPUT_CHARS: usize = 2_000;
/// Maximum number of characters of a tool's input (file contents, patches).
const INPUT_CHARS: usize = 1_000;

/// Maximum cost in base tokens of the line break between two records.
const LINE_END: u64 = 2;

/// Calls whose outputs are mentioned but not shown.
type Stubs<'a> = HashSet<&'a CallId>;

/// Converts each message to an escaped record; empty ones are dropped. Outputs of `stubs` are mentioned but
/// not shown. `scale` divides the limits of outputs and inputs, for histories that are many times the window.
pub fn records<M: Borrow<Message>>(messages: &[M], stubs: &Stubs<'_>, scale: usize) -> Vec<String> {
    messages.iter().map(|m| record(m.borrow(), stubs, scale.max(1))).filter(|r| !r.is_empty()).collect()
}

fn record(message: &Message, stubs: &Stubs<'_>, scale: usize) -> String {
    let mut out = String::new();
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text { text: t, ignored: false, .. } if !is_blank(t) => {
                push_line(&mut text, &escape_tags(t));
            }
            Part::Image { .. } | Part::File { .. } => push_line(&mut text, &placeholder(part)),
            Part::ToolCall { name, input, call_id, invalid, .. } => {
                let input = invalid.clone().unwrap_or_else(|| input.to_string());
                let input = escape_tags(&shorten(&input, INPUT_CHARS / scale));
                push_line(
                    &mut text,
                    &format!(
                        "<tool-call tool=\"{}\" id=\"{}\">{input}</tool-call>",
                        attribute(name),
                        attribute(call_id.as_str())
                    ),
                );
            }
            Part::ToolResult { call_id, name, output, is_error, .. } => {
                let body = if stubs.contains(call_id) {
                    format!("[{} bytes, left out]", output.len())
                } else {
                    escape_tags(&shorten(output, OUTPUT_CHARS / scale))
                };
                let failed = if *is_error { " error=\"true\"" } else { "" };
                let (name, id) = (attribute(name), attribute(call_id.as_str()));
                push_line(
                    &mut out,
                    &format!("<tool-output tool=\"{name}\" id=\"{id}\"{failed}>\n{body}\n</tool-output>"),
                );
            }
            Part::Text { .. } | Part::Reasoning { .. } | Part::Unknown(_) => {}
        }
    }
    if text.is_empty() {
        return out;
    }
    let tag = match message.role {
        Role::Assistant => "assistant-message",
        Role::User if message.is_user_turn() || message.metadata.compaction_continue => "user-message",
        Role::User | Role::System => "note",
        Role::Tool => "tool-output",
    };
    push_line(&mut out, &format!("<{tag}>\n{text}\n</{tag}>"));
    out
}

fn push_line(out: &mut String, line: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(line);
}

fn attribute(text: &str) -> String {
    escape_tags(cut_end(text, 120)).replace(['"', '\n', '\r'], "'")
}

/// Returns the text `[Attached image/png: name]` for an image or file; empty for any other part.
pub(super) fn placeholder(part: &Part) -> String {
    let (Part::Image { media_type, name, .. } | Part::File { media_type, name, .. }) = part else {
        return String::new();
    };
    let name = name.as_deref().filter(|n| !is_blank(n)).unwrap_or("unnamed");
    escape_tags(&format!("[Attached {media_type}: {name}]"))
}

/// Returns at most `max` characters of `text`: its start and its end, with a mark between them.
pub fn shorten(text: &str, max: usize) -> String {
    // A text never has more characters than bytes, so the usual case needs no count.
    if text.len() <= max || text.chars().count() <= max {
        return text.to_owned();
    }
    let mark = "\n[… cut …]\n";
    let keep = max.saturating_sub(mark.chars().count());
    let (start, end) = (keep - keep / 3, keep / 3);
    let at = |i: Option<(usize, char)>, none: usize| i.map_or(none, |(b, _)| b);
    let head = at(text.char_indices().nth(start), text.len());
    let tail = if end == 0 { text.len() } else { at(text.char_indices().rev().nth(end - 1), 0) };
    format!("{}{mark}{}", &text[..head], &text[tail..])
}

/// Packs records into pieces of at most `max` base tokens. A longer record is cut at character borders.
pub fn chunks(records: &[String], max: Tokens) -> Vec<String> {
    let max = max.0.max(64);
    let mut out: Vec<String> = Vec::new();
    let (mut current, mut size) = (String::new(), 0);
    for record in records {
        let cost = estimate_text(record).0 + LINE_END;
        if size + cost > max && !current.is_empty() {
            out.push(std::mem::take(&mut current));
            size = 0;
        }
        if cost > max {
            out.extend(slices(record, max));
            continue;
        }
        push_line(&mut current, record);
        size += cost;
    }
    if !current.is_empty() {
        out.push(current);
    }
    out
}

fn slices(text: &str, max: u64) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        // About 4 bytes per token is usual, so that size is tried first and reduced until it fits.
        let mut take = cut_end(rest, (max * 4) as usize);
        while estimate_text(take).0 > max && take.len() > 8 {
            take = cut_end(take, take.len() * 3 / 4);
        }
        if take.is_empty() {
            take = rest;
        }
        out.push(take.to_owned());
        rest = &rest[take.len()..];
    }
    out
}

/// An excerpt of the tail as text for the summariser. With it, the section "Next steps" of the summary is not outdated.
#[derive(Debug)]
pub struct TailExcerpt;

impl TailExcerpt {
    /// Returns at most `max` base tokens: the user's last words, then as much of the end of the tail as fits.
    pub fn text<M: Borrow<Message>>(last_user: Option<&Message>, tail: &[M], max: Tokens) -> String {
        let none = HashSet::new();
        let mut out = String::new();
        if let Some(user) = last_user {
            out = shorten(&record(user, &none, 1), (max.0 * 3 / 2) as usize);
        }
        let mut newest: Vec<String> = Vec::new();
        let mut left = max.0.saturating_sub(estimate_text(&out).0);
        for message in tail.iter().rev() {
            let message = message.borrow();
            if last_user.is_some_and(|u| u.id == message.id) {
                continue;
            }
            let text = record(message, &none, 4);
            let cost = estimate_text(&text).0 + LINE_END;
            if cost > left {
                let room = (left * 3) as usize;
                if room > 200 {
                    newest.push(format!("[…]{}", cut_start(&text, room)));
                }
                break;
            }
            left -= cost;
            if !text.is_empty() {
                newest.push(text);
            }
        }
        for text in newest.into_iter().rev() {
            push_line(&mut out, &text);
        }
        out
    }
}
