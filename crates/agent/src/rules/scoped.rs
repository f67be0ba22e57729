//! Files of `.claude/rules` and `.becket/rules`: their frontmatter, and the files that they are for.
//!
//! A file without `paths` always applies. A file with `paths` applies from the moment at which a matching file is used.
//! Patterns are compared with the path relative to the folder that contains `.claude` or `.becket`. Knows nothing of the
//! session, and opens no file.

use becket_types::split_frontmatter;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of files of one folder, and maximum depth of its folders.
const MOST: usize = 100;
const DEPTH: usize = 4;
/// The folders whose `rules` are searched.
pub(super) const PARENTS: [&str; 2] = [".claude", ".becket"];

/// A rules file with `paths`, which applies once a matching file is used.
#[derive(Clone, Debug)]
pub struct Scoped {
    pub file: PathBuf,
    base: PathBuf,
    patterns: GlobSet,
}

impl PartialEq for Scoped {
    fn eq(&self, other: &Self) -> bool {
        (&self.file, &self.base) == (&other.file, &other.base)
    }
}

impl Scoped {
    /// Returns the rules file for its patterns.
    ///
    /// # Errors
    ///
    /// Returns a message about the first pattern that is invalid.
    pub(super) fn new(file: PathBuf, base: PathBuf, patterns: &[String]) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let pattern = pattern.trim().trim_start_matches("./");
            set.add(glob(pattern).map_err(|error| error.to_string())?);
        }
        let patterns = set.build().map_err(|error| error.to_string())?;
        Ok(Self { file, base, patterns })
    }

    /// True if the rules are for this file.
    pub fn is_for(&self, path: &Path) -> bool {
        path.strip_prefix(&self.base).is_ok_and(|path| self.patterns.is_match(path))
    }
}

fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    // A name without a folder means files of that name anywhere, as in `.gitignore`.
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    GlobBuilder::new(&anywhere).literal_separator(true).build()
}

/// True if the path is a file of such a folder.
pub(crate) fn is_rules_file(path: &Path) -> bool {
    path.ancestors().skip(1).any(|dir| {
        dir.file_name().is_some_and(|name| name == "rules")
            && dir
                .parent()
                .and_then(Path::file_name)
                .is_some_and(|parent| PARENTS.iter().any(|p| parent == *p))
    })
}

/// Returns the Markdown files of a folder and of the folders in it, sorted. Links to folders are not followed.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    add(folder, DEPTH, &mut out);
    out
}

fn add(folder: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    let Ok(listing) = fs::read_dir(folder) else { return };
    let mut entries: Vec<_> = listing.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if out.len() == MOST {
            return;
        }
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => add(&path, depth - 1, out),
            Ok(kind) if !kind.is_dir() && path.extension().is_some_and(|ending| ending == "md") => {
                out.push(path);
            }
            _ => {}
        }
    }
}

/// Splits a text into the patterns of its `paths` and the rules. `None`: it has no `paths`.
pub(super) fn split(text: &str) -> (Option<Vec<String>>, &str) {
    let Some((head, body)) = split_frontmatter(text) else { return (None, text) };
    let mut lines = head.lines();
    while let Some(line) = lines.next() {
        let Some(value) = line.strip_prefix("paths:") else { continue };
        let value = value.trim();
        let patterns = if value.is_empty() {
            let items = lines.take_while(|line| line.starts_with([' ', '\t', '-']) || line.trim().is_empty());
            items.filter_map(|line| line.trim().strip_prefix('-')).map(unquoted).collect()
        } else {
            let list = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(value);
            at_commas(list)
        };
        let patterns: Vec<String> = patterns.into_iter().filter(|pattern| !pattern.is_empty()).collect();
        return (Some(patterns).filter(|patterns| !patterns.is_empty()), body);
    }
    (None, body)
}

/// Splits a list at its commas, except those inside braces.
fn at_commas(list: &str) -> Vec<String> {
    let (mut out, mut depth, mut from) = (Vec::new(), 0_u32, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(unquoted(&list[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    out.push(unquoted(&list[from..]));
    out
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = ['"', '\''].into_iter().find_map(|q| text.strip_prefix(q)?.strip_suffix(q));
    inner.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_in_every_form() {
        for (head, want) in [
            ("paths: src/**/*.ts", &["src/**/*.ts"][..]),
            ("paths: \"src/*.{ts,tsx}\", lib/**", &["src/*.{ts,tsx}", "lib/**"]),
            ("paths: [a.rs, 'b c.rs']", &["a.rs", "b c.rs"]),
            ("description: x\npaths:\n  - \"src/**\"\n  - lib/*.rs\nother: y", &["src/**", "lib/*.rs"]),
            ("paths:\n- a\n- b", &["a", "b"]),
        ] {
            for mark in ["", "\u{FEFF}"] {
                let text = format!("{mark}---\n{head}\n---\nBe strict.\n");
                let (patterns, body) = split(&text);
                assert_eq!(patterns.as_deref().unwrap_or_default(), want, "{text:?}");
                assert_eq!(body, "Be strict.\n");
                let text = text.replace('\n', "\r\n");
                assert_eq!(split(&text).0.unwrap_or_default(), want, "{text:?}");
            }
        }
        for text in ["Be strict.", "---\npaths:\n---\nx", "---\nname: x\n---\nx", "---\nno end"] {
            assert_eq!(split(text).0, None, "{text}");
        }
    }

    #[test]
    fn patterns_are_of_the_folder_with_the_rules() {
        let is_for = |pattern: &str, path: &str| {
            let patterns = [pattern.to_owned()];
            Scoped::new("/p/.claude/rules/a.md".into(), "/p".into(), &patterns)
                .unwrap()
                .is_for(Path::new(path))
        };
        for (pattern, path, want) in [
            ("src/**/*.ts", "/p/src/a/b.ts", true),
            ("src/**/*.ts", "/p/src/b.ts", true),
            ("src/*.ts", "/p/src/a/b.ts", false),
            ("./src/*.ts", "/p/src/b.ts", true),
            ("*.md", "/p/docs/a.md", true),
            ("src/**", "/q/src/a", false),
            ("{src,lib}/*.rs", "/p/lib/a.rs", true),
        ] {
            assert_eq!(is_for(pattern, path), want, "{pattern} {path}");
        }
        assert!(Scoped::new("/a".into(), "/".into(), &["[".to_owned()]).is_err());
        for (path, want) in [
            ("/p/.claude/rules/a.md", true),
            ("/p/.becket/rules/x/a.md", true),
            ("/p/rules/a.md", false),
            ("/p/.claude/CLAUDE.md", false),
        ] {
            assert_eq!(is_rules_file(Path::new(path)), want, "{path}");
        }
    }
}
