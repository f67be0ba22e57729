//! Hooks through the binary: what they deny does not run, what they add is seen, and an untrusted project runs nothing.

use crate::support::{Api, Bench, Ran, Running, ask, request, run, says};
use crate::terminal::Terminal;
use becket_testkit::{Answer, MockServer, Project};
use serde_json::{Value, json};

fn settings(hooks: Value) -> String {
    json!({ "hooks": hooks }).to_string()
}

/// A bench whose user has these hooks in `~/.claude/settings.json`.
fn with_hooks(hooks: Value) -> Bench {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    bench.home.write(".claude/settings.json", settings(hooks));
    bench
}

fn command(event: &str, matcher: &str, text: &str) -> Value {
    json!({ event: [{"matcher": matcher, "hooks": [{"type": "command", "command": text}]}] })
}

fn runs(bench: &Bench) -> Vec<Value> {
    bench.entries().into_iter().filter(|entry| entry["kind"] == "hook").collect()
}

fn touch(server: Option<&str>) -> MockServer {
    let command = server.unwrap_or("touch made");
    MockServer::start([Answer::tool("c1", "bash", json!({"command": command})), Answer::text("done")])
}

/// The text of the last request's last tool result.
fn last_result(server: &MockServer) -> String {
    let requests = server.requests();
    requests.last().unwrap().text().to_owned()
}

#[test]
fn what_a_hook_denies_does_not_run_in_any_mode() {
    let bench =
        with_hooks(command("PreToolUse", "Bash", "grep -q 'touch made' && { echo not here >&2; exit 2; }"));
    for mode in ["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"] {
        let server = touch(None);
        let ran = run(bench.print(Api::Anthropic, &server).args(["--permission-mode", mode, "go"]));
        assert!(!bench.project.exists("made"), "{mode}: {ran:?}");
        if mode == "bypassPermissions" {
            let result = last_result(&server);
            assert!(result.contains("Permission denied, not run: not here"), "{mode}");
            assert!(result.contains("denied by the PreToolUse hook `grep` of /"), "{result}");
            assert!(ran.stderr.contains("denied by the PreToolUse hook `grep` of /"), "{ran:?}");
        }
    }
    let server = touch(Some("echo fine"));
    let ran =
        run(bench.print(Api::Anthropic, &server).args(["--permission-mode", "bypassPermissions", "go"]));
    ran.expect(0);
    assert!(last_result(&server).contains("fine"));
}

