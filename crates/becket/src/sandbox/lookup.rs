//! Looks through a workspace before a command starts: for secrets, and for files that deny rules name by a pattern.
//!
//! The search has limits, because it is made for each command. It says where it did not look, so that nothing is promised about
//! that.

use becket_guard::DeniedFiles;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders of the workspace that are not searched for secrets, because programs generate their content.
const GENERATED_FOLDERS: &[&str] =
    &[".git", "node_modules", "target", "__pycache__", ".venv", "venv", "dist", "build"];

/// Limits of the search for secrets in a workspace: entries, and depth of folders.
const MAX_ENTRIES: usize = 5_000;
const MAX_DEPTH: usize = 6;
/// Number of levels that stands for no limit.
const NO_DEPTH_LIMIT: usize = usize::MAX;

/// Returns secrets in a folder of the workspace: those that a search of limited depth finds first.
pub(super) fn secrets_below(root: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    walk(root, NO_DEPTH_LIMIT, &mut |path| {
        let is_secret = becket_guard::is_secret_below(root, path);
        if is_secret {
            out.push(path.to_path_buf());
        }
        is_secret
    });
    out
}

/// The existing files and folders that deny rules name.
#[derive(Debug, Default)]
pub(super) struct DeniedPaths {
    /// May not be read.
    pub read: Vec<PathBuf>,
    /// May not be changed.
    pub write: Vec<PathBuf>,
    /// A line for the user: a rule with a pattern, and a folder that was not searched for files that it names.
    pub unsearched_note: Option<String>,
    /// A line for the user: the rules that were looked up in the workspace alone.
    pub workspace_only_note: Option<String>,
}

/// Returns the existing files and folders that deny rules name. For each rule with a pattern, looks below the folder that the rule
/// names before its pattern, as far as the search for secrets looks below a workspace, and no deeper than the pattern reaches. A
/// rule that has no such folder (`Read(*.pem)`) is looked up in the workspace alone. `writable`: places outside of the workspace that
/// commands may write.
pub(super) fn find_denied_paths(
    denied: &DeniedFiles,
    roots: &[PathBuf],
    writable: &[PathBuf],
) -> DeniedPaths {
    let mut out = DeniedPaths::default();
    let named = denied.named().filter_map(|path| path.canonicalize().ok());
    out.read = named.filter(|path| denied.read(path)).collect();
    let mut starts: BTreeMap<PathBuf, SearchRoot<'_>> = BTreeMap::new();
    if denied.named().next().is_some() {
        // A rule that names a file without a pattern also holds for names that differ in case, so the whole workspace is searched.
        let whole = |root: &PathBuf| (root.clone(), SearchRoot { rules: Vec::new(), levels: NO_DEPTH_LIMIT });
        starts.extend(roots.iter().map(whole));
    }
    let mut everywhere = Vec::new();
    for (start, rule) in denied.starts() {
        let folder = &start.folder;
        for root in roots.iter().filter(|root| root.starts_with(folder) || folder.starts_with(root)) {
            let is_inside = folder.starts_with(root);
            let place = if is_inside { folder.clone() } else { root.clone() };
            let levels = start.levels.filter(|_| is_inside);
            starts.entry(place).or_default().add(rule, levels);
        }
        if folder.parent().is_none() {
            everywhere.push(rule);
        } else if !roots.iter().any(|root| folder.starts_with(root))
            && let Ok(real) = folder.canonicalize()
        {
            starts.entry(real).or_default().add(rule, start.levels);
        }
    }
    let is_inside = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let may_write = |path: &Path| is_inside(path) || writable.iter().any(|place| path.starts_with(place));
    for (start, SearchRoot { rules, levels }) in starts {
        let mut look = |path: &Path| {
            let is_hidden = denied.read(path);
            if is_hidden {
                out.read.push(path.to_path_buf());
            }
            if may_write(path) && denied.write(path) {
                out.write.push(path.to_path_buf());
            }
            is_hidden
        };
        let left_out = walk(&start, levels, &mut look);
        if let Some(left_out) = left_out.filter(|_| !rules.is_empty()) {
            out.unsearched_note.get_or_insert_with(|| unsearched_text(&rules, &left_out));
        }
    }
    // A root of the workspace, or a folder above it, is not hidden, because no command could start without it.
    out.read.retain(|path| !roots.iter().any(|root| root.starts_with(path)));
    out.read.sort();
    out.read.dedup();
    out.workspace_only_note = (!everywhere.is_empty()).then(|| workspace_only_text(&everywhere));
    out
}

