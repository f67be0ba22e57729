//! Deny rules for files in whole runs: commands that a mode or a rule allows reach no denied file, by whatever words.

use crate::machines::on_machine;
use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::json;

const TABLE: &str = include_str!("../../crates/guard/tests/corpus/denied_files.txt");
const DENIED: &str = "DENIED";

fn bench() -> Bench {
    let bench = Bench::new(&[("private/s.txt", "DENIED\n"), ("src/x.txt", "x\n"), ("a.txt", "hello\n")]);
    std::os::unix::fs::symlink("private", bench.project.path("link")).unwrap();
    bench.home.write(".config/becket/config.toml", "permissions.deny = [\"Read(./private/**)\"]\n");
    bench
}

/// The results of commands in one session of this machine.
fn results(bench: &Bench, lacking: &str, flags: &[&str], commands: &[String]) -> Vec<String> {
    let calls = commands.iter().enumerate();
    let calls = calls.map(|(n, text)| Answer::tool(&format!("c{n}"), "bash", json!({ "command": text })));
    let server = MockServer::start(calls.chain([Answer::text("done")]).collect::<Vec<_>>());
    let mut command = bench.print(Api::Anthropic, &server);
    run(&mut on_machine(lacking, command.args(flags).args(["--max-turns", "500", "--", "go"])));
    let last = server.requests().last().unwrap().json();
    let told = last["messages"].as_array().unwrap().iter().filter_map(|m| m["content"].as_array()).flatten();
    let told = told.filter(|part| part["type"] == "tool_result");
    told.map(|part| part["content"].to_string()).collect()
}

const BYPASS: &[&str] = &["--permission-mode", "bypassPermissions"];

#[expect(clippy::print_stdout, reason = "a test says that it skipped")]
fn hold(lacking: &str, backend: &str) {
    let bench = bench();
    let doctor = run(&mut on_machine(lacking, bench.command().arg("doctor"))).stdout;
    if !doctor.lines().any(|line| line.contains(" sandbox ") && line.contains(backend)) {
        println!("skipped: no {backend}: {doctor}");
        return;
    }
    let lines = TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| line.replace("\\n", "\n"));
    let commands: Vec<String> = lines.collect();
    for flags in [BYPASS, &["--allowedTools", "Bash"]] {
        let told = results(&bench, lacking, flags, &commands);
        assert_eq!(told.len(), commands.len());
        for (command, told) in commands.iter().zip(&told) {
            // The words of the command may be in the reason of a denial.
            assert!(
                !told.replace(command.as_str(), "").contains("DENIED\\n"),
                "{backend} {flags:?}: {command}: {told}"
            );
        }
        assert_eq!(bench.project.read("private/s.txt"), "DENIED\n");
    }
    let explain = ["permissions", "explain", "Bash(cat $1)", "--permission-mode", "bypassPermissions"];
    let explained = run(&mut on_machine(lacking, bench.command().args(explain))).expect(0).stdout;
    assert!(explained.contains("withheld from it (level deny-rules)"), "{backend}: {explained}");
    let plain: Vec<String> = [
        "n=src; x=$(cat $n/x.txt); echo \"got $x\"",
        "for f in a.txt src/x.txt; do cat \"$f\"; done; echo \"temp ${TMPDIR-none}\"",
        "p=$$; kill -0 $p && echo alive",
    ]
    .map(str::to_owned)
    .into();
    let told = results(&bench, lacking, BYPASS, &plain).concat();
    for words in ["got x", "hello\\nx\\n", "temp none", "alive"] {
        assert!(told.contains(words), "{backend}: {words}: {told}");
    }
}

#[test]
fn no_words_lead_to_a_denied_file_with_bubblewrap() {
    hold("none", "bubblewrap");
}

#[test]
fn no_words_lead_to_a_denied_file_with_landlock() {
    hold("namespaces", "Landlock");
}

/// If no sandbox can hide files, a headless run refuses a command that would need a question, and the reason names the rule.
#[test]
fn without_a_sandbox_the_rule_is_the_reason_of_a_denial() {
    let bench = bench();
    let commands = ["cat $(printf pri%s vate)/s.txt", "d=src; cat $d/x.txt", "cat a.txt"].map(str::to_owned);
    for (lacking, flags) in [
        ("namespaces,landlock", BYPASS),
        ("none", &["--permission-mode", "bypassPermissions", "--sandbox", "off"]),
    ] {
        let told = results(&bench, lacking, flags, &commands);
        assert!(
            told[0].contains("the deny rule Read(./private/**) cannot be checked"),
            "{lacking}: {told:?}"
        );
        assert!(!told.concat().contains(DENIED), "{lacking}: {told:?}");
        assert!(told[1].contains('x') && told[2].contains("hello"), "{lacking}: {told:?}");
    }
}
