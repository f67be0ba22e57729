//! `becket undo`: shows the agent's plan, asks, and carries it out. Code shared by undo, redo and rewind is here.

use crate::args::{Consent, UndoArgs};
use crate::cmd::live::{Answer, Live};
use crate::cmd::{count, one_line, pick_session, short, store_failure, when, write};
use crate::environment::Environment;
use crate::failure::{Failure, unwritten};
use becket_print::ExitStatus;
use becket_session::Session;
use becket_session::blobs::BlobStore;
use becket_session::context::{ModelScope, Policy};
use becket_session::store::{self, Disk, SessionSummary};
use becket_snapshot::history::Prompt;
use becket_snapshot::{History, Store};
use becket_types::invisible::escaped;
use becket_types::{
    BlobId, Blobs as _, Command, NodeKind, PathFate, PathPlan, RewindWhat, Seq, UndoKind, UndoOutcome,
    UndoPlan, quoted,
};
use serde_json::json;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::path::Path;
use std::sync::Arc;

const MAX_LISTED_PATHS: usize = 200;
/// Maximum number of sessions that are searched for changes if the newest has none.
const MAX_SEARCHED_SESSIONS: usize = 50;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &UndoArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let summary = pick_session(environment, cwd, args.session.as_deref())?;
    let command = match (&args.to, args.calls) {
        (Some(message), _) => {
            let to = choose(&prompts(&summary)?, message)?.id;
            Command::Rewind { to, what: RewindWhat::Files }
        }
        (None, Some(count)) => Command::UndoCalls { count },
        (None, None) => Command::Undo,
    };
    let mut live = Live::open(environment, &summary)?;
    match live.ask(command)? {
        Answer::UndoPlanned(mut plan) => {
            plan.kind = UndoKind::Undo;
            carry_out(live, &plan, (&summary, cwd), &args.consent, args.json, out)
        }
        _ => {
            let label = one_line(summary.label(), 40);
            let mut why = format!(
                "Nothing to undo in {} ({label}): it changed no files, or all its changes are already undone.",
                summary.id,
                label = quoted(&label)
            );
            if args.session.is_none()
                && let Some(other) = changed_before(environment, cwd, &summary)
            {
                let label = one_line(other.label(), 40);
                let _ = write!(
                    why,
                    " The newest session that changed files is {label}, {}: becket undo {}",
                    when(other.ledger.updated),
                    other.id,
                    label = quoted(&label)
                );
            }
            live.end()?;
            report_nothing(&why, args.json, out)
        }
    }
}

/// Returns the newest session of this directory, other than `than`, that has changes to undo.
fn changed_before(environment: &Environment, cwd: &Path, than: &SessionSummary) -> Option<SessionSummary> {
    // The result is only a hint in a message, so sessions that cannot be listed are ignored.
    let others = store::list(&environment.sessions_dir(), Some(cwd)).unwrap_or_default();
    let mut others = others.into_iter().filter(|s| s.id != than.id && s.subagent_of().is_none());
    others
        .by_ref()
        .take(MAX_SEARCHED_SESSIONS)
        .find(|summary| history(summary).is_ok_and(|history| history.undoable().next().is_some()))
}

/// Reports that there is nothing to do, which is not a failure.
pub(crate) fn report_nothing(why: &str, as_json: bool, out: &mut dyn Write) -> Result<ExitStatus, Failure> {
    let text = if as_json {
        json!({ "plan": null, "done": null, "nothing": why }).to_string()
    } else {
        why.to_owned()
    };
    write(out, &format!("{text}\n"))?;
    Ok(ExitStatus::Ok)
}

/// The blobs of a stored session, for reading.
struct StoredBlobs(BlobStore);

impl Store for StoredBlobs {
    fn put(&self, bytes: &[u8]) -> BlobId {
        self.0.put(bytes)
    }
    fn get(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.0.get(id)
    }
}

/// Reads the files and messages of a stored session. Locks and writes nothing.
fn history(summary: &SessionSummary) -> Result<History, Failure> {
    let blobs = StoredBlobs(BlobStore::in_memory(Arc::new(Disk), Some(&summary.dir)));
    let entries = store::read_entries(&summary.dir).map_err(store_failure)?;
    Ok(History::from_entries(entries.flatten().flatten(), &blobs))
}

