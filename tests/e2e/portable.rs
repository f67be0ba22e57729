//! Sessions that move: out as JSONL and as a page, in from becket and from other agents.

use crate::support::{Api, BOTH, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn export_import_export_is_byte_equal_and_the_import_goes_on() {
    let bench = Bench::new(&[("a.txt", &"a long line of text\n".repeat(4000))]);
    let server = MockServer::start([
        Answer::tool("c1", "read", json!({ "path": "a.txt" })),
        Answer::text("read it"),
        Answer::text("still here"),
    ]);
    run(bench.print(Api::Anthropic, &server).args(["--name", "moving", "read a.txt"])).expect(0);
    for blobs in [false, true] {
        let other = Bench::new(&[]);
        let export = |bench: &Bench| {
            let mut command = bench.command();
            command.args(["export", "moving", "--format", "jsonl"]).args(blobs.then_some("--blobs"));
            run(&mut command).expect(0).stdout
        };
        let first = export(&bench);
        other.project.write("moved.jsonl", &first);
        let import = |expected: &str| {
            let ran = run(other.command().args(["import", "moved.jsonl", "--here", "--trust"])).expect(0);
            assert!(ran.stdout.contains(expected), "{}", ran.stdout);
        };
        import("byte for byte");
        let listed = run(other.command().args(["sessions", "--all"])).expect(0).stdout;
        assert!(listed.contains(&*other.project.root().to_string_lossy()), "{listed}");
        assert_eq!(export(&other), first);
        import("already exists here");
        if blobs {
            assert!(first.contains("{\"blob\":\""));
            let went_on = run(other.print(Api::Anthropic, &server).args(["-c", "go on"])).expect(0);
            assert_eq!(went_on.stdout, "still here\n");
            assert!(server.requests().last().unwrap().text().contains("a long line of text"));
            // If the session has continued since the export, importing the file leads to that session. A file with more
            // entries than the session is refused, with a way to import it.
            import("it contains all of the file, and continues after it");
            bench.project.write("later.jsonl", export(&other));
            let refused = run(bench.command().args(["import", "later.jsonl"])).expect(2);
            assert!(refused.stderr.contains("parts of the file are missing from it"), "{}", refused.stderr);
            assert!(refused.stderr.contains("becket sessions rm"), "{}", refused.stderr);
        }
    }
}

fn lines(records: &[Value]) -> String {
    records.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

/// A session of Claude Code: an answer in several records, two calls side by side, a branch that was left, a subagent.
fn claude() -> String {
    let record = |uuid: &str, parent: Option<&str>, kind: &str, message: Value| {
        json!({"type": kind, "uuid": uuid, "parentUuid": parent, "isSidechain": false, "sessionId": "c0ffee00-0000-4000-8000-000000000000",
               "cwd": "/nowhere/on/this/machine", "version": "2.1.0", "timestamp": "2026-01-02T03:04:05.678Z", "message": message})
    };
    let block = |id: &str, content: Value| json!({"id": id, "role": "assistant", "model": "claude-opus-4-1", "content": [content]});
    let mut side = record("s1", None, "user", json!({"role": "user", "content": "for the subagent"}));
    side["isSidechain"] = json!(true);
    lines(&[
        json!({"type": "summary", "summary": "Fix the parser", "leafUuid": "a4"}),
        json!({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}, "isSnapshotUpdate": false}),
        record("u1", None, "user", json!({"role": "user", "content": "please fix src/parser.rs"})),
        record(
            "a1",
            Some("u1"),
            "assistant",
            block("m1", json!({"type": "thinking", "thinking": "hm", "signature": "sig"})),
        ),
        record(
            "a2",
            Some("a1"),
            "assistant",
            block(
                "m1",
                json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "src/parser.rs"}}),
            ),
        ),
        record(
            "a3",
            Some("a2"),
            "assistant",
            block(
                "m1",
                json!({"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "cargo test"}}),
            ),
        ),
        record(
            "r1",
            Some("a2"),
            "user",
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "fn parse() {}"}]}),
        ),
        record(
            "r2",
            Some("a3"),
            "user",
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": [{"type": "text", "text": "1 failed"}]}]}),
        ),
        record(
            "left",
            Some("r2"),
            "assistant",
            block("m9", json!({"type": "text", "text": "a branch that was left"})),
        ),
        side,
        record(
            "a4",
            Some("r2"),
            "assistant",
            block("m2", json!({"type": "text", "text": "The parser is fixed."})),
        ),
    ])
}

