//! `becket --print`: one loop between the agent, the printer, stdin and signals.

use crate::args::InputFormat;
use crate::assemble::{Assembled, assemble, leave};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::RunSettings;
use crate::slash::Slash;
use crate::stdin::{self, Line, Piped};
use becket_print::{ExitStatus, InputError, InputLine, PrintOptions, Printer, Reaction, Schema, parse_line};
use becket_types::{Command, DeliveryMode, Event, NoticeLevel, Part, PromptInput};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::PoisonError;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// After an interrupt, what is under way has this long to end.
const GRACE: Duration = Duration::from_secs(10);

/// Runs to the end and says how it ended.
pub(crate) async fn run(environment: &Environment, mut settings: RunSettings) -> Result<ExitStatus, Failure> {
    let prompt = match settings.input {
        InputFormat::Text => text_prompt(&settings).await?,
        InputFormat::StreamJson => None,
    };
    // A session that goes on keeps its system prompt, so the prompt says what the answer must be.
    let instruction = settings.schema.as_ref().filter(|_| settings.goes_on()).map(Schema::instruction);
    let assembled = assemble(environment, &mut settings).await;
    if assembled.is_err() {
        // A misspelled key may be the reason.
        for warning in &settings.settings.warnings {
            note(&warning.to_string());
        }
    }
    let Assembled { agent, handle, shell, mcp, notes, begun, blobs, unfinished, .. } = assembled?;
    let continues = prompt.is_none() && settings.input == InputFormat::Text;
    if continues && !unfinished {
        return Err(Failure::usage("the last turn of this session is complete, and there is no new prompt")
            .hint("becket -p --continue \"task\""));
    }
    let slash = Slash::new(environment, &settings, &shell);
    let options = PrintOptions {
        format: settings.format,
        verbose: settings.verbose,
        partial: settings.partial,
        replay: settings.replay,
        subagent_text: settings.subagent_text,
        schema: settings.schema.take(),
        driven: settings.input == InputFormat::StreamJson,
        terminal: io::stdout().is_terminal(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut printer = Printer::new(options, Box::new(io::stdout()), Box::new(io::stderr())).with_blobs(blobs);
    for text in notes {
        let level = NoticeLevel::Warning;
        written(printer.event(&Event::Notice { level, text }))?;
    }
    let mut front = Front {
        commands: handle.commands,
        events: handle.events,
        lines: (prompt.is_none() && !continues).then(stdin::lines),
        line_number: 0,
        introduced: false,
        asked: prompt.is_some() || continues,
        ended: prompt.is_some() || continues,
        printer,
        environment,
        keep_text: settings.last_message.is_some(),
        last_text: None,
        interrupted: false,
        slash,
    };
    if continues {
        front.command(Command::Continue).await;
        if !front.printer.may_ask() {
            front.command(Command::EndInput).await;
        }
    }
    if let Some(mut text) = prompt {
        if let Some(mcp) = &mcp {
            text = crate::mcp::expanded(mcp, text).await?;
        }
        let text = front.slash.expanded(text).await.map_err(Failure::usage)?;
        let asked = becket_print::slash_command(&[Part::text(text.as_str())]).transpose();
        let command = asked.map_err(Failure::usage)?.unwrap_or_else(|| prompt_command(text, instruction));
        front.command(command).await;
        // Without a schema the first turn is the last, and the agent may know it at once.
        if !front.printer.may_ask() {
            front.command(Command::EndInput).await;
        }
    }
    let mut signals = Signals::new()?;
    let (mut last, mut saved) = (Vec::new(), false);
    let outcome = tokio::select! {
        // The agent's future is polled here, on this thread; when it returns, the rest of its events is read.
        outcome = front.serve(&mut signals) => outcome,
        left = agent.run() => {
            // The session is let go of here: an unused one can be removed only when nobody holds it.
            let mut session = left.lock().unwrap_or_else(PoisonError::into_inner);
            saved = session.flush();
            last = session.take_notices();
            None
        }
    };
    if settings.input == InputFormat::StreamJson {
        leave(begun.as_deref());
    }
    let status = match outcome {
        Some(status) => status?,
        None => front.drain()?,
    };
    // The last try to save it may have gone well.
    let status = if saved && status == ExitStatus::NotSaved { ExitStatus::Ok } else { status };
    // Storage failures at the very end come after the result, so they go to stderr only.
    for text in &last {
        note(text);
    }
    if status == ExitStatus::Terminated {
        note("terminated: the turn is unfinished; --continue continues it");
    }
    // Who terminates us does not wait; the watcher of the commands ends them then.
    if status != ExitStatus::Terminated {
        for line in shell.end_jobs().await {
            note(&line);
        }
    }
    if let Some(mcp) = mcp {
        mcp.stop().await;
    }
    if let (Some(path), Some(text)) = (&settings.last_message, &front.last_text) {
        std::fs::write(path, text)
            .map_err(|e| Failure::error(format!("cannot write {}: {e}", path.display())))?;
    }
    Ok(status)
}

/// The prompt of a text run: the argument, and what is piped in. `None`: an unfinished turn is to be continued.
async fn text_prompt(settings: &RunSettings) -> Result<Option<String>, Failure> {
    let prompt = settings.prompt.as_deref().filter(|prompt| *prompt != "-");
    let may_continue = settings.goes_on() && settings.prompt.is_none();
    let piped = stdin::read_all(prompt.is_some() || may_continue)
        .await
        .map_err(|e| Failure::error(format!("cannot read stdin: {e}")))?;
    let piped = match piped {
        Piped::Nothing => None,
        Piped::Text(text) => Some(text),
        Piped::Damaged(text) => {
            note(
                "stdin is not all UTF-8; the other bytes reach the model as U+FFFD (name the file in the prompt instead, or convert it)",
            );
            Some(text)
        }
        Piped::Cut(text) => {
            note("stdin is longer than 10 MB; only its beginning is used");
            Some(text)
        }
        Piped::Silent => {
            note("nothing came from stdin; going on without it (close it with </dev/null)");
            None
        }
    };
    match (prompt, piped) {
        (Some(prompt), None) => Ok(Some(prompt.to_owned())),
        (Some(prompt), Some(piped)) => Ok(Some(format!("{prompt}\n\n<stdin>\n{piped}\n</stdin>"))),
        (None, Some(piped)) if !becket_types::is_blank(&piped) => Ok(Some(piped)),
        (None, _) if may_continue => Ok(None),
        (None, _) => Err(Failure::usage("there is no prompt").hint(if settings.list_flags {
            "put -- before the prompt: a flag that takes a list took it (--allowedTools Edit -- \"task\")"
        } else {
            "becket -p \"task\", or pipe it in: echo \"task\" | becket -p"
        })),
    }
}

fn note(text: &str) {
    let _ = writeln!(io::stderr(), "becket: {text}");
}

fn prompt_command(text: String, instruction: Option<String>) -> Command {
    let mut parts = vec![Part::text(text)];
    parts.extend(instruction.map(|text| Part::Text {
        text,
        synthetic: true,
        ignored: false,
        extra: serde_json::Map::new(),
    }));
    Command::Prompt(PromptInput { parts, mode: DeliveryMode::Steer, client_id: None })
}

fn written<T>(result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|e| match e.kind() {
        // The reader has gone: its choice, nothing to tell anybody.
        io::ErrorKind::BrokenPipe => Failure::error(String::new()),
        _ => Failure::error(format!("cannot write to stdout: {e}")),
    })
}

struct Front<'a> {
    commands: mpsc::Sender<Command>,
    events: mpsc::UnboundedReceiver<Event>,
    lines: Option<mpsc::Receiver<Line>>,
    line_number: u64,
    /// The agent has said what this session is.
    introduced: bool,
    /// Something came on it that is not blank.
    asked: bool,
    /// No more input will come.
    ended: bool,
    printer: Printer,
    environment: &'a Environment,
    /// Somebody wants the last answer.
    keep_text: bool,
    last_text: Option<String>,
    interrupted: bool,
    slash: Slash,
}

