//! The project's files that a command of the project runs, as a part of the text that is trusted.
//!
//! Owns the search for these files. Shell text is read by the same reader as in the permission check, so quotes,
//! backslashes, `cd` and launchers mean here what they mean for the shell. Takes rather too many files than too few:
//! every word that names a file of the project counts, except the names of files that are only written. A file that
//! cannot be found or known is named in the text, so that the user reads about it before deciding.
//!
//! Runs nothing. Follows scripts of shells and of the usual other languages to the files that they load or start, as far as their texts
//! name them.

mod code;
mod modules;
mod tables;
mod within;

use tables::{CODE, ENDINGS, INTERPRETERS, RUNNERS, WRITERS};
use within::reads_its_script;

use crate::environment::Environment;
use becket_shell_syntax::{
    Dirs, Known, Paths, Script, Simple, Unwrapped, Word, base_name, read_long, unwrap,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A script of up to this many bytes is shown whole. Of a longer one, or one that is not UTF-8, the size and the hash are
/// shown, and above [`MAX_HASHED`] the size and the time of its last change.
const MAX_SHOWN: usize = 64 * 1024;
/// Maximum number of bytes of a script that is compared by its content.
const MAX_HASHED: u64 = 32 << 20;
/// Maximum number of files that are added to one trusted text.
const MAX_FILES: usize = 256;
/// Maximum number of texts that one word can become if its variables have several values.
const MAX_READINGS: usize = 16;
const MAX_DEPTH: usize = 8;

/// The part that a word plays in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The name of the program.
    Program,
    /// An argument of an interpreter up to its script.
    Script,
    /// An argument of a program that may run any of its arguments.
    Argument,
}

/// A command as it is configured.
#[derive(Clone, Debug)]
pub(crate) enum ProjectCommand {
    /// Text for a shell.
    Shell(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

/// The folders and variables with which commands of the project start.
#[derive(Clone, Debug)]
pub(crate) struct CommandEnvironment {
    root: PathBuf,
    /// The folders in which a command may start.
    dirs: Vec<PathBuf>,
    home: PathBuf,
    variables: BTreeMap<String, Vec<String>>,
    /// Names of the variables that the project's configuration sets for the command.
    configured_variables: Vec<String>,
}

impl CommandEnvironment {
    /// Returns the same environment for a command that starts in `folder`.
    pub(crate) fn in_folder(&self, folder: &Path) -> Self {
        Self { dirs: vec![real(folder)], ..self.clone() }
    }

    pub(crate) fn new(environment: &Environment, root: &Path, cwd: &Path) -> Self {
        let mut variables: BTreeMap<String, Vec<String>> =
            environment.vars.iter().map(|(name, value)| (name.clone(), vec![value.clone()])).collect();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (root, cwd) = (real(root), real(cwd));
        for name in ["CLAUDE_PROJECT_DIR", "BECKET_PROJECT_DIR"] {
            variables.insert(name.to_owned(), vec![text(&root)]);
        }
        let mut dirs = vec![cwd.clone()];
        if cwd != root {
            dirs.push(root.clone());
        }
        variables.insert("PWD".to_owned(), dirs.iter().map(|dir| text(dir)).collect());
        let home = environment.home.clone().unwrap_or_else(|| PathBuf::from("/"));
        Self { root, dirs, home, variables, configured_variables: Vec::new() }
    }

    /// Adds variables that the project sets for the command.
    pub(crate) fn with_variables(mut self, variables: &BTreeMap<String, String>) -> Self {
        for (name, value) in variables {
            self.variables.insert(name.clone(), vec![value.clone()]);
            self.configured_variables.push(name.clone());
        }
        self
    }

    /// Changes the folder in which the command starts.
    pub(crate) fn starting_in(mut self, dir: Option<&str>) -> Self {
        if let Some(dir) = dir {
            self.dirs = self.dirs.iter().map(|start| start.join(dir)).collect();
        }
        self
    }
}

/// Returns a configured value together with the text of each project file that its commands run, so that a changed
/// script is changed content.
pub(crate) fn with_scripts(
    config: &str,
    commands: &[ProjectCommand],
    surroundings: &CommandEnvironment,
) -> String {
    let mut search = Search::new(surroundings);
    for command in commands {
        search.variables.clone_from(&surroundings.variables);
        match command {
            ProjectCommand::Shell(text) => search.shell(text, Some(surroundings.dirs.clone()), 0),
            ProjectCommand::Words(words) => {
                let words: Vec<Word> = words.iter().map(|word| Word::literal(word)).collect();
                search.command(&words, Some(&surroundings.dirs), 0);
            }
        }
    }
    search.variables.clone_from(&surroundings.variables);
    search.given_variables();
    search.scripts_within();
    let mut out = config.to_owned();
    for (path, real) in &search.files {
        let _ = write!(out, "\n\n{}", file_with_text(path, real, &surroundings.root));
    }
    if search.more {
        let _ =
            write!(out, "\n\n--- more than {MAX_FILES} files: becket does not notice a change of the others");
    }
    for name in &search.missing {
        let _ = write!(out, "\n\n--- {name}: not found. becket asks again when this file exists");
    }
    for text in &search.unknown {
        let _ = write!(
            out,
            "\n\n--- {text}: known only when it runs. becket does not notice a change of this file"
        );
    }
    for (name, path) in &search.folders {
        let state = Some(path)
            .filter(|path| **path != surroundings.root)
            .and_then(|path| within::programs_in(path))
            .unwrap_or_else(|| "a folder. becket does not notice a change of the files in it".to_owned());
        let _ = write!(out, "\n\n--- {name}: {state}");
    }
    out
}

/// Returns the name, the size and the text of a file. The size is a part of the title, so that the text of one file
/// cannot pass for a second file.
fn file_with_text(path: &Path, real: &Path, root: &Path) -> String {
    let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
    let name = match real.strip_prefix(root) {
        Ok(inside) if inside.display().to_string() == name => name,
        Ok(inside) => format!("{name}, a link to {}", inside.display()),
        Err(_) => format!("{name}, a link to {}", real.display()),
    };
    let bytes = match becket_files::read(real, MAX_HASHED) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return format!("--- {name}{}", stamp(real));
        }
        Err(error) => return format!("--- {name}: cannot be read ({error})"),
    };
    match String::from_utf8(bytes) {
        Ok(text) if text.len() <= MAX_SHOWN => format!("--- {name}, {} bytes\n{text}", text.len()),
        Ok(text) => {
            format!("--- {name}, {} bytes, sha256 {}", text.len(), becket_tool::sha256(text.as_bytes()))
        }
        Err(error) => {
            let bytes = error.into_bytes();
            format!("--- {name}, {} bytes, sha256 {}", bytes.len(), becket_tool::sha256(&bytes))
        }
    }
}

