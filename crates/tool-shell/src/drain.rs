//! Reading what a command prints, as fast as it prints it, whoever holds the pipe.
//!
//! Model: a thread of its own waits for the pipe and for the word that the shell has ended. After that word it takes what is
//! in the pipe and hands over the result at once, also if a process in the background still holds the other end; then it
//! goes on reading, into a bounded log, so that such a process neither stalls nor dies of a broken pipe.
//!
//! Invariants: memory is bounded whatever is printed; the front end gets at most ten chunks a second.

use crate::capture::{Capture, Shown, Window};
use crate::clean::Cleaner;
use crate::spill::Spill;
use crate::sys;
use becket_tool::Host;
use becket_types::BlobId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const BUFFER: usize = 256 * 1024;
/// How long a pipe that never runs dry is read after the shell has ended.
const LAST: Duration = Duration::from_millis(80);
const PROGRESS: Duration = Duration::from_millis(100);
const PROGRESS_BYTES: usize = 4 * 1024;
/// What background processes may print after the call.
const LOG: u64 = 8 * 1024 * 1024;

/// What a drain needs besides the pipe.
pub(crate) struct Setup {
    pub window: Window,
    pub spill_dir: PathBuf,
    pub spilled: Arc<AtomicU64>,
    pub log: PathBuf,
    pub host: Arc<dyn Host>,
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What came out of a command.
#[derive(Debug)]
pub(crate) struct Output {
    pub shown: Shown,
    /// Raw bytes printed.
    pub bytes: u64,
    /// The raw output, where `shown` is not all of it.
    pub spill: Option<Result<BlobId, String>>,
    /// Somebody still holds the pipe; what they print goes here.
    pub log: Option<PathBuf>,
}

pub(crate) struct Drain {
    result: oneshot::Receiver<Output>,
    wake: PipeWriter,
}

impl Drain {
    pub(crate) fn start(reader: PipeReader, setup: Setup) -> io::Result<Self> {
        // A larger pipe means fewer switches.
        sys::widen(&reader, BUFFER);
        rustix::io::ioctl_fionbio(&reader, true)?;
        let (ended, wake) = io::pipe()?;
        let (send, result) = oneshot::channel();
        std::thread::Builder::new().name("shell output".to_owned()).spawn(move || {
            let mut worker = Worker::new(reader, &setup);
            let held = worker.collect(&ended, &setup);
            drop(ended);
            let (output, reader) = worker.finish(setup, held);
            let log = output.log.clone();
            // Nobody waits when the call was dropped; the pipe is drained all the same.
            let _ = send.send(output);
            if let Some(log) = log {
                linger(reader, log);
            }
        })?;
        Ok(Self { result, wake })
    }

    /// The shell has ended: what there is.
    pub(crate) async fn finish(self) -> Option<Output> {
        drop(self.wake);
        self.result.await.ok()
    }
}

struct Worker {
    reader: PipeReader,
    buffer: Vec<u8>,
    cleaner: Cleaner,
    capture: Capture,
    spill: Spill,
    reported: u64,
    last_report: Option<Instant>,
}

enum Next {
    Data,
    Dry,
    End,
}

impl Worker {
    fn new(reader: PipeReader, setup: &Setup) -> Self {
        Self {
            reader,
            // Grows with the first large read: most commands print little.
            buffer: vec![0; 16 * 1024],
            cleaner: Cleaner::default(),
            capture: Capture::new(setup.window),
            spill: Spill::new(setup.spill_dir.clone(), Arc::clone(&setup.spilled)),
            reported: 0,
            last_report: None,
        }
    }

    /// Until the end of the pipe, or of the shell. Whether somebody still holds the pipe.
    fn collect(&mut self, ended: &PipeReader, setup: &Setup) -> bool {
        let mut deadline: Option<Instant> = None;
        loop {
            if deadline.is_none() {
                match self.wait(ended) {
                    Ok(true) => deadline = Some(Instant::now() + LAST),
                    Ok(false) => {}
                    Err(_) => return false,
                }
            }
            match self.take() {
                Next::End => return false,
                Next::Dry if deadline.is_some() => return true,
                Next::Dry | Next::Data => {}
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return true;
            }
            self.report(setup);
        }
    }

    /// Waits for data or for the word that the shell has ended (`true`), no longer than unreported output may wait.
    fn wait(&self, ended: &PipeReader) -> io::Result<bool> {
        let unreported = self.capture.total() > self.reported;
        let timeout = unreported.then_some(Timespec { tv_sec: 0, tv_nsec: PROGRESS.as_nanos() as _ });
        let mut fds = [PollFd::new(&self.reader, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        loop {
            match poll(&mut fds, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
                Ok(_) => return Ok(!fds[1].revents().is_empty()),
            }
        }
    }

    fn take(&mut self) -> Next {
        let n = match self.reader.read(&mut self.buffer) {
            Ok(0) => return Next::End,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Next::Dry;
            }
            Err(_) => return Next::End,
        };
        let bytes = &self.buffer[..n];
        self.spill.push(bytes);
        let capture = &mut self.capture;
        self.cleaner.push(bytes, &mut |clean| capture.push(clean));
        if n == self.buffer.len() && n < BUFFER {
            self.buffer = vec![0; BUFFER];
        }
        Next::Data
    }

    fn report(&mut self, setup: &Setup) {
        let total = self.capture.total();
        if total == self.reported || self.last_report.is_some_and(|at| at.elapsed() < PROGRESS) {
            return;
        }
        let chunk = self.capture.newest(self.reported, PROGRESS_BYTES);
        self.reported = total;
        self.last_report = Some(Instant::now());
        (setup.progress)(&chunk);
    }

    fn finish(mut self, setup: Setup, held: bool) -> (Output, PipeReader) {
        let capture = &mut self.capture;
        self.cleaner.finish(&mut |clean| capture.push(clean));
        let bytes = self.spill.total();
        let shown = self.capture.show();
        let whole = shown.cut.is_none() && !self.cleaner.changed && shown.head.len() as u64 == bytes;
        let spill = (!whole).then(|| self.spill.keep(&*setup.host));
        let log = held.then_some(setup.log);
        (Output { shown, bytes, spill, log }, self.reader)
    }
}

/// Reads for a process in the background until it lets go of the pipe.
fn linger(mut reader: PipeReader, path: PathBuf) {
    let _ = rustix::io::ioctl_fionbio(&reader, false);
    let mut log = File::create(&path).ok();
    let mut written = 0u64;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                let n = n.min(usize::try_from(LOG - written).unwrap_or(n));
                if let Some(file) = log.as_mut().filter(|_| n > 0) {
                    written += n as u64;
                    if file.write_all(&buffer[..n]).is_err() {
                        log = None;
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    if written == 0 {
        let _ = std::fs::remove_file(path);
    }
}
