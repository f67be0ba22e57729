//! Tests what a headless run prints on stdout, and the flags that change it.

use crate::support::{Api, BOTH, Bench, Running, run, run_with};
use becket_testkit::{Answer, Gate, MockServer, Reply};
use serde_json::json;

#[test]
fn stream_json_has_the_known_events_in_order() {
    for api in BOTH {
        let bench = Bench::new(&[("a.txt", "A\n")]);
        let server = MockServer::start([
            Answer::text("Reading.").and_tool("c1", "read", json!({ "path": "a.txt" })),
            Answer::text("It says A."),
        ]);
        let ran = run(bench.print(api, &server).args(["--output-format", "stream-json", "--verbose", "go"]))
            .expect(0);
        let lines = ran.lines();
        let kinds: Vec<&str> =
            lines.iter().map(|l| l["type"].as_str().unwrap()).filter(|t| *t != "system").collect();
        assert_eq!(kinds, ["assistant", "user", "assistant", "result"], "{api:?}");
        assert_eq!(lines[0]["subtype"], "init");
        for tool in ["Read", "Edit", "Write", "Bash", "Grep", "Glob", "Skill", "TodoWrite", "recall"] {
            assert!(lines[0]["tools"].as_array().unwrap().contains(&json!(tool)), "{tool}");
        }
        let result = ran.result();
        assert_eq!(result["subtype"], "success");
        assert_eq!(result["is_error"], false);
        assert_eq!(result["num_turns"], 2);
        assert_eq!(result["permission_denials"], json!([]));
        assert!(result["usage"]["input_tokens"].is_u64() && result["total_cost_usd"].is_number());
        assert!(result["duration_ms"].is_u64());
    }
}

/// An image that a tool gave has the shape of Anthropic's API: inside the result, with its bytes.
#[test]
fn images_in_results_have_the_shape_of_the_api() {
    let bench = Bench::new(&[]);
    let mut png = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgb8(3, 2).write_to(&mut png, image::ImageFormat::Png).unwrap();
    bench.project.write("a.png", png.get_ref());
    let server =
        MockServer::start([Answer::tool("c1", "read", json!({ "path": "a.png" })), Answer::text("Black.")]);
    let ran =
        run(bench.print(Api::Anthropic, &server).args(["--output-format", "stream-json", "--verbose", "go"]))
            .expect(0);
    let user = ran.lines().into_iter().find(|line| line["type"] == "user").unwrap();
    let content = user["message"]["content"].as_array().unwrap().clone();
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("tool_result")), "{user}");
    let inside = &content[0]["content"];
    assert_eq!((&inside[0]["type"], &inside[1]["type"]), (&json!("text"), &json!("image")), "{user}");
    let source = &inside[1]["source"];
    assert_eq!((&source["type"], &source["media_type"]), (&json!("base64"), &json!("image/png")), "{user}");
    assert!(source["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "{user}");
}

#[test]
fn partial_messages_are_there_when_asked_for() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("one two three").deltas(4)]);
    let ran = run(bench.print(Api::Chat, &server).args([
        "--output-format",
        "stream-json",
        "--include-partial-messages",
        "go",
    ]))
    .expect(0);
    let text: String =
        ran.lines().iter().filter_map(|l| l["event"]["delta"]["text"].as_str().map(str::to_owned)).collect();
    assert_eq!(text, "one two three");
}

#[test]
fn what_would_ask_is_denied_told_to_the_model_and_listed() {
    for api in BOTH {
        let bench = Bench::new(&[(".env", "TOKEN=abc\n")]);
        let server = MockServer::start([
            Answer::tool("c1", "write", json!({ "path": "x.txt", "content": "x" })).and_tool(
                "c2",
                "read",
                json!({ "path": ".env" }),
            ),
            Answer::text("I may not."),
        ]);
        let ran = run(bench.print(api, &server).args(["--output-format", "json", "go"])).expect(5);
        assert!(!bench.project.exists("x.txt"));
        let denials = ran.lines()[0]["permission_denials"].clone();
        let names: Vec<&str> =
            denials.as_array().unwrap().iter().map(|d| d["tool_name"].as_str().unwrap()).collect();
        assert_eq!(names, ["Write", "Read"], "{api:?}");
        assert_eq!(ran.stderr.matches("becket: denied: ").count(), 2, "{}", ran.stderr);
        assert!(!server.requests()[1].text().contains("TOKEN=abc"));
    }
}

