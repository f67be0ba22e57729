//! Parts and settings of an agent. The binary passes them in: the agent reads no configuration, no
//! environment and no HOME.

use crate::hooks::Hooks;
use crate::prompt::{Environment, PromptSettings};
use crate::rules::RulesSettings;
use crate::subagent::Kind;
use crate::watch::Watching;
use becket_guard::{Guard, Rule};
use becket_model::{Model, ModelInfo};
use becket_session::Session;
use becket_session::context::ModelScope;
use becket_session::context::cache::CachePolicy;
use becket_tool::{EditHook, Registry};
use becket_types::{DecidedBy, Limit, Millis};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Finds a model by the name that the user gives (`provider/name` or an alias). The error is a message for
/// people.
pub type FindModel = Arc<dyn Fn(&str) -> Result<Arc<dyn Model>, String> + Send + Sync>;

/// The parts of an agent.
pub struct AgentParts {
    pub session: Session,
    pub model: Arc<dyn Model>,
    pub auxiliary: Auxiliary,
    /// Models that are used in order when the running model is overloaded or unavailable.
    pub fallback_models: Vec<Arc<dyn Model>>,
    /// Finds the model for `Command::SetModel`.
    pub find_model: Option<FindModel>,
    /// Use of the provider's cache.
    pub cache: CachePolicy,
    pub tools: Registry,
    pub guard: Guard,
    pub settings: AgentSettings,
}

/// Models for work beside the conversation; `None`: the running model, and no title by a model.
#[derive(Clone, Default)]
pub struct Auxiliary {
    /// Writes the summaries of compactions.
    pub summary: Option<Arc<dyn Model>>,
    /// Writes the title of a session.
    pub title: Option<Arc<dyn Model>>,
    /// Runs subagents whose kind names no model.
    pub subagent: Option<Arc<dyn Model>>,
}

/// Settings that stay the same while the agent runs.
#[derive(Clone, Debug, Default)]
pub struct AgentSettings {
    /// Canonical paths of directories that may be used without asking: the working directory and `--add-dir`.
    pub roots: Vec<PathBuf>,
    pub asking: Asking,
    pub session: SessionSettings,
    pub limits: LimitSettings,
    pub tools: ToolSettings,
    pub hooks: HookSettings,
    pub requests: RequestSettings,
    pub prompt: PromptSettings,
    pub environment: Environment,
    pub rules: RulesSettings,
    /// Kinds of subagents for the `task` tool; empty: no such tool.
    pub subagents: Arc<[Kind]>,
}

/// The user or program that can be asked for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// True if no user can be asked. A call that would ask is then denied.
    pub headless: bool,
    /// True if a program can be asked for permission, although no user can.
    pub asks_host: bool,
}

/// The session as this run opens it, and facts for [`becket_types::Event::SessionStarted`].
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// True if the session existed before this run.
    pub resumed: bool,
    /// True if the session is a copy that this run made of another one.
    pub forked: bool,
    /// True if the session is a new one that takes the place of a conversation which the person cleared.
    pub cleared: bool,
    pub title: Option<String>,
    /// States to write to the session before its next turn, if they differ. Later runs of the session read
    /// them.
    pub states: Vec<(String, Value)>,
    /// The variable or file of the key, `key_command` or `none`; shown to programs.
    pub api_key_source: String,
    /// Names of the skills, shown to programs.
    pub skills: Vec<String>,
}

/// Limits of the run, and who may change them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitSettings {
    pub run: RunLimits,
    /// The highest limits that may be set while the agent runs.
    pub ceilings: RunLimits,
    /// Limits that count from the start of this run, although the session has a usage already.
    pub new: NewLimits,
    /// Wait if the provider's quota is used up, for as long as it takes.
    pub wait_for_quota: bool,
}

