//! Wiring: builds an agent from settings, a session, a model, tools and a guard.

mod agent_settings;
mod offered_tools;
mod open_session;

use crate::agents::{Definition, SessionAgents};
use crate::chosen_models::{self, ChosenModels};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::hooks;
use crate::integrations;
use crate::lock_file::{self, FirstRequest};
use crate::mcp::AgentServers;
use crate::model_names::{self, Aliases};
use crate::models;
use crate::providers;
use crate::recorded_settings::join_folders;
use crate::settings::{RunSettings, policy, project_root};
use crate::toolbox;
use crate::trust::content::ContentTrust;
use agent_settings::agent_settings;
use becket_agent::prompt;
use becket_agent::rules::RulesSettings;
use becket_agent::subagent::Kind;
use becket_agent::{Agent, AgentHandle, AgentParts, AgentSettings, FindModel, HookAgent, HookBudget};
use becket_config::Source;
use becket_guard::Guard;
use becket_model::{Endpoint, Model, ModelInfo, Settings, Tape};
use becket_sandbox::Programs;
use becket_session::Session;
use becket_session::context::budget::Budget;
use becket_session::store;
use becket_tool::{EditHook, Registry};
use becket_tool_shell::Shell;
use becket_tool_skill::Skills;
use becket_types::{Blobs, MessageId, PermissionMode, SessionId, SystemItem, ToolSpec, TurnState, Used};
use offered_tools::{AnswerForm, ToolParts};
pub(crate) use open_session::EarlierMessages;
use open_session::{ExistingSession, existing, session};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// An agent ready to run, and the facts that the front end needs.
pub(crate) struct Assembled {
    pub agent: Agent,
    pub handle: AgentHandle,
    /// Runs commands. Its background jobs end with the session.
    pub shell: Arc<Shell>,
    /// Starts programs for becket's own use.
    pub programs: Programs,
    /// MCP servers, if any are configured. They end with the session.
    pub mcp: Option<Arc<becket_mcp::Hub>>,
    /// Notes to show the user before anything runs.
    pub notes: Vec<String>,
    pub session: OpenedSession,
    pub opening: Opening,
    /// The hooks of the session; a program that drives becket adds its own. `None`: there are no hooks, and none can be
    /// added.
    pub hooks: Option<hooks::OutsideHooks>,
    /// Settings with which models are opened. A changed key is used for the next model that is opened.
    pub models: SharedModels,
    pub offers: Offers,
    /// The first prompt of a new session, which its agent brings.
    pub initial_prompt: Option<String>,
}

/// The agent's session, as it was when it was opened.
pub(crate) struct OpenedSession {
    pub id: SessionId,
    /// The earlier messages of a continued session.
    pub earlier_messages: Option<EarlierMessages>,
    /// The folder of a session that is new and saved on disk, so that it can be removed if nothing happens in it.
    pub new_session_dir: Option<PathBuf>,
    /// Usage of the session before this run.
    pub used: Used,
    /// Images and large outputs of the session.
    pub blobs: Arc<dyn Blobs>,
    /// An earlier process did not finish the last turn.
    pub unfinished: bool,
    /// The last message of the context.
    pub last_message: Option<MessageId>,
}

impl OpenedSession {
    /// `persist`: a new session is saved on disk.
    fn new(session: &Session, past: Option<EarlierMessages>, persist: bool) -> Self {
        let view = session.view();
        // Prompts waiting in the session's inbox also count as an unfinished turn.
        let waits = view.state("inbox").and_then(|value| value.as_array()).is_some_and(|l| !l.is_empty());
        let resumed = past.is_some();
        Self {
            id: session.info().id,
            earlier_messages: past,
            new_session_dir: (persist && !resumed).then(|| session.dir().to_owned()),
            used: view.used(),
            blobs: session.blobs(),
            unfinished: resumed && (waits || view.turn_state() != TurnState::AwaitingUser),
            last_message: view.live().next_back().map(|message| message.id),
        }
    }
}

