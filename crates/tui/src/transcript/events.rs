//! Turns events into blocks. The events of the ledger alone give the same blocks as the live events with their deltas.

use super::block::{Block, Body, Weight};
use super::blocks::{Blocks, Changed};
use super::call_view::CallView;
use super::compaction::{Compaction, LossReport};
use super::image::Image;
use super::long_answer;
use super::markdown::Markdown;
use super::pasted;
use super::tool::{State, ToolCall, changed_lines};
use crate::keymap::pretty;
use crate::text::{self, thousands};
use becket_types::sdk_names::without_exit_code;
use becket_types::{
    CallId, DenialCause, Event, LONG_TEXT, Message, MessageId, Millis, NoticeLevel, Part, Seq, TurnEnd,
    TurnResult, cut_start,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

impl Blocks {
    /// Applies one event. Returns true if the screen may have changed.
    pub(super) fn event(&mut self, event: &Event) -> bool {
        self.turn.idle = matches!(event, Event::TurnFinished(_));
        if let Some(changed) = self.call_event(event) {
            return changed;
        }
        match event {
            Event::UserMessage { message, steered, .. } => self.user(message, *steered),
            Event::TextDelta { message, index, text } => self.grow_answer(message, *index, text),
            Event::ReasoningDelta { message, index, text } => self.reasoning_delta(message, *index, text),
            Event::AssistantMessage { message, .. } => self.assistant(message),
            Event::CompactBoundary {
                entry,
                pre_tokens,
                post_tokens,
                summary,
                anchor,
                tail_from,
                kept,
                left_out,
                ..
            } => {
                let (reach, dropped) = self.dropped(*tail_from, kept);
                self.push(Body::Compaction(Compaction {
                    entry: *entry,
                    tokens: [pre_tokens.0, post_tokens.0],
                    open_hint: format!("{} shows the summary", pretty(&self.view.open_key)),
                    summary: summary.clone(),
                    anchor: anchor.clone(),
                    left_out: left_out.clone(),
                    dropped,
                    whole: !self.partial,
                    reach,
                    loss: LossReport::New,
                    undone: false,
                    open: false,
                }));
            }
            Event::CompactionReverted { entry, counts } => self.compaction_counts(*entry, *counts),
            Event::CompactionFailed { reason } => {
                self.note(Weight::Warning, not_compacted(reason));
            }
            Event::SyntheticMessage { message } => self.synthetic(message),
            Event::Pruned { calls, freed, .. } => {
                let freed = thousands(freed.0);
                let text = format!("{calls} old outputs pruned, {freed} tokens freed");
                self.push(Body::Note { weight: Weight::Quiet, text });
            }
            Event::Notice { level, text } => self.note(weight_of(*level), self.view.paths().shorten(text)),
            Event::SideAnswer { question, answer } => {
                self.note(Weight::Quiet, format!("btw: {question}"));
                self.push(Body::Answer { text: answer.clone(), layout: Markdown::default() });
            }
            Event::ContextChanged { text } => self.note(Weight::Quiet, text.clone()),
            Event::TurnFinished(result) => return self.turn_finished(result),
            Event::SessionStarted { cwd, resumed, title, .. } => {
                let (open_key, home) = (self.view.open_key.clone(), self.view.home.clone());
                self.view = Arc::new(CallView { workspace: cwd.display().to_string(), open_key, home });
                if !resumed {
                    return false;
                }
                self.interrupt_live();
                self.note(Weight::Quiet, resumed_line(title.as_deref()));
            }
            Event::ToolCallDelta { .. }
            | Event::PermissionAsked(_)
            | Event::PermissionDenied(_)
            | Event::ToolStarted { .. }
            | Event::ToolOutput { .. }
            | Event::Subagent { .. }
            | Event::ToolFinished { .. }
            | Event::Withdrawn { .. }
            | Event::Renamed { .. }
            | Event::Receipt { .. }
            | Event::ModelChosen { .. }
            | Event::ModeChanged { .. }
            | Event::Grants { .. }
            | Event::NothingToDo { .. }
            | Event::SideQuestionFailed { .. }
            | Event::MovedToBackground { .. }
            | Event::WorkspaceChanged { .. }
            | Event::StepStarted { .. }
            | Event::CompactionStarted { .. }
            | Event::Retry { .. }
            | Event::SummaryPreparation { .. }
            | Event::ContextUsed { .. }
            | Event::UndoPlanned(_)
            | Event::UndoDone(_)
            | Event::CompactionPlanned(_)
            | Event::HooksStarted { .. }
            | Event::HookRuns(_)
            | Event::QuotaUsedUp { .. }
            | Event::HookFinished(_)
            | Event::ContextPlanned(_) => return false,
        }
        true
    }

    /// Applies an event of a tool call. Returns true if the screen may have changed, `None` for another event.
    fn call_event(&mut self, event: &Event) -> Option<bool> {
        match event {
            Event::ToolCallDelta { call_id, name, json, .. } => self.call_delta(call_id, name, json),
            Event::PermissionAsked(request) => {
                self.call(&request.call_id, &request.tool, |c| {
                    c.input = request.input.clone();
                    c.state = State::Asking;
                });
            }
            Event::PermissionDenied(denial) => {
                let reason = match &denial.cause {
                    DenialCause::User { words: Some(words) } => format!("you said no: {words}"),
                    DenialCause::User { words: None } => "you said no".to_owned(),
                    DenialCause::PlanMode | DenialCause::Policy => denial.reason.clone(),
                };
                let known = reason.len() > SHORT_REASON && self.gave_reason(&denial.tool, &reason);
                let reason = if known { "see the reason above".to_owned() } else { reason };
                self.call(&denial.call_id, &denial.tool, |c| c.state = State::Denied { reason });
            }
            Event::ToolStarted { call_id, name, input } => {
                let beat = self.turn.beat;
                self.call(call_id, name, |c| {
                    c.input = input.clone();
                    c.state = State::Running { seconds: 0, beat };
                });
            }
            Event::ToolOutput { call_id, chunk } => self.call(call_id, "", |c| c.output.push(chunk)),
            Event::Subagent { call_id, what } => return Some(self.nested(call_id, what)),
            Event::ToolFinished { message, duration, changes, .. } => {
                self.changed.files.extend(changes.iter().map(|change| change.path.clone()));
                let counted = self.finished(message, *duration);
                self.changed.uncounted |= !counted && !changes.is_empty();
            }
            _ => return None,
        }
        Some(true)
    }

    /// True if another call of this turn was denied for the same reason, apart from the name of its tool.
    fn gave_reason(&self, tool: &str, reason: &str) -> bool {
        fn bare<'a>(tool: &str, reason: &'a str) -> &'a str {
            reason.strip_prefix(tool).unwrap_or(reason)
        }
        let turn = self.iter().rev().take_while(|block| !matches!(block.body(), Body::User { .. }));
        turn.into_iter().any(|block| match block.body() {
            Body::Tool(call) => {
                matches!(&call.state, State::Denied { reason: other } if bare(&call.name, other) == bare(tool, reason))
            }
            _ => false,
        })
    }

    /// Adds the summary of a completed turn, or the reason why the turn ended.
    fn turn_finished(&mut self, result: &TurnResult) -> bool {
        self.finish_answers();
        let changed = std::mem::take(&mut self.changed);
        let only = changed.files.iter().next().filter(|_| changed.files.len() == 1);
        let only = only.map(|path| self.view.relative(&path.to_string_lossy()).to_owned());
        let summary = turn_summary(result, &changed, only.as_deref());
        match summary {
            Some(text) if result.end == TurnEnd::Completed => {
                // This line is not marked as local, unlike other notes: the ledger reproduces it, so the turn can be evicted from memory.
                self.push(Body::Note { weight: Weight::Done, text });
                true
            }
            summary => self.turn_end(&result.end, summary),
        }
    }

    /// Applies an event of the subagent that works for this call.
    fn nested(&mut self, id: &CallId, event: &Event) -> bool {
        let state = match event {
            Event::PermissionAsked(_) => Some(State::Asking),
            Event::ToolStarted { .. } | Event::PermissionDenied(_) | Event::ToolFinished { .. } => {
                Some(State::Running { seconds: 0, beat: self.turn.beat })
            }
            _ => None,
        };
        let mut changed = false;
        if let Some(at) = self.call_at(id) {
            self[at].change(|body| {
                if let Body::Tool(call) = body {
                    changed = call.nested.event(event) || state.is_some();
                    let runs = |state: &State| matches!(state, State::Running { .. });
                    // A call of the subagent does not start the time of the subagent again.
                    if !(runs(&call.state) && state.as_ref().is_some_and(runs)) {
                        call.state = state.unwrap_or_else(|| call.state.clone());
                    }
                }
            });
        }
        match event {
            Event::Notice { level: NoticeLevel::Warning | NoticeLevel::Error, text } => {
                self.note(Weight::Warning, format!("subagent: {text}"));
            }
            Event::CompactBoundary { pre_tokens, post_tokens, .. } => {
                let [before, after] = [pre_tokens, post_tokens].map(|n| thousands(n.0));
                self.note(Weight::Quiet, format!("subagent: context compacted {before} → {after} tokens"));
            }
            _ => return changed,
        }
        true
    }

    /// Returns the visible messages that a compaction removed from the context, one line each. Messages that an earlier compaction removed
    /// are not listed again. The pair: the first entry that was in the context before and after the compaction.
    fn dropped(&mut self, tail_from: Seq, kept: &[MessageId]) -> ((Seq, Seq), Vec<(Seq, String)>) {
        let before = self.compacted_to;
        self.compacted_to = before.max(tail_from);
        let out = |block: &Block| {
            let (seq, id) = block.message()?;
            let is = seq >= before && seq < tail_from && !kept.contains(&id) && block.is_told(false);
            is.then(|| (seq, block.headline()))
        };
        ((before, self.compacted_to), self.iter().filter_map(out).collect())
    }

    /// Applies that a compaction was undone, or applied again (`counts`).
    fn compaction_counts(&mut self, entry: Seq, counts: bool) {
        let mut reach = (self.compacted_to, self.compacted_to);
        self.change_compaction(entry, |compaction| {
            compaction.undone = !counts;
            reach = compaction.reach;
        });
        self.compacted_to = if counts { reach.1 } else { reach.0 };
    }

    /// Adds a line by becket itself.
    pub(super) fn note(&mut self, weight: Weight, text: String) {
        let at = self.push(Body::Note { weight, text });
        let local = !self.replays;
        self[at].set_local(local);
    }

    /// Adds a shell command of the user that has ended, with the look of a call.
    pub(super) fn shell(&mut self, command: &str, output: &str, failed: bool, details: &Value) {
        let id = CallId(format!("shell-{}", self.len()));
        let mut call = ToolCall::new(id, "!".to_owned(), Arc::clone(&self.view));
        call.input = json!({"command": command});
        // The model reads the exit code in the last line. The user sees it in the title.
        let text = without_exit_code(output, details, 0);
        call.set_result(
            text.trim_end(),
            &details.get("exit_code").map_or(Value::Null, |code| json!({"exit_code": code})),
        );
        call.state = if failed { State::Failed { millis: 0 } } else { State::Done { millis: 0 } };
        // The user wants to read the output of their own command, so the call is open unless the output has more than `OPEN_OUTPUT` lines.
        call.open = text.lines().count() <= OPEN_OUTPUT;
        let at = self.push(Body::Tool(Box::new(call)));
        self[at].set_local(true);
    }

    fn user(&mut self, message: &Message, steered: bool) {
        if !message.visibility().user {
            self.synthetic(message);
            return;
        }
        let mut text = message.text();
        for part in &message.parts {
            if let Part::Image { name, .. } = part
                && self.next_image.is_none()
            {
                if !text.is_empty() {
                    text.push('\n');
                }
                let _ = write!(text, "[image {}]", name.as_deref().unwrap_or("pasted"));
            }
        }
        let at = self.push(Body::User { text, steered, chips: pasted::chips(&message.parts), open: false });
        self[at].set_message(message.seq, message.id);
        self.images_of(message);
    }

    /// Adds the images of a message, if the terminal draws images.
    fn images_of(&mut self, message: &Message) {
        for part in &message.parts {
            if let Some(number) = self.next_image
                && let Some(image) = Image::of(part, number)
            {
                self.next_image = Some(image.number_behind());
                self.push(Body::Image(image));
            }
        }
    }

    fn synthetic(&mut self, message: &Message) {
        let kind = serde_json::to_value(message.origin)
            .ok()
            .and_then(|v| v.get("synthetic").and_then(|k| k.as_str().map(str::to_owned)))
            .unwrap_or_else(|| {
                let flagged = message.metadata.compaction_continue;
                if flagged { "compaction_continue" } else { "message" }.to_owned()
            });
        let at = self.push(Body::Hidden { kind: kind.replace('_', " "), text: message.text() });
        self[at].set_message(message.seq, message.id);
    }

    fn reasoning_delta(&mut self, message: &MessageId, index: u32, delta: &str) {
        let at =
            self.part(message, index, || Body::Thinking { text: String::new(), open: false, done: false });
        self[at].change(|body| {
            if let Body::Thinking { text, .. } = body {
                text.push_str(delta);
                // Only the end of long thoughts is kept here; the session has them whole.
                if text.len() > LONG_TEXT {
                    text.drain(..text.len() - cut_start(text, LONG_TEXT / 2).len());
                }
            }
        });
    }

    fn call_delta(&mut self, id: &CallId, name: &str, json: &str) {
        self.call(id, name, |c| c.partial.push_str(json));
    }

    /// Applies a complete message. Its parts repeat what the deltas said, or are new if there were no deltas.
    fn assistant(&mut self, message: &Message) {
        if !message.visibility().user {
            self.synthetic(message);
            return;
        }
        for (index, part) in message.parts.iter().enumerate() {
            let index = index as u32;
            match part {
                Part::Text { .. } if self.set_long_message(&message.id, index, message.seq) => {}
                Part::Text { text, .. } => {
                    let at = self.part(&message.id, index, long_answer::empty);
                    self[at].change(|body| {
                        if let Body::Answer { text: have, layout } = body
                            && have != text
                        {
                            have.clone_from(text);
                            layout.reset();
                        }
                    });
                    self.finish_answer(at);
                    self[at].set_message(message.seq, message.id);
                }
                Part::Reasoning { text, .. } => {
                    let at = self.part(&message.id, index, || Body::Thinking {
                        text: String::new(),
                        open: false,
                        done: true,
                    });
                    self[at].change(|body| {
                        if let Body::Thinking { text: have, done, .. } = body {
                            have.clone_from(text);
                            *done = true;
                        }
                    });
                    self[at].set_message(message.seq, message.id);
                }
                Part::ToolCall { call_id, name, input, .. } => {
                    self.call(call_id, name, |c| c.input = input.clone());
                }
                _ => {}
            }
        }
        self.end_parts(message.id);
    }

    /// Sets the results of calls. Returns true if all of them tell the numbers of lines that they changed.
    fn finished(&mut self, message: &Message, time: Millis) -> bool {
        let mut counted = true;
        for part in &message.parts {
            if let Part::ToolResult { call_id, name, output, is_error, interrupted, details, .. } = part {
                // The call was interrupted before it began. Its result says so to the model; the user sees the mark of
                // an interrupted call instead of these words.
                let not_started = details.get("not_run").is_some();
                self.call(call_id, name, |c| {
                    c.set_result(if not_started { "" } else { output }, details);
                    c.state = match &c.state {
                        State::Denied { reason } => State::Denied { reason: reason.clone() },
                        _ if *interrupted || not_started => State::Interrupted,
                        _ if *is_error => State::Failed { millis: time.0 },
                        _ => State::Done { millis: time.0 },
                    };
                });
                if let Some(at) = self.call_at(call_id) {
                    self[at].set_message(message.seq, message.id);
                    let lines = match self[at].body() {
                        Body::Tool(call) => changed_lines(call),
                        _ => None,
                    };
                    counted &= lines.is_some();
                    let (added, removed) = lines.unwrap_or_default();
                    self.changed.added += added;
                    self.changed.removed += removed;
                }
                self.group_around(call_id);
            }
        }
        self.images_of(message);
        counted
    }

    /// Joins successful read-only calls in a row into the line of the first one.
    fn group_around(&mut self, id: &CallId) {
        let Some(at) = self.call_at(id) else { return };
        let looks = |block: &Block| match block.body() {
            Body::Tool(call) if call.only_looks() => Some((call.name.clone(), call.subject())),
            _ => None,
        };
        if looks(&self[at]).is_none() {
            return;
        }
        let first = (0..at).rev().take_while(|i| looks(&self[*i]).is_some()).last().unwrap_or(at);
        let run = self[first..].iter().map_while(looks);
        let group: Vec<_> = run.skip(1).collect();
        let open = self[first].open().unwrap_or(false);
        for block in &mut self[first + 1..=first + group.len()] {
            block.set_summarized(!open);
        }
        self[first].change(|body| {
            if let Body::Tool(call) = body {
                call.group = group;
            }
        });
    }

    /// True if the last visible block is an interrupted call, whose line already says so.
    fn says_interrupted(&self) -> bool {
        let last = self.iter().rev().find(|block| block.is_shown(false));
        last.is_some_and(|block| matches!(block.body(), Body::Tool(call) if call.state == State::Interrupted))
    }

    /// Replaces the line of a compaction that just failed for the same reason with the line of the turn's end. Returns
    /// false if there is no such line.
    fn says_full(&mut self, reason: &str) -> bool {
        let said = not_compacted(reason);
        let is = |block: &&mut Block| matches!(block.body(), Body::Note { text, .. } if *text == said);
        let Some(block) = self.last_mut().filter(is) else { return false };
        block.change(|body| {
            *body = Body::Note { weight: Weight::Error, text: full("the context is full", reason) };
        });
        true
    }

    fn turn_end(&mut self, end: &TurnEnd, summary: Option<String>) -> bool {
        let (weight, text) = match end {
            TurnEnd::Completed => return false,
            // The interrupted call's line has already reported the interruption.
            TurnEnd::Interrupted if self.says_interrupted() => {
                (Weight::Quiet, "say what to do instead".to_owned())
            }
            TurnEnd::Interrupted => (Weight::Warning, "interrupted; say what to do instead".to_owned()),
            TurnEnd::MaxTurns { limit } => (Weight::Warning, format!("stopped after {limit} requests")),
            TurnEnd::Budget { what } | TurnEnd::TokenLimit { what } => {
                (Weight::Warning, format!("stopped at the budget: {what}; /limits raises it"))
            }
            TurnEnd::TimeLimit { what } | TurnEnd::NoAnswer { what } => (Weight::Warning, what.clone()),
            TurnEnd::CallsAsText { what } => (Weight::Error, what.clone()),
            TurnEnd::Repetition { what } => {
                (Weight::Warning, format!("stopped, since the model repeated itself: {what}"))
            }
            TurnEnd::Refusal { reason } => (Weight::Warning, format!("the model refused: {reason}")),
            TurnEnd::ContextFull { breakdown } if self.says_full(breakdown) => return true,
            TurnEnd::ContextFull { breakdown } => (Weight::Error, full("the context is full", breakdown)),
            TurnEnd::NoRoom { what } => (Weight::Error, what.clone()),
            TurnEnd::HookStopped { what, .. } => (Weight::Warning, what.clone()),
            TurnEnd::Deferred { call } => {
                (Weight::Warning, format!("a hook deferred the call of {}", call.name))
            }
            TurnEnd::ModelError { message, .. } | TurnEnd::Failed { message } => {
                (Weight::Error, message.clone())
            }
        };
        let text = summary.map_or_else(|| text.clone(), |summary| format!("{text} · {summary}"));
        self.note(weight, text);
        true
    }
}

