//! `becket undo`: what calls did to files is shown, asked about, and taken back. What undo, redo and rewind share is here.

use crate::args::{Consent, UndoArgs};
use crate::cmd::sessions::write;
use crate::cmd::{one_line, pick_session, short, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_print::ExitStatus;
use becket_session::blobs::BlobStore;
use becket_session::context::{ModelScope, Policy};
use becket_session::{Durability, Session};
use becket_snapshot::history::Prompt;
use becket_snapshot::{Action, History, Plan, PlannedPath, Recorder, Settings, Store, apply, plan_undo};
use becket_types::{BlobId, Blobs as _, CallId, EntryKind, FileNode};
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::path::Path;
use std::sync::Arc;

/// Paths that are shown one by one.
const SHOWN: usize = 200;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &UndoArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let mut opened = Opened::new(environment, cwd, args.session.as_deref())?;
    let changes = match (&args.to, args.calls) {
        (Some(message), _) => {
            let prompt = opened.prompt(message)?;
            opened.history.since(prompt.seq)
        }
        (None, Some(count)) => opened.history.last_calls(count),
        (None, None) => opened.history.last_turn(),
    };
    if changes.is_empty() {
        write(out, "Nothing to undo: no call of this session changed files that is not undone already.\n")?;
        return Ok(ExitStatus::Ok);
    }
    let plan = plan_undo(&changes, args.consent.force, &*opened.store);
    opened.carry_out(plan, &args.consent, "Undo", out)
}

/// A session open for writing, with what its ledger says of files.
pub(crate) struct Opened {
    pub session: Session,
    pub history: History,
    pub store: Arc<SessionStore>,
}

/// The blobs of a session, as the plans see them.
pub(crate) struct SessionStore(Arc<BlobStore>);

impl Store for SessionStore {
    fn put(&self, bytes: &[u8]) -> BlobId {
        self.0.put(bytes)
    }
    fn get(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.0.get(id)
    }
}

impl Opened {
    /// The session that is meant. A call that an earlier process left open is closed first: what differs since then is
    /// what it did.
    pub(crate) fn new(environment: &Environment, cwd: &Path, query: Option<&str>) -> Result<Self, Failure> {
        let summary = pick_session(environment, cwd, query)?;
        let scope = ModelScope {
            provider: String::new(),
            model: String::new(),
            images: true,
            max_images: usize::MAX,
            max_media_bytes: u64::MAX,
        };
        let mut session = Session::open(&summary.dir, Policy::default(), scope).map_err(store_failure)?;
        let store = Arc::new(SessionStore(session.blob_store()));
        let mut history = History::of(session.entries().map_err(store_failure)?, &*store);
        if let Some(open) = history.open().cloned() {
            let settings = Settings {
                roots: vec![becket_session::store::canonical(&session.info().cwd)],
                home: environment.home.clone(),
                exclude: vec![environment.data_dir.clone()],
                ..Settings::default()
            };
            let changes =
                Recorder::new(settings, Arc::clone(&store) as Arc<dyn Store>, &history).recover(&open);
            session
                .append(vec![EntryKind::FileChanges(Box::new(changes))], Durability::Synced)
                .map_err(store_failure)?;
            history = History::of(session.entries().map_err(store_failure)?, &*store);
        }
        Ok(Self { session, history, store })
    }

    /// The user's message that is meant: its number, its id, or the beginning of it.
    pub(crate) fn prompt(&self, query: &str) -> Result<Prompt, Failure> {
        let prompts = self.history.prompts();
        let by_number = query.parse::<usize>().ok().and_then(|n| prompts.get(n.checked_sub(1)?));
        let by_id = || {
            let mut found =
                prompts.iter().filter(|p| query.len() >= 4 && p.id.to_string().starts_with(query));
            found.next_back().filter(|_| found.next().is_none())
        };
        by_number.or_else(by_id).cloned().ok_or_else(|| {
            Failure::usage(format!("this session has no message {query:?}"))
                .hint(format!("messages by number or id:\n{}", self.listing()))
        })
    }

    /// The user's messages, for choosing one.
    pub(crate) fn listing(&self) -> String {
        let mut text = String::new();
        for (at, prompt) in self.history.prompts().iter().enumerate() {
            let _ = writeln!(text, "  {:>3}  {}  {}", at + 1, prompt.id, one_line(&prompt.text, 60));
        }
        text
    }

