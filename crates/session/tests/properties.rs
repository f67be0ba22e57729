//! Laws of the view (docs/context-engine.md, Properties): P1 validity, P2 determinism, P3 undo, P4 prune, P6 the user's
//! words, P7 prefix, P10 borders.
//!
//! Ledgers are made of any operations in any order, broken ones included: results without calls, ids used twice, parts
//! of messages that nobody began, reverts of anything. `PROPTEST_CASES` sets how many; 10,000 by default.

mod ledgers;

use becket_session::context::budget::{estimate_message, estimate_text};
use becket_session::context::view::KindTotals;
use becket_session::context::{Policy, due, prune, validate};
use becket_types::{
    CallId, ContextMessage, Entry, EntryKind, Message, Millis, Part, PruneReason, Role, Seq, Tokens, is_blank,
};
use ledgers::{Op, World, built, cases, few_ops, ops, plain};
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The texts of the user's newest message that is not reverted, without blank ones.
fn last_words(world: &World) -> Option<Vec<String>> {
    let reverted: HashSet<Seq> = {
        let mut dead = HashSet::new();
        for entry in world.entries.iter().rev() {
            if let EntryKind::Revert { entry: target } = entry.kind
                && !dead.contains(&entry.seq)
            {
                dead.insert(target);
            }
        }
        dead
    };
    let counts = |e: &&Entry| match &e.kind {
        EntryKind::Message { message } => message.is_user_turn() && !reverted.contains(&e.seq),
        _ => false,
    };
    world.entries.iter().rev().find(counts).map(|e| match &e.kind {
        EntryKind::Message { message } => message
            .parts
            .iter()
            .filter_map(|p| match p {
                Part::Text { text, ignored: false, .. } if !is_blank(text) => Some(text.clone()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    })
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// After every operation, at every crash point: valid (P1), the last user message verbatim (P6), and the same
    /// whichever way it was folded (P2, at the end; see below for every step).
    #[test]
    fn p1_p6_every_view_is_valid_and_holds_the_users_last_words(ops in ops(28)) {
        let mut world = World::new();
        for op in &ops {
            world.run(op);
            world.view.context();
            let checked = world.view.check();
            prop_assert!(checked.is_ok(), "{:?} after {op:?}: {:#?}", checked, plain(&mut world.view));
            let messages = plain(&mut world.view);
            prop_assert_eq!(validate::validate(&messages), Ok(()));
            for text in last_words(&world).unwrap_or_default() {
                let shown = messages.iter().any(|m| m.role == Role::User && m.text().contains(&text));
                prop_assert!(shown, "{text:?} is not in {messages:#?}");
            }
        }
        let again = plain(&mut world.fresh());
        prop_assert_eq!(plain(&mut world.view), again);
    }

    /// While the generation stays the same, messages are never replaced, only added at the end.
    #[test]
    fn p7_a_context_is_a_prefix_of_the_next_outside_boundaries(ops in ops(40)) {
        let mut world = World::new();
        let mut before: Option<(u64, Vec<Arc<ContextMessage>>)> = None;
        for op in &ops {
            world.run(op);
            if !matches!(op, Op::Build) {
                continue;
            }
            let context = world.view.context();
            if let Some((generation, messages)) = &before
                && *generation == context.generation
            {
                prop_assert!(messages.len() <= context.messages.len());
                for (a, b) in messages.iter().zip(&context.messages) {
                    prop_assert!(Arc::ptr_eq(a, b));
                }
            }
            before = Some((context.generation, context.messages.clone()));
        }
    }

    /// Undoing a compaction restores the earlier view, message by message; also for two compactions, also
    /// after a restart.
    #[test]
    fn p3_undo_of_a_compaction_is_the_identity(
        ops in ops(30), tails in (0usize..64, 0usize..64), build in any::<bool>(), idle in any::<bool>(),
    ) {
        let mut world = built(&ops);
        let before = plain(&mut world.view);
        let one = world.compact(tails.0, 1, idle);
        if build {
            world.view.context();
        }
        let middle = plain(&mut world.fresh());
        let two = world.compact(tails.1, 1, idle);
        world.view.context();
        world.push(EntryKind::Revert { entry: two });
        prop_assert_eq!(plain(&mut world.view), middle);
        world.push(EntryKind::Revert { entry: one });
        prop_assert_eq!(plain(&mut world.fresh()), before.clone());
        prop_assert_eq!(plain(&mut world.view), before);
    }

    /// Undoing an entry and then undoing that restores the earlier view, regardless of compactions in
    /// between. Parts that arrive late are excluded, because a compaction that is applied again includes
    /// them.
    #[test]
    fn p3_an_undo_that_is_undone_is_the_identity(ops in few_ops(), backs in proptest::collection::vec(1u64..64, 1..4)) {
        let ops: Vec<Op> = ops.into_iter().filter(|op| !matches!(op, Op::Part { .. })).collect();
        let mut world = built(&ops);
        let before = plain(&mut world.view);
        let live: Vec<Seq> = world.view.live().map(|m| m.seq).collect();
        let mut undone = Vec::new();
        for back in backs {
            let target = Seq((world.entries.len() as u64).saturating_sub(back).max(1));
            undone.push(world.push(EntryKind::Revert { entry: target }));
        }
        for entry in undone.into_iter().rev() {
            world.push(EntryKind::Revert { entry });
        }
        prop_assert_eq!(world.view.live().map(|m| m.seq).collect::<Vec<_>>(), live);
        prop_assert_eq!(plain(&mut world.view), before.clone());
        prop_assert_eq!(plain(&mut world.fresh()), before);
    }

    /// A prune changes the outputs it names and nothing else; what is protected, pinned, hot, failed or signed stays; the
    /// original comes back byte by byte.
    #[test]
    fn p4_prune_touches_old_unprotected_outputs_only(ops in ops(40)) {
        let mut world = built(&ops);
        // First the view records which media became text because of limits. A prune makes room, and these media must not
        // come back because of it.
        world.run(&Op::Build);
        let before = plain(&mut world.view);
        let pinned: HashSet<CallId> = before
            .iter()
            .filter_map(Message::result_of)
            .filter(|id| world.view.is_call_pinned(id))
            .cloned()
            .collect();
        let calls = due::prunable(&world.view, Millis(1)).calls;
        let chosen: HashSet<CallId> = calls.iter().map(|c| c.call_id.clone()).collect();
        prop_assert!(chosen.is_disjoint(&pinned));
        world.push(EntryKind::Prune { calls, media: vec![], cuts: Vec::new(), freed_tokens: Tokens(0), reason: PruneReason::CacheCold });
        let after = plain(&mut world.view);
        prop_assert_eq!(before.len(), after.len());
        for (a, b) in before.iter().zip(&after) {
            let id = a.result_of();
            if a == b {
                continue;
            }
            prop_assert!(id.is_some_and(|id| chosen.contains(id)), "{a:?} became {b:?}");
            let (Part::ToolResult { name, is_error, .. }, Part::ToolResult { output, .. }) = (&a.parts[0], &b.parts[0])
            else { panic!("results") };
            prop_assert!(name != "skill" && !is_error);
            prop_assert!(output.starts_with("<tool-output-compacted id=\""));
            let seq = world.view.output_at(id.unwrap()).unwrap();
            let EntryKind::Message { message } = &world.entries[seq.0 as usize - 1].kind else { panic!("a message") };
            let in_ledger = message.parts.iter().any(|p| matches!((p, world.view.original_output(id.unwrap())),
                (Part::ToolResult { output, .. }, Some((_, original, _))) if output == original));
            prop_assert!(in_ledger);
        }
        prop_assert_eq!(due::prunable(&world.view, Millis(1)).calls, vec![]);
    }

    /// Stubs of any output are cut between characters, in their excerpts and ids.
    #[test]
    fn p10_stubs_of_any_output_are_whole_text(output in "\\PC{0,400}", id in "\\PC{0,60}", name in "bash|\\PC{0,8}") {
        let mut messages = vec![
            Message::user("x"),
            Message::assistant(vec![Part::tool_call(id.as_str(), name.as_str(), json!({}))]),
            Message::tool_result(id.as_str().into(), name.as_str(), output.as_str(), false),
        ];
        messages.extend([Message::user("y"), Message::user("z")]);
        let policy = prune::PrunePolicy::new(&Policy::default(), Millis(1));
        let (after, calls) = prune::prune(&messages, &policy);
        for call in &calls {
            prop_assert!(output.contains(&call.excerpt));
        }
        let mut world = World::new();
        for m in after {
            world.message(m);
        }
        world.view.context();
        prop_assert_eq!(world.view.check(), Ok(()));
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// Folding entry by entry, with contexts built in between, is the same as folding all of them at once: at every step.
    #[test]
    fn p2_incremental_is_from_scratch_at_every_step(ops in few_ops()) {
        let mut world = World::new();
        let mut totals = KindTotals::default();
        for op in &ops {
            world.run(op);
            if matches!(op, Op::Build) {
                continue;
            }
            let mut fresh = world.fresh();
            let again = plain(&mut fresh);
            // Builds the running view itself and not a copy: errors of updates step by step are in its own state.
            prop_assert_eq!(plain(&mut world.view), again, "after {:?}", op);
            prop_assert_eq!(world.view.turn_state(), fresh.turn_state());
            prop_assert_eq!(world.view.open_calls(), fresh.open_calls());
            prop_assert_eq!(world.view.estimated_tokens(), fresh.estimated_tokens());
            // The estimate is never more than 3 % below what is sent; repairs of broken histories come on top.
            let context = world.view.context();
            let repaired = |m: &&Arc<ContextMessage>| m.provenance.applied.iter().any(|a| a.starts_with("repaired"));
            let system: u64 = context.system.iter().map(|block| estimate_text(block).0).sum();
            let sent: u64 = system
                + context.messages.iter().filter(|m| !repaired(m)).map(|m| estimate_message(&m.message).0).sum::<u64>();
            let estimate = world.view.estimated_tokens().0;
            prop_assert!(estimate as f64 >= 0.97 * sent as f64, "{} for {} after {:?}", estimate, sent, op);
            // Sums by kind that are updated step by step equal the sums over all spans.
            let mut sums = BTreeMap::new();
            for span in world.view.spans(&[]) {
                *sums.entry(span.kind).or_insert(Tokens(0)) += span.tokens;
            }
            prop_assert_eq!(totals.update(&world.view, &[]), &sums, "after {:?}", op);
        }
    }
}
