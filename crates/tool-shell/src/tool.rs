//! The `bash` tool: one command at a time, from its arguments to its result.

use crate::drain::{Drain, Setup};
use crate::ending::{self, Tree};
use crate::launch::{self, Launcher};
use crate::report::{End, Run, report};
use crate::selfkill::{self, Ourselves};
use crate::watcher::Watcher;
use crate::{ShellSettings, sys};
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use rustix::process::Pid;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Session state: where the next command starts, if not in the session's own directory.
const CWD: &str = "shell_cwd";

#[derive(Debug, Deserialize)]
struct Input {
    #[serde(alias = "cmd", alias = "script")]
    command: String,
    /// Milliseconds.
    #[serde(default, alias = "timeout_ms")]
    timeout: Option<f64>,
    #[serde(default, alias = "cwd", alias = "working_directory")]
    workdir: Option<String>,
}

/// Runs shell commands.
pub struct BashTool {
    spec: ToolSpec,
    settings: ShellSettings,
    shell: PathBuf,
    launcher: Launcher,
    us: Ourselves,
    /// `BECKET_RUN=` and what all commands of this tool share.
    mark: String,
    calls: AtomicU64,
    spilled: Arc<AtomicU64>,
    watcher: Mutex<Watcher>,
}

impl BashTool {
    pub fn new(settings: ShellSettings) -> Self {
        let search = settings.variable("PATH").unwrap_or(OsStr::new("/usr/bin:/bin")).to_owned();
        let shell = settings.shell.clone().or_else(|| launch::find("bash", &search));
        let launcher = match &settings.launcher {
            Some(words) => Launcher::Session(words.clone()),
            None => Launcher::find(&search),
        };
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mark = format!("BECKET_RUN={}-{:x}-", std::process::id(), since_epoch.as_nanos());
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        let us = Ourselves {
            pids: std::iter::once(std::process::id().cast_signed())
                .chain(parent.filter(|pid| *pid > 1))
                .collect(),
            name: settings.program.clone(),
            line: sys::own_command_line().unwrap_or_else(|| settings.program.clone()),
        };
        Self {
            spec: spec(&settings),
            shell: shell.unwrap_or_else(|| PathBuf::from("/bin/sh")),
            launcher,
            us,
            watcher: Mutex::new(Watcher::new(mark.clone(), search)),
            mark,
            calls: AtomicU64::new(0),
            spilled: Arc::new(AtomicU64::new(0)),
            settings,
        }
    }
}

fn spec(settings: &ShellSettings) -> ToolSpec {
    let (default, most) =
        (settings.default_timeout.as_millis() as u64, settings.max_timeout.as_millis() as u64);
    ToolSpec {
        name: "bash".to_owned(),
        description: format!(
            "Runs a shell command and gives its output (stdout and stderr together, in order) and exit code. `cd` holds for \
             later calls. There is no terminal and no input: use flags instead of prompts, pagers and editors. Of a long \
             output you get the start and the end. For servers and watchers append `&`. Timeout {default} ms unless given, at most {most}."
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command"},
                "timeout": {"type": "integer", "minimum": 1, "maximum": most, "description": "Milliseconds"},
                "description": {"type": "string", "description": "What it does, in a few words, for the user"},
                "workdir": {"type": "string", "description": "Directory for this call only"}
            },
            "required": ["command"]
        }),
    }
}

impl Tool for BashTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input = parse(input)?;
        let mut access = Access::execute(input.command);
        if let Some(workdir) = &input.workdir {
            access.paths.push(env.path(workdir)?);
        }
        Ok(access)
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let outcome = match parse(&input) {
                Ok(input) => self.execute(&input, env).await,
                Err(message) => Err(message),
            };
            outcome.unwrap_or_else(ToolOutput::error)
        })
    }
}

