//! Background jobs: states, output since the last look, limits, news that is reported once, the effect of a resume and an exit.

use crate::room::{Tools, ended, room, room_with, settings};
use becket_tool::Tool;
use becket_tool::testing::run;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_job_runs_beside_and_tells_what_is_new() {
    let room = room();
    let command = "mkfifo go on; echo one; read x <go; echo two; read x <on; printf three; exit 3";
    let start = Instant::now();
    let output = room.input(json!({"command": command, "background": true})).await;
    assert_eq!((output.content.as_str(), output.is_error), ("[started as job 1]", false));
    assert!(start.elapsed() < Duration::from_mins(1));
    room.appears("on").await;
    let first = until(&room, 1, "one").await;
    assert!(first.starts_with("one\n[job 1 running for "), "{first}");
    let nothing = room.output(json!({"id": 1})).await.content;
    assert!(nothing.starts_with("(no new output)\n[job 1 running for "), "{nothing}");
    assert_eq!(room.text("echo x >go; echo done").await, "done");
    assert!(until(&room, 1, "two").await.starts_with("two\n["));
    // The end of a job is reported once, with the next result.
    room.sh("echo x >on").await;
    let last = room.output(json!({"id": "1", "wait": 20_000})).await;
    assert!(last.content.starts_with("three\n[job 1 finished after "), "{}", last.content);
    assert!(last.content.ends_with(": exit code 3]"), "{}", last.content);
    assert_eq!((&last.details["state"], last.is_error), (&json!("finished"), false));
    assert_eq!(room.text("echo quiet").await, "quiet");
    let again = room.output(json!({"id": 1})).await.content;
    assert!(again.starts_with("(no new output)\n[job 1 finished"), "{again}");
}

/// Reads the job's output until it contains `word`.
async fn until(room: &crate::room::Room, id: u64, word: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let content = room.output(json!({"id": id})).await.content;
        if content.contains(word) {
            return content;
        }
        assert!(Instant::now() < deadline, "{content}");
    }
}

#[tokio::test]
async fn what_ends_unseen_is_told_once() {
    let room = room();
    room.job("true").await;
    // The job ends at some moment; the next result reports that.
    let deadline = Instant::now() + Duration::from_secs(90);
    let told = loop {
        let text = room.text("echo x").await;
        if text != "x" {
            break text;
        }
        assert!(Instant::now() < deadline);
    };
    assert!(told.starts_with("x\n[job 1 finished after ") && told.ends_with("exit code 0: true]"), "{told}");
    assert_eq!(room.text("echo x").await, "x");
}

#[tokio::test]
async fn a_timeout_can_move_to_the_background() {
    let room = room();
    let input = json!({"command": "mkfifo go; echo early; read x <go; echo late", "timeout": 1_500, "background": "on_timeout"});
    let output = room.input(input).await;
    assert_eq!(output.content, "early\n[still running after 1.5 s; now job 1]");
    assert!(!output.is_error && !output.interrupted && output.details["timed_out"] == true);
    room.sh("echo x >go").await;
    let output = room.output(json!({"id": 1, "wait": 20_000})).await;
    assert!(output.content.starts_with("late\n[job 1 finished"), "{}", output.content);
    // A command that ends within its time is not moved to the background.
    let output = room.input(json!({"command": "echo x", "background": "on_timeout"})).await;
    assert_eq!(output.content, "x");
}

#[tokio::test]
async fn a_daemon_does_not_hold_the_call_and_becomes_a_job() {
    let room = room();
    for (number, command) in [
        "sleep 999 & echo $! >pid",
        "nohup sleep 999 & echo $! >pid",
        "setsid sh -c 'echo $$ >pid; exec sleep 999' & until [ -s pid ]; do :; done",
        "(setsid sh -c 'echo $$ >pid; exec sleep 999' &); until [ -s pid ]; do :; done; false",
        "sleep 999 >/dev/null 2>&1 & echo $! >pid",
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::remove_file(room.root.join("pid")).ok();
        let output = room.sh(command).await;
        let id = number as u64 + 1;
        assert_eq!(output.details["job"], id, "{command}: {}", output.content);
        let note = format!("[what it started in the background still runs as job {id}]");
        assert!(output.content.ends_with(&note), "{}", output.content);
        assert!(output.details["duration_ms"].as_u64().unwrap() < 5_000);
        let pid = room.pids("pid")[0];
        let killed = room.kill(json!({"id": id})).await;
        assert!(killed.content.contains(&format!("job {id} killed after")), "{}", killed.content);
        assert!(ended(pid), "{command}");
    }
}

