//! `becket -r` without a session: the choice from a list, which needs at least one session.

use crate::args::SessionArgs;
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::store::{self, SessionSummary};
use std::path::Path;

/// True if the user chooses the session to continue from a list.
pub(super) fn chooses_from_list(
    args: &SessionArgs,
    print: bool,
    environment: &Environment,
    cwd: &Path,
) -> Result<bool, Failure> {
    let choose = args.resume.as_deref().is_some_and(|query| query.trim().is_empty());
    if choose && print {
        return Err(Failure::usage("--resume needs a session here").hint(
            "becket sessions lists them; becket -c continues the newest; in a terminal, becket -r opens a list",
        ));
    }
    let is_own = |session: &SessionSummary| session.subagent_of().is_none();
    let newest = || store::most_recent(&environment.sessions_dir(), cwd, is_own);
    if choose && newest().map_err(|error| Failure::error(error.to_string()))?.is_none() {
        return Err(Failure::usage(format!("there is no session of {} to continue", cwd.display()))
            .hint("start one: becket; becket sessions --all lists those of other directories"));
    }
    Ok(choose)
}
