//! Input of the user in a session of plain lines: whole lines, as the terminal itself edits them, and Ctrl-C.

use crate::failure::Failure;
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

pub(super) struct LineInput {
    pub lines: mpsc::UnboundedReceiver<String>,
    /// Ctrl-C, if the terminal turns it into a signal.
    pub interrupts: mpsc::UnboundedReceiver<()>,
}

impl LineInput {
    /// Starts reading. The thread ends with the process.
    ///
    /// # Errors
    ///
    /// Fails if the thread cannot be started.
    pub(super) fn listen() -> Result<Self, Failure> {
        let (sender, lines) = mpsc::unbounded_channel();
        let read = move || {
            for line in io::stdin().lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new()
            .name("lines".to_owned())
            .spawn(read)
            .map_err(|e| Failure::error(format!("cannot read the terminal: {e}")))?;
        let mut signals = signal(SignalKind::interrupt())
            .map_err(|e| Failure::error(format!("cannot listen to signals: {e}")))?;
        let (sender, interrupts) = mpsc::unbounded_channel();
        tokio::spawn(async move { while signals.recv().await.is_some() && sender.send(()).is_ok() {} });
        Ok(Self { lines, interrupts })
    }
}
