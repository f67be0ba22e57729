//! Each option that is allowed without a question, run with this machine's own programs and with other implementations of
//! them: BusyBox, uutils and toybox. It does no more than read.
//!
//! Without such a program, the test says that it skipped it. `BECKET_OTHERS=all` tries more than BusyBox, which takes some
//! minutes. The table (`src/shell/readonly/table.rs`) notes the versions of this machine's own programs. Tried on 2026-11-26: BusyBox 1.35.0 (3,306 commands), toybox 0.8.9 (3,207), uutils 0.0.17 (2,931).

use crate::trace;
use crate::world::{World, allowed, there};
use becket_guard::Guard;
use becket_types::PermissionMode;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Commands in one trace. If one of them does harm, all are tried alone.
const TOGETHER: usize = 40;
/// Folders in which uutils installs its programs under their usual names.
const UUTILS: [&str; 2] = ["/usr/lib/cargo/bin/coreutils", "/usr/libexec/uutils-coreutils"];

/// An implementation: its version, and a folder with links of the usual names.
struct Implementation {
    version: String,
    folder: PathBuf,
    programs: Vec<String>,
}

impl Drop for Implementation {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn output(program: &str, words: &[&str]) -> Option<String> {
    let done = Command::new(program).args(words).stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

fn implementation(name: &str, version: String, targets: Vec<(String, PathBuf)>) -> Implementation {
    // Beside the world, because starting a program in it counts as harm.
    let folder = std::env::temp_dir().join(format!("other-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    for (program, target) in &targets {
        symlink(target, folder.join(program)).unwrap();
    }
    Implementation { version, folder, programs: targets.into_iter().map(|(program, _)| program).collect() }
}

fn which(program: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/local/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(program))
        .find(|path| path.is_file())
}

fn implementations() -> Vec<Implementation> {
    let mut out = Vec::new();
    let all = std::env::var("BECKET_OTHERS").is_ok_and(|which| which == "all");
    for (name, list) in [("busybox", &["--list"][..]), ("toybox", &[])] {
        if name != "busybox" && !all {
            continue;
        }
        let Some(path) = which(name) else {
            eprintln!("skipped: {name} is not installed");
            continue;
        };
        let programs = output(name, list).unwrap_or_default();
        let targets = programs.split_whitespace().map(|program| (program.to_owned(), path.clone())).collect();
        let version = output(name, &["--help"]).unwrap_or_default();
        out.push(implementation(name, version.lines().next().unwrap_or(name).to_owned(), targets));
    }
    if all {
        let own =
            ["/usr/bin", "/bin", "/usr/local/bin"].iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten();
        let paths = own.filter_map(|entry| Some(entry.ok()?.path()));
        // The machine's own programs are tried, too: other implementations may be installed under a name of their own.
        let targets: BTreeMap<String, PathBuf> =
            paths.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect();
        out.push(implementation("own", "own programs".to_owned(), targets.into_iter().collect()));
    }
    match UUTILS.iter().find_map(|dir| fs::read_dir(dir).ok()).filter(|_| all) {
        None if !all => {}
        None => eprintln!("skipped: uutils is not installed"),
        Some(entries) => {
            let paths = entries.map(|entry| entry.unwrap().path());
            let targets: Vec<(String, PathBuf)> =
                paths.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect();
            let version = targets
                .iter()
                .find(|(name, _)| name == "cat")
                .and_then(|(_, path)| output(path.to_str()?, &["--version"]));
            out.push(implementation(
                "uutils",
                format!("uutils: {}", version.unwrap_or_default().trim()),
                targets,
            ));
        }
    }
    out
}

/// Long options that the help text of a program names.
fn long_options(help: &str) -> BTreeSet<String> {
    help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("--") && word.len() > 3)
        .map(str::to_owned)
        .collect()
}

/// All commands with a program that are allowed without a question, one or two for each option.
fn commands(guard: &Guard, implementation: &Implementation, program: &str) -> Vec<String> {
    let mut out: Vec<String> = ["", " a.txt", " x a.txt", " a.txt k.txt", " .", " x"]
        .iter()
        .map(|rest| format!("{program}{rest}"))
        .filter(|command| allowed(guard, command))
        .collect();
    let letters = ('a'..='z').chain('A'..='Z').chain('0'..='9');
    let mut alone = String::new();
    for letter in letters {
        let forms = ["a.txt", "x a.txt", "1 a.txt", "a.txt k.txt", "k.txt a.txt", ""];
        let attached = ["k.txt a.txt", "1 a.txt", "x"];
        let apart = forms.iter().map(|rest| format!("{program} -{letter} {rest}"));
        let joined = attached.iter().map(|rest| format!("{program} -{letter}{rest}"));
        let found: Vec<String> = apart.chain(joined).filter(|command| allowed(guard, command)).collect();
        if found.first().is_some_and(|first| first.ends_with(" a.txt")) {
            alone.push(letter);
        }
        out.extend(found.into_iter().take(3));
    }
    // Letters together can mean something else, if one of them takes the rest as its value.
    for letters in [alone.clone(), alone.chars().rev().collect()] {
        out.push(format!("{program} -{letters} a.txt"));
        out.push(format!("{program} -{letters} x a.txt k.txt"));
    }
    let own = output(&implementation.folder.join(program).display().to_string(), &["--help"]);
    let usual = output(program, &["--help"]);
    let long = long_options(&[own.unwrap_or_default(), usual.unwrap_or_default()].concat());
    for option in long {
        let forms = ["", "=1", "=k.txt", "=x"];
        let found = forms.iter().map(|value| format!("{program} {option}{value} a.txt"));
        out.extend(found.filter(|command| allowed(guard, command)).take(2));
    }
    out.retain(|command| allowed(guard, command));
    out.sort();
    out.dedup();
    out
}

/// The first effect of these commands beyond reading. `timeout` gives each command one second, and none of them stops the others.
fn harm(world: &World, guard: &Guard, folder: &Path, commands: &[String]) -> Option<String> {
    let before = world.state();
    let lines: Vec<String> =
        commands.iter().map(|command| format!("/usr/bin/timeout 1 {command} </dev/null")).collect();
    let found = trace::harm_of(world, guard, folder, &lines.join("\n"), "");
    // `timeout` ends a program that does not end by itself; its signal is no harm.
    let found =
        found.filter(|call| !(commands.len() == 1 && call.contains("kill(") && call.contains(", SIGTERM)")));
    found.or_else(|| (world.state() != before).then(|| "a file was changed".to_owned()))
}

#[test]
fn other_implementations_of_the_table_are_no_looser() {
    let others = implementations();
    let probe = World::new();
    if others.is_empty() || !there("bash") || !trace::works(&probe) {
        println!("skipped: no other implementation, no bash, or no strace");
        return;
    }
    let guard = probe.guard(&[], PermissionMode::Default);
    let mut all: Vec<(&Implementation, Vec<String>)> = Vec::new();
    for other in &others {
        let mut count = (0, 0);
        for program in &other.programs {
            let plain = ["", " a.txt", " x a.txt", " ."].map(|rest| format!("{program}{rest}"));
            if !program.contains('[') && plain.iter().any(|command| allowed(&guard, command)) {
                let found = commands(&guard, other, program);
                count = (count.0 + 1, count.1 + found.len());
                all.extend(found.chunks(TOGETHER).map(|part| (other, part.to_vec())));
            }
        }
        println!("{}: {} programs, {} commands", other.version, count.0, count.1);
        assert!(count.0 > 10 && count.1 > 100, "{count:?}");
    }
    let (next, through) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let world = World::new();
                let guard = world.guard(&[], PermissionMode::Default);
                while let Some((other, part)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if harm(&world, &guard, &other.folder, part).is_none() {
                        continue;
                    }
                    for command in part {
                        if let Some(why) = harm(&world, &guard, &other.folder, std::slice::from_ref(command))
                        {
                            through.lock().unwrap().push(format!("{}: {command}\n    {why}", other.version));
                        }
                    }
                }
            });
        }
    });
    let through = through.into_inner().unwrap();
    assert!(through.is_empty(), "{} did more than read:\n{}", through.len(), through.join("\n"));
}
