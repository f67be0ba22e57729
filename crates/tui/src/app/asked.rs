//! Keys and texts while a question is open: a permission in the transcript, or a page that asks.
//!
//! Owns no state. The rules that keep typing from answering are in [`crate::answers`]; this module gives the composer what is
//! not for the question.

use super::App;
use super::permissions::marked;
use crate::approval;
use crate::commands::Said;
use crate::composer::{Outcome as Wrote, Prompt};
use crate::input::{Effect, Request};
use crate::keymap::Do;
use crate::overlay::Overlay;
use becket_types::DeliveryMode;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

impl App {
    /// Handles a key while a question is open. The question gets keys that answer it, actions that show its subject
    /// run, and the rest is typing.
    pub(super) fn asked_key(&mut self, key: KeyEvent, action: Option<Do>) -> Vec<Effect> {
        let read = self.approvals.is_read();
        match action {
            Some(Do::End) => return self.perform(Do::End),
            Some(action @ (Do::EarlierMessage | Do::LaterMessage | Do::Open | Do::Hidden | Do::Status)) => {
                return self.perform(action);
            }
            Some(page @ (Do::PageUp | Do::PageDown)) => {
                self.approvals.scroll_pages(if page == Do::PageUp { -1 } else { 1 });
                return Vec::new();
            }
            // The palette would open under the question, and changing the mode does not answer it.
            Some(Do::Palette | Do::NextMode) => return Vec::new(),
            Some(action @ (Do::Editor | Do::PasteImage)) => {
                self.approvals.disturb();
                let mut effects = self.write_digits();
                effects.extend(self.perform(action));
                return effects;
            }
            Some(Do::Suspend) | None => {}
        }
        // Keys meant for a page that the question covers must not become a message.
        if !read && self.is_covering() {
            self.approvals.disturb();
            return Vec::new();
        }
        let focused = self.approvals.is_focused();
        if !focused
            && (self.editor.composer.is_searching()
                || key.code == KeyCode::Esc && self.editor.composer.takes_escape())
        {
            self.approvals.disturb();
            return self.composer_key(key);
        }
        // The line of a message that waits says that Up takes it back.
        if key.code == KeyCode::Up && !focused && self.editor.waiting.last().is_some() {
            return self.writing_key(key);
        }
        match self.approvals.key(key, self.editor.writing()) {
            approval::Outcome::Done(effects) => marked(effects, &mut self.transcript),
            // Esc was meant for the screen as it was before the question.
            approval::Outcome::Text if key.code == KeyCode::Esc && !read => self.editor.waiting.interrupted(),
            approval::Outcome::Text if matches!(key.code, KeyCode::Esc | KeyCode::Tab) => Vec::new(),
            approval::Outcome::Text => {
                let mut effects = self.write_digits();
                effects.extend(self.writing_key(key));
                effects
            }
        }
    }

    /// Gives the composer the digits that marked an answer, now that a text follows them.
    pub(super) fn write_digits(&mut self) -> Vec<Effect> {
        let digits =
            if self.approvals.is_open() { self.approvals.take_typed() } else { self.pages.take_typed() };
        let press = |digit| self.composer_key(KeyEvent::new(KeyCode::Char(digit), KeyModifiers::NONE));
        digits.chars().flat_map(press).collect()
    }

    /// True if a question would cover a page, a list or a search that has the keyboard.
    fn is_covering(&self) -> bool {
        self.pages.is_open() || self.reading.is_open(&self.transcript)
    }

    /// Handles a text that was sent while a question is open. It is the reason for a refusal, unless it was begun
    /// before the question was read.
    pub(super) fn reply_to_question(&mut self, prompt: Prompt) -> Vec<Effect> {
        if !self.approvals.takes_reason() || !matches!(Said::of(&prompt), Said::Task) {
            return self.submit(prompt, DeliveryMode::Steer);
        }
        let reason = prompt.text.trim().to_owned();
        if prompt.images.is_empty() && approval::means_an_answer(&reason) {
            let text = "The question is still open: Tab, then Enter, answers; other words refuse";
            self.editor.composer.set(&prompt.text);
            return self.status.toast(text.to_owned());
        }
        let mut effects = self.editor.draft.gone();
        effects.push(Effect::Ask(Request::Remember(prompt.past())));
        effects.extend(self.approvals.refuse(Some(reason).filter(|reason| !reason.is_empty())));
        // A reason cannot carry images.
        if !prompt.images.is_empty() {
            effects.extend(self.send(prompt, DeliveryMode::Steer));
        }
        effects
    }

    /// Handles typing while a page asks. A text that is sent refuses, unless it was begun before the page was read.
    pub(super) fn beside_page(&mut self, key: KeyEvent) -> Vec<Effect> {
        let closes = self.pages.overlay.as_ref().is_some_and(Overlay::takes_reply);
        let mut effects = self.write_digits();
        match self.editor.composer.key(key) {
            Wrote::Submit(prompt) => {
                effects.extend(if closes { self.page_answered(None) } else { Vec::new() });
                effects.extend(self.submit(prompt, DeliveryMode::Steer));
            }
            _ => effects.extend(self.editor.draft.changed(self.editor.composer.is_empty())),
        }
        effects
    }
}
