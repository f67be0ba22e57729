//! Detects a single bare word in place of a task: a task, a mistyped command, or a command of another program.
//!
//! Such a word is never sent to a model, because `becket sesions` would cost money and do nothing useful. After `-p`, a word
//! is refused if it is a command, a command of another tool, or one of them with a typing error: any other word may be a task
//! for the piped text. `becket -- WORD` is explicit and is not checked.

use super::{Run, SUBCOMMANDS, Sub, Subcommands, hint};
use becket_types::edit_distance;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};

/// Words that other agents and tools know as commands, the command to type instead, and a note about it. Without a command,
/// the note says what to use.
const FOREIGN_COMMANDS: &[(&str, &str, &str)] = &[
    ("resume", "becket --resume", "choose a session, or add its id"),
    ("continue", "becket --continue", ""),
    ("fork", "becket sessions fork last", "or the id of a session"),
    ("list", "becket sessions", ""),
    ("ls", "becket sessions", ""),
    ("history", "becket sessions", ""),
    ("session", "becket sessions", ""),
    ("stats", "becket sessions stats", ""),
    ("usage", "becket cost", ""),
    ("search", "becket sessions search WORDS", ""),
    ("status", "becket doctor", ""),
    ("check", "becket doctor", ""),
    ("settings", "becket config", ""),
    ("run", "becket -p \"TASK\"", ""),
    ("print", "becket -p \"TASK\"", ""),
    ("ask", "becket -p \"TASK\"", ""),
    ("completion", "becket completions bash", "or another shell"),
    ("manual", "becket man", ""),
    ("complete", "becket completions bash", "or another shell"),
    ("skills", "becket -p \"/NAME\"", "for one skill; `/skills` in the terminal lists them"),
    ("model", "becket models", ""),
    ("providers", "becket models", ""),
    ("commands", "becket help", ""),
    ("serve", "becket -p --input-format stream-json --output-format stream-json", "driven over stdin"),
    ("acp", "becket -p --input-format stream-json --output-format stream-json", "becket does not speak ACP"),
    ("app-server", "becket -p --input-format stream-json --output-format stream-json", ""),
    ("update", "", "the package manager that installed becket"),
    ("upgrade", "", "the package manager that installed becket"),
    ("install", "becket doctor", "shows what is installed"),
    ("plugin", "becket --plugin-dir DIR", "uses a plugin folder in one run"),
    ("plugins", "becket --plugin-dir DIR", "uses a plugin folder in one run"),
    ("review", "becket exec review --uncommitted", "or becket -p \"/review\""),
    ("apply", "git apply", "becket changes files itself"),
    ("setup-token", "becket login", ""),
    ("start", "becket", ""),
    ("chat", "becket", ""),
    ("tui", "becket", ""),
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
    pub instead: Option<Instead>,
    /// The command that sends the word as a task.
    pub as_task: String,
}

/// Advice in place of a refused word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// The command to type, and a note about it, which may be empty.
    Type(String, &'static str),
    Use(&'static str),
}

impl Display for Instead {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(command, "") => write!(out, "type: {command}"),
            Self::Type(command, note) => write!(out, "type: {command} ({note})"),
            Self::Use(note) => write!(out, "use: {note}"),
        }
    }
}

/// Returns the single bare word of this run, if it looks like a command.
pub(crate) fn bare_word(run: &Run, arguments: &[OsString]) -> Option<NotATask> {
    let explicit = arguments.iter().any(|argument| argument == "--");
    let word = run.prompt.as_deref().filter(|word| !explicit && looks_like_a_command(word))?;
    let continues = run.session.continue_ || run.session.resume.is_some();
    let instead = if run.print { Some(intended_command(word, continues)?) } else { instead_of(word) };
    let as_task = hint::as_task(word, arguments);
    Some(NotATask { word: word.to_owned(), after_print: run.print, instead, as_task })
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
    let lower = word.to_ascii_lowercase();
    let instead = advice(&lower).or_else(|| {
        let near = nearest(&lower)?;
        Some(Instead::Type(hint::corrected(&[near], 1, arguments), ""))
    })?;
    let as_task = hint::as_task(word, arguments);
    Some(NotATask { word: word.to_owned(), after_print: false, instead: Some(instead), as_task })
}

