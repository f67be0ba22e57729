//! Lets git run without a question: sets the environment that keeps git from obeying the repository, and recognizes
//! repositories for which that is not enough.
//!
//! Threat: git runs programs that a repository's configuration names. Settings with a fixed name (`core.fsmonitor`, hooks, pagers,
//! signature programs, transports) are overridden through the environment, which takes precedence over every file. Drivers for
//! diffs and filters have names chosen by the repository, so they cannot be overridden. Git in a repository whose own configuration
//! is not plain is therefore asked about. The user's global configuration is trusted.
//!
//! Looks at files only through [`Files`].

use std::io;
use std::path::{Path, PathBuf};

/// The files that verdicts depend on. [`crate::Guard`] opens nothing itself.
pub trait Files: Send + Sync {
    /// The names in a folder, and which of them are folders or links to folders.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be read, or if a name in it is not UTF-8.
    fn entries(&self, dir: &Path) -> io::Result<Vec<(String, bool)>>;
    /// The whole text of a small file.
    ///
    /// # Errors
    ///
    /// Fails with `NotFound` if there is no such file, and with another kind if it cannot be read, is not UTF-8, or is too
    /// large.
    fn text(&self, path: &Path) -> io::Result<String>;
    /// The number of names (hard links) that a regular file has; 1 for everything else.
    fn names_of_file(&self, _path: &Path) -> u64 {
        1
    }
}

/// The environment for git commands that run unasked because they only read.
pub(crate) const PINNED: &[(&str, &str)] = &[
    ("GIT_CONFIG_COUNT", "16"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_1", "false"),
    ("GIT_CONFIG_KEY_2", "core.hooksPath"),
    ("GIT_CONFIG_VALUE_2", "/dev/null"),
    ("GIT_CONFIG_KEY_3", "core.pager"),
    ("GIT_CONFIG_VALUE_3", "cat"),
    ("GIT_CONFIG_KEY_4", "diff.ignoreSubmodules"),
    ("GIT_CONFIG_VALUE_4", "dirty"),
    ("GIT_CONFIG_KEY_5", "status.submoduleSummary"),
    ("GIT_CONFIG_VALUE_5", "false"),
    // Diffs would write the index.
    ("GIT_CONFIG_KEY_6", "diff.autoRefreshIndex"),
    ("GIT_CONFIG_VALUE_6", "false"),
    ("GIT_CONFIG_KEY_7", "log.showSignature"),
    ("GIT_CONFIG_VALUE_7", "false"),
    ("GIT_CONFIG_KEY_8", "gpg.program"),
    ("GIT_CONFIG_VALUE_8", "false"),
    ("GIT_CONFIG_KEY_9", "gpg.openpgp.program"),
    ("GIT_CONFIG_VALUE_9", "false"),
    ("GIT_CONFIG_KEY_10", "gpg.x509.program"),
    ("GIT_CONFIG_VALUE_10", "false"),
    ("GIT_CONFIG_KEY_11", "gpg.ssh.program"),
    ("GIT_CONFIG_VALUE_11", "false"),
    ("GIT_CONFIG_KEY_12", "protocol.allow"),
    ("GIT_CONFIG_VALUE_12", "never"),
    ("GIT_CONFIG_KEY_13", "submodule.recurse"),
    ("GIT_CONFIG_VALUE_13", "false"),
    ("GIT_CONFIG_KEY_14", "core.untrackedCache"),
    ("GIT_CONFIG_VALUE_14", "keep"),
    // A diff of a submodule would be made by a second git that runs inside the submodule.
    ("GIT_CONFIG_KEY_15", "diff.submodule"),
    ("GIT_CONFIG_VALUE_15", "short"),
    // Git before 2.31 does not know the variables above.
    ("GIT_CONFIG_PARAMETERS", OLDER),
    // Missing objects of a partial clone are not fetched: a fetch could start a program.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
];

/// The same settings as versions of git before 2.31 read them.
const OLDER: &str = "'safe.bareRepository=explicit' 'core.fsmonitor=false' 'core.hooksPath=/dev/null' 'core.pager=cat' \
    'diff.ignoreSubmodules=dirty' 'status.submoduleSummary=false' 'diff.autoRefreshIndex=false' 'log.showSignature=false' \
    'gpg.program=false' 'gpg.openpgp.program=false' 'gpg.x509.program=false' 'gpg.ssh.program=false' \
    'protocol.allow=never' 'submodule.recurse=false' 'core.untrackedCache=keep' 'diff.submodule=short'";

/// Sections of a repository's configuration in which nothing names a program that a reading command would run, or that
/// [`PINNED`] overrules.
const PLAIN: &[&str] = &[
    "core",
    "remote",
    "branch",
    "user",
    "author",
    "committer",
    "extensions",
    "submodule",
    "pull",
    "push",
    "init",
    "fetch",
    "gc",
    "rerere",
    "color",
    "advice",
    "merge",
    "commit",
    "tag",
    "rebase",
    "status",
    "index",
    "feature",
    "maintenance",
    "stash",
    "receive",
    "transfer",
    "pack",
    "http",
    "https",
    "credential",
    "gui",
    "lfs",
    "am",
    "apply",
    "checkout",
    "clean",
    "clone",
    "i18n",
    "notes",
    "sequence",
    "svn-remote",
    "worktree",
    "gitflow",
    "github",
    "gpg",
    "log",
];

/// The environment for a git that becket itself runs in `dir` to read.
///
/// # Errors
///
/// Returns the reason if such a git would run programs that the repository names, in spite of this environment.
pub fn reading_git(
    files: &dyn Files,
    resolve: &dyn Fn(&Path) -> PathBuf,
    dir: &Path,
) -> Result<&'static [(&'static str, &'static str)], String> {
    match objection(files, resolve, dir) {
        Some(why) => Err(why),
        None => Ok(PINNED),
    }
}

