//! Answers over real HTTP: whole, cut at every byte, malformed in every way known, stalled.

mod common;

use becket_model::{ErrorKind, ModelEvent, open};
use becket_testkit::{Answer, Gate, MockServer, Reply, Wire, converse};
use becket_types::{FinishReason, Message, Part, Usage};
use common::{TEXT_WIRES, WIRES, ask, context, model_ref, run, settings};
use serde_json::json;
use std::time::Duration;

fn rich() -> Answer {
    Answer::new()
        .and_reasoning("Let me think: 🤔", Some("sig=="))
        .and_text("Hello, wörld 😀!")
        .and_tool("call_a", "read", json!({"path": "a.txt"}))
        .and_tool("call_b", "bash", json!({"command": "echo \"é\" 🎈"}))
        .usage(20, 30)
        .cached(70, 0)
}

#[tokio::test]
async fn a_whole_answer_on_both_wires() {
    for wire in WIRES {
        let server = MockServer::start([rich()]);
        let outcome = ask(&server, wire).await;
        assert_eq!(outcome.text(), "Hello, wörld 😀!");
        assert_eq!(
            outcome.calls(),
            [
                ("call_a".into(), "read".into(), json!({"path": "a.txt"})),
                ("call_b".into(), "bash".into(), json!({"command": "echo \"é\" 🎈"})),
            ]
        );
        assert_eq!(outcome.finish(), Some(FinishReason::ToolCalls));
        assert_eq!(
            outcome.usage(),
            Some(Usage { input: 20, output: 30, cache_read: 70, ..Usage::default() })
        );
        let Some(Part::Reasoning { text, signature, .. }) = outcome.parts().into_iter().next() else {
            panic!()
        };
        assert_eq!(text, "Let me think: 🤔");
        let signed = matches!(wire, Wire::Anthropic | Wire::Responses | Wire::Converse);
        assert_eq!(signature.as_deref(), signed.then_some("sig=="), "{wire:?}");
        assert!(matches!(outcome.events[0], ModelEvent::Started { .. }));
    }
}

#[tokio::test]
async fn pieces_of_any_size_give_the_same_answer() {
    for wire in WIRES {
        for size in [1, 2, 3, 7, 50, 4096] {
            let server = MockServer::start([Reply::from(rich()).pieces(size)]);
            let outcome = ask(&server, wire).await;
            assert_eq!(
                (outcome.text().as_str(), outcome.calls().len()),
                ("Hello, wörld 😀!", 2),
                "{wire:?} {size}"
            );
            assert!(outcome.error.is_none());
        }
    }
}

/// Before the answer begins a cut is healed by a retry; after it, one typed error and no half call.
#[tokio::test]
async fn a_cut_at_every_byte() {
    for wire in WIRES {
        let reply = Reply::from(rich());
        let length = reply.body_bytes(wire).len();
        for cut in 0..length {
            let server = MockServer::start([reply.clone().cut_at(cut), reply.clone()]);
            let outcome = ask(&server, wire).await;
            let whole = outcome.finish().is_some();
            match &outcome.error {
                None => assert!(whole && outcome.calls().len() == 2, "{wire:?} {cut}: {outcome:?}"),
                Some(error) => {
                    assert_eq!(error.kind, ErrorKind::StreamBroken, "{wire:?} {cut}");
                    assert!(error.retryable);
                    assert_eq!(server.requests().len(), 1, "{wire:?} {cut}: content came, so no retry");
                    let text: String = outcome
                        .parts()
                        .iter()
                        .filter_map(
                            |p| if let Part::Text { text, .. } = p { Some(text.clone()) } else { None },
                        )
                        .collect();
                    assert_eq!(text, outcome.text(), "{wire:?} {cut}: partial text is kept as a part");
                }
            }
            let calls = outcome.calls();
            let full = [("call_a", 1), ("call_b", 2)];
            assert!(
                calls.iter().zip(full).all(|((id, ..), (want, _))| id == want),
                "{wire:?} {cut}: {calls:?}"
            );
        }
    }
}

