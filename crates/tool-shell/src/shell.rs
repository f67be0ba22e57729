//! The shell of a session: settings and state that all its commands share.

use crate::environment;
use crate::job_changes::{JobChange, JobText};
use crate::jobs::{Jobs, MAX_RUNNING};
use crate::launch::{self, Launcher};
use crate::selfkill::OwnProcesses;
use crate::spill::{self, SpillStore};
use crate::watcher::Watcher;
use crate::{ShellSettings, sys};
use becket_types::CallId;
use rustix::process::Pid;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc};

/// State that the commands of one session share. Dropping it kills every job.
pub struct Shell {
    pub(crate) settings: ShellSettings,
    pub(crate) program: PathBuf,
    pub(crate) launcher: Launcher,
    pub(crate) own_processes: OwnProcesses,
    /// The beginning of the mark of all commands of this shell: `BECKET_RUN=` and a common prefix.
    pub(crate) mark: String,
    pub(crate) calls: AtomicU64,
    pub(crate) spill_store: Arc<SpillStore>,
    pub(crate) jobs: Jobs,
    /// Commands that a call waits for, and the signals that move them to the background.
    waiting_calls: Mutex<HashMap<CallId, Arc<Notify>>>,
    /// Variables that hooks have set for later commands; see [`Self::export`].
    exports: Mutex<Vec<(OsString, OsString)>>,
    /// A temporary folder, used if the configured one cannot be created.
    fallback_dir: OnceLock<Option<TempDir>>,
    watcher: Mutex<Watcher>,
}

/// A command that a call waits for.
pub(crate) struct WaitingCall<'a> {
    shell: &'a Shell,
    call: CallId,
    pub signal: Arc<Notify>,
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.shell.waiting_calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.call);
    }
}

impl Shell {
    /// Finds the shell and its launcher in `PATH`, and starts nothing. One value serves all shell tools of a session.
    pub fn new(settings: ShellSettings) -> Arc<Self> {
        let search = settings.variable("PATH").unwrap_or(OsStr::new("/usr/bin:/bin")).to_owned();
        let program = settings.shell.clone().or_else(|| launch::find("bash", &search));
        let launcher = match &settings.launcher {
            Some(words) => Launcher::Session(words.clone()),
            None => Launcher::find(&search),
        };
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = format!("{}-{:x}-", std::process::id(), since_epoch.as_nanos());
        let mark = format!("{}={run}", environment::MARK);
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        let us = OwnProcesses {
            pids: std::iter::once(std::process::id().cast_signed())
                .chain(parent.filter(|pid| *pid > 1))
                .collect(),
            name: settings.program.clone(),
            line: sys::own_command_line().unwrap_or_else(|| settings.program.clone()),
        };
        let mut places: Vec<PathBuf> = settings.spill.dir.iter().cloned().collect();
        places.extend(settings.spill.others.iter().cloned());
        Arc::new(Self {
            program: program.unwrap_or_else(|| PathBuf::from("/bin/sh")),
            launcher,
            own_processes: us,
            watcher: Mutex::new(Watcher::new(mark.clone())),
            mark,
            calls: AtomicU64::new(0),
            waiting_calls: Mutex::default(),
            exports: Mutex::default(),
            spill_store: Arc::new(SpillStore::new(places, settings.spill.store.clone())),
            jobs: Jobs::new(run),
            fallback_dir: OnceLock::new(),
            settings,
        })
    }

    /// Sets a variable for all later commands. It replaces one with the same name.
    pub fn export(&self, name: &str, value: &str) {
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        exports.retain(|(known, _)| known != name);
        exports.push((name.into(), value.into()));
    }

