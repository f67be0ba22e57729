//! Undo, redo, rewind, and manual changes of the context in an open session: shows a plan, and carries it out when the user
//! confirms it.
//!
//! Runs only between turns. Planning and carrying out run on the blocking pool as the current operation, so a prompt that
//! comes meanwhile waits. A plan is valid until another one is made, a turn begins, or the context is compacted.

use super::conversation::Conversation;
use super::files::Files;
use super::ledger::Core;
use crate::host::lock;
use crate::machine::Phase;
use crate::undo::{
    Draft, FilesPlan, Others, SessionBlobs, Turns, UndoScope, carry_out, history, plan_conversation,
    plan_files,
};
use becket_session::context::compaction::{CompactionEffect, Outcome};
use becket_session::context::edit::{self, Edit, Refused};
use becket_session::context::scale::ContextScale;
use becket_session::{Durability, Session};
use becket_snapshot::History;
use becket_types::{
    Command, CompactionPlan, ContextChange, Entry, Event, FileChanges, MessageId, NoticeLevel, Prices,
    RewindWhat, Seq, UndoKind, UndoOutcome,
};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

const NOTHING_TO_UNDO: &str =
    "Nothing to undo: this session changed no files, or all its changes are already undone.";

/// A request of a front end.
#[derive(Clone, Debug)]
pub(super) enum UndoRequest {
    Undo,
    UndoCalls(usize),
    Redo,
    Rewind {
        to: MessageId,
        what: RewindWhat,
    },
    Clear,
    Change(ContextChange),
    /// Show a planned compaction.
    Show(Box<Outcome>),
    Edit {
        plan: u64,
        summary: String,
    },
    RedoCompaction,
    CarryOut {
        plan: u64,
        force: bool,
    },
}

impl UndoRequest {
    /// Returns the request that a command makes, or the command itself if it makes none of these requests.
    pub(super) fn from_command(command: Command) -> Result<Self, Box<Command>> {
        Ok(match command {
            Command::EditCompaction { plan, summary } => Self::Edit { plan, summary },
            Command::RedoCompaction => Self::RedoCompaction,
            Command::Undo => Self::Undo,
            Command::UndoCalls { count } => Self::UndoCalls(count),
            Command::Redo => Self::Redo,
            Command::Rewind { to, what } => Self::Rewind { to, what },
            Command::ClearConversation => Self::Clear,
            Command::ChangeContext(change) => Self::Change(change),
            Command::CarryOut { plan, force } => Self::CarryOut { plan, force },
            other => return Err(Box::new(other)),
        })
    }
}

/// A plan that was shown to the user.
struct Planned {
    draft: Draft,
    scope: Option<UndoScope>,
}

/// The plan that was shown last, by kind.
enum ShownPlan {
    Undo(Box<Planned>),
    Change(Box<Edit>),
    Compaction(Box<Outcome>),
}

/// The pending request, and the plan that was shown last.
#[derive(Default)]
pub(crate) struct Undoing {
    want: Option<UndoRequest>,
    /// The id of the program's request that is answered when the work on it has ended.
    pub(super) receipt: Option<String>,
    /// True if the request that is carried out clears the conversation.
    pub(super) clears: bool,
    planned: Option<ShownPlan>,
    /// The number of the last plan.
    plan: u64,
}

impl Undoing {
    /// Invalidates the plan that was shown.
    pub(super) fn forget(&mut self) {
        self.planned = None;
    }

    /// Accepts a request. `Err` says why it cannot be carried out now.
    pub(super) fn ask(&mut self, want: UndoRequest, phase: Phase) -> Result<(), String> {
        if phase != Phase::Idle {
            let what = match want {
                UndoRequest::Change(_)
                | UndoRequest::Show(_)
                | UndoRequest::Edit { .. }
                | UndoRequest::RedoCompaction => "The context is changed",
                _ => "Files and conversation go back",
            };
            return Err(format!("{what} only between turns: interrupt this one, then ask again."));
        }
        if let UndoRequest::CarryOut { plan, .. } | UndoRequest::Edit { plan, .. } = want
            && (self.planned.is_none() || plan != self.plan)
        {
            return Err("This plan is out of date, so nothing was changed. Request a new plan.".to_owned());
        }
        self.want = Some(want);
        Ok(())
    }