/// The reason why git must not run unasked in `dir`; `None` if it may.
pub(crate) fn objection(files: &dyn Files, resolve: &dyn Fn(&Path) -> PathBuf, dir: &Path) -> Option<String> {
    match repository(files, resolve, dir)? {
        Ok((folder, inner)) => Tree { files, resolve, folder }.objection_to(&inner),
        Err(why) => Some(why),
    }
}

/// The reason why git in `dir` would obey a repository that the user may not have set up: a clone can bring a bare repository whose
/// configuration runs programs. An allow rule for git does not mean such a repository.
pub(crate) fn brought(files: &dyn Files, resolve: &dyn Fn(&Path) -> PathBuf, dir: &Path) -> Option<String> {
    repository(files, resolve, dir)?.err()
}

/// The nearest work tree around `dir` with its git directory. `Err`: why the `.git` found there may lead to another repository.
/// `None` if there is no repository.
fn repository<'a>(
    files: &dyn Files,
    resolve: &dyn Fn(&Path) -> PathBuf,
    dir: &'a Path,
) -> Option<Result<(&'a Path, PathBuf), String>> {
    for folder in dir.ancestors() {
        let dot = folder.join(".git");
        let inner = match files.text(&dot) {
            // A `.git` file, as in a linked worktree or submodule: it names the git directory, which is elsewhere.
            Ok(text) => match text.trim().strip_prefix("gitdir:") {
                Some(place) => {
                    let inner = resolve(&folder.join(place.trim()));
                    let tree = Tree { files, resolve, folder };
                    if !tree.is_named_by(&inner) {
                        let (dot, inner) = (dot.display(), inner.display());
                        return Some(Err(format!(
                            "{dot} leads to {inner}, which is not the git directory of this folder"
                        )));
                    }
                    inner
                }
                None => return Some(Err(format!("{} does not lead to a git directory", dot.display()))),
            },
            Err(e) if e.kind() == io::ErrorKind::IsADirectory => {
                let inner = resolve(&dot);
                if !inner.starts_with(resolve(folder)) {
                    return Some(Err(format!("{} is a link to {}", dot.display(), inner.display())));
                }
                inner
            }
            Err(e) if !is_missing(&e) => return Some(Err(format!("{} cannot be read", dot.display()))),
            Err(_) if looks_bare(files, folder) => {
                if folder.file_name().is_none_or(|name| name != ".git") {
                    return Some(Err(format!("{} looks like a bare repository", folder.display())));
                }
                resolve(folder)
            }
            Err(_) => continue,
        };
        return Some(Ok((folder, inner)));
    }
    None
}

/// Files and folders of a git directory from which git shows texts and names. None may be a link that leads out of the git
/// directory.
const DATA: &[&str] =
    &["HEAD", "index", "packed-refs", "refs", "logs", "logs/HEAD", "objects", "objects/info", "objects/pack"];

/// A work tree: the folder with `.git`.
struct Tree<'a> {
    files: &'a dyn Files,
    resolve: &'a dyn Fn(&Path) -> PathBuf,
    folder: &'a Path,
}

