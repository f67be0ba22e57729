//! Converts a policy to arguments of bubblewrap. The file system of the command is built mount by mount, parents first.
//!
//! A name in the workspace that does not exist yet cannot be made read-only here without creating it. Such names are
//! checked after the command.

use crate::policy::{Network, Policy};
use becket_types::SandboxLevel;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::FileType;
use std::path::{Path, PathBuf};

/// The mount for one path. Of several for the same path, the later variant wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mount {
    /// The same content as outside, read-only.
    Read,
    /// The same content as outside, writable. Because it is a mount, it can be neither renamed nor removed.
    Write,
    /// Inside a writable folder, but read-only.
    Protect,
    /// An empty file or folder in place of the content.
    Hide,
}

/// A function that returns the type of a path without following a link; `None` if the path does not exist.
pub(crate) type Look<'a> = &'a dyn Fn(&Path) -> Option<FileType>;

/// Returns the arguments before the command. `filter`: the number of an open file with the seccomp filter. Without it,
/// the command is a helper that applies the filter itself.
pub(crate) fn arguments(policy: &Policy, filter: Option<i32>, look: Look<'_>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| {
        out.extend(words.iter().map(|word| word.as_ref().to_owned()));
    };
    for flag in ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    {
        add(&[&flag]);
    }
    add(&[&"--disable-userns"]);
    if policy.network != Network::Full {
        add(&[&"--unshare-net"]);
    }
    let whole = policy.read.iter().any(|path| path == Path::new("/"));
    if whole {
        add(&[&"--ro-bind", &"/", &"/"]);
    }
    // For root, settings of the kernel below `/proc/sys` would be writable without any capability.
    add(&[&"--proc", &"/proc", &"--remount-ro", &"/proc", &"--dev", &"/dev"]);
    for (path, mount) in mounts(policy, look) {
        let Some(kind) = look(&path) else { continue };
        match mount {
            Mount::Read if kind.is_symlink() => {
                let Ok(target) = std::fs::read_link(&path) else { continue };
                add(&[&"--symlink", &target, &path]);
            }
            Mount::Read | Mount::Protect => add(&[&"--ro-bind-try", &path, &path]),
            Mount::Write => add(&[&"--bind-try", &path, &path]),
            Mount::Hide if kind.is_dir() => add(&[&"--tmpfs", &path, &"--remount-ro", &path]),
            Mount::Hide => add(&[&"--ro-bind", &"/dev/null", &path]),
        }
    }
    if !whole {
        add(&[&"--remount-ro", &"/"]);
    }
    if let Some(filter) = filter {
        add(&[&"--seccomp", &filter.to_string()]);
    }
    add(&[&"--"]);
    out
}

fn mounts(policy: &Policy, look: Look<'_>) -> BTreeMap<PathBuf, Mount> {
    let mut out: BTreeMap<PathBuf, Mount> = BTreeMap::new();
    let mut put = |path: &Path, mount: Mount| {
        let now = out.entry(path.to_path_buf()).or_insert(mount);
        *now = (*now).max(mount);
    };
    // Kernel files come with the new `/proc`; devices with the new `/dev`.
    let kernel =
        |path: &Path| path.starts_with("/proc") || path.starts_with("/dev") || path == Path::new("/");
    for path in policy.read.iter().filter(|path| !kernel(path)) {
        put(path, Mount::Read);
    }
    for path in policy.write.iter().filter(|path| !kernel(path) || path.starts_with("/dev/shm")) {
        put(path, Mount::Write);
    }
    if policy.level == SandboxLevel::Workspace {
        for path in policy.protected.iter().chain(&policy.deny_write) {
            pin(policy, path, look, &mut put);
        }
    }
    for path in &policy.deny_read {
        put(path, Mount::Hide);
    }
    out
}

/// Makes a path read-only, and keeps the folders above it from being renamed. Otherwise another folder could be put in
/// their place. Stops at a link, because the target of a link is another path.
fn pin(policy: &Policy, path: &Path, look: Look<'_>, put: &mut dyn FnMut(&Path, Mount)) {
    let Some(root) =
        policy.write.iter().filter(|root| path.starts_with(root)).max_by_key(|r| r.as_os_str().len())
    else {
        return;
    };
    let mut way: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| *dir != root).collect();
    way.reverse();
    for dir in way {
        match look(dir) {
            Some(kind) if kind.is_dir() => put(dir, Mount::Write),
            _ => return,
        }
    }
    if look(path).is_some_and(|kind| !kind.is_symlink()) {
        put(path, Mount::Protect);
    }
}
