//! The slash commands that the program knows, and the line with which it learns of others.
//!
//! Files of commands and skills are read again after each turn, which may have written one, and when the program asks. Prompts
//! of MCP servers come when their servers have started, and may change while a turn runs. `system/init` names the same
//! commands as the last line.

use super::known_commands::{KnownCommands, with_local};
use super::lines::Read;
use super::local::{self, LocalFacts};
use super::prompts::{with_command, with_servers};
use super::waits::{Clearing, Completion, QueuedLine};
use super::{Front, note, or_fail};
use crate::failure::Failure;
use becket_print::InputLine;
use becket_types::{Command, DeliveryMode, HookEvent, ImageSource, Part, PromptInput};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Wait before the result of a message without text. A program sends such a message only to open a session for
/// requests, such as a rewind of files, and may close its side at the result.
const OPEN: Duration = Duration::from_millis(300);

impl Front {
    /// Prints the list of slash commands for the driving program if it has changed. `read_files`: files and skills are read again.
    pub(super) fn tell_commands(&mut self, read_files: bool) -> Result<(), Failure> {
        if !self.input.driven {
            return Ok(());
        }
        let mut own = self.session.commands.own.clone();
        if read_files {
            own.retain(|(name, ..)| name == "compact");
            self.slash.add_to(&mut own);
        }
        let prompts =
            self.servers.hub.as_ref().map(|hub| crate::mcp::prompt_commands(hub)).unwrap_or_default();
        let now = KnownCommands::new(own, prompts);
        // A change that `ConfigChange` hooks are judging or have refused is not passed to them again.
        if now == self.session.commands || self.pending.commands.as_ref() == Some(&now) {
            return Ok(());
        }
        let hooks = self.session.hooks.clone().filter(|hooks| hooks.listens(HookEvent::ConfigChange));
        if let Some(hooks) = hooks {
            self.pending.commands = Some(now.clone());
            self.servers.waits.add_unordered(async move {
                let keys = json!({ "source": "skills" });
                let outcome = hooks.run(HookEvent::ConfigChange, Some("skills"), keys).await;
                let refused =
                    outcome.and_then(|outcome| outcome.block.map(|block| block.text).or(outcome.stop));
                Completion::Commands(now, refused)
            });
            return Ok(());
        }
        self.show_commands(now)
    }

    /// Prints the list of slash commands and skills after it has changed and the hooks for such changes have answered. If a hook
    /// refused the change, prints that instead.
    pub(super) fn commands_judged(
        &mut self,
        now: KnownCommands,
        refused: Option<String>,
    ) -> Result<(), Failure> {
        if let Some(why) = refused {
            note(&format!("a hook refused that commands and skills change: {why}"));
            return Ok(());
        }
        self.pending.commands = None;
        self.show_commands(now)
    }

    fn show_commands(&mut self, now: KnownCommands) -> Result<(), Failure> {
        self.session.commands = now;
        let known = &self.session.commands;
        let names = with_local(&known.own).into_iter().map(|(name, ..)| name).collect();
        let told = known.to_json();
        or_fail(self.printer.commands_changed(names, &told))
    }

    /// Reads commands and skills again, and answers with all commands.
    pub(super) fn reload_commands(&mut self) -> Result<Value, Failure> {
        self.tell_commands(true)?;
        Ok(json!({ "skills": self.session.commands.to_json() }))
    }

    /// True if a prompt is a command that becket answers itself.
    pub(super) fn is_local(&self, text: &str) -> bool {
        let Some((name, _)) = crate::slash::split_call(text) else { return false };
        local::is_local(name) && !self.session.commands.own.iter().any(|(known, ..)| known == name)
    }