/// Returns the user's messages of a stored session. Locks and writes nothing.
///
/// # Errors
///
/// Returns a failure for the user if the session cannot be read.
pub(crate) fn prompts(summary: &SessionSummary) -> Result<Vec<Prompt>, Failure> {
    Ok(history(summary)?.prompts().to_vec())
}

/// Returns the entries of the user's messages that an undo, a rewind or a change of the context has taken out of the conversation.
///
/// # Errors
///
/// Returns a failure for the user if the session cannot be read.
pub(crate) fn taken_out(summary: &SessionSummary, prompts: &[Prompt]) -> Result<HashSet<Seq>, Failure> {
    let peek =
        Session::peek(&summary.dir, Policy::reading(), ModelScope::no_model()).map_err(store_failure)?;
    Ok(prompts.iter().map(|prompt| prompt.seq).filter(|seq| peek.view.is_reverted(*seq)).collect())
}

/// Returns the message with this number, this id, or this beginning of an id.
pub(crate) fn choose(prompts: &[Prompt], query: &str) -> Result<Prompt, Failure> {
    let by_number = query.parse::<usize>().ok().and_then(|n| prompts.get(n.checked_sub(1)?));
    let by_id = || {
        let mut found = prompts.iter().filter(|p| query.len() >= 4 && p.id.to_string().starts_with(query));
        found.next_back().filter(|_| found.next().is_none())
    };
    by_number.or_else(by_id).cloned().ok_or_else(|| {
        Failure::usage(format!("this session has no message {query}", query = quoted(&query)))
            .hint(format!("messages by number or id:\n{}", list(prompts, &HashSet::new())))
    })
}

/// Lists the user's messages, for choosing one. Messages of the entries `taken_out` get a mark.
pub(crate) fn list(prompts: &[Prompt], taken_out: &HashSet<Seq>) -> String {
    let mut text = String::new();
    for (at, prompt) in prompts.iter().enumerate() {
        let _ = writeln!(
            text,
            "  {:>3}  {}  {}  {}{}",
            at + 1,
            when(prompt.time),
            prompt.id,
            if taken_out.contains(&prompt.seq) { "(taken out) " } else { "" },
            one_line(&prompt.text, 60)
        );
    }
    text
}

/// Shows the plan, asks, has the agent carry it out, and prints the result. `here` is the session and the folder in which
/// becket runs. Paths are shown relative to the session's folder if becket runs in or below that folder, else in full.
pub(crate) fn carry_out(
    mut live: Live,
    plan: &UndoPlan,
    (summary, here): (&SessionSummary, &Path),
    consent: &Consent,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let is_left = |fate: &PathFate| match fate {
        PathFate::Restore | PathFate::Delete => false,
        PathFate::Conflict { .. } => !consent.force,
        PathFate::Lost { .. } => true,
    };
    let left = plan.count(is_left);
    let changes = plan.conversation.as_ref().is_some_and(|c| c.entries + c.returning > 0)
        || plan.paths.len() > left
        || plan.resumed;
    let status = if left == 0 { ExitStatus::Ok } else { ExitStatus::Error };
    if !as_json {
        let folder = here.starts_with(&summary.cwd).then_some(summary.cwd.as_path());
        let is_done = changes && consent.yes && !consent.dry_run;
        write(out, &describe_plan(plan, folder, consent.force, is_done))?;
        if !consent.dry_run && !changes {
            write(out, "No file is changed.\n")?;
        }
    }
    let goes = changes && !consent.dry_run && if as_json { consent.yes } else { confirm(consent.yes, out)? };
    let mut done = None;
    if goes {
        match live.ask(Command::CarryOut { plan: plan.plan, force: consent.force })? {
            Answer::UndoDone(outcome) => done = Some(*outcome),
            Answer::Nothing(why) => return Err(Failure::error(why)),
            _ => {}
        }
    } else if changes && !as_json && !consent.dry_run {
        write(out, "Nothing was changed.\n")?;
    }
    live.end()?;
    if as_json {
        write(out, &format!("{}\n", json!({ "plan": plan, "done": done })))?;
    } else if let Some(done) = &done {
        write(out, &becket_print::clean(&outcome_text(done, plan, summary)))?;
    }
    let failed = done.as_ref().is_some_and(|outcome| !outcome.failed.is_empty());
    let declined = changes && !goes && !consent.dry_run && !as_json;
    Ok(match (failed, declined) {
        (true, _) => ExitStatus::Error,
        (false, true) => ExitStatus::Ok,
        (false, false) => status,
    })
}