/// Abilities of a session that are listed for a program which drives it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offers {
    /// Name and description of each subagent.
    pub agents: Vec<(String, String)>,
    /// Name, description and hint for arguments of each slash command.
    pub commands: Vec<(String, String, String)>,
    pub api_key_source: String,
}

/// Settings with which models are opened, shared by everything that opens one.
pub(crate) type SharedModels = Arc<RwLock<becket_model::Settings>>;

/// The parts of a session's first request, for pages that are opened before that request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    /// `provider/name`.
    pub model: String,
    pub tools: Vec<ToolSpec>,
    pub agents: Vec<Definition>,
    prompt: Vec<SystemItem>,
    cwd: PathBuf,
    rules: RulesSettings,
    /// Tokens that a request may carry.
    pub usable: u64,
    /// Tokens of the model's window.
    pub window: u64,
}

impl Opening {
    fn new(settings: &AgentSettings, info: &ModelInfo, tools: &Registry, agents: Vec<Definition>) -> Self {
        let window = settings.requests.context_window;
        let budget =
            Budget::new(window.unwrap_or(info.window), window.unwrap_or(info.input_limit), info.max_output);
        Self {
            model: info.id.clone(),
            tools: tools.specs(),
            agents,
            prompt: prompt::items(&settings.prompt, &settings.environment, &tools.names()),
            cwd: settings.environment.cwd.clone(),
            rules: settings.rules.clone(),
            usable: budget.usable(),
            window: budget.window,
        }
    }

    /// Returns the system prompt, with the rules files as they are on disk now. Blocks.
    pub(crate) fn items(&self) -> Vec<SystemItem> {
        becket_agent::rules::opening(self.prompt.clone(), &self.cwd, &self.rules, self.usable)
    }

    /// Compares the first request with the lock file of the run, if there is one.
    fn check_lock(&self, run: &RunSettings, models: &Settings) -> Result<(), Failure> {
        let Some(file) = &run.files.locked else { return Ok(()) };
        let provider = self.model.split('/').next().unwrap_or_default();
        let server = models.endpoint(provider).map(Endpoint::place);
        let first = FirstRequest { model: &self.model, server, tools: &self.tools, prompt: self.items() };
        lock_file::check(file, run, &first)
    }
}

/// Builds the agent of a run. If the run continues a session, `run` gets the settings that the session keeps from
/// earlier runs.
///
/// # Errors
///
/// Returns a failure for the user if the session, the model, the guard or a tool cannot be made.
pub(crate) async fn assemble(environment: &Environment, run: &mut RunSettings) -> Result<Assembled, Failure> {
    let (configured, project) = (run.settings.clone(), run.project.clone());
    let existing = existing(environment, run)?;
    let mut notes = Vec::new();
    let mut kept = None;
    if let Some(existing) = &existing {
        notes.extend(existing.note.clone());
        kept.clone_from(&existing.remembered.agent);
        notes.extend(existing.remembered.clone().apply(&mut run.settings));
        notes.extend(join_folders(&existing.remembered, &mut run.project));
    }
    let (cwd, trusted) = (run.project.cwd.clone(), run.project.trusted);
    let agents =
        SessionAgents::new(environment, &cwd, trusted, &run.additions.agents, kept, &mut run.settings);
    let assembled = match agents {
        Ok(agents) => build_agent(environment, run, existing, agents, notes).await,
        Err(failure) => Err(failure),
    };
    (run.settings, run.project) = (configured, project);
    assembled
}

