//! A headless run that has answered is done: the result is the last line of its turn, and nothing is paid for after it.
//! `/compact` as a prompt is a compaction with a result of its own.

use crate::compaction::{SUMMARY, asks_for_summary};
use crate::support::{Api, Bench, Running, run, run_with, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// Five calls of 6 kB, then an answer that fills a context of 32k; short answers from then on.
fn model() -> MockServer {
    let mut n = 0;
    MockServer::with(move |request| {
        let tokens = request.text().len() as u64 / 4;
        if asks_for_summary(request) {
            return Answer::text(SUMMARY).usage(tokens, 200).into();
        }
        n += 1;
        let answer = match n {
            1..=5 => {
                let command = format!("seq -w {n}00000 {n}01000 | head -c 6000");
                Answer::text("looking").and_tool(&format!("call_{n}"), "bash", json!({ "command": command }))
            }
            6 => return Answer::text("the first answer").usage(23_000, 10).into(),
            _ => Answer::text(format!("answer {n}")),
        };
        answer.usage(tokens, 10).into()
    })
}

const ARGS: [&str; 4] = ["--context-window", "32000", "--permission-mode", "bypassPermissions"];

fn summaries(server: &MockServer) -> usize {
    server.requests().iter().filter(|request| asks_for_summary(request)).count()
}

#[test]
fn the_result_is_the_last_line_of_each_turn_and_a_compaction_belongs_to_the_next_prompt() {
    let bench = Bench::new(&[]);
    let server = model();
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(ARGS).args([
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--replay-user-messages",
    ]);
    let mut running = Running::start(&mut command);
    let is_result = |line: &str| line.contains(r#""type":"result""#);
    let mut turn = |text: &str| {
        running.send(format!("{}\n", says(text)).as_bytes());
        serde_json::from_str::<Value>(&running.line(is_result)).unwrap()
    };
    assert_eq!(turn("the task")["result"], "the first answer");
    assert_eq!(summaries(&server), 0, "the first turn pays for no compaction");
    assert_eq!(turn("and now?")["result"], "answer 7");
    assert_eq!(summaries(&server), 1);
    let requests = server.requests().len();
    let nothing = turn("/compact the port");
    assert_eq!((&nothing["subtype"], &nothing["num_turns"]), (&json!("success"), &json!(0)), "{nothing}");
    assert!(nothing["compaction"]["pre_tokens"].is_u64());
    assert!(server.requests()[requests..].iter().all(asks_for_summary), "no turn of the model");
    let ran = running.wait().expect(0);
    let lines = ran.lines();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line["type"] == "result") {
        let next = lines.get(at + 1);
        let begins = |l: &Value| {
            l["isReplay"] == true
                || l["subtype"] == "init"
                || l["status"] == "compacting"
                || l["type"] == "result"
        };
        assert!(next.is_none_or(begins), "after {line}: {next:?}");
    }
    assert_eq!(lines.last().unwrap()["type"], "result");
}

#[test]
fn compact_as_the_prompt_of_a_run_compacts_the_session_it_goes_on_with() {
    for format in ["text", "json", "stream-json"] {
        let bench = Bench::new(&[]);
        let server = model();
        run(bench.print(Api::Anthropic, &server).args(ARGS).arg("the task")).expect(0);
        assert_eq!(summaries(&server), 0, "{format}: a run that ends pays for no compaction");
        let before = server.requests().len();
        let ran = run(bench.print(Api::Anthropic, &server).args(ARGS).args([
            "--continue",
            "--output-format",
            format,
            "/compact the port",
        ]))
        .expect(0);
        let asked = &server.requests()[before..];
        assert_eq!((asked.len(), asks_for_summary(&asked[0])), (1, true), "{format}");
        assert!(asked[0].text().contains("the port"), "{format}: the focus reaches the summariser");
        let said = if format == "text" {
            ran.stdout.clone()
        } else {
            ran.result()["result"].as_str().unwrap().to_owned()
        };
        assert!(said.starts_with("The context was compacted from "), "{format}: {said}");
        if format != "text" {
            let sizes = &ran.result()["compaction"];
            assert!(sizes["post_tokens"].as_u64() < sizes["pre_tokens"].as_u64(), "{sizes}");
        }
        let kinds: Vec<Value> = bench.entries().into_iter().filter(|e| e["kind"] == "compaction").collect();
        assert_eq!((kinds.len(), &kinds[0]["trigger"]), (1, &json!("manual")));
        let ran =
            run(bench.print(Api::Anthropic, &server).args(ARGS).args(["--continue", "and now?"])).expect(0);
        assert_eq!(ran.stdout, "answer 7\n");
    }
}

#[test]
fn other_commands_of_the_terminal_are_text_or_told_apart() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("ok").into());
    run(bench.print(Api::Anthropic, &server).arg("/frobnicate it")).expect(0);
    assert!(server.requests()[0].text().contains("/frobnicate it"));
    let ran = run(bench.print(Api::Anthropic, &server).arg("/compact undo")).expect(2);
    assert!(ran.stderr.contains("becket compact --undo"), "{}", ran.stderr);
    let input = format!("{}\n{}\n", says("/compact redo"), says("hello"));
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    let ran = run_with(&mut command, input.as_bytes()).expect(0);
    assert!(ran.stderr.contains("becket compact --redo"), "{}", ran.stderr);
    assert_eq!(ran.result()["result"], "ok");
}
