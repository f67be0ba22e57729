//! Lines of `--input-format stream-json`: one JSON object a line, user messages and control requests.

mod blocks;

use becket_types::{Command, DeliveryMode, Part, PromptInput};
use blocks::{content_parts, pasted_text};
use serde::Deserialize;
use serde_json::Value;

/// The meaning of one input line.
#[derive(Clone, Debug, PartialEq)]
pub enum InputLine {
    Command(Command),
    /// A message that a program has put together (`client_composed`). It is sent unchanged: nothing in it counts as a command or as
    /// the name of something to attach.
    Composed(PromptInput),
    /// A message that starts no turn (`shouldQuery: false`). It is sent to the model together with the next message.
    Context(PromptInput),
    /// A control request that the crate `becket` answers, not the agent: its id, its kind and the whole request.
    Request {
        request_id: String,
        subtype: String,
        body: Value,
    },
    /// The answer of the program to a control request that becket has sent.
    Response {
        request_id: String,
        outcome: Result<Value, String>,
    },
    /// A control request of the program that no longer needs an answer.
    Cancel {
        request_id: String,
    },
    /// A control request that the agent carries out. It is answered with success at once.
    Control {
        request_id: String,
        command: Command,
    },
    /// A message without text. It starts no turn, but its sender waits for a result: programs send one to open a session
    /// whose files they rewind.
    Blank(PromptInput),
    /// An empty line, or a line of a kind that has no effect.
    Nothing,
}

/// An input line that cannot be used, with the reason. The run continues.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("input line {line} is not JSON: {why}")]
    NotJson { line: u64, why: String },
    #[error("input line {line}: {why}")]
    Shape { line: u64, why: String },
    #[error("input line {line} is longer than {limit} MB and was skipped")]
    TooLong { line: u64, limit: u64 },
    /// A message that cannot be used and starts no turn. Its sender still waits for a result, which names `client_id`, the sender's
    /// id of the message.
    #[error("input line {line}: {why}")]
    Message { line: u64, why: String, client_id: Option<String> },
    #[error("input line {line}: {why}")]
    Refused { line: u64, why: String, request_id: String },
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    message: Option<InputMessage>,
    #[serde(default)]
    uuid: Option<String>,
    #[serde(default)]
    client_composed: bool,
    #[serde(default)]
    priority: Option<String>,
    #[serde(default, rename = "shouldQuery")]
    should_query: Option<bool>,
    /// A list of the texts that were pasted into the message. Each is a string or a list of blocks.
    #[serde(default)]
    pasted_content: Option<Value>,
    #[serde(default)]
    request_id: Option<String>,
    #[serde(default)]
    request: Option<Value>,
    #[serde(default)]
    response: Option<Value>,
}

#[derive(Deserialize)]
struct InputMessage {
    #[serde(default)]
    role: Option<String>,
    content: Value,
}

/// Parses line number `line` (from 1). `mode`: the delivery of messages that name no priority.
///
/// # Errors
///
/// Fails if the line is not JSON or has no known shape.
pub fn parse_line(line: u64, text: &str, mode: DeliveryMode) -> Result<InputLine, InputError> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(InputLine::Nothing);
    }
    let shape = |why: &str| InputError::Shape { line, why: why.to_owned() };
    let value: Value =
        becket_types::parse_json(text).map_err(|e| InputError::NotJson { line, why: e.to_string() })?;
    if !value.is_object() {
        return Err(shape("a line must be a JSON object"));
    }
    let parsed: Line = serde_json::from_value(value).map_err(|e| shape(&e.to_string()))?;
    match parsed.kind.as_str() {
        "user" => {
            let client_id = parsed.uuid.clone();
            user(parsed, mode).map_err(|why| InputError::Message { line, why, client_id })
        }
        "control_request" => control(line, parsed.request_id, parsed.request),
        "control_response" => {
            response(parsed.response).ok_or_else(|| shape("a control response needs `response.request_id`"))
        }
        "control_cancel_request" => {
            let request_id = parsed.request_id.ok_or_else(|| shape("a cancellation needs `request_id`"))?;
            Ok(InputLine::Cancel { request_id })
        }
        "keep_alive" | "update_environment_variables" => Ok(InputLine::Nothing),
        other => {
            Err(shape(&format!("type {other:?} is not known; expected \"user\" or \"control_request\"")))
        }
    }
}

