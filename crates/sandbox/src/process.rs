//! A program that runs beside becket: it is started with its confinement, and ended with everything that it started.
//!
//! The program leads a separate process group. Dropping a [`Process`] kills the whole group. If becket itself is killed and drops
//! nothing, a watcher ends the group: a shell that reads from a pipe whose other end only becket holds. The watcher also puts aside
//! what the program made under names that other programs obey.
//!
//! Knows no protocol. The three streams belong to the caller; [`ProcessLog`] keeps the end of one of them.

use crate::lease::Lease;
use crate::programs::{Prepared, SYSTEM_PATH};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeWriter};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// The watcher's script. `$1`: the process group. `$2`: becket's program, which puts protected files back; empty if there is no
/// record. The other arguments: paths that are put aside if `$2` fails or is empty. Standard output is the open record. Standard
/// input ends when becket has ended.
const WATCH: &str = r#"trap '' INT TERM HUP QUIT
exec 3<&1 >/dev/null
g=$1
undo=$2
shift 2
read -r _
kill -s TERM -- "-$g"
n=0
while [ "$n" -lt 10 ] && kill -s 0 -- "-$g"; do sleep 0.1; n=$((n + 1)); done 2>/dev/null
kill -s KILL -- "-$g" 2>/dev/null
n=0
while [ "$n" -lt 20 ] && kill -s 0 -- "-$g"; do sleep 0.1; n=$((n + 1)); done 2>/dev/null
if [ -n "$undo" ]; then
  [ -s /proc/self/fd/3 ] || exit
  "$undo" __sandbox undo <&3 && exit
fi
for p do
  [ -e "$p" ] || [ -L "$p" ] || continue
  cd -P -- "${p%/*}" && [ "$(pwd -P)" = "${p%/*}" ] || continue
  name=${p##*/}
  to=$name.refused
  n=0
  while [ -e "$to" ] || [ -L "$to" ]; do n=$((n + 1)); to=$name.refused-$n; done
  mv -- "$name" "$to"
done
"#;

/// A program to start.
#[derive(Debug)]
pub struct Start<'a> {
    /// The confinement of the program, from [`crate::Programs::prepare`].
    pub prepared: &'a Prepared,
    /// Protects files that other programs obey, until the program has ended.
    pub lease: Option<Lease>,
    pub program: &'a OsStr,
    pub args: &'a [String],
    pub dir: &'a Path,
    /// The whole environment of the program. The variables of `prepared` are added.
    pub variables: &'a [(OsString, OsString)],
}

/// A running program with its process group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: ProcessGroup,
    watcher: Option<(Child, PipeWriter)>,
    lease: Option<Lease>,
}

/// The three streams of a program.
#[derive(Debug)]
pub struct Streams {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

impl Process {
    /// Starts a program, with pipes for all three streams.
    ///
    /// # Errors
    ///
    /// Fails if the program or its watcher cannot be started.
    pub fn start(start: Start<'_>) -> io::Result<(Self, Streams)> {
        let mut command = match start.prepared.words.split_first() {
            None => Command::new(start.program),
            Some((first, rest)) => {
                let mut confined = Command::new(first);
                confined.args(rest).arg(start.program);
                confined
            }
        };
        let variables = start.variables.iter().chain(&start.prepared.variables).map(|(k, v)| (k, v));
        command.args(start.args).current_dir(start.dir).env_clear().envs(variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("it has no pipes"));
        };
        let group = ProcessGroup::led_by(child.id());
        if let Some(lease) = &start.lease {
            lease.set_process(child.id());
        }
        let mut process = Self { child, group, watcher: None, lease: start.lease };
        process.watcher = Some(process.watch()?);
        Ok((process, Streams { stdin, stdout, stderr }))
    }

