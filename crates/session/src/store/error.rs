//! Errors of stored sessions, with messages for people: what happened, and what to do.

use becket_types::{Millis, SessionId, quoted};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

/// The reason why a session could not be created, found, opened or written.
///
/// A disk that fails while a session runs is not an error: the session continues in memory, with a notice.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes this session.
    #[error(
        "session {id} is open in another process; continue in a copy (--fork-session), take it over so that the other \
         process can no longer write (--take-over), or only read it (becket export {id}, becket context {id})"
    )]
    Locked { id: String, dir: PathBuf },
    /// Another process has taken this session over. Nothing more can be added here.
    #[error(
        "session {id} was taken over by another process: nothing more is done or saved here; continue there, or in a copy \
         (becket --resume {id} --fork-session)"
    )]
    TakenOver { id: SessionId },
    /// A newer version wrote the session. Its entries may have another meaning there, so this version must not write to it.
    #[error(
        "session {id} has format {format} of a newer becket ({version}); this version writes format {known} and \
         leaves the session unchanged: update becket, or read it with `becket export {id}`"
    )]
    Newer { id: SessionId, format: u32, known: u32, version: String },
    #[error("there is no session {}; `becket sessions` lists the existing ones", quoted(query))]
    NotFound { query: String },
    /// The session was removed, and can be brought back.
    #[error("session {id} is in the trash; bring it back first: becket sessions restore {id}")]
    Trashed { id: SessionId },
    #[error("session {id} exists already; resume it (--resume {id}) or choose another id")]
    Exists { id: SessionId },
    /// An id prefix or a title that several sessions have.
    #[error("{} could be any of {} sessions; give more of the id:{}", quoted(query), candidates.len(), candidate_lines(candidates))]
    Ambiguous { query: String, candidates: Vec<Candidate> },
    /// One commit is larger than a ledger line may be.
    #[error("{bytes} bytes are too much for one ledger line (limit {limit}); keep large content as a blob")]
    TooLarge { bytes: u64, limit: u64 },
    /// An entry cannot be serialised as JSON.
    #[error("an entry cannot be written as JSON: {0}")]
    Encode(#[from] serde_json::Error),
    /// The file or pipe to which an export is written failed.
    #[error("cannot write the export: {0}")]
    Target(io::Error),
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// One of several sessions that a query may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: SessionId,
    /// Title of the session, or its first words.
    pub label: String,
    /// Time of the last write.
    pub updated: Millis,
    /// Working directory in which the session was started.
    pub cwd: PathBuf,
}

fn candidate_lines(candidates: &[Candidate]) -> String {
    const SHOWN: usize = 10;
    let mut out = String::new();
    for candidate in candidates.iter().take(SHOWN) {
        let _ = write!(out, "\n  {}  {}", candidate.id, candidate.label);
    }
    if candidates.len() > SHOWN {
        let _ = write!(out, "\n  and {} more", candidates.len() - SHOWN);
    }
    out
}

impl StoreError {
    /// Returns a function that converts an error of the system: it adds the attempted action (`doing`) and the file.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}