/// Returns the subcommand of `becket sessions` that is most like this word.
pub(crate) fn nearest_sessions_command(word: &str, arguments: &[OsString]) -> Option<String> {
    let all = Sub::command();
    let sessions = all.find_subcommand("sessions")?;
    let near = becket_tool::text::nearest(word, sessions.get_subcommands().map(clap::Command::get_name))?;
    Some(hint::corrected(&["sessions", near], 2, arguments))
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
fn instead_of(word: &str) -> Option<Instead> {
    let lower = word.to_ascii_lowercase();
    advice(&lower).or_else(|| advice(nearest(&lower)?))
}

/// Returns what to do for the name of a command, of becket or of another tool.
fn advice(name: &str) -> Option<Instead> {
    if SUBCOMMANDS.contains(&name) {
        return Some(Instead::Type(hint::corrected(&[name], 1, &[]), ""));
    }
    FOREIGN_COMMANDS.iter().find(|(known, ..)| *known == name).map(|(_, command, note)| match *command {
        "" => Instead::Use(note),
        command => Instead::Type(command.to_owned(), note),
    })
}

fn nearest(word: &str) -> Option<&'static str> {
    becket_tool::text::nearest(word, SUBCOMMANDS.iter().copied())
}

/// Returns the command that a word after `-p` means: it has that name, or differs from it by one typing error. Words that a
/// user means as a task, such as `explore`, differ by more.
fn intended_command(word: &str, continues: bool) -> Option<Instead> {
    let lower = word.to_ascii_lowercase();
    let names = SUBCOMMANDS.iter().copied().chain(FOREIGN_COMMANDS.iter().map(|(name, ..)| *name));
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
        let instead =
            |word: &str| bare(&[word]).map(|found| found.instead.map(|instead| instead.to_string()));
        for (word, want) in [
            ("sesions", "becket sessions"),
            ("doctr", "becket doctor"),
            ("Sessions", "becket sessions"),
            ("exprot", "becket export"),
            ("resume", "becket --resume (choose a session, or add its id)"),
            ("verson", "becket version"),
        ] {
            assert_eq!(instead(word), Some(Some(format!("type: {want}"))), "{word}");
        }
        assert_eq!(instead("refactor"), Some(None), "a word that is like no command");
        for (word, want) in
            [("Login", "becket login"), ("Cost", "becket cost"), ("LOGOUT", "becket help logout")]
        {
            assert_eq!(instead(word), Some(Some(format!("type: {want}"))), "{word}");
        }
    }

    #[test]
    fn a_word_after_print_that_looks_like_a_command_is_no_task() {
        let instead = |words: &[&str]| {
            bare(words).filter(|found| found.after_print)?.instead.map(|instead| instead.to_string())
        };
        for (typed, want) in [
            ("sesions", "becket sessions"),
            ("sesion", "becket sessions"),
            ("doctr", "becket doctor"),
            ("exprot", "becket export"),
            ("help", "becket help"),
            ("hlep", "becket help"),
            ("mcpp", "becket help mcp"),
            ("auht", "becket help auth"),
            ("Doctor", "becket doctor"),
            ("sessions", "becket sessions"),
            ("undo", "becket undo"),
            ("config", "becket config"),
            ("models", "becket models"),
            ("login", "becket login"),
            ("status", "becket doctor"),
            ("resume", "becket --resume (choose a session, or add its id)"),
            ("compelte", "becket completions bash (or another shell)"),
            ("completion", "becket completions bash (or another shell)"),
            ("skills", "becket -p \"/NAME\" (for one skill; `/skills` in the terminal lists them)"),
        ] {
            assert_eq!(instead(&["-p", typed]), Some(format!("type: {want}")), "{typed}");
            assert_eq!(instead(&["-p", "--", typed]), None, "{typed}");
        }
        assert_eq!(instead(&["-p", "-c", "doctr"]).as_deref(), Some("type: becket doctor"));
        assert_eq!(instead(&["-p", "-c", "undo"]).as_deref(), Some("type: becket undo"));
        // Each hint is a line that becket takes as it is.
        let names = SUBCOMMANDS.iter().copied().chain(FOREIGN_COMMANDS.iter().map(|(name, ..)| *name));
        for name in names {
            let command = match bare(&[name]).and_then(|found| found.instead) {
                Some(Instead::Type(command, _)) if command.starts_with("becket") => command,
                Some(Instead::Type(command, _)) if command == "git apply" => continue,
                Some(Instead::Type(command, _)) => panic!("{command}"),
                Some(Instead::Use(_)) => continue,
                None => panic!("{name}"),
            };
            let words: Vec<OsString> = command.replace('"', "").split(' ').map(OsString::from).collect();
            match command.split(' ').nth(1).filter(|word| SUBCOMMANDS.contains(word)) {
                Some(_) => drop(Sub::try_parse_from(&words).expect(name)),
                None => {
                    assert_eq!(bare_word(&Run::try_parse_from(&words).expect(name), &words), None, "{name}");
                }
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
