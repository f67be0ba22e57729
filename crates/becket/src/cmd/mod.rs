//! Subcommands: each reads, prints and returns. Shared functions are here.

pub(crate) mod agents;
pub(crate) mod audit;
mod browser_login;
pub(crate) mod compact;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod cost;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod help;
pub(crate) mod hooks;
pub(crate) mod import;
pub(crate) mod live;
pub(crate) mod login;
pub(crate) mod mcp;
pub(crate) mod mcp_serve;
pub(crate) mod models;
pub(crate) mod permissions;
pub(crate) mod redo;
pub(crate) mod rewind;
pub(crate) mod sandbox;
pub(crate) mod screenshot;
pub(crate) mod sessions;
pub(crate) mod undo;
pub(crate) mod verify;

use crate::environment::Environment;
use crate::failure::{Failure, unwritten};
use becket_session::context::ModelScope;
use becket_session::secrets::mask;
use becket_session::store::{self, Candidate, SessionSummary};
use becket_session::{Session, StoreError};
use becket_types::{Millis, quoted};
use std::io::Write;
use std::path::Path;

/// Number of bytes of a text that [`one_line`] reads. More than the widest line needs.
const MASKED_BYTES: usize = 16 << 10;

/// The newest session of a directory, for a command without a session argument.
pub(crate) struct Newest {
    pub session: SessionSummary,
    /// A note about a newer session that was skipped because the model only failed in it.
    pub note: Option<String>,
}

/// Returns the newest session of this directory that is not a subagent's. A session in which the model never answered
/// is chosen only if there is no other, because it contains nothing to undo, export or continue.
///
/// # Errors
///
/// Returns a failure for the user if the sessions cannot be read.
pub(crate) fn newest(environment: &Environment, cwd: &Path) -> Result<Option<Newest>, Failure> {
    let root = environment.sessions_dir();
    let last = |accept: &dyn Fn(&SessionSummary) -> bool| {
        store::most_recent(&root, cwd, |s| s.subagent_of().is_none() && accept(s)).map_err(store_failure)
    };
    let Some(newest) = last(&|_| true)? else { return Ok(None) };
    if !newest.unanswered {
        return Ok(Some(Newest { session: newest, note: None }));
    }
    let Some(session) = last(&|s| !s.unanswered)? else {
        return Ok(Some(Newest { session: newest, note: None }));
    };
    let note = format!(
        "the newest session ({}) got no answer from its model, so this is the previous one ({}); to continue the \
         newest: becket --resume {}",
        quoted(&one_line(newest.label(), 40)),
        quoted(&one_line(session.label(), 40)),
        newest.id
    );
    Ok(Some(Newest { session, note: Some(note) }))
}

/// Returns the session that the user named, or the newest of this directory.
pub(crate) fn pick_session(
    environment: &Environment,
    cwd: &Path,
    query: Option<&str>,
) -> Result<SessionSummary, Failure> {
    let root = environment.sessions_dir();
    match query {
        Some(query) => store::find(&root, query, Some(cwd)).map_err(store_failure),
        None => {
            let newest = newest(environment, cwd)?.ok_or_else(|| {
                Failure::usage(format!("there is no session of {} yet", cwd.display()))
                    .hint("start one with: becket -p \"task\"; or name a session (becket sessions --all)")
            })?;
            if let Some(note) = newest.note {
                let _ = writeln!(std::io::stderr(), "becket: {note}");
            }
            Ok(newest.session)
        }
    }
}

/// Opens a session for writing, under the configuration of its folder.
pub(crate) fn open(
    environment: &Environment,
    summary: &SessionSummary,
    scope: ModelScope,
) -> Result<Session, Failure> {
    let policy = crate::settings::policy_in(environment, &summary.cwd);
    Session::open(&summary.dir, policy, scope).map_err(|error| match error {
        // Commands on stored sessions have no option to copy a session or to take it over.
        StoreError::Locked { id, .. } => {
            let message = format!("session {id} is open in another process, so it cannot be changed here");
            let failure = Failure::usage(message)
                .hint("close it there, or make the change there with a command such as /rename");
            Failure { in_use: true, ..failure }
        }
        other => store_failure(other),
    })
}

