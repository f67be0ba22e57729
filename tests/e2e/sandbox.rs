//! Commands of a run in the sandbox: those that run without a question are confined, and results say so.

use crate::support::{Api, Bench, Ran, Running, ask, request, run, says};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};
use std::path::Path;

/// True if nothing confines commands on this machine; says so.
#[expect(clippy::print_stdout, reason = "a test says that it skipped")]
pub(crate) fn skipped(bench: &Bench) -> bool {
    let doctor = run(bench.command().arg("doctor"));
    let line = doctor.stdout.lines().find(|line| line.contains("sandbox")).unwrap_or_default().to_owned();
    let none = line.contains("none");
    if none {
        println!("skipped: {line}");
    }
    none
}

/// Runs one command of the model. Returns the last request, which has its result, and the run.
fn command(bench: &Bench, command: &str, flags: &[&str]) -> (String, Ran) {
    let server =
        MockServer::start([Answer::tool("c1", "bash", json!({"command": command})), Answer::text("done")]);
    let ran = run(bench.print(Api::Anthropic, &server).args(flags).args(["--", "go"]));
    (server.requests().last().unwrap().text().to_owned(), ran)
}

#[test]
fn the_workspace_is_writable_in_auto_mode_and_nothing_else() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    if skipped(&bench) {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("x");
    let auto = ["--permission-mode", "auto"];
    let (told, _) = command(&bench, "echo made > made.txt && python3 -c 'print(6*7)' && cat a.txt", &auto);
    assert!(told.contains("42") && told.contains("hello"), "{told}");
    assert_eq!(bench.project.read("made.txt"), "made\n");
    // The path is not in the text, so the guard does not see it; the sandbox does.
    let script = format!(
        "python3 -c 'open(\"/\" + \"{}\", \"w\")'",
        target.display().to_string().trim_start_matches('/')
    );
    let (told, _) = command(&bench, &script, &auto);
    assert!(told.contains("unconfined") && !target.exists(), "{told}");
    let (told, _) = command(&bench, "mkdir -p .vscode && echo {} > .vscode/tasks.json; true", &auto);
    assert!(!Path::new(&bench.project.path(".vscode/tasks.json")).exists(), "{told}");
}

/// The guard sees a variable or a script where a rule names a file, and the sandbox sees the file.
#[test]
fn deny_rules_for_files_hold_where_no_word_says_which() {
    let bench = Bench::new(&[
        ("private/f", "DENIED\n"),
        ("gen/f", "generated\n"),
        ("a.lock", "locked\n"),
        ("a.txt", "hello\n"),
        ("read.py", "print(open('pri' + 'vate/f').read())\n"),
    ]);
    if skipped(&bench) {
        return;
    }
    let rules = r#"["Read(./private/**)", "Edit(./gen/**)", "Edit(*.lock)", "Edit(./new/**)"]"#;
    bench.home.write(".config/becket/config.toml", format!("permissions.deny = {rules}\n"));
    let auto = ["--permission-mode", "auto"];
    for text in [
        "python3 read.py; echo ran",
        "d=priv; cat ${d}ate/f; echo ran",
        "d=g; echo x > ${d}en/f; echo ran",
        "python3 -c 'open(\"g\" + \"en/new\", \"w\")'; echo ran",
        "x=lock; echo x > a.$x; echo ran",
        "x=ne; mkdir -p ${x}w && echo x > ${x}w/f; echo ran",
    ] {
        let (told, _) = command(&bench, text, &auto);
        assert!(!told.contains("DENIED"), "{text}: {told}");
        assert_eq!(bench.project.read("gen/f"), "generated\n", "{text}: {told}");
        assert_eq!(bench.project.read("a.lock"), "locked\n", "{text}: {told}");
        assert!(
            !bench.project.path("gen/new").exists() && !bench.project.path("new").exists(),
            "{text}: {told}"
        );
    }
    let (told, _) = command(&bench, "python3 -c 'open(\"b.txt\", \"w\").write(\"made\")'; cat a.txt", &auto);
    assert!(bench.project.path("b.txt").exists() && told.contains("hello"), "{told}");
}

