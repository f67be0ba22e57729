//! The scripted model.
#![expect(clippy::unwrap_used, reason = "a failure in a helper is a failed test")]

mod common;

use becket_model::{ErrorKind, Model, ScriptedModel, Settings, Sleeper};
use becket_types::{Context, FinishReason, Message, Usage};
use common::{context, run, wrap};
use serde_json::json;

fn script(value: &serde_json::Value) -> ScriptedModel {
    ScriptedModel::parse(&value.to_string(), "test").unwrap()
}

fn hello() -> Context {
    context(vec![Message::user("hello there")])
}

#[tokio::test]
async fn steps_answer_in_order_and_are_used_up() {
    let model = script(&json!({"window": 16000, "steps": [
        {"reasoning": "hm", "text": "I look.", "calls": [{"name": "read", "input": {"path": "a{n}"}}]},
        {"text": "again {n}", "repeat": 2},
    ]}));
    assert_eq!(model.info().window, 16_000);
    let first = run(&model, &hello()).await;
    assert_eq!(first.calls(), [("call_1_0".into(), "read".into(), json!({"path": "a1"}))]);
    assert_eq!(first.finish(), Some(FinishReason::ToolCalls));
    assert!(first.usage().unwrap().input > 0);
    assert_eq!(run(&model, &hello()).await.text(), "again 1");
    assert_eq!(run(&model, &hello()).await.text(), "again 2");
    let error = run(&model, &hello()).await.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Script);
    assert!(error.message.contains("no more answers"));
}

/// A device or a pipe is refused before it is read, because reading it could block for ever.
#[test]
fn a_script_is_a_regular_file_of_bounded_length() {
    let dir = becket_testkit::Project::new(&[]);
    let long = dir.root().join("long");
    std::fs::File::create(&long).unwrap().set_len(1 << 34).unwrap();
    for (path, why) in
        [(std::path::Path::new("/dev/zero"), "regular file"), (dir.root(), "regular file"), (&long, "64 MB")]
    {
        let error = ScriptedModel::open(path).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Script);
        assert!(error.message.contains(why), "{}", error.message);
    }
}

#[tokio::test]
async fn loops_matchers_expectations_and_errors() {
    let model = script(&json!({"loop": true, "steps": [
        {"when": {"contains": ["magic"]}, "text": "found", "repeat": 9},
        {"text": "plain"},
    ]}));
    assert_eq!(run(&model, &hello()).await.text(), "plain");
    assert_eq!(run(&model, &hello()).await.text(), "plain");
    assert_eq!(run(&model, &context(vec![Message::user("a magic word")])).await.text(), "found");

    let model = script(&json!({"steps": [{"expect": {"contains": ["bye"]}, "text": "x"}]}));
    let error = run(&model, &hello()).await.error.unwrap();
    assert!(error.message.contains("Step 1") && error.message.contains("`bye`"), "{}", error.message);

    let model = script(&json!({"steps": [
        {"error": {"kind": "overloaded", "message": "busy", "status": 529}},
        {"text": "partial", "error": {"kind": "stream_broken", "message": "cut"}},
        {"usage": {"input": 7, "output": 3}, "text": "ok", "finish": "length"},
    ]}));
    assert_eq!(run(&model, &hello()).await.error.unwrap().kind, ErrorKind::Overloaded);
    let broken = run(&model, &hello()).await;
    assert_eq!((broken.text().as_str(), broken.error.unwrap().kind), ("partial", ErrorKind::StreamBroken));
    let last = run(&model, &hello()).await;
    assert_eq!(last.usage(), Some(Usage { input: 7, output: 3, ..Usage::default() }));
    assert_eq!(last.finish(), Some(FinishReason::Length));
}

/// A script is retried like a server, and each retry is a request that takes the next step.
#[tokio::test]
async fn failures_are_retried_like_those_of_a_server() {
    let sleeper = Sleeper::new(|_| Box::pin(std::future::ready(())));
    let settings = Settings { sleeper, ..Settings::default() };
    let of = |steps: &serde_json::Value| script(&json!({ "steps": steps })).with_retries(&settings);
    for kind in ["rate_limit", "overloaded", "server", "network", "timeout", "stalled", "malformed"] {
        let failing = json!({ "error": { "kind": kind, "message": "no", "retry_after_ms": 100 } });
        let model = of(&json!([failing, { "text": "ok after" }]));
        let ran = run(&model, &hello()).await;
        assert_eq!((ran.text().as_str(), ran.error), ("ok after", None), "{kind}");
    }
    // A failure that no retry cures is final, and so is one after the answer has begun.
    for (step, text) in [
        (json!({ "error": { "kind": "auth", "message": "no" } }), ""),
        (json!({ "text": "part", "error": { "kind": "stream_broken", "message": "cut" } }), "part"),
        (json!({ "error": { "kind": "rate_limit", "message": "no", "retry_after_ms": 3_600_000 } }), ""),
    ] {
        let model = of(&json!([step, { "text": "ok after" }]));
        let ran = run(&model, &hello()).await;
        assert!(ran.error.is_some() && ran.text() == text, "{step}");
    }
    // A failure that never ends is reported after a limited number of attempts.
    let model = of(&json!([{ "error": { "kind": "server", "message": "no" }, "repeat": 99 }]));
    assert!(run(&model, &hello()).await.error.is_some());
}

#[tokio::test]
async fn requests_for_a_summary_do_not_move_the_cursor() {
    let model =
        script(&json!({"summary": "## Goal\nAll of it.", "steps": [{"text": "one"}, {"text": "two"}]}));
    assert_eq!(run(&model, &hello()).await.text(), "one");
    let ask = context(vec![Message::user("Fill in: ## Goal … ## Next steps … ## Relevant files")]);
    assert_eq!(run(&model, &ask).await.text(), "## Goal\nAll of it.");
    assert_eq!(run(&model, &hello()).await.text(), "two");
}

#[tokio::test]
async fn the_window_fills_as_the_conversation_grows() {
    let model = script(&json!({"loop": true, "steps": [{"text": "ok"}]}));
    let mut context = hello();
    let mut last = 0;
    for _ in 0..5 {
        let usage = run(&model, &context).await.usage().unwrap();
        assert!(usage.context().0 > last);
        last = usage.context().0;
        context.messages.push(wrap(Message::assistant(vec![becket_types::Part::text("x".repeat(400))])));
        context.messages.push(wrap(Message::user("more")));
    }
}

#[test]
fn a_wrong_script_says_where() {
    for (text, words) in [
        ("{\"steps\":[{\"txt\":\"x\"}]}", "txt"),
        ("{}", "steps"),
        ("{\"steps\":[", "line 1"),
        ("{\"steps\":[{\"error\":{\"kind\":\"sad\",\"message\":\"\"}}]}", "sad"),
    ] {
        let error = ScriptedModel::parse(text, "s.json").err().unwrap();
        assert_eq!(error.kind, ErrorKind::Script);
        assert!(error.message.contains(words), "{}", error.message);
    }
    assert_eq!(
        ScriptedModel::open(std::path::Path::new("/no/such.json")).err().unwrap().kind,
        ErrorKind::Script
    );
}
