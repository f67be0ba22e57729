//! Linux: a control group (version 2) of its own for a command that runs longer than a moment.
//!
//! Children inherit the membership and cannot leave, so every process in the group can be found and killed, whatever it does to its
//! process group, session, parents and environment. Joining costs several milliseconds, because the kernel stops every fork for it;
//! so a command does not join at its start. This needs write access to becket's own control group or to one above it. If the
//! controllers for memory and processes are enabled there, the kernel enforces those limits too.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Number of control groups that are tried as parent: becket's own, and the ones above it.
const ABOVE: usize = 3;

/// The control group in which new groups are created.
#[derive(Debug)]
struct Base {
    directory: PathBuf,
    /// True if the controllers `memory` and `pids` are enabled for groups below this one.
    limits: bool,
}

/// Found once, when first needed.
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

/// Removes empty groups that becket processes left because they were killed together with their watcher.
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

/// Reads the mount point from a line of `mountinfo`, if it mounts the whole version 2 hierarchy.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (place, kind) = line.split_once(" - ")?;
    let mut fields = place.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    (kind.starts_with("cgroup2 ") && root == "/").then(|| PathBuf::from(point))
}

/// Path of the group called `name`. With a prefix of a name, returns a prefix of the path.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    Some(base()?.directory.join(format!("becket-{name}")))
}

/// `None` if groups cannot be created; otherwise true if the kernel enforces limits in them.
pub(crate) fn available() -> Option<bool> {
    base().map(|base| base.limits)
}

/// One control group. Dropping it removes it if it is empty.
#[derive(Debug)]
pub(crate) struct Cgroup(PathBuf);

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Cgroup {
    /// Creates the group with these limits. `None` if the system does not allow it.
    pub(crate) fn new(name: &str, tasks: u64, memory_bytes: u64) -> Option<Self> {
        let path = path(name)?;
        std::fs::create_dir(&path).ok()?;
        let group = Self(path);
        // Kernels before 5.14 cannot kill a whole group at once. Without that, the group brings nothing.
        if !group.0.join("cgroup.kill").exists() {
            return None;
        }
        // If a file is missing, the kernel does not enforce that limit, but the sentry does.
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

    /// True if the kernel killed a process of the group because of its memory.
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
        // A process is still in the group.
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
