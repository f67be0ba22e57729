//! What an agent is made of, handed in by the binary: the agent reads no configuration, no environment and no HOME.

use crate::prompt::{Environment, PromptSettings};
use crate::rules::RulesSettings;
use crate::subagent::Kind;
use crate::watch::Watching;
use becket_guard::Guard;
use becket_model::{Model, ModelInfo};
use becket_session::Session;
use becket_session::context::ModelScope;
use becket_tool::{EditHook, Registry};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Finds a model by the name the user gives (`provider/name` or an alias). `Err` is a message for people.
pub type FindModel = Arc<dyn Fn(&str) -> Result<Arc<dyn Model>, String> + Send + Sync>;

/// The pieces of an agent.
pub struct AgentParts {
    pub session: Session,
    pub model: Arc<dyn Model>,
    /// Writes summaries; `None`: the running model does.
    pub summary_model: Option<Arc<dyn Model>>,
    /// Taken in order when the running model is overloaded or not available.
    pub fallback_models: Vec<Arc<dyn Model>>,
    /// For `Command::SetModel`.
    pub find_model: Option<FindModel>,
    pub tools: Registry,
    pub guard: Guard,
    pub settings: AgentSettings,
}

/// What does not change while the agent runs.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Directories that may be used without asking: the working directory and `--add-dir`. Canonical.
    pub roots: Vec<PathBuf>,
    /// Nobody can be asked: what would ask is denied.
    pub headless: bool,
    /// The session existed before.
    pub resumed: bool,
    /// A resumed session goes on with an unfinished turn without a new prompt.
    pub continue_turn: bool,
    /// Answered requests per turn; then one wrap-up.
    pub max_turns: Option<u64>,
    /// List price in US dollars of everything this agent asks, summaries included.
    pub max_budget_usd: Option<f64>,
    /// Tokens read and written, cached ones included.
    pub max_tokens: Option<u64>,
    /// Time of one turn.
    pub max_wall: Option<Duration>,
    /// Time of one tool call; then its result says so.
    pub tool_timeout: Duration,
    pub secrets: SecretOutputs,
    /// Is told around every call that changes files.
    pub edit_hook: Option<Arc<dyn EditHook>>,
    /// Output limit of a request; the model's own where it is lower.
    pub max_output: Option<u64>,
    pub effort: Option<String>,
    /// Instead of the catalog's window (`--context-window`).
    pub context_window: Option<u64>,
    pub prompt: PromptSettings,
    pub environment: Environment,
    pub rules: RulesSettings,
    /// Copies of files before calls, for undo; `None`: none are made.
    pub snapshots: Option<becket_snapshot::Settings>,
    /// How files that the model has read are followed, to tell it when somebody else changes one.
    pub watching: Watching,
    /// For [`becket_types::Event::SessionStarted`].
    pub api_key_source: String,
    pub skills: Vec<String>,
    /// The subagents there are, for the `task` tool; empty: none.
    pub subagents: Arc<[Kind]>,
    pub title: Option<String>,
    /// States of the session that are written before its next turn where they differ, for later runs of it.
    pub states: Vec<(String, serde_json::Value)>,
}

/// The treatment of keys and tokens of known forms in outputs of tools, before the outputs are kept and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretOutputs {
    /// The person is asked for each output that holds one; they are masked where nobody can be asked.
    Ask,
    Mask,
    Send,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            headless: true,
            resumed: false,
            continue_turn: false,
            max_turns: None,
            max_budget_usd: None,
            max_tokens: None,
            max_wall: None,
            tool_timeout: Duration::from_hours(1),
            secrets: SecretOutputs::Mask,
            edit_hook: None,
            max_output: None,
            effort: None,
            context_window: None,
            prompt: PromptSettings::default(),
            environment: Environment::default(),
            rules: RulesSettings::default(),
            snapshots: None,
            watching: Watching::default(),
            api_key_source: "none".to_owned(),
            skills: Vec::new(),
            subagents: Arc::default(),
            title: None,
            states: Vec::new(),
        }
    }
}

/// What the view must know of a model. Images and bytes of media per request are the lowest of the big providers'.
pub fn scope(info: &ModelInfo) -> ModelScope {
    ModelScope {
        provider: info.provider.clone(),
        model: info.name.clone(),
        images: info.images,
        max_images: 50,
        max_media_bytes: 20_000_000,
    }
}
