//! The searchable text of an entry.

use becket_types::{Entry, EntryKind, Part, cut_end};
use std::borrow::Cow;

/// The role of a title, which is not part of any message.
pub(super) const TITLE: &str = "title";

/// Number of bytes of a tool's output that are searchable.
const TOOL_TEXT: usize = 8 << 10;

/// Returns the role and the searchable text of an entry; `None` if there is none.
pub(super) fn text_of(entry: &Entry) -> Option<(&'static str, String)> {
    let (role, text) = match &entry.kind {
        EntryKind::Message { message } if message.visibility().user => {
            (message.role.name(), searchable(&message.parts))
        }
        EntryKind::Part { part, .. } => ("assistant", searchable(std::slice::from_ref(part))),
        EntryKind::Title { title } => (TITLE, title.clone()),
        _ => return None,
    };
    (!text.is_empty()).then_some((role, text))
}

/// Returns the searchable text of these parts.
fn searchable(parts: &[Part]) -> String {
    let mut text = String::new();
    let mut add = |piece: &str| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(piece);
    };
    for part in parts {
        match part {
            Part::Text { text, synthetic: false, .. } => add(text),
            Part::ToolCall { name, input, .. } => add(cut_end(&format!("{name} {input}"), TOOL_TEXT)),
            Part::ToolResult { output, .. } => add(cut_end(output, TOOL_TEXT)),
            Part::Image { name: Some(name), .. } | Part::File { name: Some(name), .. } => add(name),
            Part::Text { .. }
            | Part::Image { .. }
            | Part::File { .. }
            | Part::Reasoning { .. }
            | Part::Unknown(_) => {}
        }
    }
    text
}

/// Separator between characters that are words of their own, in text for the tokenizer. It is not a word
/// character itself.
pub(super) const JOINT: char = '\u{2060}';

/// Prepares text for the tokenizer: puts [`JOINT`] between the characters of scripts without spaces, so that a search finds them from any
/// character on.
pub(super) fn spaced(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_word_alone) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut before = false;
    for c in text.chars() {
        let alone = is_word_alone(c);
        if alone || before {
            out.push(JOINT);
        }
        out.push(c);
        before = alone;
    }
    Cow::Owned(out)
}

/// True for Han characters and kana, and for letters of Thai, Lao, Myanmar and Khmer.
fn is_word_alone(c: char) -> bool {
    matches!(c, '\u{e01}'..='\u{e2e}' | '\u{e81}'..='\u{eae}' | '\u{1000}'..='\u{102a}' | '\u{1780}'..='\u{17b3}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}
