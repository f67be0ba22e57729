//! `becket --print`: one loop between the agent, the printer, stdin and signals.
//!
//! Owns the start and the end of a headless run. `front` is the loop, and `lines` reads the input of a driving program. `commands` reports
//! changes of the slash commands to that program, and `jobs` reports commands in the background. `opening` handles its first request,
//! `control` answers its other requests, and `link` sends requests to it.

mod commands;
mod control;
mod debug_file;
mod figures;
mod front;
mod jobs;
mod known_commands;
mod late_settings;
mod lines;
mod link;
mod local;
mod opening;
mod permission_tool;
mod prompts;
mod running_calls;
mod waits;

use crate::args::InputFormat;
use crate::assemble::{Assembled, OpenedSession, assemble, discard_if_unused};
use crate::environment::Environment;
use crate::failure::{Failure, unwritten};
use crate::settings::RunSettings;
use crate::slash::Slash;
use crate::stdin::{self, PipedInput};
use becket_print::{ExitStatus, Format, PrintOptions, Printer, Schema, SessionFacts};
use becket_types::{
    AnswerText, Blobs, Command, DeliveryMode, Event, MessageId, NoticeLevel, Part, PromptInput, SessionId,
    TurnTerms, sdk_names,
};
use control::{LiveSettings, Servers};
use figures::Figures;
use front::{Front, KnownIds, LastAnswer, Pending, ProgramRequests, SessionAnswers, TurnStage};
use futures::FutureExt as _;
use jobs::Jobs;
use known_commands::KnownCommands;
use lines::{Input, Lines, Read};
use link::{HostLink, OpenRequests};
use opening::Initialize;
use serde_json::{Value, json};
use std::io::{self, IsTerminal as _, Write as _};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use waits::{Completion, PendingWork, QueuedLine};

/// The first prompt waits this long for MCP servers in the driving program's own process.
const STARTING: Duration = Duration::from_secs(30);
/// After an interrupt, running work has this long to end.
const GRACE: Duration = Duration::from_secs(10);