    /// Answers a prompt that is a command of becket. Returns the prompt if it is not a command. During a turn, the answer waits for its end.
    pub(super) async fn local(&mut self, input: PromptInput) -> Result<Option<PromptInput>, Failure> {
        if input.parts.is_empty() {
            return self.blank(input).map(|()| None);
        }
        let [Part::Text { text, .. }] = &input.parts[..] else { return Ok(Some(input)) };
        let Some((name, arguments)) = crate::slash::split_call(text).filter(|_| self.is_local(text)) else {
            return Ok(Some(input));
        };
        if self.is_busy() {
            self.pending.local.push_back(QueuedLine::Prompt(input));
            return Ok(None);
        }
        let answer = match name {
            name if self.input.driven && clears(name) => {
                self.clear(input.client_id).await;
                return Ok(None);
            }
            "model" if !arguments.is_empty() => self.switched(arguments).await?,
            _ => {
                let live = self.live();
                let facts = LocalFacts {
                    live: &live,
                    figures: &self.figures,
                    commands: &self.session.commands,
                    rules: self.permission_rules(),
                    cwd: &self.session.cwd,
                    opening: &self.session.opening,
                };
                local::answer(name, arguments, &facts)
            }
        };
        self.printer.set_queued(self.queued());
        or_fail(self.printer.local_answer(&answer, input.client_id.as_deref()))?;
        Ok(None)
    }

    /// Answers a message without text. During a turn, the answer waits for its end.
    fn blank(&mut self, input: PromptInput) -> Result<(), Failure> {
        if self.is_busy() {
            self.pending.local.push_back(QueuedLine::Prompt(input));
            return Ok(());
        }
        self.printer.set_queued(self.queued());
        or_fail(self.printer.blank_begun(input.client_id.as_deref()))?;
        // An SDK closes its side at the result, so the result waits until the SDK has had time for its requests.
        self.servers.waits.add(async {
            tokio::time::sleep(OPEN).await;
            Completion::Blank
        });
        Ok(())
    }

    /// Chooses the model of the next request. A name that fits no model ends a run that a program does not drive.
    async fn switched(&mut self, name: &str) -> Result<String, Failure> {
        match (self.session.find_model)(name) {
            Ok(model) => {
                self.command(Command::SetModel { model: name.to_owned() }).await;
                Ok(format!("The next request goes to {}.", model.info().id))
            }
            Err(why) if self.input.driven => Ok(why),
            Err(why) => Err(Failure::usage(why)),
        }
    }

    /// Answers the commands that waited for the end of the turn, and sends the prompts that came after them.
    pub(super) async fn answer_waiting(&mut self) -> Result<(), Failure> {
        let waiting = std::mem::take(&mut self.pending.local);
        self.pending.leaving = waiting.len();
        for held in waiting {
            self.pending.leaving -= 1;
            if self.servers.waits.holds() {
                self.servers.waits.hold(held);
                continue;
            }
            match held {
                QueuedLine::Prompt(input) => self.prompt(input).await?,
                QueuedLine::Composed(input) => self.composed(input).await?,
                QueuedLine::Compact(command) => self.hand_command(command).await,
                QueuedLine::Request(..) => {}
            }
        }
        Ok(())
    }

    /// Sends a prompt without looking for slash commands and references to servers in it.
    pub(super) async fn composed(&mut self, input: PromptInput) -> Result<(), Failure> {
        if self.clear_waits() || self.waits_for_its_turn(&input) {
            self.pending.local.push_back(QueuedLine::Composed(input));
        } else if !self.refused_attachment(&input)? {
            self.command(Command::Prompt(input)).await;
        }
        Ok(())
    }

    /// Refuses a prompt with an attachment that has only an address, if the model's server fetches none. Returns true if it did.
    fn refused_attachment(&mut self, input: &PromptInput) -> Result<bool, Failure> {
        let is_address = |part: &Part| matches!(part, Part::Image { source: ImageSource::Url(_), .. });
        if !input.parts.iter().any(is_address) {
            return Ok(false);
        }
        // If the model cannot be opened, the request to it will report that, so nothing is refused here.
        let model = (self.session.find_model)(&self.live().model).ok();
        let why = model.and_then(|model| becket_model::unfetched(&input.parts, model.info()));
        let Some(why) = why else { return Ok(false) };
        or_fail(self.printer.no_turn(&why, input.client_id.as_deref()))?;
        Ok(true)
    }