#[test]
fn rules_allow_what_they_name_and_nothing_else() {
    let bench = Bench::new(&[]);
    let call = |id: &str, command: &str| Answer::tool(id, "bash", json!({ "command": command }));
    let server = MockServer::start([
        call("c1", "echo one > one.txt"),
        call("c2", "echo two > two.txt; touch three.txt"),
        Answer::text("done"),
    ]);
    let ran = run(bench.print(Api::Chat, &server).args([
        "--allowedTools",
        "Bash(echo *)",
        "Edit",
        "--output-format",
        "json",
        "--",
        "go",
    ]));
    assert_eq!(bench.project.read("one.txt"), "one\n");
    assert!(!bench.project.exists("two.txt") && !bench.project.exists("three.txt"));
    assert_eq!(ran.lines()[0]["permission_denials"].as_array().unwrap().len(), 1);
}

#[test]
fn the_schema_is_met_or_the_exit_code_says_so() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("n is 4"), Answer::text("{\"n\": 4}")]);
    let ran =
        run(bench.print(Api::Chat, &server).args(["--json-schema", schema, "--output-format", "json", "go"]))
            .expect(0);
    assert_eq!(ran.lines()[0]["structured_output"], json!({ "n": 4 }));

    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("never").into());
    run(bench.print(Api::Chat, &server).args(["--json-schema", schema, "go"])).expect(6);
}

#[test]
fn sigint_ends_the_turn_with_a_result_and_sigterm_leaves_it_resumable() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let bench = Bench::new(&[]);
        let gate = Gate::new();
        let server = MockServer::start([
            Reply::from(Answer::text("never seen")).gate_before(&gate),
            Reply::from(Answer::text("after")),
        ]);
        let mut running = Running::start(bench.print(Api::Anthropic, &server).args([
            "--output-format",
            "stream-json",
            "go",
        ]));
        running.close_stdin();
        gate.wait_reached();
        running.signal(signal);
        let ran = running.wait().expect(code);
        let results = ran.lines().iter().filter(|l| l["type"] == "result").count();
        assert_eq!(results, usize::from(signal == "-INT"), "{signal}");
        let ran = run(bench.print(Api::Anthropic, &server).args(["-c", "go on"])).expect(0);
        assert_eq!(ran.stdout, "after\n");
    }
}

#[test]
fn an_interrupt_in_the_middle_of_a_command_says_that_its_effect_is_unknown() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool(
            "c1",
            "bash",
            json!({ "command": "echo started; touch started.txt; exec tail -f /dev/null" }),
        ),
        Answer::text("I see it was interrupted"),
    ]);
    let mut running = Running::start(bench.print(Api::Chat, &server).args([
        "--permission-mode",
        "bypassPermissions",
        "--output-format",
        "stream-json",
        "go",
    ]));
    running.close_stdin();
    while !bench.project.exists("started.txt") {
        std::thread::yield_now();
    }
    running.signal("-INT");
    running.wait().expect(130);
    run(bench.print(Api::Chat, &server).args(["-c", "what happened?"])).expect(0);
    let text = server.requests()[1].text().to_owned();
    assert!(text.contains("interrupted") && text.contains("unknown"), "{text}");
}

#[test]
fn stream_json_input_survives_bad_lines() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("ok")]);
    let input = b"nonsense\n\n{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n";
    let ran = run_with(
        bench.print(Api::Chat, &server).args([
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
        ]),
        input,
    );
    assert_eq!(ran.result()["result"], "ok");
    assert!(ran.stderr.contains("line 1"), "{}", ran.stderr);
}
