//! Finds the hooks of an event, runs them in parallel, and joins their answers.
//!
//! The engine holds groups of hooks. Groups can be added while a session runs (an SDK adds its own after the start). A
//! call runs every matching hook once, even if it is configured several times. Answers of hooks for which nobody waits
//! are returned with the next call.

use crate::answer;
use crate::command::{self, Printed, Program, ProgramResult};
use crate::config::{Group, Handler, Kind, Origin, Source, Within};
use crate::{http, output};
use becket_sandbox::Programs;
use becket_types::{
    HookCall, HookEvent, HookMessage, HookOutcome, HookOutput, HookProgress, HookResult, HookRun, Millis,
    cut_end,
};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Maximum number of hooks of one call that run at the same time.
const SIDE_BY_SIDE: usize = 32;
/// Maximum size in bytes of a run's detail in the ledger.
const MAX_DETAIL: usize = 500;

/// A function that answers a callback: its id, the input, the id of the tool call.
pub type Callback =
    Arc<dyn Fn(String, Value, Option<String>) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;
/// A function that asks a model and returns its answer as text.
pub type Ask = Arc<dyn Fn(Question) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;
/// A function that takes the lines with which a hook sets variables for commands, and true if the project brought the hook.
pub type TakeExports = Arc<dyn Fn(&str, bool) + Send + Sync>;
/// A function that calls a tool of a server: server, tool, input.
pub type CallTool =
    Arc<dyn Fn(String, String, Value) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;
/// A function that returns true if a permission rule matches a call: the rule, the SDK's name of the tool, its input.
/// `Err`: the rule is invalid.
pub type MatchesRule = Arc<dyn Fn(&str, &str, &Value) -> Result<bool, String> + Send + Sync>;

/// A question of a hook to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// True if the hook is an agent, which may use tools that only read.
    pub agent: bool,
    pub prompt: String,
    /// The model that the hook names; `None`: the host chooses one.
    pub model: Option<String>,
}

/// The environment of an engine.
#[derive(Clone, Default)]
pub struct EngineSettings {
    pub programs: Programs,
    /// Variables of command hooks. The project's folder, the event and the hook's own variables are added to them.
    pub variables: Vec<(OsString, OsString)>,
    /// The project's folder, in which command hooks run if the input names no other.
    pub project: PathBuf,
    /// Compares calls with the conditions of hooks; `None`: every condition holds.
    pub fits: Option<MatchesRule>,
}

/// The hooks of a session.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    groups: RwLock<Vec<Arc<Group>>>,
    settings: EngineSettings,
    callback: RwLock<Option<Callback>>,
    ask: RwLock<Option<Ask>>,
    call_tool: RwLock<Option<CallTool>>,
    exports: RwLock<Option<TakeExports>>,
    /// Skills that the session has loaded.
    skills: Mutex<HashSet<String>>,
    /// Hooks that run once in a session and have run.
    done: Mutex<HashSet<String>>,
    /// Answers of hooks for which nobody waited. The next call returns them.
    late: Mutex<Vec<HookOutcome>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("groups", &self.groups().len()).finish_non_exhaustive()
    }
}

/// A hook that will run.
#[derive(Clone)]
struct Job {
    handler: Handler,
    source: Source,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Makes an engine. Hooks that need a callback, a model or a tool fail until the host has set these.
    pub fn new(groups: Vec<Group>, settings: EngineSettings) -> Self {
        Self(Arc::new(Inner {
            groups: RwLock::new(groups.into_iter().map(Arc::new).collect()),
            settings,
            callback: RwLock::default(),
            ask: RwLock::default(),
            call_tool: RwLock::default(),
            exports: RwLock::default(),
            skills: Mutex::default(),
            done: Mutex::default(),
            late: Mutex::default(),
        }))
    }

    /// Adds hooks while the session runs.
    pub fn add(&self, groups: Vec<Group>) {
        let mut all = self.0.groups.write().unwrap_or_else(PoisonError::into_inner);
        all.extend(groups.into_iter().map(Arc::new));
    }

