//! Lines of `--input-format stream-json`: one JSON object a line, user messages and control requests.

use base64::Engine as _;
use becket_types::{Command, DeliveryMode, ImageSource, Part, PromptInput};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Request that one input line makes.
#[derive(Clone, Debug, PartialEq)]
pub enum InputLine {
    Command(Command),
    /// A control request that is answered without the agent: its id and the response body.
    Answer {
        request_id: String,
        response: Value,
    },
    /// A control request the agent carries out, answered at once with success.
    Control {
        request_id: String,
        command: Command,
    },
    /// An empty line, or a kind that needs nothing done.
    Nothing,
}

/// A line that cannot be used. Says which and why; the run goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("input line {line} is not JSON: {why}")]
    NotJson { line: u64, why: String },
    #[error("input line {line}: {why}")]
    Shape { line: u64, why: String },
    #[error("input line {line} is longer than {limit} MB and was skipped")]
    TooLong { line: u64, limit: u64 },
    #[error("input line {line}: control request {subtype:?} is not supported")]
    Control { line: u64, subtype: String, request_id: String },
    #[error("input line {line}: {why}")]
    Refused { line: u64, why: String, request_id: String },
}

/// Fields of `initialize` that change what a run does, and that becket does not carry out. If they were accepted, a host
/// would rely on them: a hook that denies calls would never be asked.
const NOT_CARRIED_OUT: [(&str, &str); 6] = [
    ("hooks", "use permission rules (--allowedTools, --disallowedTools)"),
    ("sdkMcpServers", "tools of the host's process cannot be called"),
    ("systemPrompt", "use --system-prompt"),
    ("appendSystemPrompt", "use --append-system-prompt"),
    ("agents", "describe them in files in .claude/agents or .becket/agents"),
    ("jsonSchema", "use --json-schema"),
];

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    message: Option<InputMessage>,
    #[serde(default)]
    uuid: Option<String>,
    #[serde(default)]
    priority: Option<String>,
    #[serde(default)]
    request_id: Option<String>,
    #[serde(default)]
    request: Option<Value>,
}

#[derive(Deserialize)]
struct InputMessage {
    #[serde(default)]
    role: Option<String>,
    content: Value,
}

/// Reads line number `line` (from 1).
///
/// # Errors
/// When the line is not JSON or not of a known shape.
pub fn parse_line(line: u64, text: &str) -> Result<InputLine, InputError> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(InputLine::Nothing);
    }
    let shape = |why: &str| InputError::Shape { line, why: why.to_owned() };
    let value: Value =
        serde_json::from_str(text).map_err(|e| InputError::NotJson { line, why: e.to_string() })?;
    if !value.is_object() {
        return Err(shape("a line must be a JSON object"));
    }
    let parsed: Line = serde_json::from_value(value).map_err(|e| shape(&e.to_string()))?;
    match parsed.kind.as_str() {
        "user" => {
            let message = parsed.message.ok_or_else(|| shape("a user line needs a `message`"))?;
            if message.role.as_deref().is_some_and(|role| role != "user") {
                return Err(shape("the role of a user line must be \"user\""));
            }
            let parts = content_parts(&message.content).map_err(|why| shape(&why))?;
            if let Some(asked) = slash_command(&parts) {
                return asked.map(InputLine::Command).map_err(|why| shape(&why));
            }
            let mode = match parsed.priority.as_deref() {
                Some("later" | "queue") => DeliveryMode::Queue,
                _ => DeliveryMode::Steer,
            };
            Ok(InputLine::Command(Command::Prompt(PromptInput { parts, mode, client_id: parsed.uuid })))
        }
        "control_request" => control(line, parsed.request_id, parsed.request),
        "control_response" | "keep_alive" | "update_environment_variables" => Ok(InputLine::Nothing),
        other => {
            Err(shape(&format!("type {other:?} is not known; expected \"user\" or \"control_request\"")))
        }
    }
}

