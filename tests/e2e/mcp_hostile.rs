//! MCP servers that lead elsewhere, or die at any moment: real servers on this machine.

use crate::support::{Api, Bench, Running, run, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Answers each connection with `answer`. Returns the port, and the number of connections so far.
fn serve(answer: String) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 16 * 1024]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (port, count)
}

#[test]
fn a_redirect_to_another_address_is_refused_before_it_is_asked() {
    let (inner, reached) =
        serve("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned());
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let (outer, asked) = serve(format!(
            "HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:{inner}/latest/meta-data\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ));
        for kind in ["http", "sse"] {
            let bench = Bench::new(&[]);
            let headers = json!({ "Authorization": "Bearer secret" });
            let server =
                json!({ "type": kind, "url": format!("http://127.0.0.1:{outer}/mcp"), "headers": headers });
            run(bench.command().args(["mcp", "add-json", "far", &server.to_string()])).expect(0);
            let told = run(bench.command().args(["mcp", "get", "far", "--json"])).expect(0).stdout;
            let told: Value = serde_json::from_str(&told).unwrap();
            assert_eq!(told["status"], "failed", "{status} {kind}: {told}");
            let why = told["error"].as_str().unwrap();
            assert!(why.contains("redirects to") && why.contains("is refused"), "{status} {kind}: {why}");
        }
        assert!(asked.load(Ordering::SeqCst) >= 2);
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0, "the other address was asked");
}

/// A server in Python that writes its process id to `pid` and takes a moment for each call.
const SLOW: &str = r#"
import json, os, sys, time
with open("pid", "w") as file:
    file.write(str(os.getpid()))
tools = [{"name": "wait", "description": "Waits.", "inputSchema": {"type": "object"}}]
results = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
    "tools/list": {"tools": tools},
    "tools/call": {"content": [{"type": "text", "text": "waited"}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        if request["method"] == "tools/call":
            time.sleep(0.05)
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results.get(request["method"], {})}), flush=True)
"#;

/// Number of kills. The nightly run sets a higher one with `BECKET_TEST_KILLS`.
fn kills() -> u64 {
    std::env::var("BECKET_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

#[test]
fn a_server_that_is_killed_at_any_moment_ends_no_turn() {
    let bench = Bench::new(&[("server.py", SLOW)]);
    // Every second request calls the server, and the one after it ends the turn.
    let mut step = 0;
    let server = MockServer::with(move |_| {
        step += 1;
        match step % 2 {
            1 => Answer::tool(&format!("c{step}"), "mcp__s__wait", json!({})).into(),
            _ => Answer::text("went on").into(),
        }
    });
    let config =
        json!({ "mcpServers": { "s": { "command": "python3", "args": ["server.py"] } } }).to_string();
    let mut running = Running::start(bench.print(Api::Anthropic, &server).args([
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "bypassPermissions",
        "--mcp-config",
        &config,
    ]));
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    for round in 0..kills() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        running.send(format!("{}\n", says(&format!("round {round}"))).as_bytes());
        // One of three moments of a turn: before the call, while it runs, after it.
        let moment =
            ["\"subtype\":\"init\"", "\"type\":\"assistant\"", "\"tool_result\""][(state % 3) as usize];
        running.line(|line| line.contains(moment));
        // In the first rounds the server may not run yet.
        let pid = std::fs::read_to_string(bench.project.root().join("pid")).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse::<i32>() {
            let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).output();
        }
        let result: Value =
            serde_json::from_str(&running.line(|line| line.contains("\"type\":\"result\""))).unwrap();
        assert_eq!(result["result"], "went on", "round {round}, {moment}: {result}");
    }
    running.close_stdin();
    assert_eq!(running.wait().code, 0);
    let last = std::fs::read_to_string(bench.project.root().join("pid")).unwrap();
    let left = std::fs::read(format!("/proc/{}/cmdline", last.trim())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&left).contains("server.py"), "the server is left: {last}");
}
