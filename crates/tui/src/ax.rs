//! Interface for screen readers: plain lines, one after the other. Nothing is redrawn, no box is drawn, no cursor is
//! moved.
//!
//! Owns the lines that describe each event ([`Speaker`], pure), and a loop that reads lines as the terminal itself
//! edits them. Content that is only for the model is not printed. Escape sequences and invisible characters are made
//! visible, as in the other interface.
//!
//! Invariant: a question is answered only by a line that is exactly `/y`, `/s` or `/f`, or that begins with `/n` or `/a`. All
//! other lines typed while it is open are messages and leave the question open, because a line of input does not show
//! which of the two was meant.

mod asked;
mod replies;

use crate::ansi::Ansi;
use crate::app::undo;
use crate::approval;
use crate::commands::{self, Action, Said};
use crate::composer::Prompt;
use crate::input::{Effect, Input, Reply, Request, To};
use crate::modes;
use crate::runner::{Ended, Options};
use crate::status::short_error;
use crate::text::{self, thousands};
use crate::transcript::pasted;
use becket_types::{
    CallId, Command, Decision, DeliveryMode, Event, Message, NoticeLevel, Part, PermissionMode,
    PermissionRequest, PromptInput, TurnEnd, TurnTerms, UndoPlan,
};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use ratatui::style::Style;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A line of the model's answer is held back until it ends or has more than this many bytes.
const LONGEST_LINE: usize = 64 << 10;
/// An answer that comes sooner after its question than this was not meant for it.
const ARM: Duration = Duration::from_millis(300);
/// Commands that answer a question.
const ANSWERS: [&str; 7] = ["y", "yes", "s", "f", "n", "no", "a"];
const BYPASS: &str = "In bypassPermissions, becket asks about nothing. To choose it, start becket with --permission-mode \
                      bypassPermissions.";
const TOO_EARLY: &str = "That came before the question was read out. Answer again.";

/// Turns events into lines for the user, and lines of the user into effects.
#[derive(Debug, Default)]
pub struct Speaker {
    /// The beginning of an answer whose line is not complete.
    partial: String,
    answering: bool,
    thinking: bool,
    working: bool,
    /// Open questions, each with the call that started the subagent which asks; `None`: the main agent.
    questions: VecDeque<(Option<CallId>, PermissionRequest)>,
    /// Answers to the first questions of the open call of `ask_user`.
    answers: Vec<String>,
    /// The number of the undo plan that was shown last and is not answered.
    undo: Option<u64>,
    /// A question was printed since [`Self::take_asked`] was last called.
    asked: bool,
    /// The model as `provider/name`.
    model: String,
    pending: Pending,
    /// The folder of the session. Paths in it are spoken relative to it.
    folder: PathBuf,
    echo: Echo,
}

/// Changes by the user that the agent confirms, and results that are still to come.
#[derive(Debug, Default)]
struct Pending {
    /// The session's new title is not confirmed.
    renaming: bool,
    /// The permission mode that the agent confirmed last.
    mode: String,
    /// Calls that were not permitted and whose results are still to come.
    denied: Vec<CallId>,
}

impl Pending {
    /// True once for the result of a call that was not permitted.
    fn is_denied(&mut self, message: &Message) -> bool {
        let at = message.result_of().and_then(|call| self.denied.iter().position(|denied| denied == call));
        at.map(|at| self.denied.remove(at)).is_some()
    }
}

/// The terminal's echo of what is typed. A message that is delivered at once is not printed again below it.
#[derive(Debug, Default)]
struct Echo {
    /// The terminal shows what is typed.
    on: bool,
    /// The message that was typed last, while the agent was idle.
    typed: Option<String>,
}

impl Speaker {
    /// Creates a speaker for a terminal that echoes what is typed.
    fn echoing(echoes: bool) -> Self {
        Self { echo: Echo { on: echoes, typed: None }, ..Self::default() }
    }

