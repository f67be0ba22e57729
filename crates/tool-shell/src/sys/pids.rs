//! Linux, version 1 of control groups: a limit on the number of processes, from the start of a command.
//!
//! A group of the `pids` controller limits the number of its processes and lists them all, whatever they do to their
//! process group, session, parents and environment. So the kernel stops even a command that forks new sessions faster than
//! becket can look. The shell enters the group by itself before it runs the command. This is used if the controller is
//! writable and version 2 does not enforce the limit.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// becket's own group of the controller, if groups can be created in it.
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

/// Reads the mount point from a line of `mountinfo`, if it mounts the controller's whole hierarchy.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (place, kind) = line.split_once(" - ")?;
    let mut fields = place.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let options = kind.strip_prefix("cgroup ")?.split(' ').nth(1)?;
    (root == "/" && options.split(',').any(|name| name == "pids")).then(|| PathBuf::from(point))
}

/// Path of the group called `name`. With a prefix of a name, returns a prefix of the path.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    Some(base()?.join(format!("becket-{name}")))
}

/// Groups that could not be removed yet, because they still contained zombies.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn left() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One control group. Dropping it removes it, or the next [`Pids::new`] does if it still contains zombies.
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
    /// Creates a group; `None` if the system does not allow it. Its limit is a little above `tasks`, so that the sentry can
    /// see when a command exceeds `tasks`.
    pub(crate) fn new(name: &str, tasks: u64) -> Option<Self> {
        let path = path(name)?;
        left().retain(|path| std::fs::remove_dir(path).is_err() && path.exists());
        std::fs::create_dir(&path).ok()?;
        let group = Self { path, most: tasks.saturating_add(tasks / 8 + 8) };
        group.allow(group.most).then_some(group)
    }

    /// A process that writes its number into this file joins the group.
    pub(crate) fn entrance(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    fn allow(&self, most: u64) -> bool {
        std::fs::write(self.path.join("pids.max"), most.to_string()).is_ok()
    }

    /// Keeps the processes of the group from starting others until [`Pids::open`].
    pub(crate) fn close(&self) {
        self.allow(0);
    }

    pub(crate) fn open(&self) {
        self.allow(self.most);
    }

    /// Number of processes and threads in the group, as the kernel counts them.
    pub(crate) fn tasks(&self) -> Option<u64> {
        std::fs::read_to_string(self.path.join("pids.current")).ok()?.trim().parse().ok()
    }

    pub(crate) fn members(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.entrance()).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}