    /// Returns the variables that hooks have set.
    pub(crate) fn exports(&self) -> Vec<(OsString, OsString)> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the value that a variable has for commands.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        let exports = self.exports();
        let exported = exports.into_iter().find(|(known, _)| known == name).map(|(_, value)| value);
        exported.or_else(|| self.settings.variable(name).map(OsStr::to_owned))
    }

    /// Returns the signal that moves the command of this call to the background. Dropping the value removes the signal.
    pub(crate) fn register_waiting(&self, call: &CallId) -> WaitingCall<'_> {
        let signal = Arc::new(Notify::new());
        self.waiting_calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(call.clone(), Arc::clone(&signal));
        WaitingCall { shell: self, call: call.clone(), signal }
    }

    /// Moves the command of a running call to the background. Returns false if there is no such command, or no room for another
    /// job.
    pub(crate) fn detach(&self, call: &CallId) -> bool {
        let waited = self.waiting_calls.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(signal) = waited.get(call).filter(|_| self.jobs.running() < MAX_RUNNING) else {
            return false;
        };
        signal.notify_one();
        true
    }

    /// Returns the starts and ends of background jobs from now on. `None` if they were asked for before.
    pub fn watch_jobs(&self) -> Option<mpsc::UnboundedReceiver<JobChange>> {
        self.jobs.watch()
    }

    /// Returns the last `most` bytes that a job has printed. `None` if this process started no such job.
    ///
    /// # Errors
    ///
    /// Returns the reason if the output was not kept.
    pub fn job_text(&self, id: u64, most: usize) -> Option<Result<JobText, String>> {
        let (bytes, total) = match self.jobs.known(id)?.drain.last(most) {
            Ok(last) => last,
            Err(why) => return Some(Err(why)),
        };
        let is_cut = bytes.len() as u64 != total;
        Some(Ok(JobText { text: String::from_utf8_lossy(&bytes).into_owned(), total, is_cut }))
    }

    /// Returns true if the job has ended and the model does not know it yet. From then on, the end counts as known.
    pub fn take_end(&self, id: u64) -> bool {
        self.jobs.known(id).is_some_and(|job| job.take_end())
    }

    /// Writes all that is kept of a job's output to a new file that only its owner can read. Returns false if this process
    /// started no such job.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written, or if the output was not kept.
    pub fn save_job_output(&self, id: u64, path: &Path) -> io::Result<bool> {
        let Some(job) = self.jobs.known(id) else { return Ok(false) };
        job.drain.save(path)?;
        Ok(true)
    }

    /// Number of jobs that are running.
    pub fn running_jobs(&self) -> usize {
        self.jobs.running()
    }

    /// Describes the jobs of this process in the order of their start: number, state with the command, and true if it runs.
    pub fn job_lines(&self) -> Vec<(u64, String, bool)> {
        self.jobs.lines()
    }

    /// Ends a job. Returns its state; `None` if there is no such job.
    pub async fn end_job(&self, id: u64) -> Option<String> {
        self.jobs.end(id).await
    }

    /// Ends every running job with TERM, and with KILL after two seconds. Returns one line for each, in the order of their start.
    pub async fn end_jobs(&self) -> Vec<String> {
        let mut lines = self.jobs.end_all().await;
        lines.extend(self.undone());
        lines
    }

    /// The folder for small files of commands, readable by its owner alone. It may be a temporary one, because commands must
    /// also run if the home folder is not writable.
    pub(crate) fn private_dir(&self) -> io::Result<&Path> {
        let mut failed = io::Error::other("no folder for temporary files can be made");
        if let Some(wanted) = &self.settings.spill.dir {
            match spill::private_folder(wanted) {
                Ok(()) => return Ok(wanted),
                Err(error) => failed = io::Error::new(error.kind(), format!("{}: {error}", wanted.display())),
            }
        }
        // Nobody can guess the name of a new temporary folder, so no command can have prepared it.
        let own = |dir: &PathBuf| {
            let private = Permissions::from_mode(0o700);
            tempfile::Builder::new().prefix("becket-").permissions(private).tempdir_in(dir).ok()
        };
        let elsewhere = self.fallback_dir.get_or_init(|| self.settings.spill.others.iter().find_map(own));
        elsewhere.as_ref().map(TempDir::path).ok_or(failed)
    }

    /// Registers the group with the watcher, which kills it if becket dies.
    pub(crate) fn watch(&self, group: Pid) -> io::Result<()> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.add(&self.launcher, self.settings.sandbox.as_deref(), group)
    }

    /// Sends the watcher the protected paths that do not exist. A confined command must create nothing there.
    pub(crate) fn protect(&self, absent: Vec<PathBuf>) {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).protect(absent);
    }

    /// Forgets the groups that are gone.
    pub(crate) fn prune(&self) {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).prune();
    }
}
