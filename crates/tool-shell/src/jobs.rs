//! Background jobs: commands that outlive the call that started them.
//!
//! Model: a table of jobs, numbered from 1 through the whole session, also across a resume. A job starts in one of three ways: a
//! call asks for it, a call that asked to be continued in the background runs into its timeout, or a command leaves processes
//! running. A job is *running* until its shell has ended, its output is closed and its group is empty. Then it is *finished*, or
//! *killed* if becket ended it. A job that was running when an earlier process of this session ended is *lost*: its fate is
//! unknown.
//!
//! The table is kept as session state ([`STATE`]), so it survives a compaction and a resume. If the model has not seen the end of a
//! job, it is reported once, with the next result of `bash`, `job_output` or `job_kill`.

use crate::drain::Drain;
use crate::ending::{self, Tree};
use crate::job_changes::{JobChange, JobEnd, JobOutcome};
use crate::process::Process;
use crate::report::{self, End};
use becket_sandbox::RefusalLog;
use becket_tool::{Host, ToolEnv};
use becket_types::cut_end;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Name of the session state: `[{id, command, state, run}]`.
pub(crate) const STATE: &str = "jobs";
/// Maximum number of jobs that run at the same time.
pub(crate) const MAX_RUNNING: usize = 16;
/// Maximum number of ended jobs whose output can still be read. The oldest are dropped first.
const MAX_ENDED: usize = 32;
/// Maximum length of a command in a list of jobs, in bytes.
const MAX_COMMAND: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Finished(End),
    Killed,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished(_) => "finished",
            Self::Killed => "killed",
        }
    }
}

pub(crate) struct Job {
    pub id: u64,
    /// The command on one line, cut to [`MAX_COMMAND`] bytes.
    pub command: String,
    started: Instant,
    pub drain: Drain,
    /// The log of hosts that the proxy refused; `None` if the command has no proxy.
    refusals: Option<RefusalLog>,
    facts: Mutex<Facts>,
    changed: Notify,
}

struct Facts {
    tree: Tree,
    /// The end of the shell; `None` while it runs.
    end: Option<End>,
    /// Time from the start to the end of the last process.
    took: Option<Duration>,
    killed: bool,
    /// True once no process is found any more, even if the output is still held open.
    processes_gone: bool,
    /// True once the model has seen the end of the job.
    end_reported: bool,
    /// The refused hosts that the model has been shown.
    reported_hosts: BTreeSet<String>,
}

impl Job {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> State {
        let mut facts = self.facts();
        let Some(end) = facts.end else { return State::Running };
        if !facts.processes_gone && (!self.drain.is_closed() || facts.tree.group_lives()) {
            return State::Running;
        }
        // A job that has ended never runs again, so its processes are not looked up any more.
        facts.processes_gone = true;
        facts.took.get_or_insert_with(|| self.started.elapsed());
        if facts.killed { State::Killed } else { State::Finished(end) }
    }

    /// Describes the job and its state in words, for the model.
    pub(crate) fn status(&self) -> String {
        format!("job {} {}", self.id, self.progress())
    }

    /// Describes the state in words, without the job's number.
    fn progress(&self) -> String {
        let state = self.state();
        let took = self.facts().took.unwrap_or_else(|| self.started.elapsed());
        let after = report::seconds(Duration::from_millis(took.as_millis() as u64 / 100 * 100));
        match state {
            State::Finished(end) => format!("finished after {after}: {}", report::in_words(end)),
            State::Running => format!("running for {after}"),
            state @ State::Killed => format!("{} after {after}", state.name()),
        }
    }

    /// Describes the end of the job for front ends.
    fn outcome(&self) -> JobEnd {
        let outcome = match self.state() {
            State::Finished(End::Exit(0)) => JobOutcome::Completed,
            State::Finished(_) | State::Running => JobOutcome::Failed,
            State::Killed => JobOutcome::Killed,
        };
        JobEnd { outcome, summary: self.status() }
    }

    /// Notes that the model has seen the job's present state.
    pub(crate) fn mark_seen(&self) {
        if self.state() != State::Running {
            self.facts().end_reported = true;
        }
    }

    /// Returns true if the job has ended and the model does not know it yet. From then on, the end counts as known.
    pub(crate) fn take_end(&self) -> bool {
        self.state() != State::Running && !std::mem::replace(&mut self.facts().end_reported, true)
    }

    /// Returns the hosts that the proxy has refused since the last time.
    pub(crate) fn new_refusals(&self) -> Vec<String> {
        let lines = self.refusals.as_ref().map(RefusalLog::lines).unwrap_or_default();
        let told = &mut self.facts().reported_hosts;
        lines.into_iter().filter(|line| told.insert(line.clone())).collect()
    }

