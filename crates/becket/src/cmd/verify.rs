//! `becket verify`: checks that a session's ledger is unchanged, by its chain of hashes and by an anchor that is kept
//! elsewhere. The blobs beside the ledger must match the hashes in it: long outputs, attachments, and files for undo.
//!
//! The chain reveals lines that were changed, exchanged, repeated or removed. It cannot reveal lines that are missing at the end,
//! or a ledger that was rewritten with matching hashes. An anchor is the hash of the last line at some moment. It
//! reveals both for everything before that moment, as long as whoever changes ledgers cannot change the file of
//! anchors.

use crate::args::VerifyArgs;
use crate::cmd::{count, pick_session, store_failure, write};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_print::ExitStatus;
use becket_session::blobs;
use becket_session::ledger::{self, Item};
use becket_session::store::Outside;
use becket_types::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

const MAX_ANCHOR_BYTES: u64 = 64 << 20;

/// A line of a file of anchors: the end of a ledger at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Anchor {
    session: SessionId,
    /// Commits up to that moment, and their size in bytes.
    commits: u64,
    bytes: u64,
    /// The hash of the last commit.
    head: String,
}

/// Result of reading a ledger.
#[derive(Default)]
struct LedgerFindings {
    commits: u64,
    entries: u64,
    bytes: u64,
    head: String,
    problems: Vec<String>,
}

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &VerifyArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let session = pick_session(environment, cwd, args.session.as_deref())?;
    let anchors = match &args.anchor {
        Some(file) => anchors(file, session.id, args.record)?,
        None => Vec::new(),
    };
    let mut found = read(&session.dir, &anchors)?;
    if args.anchor.is_some() && anchors.is_empty() && !args.record {
        found.problems.push("the file has no anchor of this session; add --record to write one".to_owned());
    }
    let sound = found.problems.is_empty();
    let recorded = match &args.anchor {
        Some(file) if args.record && sound => {
            let anchor = Anchor {
                session: session.id,
                commits: found.commits,
                bytes: found.bytes,
                head: found.head.clone(),
            };
            record(file, &anchor)?;
            true
        }
        _ => false,
    };
    if args.json {
        let value = json!({
            "session": session.id, "sound": sound, "commits": found.commits, "entries": found.entries,
            "bytes": found.bytes, "head": found.head, "anchors": anchors.len(), "recorded": recorded,
            "problems": found.problems,
        });
        write(out, &format!("{value}\n"))?;
    } else {
        write(out, &report(&found, session.id, anchors.len(), recorded))?;
    }
    Ok(if sound { ExitStatus::Ok } else { ExitStatus::Error })
}

fn report(found: &LedgerFindings, session: SessionId, anchors: usize, recorded: bool) -> String {
    let mut text = String::new();
    for problem in &found.problems {
        _ = writeln!(text, "!! {}", becket_print::clean(problem));
    }
    let state = if found.problems.is_empty() { "sound" } else { "not sound" };
    let size =
        format!("{}, {}", count(found.commits as usize, "commit"), count(found.entries as usize, "record"));
    _ = writeln!(text, "{state}: session {session}, {size}, head {}", found.head);
    if anchors > 0 && found.problems.is_empty() {
        _ = writeln!(text, "{} of this session held", count(anchors, "anchor"));
    }
    if recorded {
        text.push_str("the anchor is recorded\n");
    }
    text
}

/// Reads the ledger once, and checks the chain and the anchors on the way.
fn read(dir: &Path, anchors: &[Anchor]) -> Result<LedgerFindings, Failure> {
    let mut reader = ledger::read(dir).map_err(store_failure)?.strict();
    let store = blobs::BlobStore::on_disk(Outside::default().io, dir);
    let mut found = LedgerFindings::default();
    let mut held = vec![false; anchors.len()];
    let mut named = BTreeSet::new();
    while let Some(item) =
        reader.next_item().map_err(|e| Failure::error(format!("cannot read {}: {e}", dir.display())))?
    {
        match item {
            Item::Bad(record) => found.problems.push(record.to_string()),
            Item::Commit(entries) => {
                found.commits += 1;
                found.entries += entries.len() as u64;
                found.head = hash_of(reader.raw_line());
                found.bytes = reader.end().total;
                for entry in &entries {
                    blobs::named_by(entry, &store, &mut named);
                }
                for (anchor, held) in anchors.iter().zip(&mut held) {
                    let here = (anchor.commits, anchor.bytes) == (found.commits, found.bytes);
                    *held |= here && anchor.head == found.head;
                }
            }
        }
    }
    for (anchor, _) in anchors.iter().zip(held).filter(|(_, held)| !held) {
        found.problems.push(if anchor.commits > found.commits {
            format!(
                "cut off: an anchor names {} commits, but the ledger has {}",
                anchor.commits, found.commits
            )
        } else {
            format!("rewritten: commit {} differs from its anchor", anchor.commits)
        });
    }
    let damaged = blobs::damaged(dir).into_iter();
    found
        .problems
        .extend(damaged.map(|name| format!("blobs/{name}: changed or cut off after it was written")));
    let missing = blobs::missing(dir, named.iter()).into_iter();
    found.problems.extend(missing.map(|id| format!("blobs/{id}.zst: missing, although the ledger names it")));
    Ok(found)
}

/// Returns the hash that a line ends with.
fn hash_of(line: &[u8]) -> String {
    let end = line.len().saturating_sub(2);
    let hash = line.get(end.saturating_sub(64)..end).unwrap_or_default();
    String::from_utf8_lossy(hash).into_owned()
}

/// Returns the anchors of one session. A missing file contains none, but that is an error unless `new` is set.
fn anchors(file: &Path, session: SessionId, new: bool) -> Result<Vec<Anchor>, Failure> {
    let cannot = |e: &dyn std::fmt::Display| Failure::usage(format!("--anchor: {}: {e}", file.display()));
    let (text, _) = match becket_files::read_start(file, MAX_ANCHOR_BYTES) {
        Err(e) if !new && e.kind() == std::io::ErrorKind::NotFound => {
            return Err(Failure::usage(format!("--anchor: there is no file {}", file.display()))
                .hint("add --record to create it with the current anchor of the session"));
        }
        Err(e) if new && e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|e| cannot(&e))?,
    };
    let text = String::from_utf8(text).map_err(|e| cannot(&e))?;
    let mut out = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let anchor: Anchor = serde_json::from_str(line).map_err(|e| cannot(&e))?;
        out.extend((anchor.session == session).then_some(anchor));
    }
    Ok(out)
}

fn record(file: &Path, anchor: &Anchor) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| Failure::error(format!("cannot write {}: {e}", file.display()));
    let line = serde_json::to_string(anchor).map_err(|e| Failure::error(e.to_string()))?;
    let mut opened = OpenOptions::new().append(true).create(true).open(file).map_err(cannot)?;
    opened.write_all(format!("{line}\n").as_bytes()).and_then(|()| opened.sync_all()).map_err(cannot)
}