/// Bodies that are no answer, each asked for once more, then named.
#[tokio::test]
async fn bodies_that_are_no_answer() {
    for wire in WIRES {
        for (name, reply, words) in [
            ("html", Reply::body(200, "text/html", "<html><body>Sign in</body></html>"), "a web page"),
            ("html as events", Reply::sse("<!doctype html><p>x"), "a web page"),
            ("204", Reply::status(204), "nothing"),
            ("empty", Reply::body(200, "text/event-stream", ""), "nothing"),
            ("blank", Reply::sse("\n\n\n"), "nothing"),
            (
                "gzip garbage",
                Reply::body(200, "text/event-stream", &b"\x1f\x8b\x08\x00\xff\xff"[..]),
                "compressed",
            ),
            ("garbage", Reply::body(200, "application/octet-stream", &b"\x00\x01\x02"[..]), "neither"),
            ("other json", Reply::json(200, &json!({"hello": 1})), "no answer"),
            ("empty object", Reply::json(200, &json!({})), "no answer"),
            ("json list", Reply::body(200, "application/json", "[1]"), ""),
            ("json text", Reply::body(200, "application/json", "\"hi\""), "neither"),
        ] {
            let server = MockServer::start([reply.clone(), reply.clone(), reply]);
            let outcome = ask(&server, wire).await;
            let error = outcome.error.as_ref().unwrap_or_else(|| panic!("{wire:?} {name}: {outcome:?}"));
            assert!(error.message.contains(words), "{wire:?} {name}: {}", error.message);
            if name != "json list" {
                assert_eq!(error.kind, ErrorKind::Malformed, "{wire:?} {name}");
                assert_eq!((outcome.retries(), server.requests().len()), (1, 2), "{wire:?} {name}");
            }
        }
    }
}

/// A model may stop without a word, after work above all. The caller decides about that; the server did its part.
#[tokio::test]
async fn an_answer_that_ends_without_a_word_is_an_answer() {
    for wire in WIRES {
        let server = MockServer::start([Answer::new()]);
        let outcome = ask(&server, wire).await;
        assert!(outcome.error.is_none(), "{wire:?}: {outcome:?}");
        assert_eq!((outcome.text().as_str(), outcome.retries()), ("", 0), "{wire:?}");
        assert_eq!(server.requests().len(), 1, "{wire:?}");
    }
    // If a stream has no finish reason, nobody knows if the answer is complete.
    let server = MockServer::with(|_| {
        Reply::sse(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: [DONE]\n\n",
        )
    });
    assert_eq!(ask(&server, Wire::Chat).await.error.map(|error| error.kind), Some(ErrorKind::Malformed));
}

#[tokio::test]
async fn deviations_that_are_still_an_answer() {
    for wire in TEXT_WIRES {
        let whole = Answer::text("hi").sse(wire);
        // In Responses and Gemini, only the last event says why the answer ended: without it, the answer counts as cut.
        let last_counts = matches!(wire, Wire::Responses | Wire::Gemini);
        let no_end: String = {
            let mut events = Answer::text("hi").events(wire);
            if !last_counts {
                events.pop();
            }
            events.concat()
        };
        // Gemini has no event that says that it is the last, so what follows it is read.
        let behind = if wire == Wire::Gemini { ": junk\n\n" } else { "data: junk\n\n" };
        for (name, reply) in [
            ("no content type", Reply::sse(whole.clone()).without_header("content-type")),
            ("wrong content type", Reply::body(200, "text/plain", whole.clone())),
            ("byte order mark", Reply::sse(format!("\u{feff}{whole}"))),
            ("crlf", Reply::sse(whole.replace('\n', "\r\n"))),
            ("cr", Reply::sse(whole.replace('\n', "\r"))),
            ("comments", Reply::sse(format!(": ping\n\n{}", whole.replace("\n\n", "\n\n: ping\n\n")))),
            ("no end event", Reply::sse(no_end)),
            ("no last blank line", Reply::sse(whole.trim_end().to_owned())),
            ("one json document", Reply::json(200, &Answer::text("hi").json(wire))),
            ("more behind the end", Reply::sse(format!("{whole}{behind}"))),
        ] {
            let server = MockServer::start([reply]);
            let outcome = ask(&server, wire).await;
            assert_eq!(outcome.text(), "hi", "{wire:?} {name}: {outcome:?}");
            assert_eq!(outcome.finish(), Some(FinishReason::Stop), "{wire:?} {name}");
            assert_eq!(outcome.retries(), 0, "{wire:?} {name}");
        }
    }
}

