//! Where a growing text may be cut, so that what is before the cut never has to be laid out again.
//!
//! A text is a sequence of pieces. Where they end depends on the text before the end alone, never on how it came in: text laid
//! out as it grows gives the same lines as text laid out at once. A piece ends at an empty line outside of lists, quotes and
//! fences; a block longer than [`LONG`] ([`LONG_CODE`] for fences) is cut at a line, a longer line at a space, so that the cost
//! of a delta is bounded whatever the text is. What is cut in the middle goes on in the next piece: a fence with its opening
//! line, a table with its head.

use std::ops::Range;

/// Bytes of a block from which on it is cut where a line begins at the margin; four times that, at any line.
const LONG: usize = 4 * 1024;
/// The same within a fence.
const LONG_CODE: usize = 32 * 1024;
/// Bytes of a line from which on it is cut.
const LONG_LINE: usize = 8 * 1024;

/// A part of the text that nothing can change any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub range: Range<usize>,
    pub context: Context,
    /// Ends the piece where it was cut within a fence.
    pub close: String,
}

/// What a piece goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    /// Stands before the piece: the opening line of its fence, or the head of its table.
    pub lead: String,
    /// It is the middle of a block: no empty line before it.
    pub joined: bool,
}

#[derive(Debug)]
pub(super) struct Pieces {
    /// Where the current piece begins, and up to where lines have been read.
    from: usize,
    at: usize,
    context: Context,
    fence: Option<Fence>,
    table: Table,
    /// The block before an empty line may go on behind it.
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
    /// This line may be its head.
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
    /// The next piece of `text` that is whole; `None` until more text comes.
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

    /// The rest, which may still change, and what it goes on with.
    pub(super) fn rest(&self) -> (usize, &Context) {
        (self.from, &self.context)
    }

    /// Whether a piece ends before `line`.
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

/// The first line of `text`, its newline included, or as much of a longer one as makes a piece (`true`). `None` while neither
/// is there.
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

/// The line between the head of a table and its rows.
fn is_rule(line: &str) -> bool {
    line.contains('-') && line.trim().bytes().all(|b| matches!(b, b'|' | b'-' | b':' | b' '))
}

/// List items, quotes, indented code, HTML and definitions go on over empty lines.
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
