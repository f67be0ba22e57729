//! Settings of a run: flags, files and environment become one immutable [`RunSettings`], which everything after `main`
//! uses.
//!
//! Every mistake in flags and files is found here, before anything runs: exit code 2.

pub(crate) mod claude;
mod host;
mod parts;
mod session_list;

pub(crate) use parts::*;

use crate::agents::GivenAgents;
use crate::args::{ConfigArgs, InputFormat, OutputFormat, Run};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_config::{
    Config, ConfigError, Flag, Inputs, Places, SandboxMode, SettingSources, Settings, Source,
};
use becket_print::Schema;
use becket_session::context::cache::{CachePolicy, CacheTtl, CacheWarm};
use becket_session::context::{Policy, SummaryPolicy};
use becket_types::{CacheLifetime, PermissionMode, quoted};
use host::HostLimits;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The resolved settings of a run.
#[derive(Debug)]
pub(crate) struct RunSettings {
    pub project: Project,
    pub settings: Settings,
    /// Runs in the terminal interface, not headless.
    pub interactive: bool,
    pub screen: Screen,
    pub files: RunFiles,
    pub task: Task,
    pub output: OutputSettings,
    pub prompts: SystemPrompts,
    pub session: SessionPlan,
    pub client: Client,
    pub additions: Additions,
    /// The run belongs to a subcommand and changes only what that command changes.
    pub command: Option<ForCommand>,
}

/// Changes to the directory of `-C` and returns the current directory in canonical form.
pub(crate) fn enter(cd: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(dir) = cd {
        std::env::set_current_dir(dir)
            .map_err(|e| Failure::usage(format!("cannot work in {} (-C): {e}", dir.display())))?;
    }
    let cwd = std::env::current_dir().and_then(|cwd| cwd.canonicalize()).map_err(|e| {
        Failure::usage(format!("the working directory cannot be used: {e}"))
            .hint("it may have been deleted; go to another one, or name one with -C DIR")
    })?;
    // Without this check, the error would be about the first file that is looked up in the directory.
    std::fs::metadata(cwd.join(".")).map_err(|e| {
        Failure::usage(format!("the working directory {} cannot be entered: {e}", cwd.display()))
            .hint("check its permissions; or go to another one, or name one with -C DIR")
    })?;
    Ok(cwd)
}

/// Loads the configuration for `cwd`. `trusted`: the project's files may do more than forbid.
///
/// # Errors
///
/// Returns a failure for the user if a file, flag or variable is wrong.
pub(crate) fn configuration(
    environment: &Environment,
    cwd: &Path,
    args: &ConfigArgs,
    flags: Vec<Flag>,
    trusted: bool,
) -> Result<Settings, Failure> {
    configuration_of_run(environment, cwd, args, flags, Rights { trusted, ..Rights::default() })
}

/// The rights of a project's files, and the kind of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Rights {
    /// The project's files may do more than forbid.
    trusted: bool,
    /// `--trust`: everything that the project's files allow takes effect.
    content: bool,
    /// A program drives the run.
    driven: bool,
}

fn configuration_of_run(
    environment: &Environment,
    cwd: &Path,
    args: &ConfigArgs,
    flags: Vec<Flag>,
    rights: Rights,
) -> Result<Settings, Failure> {
    let sources = match &args.setting_sources {
        None => SettingSources::default(),
        Some(list) => {
            list.join(",").parse().map_err(|e| Failure::usage(format!("--setting-sources: {e}")))?
        }
    };
    let places = places(environment, cwd);
    let own_files =
        becket_config::read_files(&places, sources, crate::sys::distrusted).map_err(config_failure)?;
    // Files of becket come after those of Claude Code in the same place.
    let mut files = claude::layers(environment, &places.project, sources)?;
    let approved = claude::approved(environment, &places.project, &files, rights.content);
    let managed = claude::managed()?;
    files.extend(managed.layers);
    files.extend(own_files);
    // The user's own rules for this project have the same strength as the user's file and come after it.
    let own = crate::interactive::preferences::project_file(environment, &places.project);
    if sources.reads(becket_config::Scope::User)
        && let Some(text) = becket_config::read_text(&own).map_err(config_failure)?
    {
        files.push(becket_config::Layer { scope: becket_config::Scope::User, path: own, text });
    }
    let inputs = Inputs {
        files,
        settings: args.settings.as_deref().map(settings_text).transpose()?,
        env: &environment.vars,
        keys: crate::keys::read(environment)?,
        trusted: rights.trusted,
        approved,
        driven: rights.driven,
        flags,
        home: environment.home.as_deref().unwrap_or_else(|| Path::new("/")),
        cwd,
    };
    let mut settings = becket_config::load(&inputs).map_err(config_failure)?;
    settings.sources = sources;
    settings.managed_limits = managed.limits;
    claude::leave_out(&mut settings, environment, &places.project);
    Ok(settings)
}

