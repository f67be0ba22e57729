//! `becket import`: a session from a file. becket's own files are imported byte for byte, those of other agents with
//! all their calls. Parts that could not be imported are listed.

use crate::args::ImportArgs;
use crate::cmd::{count, one_line, store_failure, write};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::recorded_settings::PRIVILEGED_STATES;
use becket_exchange::import::{self, Conversation, Source, import_from_others, import_own};
use becket_session::StoreError;
use becket_session::context::ModelScope;
use becket_session::store::{self, SessionSummary};
use becket_types::{Role, SessionId};
use serde_json::json;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &ImportArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let bytes = read(&args.file)?;
    let text = String::from_utf8_lossy(&bytes);
    let Some(source) = Source::detect(&text) else {
        let why = unknown_format_reason(&text);
        return Err(Failure::usage(format!(
            "{} is not a session that becket can read{why}",
            args.file.display()
        ))
        .hint(
            "known: becket export --format jsonl; Claude Code's ~/.claude/projects/*/*.jsonl; Codex' \
             ~/.codex/sessions/**/rollout-*.jsonl; opencode export",
        ));
    };
    if source == Source::Becket {
        return import_becket_export(environment, cwd, args, &bytes, out);
    }
    let mut conversation = import::read(source, &text)
        .map_err(|why| Failure::usage(format!("{}: {why}", args.file.display())))?;
    if let Cow::Owned(text) = &text {
        let signs = text.matches(char::REPLACEMENT_CHARACTER).count() as u64;
        conversation.left_out.insert("bytes that are not UTF-8 (replaced by U+FFFD)".to_owned(), signs);
    }
    let digest = becket_session::blobs::id_of(&bytes).to_string();
    if let Some(known) = find_earlier_import(environment, &digest)?.filter(|_| !args.again) {
        return report_earlier_import(&known, args, out);
    }
    conversation.digest = Some(digest);
    import_other_agent(environment, cwd, args, &conversation, out)
}

/// Returns the session that was made from a file with this hash.
fn find_earlier_import(environment: &Environment, digest: &str) -> Result<Option<SessionSummary>, Failure> {
    let sessions = store::list(&environment.sessions_dir(), None).map_err(store_failure)?;
    let found = sessions
        .into_iter()
        .find(|s| s.extra.get("imported").is_some_and(|imported| imported["digest"] == digest));
    Ok(found)
}

/// Reports that the file was imported before, names that session, and writes nothing.
fn report_earlier_import(
    known: &SessionSummary,
    args: &ImportArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if args.json {
        return write(out, &format!("{}\n", json!({ "session": known.id, "was_there": true })));
    }
    let label = one_line(known.label().trim_matches(['(', ')']), 60);
    let text = format!(
        "This file was imported before, as {} ({label}).\nTo continue it: becket --resume {}\nTo import it once more: add --again\n",
        known.id, known.id
    );
    write(out, &becket_print::clean(&text))
}

/// Largest file that is imported, in bytes. An export with all its images is much smaller.
const MAX_BYTES: u64 = 1 << 30;

/// Reads standard input for `-`, or a regular file: opening a pipe would wait until somebody writes into it.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", file.display()));
    if file != Path::new("-") {
        return becket_files::read(file, MAX_BYTES).map_err(|error| {
            let failure = cannot(error);
            if file.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
                failure.hint(format!("becket import - < {} reads it from standard input", file.display()))
            } else {
                failure
            }
        });
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!("standard input has more than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Describes why no known format fits the file.
fn unknown_format_reason(text: &str) -> String {
    let head = text.trim_start_matches('\u{feff}').trim_start();
    if head.is_empty() {
        return ": it is empty".to_owned();
    }
    if !head.starts_with(['{', '[']) {
        return ": it is not JSON".to_owned();
    }
    // The file may be one JSON value over many lines, or one for each line. The error is only reported if neither form can be parsed.
    let error = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).err();
    match error(head.lines().next().unwrap_or_default()).and_then(|_| error(head)) {
        Some(error) => format!(": its JSON breaks off or is damaged ({error})"),
        None => ": no record has a known format".to_owned(),
    }
}

