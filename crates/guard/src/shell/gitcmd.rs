//! Git subcommands that only read. [`super::escape`] lists the options with which they run other programs.
//! Tried with git 2.47.3.

use super::options::{PathArg, options};
use becket_shell_syntax::{Known, Word};

struct Sub {
    names: &'static str,
    flags: &'static str,
    valued: &'static str,
    /// Sets of long options.
    long: &'static [&'static str],
}

const DIFF: &str = "abbrev abbrev= binary cached cc check color color= color-moved color-moved= color-words \
    compact-summary diff-algorithm= diff-filter= dirstat dst-prefix= exit-code find-copies find-copies-harder \
    find-renames find-renames= full-index function-context histogram ignore-all-space ignore-blank-lines \
    ignore-space-at-eol ignore-space-change ignore-submodules ignore-submodules= inter-hunk-context= merge-base \
    minimal name-only name-status no-color no-ext-diff no-patch no-prefix no-renames no-textconv numstat patch \
    patch-with-stat patience pickaxe-all pickaxe-regex quiet raw relative relative= shortstat src-prefix= staged \
    stat stat= submodule submodule= summary text unified= word-diff word-diff= word-diff-regex=";

const LOG: &str = "abbrev-commit after= all all-match ancestry-path author= author-date-order before= boundary \
    branches cherry cherry-mark cherry-pick children committer= count date= date-order decorate decorate= dense \
    encoding= exclude= extended-regexp first-parent fixed-strings follow format= full-history glob= graph grep= \
    invert-grep left-right log-size max-count= max-parents= merges min-parents= no-abbrev-commit no-decorate \
    no-mailmap no-merges no-notes no-walk notes objects oneline parents perl-regexp pretty pretty= \
    regexp-ignore-case relative-date remotes reverse show-notes show-pulls simplify-by-decoration simplify-merges \
    since= skip= source sparse tags topo-order until= use-mailmap walk-reflogs";

const LIST: &str = "all color= column contains contains= format= ignore-case list merged merged= no-column \
    no-contains= no-merged no-merged= points-at= remotes show-current sort= verbose abbrev=";

const SUBS: &[Sub] = &[
    Sub {
        names: "status",
        flags: "sbuznov",
        valued: "",
        long: &[
            "short branch porcelain porcelain= long verbose untracked-files untracked-files= ignored ignored= column \
                 no-column ahead-behind no-ahead-behind renames no-renames show-stash ignore-submodules=",
        ],
    },
    Sub {
        names: "log whatchanged show rev-list",
        flags: "puswbazMCRWrtcgiEFPqm",
        valued: "nLSGU",
        long: &[DIFF, LOG],
    },
    Sub {
        names: "diff diff-tree diff-index diff-files range-diff",
        flags: "puswbazMCRWrtcq",
        valued: "SGUl",
        long: &[DIFF],
    },
    Sub { names: "shortlog", flags: "snecE", valued: "w", long: &[LOG, "summary numbered email group="] },
    Sub {
        names: "blame annotate",
        flags: "wMCsetlfncbp",
        valued: "L",
        long: &[
            "porcelain line-porcelain show-email show-name show-number date= since= first-parent incremental root abbrev=",
        ],
    },
    Sub {
        names: "rev-parse",
        flags: "q",
        valued: "",
        long: &[
            "abbrev-ref abbrev-ref= absolute-git-dir all branches git-common-dir git-dir is-bare-repository \
                 is-inside-git-dir is-inside-work-tree is-shallow-repository path-format= quiet remotes short short= \
                 show-cdup show-object-format show-prefix show-toplevel symbolic symbolic-full-name tags verify",
        ],
    },
    Sub {
        names: "ls-files",
        flags: "cdmosuiktvz",
        valued: "x",
        long: &[
            "abbrev cached deduplicate deleted directory eol error-unmatch exclude= exclude-standard full-name \
                 ignored killed modified others stage unmerged",
        ],
    },
    Sub {
        names: "ls-tree",
        flags: "drtlz",
        valued: "",
        long: &["abbrev= format= full-name full-tree long name-only name-status object-only"],
    },
    Sub {
        names: "describe",
        flags: "",
        valued: "",
        long: &[
            // `dirty` and `broken` are left out: with them git writes the index, even without optional locks.
            "abbrev= all always candidates= contains exact-match exclude= first-parent long match= tags",
        ],
    },
    Sub { names: "cat-file", flags: "pets", valued: "", long: &[] },
    Sub {
        names: "merge-base",
        flags: "a",
        valued: "",
        long: &["all fork-point independent is-ancestor octopus"],
    },
    Sub { names: "name-rev", flags: "", valued: "", long: &["all always name-only refs= tags"] },
    Sub {
        names: "for-each-ref",
        flags: "",
        valued: "",
        long: &["contains= count= format= merged= no-merged= points-at= sort="],
    },
    Sub {
        names: "show-ref",
        flags: "dqs",
        valued: "",
        long: &["abbrev dereference hash hash= head heads quiet tags verify"],
    },
    Sub {
        names: "show-branch",
        flags: "ar",
        valued: "",
        long: &["all remotes current topo-order sha1-name no-name"],
    },
    Sub { names: "count-objects", flags: "vH", valued: "", long: &["verbose human-readable"] },
    Sub { names: "check-ignore", flags: "vnq", valued: "", long: &["verbose quiet non-matching no-index"] },
    Sub { names: "cherry", flags: "v", valued: "", long: &["abbrev="] },
    Sub {
        names: "grep",
        flags: "acEFGhHiIlLnoPpqvwWz",
        valued: "ABCem",
        long: &["after-context= all-match and before-context= break cached color= column context= count \
                 extended-regexp files-with-matches files-without-match fixed-strings function-context heading \
                 ignore-case invert-match line-number max-depth= name-only not only-matching or perl-regexp quiet \
                 show-function text untracked word-regexp"],
    },
];

