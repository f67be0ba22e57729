//! The bench of what compactions keep, in small, so that it goes on working and its claims go on holding.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../benches/recall/mod.rs"]
#[expect(dead_code, reason = "the programme uses the rest of it")]
mod recall;

use recall::engines::{ENGINES, Engine, cost};
use recall::language::LANGUAGES;
use recall::summariser::Summariser;
use recall::{Row, table};

/// One task for each language.
const TASKS: [u64; 5] = [0, 1, 2, 3, 4];

fn of(engine: Engine, tasks: &[u64], summariser: &Summariser) -> Vec<Row> {
    table(engine, tasks, &[1, 3], 32_000, summariser).unwrap()
}

#[test]
fn facts_are_in_the_context_or_one_recall_away_in_every_language() {
    for (task, language) in LANGUAGES.iter().enumerate() {
        for row in of(Engine::Becket, &[task as u64], &Summariser::Keeps(70)) {
            let goal = if row.compactions == 1 { 95.0 } else { 92.0 };
            assert!(
                row.reachable >= goal,
                "{language}, {} compactions: {} %",
                row.compactions,
                row.reachable
            );
            assert_eq!(row.repeated, 0, "{language}: a command would run twice");
            assert!(row.seen >= 90.0, "{language}: {} % of the results were seen", row.seen);
            assert!(row.plan >= 100.0, "{language}: the plan is in the anchor");
        }
    }
}

#[test]
fn a_summariser_that_loses_much_costs_this_engine_least() {
    let rows = ENGINES.map(|(engine, _)| of(engine, &TASKS, &Summariser::Keeps(10)));
    let [becket, no_anchor, others @ ..] = &rows;
    for other in others {
        for (becket, other) in becket.iter().zip(other) {
            assert!(becket.reachable > other.reachable, "{becket:?} and {other:?}");
        }
    }
    assert!(no_anchor.iter().any(|row| row.plan < 100.0), "the anchor is what keeps it");
}

#[test]
fn a_summariser_that_loses_nothing_shows_that_the_dial_is_honest() {
    for row in of(Engine::SummaryOnly, &TASKS[..1], &Summariser::Keeps(100)) {
        assert!(row.present >= 90.0, "{} %", row.present);
    }
}

#[test]
fn a_command_can_be_the_summariser() {
    let command = |text: &str| Summariser::Command(text.to_owned());
    let echo = command("cat >/dev/null; printf '## Goal\\nport\\n\\n## Next steps\\n1. go on\\n'");
    let row = &table(Engine::Becket, &[0], &[1], 32_000, &echo).unwrap()[0];
    assert!(row.reachable >= 90.0, "{} %", row.reachable);
    let failed = table(Engine::SummaryOnly, &[0], &[1], 32_000, &command("exit 3"));
    assert!(failed.err().unwrap().contains("exit 3 ended with"));
}

#[test]
fn a_request_costs_less_where_its_beginning_is_known() {
    let summariser = Summariser::Keeps(70);
    let spent = cost(Engine::Becket, 0, 1, 32_000, &summariser).unwrap();
    assert!(spent.steps > 40 && spent.tokens > 0.0);
    // The cost if nothing were cached: the size of all requests.
    let whole = spent.share * recall::engines::budget(32_000).usable() as f64;
    assert!(spent.tokens < whole, "{} and {whole}", spent.tokens);
}
