//! Rules files: AGENTS.md, CLAUDE.md, .claude/CLAUDE.md and CLAUDE.local.md, with their `@` imports, and the files of
//! `.claude/rules`.
//!
//! Rules are read from disk when a session starts and again before each compaction; they are never taken from
//! a summary. Order: the user's own files, then the folders from the repository's root down to the working
//! directory. Within a folder the order is AGENTS.md (or AGENTS.override.md in its place), CLAUDE.md, .claude/CLAUDE.md,
//! CLAUDE.local.md, and the files of .claude/rules and .becket/rules; those with `paths` (`scoped`) follow when a file that they are for is used. A file
//! whose text an earlier file of the same folder already contains (by an import, a link or a copy) is
//! omitted. If the earlier file is in another folder, the later file is replaced by a note that names it.
//! Files in folders below the working directory are found when a file there is used ([`below`]). [`fit`]
//! limits all rules to a share of the context window.
//!
//! Invariants: text is unchanged except that HTML comments outside code are removed. A file has at most
//! [`MAX_BYTES`]; more is cut, with a notice. A project's rules file, also one that is a link, and its imports are
//! read only inside the project; text files of the user's own configuration folders may be used, too. The user's
//! own files may import from the project and the home directory. An import is read only once, so cycles end. Only
//! regular text files are opened. Does not decide about trust: the caller says if imports from elsewhere are
//! allowed.

pub mod fit;
pub(crate) mod scoped;

pub use scoped::Scoped;

use becket_types::{SystemItem, SystemKind, cut_end};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Maximum size in bytes of one rules file or import.
pub const MAX_BYTES: usize = 32 * 1024;
/// A file that replaces the AGENTS.md of its folder.
const OVERRIDE: &str = "AGENTS.override.md";
/// The rules files of a folder, in order.
const NAMES: [&str; 4] = ["AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"];
/// Maximum depth of nested imports.
const MAX_DEPTH: usize = 4;

/// Settings for reading rules files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesSettings {
    /// True: read no rules at all.
    pub off: bool,
    /// True: read no file of the project, because the user does not trust it.
    pub untrusted: bool,
    /// The user's own files for all projects, in order. Missing files are skipped.
    pub user_files: Vec<PathBuf>,
    /// The user's home directory, from which `~/` in imports is resolved.
    pub home: Option<PathBuf>,
    /// The user's own configuration folders. A project may link to text files there and import them.
    pub own_dirs: Vec<PathBuf>,
    /// True if imports from outside the project and the home directory are allowed.
    pub trust_imports: bool,
}

/// The rules as currently read from disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    pub items: Vec<SystemItem>,
    /// Messages for people: files that were cut, imports that were not read.
    pub notices: Vec<String>,
    /// Rules files with `paths`. Each applies from the moment at which a file that matches its `paths` is used.
    pub scoped: Vec<Scoped>,
    /// The texts that the items contain.
    pub standing: SentRules,
}

/// Texts that the model already has, each with the rules file that contained it. No text is sent twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentRules {
    /// Rules file by canonical path of the text's file, including imports.
    files: HashMap<PathBuf, PathBuf>,
    /// Rules file by text, to detect copies.
    texts: HashMap<String, PathBuf>,
}

impl SentRules {
    /// Keeps only the texts whose rules file passes the test.
    pub fn retain(&mut self, is_present: impl Fn(&Path) -> bool) {
        self.files.retain(|_, by| is_present(by));
        self.texts.retain(|_, by| is_present(by));
    }

    /// Returns the rules file that already contains this file or text, unless it is `own`.
    fn elsewhere(&self, own: &Path, canonical: &Path, text: &str) -> Option<&Path> {
        let by = self.files.get(canonical).or_else(|| self.texts.get(text.trim_end()))?;
        (by != own).then_some(by.as_path())
    }

    fn add(&mut self, by: &Path, canonical: PathBuf, text: &str) {
        self.files.entry(canonical).or_insert_with(|| by.to_owned());
        if !becket_types::is_blank(text) {
            self.texts.entry(text.trim_end().to_owned()).or_insert_with(|| by.to_owned());
        }
    }
}

