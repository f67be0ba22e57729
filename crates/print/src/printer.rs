//! The printer: a reducer from events to output. One for all formats, since they differ only in what they write.
//!
//! The lines of a subagent go through the same reducer, under the id of the call that it works for (`subagent`).

mod subagent;

use crate::exit::ExitStatus;
use crate::{InputError, Schema};
use crate::{shapes, terminal};
use becket_types::{
    BlobId, Blobs, CallId, Command, DeliveryMode, Event, Message, MessageId, NoticeLevel, Origin, Part,
    PermissionDenial, PromptInput, Synthetic, TurnEnd, TurnResult,
};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

/// `--output-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Json,
    StreamJson,
}

#[derive(Debug, Default)]
pub struct PrintOptions {
    pub format: Format,
    pub verbose: bool,
    /// `--include-partial-messages`: `stream_event` lines.
    pub partial: bool,
    /// `--replay-user-messages`: user messages come back with `isReplay`.
    pub replay: bool,
    /// `--forward-subagent-text`: what subagents say, not only what they call and get.
    pub subagent_text: bool,
    pub schema: Option<Schema>,
    /// `--input-format stream-json`: a program reads the results, so calls that were denied are no failure of the run.
    pub driven: bool,
    /// The output is a terminal: escapes in untrusted text are shown, not sent.
    pub terminal: bool,
    pub version: String,
}

/// Number of times an answer that does not fit `--json-schema` is asked for again.
const SCHEMA_RETRIES: u32 = 3;

/// Different denials with a line of their own.
const MOST_DENIALS: usize = 5;

/// Action that the caller owes after an event.
#[derive(Debug, PartialEq)]
pub enum Reaction {
    Nothing,
    /// Send this to the agent; the turn is not over for people yet.
    Send(Command),
    /// A turn is over and its result is written.
    TurnOver,
}

struct NoBlobs;

impl Blobs for NoBlobs {
    fn get(&self, _: &BlobId) -> Option<Vec<u8>> {
        None
    }
}

/// Writes events in the chosen format.
pub struct Printer {
    options: PrintOptions,
    out: Box<dyn Write + Send>,
    notes: Box<dyn Write + Send>,
    /// Images and files of the session.
    blobs: Arc<dyn Blobs>,
    session: String,
    /// The call that the subagent works for whose event is being written.
    parent: Option<CallId>,
    /// The message whose deltas are being streamed, and its open block.
    streaming: Option<(MessageId, Option<u32>)>,
    /// All events so far, for `--output-format json --verbose`.
    collected: Vec<Value>,
    /// Re-asks for the schema so far, and the sum of the turns they took.
    asked: u32,
    carried: Option<TurnResult>,
    denied_last: bool,
    /// Why a compaction failed, until it is known that the end of the turn does not say the same.
    held: Option<String>,
    status: ExitStatus,
}

impl Printer {
    pub fn new(options: PrintOptions, out: Box<dyn Write + Send>, notes: Box<dyn Write + Send>) -> Self {
        Self {
            options,
            out,
            notes,
            blobs: Arc::new(NoBlobs),
            session: String::new(),
            parent: None,
            streaming: None,
            collected: Vec::new(),
            asked: 0,
            carried: None,
            denied_last: false,
            held: None,
            status: ExitStatus::Ok,
        }
    }

    /// Images and files are written with their bytes from `blobs`; without it, a line of text stands for each.
    pub fn with_blobs(mut self, blobs: Arc<dyn Blobs>) -> Self {
        self.blobs = blobs;
        self
    }

    /// The exit status of the last finished turn.
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    /// True if a finished turn may lead to another question ([`Reaction::Send`]).
    pub fn may_ask(&self) -> bool {
        self.options.schema.is_some()
    }

    /// Writes what the event means in this format.
    ///
    /// # Errors
    /// When the output cannot be written (a closed pipe, a full disk).
    pub fn event(&mut self, event: &Event) -> io::Result<Reaction> {
        match event {
            Event::ToolFinished { message, .. } => {
                let failed = message
                    .parts
                    .iter()
                    .any(|p| matches!(p, Part::ToolResult { is_error, interrupted, .. } if *is_error || *interrupted));
                if !failed {
                    self.denied_last = false;
                }
            }
            Event::PermissionDenied(_) => self.denied_last = true,
            Event::TurnFinished(result) => return self.turn_finished(result),
            Event::Subagent { call_id, what } => {
                self.nested(call_id, what)?;
                return Ok(Reaction::Nothing);
            }
            _ => {}
        }
        self.note(event)?;
        if self.options.format != Format::Text {
            self.stream(event)?;
        }
        Ok(Reaction::Nothing)
    }

