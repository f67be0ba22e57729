//! Widths of text in columns of the terminal, and the graphemes that it consists of.
//!
//! Owns [`width`] and the cases about which terminals disagree ([`most`], [`is_disputed`]). A grapheme is never divided. Does not
//! cut, wrap or draw.

use ratatui::buffer::CellWidth as _;
use ratatui::text::Line;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthChar as _;

/// Returns the width of `text` in columns: the sum of its characters, as they are drawn one after the other. The width of a text as a
/// whole is smaller in some scripts: Arabic letters that join into one count less there, and each still gets its own cell. A control
/// character counts as its picture, which is drawn in its place (see [`visible`](super::visible)).
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    // The toolkit refuses a control character beside others: its lines have none.
    let columns = |grapheme: &str| if grapheme.len() == 1 { 1 } else { usize::from(grapheme.cell_width()) };
    text.graphemes(true).map(columns).sum()
}

/// Returns the width of a line in columns.
pub(crate) fn line_width(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| width(&span.content)).sum()
}

/// Returns the most columns that a terminal takes for one grapheme. Terminals disagree about graphemes of several characters: some draw
/// each emoji of a joined one, each half of a flag, or a column for each vowel sign of an Indian script.
pub(crate) fn most(grapheme: &str) -> usize {
    let mut chars = grapheme.chars();
    let is_alone = chars.next().is_none() || chars.next().is_none();
    if is_alone {
        return width(grapheme);
    }
    let alone = |c: char| match c {
        '\u{1F1E6}'..='\u{1F1FF}' => 2,
        c if is_spacing_sign(c) => 1,
        c => c.width().unwrap_or_default(),
    };
    width(grapheme).max(grapheme.chars().map(alone).sum())
}

/// True for a cluster of a script whose vowel signs are one column wide for the C library and tmux, and have no width by the newest rules of
/// Unicode. Placing the cursor after it would overwrite vowel signs on some terminals, so such text is written in one piece.
pub(crate) fn is_disputed(grapheme: &str) -> bool {
    let mut chars = grapheme.chars();
    let base = chars.next();
    base.is_some_and(|c| {
        matches!(c, '\u{900}'..='\u{dff}' | '\u{f00}'..='\u{109f}' | '\u{1700}'..='\u{17ff}' | '\u{1900}'..='\u{1cff}'
            | '\u{a800}'..='\u{abff}' | '\u{11000}'..='\u{11fff}')
    }) && chars.next().is_some()
}

/// Vowel signs that have a column of their own for the C library, and none by the rules for graphemes.
fn is_spacing_sign(c: char) -> bool {
    matches!(
        c,
        '\u{09BE}'
            | '\u{09D7}'
            | '\u{0B3E}'
            | '\u{0B57}'
            | '\u{0BBE}'
            | '\u{0BD7}'
            | '\u{0CC0}'
            | '\u{0CC2}'
            | '\u{0CC7}'
            | '\u{0CC8}'
            | '\u{0CCA}'
            | '\u{0CCB}'
            | '\u{0CD5}'
            | '\u{0CD6}'
            | '\u{0D3E}'
            | '\u{0D57}'
            | '\u{0DCF}'
            | '\u{0DDF}'
            | '\u{1715}'
            | '\u{1734}'
            | '\u{1B35}'
            | '\u{1B3B}'
            | '\u{1B3D}'
            | '\u{1B43}'
            | '\u{1B44}'
            | '\u{1BAA}'
            | '\u{1BF2}'
            | '\u{1BF3}'
            | '\u{302E}'
            | '\u{302F}'
            | '\u{A953}'
            | '\u{A9C0}'
            | '\u{111C0}'
            | '\u{11235}'
            | '\u{1133E}'
            | '\u{1134D}'
            | '\u{11357}'
            | '\u{114B0}'
            | '\u{114BD}'
            | '\u{115AF}'
            | '\u{116B6}'
            | '\u{11930}'
            | '\u{1193D}'
    )
}

/// Returns the columns of a part of `text`, in whole graphemes: if the part begins or ends inside an emoji, all of the emoji counts.
pub(crate) fn columns_of(text: &str, part: Range<usize>) -> Range<usize> {
    let (mut at, mut columns) = (0, None);
    for (from, grapheme) in text.grapheme_indices(true) {
        let to = from + grapheme.len();
        let after = at + width(grapheme);
        if to > part.start && (from < part.end || from == part.start) {
            columns = Some(columns.map_or(at, |range: Range<usize>| range.start)..after);
        }
        at = after;
    }
    columns.unwrap_or(at..at)
}

/// Removes the last character of a text that is typed: an emoji or a letter with its marks is one.
pub(crate) fn delete_back(text: &mut String) {
    let last = text.grapheme_indices(true).next_back().map_or(0, |(at, _)| at);
    text.truncate(last);
}
