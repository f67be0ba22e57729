//! The index file: opening it, its schema, and removing a broken one.
//!
//! `user_version` is the version of the schema. An older file is not converted but made again, because everything in it is derived. The
//! version is checked and the tables are made in one `BEGIN IMMEDIATE` transaction, so any number of processes may start at once with a new
//! file.

use super::IndexError;
use crate::store::{Disk, Io, OpenMode};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const VERSION: i64 = 8;
const BUSY: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
    DROP TABLE IF EXISTS texts;
    DROP TABLE IF EXISTS usage;
    DROP TABLE IF EXISTS tools;
    DROP TABLE IF EXISTS files;
    DROP TABLE IF EXISTS entries;
    DROP TABLE IF EXISTS stretches;
    DROP TABLE IF EXISTS sessions;
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        dir BLOB NOT NULL,
        project TEXT NOT NULL,
        cwd BLOB NOT NULL,
        title TEXT,
        prompt TEXT,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        messages INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        forked_from TEXT,
        extra TEXT NOT NULL,
        -- A JSON array.
        tags TEXT NOT NULL,
        archived INTEGER NOT NULL,
        -- Where reading goes on: behind the last good line, its hash, its last sequence number.
        good INTEGER NOT NULL,
        head TEXT NOT NULL,
        last_seq INTEGER NOT NULL
    ) STRICT;
    -- A part of a ledger, in bytes: whole lines. Times are those of its first and last entry by the clock.
    CREATE TABLE stretches (
        id INTEGER PRIMARY KEY,
        session TEXT NOT NULL,
        start INTEGER NOT NULL,
        behind INTEGER NOT NULL,
        earliest INTEGER NOT NULL,
        latest INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX stretches_session ON stretches (session);
    -- Without requests: of a model that a fork's source used.
    CREATE TABLE usage (
        session TEXT NOT NULL,
        model TEXT NOT NULL,
        -- Days since 1970 in UTC.
        day INTEGER NOT NULL,
        requests INTEGER NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        cost REAL NOT NULL,
        PRIMARY KEY (session, model, day)
    ) STRICT;
    CREATE TABLE tools (
        session TEXT NOT NULL,
        tool TEXT NOT NULL,
        day INTEGER NOT NULL,
        calls INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        PRIMARY KEY (session, tool, day)
    ) STRICT;
    CREATE TABLE files (
        session TEXT NOT NULL,
        path TEXT NOT NULL,
        changed INTEGER NOT NULL,
        PRIMARY KEY (session, path)
    ) STRICT, WITHOUT ROWID;
    -- rowid is stretches.id. Only the words of a stretch: the texts are in the ledger.
    CREATE VIRTUAL TABLE texts USING fts5 (
        text, content = '', contentless_delete = 1, detail = none, tokenize = 'unicode61 remove_diacritics 2'
    );
";

/// Opens the index. Makes it again if it is missing, older or broken.
pub(super) fn open(db: &Path) -> Result<Connection, IndexError> {
    match try_open(db) {
        Err(IndexError::Sqlite(error)) if is_broken(&error) => {
            remove(db);
            try_open(db)
        }
        other => other,
    }
}

/// Makes the same tables in memory.
pub(super) fn open_in_memory() -> Result<Connection, IndexError> {
    let mut connection = Connection::open_in_memory()?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    migrate(&mut connection)?;
    Ok(connection)
}

fn try_open(db: &Path) -> Result<Connection, IndexError> {
    if let Some(dir) = db.parent() {
        Disk.create_dir(dir)?;
    }
    // SQLite would make the file readable for others, so it is created here first. Its side files copy its
    // permissions.
    drop(Disk.open(db, OpenMode::Touch)?);
    let mut connection = Connection::open(db)?;
    connection.busy_timeout(BUSY)?;
    use_write_ahead_log(&connection)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // When the write-ahead log is reset, its file is shortened to this size (16 MiB), even if a batch made it longer.
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    // Temporary tables of a search are kept in memory.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Switches to the write-ahead log. The switch does not wait for other openers by itself, so it is retried
/// here. A file system that does not support it keeps its journal mode.
fn use_write_ahead_log(connection: &Connection) -> Result<(), rusqlite::Error> {
    let start = Instant::now();
    loop {
        let mode =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(_) => return Ok(()),
            Err(error) if is_busy(&error) && start.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error),
        }
    }
}

fn migrate(connection: &mut Connection) -> Result<(), IndexError> {
    if version(connection)? == VERSION {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created the tables in the meantime.
    let found = version(&transaction)?;
    if found > VERSION {
        return Err(IndexError::Newer { found });
    }
    if found < VERSION {
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(())
}

fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

pub(super) fn is_broken(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

pub(super) fn is_of_the_disk(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::ReadOnly
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::SystemIoFailure
                | ErrorCode::PermissionDenied
        )
    )
}

/// Removes the index and its side files. If a file cannot be removed, the next opening reports it.
pub(super) fn remove(db: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut path = db.as_os_str().to_owned();
        path.push(suffix);
        let _ = Disk.remove(&PathBuf::from(path));
    }
}