    /// Waits until the job has ended.
    pub(crate) async fn wait_for_end(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state() != State::Running {
                return;
            }
            // A process that has left the group and closed the output ends without a notification, so check regularly.
            let _ = tokio::time::timeout(Duration::from_millis(200), changed).await;
        }
    }

    /// Ends the job with everything it started. Returns the number of processes that could not be ended; `None` if the job had
    /// ended before.
    pub(crate) async fn kill(&self) -> Option<usize> {
        if self.state() != State::Running {
            return None;
        }
        let tree = {
            let mut facts = self.facts();
            facts.killed = true;
            facts.tree.clone()
        };
        let left = ending::end(tree, None).await;
        if left == 0 {
            // No process is left. Give the task that waits for the shell a moment to record how the shell ended.
            let _ = tokio::time::timeout(Duration::from_millis(500), self.wait_for_end()).await;
            let mut facts = self.facts();
            facts.processes_gone = true;
            facts.end.get_or_insert(End::Signal(Signal::KILL.as_raw()));
        }
        Some(left)
    }

    fn entry(&self, run: &str) -> Value {
        json!({"id": self.id, "command": self.command, "state": self.state().name(), "run": run})
    }
}

pub(crate) struct Jobs {
    /// A name of this run of becket, which distinguishes its jobs from those of earlier runs of the session.
    run: String,
    table: Mutex<Table>,
    /// Receives each start and each end of a job, if a front end asked for them.
    changes: OnceLock<mpsc::UnboundedSender<JobChange>>,
}

#[derive(Default)]
struct Table {
    /// True once the session state was read.
    loaded: bool,
    last: u64,
    jobs: BTreeMap<u64, Arc<Job>>,
    lost: BTreeMap<u64, String>,
    unreported: Vec<String>,
    saved: Value,
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in self.table().jobs.values() {
            if job.state() == State::Running {
                job.facts().tree.kill();
            }
        }
    }
}

impl Jobs {
    pub(crate) fn new(run: String) -> Self {
        Self { run, table: Mutex::default(), changes: OnceLock::new() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded(&self, host: &dyn Host) -> MutexGuard<'_, Table> {
        let mut table = self.table();
        if !std::mem::replace(&mut table.loaded, true)
            && let Some(Value::Array(entries)) = host.state(STATE)
        {
            for entry in &entries {
                let Some(id) = entry["id"].as_u64() else { continue };
                table.last = table.last.max(id);
                let state = entry["state"].as_str().unwrap_or_default();
                if entry["run"] != self.run.as_str() && matches!(state, "running" | "lost") {
                    let command = entry["command"].as_str().unwrap_or_default().to_owned();
                    if state == "running" {
                        table.unreported.push(format!("job {id} lost with the earlier process: {command}"));
                    }
                    table.lost.insert(id, command);
                }
            }
            table.saved = Value::Array(entries);
        }
        table
    }

    pub(crate) fn running(&self) -> usize {
        self.table().jobs.values().filter(|job| job.state() == State::Running).count()
    }

    /// Returns a message for the model if no further job can start.
    pub(crate) fn full(&self, host: &dyn Host) -> Option<String> {
        drop(self.loaded(host));
        let running = self.running();
        (running >= MAX_RUNNING)
            .then(|| format!("{running} jobs are running, which is the limit. End one with job_kill"))
    }

    /// Turns a process into a job: either its shell still runs, or (with `ended`) it left other processes running.
    pub(crate) fn adopt(
        &self,
        mut process: Process,
        (command, description): (&str, Option<&str>),
        ended: Option<End>,
        env: &ToolEnv,
    ) -> Option<Arc<Job>> {
        let tree = process.release()?;
        process.drain.quiet();
        let mut table = self.loaded(&*env.host);
        table.last += 1;
        let Process { mut child, drain, started, cwd_file, pass, lease, .. } = process;
        let job = Arc::new(Job {
            id: table.last,
            command: one_line(command),
            started,
            drain,
            refusals: pass.as_ref().map(|pass| pass.log()),
            facts: Mutex::new(Facts {
                tree,
                end: ended,
                took: None,
                killed: false,
                processes_gone: false,
                end_reported: false,
                reported_hosts: BTreeSet::new(),
            }),
            changed: Notify::new(),
        });
        let of_task = Arc::clone(&job);
        tokio::spawn(async move {
            let end = match (ended, child.wait().await) {
                (Some(end), _) => end,
                (None, Ok(status)) => End::from_status(status),
                (None, Err(_)) => End::Signal(0),
            };
            of_task.drain.shell_ended().await;
            let end = of_task.drain.exceeded_limit().map_or(end, End::Over);
            of_task.facts().end = Some(end);
            drop(cwd_file);
            of_task.changed.notify_waiters();
            of_task.drain.closed().await;
            of_task.changed.notify_waiters();
            if pass.is_some() || lease.is_some() {
                of_task.wait_for_end().await;
            }
            // The command may use the proxy as long as one of its processes runs.
            drop(pass);
            if lease.as_ref().is_some_and(|lease| lease.may_leave_processes) {
                let tree = of_task.facts().tree.clone();
                ending::end(tree, None).await;
            }
            // The protected files are checked when the lease is dropped, so the last process must have ended.
            drop(lease);
        });
        table.jobs.insert(job.id, Arc::clone(&job));
        self.report(&job, description, env);
        let ended: Vec<u64> =
            table.jobs.values().filter(|j| j.state() != State::Running).map(|j| j.id).collect();
        for id in &ended[..ended.len().saturating_sub(MAX_ENDED)] {
            table.jobs.remove(id);
        }
        Some(job)
    }

    /// Returns the starts and ends of jobs from now on. `None` if somebody else has asked for them.
    pub(crate) fn watch(&self) -> Option<mpsc::UnboundedReceiver<JobChange>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.changes.set(sender).ok().map(|()| receiver)
    }

