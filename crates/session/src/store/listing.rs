//! Listing and finding sessions by their folders: list, find by id, prefix or title, and the most recent of a
//! project.
//!
//! Works for sessions that are open elsewhere and for damaged ones. Of a ledger longer than two [`PART`]s,
//! only the first and last part are read. So a list may not know a title that was set in the middle of a long
//! session (the index knows it), but [`find`] does.

use super::{Candidate, StoreError, layout, millis, path_from_bytes};
use crate::{ledger::line, secrets, unhex};
use becket_types::{Entry, EntryKind, Message, Millis, Seq, SessionId, SubagentOf, cut_end, visibility};
use serde::Serialize;
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Number of bytes at the start and at the end of a ledger from which a summary is made.
const PART: u64 = 64 << 10;
/// Maximum size in bytes of the first line, which contains the system prompt and rules and may exceed a part.
const FIRST_LINE: u64 = 4 << 20;
/// Minimum number of characters of an id prefix. Shorter ones would often match several sessions.
const MIN_PREFIX: usize = 4;
const PROMPT_CHARS: usize = 80;
/// Maximum number of bytes of a message that are examined for secrets. This is more than the first words need.
const MASKED_BYTES: usize = 16 << 10;

/// One session in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionSummary {
    pub id: SessionId,
    /// The folder of the session.
    #[serde(with = "becket_types::path_form")]
    pub dir: PathBuf,
    /// Working directory in which the session was started; empty if its first line is damaged.
    #[serde(with = "becket_types::path_form")]
    pub cwd: PathBuf,
    pub title: Option<String>,
    /// The first words of the user's first message, on one line, with secrets masked.
    pub prompt: Option<String>,
    #[serde(flatten)]
    pub ledger: LedgerFigures,
    /// The session that this one was copied from, and the last entry that both share.
    pub forked_from: Option<(SessionId, Seq)>,
    /// Other keys of the session's first entry.
    pub extra: Map<String, Value>,
    /// The user's tags.
    pub tags: Vec<String>,
    /// True if the session is archived and therefore hidden from the usual lists.
    pub archived: bool,
    /// True if the model failed each time it was asked and never answered. There is nothing to undo, export or continue.
    pub unanswered: bool,
}

/// Times and sizes of a session's ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerFigures {
    /// Time of the first entry, in milliseconds since 1970.
    pub created: Millis,
    /// Time of the last write to the ledger.
    pub updated: Millis,
    /// Number of messages of every role; `None` if the ledger is too long to count without the index.
    pub messages: Option<u64>,
    /// Size of the ledger in bytes.
    pub bytes: u64,
}

impl SessionSummary {
    /// Name of the state entry that holds the tags, as an array of texts.
    pub const TAGS: &'static str = "tags";
    /// Name of the state entry that holds `true` for an archived session.
    pub(crate) const ARCHIVED: &'static str = "archived";

    /// A summary before anything was read.
    pub(crate) fn empty(id: SessionId, dir: &Path) -> Self {
        Self {
            id,
            dir: dir.to_path_buf(),
            cwd: PathBuf::new(),
            title: None,
            prompt: None,
            ledger: LedgerFigures::default(),
            forked_from: None,
            extra: Map::new(),
            tags: Vec::new(),
            archived: false,
            unanswered: false,
        }
    }

    /// Returns the session and call it works for, if it is a subagent's session.
    pub fn subagent_of(&self) -> Option<SubagentOf> {
        SubagentOf::from_extra(&self.extra)
    }

    /// Returns the id that an imported session has in the program from which it comes.
    pub fn imported_id(&self) -> Option<&str> {
        self.extra.get("imported")?["id"].as_str()
    }

    /// Returns the name to show in a list.
    pub fn label(&self) -> &str {
        self.title.as_deref().or(self.prompt.as_deref()).unwrap_or("(no message yet)")
    }
}

/// Returns the folders of all sessions below `root`, or of one project, in no particular order. None if `root` does not
/// exist.
///
/// # Errors
///
/// Returns [`StoreError::Io`] if a folder exists and cannot be read: its sessions must not look deleted.
pub fn session_dirs(root: &Path, project: Option<&Path>) -> Result<Vec<PathBuf>, StoreError> {
    let projects = match project {
        Some(cwd) => vec![layout::project_dir(root, cwd)],
        None => directories(root)?,
    };
    let mut found = Vec::new();
    for project in &projects {
        found.extend(session_dirs_in(project)?);
    }
    Ok(found)
}

/// Returns the folders of the sessions in a project's folder, also of those that cannot be read.
///
/// # Errors
///
/// Returns the errors of [`session_dirs`].
pub fn session_dirs_in(project: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut dirs = directories(project)?;
    dirs.retain(|dir| layout::id_of(dir).is_some() && has_ledger(dir));
    Ok(dirs)
}

