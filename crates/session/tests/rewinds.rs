//! Random sequences of turns with every kind of end, compactions, manual changes, their undo and redo, and rewinds.
//!
//! After each step, no text that a rewind has discarded is in the context. After a rewind to a prompt, the turn state is
//! what it was before that prompt, and there is nothing to redo.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ledgers;

use becket_session::context::scale::ContextScale;
use becket_session::context::{edit, rewind};
use becket_types::{
    ContextChange, EntryKind, FinishReason, Message, Part, Seq, Synthetic, Tokens, TurnState,
};
use ledgers::{World, cases, plain};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

/// The end of a turn, as the driver records it.
#[derive(Clone, Copy, Debug)]
enum End {
    Completed,
    /// A limit ended the turn after a call: the turn limit, repeated calls, a missing answer.
    Limit,
    /// The request failed before there was any answer.
    Unreachable,
    Interrupted,
    /// The process died during a call, or during an answer.
    KilledInCall,
    KilledInAnswer,
}

#[derive(Clone, Debug)]
enum Step {
    /// `note`: becket told the model something before the prompt, such as another folder.
    Turn {
        end: End,
        note: bool,
    },
    Compact {
        tail: usize,
    },
    UndoCompaction,
    RedoCompaction,
    Drop(usize),
    Pin(usize),
    UndoChange,
    RedoChange,
    Rewind(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        3 => Just(End::Completed),
        1 => Just(End::Limit),
        1 => Just(End::Unreachable),
        1 => Just(End::Interrupted),
        1 => Just(End::KilledInCall),
        1 => Just(End::KilledInAnswer),
    ];
    prop_oneof![
        6 => (end, any::<bool>()).prop_map(|(end, note)| Step::Turn { end, note }),
        2 => (0usize..6).prop_map(|tail| Step::Compact { tail }),
        2 => Just(Step::UndoCompaction),
        2 => Just(Step::RedoCompaction),
        2 => (0usize..16).prop_map(Step::Drop),
        1 => (0usize..16).prop_map(Step::Pin),
        2 => Just(Step::UndoChange),
        2 => Just(Step::RedoChange),
        3 => (0usize..8).prop_map(Step::Rewind),
    ]
}

/// The state of a session before a turn.
#[derive(Clone, Debug)]
struct Before {
    state: TurnState,
    /// Texts that rewinds have discarded by then.
    discarded: Vec<String>,
    /// The change by hand that could be undone.
    undoable: Option<String>,
}

struct Run {
    world: World,
    /// Each prompt, with the state before its turn. A rewind to it brings that back, also if an earlier rewind has discarded the prompt.
    prompts: BTreeMap<Seq, Before>,
    /// Texts that a rewind took back.
    discarded: Vec<String>,
    turns: usize,
}

impl Run {
    fn new() -> Self {
        Self { world: World::new(), prompts: BTreeMap::new(), discarded: Vec::new(), turns: 0 }
    }

    fn turn(&mut self, end: End, note: bool) {
        let before = Before {
            state: self.world.view.turn_state(),
            discarded: self.discarded.clone(),
            undoable: self.would_change(&ContextChange::Undo),
        };
        self.turns += 1;
        let n = self.turns;
        if note {
            self.world.message(Message::synthetic(Synthetic::Reminder, format!("T{n}N.")));
        }
        let prompt = self.world.message(Message::user(format!("T{n}P.")));
        self.prompts.insert(prompt, before);
        let answer = |world: &mut World, parts: Vec<Part>, finish: Option<FinishReason>| {
            world.message(Message::assistant(parts));
            let message = world.messages().last().unwrap().id;
            if let Some(reason) = finish {
                world.push(EntryKind::Finish { message, reason });
            }
        };
        let id = format!("c{n}");
        let call = vec![Part::text(format!("T{n}C.")), Part::tool_call(id.as_str(), "read", json!({}))];
        let result = Message::tool_result(id.as_str().into(), "read", format!("T{n}R."), false);
        let world = &mut self.world;
        match end {
            End::Completed => {
                answer(world, call, Some(FinishReason::ToolCalls));
                world.message(result);
                answer(world, vec![Part::text(format!("T{n}A."))], Some(FinishReason::Stop));
            }
            End::Limit => {
                answer(world, call, Some(FinishReason::ToolCalls));
                world.message(result);
            }
            End::Unreachable => {}
            End::Interrupted => {
                answer(world, call, Some(FinishReason::ToolCalls));
                world.message(result);
                world.push(EntryKind::Interrupt);
            }
            End::KilledInCall => answer(world, call, Some(FinishReason::ToolCalls)),
            End::KilledInAnswer => answer(world, vec![Part::text(format!("T{n}A."))], None),
        }
        if !matches!(end, End::KilledInCall | End::KilledInAnswer) {
            let state = world.view.turn_state();
            world.push(EntryKind::TurnEnd { end: format!("{end:?}"), state });
        }
    }

