//! A whole agent for one random history: a model that follows a plan, a summariser that behaves in some way, two tools.

use crate::check::Sent;
use crate::words::{Source, dice, text};
use becket_agent::{Agent, AgentHandle, AgentParts, AgentSettings, Auxiliary, FindModel, scope};
use becket_guard::{Guard, GuardSettings};
use becket_model::{
    Credential, Endpoint, ErrorKind, Model, ModelError, ModelEvent, ModelInfo, ModelRef, Prepared, Request,
    Secret, Settings, open,
};
use becket_session::context::Policy;
use becket_session::{CreateOptions, Session};
use becket_tool::{Registry, Tool, ToolEnv, sha256};
use becket_types::{
    Access, Command, DeliveryMode, Event, FinishReason, ImageSource, Millis, Part, PermissionMode,
    PromptInput, ToolOutput, ToolSpec, TurnResult, Usage,
};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Behaviour of the summariser. It stays the same for the whole session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Keeps the template, in the given language.
    Good(usize),
    Empty,
    Blank,
    HeadingsOnly,
    /// Returns the same words each time, without the template.
    Identical,
    /// Gives back what it was asked.
    Echo,
    /// A template with a section longer than any window.
    Huge,
    /// Writes words without end.
    Endless,
    /// Cut by the output limit in the middle of its sections.
    Cut,
    Error(u16),
    Refusal,
    Overflow,
    /// Calls a tool instead of answering.
    Calls,
}

/// The steps that the model will take, and the requests that it was sent.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) steps: VecDeque<Vec<Part>>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) asked: usize,
    /// The output of each call, by its id.
    pub(crate) outputs: HashMap<String, String>,
    /// Calls that ran, in order.
    pub(crate) ran: Vec<String>,
}

pub(crate) struct Planned {
    info: ModelInfo,
    plan: Arc<Mutex<Plan>>,
    behaviour: Behaviour,
    encoder: Arc<dyn Model>,
    /// Requests that were prepared, by their tag.
    prepared: Mutex<Vec<Prep>>,
}

enum Prep {
    Turn(Box<Sent>),
    Summary { prompt: String },
}

impl Planned {
    pub(crate) fn new(window: u64, behaviour: Behaviour, plan: &Arc<Mutex<Plan>>) -> Arc<Self> {
        let endpoint = Endpoint {
            base_url: Some("http://127.0.0.1:9/v1".to_owned()),
            credential: Some(Credential::ApiKey(Secret::new("sk-key"))),
            ..Endpoint::default()
        };
        let settings = Settings { openai: endpoint, ..Settings::default() };
        let info = ModelInfo {
            id: format!("test/w{window}"),
            provider: "test".into(),
            name: format!("w{window}"),
            window,
            input_limit: window,
            max_output: window / 8,
            prices: None,
            images: true,
            reasoning: false,
            cache_ttl: Millis(300_000),
            server: becket_model::ServerTraits::default(),
            source: "test".into(),
        };
        Arc::new(Self {
            info,
            plan: Arc::clone(plan),
            behaviour,
            encoder: open(&ModelRef::openai("local".to_owned()), &settings).unwrap(),
            prepared: Mutex::default(),
        })
    }

    fn usable(&self) -> u64 {
        becket_session::context::budget::Budget::new(
            self.info.window,
            self.info.input_limit,
            self.info.max_output,
        )
        .usable()
    }

    fn summary(&self, nth: usize, prompt: String) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let answer = |text: String, finish| said(text, finish, 1);
        match self.behaviour {
            Behaviour::Good(language) => answer(good(nth as u64, language, 400), FinishReason::Stop),
            Behaviour::Empty => answer(String::new(), FinishReason::Stop),
            Behaviour::Blank => answer(" \n\u{200b}\n".to_owned(), FinishReason::Stop),
            Behaviour::HeadingsOnly => answer(
                "## Goal\n\n## Instructions\n\n## Progress\n\n## Decisions\n\n## Discoveries\n\n## Next steps\n\n## Relevant files\n"
                    .to_owned(),
                FinishReason::Stop,
            ),
            Behaviour::Identical => answer("Sure! Here is what happened so far.".to_owned(), FinishReason::Stop),
            Behaviour::Echo => answer(prompt, FinishReason::Stop),
            Behaviour::Huge => answer(good(nth as u64, 0, 60_000), FinishReason::Stop),
            Behaviour::Cut => {
                let whole = good(nth as u64, 0, 2_000);
                let cut = whole.floor_char_boundary(whole.len() / 2);
                answer(whole[..cut].to_owned(), FinishReason::Length)
            }
            Behaviour::Endless => futures::stream::unfold(0u64, |n| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let text = text(Source::Summary, n, 0, 400);
                Some((Ok(ModelEvent::TextDelta { index: 0, text }), n + 1))
            })
            .boxed(),
            Behaviour::Error(status) => {
                let kind = match status {
                    401 | 403 => ErrorKind::Auth,
                    404 => ErrorKind::NotFound,
                    429 => ErrorKind::RateLimit,
                    _ => ErrorKind::Overloaded,
                };
                failing(kind, Some(status))
            }
            Behaviour::Refusal => answer("No.".to_owned(), FinishReason::Refusal),
            Behaviour::Overflow => failing(ErrorKind::ContextOverflow, Some(400)),
            Behaviour::Calls => {
                let call = Part::tool_call(format!("s{nth}"), "bash", json!({"command": "s"}));
                answered(vec![call], FinishReason::ToolCalls, 1)
            }
        }
    }
}

