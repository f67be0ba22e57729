//! Recordings of requests and answers: they play back the same without a server, in every wire format, and a request that
//! was not recorded says where it differs.
#![expect(clippy::unwrap_used, reason = "a failure in a helper is a failed test")]

mod common;

use becket_model::{ErrorKind, ModelRef, Recording, RecordingHead, Settings, Tape, open};
use becket_testkit::{Answer, MockServer, Reply};
use becket_types::{Context, Message, Part};
use common::{WIRES, context, model_ref, run, settings};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// A tape that writes into a text.
fn tape(model: &str) -> (Tape, Arc<Mutex<String>>) {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&text);
    let head = RecordingHead { model: model.to_owned(), ..RecordingHead::default() };
    let tape = Tape::new(head, move |line| {
        let mut text = sink.lock().unwrap();
        text.push_str(line);
        text.push('\n');
    });
    (tape, text)
}

fn conversation(words: &[&str]) -> Context {
    let mut messages = Vec::new();
    for (at, word) in words.iter().enumerate() {
        messages.push(Message::user(*word));
        if at + 1 < words.len() {
            messages.push(Message::assistant(vec![Part::text(format!("answer to {word}"))]));
        }
    }
    context(messages)
}

fn answers() -> Vec<Reply> {
    vec![
        Answer::text("Hello.").and_tool("c1", "read", json!({"path": "a b"})).into(),
        Reply::openai_error(400, "invalid_request_error", "bad", "no such thing"),
        Answer::new().and_reasoning("I think.", Some("sig")).and_text("Done.").into(),
    ]
}

#[tokio::test]
async fn a_recording_plays_back_the_same_without_server_and_key() {
    for wire in WIRES {
        let server = MockServer::start(answers());
        let (settings, _) = settings(&server.url());
        let reference = model_ref(wire);
        let inner = open(&reference, &settings).unwrap();
        let id = inner.info().id.clone();
        let (tape, text) = tape(&id);
        let recorded = tape.model(inner, settings.endpoint(reference.provider()));
        let requests =
            [conversation(&["one"]), conversation(&["one", "two"]), conversation(&["one", "two", "é"])];
        let mut want = Vec::new();
        for request in &requests {
            want.push(run(recorded.as_ref(), request).await);
        }
        drop(server);
        let text = text.lock().unwrap().clone();
        assert!(!text.contains("sk-secret-key"), "{wire:?}");
        // A recording stores each body once.
        assert_eq!(text.matches("You are a test.").count(), 1, "{wire:?}");

        let recording = Recording::parse(&text).unwrap();
        assert_eq!(recording.models().collect::<Vec<_>>(), [id.as_str()]);
        let replay = recording.model(&id, &Settings::default()).unwrap();
        assert_eq!(replay.info(), recorded.info());
        for (request, want) in requests.iter().zip(want) {
            let got = run(replay.as_ref(), request).await;
            assert_eq!((got.events, got.error), (want.events, want.error), "{wire:?}");
        }
        let end = run(replay.as_ref(), &requests[0]).await.error.unwrap();
        assert_eq!(end.kind, ErrorKind::Script, "{wire:?}");
        assert!(end.message.contains("no more requests"), "{}", end.message);
    }
}

#[tokio::test]
async fn a_request_that_was_not_recorded_says_where_it_differs() {
    let server = MockServer::start(answers());
    let (settings, _) = settings(&server.url());
    let reference = ModelRef::anthropic("claude-sonnet-4-5".into());
    let inner = open(&reference, &settings).unwrap();
    let (tape, text) = tape(&inner.info().id);
    let recorded = tape.model(inner, settings.endpoint("anthropic"));
    run(recorded.as_ref(), &conversation(&["list the files"])).await;
    let recording = Recording::parse(&text.lock().unwrap()).unwrap();
    let replay = recording.model("anthropic/claude-sonnet-4-5", &Settings::default()).unwrap();
    let error = run(replay.as_ref(), &conversation(&["list the folders"])).await.error.unwrap();
    assert!(!error.retryable);
    let lines: Vec<&str> = error.message.lines().collect();
    assert_eq!(lines[0], "Request 1 of the recording differs at messages[0].content[0].text.");
    assert_eq!(lines[1..], ["recorded: list the files", "now:      list the folders"]);
    // The refused request did not use up the recorded answer.
    assert_eq!(run(replay.as_ref(), &conversation(&["list the files"])).await.text(), "Hello.");
    assert!(recording.model("anthropic/other", &Settings::default()).is_err());
}

/// Requests that were open at the same time get their own answers, in whatever order they come.
#[tokio::test]
async fn parallel_requests_are_told_apart() {
    let server = MockServer::with(|request| {
        let word = if request.text().contains("first") { "one" } else { "two" };
        Answer::text(word).into()
    });
    let (settings, _) = settings(&server.url());
    let reference = ModelRef::openai("org/model-x".into());
    let inner = open(&reference, &settings).unwrap();
    let (tape, text) = tape(&inner.info().id);
    let recorded = tape.model(inner, settings.endpoint("openai"));
    let (first, second) = (conversation(&["first"]), conversation(&["second"]));
    let (a, b) = tokio::join!(run(recorded.as_ref(), &first), run(recorded.as_ref(), &second));
    assert_eq!((a.text(), b.text()), ("one".to_owned(), "two".to_owned()));
    let recording = Recording::parse(&text.lock().unwrap()).unwrap();
    let replay = recording.model("openai/org/model-x", &Settings::default()).unwrap();
    for (request, want) in [(&second, "two"), (&first, "one")] {
        assert_eq!(run(replay.as_ref(), request).await.text(), want);
    }
}
