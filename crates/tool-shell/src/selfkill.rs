//! Finds commands that would kill becket itself, before they run.
//!
//! Pure. This is not a sandbox: it catches mistakes of models (`pkill -f` with a pattern that fits becket's command line, `kill` of
//! a process number that they saw), not a command that hides its purpose.

use becket_shell_syntax::{Paths, read_long};
use regex::RegexBuilder;
use std::path::Path;

/// The processes that a command must not kill, and the texts by which it could find them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnProcesses {
    /// Process numbers of becket and its parent.
    pub pids: Vec<i32>,
    /// becket's program name, as `pkill` without `-f` and `killall` see it.
    pub name: String,
    /// becket's whole command line, as `pkill -f` sees it.
    pub line: String,
}

/// Returns the reason, a message for the model, if `command` is refused.
pub(crate) fn refusal(command: &str, us: &OwnProcesses) -> Option<String> {
    refusal_within(command, us, MAX_NESTING)
}

/// Number of nested shells, as in `bash -c "bash -c …"`, that are read.
const MAX_NESTING: usize = 4;

fn refusal_within(command: &str, us: &OwnProcesses, nesting: usize) -> Option<String> {
    let parts = simple_commands(command);
    let lookup = parts.iter().any(|words| finds_us(words, us)) || lists_us(&parts, us);
    for words in &parts {
        let Some((program, args)) = program(words) else { continue };
        if let (Some(inner), true) = (inner_command(program, args), nesting > 0)
            && let Some(why) = refusal_within(&inner, us, nesting - 1)
        {
            return Some(why);
        }
        let hit = match program {
            "killall5" => true,
            "kill" => kill_hits(args, us) || (lookup && args.iter().all(|a| a.starts_with('-'))),
            "pkill" => pattern_hits(args, us, true),
            "killall" => pattern_hits(args, us, false),
            _ => false,
        };
        // `kill $(pgrep …)`, `pgrep … | xargs kill`: the numbers come from the lookup.
        if hit || (lookup && program == "kill") {
            return Some(format!(
                "`{}` would end this session's own process; it was not run. End the process you mean by its number (it must not be {}).",
                words.join(" "),
                us.pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
            ));
        }
    }
    None
}

/// The command that a shell is given as an argument.
fn inner_command(program: &str, args: &[String]) -> Option<String> {
    match program {
        "eval" => Some(args.join(" ")),
        "sh" | "bash" | "dash" | "zsh" | "ksh" => {
            let is_c =
                |arg: &String| arg.starts_with('-') && !arg.starts_with("--") && arg[1..].contains('c');
            args.get(args.iter().position(is_c)? + 1).cloned()
        }
        _ => None,
    }
}

/// True if `ps … | grep PATTERN` or `ps … | awk '/PATTERN/ …'` would list our own process.
fn lists_us(parts: &[Vec<String>], us: &OwnProcesses) -> bool {
    let mut listed = false;
    let mut found = false;
    for words in parts {
        let Some((program, args)) = program(words) else { continue };
        let first = args.iter().find(|arg| !arg.starts_with('-'));
        match (program, first) {
            ("ps", _) => listed = true,
            ("grep" | "egrep" | "fgrep" | "rg", Some(pattern)) if listed => {
                let option = |c: char| {
                    args.iter().any(|a| a.starts_with('-') && !a.starts_with("--") && a.contains(c))
                };
                let hit = matches(pattern, &us.line, option('i'));
                // `grep -v grep` does not remove becket's own process.
                found = if option('v') { found && !hit } else { hit };
            }
            ("awk" | "gawk" | "mawk", Some(script)) if listed => {
                let pattern = script.split('/').nth(1).filter(|_| script.trim_start().starts_with('/'));
                found = pattern.map_or(found, |pattern| matches(pattern, &us.line, false));
            }
            _ => {}
        }
    }
    found
}

fn matches(pattern: &str, subject: &str, fold: bool) -> bool {
    let compiled = RegexBuilder::new(pattern).case_insensitive(fold).size_limit(1 << 20).build();
    !subject.is_empty() && compiled.map_or_else(|_| subject.contains(pattern), |r| r.is_match(subject))
}