    /// True while a turn runs.
    pub(crate) fn is_working(&self) -> bool {
        self.working
    }

    /// Returns true once after each question that was printed. The time in which answers come too early starts then.
    pub(crate) fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// Returns the lines that describe an event.
    pub fn event(&mut self, event: &Event) -> Vec<String> {
        let mut out = Vec::new();
        if let Event::SessionStarted { cwd, permission_mode, .. } = event {
            self.folder.clone_from(cwd);
            self.pending.mode.clone_from(permission_mode);
        }
        if let Event::SessionStarted { model, .. } | Event::ModelChosen { model } = event {
            self.model.clone_from(model);
        }
        match event {
            Event::TextDelta { text, .. } => {
                self.partial.push_str(text);
                while let Some(end) = self.partial.find('\n') {
                    let line: String = self.partial.drain(..=end).collect();
                    self.answer(&line, &mut out);
                }
                if self.partial.len() > LONGEST_LINE {
                    let line = std::mem::take(&mut self.partial);
                    self.answer(&line, &mut out);
                }
                return out;
            }
            Event::ReasoningDelta { .. } => {
                if !std::mem::replace(&mut self.thinking, true) {
                    out.push("becket is thinking.".to_owned());
                }
                return out;
            }
            _ => {}
        }
        let rest = std::mem::take(&mut self.partial);
        self.answer(&rest, &mut out);
        self.happened(event, &mut out);
        out.iter().flat_map(|said| said.lines()).map(|line| text::visible(line).into_owned()).collect()
    }

    fn answer(&mut self, line: &str, out: &mut Vec<String>) {
        let line = text::visible(line.trim_end()).into_owned();
        if line.is_empty() {
            return;
        }
        let who = if std::mem::replace(&mut self.answering, true) { "" } else { "becket: " };
        out.push(format!("{who}{line}"));
    }

