//! Reads a command's output as fast as the command prints it, also from processes that outlive its shell.
//!
//! Model: one thread per command owns becket's end of the pipe or terminal. It reads the output, keeps the raw bytes
//! ([`crate::spill`]), cleans and captures the text, writes typed input into a terminal, and enforces the command's limits. When
//! the shell has ended, it reads the bytes that are already there and reports at once, even if a process in the background still
//! holds the other end. It then keeps reading until that process closes its end, so that the process neither stalls nor dies of a
//! broken pipe.
//!
//! A *look* takes the output captured since the previous look. A command that stays in the foreground has one look, at its
//! end.
//!
//! Invariants: memory is bounded whatever is printed; nothing is read on a thread of the caller; the front end gets at most
//! ten chunks a second.

use crate::capture::{Capture, Shown, Window};
use crate::clean::Cleaner;
use crate::limits::{LimitExceeded, LimitWatch};
use crate::screen::Screen;
use crate::spill::Spill;
use becket_tool::Host;
use becket_types::{BlobId, cut_start};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

pub(crate) const BUFFER: usize = 256 * 1024;
/// Time limit for reading the rest of the output after the shell has ended, if other processes keep printing.
const LAST: Duration = Duration::from_millis(80);
const PROGRESS: Duration = Duration::from_millis(100);
const PROGRESS_BYTES: usize = 4 * 1024;
/// Limit on typed input that the command has not read yet, in bytes.
pub(crate) const MAX_INPUT: usize = 64 * 1024;
/// Bytes at the end of earlier looks that are kept to find a secret that begins there. More than a large private key has.
const SECRET_CONTEXT_BYTES: usize = 8 * 1024;

pub(crate) type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// Arguments of [`Drain::start`] besides becket's end of the pipe.
pub(crate) struct Setup {
    pub window: Window,
    pub spill: Spill,
    pub progress: Progress,
    pub sentry: LimitWatch,
    /// Set if the command runs in a terminal: the text to type into it first.
    pub terminal: Option<String>,
}

/// The output of a command since the previous look.
#[derive(Debug)]
pub(crate) struct Output {
    pub shown: Shown,
    /// Raw bytes printed since the command started.
    pub bytes: u64,
    /// The raw output since the command started, if `shown` leaves anything out. `Err` says why it could not be kept.
    pub spill: Option<Result<BlobId, String>>,
    /// Bytes at the end that are held back until the next look, because they may be the beginning of a secret.
    pub held: usize,
    /// The end of the output that earlier looks took.
    pub before: String,
}

/// State of the other end of the pipe or terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The shell has ended and all its output was read, but another process still holds the other end.
    HeldOpen,
    Closed,
}

struct State {
    phase: Phase,
    cleaner: Cleaner,
    capture: Capture,
    spill: Spill,
    screen: Option<Screen>,
    typed: VecDeque<u8>,
    looks: ReadProgress,
    progress: Option<Progress>,
    tripped: Option<LimitExceeded>,
}