/// A pattern may name files where becket does not look before a command starts. A notice reports that once, and so does `becket sandbox`.
#[test]
fn a_deny_rule_that_is_not_looked_up_everywhere_is_said() {
    let bench = Bench::new(&[("a.lock", "locked\n"), ("target/b.lock", "built\n"), ("dist/c.js", "built\n")]);
    if skipped(&bench) {
        return;
    }
    let write = |file: &str| {
        format!("python3 -c 'open(\"{}\" + \"{}\", \"a\").write(\"more\")'", &file[..3], &file[3..])
    };
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": write("dist/c.js") })),
        Answer::tool("c2", "bash", json!({ "command": write("a.lock") })),
        Answer::text("done"),
    ]);
    let rules =
        |text: &str| bench.home.write(".config/becket/config.toml", format!("permissions.deny = {text}\n"));
    let shown = || run(bench.command().arg("sandbox")).stdout;
    rules(r#"["Edit(dist/*.js)"]"#);
    assert!(!shown().contains("deny rules:"), "{}", shown());
    rules(r#"["Edit(dist/*.js)", "Edit(*.lock)"]"#);
    let ran = run(bench.print(Api::Anthropic, &server).args(["--permission-mode", "auto", "--", "go"]));
    assert_eq!(
        (bench.project.read("dist/c.js"), bench.project.read("a.lock")),
        ("built\n".into(), "locked\n".into())
    );
    let said: Vec<&str> =
        ran.stderr.lines().filter(|line| line.contains("may not protect every file")).collect();
    assert_eq!(said.len(), 1, "{}", ran.stderr);
    for text in [said[0], &shown()] {
        assert!(text.contains("the deny rule Edit(*.lock) ") && text.contains("dist/**)"), "{text}");
    }
}

/// Rules that a program or the answer to a question adds while the session runs reach the sandbox of the next command, and those
/// that are withdrawn leave it.
#[test]
fn deny_rules_that_come_later_hold_in_the_sandbox() {
    let bench = Bench::new(&[
        ("private/f", "DENIED\n"),
        ("a.lock", "locked\n"),
        ("try.py", "print(open('pri' + 'vate/f').read())\n"),
        ("write.py", "open('a.lo' + 'ck', 'a').write('again\\n')\n"),
    ]);
    if skipped(&bench) {
        return;
    }
    let outside = format!("ls {}", bench.home.root().display());
    let call = |id: &str, text: &str| Answer::tool(id, "bash", json!({ "command": text }));
    let both = "python3 try.py; python3 write.py; echo ran";
    let server = MockServer::start([
        call("c1", both),
        Answer::text("before"),
        call("c2", both),
        Answer::text("denied"),
        call("c3", both),
        Answer::text("withdrawn"),
        call("c4", &outside),
        call("c5", both),
        Answer::text("denied again"),
    ]);
    let mut becket = bench.print(Api::Anthropic, &server);
    becket.args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    becket.args(["--permission-mode", "auto", "--permission-prompt-tool", "stdio"]);
    let mut running = Running::start(&mut becket);
    let deny = ["Read(./private/**)", "Edit(*.lock)"];
    let set = |running: &mut Running, deny: &[&str]| {
        let body =
            json!({ "subtype": "apply_flag_settings", "settings": { "permissions": { "deny": deny } } });
        let answer = ask(running, &request(&body), "control_response");
        assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    };
    // The result of the last command, and whether it could write.
    let outcome = |what: &str, reads: bool, writes: usize| {
        let told = server.requests().last().unwrap().json()["messages"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .to_string();
        assert!(told.contains("ran"), "{what}: {told}");
        assert_eq!(told.contains("DENIED"), reads, "{what}: {told}");
        assert_eq!(bench.project.read("a.lock").matches("again").count(), writes, "{what}: {told}");
    };
    ask(&mut running, &says("go"), "\"type\":\"result\"");
    outcome("before", true, 1);
    set(&mut running, &deny);
    ask(&mut running, &says("go"), "\"type\":\"result\"");
    outcome("rules of a program", false, 1);
    set(&mut running, &[]);
    ask(&mut running, &says("go"), "\"type\":\"result\"");
    outcome("withdrawn rules", true, 2);
    let asked = ask(&mut running, &says("go"), "can_use_tool");
    let rules: Vec<Value> = [("Read", "./private/**"), ("Edit", "*.lock")]
        .map(|(tool, text)| json!({ "toolName": tool, "ruleContent": text }))
        .into();
    let updates =
        json!([{ "type": "addRules", "behavior": "deny", "rules": rules, "destination": "session" }]);
    let allow = json!({ "behavior": "allow", "updatedInput": asked["request"]["input"], "updatedPermissions": updates });
    let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": allow });
    ask(&mut running, &json!({ "type": "control_response", "response": response }), "\"type\":\"result\"");
    outcome("rules of an answer", false, 2);
    running.wait();
}

/// Processes that outlive their call write again and again, and take no notice of a polite end.
#[test]
fn nothing_that_a_background_process_writes_later_is_obeyed() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    if skipped(&bench) {
        return;
    }
    let git = ["init", "-q", "."];
    let status = std::process::Command::new("git").args(git).current_dir(bench.project.root()).status();
    assert!(status.is_ok_and(|status| status.success()));
    let names = [".envrc", ".mcp.json", ".claude/settings.json", ".vscode/tasks.json", ".git/commondir"];
    let write = "trap '' TERM HUP; n=0; while [ $n -lt 200 ]; do n=$((n+1)); mkdir -p .claude .vscode; for f in .envrc .mcp.json \
                 .claude/settings.json .vscode/tasks.json .git/commondir; do echo evil > $f; done; touch written; sleep 0.05; done";
    let write = format!("sh -c '{}'", write.replace('\'', "'\\''"));
    for (call, flags) in [
        (json!({"command": format!("setsid {write} >/dev/null 2>&1 & echo started")}), [].as_slice()),
        (json!({"command": write, "background": "now"}), &[]),
        (json!({"command": write, "background": "now"}), &["--sandbox", "required"]),
    ] {
        let server = MockServer::start([
            Answer::tool("c1", "bash", call.clone()),
            // When this call ends, the process has written each file at least once.
            Answer::tool(
                "c2",
                "bash",
                json!({"command": "sh -c 'until [ -e written ]; do sleep 0.05; done'; ls -A; cat a.txt"}),
            ),
            Answer::text("done"),
        ]);
        let _ = std::fs::remove_file(bench.project.path("written"));
        let mut command = bench.print(Api::Anthropic, &server);
        let ran = run(command.args(["--permission-mode", "auto"]).args(flags).args(["--", "go"]));
        let left: Vec<_> = names.iter().filter(|name| bench.project.exists(name)).collect();
        let told = server.requests().last().unwrap().text().to_owned();
        assert!(left.is_empty(), "{call} {flags:?}: {left:?}: {told} {}", ran.stderr);
        assert!(bench.project.exists(".envrc.refused"), "it never wrote: {call}: {told}");
        for entry in std::fs::read_dir(bench.project.root()).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().contains(".refused") {
                let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
            }
        }
    }
}

