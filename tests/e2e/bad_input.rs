//! Bad input: one message with what, why and what to do, the documented exit code, nothing lost.

use crate::support::{Api, BOTH, Bench, run, run_with};
use becket_testkit::{Answer, MockServer, Reply};
use serde_json::json;

#[test]
fn usage_errors_have_code_2_and_say_what_to_do() {
    let bench = Bench::new(&[
        ("bad.toml", "model = [\n"),
        ("bad.json", "{\"model\": 3}"),
        ("script.json", "{ not a script"),
        ("empty.json", "{\"steps\": []}"),
        ("schema.json", "{\"type\": \"strin\"}"),
        (".becket/commands/asks.md", "Built: !`ls`\n"),
    ]);
    for (args, word) in [
        (&["--nope"][..], "--nope"),
        (&["-p", "--model", "nonsense", "go"], "nonsense"),
        (&["-p", "--model", "martian/x", "go"], "martian"),
        (&["-p", "--model", "script:missing.json", "go"], "missing.json"),
        (&["-p", "--model", "script:script.json", "go"], "script.json"),
        (&["-p", "--model", "script:empty.json", "go"], "The script `empty.json` has no steps"),
        (&["-p", "--model", "openai/x", "--resume", "nothere", "go"], "nothere"),
        (&["-p", "--model", "openai/x", "--session-id", "7", "go"], "--session-id"),
        (&["-p", "--model", "openai/x", "--settings", "bad.toml", "go"], "bad.toml"),
        (&["-p", "--model", "openai/x", "--settings", "bad.json", "go"], "model"),
        (&["-p", "--model", "openai/x", "--settings", "absent.json", "go"], "absent.json"),
        (
            &["-p", "--model", "openai/x", "--json-schema", "@schema.json", "go"],
            "--json-schema: the JSON schema is not a valid schema",
        ),
        (&["-p", "--model", "openai/x", "--json-schema", "{", "go"], "give a schema as JSON, or as @FILE"),
        (&["-p", "--model", "openai/x", "--permission-mode", "yolo", "go"], "yolo"),
        (&["-p", "--model", "openai/x", "--allowedTools", "Bash(", "--", "go"], "Bash("),
        (&["-p", "--model", "openai/x", "--system-prompt-file", "absent.md", "go"], "absent.md"),
        (&["-p", "--model", "openai/x", "-C", "absent-dir", "go"], "absent-dir"),
        (&["-p", "--model", "openai/x", "-C", "bad.toml", "go"], "bad.toml"),
        (&["-p", "--model", "openai/x", "--add-dir", "absent-dir", "--", "go"], "absent-dir"),
        (&["-p", "--model", "openai/x", "--setting-sources", "moon", "go"], "moon"),
        (
            &["-p", "--model", "openai/x", "--tools", "hammer", "go"],
            "--tools (tools.enabled): there is no tool \"hammer\"",
        ),
        (&["-p", "--model", "openai/x", "--max-turns", "-3", "go"], "whole number"),
        (&["-p", "--model", "openai/x", "--max-tokens", "0", "go"], "more than 0"),
        (&["-p", "--model", "openai/x", "--max-wall", "soon", "go"], "10m"),
        (
            &["-p", "--model", "openai/x", "--context-window", "big", "go"],
            "becket: --context-window: expected a whole number of tokens such as 32000 or \"32k\", not \"big\"\n",
        ),
        (
            &["-p", "--model", "openai/x", "--context-window", "10", "go"],
            "becket: --context-window: a window has",
        ),
        (&["-p", "--model", "openai/x", "--include-partial-messages", "go"], "--output-format stream-json"),
        (&["-p", "--model", "openai/x", "--replay-user-messages", "go"], "--output-format stream-json"),
        (&["-p", "--model", "openai/x", "-o", "absent-dir/out.md", "go"], "absent-dir"),
        (&["-p", "--model", "openai/x", "-o", ".", "go"], "cannot be a file"),
        (&["-p", "--model", "openai/x", "--allowedTools", "go"], "--"),
        (
            &[
                "-p",
                "--model",
                "openai/x",
                "-c",
                "--session-id",
                "7e57c0de-0000-4000-8000-000000000001",
                "go",
            ],
            "--fork-session",
        ),
        (&["-p", "--model", "openai/x", ""], "prompt"),
        (&["-p", "--model", "openai/x"], "there is no prompt"),
        (&["-p", "--model", "openai/x", "-"], "there is no prompt"),
        (&["-p", "--model", "openai/x", "--allowedTools", "Edit"], "put -- before the prompt"),
        (&["-p", "--model", "openai/x", "--resume=", "go"], "--resume needs a session"),
        (
            &["-p", "--model", "openai/x", "--mcp-config", "{bad", "--", "go"],
            "--mcp-config is not valid JSON",
        ),
        (&["-p", "--model", "openai/x", "--mcp-config", "absent.json", "--", "go"], "absent.json"),
        (&["-p", "--model", "openai/x", "/asks go"], "/asks is a command of this project that would run: ls"),
        (&["login", "groq", "sk-planted"], "run `becket login groq` and paste the key"),
        (&["sandbox", "--nothing", "ls"], "becket sandbox has no option --nothing"),
        (
            &["-p", "--model", "openai/x", "--fork-session", "go"],
            "--fork-session needs --continue or --resume",
        ),
        (&["-p", "--model", "openai/x", "--take-over", "go"], "--take-over needs --continue or --resume"),
        (&["-p", "--model", "openai/x", "-c", "go"], "there is no session of"),
        (&["-p", "--model", "openai/x", "--add-dir", "bad.toml", "--", "go"], "is not a directory"),
        (
            &["-p", "--model", "openai/x", "--input-format", "stream-json", "go"],
            "prompts come only from stdin",
        ),
        (&["go there"], "needs a terminal"),
        (&["sessions", "--since", "yesterday"], "is not a day"),
        (&["sessions", "rename", "nothere", "x"], "nothere"),
        (&["sessions", "restore", "nothere"], "nothere"),
        (&["sessions", "rm"], "at least one"),
        (&["context"], "there is no session of"),
        (&["import", "bad.toml"], "is not a session that becket can read"),
        (&["import", "absent.jsonl"], "absent.jsonl"),
        (&["screenshot", "script.json", "-o", "out.gif"], "is neither .svg, .png nor .txt"),
        (&["screenshot", "script.json", "-o", "out.svg"], "not an event"),
        (&["screenshot", "script.json", "-o", "out.svg", "--theme", "mud"], "there is no theme"),
        (&["context", "nothere"], "nothere"),
        (&["doctor", "session", "nothere"], "nothere"),
    ] {
        let ran = run(bench.command().env("OPENAI_API_KEY", "sk-test").args(args));
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{args:?}");
        assert!(ran.stderr.contains(word), "{args:?} does not name {word}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{args:?}");
    }
    assert!(bench.ledgers().is_empty(), "nothing was started: {:?}", bench.ledgers());
}

