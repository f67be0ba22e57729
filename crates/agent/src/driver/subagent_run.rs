//! One run of a subagent, from the view of the call that it works for: passes its events on, and makes the result of the call.
//!
//! Does not start a run, and does not decide whether it is in the background.

use super::Agent;
use crate::host::lock;
use crate::subagent::Task;
use becket_tool::{Keep, ToolEnv, finish};
use becket_types::{
    Blobs, CallId, Command, Event, FileChange, NoticeLevel, Part, SessionId, SubagentCall, SubagentReport,
    ToolOutput, TurnEnd, TurnResult, cut_end, is_blank, subject,
};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Limit on the calls that a report lists.
const MAX_CALLS: usize = 200;
/// Limit on a call's subject in the report, in bytes.
const MAX_SUBJECT: usize = 200;

/// Waits for a subagent in the foreground. An interrupt of the call interrupts it.
pub(super) async fn wait_for_subagent(
    mut receiver: oneshot::Receiver<ToolOutput>,
    subagent: CancellationToken,
    call: CancellationToken,
) -> ToolOutput {
    let output = tokio::select! {
        biased;
        output = &mut receiver => output,
        () = call.cancelled() => {
            subagent.cancel();
            receiver.await
        }
    };
    output.unwrap_or_else(|_| ToolOutput::error("The subagent ended without a result."))
}

/// A subagent's run, from the view of its call.
pub(super) struct SubagentRun {
    pub(super) task: Task,
    pub(super) session: SessionId,
    pub(super) env: ToolEnv,
    /// The blobs of the subagent's session, which may hold its answer.
    pub(super) blobs: Arc<dyn Blobs>,
    /// Weak, so that the channel to the subagent is closed once the driver drops its sender, because no person is left to
    /// decide.
    pub(super) commands: mpsc::WeakSender<Command>,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) offers: Arc<Mutex<HashMap<CallId, String>>>,
}

/// Facts that are collected during the run.
#[derive(Default)]
struct RunFacts {
    calls: Vec<(CallId, SubagentCall)>,
    left_out: u64,
    changes: Vec<FileChange>,
    result: Option<TurnResult>,
}

impl SubagentRun {
    pub(super) async fn run(self, agent: Agent, mut events: mpsc::UnboundedReceiver<Event>) -> ToolOutput {
        let mut gathered = RunFacts::default();
        let mut run = std::pin::pin!(agent.run());
        let (mut running, mut interrupt_sent) = (true, false);
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(event) => self.observe(event, &mut gathered),
                    None => break,
                },
                () = self.env.cancel.cancelled(), if !interrupt_sent => {
                    interrupt_sent = true;
                    if let Some(commands) = self.commands.upgrade() {
                        let _ = commands.try_send(Command::Interrupt);
                    }
                }
                _ = &mut run, if running => running = false,
            }
        }
        self.output(gathered)
    }

    fn observe(&self, event: Event, gathered: &mut RunFacts) {
        match &event {
            Event::TextDelta { .. }
            | Event::ReasoningDelta { .. }
            | Event::ToolCallDelta { .. }
            | Event::ToolOutput { .. }
            | Event::ContextUsed { .. }
            | Event::SummaryPreparation { .. }
            | Event::Notice { level: NoticeLevel::Info, .. } => return,
            Event::PermissionAsked(request) => {
                if let Some(offer) = &request.offer {
                    lock(&self.offers).insert(request.call_id.clone(), offer.rule.clone());
                }
            }
            Event::ToolStarted { call_id, name, input } => gathered.call(call_id, name, subject(input)),
            Event::PermissionDenied(denial) => {
                gathered.call(&denial.call_id, &denial.tool, subject(&denial.input));
            }
            Event::ToolFinished { message, changes, .. } => {
                for part in &message.parts {
                    if let Part::ToolResult { call_id, name, is_error, interrupted, .. } = part {
                        gathered.ended(call_id, name, *is_error || *interrupted);
                    }
                }
                for change in changes {
                    // The last change of a path counts.
                    gathered.changes.retain(|known| known.path != change.path);
                    gathered.changes.push(change.clone());
                }
            }
            Event::TurnFinished(result) => gathered.result = Some((**result).clone()),
            _ => {}
        }
        let call_id = self.env.call_id.clone();
        let _ = self.events.send(Event::Subagent { call_id, what: Box::new(event) });
    }

    fn output(self, gathered: RunFacts) -> ToolOutput {
        let RunFacts { calls, left_out, changes, result } = gathered;
        let (text, why, interrupted) = match &result {
            Some(result) => {
                let (why, interrupted) = shortfall(result);
                (result.text.read_whole(self.blobs.as_ref()), why, interrupted)
            }
            None => (String::new(), Some("it never began".to_owned()), false),
        };
        let content = match &why {
            None => text,
            Some(why) if is_blank(&text) => format!("The subagent did not finish: {why}."),
            Some(why) => format!("The subagent did not finish: {why}.\nIts last words:\n{text}"),
        };
        let report = SubagentReport {
            agent: self.task.kind.name,
            description: self.task.description,
            session: self.session,
            steps: result.as_ref().map_or(0, |r| r.steps),
            calls: calls.into_iter().map(|(_, call)| call).collect(),
            calls_left_out: left_out,
            usage: result.as_ref().map(TurnResult::whole_usage).unwrap_or_default(),
            cost: result.as_ref().map(|r| r.cost).unwrap_or_default(),
            duration: result.as_ref().map(|r| r.duration).unwrap_or_default(),
        };
        let output = ToolOutput {
            content,
            is_error: why.is_some(),
            interrupted,
            details: json!({ SubagentReport::KEY: report }),
            changes,
            ..ToolOutput::default()
        };
        finish(output, Keep::HeadTail, &self.env)
    }
}

