//! The files that deny rules name, for a sandbox: it enforces these rules where the words of a command do not tell which files it opens.
//!
//! Nothing is looked up on disk. Paths are compared with their links resolved, as everywhere in the guard.

use crate::Rule;
use crate::rule::{PathMatcher, PatternStart};
use std::path::{Path, PathBuf};

/// The files that may not be read, and those that may not be changed.
#[derive(Clone, Debug, Default)]
pub struct DeniedFiles {
    rules: Vec<Denied>,
}

#[derive(Clone, Debug)]
struct Denied {
    /// The rule as it was written.
    text: String,
    matcher: PathMatcher,
    read: bool,
    write: bool,
}

impl DeniedFiles {
    /// Takes the rules with paths from a list of deny rules. Relative patterns start at `cwd`.
    pub fn new(deny: &[Rule], cwd: &Path, home: &Path) -> Self {
        let denied = |rule: &Rule| Denied {
            text: rule.to_string(),
            matcher: PathMatcher::new(rule, cwd, home, true),
            read: rule.covers_tool("read"),
            write: rule.covers_tool("edit"),
        };
        Self { rules: deny.iter().filter(|rule| rule.is_path_rule()).map(denied).collect() }
    }

    /// True if a rule denies reading this path.
    pub fn read(&self, path: &Path) -> bool {
        self.rules.iter().any(|rule| rule.read && rule.matcher.matches(path))
    }

    /// True if a rule denies changing this path.
    pub fn write(&self, path: &Path) -> bool {
        self.rules.iter().any(|rule| rule.write && rule.matcher.matches(path))
    }

    /// The paths that rules name without a pattern, or with everything below them, whether they exist or not.
    pub fn named(&self) -> impl Iterator<Item = &Path> {
        self.rules.iter().flat_map(|rule| rule.matcher.named()).map(PathBuf::as_path)
    }

    /// The folders below which a rule can deny files that it names by a pattern, each with the rule.
    pub fn starts(&self) -> impl Iterator<Item = (&PatternStart, &str)> {
        self.rules
            .iter()
            .flat_map(|rule| rule.matcher.starts().iter().map(|start| (start, rule.text.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;

    #[test]
    fn rules_with_paths_say_what_is_denied() {
        let none: &[&str] = &[];
        let deny =
            ["Read(./private/**)", "Edit(dist/**)", "Edit(*.lock)", "Read(~/notes)", "Bash(rm *)", "Read"];
        let rules = Rules::parse(none, none, &deny).unwrap();
        let denied = DeniedFiles::new(&rules.deny, Path::new("/p"), Path::new("/home/u"));
        for (path, read, write) in [
            ("/p/private", true, false),
            ("/p/private/a/b", true, false),
            ("/p/dist/x", false, true),
            ("/p/sub/Cargo.lock", false, true),
            ("/home/u/notes/a", true, false),
            ("/p/src/main.rs", false, false),
        ] {
            let path = Path::new(path);
            assert_eq!((denied.read(path), denied.write(path)), (read, write), "{path:?}");
        }
        let named: Vec<&Path> = denied.named().collect();
        assert_eq!(named, [Path::new("/p/private"), Path::new("/p/dist"), Path::new("/home/u/notes")]);
        let start = |folder: &str, levels| PatternStart { folder: PathBuf::from(folder), levels };
        let starts: Vec<(PatternStart, &str)> =
            denied.starts().map(|(at, rule)| (at.clone(), rule)).collect();
        assert_eq!(starts, [(start("/", None), "Edit(*.lock)")]);
        let deny =
            ["Edit(dist/*.js)", "Read(./a/b/**/c)", "Read(~/x-?)", "Edit(/gen/*.rs)", "Read(~/*/{a,b/c})"];
        let rules = Rules::parse(none, none, &deny).unwrap();
        let denied = DeniedFiles::new(&rules.deny, Path::new("/p"), Path::new("/home/u"));
        let starts: Vec<PatternStart> = denied.starts().map(|(start, _)| start.clone()).collect();
        let (one, any) = (Some(1), None);
        let wanted = [
            ("/p/dist", one),
            ("/p/a/b", any),
            ("/home/u", one),
            ("/gen", one),
            ("/p/gen", one),
            ("/home/u", any),
        ];
        assert_eq!(starts, wanted.map(|(folder, levels)| start(folder, levels)));
    }
}
