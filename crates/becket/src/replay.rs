//! `becket replay`: the user's messages of a session again, in a fork of it, with another model.
//!
//! Owns the choice of the messages and the order of the runs; each message is one headless run of the fork. Results of tools
//! come from the recording or from running the tools again. The session itself is only read.

use crate::args::{OutputFormat, ReplayArgs, ReplayTools, Run};
use crate::cmd::context::LoadedSession;
use crate::cmd::sessions::{entry_before, fork_at};
use crate::cmd::{one_line, pick_session, undo};
use crate::environment::Environment;
use crate::failure::{Failure, unwritten};
use crate::recorded_results::RecordedResults;
use crate::settings::{Replay, RunSettings, enter};
use becket_print::ExitStatus;
use becket_types::{Entry, EntryKind, Part, Seq};
use clap::Parser as _;
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::sync::Arc;

/// Runs to the end, or to the first message whose run fails.
///
/// # Errors
///
/// Returns a failure for the user if the session or the message does not exist, or a run cannot begin.
pub(crate) fn run(environment: &Environment, args: &ReplayArgs) -> Result<ExitStatus, Failure> {
    let cwd = enter(args.work.cd.as_deref())?;
    let summary = pick_session(environment, &cwd, Some(&args.session))?;
    let source = summary.id;
    let reading = LoadedSession::open(environment, summary.clone())?;
    let upto = entry_before(&summary, reading.view.last_seq(), &args.from)?;
    let entries = reading.all_entries()?;
    let messages = messages(&entries, &undo::prompts(&summary)?, upto);
    if messages.is_empty() {
        return Err(Failure::usage("no message of the user follows this place")
            .hint(format!("the messages: becket rewind {source}")));
    }
    let model = args.model.as_deref().unwrap_or("the same model");
    let title = format!("{} (replay with {model})", one_line(summary.label(), 60));
    let recorded = match args.tools {
        ReplayTools::Recorded => {
            Some(Arc::new(RecordedResults::from_entries(source.to_string(), entries.iter())))
        }
        ReplayTools::Run => None,
    };
    let fork = fork_at(environment, &cwd, &reading, Some(upto), &title)?;
    let id = fork.id();
    // Each run opens the fork itself, so it must not stay open here.
    drop(fork);
    let runtime = crate::runtime()?;
    let count = messages.len();
    let mut done = 0;
    let mut status = ExitStatus::Ok;
    for parts in messages {
        let mut settings = RunSettings::new(as_run(args, &id.to_string(), &parts)?, environment)?;
        settings.task.images = parts.into_iter().filter(Part::is_media).collect();
        settings.files.replay = Some(Replay { recorded: recorded.clone() });
        status = runtime.block_on(crate::headless::run(environment, settings))?;
        if !matches!(status, ExitStatus::Ok | ExitStatus::PermissionDenied) {
            break;
        }
        done += 1;
    }
    if args.json {
        let body = json!({ "session": id.to_string(), "source": source.to_string(), "replayed": done, "messages": count });
        writeln!(io::stdout(), "{body}").map_err(|error| unwritten(&error))?;
        return Ok(status);
    }
    let _ = writeln!(
        io::stderr(),
        "becket: replayed {done} of {count} messages in session {id}; compare: becket sessions compare {source} {id}"
    );
    Ok(status)
}

/// The parts of the user's messages after this entry, oldest first. Messages that were rewound are not among them.
fn messages(entries: &[Entry], prompts: &[becket_snapshot::history::Prompt], upto: Seq) -> Vec<Vec<Part>> {
    let said: HashMap<Seq, &Vec<Part>> = entries
        .iter()
        .filter_map(|entry| match &entry.kind {
            EntryKind::Message { message } if message.is_user_turn() => Some((entry.seq, &message.parts)),
            _ => None,
        })
        .collect();
    let after = prompts.iter().filter(|prompt| prompt.seq > upto);
    after.filter_map(|prompt| said.get(&prompt.seq).map(|parts| (*parts).clone())).collect()
}

fn as_run(args: &ReplayArgs, session: &str, parts: &[Part]) -> Result<Run, Failure> {
    let mut run = Run::try_parse_from(["becket", "-p"])
        .map_err(|error| Failure::error(format!("cannot begin: {error}")))?;
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    run.prompt = Some(texts.collect::<Vec<_>>().join("\n"));
    run.session.resume = Some(session.to_owned());
    run.model.model.clone_from(&args.model);
    run.permissions.allowed_tools.clone_from(&args.allowed_tools);
    run.permissions.permission_mode.clone_from(&args.permission_mode);
    if args.json {
        run.output.output_format = OutputFormat::Json;
    }
    // `--cd` is not set, because the process has already changed to that directory.
    Ok(run)
}
