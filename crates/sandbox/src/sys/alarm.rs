//! Waits until the kernel reports a new name in some folder.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// A set of folders that inotify watches. If inotify is not available, [`Self::wait`] only sleeps.
#[derive(Debug)]
pub(crate) struct Alarm(Option<OwnedFd>);

impl Alarm {
    pub(crate) fn new() -> Self {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        Self(inotify::init(flags).ok())
    }

    /// Adds a folder. Adding it again has no effect.
    pub(crate) fn look_at(&mut self, folder: &Path) {
        let events =
            inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR;
        if let Some(fd) = &self.0 {
            // A link would lead out of the places that are protected.
            let _ = inotify::add_watch(fd, folder, events | inotify::WatchFlags::DONT_FOLLOW);
        }
    }

    /// Returns true as soon as there is a new name in a folder of the set, and false if there is none within `most`.
    pub(crate) fn wait(&mut self, most: Duration) -> bool {
        let Some(fd) = &self.0 else {
            std::thread::sleep(most);
            return false;
        };
        let time = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        let mut waited = [PollFd::new(fd, PollFlags::IN)];
        let news = poll(&mut waited, Some(&time));
        if news.is_err() {
            std::thread::sleep(most);
        }
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(fd, &mut space);
        while events.next().is_ok() {}
        news.is_ok_and(|count| count > 0)
    }
}
