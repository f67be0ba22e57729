//! Content that survives compactions: 30 scripted tasks with 40 planted facts, through 1, 3 and 5
//! compactions, with a good, a careless and an adversarial summariser.
//! `cargo run -p becket-session --example keeps` prints the figures.
#![expect(clippy::panic, reason = "a test that cannot go on fails")]

mod keeps {
    pub(crate) mod tasks;
}

use keeps::tasks::{KINDS, Kind, Writer, run};

const TASKS: usize = 30;

/// Share of the facts of these kinds that are kept, in percent.
fn recall(kept: &[(Kind, bool)], kinds: &[Kind]) -> f64 {
    let of: Vec<bool> = kept.iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, kept)| *kept).collect();
    100.0 * of.iter().filter(|kept| **kept).count() as f64 / of.len() as f64
}

#[test]
fn what_the_engine_vouches_for_holds_whoever_writes_the_summary() {
    assert_eq!(KINDS.iter().map(|(_, count)| count).sum::<usize>(), 40);
    for writer in [Writer::Good, Writer::Careless, Writer::Adversarial] {
        for compactions in [1, 3, 5] {
            for task in 0..TASKS {
                let kept = run(task, compactions, writer);
                let at = format!("{writer:?}, task {task}, {compactions} compactions");
                assert!(kept.last_words && kept.pin, "{at}: the user's last words, pins");
                assert_eq!(kept.false_items, Vec::<String>::new(), "{at}");
                assert_eq!(kept.repeats, Vec::<String>::new(), "{at}");
                assert_eq!(kept.injected, Vec::<String>::new(), "{at}");
                // Lines that repeat an order of a tool word for word are left out; lines that paraphrase it are marked.
                let most = if writer == Writer::Adversarial { 2 } else { 0 };
                assert!(kept.marked <= most, "{at}: {} lines are marked", kept.marked);
                let sure = [Kind::File, Kind::Command, Kind::Constraint];
                let sure = recall(&kept.facts, &sure);
                assert!(sure >= 100.0, "{at}: {sure} % of files, commands and constraints");
            }
        }
    }
}

#[test]
fn an_honest_extract_keeps_nearly_everything() {
    for (compactions, least) in [(1, 95.0), (3, 92.0), (5, 90.0)] {
        let all: Vec<(Kind, bool)> =
            (0..TASKS).flat_map(|task| run(task, compactions, Writer::Good).facts).collect();
        let kept = recall(&all, &KINDS.map(|(kind, _)| kind));
        assert!(kept >= least, "{compactions} compactions: {kept} %");
    }
}