/// Maximum number of lines of a shell command's output that are shown without a key.
const OPEN_OUTPUT: usize = 40;
/// A reason of at most this many bytes is shown again even if another call of the turn had the same reason.
const SHORT_REASON: usize = 40;

/// Returns the line that opens a continued session.
pub(crate) fn resumed_line(title: Option<&str>) -> String {
    match title.map(str::trim).filter(|title| !title.is_empty()) {
        Some(title) => format!("Session resumed: {title}"),
        None => "Session resumed".to_owned(),
    }
}

fn not_compacted(reason: &str) -> String {
    format!("the context was not compacted: {reason}")
}

/// Returns the line for a turn that ended because the context is full. becket's own breakdown says so already, a
/// provider's message gets `begin` before it.
pub(crate) fn full(begin: &str, breakdown: &str) -> String {
    if breakdown.starts_with("The context is full") {
        breakdown.to_owned()
    } else {
        format!("{begin}: {breakdown}")
    }
}

/// Turns shorter than this get no line at their end unless they cost money or changed a file, in milliseconds: the answer is all there
/// is.
const SHORT_TURN: u64 = 1_000;

/// Returns the line at the end of a turn: time, cost, files, lines. `only`: the name of the file, if one was changed. `None` for
/// a short turn that cost and changed nothing.
fn turn_summary(result: &TurnResult, changed: &Changed, only: Option<&str>) -> Option<String> {
    let files = changed.files.len();
    let lines = if changed.uncounted || changed.added + changed.removed == 0 {
        String::new()
    } else {
        format!(" +{} −{}", changed.added, changed.removed)
    };
    let mut parts = Vec::new();
    let costs = result.cost.0 > 0.0;
    if result.duration.0 >= SHORT_TURN || files > 0 || costs {
        let word = if result.end == TurnEnd::Completed { "done in" } else { "after" };
        parts.push(format!("{word} {}", text::duration(result.duration.0)));
    }
    if costs {
        parts.push(crate::text::dollars(result.cost.0));
    }
    match (only, files) {
        (_, 0) => {}
        (Some(name), _) => parts.push(format!("edited {}{lines}", text::visible(name))),
        (None, n) => parts.push(format!("edited {n} files{lines}")),
    }
    (!parts.is_empty()).then(|| parts.join(" · "))
}

fn weight_of(level: NoticeLevel) -> Weight {
    match level {
        NoticeLevel::Info => Weight::Quiet,
        NoticeLevel::Warning => Weight::Warning,
        NoticeLevel::Error => Weight::Error,
    }
}
