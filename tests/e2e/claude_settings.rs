//! Settings files of Claude Code and servers of `.mcp.json`: what counts, and what a project's file needs an answer for.

use crate::mcp::fixture;
use crate::support::{Api, Bench, Ran, Running, ask, run, says};
use crate::terminal::Terminal;
use becket_testkit::{Answer, MockServer};
use serde_json::json;

fn settings() -> String {
    json!({
        "permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(rm *)"]},
        "env": {"GREETING": "from settings", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"},
        "model": "opus", "statusLine": {"type": "command", "command": "x"},
    })
    .to_string()
}

/// A run in which the model makes one call. Returns the result of the call, and the run.
fn called(bench: &Bench, command: &str, flags: &[&str]) -> (String, Ran) {
    let server =
        MockServer::start([Answer::tool("c1", "bash", json!({ "command": command })), Answer::text("done")]);
    let ran = run(bench.print(Api::Anthropic, &server).args(flags).arg("go"));
    let requests = server.requests();
    let last = requests[1].json()["messages"].as_array().unwrap().last().unwrap().to_string();
    (last, ran)
}

#[test]
fn settings_of_the_user_count_and_those_of_a_project_as_far_as_they_were_approved() {
    for (home, file) in [(true, ".claude/settings.json"), (false, ".claude/settings.local.json")] {
        let bench = Bench::new(&[]);
        let place = if home { &bench.home } else { &bench.project };
        place.write(file, settings());
        let touch = "touch \"$GREETING\"";
        let (_, ran) = called(&bench, touch, &[]);
        assert_eq!(bench.project.exists("from settings"), home, "{ran:?}");
        let unused = ran.stderr.lines().filter(|line| line.contains(&format!("settings {file}"))).count();
        assert_eq!(unused, usize::from(!home), "{}", ran.stderr);
        // A deny rule counts without a question, also in a file that was not approved.
        let (result, _) = called(&bench, "rm x", &["--permission-mode", "bypassPermissions"]);
        assert!(result.contains("the rule Bash(rm *)"), "{result}");
        if !home {
            called(&bench, touch, &["--trust"]);
            assert!(bench.project.exists("from settings"));
        }
        std::fs::remove_file(bench.project.path("from settings")).unwrap();
        called(&bench, touch, &["--trust", "--setting-sources", ""]);
        assert!(!bench.project.exists("from settings"), "no source is read");
    }
}

/// The file was written for another program, so a mistake in it must not keep becket from starting.
#[test]
fn a_rule_or_folder_that_cannot_be_used_is_left_out_with_a_line() {
    let bench = Bench::new(&[]);
    let settings = json!({"permissions": {
        "allow": ["Bash((", "", "Bash(touch *)"], "deny": ["Read(./secrets/**", "AskUserQuestion"],
        "additionalDirectories": ["/nowhere/at/all"]}});
    bench.home.write(".claude/settings.json", settings.to_string());
    let (_, ran) = called(&bench, "touch made", &[]);
    assert!(bench.project.exists("made"), "{ran:?}");
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("left out")).collect();
    assert_eq!(lines.len(), 4, "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("AskUserQuestion"),
        "a rule about a tool that is not offered is no mistake: {ran:?}"
    );
}

