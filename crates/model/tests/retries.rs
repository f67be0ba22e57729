//! Failures over real HTTP: what is sent again, what is not, what the error says.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use becket_model::{ErrorKind, ModelEvent, ModelRef, Proxies, Settings, open, probe};
use becket_testkit::{Answer, MockServer, Reply, Wire};
use becket_types::{Message, WireLayout};
use common::{ask, context, model, model_ref, no_blobs, request, run, settings, tools};
use futures::StreamExt as _;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::Chat];

/// Time limit for errors that must be reported at once. Generous, because the machine may be busy.
const SOON: Duration = Duration::from_secs(20);

fn hello() -> becket_types::Context {
    context(vec![Message::user("hello")])
}

#[tokio::test]
async fn overload_is_retried_with_growing_delays_and_told() {
    for wire in WIRES {
        let busy = Reply::anthropic_error(529, "overloaded_error", "Overloaded");
        let server = MockServer::start([busy.clone(), busy.clone(), busy, Answer::text("ok").into()]);
        let (settings, slept) = settings(&server.url());
        let outcome = run(open(&model_ref(wire), &settings).unwrap().as_ref(), &hello()).await;
        assert_eq!(outcome.text(), "ok");
        let slept = slept.lock().unwrap().clone();
        assert_eq!(slept.len(), 3);
        for (got, base) in slept.iter().zip([1.0, 2.0, 4.0]) {
            assert!((base..=base * 1.26).contains(&got.as_secs_f64()), "{slept:?}");
        }
        let ModelEvent::Retry { attempt: 1, max: 5, status: Some(529), error, .. } = &outcome.events[0]
        else {
            panic!("{:?}", outcome.events)
        };
        assert!(error.contains("Overloaded"));
        let ids: Vec<_> =
            server.requests().iter().map(|r| r.header("x-client-request-id").map(str::to_owned)).collect();
        assert!(ids.iter().all(|id| id.is_some() && *id == ids[0]), "one logical request has one id");
    }
}

