//! Acts of a command, from the calls to the kernel that strace writes down.

use crate::world::{World, there};
use becket_guard::Guard;
use becket_types::PermissionMode;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Calls that change a file or a folder, by the beginnings of their names.
const CHANGES: &[&str] = &[
    "unlink",
    "rename",
    "mkdir",
    "rmdir",
    "link",
    "symlink",
    "chmod",
    "fchmod",
    "chown",
    "lchown",
    "fchown",
    "truncate",
    "ftruncate",
    "utime",
    "futimes",
    "mknod",
    "setxattr",
    "lsetxattr",
    "removexattr",
    "creat",
    "mount",
];
/// Calls that reach another machine or another process.
const REACHES: &[&str] =
    &["connect", "bind", "listen", "sendto", "sendmsg", "kill", "tkill", "tgkill", "ptrace"];
/// Files outside the workspace that git and bash read of their own accord.
const OWN: &[&str] = &["home/.gitconfig", "home/.config/git/", "home/.bashrc"];
/// Secrets of the workspace. A search of a whole folder may meet one, which confinement hides from it: those are opened
/// relative to the folder, what the command names relative to where it runs.
const SECRETS: &[&str] = &["w/server.pem"];

/// A value that only the environment holds.
const CANARY: &str = "canary-2f81c7";

/// True if strace is there and may trace. Says so where it is not.
pub(crate) fn works(world: &World) -> bool {
    // strace writes other letters as numbers, so that the paths of the test could not be found in what it wrote.
    let plain = world.0.to_str().is_some_and(|root| root.is_ascii() && !root.contains(['"', '\\']));
    let traced = plain && there("strace") && {
        let guard = world.guard(&[], PermissionMode::Default);
        let mut probe = world.command(&guard, &["strace", "-o", "/dev/null"], "true");
        probe.status().is_ok_and(|status| status.success())
    };
    if !traced {
        eprintln!("strace is not there, or may not trace here: files alone are compared");
    }
    traced
}

/// Runs the command. Returns the first thing it did that reading the workspace cannot need; `None` if it only read.
pub(crate) fn harm(world: &World, guard: &Guard, command: &str) -> Option<String> {
    harm_of(world, guard, &world.path("bin"), command, command)
}

/// As [`harm`], with the programs of a folder before all others. `words` is what the command was judged by.
pub(crate) fn harm_of(
    world: &World,
    guard: &Guard,
    programs: &Path,
    command: &str,
    words: &str,
) -> Option<String> {
    let log = world.path("trace");
    let log_name = log.display().to_string();
    let strace = [
        "timeout",
        "20",
        "strace",
        "-f",
        "-qq",
        "-s",
        "256",
        "-y",
        "-e",
        "trace=%file,%network,%desc,clone,clone3,kill,tkill,tgkill,ptrace",
        "-e",
        "signal=none",
        "-o",
        &log_name,
    ];
    let mut start = world.command(guard, &strace, command);
    let path =
        start.get_envs().find_map(|(name, value)| value.filter(|_| name == "PATH")).unwrap_or_default();
    let path = [programs.as_os_str(), path].join(OsStr::new(":"));
    let told = tells_secret(start.env("PATH", path));
    let text = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let _ = fs::remove_file(&log);
    assert!(!text.is_empty(), "strace wrote nothing for {command}");
    if told {
        return Some("printed a secret of the environment".to_owned());
    }
    let lines = whole_lines(&text);
    let (searchers, threads) = (searchers(&lines), threads(&lines));
    let mut harmful = lines.iter().filter(|line| is_harm(&world.0, line));
    harmful.find(|line| !is_expected(words, line, &searchers, &threads)).cloned()
}

