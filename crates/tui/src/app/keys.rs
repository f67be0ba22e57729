//! Which pane a key is for: a question before a page, a page before the palette, what is being written last.

use super::{App, Twice};
use crate::commands;
use crate::completion::Choice;
use crate::composer::Outcome;
use crate::input::{Effect, Request, Timer};
use crate::keymap::Do;
use crate::palette::{self, Palette};
use crate::picker;
use becket_types::{Command, DeliveryMode, PermissionMode};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::ops::Range;

/// How long a first press counts, in milliseconds.
const CHORD: u64 = 3_000;

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let chord = self.chord.take();
        let action = self.keymap.action(key);
        match key.code {
            _ if action == Some(Do::Suspend) => return vec![Effect::Suspend],
            _ if self.approvals.is_open() => {}
            _ if self.overlay.is_some() => return self.overlay_key(key),
            _ if self.inspector.is_some() => return self.inspector_key(key),
            _ if self.picker.is_some() => return self.picker_key(key),
            _ if self.palette.is_some() => return self.palette_key(key),
            _ if self.reading.is_open(&self.transcript) => {
                let outcome = self.reading.key(key, &mut self.transcript, &self.theme);
                return self.read(outcome);
            }
            _ if self.composer.is_searching() => return self.composer_key(key),
            _ if self.completion.is_open() => match self.completion.key(key) {
                Choice::None => {}
                Choice::Moved => return Vec::new(),
                Choice::Put { range, text, run } => return self.complete(range, &text, run),
            },
            _ => {}
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
            KeyCode::Up if self.composer.is_at_top() && !self.composer.is_browsing() => {
                match self.waiting.last() {
                    Some(id) => vec![Effect::Send(Command::Withdraw { client_id: id.to_owned() })],
                    None => self.composer_key(key),
                }
            }
            _ => self.composer_key(key),
        }
    }

    /// A question is open: it gets the keys, but for those that show what it is about.
    fn asked_key(&mut self, key: KeyEvent, action: Option<Do>) -> Vec<Effect> {
        match action {
            Some(action @ (Do::EarlierMessage | Do::LaterMessage | Do::Open | Do::Hidden)) => {
                self.perform(action)
            }
            _ => self.approvals.key(key),
        }
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

    /// Interrupts; while nothing is under way, the second one goes back to an earlier message.
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
        if let Outcome::Submit(prompt) = self.composer.key(key) {
            self.completion.close();
            return self.submit(prompt, DeliveryMode::Steer);
        }
        if self.composer.raw() == before {
            // Only the cursor moved: what was offered stood where it was.
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
        let effects = self.overlay.as_mut().and_then(|overlay| overlay.key(key, &self.theme));
        if self.preview.is_some() {
            return self.compaction_answered(effects);
        }
        // What comes of it is said in the transcript.
        let answered = |effect: &Effect| matches!(effect, Effect::Send(Command::CarryOut { .. }));
        if effects.as_ref().is_none_or(|effects| effects.iter().any(answered)) {
            self.overlay = None;
        }
        effects.unwrap_or_default()
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
                    Some(Err(why)) => self.status.toast(why),
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
