//! One table for all adapters: what each of them makes of the same answers, and what it sends for the same messages.
//!
//! `streams.rs`, `requests.rs` and `crossing.rs` have the deviations of single formats. Here every adapter has every row.
#![expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod common;

use becket_model::{ErrorKind, Model, ModelEvent};
use becket_testkit::{Answer, MockServer, Reply, Wire, converse};
use becket_types::{BlobId, Blobs, CallId, FinishReason, ImageSource, Message, Part, Usage};
use common::adapters::{ADAPTERS, Adapter, everywhere};
use common::{MemoryBlobs, Outcome, context, request, run, tools};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SENTENCE: &str = "Hello, wörld 😀! ";

/// An answer of every kind of part. Its stream is longer than 4 KB in each format.
fn rich() -> Answer {
    Answer::new()
        .and_reasoning("Let me think: 🤔", Some("sig=="))
        .and_text(SENTENCE.repeat(30))
        .and_tool("call_a", "read", json!({"path": "a.txt"}))
        .and_tool("call_b", "bash", json!({"command": "echo \"é\" 🎈"}))
        .usage(20, 30)
        .cached(70, 0)
}

async fn ask(adapter: &Adapter, reply: impl Into<Reply>) -> Outcome {
    let server = MockServer::start([reply]);
    run(&*adapter.at(&server), &context(vec![Message::user("hello")])).await
}

/// The pieces of a stream between which it can be cut without a broken event.
fn events(wire: Wire, answer: &Answer) -> Vec<Vec<u8>> {
    match wire {
        Wire::Converse => converse::frames(answer),
        wire => answer.events(wire).into_iter().map(String::into_bytes).collect(),
    }
}

fn assert_rich(outcome: &Outcome, case: &str) {
    assert_eq!(outcome.text(), SENTENCE.repeat(30), "{case}");
    let calls = outcome.calls();
    assert_eq!(
        calls,
        [
            ("call_a".to_owned(), "read".to_owned(), json!({"path": "a.txt"})),
            ("call_b".to_owned(), "bash".to_owned(), json!({"command": "echo \"é\" 🎈"})),
        ],
        "{case}"
    );
    assert_eq!(outcome.finish(), Some(FinishReason::ToolCalls), "{case}");
}

#[tokio::test]
async fn text_calls_thinking_and_usage() {
    for adapter in ADAPTERS {
        let name = adapter.name;
        let outcome = ask(&adapter, Answer::text("fine")).await;
        assert_eq!((outcome.text().as_str(), outcome.finish()), ("fine", Some(FinishReason::Stop)), "{name}");
        let outcome = ask(&adapter, Answer::tool("c1", "read", json!({"path": "a"}))).await;
        assert_eq!(outcome.calls(), [("c1".into(), "read".into(), json!({"path": "a"}))], "{name}");
        assert_eq!(outcome.finish(), Some(FinishReason::ToolCalls), "{name}");
        let outcome = ask(&adapter, rich()).await;
        assert_rich(&outcome, name);
        assert!(matches!(outcome.events[0], ModelEvent::Started { .. }), "{name}");
        let want = Usage { input: 20, output: 30, cache_read: 70, ..Usage::default() };
        assert_eq!(outcome.usage(), Some(want), "{name}");
        let Some(Part::Reasoning { text, signature, provider, model, .. }) =
            outcome.parts().into_iter().next()
        else {
            panic!("{name}: {outcome:?}")
        };
        assert_eq!(text, "Let me think: 🤔", "{name}");
        let signed = matches!(adapter.wire, Wire::Anthropic | Wire::Responses | Wire::Converse);
        assert_eq!(signature.as_deref(), signed.then_some("sig=="), "{name}");
        // A signature is sent back to its maker alone, so the maker is noted with it.
        assert_eq!((provider.as_str(), model.as_str()), (adapter.provider, adapter.model), "{name}");
        let whole = ask(&adapter, Reply::json(200, &rich().json(adapter.wire))).await;
        assert_rich(&whole, &format!("{name}, as one document"));
    }
}