/// Refuses the id of a session that is stored below `root` in another project's folder than `here`.
///
/// # Errors
///
/// Returns [`StoreError::Exists`] if there is one.
pub(crate) fn refuse_elsewhere(root: &Path, here: &Path, id: SessionId) -> Result<(), StoreError> {
    // If `root` cannot be read, nothing can be stored there either, which the creation of the session reports.
    let projects = directories(root).unwrap_or_default();
    let is_taken = |project: &PathBuf| *project != here && has_ledger(&project.join(id.to_string()));
    if projects.iter().any(is_taken) { Err(StoreError::Exists { id }) } else { Ok(()) }
}

/// True if the folder has a ledger, or if the system cannot tell: a session must not look deleted then.
fn has_ledger(dir: &Path) -> bool {
    match fs::metadata(layout::ledger_path(dir)) {
        Ok(metadata) => metadata.is_file(),
        Err(error) => !is_missing(&error),
    }
}

/// True if the path does not exist. Every other error means that something may be there.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn directories(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let listing = match fs::read_dir(dir) {
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        listing => listing.map_err(StoreError::io("read", dir))?,
    };
    let mut found = Vec::new();
    for entry in listing {
        let path = entry.map_err(StoreError::io("read", dir))?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns all sessions, or those of one project, most recently written first. Ledgers that cannot be read are left out:
/// [`unreadable`] returns those.
///
/// # Errors
///
/// Returns the errors of [`session_dirs`].
pub fn list(root: &Path, project: Option<&Path>) -> Result<Vec<SessionSummary>, StoreError> {
    let dirs = session_dirs(root, project)?;
    let mut sessions: Vec<_> = dirs.iter().filter_map(|dir| summary(dir)).collect();
    sessions.sort_by_key(|s| Reverse((s.ledger.updated, s.id)));
    Ok(sessions)
}

/// Returns an error for each session, of all or of one project, whose ledger exists and cannot be opened.
///
/// # Errors
///
/// Returns the errors of [`session_dirs`].
pub fn unreadable(root: &Path, project: Option<&Path>) -> Result<Vec<StoreError>, StoreError> {
    let mut errors = Vec::new();
    for dir in session_dirs(root, project)? {
        errors.extend(open_ledger(&dir).err());
    }
    Ok(errors)
}

/// Returns the sessions of subagents that worked for this session, oldest first.
///
/// # Errors
///
/// Returns the errors of [`session_dirs`].
pub fn subagents(root: &Path, of: &SessionSummary) -> Result<Vec<SessionSummary>, StoreError> {
    let mut found = list(root, Some(&of.cwd))?;
    found.retain(|s| s.subagent_of().is_some_and(|above| above.session == of.id));
    found.sort_by_key(|s| (s.ledger.created, s.id));
    Ok(found)
}

/// Returns the session of the project that was written last, among those that `accept` passes.
///
/// # Errors
///
/// Returns the errors of [`session_dirs`], and [`StoreError::Io`] if the newest session cannot be read: an older one must
/// not be taken for it.
pub fn most_recent(
    root: &Path,
    project: &Path,
    accept: impl Fn(&SessionSummary) -> bool,
) -> Result<Option<SessionSummary>, StoreError> {
    let mut dirs: Vec<(Millis, PathBuf)> = session_dirs(root, Some(project))?
        .into_iter()
        .map(|dir| (fs::metadata(layout::ledger_path(&dir)).and_then(|m| m.modified()).map(millis), dir))
        .map(|(modified, dir)| (modified.unwrap_or_default(), dir))
        .collect();
    dirs.sort_by(|a, b| b.cmp(a));
    for (_, dir) in &dirs {
        if let Some(summary) = read_summary(dir)?.filter(&accept) {
            return Ok(Some(summary));
        }
    }
    Ok(None)
}

/// Finds the session that `query` means: its id, the start of its id (at least 4 characters), or its exact
/// title; for a session without a title, the first words that lists show; for an imported one, its id in the other program. If several match, those of `project` take precedence.
///
/// # Errors
///
/// Returns [`StoreError::NotFound`], [`StoreError::Trashed`], [`StoreError::Ambiguous`] with the candidates, or [`StoreError::Io`] if the session, or
/// one that may be it, cannot be read.
pub fn find(root: &Path, query: &str, project: Option<&Path>) -> Result<SessionSummary, StoreError> {
    let query = query.trim();
    let dirs = session_dirs(root, None)?;
    let id = query.to_ascii_lowercase();
    let is_prefix = id.len() >= MIN_PREFIX && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let named = |dir: &&PathBuf| {
        let name = dir.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        name == id || (is_prefix && name.starts_with(&id))
    };
    let mut found = Vec::new();
    for dir in dirs.iter().filter(named) {
        found.extend(read_summary(dir)?);
    }
    if let Some(exact) = found.iter().position(|s| s.id.to_string() == id) {
        return Ok(found.swap_remove(exact));
    }
    if found.is_empty() && !query.is_empty() {
        found = dirs.iter().filter_map(|dir| with_title(dir, query)).collect();
        // If a query matches titles and first words, only the sessions with a title count.
        if found.iter().any(|s| s.title.is_some()) {
            found.retain(|s| s.title.is_some());
        }
    }
    if found.is_empty() && !query.is_empty() {
        let imported = dirs.iter().filter_map(|dir| summary(dir));
        found =
            imported.filter(|s| s.imported_id().is_some_and(|id| id.eq_ignore_ascii_case(query))).collect();
    }
    if found.len() > 1
        && let Some(project) = project
    {
        let here = layout::project_dir(root, project);
        if found.iter().any(|s| s.dir.starts_with(&here)) {
            found.retain(|s| s.dir.starts_with(&here));
        }
    }
    if found.len() > 1 {
        found.sort_by_key(|s| Reverse((s.ledger.updated, s.id)));
        let candidate = |s: &SessionSummary| Candidate {
            id: s.id,
            label: s.label().to_owned(),
            updated: s.ledger.updated,
            cwd: s.cwd.clone(),
        };
        let candidates = found.iter().map(candidate).collect();
        return Err(StoreError::Ambiguous { query: query.to_owned(), candidates });
    }
    if found.is_empty()
        && let Some(error) = dirs.iter().find_map(|dir| open_ledger(dir).err())
    {
        return Err(error);
    }
    found.pop().ok_or_else(|| match in_trash(root, query) {
        Some(id) => StoreError::Trashed { id },
        None => StoreError::NotFound { query: query.to_owned() },
    })
}

/// Returns the removed session that a query means. The trash lies beside the sessions.
fn in_trash(root: &Path, query: &str) -> Option<SessionId> {
    let trash = root.with_file_name(TRASH);
    let is_other = trash != root && !query.is_empty() && trash.is_dir();
    is_other.then(|| find(&trash, query, None).ok())?.map(|summary| summary.id)
}

/// Returns the session's summary if its newest title is `title`. A session without a title is listed under its first words, so these are
/// compared instead.
fn with_title(dir: &Path, title: &str) -> Option<SessionSummary> {
    let mut summary = summary(dir)?;
    if summary.ledger.messages.is_none() && summary.title.as_deref() != Some(title) {
        // [`summary`] reads only both ends of a long ledger. Here the whole ledger is searched, because its newest title may be in the
        // middle.
        let file = File::open(layout::ledger_path(dir)).ok()?;
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            facts_of_line(&line, &mut summary, &[TITLE]);
        }
    }
    (summary.title.as_deref().or(summary.prompt.as_deref()) == Some(title)).then_some(summary)
}

