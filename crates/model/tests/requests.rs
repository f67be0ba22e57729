//! Requests on the wire: shapes, headers, the prefix rule, breakpoints, reasoning, images, and the cost of a step.

mod common;

use becket_model::{
    Auth, AwsKeys, CompatChanges, Credential, Endpoint, ErrorKind, Kind, ModelRef, Prepared, Secret,
    TokenSource, ToolChoice, open,
};
use becket_testkit::{Answer, MockServer, Recorded, Reply, Wire, assert_prefix, prefix_breaks, shape};
use becket_types::{
    BlobId, Blobs, CacheLifetime, CallId, Context, ImageSource, Message, Origin, Part, Role, Synthetic,
};
use bytes::Bytes;
use common::{MemoryBlobs, ask, context, model, model_ref, no_blobs, request, run, settings, tools, wrap};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::Chat];

fn reasoning(text: &str, signature: Option<&str>, provider: &str, model: &str) -> Part {
    Part::Reasoning {
        text: text.into(),
        signature: signature.map(str::to_owned),
        redacted: None,
        provider: provider.into(),
        model: model.into(),
        spill: None,
        extra: Map::new(),
    }
}

fn image_part(id: &str) -> Part {
    Part::Image {
        media_type: "image/png".into(),
        source: ImageSource::Blob(BlobId(id.into())),
        name: Some(format!("{id}.png")),
        width: None,
        height: None,
        extra: Map::new(),
    }
}

fn result(id: &str, output: &str) -> Message {
    Message::tool_result(CallId(id.into()), "read", output, false)
}

fn recorded(prepared: &Prepared) -> Recorded {
    let body = prepared.body.concat();
    Recorded {
        method: "POST".into(),
        path: "/".into(),
        headers: Vec::new(),
        body: Bytes::from(body),
        connection: 0,
    }
}

fn history() -> Vec<Message> {
    let mut summary = Message::new(
        Role::System,
        Origin::Synthetic(Synthetic::CompactionSummary),
        vec![Part::text("## Goal\nShip it.")],
    );
    summary.metadata.had_media = false;
    vec![
        summary,
        Message::user("first"),
        Message::assistant(vec![
            Part::text("I look."),
            Part::tool_call("c1", "read", json!({"path": "a", "n": 1})),
            Part::tool_call("c2", "bash", json!({"command": "ls"})),
        ]),
        result("c1", "one"),
        Message::tool_result(CallId("c2".into()), "bash", "no such file", true),
        Message::user("and \u{200b}"),
        Message::assistant(vec![Part::text(" \u{200b}\n"), Part::text("Done.")]),
        Message::user("\u{a0}"),
        Message::user("last"),
    ]
}

