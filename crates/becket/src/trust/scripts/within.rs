//! Finds the programs that the scripts of a command start, and those in a folder that a command runs.
//!
//! Shell scripts are read like the command itself, and scripts in other languages by [`super::code`]. Of the files that they name, only
//! programs count: a script names many files that it reads or writes, and whoever changes these must not be asked again.

use super::{ENDINGS, MAX_SHOWN, Search, code, interprets};
use becket_shell_syntax::base_name;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Endings of files that a shell reads.
const SHELL: [&str; 4] = [".sh", ".bash", ".zsh", ".ksh"];
/// Most files of a folder that are compared, most folders below each other, and most bytes of a file.
const MOST: usize = 500;
const DEEPEST: usize = 6;
const BYTES: u64 = 4 << 20;

impl Search<'_> {
    /// Adds the programs of the project that the scripts found so far load or run, and those that these load or run.
    pub(super) fn scripts_within(&mut self) {
        let mut next = 0;
        while let Some((path, real)) = self.files.get(next).cloned() {
            next += 1;
            let Ok(text) = becket_files::read_text(&real, MAX_SHOWN as u64) else { continue };
            if !is_shell_script(&path, &text) {
                let known = self.files.len();
                code::follow(self, &path, &text);
                self.keep_programs(known);
                continue;
            }
            // Nothing is noted about words of these scripts that only a variable knows: the list would never end.
            let noted = (self.missing.clone(), self.unknown.clone(), self.folders.clone());
            let known = self.files.len();
            let mut dirs = self.at.dirs.clone();
            dirs.extend(path.parent().map(Path::to_path_buf));
            self.shell(&text, Some(dirs), 0);
            (self.missing, self.unknown, self.folders) = noted;
            self.keep_programs(known);
        }
    }

    /// Of the files after the first `known` ones, keeps those that are programs.
    fn keep_programs(&mut self, known: usize) {
        let added = self.files.split_off(known);
        self.files.extend(added.into_iter().filter(|(path, real)| is_program(path, real)));
    }
}

fn is_shell_script(path: &Path, text: &str) -> bool {
    let name = path.to_string_lossy();
    let first = text.strip_prefix("#!").and_then(|rest| rest.lines().next()).unwrap_or_default();
    let shells = ["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh"];
    let is_named = first.split_whitespace().any(|word| shells.contains(&base_name(word)));
    is_named || first.is_empty() && SHELL.iter().any(|end| name.ends_with(end))
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
                if depth == DEEPEST {
                    return None;
                }
                folders.push((path, depth + 1));
                continue;
            }
            let real = path.canonicalize().ok();
            let Some(real) = real.filter(|real| real.is_file() && is_program(&path, real)) else { continue };
            if lines.len() == MOST {
                return None;
            }
            let bytes = becket_files::read(&real, BYTES).ok()?;
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            lines.push(format!("{name:?} {}", becket_tool::sha256(&bytes)));
        }
    }
    lines.sort();
    let mut out = format!("a folder with {} programs", lines.len());
    let _ = write!(out, ", sha256 {}", becket_tool::sha256(lines.join("\n").as_bytes()));
    Some(out)
}
