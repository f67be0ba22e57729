//! `becket sessions`: lists and searches the sessions of this directory. Other modules change them (`file`), show their
//! relations (`branches`) and their cost (`stats`).

mod branches;
mod file;
pub(crate) mod stats;

pub(crate) use branches::{entry_before, fork_at};

use crate::args::{SessionFilters, SessionsArgs, SessionsWhat};
use crate::cmd::{one_line, store_failure, when, write};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::index::{self, Hit, Index, IndexError, Query};
use becket_session::store::{self, SessionSummary};
use becket_types::{FilePath, Millis, quoted};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &SessionsArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let looked =
        |filters: &SessionFilters, query: Option<&str>, json: bool, limit: usize, out: &mut dyn Write| {
            let view = ListQuery { environment, cwd, filters, json, limit };
            match query {
                Some(words) => view.search(words, out),
                None => view.list(out),
            }
        };
    match &args.what {
        None => looked(&args.filters, args.query.as_deref(), args.json, args.limit, out),
        Some(SessionsWhat::List { filters, shown }) => looked(filters, None, shown.json, shown.limit, out),
        Some(SessionsWhat::Search { query, filters, shown }) => {
            looked(filters, Some(query), shown.json, shown.limit, out)
        }
        Some(SessionsWhat::Stats { days, here, json, html }) => {
            let project = here.then_some(cwd);
            stats::run(environment, project, *days, *json, html.as_deref(), out)
        }
        Some(
            what @ (SessionsWhat::Tree { .. } | SessionsWhat::Fork { .. } | SessionsWhat::Compare { .. }),
        ) => branches::run(environment, cwd, what, out),
        Some(what) => file::run(environment, cwd, what, out),
    }
}

/// A requested list or search.
struct ListQuery<'a> {
    environment: &'a Environment,
    cwd: &'a Path,
    filters: &'a SessionFilters,
    json: bool,
    limit: usize,
}

impl ListQuery<'_> {
    fn project(&self) -> Option<&Path> {
        (!self.filters.all).then_some(self.cwd)
    }

    fn query<'a>(&'a self, words: &'a str, limit: usize) -> Result<Query<'a>, Failure> {
        let filters = self.filters;
        let day = |text: &Option<String>| text.as_deref().map(day).transpose();
        let (since, until) = (day(&filters.since)?, day(&filters.until)?);
        if since.zip(until).is_some_and(|(since, until)| since >= until) {
            return Err(Failure::usage("there is no time between --since and --until")
                .hint("--until must be after --since"));
        }
        Ok(Query {
            words,
            project: self.project(),
            since,
            until,
            model: filters.model.as_deref(),
            file: filters.file.as_deref(),
            tag: filters.tag.as_deref(),
            archived: filters.archived,
            limit,
        })
    }

    fn is_narrowed(&self) -> bool {
        let n = self.filters;
        [&n.since, &n.until, &n.model, &n.file, &n.tag].iter().any(|o| o.is_some())
    }

    /// Names sessions that cannot be read, which are missing in every list.
    fn warn_of_unreadable(&self) -> Result<(), Failure> {
        let root = self.environment.sessions_dir();
        for error in store::unreadable(&root, self.project()).map_err(store_failure)? {
            let _ = writeln!(std::io::stderr(), "becket: not listed: {error}");
        }
        Ok(())
    }

    fn list(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let environment = self.environment;
        self.warn_of_unreadable()?;
        let mut sessions = if self.is_narrowed() {
            let query = self.query("", usize::MAX >> 1)?;
            query_index(environment, |index| index.sessions(&query))?
        } else {
            // The index is derived data. If it cannot be used, the folders are read.
            let listed = index::list(&environment.index_path(), &environment.sessions_dir(), self.project());
            let (all, _) = listed.map_err(store_failure)?;
            all.into_iter().filter(|s| self.filters.archived || !s.archived).collect()
        };
        // The work of subagents belongs to the sessions that started them; `tree` lists the subagents' sessions.
        sessions.retain(|s| s.subagent_of().is_none());
        let total = sessions.len();
        sessions.truncate(self.limit);
        if self.json {
            let rows: Vec<Value> = sessions.iter().map(row).collect();
            return write(out, &format!("{}\n", Value::Array(rows)));
        }
        if sessions.is_empty() && self.is_narrowed() {
            return write(out, "No session matches.\n");
        }
        if sessions.is_empty() {
            let place =
                self.project().map_or_else(|| "yet".to_owned(), |p| format!("of {} yet", p.display()));
            return write(out, &format!("There is no session {place}. Start one with: becket -p \"task\"\n"));
        }
        for s in &sessions {
            write(out, &line(s, self.project().is_none().then(|| folder(s, self.cwd))))?;
        }
        if total > sessions.len() {
            write(out, &format!("{} more; --limit N shows them\n", total - sessions.len()))?;
        }
        Ok(())
    }

    fn search(&self, words: &str, out: &mut dyn Write) -> Result<(), Failure> {
        if !words.chars().any(char::is_alphanumeric) {
            let words = one_line(words, 60);
            return Err(Failure::usage(format!("{} contains no word to search for", quoted(&words))));
        }
        self.warn_of_unreadable()?;
        let query = self.query(words, self.limit)?;
        let hits: Vec<Hit> = query_index(self.environment, |index| index.find(&query))?;
        if self.json {
            let rows: Vec<Value> = hits
                .iter()
                .map(|h| {
                    json!({ "session": h.session, "label": h.label, "seq": h.seq, "time": h.time, "role": h.role, "snippet": h.snippet })
                })
                .collect();
            return write(out, &format!("{}\n", Value::Array(rows)));
        }
        if hits.is_empty() {
            let filters = self.filters;
            let given = [&filters.since, &filters.until, &filters.model, &filters.file, &filters.tag];
            let fits = if given.iter().any(|f| f.is_some()) { " and fits the filters" } else { "" };
            let all = if filters.all { "" } else { " (--all looks in all projects)" };
            let near = crate::args::nearest_sessions_command(words, &[]);
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let words = one_line(words, 60);
            return write(out, &format!("No session contains {}{fits}{all}{near}\n", quoted(&words)));
        }
        for h in &hits {
            write(
                out,
                &format!(
                    "{}  {}  {}\n    {}: {}\n",
                    h.session,
                    when(h.time),
                    one_line(&h.label, 60),
                    h.role,
                    one_line(&h.snippet, 110)
                ),
            )?;
        }
        Ok(())
    }
}

