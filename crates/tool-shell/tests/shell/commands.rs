//! One command at a time: what comes back, what is left running, what is kept.

use crate::room::{elsewhere, ended, line_with, room, room_with};
use becket_tool::testing::TestHost;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn what_the_model_reads() {
    let room = room();
    for (command, content, code) in [
        ("echo hello", "hello", 0),
        ("true", "(no output)", 0),
        ("false", "(no output)\n[exit code 1]", 1),
        ("echo out; echo err >&2; echo out2", "out\nerr\nout2", 0),
        ("printf 'a\\n\\n  b'", "a\n\n  b", 0),
        ("printf '10%%\\r50%%\\r100%%\\n'", "100%", 0),
        ("printf '\\033[31mred\\033[0m\\007'", "red", 0),
        ("printf '\\377\\376ok'", "\u{fffd}\u{fffd}ok", 0),
        ("cat; read x; echo \"eof $?\"", "eof 1", 0),
        ("cat <<'X'\n$HOME `a`\nX", "$HOME `a`", 0),
        ("echo a # comment", "a", 0),
        ("set -e; false; echo never", "(no output)\n[exit code 1]", 1),
        ("trap 'echo bye' EXIT; exit 3", "bye\n[exit code 3]", 3),
        ("set -x; echo a", "++ echo a\na", 0),
        ("echo $0 $# $1", "bash 0", 0),
        ("exec echo replaced", "replaced", 0),
        ("cd /nowhere/at/all 2>/dev/null || echo no", "no", 0),
        ("kill -KILL $$", "(no output)\n[ended by signal 9 (SIGKILL)]", -1),
        ("bash -c 'kill -KILL $$'; exit $?", "[exit code 137, as after SIGKILL]", 137),
        ("\nnot-a-program", "bash: line 2: not-a-program: command not found\n[exit code 127]", 127),
    ] {
        let output = room.sh(command).await;
        let exit = output.details["exit_code"].as_i64().unwrap_or(-1);
        // If a child was killed, the shell prints a line of its own before becket's, with the child's number.
        let told =
            if code == 137 { output.content.lines().last().unwrap_or_default() } else { &output.content };
        assert_eq!((told, exit, output.is_error), (content, code, code != 0), "{command}");
    }
    let output = room.sh("echo 'unclosed").await;
    assert!(output.is_error && output.content.contains("unexpected EOF"), "{}", output.content);
    assert_eq!(output.excerpt_lines, 5);
}

