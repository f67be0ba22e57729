//! A server whose chat template refuses the messages, over real HTTP: one refusal for each stricter layout, no waiting,
//! and a layout that is remembered.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use becket_model::{ErrorKind, Layouts, ModelError, Settings, open};
use becket_testkit::{Answer, MockServer, Recorded, Reply, Wire};
use becket_types::{Context, Message, Part, WireLayout};
use common::{context, model_ref, run, settings};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

fn refuse(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"error": {"code": status, "message": message, "type": "server_error"}}))
}

/// A template without roles for the system and for tools.
fn users_and_assistants(request: &Recorded) -> Reply {
    let system = request.json().get("system").is_some();
    let messages = request.messages();
    if system || messages.iter().any(|m| m["role"] == "system") {
        return refuse(500, "Value is not callable: System role not supported at row 4");
    }
    let as_user = |i: usize| messages[i]["role"] == "user";
    let has_tools = request
        .messages()
        .iter()
        .any(|m| m.to_string().contains("tool_use") || m["tool_calls"] != json!(null));
    if has_tools || (0..messages.len()).any(|i| as_user(i) != (i % 2 == 0)) {
        return refuse(400, "Conversation roles must alternate user/assistant/user/assistant/...");
    }
    Answer::text("ok").into()
}

fn with_calls() -> Context {
    let result = |id: &str| Message::tool_result(id.into(), "read", "the output", false);
    context(vec![
        Message::user("go"),
        Message::assistant(vec![
            Part::tool_call("call_1", "read", json!({"path": "a"})),
            Part::tool_call("call_2", "read", json!({"path": "b"})),
        ]),
        result("call_1"),
        result("call_2"),
    ])
}

/// Prepares and sends a request as the agent does.
async fn ask(settings: &Settings, wire: Wire, context: &Context) -> Result<String, ModelError> {
    let model = open(&model_ref(wire), settings).unwrap();
    for _ in 0..9 {
        let outcome = run(model.as_ref(), context).await;
        match outcome.error {
            None => return Ok(outcome.text()),
            Some(error) if error.kind == ErrorKind::Template && error.retryable => {}
            Some(error) => return Err(error),
        }
    }
    panic!("it goes on for ever");
}

#[tokio::test]
async fn a_refused_template_is_asked_more_strictly_at_once_and_remembered() {
    for wire in [Wire::Anthropic, Wire::Chat] {
        let server = MockServer::with(users_and_assistants);
        let (mut settings, slept) = settings(&server.url());
        let saved: Arc<Mutex<BTreeMap<String, WireLayout>>> = Arc::default();
        let file = Arc::clone(&saved);
        let load = move || {
            let file = Arc::clone(&file);
            let known = file.lock().unwrap().clone();
            Layouts::new(known, move |known| file.lock().unwrap().clone_from(known))
        };
        settings.learned.layouts = load();
        assert_eq!(ask(&settings, wire, &with_calls()).await.unwrap(), "ok");
        assert!(slept.lock().unwrap().is_empty(), "nothing to wait for");
        assert_eq!(server.requests().len(), 3, "standard, without a system role, text only");
        assert_eq!(saved.lock().unwrap().values().copied().collect::<Vec<_>>(), [WireLayout::TextOnly]);
        assert!(saved.lock().unwrap().keys().all(|key| !key.contains("sk-secret-key")));
        // A later run loads the layout that was saved.
        settings.learned.layouts = load();
        assert_eq!(ask(&settings, wire, &with_calls()).await.unwrap(), "ok");
        assert_eq!(server.requests().len(), 4);
    }
}

#[tokio::test]
async fn an_error_that_no_layout_cures_ends_soon_and_changes_nothing() {
    for wire in [Wire::Anthropic, Wire::Chat] {
        let server = MockServer::with(|_| refuse(500, "jinja exception: unknown filter 'x'"));
        let (settings, slept) = settings(&server.url());
        let error = ask(&settings, wire, &with_calls()).await.unwrap_err();
        assert_eq!((error.kind, error.retryable), (ErrorKind::Template, false));
        assert!(error.hint.is_some());
        assert!(slept.lock().unwrap().is_empty());
        assert_eq!(
            server.requests().len(),
            3,
            "each layout once, but for the one that this text does not name"
        );
        let model = open(&model_ref(wire), &settings).unwrap();
        let (tools, blobs, context) = (common::tools(), common::no_blobs(), with_calls());
        let prepared = model.prepare(&common::request(&context, &tools, &blobs)).unwrap();
        assert_eq!(prepared.layout, WireLayout::Standard);
    }
}

#[tokio::test]
async fn a_server_without_jinja_is_not_asked_again() {
    let server = MockServer::with(|_| refuse(500, "tools param requires --jinja flag"));
    let (mut settings, _) = settings(&server.url());
    settings.max_attempts = 1;
    let error = ask(&settings, Wire::Chat, &with_calls()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Server);
    assert_eq!(server.requests().len(), 1);
}