/// Returns the places of becket's own files of settings.
pub(crate) fn places(environment: &Environment, cwd: &Path) -> Places {
    Places {
        config_dir: environment.config_dir.parent().map_or_else(PathBuf::new, Path::to_path_buf),
        project: project_root(cwd),
        managed: PathBuf::from("/etc/becket/config.toml"),
    }
}

/// Returns the policy that keeps a session within its context window.
pub(crate) fn policy(config: &Config) -> Policy {
    let protected = [Policy::PROTECTED.to_owned()].into_iter().chain(config.prune.protect.iter().cloned());
    Policy {
        protect: protected.collect(),
        skip_turns: Policy::SKIP_TURNS,
        hot_tokens: Policy::HOT_TOKENS,
        prune_batch: Policy::PRUNE_BATCH,
        prune: config.prune.enabled,
        threshold: config.context.threshold,
        auto_compact: config.context.auto,
        prepare: config.context.prepare,
        tail_turns: config.context.tail_turns,
        keep_recent_tokens: config.context.keep_recent_tokens,
        reattach: config.context.reattach,
        summary: SummaryPolicy { template: config.context.template.clone(), ..SummaryPolicy::default() },
    }
}

/// Returns the policy for the provider's cache.
pub(crate) fn cache(config: &Config) -> CachePolicy {
    let ttl = match config.context.cache_ttl {
        becket_config::CacheTtl::Auto => CacheTtl::Auto,
        becket_config::CacheTtl::FiveMinutes => CacheTtl::Fixed(CacheLifetime::FiveMinutes),
        becket_config::CacheTtl::Hour => CacheTtl::Fixed(CacheLifetime::Hour),
    };
    let warm = match config.context.cache_warm {
        becket_config::CacheWarm::Off => CacheWarm::Off,
        becket_config::CacheWarm::Auto => CacheWarm::Auto,
        becket_config::CacheWarm::Idle => CacheWarm::Idle,
    };
    CachePolicy { ttl, warm, idle_compaction: config.context.idle_compaction }
}

/// Returns the [`policy`] for sessions of the folder `cwd`. An unreadable configuration counts as empty, because
/// reading a session or undoing a change does not need it.
pub(crate) fn policy_in(environment: &Environment, cwd: &Path) -> Policy {
    policy(&readable(environment, cwd).config)
}

/// Returns the configuration for `cwd`, or an empty one if it cannot be read.
pub(crate) fn readable(environment: &Environment, cwd: &Path) -> Settings {
    configuration(environment, cwd, &ConfigArgs::default(), Vec::new(), false).unwrap_or_default()
}

fn config_failure(error: ConfigError) -> Failure {
    Failure::usage(error.to_string())
}

/// Returns the nearest folder above `cwd` with `.becket` or `.git`, or `cwd` itself if there is none.
pub(crate) fn project_root(cwd: &Path) -> PathBuf {
    let marked = |dir: &&Path| dir.join(".git").exists() || dir.join(".becket").is_dir();
    cwd.ancestors().find(marked).unwrap_or(cwd).to_path_buf()
}

/// Reads `--settings`: JSON or TOML text, or a file of either.
fn settings_text(value: &str) -> Result<(String, String), Failure> {
    if value.trim_start().starts_with('{') {
        return Ok(("--settings".to_owned(), value.to_owned()));
    }
    match becket_config::read_text(Path::new(value)).map_err(config_failure)? {
        Some(text) => Ok((value.to_owned(), text)),
        None => Err(Failure::usage(format!("--settings: there is no file {value}"))
            .hint("give a JSON or TOML file, or JSON text that begins with {")),
    }
}

