//! The command line around a run: what a continued session keeps, words that are no prompts, errors for programs.

use crate::compaction::asks_for_summary;
use crate::support::{Api, Bench, request, run, run_with, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// Model, effort and limits are those of the session, not those with which a new session would begin.
#[test]
fn a_continued_session_keeps_its_model_effort_mode_and_limits() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("fine").into());
    let command = |args: &[&str]| {
        let mut command = bench.command();
        command
            .env("ANTHROPIC_API_KEY", "sk-test")
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("OPENAI_API_KEY", "sk-test")
            .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
            .arg("-p")
            .args(args);
        command
    };
    let sent = || {
        let last = server.requests().pop().unwrap();
        (last.path.clone(), last.json()["model"].clone())
    };
    let chat = "/v1/chat/completions".to_owned();
    let first =
        ["--model", "openai/small", "--effort", "high", "--max-turns", "1", "--permission-mode", "plan"];
    run(&mut command(&[&first[..], &["one"]].concat())).expect(0);
    assert_eq!(sent(), (chat.clone(), json!("small")));
    // The same in a copy, and in a process that has no key for the default model.
    for arguments in [&["-c", "two"][..], &["-c", "--fork-session", "three"]] {
        let ran = run(command(arguments).env_remove("ANTHROPIC_API_KEY")).expect(0);
        assert_eq!(sent(), (chat.clone(), json!("small")), "{arguments:?} {}", ran.stderr);
    }
    let init =
        run(&mut command(&["-c", "--output-format", "stream-json", "four"])).expect(0).lines().remove(0);
    assert_eq!((&init["model"], &init["permissionMode"]), (&json!("openai/small"), &json!("plan")));
    // Another model is used where one is named, and a notice reports it.
    let other =
        ["-c", "--model", "anthropic/claude-sonnet-4-5", "--permission-mode", "bypassPermissions", "five"];
    let ran = run(&mut command(&other)).expect(0);
    assert!(
        ran.stderr.contains("this session ran with openai/small; it continues with anthropic/"),
        "{}",
        ran.stderr
    );
    assert_eq!(sent().1, "claude-sonnet-4-5");
    // `bypassPermissions` is not kept with the session: each run must ask for it again.
    let ran = run(&mut command(&["-c", "--output-format", "stream-json", "six"])).expect(0);
    let init = ran.lines().into_iter().find(|line| line["subtype"] == "init").unwrap();
    assert_eq!(init["permissionMode"], "default");
    assert!(
        ran.stderr.contains("this session ran in bypassPermissions; it continues in default"),
        "{}",
        ran.stderr
    );
    // The limit of one request holds: the second is the wrap-up.
    let limited =
        MockServer::start([Answer::tool("c1", "read", json!({ "path": "." })), Answer::text("that is all")]);
    let url = format!("{}/v1", limited.url());
    run(command(&["-c", "--model", "openai/small", "seven"]).env("OPENAI_BASE_URL", url)).expect(3);
}

/// The tools of `--tools` stay those of the session, until all are asked for. The prompt names only them.
#[test]
fn a_continued_session_keeps_its_tools() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("done").into());
    for (arguments, count) in [
        (&["--tools", "grep", "one"][..], Some(1)),
        (&["-c", "two"], Some(1)),
        (&["-c", "--tools", "read,grep", "three"], Some(2)),
        (&["-c", "four"], Some(2)),
        (&["-c", "--tools", "default", "five"], None),
        (&["-c", "six"], None),
    ] {
        run(bench.print(Api::Chat, &server).args(arguments)).expect(0);
        let body = server.requests().pop().unwrap().json();
        let tools = body["tools"].as_array().map_or(0, Vec::len);
        assert_eq!(count.unwrap_or(tools.max(5)), tools, "{arguments:?}");
        let system = body["messages"][0]["content"].to_string();
        assert!(!system.contains("read tool"), "{system}");
    }
}

