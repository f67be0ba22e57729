//! Signals during a headless run.
//!
//! SIGINT ends the turn, and the run with it. SIGTERM and SIGHUP end the run at once: the turn stays unfinished, and only hooks at the
//! end of the session still run, for at most [`FAREWELL`]. A second signal ends the process.

use super::{Front, GRACE};
use becket_print::ExitStatus;
use becket_types::{Command, HookEvent};
use std::time::Duration;
use tokio::time::Instant;

/// Time for hooks at the end of the session. A little longer than the agent gives them.
const FAREWELL: Duration = Duration::from_millis(2_000);

/// The end of a run by a signal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) status: ExitStatus,
    /// The process ends then, whatever still runs.
    pub(super) deadline: Instant,
}

impl Front {
    /// Handles a signal. Returns true if the process must end at once.
    pub(super) async fn signalled(&mut self, status: ExitStatus) -> bool {
        let is_terminated = status == ExitStatus::Terminated;
        let known = self.state.ending.map(|ending| ending.status);
        let limit = if is_terminated { FAREWELL } else { GRACE };
        self.state.ending = Some(Ending { status, deadline: Instant::now() + limit });
        // A SIGTERM after a SIGINT does not wait for the end of the turn either.
        if known.is_some_and(|known| known == ExitStatus::Terminated || !is_terminated) {
            return true;
        }
        if !is_terminated {
            self.command(Command::Interrupt).await;
            self.end_input().await;
            return false;
        }
        if !self.session.hooks.as_ref().is_some_and(|hooks| hooks.listens(HookEvent::SessionEnd)) {
            return true;
        }
        self.command(Command::Abandon).await;
        false
    }

    /// Returns the time at which a signal ends the process.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.state.ending.map(|ending| ending.deadline)
    }
}
