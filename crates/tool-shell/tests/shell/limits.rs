//! What one command may take of the machine.

use crate::room::{room, room_with};
use becket_tool_shell::Limits;
use serde_json::json;

#[tokio::test]
async fn a_fork_bomb_is_bounded() {
    let limits = Limits { tasks: 100, ..Limits::default() };
    let room = room_with(|settings| settings.limits = limits);
    // Harmless by itself if nothing stopped it: ten seconds, at most a few thousand.
    let bomb = "for i in $(seq 1500); do sleep 10 & done; echo all; wait";
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
    // What is only reserved is no use of it.
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