/// Reads the rules of `cwd`: the user's files, then the folders from the root down to `cwd`.
pub fn load(cwd: &Path, settings: &RulesSettings) -> Rules {
    let mut reader = Reader::new(cwd, settings);
    if settings.off {
        return reader.rules;
    }
    for file in &settings.user_files {
        reader.file(file);
    }
    for dir in &settings.own_dirs {
        reader.own = true;
        reader.rules_folder(&dir.join("rules"), &reader.root.clone());
        reader.own = false;
    }
    for dir in project_dirs(cwd).filter(|_| !settings.untrusted) {
        reader.folder(&dir);
    }
    reader.rules
}

/// Returns the files and folders of rules that [`load`] would use of a project: the outermost first.
pub fn project_files(cwd: &Path) -> Vec<PathBuf> {
    let named = |dir: PathBuf| {
        let folders = scoped::PARENTS.map(|parent| dir.join(parent).join("rules"));
        let files = [OVERRIDE].iter().chain(&NAMES).map(|name| dir.join(name)).filter(|path| path.is_file());
        files.chain(folders.into_iter().filter(|path| path.is_dir())).collect::<Vec<_>>()
    };
    project_dirs(cwd).flat_map(named).collect()
}

/// Returns the folders from the project's root down to `cwd`.
fn project_dirs(cwd: &Path) -> impl Iterator<Item = PathBuf> {
    let root = project_root(cwd);
    let mut dirs: Vec<PathBuf> =
        cwd.ancestors().take_while(|dir| dir.starts_with(&root)).map(Path::to_path_buf).collect();
    dirs.reverse();
    dirs.into_iter()
}

/// Makes the system prompt of a new session: `prompt` and the rules of `cwd`, shortened to fit a window of
/// `usable` tokens.
pub fn opening(
    mut prompt: Vec<SystemItem>,
    cwd: &Path,
    settings: &RulesSettings,
    usable: u64,
) -> Vec<SystemItem> {
    let mut items = load(cwd, settings).items;
    fit::system(&mut items, usable);
    insert(&mut prompt, items);
    prompt
}

/// Inserts rules after prompt, environment and skills, and before the text that the caller appended.
pub(crate) fn insert(items: &mut Vec<SystemItem>, rules: Vec<SystemItem>) {
    let at = items.iter().position(|item| item.kind == SystemKind::Appended).unwrap_or(items.len());
    items.splice(at..at, rules.into_iter().filter(|item| !becket_types::is_blank(&item.text)));
}

/// Reads the rules in the folders below `cwd` down to the one that contains `file`, outermost first.
///
/// `seen` are folders that were already searched, and files of `scoped` that were already read; the new ones are added.
/// For files outside `cwd`, only `scoped` is considered. The result's `standing` is the given one plus the texts that
/// were found.
#[expect(clippy::implicit_hasher, reason = "one caller, one set")]
pub fn below(
    cwd: &Path,
    file: &Path,
    seen: &mut HashSet<PathBuf>,
    scoped: &[Scoped],
    standing: SentRules,
    settings: &RulesSettings,
) -> Rules {
    let mut reader = Reader::new(cwd, settings);
    reader.rules.standing = standing;
    if settings.off {
        return reader.rules;
    }
    let inside = file.starts_with(cwd) && !settings.untrusted;
    let dirs = file.ancestors().skip(1).take_while(|dir| *dir != cwd && !seen.contains(*dir));
    let mut dirs: Vec<PathBuf> = if inside { dirs.map(Path::to_path_buf).collect() } else { Vec::new() };
    dirs.reverse();
    for dir in dirs {
        reader.folder(&dir);
        seen.insert(dir);
    }
    let found = reader.rules.scoped.clone();
    for scoped in scoped.iter().chain(&found).filter(|scoped| scoped.is_for(file)) {
        if seen.insert(scoped.file.clone()) {
            reader.rules_file(&scoped.file);
        }
    }
    reader.rules
}

/// Reads these rules again: the rules files of `dirs`, as [`below`] does, and single `files` from folders such as
/// `.claude/rules`.
pub fn again(
    cwd: &Path,
    dirs: &[PathBuf],
    files: &[PathBuf],
    standing: SentRules,
    settings: &RulesSettings,
) -> Rules {
    let mut reader = Reader::new(cwd, settings);
    reader.rules.standing = standing;
    if !settings.off {
        for dir in dirs.iter().filter(|_| !settings.untrusted) {
            reader.folder(dir);
        }
        let is_own = |file: &&PathBuf| settings.own_dirs.iter().any(|dir| file.starts_with(dir));
        for file in files.iter().filter(|file| !settings.untrusted || is_own(file)) {
            // The file may have been read together with a folder.
            if !reader.rules.items.iter().any(|item| item.path.as_ref() == Some(file)) {
                reader.rules_file(file);
            }
        }
    }
    reader.rules
}

