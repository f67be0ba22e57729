//! The hooks of a run: found in becket's configuration, in `.claude/settings.json`, and in the frontmatter of agents and
//! skills, trusted by content if the project brings them, and passed to the agent.
//!
//! If no hook is configured, no engine is created. `becket_hooks` defines what a hook means.

mod exports;
mod judge;
mod outside;

use crate::agents::{DefinedIn, Definition};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::project_root;
use crate::trust::content::{ContentTrust, Item};
use crate::trust::scripts::{CommandEnvironment, ProjectCommand, with_scripts};
use becket_agent::SettingsFile;
use becket_agent::hooks::Hooks;
use becket_config::{Scope, SettingSources, Settings, Source as ConfigSource};
use becket_hooks::{
    Ask, CallTool, Engine, EngineSettings, Group, Kind, MatchesRule, Origin, Parsed, Source, Within,
};
use becket_sandbox::Programs;
use becket_tool_skill::Skills;
use becket_types::{HookCall, HookEvent, HookOutcome};
pub(crate) use exports::into_shell;
use futures::future::BoxFuture;
pub(crate) use judge::Judge;
pub(crate) use outside::{HookedAsk, OutsideHooks};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A `hooks` table and its origin.
#[derive(Clone, Debug)]
pub(crate) struct HookTable {
    pub source: Source,
    pub value: Value,
    /// The agent or the skill whose frontmatter has the table. Its hooks run only for that agent or skill.
    pub within: Option<Within>,
    /// Further environment variables of the hooks' commands, such as the folder of a plugin.
    pub variables: Vec<(String, String)>,
    /// True for becket's own configuration, in which a mistake ends the run. Other programs' files may have hooks that
    /// becket does not know, so a mistake there is only a warning.
    pub is_becket_config: bool,
}

impl HookTable {
    pub(crate) fn parse(&self) -> Parsed {
        let mut parsed = becket_hooks::parse(&self.value, &self.source);
        for handler in parsed.groups.iter_mut().flat_map(|group| &mut group.handlers) {
            handler.variables.clone_from(&self.variables);
        }
        match &self.within {
            Some(within) => parsed.within(within),
            None => parsed,
        }
    }
}

/// Parts of a session that may have hooks in their frontmatter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HookSources<'a> {
    pub agents: &'a [Definition],
    pub skills: Option<&'a Skills>,
}

/// All tables that were found, and what could not be read.
#[derive(Debug, Default)]
pub(crate) struct HookSearch {
    pub found: Vec<HookTable>,
    pub warnings: Vec<String>,
    /// Mistakes that end the run.
    pub faults: Vec<String>,
}

/// Adapts the engine to the agent's interface.
#[derive(Debug)]
struct Adapter(Engine);

impl Hooks for Adapter {
    fn listens(&self, event: HookEvent) -> bool {
        self.0.listens(event)
    }

    fn status(&self, call: &HookCall) -> Option<Option<String>> {
        self.0.status(call)
    }

    fn run(&self, call: HookCall) -> BoxFuture<'static, HookOutcome> {
        self.0.run(call)
    }
}

/// Wraps an engine for the agent.
pub(crate) fn for_agent(engine: &Engine) -> Arc<dyn Hooks> {
    Arc::new(Adapter(engine.clone()))
}

/// Returns the files of settings that the run reads, whether they exist or not. Empty if no hook is to be told of changes.
pub(crate) fn settings_files(
    environment: &Environment,
    cwd: &Path,
    sources: SettingSources,
    engine: Option<&Engine>,
) -> Vec<SettingsFile> {
    if !engine.is_some_and(|engine| engine.listens(HookEvent::ConfigChange)) {
        return Vec::new();
    }
    let name = |scope| match scope {
        Scope::User => "user_settings",
        Scope::Project => "project_settings",
        Scope::Local => "local_settings",
        Scope::Managed => "policy_settings",
    };
    let places = crate::settings::places(environment, cwd);
    let own =
        [Scope::User, Scope::Project, Scope::Local, Scope::Managed].map(|scope| (scope, places.path(scope)));
    let claude = crate::settings::claude::files(environment, &places.project, sources);
    let all = own.into_iter().filter(|(scope, _)| sources.reads(*scope)).chain(claude);
    all.map(|(scope, path)| SettingsFile::new(name(scope), path)).collect()
}