/// Treatment of tool calls.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// Time limit for one call. A call that exceeds it gets a result that says so.
    pub timeout: Duration,
    pub secrets: SecretOutputs,
    /// Called around every call that changes files.
    pub edit_hook: Option<Arc<dyn EditHook>>,
    /// Tools that come and change while the session runs.
    pub source: Option<Arc<dyn becket_tool::ToolSource>>,
    /// Settings for copies of files before calls, which undo needs; `None`: no copies.
    pub snapshots: Option<becket_snapshot::Settings>,
    /// Method of detecting changes by others to files that the model has read.
    pub watching: Watching,
    /// Confines commands, and learns of changes of the workspace and of deny rules; `None`: nothing is confined.
    pub confinement: Option<Arc<dyn Confinement>>,
    /// Other names under which the model may call tools: the tool by the name.
    pub aliases: BTreeMap<String, String>,
}

/// The confinement of commands, as far as an agent changes it.
pub trait Confinement: std::fmt::Debug + Send + Sync {
    /// Adds a folder to the workspace of commands that start from now on. Returns files in it that other programs take
    /// commands or settings from, such as a hook that Git's configuration names, and that are not known by their names
    /// alone.
    fn add_folder(&self, folder: &Path) -> Vec<PathBuf>;

    /// Removes a folder that was added, for commands that start from now on. `roots`: the folders that stay.
    fn remove_folder(&self, folder: &Path, roots: &[PathBuf]);

    /// Sets the deny rules of the session, for commands that start from now on.
    fn deny(&self, rules: &[Rule]);

    /// Returns new warnings for the user: changes by MCP servers to protected files, which were undone, and places that were
    /// not searched for the files that deny rules name.
    fn undone(&self) -> Vec<String>;
}

/// Hooks of the session.
#[derive(Clone, Debug, Default)]
pub struct HookSettings {
    /// Is asked at each moment at which hooks may have a say; `None`: no hook is configured.
    pub engine: Option<Arc<dyn Hooks>>,
    /// The agent as hooks know it; `None`: the agent of a session without a kind.
    pub agent: Option<HookAgent>,
    /// Files whose changes start hooks.
    pub files: Vec<SettingsFile>,
}

/// A file of settings, as it was when it was last looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// The source of its settings in hooks' words, such as `user_settings`.
    pub source: &'static str,
    pub path: PathBuf,
    /// Time of the last change and size; `None`: there is no such file.
    stamp: Option<(SystemTime, u64)>,
}

impl SettingsFile {
    /// Looks at a file.
    pub fn new(source: &'static str, path: PathBuf) -> Self {
        let stamp = stamp(&path);
        Self { source, path, stamp }
    }

    /// Looks at the file again. Returns true if it has changed.
    pub(crate) fn has_changed(&mut self) -> bool {
        let now = stamp(&self.path);
        std::mem::replace(&mut self.stamp, now) != now
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

/// Settings of requests to models.
#[derive(Clone, Debug)]
pub struct RequestSettings {
    /// Output limit of a request in tokens; the model's own limit if that is lower.
    pub max_output: Option<u64>,
    pub effort: Option<String>,
    /// Replaces the catalog's context window, in tokens (`--context-window`).
    pub context_window: Option<u64>,
    /// The model with an assumed window about which the user was informed in an earlier run.
    pub known_assumption: Option<String>,
    /// Ask a model for the summary of a compaction; otherwise becket makes it from the session's record.
    pub summaries: bool,
}

impl Asking {
    /// Returns who answers a question for permission, and the words for it in the record of decisions. Without a user, only the program that
    /// drives the session can have answered.
    pub fn decided_by(self) -> (DecidedBy, &'static str) {
        if self.headless {
            (DecidedBy::Sdk, "the program that drives the session")
        } else {
            (DecidedBy::Person, "the user")
        }
    }
}

impl Default for Asking {
    fn default() -> Self {
        Self { headless: true, asks_host: false }
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            resumed: false,
            forked: false,
            cleared: false,
            title: None,
            states: Vec::new(),
            api_key_source: "none".to_owned(),
            skills: Vec::new(),
        }
    }
}

impl Default for ToolSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_hours(1),
            secrets: SecretOutputs::Mask,
            edit_hook: None,
            source: None,
            snapshots: None,
            watching: Watching::default(),
            confinement: None,
            aliases: BTreeMap::new(),
        }
    }
}

