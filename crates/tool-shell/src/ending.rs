//! Ends a command together with every process that it started.
//!
//! Model: the process group is stopped first. The kernel stops all its members at once, so no process, not even a fork bomb, can
//! fork while the tree is looked up. The whole tree then gets TERM, and continues so that it can react. After two seconds it gets
//! KILL, until no process is left. The tree is looked up again each time. A process that was once seen in it stays a member, also
//! after its parents have exited.

use crate::sys::{self, Cgroup, Pids, Process};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::process::Child;
use tokio::time::Instant;

/// Time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// Time to wait after KILL. No process can ignore KILL, so one that is left after this waits for a device.
const LAST: Duration = Duration::from_millis(500);

/// Added to becket's own niceness for a group that must yield; 19 is the lowest priority.
const NICE: i32 = 10;

/// Limit on lookups of the tree while its processes join the control group.
const ROUNDS: usize = 8;
/// Limit on processes that join at once, because each takes milliseconds.
const JOINING: usize = 128;

/// The processes of one command.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Process group of the shell, which is also its session.
    pub group: Pid,
    /// `NAME=value`, found in the environment of all its processes.
    pub mark: String,
    known: Vec<Process>,
    /// Process number of a member of the group that lived at the last check. It is checked first, because that is cheap.
    witness: Option<i32>,
    /// The control group (version 2) that the processes joined; `None` if this system allows none.
    cgroup: Arc<OnceLock<Option<Cgroup>>>,
    /// The control group (version 1) that the shell started in, if this system allows one.
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

    /// Looks up the living processes again. Members that have exited are removed.
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

    /// True if the group has a process that lives or is a zombie. Cheap.
    pub(crate) fn group_exists(&self) -> bool {
        test_kill_process_group(self.group).is_ok()
    }

    /// True if a process of the group lives; zombies do not count. This is cheap if the group is gone or the process found
    /// last still lives. Otherwise it reads all processes of the system.
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

    /// Number of the command's processes and threads, if the kernel counts them.
    pub(crate) fn tasks(&self) -> Option<u64> {
        self.pids.as_ref()?.tasks()
    }

    /// Moves all processes into a control group, if this system allows one. Their later children start in it.
    pub(crate) fn enclose(&mut self, tasks: u64, memory_bytes: u64) {
        let cgroup = Arc::clone(&self.cgroup);
        let name = self.mark.rsplit('=').next().unwrap_or_default();
        let Some(cgroup) = cgroup.get_or_init(|| Cgroup::new(name, tasks, memory_bytes)) else { return };
        // Processes may be forked while others join; the next round finds them.
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

    /// True if the kernel killed a process because the control group exceeded its memory limit.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        matches!(self.cgroup.get(), Some(Some(cgroup)) if cgroup.ran_out_of_memory())
    }

    /// Lowers the priority of the command, so that it gets only the processor time that others leave. Permanent: only root
    /// may raise a priority again.
    pub(crate) fn yield_to_others(&self) {
        // Relative to becket itself, which may have been started with a low priority.
        let own = rustix::process::getpriority_process(None).unwrap_or(0);
        let nice = (own + NICE).min(19);
        let _ = rustix::process::setpriority_pgrp(Some(self.group), nice);
        sys::yield_to_others(self.group.as_raw_nonzero().get(), nice);
    }

    /// Stops the group. None of its processes can start another until [`Tree::go_on`], or until a signal ends it.
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
        // An error means that the group is gone or belongs to another user.
        let _ = kill_process_group(self.group, signal);
        if signal == Signal::KILL {
            let _ = kill_process_group(self.group, Signal::CONT);
        } else {
            // A process that cleans up after TERM may have to start another one for that.
            self.go_on();
        }
        for pid in self.known.iter().filter_map(|p| Pid::from_raw(p.pid)) {
            let _ = kill_process(pid, signal);
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    fn is_empty(&self) -> bool {
        // A group that contains only zombies still accepts signals, so the process list decides where the system has one.
        self.known.is_empty() && (sys::LISTS_PROCESSES || test_kill_process_group(self.group).is_err())
    }

    /// Kills the tree without waiting for its end. Returns true if any process was found.
    pub(crate) fn kill(&mut self) -> bool {
        self.stop();
        self.look();
        self.signal(Signal::KILL);
        !self.is_empty()
    }
}

/// Ends the tree, and waits for the shell if `child` is given. Returns the number of processes that could not be ended.
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
