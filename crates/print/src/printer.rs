//! The printer: converts events to output. The same code serves all formats, because they differ only in what is
//! written.
//!
//! The lines of a subagent are made in the same way, and also have the id of the call that started it (`subagent`).

mod answer;
mod answered;
mod background;
mod codex;
mod control;
mod denials;
mod fit;
mod lines;
mod merged;
mod mirror;
mod output;
mod partial;
mod subagent;
mod totals;
mod turn;

pub use background::{ShellTask, ShellTaskEnd};
pub use fit::fits;
pub use lines::{CLAUDE_CODE_VERSION, McpFacts, SessionFacts};

use crate::exit::ExitStatus;
use crate::{InputError, Schema};
use crate::{shapes, terminal};
use answer::WholeAnswer;
use becket_types::{
    Blobs, CallId, Command, DeliveryMode, Event, Message, MessageId, Millis, NoticeLevel, Part, PromptInput,
    TurnEnd, TurnResult,
    sdk_names::{self, EndedCall},
};
use lines::SessionLines;
use merged::merge;
use mirror::Mirror;
use output::Output;
use partial::Partial;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use turn::TurnSoFar;

/// `--output-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Json,
    StreamJson,
    /// The lines of `codex exec --json`.
    Codex,
}

/// The format of the output, and the facts about the run that its lines repeat.
#[derive(Debug, Default)]
pub struct PrintOptions {
    pub format: Format,
    /// `--verbose`: more notes, and all lines about events with the format `json`.
    pub verbose: bool,
    /// `--include-partial-messages`: `stream_event` lines.
    pub partial: bool,
    /// `--replay-user-messages`: user messages are printed with `isReplay`.
    pub replay: bool,
    /// `--forward-subagent-text`: texts of subagents are printed too, not only their calls and results.
    pub subagent_text: bool,
    /// `--json-schema`: the schema that the answer must fit.
    pub schema: Option<Arc<Schema>>,
    /// `--input-format stream-json`: a program sends messages and reads the results, so denied calls are not a failure of the run.
    pub driven: bool,
    /// True if the output is a terminal: escape sequences in untrusted text are then shown as text.
    pub terminal: bool,
    pub version: String,
    /// The session's id, which lines before `system/init` need too.
    pub session: String,
    pub facts: SessionFacts,
    /// Print `system/session_state_changed` lines, because a client requested them by the environment.
    pub states: bool,
}

/// Maximum number of further requests if an answer does not fit `--json-schema`.
const SCHEMA_RETRIES: u32 = 3;

/// The action that the caller must take after an event.
#[derive(Debug, PartialEq)]
pub enum Reaction {
    Nothing,
    /// Send this command to the agent. The turn continues for people: the answer did not fit the schema.
    Send(Command),
    /// The turn is over and its result is written.
    TurnOver,
}

/// Writes events in the selected format.
pub struct Printer {
    options: PrintOptions,
    output: Output,
    lines: SessionLines,
    /// Names and inputs of the calls whose results are pending, for the lines of their results.
    calls: HashMap<CallId, (String, Value)>,
    tasks: background::Tasks,
    partial: Partial,
    mirror: Option<Mirror>,
    items: codex::Items,
    asking: SchemaAsking,
    turn: TurnSoFar,
    deferred: DeferredOutput,
    status: ExitStatus,
}

/// Progress of a turn towards an answer that fits the schema.
#[derive(Default)]
struct SchemaAsking {
    /// The value that the model passed to `StructuredOutput` in this turn.
    structured: Option<Value>,
    /// Number of further requests because of the schema so far. `carried`: the combined result of their turns.
    asked: u32,
    earlier_turns: Option<TurnResult>,
}

impl Printer {
    /// Prints to `out`, usually stdout. `notes`, usually stderr, gets lines for people in every format.
    pub fn new(mut options: PrintOptions, out: Box<dyn Write + Send>, notes: Box<dyn Write + Send>) -> Self {
        let partial = Partial::new(options.partial && options.format == Format::StreamJson);
        let facts = std::mem::take(&mut options.facts);
        Self {
            output: Output::new(options.format, options.verbose, out, notes),
            lines: SessionLines::new(options.session.clone(), facts, options.version.clone()),
            options,
            calls: HashMap::new(),
            tasks: background::Tasks::default(),
            partial,
            mirror: None,
            items: codex::Items::default(),
            asking: SchemaAsking::default(),
            turn: TurnSoFar::default(),
            deferred: DeferredOutput::default(),
            status: ExitStatus::Ok,
        }
    }

