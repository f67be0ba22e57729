//! becket: the binary. Contains arguments, wiring and subcommands; nothing else.
//!
//! Owns all access to the environment of the process: it is the only crate that prints, exits, or reads HOME and other
//! variables. Contains no agent logic. [`settings`] interprets the arguments, [`assemble`] builds the agent from the
//! libraries, and a front end ([`headless`], [`interactive`]) handles the events.

mod agents;
mod args;
mod assemble;
mod chosen_models;
mod clock;
mod cmd;
mod command_files;
mod dialect;
mod disk;
mod environment;
mod exec;
mod failure;
mod federation;
mod foreign_session;
mod git_config_files;
mod guard;
mod guardian;
mod headless;
mod hooks;
mod integrations;
mod interactive;
mod key_command;
mod keychain;
mod keys;
mod lock_file;
mod masked_writer;
mod mcp;
mod model_names;
mod models;
mod no_model;
mod plugins;
mod program_lookup;
mod providers;
mod recorded_results;
mod recorded_settings;
mod refreshed_models;
mod replay;
mod resume_point;
mod sandbox;
mod servers;
mod settings;
mod shown_warnings;
mod slash;
mod stdin;
mod storage;
mod structured;
mod sys;
mod toolbox;
mod trust;

use args::{NotATask, Sub, Subcommands};
use becket_print::ExitStatus;
use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use environment::Environment;
use failure::{Failure, unwritten};
use masked_writer::MaskedWriter;
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == becket_sandbox::helper::WORD => {
            let (code, message) = becket_sandbox::helper::run(words);
            if !message.is_empty() {
                let _ = writeln!(io::stderr(), "{message}");
            }
            return ExitCode::from(code);
        }
        Some(word) if word == guardian::ARGUMENT => {
            guardian::watch(&words.next().unwrap_or_default().to_string_lossy());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    sys::hide_from_others();
    let status = match dispatch() {
        Ok(status) => status,
        Err(failure) => {
            if !failure.message.is_empty() {
                let _ = writeln!(io::stderr(), "{failure}");
                tell_as_json(&failure);
            }
            failure.status
        }
    };
    // Threads that wait for stdin must not keep the process alive.
    let _ = io::stdout().flush();
    exit(status)
}

#[expect(clippy::exit, reason = "a thread blocked on stdin would keep the process alive")]
fn exit(status: ExitStatus) -> ExitCode {
    std::process::exit(i32::from(status.code()))
}

/// Prints the failure as JSON on stdout if the arguments ask for JSON, because a program reads stdout.
fn tell_as_json(failure: &Failure) {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let error =
        json!({ "message": failure.message, "hint": failure.hint, "exit_code": failure.status.code() });
    let is_command = words.first().is_some_and(|word| args::SUBCOMMANDS.contains(&word.as_str()));
    // `becket exec` prints events of Codex, which has no event for a run that cannot begin.
    if words.first().is_some_and(|word| ["exec", "e"].contains(&word.as_str())) {
        return;
    }
    let line = if is_command && words.iter().any(|word| word == "--json") {
        json!({ "error": error })
    } else if !is_command && failure.status == ExitStatus::Usage && args::wants_json(&words) {
        // The object has the same form as the result of a run, so that a program needs one parser.
        json!({
            "type": "result", "subtype": "error_usage", "is_error": true, "num_turns": 0, "result": "",
            "errors": [failure.message], "error": error,
        })
    } else {
        return;
    };
    let _ = writeln!(io::stdout(), "{}", becket_print::clean_json(&line.to_string()));
}