    /// Removes the hooks of this source.
    pub fn remove(&self, origin: Origin, place: &str) {
        let mut all = self.0.groups.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|group| group.source.origin != origin || group.source.place != place);
    }

    /// Sets the function that answers hooks of the kind `callback`.
    pub fn set_callback(&self, callback: Callback) {
        *self.0.callback.write().unwrap_or_else(PoisonError::into_inner) = Some(callback);
    }

    /// Sets the function that answers questions to a model.
    pub fn set_ask(&self, ask: Ask) {
        *self.0.ask.write().unwrap_or_else(PoisonError::into_inner) = Some(ask);
    }

    /// Sets the function that takes what hooks write to the file of `CLAUDE_ENV_FILE`.
    pub fn set_exports(&self, exports: TakeExports) {
        *self.0.exports.write().unwrap_or_else(PoisonError::into_inner) = Some(exports);
    }

    /// Sets the function that calls tools of MCP servers.
    pub fn set_call_tool(&self, call_tool: CallTool) {
        *self.0.call_tool.write().unwrap_or_else(PoisonError::into_inner) = Some(call_tool);
    }

    /// Notes that the session has loaded this skill: the skill's hooks run from now on.
    pub fn skill_loaded(&self, name: &str) {
        lock(&self.0.skills).insert(name.to_owned());
    }

    /// Returns all groups, including those that were added while the session ran.
    pub fn groups(&self) -> Vec<Arc<Group>> {
        self.0.groups.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if a group is configured for this event, whatever its matcher. Callers skip building the input otherwise.
    pub fn listens(&self, event: HookEvent) -> bool {
        self.0.groups.read().unwrap_or_else(PoisonError::into_inner).iter().any(|group| group.event == event)
    }

    /// Returns the message to show while the hooks of this call run: `None` if no hook matches, `Some(None)` if none has a
    /// message.
    pub fn status(&self, call: &HookCall) -> Option<Option<String>> {
        let (jobs, _) = self.0.jobs(call);
        (!jobs.is_empty()).then(|| jobs.into_iter().find_map(|job| job.handler.status))
    }

    /// Runs the matching hooks.
    pub fn run(&self, call: HookCall) -> BoxFuture<'static, HookOutcome> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.run(call).await })
    }
}

impl Inner {
    /// Returns the hooks for a call, each once, and messages about invalid conditions.
    fn jobs(&self, call: &HookCall) -> (Vec<Job>, Vec<HookMessage>) {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut jobs: Vec<Job> = Vec::new();
        let mut messages = Vec::new();
        let fitting = groups
            .iter()
            .filter(|group| group.event == call.event && group.matcher.fits(call.subject.as_deref()))
            .filter(|group| self.is_within(group.within.as_ref(), call));
        for group in fitting {
            for handler in &group.handlers {
                if jobs.iter().any(|job| job.handler.kind == handler.kind) {
                    continue;
                }
                if handler.once && lock(&self.done).contains(&key(call.event, handler)) {
                    continue;
                }
                if let Some(rule) = &handler.condition {
                    match self.fits(rule, call) {
                        Ok(true) => {}
                        Ok(false) => continue,
                        // A hook with an invalid condition runs anyway, because the condition might have matched.
                        Err(why) => messages.push(HookMessage {
                            warning: true,
                            text: format!(
                                "the condition of the hook {} is wrong: {why}",
                                handler.kind.label()
                            ),
                        }),
                    }
                }
                jobs.push(Job { handler: handler.clone(), source: group.source.clone() });
            }
        }
        (jobs, messages)
    }

    fn is_within(&self, within: Option<&Within>, call: &HookCall) -> bool {
        match within {
            None => true,
            Some(Within::Agent(kind)) => call.input.get("agent_type").and_then(Value::as_str) == Some(kind),
            Some(Within::Skill(name)) => lock(&self.skills).contains(name),
        }
    }

    fn fits(&self, rule: &str, call: &HookCall) -> Result<bool, String> {
        let (Some(fits), Some(tool)) = (&self.settings.fits, call.subject.as_deref()) else {
            return Ok(true);
        };
        fits(rule, tool, call.input.get("tool_input").unwrap_or(&Value::Null))
    }

