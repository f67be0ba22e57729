//! Finds words with which git runs or destroys something else, and the words by which it makes files and folders.
//!
//! Options of git itself are read as `handle_options` of git reads them: never abbreviated, some with a value in the next word.
//! A subcommand that git does not bring is an alias or a program of that name, so a wildcard does not match it. Tried with
//! git 2.47.3.

use super::{Options, listed_options};
use becket_shell_syntax::{Word, base_name};

/// Options of git before the subcommand with a value, in the next word or after `=`.
const VALUED: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--config-env",
    "--attr-source",
    "--shallow-file",
    "--super-prefix",
];

/// Options of git before the subcommand that neither run nor reach anything. Any other is asked about.
const HARMLESS: &[&str] = &[
    "-C",
    "--namespace",
    "-P",
    "--no-pager",
    "--no-optional-locks",
    "--no-replace-objects",
    "--no-lazy-fetch",
    "--no-advice",
    "--literal-pathspecs",
    "--no-literal-pathspecs",
    "--glob-pathspecs",
    "--noglob-pathspecs",
    "--icase-pathspecs",
    "--version",
    "-v",
    "-h",
    "--html-path",
    "--man-path",
    "--info-path",
];

/// Subcommands that git brings, or that are well known to be added to it. Subcommands that are always asked about have a list of their own.
const SUBCOMMANDS: &str = "\
    add am annotate apply archive backfill bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap \
    check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config \
    count-objects describe diagnose diff diff-files diff-index diff-pairs diff-tree fast-export fetch fetch-pack fmt-merge-msg \
    for-each-ref format-patch fsck fsck-objects gc get-tar-commit-id grep hash-object index-pack init init-db interpret-trailers \
    last-modified log ls-files ls-remote ls-tree mailinfo mailsplit merge merge-base merge-file merge-octopus merge-ours \
    merge-recursive merge-recursive-ours merge-recursive-theirs merge-resolve merge-subtree merge-tree mktag mktree \
    multi-pack-index mv name-rev notes pack-redundant pack-refs patch-id pickaxe prune prune-packed pull push range-diff \
    read-tree rebase reflog refs remote repack replace replay repo rerere reset restore rev-list rev-parse revert rm send-pack \
    shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule switch symbolic-ref \
    tag unpack-file unpack-objects update-index update-ref update-server-info var verify-commit verify-pack verify-tag version \
    whatchanged worktree write-tree lfs subtree annex";

