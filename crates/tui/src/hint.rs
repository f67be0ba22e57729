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

/// Returns the first of `forms` (forms of one line) that fits into `width` columns; if none does, the last one.
pub(crate) fn fitting<'a>(forms: &[&'a str], width: usize) -> &'a str {
    let fits = forms.iter().find(|form| text::width(form) <= width);
    fits.or(forms.last()).copied().unwrap_or_default()
}

/// Divides a line between its parts into lines that fit into `width` columns.
pub(crate) fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in line.split(SEPARATOR) {
        match lines.last_mut() {
            Some(last) if text::width(last) + text::width(SEPARATOR) + text::width(part) <= width => {
                last.push_str(SEPARATOR);
                last.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

/// Between two parts of a line.
const SEPARATOR: &str = " · ";

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
            | "Up"
            | "Down"
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

    #[test]
    fn a_line_takes_the_longest_form_that_fits_or_wraps_between_its_parts() {
        let forms = ["Enter answers · Esc closes", "Enter · Esc"];
        assert_eq!([26, 25, 3].map(|width| fitting(&forms, width)), [forms[0], forms[1], forms[1]]);
        let line = "↑ ↓ select · Enter opens · Esc closes";
        assert_eq!(wrapped(line, 37), [line]);
        assert_eq!(wrapped(line, 36), ["↑ ↓ select · Enter opens", "Esc closes"]);
        assert_eq!(wrapped(line, 5), ["↑ ↓ select", "Enter opens", "Esc closes"]);
    }
}
