//! Tool calls of one answer: checked, permitted, run, and each given exactly one result.
//!
//! Order: calls are taken up in the model's order. Read-only ones run side by side, at most [`SIDE_BY_SIDE`]; any other
//! waits for all before it and runs alone, so writes to one path, and reads after writes, keep their order. Results go
//! into the ledger in the order of the calls.
//!
//! Journal: `intended` for every call that may run, `started` before it runs (synced when it has side effects),
//! `finished` with its result in one commit. Whatever happens to a call, its result says so.

use super::files::Touch;
use super::{Agent, Core, Op, until};
use crate::answer::Call;
use crate::host::lock;
use crate::machine::{Input, NotRun};
use crate::spend::millis;
use becket_guard::Verdict;
use becket_session::Durability;
use becket_tool::{Host, Tool, ToolEnv};
use becket_types::{
    Access, CallId, Decision, Effect, EntryKind, Event, JournalState, Message, Part, PermissionDenial,
    PermissionRequest, ToolOutput, cut_end, cut_start,
};
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Map, Value, json};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Read-only calls that run at the same time.
const SIDE_BY_SIDE: usize = 8;
/// How long a cancelled tool may take to say what it did.
const GRACE: Duration = Duration::from_secs(2);
/// Live output of one call that is forwarded to front ends and kept for an interrupt, in bytes.
const MAX_LIVE: usize = 1 << 20;
const MAX_PARTIAL: usize = 16 * 1024;

/// The calls of one answer.
pub(super) struct Batch {
    slots: Vec<Slot>,
    /// First slot that is not taken up.
    next: usize,
    /// First slot without a result in the ledger.
    written: usize,
    /// A call with side effects is running.
    alone: bool,
    running: FuturesUnordered<BoxFuture<'static, Done>>,
    cancel: CancellationToken,
    /// When tools that were cancelled are given up.
    grace: Option<Instant>,
    given_up: bool,
    touched: Vec<PathBuf>,
}

/// A call that came to its end.
pub(super) struct Done {
    index: usize,
    output: ToolOutput,
    time: Duration,
}

struct Slot {
    call: Call,
    state: SlotState,
    /// `intended` is in the journal.
    journaled: bool,
    subject: Option<String>,
    started: Option<Instant>,
    /// The end of its live output.
    partial: Arc<Mutex<String>>,
}

enum SlotState {
    Waiting,
    /// The front end was asked for permission; the rule that would allow it for the session.
    Asking {
        access: Access,
        rule: Option<String>,
    },
    Running,
    Done {
        output: ToolOutput,
        time: Duration,
    },
}

/// What became of a call that was taken up.
enum Taken {
    Running {
        alone: bool,
    },
    Settled,
    /// It cannot start yet.
    Blocked,
}

impl Batch {
    fn new(calls: Vec<Call>) -> Self {
        let slot = |call| Slot {
            call,
            state: SlotState::Waiting,
            journaled: false,
            subject: None,
            started: None,
            partial: Arc::default(),
        };
        Self {
            slots: calls.into_iter().map(slot).collect(),
            next: 0,
            written: 0,
            alone: false,
            running: FuturesUnordered::new(),
            cancel: CancellationToken::new(),
            grace: None,
            given_up: false,
            touched: Vec::new(),
        }
    }

    /// The calls that ended, at least one; none when the tools that were cancelled are given up.
    pub(super) async fn next(&mut self) -> Vec<Done> {
        tokio::select! {
            biased;
            Some(first) = self.running.next() => {
                let mut done = vec![first];
                while let Some(Some(more)) = self.running.next().now_or_never() {
                    done.push(more);
                }
                done
            }
            () = until(self.grace) => {
                self.given_up = true;
                Vec::new()
            }
        }
    }

    fn is_over(&self) -> bool {
        self.written == self.slots.len()
    }
}

impl Slot {
    fn settle(&mut self, output: ToolOutput) {
        let time = self.started.map_or(Duration::ZERO, |at| at.elapsed());
        self.state = SlotState::Done { output, time };
    }

    fn refuse(&mut self, why: impl Into<String>) {
        self.settle(ToolOutput::error(why));
    }
}