#[test]
fn runs_of_hooks_are_lines_where_a_program_wants_them() {
    let bench = with_hooks(command("PreToolUse", "Bash", "echo not here >&2; exit 2"));
    let flags = ["--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"];
    for wanted in [false, true] {
        let server = touch(None);
        let mut becket = bench.print(Api::Anthropic, &server);
        becket.args(flags);
        becket.args(wanted.then_some("--include-hook-events")).arg("go");
        let lines = run(&mut becket).lines();
        let hooks: Vec<&Value> = lines
            .iter()
            .filter(|line| line["hook_event"] == "PreToolUse" && line["type"] == "system")
            .collect();
        if !wanted {
            assert!(hooks.is_empty(), "{hooks:?}");
            continue;
        }
        let kinds: Vec<&str> = hooks.iter().map(|line| line["subtype"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["hook_started", "hook_progress", "hook_response"]);
        assert!(hooks.iter().all(|line| line["hook_id"] == hooks[0]["hook_id"]), "{hooks:?}");
        let end = hooks[2];
        assert_eq!((end["outcome"].as_str(), end["exit_code"].as_i64()), (Some("error"), Some(2)));
        assert!(end["output"].as_str().unwrap().contains("not here"), "{end}");
    }
}

#[test]
fn a_program_sees_what_a_running_hook_prints() {
    let hook = "mkfifo gate; echo half; read -r rest < gate; echo '{}'";
    let bench = with_hooks(command("UserPromptSubmit", "", hook));
    let server = MockServer::start([Answer::text("done")]);
    let flags = ["--output-format", "stream-json", "--verbose", "--include-hook-events", "go"];
    let mut running = Running::start(bench.print(Api::Anthropic, &server).args(flags));
    running.close_stdin();
    let mut line = |subtype: &str| -> Value {
        let wanted = format!("\"{subtype}\"");
        serde_json::from_str(
            &running.line(|line| line.contains(&wanted) && line.contains("UserPromptSubmit")),
        )
        .unwrap()
    };
    let begun = line("hook_started");
    let progress = line("hook_progress");
    assert_eq!(
        (&progress["stdout"], &progress["stderr"], &progress["output"]),
        (&json!("half\n"), &json!(""), &json!("half\n"))
    );
    std::fs::write(bench.project.root().join("gate"), "on\n").unwrap();
    let ended = line("hook_response");
    assert!(begun["hook_id"].is_string());
    assert_eq!((&begun["hook_id"], &begun["hook_id"]), (&progress["hook_id"], &ended["hook_id"]));
    running.wait().expect(0);
}

#[test]
fn hooks_are_told_of_rules_folders_and_models_and_may_refuse_a_model() {
    let refuse = r#"case "$(cat)" in *opus*) echo '{"hookSpecificOutput":{"hookEventName":"PreModelSwitch","permissionDecision":"deny","permissionDecisionReason":"too dear"}}';; esac"#;
    let mut hooks = command("PreModelSwitch", "*", refuse);
    for event in ["InstructionsLoaded", "DirectoryAdded", "PostModelSwitch"] {
        let record = "cat >> events.jsonl; echo >> events.jsonl";
        hooks[event] = command(event, "*", record)[event].clone();
    }
    let bench = with_hooks(hooks);
    bench.project.write("AGENTS.md", "Use tabs.");
    let lib = Project::new(&[]);
    let server = MockServer::start(["one", "two", "three"].map(Answer::text));
    let json = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    let mut running = Running::start(bench.print(Api::Anthropic, &server).args(json));
    ask(&mut running, &says("hello"), "\"type\":\"result\"");
    let set = |model: &str| request(&json!({ "subtype": "set_model", "model": model }));
    let refused = ask(&mut running, &set("claude-opus-4-1"), "control_response");
    assert!(refused["response"]["error"].as_str().unwrap().contains("too dear"), "{refused}");
    let taken = ask(&mut running, &set("claude-haiku-4-5"), "control_response");
    assert_eq!(taken["response"]["subtype"], "success");
    let folder = lib.root().to_str().unwrap();
    ask(&mut running, &request(&json!({ "subtype": "add_directory", "path": folder })), "control_response");
    for text in ["again", "and again"] {
        ask(&mut running, &says(text), "\"type\":\"result\"");
    }
    running.wait().expect(0);
    assert_eq!(server.requests()[1].json()["model"], "claude-haiku-4-5");
    let events = bench.project.read("events.jsonl");
    let events: Vec<Value> = events.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |name: &str| events.iter().find(|event| event["hook_event_name"] == name).unwrap();
    let rules = of("InstructionsLoaded");
    assert!(rules["file_path"].as_str().unwrap().ends_with("AGENTS.md"), "{rules}");
    assert_eq!((&rules["memory_type"], &rules["load_reason"]), (&json!("Project"), &json!("session_start")));
    assert!(
        of("DirectoryAdded")["directory"]
            .as_str()
            .unwrap()
            .ends_with(lib.root().file_name().unwrap().to_str().unwrap())
    );
    let switched = of("PostModelSwitch");
    let models = (switched["from_model"].as_str().unwrap(), switched["to_model"].as_str().unwrap());
    assert_eq!(models, ("anthropic/claude-sonnet-4-5", "anthropic/claude-haiku-4-5"));
}

#[test]
fn hooks_are_told_of_changed_files_of_settings() {
    // The hook writes each event with one call of `printf`, because hooks run in parallel.
    let record = "printf '%s\\n' \"$(cat)\" >> events.jsonl";
    let bench = with_hooks(command("ConfigChange", "user_settings|project_settings", record));
    let server = MockServer::start(["one", "two", "three"].map(Answer::text));
    let json = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    let mut running = Running::start(bench.print(Api::Anthropic, &server).args(json));
    ask(&mut running, &says("hello"), "\"type\":\"result\"");
    assert!(!bench.project.exists("events.jsonl"), "nothing has changed");
    bench.project.write(".claude/settings.json", "{}");
    bench.project.write(".claude/settings.local.json", "{}");
    bench.home.write(".config/becket/config.toml", "effort = \"high\"\n");
    for text in ["again", "and again"] {
        ask(&mut running, &says(text), "\"type\":\"result\"");
    }
    running.wait().expect(0);
    let events = bench.project.read("events.jsonl");
    let mut told: Vec<(String, String)> = events
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|event| {
            let path = event["file_path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            (event["source"].as_str().unwrap().to_owned(), path)
        })
        .collect();
    told.sort();
    let want = [("project_settings", "settings.json"), ("user_settings", "config.toml")];
    assert_eq!(told, want.map(|(source, path)| (source.to_owned(), path.to_owned())));
}

#[test]
fn a_hook_allows_what_would_be_asked_and_never_what_a_rule_denies() {
    let allow =
        r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'"#;
    let bench = with_hooks(command("PreToolUse", "Bash", allow));
    let server = touch(None);
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    assert!(bench.project.exists("made"));
    let server = touch(Some("touch other"));
    run(bench.print(Api::Anthropic, &server).args(["--disallowedTools", "Bash(touch *)", "--", "go"]));
    assert!(!bench.project.exists("other"));
}

#[test]
fn a_changed_input_is_what_runs_and_context_reaches_the_model() {
    let change = r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"touch changed"},"additionalContext":"mind the gap"}}'"#;
    let bench = with_hooks(command("PreToolUse", "Bash", change));
    let server = touch(None);
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    assert!(bench.project.exists("changed") && !bench.project.exists("made"));
    let last = last_result(&server);
    assert!(last.contains("mind the gap") && last.contains("<hook event"), "{last}");
    let runs = runs(&bench);
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (&runs[0]["event"], &runs[0]["result"], &runs[0]["call"]),
        (&json!("PreToolUse"), &json!("ok"), &json!("c1"))
    );
}

