//! Repeats the check of protected files as long as a confined command lives.
//!
//! A [`Lease`] belongs to one command at the workspace level: it is taken before the command starts, and lasts until its last process
//! has ended. Then the files are checked a last time. As long as a command runs, a thread checks its files whenever the kernel
//! reports a new name beside one of them, and twice a second in any case. For commands in the background the caller can ask for
//! a check with [`Leases::check`], as before each further command. So nothing that a command writes stays once it has ended.
//!
//! Starts and ends no process. While a command runs, the name of a protected file that did not exist before can exist for some
//! milliseconds, or for up to half a second where the kernel reports nothing.

use crate::obeyed::Obeyed;
use crate::sys::Alarm;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Longest time between two checks of the thread.
const PAUSE: Duration = Duration::from_millis(500);
/// Shortest time between two checks: a build makes thousands of files beside protected ones.
const REST: Duration = Duration::from_millis(10);

/// The commands of a session that may write protected files now.
#[derive(Debug, Default)]
pub(crate) struct Leases(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    live: BTreeMap<u64, Live>,
    /// Lines about what was undone since the caller asked last, one for each path.
    lines: Vec<String>,
    is_watched: bool,
}

#[derive(Debug)]
struct Live {
    obeyed: Obeyed,
    is_kept: bool,
}

/// The time in which a command may run. Dropping it checks the protected files a last time.
#[derive(Debug)]
pub struct Lease {
    number: u64,
    table: Arc<Mutex<Table>>,
    /// True if processes of the command may be left that no process group contains.
    pub may_leave_processes: bool,
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    fn check(&mut self, wants: impl Fn(&Live) -> bool) {
        for live in self.live.values_mut().filter(|live| wants(live)) {
            live.obeyed.check(&mut self.lines);
        }
    }

    /// Checks the names that the kernel reports.
    fn check_names(&mut self) {
        for live in self.live.values_mut() {
            live.obeyed.check_places(&mut self.lines);
        }
    }
}

impl Leases {
    pub(crate) fn start(&self, obeyed: Obeyed, may_leave_processes: bool) -> Lease {
        let mut table = locked(&self.0);
        table.next += 1;
        let number = table.next;
        table.live.insert(number, Live { obeyed, is_kept: false });
        if !std::mem::replace(&mut table.is_watched, true) {
            let of_thread = Arc::downgrade(&self.0);
            let started = std::thread::Builder::new().name("becket-protect".to_owned()).spawn(move || {
                watch(&of_thread);
            });
            // The checks before each command and at its end remain.
            table.is_watched = started.is_ok();
        }
        Lease { number, table: Arc::clone(&self.0), may_leave_processes }
    }

    /// Checks the files of all commands in the background.
    pub(crate) fn check(&self) {
        locked(&self.0).check(|live| live.is_kept);
    }

    /// Returns what was undone since the last time, one line for each path.
    pub(crate) fn lines(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.0).lines)
    }
}

impl Lease {
    /// The protected paths at which there was nothing when the command started, for whoever outlives this process.
    pub fn absent(&self) -> Vec<PathBuf> {
        locked(&self.table).live.get(&self.number).map(|live| live.obeyed.absent()).unwrap_or_default()
    }

    /// Notes that the command continues in the background: its files are checked again and again until the lease ends.
    pub fn keep(&self) {
        let mut table = locked(&self.table);
        if let Some(live) = table.live.get_mut(&self.number) {
            live.is_kept = true;
            // Files that exist are mounted read-only for it, so nothing but the user can have changed them.
            if !self.may_leave_processes {
                live.obeyed.trust_mounts();
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut table = locked(&self.table);
        if let Some(mut live) = table.live.remove(&self.number) {
            live.obeyed.check(&mut table.lines);
        }
    }
}

/// Checks until no command is left, and a pause longer: most commands follow another one soon.
fn watch(table: &Weak<Mutex<Table>>) {
    let mut alarm = Alarm::new();
    let mut is_idle = false;
    let mut has_news = false;
    loop {
        let Some(table) = table.upgrade() else { return };
        {
            let mut table = locked(&table);
            if table.live.is_empty() && is_idle {
                table.is_watched = false;
                return;
            }
            is_idle = table.live.is_empty();
            // Folders that came meanwhile are looked at from now on. The check after that sees what is in them already.
            for folder in table.live.values().flat_map(|live| live.obeyed.folders()) {
                alarm.look_at(&folder);
            }
            if has_news {
                table.check_names();
            } else {
                table.check(|_| true);
            }
        }
        drop(table);
        std::thread::sleep(REST);
        has_news = alarm.wait(PAUSE);
    }
}