/// Name of the folder of removed sessions, beside the folder of sessions.
pub const TRASH: &str = "trash";

const TITLE: &[u8] = br#""kind":"title""#;
const SESSION: &[u8] = br#""kind":"session""#;
const MESSAGE: &[u8] = br#""kind":"message""#;
const TAGS: &[u8] = br#""key":"tags""#;
const ARCHIVED: &[u8] = br#""key":"archived""#;
const ANSWER: &[u8] = br#""role":"assistant""#;
/// Ends of a turn in which the model failed. A turn without an end was cut off and does not count as failed.
const FAILED: [&[u8]; 2] = [br#""end":"model_error""#, br#""end":"failed""#];

/// Opens the ledger in a session's folder. `None` if there is none.
fn open_ledger(dir: &Path) -> Result<Option<File>, StoreError> {
    let path = layout::ledger_path(dir);
    match File::open(&path) {
        Err(error) if is_missing(&error) => Ok(None),
        opened => opened.map(Some).map_err(StoreError::io("read", path)),
    }
}

/// Returns the summary of the session in this folder; `None` if it has no readable ledger.
pub fn summary(dir: &Path) -> Option<SessionSummary> {
    read_summary(dir).ok().flatten()
}

/// Returns the summary of the session in this folder; `None` if there is none.
fn read_summary(dir: &Path) -> Result<Option<SessionSummary>, StoreError> {
    let (Some(id), Some(file)) = (layout::id_of(dir), open_ledger(dir)?) else { return Ok(None) };
    summary_of(id, dir, file).map(Some).map_err(StoreError::io("read", layout::ledger_path(dir)))
}

fn summary_of(id: SessionId, dir: &Path, mut file: File) -> io::Result<SessionSummary> {
    let metadata = file.metadata()?;
    let bytes = metadata.len();
    let mut summary = SessionSummary::empty(id, dir);
    summary.ledger.updated = metadata.modified().map(millis).unwrap_or_default();
    summary.ledger.bytes = bytes;
    let whole = bytes <= 2 * PART;
    let mut start = Vec::new();
    let mut reader = BufReader::new(&file);
    reader.by_ref().take(FIRST_LINE).read_until(b'\n', &mut start)?;
    let rest = (2 * PART).saturating_sub(start.len() as u64);
    reader.take(if whole { rest } else { rest.min(PART) }).read_to_end(&mut start)?;
    for line in start.split(|b| *b == b'\n') {
        facts_of_line(line, &mut summary, &[SESSION, MESSAGE, TITLE, TAGS, ARCHIVED]);
    }
    if whole {
        summary.ledger.messages = Some(occurrences(&start, MESSAGE));
        let has_failed = FAILED.iter().any(|end| occurrences(&start, end) > 0);
        summary.unanswered = has_failed && occurrences(&start, ANSWER) == 0;
    } else {
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(bytes.saturating_sub(PART)))?;
        file.take(PART).read_to_end(&mut tail)?;
        for line in tail.split(|b| *b == b'\n').skip(1) {
            facts_of_line(line, &mut summary, &[TITLE, TAGS, ARCHIVED]);
        }
    }
    Ok(summary)
}