fn control(line: u64, id: Option<String>, request: Option<Value>) -> Result<InputLine, InputError> {
    let request_id = id.ok_or_else(|| InputError::Shape {
        line,
        why: "a control request needs a `request_id`".to_owned(),
    })?;
    // From here on the host waits for an answer.
    let shape = |why: &str| InputError::Refused { line, why: why.to_owned(), request_id: request_id.clone() };
    let request = request.ok_or_else(|| shape("a control request needs a `request`"))?;
    let field = |name: &str| request.get(name).and_then(Value::as_str).map(str::to_owned);
    let subtype = field("subtype").ok_or_else(|| shape("a control request needs a `request.subtype`"))?;
    let command = match subtype.as_str() {
        "initialize" => {
            if let Some(why) = not_carried_out(&request) {
                return Err(InputError::Refused { line, why, request_id });
            }
            let response = serde_json::json!({ "commands": [], "agents": [], "output_style": "default" });
            return Ok(InputLine::Answer { request_id, response });
        }
        "interrupt" => Command::Interrupt,
        "set_permission_mode" => {
            Command::SetMode { mode: field("mode").ok_or_else(|| shape("set_permission_mode needs `mode`"))? }
        }
        "set_model" => {
            Command::SetModel { model: field("model").ok_or_else(|| shape("set_model needs `model`"))? }
        }
        "undo" | "redo" | "rewind" | "change_context" | "plan_compaction" | "edit_compaction"
        | "undo_compaction" | "redo_compaction" | "carry_out" => {
            let mut fields = request.clone();
            fields["command"] = Value::from(subtype.as_str());
            serde_json::from_value(fields).map_err(|error| shape(&format!("{subtype}: {error}")))?
        }
        _ => return Err(InputError::Control { line, subtype, request_id }),
    };
    Ok(InputLine::Control { request_id, command })
}

/// Why an `initialize` request cannot be accepted.
fn not_carried_out(request: &Value) -> Option<String> {
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(|item| item.as_str() != Some("")),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    let given: Vec<String> = NOT_CARRIED_OUT
        .iter()
        .filter(|(field, _)| request.get(field).is_some_and(is_set))
        .map(|(field, instead)| format!("`{field}` ({instead})"))
        .collect();
    (!given.is_empty()).then(|| format!("initialize: becket does not carry out {}", given.join(", ")))
}