    fn happened(&mut self, event: &Event, out: &mut Vec<String>) {
        match event {
            Event::UserMessage { message, .. } if message.visibility().user => {
                (self.answering, self.thinking) = (false, false);
                let text = pasted::as_written(&message.parts);
                if self.echo.typed.take().as_ref() != Some(&text) {
                    out.push(format!("You: {text}"));
                }
            }
            Event::StepStarted { .. } => {
                self.working = true;
                (self.answering, self.thinking) = (false, false);
            }
            // A message that did not stream in pieces belongs to an earlier session.
            Event::AssistantMessage { message, .. }
                if !self.answering && !self.working && message.visibility().user =>
            {
                out.push(format!("becket: {}", message.text()));
            }
            Event::ToolStarted { name, input, .. } => {
                out.push(format!("Running {name}: {}", becket_types::subject(input)));
            }
            // The line about the denial says everything that concerns the user.
            Event::ToolFinished { message, .. } if self.pending.is_denied(message) => {}
            Event::ToolFinished { message, .. } => replies::finished(message, out),
            Event::PermissionAsked(request) => {
                self.question(None, request, out);
            }
            Event::Subagent { call_id, what } => match &**what {
                Event::PermissionAsked(request) => self.question(Some(call_id), request, out),
                Event::ToolStarted { name, input, .. } => {
                    out.push(format!("Subagent running {name}: {}", becket_types::subject(input)));
                }
                Event::PermissionDenied(_)
                | Event::Notice { level: NoticeLevel::Warning | NoticeLevel::Error, .. }
                | Event::Retry { .. } => self.happened(what, out),
                _ => {}
            },
            Event::PermissionDenied(denial) => {
                self.pending.denied.push(denial.call_id.clone());
                out.push(replies::denied(denial));
            }
            Event::CompactionStarted { .. } => out.push("Compacting the context.".to_owned()),
            Event::CompactBoundary { pre_tokens, post_tokens, .. } => out.push(format!(
                "Context compacted {} → {} tokens.",
                thousands(pre_tokens.0),
                thousands(post_tokens.0)
            )),
            Event::CompactionFailed { reason } => {
                out.push(format!("The context was not compacted: {reason}"));
            }
            Event::CompactionPlanned(plan) => replies::compaction_plan(plan, out),
            Event::UndoPlanned(plan) => self.undo_plan(plan, out),
            Event::UndoDone(outcome) => out.push(undo::outcome_text(outcome, &self.folder)),
            Event::SessionStarted { resumed: true, title, .. } => {
                out.push(format!("{}.", crate::transcript::resumed_line(title.as_deref())));
            }
            // A session also gets a title from its first message, which the user did not request.
            Event::Renamed { title } if std::mem::take(&mut self.pending.renaming) => {
                out.push(format!("This session is now called {title}."));
            }
            // The agent also sends the mode when it refuses to change it.
            Event::ModeChanged { mode } if *mode != self.pending.mode => {
                self.pending.mode.clone_from(mode);
                out.push(format!("{}.", modes::announced(mode)));
            }
            Event::Retry { attempt, max, delay, error, .. } => {
                let error = short_error(error, &self.model);
                let seconds = delay.0.div_ceil(1_000);
                let unit = if seconds == 1 { "second" } else { "seconds" };
                out.push(format!("{error}. Retry {attempt} of {max} in {seconds} {unit}."));
            }
            Event::Notice { level, text } => out.push(match level {
                NoticeLevel::Info => text.clone(),
                NoticeLevel::Warning => format!("Warning: {text}"),
                NoticeLevel::Error => format!("Error: {text}"),
            }),
            Event::ContextChanged { text } => out.push(text.clone()),
            Event::SideAnswer { question, answer } => {
                out.push(format!("Beside the task, to {question}: {answer}"));
            }
            Event::TurnFinished(result) => {
                self.working = false;
                self.questions.retain(|(subagent, _)| subagent.is_some());
                self.answers.clear();
                out.push(turn_end_line(&result.end));
            }
            _ => {}
        }
    }

    /// Shows the plan of an undo, and asks whether to carry it out.
    fn undo_plan(&mut self, plan: &UndoPlan, out: &mut Vec<String>) {
        if let Some(why) = undo::idle(plan) {
            out.push(why);
            return;
        }
        out.extend(replies::without_fences(&undo::page(plan, &self.folder)));
        let force = if undo::has_conflicts(plan) { ", /f to overwrite what others changed" } else { "" };
        out.push(format!("Question: carry this out? Answer /y{force}, or /n."));
        (self.undo, self.asked) = (Some(plan.plan), true);
    }

    fn question(&mut self, subagent: Option<&CallId>, request: &PermissionRequest, out: &mut Vec<String>) {
        self.questions.push_back((subagent.cloned(), request.clone()));
        if self.questions.len() == 1 {
            self.ask(out);
        }
    }

    fn ask(&mut self, out: &mut Vec<String>) {
        let Some((subagent, request)) = self.questions.front() else { return };
        self.asked = true;
        let whose = if subagent.is_some() { " for a subagent" } else { "" };
        if let Some(kinds) = &request.secrets {
            out.push(format!("Question: the output of {}{whose} contains {kinds}.", request.tool));
            out.extend(request.access.subject.iter().map(|subject| format!("Output of: {subject}")));
            out.push(format!("Why it asks: {}", request.reason));
            out.push(
                "Answer /n to mask it, /y to send this output as it is, /s to send all for this session."
                    .to_owned(),
            );
            return;
        }
        if let Some(kind) = asked::Kind::of(request) {
            out.extend(asked::lines(kind, &request.input, self.answers.len()));
            return;
        }
        out.push(format!("Question: {} wants to run{whose}.", request.tool));
        if let Some(command) = &request.access.command {
            out.push(format!("Command: {command}"));
        } else if let Value::Object(input) = &request.input {
            out.extend(input.iter().map(|(key, value)| format!("{key}: {}", plain(value))));
        }
        out.extend(request.access.paths.iter().map(|path| format!("Path: {}", path.display())));
        out.push(format!("Why it asks: {}", approval::reason_of(request)));
        out.push("Answer /y for once, /s for this session, /n for no, or /n and why.".to_owned());
    }

