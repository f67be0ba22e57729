//! Questions of MCP servers: the queue of them, and the page of the first.
//!
//! A permission question goes before them. A question that its server gives up is closed.

use super::Pages;
use crate::approval::Writing;
use crate::elicit::{Elicit, Outcome};
use crate::input::Effect;
use crate::server_question::ServerQuestion;
use crate::theme::Theme;
use crossterm::event::KeyEvent;
use ratatui::Frame;
use ratatui::layout::Rect;

impl Pages {
    /// True if the question of a server is open.
    pub(in crate::app) fn asks_for_server(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Opens the question, after those that are open already.
    pub(in crate::app) fn ask_for_server(&mut self, question: ServerQuestion) -> Effect {
        let notice = format!("the MCP server {} asks", question.server);
        self.asked.push_back(Elicit::new(question));
        Effect::Notify(notice)
    }

    /// Closes the question with this number. Returns false if it is not open.
    pub(in crate::app) fn server_gave_up(&mut self, number: u64) -> bool {
        let before = self.asked.len();
        self.asked.retain(|asked| asked.number() != number);
        self.asked.len() < before
    }

    /// Handles a key for the open question. `None`: the key belongs to the composer.
    pub(in crate::app) fn server_key(&mut self, key: KeyEvent, writing: Writing) -> Option<Vec<Effect>> {
        match self.asked.front_mut()?.key(key, writing) {
            Outcome::Stays => Some(Vec::new()),
            Outcome::Answered(effects) => {
                self.asked.pop_front();
                Some(effects)
            }
            Outcome::Text => None,
        }
    }

    /// Handles a paste. Returns false if it belongs elsewhere.
    pub(in crate::app) fn server_paste(&mut self, text: &str) -> bool {
        self.asked.front_mut().is_some_and(|asked| asked.paste(text))
    }

    /// Draws the open question.
    pub(in crate::app) fn draw_server(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        writing: Writing,
        theme: &Theme,
    ) -> Vec<Effect> {
        let Some(asked) = self.asked.front_mut() else { return Vec::new() };
        asked.draw(frame, area, writing, theme);
        asked.painted(writing)
    }
}
