//! `becket exec`: a run with the arguments, the output lines and the exit codes of `codex exec`.
//!
//! Only translates: its arguments become those of a run. The sandbox levels have these meanings: `read-only` reads and
//! runs confined commands, `workspace-write` also changes files of the workspace, and `danger-full-access` asks about
//! nothing. Nobody can be asked at any level, so calls that need a question are denied.

use crate::args::{ExecArgs, ExecOptions, ExecWhat, InputFormat, OutputFormat, Run};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::RunSettings;
use becket_print::{ExitStatus, Format};
use becket_types::{ImageSource, Part};
use clap::Parser as _;
use std::io::{self, Write as _};
use std::path::Path;

/// Largest image file in bytes.
const MOST_BYTES: u64 = 20 * 1024 * 1024;

/// Settings of `-c` that are harmless to ignore.
const WITHOUT_EFFECT: [&str; 9] = [
    "approval_policy",
    "model_provider",
    "hide_agent_reasoning",
    "show_raw_agent_reasoning",
    "model_reasoning_summary",
    "model_verbosity",
    "disable_response_storage",
    "personality",
    "check_for_update_on_startup",
];

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
    let images = args.options.image.iter().map(|path| image(path)).collect::<Result<Vec<_>, _>>()?;
    let run = translated(environment, args)?;
    let mut settings = RunSettings::new(run, environment)?;
    settings.task.images = images;
    settings.client.driven = true;
    // The flags of the run are not those that the user wrote.
    settings.task.no_prompt = "becket exec \"task\", or pipe it in: echo \"task\" | becket exec";
    settings.output.format = if json { Format::Codex } else { Format::Text };
    let status = crate::runtime()?.block_on(crate::headless::run(environment, settings))?;
    // Scripts expect only 0 and 1.
    Ok(match status {
        ExitStatus::Ok | ExitStatus::PermissionDenied | ExitStatus::NotSaved => ExitStatus::Ok,
        ExitStatus::Usage | ExitStatus::Interrupted | ExitStatus::Terminated => status,
        _ => ExitStatus::Error,
    })
}

fn translated(environment: &mut Environment, args: ExecArgs) -> Result<Run, Failure> {
    let ExecArgs { prompt, what, options } = args;
    let mut run = Run::try_parse_from(["becket", "-p"])
        .map_err(|error| Failure::error(format!("cannot begin: {error}")))?;
    run.output.input_format = InputFormat::Text;
    run.output.output_format = OutputFormat::Text;
    run.prompt = prompt;
    if let Some(ExecWhat::Resume { session, prompt, last }) = what {
        // With `--last`, a single word is the task.
        let (session, task) = if last { (None, session.or(prompt)) } else { (session, prompt) };
        run.prompt = task;
        match session {
            Some(session) => run.session.resume = Some(session),
            None => run.session.continue_ = true,
        }
    }
    run.session.no_session_persistence = options.ephemeral;
    run.output.output_last_message.clone_from(&options.output.output_last_message);
    run.output.output_schema.clone_from(&options.output.output_schema);
    run.model.model = options.model.as_deref().map(model);
    run.config.cd.clone_from(&options.cd);
    run.permissions.add_dir.clone_from(&options.add_dir);
    if options.ignore_user_config {
        run.config.setting_sources = Some(vec!["project".to_owned(), "local".to_owned()]);
    }
    let mut sandbox = options.sandbox.clone();
    for setting in &options.config {
        configured(environment, &mut run, &mut sandbox, setting, &options)?;
    }
    confine(&mut run, sandbox.as_deref(), &options)?;
    Ok(run)
}

/// A bare name is a model of OpenAI, as in scripts for `codex exec`.
fn model(name: &str) -> String {
    match becket_model::ModelRef::parse(name) {
        Ok(_) => name.to_owned(),
        Err(_) => format!("openai/{name}"),
    }
}

fn configured(
    environment: &mut Environment,
    run: &mut Run,
    sandbox: &mut Option<String>,
    setting: &str,
    options: &ExecOptions,
) -> Result<(), Failure> {
    let (key, value) = setting.split_once('=').ok_or_else(|| {
        Failure::usage(format!("-c {setting:?} is not a setting")).hint("write -c key=value")
    })?;
    let (key, value) = (key.trim(), text(value.trim()));
    match key {
        "model" => run.model.model = run.model.model.take().or_else(|| Some(model(&value))),
        "model_reasoning_effort" => {
            run.model.effort = Some(match value.as_str() {
                "minimal" | "none" => "low".to_owned(),
                _ => value,
            });
        }
        "openai_base_url" => {
            environment.vars.insert("OPENAI_BASE_URL".to_owned(), value);
        }
        "sandbox_mode" => *sandbox = sandbox.take().or(Some(value)),
        "developer_instructions" => run.prompts.append_system_prompt = Some(value),
        "model_instructions_file" => run.prompts.system_prompt_file = Some(value.into()),
        "model_context_window" => run.model.context_window = Some(value),
        "web_search" if value == "disabled" => {
            run.permissions.disallowed_tools.extend(["WebSearch".to_owned(), "WebFetch".to_owned()]);
        }
        "web_search" => run.permissions.allowed_tools.extend(["WebSearch".to_owned(), "WebFetch".to_owned()]),
        "sandbox_workspace_write.network_access" if value == "true" => {
            run.config.settings = Some("{\"sandbox\":{\"network\":\"full\"}}".to_owned());
        }
        "sandbox_workspace_write.network_access" => {}
        _ if WITHOUT_EFFECT.contains(&key) => {}
        _ if options.strict_config => {
            return Err(Failure::usage(format!("-c {key}: becket has no such setting"))
                .hint("leave it out, or leave out --strict-config"));
        }
        _ => {
            let _ =
                writeln!(io::stderr(), "becket: the setting -c {key} is not known here and has no effect");
        }
    }
    Ok(())
}

/// Returns a value of `-c`: a TOML string without its quotes, any other text unchanged.
fn text(value: &str) -> String {
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match quoted {
        Some(_) => serde_json::from_str(value).unwrap_or_else(|_| value.trim_matches('"').to_owned()),
        None => value.strip_prefix('\'').and_then(|v| v.strip_suffix('\'')).unwrap_or(value).to_owned(),
    }
}

fn confine(run: &mut Run, level: Option<&str>, options: &ExecOptions) -> Result<(), Failure> {
    let level = match level {
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
    if level == "read-only" {
        run.permissions.disallowed_tools.push("Edit".to_owned());
    }
    run.permissions.permission_mode = Some(mode.to_owned());
    run.permissions.sandbox = Some(sandbox.to_owned());
    Ok(())
}

fn image(path: &Path) -> Result<Part, Failure> {
    use base64::Engine as _;
    let cannot = |why: String| Failure::usage(format!("--image {}: {why}", path.display()));
    let bytes = becket_files::read(path, MOST_BYTES).map_err(|e| match e.kind() {
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
        let run = translated(&mut environment, parse(words)).unwrap();
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
        assert_eq!(text("\"a\\\"b\""), "a\"b");
        assert_eq!((text("'a'"), text("true")), ("a".to_owned(), "true".to_owned()));
        let mut environment = Environment::below(Path::new("/nowhere"));
        assert!(translated(&mut environment, parse(&["-s", "all", "x"])).is_err());
        assert!(translated(&mut environment, parse(&["--strict-config", "-c", "a.b=1", "x"])).is_err());
    }
}