#[tokio::test]
async fn reasons_to_stop() {
    for adapter in ADAPTERS {
        let filtered = match adapter.wire {
            Wire::Anthropic => ("refusal", FinishReason::Refusal),
            Wire::Converse => ("guardrail_intervened", FinishReason::ContentFilter),
            Wire::Gemini => ("SAFETY", FinishReason::ContentFilter),
            Wire::Chat | Wire::Responses => ("content_filter", FinishReason::ContentFilter),
        };
        let length = if adapter.wire == Wire::Chat { "length" } else { "max_tokens" };
        for (word, want) in [(length, FinishReason::Length), filtered] {
            let outcome = ask(&adapter, Answer::text("some words").stop(word)).await;
            assert_eq!(outcome.finish(), Some(want), "{} {word}: {outcome:?}", adapter.name);
            assert_eq!(outcome.text(), "some words", "{} {word}", adapter.name);
        }
        // A call that the limit cut never comes out.
        let cut = Answer::text("x").and_raw_tool("c1", "read", "{\"path\":").stop(length);
        let outcome = ask(&adapter, cut).await;
        assert_eq!(
            (outcome.calls().len(), outcome.finish()),
            (0, Some(FinishReason::Length)),
            "{}",
            adapter.name
        );
    }
}

#[tokio::test]
async fn errors_of_each_status() {
    for adapter in ADAPTERS {
        for (status, kind, sent) in [
            (400, ErrorKind::InvalidRequest, 1),
            (401, ErrorKind::Auth, 1),
            (402, ErrorKind::Billing, 1),
            (404, ErrorKind::NotFound, 1),
            (429, ErrorKind::RateLimit, 6),
            (500, ErrorKind::Server, 6),
            (503, ErrorKind::Overloaded, 6),
            (529, ErrorKind::Overloaded, 6),
        ] {
            // AWS has its message at the top; the others have an object of the error.
            let body = match adapter.wire {
                Wire::Converse => json!({"message": "Something failed"}),
                _ => json!({"error": {"message": "Something failed"}}),
            };
            let server = MockServer::with(move |_| Reply::json(status, &body));
            let outcome = run(&*adapter.at(&server), &context(vec![Message::user("hello")])).await;
            let error = outcome.error.as_ref().unwrap_or_else(|| panic!("{} {status}", adapter.name));
            // The token of a cloud is asked for once more before a refusal is believed.
            let renews = usize::from(status == 401 && adapter.provider == "vertex");
            assert_eq!(
                (error.kind, server.requests().len()),
                (kind, sent + renews),
                "{} {status}",
                adapter.name
            );
            assert!(
                error.message.contains("Something failed"),
                "{} {status}: {}",
                adapter.name,
                error.message
            );
            for secret in ["sk-secret-key", "aws-secret", "cloud-token", "azure-key"] {
                assert!(!format!("{error:?}").contains(secret), "{} {status}", adapter.name);
            }
        }
        let html = Reply::body(200, "text/html", "<html><body>Sign in to the hotel</body></html>");
        let server = MockServer::start([html.clone(), html]);
        let outcome = run(&*adapter.at(&server), &context(vec![Message::user("hello")])).await;
        let error = outcome.error.unwrap();
        assert!(error.message.contains("a web page"), "{}: {}", adapter.name, error.message);
    }
}

/// The body that an adapter sends for these messages.
fn body(adapter: &Adapter, messages: Vec<Message>, blobs: &Arc<dyn Blobs>) -> Value {
    let model = adapter.open(&everywhere("http://127.0.0.1:9"));
    let (context, tools) = (context(messages), tools());
    let prepared = model.prepare(&request(&context, &tools, blobs)).expect("a request");
    serde_json::from_slice(&prepared.body.concat()).expect("a body of JSON")
}

