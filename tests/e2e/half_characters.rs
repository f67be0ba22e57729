//! Half of a surrogate pair (`\ud83d` alone), as programs in JavaScript write it, and a byte order mark, as programs on Windows
//! write it, in everything that becket reads from others: neither may cost a decision, a message or an answer.

use crate::support::{Api, Bench, Running, ask, run, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];
const MARK: &str = "\u{feff}";

fn touch() -> Answer {
    Answer::tool("c1", "bash", json!({ "command": "touch made" }))
}

#[test]
fn a_hook_and_a_settings_file_still_deny() {
    let answer = format!(r#"{MARK}{{"decision":"block","reason":"not this \ud83d"}}"#);
    let hook = |command: &str| json!([{ "hooks": [{ "type": "command", "command": command }] }]);
    let hooks = json!({ "hooks": { "PreToolUse": hook("cat answer.json") } }).to_string();
    let rules = format!(r#"{MARK}{{"//": "cut \ud83d", "permissions": {{"deny": ["Bash(touch *)"]}}}}"#);
    for (settings, reason) in [(hooks, "not this \u{fffd}"), (rules, "the rule Bash(touch *)")] {
        let bench = Bench::new(&[("answer.json", &answer)]);
        bench.home.write(".claude/settings.json", settings);
        let server = MockServer::start([touch(), Answer::text("done")]);
        let ran = run(bench.print(Api::Anthropic, &server).args(BYPASS).arg("go"));
        assert!(!bench.project.exists("made"), "{ran:?}");
        let request = server.requests()[1].text().to_owned();
        assert!(request.contains(reason), "{reason}: {request}");
    }
}

#[test]
fn a_program_gets_its_result_and_its_answer_counts() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([touch(), Answer::text("done"), Answer::text("again")]);
    let mut running = Running::start(bench.print(Api::Anthropic, &server).args([
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-prompt-tool",
        "stdio",
    ]));
    let question = ask(&mut running, &says("go"), "can_use_tool");
    let answer = format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{},"response":{{"behavior":"deny","message":"no \ud83d"}}}}}}"#,
        question["request_id"]
    );
    running.send(format!("{answer}\n").as_bytes());
    running.line(|line| line.contains("\"type\":\"result\""));
    assert!(server.requests()[1].text().contains("no \u{fffd}"), "{}", server.requests()[1].text());
    let message = r#"{"type":"user","message":{"role":"user","content":"cut \ud83d"}}"#;
    running.send(format!("{MARK}{message}\n").as_bytes());
    let result: Value =
        serde_json::from_str(&running.line(|line| line.contains("\"type\":\"result\""))).unwrap();
    assert_eq!(result["result"], "again");
    assert!(server.requests()[2].text().contains("cut \u{fffd}"));
    running.close_stdin();
    running.wait();
}

/// A server in Python that answers as JSON on standard output, or as events over HTTP.
const CUTTING: &str = r#"
import json, os, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer

def answer(request):
    method = request["method"]
    results = {
        "initialize": '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}',
        "tools/list": '{"tools":[{"name":"t","description":"d \\ud83d","inputSchema":{"type":"object"}}]}',
        "tools/call": '{"content":[{"type":"text","text":"cut \\ud83d"}]}',
    }
    head = '{"jsonrpc":"2.0","id":%s,' % json.dumps(request["id"])
    if method not in results:
        return head + '"error":{"code":-32601,"message":"no such method"}}'
    return head + '"result":' + results[method] + "}"

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *words):
        pass
    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_DELETE = do_GET
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = b""
        if "id" in request:
            body = ("data: " + answer(request) + "\n\n").encode()
        self.send_response(200 if body else 202)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

if sys.argv[1] == "http":
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    # Ends with the test, also with one that fails.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.serve_forever()
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(answer(request), flush=True)
"#;

#[test]
fn a_result_of_a_server_arrives_over_each_transport() {
    let bench = Bench::new(&[("server.py", CUTTING)]);
    let mut peer = Running::start(
        std::process::Command::new("python3").arg(bench.project.path("server.py")).arg("http"),
    );
    let port = peer.line(|_| true);
    let url = format!("http://127.0.0.1:{}/mcp", port.trim());
    for config in [
        json!({ "command": "python3", "args": ["server.py", "stdio"] }),
        json!({ "type": "http", "url": url }),
    ] {
        let server = MockServer::start([Answer::tool("c1", "mcp__s__t", json!({})), Answer::text("done")]);
        let servers = json!({ "mcpServers": { "s": config } }).to_string();
        let ran =
            run(bench.print(Api::Anthropic, &server).args(BYPASS).args(["go", "--mcp-config", &servers]));
        let text = server.requests().last().map(|request| request.text().to_owned()).unwrap_or_default();
        assert!(text.contains("cut \u{fffd}"), "{config}: {ran:?} {text}");
    }
    peer.wait();
}
