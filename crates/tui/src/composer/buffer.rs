//! The text being written: a string, a cursor between graphemes, undo, and chips.
//!
//! A chip is one character of a private use area that represents something longer: a large paste or an image. It is
//! moved and deleted as one character. Typed or pasted text never contains such a character, because `plain` replaces
//! it.
//!
//! Invariants: the cursor is on a grapheme boundary, and every change can be undone. Knows no keys and no terminal.

use std::ops::Range;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

/// Characters that represent chips: the n-th character is the n-th chip.
const CHIPS: std::ops::RangeInclusive<u32> = 0xF_0000..=0xF_FFFD;

/// Maximum number of changes that can be undone.
const UNDO: usize = 200;

/// The text with its cursor (a byte offset), its chips and its undo history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buffer {
    text: String,
    cursor: usize,
    chips: Vec<Chip>,
    undo: Vec<(String, usize)>,
    redo: Vec<(String, usize)>,
    /// The last change was a typed character. Another typed character joins the same undo step.
    typing: bool,
    /// Text that was cut last, for yanking.
    killed: String,
    killing: bool,
}

/// Content that one character of the buffer represents.
#[derive(Clone, Debug, PartialEq)]
pub enum Chip {
    Text(String),
    Image { media_type: String, bytes: Vec<u8> },
}

impl Chip {
    /// Returns the label that is shown instead of the content.
    pub fn label(&self) -> String {
        match self {
            Self::Text(text) => crate::transcript::pasted::label(text),
            Self::Image { .. } => "[image]".to_owned(),
        }
    }
}

