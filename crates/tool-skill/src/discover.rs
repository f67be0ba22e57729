//! Finding skills in directories.
//!
//! Owns the limits: depth 6, 2,000 directories in total, 1 MB per file. Hidden and vendored folders are
//! skipped. A folder with a `SKILL.md` is a skill and is not searched further. Links are followed only for
//! the user's own skills, which people often link from elsewhere; in a project, a link could lead anywhere.
//!
//! Does not decide which directories are trusted: the caller says so for each.

use crate::frontmatter::{self, Frontmatter};
use crate::{Skill, Skills, Source, bundled};
use becket_tool::paths;
use becket_types::split_frontmatter;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

const MAX_DEPTH: usize = 6;
const MAX_DIRS: usize = 2_000;
pub(crate) const MAX_BYTES: u64 = 1024 * 1024;
/// Folders with code of other people, or with build output. Skills in them are not the project's.
const PASSED_OVER: &[&str] = &["node_modules", "vendor", "target", "dist", "build", "__pycache__", "venv"];

/// The owner of a skill. Later variants take precedence over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Bundled,
    User,
    Project,
}

/// A directory of skills, such as `.agents/skills`. Within one scope, earlier directories take precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillDir {
    pub path: PathBuf,
    pub scope: Scope,
    /// Untrusted directories are not read.
    pub trusted: bool,
}

pub(crate) fn discover(dirs: &[SkillDir]) -> Skills {
    let mut search = Search::default();
    for text in bundled::BUNDLED {
        if let Some((head, _)) = split_frontmatter(text) {
            // A bundled skill's folder has the skill's name.
            let folder = head.lines().find_map(|l| l.strip_prefix("name: ")).unwrap_or_default();
            match frontmatter::parse(head, folder) {
                Ok(head) => search.add(skill(head, Scope::Bundled, Source::Bundled(text)), "bundled"),
                Err(why) => search.warnings.push(format!("bundled skill {folder}: {why}")),
            }
        }
    }
    let mut ordered: Vec<&SkillDir> = dirs.iter().collect();
    ordered.sort_by_key(|d| std::cmp::Reverse(d.scope));
    for dir in ordered {
        search.root(dir);
    }
    Skills { skills: search.found.into_values().collect(), warnings: search.warnings }
}

/// Returns the skills of one directory alone.
pub(crate) fn discover_below(dir: &SkillDir) -> Skills {
    let mut search = Search::default();
    search.root(dir);
    Skills { skills: search.found.into_values().collect(), warnings: search.warnings }
}

fn skill(head: Frontmatter, scope: Scope, source: Source) -> Skill {
    Skill {
        name: head.name,
        description: head.description,
        when_to_use: head.when_to_use,
        argument_hint: head.argument_hint,
        arguments: head.arguments,
        model_invocable: head.model_invocable,
        user_invocable: head.user_invocable,
        hooks: head.hooks,
        terms: head.terms,
        scope,
        uses: 0,
        source,
    }
}

#[derive(Default)]
struct Search {
    found: BTreeMap<String, Skill>,
    warnings: Vec<String>,
    dirs: usize,
    full: bool,
}

impl Search {
    fn root(&mut self, dir: &SkillDir) {
        if !dir.path.is_dir() {
            return;
        }
        if !dir.trusted {
            self.warnings
                .push(format!("{}: skills are not loaded until the folder is trusted", dir.path.display()));
            return;
        }
        match dir.path.canonicalize() {
            Ok(path) => self.walk(&path, dir.scope, 0),
            Err(error) => self.warnings.push(format!("{}: {error}", dir.path.display())),
        }
    }

    fn walk(&mut self, dir: &Path, scope: Scope, depth: usize) {
        if self.dirs >= MAX_DIRS {
            if !self.full {
                self.full = true;
                self.warnings.push(format!(
                    "{}: more than {MAX_DIRS} folders; the rest is not searched",
                    dir.display()
                ));
            }
            return;
        }
        self.dirs += 1;
        if let Some(file) = ["SKILL.md", "skill.md"].map(|n| dir.join(n)).into_iter().find(|f| f.exists()) {
            self.load(dir, &file, scope);
            return;
        }
        if depth >= MAX_DEPTH {
            return;
        }
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => {
                // A folder that was removed in the meantime needs no warning.
                if error.kind() != std::io::ErrorKind::NotFound {
                    self.warnings.push(format!("{}: skills cannot be read: {error}", dir.display()));
                }
                return;
            }
        };
        let mut below: Vec<PathBuf> = entries
            .take(MAX_DIRS * 4)
            .flatten()
            .filter(|e| {
                let name = e.file_name();
                let name = name.to_string_lossy();
                !name.starts_with('.') && !PASSED_OVER.contains(&name.as_ref())
            })
            .filter_map(|e| match e.file_type() {
                Ok(kind) if kind.is_dir() => Some(e.path()),
                Ok(kind) if kind.is_symlink() && scope == Scope::User => {
                    e.path().canonicalize().ok().filter(|p| p.is_dir())
                }
                _ => None,
            })
            .collect();
        below.sort_unstable();
        for path in below {
            self.walk(&path, scope, depth + 1);
        }
    }

    fn load(&mut self, dir: &Path, file: &Path, scope: Scope) {
        let warn = |why: &str| format!("{}: {why}", file.display());
        let parsed = read(file).and_then(|text| {
            let (head, _) = split_frontmatter(&text).ok_or("it does not begin with frontmatter (---)")?;
            let folder = dir.file_name().unwrap_or_default().to_string_lossy();
            frontmatter::parse(head, &folder)
        });
        match parsed {
            Ok(mut head) => {
                self.warnings.extend(head.warnings.drain(..).map(|w| warn(&w)));
                let source = Source::Folder(dir.to_owned(), file.to_owned());
                self.add(skill(head, scope, source), &file.display().to_string());
            }
            Err(why) => self.warnings.push(warn(&format!("left out: {why}"))),
        }
    }

    fn add(&mut self, skill: Skill, place: &str) {
        match self.found.get(&skill.name) {
            Some(other) if other.scope >= skill.scope => {
                let by = other.dir().map_or("a bundled one".to_owned(), |d| d.display().to_string());
                self.warnings.push(format!("{place}: left out, {by} has the same name `{}`", skill.name));
            }
            _ => {
                self.found.insert(skill.name.clone(), skill);
            }
        }
    }
}

/// Returns the text of a `SKILL.md`.
///
/// # Errors
///
/// Returns the reason if the file is too large or cannot be read.
pub(crate) fn read(file: &Path) -> Result<String, String> {
    let (opened, meta) = paths::open_file(file).map_err(|e| e.to_string())?;
    if meta.len() > MAX_BYTES {
        return Err(format!("it has {} bytes; at most {MAX_BYTES} are read", meta.len()));
    }
    let mut bytes = Vec::new();
    opened.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
