//! Removes launchers: commands whose arguments are another command, which has to be judged.

use crate::vars;
use crate::word::{Known, Word};

/// The result of [`unwrap`].
#[derive(Debug, PartialEq)]
pub enum Unwrapped {
    /// The command is not a launcher.
    Plain,
    /// These words run. A dynamic word at the end represents arguments from another source.
    Command(Vec<Word>),
    /// This text runs as a script.
    Script(String),
    /// Another command runs in a way that cannot be judged.
    Opaque(&'static str),
}

/// Programs that run another program with other rights, on another machine or in a container, or later. With the words for the
/// reason.
const OPAQUE: &[(&str, &str)] = &[
    ("sudo", "runs a command with other rights"),
    ("doas", "runs a command with other rights"),
    ("su", "runs a command with other rights"),
    ("pkexec", "runs a command with other rights"),
    ("runuser", "runs a command with other rights"),
    ("setpriv", "runs a command with other rights"),
    ("chroot", "runs a command in another root"),
    ("unshare", "runs a command in another namespace"),
    ("nsenter", "runs a command in another namespace"),
    ("bwrap", "runs a command in a sandbox of its own"),
    ("firejail", "runs a command in a sandbox of its own"),
    ("proot", "runs a command in another root"),
    ("fakeroot", "runs another command"),
    ("ssh", "runs a command on another machine"),
    ("mosh", "runs a command on another machine"),
    ("watch", "runs a command again and again"),
    ("parallel", "runs other commands"),
    ("script", "runs another command"),
    ("strace", "runs another command"),
    ("ltrace", "runs another command"),
    ("gdb", "runs another command"),
    ("expect", "runs another command"),
    ("systemd-run", "runs a command elsewhere"),
    ("at", "runs a command later"),
    ("batch", "runs a command later"),
    ("crontab", "runs commands later"),
    ("flock", "runs another command"),
    ("busybox", "runs another command"),
    ("toybox", "runs another command"),
    ("coproc", "runs another command"),
    ("entr", "runs another command"),
    ("watchexec", "runs another command"),
    ("torify", "runs another command"),
    ("torsocks", "runs another command"),
    ("proxychains", "runs another command"),
    ("xvfb-run", "runs another command"),
    ("rlwrap", "runs another command"),
    ("dbus-run-session", "runs another command"),
    ("source", "runs a file as a script"),
    (".", "runs a file as a script"),
    ("chrt", "runs another command"),
    ("taskset", "runs another command"),
    ("setarch", "runs another command"),
    ("linux64", "runs another command"),
    ("prlimit", "runs another command"),
    ("catchsegv", "runs another command"),
    ("valgrind", "runs another command"),
    ("perf", "runs another command"),
];

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash"];

/// Returns the name of a program that is found by `PATH` or is in the system's own folders; `None` for any other path,
/// which may be a program of the workspace with the same name.
pub fn system_name(name: &str) -> Option<&str> {
    let plain = name.strip_prefix("/usr/bin/").or_else(|| name.strip_prefix("/bin/")).unwrap_or(name);
    (!plain.contains('/')).then_some(plain)
}

/// The last component of a command name.
pub fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// True if the words from any argument on may be a command. Deny rules are then tested on each of these tails.
pub fn is_launcher(words: &[Word]) -> bool {
    let Some(name) = words.first() else { return false };
    let name = base_name(&name.text);
    let runs = |w: &Word| matches!(w.text.as_str(), "run" | "foreach" | "-x" | "--exec");
    (name == "git" && words.iter().any(runs))
        || OPAQUE.iter().any(|(n, _)| *n == name)
        || SHELLS.contains(&name)
        || matches!(
            name,
            "env"
                | "command"
                | "builtin"
                | "exec"
                | "nohup"
                | "setsid"
                | "time"
                | "nice"
                | "ionice"
                | "stdbuf"
                | "timeout"
                | "xargs"
                | "eval"
                | "trap"
                | "find"
                | "fd"
                | "fdfind"
                | "!"
                | "then"
                | "do"
                | "else"
                | "caffeinate"
                | "chronic"
                | "unbuffer"
        )
}

/// Removes one launcher and its options from the front of a command.
pub fn unwrap(words: &[Word]) -> Unwrapped {
    let Some(name) = words.first().filter(|w| w.is_literal()) else { return Unwrapped::Plain };
    let rest = &words[1..];
    let Some(name) = system_name(&name.text) else {
        let same = is_launcher(words);
        return if same {
            Unwrapped::Opaque("is not the system's program of that name")
        } else {
            Unwrapped::Plain
        };
    };
    if let Some((_, why)) = OPAQUE.iter().find(|(n, _)| *n == name) {
        return Unwrapped::Opaque(why);
    }
    if SHELLS.contains(&name) {
        return shell(name, rest);
    }
    match name {
        "env" => env(rest),
        "command" if rest.first().is_some_and(|w| w.text.starts_with("-v") || w.text.starts_with("-V")) => {
            Unwrapped::Plain
        }
        "command" => options(rest, &["-p"], &[], 0),
        "builtin" | "nohup" | "chronic" | "unbuffer" => options(rest, &[], &[], 0),
        "setsid" => options(rest, &["-w", "--wait", "-f", "--fork", "-c", "--ctty"], &[], 0),
        // With an option, `exec` can change the name under which the program runs, and many programs behave by that name. So every
        // option makes it opaque.
        "exec" => options(rest, &[], &[], 0),
        "time" => options(rest, &["-p"], &[], 0),
        "nice" => options(rest, &["-n*", "--adjustment=*", "-#"], &["-n", "--adjustment"], 0),
        "ionice" => options(rest, &["-t", "-c*", "-n*"], &["-c", "-n"], 0),
        "stdbuf" => options(rest, &["-o*", "-e*", "-i*"], &["-o", "-e", "-i"], 0),
        "caffeinate" => options(rest, &["-d", "-i", "-m", "-s", "-u"], &["-t"], 0),
        "timeout" => options(
            rest,
            &[
                "--preserve-status",
                "--foreground",
                "-v",
                "--verbose",
                "-k*",
                "-s*",
                "--kill-after=*",
                "--signal=*",
            ],
            &["-k", "-s", "--kill-after", "--signal"],
            1,
        ),
        "xargs" => match options(
            rest,
            &[
                "-0",
                "--null",
                "-r",
                "--no-run-if-empty",
                "-t",
                "--verbose",
                "-n*",
                "-P*",
                "-L*",
                "-I*",
                "-d*",
                "--max-args=*",
                "--max-procs=*",
                "--delimiter=*",
            ],
            &["-n", "-P", "-L", "-I", "-d", "-s", "--max-args", "--max-procs", "--delimiter"],
            0,
        ) {
            Unwrapped::Command(mut inner) => {
                let place = replaced(rest);
                for word in &mut inner {
                    if place.as_ref().is_some_and(|place| word.text.contains(place.as_str())) {
                        // `xargs` replaces a part of this word by its input.
                        word.known = Known::Dynamic;
                        (word.variables, word.expansions) = (None, None);
                        word.text = word.text.replacen(place.as_deref().unwrap_or_default(), "$@", 1);
                    }
                }
                let (variables, expansions) = (None, None);
                inner.push(Word { known: Known::Dynamic, variables, expansions, ..Word::literal("$@") });
                Unwrapped::Command(inner)
            }
            other => other,
        },
        "eval" => joined(rest),
        // The code runs later, when the shell may be in another directory.
        "trap" => Unwrapped::Opaque("sets code to run at a signal"),
        _ => Unwrapped::Plain,
    }
}

/// Returns the text that `xargs -I` replaces.
fn replaced(words: &[Word]) -> Option<String> {
    let at = words.iter().position(|w| w.text.starts_with("-I"))?;
    let attached = &words[at].text[2..];
    if attached.is_empty() { words.get(at + 1).map(|w| w.text.clone()) } else { Some(attached.to_owned()) }
}

/// Skips options. `flags`: options without a value, or with an attached one if `*` is at the end. `valued`: options that take the
/// next word. Then skips `positional` words. An option that is not listed makes the launcher opaque.
fn options(words: &[Word], flags: &[&str], valued: &[&str], positional: usize) -> Unwrapped {
    const UNKNOWN: Unwrapped = Unwrapped::Opaque("runs another command with options that are not judged");
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        if !word.is_literal() || !word.text.starts_with('-') {
            break;
        }
        rest = after;
        if word.text == "--" {
            break;
        }
        if valued.contains(&word.text.as_str()) {
            match rest.split_first() {
                Some((value, after)) if value.is_literal() => rest = after,
                _ => return UNKNOWN,
            }
            continue;
        }
        let known = flags.iter().any(|flag| match flag.strip_suffix('*') {
            Some(prefix) => word.text.starts_with(prefix),
            None if *flag == "-#" => word.text[1..].chars().all(|c| c.is_ascii_digit()),
            None => *flag == word.text,
        });
        if !known {
            return UNKNOWN;
        }
    }
    if rest.len() < positional || !rest[..positional].iter().all(Word::is_literal) {
        return UNKNOWN;
    }
    rest = &rest[positional..];
    if rest.is_empty() { Unwrapped::Plain } else { Unwrapped::Command(rest.to_vec()) }
}