/// `PATH` often names folders of the project. Programs that becket itself starts outside of the sandbox never come from there.
#[test]
fn becket_s_own_programs_do_not_come_from_the_workspace() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    if skipped(&bench) {
        return;
    }
    let mark = bench.home.path("ran");
    let folder = bench.project.path("bin");
    std::fs::create_dir(&folder).unwrap();
    let own = "bash cat cp date echo env false find git grep head id kill ln ls mkdir mv pgrep ps pwd python3 rm rmdir sed setsid sh sleep \
               sort stat tail test touch tr true tty uname bwrap secret-tool xclip wl-copy notify-send";
    for name in own.split_whitespace() {
        let script = format!("#!/bin/bash\necho \"$0 $*\" >> '{}'\nexit 1\n", mark.display());
        std::fs::write(folder.join(name), script).unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=a@b.c"]).args(args);
        assert!(command.current_dir(bench.project.root()).output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "a.txt"]);
    git(&["commit", "-qm", "one"]);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({"command": "cat a.txt; sleep 0.1 & wait"})),
        Answer::tool("c2", "edit", json!({"path": "a.txt", "old": "hello", "new": "other"})),
        Answer::tool("c3", "grep", json!({"pattern": "other"})),
        Answer::tool("c4", "mcp__fix__echo", json!({"text": "x"})),
        Answer::text("done"),
    ]);
    let python = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|dir| dir.join("python3"))
        .find(|path| path.is_file())
        .unwrap();
    let mut fixture = crate::mcp::fixture(&["plain"]);
    fixture["command"] = json!(python);
    let servers = json!({"mcpServers": {"fix": fixture}}).to_string();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = bench.print(Api::Anthropic, &server);
    command.env("PATH", path).args(["--permission-mode", "acceptEdits", "--mcp-config", &servers]);
    let mut running = Running::start(command.args(["--allowedTools", "mcp__fix", "--", "go"]));
    let run = format!("BECKET_RUN={}-", running.child.id());
    running.close_stdin();
    let ran = running.wait();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // The watcher, which ends commands when becket ends, still runs for a moment after becket.
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    let watches = || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
            .any(|line| String::from_utf8_lossy(&line).contains(&run))
    };
    while watches() {
        assert!(std::time::Instant::now() < until, "the watcher does not end");
        std::thread::yield_now();
    }
    let ran = std::fs::read_to_string(&mark).unwrap_or_default();
    assert_eq!(ran, "", "programs of the workspace ran");
    assert!(server.requests().last().unwrap().text().contains("hello"));
}