#[test]
fn hooks_see_names_and_inputs_as_sdk_users_know_them() {
    let hooks = json!({
        "PreToolUse": [{"matcher": "Read", "hooks": [{"type": "command", "command": "cat >before.json"}]}],
        "PostToolUse": [{"matcher": "Read", "hooks": [{"type": "command", "command": "cat >after.json"}]}],
        "PostToolUseFailure": [{"matcher": "Read", "hooks": [{"type": "command", "command": "cat >failed.json"}]}],
    });
    let bench = with_hooks(hooks);
    let server = MockServer::start([
        Answer::tool("c1", "read", json!({"path": "a.txt"})).and_tool(
            "c2",
            "read",
            json!({"path": "none.txt"}),
        ),
        Answer::text("done"),
    ]);
    run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    let read = |name: &str| -> Value { serde_json::from_str(&bench.project.read(name)).unwrap() };
    let (after, failed) = (read("after.json"), read("failed.json"));
    let path = bench.project.root().canonicalize().unwrap().join("a.txt");
    assert_eq!((&after["tool_name"], &after["tool_input"]["file_path"]), (&json!("Read"), &json!(path)));
    assert!(after["tool_response"].to_string().contains("one"), "{after}");
    assert_eq!((&after["hook_event_name"], &after["tool_use_id"]), (&json!("PostToolUse"), &json!("c1")));
    assert_eq!(
        (&failed["hook_event_name"], &failed["tool_use_id"]),
        (&json!("PostToolUseFailure"), &json!("c2"))
    );
    for key in ["session_id", "transcript_path", "cwd", "permission_mode"] {
        assert!(after[key].is_string(), "{key}: {after}");
    }
    assert!(std::path::Path::new(after["transcript_path"].as_str().unwrap()).is_file());
}

