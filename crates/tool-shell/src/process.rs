//! Owns a running command: its shell, becket's end of its pipe or terminal, and its processes. [`start`](crate::start) makes it.

use crate::cwd_file::CwdFile;
use crate::drain::Drain;
use crate::ending::{self, Tree};
use crate::report::End;
use becket_sandbox::{Lease, Pass};
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Child;
use tokio::time::Instant;

/// If a process holds the other end of the pipe for longer than this after the shell's end, it counts as a background process.
const PASSING: Duration = Duration::from_millis(30);

/// A running command. Dropping it before its end kills everything that it started.
pub(crate) struct Process {
    pub child: Child,
    pub drain: Drain,
    pub tree: KillOnDrop,
    pub started: Instant,
    /// The file into which the shell writes its working directory when it ends.
    pub cwd_file: CwdFile,
    /// The permission of a confined command to use the proxy. Dropping it closes the command's connections.
    pub pass: Option<Arc<Pass>>,
    /// Protects files that other programs obey later from a confined command, until its last process has ended.
    pub lease: Option<Lease>,
}

/// Processes that end when this is dropped.
pub(crate) struct KillOnDrop(pub Option<Tree>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(tree) = &mut self.0 {
            tree.kill();
        }
    }
}

impl Process {
    /// Called when the shell has ended: waits until its output was read. Returns true if processes of the command still run.
    pub(crate) async fn settle(&self) -> bool {
        let mut held = self.drain.shell_ended().await;
        if held {
            // A program that becket starts at the same moment inherits the other end of the pipe for a short time. Wait until that
            // has passed.
            held = tokio::time::timeout(PASSING, self.drain.closed()).await.is_err();
        }
        if held {
            return true;
        }
        let Some(tree) = self.tree.0.as_ref().filter(|tree| tree.group_exists()) else { return false };
        // A fork bomb can leave thousands of zombies to look through, which would block the async thread.
        let mut tree = tree.clone();
        tokio::task::spawn_blocking(move || tree.group_lives()).await.unwrap_or(true)
    }

    /// Sends TERM, and KILL after two seconds. Returns the number of processes that could not be ended.
    pub(crate) async fn end(&mut self) -> usize {
        let survivors = match self.tree.0.take() {
            Some(tree) => ending::end(tree, Some(&mut self.child)).await,
            None => 0,
        };
        self.drain.shell_ended().await;
        survivors
    }

    /// Waits for the shell's end. A limit that the command exceeded takes precedence over the exit status.
    pub(crate) async fn wait(&mut self) -> Result<End, String> {
        let status = self.child.wait().await.map_err(|e| format!("The shell was lost: {e}."))?;
        Ok(self.drain.exceeded_limit().map_or_else(|| End::from_status(status), End::Over))
    }

    /// Ends processes that may have left the command's group. Called if [`Self::settle`] found no process in the group.
    pub(crate) async fn sweep(&mut self) {
        if self.lease.as_ref().is_some_and(|lease| lease.may_leave_processes)
            && let Some(tree) = self.tree.0.take()
        {
            ending::end(tree, None).await;
        }
    }

    /// Gives up the process tree, so that dropping the process no longer kills it.
    pub(crate) fn release(&mut self) -> Option<Tree> {
        self.tree.0.take()
    }
}
