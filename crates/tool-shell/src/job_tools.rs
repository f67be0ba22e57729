//! The tools `job_output` and `job_kill`: show background jobs, type into them, end them.

use crate::jobs::{Job, State};
use crate::shell::Shell;
use crate::{refusal, report};
use becket_tool::input::Parser;
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Names that other agents use for these arguments.
const ALIASES: &[(&str, &str)] = &[
    ("job_id", "id"),
    ("bash_id", "id"),
    ("shell_id", "id"),
    ("task_id", "id"),
    ("stdin", "input"),
    ("timeout", "wait"),
];
const IGNORED: &[&str] = &["description", "filter", "block"];

/// Time limits for an answer to typed input if no `wait` is given: output must begin within `ANSWER`, and a pause of `PAUSE` ends
/// it.
const ANSWER: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(150);

#[derive(Debug, Deserialize)]
struct Arguments {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    input: Option<String>,
    /// Milliseconds.
    #[serde(default)]
    wait: Option<u64>,
}

/// The tool `job_output`: shows the new output and the state of a job, or lists all jobs.
pub struct JobOutput {
    spec: ToolSpec,
    shell: Arc<Shell>,
}

impl JobOutput {
    /// Makes the tool. It shows the jobs of `shell`.
    pub fn new(shell: Arc<Shell>) -> Self {
        let spec = ToolSpec {
            name: "job_output".to_owned(),
            description: "New output and state of a background job; without id lists all.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "input": {"type": "string", "description": "Typed into its terminal first"},
                    "wait": {"type": "integer", "description": "Wait for its end, at most so many ms"}
                }
            })
            .into(),
        };
        Self { spec, shell }
    }

    fn parse(&self, input: &Value) -> Result<Arguments, String> {
        let input: Arguments = Parser::new(&self.spec).aliases(ALIASES).ignore(IGNORED).parse(input)?;
        match (&input.id, &input.input) {
            (None, Some(_)) => Err("`input` needs the `id` of a job.".to_owned()),
            _ => Ok(input),
        }
    }

    async fn look(&self, input: Arguments, env: &ToolEnv) -> Result<ToolOutput, String> {
        let host = &*env.host;
        let Some(id) = input.id else {
            return Ok(ToolOutput::text(self.shell.jobs.list(host)));
        };
        let job = self.shell.jobs.get(id, host)?;
        if let Some(text) = &input.input {
            job.drain.queue_input(text).map_err(|why| format!("Nothing was typed into job {id}: {why}."))?;
        }
        let wait = Duration::from_millis(input.wait.unwrap_or(0)).min(self.shell.settings.max_timeout);
        let waited = async {
            match (input.wait, &input.input) {
                (None, Some(_)) => answer(&job).await,
                _ => drop(tokio::time::timeout(wait, job.wait_for_end()).await),
            }
        };
        tokio::select! {
            biased;
            () = env.cancel.cancelled() => {}
            () = waited => {}
        }
        Ok(self.shell.show(&job, env).await)
    }
}

/// Waits for output and then for a pause in it.
async fn answer(job: &Job) {
    if tokio::time::timeout(ANSWER, job.drain.news()).await.is_err() {
        return;
    }
    let mut before = job.drain.total();
    loop {
        tokio::time::sleep(PAUSE).await;
        let now = job.drain.total();
        if now == before || job.state() != State::Running {
            return;
        }
        before = now;
    }
}

impl Shell {
    /// Reports the new output and the state of a job.
    async fn show(&self, job: &Job, env: &ToolEnv) -> ToolOutput {
        let state = job.state();
        let mut output = job.drain.look(state == State::Running, &env.host).await;
        job.mark_seen();
        let (bytes, before) = (output.bytes, std::mem::take(&mut output.before));
        let report::Body { text: mut content, spill, .. } = report::body(output, "(no new output)");
        report::note(&mut content, job.status());
        let mut output = ToolOutput {
            content,
            is_error: false,
            details: json!({"job": job.id, "state": state.name(), "bytes": bytes}),
            spill,
            excerpt_lines: report::EXCERPT_LINES,
            before,
            ..ToolOutput::default()
        };
        let advice = refusal::advice(self.settings.keeps_confined);
        refusal::add_hosts(&mut output, &job.new_refusals(), advice);
        output
    }

    /// Appends news about other jobs to `output`.
    pub(crate) fn with_news(&self, mut output: ToolOutput, env: &ToolEnv) -> ToolOutput {
        for line in self.jobs.news(&*env.host) {
            report::note(&mut output.content, line);
        }
        for line in self.undone() {
            report::note(&mut output.content, line);
        }
        output
    }

    /// Checks the files that commands in the background must not change. Describes what was undone since the last call.
    pub(crate) fn undone(&self) -> Vec<String> {
        let Some(sandbox) = &self.settings.sandbox else { return Vec::new() };
        sandbox.check_protected();
        let lines = sandbox.undone().into_iter();
        let lines = lines.map(|line| format!("the sandbox does not let commands change this file: {line}"));
        lines.chain(sandbox.undone_of_servers()).collect()
    }
}

impl Tool for JobOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input = self.parse(input)?;
        match (input.id, input.input) {
            // Input typed into a shell is a command as well, so permission rules judge it together with the job's command.
            (Some(id), Some(text)) => {
                let job = self.shell.jobs.get(id, &*env.host)?;
                Ok(Access::execute(report::with_input(&job.command, &text)))
            }
            _ => Ok(Access::session()),
        }
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let output = match self.parse(&input) {
                Ok(input) => self.look(input, env).await.unwrap_or_else(ToolOutput::error),
                Err(message) => ToolOutput::error(message),
            };
            self.shell.with_news(output, env)
        })
    }
}

/// The tool `job_kill`: ends a job with every process that it started.
pub struct JobKill {
    spec: ToolSpec,
    shell: Arc<Shell>,
}

impl JobKill {
    /// Makes the tool. It ends jobs of `shell`.
    pub fn new(shell: Arc<Shell>) -> Self {
        let spec = ToolSpec {
            name: "job_kill".to_owned(),
            description: "Ends a background job.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"id": {"type": "integer"}},
                "required": ["id"]
            })
            .into(),
        };
        Self { spec, shell }
    }

    fn parse(&self, input: &Value) -> Result<u64, String> {
        let input: Arguments = Parser::new(&self.spec).aliases(ALIASES).ignore(IGNORED).parse(input)?;
        input.id.ok_or_else(|| "`id` is missing.".to_owned())
    }

    async fn kill(&self, id: u64, env: &ToolEnv) -> Result<ToolOutput, String> {
        let job = self.shell.jobs.get(id, &*env.host)?;
        let left = job.kill().await;
        let mut output = self.shell.show(&job, env).await;
        output.details["command"] = json!(job.command);
        match left {
            None => output.content.push_str("\n[it was over before]"),
            Some(0) => {}
            Some(left) => {
                output.is_error = true;
                let note = format!("{left} of its processes could not be ended");
                report::note(&mut output.content, note);
            }
        }
        self.shell.prune();
        Ok(output)
    }
}

impl Tool for JobKill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        self.parse(input).map(|_| Access::session())
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let output = match self.parse(&input) {
                Ok(id) => self.kill(id, env).await.unwrap_or_else(ToolOutput::error),
                Err(message) => ToolOutput::error(message),
            };
            self.shell.with_news(output, env)
        })
    }
}
