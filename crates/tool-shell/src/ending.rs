//! Ending a command with everything it started.
//!
//! Model: TERM to the whole tree, two seconds for it to go, then KILL, until nobody is left. The tree is looked up again each
//! time, and whoever was once seen in it stays in it, also when its parents are gone.

use crate::sys::{self, Process};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::time::Duration;
use tokio::process::Child;
use tokio::time::Instant;

/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// After KILL nobody can refuse; what is still there waits for a device.
const LAST: Duration = Duration::from_millis(500);

/// The processes of one command.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Process group of the shell, and its session.
    pub group: Pid,
    /// `NAME=value` in the environment of all its processes.
    pub mark: String,
    known: Vec<Process>,
}

impl Tree {
    pub(crate) fn new(group: Pid, mark: String) -> Self {
        Self { group, mark, known: Vec::new() }
    }

    /// Looks again. Members that have gone drop out.
    fn look(&mut self) {
        self.known = sys::tree(self.group.as_raw_nonzero().get(), &self.mark, &self.known);
    }

    fn signal(&self, signal: Signal) {
        // Errors mean that it has gone, or is not ours to end.
        let _ = kill_process_group(self.group, signal);
        for pid in self.known.iter().filter_map(|p| Pid::from_raw(p.pid)) {
            let _ = kill_process(pid, signal);
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    fn is_empty(&self) -> bool {
        // A group of which only uncollected processes are left still answers; the list knows better where there is one.
        self.known.is_empty() && (sys::LISTS_PROCESSES || test_kill_process_group(self.group).is_err())
    }

    /// At once, without waiting: for a call that is dropped.
    pub(crate) fn kill(&mut self) {
        self.look();
        self.signal(Signal::KILL);
    }
}

/// Ends the tree and collects the shell. Returns how many processes could not be ended.
pub(crate) async fn end(mut tree: Tree, child: &mut Child) -> usize {
    let start = Instant::now();
    let mut pause = Duration::from_millis(5);
    let mut signal = Some(Signal::TERM);
    loop {
        let send = signal.take();
        let looked = tokio::task::spawn_blocking(move || {
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
        let _ = child.try_wait();
        if tree.is_empty() {
            let _ = child.wait().await;
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
