//! Glob patterns for paths.
//!
//! Owns the interpretation of patterns. A pattern without a slash matches file names at any depth. A pattern
//! with a slash matches the path relative to the search root or to the working directory. `!` excludes;
//! commas separate several patterns. Patterns only narrow a search: unlike ripgrep's `-g`, no pattern
//! includes ignored files.
//!
//! Touches no file.

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Maximum length in bytes. Longer patterns are never meant seriously, and they compile to large matchers.
const MAX_PATTERN: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Filter {
    /// Paths to include; `None` includes everything.
    wanted: Option<GlobSet>,
    unwanted: Option<GlobSet>,
    /// True if a part of a pattern begins with a dot. The walk then includes hidden files.
    pub(crate) hidden: bool,
    /// Maximum number of components of an included path, below the directory that the pattern is relative to;
    /// `None`: unlimited.
    depth: Option<usize>,
}

impl Filter {
    /// Parses patterns separated by commas.
    ///
    /// # Errors
    ///
    /// Returns a message for the model that gives the position of the mistake.
    pub(crate) fn new(patterns: &str) -> Result<Self, String> {
        if patterns.len() > MAX_PATTERN {
            return Err(format!(
                "The glob pattern has {} bytes; at most {MAX_PATTERN} are understood.",
                patterns.len()
            ));
        }
        if patterns.contains('\0') {
            return Err("The glob pattern contains a NUL character.".to_owned());
        }
        let (mut wanted, mut unwanted, mut hidden) = (Vec::new(), Vec::new(), false);
        let mut depth = Some(0);
        for pattern in split(patterns) {
            let (list, pattern, counts) = match pattern.strip_prefix('!') {
                Some(rest) => (&mut unwanted, rest, false),
                None => (&mut wanted, pattern, true),
            };
            let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
            hidden |= pattern.split('/').any(|part| part.starts_with('.') && part.len() > 1);
            let anywhere = !pattern.trim_end_matches('/').contains('/');
            let anchored = pattern.strip_prefix('/').unwrap_or(pattern);
            let full = if anywhere { format!("**/{anchored}") } else { anchored.to_owned() };
            let full = if full.ends_with('/') { format!("{full}**") } else { full };
            if counts {
                // With `**` or alternatives in braces, a path may have more components than the pattern.
                let counted = !full.contains("**") && !full.contains('{');
                depth = depth.filter(|_| counted).map(|n: usize| n.max(full.split('/').count()));
            }
            let glob = GlobBuilder::new(&full)
                .literal_separator(true)
                .build()
                .map_err(|error| explain(pattern, error.kind()))?;
            list.push(glob);
        }
        let depth = depth.filter(|_| !wanted.is_empty());
        Ok(Self { wanted: set(&wanted)?, unwanted: set(&unwanted)?, hidden, depth })
    }

    /// Returns the depth below `root` to which the walk has to go; `None`: unlimited.
    pub(crate) fn depth(&self, root: &Path, cwd: &Path) -> Option<usize> {
        // If `root` is above the working directory, a path relative to the working directory is deeper below
        // `root`.
        self.depth.filter(|_| root == cwd || !cwd.starts_with(root))
    }

    /// True if `path` matches, relative to `root` or to `cwd`.
    pub(crate) fn accepts(&self, path: &Path, root: &Path, cwd: &Path) -> bool {
        // If the search root is itself a file, only its name is matched.
        let below = under(path, root).or_else(|| path.file_name().map(OsStr::as_encoded_bytes));
        let here = if root == cwd { None } else { under(path, cwd) };
        let paths = [below, here].map(|p| p.map(Candidate::from_bytes));
        let any = |globs: &GlobSet| paths.iter().flatten().any(|p| globs.is_match_candidate(p));
        self.wanted.as_ref().is_none_or(any) && !self.unwanted.as_ref().is_some_and(any)
    }
}

/// Returns the rest of `path` below `dir`, or `None` for `dir` itself. Both are free of `.` and `..`.
/// Compares bytes, because this runs for every file.
fn under<'p>(path: &'p Path, dir: &Path) -> Option<&'p [u8]> {
    let rest = path.as_os_str().as_encoded_bytes().strip_prefix(dir.as_os_str().as_encoded_bytes())?;
    match rest {
        [b'/', rest @ ..] if !rest.is_empty() => Some(rest),
        // Only the file system's root ends with a slash, so no slash is left in front of the rest.
        [first, ..] if *first != b'/' && dir.parent().is_none() => Some(rest),
        _ => None,
    }
}

/// Combines the globs into one matcher, which looks up names and endings instead of trying each glob.
fn set(globs: &[Glob]) -> Result<Option<GlobSet>, String> {
    if globs.is_empty() {
        return Ok(None);
    }
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        builder.add(glob.clone());
    }
    builder.build().map(Some).map_err(|error| format!("Invalid glob pattern: {error}."))
}

/// Splits at commas that are not inside braces or brackets.
fn split(patterns: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    patterns
        .split(move |c| {
            match c {
                '{' | '[' => depth += 1,
                '}' | ']' => depth -= 1,
                _ => {}
            }
            c == ',' && depth <= 0
        })
        .map(str::trim)
        .filter(|p| !p.is_empty())
}

/// Splits an absolute pattern, or one that begins with `../`, into its fixed directory and the rest: `/a/b/*.rs`
/// becomes `/a/b` and `/*.rs`. `None` for other patterns.
pub(crate) fn base(pattern: &str) -> Option<(PathBuf, String)> {
    if !pattern.starts_with('/') && !pattern.starts_with("../") {
        return None;
    }
    let literal = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
    let parts: Vec<&str> = pattern.split('/').collect();
    let count = parts.iter().take_while(|p| literal(p)).count().min(parts.len() - 1);
    let dir = parts[..count].join("/");
    let rest = parts[count..].join("/");
    // Without a slash the rest would match at any depth, but the pattern named a file in this directory only.
    let rest = if rest.contains('/') { rest } else { format!("/{rest}") };
    Some((PathBuf::from(if dir.is_empty() { "/".to_owned() } else { dir }), rest))
}