    /// Starts the pending request.
    pub(super) fn begin(
        &mut self,
        conversation: &mut Conversation,
        files: Option<&Arc<Files>>,
    ) -> StartedWork {
        let Some(want) = self.want.take() else { return StartedWork::Nothing };
        self.clears = matches!(want, UndoRequest::Clear);
        let (want, planned) = match (want, self.planned.take()) {
            (UndoRequest::CarryOut { .. }, Some(ShownPlan::Compaction(outcome))) => {
                return StartedWork::Compaction(outcome);
            }
            other => other,
        };
        let session = Arc::clone(&conversation.core.session);
        let store = SessionBlobs::new(&lock(&session));
        let prices = conversation.wire.model.info().prices;
        let scale = conversation.scale();
        let around = UndoContext { session, files: files.cloned(), store, prices, scale };
        StartedWork::Task(tokio::task::spawn_blocking(move || match (want, planned) {
            (UndoRequest::CarryOut { plan, force }, Some(ShownPlan::Undo(planned))) => {
                around.carry_out(*planned, plan, force)
            }
            (UndoRequest::CarryOut { .. }, Some(ShownPlan::Change(edit))) => around.change(*edit),
            (UndoRequest::Show(outcome), _) => around.show(outcome),
            (UndoRequest::Edit { summary, .. }, Some(ShownPlan::Compaction(outcome))) => {
                around.show(with_summary(outcome, &summary))
            }
            (UndoRequest::RedoCompaction, _) => around.redo_compaction(),
            (UndoRequest::Clear, _) => around.clear(),
            (UndoRequest::Change(change), _) => around.plan_change(&change),
            (want, _) => around.plan(&want),
        }))
    }

    /// Shows the user the plan or the result. A plan becomes the one that can be carried out.
    pub(super) fn show(&mut self, done: UndoResult, core: &mut Core, files: Option<&Arc<Files>>) {
        match done {
            UndoResult::Planned(Planning(Err(why))) => core.nothing_to_do(why.to_owned()),
            UndoResult::Planned(Planning(Ok(planned))) => {
                self.plan += 1;
                let shown = planned.draft.shown(self.plan);
                self.planned = Some(ShownPlan::Undo(planned));
                core.emit(Event::UndoPlanned(Box::new(shown)));
            }
            UndoResult::Change(Err(Refused { why, hint })) => {
                core.nothing_to_do(format!("Nothing was changed: {why} ({hint})."));
            }
            UndoResult::Change(Ok(mut edit)) => {
                self.plan += 1;
                edit.plan.plan = self.plan;
                let shown = edit.plan.clone();
                self.planned = Some(ShownPlan::Change(edit));
                core.emit(Event::ContextPlanned(Box::new(shown)));
            }
            UndoResult::Compaction(outcome, mut plan) => {
                self.plan += 1;
                plan.plan = self.plan;
                self.planned = Some(ShownPlan::Compaction(outcome));
                core.emit(Event::CompactionPlanned(plan));
            }
            UndoResult::Redone(entry) => {
                core.emit(Event::CompactionReverted { entry, counts: true });
                core.notice(NoticeLevel::Info, format!("The compaction of entry {entry} is applied again."));
                core.tell_notices();
            }
            UndoResult::Nothing(why) => core.nothing_to_do(why.to_owned()),
            UndoResult::Changed(text) => {
                core.tell_notices();
                core.emit(Event::ContextChanged { text });
            }
            UndoResult::CarriedOut(outcome, changes) => {
                if let (Some(files), Some(changes)) = (files, &changes) {
                    files.restored(changes);
                }
                core.tell_notices();
                core.emit(Event::UndoDone(outcome));
            }
            UndoResult::Failed(why) => {
                core.emit_notice(NoticeLevel::Error, format!("Not completed: {why}"));
            }
        }
    }
}

/// The work on a request.
pub(super) enum StartedWork {
    Nothing,
    /// The user has confirmed a compaction, which is committed now.
    Compaction(Box<Outcome>),
    Task(JoinHandle<UndoResult>),
}

