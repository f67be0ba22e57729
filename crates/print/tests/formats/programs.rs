//! Lines that programs of the codex SDK and the Claude Agent SDK rely on.

use super::{Sink, lines, print, result, started};
use becket_print::{Format, PrintOptions, Printer, Schema};
use becket_types::{CallId, Cost, Event, FinishReason, HookRun, Message, Millis, Part, TurnEnd, Usage};
use serde_json::{Value, json};
use std::sync::Arc;

fn finished(id: &str, tool: &str, output: &str, details: Value, is_error: bool) -> Event {
    let mut message = Message::tool_result(CallId::from(id), tool, output, is_error);
    for part in &mut message.parts {
        if let Part::ToolResult { details: kept, .. } = part {
            *kept = details.clone();
        }
    }
    Event::ToolFinished { message, changes: Vec::new(), duration: Millis(1), original: None }
}

fn said(parts: Vec<Part>) -> Event {
    Event::AssistantMessage {
        message: Message::assistant(parts),
        finish: FinishReason::Stop,
        usage: Usage::default(),
        cost: Cost(0.0),
        ttft: None,
        api_time: Millis(7),
    }
}

fn begun(id: &str, name: &str, input: Value) -> Event {
    Event::ToolStarted { call_id: CallId::from(id), name: name.into(), input }
}

/// `aggregated_output` is only what the command printed, and the value for a schema is no item of a tool call.
#[test]
fn items_of_codex_hold_only_what_codex_has() {
    let value = json!({ "n": 1 });
    let events = [
        started(),
        begun("c1", "bash", json!({ "command": "true" })),
        finished("c1", "bash", "(no output)", json!({ "exit_code": 0, "printed_lines": 0 }), false),
        begun("c2", "bash", json!({ "command": "echo out; exit 3" })),
        finished("c2", "bash", "out\n[exit code 3]", json!({ "exit_code": 3, "printed_lines": 1 }), true),
        begun("c3", "StructuredOutput", value.clone()),
        finished("c3", "StructuredOutput", "ok", json!({ "structured_output": value }), false),
        said(vec![Part::text("bye")]),
        Event::TurnFinished(Box::new(result(TurnEnd::Completed, "bye"))),
    ];
    let options = || PrintOptions {
        format: Format::Codex,
        driven: true,
        schema: Some(Arc::new(Schema::compile(r#"{"type":"object","required":["n"]}"#).unwrap())),
        ..PrintOptions::default()
    };
    let (out, ..) = print(options(), &events);
    let items: Vec<Value> = lines(&out)
        .into_iter()
        .filter(|line| line["type"] == "item.completed")
        .map(|line| line["item"].clone())
        .collect();
    let kinds: Vec<&str> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["command_execution", "command_execution", "agent_message"], "{items:?}");
    assert_eq!((&items[0]["aggregated_output"], &items[0]["exit_code"]), (&json!(""), &json!(0)));
    assert_eq!((&items[1]["aggregated_output"], &items[1]["exit_code"]), (&json!("out"), &json!(3)));
    assert_eq!(items[2]["text"], value.to_string());
}

/// A run of a hook is named as in Claude Code, and the hooks of a session's start are always printed.
#[test]
fn runs_of_hooks_are_named_by_event_and_tool() {
    let run = |event: &str, subject: &str| {
        Event::HookFinished(Box::new(HookRun {
            event: event.into(),
            subject: Some(subject.into()),
            hook: "echo x".into(),
            ..HookRun::default()
        }))
    };
    let events = [started(), run("SessionStart", "startup"), run("PreToolUse", "bash")];
    let options = PrintOptions { format: Format::StreamJson, ..PrintOptions::default() };
    let (out, ..) = print(options, &events);
    let names: Vec<Value> = lines(&out)
        .into_iter()
        .filter(|line| line["subtype"] == "hook_response")
        .map(|line| line["hook_name"].clone())
        .collect();
    assert_eq!(names, ["SessionStart:startup"]);
    let sink = Sink::default();
    let options = PrintOptions { format: Format::StreamJson, ..PrintOptions::default() };
    let mut printer = Printer::new(options, Box::new(sink.clone()), Box::new(std::io::sink()));
    printer.show_hooks(true);
    printer.event(&run("PreToolUse", "bash")).unwrap();
    assert!(sink.text().contains("\"hook_name\":\"PreToolUse:Bash\""), "{}", sink.text());
}

/// A program reads one `init` for each turn, even if becket asks the model again for a value that fits the schema.
#[test]
fn a_repeated_question_about_the_schema_begins_no_turn() {
    let asked =
        |text: &str| Event::UserMessage { message: Message::user(text), client_id: None, steered: false };
    let bad = || Event::TurnFinished(Box::new(result(TurnEnd::Completed, "no json")));
    let good = Event::TurnFinished(Box::new(result(TurnEnd::Completed, r#"{"n":1}"#)));
    let options = PrintOptions {
        format: Format::StreamJson,
        driven: true,
        schema: Some(Arc::new(Schema::compile(r#"{"type":"object","required":["n"]}"#).unwrap())),
        ..PrintOptions::default()
    };
    let (out, ..) = print(options, &[started(), asked("go"), bad(), asked("again"), good, asked("more")]);
    let inits = lines(&out).iter().filter(|line| line["subtype"] == "init").count();
    assert_eq!(inits, 2, "{out}");
}