/// The looks so far.
#[derive(Default)]
struct ReadProgress {
    count: u32,
    /// Bytes of the unfinished line that the last look held back.
    held_bytes: usize,
    /// The end of the output that they took, at most [`SECRET_CONTEXT_BYTES`] bytes.
    taken_end: String,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when output arrives or the phase changes.
    news: Notify,
    window: Window,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caller's handle on the reading thread.
pub(crate) struct Drain {
    shared: Arc<Shared>,
    /// Wakes the thread: a byte means that input waits to be typed, closing it means that the shell has ended.
    wake: Mutex<Option<PipeWriter>>,
}

impl Drain {
    pub(crate) fn start(end: File, setup: Setup) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&end, true)?;
        let (woken, wake) = io::pipe()?;
        rustix::io::ioctl_fionbio(&woken, true)?;
        let Setup { window, spill, progress, sentry, terminal } = setup;
        let state = State {
            phase: Phase::Open,
            cleaner: Cleaner::default(),
            capture: Capture::new(window),
            spill,
            screen: terminal.is_some().then(Screen::default),
            typed: terminal.unwrap_or_default().into_bytes().into(),
            looks: ReadProgress::default(),
            progress: Some(progress),
            tripped: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), news: Notify::new(), window });
        let worker = Worker {
            end,
            woken: Some(woken),
            // Most commands print little, so the buffer grows only with the first large read.
            buffer: vec![0; 16 * 1024],
            shared: Arc::clone(&shared),
            sentry,
            reported: 0,
            last_report: None,
        };
        std::thread::Builder::new().name("shell output".to_owned()).spawn(move || worker.run())?;
        Ok(Self { shared, wake: Mutex::new(Some(wake)) })
    }

    /// Tells the thread that the shell has ended and waits until all its output was read. Returns true if another process
    /// still holds the other end.
    pub(crate) async fn shell_ended(&self) -> bool {
        drop(self.wake.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.until(|state| state.phase != Phase::Open).await;
        self.shared.lock().phase == Phase::HeldOpen
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.lock().phase == Phase::Closed
    }

    /// Waits for output that no look has taken, or for the end of the shell.
    pub(crate) async fn news(&self) {
        self.until(|state| state.phase != Phase::Open || state.has_news()).await;
    }

    /// Waits until the other end is closed, so that no more output can come.
    pub(crate) async fn closed(&self) {
        self.until(|state| state.phase == Phase::Closed).await;
    }

    /// Raw bytes printed so far.
    pub(crate) fn total(&self) -> u64 {
        self.shared.lock().spill.total()
    }

    /// Returns the last `most` raw bytes, and the number of all bytes that were printed. Takes nothing from the looks.
    pub(crate) fn last(&self, most: usize) -> Result<(Vec<u8>, u64), String> {
        let state = self.shared.lock();
        Ok((state.spill.last(most)?, state.spill.total()))
    }

    /// Writes all raw bytes that are kept to a new private file.
    pub(crate) fn save(&self, path: &std::path::Path) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let state = self.shared.lock();
        io::copy(&mut *state.spill.whole().map_err(io::Error::other)?, &mut file).map(drop)
    }

    async fn until(&self, met: impl Fn(&State) -> bool) {
        loop {
            let news = self.shared.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if met(&self.shared.lock()) {
                return;
            }
            news.await;
        }
    }

    /// Types into the terminal. `Err` is a message for the model.
    pub(crate) fn queue_input(&self, text: &str) -> Result<(), String> {
        let mut state = self.shared.lock();
        if state.screen.is_none() {
            return Err("it has no terminal; start it again with `pty`".to_owned());
        }
        if state.phase != Phase::Open {
            return Err("it has ended".to_owned());
        }
        if state.typed.len() + text.len() > MAX_INPUT {
            return Err(format!("{} bytes wait to be read by it already", state.typed.len()));
        }
        state.typed.extend(text.as_bytes());
        drop(state);
        match &mut *self.wake.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(wake) => wake.write_all(b"i").map_err(|e| e.to_string()),
            None => Err("it has ended".to_owned()),
        }
    }

    /// The limit that the command exceeded and was killed for.
    pub(crate) fn exceeded_limit(&self) -> Option<LimitExceeded> {
        self.shared.lock().tripped
    }

    /// Stops sending live output: the call is over and nobody shows it any more.
    pub(crate) fn quiet(&self) {
        self.shared.lock().progress = None;
    }

    /// Takes the output since the previous look. If the command `goes_on`, another look follows, and an unfinished secret at
    /// the end waits for it.
    pub(crate) async fn look(&self, goes_on: bool, host: &Arc<dyn Host>) -> Output {
        let (mut output, keep) = self.shared.lock().look(self.shared.window, goes_on, &**host);
        if keep {
            // Compressing and writing may take long, so not on the async thread.
            let (shared, host) = (Arc::clone(&self.shared), Arc::clone(host));
            let kept = tokio::task::spawn_blocking(move || shared.lock().spill.keep(&*host)).await;
            output.spill = Some(kept.unwrap_or_else(|e| Err(e.to_string())));
        }
        output
    }
}

impl State {
    fn has_news(&self) -> bool {
        self.capture.total() > 0
            || self.cleaner.open_line() > self.looks.held_bytes
            || self.screen.as_ref().is_some_and(Screen::is_new)
    }

    /// Returns the new output, and true if the raw output must be kept because the new output leaves out a part of it.
    fn look(&mut self, window: Window, goes_on: bool, host: &dyn Host) -> (Output, bool) {
        let capture = &mut self.capture;
        self.cleaner.finish(&mut |clean| capture.push(clean));
        let first = self.looks.count == 0;
        self.looks.count += 1;
        self.looks.held_bytes = 0;
        let bytes = self.spill.total();
        let before = std::mem::take(&mut self.looks.taken_end);
        let mut shown = std::mem::replace(&mut self.capture, Capture::new(window)).show();
        let is_drawn = match self.screen.as_mut().and_then(Screen::take) {
            Some(drawn) => {
                shown = Shown { head: drawn, cut: None };
                true
            }
            None => false,
        };
        let keep = match &shown.cut {
            _ if is_drawn => first,
            Some(_) => true,
            None if first => self.cleaner.changed || shown.head.len() as u64 != bytes,
            None => {
                shown.head.drain(..shown.head.len() - shown.head.trim_start_matches('\n').len());
                false
            }
        };
        let is_last = !goes_on || self.phase == Phase::Closed;
        let held = if is_last { String::new() } else { shown.hold_back(&before, host) };
        // Text that is held back from a drawn screen needs no note: the screen still has it at the next look.
        if !is_drawn {
            self.looks.held_bytes = held.len();
            self.cleaner.put_back(held.as_bytes());
            self.looks.taken_end = format!("{before}{}", shown.end());
            self.looks.taken_end = cut_start(&self.looks.taken_end, SECRET_CONTEXT_BYTES).to_owned();
        }
        (Output { shown, bytes, spill: None, held: held.len(), before }, keep)
    }
}

struct Worker {
    end: File,
    woken: Option<PipeReader>,
    buffer: Vec<u8>,
    shared: Arc<Shared>,
    sentry: LimitWatch,
    reported: u64,
    last_report: Option<Instant>,
}

