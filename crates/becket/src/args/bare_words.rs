//! Detects a single bare word in place of a task: a task, a mistyped command, or a command of another program.
//!
//! Such a word is never sent to a model, because `becket sesions` would cost money and do nothing useful. After `-p`, a word
//! is refused if it is a command, a command of another tool, or one of them with a typing error: any other word may be a task
//! for the piped text. `becket -- WORD` is explicit and is not checked.

use super::{Run, SUBCOMMANDS, Sub, Subcommands};
use becket_types::edit_distance;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use std::ffi::OsString;

/// Words that other agents and tools know as commands, and the command to type instead.
const FOREIGN_COMMANDS: &[(&str, &str)] = &[
    ("resume", "becket --resume SESSION"),
    ("continue", "becket --continue"),
    ("fork", "becket sessions fork SESSION"),
    ("list", "becket sessions"),
    ("ls", "becket sessions"),
    ("history", "becket sessions"),
    ("session", "becket sessions"),
    ("stats", "becket sessions stats"),
    ("usage", "becket cost"),
    ("search", "becket sessions search WORDS"),
    ("status", "becket doctor"),
    ("check", "becket doctor"),
    ("settings", "becket config"),
    ("run", "becket -p \"TASK\""),
    ("print", "becket -p \"TASK\""),
    ("ask", "becket -p \"TASK\""),
    ("completion", "becket completions SHELL"),
    ("manual", "becket man"),
    ("complete", "becket completions SHELL"),
    ("skills", "becket -p \"/NAME\" for one skill; `/skills` in the terminal lists them"),
    ("model", "becket models"),
    ("providers", "becket models"),
    ("commands", "becket help"),
    ("serve", "becket -p --input-format stream-json --output-format stream-json, driven over stdin"),
    ("acp", "becket -p --input-format stream-json --output-format stream-json; becket does not speak ACP"),
    ("app-server", "becket -p --input-format stream-json --output-format stream-json"),
    ("update", "the package manager that installed becket"),
    ("upgrade", "the package manager that installed becket"),
    ("install", "becket doctor, which shows what is installed"),
    ("plugin", "becket --plugin-dir DIR, which uses a plugin folder in one run"),
    ("plugins", "becket --plugin-dir DIR, which uses a plugin folder in one run"),
    ("review", "becket exec review --uncommitted, or becket -p \"/review\""),
    ("apply", "git apply; becket changes files itself"),
    ("setup-token", "becket login"),
    ("start", "becket"),
    ("chat", "becket"),
    ("tui", "becket"),
];

/// Names of commands that are also usual tasks for piped text. After `-p` they are sent to the model.
const TASKS: &[&str] = &["review", "check", "search", "ask", "run", "apply"];

/// Names of commands that are also usual messages in a conversation. After `-p --continue` they are sent to the model.
const MESSAGES: &[&str] = &[
    "continue", "resume", "start", "list", "status", "help", "verify", "audit", "export", "import", "demo",
    "fork", "print", "update", "upgrade", "install", "chat", "history", "model", "commands",
];

/// A word that is not accepted as a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotATask {
    pub word: String,
    /// The word follows `-p`, where it would be a task if it did not look like a command.
    pub after_print: bool,
    /// The command to type instead.
    pub instead: Option<String>,
}

/// Returns the single bare word of this run, if it looks like a command.
pub(crate) fn bare_word(run: &Run, arguments: &[OsString]) -> Option<NotATask> {
    let explicit = arguments.iter().any(|argument| argument == "--");
    let word = run.prompt.as_deref().filter(|word| !explicit && looks_like_a_command(word))?;
    if run.print {
        let continues = run.session.continue_ || run.session.resume.is_some();
        let instead = intended_command(word, continues)?;
        return Some(NotATask { word: word.to_owned(), after_print: true, instead: Some(instead) });
    }
    Some(NotATask { word: word.to_owned(), after_print: false, instead: instead_of(word) })
}

/// Returns the arguments with the command first, if options come before it, as in `git -C DIR log`.
pub(crate) fn command_first(run: &Run, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let explicit = run.print || arguments.iter().any(|argument| argument == "--");
    let word = run.prompt.as_deref().filter(|word| !explicit && SUBCOMMANDS.contains(word))?;
    let at = arguments.iter().rposition(|argument| argument == word)?;
    let mut out = arguments.to_vec();
    let word = out.remove(at);
    out.insert(1, word);
    Some(out)
}

