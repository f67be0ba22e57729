//! Linux: a control group (version 2) of its own for a command that runs longer than a moment.
//!
//! Membership is inherited and cannot be left, so whoever is in it is found and ended exactly, whatever it does to group,
//! session, parents and environment. Joining costs several milliseconds (the kernel stops every fork for it): hence not at
//! the start. Used where our own group, or one above it, may be written to by us; where the controllers for memory and
//! processes are on there, the kernel holds those limits too.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// How far above our own group one is looked for.
const ABOVE: usize = 3;

/// Where groups can be made.
#[derive(Debug)]
struct Base {
    directory: PathBuf,
    /// The controllers `memory` and `pids` are on below it.
    limits: bool,
}

/// Looked for once, when first needed.
fn base() -> Option<&'static Base> {
    static BASE: OnceLock<Option<Base>> = OnceLock::new();
    BASE.get_or_init(|| {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = Path::new(own.lines().find_map(|line| line.strip_prefix("0::/"))?);
        let mount = mounts.lines().find_map(mount_point)?;
        let usable = |group: &Path| {
            let directory = mount.join(group);
            let may =
                |name: &str| rustix::fs::access(directory.join(name), rustix::fs::Access::WRITE_OK).is_ok();
            (may("") && may("cgroup.procs")).then(|| {
                let on =
                    std::fs::read_to_string(directory.join("cgroup.subtree_control")).unwrap_or_default();
                let on = |name| on.split_whitespace().any(|word| word == name);
                Base { limits: on("memory") && on("pids"), directory }
            })
        };
        let all: Vec<Base> = own.ancestors().take(ABOVE).map_while(usable).collect();
        let with_limits = all.iter().position(|base| base.limits).unwrap_or(0);
        let base = all.into_iter().nth(with_limits)?;
        sweep(&base.directory);
        Some(base)
    })
    .as_ref()
}

/// Removes the empty groups that a becket left which is no more: killed, and its watcher with it.
pub(super) fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix("becket-")?.split_once('-')?.0.parse().ok());
        if owner.is_some_and(|pid: u32| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// The place of a line of `mountinfo`, if version 2 as a whole is mounted there.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (place, kind) = line.split_once(" - ")?;
    let mut fields = place.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    (kind.starts_with("cgroup2 ") && root == "/").then(|| PathBuf::from(point))
}

/// The group that is called `name`. Of the beginning of names it makes the beginning of paths.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    Some(base()?.directory.join(format!("becket-{name}")))
}

/// Whether there can be groups, and whether the kernel then holds limits.
pub(crate) fn available() -> Option<bool> {
    base().map(|base| base.limits)
}

/// One group. Removed when it is dropped, if nobody is left in it.
#[derive(Debug)]
pub(crate) struct Cgroup(PathBuf);

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Cgroup {
    /// `None` where there can be none.
    pub(crate) fn new(name: &str, tasks: u64, memory_bytes: u64) -> Option<Self> {
        let path = path(name)?;
        std::fs::create_dir(&path).ok()?;
        let group = Self(path);
        // Without it there is no ending everybody at once (kernels before 5.14).
        if !group.0.join("cgroup.kill").exists() {
            return None;
        }
        // What the kernel does not hold is watched all the same.
        for (name, value) in [
            ("pids.max", tasks.to_string()),
            ("memory.max", memory_bytes.to_string()),
            ("memory.oom.group", "1".into()),
        ] {
            if group.0.join(name).exists() {
                let _ = std::fs::write(group.0.join(name), value);
            }
        }
        Some(group)
    }

    pub(crate) fn join(&self, pid: i32) {
        let _ = std::fs::write(self.0.join("cgroup.procs"), pid.to_string());
    }

    pub(crate) fn members(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    pub(crate) fn kill(&self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// The kernel ended somebody in it because of its memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let events = std::fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        events.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|n| n != "0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_dead_are_swept_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id();
        // No kernel gives so high a number to a process.
        let dead = 1 << 23;
        let stale =
            [format!("becket-{dead}-1"), format!("becket-{dead}-pids-2"), format!("becket-{dead}-full")];
        let kept =
            [format!("becket-{own}-1"), "becket-x-1".into(), format!("becket-{dead}"), format!("{dead}-1")];
        for name in stale.iter().chain(&kept) {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        // Somebody in it.
        std::fs::create_dir(dir.path().join(format!("becket-{dead}-full/inner"))).unwrap();
        sweep(dir.path());
        let left =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<String> = left.collect();
        left.sort();
        let mut want = [&kept[..], &stale[2..]].concat();
        want.sort();
        assert_eq!(left, want);
    }
}
