//! Starting one command and holding what belongs to it: the shell, our end of its pipe or terminal, its processes.

use crate::drain::{BUFFER, Drain, Progress, Setup};
use crate::ending::{self, Tree};
use crate::launch;
use crate::limits::Sentry;
use crate::report::End;
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
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// How long somebody may hold the other end without being taken for a process in the background.
const PASSING: Duration = Duration::from_millis(30);

/// A command that runs. Dropped before it is done, it takes everything it started with it.
pub(crate) struct Process {
    pub child: Child,
    pub drain: Drain,
    tree: Held,
    pub started: Instant,
    /// Where the shell writes the directory it ends in.
    pub cwd_file: PathBuf,
    /// The permission of a confined command to use the proxy. Its connections end with it.
    pub pass: Option<Arc<Pass>>,
}

/// Processes that end when this is dropped.
pub(crate) struct Held(Option<Tree>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(tree) = &mut self.0 {
            tree.kill();
        }
    }
}

/// What to start.
pub(crate) struct Start<'a> {
    pub command: &'a str,
    pub cwd: &'a Path,
    /// It gets a terminal, with this typed into it.
    pub terminal: Option<String>,
    pub progress: Progress,
    /// On top of the environment of every command.
    pub variables: &'static [(&'static str, &'static str)],
    pub sandbox: SandboxLevel,
}

/// The words before a command's own, and where it keeps its small files.
struct Setting {
    /// Ends with the shell.
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
            let directory = shell.room().map_err(failed)?.to_path_buf();
            return Ok(Self { program: vec![own], directory, temp: None, pass: None });
        }
        let refused = |why: String| format!("The command was not started: {why}.");
        let sandbox = settings.sandbox.as_ref().ok_or_else(|| refused("there is no sandbox".to_owned()))?;
        let confined = sandbox.confine(level, group).map_err(|e| refused(e.to_string()))?;
        let mut program = confined.words;
        program.push(own);
        Ok(Self { program, directory: confined.temp.clone(), temp: Some(confined.temp), pass: confined.pass })
    }
}

impl Process {
    /// `Err` is a message for the model.
    pub(crate) fn start(shell: &Shell, start: Start<'_>) -> Result<Self, String> {
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
            // The helper enters the group: from inside, it cannot be written to.
            entrance.clear();
        }
        let directory = directory.as_path();
        let cwd_file = directory.join(format!("cwd-{}-{number}", std::process::id()));
        let run = inline(directory, start.command, number)
            .map_err(|e| failed("the command could not be stored", e))?;
        let own: [(&OsStr, &OsStr); 3] = [
            ("PWD".as_ref(), start.cwd.as_ref()),
            (name.as_ref(), value.as_ref()),
            ("BECKET_COMMAND".as_ref(), &run),
        ];
        let more = start.variables.iter().map(|(n, v)| (OsStr::new(*n), OsStr::new(*v)));
        let temp = temp.as_deref().map(|temp| (OsStr::new("TMPDIR"), temp.as_os_str()));
        let all = settings.env.iter().map(|(n, v)| (n.as_os_str(), v.as_os_str()));
        let env = all.chain(more).chain(temp).chain(own);
        let args = launch::arguments(&cwd_file, settings.limits.open_files, entrance);
        let spawned = match start.terminal {
            Some(_) => in_terminal(&program, args, env, start.cwd),
            None => on_pipe(shell, &program, args, env, start.cwd),
        };
        let (child, end) = spawned.map_err(|e| failed(&shell.program.display().to_string(), e))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let tree = Tree::new(group.ok_or("The command was not started.")?, mark, pids);
        let setup = Setup {
            window: settings.window,
            spill: Spill::new(Arc::clone(&shell.place)),
            progress: start.progress,
            sentry: Sentry::new(tree.clone(), settings.limits),
            terminal: start.terminal,
        };
        let drain = Drain::start(end, setup).map_err(|e| failed("its output cannot be read", e));
        let group = tree.group;
        let process = match drain {
            Ok(drain) => {
                Self { child, drain, tree: Held(Some(tree)), started: Instant::now(), cwd_file, pass }
            }
            Err(why) => {
                drop(Held(Some(tree)));
                return Err(why);
            }
        };
        shell.watch(group).map_err(|e| failed("the watcher that ends it with us", e))?;
        Ok(process)
    }

    /// The shell has ended: everything it printed is here. Whether something of it runs on.
    pub(crate) async fn settle(&self) -> bool {
        let mut held = self.drain.shell_ended().await;
        if held {
            // For a moment the other end is also held by a program that we start at the same time.
            held = tokio::time::timeout(PASSING, self.drain.closed()).await.is_err();
        }
        if held {
            return true;
        }
        let Some(tree) = self.tree.0.as_ref().filter(|tree| tree.group_exists()) else { return false };
        // Who a fork bomb leaves to be collected are thousands to look at: not on the thread that others wait for.
        let mut tree = tree.clone();
        tokio::task::spawn_blocking(move || tree.group_lives()).await.unwrap_or(true)
    }

    /// TERM, two seconds, KILL. How many could not be ended.
    pub(crate) async fn end(&mut self) -> usize {
        let survivors = match self.tree.0.take() {
            Some(tree) => ending::end(tree, Some(&mut self.child)).await,
            None => 0,
        };
        self.drain.shell_ended().await;
        survivors
    }

    /// How the shell came to its end, with what the sentry has to say.
    pub(crate) async fn wait(&mut self) -> Result<End, String> {
        let status = self.child.wait().await.map_err(|e| format!("The shell was lost: {e}."))?;
        Ok(self.drain.tripped().map_or_else(|| End::of(status), End::Over))
    }

    /// From now on nobody ends it by dropping it.
    pub(crate) fn release(&mut self) -> Option<Tree> {
        self.tree.0.take()
    }
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
    // A larger pipe means fewer switches.
    sys::widen(&reader, BUFFER);
    // The command holds the pipe's other end, and must be gone before the end of the output can be seen.
    let mut command = shell.launcher.command(program);
    command
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    // Dropping it does not end the shell: its processes end as one, see `Held`.
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

/// The command as the shell gets it: itself, or a file that holds it where it is too long for an environment.
fn inline(directory: &Path, command: &str, number: u64) -> io::Result<OsString> {
    if command.len() <= launch::MAX_INLINE {
        return Ok(command.into());
    }
    let path = directory.join(format!("command-{}-{number}.sh", std::process::id()));
    std::fs::write(&path, command)?;
    let quoted = path.to_string_lossy().replace('\'', r"'\''");
    Ok(format!(". '{quoted}'; command rm -f '{quoted}'").into())
}
