//! Bringing the index up to the ledgers: of each, only what was appended since last time.
//!
//! Each batch of a ledger is one transaction that first asks where reading stopped; so processes that catch up side by side
//! do not read a line into the index twice.

use super::{Index, IndexError};
use crate::export::is_shown;
use crate::ledger::{End, Item, Reader, line};
use crate::store::{SessionSummary, layout, millis, session_dirs};
use becket_types::{Entry, EntryKind, Message, Millis, Part, Role, Seq, SessionId, cut_end};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior};
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes of ledger in one transaction, so that nobody waits long.
const BATCH: u64 = 4 << 20;
/// Of a tool's output, this much can be found.
const TOOL_TEXT: usize = 8 << 10;

/// What a catch-up did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    /// Sessions with something new.
    pub sessions: u64,
    /// Sessions whose folder is gone.
    pub removed: u64,
    /// Sessions that could not be read now.
    pub unreadable: u64,
}

impl Index {
    /// Reads what the ledgers got since last time. A ledger that cannot be read is counted and passed over.
    pub fn catch_up(&mut self) -> Result<CaughtUp, IndexError> {
        let mut done = CaughtUp::default();
        let known = self.known()?;
        let mut seen = BTreeSet::new();
        for dir in session_dirs(&self.root, None) {
            let Some(id) = layout::id_of(&dir) else { continue };
            let name = id.to_string();
            let Ok(metadata) = fs::metadata(layout::ledger_path(&dir)) else {
                done.unreadable += 1;
                continue;
            };
            let now = (metadata.len(), dir.clone());
            seen.insert(name.clone());
            if known.get(&name) == Some(&now) {
                continue;
            }
            let modified = metadata.modified().map(millis).unwrap_or_default();
            match self.catch_up_session(id, &dir, modified) {
                Ok(()) => done.sessions += 1,
                Err(IndexError::Io(_)) => done.unreadable += 1,
                Err(error) => return Err(error),
            }
        }
        let gone: Vec<&String> = known.keys().filter(|id| !seen.contains(*id)).collect();
        if !gone.is_empty() {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for id in &gone {
                forget(&transaction, id)?;
            }
            transaction.commit()?;
            done.removed = gone.len() as u64;
        }
        Ok(done)
    }