/// The result of a request.
pub(super) enum UndoResult {
    Planned(Planning),
    CarriedOut(Box<UndoOutcome>, Option<FileChanges>),
    Change(Result<Box<Edit>, Refused>),
    Changed(String),
    Compaction(Box<Outcome>, Box<CompactionPlan>),
    /// The compaction of this entry is in force again.
    Redone(Seq),
    Nothing(&'static str),
    Failed(String),
}

/// A plan, or the reason why there is none.
pub(super) struct Planning(Result<Box<Planned>, &'static str>);

/// The data that work on the blocking pool needs.
struct UndoContext {
    session: Arc<Mutex<Session>>,
    files: Option<Arc<Files>>,
    store: SessionBlobs,
    prices: Option<Prices>,
    /// Scales estimated sizes of the present context to the sizes that people see.
    scale: ContextScale,
}

/// Waits for the end of the task. A panic in it becomes a failure.
pub(super) async fn next(task: &mut JoinHandle<UndoResult>) -> UndoResult {
    task.await.unwrap_or_else(|error| UndoResult::Failed(error.to_string()))
}

impl UndoResult {
    /// Returns the reason if nothing was planned or changed.
    pub(super) fn failure(&self) -> Option<String> {
        match self {
            Self::Planned(Planning(Err(why))) | Self::Nothing(why) => Some((*why).to_owned()),
            Self::Change(Err(Refused { why, hint })) => Some(format!("Nothing was changed: {why} ({hint}).")),
            Self::Failed(why) => Some(format!("Not completed: {why}")),
            _ => None,
        }
    }

    /// Returns what changed earlier messages, if this result did.
    pub(super) fn changed_conversation(&self) -> Option<&'static str> {
        match self {
            Self::Redone(_) => Some("a redo"),
            Self::Changed(_) => Some("a change of the context"),
            Self::CarriedOut(outcome, _) if outcome.conversation.is_some() => Some("a rewind"),
            _ => None,
        }
    }
}

/// Replaces the summary by the person's. If that is not possible, the outcome keeps its summary and gets a notice with the
/// reason.
fn with_summary(outcome: Box<Outcome>, summary: &str) -> Box<Outcome> {
    match outcome.edited(summary) {
        Some(edited) => Box::new(edited),
        None => {
            let mut outcome = outcome;
            let why = "the edited summary is longer than the messages that it replaces, so the previous one was kept";
            outcome.notices.push(why.to_owned());
            outcome
        }
    }
}

impl UndoContext {
    fn plan_change(&self, change: &ContextChange) -> UndoResult {
        let mut session = lock(&self.session);
        let entries: Vec<Entry> = match session.entries() {
            Ok(entries) => entries.collect(),
            Err(error) => return UndoResult::Failed(error.to_string()),
        };
        UndoResult::Change(
            edit::plan(session.view_mut(), &entries, change, self.scale, self.prices).map(Box::new),
        )
    }

    /// Shows the effect of the compaction, on a copy of the view.
    fn show(&self, outcome: Box<Outcome>) -> UndoResult {
        let session = lock(&self.session);
        match session.entries() {
            Ok(entries) => {
                let entries: Vec<Entry> = entries.collect();
                let effect = CompactionEffect::of_outcome(&outcome, session.view(), &entries);
                let plan = effect.plan(0, &outcome, self.scale);
                UndoResult::Compaction(outcome, Box::new(plan))
            }
            Err(error) => UndoResult::Failed(error.to_string()),
        }
    }

    fn redo_compaction(&self) -> UndoResult {
        let mut session = lock(&self.session);
        let entries: Vec<Entry> = match session.entries() {
            Ok(entries) => entries.collect(),
            Err(error) => return UndoResult::Failed(error.to_string()),
        };
        let Some((kinds, compaction)) = edit::redo_compaction(session.view(), &entries) else {
            return UndoResult::Nothing("There is no undone compaction to redo.");
        };
        match session.append(kinds, Durability::Synced) {
            Ok(_) => UndoResult::Redone(compaction),
            Err(error) => UndoResult::Failed(error.to_string()),
        }
    }

    /// Carries out a planned change. No turn and no compaction came after the plan, so the messages that it names still exist.
    fn change(&self, edit: Edit) -> UndoResult {
        let mut session = lock(&self.session);
        let text = edit.plan.what.clone();
        let entries = edit.into_entries(session.last_seq());
        match session.append(entries, Durability::Synced) {
            Ok(_) => UndoResult::Changed(text),
            Err(error) => UndoResult::Failed(error.to_string()),
        }
    }

    fn plan(&self, want: &UndoRequest) -> UndoResult {
        if let Some(files) = &self.files {
            files.settle();
        }
        match self.draft(want) {
            Ok(planning) => UndoResult::Planned(Planning(planning.map(Box::new))),
            Err(error) => UndoResult::Failed(error),
        }
    }

    /// Takes all messages out of the conversation at once, because nothing of it is lost: a redo brings it back.
    fn clear(&self) -> UndoResult {
        match self.draft(&UndoRequest::Clear) {
            Ok(Ok(planned)) => self.carry_out(planned, 0, false),
            // There is no message yet. To clear an empty conversation is no failure.
            Ok(Err(_)) => {
                let (kind, left, failed) = (UndoKind::Rewind, Vec::new(), Vec::new());
                let nothing =
                    UndoOutcome { plan: 0, kind, restored: 0, deleted: 0, left, failed, conversation: None };
                UndoResult::CarriedOut(Box::new(nothing), None)
            }
            Err(error) => UndoResult::Failed(error),
        }
    }

