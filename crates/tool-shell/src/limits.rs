//! The limits on one command's use of the machine, and the sentry ([`LimitWatch`]) that enforces them.
//!
//! Model: the shell limits open files by `ulimit`, which all its children inherit. For processes and memory there is no
//! limit that holds per command and for every user: `RLIMIT_NPROC` counts all processes of a user and does not bind root;
//! `RLIMIT_AS` counts memory that is only reserved, which breaks garbage-collected languages. So the sentry watches them.
//! Every [`CHECK`] it reads two numbers of the whole system. Only if they changed enough for this command to be the cause
//! does it count the command's processes. A command over a limit is killed with everything it started. The sentry runs on
//! the command's own reading thread.

use crate::ending::Tree;
use crate::sys;
use std::time::{Duration, Instant};

/// Time between two readings of the system's numbers.
const CHECK: Duration = Duration::from_millis(50);
/// A command that runs longer than this gets a control group, if the system allows one. Shorter commands are spared the cost.
const MOMENT: Duration = Duration::from_millis(100);
/// If the number of tasks in the system has grown by this fraction (1/16) of the command's limit, the command gets a low priority.
const CROWD: u64 = 16;
/// Time limit for repeating KILL until no process is left.
const KILLING: Duration = Duration::from_secs(2);

/// Limits on one command. The units are in the names; `tasks` and `open_files` are counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads of all processes of the command together.
    pub tasks: u64,
    /// Anonymous memory of all processes of the command together; `None` means three quarters of the machine's memory.
    pub memory_bytes: Option<u64>,
    /// Open file descriptors of each process.
    pub open_files: u64,
    /// Raw bytes that the command may print.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tasks: 2_048, memory_bytes: None, open_files: 4_096, output_bytes: 1 << 30 }
    }
}

/// The limit that a command exceeded, with its value: a count of tasks, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitExceeded {
    Tasks(u64),
    Memory(u64),
    Output(u64),
}

pub(crate) struct LimitWatch {
    tree: Tree,
    limits: Limits,
    /// The state of the system when the command started; `None` if it cannot be read.
    before: Option<sys::Load>,
    checked: Instant,
    printed: u64,
    tripped: bool,
    began: Instant,
    enclosed: bool,
    yielding: bool,
}

impl LimitWatch {
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

    /// Time until [`LimitWatch::check`] has work again; `None` on a system where nothing can be watched.
    pub(crate) fn next_check(&self) -> Option<Duration> {
        self.before.map(|_| CHECK.saturating_sub(self.checked.elapsed()).max(Duration::from_millis(1)))
    }

    /// Sets the number of bytes that the command has printed so far.
    pub(crate) fn printed(&mut self, bytes: u64) {
        self.printed = bytes;
    }

    /// True if no process of the command's group is left, not even a zombie.
    pub(crate) fn is_over(&self) -> bool {
        !self.tree.group_exists()
    }

    /// If the command exceeds a limit, kills all its processes and returns the limit, once per command.
    pub(crate) fn check(&mut self) -> Option<LimitExceeded> {
        let over_output = self.printed > self.limits.output_bytes;
        let due = self.before.is_some() && self.checked.elapsed() >= CHECK;
        if self.tripped || !(over_output || due) {
            return None;
        }
        self.checked = Instant::now();
        let trip =
            if over_output { Some(LimitExceeded::Output(self.limits.output_bytes)) } else { self.measure() };
        // Measure before `enclose`: moving a process into the control group takes milliseconds, and a fork bomb may
        // have thousands of processes by now.
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

    /// Called at the end of the output: reports if the kernel killed a process for its memory.
    pub(crate) fn at_end(&mut self) -> Option<LimitExceeded> {
        (!self.tripped && self.tree.ran_out_of_memory()).then(|| {
            self.tripped = true;
            LimitExceeded::Memory(self.memory())
        })
    }

    fn memory(&self) -> u64 {
        let machine = self.before.map_or(u64::MAX, |load| load.total_bytes / 4 * 3);
        self.limits.memory_bytes.unwrap_or(machine)
    }

    fn measure(&mut self) -> Option<LimitExceeded> {
        let (before, now) = (self.before?, sys::load()?);
        // The kernel's own count is exact. The system-wide numbers also change with other programs.
        let counted = self.tree.tasks();
        if counted.is_some_and(|tasks| tasks > self.limits.tasks) {
            return Some(LimitExceeded::Tasks(self.limits.tasks));
        }
        // So many new tasks would starve the interface and this thread on a machine with few cores.
        if !self.yielding && now.tasks >= before.tasks + self.limits.tasks / CROWD {
            self.yielding = true;
            self.tree.yield_to_others();
        }
        let memory = self.memory();
        // Other programs change these numbers too. Only if they changed by half a limit or more are the command's own processes
        // counted.
        let many = now.tasks >= before.tasks + self.limits.tasks / 2;
        let little = now.available_bytes + memory / 2 <= before.available_bytes
            || now.available_bytes <= now.total_bytes / 8;
        if !many && !little {
            return None;
        }
        // A fork bomb may leave no processor time for counting, so stop it first. If the kernel counts the command's tasks,
        // the check above has shown that other programs are the ones that grow: then leave the command running.
        let bomb = counted.is_none() && now.tasks >= before.tasks + self.limits.tasks;
        if bomb {
            self.tree.stop();
        }
        let members = self.tree.look();
        if many && sys::tasks(members) > self.limits.tasks {
            return Some(LimitExceeded::Tasks(self.limits.tasks));
        }
        let over = little && sys::memory_over(members, memory);
        if bomb {
            self.tree.go_on();
        }
        over.then_some(LimitExceeded::Memory(memory))
    }

    fn kill(&mut self) {
        let start = Instant::now();
        while self.tree.kill() && start.elapsed() < KILLING {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
