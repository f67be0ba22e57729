//! The loop of a headless run: events out, lines in, requests to the program, signals.
//!
//! Invariants:
//! - The agent's input is closed only when no prompt is pending and the printer will send no prompt of its own (see
//!   `may_ask`). So a run whose stdin was closed early still prints every result.
//! - A permission question is always answered: by the program, or with a refusal when the program's side is closed.

use super::control::{Batch, LiveSettings, Servers};
use super::figures::{Figures, Rewinding};
use super::jobs::Jobs;
use super::known_commands::KnownCommands;
use super::lines::{Input, Read};
use super::link::{HostMessage, OpenRequests, next_request};
use super::permission_tool;
use super::running_calls::RunningCalls;
use super::waits::{Clearing, Completion, QueuedLine};
use super::{Signals, note, or_fail, until};
use crate::assemble::{Opening, SharedModels};
use crate::failure::Failure;
use crate::hooks::OutsideHooks;
use crate::interactive::preferences;
use crate::slash::Slash;
use becket_agent::AgentHandle;
use becket_print::{ExitStatus, InputLine, Printer, Reaction, answer_to, can_use_tool, restore, unanswered};
use becket_tool_shell::JobChange;
use becket_types::{
    AnswerText, Blobs, CallId, Command, Event, MessageId, PermissionRequest, TurnEnd, TurnResult,
};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A permission question that was sent to the driving program.
pub(super) struct Question {
    call: CallId,
    tool: String,
    /// The tool's input, with the SDK's names of its keys.
    input: Value,
    /// The input as the driving program got it, if it was too long for a line.
    shown: Option<Value>,
    /// The call that started the subagent which asks.
    subagent: Option<CallId>,
}

/// The front end of a headless run: it connects the agent, the printer and the program that drives the run.
pub(super) struct Front {
    pub(super) agent: AgentHandle,
    pub(super) input: Input,
    pub(super) state: TurnStage,
    pub(super) pending: Pending,
    pub(super) known: KnownIds,
    pub(super) link: ProgramRequests,
    pub(super) figures: Figures,
    pub(super) session: SessionAnswers,
    pub(super) servers: Servers,
    pub(super) printer: Printer,
    pub(super) slash: Slash,
    pub(super) answer: LastAnswer,
}

/// Position in the run.
#[derive(Debug, Default)]
pub(super) struct TurnStage {
    /// The agent has described the session.
    pub(super) introduced: bool,
    /// A turn is running.
    pub(super) in_turn: bool,
    /// The exit status if a signal ends the run, and the time at which the process ends in any case.
    pub(super) ending: Option<(ExitStatus, Instant)>,
}

/// Everything that waits for an answer of the agent or of the driving program.
#[derive(Default)]
pub(super) struct Pending {
    /// The driving program's ids of prompts that were sent to the agent and not delivered yet.
    pub(super) waiting: VecDeque<Option<String>>,
    /// Permission questions, by the ids of their requests.
    pub(super) questions: HashMap<String, Question>,
    /// Answers to requests, by request id, that are sent when the agent confirms the command.
    pub(super) receipts: HashMap<String, Value>,
    pub(super) rewinding: Option<Rewinding>,
    /// Requests that the agent carries out in several commands, by request id.
    pub(super) batches: HashMap<String, Batch>,
    /// Id of the request whose side question the model is answering.
    pub(super) side: Option<String>,
    /// The request that discards waiting prompts, and the ids of those that are discarded so far.
    pub(super) withdrawn: Option<(String, Vec<String>)>,
    /// Commands of becket and prompts that wait for the end of the turn, and prompts that wait for such a command.
    pub(super) local: VecDeque<QueuedLine>,
    /// Number of lines that were taken from `local` and are not handled yet.
    pub(super) leaving: usize,
    /// The command that clears the conversation now.
    pub(super) clearing: Option<Clearing>,
    /// A changed list of slash commands that hooks are judging or have refused.
    pub(super) commands: Option<KnownCommands>,
}

