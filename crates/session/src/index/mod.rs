//! The index: a SQLite file for listing, full text search and statistics over all sessions.
//!
//! The index is derived from the ledgers only. [`Index::catch_up`] reads what was appended to each ledger
//! since the last time; the folders remain the truth. The file may be deleted, locked or broken at any time.
//! A broken file is made again when it is opened next. If the file cannot be written, an index in memory is
//! used, or lists come from [`crate::store::list`].
//!
//! Never opened while a session is written. Holds no transaction longer than one batch.

mod batch;
mod catch_up;
mod schema;
mod search;
mod statistics;
mod text;

pub use catch_up::CaughtUp;
pub use search::{Hit, Query};
pub use statistics::{DayStatistics, ModelStatistics, Statistics, ToolStatistics};

use crate::store::{self, LedgerFigures, SessionSummary, StoreError, path_from_bytes, project_name};
use becket_types::{Millis, Usage};
use rusqlite::{Connection, Row};
use std::path::{Path, PathBuf};

/// The reason why the index cannot be used. No caller may fail because of it: lists then come from the folders.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the index: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the index was made by a newer version (schema {found}); it is left as it is")]
    Newer { found: i64 },
    #[error("the index cannot be read or written: {0}")]
    Io(#[from] std::io::Error),
    /// The sessions themselves cannot be read.
    #[error(transparent)]
    Sessions(#[from] StoreError),
}

impl IndexError {
    /// True if other processes use the index, so a later try may succeed.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if schema::is_busy(error))
    }

    /// True if the problem is the file, so that deleting it can help.
    pub fn is_of_the_file(&self) -> bool {
        matches!(self, Self::Sqlite(error) if schema::is_broken(error)) || self.is_of_the_disk()
    }

    /// True if the file's location is the problem: full, read-only or missing.
    fn is_of_the_disk(&self) -> bool {
        match self {
            Self::Io(_) => true,
            Self::Sqlite(error) => schema::is_of_the_disk(error),
            Self::Newer { .. } | Self::Sessions(_) => false,
        }
    }
}

/// An open index.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
    /// Folder with all sessions.
    root: PathBuf,
}

const COLUMNS: &str =
    "id, dir, cwd, title, prompt, created, updated, messages, bytes, forked_from, extra, tags, archived";

impl Index {
    /// Opens the index file `db` for the sessions below `root`. [`Index::catch_up`] adds what is new.
    ///
    /// # Errors
    ///
    /// Fails if other processes hold the file for more than 5 seconds, if a newer version wrote it, or if the
    /// disk fails.
    pub fn open(db: &Path, root: &Path) -> Result<Self, IndexError> {
        Ok(Self { connection: schema::open(db)?, root: root.to_path_buf() })
    }

    /// Makes an index in memory of all sessions, for a root folder in which no file can be written. Reads all ledgers.
    ///
    /// # Errors
    ///
    /// Fails if SQLite cannot work.
    pub fn in_memory(root: &Path) -> Result<Self, IndexError> {
        let mut index = Self { connection: schema::open_in_memory()?, root: root.to_path_buf() };
        index.catch_up()?;
        Ok(index)
    }

    /// Deletes the index and makes it again from the ledgers.
    ///
    /// # Errors
    ///
    /// Fails if the new index cannot be made: the disk fails, or another process uses the index.
    pub fn rebuild(db: &Path, root: &Path) -> Result<(Self, CaughtUp), IndexError> {
        schema::remove(db);
        let mut index = Self::open(db, root)?;
        let caught_up = index.catch_up()?;
        Ok((index, caught_up))
    }

    /// Reads what was appended to the ledgers since the last time. Ledgers that cannot be read are counted
    /// and skipped.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be used.
    pub fn catch_up(&mut self) -> Result<CaughtUp, IndexError> {
        catch_up::catch_up(&mut self.connection, &self.root)
    }

    /// Releases the space of deleted sessions and empties the write-ahead log.
    ///
    /// # Errors
    ///
    /// Fails if another process uses the index.
    pub fn compact(&mut self) -> Result<(), IndexError> {
        catch_up::compact(&self.connection)
    }