    fn draft(&self, want: &UndoRequest) -> Result<Result<Planned, &'static str>, String> {
        let session = lock(&self.session);
        let history = history(&session, &self.store).map_err(|error| error.to_string())?;
        let mut conversation = None;
        let (kind, scope, nothing) = match want {
            UndoRequest::Redo => (
                UndoKind::Redo,
                Some(UndoScope::LastUndo),
                "Nothing to redo: the last change was not an undo, or a tool call has changed files since the undo.",
            ),
            UndoRequest::Rewind { to, what } => {
                let Some(prompt) = history.prompts().iter().find(|prompt| prompt.id == *to) else {
                    return Ok(Err("There is nothing to go back to: this session has no such message."));
                };
                if *what != RewindWhat::Files {
                    let back = plan_conversation(&session, prompt).map_err(|error| error.to_string())?;
                    conversation = Some(back).filter(|back| !back.entries.is_empty());
                }
                let scope = (*what != RewindWhat::Conversation).then_some(UndoScope::Since(prompt.seq));
                (
                    UndoKind::Rewind,
                    scope,
                    "Nothing to rewind: no message was sent and no file was changed since.",
                )
            }
            UndoRequest::Clear => {
                if let Some(first) = history.prompts().first() {
                    let back = plan_conversation(&session, first).map_err(|error| error.to_string())?;
                    conversation = Some(back).filter(|back| !back.entries.is_empty());
                }
                (UndoKind::Rewind, None, "The conversation is empty.")
            }
            UndoRequest::UndoCalls(count) => {
                (UndoKind::Undo, Some(UndoScope::LastCalls(*count)), NOTHING_TO_UNDO)
            }
            UndoRequest::Undo
            | UndoRequest::Change(_)
            | UndoRequest::Show(_)
            | UndoRequest::Edit { .. }
            | UndoRequest::RedoCompaction
            | UndoRequest::CarryOut { .. } => (UndoKind::Undo, Some(UndoScope::LastTurn), NOTHING_TO_UNDO),
        };
        let dir = session.is_persistent().then(|| session.dir().to_path_buf());
        drop(session);
        let files = scope.and_then(|scope| self.plan_files(&history, scope, false, dir.as_deref()));
        if files.is_none() && conversation.is_none() {
            return Ok(Err(nothing));
        }
        let (files, turns, doubt) = match files {
            Some(FilesPlan { plan, turns, doubt }) => (Some(plan), turns, doubt),
            None => (None, Turns::default(), None),
        };
        let draft = Draft { kind, turns, files, doubt, damaged: history.damaged(), conversation };
        Ok(Ok(Planned { draft, scope }))
    }

    /// Plans the files. `dir`: the folder of the session; `None` if other sessions do not matter.
    fn plan_files(
        &self,
        history: &History,
        scope: UndoScope,
        force: bool,
        dir: Option<&Path>,
    ) -> Option<FilesPlan> {
        let others = dir.map(|dir| Others::beside(dir, history)).unwrap_or_default();
        plan_files(history, scope, force, &self.store, &others)
    }

    fn carry_out(&self, planned: Planned, plan: u64, force: bool) -> UndoResult {
        let Planned { mut draft, scope } = planned;
        if force && let Some(scope) = scope {
            let history = history(&lock(&self.session), &self.store);
            match history {
                // With force, what other sessions wrote is overwritten as well.
                Ok(history) => {
                    draft.files = self.plan_files(&history, scope, true, None).map(|files| files.plan);
                }
                Err(error) => return UndoResult::Failed(error.to_string()),
            }
        }
        match carry_out(&self.session, &self.store, draft, plan) {
            Ok((outcome, changes)) => UndoResult::CarriedOut(Box::new(outcome), changes),
            Err(error) => UndoResult::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_accepted_between_turns_and_a_plan_only_while_it_holds() {
        let carry_out = UndoRequest::CarryOut { plan: 1, force: false };
        let edit = UndoRequest::Edit { plan: 1, summary: String::new() };
        for (want, phase, refusal) in [
            (UndoRequest::Undo, Phase::Idle, None),
            (UndoRequest::RedoCompaction, Phase::Idle, None),
            (
                UndoRequest::Undo,
                Phase::RunningTools,
                Some("Files and conversation go back only between turns"),
            ),
            (
                UndoRequest::RedoCompaction,
                Phase::Requesting,
                Some("The context is changed only between turns"),
            ),
            // No plan was shown.
            (carry_out, Phase::Idle, Some("This plan is out of date")),
            (edit, Phase::Idle, Some("This plan is out of date")),
        ] {
            let mut undoing = Undoing::default();
            let answer = undoing.ask(want.clone(), phase);
            match refusal {
                None => assert_eq!(answer, Ok(()), "{want:?}"),
                Some(start) => assert!(answer.unwrap_err().starts_with(start), "{want:?} in {phase:?}"),
            }
            assert_eq!(undoing.want.is_some(), refusal.is_none(), "{want:?}");
        }
    }
}
