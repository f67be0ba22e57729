//! Acts on a submitted text: a task for the agent, a command of the interface, a shell command of the user, or a line
//! for AGENTS.md.

use super::App;
use super::compaction::bring_back;
use crate::commands::{self, Action, Said};
use crate::composer::Prompt;
use crate::input::{Effect, Keep, Page, Request, To};
use crate::inspector::Inspector;
use crate::menu::Item;
use crate::overlay::Overlay;
use crate::picker::{Kind, Picker, Row};
use crate::text;
use crate::theme::Theme;
use crate::transcript::block::Weight;
use crate::transcript::pasted;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_types::{Command, DeliveryMode, ImageSource, Part, PromptInput};

impl App {
    pub(super) fn submit(&mut self, prompt: Prompt, mode: DeliveryMode) -> Vec<Effect> {
        let mut effects = self.draft.gone();
        let more = match Said::of(&prompt) {
            Said::Command(Ok(action)) => self.act(action),
            Said::Command(Err(why)) => self.ask_argument(&prompt.text, why),
            Said::Shell(_) if self.status.command().is_some() => {
                self.composer.set(&prompt.text);
                self.status.toast("one command at a time; Esc stops the one that runs".to_owned())
            }
            Said::Shell(command) => {
                self.status.set_command(Some(command.clone()));
                self.transcript.to_end();
                vec![
                    Effect::Ask(Request::Shell { command }),
                    Effect::Ask(Request::Remember { prompt: prompt.text }),
                ]
            }
            Said::Memory(text) => vec![Effect::Ask(Request::Memorize { text })],
            Said::Task => {
                let remember = Effect::Ask(Request::Remember { prompt: prompt.text.clone() });
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
        self.composer.set(&format!("/{name} "));
        effects.extend(self.completion.refresh(self.composer.raw(), self.composer.cursor()));
        effects
    }

    pub(super) fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Quit => return vec![Effect::Quit],
            Action::Send(command) => {
                self.renaming |= matches!(command, Command::Rename { .. });
                return vec![Effect::Send(command)];
            }
            // The status line shows the model once the agent has accepted it.
            Action::Key => return vec![Effect::Ask(Request::Keys)],
            Action::Model(model) => return vec![Effect::Send(Command::SetModel { model })],
            Action::Mode(mode) => return self.set_mode(mode),
            Action::Help => {
                self.page(
                    "help",
                    commands::help(&self.customs, self.columns.into(), Some(self.reports_shift)),
                );
                return self.want_customs();
            }
            Action::Keys => self.page("keys", self.keymap.page()),
            Action::Vim => {
                let on = self.composer.vim().is_none();
                self.composer.set_vim(on);
                let said = if on { "Vim's keys are on: Esc is normal mode" } else { "Vim's keys are off" };
                let mut effects = self.status.toast(said.to_owned());
                effects.push(Effect::Ask(Request::Keep(Keep::Vim(on))));
                return effects;
            }
            Action::Theme(name) => return self.set_theme(&name),
            Action::CopyAnswer => return self.copy_answer(),
            Action::Switch(to) => return self.switch(to),
            Action::Sessions(query) => {
                self.picker = Some(Picker::new(Kind::Session, &query, None));
                return vec![Effect::Ask(Request::Sessions)];
            }
            Action::Rewind => return self.choose_message(),
            Action::Folded => return self.choose_folded(),
            Action::Inspect(request) => {
                let (inspector, effects) = Inspector::open(request);
                self.inspector = Some(inspector);
                return effects;
            }
            Action::Memorize(text) => return vec![Effect::Ask(Request::Memorize { text })],
            Action::Task(text) => {
                let prompt = Prompt { text: text.to_owned(), ..Prompt::default() };
                return self.send(prompt, DeliveryMode::Steer);
            }
            Action::Host { name, arguments } => {
                // The host does not know the state of the interface, so the arguments carry it.
                let arguments = match name.as_str() {
                    "permissions" | "status" => self.status.mode().to_owned(),
                    // The size of the context window and the usable part of it, in tokens; 0 while unknown.
                    "context" => {
                        let (window, usable) = self.status.window();
                        format!("{window} {usable}")
                    }
                    _ => arguments,
                };
                return vec![Effect::Ask(Request::Command { name, arguments })];
            }
            Action::Custom { name, arguments } => {
                return vec![Effect::Ask(Request::Custom { name, arguments })];
            }
        }
        Vec::new()
    }

