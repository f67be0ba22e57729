//! Repeats the check of protected files as long as a confined program lives.
//!
//! A [`Lease`] belongs to one program: a command at the workspace level, a hook, or an MCP server. It is taken before the program
//! starts, and lasts until its last process has ended. Then the files are checked a last time. As long as a program runs, a thread
//! checks the files whenever the kernel reports a new name beside one of them, and once or twice a second in any case. The caller
//! can ask for a check with [`Leases::check`], as before each further command. So nothing that a program writes stays once it has
//! ended.
//!
//! All programs of a session share one record of the files. If each had a record of its own, a record made after another program's
//! change would contain that change, and its check would put the change back. A change is left alone if no program can have made
//! it: if all of them slept since the last check ([`sys::asleep`]), or if the file was read-only for those that did not sleep. This
//! matters for servers, which live as long as the session: the user's own changes must stay.
//!
//! A [`Record`] of the files is kept for the process that outlives becket if becket is killed.
//!
//! Starts and ends no process. While a program runs, the name of a protected file that did not exist before can exist for some
//! milliseconds, or for up to a second where the kernel reports nothing.

use crate::policy::Policy;
use crate::protected_state::ProtectedState;
use crate::record::{Record, UNDO};
use crate::request::WORD;
use crate::sys::{self, Alarm, Asleep};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Longest time between two checks of the thread.
const PAUSE: Duration = Duration::from_millis(500);
/// The same if only servers run, because they rest most of the time.
const SERVER_PAUSE: Duration = Duration::from_secs(1);
/// Shortest time between two checks: a build makes thousands of files beside protected ones.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Time for the processes of a server to end after they were killed.
const SERVER_END_TIMEOUT: Duration = Duration::from_millis(500);

/// The means by which a process that outlives becket puts protected files back.
#[derive(Debug)]
pub struct Undo {
    /// becket's own program. It is started with [`Undo::WORDS`] and the record as standard input.
    pub program: PathBuf,
    /// The record of the files, which becket keeps up to date.
    pub record: File,
}

impl Undo {
    /// The arguments of becket.
    pub const WORDS: [&str; 2] = [WORD, UNDO];
}

/// The running programs of a session that may write protected files.
#[derive(Debug)]
pub(crate) struct Leases(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    live: BTreeMap<u64, RunningProgram>,
    /// The protected files as they were before the first running program started, with the changes that others made since.
    obeyed: Option<ProtectedState>,
    /// Copy of `obeyed` for the watchers, which outlive this process.
    record: Option<Record>,
    /// becket's own program, which a watcher starts to undo changes.
    program: PathBuf,
    /// Lines about what was undone since the caller last asked, one for each path.
    lines: Vec<String>,
    /// The same, for changes that only a server can have made.
    server_lines: Vec<String>,
    is_watched: bool,
}

/// A running program.
#[derive(Debug)]
struct RunningProgram {
    is_server: bool,
    /// The program's first process; `None` if other processes of the program need not descend from it.
    process: Option<u32>,
    /// The program's threads at the last check; `None` if one of them ran.
    asleep: Option<Asleep>,
}

/// Protects files while one program runs. Dropping it checks the protected files a last time.
#[derive(Debug)]
pub struct Lease {
    number: u64,
    table: Arc<Mutex<Table>>,
    /// True if processes of the program may live on outside of its process group.
    pub may_leave_processes: bool,
    /// The processes of the program just before it was killed. Dropping the lease waits until they have ended.
    ending: Mutex<Vec<u32>>,
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// Checks all files, or only those at protected paths.
    fn check(&mut self, only_places: bool) {
        let Some(obeyed) = &mut self.obeyed else { return };
        // The files are read before the processes: a program that slept through both cannot have made the changes.
        let now = obeyed.now(only_places);
        let mut awake = Vec::new();
        for live in self.live.values_mut() {
            let asleep = live.process.and_then(sys::asleep);
            if asleep.is_none() || asleep != live.asleep {
                awake.push((live.is_server, live.process));
            }
            live.asleep = asleep;
        }
        if awake.is_empty() && !self.live.is_empty() {
            if obeyed.accept(now) {
                self.write_record();
            }
            return;
        }
        let mut processes = awake.iter().map(|(_, process)| process.map(read_only));
        let mut mounts = processes.next().flatten().unwrap_or_default();
        for other in processes {
            mounts.retain(|place| other.as_ref().is_some_and(|other| other.contains(place)));
        }
        let is_new = obeyed.accept_mounted(&now, &mounts);
        let is_server = !awake.is_empty() && awake.iter().all(|(is_server, _)| *is_server);
        let lines = if is_server { &mut self.server_lines } else { &mut self.lines };
        if only_places {
            obeyed.check_places(&mounts, lines);
        } else {
            obeyed.check(&mounts, lines);
        }
        if is_new {
            self.write_record();
        }
    }

    /// Writes the record. If the system has no memory for a record, watchers know only the names that did not exist.
    fn write_record(&mut self) {
        let obeyed = self.obeyed.as_ref();
        if let Some(record) = record_or_new(&mut self.record) {
            let _ = record.write(obeyed);
        }
    }