#[tokio::test]
async fn what_a_daemon_prints_later_is_its_jobs_output() {
    let room = room();
    // The process in the background writes after the call has ended. Its pipe must not be broken then.
    let output = room.sh("mkfifo go; (read x <go; echo late; sleep 999) & echo early").await;
    assert!(output.content.starts_with("early\n[what it started"), "{}", output.content);
    room.sh("echo x >go").await;
    assert!(until(&room, 1, "late").await.starts_with("late\n[job 1 running"));
    let pids = room.text("pgrep -s 0 -x sleep || echo none").await;
    assert_eq!(pids, "none\n[exit code 0]".split('\n').next().unwrap());
    let list = room.output(json!({})).await.content;
    assert!(list.starts_with("job 1 running for ") && list.ends_with("echo early"), "{list}");
}

#[tokio::test]
async fn killing_ends_the_whole_tree_and_says_what_was() {
    let room = room();
    room.job("trap '' TERM; echo $$ >pids; setsid sh -c 'echo $$ >>pids; touch all; exec sleep 999' & wait")
        .await;
    room.appears("all").await;
    let output = room.kill(json!({"id": 1})).await;
    assert!(output.content.contains("[job 1 killed after 2"), "{}", output.content);
    assert!(room.pids("pids").into_iter().all(ended));
    let again = room.kill(json!({"id": 1})).await;
    assert!(again.content.ends_with("[it was over before]"), "{}", again.content);
    assert_eq!(again.details["state"], "killed");
}

#[tokio::test]
async fn there_are_sixteen_at_most() {
    let room = room();
    for _ in 0..16 {
        room.job("sleep 999").await;
    }
    let output = room.input(json!({"command": "touch ran", "background": "now"})).await;
    assert!(output.is_error && output.content.contains("16 jobs are running"), "{}", output.content);
    let output =
        room.input(json!({"command": "sleep 999", "timeout": 100, "background": "on_timeout"})).await;
    assert!(
        output.details["timed_out"] == true && output.content.contains("not moved to the background"),
        "{}",
        output.content
    );
    assert!(!room.root.join("ran").exists());
    room.kill(json!({"id": 5})).await;
    assert_eq!(room.job("sleep 999").await, 17);
    let lines = room.tools.shell.end_jobs().await;
    assert_eq!(lines.len(), 16);
    assert_eq!(lines[0], "background job 1 ended with the run: sleep 999");
    assert!(room.tools.shell.end_jobs().await.is_empty());
}

#[tokio::test]
async fn the_table_is_session_state_and_a_resume_names_what_is_lost() {
    let room = room();
    room.job("sleep 999").await;
    let mut state = Value::Null;
    for (command, expected) in [("true", "running"), ("sleep 5", "running")] {
        room.sh(command.split(' ').next().unwrap()).await;
        state = room.host.kept().state["jobs"].clone();
        assert_eq!((&state[0]["id"], &state[0]["state"]), (&json!(1), &json!(expected)));
    }
    assert_eq!(state[0]["command"], "sleep 999");
    // Another process continues the session.
    let later = Tools::new(settings(room.dir.path().join("spill2")));
    let output = run(&later.bash, &room.env, json!({"command": "echo x"})).await;
    assert_eq!(output.content, "x\n[job 1 lost with the earlier process: sleep 999]");
    let output = run(&later.bash, &room.env, json!({"command": "echo x"})).await;
    assert_eq!(output.content, "x");
    let output = run(&later.output, &room.env, json!({"id": 1})).await;
    assert!(output.is_error && output.content.contains("Job 1 is lost"), "{}", output.content);
    assert_eq!(run(&later.output, &room.env, json!({})).await.content, "job 1 lost: sleep 999");
    let output = run(&later.bash, &room.env, json!({"command": "sleep 999", "background": "now"})).await;
    assert_eq!(output.content, "[started as job 2]");
    // A third process reports the job that the second one has lost, and does not report the first job again.
    drop(later);
    let third = Tools::new(settings(room.dir.path().join("spill3")));
    let output = run(&third.bash, &room.env, json!({"command": "echo x"})).await;
    assert_eq!(output.content, "x\n[job 2 lost with the earlier process: sleep 999]");
}

