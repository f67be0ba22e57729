//! `becket`: a session in the terminal. The agent on a thread of its own, the interface on this one.
//!
//! Owns what the interface asks of its surroundings: the history of prompts, the editor, the clipboard, Ctrl-Z; files to
//! complete ([`files`]), pages ([`pages`]), commands and drafts of the person ([`person`]).

mod files;
mod pages;
mod person;

use crate::assemble::{Assembled, assemble};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::{RunSettings, SessionChoice};
use becket_print::ExitStatus;
use becket_tool_shell::Shell;
use becket_tui::input::{Reply, Request};
use becket_tui::theme::Theme;
use becket_tui::{Ended, Host, Options};
use becket_types::{Command, DeliveryMode, Event, NoticeLevel, Part, PromptInput, SessionId};
use files::Files;
use futures::future::BoxFuture;
use pages::Pages;
use person::{Drafts, Person};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Prompts that the history file keeps.
const HISTORY: usize = 1_000;

pub(crate) async fn run(environment: &Environment, mut settings: RunSettings) -> Result<ExitStatus, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage("the interactive session needs a terminal")
            .hint("run headless: becket -p \"task\"; see it work: becket demo; all flags: becket --help"));
    }
    loop {
        match session(environment, &settings).await? {
            Ended::Quit | Ended::AgentGone => return Ok(ExitStatus::Ok),
            Ended::Terminated => return Ok(ExitStatus::Terminated),
            Ended::Switch(to) => {
                settings.prompt = None;
                settings.title = None;
                settings.session = match to {
                    Some(query) => SessionChoice::Resume { query, fork: false },
                    None => SessionChoice::New { id: None },
                };
            }
        }
    }
}

/// One session, until the person leaves it.
async fn session(environment: &Environment, settings: &RunSettings) -> Result<Ended, Failure> {
    let Assembled { agent, handle, shell, notes, history, session } = assemble(environment, settings).await?;
    let (sender, events) = mpsc::unbounded_channel();
    for event in history {
        let _ = sender.send(event);
    }
    for text in notes {
        let _ = sender.send(Event::Notice { level: NoticeLevel::Warning, text });
    }
    let agent = std::thread::Builder::new()
        .name("agent".to_owned())
        .spawn(move || crate::runtime().map(|runtime| drop(runtime.block_on(agent.run()))))
        .map_err(|e| Failure::error(format!("cannot start: {e}")))?;
    // One stream: what was before, then what happens.
    let mut live = handle.events;
    tokio::spawn(async move {
        while let Some(event) = live.recv().await {
            if sender.send(event).is_err() {
                break;
            }
        }
    });
    if let Some(text) = settings.prompt.clone() {
        let prompt =
            PromptInput { parts: vec![Part::text(text)], mode: DeliveryMode::Steer, client_id: None };
        let _ = handle.commands.send(Command::Prompt(prompt)).await;
    }
    let commands = handle.commands.clone();
    let options = Options {
        theme: theme(environment),
        commands: handle.commands,
        events,
        terminate: terminate()?,
        host: Box::new(Surroundings::new(environment, settings, session, &shell)),
    };
    let ended = becket_tui::run(io::BufWriter::with_capacity(64 * 1024, io::stdout()), options)
        .await
        .map_err(|e| Failure::error(format!("the terminal cannot be used: {e}")))?;
    // What is under way is told to stop; what has happened is in the ledger already.
    let _ = commands.send(Command::Interrupt).await;
    let _ = commands.send(Command::EndInput).await;
    drop(commands);
    let _ = tokio::task::spawn_blocking(move || agent.join()).await;
    if ended != Ended::Terminated {
        for line in shell.end_jobs().await {
            let _ = writeln!(io::stderr(), "becket: {line}");
        }
    }
    Ok(ended)
}

fn theme(environment: &Environment) -> Theme {
    if environment.var("NO_COLOR").is_some() {
        return Theme::plain();
    }
    match (environment.var("COLORTERM"), environment.var("TERM")) {
        (Some("truecolor" | "24bit"), _) => Theme::dark(),
        (_, Some(term)) if term.contains("256color") || term.contains("direct") => Theme::dark(),
        _ => Theme::ansi(),
    }
}

fn terminate() -> Result<BoxFuture<'static, ()>, Failure> {
    let listen = |kind| signal(kind).map_err(|e| Failure::error(format!("cannot listen to signals: {e}")));
    let (mut term, mut hangup) = (listen(SignalKind::terminate())?, listen(SignalKind::hangup())?);
    Ok(Box::pin(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = hangup.recv() => {}
        }
    }))
}