fn parse(input: &Value) -> Result<Input, String> {
    let input = Input::deserialize(input).map_err(|e| format!("Invalid arguments: {e}."))?;
    if input.command.trim().is_empty() {
        return Err("The command is empty.".to_owned());
    }
    if input.command.contains('\0') {
        return Err("The command contains a NUL character; a shell cannot run that.".to_owned());
    }
    if input.timeout.is_some_and(|ms| ms.is_nan() || ms < 1.0) {
        return Err("`timeout` is in milliseconds and must be at least 1.".to_owned());
    }
    Ok(input)
}

/// A command that runs. Dropped before it is done, it takes everything it started with it.
struct Running {
    child: Child,
    drain: Option<Drain>,
    tree: Option<Tree>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(tree) = &mut self.tree {
            tree.kill();
        }
    }
}

impl BashTool {
    async fn execute(&self, input: &Input, env: &ToolEnv) -> Result<ToolOutput, String> {
        if env.cancel.is_cancelled() {
            return Ok(ToolOutput {
                interrupted: true,
                ..ToolOutput::error("Interrupted before the command started.")
            });
        }
        if let Some(why) = selfkill::refusal(&input.command, &self.us) {
            return Err(why);
        }
        let cwd = working_directory(input, env)?;
        let most = self.settings.max_timeout;
        // Compared before it is converted: a number beyond all durations is only a long one.
        let timeout = match input.timeout {
            None => self.settings.default_timeout.min(most),
            Some(ms) if ms >= most.as_secs_f64() * 1000.0 => most,
            Some(ms) => Duration::from_secs_f64(ms / 1000.0),
        };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let cwd_file = self.settings.spill_dir.join(format!("cwd-{}-{number}", std::process::id()));
        let started = Instant::now();
        let mut running = self.start(&input.command, &cwd, &cwd_file, number, env)?;
        let end = tokio::select! {
            biased;
            () = env.cancel.cancelled() => End::Interrupted,
            status = running.child.wait() => End::of(status.map_err(|e| format!("The shell was lost: {e}."))?),
            () = tokio::time::sleep_until(started + timeout) => End::TimedOut(timeout),
        };
        let tree = running.tree.take();
        let survivors = match (end, tree) {
            (End::TimedOut(_) | End::Interrupted, Some(tree)) => ending::end(tree, &mut running.child).await,
            _ => 0,
        };
        let output = match running.drain.take() {
            Some(drain) => drain.finish().await,
            None => None,
        };
        let output = output.ok_or("The output of the command was lost.")?;
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).prune();
        let (cwd, cwd_note) = follow(&cwd, &cwd_file, input.workdir.is_some(), env);
        Ok(report(Run { end, took: started.elapsed(), output, survivors, cwd_note, cwd }))
    }

    fn start(
        &self,
        command: &str,
        cwd: &Path,
        cwd_file: &Path,
        number: u64,
        env: &ToolEnv,
    ) -> Result<Running, String> {
        let directory = &self.settings.spill_dir;
        let failed = |what: &str, e: std::io::Error| format!("The command was not started: {what}: {e}.");
        std::fs::create_dir_all(directory).map_err(|e| failed(&directory.display().to_string(), e))?;
        let mark = format!("{}{number}", self.mark);
        let run = self.inline(command, number).map_err(|e| failed("the command could not be stored", e))?;
        let (reader, writer) = std::io::pipe().map_err(|e| failed("no pipe", e))?;
        let child = {
            // The command holds the pipe's other end, and must be gone before the end of the output can be seen.
            let mut shell = self.launcher.command(self.shell.as_os_str());
            let (name, value) = mark.split_once('=').unwrap_or((&mark, ""));
            shell
                .args(launch::arguments(cwd_file))
                .env_clear()
                .envs(self.settings.env.iter().map(|(name, value)| (name, value)))
                .env("PWD", cwd)
                .env(name, value)
                .env("BECKET_COMMAND", run)
                .current_dir(cwd)
                .stdin(Stdio::null())
                .stdout(writer.try_clone().map_err(|e| failed("no pipe", e))?)
                .stderr(writer);
            let mut shell = Command::from(shell);
            shell.kill_on_drop(true).spawn().map_err(|e| failed(&self.shell.display().to_string(), e))?
        };
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = group.ok_or("The command was not started.")?;
        let mut running = Running { child, drain: None, tree: Some(Tree::new(group, mark)) };
        let setup = Setup {
            window: self.settings.window,
            spill_dir: directory.clone(),
            spilled: Arc::clone(&self.spilled),
            log: directory.join(format!("background-{}-{number}.log", std::process::id())),
            host: Arc::clone(&env.host),
            progress: Arc::clone(&env.progress),
        };
        running.drain =
            Some(Drain::start(reader, setup).map_err(|e| failed("its output cannot be read", e))?);
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.add(&self.launcher, group).map_err(|e| failed("the watcher that ends it with us", e))?;
        drop(watcher);
        Ok(running)
    }

    /// The command as the shell gets it: itself, or a file that holds it where it is too long for an environment.
    fn inline(&self, command: &str, number: u64) -> std::io::Result<OsString> {
        if command.len() <= launch::MAX_INLINE {
            return Ok(command.into());
        }
        let path = self.settings.spill_dir.join(format!("command-{}-{number}.sh", std::process::id()));
        std::fs::write(&path, command)?;
        let quoted = path.to_string_lossy().replace('\'', r"'\''");
        Ok(format!(". '{quoted}'").into())
    }
}