async fn build_agent(
    environment: &Environment,
    run: &RunSettings,
    existing: Option<ExistingSession>,
    mut own: SessionAgents,
    remembered: Vec<String>,
) -> Result<Assembled, Failure> {
    let config = &run.settings.config;
    let mut notes = initial_notes(environment, run, remembered);
    let mut model_settings = models::model_settings(environment, &run.settings);
    let ChosenModels { reference, model, fallbacks, auxiliary, tape, date, notes: about_models } =
        chosen_models::open(environment, run, &mut model_settings).await?;
    notes.extend(about_models);
    let mut equipment = equip(environment, run, &mut own, model.info(), &mut notes)?;
    let mut policy = policy(config);
    policy.protect.extend(equipment.tools.protected());
    // The session is created last, so a run that is refused leaves none behind.
    let window = model.info().window;
    let outside = equipment.engine.clone().map(hooks::OutsideHooks::new);
    let of_agents = std::mem::take(&mut equipment.agent_servers);
    let own_servers = crate::mcp::Origins { agent_servers: of_agents, hooks: outside.clone() };
    let started =
        crate::mcp::start(environment, run, &equipment.programs, window, own_servers, &mut notes).await?;
    let mcp = started.hub;
    let session = session(environment, run, existing, policy, becket_agent::scope(model.info()));
    if let (Err(_), Some(mcp)) = (&session, &mcp) {
        mcp.stop().await;
    }
    let (session, past) = session?;
    let resumed = past.is_some();
    let opened = begin_session(run, &session, past, outside.as_ref(), &mut notes);
    let active_skills = active_skills(session.view().state("skills"));
    let mut settings = session_settings(environment, run, &own, resumed);
    settings.session.api_key_source = providers::key_origin(&reference, &run.settings);
    if run.command.is_none() && run.session.persist {
        settings.requests.known_assumption =
            crate::servers::known_assumption(environment, model.info(), &model_settings);
    }
    equipment.describe_in(&mut settings, environment, run, model.info());
    settings.tools.source =
        mcp.clone().map(|hub| own.main_tools(Arc::new(becket_mcp::HubTools(hub)), &started.agent_only));
    if let Some(date) = date {
        settings.environment.date = date;
    }
    let SessionParts { guard, skills, programs, shell, engine, tools, .. } = equipment;
    let offers = offers(&settings, &skills);
    let opening = Opening::new(&settings, model.info(), &tools, own.agents.all.clone());
    if let Err(failure) = opening.check_lock(run, &model_settings) {
        abandon(session, &opened, mcp.as_deref()).await;
        return Err(failure);
    }
    let models: SharedModels = Arc::new(RwLock::new(model_settings));
    let find_model = finder(Arc::clone(&models), run.settings.config.model.others.aliases.clone(), tape);
    let judge = engine.as_ref().map(|engine| {
        engine.set_exports(hooks::into_shell(&shell));
        judge(run, &model, &find_model, &opened, &guard, &settings)
    });
    let (agent, handle) = Agent::new(AgentParts {
        session,
        model,
        auxiliary,
        fallback_models: fallbacks,
        cache: crate::settings::cache(config),
        find_model: Some(find_model),
        tools,
        guard,
        settings,
    });
    if let (Some(engine), Some(judge)) = (&engine, judge) {
        hooks::connect(engine, &active_skills, mcp.clone(), judge.into_ask(HookBudget::of(&agent)));
    }
    if let Some(hooks) = &outside {
        hooks.report_to(&handle.commands);
    }
    Ok(Assembled {
        agent,
        handle,
        shell,
        programs,
        mcp,
        notes,
        session: opened,
        opening,
        hooks: outside,
        offers,
        models,
        initial_prompt: own.initial_prompt().filter(|_| !run.continues_session()).map(str::to_owned),
    })
}

/// Returns what hooks of the kinds `prompt` and `agent` need to ask a model.
fn judge(
    run: &RunSettings,
    model: &Arc<dyn Model>,
    find: &FindModel,
    opened: &OpenedSession,
    guard: &Guard,
    settings: &AgentSettings,
) -> hooks::Judge {
    hooks::Judge {
        model: Arc::clone(model),
        find: Arc::clone(find),
        blobs: Arc::clone(&opened.blobs),
        policy: crate::settings::policy(&run.settings.config),
        guard: guard.clone(),
        roots: run.project.roots.clone(),
        environment: settings.environment.clone(),
    }
}

/// Returns the facts about a session that was opened, and begins its hooks.
fn begin_session(
    run: &RunSettings,
    session: &Session,
    past: Option<EarlierMessages>,
    outside: Option<&hooks::OutsideHooks>,
    notes: &mut Vec<String>,
) -> OpenedSession {
    if run.continues_session() {
        notes.extend(unused_prompts(run, session.view().system_items()));
    }
    let opened = OpenedSession::new(session, past, run.session.persist);
    if let Some(hooks) = outside {
        hooks.begin(opened.id, Some(session.dir()), &run.project.cwd);
    }
    opened
}