/// Checks environment variables with senseless values, and a server that lists no model.
#[test]
fn an_environment_that_makes_no_sense_is_told() {
    let bench = Bench::new(&[]);
    let none = Reply::json(200, &json!({ "object": "list", "data": [] }));
    let empty = MockServer::start([Answer::text("not asked")]).get("/v1/models", none);
    let server = format!("{}/v1", empty.url());
    let mut rows = vec![
        (vec![("OPENAI_BASE_URL", server.as_str())], 2, "lists no model", "--model openai/NAME"),
        (
            vec![
                ("BECKET_MODEL", "openai/x"),
                ("OPENAI_API_KEY", "sk-test"),
                ("HTTPS_PROXY", "http://user:secret@:x"),
            ],
            2,
            "The proxy in HTTPS_PROXY or ALL_PROXY cannot be used: it is not a valid URL.",
            "http://HOST:PORT",
        ),
        (
            vec![
                ("BECKET_MODEL", "openai/x"),
                ("OPENAI_API_KEY", "sk-test"),
                ("ALL_PROXY", "ftp://user:secret@h:1"),
            ],
            2,
            "\"ftp\" is not a supported proxy scheme",
            "or unset it",
        ),
    ];
    // A build with the feature `postgres` has this store, and reports that it cannot be reached.
    if !cfg!(feature = "postgres") {
        let store = vec![("BECKET_STORE", "postgres://127.0.0.1:1/x"), ("BECKET_MODEL", "openai/x")];
        rows.push((store, 2, "built without PostgreSQL", "unset BECKET_STORE"));
    }
    for (environment, code, what, to_do) in rows {
        let ran = run(bench.command().envs(environment).args(["-p", "go"])).expect(code);
        assert_eq!(ran.stderr.matches(what).count(), 1, "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(to_do) && !ran.stderr.contains("secret"), "{to_do}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
}

/// Rules files that are no files: one line about each, and the run goes on.
#[test]
fn rules_that_are_a_pipe_or_a_loop_are_told_once() {
    let bench = Bench::new(&[]);
    let made = std::process::Command::new("mkfifo").arg(bench.project.root().join("AGENTS.md")).status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("CLAUDE.md", bench.project.root().join("CLAUDE.md")).unwrap();
    let server = MockServer::start([Answer::text("fine"), Answer::text("again")]);
    let ran = run(bench.print(Api::Chat, &server).arg("go")).expect(0);
    assert_eq!(ran.stdout, "fine\n");
    for what in
        ["AGENTS.md is not used: it is a pipe", "CLAUDE.md is not used: it is a link that leads nowhere"]
    {
        assert_eq!(ran.stderr.matches(what).count(), 1, "{what}: {}", ran.stderr);
    }
}

/// Opening a pipe waits until somebody writes into it, so files that are named must be regular ones.
#[test]
fn a_pipe_in_place_of_a_named_file_is_refused_at_once() {
    let bench = Bench::new(&[]);
    let made = std::process::Command::new("mkfifo").arg(bench.project.root().join("pipe")).status();
    assert!(made.unwrap().success());
    let run_of = |words: &[&'static str]| [&["-p", "--model", "openai/x"], words, &["go"]].concat();
    for args in [
        vec!["import", "pipe"],
        vec!["exec", "-m", "openai/x", "--image", "pipe", "go"],
        vec!["-p", "--model", "replay:pipe", "go"],
        run_of(&["--mcp-config", "pipe", "--"]),
        run_of(&["--locked", "pipe"]),
        run_of(&["--settings", "pipe"]),
        run_of(&["--system-prompt-file", "pipe"]),
        run_of(&["--output-schema", "pipe"]),
        vec!["permissions", "test", "pipe"],
        vec!["screenshot", "pipe", "-o", "a.txt"],
    ] {
        let ran = run(bench.command().env("OPENAI_API_KEY", "sk-test").args(&args)).expect(2);
        assert!(ran.stderr.contains("regular file"), "{args:?}: {}", ran.stderr);
    }
    let ran = run(bench.command().args(["import", "pipe"])).expect(2);
    assert!(ran.stderr.contains("becket import - < pipe"), "{}", ran.stderr);
}

#[test]
fn a_stdin_without_any_message_is_told() {
    let bench = Bench::new(&[]);
    let args = ["-p", "--model", "openai/x", "--input-format", "stream-json", "--output-format", "json"];
    for input in ["", "\r\n\n"] {
        let command = &mut bench.command();
        let ran = run_with(command.env("OPENAI_API_KEY", "sk-test").args(args), input.as_bytes()).expect(2);
        assert!(ran.stderr.contains("no message came on stdin"), "{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
    // A host that only introduces itself.
    let hello = json!({"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}});
    let command = &mut bench.command();
    let ran = run_with(
        command
            .env("OPENAI_API_KEY", "sk-test")
            .args([&args[..5], &["--output-format", "stream-json"]].concat()),
        format!("{hello}\n").as_bytes(),
    );
    let ran = ran.expect(0);
    assert_eq!((ran.lines().len(), &ran.lines()[0]["type"]), (1, &json!("control_response")));
    assert!(bench.ledgers().is_empty(), "a session without a message leaves nothing: {:?}", bench.ledgers());
}

/// Checks subcommands that fail on an existing session: each must leave the session unchanged.
#[test]
fn a_session_that_stays_as_it_is() {
    let bench = Bench::new(&[("long.md", &"word ".repeat(9_000))]);
    let server = MockServer::start([Answer::text("hello")]);
    run(bench.print(Api::Chat, &server).args(["--name", "it", "go"])).expect(0);
    let before = std::fs::read(&bench.ledgers()[0]).unwrap();
    for (args, word) in [
        (&["sessions", "rename", "it", " "][..], "a title needs a letter"),
        (&["sessions", "fork", "it", "--name", " "], "a name needs a letter"),
        (&["sessions", "fork", "it", "@999"], "is not an entry of this session"),
        (&["rewind", "it", "999", "--both", "--yes"], "this session has no message"),
        (&["context", "it", "--drop", "999"], "that can be changed"),
        (&["context", "it", "--restore", "999"], "was removed by a compaction"),
        (&["context", "it", "--undo"], "there is no change of the context to undo"),
        (&["context", "it", "--redo"], "no undone change"),
        (&["context", "it", "--request", "999"], "999"),
        (&["compact", "it", "--undo"], "this session has no compaction"),
        (&["undo", "it", "--to", "999", "--yes"], "this session has no message"),
    ] {
        let ran = run(bench.command().args(args)).expect(2);
        assert!(ran.stderr.contains(word), "{args:?} does not say {word}: {}", ran.stderr);
    }
    assert_eq!(std::fs::read(&bench.ledgers()[0]).unwrap(), before);
}

/// With `-` as the prompt, the prompt is the piped text alone.
#[test]
fn the_prompt_dash_is_what_is_piped_in() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("fine")]);
    run_with(bench.print(Api::Chat, &server).arg("-"), b"the task itself").expect(0);
    let request = server.requests()[0].text().to_owned();
    assert!(request.contains("the task itself") && !request.contains("<stdin>"), "{request}");
}

#[test]
fn a_missing_key_says_which_variable_to_set() {
    let bench = Bench::new(&[]);
    for (model, variable) in
        [("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"), ("openai/gpt-5", "OPENAI_API_KEY")]
    {
        let ran = run(bench.command().args(["-p", "--model", model, "go"])).expect(2);
        assert!(ran.stderr.contains(variable), "{}", ran.stderr);
    }
    let ran = run(bench.command().args(["-p", "go"])).expect(2);
    assert!(ran.stderr.contains("ANTHROPIC_API_KEY") && ran.stderr.contains("demo"), "{}", ran.stderr);
}

#[test]
fn files_that_cannot_be_read_are_told_to_the_model() {
    let bench = Bench::new(&[("bin.dat", "\u{0}\u{1}\u{2}binary\u{0}"), ("dir/x.txt", "x")]);
    let ask = |id: &str, path: &str| Answer::tool(id, "read", json!({ "path": path }));
    let server = MockServer::start([
        ask("c1", "absent.txt"),
        ask("c2", "bin.dat"),
        ask("c3", "dir/x.txt/y"),
        ask("c4", "dir"),
        Answer::text("done"),
    ]);
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    let last = server.requests().last().unwrap().text().to_owned();
    for word in ["absent.txt", "binary", "x.txt"] {
        assert!(last.contains(word), "{word}: {last}");
    }
}

#[test]
fn a_data_directory_that_cannot_be_written_does_not_stop_the_run() {
    let bench = Bench::new(&[]);
    // A file where the directory should be.
    bench.home.write(".local", "in the way");
    let server = MockServer::start([Answer::text("fine")]);
    let ran = run(bench.print(Api::Chat, &server).arg("go")).expect(14);
    assert_eq!(ran.stdout, "fine\n");
    assert!(ran.stderr.contains(".local"), "{}", ran.stderr);
}

#[test]
fn commands_run_where_nothing_can_be_stored() {
    let bench = Bench::new(&[("file", "")]);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "echo x >> effects.txt" })),
        Answer::text("done"),
    ]);
    let ran = run(bench
        .print(Api::Anthropic, &server)
        .env("XDG_DATA_HOME", bench.project.root().join("file"))
        .args(["--permission-mode", "bypassPermissions", "go"]))
    .expect(14);
    assert_eq!(bench.project.read("effects.txt"), "x\n");
    assert!(ran.stderr.contains("Cannot save this session"), "{}", ran.stderr);
}

