//! Questions of MCP servers by keystrokes: the form, the address, and keys that answer nothing.
#![expect(clippy::panic, reason = "helpers of tests")]

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::input::{Effect, Input, Reply, Request};
use becket_tui::server_question::{ServerAnswer, ServerForm, ServerQuestion};
use becket_types::PermissionRequest;
use crossterm::event::KeyCode;
use serde_json::{Value, json};
use support::{Stage, started};

fn asked(number: u64, form: ServerForm) -> Input {
    let question =
        ServerQuestion { number, server: "weather\u{1b}[31m".into(), message: "Which place?".into(), form };
    Input::Reply(Reply::ServerAsks(Box::new(question)))
}

fn stage(form: ServerForm) -> Stage {
    let mut stage = Stage::new(70, 24);
    stage.event(started());
    stage.update(asked(1, form));
    stage
}

fn form() -> ServerForm {
    ServerForm::Fields(json!({
        "type": "object",
        "properties": {
            "city": { "type": "string", "title": "City", "description": "As people say it", "minLength": 2 },
            "days": { "type": "integer", "default": 3, "maximum": 10 },
            "unit": { "type": "string", "enum": ["c", "f"], "enumNames": ["Celsius", "Fahrenheit"] },
            "rain": { "type": "boolean", "default": true },
        },
        "required": ["city"],
    }))
}

fn answer(effects: &[Effect]) -> Option<ServerAnswer> {
    effects.iter().find_map(|effect| match effect {
        Effect::Ask(Request::AnswerServer { number: 1, answer }) => Some(answer.clone()),
        _ => None,
    })
}

fn content(effects: &[Effect]) -> Value {
    match answer(effects) {
        Some(ServerAnswer::Accept(content)) => Value::Object(content),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_form_is_filled_in_checked_and_sent() {
    let mut stage = stage(form());
    let screen = stage.screen();
    for part in [
        "The MCP server weather",
        "Which place?",
        "City:",
        "As people say it",
        "days (optional): 3",
        "unit (optional): ‹ not chosen › 0 of 2",
        "rain (optional): ‹ yes ›",
        "Do not enter passwords",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    stage.read_question();
    stage.key(KeyCode::Tab);
    stage.type_text("B");
    stage.key(KeyCode::Enter);
    // The keyboard is in the field `days` now.
    stage.key(KeyCode::Backspace);
    stage.type_text("40");
    stage.key(KeyCode::Down);
    stage.key(KeyCode::Right);
    stage.key(KeyCode::Right);
    stage.key(KeyCode::Tab);
    stage.type_text(" ");
    stage.key(KeyCode::Tab);
    stage.read_question();
    // The first wrong field has the keyboard again, and nothing was sent.
    assert_eq!(answer(&stage.key(KeyCode::Enter)), None);
    let screen = stage.screen();
    assert!(screen.contains("at least 2 characters") && screen.contains("at most 10"), "{screen}");
    stage.type_text("ern");
    stage.key(KeyCode::Enter);
    stage.key(KeyCode::Backspace);
    for _ in 0..3 {
        stage.key(KeyCode::Enter);
    }
    stage.read_question();
    let effects = stage.key(KeyCode::Enter);
    assert_eq!(content(&effects), json!({ "city": "Bern", "days": 4, "unit": "f", "rain": false }));
    assert!(stage.screen().contains("Describe a task"));
}

#[test]
fn typing_never_accepts() {
    let mut stage =
        stage(ServerForm::Fields(json!({ "properties": { "a": { "type": "string", "default": "x" } } })));
    // Text that was typed before the question was read stays in the composer, whatever it says.
    let mut effects = Vec::new();
    for c in "1y".chars() {
        effects.extend(stage.update(Input::Key(support::key(c))));
    }
    effects.extend(stage.key(KeyCode::Enter));
    assert_eq!(answer(&effects), None);
    assert!(stage.screen().contains("1y"), "{}", stage.screen());
    // A key that is held down goes through the fields and stops at the answers.
    stage.read_question();
    stage.key(KeyCode::Tab);
    for _ in 0..20 {
        assert_eq!(answer(&stage.key(KeyCode::Enter)), None);
        stage.bytes();
    }
    // A paste answers nothing either, and the Enter after it sends the text.
    assert_eq!(answer(&stage.update(Input::Paste("1\n".into()))), None);
    stage.read_question();
    assert_eq!(answer(&stage.key(KeyCode::Enter)), None);
    assert!(!stage.screen().contains("1y"), "{}", stage.screen());
    stage.read_question();
    stage.key(KeyCode::Tab);
    stage.key(KeyCode::Enter);
    stage.read_question();
    assert_eq!(content(&stage.key(KeyCode::Enter)), json!({ "a": "x" }));
}

#[test]
fn it_can_be_declined_cancelled_and_withdrawn() {
    for (keys, want) in [("2", ServerAnswer::Decline), ("3", ServerAnswer::Cancel)] {
        let mut stage = stage(ServerForm::Fields(json!({})));
        let c = keys.chars().next().unwrap_or_default();
        assert_eq!(answer(&stage.answer(c)), Some(want));
    }
    let mut stage = stage(form());
    stage.read_question();
    assert_eq!(answer(&stage.key(KeyCode::Esc)), Some(ServerAnswer::Cancel));
    // Two questions: the second comes after the first. A question that its server gives up is closed.
    stage.update(asked(1, form()));
    stage.update(asked(2, ServerForm::Url("https://example.org".into())));
    assert!(stage.screen().contains("City:"));
    stage.update(Input::Reply(Reply::ServerAskOver(1)));
    assert!(stage.screen().contains("https://example.org"));
    stage.update(Input::Reply(Reply::ServerAskOver(2)));
    assert!(stage.screen().contains("no longer waits for an answer"));
}

#[test]
fn an_address_is_shown_whole_with_its_host() {
    let url = format!("https://good.org@evil.example/{}?end=here", "a".repeat(150));
    let mut stage = stage(ServerForm::Url(url.clone()));
    let screen = stage.screen();
    let joined: String = screen.split_whitespace().collect();
    assert!(joined.contains(&url) && screen.contains("The address leads to: evil.example"), "{screen}");
    let effects = stage.answer('1');
    assert_eq!(answer(&effects), Some(ServerAnswer::Accept(serde_json::Map::new())));
    assert!(effects.contains(&Effect::Copy(url)), "{effects:?}");
}

#[test]
fn a_permission_question_goes_first() {
    let mut stage = stage(form());
    stage.event(becket_types::Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: becket_types::CallId("c1".into()),
        tool: "bash".into(),
        input: json!({ "command": "rm x" }),
        access: becket_types::Access::execute("rm x"),
        reason: "it runs a command".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    })));
    assert!(stage.screen().contains("rm x") && !stage.screen().contains("City:"));
}
