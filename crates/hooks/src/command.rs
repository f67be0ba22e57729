//! Runs a program within limits of time and output.
//!
//! The program and the processes that it starts are one process group. The group is killed when the time is over, when it
//! prints too much, and when the caller stops waiting. Processes that the program leaves in the background after a normal
//! end keep running.

use becket_sandbox::{ProcessGroup, ProgramKind, Programs};
use becket_types::HookOutput;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Maximum number of bytes of each output stream; a program that prints more is killed.
const MAX_OUTPUT: usize = 1 << 20;
/// Maximum number of bytes that a program may write to set variables.
const MAX_EXPORTS: u64 = 64 << 10;
/// Shortest time between two reports of outputs.
const PERIOD: Duration = Duration::from_secs(1);
/// Bytes at the end of each output that are reported.
const TOLD: usize = 4_000;
/// Time for the outputs to end after the program has exited, because a process in the background may hold them open.
const LINGER: Duration = Duration::from_millis(200);

/// A program to run.
#[derive(Debug)]
pub struct Program<'a> {
    pub command: &'a str,
    /// Arguments of a program that is started without a shell; `None`: the command is for `sh`.
    pub args: Option<&'a [String]>,
    /// Text for standard input.
    pub input: String,
    /// The working directory of the program.
    pub dir: &'a Path,
    /// The whole environment of the program.
    pub variables: Vec<(OsString, OsString)>,
    /// True if the program runs in the sandbox for hooks.
    pub confined: bool,
    /// The program is killed after this time.
    pub limit: Duration,
    /// If set, the program gets the variable `CLAUDE_ENV_FILE` with the path of an empty file. The text that it writes
    /// there is put here.
    pub exported: Option<&'a Mutex<String>>,
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramResult {
    Exited {
        code: i32,
        stdout: String,
        stderr: String,
    },
    /// Killed by a signal that becket did not send.
    Killed {
        signal: i32,
        stderr: String,
    },
    TimedOut,
    /// Killed because it printed more than 1 MiB.
    Flooded,
    NotStarted(String),
}

/// The file in which a program sets variables for later commands. When this is dropped, which is after the program's end,
/// the text is read and the file removed.
struct ExportFile<'a> {
    path: PathBuf,
    text: &'a Mutex<String>,
}

impl<'a> ExportFile<'a> {
    /// Creates the file where a confined program may write, in the folder of its `TMPDIR`, and adds the variable that names it.
    fn new(text: &'a Mutex<String>, variables: &mut Vec<(OsString, OsString)>) -> std::io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let temp = variables.iter().rev().find(|(name, _)| name == "TMPDIR");
        let folder = temp.map_or_else(std::env::temp_dir, |(_, folder)| PathBuf::from(folder));
        let path = folder.join(format!("becket-env-{}", becket_types::unique()));
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        variables.push(("CLAUDE_ENV_FILE".into(), path.clone().into_os_string()));
        Ok(Self { path, text })
    }
}

