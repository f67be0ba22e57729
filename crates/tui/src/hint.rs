//! Lines that say what keys do: the keys are prominent, the words are dim.
//!
//! Each part of such a line begins with its keys, followed by a verb: `Esc refuses`. Knows the names of keys; owns no text.

use crate::text;
use crate::theme::Theme;
use ratatui::text::{Line, Span};

/// Returns a line that fits into `width` columns.
pub(crate) fn line(text: &str, width: usize, theme: &Theme) -> Line<'static> {
    Line::from(spans(&text::fit(text, width), theme))
}

/// Returns the text in pieces: names of keys, and the words between them.
pub(crate) fn spans(text: &str, theme: &Theme) -> Vec<Span<'static>> {
    let mut out: Vec<Span<'static>> = Vec::new();
    let mut words = String::new();
    for piece in text.split_inclusive(' ') {
        let key = piece.trim_end_matches([' ', ',', ';', ':']);
        if !is_key(key) {
            words.push_str(piece);
            continue;
        }
        if !words.is_empty() {
            out.push(Span::styled(std::mem::take(&mut words), theme.dim));
        }
        out.push(Span::styled(key.to_owned(), theme.accent));
        words.push_str(&piece[key.len()..]);
    }
    if !words.is_empty() {
        out.push(Span::styled(words, theme.dim));
    }
    out
}

/// True for the name of a key, or a sign that is typed at the beginning of a message.
fn is_key(word: &str) -> bool {
    let chord = ["Ctrl-", "Alt-", "Shift-"].iter().any(|modifier| word.starts_with(modifier));
    let command = word.len() > 1 && word.starts_with('/');
    let named = matches!(
        word,
        "↑" | "↓"
            | "Enter"
            | "Esc"
            | "Tab"
            | "Space"
            | "PageUp"
            | "PageDown"
            | "Home"
            | "End"
            | "@"
            | "!"
            | "#"
    );
    chord || command || named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_prominent_and_no_text_changes() {
        let theme = Theme::dark();
        for (text, keys) in [
            ("↓ or Tab, then Enter answers · Esc refuses", vec!["↓", "Tab", "Enter", "Esc"]),
            ("/help lists commands · @ names a file", vec!["/help", "@"]),
            ("Ctrl-C interrupts", vec!["Ctrl-C"]),
            ("no key / at all", vec![]),
            ("", vec![]),
        ] {
            let spans = spans(text, &theme);
            assert_eq!(spans.iter().map(|span| span.content.as_ref()).collect::<String>(), text);
            let shown: Vec<&str> = spans
                .iter()
                .filter(|span| span.style == theme.accent)
                .map(|span| span.content.as_ref())
                .collect();
            assert_eq!(shown, keys, "{text}");
        }
        assert_eq!(line("Esc refuses", 6, &theme).to_string(), "Esc r…");
    }
}
