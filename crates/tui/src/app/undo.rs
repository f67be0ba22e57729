//! Undo, redo and rewind: a preview of the changes, applied once the user confirms.

use super::messages::Since;
use super::pages;
use crate::input::Effect;
use crate::overlay::{Choice, Overlay};
use becket_types::invisible::escaped;
use becket_types::{Command, ContextPlan, MessageId, PathFate, RewindWhat, UndoKind, UndoOutcome, UndoPlan};
use std::fmt::Write as _;
use std::path::Path;

/// Maximum number of paths that a page lists.
const MOST: usize = 200;

/// Returns the page that asks what to rewind to before this message of the user.
pub(super) fn rewind(to: MessageId, text: &str, since: &Since) -> Overlay {
    let quoted = format!("> {}", text.trim().replace('\n', "\n> "));
    let choice = |label: &str, short: &str, what| {
        Choice::new(label, short, Effect::Send(Command::Rewind { to, what }))
    };
    let messages = if since.messages == 1 { "1 message" } else { &format!("{} messages", since.messages) };
    let files = since.changes.as_ref().map(|changes| format!(" ({changes})")).unwrap_or_default();
    let choices = vec![
        choice(&format!("The conversation ({messages} of yours)"), "conversation", RewindWhat::Conversation),
        choice(&format!("The files{files}"), "files", RewindWhat::Files),
        choice("Both", "both", RewindWhat::Both),
    ];
    let markdown = format!(
        "Back to before this message:\n\n{quoted}\n\nWhat should go back? becket shows each change before it makes one."
    );
    pages::question("rewind", markdown, choices)
}

/// Returns the page that shows a plan and asks to carry it out. Paths in `folder` are relative to it.
///
/// # Errors
///
/// Returns the reason if the plan changes nothing.
pub(super) fn question(plan: &UndoPlan, folder: &Path) -> Result<Overlay, String> {
    if let Some(why) = idle(plan) {
        return Err(why);
    }
    let carry_out = |force| Effect::Send(Command::CarryOut { plan: plan.plan, force });
    let mut choices = vec![Choice::new("Yes", "yes", carry_out(false))];
    if has_conflicts(plan) {
        let label = "Yes, and overwrite what others changed";
        choices.push(Choice::new(label, "yes, overwrite", carry_out(true)));
    }
    Ok(pages::question(name(plan.kind), page(plan, folder), choices))
}

/// Returns the page that asks to confirm a context change that was requested outside the inspector, or whose inspector
/// was closed meanwhile.
pub(super) fn context_question(plan: &ContextPlan) -> Overlay {
    let carry_out = Effect::Send(Command::CarryOut { plan: plan.plan, force: false });
    let markdown = format!("```text\n{}```", plan.to_string().replace("```", "'''"));
    pages::question("context", markdown, vec![Choice::new("Yes", "yes", carry_out)])
}

/// Returns the reason if the plan changes nothing.
pub(crate) fn idle(plan: &UndoPlan) -> Option<String> {
    let why = if plan.unchanged > 0 { "the files already have this content" } else { "there is nothing" };
    (plan.paths.is_empty() && plan.conversation.is_none()).then(|| format!("{}: {why}", name(plan.kind)))
}

/// True if a file that the plan would overwrite was changed by others.
pub(crate) fn has_conflicts(plan: &UndoPlan) -> bool {
    plan.count(|fate| matches!(fate, PathFate::Conflict { .. })) > 0
}

/// Describes the result. Each path that was left alone or failed has a line of its own.
pub(crate) fn outcome_text(outcome: &UndoOutcome, folder: &Path) -> String {
    let files = |count: u64| format!("{count} file{}", if count == 1 { "" } else { "s" });
    let done = match (outcome.restored, outcome.deleted) {
        (0, 0) => "no file changed".to_owned(),
        (back, 0) => format!("{} restored", files(back)),
        (0, gone) => format!("{} deleted", files(gone)),
        (back, gone) => format!("{} restored, {gone} deleted", files(back)),
    };
    let mut text = format!("{}: {done}", name(outcome.kind));
    for (what, paths) in [("left alone", &outcome.left), ("failed", &outcome.failed)] {
        for path in paths {
            let _ = write!(text, "\n{what}: {} ({})", shown(&path.path.0, folder), path.reason);
        }
    }
    if let Some(back) = &outcome.conversation {
        let _ = write!(text, "\nthe conversation is back to before: {}", back.text);
    }
    text
}