    /// Shows the plan, asks, and does it.
    pub(crate) fn carry_out(
        &mut self,
        mut plan: Plan,
        consent: &Consent,
        what: &str,
        out: &mut dyn Write,
    ) -> Result<ExitStatus, Failure> {
        write(out, &shown(&plan, what, self.history.damaged()))?;
        let left = plan.count(|action| matches!(action, Action::Conflict(_) | Action::Lost(_)));
        let status = if left > 0 { ExitStatus::Error } else { ExitStatus::Ok };
        if consent.dry_run {
            return Ok(status);
        }
        if !plan.changes_anything() {
            write(out, "No file is changed.\n")?;
            return Ok(status);
        }
        if !agreed(consent, out)? {
            write(out, "Nothing was changed.\n")?;
            return Ok(ExitStatus::Ok);
        }
        let id = CallId(format!("{}-{}", what.to_lowercase(), self.session.last_seq().next()));
        let before = apply::prepare(&mut plan, &id, &*self.store);
        self.append(vec![EntryKind::FileSnapshot(Box::new(before))])?;
        let applied = apply::apply(&plan, &*self.store);
        self.append(vec![EntryKind::FileChanges(Box::new(applied.changes))])?;
        for failed in &applied.failed {
            let text = format!("not done: {}: {}\n", failed.path.0.display(), failed.reason);
            write(out, &becket_print::clean(&text))?;
        }
        let done = plan.count(|a| matches!(a, Action::Restore | Action::Delete)) - applied.failed.len();
        let back = if what == "Redo" { "becket undo" } else { "becket redo" };
        write(out, &format!("{done} paths are as they were. To take this back: {back}\n"))?;
        Ok(if applied.failed.is_empty() { status } else { ExitStatus::Error })
    }

    pub(crate) fn append(&mut self, entries: Vec<EntryKind>) -> Result<(), Failure> {
        self.session.append(entries, Durability::Synced).map_err(store_failure)?;
        if self.session.flush() {
            return Ok(());
        }
        Err(Failure::error("the session cannot be written, so nothing more was changed"))
    }
}

/// `--yes`, or yes on a terminal.
pub(crate) fn agreed(consent: &Consent, out: &mut dyn Write) -> Result<bool, Failure> {
    if consent.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("this changes files, and nobody can be asked here")
            .hint("add --yes to do it, --dry-run to look only"));
    }
    write(out, "Do it? [y/N] ")?;
    out.flush().map_err(|e| Failure::error(format!("cannot write to stdout: {e}")))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|e| Failure::error(format!("cannot read stdin: {e}")))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// A plan for people.
fn shown(plan: &Plan, what: &str, damaged: usize) -> String {
    let mut text = format!("{what} of {} calls:\n", plan.labels.len());
    for label in plan.labels.iter().take(20) {
        let _ = writeln!(text, "  {}", one_line(label, 100));
    }
    let noted: Vec<&PlannedPath> = plan.paths.iter().filter(|p| p.action != Action::Unchanged).collect();
    for path in noted.iter().take(SHOWN) {
        let _ = writeln!(text, "{}", line(path));
    }
    if noted.len() > SHOWN {
        let _ = writeln!(text, "  … and {} more paths", noted.len() - SHOWN);
    }
    for skipped in plan.skipped.iter().take(20) {
        let _ = writeln!(text, "  was not kept: {} ({})", skipped.path.0.display(), skipped.reason);
    }
    if plan.skipped.len() > 20 {
        let _ = writeln!(text, "  … and {} more that were not kept", plan.skipped.len() - 20);
    }
    if damaged > 0 {
        let _ = writeln!(
            text,
            "  {damaged} records of this session are damaged; what they held is not in this list"
        );
    }
    let count = |wanted: fn(&Action) -> bool| plan.count(wanted);
    let _ = writeln!(
        text,
        "{} to restore, {} to delete, {} unchanged, {} conflicts, {} lost",
        count(|a| *a == Action::Restore),
        count(|a| *a == Action::Delete),
        count(|a| *a == Action::Unchanged),
        count(|a| matches!(a, Action::Conflict(_))),
        count(|a| matches!(a, Action::Lost(_))),
    );
    becket_print::clean(&text).into_owned()
}

fn line(path: &PlannedPath) -> String {
    let (word, why) = match &path.action {
        Action::Restore => ("restore", String::new()),
        Action::Delete => ("delete", String::new()),
        Action::Unchanged => ("unchanged", String::new()),
        Action::Conflict(why) => ("conflict", format!(": {why}; left alone unless --force")),
        Action::Lost(why) => ("lost", format!(": {why}")),
    };
    let lines = path.lines.map(|(plus, minus)| format!(" +{plus} -{minus}")).unwrap_or_default();
    let kind = match &path.want {
        Some(FileNode::Dir { .. }) => " directory".to_owned(),
        Some(FileNode::Symlink { .. }) => " link".to_owned(),
        Some(FileNode::File(_)) => format!("{lines} {} bytes", short(path.bytes)),
        None => lines,
    };
    format!("  {word:<9} {}{kind}{why}", path.path.display())
}
