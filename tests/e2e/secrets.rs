//! Secrets: what of them reaches a provider, an export, a terminal.

use crate::support::{Api, BOTH, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

/// A token of a known form. Put together, so that no tool takes this file for one with a token.
fn token() -> String {
    format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345")
}

fn answers(call: Answer) -> MockServer {
    MockServer::start([call, Answer::text("done")])
}

#[test]
fn a_token_in_an_output_reaches_no_provider_unless_it_is_allowed() {
    for api in BOTH {
        let bench =
            Bench::new(&[("settings.ini", &format!("name = x\ntoken = {}\npassword = hunter22\n", token()))]);
        for (call, tool) in [
            (Answer::tool("c1", "read", json!({"path": "settings.ini"})), "read"),
            (Answer::tool("c1", "bash", json!({"command": "cat settings.ini"})), "bash"),
            (Answer::tool("c1", "grep", json!({"pattern": "token"})), "grep"),
        ] {
            let server = answers(call);
            let ran = run(bench.print(api, &server).args(["--permission-mode", "bypassPermissions", "look"]))
                .expect(0);
            let sent: String = server.requests().iter().map(|r| r.text().to_owned()).collect();
            assert!(!sent.contains(&token()) && sent.contains("‹GitHub token masked›"), "{tool}: {sent}");
            assert!(sent.contains("becket masked secrets in this output"), "{tool}: {sent}");
            assert!(tool == "grep" || sent.contains("hunter22"), "what an example may hold stays: {sent}");
            assert!(ran.stderr.contains("GitHub token"), "{tool}: {}", ran.stderr);
        }
        // A project's file cannot allow secrets to be sent; the user's file can.
        bench.project.write(".becket/config.toml", "secrets = \"send\"\n");
        let server = answers(Answer::tool("c1", "read", json!({"path": "settings.ini"})));
        run(bench.print(api, &server).arg("look")).expect(0);
        assert!(!server.requests().last().unwrap().text().contains(&token()));
        bench.home.write(".config/becket/config.toml", "secrets = \"send\"\n");
        let server = answers(Answer::tool("c1", "read", json!({"path": "settings.ini"})));
        run(bench.print(api, &server).arg("look")).expect(0);
        assert!(server.requests().last().unwrap().text().contains(&token()));
    }
}

/// A command in the background prints a token in two writes, and the model reads its output in between. No half has the form of a
/// token.
#[test]
fn a_token_that_a_background_command_prints_in_pieces_reaches_no_provider() {
    let bench = Bench::new(&[("k", &format!("key {} end\n", token()))]);
    for cut in [5, 7, 9, 24] {
        for file in ["half", "go"] {
            let _ = std::fs::remove_file(bench.project.root().join(file));
        }
        let command = format!(
            "head -c {cut} k; touch half; until [ -e go ]; do sleep 0.05; done; tail -c +{} k",
            cut + 1
        );
        let server = MockServer::start([
            Answer::tool("c1", "bash", json!({"command": command, "background": "now"})),
            Answer::tool("c2", "bash", json!({"command": "until [ -e half ]; do sleep 0.05; done"})),
            Answer::tool("c3", "job_output", json!({"id": 1})),
            Answer::tool("c4", "bash", json!({"command": "touch go"})),
            Answer::tool("c5", "job_output", json!({"id": 1, "wait": 60_000})),
            Answer::text("done"),
        ]);
        let bypass = ["--permission-mode", "bypassPermissions", "look"];
        run(bench.print(Api::Anthropic, &server).args(bypass)).expect(0);
        let sent: String = server.requests().iter().map(|r| r.text().to_owned()).collect();
        let halves = [&token()[4..20], &token()[20..]];
        assert!(halves.iter().all(|half| !sent.contains(half)), "{cut}: {sent}");
        assert!(sent.contains("masked›") && sent.contains(" end"), "{cut}: {sent}");
    }
}

/// A hook may be an address or a model, and its text goes to the session's provider.
#[test]
fn a_hook_gets_and_gives_no_token_unless_it_is_allowed() {
    let bench = Bench::new(&[("a.ini", &format!("token = {}\n", token())), ("echo", &token())]);
    let hooks = json!({ "hooks": {
        "PostToolUse": [{"hooks": [{"type": "command", "command": "cat >>hooks.json; cat echo >&2; exit 2"}]}],
        "PostToolUseFailure": [{"hooks": [{"type": "command", "command": "cat >>hooks.json"}]}],
    }});
    bench.home.write(".claude/settings.json", hooks.to_string());
    for (config, is_sent) in [("", false), ("secrets = \"send\"\n", true)] {
        bench.home.write(".config/becket/config.toml", config);
        bench.project.write("hooks.json", "");
        let server = MockServer::start([
            Answer::tool("c1", "bash", json!({"command": "cat a.ini"})),
            Answer::tool("c2", "bash", json!({"command": "cat a.ini; false"})),
            Answer::text("done"),
        ]);
        let bypass = ["--permission-mode", "bypassPermissions", "look"];
        run(bench.print(Api::Anthropic, &server).args(bypass)).expect(0);
        let given = bench.project.read("hooks.json");
        assert!(given.contains("PostToolUse") && given.contains("PostToolUseFailure"), "{given}");
        assert_eq!(
            (given.contains(&token()), given.contains("‹GitHub token masked›")),
            (is_sent, !is_sent),
            "{given}"
        );
        let sent: String = server.requests().iter().map(|r| r.text().to_owned()).collect();
        assert!(sent.contains("<hook event"), "{sent}");
        assert_eq!(sent.contains(&token()), is_sent, "{sent}");
    }
}

/// Characters that a person cannot see could carry instructions. They are visible in whatever the model gets, whichever tool read them.
#[test]
fn what_a_person_cannot_see_is_visible_in_every_output() {
    let hidden = "seen\u{E0072}\u{E0075}\u{E006E}\u{202E}\u{200B}\u{FE01}\u{FE01} end\n";
    let bench = Bench::new(&[("a.txt", hidden)]);
    for (tool, input) in [
        ("read", json!({"path": "a.txt"})),
        ("grep", json!({"pattern": "end"})),
        ("bash", json!({"command": "cat a.txt"})),
        ("bash", json!({"command": "cat a.txt >&2; false"})),
    ] {
        let server = answers(Answer::tool("c1", tool, input.clone()));
        run(bench.print(Api::Anthropic, &server).args(["--permission-mode", "bypassPermissions", "look"]));
        let sent = server.requests().last().unwrap().json().to_string();
        assert!(
            sent.contains("seen<U+E0072>") || sent.contains("more invisible characters>"),
            "{input}: {sent}"
        );
        assert!(
            !sent.contains(|c| matches!(c, '\u{E0000}'..='\u{E007F}' | '\u{202E}' | '\u{200B}')),
            "{input}: {sent}"
        );
    }
}

#[test]
fn a_mask_is_never_written_over_the_secret_it_stands_for() {
    let text = format!("token = {}\n", token());
    for (tool, input) in [
        ("write", json!({"path": "a.ini", "content": "token = ‹GitHub token masked›\nnew = 1\n"})),
        ("bash", json!({"command": "printf 'token = ‹GitHub token masked›' > a.ini"})),
        ("edit", json!({"path": "a.ini", "old": "token = ‹GitHub token masked›", "new": "x"})),
    ] {
        let bench = Bench::new(&[("a.ini", &text)]);
        let server = MockServer::start([
            Answer::tool("c1", "read", json!({"path": "a.ini"})),
            Answer::tool("c2", tool, input),
            Answer::text("done"),
        ]);
        let auto = ["--permission-mode", "bypassPermissions", "change it"];
        run(bench.print(Api::Anthropic, &server).args(auto));
        assert_eq!(bench.project.read("a.ini"), text, "{tool}");
        let last = server.requests().last().unwrap().text().to_owned();
        assert!(last.contains("stands for a secret that you were not shown"), "{tool}: {last}");
    }
}

#[test]
fn exports_of_every_format_hold_no_secret() {
    let bench = Bench::new(&[]);
    // A model can use a token as the name of a key or of a tool.
    let odd = Answer::tool("c1", &format!("x-{}", token()), json!({"headers": {token(): "1"}}));
    let server = MockServer::start([odd, Answer::text("noted")]);
    let prompt = format!("the token is {} and DB_PASSWORD=hunter22", token());
    run(bench.print(Api::Anthropic, &server).args(["--name", "kept", &prompt])).expect(0);
    for format in ["md", "html", "jsonl"] {
        let blobs = (format == "jsonl").then_some("--blobs");
        let ran = run(bench.command().args(["export", "kept", "--format", format]).args(blobs)).expect(0);
        assert!(
            !ran.stdout.contains(&token()) && !ran.stdout.contains("hunter22"),
            "{format}: {}",
            ran.stdout
        );
        assert!(ran.stdout.contains("masked") && ran.stderr.contains("masked"), "{format}: {}", ran.stderr);
        if format == "jsonl" {
            let other = Bench::new(&[]);
            other.project.write("moved.jsonl", &ran.stdout);
            run(other.command().args(["import", "moved.jsonl", "--here"])).expect(0);
            run(other.command().args(["verify", "kept"])).expect(0);
        }
    }
    let exact =
        run(bench.command().args(["export", "kept", "--format", "jsonl", "--with-secrets"])).expect(0);
    assert!(exact.stdout.contains(&token()) && exact.stderr.is_empty(), "{}", exact.stderr);
    let wrong = run(bench.command().args(["export", "kept", "--with-secrets"])).expect(2);
    assert!(wrong.stderr.contains("--format jsonl"), "{}", wrong.stderr);
}

/// Keys of several forms, in the order in which [`planted`] uses them.
fn keys() -> [String; 4] {
    let random = "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8cF0iL";
    [
        token(),
        format!("sk-ant-api03-{random}"),
        format!("npm_{random}aB3d"),
        "q8Zr2LmX0vT5nB7kWd3Y".to_owned(),
    ]
}

/// A session with keys wherever a person or a model can put one: the prompt, the title, a tag, commands, paths, patterns,
/// answers, rules. `lead` words come before each, so that every place at which an output is cut falls into a key once.
fn planted(lead: usize) -> Bench {
    let [github, anthropic, npm, value] = keys();
    let lead = "w ".repeat(lead);
    let bench = Bench::new(&[("a.txt", "x\n")]);
    let rule = format!("Bash(curl -H \\\"Authorization: Bearer {github}\\\" *)");
    let deny = format!("Bash(deploy --token={value} *)");
    let config = format!("[permissions]\nallow = [\"{rule}\"]\ndeny = [\"{deny}\"]\n");
    bench.home.write(".config/becket/config.toml", config);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": format!("echo {lead}{npm}") })),
        Answer::tool("c2", "bash", json!({ "command": format!("deploy --token={value} now") })),
        Answer::tool("c3", "grep", json!({ "pattern": format!("{lead}DEPLOY_TOKEN={value}") })),
        Answer::tool("c4", "write", json!({ "path": format!("{anthropic}.txt"), "content": github })),
        Answer::text(format!("{lead}{anthropic} noted")),
        Answer::text("again"),
    ]);
    let prompt = format!("{lead}needle {github} and DEPLOY_TOKEN={value} stay");
    let flags = ["--permission-mode", "bypassPermissions"];
    run(bench.print(Api::Anthropic, &server).args(flags).arg(&prompt));
    let session = bench.ledgers()[0].parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    run(bench.command().args(["sessions", "tag", &session, &github])).expect(0);
    run(bench.command().args(["sessions", "fork", &session, "--name", &format!("{lead}{npm}")])).expect(0);
    bench
}

