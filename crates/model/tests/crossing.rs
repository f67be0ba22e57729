//! A history that one provider made, sent to each other one: what is signed stays with its maker, all else arrives.
#![expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod common;

use becket_testkit::Wire;
use becket_types::{BlobId, Blobs, CallId, ImageSource, Message, Part};
use common::adapters::{ADAPTERS, Adapter, everywhere};
use common::{MemoryBlobs, context, request, tools};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Secrets of the maker that no other provider may get, and that its own gets byte for byte.
const SIGNATURE: &str = "c2lnbmVkIHRob3VnaHQ+/+==";
const REDACTED: &str = "cmVkYWN0ZWQ=";

fn image(id: &str) -> Part {
    Part::Image {
        media_type: "image/png".into(),
        source: ImageSource::Blob(BlobId(id.into())),
        name: Some("shot.png".into()),
        width: None,
        height: None,
        extra: Map::new(),
    }
}

/// A png of one pixel.
fn pixel() -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgb8(1, 1)
        .write_to(&mut bytes, image::ImageFormat::Png)
        .expect("a PNG in memory");
    bytes.into_inner()
}

fn reasoning(by: Adapter, text: &str, signature: Option<&str>, redacted: Option<&str>) -> Part {
    let (provider, model) = (by.provider.to_owned(), by.model.to_owned());
    Part::Reasoning {
        text: text.into(),
        signature: signature.map(str::to_owned),
        redacted: redacted.map(str::to_owned),
        provider,
        model,
        spill: None,
        extra: Map::new(),
    }
}

fn call(by: Adapter, id: &str, name: &str) -> Part {
    let (provider, model) = (by.provider.to_owned(), by.model.to_owned());
    let mut extra = Map::new();
    if by.wire == Wire::Gemini {
        extra.insert("thought_signature".into(), json!(SIGNATURE));
        extra.insert("thought_signer".into(), json!(format!("{provider}/{model}")));
    }
    Part::ToolCall {
        call_id: CallId(id.into()),
        name: name.into(),
        input: json!({"path": "a"}),
        invalid: None,
        extra,
    }
}

fn result(id: &str, name: &str, output: &str, parts: Vec<Part>) -> Message {
    let mut message = Message::tool_result(CallId(id.into()), name, output, false);
    message.parts.extend(parts);
    message
}

/// Call ids as the maker writes them, and two that nearly nobody else takes.
fn ids(by: Wire) -> [String; 2] {
    match by {
        Wire::Anthropic => ["toolu_01A".into(), "toolu_01B".into()],
        Wire::Chat => ["functions.read:0".into(), "functions.bash:1".into()],
        Wire::Responses => ["call_x".into(), "y".repeat(64)],
        Wire::Gemini => ["call_0123456789abcdef0123456789abcdef".into(), "ü id".into()],
        Wire::Converse => ["tooluse_kZJMlvQmRJ6eAyJE5GIl7Q".into(), "z".repeat(64)],
    }
}

/// The kinds of history that a maker leaves.
fn histories(by: Adapter) -> Vec<(&'static str, Vec<Message>)> {
    let [a, b] = ids(by.wire);
    vec![
        (
            "text",
            vec![Message::user("one"), Message::assistant(vec![Part::text("ANSWER")]), Message::user("two")],
        ),
        (
            "thinking",
            vec![
                Message::user("one"),
                Message::assistant(vec![
                    reasoning(by, "THOUGHT", Some(SIGNATURE), None),
                    Part::text("ANSWER"),
                ]),
                Message::user("two"),
            ],
        ),
        (
            "redacted",
            vec![
                Message::user("one"),
                Message::assistant(vec![reasoning(by, "", None, Some(REDACTED)), Part::text("ANSWER")]),
                Message::user("two"),
            ],
        ),
        (
            "encrypted reasoning alone before a call",
            vec![
                Message::user("one"),
                Message::assistant(vec![reasoning(by, "", Some(SIGNATURE), None), call(by, &a, "read")]),
                result(&a, "read", "RESULT", Vec::new()),
            ],
        ),
        (
            "parallel calls",
            vec![
                Message::user("one"),
                Message::assistant(vec![Part::text("ANSWER"), call(by, &a, "read"), call(by, &b, "bash")]),
                result(&a, "read", "RESULT A", Vec::new()),
                result(&b, "bash", "RESULT B", Vec::new()),
                Message::user("two"),
            ],
        ),
        (
            "images",
            vec![
                Message::new(
                    becket_types::Role::User,
                    Message::user("x").origin,
                    vec![Part::text("look"), image("pixel")],
                ),
                Message::assistant(vec![call(by, &a, "read")]),
                result(&a, "read", "RESULT", vec![image("pixel")]),
            ],
        ),
        (
            "thinking alone",
            vec![
                Message::user("one"),
                Message::assistant(vec![reasoning(by, "THOUGHT", Some(SIGNATURE), None)]),
                Message::user("two"),
            ],
        ),
    ]
}

