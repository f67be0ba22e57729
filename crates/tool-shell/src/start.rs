//! Starts one command: its shell, confined or not, on a pipe or in a terminal, and the thread that reads its output.
//!
//! Owns nothing after the start: a running command is a [`Process`].

use crate::cwd_file::CwdFile;
use crate::drain::{BUFFER, Drain, Progress, Setup};
use crate::ending::Tree;
use crate::launch;
use crate::limits::LimitWatch;
use crate::process::{KillOnDrop, Process};
use crate::screen::{COLUMNS, ROWS};
use crate::shell::Shell;
use crate::spill::Spill;
use crate::sys;
use becket_sandbox::Pass;
use becket_types::SandboxLevel;
use rustix::process::Pid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Arguments of [`start`].
pub(crate) struct Start<'a> {
    pub command: &'a str,
    pub cwd: &'a Path,
    /// If set, the command gets a terminal, and this text is typed into it.
    pub terminal: Option<String>,
    pub progress: Progress,
    /// Variables in addition to the environment of every command.
    pub variables: &'static [(&'static str, &'static str)],
    pub sandbox: SandboxLevel,
    /// The folders of the workspace.
    pub roots: &'a [PathBuf],
}

/// Returns `PATH` without folders of the workspace, for a command that only reads: the guard judged it by the names of its
/// programs, so they must be the system's.
fn own_programs(shell: &Shell, roots: &[PathBuf]) -> Option<OsString> {
    let search = shell.settings.variable("PATH")?;
    let is_elsewhere = |folder: &PathBuf| {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        folder.is_absolute() && !roots.iter().any(|root| real.starts_with(root))
    };
    std::env::join_paths(std::env::split_paths(search).filter(is_elsewhere)).ok()
}

/// The program that runs a command, confined or not, and the folder for its small files.
struct Setting {
    /// Program and arguments; the shell is the last.
    program: Vec<OsString>,
    directory: PathBuf,
    /// The private temporary folder of a confined command.
    temp: Option<PathBuf>,
    pass: Option<Arc<Pass>>,
}

impl Setting {
    fn new(shell: &Shell, level: SandboxLevel, group: Option<PathBuf>) -> Result<Self, String> {
        let settings = &shell.settings;
        let own = shell.program.clone().into_os_string();
        if !level.is_confined() {
            let failed = |e| format!("The command was not started: {e}.");
            let directory = shell.private_dir().map_err(failed)?.to_path_buf();
            return Ok(Self { program: vec![own], directory, temp: None, pass: None });
        }
        let refused = |why: String| format!("The command was not started: {why}.");
        let sandbox = settings.sandbox.as_ref().ok_or_else(|| refused("there is no sandbox".to_owned()))?;
        // At the level of deny rules, the shell itself can enter its control group.
        let group = group.filter(|_| level != SandboxLevel::DenyRules);
        let confined = sandbox.confine(level, group).map_err(|e| refused(e.to_string()))?;
        let mut program = confined.words;
        program.push(own);
        if level == SandboxLevel::DenyRules {
            // Such a command has the temporary folder of every other program.
            let directory = shell.private_dir().map_err(|e| refused(e.to_string()))?.to_path_buf();
            return Ok(Self { program, directory, temp: None, pass: None });
        }
        Ok(Self { program, directory: confined.temp.clone(), temp: Some(confined.temp), pass: confined.pass })
    }
}

/// The answer to a command that is too long for the environment of a program.
const TOO_LONG: &str =
    "The command is longer than 1 MB and was not started. Write it to a file, and run that.";