/// Looks for hooks in all settings that the run reads.
pub(crate) fn search(
    environment: &Environment,
    cwd: &Path,
    settings: &Settings,
    bearers: HookSources<'_>,
) -> HookSearch {
    let root = project_root(cwd);
    let mut out = HookSearch::default();
    let disabled = settings.config.hooks.disabled;
    if disabled && matches!(settings.source("disable_all_hooks"), ConfigSource::Managed(_)) {
        return out;
    }
    for (source, value) in &settings.hooks {
        let (origin, place) = match source {
            ConfigSource::Managed(path) => (Origin::Managed, relative_name(path, &root)),
            ConfigSource::Project(path) => (Origin::Project, relative_name(path, &root)),
            ConfigSource::Local(path) => (Origin::Local, relative_name(path, &root)),
            ConfigSource::Settings(label) => (Origin::Flag, label.clone()),
            ConfigSource::User(path) => (Origin::User, relative_name(path, &root)),
            _ => continue,
        };
        out.found.push(HookTable {
            source: source_at(origin, place),
            value: value.clone(),
            within: None,
            variables: Vec::new(),
            is_becket_config: true,
        });
    }
    let sources = settings.sources;
    let home = environment.claude_dir().map(|dir| dir.join("settings.json"));
    let managed = crate::settings::claude::managed_files().into_iter();
    let claude = [
        (Origin::User, sources.user, home),
        (Origin::Project, sources.project, Some(root.join(".claude/settings.json"))),
        (Origin::Local, sources.local, Some(root.join(".claude/settings.local.json"))),
    ];
    for (origin, read, path) in managed.map(|path| (Origin::Managed, true, Some(path))).chain(claude) {
        let Some(path) = path.filter(|_| read) else { continue };
        // Reading the run's settings has already checked that only the administrator can change the managed file.
        match read_claude_hooks(&path) {
            Ok(None) => {}
            Ok(Some(value)) => {
                let source = source_at(origin, relative_name(&path, &root));
                out.found.push(HookTable {
                    source,
                    value,
                    within: None,
                    variables: Vec::new(),
                    is_becket_config: false,
                });
            }
            Err(why) => out.warnings.push(format!("{why}; its hooks are not used")),
        }
    }
    for plugin in environment.plugins.iter() {
        for value in plugin.hook_tables() {
            let source = Source { origin: Origin::Plugin, place: plugin.name.clone(), confined: false };
            out.found.push(HookTable {
                source,
                value,
                within: None,
                variables: plugin.variables(),
                is_becket_config: false,
            });
        }
    }
    out.found.extend(frontmatter_hooks(&root, bearers));
    if disabled || settings.managed_limits.only_hooks {
        // Only the administrator switches off the administrator's hooks.
        out.found.retain(|found| found.source.origin == Origin::Managed);
    }
    out
}

/// Returns the hooks of agents and skills.
fn frontmatter_hooks(root: &Path, bearers: HookSources<'_>) -> Vec<HookTable> {
    let agents = bearers.agents.iter().filter_map(|definition| {
        let name = definition.kind.name.clone();
        let place = match &definition.place {
            DefinedIn::User(path) | DefinedIn::Project(path) => relative_name(path, root),
            DefinedIn::Given | DefinedIn::BuiltIn => name.clone(),
        };
        let confined = definition.is_of_project();
        let source = Source { origin: Origin::Agent, place, confined };
        let within = Some(Within::Agent(name));
        Some(HookTable {
            source,
            value: definition.hooks.clone()?,
            within,
            variables: Vec::new(),
            is_becket_config: false,
        })
    });
    let skills = bearers.skills.iter().flat_map(|skills| skills.iter()).filter_map(|skill| {
        let place = skill.file().map_or_else(|| skill.name.clone(), |file| relative_name(file, root));
        let source = Source {
            origin: Origin::Skill,
            place,
            confined: skill.scope == becket_tool_skill::Scope::Project,
        };
        let within = Some(Within::Skill(skill.name.clone()));
        Some(HookTable {
            source,
            value: skill.hooks.clone()?,
            within,
            variables: Vec::new(),
            is_becket_config: false,
        })
    });
    agents.chain(skills).collect()
}

fn source_at(origin: Origin, place: String) -> Source {
    let confined = matches!(origin, Origin::Project | Origin::Local);
    Source { origin, place, confined }
}