    async fn run(self: Arc<Self>, call: HookCall) -> HookOutcome {
        let (jobs, messages) = self.jobs(&call);
        let late: Vec<HookOutcome> = std::mem::take(&mut *lock(&self.late));
        let call = Arc::new(call);
        let (beside, awaited): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.handler.beside);
        for job in beside {
            self.mark(&call, &job);
            let (inner, call) = (Arc::clone(&self), Arc::clone(&call));
            tokio::spawn(async move {
                let outcome = inner.one(&call, job).await;
                // The answer comes too late for a decision, so only its texts, its messages and the record of its run
                // count.
                let told = HookOutcome {
                    context: outcome.context,
                    messages: outcome.messages,
                    runs: outcome.runs,
                    ..HookOutcome::default()
                };
                lock(&inner.late).push(told);
            });
        }
        let runs = awaited.into_iter().map(|job| {
            self.mark(&call, &job);
            let (inner, call) = (Arc::clone(&self), Arc::clone(&call));
            async move { inner.one(&call, job).await }
        });
        let outcomes: Vec<HookOutcome> = stream::iter(runs).buffered(SIDE_BY_SIDE).collect().await;
        let told = HookOutcome { messages, ..HookOutcome::default() };
        answer::joined([told].into_iter().chain(outcomes).chain(late))
    }

    fn mark(&self, call: &HookCall, job: &Job) {
        if job.handler.once {
            lock(&self.done).insert(key(call.event, &job.handler));
        }
    }

    /// Runs one hook and interprets its answer.
    async fn one(&self, call: &HookCall, job: Job) -> HookOutcome {
        let began = Instant::now();
        let label = job.handler.kind.label();
        let limit = job.handler.timeout.unwrap_or_else(|| job.handler.kind.default_timeout(call.event));
        let id = becket_types::unique().to_string();
        let tell = |printed: Option<HookOutput>| {
            if let Some(watch) = &call.watch {
                let (id, event, hook) = (id.clone(), call.event.to_string(), label.clone());
                let subject = call.subject.clone();
                (watch.0)(HookProgress { id, event, hook, subject, printed });
            }
        };
        tell(None);
        let ran = self.ran(call, &job, limit, &|printed| tell(Some(printed))).await;
        let mut run = HookRun {
            id: id.clone(),
            event: call.event.to_string(),
            hook: label.clone(),
            subject: call.subject.clone(),
            handler: job.handler.kind.name().to_owned(),
            source: job.source.label(),
            call: call.call_id.clone(),
            duration: Millis(began.elapsed().as_millis() as u64),
            ..HookRun::default()
        };
        if let ProgramResult::Exited { code, .. } = &ran {
            run.exit_code = Some(*code);
        }
        let timed_out = ran == ProgramResult::TimedOut;
        let mut outcome = match understood(call.event, &label, ran, limit) {
            Ok(outcome) => outcome,
            Err(why) => {
                run.result = if timed_out { HookResult::TimedOut } else { HookResult::Failed };
                cut_end(&why, MAX_DETAIL).clone_into(&mut run.detail);
                let mut text = format!("{} hook {label}: {why}", call.event);
                let mut outcome = HookOutcome::default();
                if job.handler.fails_closed {
                    let reason = format!("the hook {label} failed, and its on_failure is \"block\": {why}");
                    outcome = answer::refusal(call.event, &label, &reason);
                    text.push_str(" (on_failure: block)");
                }
                outcome.messages.push(HookMessage { warning: true, text });
                outcome
            }
        };
        run.stopped = outcome.stop.is_some();
        if run.result == HookResult::Ok {
            let (result, detail) = result_of(&outcome);
            run.result = result;
            cut_end(&detail, MAX_DETAIL).clone_into(&mut run.detail);
        }
        outcome.runs.push(run);
        outcome
    }

    async fn ran(&self, call: &HookCall, job: &Job, limit: Duration, printed: &Printed<'_>) -> ProgramResult {
        let input = Value::Object(call.input.clone());
        match &job.handler.kind {
            Kind::Command { command, args } => {
                let dir = call
                    .input
                    .get("cwd")
                    .and_then(Value::as_str)
                    .map_or_else(|| self.settings.project.clone(), PathBuf::from);
                let mut variables = self.settings.variables.clone();
                for name in ["CLAUDE_PROJECT_DIR", "BECKET_PROJECT_DIR"] {
                    variables.push((name.into(), self.settings.project.clone().into_os_string()));
                }
                let exports = self.exports.read().unwrap_or_else(PoisonError::into_inner).clone();
                let sets = matches!(call.event, HookEvent::SessionStart | HookEvent::Setup);
                let exports = exports.filter(|_| sets);
                let exported = Mutex::new(String::new());
                variables.push(("BECKET_HOOK_EVENT".into(), call.event.as_str().into()));
                let further = job.handler.variables.iter();
                variables.extend(further.map(|(name, value)| (name.into(), value.into())));
                let program = Program {
                    command,
                    args: args.as_deref(),
                    input: input.to_string(),
                    dir: &dir,
                    variables,
                    // A hook of a project can ask for confinement but cannot refuse it: the user agreed to its text at the
                    // start, and the programs that it starts may have changed since.
                    confined: job.source.confined || job.handler.sandbox.unwrap_or(false),
                    limit,
                    exported: exports.is_some().then_some(&exported),
                };
                let ran = command::run(program, &self.settings.programs, printed).await;
                let text = lock(&exported);
                if let (Some(exports), false) = (exports, text.is_empty()) {
                    exports(&text, matches!(job.source.origin, Origin::Project | Origin::Local));
                }
                ran
            }
            Kind::Http { url, headers, allowed_variables } => {
                let headers = headers
                    .iter()
                    .map(|(name, value)| (name.clone(), self.filled(value, allowed_variables)))
                    .collect();
                let own = !matches!(job.source.origin, Origin::Project | Origin::Local);
                http::post(http::Post { url, headers, body: input.to_string(), limit, own }).await
            }
            Kind::Callback { id } => {
                let callback = self.callback.read().unwrap_or_else(PoisonError::into_inner).clone();
                let Some(callback) = callback else {
                    return ProgramResult::NotStarted(
                        "no program answers hook callbacks in this run".to_owned(),
                    );
                };
                let answer = callback(id.clone(), input, call.call_id.as_ref().map(ToString::to_string));
                timed(limit, async { answer.await.map(|value| value.to_string()) }).await
            }
            Kind::Prompt { prompt, model } | Kind::Agent { prompt, model } => {
                let Some(ask) = self.ask.read().unwrap_or_else(PoisonError::into_inner).clone() else {
                    return ProgramResult::NotStarted("there is no model for hooks here".to_owned());
                };
                let agent = matches!(job.handler.kind, Kind::Agent { .. });
                let question = Question { agent, prompt: asked(prompt, &input), model: model.clone() };
                match timed(limit, ask(question)).await {
                    ProgramResult::Exited { stdout, .. } => verdict(call.event, &stdout),
                    other => other,
                }
            }
            Kind::McpTool { server, tool, input: arguments } => {
                let call_tool = self.call_tool.read().unwrap_or_else(PoisonError::into_inner).clone();
                let Some(call_tool) = call_tool else {
                    return ProgramResult::NotStarted("there are no MCP servers here".to_owned());
                };
                let arguments = substituted(arguments, &input);
                timed(limit, call_tool(server.clone(), tool.clone(), arguments)).await
            }
        }
    }

    /// Replaces `$NAME` and `${NAME}` by variables that the hook may use.
    fn filled(&self, text: &str, allowed: &[String]) -> String {
        let mut out = text.to_owned();
        for name in allowed {
            let value = self.settings.variables.iter().rev().find(|(known, _)| known == name.as_str());
            let value = value.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default();
            out = out.replace(&format!("${{{name}}}"), &value).replace(&format!("${name}"), &value);
        }
        out
    }
}

