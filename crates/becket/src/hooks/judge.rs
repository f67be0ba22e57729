//! Answers questions of hooks with a model: with one request, or as an agent that may look at the project first.
//!
//! Such an agent has the tools that read, and the session's guard in permission mode `plan`. Its session is not kept, and no
//! hook runs in it. The engine limits its time, and drops it when the time is over.
//!
//! All requests count towards the limits of the session that asks, and are recorded there with the purpose `hook`.

use becket_agent::prompt::{self, PromptSettings};
use becket_agent::{
    AgentParts, AgentSettings, Auxiliary, FindModel, HookBudget, LimitSettings, RunLimits, scope,
};
use becket_guard::Guard;
use becket_hooks::{Ask, Question};
use becket_model::{Model, ModelEvent, Request, ToolChoice};
use becket_session::context::Policy;
use becket_session::{CreateOptions, Session};
use becket_tool::{Registry, Tool};
use becket_types::{
    Blobs, Command, Context, ContextMessage, DeliveryMode, Event, Message, Part, PermissionMode, PromptInput,
    Provenance, Seq, Tokens, TurnEnd,
};
use futures::StreamExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of tokens of the answer to a prompt hook.
const MAX_ANSWER: u64 = 2_000;
/// Maximum number of requests of an agent hook.
const MAX_TURNS: u64 = 50;

const SYSTEM: &str = "You judge one moment of a coding session for its user. Follow the question exactly.";

/// Everything that answering a hook's question needs.
pub(crate) struct Judge {
    /// Answers if the hook names no model.
    pub model: Arc<dyn Model>,
    pub find: FindModel,
    pub blobs: Arc<dyn Blobs>,
    /// The configured policy for context windows, for the session of an agent that answers.
    pub policy: Policy,
    pub guard: Guard,
    pub roots: Vec<PathBuf>,
    pub environment: prompt::Environment,
}

impl Judge {
    /// Returns the function that the engine asks.
    pub(crate) fn into_ask(self, budget: HookBudget) -> Ask {
        let shared = Arc::new((self, budget));
        Arc::new(move |question| {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (judge, budget) = &*shared;
                let model = match &question.model {
                    Some(name) => (judge.find)(name)?,
                    None => Arc::clone(&judge.model),
                };
                if question.agent {
                    Box::pin(judge.ask_agent(model, question, budget)).await
                } else {
                    ask_model(&*model, question.prompt, &judge.blobs, budget).await
                }
            })
        })
    }

    /// Lets an agent look at the project, and returns its last message.
    async fn ask_agent(
        &self,
        model: Arc<dyn Model>,
        question: Question,
        budget: &HookBudget,
    ) -> Result<String, String> {
        let cwd = &self.environment.cwd;
        let options = CreateOptions {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            persist: false,
            ..CreateOptions::default()
        };
        let session = Session::create(cwd, cwd, options, self.policy.clone(), scope(model.info()))
            .map_err(|error| error.to_string())?;
        let mut tools = Registry::new();
        let reading: [Arc<dyn Tool>; 3] = [
            Arc::new(becket_tool_read::Read::new()),
            Arc::new(becket_tool_search::Grep::new()),
            Arc::new(becket_tool_search::Glob::new()),
        ];
        for tool in reading {
            tools.add(tool).map_err(|error| error.to_string())?;
        }
        let mut guard = self.guard.clone();
        guard.set_mode(PermissionMode::Plan);
        let settings = AgentSettings {
            roots: self.roots.clone(),
            limits: LimitSettings {
                run: RunLimits { max_turns: Some(MAX_TURNS), ..RunLimits::default() },
                ..LimitSettings::default()
            },
            prompt: PromptSettings { append: Some(SYSTEM.to_owned()), ..PromptSettings::default() },
            environment: self.environment.clone(),
            ..AgentSettings::default()
        };
        let (agent, mut handle) = budget.agent(AgentParts {
            session,
            model,
            auxiliary: Auxiliary::default(),
            fallback_models: Vec::new(),
            cache: becket_session::context::cache::CachePolicy::default(),
            find_model: None,
            tools,
            guard,
            settings,
        })?;
        let prompt = PromptInput {
            parts: vec![Part::text(question.prompt)],
            mode: DeliveryMode::Queue,
            ..PromptInput::default()
        };
        // The channel is new, so it has room.
        for command in [Command::Prompt(prompt), Command::EndInput] {
            let _ = handle.commands.try_send(command);
        }
        agent.run().await;
        let mut last = None;
        while let Ok(event) = handle.events.try_recv() {
            if let Event::TurnFinished(result) = event {
                last = Some(result);
            }
        }
        match last {
            Some(result) if result.end == TurnEnd::Completed => Ok(result.text.to_string()),
            Some(result) => Err(match result.end.limit() {
                Some(what) => {
                    format!("the agent ended without an answer: a limit of the session is reached ({what})")
                }
                None => "the agent ended without an answer".to_owned(),
            }),
            None => Err("the agent ended before its turn began".to_owned()),
        }
    }
}

async fn ask_model(
    model: &dyn Model,
    prompt: String,
    blobs: &Arc<dyn Blobs>,
    budget: &HookBudget,
) -> Result<String, String> {
    let wanted = MAX_ANSWER.min(model.info().max_output);
    let (mut counted, max_output) = budget.request(model.info(), &[SYSTEM, &prompt], wanted)?;
    let mut context = Context { system: Arc::from([Arc::from(SYSTEM)]), ..Context::default() };
    context.messages.push(Arc::new(ContextMessage {
        message: Arc::new(Message::user(prompt)),
        provenance: Provenance { seq: Seq(0), message: None, applied: Vec::new() },
        tokens: Tokens(0),
    }));
    let request = Request {
        context: &context,
        tools: &[],
        tool_choice: ToolChoice::None,
        max_output,
        effort: None,
        layout: None,
        cache: becket_types::CacheLifetime::default(),
        blobs,
    };
    let prepared = model.prepare(&request).map_err(|error| error.message)?;
    let mut stream = model.send(prepared);
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        let event = event.map_err(|error| error.message)?;
        counted.note(&event);
        if let ModelEvent::Part { part: Part::Text { text: more, .. }, .. } = event {
            text.push_str(&more);
        }
    }
    Ok(text)
}
