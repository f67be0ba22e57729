//! `/diff`: how the working tree differs from the last commit, file by file, and the files that git does not know.
//!
//! Runs git without anything that the repository's configuration names. Changes nothing.

use crate::failure::Failure;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Returns the page as Markdown.
pub(super) fn page(cwd: &Path) -> Result<String, Failure> {
    // The repository may come from anywhere, so no program that its configuration names may run.
    let resolve = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let variables = becket_guard::reading_git(&crate::disk::Disk, &resolve, cwd).map_err(|why| {
        Failure::error(format!("git is not run: it would obey this repository's configuration ({why})"))
            .hint("`!git diff` runs it as your own command")
    })?;
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        // Names with other letters than ASCII are shown as they are, not in octal.
        command.args(["--no-optional-locks", "-c", "core.quotePath=false"]).args(args).current_dir(cwd);
        command.envs(variables.iter().copied());
        let output = command.output().map_err(|e| Failure::error(format!("cannot run git: {e}")))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::error(format!("git {}: {why}", args[0])));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // Before the first commit, only the index can be compared.
    let against = if git(&["rev-parse", "--verify", "-q", "HEAD"]).is_ok() { "HEAD" } else { "--cached" };
    // Prefixes and renames are set here, because the user's configuration may set them in other ways.
    let plain = ["--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--submodule=short"];
    let prefixes = ["--src-prefix=a/", "--dst-prefix=b/"];
    let diff = git(&[&["diff"][..], &plain[..], &prefixes[..], &[against]].concat())?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(diff_text(&files(&diff), &untracked))
}

/// The differences of one file.
#[derive(Debug, Default, PartialEq, Eq)]
struct FileDiff<'a> {
    /// The name as the diff quotes it, without the prefix `a/` or `b/`.
    name: &'a str,
    /// The name before a rename or copy.
    old_name: Option<&'a str>,
    /// Changes that are not in the text: `new file`, `deleted`, `renamed`, `binary file`, …
    notes: Vec<String>,
    /// The hunks, with their headers.
    hunks: &'a str,
}

impl FileDiff<'_> {
    fn count(&self, sign: char) -> usize {
        self.hunks.lines().filter(|line| line.starts_with(sign)).count()
    }

    /// Returns the name and what happened to the file, in one line of Markdown.
    fn heading(&self) -> String {
        let name = match self.old_name {
            Some(old) => format!("{} → {}", code(old), code(self.name)),
            None => code(self.name),
        };
        let mut what = self.notes.clone();
        let counted = in_lines(self.count('+'), self.count('-'));
        what.extend((!counted.is_empty()).then_some(counted));
        format!("**{name}** {}", what.join(" · "))
    }
}

/// Describes numbers of lines as the transcript does. Empty if both are 0.
fn in_lines(added: usize, removed: usize) -> String {
    let lines = |n: usize| if n == 1 { "1 line".to_owned() } else { format!("{n} lines") };
    match (added, removed) {
        (0, 0) => String::new(),
        (0, n) => format!("removed {}", lines(n)),
        (n, 0) => format!("added {}", lines(n)),
        (n, m) => format!("added {}, removed {m}", lines(n)),
    }
}

