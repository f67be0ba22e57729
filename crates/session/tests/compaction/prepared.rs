//! A summary made ahead of time: what it covers, when it counts, and that nothing falls between it and the tail.
//! 10,000 cases of the property; `PROPTEST_CASES` for more.

use super::logs::*;
use crate::cases;
use becket_session::context::compaction::{
    Failure, InputKind, Prepared, PreparedOutcome, Previous, Snapshot, Step, begin_with, first_unseen,
    prepare,
};
use becket_types::*;
use proptest::prelude::*;

/// A lone turn of `steps` steps with 7,000 bytes of output each.
fn busy(steps: usize) -> Log {
    let mut log = Log::default();
    log.user("the task");
    more(&mut log, steps);
    log
}

fn more(log: &mut Log, steps: usize) {
    for _ in 0..steps {
        log.step("bash", &[7_000]);
    }
}

fn without_prune(log: &Log) -> Snapshot {
    snapshot(log, 32_000)
}

/// Carries a preparation to its end.
fn prepared(snapshot: Snapshot, behaviour: Behaviour) -> Step {
    let mut step = Step::Ask(prepare(snapshot).unwrap());
    while let Step::Ask(ask) = step {
        let answer = behaviour.answer(&ask.request());
        step = ask.answer(answer);
    }
    step
}

fn ready(snapshot: Snapshot) -> Prepared {
    match prepared(snapshot, Behaviour::Good) {
        Step::Prepared(prepared) => *prepared,
        other => panic!("not prepared: {other:?}"),
    }
}

#[test]
fn the_tail_begins_where_the_summary_ends_and_no_request_is_made() {
    let mut log = busy(10);
    let prepared = ready(without_prune(&log));
    let covered = log.messages.len();
    log.user("by the way");
    more(&mut log, 3);
    let outcome = committed(begin_with(without_prune(&log), Some(&prepared)));
    let c = compaction(&outcome);
    assert_eq!((c.origin.input.as_str(), c.origin.model.as_str()), ("prepared", "test/model"));
    assert_eq!(c.retained.tail_from, log.messages[covered].seq);
    assert_eq!(outcome.report.model_calls, 1);
    assert!(
        c.summary.contains("- port 8080") && c.summary.contains("newer, and they count"),
        "{}",
        c.summary
    );
    assert!(!c.summary.contains("by the way"), "it is in the conversation: {}", c.summary);
    assert!(c.summary.contains("run c13"), "commands that ran since are in the journal's list");
    // The remark about newer messages is not shown to the next summariser, so it is not repeated in the next summary.
    let entry = log.apply(&outcome).unwrap();
    more(&mut log, 12);
    let mut next = without_prune(&log);
    next.previous = Some(entry);
    let (_, requests) = run(next, Behaviour::Good);
    assert!(!requests[0].prompt.contains("newer, and they count"));
}

#[test]
fn what_does_not_fit_the_tail_is_summarised_on_top_of_it() {
    let mut log = busy(10);
    let prepared = ready(without_prune(&log));
    log.step("bash", &[20_000]).says("a remark in the gap");
    more(&mut log, 12);
    let (mut step, mut prompts) = (begin_with(without_prune(&log), Some(&prepared)), Vec::new());
    while let Step::Ask(ask) = step {
        assert_eq!(ask.request().input, InputKind::PrunedHead);
        prompts.push(ask.request().prompt);
        step = ask.answer(Ok(GOOD.replace("port 8080", "port 9090")));
    }
    assert_eq!(prompts.len(), 1);
    assert!(prompts[0].contains("port 8080"), "the prepared summary is the previous one");
    assert!(prompts[0].contains("a remark in the gap") && !prompts[0].contains("run c3"), "{}", prompts[0]);
    let c = compaction(&committed(step)).clone();
    assert_eq!(c.origin.input, "pruned_head");
    assert!(c.summary.contains("port 9090"));
}

#[test]
fn it_counts_only_for_the_history_that_it_covers() {
    let mut log = busy(10);
    let good = ready(without_prune(&log));
    more(&mut log, 3);
    let uses = |snapshot: Snapshot, prepared: &Prepared| matches!(begin_with(snapshot, Some(prepared)), Step::Commit(outcome) if compaction(&outcome).origin.input == "prepared");
    let today = || without_prune(&log);
    let mut reverted = today();
    reverted.messages.remove(3);
    let mut rewound = today();
    rewound.messages.truncate(good.cover.messages - 2);
    let mut compacted = today();
    compacted.previous = Some(Previous { entry: Seq(7), ..Previous::default() });
    let mut failed = good.clone();
    failed.outcome = PreparedOutcome::Failed { why: "refused".into() };
    for (rule, snapshot, prepared, want) in [
        ("the same history, longer", today(), &good, true),
        ("a message in the middle is gone", reverted, &good, false),
        ("the history is shorter", rewound, &good, false),
        ("another compaction is in force", compacted, &good, false),
        ("no summary came of it", today(), &failed, false),
    ] {
        assert_eq!(uses(snapshot, prepared), want, "{rule}");
    }
    let EntryKind::State { key, value } = good.entry() else { panic!("no state") };
    assert_eq!((key.as_str(), Prepared::from_state(Some(&value))), (Prepared::KEY, Some(good)));
}

