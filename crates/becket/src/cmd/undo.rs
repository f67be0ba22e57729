//! `becket undo`: what calls did to files is shown, asked about, and taken back. What undo, redo and rewind share is here.

use crate::args::{Consent, UndoArgs};
use crate::cmd::open;
use crate::cmd::sessions::write;
use crate::cmd::{one_line, pick_session, short, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_agent::undo::{Draft, Reach, SessionBlobs, carry_out, history, plan_files};
use becket_print::ExitStatus;
use becket_session::blobs::BlobStore;
use becket_session::context::ModelScope;
use becket_session::store::{Disk, SessionSummary};
use becket_session::{Durability, Session};
use becket_snapshot::history::Prompt;
use becket_snapshot::{History, Plan, Recorder, Settings, Store};
use becket_types::{
    BlobId, Blobs as _, EntryKind, NodeKind, PathFate, PathPlan, UndoKind, UndoOutcome, UndoPlan,
};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Paths that are shown one by one.
const SHOWN: usize = 200;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &UndoArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let opened = Opened::new(environment, cwd, args.session.as_deref())?;
    let reach = match (&args.to, args.calls) {
        (Some(message), _) => Reach::Since(opened.prompt(message)?.seq),
        (None, Some(count)) => Reach::LastCalls(count),
        (None, None) => Reach::LastTurn,
    };
    let Some(plan) = opened.plan(reach, &args.consent) else {
        let why = "Nothing to undo: no call of this session changed files that is not undone already.";
        return nothing(why, args.json, out);
    };
    opened.carry_out(opened.draft(UndoKind::Undo, plan), &args.consent, args.json, out)
}

/// There is nothing to do, which is no failure.
pub(crate) fn nothing(why: &str, as_json: bool, out: &mut dyn Write) -> Result<ExitStatus, Failure> {
    let text = if as_json {
        json!({ "plan": null, "done": null, "nothing": why }).to_string()
    } else {
        why.to_owned()
    };
    write(out, &format!("{text}\n"))?;
    Ok(ExitStatus::Ok)
}

/// The blobs of a stored session, for reading.
struct Stored(BlobStore);

impl Store for Stored {
    fn put(&self, bytes: &[u8]) -> BlobId {
        self.0.put(bytes)
    }
    fn get(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.0.get(id)
    }
}

/// A session open for writing, with what its ledger says of files.
pub(crate) struct Opened {
    pub session: Mutex<Session>,
    pub history: History,
    pub store: Arc<SessionBlobs>,
}

impl Opened {
    /// The session that is meant. A call that an earlier process left open is closed first: what differs since then is
    /// what it did.
    pub(crate) fn new(environment: &Environment, cwd: &Path, query: Option<&str>) -> Result<Self, Failure> {
        let summary = pick_session(environment, cwd, query)?;
        let mut session = open(environment, &summary, ModelScope::no_model())?;
        let store = Arc::new(SessionBlobs::of(&session));
        let mut known = history(&session, &*store).map_err(store_failure)?;
        if let Some(open) = known.open().cloned() {
            let settings = Settings {
                roots: vec![becket_session::store::canonical(&session.info().cwd)],
                home: environment.home.clone(),
                exclude: vec![environment.data_dir.clone()],
                ..Settings::default()
            };
            let changes =
                Recorder::new(settings, Arc::clone(&store) as Arc<dyn Store>, &known).recover(&open);
            session
                .append(vec![EntryKind::FileChanges(Box::new(changes))], Durability::Synced)
                .map_err(store_failure)?;
            known = history(&session, &*store).map_err(store_failure)?;
        }
        Ok(Self { session: Mutex::new(session), history: known, store })
    }

    /// The user's message that is meant: its number, its id, or the beginning of it.
    pub(crate) fn prompt(&self, query: &str) -> Result<Prompt, Failure> {
        Self::choose(self.history.prompts(), query)
    }

    /// The user's messages of a stored session; nothing is locked or written.
    pub(crate) fn prompts(summary: &SessionSummary) -> Result<Vec<Prompt>, Failure> {
        let blobs = Stored(BlobStore::in_memory(Arc::new(Disk), Some(&summary.dir)));
        let entries = becket_session::store::read_entries(&summary.dir).map_err(store_failure)?;
        Ok(History::of(entries.flatten().flatten(), &blobs).prompts().to_vec())
    }

    /// One of these: its number, its id, or the beginning of it.
    pub(crate) fn choose(prompts: &[Prompt], query: &str) -> Result<Prompt, Failure> {
        let by_number = query.parse::<usize>().ok().and_then(|n| prompts.get(n.checked_sub(1)?));
        let by_id = || {
            let mut found =
                prompts.iter().filter(|p| query.len() >= 4 && p.id.to_string().starts_with(query));
            found.next_back().filter(|_| found.next().is_none())
        };
        by_number.or_else(by_id).cloned().ok_or_else(|| {
            Failure::usage(format!("this session has no message {query:?}"))
                .hint(format!("messages by number or id:\n{}", Self::list(prompts)))
        })
    }

    /// The user's messages, for choosing one.
    pub(crate) fn list(prompts: &[Prompt]) -> String {
        let mut text = String::new();
        for (at, prompt) in prompts.iter().enumerate() {
            let _ = writeln!(text, "  {:>3}  {}  {}", at + 1, prompt.id, one_line(&prompt.text, 60));
        }
        text
    }

    pub(crate) fn plan(&self, reach: Reach, consent: &Consent) -> Option<Plan> {
        plan_files(&self.history, reach, consent.force, &*self.store)
    }

    pub(crate) fn draft(&self, kind: UndoKind, files: Plan) -> Draft {
        Draft { kind, files: Some(files), damaged: self.history.damaged(), conversation: None }
    }

