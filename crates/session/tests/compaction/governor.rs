//! When a compaction is owed: the rules over time.

use becket_session::context::Policy;
use becket_session::context::budget::Budget;
use becket_session::context::compaction::{CompactionReason, Governor, StopReason, Verdict};
use becket_types::*;

const NOW: Millis = Millis(1_000);

fn owed(g: &mut Governor, need: CompactionReason, used: u64) -> Verdict {
    g.decide(need, Tokens(used), &Budget::new(100_000, 0, 20_000), &Policy::default(), NOW)
}

fn auto() -> Verdict {
    Verdict::Compact(CompactionTrigger::Auto)
}

/// 80,000 usable tokens; the threshold is 72,000.
#[test]
fn owed_at_the_threshold_on_overflow_and_by_hand() {
    let mut g = Governor::default();
    for (need, used, want) in [
        (CompactionReason::Threshold, 71_999, Verdict::No),
        (CompactionReason::Threshold, 72_000, auto()),
        (CompactionReason::Overflow, 10, Verdict::Compact(CompactionTrigger::Overflow)),
        (CompactionReason::Manual, 10, Verdict::Compact(CompactionTrigger::Manual)),
    ] {
        assert_eq!(owed(&mut g, need, used), want, "{need:?} {used}");
    }
}

#[test]
fn at_most_two_between_two_successful_steps_and_only_after_growth() {
    let budget = Budget::new(100_000, 0, 20_000);
    let mut g = Governor::default();
    g.succeeded(Tokens(71_000), &budget);
    // Another compaction is due only after growth of max(2,048 tokens, 2 % of the window), which is 2,048 here.
    assert_eq!(owed(&mut g, CompactionReason::Threshold, 73_047), Verdict::No);
    assert_eq!(owed(&mut g, CompactionReason::Overflow, 73_047), Verdict::Stop(StopReason::NotGrown));
    assert_eq!(owed(&mut g, CompactionReason::Threshold, 73_048), auto());
    // After the window turned out smaller, a compaction is due without growth.
    let smaller = Budget::new(60_000, 0, 20_000);
    let now = g.decide(CompactionReason::Overflow, Tokens(71_000), &smaller, &Policy::default(), NOW);
    assert_eq!(now, Verdict::Compact(CompactionTrigger::Overflow));
    g.succeeded(Tokens(30_000), &budget);
    assert_eq!(owed(&mut g, CompactionReason::Threshold, 79_999), Verdict::No);
    assert_eq!(owed(&mut g, CompactionReason::Threshold, 80_000), Verdict::Stop(StopReason::TooMany));
    assert_eq!(owed(&mut g, CompactionReason::Manual, 80_000), Verdict::Compact(CompactionTrigger::Manual));
    assert!(g.step_succeeded());
    assert!(!g.step_succeeded());
    assert_eq!(owed(&mut g, CompactionReason::Threshold, 80_000), auto());
}

#[test]
fn three_failures_open_a_breaker_for_an_hour_also_after_a_restart() {
    let policy = Policy::default();
    let budget = Budget::new(100_000, 0, 20_000);
    let mut g = Governor::default();
    for _ in 0..2 {
        g.failed(NOW);
        assert_eq!(owed(&mut g, CompactionReason::Threshold, 90_000), auto());
    }
    g.failed(NOW);
    let EntryKind::State { key, value } = g.entry() else { panic!("no state") };
    assert_eq!(key, Governor::KEY);
    let mut g = Governor::from_state(Some(&value));
    let until = Millis(3_601_000);
    for (now, need, used, want) in [
        (NOW, CompactionReason::Threshold, 75_000, Verdict::No),
        (NOW, CompactionReason::Threshold, 90_000, Verdict::Stop(StopReason::Breaker { until })),
        (NOW, CompactionReason::Overflow, 75_000, Verdict::Stop(StopReason::Breaker { until })),
        (NOW, CompactionReason::Manual, 75_000, Verdict::Compact(CompactionTrigger::Manual)),
        (until, CompactionReason::Threshold, 90_000, auto()),
    ] {
        assert_eq!(g.decide(need, Tokens(used), &budget, &policy, now), want, "{need:?} {used}");
    }
    g.failed(until);
    assert!(matches!(
        g.decide(CompactionReason::Overflow, Tokens(1), &budget, &policy, until),
        Verdict::Stop(_)
    ));
    g.succeeded(Tokens(1), &budget);
    assert_eq!(owed(&mut g, CompactionReason::Threshold, 90_000), auto());
    assert_eq!(Governor::from_state(Some(&serde_json::json!("nonsense"))), Governor::default());
}

#[test]
fn auto_off_stops_with_a_choice_and_a_larger_window_clears_it() {
    let policy = Policy { auto_compact: false, ..Policy::default() };
    let small = Budget::new(100_000, 0, 20_000);
    let large = Budget::new(200_000, 0, 20_000);
    let off = Verdict::Stop(StopReason::AutoOff);
    let mut g = Governor::default();
    assert_eq!(g.decide(CompactionReason::Threshold, Tokens(50_000), &small, &policy, NOW), Verdict::No);
    assert_eq!(g.decide(CompactionReason::Threshold, Tokens(76_000), &small, &policy, NOW), off, "at 95 %");
    assert_eq!(
        g.decide(CompactionReason::Overflow, Tokens(60_000), &small, &policy, NOW),
        off,
        "at overflow"
    );
    let EntryKind::State { value, .. } = g.entry() else { panic!("no state") };
    let mut g = Governor::from_state(Some(&value));
    assert_eq!(g.decide(CompactionReason::Threshold, Tokens(60_000), &small, &policy, NOW), off, "on resume");
    assert_eq!(
        g.decide(CompactionReason::Manual, Tokens(60_000), &small, &policy, NOW),
        Verdict::Compact(CompactionTrigger::Manual)
    );
    let mut rewound = g;
    assert_eq!(
        rewound.decide(CompactionReason::Threshold, Tokens(40_000), &small, &policy, NOW),
        Verdict::No,
        "rewound"
    );
    assert_eq!(
        g.decide(CompactionReason::Threshold, Tokens(60_000), &large, &policy, NOW),
        Verdict::No,
        "larger model"
    );
    assert_eq!(
        g.decide(CompactionReason::Threshold, Tokens(60_000), &small, &policy, NOW),
        Verdict::No,
        "and it stays cleared"
    );
}
