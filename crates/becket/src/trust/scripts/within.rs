//! Finds the programs that the scripts of a command start, and those in a folder that a command runs.
//!
//! Shell scripts are read like the command itself, and scripts in other languages by [`super::code`]. Of the files that they name, only
//! programs count: a script names many files that it reads or writes, and whoever changes these must not be asked again.

use super::tables::{SHELLS, TAKE_VALUES};
use super::{ENDINGS, MAX_FILES, MAX_SHOWN, Search, code, interprets};
use becket_shell_syntax::{Word, base_name};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Endings of files that a shell reads.
const SHELL_ENDINGS: [&str; 4] = [".sh", ".bash", ".zsh", ".ksh"];
/// Maximum number of files of a folder that are compared, of folders below each other, and of bytes of a file.
const MAX_FOLDER_FILES: usize = 500;
const MAX_DEPTH: usize = 6;
const MAX_FILE_BYTES: u64 = 4 << 20;

impl Search<'_> {
    /// Adds the programs of the project that the scripts found so far load or run, and those that these load or run.
    pub(super) fn scripts_within(&mut self) {
        let mut next = 0;
        while let Some((path, real)) = self.files.get(next).cloned() {
            next += 1;
            let Ok(text) = becket_files::read_text(&real, MAX_SHOWN as u64) else { continue };
            let is_shell = is_shell_script(&path, &text) || self.read_as_script.get(&real) == Some(&true);
            if !is_shell {
                let known = self.files.len();
                code::follow(self, &path, &text);
                self.keep_programs(known);
                continue;
            }
            // Notes about unknown or missing files in these scripts are discarded, because the list would be too long to read.
            let noted = (self.missing.clone(), self.unknown.clone(), self.folders.clone());
            let known = self.files.len();
            let mut dirs = self.environment.dirs.clone();
            dirs.extend(path.parent().map(Path::to_path_buf));
            self.shell(&text, Some(dirs), 0);
            (self.missing, self.unknown, self.folders) = noted;
            self.keep_programs(known);
        }
    }

    /// Remembers the file that an interpreter reads: the first word that is a file, and files that options name before it.
    pub(super) fn script_of(&mut self, name: &str, words: &[Word], dirs: Option<&[PathBuf]>) {
        let is_shell = interprets(name).is_some_and(|known| SHELLS.contains(&known));
        for (at, word) in words.iter().enumerate().skip(1) {
            let before = words[at - 1].text.as_str();
            let is_value = before.starts_with("--") || TAKE_VALUES.contains(&before);
            if self.script(word, is_shell, dirs) && !is_value {
                return;
            }
        }
    }

    pub(super) fn script(&mut self, word: &Word, is_shell: bool, dirs: Option<&[PathBuf]>) -> bool {
        let mut found = false;
        for text in self.readings(&word.text) {
            for path in self.paths(&text, dirs) {
                let real = path.canonicalize().ok().filter(|real| real.is_file());
                if let Some(real) = real.filter(|_| self.read_as_script.len() < MAX_FILES * 4) {
                    found = true;
                    *self.read_as_script.entry(real).or_default() |= is_shell;
                }
            }
        }
        found
    }

    /// Of the files after the first `known` ones, keeps those that are programs, or that an interpreter reads.
    fn keep_programs(&mut self, known: usize) {
        let added = self.files.split_off(known);
        let scripts = &self.read_as_script;
        let is_kept =
            |(path, real): &(PathBuf, PathBuf)| is_program(path, real) || scripts.contains_key(real);
        self.files.extend(added.into_iter().filter(is_kept));
    }
}

/// True for a shell without a script of its own, which reads its standard input.
pub(super) fn reads_its_script(words: &[Word]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    let is_shell = interprets(&first.text).is_some_and(|known| SHELLS.contains(&known));
    let has_script = rest.iter().any(|word| !word.text.starts_with(['-', '+']) || word.text == "-c");
    is_shell && !has_script
}

fn is_shell_script(path: &Path, text: &str) -> bool {
    let name = path.to_string_lossy();
    let first = text.strip_prefix("#!").and_then(|rest| rest.lines().next()).unwrap_or_default();
    let shells = ["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh"];
    let is_named = first.split_whitespace().any(|word| shells.contains(&base_name(word)));
    is_named || first.is_empty() && SHELL_ENDINGS.iter().any(|end| name.ends_with(end))
}

/// True if a file can be run: by its ending, its permissions or its first line.
fn is_program(path: &Path, real: &Path) -> bool {
    let name = path.to_string_lossy();
    ENDINGS.iter().any(|end| name.ends_with(end))
        || real.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
        || becket_files::read_start(real, 2).is_ok_and(|(start, _)| start == b"#!")
        || interprets(&name).is_some()
}

/// Describes the programs in a folder, so that another content of one of them is another text. `None` if there are too many.
pub(super) fn programs_in(folder: &Path) -> Option<String> {
    let mut lines = Vec::new();
    let mut folders = vec![(folder.to_path_buf(), 0)];
    while let Some((dir, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&dir).ok()?.flatten() {
            let path = entry.path();
            let kind = entry.file_type().ok()?;
            if kind.is_dir() {
                if depth == MAX_DEPTH {
                    return None;
                }
                folders.push((path, depth + 1));
                continue;
            }
            let real = path.canonicalize().ok();
            let Some(real) = real.filter(|real| real.is_file() && is_program(&path, real)) else { continue };
            if lines.len() == MAX_FOLDER_FILES {
                return None;
            }
            let bytes = becket_files::read(&real, MAX_FILE_BYTES).ok()?;
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            lines.push(format!("{name:?} {}", becket_tool::sha256(&bytes)));
        }
    }
    lines.sort();
    let mut out = format!("a folder with {} programs", lines.len());
    let _ = write!(out, ", sha256 {}", becket_tool::sha256(lines.join("\n").as_bytes()));
    Some(out)
}