/// With `--json`, errors are JSON on stdout, with the same exit code, and acting commands answer in JSON.
#[test]
fn a_program_reads_errors_and_results_as_json() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let json_of = |args: &[&str], code: i32| -> Value {
        let ran = run(bench.command().args(args)).expect(code);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {ran:?}"))
    };
    for args in [
        &["undo", "--json"][..],
        &["sessions", "rm", "nothere", "--json"],
        &["import", "absent.jsonl", "--json"],
        &["sessions", "--json", "--nope"],
    ] {
        let error = &json_of(args, 2)["error"];
        assert!(error["message"].is_string() && error["exit_code"] == 2, "{args:?}: {error}");
    }
    let missing = json_of(&["export", "s", "--json"], 2);
    assert!(missing["error"]["message"].as_str().unwrap().contains("--output"), "{missing}");
    let server = MockServer::start([
        Answer::tool("c0", "read", json!({ "path": "a.txt" })),
        Answer::tool("c1", "edit", json!({ "path": "a.txt", "old": "one", "new": "two" })),
        Answer::text("done"),
    ]);
    run(bench.print(Api::Anthropic, &server).args(["--permission-mode", "acceptEdits", "--name", "s", "go"]))
        .expect(0);
    let sandbox: Value =
        serde_json::from_str(&run(bench.command().args(["sandbox", "--json"])).stdout).unwrap();
    assert_eq!(sandbox["levels"].as_array().map(Vec::len), Some(2), "{sandbox}");
    let planned = json_of(&["undo", "--json"], 0);
    assert!(planned["plan"]["paths"].is_array() && planned["done"].is_null(), "{planned}");
    assert_eq!(bench.project.read("a.txt"), "two\n");
    assert_eq!(json_of(&["undo", "--json", "--yes"], 0)["done"]["restored"], 1);
    assert_eq!(bench.project.read("a.txt"), "one\n");
    assert_eq!(json_of(&["redo", "--json", "--yes"], 0)["done"]["restored"], 1);
    assert_eq!(json_of(&["undo", "--json", "--yes"], 0)["done"]["restored"], 1);
    assert!(json_of(&["undo", "--json", "--yes"], 0)["nothing"].is_string());
    assert_eq!(json_of(&["sessions", "archive", "s", "--json"], 0)[0]["archived"], true);
    assert_eq!(json_of(&["sessions", "rename", "s", "t", "--json"], 0)["title"], "t");
    assert_eq!(json_of(&["sessions", "rm", "t", "--json"], 0)[0]["trashed"], true);
    assert_eq!(json_of(&["sessions", "restore", "t", "--json"], 0)["restored"], true);
}

/// A host that drives becket: denials are in a result that is a success, failures are one line on stderr as well, and what
/// is not carried out is refused.
#[test]
fn a_host_is_told_the_truth() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "touch made" })),
        Answer::text("I was not allowed to."),
    ]);
    let hooks = json!({ "PreToolUse": [{ "matcher": null, "hookCallbackIds": ["h1"] }] });
    let lines = format!(
        "{}\n{}\n{}\n{}\n{}\n{}\n",
        request(&json!({ "subtype": "initialize", "hooks": hooks })),
        request(&json!({ "subtype": "set_model" })),
        request(&json!({ "subtype": "set_model", "model": "nope/x" })),
        request(&json!({ "subtype": "set_permission_mode", "mode": "bold" })),
        request(&json!({ "subtype": "set_permission_mode", "mode": "default" })),
        says("go")
    );
    let mut command = bench.print(Api::Chat, &server);
    command.args(["--input-format", "stream-json", "--output-format", "stream-json"]);
    let ran = run_with(&mut command, lines.as_bytes()).expect(0);
    let answers: Vec<Value> = ran.lines().into_iter().filter(|l| l["type"] == "control_response").collect();
    let errors: Vec<&str> = answers.iter().filter_map(|a| a["response"]["error"].as_str()).collect();
    let want = ["`nope/x` names no model", "unknown permission mode \"bold\""];
    assert_eq!(errors.len(), want.len(), "{answers:?}");
    assert!(errors.iter().zip(want).all(|(error, part)| error.contains(part)), "{answers:?}");
    assert_eq!(answers.iter().filter(|a| a["response"]["subtype"] == "success").count(), 3, "{answers:?}");
    assert_eq!(ran.stderr.matches("nope/x").count(), 0, "the host is told, and nobody else: {}", ran.stderr);
    let result = ran.result();
    assert_eq!(
        (&result["subtype"], result["permission_denials"].as_array().unwrap().len()),
        (&json!("success"), 1)
    );
    for format in ["text", "json", "stream-json"] {
        let broken = MockServer::start([becket_testkit::Reply::status(401)]);
        let ran = run(bench.print(Api::Chat, &broken).args(["--output-format", format, "go"])).expect(7);
        let errors = ran.stderr.lines().filter(|line| !line.contains("context window of"));
        assert_eq!(errors.count(), 1, "{format}: {}", ran.stderr);
    }
}