/// Everything that a session needs besides the model, made before the session is opened.
struct SessionParts {
    guard: Guard,
    sandbox: Option<Arc<becket_sandbox::Sandbox>>,
    skills: Arc<Skills>,
    programs: Programs,
    shell: Arc<Shell>,
    edit_hook: Arc<dyn EditHook>,
    engine: Option<becket_hooks::Engine>,
    agent_servers: AgentServers,
    subagents: Arc<[Kind]>,
    tools: Registry,
    /// The instruction in the system prompt about the form of the answer (`--json-schema`).
    instruction: Option<String>,
    /// The context window leaves no room for all tools.
    is_small: bool,
}

impl SessionParts {
    /// Puts into the settings of the agent all that it needs to know about these parts.
    fn describe_in(
        &self,
        settings: &mut AgentSettings,
        environment: &Environment,
        run: &RunSettings,
        model: &ModelInfo,
    ) {
        settings.session.skills = self.skills.iter().map(|s| s.name.clone()).collect();
        settings.prompt.skills = skill_catalog(&self.skills, run, model, &self.tools);
        settings.prompt.answer.clone_from(&self.instruction);
        settings.prompt.brief = self.is_small;
        settings.subagents = Arc::clone(&self.subagents);
        settings.hooks.engine = self.engine.as_ref().map(hooks::for_agent);
        let (cwd, sources) = (&run.project.cwd, run.settings.sources);
        settings.hooks.files = hooks::settings_files(environment, cwd, sources, self.engine.as_ref());
        settings.tools.edit_hook = Some(Arc::clone(&self.edit_hook));
        let sandbox = self.sandbox.clone();
        settings.tools.confinement =
            sandbox.map(|sandbox| crate::sandbox::session_confinement(sandbox, environment, run));
    }
}

/// Makes the guard, the hooks and the tools of a session. Adds notes for the user.
fn equip(
    environment: &Environment,
    run: &RunSettings,
    own: &mut SessionAgents,
    model: &ModelInfo,
    notes: &mut Vec<String>,
) -> Result<SessionParts, Failure> {
    let (config, project) = (&run.settings.config, &run.project);
    let sandbox = crate::sandbox::sandbox(environment, config, &project.roots).map(Arc::new);
    notes.extend(crate::sandbox::invalid_hosts_note(&config.tools.sandbox));
    let guard = session_guard(environment, run, sandbox.as_ref(), own.main())?;
    if matches!(guard.mode(), PermissionMode::Auto | PermissionMode::AcceptEdits) {
        notes.extend(guard.wide_workspace());
    }
    let skills = offered_skills(environment, run);
    notes.extend(skills.warnings().iter().cloned());
    own.agents.load_skills(&skills);
    notes.extend(own.take_notes());
    notes.extend(own.note_about_place(environment, &project.cwd).filter(|_| !project.trust_content));
    let programs =
        crate::sandbox::programs(environment, &config.tools.sandbox, sandbox.as_ref(), &project.roots);
    let spill = run.session.persist.then(|| environment.data_dir.join("spill"));
    let shell = toolbox::shell(environment, config, spill, sandbox.clone());
    let integrations = integrations::build(environment, config, &project.roots, programs.clone());
    notes.extend(integrations.notes);
    let trust = ContentTrust::for_project(environment, &project_root(&project.cwd), project.trust_content);
    let engine = hook_engine(environment, run, (own, &skills), &trust, &programs, notes)?;
    let of_agents = crate::mcp::agent_servers(environment, &project.cwd, &own.agents.all, &trust);
    crate::settings::claude::note_unused(
        environment,
        &project_root(&project.cwd),
        run.settings.sources,
        &trust,
    );
    notes.extend(trust.note());
    let subagents: Arc<[Kind]> = own.kinds(run.prompts.append_to_subagents.as_deref()).into();
    let answer = AnswerForm::for_run(run);
    let parts = ToolParts {
        environment,
        run,
        guard: &guard,
        session_agents: own,
        subagents: &subagents,
        skills: &skills,
        engine: engine.as_ref(),
        shell: &shell,
        model,
    };
    let tools = parts.registry(integrations.tools, answer.tool, notes)?;
    let is_small = parts.window_is_small();
    let (edit_hook, instruction) = (integrations.hook, answer.instruction);
    Ok(SessionParts {
        guard,
        sandbox,
        skills,
        programs,
        shell,
        edit_hook,
        engine,
        agent_servers: of_agents,
        subagents,
        tools,
        instruction,
        is_small,
    })
}

