//! Submitted texts and commands of the interface, and their effects: a task for the agent, a shell command of the user, a line for
//! AGENTS.md, a page, or a choice in a list.
//!
//! Owns no state. `keys` and `asked` decide that a text was submitted.

use super::App;
use super::pages::compaction::bring_back;
use super::undo;
use crate::commands::{self, Action, Said};
use crate::composer::Prompt;
use crate::input::{Effect, Keep, Request, To};
use crate::inspector::Inspector;
use crate::picker::{Kind, Picker};
use crate::transcript::Folded;
use crate::transcript::block::Weight;
use becket_types::{Command, DeliveryMode, PermissionMode, Seq};

impl App {
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
    pub(super) fn ask_argument(&mut self, text: &str, why: String) -> Vec<Effect> {
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

    pub(super) fn act(&mut self, action: Action) -> Vec<Effect> {
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

    pub(super) fn want_customs(&self) -> Vec<Effect> {
        if self.editor.completion.known_customs().is_empty() {
            vec![Effect::Ask(Request::CustomCommands)]
        } else {
            Vec::new()
        }
    }

    /// Changes the permission mode. The first change to the mode that skips questions asks for confirmation.
    pub(super) fn set_mode(&mut self, mode: PermissionMode) -> Vec<Effect> {
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
    pub(super) fn choose_message(&mut self) -> Vec<Effect> {
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

    pub(super) fn picked(&mut self, kind: Kind, id: &str) -> Vec<Effect> {
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
