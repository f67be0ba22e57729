//! MCP servers of a run: where they are configured, which of them may be used, and their start.
//!
//! Owns the files. For one name the nearest entry wins: `--mcp-config`, the user's own for this project, the project's
//! `.mcp.json`, the user's own. A server of `.mcp.json` is used only after the user allowed it. The permission is for
//! its exact text and that of the project's scripts that it runs, so a changed one is asked about again. If nothing is configured, nothing is read or started.

mod plugin_servers;
mod programs;
mod states;

use crate::agents::Definition;
use crate::args::{ConfigArgs, ElicitationArg};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::hooks::{HookedAsk, OutsideHooks};
use crate::providers::{key_variables, variables_for_programs};
use crate::settings::{RunSettings, project_root};
use crate::trust::content::{ContentTrust, Item};
use crate::trust::scripts::{CommandEnvironment, ProjectCommand, with_scripts};
use becket_config::Config;
use becket_mcp::elicitation::{Ask, Elicitation};
use becket_mcp::oauth::TokenStore;
use becket_mcp::{Endpoint, Hub, HubSettings, Proxies, ServerConfig, config};
use becket_sandbox::Programs;
use becket_session::secrets::mask_published;
use programs::project;
pub(crate) use programs::{missing_program, program_line};
use serde_json::{Map, Value, json};
pub(crate) use states::{facts, set_servers, whole_statuses};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Approximate number of bytes of a tool's definition for each token.
const BYTES_PER_TOKEN: u64 = 4;

/// Maximum number of bytes of a file with servers or permissions.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A source of configured servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    User,
    Project,
    Local,
    Flag,
    Plugin,
}

impl Place {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => config::PROJECT,
            Self::Local => "local",
            Self::Flag => "--mcp-config",
            Self::Plugin => "plugin",
        }
    }
}

/// A server and the source of its configuration.
#[derive(Clone, Debug)]
pub(crate) struct Configured {
    pub place: Place,
    pub config: ServerConfig,
    /// False for a project's server that the user has not allowed.
    pub allowed: bool,
}

/// All servers that are configured for a folder, by name, and messages about unusable entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfiguredServers {
    pub servers: BTreeMap<String, Configured>,
    pub problems: Vec<String>,
}

pub(crate) fn user_file(environment: &Environment) -> PathBuf {
    environment.config_dir.join("mcp.json")
}

pub(crate) fn project_file(cwd: &Path) -> PathBuf {
    project_root(cwd).join(".mcp.json")
}

/// Reads every source. `given`: the texts and files of `--mcp-config`; `strict`: only these are used. `everything`: the
/// project's servers are allowed, as `--trust` says.
pub(crate) fn find_servers(
    environment: &Environment,
    cwd: &Path,
    given: &[String],
    strict: bool,
    everything: bool,
) -> Result<ConfiguredServers, Failure> {
    let mut out = ConfiguredServers::default();
    if !strict {
        let user = read_file(&user_file(environment), &mut out.problems);
        if let Some(user) = &user
            && let Some(servers) = user.get("mcpServers")
        {
            out.add(environment, cwd, Place::User, servers, everything);
        }
        if let Some(project) = read_file(&project_file(cwd), &mut out.problems) {
            out.add(environment, cwd, Place::Project, &project, everything);
        }
        let key = project_root(cwd).to_string_lossy().into_owned();
        if let Some(local) = user.as_ref().and_then(|user| user.get("projects")?.get(&key)?.get("mcpServers"))
        {
            out.add(environment, cwd, Place::Local, local, everything);
        }
    }
    if !strict {
        plugin_servers::add(environment, &mut out);
    }
    for text in given {
        let value = given_config(text)?;
        // The caller named this server, so the run does not begin if the server cannot be used.
        if let Some(refusal) = out.add(environment, cwd, Place::Flag, &value, everything) {
            let text = format!("--mcp-config: {refusal}, so nothing was run");
            return Err(Failure::usage(text)
                .hint("mend the entry or remove it; `becket mcp list` shows the configured servers"));
        }
    }
    Ok(out)
}

fn given_config(text: &str) -> Result<Value, Failure> {
    if text.trim_start().starts_with('{') {
        return becket_types::parse_json(text)
            .map_err(|e| Failure::usage(format!("--mcp-config is not valid JSON: {e}")));
    }
    let read = becket_files::read_text(Path::new(text), MAX_FILE_BYTES).map_err(|e| {
        Failure::usage(format!("--mcp-config: {text} cannot be read: {e}"))
            .hint("give a JSON file, or JSON text that begins with {")
    })?;
    becket_types::parse_json(&read)
        .map_err(|e| Failure::usage(format!("--mcp-config: {text} is not valid JSON: {e}")))
}

