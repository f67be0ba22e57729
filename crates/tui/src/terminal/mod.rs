//! The terminal: its modes on and off, frames onto it, the transcript into its scrollback.
//!
//! Invariant: what [`Screen::enter`] turned on, [`Screen::leave`] turns off, also when it is dropped and when a thread
//! panics: then before the message is printed, so that it can be read. Frames are written in one piece, as a synchronized update
//! ([`surface`], `painter`). Nothing else writes to the terminal meanwhile.

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

/// Buttons, the wheel, and movement while a button is held; coordinates as numbers. Not every movement: that floods.
const MOUSE: &str = "\x1b[?1002h\x1b[?1006h";

/// Reports that a program before us may have asked the terminal for, off: of its colours (2031), of its size (2048).
const REPORTS_END: &str = "\x1b[?2031l\x1b[?2048l";

/// What terminal is this? The answer ends whatever report is on its way: the reader waits for the end of one, and would take
/// what is typed for it.
const QUESTION: &str = "\x1b[c";

/// How long the answer may be on its way: one that came behind our end would be typed into the shell.
const ANSWER_WITHIN: Duration = Duration::from_millis(150);

/// The process has the terminal; a panic gives it back.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// It has a screen of its own.
static ALTERNATE: AtomicBool = AtomicBool::new(false);
/// Keys are reported by kitty's protocol; whoever turns this off pops the flags.
static KEYBOARD: AtomicBool = AtomicBool::new(false);

/// Keys that are ambiguous otherwise (Shift-Enter, Escape) get reports of their own. Everything else is as it was.
const FLAGS: KeyboardEnhancementFlags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;

/// Where frames are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// On a screen of their own; the transcript is printed at the end.
    #[default]
    Alternate,
    /// Below what was printed, in the terminal's own scrollback.
    Inline,
}

/// The questions to a terminal at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// For kitty's keyboard protocol.
    Keyboard,
    /// The same, and what it draws images by.
    KeyboardAndImages,
}

/// The terminal while becket has it.
pub struct Screen<W: Write> {
    place: Place,
    surface: Surface,
    out: W,
    entered: bool,
    /// Asked once, when the terminal is taken over for the first time.
    asks: Option<Asks>,
    /// The terminal has kitty's keyboard protocol.
    keyboard: bool,
    /// When [`QUESTION`] was asked last.
    asked: Option<Instant>,
}

impl<W: Write> Screen<W> {
    /// Takes the terminal over.
    pub fn enter(out: W, place: Place) -> io::Result<Self> {
        Self::entered(out, place, None)
    }

    /// Takes the terminal over and asks what it can do; a [`Listener`](answers::Listener) hears the answer.
    pub fn asking(out: W, place: Place, asks: Asks) -> io::Result<Self> {
        Self::entered(out, place, Some(asks))
    }

    fn entered(out: W, place: Place, asks: Option<Asks>) -> io::Result<Self> {
        restore_on_panic();
        let surface = Surface::new(size()?)?;
        let mut screen = Self { place, surface, out, entered: false, asks, keyboard: false, asked: None };
        screen.resume()?;
        Ok(screen)
    }

    /// Takes it over again after [`Screen::leave`].
    pub fn resume(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        self.entered = true;
        TAKEN.store(true, Ordering::SeqCst);
        // Nothing is known to be on it.
        self.surface.forget();
        ALTERNATE.store(self.place == Place::Alternate, Ordering::SeqCst);
        if self.place == Place::Alternate {
            execute!(self.out, EnterAlternateScreen, Print(MOUSE))?;
        }
        execute!(self.out, EnableBracketedPaste, EnableFocusChange, Print(REPORTS_END))?;
        // The screens of a terminal have flags of their own, so this comes after the alternate one was entered.
        self.push_keyboard()?;
        let (keyboard, images) = match self.asks.take() {
            Some(Asks::Keyboard) => (answers::KEYBOARD, ""),
            Some(Asks::KeyboardAndImages) => (answers::KEYBOARD, answers::IMAGES),
            None => ("", ""),
        };
        // Every terminal answers the last question, so its answer ends the others.
        execute!(self.out, Print(keyboard), Print(images), Print(QUESTION))?;
        self.asked = Some(Instant::now());
        Ok(())
    }

