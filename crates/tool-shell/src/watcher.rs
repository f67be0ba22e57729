//! The watcher: a small process that ends the processes of commands when becket is gone, however that happens.
//!
//! Model: `sh` in a session of its own reads lines from a pipe whose other end only becket holds: `+GROUP` when a command starts,
//! `-GROUP` when its group is empty, `0` and `=PATH` for the protected paths at which there was nothing when a confined command
//! started. End of file means that becket exited, crashed or was killed. The watcher then stops the groups, so that no process
//! forks while it looks them up (a fork bomb would leave it no time). It sends TERM to the groups, their sessions, all their
//! descendants, and every process with the session's mark in its environment. It waits just under two seconds, sends KILL until no
//! process is left, and exits. Before it exits, it starts becket to put protected files back ([`Undo`]), because becket itself is
//! gone. If becket cannot do it (an update has replaced its program), the watcher renames what a command made at the protected
//! paths that becket has sent. There is one watcher per session, started with the first command. No code of becket runs in it, so a
//! crash of becket cannot take it down.

use crate::launch::Launcher;
use crate::sys;
use becket_sandbox::{Sandbox, Undo};
use rustix::process::{Pid, test_kill_process_group};
use std::collections::BTreeSet;
use std::io::{self, PipeWriter, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::{Child, Command};

/// The watcher's script. `$1`: the mark. `$2` and `$3`: the path prefixes of the session's control groups of version 2 and 1, or
/// empty. `$4`: becket as the program that puts protected files back, or empty. Standard output is the open record of these files.
/// Runs in any POSIX shell. Without `/proc`, only groups are ended.
///
/// `known` holds `PID:START` of every process seen in a group, in a session, as a descendant, or with the mark. A process
/// stays known after its parents have exited; the start time distinguishes it from a later process with the same number.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT PIPE
exec 3<&1 >/dev/null
mark=$1
cg=$2
pg=$3
undo=$4
groups=' '
known=' '
names=
nl='
'
while IFS= read -r line; do
  g=${line#?}
  case $line in
    0) names= ;;
    =*) names="$names$g$nl" ;;
    +*) groups="$groups$g " ;;
    -*) case $groups in *" $g "*) groups="${groups%% $g *} ${groups#* $g }" ;; esac ;;
  esac
done
look() {
  all='' alive=' '
  marked=$(grep -lsF -e "$mark" /proc/[0-9]*/environ 2>/dev/null)
  inside=' '
  for d in ${cg:+"$cg"*} ${pg:+"$pg"*}; do
    while read -r p; do inside="$inside$p "; done <"$d/cgroup.procs"
  done 2>/dev/null
  for f in /proc/[0-9]*/stat; do
    IFS= read -r line <"$f" || continue
    pid=${line%% *}
    set -- ${line##*) }
    case $1 in Z|X|x) continue ;; esac
    [ "$pid" = "$$" ] || all="$all $pid:${20} $2 $3 $4"
  done 2>/dev/null
  members=' '
  while :; do
    before=$members
    set -- $all
    while [ $# -ge 4 ]; do
      p=${1%:*}
      case $members in
        *" $p "*) ;;
        *) case "$groups" in *" $3 "*|*" $4 "*) hit=1 ;; *) hit= ;; esac
           case "$known" in *" $1 "*) hit=1 ;; esac
           case "$members" in *" $2 "*) hit=1 ;; esac
           case "$inside" in *" $p "*) hit=1 ;; esac
           case "$marked" in *"/proc/$p/environ"*) hit=1 ;; esac
           [ -z "$hit" ] || { members="$members$p "; known="$known$1 "; } ;;
      esac
      shift 4
    done
    [ "$members" = "$before" ] && return
  done
}
send() {
  for g in $groups; do kill -s "$1" -- "-$g"; done
  for p in $members; do kill -s "$1" "$p"; done
} 2>/dev/null
left() {
  look
  [ "$members" = ' ' ] || return 0
  [ -d /proc/self ] && return 1
  alive
}
alive() {
  for p in $members; do kill -s 0 "$p" && return 0; done
  for g in $groups; do kill -s 0 -- "-$g" && return 0; done
  return 1
} 2>/dev/null
tidy() {
  for d in ${cg:+"$cg"*} ${pg:+"$pg"*}; do rmdir "$d"; done
} 2>/dev/null
refuse() {
  [ "$groups" != ' ' ] || return 0
  if [ -n "$undo" ]; then
    [ -s /proc/self/fd/3 ] || return 0
    "$undo" __sandbox undo <&3 && return
  fi
  printf %s "$names" | while IFS= read -r p; do
    [ -e "$p" ] || [ -L "$p" ] || continue
    folder=${p%/*}
    name=${p##*/}
    cd -P -- "$folder" && [ "$(pwd -P)" = "$folder" ] || continue
    to=$name.refused
    n=0
    while [ -e "$to" ] || [ -L "$to" ]; do n=$((n + 1)); to=$name.refused-$n; done
    mv -- "$name" "$to"
  done
} 2>/dev/null
limit() {
  for d in ${pg:+"$pg"*}; do echo "$1" >"$d/pids.max"; done
} 2>/dev/null
limit 0
for g in $groups; do kill -s STOP -- "-$g"; done 2>/dev/null
left || { refuse; tidy; exit 0; }
limit 4096
send TERM
send CONT
n=0
while [ "$n" -lt 18 ] && alive; do sleep 0.1; n=$((n + 1)); done
n=0
while [ "$n" -lt 20 ] && left; do
  limit 0
  [ -z "$cg" ] || for d in "$cg"*; do echo 1 >"$d/cgroup.kill"; done 2>/dev/null
  send KILL
  sleep 0.02
  n=$((n + 1))
