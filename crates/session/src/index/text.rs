//! The searchable text of an entry.

use becket_types::{Entry, EntryKind, Part, cut_end};
use std::borrow::Cow;
use std::ops::Range;
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
/// scripts without spaces, so that a search finds them from any character on. The tokenizer itself folds case.
pub(super) fn tokenizable(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    fold(text, |_, c| out.push(c));
    Cow::Owned(out)
}

/// Returns the part of `text` that became the part `folded` of its [`tokenizable`] form, so that people see the text as it was written.
pub(super) fn source_of(text: &str, folded: Range<usize>) -> &str {
    if text.is_ascii() {
        return text.get(folded).unwrap_or_default();
    }
    let (mut start, mut end, mut len) = (text.len(), text.len(), 0);
    fold(text, |at, c| {
        if len <= folded.start {
            start = at;
        }
        if len >= folded.end {
            end = end.min(at);
        }
        len += c.len_utf8();
    });
    text.get(start..end).unwrap_or_default()
}

/// Passes each character of the folded text on, with the place of the character in `text` from which it comes.
fn fold(text: &str, mut each: impl FnMut(usize, char)) {
    let mut chars = text.char_indices().filter(|(_, c)| !is_mark(*c)).peekable();
    let mut piece = String::new();
    let mut before = false;
    while let Some((at, c)) = chars.next() {
        piece.clear();
        if is_other_form(c) {
            // A sound mark of half width belongs to the letter before it.
            let mark = chars.next_if(|(_, next)| matches!(next, '\u{ff9e}' | '\u{ff9f}'));
            piece.extend([c].into_iter().chain(mark.map(|(_, c)| c)).nfkc());
        } else {
            push_base(c, &mut piece);
        }
        for c in piece.chars() {
            let alone = is_word_alone(c);
            if alone || before {
                each(at, JOINT);
            }
            each(at, c);
            before = alone;
        }
    }
}

/// Pushes the letters that stand for `c` in the index: without accents, stroke or dot, and the parts of a joined letter. The tokenizer
/// knows only some accents of Latin letters.
fn push_base(c: char, out: &mut String) {
    if !matches!(c, '\u{c0}'..='\u{52f}' | '\u{1e00}'..='\u{1fff}' | '\u{2c65}' | '\u{2c66}') {
        return out.push(c);
    }
    for c in std::iter::once(c).nfd().filter(|c| !is_accent(*c)) {
        match c {
            'ß' | 'ẞ' => out.push_str("ss"),
            'æ' | 'Æ' => out.push_str("ae"),
            'œ' | 'Œ' => out.push_str("oe"),
            'þ' | 'Þ' => out.push_str("th"),
            'ς' => out.push('σ'),
            'ſ' => out.push('s'),
            // Turkish: the capital of ı is I, and that of i is İ.
            'ı' => out.push('i'),
            'ł' | 'Ł' => out.push('l'),
            'ø' | 'Ø' => out.push('o'),
            'đ' | 'Đ' | 'ð' | 'Ð' => out.push('d'),
            'ħ' | 'Ħ' => out.push('h'),
            'ŧ' | 'Ŧ' | 'ⱦ' => out.push('t'),
            'ƀ' => out.push('b'),
            'ǥ' | 'Ǥ' => out.push('g'),
            'ɨ' => out.push('i'),
            'ƶ' | 'Ƶ' => out.push('z'),
            'ⱥ' => out.push('a'),
            c => out.push(c),
        }
    }
}

/// True for an accent that follows its letter.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// True for accents, for the vowel marks of Arabic and Hebrew, and for the stroke that lengthens an Arabic word.
fn is_mark(c: char) -> bool {
    is_accent(c)
        || matches!(c, '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}' | '\u{610}'..='\u{61a}'
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_folded_text_leads_back_to_what_was_written() {
        let text = "Die Straße nach Łódź, ΟΔΟΣ Αθήνα, e\u{301}te\u{301}, 数据库 ｶﾞｷﾞ İstanbul";
        let folded = tokenizable(text);
        for (part, written) in [
            ("Strasse", "Straße"),
            ("lodz", "Łódź"),
            ("Αθηνα", "Αθήνα"),
            ("ete", "e\u{301}te\u{301}"),
            ("据", "据"),
            ("Istanbul", "İstanbul"),
            (&*folded, text),
        ] {
            let at = folded.find(part).unwrap_or_else(|| panic!("{part}: {folded}"));
            assert_eq!(source_of(text, at..at + part.len()), written);
        }
        assert_eq!(source_of("plain", 1..3), "la");
    }
}
