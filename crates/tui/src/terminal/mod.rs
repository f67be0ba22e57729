//! The terminal: sets and restores its modes, writes frames to it and the transcript into its scrollback.
//!
//! Invariant: [`Screen::leave`] turns off what [`Screen::enter`] turned on. Dropping the screen does the same, and so
//! does a panic, before its message is printed, so that the message can be read. Each frame is written in one piece, as
//! a synchronized update ([`surface`], `painter`). Nothing else writes to the terminal meanwhile.

pub mod answers;
mod inline;
mod painter;
mod pen;
mod pictures;
pub mod surface;
mod sys;

use crate::links;
use crossterm::cursor::Show;
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste, EnableFocusChange,
    KeyboardEnhancementFlags, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::execute;
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, SetTitle, disable_raw_mode,
    enable_raw_mode,
};
use pen::Pen;
use ratatui::Frame;
use ratatui::layout::Size;
use ratatui::text::Line;
use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surface::Surface;

/// Reports buttons, the wheel, and movement while a button is held; coordinates as numbers. Other movement is not
/// reported, because it floods the input.
const MOUSE: &str = "\x1b[?1002h\x1b[?1006h";

/// Turns off reports that an earlier program may have requested: of colours (2031) and of the size (2048).
const REPORTS_END: &str = "\x1b[?2031l\x1b[?2048l";

/// Asks for the primary device attributes. The answer ends any report that is incomplete: the reader waits for the end
/// of a report, and would take typed keys for a part of it.
const QUESTION: &str = "\x1b[c";

/// Longest wait for that answer. An answer that arrives after the process has exited would be typed into the shell.
const ANSWER_WITHIN: Duration = Duration::from_millis(150);

/// The process has taken the terminal over; a panic restores it.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// The alternate screen is on.
static ALTERNATE: AtomicBool = AtomicBool::new(false);
/// Keys are reported by kitty's protocol. Code that clears this must pop the flags.
static KEYBOARD: AtomicBool = AtomicBool::new(false);

/// Ambiguous keys (Shift-Enter, Escape) get reports of their own. All others stay as they are.
const FLAGS: KeyboardEnhancementFlags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;

/// Place where frames are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The alternate screen; the transcript is printed at the end.
    #[default]
    Alternate,
    /// Below the printed lines, in the terminal's own scrollback.
    Inline,
}

/// Queries that are sent to the terminal at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Only the query about kitty's keyboard protocol.
    Keyboard,
    /// The query about the keyboard protocol, and the queries about images.
    KeyboardAndImages,
}

/// The terminal while becket uses it.
pub struct Screen<W: Write> {
    place: Place,
    surface: Surface,
    out: W,
    entered: bool,
    /// Queries to send when the terminal is taken over for the first time.
    asks: Option<Asks>,
    /// The terminal supports kitty's keyboard protocol.
    keyboard: bool,
    /// Time at which [`QUESTION`] was last sent.
    asked: Option<Instant>,
    /// The terminal answers a query for its cursor.
    locates: bool,
}

impl<W: Write> Screen<W> {
    /// Takes the terminal over.
    ///
    /// # Errors
    ///
    /// Fails if the terminal's modes cannot be set or it cannot be written to.
    pub fn enter(out: W, place: Place) -> io::Result<Self> {
        Self::entered(out, place, None)
    }

    /// Takes the terminal over and asks for its abilities. A [`Listener`](answers::Listener) reads the answers.
    ///
    /// # Errors
    ///
    /// Fails like [`Screen::enter`].
    pub fn asking(out: W, place: Place, asks: Asks) -> io::Result<Self> {
        Self::entered(out, place, Some(asks))
    }

    fn entered(out: W, place: Place, asks: Option<Asks>) -> io::Result<Self> {
        restore_on_panic();
        let surface = Surface::new(size()?)?;
        let mut screen =
            Self { place, surface, out, entered: false, asks, keyboard: false, asked: None, locates: false };
        screen.resume()?;
        Ok(screen)
    }

