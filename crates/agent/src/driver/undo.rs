//! Undo, redo, rewind, and manual changes of the context in an open session: shows a plan, and carries it out when the user
//! confirms it.
//!
//! Runs only between turns. Planning and carrying out run on the blocking pool as the current operation, so a prompt that
//! comes meanwhile waits. A plan is valid until another one is made, a turn begins, or the context is compacted.

use super::files::Files;
use super::{Agent, Op};
use crate::host::lock;
use crate::machine::{Input, Phase};
use crate::undo::{Draft, SessionBlobs, UndoScope, carry_out, history, plan_conversation, plan_files, turns};
use becket_session::context::compaction::{CompactionEffect, Outcome};
use becket_session::context::edit::{self, Edit, Refused};
use becket_session::{Durability, Session};
use becket_types::{
    CompactionPlan, CompactionTrigger, ContextChange, Entry, Event, FileChanges, MessageId, NoticeLevel,
    Prices, RewindWhat, Seq, Tokens, UndoKind, UndoOutcome,
};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

const NOTHING_TO_UNDO: &str =
    "Nothing to undo: no call of this session changed files that is not undone already.";

/// A request of a front end.
#[derive(Clone, Debug)]
pub(super) enum Want {
    Undo,
    UndoCalls(usize),
    Redo,
    Rewind {
        to: MessageId,
        what: RewindWhat,
    },
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

/// A plan that was shown to the user.
struct Planned {
    draft: Draft,
    scope: Option<UndoScope>,
}

/// The plan that was shown last, by kind.
enum Shown {
    Back(Box<Planned>),
    Change(Box<Edit>),
    Compaction(Box<Outcome>),
}

/// The pending request, and the plan that was shown last.
#[derive(Default)]
pub(crate) struct Undoing {
    want: Option<Want>,
    planned: Option<Shown>,
    /// The number of the last plan.
    plan: u64,
}

impl Undoing {
    /// Invalidates the plan that was shown.
    pub(super) fn forget(&mut self) {
        self.planned = None;
    }
}

/// The result of a request.
pub(super) enum Done {
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
struct Around {
    session: Arc<Mutex<Session>>,
    files: Option<Arc<Files>>,
    store: SessionBlobs,
    prices: Option<Prices>,
}

/// Waits for the end of the task. A panic in it becomes a failure.
pub(super) async fn next(task: &mut JoinHandle<Done>) -> Done {
    task.await.unwrap_or_else(|error| Done::Failed(error.to_string()))
}

impl Agent {
    pub(super) fn undo_asked(&mut self, want: Want) {
        if self.phase() != Phase::Idle {
            let what = match want {
                Want::Change(_) | Want::Show(_) | Want::Edit { .. } | Want::RedoCompaction => {
                    "The context is changed"
                }
                _ => "Files and conversation go back",
            };
            let text = format!("{what} only between turns: interrupt this one, then ask again.");
            return self.core.say(NoticeLevel::Warning, text);
        }
        if let Want::CarryOut { plan, .. } | Want::Edit { plan, .. } = want
            && (self.undoing.planned.is_none() || plan != self.undoing.plan)
        {
            let text = "That plan does not hold any more, so nothing was changed. Ask for it again.";
            return self.core.say(NoticeLevel::Warning, text.to_owned());
        }
        self.undoing.want = Some(want);
        self.feed(Input::Restore);
    }

    /// Starts the pending request.
    pub(super) fn restore(&mut self) {
        let Some(want) = self.undoing.want.take() else { return self.feed(Input::Restored) };
        let planned = self.undoing.planned.take();
        let (want, planned) = match (want, planned) {
            (Want::CarryOut { .. }, Some(Shown::Compaction(outcome))) => {
                self.give_up_preparation("a compaction by hand");
                self.commit_compaction(CompactionTrigger::Manual, *outcome);
                return self.feed(Input::Restored);
            }
            other => other,
        };
        let session = Arc::clone(&self.core.session);
        let store = SessionBlobs::of(&lock(&session));
        let prices = self.model().info().prices;
        let around = Around { session, files: self.tools.files.clone(), store, prices };
        self.flow.op = Op::Restore(tokio::task::spawn_blocking(move || match (want, planned) {
            (Want::CarryOut { plan, force }, Some(Shown::Back(planned))) => {
                around.carry_out(*planned, plan, force)
            }
            (Want::CarryOut { .. }, Some(Shown::Change(edit))) => around.change(*edit),
            (Want::Show(outcome), _) => around.show(outcome),
            (Want::Edit { summary, .. }, Some(Shown::Compaction(outcome))) => {
                around.show(with_summary(outcome, &summary))
            }
            (Want::RedoCompaction, _) => around.redo_compaction(),
            (Want::Change(change), _) => around.plan_change(&change),
            (want, _) => around.plan(&want),
        }));
    }