/// Closes a session that does not begin, and removes it if it is new.
async fn abandon(session: Session, opened: &OpenedSession, mcp: Option<&becket_mcp::Hub>) {
    // The session must be dropped first: a session that is still open would not be removed.
    drop(session);
    discard_if_unused(opened.new_session_dir.as_deref());
    if let Some(mcp) = mcp {
        mcp.stop().await;
    }
}

/// Makes the guard of the session. It allows the session's own agent to change the folder of its memory.
fn session_guard(
    environment: &Environment,
    run: &RunSettings,
    sandbox: Option<&Arc<becket_sandbox::Sandbox>>,
    main: Option<&Kind>,
) -> Result<Guard, Failure> {
    let rules = crate::sandbox::rules(&run.settings.config.tools.sandbox, sandbox);
    let mut guard = crate::guard::guard(environment, run)?.with_sandbox(rules);
    for rule in main.map(Kind::memory_rules).unwrap_or_default() {
        // If no rule can name the folder, the guard asks before the agent changes its memory.
        let _ = guard.allow_for_session(&rule);
    }
    Ok(guard)
}

/// Makes the hooks of the session, if there are any or a program may add some. `bearers`: agents and skills, which may have
/// hooks of their own.
fn hook_engine(
    environment: &Environment,
    run: &RunSettings,
    bearers: (&SessionAgents, &Skills),
    trust: &ContentTrust,
    programs: &Programs,
    notes: &mut Vec<String>,
) -> Result<Option<becket_hooks::Engine>, Failure> {
    let project = &run.project;
    let bearers = hooks::HookSources { agents: &bearers.0.agents.all, skills: Some(bearers.1) };
    let found = hooks::groups(environment, &project.cwd, &run.settings, trust, bearers);
    let (groups, odd) = found.into_result()?;
    notes.extend(odd);
    let needed = run.is_driven() || !groups.is_empty();
    Ok(needed.then(|| {
        hooks::engine(environment, &run.settings, (&project.cwd, &project.roots), groups, programs.clone())
    }))
}

/// Returns the settings that depend on the run, the session, and the agent that the session runs as.
fn session_settings(
    environment: &Environment,
    run: &RunSettings,
    own: &SessionAgents,
    resumed: bool,
) -> AgentSettings {
    let mut settings = agent_settings(environment, run);
    settings.session.resumed = resumed;
    settings.session.forked = run.is_forked();
    settings.session.cleared = run.session.cleared;
    settings.hooks.agent = own.main().map(|kind| HookAgent { id: None, kind: kind.name.clone() });
    settings.prompt.agent = own.main().map(Kind::session_prompt).filter(|text| !text.is_empty());
    settings.session.states.extend(own.state().filter(|_| run.command.is_none()));
    settings
}

/// Returns the notes that are known before anything is opened.
fn initial_notes(environment: &Environment, run: &RunSettings, remembered: Vec<String>) -> Vec<String> {
    let mut notes = crate::shown_warnings::warnings(environment, run);
    notes.extend(environment.notes.iter().cloned());
    if run.project.trusted {
        notes.extend(crate::trust::note_about_links(&project_root(&run.project.cwd), &run.project.cwd));
    }
    notes.extend(remembered);
    notes.extend(project_model(run));
    notes
}

