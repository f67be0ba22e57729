//! Finds words with which a command runs or destroys something that its name does not show: an option that names a program,
//! or a subcommand that runs one. A rule's wildcard does not match such a word; a rule that spells it out does.
//!
//! Options are matched as programs match them: long names may be abbreviated, letters may be joined, and a word whose value
//! is only known at run time may become any of them.

mod fetch;
mod git;
mod services;

pub(crate) use git::{folders as git_folders, split as split_git};
pub(crate) use services::input_escape;

use super::readonly::{self, takes_value};
use super::sedscript;
use becket_shell_syntax::{Known, Word, base_name};
use std::path::Path;

/// Options of one program, or of some of its subcommands, that run or destroy something.
struct Options {
    /// Names of the subcommands that have these options, separated by blanks; empty for a program without subcommands.
    of: &'static str,
    long: &'static str,
    /// Letters of short options that run or destroy something.
    short: &'static str,
    /// Letters of other short options that take a value, so the letters after them in a word are no options.
    valued: &'static str,
}

const fn listed_options(
    of: &'static str,
    long: &'static str,
    short: &'static str,
    valued: &'static str,
) -> Options {
    Options { of, long, short, valued }
}

const TAR: Options = listed_options(
    "",
    "checkpoint-action to-command use-compress-program rsh-command rmt-command info-script new-volume-script index-file volno-file",
    "IF",
    "fCbTXKNLVHg",
);
const RSYNC: Options =
    listed_options("", "rsh rsync-path daemon config log-file write-batch only-write-batch", "e", "fBTM");
const SORT: Options = listed_options("", "compress-program output", "o", "kStT");
const MAN: Options = listed_options("", "pager html config-file", "PHC", "RLmMSseEr");
const ZIP: Options = listed_options("", "unzip-command", "", "");

/// The word by which the command `words` runs or destroys something that its name does not show; `None` if there is none.
pub(crate) fn escape(words: &[Word]) -> Option<String> {
    let (name, rest) = words.split_first()?;
    let has = |test: &dyn Fn(&str) -> bool| rest.iter().find(|w| test(&w.text)).map(word_text);
    let name = base_name(&name.text);
    // pytest deletes the folder of `--basetemp` before it starts.
    if runner(words).is_some_and(|(runner, _)| matches!(runner, "pytest" | "py.test"))
        && let Some(word) = has(&|t| t.starts_with("--basetemp"))
    {
        return Some(word);
    }
    let found = match name {
        "git" => git::escape(rest),
        "find" => find(rest),
        "fd" | "fdfind" => FD.hit(rest),
        "rg" => has(&|t| t.starts_with("--pre") && t != "--pretty" || t.starts_with("--hostname-bin"))
            .or_else(|| RG.hit(rest)),
        "sort" => SORT.hit(rest),
        // The first word of tar is often letters without a dash.
        "tar" | "bsdtar" => TAR.hit(rest).or_else(|| {
            let first = rest.first().filter(|w| !w.text.starts_with('-'))?;
            first.text.contains(['I', 'F']).then(|| first.text.clone())
        }),
        "rsync" => RSYNC.hit(rest),
        "scp" | "sftp" => SCP.hit(rest),
        "man" => MAN.hit(rest),
        "less" | "more" => has(&|t| t.starts_with('+')).or_else(|| LESS.hit(rest)),
        "view" | "vi" | "vim" => has(&|t| t.starts_with('+')).or_else(|| EDITOR.hit(rest)),
        "zip" => ZIP.hit(rest).or_else(|| has(&|t| t.starts_with('-') && t.contains("TT"))),
        "tree" => {
            has(&|t| t.starts_with("-o") || t.starts_with("--output") || t == "-R").or_else(|| TREE.hit(rest))
        }
        "npm" | "pnpm" | "yarn" | "npx" | "bun" => package_manager(rest),
        "cargo" => cargo(rest),
        "go" => single_dash(rest, GO).or_else(|| has(&|t| t.contains("extld") || t.contains("linkmode"))),
        "helm" => HELM.hit(rest),
        "mypy" => MYPY.hit(rest),
        "pylint" => PYLINT.hit(rest),
        "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" => single_dash(rest, COMPILER)
            .or_else(|| has(&|t| t.starts_with('@') || t.starts_with("-Wl,") && t.contains("plugin"))),
        "rustc" => has(&|t| t.contains("linker") || t.starts_with('@')),
        "nm" | "objdump" | "size" | "ar" | "ranlib" | "ld" | "strip" | "objcopy" => {
            let plugin = |t: &str| {
                t.strip_prefix("--").is_some_and(|long| {
                    let name = long.split('=').next().unwrap_or_default();
                    !name.is_empty() && "plugin".starts_with(name)
                })
            };
            has(&|t| t.starts_with('@') || plugin(t)).or_else(|| first_dynamic(rest))
        }
        "make" | "gmake" => make(rest),
        "gradle" | "gradlew" => GRADLE.hit(rest),
        "curl" => {
            CURL.hit(rest).or_else(|| has(&|t| t.contains("%output{"))).or_else(|| fetch::beside(name, rest))
        }
        "wget" => WGET.hit(rest).or_else(|| fetch::beside(name, rest)),
        "pip" | "pip3" => PIP.hit(rest),
        "sed" | "gsed" => sed(rest),
        "awk" | "gawk" | "mawk" | "nawk" => awk(rest),
        "test" | "[" | "printf" => readonly::evaluates(name, rest).then(|| all(rest)),
        // These builtins assign to the variables that their words name, or evaluate the words.
        "let" | "read" | "mapfile" | "readarray" | "getopts" | "declare" | "typeset" | "export" | "local"
        | "readonly" | "unset" | "wait" => {
            has(&|t| t.contains(['[', '$', '`'])).or_else(|| (name == "let").then(|| all(rest)))
        }
        _ => services::escape(name, rest),
    };
    found.or_else(|| services::permanent(name, rest))
}

