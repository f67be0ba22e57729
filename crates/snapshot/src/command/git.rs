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

/// Adds the risk of one git command that begins in `cwd` to `risk`. `args` are the words after `git`.
pub(super) fn classify(args: &[Word], cwd: &Path, risk: &mut Risk) {
    let (mut at, mut dir, mut known) = (0, cwd.to_path_buf(), true);
    let mut named: Vec<&str> = Vec::new();
    while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-')) {
        match word.text.as_str() {
            "-C" => {
                if let Some(word) = args.get(at + 1) {
                    known &= word.known != Known::Dynamic;
                    dir = becket_types::lexical(&dir.join(&word.text));
                }
                at += 2;
            }
            "-c" | "--namespace" | "--exec-path" => at += 2,
            "--git-dir" | "--work-tree" => {
                (at, known) = (at + 2, false);
                named.extend(args.get(at - 1).map(|word| word.text.as_str()));
            }
            text => {
                known &= !text.starts_with("--git-dir") && !text.starts_with("--work-tree");
                named.extend(text.strip_prefix("--git-dir="));
                at += 1;
            }
        }
    }
    let Some(sub) = args.get(at) else { return };
    let dynamic = sub.known == Known::Dynamic;
    if HARMLESS.contains(&sub.text.as_str()) && !dynamic {
        return;
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
        "clean" => {
            risk.ignored |= flag(['x', 'X']);
            let forced = |word: &Word| match word.text.strip_prefix('-') {
                Some("-force") => 1,
                Some(letters) if !letters.starts_with('-') => letters.matches('f').count(),
                _ => 0,
            };
            // With two `-f`, `git clean` also deletes repositories.
            if rest.iter().map(forced).sum::<usize>() > 1 {
                risk.nested = GitRisk::Objects;
            }
        }
        // This moves the repository to another folder.
        "init" if rest.iter().any(|word| word.text.starts_with("--separate-git-dir")) => {
            risk.raise_git(GitRisk::Objects);
            risk.ignored = true;
        }
        "stash" => risk.ignored |= flag(['a', 'a']) || rest.iter().any(|word| word.text == "--all"),
        "worktree" | "submodule" => {
            if rest.iter().any(|word| word.text == "foreach") {
                risk.nested = GitRisk::Objects;
            }
            let paths = rest.iter().skip(1).filter(|word| !word.text.starts_with('-'));
            risk.targets.extend(paths.map(|word| becket_types::lexical(&dir.join(&word.text))));
        }
        _ => {}
    }
    if !known {
        risk.nested = risk.nested.max(risk.git);
    }
    risk.git_dirs.extend(named.iter().map(|named| becket_types::lexical(&dir.join(named))));
    risk.git_dirs.push(dir);
}
