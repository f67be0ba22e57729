//! `becket export`: a session as Markdown or one HTML page for people, or as JSONL for programs.

use crate::args::{ExportArgs, ExportFormat};
use crate::cmd::{pick_session, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::export::{self, Format};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &ExportArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let session = pick_session(environment, cwd, args.session.as_deref())?;
    let format = match args.format {
        ExportFormat::Jsonl if args.blobs => Format::Whole,
        ExportFormat::Jsonl => Format::Jsonl,
        ExportFormat::Html => Format::Html,
        ExportFormat::Md => Format::Markdown,
    };
    match &args.output {
        None if format != Format::Jsonl && format != Format::Whole && std::io::stdout().is_terminal() => {
            // A terminal obeys what stands in a text; a file has it as it was said.
            let mut text = Vec::new();
            export::export(&session.dir, format, &mut text).map_err(store_failure)?;
            let text = String::from_utf8_lossy(&text);
            out.write_all(becket_print::clean(&text).as_bytes())
                .map_err(|e| Failure::error(format!("cannot write: {e}")))
        }
        None => export::export(&session.dir, format, out).map_err(store_failure),
        Some(path) => {
            into_file(path, |file| export::export(&session.dir, format, file).map_err(store_failure))
        }
    }
}

/// Beside its place first, so that what was there stays if it fails midway. A pipe or device is written as it is.
fn into_file(
    path: &Path,
    export: impl FnOnce(&mut BufWriter<File>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let cannot = |e: io::Error| Failure::error(format!("cannot write {}: {e}", path.display()));
    let there = fs::symlink_metadata(path).ok();
    let is_plain = there.as_ref().is_none_or(fs::Metadata::is_file);
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let to = if is_plain { PathBuf::from(new) } else { path.to_owned() };
    let mut file = BufWriter::new(File::create(&to).map_err(cannot)?);
    let written = export(&mut file).and_then(|()| {
        let file = file.into_inner().map_err(|e| cannot(e.into_error()))?;
        if is_plain {
            if let Some(there) = there {
                file.set_permissions(there.permissions()).map_err(cannot)?;
            }
            file.sync_all().and_then(|()| fs::rename(&to, path)).map_err(cannot)?;
        }
        Ok(())
    });
    if written.is_err() && is_plain {
        let _ = fs::remove_file(&to);
    }
    written
}