    /// Ledger length and folder of every session in the index.
    fn known(&self) -> Result<BTreeMap<String, (u64, PathBuf)>, IndexError> {
        let mut statement = self.connection.prepare_cached("SELECT id, bytes, dir FROM sessions")?;
        let rows = statement.query_map([], |row| {
            let dir = crate::store::path_from_bytes(&row.get::<_, Vec<u8>>(2)?);
            Ok((row.get(0)?, (row.get::<_, i64>(1)? as u64, dir)))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn catch_up_session(&mut self, id: SessionId, dir: &Path, modified: Millis) -> Result<(), IndexError> {
        loop {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let whole = read_batch(&transaction, id, dir, modified)?;
            transaction.commit()?;
            if whole {
                return Ok(());
            }
        }
    }
}

/// Reads one batch into the index. True when the end of the ledger is reached.
fn read_batch(
    transaction: &Transaction<'_>,
    id: SessionId,
    dir: &Path,
    modified: Millis,
) -> Result<bool, IndexError> {
    let mut file = File::open(layout::ledger_path(dir))?;
    let length = file.metadata()?.len();
    let (mut summary, mut end) = match stored(transaction, id)? {
        Some((summary, end)) if end.good <= length => (summary, end),
        found => {
            // Shorter than what was read: another ledger under the same name.
            if found.is_some() {
                forget(transaction, &id.to_string())?;
            }
            (
                fresh(id, dir),
                End { good: 0, total: 0, open: false, head: line::GENESIS.to_owned(), last_seq: Seq(0) },
            )
        }
    };
    file.seek(SeekFrom::Start(end.good))?;
    let start = end.good;
    let mut reader = Reader::resume(BufReader::with_capacity(1 << 16, file), end);
    let whole = loop {
        match reader.next_item()? {
            None => break true,
            Some(Item::Bad(_)) => {}
            Some(Item::Commit(entries)) => {
                for entry in &entries {
                    take(transaction, &mut summary, entry)?;
                }
                if reader.end().good - start > BATCH {
                    break false;
                }
            }
        }
    };
    end = reader.end().clone();
    dir.clone_into(&mut summary.dir);
    summary.updated = modified;
    // Only a ledger that was read to its end counts as known at this length.
    summary.bytes = if whole { end.total } else { end.good };
    save(transaction, &summary, &end)?;
    Ok(whole)
}

fn fresh(id: SessionId, dir: &Path) -> SessionSummary {
    SessionSummary {
        id,
        dir: dir.to_path_buf(),
        cwd: PathBuf::new(),
        title: None,
        prompt: None,
        created: Millis(0),
        updated: Millis(0),
        messages: Some(0),
        bytes: 0,
        forked_from: None,
        extra: Map::new(),
    }
}

fn stored(
    transaction: &Transaction<'_>,
    id: SessionId,
) -> Result<Option<(SessionSummary, End)>, rusqlite::Error> {
    let sql = format!("SELECT {}, good, head, last_seq FROM sessions WHERE id = ?1", super::COLUMNS);
    let row = transaction
        .prepare_cached(&sql)?
        .query_row([id.to_string()], |row| {
            let good = super::unsigned(row, 11)?;
            let end = End {
                good,
                total: good,
                open: false,
                head: row.get(12)?,
                last_seq: Seq(super::unsigned(row, 13)?),
            };
            Ok(super::summary(row)?.map(|summary| (summary, end)))
        })
        .optional()?;
    Ok(row.flatten())
}

fn save(transaction: &Transaction<'_>, summary: &SessionSummary, end: &End) -> Result<(), rusqlite::Error> {
    let project =
        summary.dir.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let forked_from = summary.forked_from.and_then(|from| serde_json::to_string(&from).ok());
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO sessions (id, dir, project, cwd, title, prompt, created, updated, messages, bytes,
                                              forked_from, extra, good, head, last_seq)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(rusqlite::params![
            summary.id.to_string(),
            summary.dir.as_os_str().as_encoded_bytes(),
            project.unwrap_or_default(),
            summary.cwd.as_os_str().as_encoded_bytes(),
            summary.title,
            summary.prompt,
            summary.created.0 as i64,
            summary.updated.0 as i64,
            summary.messages.unwrap_or(0) as i64,
            summary.bytes as i64,
            forked_from,
            serde_json::to_string(&summary.extra).unwrap_or_default(),
            end.good as i64,
            end.head,
            end.last_seq.0 as i64,
        ])?;
    Ok(())
}

fn forget(transaction: &Transaction<'_>, id: &str) -> Result<(), rusqlite::Error> {
    for sql in [
        "DELETE FROM texts WHERE rowid IN (SELECT id FROM entries WHERE session = ?1)",
        "DELETE FROM entries WHERE session = ?1",
        "DELETE FROM usage WHERE session = ?1",
        "DELETE FROM sessions WHERE id = ?1",
    ] {
        transaction.execute(sql, [id])?;
    }
    Ok(())
}

fn take(
    transaction: &Transaction<'_>,
    summary: &mut SessionSummary,
    entry: &Entry,
) -> Result<(), rusqlite::Error> {
    summary.take(entry);
    match &entry.kind {
        EntryKind::Message { message } => {
            summary.messages = summary.messages.map(|n| n + 1);
            if is_shown(message) {
                add_text(transaction, summary.id, entry, role(message), &searchable(&message.parts))?;
            }
        }
        EntryKind::Part { part, .. } => {
            add_text(transaction, summary.id, entry, "assistant", &searchable(std::slice::from_ref(part)))?;
        }
        EntryKind::Usage { model, usage, cost_usd, .. } => {
            transaction
                .prepare_cached(
                    "INSERT INTO usage VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8)
                     ON CONFLICT DO UPDATE SET requests = requests + 1, input = input + excluded.input,
                        output = output + excluded.output, cache_read = cache_read + excluded.cache_read,
                        cache_write = cache_write + excluded.cache_write,
                        reasoning = reasoning + excluded.reasoning, cost = cost + excluded.cost",
                )?
                .execute((
                    summary.id.to_string(),
                    model,
                    usage.input as i64,
                    usage.output as i64,
                    usage.cache_read as i64,
                    usage.cache_write as i64,
                    usage.reasoning as i64,
                    cost_usd,
                ))?;
        }
        _ => {}
    }
    Ok(())
}

fn add_text(
    transaction: &Transaction<'_>,
    id: SessionId,
    entry: &Entry,
    role: &str,
    text: &str,
) -> Result<(), rusqlite::Error> {
    if text.is_empty() {
        return Ok(());
    }
    transaction
        .prepare_cached("INSERT INTO entries (session, seq, time, role) VALUES (?1, ?2, ?3, ?4)")?
        .execute((id.to_string(), entry.seq.0 as i64, entry.time.0 as i64, role))?;
    transaction
        .prepare_cached("INSERT INTO texts (rowid, text) VALUES (?1, ?2)")?
        .execute((transaction.last_insert_rowid(), text))?;
    Ok(())
}

fn role(message: &Message) -> &'static str {
    match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// What people can look for in these parts.
fn searchable(parts: &[Part]) -> String {
    let mut text = String::new();
    let mut add = |piece: &str| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(piece);
    };
    for part in parts {
        match part {
            Part::Text { text, synthetic: false, .. } => add(text),
            Part::ToolCall { name, input, .. } => add(cut_end(&format!("{name} {input}"), TOOL_TEXT)),
            Part::ToolResult { output, .. } => add(cut_end(output, TOOL_TEXT)),
            Part::Image { name: Some(name), .. } | Part::File { name: Some(name), .. } => add(name),
            Part::Text { .. }
            | Part::Image { .. }
            | Part::File { .. }
            | Part::Reasoning { .. }
            | Part::Unknown(_) => {}
        }
    }
    text
}