fn env(words: &[Word]) -> Unwrapped {
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        if !word.is_literal() {
            return Unwrapped::Opaque("runs another command in an environment that is not known");
        }
        if matches!(word.text.as_str(), "-0" | "--null") {
            rest = after;
        } else if matches!(word.text.as_str(), "-i" | "-" | "--ignore-environment") {
            // This would also remove the variables that keep git from obeying the repository's configuration.
            return Unwrapped::Opaque("runs another command without its environment");
        } else if matches!(word.text.as_str(), "-u" | "--unset") && !after.is_empty() {
            if !after[0].is_literal() || !vars::may_set(&after[0].text) {
                return Unwrapped::Opaque("removes a variable that other programs obey");
            }
            rest = &after[1..];
        } else if word.text == "--" {
            rest = after;
        } else if word.text.starts_with('-') {
            return Unwrapped::Opaque("runs another command with options that are not judged");
        } else if let Some((name, value)) = word.text.split_once('=') {
            if !vars::may_set_to(name, value) {
                return Unwrapped::Opaque("sets a variable that other programs obey");
            }
            rest = after;
        } else {
            break;
        }
    }
    if rest.is_empty() { Unwrapped::Plain } else { Unwrapped::Command(rest.to_vec()) }
}

fn shell(name: &str, words: &[Word]) -> Unwrapped {
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        if !word.is_literal() {
            return Unwrapped::Opaque("runs a script that is not known");
        }
        let text = word.text.as_str();
        let letters =
            text.strip_prefix('-').filter(|l| !l.is_empty() && l.chars().all(|c| "ceuxfnl".contains(c)));
        match letters {
            Some(letters) if letters.contains('c') => {
                return match after.first() {
                    Some(script) if script.is_literal() && !reads_as_bash(name, &script.text) => {
                        Unwrapped::Opaque("is a shell that may read this script differently")
                    }
                    Some(script) if script.is_literal() => Unwrapped::Script(script.text.clone()),
                    _ => Unwrapped::Opaque("runs a script that is not known"),
                };
            }
            Some(_) => rest = after,
            None if text == "-o" && after.first().is_some_and(|w| w.text == "pipefail") => rest = &after[1..],
            None if text == "--version" || text == "--help" => return Unwrapped::Plain,
            None if text.starts_with('-') || text.starts_with('+') => {
                return Unwrapped::Opaque("runs a shell with options that are not judged");
            }
            None => return Unwrapped::Plain,
        }
    }
    Unwrapped::Opaque("runs a shell that reads commands from its input")
}

/// True if the shell interprets the script like bash, so that parsing it as bash is correct. Shells of the `dash`
/// family have no `[[`, no `$'…'` and no `<(…)`: one word or one test of bash can be redirections and further commands
/// for them. Shells of the ksh and zsh families evaluate text in many more constructs.
fn reads_as_bash(name: &str, script: &str) -> bool {
    const DIFFERENT: &[&str] =
        &["[[", "&>", "|&", ";&", "<<", "<>", ">|", "eval", "function", "select", "time"];
    let alike = |c: char| c.is_ascii_alphanumeric() || " \t\n_./:,@%+-'\"|&;<>*?[]=\\".contains(c);
    match name {
        "bash" | "rbash" => true,
        "sh" | "dash" | "ash" => {
            script.chars().all(alike) && !DIFFERENT.iter().any(|text| script.contains(text))
        }
        _ => false,
    }
}

fn joined(words: &[Word]) -> Unwrapped {
    if words.is_empty() || !words.iter().all(Word::is_literal) {
        return Unwrapped::Opaque("evaluates text that is not known");
    }
    Unwrapped::Script(words.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(" "))
}
