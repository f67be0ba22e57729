//! Repeats the check of protected files as long as a confined command lives.
//!
//! A [`Lease`] belongs to one command at the workspace level: it is taken before the command starts, and lasts until its last process
//! has ended. Then the files are checked a last time. A command that continues in the background keeps its lease: its
//! files are then also checked twice a second by a thread of their own, and whenever the caller asks for it with
//! [`Leases::check`], as before each further command. So nothing that such a command writes stays once it has ended.
//!
//! Starts and ends no process. While a background command runs, the name of a protected file that did not exist before
//! can exist for up to half a second.

use crate::obeyed::Obeyed;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Time between two checks of the thread.
const PAUSE: Duration = Duration::from_millis(500);

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
    fn check_kept(&mut self) {
        for live in self.live.values_mut().filter(|live| live.is_kept) {
            live.obeyed.check(&mut self.lines);
        }
    }
}

impl Leases {
    pub(crate) fn start(&self, obeyed: Obeyed, may_leave_processes: bool) -> Lease {
        let mut table = locked(&self.0);
        table.next += 1;
        let number = table.next;
        table.live.insert(number, Live { obeyed, is_kept: false });
        Lease { number, table: Arc::clone(&self.0), may_leave_processes }
    }

    /// Checks the files of all commands in the background.
    pub(crate) fn check(&self) {
        locked(&self.0).check_kept();
    }

    /// Returns what was undone since the last time, one line for each path.
    pub(crate) fn lines(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.0).lines)
    }
}

impl Lease {
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
        if !std::mem::replace(&mut table.is_watched, true) {
            let of_thread = Arc::downgrade(&self.table);
            let started = std::thread::Builder::new().name("becket-protect".to_owned()).spawn(move || {
                watch(&of_thread);
            });
            // The checks before each command remain.
            table.is_watched = started.is_ok();
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

/// Checks until no command in the background is left.
fn watch(table: &Weak<Mutex<Table>>) {
    loop {
        std::thread::sleep(PAUSE);
        let Some(table) = table.upgrade() else { return };
        let mut table = locked(&table);
        table.check_kept();
        if !table.live.values().any(|live| live.is_kept) {
            table.is_watched = false;
            return;
        }
    }
}