/// A summary that keeps the template.
fn good(nth: u64, language: usize, bytes: usize) -> String {
    let part = |n: u64, share: usize| text(Source::Summary, nth * 10 + n, language, bytes * share / 100);
    format!(
        "## Goal\n{}\n\n## Instructions\n- {}\n\n## Progress\n### Done\n- {}\n### In progress\n- {}\n### Blocked\n\n## Decisions\n\
         - {}\n\n## Discoveries\n- {}\n\n## Next steps\n1. {}\n\n## Relevant files\n",
        part(0, 10),
        part(1, 10),
        part(2, 10),
        part(3, 10),
        part(4, 10),
        part(5, 40),
        part(6, 10),
    )
}

fn failing(kind: ErrorKind, status: Option<u16>) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let error = ModelError { status, ..ModelError::new(kind, format!("{kind:?} happened.")) };
    futures::stream::iter([Err(error)]).boxed()
}

fn said(
    text: String,
    finish: FinishReason,
    input: u64,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let parts = if text.is_empty() { Vec::new() } else { vec![Part::text(text)] };
    answered(parts, finish, input)
}

fn answered(
    parts: Vec<Part>,
    finish: FinishReason,
    input: u64,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let mut events = vec![Ok(ModelEvent::Started { request_id: None })];
    for (index, part) in parts.into_iter().enumerate() {
        let index = index as u32;
        if let Part::Text { text, .. } = &part {
            events.push(Ok(ModelEvent::TextDelta { index, text: text.clone() }));
        }
        events.push(Ok(ModelEvent::Part { index, part }));
    }
    events.push(Ok(ModelEvent::Usage(Usage { input, output: 10, ..Usage::default() })));
    events.push(Ok(ModelEvent::Finish(finish)));
    futures::stream::iter(events).boxed()
}

impl Model for Planned {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        let mut encoded = self.encoder.prepare(request)?;
        let mut prepared = self.prepared.lock().unwrap();
        encoded.tag = prepared.len() as u64;
        prepared.push(if request.context.generation > u64::MAX / 2 {
            Prep::Summary {
                prompt: request.context.messages.last().map(|m| m.message.text()).unwrap_or_default(),
            }
        } else {
            Prep::Turn(Box::new(Sent {
                context: request.context.clone(),
                tools: request.tools.to_vec(),
                usable: self.usable(),
                chat: serde_json::from_slice(&encoded.body.concat()).unwrap(),
            }))
        });
        Ok(encoded)
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let mut plan = self.plan.lock().unwrap();
        match &self.prepared.lock().unwrap()[prepared.tag as usize] {
            Prep::Summary { prompt } => {
                plan.asked += 1;
                let nth = plan.asked;
                self.summary(nth, prompt.clone())
            }
            Prep::Turn(sent) => {
                let tokens = sent.tokens();
                plan.sent.push((**sent).clone());
                match plan.steps.pop_front() {
                    Some(parts) if parts.iter().any(|p| matches!(p, Part::ToolCall { .. })) => {
                        answered(parts, FinishReason::ToolCalls, tokens)
                    }
                    Some(parts) => answered(parts, FinishReason::Stop, tokens),
                    None => said("Nothing is left to do.".to_owned(), FinishReason::Stop, tokens),
                }
            }
        }
    }
}

/// `read` gives a file of the project, `bash` a text of so many bytes.
struct StageTool {
    spec: ToolSpec,
    plan: Arc<Mutex<Plan>>,
}

