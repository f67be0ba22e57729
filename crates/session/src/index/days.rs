//! Statistics by day, project and tool.

use super::{Index, IndexError, unsigned, usage};
use crate::store::{path_from_bytes, project_name};
use becket_types::{Cost, Usage};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Usage of one project on one day.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DayStatistics {
    /// Days since 1970 in UTC.
    pub day: u64,
    /// Working directory of the project.
    pub project: PathBuf,
    pub sessions: u64,
    pub requests: u64,
    pub usage: Usage,
    pub cost: Cost,
}

/// Number of calls of a tool, and number of failed calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolStatistics {
    pub tool: String,
    pub calls: u64,
    pub failed: u64,
}

impl Index {
    /// Returns usage by day and project from day `since` on, oldest first.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn days(&self, project: Option<&Path>, since: u64) -> Result<Vec<DayStatistics>, IndexError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT u.day, s.cwd, count(DISTINCT s.id), sum(requests), sum(input), sum(output), sum(cache_read),
                    sum(cache_write), sum(reasoning), sum(cost)
             FROM usage u JOIN sessions s ON s.id = u.session
             WHERE (?1 IS NULL OR s.project = ?1) AND u.day >= ?2 AND u.requests > 0
             GROUP BY u.day, s.project ORDER BY u.day, s.project",
        )?;
        let rows = statement.query_map((project.map(project_name), since as i64), |row| {
            Ok(DayStatistics {
                day: unsigned(row, 0)?,
                project: path_from_bytes(&row.get::<_, Vec<u8>>(1)?),
                sessions: unsigned(row, 2)?,
                requests: unsigned(row, 3)?,
                usage: usage(row, 4)?,
                cost: Cost(row.get(9)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns calls by tool from day `since` on, the most called first.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn tools(&self, project: Option<&Path>, since: u64) -> Result<Vec<ToolStatistics>, IndexError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT t.tool, sum(calls), sum(failed) FROM tools t JOIN sessions s ON s.id = t.session
             WHERE (?1 IS NULL OR s.project = ?1) AND t.day >= ?2
             GROUP BY t.tool ORDER BY sum(calls) DESC, t.tool",
        )?;
        let rows = statement.query_map((project.map(project_name), since as i64), |row| {
            Ok(ToolStatistics { tool: row.get(0)?, calls: unsigned(row, 1)?, failed: unsigned(row, 2)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Releases the space of deleted sessions and empties the write-ahead log.
    ///
    /// # Errors
    ///
    /// Fails if another process uses the index.
    pub fn compact(&mut self) -> Result<(), IndexError> {
        self.connection.execute_batch("INSERT INTO texts (texts) VALUES ('optimize'); VACUUM;")?;
        // If readers hold the log, the next writer empties it.
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}