const FD: Options = listed_options("", "exec exec-batch list-details", "xXl", "cdEejSto");
const RG: Options = listed_options("", "pre search-zip hostname-bin", "z", "ABCdeEfgjmMrtT");
const SCP: Options = listed_options("", "", "SoFDJ", "ciPlX");
const EDITOR: Options =
    listed_options("", "cmd startuptime remote remote-send remote-expr remote-silent", "cSusWwiU", "Tt");
const LESS: Options =
    listed_options("", "lesskey-file lesskey-src lesskey-content log-file LOG-FILE", "koO", "bhjpPtTxyzD#");
const TREE: Options = listed_options("", "output", "oR", "LPI");
const GRADLE: Options =
    listed_options("", "init-script project-dir build-file settings-file include-build", "Ibcp", "DPgxt");
const CURL: Options = listed_options(
    "",
    "config output output-dir remote-name remote-name-all upload-file trace trace-ascii stderr libcurl etag-save hsts alt-svc \
     cookie-jar dump-header netrc-file netrc engine connect-to unix-socket abstract-unix-socket preproxy proxy socks4 socks4a socks5 \
     socks5-hostname proxy1.0 resolve doh-url url url-query next variable ftp-port mail-from mail-rcpt quote",
    "cDKnoOTxQP:",
    "AbCdeEFHmPQrtuUwXyYz",
);
const WGET: Options = listed_options(
    "",
    "config execute use-askpass output-document directory-prefix input-file output-file append-output post-file body-file \
     save-cookies load-cookies warc-file hsts-file rejected-log",
    "aeOoPi",
    "BDlnQtTUwXARI",
);
const HELM: Options = listed_options("", "post-renderer kubeconfig", "", "nof");
const MYPY: Options = listed_options("", "python-executable", "", "mpc");
const PYLINT: Options = listed_options("", "init-hook load-plugins rcfile", "", "jdefr");
const PIP: Options = listed_options("", "python log", "", "icrt");
const MAKE: Options = listed_options("", "file makefile directory eval include-dir", "fCEI", "jlOWo");
const GO: &[&str] = &["exec", "toolexec", "vettool", "overlay", "modfile", "C"];
const COMPILER: &[&str] = &[
    "wrapper",
    "fplugin",
    "B",
    "specs",
    "load",
    "Xclang",
    "fuse-ld",
    "fpass-plugin",
    "ld-path",
    "MF",
    "aux-info",
];

