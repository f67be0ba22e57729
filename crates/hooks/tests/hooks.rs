//! Real programs and a real server as hooks: what they decide, and what happens when they hang, flood, crash or print nonsense.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use becket_hooks::{Engine, EngineSettings, Origin, Source, parse};
use becket_types::{HookCall, HookEvent, HookOutcome, HookPermission, HookResult};
use serde_json::{Map, Value, json};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn engine(dir: &Path, hooks: Value) -> Engine {
    engine_of(dir, hooks, Origin::User)
}

fn engine_of(dir: &Path, hooks: Value, origin: Origin) -> Engine {
    let source = Source { origin, place: "test".into(), confined: false };
    let parsed = parse(&hooks, &source);
    assert_eq!(parsed.warnings, Vec::<String>::new());
    let path = std::env::var_os("PATH").unwrap();
    let settings = EngineSettings {
        project: dir.to_owned(),
        variables: vec![
            ("PATH".into(), path),
            ("TOKEN".into(), "sesame".into()),
            ("OTHER".into(), "x".into()),
        ],
        ..EngineSettings::default()
    };
    Engine::new(parsed.groups, settings)
}

fn call(event: HookEvent, dir: &Path) -> HookCall {
    let mut input = Map::new();
    input.insert("cwd".into(), json!(dir));
    input.insert("hook_event_name".into(), json!(event.as_str()));
    input.insert("tool_input".into(), json!({"command": "rm -rf /"}));
    HookCall { event, subject: Some("Bash".into()), call_id: None, input, watch: None }
}

fn command(text: &str) -> Value {
    json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": text}]}]})
}

async fn asked(hooks: Value) -> HookOutcome {
    let dir = tempfile::tempdir().unwrap();
    engine(dir.path(), hooks).run(call(HookEvent::PreToolUse, dir.path())).await
}

#[tokio::test]
async fn what_a_program_says_decides() {
    let deny = |reason: &str| Some(HookPermission::Deny { reason: reason.into() });
    let json = r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"never"}}'"#;
    for (text, permission, result, detail) in [
        ("true", None, HookResult::Ok, ""),
        ("echo just words", None, HookResult::Ok, ""),
        ("echo no >&2; exit 2", deny("no"), HookResult::Blocked, "deny: no"),
        (json, deny("never"), HookResult::Blocked, "deny: never"),
        (
            "grep -q 'rm -rf' && { echo dangerous >&2; exit 2; }",
            deny("dangerous"),
            HookResult::Blocked,
            "deny: dangerous",
        ),
        // A line of a shell's profile stands before the answer.
        (&format!("echo ready; {json}"), deny("never"), HookResult::Blocked, "deny: never"),
        (
            &format!("echo ready; {json}; echo done"),
            None,
            HookResult::Failed,
            "it printed JSON with a decision",
        ),
        ("echo oops >&2; exit 1", None, HookResult::Failed, "it ended with exit code 1: oops"),
        ("kill -SEGV $$", None, HookResult::Failed, "it was killed by signal 11"),
        ("/no/such/program", None, HookResult::Failed, "it ended with exit code 127"),
        ("echo '{\"decision\": '", None, HookResult::Failed, "it printed JSON that is wrong"),
        (
            "echo '{\"decision\": \"perhaps\"}'",
            None,
            HookResult::Failed,
            "its decision \"perhaps\" is unknown",
        ),
        ("yes", None, HookResult::Failed, "it printed more than 1 MB"),
        ("yes >&2", None, HookResult::Failed, "it printed more than 1 MB"),
    ] {
        let outcome = asked(command(text)).await;
        assert_eq!(outcome.permission, permission, "{text}");
        assert_eq!(outcome.runs.len(), 1, "{text}");
        assert_eq!(outcome.runs[0].result, result, "{text}: {:?}", outcome.runs);
        assert!(outcome.runs[0].detail.starts_with(detail), "{text}: {}", outcome.runs[0].detail);
        let failed = result == HookResult::Failed;
        assert_eq!(
            outcome.messages.iter().filter(|message| message.warning).count(),
            usize::from(failed),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_hook_that_hangs_is_ended_with_everything_that_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let text = format!("sleep 300 & echo $! >'{}'; wait", pids.display());
    let hooks = json!({"PreToolUse": [{"hooks": [{"type": "command", "command": text, "timeout": 0.5}]}]});
    let began = Instant::now();
    let outcome = engine(dir.path(), hooks).run(call(HookEvent::PreToolUse, dir.path())).await;
    assert!(began.elapsed() < Duration::from_mins(1));
    assert_eq!(outcome.runs[0].result, HookResult::TimedOut);
    assert_eq!(outcome.permission, None);
    let pid = std::fs::read_to_string(&pids).unwrap();
    // The whole process group was killed: the child is a zombie or gone.
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let ended = |stat: &str| stat.is_empty() || stat.contains(") Z");
    // The signal was sent; the kernel may take a moment to carry it out.
    while !ended(&stat()) && began.elapsed() < Duration::from_mins(1) {
        std::thread::yield_now();
    }
    assert!(ended(&stat()), "{}", stat());
}

#[tokio::test]
async fn a_hook_that_cannot_answer_refuses_where_it_is_told_to() {
    for text in ["exit 1", "yes", "echo '{'", "sleep 300"] {
        let hooks = json!({"PreToolUse": [{"on_failure": "block", "hooks": [
            {"type": "command", "command": text, "timeout": 1}
        ]}]});
        let outcome = asked(hooks).await;
        assert!(matches!(outcome.permission, Some(HookPermission::Deny { .. })), "{text}: {outcome:?}");
        assert!(outcome.messages[0].text.ends_with("(on_failure: block)"), "{text}");
    }
}

#[tokio::test]
async fn fifty_hooks_run_beside_one_another_and_the_strictest_wins() {
    let dir = tempfile::tempdir().unwrap();
    let mut hooks: Vec<Value> = (0..50)
        .map(|n| json!({"type": "command", "command": format!("sleep 1; echo '{{\"systemMessage\":\"{n}\"}}'")}))
        .collect();
    hooks.push(json!({"type": "command", "command": "echo last >&2; exit 2"}));
    // A hook that is configured twice runs once.
    hooks.push(json!({"type": "command", "command": "echo last >&2; exit 2"}));
    let engine = engine(dir.path(), json!({"PreToolUse": [{"hooks": hooks}]}));
    let began = Instant::now();
    let outcome = engine.run(call(HookEvent::PreToolUse, dir.path())).await;
    assert!(began.elapsed() < Duration::from_secs(45), "one after the other they take 50 s");
    assert_eq!(outcome.runs.len(), 51);
    assert_eq!(outcome.permission, Some(HookPermission::Deny { reason: "last".into() }));
    let order: Vec<String> = outcome.messages.iter().map(|message| message.text.clone()).collect();
    assert_eq!(order, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn only_hooks_that_match_run_and_those_of_once_run_once() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(
        dir.path(),
        json!({
            "PreToolUse": [
                {"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "exit 2"}]},
                {"matcher": "Ba.*", "hooks": [{"type": "command", "command": "echo '{\"systemMessage\":\"one\"}'", "once": true}]}
            ],
            "SessionStart": [{"matcher": "resume", "hooks": [{"type": "command", "command": "echo context"}]}]
        }),
    );
    let bash = call(HookEvent::PreToolUse, dir.path());
    assert_eq!(engine.status(&bash), Some(None));
    assert_eq!(engine.run(bash.clone()).await.messages.len(), 1);
    assert_eq!(engine.status(&bash), None);
    assert_eq!(engine.run(bash).await.runs.len(), 0);
    assert!(engine.listens(HookEvent::SessionStart) && !engine.listens(HookEvent::Stop));
    let start =
        |source: &str| HookCall { subject: Some(source.into()), ..call(HookEvent::SessionStart, dir.path()) };
    assert_eq!(engine.run(start("startup")).await.context.len(), 0);
    assert_eq!(engine.run(start("resume")).await.context[0].text, "context");
}

#[tokio::test]
async fn callbacks_are_hooks_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let engine =
        engine(dir.path(), json!({"PreToolUse": [{"hooks": [{"type": "callback", "id": "hook_0"}]}]}));
    let unanswered = engine.run(call(HookEvent::PreToolUse, dir.path())).await;
    assert_eq!(unanswered.runs[0].result, HookResult::Failed);
    engine.set_callback(Arc::new(|id, input, tool_use| {
        Box::pin(async move {
            assert_eq!((id.as_str(), tool_use.as_deref()), ("hook_0", Some("toolu_1")));
            assert_eq!(input["tool_input"]["command"], "rm -rf /");
            Ok(json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow",
                "updatedInput": {"command": "ls"}}}))
        })
    }));
    let call = HookCall { call_id: Some("toolu_1".into()), ..call(HookEvent::PreToolUse, dir.path()) };
    let outcome = engine.run(call).await;
    assert!(matches!(outcome.permission, Some(HookPermission::Allow { .. })));
    assert_eq!(outcome.updated_input, Some(json!({"command": "ls"})));
}