    pub(super) fn page(&mut self, title: &str, markdown: String) {
        self.overlay = Some(Overlay::new(Page { title: title.to_owned(), markdown, ..Page::default() }));
    }

    pub(super) fn want_customs(&self) -> Vec<Effect> {
        if self.customs.is_empty() { vec![Effect::Ask(Request::CustomCommands)] } else { Vec::new() }
    }

    fn set_theme(&mut self, name: &str) -> Vec<Effect> {
        let own = self.themes.iter().find(|t| t.name == name).cloned();
        let Some(theme) = own.or_else(|| Theme::by_name(name)) else {
            let own = self.themes.iter().map(|t| t.name.to_string());
            let names: Vec<String> = Theme::NAMES.iter().map(|n| (*n).to_owned()).chain(own).collect();
            return self.status.toast(format!("themes: {}", names.join(", ")));
        };
        let name = theme.name.to_string();
        self.theme = theme;
        self.follow = name == "system";
        let mut effects = vec![Effect::Ask(Request::Keep(Keep::Theme(name)))];
        effects.extend(self.begin());
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
            return self.status.toast("first let it finish, or stop it with Esc".to_owned());
        }
        vec![Effect::Switch(to)]
    }

    /// Opens the list of the user's messages.
    pub(super) fn choose_message(&mut self) -> Vec<Effect> {
        if self.status.is_working() {
            return self.status.toast("first let it finish, or stop it with Esc".to_owned());
        }
        if self.transcript.has_gaps() {
            self.picker = Some(Picker::new(Kind::Message, "", None));
            return vec![Effect::Ask(Request::Said)];
        }
        if self.said.is_empty() {
            return self.status.toast("there is no message to go back to yet".to_owned());
        }
        self.picker = Some(Picker::new(Kind::Message, "", Some(self.messages())));
        self.previewed()
    }

    /// Returns the user's messages, newest first.
    pub(super) fn messages(&self) -> Vec<Row> {
        let row = |(_, id, text): &(_, becket_types::MessageId, String)| {
            let first = text.lines().find(|l| !l.trim().is_empty()).unwrap_or_default();
            let name = text::fit(first.trim(), 200).into_owned();
            Row { id: id.to_string(), item: Item { name, detail: String::new() } }
        };
        self.said.iter().rev().map(row).collect()
    }

    pub(super) fn picked(&mut self, kind: Kind, id: &str) -> Vec<Effect> {
        match kind {
            Kind::Session => {
                let arguments = id.to_owned();
                vec![Effect::Ask(Request::Command { name: "resume".to_owned(), arguments })]
            }
            Kind::Message => self.rewind(id),
            Kind::Folded => bring_back(id),
        }
    }

    pub(super) fn send(&mut self, prompt: Prompt, mode: DeliveryMode) -> Vec<Effect> {
        let mut parts: Vec<Part> = self.ran.drain(..).map(Part::text).collect();
        if !prompt.text.trim().is_empty() {
            parts.push(pasted::part(prompt.text.clone(), &prompt.pasted));
        }
        for (media_type, bytes) in prompt.images {
            parts.push(Part::Image {
                media_type,
                source: ImageSource::Base64(STANDARD.encode(&bytes)),
                name: None,
                width: None,
                height: None,
                extra: serde_json::Map::new(),
            });
        }
        self.transcript.to_end();
        let client_id = self.status.is_working().then(|| self.waiting.put(&prompt.text, mode));
        let mut effects = vec![Effect::Send(Command::Prompt(PromptInput { parts, mode, client_id }))];
        effects.extend(self.status.sent());
        effects
    }
}
