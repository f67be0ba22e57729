//! `becket audit`: the decisions about tool calls in all sessions, oldest session first, one line each.
//!
//! Reads one ledger after the other and holds only the open calls of one session. Older sessions did not record
//! decisions. For them the journal shows which calls ran.

use crate::args::AuditArgs;
use crate::cmd::sessions::day;
use crate::cmd::{one_line, store_failure, when, write};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_print::clean;
use becket_session::store;
use becket_types::{CallId, Entry, EntryKind, JournalState, Millis, PermissionDecision, SessionId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Kinds of entries without decisions, by their names in ledgers.
const IRRELEVANT_KINDS: &[&str] =
    &["message", "part", "finish", "usage", "request", "file_snapshot", "file_changes", "turn_end"];

const RAN: &str = "it ran; who decided is not recorded";

/// A call of the session that is being read, until its decision or its end is read.
struct OpenCall {
    time: Millis,
    tool: Option<String>,
    subject: Option<String>,
    decided: bool,
    /// The call started, and the ledger contains no decision about it.
    ran: bool,
}

/// The session that is being read.
struct SessionAudit<'a> {
    session: Option<SessionId>,
    cwd: PathBuf,
    calls: BTreeMap<CallId, OpenCall>,
    since: Option<Millis>,
    json: bool,
    out: &'a mut dyn Write,
    rows: u64,
}

pub(crate) fn run(environment: &Environment, args: &AuditArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let since = args.since.as_deref().map(day).transpose()?;
    let mut dirs = store::session_dirs(&environment.sessions_dir(), None).map_err(store_failure)?;
    // Ids begin with the time of creation, so this sorts by age.
    dirs.sort_by_key(|dir| dir.file_name().map(std::ffi::OsStr::to_owned));
    let mut rows = 0;
    for dir in dirs {
        if since.is_some_and(|since| last_written(&dir).is_some_and(|time| time < since)) {
            continue;
        }
        let mut reading = SessionAudit {
            session: None,
            cwd: PathBuf::new(),
            calls: BTreeMap::new(),
            since,
            json: args.json,
            out: &mut *out,
            rows: 0,
        };
        reading.session(&dir)?;
        rows += reading.rows;
    }
    if rows == 0 && !args.json {
        write(out, "No decision is recorded.\n")?;
    }
    Ok(())
}

fn last_written(dir: &Path) -> Option<Millis> {
    let modified = std::fs::metadata(store::ledger_path(dir)).and_then(|meta| meta.modified()).ok()?;
    let since_1970 = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since_1970.as_millis()).ok().map(Millis)
}

impl SessionAudit<'_> {
    fn session(&mut self, dir: &Path) -> Result<(), Failure> {
        let cannot =
            |e: &dyn std::fmt::Display| Failure::error(format!("cannot read {}: {e}", dir.display()));
        let entries = match store::read_entries_without(dir, IRRELEVANT_KINDS) {
            Ok(entries) => entries,
            // The session was removed meanwhile.
            Err(_) if !dir.exists() => return Ok(()),
            Err(e) => return Err(cannot(&e)),
        };
        for entry in entries {
            // `becket verify` reports damaged records.
            if let Ok(entry) = entry.map_err(|e| cannot(&e))? {
                self.entry(&entry)?;
            }
        }
        // A call without a decision that neither started nor ended still waits for an answer to its permission question.
        for (id, call) in std::mem::take(&mut self.calls) {
            if !call.decided {
                let reason = if call.ran { RAN } else { "waiting for an answer" };
                self.unrecorded(&id, &call, reason)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), Failure> {
        match &entry.kind {
            EntryKind::Session { session, cwd, .. } => {
                self.session = Some(*session);
                self.cwd.clone_from(cwd);
            }
            EntryKind::ToolJournal { call_id, state, tool, subject, .. } => {
                let call = self.calls.entry(call_id.clone()).or_insert_with(|| OpenCall {
                    time: entry.time,
                    tool: tool.clone(),
                    subject: subject.clone(),
                    decided: false,
                    ran: false,
                });
                call.ran |= *state != JournalState::Intended;
                if *state == JournalState::Finished
                    && let Some(call) = self.calls.remove(call_id)
                    && !call.decided
                {
                    let reason = if call.ran { RAN } else { "it did not run; why is not recorded" };
                    self.unrecorded(call_id, &call, reason)?;
                }
            }
            EntryKind::Permission(decision) => self.decision(entry.time, decision)?,
            _ => {}
        }
        Ok(())
    }

    fn decision(&mut self, time: Millis, decision: &PermissionDecision) -> Result<(), Failure> {
        let (mut tool, mut subject) = (None, None);
        if let Some(call) = self.calls.get_mut(&decision.call) {
            call.decided = true;
            (tool, subject) = (call.tool.clone(), call.subject.clone());
        }
        self.row(
            time,
            &json!({
                "time": time,
                "session": self.session,
                "cwd": self.cwd.to_string_lossy(),
                "call": decision.call,
                "tool": tool,
                "subject": subject,
                "decision": decision.decision,
                "by": decision.by,
                "rule": decision.rule,
                "reason": decision.reason,
            }),
        )
    }

    /// Reports a call without a recorded decision.
    fn unrecorded(&mut self, id: &CallId, call: &OpenCall, reason: &str) -> Result<(), Failure> {
        self.row(
            call.time,
            &json!({
                "time": call.time,
                "session": self.session,
                "cwd": self.cwd.to_string_lossy(),
                "call": id,
                "tool": call.tool,
                "subject": call.subject,
                "decision": call.ran.then_some("allow"),
                "by": Value::Null,
                "rule": Value::Null,
                "reason": reason,
            }),
        )
    }

    fn row(&mut self, time: Millis, row: &Value) -> Result<(), Failure> {
        if self.since.is_some_and(|since| time < since) {
            return Ok(());
        }
        self.rows += 1;
        if self.json {
            return write(self.out, &format!("{row}\n"));
        }
        let text = |key: &str| row[key].as_str().unwrap_or("-");
        let rule = row["rule"].as_str().map(|rule| format!(" {rule}")).unwrap_or_default();
        let line = format!(
            "{}  {}  {:<5}  {}{rule}  {}: {}  ({})",
            when(time),
            text("session"),
            text("decision"),
            text("by"),
            text("tool"),
            one_line(text("subject"), 80),
            one_line(text("reason"), 160),
        );
        write(self.out, &format!("{}\n", clean(&line)))
    }
}
