//! `becket doctor --secrets`: finds secrets in the files of a folder and in its sessions.
//!
//! Searches text files that git does not ignore, and the stored sessions of this folder. Prints only the location, the
//! kind and the first letters, because the output may end up in a log. Changes nothing.

use crate::cmd::{count, store_failure, write};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_print::ExitStatus;
use becket_session::StoreError;
use becket_session::secrets::find;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;

/// Larger files are skipped: they contain data, not settings.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of files that are searched. The number of other files is reported.
const MAX_FILES: usize = 50_000;
const MAX_FINDINGS: usize = 1_000;
/// Letters of a secret that are shown.
const SHOWN_LETTERS: usize = 4;

struct Secret {
    /// `src/a.rs:12`, or `session 0198…: line 3`.
    place: String,
    kind: &'static str,
    begin: String,
}

#[derive(Default)]
struct Report {
    secrets: Vec<Secret>,
    files: usize,
    sessions: usize,
    /// Reasons why something was not searched.
    skipped: Vec<String>,
}

pub(super) fn run(
    environment: &Environment,
    cwd: &Path,
    json: bool,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let mut report = Report::default();
    files(cwd, &mut report);
    sessions(environment, cwd, &mut report).map_err(store_failure)?;
    if json {
        let rows = report.secrets.iter();
        let rows: Vec<_> =
            rows.map(|s| json!({ "place": s.place, "kind": s.kind, "begins": s.begin })).collect();
        let whole = json!({
            "ok": rows.is_empty(), "secrets": rows, "files": report.files, "sessions": report.sessions,
            "not_looked_at": report.skipped,
        });
        write(out, &format!("{whole}\n"))?;
    } else {
        print(&report, out)?;
    }
    Ok(if report.secrets.is_empty() { ExitStatus::Ok } else { ExitStatus::Error })
}

fn print(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    for secret in report.secrets.iter().take(MAX_FINDINGS) {
        let line = format!("{}: {} ({}…)\n", secret.place, secret.kind, secret.begin);
        write(out, &becket_print::clean(&line))?;
    }
    if report.secrets.len() > MAX_FINDINGS {
        write(out, &format!("… and {} more\n", report.secrets.len() - MAX_FINDINGS))?;
    }
    for line in &report.skipped {
        write(out, &format!("{}\n", becket_print::clean(line)))?;
    }
    let found = match report.secrets.len() {
        0 => "no secret was found".to_owned(),
        1 => "1 secret was found".to_owned(),
        n => format!("{n} secrets were found"),
    };
    write(
        out,
        &format!("{found} in {} and {}\n", count(report.files, "file"), count(report.sessions, "session")),
    )?;
    if report.secrets.is_empty() {
        return Ok(());
    }
    write(
        out,
        "A secret that was shown to a model or pushed is known to others: have it withdrawn and make a new one.\n",
    )
}

fn files(cwd: &Path, report: &mut Report) {
    // Settings are often in hidden files, and these are included.
    for entry in crate::disk::walk(cwd).build() {
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        if report.files == MAX_FILES {
            report.skipped.push(format!("only the first {MAX_FILES} files were searched"));
            return;
        }
        let shown = entry.path().strip_prefix(cwd).unwrap_or(entry.path()).display().to_string();
        if entry.metadata().is_ok_and(|meta| meta.len() > MAX_FILE_BYTES) {
            report
                .skipped
                .push(format!("{shown} was not searched: it is larger than {} MB", MAX_FILE_BYTES >> 20));
            continue;
        }
        let bytes = match becket_files::read_start(entry.path(), MAX_FILE_BYTES) {
            Ok((bytes, _)) => bytes,
            Err(error) => {
                report.skipped.push(format!("{shown} was not searched: {error}"));
                continue;
            }
        };
        report.files += 1;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if !text.contains('\0') {
            collect_secrets(&text, &mut report.secrets, |line| format!("{shown}:{line}"));
        }
    }
}

/// Searches the ledgers of the sessions in this folder, line by line.
fn sessions(environment: &Environment, cwd: &Path, report: &mut Report) -> Result<(), StoreError> {
    let (found, _) =
        becket_session::index::list(&environment.index_path(), &environment.sessions_dir(), Some(cwd))?;
    for session in found {
        let Ok(file) = File::open(becket_session::store::ledger_path(&session.dir)) else { continue };
        report.sessions += 1;
        let id = session.id.to_string();
        for (number, line) in BufReader::new(file).split(b'\n').map_while(Result::ok).enumerate() {
            let text = String::from_utf8_lossy(&line);
            collect_secrets(&text, &mut report.secrets, |_| format!("session {id}: line {}", number + 1));
        }
    }
    Ok(())
}

fn collect_secrets(text: &str, secrets: &mut Vec<Secret>, place: impl Fn(usize) -> String) {
    let (mut line, mut seen) = (1, 0);
    for found in find(text) {
        let between = text.get(seen..found.range.start).unwrap_or_default();
        line += between.matches('\n').count();
        seen = found.range.start;
        let begin = text.get(found.range).unwrap_or_default().chars().take(SHOWN_LETTERS).collect();
        secrets.push(Secret { place: place(line), kind: found.kind, begin });
    }
}
