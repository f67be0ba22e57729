//! Which paths a glob pattern means.
//!
//! Owns the reading of patterns: without a slash a pattern is about names at any depth, with one it is about the path below
//! the search root or below the working directory; `!` excludes; several patterns are separated by commas. Patterns only
//! narrow a search: unlike ripgrep's `-g`, none brings ignored files back.
//!
//! Touches no file.

use globset::{GlobBuilder, GlobMatcher};
use std::path::{Path, PathBuf};

/// Longer patterns are refused: nobody means them, and compiled they are large.
const MAX_PATTERN: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Filter {
    wanted: Vec<GlobMatcher>,
    unwanted: Vec<GlobMatcher>,
    /// A pattern names hidden files.
    pub(crate) hidden: bool,
}

impl Filter {
    /// `Err` is a message for the model, with the place of what is wrong.
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
        let mut filter = Self { wanted: Vec::new(), unwanted: Vec::new(), hidden: false };
        for pattern in split(patterns) {
            let (list, pattern) = match pattern.strip_prefix('!') {
                Some(rest) => (&mut filter.unwanted, rest),
                None => (&mut filter.wanted, pattern),
            };
            let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
            filter.hidden |= pattern.split('/').any(|part| part.starts_with('.') && part.len() > 1);
            let anywhere = !pattern.trim_end_matches('/').contains('/');
            let anchored = pattern.strip_prefix('/').unwrap_or(pattern);
            let full = if anywhere { format!("**/{anchored}") } else { anchored.to_owned() };
            let full = if full.ends_with('/') { format!("{full}**") } else { full };
            let glob = GlobBuilder::new(&full)
                .literal_separator(true)
                .build()
                .map_err(|error| explain(pattern, error.kind()))?;
            list.push(glob.compile_matcher());
        }
        Ok(filter)
    }

    /// Whether `path` is meant, by its place below `root` or below `cwd`.
    pub(crate) fn accepts(&self, path: &Path, root: &Path, cwd: &Path) -> bool {
        let below = path.strip_prefix(root).ok().filter(|p| !p.as_os_str().is_empty());
        let here = path.strip_prefix(cwd).ok();
        let name = path.file_name().map(Path::new);
        let any = |globs: &[GlobMatcher]| {
            globs.iter().any(|g| [below, here, name].into_iter().flatten().any(|p| g.is_match(p)))
        };
        (self.wanted.is_empty() || any(&self.wanted)) && !any(&self.unwanted)
    }
}

/// Patterns between commas that are not inside braces or brackets.
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

/// Splits a pattern for paths outside the working directory into the directory it starts in and the rest:
/// `/a/b/*.rs` is `*.rs` below `/a/b`.
pub(crate) fn base(pattern: &str) -> Option<(PathBuf, String)> {
    if !pattern.starts_with('/') && !pattern.starts_with("../") {
        return None;
    }
    let literal = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
    let parts: Vec<&str> = pattern.split('/').collect();
    let count = parts.iter().take_while(|p| literal(p)).count().min(parts.len() - 1);
    let dir = parts[..count].join("/");
    let rest = parts[count..].join("/");
    // A single name is meant in that directory alone, not at any depth.
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

/// Byte position of the first `open` that no `close` answers.
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
        // Below a search root, both readings count.
        let filter = Filter::new("deep/*.rs").unwrap();
        assert!(filter.accepts(Path::new("/w/src/deep/a.rs"), Path::new("/w/src"), Path::new("/w")));
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
