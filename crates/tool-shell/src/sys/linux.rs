//! Linux: processes from `/proc`, pipes of any width.

use super::{Load, Process};
use std::collections::HashSet;
use std::io::{PipeReader, Read};
use std::path::Path;

/// True: [`tree`] finds every process of a command.
pub(crate) const LISTS_PROCESSES: bool = true;

struct Stat {
    process: Process,
    parent: i32,
    group: i32,
    session: i32,
    threads: u64,
}

/// Reads the state of the system from two small files.
pub(crate) fn load() -> Option<Load> {
    // `0.20 0.18 0.12 1/80 11206`: running/all.
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let tasks = text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()?;
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    Some(Load {
        tasks,
        available_bytes: kilobytes(&text, "MemAvailable:")?,
        total_bytes: kilobytes(&text, "MemTotal:")?,
    })
}

/// The value, in bytes, of a line `NAME: N kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(rest.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Threads of these processes.
pub(crate) fn tasks(processes: &[Process]) -> u64 {
    processes.iter().filter_map(|p| stat(p.pid)).map(|s| s.threads).sum()
}

/// True if these processes hold more than `limit` bytes of anonymous memory. Pages that several of them share count once.
pub(crate) fn memory_over(processes: &[Process], limit: u64) -> bool {
    let sum = |file: &str, name: &str| -> u64 {
        let of = |p: &Process| std::fs::read_to_string(format!("/proc/{}/{file}", p.pid)).ok();
        processes.iter().filter_map(|p| kilobytes(&of(p)?, name)).sum()
    };
    // `smaps_rollup` is exact but expensive, so it is only read if the upper bound from `status` is over the limit. If it
    // cannot be read, the upper bound decides.
    if sum("status", "RssAnon:") <= limit {
        return false;
    }
    match sum("smaps_rollup", "Pss_Anon:") {
        0 => true,
        exact => exact > limit,
    }
}

/// All living processes of a command: its group, its session, those known from an earlier call, the descendants of all these, and
/// every process with `mark` in its environment. The mark finds processes that left group, session and parents.
pub(crate) fn tree(group: i32, mark: &str, known: &[Process]) -> Vec<Process> {
    let own = std::process::id().cast_signed();
    let known: HashSet<&Process> = known.iter().collect();
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

/// Sets the niceness of a session as a whole. With the kernel's autogroup scheduling, a process's own niceness only counts
/// within its session.
pub(crate) fn yield_to_others(session: i32, nice: i32) {
    let _ = std::fs::write(format!("/proc/{session}/autogroup"), nice.to_string());
}

/// The living process with this number, if there is one.
pub(crate) fn process(pid: i32) -> Option<Process> {
    stat(pid).map(|stat| stat.process)
}

/// Process number of a living member of a group or its session; zombies do not count.
pub(crate) fn of_group(group: i32) -> Option<i32> {
    pids().find(|pid| is_of_group(*pid, group))
}

/// True if this process lives and belongs to the group or its session.
pub(crate) fn is_of_group(pid: i32, group: i32) -> bool {
    stat(pid).is_some_and(|s| s.group == group || s.session == group)
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Reads a process's state; `None` if it is gone or a zombie.
fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any character, so the last closing parenthesis ends it.
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
        threads: fields.get(17)?.parse().ok()?,
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

/// Lets the pipe hold `bytes`. If the system refuses, it keeps its usual size.
pub(crate) fn widen(pipe: &PipeReader, bytes: usize) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, bytes);
}

/// True if files below `directory` are kept in memory.
pub(crate) fn is_in_memory(directory: &Path) -> bool {
    // TMPFS_MAGIC and RAMFS_MAGIC of linux/magic.h; the field's width depends on the machine.
    const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58F6];
    rustix::fs::statfs(directory).is_ok_and(|fs| MEMORY.contains(&(fs.f_type as u64)))
}