/// Runs a command with a secret in its environment. True if the secret is in its output or its messages, which may be without end.
fn tells_secret(command: &mut Command) -> bool {
    let (mut output, end) = std::io::pipe().unwrap();
    command.env("CANARY_API_KEY", CANARY).stdout(end.try_clone().unwrap()).stderr(end);
    let mut child = command.spawn().unwrap();
    // The command holds the other end of the pipe until it is started again.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut window, mut piece, mut told) = (Vec::new(), vec![0; 65_536], false);
    while let Ok(count) = output.read(&mut piece)
        && count > 0
    {
        window.extend_from_slice(&piece[..count]);
        told |= window.windows(CANARY.len()).any(|part| part == CANARY.as_bytes());
        window.drain(..window.len().saturating_sub(CANARY.len()));
    }
    child.wait().unwrap();
    told
}

/// Lines of the log with each call in one piece: strace splits a call in two if another process interrupts it.
fn whole_lines(text: &str) -> Vec<String> {
    let mut waiting: BTreeMap<&str, &str> = BTreeMap::new();
    let mut out = Vec::new();
    for line in text.lines() {
        let (pid, call) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(start) = call.strip_suffix("<unfinished ...>") {
            waiting.insert(pid, start.trim());
        } else if let Some((_, rest)) = call.split_once(" resumed>") {
            out.push(format!("{pid} {}{rest}", waiting.remove(pid).unwrap_or_default()));
        } else {
            out.push(line.to_owned());
        }
    }
    // The trace was cut off before these ended.
    out.extend(waiting.into_iter().map(|(pid, start)| format!("{pid} {start} = 0")));
    out
}

/// Each thread with the first thread of its process. First threads themselves are not in the map.
fn threads(lines: &[String]) -> BTreeMap<String, String> {
    let mut parents: BTreeMap<&str, &str> = BTreeMap::new();
    for (pid, call) in lines.iter().filter_map(|line| line.split_once(' ')) {
        let call = call.trim_start();
        let thread = call.starts_with("clone") && call.contains("CLONE_THREAD");
        if let Some((_, child)) = call.rsplit_once(" = ").filter(|_| thread) {
            parents.insert(child.trim(), pid);
        }
    }
    let mut out = BTreeMap::new();
    for thread in parents.keys() {
        let mut first = *thread;
        // The kernel gives numbers out again, so the search for the first thread is limited.
        for _ in 0..parents.len() {
            first = parents.get(first).copied().unwrap_or(first);
        }
        out.insert((*thread).to_owned(), first.to_owned());
    }
    out
}

/// Processes that run git or ripgrep and whose words, as the kernel got them, name no secret.
fn searchers(lines: &[String]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for (pid, call) in lines.iter().filter_map(|line| line.split_once(' ')) {
        let Some(rest) = call.trim_start().strip_prefix("execve(\"/") else { continue };
        if !rest.ends_with(" = 0") {
            continue;
        }
        let (program, words) = rest.split_once("\", [").unwrap_or((rest, "..."));
        let words = words.split_once("], ").map_or("...", |(words, _)| words);
        // strace leaves out words of a long list, and what it leaves out may name a secret.
        let names = words.contains("...") || SECRETS.iter().any(|name| words.contains(&name[2..]));
        if !names && (program.contains("/git") || program.ends_with("/rg")) {
            out.insert(pid.to_owned());
        } else {
            out.remove(pid);
        }
    }
    out
}

/// Effects that the guard allows and leaves to confinement: git and ripgrep read the files that they compare or search, also
/// secrets that the command does not name; the shell lists a folder outside if a pattern comes from the output of a command
/// or from a variable. A program written in Go wakes its own threads with a signal.
fn is_expected(
    command: &str,
    line: &str,
    searchers: &BTreeSet<String>,
    threads: &BTreeMap<String, String>,
) -> bool {
    let Some((pid, call)) = line.split_once(' ') else { return false };
    let process = threads.get(pid).map_or(pid, String::as_str);
    let wakes = call
        .trim_start()
        .strip_prefix("tgkill(")
        .and_then(|rest| rest.split_once(", "))
        .is_some_and(|(whose, rest)| whose == process && rest.contains(", SIGURG)"));
    let searched = searchers.contains(process);
    let expands = ["$(", "`", "$x", "${x"].iter().any(|mark| command.contains(mark));
    wakes
        || (searched && SECRETS.iter().any(|name| line.ends_with(&format!("/{name}>"))))
        || (expands && line.contains("O_DIRECTORY"))
}