fn dispatch() -> Result<ExitStatus, Failure> {
    let first = std::env::args_os().nth(1);
    let is_sub = first.as_ref().and_then(|a| a.to_str()).is_some_and(|a| args::SUBCOMMANDS.contains(&a));
    if is_sub {
        return match Sub::try_parse() {
            Ok(sub) => command(sub),
            Err(error) => {
                let words: Vec<OsString> = std::env::args_os().skip(1).collect();
                match cmd::login::key_as_argument(&error, &words) {
                    Some(failure) => Err(failure),
                    None => refused_command(&error, &std::env::args_os().collect::<Vec<_>>()),
                }
            }
        };
    }
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(words) = args::exec_first(&arguments) {
        return command_of(words);
    }
    let entrypoint = std::env::var("CLAUDE_CODE_ENTRYPOINT").ok();
    let driven = args::is_driven(&arguments, entrypoint.as_deref());
    let mut unused = Vec::new();
    if driven {
        let (understood, mut warnings) = args::drop_unknown_flags(&arguments);
        warnings.extend(args::unused_variables(|name| std::env::var_os(name).is_some()));
        arguments = understood;
        for text in &warnings {
            let _ = writeln!(io::stderr(), "becket: {text}");
        }
        unused = warnings;
    }
    let mut run = match args::parse_run(&arguments) {
        Ok(run) => run,
        Err(error) => {
            return match args::command_after_options(&arguments) {
                Some(words) => command_of(words),
                None => mistyped(error, &arguments),
            };
        }
    };
    if let Some(words) = args::command_first(&run, &arguments) {
        return command_of(words);
    }
    // A program sends messages, so there is no terminal to draw on.
    run.print |= run.output.input_format == args::InputFormat::StreamJson;
    let print = run.print;
    let mut draft = None;
    if let Some(found) = args::bare_word(&run, &arguments) {
        let may_ask = io::stdin().is_terminal() && io::stdout().is_terminal() && !run.output.ax;
        if found.instead.is_some() || !may_ask {
            return Err(no_task(&found));
        }
        // The text is sent only when the user presses Enter. Until then it costs nothing.
        draft = run.prompt.take();
    }
    let mut environment = storage::connect_store(Environment::read())?;
    environment.load_plugins(&run.agents.plugins.dirs());
    let takes_more = run.output.input_format == args::InputFormat::StreamJson;
    let again = (!print || takes_more).then(|| run.clone());
    let mut settings = settings::RunSettings::new(run, &environment)?;
    settings.client.driven = driven;
    settings.client.unused = unused;
    let runtime = runtime()?;
    match again {
        Some(again) if !print => runtime.block_on(interactive::run(&environment, settings, again, draft)),
        again => {
            settings.client.arguments = again.map(Box::new);
            runtime.block_on(headless::run(&environment, settings))
        }
    }
}

/// Runs the subcommand in these arguments.
fn command_of(words: Vec<OsString>) -> Result<ExitStatus, Failure> {
    match Sub::try_parse_from(&words) {
        Ok(sub) => command(sub),
        Err(error) => refused_command(&error, &words),
    }
}

/// Handles arguments of a command that clap refuses. A mistyped command of `becket sessions` gets a suggestion.
fn refused_command(error: &clap::Error, arguments: &[OsString]) -> Result<ExitStatus, Failure> {
    let after_config = arguments.get(1).is_some_and(|word| word == "config")
        && arguments.get(2).is_some_and(|word| {
            ["set", "get", "unset", "add", "edit", "list", "show"].iter().any(|verb| word == verb)
        });
    if after_config {
        let file = Environment::read().config_dir.join("config.toml");
        return Err(Failure::usage("`becket config` shows the settings and changes none")
            .hint(format!("write them into {}; `becket config` alone lists the keys", file.display())));
    }
    let Some(word) = args::unknown_sessions_command(error, arguments) else { return clap_exit(error) };
    let hint = args::nearest_sessions_command(word, arguments).unwrap_or_else(|| args::search_of(arguments));
    let failure = Failure::usage(format!("becket sessions has no command `{word}`"));
    Err(failure.hint(format!("type: {hint}")))
}

fn command(sub: Sub) -> Result<ExitStatus, Failure> {
    match sub.command {
        Subcommands::Exec(args) => exec::run(&mut storage::connect_store(Environment::read())?, *args),
        Subcommands::Replay(args) => replay::run(&storage::connect_store(Environment::read())?, &args),
        other => subcommand(other),
    }
}

/// Handles arguments that clap refuses. A mistyped command gets a suggestion, whatever follows it.
fn mistyped(mut error: clap::Error, arguments: &[OsString]) -> Result<ExitStatus, Failure> {
    let is_extra = error.kind() == ErrorKind::UnknownArgument;
    match args::not_a_command(arguments).filter(|_| is_extra) {
        Some(found) => Err(no_task(&found)),
        None => match args::unquoted(&error, arguments) {
            Some(task) => Err(Failure::usage("a task is one argument, and this one has several words")
                .hint(format!("put it in quotes: {task}"))),
            None => {
                drop_task_tip(&mut error);
                clap_exit(&error)
            }
        },
    }
}

/// Removes the tip to write an unknown option after `--`: it would be sent as a task, and cost money.
fn drop_task_tip(error: &mut clap::Error) {
    let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested) else { return };
    let kept: Vec<_> = tips.into_iter().filter(|tip| !tip.to_string().starts_with("to pass ")).collect();
    if !kept.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(kept));
    }
}

fn no_task(found: &NotATask) -> Failure {
    let NotATask { word, after_print, instead, as_task } = found;
    let failure = Failure::usage(match after_print {
        true => format!("`{word}` looks like a command, so it is not sent as a task"),
        false => format!("there is no command `{word}`"),
    });
    let first = instead.as_ref().map_or_else(|| "all commands: becket help".to_owned(), ToString::to_string);
    failure.hint(format!("{first}; to send the word as a task: {as_task}"))
}

