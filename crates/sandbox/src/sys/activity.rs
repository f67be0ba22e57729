//! Shows that no process of a program has run for some time.
//!
//! The kernel counts for each thread how often it stopped running. If all threads of a program sleep at two moments, with equal
//! counts, none of them ran in between. So the program changed no file, and started no process, in that time.
//!
//! The processes are found from parent to child. That is complete for a program in a namespace of processes, whose
//! processes cannot be adopted by others. Where the kernel does not list children, nothing can be shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// Maximum number of processes of a program that are examined.
const MOST: usize = 256;

/// The threads of a program at a moment at which all of them slept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asleep(BTreeMap<(u32, u32), Switches>);

/// Number of times that a thread stopped running: voluntarily, because it waited, and involuntarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Switches(u64, u64);

/// Returns the threads of a process and of its descendants. `None` if one of them runs, or if they cannot be listed.
pub(crate) fn asleep(root: u32) -> Option<Asleep> {
    let first = threads(root)?;
    // A thread that ran in the meantime may have started a process that the first look missed.
    (threads(root)? == first).then_some(Asleep(first))
}

/// Returns a process and all processes that descend from it.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut out = vec![root];
    let mut at = 0;
    while let Some(process) = out.get(at).copied().filter(|_| at < MOST) {
        at += 1;
        for thread in numbers(&format!("/proc/{process}/task")).unwrap_or_default() {
            out.extend(children(process, thread).unwrap_or_default());
        }
    }
    out
}

/// True if the process exists and has not ended.
pub(crate) fn lives(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    field(&status, "State:").is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// The places at which something is mounted read-only for a process.
pub(crate) fn read_only_mounts(process: u32) -> Vec<PathBuf> {
    let text = fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b' ').skip(4));
    let mounts = lines.filter_map(|mut words| Some((words.next()?, words.next()?)));
    mounts.filter(|(_, options)| is_read_only(options)).map(|(place, _)| unescaped(place)).collect()
}

fn is_read_only(options: &[u8]) -> bool {
    options == b"ro" || options.starts_with(b"ro,")
}

/// A path of the list of mounts: the kernel writes blanks and some other bytes as three octal digits.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *byte == b'\\') {
            Some(escaped) => {
                out.push(escaped);
                rest = &after[3..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(out).into()
}

fn threads(root: u32) -> Option<BTreeMap<(u32, u32), Switches>> {
    let mut out = BTreeMap::new();
    let mut todo = vec![root];
    let mut seen = 0;
    while let Some(process) = todo.pop() {
        seen += 1;
        if seen > MOST {
            return None;
        }
        for thread in numbers(&format!("/proc/{process}/task"))? {
            // The count is read before the children: starting another child later changes the count.
            out.insert((process, thread), sleeping(process, thread)?);
            todo.extend(children(process, thread)?);
        }
    }
    Some(out)
}

/// Returns the counts of a thread that sleeps, was stopped, or has ended.
fn sleeping(process: u32, thread: u32) -> Option<Switches> {
    let status = fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).ok()?;
    field(&status, "State:").filter(|state| state.starts_with(['S', 'T', 't', 'Z', 'X']))?;
    let count = |name: &str| field(&status, name)?.parse().ok();
    Some(Switches(count("\nvoluntary_ctxt_switches:")?, count("\nnonvoluntary_ctxt_switches:")?))
}

fn children(process: u32, thread: u32) -> Option<Vec<u32>> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/children")).ok()?;
    text.split_whitespace().map(|number| number.parse().ok()).collect()
}

fn numbers(folder: &str) -> Option<Vec<u32>> {
    let names = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    Some(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let rest = &status[status.find(name)? + name.len()..];
    rest.lines().next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    #[test]
    fn a_program_that_ran_in_between_is_known_also_if_its_child_did() {
        // The shell waits for its child, which reads and writes.
        let mut child = Command::new("sh")
            .args(["-c", "while read -r line; do echo \"$line\"; done | cat; exit 0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut from = BufReader::new(from);
        let mut say = || {
            writeln!(to, "x").unwrap();
            from.read_line(&mut String::new()).unwrap();
        };
        let rests = |process: u32| {
            let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
            loop {
                if let Some(asleep) = asleep(process) {
                    return asleep;
                }
                assert!(std::time::Instant::now() < until, "it never sleeps");
                std::thread::yield_now();
            }
        };
        // A thread shows as asleep shortly before the kernel counts its stop, so two readings may differ although it did nothing.
        let settles = |process: u32| {
            let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
            loop {
                let first = rests(process);
                if rests(process) == first {
                    return first;
                }
                assert!(std::time::Instant::now() < until, "it did nothing, and no two looks agree");
            }
        };
        say();
        let before = settles(child.id());
        assert!(before.0.len() >= 3, "{before:?}");
        say();
        assert_ne!(rests(child.id()), before, "it wrote a line");
        let all = tree(child.id());
        assert!(all.len() >= 3 && lives(child.id()), "{all:?}");
        // When their input ends, the processes end, each at its own time.
        drop(to);
        child.wait().unwrap();
        assert!(!lives(child.id()));
        assert_eq!(asleep(child.id()), None);
        // A thread that runs is never asleep.
        assert_eq!(asleep(std::process::id()), None);
    }

    #[test]
    fn places_of_mounts_are_read_with_blanks() {
        assert_eq!(unescaped(b"/a\\040b\\134c"), PathBuf::from("/a b\\c"));
        assert!(is_read_only(b"ro,nosuid") && is_read_only(b"ro") && !is_read_only(b"rw,root=ro"));
    }
}