    /// Sets the source of images and files, which are written with their bytes. Without it, each becomes a line of
    /// text.
    pub fn with_blobs(mut self, blobs: Arc<dyn Blobs>) -> Self {
        self.lines.blobs = blobs;
        self
    }

    /// Replaces the MCP servers of the next `system/init` line.
    pub fn set_mcp(&mut self, mcp: McpFacts) {
        self.lines.facts.mcp = Some(mcp);
    }

    /// Prints a line when a hook runs, and one with its result (`--include-hook-events`).
    pub fn show_hooks(&mut self, shows: bool) {
        self.lines.shows_hooks = shows;
    }

    /// Prints each message of the session as a record of a Claude Code transcript too (`--session-mirror`). `projects`: the
    /// folder in which Claude Code keeps transcripts. `after`: the last message of a session that is continued.
    pub fn mirror_to(&mut self, projects: PathBuf, after: Option<MessageId>) {
        self.mirror = Some(Mirror::new(projects, after));
    }

    /// Returns the exit status of the last finished turn.
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    /// True if a finished turn may lead to [`Reaction::Send`].
    pub fn may_ask(&self) -> bool {
        self.options.schema.is_some()
    }

    /// Writes an event in this format.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written (a closed pipe, a full disk).
    pub fn event(&mut self, event: &Event) -> io::Result<Reaction> {
        match event {
            Event::ToolFinished { message, .. } => {
                let failed = message
                    .parts
                    .iter()
                    .any(|p| matches!(p, Part::ToolResult { is_error, interrupted, .. } if *is_error || *interrupted));
                self.turn.denials.finished(message.result_of(), failed);
                self.turn.interrupted = message
                    .parts
                    .iter()
                    .any(|part| matches!(part, Part::ToolResult { interrupted: true, .. }));
                if let Some(value) = shapes::tool_details(message).and_then(|d| d.get("structured_output")) {
                    self.asking.structured = Some(value.clone());
                }
            }
            Event::PermissionDenied(denial) => self.turn.denials.denied(&denial.call_id),
            Event::AssistantMessage { .. } => self.turn.interrupted = false,
            Event::HookFinished(run) if run.stopped && run.event == "Stop" => self.turn.stop_prevented = true,
            Event::MovedToBackground { call_id } => {
                self.moved_to_background(call_id)?;
                return Ok(Reaction::Nothing);
            }
            Event::TurnFinished(result) => return self.turn_finished(result),
            Event::Subagent { call_id, what } => {
                self.subagent_event(call_id, what)?;
                return Ok(Reaction::Nothing);
            }
            _ => {}
        }
        self.note(event)?;
        match self.options.format {
            Format::Text => {}
            Format::Codex => self.items.event(event, &mut self.output)?,
            Format::Json | Format::StreamJson => self.stream(event)?,
        }
        Ok(Reaction::Nothing)
    }