/// Identifies a file that is too large to be compared by its content. Each write to it changes the time that is
/// compared here, and programs cannot set it.
fn stamp(path: &Path) -> String {
    match path.metadata() {
        Ok(meta) => format!(
            ": {} bytes, inode {}, changed at {}.{:09}",
            meta.len(),
            meta.ino(),
            meta.ctime(),
            meta.ctime_nsec()
        ),
        Err(error) => format!(": cannot be read ({error})"),
    }
}

/// Resolves links as far as the path exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| becket_types::lexical(path))
}

#[derive(Debug)]
struct Search<'a> {
    environment: &'a CommandEnvironment,
    variables: BTreeMap<String, Vec<String>>,
    /// Files as they are named, with the real path of each.
    files: Vec<(PathBuf, PathBuf)>,
    missing: Vec<String>,
    unknown: Vec<String>,
    /// Folders that a command runs: each as it is named, and its real path.
    folders: Vec<(String, PathBuf)>,
    /// Folders that a `cd` names through variables, which the reader of shell text does not follow.
    cd_folders: Vec<PathBuf>,
    more: bool,
    /// The real paths of files that an interpreter reads as its script, whatever their names are; true: a shell does.
    read_as_script: BTreeMap<PathBuf, bool>,
    /// Number of names in scripts that were looked up.
    looked_up: usize,
}

impl<'a> Search<'a> {
    fn new(at: &'a CommandEnvironment) -> Self {
        Self {
            environment: at,
            variables: BTreeMap::new(),
            files: Vec::new(),
            missing: Vec::new(),
            unknown: Vec::new(),
            folders: Vec::new(),
            cd_folders: Vec::new(),
            more: false,
            read_as_script: BTreeMap::new(),
            looked_up: 0,
        }
    }

