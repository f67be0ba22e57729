//! Wiring: builds an agent from settings, a session, a model, tools and a guard.

mod agent_settings;

use crate::agents::{Definition, SessionAgents};
use crate::args::InputFormat;
use crate::chosen::{self, Chosen};
use crate::cmd::{newest, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::hooks;
use crate::integrations;
use crate::locked::{self, FirstRequest};
use crate::models;
use crate::providers;
use crate::remembered::Remembered;
use crate::settings::{Fork, RunSettings, SessionChoice};
use crate::settings::{policy, project_root};
use crate::structured::StructuredOutput;
use crate::toolbox;
use crate::trust::content::ContentTrust;
use agent_settings::agent_settings;
use becket_agent::prompt;
use becket_agent::rules::RulesSettings;
use becket_agent::subagent::{Kind, TASK, TaskTool};
use becket_agent::{Agent, AgentHandle, AgentParts, AgentSettings, FindModel, HookAgent, HookSettings};
use becket_config::Source;
use becket_model::{Model, ModelInfo, ModelRef, Tape};
use becket_sandbox::Programs;
use becket_session::context::budget::Budget;
use becket_session::context::{ModelScope, Policy};
use becket_session::store::{self, SessionSummary};
use becket_session::{CreateOptions, Session, StoreError, ledger};
use becket_tool::{Registry, Tool};
use becket_tool_shell::Shell;
use becket_tool_skill::{SkillTool, Skills};
use becket_types::{Blobs, MessageId, SessionId, SystemItem, ToolSpec, TurnState, Used};
use std::collections::BTreeSet;
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
    pub hooks: Option<becket_hooks::Engine>,
    /// Settings with which models are opened. A changed key is used for the next model that is opened.
    pub models: SharedModels,
    pub offers: Offers,
}

