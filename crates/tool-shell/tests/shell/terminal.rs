//! Programs that need a terminal.

use crate::room::{Room, room};
use serde_json::json;
use std::time::{Duration, Instant};

async fn pty(room: &Room, command: &str, input: &str) -> String {
    room.input(json!({"command": command, "pty": true, "input": input, "timeout": 120_000})).await.content
}

#[tokio::test]
async fn it_is_a_terminal_and_what_is_typed_arrives() {
    let room = room();
    assert_eq!(
        pty(&room, "test -t 0 && test -t 1 && test -t 2 && tty | cut -c1-9 && stty size", "").await,
        "/dev/pts/\n40 120"
    );
    // Typed input is echoed, as in any terminal.
    assert_eq!(pty(&room, "read x; echo \"got $x\"", "hello\n").await, "hello\ngot hello");
    assert_eq!(pty(&room, "read x </dev/tty; echo \"got $x\"", "hello\n").await, "hello\ngot hello");
    assert_eq!(pty(&room, "cat; echo end", "text\n\u{4}").await, "text\ntext\nend");
    assert_eq!(pty(&room, "exit 4", "").await, "(no output)\n[exit code 4]");
    // If no terminal is asked for, the command has none.
    assert_eq!(room.text("test -t 0 || test -t 1 || echo none").await, "none");
    // The environment has no secrets, and the command runs in a session of its own.
    assert!(!pty(&room, "env", "").await.contains("canary-123"));
    assert_eq!(
        pty(&room, "[ \"$(cut -d' ' -f6 /proc/$$/stat)\" = $$ ] && echo own; echo $TERM", "").await,
        "own\nxterm-256color"
    );
}

#[tokio::test]
async fn a_job_in_a_terminal_takes_input_later() {
    // becket handles this signal, too. If the tests were started with the signal ignored, commands would inherit that.
    let _heard = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).unwrap();
    let room = room();
    let command = "stty -echo; printf 'name? '; read n; printf 'age? '; read a; trap 'echo interrupted; exit 5' INT; echo \"$n is $a\"; sleep 999";
    room.input(json!({"command": command, "pty": true, "background": "now"})).await;
    let deadline = Instant::now() + Duration::from_mins(2);
    // Each look returns only new output, so collect all of it.
    let mut told = String::new();
    while !told.contains("name?") {
        told.push_str(&room.output(json!({"id": 1})).await.content);
        assert!(Instant::now() < deadline, "{told}");
    }
    // On a busy machine, the answer to what is typed may come with a later look.
    for (typed, answer) in [("Ann\n", "age?"), ("7\n", "Ann is 7")] {
        let mut told = room.output(json!({"id": 1, "input": typed})).await.content;
        while !told.contains(answer) {
            assert!(Instant::now() < deadline, "{told}");
            told = room.output(json!({"id": 1})).await.content;
        }
        assert!(told.starts_with(&format!("{answer}\n[job 1 running")), "{told}");
    }
    // Keys that are signals are signals. Bash loses one that comes while it starts a program; a person presses again.
    let mut output = String::new();
    while !output.contains("[job 1 finished") {
        assert!(Instant::now() < deadline, "{output}");
        output = room.output(json!({"id": 1, "input": "\u{3}", "wait": 5_000})).await.content;
    }
    assert!(
        output.starts_with("interrupted\n[job 1 finished") && output.ends_with("exit code 5]"),
        "{output}"
    );
    let output = room.output(json!({"id": 1, "input": "x"})).await;
    assert!(output.is_error && output.content.contains("it has ended"), "{}", output.content);
}

#[tokio::test]
async fn what_is_drawn_is_shown_as_it_stands() {
    let room = room();
    let drawn = "printf '\\033[2J\\033[Hfirst\\033[3;3Hthird\\033[1;1HFIRST'";
    assert_eq!(pty(&room, drawn, "").await, "FIRST\n\n  third");
    assert_eq!(pty(&room, "printf '10%%\\r50%%\\r100%%\\n'; echo done", "").await, "100%\ndone");
    if std::path::Path::new("/usr/bin/vim").exists() {
        std::fs::write(room.root.join("a.txt"), "old\n").unwrap();
        let output = pty(&room, "vim -u NONE a.txt", "ccnew\u{1b}:wq\n").await;
        assert!(!output.contains("timed out"), "{output}");
        assert_eq!(std::fs::read_to_string(room.root.join("a.txt")).unwrap(), "new\n");
    }
}

#[tokio::test]
async fn too_much_to_type_is_refused() {
    let room = room();
    let output = room.input(json!({"command": "cat", "input": "x".repeat(70_000)})).await;
    assert!(output.is_error && output.content.contains("longer than"), "{}", output.content);
}