/// Returns the arguments of `becket exec` with the command first, if options of `exec` come before it or if it has its short
/// name: `becket -m MODEL exec "TASK"`, `becket e "TASK"`. Scripts write this to `codex`.
///
/// The words before the command must be options of `exec` and nothing else, because `-c` and `-p` mean something else in a
/// run.
pub(crate) fn exec_first(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let is_exec = |word: &OsString| word == "exec" || word == "e";
    let first = arguments.get(1)?;
    let is_option = first.to_str().is_some_and(|word| word.starts_with('-'));
    if !is_option && first != "e" {
        return None;
    }
    let head = || [OsString::from("becket"), OsString::from("exec")].into_iter();
    let places = arguments.iter().enumerate().skip(1).filter(|(_, word)| is_exec(word));
    places.map(|(at, _)| arguments.split_at(at)).find_map(|(before, after)| {
        let options: Vec<OsString> = head().chain(before[1..].iter().cloned()).collect();
        match Sub::try_parse_from(&options).ok()?.command {
            Subcommands::Exec(exec) if exec.prompt.is_none() && exec.what.is_none() => {
                Some(options.into_iter().chain(after[1..].iter().cloned()).collect())
            }
            _ => None,
        }
    })
}

/// Like [`command_first`] where options of the command follow, which a run does not know: `becket -C DIR sessions --json`.
pub(crate) fn command_after_options(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let is_command = |word: &OsString| word.to_str().is_some_and(|word| SUBCOMMANDS.contains(&word));
    let places = arguments.iter().enumerate().skip(2).filter(|(_, word)| is_command(word));
    places.map(|(at, _)| arguments.split_at(at + 1)).find_map(|(before, after)| {
        let mut words = command_first(&super::parse_run(before).ok()?, before)?;
        words.extend_from_slice(after);
        Some(words)
    })
}

/// Returns the first argument if it looks like a mistyped command: it does not exist, and a similar one does.
pub(crate) fn not_a_command(arguments: &[OsString]) -> Option<NotATask> {
    let word = arguments.get(1)?.to_str().filter(|word| looks_like_a_command(word))?;
    Some(NotATask { word: word.to_owned(), after_print: false, instead: Some(instead_of(word)?) })
}

/// Returns the command line with its task in quotes, if clap refused the second of several bare words.
pub(crate) fn unquoted(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let is_extra = error.kind() == ErrorKind::UnknownArgument;
    let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidArg).filter(|_| is_extra) else {
        return None;
    };
    let words: Vec<&str> = arguments.get(1..)?.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let second = words.iter().position(|word| word == refused)?;
    let is_word = |word: &&&str| !word.starts_with('-');
    let before = words[..second].iter().rev().take_while(is_word).count();
    let after = words[second..].iter().take_while(is_word).count();
    if before == 0 || after == 0 {
        return None;
    }
    let (first, end) = (second - before, second + after);
    let quoted = format!("\"{}\"", words[first..end].join(" ").replace(['"', '$', '`', '\\'], ""));
    let rest = words[..first].iter().chain(&words[end..]).copied();
    Some(std::iter::once("becket").chain(rest).chain([quoted.as_str()]).collect::<Vec<_>>().join(" "))
}

/// Returns the subcommand of `becket sessions` that is most like this word.
pub(crate) fn nearest_sessions_command(word: &str) -> Option<String> {
    let all = Sub::command();
    let sessions = all.find_subcommand("sessions")?;
    let near = becket_tool::text::nearest(word, sessions.get_subcommands().map(clap::Command::get_name))?;
    Some(format!("becket sessions {near}"))
}

/// Returns the first of several words after `becket sessions`, if clap took it for words to search for.
pub(crate) fn unknown_sessions_command<'a>(
    error: &clap::Error,
    arguments: &'a [OsString],
) -> Option<&'a str> {
    let is_conflict = error.kind() == ErrorKind::ArgumentConflict;
    let words: Vec<&str> = arguments.get(1..)?.iter().filter_map(|word| word.to_str()).collect();
    match words.as_slice() {
        ["sessions", word, ..] if is_conflict && !word.starts_with('-') => Some(word),
        _ => None,
    }
}

/// True if the arguments of a run ask for a result as JSON and no program sends messages, even if the arguments cannot be
/// parsed.
pub(crate) fn wants_json(arguments: &[String]) -> bool {
    let given = |name: &str| {
        let options = arguments.iter().take_while(|word| *word != "--");
        let mut found = None;
        for (at, word) in options.enumerate() {
            if word == name {
                found = arguments.get(at + 1).map(String::as_str);
            } else if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
                found = Some(value);
            }
        }
        found
    };
    matches!(given("--output-format"), Some("json" | "stream-json"))
        && given("--input-format") != Some("stream-json")
}