    pub(super) fn restored(&mut self, done: Done) {
        self.flow.op = Op::None;
        match done {
            Done::Planned(Planning(Err(why))) => self.core.say(NoticeLevel::Info, why.to_owned()),
            Done::Planned(Planning(Ok(planned))) => {
                self.undoing.plan += 1;
                let shown = planned.draft.shown(self.undoing.plan);
                self.undoing.planned = Some(Shown::Back(planned));
                self.core.emit(Event::UndoPlanned(Box::new(shown)));
            }
            Done::Change(Err(Refused { why, hint })) => {
                self.core.say(NoticeLevel::Info, format!("Nothing was changed: {why} ({hint})."));
            }
            Done::Change(Ok(mut edit)) => {
                self.undoing.plan += 1;
                edit.plan.plan = self.undoing.plan;
                let shown = edit.plan.clone();
                self.undoing.planned = Some(Shown::Change(edit));
                self.core.emit(Event::ContextPlanned(Box::new(shown)));
            }
            Done::Compaction(outcome, mut plan) => {
                self.undoing.plan += 1;
                plan.plan = self.undoing.plan;
                self.undoing.planned = Some(Shown::Compaction(outcome));
                self.core.emit(Event::CompactionPlanned(plan));
            }
            Done::Redone(entry) => {
                self.conversation_went_back("a redo");
                self.core.emit(Event::CompactionReverted { entry, counts: true });
                let text = format!("The compaction of entry {entry} counts again.");
                self.core.notice(NoticeLevel::Info, text);
                self.core.tell_notices();
                self.tell_used();
            }
            Done::Nothing(why) => self.core.say(NoticeLevel::Info, why.to_owned()),
            Done::Changed(text) => {
                self.conversation_went_back("a change of the context");
                self.core.tell_notices();
                self.core.emit(Event::ContextChanged { text });
                self.tell_used();
            }
            Done::CarriedOut(outcome, changes) => {
                if let (Some(files), Some(changes)) = (&self.tools.files, &changes) {
                    files.restored(changes);
                }
                if outcome.conversation.is_some() {
                    self.conversation_went_back("a rewind");
                }
                self.core.tell_notices();
                let back = outcome.conversation.is_some();
                self.core.emit(Event::UndoDone(outcome));
                if back {
                    self.tell_used();
                }
            }
            Done::Failed(why) => {
                self.core.say(NoticeLevel::Error, format!("This could not be done to its end: {why}"));
            }
        }
        self.feed(Input::Restored);
    }

    /// Resets all state that was derived from the conversation, because earlier messages were changed or removed.
    fn conversation_went_back(&mut self, why: &str) {
        self.give_up_preparation(why);
        self.budget.meter.forget();
        self.budget.prepare_at = Tokens(0);
        self.tools.ids.last_entry = None;
        self.rules.recall(&self.core);
    }
}

/// Replaces the summary by the person's. If that is not possible, the outcome keeps its summary and gets a notice with the
/// reason.
fn with_summary(outcome: Box<Outcome>, summary: &str) -> Box<Outcome> {
    match outcome.edited(summary) {
        Some(edited) => Box::new(edited),
        None => {
            let mut outcome = outcome;
            let why = "the edited summary is longer than what it stands for, so the one before it was kept";
            outcome.notices.push(why.to_owned());
            outcome
        }
    }
}

impl Around {
    fn plan_change(&self, change: &ContextChange) -> Done {
        let mut session = lock(&self.session);
        let entries: Vec<Entry> = match session.entries() {
            Ok(entries) => entries.collect(),
            Err(error) => return Done::Failed(error.to_string()),
        };
        Done::Change(edit::plan(session.view_mut(), &entries, change, self.prices).map(Box::new))
    }