    /// Reports a line of input that cannot be used. This is never fatal.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn input_error(&mut self, error: &InputError) -> io::Result<()> {
        if let (InputError::Refused { request_id, .. }, Format::StreamJson) = (error, self.options.format) {
            return self.refusal(request_id, &error.to_string());
        }
        if let (InputError::Message { client_id, .. }, Format::StreamJson) = (error, self.options.format) {
            // The sender of the message waits for a result, so there is one although no turn ran.
            let line = self.lines.no_turn(&error.to_string(), client_id.as_deref());
            self.output.line(line)?;
        }
        self.status = ExitStatus::Usage;
        writeln!(self.output.notes, "becket: {}", terminal::clean(&error.to_string()))
    }

    fn turn_finished(&mut self, result: &TurnResult) -> io::Result<Reaction> {
        self.tell_compaction_failure(Some(result))?;
        let mut result = merge(self.asking.earlier_turns.take(), result);
        let mut structured = None;
        let mut schema_error = None;
        // A turn that only compacts has no answer of the model, so the schema does not apply.
        let schema = self.options.schema.as_ref().filter(|_| result.compaction.by_hand.is_none());
        let given = self.asking.structured.take();
        let completed = matches!(result.end, TurnEnd::Completed)
            // A value that the model passed to `StructuredOutput` counts as an answer, even without a final message.
            || (given.is_some() && matches!(result.end, TurnEnd::NoAnswer { .. }));
        if let (Some(schema), true) = (schema, completed) {
            let checked =
                given.map_or_else(|| schema.check(&result.text.read_whole(self.lines.blobs.as_ref())), Ok);
            match checked {
                Ok(value) => {
                    structured = Some(value);
                    result.to_mut().end = TurnEnd::Completed;
                }
                Err(problem) if self.asking.asked < SCHEMA_RETRIES => {
                    self.asking.asked += 1;
                    writeln!(
                        self.output.notes,
                        "becket: the answer does not fit the schema ({problem}); asking again"
                    )?;
                    let parts = vec![Part::Text {
                        text: schema.ask_again(&problem),
                        synthetic: true,
                        ignored: false,
                        spill: None,
                        extra: serde_json::Map::new(),
                    }];
                    self.asking.earlier_turns = Some(result.into_owned());
                    let input = PromptInput { parts, mode: DeliveryMode::Steer, ..PromptInput::default() };
                    return Ok(Reaction::Send(Command::Prompt(input)));
                }
                Err(problem) => schema_error = Some(problem),
            }
        }
        self.asking.asked = 0;
        // A turn without text is a failure: a script must not take silence for success.
        let denied_last = self.turn.denials.last && !self.options.driven;
        let silent =
            result.end == TurnEnd::Completed && becket_types::is_blank(&result.text) && structured.is_none();
        let result = if silent && !denied_last {
            let what = "the model ended its turn without an answer".to_owned();
            Cow::Owned(TurnResult { end: TurnEnd::NoAnswer { what }, ..result.into_owned() })
        } else {
            result
        };
        self.status = match &schema_error {
            Some(_) => ExitStatus::SchemaNotMet,
            None => match ExitStatus::for_turn(&result, denied_last) {
                // The driving program reads in the result that the session was not saved.
                ExitStatus::NotSaved if self.options.driven => ExitStatus::Ok,
                status => status,
            },
        };
        if matches!(&result.end, TurnEnd::HookStopped { refused: Some(_), .. }) && !self.turn.begun {
            // A hook refused the prompt before it became a message, so the start of the turn is not written yet.
            self.turn_began()?;
        }
        self.write_result(&result, structured.as_ref(), schema_error.as_deref())?;
        self.turn = TurnSoFar::default();
        // The results of subagents in the background come later and need the names of the calls.
        if self.tasks.subagents.is_empty() {
            self.calls.clear();
        }
        self.is_idle()?;
        Ok(Reaction::TurnOver)
    }

    fn write_result(
        &mut self,
        result: &TurnResult,
        structured: Option<&Value>,
        schema_error: Option<&str>,
    ) -> io::Result<()> {
        let misfit = || Some(shapes::misfit(schema_error?, SCHEMA_RETRIES + 1));
        let why = shapes::explain(&result.end).or_else(misfit);
        let uuid = MessageId::new().to_string();
        let line =
            |of: &SessionLines| shapes::result(result, &of.session, &uuid, structured, schema_error, &of.cwd);
        let answer = WholeAnswer { text: &result.text, blobs: self.lines.blobs.as_ref() };
        match self.options.format {
            Format::Text => {
                match structured {
                    Some(value) => writeln!(self.output.out, "{value}")?,
                    None if result.text.is_empty() => {}
                    None => answer.write_text(&mut self.output.out, self.options.terminal)?,
                }
                self.output.out.flush()?;
                self.tell_why(why.as_deref())?;
                denials::tell(&result.denials, &mut self.output.notes)?;
                self.output.notes.flush()
            }
            Format::Codex => {
                self.items.result(result, structured, schema_error, &mut self.output)?;
                self.tell_why(why.as_deref())?;
                self.tell_denied(result)
            }
            Format::StreamJson => {
                let failed = shapes::failed_answer(&result.end, &self.lines.session);
                if let Some(mut line) = failed.filter(|_| self.options.driven) {
                    self.lines.answered.stamp_first(&mut line);
                    self.output.line(line)?;
                }
                let mut line = line(&self.lines);
                if self.options.driven {
                    self.lines.totals.add(result);
                    self.lines.totals.stamp(&mut line);
                    self.lines.totals.number(&mut line);
                    if self.turn.complete(&mut line, &result.end) {
                        self.status = ExitStatus::Ok;
                    }
                }
                self.lines.answered.note_refused_prompt(&result.end);
                self.lines.answered.stamp_result(&mut line);
                self.output.line(line)?;
                self.tell_why(why.as_deref())?;
                self.tell_denied(result)
            }
            Format::Json => {
                let line = line(&self.lines);
                self.output.last(line, answer)?;
                self.tell_why(why.as_deref())?;
                self.tell_denied(result)
            }
        }
    }

    /// Prints why calls were denied, if the exit code says that one was. The reader may have nothing but stderr.
    fn tell_denied(&mut self, result: &TurnResult) -> io::Result<()> {
        match self.status {
            ExitStatus::PermissionDenied => denials::tell(&result.denials, &mut self.output.notes),
            _ => Ok(()),
        }
    }

    /// Prints the reason why the run failed: one line on stderr in every format.
    fn tell_why(&mut self, why: Option<&str>) -> io::Result<()> {
        let Some(why) = why else { return Ok(()) };
        let line = why.split_whitespace().collect::<Vec<_>>().join(" ");
        self.output.note("becket:", &line)
    }

    /// Prints notes for people on the notes writer: one line each, in every format.
    fn note(&mut self, event: &Event) -> io::Result<()> {
        self.tell_compaction_failure(None)?;
        let text = match event {
            Event::Notice { level: NoticeLevel::Info, text } if self.options.verbose => text.clone(),
            Event::SummaryPreparation { state } if self.options.verbose => state.to_string(),
            Event::Notice { level: NoticeLevel::Warning | NoticeLevel::Error, text } => text.clone(),
            // The text contains the HTTP status, if there is one.
            Event::Retry { attempt, max, delay, error, .. } => {
                let seconds = delay.0 as f64 / 1000.0;
                format!("{}; retry {attempt} of {max} in {seconds:.1} s", error.trim_end_matches('.'))
            }
            Event::CompactBoundary { pre_tokens, post_tokens, .. } => {
                format!("context compacted {} → {} tokens", short(pre_tokens.0), short(post_tokens.0))
            }
            Event::CompactionFailed { reason } => {
                self.deferred.failure = Some(reason.clone());
                return Ok(());
            }
            Event::Pruned { calls, freed, .. } => {
                format!(
                    "{calls} old tool output{} pruned, {} tokens freed (recall brings {} back)",
                    if *calls == 1 { "" } else { "s" },
                    short(freed.0),
                    if *calls == 1 { "it" } else { "them" }
                )
            }
            Event::PermissionDenied(denial) if self.options.verbose => {
                format!("denied: {} ({})", denial.tool, denial.reason)
            }
            Event::ToolStarted { name, .. }
                if self.options.verbose && self.options.format == Format::Text =>
            {
                format!("running {name}")
            }
            _ => return Ok(()),
        };
        self.tell(&text)
    }

    fn tell(&mut self, text: &str) -> io::Result<()> {
        let who = if self.lines.parent.is_some() { "becket: subagent:" } else { "becket:" };
        self.output.note(who, text)
    }

    /// Prints why a compaction failed, unless the result of the turn has the same reason.
    fn tell_compaction_failure(&mut self, result: Option<&TurnResult>) -> io::Result<()> {
        let Some(reason) = self.deferred.failure.take() else { return Ok(()) };
        let said = result.is_some_and(|result| match &result.end {
            TurnEnd::ContextFull { breakdown } => reason == *breakdown,
            _ => result.compaction.by_hand.is_some() && result.text.contains(&reason),
        });
        if said { Ok(()) } else { self.tell(&format!("the context was not compacted: {reason}")) }
    }

    /// Prints the event as lines of `stream-json`.
    fn stream(&mut self, event: &Event) -> io::Result<()> {
        if self.partial.event(event, &self.lines, &mut self.output)? {
            return Ok(());
        }
        if self.lines.parent.is_none() {
            self.lines.answered.note_user_message(event);
        }
        match event {
            Event::SessionStarted { session, cwd, .. } => {
                self.lines.session = session.to_string();
                self.lines.cwd.clone_from(cwd);
                if let Some(mirror) = &mut self.mirror {
                    mirror.begin(cwd, &self.lines.session);
                }
                self.lines.started = Some(event.clone());
                // A program that sends messages gets `system/init` at the start of each turn.
                if self.options.driven {
                    return Ok(());
                }
                self.emit_init()
            }
            // User messages that people must not see occur in ledgers that were imported or written by hand.
            Event::UserMessage { message, client_id, steered } if !message.visibility().user => {
                // The message about the end of a background task can begin a turn.
                if !steered && client_id.is_some() && self.lines.parent.is_none() {
                    self.turn_began()?;
                    self.turn.of_task = message.metadata.extra.contains_key("task");
                }
                self.synthetic(message)
            }
            Event::UserMessage { message, client_id, steered } => {
                if !steered && self.lines.parent.is_none() {
                    self.turn_began()?;
                }
                if !self.options.replay && self.mirror.is_none() {
                    return Ok(());
                }
                let mut line = self.lines.user(message);
                self.mirrored(&line)?;
                if !self.options.replay {
                    return Ok(());
                }
                line["isReplay"] = json!(true);
                if let Some(id) = client_id {
                    line["uuid"] = json!(id);
                }
                self.output.emit(line)
            }
            Event::AssistantMessage { message, finish, usage, ttft, .. } => {
                if self.lines.parent.is_none() {
                    self.partial.close(finish.stop_reason(), usage, &self.lines, &mut self.output)?;
                }
                self.remember_calls(message);
                let mut line = self.lines.assistant(message, finish, usage, *ttft);
                self.mirrored(&line)?;
                if self.lines.parent.is_none() {
                    self.lines.answered.stamp_first(&mut line);
                }
                self.output.emit(line)
            }
            Event::ToolFinished { message, duration, original, .. } => {
                let mut line = self.lines.user(message);
                if let Some(result) = self.tool_use_result(message, *duration, original.as_deref()) {
                    line["tool_use_result"] = result;
                }
                self.mirrored(&line)?;
                self.output.emit(line)
            }
            Event::SyntheticMessage { message } => self.synthetic(message),
            // The call may have been allowed with another input than the model wrote.
            Event::ToolStarted { call_id, name, input } => {
                self.calls.insert(call_id.clone(), (name.clone(), input.clone()));
                Ok(())
            }
            Event::Receipt { request_id, error } => self.receipt(request_id, error.as_deref()),
            Event::ModelChosen { model: chosen } => {
                if let Some(Event::SessionStarted { model, .. }) = &mut self.lines.started {
                    model.clone_from(chosen);
                }
                Ok(())
            }
            Event::HookRuns(progress) if self.lines.shows_hooks_of(&progress.event) => {
                let line = self.lines.hook_progress(progress);
                self.output.emit(line)
            }
            Event::HookFinished(run) if self.lines.shows_hooks_of(&run.event) => {
                self.lines.hook(run).into_iter().try_for_each(|line| self.output.emit(line))
            }
            other => match self.lines.system(other) {
                Some(line) => self.emit_after_init(line),
                None => Ok(()),
            },
        }
    }

    /// Prints a message that becket wrote itself.
    fn synthetic(&mut self, message: &Message) -> io::Result<()> {
        let line = self.lines.synthetic(message);
        self.mirrored(&line)?;
        // Programs take a `user` line for a message of a person, so other messages of becket get a line of another kind.
        let line = if lines::is_users(message) { line } else { self.lines.context_added(message) };
        self.output.emit(line)
    }

    /// Prints the copy of a message for a program that keeps transcripts (`--session-mirror`).
    fn mirrored(&mut self, line: &Value) -> io::Result<()> {
        match self.mirror.as_mut().and_then(|mirror| mirror.copy(line)) {
            Some(copy) => self.output.emit(copy),
            None => Ok(()),
        }
    }

    fn remember_calls(&mut self, message: &Message) {
        for part in &message.parts {
            if let Part::ToolCall { call_id, name, input, .. } = part {
                self.calls.insert(call_id.clone(), (name.clone(), input.clone()));
            }
        }
    }

    /// Returns the result of a call in the SDK's format.
    fn tool_use_result(&mut self, message: &Message, took: Millis, original: Option<&str>) -> Option<Value> {
        let part = message.parts.iter().find(|part| matches!(part, Part::ToolResult { .. }))?;
        let Part::ToolResult { call_id, output, is_error, details, .. } = part else { return None };
        let Some((name, input)) = self.calls.remove(call_id) else {
            return Some(details.clone()).filter(|details| !details.is_null());
        };
        let input = sdk_names::sdk_input(&name, &input, &self.lines.cwd);
        if let Some(picture) = shapes::picture(&message.parts, details, self.lines.blobs.as_ref()) {
            return Some(picture);
        }
        let (text, is_error) = (output, *is_error);
        let call = EndedCall { tool: &name, input: &input, text, details, is_error, original, took };
        sdk_names::sdk_result(&call)
    }
}

/// Texts and lines that are held back until their turn to be printed.
#[derive(Default)]
struct DeferredOutput {
    /// The reason why a compaction failed. Printed only if the end of the turn does not give the same reason.
    failure: Option<String>,
    /// Lines that came before `system/init`, which clients read first.
    early: Vec<Value>,
    has_begun: bool,
}

/// Shortens a number of tokens: 148,231 becomes `148k`.
fn short(tokens: u64) -> String {
    if tokens < 1000 { tokens.to_string() } else { format!("{}k", (tokens + 500) / 1000) }
}
