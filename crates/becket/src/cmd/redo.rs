//! `becket redo`: the undo that came last is taken back.

use crate::args::RedoArgs;
use crate::cmd::sessions::write;
use crate::cmd::undo::Opened;
use crate::environment::Environment;
use crate::failure::Failure;
use becket_print::ExitStatus;
use becket_snapshot::plan_redo;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &RedoArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let mut opened = Opened::new(environment, cwd, args.session.as_deref())?;
    match plan_redo(&opened.history, args.consent.force, &*opened.store) {
        Some(plan) => opened.carry_out(plan, &args.consent, "Redo", out),
        None => {
            write(out, "Nothing to redo: no undo came last, or a call changed files since.\n")?;
            Ok(ExitStatus::Ok)
        }
    }
}
