//! `becket permissions`: decisions explained, rules listed, examples checked in CI.

use crate::support::{Api, Bench, Running, ask, run, says};
use crate::terminal::Terminal;
use becket_testkit::{Answer, MockServer};
use serde_json::{Value, json};

const CONFIG: &str = "[permissions]\nallow = [\n  \"Bash(cargo test *)\",\n]\nask = [\"Bash(git push *)\"]\n";

fn bench(files: &[(&str, &str)]) -> Bench {
    let bench = Bench::new(files);
    let folder = bench.home.path(".config/becket");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), CONFIG).unwrap();
    bench
}

#[test]
fn a_decision_is_explained_with_its_rule_and_parts() {
    let bench = bench(&[("a.txt", "x")]);
    let explain = |words: &[&str]| run(bench.command().args(["permissions", "explain"]).args(words));
    let json = |words: &[&str]| -> Value {
        serde_json::from_str(&explain(&[words, &["--json"]].concat()).expect(0).stdout).unwrap()
    };
    let push = json(&["Bash(git push)"]);
    let file = bench.home.path(".config/becket/config.toml");
    assert_eq!(
        [&push["decision"], &push["by"], &push["rule"]],
        [
            &json!("ask"),
            &json!("rule"),
            &json!({"rule": "Bash(git push *)", "scope": "user", "file": file, "line": 5})
        ]
    );
    let two = json(&["Bash(cargo test && make)"]);
    let parts: Vec<(&str, &str)> = two["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["text"].as_str().unwrap(), part["decision"].as_str().unwrap()))
        .collect();
    assert_eq!(parts, [("cargo test", "allow"), ("make", "ask")]);
    assert_eq!(two["parts"][0]["rule"]["line"], 3);
    let plain = explain(&["Bash(cargo test && make)"]).expect(0).stdout;
    for words in ["ask: Bash(cargo test && make)", "no rule allows `make`", "ask   make", "allow cargo test"]
    {
        assert!(plain.contains(words), "{words}: {plain}");
    }
    // A rule for the whole command decides. The text says so above the decisions for the parts.
    let whole = [
        "Bash(cargo test && make)",
        "--settings",
        r#"{"permissions":{"allow":["Bash(cargo test && make)"]}}"#,
    ];
    let ruled = json(&whole);
    assert_eq!([&ruled["decision"], &ruled["parts_overruled"]], [&json!("allow"), &json!(true)], "{ruled}");
    assert_eq!(two["parts_overruled"], false);
    let told = explain(&whole).expect(0).stdout;
    for words in
        ["allow: Bash(cargo test && make)", "as each would be decided by itself", "names the whole command"]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(plain.contains("to allow it: Bash(make"), "{plain}");
    for (call, mode, decision) in [
        ("Read(a.txt)", "default", "allow"),
        ("Read(.env)", "default", "ask"),
        ("Edit(a.txt)", "default", "ask"),
        ("Edit(a.txt)", "acceptEdits", "allow"),
        ("Edit(a.txt)", "plan", "deny"),
        ("Bash(make)", "dontAsk", "deny"),
        ("WebFetch(https://docs.rs/x)", "default", "ask"),
        ("Skill(review)", "default", "allow"),
    ] {
        let found = json(&[call, "--permission-mode", mode]);
        assert_eq!(found["decision"], decision, "{call} in {mode}: {found}");
    }
    for bad in ["git push", "Bash()", "Bash(ls", "Read"] {
        explain(&[bad]).expect(2);
    }
    assert!(bench.ledgers().is_empty(), "no session begins");
}

#[test]
fn rules_are_listed_with_their_place() {
    let bench =
        bench(&[(".becket/config.toml", "[permissions]\ndeny = [\"Bash(rm *)\"]\nallow = [\"Bash\"]\n")]);
    let list = run(bench.command().args(["permissions", "list"])).expect(0).stdout;
    for words in
        ["deny", "Bash(rm *)", "config.toml, line 2", "Bash(git push *)", "config.toml, line 5", "warning"]
    {
        assert!(list.contains(words), "{words}: {list}");
    }
    let json: Value =
        serde_json::from_str(&run(bench.command().args(["permissions", "list", "--json"])).expect(0).stdout)
            .unwrap();
    let kinds: Vec<&str> =
        json["rules"].as_array().unwrap().iter().map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["deny", "ask", "allow"], "a project allows itself nothing: {json}");
}

