//! Event loop: input from the terminal, the agent, the host and timers; effects and frames as output. No other part of
//! the crate waits.
//!
//! Takes all pending inputs before it draws, so that a burst of deltas costs one frame. Knows nothing of panes.

use crate::app::{App, Preferences};
use crate::decoder::{Decoded, Decoder};
use crate::graphics::Protocol;
use crate::highlight::Job;
use crate::input::{Effect, Input, Reply, Request, Stretch, To};
use crate::notify::Notifications;
use crate::scheduler::{Scheduler, Timers};
use crate::terminal::answers::{Listened, Listener};
use crate::terminal::{self, Asks, Place, Screen};
use becket_types::{Command, Event, Used};
use crossterm::event::{Event as TerminalEvent, EventStream};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Maximum number of agent events that are taken before the screen is considered again.
const BATCH: usize = 4_096;

/// Time after a resize in which the terminal may have resized again without a signal: tmux signals the first change at once and
/// the next one up to 250 ms later. Rows drawn for an outdated width would be wrapped unnoticed.
const SETTLED: Duration = Duration::from_millis(300);

/// Parts that the interface is made of.
pub struct Options {
    pub preferences: Preferences,
    pub notifications: Notifications,
    pub place: Place,
    /// The end of an earlier session. More is requested from the host ([`Request::Past`]) when the user scrolls back.
    pub end: Option<Stretch>,
    /// Usage of the session so far.
    pub used: Used,
    /// Begin with the list of sessions, from which the user chooses one to continue.
    pub choose_session: bool,
    /// The whole session is on disk, so the host can read any part of it again.
    pub on_disk: bool,
    /// Commands to the agent.
    pub commands: mpsc::Sender<Command>,
    /// Events of the agent.
    pub events: mpsc::UnboundedReceiver<Event>,
    /// Inputs that do not come from the terminal: signals.
    pub outside: mpsc::UnboundedReceiver<Input>,
    pub host: Box<dyn Host>,
}

/// Services of the process that contains the interface.
pub trait Host {
    /// Answers a request; `None` if there is nothing to answer.
    fn ask(&mut self, request: Request) -> BoxFuture<'static, Option<Reply>>;
    /// Copies text to the system's clipboard. The interface also sends the text to the terminal (OSC 52) in any case.
    fn copy(&mut self, text: &str);
    /// Stops the process as Ctrl-Z does, until it is continued. The terminal has been restored before.
    fn stop(&mut self);
}

/// Reason for which the loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user quit.
    Quit,
    /// The user switches to another session.
    Switch(To),
    /// The agent's events ended.
    AgentGone,
    /// A signal asked becket to exit, or the terminal sends no more input.
    Terminated,
}

/// Runs until the user leaves. Afterwards the transcript is in the scrollback.
///
/// # Errors
///
/// Fails if the terminal cannot be read or written to. The terminal's modes are restored first if that is possible.
pub async fn run<W: Write>(out: W, mut options: Options) -> io::Result<Ended> {
    let images = &mut options.preferences.images;
    if options.place == Place::Inline {
        // Lines printed into the scrollback cannot be drawn over later, so only a protocol that places images by text
        // works there.
        *images = images.filter(|images| images.protocol == Some(Protocol::Kitty));
    }
    let asks = match images {
        Some(images) if images.protocol.is_none() => Asks::KeyboardAndImages,
        _ => Asks::Keyboard,
    };
    let listener = Listener::new().ok();
    let screen = match &listener {
        Some(_) => Screen::asking(out, options.place, asks)?,
        None => Screen::enter(out, options.place)?,
    };
    let mut runner = Runner {
        app: App::with(options.preferences),
        screen,
        input: TerminalInput {
            keys: listener.is_none().then(EventStream::new),
            listener,
            decoder: Decoder::default(),
        },
        support: Support { asks, sixels: None, cell: None },
        scheduler: Scheduler::default(),
        timers: Timers::default(),
        replies: FuturesUnordered::new(),
        commands: options.commands,
        events: options.events,
        host: options.host,
        notifications: options.notifications,
        ended: None,
    };
    runner.scheduler.at_once(Instant::now());
    runner.app.begin_with(options.used, options.on_disk);
    if let Some(end) = options.end {
        runner.app.show_end(&end);
    }
    for effect in runner.app.begin() {
        runner.perform(effect).await?;
    }
    runner.perform(Effect::Ask(Request::History)).await?;
    runner.perform(Effect::Ask(Request::LastDraft)).await?;
    if options.choose_session {
        let list = runner.app.choose_session("");
        runner.perform(list).await?;
    }
    let ended = runner.serve(options.outside).await;
    runner.input.close();
    let left = runner.screen.leave();
    runner.images_lost();
    let lines = runner.app.print();
    runner.screen.print(&lines)?;
    left?;
    ended
}

