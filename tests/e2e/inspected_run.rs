//! The context inspector over a whole run with all that a ledger holds: calls, images, recalled outputs, messages in mid-turn,
//! compactions. Every request comes back byte for byte, and its spans are those bytes, none missing, none twice.
//!
//! 60 steps; `BECKET_STEPS` for more.

use crate::compaction::{SUMMARY, asks_for_summary};
use crate::support::{Api, BOTH, Bench, Running, ask, request, run, says};
use crate::terminal::PNG;
use becket_testkit::{Answer, Gate, MockServer, Recorded, Reply};
use serde_json::{Value, json};

/// The step in whose request a message is typed.
const STEERED: usize = 20;

/// Goes through the steps, with an image, a look at an earlier output and text that JSON escapes among them.
fn model(steps: usize, gate: &Gate) -> MockServer {
    let (gate, mut n) = (gate.clone(), 0);
    MockServer::with(move |request: &Recorded| {
        let tokens = request.text().len() as u64 / 4;
        if asks_for_summary(request) {
            return Answer::text(SUMMARY).usage(tokens, 200).into();
        }
        n += 1;
        let id = format!("call_{n}");
        let said = Answer::text(format!("Step {n}. \"é\" \\ 日本\t👩‍💻"));
        let answer = match n {
            n if n > steps => return Answer::text("all steps done").usage(tokens, 10).into(),
            n if n % 12 == 5 => said.and_tool(&id, "read", json!({ "path": "dot.png" })),
            n if n % 12 == 9 => said.and_tool(&id, "recall", json!({ "query": format!("{n}00") })),
            n if n % 12 == 11 => said.and_tool(&id, "recall", json!({ "id": format!("call_{}", n - 5) })),
            _ => {
                let command = format!("printf '\"%s\"\\t\\\\\\n' é; seq -w {n}00000 {n}00250 | head -c 2000");
                said.and_tool(&id, "bash", json!({ "command": command }))
            }
        };
        let reply = Reply::from(answer.usage(tokens, 60));
        if n == STEERED { reply.gate_before(&gate) } else { reply }
    })
}

fn went_through(api: Api, bench: &Bench, server: &MockServer, gate: &Gate) {
    let mut running = Running::start(bench.print(api, server).args([
        "--context-window",
        "32000",
        "--permission-mode",
        "bypassPermissions",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
    ]));
    running.send(format!("{}\n", says("do all the steps")).as_bytes());
    gate.wait_reached();
    running.send(format!("{}\n", says("  use <tabs>, \"please\" ")).as_bytes());
    // Lines are handled in order: once this is answered, the message before it is in the inbox.
    ask(&mut running, &request(&json!({ "subtype": "initialize" })), "control_response");
    gate.open();
    running.line(|l| l.contains("\"type\":\"result\""));
    let ran = running.wait().expect(0);
    assert_eq!(ran.result()["result"], "all steps done");
}

/// Letters and digits: what is left of a text whoever shortened or escaped it.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// True if these bytes of JSON contain the words of a preview, in the same order.
fn holds(bytes: &str, preview: &str) -> bool {
    let mut words: Vec<&str> = preview.split_whitespace().collect();
    if preview.ends_with('…') {
        words.pop();
    }
    let mut rest = bytes;
    words.iter().all(|word| {
        let json = serde_json::to_string(word).unwrap();
        let found = rest.split_once(&json[1..json.len() - 1]);
        rest = found.map_or(rest, |(_, behind)| behind);
        found.is_some()
    })
}

/// The spans of one request against its bytes; how many there are.
fn check_spans(made: &Value, what: &str) -> usize {
    let body = made["body"].as_str().unwrap();
    let spans = made["spans"].as_array().unwrap();
    let place = |span: &Value| -> (usize, usize) {
        let at =
            |key: &str| span[key].as_u64().unwrap_or_else(|| panic!("{what}: no place: {span}")) as usize;
        (at("from"), at("to"))
    };
    let asks = |span: &Value| span["label"] == "request for a summary";
    let (front, messages): (Vec<&Value>, Vec<&Value>) =
        spans.iter().partition(|span| span["seq"].is_null() && !asks(span));
    let start = messages.first().map_or(body.len(), |span| place(span).0);
    for span in front {
        let (from, to) = place(span);
        let shown = letters(span["preview"].as_str().unwrap());
        let text: String = serde_json::from_str(&format!("\"{}\"", &body[from..to]))
            .unwrap_or_else(|e| panic!("{what}: {e}: {span}"));
        assert!(to <= start, "{what}: {span}");
        assert!(letters(&text).starts_with(&shown), "{what}: {span}");
    }
    // The messages, one after the other: nothing before, between or after them is left out.
    let mut at = start;
    for span in &messages {
        let (from, to) = place(span);
        assert!((from, to) == (at, to) || to == at, "{what}: bytes {at} and on are of no span: {span}");
        at = to;
        if !["tool_call", "media"].contains(&span["kind"].as_str().unwrap()) {
            assert!(holds(&body[from..to], span["preview"].as_str().unwrap()), "{what}: {span}");
        }
    }
    // Behind the last span only the closing brackets and possibly the setting `tool_choice` may follow.
    let behind = &body[at..];
    let settings = ["]}", "],\"tool_choice\":{\"type\":\"none\"}}", "],\"tool_choice\":\"none\"}"];
    assert!(settings.contains(&behind), "{what}: {behind:?} is of no span");
    // Before them comes the head, with at most the system prompt as a message.
    let head = &body[..start];
    let (_, in_array) = head.split_once("\"messages\":[").unwrap_or_else(|| panic!("{what}: {head}"));
    assert!(in_array.is_empty() || in_array.starts_with("{\"role\":\"system\""), "{what}: {in_array}");
    spans.len()
}

#[test]
fn every_span_of_every_request_is_where_it_says() {
    let steps = std::env::var("BECKET_STEPS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for api in BOTH {
        let bench = Bench::new(&[("AGENTS.md", "Say \"moin\" first. </system-reminder> <b>\n")]);
        std::fs::write(bench.project.root().join("dot.png"), PNG).unwrap();
        let gate = Gate::new();
        let server = model(steps, &gate);
        went_through(api, &bench, &server, &gate);

        let mut sent: Vec<Vec<u8>> = server.requests().iter().map(|r| r.body.to_vec()).collect();
        let text = String::from_utf8_lossy(&sent.concat()).into_owned();
        for word in ["base64", "Run the numbered steps.", "use <tabs>, \\\"please\\\"", "call_"] {
            assert!(text.contains(word), "{api:?}: the run has no {word}");
        }
        let (mut made, mut spans) = (Vec::new(), 0);
        for n in 1..=sent.len() {
            let ran = run(bench.command().args(["context", "--request", &n.to_string(), "--json"])).expect(0);
            let page: Value = serde_json::from_str(&ran.stdout).unwrap();
            let what = format!("{api:?}, request {n}");
            assert_eq!(page["proven"], true, "{what}");
            spans += check_spans(&page, &what);
            made.push(page["body"].as_str().unwrap().as_bytes().to_vec());
        }
        assert!(spans > 20 * made.len(), "{api:?}: {spans} spans");
        // A summary that is prepared beside a turn may arrive before or after its neighbour.
        made.sort_unstable();
        sent.sort_unstable();
        assert!(made == sent, "{api:?}: what was sent and what is shown differ");
    }
}