/// Reads the JSON of a file, if it exists. If it cannot be read, adds a message for the user.
pub(crate) fn read_file(path: &Path, problems: &mut Vec<String>) -> Option<Value> {
    let text = match becket_files::read_text(path, MAX_FILE_BYTES) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
        Err(e) => {
            problems.push(format!("{} cannot be read, so its MCP servers are not used: {e}", path.display()));
            return None;
        }
    };
    match becket_types::parse_json(&text) {
        Ok(value) => Some(value),
        Err(e) => {
            problems
                .push(format!("{} is not valid JSON, so its MCP servers are not used: {e}", path.display()));
            None
        }
    }
}

/// Returns a variable for the configuration of a project. `None` for a key of a provider, because the project would choose the
/// program and the host that get it.
fn variable_for_project(environment: &Environment, cwd: &Path, name: &str) -> Option<String> {
    let value = environment.vars.get(name)?;
    // The user's configuration names variables with keys. If it has errors, loading the run's settings reports them and ends the run.
    let settings =
        crate::settings::configuration(environment, cwd, &ConfigArgs::default(), Vec::new(), false);
    let config = settings.map(|settings| settings.config).unwrap_or_default();
    let keys = key_variables(environment, &config);
    Some(value).filter(|_| !keys.contains(name)).cloned()
}

impl ConfiguredServers {
    /// Adds the servers of one source. Returns the reason if one of them, or the source, cannot be used.
    fn add(
        &mut self,
        environment: &Environment,
        cwd: &Path,
        place: Place,
        value: &Value,
        everything: bool,
    ) -> Option<String> {
        let vars = |name: &str| match place {
            Place::Project => variable_for_project(environment, cwd, name),
            _ => environment.vars.get(name).cloned(),
        };
        let parsed = config::parse(value, &vars);
        self.problems.extend(parsed.problems);
        let texts = config::entries(value).ok().cloned().unwrap_or_default();
        for server in parsed.servers {
            let allowed = place != Place::Project
                || texts.get(&server.name).is_some_and(|entry| {
                    let text = content(environment, cwd, entry, &server);
                    everything || is_trusted(environment, cwd, &server.name, &text)
                });
            let name = server.name.clone();
            // A server that is not allowed must not replace the user's own.
            if !allowed && self.servers.get(&name).is_some_and(|known| known.allowed) {
                self.problems.push(not_allowed(&name));
                continue;
            }
            let config = ServerConfig { scope: Some(place.as_str().to_owned()), ..server };
            self.servers.insert(name, Configured { place, config, allowed });
        }
        parsed.refusal
    }
}

fn not_allowed(name: &str) -> String {
    format!(
        "the MCP server {name} of .mcp.json is not used, because you have not allowed it as it is now (look at it: becket mcp get {name}; \
         allow it: becket mcp approve {name}, or --trust for one run)"
    )
}

/// Returns the servers of the project's `.mcp.json` that the user has not allowed as they are: the name, and the item that
/// the user is asked about.
pub(crate) fn project_items(environment: &Environment, cwd: &Path) -> Vec<(String, Item)> {
    let Some(value) = read_file(&project_file(cwd), &mut Vec::new()) else { return Vec::new() };
    let texts = config::entries(&value).ok().cloned().unwrap_or_default();
    let vars = |name: &str| variable_for_project(environment, cwd, name);
    let servers = config::parse(&value, &vars).servers.into_iter();
    let items = servers.filter_map(|server| {
        let content = content(environment, cwd, texts.get(&server.name)?, &server);
        if is_trusted(environment, cwd, &server.name, &content) {
            return None;
        }
        let name = format!("{} of .mcp.json", server.name);
        Some((server.name, Item { kind: "MCP server".to_owned(), name, content }))
    });
    items.collect()
}

/// Returns the text that the user allows: the entry of the server, the program that it runs, and the project's files that it
/// runs.
pub(crate) fn content(environment: &Environment, cwd: &Path, entry: &Value, server: &ServerConfig) -> String {
    let surroundings = CommandEnvironment::new(environment, &project_root(cwd), cwd);
    let (commands, surroundings) = match &server.endpoint {
        Endpoint::Stdio { command, args, cwd, env } => {
            let words = std::iter::once(command).chain(args).cloned().collect();
            (vec![ProjectCommand::Words(words)], surroundings.starting_in(cwd.as_deref()).with_variables(env))
        }
        Endpoint::Http { headers_helper: Some(helper), .. } => {
            (vec![ProjectCommand::Shell(helper.clone())], surroundings)
        }
        _ => (Vec::new(), surroundings),
    };
    let server = ServerConfig { scope: Some(config::PROJECT.to_owned()), ..server.clone() };
    let line = program_line(environment, cwd, &server);
    let line = line.map(|line| format!("\n\n--- {line}")).unwrap_or_default();
    format!("{}{line}", with_scripts(&entry.to_string(), &commands, &surroundings))
}