#[test]
fn images_results_and_marks_of_the_cache_are_sent() {
    let mut pixel = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgb8(1, 1).write_to(&mut pixel, image::ImageFormat::Png).unwrap();
    let blobs: Arc<dyn Blobs> =
        Arc::new(MemoryBlobs(HashMap::from([("pixel".to_owned(), pixel.into_inner())])));
    let image = Part::Image {
        media_type: "image/png".into(),
        source: ImageSource::Blob(BlobId("pixel".into())),
        name: None,
        width: None,
        height: None,
        extra: Map::new(),
    };
    let call = Part::ToolCall {
        call_id: CallId("c1".into()),
        name: "read".into(),
        input: json!({"path": "a"}),
        invalid: None,
        extra: Map::new(),
    };
    let failed = Message::tool_result(CallId("c1".into()), "read", "no such file", true);
    for adapter in ADAPTERS {
        let mut user = Message::user("look");
        user.parts.push(image.clone());
        let messages =
            vec![user, Message::assistant(vec![call.clone()]), failed.clone(), Message::user("and now?")];
        let body = body(&adapter, messages, &blobs);
        let text = body.to_string();
        assert_eq!(text.matches("iVBORw0KGgo").count(), 1, "{}: {text}", adapter.name);
        for said in ["look", "no such file", "and now?", "You are a test."] {
            assert!(text.contains(said), "{}: {said}", adapter.name);
        }
        let marks = match adapter.wire {
            Wire::Anthropic => text.matches("\"cache_control\"").count(),
            Wire::Converse => text.matches("\"cachePoint\"").count(),
            // Servers of these formats cache without marks; 2 only satisfies the check below.
            Wire::Chat | Wire::Responses | Wire::Gemini => 2,
        };
        assert!((2..=4).contains(&marks), "{}: {marks}", adapter.name);
        // The name of the model is in the body, or else in the path.
        let in_path = matches!(adapter.wire, Wire::Gemini | Wire::Converse) || adapter.provider == "vertex";
        assert_eq!(body["model"].is_null(), in_path, "{}", adapter.name);
    }
}

#[tokio::test]
async fn pieces_of_one_to_seven_bytes() {
    for adapter in ADAPTERS {
        for size in 1..=7 {
            let outcome = ask(&adapter, Reply::from(rich()).pieces(size)).await;
            assert_rich(&outcome, &format!("{} {size}", adapter.name));
        }
    }
}

/// An error event at every place of the stream, in the form of the format.
#[tokio::test]
async fn an_error_at_every_event() {
    for adapter in ADAPTERS {
        let events = events(adapter.wire, &rich());
        let fault = match adapter.wire {
            Wire::Converse => converse::frame("serviceUnavailableException", &json!({"message": "Overloaded"})),
            _ => b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n".to_vec(),
        };
        for at in 0..events.len() - 1 {
            let bytes = [events[..at].concat(), fault.clone()].concat();
            let reply = match adapter.wire {
                Wire::Converse => Reply::body(200, converse::CONTENT_TYPE, bytes),
                _ => Reply::sse(bytes),
            };
            let server = MockServer::start([reply, rich().into()]);
            let outcome = run(&*adapter.at(&server), &context(vec![Message::user("hello")])).await;
            if server.requests().len() == 2 {
                assert_rich(&outcome, &format!("{} {at}", adapter.name));
            } else {
                let error =
                    outcome.error.as_ref().unwrap_or_else(|| panic!("{} {at}: {outcome:?}", adapter.name));
                assert_eq!(
                    (error.kind, error.retryable),
                    (ErrorKind::Overloaded, true),
                    "{} {at}",
                    adapter.name
                );
            }
        }
    }
}

