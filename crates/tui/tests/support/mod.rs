//! A stage: the interface, what it writes, and a terminal emulator that reads it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tui::app::App;
use becket_tui::input::{Effect, Input};
use becket_tui::theme::Theme;
use becket_types::{Cost, Event, Millis, SessionId, TurnEnd, TurnResult, Usage};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use std::io::{self, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};

pub(crate) struct Stage {
    app: App,
    size: (u16, u16),
    terminal: Terminal<CrosstermBackend<Wire>>,
    wire: Wire,
    emulator: vt100::Parser,
}

/// What was written and not read yet.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<u8>>>);

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn terminal(size: (u16, u16), wire: Wire) -> Terminal<CrosstermBackend<Wire>> {
    let viewport = Viewport::Fixed(Rect::new(0, 0, size.0, size.1));
    Terminal::with_options(CrosstermBackend::new(wire), TerminalOptions { viewport }).unwrap()
}

fn emulator((columns, rows): (u16, u16)) -> vt100::Parser {
    vt100::Parser::new(NonZeroU16::new(rows).unwrap(), NonZeroU16::new(columns).unwrap(), 0)
}

impl Stage {
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        let wire = Wire::default();
        let size = (columns, rows);
        Self {
            app: App::new(Theme::plain()),
            size,
            terminal: terminal(size, wire.clone()),
            wire,
            emulator: emulator(size),
        }
    }

    pub(crate) fn update(&mut self, input: Input) -> Vec<Effect> {
        self.app.update(input)
    }

    pub(crate) fn event(&mut self, event: Event) -> Vec<Effect> {
        self.update(Input::Agent(event))
    }

    pub(crate) fn key(&mut self, code: KeyCode) -> Vec<Effect> {
        self.update(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    pub(crate) fn ctrl(&mut self, c: char) -> Vec<Effect> {
        self.update(Input::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)))
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.update(Input::Key(key(c)));
        }
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        if self.size != (columns, rows) {
            self.size = (columns, rows);
            self.emulator = emulator(self.size);
            self.terminal.resize(Rect::new(0, 0, columns, rows)).unwrap();
            self.update(Input::Resize { columns, rows });
        }
    }

    /// What is on the screen now, lines without the spaces at their ends.
    pub(crate) fn screen(&mut self) -> String {
        self.bytes();
        text(&self.emulator)
    }

    /// What the next frame writes.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let app = &mut self.app;
        self.terminal.draw(|frame| drop(app.draw(frame))).unwrap();
        let bytes = std::mem::take(&mut *self.wire.0.lock().unwrap());
        self.emulator.process(&bytes);
        bytes
    }

    /// The same drawn onto an empty terminal.
    pub(crate) fn fresh(&mut self) -> String {
        let wire = Wire::default();
        let app = &mut self.app;
        terminal(self.size, wire.clone()).draw(|frame| drop(app.draw(frame))).unwrap();
        let mut emulator = emulator(self.size);
        emulator.process(&wire.0.lock().unwrap());
        text(&emulator)
    }

    pub(crate) fn print(&mut self) -> Vec<String> {
        self.app.print().iter().map(|l| l.to_string().trim_end().to_owned()).collect()
    }
}

fn text(emulator: &vt100::Parser) -> String {
    let columns = emulator.screen().size().1.get();
    let rows: Vec<String> = emulator.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
    rows.join("\n")
}

pub(crate) fn key(c: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)
}

pub(crate) fn started() -> Event {
    Event::SessionStarted {
        session: SessionId::new(),
        cwd: "/home/u/project".into(),
        model: "script/demo".into(),
        tools: Vec::new(),
        permission_mode: "default".into(),
        skills: Vec::new(),
        api_key_source: "none".into(),
        resumed: false,
        title: None,
    }
}

pub(crate) fn turn_end(end: TurnEnd) -> Event {
    Event::TurnFinished(Box::new(TurnResult {
        end,
        text: String::new(),
        stop_reason: None,
        steps: 1,
        duration: Millis(10),
        api_duration: Millis(5),
        usage: Usage::default(),
        cost: Cost(0.0),
        models: Vec::new(),
        denials: Vec::new(),
        compactions: 0,
    }))
}
