//! Search: words in messages and calls, and sessions by project, time, model, tag and file.
//!
//! The index knows which words occur in which stretch of which ledger. Stretches with all words of a query
//! are read again; their entries are matched, ranked and excerpted in memory. So the index keeps no copy of
//! any text.

use super::text::{TITLE, source_of, text_of, tokenizable};
use super::{COLUMNS, Index, IndexError, summary, unsigned};
use crate::ledger::{Item, Reader};
use crate::secrets;
use crate::store::{SessionSummary, layout, path_from_bytes, project_name};
use becket_types::{Entry, Millis, Seq, SessionId, cut_end};
use rusqlite::{Connection, OptionalExtension, Params, ToSql};
use serde::Serialize;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum number of stretches that a search reads, newest first.
const STRETCHES: usize = 64;

/// One match of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    pub session: SessionId,
    #[serde(with = "becket_types::path_form")]
    pub dir: PathBuf,
    /// Title or first words of the session.
    pub label: String,
    /// The entry that contains the words.
    pub seq: Seq,
    /// Time of the entry, in milliseconds since 1970.
    pub time: Millis,
    /// `user`, `assistant` or `tool`; `title` if only a title of the session contains the words.
    pub role: String,
    /// The words around the match.
    pub snippet: String,
}

/// A query. An empty or `None` field does not restrict the result.
#[derive(Clone, Debug, Default)]
pub struct Query<'a> {
    /// Words that must all occur in one entry, in any order. The last one may be the beginning of a word.
    pub words: &'a str,
    /// Working directory of a project: only its sessions.
    pub project: Option<&'a Path>,
    /// Lower limit of the time; for sessions, of the last write.
    pub since: Option<Millis>,
    /// Upper limit of the time, exclusive; for sessions, of the creation.
    pub until: Option<Millis>,
    /// Part of the name of a model that the session must have used.
    pub model: Option<&'a str>,
    /// Part of the path of a file that the session must have read or changed.
    pub file: Option<&'a str>,
    /// A tag that the session must have.
    pub tag: Option<&'a str>,
    /// True to include archived sessions.
    pub archived: bool,
    /// Maximum number of results.
    pub limit: usize,
}

/// SQL conditions on the session `s`, with parameters from 2 on.
const OF_SESSION: &str = "(?2 IS NULL OR s.project = ?2)
    AND (?3 IS NULL OR EXISTS (SELECT 1 FROM usage u WHERE u.session = s.id AND instr(lower(u.model), lower(?3)) > 0))
    AND (?4 IS NULL OR EXISTS (SELECT 1 FROM files f WHERE f.session = s.id AND instr(f.path, ?4) > 0))
    AND (?5 IS NULL OR EXISTS (SELECT 1 FROM json_each(s.tags) t WHERE t.value = ?5))
    AND (?6 OR NOT s.archived)";

impl Query<'_> {
    /// Returns the parameters of a statement that contains [`OF_SESSION`]: `first`, the values for its conditions, then `since`, `until`
    /// and `limit`.
    fn parameters<T: ToSql>(&self, first: T) -> impl Params {
        (
            first,
            self.project.map(project_name),
            self.model,
            self.file,
            self.tag,
            self.archived,
            self.since.map(|t| t.0 as i64),
            self.until.map(|t| t.0 as i64),
            self.limit as i64,
        )
    }
}