/// A part of the text: plain text or a chip.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece<'a> {
    Text(&'a str),
    Chip(&'a Chip),
}

impl Buffer {
    /// Returns the text with one character for each chip.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the cursor as a byte offset.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// True if there is no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the whole text, with the cursor at its end. The change can be undone.
    pub fn set(&mut self, text: &str) {
        self.change();
        self.text = plain(text);
        self.cursor = self.text.len();
    }

    /// Empties the buffer and forgets its undo history. Cut text is kept.
    pub fn clear(&mut self) {
        let killed = std::mem::take(&mut self.killed);
        *self = Self { killed, ..Self::default() };
    }

    /// Returns the text with the content of its chips. Images are left out.
    pub fn expanded(&self) -> String {
        self.pieces()
            .map(|p| match p {
                Piece::Text(text) => text,
                Piece::Chip(Chip::Text(text)) => text.as_str(),
                Piece::Chip(Chip::Image { .. }) => "",
            })
            .collect()
    }

    /// Splits the text at its chips.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut rest = self.text.as_str();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let at = rest.find(is_chip).unwrap_or(rest.len());
            if at > 0 {
                let (text, behind) = rest.split_at(at);
                rest = behind;
                return Some(Piece::Text(text));
            }
            let c = rest.chars().next()?;
            rest = &rest[c.len_utf8()..];
            Some(self.chip(c).map_or(Piece::Text(""), Piece::Chip))
        })
    }

    /// Returns the chip that a character represents.
    pub fn chip(&self, c: char) -> Option<&Chip> {
        self.chips.get(u32::from(c).checked_sub(*CHIPS.start())? as usize)
    }

    /// Inserts text at the cursor.
    pub fn insert(&mut self, text: &str) {
        let typed = text.chars().count() == 1 && !text.starts_with(char::is_whitespace);
        if !(typed && self.typing) {
            self.change();
        }
        self.typing = typed;
        self.killing = false;
        let text = plain(text);
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
        self.settle();
    }

    /// Replaces `range` with `text` and puts the cursor after it. The change is one undo step.
    pub fn replace(&mut self, range: Range<usize>, text: &str) {
        self.change();
        self.killing = false;
        let text = plain(text);
        self.text.replace_range(range.clone(), &text);
        self.cursor = range.start + text.len();
        self.settle();
    }

    /// Inserts text that was cut from this buffer, with its chips, at `at`. The cursor is put after it.
    pub fn put_back(&mut self, at: usize, text: &str) {
        self.change();
        self.killing = false;
        self.text.insert_str(at, text);
        self.cursor = at + text.len();
        self.settle();
    }

    /// Inserts a chip at the cursor.
    pub(crate) fn insert_chip(&mut self, chip: Chip) {
        let Some(c) = char::from_u32(CHIPS.start() + self.chips.len() as u32).filter(|c| is_chip(*c)) else {
            return;
        };
        self.change();
        self.chips.push(chip);
        self.text.insert(self.cursor, c);
        self.cursor += c.len_utf8();
    }

    // Movement

    /// Moves one grapheme to the left.
    pub fn left(&mut self) {
        self.move_to(self.before(self.cursor));
    }

    /// Moves one grapheme to the right.
    pub fn right(&mut self) {
        self.move_to(self.after(self.cursor));
    }

    /// Moves to the start of the previous word.
    pub(crate) fn word_left(&mut self) {
        self.move_to(self.word_start(self.cursor));
    }

    /// Moves to the end of the next word.
    pub(crate) fn word_right(&mut self) {
        self.move_to(self.word_end(self.cursor));
    }

    /// Moves to the start of the line.
    pub fn line_start(&mut self) {
        self.move_to(self.start_of_line(self.cursor));
    }

    /// Moves to the end of the line.
    pub fn line_end(&mut self) {
        self.move_to(self.end_of_line(self.cursor));
    }

    /// Moves to the start of the text.
    pub fn start(&mut self) {
        self.move_to(0);
    }

    /// Moves to the end of the text.
    pub fn end(&mut self) {
        self.move_to(self.text.len());
    }

    /// Moves to the same column of the line above. Returns false on the first line.
    pub fn up(&mut self) -> bool {
        let start = self.start_of_line(self.cursor);
        if start == 0 {
            return false;
        }
        let column = self.text[start..self.cursor].graphemes(true).count();
        let above = self.start_of_line(start - 1);
        self.move_to(self.column(above, column));
        true
    }

    /// Moves to the same column of the line below. Returns false on the last line.
    pub(crate) fn down(&mut self) -> bool {
        let end = self.end_of_line(self.cursor);
        if end == self.text.len() {
            return false;
        }
        let start = self.start_of_line(self.cursor);
        let column = self.text[start..self.cursor].graphemes(true).count();
        self.move_to(self.column(end + 1, column));
        true
    }

    /// Moves to a byte offset.
    pub(crate) fn move_to(&mut self, to: usize) {
        self.cursor = to.min(self.text.len());
        self.typing = false;
        self.killing = false;
        self.settle();
    }

    // Deletion

    /// Deletes the grapheme before the cursor.
    pub(crate) fn delete_back(&mut self) {
        self.remove(self.before(self.cursor)..self.cursor);
    }

    /// Deletes the grapheme after the cursor.
    pub(crate) fn delete_forward(&mut self) {
        self.remove(self.cursor..self.after(self.cursor));
    }

    /// Deletes a range of bytes and puts the cursor at its start.
    pub fn remove(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.change();
        self.killing = false;
        self.text.replace_range(range.clone(), "");
        self.cursor = range.start;
        self.settle();
    }

    /// Cuts to the start of the word before the cursor.
    pub(crate) fn kill_word_back(&mut self) {
        self.kill(self.word_start(self.cursor)..self.cursor, true);
    }

    /// Cuts to the end of the word after the cursor.
    pub(crate) fn kill_word_forward(&mut self) {
        self.kill(self.cursor..self.word_end(self.cursor), false);
    }

    /// Cuts to the start of the line.
    pub(crate) fn kill_to_line_start(&mut self) {
        self.kill(self.start_of_line(self.cursor)..self.cursor, true);
    }

    /// Cuts to the end of the line. At the end of a line, cuts the line break.
    pub(crate) fn kill_to_line_end(&mut self) {
        let end = self.end_of_line(self.cursor);
        let end = if end == self.cursor { self.after(end) } else { end };
        self.kill(self.cursor..end, false);
    }

    fn kill(&mut self, range: Range<usize>, backward: bool) {
        if range.is_empty() {
            return;
        }
        let cut = self.text[range.clone()].to_owned();
        let joined = if !self.killing {
            cut
        } else if backward {
            cut + &self.killed
        } else {
            std::mem::take(&mut self.killed) + &cut
        };
        self.remove(range);
        self.killed = joined;
        self.killing = true;
    }

    /// Inserts the text that was cut last.
    pub(crate) fn yank(&mut self) {
        if !self.killed.is_empty() {
            self.change();
            let killed = self.killed.clone();
            self.text.insert_str(self.cursor, &killed);
            self.cursor += killed.len();
            self.settle();
        }
    }

    // Undo

    /// Undoes the last change.
    pub fn undo(&mut self) {
        if let Some(before) = self.undo.pop() {
            let now = (std::mem::replace(&mut self.text, before.0), self.cursor);
            self.redo.push(now);
            self.cursor = before.1;
            self.typing = false;
        }
    }

    /// Redoes the last undone change.
    pub fn redo(&mut self) {
        if let Some(after) = self.redo.pop() {
            let now = (std::mem::replace(&mut self.text, after.0), self.cursor);
            self.undo.push(now);
            self.cursor = after.1;
            self.typing = false;
        }
    }

    fn change(&mut self) {
        if self.undo.len() == UNDO {
            self.undo.remove(0);
        }
        self.undo.push((self.text.clone(), self.cursor));
        self.redo.clear();
        self.typing = false;
    }

    /// Moves the cursor to a grapheme boundary. A combining mark may have merged with the character before it.
    fn settle(&mut self) {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        if !cursor.is_boundary(&self.text, 0).unwrap_or(true) {
            self.cursor = self.after(self.cursor);
        }
    }

    // Borders

    fn before(&self, at: usize) -> usize {
        GraphemeCursor::new(at, self.text.len(), true)
            .prev_boundary(&self.text, 0)
            .ok()
            .flatten()
            .unwrap_or(0)
    }

    fn after(&self, at: usize) -> usize {
        GraphemeCursor::new(at, self.text.len(), true)
            .next_boundary(&self.text, 0)
            .ok()
            .flatten()
            .unwrap_or(self.text.len())
    }

    /// Returns the start of the word before `at`.
    pub(crate) fn word_start(&self, at: usize) -> usize {
        let words = self.text[..at].split_word_bound_indices().rev();
        words.into_iter().find(|(_, w)| is_word(w)).map_or(0, |(i, _)| i)
    }

    /// Returns the end of the word after `at`.
    pub(crate) fn word_end(&self, at: usize) -> usize {
        self.text[at..]
            .split_word_bound_indices()
            .find(|(_, w)| is_word(w))
            .map_or(self.text.len(), |(i, w)| at + i + w.len())
    }

    /// Returns the start of the line that contains `at`.
    pub(crate) fn start_of_line(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |i| i + 1)
    }

    /// Returns the end of the line that contains `at`, before its line break.
    pub(crate) fn end_of_line(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |i| at + i)
    }

    /// Returns the offset of a column in the line that starts at `start`.
    fn column(&self, start: usize, column: usize) -> usize {
        let line = &self.text[start..self.end_of_line(start)];
        line.grapheme_indices(true).nth(column).map_or(start + line.len(), |(i, _)| start + i)
    }
}