/// Cuts a stream at each of these bytes. Before the answer begins a cut is healed by a retry; after it, it is one typed error
/// with the text so far and no half call.
async fn cut(adapter: &Adapter, cuts: impl Iterator<Item = usize>) {
    let (place, sent) = (Arc::new(AtomicUsize::new(usize::MAX)), Arc::new(AtomicUsize::new(0)));
    let (now, count) = (Arc::clone(&place), Arc::clone(&sent));
    // The first request is cut, and the next one gets the whole answer.
    let server = MockServer::with(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        match now.swap(usize::MAX, Ordering::SeqCst) {
            usize::MAX => rich().into(),
            at => Reply::from(rich()).cut_at(at),
        }
    });
    let model: Arc<dyn Model> = adapter.at(&server);
    let context = context(vec![Message::user("hello")]);
    for at in cuts {
        sent.store(0, Ordering::SeqCst);
        place.store(at, Ordering::SeqCst);
        let outcome = run(&*model, &context).await;
        let case = format!("{} cut at {at}", adapter.name);
        let Some(error) = &outcome.error else {
            assert_rich(&outcome, &case);
            continue;
        };
        assert_eq!((error.kind, error.retryable), (ErrorKind::StreamBroken, true), "{case}");
        assert_eq!(sent.load(Ordering::SeqCst), 1, "{case}: content came, so no retry");
        let kept: String = outcome
            .parts()
            .iter()
            .filter_map(|part| if let Part::Text { text, .. } = part { Some(text.clone()) } else { None })
            .collect();
        assert_eq!(kept, outcome.text(), "{case}: partial text is kept as a part");
        let calls = outcome.calls();
        let whole = [("call_a", json!({"path": "a.txt"})), ("call_b", json!({"command": "echo \"é\" 🎈"}))];
        let known =
            calls.iter().zip(whole).all(|((id, _, input), (want, full))| id == want && *input == full);
        assert!(calls.len() <= 2 && known, "{case}: {calls:?}");
    }
}

/// Cuts after each of the first 4,096 bytes, and after each event that follows. One test for each adapter, so that they run side by side.
macro_rules! cuts {
    ($($name:ident: $at:expr),+ $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            const FIRST: usize = 4096;
            let adapter = &ADAPTERS[$at];
            let ends: Vec<usize> = events(adapter.wire, &rich())
                .iter()
                .scan(0, |at, event| { *at += event.len(); Some(*at) })
                .collect();
            let length = *ends.last().unwrap();
            assert!(length > FIRST, "{}: {length} bytes", adapter.name);
            let behind = ends.into_iter().filter(|end| *end > FIRST && *end < length);
            cut(adapter, (0..FIRST).chain(behind)).await;
        }
    )+};
}

cuts! {
    cuts_of_anthropic: 0,
    cuts_of_openai_chat: 1,
    cuts_of_openai_responses: 2,
    cuts_of_gemini: 3,
    cuts_of_bedrock_messages: 4,
    cuts_of_bedrock_responses: 5,
    cuts_of_bedrock_converse: 6,
    cuts_of_vertex_claude: 7,
    cuts_of_vertex_gemini: 8,
    cuts_of_azure: 9,
}

/// A network that asks for a login answers in place of the provider, in one of three ways. The message says so, and nothing is
/// sent again where that cannot help.
#[tokio::test]
async fn a_network_that_asks_for_a_login_is_named() {
    let page = "<html><head><title>Sign in - Hotel</title></head><body>welcome</body></html>";
    for adapter in ADAPTERS {
        for (name, reply, sent, words) in [
            (
                "redirect",
                Reply::status(302).header("location", "http://hotel.example/login"),
                1,
                "redirects to http://hotel.example/login",
            ),
            ("page", Reply::body(200, "text/html", page), 2, "a web page: Sign in - Hotel (status 200"),
            ("511", Reply::body(511, "text/html", page), 1, "an HTML page: Sign in - Hotel"),
        ] {
            let server = MockServer::with(move |_| reply.clone());
            let outcome = run(&*adapter.at(&server), &context(vec![Message::user("hello")])).await;
            let error = outcome.error.unwrap();
            let case = format!("{} {name}: {error:?}", adapter.name);
            assert!(error.message.contains(words), "{case}");
            assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("sign in")), "{case}");
            assert_eq!(server.requests().len(), sent, "{case}");
        }
    }
}