    /// Returns all indexed sessions, or those of one project, most recently written first.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn list(&self, project: Option<&Path>) -> Result<Vec<SessionSummary>, IndexError> {
        let project = project.map(project_name);
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM sessions WHERE ?1 IS NULL OR project = ?1 ORDER BY updated DESC, id DESC"
        ))?;
        let rows = statement.query_map([project], summary)?;
        Ok(rows.filter_map(Result::transpose).collect::<Result<_, _>>()?)
    }
}

/// Updates the index and calls `ask` with it. If its file cannot be written (a full or read-only disk), a
/// temporary index in memory is used.
///
/// # Errors
///
/// Returns the errors of [`Index::open`] and of `ask`.
pub fn serve<T>(
    db: &Path,
    root: &Path,
    ask: impl Fn(&mut Index) -> Result<T, IndexError>,
) -> Result<T, IndexError> {
    match serve_from_file(db, root, &ask) {
        Err(error) if error.is_of_the_disk() => ask(&mut Index::in_memory(root)?),
        asked => asked,
    }
}

/// Uses the index file. Damage may show only when a page of the file is read. In that case the file is made again, and `ask` is called a
/// second time.
fn serve_from_file<T>(
    db: &Path,
    root: &Path,
    ask: impl Fn(&mut Index) -> Result<T, IndexError>,
) -> Result<T, IndexError> {
    let asked = Index::open(db, root).and_then(|mut index| {
        index.catch_up()?;
        ask(&mut index)
    });
    match asked {
        Err(IndexError::Sqlite(error)) if schema::is_broken(&error) => ask(&mut Index::rebuild(db, root)?.0),
        asked => asked,
    }
}

/// Sessions, and the reason if the index could not be used.
pub type Listed = (Vec<SessionSummary>, Option<IndexError>);

/// Returns the sessions of a project, or all: from the index, or from the folders if the index cannot be
/// used. In that case also returns the reason.
///
/// # Errors
///
/// Returns [`StoreError::Io`] if a folder with sessions cannot be read.
pub fn list(db: &Path, root: &Path, project: Option<&Path>) -> Result<Listed, StoreError> {
    match serve_from_file(db, root, |index| index.list(project)) {
        Ok(sessions) => Ok((sessions, None)),
        Err(IndexError::Sessions(error)) => Err(error),
        Err(error) => Ok((store::list(root, project)?, Some(error))),
    }
}

/// Reads the five token counts that begin at `column`.
fn usage(row: &Row<'_>, column: usize) -> Result<Usage, rusqlite::Error> {
    let at = |n| unsigned(row, column + n);
    let (input, output, cache_read) = (at(0)?, at(1)?, at(2)?);
    // This field stays 0: the index has one column for all costs, whether or not the provider billed them.
    Ok(Usage { input, output, cache_read, cache_write: at(3)?, reasoning: at(4)?, ..Usage::default() })
}

/// Converts one of SQLite's signed integers. becket's values are never negative.
fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    Ok(row.get::<_, i64>(column)?.max(0) as u64)
}

fn summary(row: &Row<'_>) -> Result<Option<SessionSummary>, rusqlite::Error> {
    let Ok(id) = row.get::<_, String>(0)?.parse() else { return Ok(None) };
    let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
    Ok(Some(SessionSummary {
        id,
        dir: path_from_bytes(&row.get::<_, Vec<u8>>(1)?),
        cwd: path_from_bytes(&row.get::<_, Vec<u8>>(2)?),
        title: row.get(3)?,
        prompt: row.get(4)?,
        ledger: LedgerFigures {
            created: Millis(unsigned(row, 5)?),
            updated: Millis(unsigned(row, 6)?),
            messages: Some(unsigned(row, 7)?),
            bytes: unsigned(row, 8)?,
        },
        forked_from: row.get::<_, Option<String>>(9)?.and_then(|text| serde_json::from_str(&text).ok()),
        extra: json(row.get(10)?).unwrap_or_default(),
        tags: row
            .get::<_, String>(11)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default(),
        archived: row.get(12)?,
        unanswered: false,
    }))
}