#[test]
fn examples_of_rules_are_checked() {
    let good = "[[rule]]\nrule = \"Bash(npm run test*)\"\nmatch = [\"npm run test\", \"npm run test:unit\"]\n\
                not_match = [\"npm run build\", \"npm run test; rm x\", \"Read(a.txt)\"]\n\n\
                [[rule]]\nrule = \"Read(secrets/**)\"\nkind = \"deny\"\nmatch = [\"secrets/a\", \"Bash(cat secrets/a)\"]\n\
                not_match = [\"a.txt\"]\n\n\
                [[call]]\ncall = \"Bash(git push)\"\ndecision = \"ask\"\n\n\
                [[call]]\ncall = \"Edit(a.txt)\"\ndecision = \"deny\"\nmode = \"plan\"\n";
    let bad = r#"{"rule": [{"rule": "Bash(git log *)", "match": ["git log", "git push"]}]}"#;
    let bench = bench(&[
        ("good.toml", good),
        ("bad.json", bad),
        ("odd.toml", "[[rule]]\nrulle = 1\n"),
        ("none.toml", ""),
    ]);
    let test = |words: &[&str]| run(bench.command().args(["permissions", "test"]).args(words));
    assert_eq!(test(&["good.toml"]).expect(0).stdout, "10 examples, 0 failed\n");
    let failed = test(&["bad.json"]).expect(1).stdout;
    assert!(failed.contains("Bash(git push): expected match, found no match"), "{failed}");
    let json: Value = serde_json::from_str(&test(&["bad.json", "--json"]).expect(1).stdout).unwrap();
    assert_eq!([&json["ok"], &json["checked"], &json["failed"]], [&json!(false), &json!(2), &json!(1)]);
    for file in ["odd.toml", "none.toml", "missing.toml"] {
        test(&[file]).expect(2);
    }
}

#[test]
fn rules_without_effect_are_marked_and_errors_name_their_line() {
    let bench = bench(&[]);
    bench.home.write(
        ".config/becket/config.toml",
        "[permissions]\nallow = [\n  \"Bash(ls *)\",\n  \"Bash(git *\",\n  \"Bsh(ls)\",\n]\n",
    );
    let list = run(bench.command().args(["permissions", "list"])).expect(0).stdout;
    let faults = list.lines().filter(|line| line.contains("no effect: ")).count();
    assert!(faults == 2 && list.contains("did you mean Bash?"), "{list}");
    let json = run(bench.command().args(["permissions", "list", "--json"])).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let faults: Vec<bool> =
        json["rules"].as_array().unwrap().iter().map(|rule| rule["fault"].is_string()).collect();
    assert_eq!(faults, [false, true, true], "{json}");
    for args in [&["permissions", "explain", "Bash(ls)"][..], &["-p", "--model", "openai/x", "go"]] {
        let ran = run(bench.command().env("OPENAI_API_KEY", "sk-test").args(args)).expect(2);
        assert!(ran.stderr.contains("config.toml, line 4: rule \"Bash(git *\""), "{}", ran.stderr);
    }
}