    /// Shows the plan for files, asks, and does it.
    pub(crate) fn carry_out(
        &self,
        draft: Draft,
        consent: &Consent,
        as_json: bool,
        out: &mut dyn Write,
    ) -> Result<ExitStatus, Failure> {
        if as_json {
            return self.carry_out_as_json(draft, consent, out);
        }
        let redo = draft.kind == UndoKind::Redo;
        write(out, &shown(&draft.shown(0), if redo { "Redo" } else { "Undo" }))?;
        let status = if draft.left().is_empty() { ExitStatus::Ok } else { ExitStatus::Error };
        if consent.dry_run {
            return Ok(status);
        }
        if !draft.changes_anything() {
            write(out, "No file is changed.\n")?;
            return Ok(status);
        }
        if !agreed(consent, out)? {
            write(out, "Nothing was changed.\n")?;
            return Ok(ExitStatus::Ok);
        }
        let outcome = self.write(draft)?;
        for failed in &outcome.failed {
            let text = format!("not done: {}: {}\n", failed.path.0.display(), failed.reason);
            write(out, &becket_print::clean(&text))?;
        }
        let done = outcome.restored + outcome.deleted;
        let back = if redo { "becket undo" } else { "becket redo" };
        write(out, &format!("{done} paths are as they were. To take this back: {back}\n"))?;
        Ok(if outcome.failed.is_empty() { status } else { ExitStatus::Error })
    }

    /// The same as one JSON object: the plan, and what was done, `null` where nothing was. Nobody is asked: without `--yes`
    /// the plan is all there is.
    fn carry_out_as_json(
        &self,
        draft: Draft,
        consent: &Consent,
        out: &mut dyn Write,
    ) -> Result<ExitStatus, Failure> {
        let plan = draft.shown(0);
        let status = if draft.left().is_empty() { ExitStatus::Ok } else { ExitStatus::Error };
        let applies = consent.yes && !consent.dry_run && draft.changes_anything();
        let done = if applies { Some(self.write(draft)?) } else { None };
        write(out, &format!("{}\n", json!({ "plan": plan, "done": done })))?;
        let failed = done.is_some_and(|outcome| !outcome.failed.is_empty());
        Ok(if failed { ExitStatus::Error } else { status })
    }

    /// Does what the draft says.
    pub(crate) fn write(&self, draft: Draft) -> Result<UndoOutcome, Failure> {
        let done = carry_out(&self.session, &*self.store, draft, 0);
        let (outcome, _) =
            done.map_err(|why| Failure::error(format!("{why}, so nothing more was changed")))?;
        Ok(outcome)
    }
}

/// `--yes`, or yes on a terminal.
pub(crate) fn agreed(consent: &Consent, out: &mut dyn Write) -> Result<bool, Failure> {
    if consent.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("this needs a yes, and nobody can be asked here")
            .hint("add --yes to do it, --dry-run to look only"));
    }
    write(out, "Type yes to do it: ")?;
    out.flush().map_err(|e| Failure::error(format!("cannot write to stdout: {e}")))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|e| Failure::error(format!("cannot read stdin: {e}")))?;
    // A single letter may have been typed before the question was read.
    Ok(line.trim().eq_ignore_ascii_case("yes"))
}

/// A plan for people.
fn shown(plan: &UndoPlan, what: &str) -> String {
    let mut text = format!("{what} of {} calls:\n", plan.calls.len());
    for label in plan.calls.iter().take(20) {
        let _ = writeln!(text, "  {}", one_line(label, 100));
    }
    for path in plan.paths.iter().take(SHOWN) {
        let _ = writeln!(text, "{}", line(path));
    }
    if plan.paths.len() > SHOWN {
        let _ = writeln!(text, "  … and {} more paths", plan.paths.len() - SHOWN);
    }
    for skipped in plan.skipped.iter().take(20) {
        let _ = writeln!(text, "  was not kept: {} ({})", skipped.path.0.display(), skipped.reason);
    }
    if plan.skipped.len() > 20 {
        let _ = writeln!(text, "  … and {} more that were not kept", plan.skipped.len() - 20);
    }
    if plan.damaged > 0 {
        let damaged = plan.damaged;
        let _ = writeln!(
            text,
            "  {damaged} records of this session are damaged; what they held is not in this list"
        );
    }
    let _ = writeln!(
        text,
        "{} to restore, {} to delete, {} unchanged, {} conflicts, {} lost",
        plan.count(|fate| *fate == PathFate::Restore),
        plan.count(|fate| *fate == PathFate::Delete),
        plan.unchanged,
        plan.count(|fate| matches!(fate, PathFate::Conflict { .. })),
        plan.count(|fate| matches!(fate, PathFate::Lost { .. })),
    );
    becket_print::clean(&text).into_owned()
}

fn line(path: &PathPlan) -> String {
    let (word, why) = match &path.fate {
        PathFate::Restore => ("restore", String::new()),
        PathFate::Delete => ("delete", String::new()),
        PathFate::Conflict { why } => ("conflict", format!(": {why}; left alone unless --force")),
        PathFate::Lost { why } => ("lost", format!(": {why}")),
    };
    let lines = path.lines.map(|(plus, minus)| format!(" +{plus} -{minus}")).unwrap_or_default();
    let kind = match path.node {
        Some(NodeKind::Dir) => " directory".to_owned(),
        Some(NodeKind::Symlink) => " link".to_owned(),
        Some(NodeKind::File) => format!("{lines} {} bytes", short(path.bytes)),
        None => lines,
    };
    format!("  {word:<9} {}{kind}{why}", path.path.0.display())
}