/// Records that becket has no kind of entry for stay readable after an import, and importing a file twice makes one session.
#[test]
fn an_import_keeps_what_it_cannot_place_and_knows_a_file_again() {
    let record = |n: u64, kind: &str, content: &Value| {
        let id = |n: u64| format!("00000000-0000-4000-8000-{n:012}");
        let parent = (n > 1).then(|| id(n - 1));
        json!({ "type": kind, "uuid": id(n), "parentUuid": parent, "sessionId": "s",
                "message": { "id": format!("m{n}"), "role": kind, "content": content } })
        .to_string()
    };
    let result = |id: &str, text: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": text });
    let lines = [
        record(1, "user", &json!("look")),
        record(2, "user", &json!([result("lost", "an orphan result")])),
        record(3, "assistant", &json!([{ "type": "text", "text": "first half" }, { "type": "weird", "odd": "odd words" }])),
        record(
            4,
            "assistant",
            &json!([{ "type": "tool_use", "id": "c1", "name": "Bash", "input": {} }, result("c1", "beside its call")]),
        ),
        record(5, "assistant", &json!([{ "type": "text", "text": "one" }])),
        record(6, "assistant", &json!([{ "type": "text", "text": "two" }])),
    ]
    .join("\n");
    for api in [Api::Anthropic, Api::Chat] {
        let bench = Bench::new(&[("old.jsonl", &lines)]);
        let server = MockServer::start([Answer::text("fine")]);
        let import = |args: &[&str]| -> Value {
            let ran = run(bench.command().args(["import", "old.jsonl", "--json"]).args(args)).expect(0);
            serde_json::from_str(&ran.stdout).unwrap()
        };
        let first = import(&[]);
        // Two answers: before the result and after it.
        assert_eq!((&first["answers"], &first["results"]), (&json!(2), &json!(1)), "{first}");
        let id = first["session"].as_str().unwrap();
        run(bench.print(api, &server).args(["--resume", id, "go on"])).expect(0);
        let body = server.requests()[0].text().to_owned();
        for words in [
            "an orphan result",
            "first half",
            "a block of a kind",
            "odd words",
            "beside its call",
            "one",
            "two",
        ] {
            assert!(body.contains(words), "{words}: {body}");
        }
        let again = import(&[]);
        assert_eq!((&again["session"], &again["was_there"]), (&first["session"], &json!(true)));
        assert_ne!(import(&["--again"])["session"], first["session"]);
        assert_eq!(bench.ledgers().len(), 2);
    }
}

/// The size that the provider reported last counts in the next process: a compaction that is due comes before the request.
#[test]
fn a_new_process_begins_with_the_last_reported_usage() {
    let bench = Bench::new(&[]);
    let long = "words of an answer that fill some of the window ".repeat(650);
    let mut answers = 0;
    let server = MockServer::with(move |request| {
        if asks_for_summary(request) {
            return Answer::text("## Goal\nKeep going.\n").usage(500, 20).into();
        }
        answers += 1;
        let long = Answer::text(long.as_str());
        match answers {
            1 => long.usage(2_600, 7_900).into(),
            2 => long.usage(10_500, 7_900).into(),
            // More than the estimate by four tenths, so only the report is above the threshold of 32,000.
            3 => long.usage(25_500, 7_900).into(),
            _ => Answer::text("done").usage(900, 5).into(),
        }
    });
    let window = ["--context-window", "44k", "--settings", "{\"context\":{\"prepare\":false}}"];
    for prompt in ["one", "two", "three"] {
        let go_on: &[&str] = if prompt == "one" { &[] } else { &["-c"] };
        run(bench.print(Api::Chat, &server).args(window).args(go_on).arg(prompt)).expect(0);
    }
    let ran = run(bench.print(Api::Chat, &server).args(window).args(["-c", "four"])).expect(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.matches("context compacted").count()),
        ("done\n", 1),
        "{}",
        ran.stderr
    );
}

