//! `becket rewind`: back to before a message of the user's, for the conversation, the files, or both.
//!
//! The conversation goes back by `revert` entries, one for each message, compaction and prune behind the place; nothing
//! is deleted, and reverting those entries brings it back.

use crate::args::RewindArgs;
use crate::cmd::sessions::write;
use crate::cmd::undo::{Opened, agreed, nothing};
use crate::cmd::{one_line, pick_session, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_agent::undo::{Draft, Reach, plan_conversation};
use becket_print::ExitStatus;
use becket_snapshot::history::Prompt;
use becket_types::UndoKind;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::PoisonError;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &RewindArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let Some(message) = &args.message else {
        let prompts = Opened::prompts(&pick_session(environment, cwd, Some(&args.session))?)?;
        list(&prompts, args.json, out)?;
        return Ok(ExitStatus::Ok);
    };
    let opened = Opened::new(environment, cwd, Some(&args.session))?;
    let prompt = opened.prompt(message)?;
    if args.json && !args.consent.yes && !args.consent.dry_run {
        return Err(
            Failure::usage("with --json nobody is asked").hint("add --yes to do it, --dry-run to look only")
        );
    }
    let mut status = ExitStatus::Ok;
    if args.files || args.both {
        match opened.plan(Reach::Since(prompt.seq), &args.consent) {
            None => {
                nothing("No call changed files since that message.", args.json, out)?;
            }
            Some(plan) => {
                let draft = opened.draft(UndoKind::Rewind, plan);
                status = opened.carry_out(draft, &args.consent, args.json, out)?;
            }
        }
    }
    if args.conversation || args.both {
        conversation(&opened, &prompt, args, out)?;
    }
    Ok(status)
}

fn conversation(
    opened: &Opened,
    prompt: &Prompt,
    args: &RewindArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let session = opened.session.lock().unwrap_or_else(PoisonError::into_inner);
    let back = plan_conversation(&session, prompt).map_err(store_failure)?;
    drop(session);
    let entries = back.entries.len();
    let text = one_line(&prompt.text, 60);
    if !args.json {
        write(
            out,
            &format!("The conversation goes back to before \"{text}\": {entries} entries no longer count.\n"),
        )?;
    }
    let goes = !args.consent.dry_run && entries > 0 && agreed(&args.consent, out)?;
    if goes {
        let draft = Draft { kind: UndoKind::Rewind, files: None, damaged: 0, conversation: Some(back) };
        opened.write(draft)?;
    }
    if args.json {
        let body = json!({ "conversation": { "before": prompt.id, "entries": entries, "done": goes } });
        return write(out, &format!("{body}\n"));
    }
    Ok(())
}

/// Takes no lock: a session that runs can be listed, and forked at one of these.
fn list(prompts: &[Prompt], as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if as_json {
        let rows: Vec<Value> = (1..)
            .zip(prompts)
            .map(|(n, p)| json!({ "message": n, "id": p.id, "seq": p.seq, "text": p.text }))
            .collect();
        return write(out, &format!("{}\n", Value::Array(rows)));
    }
    if prompts.is_empty() {
        return write(out, "This session has no message to rewind to.\n");
    }
    write(out, &format!("Messages to rewind to:\n{}", Opened::list(prompts)))
}