/// Runs to the end and returns the exit status.
pub(crate) async fn run(environment: &Environment, mut settings: RunSettings) -> Result<ExitStatus, Failure> {
    let (host, requests) = HostLink::new();
    stdin::refuse_folder()?;
    let FirstInput { reader, early, mut initialize, prompt } =
        first_input(environment, &mut settings, &host).await?;
    let named = initialize.as_ref().map_or(&[][..], |request| &request.plugins);
    let environment = &environment.with_plugins(named);
    // A continued session keeps its system prompt, so the user's prompt is extended by the form of the answer.
    let instruction =
        settings.output.schema.as_deref().filter(|_| settings.continues_session()).map(Schema::instruction);
    let assembled = assemble(environment, &mut settings).await;
    let assembled = assembled.inspect_err(|failure| tell_failure(&settings, initialize.as_ref(), failure))?;
    let (mut assembled, prompt, initial) = with_agents_prompt(&settings, assembled, prompt)?;
    let slash = Slash::new(environment, &settings, &assembled.shell, assembled.hooks.clone());
    if settings.output.format == Format::StreamJson || prompt.as_deref().is_some_and(local::may_be_own) {
        slash.add_to(&mut assembled.offers.commands);
    }
    let facts = facts(&settings, &assembled, environment);
    let greeting = opening::answer(&assembled, &environment.plugins, initialize.as_ref());
    let commands = std::mem::take(&mut assembled.offers.commands);
    let Assembled { agent, handle, shell, mcp, notes, opening, session, hooks, models, .. } = assembled;
    let OpenedSession { id: session, new_session_dir, blobs, unfinished, last_message, .. } = session;
    let continues = prompt.is_none() && settings.client.input == InputFormat::Text;
    if continues && !unfinished {
        return Err(Failure::usage("the last turn of this session is complete, and there is no new prompt")
            .hint("becket -p --continue \"task\""));
    }
    let shown = settings.output.format == Format::StreamJson;
    let jobs = Jobs::new(&shell, shown, facts.folder.clone());
    let options = print_options(&mut settings, environment, session, facts);
    let mut printer = printer(options, &settings, environment, Arc::clone(&blobs), last_message);
    let begun_by_host = initialize.is_some();
    let callbacks = initialize.as_mut().map(|request| std::mem::take(&mut request.hooks)).unwrap_or_default();
    or_fail(greet(&mut printer, initialize.as_ref(), &greeting, notes))?;
    if let Some(engine) = hooks.as_ref().filter(|_| settings.is_driven()) {
        ask_program(engine.engine(), callbacks, &host);
    }
    // Everything that sends requests to the program holds a clone of `host`. Once all clones are dropped, the link ends.
    settings.client.host_servers = None;
    drop(host);
    let waits = waits_for_servers(mcp.as_ref());
    let mut front = Front {
        agent: handle,
        // A program that sent only `initialize` got its answer, so an input without a prompt is no error then.
        input: Input::new(
            (reader, early),
            prompt.is_some() || continues || begun_by_host,
            prompt.is_some() || continues,
            settings.is_driven(),
        ),
        state: TurnStage::default(),
        pending: Pending::default(),
        known: KnownIds::default(),
        link: ProgramRequests { requests: Some(requests), open: OpenRequests::default() },
        figures: Figures::default(),
        session: SessionAnswers {
            live: LiveSettings::new(&settings.settings, &opening.model),
            opening,
            cwd: settings.project.cwd.clone(),
            greeting,
            initialized: initialize.map(|request| request.body).unwrap_or_default(),
            commands: KnownCommands::new(commands, Vec::new()),
            jobs,
            hooks,
            permission_tool: settings.client.permission_tool.clone(),
            find_model: crate::assemble::finder(
                Arc::clone(&models),
                settings.settings.config.model.others.aliases.clone(),
                None,
            ),
            models,
        },
        servers: Servers { hub: mcp.clone(), waits, environment: environment.clone(), policies: None },
        printer,
        slash,
        answer: LastAnswer { blobs: settings.output.last_message.as_ref().map(|_| blobs), text: None },
    };
    front.begin_with(initial).await?;
    let images = std::mem::take(&mut settings.task.images);
    let prompt = prompt.map(|text| (text, images, instruction));
    if let Err(failure) = open_turn(&mut front, mcp.as_deref(), prompt, continues).await {
        // Nothing has happened in the session, so it is removed. It must be dropped first, because an open session is not removed.
        drop((front, agent));
        discard_if_unused(new_session_dir.as_deref());
        return Err(failure);
    }
    let last_message = settings.output.last_message.clone();
    let rest = ShutdownParts { agent, shell, mcp, new_session_dir, last_message };
    Box::pin(run_to_end(front, rest, settings.is_driven())).await
}

/// The input of a run before its agent is built.
struct FirstInput {
    /// The lines of a program that drives the run, and those that came before or with its first request.
    reader: Option<Lines>,
    early: Vec<Read>,
    initialize: Option<Initialize>,
    /// The prompt of a run that no program drives.
    prompt: Option<String>,
}

async fn first_input(
    environment: &Environment,
    settings: &mut RunSettings,
    host: &HostLink,
) -> Result<FirstInput, Failure> {
    match settings.client.input {
        InputFormat::Text => {
            let prompt = text_prompt(settings).await?;
            Ok(FirstInput { reader: None, early: Vec::new(), initialize: None, prompt })
        }
        InputFormat::StreamJson => {
            let mut lines = Lines::new(delivery(environment));
            settings.client.host_servers = Some(link::servers(host));
            // A driving program describes the run first, and the agent is built from that.
            let (early, initialize) = lines.opening(environment, settings).await?;
            Ok(FirstInput { reader: Some(lines), early, initialize, prompt: None })
        }
    }
}

