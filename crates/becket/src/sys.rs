//! Facts that the operating system knows about files and pipes. Owns the rules for managed files, which bind the user
//! of this machine, and for files that only their owner may read.

use std::path::Path;

/// Returns the reason if a managed file must not be believed: it must belong to root, and nobody else may be able to
/// write it.
pub(crate) fn distrusted(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let file = std::fs::metadata(path).ok()?;
        judge(file.uid(), file.gid(), file.mode())
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

/// Hides input at the terminal until this is dropped.
pub(crate) struct Hidden {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl Hidden {
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
impl Drop for Hidden {
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
        return Some(format!("others than root can write it (mode {:03o}); chmod go-w", mode & 0o777));
    }
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_root_alone_writes_is_believed() {
        for (owner, group, mode, want) in [
            (0, 0, 0o100_644, None),
            (0, 0, 0o100_664, None),
            (0, 50, 0o100_644, None),
            (0, 50, 0o100_664, Some("others than root can write it (mode 664); chmod go-w")),
            (0, 0, 0o100_646, Some("others than root can write it (mode 646); chmod go-w")),
            (1000, 0, 0o100_644, Some("it belongs to user 1000; make it root's (chown root)")),
        ] {
            assert_eq!(judge(owner, group, mode).as_deref(), want, "{owner} {group} {mode:o}");
        }
    }
}
