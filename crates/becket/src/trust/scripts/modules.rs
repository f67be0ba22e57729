//! Files that Python and node find by the name of a module, and files that variables name for a program.
//!
//! Code in an argument (`python -c`, `node -e`) may import anything. Modules that it names are added; that it may run others is
//! noted. `super::code` follows what a file imports.

use super::code::python_modules;
use super::tables::NODE;
use super::{Search, interprets, note, one_line, real};
use becket_shell_syntax::Word;
use std::path::{Path, PathBuf};

/// Modules of Python that run another one, which their arguments name.
const PYTHON_RUNNERS: [&str; 6] = ["runpy", "unittest", "pdb", "cProfile", "trace", "timeit"];

/// True for an option of an interpreter that names a module or holds code.
fn loads_code(option: &str) -> bool {
    option.starts_with("-M") || option.starts_with("-m") || option == "-e"
}

impl Search<'_> {
    /// Adds the modules that the words of a call name.
    pub(super) fn modules(&mut self, name: &str, words: &[Word], dirs: Option<&[PathBuf]>) {
        let texts: Vec<&str> = words.iter().skip(1).map(|word| word.text.as_str()).collect();
        match interprets(name) {
            Some("python") => self.python(&texts, dirs),
            Some("node" | "bun" | "deno" | "tsx" | "ts-node") => self.node(&texts, dirs),
            Some(other @ ("perl" | "ruby" | "php" | "lua")) if texts.iter().any(|text| loads_code(text)) => {
                self.note_code(other);
            }
            _ => {}
        }
    }

    /// Adds the files that variables in the project's configuration name, and notes the folders in which programs look for modules.
    pub(super) fn given_variables(&mut self) {
        let at = self.environment;
        for name in &at.configured_variables {
            for value in at.variables.get(name).into_iter().flatten() {
                self.word(&Word::literal(value), Some(&at.dirs));
                if name == "NODE_OPTIONS" {
                    let words: Vec<&str> = value.split_whitespace().collect();
                    self.required(&words, Some(&at.dirs));
                }
                if name.ends_with("PATH") || name.ends_with("LIB") {
                    self.folders_of(value);
                }
            }
        }
    }

    fn folders_of(&mut self, value: &str) {
        for folder in value.split(':').filter(|folder| !folder.is_empty()) {
            let inside = |path: &PathBuf| path.is_dir() && real(path).starts_with(&self.environment.root);
            if self.paths(folder, None).iter().any(inside) {
                // The folder often holds the project's own sources, which change all the time. So it is named in the
                // text, and its content is not compared.
                note(&mut self.folders, (one_line(folder), self.environment.root.clone()));
            }
        }
    }

    fn python(&mut self, texts: &[&str], dirs: Option<&[PathBuf]>) {
        for (at, text) in texts.iter().enumerate() {
            if let Some(code) = text.strip_prefix("-c") {
                let code =
                    if code.is_empty() { texts.get(at + 1).copied().unwrap_or_default() } else { code };
                let imported = python_modules(code);
                for module in &imported {
                    self.python_module(module, dirs);
                }
                if !imported.is_empty() {
                    self.note_code("python");
                }
                return;
            }
            let Some(module) = text.strip_prefix("-m") else {
                // The words after a script are its own arguments.
                if text.starts_with('-') {
                    continue;
                }
                return;
            };
            let (module, rest) = match module {
                "" => (texts.get(at + 1).copied().unwrap_or_default(), texts.get(at + 2..)),
                glued => (glued, texts.get(at + 1..)),
            };
            self.python_module(module, dirs);
            if PYTHON_RUNNERS.contains(&module) {
                for other in rest.unwrap_or_default().iter().filter(|word| !word.starts_with('-')) {
                    self.python_module(other, dirs);
                }
            }
            return;
        }
    }

    /// Adds the files of a module in the folders where a command starts, and in those of `PYTHONPATH`.
    fn python_module(&mut self, module: &str, dirs: Option<&[PathBuf]>) {
        let path = module.replace('.', "/");
        let mut folders = vec![String::new()];
        let named = self.variables.get("PYTHONPATH").cloned().unwrap_or_default();
        folders.extend(named.iter().flat_map(|all| all.split(':')).map(|folder| format!("{folder}/")));
        for folder in folders {
            for file in [format!("{path}.py"), format!("{path}/__main__.py"), format!("{path}/__init__.py")] {
                self.file(&format!("{folder}{file}"), dirs);
            }
            // Importing `a.b.c` also runs the `__init__.py` of `a` and of `a.b`.
            for (at, _) in path.match_indices('/') {
                self.file(&format!("{folder}{}/__init__.py", &path[..at]), dirs);
            }
        }
    }

    fn node(&mut self, texts: &[&str], dirs: Option<&[PathBuf]>) {
        self.required(texts, dirs);
        let mut words = texts.iter();
        while let Some(text) = words.next() {
            match *text {
                "-e" | "--eval" | "-p" | "--print" => {
                    let code = words.next().copied().unwrap_or_default();
                    for name in quoted(code).filter(|name| name.starts_with(['.', '/'])) {
                        self.node_file(name, dirs);
                    }
                    if code.contains("require") || code.contains("import") {
                        self.note_code("node");
                    }
                    return;
                }
                "-r" | "--require" | "--import" | "--loader" => _ = words.next(),
                "run" => {}
                option if option.starts_with('-') => {}
                script => return self.node_file(script, dirs),
            }
        }
    }

    /// Adds the files that node loads before its script.
    fn required(&mut self, texts: &[&str], dirs: Option<&[PathBuf]>) {
        for (at, text) in texts.iter().enumerate() {
            let (option, value) = text.split_once('=').unwrap_or((*text, ""));
            if matches!(option, "-r" | "--require" | "--import" | "--loader" | "--experimental-loader") {
                let value =
                    if value.is_empty() { texts.get(at + 1).copied().unwrap_or_default() } else { value };
                self.node_file(value, dirs);
            }
        }
    }

    /// Adds the file that node takes for a name: with an ending, or the main file of a folder.
    fn node_file(&mut self, name: &str, dirs: Option<&[PathBuf]>) {
        for ending in NODE {
            self.file(&format!("{name}{ending}"), dirs);
        }
        for folder in self.paths(name, dirs).into_iter().filter(|folder| folder.is_dir()) {
            self.package(&folder);
        }
    }

    fn package(&mut self, folder: &Path) {
        let description = folder.join("package.json");
        if !self.file(&description.to_string_lossy(), None) {
            return;
        }
        let text = becket_files::read_text(&description, super::MAX_HASHED).unwrap_or_default();
        let Ok(serde_json::Value::Object(keys)) = becket_types::parse_json(&text) else { return };
        for main in ["main", "module"].iter().filter_map(|key| keys.get(*key)?.as_str()) {
            for ending in NODE {
                self.file(&folder.join(format!("{main}{ending}")).to_string_lossy(), None);
            }
        }
    }

    fn note_code(&mut self, program: &str) {
        note(&mut self.unknown, format!("code in an argument of {program}, which may load other files"));
    }
}

/// Returns the texts between quotes in JavaScript code.
fn quoted(code: &str) -> impl Iterator<Item = &str> {
    code.split(['\'', '"', '`']).skip(1).step_by(2)
}
