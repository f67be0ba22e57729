//! Short forms of paths in texts: relative to the workspace, or to `~`.
//!
//! Knows the two folders and changes texts only. Reads no file and no environment.

use std::path::Path;

/// The folders whose paths are shortened. An empty folder is unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShortPaths {
    workspace: String,
    home: String,
}

impl ShortPaths {
    /// Creates the short forms for a workspace, and a home folder if it is known.
    pub(crate) fn new(workspace: &Path, home: Option<&Path>) -> Self {
        Self { workspace: known(workspace), home: home.map(known).unwrap_or_default() }
    }

    pub(crate) fn set_workspace(&mut self, workspace: &Path) {
        self.workspace = known(workspace);
    }

    /// Shortens all paths in `text` that begin with one of the folders.
    pub(crate) fn shorten(&self, text: &str) -> String {
        replaced(&self.in_workspace(text), &self.home, "~/")
    }

    /// Shortens the path of a permission rule. A path from the root begins with `//` in a rule and with `/` here.
    pub(crate) fn rule(&self, rule: &str) -> String {
        self.shorten(&rule.replacen("(//", "(/", 1))
    }

    /// Shortens only the paths in the workspace. Other paths of a call are shown whole, so that it is clear what they are.
    pub(crate) fn in_workspace(&self, text: &str) -> String {
        replaced(text, &self.workspace, "")
    }
}

fn known(folder: &Path) -> String {
    let folder = folder.to_string_lossy();
    // Below `/`, a path would lose only its first character, and would look relative.
    if folder == "/" { String::new() } else { folder.trim_end_matches('/').to_owned() }
}

/// Replaces `folder` and its slash by `short`, where a path begins with the folder.
fn replaced(text: &str, folder: &str, short: &str) -> String {
    if folder.is_empty() {
        return text.to_owned();
    }
    let folder = format!("{folder}/");
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(&folder) {
        let (before, after) = (&rest[..at], &rest[at + folder.len()..]);
        out.push_str(before);
        // In `/other/home/u/project/x` the folder is not the beginning of a path, and a folder alone has no shorter name.
        let begins = before.chars().next_back().is_none_or(|c| c.is_whitespace() || "`'\"(=:".contains(c));
        let names = after.chars().next().is_some_and(|c| !c.is_whitespace() && !"`'\")".contains(c));
        out.push_str(if begins && names { short } else { &folder });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_the_folders_are_shortened_and_others_stay() {
        let paths = ShortPaths::new(Path::new("/home/ana/span"), Some(Path::new("/home/ana")));
        for (text, short) in [
            ("/home/ana/span/src/a.py", "src/a.py"),
            ("read /home/ana/span/a and /home/ana/b.toml: no", "read a and ~/b.toml: no"),
            ("Edit(/home/ana/span/src/**)", "Edit(src/**)"),
            ("/mnt/home/ana/span/a", "/mnt/home/ana/span/a"),
            ("/home/ana/spanner/a", "~/spanner/a"),
            ("the folder `/home/ana/span/`", "the folder `/home/ana/span/`"),
            ("nothing here", "nothing here"),
        ] {
            let shown = paths.shorten(text);
            // The workspace is below the home folder, so its own path is shortened to `~/span/`.
            assert_eq!(shown, short.replace("`/home/ana/span/`", "`~/span/`"), "{text}");
        }
        for (rule, short) in [
            ("Edit(//home/ana/span/src/**)", "Edit(src/**)"),
            ("Edit(//home/ana/span/**)", "Edit(**)"),
            ("Edit(//home/ana/span)", "Edit(~/span)"),
            ("Read(//home/ana/notes/a b.md)", "Read(~/notes/a b.md)"),
            ("Read(//etc/**)", "Read(/etc/**)"),
            ("Read(src/**)", "Read(src/**)"),
            ("Bash(cat //x)", "Bash(cat //x)"),
            ("WebFetch(domain:docs.rs)", "WebFetch(domain:docs.rs)"),
        ] {
            assert_eq!(paths.rule(rule), short);
        }
        let unknown = ShortPaths::new(Path::new("/"), None);
        assert_eq!(unknown.shorten("/etc/hosts"), "/etc/hosts");
        assert_eq!(ShortPaths::default().shorten("/etc/hosts"), "/etc/hosts");
    }
}
