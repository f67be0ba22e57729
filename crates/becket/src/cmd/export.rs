//! `becket export`: a session as Markdown or one HTML page for people, or as JSONL for programs.

use crate::args::{ExportArgs, ExportFormat};
use crate::cmd::{is_stdout, one_line, pick_session, short, store_failure, write};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_exchange::export::{self, Format, Secrets};
use becket_session::StoreError;
use becket_session::store::SessionSummary;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

/// Writes the export. Returns the number of secrets that were masked in it.
pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &ExportArgs,
    out: &mut dyn Write,
) -> Result<usize, Failure> {
    let secrets = match (args.with_secrets, args.format) {
        (false, _) => Secrets::Mask,
        (true, ExportFormat::Jsonl) => Secrets::Keep,
        (true, ExportFormat::Md | ExportFormat::Html) => {
            return Err(Failure::usage(
                "--with-secrets needs --format jsonl; the other formats are for people",
            ));
        }
    };
    if args.json && args.output.as_deref().is_some_and(is_stdout) {
        return Err(Failure::usage("--json reports a written file, so -o needs the name of one"));
    }
    let session = pick_session(environment, cwd, args.session.as_deref())?;
    let format = match args.format {
        ExportFormat::Jsonl if args.blobs => Format::Whole,
        ExportFormat::Jsonl => Format::Jsonl,
        ExportFormat::Html => Format::Html,
        ExportFormat::Md => Format::Markdown,
    };
    match args.output.as_deref().filter(|path| !is_stdout(path)) {
        None if format != Format::Jsonl && format != Format::Whole && std::io::stdout().is_terminal() => {
            // A terminal would obey escape sequences in the text. A file gets the text unchanged.
            let mut text = Vec::new();
            let masked = export::export(&session.dir, format, secrets, &mut text).map_err(store_failure)?;
            let text = String::from_utf8_lossy(&text);
            out.write_all(becket_print::clean(&text).as_bytes())
                .map_err(|e| Failure::error(format!("cannot write: {e}")))?;
            Ok(masked)
        }
        None => export::export(&session.dir, format, secrets, out).map_err(store_failure),
        Some(path) => {
            if !args.force && fs::symlink_metadata(path).is_ok_and(|there| there.is_file()) {
                return Err(Failure::usage(format!("{} exists, so nothing was written", path.display()))
                    .hint("add --force to replace it, or name another file"));
            }
            let masked = into_file(path, |file| {
                export::export(&session.dir, format, secrets, file).map_err(|error| match error {
                    StoreError::Target(error) => cannot_write(path, &error),
                    other => store_failure(other),
                })
            })?;
            report_written_file(&session, path, masked, args.json, out)?;
            Ok(masked)
        }
    }
}

/// Reports the written file. Nothing is reported for a pipe or a device, whose reader has the content.
fn report_written_file(
    session: &SessionSummary,
    path: &Path,
    masked: usize,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let bytes = fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|there| there.len());
    if as_json {
        let body = json!({
            "session": session.id, "title": session.title, "file": path.to_string_lossy(), "bytes": bytes, "secrets_masked": masked,
        });
        return write(out, &format!("{body}\n"));
    }
    let Some(bytes) = bytes else { return Ok(()) };
    let label = one_line(session.label(), 60);
    write(out, &format!("{} ({label}) is in {}, {}B.\n", session.id, path.display(), short(bytes)))
}

/// Returns a line about the masked secrets of an export; none if there were none.
pub(crate) fn masked_note(masked: usize, format: ExportFormat) -> Option<String> {
    let how = match format {
        ExportFormat::Jsonl => {
            ". The line hashes were computed again, so they differ from the original. Use --with-secrets for an exact copy."
        }
        ExportFormat::Md | ExportFormat::Html => "",
    };
    match masked {
        0 => None,
        1 => Some(format!("1 secret is masked{how}")),
        _ => Some(format!("{masked} secrets are masked{how}")),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::error(format!("cannot write {}: {error}", path.display()))
}

/// Writes to a temporary file beside the target first, so that an existing file survives a failure. A pipe or device is
/// written directly.
fn into_file(
    path: &Path,
    export: impl FnOnce(&mut BufWriter<File>) -> Result<usize, Failure>,
) -> Result<usize, Failure> {
    let cannot = |e: io::Error| cannot_write(path, &e);
    let there = fs::symlink_metadata(path).ok();
    let is_plain = there.as_ref().is_none_or(fs::Metadata::is_file);
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let to = if is_plain { PathBuf::from(new) } else { path.to_owned() };
    let mut file = BufWriter::new(File::create(&to).map_err(cannot)?);
    let written = export(&mut file).and_then(|masked| {
        let file = file.into_inner().map_err(|e| cannot(e.into_error()))?;
        if is_plain {
            if let Some(there) = there {
                file.set_permissions(there.permissions()).map_err(cannot)?;
            }
            file.sync_all().and_then(|()| fs::rename(&to, path)).map_err(cannot)?;
        }
        Ok(masked)
    });
    if written.is_err() && is_plain {
        let _ = fs::remove_file(&to);
    }
    written
}
