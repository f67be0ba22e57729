//! A scripted model, a few tools and a session in a temporary folder: an agent without a network.

use becket_agent::{Agent, AgentHandle, AgentParts, AgentSettings, Auxiliary, FindModel, scope};
use becket_guard::{Guard, GuardSettings};
use becket_model::{ErrorKind, Model, ModelError, ModelEvent, ModelInfo, Prepared, Request, ToolChoice};
use becket_session::context::Policy;
use becket_session::context::cache::CachePolicy;
use becket_session::store::Io;
use becket_session::{CreateOptions, Session};
use becket_tool::{Registry, Tool, ToolEnv};
use becket_types::{
    Access, CacheLifetime, CallId, Command, Context, DeliveryMode, Effect, EntryKind, Event, FinishReason,
    Message, Millis, Part, PermissionMode, Prices, PromptInput, ToolOutput, ToolSpec, TurnResult, Usage,
};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinHandle;

pub(crate) const SUMMARY: &str = "## Goal\nship it\n\n## Instructions\n\n## Progress\n\n### Done\n\n### In progress\n\n### \
                           Blocked\n\n## Decisions\n\n## Discoveries\n\n## Next steps\ngo on\n\n## Relevant files\n";

/// One answer of the script.
#[derive(Clone)]
pub(crate) enum Reply {
    Answer(Vec<Part>, FinishReason),
    /// Text deltas and then an error.
    Break(&'static str, ErrorKind),
    /// An error before any part of the answer, with this HTTP status.
    Refuse(ErrorKind, Option<u16>),
    /// Text deltas and then silence.
    Hang(&'static str),
    /// An answer with this usage.
    Used(Vec<Part>, FinishReason, Usage),
    /// A text that comes when the gate is opened.
    Gated(Arc<Notify>, &'static str),
    /// The inner reply, as soon as the gate is opened.
    After(Arc<Notify>, Box<Self>),
    /// A letter a second, for ever.
    Drip,
    /// Letters without a pause, for ever.
    Flood,
}

pub(crate) fn say(text: &str) -> Reply {
    Reply::Answer(vec![Part::text(text)], FinishReason::Stop)
}

pub(crate) fn call(id: &str, tool: &str, input: Value) -> Part {
    Part::tool_call(id, tool, input)
}

pub(crate) fn calls(parts: Vec<Part>) -> Reply {
    Reply::Answer(parts, FinishReason::ToolCalls)
}

pub(crate) fn bash(id: &str, command: &str) -> Reply {
    calls(vec![call(id, "bash", json!({"command": command}))])
}

/// A request as the model saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) context: Context,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) tools: usize,
    pub(crate) summary: bool,
    pub(crate) cache: CacheLifetime,
    pub(crate) effort: Option<String>,
}

impl Seen {
    /// Role and text (or call, or result) of each message, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.context.messages.iter().flat_map(|m| render(&m.message)).collect()
    }
    pub(crate) fn last(&self) -> String {
        self.lines().pop().unwrap_or_default()
    }
}

pub(crate) fn render(message: &Message) -> Vec<String> {
    let role = format!("{:?}", message.role).to_lowercase();
    message
        .parts
        .iter()
        .map(|part| match part {
            Part::Text { text, .. } => format!("{role}: {text}"),
            Part::ToolCall { call_id, name, input, .. } => format!("call {call_id}: {name} {input}"),
            Part::ToolResult { call_id, output, .. } => format!("result {call_id}: {output}"),
            other => format!("{role}: {other:?}"),
        })
        .collect()
}

#[derive(Default)]
pub(crate) struct Script {
    pub(crate) replies: VecDeque<Reply>,
    pub(crate) summaries: VecDeque<Reply>,
    pub(crate) seen: Vec<Seen>,
}

pub(crate) struct Scripted {
    pub(crate) info: ModelInfo,
    pub(crate) script: Arc<Mutex<Script>>,
    prepared: Mutex<Vec<Seen>>,
    pub(crate) sent: Arc<Notify>,
}

pub(crate) fn info(window: u64) -> ModelInfo {
    ModelInfo {
        id: "test/one".into(),
        provider: "test".into(),
        name: "one".into(),
        window,
        input_limit: window,
        max_output: 4_000,
        prices: Some(Prices { input: 1.0, output: 1.0, cache_read: 0.1, cache_write: 1.0 }),
        images: true,
        reasoning: false,
        cache_ttl: Millis(300_000),
        server: becket_model::ServerTraits::default(),
        source: "test".into(),
    }
}

impl Scripted {
    pub(crate) fn new(window: u64, replies: Vec<Reply>) -> Arc<Self> {
        let script = Script { replies: replies.into(), ..Script::default() };
        Arc::new(Self {
            info: info(window),
            script: Arc::new(Mutex::new(script)),
            prepared: Mutex::default(),
            sent: Arc::default(),
        })
    }
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.script.lock().unwrap().seen.clone()
    }
    /// Requests of turns, without summaries.
    pub(crate) fn turns(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| !seen.summary).collect()
    }
}

impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        let mut prepared = self.prepared.lock().unwrap();
        prepared.push(Seen {
            context: request.context.clone(),
            tool_choice: request.tool_choice,
            tools: request.tools.len(),
            summary: request.context.generation > u64::MAX / 2,
            cache: request.cache,
            effort: request.effort.map(str::to_owned),
        });
        let body =
            serde_json::to_vec(&request.context.messages.iter().map(|m| &m.message).collect::<Vec<_>>())
                .unwrap();
        let tag = prepared.len() as u64 - 1;
        let hex = becket_tool::sha256(&body);
        let digest = std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..][..2], 16).unwrap());
        Ok(Prepared {
            body: vec![body.into()],
            digest,
            tag,
            layout: request.layout.unwrap_or_default(),
            replaceable: false,
            brief: false,
        })
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let seen = self.prepared.lock().unwrap()[prepared.tag as usize].clone();
        let mut script = self.script.lock().unwrap();
        let reply = if seen.summary {
            script.summaries.pop_front().unwrap_or_else(|| say(SUMMARY))
        } else {
            script.replies.pop_front().expect("the script has no more replies")
        };
        let bytes: usize = seen.context.messages.iter().map(|m| m.tokens.0 as usize).sum();
        script.seen.push(seen);
        drop(script);
        self.sent.notify_one();
        events(reply, bytes as u64)
    }
}

pub(crate) fn error(kind: ErrorKind, status: Option<u16>) -> ModelError {
    let retryable = matches!(
        kind,
        ErrorKind::StreamBroken | ErrorKind::Stalled | ErrorKind::Overloaded | ErrorKind::Template
    );
    ModelError { status, retryable, hint: None, ..ModelError::new(kind, format!("{kind:?} happened.")) }
}

