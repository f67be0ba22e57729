//! The subjects of commits: at most 72 characters, so that `git log --oneline` fits a terminal.
//!
//! Commits up to and including [`CHECKED_SINCE`] are not judged, because history is not rewritten. Without a git history, or
//! without that commit in it (a shallow clone), nothing is checked.

use crate::Problems;
use std::path::Path;
use std::process::Command;

/// The last commit that was made before this check existed.
const CHECKED_SINCE: &str = "246721c5b44895431a5dd5b2f18c37fb09912ac0";

const LONGEST: usize = 72;

/// Commits that change only pages and that reached the main branch before this check had run on them. Their subjects are too long,
/// and history is not rewritten.
const LANDED_UNSEEN: [&str; 2] =
    ["1e5ae3e3b6bcfc3deacc98cdf962d9f3be1957a7", "c4961aca392a2d624d30a62a02c3cf49d140e858"];

pub(crate) fn check(root: &Path) -> Problems {
    let range = format!("{CHECKED_SINCE}..HEAD");
    let output =
        Command::new("git").args(["log", "--no-merges", "--format=%h %s", &range]).current_dir(root).output();
    // Without git, a repository or that commit, there is no history to judge.
    let Ok(output) = output else { return Problems::new() };
    if !output.status.success() {
        println!("commits: skipped, the history does not reach {CHECKED_SINCE}");
        return Problems::new();
    }
    too_long(&String::from_utf8_lossy(&output.stdout))
}

/// Returns a problem for each subject that is too long. `log`: one line per commit, with hash, space and subject.
fn too_long(log: &str) -> Problems {
    let mut problems = Problems::new();
    for (hash, subject) in log.lines().filter_map(|line| line.split_once(' ')) {
        let length = subject.chars().count();
        let landed = LANDED_UNSEEN.iter().any(|full| full.starts_with(hash));
        if length > LONGEST && !landed {
            problems.push(format!(
                "commit {hash}: the subject has {length} characters, more than {LONGEST}: {subject}"
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_subject_may_have_72_characters() {
        let fits = "x".repeat(72);
        let log = format!("abc {fits}\ndef {fits}y\n");
        let problems = super::too_long(&log);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("commit def: the subject has 73 characters"), "{problems:?}");
    }
}