struct Runner<W: Write> {
    app: App,
    screen: Screen<W>,
    input: TerminalInput,
    support: Support,
    scheduler: Scheduler,
    timers: Timers,
    replies: FuturesUnordered<BoxFuture<'static, Option<Reply>>>,
    commands: mpsc::Sender<Command>,
    events: mpsc::UnboundedReceiver<Event>,
    host: Box<dyn Host>,
    notifications: Notifications,
    ended: Option<Ended>,
}

/// Readers of the terminal.
///
/// Invariant: at most one of them reads, and none while another program has the terminal.
struct TerminalInput {
    /// `None` while another program reads the terminal.
    keys: Option<EventStream>,
    /// Reads the terminal's answers at the start, before keys are read.
    listener: Option<Listener>,
    decoder: Decoder,
}

impl TerminalInput {
    /// Stops reading, so that another program can.
    fn close(&mut self) {
        self.keys = None;
        self.listener = None;
    }

    /// Reads keys from now on.
    fn open(&mut self) {
        self.keys = Some(EventStream::new());
    }
}

/// Queries that the terminal was sent, and what is known of its images.
struct Support {
    asks: Asks,
    /// The sixel protocol, if images are drawn by it.
    sixels: Option<Protocol>,
    /// Size of a cell in pixels, as the system reports it.
    cell: Option<(u16, u16)>,
}

impl<W: Write> Runner<W> {
    async fn serve(&mut self, mut outside: mpsc::UnboundedReceiver<Input>) -> io::Result<Ended> {
        let mut agent_gone = false;
        loop {
            if let Some(ended) = self.ended.take() {
                return Ok(ended);
            }
            let now = Instant::now();
            if self.scheduler.due().is_some_and(|at| at <= now) {
                self.draw().await?;
            }
            tokio::select! {
                biased;
                key = next_key(self.input.keys.as_mut()) => match key {
                    Some(event) => {
                        let decoded = self.input.decoder.take(event?, Instant::now());
                        self.decoded(decoded).await?;
                    }
                    None => return Ok(Ended::Terminated),
                },
                listened = heard(self.input.listener.as_mut()) => self.listened(listened).await?,
                Some(input) = outside.recv() => match input {
                    Input::Terminate => return Ok(Ended::Terminated),
                    Input::Continued => self.resume()?,
                    input => self.take(input).await?,
                },
                () = until(self.input.decoder.due()) => {
                    let decoded = self.input.decoder.expire(Instant::now());
                    self.decoded(decoded).await?;
                }
                () = until(self.scheduler.due()) => {}
                () = until(self.screen.surface().due()) => self.scheduler.at_once(Instant::now()),
                // Timers come before the agent's events, of which a busy agent always has some.
                () = until(self.timers.next()) => self.due().await?,
                event = self.events.recv(), if !agent_gone => match event {
                    Some(event) => self.agent(event).await?,
                    None => agent_gone = true,
                },
                Some(reply) = self.replies.next(), if !self.replies.is_empty() => {
                    if let Some(reply) = reply {
                        match reply {
                            Reply::Highlighted => self.scheduler.soon(Instant::now()),
                            _ => self.scheduler.at_once(Instant::now()),
                        }
                        self.take(Input::Reply(reply)).await?;
                    }
                }
            }
            if agent_gone && self.ended.is_none() {
                return Ok(Ended::AgentGone);
            }
        }
    }