impl Agent {
    pub(super) fn run_tools(&mut self) {
        let calls = std::mem::take(&mut self.ids.last_calls);
        self.op = Op::Tools(Box::new(Batch::new(calls)));
        self.advance();
    }

    /// Takes up as many calls as may run now, writes the results that are there, and ends the batch when all are.
    fn advance(&mut self) {
        let Op::Tools(mut batch) = std::mem::replace(&mut self.op, Op::None) else { return };
        let mut synced = Durability::Buffered;
        while batch.next < batch.slots.len() {
            match self.take_up(&mut batch) {
                Taken::Running { alone } => {
                    batch.alone = alone;
                    if alone {
                        synced = Durability::Synced;
                    }
                }
                Taken::Settled => {}
                Taken::Blocked => break,
            }
            batch.next += 1;
        }
        self.core.flush(synced);
        self.report_usage();
        self.write_results(&mut batch);
        if batch.is_over() {
            self.rules_below(&batch.touched);
            self.feed(Input::ToolsDone);
        } else {
            self.op = Op::Tools(batch);
        }
    }

    /// The next call: checks, permission, start.
    fn take_up(&mut self, batch: &mut Batch) -> Taken {
        let index = batch.next;
        let (running, alone) = (batch.running.len(), batch.alone);
        let Some(slot) = batch.slots.get_mut(index) else { return Taken::Blocked };
        match slot.state {
            SlotState::Waiting => {}
            SlotState::Asking { .. } => return Taken::Blocked,
            SlotState::Running | SlotState::Done { .. } => return Taken::Settled,
        }
        if alone || running >= SIDE_BY_SIDE {
            return Taken::Blocked;
        }
        let (tool, env, access) = match self.check(&slot.call, &batch.cancel, &slot.partial) {
            Ok(checked) => checked,
            Err(why) => {
                slot.refuse(why);
                return Taken::Settled;
            }
        };
        if !access.is_read_only() && running > 0 {
            return Taken::Blocked;
        }
        slot.subject = subject(&access, &env);
        if !std::mem::replace(&mut slot.journaled, true) {
            if !self.ids.may_run(&slot.call) {
                slot.refuse(
                    "Not run: this same call, under the same id, has run already; its result is above. If you mean to \
                     repeat it, make a new call.",
                );
                return Taken::Settled;
            }
            self.core.push(journal(slot, JournalState::Intended, Value::Null));
        }
        match self.guard.check(&tool.spec().name, &access, &slot.call.input) {
            Verdict::Allow { .. } => {}
            Verdict::Deny { reason, .. } => {
                self.deny(slot, reason);
                return Taken::Settled;
            }
            Verdict::Ask { reason, .. } if self.settings.headless => {
                self.deny(slot, format!("{reason} (nobody can be asked in this session)"));
                return Taken::Settled;
            }
            Verdict::Ask { reason, rule } => {
                self.core.announce(Event::PermissionAsked(Box::new(PermissionRequest {
                    call_id: slot.call.id.clone(),
                    tool: slot.call.name.clone(),
                    input: slot.call.input.clone(),
                    access: access.clone(),
                    reason,
                })));
                slot.state = SlotState::Asking { access, rule };
                return Taken::Blocked;
            }
        }
        let alone = !access.is_read_only();
        self.launch(batch, index, tool, env, access);
        Taken::Running { alone }
    }

    /// Everything that can be wrong with a call before permission matters.
    fn check(
        &self,
        call: &Call,
        cancel: &CancellationToken,
        partial: &Arc<Mutex<String>>,
    ) -> Result<(Arc<dyn Tool>, ToolEnv, Access), String> {
        if let Some(text) = &call.invalid {
            return Err(invalid_arguments(text));
        }
        let Some(tool) = self.tools.get(&call.name) else { return Err(self.tools.unknown(&call.name)) };
        let env = ToolEnv {
            cwd: self.settings.environment.cwd.clone(),
            roots: self.settings.roots.as_slice().into(),
            call_id: call.id.clone(),
            cancel: cancel.child_token(),
            progress: self.core.progress(call.id.clone(), Arc::clone(partial)),
            host: Arc::clone(&self.host) as Arc<dyn Host>,
        };
        let access = tool.access(&call.input, &env)?;
        Ok((Arc::clone(tool), env, access))
    }

