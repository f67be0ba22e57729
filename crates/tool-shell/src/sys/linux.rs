//! Linux: processes from `/proc`, pipes of any width.

use super::Process;
use std::collections::HashSet;
use std::io::{PipeReader, Read};

/// Whether [`tree`] knows every process of a command.
pub(crate) const LISTS_PROCESSES: bool = true;

struct Stat {
    process: Process,
    parent: i32,
    group: i32,
    session: i32,
}

/// All living processes that belong to a command: its group, its session, those known from an earlier look, their
/// descendants, and whoever carries `mark` in the environment it was started with (that finds processes which left group,
/// session and parents behind).
pub(crate) fn tree(group: i32, mark: &str, known: &[Process]) -> Vec<Process> {
    let own = std::process::id().cast_signed();
    let all: Vec<Stat> = pids().filter(|pid| *pid != own).filter_map(stat).collect();
    let mut members: HashSet<i32> = all
        .iter()
        .filter(|s| {
            s.group == group
                || s.session == group
                || known.contains(&s.process)
                || marked(s.process.pid, mark)
        })
        .map(|s| s.process.pid)
        .collect();
    loop {
        let before = members.len();
        members.extend(
            all.iter().filter(|s| members.contains(&s.parent)).map(|s| s.process.pid).collect::<Vec<_>>(),
        );
        if members.len() == before {
            break;
        }
    }
    all.into_iter().filter(|s| members.contains(&s.process.pid)).map(|s| s.process).collect()
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// `None` for what is gone or only waits to be collected.
fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything; the last one closes it.
    let rest = &text[text.rfind(')')? + 1..];
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X" | "x") {
        return None;
    }
    let number = |i: usize| fields.get(i)?.parse::<i32>().ok();
    Some(Stat {
        process: Process { pid, started: fields.get(19)?.parse().ok()? },
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
    })
}

fn marked(pid: i32, mark: &str) -> bool {
    let mut environment = Vec::new();
    let read = std::fs::File::open(format!("/proc/{pid}/environ"))
        .and_then(|file| file.take(1024 * 1024).read_to_end(&mut environment));
    read.is_ok() && environment.split(|b| *b == 0).any(|variable| variable == mark.as_bytes())
}

/// The command line of this process, as `pkill -f` sees it.
pub(crate) fn own_command_line() -> Option<String> {
    let bytes = std::fs::read("/proc/self/cmdline").ok()?;
    let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
    Some(line.trim_end().to_owned())
}

/// Lets the pipe hold `bytes`; where the system refuses, the usual width does.
pub(crate) fn widen(pipe: &PipeReader, bytes: usize) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, bytes);
}