/// Test runners and build tools: they run the code of the project, so a rule for one of them allows that. The rule does not cover
/// code or output outside of the workspace.
const RUNNERS: &[&str] = &[
    "cargo", "go", "pytest", "py.test", "jest", "vitest", "mocha", "eslint", "tsc", "prettier", "mypy",
    "pylint", "ruff", "black", "phpunit", "rspec", "ctest",
];
/// Programs that start a runner that is named in their arguments.
const STARTERS: &[&str] = &["npx", "bunx", "pnpm", "yarn", "python", "python3", "uv", "uvx", "poetry"];

/// Returns the runner that a command starts, and the words after its name.
fn runner(words: &[Word]) -> Option<(&str, &[Word])> {
    let starts = base_name(&words.first()?.text);
    let most = if STARTERS.contains(&starts) { 4 } else { 1 };
    let at = words.iter().take(most).position(|word| RUNNERS.contains(&base_name(&word.text)))?;
    Some((base_name(&words[at].text), &words[at + 1..]))
}

/// The words that are arguments of the runner itself, without the arguments of the program that it runs.
pub(crate) fn runner_words(words: &[Word]) -> Vec<&Word> {
    let Some((name, rest)) = runner(words) else { return git::places(words) };
    let runs_a_program = rest.first().is_some_and(|word| word.text == "run");
    // With these subcommands, the words after `--` go to a compiler or formatter, which writes files. With others, they go to a
    // program of the project.
    let is_own = || {
        let mut operands = rest.iter().map(|word| word.text.as_str());
        let sub = operands.find(|text| !text.starts_with(['-', '+']));
        sub.is_some_and(|sub| matches!(sub, "fmt" | "rustc" | "rustdoc" | "clippy" | "check" | "fix"))
    };
    let end = match name {
        "go" if runs_a_program => Some(end_of_package(rest)),
        "cargo" if is_own() => None,
        "go" => rest.iter().position(|word| matches!(word.text.as_str(), "-args" | "--args")),
        "cargo" => rest.iter().position(|word| word.text == "--"),
        _ => None,
    };
    rest[..end.unwrap_or(rest.len())].iter().collect()
}

/// The number of words of `go run` up to the files or the package that it runs. Later words are arguments of that program.
fn end_of_package(words: &[Word]) -> usize {
    let is_file = |word: &Word| Path::new(&word.text).extension().is_some_and(|ending| ending == "go");
    let is_place = |word: &Word| {
        !word.text.starts_with('-')
            && (is_file(word) || word.text.starts_with(['.', '~']) || word.text.contains('/'))
    };
    let first = words.iter().position(is_place).unwrap_or(words.len());
    let more = words.iter().skip(first + 1).take_while(|word| is_file(word)).count();
    words.len().min(first + 1 + more)
}

fn word_text(word: &Word) -> String {
    if word.is_literal() { word.text.clone() } else { word.raw.clone() }
}

/// All words, so that only a rule that spells out the whole command matches.
fn all(words: &[Word]) -> String {
    words.iter().map(|w| w.raw.as_str()).collect::<Vec<_>>().join(" ")
}

/// The first word that may become any option at run time.
fn first_dynamic(words: &[Word]) -> Option<String> {
    words.iter().take_while(|w| w.text != "--" || !w.is_literal()).find(|w| may_be_option(w)).map(word_text)
}

