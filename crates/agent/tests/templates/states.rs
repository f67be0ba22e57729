//! The states that a session can be in, by name, and that every template accepts the request of each.

use crate::ledgers::{Op, World};
use crate::{Wires, is_answered, sent, wrap};
use becket_types::Message;

/// Kinds of parts, by the numbers of [`Op`].
const TEXT: u8 = 0;
const SIGNED: u8 = 1;
const CALL: u8 = 5;
/// Finish reasons, by the numbers of [`Op`].
const STOP: u8 = 0;
const CALLS: u8 = 1;
const LENGTH: u8 = 2;
const INTERRUPTED: u8 = 3;
const FAILED: u8 = 4;
const NONE: u8 = 5;

fn user() -> Op {
    Op::User { text: 0, image: false, steer: false }
}

fn says(parts: &[(u8, usize)], finish: u8) -> Op {
    Op::Assistant { parts: parts.to_vec(), finish }
}

fn result() -> Op {
    Op::Result { open: true, n: 0, output: 1, error: false, image: false }
}

/// A prompt, two calls side by side, their results, and the answer.
fn turn() -> Vec<Op> {
    vec![
        user(),
        says(&[(TEXT, 0), (CALL, 0), (CALL, 1)], CALLS),
        result(),
        result(),
        says(&[(TEXT, 0)], STOP),
    ]
}

fn then(mut before: Vec<Op>, after: Vec<Op>) -> Vec<Op> {
    before.extend(after);
    before
}

fn states() -> Vec<(&'static str, Vec<Op>)> {
    let call = || says(&[(CALL, 0)], CALLS);
    let compact = |idle| Op::Compact { tail: 3, keep: 0, idle };
    vec![
        ("the first prompt", vec![user()]),
        ("an image", vec![Op::User { text: 0, image: true, steer: false }]),
        ("after an answer", then(turn(), vec![user()])),
        ("two prompts in a row", vec![user(), user()]),
        ("a call without words", vec![user(), call(), result()]),
        ("reasoning before a call", vec![user(), says(&[(SIGNED, 0), (CALL, 0)], CALLS), result()]),
        ("another model's reasoning", vec![user(), says(&[(SIGNED, 1), (TEXT, 0)], STOP), user()]),
        (
            "parallel calls",
            vec![user(), says(&[(CALL, 0), (CALL, 1), (CALL, 2)], CALLS), result(), result(), result()],
        ),
        ("one of two results", vec![user(), says(&[(CALL, 0), (CALL, 1)], CALLS), result()]),
        ("no result yet", vec![user(), call()]),
        (
            "a result that is an error",
            vec![user(), call(), Op::Result { open: true, n: 0, output: 0, error: true, image: false }],
        ),
        (
            "a result with an image",
            vec![user(), call(), Op::Result { open: true, n: 0, output: 1, error: false, image: true }],
        ),
        ("a result of no call", vec![user(), Op::OddResult { n: 0 }]),
        (
            "a prompt while tools run",
            vec![user(), call(), Op::User { text: 0, image: false, steer: true }, result()],
        ),
        ("an empty answer", vec![user(), says(&[], STOP), user()]),
        ("an answer that was cut", vec![user(), says(&[(TEXT, 0)], LENGTH), user()]),
        ("an answer that was interrupted", vec![user(), says(&[(TEXT, 0)], INTERRUPTED), user()]),
        (
            "calls that were interrupted",
            vec![user(), says(&[(CALL, 0)], INTERRUPTED), Op::Boundary { kind: 4, n: 0 }, user()],
        ),
        ("an answer that failed", vec![user(), says(&[(TEXT, 0)], FAILED), user()]),
        ("an answer without an end", vec![user(), says(&[(TEXT, 0)], NONE), user()]),
        ("pruned outputs", then(turn(), vec![Op::Prune { n: 0 }, user()])),
        ("a cold cache", then(turn(), vec![Op::ColdPrune, user()])),
        ("compacted between turns", then(turn(), vec![compact(true), user()])),
        ("compacted in a turn", then(turn(), vec![user(), call(), result(), compact(false)])),
        (
            "compacted twice",
            then(turn(), then(vec![compact(true)], then(turn(), vec![compact(true), user()]))),
        ),
        (
            "compacted, all but the last message",
            then(turn(), vec![user(), Op::Compact { tail: 0, keep: 1, idle: false }]),
        ),
        ("compacted, then undone", then(turn(), vec![compact(true), Op::Revert { back: 0 }, user()])),
        (
            "a compaction with a pinned call",
            then(turn(), vec![Op::Pin { n: 0, call: true }, compact(true), user()]),
        ),
        (
            "another model",
            then(turn(), vec![Op::Scope { model: 1, images: true }, Op::Boundary { kind: 2, n: 1 }, user()]),
        ),
        (
            "a model without images",
            vec![
                Op::User { text: 0, image: true, steer: false },
                says(&[(TEXT, 0)], STOP),
                Op::Scope { model: 1, images: false },
                user(),
            ],
        ),
        ("rules that changed", then(turn(), vec![Op::Boundary { kind: 0, n: 0 }, user()])),
        ("rewound", then(turn(), vec![user(), Op::Revert { back: 0 }, user()])),
    ]
}

#[test]
fn every_template_accepts_every_state_of_a_session() {
    let wires = Wires::new();
    for (name, ops) in states() {
        let mut world = World::new();
        for op in &ops {
            world.run(op);
        }
        let mut history = sent(&mut world.view);
        if is_answered(&history) {
            wires.check(&history).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        history.messages.extend(wrap(vec![Message::user("Write the summary.")]));
        history.generation += 1;
        wires.check(&history).unwrap_or_else(|e| panic!("{name}, its summary: {e}"));
    }
}
