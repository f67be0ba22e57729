//! Routing of keys to panes. A question comes first, then a page, then the palette; the composer comes last.

use super::{App, Twice};
use crate::approval;
use crate::commands::{self, Said};
use crate::completion::Choice;
use crate::composer::{Outcome as Wrote, Prompt};
use crate::input::{Effect, Request, Timer};
use crate::keymap::Do;
use crate::overlay::{self, Overlay};
use crate::palette::{self, Palette};
use crate::picker;
use crate::transcript::block::Weight;
use becket_types::{Command, DeliveryMode, PermissionMode};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::ops::Range;

/// The second press of a key counts as a repetition within this time, in milliseconds.
const CHORD: u64 = 3_000;

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let chord = self.chord.take();
        let action = self.keymap.action(key);
        match key.code {
            _ if action == Some(Do::Suspend) => return vec![Effect::Suspend],
            _ if self.approvals.is_open() && !self.completion.is_open() => {}
            _ if self.approvals.is_open() => {
                // A completion list covers the question. The list gets keys first, and nobody can read the question
                // meanwhile.
                self.approvals.disturb();
                if let Some(effects) = self.completion_key(key) {
                    return effects;
                }
            }
            _ if self.key_page.is_some() => return self.key_page_key(key),
            _ if self.overlay.is_some() => return self.overlay_key(key),
            _ if self.inspector.is_some() => return self.inspector_key(key),
            _ if self.picker.is_some() => return self.picker_key(key),
            _ if self.palette.is_some() => return self.palette_key(key),
            _ if self.reading.is_open(&self.transcript) => {
                let outcome = self.reading.key(key, &mut self.transcript, &self.theme);
                return self.read(outcome);
            }
            _ if self.composer.is_searching() => return self.composer_key(key),
            _ => {
                if let Some(effects) = self.completion_key(key) {
                    return effects;
                }
            }
        }
        let asking = self.approvals.is_open();
        match key.code {
            KeyCode::Char('c') if ctrl => return self.ctrl_c(chord == Some(Twice::Leave)),
            KeyCode::Char('d') if ctrl && self.composer.is_empty() => return vec![Effect::Quit],
            _ if asking => return self.asked_key(key, action),
            _ => {}
        }
        if let Some(action) = action {
            return self.perform(action);
        }
        match key.code {
            KeyCode::Char('f') if ctrl && self.composer.cursor() == self.composer.raw().len() => {
                self.reading.search();
                Vec::new()
            }
            KeyCode::Char('b') if ctrl && self.composer.is_empty() && self.status.is_working() => {
                vec![Effect::Send(Command::Background { call_id: None })]
            }
            KeyCode::Up if key.modifiers == KeyModifiers::ALT => {
                self.transcript.move_focus(true, &self.theme);
                Vec::new()
            }
            KeyCode::Esc if self.composer.takes_escape() => self.composer_key(key),
            KeyCode::Esc => self.escape(chord == Some(Twice::Rewind)),
            KeyCode::Tab if self.status.is_working() && !self.composer.is_empty() => {
                let prompt = self.composer.take();
                self.submit(prompt, DeliveryMode::Queue)
            }
            _ => self.writing_key(key),
        }
    }

    /// Handles a key for the completion list. Returns `None` if no list is open or it does not use the key.
    fn completion_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        if !self.completion.is_open() {
            return None;
        }
        match self.completion.key(key) {
            Choice::None => None,
            Choice::Moved => Some(Vec::new()),
            Choice::Put { range, text, run } => Some(self.complete(range, &text, run)),
        }
    }

    fn writing_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let first = key.code == KeyCode::Up && self.composer.is_at_top() && !self.composer.is_browsing();
        match self.waiting.last().filter(|_| first) {
            Some(id) => vec![Effect::Send(Command::Withdraw { client_id: id.to_owned() })],
            None => self.composer_key(key),
        }
    }

    /// Handles a key while a question is open. The question gets keys that answer it, actions that show its subject
    /// run, and the rest is typing.
    fn asked_key(&mut self, key: KeyEvent, action: Option<Do>) -> Vec<Effect> {
        let read = self.approvals.is_read();
        match action {
            Some(action @ (Do::EarlierMessage | Do::LaterMessage | Do::Open | Do::Hidden | Do::Status)) => {
                return self.perform(action);
            }
            Some(Do::PageUp) => {
                self.approvals.scroll_pages(-1);
                return Vec::new();
            }
            Some(Do::PageDown) => {
                self.approvals.scroll_pages(1);
                return Vec::new();
            }
            // The palette would open under the question, and changing the mode does not answer it.
            Some(Do::Palette | Do::NextMode) => return Vec::new(),
            Some(action @ (Do::Editor | Do::PasteImage)) => {
                self.approvals.disturb();
                return self.perform(action);
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
            && (self.composer.is_searching() || key.code == KeyCode::Esc && self.composer.takes_escape())
        {
            self.approvals.disturb();
            return self.composer_key(key);
        }
        match self.approvals.key(key, self.writing()) {
            approval::Outcome::Done(effects) => effects,
            // Esc was meant for the screen as it was before the question.
            approval::Outcome::Text if key.code == KeyCode::Esc && !read => {
                vec![Effect::Send(Command::Interrupt)]
            }
            approval::Outcome::Text if matches!(key.code, KeyCode::Esc | KeyCode::Tab) => Vec::new(),
            approval::Outcome::Text => self.writing_key(key),
        }
    }

    /// True if a question would cover a page, a list or a search that has the keyboard.
    fn is_covering(&self) -> bool {
        self.overlay.is_some()
            || self.key_page.is_some()
            || self.inspector.is_some()
            || self.picker.is_some()
            || self.palette.is_some()
            || self.reading.is_open(&self.transcript)
    }

    /// Handles a text that was sent while a question is open. It is the reason for a refusal, unless it was begun
    /// before the question was read.
    fn reply_to_question(&mut self, prompt: Prompt) -> Vec<Effect> {
        if !self.approvals.takes_reason() || !matches!(Said::of(&prompt), Said::Task) {
            return self.submit(prompt, DeliveryMode::Steer);
        }
        let reason = prompt.text.trim().to_owned();
        if prompt.images.is_empty() && approval::means_an_answer(&reason) {
            let text = "The question is still open. Press Tab, then 1, to allow it once; a text refuses it.";
            self.note(Weight::Warning, text.to_owned());
            self.composer.set(&prompt.text);
            return Vec::new();
        }
        let mut effects = self.draft.gone();
        effects.push(Effect::Ask(Request::Remember { prompt: prompt.text.clone() }));
        effects.extend(self.approvals.refuse(Some(reason).filter(|reason| !reason.is_empty())));
        // A reason cannot carry images.
        if !prompt.images.is_empty() {
            effects.extend(self.send(prompt, DeliveryMode::Steer));
        }
        effects
    }

    fn perform(&mut self, action: Do) -> Vec<Effect> {
        match action {
            Do::Suspend => return vec![Effect::Suspend],
            Do::PageUp => self.transcript.scroll_pages(-1, &self.theme),
            Do::PageDown => self.transcript.scroll_pages(1, &self.theme),
            Do::EarlierMessage => self.transcript.to_user_message(true),
            Do::LaterMessage => self.transcript.to_user_message(false),
            Do::Open => self.transcript.toggle_open(),
            Do::Hidden => self.transcript.toggle_hidden(),
            Do::Status => self.status.toggle_whole(),
            Do::Editor => return vec![Effect::Ask(Request::Edit { text: self.composer.text() })],
            Do::Palette => {
                self.completion.close();
                self.palette = Some(Palette::open(self.customs.clone()));
                return self.want_customs();
            }
            Do::PasteImage => return vec![Effect::Ask(Request::ClipboardImage)],
            Do::NextMode => {
                let next = match self.status.mode() {
                    "default" => PermissionMode::AcceptEdits,
                    "acceptEdits" => PermissionMode::Plan,
                    _ => PermissionMode::Default,
                };
                return self.set_mode(next);
            }
        }
        Vec::new()
    }

    /// Interrupts the agent. While it is idle, the second Esc goes back to an earlier message.
    fn escape(&mut self, again: bool) -> Vec<Effect> {
        if self.status.is_working() {
            return vec![Effect::Send(Command::Interrupt)];
        }
        if self.status.command().is_some() {
            return vec![Effect::Ask(Request::StopShell)];
        }
        if !self.composer.is_empty() || self.said.is_empty() && !self.transcript.has_gaps() {
            return Vec::new();
        }
        if again {
            return self.choose_message();
        }
        self.twice(Twice::Rewind, "Esc once more goes back to an earlier message")
    }

    fn twice(&mut self, chord: Twice, text: &str) -> Vec<Effect> {
        self.chord = Some(chord);
        let mut effects = self.status.toast(text.to_owned());
        effects.push(Effect::Wake(CHORD, Timer::Chord));
        effects
    }

    fn composer_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let before = self.composer.raw().to_owned();
        let is_enter = key.code == KeyCode::Enter && key.modifiers.is_empty();
        if is_enter && before.is_empty() && !self.approvals.is_open() && !self.status.is_working() {
            // Continues a turn that an earlier process left unfinished. The agent ignores the command if there is none.
            return vec![Effect::Send(Command::Continue)];
        }
        if let Wrote::Submit(prompt) = self.composer.key(key) {
            self.completion.close();
            return if self.approvals.is_open() {
                self.reply_to_question(prompt)
            } else {
                self.submit(prompt, DeliveryMode::Steer)
            };
        }
        if self.composer.raw() == before {
            // Only the cursor moved, so the completions offered for the previous place are out of date.
            self.completion.close();
            return Vec::new();
        }
        let mut effects = self.draft.changed();
        if self.composer.is_browsing() || self.composer.is_searching() {
            self.completion.close();
        } else {
            effects.extend(self.complete_here());
        }
        effects
    }

    fn complete_here(&mut self) -> Vec<Effect> {
        self.completion.refresh(self.composer.raw(), self.composer.cursor())
    }

    fn complete(&mut self, range: Range<usize>, text: &str, run: bool) -> Vec<Effect> {
        self.composer.replace(range, text);
        if run {
            let mut prompt = self.composer.take();
            prompt.text.truncate(prompt.text.trim_end().len());
            return self.submit(prompt, DeliveryMode::Steer);
        }
        let mut effects = self.draft.changed();
        effects.extend(self.complete_here());
        effects
    }

    fn overlay_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let writing = self.writing();
        let Some(overlay) = &mut self.overlay else { return Vec::new() };
        let effects = match overlay.key(key, writing, &self.theme) {
            overlay::Outcome::Stays(effects) => Some(effects),
            overlay::Outcome::Closed => None,
            overlay::Outcome::Text => return self.beside_page(key),
        };
        self.page_answered(effects)
    }

    /// Handles the page's effects after a key; `None`: the page closes.
    fn page_answered(&mut self, effects: Option<Vec<Effect>>) -> Vec<Effect> {
        if self.preview.is_some() {
            return self.compaction_answered(effects);
        }
        let mut effects = effects;
        if let Some(effects) = &mut effects
            && self.permissions_answered(effects)
        {
            self.overlay = None;
            return std::mem::take(effects);
        }
        // The transcript reports the result, so the page closes.
        let answered = |effect: &Effect| matches!(effect, Effect::Send(Command::CarryOut { .. }));
        if effects.as_ref().is_none_or(|effects| effects.iter().any(answered)) {
            self.overlay = None;
        }
        effects.unwrap_or_default()
    }

    /// Handles typing while a page asks a question. A text that is sent refuses, unless it was begun before the page
    /// was read.
    fn beside_page(&mut self, key: KeyEvent) -> Vec<Effect> {
        let closes = self.overlay.as_ref().is_some_and(Overlay::takes_reply);
        match self.composer.key(key) {
            Wrote::Submit(prompt) => {
                let mut effects = if closes { self.page_answered(None) } else { Vec::new() };
                effects.extend(self.submit(prompt, DeliveryMode::Steer));
                effects
            }
            _ => self.draft.changed(),
        }
    }

    fn picker_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some(picker) = &mut self.picker else { return Vec::new() };
        let kind = picker.kind();
        match picker.key(key) {
            picker::Outcome::Stays => self.previewed(),
            picker::Outcome::Closed => {
                self.picker = None;
                Vec::new()
            }
            picker::Outcome::Chosen(id) => {
                self.picker = None;
                self.picked(kind, &id)
            }
        }
    }

    fn inspector_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.code == KeyCode::Char('b') && self.inspector.as_ref().is_some_and(|i| !i.is_asking()) {
            self.inspector = None;
            return self.choose_folded();
        }
        let effects = self.inspector.as_mut().and_then(|inspector| inspector.key(key));
        effects.unwrap_or_else(|| {
            self.inspector = None;
            vec![Effect::Ask(Request::InspectorClosed)]
        })
    }

    fn palette_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some(palette) = &mut self.palette else { return Vec::new() };
        match palette.key(key) {
            palette::Outcome::Stays(effects) => effects,
            palette::Outcome::Closed => {
                self.palette = None;
                Vec::new()
            }
            palette::Outcome::Chosen(text) => {
                self.palette = None;
                match commands::parse(&text) {
                    Some(Ok(action)) => self.act(action),
                    Some(Err(why)) => self.ask_argument(&text, why),
                    None => Vec::new(),
                }
            }
        }
    }

    fn ctrl_c(&mut self, leaving: bool) -> Vec<Effect> {
        if self.status.is_working() {
            return vec![Effect::Send(Command::Interrupt)];
        }
        if self.status.command().is_some() {
            return vec![Effect::Ask(Request::StopShell)];
        }
        if !self.composer.is_empty() {
            self.composer.clear();
            self.completion.close();
            return self.draft.gone();
        }
        if leaving {
            return vec![Effect::Quit];
        }
        self.twice(Twice::Leave, "Ctrl-C once more quits")
    }
}