/// Ids of calls and of results in a body, in order.
fn wire_ids(wire: Wire, body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let mut add = |list: usize, value: &Value| {
        let id = value.as_str().expect("an id is text").to_owned();
        if list == 0 { calls.push(id) } else { results.push(id) }
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match wire {
        Wire::Anthropic => {
            for block in list(&body["messages"]).iter().flat_map(|m| list(&m["content"])) {
                match block["type"].as_str() {
                    Some("tool_use") => add(0, &block["id"]),
                    Some("tool_result") => add(1, &block["tool_use_id"]),
                    _ => {}
                }
            }
        }
        Wire::Chat => {
            for message in list(&body["messages"]) {
                for call in list(&message["tool_calls"]) {
                    add(0, &call["id"]);
                }
                if message["role"] == "tool" {
                    add(1, &message["tool_call_id"]);
                }
            }
        }
        Wire::Responses => {
            for item in list(&body["input"]) {
                match item["type"].as_str() {
                    Some("function_call") => add(0, &item["call_id"]),
                    Some("function_call_output") => add(1, &item["call_id"]),
                    _ => {}
                }
            }
        }
        Wire::Converse => {
            for block in list(&body["messages"]).iter().flat_map(|m| list(&m["content"])) {
                if block["toolUse"].is_object() {
                    add(0, &block["toolUse"]["toolUseId"]);
                } else if block["toolResult"].is_object() {
                    add(1, &block["toolResult"]["toolUseId"]);
                }
            }
        }
        // Gemini has no ids; a result belongs to the call of the same name at the same place in the order.
        Wire::Gemini => {
            for part in list(&body["contents"]).iter().flat_map(|turn| list(&turn["parts"])) {
                if part["functionCall"].is_object() {
                    add(0, &part["functionCall"]["name"]);
                } else if part["functionResponse"].is_object() {
                    add(1, &part["functionResponse"]["name"]);
                }
            }
        }
    }
    (calls, results)
}

fn takes(wire: Wire, id: &str) -> bool {
    let word = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match wire {
        Wire::Anthropic | Wire::Responses | Wire::Converse => word && !id.is_empty() && id.len() <= 64,
        Wire::Chat | Wire::Gemini => !id.is_empty(),
    }
}

#[test]
fn histories_cross_every_ordered_pair() {
    let settings = everywhere("http://127.0.0.1:9");
    let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs(HashMap::from([("pixel".to_owned(), pixel())])));
    let tools = tools();
    let mut crossed = 0;
    for from in ADAPTERS {
        for to in ADAPTERS {
            for (kind, history) in histories(from) {
                let case = format!("{} to {}: {kind}", from.name, to.name);
                let context = context(history.clone());
                let model = to.open(&settings);
                let prepared = model.prepare(&request(&context, &tools, &blobs)).unwrap();
                let text = String::from_utf8(prepared.body.concat()).unwrap();
                let body: Value = serde_json::from_str(&text).unwrap();
                // All texts arrive.
                for part in history.iter().flat_map(|message| &message.parts) {
                    match part {
                        Part::Text { text: said, .. } => {
                            assert!(text.contains(said.as_str()), "{case}: {said}");
                        }
                        Part::ToolResult { output, .. } => assert!(text.contains(output.as_str()), "{case}"),
                        _ => {}
                    }
                }
                let images = text.matches("iVBORw0KGgo").count();
                assert_eq!(images, if kind == "images" { 2 } else { 0 }, "{case}");
                // Signed parts go to their maker alone.
                if from != to {
                    for secret in [SIGNATURE, REDACTED, "THOUGHT"] {
                        assert!(!text.contains(secret), "{case}: {secret} is foreign");
                    }
                }
                let back = match (to.wire, kind) {
                    (Wire::Anthropic | Wire::Converse, "thinking" | "thinking alone") => Some(SIGNATURE),
                    (Wire::Anthropic | Wire::Converse, "redacted") => Some(REDACTED),
                    (Wire::Responses, "thinking" | "encrypted reasoning alone before a call") => {
                        Some(SIGNATURE)
                    }
                    (Wire::Gemini, "thinking" | "parallel calls" | "images") => Some(SIGNATURE),
                    _ => None,
                };
                if let Some(secret) = back.filter(|_| from == to) {
                    assert!(text.contains(secret), "{case}: the maker gets it back");
                }
                let (calls, results) = wire_ids(to.wire, &body);
                assert_eq!(calls, results, "{case}: each call has its result");
                assert!(calls.iter().all(|id| takes(to.wire, id)), "{case}: {calls:?}");
                let expected =
                    history.iter().flat_map(|m| &m.parts).filter(|p| matches!(p, Part::ToolCall { .. }));
                assert_eq!(calls.len(), expected.count(), "{case}");
                crossed += 1;
            }
        }
    }
    assert_eq!(crossed, ADAPTERS.len() * ADAPTERS.len() * 7);
}