impl RunFacts {
    fn call(&mut self, id: &CallId, name: &str, subject: &str) {
        let line = subject.lines().find(|line| !is_blank(line)).unwrap_or_default().trim();
        let subject = cut_end(line, MAX_SUBJECT).to_owned();
        self.calls.push((id.clone(), SubagentCall { name: name.to_owned(), subject, failed: false }));
        if self.calls.len() > MAX_CALLS {
            self.calls.remove(0);
            self.left_out += 1;
        }
    }

    fn ended(&mut self, id: &CallId, name: &str, failed: bool) {
        match self.calls.iter_mut().rev().find(|(known, _)| known == id) {
            Some((_, call)) => call.failed = failed,
            // The call was refused before it started.
            None if failed => {
                self.call(id, name, "");
                self.ended(id, name, true);
            }
            None => {}
        }
    }
}

/// Returns the reason if the turn ended without an answer, and true if it was interrupted.
fn shortfall(result: &TurnResult) -> (Option<String>, bool) {
    let why = match &result.end {
        TurnEnd::Completed if is_blank(&result.text) => "it ended without an answer".to_owned(),
        TurnEnd::Completed => return (None, false),
        TurnEnd::Interrupted => return (Some("it was interrupted".to_owned()), true),
        TurnEnd::MaxTurns { limit: 1 } => "it was stopped after 1 request".to_owned(),
        TurnEnd::MaxTurns { limit } => format!("it was stopped after {limit} requests"),
        TurnEnd::Budget { what } | TurnEnd::TokenLimit { what } => {
            format!("it was stopped at the budget: {what}")
        }
        TurnEnd::TimeLimit { what } => format!("it was stopped: {what}"),
        TurnEnd::Repetition { what } => format!("the model repeated itself: {what}"),
        TurnEnd::Refusal { reason } => format!("its model declined to answer: {reason}"),
        TurnEnd::ContextFull { breakdown } => format!("its context is full: {breakdown}"),
        TurnEnd::NoRoom { what }
        | TurnEnd::NoAnswer { what }
        | TurnEnd::CallsAsText { what }
        | TurnEnd::HookStopped { what, .. } => what.clone(),
        TurnEnd::Deferred { call } => format!("a hook deferred its call of {}", call.name),
        TurnEnd::ModelError { message, .. } | TurnEnd::Failed { message } => message.clone(),
    };
    (Some(why.trim_end_matches('.').to_owned()), false)
}
