//! Frames without a terminal: what panes draw, as cells, and as the bytes that bring them onto a terminal.

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

/// What frames are drawn on. Knows what the terminal shows.
pub struct Surface {
    terminal: Terminal<Canvas>,
    size: Rc<Cell<Size>>,
    cursor: Rc<Cell<Option<Position>>>,
    painter: Painter,
    inline: Inline,
}

impl Surface {
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

    /// The bytes of the next frame; none when nothing changed.
    pub fn draw(&mut self, size: Size, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let (buffer, cursor) = Self::frame(&mut self.terminal, &self.size, &self.cursor, size, draw)?;
        self.painter.paint(buffer, cursor, &mut out)?;
        Ok(out)
    }

    /// The bytes that print `lines` into the scrollback and show a frame of `size` below them.
    pub fn draw_inline(
        &mut self,
        lines: &[Line<'static>],
        size: Size,
        draw: impl FnOnce(&mut Frame<'_>),
    ) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let (buffer, cursor) = Self::frame(&mut self.terminal, &self.size, &self.cursor, size, draw)?;
        self.inline.paint(lines, buffer, cursor, &mut out)?;
        Ok(out)
    }

    /// The bytes that take that frame off the screen.
    pub fn end_inline(&mut self, width: u16) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.inline.end(width, &mut out)?;
        Ok(out)
    }

    /// The next frame as cells. The terminal does not see it.
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

    /// An image that is drawn over the cells which have its number, from the next frame on.
    pub fn give_image(&mut self, number: u32, image: Arc<Scaled>) {
        self.painter.pictures.give(number, image);
    }

    /// The images that were given have not the right size any more.
    pub fn drop_images(&mut self) {
        self.painter.pictures.drop_known();
    }

    /// Images that the last frame lacks.
    pub fn missing_images(&mut self) -> Vec<u32> {
        self.painter.pictures.take_missing()
    }

    /// When an image that has to wait may be drawn.
    pub fn due(&self) -> Option<Instant> {
        self.painter.pictures.due()
    }

    /// Others wrote to the terminal, or it was cleared: the next frame is a whole one.
    pub fn forget(&mut self) {
        self.painter.forget();
    }
}

/// Nothing behind it: what is drawn is read from the frame.
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