impl Index {
    /// Returns texts that contain every word of `query` (the last one as a prefix), best first. Quotes,
    /// operators and brackets have no special meaning.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn search(&self, query: &str, project: Option<&Path>, limit: usize) -> Result<Vec<Hit>, IndexError> {
        self.find(&Query { words: query, project, limit, archived: true, ..Query::default() })
    }

    /// Like [`Index::search`], with further restrictions.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn find(&self, query: &Query<'_>) -> Result<Vec<Hit>, IndexError> {
        let phrases = phrases(&self.connection, &tokenizable(query.words))?;
        if phrases.is_empty() {
            return Ok(Vec::new());
        }
        let words = phrases.concat();
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT s.id, s.dir, coalesce(s.title, s.prompt, ''), e.start, e.behind
             FROM texts JOIN stretches e ON e.id = texts.rowid JOIN sessions s ON s.id = e.session
             WHERE texts MATCH ?1 AND {OF_SESSION}
               AND (?7 IS NULL OR e.latest >= ?7) AND (?8 IS NULL OR e.earliest < ?8)
             ORDER BY e.latest DESC, e.id DESC LIMIT ?9"
        ))?;
        let stretches = Query { limit: STRETCHES, ..query.clone() };
        let rows = statement.query_map(stretches.parameters(match_all(&words)), |row| {
            let Ok(session) = row.get::<_, String>(0)?.parse() else { return Ok(None) };
            let dir = path_from_bytes(&row.get::<_, Vec<u8>>(1)?);
            Ok(Some((session, dir, row.get::<_, String>(2)?, unsigned(row, 3)?..unsigned(row, 4)?)))
        })?;
        let mut found = CandidateTexts::new(&self.connection)?;
        for row in rows {
            let Some((session, dir, label, bytes)) = row? else { continue };
            // A ledger that cannot be read now gives no matches.
            for entry in entries_in(&dir, bytes).unwrap_or_default() {
                let in_time = query.since.is_none_or(|since| entry.time >= since)
                    && query.until.is_none_or(|until| entry.time < until);
                let Some((role, text)) = text_of(&entry).filter(|_| in_time) else { continue };
                if may_hold(&text, &words) {
                    let hit = Hit {
                        session,
                        dir: dir.clone(),
                        label: label.clone(),
                        seq: entry.seq,
                        time: entry.time,
                        role: role.to_owned(),
                        snippet: String::new(),
                    };
                    found.add(hit, &text)?;
                }
            }
        }
        found.best(&phrases, query.limit)
    }

    /// Returns sessions that satisfy the restrictions, regardless of words, most recently written first.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn sessions(&self, query: &Query<'_>) -> Result<Vec<SessionSummary>, IndexError> {
        let columns: Vec<String> = COLUMNS.split(", ").map(|column| format!("s.{column}")).collect();
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {} FROM sessions s WHERE ?1 AND {OF_SESSION}
               AND (?7 IS NULL OR s.updated >= ?7) AND (?8 IS NULL OR s.created < ?8)
             ORDER BY s.updated DESC, s.id DESC LIMIT ?9",
            columns.join(", ")
        ))?;
        let rows = statement.query_map(query.parameters(true), summary)?;
        Ok(rows.filter_map(Result::transpose).collect::<Result<_, _>>()?)
    }
}

/// Returns the entries in a part of a ledger.
fn entries_in(dir: &Path, bytes: Range<u64>) -> io::Result<Vec<Entry>> {
    let mut file = File::open(layout::ledger_path(dir))?;
    file.seek(SeekFrom::Start(bytes.start))?;
    let mut reader = Reader::new(BufReader::new(file.take(bytes.end.saturating_sub(bytes.start))));
    let mut entries = Vec::new();
    while let Some(item) = reader.next_item()? {
        // A reader that starts in the middle reports a broken chain for the first line and returns its entries all the same, so reports are
        // ignored.
        if let Item::Commit(commit) = item {
            entries.extend(commit);
        }
    }
    Ok(entries)
}

/// Candidate texts in a table in memory, so that the index's own tokenizer matches, ranks and excerpts them.
struct CandidateTexts<'a> {
    connection: &'a Connection,
    hits: Vec<Hit>,
}

impl<'a> CandidateTexts<'a> {
    fn new(connection: &'a Connection) -> Result<Self, IndexError> {
        connection.execute_batch(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.found USING fts5 (
                 text, written UNINDEXED, time UNINDEXED, tokenize = 'unicode61 remove_diacritics 2');
             DELETE FROM temp.found;
             CREATE VIRTUAL TABLE IF NOT EXISTS temp.pieces USING fts5 (
                 text, tokenize = 'unicode61 remove_diacritics 2');
             DELETE FROM temp.pieces;",
        )?;
        Ok(Self { connection, hits: Vec::new() })
    }