fn looks_like_a_command(word: &str) -> bool {
    const LONGEST: usize = 24;
    (1..=LONGEST).contains(&word.len())
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Returns the command to type in place of a word: the command itself, one of another tool, or the nearest one.
fn instead_of(word: &str) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    advice(&lower).or_else(|| nearest(&lower))
}

/// Returns the command to type for the name of a command, of becket or of another tool.
fn advice(name: &str) -> Option<String> {
    if SUBCOMMANDS.contains(&name) {
        return Some(format!("becket {name}"));
    }
    FOREIGN_COMMANDS.iter().find(|(known, _)| *known == name).map(|(_, instead)| (*instead).to_owned())
}

fn nearest(word: &str) -> Option<String> {
    let near = becket_tool::text::nearest(word, SUBCOMMANDS.iter().copied())?;
    Some(format!("becket {near}"))
}

/// Returns the command that a word after `-p` means: it has that name, or differs from it by one typing error. Words that a
/// user means as a task, such as `explore`, differ by more.
fn intended_command(word: &str, continues: bool) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let names = SUBCOMMANDS.iter().copied().chain(FOREIGN_COMMANDS.iter().map(|(name, _)| *name));
    let is_sent = |name: &str| TASKS.contains(&name) || (continues && MESSAGES.contains(&name));
    if is_sent(&lower) {
        return None;
    }
    advice(&lower).or_else(|| {
        let near = names.filter(|name| !is_sent(name)).find(|name| is_one_error(&lower, name))?;
        advice(near)
    })
}

