//! The program of a stdio server: starts it, owns its streams, and ends it with everything that it started.
//!
//! The program leads a separate process group. Dropping a [`Process`] ends the whole group. If becket itself is killed,
//! a watcher ends the group: a shell that reads from a pipe whose other end only becket holds. It also puts aside what the program
//! made under names that other programs obey.

use becket_sandbox::{Lease, Prepared, SYSTEM_PATH};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::path::Path;
use std::process::Stdio;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// The watcher's script. `$1` is the group; the other arguments are paths at which nothing may be left. End of file means that
/// becket has ended.
const WATCH: &str = r#"trap '' INT TERM HUP QUIT
g=$1
shift
read -r _
kill -s TERM -- "-$g"
n=0
while [ "$n" -lt 10 ] && kill -s 0 -- "-$g"; do sleep 0.1; n=$((n + 1)); done 2>/dev/null
kill -s KILL -- "-$g" 2>/dev/null
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

pub(crate) struct Process {
    child: Child,
    group: Option<Pid>,
    watcher: Option<(Child, PipeWriter)>,
    /// Protects files that other programs obey, until the program has ended.
    lease: Option<Lease>,
}

/// The three streams of a program.
pub(crate) struct Streams {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

impl Process {
    pub(crate) fn start(
        (prepared, lease): (&Prepared, Option<Lease>),
        command: &str,
        args: &[String],
        dir: &Path,
        env: &[(OsString, OsString)],
    ) -> io::Result<(Self, Streams)> {
        let mut started = match prepared.words.split_first() {
            None => Command::new(command),
            Some((first, rest)) => {
                let mut confined = Command::new(first);
                confined.args(rest).arg(command);
                confined
            }
        };
        let variables = env.iter().chain(&prepared.variables).map(|(k, v)| (k, v));
        started.args(args).current_dir(dir).env_clear().envs(variables);
        started.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = started.process_group(0).kill_on_drop(true).spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("it has no pipes"));
        };
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(lease) = &lease {
            lease.of_process(child.id());
        }
        let mut process = Self { child, group, watcher: None, lease };
        process.watcher = Some(process.watch()?);
        Ok((process, Streams { stdin, stdout, stderr }))
    }

    /// Waits until the program exits. Its standard input is already closed.
    pub(crate) async fn ended(&mut self) {
        let _ = self.child.wait().await;
    }

    fn watch(&self) -> io::Result<(Child, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let group = self.group.map_or(0, |pid| pid.as_raw_nonzero().get()).to_string();
        let mut command = Command::new("/bin/sh");
        let absent = self.lease.iter().flat_map(Lease::absent);
        command
            .args(["-c", WATCH, "watch", &group])
            .args(absent)
            .env_clear()
            .current_dir("/")
            .process_group(0);
        command.env("PATH", SYSTEM_PATH);
        command.stdin(Stdio::from(reader)).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        Ok((command.spawn()?, writer))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(lease) = &self.lease {
            lease.ends();
        }
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Some((mut watcher, pipe)) = self.watcher.take() {
            let _ = watcher.start_kill();
            drop(pipe);
        }
    }
}