/// The words of each simple command, nested commands first. Quotes are removed. Expansions such as `$X` stay as written,
/// because their values are only known at run time.
pub(crate) fn simple_commands(command: &str) -> Vec<Vec<String>> {
    let paths = Paths { home: Path::new("/"), resolve: &Path::to_path_buf };
    let commands = read_long(command, None, &paths).commands.into_iter();
    commands.map(|command| command.words.into_iter().map(|word| word.text).collect()).collect()
}

/// The program of a simple command and its arguments, past assignments and wrappers.
pub(crate) fn program(words: &[String]) -> Option<(&str, &[String])> {
    let mut rest = words;
    loop {
        let (first, tail) = rest.split_first()?;
        let name = first.rsplit('/').next().unwrap_or(first);
        let wrapper = matches!(
            name,
            "sudo" | "command" | "exec" | "nohup" | "env" | "xargs" | "builtin" | "time" | "doas"
        );
        let assignment = first
            .split_once('=')
            .is_some_and(|(n, _)| !n.is_empty() && n.chars().all(|c| c.is_alphanumeric() || c == '_'));
        if !(wrapper || assignment) {
            return Some((name, tail));
        }
        rest = tail;
        while wrapper && rest.first().is_some_and(|w| w.starts_with('-')) {
            rest = &rest[1..];
        }
    }
}

fn kill_hits(args: &[String], us: &OwnProcesses) -> bool {
    // The first `-9` or `-TERM` is a signal; a number after it names a process, or a group if negative.
    let mut targets = args;
    match args.first().map(String::as_str) {
        Some("-s" | "-n") => targets = args.get(2..).unwrap_or_default(),
        Some("-l" | "-L") => return false,
        Some("--") => targets = &args[1..],
        Some(first) if first.starts_with('-') && args.len() > 1 => targets = &args[1..],
        _ => {}
    }
    targets.iter().filter(|t| *t != "--").any(|target| match target.as_str() {
        "$PPID" | "${PPID}" => true,
        target => target.parse::<i32>().is_ok_and(|n| n == -1 || us.pids.contains(&n.abs())),
    })
}

/// True if these are the words of a `pgrep` or `pidof` that would find us.
fn finds_us(words: &[String], us: &OwnProcesses) -> bool {
    match program(words) {
        Some(("pgrep", args)) => pattern_hits(args, us, true),
        Some(("pidof", args)) => pattern_hits(args, us, false),
        _ => false,
    }
}