#[test]
fn a_prompt_that_never_fits_is_told_once() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("not asked")]);
    let long = "word ".repeat(400_000);
    let ran = run_with(bench.print(Api::Anthropic, &server).arg("read this"), long.as_bytes()).expect(9);
    assert_eq!(ran.stderr.matches("The context is full").count(), 1, "{}", ran.stderr);
    assert!(server.requests().is_empty());
}

#[test]
fn a_file_size_limit_is_an_error_of_the_write_and_not_the_end() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("c1", "write", json!({ "path": "big.txt", "content": "x".repeat(100_000) })),
        Answer::text("fine"),
    ]);
    let print = bench.print(Api::Chat, &server);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 16; exec \"$@\"", "sh"]).arg(print.get_program()).args(print.get_args());
    limited.arg("--dangerously-skip-permissions").arg("go").current_dir(bench.project.root()).env_clear();
    limited.envs(print.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = run(&mut limited).expect(14);
    assert_eq!(ran.stdout, "fine\n");
    assert!(!bench.project.exists("big.txt"));
    let last = server.requests().last().unwrap().text().to_owned();
    assert!(last.contains("could not be written"), "{last}");
}

#[test]
fn rules_that_name_no_tool_are_told_once_each_and_the_run_goes_on() {
    let bench = Bench::new(&[]);
    for api in BOTH {
        let server = MockServer::start([Answer::text("fine")]);
        let ran = run(bench.print(api, &server).args([
            "--allowedTools",
            "Frobnicate,Bash(git *),mcp__db__query,TodoWrite,apply_patch,WebSearch",
            "job_ouput",
            "--disallowedTools",
            "Edti(src/**)",
            "--",
            "go",
        ]))
        .expect(0);
        assert_eq!(ran.stdout, "fine\n");
        let told: Vec<&str> = ran.stderr.lines().filter(|l| l.contains("names no known tool")).collect();
        assert_eq!(told.len(), 3, "{}", ran.stderr);
        assert!(
            told[0].starts_with("becket: the rule Frobnicate names no known tool and does nothing; tools: ")
        );
        assert!(told[0].contains("bash, ") && told[0].contains("job_output, "), "{}", told[0]);
        assert!(told[1].ends_with("the rule job_ouput names no known tool; did you mean job_output?"));
        assert!(told[2].ends_with("the rule Edti(src/**) names no known tool; did you mean Edit?"));
    }
}