    /// Starts a permitted call. It is not polled before its journal entry is written.
    fn launch(&mut self, batch: &mut Batch, index: usize, tool: Arc<dyn Tool>, env: ToolEnv, access: Access) {
        let Some(slot) = batch.slots.get_mut(index) else { return };
        self.core.push(journal(slot, JournalState::Started, Value::Null));
        self.core.announce(Event::ToolStarted {
            call_id: slot.call.id.clone(),
            name: slot.call.name.clone(),
            input: slot.call.input.clone(),
        });
        slot.state = SlotState::Running;
        slot.started = Some(Instant::now());
        let hook = (access.effect == Effect::Write).then(|| self.settings.edit_hook.clone()).flatten();
        let (mode, paths, around) = (self.guard.mode(), access.paths.clone(), env.clone());
        let (files, touch) = (self.files.clone(), self.touches(&access, &around));
        let id = slot.call.id.clone();
        batch.touched.extend(access.paths);
        let call = run(tool, slot.call.input.clone(), env, self.settings.tool_timeout);
        batch.running.push(
            async move {
                let files = files.filter(|_| !matches!(touch, Touch::Nothing));
                if let Some(files) = &files {
                    files.before(&id, touch).await;
                }
                let started = Instant::now();
                if let Some(hook) = &hook {
                    hook.before(&paths, mode, &around).await;
                }
                let mut output = call.await;
                if let Some(hook) = &hook {
                    output = becket_tool::hook::noted(&**hook, output, mode, &around).await;
                }
                let time = started.elapsed();
                if let Some(files) = &files {
                    files.after(&id, &mut output).await;
                }
                Done { index, output, time }
            }
            .boxed(),
        );
    }

    fn deny(&mut self, slot: &mut Slot, reason: String) {
        let denial = PermissionDenial {
            tool: slot.call.name.clone(),
            call_id: slot.call.id.clone(),
            input: slot.call.input.clone(),
            reason: reason.clone(),
        };
        self.turn.denials.push(denial.clone());
        self.core.announce(Event::PermissionDenied(denial));
        slot.refuse(format!("Permission denied, not run: {reason}."));
    }

    /// The answer to a question for permission.
    pub(super) fn decided(&mut self, id: &CallId, decision: Decision) {
        let Op::Tools(mut batch) = std::mem::replace(&mut self.op, Op::None) else { return };
        let index = batch.next;
        if let Some(slot) = batch.slots.get_mut(index)
            && slot.call.id == *id
            && let SlotState::Asking { access, rule } = std::mem::replace(&mut slot.state, SlotState::Waiting)
        {
            match decision {
                Decision::Deny { reason } => {
                    let words = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                    self.deny(slot, format!("the user said no{words}"));
                }
                Decision::AllowOnce | Decision::AllowSession => {
                    if decision == Decision::AllowSession
                        && let Some(rule) = rule
                        && let Err(error) = self.guard.allow_for_session(&rule)
                    {
                        let text = format!("This can be allowed once only: {error}");
                        self.core.say(becket_types::NoticeLevel::Warning, text);
                    }
                    // What was shown is what runs: the call is checked again and must touch the same.
                    match self.check(&slot.call, &batch.cancel, &slot.partial) {
                        Ok((tool, env, now)) if now == access => {
                            batch.alone = !access.is_read_only();
                            self.launch(&mut batch, index, tool, env, access);
                        }
                        Ok(_) => {
                            slot.refuse("Not run: what it would touch changed while the user was asked.");
                        }
                        Err(why) => slot.refuse(why),
                    }
                    // A session-wide permission is on disk like any start with side effects.
                    self.core.flush(Durability::Synced);
                }
            }
            batch.next += 1;
        }
        self.op = Op::Tools(batch);
        self.advance();
    }

    /// The front end is gone: a question that is open is answered with no.
    pub(super) fn nobody_decides(&mut self) {
        let Op::Tools(batch) = &self.op else { return };
        let Some(slot) = batch.slots.get(batch.next) else { return };
        if matches!(slot.state, SlotState::Asking { .. }) {
            let id = slot.call.id.clone();
            self.decided(&id, Decision::Deny { reason: Some("the front end is gone".to_owned()) });
        }
    }

