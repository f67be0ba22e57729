//! Command lines that hints show in place of one that is refused. They can be copied into a shell and run as they are.
//!
//! Owns their text: the user's own words and options, quoted for a shell. A line that becket would refuse again is never shown.

use super::{Run, SUBCOMMANDS, Sub};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, Parser as _};
use std::ffi::OsString;

/// Returns the words of a command line as text, without the first one, the program. `None`: one of them is not Unicode.
fn words(arguments: &[OsString]) -> Option<Vec<&str>> {
    arguments.get(1..)?.iter().map(|word| word.to_str()).collect()
}

/// Quotes a word for a shell, if it needs quotes.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_./:@=,+-%".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { quoted(text) }
}

/// Puts a text into quotes for a shell: double ones, unless it contains characters that mean something between them.
fn quoted(text: &str) -> String {
    if text.contains(['"', '$', '`', '\\', '!']) {
        format!("'{}'", text.replace('\'', "'\\''"))
    } else {
        format!("\"{text}\"")
    }
}

/// Returns a command line as it is typed.
fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    std::iter::once("becket".to_owned()).chain(words.into_iter().map(word)).collect::<Vec<_>>().join(" ")
}

fn with_program<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<OsString> {
    std::iter::once("becket").chain(words).map(OsString::from).collect()
}

/// Returns the task of a run with these words. `None`: clap refuses them, or there is no task.
fn task_of<'a>(run: &mut Command, words: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let found = run.try_get_matches_from_mut(with_program(words)).ok()?;
    found.get_one::<String>("prompt").cloned()
}

/// Returns the options of a run with its task behind them, if becket takes the line and the task is this one.
fn with_task(run: &mut Command, options: &[&str], task: &str, typed: String) -> Option<String> {
    // An option that takes a list would take the task, too.
    [&[][..], &["--"]].into_iter().find_map(|end| {
        let head: Vec<&str> = options.iter().chain(end).copied().collect();
        let whole: Vec<&str> = head.iter().copied().chain([task]).collect();
        (task_of(run, whole)? == task).then(|| format!("{} {typed}", line(head)))
    })
}

/// Returns the command line with its task in quotes, if clap refused the second of several bare words.
pub(crate) fn unquoted(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let is_extra = error.kind() == ErrorKind::UnknownArgument;
    let Some(ContextValue::String(_)) = error.get(ContextKind::InvalidArg).filter(|_| is_extra) else {
        return None;
    };
    let all = words(arguments)?;
    let (before, after) = match all.iter().position(|word| *word == "--") {
        Some(at) => (&all[..at], &all[at + 1..]),
        None => (&all[..], &[][..]),
    };
    let mut run = Run::command();
    let (mut options, mut task) = (Vec::new(), Vec::new());
    for word in before {
        // A word that is the value of an option is no part of the task. Only clap knows which options have values.
        let is_task = !word.starts_with('-')
            && task_of(&mut run, options.iter().chain([word]).copied()).is_some_and(|task| task == *word);
        if is_task { &mut task } else { &mut options }.push(*word);
    }
    task.extend(after);
    if task.len() < 2 {
        return None;
    }
    let task = task.join(" ");
    with_task(&mut run, &options, &task, quoted(&task))
}

/// Returns the command line that sends a bare word of a run as its task.
pub(crate) fn as_task(bare: &str, arguments: &[OsString]) -> String {
    let exact = words(arguments).and_then(|all| {
        let mut run = Run::command();
        let places = all.iter().enumerate().filter(|(_, word)| **word == bare).map(|(at, _)| at);
        places.rev().find_map(|at| {
            let mut options = all.clone();
            options.remove(at);
            let words = options.iter().copied();
            let rest = run.try_get_matches_from_mut(with_program(words)).ok()?;
            // Otherwise this place is the value of an option.
            rest.get_one::<String>("prompt").is_none().then_some(())?;
            if !rest.get_flag("print") {
                options.insert(0, "-p");
            }
            options.push("--");
            with_task(&mut run, &options, bare, word(bare))
        })
    });
    exact.unwrap_or_else(|| format!("becket -p -- {}", word(bare)))
}

/// Returns the command line with `command` in place of its first words `skip`, or the command alone, or its help if it needs more
/// words.
pub(crate) fn corrected(command: &[&str], skip: usize, arguments: &[OsString]) -> String {
    let rest = words(arguments).and_then(|all| all.get(skip..).map(<[&str]>::to_vec)).unwrap_or_default();
    let whole: Vec<&str> = command.iter().copied().chain(rest).collect();
    let help: Vec<&str> = std::iter::once("help").chain(command.iter().copied()).collect();
    let taken = |words: &[&str]| {
        words.first().is_some_and(|word| SUBCOMMANDS.contains(word))
            && Sub::try_parse_from(with_program(words.iter().copied())).is_ok()
    };
    let lines = [&whole[..], command, &help[..]];
    line(lines.into_iter().find(|words| taken(words)).unwrap_or(&help).iter().copied())
}

