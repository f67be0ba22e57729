//! A part of one ledger on its way into the index. It is read and summed up first, and written afterwards. So
//! nothing is written from an unreadable ledger, and the sums of many entries need only one statement.

use super::text::{text_of, tokenizable};
use crate::ledger::{End, Item, Reader, has_line_ending, line};
use crate::store::{SessionSummary, layout};
use becket_types::{Entry, EntryKind, Message, Millis, Part, Seq, SessionId, Usage};
use rusqlite::{OptionalExtension, Transaction};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::Path;

/// Number of ledger bytes whose words are stored as one row of the full-text index. A search finds rows and reads these bytes again.
const STRETCH: u64 = 256 << 10;

/// Days since 1970.
type Day = i64;

#[derive(Default)]
struct Spent {
    requests: i64,
    usage: Usage,
    cost: f64,
}

#[derive(Default)]
struct Calls {
    calls: i64,
    failed: i64,
}

/// The data that a part of a ledger adds to the index.
pub(super) struct Batch {
    summary: SessionSummary,
    end: End,
    /// True if the index has another ledger under this session, which must be replaced.
    starts_over: bool,
    /// True if the end of the ledger was reached.
    pub(super) whole: bool,
    /// The words of the part, divided into stretches, each with the ledger offset of its end.
    stretches: Vec<(Stretch, u64)>,
    spent: BTreeMap<(String, Day), Spent>,
    calls: BTreeMap<(String, Day), Calls>,
    /// Files that were read or changed; true if changed.
    files: BTreeMap<String, bool>,
}

impl Batch {
    /// Reads the part of a ledger that follows the part in the index, up to the first commit that exceeds `room` bytes. Also returns the
    /// number of bytes read.
    pub(super) fn read(
        stored: Option<(SessionSummary, End)>,
        id: SessionId,
        dir: &Path,
        modified: Millis,
        room: u64,
    ) -> io::Result<(Self, u64)> {
        let mut file = File::open(layout::ledger_path(dir))?;
        let length = file.metadata()?.len();
        let known = stored.is_some();
        let stored = stored.filter(|(_, end)| end.good <= length && is_unchanged(dir, end));
        let starts_over = known && stored.is_none();
        let start =
            || End { good: 0, total: 0, open: false, head: line::GENESIS.to_owned(), last_seq: Seq(0) };
        let (summary, end) = stored.unwrap_or_else(|| (fresh(id, dir), start()));
        let start = end.good;
        file.seek(SeekFrom::Start(start))?;
        let mut reader = Reader::resume(BufReader::with_capacity(1 << 16, file), end.clone());
        let mut batch = Self {
            summary,
            end,
            starts_over,
            whole: false,
            stretches: Vec::new(),
            spent: BTreeMap::new(),
            calls: BTreeMap::new(),
            files: BTreeMap::new(),
        };
        let mut stretch = Stretch { start, ..Stretch::default() };
        batch.whole = loop {
            match reader.next_item()? {
                None => break true,
                Some(Item::Bad(_)) => {}
                Some(Item::Commit(entries)) => {
                    for entry in &entries {
                        batch.take(entry);
                        stretch.take(entry);
                    }
                    let behind = reader.end().good;
                    if behind - stretch.start >= STRETCH {
                        let full =
                            std::mem::replace(&mut stretch, Stretch { start: behind, ..Stretch::default() });
                        batch.stretches.push((full, behind));
                    }
                    if behind - start > room {
                        break false;
                    }
                }
            }
        };
        batch.end = reader.end().clone();
        batch.stretches.push((stretch, batch.end.good));
        dir.clone_into(&mut batch.summary.dir);
        batch.summary.ledger.updated = modified;
        // Until the ledger was read to its end, the recorded length is less than that of the file, so the next update continues.
        batch.summary.ledger.bytes = if batch.whole { batch.end.total } else { batch.end.good };
        let read = batch.end.total.saturating_sub(start);
        Ok((batch, read))
    }

    fn take(&mut self, entry: &Entry) {
        self.summary.take(entry);
        // A fork begins with entries copied from its source. Their usage is counted in the source only.
        let own = self.summary.forked_from.is_none_or(|(_, upto)| entry.seq > upto);
        match &entry.kind {
            EntryKind::Message { message } => {
                self.summary.ledger.messages = self.summary.ledger.messages.map(|n| n + 1);
                if own {
                    self.take_calls(message, day(entry.time));
                }
            }
            EntryKind::Usage { model, usage, cost_usd, .. } => {
                // The model of a copied entry is recorded too, so that a search by model finds the fork; its usage is not added.
                let spent = self.spent.entry((model.clone(), day(entry.time))).or_default();
                if !own {
                    return;
                }
                spent.requests += 1;
                spent.usage += *usage;
                spent.cost += cost_usd;
            }
            EntryKind::FileChanges(changes) => {
                for file in &changes.files {
                    self.files.insert(file.path.0.to_string_lossy().into_owned(), true);
                }
            }
            EntryKind::ToolJournal { result, .. } => {
                let reads = result.get("reads").and_then(Value::as_object);
                for path in reads.into_iter().flat_map(Map::keys) {
                    self.files.entry(path.clone()).or_insert(false);
                }
            }
            _ => {}
        }
    }

    /// Counts the results of calls, by tool and day.
    fn take_calls(&mut self, message: &Message, day: Day) {
        for part in &message.parts {
            let Part::ToolResult { name, is_error, .. } = part else { continue };
            let calls = self.calls.entry((name.clone(), day)).or_default();
            calls.calls += 1;
            calls.failed += i64::from(*is_error);
        }
    }