    /// Takes the terminal over again after [`Screen::leave`].
    ///
    /// # Errors
    ///
    /// Fails if the terminal's modes cannot be set or it cannot be written to.
    pub fn resume(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        self.entered = true;
        TAKEN.store(true, Ordering::SeqCst);
        // Other programs may have changed the screen.
        self.surface.forget();
        ALTERNATE.store(self.place == Place::Alternate, Ordering::SeqCst);
        if self.place == Place::Alternate {
            execute!(self.out, EnterAlternateScreen, Print(MOUSE))?;
        }
        execute!(self.out, EnableBracketedPaste, EnableFocusChange, Print(REPORTS_END))?;
        // The alternate screen has its own flags, so they are pushed after it was entered.
        self.push_keyboard()?;
        let (keyboard, images) = match self.asks.take() {
            Some(Asks::Keyboard) => (answers::KEYBOARD, ""),
            Some(Asks::KeyboardAndImages) => (answers::KEYBOARD, answers::IMAGES),
            None => ("", ""),
        };
        let cursor = if self.place == Place::Inline && !keyboard.is_empty() { answers::CURSOR } else { "" };
        // Every terminal answers the last query, so its answer ends the others.
        execute!(self.out, Print(keyboard), Print(images), Print(cursor), Print(QUESTION))?;
        self.asked = Some(Instant::now());
        Ok(())
    }

    /// Restores the terminal.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written to or its modes cannot be restored.
    pub fn leave(&mut self) -> io::Result<()> {
        // The terminal is restored only once. After a panic the hook has done it; doing it again would move the cursor
        // back over the panic's message.
        if !std::mem::replace(&mut self.entered, false) || !TAKEN.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        self.take_answer();
        if self.place == Place::Inline {
            let bytes = self.surface.end_inline(size()?)?;
            self.send(&bytes)?;
            pop_keyboard(&mut self.out)?;
            return restore_inline(&mut self.out);
        }
        pop_keyboard(&mut self.out)?;
        restore_alternate(&mut self.out)
    }

    /// Uses kitty's keyboard protocol from now on, until the terminal is restored. Call it if the terminal supports the
    /// protocol.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written to.
    pub(crate) fn use_keyboard(&mut self) -> io::Result<()> {
        self.keyboard = true;
        self.push_keyboard()
    }

    /// Records that the terminal answers queries for its cursor, and the row, counted from 0, in which becket began.
    ///
    /// # Errors
    ///
    /// Fails if the size of the terminal is unknown.
    pub(crate) fn locates(&mut self, row: u16) -> io::Result<()> {
        self.locates = true;
        self.surface.inline_begins(row, size()?);
        Ok(())
    }

    /// Queries the cursor's row after a resize (`moved`) or before the region begins again. Nothing else may read the
    /// terminal meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if the size of the terminal is unknown.
    pub fn locate(&mut self, moved: bool) -> io::Result<()> {
        // A terminal that gave no answer at the start gives none now, and the query would wait for seconds.
        if !self.locates {
            return Ok(());
        }
        match crossterm::cursor::position() {
            Ok((_, row)) if moved => self.surface.inline_cursor(row, size()?),
            Ok((_, row)) => self.surface.inline_begins(row, size()?),
            Err(_) => self.locates = false,
        }
        Ok(())
    }

    fn push_keyboard(&mut self) -> io::Result<()> {
        if !self.keyboard || !self.entered || KEYBOARD.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        execute!(self.out, PushKeyboardEnhancementFlags(FLAGS))
    }

    /// Records that the answer to the query has been read.
    pub fn answered(&mut self) {
        self.asked = None;
    }