    /// Answers the open question. Returns `None` if no question is open, or the line is not an answer.
    fn decide(&mut self, line: &str, early: bool, out: &mut Vec<String>) -> Option<Vec<Effect>> {
        let (subagent, request) = self.questions.front()?;
        let (word, why) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let kind = asked::Kind::of(request);
        let decision = match (word, why, kind) {
            ("/n" | "/no", ..) => {
                Decision::Deny { reason: Some(why.to_owned()).filter(|why| !why.is_empty()) }
            }
            ("/a", _, Some(asked::Kind::Questions)) if early => Decision::AllowOnce,
            ("/a", _, Some(asked::Kind::Questions)) => {
                self.answers.extend(asked::answer(&request.input, self.answers.len(), why));
                match asked::complete(&request.input, &self.answers) {
                    Some(input) => Decision::AllowChanged { input },
                    None => {
                        self.ask(out);
                        return Some(Vec::new());
                    }
                }
            }
            (_, _, Some(asked::Kind::Questions)) => return None,
            ("/y" | "/yes", "", _) => Decision::AllowOnce,
            ("/s", "", Some(asked::Kind::Plan)) => Decision::AllowOnce,
            ("/s", "", None) => Decision::AllowSession,
            _ => return None,
        };
        if early {
            out.push(TOO_EARLY.to_owned());
            return Some(Vec::new());
        }
        let mut effects = Vec::new();
        if kind == Some(asked::Kind::Plan) && word == "/s" {
            // The mode changes first, so the call finds it changed.
            let mode = PermissionMode::AcceptEdits.to_string();
            effects.push(Effect::Send(Command::SetMode { mode }));
        }
        let what = Command::Decide { call_id: request.call_id.clone(), decision };
        let command = match subagent.clone() {
            Some(call_id) => Command::ToSubagent { call_id, what: Box::new(what) },
            None => what,
        };
        self.questions.pop_front();
        self.answers.clear();
        self.ask(out);
        effects.push(Effect::Send(command));
        Some(effects)
    }

    /// Answers the undo that was shown. Returns `None` if none was shown, or the line is not an answer. Such a line
    /// changes nothing, and the undo is forgotten.
    fn decide_undo(&mut self, line: &str, early: bool, out: &mut Vec<String>) -> Option<Vec<Effect>> {
        let plan = self.undo.filter(|_| !line.trim().is_empty())?;
        let force = match line.trim() {
            "/y" | "/yes" => Some(false),
            "/f" => Some(true),
            "/n" | "/no" => None,
            _ => {
                self.undo = None;
                return None;
            }
        };
        if early {
            out.push(TOO_EARLY.to_owned());
            return Some(Vec::new());
        }
        self.undo = None;
        let Some(force) = force else {
            out.push("Nothing was changed.".to_owned());
            return Some(Vec::new());
        };
        Some(vec![Effect::Send(Command::CarryOut { plan, force })])
    }