impl Pending {
    /// Removes a delivered prompt.
    fn delivered(&mut self, client_id: Option<&String>) {
        let at = self.waiting.iter().position(|waits| waits.as_ref() == client_id);
        if let Some(at) = at.or(Some(0).filter(|_| client_id.is_none())) {
            self.waiting.remove(at);
        }
    }
}

/// Ids under which the driving program knows messages, calls and subagents.
#[derive(Default)]
pub(super) struct KnownIds {
    /// Calls that run.
    pub(super) calls: RunningCalls,
    /// Running subagents: the call that each works for, by its session.
    pub(super) tasks: HashMap<String, CallId>,
    /// Messages, by the driving program's ids.
    pub(super) messages: HashMap<String, MessageId>,
}

/// Requests to the driving program, from its hooks and its MCP servers.
pub(super) struct ProgramRequests {
    /// New requests; `None` once all senders are gone.
    pub(super) requests: Option<mpsc::UnboundedReceiver<HostMessage>>,
    pub(super) open: OpenRequests,
}

/// Facts about the session that the driving program's requests ask for.
pub(super) struct SessionAnswers {
    /// The parts of the session's first request, with its model.
    pub(super) opening: Opening,
    pub(super) cwd: PathBuf,
    pub(super) live: LiveSettings,
    /// The answer to `initialize`.
    pub(super) greeting: Value,
    /// The request `initialize` that `greeting` answered.
    pub(super) initialized: Value,
    pub(super) commands: KnownCommands,
    pub(super) jobs: Jobs,
    pub(super) hooks: Option<OutsideHooks>,
    /// The tool of an MCP server that decides about permissions.
    pub(super) permission_tool: Option<String>,
    pub(super) models: SharedModels,
    /// Opens a model by its name, or says why that is not possible.
    pub(super) find_model: becket_agent::FindModel,
}

/// The last answer of the run, if it is needed at the end.
#[derive(Default)]
pub(super) struct LastAnswer {
    /// The blobs that may hold the answer; `None` if it is not needed.
    pub(super) blobs: Option<Arc<dyn Blobs>>,
    pub(super) text: Option<AnswerText>,
}

impl Front {
    /// Runs until the agent's events end, or a signal arrives. `None`: the events ended.
    pub(super) async fn serve(&mut self, signals: &mut Signals) -> Option<Result<ExitStatus, Failure>> {
        loop {
            let deadline = self.state.ending.map(|(_, deadline)| deadline);
            let step = tokio::select! {
                biased;
                event = self.agent.events.recv() => match event {
                    Some(event) => self.event(&event).await,
                    None => return None,
                },
                request = next_request(self.link.requests.as_mut()) => self.host_request(request),
                // Lines that a program sends early are handled once the agent is ready.
                line = self.input.next(), if self.state.introduced => self.line(line).await,
                waited = self.servers.waits.next() => self.waited(waited).await,
                change = self.session.jobs.next() => self.job_changed(change).await,
                status = signals.next() => {
                    if self.signalled(status).await {
                        return Some(Ok(status));
                    }
                    Ok(())
                }
                // The program may close our stdin on purpose and still read the answer. If it has closed our stdout
                // too, nobody reads the answer, so the run ends.
                () = pause(), if self.input.driven && self.input.lines.is_none() && deadline.is_none() => {
                    if crate::sys::reader_gone() && self.signalled(ExitStatus::Terminated).await {
                        return Some(Ok(ExitStatus::Terminated));
                    }
                    Ok(())
                }
                () = until(self.known.calls.next()), if self.input.driven => self.show_progress(),
                () = until(deadline) => return self.state.ending.map(|(status, _)| Ok(status)),
            };
            if let Err(failure) = step {
                return Some(Err(failure));
            }
        }
    }

