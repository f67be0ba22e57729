//! The bench of what compactions keep, in small, so that it goes on working and its claims go on holding.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../benches/recall/mod.rs"]
mod recall;

use recall::engines::Engine;
use recall::summariser::Summariser;
use recall::{Row, table};

fn rows(summariser: &Summariser) -> Vec<Row> {
    table(2, &[1, 3], 32_000, summariser, &|_| true).unwrap()
}

fn of(rows: &[Row], engine: Engine) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| row.engine == engine)
}

#[test]
fn a_summariser_that_loses_much_costs_this_engine_least() {
    let all = rows(&Summariser::Keeps(10));
    assert_eq!(all.len(), 10);
    for (becket, other) in of(&all, Engine::Becket).zip(of(&all, Engine::Opencode)) {
        assert!(becket.present > other.present, "{} and {} %", becket.present, other.present);
        assert!(becket.reachable >= 95.0, "{} % with one recall", becket.reachable);
        assert!(becket.vaguely > becket.present, "{} % with a vague one", becket.vaguely);
        assert!(becket.plan >= 100.0, "the plan stands in the anchor");
    }
    assert!(of(&all, Engine::NoAnchor).all(|row| row.plan < 100.0), "the anchor is what keeps it");
    assert!(all.iter().all(|row| row.tokens < 32_000));
}

#[test]
fn a_summariser_that_loses_nothing_shows_that_the_dial_is_honest() {
    let all = rows(&Summariser::Keeps(100));
    for row in of(&all, Engine::SummaryOnly) {
        assert!(row.present >= 100.0, "{} %", row.present);
    }
}

#[test]
fn a_command_can_be_the_summariser() {
    let command = |text: &str| Summariser::Command(text.to_owned());
    let echo = command("cat >/dev/null; printf '## Goal\\nport\\n\\n## Next steps\\n1. go on\\n'");
    let row = &table(1, &[1], 32_000, &echo, &|engine| engine == Engine::Becket).unwrap()[0];
    assert!(row.reachable >= 95.0, "{} %", row.reachable);
    let failed = table(1, &[1], 32_000, &command("exit 3"), &|engine| engine == Engine::SummaryOnly);
    assert!(failed.err().unwrap().contains("exit 3 ended with"));
}