/// Returns the folder to which a session belongs. A session that was imported with `--here` belongs to the folder of the
/// import, and its ledger still names the folder in which it began.
fn folder<'a>(s: &'a SessionSummary, cwd: &'a Path) -> &'a Path {
    let of_project = s.dir.parent().and_then(Path::file_name);
    let belongs = |path: &Path| of_project.is_some_and(|name| *name == *store::project_name(path));
    if belongs(cwd) { cwd } else { &s.cwd }
}

/// Formats one session of a list.
fn line(s: &SessionSummary, place: Option<&Path>) -> String {
    let messages = s.ledger.messages.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let unit = if s.ledger.messages == Some(1) { "message " } else { "messages" };
    let place = place.map(|place| format!("  {}", one_line(&place.display().to_string(), 400)));
    let place = place.unwrap_or_default();
    let mut marks: Vec<String> = s.tags.iter().map(|tag| format!("#{tag}")).collect();
    marks.extend(s.archived.then(|| "archived".to_owned()));
    let marks =
        if marks.is_empty() { String::new() } else { format!("  [{}]", one_line(&marks.join(" "), 60)) };
    format!(
        "{}  {}  {messages:>5} {unit}  {}{marks}{place}\n",
        s.id,
        when(s.ledger.updated),
        one_line(s.label(), 60)
    )
}

fn row(s: &SessionSummary) -> Value {
    json!({
        "id": s.id, "title": s.title, "prompt": s.prompt, "cwd": FilePath(s.cwd.clone()), "created": s.ledger.created, "updated": s.ledger.updated,
        "messages": s.ledger.messages, "bytes": s.ledger.bytes, "dir": FilePath(s.dir.clone()), "tags": s.tags, "archived": s.archived,
        "forked_from": s.forked_from.map(|(id, seq)| json!({ "session": id, "seq": seq })),
        "imported": s.extra.get("imported"),
        "subagent_of": s.subagent_of(),
    })
}

/// Queries the index after bringing it up to date.
fn query_index<T>(
    environment: &Environment,
    look: impl Fn(&Index) -> Result<T, IndexError>,
) -> Result<T, Failure> {
    let asked = index::serve(&environment.index_path(), &environment.sessions_dir(), |index| look(index));
    asked.map_err(|e| match e {
        IndexError::Sessions(error) => store_failure(error),
        e if e.is_of_the_file() => Failure::error(format!("cannot search: {e}"))
            .hint(format!("the index can be deleted at any time: {}", environment.index_path().display())),
        e => Failure::error(format!("cannot search: {e}")),
    })
}

/// Parses a day: `2026-11-21` in the local time zone, or `7d` for seven days ago.
pub(crate) fn day(text: &str) -> Result<Millis, Failure> {
    let wrong = || {
        Failure::usage(format!("{text} is not a day", text = quoted(&text)))
            .hint("such as 2026-11-21, or 7d for seven days ago")
    };
    let millis = |t: jiff::Timestamp| u64::try_from(t.as_millisecond()).map(Millis).map_err(|_| wrong());
    if let Some(days) = text.strip_suffix('d').and_then(|n| n.parse::<i64>().ok()) {
        let span = jiff::SignedDuration::from_hours(days.saturating_mul(24));
        return millis(jiff::Timestamp::now().checked_sub(span).map_err(|_| wrong())?);
    }
    let date: jiff::civil::Date = text.parse().map_err(|_| wrong())?;
    let zoned = date.to_zoned(jiff::tz::TimeZone::system()).map_err(|_| wrong())?;
    millis(zoned.timestamp())
}