/// Returns the nearest folder at or above `cwd` that contains `.git`; otherwise `cwd`.
fn project_root(cwd: &Path) -> PathBuf {
    cwd.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(cwd).to_path_buf()
}

struct Reader<'a> {
    settings: &'a RulesSettings,
    root: PathBuf,
    /// True while a file of the user is read, false for a file of the project.
    own: bool,
    /// Canonical paths of the files read for the current rules file.
    read: HashSet<PathBuf>,
    rules: Rules,
}

impl<'a> Reader<'a> {
    fn new(cwd: &Path, settings: &'a RulesSettings) -> Self {
        Self { settings, root: project_root(cwd), own: false, read: HashSet::new(), rules: Rules::default() }
    }

    fn folder(&mut self, dir: &Path) {
        self.read.clear();
        let mut included = Vec::new();
        let [mut first, others @ ..] = NAMES;
        if dir.join(OVERRIDE).is_file() {
            first = OVERRIDE;
        }
        for name in std::iter::once(first).chain(others) {
            included.extend(self.one(&dir.join(name), &included));
        }
        for parent in scoped::PARENTS {
            self.rules_folder(&dir.join(parent).join("rules"), dir);
        }
    }

    /// Adds the files of a folder of rules. Files with `paths` are only noted; their patterns are relative to `base`.
    fn rules_folder(&mut self, folder: &Path, base: &Path) {
        for file in scoped::files(folder) {
            let canonical = file.canonicalize().unwrap_or_else(|_| file.clone());
            // A refused file of the project goes to `one` below, which adds the notice.
            let refused = !self.own && self.refusal(&canonical).is_some();
            let text = if refused { None } else { self.text(&file) };
            let patterns = text.and_then(|text| scoped::split(&text).0);
            self.read.remove(&canonical);
            match patterns.map(|patterns| Scoped::new(file.clone(), base.to_owned(), &patterns)) {
                Some(Ok(scoped)) => self.rules.scoped.push(scoped),
                Some(Err(why)) => self.notice(format!("{}: its `paths` are not used: {why}", file.display())),
                None => {
                    self.one(&file, &[]);
                }
            }
        }
    }

    /// Adds a file of a folder of rules. Files of the user's own folders are read like the user's other files.
    fn rules_file(&mut self, path: &Path) {
        self.own = self.settings.own_dirs.iter().any(|dir| path.starts_with(dir));
        self.read.clear();
        self.one(path, &[]);
        self.own = false;
    }

    /// Adds one rules file with its imports.
    fn file(&mut self, path: &Path) {
        self.read.clear();
        let instead = path.with_file_name(OVERRIDE);
        let is_replaced = path.file_name().is_some_and(|name| name == "AGENTS.md") && instead.is_file();
        let path = if is_replaced { instead.as_path() } else { path };
        // The configuration of a project can name files inside it.
        let of_project = path.starts_with(&self.root) || path.is_relative();
        self.own = !of_project || self.settings.own_dirs.iter().any(|dir| path.starts_with(dir));
        self.one(path, &[]);
        self.own = false;
    }

    /// Adds a file that was not read yet and whose text is not in `included`. Returns its text.
    fn one(&mut self, path: &Path, included: &[String]) -> Option<String> {
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.read.contains(&canonical) {
            return None;
        }
        // A link of the project could name any file of the user, and its text would be sent to the model.
        if !self.own
            && path.is_file()
            && let Some(why) = self.refusal(&canonical)
        {
            let (path, target) = (path.display(), canonical.display());
            self.notice(format!("{path} is not used: it leads to {target}, and {why}"));
            return None;
        }
        let mut text = self.text(path)?;
        if self.is_in_rules_folder(path) {
            text.drain(..text.len() - scoped::split(&text).1.len());
        }
        if included.contains(&text) || becket_types::is_blank(&text) {
            return None;
        }
        let whole = match self.rules.standing.elsewhere(path, &canonical, &text) {
            Some(by) => format!("The same text as in {}; it applies here, too.", by.display()),
            None => {
                self.rules.standing.add(path, canonical, &text);
                let mut whole = text.clone();
                self.imports((path, path), &text, 1, &mut whole);
                whole
            }
        };
        let rendered = format!("# Rules from {}\n\n{}", path.display(), whole.trim_end());
        self.rules.items.push(SystemItem {
            kind: SystemKind::Rules,
            path: Some(path.to_owned()),
            text: rendered,
        });
        Some(text)
    }

