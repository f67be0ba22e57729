//! `becket`: a session in the terminal. The agent runs on its own thread, the interface on this one.
//!
//! Owns the services that the interface requests: the editor, the clipboard and Ctrl-Z.
//! Submodules own the others:
//! - files to complete ([`files`]), pages ([`pages`], [`sheets`]) and the pages of the context inspector ([`inspect`]);
//! - the history of prompts ([`history`]);
//! - the user's shell commands and drafts ([`user_shell`]) and custom commands ([`custom_commands`]);
//! - earlier messages of a continued session ([`earlier_messages`]), questions before the first session ([`first_run`]), and the
//!   question about a session that another process has open ([`session_in_use`]);
//! - the change from one session to another ([`switch`]), and a session that is only shown ([`read_only_session`]);
//! - questions of MCP servers ([`elicitation`]);
//! - images of the transcript ([`images`]), stored preferences ([`preferences`]), models and keys to choose from
//!   ([`accounts`]), the agent's thread ([`agent_thread`]), other programs ([`programs`]), signals ([`signals`]) and
//!   input lines of plain sessions ([`line_input`]).

mod accounts;
mod agent_thread;
pub(crate) mod custom_commands;
mod diff_page;
mod earlier_messages;
pub(crate) mod elicitation;
pub(crate) mod figures;
pub(crate) mod files;
mod first_run;
mod history;
mod images;
mod included_files;
mod inspect;
mod line_input;
mod mcp_page;
mod pages;
pub(crate) mod preferences;
mod previews;
mod programs;
mod project_contents;
mod read_only_session;
mod session_in_use;
mod sheets;
mod signals;
mod switch;
mod tasks_page;
pub(crate) mod user_shell;

use crate::args::Run;
use crate::assemble::{Assembled, OpenedSession};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::guardian::Guardian;
use crate::settings::{RunSettings, Screen};
use crate::slash::Slash;
use accounts::Accounts;
use agent_thread::{agent_left, end_session, pass_on, start, stop};
use becket_config::UiConfig;
use becket_print::ExitStatus;
use becket_tool_shell::Shell;
use becket_tui::input::{Input, Keep, PageRequest, Reply, Request};
use becket_tui::inspector::Inspect;
use becket_tui::terminal::Place;
use becket_tui::{Ended, Host, Options};
use becket_types::{Command, Part, PromptInput, SessionId};
use custom_commands::{CommandPrompt, CustomCommands, SessionSkills};
use earlier_messages::{EarlierMessagesReader, StoredConversation};
use elicitation::{AskUser, OpenQuestions};
use files::Files;
use futures::future::BoxFuture;
use line_input::LineInput;
use pages::Pages;
use serde_json::Value;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use switch::Next;
use tokio::sync::mpsc;
use user_shell::{Drafts, LastDraft, UserShell};

/// Runs interactive sessions until the user quits. `again`: the arguments from which the settings are made again if the
/// user trusts the project now.
///
/// # Errors
///
/// Returns a failure for the user if there is no terminal, or a session cannot be opened.
pub(crate) async fn run(
    environment: &Environment,
    mut settings: RunSettings,
    mut again: Run,
    draft: Option<String>,
) -> Result<ExitStatus, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage("the interactive session needs a terminal")
            .hint("run headless: becket -p \"task\"; see it work: becket demo; all flags: becket --help"));
    }
    // Plain lines do not change the terminal's modes, so nothing has to be restored.
    let guardian = if settings.screen == Screen::Lines { Guardian::default() } else { Guardian::start() };
    let held = TerminalHandover { guardian: Arc::new(Mutex::new(guardian)), stopping: Arc::default() };
    match first_run::project(environment, &settings).await? {
        None => return Ok(ExitStatus::Ok),
        Some(false) => {}
        Some(true) => {
            // The process has already changed to the directory of `--cd`, so a relative path must not be applied again.
            again.config.cd = None;
            settings = RunSettings::new(again.clone(), environment)?;
        }
    }
    match project_contents::ask(environment, &settings)? {
        None => return Ok(ExitStatus::Ok),
        Some(false) => {}
        Some(true) => {
            again.config.cd = None;
            settings = RunSettings::new(again, environment)?;
        }
    }
    settings.task.draft = draft;
    if let first_run::Next::End(status) = first_run::model(environment, &mut settings).await? {
        return Ok(status);
    }
    let mut typed = if settings.screen == Screen::Lines { Some(LineInput::listen()?) } else { None };
    Box::pin(switch::until_quit(environment, settings, &held, typed.as_mut())).await
}