#[tokio::test]
async fn bad_input_is_answered_and_does_nothing() {
    let room = room();
    room.job("sleep 999").await;
    for (input, want) in [
        (json!({"id": 7}), "There is no job 7. Jobs: 1."),
        (json!({"id": "x"}), "`id` must be"),
        (json!({"id": -1}), "`id` must be at least 0, got -1"),
        (json!({"id": 1.5}), "`id`"),
        (json!({"id": [1]}), "`id`"),
        (json!({"id": u64::MAX}), "There is no job"),
        (json!({"id": 1, "wait": -5}), "`wait` must be at least 0, got -5"),
        (json!({"id": 1, "wait": "soon"}), "`wait`"),
        (json!({"id": 1, "input": "y\n"}), "it has no terminal; start it again with `pty`"),
        (json!({"id": 1, "input": ["y"]}), "`input`"),
        (json!({"input": "y\n"}), "needs the `id`"),
        (json!({"id": 1, "what": 1}), "unknown field"),
        (json!("x"), "Invalid input"),
        (json!(null), "Invalid input"),
    ] {
        let output = room.output(input.clone()).await;
        assert!(output.is_error && output.content.contains(want), "{input}: {}", output.content);
    }
    for (input, want) in [
        (json!({}), "`id` is missing"),
        (json!({"id": 7}), "There is no job 7. Jobs: 1."),
        (json!({"id": "all"}), "`id` must be"),
        (json!({"id": null}), "`id` is missing"),
        (json!([]), "Invalid input"),
    ] {
        let output = room.kill(input.clone()).await;
        assert!(output.is_error && output.content.contains(want), "{input}: {}", output.content);
    }
    assert_eq!(room.output(json!({"id": 1})).await.details["state"], "running");
    // The name of the parameter in other agents' tools.
    let output = room.kill(json!({"bash_id": "1"})).await;
    assert!(output.content.contains("killed"), "{}", output.content);
}

#[tokio::test]
async fn what_is_typed_into_a_job_is_judged_as_part_of_it() {
    let room = room();
    room.input(json!({"command": "bash", "pty": true, "background": "now"})).await;
    let access = |input: Value| room.tools.output.access(&input, &room.env).unwrap();
    assert_eq!(access(json!({"id": 1})).command, None);
    assert_eq!(
        access(json!({"id": 1, "input": "rm -rf /"})).command.as_deref(),
        Some("bash <<'INPUT'\nrm -rf /\nINPUT")
    );
    let access = room.tools.bash.access(&json!({"command": "bash", "input": "ls\n"}), &room.env).unwrap();
    assert_eq!(access.command.as_deref(), Some("bash <<'INPUT'\nls\n\nINPUT"));
}

#[tokio::test]
async fn a_long_output_of_a_job_is_cut_and_kept() {
    let room = room_with(|settings| settings.window = becket_tool_shell::Window { head: 1_000, tail: 1_000 });
    room.job("seq 1 100000").await;
    let output = room.output(json!({"id": 1, "wait": 20_000})).await;
    assert!(output.content.starts_with("1\n2\n") && output.content.contains("\n100000\n[job 1 finished"));
    let blob = room.host.kept().blobs[output.spill.unwrap().as_str()].clone();
    let whole = (1..=100_000).map(|i| i.to_string()).collect::<Vec<_>>().join("\n") + "\n";
    assert!(blob == whole.as_bytes());
}
