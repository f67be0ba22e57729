//! Lists of steps that git carries out later: those of a rebase, and of several picks. A line with `exec` runs a program when
//! the user continues.
//!
//! Git must be able to write these files in the sandbox, so they are judged by their content: a line with `exec` that was not
//! there before the command is not left there.

use crate::content::put_aside;
use crate::policy::Policy;
use std::fs;
use std::path::{Path, PathBuf};

const BYTES: u64 = 1 << 20;

/// In a git directory.
const FILES: &[&str] = &[
    "rebase-merge/git-rebase-todo",
    "rebase-merge/git-rebase-todo.backup",
    "rebase-merge/done",
    "sequencer/todo",
];

/// The lists before a command.
#[derive(Debug)]
pub(crate) struct Todos(Vec<(PathBuf, String)>);

impl Todos {
    pub(crate) fn before(policy: &Policy) -> Self {
        // This name is protected in each git directory.
        let dirs = policy.protected.iter().filter(|path| path.ends_with("commondir"));
        let files = dirs.flat_map(|path| FILES.iter().map(|name| path.with_file_name(name)));
        Self(files.map(|path| (path.clone(), text(&path))).collect())
    }

    /// Puts lists aside that run something new. Adds one line for each to `out`.
    pub(crate) fn restore(&self, out: &mut Vec<String>) {
        for (path, before) in &self.0 {
            let now = text(path);
            let is_new = |line: &&str| runs(line) && !before.lines().any(|old| old == *line);
            let Some(line) = now.lines().find(is_new) else { continue };
            let shown = becket_types::cut_end(line, 80);
            // The folder may be a link that the command made.
            let folder = path.parent().filter(|folder| folder.is_symlink());
            let moved = put_aside(folder.unwrap_or(path));
            if moved.is_some() && folder.is_none() && !before.is_empty() {
                let _ = fs::write(path, before);
            }
            let what = if moved.is_some() { "it was put aside" } else { "it could not be moved aside" };
            out.push(format!("{} would run `{shown}` when git continues; {what}", path.display()));
        }
    }
}

fn text(path: &Path) -> String {
    becket_files::read(path, BYTES)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// True if a line of a list runs a program.
fn runs(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| matches!(word, "exec" | "x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_runs_something_is_not_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rebase-merge/git-rebase-todo");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = "pick 1 a\nexec make\n";
        fs::write(&path, before).unwrap();
        let todos = Todos(vec![(path.clone(), text(&path))]);
        let check = |now: &str| {
            fs::write(&path, now).unwrap();
            let mut lines = Vec::new();
            todos.restore(&mut lines);
            (lines.len(), fs::read_to_string(&path).unwrap())
        };
        assert_eq!(check("exec make\npick 2 b\n"), (0, "exec make\npick 2 b\n".to_owned()));
        for evil in ["pick 1 a\nexec make\nexec ./evil\n", "\tx ./evil\n", "pick 1 a\n x ./evil"] {
            assert_eq!(check(evil), (1, before.to_owned()), "{evil}");
        }
    }
}