    /// Prints the events that arrived while the agent was ending. `broken`: the agent has panicked, so a result with
    /// this message is printed in place of the one that it can no longer give.
    pub(super) fn drain(&mut self, broken: Option<String>) -> Result<ExitStatus, Failure> {
        while let Ok(event) = self.agent.events.try_recv() {
            self.remember(&event);
            or_fail(self.printer.event(&event))?;
        }
        if let Some(message) = broken {
            let event = Event::TurnFinished(Box::new(TurnResult::failed(message)));
            or_fail(self.printer.event(&event))?;
            return Ok(ExitStatus::Error);
        }
        Ok(self.state.ending.map_or_else(|| self.printer.status(), |(status, _)| status))
    }

    /// Tells the driving program that a command in the background has started or ended.
    async fn job_changed(&mut self, change: JobChange) -> Result<(), Failure> {
        // After the last turn nothing is printed, because its result must be the last line of a run.
        if self.input.end_reported && !self.state.in_turn {
            return Ok(());
        }
        self.session.jobs.note_end(&change);
        or_fail(self.session.jobs.tell(change, &mut self.printer).await)?;
        self.wake_for_tasks().await;
        Ok(())
    }

    /// Begins a turn for commands in the background that have ended, if the agent is idle. A program that keeps its input open
    /// expects such a turn.
    async fn wake_for_tasks(&mut self) {
        let idle = !self.state.in_turn && self.pending.waiting.is_empty() && !self.servers.waits.holds();
        if !idle || !self.input.driven || self.input.ended || self.state.ending.is_some() {
            return;
        }
        for (task, text) in self.session.jobs.take_unreported_ends() {
            self.command(Command::TaskEnded { task, text }).await;
        }
    }

    async fn event(&mut self, event: &Event) -> Result<(), Failure> {
        // Lines about a command that a call has started come before the result of that call.
        while let Some(change) = self.session.jobs.take() {
            self.job_changed(change).await?;
        }
        self.remember(event);
        if self.side_answered(event)? {
            return Ok(());
        }
        match event {
            Event::PermissionAsked(request) => return self.question(request, None).await,
            Event::Subagent { call_id, what } => {
                if let Event::PermissionAsked(request) = &**what {
                    return self.question(request, Some(call_id)).await;
                }
            }
            Event::ModeChanged { mode } => or_fail(self.printer.mode_changed(mode))?,
            Event::Receipt { request_id, error } if self.cleared(request_id, error.as_deref())? => {
                return Ok(());
            }
            Event::Receipt { request_id, error } if self.part_received(request_id, error.as_ref())? => {
                return Ok(());
            }
            Event::Receipt { request_id, error: None } => {
                let mut answer = self.pending.receipts.remove(request_id).unwrap_or_else(|| json!({}));
                if let Some((_, ids)) = self.pending.withdrawn.take_if(|(id, _)| id == request_id) {
                    answer["cancelled"] = json!(ids);
                }
                return or_fail(self.printer.control_response(request_id, &answer));
            }
            _ => {}
        }
        self.rewind_saw(event).await?;
        // `system/init` opens the turn and names the servers as they are now.
        if let (Event::UserMessage { .. }, Some(hub)) = (event, &self.servers.hub) {
            self.printer.set_mcp(crate::mcp::facts(hub));
            self.tell_commands(false)?;
        }
        // The turn may have written a command file. Its line comes before the result, after which a program may stop reading.
        if matches!(event, Event::TurnFinished(_)) {
            self.tell_commands(true)?;
        }
        match or_fail(self.printer.event(event))? {
            Reaction::Nothing => {}
            Reaction::Send(command) => self.command(command).await,
            Reaction::TurnOver => {
                self.state.in_turn = false;
                self.withdraw_questions()?;
                self.answer_waiting().await?;
                self.wake_for_tasks().await;
                if self.input.ended {
                    self.end_input_when_idle().await;
                }
            }
        }
        Ok(())
    }