fn user(parsed: Line, mode: DeliveryMode) -> Result<InputLine, String> {
    let message = parsed.message.ok_or("a user line needs a `message`")?;
    if message.role.as_deref().is_some_and(|role| role != "user") {
        return Err("the role of a user line must be \"user\"".to_owned());
    }
    let mut parts = content_parts(&message.content)?;
    if let Some(pasted) = parsed.pasted_content.as_ref().and_then(pasted_text) {
        match &mut parts[..] {
            // A message that is a command has exactly one text, so the pasted texts are added to it.
            [Part::Text { text, .. }] => {
                let whole = format!("{text}\n\n{pasted}");
                whole.trim_start().clone_into(text);
            }
            _ => parts.push(Part::text(pasted)),
        }
    }
    let is_blank = parts.iter().all(|part| match part {
        Part::Text { text, .. } => becket_types::is_blank(text),
        _ => false,
    });
    if is_blank {
        return Ok(InputLine::Blank(PromptInput { client_id: parsed.uuid, ..PromptInput::default() }));
    }
    if parsed.should_query == Some(false) {
        let client_id = parsed.uuid;
        return Ok(InputLine::Context(PromptInput { parts, client_id, ..PromptInput::default() }));
    }
    if let Some(asked) = slash_command(&parts).filter(|_| !parsed.client_composed) {
        return asked.map(InputLine::Command);
    }
    let mode = match parsed.priority.as_deref() {
        Some("later" | "queue") => DeliveryMode::Queue,
        Some("now" | "next") => DeliveryMode::Join,
        _ => mode,
    };
    let prompt = PromptInput { parts, mode, client_id: parsed.uuid, ..PromptInput::default() };
    Ok(if parsed.client_composed {
        InputLine::Composed(prompt)
    } else {
        InputLine::Command(Command::Prompt(prompt))
    })
}

fn response(response: Option<Value>) -> Option<InputLine> {
    let response = response?;
    let request_id = response.get("request_id")?.as_str()?.to_owned();
    let outcome = match response.get("subtype").and_then(Value::as_str) {
        Some("error") => {
            Err(response.get("error").and_then(Value::as_str).unwrap_or("no reason was given").to_owned())
        }
        _ => Ok(response.get("response").cloned().unwrap_or(Value::Null)),
    };
    Some(InputLine::Response { request_id, outcome })
}

fn control(line: u64, id: Option<String>, request: Option<Value>) -> Result<InputLine, InputError> {
    let request_id = id.ok_or_else(|| InputError::Shape {
        line,
        why: "a control request needs a `request_id`".to_owned(),
    })?;
    // The request has an id from here on, so an error is the answer to it.
    let shape = |why: &str| InputError::Refused { line, why: why.to_owned(), request_id: request_id.clone() };
    let request = request.ok_or_else(|| shape("a control request needs a `request`"))?;
    let field = |name: &str| request.get(name).and_then(Value::as_str).map(str::to_owned);
    let subtype = field("subtype").ok_or_else(|| shape("a control request needs a `request.subtype`"))?;
    let command = match subtype.as_str() {
        // With `cancel_queued`, the binary handles the interrupt: only it knows the prompts that wait for a server.
        "interrupt" if request.get("cancel_queued").and_then(Value::as_bool) != Some(true) => {
            Command::Interrupt
        }
        "set_permission_mode" => {
            Command::SetMode { mode: field("mode").ok_or_else(|| shape("set_permission_mode needs `mode`"))? }
        }
        // Without a name, or with `default`, the session's first model is meant, which only the binary knows.
        "set_model" if field("model").is_some_and(|model| model != "default") => {
            Command::SetModel { model: field("model").unwrap_or_default() }
        }
        "add_directory" | "register_repo_root" => {
            let path = field("path").or_else(|| field("directory"));
            let path = path.ok_or_else(|| shape(&format!("{subtype} needs `path` or `directory`")))?;
            Command::AddDirectory { path: Some(path.into()) }
        }
        "undo" | "redo" | "rewind" | "change_context" | "plan_compaction" | "edit_compaction"
        | "undo_compaction" | "redo_compaction" | "carry_out" => {
            let mut fields = request.clone();
            fields["command"] = Value::from(subtype.as_str());
            serde_json::from_value(fields).map_err(|error| shape(&format!("{subtype}: {error}")))?
        }
        _ => return Ok(InputLine::Request { request_id, subtype, body: request }),
    };
    Ok(InputLine::Control { request_id, command })
}