fn codex() -> String {
    let line = |kind: &str, payload: Value| json!({"timestamp": "2026-01-02T03:04:05.678Z", "type": kind, "payload": payload});
    let item = |payload: Value| line("response_item", payload);
    lines(&[
        line(
            "session_meta",
            json!({"id": "019a2d7a-41c4-78b1-b7cc-a45d62a89cd5", "cwd": "/nowhere", "cli_version": "0.156.1", "source": "cli"}),
        ),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>…</environment_context>"}]}),
        ),
        line("turn_context", json!({"cwd": "/nowhere", "model": "gpt-5-codex"})),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "please fix src/parser.rs"}]}),
        ),
        line("event_msg", json!({"type": "user_message", "message": "please fix src/parser.rs"})),
        item(
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "thinking"}], "encrypted_content": "gAAA"}),
        ),
        item(
            json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"cargo\",\"test\"]}", "call_id": "call_1"}),
        ),
        item(
            json!({"type": "function_call_output", "call_id": "call_1", "output": "{\"output\":\"1 failed\",\"metadata\":{\"exit_code\":101}}"}),
        ),
        item(
            json!({"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch\n*** End Patch", "call_id": "call_2"}),
        ),
        item(json!({"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done"})),
        item(
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "The parser is fixed."}]}),
        ),
    ])
}

fn opencode() -> String {
    let tool = |id: &str, name: &str, state: Value| json!({"type": "tool", "callID": id, "tool": name, "state": state});
    json!({
        "info": {"id": "ses_1", "title": "Fix the parser", "directory": "/nowhere", "version": "1.1.36", "time": {"created": 1_767_323_045_678_u64}},
        "messages": [
            {"info": {"id": "msg_1", "role": "user", "time": {"created": 1_767_323_045_678_u64}}, "parts": [{"type": "text", "text": "please fix src/parser.rs"}]},
            {"info": {"id": "msg_2", "role": "assistant", "time": {"created": 1_767_323_046_000_u64}, "providerID": "anthropic", "modelID": "claude-opus-4-1"}, "parts": [
                {"type": "step-start"}, {"type": "reasoning", "text": "hm"},
                tool("t1", "bash", json!({"status": "completed", "input": {"command": "cargo test"}, "output": "1 failed", "time": {"start": 1_767_323_047_000_u64}})),
                tool("t2", "edit", json!({"status": "error", "input": {"filePath": "src/parser.rs"}, "error": "no such text"})),
                {"type": "step-finish"}, {"type": "step-start"}, {"type": "patch", "hash": "x"},
                {"type": "text", "text": "The parser is fixed."}, {"type": "step-finish"}]},
        ],
    })
    .to_string()
}