/// Returns text as inline code of Markdown.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Divides the output of `git diff` into files.
///
/// Lines of a file's text begin with a space, `+`, `-`, `@` or `\`, so a line that begins with `diff --git ` is the first of a
/// file.
fn files(diff: &str) -> Vec<FileDiff<'_>> {
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    for line in diff.split_inclusive('\n') {
        if line.starts_with("diff --git ") {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([diff.len()]);
    starts.iter().zip(ends).map(|(from, to)| file(&diff[*from..to])).collect()
}

fn file(section: &str) -> FileDiff<'_> {
    let head = section.find("\n@@ ").map_or(section.len(), |at| at + 1);
    let (head, hunks) = section.split_at(head);
    let mut file = FileDiff { hunks, ..FileDiff::default() };
    let (mut old_mode, mut similar) = ("", "");
    for line in head.lines() {
        if let Some(both) = line.strip_prefix("diff --git ") {
            file.name = same_name(both).unwrap_or(both);
        } else if let Some(name) =
            line.strip_prefix("rename from ").or_else(|| line.strip_prefix("copy from "))
        {
            file.old_name = Some(name);
        } else if let Some(name) = line.strip_prefix("rename to ") {
            file.name = name;
            file.notes.push("renamed".to_owned());
        } else if let Some(name) = line.strip_prefix("copy to ") {
            file.name = name;
            file.notes.push("copied".to_owned());
        } else if let Some(percent) = line.strip_prefix("similarity index ") {
            similar = percent;
        } else if line.starts_with("new file mode ") {
            file.notes.push("new file".to_owned());
        } else if line.starts_with("deleted file mode ") {
            file.notes.push("deleted".to_owned());
        } else if let Some(mode) = line.strip_prefix("old mode ") {
            old_mode = mode;
        } else if let Some(mode) = line.strip_prefix("new mode ") {
            file.notes.push(format!("mode {old_mode} → {mode}"));
        } else if line.starts_with("Binary files ") {
            file.notes.push("binary file, its content is not shown".to_owned());
        } else if let Some(name) = line.strip_prefix("+++ ").and_then(|name| prefixed(name, 'b')) {
            file.name = name;
        } else if let Some(name) = line.strip_prefix("--- ").and_then(|name| prefixed(name, 'a'))
            && file.old_name.is_none()
        {
            file.name = name;
        }
    }
    if file.old_name.is_some() && similar == "100%" {
        file.notes.push("content unchanged".to_owned());
    }
    if file.notes.is_empty() && hunks.is_empty() {
        // An unmerged file, or one of a kind that this page does not know.
        file.notes.push("differs".to_owned());
    }
    file
}

/// Returns the name in `a/NAME b/NAME`. `None` if the names differ; then other lines of the head have them.
fn same_name(both: &str) -> Option<&str> {
    let (old, new) = both.split_at_checked(both.len() / 2)?;
    let (old, new) = (prefixed(old, 'a')?, prefixed(new.strip_prefix(' ')?, 'b')?);
    (old == new).then_some(old)
}

/// Removes the prefix of a name, and the tab that git appends to a name with spaces. A quoted name keeps its escapes.
fn prefixed(name: &str, prefix: char) -> Option<&str> {
    let name = name.strip_suffix('\t').unwrap_or(name);
    let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
    name.strip_prefix(prefix)?.strip_prefix('/')
}

/// Fences text so that nothing in it closes the fence.
pub(super) fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

