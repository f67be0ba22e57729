//! Changes of the context from the command line: shows the agent's plan with its effect on the cache, asks, and carries
//! it out.

use super::LoadedSession;
use crate::args::ContextArgs;
use crate::cmd::live::{Answer, Live};
use crate::cmd::undo::confirm;
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::store::SessionSummary;
use becket_types::{Command, ContextChange};
use serde_json::json;
use std::io::Write;

pub(super) fn run(
    environment: &Environment,
    summary: &SessionSummary,
    args: &ContextArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let change = change(args);
    let tools = LoadedSession::open(environment, summary.clone())?.tools();
    let mut live = Live::open_with(environment, summary, tools)?;
    let plan = match live.ask(Command::ChangeContext(change.clone()))? {
        Answer::ContextPlanned(plan) => plan,
        Answer::Nothing(why) => return Err(Failure::usage(why)),
        _ => return live.end(),
    };
    if !args.json {
        write(out, &becket_print::clean(&plan.to_string()))?;
    }
    let may = !args.consent.dry_run;
    let goes = may && if args.json { args.consent.yes } else { confirm(args.consent.yes, out)? };
    if goes {
        live.ask(Command::CarryOut { plan: plan.plan, force: false })?;
    } else if may && !args.json {
        write(out, "Nothing was changed.\n")?;
    }
    live.end()?;
    if args.json {
        let body = json!({
            "op": change.name(), "items": plan.items, "applied": goes,
            "tokens_before": plan.tokens_before, "tokens_after": plan.tokens_after,
            "messages": plan.messages, "messages_unchanged": plan.messages_unchanged,
            "tokens_resent": plan.tokens_resent, "usd_once": plan.usd_once,
            "usd_saved_per_request": plan.usd_saved_per_request,
        });
        return write(out, &format!("{body}\n"));
    }
    if goes {
        let back = if change == ContextChange::Undo { "--redo" } else { "--undo" };
        write(out, &format!("Done. To take this back: becket context {} {back}\n", summary.id))?;
    }
    Ok(())
}

fn change(args: &ContextArgs) -> ContextChange {
    let items = |list: &[String]| list.to_vec();
    if args.edit.undo {
        ContextChange::Undo
    } else if args.edit.redo {
        ContextChange::Redo
    } else if !args.edit.drop.is_empty() {
        ContextChange::Drop { items: items(&args.edit.drop) }
    } else if !args.edit.collapse.is_empty() {
        ContextChange::Collapse { items: items(&args.edit.collapse) }
    } else if !args.edit.pin.is_empty() {
        ContextChange::Pin { items: items(&args.edit.pin) }
    } else {
        ContextChange::Restore { items: items(&args.edit.restore) }
    }
}
