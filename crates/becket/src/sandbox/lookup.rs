//! Looks through a workspace before a command starts: for secrets, and for files that deny rules name by a pattern.
//!
//! The search has limits, because it is made for each command. It says where it did not look, so that nothing is promised about
//! that.

use becket_guard::DeniedFiles;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders of the workspace that are not searched for secrets, because programs generate their content.
const NOT_SEARCHED: &[&str] =
    &[".git", "node_modules", "target", "__pycache__", ".venv", "venv", "dist", "build"];

/// Limits of the search for secrets in a workspace: entries, and depth of folders.
const MOST_ENTRIES: usize = 5_000;
const DEEPEST: usize = 6;

/// Returns secrets in a folder of the workspace: those that a search of limited depth finds first.
pub(super) fn secrets_below(root: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    walk(root, &mut |path| {
        let is_secret = becket_guard::is_secret_below(root, path);
        if is_secret {
            out.push(path.to_path_buf());
        }
        is_secret
    });
    out
}

/// Returns the existing files and folders that deny rules keep from being read, those that they keep from being changed, and in
/// words where a rule with a pattern may name others. For each rule with a pattern, looks below the folder that the rule names
/// before its pattern, as far as the search for secrets looks below a workspace. A place outside of the workspace counts if a rule
/// names it without a pattern.
pub(super) fn denied_places(
    denied: &DeniedFiles,
    roots: &[PathBuf],
) -> (Vec<PathBuf>, Vec<PathBuf>, Option<String>) {
    let named = denied.named().filter_map(|path| path.canonicalize().ok());
    let mut read: Vec<PathBuf> = named.filter(|path| denied.read(path)).collect();
    let mut write = Vec::new();
    let mut starts: BTreeMap<PathBuf, Vec<&str>> = BTreeMap::new();
    if denied.named().next().is_some() {
        // Such a rule also holds for names that differ in case.
        starts.extend(roots.iter().map(|root| (root.clone(), Vec::new())));
    }
    for (start, rule) in denied.starts() {
        for root in roots.iter().filter(|root| root.starts_with(start) || start.starts_with(root)) {
            let start = if start.starts_with(root) { start.to_path_buf() } else { root.clone() };
            starts.entry(start).or_default().push(rule);
        }
    }
    let mut beyond = None;
    for (start, rules) in starts {
        let mut look = |path: &Path| {
            let is_hidden = denied.read(path);
            if is_hidden {
                read.push(path.to_path_buf());
            }
            if denied.write(path) {
                write.push(path.to_path_buf());
            }
            is_hidden
        };
        let left_out = walk(&start, &mut look);
        if let Some(left_out) = left_out.filter(|_| !rules.is_empty()) {
            beyond.get_or_insert_with(|| not_searched(&rules, &left_out));
        }
    }
    // Without the workspace itself, no command could start.
    read.retain(|path| !roots.iter().any(|root| root.starts_with(path)));
    read.sort();
    read.dedup();
    (read, write, beyond)
}

/// Says what the sandbox does not promise about rules with patterns.
fn not_searched(rules: &[&str], left_out: &Path) -> String {
    let (noun, rules) = (if rules.len() == 1 { "rule" } else { "rules" }, rules.join(", "));
    format!(
        "the sandbox may not protect every file that the deny {noun} {rules} would name by a pattern: becket did not look in {} (it \
         looks at {MOST_ENTRIES} entries, {DEEPEST} folders deep, and not in generated folders); a rule that names the folder, \
         such as Edit({}/**), holds for everything in it",
        left_out.display(),
        left_out.display()
    )
}

/// Calls `look` with the files and folders below a folder, up to the limits. A folder is not entered if `look` returns true.
/// Returns a folder that was not looked through, if there is one. Git's own does not count.
fn walk(root: &Path, look: &mut dyn FnMut(&Path) -> bool) -> Option<PathBuf> {
    let mut left = MOST_ENTRIES;
    let mut folders = vec![(root.to_path_buf(), 0)];
    let mut next = 0;
    let mut left_out: Option<PathBuf> = None;
    // Searches breadth first, so that files near the root are found even in a large workspace.
    while let Some((dir, depth)) = folders.get(next).cloned() {
        next += 1;
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            left = left.saturating_sub(1);
            if left == 0 {
                return Some(dir);
            }
            let path = entry.path();
            if look(&path) {
                continue;
            }
            let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let searched = entry.file_name().to_str().is_none_or(|name| !NOT_SEARCHED.contains(&name));
            if folder && searched && depth < DEEPEST {
                folders.push((path, depth + 1));
            } else if folder && entry.file_name() != ".git" {
                // The order of entries is that of the file system, and the words about them must not change with it.
                left_out = Some(left_out.map_or_else(|| path.clone(), |known| known.min(path.clone())));
            }
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_guard::Rules;
    use std::fs;

    #[test]
    fn secrets_of_a_workspace_are_found_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (path, text) in
            [(".env", "x"), ("a/b/server.key", "x"), ("a/main.rs", "x"), ("node_modules/x/.env", "x")]
        {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        let mut found = secrets_below(&root);
        found.sort();
        assert_eq!(found, [root.join(".env"), root.join("a/b/server.key")]);
    }

    #[test]
    fn what_patterns_may_name_elsewhere_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let make = |path: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "x").unwrap();
        };
        let deep = "1/2/3/4/5/6/7";
        for path in ["a.lock", "dist/a.js", "dist/sub/b.js", "node_modules/m/c.lock", ".git/config"] {
            make(path);
        }
        let (below, deepest) = (format!("Edit({deep}/*/c.lock)"), format!("{deep}/8/c.lock"));
        make(&deepest);
        let looked = |rules: &[&str]| {
            let none: &[&str] = &[];
            let rules = Rules::parse(none, none, rules).unwrap();
            let denied = DeniedFiles::new(&rules.deny, &root, Path::new("/nowhere"));
            let (_, write, beyond) = denied_places(&denied, std::slice::from_ref(&root));
            let names = write.iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string());
            let mut names: Vec<String> = names.collect();
            names.sort();
            (names, beyond)
        };
        // Without a pattern nothing has to be found, and the folder before a pattern is looked through wherever it is.
        for (rules, found) in [
            (
                &["Edit(./node_modules/**)", "Bash(rm *)", "Edit(./A.lock)"][..],
                &["a.lock", "node_modules"][..],
            ),
            (&["Edit(dist/*.js)"], &["dist/a.js"]),
            (&["Edit(./dist/**/*.js)"], &["dist/a.js", "dist/sub/b.js"]),
            (&["Edit(node_modules/*/c.lock)"], &["node_modules/m/c.lock"]),
            (&[below.as_str()], &[deepest.as_str()]),
        ] {
            assert_eq!(
                looked(rules),
                (found.iter().map(|name| (*name).to_owned()).collect(), None),
                "{rules:?}"
            );
        }
        let (found, beyond) = looked(&["Edit(*.lock)", "Edit(dist/*.js)"]);
        assert_eq!(found, ["a.lock", "dist/a.js"]);
        let beyond = beyond.unwrap();
        let is_named =
            ["node_modules", "1/2/3"].iter().any(|dir| beyond.contains(&*root.join(dir).to_string_lossy()));
        assert!(
            is_named && beyond.contains("the deny rule Edit(*.lock) ") && !beyond.contains(".js"),
            "{beyond}"
        );
    }
}