    fn is_in_rules_folder(&self, path: &Path) -> bool {
        scoped::is_rules_file(path)
            || self.settings.own_dirs.iter().any(|dir| path.starts_with(dir.join("rules")))
    }

    /// Appends the text of each import in `text`, depth first. `by`: the rules file that they belong to.
    fn imports(&mut self, (by, from): (&Path, &Path), text: &str, depth: usize, out: &mut String) {
        for name in import_names(text) {
            let Some(path) = self.import_path(from, &name) else { continue };
            let Some(canonical) = path.canonicalize().ok().filter(|path| path.is_file()) else {
                // `@alice` and `@types/node` are not meant as imports, so there is no notice about them.
                if is_named_as_file(&name) {
                    let why = no_file(&path).unwrap_or_else(|| "there is no such file".to_owned());
                    self.notice(format!("{}: `@{name}` was not imported: {why}", from.display()));
                }
                continue;
            };
            if self.read.contains(&canonical) {
                continue;
            }
            if let Some(why) = self.refusal(&canonical) {
                self.notice(format!("{}: `@{name}` was not imported: {why}", from.display()));
                continue;
            }
            if depth > MAX_DEPTH {
                self.notice(format!(
                    "{}: `@{name}` was not imported: imports nest deeper than {MAX_DEPTH}",
                    from.display()
                ));
                continue;
            }
            let Some(text) = self.text(&path) else { continue };
            let elsewhere = self.rules.standing.elsewhere(by, &canonical, &text).map(Path::to_path_buf);
            let shown = match &elsewhere {
                Some(other) => format!("The same text is in the rules from {}.", other.display()),
                None => text.trim_end().to_owned(),
            };
            for piece in ["\n\n## Imported: @", &name, "\n\n", &shown] {
                out.push_str(piece);
            }
            if elsewhere.is_none() {
                self.rules.standing.add(by, canonical, &text);
                self.imports((by, &path), &text, depth + 1, out);
            }
        }
    }

    fn import_path(&self, from: &Path, name: &str) -> Option<PathBuf> {
        match name.strip_prefix("~/") {
            Some(rest) => Some(self.settings.home.as_ref()?.join(rest)),
            None => Some(from.parent()?.join(name)),
        }
    }

    /// Returns why a file may not be used by the rules file that is read now; `None` if it may.
    fn refusal(&self, canonical: &Path) -> Option<&'static str> {
        if becket_guard::is_secret_below(Path::new("/"), canonical) {
            return Some("such files hold secrets");
        }
        let inside = |dir: &Path| dir.canonicalize().is_ok_and(|dir| canonical.starts_with(dir));
        let home = || self.settings.home.as_deref().is_some_and(inside);
        // Only text files, because other files of these folders hold keys and sessions.
        let own = || is_text(canonical) && self.settings.own_dirs.iter().any(|dir| inside(dir));
        if self.settings.trust_imports || inside(&self.root) {
            None
        } else if self.own {
            (!home()).then_some("it lies outside the project and the home directory")
        } else {
            (!own()).then_some(
                "that lies outside the project; copy it here, or name it under `rules.files` in your own configuration",
            )
        }
    }

    /// Returns the file's text without HTML comments, cut at [`MAX_BYTES`]; `None` if it is not a readable
    /// regular file.
    fn text(&mut self, path: &Path) -> Option<String> {
        // Checked before opening, because opening a pipe would block.
        if let Some(why) = no_file(path) {
            self.notice(format!("{} is not used: {why}; put a text file there", path.display()));
            return None;
        }
        let canonical = path.canonicalize().ok()?;
        let (bytes, size) = match becket_files::read_start(&canonical, MAX_BYTES as u64 + 4) {
            Ok(read) => read,
            Err(error) => {
                self.notice(format!("{} could not be read: {error}", path.display()));
                return None;
            }
        };
        self.read.insert(canonical);
        if bytes.contains(&0) {
            self.notice(format!("{} is not text; it is not used", path.display()));
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut out = strip_comments(cut_end(text, MAX_BYTES));
        if size > MAX_BYTES as u64 {
            let name = path.display();
            let notice = format!("\n[cut: the first {MAX_BYTES} of {size} bytes; read {name} for the rest]");
            out.push_str(&notice);
            self.notice(format!(
                "{name} is {size} bytes; only the first {MAX_BYTES} are used. Shorten it, or move parts of it into the \
                 folders that they are about"
            ));
        }
        Some(out)
    }

    fn notice(&mut self, text: String) {
        self.rules.notices.push(text);
    }
}