    /// Sends a prompt, with its command expanded. A prompt that refers to a server is sent once the server has answered.
    pub(super) async fn prompt(&mut self, input: PromptInput) -> Result<(), Failure> {
        if self.clear_waits() || self.waits_for_its_turn(&input) {
            self.pending.local.push_back(QueuedLine::Prompt(input));
            return Ok(());
        }
        if self.refused_attachment(&input)? {
            return Ok(());
        }
        let Some(mut input) = self.local(input).await? else { return Ok(()) };
        if let [Part::Text { text, .. }] = &mut input.parts[..] {
            if let Some(hub) = self.servers.hub.as_ref().filter(|hub| crate::mcp::has_references(hub, text)) {
                let (hub, text) = (Arc::clone(hub), std::mem::take(text));
                let hooks = self.session.hooks.clone();
                self.servers.waits.add(async move { with_servers(&hub, input, text, hooks).await });
                return Ok(());
            }
            if crate::slash::split_call(text).is_some() {
                // Hooks of the program may judge the prompt, so the loop must go on meanwhile.
                let (slash, text) = (self.slash.clone(), text.clone());
                self.servers.waits.add(async move { with_command(&slash, input, text).await });
                return Ok(());
            }
        }
        self.command(Command::Prompt(input)).await;
        Ok(())
    }

    /// Sends the prompt with which the session's own agent begins: as a message of its own, or, if the driving program reads
    /// one result for each of its messages, in front of the first one.
    pub(super) async fn begin_with(&mut self, text: Option<String>) -> Result<(), Failure> {
        let Some(text) = text else { return Ok(()) };
        if self.input.one_turn_per_message {
            self.input.first_message_prefix = Some(text);
            return Ok(());
        }
        self.input.asked = true;
        let input = PromptInput { parts: vec![Part::text(text)], ..PromptInput::default() };
        if self.servers.waits.holds() {
            self.servers.waits.hold(QueuedLine::Prompt(input));
            return Ok(());
        }
        self.prompt(input).await
    }