    /// Shows the effect of the compaction, on a copy of the view.
    fn show(&self, outcome: Box<Outcome>) -> Done {
        let session = lock(&self.session);
        match session.entries() {
            Ok(entries) => {
                let entries: Vec<Entry> = entries.collect();
                let plan = CompactionEffect::by(&outcome, session.view(), &entries).plan(0, &outcome);
                Done::Compaction(outcome, Box::new(plan))
            }
            Err(error) => Done::Failed(error.to_string()),
        }
    }

    fn redo_compaction(&self) -> Done {
        let mut session = lock(&self.session);
        let entries: Vec<Entry> = match session.entries() {
            Ok(entries) => entries.collect(),
            Err(error) => return Done::Failed(error.to_string()),
        };
        let Some((kinds, compaction)) = edit::redo_compaction(session.view(), &entries) else {
            return Done::Nothing("There is no undone compaction to redo.");
        };
        match session.append(kinds, Durability::Synced) {
            Ok(_) => Done::Redone(compaction),
            Err(error) => Done::Failed(error.to_string()),
        }
    }

    /// Carries out a planned change. No turn and no compaction came after the plan, so the messages that it names still exist.
    fn change(&self, edit: Edit) -> Done {
        let mut session = lock(&self.session);
        let text = edit.plan.what.clone();
        let entries = edit.into_entries(session.last_seq());
        match session.append(entries, Durability::Synced) {
            Ok(_) => Done::Changed(text),
            Err(error) => Done::Failed(error.to_string()),
        }
    }

    fn plan(&self, want: &Want) -> Done {
        if let Some(files) = &self.files {
            files.settle();
        }
        match self.draft(want) {
            Ok(planning) => Done::Planned(Planning(planning.map(Box::new))),
            Err(error) => Done::Failed(error),
        }
    }

    fn draft(&self, want: &Want) -> Result<Result<Planned, &'static str>, String> {
        let session = lock(&self.session);
        let history = history(&session, &self.store).map_err(|error| error.to_string())?;
        let mut conversation = None;
        let (kind, scope, nothing) = match want {
            Want::Redo => (
                UndoKind::Redo,
                Some(UndoScope::LastUndo),
                "Nothing to redo: no undo came last, or a call changed files since.",
            ),
            Want::Rewind { to, what } => {
                let Some(prompt) = history.prompts().iter().find(|prompt| prompt.id == *to) else {
                    return Ok(Err("There is nothing to go back to: this session has no such message."));
                };
                if *what != RewindWhat::Files {
                    let back = plan_conversation(&session, prompt).map_err(|error| error.to_string())?;
                    conversation = Some(back).filter(|back| !back.entries.is_empty());
                }
                let scope = (*what != RewindWhat::Conversation).then_some(UndoScope::Since(prompt.seq));
                (UndoKind::Rewind, scope, "Nothing to go back from: nothing was said or changed since.")
            }
            Want::UndoCalls(count) => (UndoKind::Undo, Some(UndoScope::LastCalls(*count)), NOTHING_TO_UNDO),
            Want::Undo
            | Want::Change(_)
            | Want::Show(_)
            | Want::Edit { .. }
            | Want::RedoCompaction
            | Want::CarryOut { .. } => (UndoKind::Undo, Some(UndoScope::LastTurn), NOTHING_TO_UNDO),
        };
        drop(session);
        let turns = scope.map(|scope| turns(&history, scope)).unwrap_or_default();
        let files = scope.and_then(|scope| plan_files(&history, scope, false, &self.store));
        if files.is_none() && conversation.is_none() {
            return Ok(Err(nothing));
        }
        let draft = Draft { kind, turns, files, damaged: history.damaged(), conversation };
        Ok(Ok(Planned { draft, scope }))
    }

    fn carry_out(&self, planned: Planned, plan: u64, force: bool) -> Done {
        let Planned { mut draft, scope } = planned;
        if force && let Some(scope) = scope {
            let history = history(&lock(&self.session), &self.store);
            match history {
                Ok(history) => draft.files = plan_files(&history, scope, true, &self.store),
                Err(error) => return Done::Failed(error.to_string()),
            }
        }
        match carry_out(&self.session, &self.store, draft, plan) {
            Ok((outcome, changes)) => Done::CarriedOut(Box::new(outcome), changes),
            Err(error) => Done::Failed(error),
        }
    }
}
