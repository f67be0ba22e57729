//! What adapters cost: CPU of this thread, which runs the client while the server has a thread of its own.
//!
//! The limits are loose, for debug builds on busy machines; what they guard is the growth.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failure in a helper is a failed test")]

mod common;

use becket_model::open;
use becket_testkit::{Answer, MockServer, Reply, Wire};
use becket_types::{CallId, Message, Part};
use bytes::Bytes;
use common::{context, model, model_ref, no_blobs, request, run, settings, tools, wrap};
use serde_json::json;
use std::time::{Duration, Instant};

/// Time this thread has spent on a processor.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

async fn streaming(wire: Wire, bytes: usize) -> Duration {
    let text = "some words, ".repeat(bytes / 12);
    let answer = Answer::text(text.clone()).deltas(24).usage(1, 1);
    let body = Bytes::from(answer.sse(wire));
    let server = MockServer::with(move |_| Reply::sse(body.clone()).pieces(16 * 1024));
    let model = model(&server, wire);
    let context = context(vec![Message::user("hi")]);
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let before = cpu();
        let outcome = run(model.as_ref(), &context).await;
        best = best.min(cpu().saturating_sub(before));
        assert_eq!(outcome.text().len(), text.len());
    }
    best
}

#[tokio::test]
async fn a_long_answer_costs_what_its_bytes_cost() {
    for wire in [Wire::Anthropic, Wire::Chat] {
        let small = streaming(wire, 500_000).await;
        let large = streaming(wire, 2_000_000).await;
        assert!(large < small * 8, "{wire:?}: 0.5 MB {small:?}, 2 MB {large:?}");
        assert!(large < Duration::from_secs(2), "{wire:?}: {large:?}");
    }
}

#[test]
fn a_step_costs_the_same_at_the_thousandth() {
    let (settings, _) = settings("http://127.0.0.1:9");
    let model = open(&model_ref(Wire::Anthropic), &settings).unwrap();
    let (tools, blobs) = (tools(), no_blobs());
    let mut context = context(vec![Message::user("start")]);
    let mut costs = Vec::new();
    for i in 0..1100 {
        let call = Part::tool_call(format!("c{i}"), "read", json!({"path": "a"}));
        context.messages.push(wrap(Message::assistant(vec![call])));
        context.messages.push(wrap(Message::tool_result(
            CallId(format!("c{i}")),
            "read",
            "x".repeat(2000),
            false,
        )));
        // The scheduler's figure is too coarse here; a median of wall times is not.
        let before = Instant::now();
        let prepared = model.prepare(&request(&context, &tools, &blobs)).unwrap();
        costs.push(before.elapsed());
        assert!(!prepared.is_empty());
    }
    let median = |range: std::ops::Range<usize>| {
        let mut part = costs[range].to_vec();
        part.sort();
        part[part.len() / 2]
    };
    let (early, late) = (median(50..150), median(1000..1100));
    assert!(late < early * 3 + Duration::from_micros(50), "early {early:?}, late {late:?}");
}
