//! Sessions of teams in PostgreSQL: the same sessions, opened on any machine.
//!
//! Owns an [`Io`](becket_session::store::Io), the interface that all session storage uses. The database has the authoritative data: pieces
//! of ledgers, each stored under the byte offset where it begins, and blobs. A folder on this machine has a copy in the usual session
//! format. Everything is read, listed and searched in that copy.
//!
//! A line is written to the database first, in one statement, and then to the copy. So an acknowledged line is in the database. A server
//! that cannot be reached is treated like a failing disk: the session continues in memory, reports this once, and writes everything that is
//! pending in order when the server is back. An advisory lock on the writing connection ensures one writer at a time. A process that takes
//! over a session increases the session's number `epoch` in the database. A line is accepted only if its writer knows the current number,
//! so a process that was suspended or disconnected can no longer add anything.
//!
//! Invariant: every row belongs to the database user that wrote it, and row level security hides it from all
//! others.
//!
//! Does not interpret the content of sessions, and does not decide in which folder the copy is.

mod encryption;
mod place;
mod server;
mod sys;

pub use place::Postgres;

/// The reason why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("BECKET_STORE is no address of a PostgreSQL database: {0}")]
    Address(String),
    #[error(
        "with sslmode={mode} the store at {host} may be reached without encryption: write sslmode=verify-full in BECKET_STORE, \
         or sslmode=disable if that is meant"
    )]
    Plain { host: String, mode: String },
    #[error("the store cannot be used: {0}; unset BECKET_STORE to work with the sessions of this machine")]
    Server(String),
    #[error("the copy of the store cannot be kept in {dir}: {source}")]
    Copy { dir: String, source: std::io::Error },
}
