//! `becket exec`: a run with the arguments, the output lines and the exit codes of `codex exec`.
//!
//! Only translates: its arguments become those of a run. The sandbox levels have these meanings: `read-only` reads and
//! runs confined commands, `workspace-write` also changes files of the workspace, and `danger-full-access` asks about
//! nothing. Nobody can be asked at any level, so calls that need a question are denied.

mod config;

use crate::args::{
    ExecArgs, ExecOptions, ExecSettings, ExecWhat, InputFormat, OutputFormat, ReviewArgs, Run,
};
use crate::cmd::{newest, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::{RunSettings, SessionChoice};
use becket_print::{ExitStatus, Format};
use becket_types::{ImageSource, Part};
use config::CodexConfig;
use serde_json::Value;
use std::io::{self, Write as _};
use std::path::Path;

const MAX_IMAGE_BYTES: u64 = 20 * 1024 * 1024;

/// Runs to the end.
///
/// # Errors
///
/// Returns a failure for the user if an argument is wrong or the run cannot begin.
pub(crate) fn run(environment: &mut Environment, args: ExecArgs) -> Result<ExitStatus, Failure> {
    if environment.var("OPENAI_API_KEY").is_none()
        && let Some(key) = environment.var("CODEX_API_KEY").map(str::to_owned)
    {
        environment.vars.insert("OPENAI_API_KEY".to_owned(), key);
    }
    let json = args.options.output.json;
    let anywhere =
        args.options.skip_git_repo_check || args.options.shortcuts.dangerously_bypass_approvals_and_sandbox;
    let images = args.options.image.iter().map(|path| image(path)).collect::<Result<Vec<_>, _>>()?;
    let run = translate(environment, args)?;
    let mut settings = RunSettings::new(run, environment)?;
    if !anywhere {
        check_repository(&settings.project.cwd)?;
    }
    let is_last = matches!(settings.session.choice, SessionChoice::Continue { .. });
    if is_last && newest(environment, &settings.project.cwd)?.is_none() {
        // If there is no session to resume, a new one begins, as with Codex. So a script can use `resume --last` in its first call, too.
        settings.session.choice = SessionChoice::New { id: None };
        note_new();
    }
    settings.task.images = images;
    settings.client.driven = true;
    // The user wrote flags of `becket exec`, so the hint must not name flags of a run.
    settings.task.no_prompt = "becket exec \"task\", or pipe it in: echo \"task\" | becket exec";
    settings.output.format = if json { Format::Codex } else { Format::Text };
    let ran = crate::runtime()?.block_on(crate::headless::run(environment, settings));
    // Scripts expect only 0 and 1; 2 is for arguments that are wrong in themselves.
    let status = ran.map_err(|failure| match failure.status {
        ExitStatus::Usage => Failure { status: ExitStatus::Error, ..failure },
        _ => failure,
    })?;
    Ok(match status {
        ExitStatus::Ok | ExitStatus::PermissionDenied | ExitStatus::NotSaved => ExitStatus::Ok,
        ExitStatus::Usage | ExitStatus::Interrupted | ExitStatus::Terminated => status,
        _ => ExitStatus::Error,
    })
}

/// Refuses to work outside of a git repository, where nothing shows what a run has changed.
fn check_repository(cwd: &Path) -> Result<(), Failure> {
    // The `.git` of a worktree is a file.
    let marked = |dir: &Path| dir.join(".git").is_file() || dir.join(".git/HEAD").exists();
    if cwd.ancestors().any(marked) {
        return Ok(());
    }
    Err(Failure::error(format!("{} is not in a git repository", cwd.display()))
        .hint("add --skip-git-repo-check to work here anyway, or make a repository: git init"))
}

fn translate(environment: &mut Environment, args: ExecArgs) -> Result<Run, Failure> {
    let ExecArgs { prompt, what, options } = args;
    check_refused(&options)?;
    let mut run = Run::headless().map_err(|error| Failure::error(format!("cannot begin: {error}")))?;
    run.output.input_format = InputFormat::Text;
    run.output.output_format = OutputFormat::Text;
    run.prompt = prompt;
    if let Some(what) = what {
        choose(environment, &mut run, what)?;
    }
    run.session.no_session_persistence = options.ephemeral;
    run.output.output_last_message.clone_from(&options.output.output_last_message);
    run.output.output_schema.clone_from(&options.output.output_schema);
    run.config.cd.clone_from(&options.cd);
    run.permissions.add_dir.clone_from(&options.add_dir);
    run.permissions.trust = options.shortcuts.trust;
    if options.settings.ignore_user_config {
        run.config.setting_sources = Some(vec!["project".to_owned(), "local".to_owned()]);
    }
    let search = options.settings.search.then(|| "web_search=live".to_owned());
    // `--search` comes first, because the last setting of a key applies: `-c web_search=disabled` overrides it.
    let given: Vec<String> = search.into_iter().chain(options.settings.config.iter().cloned()).collect();
    let mut configured = config::apply(&given, environment, &mut run)?;
    note_unknown(&configured, &options.settings)?;
    run.model.model = model(&configured, &options)?;
    confine(environment, &mut run, &mut configured, &options)?;
    let profile = options.settings.profile.as_deref().or(configured.profile.as_deref());
    run.config.settings = settings(environment, profile, configured.settings)?;
    Ok(run)
}

/// Refuses options without which the run would do something else than the caller wants.
fn check_refused(options: &ExecOptions) -> Result<(), Failure> {
    let refused = &options.refused;
    if refused.worktree {
        return Err(Failure::usage("--worktree: becket creates no worktrees")
            .hint("create one and work in it: git worktree add ../NAME; becket exec -C ../NAME \"task\""));
    }
    if refused.remote.is_some() || refused.remote_auth_token_env.is_some() {
        return Err(Failure::usage(
            "--remote: becket does not connect to an app server; it works on this machine",
        )
        .hint("leave the option out, or run becket on the other machine: ssh HOST becket exec \"task\""));
    }
    Ok(())
}

/// Sets the session and the prompt of a subcommand.
fn choose(environment: &Environment, run: &mut Run, what: ExecWhat) -> Result<(), Failure> {
    match what {
        ExecWhat::Resume { session, prompt, last, all } => {
            // With `--last`, a single word is the task.
            let (session, task) = if last { (None, session.or(prompt)) } else { (session, prompt) };
            run.prompt = task;
            match session {
                Some(session) => run.session.resume = Some(session),
                None if all => {
                    run.session.resume = newest_of_all(environment)?;
                    if run.session.resume.is_none() {
                        note_new();
                    }
                }
                None => run.session.continue_ = true,
            }
        }
        ExecWhat::Fork { session, prompt } => {
            (run.session.resume, run.session.fork_session, run.prompt) = (Some(session), true, prompt);
        }
        ExecWhat::Review(review) => run.prompt = Some(review_prompt(review)?),
    }
    Ok(())
}

/// Says that `resume --last` found nothing to resume.
fn note_new() {
    let _ = writeln!(io::stderr(), "becket: there is no thread to resume yet, so a new one begins");
}

/// Returns the id of the session of any directory that was written last.
fn newest_of_all(environment: &Environment) -> Result<Option<String>, Failure> {
    let mut sessions =
        becket_session::store::list(&environment.sessions_dir(), None).map_err(store_failure)?.into_iter();
    let newest = sessions.find(|session| session.subagent_of().is_none() && !session.unanswered);
    Ok(newest.map(|session| session.id.to_string()))
}

/// Returns the prompt of a review: a call of the skill `review`.
fn review_prompt(review: ReviewArgs) -> Result<String, Failure> {
    let what = match review {
        ReviewArgs { uncommitted: true, .. } => {
            "the uncommitted changes: staged, unstaged and new files".to_owned()
        }
        ReviewArgs { base: Some(branch), .. } => {
            format!("the changes since the merge base of HEAD and the branch {branch}")
        }
        ReviewArgs { commit: Some(commit), title: Some(title), .. } => {
            format!("the commit {commit} ({title})")
        }
        ReviewArgs { commit: Some(commit), .. } => format!("the commit {commit}"),
        // Piped text is added to every prompt.
        ReviewArgs { prompt: Some(prompt), .. } if prompt == "-" => "as the piped text says".to_owned(),
        ReviewArgs { prompt: Some(prompt), .. } => prompt,
        _ => {
            return Err(Failure::usage("there is nothing to review yet")
                .hint("give --uncommitted, --base BRANCH, --commit SHA, or say what to look for"));
        }
    };
    Ok(format!("/review {what}"))
}

fn note_unknown(configured: &CodexConfig, settings: &ExecSettings) -> Result<(), Failure> {
    let features = settings.enable.iter().chain(&settings.disable).map(|name| format!("features.{name}"));
    for key in configured.unknown.iter().cloned().chain(features) {
        if settings.strict_config {
            return Err(Failure::usage(format!("-c {key}: becket has no such setting"))
                .hint("leave it out, or leave out --strict-config"));
        }
        let _ = writeln!(io::stderr(), "becket: the setting -c {key} is not known here and has no effect");
    }
    Ok(())
}

/// Returns the model. A bare name is one of the chosen provider, or of OpenAI as in scripts for `codex exec`.
fn model(configured: &CodexConfig, options: &ExecOptions) -> Result<Option<String>, Failure> {
    let local = options.settings.local_provider.as_deref();
    let provider = match (options.settings.oss, local) {
        (true, None | Some("ollama")) => Some("ollama"),
        (true, Some("lmstudio")) => Some("lmstudio"),
        (true, Some(other)) => {
            return Err(Failure::usage(format!("--local-provider: unknown provider {other:?}"))
                .hint("use ollama or lmstudio; another server: -m PROVIDER/NAME"));
        }
        (false, _) => configured.provider.as_deref().filter(|name| *name != "openai"),
    };
    let name = options.model.as_deref().or(configured.model.as_deref());
    Ok(match (provider, name) {
        // The models that Codex uses by default with these local servers.
        (Some("ollama"), None) => Some("ollama/gpt-oss:20b".to_owned()),
        (Some("lmstudio"), None) => Some("lmstudio/openai/gpt-oss-20b".to_owned()),
        (Some(provider), None) => {
            return Err(Failure::usage(format!("-c model_provider={provider} needs a model"))
                .hint("name it: -m NAME"));
        }
        (Some(provider), Some(name)) => {
            let named = name.strip_prefix(provider).is_some_and(|rest| rest.starts_with('/'));
            let is_file = ["script:", "replay:"].iter().any(|kind| name.starts_with(kind));
            Some(if named || is_file { name.to_owned() } else { format!("{provider}/{name}") })
        }
        (None, Some(name)) => Some(match becket_model::ModelRef::parse(name) {
            Ok(_) => name.to_owned(),
            Err(_) => format!("openai/{name}"),
        }),
        (None, None) => None,
    })
}

/// Returns the settings of a profile, with those of `-c` over them, in the form of `--settings`.
fn settings(
    environment: &Environment,
    profile: Option<&str>,
    given: Value,
) -> Result<Option<String>, Failure> {
    let mut whole = Value::Null;
    if let Some(name) = profile {
        let path = environment.config_dir.join(format!("{name}.config.toml"));
        let is_name = !name.is_empty() && !name.contains(['/', '\\']);
        let text = if is_name {
            becket_config::read_text(&path).map_err(|error| Failure::usage(error.to_string()))?
        } else {
            None
        };
        let text = text.ok_or_else(|| {
            Failure::usage(format!("--profile {name}: there is no file {}", path.display())).hint(
                "a profile has settings in the form of config.toml; -p means profile here, as in codex exec",
            )
        })?;
        whole = toml::from_str(&text)
            .map_err(|error| Failure::usage(format!("{}: {}", path.display(), error.message())))?;
    }
    config::put_table(&mut whole, given);
    Ok((!whole.is_null()).then(|| whole.to_string()))
}

fn confine(
    environment: &Environment,
    run: &mut Run,
    configured: &mut CodexConfig,
    options: &ExecOptions,
) -> Result<(), Failure> {
    let level = options.sandbox.clone().or(configured.sandbox.take());
    let level = match level.as_deref() {
        _ if options.shortcuts.dangerously_bypass_approvals_and_sandbox => "danger-full-access",
        None if options.shortcuts.full_auto => "workspace-write",
        None => "read-only",
        Some(level) => level,
    };
    let (mode, sandbox) = match level {
        "read-only" => ("auto", "read-only"),
        "workspace-write" => ("auto", "auto"),
        "danger-full-access" => ("bypassPermissions", "off"),
        other => {
            return Err(Failure::usage(format!("--sandbox: unknown level {other:?}"))
                .hint("use read-only, workspace-write or danger-full-access"));
        }
    };
    match level {
        "read-only" => run.permissions.disallowed_tools.push("Edit".to_owned()),
        "workspace-write" => configured.open_temporary_folders(environment, run),
        _ => {}
    }
    run.permissions.permission_mode = Some(mode.to_owned());
    run.permissions.sandbox = Some(sandbox.to_owned());
    Ok(())
}

fn image(path: &Path) -> Result<Part, Failure> {
    use base64::Engine as _;
    let cannot = |why: String| Failure::usage(format!("--image {}: {why}", path.display()));
    let bytes = becket_files::read(path, MAX_IMAGE_BYTES).map_err(|e| match e.kind() {
        std::io::ErrorKind::FileTooLarge => cannot("the file is larger than 20 MB".to_owned()),
        _ => cannot(e.to_string()),
    })?;
    let media_type = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, ..] => "image/jpeg",
        [b'G', b'I', b'F', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return Err(cannot("it is no PNG, JPEG, GIF or WebP image".to_owned())),
    };
    let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
    Ok(Part::Image {
        media_type: media_type.to_owned(),
        source: ImageSource::Base64(data),
        name: None,
        width: None,
        height: None,
        extra: serde_json::Map::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Sub, Subcommands};
    use clap::Parser as _;
    use std::path::PathBuf;

    fn parse(words: &[&str]) -> ExecArgs {
        let words = ["becket", "exec"].iter().chain(words);
        match Sub::try_parse_from(words).unwrap().command {
            Subcommands::Exec(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn of(words: &[&str]) -> (Run, Environment) {
        let mut environment = Environment::below(Path::new("/nowhere"));
        let run = translate(&mut environment, parse(words)).unwrap();
        (run, environment)
    }

    #[test]
    fn arguments_of_the_sdk_are_understood() {
        let (run, environment) = of(&[
            "--experimental-json",
            "--config",
            "openai_base_url=\"http://127.0.0.1:1/v1\"",
            "--model",
            "gpt-x",
            "--sandbox",
            "workspace-write",
            "--cd",
            "/tmp",
            "--skip-git-repo-check",
            "--config",
            "model_reasoning_effort=\"high\"",
            "--config",
            "approval_policy=\"never\"",
            "resume",
            "abc",
            "--image",
            "/tmp/a.png",
        ]);
        assert_eq!(run.session.resume.as_deref(), Some("abc"));
        assert_eq!(run.model.effort.as_deref(), Some("high"));
        assert_eq!(run.permissions.permission_mode.as_deref(), Some("auto"));
        assert_eq!(environment.var("OPENAI_BASE_URL"), Some("http://127.0.0.1:1/v1"));
        assert_eq!(
            parse(&["--json", "resume", "abc", "--image", "a.png"]).options.image,
            [PathBuf::from("a.png")]
        );
    }

    #[test]
    fn resume_takes_the_newest_or_a_named_thread() {
        let (run, _) = of(&["resume", "--last", "go on"]);
        assert_eq!((run.session.continue_, run.prompt.as_deref()), (true, Some("go on")));
        let (run, _) = of(&["resume", "abc", "go on"]);
        assert_eq!((run.session.resume.as_deref(), run.prompt.as_deref()), (Some("abc"), Some("go on")));
        let (run, _) = of(&["just this"]);
        assert_eq!(run.prompt.as_deref(), Some("just this"));
    }

    #[test]
    fn levels_become_modes_and_values_are_read() {
        let levels = [
            (&["x"][..], "auto", "read-only"),
            (&["--full-auto", "x"], "auto", "auto"),
            (&["-c", "sandbox_mode='workspace-write'", "x"], "auto", "auto"),
            (&["--yolo", "x"], "bypassPermissions", "off"),
        ];
        for (words, mode, sandbox) in levels {
            let (run, _) = of(words);
            let got = (run.permissions.permission_mode.unwrap(), run.permissions.sandbox.unwrap());
            assert_eq!(got, (mode.to_owned(), sandbox.to_owned()), "{words:?}");
        }
        let mut environment = Environment::below(Path::new("/nowhere"));
        assert!(translate(&mut environment, parse(&["-s", "all", "x"])).is_err());
        assert!(translate(&mut environment, parse(&["--strict-config", "-c", "a.b=1", "x"])).is_err());
        assert!(translate(&mut environment, parse(&["--strict-config", "--enable", "a", "x"])).is_err());
    }

    #[test]
    fn a_provider_gives_its_name_to_the_model() {
        for (words, model) in [
            (&["-m", "gpt-x", "t"][..], Some("gpt-x")),
            (&["-m", "of-my-server", "t"], Some("openai/of-my-server")),
            (&["-m", "anthropic/claude-x", "t"], Some("anthropic/claude-x")),
            (&["--oss", "t"], Some("ollama/gpt-oss:20b")),
            (&["--oss", "-m", "qwen3:8b", "t"], Some("ollama/qwen3:8b")),
            (&["--oss", "--local-provider", "lmstudio", "t"], Some("lmstudio/openai/gpt-oss-20b")),
            (&["-c", "model_provider=corp", "-m", "x/y", "t"], Some("corp/x/y")),
            (&["-c", "model_provider=corp", "-m", "corp/y", "t"], Some("corp/y")),
            (&["-c", "model_provider=openai", "-c", "model=gpt-x", "t"], Some("gpt-x")),
            (&["-m", "new", "-c", "model=old", "t"], Some("openai/new")),
            (&["t"], None),
        ] {
            assert_eq!(of(words).0.model.model.as_deref(), model, "{words:?}");
        }
        let mut environment = Environment::below(Path::new("/nowhere"));
        for words in [&["-c", "model_provider=corp", "t"][..], &["--oss", "--local-provider", "vllm", "t"]] {
            assert!(translate(&mut environment, parse(words)).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_review_and_a_fork_are_runs() {
        for (words, prompt) in [
            (
                &["review", "--uncommitted"][..],
                "/review the uncommitted changes: staged, unstaged and new files",
            ),
            (
                &["review", "--base", "main"],
                "/review the changes since the merge base of HEAD and the branch main",
            ),
            (&["review", "--commit", "abc", "--title", "Fix it"], "/review the commit abc (Fix it)"),
            (&["review", "look at the locks"], "/review look at the locks"),
        ] {
            assert_eq!(of(words).0.prompt.as_deref(), Some(prompt), "{words:?}");
        }
        let (run, _) = of(&["fork", "abc", "try another way"]);
        assert_eq!((run.session.resume.as_deref(), run.session.fork_session), (Some("abc"), true));
        let mut environment = Environment::below(Path::new("/nowhere"));
        for words in [
            &["review"][..],
            &["--worktree", "t"],
            &["--remote", "ws://h", "t"],
            &["-p", "none", "t"],
            &["-p", "../x", "t"],
        ] {
            assert!(translate(&mut environment, parse(words)).is_err(), "{words:?}");
        }
    }

    #[test]
    fn settings_override_those_of_a_profile() {
        let dir = tempfile::tempdir().unwrap();
        let mut environment = Environment::below(dir.path());
        std::fs::create_dir_all(&environment.config_dir).unwrap();
        let profile = "effort = \"low\"\n[sandbox]\nnetwork = \"none\"\nmode = \"auto\"\n";
        std::fs::write(environment.config_dir.join("fast.config.toml"), profile).unwrap();
        let words = ["-p", "fast", "-c", "sandbox_workspace_write.network_access=true", "t"];
        let run = translate(&mut environment, parse(&words)).unwrap();
        let settings: Value = serde_json::from_str(&run.config.settings.unwrap()).unwrap();
        assert_eq!(
            settings,
            serde_json::json!({"effort": "low", "sandbox": {"network": "full", "mode": "auto"}})
        );
    }

    #[test]
    fn work_begins_only_in_a_repository() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        assert!(check_repository(&deep).unwrap_err().to_string().contains("--skip-git-repo-check"));
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        assert!(check_repository(&deep).is_err(), "an empty folder is no repository");
        std::fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        check_repository(&deep).unwrap();
        std::fs::write(deep.join(".git"), "gitdir: elsewhere\n").unwrap();
        check_repository(&deep).unwrap();
    }
}
