//! Renames, tags, archives, removes and restores sessions. Titles and tags are entries of the ledger, and the trash is
//! a folder beside the sessions.

use super::{line, row, write};
use crate::args::{SessionIds, SessionsWhat};
use crate::cmd::open;
use crate::cmd::{count, not_saved, one_line, pick_session, short, store_failure, when};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::context::ModelScope;
use becket_session::index;
use becket_session::store::{self, Outside, SessionSummary, trash};
use becket_session::{SessionLabel, StoreError};
use becket_types::{EntryKind, Millis, quoted};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) fn run(
    environment: &Environment,
    cwd: &Path,
    what: &SessionsWhat,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let pick = |query: &String| pick_session(environment, cwd, Some(query));
    match what {
        SessionsWhat::Rename { session, title, json } => {
            let summary = pick(session)?;
            let title = one_line(title, 200);
            if title.is_empty() {
                return Err(Failure::usage("a title needs a letter"));
            }
            set_label(environment, &summary, SessionLabel::Title(title.clone()))?;
            if *json {
                return write(out, &format!("{}\n", json!({ "session": summary.id, "title": title })));
            }
            write(out, &format!("{} is now called {title}.\n", summary.id, title = quoted(&title)))
        }
        SessionsWhat::Tag { session, tags, remove, json } => {
            tag(environment, &pick(session)?, tags, *remove, *json, out)
        }
        SessionsWhat::Archive(ids) => archive(environment, cwd, ids, true, out),
        SessionsWhat::Unarchive(ids) => archive(environment, cwd, ids, false, out),
        SessionsWhat::Rm(SessionIds { sessions, json }) => {
            let mut rows = Vec::new();
            for query in require_sessions(sessions)? {
                let summary = pick(query)?;
                let below = store::subagents(&environment.sessions_dir(), &summary).map_err(store_failure)?;
                let (io, place) = (Outside::default().io, trash_dir(environment));
                for session in std::iter::once(&summary).chain(&below) {
                    trash::throw_away(io.as_ref(), &place, &session.dir, now()).map_err(removal_failure)?;
                }
                if *json {
                    rows.push(json!({ "session": summary.id, "trashed": true, "subagents": below.len() }));
                    continue;
                }
                let label = one_line(summary.label(), 60);
                let text = format!(
                    "{} ({label}){} is in the trash for 30 days. To bring it back: becket sessions restore {}\n",
                    summary.id,
                    with_subagents(below.len()),
                    summary.id
                );
                write(out, &text)?;
            }
            if *json { write(out, &format!("{}\n", Value::Array(rows))) } else { Ok(()) }
        }
        SessionsWhat::Trash { json } => list_trash(environment, *json, out),
        SessionsWhat::Restore { session, json } => restore(environment, session, *json, out),
        SessionsWhat::Gc { now, dry_run, json } => collect(environment, *now, *dry_run, *json, out),
        _ => Ok(()),
    }
}

fn require_sessions(sessions: &[String]) -> Result<&[String], Failure> {
    if sessions.is_empty() { Err(Failure::usage("name at least one session")) } else { Ok(sessions) }
}

fn trash_dir(environment: &Environment) -> PathBuf {
    environment.store_dir.join(store::TRASH)
}