/// The author of the file chose its mode and its folders. The user of the import did not.
#[test]
fn an_imported_session_brings_no_rights_of_its_own_and_neither_does_a_fork_of_it() {
    let bench = Bench::new(&[("a.txt", "x\n")]);
    let outside = Bench::new(&[("o.txt", "OUTSIDE TEXT\n")]);
    let folder = outside.project.root().canonicalize().unwrap();
    let server = MockServer::start([Answer::text("done")]);
    let given = ["--name", "given", "--permission-mode", "acceptEdits", "--add-dir"];
    run(bench.print(Api::Anthropic, &server).args(given).arg(&folder).args(["--", "go"])).expect(0);
    let file = run(bench.command().args(["export", "given", "--format", "jsonl"])).expect(0).stdout;
    assert!(file.contains("add_dirs") && file.contains("acceptEdits"), "{file}");
    let other = Bench::new(&[("a.txt", "x\n")]);
    other.project.write("given.jsonl", &file);
    run(other.command().args(["import", "given.jsonl", "--here"])).expect(0);
    run(other.command().args(["sessions", "fork", "given", "--name", "fork"])).expect(0);
    for session in ["given", "fork", "given", "fork"] {
        let server = MockServer::start([
            Answer::tool("1", "read", json!({"path": folder.join("o.txt")}))
                .and_tool("2", "write", json!({"path": folder.join("new.txt"), "content": "x"}))
                .and_tool("3", "write", json!({"path": "inside.txt", "content": "x"})),
            Answer::text("done"),
        ]);
        run(other.print(Api::Anthropic, &server).args(["--resume", session, "--", "go on"])).expect(5);
        assert!(!folder.join("new.txt").exists() && !other.project.exists("inside.txt"), "{session}");
        assert!(!server.requests().last().unwrap().text().contains("OUTSIDE TEXT"), "{session}");
    }
}

#[test]
fn sessions_of_other_agents_come_with_their_calls_and_go_on_with_any_model() {
    for (name, text, calls, left_out) in [
        ("Claude Code", claude(), 2, "messages of subagents"),
        ("Codex", codex(), 2, "encrypted reasoning"),
        ("opencode", opencode(), 2, "snapshots of files"),
    ] {
        for api in BOTH {
            let bench = Bench::new(&[("old.jsonl", &text)]);
            let server = MockServer::start([Answer::text("one more turn")]);
            let listed = run(bench.command().args(["import", "old.jsonl", "--json"])).expect(0);
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            assert_eq!(
                (&listed["source"], &listed["calls"], &listed["results"]),
                (&json!(name), &json!(calls), &json!(2))
            );
            assert!(listed["left_out"][left_out].as_u64() > Some(0), "{listed}");
            let id = listed["session"].as_str().unwrap();

            // The session is found by the name that it is listed under, and keeps it.
            let title = || {
                let list = run(bench.command().args(["sessions", "--json"])).expect(0).stdout;
                let list: Value = serde_json::from_str(&list).unwrap();
                list[0]["title"].as_str().expect("a title").to_owned()
            };
            let before = title();
            let ran = run(bench.print(api, &server).args(["--resume", &before, "and now?"])).expect(0);
            assert_eq!(ran.stdout, "one more turn\n", "{name}");
            assert_eq!(title(), before, "{name}");
            let sent = server.requests();
            let body = sent[0].text();
            for words in ["please fix src/parser.rs", "1 failed", "The parser is fixed.", "and now?", "cargo"]
            {
                assert!(body.contains(words), "{name}: {words}: {body}");
            }
            for words in ["for the subagent", "a branch that was left", "environment_context"] {
                assert!(!body.contains(words), "{name}: {words}");
            }
            let doctor = run(bench.command().args(["doctor", "session", id])).expect(0);
            assert!(doctor.stdout.contains("chain"), "{}", doctor.stdout);
            // The session is like any other: its export can be imported again, byte for byte.
            let jsonl = run(bench.command().args(["export", id, "--format", "jsonl"])).expect(0).stdout;
            assert_eq!(jsonl, fs::read_to_string(&bench.ledgers()[0]).unwrap());
            let md = run(bench.command().args(["export", id])).expect(0).stdout;
            assert!(md.contains("please fix src/parser.rs") && md.contains("1 failed"));
        }
    }
}