impl RunSettings {
    /// True if the run continues an existing session, or a copy of one.
    pub(crate) fn continues_session(&self) -> bool {
        !matches!(self.session.choice, SessionChoice::New { .. })
    }

    /// True if the run continues in a copy of a session.
    pub(crate) fn is_forked(&self) -> bool {
        matches!(
            &self.session.choice,
            SessionChoice::Continue { fork: Some(_) } | SessionChoice::Resume { fork: Some(_), .. }
        )
    }

    /// True if a program sends the messages of the run, and reads its results (`--input-format stream-json`).
    pub(crate) fn is_driven(&self) -> bool {
        self.client.input == InputFormat::StreamJson
    }

    pub(crate) fn new(args: Run, environment: &Environment) -> Result<Self, Failure> {
        let cwd = enter(args.config.cd.as_deref())?;
        let root = project_root(&cwd);
        let trusted = args.print
            || crate::trust::content_lines(&root, &cwd).is_empty()
            || crate::trust::is_trusted(environment, &root);
        let input = args.output.input_format;
        let driven = input == InputFormat::StreamJson;
        let rights = Rights { trusted, content: args.permissions.trust, driven };
        let mut settings = configuration_of_run(environment, &cwd, &args.config, flags(&args)?, rights)?;
        let limits = HostLimits::read(&args, &mut settings)?;
        if !trusted {
            // The project can influence programs that read its files. So they run only if the user configured them.
            for (key, is_open) in [
                ("format.auto", settings.config.integrations.format.auto.is_none()),
                ("lsp.enabled", settings.config.integrations.lsp.enabled.is_none()),
            ] {
                if is_open {
                    settings.set(key, json!(false), Source::Default);
                }
            }
        }
        let mut roots = roots(&cwd, &settings.config.add_dirs)?;
        let odd = args.permissions.add_dir.iter().filter(|dir| dir.to_str().is_none());
        roots.extend(odd.map(|dir| added_root(dir)).collect::<Result<Vec<_>, _>>()?);
        let added = args.permissions.add_dir.iter().filter_map(|dir| dir.canonicalize().ok());
        let added: Vec<PathBuf> = added.filter(|dir| *dir != cwd).collect();
        let schema = schema(&args)?.map(Arc::new);
        check_output(&args)?;
        let asks_host = asks_host(&args)?;
        let no_prompt = no_prompt(&args);
        let session = SessionPlan {
            choose: session_list::chooses_from_list(&args.session, args.print, environment, &cwd)?,
            choice: session_choice(&args.session, args.sdk.resume_drops_turn.as_deref())?,
            take_over: args.session.take_over,
            persist: !args.session.no_session_persistence,
            only_shown: false,
            cleared: false,
            title: args.session.name,
        };
        Ok(Self {
            project: Project { cwd, roots, added, trusted, trust_content: args.permissions.trust },
            settings,
            interactive: !args.print,
            screen: Screen::of(&args.output, environment.var("TERM")),
            files: RunFiles { record: args.model.record, locked: args.model.locked, replay: None },
            task: Task { prompt: args.prompt, draft: None, no_prompt, images: Vec::new() },
            output: OutputSettings::new(args.output, &args.sdk, schema),
            prompts: SystemPrompts {
                replace: text_or_file(
                    args.prompts.system_prompt,
                    args.prompts.system_prompt_file,
                    "--system-prompt-file",
                )?,
                append: text_or_file(
                    args.prompts.append_system_prompt,
                    args.prompts.append_system_prompt_file,
                    "--append-system-prompt-file",
                )?,
                append_to_subagents: args.prompts.append_subagent_system_prompt,
                environment_as_message: args.prompts.exclude_dynamic_system_prompt_sections,
                plan: None,
            },
            session,
            client: Client {
                asks_host,
                input,
                permission_tool: args
                    .sdk
                    .permission_prompt_tool
                    .filter(|tool| asks_host && tool.starts_with("mcp__")),
                limits,
                ..Client::default()
            },
            additions: Additions { mcp: args.mcp, agents: agents(&args.agents)?, ..Additions::default() },
            command: None,
        })
    }
}