#[test]
fn a_lifetime_of_an_hour_stands_in_every_mark_and_only_where_the_server_knows_it() {
    let server = MockServer::start(Vec::<Answer>::new());
    let body = |knows: bool, cache: CacheLifetime| {
        let mut settings = settings(&server.url()).0;
        let changes = CompatChanges::new(move |compat| compat.hour_cache = knows);
        settings.anthropic.compat = Some(changes);
        let model = open(&model_ref(Wire::Anthropic), &settings).unwrap();
        let (context, tools, blobs) = (context(history()), tools(), no_blobs());
        let request = becket_model::Request { cache, ..request(&context, &tools, &blobs) };
        let body = model.prepare(&request).unwrap().body.concat();
        (model, String::from_utf8(body).unwrap())
    };
    let short = body(true, CacheLifetime::FiveMinutes).1;
    assert_eq!(short.matches(r#""cache_control":{"type":"ephemeral"}"#).count(), 3, "{short}");
    let long = body(true, CacheLifetime::Hour).1;
    assert_eq!(long.matches(r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#).count(), 3, "{long}");
    assert_eq!(long.replace(r#","ttl":"1h""#, ""), short);
    serde_json::from_str::<Value>(&long).unwrap();
    assert_eq!(body(false, CacheLifetime::Hour).1, short);
    // The same model encodes the history with alternating lifetimes. Encoded messages are kept, and the lifetime in their
    // marks still changes.
    let (model, _) = body(true, CacheLifetime::FiveMinutes);
    let (context, tools, blobs) = (context(history()), tools(), no_blobs());
    for (cache, want) in [(CacheLifetime::FiveMinutes, &short), (CacheLifetime::Hour, &long)].repeat(2) {
        let request = becket_model::Request { cache, ..request(&context, &tools, &blobs) };
        let got = model.prepare(&request).unwrap().body.concat();
        assert_eq!(String::from_utf8(got).unwrap(), *want);
    }
}

#[test]
fn shapes_on_both_wires() {
    let server = MockServer::start(Vec::<Answer>::new());
    let (tools, blobs, context) = (tools(), no_blobs(), context(history()));
    let shapes: Vec<String> = WIRES
        .iter()
        .map(|wire| {
            shape(&recorded(&model(&server, *wire).prepare(&request(&context, &tools, &blobs)).unwrap()))
        })
        .collect();
    assert_eq!(
        shapes[0],
        "system text \"You are a test.\"\n\
         system text \"Rules.\" *\n\
         tools read bash\n\
         0 user text \"<context-summary>\\n## Goal\\nShip it.\\n</context-summary>\" *\n\
         0 user text \"first\"\n\
         1 assistant text \"I look.\"\n\
         1 assistant call c1 read {\"path\":\"a\",\"n\":1}\n\
         1 assistant call c2 bash {\"command\":\"ls\"}\n\
         2 user result c1 \"one\"\n\
         2 user result c2 \"no such file\" !\n\
         2 user text \"and \\u{200b}\"\n\
         3 assistant text \"Done.\"\n\
         4 user text \"last\"\n"
    );
    assert_eq!(
        shapes[1],
        "tools read bash\n\
         0 system text \"You are a test.\\n\\nRules.\"\n\
         1 user text \"<context-summary>\\n## Goal\\nShip it.\\n</context-summary>\\n\\nfirst\"\n\
         2 assistant text \"I look.\"\n\
         2 assistant call c1 read {\"path\":\"a\",\"n\":1}\n\
         2 assistant call c2 bash {\"command\":\"ls\"}\n\
         3 tool c1 \"one\"\n\
         4 tool c2 \"no such file\"\n\
         5 assistant text \"I have the results.\"\n\
         6 user text \"and \\u{200b}\"\n\
         7 assistant text \"Done.\"\n\
         8 user text \"last\"\n"
    );
}

#[tokio::test]
async fn headers_and_fixed_fields() {
    let server = MockServer::with(|_| Answer::text("ok").into());
    ask(&server, Wire::Anthropic).await;
    ask(&server, Wire::Chat).await;
    let requests = server.requests();
    let (anthropic, chat) = (&requests[0], &requests[1]);
    assert_eq!((anthropic.path.as_str(), chat.path.as_str()), ("/v1/messages", "/v1/chat/completions"));
    assert_eq!(anthropic.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(
        (anthropic.header("x-api-key"), anthropic.header("authorization")),
        (Some("sk-secret-key"), None)
    );
    assert_eq!(chat.header("authorization"), Some("Bearer sk-secret-key"));
    assert_eq!(chat.header("content-length"), Some(chat.body.len().to_string().as_str()));
    let (a, c) = (anthropic.json(), chat.json());
    assert_eq!(
        (&a["max_tokens"], &a["stream"], &a["cache_control"]["type"]),
        (&json!(1000), &json!(true), &json!("ephemeral"))
    );
    assert_eq!(c["max_tokens"], 1000);
    assert_eq!(c["stream_options"]["include_usage"], true);
    assert_eq!(c["model"], "org/model-x");
    assert_eq!(c["tools"][0]["function"]["parameters"]["type"], "object");
    let breakpoints = anthropic.text().matches("cache_control").count();
    assert!(breakpoints <= 4, "{breakpoints}");
}

#[tokio::test]
async fn bearer_tokens_and_base_urls_with_v1() {
    let server = MockServer::with(|_| Answer::text("ok").into());
    for (wire, path) in [(Wire::Anthropic, "/v1/messages"), (Wire::Chat, "/v1/chat/completions")] {
        let (mut settings, _) = settings(&format!("{}/v1/", server.url()));
        settings.anthropic.credential = Some(Credential::Bearer(Secret::new("tok")));
        let model = open(&model_ref(wire), &settings).unwrap();
        assert_eq!(run(model.as_ref(), &context(vec![Message::user("x")])).await.text(), "ok");
        assert_eq!(server.requests().last().unwrap().path, path);
    }
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer tok"));
}

#[test]
fn a_missing_key_is_said_before_anything_is_sent() {
    let settings = becket_model::Settings::default();
    for reference in [ModelRef::anthropic("claude-opus-5".into()), ModelRef::openai("gpt-5".into())] {
        let error = open(&reference, &settings).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Auth);
        assert!(error.hint.unwrap().contains("_API_KEY"));
    }
}

#[tokio::test]
async fn the_key_is_in_no_error() {
    let body = json!({"error": {"type": "authentication_error", "message": "bad key sk-secret-key"}});
    for wire in WIRES {
        let server = MockServer::start([becket_testkit::Reply::json(401, &body)]);
        let error = ask(&server, wire).await.error.unwrap();
        assert!(!format!("{error:?} {error}").contains("sk-secret-key"), "{error:?}");
        assert!(error.message.contains("bad key"));
    }
}

/// Signed reasoning goes back byte-equal to the model that signed it, and to no other.
#[tokio::test]
async fn signed_reasoning_comes_back_byte_equal() {
    let signature = "EqQB+/==\u{e9}\\\"";
    let server = MockServer::with(move |r| {
        if r.messages().len() == 1 {
            Answer::new()
                .and_reasoning("thinking\n\u{1f914}", Some(signature))
                .and_redacted("opaque==")
                .and_tool("c1", "read", json!({}))
                .into()
        } else {
            Answer::text("done").into()
        }
    });
    let model = model(&server, Wire::Anthropic);
    let mut context = context(vec![Message::user("hi")]);
    let outcome = run(model.as_ref(), &context).await;
    // Through the ledger's JSON and back, as a resume would.
    let stored = serde_json::to_string(&Message::assistant(outcome.parts())).unwrap();
    context.messages.push(wrap(serde_json::from_str(&stored).unwrap()));
    context.messages.push(wrap(result("c1", "x")));
    run(model.as_ref(), &context).await;
    let sent = server.requests()[1].messages()[1]["content"].clone();
    assert_eq!(
        sent[0],
        json!({"type": "thinking", "thinking": "thinking\n\u{1f914}", "signature": signature})
    );
    assert_eq!(sent[1], json!({"type": "redacted_thinking", "data": "opaque=="}));
}

/// OpenRouter's records of the reasoning go back as they came, whole and in order, before the calls.
#[tokio::test]
async fn reasoning_details_come_back_whole() {
    let chunk = |delta: serde_json::Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}))
    };
    let detail = |text: &str| json!({"reasoning": text, "reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0, "format": "f"}]});
    let stream = [
        chunk(detail("I th")),
        chunk(detail("ink.")),
        chunk(json!({"reasoning_details": [{"type": "reasoning.text", "signature": "sig==", "index": 0}]})),
        chunk(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "abc", "id": "r1", "index": 1}]})),
        chunk(json!({"content": "Let me look."})),
        chunk(json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]})),
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let mut first = Some(stream);
    let server = MockServer::with(move |_| match first.take() {
        Some(stream) => Reply::sse(stream),
        None => Answer::text("done").into(),
    });
    let model = model(&server, Wire::Chat);
    let mut context = context(vec![Message::user("hi")]);
    let outcome = run(model.as_ref(), &context).await;
    let stored = serde_json::to_string(&Message::assistant(outcome.parts())).unwrap();
    context.messages.push(wrap(serde_json::from_str(&stored).unwrap()));
    context.messages.push(wrap(result("c1", "x")));
    run(model.as_ref(), &context).await;
    let messages = server.requests()[1].messages();
    let sent = messages.iter().find(|message| message["role"] == "assistant").unwrap();
    assert_eq!(
        sent["reasoning_details"],
        json!([
            {"type": "reasoning.text", "text": "I think.", "index": 0, "format": "f", "signature": "sig=="},
            {"type": "reasoning.encrypted", "data": "abc", "id": "r1", "index": 1},
        ])
    );
    assert_eq!(sent["tool_calls"][0]["id"], "c1");
}