/// Characters after the colon of a path that give the path a special meaning in git.
const MAGIC: &[char] = &['(', '/', '!', '^', '*', '?', '['];

/// `--submodule=diff` and `--ignore-submodules=none` run git inside submodules, whose configuration is not looked at.
fn enters_submodules(word: &str) -> bool {
    let value = |name: &str| word.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
    value("--submodule").is_some_and(|kind| !matches!(kind, "log" | "short"))
        || value("--ignore-submodules").is_some_and(|what| !matches!(what, "all" | "dirty"))
}

/// The files that a git command reads. `Err` is the reason why it is not known to only read.
pub(super) fn check(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let mut rest = words;
    let mut paths = Vec::new();
    loop {
        let Some((word, after)) = rest.split_first() else {
            return Err("git without a subcommand".to_owned());
        };
        if !word.is_literal() {
            return Err(format!("{} is not known before it runs", word.raw));
        }
        match word.text.as_str() {
            "--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs" => rest = after,
            "-C" => match after.split_first() {
                Some((dir, after)) if dir.is_literal() => {
                    paths.push(PathArg { text: dir.text.clone(), known: dir.known, content: false });
                    rest = after;
                }
                _ => return Err("its folder is not known".to_owned()),
            },
            text if text.starts_with('-') => {
                return Err(format!("git's option {text} can make it run something else"));
            }
            _ => break,
        }
    }
    let (sub, rest) = (rest[0].text.as_str(), &rest[1..]);
    if let Some(word) = rest.iter().find(|w| w.known > Known::Glob) {
        return Err(format!("{} is not known before it runs", word.raw));
    }
    // A format with %G runs the program that checks signatures.
    if let Some(word) = rest.iter().find(|w| w.text.contains("%G") || w.text.contains("signature")) {
        return Err(format!("{} makes git run the signature program", word.raw));
    }
    // A path such as `:(top)x` or `:/x` counts from the top of the repository, whatever folder git runs in.
    if let Some(word) = rest.iter().find(|w| w.text.starts_with([':']) && w.text[1..].starts_with(MAGIC)) {
        return Err(format!("{} may lead anywhere in the repository", word.raw));
    }
    if let Some(word) = rest.iter().find(|w| enters_submodules(&w.text)) {
        return Err(format!("{} makes git obey the configuration of submodules", word.raw));
    }
    let found = match sub {
        "branch" | "tag" => listing(sub, rest),
        "remote" => match literals(rest)?[..] {
            [] | ["-v" | "--verbose"] => Ok(Vec::new()),
            ["get-url", name] if !name.starts_with('-') => Ok(Vec::new()),
            _ => Err("`git remote` with these arguments changes something or uses the network".to_owned()),
        },
        "stash" | "worktree" | "reflog" => keyword(sub, rest),
        "symbolic-ref" => match literals(rest)?[..] {
            [name] | ["--short" | "-q", name] if !name.starts_with('-') => Ok(Vec::new()),
            _ => Err("`git symbolic-ref` with these arguments changes something".to_owned()),
        },
        "config" => config(rest),
        _ => SUBS
            .iter()
            .find(|s| s.names.split(' ').any(|n| n == sub))
            .ok_or_else(|| format!("`git {sub}` is not known to only read"))
            .and_then(|s| by_table(s, rest)),
    }?;
    paths.extend(found);
    Ok(paths)
}