/// Texts that people paste into a report: every command that prints a part of a session, for each place at which it cuts a text.
#[test]
fn commands_that_print_parts_of_a_session_print_no_key() {
    let commands: &[&[&str]] = &[
        &["audit"],
        &["sessions"],
        &["sessions", "list", "--all"],
        &["sessions", "search", "needle"],
        &["sessions", "search", "noted"],
        &["sessions", "tree"],
        &["sessions", "stats"],
        &["context"],
        &["cost"],
        &["verify"],
        &["permissions", "list"],
        &["permissions", "explain", "Bash(deploy --token=q8Zr2LmX0vT5nB7kWd3Y now)"],
        &["context", "--requests"],
        &["context", "--request", "1"],
        &["context", "--request", "2", "--spans"],
        &["context", "--request", "2", "--diff"],
        &["compact", "--dry-run", "--no-model"],
        &["rewind"],
        &["undo", "--dry-run"],
    ];
    let keys = keys();
    for lead in [0, 16, 30, 37, 60] {
        let bench = planted(lead);
        for words in commands {
            for json in [&[][..], &["--json"]] {
                let ran = run(bench.command().args(*words).args(json));
                assert!(ran.code < 2, "{words:?}: {ran:?}");
                for key in &keys {
                    // No 14 consecutive characters of a key may be printed.
                    let pieces = (0..=key.len() - 14).map(|at| &key[at..at + 14]);
                    let printed = pieces.into_iter().find(|piece| {
                        !piece.starts_with("sk-ant-api0")
                            && (ran.stdout.contains(piece) || ran.stderr.contains(piece))
                    });
                    assert_eq!(printed, None, "{lead} {words:?} {json:?}: {}\n{}", ran.stdout, ran.stderr);
                }
                if !json.is_empty() {
                    ran.lines();
                }
            }
        }
        let audit = run(bench.command().args(["audit", "--json"])).expect(0);
        assert!(audit.stdout.contains(" masked›"), "{}", audit.stdout);
    }
}