/// Each view of the rules names a deny rule that denies nothing.
#[test]
fn rules_that_say_something_else_than_they_seem_to_are_not_silent() {
    let bench = bench(&[("cases.toml", "[[call]]\ncall = \"Bash(ls)\"\ndecision = \"allow\"\n")]);
    let settings =
        |text: &str| bench.home.write(".config/becket/config.toml", format!("[permissions]\n{text}\n"));
    for (rule, nearest) in [
        ("Bash(a),Bash(b)", "each as a text of its own: `Bash(a)`, `Bash(b)`"),
        ("Read(\\\"./x\\\")", "write `Read(./x)`"),
        ("Edit('x')", "write `Edit(x)`"),
    ] {
        settings(&format!("deny = [\"{rule}\"]"));
        for args in [&["permissions", "explain", "Bash(ls)"][..], &["-p", "--model", "openai/x", "go"]] {
            let ran = run(bench.command().env("OPENAI_API_KEY", "sk-test").args(args)).expect(2);
            assert!(ran.stderr.contains(nearest), "{rule}: {}", ran.stderr);
        }
        let list = run(bench.command().args(["permissions", "list"])).expect(0).stdout;
        assert!(list.contains("no effect: ") && list.contains(nearest), "{list}");
    }
    settings("deny = [\"Bash('rm x')\"]\ndenyy = [\"Read(x)\"]");
    for args in [&["list"][..], &["explain", "Bash(ls)"], &["test", "cases.toml"]] {
        let shown = run(bench.command().arg("permissions").args(args)).expect(0).stdout;
        assert!(shown.contains("did you mean Bash(rm x)?"), "{args:?}: {shown}");
        assert!(shown.contains("permissions.denyy: unknown key"), "{args:?}: {shown}");
        if args[0] != "list" {
            let json = run(bench.command().arg("permissions").args(args).arg("--json")).expect(0).stdout;
            let json: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(json["warnings"].as_array().map(Vec::len), Some(2), "{args:?}: {json}");
        }
    }
}

#[test]
fn a_call_that_is_asked_about_waits_for_an_answer() {
    let bench = bench(&[]);
    let server = MockServer::start([Answer::tool("c1", "bash", json!({ "command": "git push" }))]);
    let mut command = bench.command();
    command.env("TERM", "xterm-256color").env("ANTHROPIC_API_KEY", "sk-test");
    command.env("ANTHROPIC_BASE_URL", server.url()).args(["--model", "anthropic/claude-sonnet-4-5"]);
    let mut terminal = Terminal::start(command);
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows("Run this command?");
    let audit = run(bench.command().arg("audit")).expect(0).stdout;
    assert!(audit.contains("bash: git push") && audit.contains("(waiting for an answer)"), "{audit}");
}

/// A session with a call that is allowed, and one that is denied by a rule.
fn decided() -> Bench {
    let bench = bench(&[("a.txt", "x")]);
    let server = MockServer::start([
        Answer::tool("c1", "read", json!({ "path": "a.txt" })),
        Answer::tool("c2", "bash", json!({ "command": "git push" })),
        Answer::text("done"),
    ]);
    run(bench.print(Api::Anthropic, &server).args(["--name", "decided", "go"])).expect(5);
    bench
}

#[test]
fn decisions_are_in_the_ledger_and_in_the_audit() {
    let bench = decided();
    let of_ledger: Vec<Value> = bench.entries().into_iter().filter(|e| e["kind"] == "permission").collect();
    let brief = |e: &Value| -> Vec<Value> {
        ["call", "decision", "by", "rule"]
            .iter()
            .map(|key| e.get(*key).cloned().unwrap_or(Value::Null))
            .collect()
    };
    let want = [
        vec![json!("c1"), json!("allow"), json!("mode"), Value::Null],
        vec![json!("c2"), json!("deny"), json!("rule"), json!("Bash(git push *)")],
    ];
    assert_eq!(of_ledger.iter().map(brief).collect::<Vec<_>>(), want);
    let audit = run(bench.command().args(["audit", "--json", "--since", "1d"])).expect(0).lines();
    assert_eq!(audit.iter().map(brief).collect::<Vec<_>>(), want);
    assert_eq!([&audit[1]["tool"], &audit[1]["subject"]], ["bash", "git push"]);
    let plain = run(bench.command().arg("audit")).expect(0).stdout;
    assert!(plain.lines().count() == 2 && plain.contains("rule Bash(git push *)  bash: git push"), "{plain}");
    let later = run(bench.command().args(["audit", "--since", "2999-01-01"])).expect(0).stdout;
    assert_eq!(later, "No decision is recorded.\n");
}