/// Returns the agents that flags name. `--agents` takes JSON or a file.
fn agents(args: &crate::args::AgentArgs) -> Result<GivenAgents, Failure> {
    let mut out = GivenAgents { main: args.agent.clone(), ..GivenAgents::default() };
    if let Some(given) = &args.agents {
        let text = if given.trim_start().starts_with(['{', '[', '"']) {
            given.clone()
        } else {
            read(Path::new(given.strip_prefix('@').unwrap_or(given)), "--agents")?
        };
        let wrong = |why: String| {
            Failure::usage(format!("--agents: {why}"))
                .hint(r#"give JSON, or a JSON file: {"reviewer": {"description": "…", "prompt": "…"}}"#)
        };
        let value: Value = becket_types::parse_json(&text).map_err(|e| wrong(e.to_string()))?;
        (out.definitions, out.warnings) = crate::agents::parse_agents(&value).map_err(wrong)?;
    }
    Ok(out)
}

/// Returns advice for a run without a prompt, which a flag that takes a list may have consumed.
fn no_prompt(args: &Run) -> &'static str {
    let lists = [&args.permissions.allowed_tools, &args.permissions.disallowed_tools];
    let any = lists.iter().any(|list| !list.is_empty())
        || !args.permissions.add_dir.is_empty()
        || !args.mcp.mcp_config.is_empty();
    if any {
        "put -- before the prompt: a flag that takes a list may have taken it (--allowedTools Edit -- \"task\")"
    } else {
        "becket -p \"task\", or pipe it in: echo \"task\" | becket -p"
    }
}

/// True if permission questions are sent to the program that drives the run.
fn asks_host(args: &Run) -> Result<bool, Failure> {
    let nobody = args.sdk.permission_prompts.as_deref() == Some("none");
    match args.sdk.permission_prompt_tool.as_deref().filter(|_| !nobody) {
        None => Ok(false),
        Some("stdio") if args.output.input_format == InputFormat::StreamJson => Ok(true),
        Some("stdio") => {
            Err(Failure::usage("--permission-prompt-tool stdio needs answers on standard input")
                .hint("add --input-format stream-json --output-format stream-json"))
        }
        Some(tool) if tool.starts_with("mcp__") => Ok(true),
        Some(other) => Err(Failure::usage(format!("--permission-prompt-tool: {other:?} cannot be asked"))
            .hint("use stdio, which asks the program that drives becket, or mcp__SERVER__TOOL")),
    }
}

/// Rejects flags that contradict each other and output files that cannot be written, before anything runs.
fn check_output(args: &Run) -> Result<(), Failure> {
    let output = &args.output;
    if output.input_format == InputFormat::StreamJson && args.prompt.is_some() {
        return Err(Failure::usage("with --input-format stream-json, prompts come only from stdin")
            .hint("send {\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"…\"}} as a line"));
    }
    if args.prompt.as_deref().is_some_and(becket_types::is_blank) {
        return Err(Failure::usage("the prompt is empty").hint("say what to do: becket -p \"task\""));
    }
    for (set, flag) in [
        (output.include_partial_messages, "--include-partial-messages"),
        (output.replay_user_messages, "--replay-user-messages"),
        (output.forward_subagent_text, "--forward-subagent-text"),
        (output.session_mirror, "--session-mirror"),
        (args.sdk.include_hook_events, "--include-hook-events"),
    ] {
        if set && output.output_format != OutputFormat::StreamJson {
            return Err(Failure::usage(format!(
                "{flag} adds lines to stream-json, but the output has another format"
            ))
            .hint("add --output-format stream-json"));
        }
    }
    if let Some(file) = &output.output_last_message {
        let folder = file.parent().filter(|dir| !dir.as_os_str().is_empty());
        if file.is_dir() || folder.is_some_and(|dir| !dir.is_dir()) {
            return Err(Failure::usage(format!(
                "--output-last-message: {} cannot be a file",
                file.display()
            ))
            .hint("name a file in an existing folder"));
        }
    }
    Ok(())
}