#[test]
fn doctor_finds_secrets_and_prints_none() {
    let bench = Bench::new(&[(".gitignore", "ignored\n"), ("src/a.rs", "fn main() {}\n")]);
    let clean = run(bench.command().args(["doctor", "--secrets"])).expect(0);
    assert!(clean.stdout.contains("no secret was found in 2 files and 0 sessions"), "{}", clean.stdout);
    bench.project.write("src/b.rs", format!("// line 1\nconst KEY: &str = \"{}\";\n", token()));
    bench.project.write(".env", "DB_PASSWORD=hunter22\n");
    bench.project.write("ignored", token());
    bench.project.write("binary", [b"\0".as_slice(), token().as_bytes()].concat());
    let server = MockServer::start([Answer::text("noted")]);
    run(bench.print(Api::Anthropic, &server).arg(format!("the token is {}", token()))).expect(0);
    let ran = run(bench.command().args(["doctor", "--secrets"])).expect(1);
    assert!(!ran.stdout.contains(&token()) && !ran.stdout.contains("hunter22"), "{}", ran.stdout);
    for part in ["src/b.rs:2: GitHub token (ghp_…)", ".env:1: value (hunt…)", "session ", "withdrawn"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("ignored:") && !ran.stdout.contains("binary:"), "{}", ran.stdout);
    let ran = run(bench.command().args(["doctor", "--secrets", "--json"])).expect(1);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["secrets"][0]["begins"].as_str().unwrap().len(), 4, "{report}");
    assert!(!ran.stdout.contains(&token()));
}

