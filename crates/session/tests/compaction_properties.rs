//! Laws of compaction on random histories, and the tables of its rules.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod compaction {
    mod attached;
    mod governor;
    pub(crate) mod logs;
    mod prepared;
    mod quotes;
    mod rules;
    mod summaries;
    mod through_view;
    mod unseen;
}

use becket_session::context::Policy;
use becket_session::context::budget::{Limits, Meter};
use becket_session::context::compaction::{
    CompactionReason, Floor, Governor, Previous, Step, Tail, Verdict, borders, cut, first_unseen,
};
use becket_session::context::continuation::{Branch, branch, is_users_words};
use becket_types::*;
use compaction::logs::*;
use proptest::prelude::*;

/// Settings of a property: `n` cases in every run, so that the whole file takes about two minutes of CPU. A long run sets
/// `PROPTEST_CASES` for all of them: see `benches/README.md`.
fn cases(n: u32) -> ProptestConfig {
    let n = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(n);
    ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::with_cases(n) }
}

/// Every result from `at` on has its call there too, and no call before `at` has its result there.
fn holds_together(messages: &[std::sync::Arc<Message>], at: usize) -> Result<(), TestCaseError> {
    let called: Vec<&CallId> = messages[at..].iter().flat_map(|m| m.call_ids()).collect();
    let before: Vec<&CallId> = messages[..at].iter().flat_map(|m| m.call_ids()).collect();
    for result in messages[at..].iter().filter_map(|m| m.result_of()) {
        prop_assert!(!before.contains(&result), "{result} is cut from its call");
        prop_assert!(at == 0 || called.contains(&result) || result.as_str().starts_with("gone"));
    }
    let alone = |m: &Message| m.parts.len() == 1 && m.parts[0].is_signed();
    prop_assert!(
        at == 0 || at == messages.len() || !alone(&messages[at - 1]) || messages[at].role != Role::Assistant
    );
    Ok(())
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// Whatever the history and the tail's budget, no result is separated from its call.
    #[test]
    fn a_cut_never_parts_what_belongs_together(
        ops in prop::collection::vec(op(), 0..24),
        turns in 0usize..4,
        tokens in 0u64..9_000,
    ) {
        let log = log(&ops);
        let costs: Vec<u64> = log.messages.iter().map(|m| m.parts.len() as u64 * 700).collect();
        let at = cut(&log.messages, &costs, Tail { turns, tokens });
        prop_assert!(borders(&log.messages)[at] || at == 0);
        holds_together(&log.messages, at)?;
        if let Some(first) = log.messages.get(at) {
            prop_assert!(at == 0 || first.role == Role::Assistant || first.is_user_turn());
        }
    }

}

proptest! {
    #![proptest_config(cases(2_500))]

    /// P5, P6, and the size of the view after a compaction. No result loses its call.
    #[test]
    fn p5_p6_one_continuation_and_the_users_last_words(
        ops in prop::collection::vec(op(), 1..24),
        window in prop_oneof![Just(8_000u64), Just(16_384), Just(32_768)],
        state in prop_oneof![
            Just(TurnState::AwaitingUser), Just(TurnState::MidTurn), Just(TurnState::Unanswered), Just(TurnState::Media)
        ],
        behaviour in prop::sample::select(BEHAVIOURS.to_vec()),
        trigger in prop_oneof![Just(CompactionTrigger::Auto), Just(CompactionTrigger::Overflow), Just(CompactionTrigger::Manual)],
        pin in any::<prop::sample::Index>(),
        pinned in any::<bool>(),
    ) {
        let mut log = log(&ops);
        let mut before = snapshot(&log, window);
        before.turn_state = state;
        before.request.trigger = trigger;
        if pinned {
            before.pins.messages.insert(pin.get(&log.messages).id);
        }
        let messages = before.messages.clone();
        let usable = before.request.budget.usable();
        let (step, _) = run(before, behaviour);
        if let Step::Commit(outcome) = step {
            let c = compaction(&outcome);
            prop_assert_eq!(outcome.entries.len(), 1 + usize::from(state != TurnState::AwaitingUser));
            // If the model has not answered some messages yet, the view may stay fuller.
            let (most, least) = if first_unseen(&messages) < messages.len() { (83, 92) } else { (60, 75) };
            prop_assert!(c.size.after.0 * 100 <= usable * most, "{} of {usable}", c.size.after);
            prop_assert!(c.size.after.0 * 100 <= c.size.before.0 * least);
            prop_assert_eq!(c.summary.matches("<verbatim_tail").count(), usize::from(c.anchor.is_some()));
            prop_assert!(!c.summary.contains("<system-reminder"));
            if pinned {
                let id = pin.get(&messages).id;
                let stays = c.retained.kept.contains(&id) || pin.get(&messages).seq >= c.retained.tail_from || c.retained.taken_out.contains(&id);
                prop_assert!(stays || branch(&messages) == Branch::Unanswered);
            }
            let last = messages.iter().rev().find(|m| is_users_words(m)).cloned();
            log.apply(&outcome);
            if let Some(last) = last {
                // If there is too little room for its images, the repeated message has text instead of them, after its words.
                let repeated = |m: &Message| {
                    m.metadata.compaction_continue && m.parts.len() == last.parts.len() && m.parts[0] == last.parts[0]
                };
                let here = |m: &std::sync::Arc<Message>| m.id == last.id || repeated(m);
                prop_assert_eq!(log.messages.iter().filter(|m| here(m)).count(), 1);
            }
            let called: Vec<&CallId> = log.messages.iter().flat_map(|m| m.call_ids()).collect();
            for result in log.messages.iter().filter_map(|m| m.result_of()) {
                prop_assert!(called.contains(&result) || result.as_str().starts_with("gone"));
            }
        }
    }
}