#[test]
fn foreign_and_unsigned_reasoning_stays_at_home() {
    let server = MockServer::start(Vec::<Answer>::new());
    let context = context(vec![
        Message::user("x"),
        Message::assistant(vec![
            reasoning("other model", Some("s"), "anthropic", "claude-opus-5"),
            reasoning("other provider", Some("s"), "openai", "claude-sonnet-4-5"),
            reasoning("unsigned", None, "anthropic", "claude-sonnet-4-5"),
            Part::text("answer"),
        ]),
        Message::user("y"),
    ]);
    for wire in WIRES {
        let prepared = model(&server, wire).prepare(&request(&context, &tools(), &no_blobs())).unwrap();
        let messages = recorded(&prepared).messages();
        let assistant = messages.iter().find(|m| m["role"] == "assistant").unwrap();
        assert!(
            !assistant.to_string().contains("other") && !assistant.to_string().contains("unsigned"),
            "{assistant}"
        );
    }
}

#[test]
fn ids_and_names_that_a_wire_refuses_are_mapped_alike_in_call_and_result() {
    let server = MockServer::start(Vec::<Answer>::new());
    let context = context(vec![
        Message::user("x"),
        Message::assistant(vec![Part::tool_call("functions.read:0", "read file!", json!({}))]),
        result("functions.read:0", "ok"),
    ]);
    let prepared =
        model(&server, Wire::Anthropic).prepare(&request(&context, &tools(), &no_blobs())).unwrap();
    let messages = recorded(&prepared).messages();
    let id = messages[1]["content"][0]["id"].as_str().unwrap();
    assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    assert_eq!(messages[2]["content"][0]["tool_use_id"], id);
    assert_eq!(messages[1]["content"][0]["name"], "read_file_");
}

