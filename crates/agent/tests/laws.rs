//! The laws of requests (docs/context-engine.md, P11 to P16) over whole sessions: the real driver, engine and encoder, a
//! model that follows a random plan, and a summariser that may return anything at all, for ever.
//!
//! Every session must end, turn by turn, with an answer or with words for what fills the window, and run no call twice.
//! `PROPTEST_CASES` sets how many; a few dozen by default, because a case is a whole session.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

#[path = "laws/check.rs"]
mod check;
#[path = "templates/rules.rs"]
mod rules;
#[path = "laws/stage.rs"]
mod stage;
#[path = "laws/words.rs"]
mod words;

use becket_types::{Command, Event, Part, TurnEnd};
use check::{Broken, TWICE, TWICE_COPIED, check};
use proptest::prelude::*;
use serde_json::json;
use stage::{Behaviour, Stage, picture};
use std::collections::HashSet;
use words::{Source, text};

/// A session to play.
#[derive(Clone, Debug)]
struct History {
    window: u64,
    /// Number of turns after which another model takes over, and its window in tokens.
    smaller: Option<(usize, u64)>,
    behaviour: Behaviour,
    prepare: bool,
    /// Bytes of `AGENTS.md`, and of the one in the folder `sub`.
    rules: usize,
    sub_rules: usize,
    turns: Vec<Turn>,
}

#[derive(Clone, Debug)]
struct Turn {
    language: usize,
    /// Length of the prompt in thousandths of the window, at four bytes a token.
    words: u64,
    image: bool,
    /// The user sends a second message directly after the first.
    steer: bool,
    /// The user compacts by hand after this turn.
    compact: bool,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    text: usize,
    calls: Vec<(Kind, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bash,
    /// Reads a file that no other call reads.
    Read,
    /// Reads a file in the folder `sub`, which has a rules file.
    ReadSub,
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    use Behaviour as B;
    prop_oneof![
        6 => (0usize..5).prop_map(B::Good),
        8 => prop::sample::select(vec![
            B::Empty, B::Blank, B::HeadingsOnly, B::Identical, B::Echo, B::Huge, B::Endless, B::Cut, B::Refusal,
            B::Overflow, B::Calls, B::Error(500), B::Error(401), B::Error(404), B::Error(429),
        ]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![3 => Just(Kind::Bash), 3 => Just(Kind::Read), 1 => Just(Kind::ReadSub)];
    // Length of an output, in thousandths of the window.
    let share = prop_oneof![6 => 1u64..60, 4 => 60u64..300, 1 => 300u64..1_500];
    let calls = prop_oneof![
        6 => prop::collection::vec((kind.clone(), share.clone()), 1..3),
        1 => prop::collection::vec((kind, share), 3..10),
    ];
    (0usize..300, calls).prop_map(|(text, calls)| Step { text, calls })
}

fn turn() -> impl Strategy<Value = Turn> {
    (
        0usize..5,
        prop_oneof![8 => 1u64..20, 3 => 20u64..100, 1 => 100u64..400],
        proptest::bool::weighted(0.15),
        proptest::bool::weighted(0.15),
        proptest::bool::weighted(0.1),
        prop::collection::vec(step(), 0..7),
    )
        .prop_map(|(language, words, image, steer, compact, steps)| Turn {
            language,
            words,
            image,
            steer,
            compact,
            steps,
        })
}

fn history() -> impl Strategy<Value = History> {
    let window = prop_oneof![
        3 => Just(4_000u64), 6 => Just(8_000), 6 => Just(16_000), 6 => Just(32_000), 2 => Just(200_000), 1 => Just(1_000_000)
    ];
    let bytes = || prop_oneof![4 => Just(0usize), 3 => 200usize..4_000, 1 => 4_000usize..30_000];
    (
        window,
        prop::option::weighted(0.2, (0usize..5, 2u64..5)),
        behaviour(),
        any::<bool>(),
        bytes(),
        bytes(),
        prop::collection::vec(turn(), 1..8),
    )
        .prop_map(|(window, smaller, behaviour, prepare, rules, sub_rules, turns)| History {
            window,
            smaller: smaller.map(|(after, by)| (after, (window / by).max(4_000))),
            behaviour,
            prepare,
            rules,
            sub_rules,
            turns,
        })
}

/// Result of a session.
#[derive(Debug, Default)]
struct Played {
    requests: usize,
    compactions: usize,
    ends: Vec<&'static str>,
}

/// Plays a session and checks every request of it.
fn play(history: &History, but: &[&str]) -> Result<Played, Broken> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let limit = std::time::Duration::from_secs(100_000);
        match tokio::time::timeout(limit, perform(history, but)).await {
            Ok(played) => played,
            Err(_) => Err(("end", "the session stands still".to_owned())),
        }
    })
}

