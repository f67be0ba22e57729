//! The `bash` tool: one command at a time, from its arguments to its result.

use crate::cwd_file::CwdFile;
use crate::drain::MAX_INPUT;
use crate::editors;
use crate::process::Process;
use crate::refusal;
use crate::report::{self, End, Run};
use crate::selfkill;
use crate::shell::Shell;
use crate::start::{self, Start};
use crate::withheld;
use becket_tool::input::Parser;
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, CallId, ToolOutput, ToolSpec, sdk_names::PRINTED_LINES};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Name of the session state that holds the directory of the next command, if it is not the session's own.
const CWD: &str = "shell_cwd";

/// Names that other agents use for these arguments.
const ALIASES: &[(&str, &str)] = &[
    ("cmd", "command"),
    ("script", "command"),
    ("timeout_ms", "timeout"),
    ("cwd", "workdir"),
    ("working_directory", "workdir"),
    ("run_in_background", "background"),
    ("is_background", "background"),
    ("stdin", "input"),
    ("tty", "pty"),
];
const IGNORED: &[&str] = &["restart"];

#[derive(Debug, Deserialize)]
struct Arguments {
    command: String,
    /// Milliseconds.
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    workdir: Option<String>,
    #[serde(default)]
    background: Option<Background>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    pty: bool,
    #[serde(default)]
    input: Option<String>,
    /// Run outside the sandbox. Not in the schema: becket mentions it only in the note after a command that the sandbox seems to
    /// have refused.
    #[serde(default)]
    unconfined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Background {
    Now,
    OnTimeout,
}

impl Arguments {
    /// The command, and the model's words about it.
    fn named(&self) -> (&str, Option<&str>) {
        (&self.command, self.description.as_deref().filter(|words| !words.trim().is_empty()))
    }

    /// The text to type into the command's terminal; `None` if it gets no terminal.
    fn terminal(&self) -> Option<String> {
        (self.pty || self.input.is_some()).then(|| self.input.clone().unwrap_or_default())
    }
}

/// Runs shell commands.
pub struct BashTool {
    spec: ToolSpec,
    shell: Arc<Shell>,
}

impl BashTool {
    /// Makes the tool. Its commands run in `shell`.
    pub fn new(shell: Arc<Shell>) -> Self {
        Self { spec: spec(&shell), shell }
    }
}

fn spec(shell: &Shell) -> ToolSpec {
    let settings = &shell.settings;
    let (default, most) =
        (settings.default_timeout.as_millis() as u64, settings.max_timeout.as_millis() as u64);
    ToolSpec {
        name: "bash".to_owned(),
        description: format!(
            "Runs a shell command; gives output (stdout and stderr in order; start and end of a long one) and exit code. \
             `cd` holds for later calls. There is no input: use flags instead of prompts, pagers and editors. Servers and \
             watchers go to the background. Timeout {default} ms unless given, at most {most}."
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "timeout": {"type": "number", "minimum": 1, "description": "Milliseconds"},
                "description": {"type": "string", "description": "What it does, in a few words, for the user"},
                "workdir": {"type": "string", "description": "Directory for this call only"},
                "background": {"type": "string", "enum": ["now", "on_timeout"], "description": "Becomes a job, at once or instead of timing out"},
                "pty": {"type": "boolean", "description": "In a terminal"},
                "input": {"type": "string", "description": "Typed into the terminal"}
            },
            "required": ["command"]
        }).into(),
    }
}

impl Tool for BashTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input = self.parse(input)?;
        let mut access = Access::execute(match &input.input {
            Some(text) if !text.is_empty() => report::with_input(&input.command, text),
            _ => input.command.clone(),
        });
        access.unconfined = input.unconfined && !self.shell.settings.keeps_confined;
        // The folder in which the command will run. An earlier `cd` may have set it.
        let kept = env.host.state(CWD).and_then(|v| v.as_str().map(PathBuf::from));
        let current = kept.as_deref().unwrap_or(&env.cwd);
        if let Some(workdir) = &input.workdir {
            let dir = becket_tool::paths::resolve(current, Path::new(workdir));
            access.paths.push(dir.map_err(|e| e.to_string())?);
        } else if kept.is_some() {
            access.paths.push(current.to_path_buf());
        }
        Ok(access)
    }

    fn refusal(&self, input: &Value, _env: &ToolEnv) -> Option<String> {
        self.hopeless(&self.parse(input).ok()?)
    }

    fn detach(&self, call: &CallId) -> bool {
        self.shell.detach(call)
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let outcome = match self.parse(&input) {
                Ok(input) => self.execute(&input, env).await,
                Err(message) => Err(message),
            };
            self.shell.with_news(outcome.unwrap_or_else(ToolOutput::error), env)
        })
    }
}