/// Describes what was done, and the next step.
fn outcome_text(done: &UndoOutcome, plan: &UndoPlan, summary: &SessionSummary) -> String {
    let mut text = String::new();
    for failed in &done.failed {
        let _ = writeln!(text, "not done: {}: {}", escaped(&failed.path.0.to_string_lossy()), failed.reason);
    }
    let files = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX), "path");
    let mut parts = Vec::new();
    if done.restored > 0 {
        parts.push(format!("{} restored", files(done.restored)));
    }
    if done.deleted > 0 {
        parts.push(format!("{} deleted", files(done.deleted)));
    }
    if !parts.is_empty() {
        let back = match plan.kind {
            UndoKind::Redo => "To take this back: becket undo",
            _ => "To bring the files back: becket redo",
        };
        let _ = writeln!(text, "{}. {back} {}", parts.join(", "), summary.id);
    }
    if parts.is_empty() && plan.resumed && done.failed.is_empty() {
        text.push_str("The interrupted step is complete now. Every file had its content already.\n");
    }
    if done.conversation.is_some() {
        let message = plan.conversation.as_ref().map(|back| one_line(&back.text, 60)).unwrap_or_default();
        let _ = writeln!(
            text,
            "The conversation went back to before {message}. To continue from there: becket --resume {}",
            summary.id,
            message = quoted(&message)
        );
    }
    text
}

/// True if `--yes` was given or the user answered yes on the terminal.
pub(crate) fn confirm(yes: bool, out: &mut dyn Write) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("this needs your confirmation, and there is no user to ask here")
            .hint("add --yes to carry it out, or --dry-run to see the plan"));
    }
    write(out, "Type yes to do it: ")?;
    out.flush().map_err(|error| unwritten(&error))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|e| Failure::error(format!("cannot read stdin: {e}")))?;
    // A single letter may have been typed before the question was read.
    Ok(line.trim().eq_ignore_ascii_case("yes"))
}

/// Describes a plan. Paths below `folder` are shown relative to it. `is_done`: it is carried out without a question.
fn describe_plan(plan: &UndoPlan, folder: Option<&Path>, force: bool, is_done: bool) -> String {
    let mut text = String::new();
    if let Some(back) = &plan.conversation {
        let entries = |n: u64| if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") };
        let message = one_line(&back.text, 60);
        let comes_back = match back.returning {
            0 => String::new(),
            n => format!(", and {} that an earlier change took out of it come back", entries(n)),
        };
        let _ = writeln!(
            text,
            "The conversation {} back to before {message}: {} are no longer part of it{comes_back}.",
            if is_done { "goes" } else { "would go" },
            entries(back.entries),
            message = quoted(&message)
        );
    }
    if !plan.calls.is_empty() || !plan.turns.is_empty() {
        heading(plan, is_done, &mut text);
    }
    if plan.resumed {
        text.push_str(
            "An earlier undo or redo of this session was interrupted. This one counts as one step with it.\n",
        );
    }
    for label in plan.calls.iter().take(20) {
        let _ = writeln!(text, "  {}", one_line(label, 100));
    }
    if plan.calls.len() > 20 {
        let _ = writeln!(text, "  … and {} more", plan.calls.len() - 20);
    }
    if !plan.paths.is_empty() {
        text.push_str("Files:\n");
    }
    for path in plan.paths.iter().take(MAX_LISTED_PATHS) {
        let _ = writeln!(text, "{}", line(path, plan.kind, folder, force));
    }
    if plan.paths.len() > MAX_LISTED_PATHS {
        let _ = writeln!(text, "  … and {} more", count(plan.paths.len() - MAX_LISTED_PATHS, "path"));
    }
    for skipped in plan.skipped.iter().take(20) {
        let _ = writeln!(
            text,
            "  was not saved: {} ({})",
            escaped(&skipped.path.0.to_string_lossy()),
            skipped.reason
        );
    }
    if plan.skipped.len() > 20 {
        let _ = writeln!(text, "  … and {} more that were not saved", plan.skipped.len() - 20);
    }
    if let Some(doubt) = &plan.doubt {
        let _ = writeln!(text, "  note: {}", escaped(doubt));
    }
    if plan.damaged > 0 {
        let records =
            if plan.damaged == 1 { "1 record".to_owned() } else { format!("{} records", plan.damaged) };
        let _ =
            writeln!(text, "  damaged in this session: {records}; the files in them are not in this list");
    }
    if plan.unchanged > 0 {
        let paths = count(usize::try_from(plan.unchanged).unwrap_or(usize::MAX), "path");
        let have = if plan.unchanged == 1 { "has" } else { "have" };
        let _ = writeln!(text, "  not listed: {paths} that already {have} the wanted content");
    }
    becket_print::clean(&text).into_owned()
}