fn is_word(piece: &str) -> bool {
    piece.starts_with(|c: char| c.is_alphanumeric() || c == '_' || is_chip(c))
}

/// True if the character represents a chip.
pub(crate) fn is_chip(c: char) -> bool {
    CHIPS.contains(&u32::from(c))
}

/// Normalizes inserted text: line ends become `\n`, control characters except tab become pictures, and chip characters
/// are replaced.
fn plain(text: &str) -> String {
    let picture = |c: char| match c {
        '\n' | '\t' => c,
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('␀'),
        c if c.is_control() || is_chip(c) => '□',
        c => c,
    };
    text.replace("\r\n", "\n").replace('\r', "\n").chars().map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `|` marks the cursor in `before` and `after`.
    fn check(before: &str, act: impl FnOnce(&mut Buffer), after: &str) {
        let at = before.find('|').unwrap();
        let mut buffer = Buffer { text: before.replace('|', ""), cursor: at, ..Buffer::default() };
        act(&mut buffer);
        let mut text = buffer.text.clone();
        text.insert(buffer.cursor, '|');
        assert_eq!(text, after);
    }

    #[test]
    fn moves_and_deletes_by_grapheme_word_and_line() {
        check("a👩‍👩‍👧|b", Buffer::left, "a|👩‍👩‍👧b");
        check("ae\u{301}|b", Buffer::delete_back, "a|b");
        check("one two|", Buffer::word_left, "one |two");
        check("|one two", Buffer::word_right, "one| two");
        check("one two|", Buffer::kill_word_back, "one |");
        check("ab\ncd|ef", Buffer::kill_to_line_start, "ab\n|ef");
        check("ab|\ncd", Buffer::kill_to_line_end, "ab|cd");
        check("abc\nd|", |b| assert!(b.up()), "a|bc\nd");
        check("abc|\nd", |b| assert!(b.down()), "abc\nd|");
        check("a|bc", |b| assert!(!b.up()), "a|bc");
    }

    #[test]
    fn kills_join_and_come_back() {
        check(
            "one two three|",
            |b| {
                b.kill_word_back();
                b.kill_word_back();
                b.start();
                b.yank();
            },
            "two three|one ",
        );
    }

    #[test]
    fn typing_is_undone_as_one() {
        check(
            "|",
            |b| {
                for c in ["a", "b", " ", "c"] {
                    b.insert(c);
                }
                b.undo();
                b.undo();
            },
            "ab|",
        );
        check(
            "|",
            |b| {
                b.insert("a");
                b.undo();
                b.redo();
            },
            "a|",
        );
    }

    #[test]
    fn a_chip_is_one_character() {
        let mut buffer = Buffer::default();
        buffer.insert("see ");
        buffer.insert_chip(Chip::Text("1\n2\n3".into()));
        assert_eq!(buffer.expanded(), "see 1\n2\n3");
        assert_eq!(Chip::Text("1\n2\n3".into()).label(), "[pasted 3 lines]");
        buffer.delete_back();
        assert_eq!(buffer.expanded(), "see ");
        buffer.undo();
        assert_eq!(buffer.expanded(), "see 1\n2\n3");
        buffer.insert("\u{F0000}");
        assert!(buffer.expanded().ends_with('□'));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]
        #[test]
        fn the_cursor_is_never_inside_a_grapheme(
            text in "[ab \n👩\u{200d}👧e\u{301}🇩🇪क्ष日]{0,20}",
            steps in proptest::collection::vec(0u8..14, 0..30),
        ) {
            let mut b = Buffer::default();
            b.insert(&text);
            for step in steps {
                match step {
                    0 => b.left(), 1 => b.right(), 2 => b.word_left(), 3 => b.word_right(), 4 => b.delete_back(),
                    5 => b.delete_forward(), 6 => b.insert("\u{301}"), 7 => b.insert("x"), 8 => b.kill_word_back(),
                    9 => b.yank(), 10 => b.undo(), 11 => b.redo(), 12 => { b.up(); }, _ => { b.down(); }
                }
                let at = b.cursor();
                prop_assert!(at <= b.text().len() && b.text().is_char_boundary(at));
                prop_assert!(b.text().grapheme_indices(true).any(|(i, _)| i == at) || at == b.text().len());
            }
        }
    }
}
