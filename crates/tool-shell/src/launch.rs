//! Starts a command: finds the shell, puts it into a session of its own, and wraps the command.
//!
//! Model: a *launcher* is a program that makes itself leader of a new session and then becomes the program that it is given:
//! `setsid` of util-linux. So a command has no controlling terminal (`/dev/tty` cannot be opened) and a process group of its own,
//! whose number is the process number that becket knows. Where there is no such program, the command gets a process group of its
//! own and stays in becket's session: it can then still open `/dev/tty`.
//!
//! The command goes through the environment into the shell, not through its arguments: so `pkill -f` in a command does not
//! find the shell that runs it. A long command goes through several variables, not through a file: a confined command could put
//! a link in the place of a file that becket is about to write.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// The beginning of the script around a command. It has one line, so that line numbers in the shell's messages fit the command.
/// `$1`: the limit on open files of a process. `$2`: the file by which the shell enters a control group, or empty.
const PROLOGUE: &str =
    r#"ulimit -n "$1" 2>/dev/null; [ -z "$2" ] || { echo $$ >"$2"; } 2>/dev/null; shift 2; "#;

/// The variable with the command, or with its first part. Further parts are in variables with a number after this name.
const COMMAND: &str = "BECKET_COMMAND";

/// Longest part of a command, in bytes, that is passed in one environment variable. Linux allows 128 KB for a variable.
const MAX_PART: usize = 120 * 1024;

/// Longest command, in bytes. Linux allows 2 MB for all variables and arguments of a program together.
pub(crate) const MAX_COMMAND: usize = 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) enum Launcher {
    /// Starts this program with these arguments, followed by the program to run.
    Session(Vec<OsString>),
    Group,
}

impl Launcher {
    pub(crate) fn find(search: &OsStr) -> Self {
        find("setsid", search).map_or(Self::Group, |program| Self::Session(vec![program.into_os_string()]))
    }

    /// Prepares `program` (and its first arguments) to run in a session, or at least in a process group, of its own.
    pub(crate) fn command(&self, program: &[OsString]) -> std::process::Command {
        match self {
            Self::Session(words) if !words.is_empty() => {
                let mut command = std::process::Command::new(&words[0]);
                command.args(&words[1..]).args(program);
                command
            }
            _ => {
                let (first, rest) = program.split_first().map_or((None, program), |(f, r)| (Some(f), r));
                let mut command = std::process::Command::new(first.map_or(OsStr::new("false"), |f| f));
                command.args(rest).process_group(0);
                command
            }
        }
    }
}

/// Finds a program by name: first in the usual system folders, then in the folders of `search`.
pub(crate) fn find(name: &str, search: &OsStr) -> Option<PathBuf> {
    let usual = ["/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin"].map(PathBuf::from);
    usual
        .into_iter()
        .chain(std::env::split_paths(search))
        .map(|dir| dir.join(name))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Returns the environment variables with a command, in the order of its parts.
pub(crate) fn variables(command: &str) -> Vec<(String, &str)> {
    let mut out = Vec::new();
    let mut rest = command;
    while out.is_empty() || !rest.is_empty() {
        let part = becket_types::cut_end(rest, MAX_PART);
        let number = if out.is_empty() { String::new() } else { out.len().to_string() };
        out.push((format!("{COMMAND}{number}"), part));
        rest = &rest[part.len()..];
    }
    out
}

/// Arguments of the shell. `command`: the environment variables that hold the command.
pub(crate) fn arguments(
    cwd_file: &Path,
    open_files: u64,
    entrance: PathBuf,
    command: &[(String, &str)],
) -> [OsString; 5] {
    let names: Vec<&str> = command.iter().map(|(name, _)| name.as_str()).collect();
    ["-c".into(), script(cwd_file, &names), "bash".into(), open_files.to_string().into(), entrance.into()]
}

/// Returns the script around a command. It evaluates the command as a whole, so that the command's syntax errors, here-documents and
/// comments cannot affect the script. At the end it writes the working directory to `cwd_file`. Works in any POSIX shell.
///
/// The command runs in the shell of the script and can set each of its variables and parameters. So what the script does after it
/// depends on none of them: the name of the file is part of the script's text. Otherwise a command that only sets a variable could
/// choose the file that is written.
fn script(cwd_file: &Path, names: &[&str]) -> OsString {
    let note =
        [b"{ command pwd -P >|", &*quoted(cwd_file.as_os_str().as_bytes()), b"; } 2>/dev/null"].concat();
    let parts: String = names.iter().map(|name| format!("${{{name}}}")).collect::<Vec<_>>().concat();
    let command = format!("__run={parts}; unset {}; ", names.join(" "));
    OsString::from_vec(
        [
            PROLOGUE.as_bytes(),
            command.as_bytes(),
            b"trap ",
            &quoted(&[b"{ ", &*note, b"; } 2>/dev/null"].concat()),
            b" EXIT; eval \"$__run\"\n",
            // If the command has set its own EXIT trap, it has replaced the one above, so the directory is written here too. The
            // trap still runs after this. `set +x` keeps the trace from showing this line.
            b"{ set -- \"$?\"; ",
            &note,
            b"; set +x; } 2>/dev/null; exit \"$1\"\n",
        ]
        .concat(),
    )
}

/// Quotes `text` so that a shell reads it as one literal word.
fn quoted(text: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'\'').collect();
    [b"'", &*parts.join(&b"'\\''"[..]), b"'"].concat()
}