/// Returns the search for words that were taken for a command of `becket sessions`.
pub(crate) fn search_of(arguments: &[OsString]) -> String {
    let all = words(arguments).unwrap_or_default();
    let wanted: Vec<&str> = all.into_iter().skip(1).take_while(|word| !word.starts_with('-')).collect();
    format!("becket sessions {}", quoted(&wanted.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::super::bare_word;
    use super::*;

    /// Words of a command line as a shell divides them. It has no quotes but those around whole words.
    fn split(typed: &str) -> Vec<OsString> {
        let mut out = Vec::new();
        let mut rest = typed.trim();
        while let Some(first) = rest.chars().next() {
            let (word, after) = match first {
                '"' | '\'' => rest[1..].split_once(first).unwrap(),
                _ => rest.split_once(' ').unwrap_or((rest, "")),
            };
            out.push(OsString::from(word));
            rest = after.trim_start();
        }
        out
    }

    #[test]
    fn a_task_without_quotes_is_shown_with_them() {
        for (typed, want) in [
            ("fix the bug", Some("becket \"fix the bug\"")),
            ("-p fix the bug", Some("becket -p \"fix the bug\"")),
            ("fix the bug -p --verbose", Some("becket -p --verbose \"fix the bug\"")),
            (
                "-p --model script:x.json fix the test",
                Some("becket -p --model script:x.json \"fix the test\""),
            ),
            ("--max-turns 3 foo bar", Some("becket --max-turns 3 \"foo bar\"")),
            ("fix --model m the bug", Some("becket --model m \"fix the bug\"")),
            ("--model the fix the bug", Some("becket --model the \"fix the bug\"")),
            ("-n 'my title' fix the bug", Some("becket -n \"my title\" \"fix the bug\"")),
            (
                "fix the bug --allowedTools Read Edit",
                Some("becket --allowedTools Read Edit -- \"fix the bug\""),
            ),
            ("-p -- fix --the bug", Some("becket -p \"fix --the bug\"")),
            ("pay 5$ now", Some("becket 'pay 5$ now'")),
            ("-p fix --nope", None),
            ("fix the bug --nope", None),
            ("fix", None),
        ] {
            let words: Vec<OsString> = [OsString::from("becket")].into_iter().chain(split(typed)).collect();
            let error = Run::try_parse_from(&words).err();
            let hint = error.and_then(|error| unquoted(&error, &words));
            assert_eq!(hint.as_deref(), want, "{typed}");
            if let Some(hint) = hint {
                Run::try_parse_from(split(&hint)).unwrap();
            }
        }
    }

    #[test]
    fn a_word_can_be_sent_with_the_options_of_its_line() {
        for (typed, want) in [
            ("-p continue", "becket -p -- continue"),
            ("continue", "becket -p -- continue"),
            ("-p --model script:x.json continue", "becket -p --model script:x.json -- continue"),
            ("list --model list", "becket -p --model list -- list"),
            ("-p -n 'my title' start", "becket -p -n \"my title\" -- start"),
            ("-p update --allowedTools Read", "becket -p --allowedTools Read -- update"),
            ("sesions --nonsense", "becket -p -- sesions"),
        ] {
            let words: Vec<OsString> = [OsString::from("becket")].into_iter().chain(split(typed)).collect();
            let bare = split(typed).into_iter().filter_map(|word| word.into_string().ok());
            let mut bare =
                bare.filter(|word| ["continue", "list", "start", "update", "sesions"].contains(&&**word));
            let bare = bare.next_back().unwrap();
            let hint = as_task(&bare, &words);
            assert_eq!(hint, want, "{typed}");
            let hint = split(&hint);
            assert_eq!(bare_word(&Run::try_parse_from(&hint).unwrap(), &hint), None);
        }
    }

    #[test]
    fn a_mistyped_command_keeps_its_other_words() {
        for (typed, command, skip, want) in [
            ("exprot last --format md", &["export"][..], 1, "becket export last --format md"),
            ("exprot --nonsense", &["export"], 1, "becket export"),
            ("compeltions zsh", &["completions"], 1, "becket completions zsh"),
            ("compeltions", &["completions"], 1, "becket help completions"),
            ("sessions frok last", &["sessions", "fork"], 2, "becket sessions fork last"),
            ("sessions frok", &["sessions", "fork"], 2, "becket help sessions fork"),
        ] {
            let words: Vec<OsString> = [OsString::from("becket")].into_iter().chain(split(typed)).collect();
            assert_eq!(corrected(command, skip, &words), want, "{typed}");
        }
        let words = split("becket sessions two words --json");
        assert_eq!(search_of(&words), "becket sessions \"two words\"");
        Sub::try_parse_from(split(&search_of(&words))).unwrap();
    }
}
