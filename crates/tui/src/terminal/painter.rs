//! Computes the bytes that turn one screen into the next, as few as possible.
//!
//! Keeps a copy of what the terminal shows. Text that only moved up or down is moved by the terminal itself, within
//! scroll margins, so that a new line costs one line and not a whole screen. The ends of lines are erased instead of
//! overwritten. A frame is one synchronized update, and an unchanged frame writes nothing. The screen is cleared
//! only when its size changed. Images that the terminal does not treat as text are drawn over blanks (`pictures`). Rows
//! with a piece of such an image are never moved.

use super::pen::Pen;
use super::pictures::Pictures;
use crate::text;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect};
use std::io::{self, Write};
use std::time::Instant;
use unicode_width::UnicodeWidthStr as _;

/// Cost in bytes of moving text. A move must save more than that.
const MOVE_COST: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Painter {
    /// Screen content; `None` if it is unknown.
    shown: Option<Buffer>,
    cursor: Cursor,
    pub(super) pictures: Pictures,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cursor {
    #[default]
    Unknown,
    Hidden,
    At(Position),
}

impl Painter {
    /// Forgets the screen, because it was cleared or used by others. The next frame clears it and draws everything.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Writes the bytes that make the terminal show `next`, with the cursor in its place.
    pub(super) fn paint(
        &mut self,
        next: &Buffer,
        cursor: Option<Position>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let begin = out.len();
        out.extend_from_slice(b"\x1b[?2026h");
        let marked = out.len();
        let pictures = &mut self.pictures;
        let mut writer = Writer { out, next, pen: Pen::default(), at: None };
        let mut shown = match self.shown.take() {
            Some(shown) if shown.area == next.area => shown,
            _ => {
                writer.out.extend_from_slice(b"\x1b[?25l\x1b[m\x1b[2J");
                self.cursor = Cursor::Hidden;
                pictures.erased();
                Buffer::empty(next.area)
            }
        };
        if let Some(shift) = Shift::find(&shown, next, pictures) {
            writer.hide(&mut self.cursor);
            shift.write(writer.out)?;
            shift.apply(&mut shown);
        }
        let mut updates = shown.diff_iter(next).peekable();
        if updates.peek().is_some() {
            writer.hide(&mut self.cursor);
        }
        let mut erased = None;
        while let Some((x, y, cell)) = updates.next() {
            if erased == Some(y) {
                continue;
            }
            let cells = row(next, y - next.area.y);
            let from = disputed(cells).into_iter().chain(disputed(row(&shown, y - next.area.y))).min();
            if let Some(from) = from
                && usize::from(x - next.area.x) >= from
                && !cells.iter().any(|cell| pictures.has(cell))
            {
                writer.rest(next.area.x + from as u16, y, &cells[from..])?;
                erased = Some(y);
                continue;
            }
            if is_blank(cell) && updates.peek().is_some_and(|(nx, ny, _)| (*nx, *ny) == (x + 1, y)) {
                // Only blanks follow in this row: one erasure is shorter than many spaces.
                let row = row(next, y - next.area.y);
                if row[usize::from(x - next.area.x)..].iter().all(is_blank) {
                    writer.go(x, y)?;
                    writer.pen.change(Pen::default(), writer.out)?;
                    writer.out.extend_from_slice(b"\x1b[K");
                    erased = Some(y);
                    continue;
                }
            }
            if pictures.has(cell) {
                pictures.touch(cell);
                writer.cell(x, y, &Cell::EMPTY)?;
            } else {
                writer.cell(x, y, cell)?;
            }
        }
        drop(updates);
        writer.pen.change(Pen::default(), writer.out)?;
        let mut drawn = Vec::new();
        pictures.paint(next, Instant::now(), &mut drawn)?;
        if !drawn.is_empty() {
            writer.hide(&mut self.cursor);
            writer.out.extend_from_slice(&drawn);
        }
        self.place(cursor, out)?;
        if out.len() == marked {
            out.truncate(begin);
        } else {
            out.extend_from_slice(b"\x1b[?2026l");
        }
        shown.clone_from(next);
        self.shown = Some(shown);
        Ok(())
    }

    fn place(&mut self, cursor: Option<Position>, out: &mut Vec<u8>) -> io::Result<()> {
        let wanted = cursor.map_or(Cursor::Hidden, Cursor::At);
        if self.cursor == wanted {
            return Ok(());
        }
        match wanted {
            Cursor::At(at) => {
                write!(out, "\x1b[{};{}H", at.y + 1, at.x + 1)?;
                if !matches!(self.cursor, Cursor::At(_)) {
                    out.extend_from_slice(b"\x1b[?25h");
                }
            }
            _ => out.extend_from_slice(b"\x1b[?25l"),
        }
        self.cursor = wanted;
        Ok(())
    }
}

fn is_blank(cell: &Cell) -> bool {
    cell.symbol() == " " && Pen::from(cell) == Pen::default()
}

/// Returns the cells of a row, counted from the top of the buffer.
fn row(buffer: &Buffer, y: u16) -> &[Cell] {
    let width = usize::from(buffer.area.width);
    let from = usize::from(y) * width;
    buffer.content.get(from..from + width).unwrap_or_default()
}

/// Returns the index of the first cell of a row about whose width terminals disagree.
fn disputed(row: &[Cell]) -> Option<usize> {
    row.iter().position(|cell| text::is_disputed(cell.symbol()))
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    next: &'a Buffer,
    pen: Pen,
    /// Position at which the terminal writes next; `None` if it is not certain.
    at: Option<(u16, u16)>,
}

impl Writer<'_> {
    fn hide(&mut self, cursor: &mut Cursor) {
        if matches!(cursor, Cursor::At(_)) || *cursor == Cursor::Unknown {
            self.out.extend_from_slice(b"\x1b[?25l");
            *cursor = Cursor::Hidden;
        }
    }

    fn go(&mut self, x: u16, y: u16) -> io::Result<()> {
        match self.at {
            Some(at) if at == (x, y) => {}
            Some((from, row)) if row == y && from < x => match x - from {
                n if n < 4 && self.between(from, x, y) => {}
                1 => self.out.extend_from_slice(b"\x1b[C"),
                n => write!(self.out, "\x1b[{n}C")?,
            },
            _ => write!(self.out, "\x1b[{};{}H", y + 1, x + 1)?,
        }
        self.at = Some((x, y));
        Ok(())
    }

    /// Writes the unchanged cells between two positions again, if that is shorter than moving the cursor over them.
    fn between(&mut self, from: u16, to: u16, y: u16) -> bool {
        let Rect { x: left, y: top, .. } = self.next.area;
        let cells = row(self.next, y - top).get(usize::from(from - left)..usize::from(to - left));
        let cells = cells.unwrap_or_default();
        let plain = cells.iter().all(|cell| cell.symbol().len() == 1 && Pen::from(cell) == self.pen);
        if plain {
            self.out.extend(cells.iter().flat_map(|cell| cell.symbol().bytes()));
        }
        plain
    }

    /// Writes the rest of a row in one piece. Placing the cursor between its clusters would overwrite vowel signs that the
    /// terminal gave a column. Text that becomes too long there is cut at the edge and does not wrap.
    fn rest(&mut self, x: u16, y: u16, cells: &[Cell]) -> io::Result<()> {
        self.go(x, y)?;
        let length = cells.iter().rposition(|cell| !is_blank(cell)).map_or(0, |last| last + 1);
        self.out.extend_from_slice(b"\x1b[?7l");
        let mut covered = 0;
        for cell in &cells[..length] {
            if covered == 0 {
                self.pen.change(Pen::from(cell), self.out)?;
                self.out.extend_from_slice(cell.symbol().as_bytes());
                covered = cell.symbol().width();
            }
            covered = covered.saturating_sub(1);
        }
        if length < cells.len() {
            self.pen.change(Pen::default(), self.out)?;
            self.out.extend_from_slice(b"\x1b[K");
        }
        self.out.extend_from_slice(b"\x1b[?7h");
        self.at = None;
        Ok(())
    }

    fn cell(&mut self, x: u16, y: u16, cell: &Cell) -> io::Result<()> {
        self.go(x, y)?;
        self.pen.change(Pen::from(cell), self.out)?;
        let symbol = cell.symbol();
        self.out.extend_from_slice(symbol.as_bytes());
        let mut chars = symbol.chars();
        let certain = chars.next().is_some_and(is_certain) && chars.next().is_none();
        self.at = certain.then(|| (x.saturating_add(symbol.width() as u16), y));
        Ok(())
    }
}