/// Returns why `path` is not a readable file; `None` if it is one, or if nothing exists there.
fn no_file(path: &Path) -> Option<String> {
    let link = path.symlink_metadata().ok()?.is_symlink();
    match path.metadata() {
        Ok(at) if at.is_file() => None,
        Ok(at) if at.is_dir() => Some("it is a folder".to_owned()),
        Ok(_) => Some("it is a pipe, socket or device".to_owned()),
        Err(error) if link && error.kind() == std::io::ErrorKind::NotFound => {
            Some("it is a link to a file that is not there".to_owned())
        }
        Err(error) if link => Some(format!("it is a link that leads nowhere ({error})")),
        Err(error) => Some(error.to_string()),
    }
}

/// True for the names of text files.
fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "md" || e == "mdc" || e == "txt")
}

/// True if the word after an `@` can only be meant as a file.
fn is_named_as_file(name: &str) -> bool {
    is_text(Path::new(name)) || ["./", "../", "~/", "/"].iter().any(|start| name.starts_with(start))
}

/// Returns each line, with true if it is inside a fenced code block or delimits one.
fn lines_with_fence(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut fence: Option<&str> = None;
    text.split_inclusive('\n').map(move |line| {
        let start = line.trim_start();
        let mark = if start.starts_with("```") {
            Some("```")
        } else if start.starts_with("~~~") {
            Some("~~~")
        } else {
            None
        };
        let inside = fence.is_some() || mark.is_some();
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(close)) if open == close => fence = None,
            _ => {}
        }
        (line, inside)
    })
}

/// Removes `<!-- … -->` outside fenced code. An unclosed comment stays.
fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Consecutive lines outside fences are processed together, because a comment may span lines.
    let mut plain = String::new();
    for (line, fenced) in lines_with_fence(text) {
        // A fence inside an open comment belongs to the comment.
        let open = plain.rfind("<!--").is_some_and(|at| !plain[at..].contains("-->"));
        if fenced && !(open && text.contains("-->")) {
            out.push_str(&without_comments(&plain));
            plain.clear();
            out.push_str(line);
        } else {
            plain.push_str(line);
        }
    }
    out.push_str(&without_comments(&plain));
    out
}

fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("<!--") {
        let Some(len) = rest[start..].find("-->") else { break };
        out.push_str(&rest[..start]);
        rest = &rest[start + len + 3..];
        // A comment on its own lines is removed together with its line break.
        if out.is_empty() || out.ends_with('\n') {
            rest = rest.strip_prefix('\n').unwrap_or(rest);
        }
    }
    out.push_str(rest);
    out
}

/// Returns the names of imports: `@path` at the start of a word, outside code blocks and code spans.
fn import_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (line, fenced) in lines_with_fence(text) {
        if fenced {
            continue;
        }
        // Every second piece between backticks is a code span.
        for prose in line.split('`').step_by(2) {
            for word in prose.split_whitespace() {
                let word = word.trim_start_matches(['(', '[', '"', '\'']);
                let Some(name) = word.strip_prefix('@') else { continue };
                let name = name.trim_end_matches([')', ']', '"', '\'', ',', ';', ':', '.', '!', '?']);
                if !name.is_empty() && !names.iter().any(|seen| seen == name) {
                    names.push(name.to_owned());
                }
            }
        }
    }
    names
}

#[cfg(test)]
mod tests;
