//! What was meant: flags, files and environment become one immutable [`RunSettings`]; everything after `main` takes that.
//!
//! Every mistake a user can make with flags and files is found here, before anything runs: exit code 2.

use crate::args::{ConfigArgs, InputFormat, OutputFormat, Run};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_config::{ConfigError, Flag, Inputs, Places, SettingSources, Settings};
use becket_print::{Format, Schema};
use becket_types::{PermissionMode, SessionId};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A run, decided.
#[derive(Debug)]
pub(crate) struct RunSettings {
    pub cwd: PathBuf,
    /// The working directory and every further directory, canonical.
    pub roots: Vec<PathBuf>,
    pub settings: Settings,
    /// In the terminal, and not headless.
    pub interactive: bool,
    pub prompt: Option<String>,
    pub format: Format,
    pub input: InputFormat,
    pub verbose: bool,
    pub partial: bool,
    pub replay: bool,
    pub schema: Option<Schema>,
    pub last_message: Option<PathBuf>,
    pub system_prompt: Option<String>,
    pub append_system_prompt: Option<String>,
    pub session: SessionChoice,
    pub persist: bool,
    pub title: Option<String>,
}

/// Which session the run goes on in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionChoice {
    New { id: Option<SessionId> },
    Continue { fork: bool },
    Resume { query: String, fork: bool },
}

/// Goes to the directory of `-C` and says where we are, canonical.
pub(crate) fn enter(cd: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(dir) = cd {
        std::env::set_current_dir(dir)
            .map_err(|e| Failure::usage(format!("cannot work in {} (-C): {e}", dir.display())))?;
    }
    std::env::current_dir().and_then(|cwd| cwd.canonicalize()).map_err(|e| {
        Failure::usage(format!("the working directory cannot be used: {e}"))
            .hint("it may have been deleted; go to another one, or name one with -C DIR")
    })
}

/// Loads the configuration for `cwd`.
pub(crate) fn configuration(
    environment: &Environment,
    cwd: &Path,
    args: &ConfigArgs,
    flags: Vec<Flag>,
) -> Result<Settings, Failure> {
    let sources = match &args.setting_sources {
        None => SettingSources::default(),
        Some(list) => {
            list.join(",").parse().map_err(|e| Failure::usage(format!("--setting-sources: {e}")))?
        }
    };
    let places = Places {
        config_dir: environment.config_dir.parent().map_or_else(PathBuf::new, Path::to_path_buf),
        project: project_root(cwd),
        managed: PathBuf::from("/etc/becket/config.toml"),
    };
    let (files, warnings) =
        becket_config::read_files(&places, sources, crate::sys::distrusted).map_err(config_failure)?;
    let inputs = Inputs {
        files,
        settings: args.settings.as_deref().map(settings_text).transpose()?,
        env: &environment.vars,
        flags,
        home: environment.home.as_deref().unwrap_or_else(|| Path::new("/")),
        cwd,
    };
    let mut settings = becket_config::load(&inputs).map_err(config_failure)?;
    settings.warnings.extend(warnings);
    Ok(settings)
}

fn config_failure(error: ConfigError) -> Failure {
    Failure::usage(error.to_string())
}

/// The folder with `.becket` or `.git` nearest above `cwd`; `cwd` itself where there is none.
pub(crate) fn project_root(cwd: &Path) -> PathBuf {
    let marked = |dir: &&Path| dir.join(".git").exists() || dir.join(".becket").is_dir();
    cwd.ancestors().find(marked).unwrap_or(cwd).to_path_buf()
}

/// `--settings`: JSON or TOML text, or a file of either.
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
    pub(crate) fn new(args: Run, environment: &Environment) -> Result<Self, Failure> {
        let cwd = enter(args.config.cd.as_deref())?;
        let settings = configuration(environment, &cwd, &args.config, flags(&args)?)?;
        let roots = roots(&cwd, &settings.config.add_dirs)?;
        let schema = schema(&args)?;
        let system_prompt = text_or_file(
            args.prompts.system_prompt,
            args.prompts.system_prompt_file,
            "--system-prompt-file",
        )?;
        let append_system_prompt = text_or_file(
            args.prompts.append_system_prompt,
            args.prompts.append_system_prompt_file,
            "--append-system-prompt-file",
        )?;
        let session = session_choice(&args.session)?;
        if args.output.input_format == InputFormat::StreamJson && args.prompt.is_some() {
            return Err(Failure::usage("with --input-format stream-json, prompts come from stdin alone")
                .hint(
                    "send {\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"…\"}} as a line",
                ));
        }
        if args.prompt.as_deref().is_some_and(becket_types::is_blank) {
            return Err(Failure::usage("the prompt is empty").hint("say what to do: becket -p \"task\""));
        }
        Ok(Self {
            cwd,
            roots,
            settings,
            interactive: !args.print,
            prompt: args.prompt,
            format: match args.output.output_format {
                OutputFormat::Text => Format::Text,
                OutputFormat::Json => Format::Json,
                OutputFormat::StreamJson => Format::StreamJson,
            },
            input: args.output.input_format,
            verbose: args.output.verbose,
            partial: args.output.include_partial_messages,
            replay: args.output.replay_user_messages,
            schema,
            last_message: args.output.output_last_message,
            system_prompt,
            append_system_prompt,
            session,
            persist: !args.session.no_session_persistence,
            title: args.session.name,
        })
    }
}