/// The command line of a server that runs the commands of its input.
pub(crate) fn shell_server() -> String {
    json!({"mcpServers": {"fix": crate::mcp::fixture(&["shell"])}}).to_string()
}

#[test]
fn what_a_server_makes_for_other_programs_is_undone_and_reported() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    if skipped(&bench) {
        return;
    }
    let does = |id: &str, command: &str| Answer::tool(id, "mcp__fix__shell", json!({"command": command}));
    let server = MockServer::start([
        does(
            "c1",
            "echo evil > .envrc; mkdir -p .vscode && echo evil > .vscode/tasks.json; echo more >> a.txt",
        ),
        // A command that the mode allows changes such a file while the server sleeps. This change is not the server's and stays.
        Answer::tool("c2", "bash", json!({"command": "sleep 2; echo mine > .gitattributes; sleep 2"})),
        does("c3", "echo evil > .gitattributes; (sleep 0.2; echo evil > .npmrc) >/dev/null 2>&1 & true"),
        Answer::tool("c4", "bash", json!({"command": "sleep 1; ls -A"})),
        Answer::text("done"),
    ]);
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(["--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--verbose"]);
    let ran = run(command.args(["--mcp-config", &shell_server(), "--", "go"])).expect(0);
    for name in [".envrc", ".vscode", ".npmrc"] {
        assert!(!bench.project.exists(name), "{name}");
    }
    assert_eq!(bench.project.read("a.txt"), "hello\nmore\n");
    assert_eq!(bench.project.read(".gitattributes"), "mine\n");
    let requests = server.requests();
    let told = requests[1].text();
    assert!(told.contains(".envrc was created; what was written is now .envrc.refused"), "{told}");
    assert!(
        told.contains("the sandbox does not let MCP servers change this file, because other programs may run commands from it"),
        "{told}"
    );
    assert!(!requests[2].text().contains(".gitattributes was"), "{}", requests[2].text());
    let told = requests[3].text();
    assert!(told.contains(".gitattributes was changed; what was written is now"), "{told}");
    // A change that is undone between calls is reported to the user, or to the model with its next command.
    let all = format!("{}{}", ran.stdout, requests.last().unwrap().text());
    assert!(all.contains(".npmrc was created; what was written is now .npmrc.refused"), "{all}");
}

