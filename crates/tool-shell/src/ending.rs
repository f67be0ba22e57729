//! Ending a command with everything it started.
//!
//! Model: the group is stopped, which the kernel does to all of it at once, so that nobody is born while the tree is looked
//! up, not even to a fork bomb. TERM to the whole tree, which goes on with that; two seconds for it to go, then KILL, until
//! nobody is left. The tree is looked up again each time, and whoever was once seen in it stays in it, also when its parents
//! are gone.

use crate::sys::{self, Cgroup, Pids, Process};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::process::Child;
use tokio::time::Instant;

/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// After KILL nobody can refuse; what is still there waits for a device.
const LAST: Duration = Duration::from_millis(500);

/// Steps of priority that a yielding group is put behind becket; 19 is the least priority.
const NICE: i32 = 10;

/// Looks while a tree joins its control group.
const ROUNDS: usize = 8;
/// More than this at once do not join: each takes milliseconds.
const JOINING: usize = 128;

/// The processes of one command.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Process group of the shell, and its session.
    pub group: Pid,
    /// `NAME=value` in the environment of all its processes.
    pub mark: String,
    known: Vec<Process>,
    /// Who of the group lived at the last look.
    witness: Option<i32>,
    /// Once they are in a control group of their own; `None` where there can be none.
    cgroup: Arc<OnceLock<Option<Cgroup>>>,
    /// What they were born into, where there is such a thing.
    pids: Option<Arc<Pids>>,
}

impl Tree {
    pub(crate) fn new(group: Pid, mark: String, pids: Option<Pids>) -> Self {
        Self {
            group,
            mark,
            known: Vec::new(),
            witness: None,
            cgroup: Arc::default(),
            pids: pids.map(Arc::new),
        }
    }

    /// Looks again: who lives. Members that have gone drop out.
    pub(crate) fn look(&mut self) -> &[Process] {
        if let Some(Some(cgroup)) = self.cgroup.get() {
            self.known.extend(cgroup.members().into_iter().filter_map(sys::process));
        }
        if let Some(pids) = &self.pids {
            self.known.extend(pids.members().into_iter().filter_map(sys::process));
        }
        self.known = sys::tree(self.group.as_raw_nonzero().get(), &self.mark, &self.known);
        &self.known
    }

    /// Somebody of the group lives, or is not collected yet. Cheap.
    pub(crate) fn group_exists(&self) -> bool {
        test_kill_process_group(self.group).is_ok()
    }

    /// Somebody of the group lives. Where the group is gone, and as long as whoever was found last lives, it is cheap;
    /// else all processes of the system are looked at.
    pub(crate) fn group_lives(&mut self) -> bool {
        let group = self.group.as_raw_nonzero().get();
        if !self.group_exists() {
            return false;
        }
        if !self.witness.is_some_and(|pid| sys::is_of_group(pid, group)) {
            self.witness = sys::of_group(group);
        }
        self.witness.is_some()
    }

    /// Its processes and threads, where the kernel counts them.
    pub(crate) fn tasks(&self) -> Option<u64> {
        self.pids.as_ref()?.tasks()
    }

    /// Puts everybody into a control group, where there can be one; whoever they start is born into it.
    pub(crate) fn enclose(&mut self, tasks: u64, memory_bytes: u64) {
        let cgroup = Arc::clone(&self.cgroup);
        let name = self.mark.rsplit('=').next().unwrap_or_default();
        let Some(cgroup) = cgroup.get_or_init(|| Cgroup::new(name, tasks, memory_bytes)) else { return };
        // Whoever is born while others join is caught in the next round.
        for _ in 0..ROUNDS {
            let inside = cgroup.members();
            let all = self.look().iter().map(|p| p.pid);
            let outside: Vec<i32> = all.filter(|pid| !inside.contains(pid)).collect();
            if outside.is_empty() || outside.len() > JOINING {
                return;
            }
            for pid in outside {
                cgroup.join(pid);
            }
        }
    }

    /// The kernel ended somebody because of the memory of all of them.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        matches!(self.cgroup.get(), Some(Some(cgroup)) if cgroup.ran_out_of_memory())
    }

    /// From here on it has what others leave of the processors. Not taken back: only root may.
    pub(crate) fn yield_to_others(&self) {
        // Behind becket itself, which somebody may have begun at a low priority already.
        let own = rustix::process::getpriority_process(None).unwrap_or(0);
        let nice = (own + NICE).min(19);
        let _ = rustix::process::setpriority_pgrp(Some(self.group), nice);
        sys::yield_to_others(self.group.as_raw_nonzero().get(), nice);
    }

    /// Stops the group. Nobody of it starts anything until [`Tree::go_on`], or a signal that ends it.
    pub(crate) fn stop(&self) {
        if let Some(pids) = &self.pids {
            pids.close();
        }
        let _ = kill_process_group(self.group, Signal::STOP);
    }

    pub(crate) fn go_on(&self) {
        if let Some(pids) = &self.pids {
            pids.open();
        }
        let _ = kill_process_group(self.group, Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let (Signal::KILL, Some(Some(cgroup))) = (signal, self.cgroup.get()) {
            cgroup.kill();
        }
        // Errors mean that it has gone, or is not ours to end.
        let _ = kill_process_group(self.group, signal);
        if signal == Signal::KILL {
            let _ = kill_process_group(self.group, Signal::CONT);
        } else {
            // Whoever tidies up may have to start something for it.
            self.go_on();
        }
        for pid in self.known.iter().filter_map(|p| Pid::from_raw(p.pid)) {
            let _ = kill_process(pid, signal);
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    fn is_empty(&self) -> bool {
        // A group of which only uncollected processes are left still answers; the list knows better where there is one.
        self.known.is_empty() && (sys::LISTS_PROCESSES || test_kill_process_group(self.group).is_err())
    }

    /// At once, without waiting. Whether somebody was there.
    pub(crate) fn kill(&mut self) -> bool {
        self.stop();
        self.look();
        self.signal(Signal::KILL);
        !self.is_empty()
    }
}

/// Ends the tree and collects the shell, unless somebody else does. Returns how many processes could not be ended.
pub(crate) async fn end(mut tree: Tree, mut child: Option<&mut Child>) -> usize {
    let start = Instant::now();
    let mut pause = Duration::from_millis(5);
    let mut signal = Some(Signal::TERM);
    loop {
        let send = signal.take();
        let looked = tokio::task::spawn_blocking(move || {
            if send.is_some() {
                tree.stop();
            }
            tree.look();
            if let Some(signal) = send {
                tree.signal(signal);
            }
            tree
        });
        tree = match looked.await {
            Ok(tree) => tree,
            Err(_) => return 0,
        };
        if let Some(child) = &mut child {
            let _ = child.try_wait();
        }
        if tree.is_empty() {
            if let Some(child) = child {
                let _ = child.wait().await;
            }
            return 0;
        }
        let elapsed = start.elapsed();
        if elapsed >= GRACE {
            signal = Some(Signal::KILL);
        }
        if elapsed >= GRACE + LAST {
            return tree.known.len().max(1);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