#[test]
fn images_on_both_wires() {
    let mut png = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgba8(2, 2).write_to(&mut png, image::ImageFormat::Png).unwrap();
    let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs([("ok".to_owned(), png.into_inner())].into()));
    let server = MockServer::start(Vec::<Answer>::new());
    let mut user = Message::user("look");
    user.parts.push(image_part("ok"));
    user.parts.push(image_part("gone"));
    let mut tool = result("c1", "a picture");
    tool.parts.push(image_part("ok"));
    let context = context(vec![
        user,
        Message::assistant(vec![
            Part::tool_call("c1", "read", json!({})),
            Part::tool_call("c2", "read", json!({})),
        ]),
        tool,
        result("c2", "text"),
    ]);
    let shapes: Vec<Vec<String>> = WIRES
        .iter()
        .map(|wire| {
            let prepared = model(&server, *wire).prepare(&request(&context, &tools(), &blobs)).unwrap();
            shape(&recorded(&prepared))
                .lines()
                .filter(|l| l.starts_with(|c: char| c.is_ascii_digit()))
                .map(str::to_owned)
                .collect()
        })
        .collect();
    let gone = "text \"[Attached image/png: gone.png (not shown: its bytes are not in the store)]\"";
    assert_eq!(shapes[0][1], "0 user image image/png");
    assert_eq!(shapes[0][2], format!("0 user {gone} *"));
    assert_eq!(shapes[0][5], "2 user result c1 text \"a picture\" + image image/png");
    assert_eq!(shapes[0][6], "2 user result c2 \"text\"");
    assert!(shapes[1][2].starts_with("1 user image data:image/png;base64,"), "{:?}", shapes[1]);
    assert_eq!(shapes[1][6..8], ["3 tool c1 \"a picture\"", "4 tool c2 \"text\""]);
    assert_eq!(shapes[1][8], "5 assistant text \"I have the results.\"");
    assert_eq!(shapes[1][9], "6 user text \"[Image in the result of c1]\"");
    assert!(shapes[1][10].starts_with("6 user image data:"), "{:?}", shapes[1]);
}