#[test]
fn a_refused_prompt_never_reaches_the_model() {
    let bench = with_hooks(command(
        "UserPromptSubmit",
        "",
        "grep -q secret && { echo no secrets >&2; exit 2; }; echo extra words",
    ));
    let server = MockServer::start([Answer::text("never")]);
    let ran = run(bench.print(Api::Anthropic, &server).arg("the secret is out"));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("no secrets"), "{ran:?}");
    assert_eq!(server.requests().len(), 0);
    let server = MockServer::start([Answer::text("fine")]);
    run(bench.print(Api::Anthropic, &server).arg("hello")).expect(0);
    assert!(server.requests()[0].text().contains("extra words"));
}

#[test]
fn a_stop_hook_sends_the_model_back_at_most_eight_times() {
    let bench = with_hooks(command("Stop", "", "echo run the tests >&2; exit 2"));
    let answers: Vec<Answer> = (0..12).map(|n| Answer::text(format!("done {n}"))).collect();
    let server = MockServer::start(answers);
    let ran = run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    assert_eq!(server.requests().len(), 9);
    assert!(ran.stdout.contains("done 8"), "{ran:?}");
    assert!(ran.stderr.contains("8 times"), "{ran:?}");
    assert!(server.requests()[1].text().contains("run the tests"));
    assert_eq!(runs(&bench).len(), 8);
}

#[test]
fn the_start_of_a_session_gives_context_once() {
    let hooks = json!({
        "SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "echo begun on a $(printf Tues)day"}]}],
        "SessionEnd": [{"hooks": [{"type": "command", "command": "cat >ended.json"}]}],
    });
    let bench = with_hooks(hooks);
    let server = MockServer::start([Answer::text("fine"), Answer::text("again")]);
    run(bench.print(Api::Anthropic, &server).arg("hello")).expect(0);
    assert!(server.requests()[0].text().contains("begun on a Tuesday"));
    assert!(bench.project.read("ended.json").contains("SessionEnd"));
    run(bench.print(Api::Anthropic, &server).args(["--continue", "more"])).expect(0);
    assert_eq!(server.requests()[1].text().matches("begun on a Tuesday").count(), 1);
}

#[test]
fn a_hook_that_fails_is_one_line_and_stops_nothing() {
    let bench = with_hooks(command("PreToolUse", "*", "echo broken >&2; exit 7"));
    let server =
        MockServer::start([Answer::tool("c1", "read", json!({"path": "a.txt"})), Answer::text("done")]);
    let ran = run(bench.print(Api::Anthropic, &server).arg("go")).expect(0);
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("exit code 7: broken")).collect();
    assert_eq!(lines.len(), 1, "{}", ran.stderr);
    assert_eq!(runs(&bench)[0]["result"], "failed");
}

#[test]
fn a_wrong_configuration_is_said_and_the_rest_is_used() {
    let mut hooks = command("UserPromptSubmit", "", "echo from a file");
    hooks["PreTolUse"] = json!([]);
    let bench = with_hooks(hooks);
    let server = MockServer::start([Answer::text("fine")]);
    let ran = run(bench.print(Api::Anthropic, &server).arg("hello")).expect(0);
    assert!(ran.stderr.contains("did you mean PreToolUse?"), "{}", ran.stderr);
    assert!(server.requests()[0].text().contains("from a file"));
}

fn project_run(bench: &Bench, flags: &[&str]) -> Ran {
    let server = MockServer::start([Answer::text("fine")]);
    run(bench.print(Api::Anthropic, &server).args(flags).arg("hello")).expect(0)
}

