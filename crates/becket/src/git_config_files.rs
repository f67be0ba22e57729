//! Files outside `.git` that decide what git runs in a repository of the workspace: the folder to which a `.git` file leads,
//! files that a configuration includes, and hooks, attributes and drivers that it names.
//!
//! Reads small files, at the start of a session. Judges nothing.

use becket_types::OBEYED_IN_GIT_DIR;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of a file of git that names a folder.
pub(crate) const MAX_POINTER_BYTES: u64 = 64 * 1024;
/// Maximum number of bytes of a git configuration.
const MAX_CONFIG_BYTES: u64 = 256 * 1024;
/// Maximum number of configuration files that are read for one root, with those that they include.
const MAX_CONFIG_FILES: usize = 32;
/// Sections of a git configuration whose values name no file that git reads or runs.
const SECTIONS_WITHOUT_FILES: &[&str] =
    &["remote", "branch", "submodule", "url", "user", "alias", "color", "extensions"];

/// Returns the files below `roots` that decide what git runs, whether they exist or not: git would read one that is created later.
pub(crate) fn git_config_files(roots: &[PathBuf], home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    for root in roots {
        let Some(tree) = work_tree(root) else { continue };
        let dot = tree.join(".git");
        let dir = if dot.is_dir() { Some(dot.clone()) } else { pointed_to(&dot, "gitdir:") };
        let Some(dir) = dir else { continue };
        let common = pointed_to(&dir.join("commondir"), "").unwrap_or_else(|| dir.clone());
        for dir in [&dir, &common].into_iter().filter(|dir| **dir != dot) {
            found.extend(OBEYED_IN_GIT_DIR.iter().map(|name| dir.join(name)));
        }
        let mut configs = vec![common.join("config"), dir.join("config.worktree")];
        let of_user = [".gitconfig", ".config/git/config"];
        configs.extend(home.iter().flat_map(|home| of_user.iter().map(move |name| home.join(name))));
        let mut next = 0;
        while let Some(config) = configs.get(next).cloned().filter(|_| next < MAX_CONFIG_FILES) {
            next += 1;
            let text = becket_files::read_text(&config, MAX_CONFIG_BYTES).unwrap_or_default();
            let reader = Reader { config: &config, tree: &tree, home };
            let (included, named) = reader.files(&text);
            found.extend(included.iter().chain(&named).cloned());
            configs.extend(included.into_iter().filter(|path| path.is_file()));
        }
    }
    let is_inside = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root) && path != root);
    found.into_iter().filter(is_inside).collect()
}

/// Returns the nearest folder above `root` with `.git`, or `root` itself.
pub(crate) fn work_tree(root: &Path) -> Option<PathBuf> {
    root.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_path_buf)
}

/// Returns the folder that a small file of git names after `prefix`, resolved from the file's location.
pub(crate) fn pointed_to(file: &Path, prefix: &str) -> Option<PathBuf> {
    let text = becket_files::read_text(file, MAX_POINTER_BYTES).ok()?;
    let named = text.trim().strip_prefix(prefix)?.trim();
    file.parent()?.join(named).canonicalize().ok().filter(|dir| dir.is_dir())
}

/// Resolves the paths in one git configuration.
struct Reader<'a> {
    config: &'a Path,
    tree: &'a Path,
    home: Option<&'a Path>,
}

impl Reader<'_> {
    /// Returns the configurations that a text includes, and other files that it names.
    fn files(&self, text: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut included, mut named) = (Vec::new(), Vec::new());
        let mut section = String::new();
        for line in text.lines().map(str::trim) {
            let line = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((header, rest)) => {
                    section = header.split([' ', '.', '"']).next().unwrap_or_default().to_ascii_lowercase();
                    rest.trim()
                }
                None => line,
            };
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
            if matches!(section.as_str(), "include" | "includeif") && key == "path" {
                included.extend(self.config.parent().map(|folder| self.resolve(folder, value)));
            } else if matches!(key.as_str(), "hookspath" | "attributesfile") {
                named.push(self.resolve(self.tree, value));
            } else if !SECTIONS_WITHOUT_FILES.contains(&section.as_str()) {
                // The value may be a command line, which git runs in the work tree: its words that are paths of files count.
                let words = value.split([' ', '\t', '"', '\'', ';', '!']).filter(|word| word.contains('/'));
                named.extend(words.map(|word| self.resolve(self.tree, word)).filter(|path| path.is_file()));
            }
        }
        (included, named)
    }

    fn resolve(&self, folder: &Path, text: &str) -> PathBuf {
        let path = match (text.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => folder.join(text),
        };
        let path = becket_types::lexical(&path);
        path.canonicalize().unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_that_git_obeys_are_found_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("p/.git", "gitdir: ./.bare\n");
        write("p/.bare/HEAD", "ref: refs/heads/main\n");
        write("p/.bare/config", "[include]\n\tpath = ../dev/gitconfig\n[remote \"o\"]\n\turl = ./a/b\n");
        write(
            "p/dev/gitconfig",
            "[includeIf \"gitdir:/\"] path = more\n[filter \"x\"]\n\tclean = sh ./dev/clean.sh %f\n",
        );
        write("p/dev/clean.sh", "");
        write("home/.gitconfig", "[core]\n\thooksPath = dev/hooks\n\tattributesFile = ~/attributes\n");
        let project = root.join("p");
        let found = git_config_files(std::slice::from_ref(&project), Some(&root.join("home")));
        for name in [".bare/config", ".bare/hooks", "dev/gitconfig", "dev/more", "dev/clean.sh", "dev/hooks"]
        {
            assert!(found.contains(&project.join(name)), "{name}: {found:?}");
        }
        assert!(found.iter().all(|path| path.starts_with(&project)), "{found:?}");
        assert!(!found.contains(&project.join("a/b")));
        write("q/.git/config", "[core]\n\tbare = false\n");
        assert!(git_config_files(&[root.join("q")], None).is_empty());
    }
}