impl Default for RequestSettings {
    fn default() -> Self {
        Self { max_output: None, effort: None, context_window: None, known_assumption: None, summaries: true }
    }
}

/// Limits of a run; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunLimits {
    /// Maximum number of answered requests per turn. Then one wrap-up request follows.
    pub max_turns: Option<u64>,
    /// Maximum cost in US dollars of all requests of this agent and its subagents, including summaries.
    pub max_usd: Option<f64>,
    /// Maximum number of tokens read and written, including cached ones.
    pub max_tokens: Option<u64>,
    /// Time limit for one turn.
    pub max_wall: Option<Duration>,
}

impl RunLimits {
    /// Checks a changed limit against these highest values.
    pub(crate) fn allow(&self, change: Limit) -> Result<(), String> {
        let above = |most: Option<f64>, ceiling: Option<f64>| {
            ceiling.is_some_and(|ceiling| most.is_none_or(|most| most > ceiling))
        };
        let whole = |most: Option<u64>| most.map(|most| most as f64);
        let seconds = |wall: Duration| wall.as_secs_f64();
        let is_above = match change {
            Limit::Usd(most) => above(most, self.max_usd),
            Limit::Tokens(most) => above(whole(most), whole(self.max_tokens)),
            Limit::Turns(most) => above(whole(most), whole(self.max_turns)),
            Limit::Wall(most) => {
                above(most.map(|Millis(ms)| ms as f64 / 1_000.0), self.max_wall.map(seconds))
            }
        };
        if is_above {
            return Err(
                "This limit was set by the administrator of this machine. It can only be lowered.".to_owned()
            );
        }
        Ok(())
    }
}

/// Name of the session state that holds the options of a run.
pub(crate) const OPTIONS: &str = "run_options";

/// Returns the configuration key of a limit, and its value there: null without a limit.
pub(crate) fn option(change: Limit) -> (&'static str, Value) {
    match change {
        Limit::Usd(most) => ("limits.max_budget_usd", json!(most)),
        Limit::Tokens(most) => ("limits.max_tokens", json!(most)),
        Limit::Turns(most) => ("limits.max_turns", json!(most)),
        Limit::Wall(most) => ("limits.max_wall", json!(most.map(|Millis(ms)| ms as f64 / 1_000.0))),
    }
}

/// Limits that were set for this run. The others go on counting from the session's earlier runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewLimits {
    /// The limit in money counts from the start of this run.
    pub usd: bool,
    /// The limit in tokens counts from the start of this run.
    pub tokens: bool,
}

/// An agent as hooks know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAgent {
    /// Id of a subagent; `None`: the agent of the session.
    pub id: Option<String>,
    /// Name of the agent's kind.
    pub kind: String,
}

impl AgentSettings {
    /// True if the agent works for another agent, as hooks see it.
    pub(crate) fn is_subagent(&self) -> bool {
        self.hooks.agent.as_ref().is_some_and(|agent| agent.id.is_some())
    }
}

/// Treatment of keys and tokens of known forms in outputs of tools, before the outputs are stored and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretOutputs {
    /// Asks the user about each output that contains a secret. If no user can be asked, the secret is masked.
    Ask,
    /// Replaces each secret by a mask.
    Mask,
    /// Leaves secrets as they are.
    Send,
}

/// Maximum number of images in one request: the lowest limit of the large providers. A server may have a lower one.
const MAX_IMAGES: usize = 50;

/// Returns the facts about a model that the view needs. The limit on media bytes per request is the lowest of
/// the large providers.
pub fn scope(info: &ModelInfo) -> ModelScope {
    ModelScope {
        provider: info.provider.clone(),
        model: info.name.clone(),
        images: info.images,
        max_images: info.server.max_images.map_or(MAX_IMAGES, |most| (most as usize).min(MAX_IMAGES)),
        max_media_bytes: 20_000_000,
    }
}