/// State of the process for handing the terminal to another program: the guardian, and whether becket has stopped itself.
#[derive(Clone)]
struct TerminalHandover {
    guardian: Arc<Mutex<Guardian>>,
    stopping: Arc<AtomicBool>,
}

impl TerminalHandover {
    /// Reports to the guardian that becket has taken the terminal, or that another program has it.
    fn report_terminal_taken(guardian: &Mutex<Guardian>, taken: bool) {
        guardian.lock().unwrap_or_else(PoisonError::into_inner).set_terminal_taken(taken);
    }
}

/// Runs one session until the user leaves it. `failed`: why the session that the user asked for was not opened. Afterwards `settings` contains the preferences that the user changed.
async fn session(
    environment: &Environment,
    settings: &mut RunSettings,
    held: &TerminalHandover,
    typed: Option<&mut LineInput>,
    assembled: Assembled,
    asked: mpsc::UnboundedReceiver<Input>,
    failed: Option<String>,
) -> Result<Next, Failure> {
    let Assembled { agent, handle, shell, programs, mcp, mut notes, session, .. } = assembled;
    let OpenedSession { id: session, earlier_messages: past, used, new_session_dir: begun, .. } = session;
    let accounts = Accounts::new(environment, settings, assembled.models);
    let (sender, events) = mpsc::unbounded_channel();
    let copied = past.as_ref().and_then(|past| past.copy_of).map(|(source, _)| source);
    let past = past.map(|place| Arc::new(EarlierMessagesReader::new(place)));
    let mut end = past.as_ref().and_then(|past| past.last_section(&mut notes));
    if typed.is_some() {
        // A screen reader needs every earlier message once and in order.
        for event in end.take().into_iter().flat_map(earlier_messages::read_out) {
            let _ = sender.send(event);
        }
    }
    let ui = settings.settings.config.ui.clone();
    let root = crate::settings::project_root(&settings.project.cwd);
    let config = &settings.settings.config;
    let places = (settings.project.cwd.as_path(), root.as_path());
    let (preferences, notifications) = preferences::for_screen(environment, config, places, &mut notes);
    for notice in switch::first_notices(&settings.session, session, copied, notes, failed) {
        let _ = sender.send(notice);
    }
    let agent = start(agent)?;
    let (outside, inputs) = mpsc::unbounded_channel();
    let from_screen = read_only_session::commands(settings, &handle.commands, &sender, &outside);
    // One stream carries the earlier messages first and new events after them.
    tokio::spawn(pass_on(handle.events, sender, environment.clone()));
    let initial = assembled.initial_prompt.as_deref();
    if let Some(text) = crate::agents::with_initial(initial, settings.task.prompt.clone()) {
        let slash = Slash::new(environment, settings, &shell, assembled.hooks.clone());
        settings.task.draft = send_first(text, &slash, &handle.commands).await;
    }
    let commands = handle.commands.clone();
    signals::listen(&outside, typed.is_some(), &held.stopping)?;
    tokio::spawn(elicitation::pass_on(asked, outside));
    let kept = Arc::new(Mutex::new(ui));
    let pages = Pages {
        environment: environment.clone(),
        root,
        cwd: settings.project.cwd.clone(),
        session: copied.filter(|_| settings.session.only_shown).unwrap_or(session).to_string(),
        config: settings.settings.config.clone(),
        trusted: settings.project.trusted,
        roots: settings.project.roots.clone(),
        programs,
        mcp: mcp.clone(),
        opening: assembled.opening,
        hooks: assembled.hooks,
        queries: handle.queries,
    };
    let mut host = InteractiveHost::new(
        environment,
        settings,
        session,
        &shell,
        held,
        Arc::clone(&kept),
        pages,
        accounts,
    );
    host.draft.typed = settings.task.draft.take();
    host.stored.past = past.or_else(|| begun.as_deref().map(EarlierMessagesReader::of_new_session));
    let options = Options {
        preferences,
        notifications,
        place: if settings.screen == Screen::Inline { Place::Inline } else { Place::Alternate },
        end,
        used,
        on_disk: host.stored.past.as_ref().is_some_and(|past| past.is_all()),
        choose_session: std::mem::take(&mut settings.session.choose),
        commands: from_screen,
        events,
        outside: inputs,
        host: Box::new(host),
    };
    let ended = shown(held, typed, options).await?;
    let left = stop(Next::reason(&ended), commands, agent, mcp).await;
    end_session(&ended, &shell, begun.as_deref()).await;
    settings.settings.config.ui = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
    agent_left(left)?;
    // A copy in memory cannot be opened again, but its source can.
    Ok(Next::after(ended, copied.unwrap_or(session)))
}