    pub(super) fn tools_done(&mut self, done: Vec<Done>) {
        let Op::Tools(batch) = &mut self.op else { return };
        for Done { index, output, time } in done {
            if let Some(slot) = batch.slots.get_mut(index) {
                slot.state = SlotState::Done { output, time };
            }
            batch.alone = false;
        }
        if batch.given_up {
            batch.running.clear();
            for slot in &mut batch.slots {
                if matches!(slot.state, SlotState::Running) {
                    let partial = std::mem::take(&mut *lock(&slot.partial));
                    slot.settle(interrupted(&partial));
                }
            }
        }
        self.advance();
    }

    /// Cancels what runs; what has not begun does not begin. Asked a second time, it waits no longer.
    pub(super) fn cancel_tools(&mut self) {
        let Op::Tools(batch) = &mut self.op else { return };
        let patience = if batch.cancel.is_cancelled() { Duration::ZERO } else { GRACE };
        batch.cancel.cancel();
        batch.grace = Some(Instant::now() + patience);
        for slot in &mut batch.slots {
            if matches!(slot.state, SlotState::Waiting | SlotState::Asking { .. }) {
                slot.refuse(not_run(NotRun::Interrupted));
            }
        }
        batch.next = batch.slots.len();
        self.advance();
    }

    /// Results in the order of the calls, as far as they are there, in one commit.
    fn write_results(&mut self, batch: &mut Batch) {
        let (state, mut reads) = self.host.drain();
        for entry in state {
            self.core.push(entry);
        }
        while let Some(slot) = batch.slots.get_mut(batch.written) {
            let SlotState::Done { output, time } = &mut slot.state else { break };
            let (output, time) = (std::mem::take(output), *time);
            batch.written += 1;
            self.repetition.saw(&slot.call.name, &slot.call.input, &output.content, output.is_error);
            if slot.started.is_some() {
                let result = journal_result(&output, std::mem::take(&mut reads));
                self.core.push(journal(slot, JournalState::Finished, result));
            }
            let changes = output.changes.clone();
            let mut message = result_message(&slot.call, output);
            message.seq = self.core.next_seq();
            self.core.push(EntryKind::Message { message: message.clone() });
            self.core.announce(Event::ToolFinished { message, changes, duration: millis(time) });
        }
        self.core.flush(Durability::Buffered);
    }

    /// Gives every call of the last answer a result without running it.
    pub(super) fn close_calls(&mut self, why: NotRun) {
        for call in std::mem::take(&mut self.ids.last_calls) {
            let mut message = result_message(&call, ToolOutput::error(not_run(why)));
            message.seq = self.core.next_seq();
            self.core.push(EntryKind::Message { message: message.clone() });
            self.core.announce(Event::ToolFinished {
                message,
                changes: Vec::new(),
                duration: millis(Duration::ZERO),
            });
        }
    }
}

impl Core {
    /// Live output of a call: to the front ends, and its end kept for an interrupt.
    fn progress(&self, call_id: CallId, partial: Arc<Mutex<String>>) -> Arc<dyn Fn(&str) + Send + Sync> {
        let events = self.events.clone();
        let forwarded = std::sync::atomic::AtomicUsize::new(0);
        Arc::new(move |chunk: &str| {
            {
                let mut kept = lock(&partial);
                kept.push_str(chunk);
                if kept.len() > 2 * MAX_PARTIAL {
                    let drop = kept.len() - cut_start(&kept, MAX_PARTIAL).len();
                    kept.drain(..drop);
                }
            }
            let before = forwarded.fetch_add(chunk.len(), std::sync::atomic::Ordering::Relaxed);
            if before < MAX_LIVE {
                let _ = events.send(Event::ToolOutput { call_id: call_id.clone(), chunk: chunk.to_owned() });
            }
        })
    }
}

/// Runs a call to an output, whatever happens: a panic and a timeout are outputs too.
async fn run(tool: Arc<dyn Tool>, input: Value, env: ToolEnv, limit: Duration) -> ToolOutput {
    let mut call = AssertUnwindSafe(tool.run(input, &env)).catch_unwind();
    let Ok(ended) = tokio::time::timeout(limit, &mut call).await else {
        env.cancel.cancel();
        let said = match tokio::time::timeout(GRACE, &mut call).await {
            Ok(Ok(output)) => output.content,
            Ok(Err(_)) | Err(_) => String::new(),
        };
        return timed_out(limit, &said);
    };
    let mut output = ended
        .unwrap_or_else(|panic| ToolOutput::error(format!("The tool failed inside: {}", words(&*panic))));
    if output.interrupted && !output.content.to_lowercase().contains("interrupted") {
        output.content = format!("Interrupted, effect unknown.\n{}", output.content);
    }
    output
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked")
}