impl Tree<'_> {
    /// True if the git directory `inner` lies in this work tree or names it in return. A repository can bring a `.git` file that
    /// names any directory, so that git would show another repository of the user.
    fn is_named_by(&self, inner: &Path) -> bool {
        let folder = (self.resolve)(self.folder);
        let leads_back = |path: PathBuf| (self.resolve)(&path) == (self.resolve)(&self.folder.join(".git"));
        let worktree =
            || self.files.text(&inner.join("gitdir")).is_ok_and(|text| leads_back(inner.join(text.trim())));
        let submodule = || {
            self.files.text(&inner.join("config")).is_ok_and(|text| {
                text.lines().filter_map(worktree_setting).any(|value| self.is_at(inner, value))
            })
        };
        inner.starts_with(folder) || worktree() || submodule()
    }

    /// True if a value of `core.worktree` in the git directory `inner` names this work tree.
    fn is_at(&self, inner: &Path, value: &str) -> bool {
        (self.resolve)(&inner.join(value)) == (self.resolve)(self.folder)
    }

    /// The reason why git must not run unasked with the git directory `inner`; `None` if it may.
    fn objection_to(&self, inner: &Path) -> Option<String> {
        let common = match self.files.text(&inner.join("commondir")) {
            Ok(text) => {
                let common = (self.resolve)(&inner.join(text.trim()));
                // The Git directory of a linked worktree is always `worktrees/NAME` in the repository's common one.
                if inner.parent().and_then(Path::parent) != Some(common.as_path()) {
                    return Some(format!("{} names another repository", inner.join("commondir").display()));
                }
                common
            }
            Err(e) if is_missing(&e) => inner.to_path_buf(),
            Err(_) => return Some(format!("{} cannot be read", inner.join("commondir").display())),
        };
        if let Some(path) = self.data_elsewhere(inner, &common) {
            return Some(format!("{} is kept outside of the repository", path.display()));
        }
        let is_own = |value: &str| self.is_at(inner, value);
        let is_shared = |value: &str| common == inner && is_own(value);
        let of_all = || config(self.files, &common.join("config"), &is_shared);
        let of_this = || config(self.files, &inner.join("config.worktree"), &is_own);
        if let Some(why) = of_all().or_else(of_this) {
            return Some(why);
        }
        // `ignore` in `.gitmodules` can make `git status` look into a submodule, where git obeys that submodule's configuration.
        match self.files.text(&self.folder.join(".gitmodules")) {
            Ok(text) if text.to_lowercase().contains("ignore") => {
                Some("its submodules change what `git status` looks at".to_owned())
            }
            _ => None,
        }
    }

    /// The first part of the git directory that is a link out of it, or `alternates` if that borrows objects from elsewhere.
    fn data_elsewhere(&self, inner: &Path, common: &Path) -> Option<PathBuf> {
        let stays = |path: &Path| path.starts_with(inner) || path.starts_with(common);
        let dirs = [inner, common].into_iter().take(if inner == common { 1 } else { 2 });
        let mut parts = dirs.flat_map(|dir| DATA.iter().map(move |name| dir.join(name)));
        if let Some(part) = parts.find(|part| !stays(&(self.resolve)(part))) {
            return Some(part);
        }
        let alternates = common.join("objects/info/alternates");
        match self.files.text(&alternates) {
            Ok(text) => {
                let mut places =
                    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
                let leaves = |place: &str| !stays(&(self.resolve)(&common.join("objects").join(place)));
                places.any(leaves).then_some(alternates)
            }
            Err(e) if is_missing(&e) => None,
            Err(_) => Some(alternates),
        }
    }
}

/// The value of a line that sets `worktree`, if it is written plainly: without quotes, escapes or comments.
fn worktree_setting(line: &str) -> Option<&str> {
    let (key, value) = line.trim().split_once('=')?;
    let is_plain = !value.contains(['"', '\\', '#', ';']);
    (is_plain && key.trim().eq_ignore_ascii_case("worktree")).then_some(value.trim())
}

fn looks_bare(files: &dyn Files, folder: &Path) -> bool {
    let there = |name: &str| files.entries(&folder.join(name)).is_ok();
    !files.text(&folder.join("HEAD")).is_err_and(|e| is_missing(&e)) && there("objects") && there("refs")
}

/// True if the path does not exist. False for other errors, such as a missing permission.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The reason why the configuration file at `path` is not plain. `is_own` recognizes the value of `core.worktree` that every
/// submodule has.
fn config(files: &dyn Files, path: &Path, is_own: &dyn Fn(&str) -> bool) -> Option<String> {
    match files.text(path) {
        Ok(text) => odd_setting(&text, is_own).map(|odd| format!("{} sets {odd}", path.display())),
        Err(e) if is_missing(&e) => None,
        Err(_) => Some(format!("{} cannot be read", path.display())),
    }
}

