//! Limits on one command's use of the machine.

use crate::room::{CROWD, room, room_with};
use becket_tool_shell::Limits;
use serde_json::json;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_fork_bomb_is_bounded() {
    let limits = Limits { tasks: 100, ..Limits::default() };
    let room = room_with(|settings| settings.limits = limits);
    // If nothing stopped it, it would end by itself after two minutes, with at most a few thousand processes. It lasts that
    // long because a busy machine may pause.
    let bomb = "for i in $(seq 1500); do sleep 120 & done; echo all; wait";
    let output = room.sh(bomb).await;
    assert!(output.is_error && output.interrupted);
    assert!(
        output
            .content
            .ends_with("[killed: it had more than 100 processes and threads, the most a command may have]"),
        "{}",
        output.content
    );
    assert_eq!(room.text("echo next").await, "next");
}

/// Waits until the shell's nice value differs from `began`, for a minute at most. The tests themselves may run at any nice value.
const AWAITS: &str = r#"for i in $(seq 1200); do set -- $(</proc/$$/stat); [ "${19}" = "$began" ] || break; sleep 0.05; done; echo "nice ${19}""#;
/// Sets `began` to the shell's nice value.
const NICE: &str = "set -- $(</proc/$$/stat); began=${19}";

#[tokio::test]
async fn a_crowd_runs_behind_everything_else() {
    let _crowd = CROWD.lock().await;
    let limits = Limits { tasks: 3_200, ..Limits::default() };
    let room = room_with(|settings| settings.limits = limits);
    let began = room.text(&format!("{NICE}; echo $began")).await;
    let began: i32 = began.trim().parse().unwrap();
    let crowd = format!("{NICE}; for i in $(seq 500); do sleep 300 & done; {AWAITS}; kill $(jobs -p)");
    let output = room.text(&crowd).await;
    // The crowd's nice value is higher by 10, or 19, which is the highest. Other commands keep theirs.
    assert!(output.contains(&format!("nice {}", (began + 10).min(19))), "{began}: {output}");
    // If some of the crowd took long to end, a note about that follows.
    let next = room.text(&format!("{NICE}; echo $began")).await;
    assert_eq!(next.lines().next(), Some(began.to_string().as_str()), "{next}");
}

/// Starts 4,000 processes, four at a time. The shell prints an error for each that cannot be started.
const STARTS: &str = "for i in 1 2 3 4; do for j in $(seq 1000); do /bin/true; done & done; wait; echo all";

#[tokio::test]
async fn a_command_can_start_others_while_somebody_else_multiplies() {
    let _crowd = CROWD.lock().await;
    let room = room_with(|settings| settings.limits.tasks = 100);
    let other = self::room();
    // More processes than the first command may have, running as long as that command.
    let crowd = "for i in $(seq 300); do sleep 600 & done; wait";
    let crowd = other.input(json!({"command": crowd, "timeout": 600_000}));
    tokio::select! {
        // 4,000 starts take minutes on a machine that is busy with other things.
        output = room.input(json!({"command": STARTS, "timeout": 600_000})) => assert_eq!(output.content, "all"),
        output = crowd => panic!("{}", output.content),
    }
}

/// Each process starts two more, until there are about 255. That is more than the limit; without it they would stay for 20 seconds.
const DOUBLES: &str = "f() { [ $1 -eq 0 ] || { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 20; }; f 7";

#[tokio::test]
async fn what_doubles_is_bounded_and_ends() {
    let _crowd = CROWD.lock().await;
    let limits = Limits { tasks: 100, ..Limits::default() };
    let room = room_with(|settings| settings.limits = limits);
    let output = room.sh(&format!("echo $$ >group; {DOUBLES}")).await;
    assert!(
        output.content.contains("[killed: it had more than 100 processes and threads"),
        "{}",
        output.content
    );
    assert!(group_is_empty(room.pids("group")[0]));
    assert_eq!(room.text("echo next").await, "next");
    // With a limit that is not reached, the processes end with the command's timeout.
    let room = room_with(|settings| settings.limits.tasks = 5_000);
    let output = room.input(json!({"command": format!("echo $$ >group; {DOUBLES}"), "timeout": 1_000})).await;
    assert_eq!(output.details["timed_out"], true, "{}", output.content);
    assert!(group_is_empty(room.pids("group")[0]));
}

