//! The watcher: a small process that ends what commands left running when we are gone, however that happens.
//!
//! Model: `sh` in a session of its own reads lines from a pipe whose other end only we hold: `+GROUP` when a command starts,
//! `-GROUP` when its group is empty. End of file means that we exited, crashed or were killed: then it sends TERM to the
//! groups and to every process that carries our mark in its environment, waits up to two seconds, sends KILL, and exits.
//! One per session of commands, started with the first. Nothing of ours runs in it, so nothing of ours can take it down.

use crate::launch::Launcher;
use rustix::process::{Pid, test_kill_process_group};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, PipeWriter, Write};
use std::process::Stdio;
use tokio::process::{Child, Command};

/// `$1` is the mark. Written for any POSIX shell; where there is no `/proc`, only groups are ended.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT PIPE
mark=$1
groups=' '
while IFS= read -r line; do
  g=${line#?}
  case $line in
    +*) groups="$groups$g " ;;
    -*) case $groups in *" $g "*) groups="${groups%% $g *} ${groups#* $g }" ;; esac ;;
  esac
done
marked() {
  grep -lsF -e "$mark" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r a b pid c; do
    [ "$pid" = "$$" ] || printf '%s ' "$pid"
  done
}
send() {
  for g in $groups; do kill -s "$1" -- "-$g"; done
  for p in $(marked); do kill -s "$1" "$p"; done
} 2>/dev/null
left() {
  for g in $groups; do kill -s 0 -- "-$g" 2>/dev/null && return 0; done
  [ -n "$(marked)" ]
}
left || exit 0
send TERM
n=0
while [ "$n" -lt 20 ] && left; do sleep 0.1; n=$((n + 1)); done
send KILL
"#;

pub(crate) struct Watcher {
    mark: String,
    search: OsString,
    running: Option<(Child, PipeWriter)>,
    /// Groups that may still have members.
    groups: BTreeSet<i32>,
}

impl Watcher {
    /// `mark` is the part of the environment that all commands of this session share; `search` is `PATH`.
    pub(crate) fn new(mark: String, search: OsString) -> Self {
        Self { mark, search, running: None, groups: BTreeSet::new() }
    }

    /// From here on the group dies with us.
    pub(crate) fn add(&mut self, launcher: &Launcher, group: Pid) -> io::Result<()> {
        let group = group.as_raw_nonzero().get();
        self.groups.insert(group);
        if self.running.is_some() && self.tell('+', group).is_ok() {
            return Ok(());
        }
        // None yet, or somebody ended it: start one and tell it everything.
        self.start(launcher)?;
        for group in self.groups.clone() {
            self.tell('+', group)?;
        }
        Ok(())
    }

    /// Forgets the groups that have no members left; a number may be given to somebody else later.
    pub(crate) fn prune(&mut self) {
        let gone =
            |group: &i32| Pid::from_raw(*group).is_none_or(|pid| test_kill_process_group(pid).is_err());
        for group in self.groups.iter().copied().filter(|g| gone(g)).collect::<Vec<_>>() {
            self.groups.remove(&group);
            let _ = self.tell('-', group);
        }
    }

    fn tell(&mut self, sign: char, group: i32) -> io::Result<()> {
        match &mut self.running {
            Some((_, pipe)) => pipe.write_all(format!("{sign}{group}\n").as_bytes()),
            None => Ok(()),
        }
    }

    fn start(&mut self, launcher: &Launcher) -> io::Result<()> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::from(launcher.command("/bin/sh".as_ref()));
        command
            .args(["-c", SCRIPT, "watch", &self.mark])
            .env_clear()
            .env("PATH", &self.search)
            .current_dir("/")
            .stdin(Stdio::from(reader))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(false);
        self.running = Some((command.spawn()?, writer));
        Ok(())
    }
}
