//! Text on its way to cells: invisible characters are shown, and lines that are too wide are wrapped. Graphemes stay
//! whole.
//!
//! Owns [`visible`] (no control character and no bidirectional override of a model or a tool reaches the terminal, and nothing is left out),
//! [`wrap`] and [`fit`]; `width` owns widths in columns of the terminal. Knows no theme and no block.

mod width;

pub use width::width;
pub(crate) use width::{columns_of, delete_back, is_disputed, line_width, most};

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthChar as _;

/// Width of a tab in columns.
const TAB: usize = 4;

/// Returns one line of text as it may be shown: tabs as spaces, control characters as their pictures, other invisible
/// characters (such as bidirectional overrides) as `⟨U+202E⟩`.
pub fn visible(line: &str) -> Cow<'_, str> {
    let is_special = |c: char| c == '\t' || is_hidden(c) || is_joined(c);
    if !line.chars().any(is_special) && !line.starts_with(is_mark) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + 16);
    let mut column = 0;
    for grapheme in line.graphemes(true) {
        let from = out.len();
        if grapheme.starts_with(is_mark) {
            // A mark without a letter has no cell of its own, so it would not be drawn.
            out.push('◌');
        }
        for c in grapheme.chars() {
            match c {
                '\t' => out.extend(std::iter::repeat_n(' ', TAB - column % TAB)),
                '\u{0}'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('␀')),
                '\u{7f}' => out.push('␡'),
                c if is_hidden(c) || is_joined(c) && !may_be_joined(grapheme) => {
                    let _ = write!(out, "⟨U+{:04X}⟩", u32::from(c));
                }
                c => out.push(c),
            }
        }
        column += width(&out[from..]);
    }
    Cow::Owned(out)
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}' | '\u{200E}' | '\u{200F}'
            | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206F}' | '\u{2028}' | '\u{2029}'
            | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E00FF}' | '\u{E01F0}'..='\u{E0FFF}'
            | '\u{034F}' | '\u{3164}' | '\u{FFA0}')
}

/// Joiners and selectors: they choose the form of some characters, and do nothing after others.
fn is_joined(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// True for a mark that is drawn on the character before it.
fn is_mark(c: char) -> bool {
    c >= '\u{300}' && !is_hidden(c) && !is_joined(c) && c.width() == Some(0)
}

/// True if a grapheme begins with a character that joiners and selectors are for: symbols, ideographs, letters of scripts that
/// join, and the bases of keycaps.
fn may_be_joined(grapheme: &str) -> bool {
    let Some(base) = grapheme.chars().next() else { return false };
    let is_keycap = matches!(base, '0'..='9' | '#' | '*') && grapheme.ends_with('\u{20E3}');
    is_keycap || !is_joined(base) && base >= '\u{A9}' && !matches!(base, '\u{C0}'..='\u{5FF}')
}

/// Returns the longest start of `text` that fits into `columns`, with an ellipsis if text was left out.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let w = width(grapheme);
        if used + w + 1 > columns {
            break;
        }
        used += w;
        out.push_str(grapheme);
    }
    if columns > 0 {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Cuts a text that is wider than `columns` in its middle, marked by `…`, and keeps its last words, in which such texts (a
/// folder and its branch) differ.
pub(crate) fn fit_ends(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let ends = text.match_indices(' ').map(|(at, _)| &text[at..]);
    let end = ends.into_iter().find(|end| width(end) <= columns / 2).unwrap_or_default();
    Cow::Owned(format!("{}{end}", fit(text, columns.saturating_sub(width(end)))))
}

/// Like [`fit`], but cuts after a whole word if at least half of the columns stay filled.
pub(crate) fn fit_words(text: &str, columns: usize) -> Cow<'_, str> {
    let cut = match fit(text, columns) {
        Cow::Owned(cut) => cut,
        whole @ Cow::Borrowed(_) => return whole,
    };
    let kept = cut.trim_end_matches('…');
    if text[kept.len()..].starts_with(' ') {
        return Cow::Owned(cut);
    }
    match kept.rfind(' ').map(|at| kept[..at].trim_end_matches([' ', ',', ';', ':', '·'])) {
        Some(words) if 2 * width(words) >= columns => Cow::Owned(format!("{words}…")),
        _ => Cow::Owned(cut),
    }
}

/// Cuts `text` every `columns`. Returns at least one piece.
pub fn chunks(text: &str, columns: usize) -> Vec<&str> {
    pieces(text, |rest| fits(rest, columns))
}

/// Like [`chunks`], but cuts after a space if the piece has one. No text is left out.
pub(crate) fn chunks_of_words(text: &str, columns: usize) -> Vec<&str> {
    pieces(text, |rest| {
        let end = fits(rest, columns);
        let (piece, behind) = rest.split_at(end);
        if behind.is_empty() || behind.starts_with(' ') {
            return end;
        }
        // Spaces of the indentation are not places to cut.
        let indent = end - piece.trim_start().len();
        piece.rfind(' ').map(|at| at + 1).filter(|at| *at > indent).unwrap_or(end)
    })
}

fn pieces(text: &str, end: impl Fn(&str) -> usize) -> Vec<&str> {
    let (mut out, mut rest) = (Vec::new(), text);
    loop {
        let (piece, behind) = rest.split_at(end(rest));
        out.push(piece);
        rest = behind;
        if rest.is_empty() {
            return out;
        }
    }
}

/// Returns how many bytes of `text` fit into `columns`; at least those of the first character.
fn fits(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += width(grapheme);
        if used > columns && at > 0 {
            return at;
        }
    }
    text.len()
}