fn timed_out(limit: Duration, said: &str) -> ToolOutput {
    let text =
        format!("Timed out after {} s and was stopped; its effect is unknown.\n{said}", limit.as_secs());
    ToolOutput { interrupted: true, ..ToolOutput::error(text.trim_end()) }
}

fn interrupted(partial: &str) -> ToolOutput {
    let partial = cut_start(partial, MAX_PARTIAL);
    let rest = if partial.is_empty() { String::new() } else { format!("\nOutput until then:\n{partial}") };
    let text = format!("Interrupted by the user, effect unknown.{rest}");
    ToolOutput { interrupted: true, ..ToolOutput::error(text) }
}

fn not_run(why: NotRun) -> &'static str {
    match why {
        NotRun::Cut => {
            "Not run: your answer was cut by the output limit, so its calls may be incomplete. Make them again in smaller \
             parts, for example several smaller edits in place of one large one."
        }
        NotRun::WrapUp => {
            "Not run: the step limit of this turn is reached, and no more tools are available in it."
        }
        NotRun::Refused => "Not run: the answer that called it was refused.",
        NotRun::Interrupted => "Not run: the user interrupted before it was started.",
    }
}

/// What the model is told of arguments that are no JSON object.
fn invalid_arguments(text: &str) -> String {
    let what = match serde_json::from_str::<Value>(text) {
        Ok(_) => "they are not a JSON object".to_owned(),
        Err(error) => format!("at line {}, column {}: {error}", error.line(), error.column()),
    };
    let start = cut_end(text, 200);
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("Not run: the arguments of this call are not valid JSON, {what}. They begin: {start}{more}")
}

/// One line for people and for the summary.
fn subject(access: &Access, env: &ToolEnv) -> Option<String> {
    let line = match (&access.command, access.paths.first(), &access.subject) {
        (Some(command), ..) => command.clone(),
        (None, Some(path), _) => env.display(path),
        (None, None, subject) => subject.clone()?,
    };
    let first = line.lines().next().unwrap_or_default();
    Some(cut_end(first, 200).to_owned())
}

fn journal(slot: &Slot, state: JournalState, result: Value) -> EntryKind {
    EntryKind::ToolJournal {
        call_id: slot.call.id.clone(),
        state,
        tool: Some(slot.call.name.clone()),
        subject: slot.subject.clone(),
        result,
    }
}

/// What the summary's engine-filled sections are made of.
fn journal_result(output: &ToolOutput, reads: Map<String, Value>) -> Value {
    let mut result = Map::new();
    if let Some(code) =
        ["exit_code", "exit"].iter().find_map(|key| output.details.get(key)).and_then(Value::as_i64)
    {
        result.insert("exit_code".to_owned(), Value::from(code));
    }
    if output.is_error {
        result.insert("is_error".to_owned(), Value::Bool(true));
    }
    if output.interrupted {
        result.insert("interrupted".to_owned(), Value::Bool(true));
    }
    if !output.changes.is_empty() {
        result.insert("changes".to_owned(), json!(output.changes));
    }
    if !reads.is_empty() {
        result.insert("reads".to_owned(), Value::Object(reads));
    }
    if result.is_empty() { Value::Null } else { Value::Object(result) }
}

/// The tool message: the result, and the images that came with it.
fn result_message(call: &Call, output: ToolOutput) -> Message {
    let mut message =
        Message::tool_result(call.id.clone(), call.name.clone(), output.content, output.is_error);
    for part in &mut message.parts {
        if let Part::ToolResult { interrupted, details, spill, extra, .. } = part {
            *interrupted = output.interrupted;
            *details = output.details.clone();
            spill.clone_from(&output.spill);
            if output.excerpt_lines > 0 {
                extra.insert("excerpt_lines".to_owned(), Value::from(output.excerpt_lines));
            }
        }
    }
    message.parts.extend(output.images);
    message
}