    fn shell(&mut self, text: &str, dirs: Dirs, depth: usize) {
        let home = self.environment.home.clone();
        let script = read_long(text, dirs, &Paths { home: &home, resolve: &real });
        self.assign(&script);
        for simple in &script.commands {
            self.simple(simple, depth);
        }
        // `sh <file`, `cat file | sh` and `eval "$(cat file)"` run the text of a file that another word names.
        let runs = |simple: &&Simple| reads_its_script(&simple.words);
        let runs_input = script.commands.iter().filter(runs).any(|simple| !simple.piped);
        for redirect in script.redirects.iter().filter(|redirect| !redirect.write) {
            self.word(&redirect.target, redirect.dirs.as_deref());
            if runs_input {
                self.script(&redirect.target, true, redirect.dirs.as_deref());
            }
        }
        let evaluates =
            script.commands.iter().any(|simple| simple.words.first().is_some_and(|word| word.text == "eval"));
        for (at, simple) in script.commands.iter().enumerate() {
            let next = script.commands.get(at + 1).filter(runs);
            if evaluates || next.is_some_and(|next| next.piped) {
                for word in &simple.words {
                    self.script(word, true, simple.dirs.as_deref());
                }
            }
        }
        for (_, value) in &script.assigns {
            self.word(value, None);
        }
        if script.unread {
            self.pieces(text, None);
            note(&mut self.unknown, format!("a part of `{}`", one_line(text)));
        }
    }

    /// Learns the values that a script gives to variables. All values that the script gives to a variable are kept, wherever they are set.
    fn assign(&mut self, script: &Script) {
        for (name, value) in &script.assigns {
            let mut values = self.readings(&value.text);
            let known = self.variables.entry(name.clone()).or_default();
            values.retain(|value| !known.contains(value));
            known.extend(values);
            known.truncate(MAX_READINGS);
        }
    }

    fn simple(&mut self, simple: &Simple, depth: usize) {
        if let [name, to] = simple.words.as_slice()
            && matches!(name.text.as_str(), "cd" | "pushd")
            && to.known == Known::Dynamic
        {
            let named: Vec<PathBuf> = self
                .readings(&to.text)
                .iter()
                .flat_map(|text| self.paths(text, simple.dirs.as_deref()))
                .filter(|path| path.is_dir())
                .collect();
            self.cd_folders.extend(named);
        }
        self.command(&simple.words, simple.dirs.as_deref(), depth);
        // Text on the standard input of a shell is a script, too.
        let reads = simple.words.first().is_some_and(|word| interprets(&word.text).is_some());
        if let Some(input) = simple.input.as_ref().filter(|_| reads && depth < MAX_DEPTH) {
            self.shell(input, simple.dirs.clone(), depth + 1);
        }
    }

    /// Looks at one program call. `dirs`: the folders in which it may run; `None`: not known.
    fn command(&mut self, words: &[Word], dirs: Option<&[PathBuf]>, depth: usize) {
        let Some(first) = words.first() else { return };
        let name = base_name(&first.text).to_owned();
        let inner = Some(unwrap(words)).filter(|_| depth < MAX_DEPTH).unwrap_or(Unwrapped::Plain);
        if !WRITERS.contains(&name.as_str()) {
            // A word that is the text of a script is parsed as a script below. Its single pieces would include files that it only writes.
            let is_script = |word: &Word| matches!(&inner, Unwrapped::Script(text) if *text == word.text);
            for word in words.iter().filter(|word| !is_script(word)) {
                self.word(word, dirs);
            }
        }
        match inner {
            Unwrapped::Command(inner) => return self.command(&inner, dirs, depth + 1),
            Unwrapped::Script(text) => {
                return self.shell(&text, dirs.map(<[PathBuf]>::to_vec), depth + 1);
            }
            Unwrapped::Plain | Unwrapped::Opaque(_) => {}
        }
        self.on_path(first, dirs);
        self.runner(&name, words, dirs);
        self.must_be_there(first, Role::Program, dirs);
        let role = match (interprets(&name), unwrap(words)) {
            (Some(_), _) => Role::Script,
            (None, Unwrapped::Opaque(_)) => Role::Argument,
            _ => return,
        };
        if role == Role::Script {
            self.script_of(&name, words, dirs);
        }
        for word in &words[1..] {
            let is_code = matches!(word.text.as_str(), "-c" | "-e" | "-m" | "--eval");
            // The words after a script are its own arguments.
            if (self.must_be_there(word, role, dirs) || is_code) && role == Role::Script {
                break;
            }
        }
    }

    /// Adds the files of the project that a word names: as a whole, after `=` or `:`, and inside of code.
    fn word(&mut self, word: &Word, dirs: Option<&[PathBuf]>) {
        for text in self.readings(&word.text) {
            self.file(&text, dirs);
            if word.known == Known::Glob {
                self.all_beside(&text, dirs);
            }
            for piece in text.split(['=', ':', ',']).skip(1) {
                self.file(piece, dirs);
            }
            if text.contains(|c: char| c.is_whitespace() || CODE.contains(c)) {
                self.pieces(&text, dirs);
            }
        }
    }