fn diff_text(files: &[FileDiff<'_>], untracked: &str) -> String {
    let mut text = String::new();
    if files.len() > 1 {
        let sum = |sign| files.iter().map(|file| file.count(sign)).sum();
        let counted = in_lines(sum('+'), sum('-'));
        let counted = if counted.is_empty() { counted } else { format!(": {counted}") };
        let _ = writeln!(text, "{} files differ from the last commit{counted}", files.len());
    }
    for file in files {
        let _ = write!(text, "\n{}\n", file.heading());
        if !file.hunks.is_empty() {
            let _ = write!(text, "\n{}\n", fenced(file.hunks, "diff"));
        }
    }
    if !untracked.is_empty() {
        let count = untracked.lines().count();
        let noun = if count == 1 { "file that git does not track" } else { "files that git does not track" };
        let _ = write!(text, "\n{count} {noun}:\n\n{}\n", fenced(untracked, "text"));
    }
    if text.is_empty() {
        return "Nothing differs from the last commit.".to_owned();
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(at: &Path, args: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(args)
            .current_dir(at)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Every kind of change has one heading with its name, what happened and its numbers of lines, whatever the user's git is
    /// configured to.
    #[test]
    fn every_file_has_a_heading_that_says_what_happened() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        git(at, &["init", "-q"]);
        let lines = (1..=20).fold(String::new(), |text, n| text + &format!("line {n}\n"));
        for name in
            ["edited.txt", "gone.txt", "moved.txt", "moved and edited.txt", "mode.sh", "-- odd.txt", "é`.txt"]
        {
            std::fs::write(at.join(name), format!("{name}\n{lines}")).unwrap();
        }
        std::fs::write(at.join("data.bin"), [0_u8, 1, 2]).unwrap();
        git(at, &["add", "-A"]);
        git(at, &["commit", "-qm", "first"]);
        for (key, value) in [("diff.noprefix", "true"), ("diff.renames", "false"), ("color.ui", "always")] {
            git(at, &["config", key, value]);
        }
        let edit = |name: &str, new: &str| {
            let text = std::fs::read_to_string(at.join(name)).unwrap();
            std::fs::write(at.join(name), text.replace("line 3\n", new)).unwrap();
        };
        // Lines that look like headers of a diff.
        edit("edited.txt", "--- a/other\n+++ b/other\ndiff --git a/x b/x\n");
        edit("-- odd.txt", "-- removed\n");
        edit("é`.txt", "");
        std::fs::remove_file(at.join("gone.txt")).unwrap();
        std::fs::rename(at.join("moved.txt"), at.join("there.txt")).unwrap();
        std::fs::rename(at.join("moved and edited.txt"), at.join("new place.txt")).unwrap();
        edit("new place.txt", "changed\n");
        std::fs::write(at.join("data.bin"), [0_u8, 9]).unwrap();
        std::fs::write(at.join("added.txt"), "one\n").unwrap();
        std::fs::write(at.join("empty.txt"), "").unwrap();
        git(at, &["update-index", "--chmod=+x", "mode.sh"]);
        std::fs::set_permissions(at.join("mode.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        git(at, &["add", "-A"]);
        std::fs::write(at.join("untracked.txt"), "x\n").unwrap();
        let text = page(at).unwrap();
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("**")).collect();
        assert_eq!(
            headings,
            [
                "**`-- odd.txt`** added 1 line, removed 1",
                "**`added.txt`** new file · added 1 line",
                "**`data.bin`** binary file, its content is not shown",
                "**`edited.txt`** added 3 lines, removed 1",
                "**`empty.txt`** new file",
                "**`gone.txt`** deleted · removed 21 lines",
                "**`mode.sh`** mode 100644 → 100755",
                "**`moved and edited.txt` → `new place.txt`** renamed · added 1 line, removed 1",
                "**`moved.txt` → `there.txt`** renamed · content unchanged",
                "**``é`.txt``** removed 1 line",
            ],
            "{text}"
        );
        assert!(
            text.starts_with("10 files differ from the last commit: added 6 lines, removed 25\n"),
            "{text}"
        );
        assert!(text.ends_with("1 file that git does not track:\n\n```text\nuntracked.txt\n```"), "{text}");
        // Headings replace the headers of the patch.
        assert!(!text.contains("index ") && !text.lines().any(|line| line.starts_with("--- ")), "{text}");
        assert_eq!(text.matches("```diff\n@@ ").count(), 6, "{text}");
    }

    #[test]
    fn a_diff_without_a_known_head_is_not_lost() {
        let [one] = &files("diff --git a/x b/x\nsomething new\n")[..] else { panic!() };
        assert_eq!(one.heading(), "**`x`** differs");
        assert_eq!(diff_text(&[], ""), "Nothing differs from the last commit.");
    }

    #[test]
    fn fences_hold_whatever_they_hold() {
        assert_eq!(fenced("a\n", "text"), "```text\na\n```");
        assert_eq!(fenced("```", "text"), "````text\n```\n````");
    }
}