/// Starts a command, the thread that reads its output, and the watcher that ends it when becket dies. `Err` is a message
/// for the model.
pub(crate) fn start(shell: &Shell, start: Start<'_>) -> Result<Process, String> {
    let failed = |what: &str, e: io::Error| format!("The command was not started: {what}: {e}.");
    let settings = &shell.settings;
    let number = shell.calls.fetch_add(1, Ordering::Relaxed);
    let mark = format!("{}{number}", shell.mark);
    let (name, value) = mark.split_once('=').unwrap_or((&mark, ""));
    let pids = sys::Pids::new(value, settings.limits.tasks);
    let mut entrance = pids.as_ref().map(sys::Pids::entrance).unwrap_or_default();
    let group = (!entrance.as_os_str().is_empty()).then(|| entrance.clone());
    let Setting { program, directory, temp, pass } = Setting::new(shell, start.sandbox, group)?;
    if temp.is_some() {
        // The sandbox's helper enters the control group, because a confined shell cannot write to the group's file.
        entrance.clear();
    }
    let directory = directory.as_path();
    let cwd_file = CwdFile::new(directory).map_err(|e| failed("its temporary folder cannot be used", e))?;
    if start.command.len() > launch::MAX_COMMAND {
        return Err(TOO_LONG.to_owned());
    }
    let command = launch::variables(start.command);
    let own: [(&OsStr, &OsStr); 2] = [("PWD".as_ref(), start.cwd.as_ref()), (name.as_ref(), value.as_ref())];
    let run = command.iter().map(|(name, part)| (OsStr::new(name), OsStr::new(*part)));
    let more = start.variables.iter().map(|(n, v)| (OsStr::new(*n), OsStr::new(*v)));
    let temp = temp.as_deref().map(|temp| (OsStr::new("TMPDIR"), temp.as_os_str()));
    let all = settings.env.iter().map(|(n, v)| (n.as_os_str(), v.as_os_str()));
    let search =
        (start.sandbox == SandboxLevel::ReadOnly).then(|| own_programs(shell, start.roots)).flatten();
    let search = search.as_ref().map(|search| (OsStr::new("PATH"), search.as_os_str()));
    let exports = shell.exports();
    let exported = exports.iter().map(|(n, v)| (n.as_os_str(), v.as_os_str()));
    let env = all.chain(exported).chain(search).chain(more).chain(temp).chain(own).chain(run);
    let lease = settings.sandbox.as_ref().and_then(|sandbox| {
        // A command in the background may have changed files that this command obeys.
        sandbox.check_protected();
        sandbox.protect(start.sandbox)
    });
    let args = launch::arguments(cwd_file.path(), settings.limits.open_files, entrance, &command);
    let spawned = match start.terminal {
        Some(_) => in_terminal(&program, args, env, start.cwd),
        None => on_pipe(shell, &program, args, env, start.cwd),
    };
    let (child, end) = spawned.map_err(|e| failed(&shell.program.display().to_string(), e))?;
    if let Some(lease) = &lease {
        lease.set_process(child.id());
    }
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let tree = Tree::new(group.ok_or("The command was not started.")?, mark, pids);
    let group = tree.group;
    let sentry = LimitWatch::new(tree.clone(), settings.limits);
    // From here on, returning an error drops the tree, which ends the command.
    let tree = KillOnDrop(Some(tree));
    let setup = Setup {
        window: settings.window,
        spill: Spill::new(Arc::clone(&shell.spill_store)),
        progress: start.progress,
        sentry,
        terminal: start.terminal,
    };
    let drain = Drain::start(end, setup).map_err(|e| failed("its output cannot be read", e))?;
    let process = Process { child, drain, tree, started: Instant::now(), cwd_file, pass, lease };
    if let Some(lease) = &process.lease {
        shell.protect(lease.absent());
    }
    shell.watch(group).map_err(|e| failed("the watcher that ends it with us", e))?;
    Ok(process)
}

type Spawned = io::Result<(Child, File)>;

fn on_pipe<'a>(
    shell: &Shell,
    program: &[OsString],
    args: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    cwd: &Path,
) -> Spawned {
    let (reader, writer) = io::pipe()?;
    // A larger pipe needs fewer context switches.
    sys::widen(&reader, BUFFER);
    // This `Command` holds the pipe's other end. It must be dropped, or the end of the output would never be seen.
    let mut command = shell.launcher.command(program);
    command
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    // Dropping the child does not kill the shell: `KillOnDrop` kills all its processes together.
    let child = Command::from(command).spawn()?;
    Ok((child, File::from(OwnedFd::from(reader))))
}

fn in_terminal<'a>(
    program: &[OsString],
    args: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    cwd: &Path,
) -> Spawned {
    let (ours, theirs) = pty_process::open().map_err(io::Error::other)?;
    ours.resize(pty_process::Size::new(ROWS, COLUMNS)).map_err(io::Error::other)?;
    let (first, rest) = program.split_first().ok_or_else(|| io::Error::other("no program"))?;
    let child = pty_process::Command::new(first)
        .args(rest)
        .args(args)
        .env_clear()
        .envs(env)
        .env("TERM", "xterm-256color")
        .env_remove("COLUMNS")
        .env_remove("LINES")
        .current_dir(cwd)
        .spawn(theirs)
        .map_err(io::Error::other)?;
    Ok((child, File::from(OwnedFd::from(ours))))
}
