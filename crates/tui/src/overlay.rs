//! A page over the transcript: `/context`, `/diff`, … Scrolls, closes, and may ask a question at its end.
//!
//! Invariant: a question counts as answered only by a key that was pressed while the page was open.

use crate::input::{Confirm, Effect, Page, Request};
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
    confirm: Option<Confirm>,
    /// It was drawn, and is at its top.
    placed: bool,
}

impl Overlay {
    pub fn new(page: Page) -> Self {
        let mut transcript = Transcript::new();
        let text = page.markdown;
        transcript.event(&Event::TextDelta { message: MessageId::new(), index: 0, text });
        Self { title: page.title, page: transcript, confirm: page.confirm, placed: false }
    }

    /// `None`: it closes.
    pub fn key(&mut self, key: KeyEvent, theme: &Theme) -> Option<Vec<Effect>> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('y') if self.confirm.is_some() => {
                let Confirm { name, arguments, .. } = self.confirm.take()?;
                return Some(vec![Effect::Ask(Request::Command { name, arguments })]);
            }
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
        let keys = match &self.confirm {
            Some(confirm) => format!("{}  y yes · n no · PageUp, PageDown", text::visible(&confirm.question)),
            None => "Esc closes · PageUp, PageDown, wheel".to_owned(),
        };
        let keys = text::fit(&keys, width).into_owned();
        frame.buffer_mut().set_line(area.x, area.y, &Line::styled(title, theme.accent), area.width);
        let foot = Line::styled(keys, if self.confirm.is_some() { theme.accent } else { theme.dim });
        frame.buffer_mut().set_line(area.x, area.bottom() - 1, &foot, area.width);
    }
}