/// One line: `PID name(arguments) = result`.
fn is_harm(root: &Path, line: &str) -> bool {
    let Some((_, call)) = line.split_once(' ') else { return false };
    let call = call.trim_start();
    let Some((name, rest)) = call.split_once('(') else { return false };
    // A call that failed did nothing.
    let failed = rest.rsplit_once(" = ").is_some_and(|(_, result)| result.starts_with('-'));
    if failed {
        return false;
    }
    // Signal 0 only asks if a process is there.
    if name == "kill" && rest.contains(", 0)") {
        return false;
    }
    let within = |text: &str| text.contains(&format!("{}/", root.display()));
    match name {
        // The program alone: what its arguments name is not opened by starting it.
        "execve" | "execveat" => rest.split(", [").next().is_some_and(within),
        "open" | "openat" | "openat2" => {
            let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| rest.contains(flag));
            let device = ["\"/dev/null\"", "\"/dev/tty\"", "\"/dev/stdout\"", "\"/dev/stderr\""]
                .iter()
                .any(|d| rest.contains(d));
            // `-y` names the file that was opened behind the descriptor: links are followed there.
            let opened = rest.rsplit_once(" = ").map_or(rest, |(_, result)| result);
            let searched = !rest.starts_with("AT_FDCWD");
            (writes && !device) || (within(opened) && !may_read(root, opened, searched))
        }
        // The kernel tells `ss` about sockets by this message.
        _ if rest.contains("nlmsg_type=SOCK_DIAG_BY_FAMILY") && rest.contains("NLM_F_DUMP") => false,
        _ if REACHES.contains(&name) => !rest.contains("AF_UNIX") && !rest.contains("AF_NETLINK"),
        _ => CHANGES
            .iter()
            .any(|change| name.strip_suffix("at2").or(name.strip_suffix("at")).unwrap_or(name) == *change),
    }
}

/// Reading the workspace may open this file or folder of the test.
fn may_read(root: &Path, opened: &str, searched: bool) -> bool {
    let here = |name: &&&str| opened.contains(&format!("{}/{name}", root.display()));
    if OWN.iter().any(|name| here(&name)) {
        return true;
    }
    let secret = !searched && SECRETS.iter().any(|name| here(&name));
    (opened.contains(&format!("{}/w/", root.display())) || opened.contains(&format!("{}/w>", root.display())))
        && !secret
}