/// Servers that cut their deltas by UTF-16 code units end one in the middle of a character.
#[tokio::test]
async fn a_character_in_two_deltas_stays_one() {
    let text = |text: &str| {
        format!(r#"data: {{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#) + "\n\n"
    };
    let arguments = |text: &str| {
        format!(
            r#"data: {{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"read","arguments":"{text}"}}}}]}}}}]}}"#
        ) + "\n\n"
    };
    let stop = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned();
    for (name, events, want) in [
        ("two halves", vec![text(r"a \ud83d"), text(r"\ude00 b")], "a 😀 b"),
        ("many", vec![text("plain"), text(r"\uD83D"), text(r"\uDE00\ud83d"), text(r"\ude01")], "plain😀😁"),
        ("a comment between", vec![text(r"\ud83d"), ": ping\n\n".to_owned(), text(r"\ude00")], "😀"),
        (
            "alone",
            vec![text(r"a\ud83d"), text("b"), text(r"\ude00"), text(r"c\ud83d")],
            "a\u{fffd}b\u{fffd}c\u{fffd}",
        ),
        ("escaped", vec![text(r"a\\ud83d"), text(r"\ude00")], "a\\ud83d\u{fffd}"),
    ] {
        for end in [stop.clone(), String::new()] {
            let server = MockServer::start([Reply::sse([events.concat(), end.clone()].concat())]);
            let outcome = ask(&server, Wire::Chat).await;
            assert_eq!(outcome.text(), want, "{name}: {outcome:?}");
            assert_eq!(outcome.error.is_some(), end.is_empty(), "{name}: {outcome:?}");
        }
    }
    let call = [arguments(r#"{\"path\":\"\ud83d"#), arguments(r#"\ude00\"}"#), stop].concat();
    let server = MockServer::start([Reply::sse(call)]);
    let calls = ask(&server, Wire::Chat).await.calls();
    assert_eq!(calls, [("a".to_owned(), "read".to_owned(), json!({"path": "😀"}))]);

    // The same text in the other formats, in deltas of one code unit each.
    for wire in TEXT_WIRES {
        let whole = Answer::text("XY").deltas(1).sse(wire);
        let halves = whole.replace("\"X\"", r#""\ud83d""#).replace("\"Y\"", r#""\ude00""#);
        assert!(halves.contains(r#""\ud83d""#) && halves.contains(r#""\ude00""#), "{wire:?}: {halves}");
        let server = MockServer::start([Reply::sse(halves)]);
        let outcome = ask(&server, wire).await;
        assert_eq!(outcome.text(), "😀", "{wire:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn chat_dialects() {
    let chunk = |delta: serde_json::Value, finish: serde_json::Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let call = |call: serde_json::Value| chunk(json!({"tool_calls": [call]}), json!(null));
    let stop = chunk(json!({}), json!("tool_calls"));
    let read = |path: &str| ("read".to_owned(), json!({"path": path}));
    for (name, body, want) in [
        ("first content null, last choices empty",
            [chunk(json!({"role": "assistant", "content": null}), json!(null)),
             call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}})), stop.clone(),
             "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\n".to_owned()].concat(),
            vec![read("x")]),
        ("no index, all at once",
            [call(json!({"id": "a", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}})),
             call(json!({"id": "b", "function": {"name": "read", "arguments": "{\"path\":\"y\"}"}})), stop.clone()].concat(),
            vec![read("x"), read("y")]),
        ("no index, no id",
            [call(json!({"function": {"name": "read", "arguments": "{\"path\":\"x\"}"}})),
             call(json!({"function": {"name": "read", "arguments": "{\"path\":\"y\"}"}})), stop.clone()].concat(),
            vec![read("x"), read("y")]),
        ("same index, other ids",
            [call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}})),
             call(json!({"index": 0, "id": "b", "function": {"name": "read", "arguments": "{\"path\":\"y\"}"}})), stop.clone()].concat(),
            vec![read("x"), read("y")]),
        ("same id twice",
            [call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}})),
             call(json!({"index": 1, "id": "a", "function": {"name": "read", "arguments": "{\"path\":\"y\"}"}})), stop.clone()].concat(),
            vec![read("x"), read("y")]),
        ("empty ids",
            [call(json!({"index": 0, "id": "", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}})), stop.clone()].concat(),
            vec![read("x")]),
        ("id and name repeated in every delta",
            [call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\":"}})),
             call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "\"x\"}"}})), stop.clone()].concat(),
            vec![read("x")]),
        ("arguments as an object",
            [call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": {"path": "x"}}})), stop.clone()].concat(),
            vec![read("x")]),
        ("numbers as ids, no envelope",
            [call(json!({"index": 0, "id": 7, "name": "read", "arguments": "{\"path\":\"x\"}"})), stop.clone()].concat(),
            vec![read("x")]),
        ("function_call",
            [chunk(json!({"function_call": {"name": "read", "arguments": "{\"path\":\"x\"}"}}), json!(null)),
             chunk(json!({}), json!("function_call"))].concat(),
            vec![read("x")]),
        ("stop beside a call",
            [call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}})),
             chunk(json!({}), json!("stop"))].concat(),
            vec![read("x")]),
        ("interleaved",
            [call(json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"pa"}})),
             call(json!({"index": 1, "id": "b", "function": {"name": "read", "arguments": "{\"path\":"}})),
             call(json!({"index": 0, "function": {"arguments": "th\":\"x\"}"}})),
             call(json!({"index": 1, "function": {"arguments": "\"y\"}"}})), stop.clone()].concat(),
            vec![read("x"), read("y")]),
    ] {
        let server = MockServer::start([Reply::sse(body)]);
        let outcome = ask(&server, Wire::Chat).await;
        let calls: Vec<_> = outcome.calls().into_iter().map(|(_, name, input)| (name, input)).collect();
        assert_eq!(calls, want, "{name}: {outcome:?}");
        assert_eq!(outcome.finish(), Some(FinishReason::ToolCalls), "{name}");
        let mut ids: Vec<String> = outcome.calls().into_iter().map(|(id, ..)| id).collect();
        ids.dedup();
        assert_eq!(ids.len(), want.len(), "{name}: ids are unique");
        assert!(ids.iter().all(|id| !id.is_empty()));
    }
}

