//! Starts and ends of background jobs, and their raw output, as front ends get them.
//!
//! Data only: `jobs` reports the changes, `shell` looks them up, and the model's own view of a job is in `job_tools`.

use becket_types::CallId;

/// The start or the end of a background job.
#[derive(Clone, Debug)]
pub struct JobChange {
    pub id: u64,
    /// The call that started its command.
    pub call: CallId,
    /// The model's description of the command. If there is none, the command, on one line and shortened.
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

/// The last part of a job's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobText {
    pub text: String,
    /// Bytes that the job has printed in all.
    pub total: u64,
    /// True if the beginning of the output is left out.
    pub is_cut: bool,
}