impl Tool for StageTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let field = |name: &str| input.get(name).and_then(Value::as_str).ok_or(format!("{name} is missing"));
        match self.spec.name.as_str() {
            "read" => field("path").map(|path| Access::read(env.resolve(path))),
            _ => field("command").map(Access::execute),
        }
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let output = if let Some(path) = input["path"].as_str() {
                let path = env.resolve(path);
                let content = std::fs::read_to_string(&path).unwrap();
                env.host.note_content(&path, &sha256(content.as_bytes()), content.clone().into_bytes());
                content
            } else {
                let n = input["n"].as_u64().unwrap_or(0);
                text(Source::Output, n, (n % 7) as usize, input["bytes"].as_u64().unwrap_or(0) as usize)
            };
            let mut plan = self.plan.lock().unwrap();
            let id = input["id"].as_str().unwrap_or_default().to_owned();
            plan.ran.push(id.clone());
            plan.outputs.insert(id, output.clone());
            ToolOutput::text(output)
        })
    }
}

fn tool(name: &str, plan: &Arc<Mutex<Plan>>) -> Arc<dyn Tool> {
    let input_schema = json!({"type": "object", "properties": {}}).into();
    let spec = ToolSpec { name: name.to_owned(), description: format!("The tool {name}."), input_schema };
    Arc::new(StageTool { spec, plan: Arc::clone(plan) })
}

/// A running agent.
pub(crate) struct Stage {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) plan: Arc<Mutex<Plan>>,
    handle: AgentHandle,
    task: JoinHandle<Arc<Mutex<Session>>>,
    pub(crate) log: Vec<Event>,
}

impl Stage {
    pub(crate) fn new(windows: &[u64], behaviour: Behaviour, prepare: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&cwd).unwrap();
        let plan: Arc<Mutex<Plan>> = Arc::default();
        let models: Vec<Arc<Planned>> = windows.iter().map(|w| Planned::new(*w, behaviour, &plan)).collect();
        let policy = Policy { prepare, ..Policy::default() };
        let info = &models[0].info;
        let options = CreateOptions { version: "0".into(), persist: false, ..CreateOptions::default() };
        let session =
            Session::create(&dir.path().join("sessions"), &cwd, options, policy, scope(info)).unwrap();
        let mut tools = Registry::new();
        tools.add(tool("read", &plan)).unwrap();
        tools.add(tool("bash", &plan)).unwrap();
        let mut settings = AgentSettings::default();
        settings.environment.cwd.clone_from(&cwd);
        settings.roots = vec![cwd.clone()];
        settings.prompt.replace = Some("You work.".to_owned());
        let mode = PermissionMode::BypassPermissions;
        let guard = Guard::new(GuardSettings { mode, roots: vec![cwd], ..GuardSettings::default() });
        let first = Arc::clone(&models[0]);
        let find: FindModel = Arc::new(move |name| {
            let found = models.iter().find(|m| m.info.id == name).cloned();
            found.map(|m| m as Arc<dyn Model>).ok_or_else(|| format!("no {name}"))
        });
        let (agent, handle) = Agent::new(AgentParts {
            session,
            model: first,
            auxiliary: Auxiliary::default(),
            fallback_models: Vec::new(),
            cache: becket_session::context::cache::CachePolicy::default(),
            find_model: Some(find),
            tools,
            guard,
            settings,
        });
        Self { dir, plan, handle, task: tokio::spawn(agent.run()), log: Vec::new() }
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.dir.path().join("project").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) async fn send(&self, command: Command) {
        self.handle.commands.send(command).await.unwrap();
    }

    pub(crate) async fn prompt(&self, parts: Vec<Part>) {
        self.send(Command::Prompt(PromptInput {
            parts,
            mode: DeliveryMode::Steer,
            ..PromptInput::default()
        }))
        .await;
    }

    pub(crate) async fn until(&mut self, pass: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.handle.events.recv().await.expect("the agent ended");
            self.log.push(event.clone());
            if pass(&event) {
                return event;
            }
        }
    }

    pub(crate) async fn finished(&mut self) -> TurnResult {
        match self.until(|event| matches!(event, Event::TurnFinished(_))).await {
            Event::TurnFinished(result) => *result,
            _ => unreachable!(),
        }
    }

    /// Ends the input and gives the session with what happened.
    pub(crate) async fn end(self) -> (Arc<Mutex<Session>>, Arc<Mutex<Plan>>, tempfile::TempDir) {
        self.send(Command::EndInput).await;
        (self.task.await.unwrap(), self.plan, self.dir)
    }
}

/// A picture that every check of an image accepts.
pub(crate) fn picture(n: u64) -> Part {
    const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    Part::Image {
        media_type: "image/png".into(),
        source: ImageSource::Base64(PIXEL.into()),
        name: Some(format!("shot{}.png", dice(&[n]) % 1_000)),
        width: Some(800),
        height: Some(600),
        extra: Map::new(),
    }
}