    /// A line of input that cannot be used: told, never fatal.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn input_error(&mut self, error: &InputError) -> io::Result<()> {
        if let (
            InputError::Control { request_id, .. } | InputError::Refused { request_id, .. },
            Format::StreamJson,
        ) = (error, self.options.format)
        {
            return self.refusal(request_id, &error.to_string());
        }
        self.status = ExitStatus::Usage;
        writeln!(self.notes, "becket: {}", terminal::clean(&error.to_string()))
    }

    /// A line for each reason, so that all of them can be mended at once.
    fn tell_denials(&mut self, denials: &[PermissionDenial]) -> io::Result<()> {
        let mut reasons: Vec<(&str, &str)> = Vec::new();
        for denial in denials {
            let reason = (denial.tool.as_str(), denial.reason.as_str());
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        for (tool, reason) in reasons.iter().take(MOST_DENIALS) {
            writeln!(self.notes, "becket: denied: {tool}: {}", terminal::clean(reason))?;
        }
        match reasons.len().saturating_sub(MOST_DENIALS) {
            0 => Ok(()),
            more => writeln!(
                self.notes,
                "becket: denied: and {more} more, in permission_denials of --output-format json"
            ),
        }
    }

    fn refusal(&mut self, request_id: &str, error: &str) -> io::Result<()> {
        if self.options.format != Format::StreamJson {
            self.status = ExitStatus::Usage;
            return writeln!(self.notes, "becket: {}", terminal::clean(error));
        }
        self.line(&json!({
            "type": "control_response",
            "response": { "subtype": "error", "request_id": request_id, "error": error },
        }))
    }

    /// The success answer to a control request.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn control_response(&mut self, request_id: &str, response: &Value) -> io::Result<()> {
        if self.options.format != Format::StreamJson {
            return Ok(());
        }
        self.line(&json!({
            "type": "control_response",
            "response": { "subtype": "success", "request_id": request_id, "response": response },
        }))
    }

    fn turn_finished(&mut self, result: &TurnResult) -> io::Result<Reaction> {
        self.tell_held(Some(result))?;
        let result = merge(self.carried.take(), result);
        let mut structured = None;
        let mut schema_error = None;
        // The schema is for answers of the model.
        let schema = self.options.schema.as_ref().filter(|_| result.compacted.is_none());
        if let (Some(schema), TurnEnd::Completed) = (schema, &result.end) {
            match schema.check(&result.text) {
                Ok(value) => structured = Some(value),
                Err(problem) if self.asked < SCHEMA_RETRIES => {
                    self.asked += 1;
                    writeln!(
                        self.notes,
                        "becket: the answer does not fit the schema ({problem}); asking again"
                    )?;
                    let parts = vec![Part::Text {
                        text: schema.ask_again(&problem),
                        synthetic: true,
                        ignored: false,
                        extra: serde_json::Map::new(),
                    }];
                    self.carried = Some(result.into_owned());
                    let input = PromptInput { parts, mode: DeliveryMode::Steer, client_id: None };
                    return Ok(Reaction::Send(Command::Prompt(input)));
                }
                Err(problem) => schema_error = Some(problem),
            }
        }
        self.asked = 0;
        // Nothing said is a failure too: a script must not take silence for success.
        let denied_last = self.denied_last && !self.options.driven;
        let silent = result.end == TurnEnd::Completed && becket_types::is_blank(&result.text);
        let result = if silent && !denied_last {
            let what = "the model ended its turn without an answer".to_owned();
            Cow::Owned(TurnResult { end: TurnEnd::NoAnswer { what }, ..result.into_owned() })
        } else {
            result
        };
        self.status = match &schema_error {
            Some(_) => ExitStatus::SchemaNotMet,
            None => match ExitStatus::of(&result, denied_last) {
                // The program that drives us reads it in the result.
                ExitStatus::NotSaved if self.options.driven => ExitStatus::Ok,
                status => status,
            },
        };
        self.denied_last = false;
        self.write_result(&result, structured.as_ref(), schema_error.as_deref())?;
        Ok(Reaction::TurnOver)
    }

    fn write_result(
        &mut self,
        result: &TurnResult,
        structured: Option<&Value>,
        schema_error: Option<&str>,
    ) -> io::Result<()> {
        let why = shapes::explain(&result.end).or_else(|| schema_error.map(str::to_owned));
        let uuid = MessageId::new().to_string();
        match self.options.format {
            Format::Text => {
                match structured {
                    Some(value) => writeln!(self.out, "{value}")?,
                    None if result.text.is_empty() => {}
                    None => {
                        let text = result.text.trim_end_matches('\n');
                        if self.options.terminal {
                            writeln!(self.out, "{}", terminal::clean(text))?;
                        } else {
                            writeln!(self.out, "{text}")?;
                        }
                    }
                }
                self.out.flush()?;
                self.tell_why(why.as_deref())?;
                self.tell_denials(&result.denials)?;
                self.notes.flush()
            }
            Format::StreamJson => {
                let line = shapes::result(result, &self.session, &uuid, structured, schema_error);
                self.line(&line)?;
                self.tell_why(why.as_deref())
            }
            Format::Json => {
                let line = shapes::result(result, &self.session, &uuid, structured, schema_error);
                if self.options.verbose {
                    self.collected.push(line);
                    let all = std::mem::take(&mut self.collected);
                    writeln!(self.out, "{}", Value::Array(all))?;
                } else {
                    writeln!(self.out, "{line}")?;
                }
                self.out.flush()?;
                self.tell_why(why.as_deref())
            }
        }
    }

    /// Why the run failed: one line on stderr in every format.
    fn tell_why(&mut self, why: Option<&str>) -> io::Result<()> {
        let Some(why) = why else { return Ok(()) };
        let line = why.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(self.notes, "becket: {}", terminal::clean(&line))?;
        self.notes.flush()
    }

    /// Notes for people, on the notes writer: one line each, in every format.
    fn note(&mut self, event: &Event) -> io::Result<()> {
        self.tell_held(None)?;
        let text = match event {
            Event::Notice { level: NoticeLevel::Info, text } if self.options.verbose => text.clone(),
            Event::SummaryPreparation { state } if self.options.verbose => state.to_string(),
            Event::Notice { level: NoticeLevel::Warning | NoticeLevel::Error, text } => text.clone(),
            // The text names the status where there is one to name.
            Event::Retry { attempt, max, delay, error, .. } => {
                let seconds = delay.0 as f64 / 1000.0;
                format!("{}; retry {attempt} of {max} in {seconds:.1} s", error.trim_end_matches('.'))
            }
            Event::CompactBoundary { pre_tokens, post_tokens, .. } => {
                format!("context compacted {} → {}", short(pre_tokens.0), short(post_tokens.0))
            }
            Event::CompactionFailed { reason } => {
                self.held = Some(reason.clone());
                return Ok(());
            }
            Event::Pruned { calls, freed, .. } => {
                format!(
                    "{calls} old tool outputs pruned, {} tokens freed (recall brings them back)",
                    short(freed.0)
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
        let who = if self.parent.is_some() { "becket: subagent:" } else { "becket:" };
        writeln!(self.notes, "{who} {}", terminal::clean(text))?;
        self.notes.flush()
    }

    /// Says why a compaction failed, if the result does not.
    fn tell_held(&mut self, result: Option<&TurnResult>) -> io::Result<()> {
        let Some(reason) = self.held.take() else { return Ok(()) };
        let said = result.is_some_and(|result| match &result.end {
            TurnEnd::ContextFull { breakdown } => reason == *breakdown,
            _ => result.compacted.is_some() && result.text.contains(&reason),
        });
        if said { Ok(()) } else { self.tell(&format!("compaction failed: {reason}")) }
    }

    /// The event as lines of `stream-json`.
    fn stream(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::SessionStarted { session, .. } => {
                self.session = session.to_string();
                let line = self.init(event);
                self.emit(line)
            }
            // As in a ledger that was imported or written by hand.
            Event::UserMessage { message, .. } if !message.visibility().user => {
                let line = self.synthetic(message);
                self.emit(line)
            }
            Event::UserMessage { message, client_id, .. } => {
                if !self.options.replay {
                    return Ok(());
                }
                let mut line = self.user(message);
                line["isReplay"] = json!(true);
                if let Some(id) = client_id {
                    line["uuid"] = json!(id);
                }
                self.emit(line)
            }
            Event::TextDelta { message, index, text } => {
                let delta = json!({ "type": "text_delta", "text": text });
                self.delta(*message, *index, || json!({ "type": "text", "text": "" }), delta)
            }
            Event::ReasoningDelta { message, index, text } => {
                let delta = json!({ "type": "thinking_delta", "thinking": text });
                self.delta(
                    *message,
                    *index,
                    || json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    delta,
                )
            }
            Event::ToolCallDelta { message, index, call_id, name, json: part } => {
                let delta = json!({ "type": "input_json_delta", "partial_json": part });
                let start = || json!({ "type": "tool_use", "id": call_id, "name": name, "input": {} });
                self.delta(*message, *index, start, delta)
            }
            Event::AssistantMessage { message, finish, usage, ttft, .. } => {
                self.close_stream(finish.stop_reason(), usage)?;
                let mut line = json!({
                    "type": "assistant",
                    "message": shapes::assistant_message(message, finish, usage, &*self.blobs),
                    "parent_tool_use_id": self.parent,
                    "session_id": self.session,
                    "uuid": message.id,
                });
                if let Some(ttft) = ttft {
                    line["ttft_ms"] = json!(ttft);
                }
                if matches!(
                    finish,
                    becket_types::FinishReason::Error | becket_types::FinishReason::Interrupted
                ) {
                    line["aborted"] = json!(true);
                }
                self.emit(line)
            }
            Event::ToolFinished { message, .. } => {
                let mut line = self.user(message);
                if let Some(details) = shapes::tool_details(message) {
                    line["tool_use_result"] = details.clone();
                }
                self.emit(line)
            }
            Event::SyntheticMessage { message } => {
                let line = self.synthetic(message);
                self.emit(line)
            }
            Event::Receipt { request_id, error } => self.receipt(request_id, error.as_deref()),
            other => match self.system(other) {
                Some(line) => self.emit(line),
                None => Ok(()),
            },
        }
    }

    /// The answer to a control request. Goes out at once, also where other lines are collected.
    fn receipt(&mut self, request_id: &str, error: Option<&str>) -> io::Result<()> {
        match error {
            None => self.control_response(request_id, &json!({})),
            Some(error) => self.refusal(request_id, error),
        }
    }

    fn init(&self, event: &Event) -> Value {
        let Event::SessionStarted {
            session, cwd, model, tools, permission_mode, skills, api_key_source, ..
        } = event
        else {
            return Value::Null;
        };
        json!({
            "type": "system", "subtype": "init", "session_id": session, "uuid": MessageId::new(), "cwd": cwd,
            "tools": tools, "mcp_servers": [], "model": model, "permissionMode": permission_mode,
            "slash_commands": [], "skills": skills, "plugins": [], "output_style": "default",
            "apiKeySource": api_key_source, "becket_version": self.options.version,
            "capabilities": ["interrupt_receipt_v1"],
        })
    }

    /// Events that are `system` lines.
    fn system(&self, event: &Event) -> Option<Value> {
        let (subtype, body) = match event {
            Event::CompactionStarted { .. } => ("status", json!({ "status": "compacting" })),
            Event::CompactionFailed { reason } => ("status", json!({ "status": null, "error": reason })),
            Event::CompactBoundary { trigger, pre_tokens, post_tokens, entry, left_out, .. } => {
                let mut metadata = json!({
                    "trigger": if *trigger == becket_types::CompactionTrigger::Manual { "manual" } else { "auto" },
                    "cause": trigger, "pre_tokens": pre_tokens, "post_tokens": post_tokens, "entry": entry,
                });
                if !left_out.is_empty() {
                    metadata["left_out"] = json!(left_out);
                }
                ("compact_boundary", json!({ "compact_metadata": metadata }))
            }
            Event::Retry { attempt, max, delay, status, error } => (
                "api_retry",
                json!({ "attempt": attempt, "max_retries": max, "retry_delay_ms": delay, "error_status": status, "error": error }),
            ),
            Event::PermissionDenied(denial) => ("permission_denied", serde_json::to_value(denial).ok()?),
            Event::Notice { level, text } => ("informational", json!({ "level": level, "content": text })),
            Event::SummaryPreparation { state } => {
                ("informational", json!({ "level": NoticeLevel::Info, "content": state.to_string() }))
            }
            Event::Pruned { entry, calls, freed } => {
                ("pruned", json!({ "entry": entry, "calls": calls, "freed_tokens": freed }))
            }
            Event::UndoPlanned(plan) => ("undo_planned", serde_json::to_value(plan).ok()?),
            Event::UndoDone(outcome) => ("undo_done", serde_json::to_value(outcome).ok()?),
            Event::CompactionPlanned(plan) => ("compaction_planned", serde_json::to_value(plan).ok()?),
            Event::CompactionReverted { entry, counts } => {
                ("compaction_reverted", json!({ "entry": entry, "counts": counts }))
            }
            Event::ContextPlanned(plan) => ("context_planned", serde_json::to_value(plan).ok()?),
            Event::ContextChanged { text } => ("context_changed", json!({ "content": text })),
            _ => return None,
        };
        let mut line = json!({ "type": "system", "subtype": subtype, "session_id": self.session, "uuid": MessageId::new() });
        if let Some(parent) = &self.parent {
            line["parent_tool_use_id"] = json!(parent);
        }
        if let (Value::Object(line), Value::Object(body)) = (&mut line, body) {
            line.extend(body);
        }
        Some(line)
    }

    fn user(&self, message: &Message) -> Value {
        json!({
            "type": "user",
            "message": shapes::user_message(message, &*self.blobs),
            "parent_tool_use_id": self.parent,
            "session_id": self.session,
            "uuid": message.id,
        })
    }

    fn synthetic(&self, message: &Message) -> Value {
        let mut line = self.user(message);
        debug_assert!(!message.visibility().user);
        line["isSynthetic"] = json!(true);
        if message.metadata.compaction_continue {
            line["metadata"] = json!({ "compaction_continue": true });
            if message.metadata.had_media {
                line["metadata"]["had_media"] = json!(true);
            }
            line["origin"] = json!({ "kind": "auto-continuation" });
        } else if let Origin::Synthetic(Synthetic::Reminder) = message.origin {
            line["origin"] = json!({ "kind": "task-notification" });
        }
        line
    }

    /// One delta as a `stream_event`, opening its message and block where needed.
    fn delta(
        &mut self,
        message: MessageId,
        index: u32,
        start: impl FnOnce() -> Value,
        delta: Value,
    ) -> io::Result<()> {
        if !self.options.partial || self.options.format != Format::StreamJson {
            return Ok(());
        }
        if self.streaming.is_none_or(|(open, _)| open != message) {
            self.streaming = Some((message, None));
            let body = json!({ "type": "message_start", "message": {
                "id": message, "type": "message", "role": "assistant", "content": [],
                "stop_reason": null, "stop_sequence": null, "usage": shapes::usage(&becket_types::Usage::default()),
            } });
            self.stream_event(&body)?;
        }
        let open = self.streaming.and_then(|(_, block)| block);
        if open != Some(index) {
            if let Some(previous) = open {
                self.stream_event(&json!({ "type": "content_block_stop", "index": previous }))?;
            }
            self.streaming = Some((message, Some(index)));
            self.stream_event(
                &json!({ "type": "content_block_start", "index": index, "content_block": start() }),
            )?;
        }
        self.stream_event(&json!({ "type": "content_block_delta", "index": index, "delta": delta }))
    }

    fn close_stream(&mut self, stop_reason: &str, usage: &becket_types::Usage) -> io::Result<()> {
        let Some((_, block)) = self.streaming.take() else { return Ok(()) };
        if let Some(index) = block {
            self.stream_event(&json!({ "type": "content_block_stop", "index": index }))?;
        }
        self.stream_event(&json!({
            "type": "message_delta",
            "delta": { "stop_reason": stop_reason, "stop_sequence": null },
            "usage": shapes::usage(usage),
        }))?;
        self.stream_event(&json!({ "type": "message_stop" }))
    }

    fn stream_event(&mut self, event: &Value) -> io::Result<()> {
        let line = json!({
            "type": "stream_event", "event": event, "parent_tool_use_id": null,
            "session_id": self.session, "uuid": MessageId::new(),
        });
        self.line(&line)
    }

    fn emit(&mut self, line: Value) -> io::Result<()> {
        match self.options.format {
            Format::StreamJson => self.line(&line),
            Format::Json if self.options.verbose => {
                self.collected.push(line);
                Ok(())
            }
            Format::Json | Format::Text => Ok(()),
        }
    }

    fn line(&mut self, line: &Value) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.out.write_all(&bytes)?;
        self.out.flush()
    }
}

/// The turns that a schema re-ask took, as one.
fn merge(carried: Option<TurnResult>, result: &TurnResult) -> Cow<'_, TurnResult> {
    let Some(before) = carried else { return Cow::Borrowed(result) };
    let mut result = result.clone();
    result.steps += before.steps;
    result.duration.0 += before.duration.0;
    result.api_duration.0 += before.api_duration.0;
    result.usage += before.usage;
    result.cost += before.cost;
    result.compactions += before.compactions;
    for old in before.models {
        match result.models.iter_mut().find(|m| m.model == old.model) {
            Some(m) => {
                m.usage += old.usage;
                m.cost += old.cost;
            }
            None => result.models.push(old),
        }
    }
    result.denials.splice(0..0, before.denials);
    Cow::Owned(result)
}

/// 148,231 → `148k`.
fn short(tokens: u64) -> String {
    if tokens < 1000 { tokens.to_string() } else { format!("{}k", (tokens + 500) / 1000) }
}