#[tokio::test]
async fn six_attempts_at_most() {
    let server = MockServer::with(|_| Reply::openai_error(500, "server_error", "x", "boom"));
    let outcome = ask(&server, Wire::Chat).await;
    assert_eq!(outcome.error.unwrap().kind, ErrorKind::Server);
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn retry_after_is_honoured_up_to_the_limit() {
    let limited = || Reply::openai_error(429, "requests", "rate_limit_exceeded", "slow down");
    for (header, value, want) in [
        ("retry-after", "7", Some(7.0_f64)),
        ("retry-after", "0", Some(1.0)),
        ("retry-after", "soon", Some(1.0)),
        ("retry-after-ms", "9500", Some(9.5)),
        ("retry-after", "3600", None),
    ] {
        let server = MockServer::start([limited().header(header, value), Answer::text("ok").into()]);
        let (settings, slept) = settings(&server.url());
        let outcome = run(open(&model_ref(Wire::Chat), &settings).unwrap().as_ref(), &hello()).await;
        let slept = slept.lock().unwrap().clone();
        match want {
            Some(seconds) => {
                assert_eq!(outcome.text(), "ok");
                assert!(
                    (seconds..=seconds.max(1.26)).contains(&slept[0].as_secs_f64()),
                    "{value}: {slept:?}"
                );
            }
            None => {
                assert_eq!(outcome.error.unwrap().kind, ErrorKind::WaitTooLong);
                assert!(slept.is_empty());
            }
        }
    }
}

/// Errors that no retry cures: one request is sent, and the error is reported without a wait.
#[tokio::test]
async fn what_never_heals_is_sent_once() {
    for wire in WIRES {
        for (reply, kind) in [
            (Reply::anthropic_error(401, "authentication_error", "invalid x-api-key"), ErrorKind::Auth),
            (Reply::anthropic_error(403, "permission_error", "no"), ErrorKind::Auth),
            (Reply::anthropic_error(404, "not_found_error", "model: x"), ErrorKind::NotFound),
            (
                Reply::openai_error(429, "insufficient_quota", "insufficient_quota", "quota"),
                ErrorKind::Billing,
            ),
            (Reply::openai_error(402, "x", "x", "Insufficient Balance"), ErrorKind::Billing),
            (Reply::body(413, "text/plain", "Payload Too Large"), ErrorKind::TooLarge),
            (Reply::anthropic_error(400, "invalid_request_error", "bad"), ErrorKind::InvalidRequest),
            (Reply::status(301).header("location", "https://elsewhere"), ErrorKind::InvalidRequest),
            (Reply::status(500).header("x-should-retry", "false"), ErrorKind::Server),
            (
                Reply::anthropic_error(403, "permission_error", "This organization has been disabled."),
                ErrorKind::Auth,
            ),
            (
                Reply::anthropic_error(
                    400,
                    "invalid_request_error",
                    "Your credit balance is too low to access the Anthropic API.",
                ),
                ErrorKind::Billing,
            ),
            (
                Reply::openai_error(404, "invalid_request_error", "model_not_found", "no such model"),
                ErrorKind::NotFound,
            ),
            (
                Reply::openai_error(
                    401,
                    "invalid_request_error",
                    "invalid_api_key",
                    "Incorrect API key provided",
                ),
                ErrorKind::Auth,
            ),
        ] {
            let server = MockServer::start([reply, Answer::text("never").into()]);
            let started = Instant::now();
            let outcome = ask(&server, wire).await;
            let error = outcome.error.unwrap();
            assert_eq!(error.kind, kind, "{wire:?}: {error:?}");
            assert_eq!(server.requests().len(), 1, "{wire:?} {kind:?}");
            assert!(!error.message.is_empty());
            assert!(started.elapsed() < SOON, "{wire:?} {kind:?}");
        }
    }
}

#[tokio::test]
async fn x_should_retry_true_is_believed() {
    let server = MockServer::start([
        Reply::anthropic_error(400, "invalid_request_error", "odd").header("x-should-retry", "true"),
        Answer::text("ok").into(),
    ]);
    assert_eq!(ask(&server, Wire::Anthropic).await.text(), "ok");
}

/// A request that was refused because it is too long is not sent again; a different one is.
#[tokio::test]
async fn a_refused_request_is_not_sent_again() {
    let body = json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 4096,
        "message": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it"}});
    let server = MockServer::with(move |_| Reply::json(400, &body));
    let model = model(&server, Wire::Chat);
    for _ in 0..3 {
        let error = run(model.as_ref(), &hello()).await.error.unwrap();
        assert_eq!((error.kind, error.limit), (ErrorKind::ContextOverflow, Some(4096)));
    }
    assert_eq!(server.requests().len(), 1);
    run(model.as_ref(), &context(vec![Message::user("shorter")])).await;
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_lost_connection_before_the_answer_is_retried() {
    for wire in WIRES {
        for reply in [
            Reply::nothing(),
            Reply::raw("HTTP/1.1 200 OK\r\ncontent-ty"),
            Reply::from(Answer::text("x")).cut_at(0),
            Reply::from(Answer::text("x")).reset_at(10),
        ] {
            let server = MockServer::start([reply, Answer::text("ok").into()]);
            let outcome = ask(&server, wire).await;
            assert_eq!((outcome.text().as_str(), outcome.retries()), ("ok", 1), "{wire:?}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_local_server_that_is_not_there() {
    let address = MockServer::start(Vec::<Answer>::new()).url();
    for wire in WIRES {
        let (settings, slept) = settings(&address);
        let started = Instant::now();
        let outcome = run(open(&model_ref(wire), &settings).unwrap().as_ref(), &hello()).await;
        let error = outcome.error.unwrap();
        assert_eq!(error.kind, ErrorKind::Network, "{error:?}");
        assert!(error.hint.unwrap().contains("Start the model server"));
        let waited: Duration = slept.lock().unwrap().iter().sum();
        assert!(waited < Duration::from_secs(4) && started.elapsed() < SOON, "{waited:?}");
    }
}

/// While a server loads its model, becket shows one notice and asks again until the model is loaded. That uses up no retry:
/// failures after it have all their attempts.
#[tokio::test]
async fn a_model_that_is_being_loaded_is_waited_for() {
    let loading = || {
        Reply::json(
            503,
            &json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
        )
    };
    let busy = || Reply::anthropic_error(529, "overloaded_error", "Overloaded");
    for wire in WIRES {
        let replies =
            (0..45).map(|_| loading()).chain((0..5).map(|_| busy())).chain([Answer::text("ok").into()]);
        let server = MockServer::start(replies);
        let (settings, slept) = settings(&server.url());
        let outcome = run(open(&model_ref(wire), &settings).unwrap().as_ref(), &hello()).await;
        assert_eq!((outcome.text().as_str(), outcome.retries()), ("ok", 5), "{wire:?}: {outcome:?}");
        let loaded: Duration = slept.lock().unwrap()[..45].iter().sum();
        assert_eq!(loaded, Duration::from_secs(90));
        let notices = outcome.events.iter().filter_map(|event| match event {
            ModelEvent::Notice(text) => Some(text.clone()),
            _ => None,
        });
        let want = format!("{} is still loading the model; waiting for up to 300 s.", server.url());
        assert_eq!(notices.collect::<Vec<_>>(), [want]);

        let server = MockServer::with(move |_| loading());
        let (mut settings, slept) = common::settings(&server.url());
        settings.times.max_loading = Duration::from_secs(5);
        let outcome = run(open(&model_ref(wire), &settings).unwrap().as_ref(), &hello()).await;
        let error = outcome.error.unwrap();
        assert_eq!((error.kind, error.retryable), (ErrorKind::Loading, false));
        assert!(error.message.contains("Loading model (becket waited for it for 5 s)"), "{error:?}");
        assert_eq!(slept.lock().unwrap().iter().sum::<Duration>(), Duration::from_secs(5));
    }
}

#[tokio::test]
async fn overload_is_waited_out_for_three_attempts_where_another_model_stands_ready() {
    for wire in WIRES {
        let server = MockServer::with(|_| Reply::anthropic_error(529, "overloaded_error", "Overloaded"));
        let model = model(&server, wire);
        let (context, tools, blobs) = (hello(), tools(), no_blobs());
        let mut prepared = model.prepare(&request(&context, &tools, &blobs)).unwrap();
        prepared.replaceable = true;
        let events: Vec<_> = model.send(prepared).collect().await;
        assert_eq!(server.requests().len(), 3);
        assert!(matches!(events[0], Ok(ModelEvent::Retry { attempt: 1, max: 2, .. })), "{events:?}");
        assert_eq!(events.last().unwrap().as_ref().unwrap_err().kind, ErrorKind::Overloaded);
    }
}

/// The resolver refuses a host label of more than 63 characters without a question to a name server, so the test needs no network.
#[tokio::test]
async fn a_name_that_cannot_be_resolved_is_said_soon() {
    for (wire, scheme, setting) in [
        (Wire::Anthropic, "https", "ANTHROPIC_BASE_URL"),
        (Wire::Chat, "https", "OPENAI_BASE_URL"),
        (Wire::Chat, "http", "OPENAI_BASE_URL"),
    ] {
        let host = format!("{}.invalid", "x".repeat(64));
        let (settings, slept) = settings(&format!("{scheme}://{host}"));
        let started = Instant::now();
        let outcome = run(open(&model_ref(wire), &settings).unwrap().as_ref(), &hello()).await;
        let error = outcome.error.unwrap();
        assert_eq!((error.kind, error.retryable), (ErrorKind::Dns, false), "{error:?}");
        assert!(error.message.contains(&host), "{error:?}");
        assert!(error.hint.unwrap().contains(setting));
        assert!(slept.lock().unwrap().is_empty());
        assert!(started.elapsed() < SOON);
    }
}

/// A TLS server with a certificate that nobody has signed; gives its address and the number of connections so far.
fn untrusted() -> (String, Arc<AtomicUsize>) {
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
    let certificate = CertificateDer::from(include_bytes!("certificate/cert.der").to_vec());
    let key = PrivatePkcs8KeyDer::from(include_bytes!("certificate/key.der").to_vec());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let (config, count) = (Arc::new(config), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            // Fails as expected: the client hangs up when it sees the certificate.
            let _ = connection.complete_io(&mut stream.unwrap());
        }
    });
    (address, count)
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_said_at_once() {
    for wire in WIRES {
        let (address, count) = untrusted();
        let (settings, slept) = settings(&address);
        let started = Instant::now();
        let outcome = run(open(&model_ref(wire), &settings).unwrap().as_ref(), &hello()).await;
        let error = outcome.error.unwrap();
        assert_eq!((error.kind, error.retryable), (ErrorKind::Tls, false), "{error:?}");
        assert!(error.hint.as_ref().unwrap().contains("SSL_CERT_FILE"), "{error:?}");
        assert!(slept.lock().unwrap().is_empty());
        assert_eq!(count.load(Ordering::SeqCst), 1);
        assert!(started.elapsed() < SOON);
    }
}

/// A proxy that gives every connection the same answer; gives its address, with a login that no message may show.
fn proxy(answer: &'static str) -> (String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The head of a request fits, and its body is not waited for.
            let _ = stream.read(&mut [0; 16 * 1024]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (format!("http://joe:hunter2@{place}"), format!("http://{place}"))
}

#[tokio::test]
async fn a_proxy_at_fault_is_named_without_its_login() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        (format!("http://joe:hunter2@{place}"), format!("http://{place}"))
    };
    let forbidden = proxy("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
    let login =
        proxy("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let gateway = proxy("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
    for (scheme, names) in [("https", "HTTPS_PROXY or ALL_PROXY"), ("http", "HTTP_PROXY or ALL_PROXY")] {
        let tunnel = scheme == "https";
        for ((address, shown), words, retries) in [
            (&closed, "cannot be reached: Connection refused", true),
            (&forbidden, if tunnel { "refused to connect" } else { "before it, refused" }, tunnel),
            (&login, "does not accept the login", false),
            (&gateway, if tunnel { "refused to connect" } else { "before it, failed (status 502)" }, true),
        ] {
            let (mut settings, slept) = settings(&format!("{scheme}://model.example"));
            settings.proxies = Proxies {
                https: tunnel.then(|| address.clone()),
                http: (!tunnel).then(|| address.clone()),
                no_proxy: Some("other.example".to_owned()),
            };
            let outcome = run(open(&model_ref(Wire::Chat), &settings).unwrap().as_ref(), &hello()).await;
            let error = outcome.error.unwrap();
            let message = &error.message;
            assert!(message.contains(&format!("the proxy {shown} ({names})")), "{message}");
            assert!(message.contains(words) && message.contains("model.example"), "{words}: {message}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
            assert!(error.hint.is_some(), "{message}");
            assert_eq!(!slept.lock().unwrap().is_empty(), retries, "{message}");
        }
    }
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_request() {
    let body = Answer::text("hello").deltas(1).sse(Wire::Chat);
    let server = MockServer::start([Reply::sse(body).stall_at(400)]);
    let model = model(&server, Wire::Chat);
    let (context, tools, blobs) = (hello(), tools(), no_blobs());
    let mut stream = model.send(model.prepare(&request(&context, &tools, &blobs)).unwrap());
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Started { .. }))));
    drop(stream);
}

#[tokio::test]
async fn servers_say_what_they_have() {
    let server = MockServer::start(Vec::<Answer>::new())
        .get("/v1/models", Reply::json(200, &json!({"data": [{"id": "/m/qwen.gguf", "meta": {"n_ctx_train": 32768}}, {"id": "b", "max_model_len": 4096}]})))
        .get("/props", Reply::json(200, &json!({"default_generation_settings": {"n_ctx": 16384}})));
    let (settings, _) = settings(&server.url());
    let listed = probe::list(&ModelRef::openai(String::new()), &settings).await.unwrap();
    let want = [("/m/qwen.gguf", Some(32768)), ("b", Some(4096))];
    assert_eq!(listed.iter().map(|l| (l.name.as_str(), l.window)).collect::<Vec<_>>(), want);
    // The window with which the server was started takes precedence over the one for which the model was trained.
    let said = probe::describe(&ModelRef::openai("/m/qwen.gguf".into()), None, &settings).await.unwrap();
    assert_eq!((said.window, said.images, said.layout), (Some(16384), None, None));
    let nowhere = Settings {
        openai: becket_model::Endpoint { base_url: Some("http://127.0.0.1:9".into()), ..Default::default() },
        ..settings
    };
    assert_eq!(probe::describe(&ModelRef::openai("b".into()), None, &nowhere).await, None);
}

/// Some servers answer every path, with a web page or with a stream that does not end. No client waits for the rest of it.
#[tokio::test]
async fn a_list_that_is_no_json_is_not_read_to_its_end() {
    let stream = Answer::text("hello").deltas(1).sse(Wire::Chat);
    let page = "<!doctype html>".repeat(100);
    for reply in [Reply::sse(stream).stall_at(400), Reply::body(200, "text/html", page).stall_at(400)] {
        let server = MockServer::start(Vec::<Answer>::new()).get("/v1/models", reply);
        let (settings, _) = settings(&server.url());
        let error = probe::list(&ModelRef::openai(String::new()), &settings).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Malformed, "{}", error.message);
    }
}

/// Each kind of server describes its model `m` in its own way.
#[tokio::test]
async fn servers_say_what_their_models_can_do() {
    let gemma = "{{ raise_exception('System role not supported') }}";
    let llama = "{{ raise_exception(\"This model only supports single tool-calls at once!\") }}";
    let said = |window, images, layout| (window, images, layout);
    for (models, props, want) in [
        // llama.cpp
        (
            json!([{"id": "m"}]),
            json!({"n_ctx": 8192, "modalities": {"vision": false}, "chat_template": gemma}),
            said(Some(8192), Some(false), Some(WireLayout::NoSystem)),
        ),
        (
            json!([{"id": "m"}]),
            json!({"modalities": {"vision": true}, "chat_template": llama}),
            said(None, Some(true), Some(WireLayout::SingleCalls)),
        ),
        (json!([{"id": "m"}]), json!({"chat_template": "{{ messages }}"}), said(None, None, None)),
        // OpenRouter, Mistral, and a server that takes every name for its only model
        (
            json!([{"id": "x", "context_length": 1}, {"id": "m", "context_length": 9000,
            "architecture": {"input_modalities": ["text", "image"]}}]),
            json!(null),
            said(Some(9000), Some(true), None),
        ),
        (
            json!([{"id": "m", "max_context_length": 32000, "capabilities": {"vision": false}}]),
            json!(null),
            said(Some(32000), Some(false), None),
        ),
        (json!([{"id": "other", "max_model_len": 4096}]), json!(null), said(Some(4096), None, None)),
        (
            json!([{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]),
            json!(null),
            said(None, None, None),
        ),
        // Neither list nor properties, or nonsense in them
        (json!(null), json!(null), said(None, None, None)),
        (
            json!({"id": 5}),
            json!({"n_ctx": -1, "modalities": 7, "chat_template": []}),
            said(None, None, None),
        ),
    ] {
        let server = MockServer::start(Vec::<Answer>::new())
            .get("/v1/models", Reply::json(200, &json!({ "data": models })))
            .get("/props", Reply::json(200, &props));
        let (settings, _) = settings(&server.url());
        let found = probe::describe(&ModelRef::openai("m".into()), None, &settings).await.unwrap();
        assert_eq!((found.window, found.images, found.layout), want, "{models} {props}");
    }
}

/// Ollama and LM Studio run a model with another window than it was made for, and report it in APIs of their own.
#[tokio::test]
async fn local_servers_say_with_which_window_a_model_runs() {
    let listed = || Reply::json(200, &json!({"data": [{"id": "m:7b"}]}));
    let none = || Reply::json(404, &json!({"error": "not found"}));
    let ps = |models| Reply::json(200, &json!({ "models": models }));
    let loaded = json!([{"name": "other", "context_length": 1}, {"name": "m:7b", "context_length": 4096}]);
    let show = json!({"parameters": "stop \"x\"\nnum_ctx                        16384", "model_info": {"qwen2.context_length": 32768}});
    let plain = json!({"model_info": {"general.architecture": "qwen2", "qwen2.context_length": 32768}});
    let studio = |fields: serde_json::Value| {
        let mut model = json!({"id": "m:7b", "max_context_length": 131_072});
        model.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Reply::json(200, &json!({"data": [{"id": "z", "loaded_context_length": 9}, model]}))
    };
    for (rule, studio, ps, show, want) in [
        ("Ollama, loaded", none(), ps(loaded), Some(show.clone()), (Some(4096), false)),
        ("Ollama, num_ctx", none(), ps(json!([])), Some(show), (Some(16384), false)),
        ("Ollama, its default", none(), ps(json!([])), Some(plain), (Some(4096), true)),
        (
            "LM Studio, loaded",
            studio(json!({"loaded_context_length": 8192})),
            none(),
            None,
            (Some(8192), false),
        ),
        ("LM Studio, not loaded", studio(json!({})), none(), None, (Some(131_072), false)),
        ("neither", none(), none(), None, (None, false)),
    ] {
        let server = MockServer::with(move |request| {
            assert_eq!(request.path, "/api/show");
            assert_eq!(
                serde_json::from_slice::<serde_json::Value>(&request.body).unwrap(),
                json!({"model": "m:7b"})
            );
            show.as_ref().map_or_else(|| Reply::json(404, &json!({})), |show| Reply::json(200, show))
        })
        .get("/v1/models", listed())
        .get("/props", Reply::json(404, &json!({})))
        .get("/api/v0/models", studio)
        .get("/api/ps", ps);
        let (settings, _) = settings(&server.url());
        let found = probe::describe(&ModelRef::openai("m:7b".into()), None, &settings).await.unwrap();
        assert_eq!((found.window, found.assumed), want, "{rule}");
    }
}
