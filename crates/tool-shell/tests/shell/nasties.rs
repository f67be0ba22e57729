//! Hostile commands: each is bounded in time and output, leaves no process behind, and the next command still runs.

use crate::room::{CROWD, room_with};
use becket_tool_shell::Limits;
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

/// In each command, `@` is replaced by a long time to sleep, in seconds. The number is unique, so a leftover process can be
/// found by it. Each command has a timeout of 1.5 seconds.
const COMMANDS: &[&str] = &[
    "nohup sleep @ >/dev/null 2>&1 & echo a",
    "nohup sleep @ & echo a",
    "sleep @ & disown; echo a",
    "(sleep @ &) ; echo a",
    "(setsid sh -c 'setsid sleep @ &' &); echo a",
    "setsid -f sleep @; echo a",
    "python3 -c 'import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nos.chdir(\"/\"); os.execvp(\"sleep\", [\"sleep\", \"@\"])'",
    "exec 3>&1 4>&2; sleep @ & echo a",
    "exec 1>&- 2>&-; sleep @",
    "exec 0>&- 1>&- 2>&-; sleep @ & true",
    "exec sleep @",
    "trap '' TERM INT HUP QUIT; sleep @",
    "trap 'sleep @' TERM EXIT; sleep @",
    "(trap '' TERM; while :; do sleep 0.05; done) & sleep @",
    "kill -STOP $$; echo back",
    "sleep @ & kill -STOP $!; echo a",
    "sleep @ & kill -STOP $! $$",
    "kill -9 $$",
    "kill -SEGV $$",
    "while :; do :; done",
    "timeout 900 sleep @",
    "coproc sleep @; echo a",
    "mkfifo f; cat f & sleep @ > f & echo a",
    "mkfifo g; cat g",
    "cat <(sleep @)",
    "bash -ic 'sleep @ & exit'",
    "script -qc 'sleep @' /dev/null </dev/null",
    "chroot / sleep @",
    "chroot /nonexistent true",
    "unshare -p -f sleep @",
    "mkdir gone; cd gone; rmdir ../gone; sleep 0.1; echo a",
    "mkdir here; cd here; mv ../here ../there; pwd -P; sleep 0.1",
    "rm -rf \"$PWD\"; echo a",
    "chmod 000 .; sleep 0.1",
    "head -c 100000000 /dev/zero",
    "yes $'\\e[2J\\e]0;title\\a\\r'",
    "yes | tr -d '\\n'",
    "cat /dev/urandom",
    "while :; do printf '\\r%s' $RANDOM; done",
    "ulimit -f 0; echo x > f; echo a",
    "exit 300",
    "exec nothing-like-this",
    "eval \"$(printf '(%.0s' $(seq 2000))\"",
    "f() { f; }; f",
    "LD_PRELOAD=/nonexistent.so true; PATH= true; unset PATH; true",
    "set -e; set -u; $UNSET_VARIABLE; echo a",
    "exec 2>/dev/full >/dev/full; echo a",
    "at now </dev/null; batch </dev/null; crontab -l; true",
];

#[tokio::test]
async fn whatever_a_command_does_it_is_bounded_and_nobody_is_left() {
    let _crowd = CROWD.lock().await;
    let mut wrong = Vec::new();
    for (number, commands) in COMMANDS.chunks(8).enumerate() {
        let calls = commands.iter().enumerate().map(|(i, command)| async move {
            let seconds = format!("87{number}{i}1.5");
            let command = command.replace('@', &seconds);
            let limits = Limits { output_bytes: 20 << 20, tasks: 200, ..Limits::default() };
            let mut room = room_with(|settings| settings.limits = limits);
            // Each command gets its own directory, because some delete or lock it.
            std::fs::create_dir(room.env.cwd.join("own")).unwrap();
            room.env.cwd = room.env.cwd.join("own");
            let begun = Instant::now();
            let output = room.input(json!({"command": command, "timeout": 1_500})).await;
            let took = begun.elapsed();
            let lines = room.tools.shell.end_jobs().await;
            let left = lives(&seconds).await;
            let mut fail = Vec::new();
            if took > Duration::from_secs(40) {
                fail.push(format!("took {took:?}"));
            }
            if output.content.len() > 64 * 1024
                || output.content.contains('\u{1b}')
                || output.content.contains('\0')
            {
                fail.push(format!("{} bytes", output.content.len()));
            }
            if left {
                fail.push(format!("is left; jobs: {lines:?}"));
            }
            // A command may remove or lock its folder, which is the user's to repair; here the test does it. Only root can
            // enter a locked folder.
            let _ = std::fs::create_dir(&room.env.cwd);
            let _ = std::fs::set_permissions(&room.env.cwd, Permissions::from_mode(0o700));
            let next = room.text("echo next").await;
            if !next.lines().any(|line| line == "next") {
                fail.push(format!("then: {next}"));
            }
            fail.into_iter().map(|why| format!("{command}: {why}\n{}", output.content)).collect::<Vec<_>>()
        });
        wrong.extend(futures::future::join_all(calls).await.concat());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n---\n"));
}

/// True if a process with this time to sleep still lives. Waits up to five seconds for the last ones to exit.
async fn lives(seconds: &str) -> bool {
    for _ in 0..100 {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
        if !lines.into_iter().any(|line| line.split('\0').any(|word| word == seconds)) {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    true
}

#[tokio::test]
async fn a_command_does_not_end_whoever_runs_it() {
    let room = room_with(|_| {});
    for command in ["kill -9 $PPID", "kill -TERM \"$PPID\"", "kill -STOP ${PPID}"] {
        let output = room.sh(command).await;
        assert!(output.is_error, "{command}: {}", output.content);
    }
    assert_eq!(room.text("echo next").await, "next");
}
