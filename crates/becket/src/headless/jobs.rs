//! Commands in the background, as the program sees them: lines about their starts and ends, a file with the output of each
//! that has ended, and the requests `stop_task` and `get_task_output`.
//!
//! A job has the same id here as in the results of calls: its number.

use super::waits::{Completion, PendingWork};
use becket_print::{Printer, ShellTask, ShellTaskEnd};
use becket_session::secrets::mask_published;
use becket_tool_shell::{JobChange, JobEnd, JobOutcome, Shell};
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Maximum number of bytes that `get_task_output` returns: the end of the output.
const MAX_OUTPUT_BYTES: usize = 8 * 1024;

/// The commands in the background of a run.
pub(super) struct Jobs {
    shell: Arc<Shell>,
    changes: Option<mpsc::UnboundedReceiver<JobChange>>,
    /// The folder for the outputs of commands that have ended; `None` if the session is not kept.
    outputs: Option<PathBuf>,
    /// Commands that have ended and that no message to the model has reported yet: the job's number, and the text for the model.
    ended: Vec<(u64, String)>,
}

impl Jobs {
    /// `shown`: starts and ends are printed for the driving program.
    pub(super) fn new(shell: &Arc<Shell>, shown: bool, session: Option<PathBuf>) -> Self {
        let changes = if shown { shell.watch_jobs() } else { None };
        let outputs = session.map(|folder| folder.join("tasks"));
        Self { shell: Arc::clone(shell), changes, outputs, ended: Vec::new() }
    }

    /// Waits for the next change, for ever if none is reported.
    pub(super) async fn next(&mut self) -> JobChange {
        if let Some(changes) = &mut self.changes
            && let Some(change) = changes.recv().await
        {
            return change;
        }
        std::future::pending().await
    }

    /// Returns a change that was reported already.
    pub(super) fn take(&mut self) -> Option<JobChange> {
        self.changes.as_mut()?.try_recv().ok()
    }

    /// Notes the end of a command for the model. The end of a command that was killed on purpose is not reported.
    pub(super) fn note_end(&mut self, change: &JobChange) {
        let Some(JobEnd { outcome, summary }) = &change.end else { return };
        if *outcome != JobOutcome::Killed {
            let text = format!(
                "The command in the background ({}) has ended: {summary}. job_output shows what it printed.",
                change.description
            );
            self.ended.push((change.id, text));
        }
    }

    /// Returns the ended commands that the model has not seen in a tool result meanwhile, and forgets all.
    pub(super) fn take_unreported_ends(&mut self) -> Vec<(u64, String)> {
        let ended = std::mem::take(&mut self.ended);
        ended.into_iter().filter(|(id, _)| self.shell.take_end(*id)).collect()
    }

    fn is_running(&self, id: u64) -> bool {
        self.shell.job_lines().iter().any(|(known, _, running)| *known == id && *running)
    }

    /// Tells the driving program that a command in the background has started or ended.
    pub(super) async fn tell(&self, change: JobChange, printer: &mut Printer) -> io::Result<()> {
        let JobChange { id, call, description, end } = change;
        let task = ShellTask { id, call: &call, description: &description };
        let Some(JobEnd { outcome, summary }) = end else { return printer.shell_task_started(task) };
        let status = match outcome {
            JobOutcome::Completed => "completed",
            JobOutcome::Failed => "failed",
            JobOutcome::Killed => "killed",
        };
        let output_file = self.save(id).await.unwrap_or_default();
        let end = ShellTaskEnd { status, summary: format!("{summary}: {description}"), output_file };
        printer.shell_task_ended(task, &end)
    }

    /// Writes the output of a job to its file. `None` if there is none: the session is not kept, or the disk is full.
    async fn save(&self, id: u64) -> Option<String> {
        let (shell, folder) = (Arc::clone(&self.shell), self.outputs.clone()?);
        let path = folder.join(format!("{id}.output"));
        let file = path.clone();
        let saved = tokio::task::spawn_blocking(move || {
            // If the session's folder does not exist, the outputs are not saved either.
            if !folder.parent().is_some_and(std::path::Path::is_dir) {
                return false;
            }
            becket_files::private::dir(&folder)
                .and_then(|()| shell.save_job_output(id, &file))
                .unwrap_or(false)
        });
        saved.await.unwrap_or(false).then(|| path.to_string_lossy().into_owned())
    }

    /// Ends a command in the background. The request is answered when it has ended. Returns false if no such command runs.
    pub(super) fn stop(&self, id: &str, task: &str, waits: &mut PendingWork) -> bool {
        let Some(number) = task.parse().ok().filter(|number| self.is_running(*number)) else { return false };
        let (id, shell) = (id.to_owned(), Arc::clone(&self.shell));
        waits.add_unordered(async move {
            let ended = shell.end_job(number).await;
            Completion::Answer(id, ended.map(|_| json!({})).ok_or_else(no_task))
        });
        true
    }

    /// Returns the last output of a command in the background.
    pub(super) fn output(&self, task: &str) -> Result<Value, String> {
        let text = task.parse().ok().and_then(|number| self.shell.job_text(number, MAX_OUTPUT_BYTES));
        let text = text.ok_or_else(|| format!("there is no command {task:?} in the background"))??;
        Ok(json!({
            "output": mask_published(&text.text).0, "total_bytes": text.total, "truncated": text.is_cut,
        }))
    }
}

/// Returns the reason why a task is not stopped.
pub(super) fn no_task() -> String {
    "no task with this id is running".to_owned()
}