async fn timed(limit: Duration, answer: impl Future<Output = Result<String, String>>) -> ProgramResult {
    match tokio::time::timeout(limit, answer).await {
        Err(_) => ProgramResult::TimedOut,
        Ok(Err(why)) => ProgramResult::NotStarted(why),
        Ok(Ok(stdout)) => ProgramResult::Exited { code: 0, stdout, stderr: String::new() },
    }
}

/// Makes the question of a prompt hook, with the hook's input.
fn asked(prompt: &str, input: &Value) -> String {
    let about = serde_json::to_string_pretty(input).unwrap_or_default();
    let question = if prompt.contains("$ARGUMENTS") {
        prompt.replace("$ARGUMENTS", &about)
    } else {
        format!("{prompt}\n\n{about}")
    };
    format!(
        "{question}\n\nAnswer with one JSON object and nothing else: {{\"ok\": true}} if it may go on, or {{\"ok\": false, \
         \"reason\": \"…\"}} if not."
    )
}

/// Converts a model's answer to an exit code, by the last JSON object in it that has `ok`.
fn verdict(event: HookEvent, text: &str) -> ProgramResult {
    let reason = |value: &Value| value.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
    let answer = output::last_object(text, |value| Some((value.get("ok")?.as_bool()?, reason(value))));
    match answer {
        Some((true, _)) => ProgramResult::Exited { code: 0, stdout: String::new(), stderr: String::new() },
        Some((false, reason)) => ProgramResult::Exited { code: 2, stdout: String::new(), stderr: reason },
        None => ProgramResult::NotStarted(format!("the model gave no {{\"ok\": …}} for {event}")),
    }
}

