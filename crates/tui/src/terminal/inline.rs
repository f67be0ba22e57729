//! Inline mode, in the terminal's own scrollback: finished lines are printed, and the region that may still change is
//! redrawn in place below them.
//!
//! Uses rows relative to the start of the region, never absolute ones, because the rows above belong to the terminal.
//! Rows are written only up to the end of their text, so a terminal that wraps them again at another width has little
//! to wrap.
//!
//! Invariant: once the terminal has reported its cursor, the region reaches down to the last row of the screen. A terminal
//! that becomes narrower pushes as many rows into its scrollback as it wraps, even while rows below the region are blank.
//! With no blank rows there, these are printed rows or blank rows at the region's top, never rows that may change. So the
//! region never shrinks: it keeps blank rows at its top, and the next printed lines take their room.

use super::pen::Pen;
use super::write_line;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Size};
use ratatui::text::Line;
use std::io::{self, Write};

/// Erases the whole row, wherever in the row the cursor is.
const CLEAR_ROW: &[u8] = b"\x1b[2K";

#[derive(Debug, Default)]
/// The region of the screen that is redrawn in place.
pub(super) struct Inline {
    /// The region as the terminal shows it; `None` before the first frame.
    shown: Option<Buffer>,
    /// Row and column of the cursor, relative to the region.
    row: u16,
    column: u16,
    /// Blank rows between the region and the end of the screen.
    below: usize,
    /// Rows printed permanently since the region began.
    printed: usize,
}

impl Inline {
    /// Returns the rows of the region and the blank rows below it on a screen of this size. The next region and the lines
    /// printed above it take no fewer.
    pub(super) fn room(&self, screen: Size) -> usize {
        let taken: usize = self.taken(screen.width).iter().sum();
        (taken + self.below).min(usize::from(screen.height))
    }

    /// Records the row of the screen, counted from 0, in which the region began. The region may already be drawn.
    pub(super) fn begins_in(&mut self, row: u16, screen: Size) {
        let drawn = self.shown.as_ref().map_or(0, |shown| usize::from(shown.area.height));
        self.below = usize::from(screen.height).saturating_sub(usize::from(row) + self.printed + drawn);
    }

    /// Records the row of the cursor on a screen that was resized.
    pub(super) fn cursor_in(&mut self, row: u16, screen: Size) {
        let above = self.above(screen.width);
        let under = self.taken(screen.width).iter().sum::<usize>().saturating_sub(above + 1);
        self.below = usize::from(screen.height).saturating_sub(usize::from(row) + 1 + under);
    }