/// A mark at the start, line ends of another system, characters cut in half, bytes that are no text, a record in the middle that
/// was cut: only what cannot be read is missing, and counted.
#[test]
fn what_happens_to_files_on_the_way_costs_no_more_than_what_it_hit() {
    let bad_bytes = "bytes that are not UTF-8 (replaced by U+FFFD)";
    let hurt = |text: &str, word: &str| -> Vec<u8> {
        let text = text.replace('\n', "\r\n").replacen(word, &format!("{word}\\ud83d?"), 1);
        let mut bytes = b"\xef\xbb\xbf".to_vec();
        let at = text.find(word).unwrap();
        bytes.extend(&text.as_bytes()[..at]);
        bytes.extend(b"\xff\xfe");
        bytes.extend(&text.as_bytes()[at..]);
        bytes
    };
    let cut = claude().replacen("\"content\":\"fn parse() {}\"", "\"content\":\"fn par", 1);
    let files = [
        ("claude.jsonl", hurt(&claude(), "please fix"), 0),
        (
            "claude-cut.jsonl",
            hurt(&cut.replace("\"parentUuid\":\"a3\"", "\"parentUuid\":\"r1\""), "please fix"),
            1,
        ),
        ("codex.jsonl", hurt(&codex(), "please fix"), 0),
        ("opencode.json", hurt(&opencode(), "please fix"), 0),
    ];
    for (name, bytes, lines) in files {
        let bench = Bench::new(&[]);
        std::fs::write(bench.project.root().join(name), bytes).unwrap();
        let server = MockServer::start([Answer::text("one more turn")]);
        let listed = run(bench.command().args(["import", name, "--json"])).expect(0);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        assert_eq!(listed["left_out"][bad_bytes], 2, "{name}: {listed}");
        assert_eq!(listed["left_out"]["unreadable lines"].as_u64().unwrap_or(0), lines, "{name}: {listed}");
        let id = listed["session"].as_str().unwrap();
        run(bench.print(Api::Chat, &server).args(["--resume", id, "and now?"])).expect(0);
        let sent = server.requests();
        let body = sent[0].text();
        assert!(body.contains("\u{fffd}\u{fffd}please fix\u{fffd}?"), "{name}: {body}");
        assert!(body.contains("The parser is fixed."), "{name}: {body}");
    }
}

/// Images, subagents, hidden thinking, compactions, calls that were refused or broken off: what is rare is carried or counted,
/// and the session takes one more turn.
#[test]
fn odd_shapes_of_other_agents_are_carried_or_counted() {
    let summary = "summaries of compactions (their originals are carried)";
    let claude = [
        ("messages of subagents", 3),
        ("notes of the program", 1),
        ("commands typed at the program", 2),
        ("attachments of kind document", 1),
        ("errors of the API", 1),
        ("blocks of kind server_tool_use (they are kept as notes)", 1),
    ];
    let codex = [
        (summary, 1),
        ("encrypted reasoning", 1),
        ("items of kind web_search_call (they are kept as notes)", 1),
        ("items of kind ghost_snapshot", 1),
        ("marks of interrupted turns", 1),
    ];
    let opencode = [
        (summary, 1),
        ("attached files (their text is carried where it was read)", 1),
        ("parts of kind retry (they are kept as notes)", 1),
        ("parts of kind subtask (they are kept as notes)", 1),
        ("errors of answers", 1),
    ];
    let files = [
        ("claude.jsonl", include_str!("../fixtures/imports/claude.jsonl"), &claude[..], 4),
        ("codex.jsonl", include_str!("../fixtures/imports/codex.jsonl"), &codex, 4),
        ("opencode.json", include_str!("../fixtures/imports/opencode.json"), &opencode, 5),
    ];
    for (name, text, left_out, calls) in files {
        for api in BOTH {
            let bench = Bench::new(&[(name, text)]);
            let server = MockServer::start([Answer::text("one more turn")]);
            let listed = run(bench.command().args(["import", name, "--json"])).expect(0);
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            for (what, count) in left_out {
                assert_eq!(listed["left_out"][what], *count, "{name}: {what}: {listed}");
            }
            assert_eq!(listed["calls"], calls, "{name}: {listed}");
            let id = listed["session"].as_str().unwrap();
            let ran = run(bench.print(api, &server).args(["--resume", id, "and now?"])).expect(0);
            assert_eq!(ran.stdout, "one more turn\n", "{name}");
            let sent = server.requests();
            let body = sent[0].text();
            let words = [
                "cut off? naïve 测试 👩‍💻",
                "screenshot taken",
                "style.css",
                "padding",
                "iVBORw0KGgo",
                "and now?",
            ];
            for words in words {
                assert!(body.contains(words), "{name}, {api:?}: {words}: {body}");
            }
            for words in ["agentId\":", "be brief", "JVBERi0=", "gAAAA-hidden"] {
                assert!(!body.contains(words), "{name}, {api:?}: {words}: {body}");
            }
            run(bench.command().args(["export", id, "--format", "html", "--force", "-o", "page.html"]))
                .expect(0);
        }
    }
}

