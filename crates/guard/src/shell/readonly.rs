//! Recognizes commands that only read. They may run in the workspace without any rule.
//!
//! A table lists the options of each program that are known to be harmless, by their exact names. With any other option, or
//! a word that could become one, the command does not count as only reading. Programs that can write, run another program,
//! use the network or obey a file of the project (`cargo --version` obeys `rust-toolchain.toml`) are not in the table.

mod evaluating;
mod programs;
mod table;

use super::gitcmd;
use super::options::{PathArg, files, options, unknown};
use becket_shell_syntax::{Known, Word, base_name, may_show, system_name};
pub(crate) use evaluating::evaluates;
use evaluating::{printf, test};
pub(crate) use programs::takes_value;
use programs::{awk, date, find, jq, sed};
use table::{Args, Entry, TABLE, VERSIONED, XXD_ALONE, XXD_VALUED};

/// Returns the files that the command would read, if it is known to only read. `Err` is the reason why it is not.
pub(crate) fn check(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let mut found = by_name(words)?;
    // The shell itself reads folders to expand a pattern, so the pattern is judged whatever the program is.
    let patterns = words.iter().filter(|word| word.known == Known::Glob);
    let names = patterns.map(|word| PathArg { text: word.text.clone(), known: word.known, content: false });
    let more: Vec<PathArg> = names.filter(|name| found.iter().all(|file| file.text != name.text)).collect();
    found.extend(more);
    Ok(found)
}

fn by_name(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let Some((first, rest)) = words.split_first() else { return Err("it is empty".to_owned()) };
    if !first.is_literal() {
        return Err("its name is not known before it runs".to_owned());
    }
    let name = system_name(&first.text).unwrap_or(&first.text);
    if let [only] = rest
        && VERSIONED.contains(&name)
        && (only.text == "--version"
            || (only.text == "-V" && name.starts_with("python"))
            || (only.text == "-v" && name == "node"))
    {
        return Ok(Vec::new());
    }
    match name {
        "git" => gitcmd::check(rest),
        "find" => find(rest),
        "sed" | "gsed" => sed(rest),
        "awk" | "gawk" | "mawk" => awk(rest),
        "jq" => jq(rest),
        "xxd" => xxd(rest),
        "date" => date(rest),
        "echo" => text(rest),
        "printf" => printf(rest),
        "test" | "[" => test(name, rest),
        "true" | "false" | ":" => text(rest),
        "command" if rest.first().is_some_and(|w| matches!(w.text.as_str(), "-v" | "-V")) => text(rest),
        "exit" | "return" | "break" | "continue" | "wait" if rest.iter().all(is_number) => Ok(Vec::new()),
        "unset" | "export" | "local" | "readonly" | "declare" if rest.is_empty() => Ok(Vec::new()),
        "set"
            if rest.iter().all(|w| {
                matches!(
                    w.text.as_str(),
                    "-e" | "-u" | "-x" | "-eu" | "-euo" | "-o" | "pipefail" | "-ex" | "-eux" | "-euxo"
                )
            }) && !rest.is_empty() =>
        {
            Ok(Vec::new())
        }
        "ps" if rest.len() == 1
            && matches!(rest[0].text.as_str(), "aux" | "auxf" | "auxww" | "ax" | "axu") =>
        {
            Ok(Vec::new())
        }
        _ => TABLE
            .iter()
            .find(|e| e.names.split(' ').any(|n| n == name))
            .ok_or_else(|| format!("`{}` is not known to only read", base_name(name)))
            .and_then(|e| by_table(e, rest)),
    }
}

fn is_number(word: &Word) -> bool {
    word.is_literal() && word.text.chars().all(|c| c.is_ascii_digit())
}

/// True if printing the word reveals no secret.
fn printable(word: &Word) -> bool {
    match &word.variables {
        Some(names) => names.iter().all(|name| may_show(name)),
        None => word.known != Known::Dynamic,
    }
}

fn text(words: &[Word]) -> Result<Vec<PathArg>, String> {
    match words.iter().find(|w| !printable(w)) {
        Some(word) => Err(format!("{} may show a secret of the environment", word.raw)),
        None => Ok(Vec::new()),
    }
}