/// Adds a line's facts to the summary, if it contains an entry of one of these kinds.
///
/// The check for a kind is a search for bytes. It finds no kind in a text, because quotes inside a JSON string are escaped.
fn facts_of_line(line: &[u8], summary: &mut SessionSummary, kinds: &[&[u8]]) {
    if !kinds.iter().any(|kind| occurrences(line, kind) > 0) {
        return;
    }
    let Some(framed) = line::frame(line) else { return };
    let Ok((_, json)) = framed.parts(line) else { return };
    let entries: Vec<Entry> = serde_json::from_slice(json).unwrap_or_default();
    for entry in &entries {
        summary.take(entry);
    }
}

fn occurrences(text: &[u8], pattern: &[u8]) -> u64 {
    let mut count = 0;
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b == b'"') {
        rest = rest.get(at..).unwrap_or_default();
        count += u64::from(rest.starts_with(pattern));
        rest = rest.get(1..).unwrap_or_default();
    }
    count
}

impl SessionSummary {
    /// Adds one entry's facts to the summary.
    pub(crate) fn take(&mut self, entry: &Entry) {
        match &entry.kind {
            EntryKind::Session { cwd, forked_from, extra, .. } => {
                self.cwd = cwd_of(cwd, extra);
                self.ledger.created = entry.time;
                self.forked_from = *forked_from;
                self.extra.clone_from(extra);
            }
            EntryKind::Title { title } => self.title = Some(title.clone()),
            EntryKind::State { key, value } if key == Self::TAGS => {
                let tags = value.as_array().map(Vec::as_slice).unwrap_or_default();
                self.tags = tags.iter().filter_map(|tag| tag.as_str().map(str::to_owned)).collect();
            }
            EntryKind::State { key, value } if key == Self::ARCHIVED => self.archived = *value == true,
            EntryKind::Message { message } if self.prompt.is_none() => self.prompt = first_words(message),
            _ => {}
        }
    }
}

/// Returns the first words of a message that a person typed, on one line.
pub fn first_words(message: &Message) -> Option<String> {
    if !message.is_user_turn() || !visibility(&message.origin).user {
        return None;
    }
    let text = message.text();
    // Secrets are masked before the text is cut, because the beginning of a secret has no recognisable form.
    let text = secrets::mask(cut_end(&text, MASKED_BYTES)).0;
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() > 4 * PROMPT_CHARS {
            break;
        }
    }
    match words.char_indices().nth(PROMPT_CHARS) {
        Some((at, _)) => words.replace_range(at.., "…"),
        None if words.is_empty() => return None,
        None => {}
    }
    Some(words)
}

/// Key in a session's first entry: the bytes of a `cwd` that is not UTF-8, in hex.
pub(crate) const CWD_BYTES: &str = "cwd_bytes";

/// Returns the working directory with its real bytes.
pub(crate) fn cwd_of(cwd: &Path, extra: &Map<String, Value>) -> PathBuf {
    match extra.get(CWD_BYTES).and_then(Value::as_str).and_then(unhex) {
        Some(bytes) => path_from_bytes(&bytes),
        None => cwd.to_path_buf(),
    }
}