    fn undo(&mut self) -> Option<Undo> {
        let record = record_or_new(&mut self.record)?.file().ok()?;
        Some(Undo { program: self.program.clone(), record })
    }
}

/// The record, made when it is first needed.
fn record_or_new(record: &mut Option<Record>) -> Option<&mut Record> {
    if record.is_none() {
        *record = Record::new().ok();
    }
    record.as_mut()
}

/// The places that are mounted read-only for a program. Its first process is bubblewrap outside of the mounts, and a process that
/// has ended has none, so the newest descendant with such mounts counts.
fn read_only(process: u32) -> Vec<PathBuf> {
    let inside = sys::tree(process).into_iter().skip(1).rev();
    inside.map(sys::read_only_mounts).find(|mounts| !mounts.is_empty()).unwrap_or_default()
}

impl Leases {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self(Arc::new(Mutex::new(Table { program, ..Table::default() })))
    }

    pub(crate) fn start(&self, policy: &Policy, is_server: bool, may_leave_processes: bool) -> Lease {
        let mut table = lock(&self.0);
        if table.live.is_empty() {
            table.obeyed = Some(ProtectedState::before(policy));
        } else {
            table.check(false);
            if let Some(obeyed) = &mut table.obeyed {
                obeyed.join(policy);
            }
        }
        table.write_record();
        table.next += 1;
        let number = table.next;
        table.live.insert(number, RunningProgram { is_server, process: None, asleep: None });
        if !std::mem::replace(&mut table.is_watched, true) {
            let of_thread = Arc::downgrade(&self.0);
            let started = std::thread::Builder::new().name("becket-protect".to_owned()).spawn(move || {
                watch(&of_thread);
            });
            // If the thread cannot start, the checks before each command and at its end remain.
            table.is_watched = started.is_ok();
        }
        Lease { number, table: Arc::clone(&self.0), may_leave_processes, ending: Mutex::default() }
    }

    /// Returns the means by which a watcher puts protected files back if becket ends before the program. `None` if the system has
    /// no memory for a record.
    pub(crate) fn undo(&self) -> Option<Undo> {
        lock(&self.0).undo()
    }

    /// Checks the files now.
    pub(crate) fn check(&self) {
        lock(&self.0).check(false);
    }

    /// Returns what was undone since the last call, one line for each path.
    pub(crate) fn lines(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0).lines)
    }

    /// The same, for changes that only a server can have made.
    pub(crate) fn server_lines(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0).server_lines)
    }
}

impl Lease {
    /// Returns the means by which a watcher of this program puts the files back if becket is killed. `None` if the system has no
    /// memory for a record.
    pub fn undo(&self) -> Option<Undo> {
        lock(&self.table).undo()
    }

    /// The protected paths at which there was nothing when the program started. A watcher without a record puts aside what is there
    /// later.
    pub fn absent(&self) -> Vec<PathBuf> {
        lock(&self.table).obeyed.as_ref().map(ProtectedState::absent).unwrap_or_default()
    }

    /// Sets the first process of the program. Ignored with Landlock, because other processes of the program need not descend from
    /// it.
    pub fn set_process(&self, process: Option<u32>) {
        if let Some(live) = lock(&self.table).live.get_mut(&self.number)
            && !self.may_leave_processes
        {
            live.process = process;
        }
    }

    /// Checks the files a last time before the program is killed, while its processes still show who made a change. Dropping the
    /// lease then waits for these processes.
    pub fn check_before_kill(&self) {
        let mut table = lock(&self.table);
        table.check(false);
        if let Some(process) = table.live.get(&self.number).and_then(|live| live.process) {
            *lock(&self.ending) = sys::tree(process);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let processes = std::mem::take(&mut *lock(&self.ending));
        let until = Instant::now() + SERVER_END_TIMEOUT;
        while processes.iter().any(|process| sys::lives(*process)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut table = lock(&self.table);
        table.check(false);
        table.live.remove(&self.number);
        if table.live.is_empty() {
            table.obeyed = None;
            table.write_record();
        }
    }
}

/// Checks repeatedly until no program runs. Stays for one more pause, because most commands follow another one soon.
fn watch(table: &Weak<Mutex<Table>>) {
    let mut alarm = Alarm::new();
    let mut is_idle = false;
    let mut has_news = false;
    loop {
        let Some(table) = table.upgrade() else { return };
        let pause = {
            let mut table = lock(&table);
            if table.live.is_empty() && is_idle {
                table.is_watched = false;
                return;
            }
            is_idle = table.live.is_empty();
            // Folders that were created since are watched from now on. The check after this loop sees what was put into them
            // before.
            for folder in table.obeyed.iter().flat_map(ProtectedState::folders) {
                alarm.look_at(&folder);
            }
            table.check(has_news);
            let only_servers = !is_idle && table.live.values().all(|live| live.is_server);
            if only_servers { SERVER_PAUSE } else { PAUSE }
        };
        drop(table);
        std::thread::sleep(MIN_CHECK_INTERVAL);
        has_news = alarm.wait(pause);
    }
}
