//! Reads the terminal's bytes when the system reports that there are some. Never waits.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

/// Source of keys: the standard input if it is a terminal, else the process's controlling terminal.
pub(super) struct Input {
    own: Option<File>,
}

impl Input {
    pub(super) fn open() -> io::Result<Self> {
        let standard = rustix::termios::isatty(rustix::stdio::stdin());
        Ok(Self { own: if standard { None } else { Some(File::open("/dev/tty")?) } })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.own {
            Some(file) => file.as_fd(),
            None => rustix::stdio::stdin(),
        }
    }

    /// Reads the available bytes; 0 if there are none yet.
    ///
    /// # Errors
    ///
    /// Fails if the terminal is closed, or the system cannot tell if it has input.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(0),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[0].revents().contains(PollFlags::IN) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match rustix::io::read(self.fd(), buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => Ok(length),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
