//! Tests changes of the data directory while becket runs, and two processes that open the same session.

use crate::support::{Api, Bench, Running, entries, run, run_with};
use becket_testkit::{Answer, MockServer};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn user(text: &str) -> Vec<u8> {
    format!("{}\n", json!({ "type": "user", "message": { "role": "user", "content": text } })).into_bytes()
}

/// A run that has answered `one` and waits for more.
fn waiting(bench: &Bench, server: &MockServer) -> Running {
    let mut running = Running::start(bench.print(Api::Chat, server).args([
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--permission-mode",
        "bypassPermissions",
    ]));
    running.send(&user("zz-one"));
    running.line(|l| l.contains("\"type\":\"result\""));
    running
}

/// Answers `said: <the last word of these>`, and `zz-touch` with a command that leaves a file.
fn server() -> MockServer {
    MockServer::with(|request| {
        let text = request.text();
        match ["zz-touch", "zz-four", "zz-three", "zz-two", "zz-one"]
            .into_iter()
            .find(|word| text.contains(*word))
        {
            Some("zz-touch") => Answer::tool("c1", "bash", json!({ "command": "touch touched" })).into(),
            word => Answer::text(format!("said: {}", word.unwrap_or_default())).into(),
        }
    })
}

#[test]
fn the_second_process_reads_forks_or_takes_over_and_the_first_one_notices() {
    let bench = Bench::new(&[]);
    let server = server();
    let mut first = waiting(&bench, &server);
    let ledger = bench.ledgers().remove(0);

    // A second process gets one clear message, with the ways to continue.
    let refused = run(bench.print(Api::Chat, &server).args(["--continue", "zz-two"])).expect(2);
    for way in ["another process", "--fork-session", "--take-over", "becket export"] {
        assert!(refused.stderr.contains(way), "{way}: {}", refused.stderr);
    }
    let id = ledger.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    run(bench.command().args(["export", &id])).expect(0);
    run(bench.print(Api::Chat, &server).args(["--resume", &id, "--fork-session", "zz-two"])).expect(0);
    run(bench.print(Api::Chat, &server).args([
        "--resume",
        &id,
        "--fork-session",
        "--no-session-persistence",
        "zz-two",
    ]))
    .expect(0);
    assert_eq!(bench.ledgers().len(), 2, "a copy that is kept, and one that is not");

    // The first process hangs; the second one takes the session over and continues it.
    first.signal("-STOP");
    let ran =
        run(bench.print(Api::Chat, &server).args(["--resume", &id, "--take-over", "zz-three"])).expect(0);
    assert_eq!(ran.stdout, "said: zz-three\n");
    let after: Vec<u8> = std::fs::read(&ledger).unwrap();
    let texts = |ledger: &PathBuf| -> Vec<String> {
        entries(ledger)
            .iter()
            .filter_map(|e| e["message"]["parts"][0]["text"].as_str().map(str::to_owned))
            .collect()
    };
    assert!(
        texts(&ledger).iter().any(|t| t == "said: zz-one") && texts(&ledger).iter().any(|t| t == "zz-three")
    );

    // The first process runs again: it reports the takeover, runs nothing, and adds no byte to the ledger.
    first.signal("-CONT");
    first.send(&user("zz-touch"));
    first.line(|l| l.contains("\"type\":\"result\""));
    let ended = first.wait();
    assert!(ended.stdout.contains("taken over by another process"), "{ended:?}");
    // The takeover is reported once as a notice and once as the end of the turn, although several entries could not be written.
    let notices =
        ended.stdout.lines().filter(|l| l.contains("taken over") && !l.contains("\"type\":\"result\""));
    assert!(notices.count() <= 1, "{}", ended.stdout);
    assert_eq!(std::fs::read(&ledger).unwrap(), after);
    assert!(!bench.project.exists("touched"), "no side effect of a session that is somebody else's");
}

#[test]
fn a_data_directory_that_is_deleted_while_it_runs_costs_the_record_and_not_the_work() {
    let bench = Bench::new(&[]);
    let server = server();
    let mut running = waiting(&bench, &server);
    std::fs::remove_dir_all(bench.home.path(".local")).unwrap();
    running.send(&user("zz-two"));
    let result = running.line(|l| l.contains("\"type\":\"result\""));
    assert!(result.contains("said: zz-two"), "{result}");
    let ran = running.wait().expect(0);
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(told.contains("in memory only"), "{told}");
}