    /// Waits until the program exits.
    ///
    /// # Errors
    ///
    /// Fails if the system does not report its end.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    fn watch(&self) -> io::Result<(Child, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let group = self.group.0.map_or(0, |pid| pid.as_raw_nonzero().get()).to_string();
        let absent = self.lease.iter().flat_map(Lease::absent);
        let undo = self.lease.as_ref().and_then(Lease::undo);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WATCH, "watch", &group]);
        command.arg(undo.as_ref().map_or(OsStr::new(""), |undo| undo.program.as_os_str()));
        command.args(absent).current_dir("/").process_group(0);
        command.env_clear().env("PATH", SYSTEM_PATH);
        let record = undo.map_or_else(Stdio::null, |undo| undo.record.into());
        command.stdin(Stdio::from(reader)).stdout(record).stderr(Stdio::null()).kill_on_drop(true);
        Ok((command.spawn()?, writer))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(lease) = &self.lease {
            lease.check_before_kill();
        }
        // The group must be killed before its leader is reaped. After that, the number could belong to another process.
        self.group.kill();
        if let Some((mut watcher, pipe)) = self.watcher.take() {
            let _ = watcher.start_kill();
            drop(pipe);
        }
    }
}

/// A process group that is killed when this value is dropped.
#[derive(Debug)]
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group whose leader is this process. Empty if the process has ended.
    pub fn led_by(leader: Option<u32>) -> Self {
        Self(leader.and_then(|id| Pid::from_raw(id.cast_signed())))
    }

    /// Lets the group live on.
    pub fn release(mut self) {
        self.0 = None;
    }

    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The end of what a program printed on a stream.
#[derive(Clone, Debug, Default)]
pub struct ProcessLog(Arc<Mutex<String>>);

impl ProcessLog {
    /// Maximum number of bytes that are kept.
    const MOST: usize = 32 * 1024;

    /// Appends text. Above 32 KiB, only the last 16 KiB are kept.
    pub fn add(&self, text: &str) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.push_str(text);
        if log.len() > Self::MOST {
            let kept = becket_types::cut_start(&log, Self::MOST / 2).to_owned();
            *log = kept;
        }
    }

    /// Reads a stream to its end.
    pub async fn follow(self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            self.add(&String::from_utf8_lossy(&buffer[..read]));
        }
    }

    /// Returns a copy of the text that is kept.
    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    /// Starts a shell and its child, which ignore all signals that can be ignored. Returns once both run.
    async fn family() -> (Process, BufReader<ChildStdout>) {
        let script = "trap '' TERM HUP; (trap '' TERM HUP; echo up; sleep 600) & wait";
        let (process, streams) = Process::start(Start {
            prepared: &Prepared::default(),
            lease: None,
            program: OsStr::new("/bin/sh"),
            args: &["-c".to_owned(), script.to_owned()],
            dir: Path::new("/"),
            variables: &[("PATH".into(), "/usr/bin:/bin".into())],
        })
        .unwrap();
        let mut out = BufReader::new(streams.stdout);
        let mut line = String::new();
        out.read_line(&mut line).await.unwrap();
        assert_eq!(line, "up\n");
        (process, out)
    }

    #[tokio::test]
    async fn a_dropped_process_takes_its_children_along() {
        let (process, mut out) = family().await;
        drop(process);
        // The pipe reports its end only after every process that held it has ended.
        assert_eq!(out.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn the_watcher_ends_the_group_when_our_end_of_the_pipe_closes() {
        let (mut process, mut out) = family().await;
        let (mut watcher, pipe) = process.watcher.take().unwrap();
        drop(pipe);
        assert_eq!(out.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        watcher.wait().await.unwrap();
        assert!(!process.wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn a_log_keeps_its_end() {
        let log = ProcessLog::default();
        let text = format!("first\n{}last", "line\n".repeat(ProcessLog::MOST / 5));
        log.clone().follow(text.as_bytes()).await;
        let kept = log.text();
        assert!(kept.len() <= ProcessLog::MOST && kept.ends_with("last") && !kept.contains("first"));
    }
}
