//! Reads a shell command and says which files it may destroy.
//!
//! In doubt it assumes more risk: a command that is not understood puts everything at risk, and taking a harmless command
//! for a destructive one only costs time. This is not a permission check, and it runs nothing.

mod git;
mod reader;
mod table;

use std::path::{Path, PathBuf};

/// The danger of a command. Decides how long the command may have to wait until files are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It may change files, but is not known to destroy any. Files at risk are kept as far as a short time allows.
    #[default]
    Ordinary,
    /// It destroys the paths that it names. These are kept first, with a long time limit; other files as for `Ordinary`.
    Named,
    /// It may destroy anything. All files at risk are kept first, with a long time limit.
    Destructive,
}

/// The part of a repository's own files (`.git`) that is at risk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitRisk {
    #[default]
    None,
    /// References, index, stash, logs, settings.
    State,
    /// Objects as well.
    Objects,
}

/// The files that a command puts at risk, in addition to changed and untracked files, which are always at risk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Risk {
    pub level: Level,
    /// Paths that the command names: absolute, without `.` and `..`. Everything below them is at risk, ignored or not.
    pub targets: Vec<PathBuf>,
    /// True if it cannot be known which files the command changes. Tracked and unchanged files are then kept too.
    pub everything: bool,
    /// True if ignored directories are at risk.
    pub ignored: bool,
    /// The risk of the workspace's own repository, and of each repository in which git runs.
    pub git: GitRisk,
    /// Folders in which git runs.
    pub git_dirs: Vec<PathBuf>,
    /// The risk of all other repositories in the workspace. A repository below a target is always at risk as a whole.
    pub nested: GitRisk,
}

impl Risk {
    fn raise(&mut self, level: Level) {
        self.level = self.level.max(level);
    }

    fn raise_git(&mut self, git: GitRisk) {
        self.git = self.git.max(git);
    }

    /// Adds the risk of another command.
    fn add(&mut self, other: Self) {
        self.raise(other.level);
        self.raise_git(other.git);
        self.everything |= other.everything;
        self.ignored |= other.ignored;
        self.targets.extend(other.targets);
        self.git_dirs.extend(other.git_dirs);
        self.nested = self.nested.max(other.nested);
    }

    /// Sets the highest risk: the command destroys files, and it is not known which.
    fn all(&mut self) {
        self.raise(Level::Destructive);
        self.raise_git(GitRisk::Objects);
        self.nested = GitRisk::Objects;
        (self.everything, self.ignored) = (true, true);
    }
}

/// Facts about the directory in which a command runs.
pub struct CommandContext<'a> {
    pub cwd: &'a Path,
    pub home: Option<&'a Path>,
    /// Returns the text of a script that the command would run, if it can be read.
    pub script: &'a dyn Fn(&Path) -> Option<String>,
}

/// Reads a command and adds up the risk of its parts.
pub fn classify(command: &str, around: &CommandContext<'_>) -> Risk {
    let mut reader = reader::Reader::new(around);
    reader.script(command, 0);
    let mut risk = reader.risk;
    risk.targets.sort();
    risk.targets.dedup();
    risk
}

#[cfg(test)]
mod tests;