#[test]
fn no_place_for_the_data_is_a_note_and_nothing_at_all_when_nothing_is_to_be_kept() {
    let bench = Bench::new(&[("file", "in the way")]);
    let server = server();
    // Nobody can make a folder at these paths, not even root.
    let in_the_way = bench.project.path("file");
    for place in [PathBuf::from("/proc/becket"), PathBuf::from("/dev/null/becket"), in_the_way] {
        let ran = run(bench.print(Api::Chat, &server).env("BECKET_HOME", &place).arg("zz-one")).expect(14);
        assert_eq!(ran.stdout, "said: zz-one\n", "{}", place.display());
        assert!(ran.stderr.contains(place.to_str().unwrap()), "{}: {}", place.display(), ran.stderr);
        let quiet = run(bench
            .print(Api::Chat, &server)
            .env("BECKET_HOME", &place)
            .args(["--no-session-persistence", "zz-one"]))
        .expect(0);
        assert_eq!(quiet.stdout, "said: zz-one\n");
        assert!(
            !quiet.stderr.contains("save") && !quiet.stderr.contains(place.to_str().unwrap()),
            "{quiet:?}"
        );
        let resumed = run(bench.print(Api::Chat, &server).env("BECKET_HOME", &place).args(["-c", "zz-two"]));
        assert_eq!(resumed.expect(2).stdout, "");
    }
}

#[test]
fn a_damaged_session_is_repaired_in_a_copy() {
    let bench = Bench::new(&[]);
    let server = server();
    run(bench.print(Api::Chat, &server).args(["-n", "mine", "zz-one"])).expect(0);
    run(bench.print(Api::Chat, &server).args(["-c", "zz-two"])).expect(0);
    let nothing = run(bench.command().args(["doctor", "--repair"])).expect(0);
    assert!(nothing.stdout.contains("nothing to repair"), "{nothing:?}");
    let ledger = bench.ledgers().remove(0);
    let mut lines: Vec<String> =
        std::fs::read_to_string(&ledger).unwrap().split_inclusive('\n').map(str::to_owned).collect();
    let third = lines[2].replace("\"seq\"", "\"sqe\"");
    lines[2] = third;
    std::fs::write(&ledger, lines.concat()).unwrap();
    let before = std::fs::read(&ledger).unwrap();
    let made = run(bench.command().args(["doctor", "session", "mine", "--repair"])).expect(0);
    assert!(made.stdout.contains("line 3") && made.stdout.contains("set aside"), "{}", made.stdout);
    assert_eq!(std::fs::read(&ledger).unwrap(), before);
    let again = run(bench.command().args(["doctor", "--repair", "--json"])).expect(0);
    assert!(again.stdout.contains("repaired before"), "{}", again.stdout);
    let on = run(bench.print(Api::Chat, &server).args(["--resume", "mine (repaired)", "zz-three"])).expect(0);
    assert_eq!(on.stdout, "said: zz-three\n");
}

#[test]
fn a_store_that_cannot_be_used_ends_the_command_and_nothing_goes_elsewhere() {
    let bench = Bench::new(&[]);
    let server = server();
    // Without the feature `postgres` there is no such store; with it, no server answers.
    let ran = run(bench
        .print(Api::Chat, &server)
        .env("BECKET_STORE", "postgres:///x?host=/nonexistent&user=me")
        .arg("zz-one"));
    assert!([1, 2].contains(&ran.code), "{ran:?}");
    assert!(ran.stderr.contains("BECKET_STORE"), "{ran:?}");
    assert_eq!(ran.stdout, "");
    assert!(bench.ledgers().is_empty() && server.requests().is_empty());
}

#[test]
fn a_session_that_cannot_be_saved_has_an_exit_code_of_its_own() {
    for format in ["text", "json", "stream-json"] {
        let bench = Bench::new(&[]);
        // A file is at the path of the sessions, so nobody can make a session there, not even root.
        bench.home.write(".local/share/becket/sessions", "a file");
        let server = MockServer::start([Answer::text("done")]);
        let mut command = bench.print(Api::Chat, &server);
        command.args(["--output-format", format, "--verbose", "hello"]);
        let ran = run(&mut command).expect(14);
        assert!(ran.stdout.contains("done"), "{}", ran.stdout);
        assert!(ran.stderr.contains("Cannot save this session"), "{}", ran.stderr);
        assert_eq!(ran.stdout.contains("\"session_saved\":false"), format != "text", "{}", ran.stdout);
        // If the session is not to be saved, the run succeeds.
        let server = MockServer::start([Answer::text("done")]);
        run(bench.print(Api::Chat, &server).args(["--no-session-persistence", "hello"])).expect(0);
    }
}

/// Returns the files and folders below `dir` that other users can use, with their modes.
fn open_to_others(dir: &Path, out: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let meta = entry.metadata().unwrap();
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 && !meta.is_symlink() {
            out.push(format!("{mode:o} {}", entry.path().display()));
        }
        if meta.is_dir() {
            open_to_others(&entry.path(), out);
        }
    }
}