    /// Splits text that cannot or must not be parsed as shell text at blanks and punctuation, and adds the files that the pieces name.
    fn pieces(&mut self, text: &str, dirs: Option<&[PathBuf]>) {
        let ends = |c: char| c.is_whitespace() || "\"'`;&|()<>=,{}[]".contains(c);
        for piece in text.split(ends).filter(|piece| !piece.is_empty()) {
            for reading in self.readings(piece) {
                self.file(&reading, dirs);
            }
        }
    }

    /// Adds the file of this name in each folder, if it belongs to the project. Returns true if there is such a file
    /// or folder anywhere.
    fn file(&mut self, text: &str, dirs: Option<&[PathBuf]>) -> bool {
        let mut found = false;
        for path in self.paths(text, dirs) {
            let Ok(real) = path.canonicalize() else { continue };
            found = true;
            let path = becket_types::lexical(&path);
            // A link inside the project is included even if its target is outside: another target would be another program.
            let path = if path.starts_with(&self.environment.root) { path } else { real.clone() };
            let inside = path.starts_with(&self.environment.root);
            if !inside || !real.is_file() || self.files.iter().any(|(_, known)| *known == real) {
                continue;
            }
            if self.files.len() == MAX_FILES {
                self.more = true;
                continue;
            }
            self.files.push((path, real));
        }
        found
    }

    /// Returns the paths that a text can name.
    fn paths(&self, text: &str, dirs: Option<&[PathBuf]>) -> Vec<PathBuf> {
        if text.is_empty() || text.contains('\0') {
            return Vec::new();
        }
        if let Some(rest) = text.strip_prefix("~/") {
            return vec![self.environment.home.join(rest)];
        }
        let mut all: Vec<&PathBuf> = dirs.unwrap_or_default().iter().collect();
        all.extend(self.environment.dirs.iter().chain(&self.cd_folders));
        let mut out: Vec<PathBuf> = Vec::new();
        for dir in all {
            let path = dir.join(text);
            if !out.contains(&path) {
                out.push(path);
            }
        }
        out
    }

    /// If the last part of a path is a pattern, adds all files of the folder before it.
    fn all_beside(&mut self, text: &str, dirs: Option<&[PathBuf]>) {
        let folder = match text.rsplit_once('/') {
            Some((folder, _)) => folder,
            None => ".",
        };
        if folder.contains(['*', '?', '[']) {
            return note(&mut self.unknown, format!("`{}`", one_line(text)));
        }
        for dir in self.paths(folder, dirs) {
            let mut names: Vec<PathBuf> =
                std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            names.sort();
            for name in names {
                self.file(&name.to_string_lossy(), None);
            }
        }
    }

    /// If a command names a program without a path, adds the program if a folder in PATH that belongs to the project has it.
    fn on_path(&mut self, name: &Word, dirs: Option<&[PathBuf]>) {
        if name.text.contains('/') {
            return;
        }
        let folders = self.variables.get("PATH").cloned().unwrap_or_default();
        for folder in folders.iter().flat_map(|all| all.split(':')) {
            for folder in self.readings(folder) {
                self.file(&format!("{folder}/{}", name.text), dirs);
            }
        }
    }

    /// For a program that runs tasks, such as `make`, adds the file that it reads. Also adds the modules that the words name.
    fn runner(&mut self, name: &str, words: &[Word], dirs: Option<&[PathBuf]>) {
        let starts: Vec<PathBuf> = dirs.unwrap_or(&self.environment.dirs).to_vec();
        for (_, files) in RUNNERS.iter().filter(|(runner, _)| *runner == name) {
            for start in &starts {
                let places =
                    start.ancestors().take_while(|dir| real(dir).starts_with(&self.environment.root));
                let file =
                    places.flat_map(|dir| files.iter().map(|file| dir.join(file))).find(|f| f.is_file());
                if let Some(file) = file {
                    self.file(&file.to_string_lossy(), None);
                }
            }
        }
        self.modules(name, words, dirs);
    }

