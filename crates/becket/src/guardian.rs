//! Restores the terminal when becket cannot: a separate process that waits for becket's death.
//!
//! Model: becket starts itself a second time with a pipe to it, and reports through the pipe if the terminal is taken.
//! If the pipe closes while it is taken, becket was killed, and the guardian turns off everything that becket had
//! turned on. The guardian runs in its own session, so a signal to becket's process group or a hangup of its terminal
//! does not reach it first.
//!
//! Invariants: it writes nothing while becket lives. It ends when becket ends. If it cannot be started, becket
//! continues without it. It reads no file and starts no runtime.

use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr,
};
use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

/// The argument that makes a second becket a guardian.
pub(crate) const ARGUMENT: &str = "__guard-terminal";

const TERMINAL_TAKEN: u8 = b'1';
const TERMINAL_RESTORED: u8 = b'0';

/// becket's handle to its guardian.
#[derive(Debug, Default)]
pub(crate) struct Guardian(Option<Child>);

impl Guardian {
    /// Starts a guardian with the terminal's current modes, before anything is changed.
    pub(crate) fn start() -> Self {
        let child = tcgetattr(io::stdin()).ok().and_then(|modes| {
            Command::new(std::env::current_exe().ok()?)
                .args([ARGUMENT, &format_modes(&modes)])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .ok()
        });
        let mut guardian = Self(child);
        guardian.set_terminal_taken(true);
        guardian
    }

    /// Waits until the guardian runs in its own session, so that signals to becket's process group do not reach
    /// it. This takes a few milliseconds, normally less than the first screen needs.
    pub(crate) fn ready(&mut self) {
        if let Some(mut pipe) = self.0.as_mut().and_then(|child| child.stderr.take()) {
            let _ = pipe.read(&mut [0]);
        }
    }

    /// Reports to the guardian that becket has taken the terminal or restored it.
    pub(crate) fn set_terminal_taken(&mut self, taken: bool) {
        let pipe = self.0.as_mut().and_then(|child| child.stdin.as_mut());
        if let Some(pipe) = pipe
            && pipe.write_all(&[if taken { TERMINAL_TAKEN } else { TERMINAL_RESTORED }]).is_err()
        {
            self.0 = None;
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.set_terminal_taken(false);
        if let Some(mut child) = self.0.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// Runs the guardian until the pipe closes. `modes`: the terminal's original modes.
pub(crate) fn watch(modes: &str) {
    let _ = rustix::process::setsid();
    let _ = io::stderr().write_all(b".");
    let (mut last, mut byte) = (TERMINAL_RESTORED, [0]);
    let mut pipe = io::stdin().lock();
    while let Ok(1) = pipe.read(&mut byte) {
        last = byte[0];
    }
    if last != TERMINAL_TAKEN {
        return;
    }
    let out = io::stdout();
    // The shell may already use the terminal with its own modes. Both of these flags are off only in becket's modes.
    if let (Ok(mut now), Some(then)) = (tcgetattr(&out), parse_modes(modes))
        && !now.local_modes.intersects(LocalModes::ICANON | LocalModes::ISIG)
    {
        (now.input_modes, now.output_modes, now.control_modes, now.local_modes) = then;
        let _ = tcsetattr(&out, OptionalActions::Now, &now);
    }
    let _ = becket_tui::terminal::restore(&mut out.lock());
}

type Modes = (InputModes, OutputModes, ControlModes, LocalModes);

fn format_modes(modes: &Termios) -> String {
    format!(
        "{:x}:{:x}:{:x}:{:x}",
        modes.input_modes.bits(),
        modes.output_modes.bits(),
        modes.control_modes.bits(),
        modes.local_modes.bits()
    )
}

fn parse_modes(text: &str) -> Option<Modes> {
    let mut words = text.split(':').map(|word| u32::from_str_radix(word, 16).ok());
    let mut next = || words.next().flatten();
    Some((
        InputModes::from_bits_retain(next()?),
        OutputModes::from_bits_retain(next()?),
        ControlModes::from_bits_retain(next()?),
        LocalModes::from_bits_retain(next()?),
    ))
}
