//! Linux, version 1 of control groups: a limit on processes that a command is born into.
//!
//! A group of the `pids` controller can do two things: nobody in it starts more processes than its limit, and whoever is in it is
//! known, whatever it does to group, session, parents and environment. So what starts sessions of its own faster than anybody can
//! look is held by the kernel. The shell enters it by itself before it runs the command. Used where that controller may be written
//! to and version 2 does not hold the limit.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Our own group of the controller, if groups can be made in it.
fn base() -> Option<&'static Path> {
    static BASE: OnceLock<Option<PathBuf>> = OnceLock::new();
    BASE.get_or_init(|| {
        if super::cgroups() == Some(true) {
            return None;
        }
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == "pids").then(|| path.trim_start_matches('/').to_owned())
        })?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let directory = mounts.lines().find_map(mount_point)?.join(own);
        let may = |name: &str| rustix::fs::access(directory.join(name), rustix::fs::Access::WRITE_OK).is_ok();
        (may("") && may("cgroup.procs")).then(|| {
            super::cgroup::sweep(&directory);
            directory
        })
    })
    .as_deref()
}

/// The place of a line of `mountinfo`, if the controller as a whole is mounted there.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (place, kind) = line.split_once(" - ")?;
    let mut fields = place.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let options = kind.strip_prefix("cgroup ")?.split(' ').nth(1)?;
    (root == "/" && options.split(',').any(|name| name == "pids")).then(|| PathBuf::from(point))
}

/// The group that is called `name`. Of the beginning of names it makes the beginning of paths.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    Some(base()?.join(format!("becket-{name}")))
}

/// Groups that could not be removed yet, because somebody in them was not collected.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn left() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One group. Removed when it is dropped, or soon after.
#[derive(Debug)]
pub(crate) struct Pids {
    path: PathBuf,
    most: u64,
}

impl Drop for Pids {
    fn drop(&mut self) {
        if std::fs::remove_dir(&self.path).is_err() {
            left().push(std::mem::take(&mut self.path));
        }
    }
}

impl Pids {
    /// `None` where there can be none. A little more than `tasks`, so that passing that can be seen.
    pub(crate) fn new(name: &str, tasks: u64) -> Option<Self> {
        let path = path(name)?;
        left().retain(|path| std::fs::remove_dir(path).is_err() && path.exists());
        std::fs::create_dir(&path).ok()?;
        let group = Self { path, most: tasks.saturating_add(tasks / 8 + 8) };
        group.allow(group.most).then_some(group)
    }

    /// Whoever writes its number here is in it.
    pub(crate) fn entrance(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    fn allow(&self, most: u64) -> bool {
        std::fs::write(self.path.join("pids.max"), most.to_string()).is_ok()
    }

    /// Nobody in it starts anything until [`Pids::open`].
    pub(crate) fn close(&self) {
        self.allow(0);
    }

    pub(crate) fn open(&self) {
        self.allow(self.most);
    }

    /// Processes and threads in it, as the kernel counts them.
    pub(crate) fn tasks(&self) -> Option<u64> {
        std::fs::read_to_string(self.path.join("pids.current")).ok()?.trim().parse().ok()
    }

    pub(crate) fn members(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.entrance()).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}
