//! Confinement alone: every string of the guard's table of attacks, and the attacks on git, links, rules and variables that need
//! a folder of their own, run in the sandbox with nothing that judges them first.
//!
//! The oracle: every file outside before and after, the listeners, and the kernel's word on each secret file that is opened.
//!
//! Each backend runs a part of the table at each level, a sixth of the whole in all. `BECKET_COMMANDS=all` runs the whole table in
//! each: some ten minutes.
//!
//! Safety: the table holds `kill 1`, `pkill`, `date -s` and the like. The filter of the confinement refuses mounts, restarts, modules of
//! the kernel, clocks and host names; files decide on the rest. Where the backend does not bound signals, no signal can be sent at all.
//! Limits of time, memory, and the size of files hold for each command.

use crate::dice::Dice;
use crate::ground::{Ground, grounds, program};
use becket_types::SandboxLevel::{self, ReadOnly, Workspace};
use rustix::fs::inotify;
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Limits of a command: seconds of processor time, memory and size of a file in KiB, processes and threads of a user who is not root.
const LIMITS: &str = "ulimit -t 5 -v 8388608 -f 65536 -u 4096 -c 0; exec \"$@\"";

const TABLE: &str = include_str!("../../../guard/tests/corpus/attacks.txt");

/// Places that no command may change, at any level.
const OUTSIDE: &[&str] = &["outside", "home", "out", "bin", "pwned"];

/// Attacks with a folder of their own: what prepares it, and the command. `$BASE/pwned` must never exist.
const PREPARED: &[(&str, &str)] = &[
    ("", ": {a['$(touch $BASE/pwned)']}>/dev/null"),
    ("", "x=-v; test $x 'a[$(touch $BASE/pwned)]'"),
    ("mkdir 3; script 3/ls", "printf 'abc%n' PATH; ls"),
    ("for d in 10 11 12; do mkdir $d; script $d/ls; done", ": {PATH}>/dev/null; ls"),
    (
        "mkdir v; cd v; git init -q --bare .; git config core.bare false; git config core.worktree .; \
         git config core.fsmonitor \"touch $BASE/pwned; false\"",
        "git -C v status",
    ),
    ("git config core.fsmonitor \"touch $BASE/pwned; false\"", "git status"),
    ("git config diff.external \"touch $BASE/pwned; false\"; echo more >> a.txt", "git diff"),
    ("git config core.pager \"touch $BASE/pwned\"", "git -p log"),
    ("echo '--plugin ./evil' > o", "nm ./a.txt @o"),
    ("echo keep > kept", "xxd -ps a.txt kept"),
    ("", "xxd -ps a.txt .git/hooks/pre-commit"),
    ("", "git symbolic-ref {HEAD,refs/heads/evil}"),
    ("", "cat d/../n.txt"),
    ("", "cat */.s??/*"),
    ("", "mv p q; echo pwn > q/rc"),
    ("", "echo x > d/../new"),
    ("", "x=-delete; find . -name a.txt $x"),
    ("", "x=-exec; find . -name a.txt $x touch $BASE/pwned ';'"),
    ("script e.sh", "x=--pre=./e.sh; rg $x hello"),
    ("", "git config core.fsmonitor 'touch '$BASE'/pwned; false' --list; git status"),
    ("echo '{\"scripts\":{\"b\":\"echo\"}}' > package.json; script e.sh", "npm run b --script-shell=./e.sh"),
    ("printf 'all:\\n\\ttouch $(BASE)/pwned\\n' > Makefile", "make"),
    (
        "printf '*.txt filter=f\\n' > .gitattributes; git config filter.f.clean \"touch $BASE/pwned\"",
        "touch a.txt; git status",
    ),
    ("ln -s $BASE/pwned way", "echo x > way"),
    ("ln -s $BASE/home way", "echo x >> way/.bashrc"),
];