fn explain(pattern: &str, kind: &globset::ErrorKind) -> String {
    use globset::ErrorKind as E;
    let at = match kind {
        E::UnclosedClass => pattern.rfind('['),
        E::InvalidRange(from, to) => pattern.find(&format!("{from}-{to}")),
        E::UnclosedAlternates => unmatched(pattern, '{', '}'),
        E::UnopenedAlternates => {
            let reversed: String = pattern.chars().rev().collect();
            unmatched(&reversed, '}', '{').map(|at| pattern.len() - 1 - at)
        }
        E::DanglingEscape => Some(pattern.len().saturating_sub(1)),
        _ => None,
    };
    let place = at.map_or(String::new(), |at| format!(" at character {}", pattern[..at].chars().count() + 1));
    format!("Invalid glob pattern `{pattern}`{place}: {kind}.")
}

/// Returns the byte position of the first `open` without a matching `close`.
fn unmatched(text: &str, open: char, close: char) -> Option<usize> {
    let mut stack = Vec::new();
    for (at, c) in text.char_indices() {
        if c == open {
            stack.push(at);
        } else if c == close {
            stack.pop();
        }
    }
    stack.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_table() {
        for (pattern, path, want) in [
            ("*.rs", "/w/a.rs", true),
            ("*.rs", "/w/src/deep/a.rs", true),
            ("*.rs", "/w/a.rst", false),
            ("src/*.rs", "/w/src/a.rs", true),
            ("src/*.rs", "/w/src/deep/a.rs", false),
            ("src/**/*.rs", "/w/src/deep/a.rs", true),
            ("**/*.rs", "/w/a.rs", true),
            ("./src/*.rs", "/w/src/a.rs", true),
            ("/src/*.rs", "/w/src/a.rs", true),
            ("*.{ts,tsx}", "/w/x.tsx", true),
            ("*.rs,*.toml", "/w/Cargo.toml", true),
            ("*.rs, !*_test.rs", "/w/a_test.rs", false),
            ("!*.md", "/w/a.rs", true),
            ("src/", "/w/src/a.rs", true),
            ("deep/*.rs", "/w/src/deep/a.rs", false),
            ("src", "/w/src", true),
        ] {
            let filter = Filter::new(pattern).unwrap();
            assert_eq!(
                filter.accepts(Path::new(path), Path::new("/w"), Path::new("/w")),
                want,
                "{pattern} {path}"
            );
        }
        // Below a search root, a pattern may be relative to the root or to the working directory.
        let filter = Filter::new("deep/*.rs").unwrap();
        assert!(filter.accepts(Path::new("/w/src/deep/a.rs"), Path::new("/w/src"), Path::new("/w")));
    }

    #[test]
    fn the_rest_below_a_directory() {
        for (path, dir, want) in [
            ("/w/a", "/w", Some("a")),
            ("/w/a/b", "/w", Some("a/b")),
            ("/wa", "/w", None),
            ("/w", "/w", None),
            ("/a/b", "/", Some("a/b")),
            ("/", "/", None),
            ("/v/a", "/w", None),
        ] {
            assert_eq!(under(Path::new(path), Path::new(dir)), want.map(str::as_bytes), "{path} {dir}");
        }
    }

    #[test]
    fn wrong_patterns_say_where() {
        for (pattern, want) in [
            ("src/{a,b", "Invalid glob pattern `src/{a,b` at character 5: unclosed alternate group"),
            ("é[a", "Invalid glob pattern `é[a` at character 2: unclosed character class"),
            ("a}b", "Invalid glob pattern `a}b` at character 2: unopened alternate group"),
            ("[z-a]", "Invalid glob pattern `[z-a]` at character 2: invalid range"),
        ] {
            let error = Filter::new(pattern).unwrap_err();
            assert!(error.starts_with(want), "{error}");
        }
        assert!(Filter::new(&"{a,b}".repeat(300)).is_err());
        assert!(Filter::new(&"{a,b}".repeat(150)).is_ok());
    }

    #[test]
    fn patterns_say_how_deep_they_reach() {
        for (pattern, want) in [
            ("*.rs", None),
            ("src/*.rs", Some(2)),
            ("/etc/passwd", Some(2)),
            ("/a", Some(1)),
            ("src/**/*.rs", None),
            ("a/b/c, d/e", Some(3)),
            ("a/b, *.rs", None),
            ("{a,b/c}/d", None),
            ("src/", None),
            ("!a/b", None),
            ("a/b, !c/d/e/f", Some(2)),
        ] {
            let filter = Filter::new(pattern).unwrap();
            assert_eq!(filter.depth(Path::new("/w/s"), Path::new("/w")), want, "{pattern}");
            assert_eq!(filter.depth(Path::new("/w"), Path::new("/w/s")), None);
        }
    }

    #[test]
    fn patterns_elsewhere_name_their_directory() {
        for (pattern, want) in [
            ("src/*.rs", None),
            ("/a/b/*.rs", Some(("/a/b", "/*.rs"))),
            ("/a/**/x", Some(("/a", "**/x"))),
            ("/*", Some(("/", "/*"))),
            ("../x/y.rs", Some(("../x", "/y.rs"))),
        ] {
            assert_eq!(base(pattern), want.map(|(d, r)| (PathBuf::from(d), r.to_owned())), "{pattern}");
        }
    }
}