    /// Reports the start of a job, and its end when that comes.
    fn report(&self, job: &Arc<Job>, description: Option<&str>, env: &ToolEnv) {
        let Some(changes) = self.changes.get().cloned() else { return };
        let (job, call) = (Arc::clone(job), env.call_id.clone());
        let description = description.map_or_else(|| job.command.clone(), one_line);
        let change = move |job: &Job, end| JobChange {
            id: job.id,
            call: call.clone(),
            description: description.clone(),
            end,
        };
        // If the receiver is gone, no front end shows jobs any more.
        let _ = changes.send(change(&job, None));
        tokio::spawn(async move {
            job.wait_for_end().await;
            let _ = changes.send(change(&job, Some(job.outcome())));
        });
    }

    /// Returns the job with this number, if this run of becket has started it and still keeps it.
    pub(crate) fn known(&self, id: u64) -> Option<Arc<Job>> {
        self.table().jobs.get(&id).cloned()
    }

    /// A job by its number. `Err` is a message for the model.
    pub(crate) fn get(&self, id: u64, host: &dyn Host) -> Result<Arc<Job>, String> {
        let table = self.loaded(host);
        if let Some(job) = table.jobs.get(&id) {
            return Ok(Arc::clone(job));
        }
        if let Some(command) = table.lost.get(&id) {
            return Err(format!(
                "Job {id} is lost: it ran when the earlier process of this session ended. Start it again if it is needed: {command}"
            ));
        }
        let ids: Vec<String> = table.jobs.keys().map(ToString::to_string).collect();
        Err(match ids.as_slice() {
            [] => format!("There is no job {id}; none was started."),
            ids => format!("There is no job {id}. Jobs: {}.", ids.join(", ")),
        })
    }

    /// Lists all jobs, one a line.
    pub(crate) fn list(&self, host: &dyn Host) -> String {
        let table = self.loaded(host);
        let lost = table.lost.iter().map(|(id, command)| (*id, format!("job {id} lost: {command}")));
        let mut lines: BTreeMap<u64, String> = lost.collect();
        for (id, job) in &table.jobs {
            lines.insert(*id, format!("{}: {}", job.status(), job.command));
        }
        if lines.is_empty() {
            "No jobs.".to_owned()
        } else {
            lines.into_values().collect::<Vec<_>>().join("\n")
        }
    }

    /// Returns the ends of jobs that the model does not know yet, one line each. Saves the table in the session state if it
    /// changed.
    pub(crate) fn news(&self, host: &dyn Host) -> Vec<String> {
        let mut table = self.loaded(host);
        let mut news = std::mem::take(&mut table.unreported);
        for job in table.jobs.values() {
            if job.state() != State::Running && !std::mem::replace(&mut job.facts().end_reported, true) {
                news.push(format!("{}: {}", job.status(), job.command));
            }
        }
        let mut entries: Vec<Value> = table
            .lost
            .iter()
            .map(|(id, command)| json!({"id": id, "command": command, "state": "lost", "run": self.run}))
            .collect();
        entries.extend(table.jobs.values().map(|job| job.entry(&self.run)));
        let value = Value::Array(entries);
        if table.saved != value && !(table.saved.is_null() && table.jobs.is_empty() && table.lost.is_empty())
        {
            host.set_state(STATE, value.clone());
            table.saved = value;
        }
        news
    }

    /// Number, description and liveness of each job.
    pub(crate) fn lines(&self) -> Vec<(u64, String, bool)> {
        let table = self.table();
        let line = |job: &Arc<Job>| {
            (job.id, format!("{}: {}", job.progress(), job.command), job.state() == State::Running)
        };
        table.jobs.values().map(line).collect()
    }

    /// Ends one job and describes its state.
    pub(crate) async fn end(&self, id: u64) -> Option<String> {
        let job = self.table().jobs.get(&id).cloned()?;
        let _ = job.kill().await;
        Some(format!("{}: {}", job.status(), job.command))
    }

    pub(crate) async fn end_all(&self) -> Vec<String> {
        let jobs: Vec<Arc<Job>> = self.table().jobs.values().cloned().collect();
        let ends = jobs.iter().map(|job| async move {
            let left = job.kill().await?;
            let what = format!("background job {} ended with the run: {}", job.id, job.command);
            Some(if left == 0 {
                what
            } else {
                format!("{what} ({left} of its processes could not be ended)")
            })
        });
        futures::future::join_all(ends).await.into_iter().flatten().collect()
    }
}

fn one_line(command: &str) -> String {
    let line = command.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = cut_end(&line, MAX_COMMAND);
    if cut.len() == line.len() { line } else { format!("{cut}…") }
}