fn now() -> Millis {
    Millis(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
}

fn set_label(
    environment: &Environment,
    summary: &SessionSummary,
    label: SessionLabel,
) -> Result<(), Failure> {
    let mut session = open(environment, summary, ModelScope::no_model())?;
    session.set_label(label).map_err(store_failure)?;
    if session.flush() { Ok(()) } else { Err(not_saved(&mut session)) }
}

fn tag(
    environment: &Environment,
    summary: &SessionSummary,
    tags: &[String],
    remove: bool,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    // All entries are read, because the tags in the session's summary may be missing if they are not near the end of a long ledger.
    let mut now: Vec<String> = Vec::new();
    for entry in store::read_entries(&summary.dir).map_err(store_failure)?.flatten().flatten() {
        if let EntryKind::State { key, value } = entry.kind
            && key == SessionSummary::TAGS
        {
            now = serde_json::from_value(value).unwrap_or_default();
        }
    }
    let before = now.clone();
    for tag in tags.iter().map(|tag| tag.trim().trim_start_matches('#').to_owned()) {
        now.retain(|t| *t != tag);
        if !remove && !tag.is_empty() {
            now.push(tag);
        }
    }
    if now != before {
        set_label(environment, summary, SessionLabel::Tags(now.clone()))?;
    }
    if as_json {
        return write(out, &format!("{}\n", json!({ "session": summary.id, "tags": now })));
    }
    let shown: Vec<String> = now.iter().map(|tag| format!("#{tag}")).collect();
    let shown = if shown.is_empty() { "no tags".to_owned() } else { one_line(&shown.join(" "), 200) };
    write(out, &format!("{}: {shown}\n", summary.id))
}

fn archive(
    environment: &Environment,
    cwd: &Path,
    ids: &SessionIds,
    away: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for query in require_sessions(&ids.sessions)? {
        let summary = pick_session(environment, cwd, Some(query))?;
        set_label(environment, &summary, SessionLabel::Archived(away))?;
        if ids.json {
            rows.push(json!({ "session": summary.id, "archived": away }));
            continue;
        }
        let how = if away { "archived; --archived lists it" } else { "listed again" };
        write(out, &format!("{} is {how}.\n", summary.id))?;
    }
    if ids.json { write(out, &format!("{}\n", Value::Array(rows))) } else { Ok(()) }
}

fn list_trash(environment: &Environment, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let found = trash::trashed(&trash_dir(environment)).map_err(store_failure)?;
    if as_json {
        let rows: Vec<Value> = found
            .iter()
            .map(|t| {
                let mut value = row(&t.summary);
                value["trashed"] = json!(t.at);
                value["kept_until"] = json!(t.at.0 + trash::RETENTION.0);
                value["bytes"] = json!(t.bytes);
                value
            })
            .collect();
        return write(out, &format!("{}\n", Value::Array(rows)));
    }
    if found.is_empty() {
        return write(out, "The trash is empty.\n");
    }
    for t in &found {
        let text = format!(
            "until {}  {}B  {}",
            when(Millis(t.at.0 + trash::RETENTION.0)),
            short(t.bytes),
            line(&t.summary, Some(t.summary.cwd.as_path()))
        );
        write(out, &text)?;
    }
    Ok(())
}

fn restore(
    environment: &Environment,
    query: &str,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let summary = store::find(&trash_dir(environment), query, None).map_err(|error| match error {
        StoreError::NotFound { .. } => match store::find(&environment.sessions_dir(), query, None) {
            Ok(there) => Failure::usage(format!(
                "{query} is not in the trash: it is among your sessions",
                query = quoted(&query)
            ))
            .hint(format!("continue it: becket --resume {}", there.id)),
            Err(_) => Failure::usage(format!("{query} is not in the trash", query = quoted(&query)))
                .hint("`becket sessions trash` lists its sessions"),
        },
        error => store_failure(error),
    })?;
    let mut below = 0;
    for trashed in trash::trashed(&trash_dir(environment)).map_err(store_failure)? {
        let is_below = trashed.summary.subagent_of().is_some_and(|above| above.session == summary.id);
        if trashed.summary.id == summary.id || is_below {
            below += usize::from(is_below);
            trash::bring_back(Outside::default().io.as_ref(), &environment.sessions_dir(), &trashed)
                .map_err(restore_failure)?;
        }
    }
    if as_json {
        let body = json!({ "session": summary.id, "restored": true, "subagents": below });
        return write(out, &format!("{body}\n"));
    }
    write(out, &format!("{}{} is back.\n", summary.id, with_subagents(below)))
}

fn restore_failure(error: StoreError) -> Failure {
    match error {
        StoreError::Exists { id } => {
            Failure::usage(format!("session {id} exists: the copy in the trash stays there")).hint(format!(
                "becket -r {id} continues the one that exists; becket sessions gc --now empties the trash"
            ))
        }
        error => store_failure(error),
    }
}

fn removal_failure(error: StoreError) -> Failure {
    match error {
        StoreError::Exists { id } => {
            Failure::usage(format!("an older copy of session {id} is in the trash, so nothing was removed"))
                .hint("becket sessions gc --now empties the trash; then remove the session again")
        }
        error => store_failure(error),
    }
}

/// Returns a note that the sessions of its subagents move with it.
fn with_subagents(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " with its subagent's".to_owned(),
        count => format!(" with those of its {count} subagents"),
    }
}

fn collect(
    environment: &Environment,
    all: bool,
    dry_run: bool,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let place = trash_dir(environment);
    let gone: Vec<(String, u64)> = if dry_run {
        let old = |t: &trash::Trashed| all || now().0.saturating_sub(t.at.0) >= trash::RETENTION.0;
        let due = trash::trashed(&place).map_err(store_failure)?.into_iter().filter(old);
        due.map(|t| (t.summary.id.to_string(), t.bytes)).collect()
    } else {
        let gone = trash::purge(Outside::default().io.as_ref(), &place, now(), all).map_err(store_failure)?;
        gone.into_iter().map(|(id, bytes)| (id.to_string(), bytes)).collect()
    };
    let bytes: u64 = gone.iter().map(|(_, bytes)| bytes).sum();
    let file = environment.index_path();
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    let before = size(&file);
    if !dry_run && file.exists() {
        let compacted = index::serve(&file, &environment.sessions_dir(), |index| index.compact());
        if let (Err(error), false) = (compacted, as_json) {
            write(out, &format!("note: the index was not shrunk: {error}\n"))?;
        }
    }
    let index_freed = before.saturating_sub(size(&file));
    if as_json {
        let ids: Vec<&String> = gone.iter().map(|(id, _)| id).collect();
        let body = json!({ "dry_run": dry_run, "deleted": ids, "bytes": bytes, "index_bytes": index_freed });
        return write(out, &format!("{body}\n"));
    }
    let word = if dry_run { "would be deleted" } else { "deleted" };
    let text = format!(
        "{} {word} for good, {}B; {}B of the index\n",
        count(gone.len(), "session"),
        short(bytes),
        short(index_freed)
    );
    write(out, &text)
}