#[tokio::test]
async fn ids_pass_unchanged_also_when_a_server_numbers_its_calls_anew() {
    let server = MockServer::with(|_| Answer::tool("call_0", "read", json!({"path": "x"})).into());
    let model = model(&server, Wire::Chat);
    let mut context = context(vec![Message::user("hi")]);
    // The agent, which keeps the history, gives each call a unique id and judges if a call was delivered twice.
    for own in ["call_0", "call_0-2", "call_0-3"] {
        let outcome = run(model.as_ref(), &context).await;
        assert_eq!(outcome.calls()[0].0, "call_0");
        let call = Part::tool_call(own, "read", json!({"path": "x"}));
        context.messages.push(wrap(Message::assistant(vec![call])));
        context.messages.push(wrap(result(own, "ok")));
    }
    assert_prefix(&server.requests());
}

#[test]
fn tool_choice_none_leaves_the_prefix_alone() {
    let server = MockServer::start(Vec::<Answer>::new());
    for wire in WIRES {
        let model = model(&server, wire);
        let (tools, blobs, mut context) = (tools(), no_blobs(), context(history()));
        let first = recorded(&model.prepare(&request(&context, &tools, &blobs)).unwrap());
        context.messages.push(wrap(Message::user("wrap up")));
        let mut last = request(&context, &tools, &blobs);
        last.tool_choice = ToolChoice::None;
        let last = recorded(&model.prepare(&last).unwrap());
        assert!(last.json()["tool_choice"] != Value::Null);
        assert_prefix(&[first, last]);
    }
}

#[test]
fn another_generation_is_encoded_anew_and_others_keep_their_bytes() {
    let server = MockServer::start(Vec::<Answer>::new());
    let model = model(&server, Wire::Anthropic);
    let (tools, blobs) = (tools(), no_blobs());
    let mut main = context(history());
    let side = Context { generation: 1, ..context(vec![Message::user("a subagent")]) };
    let a = recorded(&model.prepare(&request(&main, &tools, &blobs)).unwrap());
    let s = recorded(&model.prepare(&request(&side, &tools, &blobs)).unwrap());
    main.messages.push(wrap(Message::user("more")));
    let b = recorded(&model.prepare(&request(&main, &tools, &blobs)).unwrap());
    assert_eq!(s.messages().len(), 1);
    assert_prefix(&[a, b.clone()]);
    main.generation = 2;
    main.messages.remove(1);
    let c = recorded(&model.prepare(&request(&main, &tools, &blobs)).unwrap());
    assert_eq!(prefix_breaks(&[b.clone(), c.clone()]), [0]);
    assert_eq!(c.messages()[0]["content"].as_array().unwrap().len(), 1);
    assert_eq!(b.messages()[0]["content"].as_array().unwrap().len(), 2);
    assert_eq!(c.messages()[1..], b.messages()[1..]);
}

/// One step of a conversation: the messages that are added before a request.
fn step() -> impl Strategy<Value = Vec<Message>> {
    let text = prop_oneof!["[a-z \\]}\"\\\\é😀]{0,12}", Just("\u{200b}".to_owned()), Just("]}]}".to_owned())];
    let user = prop::collection::vec(text.clone(), 1..3).prop_map(|texts| {
        Message::new(Role::User, Origin::User, texts.into_iter().map(Part::text).collect())
    });
    let turn = (text, prop::collection::vec("[a-z]{1,6}", 0..3)).prop_map(|(said, outputs)| {
        let ids: Vec<String> =
            outputs.iter().map(|_| format!("id_{}", uuid::Uuid::now_v7().simple())).collect();
        let mut parts = vec![Part::text(said)];
        parts.extend(ids.iter().map(|id| Part::tool_call(id.clone(), "read", json!({"p": "]}"}))));
        let mut out = vec![Message::assistant(parts)];
        out.extend(ids.iter().zip(outputs).map(|(id, output)| result(id, &output)));
        out
    });
    prop_oneof![user.prop_map(|m| vec![m]), turn]
}

