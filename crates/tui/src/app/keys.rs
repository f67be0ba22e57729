//! Routing of keys to panes. A question comes first, then a page, then the palette; the composer comes last.
//!
//! Owns no state. `asked` handles keys while a question is open, `actions` the submitted texts and commands.

use super::editor::Completed;
use super::pages::Entered;
use super::{App, Twice, actions, asked};
use crate::commands;
use crate::composer::Outcome as Wrote;
use crate::input::{Effect, Request, Timer};
use crate::keymap::Do;
use crate::overlay;
use crate::palette::{self, Palette};
use crate::picker;
use becket_types::{Command, DeliveryMode, PermissionMode};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The second press of a key counts as a repetition within this time, in milliseconds.
const CHORD: u64 = 3_000;

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let chord = self.keyboard.chord.take();
        let action = self.keyboard.keymap.action(key);
        match key.code {
            _ if action == Some(Do::Suspend) => return vec![Effect::Suspend],
            // Keys that read the transcript above a question answer nothing, so they go there until the user closes the reading.
            _ if self.approvals.is_open() && self.reading.is_open(&self.transcript) => {
                self.approvals.disturb();
                let outcome = self.reading.key(key, &mut self.transcript, &self.look.theme);
                return self.read(outcome);
            }
            _ if self.approvals.is_open() && !self.editor.completion.is_open() => {}
            _ if self.approvals.is_open() => {
                // A completion list covers the question. The list gets keys first, and nobody can read the question
                // meanwhile.
                self.approvals.disturb();
                if let Some(effects) = self.completion_key(key) {
                    return effects;
                }
            }
            _ if self.pages.servers.is_open() => {
                let effects = self.pages.servers.key(key, self.editor.writing());
                return effects.unwrap_or_else(|| asked::beside_page(self, key));
            }
            _ if self.pages.key_page.is_some() => return self.key_page_key(key),
            _ if self.pages.overlay.is_some() => return self.overlay_key(key),
            _ if self.pages.inspector.is_some() => return self.inspector_key(key),
            _ if self.pages.picker.is_some() => return self.picker_key(key),
            _ if self.pages.palette.is_some() => return self.palette_key(key),
            _ if self.reading.is_open(&self.transcript) => {
                let outcome = self.reading.key(key, &mut self.transcript, &self.look.theme);
                return self.read(outcome);
            }
            _ if self.editor.composer.is_searching() => return self.composer_key(key),
            _ => {
                if let Some(effects) = self.completion_key(key) {
                    return effects;
                }
            }
        }
        let asking = self.approvals.is_open();
        match key.code {
            KeyCode::Char('c') if ctrl => return self.ctrl_c(chord == Some(Twice::Leave)),
            KeyCode::Char('d') if ctrl && self.editor.composer.is_empty() => return vec![Effect::Quit],
            _ if asking => return asked::asked_key(self, key, action),
            KeyCode::End if self.editor.composer.is_empty() => return self.perform(Do::End),
            _ => {}
        }
        if let Some(action) = action {
            return self.perform(action);
        }
        match key.code {
            KeyCode::Char('f')
                if ctrl && self.editor.composer.cursor() == self.editor.composer.raw().len() =>
            {
                self.reading.search();
                Vec::new()
            }
            KeyCode::Char('b') if ctrl && self.editor.composer.is_empty() && self.status.is_working() => {
                vec![Effect::Send(Command::Background { call_id: None })]
            }
            KeyCode::Up if key.modifiers == KeyModifiers::ALT => {
                self.transcript.move_focus(true, &self.look.theme);
                Vec::new()
            }
            KeyCode::Esc if self.editor.composer.takes_escape() => self.composer_key(key),
            KeyCode::Esc => self.escape(chord == Some(Twice::Rewind)),
            KeyCode::Tab if self.status.is_working() && !self.editor.composer.is_empty() => {
                let prompt = self.editor.composer.take();
                actions::submit(self, prompt, DeliveryMode::Queue)
            }
            _ => self.writing_key(key),
        }
    }

    /// Handles a key for the completion list. Returns `None` if no list is open or it does not use the key.
    fn completion_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        match self.editor.completion_key(key)? {
            Completed::Changed(mut effects) => {
                // A command that cannot run yet says what is missing, unless a list offers it.
                let text = self.editor.composer.text();
                if key.code == KeyCode::Enter
                    && !self.editor.completion.is_open()
                    && commands::needs_argument(text.trim().trim_start_matches('/'))
                    && let Some(Err(why)) = commands::parse(&text)
                {
                    effects.extend(self.status.toast(why));
                }
                Some(effects)
            }
            Completed::Run(prompt) => Some(actions::submit(self, prompt, DeliveryMode::Steer)),
        }
    }

    pub(super) fn writing_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let first = key.code == KeyCode::Up
            && self.editor.composer.is_at_top()
            && !self.editor.composer.is_browsing();
        match self.editor.waiting.last().filter(|_| first) {
            Some(id) => vec![Effect::Send(Command::Withdraw { client_id: id.to_owned() })],
            None => self.composer_key(key),
        }
    }

    pub(super) fn perform(&mut self, action: Do) -> Vec<Effect> {
        match action {
            Do::Suspend => return vec![Effect::Suspend],
            Do::PageUp => self.transcript.scroll_pages(-1, &self.look.theme),
            Do::PageDown => self.transcript.scroll_pages(1, &self.look.theme),
            Do::EarlierMessage => self.transcript.scroll_to_user_message(true),
            Do::LaterMessage => self.transcript.scroll_to_user_message(false),
            Do::End => self.transcript.scroll_to_end(),
            Do::Open => self.transcript.toggle_open(),
            Do::Hidden => self.transcript.toggle_hidden(),
            Do::Status => self.status.toggle_whole(),
            Do::Editor => return vec![Effect::Ask(Request::Edit { text: self.editor.composer.text() })],
            Do::Palette => {
                self.editor.completion.close();
                self.pages.palette = Some(Palette::open(self.editor.completion.known_customs().to_vec()));
                return actions::want_customs(self);
            }
            Do::PasteImage => return vec![Effect::Ask(Request::ClipboardImage)],
            Do::NextMode => {
                let next = match self.status.mode() {
                    "default" => PermissionMode::AcceptEdits,
                    "acceptEdits" => PermissionMode::Plan,
                    _ => PermissionMode::Default,
                };
                return actions::set_mode(self, next);
            }
        }
        Vec::new()
    }

    /// Interrupts the agent. While it is idle, the second Esc goes back to an earlier message.
    fn escape(&mut self, again: bool) -> Vec<Effect> {
        if self.status.is_working() {
            return self.editor.waiting.interrupted();
        }
        if self.status.command().is_some() {
            return vec![Effect::Ask(Request::StopShell)];
        }
        if !self.editor.composer.is_empty() || self.messages.is_empty() && !self.transcript.has_gaps() {
            return Vec::new();
        }
        if again {
            return actions::choose_message(self);
        }
        self.twice(Twice::Rewind, "Esc once more goes back to an earlier message")
    }

    fn twice(&mut self, chord: Twice, text: &str) -> Vec<Effect> {
        self.keyboard.chord = Some(chord);
        let mut effects = self.status.toast(text.to_owned());
        effects.push(Effect::Wake(CHORD, Timer::Chord));
        effects
    }

    pub(super) fn composer_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let before = self.editor.composer.raw().to_owned();
        let is_enter = key.code == KeyCode::Enter && key.modifiers.is_empty();
        if is_enter && before.is_empty() && !self.approvals.is_open() && !self.status.is_working() {
            // Continues a turn that an earlier process left unfinished. The agent ignores the command if there is none.
            return vec![Effect::Send(Command::Continue)];
        }
        if let Wrote::Submit(prompt) = self.editor.composer.key(key) {
            self.editor.completion.close();
            return if self.approvals.is_open() {
                asked::reply_to_question(self, prompt)
            } else {
                actions::submit(self, prompt, DeliveryMode::Steer)
            };
        }
        if self.editor.composer.raw() == before {
            // Only the cursor moved, so the completions offered for the previous place are out of date.
            self.editor.completion.close();
            return Vec::new();
        }
        self.editor.typed()
    }

    fn overlay_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let writing = self.editor.writing();
        let opens = self.keyboard.keymap.action(key) == Some(Do::Open);
        let Some(overlay) = &mut self.pages.overlay else { return Vec::new() };
        if opens && overlay.show_other() {
            return Vec::new();
        }
        let effects = match overlay.key(key, writing, &self.look.theme) {
            overlay::Outcome::Stays(effects) => Some(effects),
            overlay::Outcome::Closed => None,
            overlay::Outcome::Text => return asked::beside_page(self, key),
            overlay::Outcome::Writing => {
                self.pages.close_page();
                return self.key(key);
            }
        };
        self.page_answered(effects)
    }

    /// Handles the page's effects after a key; `None`: the page closes.
    pub(super) fn page_answered(&mut self, effects: Option<Vec<Effect>>) -> Vec<Effect> {
        if self.pages.shows_compaction() {
            let answered = self.pages.compaction_answered(effects);
            return answered.unwrap_or_else(|| self.status.toast("nothing was compacted".to_owned()));
        }
        let mut effects = effects;
        if let Some(effects) = &mut effects
            && self.permissions.answered(effects, &mut self.status)
        {
            self.pages.overlay = None;
            return std::mem::take(effects);
        }
        // The transcript reports the result of a plan that is carried out, so the page closes.
        let answered = |effect: &Effect| matches!(effect, Effect::Send(Command::CarryOut { .. }));
        if effects.as_ref().is_none_or(|effects| effects.iter().any(answered)) {
            self.pages.overlay = None;
        }
        effects.unwrap_or_default()
    }

    fn picker_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some(picker) = &mut self.pages.picker else { return Vec::new() };
        let kind = picker.kind();
        match picker.key(key) {
            picker::Outcome::Stays => self.previewed(),
            picker::Outcome::Closed => {
                self.pages.picker = None;
                Vec::new()
            }
            picker::Outcome::Chosen(id) => {
                self.pages.picker = None;
                actions::picked(self, kind, &id)
            }
        }
    }

    fn inspector_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.code == KeyCode::Char('b') && self.pages.inspector.as_ref().is_some_and(|i| !i.is_asking()) {
            self.pages.inspector = None;
            return actions::ask_for_removed(self);
        }
        let effects = self.pages.inspector.as_mut().and_then(|inspector| inspector.key(key));
        effects.unwrap_or_else(|| {
            self.pages.inspector = None;
            vec![Effect::Ask(Request::InspectorClosed)]
        })
    }

    fn palette_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some(palette) = &mut self.pages.palette else { return Vec::new() };
        match palette.key(key) {
            palette::Outcome::Stays(effects) => effects,
            palette::Outcome::Closed => {
                self.pages.palette = None;
                Vec::new()
            }
            palette::Outcome::Chosen(text) => {
                self.pages.palette = None;
                match commands::parse(&text) {
                    Some(Ok(action)) => actions::act(self, action),
                    Some(Err(why)) => actions::ask_argument(self, &text, why),
                    None => Vec::new(),
                }
            }
        }
    }

    fn key_page_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let (said, request) = match self.pages.key_page_key(key) {
            None => return Vec::new(),
            Some(Entered::Effects(effects)) => return effects,
            Some(Entered::Key(provider, key)) => {
                (format!("asking {provider} if the key is valid …"), Request::KeepKey { provider, key })
            }
            Some(Entered::Cancelled(provider)) => {
                (format!("the login at {provider} is cancelled"), Request::CancelLogin)
            }
        };
        let said = self.status.toast(said);
        said.into_iter().chain([Effect::Ask(request)]).collect()
    }

    fn ctrl_c(&mut self, leaving: bool) -> Vec<Effect> {
        if self.status.is_working() {
            return self.editor.waiting.interrupted();
        }
        if self.status.command().is_some() {
            return vec![Effect::Ask(Request::StopShell)];
        }
        if !self.editor.composer.is_empty() {
            return self.editor.clear();
        }
        if leaving {
            return vec![Effect::Quit];
        }
        self.twice(Twice::Leave, "Ctrl-C once more quits")
    }
}