fn import_becket_export(
    environment: &Environment,
    cwd: &Path,
    args: &ImportArgs,
    bytes: &[u8],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let into = args.here.then_some(cwd);
    let sessions = environment.sessions_dir();
    let imported = if args.trust {
        import_own(&sessions, bytes, into)
    } else {
        import_from_others(&sessions, bytes, into, &PRIVILEGED_STATES)
    };
    let imported = imported.map_err(|e| match e {
        StoreError::Exists { id } => Failure::usage(format!(
            "the session {id} already exists here, and parts of the file are missing from it"
        ))
        .hint(format!(
            "becket --resume {id} continues the one here; becket sessions rm {id} removes it, so that the file can \
             be imported"
        )),
        StoreError::NotFound { .. } => Failure::usage(format!(
            "{}: it has no intact first line of a session",
            args.file.display()
        ))
        .hint("its beginning is missing or was changed; only a complete export can be imported"),
        StoreError::Newer { format, known, version, .. } => Failure::usage(format!(
            "{} is a session of format {format}, written by a newer becket ({version}); this one reads format {known}",
            args.file.display()
        ))
        .hint("update becket, and import it again; nothing was imported"),
        other => store_failure(other),
    })?;
    let damaged: Vec<String> = imported.bad.iter().map(ToString::to_string).collect();
    if args.json {
        let body = json!({
            "session": imported.id, "source": "becket", "commits": imported.lines, "blobs": imported.blobs,
            "was_there": imported.was_there, "went_on": imported.went_on, "damaged": damaged, "left_out": { "damaged blobs": imported.bad_blobs.len() },
        });
        return write(out, &format!("{body}\n"));
    }
    let mut text = if imported.was_there {
        let more = if imported.went_on {
            "it contains all of the file, and continues after it"
        } else {
            "the same byte for byte"
        };
        let copy = if args.again {
            format!(
                "An imported becket session keeps its id. To get a second copy: becket sessions fork {}\n",
                imported.id
            )
        } else {
            String::new()
        };
        format!("{} already exists here: {more}.\n{copy}", imported.id)
    } else {
        format!(
            "Imported {}: {}, {}, byte for byte.\n",
            imported.id,
            count(imported.lines as usize, "commit"),
            count(imported.blobs as usize, "blob")
        )
    };
    for record in &damaged {
        let _ = writeln!(text, "damaged record (kept): {record}");
    }
    for blob in &imported.bad_blobs {
        let _ = writeln!(text, "damaged blob (left out): {}", one_line(blob, 64));
    }
    if !imported.was_there && !args.trust {
        text.push_str(
            "It starts with this machine's permission mode, folders and limits, and its earlier changes of files cannot be \
             undone here. If you made the file yourself, import it with --trust.\n",
        );
    }
    let _ = writeln!(text, "To continue it: becket --resume {}", imported.id);
    write(out, &text)
}

/// Writes a conversation of another agent as a session of this project, and returns its id.
///
/// # Errors
///
/// Returns a failure for the user if the session cannot be written.
pub(crate) fn store_imported(
    environment: &Environment,
    project: &Path,
    conversation: &Conversation,
) -> Result<SessionId, Failure> {
    let policy = crate::settings::policy_in(environment, project);
    let version = env!("CARGO_PKG_VERSION");
    let mut session = conversation
        .write(&environment.sessions_dir(), project, version, policy, ModelScope::no_model())
        .map_err(store_failure)?;
    if !session.flush() || !session.is_persistent() {
        return Err(Failure::error("the session cannot be written"));
    }
    Ok(session.id())
}

/// Imports a conversation of another agent, and lists what could not be imported.
fn import_other_agent(
    environment: &Environment,
    cwd: &Path,
    args: &ImportArgs,
    conversation: &Conversation,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    // Prefers the session's own directory if it exists here.
    let own = conversation.cwd.as_deref().filter(|dir| !args.here && dir.is_dir());
    let project: PathBuf = own.unwrap_or(cwd).to_path_buf();
    let id = store_imported(environment, &project, conversation)?;
    let role = |role: Role| conversation.messages.iter().filter(|(_, m)| m.role == role).count();
    let calls: usize = conversation.messages.iter().map(|(_, m)| m.call_ids().count()).sum();
    if args.json {
        let body = json!({
            "session": id, "source": conversation.source, "id": conversation.id, "cwd": project.to_string_lossy(),
            "title": conversation.title, "model": conversation.model,
            "user_messages": role(Role::User), "answers": role(Role::Assistant), "calls": calls,
            "results": role(Role::Tool), "left_out": conversation.left_out,
        });
        return write(out, &format!("{body}\n"));
    }
    let mut text = format!(
        "Imported {} from {}: {} of the user, {}, {}, {}\n  directory {}\n",
        id,
        conversation.source,
        count(role(Role::User), "message"),
        count(role(Role::Assistant), "answer"),
        count(calls, "call"),
        count(role(Role::Tool), "result"),
        project.display(),
    );
    if conversation.left_out.is_empty() {
        text.push_str("Everything was imported.\n");
    } else {
        text.push_str("Not imported:\n");
        for (what, times) in &conversation.left_out {
            let _ = writeln!(text, "  {times:>5}  {}", one_line(what, 100));
        }
    }
    let _ = writeln!(text, "To continue it: becket --resume {id}");
    write(out, &becket_print::clean(&text))
}
