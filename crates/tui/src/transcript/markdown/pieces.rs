//! Splits a growing text into pieces, so that complete pieces never have to be laid out again.
//!
//! The end of a piece depends only on the text before it, never on how the text arrived: text laid out as it grows
//! gives the same lines as text laid out at once. A piece ends at an empty line outside of lists, quotes and fences. A
//! block longer than [`LONG`] ([`LONG_CODE`] for fences) is cut at a line, and a longer line at a space, so that the
//! cost of a delta is bounded for any text. A block that was cut continues in the next piece: a fence with its opening
//! line, a table with its head.

use std::ops::Range;

/// Blocks longer than this many bytes are cut where a line begins at the margin; from four times this size on, at any
/// line.
const LONG: usize = 4 * 1024;
/// Code longer than this many bytes is cut within its fence.
const LONG_CODE: usize = 32 * 1024;
/// Lines longer than this many bytes are cut.
const LONG_LINE: usize = 8 * 1024;

/// A part of the text that can no longer change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub range: Range<usize>,
    pub context: Context,
    /// Closes the fence at the end of a piece that was cut within it.
    pub close: String,
}

/// State that a piece inherits from the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    /// Text placed before the piece: the opening line of its fence, or the head of its table.
    pub lead: String,
    /// The piece continues a block, so no empty line precedes it.
    pub joined: bool,
}

#[derive(Debug)]
pub(super) struct Pieces {
    /// Start of the current piece, and end of the lines that have been read.
    from: usize,
    at: usize,
    context: Context,
    fence: Option<Fence>,
    table: Table,
    /// The block before an empty line may continue after it.
    sticky: bool,
    blank: bool,
}

#[derive(Debug)]
struct Fence {
    mark: char,
    length: usize,
    opening: String,
}

#[derive(Debug)]
enum Table {
    None,
    /// The previous line may be the head of a table.
    Head(String),
    Open(String),
}

impl Default for Pieces {
    fn default() -> Self {
        Self {
            from: 0,
            at: 0,
            context: Context::default(),
            fence: None,
            table: Table::None,
            sticky: false,
            blank: true,
        }
    }
}

impl Pieces {
    /// Returns the next complete piece of `text`, `None` until more text comes.
    pub(super) fn next(&mut self, text: &str) -> Option<Piece> {
        while let Some((line, cut)) = line(&text[self.at..]) {
            let border = self.border(line, self.at);
            if border.is_some() {
                return border;
            }
            self.at += line.len();
            self.read(line);
            if cut {
                return Some(self.end(self.at, true));
            }
        }
        None
    }

    /// Returns the start of the rest, which may still change, and the state that it inherits.
    pub(super) fn rest(&self) -> (usize, &Context) {
        (self.from, &self.context)
    }

    /// True if the line that is not complete yet belongs to a block of code.
    pub(super) fn is_in_fence(&self) -> bool {
        self.fence.is_some()
    }

    /// Returns the start of the line that is not complete yet.
    pub(super) fn open_line(&self) -> usize {
        self.at
    }

    /// Returns the piece that ends before `line`, if one does.
    fn border(&mut self, line: &str, start: usize) -> Option<Piece> {
        let long = start - self.from;
        if let Some(fence) = &self.fence {
            let whole = closes(line.trim_start_matches(' '), fence.mark, fence.length);
            return (long > LONG_CODE && !whole).then(|| self.end(start, true));
        }
        if line.trim().is_empty() || start == self.from {
            return None;
        }
        let margin = !line.starts_with([' ', '\t']);
        if self.blank && !(self.sticky && (is_sticky(line) || !margin)) {
            return Some(self.end(start, false));
        }
        (long > 4 * LONG || long > LONG && margin).then(|| self.end(start, !self.blank))
    }

    fn end(&mut self, at: usize, joined: bool) -> Piece {
        let range = self.from..at;
        self.from = at;
        let mut close = String::new();
        let lead = match (&self.fence, &self.table) {
            (Some(fence), _) => {
                close = format!("\n{}\n", fence.mark.to_string().repeat(fence.length));
                fence.opening.clone()
            }
            (None, Table::Open(head)) if joined => head.clone(),
            _ => String::new(),
        };
        if !joined {
            self.sticky = false;
        }
        let context = std::mem::replace(&mut self.context, Context { lead, joined });
        Piece { range, context, close }
    }

    fn read(&mut self, line: &str) {
        let trimmed = line.trim_start_matches(' ');
        if let Some(fence) = &self.fence {
            if closes(trimmed, fence.mark, fence.length) {
                self.fence = None;
            }
            self.blank = false;
            return;
        }
        self.blank = line.trim().is_empty();
        if self.blank {
            self.table = Table::None;
            return;
        }
        self.fence = opens(trimmed).map(|(mark, length)| Fence {
            mark,
            length,
            opening: format!("{}\n", trimmed.trim_end()),
        });
        self.sticky |= is_sticky(line);
        self.table = match std::mem::replace(&mut self.table, Table::None) {
            Table::Open(head) => Table::Open(head),
            Table::Head(head) if is_rule(line) => Table::Open(head + line),
            _ if line.contains('|') && line.ends_with('\n') => Table::Head(line.to_owned()),
            _ => Table::None,
        };
    }
}

/// Returns the first line of `text` with its newline, or the start of a line that is too long for one piece (`true`).
/// Returns `None` while neither is complete.
fn line(text: &str) -> Option<(&str, bool)> {
    let window = &text.as_bytes()[..text.len().min(LONG_LINE)];
    if let Some(newline) = window.iter().position(|b| *b == b'\n') {
        return Some((&text[..=newline], false));
    }
    if text.len() <= LONG_LINE {
        return None;
    }
    let most = text.floor_char_boundary(LONG_LINE);
    let cut = text[..most].rfind(' ').filter(|space| *space > most / 2).map_or(most, |space| space + 1);
    Some((&text[..cut], true))
}

/// True for the line between the head of a table and its rows.
fn is_rule(line: &str) -> bool {
    line.contains('-') && line.trim().bytes().all(|b| matches!(b, b'|' | b'-' | b':' | b' '))
}

/// True if the block may continue after an empty line: list items, quotes, indented code, HTML and definitions.
fn is_sticky(line: &str) -> bool {
    let trimmed = line.trim_start();
    line.starts_with("    ")
        || line.starts_with('\t')
        || trimmed.starts_with(['-', '*', '+', '>', '<', '['])
        || trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['.', ')'])
            && trimmed.starts_with(|c: char| c.is_ascii_digit())
}

fn opens(trimmed: &str) -> Option<(char, usize)> {
    let mark = trimmed.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = trimmed.chars().take_while(|c| *c == mark).count();
    let info = &trimmed[length..];
    (length >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, length))
}

fn closes(trimmed: &str, mark: char, length: usize) -> bool {
    let have = trimmed.chars().take_while(|c| *c == mark).count();
    have >= length && trimmed[have..].trim().is_empty()
}