/// The denial says what the model should do instead, and how a script leaves the mode. That advice works.
#[test]
fn a_refusal_in_plan_mode_tells_the_model_and_the_script_what_to_do() {
    let bench = bench(&[]);
    let write = || Answer::tool("c1", "write", json!({ "path": "a.txt", "content": "x" }));
    let server = MockServer::start([write(), Answer::text("a plan"), write(), Answer::text("done")]);
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(["--permission-mode", "plan", "--name", "planned", "--output-format", "json", "go"]);
    let planned = run(&mut command).expect(5);
    let told = server.requests()[1].text().to_owned();
    assert!(told.contains("permission mode plan only reads; present the plan instead."), "{told}");
    for text in [&planned.stderr, planned.result()["permission_denials"][0]["reason"].as_str().unwrap()] {
        assert!(text.contains("write would write or run something"), "{text}");
        assert!(text.contains("run again with --permission-mode acceptEdits"), "{text}");
        assert!(!text.contains("present the plan"), "{text}");
    }
    let mut again = bench.print(Api::Anthropic, &server);
    run(again.args(["--resume", "planned", "--permission-mode", "acceptEdits", "go"])).expect(0);
    assert_eq!(bench.project.read("a.txt"), "x");
}

#[test]
fn a_session_of_before_decisions_is_audited_by_its_journal() {
    let bench = Bench::new(&[]);
    // A session of an earlier version, which did not record decisions.
    let project = "project-ffb83c392e7c59acc80e7eb8";
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/store-1/sessions");
    let home = bench.home.path(".local/share/becket/sessions").join(project);
    for session in std::fs::read_dir(std::path::Path::new(old).join(project)).unwrap() {
        let from = session.unwrap().path();
        let to = home.join(from.file_name().unwrap());
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(from.join("ledger.jsonl"), to.join("ledger.jsonl")).unwrap();
    }
    let rows = run(bench.command().args(["audit", "--json"])).expect(0).lines();
    let brief: Vec<[&Value; 3]> = rows.iter().map(|r| [&r["call"], &r["decision"], &r["by"]]).collect();
    let calls = ["call_read", "call_long", "call_edit", "call_read-2", "call_long-2", "call_edit-2"];
    let (allow, nobody) = (json!("allow"), Value::Null);
    let calls: Vec<Value> = calls.iter().map(|call| json!(call)).collect();
    assert_eq!(brief, calls.iter().map(|call| [call, &allow, &nobody]).collect::<Vec<_>>());
}

/// A long output is kept in a file of its own. The ledger holds its hash.
#[test]
fn verify_finds_a_changed_and_a_missing_output() {
    let bench = bench(&[("big.txt", &"the file is original, line by line\n".repeat(5_000))]);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "cat big.txt" })),
        Answer::text("done"),
    ]);
    run(bench.print(Api::Anthropic, &server).args(["--name", "long", "go"])).expect(0);
    let verify = || run(bench.command().args(["verify", "long"]));
    verify().expect(0);
    let ledger = bench.ledgers()[0].clone();
    let text = std::fs::read_to_string(&ledger).unwrap();
    let (_, after) = text.split_once("\"spill\":\"").unwrap();
    let blobs = ledger.parent().unwrap().join("blobs");
    let output = blobs.join(format!("{}.zst", &after[..64]));
    let kept = std::fs::read(&output).unwrap();
    // Replaces the output by another sound blob, with other text.
    let paths = std::fs::read_dir(&blobs).unwrap().map(|entry| entry.unwrap().path());
    let other = paths.into_iter().find(|path| *path != output).unwrap();
    std::fs::copy(other, &output).unwrap();
    let changed = verify().expect(1).stdout;
    assert!(changed.contains("changed or cut off") && changed.contains("not sound"), "{changed}");
    std::fs::remove_file(&output).unwrap();
    let missing = verify().expect(1).stdout;
    assert!(missing.contains("missing") && missing.contains("not sound"), "{missing}");
    std::fs::write(&output, kept).unwrap();
    verify().expect(0);
}