    fn add(&mut self, hit: Hit, text: &str) -> Result<(), IndexError> {
        self.connection
            .prepare_cached("INSERT INTO temp.found (rowid, text, written, time) VALUES (?1, ?2, ?3, ?4)")?
            .execute((self.hits.len() as i64, tokenizable(text), text, hit.time.0 as i64))?;
        self.hits.push(hit);
        Ok(())
    }

    fn best(self, phrases: &[Vec<String>], limit: usize) -> Result<Vec<Hit>, IndexError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT rowid, written FROM temp.found WHERE found MATCH ?1 ORDER BY rank, time DESC LIMIT ?2",
        )?;
        let rows = statement.query_map((joined(phrases, " "), limit as i64), |row| {
            Ok((unsigned(row, 0)?, row.get::<_, String>(1)?))
        })?;
        let mut best = Vec::new();
        for row in rows {
            let (id, text) = row?;
            let Some(hit) = self.hits.get(id as usize).cloned() else { continue };
            let folded = tokenizable(&text);
            let excerpt = as_written(&text, &folded, self.excerpt(&folded, phrases)?);
            let snippet = masked(&text, &excerpt);
            best.push(Hit { snippet, ..hit });
        }
        // A session's title is listed only if none of its messages matches, because a title mostly repeats the first message.
        let said: HashSet<SessionId> =
            best.iter().filter(|hit| hit.role != TITLE).map(|hit| hit.session).collect();
        let mut titled = HashSet::new();
        best.retain(|hit| hit.role != TITLE || !said.contains(&hit.session) && titled.insert(hit.session));
        self.connection.execute_batch("DELETE FROM temp.found; DELETE FROM temp.pieces;")?;
        Ok(best)
    }

    /// Returns the words around the best match in a text. FTS5's `snippet` compares every match with every other, so it gets short pieces
    /// of the text, and only the best of them is excerpted.
    fn excerpt(&self, text: &str, phrases: &[Vec<String>]) -> Result<String, IndexError> {
        self.connection.execute_batch("DELETE FROM temp.pieces")?;
        let pieces = pieces(text);
        let transaction = self.connection.unchecked_transaction()?;
        let mut insert =
            self.connection.prepare_cached("INSERT INTO temp.pieces (rowid, text) VALUES (?1, ?2)")?;
        for (id, piece) in pieces.iter().enumerate() {
            insert.execute((id as i64, &text[piece.clone()]))?;
        }
        transaction.commit()?;
        let pattern = joined(phrases, " OR ");
        let best = self
            .connection
            .prepare_cached(
                "SELECT rowid FROM temp.pieces WHERE pieces MATCH ?1 ORDER BY rank, rowid LIMIT 1",
            )?
            .query_row((&pattern,), |row| unsigned(row, 0))
            .optional()?;
        // A phrase that is longer than the overlap may be in no single piece. Then the beginning of the text is returned.
        let id = best.unwrap_or_default();
        let snippet = self
            .connection
            .prepare_cached(
                "SELECT snippet(pieces, 0, '', '', '…', 16) FROM temp.pieces WHERE pieces MATCH ?1 AND rowid = ?2",
            )?
            .query_row((&pattern, id as i64), |row| row.get::<_, String>(0))
            .optional()?
            .unwrap_or_else(|| format!("{}…", cut_end(text, 200)));
        let piece = pieces.get(id as usize).cloned().unwrap_or_default();
        let is_cut_before = piece.start > 0 && !snippet.starts_with('…');
        let is_cut_after = piece.end < text.len() && !snippet.ends_with('…');
        Ok(format!(
            "{}{snippet}{}",
            if is_cut_before { "…" } else { "" },
            if is_cut_after { "…" } else { "" }
        ))
    }
}

/// Size of a piece in bytes, and how much of it the next piece repeats.
const PIECE: usize = 4 << 10;
const OVERLAP: usize = 512;

/// Divides a text into overlapping pieces that begin and end between words where possible.
fn pieces(text: &str) -> Vec<Range<usize>> {
    let (mut pieces, mut start) = (Vec::new(), 0);
    loop {
        let end = if text.len() - start <= PIECE { text.len() } else { word_start(text, start + PIECE) };
        pieces.push(start..end);
        if end == text.len() {
            return pieces;
        }
        start = word_start(text, end - OVERLAP);
    }
}