fn events(reply: Reply, input: u64) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let started = Ok(ModelEvent::Started { request_id: None });
    let delta = |text: &str| Ok(ModelEvent::TextDelta { index: 0, text: text.to_owned() });
    match reply {
        Reply::Answer(parts, finish) => {
            let usage = Usage { input: input.max(1), output: 10, ..Usage::default() };
            events(Reply::Used(parts, finish, usage), input)
        }
        Reply::Used(parts, finish, usage) => {
            let mut out = vec![started];
            for (index, part) in parts.into_iter().enumerate() {
                let index = index as u32;
                if let Part::Text { text, .. } = &part {
                    out.push(Ok(ModelEvent::TextDelta { index, text: text.clone() }));
                }
                out.push(Ok(ModelEvent::Part { index, part }));
            }
            out.push(Ok(ModelEvent::Usage(usage)));
            out.push(Ok(ModelEvent::Finish(finish)));
            futures::stream::iter(out).boxed()
        }
        Reply::Break(text, kind) => {
            futures::stream::iter([started, delta(text), Err(error(kind, None))]).boxed()
        }
        Reply::Refuse(kind, status) => futures::stream::iter([Err(error(kind, status))]).boxed(),
        Reply::Gated(gate, text) => events(Reply::After(gate, Box::new(say(text))), input),
        Reply::After(gate, reply) => {
            let wait = futures::stream::once(async move {
                gate.notified().await;
                Ok(ModelEvent::Started { request_id: None })
            });
            wait.chain(events(*reply, input)).boxed()
        }
        Reply::Drip => futures::stream::unfold((), |()| async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            Some((Ok(ModelEvent::TextDelta { index: 0, text: "x".into() }), ()))
        })
        .boxed(),
        Reply::Flood => {
            futures::stream::repeat_with(|| Ok(ModelEvent::TextDelta { index: 0, text: "x".repeat(1 << 12) }))
                .boxed()
        }
        Reply::Hang(text) => {
            futures::stream::iter([started, delta(text)]).chain(futures::stream::pending()).boxed()
        }
    }
}

/// Records the calls that the test tools ran, and holds the signals by which tests steer them.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) ran: Mutex<Vec<String>>,
    pub(crate) go: Notify,
    pub(crate) barrier: Option<Barrier>,
}

/// `read` and `bash` as far as the loop cares.
pub(crate) struct TestTool {
    spec: ToolSpec,
    effect: Effect,
    world: Arc<World>,
}

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        match self.effect {
            Effect::Read => {
                text("path").map(|p| Access::read(env.resolve(p))).ok_or("path is missing".to_owned())
            }
            _ => text("command").map(Access::execute).ok_or("command is missing".to_owned()),
        }
    }

    fn refusal(&self, input: &Value, _env: &ToolEnv) -> Option<String> {
        let impossible = input.get("command").and_then(Value::as_str) == Some("impossible");
        impossible.then(|| "The old text is not in the file.".to_owned())
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let what = input
                .as_object()
                .and_then(|o| o.values().next())
                .and_then(Value::as_str)
                .unwrap_or("")
                .to_owned();
            self.world.ran.lock().unwrap().push(format!("{} {what}", self.spec.name));
            if let Some(barrier) = &self.world.barrier {
                barrier.wait().await;
            }
            match what.as_str() {
                "wait" => self.world.go.notified().await,
                "gentle" => {
                    (env.progress)("half");
                    env.cancel.cancelled().await;
                    let content = "stopped early".to_owned();
                    return ToolOutput {
                        content,
                        is_error: true,
                        interrupted: true,
                        ..ToolOutput::default()
                    };
                }
                "stubborn" => {
                    (env.progress)("half way");
                    std::future::pending::<()>().await;
                }
                "panic" => panic!("boom"),
                "fail" => return ToolOutput::error("it failed"),
                _ => {}
            }
            let file = env.resolve(&what);
            if self.effect == Effect::Read && file.is_file() {
                return shown(&file, env);
            }
            if let Some(path) = what.strip_prefix("note ") {
                env.host.note_read(Path::new(path), "hash of it");
            }
            if let Some((name, text)) = what.strip_prefix("put ").and_then(|rest| rest.split_once(' ')) {
                std::fs::write(env.cwd.join(name), text).unwrap();
            }
            if let Some(path) = what.strip_prefix("known ") {
                return ToolOutput::text(format!("{:?}", env.host.read_hash(Path::new(path))));
            }
            if let Some(size) = what.strip_prefix("big ") {
                // 12 bytes a repetition; becket estimates a token for every 3.6 bytes of this text.
                return ToolOutput::text("Lorem ipsum ".repeat(size.parse::<usize>().unwrap() / 12));
            }
            ToolOutput::text(format!("did {what}"))
        })
    }
}