    /// Waits for the answer to [`QUESTION`] if it may still arrive. Keys typed meanwhile stay with the reader.
    fn take_answer(&mut self) {
        let Some(asked) = self.asked.take() else { return };
        while let Some(left) = ANSWER_WITHIN.checked_sub(asked.elapsed()) {
            match crossterm::event::poll(left) {
                Ok(true) => return,
                Ok(false) => {}
                // A reader that has just ended wakes the next one once.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Returns the area in which frames are drawn.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Returns columns and rows, none of them 0.
    ///
    /// # Errors
    ///
    /// Fails if the system does not know the size.
    pub fn size(&self) -> io::Result<Size> {
        size()
    }

    /// Prints `lines`, and below them a frame of `height` rows.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written to.
    pub fn draw_inline(
        &mut self,
        lines: &[Line<'static>],
        height: u16,
        draw: impl FnOnce(&mut Frame<'_>),
    ) -> io::Result<()> {
        let bytes = self.surface.draw_inline(lines, height, size()?, draw)?;
        self.send(&bytes)
    }

    /// Draws a frame on the alternate screen. Writes nothing if nothing changed.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written to.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let bytes = self.surface.draw(size()?, draw)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.send(&bytes)
    }

    /// Returns the surface on which frames are drawn.
    pub fn surface(&mut self) -> &mut Surface {
        &mut self.surface
    }

    /// Sets the window title, without control characters and with at most 80 characters.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written to.
    pub fn title(&mut self, title: &str) -> io::Result<()> {
        let title: String = title.chars().filter(|c| !c.is_control()).take(80).collect();
        execute!(self.out, SetTitle(title))
    }

    /// Sends bytes that are not text: a bell, a notification, a clipboard sequence.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written to.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    /// Prints lines into the scrollback. Call it only while the terminal is restored.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written to.
    pub fn print(&mut self, lines: &[Line<'static>]) -> io::Result<()> {
        for line in lines {
            write_line(&mut self.out, line)?;
        }
        self.out.flush()
    }
}

/// Returns the size of a cell in pixels, if the system knows it.
pub fn cell() -> Option<(u16, u16)> {
    let window = crossterm::terminal::window_size().ok()?;
    let cell = (window.width.checked_div(window.columns)?, window.height.checked_div(window.rows)?);
    (cell.0 > 0 && cell.1 > 0).then_some(cell)
}

fn size() -> io::Result<Size> {
    crossterm::terminal::size().map(assumed)
}

/// Returns the size in which to draw. A terminal that does not know its size, such as a serial line, reports 0.
fn assumed((columns, rows): (u16, u16)) -> Size {
    let or = |reported, usual| if reported == 0 { usual } else { reported };
    Size::new(or(columns, 80), or(rows, 24))
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

/// Restores the terminal when this thread panics, before the message is printed. Panics of other threads do not end the
/// interface.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let here = std::thread::current().id();
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == here && TAKEN.swap(false, Ordering::SeqCst) {
                let mut out = io::stdout();
                let _ = pop_keyboard(&mut out);
                let _ = if ALTERNATE.load(Ordering::SeqCst) {
                    restore_alternate(&mut out)
                } else {
                    restore_inline(&mut out)
                };
            }
            report(panic);
        }));
    });
}

/// Turns off everything that [`Screen::enter`] turns on, for a process that does not know what was on. Harmless if it
/// is off already: terminals without the keyboard protocol ignore its end.
///
/// # Errors
///
/// Fails if `out` cannot be written to.
pub fn restore(out: &mut impl Write) -> io::Result<()> {
    execute!(out, PopKeyboardEnhancementFlags)?;
    restore_alternate(out)
}

/// Pops the keyboard flags. Must run before the alternate screen is left, because that screen has its own flags.
fn pop_keyboard(out: &mut impl Write) -> io::Result<()> {
    if KEYBOARD.swap(false, Ordering::SeqCst) { execute!(out, PopKeyboardEnhancementFlags) } else { Ok(()) }
}

fn restore_alternate(out: &mut impl Write) -> io::Result<()> {
    execute!(out, EndSynchronizedUpdate, DisableMouseCapture, LeaveAlternateScreen)?;
    restore_inline(out)
}

fn restore_inline(out: &mut impl Write) -> io::Result<()> {
    execute!(
        out,
        EndSynchronizedUpdate,
        DisableFocusChange,
        DisableBracketedPaste,
        SetAttribute(Attribute::Reset),
        Show
    )?;
    disable_raw_mode()
}

fn write_line(out: &mut impl Write, line: &Line<'_>) -> io::Result<()> {
    let mut pen = Pen::default();
    for span in &line.spans {
        if links::is_prompt_mark(span.style) && span.content.is_empty() {
            if links::is_on() {
                out.write_all(links::PROMPT_MARK)?;
            }
            continue;
        }
        pen.change(Pen::from(line.style.patch(span.style)), out)?;
        out.write_all(span.content.as_bytes())?;
    }
    pen.change(Pen::default(), out)?;
    out.write_all(b"\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::text::Span;

    /// A terminal finds the prompts in its scrollback by these marks.
    #[test]
    fn a_prompt_in_the_scrollback_is_marked() {
        links::switch_on();
        let line = Line::from(vec![Span::styled("", links::prompt_mark()), Span::raw("› fix it")]);
        let mut out = Vec::new();
        write_line(&mut out, &line).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\x1b]133;A\x1b\\› fix it\r\n");
        let mut out = Vec::new();
        write_line(&mut out, &Line::raw("an answer")).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "an answer\r\n");
    }

    #[test]
    fn a_terminal_that_does_not_know_its_size_is_taken_for_a_usual_one() {
        assert_eq!(assumed((0, 0)), Size::new(80, 24));
        assert_eq!(assumed((0, 50)), Size::new(80, 50));
        assert_eq!(assumed((1, 1)), Size::new(1, 1));
    }
}
