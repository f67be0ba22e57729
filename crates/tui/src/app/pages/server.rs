//! Questions of MCP servers and of the model: the queue of them, and the page of the first.
//!
//! A permission question is shown before them. A question that its server gives up is closed, and so is one whose call has ended.

use crate::approval::Writing;
use crate::elicit::{Elicit, Outcome};
use crate::input::Effect;
use crate::server_question::ServerQuestion;
use crate::theme::Theme;
use becket_types::{CallId, PermissionRequest, sdk_names};
use crossterm::event::KeyEvent;
use ratatui::Frame;
use ratatui::layout::Rect;
use std::collections::VecDeque;

/// The open questions, in the order in which they came. The first one is shown.
#[derive(Default)]
pub(in crate::app) struct ServerQuestions(VecDeque<Elicit>);

impl ServerQuestions {
    /// True if a question is open.
    pub(in crate::app) fn is_open(&self) -> bool {
        !self.0.is_empty()
    }

    /// Opens the question, after those that are open already.
    pub(in crate::app) fn ask(&mut self, question: ServerQuestion) -> Effect {
        let notice = format!("the MCP server {} asks", question.server);
        self.0.push_back(Elicit::new(question));
        Effect::Notify(notice)
    }

    /// Opens the questions of the model, if the request is a call of `ask_user`. `None`: it is a question for permission.
    pub(in crate::app) fn ask_for(
        &mut self,
        subagent: Option<&CallId>,
        request: &PermissionRequest,
    ) -> Option<Effect> {
        let asks = request.secrets.is_none() && sdk_names::own_name(&request.tool) == "ask_user";
        if !asks || subagent.is_some() {
            return None;
        }
        self.0.push_back(Elicit::of_model(request.call_id.clone(), request.input.clone()));
        Some(Effect::Notify("the model asks you".to_owned()))
    }

    /// Closes the questions of a call that has its result; `None`: of all calls.
    pub(in crate::app) fn settled(&mut self, call: Option<&CallId>) {
        self.0.retain(|asked| asked.call().is_none_or(|known| call.is_some_and(|call| call != known)));
    }

    /// Closes the question with this number. Returns false if it is not open.
    pub(in crate::app) fn gave_up(&mut self, number: u64) -> bool {
        let before = self.0.len();
        self.0.retain(|asked| asked.number() != Some(number));
        self.0.len() < before
    }

    /// Handles a key for the open question. `None`: the key belongs to the composer.
    pub(in crate::app) fn key(&mut self, key: KeyEvent, writing: Writing) -> Option<Vec<Effect>> {
        match self.0.front_mut()?.key(key, writing) {
            Outcome::Stays => Some(Vec::new()),
            Outcome::Answered(effects) => {
                self.0.pop_front();
                Some(effects)
            }
            Outcome::Text => None,
        }
    }

    /// Handles a paste. Returns false if it belongs elsewhere.
    pub(in crate::app) fn paste(&mut self, text: &str) -> bool {
        self.0.front_mut().is_some_and(|asked| asked.paste(text))
    }

    /// Returns digits that marked an answer of the open question and turn out to be the beginning of a text.
    #[must_use]
    pub(in crate::app) fn take_typed(&mut self) -> String {
        self.0.front_mut().map(Elicit::take_typed).unwrap_or_default()
    }

    /// Records a possible change of the composer.
    pub(super) fn wrote(&mut self, writing: Writing) {
        self.0.iter_mut().for_each(|asked| asked.wrote(writing));
    }

    /// Allows the open question to be answered. Returns false if there is none.
    pub(super) fn arm(&mut self, writing: Writing) -> bool {
        let open = self.0.front_mut();
        open.map(|asked| asked.arm(writing)).is_some()
    }

    /// Scrolls the open question. Returns false if there is none.
    pub(super) fn scroll(&mut self, lines: isize) -> bool {
        let open = self.0.front_mut();
        open.map(|asked| asked.scroll(lines)).is_some()
    }

    /// Draws the open question.
    pub(in crate::app) fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        writing: Writing,
        theme: &Theme,
    ) -> Vec<Effect> {
        let Some(asked) = self.0.front_mut() else { return Vec::new() };
        asked.draw(frame, area, writing, theme);
        asked.painted(writing)
    }
}
