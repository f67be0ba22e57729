//! Laws that hold for any text, for the fuzz target and for the tests. Not part of the public API.

use crate::{MAX_CHARS, Paths, Script, Unwrapped, Word, read, unwrap};
use std::path::{Path, PathBuf};

/// Maximum number of launchers that are removed from one command. No command that the parser reads has so many.
const MOST_LAUNCHERS: usize = 10_000;

fn script(source: &str) -> Script {
    let resolve = |path: &Path| becket_types::lexical(path);
    read(source, Some(vec![PathBuf::from("/w")]), &Paths { home: Path::new("/home/u"), resolve: &resolve })
}

/// Parses a text and checks the laws.
///
/// # Errors
///
/// Returns the first law that does not hold, as a sentence.
pub fn check(source: &str) -> Result<(), String> {
    let read = script(source);
    if format!("{read:?}") != format!("{:?}", script(source)) {
        return Err("the same text gives two results".to_owned());
    }
    if read.unread && read.doubts.is_empty() {
        return Err("a part was not read, and there is no doubt".to_owned());
    }
    for command in &read.commands {
        if command.words.is_empty() && command.assigns.is_empty() {
            return Err("a command without words".to_owned());
        }
        launched(&command.words)?;
        for (word, dir) in command.words.iter().zip(command.dirs.iter().flatten()) {
            if !dir.is_absolute() {
                return Err(format!("{word:?} is used in {}", dir.display()));
            }
        }
    }
    // A command on a line of its own must be found, whatever text follows it.
    let longer = format!("first-command x\n{source}");
    let first = script(&longer);
    let found = first.commands.iter().any(|c| c.words.first().is_some_and(|w| w.text == "first-command"));
    if !found && !first.unread && longer.chars().count() <= MAX_CHARS {
        return Err("the command before is lost".to_owned());
    }
    Ok(())
}

/// Removes launchers until a command is left.
fn launched(words: &[Word]) -> Result<(), String> {
    let mut words = words.to_vec();
    for _ in 0..MOST_LAUNCHERS {
        match unwrap(&words) {
            Unwrapped::Command(inner) => words = inner,
            Unwrapped::Plain | Unwrapped::Script(_) | Unwrapped::Opaque(_) => return Ok(()),
        }
    }
    Err(format!("removing launchers does not end: {words:?}"))
}