/// `verify` notices if any blob of a session is missing: outputs, attachments, tool specifications and the files that undo needs.
#[test]
fn verify_misses_every_blob_that_an_entry_names() {
    let many: Vec<(String, String)> =
        (0..300).map(|n| (format!("d/{n}.txt"), format!("file {n}\n").repeat(1 + n % 40))).collect();
    let files: Vec<(&str, &str)> = many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let bench = bench(&files);
    bench.project.write("big.txt", "the file is original, line by line\n".repeat(5_000));
    bench.project.write("pixel.png", PIXEL);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({ "command": "cat big.txt" })),
        Answer::tool("c2", "read", json!({ "path": "pixel.png" })),
        Answer::tool("c3", "read", json!({ "path": "d/1.txt" })),
        Answer::tool("c4", "edit", json!({ "path": "d/1.txt", "old": "file 1\n", "new": "edited\n" })),
        Answer::tool("c5", "bash", json!({ "command": "rm -r d; echo x >> big.txt" })),
        Answer::text("done"),
    ]);
    let bypass = ["--name", "blobs", "--permission-mode", "bypassPermissions", "go"];
    run(bench.print(Api::Anthropic, &server).args(bypass)).expect(0);
    let verify = || run(bench.command().args(["verify", "blobs"]));
    verify().expect(0);
    let blobs = bench.ledgers()[0].parent().unwrap().join("blobs");
    let all: Vec<_> = std::fs::read_dir(blobs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(all.len() >= 6, "{all:?}");
    let text = std::fs::read_to_string(&bench.ledgers()[0]).unwrap();
    for kind in ["spill", "specs", "manifest", "blob"] {
        assert!(text.contains(&format!("\"{kind}\":")), "no entry names a blob as {kind}");
    }
    for path in all {
        let kept = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let missing = verify().expect(1).stdout;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(missing.contains(&format!("blobs/{name}: missing")), "{name}: {missing}");
        std::fs::write(&path, kept).unwrap();
    }
    verify().expect(0);
}

/// A picture of one pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8,
    6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 13, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0xf8, 0xcf,
    0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x56, 0xc7, 0x2f, 0x0d, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae,
    0x42, 0x60, 0x82,
];

/// Somebody who can write the ledger can exchange, repeat, insert and remove lines. `verify` reports each of these.
#[test]
fn verify_finds_every_change_of_the_order_of_lines() {
    let bench = decided();
    let ledger = bench.ledgers()[0].clone();
    let whole = std::fs::read_to_string(&ledger).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let id: Value = serde_json::from_str(lines[0]).unwrap();
    let id = id["entries"][0]["session"].as_str().unwrap().to_owned();
    run(bench.command().args(["verify", &id, "--anchor", "anchors", "--record"])).expect(0);
    let changed = |what: &str, lines: &[&str], anchored: bool| {
        std::fs::write(&ledger, lines.concat()).unwrap();
        let mut command = bench.command();
        command.args(["verify", &id]);
        if anchored {
            command.args(["--anchor", "anchors"]);
        }
        let ran = run(&mut command);
        assert!(ran.code != 0 && !ran.stdout.contains("\nsound:"), "{what}: {ran:?}");
        assert!(!ran.stdout.starts_with("sound:"), "{what}: {ran:?}");
    };
    for at in 0..lines.len() {
        let mut twice = lines.clone();
        twice.insert(at, lines[at]);
        changed(&format!("line {at} twice"), &twice, false);
        let mut later = lines.clone();
        later.push(lines[at]);
        changed(&format!("line {at} again at the end"), &later, false);
        let mut blank = lines.clone();
        blank.insert(at + 1, "\n");
        changed(&format!("an empty line after {at}"), &blank, false);
        let mut without = lines.clone();
        without.remove(at);
        // If the last line is removed, only an anchor can show that.
        changed(&format!("without line {at}"), &without, at + 1 == lines.len());
        if at > 0 {
            let mut swapped = lines.clone();
            swapped.swap(at - 1, at);
            changed(&format!("lines {} and {at} exchanged", at - 1), &swapped, false);
        }
    }
    std::fs::write(&ledger, &whole).unwrap();
    run(bench.command().args(["verify", &id, "--anchor", "anchors"])).expect(0);
}