fn may_be_option(word: &Word) -> bool {
    match word.known {
        Known::Literal | Known::Pipe => false,
        Known::Glob => word.text.starts_with(['*', '?', '[', '-']),
        // A known start can rule out an option: `src/$x` never becomes one.
        Known::Dynamic => {
            word.raw.contains('{') && !word.raw.contains("${")
                || !word.single && !word.raw.starts_with('"')
                || word.text.starts_with(['$', '`', '-'])
        }
    }
}

/// Judges `find`: every word may be an action, except the value of a test.
fn find(words: &[Word]) -> Option<String> {
    const ACTIONS: &[&str] = &[
        "-exec",
        "-execdir",
        "-ok",
        "-okdir",
        "-delete",
        "-fprint",
        "-fprint0",
        "-fprintf",
        "-fls",
        "-files0-from",
    ];
    let mut value = false;
    for word in words {
        if word.is_literal() && !value && ACTIONS.contains(&word.text.as_str()) {
            return Some(word.text.clone());
        }
        // A pattern that ends in a fixed extension matches no action.
        let ends =
            word.known == Known::Glob && word.text.strip_prefix('*').is_some_and(|end| end.starts_with('.'));
        if !word.is_literal() && may_be_option(word) && !(value && (word.single || ends)) {
            return Some(word_text(word));
        }
        value = !value && word.is_literal() && takes_value(&word.text);
    }
    None
}

/// Judges programs whose options have one dash or two and are never abbreviated, up to the arguments of the program that is
/// run.
fn single_dash(words: &[Word], names: &[&str]) -> Option<String> {
    let own = || {
        words.iter().take_while(|w| !w.is_literal() || !matches!(w.text.as_str(), "--" | "-args" | "--args"))
    };
    let named = |word: &&Word| {
        word.text.strip_prefix('-').is_some_and(|rest| {
            let rest = rest.trim_start_matches('-');
            let name = rest.split('=').next().unwrap_or_default();
            // `-B` and `-specs` also take a value in the same word.
            names.contains(&name) || names.iter().any(|n| n.len() == 1 && rest.starts_with(n))
        })
    };
    own().find(named).or_else(|| own().find(|w| may_be_option(w))).map(word_text)
}

/// Judges npm and similar programs, which accept one dash instead of two, and abbreviated names.
fn package_manager(words: &[Word]) -> Option<String> {
    const NAMES: &[&str] = &[
        "script-shell",
        "shell",
        "node-options",
        "userconfig",
        "globalconfig",
        "prefix",
        "git",
        "editor",
        "viewer",
        "browser",
        "init-module",
        "call",
        "cwd",
        "dir",
        "use-yarnrc",
        "shell-emulator",
        "logs-dir",
        "cache",
        "ignore-path",
        "modules-folder",
    ];
    let own = || words.iter().take_while(|w| w.text != "--" || !w.is_literal());
    let named = |word: &&Word| {
        word.text.strip_prefix('-').is_some_and(|rest| {
            let name =
                rest.trim_start_matches('-').split('=').next().unwrap_or_default().to_ascii_lowercase();
            // pnpm and Yarn take settings also as `--config.script-shell`.
            let name = name.strip_prefix("config.").unwrap_or(&name);
            let name = name.strip_prefix("no-").unwrap_or(name).replace('_', "-");
            name == "c" || (name.len() > 1 && NAMES.iter().any(|n| n.starts_with(name.as_str())))
        })
    };
    own().find(named).or_else(|| own().find(|w| may_be_option(w))).map(word_text)
}

