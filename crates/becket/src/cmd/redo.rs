//! `becket redo`: takes the last undo back.

use crate::args::RedoArgs;
use crate::cmd::live::{Answer, Live};
use crate::cmd::pick_session;
use crate::cmd::undo::{carry_out, report_nothing};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_print::ExitStatus;
use becket_types::Command;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &RedoArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let summary = pick_session(environment, cwd, args.session.as_deref())?;
    let mut live = Live::open(environment, &summary)?;
    match live.ask(Command::Redo)? {
        Answer::UndoPlanned(plan) => carry_out(live, &plan, (&summary, cwd), &args.consent, args.json, out),
        Answer::Nothing(why) => {
            live.end()?;
            report_nothing(&why, args.json, out)
        }
        _ => live.end().map(|()| ExitStatus::Ok),
    }
}
