//! What makes a command run or destroy something that its name does not tell: an option that names a program, a subcommand
//! that runs one. A rule with a wildcard does not stretch over it; a rule that writes it out does.
//!
//! Options are matched as programs match them: long names may be cut short, letters stand together, and a word that is not
//! known before it runs may become any of them.

use super::unwrap::base_name;
use super::word::Word;

/// Options that escape, of one program or of some of its subcommands.
struct Options {
    /// Names of subcommands.
    of: &'static str,
    long: &'static str,
    /// Letters.
    short: &'static str,
    /// Letters that take the rest of their word as a value.
    valued: &'static str,
}

const fn of(of: &'static str, long: &'static str, short: &'static str, valued: &'static str) -> Options {
    Options { of, long, short, valued }
}

const GIT: &[Options] = &[
    of("rebase", "exec", "x", "sXCS"),
    of("grep", "open-files-in-pager", "O", "efABCm"),
    of("clone", "upload-pack config template", "uc", "obj"),
    of("fetch pull ls-remote fetch-pack", "upload-pack exec", "", ""),
    of("push send-pack", "receive-pack exec", "", ""),
    of("archive", "exec remote output", "o", ""),
    of("init", "template", "", ""),
    of("apply", "unsafe-paths", "", ""),
    of("checkout-index", "prefix", "", ""),
    of(
        "diff log show format-patch shortlog range-diff diff-tree diff-index diff-files stash whatchanged reflog rev-list",
        "ext-diff output textconv no-index show-signature",
        "",
        "",
    ),
    of("cat-file", "textconv filters", "", ""),
];

/// Subcommands that run other programs, give away credentials, or serve others.
const GIT_ALWAYS: &[&str] = &[
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
];

const TAR: Options = of(
    "",
    "checkpoint-action to-command use-compress-program rsh-command rmt-command info-script new-volume-script",
    "IF",
    "fCbTXKNLVHg",
);
const RSYNC: Options = of("", "rsh rsync-path", "e", "fBTM");
const SORT: Options = of("", "compress-program output", "o", "kStT");
const MAN: Options = of("", "pager html", "PH", "CRLmMSseEr");
const ZIP: Options = of("", "unzip-command", "", "");

/// The word that makes `words` (a command with its name) escape.
pub(crate) fn escape(words: &[Word]) -> Option<String> {
    let (name, rest) = words.split_first()?;
    let has = |test: &dyn Fn(&str) -> bool| rest.iter().find(|w| test(&w.text)).map(|w| w.text.clone());
    match base_name(&name.text) {
        "git" => git(rest),
        "find" => has(&|t| {
            matches!(
                t,
                "-exec"
                    | "-execdir"
                    | "-ok"
                    | "-okdir"
                    | "-delete"
                    | "-fprint"
                    | "-fprint0"
                    | "-fprintf"
                    | "-fls"
            )
        }),
        "fd" | "fdfind" => has(&|t| matches!(t, "-x" | "-X") || t.starts_with("--exec")),
        "rg" => has(&|t| t.starts_with("--pre") && t != "--pretty" || t.starts_with("--hostname-bin")),
        "sort" => SORT.hit(rest),
        // Its first word is letters without a dash, as often as not.
        "tar" | "bsdtar" => TAR.hit(rest).or_else(|| {
            let first = rest.first().filter(|w| !w.text.starts_with('-'))?;
            first.text.contains(['I', 'F']).then(|| first.text.clone())
        }),
        "rsync" => RSYNC.hit(rest),
        "man" => MAN.hit(rest),
        "less" | "more" | "view" | "vi" | "vim" => has(&|t| t.starts_with('+')),
        "zip" => ZIP.hit(rest).or_else(|| has(&|t| t.starts_with("-TT"))),
        "tree" => has(&|t| t.starts_with("-o") || t.starts_with("--output") || t == "-R"),
        _ => None,
    }
}