/// Relation of a line to the line above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Joint {
    /// The line begins a line of the text.
    #[default]
    Hard,
    /// The line continues the line above; this white space was left out at the break.
    Soft(String),
}

/// Returns `text` without its first `columns`.
pub fn skip(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        if used >= columns {
            return &text[at..];
        }
        used += width(grapheme);
    }
    ""
}

/// Returns the words in pieces: names between backticks in the style `code` and without the backticks, the rest in `style`. For the
/// interface's own sentences. A backtick without a second one stays.
pub fn quoted(words: &str, style: Style, code: Style) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let mut rest = words;
    while let Some((before, (name, after))) =
        rest.split_once('`').and_then(|(before, more)| Some((before, more.split_once('`')?)))
    {
        spans.extend((!before.is_empty()).then(|| Span::styled(before.to_owned(), style)));
        spans.extend((!name.is_empty()).then(|| Span::styled(name.to_owned(), code)));
        rest = after;
    }
    spans.extend((!rest.is_empty()).then(|| Span::styled(rest.to_owned(), style)));
    spans
}

/// Like `wrap_joined`, without the relations between lines.
pub fn wrap(
    spans: &[Span<'_>],
    columns: usize,
    first: &Span<'static>,
    rest: &Span<'static>,
) -> Vec<Line<'static>> {
    wrap_joined(spans, columns, first, rest).into_iter().map(|(line, _)| line).collect()
}