    pub(super) fn save(&self, transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
        let id = self.summary.id.to_string();
        if self.starts_over {
            forget(transaction, &id)?;
        }
        for (stretch, behind) in &self.stretches {
            stretch.save(transaction, &id, *behind)?;
        }
        for ((model, day), spent) in &self.spent {
            let usage = &spent.usage;
            transaction
                .prepare_cached(
                    "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                     ON CONFLICT DO UPDATE SET requests = requests + excluded.requests,
                        input = input + excluded.input, output = output + excluded.output,
                        cache_read = cache_read + excluded.cache_read,
                        cache_write = cache_write + excluded.cache_write,
                        reasoning = reasoning + excluded.reasoning, cost = cost + excluded.cost",
                )?
                .execute((
                    &id,
                    model,
                    day,
                    spent.requests,
                    usage.input as i64,
                    usage.output as i64,
                    usage.cache_read as i64,
                    usage.cache_write as i64,
                    usage.reasoning as i64,
                    spent.cost,
                ))?;
        }
        for ((tool, day), calls) in &self.calls {
            transaction
                .prepare_cached(
                    "INSERT INTO tools VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, failed = failed + excluded.failed",
                )?
                .execute((&id, tool, day, calls.calls, calls.failed))?;
        }
        for (path, changed) in &self.files {
            transaction
                .prepare_cached(
                    "INSERT INTO files VALUES (?1, ?2, ?3)
                     ON CONFLICT DO UPDATE SET changed = max(changed, excluded.changed)",
                )?
                .execute((&id, path, changed))?;
        }
        save(transaction, &self.summary, &self.end)
    }
}

/// True if the ledger still begins with the part that is in the index: the hash of its last line covers everything before it. If a power
/// loss removed something from the middle and kept complete lines after it, only a full read would notice. Such content stays counted until
/// the index is rebuilt, but is not found by a search.
fn is_unchanged(dir: &Path, end: &End) -> bool {
    end.good == 0 || has_line_ending(dir, end.good, &end.head)
}

fn fresh(id: SessionId, dir: &Path) -> SessionSummary {
    let mut summary = SessionSummary::empty(id, dir);
    summary.ledger.messages = Some(0);
    summary
}

/// Returns the index's record of a session, and the position at which reading stopped.
pub(super) fn stored(
    transaction: &Transaction<'_>,
    id: SessionId,
) -> Result<Option<(SessionSummary, End)>, rusqlite::Error> {
    let sql = format!("SELECT {}, good, head, last_seq FROM sessions WHERE id = ?1", super::COLUMNS);
    let row = transaction
        .prepare_cached(&sql)?
        .query_row([id.to_string()], |row| {
            let good = super::unsigned(row, 13)?;
            let end = End {
                good,
                total: good,
                open: false,
                head: row.get(14)?,
                last_seq: Seq(super::unsigned(row, 15)?),
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
                                              forked_from, extra, tags, archived, good, head, last_seq)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        )?
        .execute(rusqlite::params![
            summary.id.to_string(),
            summary.dir.as_os_str().as_encoded_bytes(),
            project.unwrap_or_default(),
            summary.cwd.as_os_str().as_encoded_bytes(),
            summary.title,
            summary.prompt,
            summary.ledger.created.0 as i64,
            summary.ledger.updated.0 as i64,
            summary.ledger.messages.unwrap_or(0) as i64,
            summary.ledger.bytes as i64,
            forked_from,
            serde_json::to_string(&summary.extra).unwrap_or_default(),
            serde_json::to_string(&summary.tags).unwrap_or_default(),
            summary.archived,
            end.good as i64,
            end.head,
            end.last_seq.0 as i64,
        ])?;
    Ok(())
}

/// Removes a session from the index.
pub(super) fn forget(transaction: &Transaction<'_>, id: &str) -> Result<(), rusqlite::Error> {
    for sql in [
        "DELETE FROM texts WHERE rowid IN (SELECT id FROM stretches WHERE session = ?1)",
        "DELETE FROM stretches WHERE session = ?1",
        "DELETE FROM usage WHERE session = ?1",
        "DELETE FROM tools WHERE session = ?1",
        "DELETE FROM files WHERE session = ?1",
        "DELETE FROM sessions WHERE id = ?1",
    ] {
        transaction.execute(sql, [id])?;
    }
    Ok(())
}

fn day(time: Millis) -> Day {
    (time.0 / 86_400_000) as i64
}

/// The words of a part of a ledger, and the times of its entries.
#[derive(Default)]
struct Stretch {
    start: u64,
    text: String,
    times: Option<(Millis, Millis)>,
}

impl Stretch {
    fn take(&mut self, entry: &Entry) {
        let Some((_, text)) = text_of(entry) else { return };
        self.text.push('\n');
        self.text.push_str(&text);
        let (earliest, latest) = self.times.unwrap_or((entry.time, entry.time));
        self.times = Some((earliest.min(entry.time), latest.max(entry.time)));
    }

    fn save(&self, transaction: &Transaction<'_>, id: &str, behind: u64) -> Result<(), rusqlite::Error> {
        let Some((earliest, latest)) = self.times else { return Ok(()) };
        transaction
            .prepare_cached(
                "INSERT INTO stretches (session, start, behind, earliest, latest) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((
                id,
                self.start as i64,
                behind as i64,
                earliest.0 as i64,
                latest.0 as i64,
            ))?;
        transaction
            .prepare_cached("INSERT INTO texts (rowid, text) VALUES (?1, ?2)")?
            .execute((transaction.last_insert_rowid(), tokenizable(&self.text)))?;
        Ok(())
    }
}