fn approvals(environment: &Environment) -> PathBuf {
    environment.data_dir.join("mcp-approved.json")
}

/// Returns the project, the name and the text of a server as one key.
fn approval(cwd: &Path, name: &str, text: &str) -> String {
    let root = project_root(cwd);
    becket_tool::sha256(json!(["mcp", root.to_string_lossy(), name, text]).to_string().as_bytes())
}

/// True if the user allowed this server of the project with exactly this text ([`content`]).
pub(crate) fn is_trusted(environment: &Environment, cwd: &Path, name: &str, text: &str) -> bool {
    let key = approval(cwd, name, text);
    let known = becket_files::read_text(&approvals(environment), MAX_FILE_BYTES).ok();
    let known = known.and_then(|known| serde_json::from_str::<Map<String, Value>>(&known).ok());
    known.is_some_and(|known| known.contains_key(&key))
}

/// Returns the approvals of servers that are stored in the file. A file that cannot be read is an error, because it would be replaced.
fn read_approvals(path: &Path) -> io::Result<Map<String, Value>> {
    match becket_files::read_text(path, MAX_FILE_BYTES) {
        Ok(text) => Ok(serde_json::from_str(&text).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(error),
    }
}

/// Allows a server of the project as it is written now.
pub(crate) fn approve(environment: &Environment, cwd: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = approvals(environment);
    let mut known = read_approvals(&path)?;
    known.insert(
        approval(cwd, name, text),
        json!({"root": project_root(cwd).to_string_lossy(), "name": name}),
    );
    write_private(&path, &Value::Object(known))
}

/// Forgets the permissions of this project. Returns how many servers were allowed.
pub(crate) fn forget(environment: &Environment, cwd: &Path) -> io::Result<usize> {
    let path = approvals(environment);
    let mut known = read_approvals(&path)?;
    let (root, before) = (project_root(cwd), known.len());
    known.retain(|_, entry| entry.get("root").and_then(Value::as_str) != Some(&*root.to_string_lossy()));
    let gone = before - known.len();
    if gone > 0 {
        write_private(&path, &Value::Object(known))?;
    }
    Ok(gone)
}

/// Writes a JSON file that only its owner can read, and renames it into place.
pub(crate) fn write_private(path: &Path, value: &Value) -> io::Result<()> {
    use std::io::Write as _;
    let dir = path.parent().unwrap_or(Path::new("/"));
    becket_files::private::dir(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(serde_json::to_string_pretty(value)?.as_bytes())?;
    file.write_all(b"\n")?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// Servers that agents bring in their definitions.
#[derive(Debug, Default)]
pub(crate) struct AgentServers {
    pub servers: Vec<ServerConfig>,
    pub notes: Vec<String>,
}

/// Returns the servers that agents bring. The servers of the project's agents must be trusted by content.
pub(crate) fn agent_servers(
    environment: &Environment,
    cwd: &Path,
    agents: &[Definition],
    trust: &ContentTrust,
) -> AgentServers {
    let mut out = AgentServers::default();
    for (definition, name, entry) in entries_of(agents) {
        let parsed = parse_entry(environment, name, entry);
        out.notes
            .extend(parsed.problems.iter().map(|why| format!("the agent {}: {why}", definition.kind.name)));
        for server in parsed.servers {
            let item = agent_item(environment, cwd, definition, entry, &server);
            if !definition.is_of_project() || trust.is_trusted(&item.kind, &item.name, &item.content) {
                let scope = definition.is_of_project().then(|| config::PROJECT.to_owned());
                out.servers.push(ServerConfig { scope, ..server });
            }
        }
    }
    out
}

/// Returns the items that need trust: the servers that agents of the project bring.
pub(crate) fn agent_items(environment: &Environment, cwd: &Path, agents: &[Definition]) -> Vec<Item> {
    let entries = entries_of(agents).filter(|(definition, ..)| definition.is_of_project());
    let items = entries.flat_map(|(definition, name, entry)| {
        let servers = parse_entry(environment, name, entry).servers.into_iter();
        servers
            .map(move |server| agent_item(environment, cwd, definition, entry, &server))
            .collect::<Vec<_>>()
    });
    items.collect()
}

fn entries_of(agents: &[Definition]) -> impl Iterator<Item = (&Definition, &String, &Value)> {
    agents.iter().flat_map(|agent| agent.servers.iter().map(move |(name, entry)| (agent, name, entry)))
}

fn parse_entry(environment: &Environment, name: &str, entry: &Value) -> config::Parsed {
    let vars = |name: &str| environment.vars.get(name).cloned();
    config::parse(&json!({ "mcpServers": { name: entry } }), &vars)
}

fn agent_item(
    environment: &Environment,
    cwd: &Path,
    agent: &Definition,
    entry: &Value,
    server: &ServerConfig,
) -> Item {
    Item {
        kind: "MCP server".to_owned(),
        name: format!("{} of the agent {}", server.name, agent.kind.name),
        content: content(environment, cwd, entry, server),
    }
}

/// The agents of a session, which may bring MCP servers, and its hooks, which may answer questions of servers.
pub(crate) struct Origins {
    pub agent_servers: AgentServers,
    pub hooks: Option<OutsideHooks>,
}

/// The servers of a run, and the names of those that only agents use.
#[derive(Default)]
pub(crate) struct StartedServers {
    pub hub: Option<Arc<Hub>>,
    /// Names of the servers that only agents use.
    pub agent_only: Vec<String>,
}

/// Starts the servers of a run, and waits for the required ones. Starts nothing if none is configured.
///
/// # Errors
///
/// Returns a failure for the user if a required server does not start.
pub(crate) async fn start(
    environment: &Environment,
    run: &RunSettings,
    programs: &Programs,
    window: u64,
    Origins { agent_servers: of_agents, hooks }: Origins,
    notes: &mut Vec<String>,
) -> Result<StartedServers, Failure> {
    if run.command.is_some() {
        // The run belongs to a subcommand, which needs no tool of a server.
        return Ok(StartedServers::default());
    }
    notes.extend(of_agents.notes);
    let found = find_servers(
        environment,
        &run.project.cwd,
        &run.additions.mcp.mcp_config,
        run.additions.mcp.strict_mcp_config,
        run.project.trust_content,
    )?;
    notes.extend(found.problems);
    let mut configs = Vec::new();
    for (name, server) in found.servers {
        if server.allowed {
            let scope = if server.place == Place::Flag { "dynamic" } else { server.place.as_str() };
            configs.push(ServerConfig { scope: Some(scope.to_owned()), ..server.config });
        } else {
            notes.push(not_allowed(&name));
        }
    }
    let of_host: &[String] = run.client.host_servers.as_ref().map_or(&[], |host| &host.names);
    for name in of_host {
        configs.retain(|config| config.name != *name);
        let timeout = run.client.policies.timeouts.get(name).copied();
        configs.push(ServerConfig { timeout, ..ServerConfig::of_host(name) });
    }
    let mut private = Vec::new();
    for server in of_agents.servers {
        // If the session has a server of this name, agents use that one, so no second server is started.
        if !configs.iter().any(|config| config.name == server.name) {
            private.push(server.name.clone());
            configs.push(server);
        }
    }
    // A hub is needed even without servers if a program drives becket, because it can set servers while the session runs.
    if configs.is_empty() && run.client.host_servers.is_none() {
        return Ok(StartedServers::default());
    }
    let mut settings = hub_settings(environment, &run.settings.config, &run.project.cwd, programs.clone());
    settings.roots.clone_from(&run.project.roots);
    settings.host.clone_from(&run.client.host_servers);
    let user = || run.client.ask_user.clone().map(|user| Arc::new(user) as Arc<dyn Ask>);
    let asks = run.client.host_servers.as_ref().map(|host| Arc::clone(&host.ask)).or_else(user);
    settings.elicitation = match (run.additions.mcp.mcp_elicitation, asks) {
        (Some(ElicitationArg::Defaults), _) => Elicitation::Defaults,
        (Some(ElicitationArg::Ask) | None, Some(ask)) => Elicitation::Ask(ask),
        (Some(ElicitationArg::Ask), None) => {
            notes.push(
                "--mcp-elicitation=ask: no program drives this run, so questions of MCP servers are cancelled; \
                 --mcp-elicitation=defaults accepts their default answers"
                    .to_owned(),
            );
            Elicitation::Cancel
        }
        (Some(ElicitationArg::Cancel) | None, _) => Elicitation::Cancel,
    };
    if let Some(hooks) = hooks {
        let otherwise = settings.elicitation;
        settings.elicitation = Elicitation::Ask(Arc::new(HookedAsk { hooks, otherwise }));
    }
    // The definitions of tools may fill at most a tenth of the context window.
    settings.most_definitions = (window / 10 * BYTES_PER_TOKEN) as usize;
    let hub = Hub::start(configs, settings);
    hub.required().await.map_err(|why| {
        Failure::error(why)
            .hint("start or repair it, or remove \"required\" from its configuration: becket mcp list")
    })?;
    Ok(StartedServers { hub: Some(hub), agent_only: private })
}

pub(crate) fn hub_settings(
    environment: &Environment,
    config: &Config,
    cwd: &Path,
    programs: Programs,
) -> HubSettings {
    let becket_model::Proxies { https, http, no_proxy } = environment.proxies();
    HubSettings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cwd: cwd.to_path_buf(),
        project: Some(project(cwd)),
        // As for commands, servers do not get becket's keys, except those that their configuration names.
        variables: variables_for_programs(environment, config),
        programs,
        proxies: Proxies { http, https, no_proxy },
        tokens: Some(TokenStore::new(
            environment.data_dir.join("mcp-auth"),
            Some(Arc::new(crate::keychain::OnDemand(environment.clone()))),
        )),
        ..HubSettings::default()
    }
}

/// Returns the commands for the prompts of servers: name, description, and hint for arguments.
pub(crate) fn prompt_commands(hub: &Hub) -> Vec<(String, String, String)> {
    let command = |prompt: becket_mcp::PromptInfo| {
        let arguments = prompt.arguments.iter().map(|(name, required)| {
            if *required { name.to_uppercase() } else { format!("[{}]", name.to_uppercase()) }
        });
        let hint = arguments.collect::<Vec<_>>().join(" ");
        (prompt.command, prompt.description, hint)
    };
    hub.prompts().into_iter().map(command).collect()
}

/// Longest wait for a server that a prompt names.
const NAMED_SERVER_WAIT: Duration = Duration::from_secs(30);

/// True if a prompt calls a prompt of a server, or names a resource of one of these servers.
pub(crate) fn has_references(hub: &Hub, text: &str) -> bool {
    let mut words = text.split_whitespace().filter_map(|word| word.strip_prefix('@')?.split_once(':'));
    text.starts_with("/mcp__") || words.any(|(server, uri)| !uri.is_empty() && hub.has(server))
}

/// Returns the text of a server's prompt, without secrets of known forms: a server is not asked about as a tool's output is.
///
/// # Errors
///
/// Returns a message for people if there is no such prompt, or the server gives none.
pub(crate) async fn masked_prompt(hub: &Hub, name: &str, words: &[String]) -> Result<String, String> {
    hub.prompt(name, words).await.map(|prompt| mask_published(&prompt.0).0.into_owned())
}

/// Expands references to servers in a prompt. `/mcp__server__prompt words` becomes the text of that prompt, and each
/// `@server:uri` adds the resource.
///
/// # Errors
///
/// Returns a failure for the user if a prompt or resource cannot be read.
pub(crate) async fn expand_references(
    hub: &Hub,
    text: String,
    hooks: Option<&OutsideHooks>,
) -> Result<String, Failure> {
    if let Some(command) = text.strip_prefix("/mcp__") {
        hub.wait_until_started(NAMED_SERVER_WAIT).await;
        let mut words = command.split_whitespace();
        let name = format!("mcp__{}", words.next().unwrap_or_default());
        let words: Vec<String> = words.map(str::to_owned).collect();
        let prompt = masked_prompt(hub, &name, &words).await.map_err(Failure::usage)?;
        return match hooks {
            Some(hooks) => {
                let given = words.join(" ");
                hooks.expansion("mcp_prompt", &name, &given, prompt).await.map_err(Failure::usage)
            }
            None => Ok(prompt),
        };
    }
    let mut out = text.clone();
    for word in text.split_whitespace() {
        let Some((server, uri)) = word.strip_prefix('@').and_then(|word| word.split_once(':')) else {
            continue;
        };
        if !hub.has(server) || uri.is_empty() {
            continue;
        }
        let uri = uri.trim_end_matches(['.', ',', ';', ')', '?', '!']);
        let content = hub.resource_text(server, uri).await;
        let content =
            content.map_err(|why| Failure::usage(format!("@{server}:{uri} cannot be attached: {why}")))?;
        let content = mask_published(&content).0;
        let _ = write!(out, "\n\n<resource server=\"{server}\" uri=\"{uri}\">\n{content}\n</resource>");
    }
    Ok(out)
}