/// Returns the beginning of the last word in the 256 bytes before `at`; without one, the boundary of a character.
fn word_start(text: &str, at: usize) -> usize {
    let (from, at) = (text.ceil_char_boundary(at.saturating_sub(256)), text.floor_char_boundary(at));
    let mut before = true;
    let starts = text[from..at].char_indices().filter(|(_, c)| {
        let is_start = c.is_alphanumeric() && !before;
        before = c.is_alphanumeric();
        is_start
    });
    starts.last().map_or(at, |(offset, _)| from + offset)
}

/// Masks the secrets in an excerpt of a text. The excerpt may begin or end inside a secret, so secrets are looked for in the whole text.
fn masked(text: &str, snippet: &str) -> String {
    match excerpted(text, snippet) {
        Some((before, place, after)) => format!("{before}{}{after}", secrets::mask_part(text, place)),
        None => secrets::mask(snippet).0,
    }
}

/// Returns an excerpt of the folded text in the letters of the text.
fn as_written(text: &str, folded: &str, snippet: String) -> String {
    match excerpted(folded, &snippet) {
        Some((before, place, after)) => format!("{before}{}{after}", source_of(text, place)),
        None => snippet,
    }
}

/// Divides an excerpt into the sign that something was cut before it, its place in the text, and the sign after it.
fn excerpted<'a>(text: &str, snippet: &'a str) -> Option<(&'a str, Range<usize>, &'a str)> {
    let start = if text.starts_with(snippet) { snippet } else { snippet.trim_start_matches('…') };
    let core = if text.contains(start) { start } else { start.trim_end_matches('…') };
    let at = text.find(core)?;
    Some((&snippet[..snippet.len() - start.len()], at..at + core.len(), &start[core.len()..]))
}

/// Maximum number of words of a query that count. Further words are ignored.
const WORDS: usize = 64;

/// Splits a query into words at white space, and each into the tokens by which the index knows it. The
/// tokenizer itself does this: it folds letters, and for it marks of many scripts (vowel signs of Bengali,
/// points of Hebrew) are separators. A word without a token is left out.
fn phrases(connection: &Connection, query: &str) -> Result<Vec<Vec<String>>, IndexError> {
    connection.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked USING fts5 (
             text, tokenize = 'unicode61 remove_diacritics 2');
         CREATE VIRTUAL TABLE IF NOT EXISTS temp.asked_tokens USING fts5vocab('temp', 'asked', 'instance');
         DELETE FROM temp.asked;",
    )?;
    let mut insert = connection.prepare_cached("INSERT INTO temp.asked (rowid, text) VALUES (?1, ?2)")?;
    for (id, word) in query.split_whitespace().enumerate().take(WORDS) {
        insert.execute((id as i64, word))?;
    }
    let mut statement =
        connection.prepare_cached("SELECT doc, term FROM temp.asked_tokens ORDER BY doc, offset LIMIT ?1")?;
    let rows =
        statement.query_map((WORDS as i64,), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let tokens = rows.collect::<Result<Vec<_>, _>>()?;
    connection.execute_batch("DELETE FROM temp.asked")?;
    let words = tokens.chunk_by(|(word, _), (next, _)| word == next);
    Ok(words.map(|word| word.iter().map(|(_, token)| token.clone()).collect()).collect())
}

/// Returns an FTS5 expression for all words, the last one as a prefix. Each is quoted, so that none is an operator. Its words may be in any
/// order, because the index does not store positions.
fn match_all(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    format!("{}*", quoted.join(" "))
}

/// Returns an FTS5 expression for phrases, the last one as a prefix.
fn joined(phrases: &[Vec<String>], operator: &str) -> String {
    let quoted: Vec<String> = phrases.iter().map(|words| format!("\"{}\"", words.join(" "))).collect();
    format!("{}*", quoted.join(operator))
}

/// True unless the text certainly lacks one of the words. A quick check before the text is given to FTS5.
fn may_hold(text: &str, words: &[String]) -> bool {
    if !text.is_ascii() {
        return true;
    }
    let text = text.to_ascii_lowercase();
    words.iter().all(|word| !word.is_ascii() || text.contains(word.as_str()))
}