    /// Puts in front of a message the text with which the session's own agent begins, and earlier messages that begin no turn.
    /// The latter are held back until a message comes that is no slash command.
    pub(super) fn with_earlier(&mut self, mut read: Read) -> Read {
        let Ok(InputLine::Command(Command::Prompt(input)) | InputLine::Composed(input)) = &mut read else {
            return read;
        };
        let is_command =
            matches!(&input.parts[..], [Part::Text { text, .. }] if crate::slash::split_call(text).is_some());
        let context = if is_command { Vec::new() } else { std::mem::take(&mut self.input.context) };
        let initial = self.input.first_message_prefix.take().map(Part::text);
        let mut before: Vec<Part> =
            initial.into_iter().chain(context.into_iter().flat_map(|input| input.parts)).collect();
        if before.is_empty() {
            return read;
        }
        before.append(&mut input.parts);
        let texts: Option<Vec<&str>> = before
            .iter()
            .map(|part| match part {
                Part::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        // Texts are joined, because slash commands and references to MCP servers are only recognized in a message that is one text.
        input.parts = match texts.map(|texts| texts.join("\n\n")) {
            Some(text) => vec![Part::text(text)],
            None => before,
        };
        read
    }

    /// Sends the agent the command that a message stands for, such as a compaction, or keeps it until the turn ends.
    pub(super) async fn hand_command(&mut self, command: Command) {
        if self.input.one_turn_per_message && self.is_busy() {
            self.pending.local.push_back(QueuedLine::Compact(command));
        } else {
            self.command(command).await;
        }
    }

    /// True while a turn runs, or a message has to be answered before the next one.
    fn is_busy(&self) -> bool {
        self.state.in_turn
            || !self.pending.waiting.is_empty()
            || self.input.one_turn_per_message && !self.pending.local.is_empty()
    }

    /// True if a message must wait because it gets a turn of its own.
    fn waits_for_its_turn(&self, input: &PromptInput) -> bool {
        self.input.one_turn_per_message && input.mode == DeliveryMode::Queue && self.is_busy()
    }

    /// True while a message waits here that only the agent can answer.
    pub(super) fn prompt_waits(&self) -> bool {
        self.input.one_turn_per_message
            && self.pending.local.iter().any(|held| match held {
                QueuedLine::Prompt(PromptInput { parts, .. }) => match &parts[..] {
                    [] => false,
                    [Part::Text { text, .. }] => !self.is_local(text),
                    _ => true,
                },
                QueuedLine::Composed(_) | QueuedLine::Compact(_) => true,
                QueuedLine::Request(..) => false,
            })
    }

    /// Returns the number of messages that wait for a turn.
    pub(super) fn queued(&self) -> usize {
        let held = self.pending.local.iter().chain(self.servers.waits.held_lines());
        self.pending.waiting.len() + self.pending.leaving + held.filter(|line| line.is_message()).count()
    }

    /// Returns the driving program's ids of the messages that wait for a turn.
    pub(super) fn queued_ids(&self) -> Vec<&str> {
        let held = self.pending.local.iter().chain(self.servers.waits.held_lines());
        let sent = self.pending.waiting.iter().flatten().map(String::as_str);
        sent.chain(held.filter_map(QueuedLine::client_id)).collect()
    }

    /// Discards the messages that wait here, and returns the driving program's ids of them.
    pub(super) fn drop_waiting(&mut self) -> Vec<String> {
        let mut ids = self.servers.waits.drop_prompts();
        for line in std::mem::take(&mut self.pending.local) {
            ids.extend(line.client_id().map(str::to_owned));
        }
        ids
    }

    /// True while a command that clears the conversation waits for the end of the turn. A prompt that came after it must not
    /// be answered with the old conversation.
    pub(super) fn clear_waits(&self) -> bool {
        self.input.driven
            && self.pending.local.iter().any(|held| match held {
                QueuedLine::Prompt(PromptInput { parts, .. }) => match &parts[..] {
                    [Part::Text { text, .. }] => {
                        self.is_local(text)
                            && crate::slash::split_call(text).is_some_and(|(name, _)| clears(name))
                    }
                    _ => false,
                },
                QueuedLine::Composed(_) | QueuedLine::Compact(_) | QueuedLine::Request(..) => false,
            })
    }

    /// Clears the conversation. Later lines wait until the agent has done it.
    async fn clear(&mut self, client_id: Option<String>) {
        let (done, is_done) = oneshot::channel();
        self.servers.waits.add(async move {
            // If the sender was dropped, the run is ending, and nothing needs to wait.
            let _ = is_done.await;
            Completion::Cleared
        });
        let request_id = format!("clear-{}", becket_types::unique());
        self.pending.clearing = Some(Clearing { request_id: request_id.clone(), client_id, done });
        let what = Box::new(Command::ClearConversation);
        self.command(Command::WithReceipt { request_id, what }).await;
    }

    /// Takes the agent's receipt for a cleared conversation, and writes the result. Returns false if the receipt is for
    /// another request.
    pub(super) fn cleared(&mut self, request_id: &str, error: Option<&str>) -> Result<bool, Failure> {
        let Some(clearing) = self.pending.clearing.take_if(|clearing| clearing.request_id == request_id)
        else {
            return Ok(false);
        };
        let client_id = clearing.client_id.as_deref();
        match error {
            Some(why) => or_fail(self.printer.no_turn(why, client_id))?,
            None => {
                or_fail(self.printer.conversation_reset(client_id))?;
                or_fail(self.printer.blank_answer(client_id))?;
            }
        }
        // If the receiver was dropped, the run is ending.
        let _ = clearing.done.send(());
        Ok(true)
    }
}

/// True for `clear` and its other names.
fn clears(name: &str) -> bool {
    ["clear", "new", "reset"].contains(&name)
}