/// The agent's session, as it was when it was opened.
pub(crate) struct OpenedSession {
    pub id: SessionId,
    /// The folder of a continued session, which holds its earlier messages.
    pub past: Option<PathBuf>,
    /// The folder of a new session that is kept.
    pub begun: Option<PathBuf>,
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
    /// `persist`: a new session is kept.
    fn of(session: &Session, resumed: bool, persist: bool) -> Self {
        let view = session.view();
        // Prompts waiting in the session's inbox also count as an unfinished turn.
        let waits = view.state("inbox").and_then(|value| value.as_array()).is_some_and(|l| !l.is_empty());
        let dir = || session.dir().to_owned();
        Self {
            id: session.info().id,
            past: resumed.then(dir),
            begun: (persist && !resumed).then(dir),
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
    usable: u64,
}

impl Opening {
    fn of(settings: &AgentSettings, info: &ModelInfo, tools: &Registry, agents: Vec<Definition>) -> Self {
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
        }
    }

    /// Returns the system prompt, with the rules files as they are on disk now. Blocks.
    pub(crate) fn items(&self) -> Vec<SystemItem> {
        becket_agent::rules::opening(self.prompt.clone(), &self.cwd, &self.rules, self.usable)
    }
}

/// Builds the agent of a run. If the run continues a session, `run` gets the settings that the session keeps from
/// earlier runs.
///
/// # Errors
///
/// Returns a failure for the user if the session, the model, the guard or a tool cannot be made.
pub(crate) async fn assemble(environment: &Environment, run: &mut RunSettings) -> Result<Assembled, Failure> {
    let configured = run.settings.clone();
    let existing = existing(environment, run)?;
    let mut notes = Vec::new();
    let mut kept = None;
    if let Some(existing) = &existing {
        notes.extend(existing.note.clone());
        kept.clone_from(&existing.remembered.agent);
        notes.extend(existing.remembered.clone().apply(&mut run.settings));
    }
    let (cwd, trusted) = (run.project.cwd.clone(), run.project.trusted);
    let agents =
        SessionAgents::new(environment, &cwd, trusted, &run.additions.agents, kept, &mut run.settings);
    let assembled = match agents {
        Ok(agents) => assembled(environment, run, existing, agents, notes).await,
        Err(failure) => Err(failure),
    };
    run.settings = configured;
    assembled
}

async fn assembled(
    environment: &Environment,
    run: &RunSettings,
    existing: Option<Existing>,
    mut own: SessionAgents,
    remembered: Vec<String>,
) -> Result<Assembled, Failure> {
    let config = &run.settings.config;
    let mut notes = first_notes(environment, run, remembered);
    let mut model_settings = models::model_settings(environment, &run.settings);
    let asks_no_model = run.command.as_ref().is_some_and(|command| command.asks_no_model);
    let Chosen { reference, model, fallbacks, auxiliary, tape, date, notes: about_models } =
        chosen::open(environment, run, &mut model_settings).await?;
    notes.extend(about_models);
    let sandbox = crate::sandbox::sandbox(environment, &config.sandbox, &run.project.roots).map(Arc::new);
    let mut guard = crate::guard::guard(environment, run)?
        .with_sandbox(crate::sandbox::rules(&config.sandbox, sandbox.as_ref()));
    for rule in own.main().map(Kind::memory_rules).unwrap_or_default() {
        // A folder that no rule can name is asked about.
        let _ = guard.allow_for_session(&rule);
    }
    let skills = offered_skills(environment, run);
    notes.extend(skills.warnings().iter().cloned());
    own.agents.load_skills(&skills);
    notes.append(&mut own.agents.warnings);
    let spill = run.session.persist.then(|| environment.data_dir.join("spill"));
    let programs =
        crate::sandbox::programs(environment, &config.sandbox, sandbox.as_ref(), &run.project.roots);
    let shell = toolbox::shell(environment, config, spill, sandbox);
    let integrations = integrations::build(environment, config, &run.project.roots, programs.clone());
    notes.extend(integrations.notes);
    let trust = ContentTrust::of(environment, &project_root(&run.project.cwd), run.project.trust_content);
    let bearers = hooks::Bearers { agents: &own.agents.all, skills: Some(&skills) };
    let (groups, odd) = hooks::groups(environment, &run.project.cwd, &run.settings, &trust, bearers);
    notes.extend(odd);
    let driven = run.client.input == InputFormat::StreamJson;
    let engine = (driven || !groups.is_empty())
        .then(|| hooks::engine(environment, &run.project.cwd, &run.project.roots, groups, programs.clone()));
    let of_agents = crate::mcp::of_agents(environment, &run.project.cwd, &own.agents.all, &trust);
    notes.extend(trust.note());
    let subagents: Arc<[Kind]> = own.kinds().into();
    let task: Arc<dyn Tool> = Arc::new(TaskTool::new(Arc::clone(&subagents)));
    // The tool would change the tools of the session's first request. So a run that continues a session states the
    // schema after the prompt instead.
    let answer =
        run.output.schema.clone().filter(|_| driven || !run.goes_on()).and_then(StructuredOutput::new);
    let mut settings_answer = run.output.schema.as_deref().map(becket_print::Schema::instruction);
    if answer.is_some() {
        settings_answer = Some(ANSWER.to_owned());
    }
    let named = answer.map(|tool| Arc::new(tool) as Arc<dyn Tool>);
    let more = integrations.tools.into_iter().chain([task]).collect();
    let skill = skill_tool(environment, run, &skills, engine.clone());
    let (mut tools, unknown) =
        toolbox::registry(config, skill, &shell, &model.info().name, more, run.client.driven)?;
    notes.extend(unknown);
    if let Some(tool) = named {
        tools.add(tool).map_err(|e| Failure::error(e.to_string()))?;
    }
    // Checks names of tools that are switched off or not offered as well, because a rule for such a tool is not a
    // mistake.
    notes.extend(guard.warnings(&|| {
        let all: BTreeSet<String> =
            toolbox::specs().into_iter().map(|tool| tool.name).chain(tools.all_names()).collect();
        all.into_iter().collect()
    }));
    let window = config.context.window.unwrap_or(model.info().window);
    let is_small = window <= toolbox::SMALL_WINDOW;
    if is_small {
        toolbox::fit_small_window(&mut tools, config);
    }
    let removed = guard.removed_tools(&tools.all_names());
    tools.retain(|name| {
        let is_removed = removed.iter().any(|r| r == name) || name == TASK && subagents.is_empty();
        !is_removed && own.main().is_none_or(|kind| kind.offers(name))
    });

    if let Some(recorded) = run.files.replay.as_ref().and_then(|replay| replay.recorded.as_ref()) {
        recorded.answer_for(&mut tools);
    }

    let mut policy = policy(config);
    policy.protect.extend(tools.protected());
    // The session is created last, so a run that is refused leaves none behind.
    let window = model.info().window;
    let started = crate::mcp::start(environment, run, &programs, window, of_agents, &mut notes).await?;
    let mcp = started.hub;
    let session = session(environment, run, existing, policy, becket_agent::scope(model.info()));
    if let (Err(_), Some(mcp)) = (&session, &mcp) {
        mcp.stop().await;
    }
    let (session, resumed) = session?;
    if run.goes_on() {
        notes.extend(unused_prompts(run, session.view().system_items()));
    }
    let opened = OpenedSession::of(&session, resumed, run.session.persist);
    let active_skills = active_skills(session.view().state("skills"));
    let mut settings = agent_settings(environment, run);
    settings.session.resumed = resumed;
    settings.session.api_key_source = providers::key_origin(&reference, &run.settings);
    settings.session.skills = skills.iter().map(|s| s.name.clone()).collect();
    settings.requests.summaries = !asks_no_model;
    settings.subagents = subagents;
    settings.hooks = HookSettings {
        engine: engine.as_ref().map(hooks::for_agent),
        agent: own.main().map(|kind| HookAgent { id: None, kind: kind.name.clone() }),
    };
    settings.tools.edit_hook = Some(integrations.hook);
    settings.tools.source =
        mcp.clone().map(|hub| own.own_tools(Arc::new(becket_mcp::HubTools(hub)), &started.of_agents));
    settings.prompt.answer = settings_answer;
    settings.prompt.brief = is_small;
    if let Some(date) = date {
        settings.environment.date = date;
    }
    settings.prompt.agent = own.main().map(Kind::session_prompt).filter(|text| !text.is_empty());
    settings.session.states.extend(own.state().filter(|_| run.command.is_none()));
    let offers = offers(&settings, &skills);
    if tools.names().iter().any(|name| name == "skill") {
        // 2 % of the context window, at about four characters a token.
        let chars = (model.info().window / 50 * 4).min(becket_tool_skill::CATALOG_CHARS as u64);
        settings.prompt.skills =
            skills.catalog(chars as usize, run.task.prompt.as_deref().unwrap_or_default());
    }
    let opening = Opening::of(&settings, model.info(), &tools, own.agents.all.clone());
    let first = || FirstRequest { model: &opening.model, tools: &opening.tools, prompt: opening.items() };
    if let Some(file) = &run.files.locked
        && let Err(failure) = locked::check(file, run, &first())
    {
        // A session is removed only when nothing holds it.
        drop(session);
        leave(opened.begun.as_deref());
        if let Some(mcp) = mcp {
            mcp.stop().await;
        }
        return Err(failure);
    }
    let models: SharedModels = Arc::new(RwLock::new(model_settings));
    let find_model = finder(Arc::clone(&models), tape);
    if let Some(engine) = &engine {
        let judge = hooks::Judge {
            model: Arc::clone(&model),
            find: Arc::clone(&find_model),
            blobs: Arc::clone(&opened.blobs),
            guard: guard.clone(),
            roots: run.project.roots.clone(),
            environment: settings.environment.clone(),
        };
        connect_hooks(engine, &active_skills, mcp.clone(), judge);
    }
    let (agent, handle) = Agent::new(AgentParts {
        session,
        model,
        auxiliary,
        fallback_models: fallbacks,
        cache: crate::settings::cache(&run.settings.config),
        find_model: Some(find_model),
        tools,
        guard,
        settings,
    });
    Ok(Assembled {
        agent,
        handle,
        shell,
        programs,
        mcp,
        notes,
        session: opened,
        opening,
        hooks: engine,
        offers,
        models,
    })
}

/// Returns the notes that are known before anything is opened.
fn first_notes(environment: &Environment, run: &RunSettings, remembered: Vec<String>) -> Vec<String> {
    let mut notes: Vec<String> = run.settings.warnings.iter().map(ToString::to_string).collect();
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
        skills.retain(|skill| only.contains(&skill.name));
    }
    Arc::new(skills)
}