/// Translates other agents' flags for background commands: `true` means to start in the background at once.
fn background(input: &Value) -> Option<Value> {
    let names = ["background", "run_in_background", "is_background"];
    let map = input.as_object()?;
    let name = names.into_iter().find(|name| map.contains_key(*name))?;
    let value = match map[name].as_str().map(str::trim).unwrap_or_default() {
        "true" => Value::Bool(true),
        "false" | "" if map[name].is_string() => Value::Bool(false),
        _ => map[name].clone(),
    };
    let mut map = map.clone();
    map.remove(name);
    match value {
        Value::Bool(true) => map.insert("background".to_owned(), Value::from("now")),
        Value::Bool(false) => None,
        value => map.insert("background".to_owned(), value),
    };
    Some(Value::Object(map))
}

impl BashTool {
    fn parse(&self, input: &Value) -> Result<Arguments, String> {
        let plain = background(input);
        let parser = Parser::new(&self.spec).aliases(ALIASES).ignore(IGNORED);
        let input: Arguments = parser.parse(plain.as_ref().unwrap_or(input))?;
        if input.command.trim().is_empty() {
            return Err("The command is empty.".to_owned());
        }
        if input.command.contains('\0') {
            return Err("The command contains a NUL character; a shell cannot run that.".to_owned());
        }
        if input.timeout.is_some_and(|ms| ms.is_nan() || ms < 1.0) {
            return Err("`timeout` is in milliseconds and must be at least 1.".to_owned());
        }
        if input.input.as_ref().is_some_and(|text| text.len() > MAX_INPUT) {
            return Err(format!("`input` is longer than {MAX_INPUT} bytes; write it to a file."));
        }
        Ok(input)
    }

    fn timeout(&self, input: &Arguments) -> Duration {
        let most = self.shell.settings.max_timeout;
        // Compare before converting, because the number may be too large for a `Duration`.
        match input.timeout {
            None => self.shell.settings.default_timeout.min(most),
            Some(ms) if ms >= most.as_secs_f64() * 1000.0 => most,
            Some(ms) => Duration::from_secs_f64(ms / 1000.0),
        }
    }

    /// Returns why the command is never run: it would end becket itself, or start an editor that waits for keys for ever.
    fn hopeless(&self, input: &Arguments) -> Option<String> {
        let mut texts = std::iter::once(&input.command).chain(&input.input);
        texts
            .find_map(|text| selfkill::refusal(text, &self.shell.own_processes))
            .or_else(|| input.terminal().is_none().then(|| editors::refusal(&input.command)).flatten())
    }

    async fn execute(&self, input: &Arguments, env: &ToolEnv) -> Result<ToolOutput, String> {
        if env.cancel.is_cancelled() {
            return Ok(ToolOutput {
                interrupted: true,
                ..ToolOutput::error("Interrupted before the command started.")
            });
        }
        let shell = &*self.shell;
        if let Some(why) = self.hopeless(input) {
            return Err(why);
        }
        if input.background == Some(Background::Now)
            && let Some(why) = shell.jobs.full(&*env.host)
        {
            return Err(format!("The command was not started: {why}."));
        }
        let cwd = working_directory(input, env)?;
        let start = Start {
            command: &input.command,
            cwd: &cwd,
            terminal: input.terminal(),
            progress: Arc::clone(&env.progress),
            variables: env.variables,
            sandbox: env.sandbox,
            roots: &env.roots,
        };
        let process = start::start(shell, start)?;
        if input.background == Some(Background::Now) {
            let job = shell.jobs.adopt(process, input.named(), None, env);
            let job = job.ok_or("The command was lost.")?;
            return Ok(ToolOutput {
                details: json!({"job": job.id, "cwd": cwd.to_string_lossy(), PRINTED_LINES: 0}),
                ..ToolOutput::text(format!("[started as job {}]", job.id))
            });
        }
        let withheld = &shell.settings.withheld;
        let may_read = |path: &Path| {
            let real = path.canonicalize();
            real.is_ok_and(|real| {
                env.roots.iter().any(|root| real.starts_with(root)) && (env.may_read)(&real)
            })
        };
        // The command may change its scripts, so they are read before it runs.
        let in_scripts = withheld::names_in_scripts(&input.command, &cwd, withheld, &may_read);
        let mut output = self.foreground(process, input, cwd, env).await?;
        for name in withheld::names_in_command(&input.command, withheld).into_iter().chain(in_scripts) {
            report::note(
                &mut output.content,
                format_args!(
                    "commands do not get {name}, though it is set for becket; the user can pass it on with shell.pass in the \
                     configuration"
                ),
            );
        }
        Ok(output)
    }

