//! `becket rewind`: goes back to before a message of the user, for the conversation, the files, or both.
//!
//! The conversation goes back by `revert` entries, one for each message, compaction and prune after that message.
//! Nothing is deleted, and reverting those entries restores it.

use crate::args::RewindArgs;
use crate::cmd::live::{Answer, Live};
use crate::cmd::pick_session;
use crate::cmd::undo::{self, carry_out, choose, prompts, report_nothing};
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use becket_print::ExitStatus;
use becket_snapshot::history::Prompt;
use becket_types::{Command, RewindWhat, Seq};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &RewindArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let summary = pick_session(environment, cwd, args.session.as_deref())?;
    let prompts = prompts(&summary)?;
    let Some(message) = &args.message else {
        let id = summary.id.to_string();
        let named = args.session.as_deref().filter(|name| !name.contains(char::is_whitespace));
        let taken_out = undo::taken_out(&summary, &prompts)?;
        list(&prompts, &taken_out, named.unwrap_or(&id), args.json, out)?;
        return Ok(ExitStatus::Ok);
    };
    let to = choose(&prompts, message)?.id;
    if args.json && !args.consent.yes && !args.consent.dry_run {
        return Err(Failure::usage("with --json, becket does not ask for confirmation")
            .hint("add --yes to carry it out, or --dry-run to see the plan"));
    }
    let what = match (args.both, args.conversation) {
        (true, _) => RewindWhat::Both,
        (false, true) => RewindWhat::Conversation,
        (false, false) => RewindWhat::Files,
    };
    let mut live = Live::open(environment, &summary)?;
    match live.ask(Command::Rewind { to, what })? {
        Answer::UndoPlanned(plan) => carry_out(live, &plan, (&summary, cwd), &args.consent, args.json, out),
        Answer::Nothing(why) => {
            live.end()?;
            report_nothing(&why, args.json, out)
        }
        _ => live.end().map(|()| ExitStatus::Ok),
    }
}

/// Lists the messages. Takes no lock, so a running session can be listed, and forked at one of its messages.
fn list(
    prompts: &[Prompt],
    taken_out: &HashSet<Seq>,
    session: &str,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if as_json {
        let rows: Vec<Value> = (1..)
            .zip(prompts)
            .map(|(n, p)| {
                let is_out = taken_out.contains(&p.seq);
                json!({
                    "message": n, "id": p.id, "seq": p.seq, "time": p.time, "text": p.text, "taken_out": is_out,
                })
            })
            .collect();
        return write(out, &format!("{}\n", Value::Array(rows)));
    }
    if prompts.is_empty() {
        return write(out, "This session has no message to rewind to.\n");
    }
    let branches = if taken_out.is_empty() {
        ""
    } else {
        "A message with the mark (taken out) is not part of the conversation now. Going back to before it brings back the \
         messages that it followed.\n"
    };
    write(
        out,
        &format!(
            "Messages to rewind to:\n{}{branches}To go back to before one: becket rewind {session} NUMBER with --files, \
             --conversation or --both.\n",
            undo::list(prompts, taken_out)
        ),
    )
}
