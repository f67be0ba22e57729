//! A temporary directory with files, removed when dropped.

use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The temporary directory of one test.
#[derive(Debug)]
pub struct Project {
    dir: TempDir,
    root: PathBuf,
}

impl Project {
    /// Makes a directory with these files: relative path and content.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // The path is made canonical, so that comparisons work if the temporary directory is reached through
        // a link.
        let root = dir.path().canonicalize().unwrap();
        let project = Self { dir, root };
        for (path, content) in files {
            project.write(path, content);
        }
        project
    }

    /// Returns the canonical path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the absolute path of a file, which need not exist.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Creates or replaces a file, with its folders. Panics if that fails.
    pub fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Returns the text of a file. Panics if it does not exist or is not UTF-8.
    pub fn read(&self, relative: &str) -> String {
        String::from_utf8(self.read_bytes(relative)).unwrap_or_else(|e| panic!("{relative}: {e}"))
    }

    pub(crate) fn read_bytes(&self, relative: &str) -> Vec<u8> {
        std::fs::read(self.path(relative)).unwrap_or_else(|e| panic!("{relative}: {e}"))
    }

    /// True if the file or folder exists. Symbolic links are followed.
    pub fn exists(&self, relative: &str) -> bool {
        self.path(relative).exists()
    }

    /// Returns all files with their content, sorted by relative path. Bytes that are not UTF-8 become U+FFFD.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let mut todo = vec![self.root.clone()];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    todo.push(path);
                } else {
                    let name = path.strip_prefix(&self.root).unwrap().to_string_lossy().into_owned();
                    out.push((name, String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()));
                }
            }
        }
        out.sort();
        out
    }

    /// Keeps the directory after the test, for inspection.
    pub fn keep(self) -> PathBuf {
        let _ = self.dir.keep();
        self.root
    }
}
