//! The index: a SQLite file for listing, full text search and statistics over all sessions.
//!
//! Model: derived from the ledgers and from nothing else. [`Index::catch_up`] reads of each ledger what was appended since
//! last time; the folders stay the truth. The file may be deleted, locked or broken at any time: a broken one is made anew
//! at the next opening, and where it cannot be written one in memory serves, or lists come from [`crate::store::list`].
//!
//! Never opened where a session is written, and holds no transaction longer than a batch.

mod batch;
mod catch_up;
mod days;
mod schema;
mod search;
mod text;

pub use catch_up::CaughtUp;
pub use days::{DayStatistics, ToolStatistics};
pub use search::{Hit, Query};

use crate::store::{self, SessionSummary, path_from_bytes, project_name};
use becket_types::{Cost, Millis, Usage};
use rusqlite::{Connection, Row};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Why the index cannot serve. Never a reason to stop anything else.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the index: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the index was made by a newer version (schema {found}); it is left as it is")]
    Newer { found: i64 },
    #[error("the index cannot be read or written: {0}")]
    Io(#[from] std::io::Error),
}

impl IndexError {
    /// Worth another try in a while: other processes were at it.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if schema::is_busy(error))
    }

    /// The place of the file is the matter: full, read-only or not there.
    fn is_of_the_disk(&self) -> bool {
        match self {
            Self::Io(_) => true,
            Self::Sqlite(error) => schema::is_of_the_disk(error),
            Self::Newer { .. } => false,
        }
    }
}

/// An open index.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
    /// The folder with all sessions.
    root: PathBuf,
}

/// Sums over all sessions, or those of one project.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    pub sessions: u64,
    pub messages: u64,
    /// Of all ledgers.
    pub bytes: u64,
    pub models: Vec<ModelStatistics>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelStatistics {
    /// `provider/name`.
    pub model: String,
    pub requests: u64,
    pub usage: Usage,
    pub cost: Cost,
}

const COLUMNS: &str =
    "id, dir, cwd, title, prompt, created, updated, messages, bytes, forked_from, extra, tags, archived";

impl Index {
    /// Opens the index file `db` over the sessions under `root`. It knows what it knew; [`Index::catch_up`] brings the rest.
    ///
    /// # Errors
    /// When other processes hold it for more than 5 seconds, when it is newer, or when the disk fails.
    pub fn open(db: &Path, root: &Path) -> Result<Self, IndexError> {
        Ok(Self { connection: schema::open(db)?, root: root.to_path_buf() })
    }

    /// One that no file keeps, of all sessions as they are now: where none can be written. Reads all ledgers.
    ///
    /// # Errors
    /// When SQLite cannot work.
    pub fn in_memory(root: &Path) -> Result<Self, IndexError> {
        let mut index = Self { connection: schema::open_in_memory()?, root: root.to_path_buf() };
        index.catch_up()?;
        Ok(index)
    }

    /// Throws the index away and makes it again from the ledgers.
    pub fn rebuild(db: &Path, root: &Path) -> Result<(Self, CaughtUp), IndexError> {
        schema::remove(db);
        let mut index = Self::open(db, root)?;
        let caught_up = index.catch_up()?;
        Ok((index, caught_up))
    }

    /// All sessions it knows, of one project where it is given; the most recently written first.
    pub fn list(&self, project: Option<&Path>) -> Result<Vec<SessionSummary>, IndexError> {
        let project = project.map(project_name);
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM sessions WHERE ?1 IS NULL OR project = ?1 ORDER BY updated DESC, id DESC"
        ))?;
        let rows = statement.query_map([project], summary)?;
        Ok(rows.filter_map(Result::transpose).collect::<Result<_, _>>()?)
    }

    /// Sums over all sessions, or those of one project.
    pub fn statistics(&self, project: Option<&Path>) -> Result<Statistics, IndexError> {
        let project = project.map(project_name);
        let mut all = self.connection.query_row(
            "SELECT count(*), coalesce(sum(messages), 0), coalesce(sum(bytes), 0)
             FROM sessions WHERE ?1 IS NULL OR project = ?1",
            [&project],
            |row| {
                let models = Vec::new();
                Ok(Statistics {
                    sessions: unsigned(row, 0)?,
                    messages: unsigned(row, 1)?,
                    bytes: unsigned(row, 2)?,
                    models,
                })
            },
        )?;
        let mut statement = self.connection.prepare_cached(
            "SELECT u.model, sum(requests), sum(input), sum(output), sum(cache_read), sum(cache_write),
                    sum(reasoning), sum(cost)
             FROM usage u JOIN sessions s ON s.id = u.session
             WHERE (?1 IS NULL OR s.project = ?1) AND u.requests > 0 GROUP BY u.model ORDER BY sum(cost) DESC, u.model",
        )?;
        let rows = statement.query_map([&project], |row| {
            Ok(ModelStatistics {
                model: row.get(0)?,
                requests: unsigned(row, 1)?,
                usage: usage(row, 2)?,
                cost: Cost(row.get(7)?),
            })
        })?;
        all.models = rows.collect::<Result<_, _>>()?;
        Ok(all)
    }
}

/// Asks the index, brought up to the ledgers first. Where its file cannot be written (a full or read-only disk), one that is
/// made for this question answers.
///
/// # Errors
/// As [`Index::open`], and what `ask` gives.
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

/// Damage may show only where a page is read: then the file is made anew, and asked again.
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

/// The sessions of a project (or all): from the index when it serves, from the folders when it does not. With the reason
/// in that case.
pub fn list(db: &Path, root: &Path, project: Option<&Path>) -> (Vec<SessionSummary>, Option<IndexError>) {
    match serve_from_file(db, root, |index| index.list(project)) {
        Ok(sessions) => (sessions, None),
        Err(error) => (store::list(root, project), Some(error)),
    }
}

/// The five counts of tokens from `column` on.
fn usage(row: &Row<'_>, column: usize) -> Result<Usage, rusqlite::Error> {
    let at = |n| unsigned(row, column + n);
    Ok(Usage { input: at(0)?, output: at(1)?, cache_read: at(2)?, cache_write: at(3)?, reasoning: at(4)? })
}

/// SQLite's integers are signed; ours never reach the sign.
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
        created: Millis(unsigned(row, 5)?),
        updated: Millis(unsigned(row, 6)?),
        messages: Some(unsigned(row, 7)?),
        bytes: unsigned(row, 8)?,
        forked_from: row.get::<_, Option<String>>(9)?.and_then(|text| serde_json::from_str(&text).ok()),
        extra: json(row.get(10)?).unwrap_or_default(),
        tags: row
            .get::<_, String>(11)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default(),
        archived: row.get(12)?,
    }))
}