/// Returns the delivery of messages that name no priority. The Python SDK reads the lines up to one result for each of its
/// `query()` calls, so a message of it is never part of another turn.
fn delivery(environment: &Environment) -> DeliveryMode {
    match environment.var("CLAUDE_CODE_ENTRYPOINT") {
        Some("sdk-py") => DeliveryMode::Queue,
        _ => DeliveryMode::Join,
    }
}

/// Puts the first prompt of the session's agent in front of the run's own. If the run's prompts are messages of a program, returns
/// the agent's prompt separately, as the third value.
fn with_agents_prompt(
    settings: &RunSettings,
    mut assembled: Assembled,
    prompt: Option<String>,
) -> Result<(Assembled, Option<String>, Option<String>), Failure> {
    let initial = assembled.initial_prompt.take();
    if settings.client.input == InputFormat::StreamJson {
        return Ok((assembled, prompt, initial));
    }
    let prompt = crate::agents::with_initial(initial.as_deref(), prompt);
    if prompt.is_none() && !settings.continues_session() && settings.files.replay.is_none() {
        let begun = assembled.session.new_session_dir.take();
        // The session must be dropped first, because an open session is not removed.
        drop(assembled);
        discard_if_unused(begun.as_deref());
        return Err(no_prompt(settings));
    }
    Ok((assembled, prompt, None))
}

/// Returns the work that the first prompt waits for: MCP servers in the driving program's process must have started.
fn waits_for_servers(mcp: Option<&Arc<becket_mcp::Hub>>) -> PendingWork {
    let mut waits = PendingWork::default();
    if let Some(starting) = mcp.and_then(|hub| hub.wait_for_host_servers(STARTING)) {
        waits.add(async move {
            starting.await;
            Completion::Started
        });
    }
    waits
}

fn printer(
    options: PrintOptions,
    settings: &RunSettings,
    environment: &Environment,
    blobs: Arc<dyn Blobs>,
    last_message: Option<MessageId>,
) -> Printer {
    let ((out, notes), unusable) = debug_file::writers(settings.output.debug_file.as_deref());
    if let Some(why) = unusable {
        note(&why);
    }
    let mut printer = Printer::new(options, out, notes).with_blobs(blobs);
    printer.show_hooks(settings.output.hook_events);
    if let Some(claude) = environment.claude_dir().filter(|_| settings.output.mirror) {
        printer.mirror_to(claude.join("projects"), last_message);
    }
    printer
}

