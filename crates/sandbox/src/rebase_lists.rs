//! Lists of steps that git carries out later: those of a rebase, and of several picks. A line with `exec` runs a program when
//! the user continues.
//!
//! Git must be able to write these files in the sandbox, so they are judged by their content: if a command has added a line with
//! `exec`, the file is put aside.

use crate::content::{Kind, put_aside, put_back, read_real, real_path};
use crate::policy::Policy;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const BYTES: u64 = 1 << 20;

/// Paths below a git directory.
const FILES: &[&str] = &[
    "rebase-merge/git-rebase-todo",
    "rebase-merge/git-rebase-todo.backup",
    "rebase-merge/done",
    "sequencer/todo",
];

/// One such file, as it was before the command.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct RebaseList {
    #[serde(with = "crate::policy::lossless::one")]
    path: PathBuf,
    /// The path with the links above the git directory resolved.
    #[serde(with = "crate::policy::lossless::one")]
    real: PathBuf,
    text: String,
}

/// The lists of steps, as they were before the command.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RebaseLists(Vec<RebaseList>);

impl RebaseLists {
    pub(crate) fn before(policy: &Policy) -> Self {
        // `commondir` is protected in each git directory, so its paths tell where the git directories are.
        let dirs = policy.protected.iter().filter(|path| path.ends_with("commondir"));
        let files = dirs.flat_map(|path| FILES.iter().map(move |name| (path, *name)));
        Self(files.map(|(commondir, name)| RebaseList::before(commondir, name)).collect())
    }

    /// Puts aside the lists with a line that runs a program and was not there before. Adds one line for each to `out`.
    pub(crate) fn restore(&self, out: &mut Vec<String>) {
        for todo in &self.0 {
            let RebaseList { path, real, text: before } = todo;
            // Git would follow a link that a command put here, so this reading does too.
            let now = read(path);
            let is_new = |line: &&str| runs_program(line) && !before.lines().any(|old| old == *line);
            let Some(line) = now.lines().find(is_new) else { continue };
            let folder = real.parent().filter(|folder| folder.is_symlink());
            // If the path leads to a file elsewhere, its line must not be shown to the model.
            let shown = match read_regular(real) {
                Some(text) if text == now => format!("`{}`", becket_types::cut_end(line, 80)),
                _ => "a program".to_owned(),
            };
            let moved = put_aside(folder.unwrap_or(real));
            if moved.is_some() && folder.is_none() && !before.is_empty() {
                let content = Some(before.clone().into_bytes());
                let _ = put_back(real, &Kind::File { mode: 0o644, content });
            }
            let what = if moved.is_some() { "it was put aside" } else { "it could not be moved aside" };
            out.push(format!("{} would run {shown} when git continues; {what}", path.display()));
        }
    }
}

impl RebaseList {
    /// `commondir`: a path in the git directory.
    fn before(commondir: &Path, name: &str) -> Self {
        let real = real_path(commondir).with_file_name(name);
        // A link is not followed: its target would be copied into the workspace when the list is put back.
        let text = read_regular(&real).unwrap_or_default();
        Self { path: commondir.with_file_name(name), real, text }
    }
}

/// The text of a list, if the file is no link.
fn read_regular(real: &Path) -> Option<String> {
    read_real(real, BYTES).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The text that git would read, also through a link.
fn read(path: &Path) -> String {
    becket_files::read(path, BYTES)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// True if a line of a list runs a program.
fn runs_program(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| matches!(word, "exec" | "x"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_step_that_runs_something_is_not_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rebase-merge/git-rebase-todo");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = "pick 1 a\nexec make\n";
        fs::write(&path, before).unwrap();
        let todo = || RebaseList::before(&dir.path().canonicalize().unwrap().join("commondir"), FILES[0]);
        let todos = RebaseLists(vec![todo()]);
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

    #[test]
    fn the_target_of_a_link_is_neither_copied_nor_shown() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = root.join("git").join(FILES[0]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(root.join("secret"), "exec SECRET\n").unwrap();
        std::os::unix::fs::symlink(root.join("secret"), &path).unwrap();
        let todos = RebaseLists(vec![RebaseList::before(&root.join("git/commondir"), FILES[0])]);
        let check = || {
            let mut lines = Vec::new();
            todos.restore(&mut lines);
            assert!(lines.len() == 1 && !lines[0].contains("SECRET"), "{lines:?}");
            assert!(!fs::read_to_string(&path).unwrap_or_default().contains("SECRET"));
        };
        // A command cannot know the content of the link's target, but git would run it.
        check();
        fs::write(&path, "exec ./evil\n").unwrap();
        check();
        assert_eq!(fs::read_to_string(root.join("secret")).unwrap(), "exec SECRET\n");
    }
}