/// Replaces `${key.key}` in the texts of an MCP input by values of the hook's input.
fn substituted(value: &Value, input: &Value) -> Value {
    match value {
        Value::String(text) => {
            let mut out = text.clone();
            if let Some((from, to)) = out.find("${").and_then(|at| Some((at, at + out[at..].find('}')?))) {
                let path = out[from + 2..to].replace('.', "/");
                let found = input.pointer(&format!("/{path}"));
                let words =
                    found.map_or(String::new(), |v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
                // Inserted text is not expanded again.
                let rest = substituted(&Value::String(out[to + 1..].to_owned()), input);
                out.truncate(from);
                out.push_str(&words);
                out.push_str(rest.as_str().unwrap_or_default());
                return Value::String(out);
            }
            Value::String(out)
        }
        Value::Array(items) => items.iter().map(|item| substituted(item, input)).collect(),
        Value::Object(keys) => {
            Value::Object(keys.iter().map(|(key, value)| (key.clone(), substituted(value, input))).collect())
        }
        other => other.clone(),
    }
}

/// Returns the decision in an answer; `Err` is the reason why there is none.
fn understood(
    event: HookEvent,
    label: &str,
    ran: ProgramResult,
    limit: Duration,
) -> Result<HookOutcome, String> {
    match ran {
        ProgramResult::TimedOut => {
            Err(format!("it had not answered after {} s and was ended", limit.as_secs_f64()))
        }
        ProgramResult::Flooded => Err("it printed more than 1 MB and was ended".to_owned()),
        ProgramResult::NotStarted(why) => Err(why),
        ProgramResult::Killed { signal, stderr } => {
            Err(with_stderr(format!("it was killed by signal {signal}"), &stderr))
        }
        ProgramResult::Exited { code: 2, stderr, .. } => Ok(answer::refusal(event, label, &stderr)),
        ProgramResult::Exited { code: 0, stdout, .. } => output::decision(event, label, &stdout),
        ProgramResult::Exited { code, stderr, .. } => {
            Err(with_stderr(format!("it ended with exit code {code}"), &stderr))
        }
    }
}

fn with_stderr(what: String, stderr: &str) -> String {
    match stderr.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{what}: {}", cut_end(line.trim(), 300)),
        None => what,
    }
}

/// Describes the result of a run that answered.
fn result_of(outcome: &HookOutcome) -> (HookResult, String) {
    use becket_types::HookPermission::{Allow, Ask, Defer, Deny};
    if let Some(stop) = &outcome.stop {
        return (HookResult::Blocked, format!("stop: {stop}"));
    }
    if let Some(block) = &outcome.block {
        return (HookResult::Blocked, format!("block: {}", block.text));
    }
    match &outcome.permission {
        Some(Deny { reason }) => (HookResult::Blocked, format!("deny: {reason}")),
        Some(Ask { reason }) => (HookResult::Ok, format!("ask: {reason}")),
        Some(Defer { reason }) => (HookResult::Ok, format!("defer: {reason}")),
        Some(Allow { reason }) => (HookResult::Ok, format!("allow: {reason}")),
        None if outcome.updated_input.is_some() => (HookResult::Ok, "changed the input".to_owned()),
        None if outcome.updated_output.is_some() => (HookResult::Ok, "changed the output".to_owned()),
        None if !outcome.context.is_empty() => (HookResult::Ok, "added context".to_owned()),
        None => (HookResult::Ok, String::new()),
    }
}

fn key(event: HookEvent, handler: &Handler) -> String {
    format!("{event} {} {}", handler.kind.name(), handler.kind.label())
}
