//! A stage: the interface, what it writes, and a terminal emulator that reads it.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use becket_tui::app::App;
use becket_tui::highlight::Job;
use becket_tui::input::{Effect, Input, Timer};
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use becket_types::{Cost, Event, Millis, SessionId, TurnCompaction, TurnEnd, TurnResult, Usage};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use std::num::NonZeroU16;

pub(crate) struct Stage {
    app: App,
    size: (u16, u16),
    surface: Surface,
    emulator: vt100::Parser,
    other: avt::Terminal,
    jobs: Vec<Job>,
}

fn emulator((columns, rows): (u16, u16)) -> vt100::Parser {
    vt100::Parser::new(NonZeroU16::new(rows).unwrap(), NonZeroU16::new(columns).unwrap(), 0)
}

impl Stage {
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        Self::themed(columns, rows, Theme::plain())
    }

    pub(crate) fn themed(columns: u16, rows: u16, theme: Theme) -> Self {
        Self::of(columns, rows, App::new(theme))
    }

    pub(crate) fn of(columns: u16, rows: u16, app: App) -> Self {
        let size = (columns, rows);
        Self {
            app,
            size,
            surface: Surface::new(Size::new(columns, rows)).unwrap(),
            emulator: emulator(size),
            other: avt::Terminal::new(columns.into(), rows.into()).unwrap(),
            jobs: Vec::new(),
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

    /// Draws, and lets the time pass that a question must be on the screen without a key.
    pub(crate) fn read_question(&mut self) {
        self.bytes();
        self.update(Input::Due(Timer::Arm));
        self.update(Input::Due(Timer::Page));
    }

    /// Reads the question, gives the keyboard to its answers, and presses the digit of one.
    pub(crate) fn answer(&mut self, number: char) -> Vec<Effect> {
        self.read_question();
        self.key(KeyCode::Tab);
        self.read_question();
        self.update(Input::Key(key(number)))
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        if self.size != (columns, rows) {
            self.size = (columns, rows);
            self.emulator
                .screen_mut()
                .set_size(NonZeroU16::new(rows).unwrap(), NonZeroU16::new(columns).unwrap());
            self.other.resize(columns.into(), rows.into());
            self.update(Input::Resize { columns, rows });
        }
    }

    /// Draws and returns the screen without spaces at the ends of lines. Two emulators must agree on it.
    pub(crate) fn screen(&mut self) -> String {
        self.bytes();
        let shown = text(&self.emulator);
        let other: Vec<String> =
            (0..self.size.1).map(|y| self.other.screen().line(y.into()).unwrap().text()).collect();
        let other: Vec<&str> = other.iter().map(|line| line.trim_end()).collect();
        assert_eq!(shown, other.join("\n"), "the emulators differ");
        shown
    }

    /// Returns the screen after the last frame.
    pub(crate) fn shown(&self) -> String {
        text(&self.emulator)
    }

    /// Returns the bytes that the next frame writes.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        self.paint().0
    }

    /// Returns the effects of the next frame, except requests to parse code.
    pub(crate) fn asks(&mut self) -> Vec<Effect> {
        self.paint().1
    }

    fn paint(&mut self) -> (Vec<u8>, Vec<Effect>) {
        let app = &mut self.app;
        let size = Size::new(self.size.0, self.size.1);
        let mut effects = Vec::new();
        let bytes = self.surface.draw(size, |frame| effects = app.draw(frame)).unwrap();
        effects.retain_mut(|effect| match effect {
            Effect::Highlight(jobs) => {
                self.jobs.append(jobs);
                false
            }
            _ => true,
        });
        self.emulator.process(&bytes);
        self.other.feed(std::str::from_utf8(&bytes).unwrap());
        (bytes, effects)
    }

    /// Parses the code that came into view. Returns the number of pieces.
    pub(crate) fn read_code(&mut self) -> usize {
        let jobs = std::mem::take(&mut self.jobs);
        jobs.iter().for_each(Job::run);
        jobs.len()
    }

    /// Returns the colour of a cell.
    pub(crate) fn colour(&self, row: u16, column: u16) -> vt100::Color {
        self.emulator.screen().cell(row, column).unwrap().fgcolor()
    }

    /// Returns the cells of a row.
    pub(crate) fn cells(&self, row: u16) -> Vec<vt100::Cell> {
        (0..self.size.0).map(|column| self.emulator.screen().cell(row, column).unwrap().clone()).collect()
    }

    pub(crate) fn background(&self, row: u16, column: u16) -> vt100::Color {
        self.emulator.screen().cell(row, column).unwrap().bgcolor()
    }

    /// Returns the same screen, drawn on an empty terminal.
    pub(crate) fn fresh(&mut self) -> String {
        let app = &mut self.app;
        let size = Size::new(self.size.0, self.size.1);
        let bytes = Surface::new(size).unwrap().draw(size, |frame| drop(app.draw(frame))).unwrap();
        let mut emulator = emulator(self.size);
        emulator.process(&bytes);
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
        text: becket_types::AnswerText::default(),
        stop_reason: None,
        steps: 1,
        duration: Millis(10),
        api_duration: Millis(5),
        usage: Usage::default(),
        cost: Cost(0.0),
        models: Vec::new(),
        denials: Vec::new(),
        compaction: TurnCompaction::default(),
        unsaved: false,
    }))
}