/// Merge strategies that are part of git. For any other name, git starts a program `git-merge-NAME`.
const STRATEGIES: &[&str] = &["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// Subcommands of git that make a folder or write a file that their operands name.
const MAKES: &[&str] = &[
    "bundle",
    "worktree",
    "init",
    "init-db",
    "clone",
    "mailinfo",
    "mailsplit",
    "bugreport",
    "diagnose",
    "merge-file",
    "submodule",
    "fast-export",
    "commit-graph",
    "multi-pack-index",
    "repack",
    "index-pack",
    "unpack-objects",
];

const GIT: &[Options] = &[
    listed_options("rebase", "exec", "x", "sXCS"),
    listed_options("merge cherry-pick revert", "output", "", "msXFSCu"),
    listed_options("grep", "open-files-in-pager", "O", "efABCm"),
    listed_options("clone", "upload-pack config template", "uc", "obj"),
    listed_options("fetch pull ls-remote fetch-pack", "upload-pack exec", "", ""),
    listed_options("push send-pack", "receive-pack exec", "", ""),
    listed_options("archive", "exec remote output", "o", ""),
    listed_options("init init-db", "template", "", ""),
    listed_options("apply", "unsafe-paths build-fake-ancestor", "", ""),
    listed_options("fast-export", "export-marks import-marks import-marks-if-exists output", "", ""),
    listed_options("read-tree", "index-output", "", ""),
    listed_options("index-pack", "", "o", ""),
    listed_options("repack gc", "filter-to expire-to", "", ""),
    listed_options("checkout-index", "prefix", "", ""),
    listed_options("format-patch", "output-directory output ext-diff textconv no-index", "o", "vSGlO"),
    listed_options("interpret-trailers", "in-place", "", ""),
    listed_options(
        "diff log show shortlog range-diff diff-tree diff-index diff-files stash whatchanged reflog rev-list",
        "ext-diff output textconv no-index show-signature",
        "",
        "",
    ),
    listed_options("cat-file", "textconv filters", "", ""),
    listed_options("blame annotate pickaxe", "contents ignore-revs-file output", "", "LSM"),
];

/// Subcommands that run other programs, give away credentials, or serve others. They are always asked about.
const ALWAYS: &[&str] = &[
    "difftool",
    "mergetool",
    "filter-branch",
    "daemon",
    "instaweb",
    "web--browse",
    "send-email",
    "imap-send",
    "shell",
    "credential",
    "fast-import",
    "upload-pack",
    "upload-archive",
    "receive-pack",
    "hook",
    "help",
    "maintenance",
    "gui",
    "citool",
    "svn",
    "p4",
    "cvsserver",
    "http-backend",
    "merge-index",
    "for-each-repo",
    "pack-objects",
    "merge-one-file",
    "http-fetch",
    "http-push",
    "archimport",
    "cvsimport",
    "cvsexportcommit",
    "quiltimport",
    "request-pull",
    "fsmonitor--daemon",
    "credential-cache--daemon",
    "checkout--worker",
    "upload-archive--writer",
];

/// The words that may name a file or folder that git makes. The address of a repository counts as no place.
pub(super) fn places(words: &[Word]) -> Vec<&Word> {
    let is_git = words.first().is_some_and(|word| base_name(&word.text) == "git");
    let (Some((sub, rest)), true) = (words.get(1..).and_then(|rest| split(rest).1.split_first()), is_git)
    else {
        return Vec::new();
    };
    if !MAKES.contains(&sub.text.as_str()) {
        return Vec::new();
    }
    // Git takes `host:path` for an address unless a slash comes before the colon. Only one operand is an address.
    let is_address = |word: &Word| {
        let host = word.text.split_once(':').map(|(host, _)| host);
        host.is_some_and(|host| !host.is_empty() && !host.starts_with('-') && !host.contains('/'))
    };
    let fetches = matches!(sub.text.as_str(), "clone" | "submodule");
    let address = rest.iter().position(is_address).filter(|_| fetches);
    rest.iter().enumerate().filter(|(at, _)| Some(*at) != address).map(|(_, word)| word).collect()
}

/// Splits the words into those before the subcommand, and the subcommand with its arguments.
pub(crate) fn split(words: &[Word]) -> (&[Word], &[Word]) {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        at += if VALUED.contains(&word.text.as_str()) { 2 } else { 1 };
    }
    words.split_at(at.min(words.len()))
}

/// The folders of `git -C`, in order. Each is relative to the previous one.
pub(crate) fn folders(words: &[Word]) -> impl Iterator<Item = &Word> {
    let is_git = words.first().is_some_and(|w| base_name(&w.text) == "git");
    let before = if is_git { split(&words[1..]).0 } else { &[] };
    before.windows(2).filter(|pair| pair[0].text == "-C").map(|pair| &pair[1])
}

/// The word by which git runs or destroys something else; `words` without the program's name.
pub(super) fn escape(words: &[Word]) -> Option<String> {
    let (before, rest) = split(words);
    let mut is_value = false;
    for word in before {
        let text = word.text.as_str();
        let name = text.split('=').next().unwrap_or_default();
        if !is_value && (!word.is_literal() || !HARMLESS.contains(&name)) {
            return Some(super::word_text(word));
        }
        is_value = !is_value && VALUED.contains(&text);
    }
    let (sub, rest) = rest.split_first()?;
    if !sub.is_literal() {
        return Some(sub.raw.clone());
    }
    let name = sub.text.as_str();
    let text = |word: &Word| word.text.clone();
    let has = |wanted: &[&str]| rest.iter().find(|w| wanted.contains(&w.text.as_str())).map(text);
    let found = match name {
        // `git config` permanently sets programs that git runs, or addresses that it fetches from.
        "config" => (!config_reads(rest)).then(|| "config".to_owned()),
        "bisect" => has(&["run", "view", "visualize"]),
        "submodule" => has(&["foreach"]),
        _ if is_always(name) || !SUBCOMMANDS.split(' ').any(|known| known == name) => Some(name.to_owned()),
        _ => {
            let mut rows = GIT.iter().filter(|o| o.of.split(' ').any(|n| n == name));
            rows.find_map(|o| o.hit(rest))
        }
    };
    found.or_else(|| strategy(name, rest)).or_else(|| rest.iter().find(|w| writes_or_runs(&w.text)).map(text))
}

