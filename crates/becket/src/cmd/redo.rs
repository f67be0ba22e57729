//! `becket redo`: the undo that came last is taken back.

use crate::args::RedoArgs;
use crate::cmd::undo::{Opened, nothing};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_agent::undo::Reach;
use becket_print::ExitStatus;
use becket_types::UndoKind;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &RedoArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let opened = Opened::new(environment, cwd, args.session.as_deref())?;
    match opened.plan(Reach::LastUndo, &args.consent) {
        Some(plan) => opened.carry_out(opened.draft(UndoKind::Redo, plan), &args.consent, args.json, out),
        None => nothing("Nothing to redo: no undo came last, or a call changed files since.", args.json, out),
    }
}
