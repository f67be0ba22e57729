//! Many turns against a server that fails in every way that providers do: each ends once, with an answer or a typed error, and
//! what was answered is what the server meant.
//!
//! `BECKET_TURNS=100000 cargo test -p becket-model --test long_faults -- --nocapture` runs a hundred thousand; `BECKET_SEED` gives
//! others. Waits pass at once, and a stall is noticed after milliseconds, so the clock of the test runs about ten thousand times
//! as fast as the provider's.

mod common;

use becket_model::{ErrorKind, open};
use becket_testkit::{Answer, MockServer, Reply, Wire};
use becket_types::{FinishReason, Message};
use common::{WIRES, context, model_ref, run, settings};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of turns in a usual run of the tests.
const USUAL: u64 = 150;

fn variable(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn dice(seed: u64, n: u64, what: u64) -> u64 {
    [seed, n, what].into_iter().fold(0x9e37_79b9_7f4a_7c15, |state, n| {
        let mut x = (state ^ n).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

/// The forms in which a provider fails before or in its answer.
const FAULTS: [&str; 16] = [
    "429",
    "429 retry-after",
    "429 retry-after-ms",
    "429 until a date that has passed",
    "429 until a date in an hour",
    "529",
    "503",
    "500",
    "overload in the stream",
    "overload after a call",
    "proxy",
    "cut",
    "reset",
    "stall",
    "captive portal",
    "nothing",
];

fn fault(name: &str, wire: Wire, roll: u64) -> Reply {
    let refused = |status: u16, word: &str| match wire {
        Wire::Anthropic => Reply::anthropic_error(status, word, "Please wait."),
        _ => Reply::openai_error(status, word, word, "Please wait."),
    };
    let long = || Reply::from(Answer::text("a long answer that does not come to its end").deltas(5));
    let at = (roll % 300) as usize;
    match name {
        "429" => refused(429, "rate_limit_error"),
        "429 retry-after" => refused(429, "rate_limit_error").header("retry-after", "3"),
        "429 retry-after-ms" => refused(429, "rate_limit_error").header("retry-after-ms", "1500"),
        // The clocks of provider and user differ, or one of them was set back.
        "429 until a date that has passed" => {
            refused(429, "rate_limit_error").header("retry-after", "Wed, 01 Jan 2020 00:00:00 GMT")
        }
        "429 until a date in an hour" => {
            refused(429, "rate_limit_error").header("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT")
        }
        "529" => refused(529, "overloaded_error"),
        "503" => refused(503, "server_error"),
        "500" => refused(500, "api_error"),
        // Events of AWS are binary, and its errors have a form of their own (`streams.rs`).
        "overload in the stream" | "overload after a call" if wire == Wire::Converse => {
            refused(503, "ServiceUnavailableException")
        }
        "overload in the stream" => Reply::sse(overload(wire)),
        "overload after a call" => {
            let whole = Reply::from(Answer::tool("early", "read", json!({"path": "a"}))).body_bytes(wire);
            let whole = String::from_utf8_lossy(&whole).into_owned();
            let events: Vec<&str> = whole.split_inclusive("\n\n").collect();
            let kept = 1 + at % events.len().saturating_sub(2).max(1);
            Reply::sse(events[..kept].concat() + &overload(wire))
        }
        // A proxy on the way answers in the server's place.
        "proxy" => Reply::body(502, "text/html", "<html><title>502 Bad Gateway</title></html>"),
        "cut" => long().cut_at(at),
        "reset" => long().reset_at(at),
        "stall" => long().stall_at(at),
        "captive portal" => {
            Reply::body(200, "text/html", "<html><body>Welcome to the hotel. Log in.</body></html>")
        }
        _ => Reply::nothing(),
    }
}

/// The error event with which an overloaded server breaks off its stream.
fn overload(wire: Wire) -> String {
    let error = match wire {
        Wire::Anthropic => {
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
        }
        Wire::Responses => json!({"type": "error", "code": "server_is_overloaded", "message": "Overloaded"}),
        Wire::Gemini => json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "Overloaded"}}),
        Wire::Chat | Wire::Converse => {
            json!({"error": {"message": "Overloaded", "type": "server_error", "code": 503}})
        }
    };
    format!("event: error\ndata: {error}\n\n")
}

/// Outcomes of the turns of one wire format.
#[derive(Default)]
struct Turns {
    ends: BTreeMap<String, u64>,
    retried: u64,
    actions: u64,
}

#[tokio::test]
async fn every_turn_ends_once_whatever_the_server_does() {
    let (count, seed) = (variable("BECKET_TURNS", USUAL), variable("BECKET_SEED", 1));
    // Most of the time passes in stalls, so the formats run side by side.
    let each = count.div_ceil(WIRES.len() as u64);
    let all = futures::future::join_all(WIRES.map(|wire| turns(wire, each, seed))).await;
    let mut sum = Turns::default();
    for turns in all {
        sum.retried += turns.retried;
        sum.actions += turns.actions;
        for (end, number) in turns.ends {
            *sum.ends.entry(end).or_default() += number;
        }
    }
    let Turns { ends, retried, actions } = sum;
    println!("{count} turns, {retried} retries, {actions} actions, none of them twice: {ends:?}");
    assert!(ends.get("answered").is_some_and(|answered| *answered > count / 4));
}

/// Runs turns of one wire format, one after the other.
async fn turns(wire: Wire, count: u64, seed: u64) -> Turns {
    let mut sum = Turns::default();
    let turn = Arc::new(Mutex::new((0u64, 0u64)));
    let shared = Arc::clone(&turn);
    let server = MockServer::with(move |_| {
        let (turn, attempt) = {
            let mut now = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            now.1 += 1;
            *now
        };
        // Up to seven faults in a row, more often few.
        let faults = dice(seed, turn, 1) % 8 * (dice(seed, turn, 2) % 3) / 2;
        if attempt > faults {
            // Every third turn ends with a call.
            if turn % 3 == 0 {
                return Answer::tool(&format!("call{turn}"), "read", json!({"path": format!("f{turn}")}))
                    .into();
            }
            return Answer::text(format!("the answer of turn {turn}")).into();
        }
        let roll = dice(seed, turn, 10 + attempt);
        fault(FAULTS[(roll % FAULTS.len() as u64) as usize], wire, roll / 64)
    });
    let mut settings = settings(&server.url()).0;
    settings.times.idle = Duration::from_millis(20);
    settings.times.local_first_byte = Duration::from_millis(200);
    settings.times.hint_after = Duration::from_mins(1);
    let opened = open(&model_ref(wire), &settings);
    assert!(opened.is_ok(), "{:?}", opened.as_ref().err());
    let Ok(model) = opened else { return sum };
    for n in 0..count {
        *turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = (n, 0);
        // Asserts that there is one end and nothing after it.
        let outcome = run(model.as_ref(), &context(vec![Message::user("go")])).await;
        sum.retried += outcome.retries() as u64;
        // A call that is delivered twice in one turn would run twice.
        let calls = outcome.calls();
        assert!(calls.len() <= 1, "{wire:?}, turn {n}: {calls:?}");
        match &outcome.error {
            None if n % 3 == 0 => {
                assert_eq!(outcome.finish(), Some(FinishReason::ToolCalls), "{wire:?}, turn {n}");
                assert_eq!(calls[0].2, json!({"path": format!("f{n}")}), "{wire:?}, turn {n}");
                sum.actions += 1;
                *sum.ends.entry("answered".to_owned()).or_default() += 1;
            }
            None => {
                assert!(calls.is_empty(), "{wire:?}, turn {n}: {calls:?}");
                assert_eq!(outcome.finish(), Some(FinishReason::Stop), "turn {n}");
                assert_eq!(outcome.text(), format!("the answer of turn {n}"), "turn {n}");
                *sum.ends.entry("answered".to_owned()).or_default() += 1;
            }
            Some(error) => {
                assert!(!error.message.is_empty() && error.kind != ErrorKind::Script, "turn {n}: {error:?}");
                *sum.ends.entry(format!("{:?}", error.kind)).or_default() += 1;
            }
        }
    }
    sum
}