    /// Handles a line of the user. Returns its effects and the lines to print. `early`: the line came right after a
    /// question.
    pub fn line(&mut self, line: &str, early: bool) -> (Vec<Effect>, Vec<String>) {
        let mut out = Vec::new();
        if let Some(effects) = self.decide(line, early, &mut out) {
            return (effects, out);
        }
        if let Some(effects) = self.decide_undo(line, early, &mut out) {
            return (effects, out);
        }
        if line.trim().is_empty() {
            self.ask(&mut out);
            let is_idle = self.questions.is_empty() && !self.working;
            let effects = if is_idle { vec![Effect::Send(Command::Continue)] } else { Vec::new() };
            return (effects, out);
        }
        let prompt = Prompt { text: line.to_owned(), ..Prompt::default() };
        let effect = match Said::of(&prompt) {
            Said::Command(Err(why)) => {
                out.push(why);
                return (Vec::new(), out);
            }
            Said::Command(Ok(Action::Quit)) => Effect::Quit,
            Said::Command(Ok(Action::Send(command))) => {
                self.pending.renaming |= matches!(command, Command::Rename { .. });
                Effect::Send(command)
            }
            Said::Command(Ok(Action::Switch(to))) => Effect::Switch(to),
            Said::Command(Ok(Action::Page(page))) => Effect::Ask(Request::Page(page)),
            Said::Command(Ok(Action::Resume(session))) => Effect::Ask(Request::Resume { session }),
            Said::Command(Ok(Action::Export { format, file })) => {
                Effect::Ask(Request::Export { format, file })
            }
            Said::Command(Ok(Action::StopJob(job))) => Effect::Ask(Request::StopJob { job }),
            Said::Command(Ok(Action::Help)) => {
                out.extend(commands::help(&[], None).spoken().lines().map(str::to_owned));
                return (Vec::new(), out);
            }
            Said::Command(Ok(Action::Key)) => {
                out.push(
                    "A key would be shown here as you type it. Run `becket login PROVIDER` in a shell, or start becket without --ax for /key."
                        .to_owned(),
                );
                return (Vec::new(), out);
            }
            Said::Command(Ok(Action::Mode(PermissionMode::BypassPermissions))) => {
                out.push(BYPASS.to_owned());
                return (Vec::new(), out);
            }
            Said::Command(Ok(Action::Mode(mode))) => {
                Effect::Send(Command::SetMode { mode: mode.to_string() })
            }
            Said::Command(Ok(Action::Model(model))) => Effect::Send(Command::SetModel { model }),
            Said::Command(Ok(Action::Sessions(_))) => Effect::Ask(Request::Sessions),
            Said::Command(Ok(Action::Memorize(text))) => Effect::Ask(Request::Memorize { text }),
            Said::Command(Ok(Action::Task(text))) => self.task(text.to_owned(), TurnTerms::default()),
            Said::Command(Ok(Action::Custom { name, .. })) if ANSWERS.contains(&name.as_str()) => {
                out.push(format!("/{name} answers a question, and no question is open."));
                return (Vec::new(), out);
            }
            // The host reports it if there is no such command.
            Said::Command(Ok(Action::Custom { name, arguments })) => {
                Effect::Ask(Request::Custom { name, arguments })
            }
            Said::Command(Ok(_)) => {
                out.push("This command needs the whole screen: start becket without --ax for it.".to_owned());
                return (Vec::new(), out);
            }
            Said::Shell(command) => Effect::Ask(Request::Shell { command }),
            Said::Memory(text) => Effect::Ask(Request::Memorize { text }),
            Said::Task => {
                if !self.questions.is_empty() {
                    out.push(
                        "That is sent as a message. The question is still open: /y, /s or /n.".to_owned(),
                    );
                } else if self.working {
                    out.push("Waiting: the model gets this with its next step.".to_owned());
                } else {
                    self.echo.typed = Some(prompt.text.clone()).filter(|_| self.echo.on);
                }
                self.task(prompt.text, TurnTerms::default())
            }
        };
        (vec![effect], out)
    }

    /// Sends a task to the model.
    fn task(&mut self, text: String, terms: TurnTerms) -> Effect {
        self.working = true;
        let parts = vec![Part::text(text)];
        let mode = DeliveryMode::Steer;
        Effect::Send(Command::Prompt(PromptInput { parts, mode, terms, ..PromptInput::default() }))
    }