proptest! {
    /// P7 on the wire: within a generation each request is a byte prefix of the next, and what was encoded step by step
    /// is what a new process would encode at once.
    #[test]
    fn p7_each_request_is_a_prefix_of_the_next(steps in prop::collection::vec(step(), 1..12)) {
        let (settings, _) = settings("http://127.0.0.1:9");
        for wire in WIRES {
            let model = open(&model_ref(wire), &settings).unwrap();
            let (tools, blobs) = (tools(), no_blobs());
            let mut context = context(vec![Message::user("start")]);
            let mut bodies = vec![recorded(&model.prepare(&request(&context, &tools, &blobs)).unwrap())];
            for messages in &steps {
                context.messages.extend(messages.iter().cloned().map(wrap));
                let body = recorded(&model.prepare(&request(&context, &tools, &blobs)).unwrap());
                // A request never ends with a message of the model, so only these bodies are requests.
                if body.messages().last().is_some_and(|m| m["role"] != "assistant") {
                    bodies.push(body);
                }
            }
            prop_assert_eq!(prefix_breaks(&bodies), Vec::<usize>::new());
            for body in &bodies {
                let _ = body.json();
            }
            let fresh = open(&model_ref(wire), &settings).unwrap();
            let again = recorded(&fresh.prepare(&request(&context, &tools, &blobs)).unwrap());
            let last = recorded(&model.prepare(&request(&context, &tools, &blobs)).unwrap());
            prop_assert_eq!(&again.body, &last.body);
        }
    }
}

#[test]
fn a_step_shares_the_bytes_of_the_one_before() {
    let (settings, _) = settings("http://127.0.0.1:9");
    let model = open(&model_ref(Wire::Chat), &settings).unwrap();
    let (tools, blobs) = (tools(), no_blobs());
    let mut context = context(vec![Message::user("start")]);
    let mut shared = 0;
    let mut total = 0;
    let mut last = model.prepare(&request(&context, &tools, &blobs)).unwrap();
    for i in 0..1000 {
        context.messages.push(wrap(Message::assistant(vec![Part::tool_call(
            format!("c{i}"),
            "read",
            json!({}),
        )])));
        context.messages.push(wrap(result(&format!("c{i}"), &"x".repeat(1000))));
        let next = model.prepare(&request(&context, &tools, &blobs)).unwrap();
        assert!(next.body.len() <= 16, "{} pieces", next.body.len());
        let old: Vec<*const u8> = last.body.iter().map(|p| p.as_ptr()).collect();
        shared += next.body.iter().filter(|p| old.contains(&p.as_ptr())).map(Bytes::len).sum::<usize>();
        total += next.len();
        last = next;
    }
    assert!(shared as f64 > 0.95 * total as f64, "{shared} of {total}");
}