/// True if `pkill` or `pgrep` (with `regex`), or `killall` or `pidof` (without), would select our process by these
/// arguments.
fn pattern_hits(args: &[String], us: &OwnProcesses, regex: bool) -> bool {
    let (mut full, mut exact, mut fold, mut by_user, mut inverse) = (false, !regex, false, false, false);
    let mut patterns: Vec<&str> = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--" => patterns.extend(rest.by_ref().map(String::as_str)),
            "--full" => full = true,
            "--exact" => exact = true,
            "--ignore-case" => fold = true,
            "--regexp" => exact = false,
            "--inverse" => inverse = true,
            "-u" | "-U" | "--euid" | "--uid" | "--user" => {
                by_user = true;
                rest.next();
            }
            "-P" | "--parent" => {
                if rest
                    .next()
                    .is_some_and(|p| p == "$PPID" || p.parse().is_ok_and(|n: i32| us.pids.contains(&n)))
                {
                    return true;
                }
                return false;
            }
            "-g" | "-G" | "-s" | "-t" | "--pgroup" | "--group" | "--session" | "--terminal" => return false,
            "--signal" | "-o" if !regex => {
                rest.next();
            }
            "--signal" => {
                rest.next();
            }
            option if option.starts_with("--") => {}
            option if option.starts_with('-') && option.len() > 1 => {
                // A cluster of letters such as `-fx`, but not a signal such as `-9` or `-KILL`.
                if option[1..].chars().all(|c| c.is_ascii_lowercase()) {
                    full |= option.contains('f') && regex;
                    exact |= option.contains('x');
                    inverse |= regex && option.contains('v');
                    fold |= option.contains('i') || option.contains('I');
                    exact &= regex || !option.contains('r');
                }
            }
            word => patterns.push(word),
        }
    }
    if patterns.is_empty() {
        return by_user;
    }
    // The kernel keeps fifteen characters of a name.
    let short = us.name.get(..15).unwrap_or(&us.name);
    let subject = if full { us.line.as_str() } else { short };
    patterns.into_iter().any(|pattern| {
        if subject.is_empty() {
            return false;
        }
        let source = match (regex || !exact, exact) {
            (true, true) => format!("^(?:{pattern})$"),
            (true, false) => pattern.to_owned(),
            (false, _) => format!("^(?:{})$", regex::escape(pattern)),
        };
        let compiled = RegexBuilder::new(&source).case_insensitive(fold).size_limit(1 << 20).build();
        compiled.map_or_else(|_| subject.contains(pattern), |r| r.is_match(subject)) != inverse
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let us = OwnProcesses {
            pids: vec![4242, 4241],
            name: "becket".into(),
            line: "/usr/bin/becket --print fix src/main.rs".into(),
        };
        for command in [
            "kill 4242",
            "kill -9 4242",
            "kill -s TERM 1 4241",
            "kill -- -4242",
            "kill -9 -1",
            "kill -1 -1",
            "kill $PPID",
            "kill -9 \"${PPID}\"",
            "pkill becket",
            "pkill -9 -f becket",
            "pkill -f 'main\\.rs'",
            "pkill -f main.rs",
            "pkill -i BECKET",
            "pkill -x becket",
            "pkill bec",
            "pkill -u root",
            "killall becket",
            "killall -9 becket",
            "sudo killall -r 'bec.*'",
            "cd x && pkill -f print; true",
            "kill $(pgrep becket)",
            "kill -9 `pgrep -f becket`",
            "pgrep -f becket | xargs kill",
            "pgrep becket | xargs -r kill -9",
            "/usr/bin/pkill becket",
            "X=1 pkill becket",
            "if true; then kill 4242; fi",
            "kill -9 -- -1",
            "kill -KILL -- -4242",
            "killall5 -9",
            "killall -u root",
            "pkill -v node",
            "bash -c 'pkill becket'",
            "sh -ec \"kill -9 4242\"",
            "bash -lc 'bash -c \"pkill -f main.rs\"'",
            "eval 'pkill becket'",
            "eval pkill becket",
            "ps aux | grep becket | awk '{print $2}' | xargs kill -9",
            "ps aux | grep -i BECKET | grep -v grep | awk '{print $2}' | xargs -r kill",
            "kill $(ps -ef | grep '[b]ecket' | awk '{print $2}')",
            "ps -ef | awk '/becket/ {print $2}' | xargs kill",
            "pgrep -f print | while read p; do kill $p; done",
        ] {
            assert!(refusal(command, &us).is_some(), "{command}");
        }
        for command in [
            "kill 42",
            "kill %1",
            "kill $!",
            "kill 0",
            "kill -l",
            "kill -42",
            "pkill -f 'node server'",
            "pkill node",
            "pkill -x beck",
            "killall beck",
            "pkill -P 77 x",
            "echo kill 4242",
            "echo 'pkill becket'",
            "pgrep becket",
            "pgrep node | xargs kill",
            "git commit -m 'kill 4242; pkill becket'",
            "grep becket Cargo.toml",
            "ps aux | grep becket",
            "ps aux | grep node | awk '{print $2}' | xargs kill",
            "ps aux | grep becket | grep -v becket | xargs kill",
            "bash -c 'pkill node'",
            "bash script.sh -c 'kill 4242x'",
            "eval 'echo kill'",
            "",
        ] {
            assert_eq!(refusal(command, &us), None, "{command}");
        }
    }
}
