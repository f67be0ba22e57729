//! Answers that come in another form than a stream of deltas: whole, at the end, in another wire format, with bytes that are no
//! text, or with numbers that cannot be.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use becket_model::ErrorKind;
use becket_testkit::{Answer, MockServer, Reply, Wire};
use becket_types::{FinishReason, Part};
use common::{TEXT_WIRES, WIRES, ask};
use serde_json::{Value, json};

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or("message"))
}

/// The text, the paths that calls read, and the number of parts.
async fn answer(wire: Wire, name: &str, body: String) -> (String, Vec<String>, usize) {
    let server = MockServer::start([Reply::sse(body)]);
    let outcome = ask(&server, wire).await;
    assert!(outcome.error.is_none(), "{name}: {outcome:?}");
    assert_eq!((outcome.retries(), server.requests().len()), (0, 1), "{name}");
    let calls = outcome.calls().into_iter().map(|(_, _, input)| input["path"].as_str().unwrap().to_owned());
    (outcome.text(), calls.collect(), outcome.parts().len())
}

#[tokio::test]
async fn an_answer_in_the_final_response_alone() {
    let message = json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "hi"}]});
    let call = json!({"type": "function_call", "id": "f", "call_id": "c", "name": "read", "arguments": "{\"path\":\"x\"}"});
    let thought = json!({"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "so"}], "encrypted_content": "e"});
    let end = |output: Value| {
        event(&json!({"type": "response.completed", "response": {"status": "completed", "output": output}}))
    };
    let created =
        event(&json!({"type": "response.created", "response": {"status": "in_progress", "output": []}}));
    let delta = |id: &str| {
        event(&json!({"type": "response.output_text.delta", "item_id": id, "output_index": 0, "delta": "hi"}))
    };
    let added =
        |item: &Value| event(&json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
    let done =
        |item: &Value| event(&json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    for (name, body, text, calls, parts) in [
        ("alone", [created.clone(), end(json!([message]))].concat(), "hi", vec![], 1),
        ("all kinds", end(json!([thought, message, call])), "hi", vec!["x"], 3),
        ("two calls", end(json!([call, {"type": "function_call", "id": "g", "call_id": "d", "name": "read", "arguments": "{\"path\":\"y\"}"}])), "", vec!["x", "y"], 2),
        ("the call alone at the end", [delta("m"), end(json!([message, call]))].concat(), "hi", vec!["x"], 2),
        ("announced, without content", [added(&json!({"type": "message", "id": "m", "content": []})), end(json!([message]))].concat(), "hi", vec![], 1),
        ("repeated", [delta("m"), done(&message), done(&call), end(json!([message, call]))].concat(), "hi", vec!["x"], 2),
        ("repeated with another id", [delta("other"), end(json!([message]))].concat(), "hi", vec![], 1),
        ("repeated reasoning", [done(&thought), delta("m"), end(json!([thought, message]))].concat(), "hi", vec![], 2),
        ("no deltas", [event(&json!({"type": "response.output_text.done", "item_id": "m", "output_index": 0, "text": "hi"})), done(&message), end(json!([]))].concat(), "hi", vec![], 1),
    ] {
        let got = answer(Wire::Responses, name, body).await;
        assert_eq!(got, (text.to_owned(), calls.into_iter().map(str::to_owned).collect(), parts), "{name}");
    }
}

#[tokio::test]
async fn a_whole_message_of_chat_and_messages() {
    let chat = |choice: Value| format!("data: {}\n\n", json!({"choices": [choice]}));
    let calls =
        json!([{"index": 0, "id": "c", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}}]);
    let whole = json!({"role": "assistant", "content": "hi", "tool_calls": calls});
    let piece = |text: &str| chat(json!({"index": 0, "message": {"content": text}}));
    let end = chat(json!({"index": 0, "message": whole, "finish_reason": "tool_calls"}));
    let deltas = [
        chat(json!({"index": 0, "delta": {"content": "h"}})),
        chat(json!({"index": 0, "delta": {"content": "i"}})),
        chat(json!({"index": 0, "delta": {"tool_calls": calls}})),
    ]
    .concat();
    for (name, body, want) in [
        ("message in place of deltas", end.clone(), 1),
        ("message behind its deltas", format!("{deltas}{end}"), 1),
        ("message behind its deltas, twice", format!("{deltas}{end}{end}"), 1),
        (
            "message beside an empty delta",
            chat(json!({"index": 0, "delta": {}, "message": whole, "finish_reason": "tool_calls"})),
            1,
        ),
        (
            "pieces of a message",
            format!(
                "{}{}{}",
                piece("h"),
                piece("i"),
                chat(json!({"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}))
            ),
            1,
        ),
    ] {
        let got = answer(Wire::Chat, name, format!("{body}data: [DONE]\n\n")).await;
        assert_eq!((got.0.as_str(), got.1.len()), ("hi", want), "{name}");
    }
    let content = json!([{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "x"}}]);
    let message = json!({"type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 5, "output_tokens": 2}});
    let start = event(&json!({"type": "message_start", "message": message}));
    let stop = event(&json!({"type": "message_stop"}));
    let streamed = Answer::text("hi").and_tool("c", "read", json!({"path": "x"})).events(Wire::Anthropic);
    let (last, others) = streamed.split_last().unwrap();
    for (name, body) in [
        ("whole at the start", format!("{start}{stop}")),
        ("whole alone", event(&message)),
        ("whole behind its deltas", format!("{}{}{last}", others.concat(), event(&message))),
    ] {
        let got = answer(Wire::Anthropic, name, body).await;
        assert_eq!(got, ("hi".to_owned(), vec!["x".to_owned()], 2), "{name}");
    }
    // A server that ignores `stream: true`.
    for wire in WIRES {
        let server = MockServer::start([Reply::json(200, &Answer::text("hi").json(wire))]);
        let outcome = ask(&server, wire).await;
        assert_eq!((outcome.text().as_str(), outcome.finish()), ("hi", Some(FinishReason::Stop)), "{wire:?}");
    }
}

/// The answer is not asked for again: it would bring the same bytes.
#[tokio::test]
async fn bytes_that_are_no_text_are_replaced_and_told_once() {
    for wire in TEXT_WIRES {
        let body = Answer::text("a caf# and another caf#").deltas(6).sse(wire).into_bytes();
        let body: Vec<u8> = body.into_iter().map(|byte| if byte == b'#' { 0xE9 } else { byte }).collect();
        let server = MockServer::start([Reply::sse(body)]);
        let outcome = ask(&server, wire).await;
        assert_eq!(outcome.text(), "a caf\u{fffd} and another caf\u{fffd}", "{wire:?}: {outcome:?}");
        assert_eq!((server.requests().len(), outcome.retries()), (1, 0), "{wire:?}");
        let told = outcome.notices().iter().filter(|text| text.contains("not UTF-8")).count();
        assert_eq!(told, 1, "{wire:?}: {:?}", outcome.notices());
        assert!(outcome.parts().iter().all(|part| matches!(part, Part::Text { .. })), "{wire:?}");
    }
}

#[tokio::test]
async fn numbers_of_tokens_that_cannot_be_are_not_believed() {
    for wire in TEXT_WIRES {
        for (written, believed) in [
            ("7654", true),
            ("7654.0", true),
            ("1000000000000000000", false),
            ("1e30", false),
            ("-7654", false),
            ("7654.5", false),
            ("\"many\"", false),
        ] {
            let body = Answer::text("hi").usage(4_321, 7_654).sse(wire).replace("7654", written);
            // The sum of both stands beside them.
            let server = MockServer::start([Reply::sse(body)]);
            let outcome = ask(&server, wire).await;
            assert_eq!(outcome.text(), "hi", "{wire:?} {written}: {outcome:?}");
            let usage = outcome.usage().unwrap();
            let got = (usage.input, usage.output);
            assert_eq!(got, if believed { (4_321, 7_654) } else { (0, 0) }, "{wire:?} {written}");
        }
    }
}

#[tokio::test]
async fn an_answer_in_another_format_is_told_at_once() {
    for asked in WIRES {
        for answered in TEXT_WIRES.into_iter().filter(|wire| *wire != asked) {
            let whole = Answer::text("hi");
            for reply in [Reply::sse(whole.sse(answered)), Reply::json(200, &whole.json(answered))] {
                let server = MockServer::start([reply.clone(), reply]);
                let outcome = ask(&server, asked).await;
                let error = outcome.error.unwrap_or_else(|| panic!("{asked:?} {answered:?}"));
                assert_eq!((error.kind, error.retryable), (ErrorKind::Malformed, false), "{error:?}");
                assert_eq!(server.requests().len(), 1, "{asked:?} {answered:?}");
                assert!(error.message.contains("answered in the format of"), "{error:?}");
                let kind = match answered {
                    Wire::Anthropic => "anthropic",
                    Wire::Chat => "openai-chat",
                    Wire::Responses => "openai-responses",
                    _ => "gemini",
                };
                assert!(error.hint.unwrap().contains(&format!(".kind = \"{kind}\"")), "{asked:?}");
            }
        }
        // A server for files takes no POST.
        let page = Reply::body(501, "text/html", "<html><title>Error response</title></html>");
        let server = MockServer::start([page.clone(), page]);
        let error = ask(&server, asked).await.error.unwrap();
        assert_eq!((error.kind, server.requests().len()), (ErrorKind::NotFound, 1), "{asked:?}");
    }
}