#[test]
fn an_anchor_finds_what_the_chain_cannot() {
    let bench = decided();
    let verify = |words: &[&str]| run(bench.command().args(["verify", "decided"]).args(words));
    verify(&[]).expect(0);
    let missing = verify(&["--anchor", "anchors"]).expect(2).stderr;
    assert!(missing.contains("there is no file anchors") && missing.contains("--record"), "{missing}");
    bench.project.write("anchors", "");
    let none = verify(&["--anchor", "anchors"]).expect(1).stdout;
    assert!(none.contains("no anchor of this session"), "{none}");
    verify(&["--anchor", "anchors", "--record"]).expect(0);
    let held = verify(&["--anchor", "anchors"]).expect(0).stdout;
    assert!(held.contains("1 anchor of this session held"), "{held}");

    let ledger = bench.ledgers()[0].clone();
    let whole = std::fs::read_to_string(&ledger).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    // A ledger that is cut between lines has a sound chain, but it does not reach the anchor.
    for keep in 1..lines.len() {
        std::fs::write(&ledger, lines[..keep].concat()).unwrap();
        let id: Value = serde_json::from_str(lines[0]).unwrap();
        let id = id["entries"][0]["session"].as_str().unwrap().to_owned();
        run(bench.command().args(["verify", &id])).expect(0);
        let cut = run(bench.command().args(["verify", &id, "--anchor", "anchors"])).expect(1).stdout;
        assert!(cut.contains("cut off"), "{keep}: {cut}");
    }
    // The chain shows a change inside the ledger.
    std::fs::write(&ledger, whole.replacen("git push", "git pull", 1)).unwrap();
    let changed = verify(&[]).expect(1).stdout;
    assert!(changed.contains("changed after it was written"), "{changed}");
    std::fs::write(&ledger, &whole).unwrap();
    let json: Value =
        serde_json::from_str(&verify(&["--json", "--anchor", "anchors"]).expect(0).stdout).unwrap();
    assert_eq!([&json["sound"], &json["anchors"]], [&json!(true), &json!(1)]);
}

/// The answer to a question is about the files as they were when it was asked. Other files may change meanwhile.
#[test]
fn a_script_that_changes_while_the_user_is_asked_does_not_run() {
    let evil = "#!/bin/sh\ntouch pwned\n";
    let put = |bench: &Bench, name: &str, text: &str| {
        let path = bench.project.path(name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    for (command, changed) in [
        ("./x.sh", "x.sh"),
        ("bash x.sh", "x.sh"),
        ("cd sub && ../x.sh", "x.sh"),
        ("make", "Makefile"),
        ("env A=b sh -c '. ./x.sh'", "x.sh"),
        ("python3 run.py", "helper.py"),
        ("sh < x.sh", "x.sh"),
        ("./link", "link"),
        ("./x.sh", "a.txt"),
    ] {
        let bench = Bench::new(&[
            ("a.txt", "one\n"),
            ("sub/b.txt", "x\n"),
            ("run.py", "import helper\n"),
            ("helper.py", "open('ran', 'w')\n"),
        ]);
        put(&bench, "x.sh", "touch ran\n");
        put(&bench, "evil.sh", evil);
        put(&bench, "Makefile", "all:\n\ttouch ran\n");
        std::os::unix::fs::symlink("x.sh", bench.project.path("link")).unwrap();
        let server = MockServer::start([
            Answer::tool("c1", "bash", json!({ "command": command })),
            Answer::text("done"),
        ]);
        let mut run = bench.print(Api::Anthropic, &server);
        run.args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        let mut running = Running::start(run.args(["--permission-prompt-tool", "stdio"]));
        let asked = ask(&mut running, &says("go"), "can_use_tool");
        match changed {
            "link" => {
                std::fs::remove_file(bench.project.path("link")).unwrap();
                std::os::unix::fs::symlink("evil.sh", bench.project.path("link")).unwrap();
            }
            "Makefile" => put(&bench, changed, "all:\n\ttouch pwned\n"),
            "helper.py" => put(&bench, changed, "open('pwned', 'w')\n"),
            _ => put(&bench, changed, evil),
        }
        let answer = json!({ "behavior": "allow", "updatedInput": asked["request"]["input"] });
        let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": answer });
        ask(
            &mut running,
            &json!({ "type": "control_response", "response": response }),
            "\"type\":\"result\"",
        );
        running.wait();
        let by_program =
            |e: &Value| e["kind"] == "permission" && e["by"] == "sdk" && e["decision"] == "allow";
        assert!(bench.entries().iter().any(by_program), "the ledger says that the program decided");
        let told = server.requests().last().unwrap().text().to_owned();
        let is_other = changed == "a.txt";
        assert!(
            !bench.project.exists("pwned") && bench.project.exists("ran") == is_other,
            "{command}: {told}"
        );
        let says = "a file that this command runs changed while the user was asked";
        assert_eq!(told.contains(says), !is_other, "{command}: {told}");
    }
}