fn print_options(
    settings: &mut RunSettings,
    environment: &Environment,
    session: SessionId,
    facts: SessionFacts,
) -> PrintOptions {
    let driven = settings.is_driven();
    let output = &mut settings.output;
    PrintOptions {
        format: output.format,
        verbose: output.verbose,
        partial: output.partial,
        replay: output.replay,
        subagent_text: output.subagent_text,
        schema: output.schema.take(),
        driven: driven || output.format == Format::Codex,
        terminal: io::stdout().is_terminal(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        session: session.to_string(),
        states: environment.var("CLAUDE_CODE_SDK_READS_SESSION_STATE").is_some(),
        facts,
    }
}

/// Reports that the run cannot start, with the warnings about the configuration.
fn tell_failure(settings: &RunSettings, initialize: Option<&Initialize>, failure: &Failure) {
    // The warnings come first, because a misspelled key may be the reason of the failure.
    for warning in &settings.settings.warnings {
        note(&warning.to_string());
    }
    refuse(settings, initialize, failure);
}

/// Answers the first request of a program that drives the run, and prints the notes about the start.
fn greet(
    printer: &mut Printer,
    initialize: Option<&Initialize>,
    greeting: &Value,
    notes: Vec<String>,
) -> io::Result<()> {
    if let Some(request) = initialize {
        answer_initialize(printer, request, greeting)?;
    }
    for text in notes {
        printer.event(&Event::Notice { level: NoticeLevel::Warning, text })?;
    }
    Ok(())
}

/// Answers the first request of a program that drives the run.
fn answer_initialize(printer: &mut Printer, request: &Initialize, greeting: &Value) -> io::Result<()> {
    if let Some(why) = &request.refused {
        return printer.refusal(&request.request_id, why);
    }
    let mut answer = greeting.clone();
    if !request.unused.is_empty() {
        answer["unused_fields"] = json!(request.unused);
    }
    printer.control_response(&request.request_id, &answer)
}

/// Sends the agent the first command of the run: its prompt, with images and an instruction, or to continue.
async fn open_turn(
    front: &mut Front,
    mcp: Option<&becket_mcp::Hub>,
    prompt: Option<(String, Vec<Part>, Option<String>)>,
    continues: bool,
) -> Result<(), Failure> {
    let command = match prompt {
        Some((text, ..)) if front.is_local(&text) => {
            // A command of becket itself. It is answered once the agent has sent `SessionStarted`.
            let parts = vec![Part::text(text)];
            let input = PromptInput { parts, ..PromptInput::default() };
            front.pending.local.push_back(QueuedLine::Prompt(input));
            front.end_input().await;
            return Ok(());
        }
        Some((text, images, instruction)) => opening_command(front, mcp, text, images, instruction).await?,
        None if continues => Command::Continue,
        None => return Ok(()),
    };
    front.command(command).await;
    // Without a schema (`--json-schema`) becket sends no prompt after the first turn, so the agent's input is closed at once.
    if !front.printer.may_ask() {
        front.end_input().await;
    }
    Ok(())
}

/// Returns the command for the run's prompt: references to servers and slash commands are expanded.
async fn opening_command(
    front: &Front,
    mcp: Option<&becket_mcp::Hub>,
    mut text: String,
    images: Vec<Part>,
    instruction: Option<String>,
) -> Result<Command, Failure> {
    if let Some(mcp) = mcp {
        text = crate::mcp::expand_references(mcp, text, front.session.hooks.as_ref()).await?;
    }
    let prompt = front.slash.expanded(text.clone()).await.map_err(Failure::usage)?;
    note_left_out(&text, &prompt.left_out);
    let (text, terms) = (prompt.text, prompt.terms);
    let asked = becket_print::slash_command(&[Part::text(text.as_str())]).transpose();
    let asked = asked.map_err(Failure::usage)?;
    Ok(asked.unwrap_or_else(|| prompt_command(text, images, instruction, terms)))
}

/// Adds hooks that are functions of the driving program.
fn ask_program(engine: &becket_hooks::Engine, groups: Vec<becket_hooks::Group>, host: &HostLink) {
    engine.add(groups);
    let host = host.clone();
    engine.set_callback(Arc::new(move |id, input, call| {
        let host = host.clone();
        Box::pin(async move {
            let mut body = json!({ "subtype": "hook_callback", "callback_id": id, "input": input });
            if let Some(call) = call {
                body["tool_use_id"] = json!(call);
            }
            host.request(body).await
        })
    }));
}

/// Parts that the end of a run needs in addition to the front end.
struct ShutdownParts {
    agent: becket_agent::Agent,
    shell: Arc<becket_tool_shell::Shell>,
    mcp: Option<Arc<becket_mcp::Hub>>,
    new_session_dir: Option<std::path::PathBuf>,
    last_message: Option<std::path::PathBuf>,
}

async fn run_to_end(mut front: Front, rest: ShutdownParts, driven: bool) -> Result<ExitStatus, Failure> {
    let ShutdownParts { agent, shell, mcp, new_session_dir, last_message } = rest;
    let mut signals = Signals::new()?;
    let is_local = !front.pending.local.is_empty();
    let (mut last, mut saved, mut broken) = (Vec::new(), false, None);
    let outcome = tokio::select! {
        // The agent's future is polled here, on this thread. After it returns, its remaining events are read.
        outcome = front.serve(&mut signals) => outcome,
        left = AssertUnwindSafe(agent.run()).catch_unwind() => {
            match left {
                Ok(left) => {
                    // The session is dropped at the end of this block, because an unused session can be removed only when it is not open.
                    let mut session = left.lock().unwrap_or_else(PoisonError::into_inner);
                    saved = session.flush();
                    last = session.take_notices();
                }
                Err(panic) => broken = Some(crate::failure::broken(&*panic).message),
            }
            None
        }
    };
    if driven || is_local {
        discard_if_unused(new_session_dir.as_deref());
    }
    let status = match outcome {
        Some(status) => status?,
        None => {
            let status = front.drain(broken)?;
            if status != ExitStatus::Terminated {
                front.answer_waiting().await?;
            }
            if is_local { front.printer.status() } else { status }
        }
    };
    // The flush at the end may have saved what an earlier attempt could not.
    let status = if saved && status == ExitStatus::NotSaved { ExitStatus::Ok } else { status };
    // Storage failures at the very end come after the result, so they are printed to stderr only.
    for text in &last {
        note(text);
    }
    if status == ExitStatus::Terminated {
        note("terminated: the turn is unfinished; --continue continues it");
    }
    // On SIGTERM the caller does not wait. The separate process that watches over the commands ends them then.
    if status != ExitStatus::Terminated {
        for line in shell.end_jobs().await {
            note(&line);
        }
    }
    if let Some(mcp) = mcp {
        for server in mcp.statuses() {
            if let becket_mcp::State::Failed(why) = server.state {
                note(&format!("the MCP server {} was not used: {why}", server.name));
            }
        }
        mcp.stop().await;
    }
    let incomplete = status == ExitStatus::Ok && crate::chosen_models::recording_is_incomplete();
    let status = if incomplete { ExitStatus::Error } else { status };
    let LastAnswer { blobs, text } = &front.answer;
    if let (Some(path), Some(text), Some(blobs)) = (&last_message, text, blobs) {
        write_answer(path, text, blobs.as_ref())
            .map_err(|e| Failure::error(format!("cannot write {}: {e}", path.display())))?;
    }
    Ok(status)
}

/// Writes the last answer of the run to a file, piece by piece: it may be long.
fn write_answer(path: &Path, text: &AnswerText, blobs: &dyn Blobs) -> io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    text.each_chunk(blobs, &mut |chunk| file.write_all(chunk.as_bytes()))
}