    /// Records that the program or script named by a word does not exist, or is known only when the command runs.
    /// Returns true if the word names a file or may name one.
    fn must_be_there(&mut self, word: &Word, role: Role, dirs: Option<&[PathBuf]>) -> bool {
        // [`Self::word`] has already added the files that a pattern matches.
        if word.text.starts_with('-') || word.known == Known::Glob {
            return false;
        }
        let readings = self.readings(&word.text);
        let mut there = false;
        for text in &readings {
            for path in self.paths(text, dirs).iter().filter(|path| path.exists()) {
                there = true;
                let inside = real(path).starts_with(&self.environment.root);
                if inside && path.is_dir() && role != Role::Program && text != "." {
                    note(&mut self.folders, (one_line(text), real(path)));
                }
            }
        }
        if there {
            return true;
        }
        let dynamic = word.known == Known::Dynamic && readings.iter().any(|text| text.contains(['$', '`']));
        // `$?` stands for a variable that the script itself sets. Its value was looked at where it is set.
        let set = word.raw == "$?";
        let names_path = word.text.contains('/') && !word.text.contains(char::is_whitespace);
        let names_script = ENDINGS.iter().any(|end| word.text.ends_with(end));
        let is_text = word.text.contains(|c: char| CODE.contains(c)) || word.text.contains("://");
        if dynamic && role != Role::Argument {
            if !set {
                note(&mut self.unknown, format!("`{}`", one_line(&word.raw)));
            }
            return true;
        }
        let misses = match role {
            Role::Program => word.text.contains('/'),
            Role::Script | Role::Argument => !is_text && (names_path || names_script),
        };
        if misses {
            // The word is shown as written, without the values of variables, because these may be secrets.
            note(&mut self.missing, one_line(&word.text));
        }
        misses
    }

    /// Returns the texts that a word can become, with the known variables in place. A variable that is not known stays.
    fn readings(&self, text: &str) -> Vec<String> {
        let mut out = vec![text.to_owned()];
        for _ in 0..MAX_DEPTH {
            let Some(at) = out.iter().position(|text| self.first_variable(text).is_some()) else { break };
            let text = out.remove(at);
            let Some((range, values)) = self.first_variable(&text) else { break };
            for value in values {
                let put = format!("{}{value}{}", &text[..range.start], &text[range.end..]);
                if out.len() < MAX_READINGS && !out.contains(&put) {
                    out.push(put);
                }
            }
        }
        out
    }

    /// Returns the range in `text` and the values of the first known variable, or of a usual way to ask for the root.
    fn first_variable(&self, text: &str) -> Option<(std::ops::Range<usize>, Vec<String>)> {
        let root = || vec![self.environment.root.to_string_lossy().into_owned()];
        for (asked, of_root) in [
            ("$(git rev-parse --show-toplevel)", true),
            ("`git rev-parse --show-toplevel`", true),
            ("$(pwd)", false),
        ] {
            if let Some(at) = text.find(asked) {
                let values = if of_root { root() } else { self.variables.get("PWD")?.clone() };
                return Some((at..at + asked.len(), values));
            }
        }
        let mut from = 0;
        while let Some(at) = text[from..].find('$').map(|at| at + from) {
            let rest = &text[at + 1..];
            let braced = rest.starts_with('{');
            let body = rest.strip_prefix('{').unwrap_or(rest);
            let length = body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
            let name = &body[..length];
            let close = if braced { body.find('}').map(|end| end + 1) } else { Some(length) };
            if let (Some(values), Some(close)) = (self.variables.get(name), close) {
                // A value that names its own variable is left out: each replacement would bring the variable back, until
                // `MAX_DEPTH`.
                let values: Vec<String> = values.iter().filter(|v| !names(v, name)).cloned().collect();
                return Some((at..at + 1 + usize::from(braced) + close, values))
                    .filter(|(_, v)| !v.is_empty());
            }
            from = at + 1;
        }
        None
    }
}

/// Returns the interpreter of this name, without a version (`python3.12` is `python`).
fn interprets(name: &str) -> Option<&'static str> {
    let plain = base_name(name).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let plain = if plain.is_empty() { base_name(name) } else { plain };
    INTERPRETERS.into_iter().find(|known| *known == plain)
}

fn note<T: PartialEq>(list: &mut Vec<T>, entry: T) {
    if list.len() < MAX_FILES && !list.contains(&entry) {
        list.push(entry);
    }
}

/// Returns a text in one line without control characters.
fn one_line(text: &str) -> String {
    becket_tool::text::clean(text).replace('\n', " ").chars().take(200).collect()
}

/// True if `text` contains `$name` or `${name}`, and not only a variable with a longer name.
fn names(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = &text[..at];
        (before.ends_with('$') || before.ends_with("${")) && !text[at + name.len()..].starts_with(is_word)
    })
}

#[cfg(test)]
mod tests;
