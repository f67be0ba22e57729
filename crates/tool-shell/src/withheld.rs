//! Finds variables that becket withholds from commands but that a command, or a script that it names, uses.
//!
//! Without a note, such a variable would just be empty: a deployment with `$DEPLOY_TOKEN` would fail far from the cause. Scripts
//! are looked for in the workspace only, and nothing is run.

use std::path::{Path, PathBuf};

/// Maximum number of scripts that are read for one command, and of bytes of each script.
const SCRIPTS: usize = 4;
const BYTES: u64 = 128 * 1024;
/// Programs whose argument is a script.
const RUNS: [&str; 14] = [
    "sh", "bash", "zsh", "dash", "ksh", "source", ".", "python", "python3", "node", "ruby", "perl", "php",
    "exec",
];
/// Programs that run the rules of a file in the current folder, and the names of that file.
const RULES: [(&str, &[&str]); 2] =
    [("make", &["GNUmakefile", "makefile", "Makefile"]), ("just", &["justfile", "Justfile"])];

/// The names among `withheld` that the scripts of a command use, without those that the command itself names. `may_read`: false for
/// files that must stay unread.
pub(crate) fn names_in_scripts<'a>(
    command: &str,
    cwd: &Path,
    withheld: &'a [String],
    may_read: &dyn Fn(&Path) -> bool,
) -> Vec<&'a str> {
    if withheld.is_empty() {
        return Vec::new();
    }
    let texts: Vec<String> = scripts(command, cwd)
        .iter()
        .filter(|path| may_read(path))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect();
    let own = names_in_command(command, withheld);
    let names = withheld.iter().map(String::as_str).filter(|name| !own.contains(name));
    names.filter(|name| texts.iter().any(|text| names_it(text, name))).collect()
}

/// Returns the files that a command runs: a path in the place of a program, the argument of an interpreter, and files of rules.
fn scripts(command: &str, cwd: &Path) -> Vec<PathBuf> {
    let apart = command.replace([';', '|', '&', '(', ')', '\n'], " \n ");
    let (mut found, mut runs) = (Vec::new(), true);
    for word in apart.split([' ', '\t']).filter(|word| !word.is_empty()) {
        let word = word.trim_matches(['"', '\'']);
        let name = word.rsplit('/').next().unwrap_or(word);
        if word == "\n" || (runs && (RUNS.contains(&name) || word.contains('=') || word.starts_with('-'))) {
            runs = true;
            continue;
        }
        if runs {
            let rules = RULES.iter().filter(|(program, _)| *program == name).flat_map(|(_, files)| *files);
            found.extend(rules.map(|file| cwd.join(file)));
            found.push(cwd.join(word));
        }
        runs = false;
    }
    found.retain(|path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= BYTES));
    found.truncate(SCRIPTS);
    found
}

/// The names among `withheld` that `command` uses as a variable: as `$NAME` or `${NAME…`, or, for a name with an underscore,
/// also as a word of its own (`printenv NAME`, `os.environ["NAME"]`).
pub(crate) fn names_in_command<'a>(command: &str, withheld: &'a [String]) -> Vec<&'a str> {
    withheld.iter().map(String::as_str).filter(|name| names_it(command, name)).collect()
}

fn names_it(command: &str, name: &str) -> bool {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    command.match_indices(name).any(|(at, _)| {
        let (before, after) = (&command[..at], &command[at + name.len()..]);
        if after.starts_with(of_a_name) || before.ends_with(of_a_name) {
            return false;
        }
        let set_here = after.starts_with('=') && !after.starts_with("==");
        // A rule of make has `$(NAME)`.
        let variable = ["$", "${", "${#", "$("].iter().any(|mark| before.ends_with(mark));
        variable || (name.contains('_') && !set_here)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_a_command_runs_is_read() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("dep.sh", "curl -H \"$DEPLOY_TOKEN\""),
            ("tool.py", "import os\nprint(os.environ['DEPLOY_TOKEN'])"),
            ("Makefile", "all:\n\tcurl $(DEPLOY_TOKEN)\n"),
            ("README.md", "Set DEPLOY_TOKEN first."),
        ] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let withheld = ["DEPLOY_TOKEN".to_owned(), "KEY".to_owned()];
        for (command, want) in [
            ("sh dep.sh", true),
            ("cd . && FOO=1 bash -eu ./dep.sh prod", true),
            ("./dep.sh", true),
            ("python3 'tool.py' | tee log", true),
            ("make all", true),
            ("cat README.md", false),
            ("cat dep.sh", false),
            ("sh other.sh", false),
            ("ls", false),
            // The command names the variable itself, so the script's use adds nothing.
            ("DEPLOY_TOKEN=$DEPLOY_TOKEN sh dep.sh", false),
        ] {
            let found = names_in_scripts(command, dir.path(), &withheld, &|_| true);
            assert_eq!(found, if want { &["DEPLOY_TOKEN"][..] } else { &[] }, "{command}");
            assert!(names_in_scripts(command, dir.path(), &withheld, &|_| false).is_empty());
        }
    }

    #[test]
    fn a_command_names_a_variable() {
        let withheld = ["DEPLOY_TOKEN".to_owned(), "TOKEN".to_owned(), "KEY".to_owned()];
        for (command, want) in [
            ("curl -H \"Authorization: $DEPLOY_TOKEN\"", &["DEPLOY_TOKEN"][..]),
            ("echo ${DEPLOY_TOKEN:-none} $KEY", &["DEPLOY_TOKEN", "KEY"]),
            ("printenv DEPLOY_TOKEN", &["DEPLOY_TOKEN"]),
            ("python3 -c 'import os; os.environ[\"DEPLOY_TOKEN\"]'", &["DEPLOY_TOKEN"]),
            ("[ \"${#TOKEN}\" -gt 3 ]", &["TOKEN"]),
            ("DEPLOY_TOKEN=x ./deploy", &[]),
            ("grep TOKEN src", &[]),
            ("echo $MY_DEPLOY_TOKEN $DEPLOY_TOKENS", &[]),
            ("echo $é$TOKEN", &["TOKEN"]),
            ("ls", &[]),
        ] {
            assert_eq!(names_in_command(command, &withheld), want, "{command}");
        }
    }
}
