//! `becket export`: a session as Markdown or one HTML page for people, or as JSONL for programs.

use crate::args::{ExportArgs, ExportFormat};
use crate::cmd::{pick_session, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::export::{self, Format};
use std::io::{BufWriter, Write};
use std::path::Path;

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
        None => export::export(&session.dir, format, out).map_err(store_failure),
        Some(path) => {
            let cannot = |e: std::io::Error| Failure::error(format!("cannot write {}: {e}", path.display()));
            let mut file = BufWriter::new(std::fs::File::create(path).map_err(cannot)?);
            export::export(&session.dir, format, &mut file).map_err(store_failure)?;
            let file = file.into_inner().map_err(|e| cannot(e.into_error()))?;
            file.sync_all().map_err(cannot)
        }
    }
}