impl Front<'_> {
    /// Until the agent's events end, or a signal does. `None`: the events ended.
    async fn serve(&mut self, signals: &mut Signals) -> Option<Result<ExitStatus, Failure>> {
        let mut deadline = None;
        loop {
            let step = tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(event) => self.event(&event).await,
                    None => return None,
                },
                // What a host sends early is answered behind the first line, which says what this session is.
                line = next_line(self.lines.as_mut()), if self.introduced => self.line(line).await,
                status = signals.next() => {
                    if self.interrupted || status == ExitStatus::Terminated {
                        return Some(Ok(status));
                    }
                    self.interrupted = true;
                    deadline = Some(tokio::time::Instant::now() + GRACE);
                    self.command(Command::Interrupt).await;
                    self.command(Command::EndInput).await;
                    Ok(())
                }
                () = until(deadline) => return Some(Ok(ExitStatus::Interrupted)),
            };
            if let Err(failure) = step {
                return Some(Err(failure));
            }
        }
    }

    /// What came while the agent was ending.
    fn drain(&mut self) -> Result<ExitStatus, Failure> {
        while let Ok(event) = self.events.try_recv() {
            self.remember(&event);
            written(self.printer.event(&event))?;
        }
        Ok(if self.interrupted { ExitStatus::Interrupted } else { self.printer.status() })
    }

    async fn event(&mut self, event: &Event) -> Result<(), Failure> {
        self.remember(event);
        match written(self.printer.event(event))? {
            Reaction::Nothing => {}
            Reaction::Send(command) => self.command(command).await,
            Reaction::TurnOver if self.ended => self.command(Command::EndInput).await,
            Reaction::TurnOver => {}
        }
        Ok(())
    }

    fn remember(&mut self, event: &Event) {
        crate::servers::forget_firsts_after(self.environment, event);
        self.introduced |= matches!(event, Event::SessionStarted { .. });
        if let (true, Event::TurnFinished(result)) = (self.keep_text, event) {
            self.last_text = Some(result.text.clone());
        }
    }

    async fn line(&mut self, line: Option<Line>) -> Result<(), Failure> {
        let Some(line) = line else {
            self.lines = None;
            self.ended = true;
            if !self.asked {
                return Err(Failure::usage("no message came on stdin").hint(
                    "send {\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"…\"}} as a line",
                ));
            }
            self.command(Command::EndInput).await;
            return Ok(());
        };
        self.line_number += 1;
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong => {
                self.asked = true;
                let limit = stdin::LINE_CAP / (1024 * 1024);
                return written(
                    self.printer.input_error(&InputError::TooLong { line: self.line_number, limit }),
                );
            }
        };
        let text = String::from_utf8_lossy(&line);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            note(&format!("input line {} is not all UTF-8; the other bytes became U+FFFD", self.line_number));
        }
        let parsed = parse_line(self.line_number, &text);
        self.asked |= !matches!(parsed, Ok(InputLine::Nothing));
        match parsed {
            Ok(InputLine::Nothing) => {}
            Ok(InputLine::Command(Command::Prompt(mut input))) => {
                if let [Part::Text { text, .. }] = &mut input.parts[..] {
                    match self.slash.expanded(text.clone()).await {
                        Ok(expanded) => *text = expanded,
                        Err(why) => note(&why),
                    }
                }
                self.command(Command::Prompt(input)).await;
            }
            Ok(InputLine::Command(command)) => self.command(command).await,
            Ok(InputLine::Control { request_id, command }) => {
                self.command(Command::WithReceipt { request_id, what: Box::new(command) }).await;
            }
            Ok(InputLine::Answer { request_id, response }) => {
                written(self.printer.control_response(&request_id, &response))?;
            }
            Err(error) => written(self.printer.input_error(&error))?,
        }
        Ok(())
    }

    /// An agent that has ended takes no more commands; then its events end too.
    async fn command(&self, command: Command) {
        let _ = self.commands.send(command).await;
    }
}

async fn next_line(lines: Option<&mut mpsc::Receiver<Line>>) -> Option<Line> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
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

    /// The next one. SIGHUP is like SIGTERM: nobody reads any more.
    async fn next(&mut self) -> ExitStatus {
        tokio::select! {
            _ = self.interrupt.recv() => ExitStatus::Interrupted,
            _ = self.terminate.recv() => ExitStatus::Terminated,
            _ = self.hangup.recv() => ExitStatus::Terminated,
        }
    }
}