impl Options {
    fn hit(&self, words: &[Word]) -> Option<String> {
        let options = words.iter().take_while(|w| w.text != "--" || !w.is_literal());
        let hit = |word: &&Word| self.may_be(word);
        options
            .into_iter()
            .find(hit)
            .map(|word| if word.is_literal() { &word.text } else { &word.raw })
            .cloned()
    }

    fn may_be(&self, word: &Word) -> bool {
        let text = word.text.as_str();
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            return if plain { self.is_long(name) } else { !word.is_literal() };
        }
        if let Some(letters) = text.strip_prefix('-') {
            for letter in letters.chars() {
                if self.short.contains(letter) || (!word.is_literal() && !letter.is_ascii_alphanumeric()) {
                    return true;
                }
                if self.valued.contains(letter) {
                    break;
                }
            }
            return false;
        }
        !word.is_literal() && text.starts_with(['$', '`', '{', '*', '?', '[', '"', '<'])
    }

    /// Whether `name` is one of the options, or cut short from one.
    fn is_long(&self, name: &str) -> bool {
        // An option of its own.
        name != "text" && !name.is_empty() && self.long.split(' ').any(|long| long.starts_with(name))
    }
}

/// Words before the subcommand, and the subcommand with what follows.
fn split(words: &[Word]) -> (&[Word], &[Word]) {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match word.text.as_str() {
            "-C" | "--namespace" => at += 2,
            text if text.starts_with('-') => at += 1,
            _ => break,
        }
    }
    words.split_at(at.min(words.len()))
}

/// The folders that `git -C` goes through before it runs, each from the one before.
pub(crate) fn git_folders(words: &[Word]) -> impl Iterator<Item = &Word> {
    let is_git = words.first().is_some_and(|w| base_name(&w.text) == "git");
    let before = if is_git { split(&words[1..]).0 } else { &[] };
    before.windows(2).filter(|pair| pair[0].text == "-C").map(|pair| &pair[1])
}

fn git(words: &[Word]) -> Option<String> {
    const GLOBAL: &[&str] = &["--config-env", "--exec-path", "--git-dir", "--work-tree", "--paginate"];
    let (before, rest) = split(words);
    let mut folder = false;
    for word in before {
        let text = word.text.as_str();
        let global = text == "-p"
            || (text.starts_with("-c") && !text.starts_with("--"))
            || GLOBAL
                .iter()
                .any(|o| text.strip_prefix(o).is_some_and(|r| r.is_empty() || r.starts_with('=')));
        if !folder && (global || !word.is_literal()) {
            return Some(if word.is_literal() { text.to_owned() } else { word.raw.clone() });
        }
        folder = matches!(text, "-C" | "--namespace") && !folder;
    }
    let (sub, rest) = rest.split_first()?;
    if !sub.is_literal() {
        return Some(sub.raw.clone());
    }
    let name = sub.text.as_str();
    let text = |word: &Word| word.text.clone();
    let has = |wanted: &str| rest.iter().find(|w| w.text == wanted).map(text);
    let found = match name {
        // Sets what git runs or where it fetches from, for good.
        "config" => {
            let reads = ["--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l"];
            let reads = rest.iter().any(|w| reads.contains(&w.text.as_str()))
                || rest.first().is_some_and(|w| matches!(w.text.as_str(), "get" | "list"));
            (!reads).then(|| "config".to_owned())
        }
        "bisect" => has("run"),
        "submodule" => has("foreach"),
        _ if GIT_ALWAYS.contains(&name)
            || name.starts_with("credential-")
            || name.starts_with("remote-")
            || name.ends_with("--helper") =>
        {
            Some(name.to_owned())
        }
        _ => GIT.iter().find(|o| o.of.split(' ').any(|n| n == name)).and_then(|o| o.hit(rest)),
    };
    // A remote whose address is a command line.
    found.or_else(|| rest.iter().find(|w| w.text.contains("ext::") || w.text.contains("fd::")).map(text))
}
