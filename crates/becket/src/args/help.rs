//! The definitions of the arguments as clap commands, with the parts of the help that are assembled from them.
//!
//! A run and the subcommands are parsed separately, but help, completion scripts and manual pages show one program.

use super::{Run, Sub};
use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser as _};
use std::ffi::OsString;
use std::fmt::Write as _;

const EXAMPLES: &str = "\
Examples:
  becket                                   start a session in this directory
  becket \"why does the parser test fail?\"  start a session with a task
  becket -p \"fix the failing test\"         run without the interface, print the answer
  git diff | becket -p \"review this\"       add piped input to the task
  becket -c                                continue the newest session here
  becket sessions                          list the sessions of this directory
  becket undo                              undo the file changes of the last turn

Exit codes: 0 ok, 1 error, 2 usage, 3 max turns, 4 budget, 5 permission denied, 6 schema not met,
7 model unreachable, 8 repetition, 9 context full, 10 no room for results, 11 no answer, 12 calls as text,
13 time limit, 14 session not saved, 130 interrupted, 143 terminated.
`becket help COMMAND` explains a command.";

/// Parses the arguments of a run.
///
/// The definitions of all subcommands take as long as the parsing itself, and only the help shows them. So they are
/// made when the first attempt has ended with a text to print.
///
/// # Errors
///
/// Returns what clap prints: help, the version, or a mistake.
pub(crate) fn parse_run(arguments: &[OsString]) -> Result<Run, clap::Error> {
    Run::try_parse_from(arguments).or_else(|_| {
        let matches = run_command().try_get_matches_from(arguments)?;
        Run::from_arg_matches(&matches)
    })
}

/// Returns the definition of a run. Its help also lists the subcommands.
pub(crate) fn run_command() -> Command {
    let commands = Sub::command();
    let mut list = String::from("Commands:\n");
    for command in commands.get_subcommands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(list, "  {:<12} {about}", command.get_name());
    }
    Run::command()
        .override_usage("becket [OPTIONS] [TASK]\n       becket COMMAND [OPTIONS]")
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\n{{all-args}}{{after-help}}"
        ))
        .after_help(EXAMPLES)
}

/// Returns a run and the subcommands as one definition, for manual pages and completion scripts. It is not used for
/// parsing.
pub(crate) fn whole_command() -> Command {
    Run::command()
        .after_help(EXAMPLES)
        .subcommands(Sub::command().get_subcommands().cloned())
        .args_conflicts_with_subcommands(true)
}
