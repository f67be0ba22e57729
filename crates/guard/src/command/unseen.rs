//! The files that a command may open although its text does not show them, where deny rules are about files.
//!
//! Owns the values that a script gives its own variables, and the list of programs that open files whose names no word tells.
//! A finding here denies nothing by itself: such a command runs where those files are hidden from it, or becket asks about it.

use super::Judge;
use crate::findings::Unseen;
use crate::path::is_sink;
use crate::shell::readonly;
use becket_shell_syntax::{
    Known, Script, Simple, Unwrapped, Word, base_name, is_launcher, system_name, unwrap,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Texts that a word can be at most; with more, it counts as unknown.
const MOST_TEXTS: usize = 128;

/// Programs whose words name no files that they open.
const NO_FILES: &[&str] = &[
    "echo", "printf", "test", "[", "true", "false", ":", "exit", "return", "seq", "date", "kill", "sleep",
    "wait", "basename", "dirname", "expr", "shift", "unset", "break", "continue", "pwd", "umask", "ulimit",
    "type", "which",
];

/// Shells, which run what their input says.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "busybox"];

/// Programs that open whatever a text says that they are given.
const INTERPRETERS: &[&str] = &[
    "awk",
    "gawk",
    "mawk",
    "sed",
    "gsed",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "sqlite3",
    "vim",
    "vi",
    "ex",
    "ed",
    "emacs",
    "gdb",
    "julia",
    "Rscript",
    "ghci",
    "irb",
    "jshell",
    "osascript",
    "jq",
];

/// Programs that search or copy the folder in which they run, or make names that lead elsewhere.
const WALKERS: &[&str] = &[
    "ag", "ack", "fd", "fdfind", "rgrep", "ugrep", "tree", "tar", "bsdtar", "zip", "7z", "cpio", "rsync",
    "mv", "cp", "source", ".",
];

/// Returns true if the command can change where a path leads: it moves or links files, or unpacks a tree that may contain links.
pub(super) fn rearranges(words: &[Word]) -> bool {
    const GIT: &[&str] = &[
        "checkout",
        "switch",
        "pull",
        "clone",
        "reset",
        "restore",
        "stash",
        "merge",
        "rebase",
        "cherry-pick",
        "revert",
        "am",
        "apply",
        "worktree",
        "submodule",
        "checkout-index",
        "read-tree",
    ];
    const NAMES: &[&str] = &["mv", "ln", "link", "rename", "rsync", "tar", "bsdtar", "unzip", "cpio"];
    let Some((first, rest)) = words.split_first() else { return false };
    if is_launcher(words) {
        let mut parts =
            rest.iter().flat_map(|w| w.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-'));
        return parts.any(|part| NAMES.contains(&part) || matches!(part, "cp" | "git"))
            && readonly::check(rest).is_err();
    }
    match base_name(&first.text) {
        "cp" => rest.iter().any(|w| {
            w.text.starts_with("--") || w.text.starts_with('-') && w.text.contains(['a', 'r', 'R', 'd', 'P'])
        }),
        "git" => rest.iter().any(|w| GIT.contains(&w.text.as_str())) && readonly::check(words).is_err(),
        name => NAMES.contains(&name),
    }
}

/// The values that a script gives its variables, where nothing else can set them.
#[derive(Debug, Default)]
pub(super) struct Values(BTreeMap<String, Vec<String>>);

impl Values {
    /// Collects the values of a script. Order does not count, because loops run parts again: a variable has each of its values.
    pub(super) fn of(script: &Script, source: &str) -> Self {
        let mut out = Self::default();
        let sets_others = |command: &Simple| {
            let name = command.words.first().map_or("", |word| base_name(&word.text));
            matches!(name, "eval" | "source" | "." | "read" | "mapfile" | "readarray" | "getopts" | "let")
                || name == "printf" && command.words.iter().any(|word| word.text.starts_with("-v"))
        };
        let set = |wanted: &str| -> Vec<&Word> {
            let all = script.assigns.iter().chain(&script.looped);
            all.filter(|(name, _)| name == wanted).map(|(_, word)| word).collect()
        };
        if !script.doubts.is_empty() || !set("IFS").is_empty() || script.commands.iter().any(sets_others) {
            return out;
        }
        let names: Vec<&String> = script.looped.iter().chain(&script.assigns).map(|(name, _)| name).collect();
        // A value may name a variable that is set further down in the list, so look more than once.
        for _ in 0..names.len().min(8) {
            for name in &names {
                let is_plain = is_set_plainly(source, name, set(name).len());
                if out.0.contains_key(*name) || !is_plain {
                    continue;
                }
                let values = set(name).into_iter().map(|word| match word.known {
                    Known::Literal | Known::Glob => Some(vec![word.text.clone()]),
                    Known::Dynamic => out.expanded(word, &|_| None),
                    Known::Pipe => None,
                });
                if let Some(values) = values.collect::<Option<Vec<_>>>() {
                    let values: Vec<String> = values.into_iter().flatten().collect();
                    if values.len() <= MOST_TEXTS {
                        out.0.insert((*name).clone(), values);
                    }
                }
            }
        }
        out
    }

    /// Returns the texts that the word may be; `None` if it depends on more than variables with known values. `given`: the value of
    /// a variable that the script does not set.
    fn expanded(&self, word: &Word, given: &dyn Fn(&str) -> Option<Vec<String>>) -> Option<Vec<String>> {
        let expansions = word.expansions.as_ref().filter(|all| !all.is_empty())?;
        let mut texts = vec![String::new()];
        let mut at = 0;
        for expansion in expansions {
            let before = word.text.get(at..expansion.place.start)?;
            let values = self.0.get(&expansion.variable).cloned().or_else(|| given(&expansion.variable))?;
            if texts.len() * values.len() > MOST_TEXTS {
                return None;
            }
            texts = texts
                .iter()
                .flat_map(|text| values.iter().map(move |value| format!("{text}{before}{value}")))
                .collect();
            at = expansion.place.end;
        }
        let rest = word.text.get(at..)?;
        for text in &mut texts {
            text.push_str(rest);
        }
        Some(texts)
    }
}

/// True if each place in which the script names the variable without reading it is one of its `count` known assignments.
fn is_set_plainly(source: &str, name: &str, count: usize) -> bool {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut set = 0;
    for (at, _) in source.match_indices(name) {
        let (before, after) = (&source[..at], &source[at + name.len()..]);
        if before.ends_with(of_a_name) || after.starts_with(of_a_name) {
            continue;
        }
        let is_read = before.ends_with('$') || before.ends_with("${") && after.starts_with('}');
        if is_read {
            continue;
        }
        let is_loop = before.trim_end().ends_with("for") && before.ends_with(char::is_whitespace);
        if !is_loop && !after.starts_with('=') {
            return false;
        }
        set += 1;
    }
    // A loop gives its variable several values in one place.
    set >= 1 && set <= count
}

impl Judge<'_> {
    /// Returns the texts that a word may be which the program gets only at run time; `None` if they cannot be known.
    pub(super) fn texts(&self, word: &Word, dirs: Option<&[PathBuf]>) -> Option<Vec<String>> {
        let as_texts =
            |paths: &[PathBuf]| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        if let Some(rest) = word.raw.strip_prefix("~+")
            && (rest.is_empty() || rest.starts_with('/'))
            && !rest.contains(['$', '`', '\'', '"', '\\', '{'])
        {
            return dirs.map(|dirs| dirs.iter().map(|dir| format!("{}{rest}", dir.display())).collect());
        }
        let mut texts = self.values.expanded(word, &|name| match name {
            "PWD" => dirs.map(as_texts),
            "HOME" => Some(as_texts(std::slice::from_ref(&self.guard.settings().home))),
            _ => None,
        })?;
        if !word.single {
            // The shell splits the value of a variable without quotes.
            let parts: Vec<String> =
                texts.iter().flat_map(|text| text.split_whitespace().map(str::to_owned)).collect();
            texts.extend(parts);
        }
        Some(texts)
    }

    /// Records that the files which a part opens are not known from its text.
    pub(super) fn unseen(&mut self, reason: impl FnOnce() -> String, tools: &[&str], by_word: bool) {
        if let Some(rule) = self.guard.denies_files(tools) {
            Unseen { reason: reason(), rule: rule.to_string(), by_word }.join(&mut self.found.unseen);
        }
    }

    /// Records a word that is not known before the command runs.
    pub(super) fn unseen_word(&mut self, word: &Word, tools: &[&str]) {
        self.unseen(
            || format!("{} is not known before it runs", becket_types::cut_end(&word.raw, 60)),
            tools,
            true,
        );
    }

    /// Records a program that opens files which none of its words names.
    pub(super) fn unseen_program(&mut self, words: &[Word], command: &Simple) {
        let Some(first) = words.first() else { return };
        let tools = &["read", "edit"];
        if !first.is_literal() {
            return self.unseen_word(first, tools);
        }
        let name = system_name(&first.text).unwrap_or_else(|| base_name(&first.text));
        let is_python = name.starts_with("python");
        let is_given = command.input.is_some() || command.piped;
        let runs_input = words.iter().skip(1).all(|word| word.text.starts_with('-'))
            && (is_python || ["perl", "ruby", "node", "php"].contains(&name));
        if is_given && (SHELLS.contains(&name) || runs_input) {
            return self.unseen(|| format!("{name} runs what it is given as input"), tools, true);
        }
        if name == "ln" {
            return self.unseen(|| "a link may lead to them".to_owned(), tools, true);
        }
        let is_code =
            |word: &Word| word.text.starts_with("-c") || word.text.starts_with("-e") || word.text == "-";
        let interprets =
            INTERPRETERS.contains(&name) || is_python && (words.iter().skip(1).any(is_code) || is_given);
        let reads = !NO_FILES.contains(&name) && readonly::check(words).is_ok();
        let dirs = command.dirs.as_deref();
        let folders = || WALKERS.contains(&name) || self.names_folder_above(words, dirs);
        let tools = if reads { &tools[..1] } else { &tools[..] };
        if interprets || reads || folders() {
            self.unseen(|| format!("{name} may open files that no word names"), tools, false);
        }
    }

    /// True if a word names a folder in which a deny rule may name files.
    fn names_folder_above(&self, words: &[Word], dirs: Option<&[PathBuf]>) -> bool {
        if words.first().is_some_and(|word| matches!(word.text.as_str(), "cd" | "pushd" | "mkdir")) {
            return false;
        }
        let is_folder = |path: &PathBuf| self.guard.files.is_none() || self.is_folder(path);
        let above = |path: &PathBuf| !is_sink(path) && is_folder(path) && self.guard.denies_below(path);
        words
            .iter()
            .skip(1)
            .filter(|word| word.is_literal() && !word.text.starts_with('-'))
            .any(|word| self.places(&word.text, dirs).is_some_and(|places| places.iter().any(above)))
    }
}

/// True if the words of this form of the command name no files: those of the program that it starts are looked at by themselves.
pub(super) fn names_no_files(words: &[Word]) -> bool {
    let name = words.first().map_or("", |word| base_name(&word.text));
    NO_FILES.contains(&name) || matches!(unwrap(words), Unwrapped::Command(_))
}
