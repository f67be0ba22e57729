//! The bench of what compactions keep, in small, so that it goes on working and its claims go on holding.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../benches/recall/mod.rs"]
mod recall;

use recall::engines::{ENGINES, Engine};
use recall::summariser::Summariser;
use recall::{Row, table};

fn of(engine: Engine, summariser: &Summariser) -> Vec<Row> {
    let rows = table(engine, 2, &[1, 3], 32_000, summariser).unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.tokens < 32_000));
    rows
}

#[test]
fn a_summariser_that_loses_much_costs_this_engine_least() {
    let [becket, no_anchor, opencode, ..] = ENGINES.map(|(engine, _)| of(engine, &Summariser::Keeps(10)));
    for (becket, other) in becket.iter().zip(&opencode) {
        assert!(becket.present > other.present, "{} and {} %", becket.present, other.present);
        assert!(becket.reachable >= 95.0, "{} % with one recall", becket.reachable);
        assert!(becket.vaguely > becket.present, "{} % with a vague one", becket.vaguely);
        assert!(becket.plan >= 100.0, "the plan stands in the anchor");
    }
    assert!(no_anchor.iter().all(|row| row.plan < 100.0), "the anchor is what keeps it");
}

#[test]
fn a_summariser_that_loses_nothing_shows_that_the_dial_is_honest() {
    for row in of(Engine::SummaryOnly, &Summariser::Keeps(100)) {
        assert!(row.present >= 100.0, "{} %", row.present);
    }
}

#[test]
fn a_command_can_be_the_summariser() {
    let command = |text: &str| Summariser::Command(text.to_owned());
    let echo = command("cat >/dev/null; printf '## Goal\\nport\\n\\n## Next steps\\n1. go on\\n'");
    let row = &table(Engine::Becket, 1, &[1], 32_000, &echo).unwrap()[0];
    assert!(row.reachable >= 95.0, "{} %", row.reachable);
    let failed = table(Engine::SummaryOnly, 1, &[1], 32_000, &command("exit 3"));
    assert!(failed.err().unwrap().contains("exit 3 ended with"));
}