#[test]
fn programs_of_the_workspace_are_not_found_by_commands_that_read() {
    let bench = Bench::new(&[("a.txt", "hello\n"), ("bin/wc", "#!/bin/sh\necho evil\n")]);
    if skipped(&bench) {
        return;
    }
    let program = bench.project.path("bin/wc");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({"command": "wc -l a.txt"})),
        Answer::text("done"),
    ]);
    let path = format!("{}:.:bin::/usr/bin:/bin", bench.project.path("bin").display());
    run(bench.print(Api::Anthropic, &server).env("PATH", path).args(["--", "go"]));
    let told = server.requests().last().unwrap().text().to_owned();
    assert!(told.contains("1 a.txt") && !told.contains("evil"), "{told}");
}

#[test]
fn every_command_is_confined_where_that_is_required() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    if skipped(&bench) {
        return;
    }
    for (flags, writes) in [
        (&["--sandbox", "required"][..], true),
        (&["--sandbox", "workspace-write"], true),
        (&["--sandbox", "read-only"], false),
    ] {
        let all = [flags, &["--dangerously-skip-permissions"]].concat();
        let _ = std::fs::remove_file(bench.project.path("w"));
        let (told, _) = command(&bench, "touch w; touch $HOME/outside; ls", &all);
        assert_eq!(bench.project.exists("w"), writes, "{flags:?}: {told}");
        assert!(!bench.project.exists("../outside") && told.contains("cannot touch"), "{flags:?}: {told}");
    }
    let wrong = run(bench.command().args(["-p", "--sandbox", "open", "go"])).expect(2);
    assert!(wrong.stderr.contains("unknown level \"open\""), "{}", wrong.stderr);
}

#[test]
fn a_command_that_only_reads_writes_nothing_whatever_it_turns_out_to_do() {
    let bench = Bench::new(&[("a.txt", "hello\n"), (".env", "TOKEN=hidden-token\n")]);
    if skipped(&bench) {
        return;
    }
    let (told, ran) =
        command(&bench, "cat a.txt; ls -a | wc -l", &["--output-format", "stream-json", "--verbose"]);
    assert!(told.contains("hello"), "{told}");
    assert!(ran.stdout.contains("read-only"), "{}", ran.stdout);
    for script in
        ["cat .env", "touch new", "cat ~/.ssh/id_rsa", "echo x > /dev/tcp/127.0.0.1/80", "kill -0 $PPID"]
    {
        let ran = run(bench.command().args(["sandbox", "--level", "read-only", "--", "bash", "-c", script]));
        assert_ne!(ran.code, 0, "{script}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stdout.contains("hidden-token"), "{}", ran.stdout);
    }
    assert!(!bench.project.exists("new"));
}

/// A host outside that greets each connection. Gives its address.
fn greeter() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = std::io::Write::write_all(&mut stream.unwrap(), b"hello from outside\n");
        }
    });
    address
}