async fn perform(history: &History, but: &[&str]) -> Result<Played, Broken> {
    let mut windows = vec![history.window];
    windows.extend(history.smaller.map(|(_, w)| w));
    let mut stage = Stage::new(&windows, history.behaviour, history.prepare);
    for (name, bytes) in [("AGENTS.md", history.rules), ("sub/AGENTS.md", history.sub_rules)] {
        if bytes > 0 {
            stage.write(name, &text(Source::Rules, name.len() as u64, 0, bytes));
        }
    }
    let (mut played, mut calls, mut said) = (Played::default(), 0u64, 0u64);
    let mut window = history.window;
    for (n, turn) in history.turns.iter().enumerate() {
        if let Some((_, smaller)) = history.smaller.filter(|(after, _)| *after == n) {
            window = smaller;
            stage.send(Command::SetModel { model: format!("test/w{smaller}") }).await;
        }
        for step in &turn.steps {
            let parts = plan_step(&stage, step, &mut calls, window);
            stage.plan.lock().unwrap().steps.push_back(parts);
        }
        stage.plan.lock().unwrap().steps.push_back(vec![Part::text(text(
            Source::Assistant,
            900_000 + n as u64,
            turn.language,
            200,
        ))]);
        for nth in 0..=u64::from(turn.steer) {
            said += 1;
            let bytes = if nth == 0 { turn.words * window * 4 / 1_000 } else { 120 };
            let mut parts = vec![Part::text(text(Source::User, said, turn.language, bytes.max(20) as usize))];
            parts.extend((turn.image && nth == 0).then(|| picture(said)));
            stage.prompt(parts).await;
        }
        played.ends.push(match stage.finished().await.end {
            TurnEnd::Completed => "completed",
            TurnEnd::ContextFull { breakdown } if !breakdown.is_empty() => "full",
            TurnEnd::NoRoom { what } if !what.is_empty() => "no room",
            TurnEnd::Repetition { .. } => return Err(("end", "repetition".to_owned())),
            other => return Err(("end", format!("{other:?}"))),
        });
        // A second message that came too late for its turn starts a turn of its own. All later turns then run one prompt
        // late, and the compaction would interrupt one of them.
        let is_behind = history.turns[..=n].iter().any(|turn| turn.steer);
        if turn.compact && !is_behind {
            stage.send(Command::Compact { focus: None }).await;
            let over =
                |e: &Event| matches!(e, Event::TurnFinished(result) if result.compaction.by_hand.is_some());
            stage.until(over).await;
        }
        stage.plan.lock().unwrap().steps.clear();
    }
    played.compactions = stage.log.iter().filter(|e| matches!(e, Event::CompactBoundary { .. })).count();
    let (session, plan, _dir) = stage.end().await;
    let (session, plan) = (session.lock().unwrap(), plan.lock().unwrap());
    played.requests = plan.sent.len();
    let once: HashSet<&String> = plan.ran.iter().collect();
    if once.len() != plan.ran.len() {
        return Err(("once", "a call ran twice".to_owned()));
    }
    let twice = if history.behaviour == Behaviour::Echo { TWICE_COPIED } else { TWICE };
    check(&session, &plan.sent, &plan.outputs, but, twice)?;
    Ok(played)
}

fn plan_step(stage: &Stage, step: &Step, calls: &mut u64, window: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    if step.text > 0 {
        parts.push(Part::text(text(Source::Assistant, *calls, 0, step.text)));
    }
    for (kind, share) in &step.calls {
        *calls += 1;
        let id = format!("call_{calls}");
        let bytes = (share * window * 4 / 1_000).max(10);
        parts.push(match kind {
            Kind::Bash => {
                let input = json!({"command": format!("run {calls}"), "n": *calls, "bytes": bytes, "id": id});
                Part::tool_call(id.as_str(), "bash", input)
            }
            Kind::Read | Kind::ReadSub => {
                let folder = if *kind == Kind::ReadSub { "sub/" } else { "" };
                let path = format!("{folder}f{calls}.txt");
                stage.write(&path, &text(Source::File, *calls, 0, bytes as usize));
                Part::tool_call(id.as_str(), "read", json!({"path": path, "id": id}))
            }
        });
    }
    parts
}

fn cases(n: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(n);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::default() }
}

/// Laws that each run checks. `BECKET_LAWS=P11,P12 cargo test -p becket-agent --test laws` checks only some of them.
const HOLD: &str = "P11,P12,P13,P14,P15,P16";

/// Laws that this run does not check.
fn but() -> Vec<&'static str> {
    let asked = std::env::var("BECKET_LAWS").unwrap_or_else(|_| HOLD.to_owned());
    ["P11", "P12", "P13", "P14", "P15", "P16"].into_iter().filter(|law| !asked.contains(law)).collect()
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn every_session_ends_and_each_of_its_requests_keeps_the_laws(history in history()) {
        let played = play(&history, &but());
        if let Err((law, what)) = played {
            return Err(TestCaseError::fail(format!("{law}: {what}")));
        }
    }
}

/// Histories in which a law was broken once.
#[test]
fn histories_that_broke_a_law_keep_it_now() {
    use Kind::{Bash, Read, ReadSub};
    let step = |text, calls: &[(Kind, u64)]| Step { text, calls: calls.to_vec() };
    let turn =
        |language, words, steps| Turn { language, words, image: false, steer: false, compact: false, steps };
    // A summariser that repeats its whole prompt: a long message was in the goal and in the quotes.
    let echo = History {
        window: 16_000,
        smaller: None,
        behaviour: Behaviour::Echo,
        prepare: false,
        rules: 0,
        sub_rules: 0,
        turns: vec![
            turn(0, 318, vec![step(93, &[(Bash, 9), (ReadSub, 1240)]), step(262, &[(Bash, 315)])]),
            turn(2, 306, vec![step(287, &[(Read, 242)])]),
            turn(
                4,
                6,
                vec![
                    step(109, &[(ReadSub, 208), (Read, 189), (Bash, 5), (ReadSub, 105), (Bash, 37)]),
                    step(287, &[(Bash, 11), (Read, 225)]),
                    step(39, &[(Bash, 4)]),
                    step(54, &[(Read, 208), (Read, 8)]),
                    step(255, &[(Read, 20), (Read, 128)]),
                ],
            ),
        ],
    };
    for history in [echo] {
        if let Err((law, what)) = play(&history, &[]) {
            panic!("{law}: {what}");
        }
    }
}