#[test]
fn hooks_of_a_project_run_only_when_they_are_trusted() {
    let hooks = settings(command("UserPromptSubmit", "", "touch ran; true"));
    let toml = "[[hooks.UserPromptSubmit]]\nhooks = [{ type = \"command\", command = \"touch ran\" }]\n";
    for (file, text) in [
        (".claude/settings.json", hooks.as_str()),
        (".claude/settings.local.json", hooks.as_str()),
        (".becket/config.toml", toml),
    ] {
        let bench = Bench::new(&[(file, text)]);
        let ran = project_run(&bench, &[]);
        assert!(!bench.project.exists("ran"), "{file}");
        let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("Not used")).collect();
        assert_eq!(lines.len(), 1, "{file}: {}", ran.stderr);
        assert!(lines[0].contains(&format!("hooks {file}")) && lines[0].contains("--trust"), "{lines:?}");
        project_run(&bench, &["--trust"]);
        assert!(bench.project.exists("ran"), "{file}");
        // `--trust` counts for one run only.
        std::fs::remove_file(bench.project.path("ran")).unwrap();
        project_run(&bench, &[]);
        assert!(!bench.project.exists("ran"), "{file}");
    }
}

/// The script is a part of what was trusted, however its path is written.
#[test]
fn a_hook_whose_script_has_changed_does_not_run() {
    for spelling in [
        "sh \"$CLAUDE_PROJECT_DIR/.claude/say it.sh\"",
        "sh \"$CLAUDE_PROJECT_DIR\"/.claude/say\\ it.sh",
        "cd .claude && env A=b sh './say it.sh'",
    ] {
        let bench = Bench::new(&[
            ("my project/.git/HEAD", "ref: refs/heads/main\n"),
            ("my project/.claude/settings.json", &settings(command("UserPromptSubmit", "", spelling))),
            ("my project/.claude/say it.sh", "touch \"$CLAUDE_PROJECT_DIR/ran\"\n"),
        ]);
        let root = bench.project.path("my project");
        let headless = || {
            let _ = std::fs::remove_file(root.join("ran"));
            let server = MockServer::start([Answer::text("fine")]);
            let mut command = bench.print(Api::Anthropic, &server);
            let ran = run(command.current_dir(&root).arg("hello")).expect(0);
            (root.join("ran").exists(), ran.stderr.contains("hooks .claude/settings.json"))
        };
        assert_eq!(headless(), (false, true), "{spelling}");

        let server = MockServer::start([Answer::text("never")]);
        let mut command = bench.command();
        command
            .env("ANTHROPIC_API_KEY", "sk-test")
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("TERM", "xterm-256color")
            .args(["--ax", "--model", "anthropic/claude-sonnet-4-5"])
            .current_dir(&root);
        let mut terminal = Terminal::start(command);
        let said = |t: &Terminal| String::from_utf8_lossy(&t.bytes).into_owned();
        terminal.until("the question", |t| said(t).contains("Write /y to use exactly this"));
        assert!(said(&terminal).contains("touch \"$CLAUDE_PROJECT_DIR/ran\""), "{}", said(&terminal));
        terminal.send("/y\n");
        terminal.until("the session", |t| said(t).contains("/quit to leave."));
        drop(terminal);
        assert_eq!(headless(), (true, false), "{spelling}");

        bench.project.write("my project/.claude/say it.sh", "touch \"$CLAUDE_PROJECT_DIR/ran\" # other\n");
        assert_eq!(headless(), (false, true), "{spelling}");
        let list = run(bench.command().current_dir(&root).args(["hooks", "list"])).expect(0).stdout;
        assert!(list.contains("changed, not trusted"), "{list}");
    }
}