fn is_always(name: &str) -> bool {
    ALWAYS.contains(&name)
        || name.starts_with("credential-")
        || name.starts_with("remote-")
        || name.ends_with("--helper")
}

/// True if the word is the address of a remote that is a command line, or lets a subcommand that lists commits write a file.
fn writes_or_runs(text: &str) -> bool {
    text.contains("ext::")
        || text.contains("fd::")
        || text.starts_with("--ou") && !text.starts_with("--output-indicator")
}

/// The word that names a strategy of merging which git does not bring, and so starts a program.
fn strategy(sub: &str, words: &[Word]) -> Option<String> {
    if !matches!(sub, "merge" | "pull" | "rebase" | "cherry-pick" | "revert" | "subtree") {
        return None;
    }
    // For the other subcommands, `-s` means to sign off.
    let has_letter = matches!(sub, "merge" | "pull" | "rebase");
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        let value = if let Some(long) = text.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if name.len() < 3 || !"strategy".starts_with(name) {
                continue;
            }
            value
        } else {
            let letters = text.strip_prefix('-').filter(|_| has_letter).unwrap_or_default();
            let Some(at) = letters.find(['s', 'm', 'F', 'X', 'C', 'S', 'x']) else { continue };
            if !letters[at..].starts_with('s') {
                continue;
            }
            Some(&letters[at + 1..]).filter(|value| !value.is_empty())
        };
        let known = |value: &str| STRATEGIES.contains(&value);
        let fine = match value {
            Some(value) => word.is_literal() && known(value),
            None => rest.next().is_some_and(|next| next.is_literal() && known(&next.text)),
        };
        if !fine {
            return Some(super::word_text(word));
        }
    }
    None
}

/// True if `git config` only prints: the action comes first, and no word after it could be a value to set.
fn config_reads(words: &[Word]) -> bool {
    if !words.iter().all(Word::is_literal) {
        return false;
    }
    let quiet = |text: &str| {
        matches!(
            text,
            "--global"
                | "--local"
                | "--system"
                | "--worktree"
                | "--show-origin"
                | "--show-scope"
                | "--name-only"
                | "-z"
                | "--null"
                | "--includes"
                | "--no-includes"
                | "--bool"
                | "--int"
                | "--path"
                | "--all"
                | "--regexp"
        ) || text.starts_with("--type=")
    };
    let rest: Vec<&str> = words.iter().map(|w| w.text.as_str()).filter(|text| !quiet(text)).collect();
    let plain = |words: &[&str]| words.iter().all(|w| !w.starts_with('-'));
    match rest.split_first() {
        Some((&("--list" | "-l" | "list"), after)) => after.is_empty(),
        Some((&("--get" | "--get-all" | "--get-regexp" | "get"), after)) => {
            (1..=2).contains(&after.len()) && plain(after)
        }
        Some((&"--get-urlmatch", after)) => after.len() == 2 && plain(after),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new git may bring subcommands that nobody has looked at. They are asked about until they are on a list.
    #[test]
    fn each_subcommand_of_the_installed_git_has_been_looked_at() {
        let Ok(out) = std::process::Command::new("git").arg("--list-cmds=builtins").output() else { return };
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(text.lines().count() > 100, "{text}");
        let asked = |name: &str| escape(&[Word::literal(name)]).is_some();
        let listed = |name: &str| SUBCOMMANDS.split(' ').any(|known| known == name);
        for name in SUBCOMMANDS.split(' ').filter(|name| *name != "config") {
            assert!(!asked(name), "{name}");
        }
        let unknown: Vec<&str> = text.lines().filter(|name| !listed(name) && !is_always(name)).collect();
        assert!(unknown.len() <= 10, "not looked at: {unknown:?}");
    }
}