/// Shows the session on the terminal, or as plain lines if they are typed, until the user leaves it.
async fn shown(
    held: &TerminalHandover,
    typed: Option<&mut LineInput>,
    options: Options,
) -> Result<Ended, Failure> {
    let out = io::BufWriter::with_capacity(64 * 1024, io::stdout());
    held.guardian.lock().unwrap_or_else(PoisonError::into_inner).ready();
    let ended = match typed {
        Some(LineInput { lines, interrupts }) => becket_tui::ax::run(out, lines, interrupts, options).await,
        None => becket_tui::run(out, options).await,
    };
    ended.map_err(|e| Failure::error(format!("the terminal cannot be used: {e}")))
}

/// Sends the prompt of the command line. Returns the text if it is a command that needs the user's consent. It waits in the
/// composer instead: when the user sends it, a page shows what the command would run and allow, and asks.
async fn send_first(text: String, slash: &Slash, commands: &mpsc::Sender<Command>) -> Option<String> {
    match slash.expanded(text.clone()).await {
        Ok(CommandPrompt { text, terms, left_out }) if left_out.is_empty() => {
            let prompt = PromptInput { parts: vec![Part::text(text)], terms, ..PromptInput::default() };
            let _ = commands.send(Command::Prompt(prompt)).await;
            None
        }
        Ok(_) | Err(_) => Some(text),
    }
}

/// Host of the interface: carries out its requests.
struct InteractiveHost {
    local: Local,
    files: Files,
    pages: Arc<Pages>,
    accounts: Arc<Accounts>,
    inspector: Arc<inspect::Inspector>,
    user_shell: Arc<UserShell>,
    custom_commands: Arc<CustomCommands>,
    handover: TerminalHandover,
    /// The part of the configuration that the interface can change.
    ui: Arc<Mutex<UiConfig>>,
    draft: LastDraft,
    stored: StoredConversation,
}

/// Files and programs of the machine, and questions of servers.
struct Local {
    /// The file with the prompts of all sessions.
    history: PathBuf,
    editor: String,
    /// Questions of MCP servers that wait for the user.
    questions: Option<Arc<OpenQuestions>>,
}