/// Returns the first setting that could make a read-only git command start a program or read other files. `is_own`: true
/// if a value of `core.worktree` is the work tree's own folder.
fn odd_setting(text: &str, is_own: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut section = String::new();
    for line in text.trim_start_matches('\u{feff}').lines().map(str::trim) {
        if line.starts_with('[') {
            match header(line) {
                Some((name, bare)) if PLAIN.contains(&name) || (name == "diff" && bare) => {
                    name.clone_into(&mut section);
                }
                _ => return Some(line.to_owned()),
            }
            continue;
        }
        if line.starts_with(['#', ';']) {
            continue;
        }
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(line.len());
        let key = line[..end].to_ascii_lowercase();
        let odd = match section.as_str() {
            "core" if key == "worktree" => !worktree_setting(line).is_some_and(is_own),
            // These settings name files that git reads, anywhere on the machine.
            "core" => matches!(key.as_str(), "excludesfile" | "attributesfile"),
            "submodule" => key == "ignore",
            "diff" => !matches!(
                key.as_str(),
                "algorithm"
                    | "renames"
                    | "renamelimit"
                    | "colormoved"
                    | "colormovedws"
                    | "noprefix"
                    | "mnemonicprefix"
                    | "context"
                    | "indentheuristic"
                    | "tool"
                    | "guitool"
                    | "submodule"
                    | ""
            ),
            "log" => !matches!(
                key.as_str(),
                "date" | "decorate" | "follow" | "abbrevcommit" | "showsignature" | ""
            ),
            _ => false,
        };
        if odd {
            return Some(format!("{section}.{key}"));
        }
    }
    None
}

/// The name of the section that a line opens, and true if it has no second name in quotes. `None` if the section is not known, or
/// the line contains anything else.
fn header(line: &str) -> Option<(&'static str, bool)> {
    let inner = line.strip_prefix('[')?;
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '-')?;
    let name = inner[..end].to_ascii_lowercase();
    let known = PLAIN.iter().copied().chain(["diff"]).find(|plain| *plain == name)?;
    let rest = inner[end..].trim_start();
    let (rest, bare) = match rest.strip_prefix('"') {
        None => (rest, true),
        Some(quoted) => {
            let mut escaped = false;
            let close = quoted.find(|c| {
                let stop = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                stop
            })?;
            (&quoted[close + 1..], false)
        }
    };
    let after = rest.strip_prefix(']')?.trim_start();
    (after.is_empty() || after.starts_with(['#', ';'])).then_some((known, bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_configurations_are_told_from_others() {
        let own = |value: &str| value == "../../../s";
        for text in [
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = x\n[branch \"a]b\"]\n merge = y\n",
            "; comment\n[core] # here\n\thooksPath = .husky\n\tfsmonitor = true\n",
            "[diff]\n\trenames = true\n[user]\n\tname = A B\n",
            "[core]\n\tbare = false\n\tworktree = ../../../s\n",
            "",
        ] {
            assert_eq!(odd_setting(text, &own), None, "{text}");
        }
        for text in [
            "[diff \"x\"]\n\ttextconv = pwn\n",
            "[DIFF \"x\"]\n\tcommand = pwn\n",
            "[diff.x]\n\tcommand = pwn\n",
            "[diff]\n\texternal = pwn\n",
            "[filter \"x\"]\n\tclean = pwn\n",
            "[core] [filter \"x\"]\n\tclean = pwn\n",
            "[core] worktree = / #]\n",
            "[core]\n\tworktree = /\n",
            "[core]\n\tworktree = ../../../s\n\tworktree = /\n",
            "[core]\n\tworktree = \"../../../s\"/..\n",
            "[core]\n\tworktree = ../../../s # \\\n",
            "[core]\n\tworktree\n",
            "[core]\n\texcludesFile = /etc/shadow\n",
            "[core]\n\tattributesFile = ../x\n",
            "\u{feff}[include]\n\tpath = x\n",
            "[includeIf \"gitdir:/\"]\n\tpath = x\n",
            "\r[alias]\n\tst = !pwn\n",
            "[pretty]\n\tx = %GG\n",
            "[submodule \"x\"]\n\tignore = none\n",
            "[mailmap]\n\tfile = /etc/shadow\n",
            "[remote \"x\" ] [filter \"y\"]\n",
        ] {
            assert!(odd_setting(text, &own).is_some(), "{text}");
        }
        let count = PINNED.iter().filter(|(name, _)| name.starts_with("GIT_CONFIG_KEY_")).count();
        assert_eq!(PINNED[0].1, count.to_string());
        // Both lists must make the same settings.
        let value =
            |name: String| PINNED.iter().find(|(key, _)| *key == name).map(|(_, value)| *value).unwrap();
        let older: Vec<String> = (0..count)
            .map(|at| {
                format!(
                    "'{}={}'",
                    value(format!("GIT_CONFIG_KEY_{at}")),
                    value(format!("GIT_CONFIG_VALUE_{at}"))
                )
            })
            .collect();
        assert_eq!(value("GIT_CONFIG_PARAMETERS".to_owned()), older.join(" "));
    }
}