/// Whatever runs first, and whatever the umask is: what becket keeps in the home folder is for its owner alone.
#[test]
fn everything_that_becket_keeps_is_for_its_owner_alone() {
    let server = MockServer::with(|_| Answer::text("done").into());
    for umask in ["000", "022"] {
        for first in 0..4 {
            let bench = Bench::new(&[]);
            let runs: [(&[&str], &str); 4] = [
                (&["-p", "--model", "openai/test-model", "hi"], ""),
                (&["mcp", "add", "--scope", "user", "one", "--", "true"], ""),
                (&["login", "groq", "--file"], "gsk_0123456789abcdef0123456789abcdef"),
                (&["doctor"], ""),
            ];
            for (args, input) in runs.iter().cycle().skip(first).take(runs.len()) {
                let becket = bench.print(Api::Chat, &server);
                let mut command = Command::new("sh");
                command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]).arg(becket.get_program());
                command.args(*args).env_clear().current_dir(bench.project.root());
                command.envs(becket.get_envs().filter_map(|(name, value)| Some((name, value?))));
                let ran = run_with(&mut command, input.as_bytes());
                assert!(ran.code == 0 || args == &["doctor"], "{args:?}: {ran:?}");
            }
            let mut found = Vec::new();
            open_to_others(bench.home.root(), &mut found);
            assert_eq!(found, Vec::<String>::new(), "umask {umask}, first {first}");
            assert!(bench.home.exists(".config/becket/credentials.toml"));
        }
    }
}

#[test]
fn an_answer_that_a_takeover_kept_from_being_written_has_that_exit_code() {
    for (n, format) in ["text", "json", "stream-json"].into_iter().enumerate() {
        let bench = Bench::new(&[]);
        let id = format!("5f0c3a52-7a8e-4a41-9f7b-3f0f6a1c2d3{n}");
        let other = MockServer::with(|_| Answer::text("said by the second").into());
        let mut second = bench.print(Api::Chat, &other);
        second.args(["--resume", &id, "--take-over", "zz-two"]);
        let mut requests = 0;
        let server = MockServer::with(move |_| {
            requests += 1;
            if requests == 1 {
                return Answer::tool("c1", "bash", json!({ "command": "true" })).into();
            }
            // The second process takes the session over while the last request of the first one waits for its answer.
            assert!(second.output().unwrap().status.success());
            Answer::text("said by the first").into()
        });
        let mut command = bench.print(Api::Chat, &server);
        command.args(["--permission-mode", "bypassPermissions", "--session-id", &id]);
        let ran = run(command.args(["--output-format", format, "zz-one"])).expect(14);
        assert!(ran.stdout.contains("said by the first"), "{}", ran.stdout);
        assert_eq!(ran.stdout.contains("\"session_saved\":false"), format != "text", "{}", ran.stdout);
        assert!(ran.stderr.contains("taken over by another process"), "{}", ran.stderr);
        let ledger = std::fs::read_to_string(&bench.ledgers()[0]).unwrap();
        assert!(ledger.contains("said by the second") && !ledger.contains("said by the first"));
    }
}

/// A call after the takeover would be in no record, whoever makes it.
#[test]
fn no_call_begins_after_a_takeover() {
    for (n, taken_at) in [1, 2].into_iter().enumerate() {
        let bench = Bench::new(&[]);
        let id = format!("5f0c3a52-7a8e-4a41-9f7b-3f0f6a1c2d5{n}");
        let other = MockServer::with(|_| Answer::text("said by the second").into());
        let mut second = bench.print(Api::Chat, &other);
        second.args(["--resume", &id, "--take-over", "zz-two"]);
        let mut requests = 0;
        let server = MockServer::with(move |_| {
            requests += 1;
            // The second request is one of a subagent.
            if requests < taken_at {
                let task = json!({ "description": "work", "prompt": "work", "agent": "general" });
                return Answer::tool("t1", "task", task).into();
            }
            if requests == taken_at {
                assert!(second.output().unwrap().status.success());
            }
            Answer::tool("c1", "bash", json!({ "command": "touch touched" }))
                .and_tool("c2", "write", json!({ "path": "written.txt", "content": "x" }))
                .into()
        });
        let mut command = bench.print(Api::Chat, &server);
        let bypass = ["--permission-mode", "bypassPermissions"];
        let ran = run(command.args(bypass).args(["--session-id", &id, "zz-one"])).expect(1);
        assert!(!bench.project.exists("touched") && !bench.project.exists("written.txt"), "{ran:?}");
        assert!(ran.stderr.contains("nothing more is done or saved here"), "{}", ran.stderr);
        assert_eq!(server.requests().len(), taken_at, "{ran:?}");
    }
}