    /// Compacts with a summary that tells everything, as the worst model would.
    fn compact(&mut self, tail: usize) {
        let context = shown(&mut self.world);
        if context.is_empty() {
            return;
        }
        let all = 1..=self.turns;
        let texts = all.flat_map(|n| ["N", "P", "C", "R", "A"].map(|what| format!("T{n}{what}.")));
        let told: Vec<String> = texts.filter(|text| context.contains(text.as_str())).collect();
        self.world.compact_to(told.join(" "), tail, usize::MAX, false);
    }

    fn append(&mut self, kinds: Vec<EntryKind>) {
        for kind in kinds {
            self.world.push(kind);
        }
    }

    fn change(&mut self, change: &ContextChange) {
        let scale = ContextScale::new(Tokens(1_000), Tokens(1_000));
        let World { view, entries, .. } = &mut self.world;
        let Ok(planned) = edit::plan(view, entries, change, scale, None) else { return };
        let kinds = planned.into_entries(view.last_seq());
        if matches!(change, ContextChange::Undo | ContextChange::Redo) {
            let effective = kinds
                .iter()
                .any(|kind| matches!(kind, EntryKind::Revert { entry } if !view.is_reverted(*entry)));
            assert!(effective, "{change:?} has no effect: {kinds:?}");
        }
        self.append(kinds);
    }

    /// Returns the description of a change; `None` if it is refused.
    fn would_change(&mut self, change: &ContextChange) -> Option<String> {
        let scale = ContextScale::new(Tokens(1_000), Tokens(1_000));
        let World { view, entries, .. } = &mut self.world;
        edit::plan(view, entries, change, scale, None).ok().map(|edit| edit.plan.what)
    }

    fn some_item(&self, n: usize) -> Option<Vec<String>> {
        let live: Vec<Seq> = self.world.view.live().map(|message| message.seq).collect();
        let seq = live.get(n % live.len().max(1))?;
        Some(vec![seq.to_string()])
    }

    fn rewind(&mut self, n: usize) {
        let Some((&to, before)) = self.prompts.iter().rev().nth(n) else { return };
        let Before { state, discarded, undoable } = before.clone();
        self.discarded = discarded;
        let World { view, entries, .. } = &self.world;
        let cancelled = rewind::entries_to_cancel(view, entries.iter().cloned(), to);
        let taken_back = entries.iter().filter(|entry| entry.seq >= to);
        self.discarded.extend(taken_back.filter_map(|entry| match &entry.kind {
            EntryKind::Message { message } if !message.metadata.compaction_continue => {
                message.parts.iter().find_map(|part| match part {
                    Part::Text { text, .. } => Some(text.clone()),
                    Part::ToolResult { output, .. } => Some(output.clone()),
                    _ => None,
                })
            }
            _ => None,
        }));
        if cancelled.is_empty() {
            return;
        }
        self.append(cancelled.into_iter().map(|entry| EntryKind::Revert { entry }).collect());
        assert_eq!(self.world.view.turn_state(), state, "the state before the prompt at {to}");
        // This holds also after a second rewind to a prompt that was discarded already.
        assert_eq!(edit::redoable_compaction(&self.world.view, &self.world.entries), None);
        assert!(self.would_change(&ContextChange::Redo).is_none());
        assert_eq!(
            self.would_change(&ContextChange::Undo),
            undoable,
            "the change that can be undone before {to}"
        );
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Turn { end, note } => self.turn(*end, *note),
            Step::Compact { tail } => self.compact(*tail),
            Step::UndoCompaction => {
                let entry = self.world.view.compaction().map(|(seq, _)| seq);
                self.append(entry.map(|entry| EntryKind::Revert { entry }).into_iter().collect());
            }
            Step::RedoCompaction => {
                let World { view, entries, .. } = &self.world;
                let redone = edit::redo_compaction(view, entries);
                let planned = edit::redoable_compaction(view, entries);
                assert_eq!(redone.as_ref().map(|(_, compaction)| *compaction), planned);
                if let Some((kinds, compaction)) = redone {
                    self.append(kinds);
                    assert_eq!(self.world.view.compaction().map(|(seq, _)| seq), Some(compaction));
                }
            }
            Step::Drop(n) => {
                if let Some(items) = self.some_item(*n) {
                    self.change(&ContextChange::Drop { items });
                }
            }
            Step::Pin(n) => {
                if let Some(items) = self.some_item(*n) {
                    self.change(&ContextChange::Pin { items });
                }
            }
            Step::UndoChange => self.change(&ContextChange::Undo),
            Step::RedoChange => self.change(&ContextChange::Redo),
            Step::Rewind(n) => self.rewind(*n),
        }
        let context = shown(&mut self.world);
        for text in &self.discarded {
            assert!(!context.contains(text.as_str()), "{text} was discarded: {context}");
        }
        assert_eq!(self.world.view.turn_state(), self.world.fresh().turn_state());
    }
}