    /// Prints progress lines for calls that run for long, as a sign of life.
    fn show_progress(&mut self) -> Result<(), Failure> {
        for beat in self.known.calls.due(Instant::now()) {
            let parent = beat.parent.as_ref();
            or_fail(self.printer.tool_progress(&beat.call, &beat.tool, parent, beat.seconds))?;
        }
        Ok(())
    }

    fn remember(&mut self, event: &Event) {
        self.figures.observe(event);
        self.known.calls.observe(event, Instant::now());
        crate::servers::forget_first_models_after(&self.servers.environment, event);
        match event {
            Event::SessionStarted { .. } => self.state.introduced = true,
            Event::UserMessage { message, client_id, .. } if message.visibility().user => {
                self.state.in_turn = true;
                self.pending.delivered(client_id.as_ref());
                if let Some(id) = client_id {
                    self.known.messages.insert(id.clone(), message.id);
                }
            }
            // This message is not from the user: becket asks the model again, such as for an answer that fits the schema.
            Event::UserMessage { client_id, .. } => {
                self.state.in_turn = true;
                self.pending.delivered(client_id.as_ref());
            }
            Event::Withdrawn { client_id } => {
                self.pending.delivered(Some(client_id).filter(|id| !id.is_empty()));
                if let Some((_, ids)) = &mut self.pending.withdrawn
                    && !client_id.is_empty()
                {
                    ids.push(client_id.clone());
                }
            }
            Event::Subagent { call_id, what } => match &**what {
                Event::SessionStarted { session, .. } => {
                    self.known.tasks.insert(session.to_string(), call_id.clone());
                }
                Event::TurnFinished(_) => self.known.tasks.retain(|_, call| call != call_id),
                _ => {}
            },
            Event::TurnFinished(result) => {
                // A refused prompt with an id is removed by `Withdrawn`. For one without an id, only this result reports the refusal.
                if let TurnEnd::HookStopped { refused: Some(refused), .. } = &result.end
                    && refused.client_id.is_none()
                {
                    self.pending.delivered(None);
                }
                if result.compaction.by_hand.is_some() {
                    self.pending.delivered(None);
                }
                if self.answer.blobs.is_some() {
                    self.answer.text = Some(result.text.clone());
                }
                self.printer.set_queued(self.queued());
            }
            _ => {}
        }
    }

    async fn line(&mut self, read: Option<Read>) -> Result<(), Failure> {
        let Some(read) = read else { return self.input_ended().await };
        self.input.asked |= !matches!(read, Ok(InputLine::Nothing));
        match self.with_earlier(read) {
            Ok(InputLine::Nothing) => {}
            Ok(InputLine::Cancel { request_id }) => self.servers.waits.cancel(&request_id),
            Ok(InputLine::Command(Command::Prompt(input)) | InputLine::Blank(input)) => {
                if self.servers.waits.holds() {
                    self.servers.waits.hold(QueuedLine::Prompt(input));
                } else {
                    self.prompt(input).await?;
                }
            }
            Ok(InputLine::Composed(input)) if self.servers.waits.holds() => {
                self.servers.waits.hold(QueuedLine::Composed(input));
            }
            Ok(InputLine::Composed(input)) => self.composed(input).await?,
            Ok(InputLine::Context(input)) => self.input.context.push(input),
            Ok(InputLine::Command(command)) => self.hand_command(command).await,
            Ok(InputLine::Control { request_id, command }) => {
                let answer = match &command {
                    Command::Interrupt => json!({ "still_queued": self.queued_ids() }),
                    Command::SetMode { mode } => json!({ "mode": mode }),
                    _ => json!({}),
                };
                self.with_receipt(request_id, command, answer).await;
            }
            Ok(InputLine::Request { request_id, subtype, body }) => {
                self.request(request_id, &subtype, &body).await?;
            }
            Ok(InputLine::Response { request_id, outcome }) => self.response(&request_id, outcome).await?,
            Err(error) => or_fail(self.printer.input_error(&error))?,
        }
        Ok(())
    }