/// Clouds serve the vendors' formats at paths of their own, with signatures or tokens in place of keys.
#[tokio::test]
async fn clouds_have_paths_and_signatures_of_their_own() {
    let aws = AwsKeys {
        id: "AKID".into(),
        secret: Secret::new("aws-secret"),
        session_token: None,
        region: Some("eu-west-1".into()),
    };
    let token = TokenSource::new(|_| Box::pin(async { Ok(Secret::new("cloud-token")) }));
    let project = "/v1/projects/p/locations/global";
    for (auth, credential, below, name, path, authorization) in [
        (
            Auth::Aws,
            Credential::Aws(aws.clone()),
            "",
            "eu.anthropic.claude-sonnet-4-5-v1:0",
            "/anthropic/v1/messages",
            "AWS4-HMAC-SHA256 Credential=AKID/",
        ),
        (
            Auth::Aws,
            Credential::Bearer(Secret::new("bearer")),
            "",
            "openai.gpt-5.6",
            "/openai/v1/responses",
            "Bearer bearer",
        ),
        (
            Auth::Google,
            Credential::Token(token.clone()),
            project,
            "claude-sonnet-4-5",
            "/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5:streamRawPredict",
            "Bearer cloud-token",
        ),
        (
            Auth::Google,
            Credential::Token(token.clone()),
            project,
            "gemini-3.5-flash",
            "/v1/projects/p/locations/global/publishers/google/models/gemini-3.5-flash:streamGenerateContent?alt=sse",
            "Bearer cloud-token",
        ),
        (
            Auth::ApiKey,
            Credential::ApiKey(Secret::new("azure-key")),
            "/openai/v1",
            "my-deployment",
            "/openai/v1/responses",
            "",
        ),
        (
            Auth::Aws,
            Credential::Bearer(Secret::new("bearer")),
            "",
            "openai.gpt-oss-120b-1:0",
            "/model/openai.gpt-oss-120b-1%3A0/converse-stream",
            "Bearer bearer",
        ),
        (
            Auth::Aws,
            Credential::Aws(aws.clone()),
            "",
            "eu.amazon.nova-pro-v1:0",
            "/model/eu.amazon.nova-pro-v1%3A0/converse-stream",
            "AWS4-HMAC-SHA256 Credential=AKID/",
        ),
    ] {
        let server = MockServer::start([Answer::text("fine")]);
        let (mut settings, _) = settings(&server.url());
        let kind = match auth {
            Auth::Google => Kind::Gemini,
            Auth::ApiKey => Kind::Responses,
            _ => Kind::Anthropic,
        };
        let endpoint = Endpoint {
            kind: Some(kind),
            base_url: Some(format!("{}{below}", server.url())),
            credential: Some(credential),
            auth: Some(auth),
            ..Endpoint::default()
        };
        settings.others.insert("cloud".into(), endpoint);
        let model = open(&ModelRef::named("cloud", name), &settings).unwrap();
        let outcome = run(model.as_ref(), &context(vec![Message::user("hi")])).await;
        assert_eq!(outcome.text(), "fine", "{name}: {outcome:?}");
        let request = &server.requests()[0];
        assert_eq!(request.path, path, "{name}");
        let sent = request.header("authorization").unwrap_or_default();
        assert!(sent.starts_with(authorization) && !sent.contains("aws-secret"), "{name}: {sent}");
        assert_eq!(request.header("api-key"), (auth == Auth::ApiKey).then_some("azure-key"), "{name}");
        if sent.starts_with("AWS4") {
            assert!(sent.contains("/eu-west-1/bedrock/aws4_request"), "{name}: {sent}");
        }
        if path.ends_with("RawPredict") {
            assert_eq!(request.json()["anthropic_version"], "vertex-2023-10-16");
            assert!(request.json()["model"].is_null());
        }
    }
}