/// SIGXFSZ, "File size limit exceeded": the same number on Linux and macOS.
const SIGXFSZ: i32 = 25;

/// Creates a runtime with one thread: see `docs/decisions/0003-one-thread.md`.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let failed = |e: io::Error| Failure::error(format!("cannot start: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(16)
        .build()
        .map_err(failed)?;
    // A write beyond `ulimit -f` then fails like any other write instead of ending the process. The handler outlives
    // its stream. Programs that becket starts get the default handler again.
    let inside = runtime.enter();
    drop(signal(SignalKind::from_raw(SIGXFSZ)).map_err(failed)?);
    drop(inside);
    Ok(runtime)
}

/// Prints help and version to stdout, mistakes to stderr with code 2, and with `--json` to stdout as well.
fn clap_exit(error: &clap::Error) -> Result<ExitStatus, Failure> {
    let printed = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            printed.map(|()| ExitStatus::Ok).map_err(|error| unwritten(&error))
        }
        _ => {
            let text = error.to_string();
            // The names of missing arguments are lines of the first paragraph.
            let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
            let first = lines.join(" ");
            let failure = Failure::usage(first.strip_prefix("error: ").unwrap_or(&first));
            let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
            tell_as_json(&match tip {
                Some(tip) => failure.hint(tip),
                None => failure,
            });
            Ok(ExitStatus::Usage)
        }
    }
}

/// True for commands that print titles, texts, calls or rules. Secrets in them are masked, as in exports.
fn prints_parts_of_sessions(command: &Subcommands) -> bool {
    use Subcommands::{
        Agents, Audit, Auth, Compact, Completions, Config, Context, Cost, Demo, Doctor, Exec, Export, Help,
        Hooks, Import, Login, Logout, Man, Mcp, Models, Permissions, Redo, Replay, Rewind, Sandbox,
        Screenshot, Sessions, Undo, Verify, Version,
    };
    match command {
        Sessions(_) | Context(_) | Compact(_) | Cost(_) | Import(_) | Undo(_) | Redo(_) | Rewind(_)
        | Audit(_) | Verify(_) | Permissions(_) | Hooks(_) | Agents(_) => true,
        Mcp(args) => !matches!(args.what, args::McpWhat::Serve { .. } | args::McpWhat::Login { .. }),
        // An export masks what it writes, unless `--with-secrets` asks for an exact copy. The other commands print no part of a
        // session, or they pass on what a program prints, which is not changed.
        Exec(_) | Replay(_) | Demo(_) | Doctor(_) | Config(_) | Models(_) | Login(_) | Logout(_)
        | Auth(_) | Export(_) | Screenshot(_) | Help(_) | Version | Completions(_) | Man(_) | Sandbox(_) => {
            false
        }
    }
}

/// True for commands that read and write nothing in becket's own folders.
fn uses_no_folder(command: &Subcommands) -> bool {
    use Subcommands::{Completions, Demo, Help, Man, Sandbox, Screenshot, Version};
    matches!(command, Help(_) | Version | Completions(_) | Man(_) | Sandbox(_) | Screenshot(_) | Demo(_))
}

