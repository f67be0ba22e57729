//! The tools `bash`, `job_output` and `job_kill`: they run shell commands with limits on time, output and resources, and leave no process behind.
//!
//! Owns starting, watching and ending processes, reading and cleaning their output, their environment and working directory.
//! Does not own permissions (the guard reads the command from [`becket_tool::Tool::access`]) or undo.
//!
//! | module | what it is for |
//! |---|---|
//! | `tool`, `job_tools` | the tools |
//! | `shell` | what the commands of a session share |
//! | `start`, `process` | starting a command; holding what belongs to it; `launch`: shell, session, wrapper; `cwd_file`: its last directory |
//! | `drain` | reading its output; `clean`, `screen`, `capture`, `spill`: steps that the bytes go through |
//! | `jobs` | commands that outlive their call; `job_changes`: their starts, ends and output for front ends |
//! | `ending` | TERM, two seconds, KILL, for the whole tree; `sys`: finding it |
//! | `limits` | limits on a command's processes, memory, files and output |
//! | `watcher` | ending all commands when becket dies |
//! | [`environment`] | the environment variables that commands get |
//! | `selfkill` | commands that would kill becket; `editors`: commands that would wait for keys for ever |
//! | `report` | results in words; `refusal`: failures that the sandbox may have caused |
//!
//! Invariants:
//! - No command reads from becket's terminal or standard input.
//! - A call returns when its shell ends, even if another process still holds the pipe. On a timeout or an interrupt it
//!   returns when the command's processes are gone.
//! - Memory is bounded for any output.
//! - However this process ends, everything that commands started ends with it. The exception is a process that left its
//!   group, session, parents and environment behind before its command had a control group, or where there is none.

mod capture;
mod clean;
mod cwd_file;
mod drain;
mod editors;
mod ending;
pub mod environment;
mod job_changes;
mod job_tools;
mod jobs;
mod launch;
mod limits;
mod process;
mod refusal;
mod report;
mod screen;
mod selfkill;
mod shell;
mod spill;
mod start;
mod sys;
mod tool;
mod watcher;
mod withheld;

pub use capture::Window;
pub use editors::waiting_editor;
pub use job_changes::{JobChange, JobEnd, JobOutcome, JobText};
pub use job_tools::{JobKill, JobOutput};
pub use limits::Limits;
pub use shell::Shell;
pub use tool::BashTool;

use becket_sandbox::Sandbox;
use becket_tool::Tool;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Describes, for people, how commands are found again and limited on this system.
pub fn means() -> String {
    let Limits { tasks, open_files, output_bytes, .. } = Limits::default();
    let found = match (sys::cgroups(), sys::LISTS_PROCESSES) {
        (Some(true), _) => "after a moment in a control group that holds limits; watched",
        (Some(false), _) => "after a moment in a control group, which holds no limits here; watched",
        (None, true) => "found again by group, session, parents and a mark in their environment; watched",
        (None, false) => "found again by group only; not watched",
    };
    format!(
        "each in a session of its own; {found}: {tasks} processes and threads, three quarters of the memory, {open_files} \
         open files, {} MB printed",
        output_bytes >> 20
    )
}

impl Shell {
    /// Returns the tools `bash`, `job_output` and `job_kill`.
    pub fn tools(self: &Arc<Self>) -> Vec<Arc<dyn Tool>> {
        vec![
            Arc::new(BashTool::new(Arc::clone(self))),
            Arc::new(JobOutput::new(Arc::clone(self))),
            Arc::new(JobKill::new(Arc::clone(self))),
        ]
    }
}

/// Settings of a [`Shell`]: the environment, the folders for outputs, the limits.
#[derive(Clone, Debug)]
pub struct ShellSettings {
    /// The whole environment of commands: see [`environment::for_commands`].
    pub env: Vec<(OsString, OsString)>,
    /// Names of variables that becket itself has and that commands do not get.
    pub withheld: Vec<String>,
    pub spill: SpillFolders,
    /// becket's own program name, which `pkill` and `killall` must not match.
    pub program: String,
    /// The shell program. Default: `bash` if it is installed, otherwise `/bin/sh`.
    pub shell: Option<PathBuf>,
    /// A program with arguments that starts a new session and then becomes the program named after it, with the same process
    /// number. Default: `setsid` if it is installed. Without it, commands can open `/dev/tty`.
    pub launcher: Option<Vec<OsString>>,
    /// Confines commands. Without it, a command that must be confined is refused.
    pub sandbox: Option<Arc<Sandbox>>,
    /// True if the model cannot ask to run a command outside the sandbox.
    pub keeps_confined: bool,
    /// The part of a command's output that the model sees.
    pub window: Window,
    pub limits: Limits,
    /// Time after which a command is ended if the model gives no timeout.
    pub default_timeout: Duration,
    /// Longest timeout that the model can give.
    pub max_timeout: Duration,
}

/// Folders for outputs that are too large for a result.
#[derive(Clone, Debug)]
pub struct SpillFolders {
    /// Folder for large outputs and for the file with a command's last directory. Created when needed, readable by its owner alone.
    pub dir: Option<PathBuf>,
    /// Folders to try if `dir` is not given or cannot be created: a new private folder is made in the first that allows it.
    /// Large outputs also go there if `dir` is on a file system in memory.
    pub others: Vec<PathBuf>,
    /// The folder in which all sessions keep their outputs: together at most 5 GiB. `None`: only this session's outputs are
    /// counted.
    pub store: Option<PathBuf>,
}

impl ShellSettings {
    /// The usual settings: commands are ended after 120 s, or what the model asks for, at most 600 s. Shows 10 KiB from the start
    /// and 20 KiB from the end of an output.
    pub fn new(env: Vec<(OsString, OsString)>, spill_dir: impl Into<Option<PathBuf>>) -> Self {
        Self {
            env,
            withheld: Vec::new(),
            spill: SpillFolders {
                dir: spill_dir.into(),
                others: vec![PathBuf::from("/var/tmp")],
                store: None,
            },
            program: "becket".to_owned(),
            shell: None,
            launcher: None,
            sandbox: None,
            keeps_confined: false,
            window: Window::default(),
            limits: Limits::default(),
            default_timeout: Duration::from_mins(2),
            max_timeout: Duration::from_mins(10),
        }
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_os_str())
    }
}
