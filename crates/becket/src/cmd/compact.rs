//! `becket compact`: previews a compaction with its losses, applies it, undoes it and redoes it. The summary can be
//! written by hand. `--verify` proves that protected content is still present.
//!
//! The agent plans and applies compactions, as in a session. This module owns the editor and the output. A preview
//! works on a copy in memory, so it locks and writes nothing.

mod report;

use crate::args::{CompactArgs, Run};
use crate::assemble::{Assembled, assemble};
use crate::cmd::context::LoadedSession;
use crate::cmd::live::{Answer, Live};
use crate::cmd::undo::confirm;
use crate::cmd::{one_line, pick_session, short, write};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::{ForCommand, RunSettings};
use becket_session::context::{View, edit, present};
use becket_session::store::SessionSummary;
use becket_types::{Command, CompactionPlan, EntryKind, Message, MessageId};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;

const MAX_SUMMARY_BYTES: u64 = 16 << 20;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &CompactArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let summary = pick_session(environment, cwd, args.session.as_deref())?;
    if args.what.undo || args.what.redo {
        return change(environment, &summary, args, out);
    }
    if args.what.verify {
        return verify(&mut LoadedSession::open(environment, summary)?.view, args.json, out);
    }
    if args.what.removed {
        return removed(&mut LoadedSession::open(environment, summary)?, args.json, out);
    }
    let applies = !args.what.preview && !args.consent.dry_run && (!args.json || args.consent.yes);
    let mut live = agent(environment, &summary, args, applies)?;
    let plan = match plan(environment, &mut live, args)? {
        Ok(plan) => plan,
        Err(why) => {
            live.end()?;
            return report_nothing(&why, args.json, out);
        }
    };
    if let Some(path) = &args.summary.output {
        std::fs::write(path, &plan.summary)
            .map_err(|e| Failure::error(format!("cannot write {}: {e}", path.display())))?;
    }
    if !args.json {
        report::print(&plan, out)?;
    }
    let goes = applies && (args.json || confirm(args.consent.yes, out)?);
    if goes {
        live.ask(Command::CarryOut { plan: plan.plan, force: false })?;
    } else if applies {
        write(out, "Nothing was changed.\n")?;
    }
    live.end()?;
    if args.json {
        return write(out, &format!("{}\n", report::plan_json(&plan, goes)));
    }
    if goes {
        let text = format!("Compacted. To take this back: becket compact {} --undo\n", summary.id);
        return write(out, &text);
    }
    Ok(())
}

fn report_nothing(why: &str, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if as_json {
        return write(out, &format!("{}\n", json!({ "applied": false, "nothing": why })));
    }
    write(out, &format!("Not compacted: {}.\n", why.trim_end_matches('.')))
}

/// Builds the agent of the session as it would continue in its folder. Without `applies`, it works on a copy that is
/// not saved.
fn agent(
    environment: &Environment,
    summary: &SessionSummary,
    args: &CompactArgs,
    applies: bool,
) -> Result<Live, Failure> {
    let mut run = Run::headless().map_err(|error| Failure::error(format!("cannot begin: {error}")))?;
    run.session.resume = Some(summary.id.to_string());
    run.config.cd = Some(summary.cwd.clone());
    run.model.context_window = args.context_window.map(|window| window.to_string());
    run.session.no_session_persistence = !applies;
    let mut settings = RunSettings::new(run, environment)?;
    settings.command = Some(ForCommand {
        asks_no_model: args.summary.no_model || args.summary.file.is_some(),
        summary_model: args.summary.model.clone(),
    });
    let runtime = crate::runtime()?;
    let Assembled { agent, handle, .. } =
        runtime.block_on(assemble(environment, &mut settings)).map_err(|mut failure| {
            if failure.status == becket_print::ExitStatus::Usage && !failure.in_use {
                let other = "or --no-model, --model MODEL, --summary FILE";
                failure.hint =
                    Some(failure.hint.map_or_else(|| other.to_owned(), |hint| format!("{hint} {other}")));
            }
            failure
        })?;
    Ok(Live::run(runtime, agent, handle))
}

/// Returns the agent's plan, with the user's summary if there is one. The inner error is the reason why there is no
/// plan.
fn plan(
    environment: &Environment,
    live: &mut Live,
    args: &CompactArgs,
) -> Result<Result<Box<CompactionPlan>, String>, Failure> {
    let written = args.summary.file.as_ref().map(|path| {
        becket_files::read_text(path, MAX_SUMMARY_BYTES)
            .map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))
    });
    let written = written.transpose()?;
    let mut plan = match live.ask(Command::PlanCompaction { focus: args.focus.clone() })? {
        Answer::CompactionPlanned(plan) => plan,
        Answer::Nothing(why) => return Ok(Err(why)),
        _ => return Ok(Err("nothing was planned".to_owned())),
    };
    let text = match (written, args.summary.edit) {
        (Some(text), _) => Some(text),
        (None, true) => Some(report::edit_text(environment, &plan.summary)?),
        (None, false) => None,
    };
    let Some(text) = text.filter(|text| text.trim() != plan.summary.trim()) else { return Ok(Ok(plan)) };
    let before = plan.summary.clone();
    let edit = Command::EditCompaction { plan: plan.plan, summary: text };
    if let Answer::CompactionPlanned(edited) = live.ask(edit)? {
        plan = edited;
    }
    if args.summary.file.is_some() {
        // Removes the notice that no model was called: with the user's own summary, that is expected.
        plan.notices.clear();
    }
    if plan.summary == before {
        return Err(Failure::usage(
            "this summary frees nothing: it is longer than the messages that it replaces",
        )
        .hint("shorten it, or let the model write it"));
    }
    Ok(Ok(plan))
}

