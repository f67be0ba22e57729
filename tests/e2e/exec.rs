//! `becket exec` as scripts for `codex exec` expect it: where it works, its exit codes, and folders for temporary files.

use crate::sandbox::skipped;
use crate::support::{Bench, Ran, run};
use becket_testkit::{Answer, MockServer};
use serde_json::json;
use std::process::Command;

/// `becket exec` against `server`, in the folder of the bench.
fn exec(bench: &Bench, server: &MockServer, words: &[&str]) -> Ran {
    let mut command = bench.command();
    command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
    run(command.args(["exec", "--json", "-c", "model=openai/test-model"]).args(words))
}

#[test]
fn work_begins_only_in_a_repository() {
    let bench = Bench::new(&[("sub/a.txt", "a\n")]);
    let server = MockServer::with(|_| Answer::text("done").into());
    for words in [&["go"][..], &["-s", "danger-full-access", "go"], &["resume", "--last", "go"]] {
        let ran = exec(&bench, &server, words).expect(1);
        assert_eq!(ran.stdout, "", "{words:?}");
        assert!(ran.stderr.contains("is not in a git repository"), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("add --skip-git-repo-check"), "{words:?}: {}", ran.stderr);
    }
    assert!(server.requests().is_empty() && bench.ledgers().is_empty());
    exec(&bench, &server, &["--skip-git-repo-check", "go"]).expect(0);
    exec(&bench, &server, &["--yolo", "go"]).expect(0);
    let made = Command::new("git").args(["init", "-q"]).current_dir(bench.project.root()).status();
    assert!(made.unwrap().success());
    exec(&bench, &server, &["go"]).expect(0);
    exec(&bench, &server, &["-C", "sub", "go"]).expect(0);
}

/// Exit codes before the first event: 1 if the run cannot begin, 2 for arguments that are wrong in themselves.
#[test]
fn a_run_that_cannot_begin_has_the_exit_code_of_codex() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Answer::text("done").into());
    for (words, code, part) in [
        (&["resume", "0199a213-81c0-7800-8aa1-bbab2a035a53", "go"][..], 1, "0199a213"),
        (&["resume", "no-such-thread", "go"], 1, "no-such-thread"),
        (&["fork", "no-such-thread", "go"], 1, "no-such-thread"),
        (&[], 1, "becket exec \"task\", or pipe it in"),
        (&["-s", "everything", "go"], 2, "unknown level"),
        (&["-c", "nothing", "go"], 2, "write -c key=value"),
        (&["--no-such-option", "go"], 2, "--no-such-option"),
    ] {
        let words = [&["--skip-git-repo-check"], words].concat();
        let ran = exec(&bench, &server, &words).expect(code);
        assert_eq!(ran.stdout, "", "{words:?}");
        assert!(ran.stderr.contains(part), "{words:?}: {}", ran.stderr);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn the_last_thread_is_resumed_and_without_one_a_new_one_begins() {
    for words in
        [&["resume", "--last"][..], &["resume", "--last", "--all"], &["--ephemeral", "resume", "--last"]]
    {
        let bench = Bench::new(&[]);
        let server = MockServer::start(["one", "two"].map(Answer::text));
        let resume = |task: &str| {
            let words = [&["--skip-git-repo-check"], words, &[task]].concat();
            let ran = exec(&bench, &server, &words).expect(0);
            let thread = ran.lines().iter().find_map(|line| line["thread_id"].as_str().map(str::to_owned));
            (thread.unwrap(), ran.stderr.contains("there is no thread to resume yet, so a new one begins"))
        };
        let (first, second) = (resume("remember the zebra"), resume("and the cat"));
        let is_kept = words[0] == "resume";
        assert_eq!((first.1, second.1), (true, !is_kept), "{words:?}");
        assert_eq!(first.0 == second.0, is_kept, "{words:?}");
        assert_eq!(server.requests()[1].text().contains("zebra"), is_kept, "{words:?}");
    }
}

#[test]
fn temporary_folders_can_be_written_at_the_level_workspace_write() {
    let bench = Bench::new(&[]);
    if skipped(&bench) {
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let tmp = tempfile::tempdir_in("/tmp").unwrap();
    let path = |dir: &tempfile::TempDir, name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let exclude = |key: &str| format!("sandbox_workspace_write.exclude_{key}=true");
    let (no_tmp, no_own) = (exclude("slash_tmp"), exclude("tmpdir_env_var"));
    // The folder of TMPDIR may be below /tmp, so it is tried where /tmp is excluded.
    for (settings, dir, may) in [
        (vec![], &tmp, true),
        (vec!["-c", &no_tmp], &own, true),
        (vec!["-c", &no_tmp, "-c", &no_own], &own, false),
        (vec!["-c", &no_tmp, "-c", &no_own], &tmp, false),
    ] {
        let by_command = path(dir, "by_command");
        let by_tool = path(dir, "by_tool");
        let server = MockServer::start([
            Answer::tool("c1", "bash", json!({ "command": format!("echo x > {by_command}") })),
            Answer::tool("c2", "write", json!({ "path": by_tool, "content": "x\n" })),
            Answer::text("done"),
        ]);
        let mut command = bench.command();
        command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
        command.env("TMPDIR", own.path()).args(["exec", "--skip-git-repo-check", "-s", "workspace-write"]);
        run(command.args(["-m", "openai/test-model"]).args(&settings).arg("go"));
        for written in [&by_command, &by_tool] {
            let there = std::fs::remove_file(written).is_ok();
            assert_eq!(there, may, "{settings:?} {written}: {}", server.requests().last().unwrap().text());
        }
    }
}
