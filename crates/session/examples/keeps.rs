//! Prints what compactions keep of planted facts, by summariser, number of compactions and kind of fact.
#![expect(clippy::print_stdout, reason = "the report is its output")]
#![expect(clippy::panic, reason = "a task that cannot go on ends the report")]

#[path = "../tests/keeps/tasks.rs"]
mod tasks;

use tasks::{KINDS, Writer, run};

const TASKS: usize = 30;

fn main() {
    println!("{TASKS} tasks of 40 facts; kept, in percent");
    println!(
        "summariser  compactions  all  {:?}  false  repeats  injected  marked",
        KINDS.map(|(kind, _)| kind)
    );
    for writer in [Writer::Good, Writer::Careless, Writer::Adversarial] {
        for compactions in [1, 3, 5] {
            let kept: Vec<_> = (0..TASKS).map(|task| run(task, compactions, writer)).collect();
            let facts: Vec<_> = kept.iter().flat_map(|kept| kept.facts.iter().copied()).collect();
            let share = |pass: &dyn Fn(&tasks::Kind) -> bool| {
                let of: Vec<bool> =
                    facts.iter().filter(|(kind, _)| pass(kind)).map(|(_, kept)| *kept).collect();
                100.0 * of.iter().filter(|kept| **kept).count() as f64 / of.len() as f64
            };
            let by_kind: Vec<String> =
                KINDS.iter().map(|(kind, _)| format!("{:.0}", share(&|k| k == kind))).collect();
            let sum = |count: &dyn Fn(&tasks::Kept) -> usize| kept.iter().map(count).sum::<usize>();
            let lost = kept.iter().filter(|kept| !kept.last_words || !kept.pin).count();
            println!(
                "{writer:?}  {compactions}  {:.1}  {}  {}  {}  {}  {}  (last words or pin lost: {lost})",
                share(&|_| true),
                by_kind.join(" "),
                sum(&|k| k.false_items.len()),
                sum(&|k| k.repeats.len()),
                sum(&|k| k.injected.len()),
                sum(&|k| k.marked),
            );
        }
    }
}