    /// Gives it back as it was.
    pub fn leave(&mut self) -> io::Result<()> {
        // Twice would put the cursor back to where it was before what a panic said.
        if !std::mem::replace(&mut self.entered, false) || !TAKEN.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        self.take_answer();
        if self.place == Place::Inline {
            let bytes = self.surface.end_inline(size()?.width)?;
            self.send(&bytes)?;
            pop_keyboard(&mut self.out)?;
            return restore_inline(&mut self.out);
        }
        pop_keyboard(&mut self.out)?;
        restore_alternate(&mut self.out)
    }

    /// The terminal has kitty's keyboard protocol: uses it from now on, until the terminal is given back.
    pub fn use_keyboard(&mut self) -> io::Result<()> {
        self.keyboard = true;
        self.push_keyboard()
    }

    fn push_keyboard(&mut self) -> io::Result<()> {
        if !self.keyboard || !self.entered || KEYBOARD.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        execute!(self.out, PushKeyboardEnhancementFlags(FLAGS))
    }

    /// The answer to the question has been read.
    pub fn answered(&mut self) {
        self.asked = None;
    }

    /// Reads the answer to [`QUESTION`] where it may still be on its way. What is typed meanwhile stays with the reader.
    fn take_answer(&mut self) {
        let Some(asked) = self.asked.take() else { return };
        while let Some(left) = ANSWER_WITHIN.checked_sub(asked.elapsed()) {
            match crossterm::event::poll(left) {
                Ok(true) => return,
                Ok(false) => {}
                // A reader that was just ended wakes the next one once.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    pub fn place(&self) -> Place {
        self.place
    }

    /// Columns and rows, none of them 0.
    pub fn size(&self) -> io::Result<Size> {
        size()
    }

    /// Prints `lines`, and below them a frame of so many rows.
    pub fn draw_inline(
        &mut self,
        lines: &[Line<'static>],
        height: u16,
        draw: impl FnOnce(&mut Frame<'_>),
    ) -> io::Result<()> {
        let bytes = self.surface.draw_inline(lines, Size { height, ..size()? }, draw)?;
        self.send(&bytes)
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let bytes = self.surface.draw(size()?, draw)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.send(&bytes)
    }

    /// What frames are drawn with.
    pub fn surface(&mut self) -> &mut Surface {
        &mut self.surface
    }

    pub fn title(&mut self, title: &str) -> io::Result<()> {
        let title: String = title.chars().filter(|c| !c.is_control()).take(80).collect();
        execute!(self.out, SetTitle(title))
    }

    /// Raw bytes that are no text: a bell, a notification, a clipboard sequence.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    /// Lines into the scrollback. Only while the terminal is given back.
    pub fn print(&mut self, lines: &[Line<'static>]) -> io::Result<()> {
        for line in lines {
            write_line(&mut self.out, line)?;
        }
        self.out.flush()
    }
}

/// Pixels of a cell, where the system knows them.
pub fn cell() -> Option<(u16, u16)> {
    let window = crossterm::terminal::window_size().ok()?;
    let cell = (window.width.checked_div(window.columns)?, window.height.checked_div(window.rows)?);
    (cell.0 > 0 && cell.1 > 0).then_some(cell)
}

fn size() -> io::Result<Size> {
    let (columns, rows) = crossterm::terminal::size()?;
    Ok(Size::new(columns.max(1), rows.max(1)))
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

/// A panic of this thread gives the terminal back before its message comes. Other threads do not end the interface.
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

/// Everything off that [`Screen::enter`] turns on, for a process that does not know what was on. Harmless when it is off:
/// terminals without the keyboard protocol ignore its end.
pub fn restore(out: &mut impl Write) -> io::Result<()> {
    execute!(out, PopKeyboardEnhancementFlags)?;
    restore_alternate(out)
}

/// Before the alternate screen is left, which has flags of its own.
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
