//! Temporary names beside files that are about to be replaced, and what dead processes left under such names.
//!
//! Owns the one form of these names: `.NAME.becket-PID-N`. Whoever replaces a file takes a name from here, so that a process that
//! was killed in the middle leaves nothing that nobody knows. The next process that writes in the folder removes it.
//!
//! A name with `.copy` at its end is another matter: it is a whole file that is kept until another one was written in place. It is
//! never removed here, because it may be all that is left.

use crate::dir::Dir;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Separates the name of the file from the numbers.
const MARK: &[u8] = b".becket-";

/// Longest part of the file's own name, in bytes: a file system takes no names of more than 255.
const LONGEST: usize = 100;

/// Files that are younger are left alone: their process may run where its number is not known here, such as in a container.
const YOUNGEST: Duration = Duration::from_secs(10);

/// Folders with more entries are not searched.
const MOST_ENTRIES: usize = 20_000;

/// Returns a temporary name that no other process uses, for a file beside the one with this name.
pub fn name(beside: &OsStr) -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut out = prefix(beside);
    out.extend_from_slice(format!("{}-{number}", std::process::id()).as_bytes());
    OsString::from_vec(out)
}

/// Returns such a name for a copy that must outlive its process.
pub fn copy_name(beside: &OsStr) -> OsString {
    let mut out = name(beside);
    out.push(".copy");
    out
}

/// The part of all temporary names for this name before the numbers.
fn prefix(beside: &OsStr) -> Vec<u8> {
    let bytes = beside.as_bytes();
    [b".", bytes.get(..LONGEST).unwrap_or(bytes), MARK].concat()
}

/// Returns the part of a temporary name before the numbers, and the number of its process; `None` for other names.
fn parts(name: &OsStr) -> Option<(&[u8], i32)> {
    let bytes = name.as_bytes();
    let at = bytes.windows(MARK.len()).rposition(|window| window == MARK)? + MARK.len();
    let (prefix, numbers) = bytes.split_at_checked(at)?;
    let (process, number) = std::str::from_utf8(numbers).ok()?.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (prefix.starts_with(b".") && is_number(process) && is_number(number)).then_some(())?;
    Some((prefix, process.parse().ok()?))
}

/// True if no process has this number.
fn is_dead(process: i32) -> bool {
    // A number that no process can have.
    let Some(process) = rustix::process::Pid::from_raw(process) else { return true };
    rustix::process::test_kill_process(process) == Err(rustix::io::Errno::SRCH)
}

/// Removes what dead processes left in a folder under temporary names. Looks into each folder once, because what other processes
/// leave later is removed by the next one.
pub fn remove_left(folder: &Path) {
    static SEEN: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.get_or_insert_default().insert(folder.to_path_buf()) {
        drop(seen);
        remove(folder, |_| true, YOUNGEST);
    }
}

/// Removes what dead processes left in a folder when they were about to replace the files with these names. It may be as young as it
/// likes: the caller knows that its process worked here alone.
pub fn remove_left_beside(folder: &Path, names: &[&OsStr]) {
    let prefixes: HashSet<Vec<u8>> = names.iter().map(|name| prefix(name)).collect();
    remove(folder, |prefix| prefixes.contains(prefix), Duration::ZERO);
}

fn remove(folder: &Path, is_meant: impl Fn(&[u8]) -> bool, youngest: Duration) {
    // Follows no link: a folder that became one was not written to.
    let Ok(dir) = Dir::open(folder) else { return };
    let mut found: Vec<OsString> = Vec::new();
    let mut left = MOST_ENTRIES;
    let listed = dir.list(|name, is_dir, _| {
        if !is_dir && parts(name).is_some_and(|(prefix, process)| is_meant(prefix) && is_dead(process)) {
            found.push(name.to_owned());
        }
        left -= 1;
        left > 0
    });
    if listed.is_err() {
        return;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    for name in found {
        let is_old = dir.stat(&name).is_ok_and(|stat| {
            let changed = u64::try_from(stat.st_mtime).unwrap_or(0);
            now.saturating_sub(changed) >= youngest.as_secs()
        });
        if is_old {
            // A file that cannot be removed harms nothing.
            let _ = dir.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    /// A number above the highest that Linux gives.
    const DEAD: &str = "4194399";

    #[test]
    fn names_are_new_and_say_whose_they_are() {
        let long = "x".repeat(250);
        for beside in ["a.rs", "", ".env", long.as_str()] {
            let (one, two) = (name(OsStr::new(beside)), name(OsStr::new(beside)));
            assert!(one != two && one.len() < 200, "{beside}");
            let (prefix_of_one, process) = parts(&one).unwrap();
            assert_eq!(prefix_of_one, prefix(OsStr::new(beside)));
            assert_eq!(process.cast_unsigned(), std::process::id());
            assert!(!is_dead(process));
            assert_eq!(parts(&copy_name(OsStr::new(beside))), None);
        }
        for other in [
            "a",
            ".a.becket-",
            ".a.becket-1",
            ".a.becket-1-",
            ".a.becket-x-1",
            "a.becket-1-2",
            ".a.becket-1-2x",
        ] {
            assert_eq!(parts(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn what_dead_processes_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let old = SystemTime::now() - 2 * YOUNGEST;
        let write = |name: &str, is_old: bool| {
            let file = File::create(folder.join(name)).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
        };
        let dead = [format!(".a.becket-{DEAD}-1"), format!(".b.c.becket-{DEAD}-22")];
        let kept = [
            format!(".a.becket-{}-1", std::process::id()),
            ".a.becket-1-1".to_owned(),
            format!(".a.becket-{DEAD}-1.copy"),
            format!("a.becket-{DEAD}-1"),
            ".a.becket-x".to_owned(),
            "a".to_owned(),
        ];
        let young = format!(".a.becket-{DEAD}-7");
        for name in dead.iter().chain(&kept) {
            write(name, true);
        }
        write(&young, false);
        fs::create_dir(folder.join(format!(".d.becket-{DEAD}-1"))).unwrap();
        remove_left(&folder);
        let names = || -> Vec<String> {
            let mut names: Vec<String> = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let mut want: Vec<String> =
            kept.iter().cloned().chain([young.clone(), format!(".d.becket-{DEAD}-1")]).collect();
        want.sort();
        assert_eq!(names(), want);
        // The caller knows whose it was.
        remove_left_beside(&folder, &[OsStr::new("b")]);
        assert_eq!(names(), want);
        remove_left_beside(&folder, &[OsStr::new("a")]);
        want.retain(|name| *name != young);
        assert_eq!(names(), want);
    }
}