#[test]
fn project_configuration_cannot_redirect_or_grant() {
    let bench = Bench::new(&[(
        ".becket/config.toml",
        "permission_mode = \"bypassPermissions\"\n[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\n[permissions]\nallow = [\"Bash\"]\n",
    )]);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "touch pwned" })),
        Answer::text("denied"),
    ]);
    let ran = run(bench.print(Api::Chat, &server).arg("go")).expect(5);
    assert!(!bench.project.exists("pwned"));
    for key in ["base_url", "permissions.allow", "permission_mode"] {
        assert!(ran.stderr.contains(key), "{key}: {}", ran.stderr);
    }
}

#[test]
fn agents_that_are_a_list_and_input_that_is_a_folder_are_mistakes_of_usage() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([Answer::text("never")]);
    for (agents, what) in [("[]", "not a list"), (" [1]", "not a list"), ("\"a\"", "not text")] {
        let ran = run(bench.print(Api::Chat, &server).args(["--agents", agents, "go"])).expect(2);
        assert!(ran.stderr.contains("--agents: an object of agents by name is expected"), "{}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
    for more in [&["go"][..], &["--input-format", "stream-json", "--output-format", "stream-json"]] {
        let folder = std::fs::File::open(bench.project.root()).unwrap();
        let ran = bench.print(Api::Chat, &server).args(more).stdin(folder).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains("standard input is a folder") && said.contains("< FILE"), "{said}");
    }
    assert!(server.requests().is_empty());
}
