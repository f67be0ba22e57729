//! The risks of git's subcommands.

use super::{GitRisk, Level, Risk};
use becket_shell_syntax::{Known, Word};
use std::path::Path;

/// Subcommands that only read, or only add something new.
const HARMLESS: &[&str] = &[
    "status",
    "log",
    "diff",
    "show",
    "blame",
    "grep",
    "ls-files",
    "ls-tree",
    "ls-remote",
    "rev-parse",
    "rev-list",
    "describe",
    "shortlog",
    "cat-file",
    "help",
    "version",
    "annotate",
    "archive",
    "bundle",
    "check-ignore",
    "count-objects",
    "cherry",
    "diff-tree",
    "diff-index",
    "diff-files",
    "for-each-ref",
    "format-patch",
    "fsck",
    "hash-object",
    "merge-base",
    "name-rev",
    "range-diff",
    "request-pull",
    "show-ref",
    "show-branch",
    "var",
    "verify-commit",
    "whatchanged",
    "clone",
    "push",
    "send-email",
    "instaweb",
    "gui",
    "citool",
    "merge-tree",
    "check-attr",
    "stripspace",
    "column",
];

/// Subcommands that may delete objects.
const DROPS_OBJECTS: &[&str] =
    &["gc", "prune", "repack", "prune-packed", "lfs", "filter-repo", "maintenance", "reflog"];

/// Adds the risk of one git command to `risk`. `args` are the words after `git`. Returns the directory given by `-C`.
pub(super) fn classify<'a>(args: &'a [Word], cwd: &Path, risk: &mut Risk) -> Option<&'a str> {
    let (mut at, mut dir) = (0, None);
    while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-')) {
        match word.text.as_str() {
            "-C" => {
                dir = args.get(at + 1).map(|word| word.text.as_str());
                at += 2;
            }
            "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" => at += 2,
            _ => at += 1,
        }
    }
    let Some(sub) = args.get(at) else { return dir };
    let dynamic = sub.known == Known::Dynamic;
    if HARMLESS.contains(&sub.text.as_str()) && !dynamic {
        return dir;
    }
    let rest = args.get(at + 1..).unwrap_or_default();
    risk.raise(Level::Destructive);
    risk.raise_git(GitRisk::State);
    if DROPS_OBJECTS.contains(&sub.text.as_str()) || dynamic {
        risk.raise_git(GitRisk::Objects);
    }
    let flag = |letters: [char; 2]| {
        rest.iter().any(|w| w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains(letters))
    };
    match sub.text.as_str() {
        "clean" => risk.ignored |= flag(['x', 'X']),
        // This moves the repository to another folder.
        "init" if rest.iter().any(|word| word.text.starts_with("--separate-git-dir")) => {
            risk.raise_git(GitRisk::Objects);
            risk.ignored = true;
        }
        "stash" => risk.ignored |= flag(['a', 'a']) || rest.iter().any(|word| word.text == "--all"),
        "worktree" | "submodule" => {
            let base = dir.map_or_else(|| cwd.to_path_buf(), |dir| cwd.join(dir));
            let paths = rest.iter().skip(1).filter(|word| !word.text.starts_with('-'));
            risk.targets.extend(paths.map(|word| becket_types::lexical(&base.join(&word.text))));
        }
        _ => {}
    }
    dir
}