/// Names the turns of the plan, and reports that newer ones are skipped.
fn heading(plan: &UndoPlan, is_done: bool, text: &mut String) {
    let what = match (plan.kind, is_done) {
        (UndoKind::Redo, true) => "Redone",
        (UndoKind::Redo, false) => "Would be redone",
        (_, true) => "Undone",
        (_, false) => "Would be undone",
    };
    match plan.turns.as_slice() {
        [] => {
            let _ = writeln!(text, "{what}: {}", count(plan.calls.len(), "call"));
        }
        [turn] => {
            let message = one_line(&turn.text, 60);
            let _ = writeln!(
                text,
                "{what}: {} of the turn {message}, {}",
                count(plan.calls.len(), "call"),
                when(turn.time),
                message = quoted(&message)
            );
        }
        turns => {
            let _ = writeln!(
                text,
                "{what}: {} of {}:",
                count(plan.calls.len(), "call"),
                count(turns.len(), "turn")
            );
            for turn in turns {
                let _ = writeln!(text, "  {:?}, {}", one_line(&turn.text, 60), when(turn.time));
            }
            text.push_str("Calls:\n");
        }
    }
    if plan.newer > 0 && plan.kind != UndoKind::Redo {
        let newer = count(usize::try_from(plan.newer).unwrap_or(usize::MAX), "newer turn");
        let _ = writeln!(text, "({newer} changed no file, or was undone already)");
    }
}

fn line(path: &PathPlan, kind: UndoKind, folder: Option<&Path>, force: bool) -> String {
    let inside = folder.and_then(|folder| path.path.0.strip_prefix(folder).ok());
    let name = inside.filter(|name| !name.as_os_str().is_empty()).unwrap_or(&path.path.0).to_string_lossy();
    let name = escaped(&name);
    let (word, why) = match &path.fate {
        PathFate::Restore if kind == UndoKind::Redo => ("restore", ", as after the calls".to_owned()),
        PathFate::Restore => ("restore", ", as before the calls".to_owned()),
        PathFate::Delete if kind == UndoKind::Redo => ("delete", ", as the calls did".to_owned()),
        PathFate::Delete => ("delete", ", it did not exist before the calls".to_owned()),
        PathFate::Conflict { why } if force => ("overwrite", format!(": {why}; its content is saved first")),
        PathFate::Conflict { why } => ("conflict", format!(": {why}; left alone unless --force")),
        PathFate::Lost { why } => ("lost", format!(": {why}")),
    };
    let lines = path.lines.map(|(plus, minus)| format!(" +{plus} -{minus}")).unwrap_or_default();
    let what = match path.node {
        Some(NodeKind::Dir) => " directory".to_owned(),
        Some(NodeKind::Symlink) => " link".to_owned(),
        Some(NodeKind::File) => format!("{lines} {} bytes", short(path.bytes)),
        None => lines,
    };
    let mode = path.mode.map(|mode| format!(", {mode}")).unwrap_or_default();
    format!("  {word:<9} {name}{what}{mode}{why}")
}
