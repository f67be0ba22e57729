//! `becket help`, `version`, `completions` and `man`: the definitions of the arguments, printed for people and shells.

use crate::args::{CompletionsArgs, HelpArgs, SUBCOMMANDS, run_command, whole_command};
use crate::cmd::write;
use crate::failure::{Failure, unwritten};
use clap::Command;
use clap::builder::PossibleValuesParser;
use std::io::Write;

pub(crate) fn help(args: &HelpArgs, out: &mut dyn Write) -> Result<(), Failure> {
    if args.path.is_empty() {
        return write(out, &run_command().render_help().to_string());
    }
    let mut command = find(&args.path)?;
    write(out, &command.render_help().to_string())
}

pub(crate) fn version(out: &mut dyn Write) -> Result<(), Failure> {
    write(out, &run_command().render_version())
}

pub(crate) fn completions(args: &CompletionsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut with_values(whole_command()), "becket", &mut script);
    out.write_all(&script).map_err(|error| unwritten(&error))
}

/// Names the values that an option takes, so that shells offer them and not files. The options themselves are parsed elsewhere,
/// with better messages.
fn with_values(mut command: Command) -> Command {
    const VALUES: &[(&str, &[&str])] = &[
        ("permission_mode", &["default", "acceptEdits", "auto", "plan", "dontAsk", "bypassPermissions"]),
        ("sandbox", &["auto", "required", "read-only", "off"]),
        ("effort", &["low", "medium", "high", "xhigh", "max"]),
    ];
    for (id, values) in VALUES {
        if command.get_arguments().any(|arg| arg.get_id() == id) {
            command = command
                .mut_arg(id, |arg| arg.value_parser(PossibleValuesParser::new(values.iter().copied())));
        }
    }
    command
}

/// Prints the manual page in roff, for `man -l -` or a file below `share/man/man1`.
pub(crate) fn man(args: &HelpArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let command = if args.path.is_empty() { whole_command() } else { find(&args.path)? };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(|error| unwritten(&error))?;
    out.write_all(&page).map_err(|error| unwritten(&error))
}

/// Returns the command at this path, with its full name.
fn find(path: &[String]) -> Result<Command, Failure> {
    let mut command = whole_command();
    command.build();
    for (depth, name) in path.iter().enumerate() {
        let Some(next) = command.find_subcommand(name) else {
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let typed = path[..=depth].join(" ");
            let near = becket_tool::text::nearest(name, names.iter().copied());
            let hint = match near {
                Some(near) => format!("did you mean {near}?"),
                None if names.is_empty() => {
                    format!("becket {} has no subcommands", path[..depth].join(" "))
                }
                None if depth == 0 => format!("commands: {}", SUBCOMMANDS.join(", ")),
                None => format!("commands: {}", names.join(", ")),
            };
            return Err(Failure::usage(format!("there is no command `{typed}`")).hint(hint));
        };
        command = next.clone();
    }
    Ok(command)
}