#[tokio::test]
async fn anthropic_dialects() {
    let start = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n";
    let end = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":3}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    let event = |value: serde_json::Value| format!("data: {value}\n\n");
    for (name, middle) in [
        ("no input at the start, no ping, no event names",
            [event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x1", "name": "read"}})),
             event(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"path\":\"x\"}"}})),
             event(json!({"type": "content_block_stop", "index": 0}))].concat()),
        ("whole input at the start",
            [event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x1", "name": "read", "input": {"path": "x"}}})),
             event(json!({"type": "content_block_stop", "index": 0}))].concat()),
        ("no stop of the block",
            [event(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "x1", "name": "read", "input": {}}})),
             event(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"path\":\"x\"}"}}))].concat()),
    ] {
        let server = MockServer::start([Reply::sse(format!("{start}{middle}{end}"))]);
        let outcome = ask(&server, Wire::Anthropic).await;
        assert_eq!(outcome.calls(), [("x1".into(), "read".into(), json!({"path": "x"}))], "{name}: {outcome:?}");
        assert_eq!(outcome.usage(), Some(Usage { input: 5, output: 3, ..Usage::default() }), "{name}");
    }
}

/// Arguments that are no JSON object, and calls that the limit cut.
#[tokio::test]
async fn broken_arguments() {
    for wire in WIRES {
        for (arguments, stop, output, valid, finish) in [
            ("{\"path\": NaN}", None, 10, Some(false), FinishReason::ToolCalls),
            ("{\"path\":\"\\ud800\"}", None, 10, Some(false), FinishReason::ToolCalls),
            ("[1,2]", None, 10, Some(false), FinishReason::ToolCalls),
            ("{\"path\":", None, 10, Some(false), FinishReason::ToolCalls),
            ("", None, 10, Some(true), FinishReason::ToolCalls),
            ("{\"path\":", Some(()), 10, None, FinishReason::Length),
            ("", Some(()), 10, None, FinishReason::Length),
            // DeepSeek and others: cut at the cap, but the reason says `tool_calls`.
            ("{\"path\":", None, 1000, None, FinishReason::Length),
            ("{\"path\":\"x\"}", None, 1000, Some(true), FinishReason::ToolCalls),
        ] {
            let mut answer = Answer::text("x").and_raw_tool("c1", "read", arguments).usage(5, output);
            if stop.is_some() {
                answer = answer.stop(if wire == Wire::Chat { "length" } else { "max_tokens" });
            }
            let server = MockServer::start([answer]);
            let outcome = ask(&server, wire).await;
            let got = outcome.parts().into_iter().find_map(|p| match p {
                Part::ToolCall { invalid, .. } => Some(invalid),
                _ => None,
            });
            let name = format!("{wire:?} {arguments} {output}: {outcome:?}");
            assert_eq!(got.as_ref().map(Option::is_none), valid, "{name}");
            if let Some(Some(text)) = got {
                assert_eq!(text, arguments, "{name}");
            }
            assert_eq!(outcome.finish(), Some(finish), "{name}");
        }
    }
}

