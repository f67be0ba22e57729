//! `becket rewind`: back to before a message of the user's, for the conversation, the files, or both.
//!
//! The conversation goes back by `revert` entries, one for each message, compaction and prune behind the place; nothing
//! is deleted, and reverting those entries brings it back.

use crate::args::RewindArgs;
use crate::cmd::sessions::write;
use crate::cmd::undo::{Opened, agreed};
use crate::cmd::{one_line, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_print::ExitStatus;
use becket_snapshot::plan_undo;
use becket_types::{EntryKind, Seq};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &RewindArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let mut opened = Opened::new(environment, cwd, Some(&args.session))?;
    let Some(message) = &args.message else {
        write(out, &format!("Messages to rewind to:\n{}", opened.listing()))?;
        return Ok(ExitStatus::Ok);
    };
    let prompt = opened.prompt(message)?;
    let mut status = ExitStatus::Ok;
    if args.files || args.both {
        let changes = opened.history.since(prompt.seq);
        if changes.is_empty() {
            write(out, "No call changed files since that message.\n")?;
        } else {
            let plan = plan_undo(&changes, args.consent.force, &*opened.store);
            status = opened.carry_out(plan, &args.consent, "Undo", out)?;
        }
    }
    if args.conversation || args.both {
        let entries = behind(&opened, prompt.seq)?;
        let text = format!(
            "The conversation goes back to before \"{}\": {} entries no longer count.\n",
            one_line(&prompt.text, 60),
            entries.len()
        );
        write(out, &text)?;
        if args.consent.dry_run {
            return Ok(status);
        }
        if !entries.is_empty() && agreed(&args.consent, out)? {
            let reverts = entries.into_iter().map(|entry| EntryKind::Revert { entry }).collect();
            opened.append(reverts)?;
        }
    }
    Ok(status)
}

/// Entries from this message on that decide what the model sees and that are in force, newest first.
fn behind(opened: &Opened, from: Seq) -> Result<Vec<Seq>, Failure> {
    let mut found = Vec::new();
    let mut reverted = HashSet::new();
    for entry in opened.session.entries().map_err(store_failure)? {
        match entry.kind {
            EntryKind::Message { .. }
            | EntryKind::Compaction(_)
            | EntryKind::Prune { .. }
            | EntryKind::Pin { .. }
                if entry.seq >= from =>
            {
                found.push(entry.seq);
            }
            EntryKind::Revert { entry: target } => {
                reverted.insert(target);
            }
            _ => {}
        }
    }
    found.retain(|seq| !reverted.contains(seq));
    found.reverse();
    Ok(found)
}