    async fn draw(&mut self) -> io::Result<()> {
        let mut effects = Vec::new();
        let app = &mut self.app;
        match self.screen.place() {
            Place::Alternate => {
                self.screen.draw(|frame| effects = app.draw(frame))?;
                let missing = self.screen.surface().missing_images();
                effects.extend(missing.into_iter().filter_map(|number| app.missing_image(number)));
            }
            Place::Inline => {
                let size = self.screen.size()?;
                app.inline(size.width, size.height);
                let lines = app.print_finished();
                let height = app.inline(size.width, size.height);
                self.screen.draw_inline(&lines, height, |frame| effects = app.draw(frame))?;
            }
        }
        self.scheduler.drawn(Instant::now());
        for effect in effects {
            self.perform(effect).await?;
        }
        Ok(())
    }

    async fn decoded(&mut self, decoded: Vec<Decoded>) -> io::Result<()> {
        for one in decoded {
            match one {
                Decoded::Event(event) => self.terminal(event).await?,
                Decoded::Background(r, g, b) => {
                    self.scheduler.soon(Instant::now());
                    self.take(Input::Background(r, g, b)).await?;
                }
            }
        }
        Ok(())
    }

    /// Handles the terminal's answers that come before keys are read.
    async fn listened(&mut self, listened: Listened) -> io::Result<()> {
        let (events, told) = match listened {
            Listened::Events(events) => (events, None),
            Listened::End(events, told) => (events, Some(told)),
        };
        for event in events {
            let decoded = self.input.decoder.take(event, Instant::now());
            self.decoded(decoded).await?;
        }
        let Some(told) = told else { return Ok(()) };
        self.input.listener = None;
        // An event that came with the answer may have run an editor, which opened the stream again already.
        self.input.keys.get_or_insert_with(EventStream::new);
        // The size of the window may have changed meanwhile.
        self.scheduler.soon(Instant::now());
        if told.answered {
            self.screen.answered();
        }
        if let Some(row) = told.row {
            self.screen.locates(row)?;
        }
        if told.keyboard {
            self.screen.use_keyboard()?;
            self.take(Input::Keyboard).await?;
        }
        if self.support.asks == Asks::Keyboard {
            return Ok(());
        }
        self.support.cell = terminal::cell();
        self.support.sixels = told.sixels(self.support.cell);
        match self.support.sixels {
            Some(protocol) => self.take(Input::Draws(protocol)).await,
            None => Ok(()),
        }
    }

    /// Requests images again if the font and so the size of a cell has changed.
    async fn cells_changed(&mut self) -> io::Result<()> {
        let now = terminal::cell();
        if now == self.support.cell {
            return Ok(());
        }
        self.support.cell = now;
        let (Some(Protocol::Sixel { colours, .. }), Some(cell)) = (self.support.sixels, now) else {
            return Ok(());
        };
        let protocol = Protocol::Sixel { cell, colours };
        self.support.sixels = Some(protocol);
        self.screen.surface().drop_images();
        self.take(Input::Draws(protocol)).await
    }

    async fn terminal(&mut self, event: TerminalEvent) -> io::Result<()> {
        let resized = matches!(event, TerminalEvent::Resize(..));
        if resized {
            self.cells_changed().await?;
        }
        let input = match event {
            TerminalEvent::Key(key) => Input::Key(key),
            TerminalEvent::Paste(text) => Input::Paste(text),
            TerminalEvent::Mouse(mouse) => Input::Mouse(mouse),
            TerminalEvent::Resize(columns, rows) => Input::Resize { columns, rows },
            TerminalEvent::FocusGained => Input::Focus(true),
            TerminalEvent::FocusLost => Input::Focus(false),
        };
        self.scheduler.at_once(Instant::now());
        self.take(input).await?;
        if resized && self.screen.place() == Place::Inline {
            return self.resized().await;
        }
        Ok(())
    }

    /// Redraws the inline region after a resize, and then draws nothing until the size is settled.
    async fn resized(&mut self) -> io::Result<()> {
        // crossterm has a single reader, so the event stream must end before the cursor is queried.
        if self.input.keys.take().is_some() {
            self.screen.locate(true)?;
            self.input.open();
        }
        self.draw().await?;
        self.scheduler.hold(Instant::now() + SETTLED);
        Ok(())
    }

    /// Handles this event and all that are pending.
    async fn agent(&mut self, first: Event) -> io::Result<()> {
        self.scheduler.soon(Instant::now());
        self.take(Input::Agent(first)).await?;
        for _ in 0..BATCH {
            let Ok(event) = self.events.try_recv() else { break };
            self.take(Input::Agent(event)).await?;
        }
        Ok(())
    }