/// True if two words differ by one letter, or by two letters that changed places. If a word has four letters or fewer,
/// only a doubled letter counts: `undoo` is `undo`, and `most` is not `cost`.
fn is_one_error(word: &str, name: &str) -> bool {
    const SHORT: usize = 4;
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let single = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.dedup();
        letters
    };
    match edit_distance(word, name) {
        1 => word.len().min(name.len()) > SHORT || (word.len() > name.len() && single(word) == single(name)),
        2 => word.len() >= SHORT && sorted(word) == sorted(name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(arguments: &[&str]) -> Option<NotATask> {
        let words: Vec<OsString> =
            std::iter::once("becket").chain(arguments.iter().copied()).map(OsString::from).collect();
        bare_word(&Run::try_parse_from(&words).unwrap(), &words)
    }

    #[test]
    fn a_task_without_quotes_is_shown_with_them() {
        for (typed, want) in [
            ("fix the bug", Some("becket \"fix the bug\"")),
            ("-p fix the bug", Some("becket -p \"fix the bug\"")),
            ("fix the bug -p --verbose", Some("becket -p --verbose \"fix the bug\"")),
            ("-p fix --nope", None),
            ("fix", None),
        ] {
            let words: Vec<OsString> =
                std::iter::once("becket").chain(typed.split(' ')).map(OsString::from).collect();
            let error = Run::try_parse_from(&words).err();
            assert_eq!(error.and_then(|error| unquoted(&error, &words)).as_deref(), want, "{typed}");
        }
    }

    #[test]
    fn a_command_may_stand_behind_its_options() {
        for (typed, want) in [
            ("-C /x sessions", Some("becket sessions -C /x")),
            ("--cd=/x doctor", Some("becket doctor --cd=/x")),
            ("-p sessions", None),
            ("-C /x -- sessions", None),
            ("-C sessions fix", None),
            ("--model x refactor", None),
        ] {
            let words: Vec<OsString> =
                std::iter::once("becket").chain(typed.split(' ')).map(OsString::from).collect();
            let run = Run::try_parse_from(&words).unwrap();
            let first = command_first(&run, &words);
            let first = first.map(|words| words.join(std::ffi::OsStr::new(" ")).into_string().unwrap());
            assert_eq!(first.as_deref(), want, "{typed}");
        }
        for (typed, want) in [
            ("-C /x sessions --json", Some("becket sessions -C /x --json")),
            ("-C sessions undo --yes", Some("becket undo -C sessions --yes")),
            ("-p sessions --jsn", None),
            ("--nonsense sessions --json", None),
            ("fix it --json", None),
        ] {
            let words: Vec<OsString> =
                std::iter::once("becket").chain(typed.split(' ')).map(OsString::from).collect();
            let found = command_after_options(&words);
            let found = found.map(|words| words.join(std::ffi::OsStr::new(" ")).into_string().unwrap());
            assert_eq!(found.as_deref(), want, "{typed}");
        }
    }

    #[test]
    fn options_of_exec_may_come_before_it() {
        for (typed, want) in [
            ("-m M exec task", Some("becket exec -m M task")),
            ("-c k=v exec task", Some("becket exec -c k=v task")),
            (
                "-a never -s workspace-write exec --json task",
                Some("becket exec -a never -s workspace-write --json task"),
            ),
            ("--search exec resume --last", Some("becket exec --search resume --last")),
            ("-m exec exec task", Some("becket exec -m exec task")),
            ("e task", Some("becket exec task")),
            ("-m M e task", Some("becket exec -m M task")),
            ("exec task", None),
            ("-p exec", None),
            ("-c exec", None),
            ("-m M task exec", None),
            ("--nonsense exec task", None),
            ("fix exec", None),
        ] {
            let words: Vec<OsString> =
                std::iter::once("becket").chain(typed.split(' ')).map(OsString::from).collect();
            let found = exec_first(&words);
            let found = found.map(|words| words.join(std::ffi::OsStr::new(" ")).into_string().unwrap());
            assert_eq!(found.as_deref(), want, "{typed}");
        }
    }

    #[test]
    fn a_bare_word_is_no_task_unless_it_is_said_to_be() {
        let instead = |word: &str| bare(&[word]).map(|found| found.instead);
        for (word, want) in [
            ("sesions", "becket sessions"),
            ("doctr", "becket doctor"),
            ("Sessions", "becket sessions"),
            ("exprot", "becket export"),
            ("resume", "becket --resume SESSION"),
            ("verson", "becket version"),
        ] {
            assert_eq!(instead(word), Some(Some(want.to_owned())), "{word}");
        }
        assert_eq!(instead("refactor"), Some(None), "a word that is like no command");
        for (word, want) in [("Login", "becket login"), ("Cost", "becket cost"), ("LOGOUT", "becket logout")]
        {
            assert_eq!(instead(word), Some(Some(want.to_owned())), "{word}");
        }
    }

    #[test]
    fn a_word_after_print_that_looks_like_a_command_is_no_task() {
        let instead =
            |words: &[&str]| bare(words).and_then(|found| found.instead.filter(|_| found.after_print));
        for (typed, want) in [
            ("sesions", "becket sessions"),
            ("sesion", "becket sessions"),
            ("doctr", "becket doctor"),
            ("exprot", "becket export"),
            ("help", "becket help"),
            ("hlep", "becket help"),
            ("mcpp", "becket mcp"),
            ("auht", "becket auth"),
            ("Doctor", "becket doctor"),
            ("sessions", "becket sessions"),
            ("undo", "becket undo"),
            ("config", "becket config"),
            ("models", "becket models"),
            ("login", "becket login"),
            ("status", "becket doctor"),
            ("resume", "becket --resume SESSION"),
            ("compelte", "becket completions SHELL"),
            ("completion", "becket completions SHELL"),
            ("skills", "becket -p \"/NAME\" for one skill; `/skills` in the terminal lists them"),
        ] {
            assert_eq!(instead(&["-p", typed]).as_deref(), Some(want), "{typed}");
            assert_eq!(instead(&["-p", "--", typed]), None, "{typed}");
        }
        assert_eq!(instead(&["-p", "-c", "doctr"]).as_deref(), Some("becket doctor"));
        assert_eq!(instead(&["-p", "-c", "undo"]).as_deref(), Some("becket undo"));
        for name in SUBCOMMANDS {
            assert_eq!(instead(&["-p", name]), Some(format!("becket {name}")), "{name}");
        }
        // Each name of another tool leads to a command that exists.
        for (name, instead) in FOREIGN_COMMANDS {
            assert!(!SUBCOMMANDS.contains(name), "{name} is a command");
            let mut words = instead.split([' ', ',', ';']);
            if words.next() == Some("becket")
                && let Some(second) = words.next().filter(|word| word.starts_with(char::is_alphabetic))
            {
                assert!(SUBCOMMANDS.contains(&second), "{name}: {instead}");
            }
        }
    }

    #[test]
    fn a_word_that_is_a_task_is_sent() {
        for task in [
            &["fix it"][..],
            &["-p", "review"],
            &["-p", "explain"],
            &["-p", "summarize"],
            &["-p", "lint"],
            &["-p", "post"],
            &["-p", "test"],
            &["-p", "hi"],
            &["-p", "-c", "continue"],
            &["-p", "-c", "yes"],
            &["-p", "explore"],
            &["-p", "-c", "verfy"],
            &["-p", "--", "sesions"],
            &["--", "sesions"],
            &["warum?"],
            &["测试"],
            &[],
        ] {
            assert_eq!(bare(task), None, "{task:?}");
        }
    }
}