/// Wraps `spans` into lines of at most `columns`, at spaces where possible. `first` and `rest` are prefixes of the
/// first and of the other lines; they count towards the width.
pub(crate) fn wrap_joined(
    spans: &[Span<'_>],
    columns: usize,
    first: &Span<'static>,
    rest: &Span<'static>,
) -> Vec<(Line<'static>, Joint)> {
    let mut wrapper = Wrapper {
        columns: columns.max(1),
        lines: Vec::new(),
        joint: Joint::Hard,
        rest: rest.clone(),
        current: vec![first.clone()],
        used: width(&first.content),
        indent: width(&first.content),
        word: Vec::new(),
        word_width: 0,
    };
    for span in spans {
        wrapper.span(&span.content, span.style);
    }
    wrapper.finish()
}

struct Wrapper {
    columns: usize,
    lines: Vec<(Line<'static>, Joint)>,
    /// Relation of the current line to the line above.
    joint: Joint,
    rest: Span<'static>,
    current: Vec<Span<'static>>,
    used: usize,
    /// Columns of the current line that the prefix takes.
    indent: usize,
    word: Vec<Span<'static>>,
    word_width: usize,
}

impl Wrapper {
    fn span(&mut self, text: &str, style: Style) {
        for piece in text.split_word_bounds() {
            if piece.chars().all(char::is_whitespace) {
                self.flush_word();
                let room = self.columns.saturating_sub(self.used);
                if width(piece) > room {
                    // A space at the edge becomes the line break and is not carried over.
                    self.break_line(piece);
                } else {
                    push(&mut self.current, piece, style);
                    self.used += width(piece);
                }
            } else {
                push(&mut self.word, piece, style);
                self.word_width += width(piece);
            }
        }
    }

    fn flush_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let word_width = std::mem::take(&mut self.word_width);
        if self.used + word_width > self.columns && self.used > self.indent {
            self.break_line("");
        }
        if self.used + word_width <= self.columns {
            for span in word {
                push(&mut self.current, &span.content, span.style);
            }
            self.used += word_width;
            return;
        }
        for span in word {
            for grapheme in span.content.graphemes(true) {
                let w = width(grapheme);
                if self.used + w > self.columns && self.used > self.indent {
                    self.break_line("");
                }
                push(&mut self.current, grapheme, span.style);
                self.used += w;
            }
        }
    }

    fn break_line(&mut self, dropped: &str) {
        let line = std::mem::replace(&mut self.current, vec![self.rest.clone()]);
        let joint = std::mem::replace(&mut self.joint, Joint::Soft(dropped.to_owned()));
        self.lines.push((Line::from(trimmed(line)), joint));
        self.used = width(&self.rest.content);
        self.indent = self.used;
    }

    fn finish(mut self) -> Vec<(Line<'static>, Joint)> {
        self.flush_word();
        self.lines.push((Line::from(trimmed(self.current)), self.joint));
        self.lines
    }
}

/// Removes empty spans, because ratatui draws them, which takes time.
fn trimmed(spans: Vec<Span<'static>>) -> Vec<Span<'static>> {
    spans.into_iter().filter(|s| !s.content.is_empty()).collect()
}

fn push(spans: &mut Vec<Span<'static>>, text: &str, style: Style) {
    match spans.last_mut() {
        Some(last) if last.style == style => last.content.to_mut().push_str(text),
        _ => spans.push(Span::styled(text.to_owned(), style)),
    }
}

/// Formats an amount of money. Less than half a cent keeps two more digits.
pub(crate) fn dollars(usd: f64) -> String {
    if usd < 0.005 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// Formats a number as `148k`, `1.2M` or `950`.
pub fn thousands(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{}.{}k", n / 1_000, n % 1_000 / 100),
        10_000..1_000_000 => format!("{}k", n / 1_000),
        _ => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}

/// Formats a duration of milliseconds as `0.3 s`, `2.3 s`, `2 s`, `12 s` or `4 min 5 s`.
pub(crate) fn duration(millis: u64) -> String {
    match millis {
        1_000..10_000 if millis.is_multiple_of(1_000) => format!("{} s", millis / 1_000),
        0..10_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        10_000..60_000 => format!("{} s", millis / 1_000),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Returns the sign of the spinner for running work, `beat` seconds after the turn began. All rows take it from here, so
/// they turn together.
pub(crate) fn spinner(beat: u64) -> &'static str {
    const SIGNS: [&str; 4] = ["◐", "◓", "◑", "◒"];
    SIGNS[(beat % SIGNS.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(text: &str, columns: usize, first: &str, rest: &str) -> Vec<String> {
        wrap(
            &[Span::raw(text.to_owned())],
            columns,
            &Span::raw(first.to_owned()),
            &Span::raw(rest.to_owned()),
        )
        .iter()
        .map(ToString::to_string)
        .collect()
    }

    #[test]
    fn texts_that_differ_at_their_end_differ_when_they_are_cut() {
        let [session, always] = ["in this session", "always"]
            .map(|end| format!("Yes, and allow every edit of src/span.py {end}"));
        assert_eq!(fit_ends(&session, 36), "Yes, and allow ever… in this session");
        assert_eq!(fit_ends(&always, 36), "Yes, and allow every edit of… always");
        assert_eq!(fit_ends("No", 36), "No");
        for columns in 1..80 {
            let [a, b] = [&session, &always].map(|text| fit_ends(text, columns));
            assert!(width(&a) <= columns && width(&b) <= columns, "{columns}");
            assert!(columns < 16 || a != b, "{columns}: {a}");
        }
    }

    #[test]
    fn pieces_of_words_end_behind_spaces_and_are_the_whole_text() {
        assert_eq!(chunks_of_words("one two three", 8), ["one two ", "three"]);
        assert_eq!(chunks_of_words("one two three", 7), ["one two", " three"]);
        assert_eq!(chunks_of_words("    abcdefgh i", 8), ["    abcd", "efgh i"]);
        assert_eq!(chunks_of_words("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(chunks_of_words("", 4), [""]);
        assert_eq!(chunks("日本語", 1), ["日", "本", "語"]);
    }

    #[test]
    fn lines_break_at_spaces_and_graphemes_stay_whole() {
        assert_eq!(plain("one two three", 8, "", ""), ["one two ", "three"]);
        assert_eq!(plain("one two three", 9, "> ", "  "), ["> one two", "  three"]);
        assert_eq!(plain("abcdefghij", 4, "", ""), ["abcd", "efgh", "ij"]);
        assert_eq!(plain("日本語", 4, "", ""), ["日本", "語"]);
        assert_eq!(plain("👩‍👩‍👧x", 2, "", ""), ["👩‍👩‍👧", "x"]);
        assert_eq!(plain("", 4, "", ""), [""]);
    }

    #[test]
    fn what_is_invisible_is_shown() {
        assert_eq!(visible("a\tb\x1b[31m\u{202e}c"), "a   b␛[31m⟨U+202E⟩c");
        assert_eq!(visible("plain é 👍"), "plain é 👍");
        for (text, want) in [
            ("rm\u{3164}x", "rm⟨U+3164⟩x"),
            ("ls\u{FE0F} a", "ls⟨U+FE0F⟩ a"),
            ("a\u{E0100}b", "a⟨U+E0100⟩b"),
            ("a\u{200D}b\u{FFA0}", "a⟨U+200D⟩b⟨U+FFA0⟩"),
            ("\u{FE0F}x", "⟨U+FE0F⟩x"),
            ("\u{301}a e\u{301}", "◌\u{301}a e\u{301}"),
            ("a\u{1b}\u{301}", "a␛◌\u{301}"),
            ("é\u{FE00}", "é⟨U+FE00⟩"),
            (
                "❤\u{FE0F} 1\u{FE0F}\u{20E3} 葛\u{E0100} 👩\u{200D}💻",
                "❤\u{FE0F} 1\u{FE0F}\u{20E3} 葛\u{E0100} 👩\u{200D}💻",
            ),
        ] {
            assert_eq!(visible(text), want, "{text:?}");
        }
    }

    #[test]
    fn text_that_does_not_fit_ends_in_an_ellipsis() {
        assert_eq!(
            (fit("abcdef", 4), fit("abc", 3), fit("日本語", 4)),
            ("abc…".into(), "abc".into(), "日…".into())
        );
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn a_part_has_the_columns_of_whole_graphemes() {
        let text = "a 👩\u{200d}👧 ❤\u{fe0f} e\u{301}日x";
        let columns = |part: &str| {
            let from = text.find(part).unwrap();
            columns_of(text, from..from + part.len())
        };
        for (part, want) in [
            ("a", 0..1),
            ("👩\u{200d}👧", 2..4),
            ("👩", 2..4),
            ("👧", 2..4),
            ("👧 ❤", 2..7),
            ("❤", 5..7),
            ("❤\u{fe0f} e", 5..9),
            ("e", 8..9),
            ("日", 9..11),
            ("x", 11..12),
        ] {
            assert_eq!(columns(part), want, "{part}");
        }
        assert_eq!(columns_of("ab", 2..2), 2..2);
    }

    #[test]
    fn the_last_character_is_deleted_whole() {
        let mut text = "a❤\u{fe0f}👩\u{200d}👧e\u{301}".to_owned();
        for left in ["a❤\u{fe0f}👩\u{200d}👧", "a❤\u{fe0f}", "a", "", ""] {
            delete_back(&mut text);
            assert_eq!(text, left);
        }
    }

    /// Texts whose characters terminals, the C library and Unicode count differently.
    fn hard() -> impl Strategy<Value = String> {
        let pieces = [
            "a",
            "b ",
            " ",
            "日",
            "👍",
            "é",
            "e\u{301}",
            "\u{301}",
            "❤\u{fe0f}",
            "1\u{fe0f}\u{20e3}",
            "👩\u{200d}👩\u{200d}👧",
            "👍🏽",
            "🇩🇪",
            "🇩",
            "لا",
            "للا",
            "السلام ",
            "ｶﾞ",
            "ﾞ",
            "हिन्दी",
            "উত্তর ",
            "கொ",
            "ำ",
            "กำ",
            "မြန်",
            "한",
            "\u{1112}\u{1161}",
            "☺",
            "…",
            "\u{200d}",
            "\u{fe0f}",
            "\u{7f}",
            "\u{202e}",
            "\t",
            "ꓹꓼ",
        ];
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Whatever the text is, each row fits, and drawing a row draws all of it.
        #[test]
        fn no_row_is_cut(text in hard(), columns in 8usize..40, cut in 0usize..6) {
            let shown = visible(&text).into_owned();
            // The text may be in several spans, and a row may begin with a mark.
            let at = shown.grapheme_indices(true).nth(cut).map_or(shown.len(), |(at, _)| at);
            let (one, two) = shown.split_at(at);
            let spans = [Span::raw(one), Span::styled(two, Style::new().fg(ratatui::style::Color::Red))];
            let rows = wrap(&spans, columns, &Span::raw("> "), &Span::raw("  "));
            for row in rows {
                let area = ratatui::layout::Rect::new(0, 0, columns as u16, 1);
                let mut buffer = ratatui::buffer::Buffer::empty(area);
                buffer.set_line(0, 0, &row, columns as u16);
                let whole = row.to_string();
                prop_assert!(width(&whole) <= columns, "{whole:?}");
                let mut drawn = String::new();
                let mut covered = 0;
                for cell in &buffer.content {
                    if covered == 0 {
                        drawn.push_str(cell.symbol());
                        covered = width(cell.symbol());
                    }
                    covered = covered.saturating_sub(1);
                }
                prop_assert_eq!(drawn.trim_end(), whole.trim_end());
            }
            let fitted = fit(&shown, columns);
            prop_assert!(width(&fitted) <= columns);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_too_wide(text in "[a-z 日👍é\u{301}]{0,60}", columns in 2usize..20) {
            let lines = plain(&text, columns, "", "");
            prop_assert!(lines.iter().all(|l| width(l) <= columns));
            let squeeze = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(squeeze(&lines.concat()), squeeze(&text));
            let none = Span::raw("");
            let mut joined = String::new();
            for (line, joint) in wrap_joined(&[Span::raw(text.clone())], columns, &none, &none) {
                if let Joint::Soft(dropped) = joint {
                    joined.push_str(&dropped);
                }
                joined.push_str(&line.to_string());
            }
            prop_assert_eq!(joined, text);
        }

        #[test]
        fn no_control_character_survives(text in ".*") {
            prop_assert!(visible(&text).chars().all(|c| !c.is_control()));
            // Text that was not made visible is measured too, if only its room matters.
            let _ = width(&text);
        }

        #[test]
        fn a_control_character_is_as_wide_as_its_picture(text in "[a-z日👍\u{1}\u{7}\u{1b}\u{7f}]{0,20}") {
            prop_assert_eq!(width(&text), width(&visible(&text)));
        }
    }
}