    async fn foreground(
        &self,
        mut process: Process,
        input: &Arguments,
        cwd: PathBuf,
        env: &ToolEnv,
    ) -> Result<ToolOutput, String> {
        let shell = &*self.shell;
        let timeout = self.timeout(input);
        let deadline = process.started + timeout;
        let waited = shell.register_waiting(&env.call_id);
        let end = tokio::select! {
            biased;
            () = env.cancel.cancelled() => Some(End::Interrupted),
            end = process.wait() => Some(end?),
            () = waited.signal.notified() => None,
            () = tokio::time::sleep_until(deadline) => Some(End::TimedOut(timeout)),
        };
        drop(waited);
        let Some(mut end) = end else {
            let took = process.started.elapsed();
            let how = format!("the user moved it to the background after {}", report::seconds(took));
            return self.continued_as_job(process, input, (&how, false), env).await;
        };
        let mut full = None;
        if matches!(end, End::TimedOut(_)) && input.background == Some(Background::OnTimeout) {
            full = shell.jobs.full(&*env.host);
            if full.is_none() {
                let how = format!("still running after {}", report::seconds(timeout));
                return self.continued_as_job(process, input, (&how, true), env).await;
            }
        }
        let (mut survivors, mut left) = (0, false);
        match end {
            End::TimedOut(_) | End::Interrupted => survivors = process.end().await,
            End::Exit(_) | End::Signal(_) => left = process.settle().await,
            End::Over(_) => survivors = process.end().await,
        }
        if let Some(trip) = process.drain.exceeded_limit() {
            (end, left) = (End::Over(trip), false);
        }
        let took = process.started.elapsed();
        let pass = process.pass.clone();
        let output = process.drain.look(left, &env.host).await;
        let (cwd, mut cwd_note) = follow(&cwd, &process.cwd_file, input.workdir.is_some(), env);
        if let Some(why) = full {
            let _ = write!(cwd_note.get_or_insert_default(), "[it was not moved to the background: {why}]");
        }
        let mut job = None;
        if left {
            job = shell.jobs.adopt(process, input.named(), Some(end), env).map(|job| job.id);
        } else {
            process.sweep().await;
            // No process is left, so dropping the process must not search for any.
            process.release();
        }
        shell.prune();
        let mut report = report::report(Run { end, took, output, survivors, job, cwd_note, cwd });
        if env.sandbox.is_confined() {
            let hosts = pass.map(|pass| pass.refusals());
            let advice = refusal::advice(shell.settings.keeps_confined);
            refusal::add(&mut report, (env.sandbox, &env.roots), hosts.as_deref(), advice);
        }
        Ok(report)
    }

    /// Reports that the command continues as a job. `how`: the reason.
    async fn continued_as_job(
        &self,
        process: Process,
        input: &Arguments,
        (how, timed_out): (&str, bool),
        env: &ToolEnv,
    ) -> Result<ToolOutput, String> {
        let job = self.shell.jobs.adopt(process, input.named(), None, env);
        let job = job.ok_or("The command was lost.")?;
        let output = job.drain.look(true, &env.host).await;
        let report::Body { text: mut content, spill, lines, .. } = report::body(output, "(no output yet)");
        report::note(&mut content, format!("{how}; now job {}", job.id));
        Ok(ToolOutput {
            content,
            spill,
            details: json!({"job": job.id, "timed_out": timed_out, PRINTED_LINES: lines}),
            excerpt_lines: report::EXCERPT_LINES,
            ..ToolOutput::default()
        })
    }
}

/// The directory in which this command starts. `Err` is a message for the model.
fn working_directory(input: &Arguments, env: &ToolEnv) -> Result<PathBuf, String> {
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

/// Returns the directory for the next command, after one that started in `from`, and a note if that directory would
/// surprise the model.
fn follow(
    from: &Path,
    cwd_file: &CwdFile,
    for_this_call_only: bool,
    env: &ToolEnv,
) -> (PathBuf, Option<String>) {
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
    let Some(to) = cwd_file.directory() else {
        // The shell wrote no directory: it was in a deleted directory, or it was killed or replaced itself. In the second case, the
        // directory stays the same.
        return if from.is_dir() { (from.to_owned(), None) } else { gone(from) };
    };
    let unmoved = from.canonicalize().is_ok_and(|from| from == to) || from == to;
    if unmoved && (for_this_call_only || from.is_dir()) {
        return (from.to_owned(), None);
    }
    if unmoved {
        return gone(&to);
    }
    // The command chose this text. So a path outside of the session's directories is not looked up, and no `..` or link in it is
    // followed.
    let is_inside = env.is_inside(&to) && !to.components().any(|part| part == Component::ParentDir);
    let (Some(text), true) = (to.to_str(), is_inside) else {
        let back = if for_this_call_only { &env.cwd } else { from };
        let note = format!(
            "[{} is outside of the session's directories; the next command starts in {}]",
            to.display(),
            back.display()
        );
        return (back.to_owned(), Some(note));
    };
    if !to.is_dir() || to.canonicalize().ok().as_ref() != Some(&to) {
        return gone(&to);
    }
    let state = if to == env.cwd { Value::Null } else { Value::from(text) };
    env.host.set_state(CWD, state);
    let mut note = format!("[working directory is now {}", env.display(&to));
    if to != env.cwd {
        let _ = write!(note, "; paths of other tools still start in {}", env.cwd.display());
    }
    note.push(']');
    (to, Some(note))
}