/// Converts flags to configuration values, so that they become a layer of the configuration.
fn flags(args: &Run) -> Result<Vec<Flag>, Failure> {
    let mut out = Vec::new();
    let mut put = |key, flag, value: Option<Value>| {
        if let Some(value) = value {
            out.push(Flag { key, value, flag });
        }
    };
    let list = |items: Vec<String>| (!items.is_empty()).then(|| json!(items));
    put("model", "--model", args.model.model.as_ref().map(|m| json!(m)));
    put("models.fallback", "--fallback-model", list(args.model.fallback_model.clone()));
    put("effort", "--effort", args.model.effort.as_ref().map(|e| json!(e)));
    // Models accept an effort but no token budget, so a budget becomes the nearest effort.
    if args.model.effort.is_none() {
        put("effort", "--max-thinking-tokens", args.sdk.max_thinking_tokens.map(|n| json!(effort_of(n))));
        let off = args.sdk.thinking.as_deref() == Some("disabled");
        put("effort", "--thinking", off.then(|| json!("low")));
    }
    put("context.window", "--context-window", args.model.context_window.as_ref().map(|n| json!(n)));
    put("limits.max_turns", "--max-turns", args.limits.max_turns.map(|n| json!(n)));
    put("limits.max_budget_usd", "--max-budget-usd", args.limits.max_budget_usd.map(|n| json!(n)));
    put("limits.max_tokens", "--max-tokens", args.limits.max_tokens.as_ref().map(|n| json!(n)));
    put("limits.max_wall", "--max-wall", args.limits.max_wall.as_ref().map(|t| json!(t)));
    put("limits.max_wait", "--max-wait", args.limits.max_wait.as_ref().map(|t| json!(t)));
    put("limits.wait_for_quota", "--wait-for-quota", args.limits.wait_for_quota.then(|| json!(true)));
    let split = |rules: &[String]| rules.iter().flat_map(|r| becket_guard::split_rules(r)).collect();
    put("permissions.allow", "--allowedTools", list(split(&args.permissions.allowed_tools)));
    put("permissions.deny", "--disallowedTools", list(split(&args.permissions.disallowed_tools)));
    put(
        "add_dirs",
        "--add-dir",
        // The configuration holds text. A name that is not UTF-8 becomes a root of the run directly.
        list(args.permissions.add_dir.iter().filter_map(|d| d.to_str().map(str::to_owned)).collect()),
    );
    if args.permissions.tools.as_deref() == Some("default")
        && (args.session.continue_ || args.session.resume.is_some())
    {
        // A continued session keeps its tools unless all of them are asked for.
        put("tools.enabled", "--tools", Some(Value::Null));
    } else if let Some(tools) = args.permissions.tools.as_deref().filter(|t| *t != "default") {
        let names: Vec<String> = tools
            .split([',', ' '])
            .map(str::trim)
            .filter(|n| !n.is_empty())
            .map(|name| becket_types::sdk_names::own_name(&name.to_lowercase()).into_owned())
            .collect();
        put("tools.enabled", "--tools", Some(json!(names)));
    }
    if let Some(mode) = &args.permissions.permission_mode {
        let mode: PermissionMode =
            mode.parse().map_err(|e| Failure::usage(format!("--permission-mode: {e}")))?;
        put("permission_mode", "--permission-mode", Some(json!(mode)));
    }
    if let Some(text) = &args.permissions.sandbox {
        let mode = SandboxMode::parse(text).ok_or_else(|| {
            let names = ["auto", "required", "workspace-write", "read-only", "off", "danger-full-access"];
            let near = becket_tool::text::nearest(text, names);
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            Failure::usage(format!("--sandbox: unknown level {text}{near}", text = quoted(&text)))
                .hint("use auto, required (workspace-write), read-only or off (danger-full-access)")
        })?;
        put("sandbox.mode", "--sandbox", Some(json!(mode.as_str())));
    }
    if args.permissions.dangerously_skip_permissions {
        put(
            "permission_mode",
            "--dangerously-skip-permissions",
            Some(json!(PermissionMode::BypassPermissions)),
        );
    }
    Ok(out)
}

/// Returns the effort for a budget of thinking tokens.
pub(crate) fn effort_of(tokens: u64) -> &'static str {
    match tokens {
        0..=4_095 => "low",
        4_096..=16_383 => "medium",
        _ => "high",
    }
}

