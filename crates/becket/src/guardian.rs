//! Gives the terminal back when becket cannot: a process of its own that waits for becket's death.
//!
//! Model: becket starts itself a second time with a pipe to it, and tells it whether the terminal is taken. When the pipe
//! ends while it is, becket was killed, and the guardian turns everything off that becket had turned on. It is in a session
//! of its own, so that what kills becket's group or hangs up its terminal does not reach it first.
//!
//! Invariants: it writes nothing while becket lives; it ends with becket; where it cannot be started, becket goes on
//! without it. It reads no file and starts no runtime.

use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr,
};
use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

/// The word that makes a second becket a guardian.
pub(crate) const WORD: &str = "__guard-terminal";

const TAKEN: u8 = b'1';
const FREE: u8 = b'0';

/// becket's side.
#[derive(Debug, Default)]
pub(crate) struct Guardian(Option<Child>);

impl Guardian {
    /// Starts one for the terminal as it is now, before anything is changed.
    pub(crate) fn start() -> Self {
        let child = tcgetattr(io::stdin()).ok().and_then(|modes| {
            Command::new(std::env::current_exe().ok()?)
                .args([WORD, &written(&modes)])
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .ok()
        });
        let mut guardian = Self(child);
        guardian.taken(true);
        guardian
    }

    /// Whether becket has the terminal now.
    pub(crate) fn taken(&mut self, taken: bool) {
        let pipe = self.0.as_mut().and_then(|child| child.stdin.as_mut());
        if let Some(pipe) = pipe
            && pipe.write_all(&[if taken { TAKEN } else { FREE }]).is_err()
        {
            self.0 = None;
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.taken(false);
        if let Some(mut child) = self.0.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// The guardian's side: until the pipe ends. `modes`: the terminal as it was.
pub(crate) fn watch(modes: &str) {
    let _ = rustix::process::setsid();
    let (mut last, mut byte) = (FREE, [0]);
    let mut pipe = io::stdin().lock();
    while let Ok(1) = pipe.read(&mut byte) {
        last = byte[0];
    }
    if last != TAKEN {
        return;
    }
    let out = io::stdout();
    // The shell may be back already, with modes of its own; becket's are told by both of these being off.
    if let (Ok(mut now), Some(then)) = (tcgetattr(&out), read(modes))
        && !now.local_modes.intersects(LocalModes::ICANON | LocalModes::ISIG)
    {
        (now.input_modes, now.output_modes, now.control_modes, now.local_modes) = then;
        let _ = tcsetattr(&out, OptionalActions::Now, &now);
    }
    let _ = becket_tui::terminal::restore(&mut out.lock());
}

type Modes = (InputModes, OutputModes, ControlModes, LocalModes);

fn written(modes: &Termios) -> String {
    format!(
        "{:x}:{:x}:{:x}:{:x}",
        modes.input_modes.bits(),
        modes.output_modes.bits(),
        modes.control_modes.bits(),
        modes.local_modes.bits()
    )
}

fn read(text: &str) -> Option<Modes> {
    let mut words = text.split(':').map(|word| u32::from_str_radix(word, 16).ok());
    let mut next = || words.next().flatten();
    Some((
        InputModes::from_bits_retain(next()?),
        OutputModes::from_bits_retain(next()?),
        ControlModes::from_bits_retain(next()?),
        LocalModes::from_bits_retain(next()?),
    ))
}