#[tokio::test]
async fn commands_run_where_the_spill_folder_cannot_be_made() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let room = room_with(|s| {
        s.spill.dir = Some(file.path().join("spill"));
        s.spill.others = vec!["/proc/nowhere".into(), elsewhere.path().to_owned()];
    });
    let long = format!("echo {}", "x".repeat(200_000));
    for (command, content) in [("echo a", "a"), ("mkdir d; cd d; echo b", "b"), ("basename \"$PWD\"", "d")] {
        assert_eq!(room.text(command).await.lines().next(), Some(content), "{command}");
    }
    assert!(room.text(&long).await.contains("xxx"), "a long command needs no file");
    drop(room);
    let left: Vec<_> = std::fs::read_dir(elsewhere.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn files_of_commands_lie_in_a_private_folder_with_a_name_that_nobody_can_prepare() {
    use std::os::unix::fs::PermissionsExt as _;
    let shared = tempfile::tempdir().unwrap();
    let one = || {
        room_with(|s| {
            s.spill.dir = None;
            s.spill.others = vec![shared.path().to_owned()];
        })
    };
    let rooms = [one(), one()];
    for room in &rooms {
        assert_eq!(room.text("echo a").await, "a");
    }
    let folders: Vec<_> = std::fs::read_dir(shared.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(folders.len(), 2, "{folders:?}");
    for folder in folders {
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{folder:?}");
    }
}

#[tokio::test]
async fn every_exit_code_and_signal() {
    let room = room();
    for code in 0..=255 {
        let details = room.sh(&format!("exit {code}")).await.details;
        assert_eq!((&details["exit_code"], &details["signal"]), (&json!(code), &Value::Null));
    }
    // SIGQUIT is left out, because shells ignore it. A signal that was ignored when the tests were started, as in the
    // background of a script, is ignored in the command, too.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
    let ignored = u64::from_str_radix(mask, 16).unwrap();
    for signal in [1, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15] {
        if ignored & (1 << (signal - 1)) != 0 {
            println!("signal {signal} is ignored by who began this; skipped");
            continue;
        }
        let details = room.sh(&format!("ulimit -c 0; kill -{signal} $$")).await.details;
        assert_eq!((&details["exit_code"], &details["signal"]), (&Value::Null, &json!(signal)));
    }
}

#[tokio::test]
async fn bad_input_is_answered() {
    let room = room();
    for (input, want) in [
        (json!({}), "command"),
        (json!({"command": "  "}), "empty"),
        (json!({"command": "a\0b"}), "NUL"),
        (json!({"command": "true", "timeout": 0}), "`timeout`"),
        (json!({"command": "true", "workdir": "none"}), "does not exist"),
        (json!({"command": 7, "timeout": "soon"}), "`timeout`"),
        (json!({"command": ["ls"]}), "`command`"),
        (json!({"command": "touch ran", "timeout": -1}), "`timeout`"),
        (json!({"command": "touch ran", "workdir": 7}), "does not exist"),
        (json!({"command": "touch ran", "workdir": ["."]}), "`workdir`"),
        (json!({"command": "touch ran", "background": "later"}), "now, on_timeout"),
        (json!({"command": "touch ran", "background": 2}), "`background`"),
        (json!({"command": "touch ran", "pty": "perhaps"}), "`pty`"),
        (json!({"command": "touch ran", "input": {}}), "`input`"),
        (json!({"command": "touch ran", "unknown": 1}), "unknown field `unknown`"),
        (json!("touch ran"), "Invalid input for bash"),
        (json!({"command": "vim file"}), "waits for keys"),
        (json!({"command": "pkill -f shell"}), "would end this session's own process"),
        (
            json!({"command": format!("kill -9 {}", std::process::id())}),
            "would end this session's own process",
        ),
    ] {
        let output = room.input(input).await;
        assert!(output.is_error && output.content.contains(want), "{}", output.content);
    }
    assert!(!room.root.join("ran").exists(), "nothing was done");
    // Lenient input is accepted: numbers as text, other agents' names of arguments, a timeout beyond the limit.
    for input in [
        json!({"cmd": "echo x", "timeout": "5000", "restart": null}),
        json!({"command": "echo x", "timeout": 1e300}),
        json!({"command": "echo x", "run_in_background": false, "description": "says x"}),
    ] {
        assert_eq!(room.input(input).await.content, "x");
    }
    let long = format!("echo {} | wc -c", "x".repeat(300_000));
    assert_eq!(room.text(&long).await, "300001");
    // Characters of several bytes stay whole where the command is divided, and no file is made for it.
    let long = format!(
        "printf %s {} | wc -m; ls '{}'",
        "äß€".repeat(60_000),
        room.dir.path().join("spill").display()
    );
    assert_eq!(room.text(&long).await, "180000");
    let longer = room.sh(&format!("echo {}", "x".repeat(1 << 20))).await;
    assert!(longer.is_error && longer.content.contains("longer than 1 MB"), "{}", longer.content);
}

#[tokio::test]
async fn no_terminal_no_secrets_a_session_of_its_own() {
    let room = room();
    assert_eq!(room.text("[ \"$(cut -d' ' -f6 /proc/$$/stat)\" = $$ ] && [ \"$(cut -d' ' -f5 /proc/$$/stat)\" = $$ ] && echo own").await, "own");
    assert!(room.sh("exec 3</dev/tty").await.is_error);
    let environment = room.text("env; cat /proc/self/environ | tr '\\0' '\\n'").await;
    assert!(!environment.contains("canary-123") && !environment.contains("BECKET_COMMAND"), "{environment}");
    for line in ["PLAIN=x", "GIT_TERMINAL_PROMPT=0", "PAGER=cat", "NO_COLOR=1", "TERM=dumb"] {
        assert!(environment.lines().any(|l| l == line), "{line}");
    }
    // The command inherits no descriptor of becket: `ls` sees as many as in any other program that the tests start.
    let listing = std::process::Command::new("ls").arg("/proc/self/fd").output().unwrap().stdout;
    let usual = String::from_utf8(listing).unwrap().lines().count().to_string();
    assert_eq!(room.text("ls /proc/self/fd | wc -l").await, usual);
    // A pattern that is in the command does not find the shell that runs the command.
    assert_eq!(room.text("pkill -f some-unlikely-pattern-7; echo alive").await, "alive");
}

#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    let room = room();
    let command = "setsid sleep 999 & echo $! >>pids
        (setsid bash -c 'echo $$ >>pids; exec sleep 999' &)
        env -i setsid sleep 999 & echo $! >>pids
        echo $$ >>pids; echo started; sleep 999";
    let output = room.input(json!({"command": command, "timeout": 2_000})).await;
    assert_eq!(output.details["timed_out"], true);
    assert!(output.is_error && output.interrupted);
    assert!(output.content.starts_with("started\n[timed out after 2 s;"), "{}", output.content);
    let pids = room.pids("pids");
    assert_eq!(pids.len(), 4);
    assert!(pids.iter().all(|pid| ended(*pid)));
}

#[tokio::test]
async fn who_ignores_term_is_killed() {
    let room = room();
    let command = "trap '' TERM; echo $$ >pids; sleep 999 & echo $! >>pids; while :; do wait; done";
    let output = room.input(json!({"command": command, "timeout": 1_000})).await;
    assert_eq!(output.details["timed_out"], true);
    assert!(room.pids("pids").into_iter().all(ended));
    let took = output.details["duration_ms"].as_u64().unwrap();
    assert!(took >= 3_000, "TERM gets its two seconds: {took}");
}

#[tokio::test]
async fn an_interrupt_stops_what_runs() {
    let mut room = room();
    let cancel = room.env.cancel.clone();
    room.env.progress = Arc::new(move |chunk| {
        if chunk.contains("ready") {
            cancel.cancel();
        }
    });
    let output = room.sh("echo $$ >pids; echo ready; sleep 999").await;
    // Between the two lines, bash may report that it cannot start processes any more.
    let said = output.content.starts_with("ready\n") && output.content.contains("\n[interrupted after");
    assert!(output.interrupted && said, "{}", output.content);
    assert!(room.pids("pids").into_iter().all(ended));
    assert!(room.sh("echo again").await.interrupted);
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing() {
    let mut room = room();
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
    room.env.progress = Arc::new(move |_| {
        let _ = send.send(());
    });
    {
        let call = room.sh("echo $$ >pids; echo ready; sleep 999");
        tokio::select! {
            _ = call => panic!("it sleeps"),
            _ = receive.recv() => {}
        }
    }
    assert!(room.pids("pids").into_iter().all(ended));
}

#[tokio::test]
async fn the_working_directory_is_kept() {
    let room = room();
    let root = room.root.display().to_string();
    let at = |text: &str, dir: &str| {
        format!("{text}\n[working directory is now {dir}; paths of other tools still start in {root}]")
    };
    std::fs::create_dir_all(room.root.join("a b/c")).unwrap();
    assert_eq!(room.text("cd 'a b'").await, at("(no output)", "a b"));
    assert_eq!(room.text("pwd").await, format!("{}/a b", room.root.display()));
    assert_eq!(room.text("cd c; false").await, at("(no output)\n[exit code 1]", "a b/c"));
    assert_eq!(room.text("(cd /; pwd)").await, "/");
    let output = room.input(json!({"command": "pwd", "workdir": "../.."})).await;
    assert_eq!(output.content, room.root.display().to_string());
    assert_eq!(room.text("basename \"$PWD\"").await, "c");
    let away = room.text("cd /").await;
    assert!(
        away.contains("[/ is outside of the session's directories; the next command starts in"),
        "{away}"
    );
    assert_eq!(room.text("basename \"$PWD\"").await, "c");
    let gone = room.text("rmdir \"$PWD\"").await;
    assert!(gone.contains("is gone; the next command starts in"), "{gone}");
    assert_eq!(room.text("pwd").await, room.root.display().to_string());

    room.sh("cd 'a b'").await;
    std::fs::remove_dir(room.root.join("a b")).unwrap();
    let output = room.sh("touch ran").await;
    assert!(
        output.is_error && output.content.contains("is gone; the command was not run"),
        "{}",
        output.content
    );
    assert_eq!(room.text("ls").await, "(no output)");
    std::fs::remove_dir(&room.root).unwrap();
    assert!(room.text("pwd").await.contains("Give another one as `workdir`"));
}

/// A command can find the file of its working directory, and put there what it likes. becket takes only the name of a directory
/// from it, and reading it ends.
#[tokio::test]
async fn the_file_of_the_working_directory_leads_to_no_other_file() {
    let room = room();
    let secret = room.dir.path().join("secret");
    std::fs::write(&secret, "/SECRET\n").unwrap();
    std::fs::create_dir(room.dir.path().join("outside")).unwrap();
    std::os::unix::fs::symlink(room.dir.path().join("outside"), room.root.join("way")).unwrap();
    let name = "f=$(tr '\\0' '\\n' </proc/$$/cmdline | grep -o \"'/[^']*/cwd-[0-9a-f]*'\" | head -n 1 | tr -d \"'\")";
    let (secret, root) = (secret.display(), room.root.display());
    for attack in [
        format!("ln -s '{secret}' \"$f\""),
        format!("ln '{secret}' \"$f\""),
        "mkfifo \"$f\"".to_owned(),
        "ln -s /dev/zero \"$f\"".to_owned(),
        format!("echo '{root}/way' >\"$f\""),
        format!("echo '{root}/../outside' >\"$f\""),
        "echo SECRET >\"$f\"".to_owned(),
    ] {
        // The shell itself is ended, so that nothing is written after the attack.
        let output = room.text(&format!("{name}; [ -n \"$f\" ] && {attack} && kill -9 $$")).await;
        assert!(output.contains("[ended by signal 9"), "{attack}: {output}");
        assert!(!output.contains("SECRET"), "{attack}: {output}");
        assert_eq!(room.text("pwd").await, root.to_string(), "{attack}");
    }
    let left = std::fs::read_dir(room.dir.path().join("spill")).unwrap().count();
    assert_eq!(left, 0, "the files are gone");
}

/// becket's own script around a command writes one file after it. The command runs in the same shell, so each of its variables and
/// parameters belongs to the command.
#[tokio::test]
async fn no_variable_of_a_command_chooses_the_file_that_is_written_after_it() {
    let room = room();
    std::fs::create_dir(room.root.join("d")).unwrap();
    let mine = room.root.join("mine");
    std::fs::write(&mine, "as it was").unwrap();
    let target = mine.display();
    let set = room.text("set -o posix; set").await;
    let names = set.lines().filter_map(|line| Some(line.split_once('=')?.0)).filter(|name| {
        let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
    let names: Vec<&str> = names.chain(["__at", "__status", "__run", "BECKET_COMMAND"]).collect();
    assert!(names.len() > 20, "{set}");
    let mut commands = vec![format!("set -- '{target}' '{target}' '{target}' '{target}'")];
    commands.extend(names.iter().map(|name| format!("{name}='{target}'")));
    commands.extend(names.iter().map(|name| format!("export {name}='{target}'")));
    commands.push(format!("for name in {}; do readonly \"$name='{target}'\"; done", names.join(" ")));
    let folder = room.root.join("d");
    for command in commands {
        // The output is not checked, because some of the names are constants of the shell, and their commands fail.
        room.text(&format!("{command}; cd '{}'", folder.display())).await;
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "as it was", "{command}");
    }
    assert_eq!(room.text("pwd").await, folder.display().to_string());
    // The shell's own status is what the model reads, also with the names that the script once used.
    assert!(room.text("readonly __status=0; (exit 7)").await.ends_with("[exit code 7]"));
    assert_eq!(room.text("trap 'echo cleaned' EXIT; true").await, "cleaned");
}

#[tokio::test]
async fn a_long_output_is_cut_in_the_middle_and_kept_whole() {
    let room = room();
    let output = room.sh("seq 1 200000").await;
    let whole = (1..=200_000).map(|i| i.to_string()).collect::<Vec<_>>().join("\n") + "\n";
    let blob = room.host.kept().blobs[output.spill.as_ref().unwrap().as_str()].clone();
    assert!(blob == whole.as_bytes());
    assert_eq!(output.details["bytes"], whole.len());
    let (head, rest) = output.content.split_once("\n[… ").unwrap();
    let (account, tail) = rest.split_once(" …]\n").unwrap();
    assert!(whole.starts_with(head) && whole.trim_end().ends_with(tail));
    assert!(
        head.len() <= 10 * 1024 && tail.len() <= 20 * 1024 && head.ends_with(|c: char| c.is_ascii_digit())
    );
    let (head, tail) = (head.len() + 1, tail.len() + 1);
    let left = &whole[head..whole.len() - tail];
    let numbers: Vec<usize> =
        account.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    assert_eq!(numbers[..2], [left.len(), left.lines().count()], "{account}");
    // If the model sees cleaned output, the raw bytes are kept; if the model sees everything, nothing is kept.
    let output = room.sh("printf '\\033[1mx\\033[0m'").await;
    assert_eq!(room.host.kept().blobs[output.spill.unwrap().as_str()], b"\x1b[1mx\x1b[0m");
    assert_eq!(room.sh("echo x").await.spill, None);
}

#[test]
fn memory_is_bounded_whatever_is_printed() {
    let (mut child, mut out) = elsewhere("commands::helper_prints_without_end");
    let peaks: Vec<i64> =
        line_with(&mut out, "peaks:").split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert!(child.wait().unwrap().success());
    assert!(peaks.iter().all(|kb| *kb <= 8 * 1024), "kB above the start: {peaks:?}");
}

/// Takes spilled outputs without keeping them.
struct Sink(Arc<TestHost>);

impl becket_tool::Host for Sink {
    fn put_blob(&self, bytes: &[u8]) -> Result<becket_types::BlobId, String> {
        Ok(becket_types::BlobId(bytes.len().to_string()))
    }
    fn put_blob_from(&self, reader: &mut dyn std::io::Read) -> Result<becket_types::BlobId, String> {
        let n = std::io::copy(reader, &mut std::io::sink()).map_err(|e| e.to_string())?;
        Ok(becket_types::BlobId(n.to_string()))
    }
    fn get_blob(&self, _: &becket_types::BlobId) -> Option<Vec<u8>> {
        None
    }
    fn note_read(&self, _: &std::path::Path, _: &str) {}
    fn read_hash(&self, _: &std::path::Path) -> Option<String> {
        None
    }
    fn state(&self, key: &str) -> Option<Value> {
        self.0.state(key)
    }
    fn set_state(&self, key: &str, value: Value) {
        self.0.set_state(key, value);
    }
    fn original_output(&self, _: &becket_types::CallId) -> Option<(String, String)> {
        None
    }
}

fn peak_kb() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
#[ignore = "run by memory_is_bounded_whatever_is_printed"]
async fn helper_prints_without_end() {
    let mut room = room_with(|settings| settings.limits.output_bytes = u64::MAX);
    room.env.host = Arc::new(Sink(Arc::clone(&room.host)));
    room.env.progress = Arc::new(|_| {});
    room.sh("echo warm").await;
    let start = peak_kb();
    let mut peaks = Vec::new();
    for command in [
        "yes",
        "cat /dev/zero",
        "yes 0123456789012345678901234567890123456789012345678901234567890123 | tr -d '\\n'",
    ] {
        let output = room.input(json!({"command": command, "timeout": 1_000})).await;
        assert_eq!(output.details["timed_out"], true);
        assert!(output.content.len() < 32 * 1024);
        let (bytes, ms) =
            (output.details["bytes"].as_f64().unwrap(), output.details["duration_ms"].as_f64().unwrap());
        println!("rate: {command:.10} {:.0} MB/s, blob {:?}", bytes / ms / 1000.0, output.spill);
        peaks.push(peak_kb() - start);
    }
    println!("\npeaks:{}", peaks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
}

#[tokio::test]
async fn progress_comes_while_the_command_runs() {
    let mut room = room();
    let fifo = room.root.join("go");
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = Arc::clone(&done);
    room.env.progress = Arc::new(move |chunk| {
        if chunk.contains("first") && !seen.swap(true, std::sync::atomic::Ordering::SeqCst) {
            // The command waits at the pipe, so it can only end if the progress arrived while it ran.
            std::fs::write(&fifo, "x\n").unwrap();
        }
    });
    let output = room
        .input(json!({"command": "mkfifo go; echo first; read x <go; echo second", "timeout": 20_000}))
        .await;
    assert_eq!(output.content, "first\nsecond");
    assert!(done.load(std::sync::atomic::Ordering::SeqCst));
    assert_eq!(std::fs::read_dir(room.dir.path().join("spill")).unwrap().count(), 0);
}

#[tokio::test]
#[ignore = "a measurement: what one call costs"]
async fn measure_calls() {
    let room = room();
    room.sh("true").await;
    let start = std::time::Instant::now();
    for _ in 0..200 {
        room.sh("true").await;
    }
    let ours: Duration = start.elapsed() / 200;
    let start = std::time::Instant::now();
    for _ in 0..200 {
        std::process::Command::new("bash").args(["-c", "true"]).output().unwrap();
    }
    println!("a call {ours:?}, bash alone {:?}", start.elapsed() / 200);
}

#[tokio::test]
#[ignore = "a measurement: how long a call is held by what goes on in the background"]
async fn measure_daemons() {
    let room = room();
    for command in [
        "true",
        "sleep 999 &",
        "nohup sleep 999 &",
        "setsid sleep 999 &",
        "sleep 999 >/dev/null 2>&1 &",
        "yes &",
    ] {
        let start = std::time::Instant::now();
        let output = room.sh(command).await;
        println!("{:>6.1?} {command} (job {})", start.elapsed(), output.details["job"]);
        room.tools.shell.end_jobs().await;
    }
}
