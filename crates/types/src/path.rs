//! Paths by their text alone. Asks no disk: what a link points at is not known here.

use std::path::{Component, Path, PathBuf};

/// `.` and `..` folded without looking at the disk. For display and comparison only: `link/..` is not what it says.
pub fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_folded() {
        for (path, want) in [
            ("/a/./b/../c", "/a/c"),
            ("/../a", "/a"),
            ("a/..", ""),
            ("../a", "a"),
            ("/a//b/", "/a/b"),
            ("", ""),
        ] {
            assert_eq!(lexical(Path::new(path)), Path::new(want), "{path}");
        }
    }
}