/// Nobody knows what such a file denies.
#[test]
fn a_file_that_cannot_be_read_ends_the_start_and_may_be_left_out() {
    let deny = r#"{"permissions": {"deny": ["Bash(touch *)"]}}"#;
    let utf16: Vec<u8> =
        std::iter::once(0xFEFF).chain(deny.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    for text in [&utf16[..], &deny.as_bytes()[..20], b"[]"] {
        for file in [".claude/settings.json", ".claude/settings.local.json"] {
            let bench = Bench::new(&[]);
            bench.project.write(file, "");
            std::fs::write(bench.project.path(file), text).unwrap();
            let server = MockServer::start([Answer::text("never")]);
            let print = |flags: &[&str]| {
                let mut command = bench.print(Api::Anthropic, &server);
                command.args(["--permission-mode", "bypassPermissions"]).args(flags).args(["--", "go"]);
                run(&mut command)
            };
            let ran = print(&[]).expect(2);
            assert!(ran.stderr.contains("permission rules in this file would not hold"), "{}", ran.stderr);
            assert_eq!(ran.stderr.matches(file).count(), 1, "{}", ran.stderr);
            assert!(server.requests().is_empty());
            print(&["--setting-sources", "user"]).expect(0);
            let doctor = run(bench.command().args(["doctor"]));
            assert!(doctor.stdout.contains(file) || doctor.stderr.contains(file), "{doctor:?}");
        }
    }
}

/// A restriction whose meaning is clear counts. A setting that cannot be used is named, by a run and by `becket doctor`.
#[test]
fn a_deny_rule_that_is_written_wrongly_does_not_get_lost() {
    for (text, counts, told) in [
        (r#"{"permissions": {"deny": "Bash(touch *)"}}"#, true, "permissions.deny: expected a list"),
        (r#"{"permissions": {"deny": [["Bash(touch *)"]]}}"#, true, "permissions.deny: a list in the list"),
        (
            r#"{"permissions": {"Deny": ["Bash(touch *)"]}}"#,
            true,
            "permissions.Deny: read as permissions.deny",
        ),
        (r#"{"permissions": {"deny": ["Bash(touch *)"]}, "x": "\ud83d"}"#, true, ""),
        (r#"{"permissions": {"deny": {"Bash": "touch *"}}}"#, false, "nothing of it is used"),
        (r#"{"permissions": ["Bash(touch *)"]}"#, false, "permissions: expected a table"),
        ("", false, "the file is empty"),
    ] {
        for home in [true, false] {
            let bench = Bench::new(&[]);
            let place = if home { &bench.home } else { &bench.project };
            place.write(".claude/settings.json", text);
            let (result, ran) = called(&bench, "touch made", &["--permission-mode", "bypassPermissions"]);
            assert_eq!(bench.project.exists("made"), !counts, "{text}: {result}");
            assert!(ran.stderr.contains(told), "{text}: {}", ran.stderr);
            let doctor = run(bench.command().args(["doctor"])).stdout;
            assert!(doctor.contains(told), "{text}: {doctor}");
        }
    }
}

#[test]
fn a_link_to_settings_outside_of_the_project_is_named() {
    let bench = Bench::new(&[(".claude/x", "")]);
    bench.home.write("dotfiles/settings.json", settings());
    let link = bench.project.path(".claude/settings.json");
    std::os::unix::fs::symlink(bench.home.path("dotfiles/settings.json"), link).unwrap();
    let (_, ran) = called(&bench, "true", &[]);
    assert!(ran.stderr.contains("not used, nor its permission rules"), "{}", ran.stderr);
    // The user's own file may be a link to anywhere, also if the home folder is the project.
    let bench = Bench::new(&[]);
    bench.project.write("elsewhere.json", settings());
    bench.home.write(".claude/x", "");
    let link = bench.home.path(".claude/settings.json");
    std::os::unix::fs::symlink(bench.project.path("elsewhere.json"), link).unwrap();
    let server =
        MockServer::start([Answer::tool("c1", "bash", json!({"command": "rm x"})), Answer::text("done")]);
    let mut command = bench.print(Api::Anthropic, &server);
    let ran = run(command.current_dir(bench.home.root()).arg("go")).expect(5);
    assert!(!ran.stderr.contains("not used, nor"), "{}", ran.stderr);
    assert!(server.requests()[1].text().contains("the rule Bash(rm *)"), "{}", server.requests()[1].text());
}

/// The switch only restricts, so it counts in every file.
#[test]
fn a_settings_file_switches_bypass_off() {
    for (home, value) in [(true, json!("disable")), (false, json!("disable")), (true, json!(true))] {
        let bench = Bench::new(&[]);
        let place = if home { &bench.home } else { &bench.project };
        let text = json!({"permissions": {"disableBypassPermissionsMode": value}}).to_string();
        place.write(".claude/settings.json", text);
        let server = MockServer::start([Answer::text("never")]);
        for flags in [&["--permission-mode", "bypassPermissions"][..], &["--dangerously-skip-permissions"]] {
            let ran = run(bench.print(Api::Anthropic, &server).args(flags).arg("go")).expect(2);
            assert!(ran.stderr.contains("a settings file switches it off"), "{}", ran.stderr);
            assert!(ran.stderr.contains(".claude/settings.json"), "{}", ran.stderr);
        }
        assert!(server.requests().is_empty());
        run(bench.print(Api::Anthropic, &server).args(["--permission-mode", "auto", "go"])).expect(0);
    }
}

#[test]
fn the_folder_of_another_agent_may_be_elsewhere() {
    let bench = Bench::new(&[]);
    bench.home.write("elsewhere/settings.json", settings());
    bench.home.write("elsewhere/commands/greet.md", "Greet me in Latin.");
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "touch made" })),
        Answer::text("done"),
    ]);
    let mut command = bench.print(Api::Anthropic, &server);
    command.env("CLAUDE_CONFIG_DIR", bench.home.path("elsewhere"));
    run(command.arg("/greet")).expect(0);
    assert!(bench.project.exists("made"));
    assert!(server.requests()[0].text().contains("Greet me in Latin."));
}

#[test]
fn a_terminal_asks_once_about_settings_and_servers_and_again_when_they_change() {
    let config = |words: &[&str]| json!({"mcpServers": {"fix": fixture(words)}}).to_string();
    let bench = Bench::new(&[(".claude/settings.json", &settings()), (".mcp.json", &config(&["plain"]))]);
    let server = MockServer::with(|_| Answer::text("never").into());
    let start = || {
        let mut command = bench.command();
        command
            .env("ANTHROPIC_API_KEY", "sk-test")
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("TERM", "xterm-256color")
            .args(["--ax", "--model", "anthropic/claude-sonnet-4-5"]);
        Terminal::start(command)
    };
    let said = |t: &Terminal| String::from_utf8_lossy(&t.bytes).into_owned();
    let mut terminal = start();
    terminal.until("the first question", |t| said(t).contains("Write /y to use exactly this"));
    let text = said(&terminal);
    assert!(text.contains("settings in .claude/settings.json, which would allow this here"), "{text}");
    assert!(text.contains("Bash(touch *)") && text.contains("GREETING") && !text.contains("rm *"), "{text}");
    terminal.send("/y\n");
    terminal.until("the second question", |t| said(t).matches("Write /y to use").count() == 2);
    assert!(said(&terminal).contains("brings the MCP server fix of .mcp.json, which"), "{}", said(&terminal));
    terminal.send("/y\n");
    terminal.until("the session", |t| said(t).contains("/quit to leave."));
    drop(terminal);
    called(&bench, "touch \"$GREETING\"", &[]);
    assert!(bench.project.exists("from settings"), "approved from now on");
    let list = run(bench.command().args(["mcp", "get", "fix"])).expect(0).stdout;
    assert!(!list.contains("not allowed"), "{list}");

    // Nothing is asked about again until something changes.
    let mut terminal = start();
    terminal.until("the session", |t| said(t).contains("/quit to leave."));
    assert!(!said(&terminal).contains("Write /y"), "{}", said(&terminal));
    drop(terminal);
    bench.project.write(".mcp.json", config(&["plain", "other"]));
    let mut terminal = start();
    terminal.until("the question", |t| said(t).contains("Write /y to use exactly this"));
    assert!(said(&terminal).contains("has changed since you decided about it"), "{}", said(&terminal));
    terminal.send("no\n");
    terminal.until("the session", |t| said(t).contains("/quit to leave."));
}

#[test]
fn a_program_keeps_rules_in_the_files_that_it_names() {
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "touch a" })),
        Answer::tool("c2", "bash", json!({ "command": "touch b" })),
        Answer::text("done"),
    ]);
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    let mut running = Running::start(command.args(["--permission-prompt-tool", "stdio"]));
    let asked = ask(&mut running, &says("go"), "can_use_tool");
    let id = asked["request_id"].clone();
    let rule = |text: &str| json!([{ "toolName": "Bash", "ruleContent": text }]);
    let updates = json!([
        {"type": "addRules", "behavior": "allow", "rules": rule("touch:*"), "destination": "userSettings"},
        {"type": "addRules", "behavior": "ask", "rules": rule("git push:*"), "destination": "localSettings"},
    ]);
    let answer =
        json!({"behavior": "allow", "updatedInput": {"command": "touch a"}, "updatedPermissions": updates});
    let response = json!({"subtype": "success", "request_id": id, "response": answer});
    ask(&mut running, &json!({"type": "control_response", "response": response}), "\"type\":\"result\"");
    running.close_stdin();
    let ran = running.wait();
    assert!(
        bench.project.exists("a") && bench.project.exists("b"),
        "the second call is not asked about: {ran:?}"
    );
    let user = std::fs::read_to_string(bench.home.path(".config/becket/config.toml")).unwrap();
    assert!(user.contains("Bash(touch:*)") && !user.contains("git push"), "{user}");
    let projects = bench.home.path(".config/becket/projects");
    let own = std::fs::read_dir(projects).unwrap().next().unwrap().unwrap().path();
    assert!(std::fs::read_to_string(own).unwrap().contains("Bash(git push:*)"));
    assert!(
        !bench.project.exists(".becket") && !bench.project.exists(".claude"),
        "never a file of the project"
    );
}