fn subcommand(command: Subcommands) -> Result<ExitStatus, Failure> {
    let mut environment = storage::connect_store(Environment::read())?;
    let notes = environment.notes.len();
    environment.load_plugins(&command.plugin_dirs());
    // Notes about folders matter to commands that keep something there, such as a key.
    let from = if uses_no_folder(&command) { notes } else { 0 };
    for note in &environment.notes[from..] {
        let _ = writeln!(io::stderr(), "becket: {}", becket_print::clean(note));
    }
    let stdout = io::BufWriter::new(io::stdout().lock());
    // Escape sequences in titles, paths and texts must not reach a terminal. The picture of a screenshot is binary.
    let mut out: Box<dyn Write> = if matches!(command, Subcommands::Screenshot(_)) {
        Box::new(stdout)
    } else if std::env::args_os().any(|word| word == "--json") {
        Box::new(becket_print::CleanWriter::of_json(stdout))
    } else if io::stdout().is_terminal() {
        Box::new(becket_print::CleanWriter::new(stdout))
    } else {
        Box::new(stdout)
    };
    if prints_parts_of_sessions(&command) {
        out = Box::new(MaskedWriter::new(out));
    }
    let result = match command {
        // `dispatch` has handled them already, because they are runs and not commands.
        Subcommands::Exec(_) | Subcommands::Replay(_) => Ok(ExitStatus::Ok),
        Subcommands::Demo(args) => cmd::demo::run(&environment, &args, &mut out),
        Subcommands::Sessions(args) => settings::enter(args.work.cd.as_deref())
            .and_then(|cwd| cmd::sessions::run(&environment, &cwd, &args, &mut out))
            .map(|()| ExitStatus::Ok),
        Subcommands::Context(args) => settings::enter(args.work.cd.as_deref())
            .and_then(|cwd| cmd::context::run(&environment, &cwd, &args, &mut out))
            .map(|()| ExitStatus::Ok),
        Subcommands::Compact(args) => settings::enter(args.work.cd.as_deref())
            .and_then(|cwd| cmd::compact::run(&environment, &cwd, &args, &mut out))
            .map(|()| ExitStatus::Ok),
        Subcommands::Cost(args) => settings::enter(args.work.cd.as_deref())
            .and_then(|cwd| cmd::cost::run(&environment, &cwd, &args, &mut out))
            .map(|()| ExitStatus::Ok),
        Subcommands::Doctor(args) => settings::enter(args.cd.as_deref())
            .and_then(|cwd| cmd::doctor::run(&environment, &cwd, &args, &mut out)),
        Subcommands::Config(args) => settings::enter(args.config.cd.as_deref())
            .and_then(|cwd| cmd::config::run(&environment, &cwd, &args, &mut out))
            .map(|()| ExitStatus::Ok),
        Subcommands::Models(args) => settings::enter(args.cd.as_deref())
            .and_then(|cwd| cmd::models::run(&environment, &cwd, &args, &mut out)),
        Subcommands::Agents(args) => settings::enter(args.cd.as_deref())
            .and_then(|cwd| cmd::agents::run(&environment, &cwd, &args, &mut out))
            .map(|()| ExitStatus::Ok),
        Subcommands::Login(args) => {
            settings::enter(None).and_then(|cwd| cmd::login::login(&environment, &cwd, &args, &mut out))
        }
        Subcommands::Logout(args) => {
            settings::enter(None).and_then(|cwd| cmd::login::logout(&environment, &cwd, &args, &mut out))
        }
        Subcommands::Auth(args) => {
            let args::AuthCommand::Status(args) = args.command;
            settings::enter(None).and_then(|cwd| cmd::login::status(&environment, &cwd, &args, &mut out))
        }
        Subcommands::Export(args) => settings::enter(args.cd.as_deref())
            .and_then(|cwd| cmd::export::run(&environment, &cwd, &args, &mut out))
            .map(|masked| {
                if let Some(told) = cmd::export::masked_note(masked, args.format) {
                    let _ = writeln!(std::io::stderr(), "becket: {told}");
                }
                ExitStatus::Ok
            }),
        Subcommands::Import(args) => settings::enter(args.work.cd.as_deref())
            .and_then(|cwd| cmd::import::run(&environment, &cwd, &args, &mut out))
            .map(|()| ExitStatus::Ok),
        Subcommands::Screenshot(args) => cmd::screenshot::run(&args, &mut out).map(|()| ExitStatus::Ok),
        Subcommands::Help(args) => cmd::help::help(&args, &mut out).map(|()| ExitStatus::Ok),
        Subcommands::Version => cmd::help::version(&mut out).map(|()| ExitStatus::Ok),
        Subcommands::Completions(args) => cmd::help::completions(&args, &mut out).map(|()| ExitStatus::Ok),
        Subcommands::Man(args) => cmd::help::man(&args, &mut out).map(|()| ExitStatus::Ok),
        Subcommands::Undo(args) => settings::enter(args.work.cd.as_deref())
            .and_then(|cwd| cmd::undo::run(&environment, &cwd, &args, &mut out)),
        Subcommands::Redo(args) => settings::enter(args.work.cd.as_deref())
            .and_then(|cwd| cmd::redo::run(&environment, &cwd, &args, &mut out)),
        Subcommands::Audit(args) => cmd::audit::run(&environment, &args, &mut out).map(|()| ExitStatus::Ok),
        Subcommands::Verify(args) => settings::enter(args.cd.as_deref())
            .and_then(|cwd| cmd::verify::run(&environment, &cwd, &args, &mut out)),
        Subcommands::Mcp(args) => settings::enter(args.config.cd.as_deref())
            .and_then(|cwd| cmd::mcp::run(&environment, &cwd, &args, &mut out)),
        Subcommands::Permissions(args) => cmd::permissions::run(&environment, &args, &mut out),
        Subcommands::Hooks(args) => cmd::hooks::run(&environment, &args, &mut out),
        Subcommands::Sandbox(args) => settings::enter(args.config.cd.as_deref())
            .and_then(|cwd| cmd::sandbox::run(&environment, &cwd, &args, &mut out)),
        Subcommands::Rewind(args) => settings::enter(args.work.cd.as_deref())
            .and_then(|cwd| cmd::rewind::run(&environment, &cwd, &args, &mut out)),
    };
    result.and_then(|status| out.flush().map(|()| status).map_err(|error| unwritten(&error)))
}
