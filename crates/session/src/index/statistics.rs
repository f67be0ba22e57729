//! Statistics of the index: sums over sessions, by model, by day and project, and by tool.
//!
//! Reads only. Costs and tokens are those that the ledgers record.

use super::{Index, IndexError, unsigned, usage};
use crate::store::{path_from_bytes, project_name};
use becket_types::{Cost, Usage};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Sums over all sessions, or over those of one project.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    pub sessions: u64,
    /// Number of messages of every role.
    pub messages: u64,
    /// Size of all ledgers in bytes.
    pub bytes: u64,
    pub models: Vec<ModelStatistics>,
}

/// Requests, tokens and cost of one model over all sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelStatistics {
    /// `provider/name`.
    pub model: String,
    pub requests: u64,
    pub usage: Usage,
    /// Sum of the costs that the ledgers record, in US dollars.
    pub cost: Cost,
}

/// Usage of one project on one day.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DayStatistics {
    /// Days since 1970 in UTC.
    pub day: u64,
    /// Working directory of the project.
    #[serde(with = "becket_types::path_form")]
    pub project: PathBuf,
    /// Number of sessions of the project with usage on this day.
    pub sessions: u64,
    pub requests: u64,
    pub usage: Usage,
    /// Sum of the costs that the ledgers record, in US dollars.
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
    /// Returns sums over all sessions, or over those of one project.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn statistics(&self, project: Option<&Path>) -> Result<Statistics, IndexError> {
        let name = project.map(project_name);
        let mut all = self.connection.query_row(
            "SELECT count(*), coalesce(sum(messages), 0), coalesce(sum(bytes), 0)
             FROM sessions WHERE ?1 IS NULL OR project = ?1",
            [&name],
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
        all.models = self.models(project, 0)?;
        Ok(all)
    }

    /// Returns usage by model from day `since` on, the most expensive first.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn models(&self, project: Option<&Path>, since: u64) -> Result<Vec<ModelStatistics>, IndexError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT u.model, sum(requests), sum(input), sum(output), sum(cache_read), sum(cache_write),
                    sum(reasoning), sum(cost)
             FROM usage u JOIN sessions s ON s.id = u.session
             WHERE (?1 IS NULL OR s.project = ?1) AND u.day >= ?2 AND u.requests > 0
             GROUP BY u.model ORDER BY sum(cost) DESC, u.model",
        )?;
        let rows = statement.query_map((project.map(project_name), since as i64), |row| {
            Ok(ModelStatistics {
                model: row.get(0)?,
                requests: unsigned(row, 1)?,
                usage: usage(row, 2)?,
                cost: Cost(row.get(7)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

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
}