impl InteractiveHost {
    #[expect(
        clippy::too_many_arguments,
        reason = "made in one place, of parts that have owners of their own"
    )]
    fn new(
        environment: &Environment,
        settings: &RunSettings,
        session: SessionId,
        shell: &Arc<Shell>,
        held: &TerminalHandover,
        ui: Arc<Mutex<UiConfig>>,
        pages: Pages,
        accounts: Accounts,
    ) -> Self {
        let root = pages.root.clone();
        let hooks = pages.hooks.clone();
        let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| environment.var(name)).unwrap_or("vi");
        Self {
            local: Local {
                history: environment.data_dir.join("history.jsonl"),
                editor: editor.to_owned(),
                questions: settings.client.ask_user.as_ref().map(AskUser::open_questions),
            },
            files: Files::new(settings.project.cwd.clone()),
            pages: Arc::new(pages),
            accounts: Arc::new(accounts),
            inspector: Arc::default(),
            user_shell: Arc::new(UserShell::new(
                Arc::clone(shell),
                settings.project.cwd.clone(),
                &settings.project.roots,
            )),
            custom_commands: Arc::new(CustomCommands::new(
                environment,
                &settings.project.cwd,
                &root,
                settings.project.trusted,
                settings.project.trust_content,
                SessionSkills {
                    find: Box::new({
                        let (environment, cwd) = (environment.clone(), settings.project.cwd.clone());
                        let (config, trusted) = (settings.settings.config.clone(), settings.project.trusted);
                        move || crate::toolbox::skills(&environment, &cwd, &config, trusted)
                    }),
                    hooks,
                },
            )),
            handover: held.clone(),
            ui,
            draft: LastDraft {
                typed: None,
                kept: settings.session.persist.then(|| Drafts::new(&environment.data_dir, session)),
            },
            stored: StoredConversation {
                transcript: becket_session::store::ledger_path(&becket_session::store::session_dir(
                    &environment.sessions_dir(),
                    &settings.project.cwd,
                    session,
                )),
                past: None,
            },
        }
    }
}

/// Computes a slow answer on another thread.
fn on_worker_thread(
    work: impl FnOnce() -> Option<Reply> + Send + 'static,
) -> BoxFuture<'static, Option<Reply>> {
    Box::pin(async move { tokio::task::spawn_blocking(work).await.ok().flatten() })
}

