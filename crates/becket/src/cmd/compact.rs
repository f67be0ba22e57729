//! `becket compact`: a compaction in the open. Shown first, with what would be lost; the summary can be written by hand;
//! undone, redone, and proven to have left alone what must never be lost.
//!
//! The rules are the engine's (`session::context::compaction`); here are the model, the editor and the words. A preview
//! locks and writes nothing.

mod ask;
mod report;

use crate::args::CompactArgs;
use crate::cmd::context::{Reading, info};
use crate::cmd::open;
use crate::cmd::sessions::write;
use crate::cmd::undo::agreed;
use crate::cmd::{not_saved, one_line, pick_session, short, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::Durability;
use becket_session::context::budget::{Budget, Meter};
use becket_session::context::compaction::{
    self, Failure as SummaryFailure, Floor, Folded, Governor, Outcome, Request, Snapshot, Step, Summariser,
};
use becket_session::context::{View, edit, present};
use becket_session::store::SessionSummary;
use becket_types::{CompactionTrigger, Entry, EntryKind, Message, MessageId, Millis};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;

/// What a compaction would do, worked out on a copy.
struct Preview {
    outcome: Outcome,
    folded: Folded,
    /// What was sent and used for the summary, to be recorded when it applies.
    sent: Vec<ask::Answered>,
}

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &CompactArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let summary = pick_session(environment, cwd, args.session.as_deref())?;
    if args.undo || args.redo {
        return change(environment, &summary, args, out);
    }
    let mut reading = Reading::of(environment, summary)?;
    if args.verify {
        return verify(&mut reading.view, args.json, out);
    }
    if args.folded {
        return folded(&reading, args.json, out);
    }
    let preview = match preview(environment, cwd, &mut reading, args)? {
        Ok(preview) => preview,
        Err(why) => return nothing(&why, args.json, out),
    };
    let applies = !args.preview && !args.consent.dry_run;
    if let Some(path) = &args.output {
        std::fs::write(path, &preview.outcome.report.summary)
            .map_err(|e| Failure::error(format!("cannot write {}: {e}", path.display())))?;
    }
    if args.json {
        let applied = applies && args.consent.yes;
        let body = report::json(&preview, applied);
        if applied {
            apply(environment, &reading, preview)?;
        }
        return write(out, &format!("{body}\n"));
    }
    report::print(&preview, out)?;
    if !applies {
        return Ok(());
    }
    if !agreed(&args.consent, out)? {
        return write(out, "Nothing was changed.\n");
    }
    let id = apply(environment, &reading, preview)?;
    write(out, &format!("Compacted. To take this back: becket compact {id} --undo\n"))
}

fn nothing(why: &str, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if as_json {
        return write(out, &format!("{}\n", json!({ "applied": false, "nothing": why })));
    }
    write(out, &format!("Not compacted: {}.\n", why.trim_end_matches('.')))
}

/// The compaction on a copy of the view; why there is none inside.
fn preview(
    environment: &Environment,
    cwd: &Path,
    reading: &mut Reading,
    args: &CompactArgs,
) -> Result<Result<Preview, String>, Failure> {
    let written = args.summary.as_ref().map(|path| {
        std::fs::read_to_string(path)
            .map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))
    });
    let written = written.transpose()?;
    let mut asker = None;
    if written.is_none() && !args.no_model {
        let name = args.model.as_deref().or(reading.model.as_deref());
        asker = Some(ask::Asker::new(environment, cwd, name, args.context_window, reading.blobs())?);
    }
    let (budget, _) = reading.budget(args.context_window);
    let summariser = asker.as_ref().map(|asker| {
        let info = asker.info();
        Summariser {
            name: info.id.clone(),
            budget: Budget::new(info.window, info.input_limit, info.max_output),
            prices: info.prices,
            cache_warm: false,
        }
    });
    let floor = Floor::of(reading.view.system_items(), &reading.tools());
    let model = info(reading.model.as_deref()).id;
    let meter = Meter::of_session(&reading.view, &model).unwrap_or_default();
    let request = Request {
        trigger: CompactionTrigger::Manual,
        focus: args.focus.clone(),
        floor,
        used: meter.used(floor.total() + reading.view.estimated_tokens()),
        budget,
        // A summary that was written by hand stands in for the model's.
        summariser: summariser.or_else(|| written.as_ref().map(|_| by_hand(budget.window))),
        continuation_id: MessageId::new(),
        now: now(),
    };
    let snapshot = Snapshot::of(&reading.view, request);
    let mut outcome = match steps(compaction::begin(snapshot), asker.as_mut(), written.as_deref())? {
        Ok(outcome) => outcome,
        Err(why) => return Ok(Err(why)),
    };
    let edited = match (&written, args.edit) {
        (Some(text), _) => Some(text.clone()),
        (None, true) => Some(ask::edited(environment, &outcome.report.summary)?),
        (None, false) => None,
    };
    if written.is_some() {
        // That no model was asked is what the person wants.
        outcome.notices.clear();
    }
    if let Some(text) = edited.filter(|text| text.trim() != outcome.report.summary.trim()) {
        outcome = outcome.edited(&text).ok_or_else(|| {
            Failure::usage("this summary frees nothing: it is longer than what it stands for")
                .hint("shorten it, or let the model write it")
        })?;
    }
    let sent = asker.map(ask::Asker::into_answered).unwrap_or_default();
    let folded = Folded::by(&outcome, &reading.view, &reading.all_entries()?);
    Ok(Ok(Preview { outcome, folded, sent }))
}

/// Stands for a person, who has no window.
fn by_hand(window: u64) -> Summariser {
    let window = window.max(1_000_000);
    Summariser {
        name: String::new(),
        budget: Budget::new(window, window, 32_000),
        prices: None,
        cache_warm: false,
    }
}