/// Flags as configuration values, so that they take their place among the layers.
fn flags(args: &Run) -> Result<Vec<Flag>, Failure> {
    let mut out = Vec::new();
    let mut put = |key, flag, value: Option<Value>| {
        if let Some(value) = value {
            out.push(Flag { key, value, flag });
        }
    };
    let list = |items: Vec<String>| (!items.is_empty()).then(|| json!(items));
    put("model", "--model", args.model.model.as_ref().map(|m| json!(m)));
    put("fallback_models", "--fallback-model", list(args.model.fallback_model.clone()));
    put("effort", "--effort", args.model.effort.as_ref().map(|e| json!(e)));
    put("context.window", "--context-window", args.model.context_window.map(|n| json!(n)));
    put("limits.max_turns", "--max-turns", args.limits.max_turns.map(|n| json!(n)));
    put("limits.max_budget_usd", "--max-budget-usd", args.limits.max_budget_usd.map(|n| json!(n)));
    put("limits.max_tokens", "--max-tokens", args.limits.max_tokens.map(|n| json!(n)));
    put("limits.max_wall", "--max-wall", args.limits.max_wall.map(|n| json!(n)));
    put("limits.max_wait", "--max-wait", args.limits.max_wait.map(|n| json!(n)));
    let split = |rules: &[String]| rules.iter().flat_map(|r| becket_guard::split_rules(r)).collect();
    put("permissions.allow", "--allowedTools", list(split(&args.permissions.allowed_tools)));
    put("permissions.deny", "--disallowedTools", list(split(&args.permissions.disallowed_tools)));
    put(
        "add_dirs",
        "--add-dir",
        list(args.permissions.add_dir.iter().map(|d| d.to_string_lossy().into_owned()).collect()),
    );
    if let Some(tools) = args.permissions.tools.as_deref().filter(|t| *t != "default") {
        let names: Vec<String> =
            tools.split([',', ' ']).map(str::trim).filter(|n| !n.is_empty()).map(str::to_lowercase).collect();
        put("tools.enabled", "--tools", Some(json!(names)));
    }
    if let Some(mode) = &args.permissions.permission_mode {
        let mode: PermissionMode =
            mode.parse().map_err(|e| Failure::usage(format!("--permission-mode: {e}")))?;
        put("permission_mode", "--permission-mode", Some(json!(mode)));
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

/// The working directory and the further ones, canonical; each must be a directory.
fn roots(cwd: &Path, add_dirs: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut out = vec![cwd.to_path_buf()];
    for dir in add_dirs {
        let path = Path::new(dir)
            .canonicalize()
            .map_err(|e| Failure::usage(format!("cannot use the directory {dir} (--add-dir): {e}")))?;
        if !path.is_dir() {
            return Err(Failure::usage(format!("{dir} (--add-dir) is not a directory")));
        }
        out.push(path);
    }
    Ok(out)
}

fn schema(args: &Run) -> Result<Option<Schema>, Failure> {
    let text = match (&args.output.json_schema, &args.output.output_schema) {
        (Some(text), _) => match text.strip_prefix('@') {
            Some(file) => read(Path::new(file), "--json-schema")?,
            None => text.clone(),
        },
        (None, Some(file)) => read(file, "--output-schema")?,
        (None, None) => return Ok(None),
    };
    Schema::compile(&text).map(Some).map_err(|e| Failure::usage(e.to_string()))
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

fn session_choice(args: &crate::args::SessionArgs) -> Result<SessionChoice, Failure> {
    let id = match &args.session_id {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Failure::usage(format!("--session-id takes a UUID, got {text:?}"))
                .hint("for example 01890a5d-ac96-774b-bcce-b302099a8057")
        })?),
    };
    let fork = args.fork_session;
    match (&args.resume, args.continue_, id) {
        (Some(query), ..) if query.trim().is_empty() => {
            Err(Failure::usage("--resume needs a session").hint("becket sessions lists them"))
        }
        (_, true, Some(_)) | (Some(_), _, Some(_)) => Err(Failure::usage(
            "--session-id names a new session; it does not go with --continue or --resume",
        )),
        (Some(query), ..) => Ok(SessionChoice::Resume { query: query.clone(), fork }),
        (None, true, None) => Ok(SessionChoice::Continue { fork }),
        (None, false, _) if fork => {
            Err(Failure::usage("--fork-session needs --continue or --resume, to say which session is copied"))
        }
        (None, false, id) => Ok(SessionChoice::New { id }),
    }
}