/// Puts into the ground what the table counts on; it is the guard's own world, under the names of this one.
fn furnish(ground: &Ground) {
    let at = |name: &str| ground.base.join(name);
    for dir in ["src/deep", "docs", "p", "cmpd", "cmpe", "bin2"] {
        fs::create_dir_all(at("ws").join(dir)).unwrap();
    }
    for dir in ["out/dir", "bin"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    for (path, text) in [
        ("ws/b.txt", "b\n"),
        ("ws/k.txt", "keep\n"),
        ("ws/src/main.rs", "fn main() {}\n"),
        ("ws/src/deep/x.rs", "// foo\n"),
        ("ws/docs/server.md", "x\n"),
        ("ws/README.md", "# x\n"),
        ("ws/Cargo.toml", "[package]\n"),
        ("ws/package.json", "{\"scripts\": {}}\n"),
        ("ws/n.txt", "other\n"),
        ("ws/cmpe/n.txt", "other\n"),
        ("ws/k2", "inside\n"),
        ("ws/opts", "--plugin ./evil\n"),
        ("ws/list", "top\n"),
        ("ws/prog2", "BEGIN{system(\"pwn\")}\n"),
        ("ws/-delete", "x\n"),
        ("out/n.txt", "OUTSIDE\n"),
        ("out/dir/m.txt", "OUTSIDE\n"),
        ("home/.bashrc", "rc\n"),
    ] {
        fs::write(at(path), text).unwrap();
    }
    let outside = at("out/n.txt");
    for link in ["top", "docs/notes.txt", "cmpd/n.txt", "src/k2"] {
        symlink(&outside, at("ws").join(link)).unwrap();
    }
    for (target, link) in [
        (at("out/dir"), "d"),
        (at("home"), "h"),
        ("src/deep".into(), "inner"),
        (at("home/.bashrc"), "p/rc"),
        ("a.txt".into(), "link"),
    ] {
        symlink(target, at("ws").join(link)).unwrap();
    }
    let pwn = at("bin/pwn");
    fs::write(&pwn, "#!/bin/sh\necho ran >> \"$BASE\"/out/ran; touch \"$BASE\"/pwned\n").unwrap();
    fs::set_permissions(&pwn, fs::Permissions::from_mode(0o755)).unwrap();
    for name in
        ["evil", "nice", "env", "timeout", "bash", "nohup", "xargs", "time", "cat", "find", "git", "sh"]
    {
        fs::copy(&pwn, at("ws").join(name)).unwrap();
    }
    // Made by git itself, so that its commands find a repository.
    fs::remove_dir_all(at("ws/.git")).unwrap();
    let made = "git init -q -b main . && git add -A && git -c user.name=x -c user.email=a@b commit -qm i";
    plain(ground, &at("ws"), made);
    plain(ground, &ground.base, "cp -a ws template");
}

/// Runs a script without any confinement, to prepare something.
fn plain(ground: &Ground, dir: &Path, script: &str) {
    let script = format!("script() {{ cp \"$BASE\"/bin/pwn \"$1\"; }}; {script}");
    let mut bash = Command::new("bash");
    bash.args(["-c", &script])
        .current_dir(dir)
        .env("BASE", &ground.base)
        .env("HOME", ground.base.join("home"));
    let done = bash.env("GIT_CONFIG_NOSYSTEM", "1").stdin(Stdio::null()).status().unwrap();
    assert!(done.success(), "{script}");
}

/// The workspace as it was furnished.
fn restore(ground: &Ground) {
    plain(ground, &ground.base, "chmod -R u+rwX ws; rm -rf ws && cp -a template ws");
}

/// The kernel's word on which of these files and folders somebody opened or read.
pub(crate) struct Watch {
    fd: OwnedFd,
    names: Vec<(i32, PathBuf)>,
}

impl Watch {
    pub(crate) fn new(places: Vec<PathBuf>) -> Self {
        let fd = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        let what = inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS;
        let add = |path: PathBuf| (inotify::add_watch(&fd, &path, what).unwrap(), path);
        let names = places.into_iter().map(add).collect();
        Self { fd, names }
    }

    /// The places that were opened since the last time.
    pub(crate) fn seen(&self) -> Vec<&Path> {
        let mut space = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.fd, &mut space);
        let mut out = Vec::new();
        while let Ok(event) = events.next() {
            let name = self.names.iter().find(|(number, _)| *number == event.wd());
            out.extend(name.map(|(_, path)| path.as_path()));
        }
        out
    }
}

/// Everything below these places, themselves included.
pub(crate) fn below(places: &[PathBuf]) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut todo: Vec<PathBuf> = places.to_vec();
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        if !path.is_symlink() {
            out.push(path);
        }
    }
    out
}

/// Secrets at every level; at the read-only level also all that lies outside, and secrets in the workspace.
fn hidden(ground: &Ground, level: SandboxLevel) -> Vec<PathBuf> {
    let names: &[&str] = match level {
        ReadOnly => &["home", "out", "outside/victim.txt", "ws/.env", "ws/sub/deep.key"],
        Workspace | SandboxLevel::DenyRules | SandboxLevel::Off => {
            &["home/.ssh/id_rsa", "home/.aws/credentials", "home/store/session.jsonl"]
        }
    };
    below(&names.iter().map(|name| ground.base.join(name)).collect::<Vec<_>>())
}

/// The words before a command that may send no signal, not even to itself.
fn without_signals() -> [OsString; 3] {
    [program().into(), "without".into(), "signals".into()]
}