#[test]
fn lines_of_a_trace() {
    let root = Path::new("/t");
    for line in [
        r#"12 openat(AT_FDCWD</t/w>, "k.txt", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</t/w/k.txt>"#,
        r#"12 openat(AT_FDCWD</t/w>, "d/n.txt", O_RDONLY) = 3</t/out/n.txt>"#,
        r#"12 openat(AT_FDCWD</t/w>, "server.pem", O_RDONLY) = 3</t/w/server.pem>"#,
        r#"12 openat(AT_FDCWD</t/w>, "h/.ssh/id_rsa", O_RDONLY) = 3</t/home/.ssh/id_rsa>"#,
        r#"12 execve("./evil", ["./evil"], 0x7ffd /* 3 vars */) = 0"#.replace("./evil\",", "/t/w/evil\",").as_str(),
        r#"12 unlinkat(AT_FDCWD</t/w>, "a.txt", 0) = 0"#,
        r#"12 renameat2(AT_FDCWD</t/w>, "a", AT_FDCWD</t/w>, "b", 0) = 0"#,
        r"12 connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(80)}, 16) = 0",
    ] {
        assert!(is_harm(root, line), "{line}");
    }
    for line in [
        r#"12 openat(AT_FDCWD</t/w>, "/usr/lib/locale/x", O_RDONLY|O_CLOEXEC) = 3</usr/lib/locale/x>"#,
        r#"12 openat(AT_FDCWD</t/w>, "a.txt", O_RDONLY) = 3</t/w/a.txt>"#,
        r#"12 openat(AT_FDCWD</t/w>, ".", O_RDONLY|O_DIRECTORY) = 3</t/w>"#,
        r#"12 openat(AT_FDCWD</t/w>, "k.txt", O_WRONLY|O_CREAT) = -1 EACCES (Permission denied)"#,
        r#"12 openat(AT_FDCWD</t/w>, "/dev/null", O_WRONLY|O_CREAT, 0666) = 3</dev/null>"#,
        r#"12 execve("/usr/bin/ls", ["ls"], 0x7ffd /* 3 vars */) = 0"#,
        r#"12 openat(4</t/w>, "server.pem", O_RDONLY) = 3</t/w/server.pem>"#,
        r#"12 execve("/usr/bin/tr", ["tr", "/t/home/.ssh/id_rsa"], 0x5650 /* 5 vars */) = 0"#,
        r#"12 readlink("/t/w/d", "x", 10) = 1"#,
    ] {
        assert!(!is_harm(root, line), "{line}");
    }
}

#[test]
fn only_searches_that_name_no_secret_and_signals_within_a_process_are_expected() {
    let lines: Vec<String> = [
        r#"10 execve("/usr/bin/rg", ["rg", "-"], 0x5650 /* 5 vars */) = 0"#,
        "10 clone3({flags=CLONE_VM|CLONE_THREAD, exit_signal=0} => {parent_tid=[11]}, 88) = 11",
        "12 clone3({flags=CLONE_VM|CLONE_THREAD, exit_signal=0} => {parent_tid=[13]}, 88) = 13",
        "11 clone3({flags=CLONE_VM|CLONE_THREAD, exit_signal=0} => {parent_tid=[12]}, 88) = 12",
        r#"20 execve("/usr/bin/rg", ["rg", "x", "server.pem"], 0x5650 /* 5 vars */) = 0"#,
        r#"30 execve("/usr/bin/cat", ["cat", "x"], 0x5650 /* 5 vars */) = 0"#,
        r#"40 execve("/usr/bin/rg", ["rg", "x", ...], 0x5650 /* 5 vars */) = 0"#,
        r#"50 execve("/bin/git", ["git", "x"], 0x5650 /* 5 vars */) = -1 ENOENT (No such file or directory)"#,
    ]
    .map(String::from)
    .to_vec();
    let (searchers, threads) = (searchers(&lines), threads(&lines));
    for (pid, expected) in [(10, true), (13, true), (20, false), (30, false), (40, false), (50, false)] {
        let line = format!(r#"{pid} openat(AT_FDCWD</t/w>, "server.pem", O_RDONLY) = 3</t/w/server.pem>"#);
        assert!(is_harm(Path::new("/t"), &line));
        assert_eq!(is_expected("rg -", &line, &searchers, &threads), expected, "{line}");
    }
    for (line, expected) in [
        ("10 tgkill(10, 12, SIGURG) = 0", true),
        ("13 tgkill(10, 11, SIGURG) = 0", true),
        ("30 tgkill(30, 30, SIGURG) = 0", true),
        ("30 tgkill(10, 11, SIGURG) = 0", false),
        ("13 tgkill(10, 11, SIGTERM) = 0", false),
        ("13 kill(10, SIGURG) = 0", false),
    ] {
        assert!(is_harm(Path::new("/t"), line), "{line}");
        assert_eq!(is_expected("rg -", line, &searchers, &threads), expected, "{line}");
    }
}
