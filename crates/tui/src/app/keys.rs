//! Routing of keys to panes, and of submitted texts: a task for the agent, a command of the interface, a shell command of
//! the user, or a line for AGENTS.md. A question comes first, then a page, then the palette; the composer comes last.

use super::editor::Completed;
use super::pages::compaction::bring_back;
use super::permissions::marked;
use super::{App, Twice, undo};
use crate::approval;
use crate::commands::{self, Action, Said};
use crate::composer::{Outcome as Wrote, Prompt};
use crate::input::{Effect, Keep, Request, Timer, To};
use crate::inspector::Inspector;
use crate::keymap::Do;
use crate::overlay::{self, Overlay};
use crate::palette::{self, Palette};
use crate::picker::{self, Kind, Picker};
use crate::transcript::Folded;
use crate::transcript::block::Weight;
use becket_types::{Command, DeliveryMode, PermissionMode, Seq};
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
                return effects.unwrap_or_else(|| self.beside_page(key));
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
            _ if asking => return self.asked_key(key, action),
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
                self.submit(prompt, DeliveryMode::Queue)
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
            Completed::Run(prompt) => Some(self.submit(prompt, DeliveryMode::Steer)),
        }
    }

    fn writing_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let first = key.code == KeyCode::Up
            && self.editor.composer.is_at_top()
            && !self.editor.composer.is_browsing();
        match self.editor.waiting.last().filter(|_| first) {
            Some(id) => vec![Effect::Send(Command::Withdraw { client_id: id.to_owned() })],
            None => self.composer_key(key),
        }
    }

    /// Handles a key while a question is open. The question gets keys that answer it, actions that show its subject
    /// run, and the rest is typing.
    fn asked_key(&mut self, key: KeyEvent, action: Option<Do>) -> Vec<Effect> {
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
            approval::Outcome::Text => self.writing_key(key),
        }
    }

    /// True if a question would cover a page, a list or a search that has the keyboard.
    fn is_covering(&self) -> bool {
        self.pages.is_open() || self.reading.is_open(&self.transcript)
    }

    /// Handles a text that was sent while a question is open. It is the reason for a refusal, unless it was begun
    /// before the question was read.
    fn reply_to_question(&mut self, prompt: Prompt) -> Vec<Effect> {
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

    fn perform(&mut self, action: Do) -> Vec<Effect> {
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
            return self.editor.waiting.interrupted();
        }
        if self.status.command().is_some() {
            return vec![Effect::Ask(Request::StopShell)];
        }
        if !self.editor.composer.is_empty() || self.messages.is_empty() && !self.transcript.has_gaps() {
            return Vec::new();
        }
        if again {
            return self.choose_message();
        }
        self.twice(Twice::Rewind, "Esc once more goes back to an earlier message")
    }

    fn twice(&mut self, chord: Twice, text: &str) -> Vec<Effect> {
        self.keyboard.chord = Some(chord);
        let mut effects = self.status.toast(text.to_owned());
        effects.push(Effect::Wake(CHORD, Timer::Chord));
        effects
    }

    fn composer_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let before = self.editor.composer.raw().to_owned();
        let is_enter = key.code == KeyCode::Enter && key.modifiers.is_empty();
        if is_enter && before.is_empty() && !self.approvals.is_open() && !self.status.is_working() {
            // Continues a turn that an earlier process left unfinished. The agent ignores the command if there is none.
            return vec![Effect::Send(Command::Continue)];
        }
        if let Wrote::Submit(prompt) = self.editor.composer.key(key) {
            self.editor.completion.close();
            return if self.approvals.is_open() {
                self.reply_to_question(prompt)
            } else {
                self.submit(prompt, DeliveryMode::Steer)
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
        let Some(overlay) = &mut self.pages.overlay else { return Vec::new() };
        let effects = match overlay.key(key, writing, &self.look.theme) {
            overlay::Outcome::Stays(effects) => Some(effects),
            overlay::Outcome::Closed => None,
            overlay::Outcome::Text => return self.beside_page(key),
            overlay::Outcome::Writing => {
                self.pages.close_page();
                return self.key(key);
            }
        };
        self.page_answered(effects)
    }

    /// Handles the page's effects after a key; `None`: the page closes.
    fn page_answered(&mut self, effects: Option<Vec<Effect>>) -> Vec<Effect> {
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
        // The transcript reports the result, so the page closes.
        let answered = |effect: &Effect| matches!(effect, Effect::Send(Command::CarryOut { .. }));
        if effects.as_ref().is_none_or(|effects| effects.iter().any(answered)) {
            self.pages.overlay = None;
        }
        effects.unwrap_or_default()
    }

    /// Handles typing while a page asks. A text that is sent refuses, unless it was begun before the page was read.
    fn beside_page(&mut self, key: KeyEvent) -> Vec<Effect> {
        let closes = self.pages.overlay.as_ref().is_some_and(Overlay::takes_reply);
        match self.editor.composer.key(key) {
            Wrote::Submit(prompt) => {
                let mut effects = if closes { self.page_answered(None) } else { Vec::new() };
                effects.extend(self.submit(prompt, DeliveryMode::Steer));
                effects
            }
            _ => self.editor.draft.changed(self.editor.composer.is_empty()),
        }
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
                self.picked(kind, &id)
            }
        }
    }

    fn inspector_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.code == KeyCode::Char('b') && self.pages.inspector.as_ref().is_some_and(|i| !i.is_asking()) {
            self.pages.inspector = None;
            return self.choose_folded();
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
                    Some(Ok(action)) => self.act(action),
                    Some(Err(why)) => self.ask_argument(&text, why),
                    None => Vec::new(),
                }
            }
        }
    }

    fn key_page_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Some((provider, key)) = self.pages.key_page_key(key) else { return Vec::new() };
        let said = self.status.toast(format!("asking {provider} if the key is valid …"));
        said.into_iter().chain([Effect::Ask(Request::KeepKey { provider, key })]).collect()
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

    pub(super) fn submit(&mut self, prompt: Prompt, mode: DeliveryMode) -> Vec<Effect> {
        let mut effects = self.editor.draft.gone();
        let more = match Said::of(&prompt) {
            Said::Command(Ok(action)) if self.approvals.is_open() && action.opens_page() => {
                self.pages.hold(prompt)
            }
            Said::Command(Ok(action)) => self.act(action),
            Said::Command(Err(why)) => self.ask_argument(&prompt.text, why),
            Said::Shell(_) if self.status.command().is_some() => {
                self.editor.composer.set(&prompt.text);
                self.status.toast("one command at a time; Esc stops the one that runs".to_owned())
            }
            Said::Shell(command) => {
                self.status.set_command(Some(command.clone()));
                self.transcript.scroll_to_end();
                vec![Effect::Ask(Request::Shell { command }), Effect::Ask(Request::Remember(prompt.past()))]
            }
            Said::Memory(text) => vec![Effect::Ask(Request::Memorize { text })],
            Said::Task => {
                let remember = Effect::Ask(Request::Remember(prompt.past()));
                let mut effects = self.send(prompt, mode);
                effects.push(remember);
                effects
            }
        };
        effects.extend(more);
        effects
    }

    /// Reports that a command cannot run as it was written. If only its argument is missing, the command is put back
    /// into the composer, with a list of choices where there is one. Any other command is reported by a line in the
    /// transcript.
    fn ask_argument(&mut self, text: &str, why: String) -> Vec<Effect> {
        let name = text.trim().trim_start_matches('/');
        if !commands::needs_argument(name) {
            // If the command stayed in the composer, the next message would be typed after it.
            self.note(Weight::Warning, why);
            return Vec::new();
        }
        let mut effects = self.status.toast(why);
        effects.extend(self.editor.ask_argument(name));
        effects
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Quit => return vec![Effect::Quit],
            Action::Send(command) => {
                if matches!(command, Command::Rename { .. }) {
                    self.status.rename_sent();
                }
                return vec![Effect::Send(command)];
            }
            // The status line shows the model once the agent has accepted it.
            Action::Key => return vec![Effect::Ask(Request::Keys)],
            Action::Model(model) => return vec![Effect::Send(Command::SetModel { model })],
            Action::Mode(mode) => return self.set_mode(mode),
            Action::Help => {
                let shift = Some(self.window.reports_shift);
                let sheet = commands::help(self.editor.completion.known_customs(), shift);
                self.pages.open_sheet("help", sheet);
                return self.want_customs();
            }
            Action::Keys => self.pages.open_sheet("keys", self.keyboard.keymap.page()),
            Action::Vim => {
                let on = self.editor.composer.vim().is_none();
                self.editor.composer.set_vim(on);
                let said =
                    if on { "Vim's keys are on: Esc goes to normal mode" } else { "Vim's keys are off" };
                let mut effects = self.status.toast(said.to_owned());
                effects.push(Effect::Ask(Request::Keep(Keep::Vim(on))));
                return effects;
            }
            Action::Theme(name) => {
                return self.look.choose(&name).unwrap_or_else(|names| self.status.toast(names));
            }
            Action::CopyAnswer => return self.copy_answer(),
            Action::Switch(to) => return self.switch(to),
            Action::Sessions(query) => return vec![self.choose_session(&query)],
            Action::Rewind => return self.choose_message(),
            Action::Folded => return self.choose_folded(),
            Action::Inspect(request) => {
                let (inspector, effects) = Inspector::open(request);
                self.pages.inspector = Some(inspector);
                return effects;
            }
            Action::Memorize(text) => return vec![Effect::Ask(Request::Memorize { text })],
            Action::Task(text) => {
                return self.send(Prompt::of_command("/init", text.to_owned()), DeliveryMode::Steer);
            }
            // The host does not follow the state of the interface, so the request carries it.
            Action::Page(page) => {
                // A page that asks other programs or servers takes a while.
                let mut effects = self.status.toast("One moment: the page is being made.".to_owned());
                effects.push(Effect::Ask(Request::Page(self.status.fill_in(page))));
                return effects;
            }
            Action::Resume(session) => return vec![Effect::Ask(Request::Resume { session })],
            Action::Export { format, file } => return vec![Effect::Ask(Request::Export { format, file })],
            Action::StopJob(job) => return vec![Effect::Ask(Request::StopJob { job })],
            Action::Custom { name, arguments } => {
                return vec![Effect::Ask(Request::Custom { name, arguments })];
            }
        }
        Vec::new()
    }

    fn want_customs(&self) -> Vec<Effect> {
        if self.editor.completion.known_customs().is_empty() {
            vec![Effect::Ask(Request::CustomCommands)]
        } else {
            Vec::new()
        }
    }

    /// Changes the permission mode. The first change to the mode that skips questions asks for confirmation.
    fn set_mode(&mut self, mode: PermissionMode) -> Vec<Effect> {
        if let Some(page) = self.permissions.confirmation(mode, self.status.mode()) {
            self.pages.overlay = Some(page);
            return Vec::new();
        }
        let mode = mode.to_string();
        let mut effects = self.status.set_mode(&mode);
        effects.push(Effect::Send(Command::SetMode { mode }));
        effects
    }

    fn copy_answer(&mut self) -> Vec<Effect> {
        match self.transcript.last_answer() {
            Some(answer) => {
                let mut effects = vec![Effect::Copy(answer.to_owned())];
                effects.extend(self.status.toast("the last answer is in the clipboard".to_owned()));
                effects
            }
            None => self.status.toast("there is no answer to copy yet".to_owned()),
        }
    }

    /// Switches to another session, only while nothing runs: switching must not end the agent's work as a side effect.
    pub(super) fn switch(&mut self, to: To) -> Vec<Effect> {
        if self.status.is_working() || self.status.command().is_some() {
            return self.status.toast("wait until it finishes, or stop it with Esc".to_owned());
        }
        vec![Effect::Switch(to)]
    }

    /// Opens the list of the user's messages.
    fn choose_message(&mut self) -> Vec<Effect> {
        if self.status.is_working() {
            return self.status.toast("wait until it finishes, or stop it with Esc".to_owned());
        }
        if self.transcript.has_gaps() {
            self.pages.pick(Kind::Message, "");
            return vec![Effect::Ask(Request::Said)];
        }
        if self.messages.is_empty() {
            return self.status.toast("there is no message to go back to yet".to_owned());
        }
        self.pages.picker = Some(Picker::new(Kind::Message, "", Some(self.messages.rows())));
        self.previewed()
    }

    /// Opens the list of the messages that compactions removed, or that the compaction with the focus removed.
    pub(super) fn choose_folded(&mut self) -> Vec<Effect> {
        if self.status.is_working() {
            return self.status.toast("wait until it finishes, or stop it with Esc".to_owned());
        }
        match self.transcript.folded() {
            Folded::Here(folded) => self.choose_removed(&folded),
            Folded::Ask(entry) => {
                self.transcript.end_focus();
                self.pages.pick(Kind::Folded, "");
                vec![Effect::Ask(Request::Folded { entry })]
            }
        }
    }

    pub(super) fn choose_removed(&mut self, removed: &[(Seq, String)]) -> Vec<Effect> {
        if let Err(none) = self.pages.choose_removed(removed) {
            return self.status.toast(none);
        }
        self.transcript.end_focus();
        self.previewed()
    }

    fn picked(&mut self, kind: Kind, id: &str) -> Vec<Effect> {
        match kind {
            Kind::Session => vec![Effect::Ask(Request::Resume { session: id.to_owned() })],
            Kind::Message => {
                if let Some((to, text)) = self.messages.find(id) {
                    self.pages.overlay = Some(undo::rewind(to, text, &self.messages.since(&to)));
                }
                Vec::new()
            }
            Kind::Folded => bring_back(id),
        }
    }

    pub(super) fn send(&mut self, prompt: Prompt, mode: DeliveryMode) -> Vec<Effect> {
        self.transcript.scroll_to_end();
        let mut effects = vec![self.editor.send(prompt, mode, self.status.is_working())];
        effects.extend(self.status.sent());
        effects
    }
}
