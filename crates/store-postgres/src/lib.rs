//! Sessions of teams and fleets in PostgreSQL: the same sessions, opened on any machine.
//!
//! Owns an [`Io`](becket_session::store::Io), the seam that all storage of sessions goes through. The truth is in the
//! database: pieces of ledgers under the byte that they begin at, and blobs. The folder of this machine is a copy of it, in
//! the format that sessions have everywhere, from which everything is read, listed and searched.
//!
//! Model: a line goes to the database first, in one statement, and then into the copy; so what is acknowledged is there. A
//! server that cannot be reached is a disk that fails: the session goes on in memory, says so once, and what waits is written
//! in order when the server is back. One writer at a time, by an advisory lock on the connection that also writes. Who takes a
//! session over raises its number (`epoch`); each line is written under the number that its writer knew, so a
//! process that was stopped, or cut off, can add nothing any more.
//!
//! Invariants: every row belongs to the database user that wrote it, and row level security shows it to nobody else.
//!
//! Knows nothing of conversations, and does not decide where the copy is.

mod encryption;
mod place;
mod server;
mod sys;

pub use place::Postgres;

/// Why a store cannot be used.
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