impl Drop for ExportFile<'_> {
    fn drop(&mut self) {
        use std::io::Read as _;
        // The program may have put a link or a pipe in the file's place. Nothing replaces it after this check if the
        // program is confined: all its processes have ended.
        let is_file = self.path.symlink_metadata().is_ok_and(|meta| meta.is_file());
        if let (true, Ok(file)) = (is_file, std::fs::File::open(&self.path)) {
            // Text that is not UTF-8 sets nothing.
            let _ = file.take(MAX_EXPORTS).read_to_string(&mut lock(self.text));
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Receives the outputs of a program that continues to run.
pub type Printed<'a> = dyn Fn(HookOutput) + Send + Sync + 'a;

/// Runs the program until it exits or its time is over.
pub async fn run(program: Program<'_>, programs: &Programs, printed: &Printed<'_>) -> ProgramResult {
    let mut words: Vec<OsString> = Vec::new();
    let mut variables = program.variables;
    let mut lease = None;
    if program.confined {
        let prepared = match programs.prepare(ProgramKind::Hook) {
            Ok(prepared) => prepared,
            Err(error) => return ProgramResult::NotStarted(error.to_string()),
        };
        lease = programs.protect(&prepared);
        words = prepared.words;
        variables.extend(prepared.variables);
    }
    let _exports = match program.exported.map(|to| ExportFile::new(to, &mut variables)).transpose() {
        Ok(file) => file,
        Err(error) => return ProgramResult::NotStarted(format!("the file for its variables: {error}")),
    };
    match program.args {
        Some(args) => {
            words.push(program.command.into());
            words.extend(args.iter().map(OsString::from));
        }
        None => words.extend(["/bin/sh".into(), "-c".into(), program.command.into()]),
    }
    let Some((first, rest)) = words.split_first() else {
        return ProgramResult::NotStarted("it is empty".to_owned());
    };
    let mut command = Command::new(first);
    command
        .args(rest)
        .current_dir(program.dir)
        .env_clear()
        .envs(variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return ProgramResult::NotStarted(error.to_string()),
    };
    let group = ProcessGroup::led_by(child.id());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = program.input;
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A program may exit without reading its input, so an error is ignored.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let (said, complained) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let tell = OutputReporter { printed, stdout: &said, stderr: &complained, last: Mutex::new(None) };
    let work = async {
        let outputs = async {
            let (out, err) = futures::join!(read(stdout, &said, &tell), read(stderr, &complained, &tell));
            out && err
        };
        let mut whole = std::pin::pin!(futures::future::join(feed, outputs));
        let mut status = None;
        loop {
            tokio::select! {
                ((), within) = &mut whole => {
                    if !within {
                        return Err(ProgramResult::Flooded);
                    }
                    let ended = match status {
                        Some(ended) => ended,
                        None => child.wait().await,
                    };
                    return Ok(ended);
                }
                ended = child.wait(), if status.is_none() => status = Some(ended),
                () = tokio::time::sleep(LINGER), if status.is_some() => {
                    if let Some(ended) = status {
                        return Ok(ended);
                    }
                }
            }
        }
    };
    let ended = match tokio::time::timeout(program.limit, work).await {
        Err(_) => return ProgramResult::TimedOut,
        Ok(Err(ran)) => return ran,
        Ok(Ok(ended)) => ended,
    };
    // The processes that a confined hook leaves behind are killed here, before its protected files are checked. Processes of
    // an unconfined hook keep running.
    if lease.is_none() {
        group.release();
    }
    match ended {
        Err(error) => ProgramResult::NotStarted(error.to_string()),
        Ok(status) => result(status, &said, &complained),
    }
}

/// Describes how a program ended that wrote these outputs.
fn result(status: ExitStatus, stdout: &Mutex<Vec<u8>>, stderr: &Mutex<Vec<u8>>) -> ProgramResult {
    let text = |bytes: &Mutex<Vec<u8>>| String::from_utf8_lossy(&lock(bytes)).into_owned();
    match status.code() {
        Some(code) => ProgramResult::Exited { code, stdout: text(stdout), stderr: text(stderr) },
        None => {
            let signal = std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default();
            ProgramResult::Killed { signal, stderr: text(stderr) }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports the outputs, at most once in [`PERIOD`].
struct OutputReporter<'a> {
    printed: &'a Printed<'a>,
    stdout: &'a Mutex<Vec<u8>>,
    stderr: &'a Mutex<Vec<u8>>,
    last: Mutex<Option<Instant>>,
}

impl OutputReporter<'_> {
    fn tell(&self) {
        let mut last = lock(&self.last);
        if last.is_some_and(|last| last.elapsed() < PERIOD) {
            return;
        }
        *last = Some(Instant::now());
        let end = |bytes: &Mutex<Vec<u8>>| {
            let bytes = lock(bytes);
            String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TOLD)..]).into_owned()
        };
        (self.printed)(HookOutput { stdout: end(self.stdout), stderr: end(self.stderr) });
    }
}

/// Reads a stream to its end. Returns false if it is longer than the limit.
async fn read(
    stream: Option<impl AsyncRead + Unpin>,
    into: &Mutex<Vec<u8>>,
    tell: &OutputReporter<'_>,
) -> bool {
    let Some(mut stream) = stream else { return true };
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return true,
            Ok(n) if lock(into).len() + n > MAX_OUTPUT => return false,
            Ok(n) => {
                lock(into).extend_from_slice(&buffer[..n]);
                tell.tell();
            }
        }
    }
}