/// Returns the facts for `system/init`.
fn facts(run: &RunSettings, assembled: &Assembled, environment: &Environment) -> SessionFacts {
    let config = &run.settings.config;
    let offers = &assembled.offers;
    let folder = run.session.persist.then(|| {
        assembled
            .session
            .new_session_dir
            .clone()
            .or_else(|| assembled.session.earlier_messages.as_ref().map(|past| past.dir.clone()))
            .unwrap_or_else(|| environment.sessions_dir().join("unknown"))
    });
    SessionFacts {
        agents: offers.agents.iter().map(|(name, _)| sdk_names::sdk_agent(name).to_owned()).collect(),
        slash_commands: known_commands::with_local(&offers.commands)
            .into_iter()
            .map(|(name, ..)| name)
            .collect(),
        plugins: environment.plugins.init_json(),
        plugin_errors: environment.plugins.errors(),
        mcp: None,
        warnings: run.client.unused.clone(),
        effort: config.model.effort.and_then(|e| serde_json::to_value(e).ok()?.as_str().map(str::to_owned)),
        folder,
    }
}

/// Reports to a program that waits for the answer to `initialize` why the run cannot begin.
fn refuse(run: &RunSettings, initialize: Option<&Initialize>, failure: &Failure) {
    let Some(request) = initialize else { return };
    let options = PrintOptions { format: run.output.format, driven: true, ..PrintOptions::default() };
    let mut printer = Printer::new(options, Box::new(io::stdout()), Box::new(io::stderr()));
    // A program that has exited reads at most the exit code.
    let _ = printer.refusal(&request.request_id, &failure.message);
}