    /// Returns the lines that describe an answer of the host.
    pub fn reply(reply: Reply) -> Vec<String> {
        replies::text(reply).lines().map(without_escapes).collect()
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn without_escapes(line: &str) -> String {
    Ansi::new(Style::new(), false).line(line).iter().map(|span| span.content.as_ref()).collect()
}

/// Describes the end of a turn.
fn turn_end_line(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Completed => "Done. Your turn.".to_owned(),
        TurnEnd::Interrupted => "Interrupted. Your turn.".to_owned(),
        TurnEnd::ModelError { message, .. } | TurnEnd::Failed { message } => format!("Error: {message}"),
        TurnEnd::MaxTurns { limit } => format!("Stopped after {limit} requests."),
        TurnEnd::Budget { what }
        | TurnEnd::TokenLimit { what }
        | TurnEnd::TimeLimit { what }
        | TurnEnd::NoAnswer { what }
        | TurnEnd::CallsAsText { what }
        | TurnEnd::Repetition { what }
        | TurnEnd::NoRoom { what }
        | TurnEnd::HookStopped { what, .. } => format!("Stopped: {what}"),
        TurnEnd::Deferred { call } => format!("Stopped: a hook deferred the call of {}.", call.name),
        TurnEnd::Refusal { reason } => format!("The model refused: {reason}"),
        TurnEnd::ContextFull { breakdown } => crate::transcript::full("The context is full", breakdown),
    }
}

/// Runs until the user leaves. `lines`: the user's input, line by line. `interrupts`: one item for each Ctrl-C.
///
/// # Errors
///
/// Fails if `out` cannot be written to.
pub async fn run<W: Write>(
    mut out: W,
    lines: &mut mpsc::UnboundedReceiver<String>,
    interrupts: &mut mpsc::UnboundedReceiver<()>,
    options: Options,
) -> io::Result<Ended> {
    let Options { commands, mut events, mut outside, mut host, choose_session, .. } = options;
    let mut speaker = Speaker::echoing(io::stdin().is_terminal());
    let mut replies = FuturesUnordered::new();
    if choose_session {
        replies.push(host.ask(Request::Sessions));
    }
    let mut asked = Instant::now();
    writeln!(out, "becket. Describe a task, /help for commands, /quit to leave.")?;
    out.flush()?;
    loop {
        let mut effects = Vec::new();
        let said = tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return Ok(Ended::AgentGone) };
                speaker.event(&event)
            }
            line = lines.recv() => {
                let Some(line) = line else { return Ok(Ended::Quit) };
                let (wanted, said) = speaker.line(&line, asked.elapsed() < ARM);
                effects = wanted;
                said
            }
            Some(()) = interrupts.recv() => {
                if !speaker.is_working() {
                    return Ok(Ended::Quit);
                }
                effects.push(Effect::Send(Command::Interrupt));
                Vec::new()
            }
            Some(reply) = replies.next(), if !replies.is_empty() => match reply {
                Some(Reply::Found(Ok(session))) => return Ok(Ended::Switch(To::Session(session))),
                Some(Reply::Prompt { text, terms, .. }) => {
                    effects.push(speaker.task(text, terms));
                    Vec::new()
                }
                Some(reply) => Speaker::reply(reply),
                None => Vec::new(),
            },
            Some(input) = outside.recv() => {
                if input == Input::Terminate {
                    return Ok(Ended::Terminated);
                }
                Vec::new()
            }
        };
        for line in said {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        // The time starts for each question that was printed, also for questions of subagents and for later ones of a queue.
        if speaker.take_asked() {
            asked = Instant::now();
        }
        for effect in effects {
            match effect {
                // An agent that has ended takes no commands. Its events end as well, which ends the loop.
                Effect::Send(command) => drop(commands.send(command).await),
                Effect::Ask(request) => replies.push(host.ask(request)),
                Effect::Quit => return Ok(Ended::Quit),
                Effect::Switch(to) => return Ok(Ended::Switch(to)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