fn relative_name(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Returns the `hooks` of a settings file of Claude Code. Comments and trailing commas are allowed. The error names the file.
fn read_claude_hooks(path: &Path) -> Result<Option<Value>, String> {
    let Some(text) = becket_config::read_text(path).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let settings = becket_config::json_value(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    if settings.get("disableAllHooks") == Some(&Value::Bool(true)) {
        return Ok(None);
    }
    let keys = settings.as_object().into_iter().flatten().map(|(key, _)| key);
    match settings.get("hooks").filter(|hooks| !hooks.is_null()) {
        Some(Value::Object(events)) if events.is_empty() => Ok(None),
        Some(hooks @ Value::Object(_)) => Ok(Some(hooks.clone())),
        Some(_) => Err(format!("{}: `hooks` is not a table of events", path.display())),
        None => match keys.into_iter().find(|key| key.eq_ignore_ascii_case("hooks") && *key != "hooks") {
            Some(key) => Err(format!("{}: {key}: did you mean hooks?", path.display())),
            None => Ok(None),
        },
    }
}

/// Returns the item to be trusted for a `hooks` table of the project.
pub(crate) fn item(environment: &Environment, found: &HookTable, root: &Path, cwd: &Path) -> Item {
    let parsed = found.parse();
    let commands: Vec<ProjectCommand> = parsed
        .groups
        .iter()
        .flat_map(|group| &group.handlers)
        .filter_map(|handler| match &handler.kind {
            Kind::Command { command, args: None } => Some(ProjectCommand::Shell(command.clone())),
            Kind::Command { command, args: Some(args) } => {
                Some(ProjectCommand::Words(std::iter::once(command).chain(args).cloned().collect()))
            }
            _ => None,
        })
        .collect();
    let config = serde_json::to_string_pretty(&found.value).unwrap_or_default();
    let content = with_scripts(&config, &commands, &CommandEnvironment::new(environment, root, cwd));
    Item { kind: "hooks".to_owned(), name: found.source.place.clone(), content }
}

/// Returns the items of the project here that need trust.
pub(crate) fn items(
    environment: &Environment,
    cwd: &Path,
    settings: &Settings,
    bearers: HookSources<'_>,
) -> Vec<Item> {
    let root = project_root(cwd);
    let found = search(environment, cwd, settings, bearers).found;
    let found = found.into_iter().filter(|found| found.source.confined);
    found.map(|found| item(environment, &found, &root, cwd)).collect()
}

/// The hooks that may run.
#[derive(Default)]
pub(crate) struct UsableHooks {
    pub groups: Vec<Group>,
    /// Notes for the user.
    pub warnings: Vec<String>,
    /// Mistakes that end the run, because it would continue without a hook that was meant to guard it.
    pub faults: Vec<String>,
}

impl UsableHooks {
    /// Returns the hooks and the notes.
    ///
    /// # Errors
    ///
    /// Fails if there is a mistake that ends a run.
    pub(crate) fn into_result(self) -> Result<(Vec<Group>, Vec<String>), Failure> {
        if self.faults.is_empty() {
            return Ok((self.groups, self.warnings));
        }
        Err(Failure::usage(self.faults.join("\n"))
            .hint("correct the hook or remove it; a hook that cannot be read guards nothing"))
    }
}

/// Returns the hooks that may run.
pub(crate) fn groups(
    environment: &Environment,
    cwd: &Path,
    settings: &Settings,
    trust: &ContentTrust,
    bearers: HookSources<'_>,
) -> UsableHooks {
    let root = project_root(cwd);
    let HookSearch { found, warnings, faults } = search(environment, cwd, settings, bearers);
    let mut out = UsableHooks { warnings, faults, ..UsableHooks::default() };
    for found in found {
        if found.source.confined {
            let item = item(environment, &found, &root, cwd);
            if !trust.is_trusted(&item.kind, &item.name, &item.content) {
                continue;
            }
        }
        let parsed = found.parse();
        out.groups.extend(parsed.groups);
        out.faults.extend(parsed.faults);
        if found.is_becket_config { &mut out.faults } else { &mut out.warnings }.extend(parsed.warnings);
    }
    out
}

/// Creates an engine for these groups.
pub(crate) fn engine(
    environment: &Environment,
    settings: &Settings,
    (cwd, roots): (&Path, &[PathBuf]),
    groups: Vec<Group>,
    programs: Programs,
) -> Engine {
    // A hook needs the user's own variables, but never a key of becket.
    let keys = crate::providers::key_variables(environment, &settings.config);
    let variables: Vec<(OsString, OsString)> = environment
        .vars
        .iter()
        .filter(|(name, _)| !keys.contains(name.as_str()))
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    Engine::new(
        groups,
        EngineSettings {
            programs,
            variables,
            project: project_root(cwd),
            fits: Some(rule_condition(environment, roots)),
        },
    )
}

/// Returns permission rules as conditions of hooks: a rule fits if it would deny the call.
fn rule_condition(environment: &Environment, roots: &[PathBuf]) -> MatchesRule {
    let (roots, home) = (roots.to_vec(), environment.home.clone().unwrap_or_else(|| PathBuf::from("/")));
    Arc::new(move |rule, tool, input| crate::guard::rule_fits(rule, tool, input, &roots, &home))
}

/// Calls tools of MCP servers for hooks.
pub(crate) fn call_tool(hub: Arc<becket_mcp::Hub>) -> CallTool {
    Arc::new(move |server, tool, input| {
        let hub = Arc::clone(&hub);
        Box::pin(async move { becket_mcp::call_tool(&hub, &server, &tool, input).await })
    })
}

/// Gives the hooks what they need of the session: its active skills, the tools of servers, and a model to ask.
pub(crate) fn connect(
    engine: &Engine,
    active_skills: &[String],
    mcp: Option<Arc<becket_mcp::Hub>>,
    ask: Ask,
) {
    for skill in active_skills {
        engine.skill_loaded(skill);
    }
    if let Some(hub) = mcp {
        engine.set_call_tool(call_tool(hub));
    }
    engine.set_ask(ask);
}