    /// Handles a timer that has run out.
    async fn due(&mut self) -> io::Result<()> {
        let Some((timer, times)) = self.timers.expire(Instant::now()) else { return Ok(()) };
        self.scheduler.soon(Instant::now());
        for _ in 0..times {
            self.take(Input::Due(timer)).await?;
        }
        self.timers.stop_clock();
        Ok(())
    }

    async fn take(&mut self, input: Input) -> io::Result<()> {
        for effect in self.app.update(input) {
            self.perform(effect).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::Send(command) => {
                // An agent that has ended takes no commands. Its events end as well, which ends the loop.
                let _ = self.commands.send(command).await;
            }
            Effect::Ask(request @ Request::Edit { .. }) => return self.edit(request).await,
            Effect::Ask(request) => self.replies.push(self.host.ask(request)),
            Effect::Copy(text) => {
                self.host.copy(&text);
                self.screen.send(osc52(&text).as_bytes())?;
            }
            Effect::Wake(millis, timer) => {
                self.timers.wake(millis, timer, Instant::now());
            }
            Effect::Highlight(jobs) if !jobs.is_empty() => {
                let read = tokio::task::spawn_blocking(move || jobs.iter().for_each(Job::run));
                self.replies.push(Box::pin(async move { read.await.ok().map(|()| Reply::Highlighted) }));
            }
            Effect::Highlight(_) => {}
            Effect::Notify(text) => self.screen.send(self.notifications.sequence(&text).as_bytes())?,
            Effect::Title(title) => self.screen.title(&title)?,
            Effect::Image(bytes) => self.screen.send(bytes.as_bytes())?,
            Effect::Picture(number, image) => self.screen.surface().give_image(number, image),
            Effect::AskBackground => self.screen.send(BACKGROUND)?,
            Effect::Suspend => return self.suspend(),
            Effect::Quit => self.ended = Some(Ended::Quit),
            Effect::Switch(to) => self.ended = Some(Ended::Switch(to)),
        }
        Ok(())
    }

    /// Passes the terminal to the editor until that exits.
    async fn edit(&mut self, request: Request) -> io::Result<()> {
        self.input.close();
        self.screen.leave()?;
        self.images_lost();
        let reply = self.host.ask(request).await;
        self.screen.resume()?;
        self.screen.locate(false)?;
        self.input.open();
        self.scheduler.at_once(Instant::now());
        if let Some(reply) = reply {
            self.replies.push(Box::pin(std::future::ready(Some(reply))));
        }
        Ok(())
    }

    /// Sets the terminal's modes again and redraws all, because another program may have used the terminal.
    fn resume(&mut self) -> io::Result<()> {
        if self.input.keys.is_some() {
            self.screen.leave()?;
            self.images_lost();
            self.input.keys = None;
            self.screen.resume()?;
            self.screen.locate(false)?;
            self.input.open();
            self.scheduler.at_once(Instant::now());
        }
        Ok(())
    }

    /// Forgets sent images. The terminal holds them for the alternate screen only, and a new alternate screen does not
    /// have them.
    fn images_lost(&mut self) {
        if self.screen.place() == Place::Alternate {
            self.app.forget_images();
        }
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.input.close();
        self.screen.leave()?;
        self.images_lost();
        let lines = self.app.print_finished();
        self.screen.print(&lines)?;
        self.host.stop();
        self.screen.resume()?;
        self.screen.locate(false)?;
        self.input.open();
        self.scheduler.at_once(Instant::now());
        Ok(())
    }
}

/// Query for the terminal's background colour.
const BACKGROUND: &[u8] = b"\x1b]11;?\x07";

/// Sequence that copies text to the clipboard in terminals that support OSC 52.
fn osc52(text: &str) -> String {
    use base64::Engine as _;
    format!("\x1b]52;c;{}\x07", base64::engine::general_purpose::STANDARD.encode(text))
}

async fn next_key(keys: Option<&mut EventStream>) -> Option<io::Result<TerminalEvent>> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}

async fn heard(listener: Option<&mut Listener>) -> Listened {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
