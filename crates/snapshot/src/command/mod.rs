//! What a shell command may destroy, by reading it.
//!
//! Errs on the side of keeping: what is not understood puts everything at risk, and a harmless command taken for a
//! destructive one costs time only. It is no permission check, and runs nothing.

mod git;
mod reader;
mod table;

use std::path::{Path, PathBuf};

/// How much a call must be waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It may change files, and is not known to destroy any: what is at risk is kept as far as time allows.
    #[default]
    Ordinary,
    /// It destroys what it names; that is kept whatever it takes, the rest as far as time allows.
    Named,
    /// It may destroy anything: all that is at risk is kept first.
    Destructive,
}

/// How much of a repository's own files is at risk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitRisk {
    #[default]
    None,
    /// References, index, stash, logs, settings.
    State,
    /// Objects as well.
    Objects,
}

/// What a command puts at risk beyond files that are changed or not tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Risk {
    pub level: Level,
    /// Paths that it names, absolute, dots folded; everything below them is at risk, ignored or not.
    pub targets: Vec<PathBuf>,
    /// What it touches cannot be known: tracked and unchanged files are kept, too.
    pub everything: bool,
    /// Ignored directories are at risk.
    pub ignored: bool,
    pub git: GitRisk,
}

impl Risk {
    fn raise(&mut self, level: Level) {
        self.level = self.level.max(level);
    }

    fn raise_git(&mut self, git: GitRisk) {
        self.git = self.git.max(git);
    }

    /// Adds what another command puts at risk.
    fn add(&mut self, other: Self) {
        self.raise(other.level);
        self.raise_git(other.git);
        self.everything |= other.everything;
        self.ignored |= other.ignored;
        self.targets.extend(other.targets);
    }

    /// Nothing is known of what it will do, and it is known to destroy.
    fn all(&mut self) {
        self.raise(Level::Destructive);
        self.raise_git(GitRisk::Objects);
        (self.everything, self.ignored) = (true, true);
    }
}

/// What is known of the place where a command runs.
pub struct Surroundings<'a> {
    pub cwd: &'a Path,
    pub home: Option<&'a Path>,
    /// The text of a script that the command would run, where it can be read.
    pub script: &'a dyn Fn(&Path) -> Option<String>,
}

/// Reads a command.
pub fn classify(command: &str, around: &Surroundings<'_>) -> Risk {
    let mut reader = reader::Reader::new(around);
    reader.script(command, 0);
    let mut risk = reader.risk;
    risk.targets.sort();
    risk.targets.dedup();
    risk
}

#[cfg(test)]
mod tests;