/// Converts a storage error. The user can solve a missing, ambiguous or locked session, but not a failing disk.
pub(crate) fn store_failure(error: StoreError) -> Failure {
    let in_use = matches!(error, StoreError::Locked { .. });
    let failure = match error {
        StoreError::Ambiguous { query, candidates } => ambiguous(&query, &candidates),
        StoreError::NotFound { .. }
        | StoreError::Trashed { .. }
        | StoreError::Locked { .. }
        | StoreError::Newer { .. }
        | StoreError::Exists { .. } => Failure::usage(error.to_string()),
        other => Failure::error(other.to_string()),
    };
    Failure { in_use, ..failure }
}

/// Lists the sessions that a name may mean, with what tells them apart: the time of the last change, and the folder.
fn ambiguous(query: &str, candidates: &[Candidate]) -> Failure {
    const MAX_CANDIDATES: usize = 10;
    let mut lines = vec![format!(
        "{query} could be any of {} sessions; give more of the id:",
        candidates.len(),
        query = quoted(&query)
    )];
    lines.extend(candidates.iter().take(MAX_CANDIDATES).map(|candidate| {
        let (label, place) = (one_line(&candidate.label, 40), candidate.cwd.display());
        format!("  {}  {}  {label}  {place}", candidate.id, when(candidate.updated))
    }));
    if candidates.len() > MAX_CANDIDATES {
        lines.push(format!("  and {} more", candidates.len() - MAX_CANDIDATES));
    }
    Failure::usage(lines.join("\n"))
}

/// Returns the failure for a change that was not saved, with the reason.
pub(crate) fn not_saved(session: &mut Session) -> Failure {
    let notices = session.take_notices();
    let why = notices.first().and_then(|text| text.split(". ").next());
    Failure::error(format!("nothing was changed: {}", why.unwrap_or("the session cannot be written")))
        .hint("free some space or make the directory writable, and do it again")
}

/// Formats a time as `2026-11-21 14:05` in the local time zone.
pub(crate) fn when(time: Millis) -> String {
    i64::try_from(time.0)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map(|t| t.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
        .unwrap_or_default()
}

/// Shortens a number: 21,412 becomes `21k`, and 900 stays `900`.
pub(crate) fn short(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{:.1}k", n as f64 / 1e3),
        10_000..1_000_000 => format!("{}k", n / 1_000),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

/// Returns for example `1 message` or `2 messages`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Like [`count`], in two columns: the number on the right of `width` characters, and a unit that is always as wide as its
/// plural.
pub(crate) fn count_column(n: u64, what: &str, width: usize) -> String {
    let unit = if n == 1 { format!("{what} ") } else { format!("{what}s") };
    format!("{n:>width$} {unit}")
}

/// Returns `text` on one line, with at most `width` characters. Secrets are masked before the text is cut, because the first
/// half of a secret would not be recognized.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let start = becket_types::cut_end(text.trim_start(), MASKED_BYTES);
    let flat: String = mask(start).0.split_whitespace().collect::<Vec<_>>().join(" ");
    let clean = becket_print::clean(&flat).into_owned();
    if clean.chars().count() <= width {
        return clean;
    }
    let mut out: String = clean.chars().take(width.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Returns the title of a fork that the user has not named.
pub(crate) fn fork_title(source: &SessionSummary) -> String {
    format!("{} (fork)", one_line(source.label(), 60))
}

/// True for `-`, which names standard output where a file to write is expected.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes a page to the file, and its name to `out`; for `-` the page itself to `out`.
pub(crate) fn write_page(path: &Path, page: &str, out: &mut dyn Write) -> Result<(), Failure> {
    if is_stdout(path) {
        return write(out, page);
    }
    std::fs::write(path, page)
        .map_err(|e| Failure::error(format!("cannot write {}: {e}", path.display())))?;
    write(out, &format!("{}\n", path.display()))
}

/// Writes text. If the reader closed the pipe, ends the command quietly.
pub(crate) fn write(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes()).map_err(|error| unwritten(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lines_are_short() {
        assert_eq!([short(7), short(1_250), short(21_412), short(1_500_000)], ["7", "1.2k", "21k", "1.5M"]);
        assert_eq!(one_line("a\n b\tc", 10), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("password: hunter22", 14), "password: ‹va…");
        assert_eq!(one_line(&format!("{}end", " ".repeat(MASKED_BYTES)), 4), "end");
    }
}