/// An error event at every place of the stream.
#[tokio::test]
async fn an_error_event_at_every_place() {
    for wire in TEXT_WIRES {
        let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
        let events = rich().events(wire);
        for at in 0..events.len() - 1 {
            let body = format!("{}{error}", events[..at].concat());
            let server = MockServer::start([Reply::sse(body), rich().into()]);
            let outcome = ask(&server, wire).await;
            if server.requests().len() == 2 {
                assert_eq!(outcome.calls().len(), 2, "{wire:?} {at}: {outcome:?}");
            } else if let Some(error) = &outcome.error {
                assert_eq!((error.kind, error.retryable), (ErrorKind::Overloaded, true), "{wire:?} {at}");
            }
        }
    }
}

/// Exceptions of AWS at every place of a stream of binary messages, and messages that are damaged or unknown.
#[tokio::test]
async fn binary_messages_with_faults() {
    let frames = converse::frames(&rich());
    let reply = |body: Vec<u8>| Reply::body(200, converse::CONTENT_TYPE, body);
    for (name, kind, retryable) in [
        ("throttlingException", ErrorKind::RateLimit, true),
        ("serviceUnavailableException", ErrorKind::Overloaded, true),
        ("internalServerException", ErrorKind::Server, true),
        ("modelStreamErrorException", ErrorKind::Server, true),
        ("validationException", ErrorKind::InvalidRequest, false),
    ] {
        for at in 0..frames.len() - 1 {
            let fault = converse::frame(name, &json!({"message": "Something failed"}));
            let body = [frames[..at].concat(), fault].concat();
            let server = MockServer::start([reply(body), rich().into()]);
            let outcome = ask(&server, Wire::Converse).await;
            if server.requests().len() == 2 {
                assert!(retryable && outcome.calls().len() == 2, "{name} {at}: {outcome:?}");
            } else {
                let error = outcome.error.as_ref().unwrap_or_else(|| panic!("{name} {at}: {outcome:?}"));
                assert_eq!((error.kind, error.retryable), (kind, retryable), "{name} {at}");
                assert!(error.message.contains("Something failed"), "{}", error.message);
            }
        }
    }
    // The prompt is too long, in the words of Bedrock.
    let long = json!({"message": "Input is too long for requested model."});
    let server = MockServer::start([reply(converse::frame("validationException", &long))]);
    let error = ask(&server, Wire::Converse).await.error.unwrap();
    assert_eq!(error.kind, ErrorKind::ContextOverflow);
    // A byte that was changed on the way is never an answer.
    let mut damaged = frames.concat();
    let at = damaged.len() / 2;
    damaged[at] ^= 1;
    let server = MockServer::start([reply(damaged)]);
    assert_eq!(ask(&server, Wire::Converse).await.error.map(|e| e.kind), Some(ErrorKind::StreamBroken));
    // Events of unknown types are ignored.
    let unknown = converse::frame("somethingNew", &json!({"x": 1}));
    let body = [unknown.clone(), frames[..4].concat(), unknown, frames[4..].concat()].concat();
    let server = MockServer::start([reply(body)]);
    assert_eq!(ask(&server, Wire::Converse).await.calls().len(), 2);
    // A server may answer with one JSON document instead of a stream.
    let server = MockServer::start([Reply::json(200, &rich().json(Wire::Converse))]);
    let outcome = ask(&server, Wire::Converse).await;
    assert_eq!((outcome.text().as_str(), outcome.calls().len()), ("Hello, wörld 😀!", 2));
    assert_eq!(outcome.usage(), Some(Usage { input: 20, output: 30, cache_read: 70, ..Usage::default() }));
}

