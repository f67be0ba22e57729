//! Message threads of Anthropic: what is sent in place of the whole request, and what happens when the server refuses.
#![expect(clippy::unwrap_used, reason = "a failure in here is a failed test")]

mod common;

use becket_model::{CompatChanges, Model, open};
use becket_testkit::{Answer, MockServer, Recorded, Reply, Wire};
use becket_types::{CallId, Message, Part};
use common::{context, model_ref, no_blobs, request, run, settings, tools};
use serde_json::{Value, json};
use std::sync::Arc;

fn threaded(server: &MockServer, on: bool) -> Arc<dyn Model> {
    let mut settings = settings(&server.url()).0;
    settings.anthropic.compat = Some(CompatChanges::new(move |compat| compat.message_threads = on));
    settings.anthropic.headers = vec![("anthropic-beta".to_owned(), "mine".to_owned())];
    open(&model_ref(Wire::Anthropic), &settings).unwrap()
}

fn answer(n: usize) -> Answer {
    Answer::new().and_text(format!("I read {n}.")).and_tool(
        &format!("c{n}"),
        "read",
        json!({"path": "a ]},{"}),
    )
}

/// Plays some steps of a turn. Gives the whole body of each request; `edit` may change the conversation before a step.
async fn play(model: &Arc<dyn Model>, steps: usize, edit: impl Fn(usize, &mut Vec<Message>)) -> Vec<Value> {
    let (tools, blobs) = (tools(), no_blobs());
    let mut messages = vec![Message::user("go")];
    let mut wholes = Vec::new();
    for n in 0..steps {
        edit(n, &mut messages);
        let context = context(messages.clone());
        let prepared = model.prepare(&request(&context, &tools, &blobs)).unwrap();
        wholes.push(serde_json::from_slice(&prepared.body.concat()).unwrap());
        let outcome = run(model.as_ref(), &context).await;
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        messages.push(Message::assistant(outcome.parts()));
        messages.push(Message::tool_result(CallId(format!("c{n}")), "read", "content", false));
    }
    wholes
}

fn kinds(requests: &[Recorded]) -> Vec<String> {
    let kind = |request: &Recorded| request.json()["thread"]["type"].as_str().unwrap_or("whole").to_owned();
    requests.iter().map(kind).collect()
}

fn server(refuse: impl Fn(usize, &Value) -> Option<Reply> + Send + 'static) -> MockServer {
    let (mut asked, mut answered) = (0, 0);
    MockServer::with(move |request| {
        asked += 1;
        if let Some(refusal) = refuse(asked, &request.json()["thread"]) {
            return refusal;
        }
        answered += 1;
        answer(answered - 1).into()
    })
}

#[tokio::test]
async fn a_request_of_a_thread_has_only_what_is_new() {
    let server = server(|_, _| None);
    let wholes = play(&threaded(&server, true), 4, |_, _| {}).await;
    let requests = server.requests();
    assert_eq!(kinds(&requests), ["create", "continue", "continue", "continue"]);
    for (n, request) in requests.iter().enumerate() {
        let body = request.json();
        assert_eq!(request.header("anthropic-beta"), Some("message-threads-2026-08-12,mine"));
        let (sent, whole) = (request.messages(), wholes[n]["messages"].as_array().unwrap().clone());
        if n == 0 {
            assert_eq!(sent, whole);
            continue;
        }
        assert_eq!(body["system"], Value::Null);
        assert_eq!(body["tools"], Value::Null);
        assert_eq!(body["max_tokens"], wholes[n]["max_tokens"]);
        assert!(body["thread"]["previous_message_id"].is_string());
        // The previous conversation, which the server keeps, its answer, and the messages sent now are the whole conversation.
        let before = wholes[n - 1]["messages"].as_array().unwrap().clone();
        let of_model = whole[before.len()].clone();
        assert_eq!(of_model["role"], "assistant");
        assert_eq!([before, vec![of_model], sent].concat(), whole);
    }
}

#[tokio::test]
async fn without_the_setting_nothing_changes() {
    let server = server(|_, _| None);
    let wholes = play(&threaded(&server, false), 2, |_, _| {}).await;
    for (request, whole) in server.requests().iter().zip(wholes) {
        assert_eq!(request.json(), whole);
        assert_eq!(request.header("anthropic-beta"), Some("mine"));
    }
}

#[tokio::test]
async fn a_forgotten_thread_is_created_again() {
    let server = server(|asked, thread| {
        let forgotten = asked == 2 && thread["type"] == "continue";
        forgotten.then(|| Reply::anthropic_error(404, "not_found_error", "thread not found"))
    });
    play(&threaded(&server, true), 3, |_, _| {}).await;
    assert_eq!(kinds(&server.requests()), ["create", "continue", "create", "continue"]);
}

#[tokio::test]
async fn a_server_without_threads_gets_the_whole_request() {
    let server = server(|_, thread| {
        let unknown = !thread.is_null();
        unknown.then(|| {
            Reply::anthropic_error(400, "invalid_request_error", "thread: Extra inputs are not permitted")
        })
    });
    let wholes = play(&threaded(&server, true), 3, |_, _| {}).await;
    let requests = server.requests();
    assert_eq!(kinds(&requests), ["create", "whole", "whole", "whole"]);
    for (request, whole) in requests[1..].iter().zip(wholes) {
        assert_eq!(request.json(), whole);
    }
}

#[tokio::test]
async fn a_changed_conversation_begins_a_thread_of_its_own() {
    for case in ["answer", "start", "two answers"] {
        let server = server(|_, _| None);
        play(&threaded(&server, true), 2, |n, messages| {
            if n == 0 {
                return;
            }
            match case {
                "answer" => {
                    messages[1] = Message::assistant(vec![
                        Part::text("Changed."),
                        Part::tool_call("c0", "read", json!({})),
                    ]);
                }
                "start" => messages[0] = Message::user("another"),
                _ => messages.extend([Message::assistant(vec![Part::text("Second.")]), Message::user("and")]),
            }
        })
        .await;
        assert_eq!(kinds(&server.requests()), ["create", "create"], "{case}");
    }
}