impl Host for InteractiveHost {
    fn ask(&mut self, request: Request) -> BoxFuture<'static, Option<Reply>> {
        let pages = Arc::clone(&self.pages);
        match request {
            Request::History => self.history(),
            Request::Remember(prompt) => {
                let path = self.local.history.clone();
                // Failing to write the history must not stop the user.
                silently(move || drop(history::append(&path, &prompt)))
            }
            Request::Edit { text } => self.edit(text),
            Request::Page(page) => {
                let is_tasks = matches!(page, PageRequest::Tasks);
                let jobs = if is_tasks { self.user_shell.jobs() } else { Vec::new() };
                on_worker_thread(move || Some(pages.page(&page, &jobs)))
            }
            Request::Resume { session } => on_worker_thread(move || Some(pages.find(&session))),
            Request::Export { format, file } => on_worker_thread(move || Some(pages.export(format, &file))),
            Request::Jobs => ready(Some(Reply::Jobs(self.user_shell.running_jobs()))),
            Request::StopJob { job } => {
                let user_shell = Arc::clone(&self.user_shell);
                Box::pin(async move { Some(tasks_page::stop_job(&user_shell, job).await) })
            }
            Request::Files { query } => self.files.ask(query),
            Request::Attach { text } => on_worker_thread(move || {
                Some(programs::attach_image(text, &pages.cwd, pages.environment.home.as_deref()))
            }),
            Request::ClipboardImage => Box::pin(async { Some(programs::clipboard_image().await) }),
            Request::Picture { number, blob, protocol, columns } => {
                Box::pin(images::picture(self.stored.folder(), number, blob, protocol, columns))
            }
            Request::Models => self.on_accounts(|accounts| async move { Some(accounts.models().await) }),
            Request::Keys => {
                let accounts = Arc::clone(&self.accounts);
                on_worker_thread(move || Some(Reply::Keys(accounts.keys())))
            }
            Request::KeepKey { provider, key } => self.on_accounts(|accounts| async move {
                let result = accounts.change_key(&provider, key).await;
                Some(Reply::KeyKept { provider, result })
            }),
            Request::LogIn { .. } | Request::AwaitLogin { .. } | Request::CancelLogin => self.log_in(request),
            Request::Sessions => on_worker_thread(move || Some(pages.session_list())),
            Request::Saying { words } => on_worker_thread(move || Some(pages.saying(words))),
            Request::Preview { session } => {
                on_worker_thread(move || Some(previews::preview(&pages.environment, &pages.cwd, session)))
            }
            Request::Shell { command } => Box::pin(self.user_shell.run(command)),
            Request::StopShell => {
                self.user_shell.stop();
                ready(None)
            }
            Request::Memorize { text } => {
                on_worker_thread(move || Some(Reply::Done(user_shell::memorize(&pages.cwd, &text))))
            }
            Request::LastDraft => ready(self.draft.take().map(Reply::Draft)),
            Request::Draft { text } => match &self.draft.kept {
                Some(drafts) => silently(drafts.keep(text)),
                None => ready(None),
            },
            Request::AnswerServer { number, answer } => {
                if let Some(questions) = &self.local.questions {
                    questions.answered(number, answer);
                }
                ready(None)
            }
            Request::CustomCommands => self.list_custom_commands(),
            Request::Custom { name, arguments } => self.custom(name, arguments, false),
            Request::TrustCustom { name, arguments } => self.custom(name, arguments, true),
            Request::Allow { rule, place } => on_worker_thread(move || {
                Some(Reply::Done(preferences::allow(&pages.environment, &pages.root, &rule, place)))
            }),
            Request::Disallow { rule, place } => on_worker_thread(move || {
                Some(Reply::Done(preferences::disallow(&pages.environment, &pages.root, &rule, place)))
            }),
            Request::Keep(keep) => self.keep_preference(keep),
            Request::Past { from, to, want } => self.ask_past(move |past| past.part(from, to, want)),
            Request::Removed { entry } => self.ask_past(move |past| past.removed(entry)),
            Request::Message { seq } => self.ask_past(move |past| past.message(seq)),
            Request::Said => self.ask_past(EarlierMessagesReader::users_words),
            Request::Inspect(asked) => self.inspect(asked),
            Request::InspectorClosed => {
                // The inspector was closed. A new, empty one replaces it, which drops the data that was read for its pages.
                self.inspector = Arc::default();
                ready(None)
            }
            Request::Loss { entry } => on_worker_thread(move || {
                let lost = inspect::loss(&pages, entry);
                Some(Reply::Loss { entry, result: lost.map_err(|failure| failure.message) })
            }),
            Request::Branch => on_worker_thread(move || Some(Reply::Branch(programs::branch(&pages.cwd)))),
            Request::StatusLine { told } => self.status_line(told),
        }
    }

    fn copy(&mut self, text: &str) {
        programs::copy(text);
    }

    fn stop(&mut self) {
        TerminalHandover::report_terminal_taken(&self.handover.guardian, false);
        signals::stop(&self.handover.stopping);
        TerminalHandover::report_terminal_taken(&self.handover.guardian, true);
    }
}

/// Wraps an answer that is known already.
fn ready(reply: Option<Reply>) -> BoxFuture<'static, Option<Reply>> {
    Box::pin(async { reply })
}

