//! Programs that work on the project: finding, starting, and ending them with all their children.
//!
//! Each program leads its own process group. Dropping a [`Process`] ends the whole group. If becket itself is
//! killed and drops nothing, a small watcher ends the group: a shell that reads from a pipe whose other end
//! only becket holds, so it notices when becket is gone.
//!
//! Programs are looked up in absolute folders of `PATH` outside the project, unless the user configured a
//! path. A file in the project is never run just because it has a known name.

use becket_sandbox::Prepared;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::{Child, Command};

/// The complete environment of every started program; nothing is inherited.
pub type Environment = Vec<(OsString, OsString)>;

/// Script of the watcher. `$1` is the process group. The read ends when becket is gone.
const WATCH: &str =
    "trap '' INT TERM HUP QUIT; read -r _; kill -s TERM -- \"-$1\"; sleep 1; kill -s KILL -- \"-$1\"";

/// A running program with its process group.
pub(crate) struct Process {
    pub child: Child,
    group: Option<Pid>,
    watcher: Option<(Child, PipeWriter)>,
}

impl Process {
    /// Starts a prepared program in `dir`, with pipes for all three streams.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started.
    pub(crate) fn start(
        prepared: &Prepared,
        program: &Path,
        args: &[String],
        dir: &Path,
        env: &Environment,
    ) -> io::Result<Self> {
        let mut command = match prepared.words.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        let variables = env.iter().chain(&prepared.variables).map(|(k, v)| (k, v));
        command.args(args).current_dir(dir).env_clear().envs(variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let mut process = Self { child, group, watcher: None };
        process.watcher = Some(process.watch()?);
        Ok(process)
    }

    fn watch(&self) -> io::Result<(Child, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let group = self.group.map_or(0, |pid| pid.as_raw_nonzero().get()).to_string();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WATCH, "watch", &group]).env_clear().current_dir("/").process_group(0);
        command.env("PATH", becket_sandbox::SYSTEM_PATH);
        command.stdin(Stdio::from(reader)).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        Ok((command.spawn()?, writer))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The group must be killed before its leader is reaped. After that, the number could belong to
        // another process.
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Some((mut watcher, pipe)) = self.watcher.take() {
            let _ = watcher.start_kill();
            drop(pipe);
        }
    }
}

/// Finds a program: an absolute path is used as it is, a name is looked up in `PATH`.
pub(crate) fn find(name: &str, env: &Environment, roots: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        return (path.is_absolute() && executable(&path)).then_some(path);
    }
    let search = env.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value)?;
    std::env::split_paths(search)
        .filter(|dir| dir.is_absolute() && !becket_tool::paths::is_inside(roots, dir))
        .map(|dir| dir.join(name))
        .find(|path| executable(path))
}

fn executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

    fn env() -> Environment {
        vec![("PATH".into(), "/usr/bin:/bin".into())]
    }

    /// A shell and its child, both ignoring the signals that can be ignored. Returns once both run.
    async fn family() -> (Process, BufReader<tokio::process::ChildStdout>) {
        let script = "trap '' TERM HUP; (trap '' TERM HUP; echo up; sleep 600) & wait";
        let args = ["-c".to_owned(), script.to_owned()];
        let mut process =
            Process::start(&Prepared::default(), Path::new("/bin/sh"), &args, Path::new("/"), &env())
                .unwrap();
        let mut out = BufReader::new(process.child.stdout.take().unwrap());
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
        assert!(!process.child.wait().await.unwrap().success());
    }

    #[test]
    fn programs_of_the_project_are_not_found_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let bin = root.join("node_modules/.bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("prettier"), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(bin.join("prettier"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths([bin.as_path(), Path::new("relative"), Path::new("/bin")]).unwrap();
        let env = vec![("PATH".into(), path)];
        assert_eq!(find("prettier", &env, &[]), Some(bin.join("prettier")));
        assert_eq!(find("prettier", &env, &[root]), None);
        assert!(find("sh", &env, &[]).is_some());
        assert_eq!(find("no-such-program", &env, &[]), None);
        assert_eq!(find("./sh", &env, &[]), None);
    }
}
