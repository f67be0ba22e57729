//! Converts a policy to arguments of bubblewrap. The file system of the command is built mount by mount, parents first.
//!
//! A name in the workspace that does not exist yet cannot be made read-only here without creating it. Such names are
//! checked after the command.
//!
//! bubblewrap follows links in the paths that it is given. Another confined command can swap a folder of the workspace for a link
//! after becket has examined it and before bubblewrap mounts it. So folders and files inside a writable folder are opened here
//! without following a link, and mounted as what was opened. [`arguments`] returns each mount with device and inode of its file:
//! before the command starts, the second step of the helper compares them with the files that it finds. An older bubblewrap, which
//! takes only paths, has only this check.

use crate::policy::{Network, Policy};
use becket_types::SandboxLevel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The mount for one path. If a path would get several mounts, the variant that is declared later wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mount {
    /// The same content as outside, read-only.
    Read,
    /// The same content as outside, writable. A mount can be neither renamed nor removed, so this also pins a folder.
    Write,
    /// Inside a writable folder, but read-only.
    Protect,
    /// An empty file or folder in place of the content.
    Hide,
}

/// A function that describes a path without following a link; `None` if the path does not exist.
pub(crate) type Look<'a> = &'a dyn Fn(&Path) -> Option<Metadata>;

/// A function that opens a path without following a link, for bubblewrap. Returns the number of the open file, or `None` if this
/// bubblewrap takes only paths.
pub(crate) type Open<'a> = &'a dyn Fn(&Path) -> std::io::Result<Option<i32>>;

/// A path at which bubblewrap mounts something, with device and inode of the file that was there when the arguments were made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MountPoint {
    #[serde(with = "crate::policy::lossless::one")]
    path: PathBuf,
    device: u64,
    file: u64,
    is_hidden: bool,
}

impl MountPoint {
    /// True if the expected file is at the path: the same file as before or, if the path is hidden, another file.
    fn is_as_expected(&self) -> bool {
        self.path
            .symlink_metadata()
            .is_ok_and(|meta| (meta.dev() == self.device && meta.ino() == self.file) != self.is_hidden)
    }
}

/// Checks, inside the mounts, that bubblewrap has mounted the expected files.
///
/// # Errors
///
/// Returns the reason if a path is another file than before.
pub(crate) fn check(mounted: &[MountPoint]) -> Result<(), String> {
    match mounted.iter().find(|one| !one.is_as_expected()) {
        None => Ok(()),
        Some(one) => Err(replaced(&one.path)),
    }
}

/// Returns the arguments before the command, and the mounts that they ask for. The command is a helper that checks the mounts
/// and applies the filter of system calls. `program`: its path, if nothing else makes it visible.
pub(crate) fn arguments(
    policy: &Policy,
    program: Option<&Path>,
    look: Look<'_>,
    open: Open<'_>,
) -> Result<(Vec<OsString>, Vec<MountPoint>), String> {
    let mut out: Vec<OsString> = Vec::new();
    let (mut mounted, mut hidden) = (Vec::new(), Vec::new());
    let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| {
        out.extend(words.iter().map(|word| word.as_ref().to_owned()));
    };
    let whole = policy.read.iter().any(|path| path == Path::new("/"));
    add(&[&"--unshare-user", &"--disable-userns"]);
    if policy.level == SandboxLevel::DenyRules {
        // The command sees and signals the user's processes. The kernel does not let it look through their view of the files
        // (`/proc/PID/root`), because they are in another user namespace.
        add(&[&"--dev-bind", &"/", &"/"]);
    } else {
        for flag in ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"] {
            add(&[&flag]);
        }
        if policy.network != Network::Full {
            add(&[&"--unshare-net"]);
        }
        if whole {
            add(&[&"--ro-bind", &"/", &"/"]);
        }
        // Without this, a command that runs as root could write settings of the kernel below `/proc/sys` without any capability.
        add(&[&"--proc", &"/proc", &"--remount-ro", &"/proc", &"--dev", &"/dev"]);
    }
    for (path, mount) in mounts(policy, look) {
        let Some(meta) = look(&path) else { continue };
        let kind = meta.file_type();
        match mount {
            Mount::Read if kind.is_symlink() => {
                let Ok(target) = std::fs::read_link(&path) else { continue };
                add(&[&"--symlink", &target, &path]);
                continue;
            }
            // bubblewrap would mount the target of the link. Paths that may be written are given without links.
            Mount::Write | Mount::Protect if kind.is_symlink() => continue,
            Mount::Write | Mount::Protect if is_inside(policy, &path) => {
                let opened = open(&path).map_err(|_| replaced(&path))?;
                let (by_number, by_path) = match mount {
                    Mount::Write => ("--bind-fd", "--bind-try"),
                    _ => ("--ro-bind-fd", "--ro-bind-try"),
                };
                match opened {
                    Some(number) => add(&[&by_number, &number.to_string(), &path]),
                    None => add(&[&by_path, &path, &path]),
                }
            }
            Mount::Read | Mount::Protect => add(&[&"--ro-bind-try", &path, &path]),
            Mount::Write => add(&[&"--bind-try", &path, &path]),
            Mount::Hide if kind.is_dir() => {
                add(&[&"--tmpfs", &path]);
                hidden.push(path.clone());
            }
            Mount::Hide => add(&[&"--ro-bind", &"/dev/null", &path]),
        }
        let (device, file) = (meta.dev(), meta.ino());
        mounted.push(MountPoint { path, device, file, is_hidden: mount == Mount::Hide });
    }
    // Only now, because bubblewrap must first create mount points for paths that are visible inside a hidden folder.
    for path in hidden {
        add(&[&"--remount-ro", &path]);
    }
    if let Some(program) = program {
        add(&[&"--ro-bind", &program, &program]);
    }
    if !whole {
        add(&[&"--remount-ro", &"/"]);
    }
    add(&[&"--"]);
    Ok((out, mounted))
}