/// Returns the working directory and the additional ones in canonical form. Each must be a directory.
pub(crate) fn roots(cwd: &Path, add_dirs: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut out = vec![cwd.to_path_buf()];
    for dir in add_dirs {
        out.push(added_root(Path::new(dir))?);
    }
    Ok(out)
}

fn added_root(dir: &Path) -> Result<PathBuf, Failure> {
    let shown = dir.display();
    let path = dir.canonicalize().map_err(|e| {
        Failure::usage(format!(
            "cannot use the directory {shown} (--add-dir, or add_dirs in a configuration file): {e}"
        ))
        .hint("create the directory, or remove it there")
    })?;
    if !path.is_dir() {
        return Err(Failure::usage(format!(
            "{shown} (--add-dir, or add_dirs in a configuration file) is not a directory"
        )));
    }
    Ok(path)
}

fn schema(args: &Run) -> Result<Option<Schema>, Failure> {
    let (text, flag) = match (&args.output.json_schema, &args.output.output_schema) {
        (Some(text), _) => match text.strip_prefix('@') {
            Some(file) => (read(Path::new(file), "--json-schema")?, "--json-schema"),
            None => (text.clone(), "--json-schema"),
        },
        (None, Some(file)) => (read(file, "--output-schema")?, "--output-schema"),
        (None, None) => return Ok(None),
    };
    let refused = |e| Failure::usage(format!("{flag}: {e}")).hint("give a schema as JSON, or as @FILE");
    Schema::compile(&text).map(Some).map_err(refused)
}

fn text_or_file(text: Option<String>, file: Option<PathBuf>, flag: &str) -> Result<Option<String>, Failure> {
    match file {
        Some(file) => read(&file, flag).map(Some),
        None => Ok(text),
    }
}

fn read(path: &Path, flag: &str) -> Result<String, Failure> {
    match becket_config::read_text(path) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(Failure::usage(format!("{flag}: there is no file {}", path.display()))),
        Err(e) => Err(Failure::usage(format!("{flag}: {e}"))),
    }
}

fn session_choice(args: &crate::args::SessionArgs, drops: Option<&str>) -> Result<SessionChoice, Failure> {
    let id = match &args.session_id {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Failure::usage(format!("--session-id takes a UUID, got {text}", text = quoted(&text)))
                .hint("for example 01890a5d-ac96-774b-bcce-b302099a8057")
        })?),
    };
    let at = match &args.resume_session_at {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Failure::usage(format!("--resume-session-at takes the uuid of a message, got {}", quoted(&text)))
        })?),
    };
    let drops = match drops {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Failure::usage(format!("Resume rejected by --resume-drops-turn: {} is no uuid", quoted(&text)))
        })?),
    };
    // A run that is not kept must not write to the session that it continues, so it uses a copy. So does one that begins in
    // the middle of a session, because a ledger is never cut.
    let copies = args.fork_session || args.no_session_persistence || at.is_some();
    let fork = copies.then_some(Fork { id, at, drops });
    // Without a name, a list is shown in a new session, which is removed again if the user chooses another.
    let named = args.resume.as_ref().filter(|query| !query.trim().is_empty());
    match (named, args.continue_) {
        (Some(_), _) | (_, true) if fork.is_none() && id.is_some() => Err(Failure::usage(
            "--session-id names a new session; it cannot be used with --continue or --resume",
        )
        .hint("add --fork-session to continue in a copy with this id")),
        (Some(query), _) => Ok(SessionChoice::Resume { query: query.clone(), fork }),
        (None, true) => Ok(SessionChoice::Continue { fork }),
        (None, false) if args.take_over => {
            Err(Failure::usage("--take-over needs --continue or --resume, to name the session"))
        }
        (None, false) if at.is_some() => {
            Err(Failure::usage("--resume-session-at needs --continue or --resume, to name the session"))
        }
        (None, false) if args.fork_session => {
            Err(Failure::usage("--fork-session needs --continue or --resume, to name the session to copy"))
        }
        (None, false) => Ok(SessionChoice::New { id }),
    }
}
