//! Commands that wait for somebody to type: end of file or failure, at once.

use crate::room::room;
use serde_json::json;
use std::time::Duration;

/// Each reads stdin or the terminal. Programs that are not installed are left out, and counted.
const COMMANDS: &[&str] = &[
    "cat",
    "cat -",
    "cat /dev/stdin",
    "cat </dev/tty",
    "read x",
    "read -p 'sure? ' x",
    "read -s x",
    "read x </dev/tty",
    "head -1",
    "tail -1",
    "tail -f",
    "sort",
    "uniq",
    "wc",
    "tee out",
    "xargs echo",
    "grep x",
    "sed p",
    "awk '{print}'",
    "tr a b",
    "cut -c1",
    "bc",
    "dc",
    "ed",
    "less",
    "more",
    "vi",
    "vim",
    "vim -",
    "nano",
    "emacs -nw",
    "man ls",
    "bash",
    "bash -i",
    "sh",
    "dash",
    "python3",
    "python3 -i",
    "python3 -c 'input()'",
    "python3 -c 'import getpass; getpass.getpass()'",
    "node",
    "node -i",
    "perl",
    "perl -e '<STDIN>'",
    "ruby",
    "irb",
    "php",
    "lua",
    "gdb",
    "sqlite3",
    "psql",
    "psql -h localhost -W",
    "mysql -p",
    "redis-cli",
    "sudo true",
    "sudo -S true",
    "su nobody -c true",
    "passwd",
    "login",
    "ssh nobody@localhost",
    "ssh -tt localhost",
    "ssh-keygen",
    "ssh-keygen -f key",
    "ssh-add",
    "scp localhost:/none .",
    "sftp localhost",
    "ftp",
    "telnet",
    "git commit",
    "git commit --amend",
    "git rebase -i HEAD",
    "git add -p",
    "git clone https://localhost:1/none",
    "git clone ssh://localhost:1/none",
    "npm init",
    "npm login",
    "rm -i file",
    "cp -i file other",
    "mv -i file other",
    "dialog --yesno x 5 20",
    "whiptail --yesno x 5 20",
    "select x in a b; do break; done",
    "openssl passwd",
    "openssl genrsa -aes256",
    "gpg --gen-key",
    "apt-get install -s nothing-such",
    "docker login",
    "tmux",
    "screen",
    "top",
    "htop",
    "watch ls",
    "mail",
    "at now",
    "crontab -",
    "stty size",
    "tput lines",
    "timeout 20 cat",
    "env cat",
    "nohup cat",
    "setsid cat",
    "cat | cat",
    "(cat)",
    "cat & wait",
    "exec cat",
];

#[tokio::test]
async fn nobody_waits_for_input() {
    let room = room();
    room.sh("git init -q . ; touch file other").await;
    let mut tried = 0;
    for command in COMMANDS {
        let program = command.trim_start_matches('(').split([' ', ')']).next().unwrap();
        // These wait for other things than input: time passing, files that grow.
        if ["tail -f", "watch ls"].contains(command) {
            continue;
        }
        if room.sh(&format!("type {program}")).await.is_error {
            continue;
        }
        tried += 1;
        // A command that waits for input waits for ever. On a busy machine, a large program needs many seconds to load, so
        // the limit only ends a test that has failed.
        let output = room.input(json!({"command": command, "timeout": 180_000})).await;
        let took = Duration::from_millis(output.details["duration_ms"].as_u64().unwrap_or_default());
        assert_ne!(output.details["timed_out"], true, "{command} waits: {}", output.content);
        println!("{took:>10.0?} {command}");
    }
    assert!(tried >= 40, "only {tried} of {} are installed", COMMANDS.len());
    println!("{tried} tried");
    room.job("cat; read x; touch over").await;
    room.appears("over").await;
}
