//! The `bash` tool: shell commands that end when they should, print what they like, and take nothing down with them.
//!
//! Owns starting, watching and ending processes, reading and cleaning their output, their environment and working directory.
//! Does not own permissions (the guard reads the command from [`becket_tool::Tool::access`]) or undo.
//!
//! | module | what it is for |
//! |---|---|
//! | `tool` | the tool |
//! | `launch` | shell, session, wrapper |
//! | `drain` | reading the pipe; `clean`, `capture`, `spill`: what becomes of the bytes |
//! | `ending` | TERM, two seconds, KILL, for the whole tree; `sys`: finding it |
//! | `watcher` | the same when we are gone |
//! | [`environment`] | what commands may know |
//! | `selfkill` | commands that would end us |
//! | `report` | the result in words |
//!
//! Invariants:
//! - No command reads from a terminal or from our input.
//! - A call returns when its shell ends, whoever holds the pipe; on a timeout or an interrupt, when its processes are gone.
//! - Memory is bounded whatever is printed.
//! - When this process ends in whatever way, so does everything commands started, unless it hid from group, session,
//!   parents and environment alike.

mod capture;
mod clean;
mod drain;
mod ending;
pub mod environment;
mod launch;
mod report;
mod selfkill;
mod spill;
mod sys;
mod tool;
mod watcher;

pub use capture::Window;
pub use tool::BashTool;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// How commands are run.
#[derive(Clone, Debug)]
pub struct ShellSettings {
    /// The whole environment of commands: see [`environment::for_commands`].
    pub env: Vec<(OsString, OsString)>,
    /// For large outputs, logs of background processes and other files of commands; on a disk, not in memory. Made when
    /// needed.
    pub spill_dir: PathBuf,
    /// Our own program name, which `pkill` and `killall` must not match.
    pub program: String,
    /// The shell; `bash` where there is one, else `/bin/sh`.
    pub shell: Option<PathBuf>,
    /// A program, with arguments, that starts a new session and then runs the program that follows, keeping its process
    /// number; `setsid` where there is one. Without any, commands can open `/dev/tty`.
    pub launcher: Option<Vec<OsString>>,
    pub window: Window,
    pub default_timeout: Duration,
    pub max_timeout: Duration,
}

impl ShellSettings {
    /// The usual settings: 120 s, at most 600 s; 10 KB of the start and 20 KB of the end of an output.
    pub fn new(env: Vec<(OsString, OsString)>, spill_dir: PathBuf) -> Self {
        Self {
            env,
            spill_dir,
            program: "becket".to_owned(),
            shell: None,
            launcher: None,
            window: Window::default(),
            default_timeout: Duration::from_mins(2),
            max_timeout: Duration::from_mins(10),
        }
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_os_str())
    }
}