/// Returns the skills of the folder, or those of them that the run names.
fn offered_skills(environment: &Environment, run: &RunSettings) -> Arc<Skills> {
    let project = &run.project;
    let mut skills = toolbox::skills(environment, &project.cwd, &run.settings.config, project.trusted);
    if let Some(only) = &run.additions.only_skills {
        skills.keep_named(only);
    }
    Arc::new(skills)
}

/// Returns the list of skills for the system prompt, if the model can load them; those that fit the run's prompt come first.
fn skill_catalog(skills: &Skills, run: &RunSettings, model: &ModelInfo, tools: &Registry) -> Option<String> {
    if !tools.names().iter().any(|name| name == "skill") {
        return None;
    }
    // 2 % of the context window, at about four characters a token.
    let chars = (model.window / 50 * 4).min(becket_tool_skill::CATALOG_CHARS as u64);
    skills.catalog(chars as usize, run.task.prompt.as_deref().unwrap_or_default())
}

/// Returns the names of the skills that a continued session has loaded.
fn active_skills(state: Option<&serde_json::Value>) -> Vec<String> {
    let list = state.and_then(|state| state.as_array()).into_iter().flatten();
    list.filter_map(|skill| skill.get("name")?.as_str().map(str::to_owned)).collect()
}

/// Returns a note with the model if the project chose it. In a headless run nobody was asked about the project's
/// settings.
fn project_model(run: &RunSettings) -> Option<String> {
    let Source::Project(file) = run.settings.source("model") else { return None };
    let model = run.settings.config.model.name.as_deref().filter(|_| !run.interactive)?;
    Some(format!("the model {model} is the choice of {}; --model names another one", file.display()))
}

fn offers(settings: &AgentSettings, skills: &Skills) -> Offers {
    let compact = (
        "compact".to_owned(),
        "Compact the session, with an optional focus".to_owned(),
        "[focus]".to_owned(),
    );
    let of_skills = skills.iter().filter(|skill| skill.user_invocable).map(|skill| {
        let hint = skill.argument_hint.clone().unwrap_or_default();
        (skill.name.clone(), skill.description.clone(), hint)
    });
    Offers {
        agents: settings.subagents.iter().map(|kind| (kind.name.clone(), kind.description.clone())).collect(),
        commands: std::iter::once(compact).chain(of_skills).collect(),
        api_key_source: settings.session.api_key_source.clone(),
    }
}

/// Returns notes for system prompt flags without effect: a continued session keeps the system prompt that it began
/// with.
fn unused_prompts(run: &RunSettings, kept: &[SystemItem]) -> Vec<String> {
    let given = [(&run.prompts.replace, "--system-prompt"), (&run.prompts.append, "--append-system-prompt")];
    let unused = given.into_iter().filter(|(text, _)| {
        text.as_ref().is_some_and(|text| !kept.iter().any(|item| item.text.contains(text.as_str())))
    });
    unused
        .map(|(_, flag)| {
            format!("{flag} has no effect on a continued session, which keeps its system prompt")
        })
        .collect()
}

/// Returns a function that opens another model by its name.
pub(crate) fn finder(settings: SharedModels, aliases: Aliases, tape: Option<Tape>) -> FindModel {
    Arc::new(move |name: &str| -> Result<Arc<dyn Model>, String> {
        let settings = settings.read().unwrap_or_else(PoisonError::into_inner);
        let found = model_names::find(name, &aliases, &settings);
        let reference = found
            .map_err(|failure| match failure.hint {
                Some(hint) if failure.message.ends_with(['.', '?']) => format!("{} {hint}", failure.message),
                Some(hint) => format!("{}; {hint}", failure.message),
                None => failure.message,
            })?
            .reference;
        let model = becket_model::open(&reference, &settings).map_err(|e| e.message)?;
        Ok(match &tape {
            Some(tape) => tape.model(model, settings.endpoint(reference.provider())),
            None => model,
        })
    })
}

/// Removes a finished session in which nothing happened.
pub(crate) fn discard_if_unused(begun: Option<&Path>) {
    if let Some(dir) = begun {
        // A session that cannot be deleted stays, since an empty one does no harm.
        let _ = store::trash::discard_unused(store::Outside::default().io.as_ref(), dir);
    }
}
