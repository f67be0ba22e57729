//! The searchable text of an entry.

use becket_types::{Entry, EntryKind, Part, cut_end};
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization as _;

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

/// Prepares text for the tokenizer: forms of letters that make no difference become one, and [`JOINT`] stands between the characters of
/// scripts without spaces, so that a search finds them from any character on. The tokenizer itself folds case and accents.
pub(super) fn tokenizable(text: &str) -> Cow<'_, str> {
    let text = folded(text);
    if !text.chars().any(is_word_alone) {
        return text;
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

/// Replaces forms of letters that the tokenizer does not know: sharp s is the lower case of SS, ligatures and letters of full or
/// half width are other forms of letters, and the vowel marks of Arabic and Hebrew may be left out.
fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(|c| is_mark(c) || is_other_form(c) || matches!(c, 'ß' | 'ẞ')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().filter(|c| !is_mark(*c)).peekable();
    while let Some(c) = chars.next() {
        match c {
            'ß' | 'ẞ' => out.push_str("ss"),
            c if is_other_form(c) => {
                // Together, because a sound mark of half width belongs to the letter before it.
                let mut forms = String::from(c);
                while let Some(next) = chars.next_if(|next| is_other_form(*next)) {
                    forms.push(next);
                }
                out.extend(forms.nfkc());
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// True for the vowel marks of Arabic and Hebrew, and for the stroke that lengthens an Arabic word.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}' | '\u{610}'..='\u{61a}'
        | '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e4}' | '\u{6e7}' | '\u{6e8}'
        | '\u{6ea}'..='\u{6ed}')
}

/// True for Latin ligatures, and for letters of full or half width.
fn is_other_form(c: char) -> bool {
    matches!(c, '\u{fb00}'..='\u{fb06}' | '\u{ff01}'..='\u{ff5e}' | '\u{ff66}'..='\u{ff9f}')
}

/// True for Han characters and kana, and for letters of Thai, Lao, Myanmar and Khmer.
fn is_word_alone(c: char) -> bool {
    matches!(c, '\u{e01}'..='\u{e2e}' | '\u{e81}'..='\u{eae}' | '\u{1000}'..='\u{102a}' | '\u{1780}'..='\u{17b3}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}
