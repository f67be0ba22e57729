//! A policy as arguments of bubblewrap: what the command sees of the file system is put together mount by mount, parents
//! first.
//!
//! Names in the workspace that do not exist yet cannot be made read-only here without creating them; they are looked at
//! after the command.

use crate::policy::{Network, Policy};
use becket_types::SandboxLevel;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::FileType;
use std::path::{Path, PathBuf};

/// The treatment of one place. A later one is stronger than an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mount {
    /// As outside, read-only.
    Read,
    /// As outside, writable. Being a mount, it can be neither renamed nor removed.
    Write,
    /// Inside something writable, but read-only.
    Protect,
    /// Empty.
    Hide,
}

/// Looks at a place without following a link; `None` if nothing is there.
pub(crate) type Look<'a> = &'a dyn Fn(&Path) -> Option<FileType>;

/// The arguments up to the command. `filter`: the number of an open file with the seccomp filter; without it, the command is a
/// helper that applies the filter itself.
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

/// Makes a place read-only, and holds the folders on the way to it where they are: else a folder could be renamed, and
/// another one put in its place. A link on the way ends it: what the link leads to is another place.
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