/// The content of a file, as the real read tool gives it.
fn shown(file: &Path, env: &ToolEnv) -> ToolOutput {
    let bytes = std::fs::read(file).unwrap();
    env.host.note_read(file, &becket_tool::sha256(&bytes));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<String> = text.lines().enumerate().map(|(n, line)| format!("{}\t{line}", n + 1)).collect();
    let details = json!({"kind": "text", "from": 1, "to": lines.len(), "lines": lines.len()});
    ToolOutput { details, ..ToolOutput::text(lines.join("\n")) }
}

fn tool(name: &str, effect: Effect, world: &Arc<World>) -> Arc<dyn Tool> {
    let input_schema = json!({"type": "object", "properties": {}}).into();
    let spec = ToolSpec { name: name.to_owned(), description: String::new(), input_schema };
    Arc::new(TestTool { spec, effect, world: Arc::clone(world) })
}

/// A running agent.
pub(crate) struct Rig {
    /// The agent's folder, which is deleted when this is dropped.
    pub(crate) dir: tempfile::TempDir,
    pub(crate) model: Arc<Scripted>,
    pub(crate) world: Arc<World>,
    pub(crate) handle: AgentHandle,
    pub(crate) task: JoinHandle<Arc<Mutex<Session>>>,
    pub(crate) log: Vec<Event>,
}

pub(crate) struct Setup {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) model: Arc<Scripted>,
    pub(crate) world: Arc<World>,
    pub(crate) settings: AgentSettings,
    pub(crate) policy: Policy,
    pub(crate) mode: PermissionMode,
    pub(crate) session: Option<Session>,
    /// If set, the session runs with this model instead of `model`.
    pub(crate) running: Option<Arc<dyn Model>>,
    pub(crate) auxiliary: Auxiliary,
    pub(crate) fallbacks: Vec<Arc<dyn Model>>,
    pub(crate) find_model: Option<FindModel>,
    pub(crate) cache: CachePolicy,
    /// The session is on disk, on this one.
    pub(crate) disk: Option<Arc<dyn Io>>,
}

impl Setup {
    pub(crate) fn new(replies: Vec<Reply>) -> Self {
        Self::with_window(200_000, replies)
    }

    pub(crate) fn with_window(window: u64, replies: Vec<Reply>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("project")).unwrap();
        Self {
            dir,
            model: Scripted::new(window, replies),
            world: Arc::default(),
            settings: AgentSettings::default(),
            policy: Policy::default(),
            mode: PermissionMode::BypassPermissions,
            session: None,
            running: None,
            auxiliary: Auxiliary::default(),
            fallbacks: Vec::new(),
            find_model: None,
            cache: CachePolicy::default(),
            disk: None,
        }
    }

    pub(crate) fn cwd(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("project")
    }

    /// A session on disk, prepared with entries, and closed again: what a crash left.
    pub(crate) fn left(mut self, entries: Vec<EntryKind>) -> Self {
        let mut session = self.create(true);
        let dir = session.dir().to_owned();
        session.append(entries, becket_session::Durability::Synced).unwrap();
        drop(session);
        self.session = Some(Session::open(&dir, self.policy.clone(), scope(&self.model.info)).unwrap());
        self.settings.session.resumed = true;
        self
    }

    fn create(&self, persist: bool) -> Session {
        let mut options = CreateOptions { version: "0".into(), persist, ..CreateOptions::default() };
        if let Some(disk) = &self.disk {
            options.persist = true;
            options.outside.io = Arc::clone(disk);
        }
        let root = self.dir.path().join("sessions");
        Session::create(&root, &self.cwd(), options, self.policy.clone(), scope(&self.model.info)).unwrap()
    }

    pub(crate) fn start(mut self) -> Rig {
        let cwd = self.cwd();
        let session = self.session.take().unwrap_or_else(|| self.create(false));
        let mut tools = Registry::new();
        tools.add(tool("read", Effect::Read, &self.world)).unwrap();
        tools.add(tool("bash", Effect::Execute, &self.world)).unwrap();
        if !self.settings.subagents.is_empty() {
            let subagents = Arc::clone(&self.settings.subagents);
            tools.add(Arc::new(becket_agent::subagent::TaskTool::new(subagents))).unwrap();
        }
        self.settings.environment.cwd.clone_from(&cwd);
        self.settings.roots = vec![cwd.clone()];
        let guard =
            Guard::new(GuardSettings { mode: self.mode, roots: vec![cwd], ..GuardSettings::default() });
        let (agent, handle) = Agent::new(AgentParts {
            session,
            model: self.running.unwrap_or_else(|| self.model.clone()),
            auxiliary: self.auxiliary,
            fallback_models: self.fallbacks,
            cache: self.cache,
            find_model: self.find_model,
            tools,
            guard,
            settings: self.settings,
        });
        let task = tokio::spawn(agent.run());
        Rig { dir: self.dir, model: self.model, world: self.world, handle, task, log: Vec::new() }
    }
}