/// True if all terminals agree on the character's width. They disagree on emoji, clusters, and private or new
/// characters.
fn is_certain(c: char) -> bool {
    matches!(c, ' '..='\u{2ff}' | '\u{370}'..='\u{52f}' | '\u{2010}'..='\u{2027}' | '\u{2190}'..='\u{2193}'
        | '\u{2400}'..='\u{2421}' | '\u{2500}'..='\u{259f}' | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}'
        | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Moves rows `top..bottom` by `lines`; up if positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shift {
    top: u16,
    bottom: u16,
    lines: i32,
}

impl Shift {
    /// Returns the move that saves the most bytes, if any does.
    fn find(shown: &Buffer, next: &Buffer, pictures: &Pictures) -> Option<Self> {
        let height = next.area.height;
        let differs = |y: &u16| row(shown, *y) != row(next, *y);
        let first = (0..height).find(differs)?;
        let last = (first..height).rev().find(differs)?;
        if last - first < 2 {
            return None;
        }
        let digests = |buffer| (0..height).map(|y| digest(row(buffer, y))).collect::<Vec<u64>>();
        let (before, after) = (digests(shown), digests(next));
        let mut best: Option<(usize, Self)> = None;
        let reach = i32::from(last - first);
        for lines in (-reach..=reach).filter(|n| *n != 0) {
            let from = |y: i32| usize::try_from(y + lines).ok().filter(|f| *f < before.len());
            let mut y = i32::from(first);
            while y <= i32::from(last) {
                let start = y;
                let mut saved = 0;
                while y <= i32::from(last)
                    && let Some(source) = from(y)
                    && before[source] == after[y as usize]
                {
                    if before[y as usize] != after[y as usize] {
                        saved += weight(row(next, y as u16));
                    }
                    y += 1;
                }
                if y > start && saved > MOVE_COST + best.map_or(0, |(most, _)| most) {
                    let (a, b) = (start.min(start + lines), y.max(y + lines));
                    best = Some((saved - MOVE_COST, Self { top: a as u16, bottom: b as u16, lines }));
                }
                y = y.max(start + 1);
            }
        }
        let (_, found) = best?;
        let drawn = |buffer: &Buffer| {
            (found.top..found.bottom).any(|y| row(buffer, y).iter().any(|cell| pictures.has(cell)))
        };
        (!drawn(shown) && !drawn(next)).then_some(found)
    }

    /// Moves by line feeds at the bottom margin and reverse line feeds at the top, which every terminal supports.
    fn write(self, out: &mut Vec<u8>) -> io::Result<()> {
        write!(out, "\x1b[{};{}r", self.top + 1, self.bottom)?;
        let count = self.lines.unsigned_abs() as usize;
        if self.lines > 0 {
            write!(out, "\x1b[{};1H", self.bottom)?;
            out.extend(std::iter::repeat_n(b'\n', count));
        } else {
            write!(out, "\x1b[{};1H", self.top + 1)?;
            out.extend_from_slice(&b"\x1bM".repeat(count));
        }
        out.extend_from_slice(b"\x1b[r");
        Ok(())
    }

    fn apply(self, shown: &mut Buffer) {
        let width = usize::from(shown.area.width);
        let (top, bottom) = (usize::from(self.top) * width, usize::from(self.bottom) * width);
        let Some(region) = shown.content.get_mut(top..bottom) else { return };
        let cells = (self.lines.unsigned_abs() as usize * width).min(region.len());
        if self.lines > 0 {
            region.rotate_left(cells);
            let kept = region.len() - cells;
            region[kept..].fill(Cell::default());
        } else {
            region.rotate_right(cells);
            region[..cells].fill(Cell::default());
        }
    }
}

/// Returns a hash of a row's text without its colours. Cells with wrong colours are overwritten after a move.
fn digest(row: &[Cell]) -> u64 {
    row.iter()
        .flat_map(|cell| cell.symbol().bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the approximate cost of a row in bytes.
fn weight(row: &[Cell]) -> usize {
    row.iter().filter(|cell| !is_blank(cell)).map(|cell| cell.symbol().len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;

    fn buffer(lines: &[&str]) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, lines.len() as u16));
        for (y, line) in lines.iter().enumerate() {
            buffer.set_string(0, y as u16, line, Style::new());
        }
        buffer
    }

    fn frames(frames: &[Buffer]) -> Vec<String> {
        let mut painter = Painter::default();
        frames
            .iter()
            .map(|frame| {
                let mut out = Vec::new();
                painter.paint(frame, None, &mut out).unwrap();
                String::from_utf8(out).unwrap()
            })
            .collect()
    }

    #[test]
    fn what_did_not_change_costs_nothing() {
        let same = buffer(&["one", "two"]);
        let written = frames(&[same.clone(), same]);
        assert_eq!(written, ["\x1b[?2026h\x1b[?25l\x1b[m\x1b[2J\x1b[1;1Hone\x1b[2;1Htwo\x1b[?2026l", ""]);
    }

    #[test]
    fn lines_that_moved_are_moved_by_the_terminal() {
        let text = [
            "a line of some length",
            "another line, as long",
            "a third, longer than that",
            "the fourth of them",
        ];
        let later = [text[1], text[2], text[3], "and a new one"];
        let with_status = |lines: &[&str]| buffer(&[lines, &["the status line"]].concat());
        let up = frames(&[with_status(&text), with_status(&later)]);
        assert_eq!(up[1], "\x1b[?2026h\x1b[1;4r\x1b[4;1H\n\x1b[r\x1b[4;1Hand a new one\x1b[?2026l");
        let down = frames(&[with_status(&later), with_status(&text)]);
        assert_eq!(
            down[1],
            "\x1b[?2026h\x1b[1;4r\x1b[1;1H\x1bM\x1b[r\x1b[1;1Ha line of some length\x1b[?2026l"
        );
    }

    #[test]
    fn vowel_signs_are_never_overwritten_by_the_next_letter() {
        let (first, second) = ("উত্তর দাও বাংলা |", "উত্তর দাও বাংলা, নমস্কার |");
        let written = frames(&[buffer(&[first]), buffer(&[second]), buffer(&["plain"])]);
        assert!(written[0].contains(&format!("{}\x1b[K\x1b[?7h", &first["উ".len()..])), "{:?}", written[0]);
        assert!(written[1].contains(&format!("{}\x1b[K\x1b[?7h", &second["উ".len()..])), "{:?}", written[1]);
        // The old row may reach further than becket knows, so it is erased to its end.
        assert!(written[2].ends_with("lain\x1b[K\x1b[?7h\x1b[?2026l"), "{:?}", written[2]);
        for script in ["हिन्दी में", "தமிழ் கொடு", "မြန်မာ", "ភាសាខ្មែរ", "తెలుగు"]
        {
            let written = frames(&[buffer(&[script])]);
            let first = script.char_indices().nth(1).map_or(0, |(at, _)| at);
            assert!(written[0].contains(&script[first..]), "{:?}", written[0]);
        }
    }

    #[test]
    fn the_end_of_a_line_is_erased() {
        let written = frames(&[buffer(&["a long line of text"]), buffer(&["a"])]);
        assert_eq!(written[1], "\x1b[?2026h\x1b[1;3H\x1b[K\x1b[?2026l");
    }
}
