//! Frames without a terminal: drawn by the panes, returned as cells or as the bytes that show them on a terminal.

use super::inline::Inline;
use super::painter::Painter;
use crate::graphics::Scaled;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::{Buffer, Cell as Glyph};
use ratatui::layout::{Position, Size};
use ratatui::text::Line;
use ratatui::{Frame, Terminal};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Draws frames and remembers what the terminal shows.
pub struct Surface {
    terminal: Terminal<Canvas>,
    size: Rc<Cell<Size>>,
    cursor: Rc<Cell<Option<Position>>>,
    painter: Painter,
    inline: Inline,
}

impl Surface {
    /// Creates a surface for frames of `size` cells.
    ///
    /// # Errors
    ///
    /// Fails if the backend of ratatui cannot be created.
    pub fn new(size: Size) -> io::Result<Self> {
        let size = Rc::new(Cell::new(size));
        let cursor = Rc::default();
        let canvas = Canvas { size: Rc::clone(&size), cursor: Rc::clone(&cursor) };
        Ok(Self {
            terminal: Terminal::new(canvas)?,
            size,
            cursor,
            painter: Painter::default(),
            inline: Inline::default(),
        })
    }

    /// Returns the bytes of the next frame; empty if nothing changed.
    ///
    /// # Errors
    ///
    /// Fails if the frame cannot be drawn.
    pub fn draw(&mut self, size: Size, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let (buffer, cursor) = Self::frame(&mut self.terminal, &self.size, &self.cursor, size, draw)?;
        self.painter.paint(buffer, cursor, &mut out)?;
        Ok(out)
    }

    /// Returns the bytes that print `lines` into the scrollback and show a frame below them. The frame has `height` rows, or
    /// more if the previous frame took more rows of the `screen` than `lines` and `height` together.
    ///
    /// # Errors
    ///
    /// Fails if the frame cannot be drawn.
    pub fn draw_inline(
        &mut self,
        lines: &[Line<'static>],
        height: u16,
        screen: Size,
        draw: impl FnOnce(&mut Frame<'_>),
    ) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let left = self.inline.room(screen).saturating_sub(lines.len());
        let size = Size { height: height.max(left as u16), ..screen };
        let (buffer, cursor) = Self::frame(&mut self.terminal, &self.size, &self.cursor, size, draw)?;
        self.inline.paint(lines, buffer, screen, cursor, &mut out)?;
        Ok(out)
    }

    /// Returns the bytes that erase the frame of inline mode.
    ///
    /// # Errors
    ///
    /// Fails if the bytes cannot be written.
    pub fn end_inline(&mut self, screen: Size) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.inline.end(screen, &mut out)?;
        Ok(out)
    }

    /// Records the row of the screen, counted from 0, in which the first frame begins or began.
    pub fn inline_begins(&mut self, row: u16, screen: Size) {
        self.inline.begins_in(row, screen);
    }

    /// Records the row of the cursor after the screen was resized.
    pub fn inline_cursor(&mut self, row: u16, screen: Size) {
        self.inline.cursor_in(row, screen);
    }

    /// Returns the next frame as cells, which are not meant for the terminal.
    ///
    /// # Errors
    ///
    /// Fails if the frame cannot be drawn.
    pub fn cells(
        &mut self,
        size: Size,
        draw: impl FnOnce(&mut Frame<'_>),
    ) -> io::Result<(&Buffer, Option<Position>)> {
        Self::frame(&mut self.terminal, &self.size, &self.cursor, size, draw)
    }

    fn frame<'a>(
        terminal: &'a mut Terminal<Canvas>,
        current: &Cell<Size>,
        cursor: &Cell<Option<Position>>,
        size: Size,
        draw: impl FnOnce(&mut Frame<'_>),
    ) -> io::Result<(&'a Buffer, Option<Position>)> {
        current.set(size);
        let frame = terminal.draw(draw)?;
        Ok((frame.buffer, cursor.get()))
    }

    /// Adds an image that is drawn, from the next frame on, over the cells that carry its number.
    pub fn give_image(&mut self, number: u32, image: Arc<Scaled>) {
        self.painter.pictures.give(number, image);
    }

    /// Drops the images, because the size of a cell has changed.
    pub fn drop_images(&mut self) {
        self.painter.pictures.drop_known();
    }

    /// Returns the numbers of images that the last frame should show and that were not available.
    pub fn missing_images(&mut self) -> Vec<u32> {
        self.painter.pictures.take_missing()
    }

    /// Returns the time at which a waiting image may be drawn.
    pub fn due(&self) -> Option<Instant> {
        self.painter.pictures.due()
    }

    /// Forgets the screen, because others wrote to the terminal or it was cleared. The next frame is drawn whole.
    pub fn forget(&mut self) {
        self.painter.forget();
    }
}

/// A backend without output: what was drawn is read from the frame.
struct Canvas {
    size: Rc<Cell<Size>>,
    cursor: Rc<Cell<Option<Position>>>,
}

impl Backend for Canvas {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, _: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Glyph)>,
    {
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.cursor.set(None);
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor.get().unwrap_or_default())
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.cursor.set(Some(position.into()));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.size.get())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size.get(), pixels: Size::default() })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