/// The command that a prompt asks for instead of a turn: `/compact [focus]`. `None` for everything else, which goes to the
/// model as it is, since paths begin with a slash, too.
///
/// # Errors
/// When it is a form of the command that exists in the terminal only; says what to use instead.
pub fn slash_command(parts: &[Part]) -> Option<Result<Command, String>> {
    let [Part::Text { text, .. }] = parts else { return None };
    let rest = text.trim().strip_prefix("/compact")?;
    let focus = rest.trim();
    if focus.len() == rest.len() && !rest.is_empty() {
        // Another word: `/compactness`.
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

/// Content as a string or as a list of blocks.
fn content_parts(content: &Value) -> Result<Vec<Part>, String> {
    let parts = match content {
        Value::String(text) => vec![Part::text(text.as_str())],
        Value::Array(blocks) => blocks.iter().map(block).collect::<Result<_, _>>()?,
        _ => return Err("`message.content` must be a string or a list of blocks".to_owned()),
    };
    let blank = parts.iter().all(|part| match part {
        Part::Text { text, .. } => becket_types::is_blank(text),
        _ => false,
    });
    if blank { Err("the message is empty".to_owned()) } else { Ok(parts) }
}

fn block(block: &Value) -> Result<Part, String> {
    let field = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    match block.get("type").and_then(Value::as_str) {
        Some("text") => Ok(Part::text(field(block, "text").ok_or("a text block needs `text`")?)),
        Some("image") => {
            let source = block.get("source").ok_or("an image block needs `source`")?;
            let (media_type, source) = match field(source, "type").as_deref() {
                Some("base64") => {
                    let data = field(source, "data").ok_or("a base64 image needs `data`")?;
                    base64::engine::general_purpose::STANDARD
                        .decode(&data)
                        .map_err(|e| format!("image data is not base64: {e}"))?;
                    (
                        field(source, "media_type").unwrap_or_else(|| "image/png".to_owned()),
                        ImageSource::Base64(data),
                    )
                }
                Some("url") => (
                    "image/*".to_owned(),
                    ImageSource::Url(field(source, "url").ok_or("an image url is missing")?),
                ),
                _ => return Err("an image source must be `base64` or `url`".to_owned()),
            };
            Ok(Part::Image { media_type, source, name: None, width: None, height: None, extra: Map::new() })
        }
        Some(other) => Err(format!("content blocks of type `{other}` are not supported in user messages")),
        None => Err("a content block needs a `type`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prompt(parts: Vec<Part>, mode: DeliveryMode) -> InputLine {
        InputLine::Command(Command::Prompt(PromptInput { parts, mode, client_id: None }))
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
            ("", InputLine::Nothing),
        ];
        for (line, want) in table {
            assert_eq!(parse_line(1, line), Ok(want), "{line}");
        }
    }

    #[test]
    fn initialize_accepts_nothing_that_is_not_carried_out() {
        for (fields, named) in [
            (r#""hooks":{"PreToolUse":[{"hookCallbackIds":["h"]}]}"#, Some("hooks")),
            (r#""hooks":null,"agents":{}"#, None),
            (r#""hooks":{},"sdkMcpServers":[],"systemPrompt":"""#, None),
            (r#""systemPrompt":[""],"appendSystemPrompt":null"#, None),
            (r#""systemPrompt":["Be brief."]"#, Some("systemPrompt")),
            (r#""appendSystemPrompt":"Be brief.""#, Some("appendSystemPrompt")),
            (r#""sdkMcpServers":["mine"]"#, Some("sdkMcpServers")),
            (r#""agents":{"a":{}}"#, Some("agents")),
            (r#""jsonSchema":{"type":"object"}"#, Some("jsonSchema")),
        ] {
            let line = format!(
                r#"{{"type":"control_request","request_id":"r","request":{{"subtype":"initialize",{fields}}}}}"#
            );
            match (parse_line(1, &line), named) {
                (Ok(InputLine::Answer { .. }), None) => {}
                (Err(InputError::Refused { why, request_id, .. }), Some(field)) => {
                    assert!(why.contains(&format!("`{field}`")) && request_id == "r", "{why}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn bad_lines_say_why() {
        for (line, why) in [
            ("{", "input line 7 is not JSON"),
            ("[]", "a line must be a JSON object"),
            (r#"{"type":"user"}"#, "needs a `message`"),
            (r#"{"type":"user","message":{"content":"  "}}"#, "the message is empty"),
            (r#"{"type":"user","message":{"content":[{"type":"video"}]}}"#, "`video` are not supported"),
            (r#"{"type":"user","message":{"content":[{}]}}"#, "needs a `type`"),
            (r#"{"type":"nope"}"#, "not known"),
            (
                r#"{"type":"user","message":{"content":"/compact undo"}}"#,
                "/compact undo works in the terminal only; use `becket compact --undo`",
            ),
            (r#"{"type":"control_request","request_id":"r","request":{"subtype":"fly"}}"#, "not supported"),
            (
                r#"{"type":"control_request","request_id":"r","request":{"subtype":"set_model"}}"#,
                "needs `model`",
            ),
            (r#"{"type":"control_request","request_id":"r"}"#, "needs a `request`"),
        ] {
            let error = parse_line(7, line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_answered_without_a_panic(line in ".*") {
            let _ = parse_line(1, &line);
        }
    }
}