/// Silence is an error after the idle limit, pings are no silence.
#[tokio::test]
async fn a_stalled_stream() {
    for wire in WIRES {
        let answer = Answer::text("hello there").deltas(2);
        let first = match wire {
            Wire::Converse => converse::frames(&answer)[..4].concat().len(),
            _ => answer.events(wire)[..4].concat().len(),
        };
        let server = MockServer::start([Reply::from(answer).stall_at(first)]);
        let (mut settings, _) = settings(&server.url());
        settings.times.idle = Duration::from_millis(150);
        settings.times.hint_after = Duration::from_millis(50);
        let model = open(&model_ref(wire), &settings).unwrap();
        let outcome = run(model.as_ref(), &context(vec![Message::user("hi")])).await;
        assert_eq!(outcome.error.as_ref().unwrap().kind, ErrorKind::Stalled);
        assert_eq!(outcome.notices().len(), 1, "one hint: {outcome:?}");
        assert!(!outcome.text().is_empty());
    }
}

#[tokio::test]
async fn silence_before_the_first_byte_is_borne_longer_on_this_machine() {
    let gate = Gate::new();
    let server = MockServer::start([Reply::from(Answer::text("late")).gate_before(&gate)]);
    let (mut settings, _) = settings(&server.url());
    settings.times.idle = Duration::from_millis(30);
    settings.times.hint_after = Duration::from_millis(10);
    let model = open(&model_ref(Wire::Chat), &settings).unwrap();
    let context = context(vec![Message::user("hi")]);
    let (outcome, ()) = tokio::join!(run(model.as_ref(), &context), async {
        gate.reached().await;
        tokio::task::yield_now().await;
        gate.open();
    });
    assert_eq!(outcome.text(), "late");
}

/// The user is informed once, not after each ping, of a server that processes a long prompt and pings meanwhile.
#[tokio::test]
async fn a_wait_with_pings_is_told_once() {
    use futures::StreamExt as _;
    let (first, second) = (Gate::new(), Gate::new());
    let ping = ": ping\n\n";
    let body = format!("{ping}{ping}{}", Answer::text("late").sse(Wire::Chat));
    let reply = Reply::sse(body).gate_at(ping.len(), &first).gate_at(2 * ping.len(), &second);
    let server = MockServer::start([reply]);
    let (mut settings, _) = settings(&server.url());
    settings.times.hint_after = Duration::from_millis(20);
    settings.times.idle = Duration::from_mins(1);
    let model = open(&model_ref(Wire::Chat), &settings).unwrap();
    let (tools, blobs, context) = (common::tools(), common::no_blobs(), context(vec![Message::user("hi")]));
    let mut stream = model.send(model.prepare(&common::request(&context, &tools, &blobs)).unwrap());
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Notice(_)))));
    first.open();
    let more = tokio::time::timeout(Duration::from_millis(300), stream.next()).await;
    assert!(more.is_err(), "nothing new to tell: {more:?}");
    second.open();
    let rest: Vec<_> = stream.collect().await;
    assert!(rest.iter().all(|event| !matches!(event, Ok(ModelEvent::Notice(_)))), "{rest:?}");
    assert!(matches!(rest.last(), Some(Ok(ModelEvent::Finish(FinishReason::Stop)))), "{rest:?}");
}

#[tokio::test]
async fn deltas_arrive_while_the_answer_is_still_being_written() {
    use futures::StreamExt as _;
    let gate = Gate::new();
    let at = Answer::text("first second").deltas(6).events(Wire::Chat)[..2].concat().len();
    let reply = Reply::from(Answer::text("first second").deltas(6)).gate_at(at, &gate);
    let server = MockServer::start([reply]);
    let model = common::model(&server, Wire::Chat);
    let (tools, blobs, context) = (common::tools(), common::no_blobs(), context(vec![Message::user("hi")]));
    let mut stream = model.send(model.prepare(&common::request(&context, &tools, &blobs)).unwrap());
    let mut text = String::new();
    while text.is_empty() {
        if let ModelEvent::TextDelta { text: delta, .. } = stream.next().await.unwrap().unwrap() {
            text = delta;
        }
    }
    assert_eq!(text, "first ");
    gate.open();
    let rest: Vec<_> = stream.collect().await;
    assert!(matches!(rest.last(), Some(Ok(ModelEvent::Finish(FinishReason::Stop)))));
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = MockServer::with(|_| Answer::text("ok").into());
    let model = common::model(&server, Wire::Anthropic);
    let context = context(vec![Message::user("hi")]);
    for _ in 0..20 {
        assert_eq!(run(model.as_ref(), &context).await.text(), "ok");
    }
    assert!(server.connections() <= 2, "{}", server.connections());
}