#[test]
fn an_edit_of_a_line_with_a_token_keeps_it_from_ledger_and_output() {
    let text = format!("name = x\ntoken={}\n", token());
    for (tool, input) in [
        ("edit", json!({"path": "a.ini", "old": "token=", "new": "tok="})),
        ("write", json!({"path": "a.ini", "content": "name = y\n"})),
        ("bash", json!({"command": "rm a.ini"})),
    ] {
        let bench = Bench::new(&[("a.ini", &text)]);
        let server = MockServer::start([
            Answer::tool("c1", "read", json!({"path": "a.ini"})),
            Answer::tool("c2", tool, input),
            Answer::text("done"),
        ]);
        let flags = ["--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"];
        let ran = run(bench.print(Api::Anthropic, &server).args(flags).arg("change it")).expect(0);
        assert!(!ran.stdout.contains(&token()) && !ran.stderr.contains(&token()), "{tool}: {ran:?}");
        let ledger = std::fs::read_to_string(&bench.ledgers()[0]).unwrap();
        assert!(!ledger.contains(&token()), "{tool}: {ledger}");
        assert!(tool == "bash" || ran.stdout.contains("‹GitHub token masked›"), "{tool}: {ran:?}");
        assert_ne!(std::fs::read_to_string(bench.project.path("a.ini")).unwrap_or_default(), text, "{tool}");
        run(bench.command().args(["undo", "--yes"])).expect(0);
        assert_eq!(bench.project.read("a.ini"), text, "{tool}: undo gives back every byte");
    }
}