/// True if commands can put another folder or a link in the place of a path.
fn is_inside(policy: &Policy, path: &Path) -> bool {
    policy.write.iter().any(|root| path != root && path.starts_with(root))
}

fn replaced(path: &Path) -> String {
    format!("{} was replaced in this moment; run the command again", path.display())
}

fn mounts(policy: &Policy, look: Look<'_>) -> BTreeMap<PathBuf, Mount> {
    let mut out: BTreeMap<PathBuf, Mount> = BTreeMap::new();
    let mut put = |path: &Path, mount: Mount| {
        let now = out.entry(path.to_path_buf()).or_insert(mount);
        *now = (*now).max(mount);
    };
    // The kernel's files come with the new `/proc`, and devices with the new `/dev`, so they need no mounts.
    let kernel =
        |path: &Path| path.starts_with("/proc") || path.starts_with("/dev") || path == Path::new("/");
    for path in policy.read.iter().filter(|path| !kernel(path)) {
        put(path, Mount::Read);
    }
    // At the level of deny rules, everything is mounted writable already.
    let is_mounted = policy.level == SandboxLevel::DenyRules;
    for path in
        policy.write.iter().filter(|path| !is_mounted && (!kernel(path) || path.starts_with("/dev/shm")))
    {
        put(path, Mount::Write);
    }
    if policy.level != SandboxLevel::ReadOnly {
        for path in policy.protected.iter().chain(&policy.deny_write) {
            pin(policy, path, Mount::Protect, look, &mut put);
        }
    }
    for path in &policy.unix_sockets {
        put(path, Mount::Write);
    }
    for path in &policy.deny_read {
        // If a command could rename the folder of a hidden path, the next command would find the content under the new name.
        pin(policy, path, Mount::Hide, look, &mut put);
        put(path, Mount::Hide);
    }
    out
}

/// Puts `mount` at a path that may be written, and keeps the folders above it from being renamed. Otherwise another folder could
/// be put in their place. Stops at a link, because the target of a link is another path.
fn pin(policy: &Policy, path: &Path, mount: Mount, look: Look<'_>, put: &mut dyn FnMut(&Path, Mount)) {
    let Some(root) =
        policy.write.iter().filter(|root| path.starts_with(root)).max_by_key(|r| r.as_os_str().len())
    else {
        return;
    };
    let mut way: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| *dir != root).collect();
    if root == Path::new("/") {
        // Outside of the workspace, only the place itself: a home folder that is a mount of its own could not be linked across.
        way.clear();
    }
    way.reverse();
    for dir in way {
        match look(dir) {
            Some(meta) if meta.is_dir() => put(dir, Mount::Write),
            _ => return,
        }
    }
    if look(path).is_some_and(|meta| !meta.is_symlink()) {
        put(path, mount);
    }
}