/// 400 processes, each in a session of its own. They end by themselves after 30 seconds.
const SESSIONS: &str =
    "for i in $(seq 400); do setsid sleep 30 </dev/null >/dev/null 2>&1 & done; wait; sleep 30";

#[tokio::test]
async fn sessions_of_their_own_are_no_way_around_the_limit() {
    let _crowd = CROWD.lock().await;
    let limits = Limits { tasks: 100, ..Limits::default() };
    let room = room_with(|settings| settings.limits = limits);
    let output = room.sh(&format!("echo $$ >group; {SESSIONS}")).await;
    assert!(
        output.content.contains("[killed: it had more than 100 processes and threads"),
        "{}",
        output.content
    );
    assert!(group_is_empty(room.pids("group")[0]));
    // If the kernel enforces the limit by a control group, even processes that becket can no longer find are killed.
    let held = room.text("cat /proc/self/cgroup").await.contains("becket-");
    let room = room_with(|settings| settings.limits = limits);
    let bomb = "echo $$ >group; for i in $(seq 300); do (exec env -i setsid setsid sleep 31.7 </dev/null >/dev/null 2>&1 &) ; done; sleep 30";
    let output = room.input(json!({"command": bomb, "timeout": 20_000})).await;
    assert!(output.is_error, "{}", output.content);
    // All are killed at once, but the kernel needs a moment to remove the last ones.
    let deadline = Instant::now() + Duration::from_mins(1);
    while held && lives("31.7") {
        assert!(Instant::now() < deadline, "somebody is left");
        tokio::task::yield_now().await;
    }
    assert_eq!(room.text("echo next").await, "next");
}

/// True if a process with `word` among its arguments lives.
fn lives(word: &str) -> bool {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok())
        .any(|line| line.split('\0').any(|argument| argument == word))
}

/// True if no process of the group lives; zombies do not count.
fn group_is_empty(group: i32) -> bool {
    let lives = |stat: String| {
        let rest = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
        rest.get(2).is_some_and(|g| *g == group.to_string())
            && rest.first().is_some_and(|s| *s != "Z" && *s != "X")
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    !all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok()).any(lives)
}

#[tokio::test]
async fn memory_is_bounded() {
    let limits = Limits { memory_bytes: Some(200 << 20), ..Limits::default() };
    let room = room_with(|settings| settings.limits = limits);
    let output = room.input(json!({"command": "head -c 700000000 /dev/zero | tail -n 1 | tail -n 1; sleep 999", "timeout": 60_000})).await;
    assert!(
        output.content.ends_with("[killed: it used more than 200 MB of memory, the most a command may use]"),
        "{}",
        output.content
    );
    // The limit was on one command: the next one runs.
    assert_eq!(room.text("echo next").await, "next");
}

#[tokio::test]
async fn descriptors_are_bounded() {
    let room = room();
    assert_eq!(room.text("ulimit -n; ulimit -Hn; bash -c 'ulimit -n'").await, "4096\n4096\n4096");
    let room = room_with(|settings| settings.limits.open_files = 64);
    let open = "exec 2>/dev/null; for i in $(seq 100); do exec {fd}</dev/null || { echo full; exit; }; done; echo all";
    assert_ne!(room.text(open).await, "all");
}

#[tokio::test]
async fn printing_is_bounded() {
    let limits = Limits { output_bytes: 50 << 20, ..Limits::default() };
    let room = room_with(|settings| settings.limits = limits);
    for command in [
        "yes",
        "cat /dev/urandom",
        "head -c 200000000 /dev/zero | tr '\\0' x",
        "trap '' PIPE TERM; while :; do echo x; done & exec yes",
    ] {
        let output = room.sh(command).await;
        assert!(
            output.content.ends_with("[killed: it printed more than 50 MB, the most a command may print]"),
            "{command}: {}",
            output.content.lines().last().unwrap()
        );
        assert!(output.is_error && output.content.len() < 64 * 1024);
        assert!(output.spill.is_some());
    }
}

#[tokio::test]
async fn a_job_over_its_limit_says_so() {
    let limits = Limits { output_bytes: 1 << 20, ..Limits::default() };
    let room = room_with(|settings| settings.limits = limits);
    room.job("yes").await;
    let output = room.output(json!({"id": 1, "wait": 20_000})).await;
    assert!(
        output.content.contains("killed: it printed more than 1 MB"),
        "{}",
        output.content.lines().last().unwrap()
    );
}
