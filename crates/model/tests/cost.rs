//! Costs of the adapters: a long answer must be linear in its bytes, and a late step must cost as little as an early one.
//!
//! Clocks of busy machines are coarse (some kernels account a thread's CPU in ticks), so the limits are loose, for debug
//! builds. They guard against quadratic growth: reading the whole text again at each of 83,000 deltas takes many seconds.
#![expect(clippy::unwrap_used, reason = "a failure in a helper is a failed test")]

mod common;

use becket_model::{Model, open};
use becket_testkit::{Answer, MockServer, Reply, Wire};
use becket_types::{Blobs, CallId, Context, Message, Part, ToolSpec};
use bytes::Bytes;
use common::{context, model, model_ref, no_blobs, request, run, settings, tools, wrap};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn streaming(wire: Wire, bytes: usize) -> Duration {
    let text = "some words, ".repeat(bytes / 12);
    let answer = Answer::text(text.clone()).deltas(24).usage(1, 1);
    let body = Bytes::from(answer.sse(wire));
    let server = MockServer::with(move |_| Reply::sse(body.clone()).pieces(16 * 1024));
    let model = model(&server, wire);
    let context = context(vec![Message::user("hi")]);
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let before = Instant::now();
        let outcome = run(model.as_ref(), &context).await;
        best = best.min(before.elapsed());
        assert_eq!(outcome.text().len(), text.len());
    }
    best
}

#[tokio::test]
async fn a_long_answer_costs_what_its_bytes_cost() {
    for wire in [Wire::Anthropic, Wire::Chat] {
        let small = streaming(wire, 500_000).await;
        let large = streaming(wire, 2_000_000).await;
        assert!(large < small * 8 + Duration::from_secs(1), "{wire:?}: 0.5 MB {small:?}, 2 MB {large:?}");
    }
}

/// A session that prepares its next request.
struct Steps {
    model: Arc<dyn Model>,
    tools: Vec<ToolSpec>,
    blobs: Arc<dyn Blobs>,
    context: Context,
}

impl Steps {
    fn new() -> Self {
        let (settings, _) = settings("http://127.0.0.1:9");
        Self {
            model: open(&model_ref(Wire::Anthropic), &settings).unwrap(),
            tools: tools(),
            blobs: no_blobs(),
            context: context(vec![Message::user("start")]),
        }
    }

    /// Appends a call and its result. Returns the time of preparing the request with them.
    fn step(&mut self) -> Duration {
        let id = format!("c{}", self.context.messages.len());
        let call = Part::tool_call(id.clone(), "read", json!({"path": "a"}));
        self.context.messages.push(wrap(Message::assistant(vec![call])));
        let result = Message::tool_result(CallId(id), "read", "x".repeat(2000), false);
        self.context.messages.push(wrap(result));
        let before = Instant::now();
        let prepared = self.model.prepare(&request(&self.context, &self.tools, &self.blobs)).unwrap();
        let took = before.elapsed();
        assert!(!prepared.is_empty());
        took
    }
}

#[test]
fn a_step_costs_the_same_at_the_thousandth() {
    let (mut young, mut old) = (Steps::new(), Steps::new());
    for _ in 0..50 {
        young.step();
    }
    for _ in 0..1000 {
        old.step();
    }
    // Early and late steps alternate, so that other load on the machine slows both.
    let (mut early, mut late): (Vec<_>, Vec<_>) = (0..100).map(|_| (young.step(), old.step())).unzip();
    early.sort();
    late.sort();
    let (early, late) = (early[50], late[50]);
    assert!(late < early * 3 + Duration::from_micros(100), "early {early:?}, late {late:?}");
}
