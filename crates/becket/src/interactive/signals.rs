//! Signals of an interactive session as inputs, and stopping the process as Ctrl-Z does.
//!
//! Owns the signals that end, stop and wake the session. A signal that becket sent to itself is not reported again.

use crate::failure::Failure;
use becket_tui::input::Input;
use rustix::process::{Signal, getpgid, getpgrp, getppid, getsid, kill_current_process_group};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Numbers of SIGTSTP and SIGCONT, which differ between Linux and other systems.
const SIGTSTP: i32 = Signal::TSTP.as_raw();
const SIGCONT: i32 = Signal::CONT.as_raw();

fn failed(error: io::Error) -> Failure {
    Failure::error(format!("cannot listen to signals: {error}"))
}

/// Reports the signals that end, stop and wake becket to `sender`, until its receiver is dropped. `lines`: only those that end it, and
/// not SIGINT, because the line input handles Ctrl-C, and plain lines need no redrawing. `stopping`: see [`stops`].
pub(super) fn listen(
    sender: &mpsc::UnboundedSender<Input>,
    lines: bool,
    stopping: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    ends(sender, lines)?;
    if lines { Ok(()) } else { stops(sender.clone(), Arc::clone(stopping)) }
}

/// Reports the signals that end becket. `lines`: SIGINT is left out.
fn ends(sender: &mpsc::UnboundedSender<Input>, lines: bool) -> Result<(), Failure> {
    let interrupt = (!lines).then(SignalKind::interrupt);
    let always = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    for kind in always.into_iter().chain(interrupt) {
        let mut signals = signal(kind).map_err(failed)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() && sender.send(Input::Terminate).is_ok() {}
        });
    }
    Ok(())
}

/// Reports the signals that stop and wake becket. `stopping` is true while becket has stopped itself; the next SIGCONT
/// is then not reported.
fn stops(sender: mpsc::UnboundedSender<Input>, stopping: Arc<AtomicBool>) -> Result<(), Failure> {
    let mut stops = signal(SignalKind::from_raw(SIGTSTP)).map_err(failed)?;
    let mut wakes = signal(SignalKind::from_raw(SIGCONT)).map_err(failed)?;
    tokio::spawn(async move {
        loop {
            let input = tokio::select! {
                Some(()) = stops.recv() => Input::Suspend,
                Some(()) = wakes.recv() => {
                    if stopping.swap(false, Ordering::AcqRel) {
                        continue;
                    }
                    Input::Continued
                }
                else => break,
            };
            if sender.send(input).is_err() {
                break;
            }
        }
    });
    Ok(())
}

/// Stops the process group until it is continued. Returns false for an orphaned group, which nobody could continue.
pub(super) fn stop(stopping: &AtomicBool) -> bool {
    let parent = getppid();
    let same_group = parent.is_some_and(|p| getpgid(Some(p)).is_ok_and(|group| group == getpgrp()));
    let same_session = parent
        .is_some_and(|p| getsid(Some(p)).is_ok_and(|session| getsid(None).is_ok_and(|own| own == session)));
    if !same_group && !same_session {
        return false;
    }
    stopping.store(true, Ordering::Release);
    // becket handles SIGTSTP itself, so it sends SIGSTOP.
    kill_current_process_group(Signal::STOP).is_ok()
}