/// A server that answers each request with this, and gives what it was sent.
fn server(answer: String) -> (String, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let n = stream.read(&mut buffer).unwrap();
            bytes.extend_from_slice(&buffer[..n]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let length = text
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if let (Some(length), Some((_, body))) = (length, text.split_once("\r\n\r\n"))
                && body.len() >= length
            {
                stream.write_all(answer.as_bytes()).unwrap();
                return text;
            }
            assert!(n > 0, "the request ended early");
        }
    });
    (url, served)
}

#[tokio::test]
async fn an_address_is_asked_with_the_headers_that_it_may_have() {
    let body = r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"by http"}}"#;
    let (url, served) = server(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    let hooks = json!({"PreToolUse": [{"hooks": [{"type": "http", "url": url,
        "headers": {"authorization": "Bearer $TOKEN", "x-other": "${OTHER}"}, "allowedEnvVars": ["TOKEN"]}]}]});
    let outcome = asked(hooks).await;
    assert_eq!(outcome.permission, Some(HookPermission::Deny { reason: "by http".into() }));
    let request = served.join().unwrap();
    assert!(
        request.contains("authorization: Bearer sesame") && request.contains("x-other: ${OTHER}"),
        "{request}"
    );
    assert!(request.contains(r#""command":"rm -rf /""#), "{request}");
}

#[tokio::test]
async fn redirects_errors_and_private_addresses_of_projects_are_failures() {
    let (url, served) =
        server("HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n".into());
    let http = |url: &str| json!({"PreToolUse": [{"hooks": [{"type": "http", "url": url}]}]});
    let outcome = asked(http(&url)).await;
    assert!(outcome.runs[0].detail.contains("redirects to http://169.254.169.254/"), "{:?}", outcome.runs);
    served.join().unwrap();
    let (url, served) = server("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".into());
    assert!(asked(http(&url)).await.runs[0].detail.contains("500"));
    served.join().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for url in ["http://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/", "http://169.254.169.254/"] {
        let engine = engine_of(dir.path(), http(url), Origin::Project);
        let outcome = engine.run(call(HookEvent::PreToolUse, dir.path())).await;
        assert!(
            outcome.runs[0].detail.contains("a project's hook does not go there"),
            "{url}: {:?}",
            outcome.runs
        );
    }
}