    async fn waited(&mut self, waited: Completion) -> Result<(), Failure> {
        self.printer.set_queued(self.queued());
        match waited {
            Completion::Started | Completion::Cleared => {}
            Completion::Blank => or_fail(self.printer.blank_ended())?,
            Completion::Answer(id, Ok(response)) => or_fail(self.printer.control_response(&id, &response))?,
            Completion::Answer(id, Err(why)) => or_fail(self.printer.refusal(&id, &why))?,
            Completion::Prompt(input) => self.command(Command::Prompt(input)).await,
            Completion::Refused(input, why) => or_fail(self.printer.refused_expansion(&input, &why))?,
            Completion::Decided(id, outcome) => self.response(&id, outcome).await?,
            Completion::Commands(known, refused) => self.commands_judged(known, refused)?,
        }
        while let Some(held) = self.servers.waits.take() {
            match held {
                QueuedLine::Prompt(input) => self.prompt(input).await?,
                QueuedLine::Composed(input) => self.composed(input).await?,
                QueuedLine::Compact(command) => self.hand_command(command).await,
                QueuedLine::Request(id, subtype, body) => self.request(id, &subtype, &body).await?,
            }
        }
        if self.input.ended {
            self.end_input_when_idle().await;
        }
        Ok(())
    }

    async fn input_ended(&mut self) -> Result<(), Failure> {
        self.input.lines = None;
        self.input.ended = true;
        if !self.input.asked {
            return Err(Failure::usage("no message came on stdin").hint(
                "send {\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"…\"}} as a line",
            ));
        }
        if !self.input.context.is_empty() {
            note("a message with \"shouldQuery\": false was not followed by another");
        }
        self.link.open.close();
        let questions: Vec<Question> = self.pending.questions.drain().map(|(_, question)| question).collect();
        for question in questions {
            let command = unanswered(&question.call);
            self.decide(question.subagent.as_ref(), command).await;
        }
        self.end_input_when_idle().await;
        Ok(())
    }

    /// Closes the agent's input when nothing is pending. Without a schema, that is possible at once. With one, the printer
    /// asks the model again if an answer does not fit it, and an agent without input would not accept that prompt.
    async fn end_input_when_idle(&mut self) {
        // Requests and prompts that still wait need an agent whose input is open.
        if !self.servers.waits.is_over() || self.clear_waits() || self.prompt_waits() {
            return;
        }
        let pending = self.state.in_turn || !self.pending.waiting.is_empty();
        if !(pending && self.printer.may_ask()) {
            self.end_input().await;
        }
    }

    pub(super) async fn end_input(&mut self) {
        if !std::mem::replace(&mut self.input.end_reported, true) {
            self.command(Command::EndInput).await;
        }
    }

    /// Asks the driving program if a call may run.
    async fn question(
        &mut self,
        request: &PermissionRequest,
        subagent: Option<&CallId>,
    ) -> Result<(), Failure> {
        let tool = self.session.permission_tool.clone();
        if self.input.ended && self.input.lines.is_none() && tool.is_none() {
            self.decide(subagent, unanswered(&request.call_id)).await;
            return Ok(());
        }
        let id = self.link.open.id();
        let body = can_use_tool(request, subagent, &self.session.cwd);
        let question = Question {
            call: request.call_id.clone(),
            tool: request.tool.clone(),
            input: body["input"].clone(),
            shown: None,
            subagent: subagent.cloned(),
        };
        self.pending.questions.insert(id.clone(), question);
        if let Some(tool) = tool {
            let hub = self.servers.hub.clone();
            self.servers.waits.add_unordered(async move {
                let decision = permission_tool::ask(hub, &tool, &body).await;
                Completion::Decided(id, decision)
            });
            return Ok(());
        }
        or_fail(self.printer.state("requires_action"))?;
        let mut shown = or_fail(self.printer.control_request(&id, &body))?;
        if let Some(question) = self.pending.questions.get_mut(&id) {
            question.shown = Some(shown["input"].take()).filter(|shown| *shown != question.input);
        }
        Ok(())
    }