/// A folder to look through.
#[derive(Default)]
struct SearchRoot<'a> {
    rules: Vec<&'a str>,
    /// The deepest level that a rule reaches.
    levels: usize,
}

impl<'a> SearchRoot<'a> {
    /// `levels`: `None` if the rule reaches any level.
    fn add(&mut self, rule: &'a str, levels: Option<usize>) {
        self.levels = self.levels.max(levels.unwrap_or(NO_DEPTH_LIMIT));
        self.rules.push(rule);
    }
}

/// Says which rules the sandbox looks up in the workspace alone.
fn workspace_only_text(rules: &[&str]) -> String {
    let (noun, rules) = (if rules.len() == 1 { "rule" } else { "rules" }, rules.join(", "));
    format!(
        "outside of the workspace, the sandbox does not look for files that the deny {noun} {rules} would name; a rule with a folder \
         before its pattern, such as Read(~/keys/*.pem), is looked up there"
    )
}

/// Says what the sandbox does not promise about rules with patterns.
fn unsearched_text(rules: &[&str], left_out: &Path) -> String {
    let (noun, rules) = (if rules.len() == 1 { "rule" } else { "rules" }, rules.join(", "));
    format!(
        "the sandbox may not protect every file that the deny {noun} {rules} would name by a pattern: becket did not look in {} (it \
         looks at {MAX_ENTRIES} entries, {MAX_DEPTH} folders deep, and not in generated folders); a rule that names the folder, \
         such as Edit({}/**), holds for everything in it",
        left_out.display(),
        left_out.display()
    )
}

/// Calls `look` with the files and folders below a folder, up to the limits. A folder is not entered if `look` returns true.
/// Returns a folder that was not looked through, if there is one. `.git` is not reported, nor are folders deeper than `levels`.
fn walk(root: &Path, levels: usize, look: &mut dyn FnMut(&Path) -> bool) -> Option<PathBuf> {
    let mut left = MAX_ENTRIES;
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
            if depth + 1 >= levels {
                continue;
            }
            let searched = entry.file_name().to_str().is_none_or(|name| !GENERATED_FOLDERS.contains(&name));
            if folder && searched && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            } else if folder && entry.file_name() != ".git" {
                // The smallest path is reported, because the order in which a file system lists entries may change between two searches.
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
            let DeniedPaths { write, unsearched_note: beyond, .. } =
                find_denied_paths(&denied, std::slice::from_ref(&root), &[]);
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

    #[test]
    fn rules_with_patterns_are_looked_up_outside_of_the_workspace_too() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for path in ["ws/a.pem", "home/x-1/f", "home/x-2", "home/y/x-3", "home/keys/a/b.pem", "cache/lock"] {
            fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            fs::write(base.join(path), "x").unwrap();
        }
        let looked = |rules: &[String]| {
            let rules = Rules::parse(&[], &[], rules).unwrap();
            let denied = DeniedFiles::new(&rules.deny, &base.join("ws"), &base.join("home"));
            let found = find_denied_paths(&denied, &[base.join("ws")], &[base.join("cache")]);
            let names = |list: &[PathBuf]| {
                let names = list.iter().map(|path| path.strip_prefix(&base).unwrap().display().to_string());
                names.collect::<Vec<_>>()
            };
            (names(&found.read), names(&found.write), found.unsearched_note, found.workspace_only_note)
        };
        let rules = |list: &[&str]| list.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>();
        let (read, _, beyond, elsewhere) = looked(&rules(&["Read(~/x-?)", "Read(~/keys/**/*.pem)"]));
        assert_eq!(read, ["home/keys/a/b.pem", "home/x-1", "home/x-2"]);
        assert_eq!((beyond, elsewhere), (None, None));
        let of_root = format!("Read(/{}/home/x-?)", base.display());
        assert_eq!(looked(&[of_root]).0, ["home/x-1", "home/x-2"]);
        // Commands cannot write to `home` anyway, so only the file in `cache`, which is writable, needs protection.
        let write =
            [format!("Edit(/{}/home/x-?)", base.display()), format!("Edit(/{}/cache/l*)", base.display())];
        assert_eq!(looked(&write).1, ["cache/lock"]);
        let (read, _, _, elsewhere) = looked(&rules(&["Read(*.pem)"]));
        assert_eq!(read, ["ws/a.pem"]);
        assert!(elsewhere.unwrap().contains("the deny rule Read(*.pem) "));
    }
}
