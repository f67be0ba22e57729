//! Local services: which sockets in the file system a command must not reach if it may reach some.
//!
//! The filter of system calls sees no paths. A command that may open Unix sockets could connect to every service of the machine.
//! Some of them would make it root, or run programs outside of the sandbox. So the folder in which services keep their sockets is
//! hidden, and every other socket that the kernel lists is hidden by itself. The sockets that the user names are put back.
//!
//! Limits: a service that opens a socket outside of that folder while the command runs is not hidden, and neither is one that
//! opened its socket by a relative path or in another network namespace.

use crate::policy::Policy;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// The kernel's list of sockets of this network namespace.
const LIST: &str = "/proc/net/unix";
/// Folders of services. The second one is a link to the first on most systems.
const FOLDERS: [&str; 2] = ["/run", "/var/run"];
/// Maximum number of sockets that are hidden one by one.
const MOST: usize = 2_000;

/// Hides all local services but those that the policy names. Does nothing for a policy that names none.
pub(crate) fn hide_others(policy: &mut Policy) -> Result<(), String> {
    if policy.unix_sockets.is_empty() {
        return Ok(());
    }
    let list = std::fs::read(LIST).map_err(|e| format!("{LIST}: {e}"))?;
    let folders = FOLDERS.iter().map(PathBuf::from).filter(|folder| is_own_folder(folder));
    let folders: Vec<PathBuf> = folders.collect();
    // A workspace in such a folder stays visible; its sockets are hidden one by one.
    let hidden = |folder: &&PathBuf| !policy.write.iter().any(|place| place.starts_with(folder));
    let folders: Vec<PathBuf> = folders.iter().filter(hidden).cloned().collect();
    let sockets = listed(&list).filter_map(|path| path.canonicalize().ok());
    let mut others: Vec<PathBuf> = sockets
        .filter(|path| path.metadata().is_ok_and(|meta| meta.file_type().is_socket()))
        .filter(|path| !policy.unix_sockets.contains(path) && !folders.iter().any(|f| path.starts_with(f)))
        .collect();
    others.sort();
    others.dedup();
    if others.len() > MOST {
        return Err(format!("there are more than {MOST} sockets of local services to hide"));
    }
    policy.deny_read.extend(others);
    policy.deny_read.extend(folders);
    // Looking up host names needs this file. It is often a link to a file beside a socket, in a folder that is hidden now.
    policy.read.extend(Path::new("/etc/resolv.conf").canonicalize());
    Ok(())
}

fn is_own_folder(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

/// The absolute paths in the kernel's list. Sockets without a file are left out; their names begin with `@`.
fn listed(list: &[u8]) -> impl Iterator<Item = PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    list.split(|byte| *byte == b'\n').filter_map(|line| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        // Each column before the path is a number or ends with a colon.
        line[..start]
            .ends_with(b" ")
            .then(|| Path::new(std::ffi::OsStr::from_bytes(&line[start..])).to_path_buf())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_with_a_path_are_listed() {
        let text = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 12345 /tmp/a b/sock\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 12346 @/tmp/abstract\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 12347\n\
            0000000000000000: 00000002 00000000 00010000 0005 01 12348 /run/other\n";
        let found: Vec<PathBuf> = listed(text).collect();
        assert_eq!(found, [PathBuf::from("/tmp/a b/sock"), PathBuf::from("/run/other")]);
    }
}
