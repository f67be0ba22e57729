//! What one command may use of the machine, and the sentry that holds it to that.
//!
//! Model: open files are limited by the shell itself (`ulimit`), which everything that it starts inherits. Processes and
//! memory have no limit that binds per command for every user (`RLIMIT_NPROC` counts all of a user's and does not bind
//! root; `RLIMIT_AS` counts what is only reserved and breaks garbage-collected languages), so they are watched: every
//! [`CHECK`] two numbers of the whole system are read; only when those rose or fell enough for this command to be the cause
//! are its processes counted. What is over a limit is killed whole. Runs on the command's own thread, while it runs.

use crate::ending::Tree;
use crate::sys;
use std::time::{Duration, Instant};

/// Between two looks at the system's numbers.
const CHECK: Duration = Duration::from_millis(50);
/// What runs longer gets a control group, where there can be one.
const MOMENT: Duration = Duration::from_millis(100);
/// The part of the limit on processes from which on a command runs behind everything else.
const CROWD: u64 = 16;
/// After KILL: until nobody is left, but no longer.
const KILLING: Duration = Duration::from_secs(2);

/// What one command may use. Units are in the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads of all its processes.
    pub tasks: u64,
    /// Anonymous memory of all its processes; `None` is three quarters of the machine's.
    pub memory_bytes: Option<u64>,
    /// Descriptors of each process.
    pub open_files: u64,
    /// What it may print.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tasks: 2_048, memory_bytes: None, open_files: 4_096, output_bytes: 1 << 30 }
    }
}

/// The limit that a command passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trip {
    Tasks(u64),
    Memory(u64),
    Output(u64),
}

/// What the system says about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Threads of all processes.
    pub tasks: u64,
    pub available_bytes: u64,
    pub total_bytes: u64,
}

pub(crate) struct Sentry {
    tree: Tree,
    limits: Limits,
    /// What the system said when the command started.
    before: Option<Load>,
    checked: Instant,
    printed: u64,
    tripped: bool,
    began: Instant,
    enclosed: bool,
    yielding: bool,
}

impl Sentry {
    pub(crate) fn new(tree: Tree, limits: Limits) -> Self {
        let now = Instant::now();
        Self {
            tree,
            limits,
            before: None,
            checked: now,
            printed: 0,
            tripped: false,
            began: now,
            enclosed: false,
            yielding: false,
        }
    }

    pub(crate) fn begin(&mut self) {
        self.before = sys::load();
    }

    /// When [`Sentry::check`] has something to do again; `None` where nothing can be watched.
    pub(crate) fn next_check(&self) -> Option<Duration> {
        self.before.map(|_| CHECK.saturating_sub(self.checked.elapsed()).max(Duration::from_millis(1)))
    }

    /// Bytes so far.
    pub(crate) fn printed(&mut self, bytes: u64) {
        self.printed = bytes;
    }

    /// Nobody of the command's group is left, not even uncollected.
    pub(crate) fn is_over(&self) -> bool {
        !self.tree.group_exists()
    }

    /// The limit that was passed, after everybody was killed for it; each only once.
    pub(crate) fn check(&mut self) -> Option<Trip> {
        let over_output = self.printed > self.limits.output_bytes;
        let due = self.before.is_some() && self.checked.elapsed() >= CHECK;
        if self.tripped || !(over_output || due) {
            return None;
        }
        self.checked = Instant::now();
        let trip = if over_output { Some(Trip::Output(self.limits.output_bytes)) } else { self.measure() };
        // Not before it was measured: joining takes milliseconds for each, and a fork bomb has thousands by now.
        if trip.is_none() && !self.enclosed && self.began.elapsed() >= MOMENT {
            self.enclosed = true;
            self.tree.enclose(self.limits.tasks, self.memory());
        }
        if trip.is_some() {
            self.tripped = true;
            self.kill();
        }
        trip
    }

    /// When all is printed: what the kernel had to say.
    pub(crate) fn at_end(&mut self) -> Option<Trip> {
        (!self.tripped && self.tree.ran_out_of_memory()).then(|| {
            self.tripped = true;
            Trip::Memory(self.memory())
        })
    }

    fn memory(&self) -> u64 {
        let machine = self.before.map_or(u64::MAX, |load| load.total_bytes / 4 * 3);
        self.limits.memory_bytes.unwrap_or(machine)
    }

    fn measure(&mut self) -> Option<Trip> {
        let (before, now) = (self.before?, sys::load()?);
        // Where the kernel counts, that is the truth, whatever else comes and goes.
        let counted = self.tree.tasks();
        if counted.is_some_and(|tasks| tasks > self.limits.tasks) {
            return Some(Trip::Tasks(self.limits.tasks));
        }
        // So many on few cores would leave no time to whoever draws and answers, nor to this thread.
        if !self.yielding && now.tasks >= before.tasks + self.limits.tasks / CROWD {
            self.yielding = true;
            self.tree.yield_to_others();
        }
        let memory = self.memory();
        // Others come and go too; half of a limit is enough to look who it is.
        let many = now.tasks >= before.tasks + self.limits.tasks / 2;
        let little = now.available_bytes + memory / 2 <= before.available_bytes
            || now.available_bytes <= now.total_bytes / 8;
        if !many && !little {
            return None;
        }
        // What multiplies like this may leave us no time to count it while it goes on. A command that the kernel counts goes
        // on: it is somebody else who multiplies, and a stopped command can start nothing.
        let bomb = counted.is_none() && now.tasks >= before.tasks + self.limits.tasks;
        if bomb {
            self.tree.stop();
        }
        let members = self.tree.look();
        if many && sys::tasks(members) > self.limits.tasks {
            return Some(Trip::Tasks(self.limits.tasks));
        }
        let over = little && sys::memory_over(members, memory);
        if bomb {
            self.tree.go_on();
        }
        over.then_some(Trip::Memory(memory))
    }

    fn kill(&mut self) {
        let start = Instant::now();
        while self.tree.kill() && start.elapsed() < KILLING {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