/// Works on another thread, without an answer.
fn silently(work: impl FnOnce() + Send + 'static) -> BoxFuture<'static, Option<Reply>> {
    on_worker_thread(move || {
        work();
        None
    })
}

impl InteractiveHost {
    fn history(&self) -> BoxFuture<'static, Option<Reply>> {
        let path = self.local.history.clone();
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || history::read(&path)).await;
            Some(Reply::History(read.unwrap_or_default()))
        })
    }

    /// Runs the user's editor, which has the terminal meanwhile.
    fn edit(&self, text: String) -> BoxFuture<'static, Option<Reply>> {
        let (editor, guardian) = (self.local.editor.clone(), Arc::clone(&self.handover.guardian));
        Box::pin(async move {
            TerminalHandover::report_terminal_taken(&guardian, false);
            let edited = programs::edit(&editor, &text).await;
            TerminalHandover::report_terminal_taken(&guardian, true);
            Some(Reply::Edited(edited))
        })
    }

    fn on_accounts<F: Future<Output = Option<Reply>> + Send + 'static>(
        &self,
        answer: impl FnOnce(Arc<Accounts>) -> F,
    ) -> BoxFuture<'static, Option<Reply>> {
        Box::pin(answer(Arc::clone(&self.accounts)))
    }

    /// Begins, awaits or ends a login with a code.
    fn log_in(&self, request: Request) -> BoxFuture<'static, Option<Reply>> {
        self.on_accounts(|accounts| async move {
            match request {
                Request::LogIn { provider } => accounts.begin_login(provider).await,
                Request::AwaitLogin { provider } => accounts.finish_login(provider).await,
                _ => {
                    accounts.cancel_login();
                    None
                }
            }
        })
    }

    fn list_custom_commands(&self) -> BoxFuture<'static, Option<Reply>> {
        let (pages, custom_commands) = (Arc::clone(&self.pages), Arc::clone(&self.custom_commands));
        on_worker_thread(move || {
            let prompts = mcp_page::prompts(pages.mcp.as_deref());
            Some(Reply::CustomCommands(custom_commands.list().into_iter().chain(prompts).collect()))
        })
    }

    fn custom(&self, name: String, arguments: String, trust: bool) -> BoxFuture<'static, Option<Reply>> {
        if name.starts_with("mcp__") && !trust {
            return Box::pin(mcp_page::prompt(self.pages.mcp.clone(), name, arguments));
        }
        let (custom_commands, user_shell) = (Arc::clone(&self.custom_commands), Arc::clone(&self.user_shell));
        Box::pin(async move { Some(custom_commands.answer(user_shell, name, arguments, trust).await) })
    }

    /// Answers from the stored conversation; `None` if the session is not kept.
    fn ask_past(
        &self,
        answer: impl FnOnce(&EarlierMessagesReader) -> Reply + Send + 'static,
    ) -> BoxFuture<'static, Option<Reply>> {
        let past = self.stored.past.clone();
        on_worker_thread(move || past.map(|past| answer(&past)))
    }

    /// Stores a preference that the user has changed in the interface.
    fn keep_preference(&self, keep: Keep) -> BoxFuture<'static, Option<Reply>> {
        let mut ui = self.ui.lock().unwrap_or_else(PoisonError::into_inner);
        match &keep {
            Keep::Theme(name) => ui.theme = Some(name.clone()),
            Keep::Vim(on) => ui.vim = *on,
        }
        let pages = Arc::clone(&self.pages);
        on_worker_thread(move || {
            preferences::keep(&pages.environment, &keep).err().map(|why| Reply::Done(Err(why)))
        })
    }

    fn inspect(&self, asked: Inspect) -> BoxFuture<'static, Option<Reply>> {
        let (pages, inspector) = (Arc::clone(&self.pages), Arc::clone(&self.inspector));
        on_worker_thread(move || {
            let page = inspector.page(&pages, asked);
            Some(Reply::Inspected { asked, result: page.map_err(|failure| failure.message) })
        })
    }

    /// Runs the command that prints the status line, if one is configured.
    fn status_line(&self, told: Value) -> BoxFuture<'static, Option<Reply>> {
        let program = self.ui.lock().unwrap_or_else(PoisonError::into_inner).status_line.command.clone();
        let Some(program) = program else { return ready(None) };
        let known = programs::status_line_facts(env!("CARGO_PKG_VERSION"), &self.stored.transcript);
        let programs = self.pages.programs.clone();
        Box::pin(programs::status_line(programs, program, told, known, self.pages.cwd.clone()))
    }
}
