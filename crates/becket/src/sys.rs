//! Facts that the operating system knows about files and pipes. Owns the rules for managed files, which bind the user
//! of this machine, for files that only their owner may read, and for folders that other users may have prepared.

use std::path::{Path, PathBuf};

/// Hides the memory of this process, and the variables with which it was started, from other processes of the same user.
/// A command that becket runs could otherwise read keys from `/proc/PID/environ`. Root can still read them.
pub(crate) fn hide_from_others() {
    #[cfg(target_os = "linux")]
    {
        // An error is ignored: becket works without this protection.
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }
}

/// Returns the reason if a managed file must not be believed: the file and each folder on the way to it must belong to
/// root, and nobody else may be able to write them. A user who can write a folder can exchange its files.
pub(crate) fn distrusted(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let file = std::fs::metadata(path).ok()?;
        if let Some(why) = judge(file.uid(), file.gid(), file.mode()) {
            return Some(why);
        }
        // If the path has links in it, both the folders of the links and those of the file count.
        let real = path.canonicalize().ok();
        let folders =
            [Some(path), real.as_deref()].into_iter().flatten().flat_map(|path| path.ancestors().skip(1));
        folders.filter(|folder| !folder.as_os_str().is_empty()).find_map(|folder| {
            let meta = std::fs::metadata(folder).ok()?;
            // With the sticky bit, others can add files to a folder, but cannot exchange those of root.
            let mode = if meta.mode() & 0o1000 != 0 { meta.mode() & !0o022 } else { meta.mode() };
            let why = judge(meta.uid(), meta.gid(), mode)?;
            Some(format!("its folder {} is not safe: {why}", folder.display()))
        })
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// True if others than the owner can read or write a file. A missing file is open to nobody.
pub(crate) fn open_to_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(path).is_ok_and(|file| file.mode() & 0o077 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Creates a file that only this user can read, and fails if there is one.
pub(crate) fn new_private_file(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns the reason if users other than this one and root may have written what is at `path`.
///
/// Only paths in shared folders, which everybody can write (`/tmp`), are judged: there, each existing folder on the
/// way must belong to this user or root, and nobody else may be able to write it. Elsewhere, the administrator of the
/// machine has decided who can write.
pub(crate) fn written_by_others(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        let own = rustix::process::geteuid().as_raw();
        shared::judge(path, own).or_else(|| {
            // Most paths have no link, and are their real paths already.
            if !shared::has_link(path) {
                return None;
            }
            let real = path.ancestors().find_map(|dir| dir.canonicalize().ok())?;
            shared::judge(&real, own)
        })
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Creates a folder for temporary files that only this user can read and write. It has the same name in each run, so
/// that a later run finds the data, unless another user has taken that name.
pub(crate) fn private_temp_dir() -> PathBuf {
    let temp = std::env::temp_dir();
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
        let own = rustix::process::geteuid().as_raw();
        let named = temp.join(format!("becket-{own}"));
        let private = |path: &Path| {
            path.symlink_metadata()
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == own && meta.mode() & 0o777 == 0o700)
        };
        let _ = std::fs::DirBuilder::new().mode(0o700).create(&named);
        if private(&named) {
            return named;
        }
        let mode = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("becket-").permissions(mode).tempdir_in(&temp);
        // If no folder can be made, returns a name that does not exist, so that writing into it reports the error.
        made.map_or_else(|_| temp.join("becket-none"), tempfile::TempDir::keep)
    }
    #[cfg(not(unix))]
    {
        temp.join("becket")
    }
}

#[cfg(unix)]
mod shared {
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    /// True if an existing component of `path` is a link, or cannot be judged.
    pub(super) fn has_link(path: &Path) -> bool {
        let is_plain = |at: &Path| match at.symlink_metadata() {
            Ok(meta) => !meta.is_symlink(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        !path.ancestors().all(is_plain)
    }

    /// Judges each existing component of a path.
    pub(super) fn judge(path: &Path, own: u32) -> Option<String> {
        let mut all: Vec<&Path> = path.ancestors().collect();
        all.reverse();
        let mut shared = false;
        for at in all {
            // A component that is missing or cannot be reached is read by nobody.
            let meta = at.symlink_metadata().ok()?;
            let (owner, mode) = (meta.uid(), meta.mode());
            if shared && owner != own && owner != 0 {
                return Some(format!("{} belongs to user {owner}", at.display()));
            }
            // The mode of a link says nothing; its target is judged separately.
            if !meta.is_dir() {
                continue;
            }
            let open = mode & 0o002 != 0;
            let sticky = mode & 0o1000 != 0;
            let writable = mode & 0o022 != 0;
            if open && !sticky || !open && shared && writable {
                return Some(format!("other users can write {}; run chmod go-w", at.display()));
            }
            // Nobody else gets through a folder without rights for others.
            if owner == own && mode.trailing_zeros() >= 6 {
                return None;
            }
            shared |= open;
        }
        None
    }
}

/// Ends a process that this one started and has not waited for.
pub(crate) fn kill(id: u32) {
    #[cfg(unix)]
    if let Some(id) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = id;
}

/// Hides input at the terminal until this is dropped.
pub(crate) struct HiddenInput {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl HiddenInput {
    #[cfg(unix)]
    pub(crate) fn start() -> std::io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self { before })
    }

    #[cfg(not(unix))]
    pub(crate) fn start() -> std::io::Result<Self> {
        Ok(Self {})
    }
}

#[cfg(unix)]
impl Drop for HiddenInput {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// True if the other end of the standard output is closed, so nobody reads the output.
pub(crate) fn reader_gone() -> bool {
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let stdout = std::io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
            && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }
    #[cfg(not(unix))]
    {
        false
    }
}

#[cfg(unix)]
fn judge(owner: u32, group: u32, mode: u32) -> Option<String> {
    if owner != 0 {
        return Some(format!("it belongs to user {owner}; make it root's (chown root)"));
    }
    let by_group = mode & 0o020 != 0 && group != 0;
    if by_group || mode & 0o002 != 0 {
        return Some(format!("users other than root can write it (mode {:03o}); chmod go-w", mode & 0o777));
    }
    None
}

#[cfg(all(test, unix))]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// True if other users can get to the folder around `path`.
    pub(crate) fn reachable(path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        path.ancestors().skip(1).all(|dir| dir.metadata().is_ok_and(|meta| meta.mode() & 0o001 != 0))
    }

    /// Modes are octal; the folder around all of them is open to everybody, as `/tmp`.
    #[test]
    fn what_another_user_prepared_in_a_shared_folder_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let base = dir.path().canonicalize().unwrap();
        if !reachable(&base) {
            eprintln!("skipped: nobody else can reach the folder for temporary files");
            return;
        }
        let shared = base.join("tmp");
        std::fs::create_dir(&shared).unwrap();
        mode(&base, 0o755);
        mode(&shared, 0o1777);
        let at = |path: &str| shared.join(path);
        std::fs::create_dir_all(at("mine/.config/becket")).unwrap();
        std::fs::create_dir_all(at("group/becket")).unwrap();
        std::fs::create_dir_all(at("private/open/becket")).unwrap();
        mode(&at("mine"), 0o755);
        mode(&at("mine/.config"), 0o755);
        mode(&at("mine/.config/becket"), 0o755);
        mode(&at("group"), 0o775);
        mode(&at("private/open"), 0o777);
        mode(&at("private"), 0o700);
        symlink(at("mine"), at("link")).unwrap();
        let judged = |path: &str| written_by_others(&at(path));
        for path in
            ["missing/becket", "mine/.config/becket", "link/.config/becket", "private/open/becket", ""]
        {
            assert_eq!(judged(path), None, "{path}");
        }
        assert!(
            judged("group/becket").unwrap().starts_with("other users can write"),
            "{:?}",
            judged("group/becket")
        );
        assert_eq!(written_by_others(Path::new("/etc/becket")), None);
        mode(&shared, 0o777);
        assert!(
            judged("mine/.config/becket").is_some(),
            "without the sticky bit, everything can be replaced"
        );
        mode(&shared, 0o1777);
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can create the files of another user");
            return;
        }
        std::fs::create_dir_all(at("other/becket")).unwrap();
        std::fs::create_dir_all(at("half/becket")).unwrap();
        symlink(at("mine"), at("planted")).unwrap();
        symlink(at("other"), at("to-other")).unwrap();
        mode(&at("half"), 0o755);
        chown(at("other"), Some(54_321), None).unwrap();
        chown(at("half/becket"), Some(54_321), None).unwrap();
        std::os::unix::fs::lchown(at("planted"), Some(54_321), None).unwrap();
        for path in ["other/becket", "other", "half/becket", "planted/.config/becket", "to-other/becket"] {
            assert!(judged(path).unwrap().ends_with("belongs to user 54321"), "{path}: {:?}", judged(path));
        }
    }

    #[test]
    fn a_managed_file_is_believed_only_in_folders_that_root_alone_writes() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (folder, file) = (base.join("becket"), base.join("becket/config.toml"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&file, 0o644);
        mode(&folder, 0o755);
        if !rustix::process::geteuid().is_root() {
            assert!(distrusted(&file).unwrap().contains("belongs to user"));
            eprintln!("skipped: only root can create a file that is believed");
            return;
        }
        assert_eq!(distrusted(&file), None);
        let says = |path: &Path, part: &str| {
            let why = distrusted(path).unwrap_or_default();
            assert!(why.contains(part), "{}: {why:?}", path.display());
        };
        mode(&folder, 0o777);
        says(&file, "becket is not safe: users other than root can write it (mode 777)");
        // A link elsewhere does not hide the folder, and a folder of a link counts as well.
        symlink(&file, base.join("link.toml")).unwrap();
        says(&base.join("link.toml"), "becket is not safe");
        mode(&folder, 0o1777);
        assert_eq!(distrusted(&file), None, "others cannot exchange the file");
        mode(&folder, 0o755);
        mode(&base, 0o777);
        says(&file, "is not safe: users other than root can write it (mode 777)");
        mode(&base, 0o755);
        chown(&folder, Some(54_321), None).unwrap();
        says(&file, "becket is not safe: it belongs to user 54321");
        chown(&folder, Some(0), Some(54_321)).unwrap();
        mode(&folder, 0o775);
        says(&file, "(mode 775)");
        mode(&folder, 0o755);
        mode(&file, 0o666);
        says(&file, "users other than root can write it (mode 666)");
    }

    #[test]
    fn only_a_file_that_root_alone_writes_is_believed() {
        for (owner, group, mode, want) in [
            (0, 0, 0o100_644, None),
            (0, 0, 0o100_664, None),
            (0, 50, 0o100_644, None),
            (0, 50, 0o100_664, Some("users other than root can write it (mode 664); chmod go-w")),
            (0, 0, 0o100_646, Some("users other than root can write it (mode 646); chmod go-w")),
            (1000, 0, 0o100_644, Some("it belongs to user 1000; make it root's (chown root)")),
        ] {
            assert_eq!(judge(owner, group, mode).as_deref(), want, "{owner} {group} {mode:o}");
        }
    }
}