#[test]
fn settings_and_surroundings_are_told_truly() {
    let bench = Bench::new(&[]);
    bench.home.write(".config/becket/config.toml", "[limits]\nmax_turns = 60\n[ui]\nvim = true\n");
    let json_of = |args: &[&str]| -> Value {
        serde_json::from_str(&run(bench.command().args(args)).expect(0).stdout).unwrap()
    };
    let config = json_of(&["config", "--json"]);
    assert_eq!(config["warnings"], json!([]));
    let value = |key: &str| {
        let rows = config["settings"].as_array().unwrap();
        rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key}: {config}"))["value"]
            .clone()
    };
    assert_eq!(value("limits.max_turns"), 60);
    assert_eq!((value("ui.vim"), value("model")), (json!(true), json!(null)));
    std::fs::remove_file(bench.home.path(".config/becket/config.toml")).unwrap();
    let doctor = run(bench.command().arg("doctor"));
    assert!(doctor.stdout.contains("no file of yours yet"), "{}", doctor.stdout);
    // A gateway without a list of models works; a configured model that is not in a list does not.
    let none = MockServer::start([Answer::text("not asked")]);
    let listed = json!({ "object": "list", "data": [{ "id": "qwen3-8b" }] });
    let some = MockServer::start([Answer::text("not asked")])
        .get("/v1/models", becket_testkit::Reply::json(200, &listed));
    for (server, model, want, ok) in [
        (&none, "openai/any", "it has no list of models", true),
        (&some, "openai/qwen3-8b", "reachable, 1 model", true),
        (&some, "openai/qwen3-9b", "the nearest name is qwen3-8b", false),
        (&some, "openai/qwen3-9b", "a session begins with openai/qwen3-9b, which does not work now", false),
    ] {
        let mut command = bench.command();
        command
            .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
            .env("BECKET_MODEL", model)
            .arg("doctor");
        let ran = run(&mut command);
        let row =
            ran.stdout.lines().find(|line| line.contains(want)).unwrap_or_else(|| panic!("{want}: {ran:?}"));
        assert_eq!(row.starts_with("ok"), ok, "{row}");
    }
    for (args, want) in [
        (
            &["-p", "--effort", "hgih", "go"][..],
            "\"hgih\" is not one of off, minimal, low, medium, high, xhigh, max; did you mean high?",
        ),
        (&["-p", "--effort", "maximum", "go"], "did you mean max?"),
        (&["-p", "--permission-mode", "accept", "go"], "did you mean acceptEdits?"),
        (&["-p", "--settings", "{\"permission_mode\":\"acceptEdit\"}", "go"], "did you mean acceptEdits?"),
        (&["-p", "--sandbox", "requird", "go"], "did you mean required?"),
        (&["-p", "--model", "sonet", "go"], "did you mean sonnet?"),
        (
            &[
                "-p",
                "--agents",
                "{\"rev\":{\"description\":\"d\",\"prompt\":\"p\",\"model\":\"sonet\"}}",
                "--agent",
                "rev",
                "go",
            ],
            "the agent rev names a model that cannot be used: `sonet`",
        ),
        (
            &["-p", "--settings", "{\"limits\":{\"max_turns\":\"many\"}}", "go"],
            "expected a whole number, not \"many\"",
        ),
    ] {
        let ran = run(bench.command().args(args)).expect(2);
        assert!(ran.stderr.contains(want), "{want}: {}", ran.stderr);
    }
    let ran = run(bench.command().env("HOME", "relative").args(["sessions"])).expect(2);
    assert!(ran.stderr.contains("HOME is not an absolute path: relative"), "{}", ran.stderr);
}

