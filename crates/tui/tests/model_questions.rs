//! Questions and plans of the model by keystrokes: the answers that are sent, and keys that answer nothing.
#![expect(clippy::panic, reason = "helpers of tests")]

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::input::{Effect, Input};
use becket_types::{Access, CallId, Command, Decision, Event, Message, PermissionRequest};
use crossterm::event::KeyCode;
use serde_json::{Value, json};
use support::{Stage, started};

fn request(tool: &str, input: Value) -> Event {
    Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: CallId("c1".into()),
        tool: tool.into(),
        input,
        access: Access::session(),
        reason: "the model asks you".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    }))
}

fn questions() -> Value {
    json!({"questions": [
        {"question": "Which database?\u{1b}[2J", "header": "Database", "multiSelect": false, "options": [
            {"label": "sqlite", "description": "one file"}, {"label": "postgres", "description": "a server"}]},
        {"question": "Which parts?", "header": "Parts", "multiSelect": true, "options": [
            {"label": "docs", "description": ""}, {"label": "tests", "description": ""}]},
    ]})
}

fn stage(event: Event) -> Stage {
    let mut stage = Stage::new(80, 30);
    stage.event(started());
    stage.event(event);
    stage
}

fn decision(effects: &[Effect]) -> Option<Decision> {
    effects.iter().find_map(|effect| match effect {
        Effect::Send(Command::Decide { call_id, decision }) => {
            assert_eq!(call_id, &CallId("c1".into()));
            Some(decision.clone())
        }
        _ => None,
    })
}

fn answers(effects: &[Effect]) -> Value {
    match decision(effects) {
        Some(Decision::AllowChanged { input }) => {
            assert_eq!(input["questions"], questions()["questions"]);
            input["answers"].clone()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn questions_are_shown_whole_and_answered() {
    let mut stage = stage(request("ask_user", questions()));
    let screen = stage.screen();
    for part in [
        "The model asks you",
        "Database: Which database?",
        "( ) sqlite — one file",
        "( ) postgres — a server",
        "Parts: Which parts?",
        "[ ] docs",
        "Your own answer:",
        "1 Give these answers",
        "2 Do not answer",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    stage.read_question();
    stage.key(KeyCode::Tab);
    // Enter chooses the second option, and goes on to the second question.
    stage.key(KeyCode::Down);
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("(•) postgres"), "{}", stage.screen());
    stage.key(KeyCode::Char('2'));
    stage.type_text("and more");
    assert!(
        stage.screen().contains("[x] tests") && stage.screen().contains("and more"),
        "{}",
        stage.screen()
    );
    stage.key(KeyCode::Enter);
    // The answers at the end count only after a pause.
    assert_eq!(decision(&stage.key(KeyCode::Enter)), None);
    stage.read_question();
    let effects = stage.key(KeyCode::Enter);
    let key = questions()["questions"][0]["question"].as_str().unwrap_or_default().to_owned();
    assert_eq!(answers(&effects), json!({ key: "postgres", "Which parts?": "tests, and more" }));
    assert!(!stage.screen().contains("The model asks you"), "{}", stage.screen());
}

#[test]
fn a_question_without_an_answer_is_not_sent() {
    let mut stage = stage(request("AskUserQuestion", questions()));
    stage.read_question();
    stage.key(KeyCode::Tab);
    for _ in 0..2 {
        stage.key(KeyCode::Tab);
    }
    stage.read_question();
    assert_eq!(decision(&stage.key(KeyCode::Enter)), None);
    assert!(stage.screen().contains("choose an answer, or write your own"), "{}", stage.screen());
}

#[test]
fn typing_never_answers() {
    let mut stage = stage(request("ask_user", questions()));
    // Text that was typed before the questions were read, or pasted, stays in the composer.
    let mut effects = Vec::new();
    for c in "1yes".chars() {
        effects.extend(stage.update(Input::Key(support::key(c))));
    }
    effects.extend(stage.key(KeyCode::Enter));
    effects.extend(stage.update(Input::Paste("1\n".into())));
    assert_eq!(decision(&effects), None);
    assert!(stage.screen().contains("1yes"), "{}", stage.screen());
    // A key that is held down chooses the first options, and stops at the answers.
    stage.read_question();
    stage.key(KeyCode::Tab);
    for _ in 0..20 {
        assert_eq!(decision(&stage.key(KeyCode::Enter)), None);
        stage.bytes();
    }
}

#[test]
fn questions_can_be_left_open_and_end_with_their_call() {
    let mut esc = stage(request("ask_user", questions()));
    esc.read_question();
    assert_eq!(decision(&esc.key(KeyCode::Esc)), Some(Decision::Deny { reason: None }));
    let mut second = stage(request("ask_user", questions()));
    second.read_question();
    for _ in 0..3 {
        second.key(KeyCode::Tab);
    }
    second.read_question();
    assert_eq!(decision(&second.key(KeyCode::Char('2'))), Some(Decision::Deny { reason: None }));
    let mut interrupted = stage(request("ask_user", questions()));
    interrupted.read_question();
    assert_eq!(interrupted.ctrl('c'), [Effect::Send(Command::Interrupt)]);
    let mut over = stage(request("ask_user", questions()));
    let message = Message::tool_result(CallId("c1".into()), "ask_user", "gone", true);
    over.event(Event::ToolFinished {
        message,
        changes: Vec::new(),
        duration: becket_types::Millis(1),
        original: None,
    });
    assert!(!over.screen().contains("The model asks you"), "{}", over.screen());
}

#[test]
fn a_plan_is_shown_and_agreed_to_in_a_mode() {
    let plan = json!({"plan": "# Steps\n\n1. read **all**\n2. write"});
    let open = || {
        let mut stage = stage(request("exit_plan", plan.clone()));
        let screen = stage.screen();
        for part in [
            "Carry out this plan?",
            "Steps",
            "1. read all",
            "1 Yes, and ask",
            "2 Yes, and edit",
            "3 No, continue planning",
        ] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
        stage
    };
    let agreed = open().answer('1');
    assert_eq!(decision(&agreed), Some(Decision::AllowOnce));
    assert!(!agreed.iter().any(|effect| matches!(effect, Effect::Send(Command::SetMode { .. }))));
    let sent: Vec<Command> = open()
        .answer('2')
        .into_iter()
        .filter_map(|effect| if let Effect::Send(command) = effect { Some(command) } else { None })
        .collect();
    let decide = Command::Decide { call_id: CallId("c1".into()), decision: Decision::AllowOnce };
    assert_eq!(sent, [Command::SetMode { mode: "acceptEdits".into() }, decide]);
    assert_eq!(decision(&open().answer('3')), Some(Decision::Deny { reason: None }));
    // A text that is written after the plan was read is the reason to plan on.
    let mut stage = open();
    stage.read_question();
    stage.type_text("with tests first");
    let reason = Some("with tests first".to_owned());
    assert_eq!(decision(&stage.key(KeyCode::Enter)), Some(Decision::Deny { reason }));
}

#[test]
fn the_mode_that_a_call_changed_is_shown() {
    let mut stage = stage(Event::ModeChanged { mode: "acceptEdits".into() });
    assert!(stage.screen().contains("acceptEdits"), "{}", stage.screen());
}
