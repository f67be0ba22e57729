//! Starts and ends of background jobs, and their raw output, for front ends.
//!
//! Data and look-ups only: `jobs` reports the changes, and the model's own view of a job is in `job_tools`.

use crate::jobs::State;
use crate::report::End;
use crate::shell::Shell;
use becket_types::CallId;
use std::io;
use std::path::Path;
use tokio::sync::mpsc;

/// The start or the end of a background job.
#[derive(Clone, Debug)]
pub struct JobChange {
    pub id: u64,
    /// The call that started its command.
    pub call: CallId,
    /// The model's words about the command, or else the command, on one line and shortened.
    pub description: String,
    /// `None`: the job has started.
    pub end: Option<JobEnd>,
}

/// The end of a background job.
#[derive(Clone, Debug)]
pub struct JobEnd {
    pub outcome: JobOutcome,
    /// The end in words.
    pub summary: String,
}

/// The way in which a background job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// Its command ended with the exit code 0.
    Completed,
    Failed,
    /// A person, a program or the model ended it.
    Killed,
}

impl JobEnd {
    pub(crate) fn of(state: State, summary: String) -> Self {
        let outcome = match state {
            State::Finished(End::Exit(0)) => JobOutcome::Completed,
            State::Finished(_) | State::Running => JobOutcome::Failed,
            State::Killed => JobOutcome::Killed,
        };
        Self { outcome, summary }
    }
}

/// The last part of a job's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobText {
    pub text: String,
    /// Bytes that the job has printed in all.
    pub total: u64,
    /// The text leaves out the beginning.
    pub is_cut: bool,
}

impl Shell {
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

    /// Writes all that is kept of a job's output to a new file that only its owner can read. Returns false if this process
    /// started no such job.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the output was not kept.
    pub fn save_job_output(&self, id: u64, path: &Path) -> io::Result<bool> {
        let Some(job) = self.jobs.known(id) else { return Ok(false) };
        job.drain.save(path)?;
        Ok(true)
    }
}