/// A server is asked about its model when becket first chooses the model. The answer holds for this run and for later ones.
#[test]
fn a_server_s_window_is_used_when_its_model_is_first_chosen() {
    let bench = Bench::new(&[]);
    let listed =
        json!({ "object": "list", "data": [{ "id": "small.gguf", "meta": { "n_ctx_train": 131_072 } }] });
    let props = json!({ "default_generation_settings": { "n_ctx": 16_384 } });
    let reply = |body: &Value| becket_testkit::Reply::json(200, body);
    let server = MockServer::with(|_| Answer::text("fine").into())
        .get("/v1/models", reply(&listed))
        .get("/props", reply(&props));
    for model in [None, Some("openai/small.gguf"), Some("openai/small.gguf")] {
        let mut command = bench.command();
        command
            .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
            .envs(model.map(|m| ("BECKET_MODEL", m)));
        let ran = run(command.args(["-p", "--output-format", "json", "go"])).expect(0);
        assert_eq!(ran.lines()[0]["modelUsage"]["openai/small.gguf"]["contextWindow"], 16_384, "{model:?}");
        assert!(!ran.stderr.contains("is not known"), "{}", ran.stderr);
    }
    let asked = server.all_requests().iter().filter(|request| request.method == "GET").count();
    assert_eq!(asked, 2, "a run that names a known model asks nothing at its start");
    // Named from the start, the model is asked about once.
    let bench = Bench::new(&[("a.png", "")]);
    for _ in 0..2 {
        let mut command = bench.command();
        command.env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
        let ran = run(command.args(["-p", "--output-format", "json", "--model", "openai/small.gguf", "go"]))
            .expect(0);
        assert_eq!(ran.lines()[0]["modelUsage"]["openai/small.gguf"]["contextWindow"], 16_384);
    }
    let asked = server.all_requests().iter().filter(|request| request.method == "GET").count();
    assert_eq!(asked, 4, "the list and the properties, once");
    // Commands about the stored session know it, too, and ask nobody.
    let command = |words: &[&str]| {
        let mut command = bench.command();
        run(command.env("OPENAI_BASE_URL", format!("{}/v1", server.url())).args(words))
    };
    let context: Value = serde_json::from_str(&command(&["context", "--json"]).expect(0).stdout).unwrap();
    assert_eq!((&context["window"], &context["window_assumed"]), (&json!(16_384), &json!(false)));
    let page = command(&["context"]).expect(0).stdout;
    assert!(page.contains("window 16k ") && !page.contains("assumed"), "{page}");
    let asked_now = server.all_requests().iter().filter(|request| request.method == "GET").count();
    assert_eq!(asked_now, asked);
}

/// Nothing is kept of a server that is not there: it is asked when it is.
#[test]
fn a_server_that_cannot_be_reached_is_asked_the_next_time() {
    let bench = Bench::new(&[]);
    // A port that nobody listens on.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut command = bench.command();
    command.env("OPENAI_BASE_URL", format!("http://{address}/v1"));
    let ran = run(command.args(["-p", "--max-wait", "1s", "--model", "openai/small.gguf", "go"]));
    assert_ne!(ran.code, 0, "{}", ran.stdout);
    assert!(!bench.home.exists(".local/share/becket/server-models.json"));
}

/// A server that never answers the question for its window costs one bounded wait, once.
#[test]
fn a_server_that_does_not_say_its_window_is_not_asked_again() {
    let bench = Bench::new(&[]);
    let listed = json!({ "object": "list", "data": [{ "id": "small" }] });
    let server = MockServer::with(|_| Answer::text("fine").into())
        .get("/v1/models", becket_testkit::Reply::json(200, &listed))
        .get("/props", becket_testkit::Reply::json(200, &json!({})).stall_at(0));
    for _ in 0..3 {
        let mut command = bench.command();
        command.env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
        run(command.args(["-p", "go"])).expect(0);
    }
    let asked = server.all_requests().iter().filter(|request| request.path.ends_with("/props")).count();
    assert_eq!(asked, 1);
}

/// Output that cannot be written is an error with one message, whichever command printed it. A reader that stops early causes no error.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_told() {
    let bench = Bench::new(&[]);
    let commands: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["undo", "--help"],
        &["help"],
        &["version"],
        &["completions", "bash"],
        &["man"],
        &["models"],
        &["config"],
        &["permissions", "list"],
        &["doctor", "--json"],
    ];
    for arguments in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = bench.command().args(*arguments).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{arguments:?} {stderr}");
        assert_eq!(stderr.matches("cannot write to stdout").count(), 1, "{arguments:?} {stderr}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = bench.command().args(*arguments).stdout(writer).output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), &*stderr), (Some(0), ""), "{arguments:?}");
    }
}