/// Converse takes turns that alternate, results in a turn of their own, and marks of the cache where the model knows them.
#[test]
fn turns_and_marks_of_converse() {
    let body = |name: &str, messages: Vec<Message>| -> Value {
        let (settings, _) = settings("http://127.0.0.1:9");
        let model = open(&ModelRef::named("bedrock", name), &settings).unwrap();
        let (context, tools, blobs) = (context(messages), tools(), no_blobs());
        let prepared = model.prepare(&request(&context, &tools, &blobs)).unwrap();
        serde_json::from_slice(&prepared.body.concat()).unwrap()
    };
    let failed = Message::tool_result(CallId("c1".into()), "read", "no such file", true);
    let history = || {
        let call = Part::ToolCall {
            call_id: CallId("c1".into()),
            name: "read".into(),
            input: json!({"path": "a"}),
            invalid: None,
            extra: serde_json::Map::new(),
        };
        vec![Message::user("go"), Message::assistant(vec![call]), failed.clone(), Message::user("and now?")]
    };
    let nova = body("amazon.nova-pro-v1:0", history());
    let llama = body("meta.llama3-3-70b-instruct-v1:0", history());
    let mark = json!({"cachePoint": {"type": "default"}});
    for (body, marked) in [(&nova, true), (&llama, false)] {
        let turns = body["messages"].as_array().unwrap();
        let roles: Vec<&str> = turns.iter().map(|turn| turn["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
        let result = &turns[2]["content"][0]["toolResult"];
        assert_eq!(result["content"], json!([{"text": "no such file"}]));
        assert_eq!(result["status"] == "error", marked, "{result}");
        assert_eq!(turns[4]["content"].as_array().unwrap().contains(&mark), marked);
        assert_eq!(body["system"].as_array().unwrap().contains(&mark), marked);
        assert_eq!(body["inferenceConfig"], json!({"maxTokens": 1000}));
        assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"]["name"], "read");
        assert!(
            body["model"].is_null()
                && body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"].is_object()
        );
    }
}

/// Converse takes an image as its format and its bytes, in a message and in a result, if the model reads images.
#[test]
fn images_of_converse_go_as_their_bytes() {
    let encoded = |format: image::ImageFormat| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image::DynamicImage::new_rgb8(2, 2).write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    };
    let (png, jpeg) = (encoded(image::ImageFormat::Png), encoded(image::ImageFormat::Jpeg));
    let blobs: Arc<dyn Blobs> =
        Arc::new(MemoryBlobs([("png".to_owned(), png.clone()), ("jpeg".to_owned(), jpeg.clone())].into()));
    let mut user = Message::user("look");
    user.parts.push(image_part("png"));
    let mut tool = result("c1", "a picture");
    // The format follows from the bytes, not from the name that the message gives.
    tool.parts.push(image_part("jpeg"));
    let context =
        context(vec![user, Message::assistant(vec![Part::tool_call("c1", "read", json!({}))]), tool]);
    let bytes = |block: &Value, format: &str| {
        let image = &block["image"];
        assert_eq!(image["format"], format, "{block}");
        let text = image["source"]["bytes"].as_str().unwrap();
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap()
    };
    for (name, reads_images) in [
        ("amazon.nova-pro-v1:0", true),
        ("eu.amazon.nova-lite-v1:0", true),
        ("mistral.pixtral-large-2502-v1:0", true),
        ("amazon.nova-micro-v1:0", false),
    ] {
        let (settings, _) = settings("http://127.0.0.1:9");
        let model = open(&ModelRef::named("bedrock", name), &settings).unwrap();
        let prepared = model.prepare(&request(&context, &tools(), &blobs)).unwrap();
        let body: Value = serde_json::from_slice(&prepared.body.concat()).unwrap();
        let said = &body["messages"][0]["content"][1];
        let read = &body["messages"][2]["content"][0]["toolResult"]["content"][1];
        if reads_images {
            assert!(bytes(said, "png") == png && bytes(read, "jpeg") == jpeg, "{name}");
        } else {
            let words = said["text"].as_str().unwrap_or_default();
            assert!(words.contains("this model reads no images"), "{name}: {said}");
        }
    }
}

/// Google's own libraries add the version of the API to an address that names none.
#[tokio::test]
async fn an_address_of_gemini_gets_its_version() {
    for (below, want) in
        [("", "/v1beta/models/"), ("/google", "/google/v1beta/models/"), ("/v1", "/v1/models/")]
    {
        let server = MockServer::start([Answer::text("fine")]);
        let (settings, _) = settings(&format!("{}{below}", server.url()));
        let model = open(&model_ref(Wire::Gemini), &settings).unwrap();
        let outcome = run(model.as_ref(), &context(vec![Message::user("hi")])).await;
        assert_eq!(outcome.text(), "fine", "{outcome:?}");
        assert!(server.requests()[0].path.starts_with(want), "{below}: {}", server.requests()[0].path);
    }
}