    async fn response(&mut self, id: &str, mut outcome: Result<Value, String>) -> Result<(), Failure> {
        let Some(question) = self.pending.questions.remove(id) else {
            self.link.open.answered(id, outcome);
            return Ok(());
        };
        if self.pending.questions.is_empty() {
            or_fail(self.printer.state("running"))?;
        }
        if let (Some(shown), Ok(answer)) = (&question.shown, &mut outcome)
            && let Some(input) = answer.get_mut("updatedInput")
        {
            restore(input, shown, &question.input);
        }
        let answer = answer_to(&question.call, &question.tool, &question.input, &outcome);
        for text in answer.notes {
            note(&text);
        }
        let cwd = &self.session.cwd;
        for kept in &answer.kept {
            let root = crate::settings::project_root(cwd);
            match preferences::keep_rules(&self.servers.environment, &root, cwd, kept) {
                Ok(text) | Err(text) => note(&text),
            }
        }
        for command in answer.commands {
            match &command {
                Command::Decide { .. } => self.decide(question.subagent.as_ref(), command).await,
                _ => self.command(command).await,
            }
        }
        Ok(())
    }

    async fn decide(&self, subagent: Option<&CallId>, command: Command) {
        let command = match subagent {
            Some(call) => Command::ToSubagent { call_id: call.clone(), what: Box::new(command) },
            None => command,
        };
        let _ = self.agent.commands.send(command).await;
    }

    /// Withdraws questions that the end of a turn has made obsolete.
    fn withdraw_questions(&mut self) -> Result<(), Failure> {
        // A subagent in the background continues after the turn, so its question stays open.
        let stays = |question: &Question| {
            question
                .subagent
                .as_ref()
                .is_some_and(|call| self.known.tasks.values().any(|known| known == call))
        };
        let (kept, gone) = std::mem::take(&mut self.pending.questions)
            .into_iter()
            .partition(|(_, question)| stays(question));
        self.pending.questions = kept;
        let gone: HashMap<String, Question> = gone;
        for id in gone.into_keys() {
            or_fail(self.printer.control_cancel(&id))?;
        }
        for id in self.link.open.dropped() {
            or_fail(self.printer.control_cancel(&id))?;
        }
        Ok(())
    }

    fn host_request(&mut self, message: Option<HostMessage>) -> Result<(), Failure> {
        let request = match message {
            Some(HostMessage::Request(request)) => request,
            Some(HostMessage::Line(subtype, body)) => return or_fail(self.printer.system(subtype, body)),
            None => {
                self.link.requests = None;
                return Ok(());
            }
        };
        for id in self.link.open.dropped() {
            or_fail(self.printer.control_cancel(&id))?;
        }
        let Some((id, body)) = self.link.open.take(request) else { return Ok(()) };
        if body["subtype"] == "mcp_message" && !becket_print::fits(&body) {
            // A message that was cut to fit would give the server incomplete arguments, so it is refused.
            let why = "the message is longer than 1 MiB, the longest line that the program reads";
            self.link.open.answered(&id, Err(why.to_owned()));
            return Ok(());
        }
        let sent = self.printer.control_request(&id, &body);
        // If the program has closed both sides, a line that cannot be written is no failure of the run.
        if !self.link.open.is_closed() {
            self.link.open.shown(&id, body, or_fail(sent)?);
        }
        Ok(())
    }

    /// Sends the agent a command. If the agent has ended, the error is ignored: the end of its events ends the loop.
    pub(super) async fn command(&mut self, command: Command) {
        match &command {
            Command::Prompt(input) => self.pending.waiting.push_back(input.client_id.clone()),
            Command::Compact { .. } => self.pending.waiting.push_back(None),
            _ => {}
        }
        let _ = self.agent.commands.send(command).await;
    }
}

/// Waits one second between two checks if the driving program still reads stdout.
async fn pause() {
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
}