#[test]
fn after_a_preparation_that_failed_no_model_is_asked() {
    let log = busy(10);
    let mut failed = ready(without_prune(&log));
    failed.outcome = PreparedOutcome::Failed { why: "the summarising model failed: boom".into() };
    let outcome = committed(begin_with(without_prune(&log), Some(&failed)));
    assert_eq!(compaction(&outcome).origin.source, CompactionSource::Fallback);
    assert_eq!(outcome.notices, ["Summary made without the model: the summarising model failed: boom"]);
    failed.outcome = PreparedOutcome::Cancelled { why: "an interrupt".into() };
    assert!(matches!(begin_with(without_prune(&log), Some(&failed)), Step::Ask(_)));
}

#[test]
fn it_is_not_begun_where_it_would_be_for_nothing() {
    let log = busy(10);
    let mut no_model = without_prune(&log);
    no_model.request.summariser = None;
    let mut prunable = without_prune(&log);
    prunable.outputs.prunable = log
        .messages
        .iter()
        .filter_map(|m| m.result_of())
        .map(|call| PrunedCall { call_id: call.clone(), bytes: 6_000, lines: 150, excerpt: String::new() })
        .collect();
    let mut floor = without_prune(&log);
    floor.request.floor.system = Tokens(20_000);
    for (why, snapshot) in [("no model", no_model), ("pruning alone will do", prunable), ("the floor", floor)]
    {
        assert!(prepare(snapshot).is_none(), "{why}");
    }
}

#[test]
fn a_summariser_that_gives_none_leaves_the_compaction_as_it_was() {
    let log = busy(10);
    for (behaviour, why) in [
        (Behaviour::Error, "HTTP 500"),
        (Behaviour::Refusal, "refused"),
        (Behaviour::Timeout, "90 seconds"),
        (Behaviour::Empty, "empty"),
        (Behaviour::IgnoresTemplate, "twice"),
        (Behaviour::Overflow, "too long"),
    ] {
        match prepared(without_prune(&log), behaviour) {
            Step::Unprepared(text) => assert!(text.contains(why), "{text}"),
            other => panic!("{behaviour:?}: {other:?}"),
        }
    }
    let ask = prepare(without_prune(&log)).unwrap();
    let Step::Unprepared(_) = ask.answer(Err(Failure::Refusal)) else { panic!("prepared") };
}

proptest! {
    #![proptest_config(cases(2_500))]

    /// Whatever happened between preparation and compaction: all that leaves the view was in the prepared summary or in a
    /// request of the compaction, and the outcome keeps the same laws as any other.
    #[test]
    fn nothing_falls_between_a_prepared_summary_and_the_tail(
        ops in prop::collection::vec(op(), 1..16),
        later in prop::collection::vec(op(), 0..10),
        window in prop_oneof![Just(8_000u64), Just(16_384), Just(32_768)],
        ready in prop::sample::select(BEHAVIOURS.to_vec()),
        behaviour in prop::sample::select(BEHAVIOURS.to_vec()),
    ) {
        let all: Vec<Op> = ops.iter().chain(&later).cloned().collect();
        let log = log(&all);
        let early = {
            let until = super::logs::log(&ops).messages.len();
            let mut early = snapshot(&log, window);
            early.messages.truncate(until);
            early
        };
        let covers_first = early.messages.len();
        let Some(ask) = prepare(early) else { return Ok(()) };
        let mut step = Step::Ask(ask);
        while let Step::Ask(ask) = step {
            let answer = ready.answer(&ask.request());
            step = ask.answer(answer);
        }
        let prepared = match step {
            Step::Prepared(prepared) => Some(*prepared),
            Step::Unprepared(_) => None,
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        prop_assert!(prepared.as_ref().is_none_or(|p| p.cover.messages <= covers_first));
        let before = snapshot(&log, window);
        let usable = before.request.budget.usable();
        let mut asked = 0;
        let mut step = begin_with(before, prepared.as_ref());
        while let Step::Ask(ask) = step {
            asked += 1;
            prop_assert!(asked < 120);
            let answer = behaviour.answer(&ask.request());
            step = ask.answer(answer);
        }
        if let Step::Commit(outcome) = step {
            let c = compaction(&outcome);
            let (most, least) = if first_unseen(&log.messages) < log.messages.len() { (83, 92) } else { (60, 75) };
            prop_assert!(c.size.after.0 * 100 <= usable * most);
            prop_assert!(c.size.after.0 * 100 <= c.size.before.0 * least);
            prop_assert_eq!(outcome.entries.len(), 2);
            prop_assert!(!c.summary.contains("<system-reminder"));
            if c.origin.input == "prepared" {
                prop_assert_eq!(asked, 0);
                let covered = prepared.unwrap().cover.messages;
                for (index, message) in log.messages.iter().enumerate() {
                    let out = message.seq < c.retained.tail_from && !c.retained.kept.contains(&message.id) && !c.retained.taken_out.contains(&message.id);
                    prop_assert!(!out || index < covered, "message {index} is in neither");
                }
            }
        }
    }
}