/// Undoes or redoes a compaction by adding an entry.
fn change(
    environment: &Environment,
    summary: &SessionSummary,
    args: &CompactArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let what = if args.what.undo { "compaction to undo" } else { "undone compaction to redo" };
    let nothing = || Failure::usage(format!("this session has no {what}"));
    let mut reading = LoadedSession::open(environment, summary.clone())?;
    if args.consent.dry_run {
        let (entry, done) = if args.what.undo {
            (reading.view.compaction().map(|(seq, _)| seq), "undone")
        } else {
            (edit::redoable_compaction(&reading.view, &reading.all_entries()?), "redone")
        };
        let entry = entry.ok_or_else(nothing)?;
        return write(out, &format!("The compaction of entry {entry} would be {done}.\n"));
    }
    let before = reading.scale().total().0;
    drop(reading);
    let mut live = Live::open(environment, summary)?;
    let command = if args.what.undo { Command::UndoCompaction } else { Command::RedoCompaction };
    let answer = live.ask(command)?;
    live.end()?;
    let Answer::CompactionReverted(compaction) = answer else { return Err(nothing()) };
    let after = LoadedSession::open(environment, summary.clone())?.scale().total().0;
    if args.json {
        let body = json!({ "entry": compaction, "counts": args.what.redo, "tokens_before": before, "tokens_after": after });
        return write(out, &format!("{body}\n"));
    }
    let (what, back) = if args.what.undo { ("undone", "--redo") } else { ("redone", "--undo") };
    let text = format!(
        "The compaction is {what}: {} -> {} tokens. To take this back: becket compact {} {back}\n",
        short(before),
        short(after),
        summary.id
    );
    write(out, &text)
}

fn verify(view: &mut View, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let found = present::check(view);
    let missing = found.iter().filter(|p| !p.there).count();
    let left_out =
        view.compaction().map(|(_, compaction)| compaction.origin.left_out.clone()).unwrap_or_default();
    if as_json {
        let body = json!({ "verified": missing == 0, "items": found, "left_out": left_out });
        write(out, &format!("{body}\n"))?;
    } else {
        let text = format!("{}{}", report::protected_content(&found), report::left_out(&left_out));
        write(out, &becket_print::clean(&text))?;
    }
    match missing {
        0 => Ok(()),
        1 => Err(Failure::error("1 item is missing from the context")),
        _ => Err(Failure::error(format!("{missing} items are missing from the context"))),
    }
}

/// Lists messages of the ledger that were visible to the user and are no longer in the view.
fn removed(reading: &mut LoadedSession, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let scale = reading.scale();
    let live: HashSet<MessageId> = reading.view.live().map(|m| m.id).collect();
    let mut parts: HashMap<MessageId, Message> = HashMap::new();
    let mut order = Vec::new();
    for entry in &reading.all_entries()? {
        match &entry.kind {
            EntryKind::Message { message }
                if message.visibility().user
                    && !live.contains(&message.id)
                    && !reading.view.is_reverted(entry.seq) =>
            {
                let mut message = message.clone();
                message.seq = entry.seq;
                order.push(message.id);
                parts.insert(message.id, message);
            }
            EntryKind::Part { message, part } => {
                if let Some(found) = parts.get_mut(message) {
                    found.parts.push(part.clone());
                }
            }
            _ => {}
        }
    }
    let messages: Vec<&Message> = order.iter().filter_map(|id| parts.get(id)).collect();
    if as_json {
        let rows: Vec<Value> = messages.iter().map(|m| report::message_json(m, scale)).collect();
        return write(out, &format!("{}\n", Value::Array(rows)));
    }
    if messages.is_empty() {
        return write(out, "No message is removed.\n");
    }
    for message in messages {
        write(out, &report::message_line(message, scale))?;
    }
    write(out, &format!("To bring some back: becket context {} --restore 12-15\n", reading.summary.id))
}

/// Returns the first words of a message, for lists.
fn first_words(message: &Message) -> String {
    let text = message.parts.iter().map(super::context::text_of).collect::<Vec<_>>().join(" ");
    one_line(&text, 80)
}
