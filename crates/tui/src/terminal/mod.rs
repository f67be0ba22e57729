//! The terminal: its modes on and off, frames onto it, the transcript into its scrollback.
//!
//! Invariant: what [`Screen::enter`] turned on, [`Screen::leave`] turns off, also when it is dropped and when a thread
//! panics: then before the message is printed, so that it can be read. Frames are written in one piece, as a synchronized update. Nothing else writes to the terminal meanwhile.

use crossterm::cursor::Show;
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste, EnableFocusChange,
    EnableMouseCapture,
};
use crossterm::style::{Attribute, SetAttribute};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, SetTitle, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::{Frame, Terminal};
use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The process has the terminal; a panic gives it back.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while becket has it.
pub struct Screen<W: Write> {
    terminal: Terminal<CrosstermBackend<W>>,
    entered: bool,
}

impl<W: Write> Screen<W> {
    /// Takes the terminal over.
    pub fn enter(out: W) -> io::Result<Self> {
        restore_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        let mut screen = Self { terminal, entered: false };
        screen.resume()?;
        Ok(screen)
    }

    /// Takes it over again after [`Screen::leave`].
    pub fn resume(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        self.entered = true;
        TAKEN.store(true, Ordering::SeqCst);
        execute!(
            self.terminal.backend_mut(),
            EnterAlternateScreen,
            EnableBracketedPaste,
            EnableFocusChange,
            EnableMouseCapture,
            Clear(ClearType::All)
        )?;
        // Nothing is known to be on it. `Terminal::clear` would ask the terminal where its cursor is, and wait for the answer.
        self.terminal.swap_buffers();
        self.terminal.swap_buffers();
        Ok(())
    }

    /// Gives it back as it was.
    pub fn leave(&mut self) -> io::Result<()> {
        // Twice would put the cursor back to where it was before what a panic said.
        if !std::mem::replace(&mut self.entered, false) || !TAKEN.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        restore(self.terminal.backend_mut())
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    pub fn title(&mut self, title: &str) -> io::Result<()> {
        let title: String = title.chars().filter(|c| !c.is_control()).take(80).collect();
        execute!(self.terminal.backend_mut(), SetTitle(title))
    }

    /// Raw bytes that are no text: a bell, a notification, a clipboard sequence.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(bytes)?;
        Write::flush(out)
    }

    /// Lines into the scrollback. Only while the terminal is given back.
    pub fn print(&mut self, lines: &[Line<'static>]) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        for line in lines {
            write_line(out, line)?;
        }
        Write::flush(out)
    }
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
                let _ = restore(&mut io::stdout());
            }
            report(panic);
        }));
    });
}

/// Everything off that [`Screen::enter`] turns on. Harmless when it is off.
pub fn restore(out: &mut impl Write) -> io::Result<()> {
    execute!(
        out,
        EndSynchronizedUpdate,
        DisableMouseCapture,
        DisableFocusChange,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        SetAttribute(Attribute::Reset),
        Show
    )?;
    disable_raw_mode()
}

fn write_line(out: &mut impl Write, line: &Line<'_>) -> io::Result<()> {
    for span in &line.spans {
        let style = line.style.patch(span.style);
        write!(out, "{}{}\x1b[0m", sgr(style), span.content)?;
    }
    out.write_all(b"\r\n")
}

/// The escape sequence of a style.
fn sgr(style: Style) -> String {
    let mut codes: Vec<String> = Vec::new();
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::CROSSED_OUT, "9"),
    ];
    codes.extend(
        modifiers.iter().filter(|(m, _)| style.add_modifier.contains(*m)).map(|(_, c)| (*c).to_owned()),
    );
    codes.extend(style.fg.and_then(|c| color(c, 30)));
    codes.extend(style.bg.and_then(|c| color(c, 40)));
    if codes.is_empty() { String::new() } else { format!("\x1b[{}m", codes.join(";")) }
}

fn color(color: Color, base: u8) -> Option<String> {
    let number = match color {
        Color::Rgb(r, g, b) => return Some(format!("{};2;{r};{g};{b}", base + 8)),
        Color::Indexed(n) => return Some(format!("{};5;{n}", base + 8)),
        Color::Reset => return None,
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
    };
    Some((base + number).to_string())
}