/// Returns the command if a prompt is `/compact [focus]`. `None` for everything else, which is sent to the model
/// unchanged, since paths begin with a slash too.
///
/// # Errors
///
/// Returns an explanation if this form of the command exists only in the terminal.
pub fn slash_command(parts: &[Part]) -> Option<Result<Command, String>> {
    let [Part::Text { text, .. }] = parts else { return None };
    let rest = text.trim().strip_prefix("/compact")?;
    let focus = rest.trim();
    if focus.len() == rest.len() && !rest.is_empty() {
        // Another word that begins with the command, such as `/compactness`.
        return None;
    }
    let first = focus.split(char::is_whitespace).next().unwrap_or_default();
    Some(match first {
        "preview" | "undo" | "redo" => Err(format!(
            "/compact {first} works in the terminal only; use `becket compact --{first}`, or a control request"
        )),
        _ => Ok(Command::Compact { focus: Some(focus.to_owned()).filter(|focus| !focus.is_empty()) }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn prompt(parts: Vec<Part>, mode: DeliveryMode) -> InputLine {
        InputLine::Command(Command::Prompt(PromptInput { parts, mode, ..PromptInput::default() }))
    }

    #[test]
    fn lines_become_commands() {
        let table = [
            (
                r#"{"type":"user","message":{"role":"user","content":"hi"},"parent_tool_use_id":null}"#,
                prompt(vec![Part::text("hi")], DeliveryMode::Steer),
            ),
            (
                r#"{"type":"user","message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"priority":"later"}"#,
                prompt(vec![Part::text("a"), Part::text("b")], DeliveryMode::Queue),
            ),
            (
                r#"{"type":"control_request","request_id":"r1","request":{"subtype":"interrupt"}}"#,
                InputLine::Control { request_id: "r1".into(), command: Command::Interrupt },
            ),
            (
                r#"{"type":"control_request","request_id":"r2","request":{"subtype":"plan_compaction"}}"#,
                InputLine::Control {
                    request_id: "r2".into(),
                    command: Command::PlanCompaction { focus: None },
                },
            ),
            (
                r#"{"type":"user","message":{"content":"/compact the port"}}"#,
                InputLine::Command(Command::Compact { focus: Some("the port".into()) }),
            ),
            (
                r#"{"type":"user","message":{"content":[{"type":"text","text":" /compact \n"}]}}"#,
                InputLine::Command(Command::Compact { focus: None }),
            ),
            (
                r#"{"type":"user","message":{"content":"/compactness is a virtue"}}"#,
                prompt(vec![Part::text("/compactness is a virtue")], DeliveryMode::Steer),
            ),
            (
                r#"{"type":"user","message":{"content":"/usr/bin is full"}}"#,
                prompt(vec![Part::text("/usr/bin is full")], DeliveryMode::Steer),
            ),
            (
                r#"{"type":"user","client_composed":true,"message":{"content":"/compact the port"}}"#,
                InputLine::Composed(PromptInput {
                    parts: vec![Part::text("/compact the port")],
                    ..PromptInput::default()
                }),
            ),
            (
                r#"{"type":"user","message":{"content":"look at"},"pasted_content":["one",[{"type":"text","text":"two"},{"type":"image"}]]}"#,
                prompt(
                    vec![Part::text(
                        "look at\n\n<pasted_content>\none\n</pasted_content>\n\n<pasted_content>\ntwo\n</pasted_content>",
                    )],
                    DeliveryMode::Steer,
                ),
            ),
            (
                r#"{"type":"user","message":{"content":""},"pasted_content":["one"]}"#,
                prompt(vec![Part::text("<pasted_content>\none\n</pasted_content>")], DeliveryMode::Steer),
            ),
            (
                r#"{"type":"user","uuid":"u","message":{"content":"by the way"},"shouldQuery":false}"#,
                InputLine::Context(PromptInput {
                    parts: vec![Part::text("by the way")],
                    client_id: Some("u".into()),
                    ..PromptInput::default()
                }),
            ),
            ("", InputLine::Nothing),
            (r#"{"type":"user","message":{"content":"  "}}"#, InputLine::Blank(PromptInput::default())),
            (
                r#"{"type":"user","uuid":"u","message":{"content":[]}}"#,
                InputLine::Blank(PromptInput { client_id: Some("u".into()), ..PromptInput::default() }),
            ),
        ];
        for (line, want) in table {
            assert_eq!(parse_line(1, line, DeliveryMode::Steer), Ok(want), "{line}");
        }
    }

    #[test]
    fn a_priority_decides_the_delivery() {
        for (priority, delivered) in [
            (json!("later"), [DeliveryMode::Queue; 2]),
            (json!("next"), [DeliveryMode::Join; 2]),
            (json!("now"), [DeliveryMode::Join; 2]),
            (json!(null), [DeliveryMode::Steer, DeliveryMode::Queue]),
            (json!("of later"), [DeliveryMode::Steer, DeliveryMode::Queue]),
        ] {
            let line = json!({ "type": "user", "message": { "content": "a" }, "priority": priority });
            for (unnamed, mode) in [DeliveryMode::Steer, DeliveryMode::Queue].into_iter().zip(delivered) {
                let want = prompt(vec![Part::text("a")], mode);
                assert_eq!(parse_line(1, &line.to_string(), unnamed), Ok(want), "{line}");
            }
        }
    }

    #[test]
    fn requests_and_responses_are_told_apart() {
        let line = |text: &str| parse_line(1, text, DeliveryMode::Steer).unwrap();
        assert_eq!(
            line(
                r#"{"type":"control_request","request_id":"r","request":{"subtype":"initialize","hooks":null}}"#
            ),
            InputLine::Request {
                request_id: "r".into(),
                subtype: "initialize".into(),
                body: json!({"subtype": "initialize", "hooks": null}),
            }
        );
        assert!(matches!(
            line(
                r#"{"type":"control_request","request_id":"r","request":{"subtype":"set_model","model":null}}"#
            ),
            InputLine::Request { .. }
        ));
        assert_eq!(
            line(
                r#"{"type":"control_response","response":{"subtype":"success","request_id":"q","response":{"a":1}}}"#
            ),
            InputLine::Response { request_id: "q".into(), outcome: Ok(json!({"a": 1})) }
        );
        assert_eq!(
            line(
                r#"{"type":"control_response","response":{"subtype":"error","request_id":"q","error":"no"}}"#
            ),
            InputLine::Response { request_id: "q".into(), outcome: Err("no".into()) }
        );
        assert_eq!(
            line(r#"{"type":"control_cancel_request","request_id":"q"}"#),
            InputLine::Cancel { request_id: "q".into() }
        );
    }

    #[test]
    fn bad_lines_say_why() {
        for (line, why) in [
            ("{", "input line 7 is not JSON"),
            ("[]", "a line must be a JSON object"),
            (r#"{"type":"user"}"#, "needs a `message`"),
            (r#"{"type":"user","message":{"content":[{"type":"video"}]}}"#, "`video` are not supported"),
            (r#"{"type":"user","message":{"content":[{}]}}"#, "needs a `type`"),
            (r#"{"type":"nope"}"#, "not known"),
            (
                r#"{"type":"user","message":{"content":"/compact undo"}}"#,
                "/compact undo works in the terminal only; use `becket compact --undo`",
            ),
            (
                r#"{"type":"control_request","request_id":"r","request":{"subtype":"set_permission_mode"}}"#,
                "needs `mode`",
            ),
            (r#"{"type":"control_response"}"#, "needs `response.request_id`"),
            (r#"{"type":"control_request","request_id":"r"}"#, "needs a `request`"),
        ] {
            let error = parse_line(7, line, DeliveryMode::Steer).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    /// Programs in JavaScript cut texts in the middle of a character. Neither a message nor an answer that somebody waits for may
    /// be lost for it.
    #[test]
    fn half_a_character_and_a_mark_cost_no_line() {
        let line = |text: &str| parse_line(1, text, DeliveryMode::Steer).unwrap();
        assert_eq!(
            line("\u{feff}{\"type\":\"user\",\"message\":{\"content\":\"cut \\ud83d\"}}"),
            prompt(vec![Part::text("cut \u{fffd}")], DeliveryMode::Steer)
        );
        assert_eq!(
            line(
                r#"{"type":"control_response","response":{"subtype":"success","request_id":"q","response":{"behavior":"deny","message":"no \ud83d"}}}"#
            ),
            InputLine::Response {
                request_id: "q".into(),
                outcome: Ok(json!({ "behavior": "deny", "message": "no \u{fffd}" })),
            }
        );
    }

    proptest! {
        #[test]
        fn any_line_is_answered_without_a_panic(line in ".*") {
            let _ = parse_line(1, &line, DeliveryMode::Steer);
        }
    }
}