/// Judges cargo: configuration on the command line can name wrappers, linkers and runners, and another manifest means another
/// project.
fn cargo(words: &[Word]) -> Option<String> {
    let own = || words.iter().take_while(|w| w.text != "--" || !w.is_literal());
    let named = |word: &&Word| {
        let text = word.text.as_str();
        let long = text.split('=').next().unwrap_or_default();
        matches!(long, "--config" | "--manifest-path" | "-C" | "-Z")
            || (text.starts_with("-Z") || text.starts_with("-C"))
            || text.starts_with('+')
    };
    // After `--`, rustc can be given a linker or a backend.
    let runs = |word: &&Word| {
        word.text.contains("linker")
            || word.text.contains("codegen-backend")
            || word.text.starts_with('@')
            || !word.is_literal() && may_be_option(word)
    };
    let compiles = own().any(|word| matches!(word.text.as_str(), "rustc" | "rustdoc" | "clippy" | "fix"));
    let after = || words.iter().skip(own().count()).filter(|_| compiles);
    own()
        .find(named)
        .or_else(|| own().find(|w| may_be_option(w)))
        .or_else(|| after().find(runs))
        .map(word_text)
}

/// Judges make: variables on the command line replace those of the makefile, including programs and shells.
fn make(words: &[Word]) -> Option<String> {
    const QUIET: &[&str] = &["V", "VERBOSE", "Q", "DEBUG", "CI", "NO_COLOR", "COLOR", "JOBS", "RELEASE"];
    let named = |word: &&Word| {
        let Some((name, value)) = word.text.split_once('=') else { return false };
        let plain = word.is_literal() && value.chars().all(|c| c.is_ascii_alphanumeric());
        !(word.text.starts_with('-') || plain && QUIET.contains(&name))
    };
    MAKE.hit(words).or_else(|| words.iter().find(named).map(word_text)).or_else(|| first_dynamic(words))
}

fn sed(words: &[Word]) -> Option<String> {
    sedscript::escape(words)
}

/// Judges awk: its program may run, write or load something.
fn awk(words: &[Word]) -> Option<String> {
    let hidden = ["system", "getline", "@", "|"];
    words
        .iter()
        .find(|word| {
            let text = word.text.replace("||", " ");
            may_be_option(word)
                || (text.starts_with('-')
                    && !text.starts_with("-F")
                    && !matches!(text.as_str(), "-v" | "-" | "--"))
                || hidden.iter().any(|h| text.contains(h))
                || (text.contains('{') && text.contains('>') && text.contains("print"))
        })
        .map(word_text)
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
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
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
        may_be_option(word)
    }

    /// True if `name` is one of the options or an abbreviation of one.
    fn is_long(&self, name: &str) -> bool {
        // `--text` is a harmless option of its own, although other options begin with the same letters.
        name != "text" && !name.is_empty() && self.long.split(' ').any(|long| long.starts_with(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help of an installed program; empty if it is not installed.
    fn help(program: &str, words: &[&str]) -> String {
        let out = std::process::Command::new(program).args(words).output();
        out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default()
    }

    /// A letter that is taken for one with a value hides the letters after it.
    #[test]
    fn letters_with_a_value_have_one_in_the_program_s_help() {
        for (program, words, table) in
            [("curl", &["--help", "all"][..], &CURL), ("wget", &["--help"][..], &WGET)]
        {
            let help = help(program, words);
            // `-o, --output <file>` of curl, `-O,  --output-document=FILE` of wget.
            let takes = |letter: char| {
                let start = format!("-{letter},");
                let line = help.lines().find(|line| line.trim_start().starts_with(&start));
                line.is_some_and(|line| {
                    let mut words = line.trim_start()[start.len()..].split_whitespace();
                    let long = words.next().unwrap_or_default();
                    long.contains('=') || words.next().is_some_and(|word| word.starts_with('<'))
                })
            };
            // `-nv` and its like are letters of `-n`.
            let wrong: Vec<char> = table.valued.chars().filter(|c| *c != 'n' && !takes(*c)).collect();
            assert!(help.is_empty() || wrong.is_empty(), "{program}: {wrong:?}");
        }
    }
}
