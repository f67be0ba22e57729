//! Changes of the context by hand from the command line: shown first with what they do to the cache, then asked for.
//!
//! What a change does is the engine's (`session::context::edit`); here are the arguments, the question and the words.

use crate::args::ContextArgs;
use crate::cmd::open;
use crate::cmd::sessions::write;
use crate::cmd::undo::agreed;
use crate::cmd::{not_saved, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_model::ModelInfo;
use becket_session::context::edit::{self, Edit};
use becket_session::store::SessionSummary;
use becket_session::{Durability, Session};
use becket_types::{ContextChange, Entry};
use serde_json::json;
use std::io::Write;

pub(super) fn run(
    environment: &Environment,
    summary: &SessionSummary,
    info: &ModelInfo,
    args: &ContextArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut session = open(environment, summary, becket_agent::scope(info))?;
    let entries: Vec<Entry> = session.entries().map_err(store_failure)?.collect();
    let change = change(args);
    let edit = edit::plan(session.view_mut(), &entries, &change, info.prices)
        .map_err(|refused| Failure::usage(refused.why).hint(refused.hint))?;
    if args.json {
        return as_json(&mut session, edit, &change, args, out);
    }
    write(out, &becket_print::clean(&edit.plan.to_string()))?;
    if args.consent.dry_run {
        return Ok(());
    }
    if !agreed(&args.consent, out)? {
        return write(out, "Nothing was changed.\n");
    }
    apply(&mut session, edit)?;
    let back = if change == ContextChange::Undo { "--redo" } else { "--undo" };
    write(out, &format!("Done. To take this back: becket context {} {back}\n", session.id()))
}

fn change(args: &ContextArgs) -> ContextChange {
    let items = |list: &[String]| list.to_vec();
    if args.undo {
        ContextChange::Undo
    } else if args.redo {
        ContextChange::Redo
    } else if !args.drop.is_empty() {
        ContextChange::Drop { items: items(&args.drop) }
    } else if !args.collapse.is_empty() {
        ContextChange::Collapse { items: items(&args.collapse) }
    } else if !args.pin.is_empty() {
        ContextChange::Pin { items: items(&args.pin) }
    } else {
        ContextChange::Restore { items: items(&args.restore) }
    }
}

fn as_json(
    session: &mut Session,
    edit: Edit,
    change: &ContextChange,
    args: &ContextArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let applied = args.consent.yes && !args.consent.dry_run;
    let plan = &edit.plan;
    let body = json!({
        "op": change.name(), "items": plan.items, "applied": applied,
        "tokens_before": plan.tokens_before, "tokens_after": plan.tokens_after,
        "messages": plan.messages, "messages_unchanged": plan.messages_unchanged, "tokens_resent": plan.tokens_resent,
        "usd_once": plan.usd_once, "usd_saved_per_request": plan.usd_saved_per_request,
    });
    if applied {
        apply(session, edit)?;
    }
    write(out, &format!("{body}\n"))
}

fn apply(session: &mut Session, edit: Edit) -> Result<(), Failure> {
    let kinds = edit.into_entries(session.last_seq());
    session.append(kinds, Durability::Synced).map_err(store_failure)?;
    if session.flush() { Ok(()) } else { Err(not_saved(session)) }
}