/// The texts of the context.
fn shown(world: &mut World) -> String {
    let messages = plain(&mut world.view);
    let parts = messages.iter().flat_map(|message| &message.parts);
    let text = |part: &Part| match part {
        Part::Text { text, .. } => text.clone(),
        Part::ToolResult { output, .. } => output.clone(),
        _ => String::new(),
    };
    parts.map(text).collect::<Vec<_>>().join("\n")
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn what_a_rewind_discards_stays_out_and_the_turn_before_it_is_as_it_was(
        steps in proptest::collection::vec(step(), 1..24),
    ) {
        let mut run = Run::new();
        for step in &steps {
            run.run(step);
        }
    }
}

#[test]
fn a_rewind_past_any_end_leaves_the_complete_turn_complete() {
    for end in [
        End::Completed,
        End::Limit,
        End::Unreachable,
        End::Interrupted,
        End::KilledInCall,
        End::KilledInAnswer,
    ] {
        for (first, note) in [(End::Completed, false), (End::Completed, true), (End::Limit, false)] {
            let mut run = Run::new();
            run.turn(first, note);
            let before = run.world.view.turn_state();
            assert_eq!(before == TurnState::AwaitingUser, matches!(first, End::Completed));
            run.turn(end, note);
            run.rewind(0);
            assert_eq!(run.world.view.turn_state(), before, "{end:?} after {first:?}");
        }
    }
}

/// A second rewind to a prompt is a rewind as well, whatever was done since the first one.
#[test]
fn a_second_rewind_to_a_discarded_prompt_is_no_undo_by_hand() {
    let rewound = || {
        let mut run = Run::new();
        for _ in 0..3 {
            run.turn(End::Completed, false);
        }
        run.run(&Step::Rewind(0));
        run
    };
    let redoable = |run: &Run| edit::redoable_compaction(&run.world.view, &run.world.entries);

    // The user compacts what is left, and goes back to the same message once more: the summary is gone for good.
    let mut run = rewound();
    run.compact(0);
    assert!(run.world.view.compaction().is_some());
    run.run(&Step::Rewind(0));
    assert_eq!((run.world.view.compaction().map(|(seq, _)| seq), redoable(&run)), (None, None));

    // The same with a change by hand. After the rewind it cannot be undone, because the rewind has removed it.
    let mut run = rewound();
    let items = run.some_item(1).unwrap();
    run.change(&ContextChange::Drop { items });
    assert!(run.would_change(&ContextChange::Undo).is_some());
    run.run(&Step::Rewind(0));
    assert_eq!(run.would_change(&ContextChange::Undo), None);

    // A third rewind finds nothing to do.
    let World { view, entries, .. } = &run.world;
    let to = *run.prompts.keys().next_back().unwrap();
    assert_eq!(rewind::entries_to_cancel(view, entries.iter().cloned(), to), []);
}

#[test]
fn a_compaction_is_redone_only_while_it_tells_of_nothing_that_was_discarded() {
    let turns = |n| {
        let mut run = Run::new();
        for _ in 0..n {
            run.turn(End::Completed, false);
        }
        run
    };
    let redoable = |run: &Run| edit::redoable_compaction(&run.world.view, &run.world.entries).is_some();
    let mut run = turns(3);
    run.compact(0);
    assert!(!redoable(&run));
    run.run(&Step::UndoCompaction);
    assert!(redoable(&run));
    // The summary would tell of a message that is dropped now, so the compaction cannot be redone.
    run.change(&ContextChange::Drop { items: vec!["1".into()] });
    assert!(!redoable(&run));
    run.change(&ContextChange::Undo);
    assert!(redoable(&run));
    run.run(&Step::Rewind(2));
    assert!(!redoable(&run));

    // A rewind itself undoes a compaction, which is not an undo by hand.
    let mut run = turns(3);
    run.compact(0);
    run.run(&Step::Rewind(1));
    assert!(run.world.view.compaction().is_none() && !redoable(&run));
    run.run(&Step::RedoCompaction);

    // A change by hand that was made after the prompt is removed with it.
    let mut run = turns(2);
    let items = run.some_item(1).unwrap();
    run.change(&ContextChange::Drop { items });
    run.run(&Step::Rewind(1));
    let World { view, entries, .. } = &mut run.world;
    let scale = ContextScale::new(Tokens(1_000), Tokens(1_000));
    assert!(edit::plan(view, entries, &ContextChange::Undo, scale, None).is_err());
}