/// Returns the prompt of a text run: the argument and piped input. `None`: an unfinished turn is to be continued.
async fn text_prompt(settings: &RunSettings) -> Result<Option<String>, Failure> {
    if settings.files.replay.is_some() {
        return Ok(settings.task.prompt.clone());
    }
    let prompt = settings.task.prompt.as_deref().filter(|prompt| *prompt != "-");
    let may_continue = settings.continues_session() && settings.task.prompt.is_none();
    let piped = stdin::read_all(prompt.is_some() || may_continue)
        .await
        .map_err(|e| Failure::error(format!("cannot read stdin: {e}")))?;
    let piped = match piped {
        PipedInput::Nothing => None,
        PipedInput::Text(text) => Some(text),
        PipedInput::Damaged(text) => {
            note(
                "stdin is not all UTF-8; the other bytes reach the model as U+FFFD (name the file in the prompt instead, or convert it)",
            );
            Some(text)
        }
        PipedInput::Cut(text) => {
            note("stdin is longer than 10 MB; only its beginning is used");
            Some(text)
        }
        PipedInput::Silent => {
            note("no input on stdin; continuing without it (close it with </dev/null)");
            None
        }
    };
    match (prompt, piped) {
        (Some(prompt), None) => Ok(Some(prompt.to_owned())),
        (Some(prompt), Some(piped)) => Ok(Some(format!("{prompt}\n\n<stdin>\n{piped}\n</stdin>"))),
        (None, Some(piped)) if !becket_types::is_blank(&piped) => Ok(Some(piped)),
        (None, _) if may_continue => Ok(None),
        // The session's own agent may bring a first prompt. That is known only once its definition is read.
        (None, _) if settings.additions.agents.main.is_some() => Ok(None),
        (None, _) => Err(no_prompt(settings)),
    }
}

fn no_prompt(settings: &RunSettings) -> Failure {
    Failure::usage("there is no prompt").hint(settings.task.no_prompt)
}

fn note(text: &str) {
    let _ = writeln!(io::stderr(), "becket: {text}");
}

/// Reports the `allowed-tools` rules of a project's command that have no effect.
fn note_left_out(called: &str, rules: &[String]) {
    if !rules.is_empty() {
        let name = called.split_whitespace().next().unwrap_or_default();
        note(&format!(
            "{name} is a file of this project, so the tools that it allows are left out: {}. Call it once in the terminal to see \
             and allow them, or give --trust",
            rules.join(", ")
        ));
    }
}

fn prompt_command(text: String, images: Vec<Part>, instruction: Option<String>, terms: TurnTerms) -> Command {
    let mut parts = vec![Part::text(text)];
    parts.extend(images);
    parts.extend(instruction.map(|text| Part::Text {
        text,
        synthetic: true,
        ignored: false,
        spill: None,
        extra: serde_json::Map::new(),
    }));
    Command::Prompt(PromptInput { parts, terms, ..PromptInput::default() })
}

fn or_fail<T>(result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|e| match e.kind() {
        // The reader closed the pipe by its own choice, so nothing is reported.
        io::ErrorKind::BrokenPipe => Failure::error(String::new()),
        _ => unwritten(&e),
    })
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|e| Failure::error(format!("cannot listen to signals: {e}")));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. SIGHUP counts as SIGTERM, because nobody reads the output any more.
    async fn next(&mut self) -> ExitStatus {
        tokio::select! {
            _ = self.interrupt.recv() => ExitStatus::Interrupted,
            _ = self.terminate.recv() => ExitStatus::Terminated,
            _ = self.hangup.recv() => ExitStatus::Terminated,
        }
    }
}