fn name(kind: UndoKind) -> &'static str {
    match kind {
        UndoKind::Undo => "undo",
        UndoKind::Redo => "redo",
        UndoKind::Rewind => "rewind",
    }
}

/// Returns the path on one line, relative to the folder of the session, if it is in it. The folder itself has its whole path.
fn shown(path: &Path, folder: &Path) -> String {
    // An empty folder, before the session is known, is a prefix of every path.
    let inside = path.strip_prefix(folder).ok().filter(|inside| !inside.as_os_str().is_empty());
    escaped(&inside.unwrap_or(path).to_string_lossy()).into_owned()
}

/// Describes the plan in Markdown. Paths in `folder` are relative to it.
pub(crate) fn page(plan: &UndoPlan, folder: &Path) -> String {
    let mut out = String::new();
    if let Some(back) = &plan.conversation {
        let _ = writeln!(
            out,
            "The conversation would go back to before “{}”. What came after it stays in the session's file.\n",
            back.text
        );
        if back.returning > 0 {
            let entries = match back.returning {
                1 => "1 entry".to_owned(),
                n => format!("{n} entries"),
            };
            let _ = writeln!(out, "{entries} that an earlier change took out of it would come back.\n");
        }
    }
    for turn in &plan.turns {
        let again = if plan.kind == UndoKind::Redo { "done again" } else { "taken back" };
        let _ = writeln!(out, "Changes of the turn “{}” would be {again}.\n", turn.text.replace('`', "'"));
    }
    if plan.newer > 0 && !plan.turns.is_empty() {
        let turns =
            if plan.newer == 1 { "1 newer turn".to_owned() } else { format!("{} newer turns", plan.newer) };
        let _ = writeln!(
            out,
            "Nothing to undo in {turns}: no file was changed, or the changes are already undone.\n"
        );
    }
    if !plan.calls.is_empty() {
        out.push_str("The calls that changed files:\n\n```text\n");
        for call in plan.calls.iter().take(MOST) {
            let _ = writeln!(out, "{}", call.replace("```", "'''"));
        }
        out.push_str("```\n\n");
    }
    if !plan.paths.is_empty() {
        out.push_str("```text\n");
        for path in plan.paths.iter().take(MOST) {
            let fate = match &path.fate {
                PathFate::Restore => "restore",
                PathFate::Delete => "delete",
                PathFate::Conflict { .. } => "LEAVE ALONE",
                PathFate::Lost { .. } => "LOST",
            };
            let lines = path.lines.map_or_else(String::new, |(add, del)| format!("  +{add} −{del}"));
            let why = match &path.fate {
                PathFate::Conflict { why } | PathFate::Lost { why } => format!("  {why}"),
                PathFate::Restore | PathFate::Delete => String::new(),
            };
            let mode = path.mode.map_or_else(String::new, |mode| format!("  {mode}"));
            let _ = writeln!(out, "{fate:<11}  {}{lines}{mode}{why}", shown(&path.path.0, folder));
        }
        if plan.paths.len() > MOST {
            let _ = writeln!(out, "… and {} more", plan.paths.len() - MOST);
        }
        out.push_str("```\n");
    }
    for skipped in &plan.skipped {
        let _ = writeln!(
            out,
            "\nNot saved, so it cannot be restored: {} ({})",
            shown(&skipped.path.0, Path::new("")),
            skipped.reason
        );
    }
    if let Some(doubt) = &plan.doubt {
        let _ = writeln!(out, "\nNote: {doubt}.");
    }
    if plan.resumed {
        out.push_str("\nAn earlier undo or redo was interrupted. This one counts as one step with it.\n");
    }
    if plan.damaged > 0 {
        let _ = writeln!(out, "\n{} records are damaged; what they held is not in this list.", plan.damaged);
    }
    out
}