#[test]
fn commands_and_skills_are_called_by_name_in_headless_runs() {
    let skill = "---\nname: shout\ndescription: Speaks loudly\n---\nShout about $ARGUMENTS.\n";
    let bench = Bench::new(&[
        (".claude/commands/look.md", "---\ndescription: Looks\n---\nLook at $1.\n"),
        (".claude/commands/log.md", "The log: !`echo ran $1 >ran; echo from the log`\n"),
        (".claude/skills/shout/SKILL.md", skill),
    ]);
    let asked = |flags: &[&str], prompt: &str| {
        let server = MockServer::start([Answer::text("fine")]);
        let ran = run(bench.print(Api::Anthropic, &server).args(flags).args(["--", prompt]));
        let text = server.requests().first().map(|request| request.text().to_owned()).unwrap_or_default();
        (ran, text)
    };
    assert!(asked(&[], "/look a.txt").1.contains("Look at a.txt."));
    assert!(asked(&[], "/shout cats").1.contains("Shout about cats."));
    assert!(asked(&[], "/nothing here").1.contains("/nothing here"), "an unknown name stays");
    let (ran, text) = asked(&[], "/log it");
    assert_eq!((ran.code, text.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.contains("--trust") && !bench.project.exists("ran"), "{ran:?}");
    let (_, text) = asked(&["--trust"], "/log it;touch$IFS'evil'");
    assert!(text.contains("The log: from the log"), "{text}");
    assert!(bench.project.exists("ran") && !bench.project.exists("evil"));
}

#[test]
fn words_of_other_programs_are_never_a_prompt() {
    let bench = Bench::new(&[]);
    for word in ["serve", "acp", "update", "plugin"] {
        let ran = run(bench.command().arg(word)).expect(2);
        let verb = if word == "update" { "use:" } else { "type:" };
        assert!(ran.stderr.contains(verb), "{word}: {}", ran.stderr);
    }
    assert!(bench.ledgers().is_empty());
}

#[test]
fn hooks_are_listed_and_tried_without_a_session() {
    let bench = with_hooks(command(
        "PreToolUse",
        "Bash",
        "grep -q 'git push' && { echo by hand >&2; exit 2; } || exit 0",
    ));
    bench.project.write(".claude/settings.json", settings(command("Stop", "", "touch ran")));
    let list = run(bench.command().args(["hooks", "list"])).expect(0).stdout;
    assert!(list.contains("PreToolUse") && list.contains("; runs)"), "{list}");
    assert!(list.contains("project: .claude/settings.json; not trusted"), "{list}");
    let tried =
        run(bench.command().args(["hooks", "test", "PreToolUse", "--input", r#"{"command": "git push"}"#]));
    assert!(tried.expect(0).stdout.contains("decision: deny: by hand"));
    let tried = run(bench.command().args(["hooks", "test", "Stop"])).expect(0);
    assert!(tried.stdout.contains("No hook of Stop matches.") && !bench.project.exists("ran"), "{tried:?}");
    run(bench.command().args(["hooks", "test", "Stop", "--trust"])).expect(0);
    assert!(bench.project.exists("ran"));
    run(bench.command().args(["hooks", "test", "Nothing"])).expect(2);
    assert!(bench.ledgers().is_empty());
}

/// A guard that is written wrongly in becket's own configuration ends the run, like any other mistake there. In another
/// program's file it does so if it says that it refuses; other hooks there may be of a kind that becket does not know.
#[test]
fn a_guard_that_cannot_be_read_does_not_let_calls_pass() {
    let own = "[[hooks.PreToolUse]]\nhooks = [{ type = \"comand\", command = \"false\" }]\n";
    let event = "[[hooks.PreTolUse]]\nhooks = [{ type = \"command\", command = \"false\" }]\n";
    let other = |more: &str| {
        format!(
            r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{{"type": "comand", "command": "false"{more}}}]}}]}}}}"#
        )
    };
    for (file, text, code, want) in [
        (".config/becket/config.toml", own.to_owned(), 2, "there is no hook of type \"comand\""),
        (".config/becket/config.toml", event.to_owned(), 2, "did you mean PreToolUse?"),
        (
            ".claude/settings.json",
            other(r#", "on_failure": "block""#),
            2,
            "there is no hook of type \"comand\"",
        ),
        (".claude/settings.json", other(""), 0, "there is no hook of type \"comand\""),
    ] {
        let bench = Bench::new(&[]);
        bench.home.write(file, &text);
        let server = MockServer::start([Answer::text("done")]);
        let ran = run(bench.print(Api::Anthropic, &server).arg("go")).expect(code);
        assert!(ran.stderr.contains(want), "{file}: {}", ran.stderr);
        assert_eq!(server.requests().is_empty(), code == 2, "{file}");
    }
}