fn steps(
    mut step: Step,
    mut asker: Option<&mut ask::Asker>,
    written: Option<&str>,
) -> Result<Result<Outcome, String>, Failure> {
    let mut given = false;
    loop {
        match step {
            Step::Ask(ask) => {
                let answer = match (&mut asker, written) {
                    (Some(asker), _) => asker.ask(&ask.request())?,
                    // Once; when it does not follow the template, the program's own shape takes its place until the
                    // person's text is put in.
                    (None, Some(text)) if !std::mem::replace(&mut given, true) => Ok(text.to_owned()),
                    _ => Err(SummaryFailure::Error("the summary is a person's".to_owned())),
                };
                step = ask.answer(answer);
            }
            Step::Commit(outcome) => return Ok(Ok(*outcome)),
            Step::Stop(stop) => return Ok(Err(stop.headless())),
            Step::Nothing(why) => return Ok(Err(why.to_owned())),
            Step::Prepared(_) | Step::Unprepared(_) => return Ok(Err("nothing was prepared".to_owned())),
        }
    }
}

fn apply(environment: &Environment, reading: &Reading, preview: Preview) -> Result<String, Failure> {
    let view = &reading.view;
    let mut session = open(environment, &reading.summary, view.scope().clone())?;
    if session.last_seq() != view.last_seq() {
        return Err(Failure::error("the session went on meanwhile, so nothing was changed")
            .hint("look again: becket compact --preview"));
    }
    let budget = Budget::new(u64::MAX / 4, u64::MAX / 4, 0);
    let mut governor = Governor::from_state(session.view().state(Governor::KEY));
    governor.succeeded(preview.outcome.report.tokens_after, &budget);
    let asked: Vec<EntryKind> = preview.sent.iter().flat_map(|answered| answered.entries(&session)).collect();
    session.append(asked, Durability::Buffered).map_err(store_failure)?;
    let mut kinds = preview.outcome.entries;
    kinds.push(governor.entry());
    kinds.extend(
        preview
            .outcome
            .notices
            .into_iter()
            .map(|text| EntryKind::Notice { text, extra: serde_json::Map::new() }),
    );
    session.append(kinds, Durability::Synced).map_err(store_failure)?;
    if !session.flush() {
        return Err(not_saved(&mut session));
    }
    Ok(session.id().to_string())
}

/// Undo and redo: one more entry.
fn change(
    environment: &Environment,
    summary: &SessionSummary,
    args: &CompactArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let reading = Reading::of(environment, summary.clone())?;
    let tools = Floor::of(&[], &reading.tools()).total();
    let scope = becket_agent::scope(&info(reading.model.as_deref()));
    let mut session = open(environment, summary, scope)?;
    let change = if args.undo {
        let compaction = session.view().compaction().map(|(seq, _)| seq);
        compaction.map(|entry| (vec![EntryKind::Revert { entry }], entry))
    } else {
        let entries: Vec<Entry> = session.entries().map_err(store_failure)?.collect();
        edit::redo_compaction(session.view(), &entries)
    };
    let Some((kinds, compaction)) = change else {
        let what = if args.undo { "compaction to undo" } else { "undone compaction to redo" };
        return Err(Failure::usage(format!("this session has no {what}")));
    };
    let before = session.view().estimated_tokens() + tools;
    if args.consent.dry_run {
        let counts = if args.undo { "would no longer count" } else { "would count again" };
        return write(out, &format!("The compaction of entry {compaction} {counts}.\n"));
    }
    session.append(kinds, Durability::Synced).map_err(store_failure)?;
    if !session.flush() {
        return Err(not_saved(&mut session));
    }
    let after = session.view().estimated_tokens() + tools;
    if args.json {
        let body = json!({ "entry": compaction, "counts": args.redo, "tokens_before": before, "tokens_after": after });
        return write(out, &format!("{body}\n"));
    }
    let (what, back) = if args.undo { ("undone", "--redo") } else { ("in force again", "--undo") };
    let text = format!(
        "The compaction is {what}: {} -> {} tokens. To take this back: becket compact {} {back}\n",
        short(before.0),
        short(after.0),
        session.id()
    );
    write(out, &text)
}

fn verify(view: &mut View, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let found = present::check(view);
    let missing = found.iter().filter(|p| !p.there).count();
    let left_out = view.compaction().map(|(_, compaction)| compaction.left_out.clone()).unwrap_or_default();
    if as_json {
        let body = json!({ "verified": missing == 0, "items": found, "left_out": left_out });
        write(out, &format!("{body}\n"))?;
    } else {
        let text = format!("{}{}", report::present(&found), report::left_out(&left_out));
        write(out, &becket_print::clean(&text))?;
    }
    if missing == 0 {
        Ok(())
    } else {
        Err(Failure::error(format!("{missing} items are missing from the context")))
    }
}

/// Messages of the ledger that the view does not show and that a person once saw.
fn folded(reading: &Reading, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
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
        let rows: Vec<Value> = messages.iter().map(|m| report::row(m)).collect();
        return write(out, &format!("{}\n", Value::Array(rows)));
    }
    if messages.is_empty() {
        return write(out, "No message is folded away.\n");
    }
    for message in messages {
        write(out, &report::line(message))?;
    }
    write(out, &format!("To bring some back: becket context {} --restore 12-15\n", reading.summary.id))
}

fn now() -> Millis {
    Millis(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
}

/// First words of a message, for lists.
fn words(message: &Message) -> String {
    let text = message.parts.iter().map(super::context::text_of).collect::<Vec<_>>().join(" ");
    one_line(&text, 80)
}
