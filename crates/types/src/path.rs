//! Pure functions on paths. They never access the disk, so symbolic links are not followed.

use std::path::{Component, Path, PathBuf};

/// Resolves `.` and `..` without access to the disk. Only for display and comparison: `link/..` may be
/// another folder on the disk.
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

/// Returns the path whose bytes are given as hex digits.
pub(crate) fn from_hex(text: &str) -> Option<PathBuf> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let bytes: Vec<u8> =
        pairs.iter().map(|[a, b]| Some((digit(*a)? << 4) | digit(*b)?)).collect::<Option<_>>()?;
    Some(from_bytes(bytes))
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
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