pub(crate) fn prompt(text: &str) -> Command {
    prompt_as(text, DeliveryMode::Steer)
}

pub(crate) fn prompt_as(text: &str, mode: DeliveryMode) -> Command {
    Command::Prompt(PromptInput { parts: vec![Part::text(text)], mode, ..PromptInput::default() })
}

impl Rig {
    pub(crate) async fn send(&self, command: Command) {
        self.handle.commands.send(command).await.unwrap();
    }

    /// The next event that passes; all are kept in the log.
    pub(crate) async fn event(&mut self, pass: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.handle.events.recv().await.expect("the agent ended");
            self.log.push(event.clone());
            if pass(&event) {
                return event;
            }
        }
    }

    pub(crate) async fn finished(&mut self) -> TurnResult {
        match self.event(|event| matches!(event, Event::TurnFinished(_))).await {
            Event::TurnFinished(result) => *result,
            _ => unreachable!(),
        }
    }

    /// Asserts that no further event comes, however long the wait.
    pub(crate) async fn silent(&mut self) {
        tokio::time::sleep(std::time::Duration::from_mins(5)).await;
        if let Ok(event) = self.handle.events.try_recv() {
            panic!("after the result: {event:?}");
        }
    }

    pub(crate) async fn turn(&mut self, text: &str) -> TurnResult {
        self.send(prompt(text)).await;
        self.finished().await
    }

    /// Ends the input, waits for the agent, and gives its session.
    pub(crate) async fn end(self) -> Arc<Mutex<Session>> {
        self.send(Command::EndInput).await;
        self.task.await.unwrap()
    }

    /// Ends the process of this session and prepares the next one.
    pub(crate) async fn again(self, replies: Vec<Reply>) -> Setup {
        self.send(Command::EndInput).await;
        let session = self.task.await.unwrap();
        let at = session.lock().unwrap().dir().to_owned();
        drop(session);
        let mut setup = Setup { dir: self.dir, ..Setup::new(replies) };
        setup.session = Some(Session::open(&at, setup.policy.clone(), scope(&setup.model.info)).unwrap());
        setup.settings.session.resumed = true;
        setup
    }

    pub(crate) fn ran(&self) -> Vec<String> {
        self.world.ran.lock().unwrap().clone()
    }

    /// Kinds of the events so far, by their names.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |event: &Event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned();
        self.log.iter().map(name).collect()
    }
}

/// Names of a session's entries, in order.
pub(crate) fn kinds(session: &Arc<Mutex<Session>>) -> Vec<String> {
    let session = session.lock().unwrap();
    let kind = |kind: EntryKind| serde_json::to_value(kind).unwrap()["kind"].as_str().unwrap().to_owned();
    session.entries().unwrap().map(|entry| kind(entry.kind)).collect()
}

pub(crate) fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn id(text: &str) -> CallId {
    CallId::from(text)
}