/// Results that cannot stay where they are become notes, which the model reads.
#[test]
fn results_without_a_place_are_kept_as_notes() {
    let said =
        |role: &str, content: Value| json!({ "type": role, "message": { "role": role, "content": content } });
    let result =
        |id: &str, text: &str| json!([{ "type": "tool_result", "tool_use_id": id, "content": text }]);
    let mut records = vec![
        said("user", json!("please fix it")),
        said("assistant", json!([{ "type": "text", "text": "first half" }])),
        said(
            "assistant",
            json!([{ "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "ls" } }]),
        ),
        said("user", result("t1", "own result")),
        said("user", result("t9", "result of nobody")),
        said("assistant", result("t1", "result within an answer")),
        said("assistant", json!([{ "type": "text", "text": "done" }])),
    ];
    for (at, record) in records.iter_mut().enumerate() {
        record["uuid"] = json!(format!("u{at}"));
        record["parentUuid"] = at.checked_sub(1).map_or(Value::Null, |before| json!(format!("u{before}")));
        record["sessionId"] = json!("s");
        record["timestamp"] = json!("2026-11-21T10:00:00.000Z");
    }
    for api in BOTH {
        let bench = Bench::new(&[("s.jsonl", lines(&records).as_str())]);
        let listed = run(bench.command().args(["import", "s.jsonl", "--json"])).expect(0);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        for what in ["results without a call", "second results of a call"] {
            assert_eq!(listed["left_out"][format!("{what} (they are kept as notes)")], 1, "{listed}");
        }
        let server = MockServer::start([Answer::text("one more turn")]);
        run(bench.print(api, &server).args(["-c", "--", "and now?"])).expect(0);
        let requests = server.requests();
        let body = requests[0].text();
        for words in ["own result", "result of nobody", "result within an answer"] {
            assert_eq!(body.matches(words).count(), 1, "{words}: {body}");
        }
    }
}

#[test]
fn of_several_sessions_in_one_file_the_last_is_carried_and_the_others_are_counted() {
    let record = |n: u64, parent: Option<u64>, kind: &str, session: &str, cwd: &str| {
        let id = |n: u64| format!("00000000-0000-4000-8000-{n:012}");
        json!({"type": kind, "uuid": id(n), "parentUuid": parent.map(id), "sessionId": session, "cwd": cwd,
               "message": {"role": kind, "content": [{"type": "text", "text": format!("{session} says {n}")}]}})
    };
    let records = [
        record(1, None, "user", "old", "/old"),
        record(2, Some(1), "assistant", "old", "/old"),
        record(3, None, "user", "new", "/new"),
        record(4, Some(3), "assistant", "new", "/new"),
    ];
    let bench = Bench::new(&[("s.jsonl", &lines(&records))]);
    let listed = run(bench.command().args(["import", "s.jsonl", "--json"])).expect(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!((&listed["id"], &listed["user_messages"]), (&json!("new"), &json!(1)), "{listed}");
    assert_eq!(listed["left_out"], json!({ "messages of other sessions in the file": 2 }));
}

#[test]
fn what_is_no_session_is_refused_with_one_reason_and_leaves_nothing() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("hello")]);
    run(bench.print(Api::Anthropic, &server).arg("hi")).expect(0);
    let own = run(bench.command().args(["export", "--format", "jsonl"])).expect(0).stdout;
    let (_, headless) = own.split_once('\n').unwrap();
    let whole = opencode();
    let other = Bench::new(&[]);
    let files: [(&str, &[u8], &str); 9] = [
        ("empty", b"", "it is empty"),
        ("blank", b"\n\n", "it is empty"),
        ("binary", b"\x00\xff\xfe\x80PNG", "it is not JSON"),
        ("page", b"<!doctype html>", "it is not JSON"),
        ("shape", b"{\"hello\":1}\n", "no record has a known format"),
        ("cut", &whole.as_bytes()[..whole.len() / 2], "breaks off"),
        (
            "noise",
            b"{\"type\":\"summary\",\"summary\":\"x\",\"sessionId\":\"s\"}\n",
            "no message could be read",
        ),
        ("headless", headless.as_bytes(), "intact first line of a session"),
        ("version", &own.replacen("\"format\":", "\"format\":9", 1).into_bytes(), "of format 91"),
    ];
    for (name, bytes, why) in files {
        fs::write(other.project.root().join(name), bytes).unwrap();
        let refused = run(other.command().args(["import", name])).expect(2);
        assert!(refused.stderr.contains(why), "{name}: {}", refused.stderr);
        assert!(refused.stderr.lines().count() <= 2 && refused.stdout.is_empty(), "{name}: {refused:?}");
    }
    assert_eq!(other.ledgers(), Vec::<std::path::PathBuf>::new());

    // If a file is partly damaged, everything else is imported, and the damage is counted.
    let record = claude().lines().nth(2).unwrap().to_owned();
    let damaged =
        format!("{}{record}\nnot json\n{{\"type\":\"hologram\"}}\n{{\"type\":\"user\",\"cut", claude());
    other.project.write("damaged", &damaged);
    let listed = run(other.command().args(["import", "damaged", "--json"])).expect(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    for (what, count) in [("duplicate records", 1), ("unreadable lines", 2), ("records of kind hologram", 1)]
    {
        assert_eq!(listed["left_out"][what], count, "{what}: {listed}");
    }
    assert_eq!((&listed["calls"], &listed["results"]), (&json!(2), &json!(2)), "{listed}");
}

#[test]
fn a_page_is_one_file_that_asks_nobody_for_anything() {
    let bench = Bench::new(&[("a.txt", "token AKIAIOSFODNN7EXAMPLE </script><script>alert(1)</script>\n")]);
    let server = MockServer::start([
        Answer::tool("c1", "read", json!({ "path": "a.txt" })).usage(1000, 10),
        Answer::text("read <it>").usage(1100, 10),
    ]);
    run(bench.print(Api::Anthropic, &server).arg("read a.txt")).expect(0);
    // An existing file is replaced by the page and keeps its permissions.
    let path = bench.project.root().join("page.html");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    run(bench.command().args(["export", "--format", "html", "--force", "-o", "page.html"])).expect(0);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let beside = std::fs::read_dir(bench.project.root()).unwrap().flatten();
    assert!(!beside.map(|e| e.file_name()).any(|name| name.to_string_lossy().ends_with(".new")));
    let page = bench.project.read("page.html");
    for words in
        ["<!doctype html>", "read a.txt", "read &lt;it&gt;", "masked", "<svg", "Requests", "viewport"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("AKIAIOSFODNN7EXAMPLE") && !page.contains("<script>alert"));
    for outside in ["src=\"http", "href=\"http", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}
