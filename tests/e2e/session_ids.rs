//! The names under which a session is found: its own id, which only one session has, its id in the program from which it was
//! imported, and words of it in other forms.

use crate::support::{Api, Bench, run};
use becket_testkit::{Answer, MockServer};
use serde_json::Value;

const CLAUDE: &str = include_str!("../fixtures/imports/claude.jsonl");
const CODEX: &str = include_str!("../fixtures/imports/codex.jsonl");

/// The first id of a session in a file of another program.
fn id_in(file: &str, key: &str) -> String {
    file.split(&format!("\"{key}\":\"")).nth(1).unwrap().split('"').next().unwrap().to_owned()
}

fn server() -> MockServer {
    MockServer::with(|_| Answer::text("An answer.").into())
}

/// With an id twice, every command that names it could mean the wrong session.
#[test]
fn an_id_that_another_project_has_is_refused() {
    let bench = Bench::new(&[("one/a.txt", "a\n"), ("two/b.txt", "b\n")]);
    let server = server();
    let print = |folder: &str, more: &[&str], code| {
        let mut command = bench.print(Api::Chat, &server);
        run(command.current_dir(bench.project.path(folder)).args(more)).expect(code)
    };
    let id = "5f0c3a52-7a8e-4a41-9f7b-3f0f6a1c2d40";
    print("one", &["--session-id", id, "one thing"], 0);
    for folder in ["one", "two"] {
        let refused = print(folder, &["--session-id", id, "two things"], 2);
        assert!(refused.stderr.contains("exists already"), "{folder}: {}", refused.stderr);
    }
    let refused = print("two", &["-r", id, "--fork-session", "--session-id", id, "two things"], 2);
    assert!(refused.stderr.contains("exists already"), "{}", refused.stderr);
    assert_eq!((bench.ledgers().len(), server.requests().len()), (1, 1));
    // An id may be used again after the removal, and then the first session does not come back beside it.
    run(bench.command().args(["sessions", "rm", id])).expect(0);
    print("two", &["--session-id", id, "two things"], 0);
    let refused = run(bench.command().args(["sessions", "restore", id])).expect(2);
    assert!(refused.stderr.contains("exists: the copy in the trash stays there"), "{}", refused.stderr);
}

#[test]
fn a_session_of_another_program_is_imported_once_and_found_by_its_id_there() {
    for (file, key, path, variable) in [
        (CLAUDE, "sessionId", ".claude/projects/x", "CLAUDE_CONFIG_DIR"),
        (CODEX, "id", ".codex/sessions/2026/02/03", "CODEX_HOME"),
    ] {
        let id = id_in(file, key);
        let name = if key == "id" {
            format!("rollout-2026-02-03T04-05-06-{id}.jsonl")
        } else {
            format!("{id}.jsonl")
        };
        let server = server();
        // Imported by hand first: the id continues that session.
        let bench = Bench::new(&[]);
        bench.home.write(&format!("{path}/{name}"), file);
        let source = bench.home.path(&format!("{path}/{name}"));
        run(bench.command().arg("import").arg(&source).arg("--here")).expect(0);
        run(bench.print(Api::Chat, &server).args(["-c", "NEW WORK"])).expect(0);
        let exported = run(bench.command().args(["export", &id])).expect(0).stdout;
        assert!(exported.contains("NEW WORK"), "{exported}");
        run(bench.print(Api::Chat, &server).args(["--resume", &id, "and more"])).expect(0);
        assert!(server.requests().last().unwrap().text().contains("NEW WORK"), "{path}");
        assert_eq!(bench.ledgers().len(), 1, "{path}");

        // Not imported yet: the id imports it, also from a folder that the environment names.
        let bench = Bench::new(&[]);
        let (root, below) = path.split_once('/').unwrap();
        bench.home.write(&format!("else/{below}/{name}"), file);
        let mut command = bench.print(Api::Chat, &server);
        command.env(variable, bench.home.path("else"));
        let ran = run(command.args(["--resume", &id, "FIRST WORK"])).expect(0);
        assert!(ran.stderr.contains("was imported from"), "{root}: {}", ran.stderr);
        let ran = run(bench.print(Api::Chat, &server).args(["--resume", &id, "and more"])).expect(0);
        assert!(!ran.stderr.contains("was imported from"), "{root}: {}", ran.stderr);
        assert!(server.requests().last().unwrap().text().contains("FIRST WORK"), "{root}");
        assert_eq!(bench.ledgers().len(), 1, "{root}");
    }
}

#[test]
fn a_search_finds_other_forms_of_letters_and_shows_what_was_written() {
    let bench = Bench::new(&[]);
    let written = "ΟΔΟΣ Straße Αθήνα Ёлка Łódź";
    run(bench.print(Api::Chat, &server()).arg(written)).expect(0);
    for asked in ["οδός", "αθηνα", "ΑΘΗΝΑ", "елка", "lodz", "STRASSE"] {
        let found = run(bench.command().args(["sessions", "search", asked])).expect(0).stdout;
        assert!(found.contains(written), "{asked}: {found}");
    }
}

#[test]
fn a_check_of_a_session_without_a_name_takes_the_newest() {
    let bench = Bench::new(&[]);
    run(bench.command().args(["doctor", "session"])).expect(2);
    let id = "5f0c3a52-7a8e-4a41-9f7b-3f0f6a1c2d41";
    run(bench.print(Api::Chat, &server()).args(["--session-id", id, "hello"])).expect(0);
    let told = run(bench.command().args(["doctor", "session", "--json"])).expect(0).stdout;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert!(told["checks"][0]["text"].as_str().unwrap().starts_with(id), "{told}");
}