done
refuse
tidy
"#;

pub(crate) struct Watcher {
    mark: String,
    running: Option<(Child, PipeWriter)>,
    /// Groups that may still have members.
    groups: BTreeSet<i32>,
    /// Protected paths at which there was nothing when the newest confined command started.
    absent: Vec<PathBuf>,
}

impl Watcher {
    /// `mark`: the text in the environment that all commands of this session share.
    pub(crate) fn new(mark: String) -> Self {
        Self { mark, running: None, groups: BTreeSet::new(), absent: Vec::new() }
    }

    /// Registers a group: from now on it is ended when becket is gone.
    pub(crate) fn add(
        &mut self,
        launcher: &Launcher,
        sandbox: Option<&Sandbox>,
        group: Pid,
    ) -> io::Result<()> {
        let group = group.as_raw_nonzero().get();
        self.groups.insert(group);
        if self.running.is_some() && self.tell('+', group).is_ok() {
            return Ok(());
        }
        // The watcher was not started yet, or somebody ended it: start it, and send all groups and paths.
        self.start(launcher, sandbox.and_then(Sandbox::undo))?;
        self.tell_absent()?;
        for group in self.groups.clone() {
            self.tell('+', group)?;
        }
        Ok(())
    }

    /// Removes groups that have no members left, because the system may give their numbers to other processes.
    pub(crate) fn prune(&mut self) {
        let gone =
            |group: &i32| Pid::from_raw(*group).is_none_or(|pid| test_kill_process_group(pid).is_err());
        for group in self.groups.iter().copied().filter(|g| gone(g)).collect::<Vec<_>>() {
            self.groups.remove(&group);
            let _ = self.tell('-', group);
        }
    }

    /// Sends the protected paths that do not exist to the watcher, unless they are the same as last time.
    pub(crate) fn protect(&mut self, absent: Vec<PathBuf>) {
        if self.absent != absent {
            self.absent = absent;
            let _ = self.tell_absent();
        }
    }

    fn tell_absent(&mut self) -> io::Result<()> {
        let Some((_, pipe)) = &mut self.running else { return Ok(()) };
        let mut text = b"0\n".to_vec();
        for path in &self.absent {
            let path = path.as_os_str().as_bytes();
            if !path.contains(&b'\n') {
                text.extend([b"=", path, b"\n"].concat());
            }
        }
        pipe.write_all(&text)
    }

    fn tell(&mut self, sign: char, group: i32) -> io::Result<()> {
        match &mut self.running {
            Some((_, pipe)) => pipe.write_all(format!("{sign}{group}\n").as_bytes()),
            None => Ok(()),
        }
    }

    fn start(&mut self, launcher: &Launcher, undo: Option<Undo>) -> io::Result<()> {
        let (reader, writer) = io::pipe()?;
        let run = self.mark.rsplit('=').next().unwrap_or_default();
        let mut command = Command::from(launcher.command(&["/bin/sh".into()]));
        command
            .args(["-c", SCRIPT, "watch", &self.mark])
            .arg(sys::cgroup_path(run).unwrap_or_default())
            .arg(sys::pids_path(run).unwrap_or_default())
            .arg(undo.as_ref().map(|undo| undo.program.as_os_str()).unwrap_or_default())
            .env_clear()
            .env("PATH", becket_sandbox::SYSTEM_PATH)
            .current_dir("/")
            .stdin(Stdio::from(reader))
            .stdout(undo.map_or_else(Stdio::null, |undo| undo.record.into()))
            .stderr(Stdio::null())
            .kill_on_drop(false);
        self.running = Some((command.spawn()?, writer));
        Ok(())
    }
}