/// Results of one simulated session.
#[derive(Debug, Default)]
struct Tally {
    steps: u32,
    compactions: u32,
    in_a_row: u32,
    requests: usize,
}

/// A session that works until it stops or has made its steps: a provider with a true window of `true_window` tokens that
/// counts `skew` times what we estimate, a summariser with a behaviour, outputs of up to `chunk` bytes.
fn simulate(
    window: u64,
    true_window: u64,
    floor_percent: u64,
    skew: f64,
    chunk: usize,
    behaviour: Behaviour,
) -> Tally {
    let policy = Policy::default();
    let mut log = Log::default();
    log.user("do the work");
    let floor = Floor { system: Tokens(window * floor_percent / 100), ..Floor::default() };
    let (mut meter, mut limits, mut governor) = (Meter::default(), Limits::default(), Governor::default());
    let mut previous: Option<Previous> = None;
    let mut tally = Tally::default();
    let mut need = CompactionReason::Threshold;
    for round in 0..400u64 {
        if tally.steps == 24 {
            break;
        }
        assert!(round < 399, "a session that neither works nor stops: {tally:?}");
        let budget = snapshot(&log, window).request.budget.limited(limits);
        let base_now = base(&floor, previous.as_ref(), &log);
        let used = meter.used(base_now);
        match governor.decide(need, used, &budget, &policy, Millis(round)) {
            Verdict::Stop(_) => break,
            Verdict::Compact(trigger) => {
                let mut before = snapshot(&log, window);
                before.request.budget = budget;
                before.request.summariser.as_mut().unwrap().budget = budget;
                before.request.floor = floor;
                before.request.used = used;
                before.request.trigger = trigger;
                before.previous.clone_from(&previous);
                before.request.continuation_id = MessageId::new();
                let (step, requests) = run(before, behaviour);
                tally.requests += requests.len();
                match step {
                    Step::Commit(outcome) => {
                        assert!(continuation(&outcome).is_some());
                        assert!(outcome.report.tokens_after < outcome.report.tokens_before);
                        governor.succeeded(outcome.report.tokens_after, &budget);
                        governor.note_shown(outcome.report.blind);
                        previous = log.apply(&outcome);
                        meter.forget();
                        tally.compactions += 1;
                        tally.in_a_row += 1;
                        assert!(tally.in_a_row <= 2, "more than two compactions between two steps");
                    }
                    _ => break,
                }
                governor = Governor::from_state(
                    match governor.entry() {
                        EntryKind::State { value, .. } => Some(value),
                        _ => None,
                    }
                    .as_ref(),
                );
                need = CompactionReason::Threshold;
                continue;
            }
            Verdict::No => {}
        }
        let counted = (base_now.0 as f64 * skew) as u64;
        if counted > true_window {
            limits.learn((round % 2 == 0).then_some(true_window), used);
            need = CompactionReason::Overflow;
            continue;
        }
        need = CompactionReason::Threshold;
        tally.steps += 1;
        tally.in_a_row = 0;
        log.step("bash", &[chunk]);
        let now = base(&floor, previous.as_ref(), &log);
        meter.report(&Usage { input: counted, ..Usage::default() }, base_now, now);
        governor.step_succeeded();
    }
    tally
}

proptest! {
    #![proptest_config(cases(800))]

    /// P9: no compaction loop, for any summariser and any floor from 10 % to 120 % of windows from 8k to 1M.
    #[test]
    fn p9_no_loop_for_any_summariser_floor_and_window(
        window in prop_oneof![4 => Just(8_000u64), 4 => Just(16_384), 4 => Just(32_768), 2 => Just(128_000), 1 => Just(1_000_000)],
        floor in 10u64..=120,
        skew in 0.6f64..1.6,
        shrink in prop_oneof![3 => Just(1u64), 1 => Just(2), 1 => Just(10)],
        share in 1u64..60,
        behaviour in prop::sample::select(BEHAVIOURS.to_vec()),
    ) {
        let chunk = (window * share / 100 * 18 / 5) as usize;
        let tally = simulate(window, window / shrink, floor, skew, chunk, behaviour);
        // Never more than two compactions between two steps. A session that stops has made at most two more.
        prop_assert!(tally.compactions <= 2 * tally.steps + 2, "{:?}", tally);
        prop_assert!(tally.requests <= 60 * (tally.compactions as usize + 1), "{:?}", tally);
    }

}

proptest! {
    #![proptest_config(cases(200))]

    /// A history of many times the window is compacted, whatever the summariser does.
    #[test]
    fn ten_times_the_window_succeeds(
        window in prop_oneof![Just(8_000u64), Just(16_384), Just(32_768)],
        times in 1u64..=10,
        lone in any::<bool>(),
        behaviour in prop::sample::select(BEHAVIOURS.to_vec()),
    ) {
        let mut log = Log::default();
        log.user("the task");
        while log.tokens() < window * times {
            if lone {
                log.step("bash", &[3_000]);
            } else {
                log.says(&filler(3_000)).user("more, please").step("read", &[2_500]);
            }
        }
        let mut before = snapshot(&log, window);
        before.request.trigger = CompactionTrigger::Overflow;
        before.request.used = Tokens(log.tokens() + before.request.floor.total().0);
        let usable = before.request.budget.usable();
        let (step, requests) = run(before, behaviour);
        let Step::Commit(outcome) = step else { return Err(TestCaseError::fail(format!("{step:?}"))) };
        prop_assert!(outcome.report.tokens_after.0 * 100 <= usable * 60);
        for request in requests {
            let size = becket_session::context::budget::estimate_text(&request.prompt).0 + request.max_output;
            prop_assert!(size <= window, "the request itself overflows: {size} of {window}");
        }
    }
}
