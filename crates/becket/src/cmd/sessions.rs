//! `becket sessions`: the sessions of this directory, or those that hold some words.

use crate::args::SessionsArgs;
use crate::cmd::{one_line, when};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::index::{self, Hit, Index, IndexError};
use becket_session::store::SessionSummary;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &SessionsArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let project = (!args.all).then_some(cwd);
    match &args.query {
        Some(query) => search(environment, project, query, args, out),
        None => list(environment, project, args, out),
    }
}

fn list(
    environment: &Environment,
    project: Option<&Path>,
    args: &SessionsArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    // The index is derived: where it does not serve, the folders do.
    let (mut sessions, _) = index::list(&environment.index_path(), &environment.sessions_dir(), project);
    let total = sessions.len();
    sessions.truncate(args.limit);
    if args.json {
        let rows: Vec<Value> = sessions.iter().map(row).collect();
        return write(out, &format!("{}\n", Value::Array(rows)));
    }
    if sessions.is_empty() {
        let place = project.map_or_else(|| "yet".to_owned(), |p| format!("of {} yet", p.display()));
        return write(out, &format!("There is no session {place}. Start one with: becket -p \"task\"\n"));
    }
    for s in &sessions {
        let messages = s.messages.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let place = if project.is_none() { format!("  {}", s.cwd.display()) } else { String::new() };
        write(
            out,
            &format!(
                "{}  {}  {messages:>5} messages  {}{place}\n",
                s.id,
                when(s.updated),
                one_line(s.label(), 60)
            ),
        )?;
    }
    if total > sessions.len() {
        write(out, &format!("{} more; --limit N shows them\n", total - sessions.len()))?;
    }
    Ok(())
}

fn row(s: &SessionSummary) -> Value {
    json!({
        "id": s.id, "title": s.title, "prompt": s.prompt, "cwd": s.cwd, "created": s.created, "updated": s.updated,
        "messages": s.messages, "bytes": s.bytes, "dir": s.dir,
        "forked_from": s.forked_from.map(|(id, seq)| json!({ "session": id, "seq": seq })),
    })
}

fn search(
    environment: &Environment,
    project: Option<&Path>,
    query: &str,
    args: &SessionsArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let hits = find(environment, project, query, args.limit).map_err(|e| {
        Failure::error(format!("cannot search: {e}"))
            .hint(format!("the index can be deleted at any time: {}", environment.index_path().display()))
    })?;
    if args.json {
        let rows: Vec<Value> = hits
            .iter()
            .map(|h| {
                json!({ "session": h.session, "label": h.label, "seq": h.seq, "time": h.time, "role": h.role, "snippet": h.snippet })
            })
            .collect();
        return write(out, &format!("{}\n", Value::Array(rows)));
    }
    if hits.is_empty() {
        return write(
            out,
            &format!(
                "No session holds {query:?}{}\n",
                if args.all { "" } else { " (--all looks in all projects)" }
            ),
        );
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

fn find(
    environment: &Environment,
    project: Option<&Path>,
    query: &str,
    limit: usize,
) -> Result<Vec<Hit>, IndexError> {
    let mut index = Index::open(&environment.index_path(), &environment.sessions_dir())?;
    index.catch_up()?;
    index.search(query, project, limit)
}

/// Writes, and turns a closed pipe into a quiet end.
pub(crate) fn write(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes()).map_err(|e| Failure::error(format!("cannot write to stdout: {e}")))
}
