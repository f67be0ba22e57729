//! A page over the transcript: `/context`, `/diff`, … Scrolls, closes, and may ask a question at its end.
//!
//! Invariant: a question counts as answered only by a key that was pressed while the page was open. A page that comes by
//! itself after a while takes no key but Esc until it has been on the screen for [`ARM`] milliseconds without one: who was
//! writing answers nothing.

use crate::approval::ARM;
use crate::input::{Confirm, Effect, Page, Request, Timer};
use crate::text;
use crate::theme::Theme;
use crate::transcript::Transcript;
use becket_types::{Event, MessageId};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Clear, Widget as _};

pub struct Overlay {
    title: String,
    /// The page is an answer in a transcript of its own: laid out, cached and scrolled like one.
    page: Transcript,
    /// What can be answered; empty for a page that only shows.
    choices: Vec<Choice>,
    question: String,
    /// It was drawn, and is at its top.
    placed: bool,
    arming: Arming,
}

/// Whether keys count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arming {
    /// With the next frame its time begins.
    Fresh,
    Waiting,
    Armed,
}

/// The key of a choice that is Enter's.
pub const ENTER: char = '\n';

/// An answer to what a page asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    key: char,
    label: String,
    effect: Effect,
}

impl Choice {
    pub fn new(key: char, label: &str, effect: Effect) -> Self {
        Self { key, label: label.to_owned(), effect }
    }

    fn name(&self) -> String {
        if self.key == ENTER { "Enter".to_owned() } else { self.key.to_string() }
    }
}

impl Overlay {
    /// A page, with the question that it asks.
    pub fn new(page: Page) -> Self {
        let Some(Confirm { question, name, arguments }) = page.confirm.clone() else {
            return Self::choosing(page, Vec::new());
        };
        let yes = Choice::new('y', "yes", Effect::Ask(Request::Command { name, arguments }));
        Self { question, ..Self::choosing(page, vec![yes]) }
    }

    /// A page that asks by its choices alone.
    pub fn choosing(page: Page, choices: Vec<Choice>) -> Self {
        let mut transcript = Transcript::new();
        let text = page.markdown;
        transcript.event(&Event::TextDelta { message: MessageId::new(), index: 0, text });
        let arming = Arming::Armed;
        Self { title: page.title, page: transcript, choices, question: String::new(), placed: false, arming }
    }

    /// A page that comes by itself: nobody may have seen it coming.
    pub fn unasked(self) -> Self {
        Self { arming: Arming::Fresh, ..self }
    }

    /// It was painted.
    pub fn painted(&mut self) -> Vec<Effect> {
        let mut effects = vec![Effect::Highlight(self.page.jobs())];
        if self.arming == Arming::Fresh {
            self.arming = Arming::Waiting;
            effects.push(Effect::Wake(ARM, Timer::Page));
        }
        effects
    }

    pub fn arm(&mut self) {
        if self.arming == Arming::Waiting {
            self.arming = Arming::Armed;
        }
    }

    /// `None`: it closes.
    pub fn key(&mut self, key: KeyEvent, theme: &Theme) -> Option<Vec<Effect>> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if self.arming != Arming::Armed {
            self.arming = Arming::Fresh;
            return if key.code == KeyCode::Esc { None } else { Some(Vec::new()) };
        }
        let pressed = match key.code {
            KeyCode::Char(c) if !ctrl => Some(c),
            KeyCode::Enter => Some(ENTER),
            _ => None,
        };
        if let Some(at) = self.choices.iter().position(|choice| Some(choice.key) == pressed) {
            let effect = self.choices.swap_remove(at).effect;
            self.choices.clear();
            return Some(vec![effect]);
        }
        match key.code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | 'n') => return None,
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1, theme),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1, theme),
            KeyCode::PageUp => self.page.scroll_pages(-1, theme),
            KeyCode::PageDown | KeyCode::Char(' ') => self.page.scroll_pages(1, theme),
            KeyCode::Char('c') if ctrl => return None,
            KeyCode::Home | KeyCode::Char('g') => self.go_to_top(theme),
            KeyCode::End | KeyCode::Char('G') => self.page.to_end(),
            _ => {}
        }
        Some(Vec::new())
    }

    /// Up (negative) or down by lines.
    pub fn scroll(&mut self, lines: isize, theme: &Theme) {
        self.page.scroll(lines, theme);
    }

    fn go_to_top(&mut self, theme: &Theme) {
        self.page.scroll(isize::MIN / 2, theme);
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        Clear.render(area, frame.buffer_mut());
        let width = usize::from(area.width);
        let edges = u16::from(area.height > 2);
        let inner = Rect { y: area.y + edges, height: area.height - 2 * edges, ..area };
        self.page.draw(frame, inner, theme);
        if !self.placed {
            // Its height is known from now on.
            self.placed = true;
            self.go_to_top(theme);
            Clear.render(inner, frame.buffer_mut());
            self.page.draw(frame, inner, theme);
        }
        if edges == 0 {
            return;
        }
        let title = format!("── {} ", text::visible(&self.title));
        let rule = "─".repeat(width.saturating_sub(text::width(&title)));
        let title = text::fit(&format!("{title}{rule}"), width).into_owned();
        let asks = !self.choices.is_empty();
        let keys = if asks {
            let choices: Vec<String> =
                self.choices.iter().map(|c| format!("{} {} · ", c.name(), c.label)).collect();
            let choices = choices.concat();
            let gap = if self.question.is_empty() { "" } else { "  " };
            format!("{}{gap}{choices}n no · PageUp, PageDown", text::visible(&self.question))
        } else {
            "Esc closes · PageUp, PageDown, wheel".to_owned()
        };
        let keys = text::fit(&keys, width).into_owned();
        frame.buffer_mut().set_line(area.x, area.y, &Line::styled(title, theme.accent), area.width);
        let foot = Line::styled(keys, if asks { theme.accent } else { theme.dim });
        frame.buffer_mut().set_line(area.x, area.bottom() - 1, &foot, area.width);
    }
}