enum Next {
    Data,
    Dry,
    End,
}

impl Worker {
    fn run(mut self) {
        self.sentry.begin();
        let mut deadline: Option<Instant> = None;
        loop {
            let asleep = deadline.is_some() && self.shared.lock().phase == Phase::Open;
            if !asleep {
                match self.wait() {
                    Ok(true) => deadline = Some(Instant::now() + LAST),
                    Ok(false) => {}
                    Err(_) => break,
                }
            }
            match self.take() {
                Next::End => break,
                Next::Dry if deadline.is_some() => self.enter(Phase::HeldOpen),
                Next::Dry | Next::Data => {}
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.enter(Phase::HeldOpen);
            }
            self.guard();
            self.report();
        }
        if let Some(trip) = self.sentry.at_end() {
            self.shared.lock().tripped.get_or_insert(trip);
        }
        self.enter(Phase::Closed);
        self.watch_limits();
    }

    /// Runs after the end of the output, because processes that are left must still keep to their limits. Returns once the shell
    /// has ended and its group is empty.
    fn watch_limits(&mut self) {
        loop {
            if self.woken.is_none() && self.sentry.is_over() {
                return;
            }
            let pause = self.sentry.next_check().unwrap_or(LAST);
            let timeout = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
            let woken = match &self.woken {
                Some(woken) => poll(&mut [PollFd::new(woken, PollFlags::IN)], Some(&timeout)),
                None => poll(&mut [], Some(&timeout)),
            };
            if woken.is_ok_and(|n| n > 0) {
                self.wake();
            }
            self.guard();
        }
    }

    fn enter(&mut self, phase: Phase) {
        let mut state = self.shared.lock();
        if state.phase != phase {
            state.phase = phase;
            drop(state);
            self.shared.news.notify_waiters();
        }
    }

    /// Waits for output, for room to type, or for the next check of the limits. Returns true if the shell has ended.
    fn wait(&mut self) -> io::Result<bool> {
        let (typing, unreported) = {
            let state = self.shared.lock();
            (!state.typed.is_empty(), state.progress.is_some() && state.capture.total() > self.reported)
        };
        let mut timeout = self.sentry.next_check();
        if unreported {
            timeout = Some(timeout.map_or(PROGRESS, |t| t.min(PROGRESS)));
        }
        let timeout =
            timeout.map(|t| Timespec { tv_sec: t.as_secs() as _, tv_nsec: t.subsec_nanos().into() });
        let wanted = if typing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(&self.end, wanted)];
        fds.extend(self.woken.as_ref().map(|woken| PollFd::new(woken, PollFlags::IN)));
        loop {
            match poll(&mut fds, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
                Ok(_) => break,
            }
        }
        let (room, woken) =
            (fds[0].revents().contains(PollFlags::OUT), fds.get(1).is_some_and(|f| !f.revents().is_empty()));
        if room {
            self.write_input();
        }
        Ok(woken && self.wake())
    }

    /// Reads the wake pipe. A byte only wakes the thread; the end of the pipe means that the shell has ended (returns true).
    fn wake(&mut self) -> bool {
        let Some(woken) = &mut self.woken else { return false };
        let mut bytes = [0; 64];
        loop {
            match woken.read(&mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.woken = None;
        true
    }

    fn write_input(&mut self) {
        let mut state = self.shared.lock();
        let (first, _) = state.typed.as_slices();
        match self.end.write(first) {
            Ok(n) => drop(state.typed.drain(..n)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => state.typed.clear(),
        }
    }

    fn take(&mut self) -> Next {
        let n = match self.end.read(&mut self.buffer) {
            Ok(0) => return Next::End,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Next::Dry;
            }
            // Reading from a terminal fails once the last process has closed the other end.
            Err(_) => return Next::End,
        };
        let bytes = &self.buffer[..n];
        let mut state = self.shared.lock();
        let State { spill, cleaner, capture, screen, .. } = &mut *state;
        spill.push(bytes);
        cleaner.push(bytes, &mut |clean| capture.push(clean));
        if let Some(screen) = screen {
            screen.push(bytes);
        }
        let total = spill.total();
        drop(state);
        self.shared.news.notify_waiters();
        self.sentry.printed(total);
        if n == self.buffer.len() && n < BUFFER {
            self.buffer = vec![0; BUFFER];
        }
        Next::Data
    }

    fn guard(&mut self) {
        if let Some(trip) = self.sentry.check() {
            self.shared.lock().tripped.get_or_insert(trip);
        }
    }

    fn report(&mut self) {
        let state = self.shared.lock();
        let total = state.capture.total();
        let Some(progress) = &state.progress else { return };
        if total <= self.reported || self.last_report.is_some_and(|at| at.elapsed() < PROGRESS) {
            return;
        }
        let (chunk, progress) = (state.capture.newest(self.reported, PROGRESS_BYTES), Arc::clone(progress));
        drop(state);
        self.reported = total;
        self.last_report = Some(Instant::now());
        progress(&chunk);
    }
}