/// Runs a command confined, with a limit on time and on what it prints.
fn run(ground: &Ground, level: SandboxLevel, command: &str) {
    let confined = ground.sandbox.confine(level, None).unwrap();
    let mut words: Vec<OsString> =
        ["bash", "-c", LIMITS, "limits", "timeout", "-k", "1", "3"].map(OsString::from).to_vec();
    if !ground.bounds_signals(level) {
        words.extend(without_signals());
    }
    words.extend(confined.words);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", ground.base.join("bin").display());
    let mut start = ground.command(
        &words,
        &[("TMPDIR".into(), confined.temp.into()), ("PATH".into(), path.into())],
        command,
    );
    let proxy = format!("http://127.0.0.1:{}", ground.port());
    for name in ["http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        start.env(name, &proxy);
    }
    // Output is discarded: a command that prints without end must not fill memory or disk.
    let mut child = start.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // A command may stop itself (`suspend -f`), and `timeout` stops with it. Then this thread kills the process group.
    let group = rustix::process::Pid::from_child(&child);
    let (ended, ends) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if ends.recv_timeout(Duration::from_secs(6)) == Err(RecvTimeoutError::Timeout) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    });
    child.wait().unwrap();
    drop(ended);
    watch.join().unwrap();
}

/// Runs `(preparation, command)` one after the other and says what got out.
fn escapes(
    mut ground: Ground,
    level: SandboxLevel,
    cases: &[(&str, String)],
    spoilt: impl Fn() -> Ground,
) -> Vec<String> {
    let mut failed = Vec::new();
    furnish(&ground);
    let places: Vec<&str> = match level {
        ReadOnly => OUTSIDE.iter().copied().chain(["ws"]).collect(),
        Workspace | SandboxLevel::DenyRules | SandboxLevel::Off => OUTSIDE.to_vec(),
    };
    let mut workspace = ground.fingerprint(&["ws"]);
    for (preparation, command) in cases {
        if !preparation.is_empty() {
            plain(&ground, &ground.base.join("ws"), preparation);
        }
        let watch = Watch::new(hidden(&ground, level));
        let before = ground.fingerprint(&places);
        watch.seen();
        run(&ground, level, command);
        let mut why: Vec<String> =
            watch.seen().iter().map(|path| format!("opened {}", path.display())).collect();
        if ground.was_reached() {
            why.push("reached a listener".to_owned());
        }
        let after = ground.fingerprint(&places);
        let changed = before.keys().chain(after.keys()).find(|path| before.get(*path) != after.get(*path));
        why.extend(changed.map(|path| format!("changed {}", path.display())));
        let lives = ground.victim_lives();
        if !lives {
            why.push("ended a process outside".to_owned());
        }
        if changed.is_some() || !lives {
            ground = spoilt();
            furnish(&ground);
            workspace = ground.fingerprint(&["ws"]);
        } else if !preparation.is_empty() || (level == Workspace && ground.fingerprint(&["ws"]) != workspace)
        {
            restore(&ground);
            workspace = ground.fingerprint(&["ws"]);
        }
        failed.extend((!why.is_empty()).then(|| format!("{command}\n    {}", why.join(", "))));
    }
    failed
}

/// Runs the cases on each backend; `part` gives those that a backend runs, by its number and the number of backends.
fn check<'a>(level: SandboxLevel, part: impl Fn(usize, usize) -> Vec<(&'a str, String)>) {
    let mut failed = Vec::new();
    let grounds = grounds();
    let count = grounds.len();
    for (number, (kind, ground)) in grounds.into_iter().enumerate() {
        if !ground.bounds_signals(level) {
            println!("{kind:?} does not bound signals here: no command can send any");
        }
        let cases = part(number, count);
        println!("{kind:?} {level}: {} commands", cases.len());
        let escaped = escapes(ground, level, &cases, || Ground::new(Some(kind)));
        failed.extend(escaped.into_iter().map(|case| format!("{kind:?} {level}: {case}")));
    }
    assert!(failed.is_empty(), "{} escapes\n{}", failed.len(), failed.join("\n"));
}

/// `\n`, `\t` and `\\` of the table.
fn decode(line: &str) -> String {
    line.replace("\\\\", "\u{1}").replace("\\n", "\n").replace("\\t", "\t").replace('\u{1}', "\\")
}

fn table() -> Vec<(&'static str, String)> {
    let lines = TABLE.lines().filter(|line| !line.starts_with("# ") && !line.is_empty());
    let cases: Vec<_> = lines.map(|line| ("", decode(line))).collect();
    assert!(cases.len() > 4_400, "{}", cases.len());
    cases
}

/// A run uses one part of the table in this many. `BECKET_COMMANDS=all` runs all of them.
const TURNS: usize = 6;