fn skill_tool(
    environment: &Environment,
    run: &RunSettings,
    skills: &Arc<Skills>,
    engine: Option<becket_hooks::Engine>,
) -> SkillTool {
    let mut skill = SkillTool::new(Arc::clone(skills));
    if run.session.persist {
        skill = skill.recorded_in(toolbox::skill_uses(environment));
    }
    if let Some(engine) = engine {
        skill = skill.informing(Arc::new(move |name: &str| engine.skill_loaded(name)));
    }
    skill
}

/// Gives the hooks what they need of the session: its active skills, the tools of servers, and a model to ask.
fn connect_hooks(
    engine: &becket_hooks::Engine,
    active_skills: &[String],
    mcp: Option<Arc<becket_mcp::Hub>>,
    judge: hooks::Judge,
) {
    for skill in active_skills {
        engine.skill_loaded(skill);
    }
    if let Some(hub) = mcp {
        engine.set_call_tool(hooks::call_tool(hub));
    }
    engine.set_ask(judge.asked());
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
    let model = run.settings.config.model.as_deref().filter(|_| !run.interactive)?;
    Some(format!("the model {model} is the choice of {}; --model names another one", file.display()))
}

/// The end of the system prompt if the answer goes through [`StructuredOutput`].
const ANSWER: &str = "When the task is done, call the StructuredOutput tool once with the answer. Its input schema is the \
required form; the user reads nothing else.";

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
fn finder(settings: SharedModels, tape: Option<Tape>) -> FindModel {
    Arc::new(move |name: &str| -> Result<Arc<dyn Model>, String> {
        let reference = ModelRef::parse(&models::full_name(name)).map_err(|e| e.message)?;
        let settings = settings.read().unwrap_or_else(PoisonError::into_inner);
        let model = becket_model::open(&reference, &settings).map_err(|e| e.message)?;
        Ok(match &tape {
            Some(tape) => tape.model(model, settings.endpoint(reference.provider())),
            None => model,
        })
    })
}