    /// Prints `lines` permanently and shows `next` below them.
    pub(super) fn paint(
        &mut self,
        lines: &[Line<'static>],
        next: &Buffer,
        screen: Size,
        cursor: Option<Position>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        out.extend_from_slice(b"\x1b[?2026h\x1b[?25l");
        match self.shown.take() {
            Some(shown) if lines.is_empty() && shown.area == next.area && self.below == 0 => {
                for (y, row) in rows(next).enumerate() {
                    if rows(&shown).nth(y) != Some(row) {
                        self.go(y as u16, out)?;
                        write_row(row, out)?;
                        out.extend_from_slice(b"\x1b[K");
                    }
                }
            }
            shown => {
                self.shown = shown;
                let before = self.begin(screen, out)?;
                for line in lines {
                    out.extend_from_slice(CLEAR_ROW);
                    write_line(out, line)?;
                }
                for (y, row) in rows(next).enumerate() {
                    if y > 0 {
                        out.extend_from_slice(b"\r\n");
                    }
                    out.extend_from_slice(CLEAR_ROW);
                    write_row(row, out)?;
                    self.row = y as u16;
                }
                self.printed += lines.len();
                clear_below(before.saturating_sub(lines.len() + usize::from(next.area.height)), out);
            }
        }
        // A hidden cursor waits in the first column, because a terminal that becomes narrower leaves it in its row
        // there.
        let at = cursor.unwrap_or(Position { x: 0, y: self.row });
        self.go(at.y, out)?;
        self.column = at.x;
        if at.x > 0 {
            write!(out, "\x1b[{}C", at.x)?;
        }
        if cursor.is_some() {
            out.extend_from_slice(b"\x1b[?25h");
        }
        out.extend_from_slice(b"\x1b[?2026l");
        self.shown = Some(next.clone());
        Ok(())
    }

    /// Erases the region. The cursor ends where the region began.
    pub(super) fn end(&mut self, screen: Size, out: &mut Vec<u8>) -> io::Result<()> {
        let before = self.begin(screen, out)?;
        if before > 0 {
            out.extend_from_slice(CLEAR_ROW);
            clear_below(before - 1, out);
        }
        self.printed = 0;
        out.extend_from_slice(b"\x1b[?25h");
        Ok(())
    }

    /// Moves to the region's first row and returns how many rows of the terminal the region takes, with the blank rows
    /// below it. Nothing is erased here, because some terminals move rows into their scrollback if they are erased from
    /// the first row on.
    fn begin(&mut self, screen: Size, out: &mut Vec<u8>) -> io::Result<usize> {
        let (room, above) = (self.room(screen), self.above(screen.width));
        out.push(b'\r');
        if above > 0 {
            write!(out, "\x1b[{above}A")?;
        }
        self.shown = None;
        (self.row, self.column, self.below) = (0, 0, 0);
        Ok(room)
    }

    /// Returns how many rows of the terminal each row of the region takes, because a narrower terminal wraps long rows.
    fn taken(&self, width: u16) -> Vec<usize> {
        let broken = |row| length(row).div_ceil(usize::from(width).max(1)).max(1);
        self.shown.iter().flat_map(rows).map(broken).collect()
    }

    /// Returns the number of rows of the terminal between the region's first row and the cursor.
    fn above(&self, width: u16) -> usize {
        let before: usize = self.taken(width).iter().take(usize::from(self.row)).sum();
        before + usize::from(self.column / width.max(1))
    }

    fn go(&mut self, row: u16, out: &mut Vec<u8>) -> io::Result<()> {
        out.push(b'\r');
        match row.cmp(&self.row) {
            std::cmp::Ordering::Less => write!(out, "\x1b[{}A", self.row - row)?,
            std::cmp::Ordering::Greater => write!(out, "\x1b[{}B", row - self.row)?,
            std::cmp::Ordering::Equal => {}
        }
        self.row = row;
        Ok(())
    }
}

/// Clears `count` rows below the cursor, which stays where it is.
fn clear_below(count: usize, out: &mut Vec<u8>) {
    if count == 0 {
        return;
    }
    out.extend_from_slice(b"\x1b7");
    for _ in 0..count {
        out.extend_from_slice(b"\x1b[B");
        out.extend_from_slice(CLEAR_ROW);
    }
    out.extend_from_slice(b"\x1b8");
}

fn rows(buffer: &Buffer) -> impl Iterator<Item = &[Cell]> {
    buffer.content.chunks(usize::from(buffer.area.width).max(1))
}

/// Returns the number of columns up to the last cell that is not blank.
fn length(row: &[Cell]) -> usize {
    let blank = |cell: &Cell| cell.symbol() == " " && Pen::from(cell) == Pen::default();
    row.iter().rposition(|cell| !blank(cell)).map_or(0, |last| last + 1)
}

fn write_row(row: &[Cell], out: &mut Vec<u8>) -> io::Result<()> {
    let mut pen = Pen::default();
    let mut covered = 0;
    for cell in &row[..length(row)] {
        if covered == 0 {
            pen.change(Pen::from(cell), out)?;
            out.extend_from_slice(cell.symbol().as_bytes());
            covered = crate::text::width(cell.symbol());
        }
        covered = covered.saturating_sub(1);
    }
    pen.change(Pen::default(), out)
}
