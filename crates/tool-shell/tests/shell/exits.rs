//! Nothing that a command started outlives us, however we end and however it hides.

use crate::room::{CROWD, Room, ended, ended_within, line_with, numbers, room};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One process of each kind that often survives: plain, nohup, session of its own, forked twice, deaf to TERM. Each writes
/// its number to `pids`.
const KINDS: &str = r#"
sleep 999 & echo $! >>pids
nohup sleep 999 >/dev/null 2>&1 & echo $! >>pids
setsid sh -c 'echo $$ >>pids; exec sleep 999' &
(setsid sh -c 'echo $$ >>pids; exec sleep 999' >/dev/null 2>&1 &)
(trap '' TERM HUP INT; echo $BASHPID >>pids; exec sleep 999) &
(trap '' TERM; exec setsid nohup sh -c 'echo $$ >>pids; while :; do sleep 1; done' >/dev/null 2>&1) &
echo $$ >>pids
until [ "$(wc -l <pids)" -eq 7 ]; do :; done
"#;

/// A process without becket's variable, known only by its parent. (In a terminal the parent may die first, when the terminal hangs up.)
const UNMARKED: &str =
    "env -i setsid sh -c 'echo $$ >>pids; exec sleep 999' & until [ \"$(wc -l <pids)\" -eq 8 ]; do :; done;";

/// Ways in which the helper process ends: by itself, or by the signal it gets.
const WAYS: &[&str] = &["exit", "panic", "abort", "-INT", "-TERM", "-HUP", "-KILL"];

#[test]
fn nothing_survives_any_end() {
    let _alone = CROWD.blocking_lock();
    for way in WAYS {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "exits::helper_that_ends", "--ignored", "--nocapture", "--test-threads=1"])
            .env("TEST_WAY", way)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        let pids = numbers(&line_with(&mut out, "pids:"));
        assert_eq!(pids.len(), 23, "{way}");
        if way.starts_with('-') {
            assert!(pids.iter().all(|pid| !ended_within(*pid, Duration::ZERO)), "{way}: all run until then");
            let status =
                std::process::Command::new("kill").args([*way, &child.id().to_string()]).status().unwrap();
            assert!(status.success());
        }
        child.wait().unwrap();
        let gone = Instant::now();
        let left: Vec<&i32> = pids
            .iter()
            .filter(|pid| !ended_within(**pid, Duration::from_mins(1).saturating_sub(gone.elapsed())))
            .collect();
        assert!(left.is_empty(), "{way}: {left:?} of {pids:?}");
    }
}

#[tokio::test]
#[ignore = "run by nothing_survives_any_end"]
#[expect(clippy::exit, reason = "one of the ways to end")]
async fn helper_that_ends() {
    let way = std::env::var("TEST_WAY").unwrap();
    let mut rooms: Vec<Room> = (0..3).map(|_| room()).collect();
    for room in &mut rooms {
        room.env.progress = Arc::new(|_| {});
    }
    let [plain, job, terminal] = rooms.as_slice() else { unreachable!() };
    job.job(&format!("{KINDS} {UNMARKED} touch all; sleep 999")).await;
    let in_terminal =
        json!({"command": format!("{KINDS} touch all; sleep 999"), "background": "now", "pty": true});
    terminal.input(in_terminal).await;
    let command = format!("{KINDS} {UNMARKED} touch all; sleep 999");
    let running = plain.sh(&command);
    tokio::pin!(running);
    for room in &rooms {
        tokio::select! {
            output = &mut running => panic!("{}", output.content),
            () = room.appears("all") => {}
        }
    }
    let pids: Vec<String> =
        rooms.iter().flat_map(|room| room.pids("pids")).map(|pid| pid.to_string()).collect();
    println!("\npids:{}", pids.join(" "));
    match way.as_str() {
        "exit" => std::process::exit(0),
        "panic" => panic!("on purpose"),
        "abort" => std::process::abort(),
        _ => running.await,
    };
}

#[tokio::test]
async fn a_timeout_ends_every_kind() {
    let room = room();
    let output =
        room.input(json!({"command": format!("{KINDS} {UNMARKED} sleep 999"), "timeout": 5_000})).await;
    assert_eq!(output.details["timed_out"], true, "{}", output.content);
    let pids = room.pids("pids");
    assert_eq!(pids.len(), 8);
    assert!(pids.into_iter().all(ended));
}

#[tokio::test]
async fn a_control_group_finds_whoever_hid_from_everything() {
    let room = room();
    // The process is started after the command has joined its control group. It keeps no variable, session or parent by
    // which becket could find it otherwise.
    let command =
        "i=0; while [ $i -lt 20 ]; do sleep 0.1; grep -q becket- /proc/self/cgroup && break; i=$((i+1)); done
        grep -o 'becket-.*' /proc/self/cgroup
        (env -i setsid sh -c 'echo $$ >pids; exec sleep 999' >/dev/null 2>&1 &)
        until [ -s pids ]; do :; done; sleep 999";
    let output = room.input(json!({"command": command, "timeout": 6_000})).await;
    if !output.content.starts_with("becket-") {
        // On this machine becket cannot make control groups, so the process is left and the test ends it.
        room.pids("pids").into_iter().for_each(end);
        return;
    }
    assert_eq!(output.details["timed_out"], true);
    assert!(room.pids("pids").into_iter().all(ended), "{}", output.content);
}

fn end(pid: i32) {
    let _ = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
}