fn by_table(entry: &Entry, words: &[Word]) -> Result<Vec<PathArg>, String> {
    // The tools of binutils read more arguments from a file named `@FILE`.
    if entry.names == "strings"
        && let Some(word) = words.iter().find(|w| w.text.starts_with('@'))
    {
        return Err(format!("{} may name a file with more options", word.raw));
    }
    if entry.names == "tree"
        && let Some(word) = words.iter().find(|w| joins_values(w))
    {
        return Err(format!("letters after a value in {} may be options too", word.raw));
    }
    let parsed = options(words, entry.flags, entry.valued, entry.long, entry.tame)?;
    if let Some(why) = walks_through_links(entry, &parsed.seen) {
        return Err(why);
    }
    // `-x` is no option of POSIX. Some versions of `ps` then read all letters as BSD does, where `e` shows the environment.
    if entry.names == "ps" && ["e", "x"].iter().all(|letter| parsed.seen.iter().any(|seen| seen == letter)) {
        return Err("with `-x`, `-e` shows the environment of processes".to_owned());
    }
    // The environment of processes may hold secrets.
    if entry.names == "ps"
        && let Some((_, value)) = parsed.values.iter().find(|(_, value)| value.to_lowercase().contains("env"))
    {
        return Err(format!("the column {value} may show environment variables, which can hold secrets"));
    }
    let mut positional = parsed.positional;
    match entry.args {
        Args::None if !positional.is_empty() => return Err("an argument would change something".to_owned()),
        Args::UpTo(max) if positional.len() > max => {
            return Err("its second file would be written".to_owned());
        }
        Args::UpTo(_) if !positional.iter().all(Word::is_literal) => {
            return Err("a pattern may match a second file, which would be written".to_owned());
        }
        // Some implementations take all words after the first file for files.
        Args::UpTo(_) if words.iter().skip_while(|w| !positional.contains(w)).count() > 1 => {
            return Err("an option after its file may be taken for the file that is written".to_owned());
        }
        Args::Text => return text(&positional),
        Args::Pattern
            // If the first word is a pattern for file names, it may become several words, of which all but the first are files. So
            // it is judged as a file.
            if positional.first().is_some_and(Word::is_literal)
                && !parsed.seen.iter().any(|o| matches!(o.as_str(), "e" | "regexp" | "files" | "type-list")) =>
        {
            positional.remove(0);
        }
        _ => {}
    }
    let mut found = files(&positional, entry.args != Args::Names);
    found.extend(files(&parsed.doubtful, true));
    if entry.args == Args::Pattern {
        // Patterns of the files to search. A pattern with `!` excludes files.
        let patterns = parsed.values.into_iter().filter(|(name, pattern)| {
            matches!(name.as_str(), "g" | "glob" | "iglob" | "include") && !pattern.starts_with('!')
        });
        found.extend(patterns.map(|(_, text)| PathArg { text, known: Known::Glob, content: true }));
    }
    Ok(found)
}

/// The reason why the program would follow links of the workspace to folders outside, and list them.
fn walks_through_links(entry: &Entry, seen: &[String]) -> Option<String> {
    let has = |letter: &str, long: &str| seen.iter().any(|option| option == letter || option == long);
    let walks = match entry.names {
        "ls dir vdir" => has("R", "recursive"),
        "du" => true,
        _ => false,
    };
    (walks && has("L", "dereference")).then(|| "with `-L`, it follows links out of the workspace".to_owned())
}

/// True for a word of `tree` with a value attached to its option. `tree` looks for the value in the next word and takes the
/// letters for further options: `-Lo 2 FILE` writes to FILE.
fn joins_values(word: &Word) -> bool {
    let Some(letters) = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
        return false;
    };
    letters
        .split_once(['L', 'P', 'I'])
        .is_some_and(|(_, after)| !after.is_empty() && !after.chars().all(|c| c.is_ascii_digit()))
}

fn xxd(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let mut positional = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let number = |text: &str| {
            let digits = text.trim_start_matches(['+', '-']);
            !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit() || c == 'x')
        };
        if !word.is_literal() {
            return Err(format!("{} is not known before it runs", word.raw));
        } else if !word.text.starts_with('-') || word.text == "-" {
            positional.push(word.clone());
        } else if XXD_VALUED.contains(&word.text.as_str()) {
            rest.next().filter(|w| w.is_literal() && number(&w.text)).ok_or_else(|| unknown(word))?;
        } else if !positional.is_empty()
            || !(XXD_ALONE.contains(&word.text.as_str())
                || word.text.get(2..).is_some_and(number) && XXD_VALUED.contains(&&word.text[..2]))
        {
            return Err(unknown(word));
        }
    }
    if positional.len() > 1 {
        Err("its second file would be written".to_owned())
    } else {
        Ok(files(&positional, true))
    }
}