/// Where this command starts.
fn working_directory(input: &Input, env: &ToolEnv) -> Result<PathBuf, String> {
    let kept = env.host.state(CWD).and_then(|v| v.as_str().map(PathBuf::from));
    let current = kept.clone().unwrap_or_else(|| env.cwd.clone());
    if let Some(workdir) = &input.workdir {
        let path = becket_tool::paths::resolve(&current, Path::new(workdir)).map_err(|e| e.to_string())?;
        if path.is_dir() {
            return Ok(path);
        }
        return Err(format!("The working directory {} does not exist or is no directory.", path.display()));
    }
    if current.is_dir() {
        return Ok(current);
    }
    if kept.is_some() && env.cwd.is_dir() {
        env.host.set_state(CWD, Value::Null);
        return Err(format!(
            "The working directory {} is gone; the command was not run. Commands start in {} again.",
            current.display(),
            env.cwd.display()
        ));
    }
    Err(format!(
        "The working directory {} is gone; the command was not run. Give another one as `workdir`.",
        current.display()
    ))
}

/// Where the next command starts, after one that started in `from`; and a note where that is not what one would think.
fn follow(
    from: &Path,
    cwd_file: &Path,
    for_this_call_only: bool,
    env: &ToolEnv,
) -> (PathBuf, Option<String>) {
    let bytes = std::fs::read(cwd_file).unwrap_or_default();
    let _ = std::fs::remove_file(cwd_file);
    let gone = |path: &Path| {
        env.host.set_state(CWD, Value::Null);
        let back = env.cwd.display();
        (
            env.cwd.clone(),
            Some(format!(
                "[the working directory {} is gone; the next command starts in {back}]",
                path.display()
            )),
        )
    };
    let Some(bytes) = bytes.strip_suffix(b"\n").filter(|b| !b.is_empty()) else {
        // A shell cannot name a directory that is gone; one that was killed or replaced says nothing, and stays.
        return if from.is_dir() { (from.to_owned(), None) } else { gone(from) };
    };
    let to = PathBuf::from(OsString::from_vec(bytes.to_vec()));
    let unmoved = from.canonicalize().is_ok_and(|from| from == to) || from == to;
    if unmoved && (for_this_call_only || from.is_dir()) {
        return (from.to_owned(), None);
    }
    if !to.is_dir() {
        return gone(&to);
    }
    let (Some(text), true) = (to.to_str(), env.is_inside(&to)) else {
        let back = if for_this_call_only { &env.cwd } else { from };
        let note = format!(
            "[{} is outside of the session's directories; the next command starts in {}]",
            to.display(),
            back.display()
        );
        return (back.to_owned(), Some(note));
    };
    let state = if to == env.cwd { Value::Null } else { Value::from(text) };
    env.host.set_state(CWD, state);
    let note = format!("[working directory is now {}]", env.display(&to));
    (to, Some(note))
}