/// Removes a finished session in which nothing happened.
pub(crate) fn leave(begun: Option<&Path>) {
    if let Some(dir) = begun {
        // A session that cannot be deleted stays, since an empty one does no harm.
        let _ = store::trash::discard_unused(store::Outside::default().io.as_ref(), dir);
    }
}

/// The session that the run continues, and the settings it keeps from earlier runs.
struct Existing {
    remembered: Remembered,
    from: From,
    /// A note for the user about how the session was found.
    note: Option<String>,
}

#[expect(clippy::large_enum_variant, reason = "one value for a start, and it moves once")]
enum From {
    /// The session itself, open for writing.
    Opened(Box<Session>),
    /// A copy is to be made of this session.
    Copied(SessionSummary, Fork),
}

/// Finds the session to continue, and opens it unless a copy is wanted. The model is chosen later, so scope and policy
/// are set later as well.
fn existing(environment: &Environment, run: &RunSettings) -> Result<Option<Existing>, Failure> {
    let root = environment.sessions_dir();
    let mut note = None;
    let (summary, fork) = match &run.session.choice {
        SessionChoice::New { .. } => return Ok(None),
        SessionChoice::Continue { fork } => {
            let found = newest(environment, &run.project.cwd).ok_or_else(|| {
                Failure::usage(format!("there is no session of {} to continue", run.project.cwd.display()))
                    .hint("becket sessions --all lists those of other directories")
            })?;
            note = found.note;
            (found.session, *fork)
        }
        SessionChoice::Resume { query, fork } => {
            let found = store::find(&root, query, Some(&run.project.cwd));
            let is_missing = matches!(found, Err(StoreError::NotFound { .. })) && run.session.persist;
            let imported =
                is_missing.then(|| crate::claude_session::import(environment, &run.project.cwd, query));
            match imported.transpose()?.flatten() {
                Some((summary, why)) => {
                    note = why;
                    (summary, *fork)
                }
                None => (found.map_err(store_failure)?, *fork),
            }
        }
    };
    if let Some(fork) = fork {
        let remembered = Remembered::of_ledger(&summary.dir);
        return Ok(Some(Existing { remembered, from: From::Copied(summary, fork), note }));
    }
    let policy = policy(&run.settings.config);
    let scope = becket_agent::scope(&becket_model::catalog::lookup("unknown", "unknown"));
    let opened = match Session::open(&summary.dir, policy.clone(), scope.clone()) {
        Err(StoreError::Locked { .. }) if run.session.take_over => {
            ledger::take_over(store::Outside::default().io.as_ref(), &summary.dir)
                .and_then(|()| Session::open(&summary.dir, policy, scope))
        }
        opened => opened,
    };
    let session = opened.map_err(store_failure)?;
    let remembered = Remembered::of_view(session.view());
    Ok(Some(Existing { remembered, from: From::Opened(Box::new(session)), note }))
}

/// Opens or creates the session of the run. Returns true if it existed before.
fn session(
    environment: &Environment,
    run: &RunSettings,
    existing: Option<Existing>,
    policy: Policy,
    scope: ModelScope,
) -> Result<(Session, bool), Failure> {
    let root = environment.sessions_dir();
    let create = |id| CreateOptions {
        id,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        persist: run.session.persist,
        ..CreateOptions::default()
    };
    match (existing.map(|existing| existing.from), &run.session.choice) {
        (Some(From::Opened(mut session)), _) => {
            session.view_mut().set_policy(policy);
            session.view_mut().set_scope(scope);
            Ok((*session, true))
        }
        (Some(From::Copied(summary, fork)), _) => {
            Session::fork(&summary.dir, None, &root, &run.project.cwd, create(fork.id), policy, scope)
                .map(|s| (s, true))
                .map_err(store_failure)
        }
        (None, SessionChoice::New { id }) => {
            Session::create(&root, &run.project.cwd, create(*id), policy, scope)
                .map(|s| (s, false))
                .map_err(store_failure)
        }
        (None, _) => Err(Failure::error("a session was chosen and not found")),
    }
}