/// Returns the words if none of them is a pattern, because a pattern may become several words.
fn literals(words: &[Word]) -> Result<Vec<&str>, String> {
    match words.iter().find(|w| !w.is_literal()) {
        Some(word) => Err(format!("{} is not known before it runs", word.raw)),
        None => Ok(words.iter().map(|w| w.text.as_str()).collect()),
    }
}

fn by_table(sub: &Sub, words: &[Word]) -> Result<Vec<PathArg>, String> {
    let parsed = options(words, sub.flags, sub.valued, &sub.long.join(" "), false)?;
    let mut out = places(&parsed.positional);
    // `-L 1,9:FILE` prints lines of the file.
    let lines =
        parsed.values.iter().filter(|(name, _)| name == "L").filter_map(|(_, value)| value.rsplit_once(':'));
    out.extend(lines.map(|(_, path)| PathArg {
        text: path.to_owned(),
        known: Known::Literal,
        content: true,
    }));
    Ok(out)
}

/// Revisions and paths look alike: `HEAD:dir/file` is placed by what follows the colon, anything else as a path. Git takes
/// quoted wildcards for wildcards, too.
fn places(words: &[Word]) -> Vec<PathArg> {
    let known = |w: &Word| if w.text.contains(['*', '?', '[']) { w.known.max(Known::Glob) } else { w.known };
    words
        .iter()
        .map(|w| PathArg {
            text: w.text.rsplit(':').next().unwrap_or_default().to_owned(),
            known: known(w),
            content: true,
        })
        .filter(|p| !p.text.is_empty())
        .collect()
}

fn listing(sub: &str, words: &[Word]) -> Result<Vec<PathArg>, String> {
    let flags = if sub == "branch" { "arvil" } else { "lni" };
    let parsed = options(words, flags, "", LIST, false)?;
    let lists = parsed
        .seen
        .iter()
        // `l` counts only for `git tag`: before git 2.19, `git branch -l NAME` created a branch.
        .any(|s| {
            matches!(s.as_str(), "list" | "contains" | "merged" | "no-merged" | "points-at")
                || (s == "l" && sub == "tag")
        });
    if parsed.positional.is_empty() || lists {
        Ok(Vec::new())
    } else {
        Err(format!("`git {sub} NAME` creates something"))
    }
}

fn keyword(sub: &str, words: &[Word]) -> Result<Vec<PathArg>, String> {
    let action = words.first().map(|w| w.text.as_str()).filter(|text| !text.starts_with('-'));
    literals(&words[..words.len().min(1)])?;
    let fine = matches!(
        (sub, action),
        ("stash", Some("list" | "show")) | ("worktree", Some("list")) | ("reflog", None | Some("show"))
    );
    if !fine {
        return Err(format!("`git {sub}` with these arguments changes something"));
    }
    let parsed = options(
        &words[usize::from(action.is_some())..],
        "puqn",
        "n",
        &[DIFF, LOG, "porcelain"].join(" "),
        false,
    )?;
    Ok(places(&parsed.positional))
}

/// Accepts `git config --get` of a setting whose value is not known to hold credentials.
fn config(words: &[Word]) -> Result<Vec<PathArg>, String> {
    let texts: Vec<&str> = words.iter().filter(|w| w.is_literal()).map(|w| w.text.as_str()).collect();
    let key = match texts[..] {
        ["--get" | "get" | "--get-all", key] | ["--global" | "--local", "--get" | "--get-all", key]
            if texts.len() == words.len() =>
        {
            key
        }
        _ => {
            return Err(
                "`git config` with these arguments changes something or may show credentials".to_owned()
            );
        }
    };
    let open =
        ["user.", "core.", "branch.", "init.", "pull.", "push.", "merge.", "rebase.", "diff.", "color."];
    let url = key.strip_prefix("remote.").is_some_and(|rest| rest.rsplit('.').next() == Some("url"));
    if open.iter().any(|prefix| key.starts_with(prefix)) || url {
        Ok(Vec::new())
    } else {
        Err("this git setting may hold credentials".to_owned())
    }
}