#[test]
fn commands_reach_the_hosts_that_are_allowed_and_are_told_of_others() {
    let bench = Bench::new(&[]);
    if skipped(&bench) || run(bench.command().arg("sandbox")).stdout.contains("workspace: Landlock") {
        return;
    }
    let (good, bad) = (greeter(), greeter());
    bench.home.write(".config/becket/config.toml", format!("[sandbox]\nallow_hosts = [\"{good}\"]\n"));
    let through = |host: &str| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/${{HTTPS_PROXY##*:}}; printf 'CONNECT {host} HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3"
        )
    };
    let auto = ["--permission-mode", "auto", "--output-format", "stream-json", "--verbose"];
    let (told, _) = command(&bench, &through(&good), &auto);
    assert!(told.contains("hello from outside"), "{told}");
    assert!(!told.contains("refused a connection"), "{told}");
    let (told, _) = command(&bench, &through(&bad), &auto);
    assert!(!told.contains("hello from outside"), "{told}");
    let note = format!("refused a connection to {bad}: sandbox.allow_hosts names it without port");
    assert!(told.contains(&note), "{told}");
    // A command in the background reaches them as long as it runs, and its output comes with the refusals.
    let both = format!("sleep 0.3; ({}); ({})", through(&good), through(&bad));
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({"command": both, "background": "now"})),
        Answer::tool("c2", "job_output", json!({"id": 1, "wait": 30_000})),
        Answer::text("done"),
    ]);
    run(bench.print(Api::Anthropic, &server).args(auto).args(["--", "go"]));
    let told = server.requests().last().unwrap().text().to_owned();
    assert!(told.contains("hello from outside") && told.contains(&note), "{told}");
    let page = run(bench.command().arg("sandbox")).expect(0).stdout;
    assert!(page.contains(&format!("network: proxy; reached: {good}")), "{page}");
    let ran = run(bench.command().args(["sandbox", "--", "bash", "-c", &through(&bad)]));
    assert!(ran.stderr.contains(&format!("the sandbox refused {bad}: ")), "{}", ran.stderr);
    // A project's configuration cannot allow hosts.
    bench.project.write(".becket/config.toml", format!("[sandbox]\nallow_hosts = [\"{bad}\"]\n"));
    let (told, _) = command(&bench, &through(&bad), &auto);
    assert!(!told.contains("hello from outside"), "{told}");
    // An entry that is not understood opens nothing.
    bench.home.write(".config/becket/config.toml", "[sandbox]\nallow_hosts = [\"https://docs.rs/\"]\n");
    let (told, _) = command(&bench, &through(&good), &auto);
    assert!(told.contains("https://docs.rs/") && told.contains("no host is allowed"), "{told}");
}

#[test]
fn a_command_runs_confined_by_hand_and_gives_its_own_exit_code() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    if skipped(&bench) {
        return;
    }
    let ran = run(bench.command().args(["sandbox", "--", "sh", "-c", "cat a.txt; exit 7"])).expect(7);
    assert_eq!(ran.stdout, "hello\n");
    let page = run(bench.command().arg("sandbox")).expect(0).stdout;
    for part in ["sandbox: ", "read-only: ", "workspace: ", "  writes: ", "  network: off"] {
        assert!(page.contains(part), "{page}");
    }
}

#[test]
fn what_cannot_be_confined_is_asked_for() {
    let bench = Bench::new(&[("a.txt", "hello\n")]);
    // With the sandbox off, commands that only read run unconfined.
    let (told, _) = command(&bench, "cat a.txt", &["--sandbox", "off"]);
    assert!(told.contains("hello"), "{told}");
    if skipped(&bench) {
        let (told, _) = command(&bench, "cat a.txt", &[]);
        assert!(told.contains("no sandbox can enforce that here"), "{told}");
    }
}

#[test]
fn a_program_that_is_not_there_ends_as_in_a_shell() {
    let bench = Bench::new(&[("plain.txt", "hello\n")]);
    if skipped(&bench) {
        return;
    }
    for level in ["read-only", "workspace"] {
        for (program, code, words) in [
            ("no-such-program", 127, "no-such-program: command not found"),
            ("./no-such-file", 127, "./no-such-file: there is no such file"),
            ("./plain.txt", 126, "./plain.txt is not a program that can be run"),
        ] {
            let ran = run(bench.command().args(["sandbox", "--level", level, "--", program])).expect(code);
            assert!(ran.stderr.contains(words), "{program}: {}", ran.stderr);
        }
        run(bench.command().args(["sandbox", "--level", level, "--", "sh", "-c", "exit 7"])).expect(7);
    }
}

/// In a container the first folder is often `/`.
#[test]
fn commands_that_only_read_start_in_folders_that_contain_the_system_s_programs() {
    let bench = Bench::new(&[]);
    if skipped(&bench) {
        return;
    }
    for folder in ["/", "/usr"] {
        let mut command = bench.command();
        command.current_dir(folder).args(["sandbox", "--level", "read-only", "--", "ls", "/usr"]);
        let ran = run(&mut command).expect(0);
        assert!(ran.stdout.contains("bin"), "{folder}: {ran:?}");
    }
}