/// A sample with a fixed step: the parts of all backends, both levels and all turns together hold each string once.
fn part(level: SandboxLevel, number: usize, count: usize, turn: usize) -> Vec<(&'static str, String)> {
    let (skip, step) = match std::env::var("BECKET_COMMANDS") {
        Ok(all) if all == "all" => (0, 1),
        _ => (2 * (count * turn + number) + usize::from(level == ReadOnly), 2 * count * TURNS),
    };
    table().into_iter().skip(skip).step_by(step).collect()
}

fn prepared() -> Vec<(&'static str, String)> {
    PREPARED.iter().map(|(preparation, command)| (*preparation, (*command).to_owned())).collect()
}

#[test]
fn attacks_of_the_table_that_nothing_judges_only_read_the_workspace() {
    check(ReadOnly, |number, count| part(ReadOnly, number, count, 0));
}

#[test]
fn attacks_of_the_table_that_nothing_judges_stay_in_the_workspace() {
    check(Workspace, |number, count| part(Workspace, number, count, 0));
}

#[test]
fn prepared_attacks_that_nothing_judges_stay_where_they_are() {
    // The attacks do not quote the folder, and would miss their aim.
    if std::env::temp_dir().to_string_lossy().contains(char::is_whitespace) {
        println!("skipped: the folder for temporary files has white space in its path");
        return;
    }
    check(ReadOnly, |_, _| prepared());
    check(Workspace, |_, _| prepared());
}

/// A sample of the commands that the guard's tests make at random and judge. Mode `auto` runs most of them because they are
/// confined.
fn made(level: SandboxLevel, number: usize, count: usize) -> Vec<(&'static str, String)> {
    let all = Dice::seeded().commands(6_000);
    let step = match std::env::var("BECKET_COMMANDS") {
        Ok(_) => 1,
        _ => 2 * count * MADE_TURNS,
    };
    let skip = 2 * number + usize::from(level == ReadOnly);
    all.into_iter().skip(skip % step).step_by(step).map(|command| ("", command)).collect()
}

/// A run uses one part in this many of the commands made at random. With `BECKET_COMMANDS` set, all of them run.
const MADE_TURNS: usize = 12;

#[test]
fn random_commands_that_nothing_judges_stay_where_they_are() {
    check(ReadOnly, |number, count| made(ReadOnly, number, count));
    check(Workspace, |number, count| made(Workspace, number, count));
}

/// Parts of all backends, levels and turns together are the table.
#[test]
fn every_string_of_the_table_runs_somewhere() {
    for count in 1..=2 {
        let of_level = |level| {
            (0..TURNS)
                .flat_map(move |turn| (0..count).flat_map(move |number| part(level, number, count, turn)))
        };
        let mut run: Vec<_> = of_level(ReadOnly).chain(of_level(Workspace)).collect();
        let mut all = table();
        run.sort();
        run.dedup();
        all.sort();
        all.dedup();
        assert_eq!(run, all, "{count} backends");
    }
}

/// Proves the filter that guards this machine where the backend does not bound signals.
#[test]
fn a_command_without_signals_ends_nothing() {
    let mut ground = Ground::new(None);
    for (script, ends) in [
        ("kill -9 $VICTIM", false),
        ("kill -0 $PPID && echo sent > sent", false),
        (
            "python3 -c 'import os,signal; signal.pidfd_send_signal(os.pidfd_open(int(os.environ[\"VICTIM\"])),9)'",
            false,
        ),
        ("(sleep 1 & kill $!; wait)", false),
        // Without the filter the victim dies, so the test would notice.
        ("kill -9 $VICTIM", true),
    ] {
        let words: Vec<OsString> = if ends { vec!["env".into()] } else { without_signals().to_vec() };
        let output = ground.run_after(&words, &[], script);
        let lives = ground.victim_lives_on();
        assert_eq!(lives, !ends, "{script}: {output:?}");
        assert!(!ground.base.join("ws/sent").exists(), "{script}: {output:?}");
    }
}

/// Shows that the oracle would notice an escape: without a confinement, it sees what the attacks do.
#[test]
fn the_oracle_sees_what_unconfined_commands_do() {
    let ground = Ground::new(None);
    furnish(&ground);
    let watch = Watch::new(hidden(&ground, Workspace));
    plain(&ground, &ground.base.join("ws"), "cat h/.ssh/id_rsa > /dev/null");
    assert_eq!(watch.seen().first(), Some(&ground.base.join("home/.ssh/id_rsa").as_path()));
    let before = ground.fingerprint(OUTSIDE);
    plain(&ground, &ground.base.join("ws"), "bash evil");
    assert!(ground.fingerprint(OUTSIDE) != before && ground.base.join("pwned").exists());
    plain(&ground, &ground.base.join("ws"), &format!("echo x > /dev/tcp/127.0.0.1/{}", ground.port()));
    assert!(ground.was_reached());
}