/// What the interface asks of the machine.
struct Surroundings {
    history: PathBuf,
    editor: String,
    files: Files,
    pages: Arc<Pages>,
    person: Person,
    /// `None` for a session that keeps nothing.
    drafts: Option<Drafts>,
}

impl Surroundings {
    fn new(
        environment: &Environment,
        settings: &RunSettings,
        session: SessionId,
        shell: &Arc<Shell>,
    ) -> Self {
        let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| environment.var(name)).unwrap_or("vi");
        Self {
            history: environment.data_dir.join("history.jsonl"),
            editor: editor.to_owned(),
            files: Files::new(settings.cwd.clone()),
            pages: Arc::new(Pages {
                environment: environment.clone(),
                cwd: settings.cwd.clone(),
                session: session.to_string(),
                config: settings.settings.config.clone(),
            }),
            person: Person::new(Arc::clone(shell), settings.cwd.clone(), &settings.roots),
            drafts: settings.persist.then(|| Drafts::new(&environment.data_dir, session)),
        }
    }
}

/// An answer that takes a while, made beside the interface.
fn beside(work: impl FnOnce() -> Option<Reply> + Send + 'static) -> BoxFuture<'static, Option<Reply>> {
    Box::pin(async move { tokio::task::spawn_blocking(work).await.ok().flatten() })
}

impl Host for Surroundings {
    fn ask(&mut self, request: Request) -> BoxFuture<'static, Option<Reply>> {
        match request {
            Request::History => {
                let path = self.history.clone();
                Box::pin(async move {
                    let read = tokio::task::spawn_blocking(move || read_history(&path)).await;
                    Some(Reply::History(read.unwrap_or_default()))
                })
            }
            Request::Remember { prompt } => {
                let path = self.history.clone();
                Box::pin(async move {
                    // A history that cannot be written is no reason to stop anybody.
                    let _ = tokio::task::spawn_blocking(move || remember(&path, &prompt)).await;
                    None
                })
            }
            Request::Edit { text } => {
                let editor = self.editor.clone();
                Box::pin(async move { Some(Reply::Edited(edit(&editor, &text).await)) })
            }
            Request::Command { name, arguments } => {
                let pages = Arc::clone(&self.pages);
                beside(move || Some(pages.answer(&name, &arguments)))
            }
            Request::Files { query } => self.files.ask(query),
            Request::Models => beside(|| {
                Some(Reply::Models(becket_model::catalog::all().into_iter().map(|m| m.id).collect()))
            }),
            Request::Sessions => {
                let pages = Arc::clone(&self.pages);
                beside(move || Some(Reply::Sessions(pages.session_list())))
            }
            Request::Shell { command } => Box::pin(self.person.run(command)),
            Request::StopShell => {
                self.person.stop();
                Box::pin(async { None })
            }
            Request::Memorize { text } => {
                let cwd = self.pages.cwd.clone();
                beside(move || Some(Reply::Done(person::memorize(&cwd, &text))))
            }
            Request::LastDraft => {
                let draft = self.drafts.as_ref().and_then(Drafts::read);
                Box::pin(async move { draft.map(Reply::Draft) })
            }
            Request::Draft { text } => match &self.drafts {
                Some(drafts) => {
                    let keep = drafts.keep(text);
                    beside(move || {
                        keep();
                        None
                    })
                }
                None => Box::pin(async { None }),
            },
            Request::ClipboardImage => Box::pin(async { None }),
        }
    }

    fn copy(&mut self, _text: &str) {}

    fn stop(&mut self) {
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
    }
}

fn read_history(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(HISTORY)..].iter().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// One line more; one write, so that lines of several sessions do not mix.
fn remember(path: &Path, prompt: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let line = format!("{}\n", serde_json::Value::from(prompt));
    std::fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
}

/// The text as the editor left it.
async fn edit(editor: &str, text: &str) -> Result<String, String> {
    let file = tempfile::Builder::new()
        .prefix("becket-")
        .suffix(".md")
        .tempfile()
        .map_err(|e| format!("cannot make a file for the editor: {e}"))?;
    std::fs::write(file.path(), text).map_err(|e| format!("cannot write for the editor: {e}"))?;
    // Through the shell: EDITOR may hold arguments.
    let status = tokio::process::Command::new("sh")
        .args(["-c", &format!("exec {editor} \"$1\""), "sh"])
        .arg(file.path())
        .stdin(Stdio::inherit())
        .status()
        .await
        .map_err(|e| format!("cannot start the editor {editor}: {e}"))?;
    if !status.success() {
        return Err(format!("the editor {editor} ended with {status}; the text is as it was"));
    }
    std::fs::read_to_string(file.path()).map_err(|e| format!("cannot read what the editor wrote: {e}"))
}
