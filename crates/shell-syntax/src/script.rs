//! The walk over a parsed script: finds every simple command with the directories in which it may run, every file that a redirect
//! opens, and every doubt.
//!
//! Arithmetic deserves a note: bash evaluates the *contents* of variables in arithmetic, subscripts included, so
//! `$((x))` can run a command that is nowhere in the text. Arithmetic on anything but numbers is therefore a doubt, and
//! so are the other forms that evaluate text (`${x@P}`, `${!x}`, `[[ x -eq y ]]`, `-v`).

mod assignments;
mod grammar;
mod loops;
mod redirects;
mod values;

use crate::unwrap;
use crate::word::{Word, text_of};
pub use assignments::assignments;
use grammar::children;
use redirects::{is_after_command, words_after_redirects};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tree_sitter::Node;

/// Longest script, in characters, that may be judged for permission. becket asks about longer ones.
pub const MAX_CHARS: usize = 10_000;
/// Longest script, in characters, that is parsed at all.
const MOST_CHARS: usize = 200_000;
const MAX_DEPTH: usize = 200;
const MAX_DIRS: usize = 8;

/// Nodes that are text for the grammar. They have children only if a part of the text must be read too, such as an expansion.
const TEXTS: [&str; 14] = [
    "file_descriptor",
    "heredoc_start",
    "heredoc_end",
    "heredoc_content",
    "string_content",
    "raw_string",
    "ansi_c_string",
    "word",
    "number",
    "variable_name",
    "special_variable_name",
    "regex",
    "extglob_pattern",
    "test_operator",
];
/// Nodes whose parts are read one after the other, in the same directories.
const GROUPS: [&str; 9] = [
    "herestring_redirect",
    "string",
    "concatenation",
    "translated_string",
    "command_name",
    "array",
    "unary_expression",
    "parenthesized_expression",
    "variable_assignments",
];
/// Nodes that contain statements.
const BLOCKS: [&str; 9] = [
    "program",
    "compound_statement",
    "do_group",
    "else_clause",
    "elif_clause",
    "if_statement",
    "case_statement",
    "case_item",
    "negated_command",
];
/// The directories in which a command may run: all that are possible at that point; `None` if they cannot be known.
pub type Dirs = Option<Vec<PathBuf>>;

/// One simple command: a program with its arguments.
#[derive(Clone, Debug)]
pub struct Simple {
    pub words: Vec<Word>,
    /// Assignments before the name, each as `NAME=value`.
    pub assigns: Vec<String>,
    /// The directories in which the command may run.
    pub dirs: Dirs,
    /// Text on the command's standard input, from a here-document or a here-string, as written.
    pub input: Option<String>,
    /// True if the command's standard input is a pipe.
    pub piped: bool,
}

/// A file that a redirect opens.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// The file, as a word: it may contain patterns or variables.
    pub target: Word,
    /// True if the redirect may write to the file or create it.
    pub write: bool,
    /// The directories from which a relative path starts.
    pub dirs: Dirs,
}

/// The commands, redirects and variables of a parsed script, including those of nested commands.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub commands: Vec<Simple>,
    pub redirects: Vec<Redirect>,
    /// Variables that the script sets, in the order of the text. A value is a word that may be known or not.
    pub assigns: Vec<(String, Word)>,
    /// The variables of `assigns` and those of `for` loops, each with one value as written.
    pub given: Vec<(String, String)>,
    /// The variables of `for` loops, each with one of the words that the loop gives it.
    pub looped: Vec<(String, Word)>,
    /// Reasons why the script cannot be understood reliably, each in a few words.
    pub doubts: Vec<String>,
    /// True if a part could not be parsed, so that its effects may be missing in the other fields.
    pub unread: bool,
    /// True if commands may run in another order than that of `commands`, or more than once: in pipes, loops and the
    /// background. Also true if a part could not be parsed.
    pub unordered: bool,
}

/// The environment in which the paths of a script are resolved.
pub struct Paths<'a> {
    pub home: &'a Path,
    /// Returns the path to which a path leads, as the kernel follows links and `..`.
    pub resolve: &'a dyn Fn(&Path) -> PathBuf,
}

impl Paths<'_> {
    /// Returns the path that a program started in `dir` would open for `text`.
    pub fn join(&self, dir: &Path, text: &str) -> PathBuf {
        let path = match text.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None if text == "~" => self.home.to_path_buf(),
            None => dir.join(text),
        };
        // `..` must not be removed before links are resolved: `link/..` is the parent of the link's target.
        (self.resolve)(&path)
    }
}

/// Parses `source`. `dirs`: the directories in which it may start.
pub fn read(source: &str, dirs: Dirs, paths: &Paths<'_>) -> Script {
    read_up_to(MAX_CHARS, source, dirs, paths)
}

/// Like [`read`], but also for long scripts. For callers that only ask for the effects of a command and do not decide
/// if it may run.
pub fn read_long(source: &str, dirs: Dirs, paths: &Paths<'_>) -> Script {
    read_up_to(MOST_CHARS, source, dirs, paths)
}

fn read_up_to(most: usize, source: &str, dirs: Dirs, paths: &Paths<'_>) -> Script {
    let mut out = Script { unread: true, unordered: true, ..Script::default() };
    if source.chars().count() > most {
        out.doubts.push(format!("it is longer than {most} characters"));
        return out;
    }
    if let Some(c) = source.chars().find(|c| grammar::is_odd(*c)) {
        out.doubts.push(format!(
            "it holds the character U+{:04X}, which shells and people read differently",
            c as u32
        ));
    }
    let tree = match grammar::parse(source) {
        Ok(tree) => tree,
        Err(why) => {
            out.doubts.push(why.to_owned());
            return out;
        }
    };
    if grammar::names_descriptor(source) {
        out.doubts.push("a redirection may set a variable or evaluate a subscript ({name}>)".to_owned());
    }
    if source.contains("$\\\n") {
        // Bash joins the lines first, so `$` may begin an expansion that the grammar does not see.
        out.doubts.push("a line ends after a `$`, which may begin an expansion on the next line".to_owned());
    }
    let root = tree.root_node();
    (out.unread, out.unordered) = (root.has_error(), root.has_error());
    if root.has_error() {
        out.doubts.push("its syntax could not be understood for sure".to_owned());
    }
    let mut walker = Walker {
        source,
        out,
        dirs,
        known: BTreeMap::new(),
        paths,
        moved: None,
        linked: false,
        input: None,
        piped: false,
    };
    walker.visit(root, 0);
    if walker.out.commands.is_empty() {
        walker.out.doubts.push("no command was found in it".to_owned());
    }
    walker.out
}

struct Walker<'a> {
    source: &'a str,
    out: Script,
    dirs: Dirs,
    /// The values of variables that a `for` loop or an assignment has set. An unknown value, as after every assignment, is a
    /// dynamic word.
    known: BTreeMap<String, Vec<Word>>,
    paths: &'a Paths<'a>,
    /// The directories in which the shell is if the preceding `cd` succeeded.
    moved: Option<Dirs>,
    /// True if a `cd` went through a symbolic link.
    linked: bool,
    /// Standard input of the commands that are visited now: its text, as in [`Simple::input`].
    input: Option<String>,
    piped: bool,
}

impl Walker<'_> {
    fn doubt(&mut self, what: impl Into<String>) {
        let what = what.into();
        if self.out.doubts.len() < 16 && !self.out.doubts.contains(&what) {
            self.out.doubts.push(what);
        }
    }

    /// Adds a doubt about a part that could not be parsed.
    fn unread(&mut self, what: impl Into<String>) {
        (self.out.unread, self.out.unordered) = (true, true);
        self.doubt(what);
    }

    /// Adds a command that runs at this point of the script.
    fn add(&mut self, words: Vec<Word>, assigns: Vec<String>) {
        let (dirs, input) = (self.dirs.clone(), self.input.clone());
        self.out.commands.push(Simple { words, assigns, dirs, input, piped: self.piped });
    }

    fn visit(&mut self, node: Node<'_>, depth: usize) {
        if depth > MAX_DEPTH {
            return self.unread("it is nested too deeply");
        }
        if !node.is_named() {
            self.out.unordered |= node.kind() == "&";
            return;
        }
        for fault in grammar::faults(node, self.source) {
            self.unread(fault);
        }
        if text_of(node, self.source).starts_with("((") {
            self.doubt("arithmetic on variables evaluates what they hold, and sets them");
        }
        match node.kind() {
            "comment" | "brace_expression" | "simple_expansion" => {}
            kind if TEXTS.contains(&kind) => {
                if node.named_child_count() > 0 {
                    self.visit_all(node, depth);
                }
            }
            kind if GROUPS.contains(&kind) => self.visit_all(node, depth),
            kind if BLOCKS.contains(&kind) => self.block(node, depth),
            _ => self.construct(node, depth),
        }
    }

    /// Visits a node that changes how its parts are read.
    fn construct(&mut self, node: Node<'_>, depth: usize) {
        match node.kind() {
            "while_statement" => {
                self.out.unordered = true;
                self.rounds(&[node], depth);
            }
            "command_substitution" if grammar::has_escapes(text_of(node, self.source)) => {
                self.unread("it escapes characters inside backquotes, which makes other commands of them");
                self.apart(node, depth);
            }
            "process_substitution" => {
                self.out.unordered = true;
                self.apart(node, depth);
            }
            "subshell" | "command_substitution" => self.apart(node, depth),
            "pipeline" => {
                self.out.unordered = true;
                let before = (self.input.clone(), self.piped);
                for child in children(node) {
                    self.apart(child, depth);
                    if child.is_named() {
                        (self.input, self.piped) = (None, true);
                    }
                }
                (self.input, self.piped) = before;
            }
            "list" => self.list(node, depth),
            "command" => self.command(node, depth),
            "redirected_statement" => {
                let before = self.input.clone();
                self.input = self.given(node).or_else(|| before.clone());
                self.visit_all(node, depth);
                self.input = before;
            }
            "file_redirect" => self.redirect(node, depth),
            "heredoc_redirect" => {
                if node.child_by_field_name("argument").is_some() {
                    self.unread("arguments follow the mark of a here-document");
                }
                // Commands after the here-document's mark on the same line read from a pipe, or from their previous
                // input.
                let before = (self.input.take(), self.piped);
                for child in children(node) {
                    self.piped = before.1 || child.kind() == "pipeline";
                    self.visit(child, depth + 1);
                }
                (self.input, self.piped) = before;
            }
            "heredoc_body" => self.heredoc(node, depth),
            "binary_expression" => self.comparison(node, depth),
            "expansion" => self.expansion(node, depth),
            "arithmetic_expansion" => self.arithmetic(node, depth),
            "variable_assignment" => {
                self.assignment(node, depth);
            }
            "declaration_command" => self.declaration(node, depth),
            "unset_command" => self.unset(node),
            "test_command" => self.test(node, depth),
            "for_statement" => self.for_loop(node, depth),
            "c_style_for_statement" => {
                self.out.unordered = true;
                self.doubt("it uses a C-style for loop, whose arithmetic can run commands");
                self.visit_all(node, depth);
            }
            "function_definition" => {
                // The function may have the name of a command that runs later and is then judged by that name.
                self.out.unordered = true;
                self.doubt("it defines a function, which later commands may run instead of what they name");
                let before = self.dirs.take();
                self.block(node, depth);
                self.dirs = before;
            }
            other => {
                self.unread(format!("it uses shell syntax that is not judged ({other})"));
                self.visit_all(node, depth);
            }
        }
    }

    fn visit_all(&mut self, node: Node<'_>, depth: usize) {
        for child in children(node) {
            self.visit(child, depth + 1);
        }
    }

    /// Handles consecutive statements: each of them may have changed the directory or failed to change it.
    fn block(&mut self, node: Node<'_>, depth: usize) {
        for child in children(node) {
            let start = self.dirs.clone();
            self.visit(child, depth + 1);
            self.dirs = union(start, self.dirs.take());
        }
    }

    /// Handles a part that runs in a separate process: its `cd` has no effect outside.
    fn apart(&mut self, node: Node<'_>, depth: usize) {
        let before = self.dirs.clone();
        if matches!(node.kind(), "subshell" | "command_substitution" | "process_substitution") {
            self.block(node, depth);
        } else {
            self.visit(node, depth + 1);
        }
        self.dirs = before;
        self.moved = None;
    }

    fn list(&mut self, node: Node<'_>, depth: usize) {
        let start = self.dirs.clone();
        let mut operator = "";
        for child in children(node) {
            match child.kind() {
                "&&" => {
                    if let Some(moved) = self.moved.take() {
                        self.dirs = moved;
                    }
                }
                "||" => self.dirs = union(start.clone(), self.dirs.take()),
                kind => {
                    self.moved = None;
                    self.visit(child, depth + 1);
                    // After anything but a lone `cd`, success does not tell which directory is the current one.
                    if !matches!(kind, "command" | "redirected_statement" | "list") {
                        self.moved = None;
                    }
                }
            }
            if !child.is_named() {
                operator = child.kind();
            }
        }
        // If the list ends with `&& cd x`, success means that the `cd` ran. After `
        // ` it may have been skipped.
        if operator != "&&" {
            self.moved = None;
        }
    }

    fn command(&mut self, node: Node<'_>, depth: usize) {
        let (mut words, mut assigns) = (Vec::new(), Vec::new());
        for child in children(node) {
            match child.kind() {
                "variable_assignment" => assigns.extend(self.assignment(child, depth + 1)),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => self.visit(child, depth + 1),
                "subshell" => {
                    self.unread("a command is followed by parentheses");
                    self.visit(child, depth + 1);
                }
                "comment" => {}
                _ => {
                    self.visit(child, depth + 1);
                    words.push(Word::decode(child, self.source));
                }
            }
        }
        for child in words_after_redirects(node) {
            self.visit(child, depth + 1);
            words.push(Word::decode(child, self.source));
        }
        if words.iter().any(|word| word.raw.starts_with(|c: char| c.is_ascii_whitespace())) {
            // The grammar takes a line end before an escaped letter for a part of the word. The shell ends the command there.
            self.unread("a command seems to go on over the end of a line");
        }
        // The grammar takes `time` for an ordinary program, so the words after it are a command too.
        let mut named = words.iter().skip_while(|word| matches!(word.raw.as_str(), "time" | "-p"));
        if words.is_empty() {
            return;
        }
        if named.next().is_none_or(|word| grammar::RESERVED.contains(&word.raw.as_str())) {
            self.unread("a word that is reserved for the grammar stands for a command");
        }
        let rounds = self.with_known(words);
        let before = self.input.clone();
        self.input = self.given(node).or_else(|| before.clone());
        // In `command cd x`, `time cd x` and `eval "cd x"`, the `cd` is an argument or hidden in one.
        let mut leaves = false;
        let several = rounds.len() > 1;
        for words in rounds {
            leaves |= unwrap::is_launcher(&words)
                && words[1..].iter().chain(words.first()).any(|w| w.text == "eval" || text_has_cd(&w.text));
            // Each round of a loop starts in the directory in which the previous round ended.
            leaves |= several && words.iter().any(|w| text_has_cd(&w.text));
            self.change_dir(&words);
            self.add(words, assigns.clone());
        }
        self.input = before;
        if leaves {
            self.dirs = None;
            self.moved = None;
        }
    }

    /// Returns the text of a here-document or here-string among the children of a node.
    fn given(&self, node: Node<'_>) -> Option<String> {
        let last = children(node)
            .into_iter()
            .rfind(|child| matches!(child.kind(), "herestring_redirect" | "heredoc_redirect"))?;
        let inner = children(last);
        if last.kind() == "heredoc_redirect" {
            let body = inner.iter().find(|child| child.kind() == "heredoc_body");
            return Some(body.map_or_else(String::new, |body| text_of(*body, self.source).to_owned()));
        }
        inner.into_iter().rfind(Node::is_named).map(|word| Word::decode(word, self.source).text)
    }

    fn change_dir(&mut self, words: &[Word]) {
        self.moved = None;
        let Some(name) = words.first().filter(|w| w.is_literal()) else { return };
        if !matches!(name.text.as_str(), "cd" | "pushd" | "popd") {
            return;
        }
        let there = match &words[1..] {
            [to] if to.is_literal() && name.text != "popd" && !to.text.starts_with(['-', '+']) => {
                self.led_to(&to.text)
            }
            [] if name.text == "cd" => Some(vec![self.paths.home.to_path_buf()]),
            _ => None,
        };
        self.dirs = union(self.dirs.take(), there.clone());
        self.moved = Some(there);
    }

    /// Returns the directories to which `cd` may lead. Bash resolves `..` by the text of the path, other programs by the real
    /// parent folder, so both results count. After a `cd` through a link, neither is known.
    fn led_to(&mut self, to: &str) -> Dirs {
        let up = to.split('/').any(|part| part == "..");
        if up && self.linked {
            return None;
        }
        let mut out = Vec::new();
        for dir in self.dirs.as_ref()? {
            let path = self.paths.join(dir, to);
            let text = becket_types::lexical(&dir.join(to));
            self.linked |= !to.starts_with('~') && path != text;
            if up {
                out.push((self.paths.resolve)(&text));
            }
            out.push(path);
        }
        Some(out)
    }

    fn redirect(&mut self, node: Node<'_>, depth: usize) {
        let mut operator = "";
        let mut has_target = false;
        for child in children(node) {
            if child.kind() == "file_descriptor" {
                if !text_of(child, self.source).chars().all(|c| c.is_ascii_digit()) {
                    self.doubt("a redirection may set a variable or evaluate a subscript ({name}>)");
                }
                continue;
            }
            if !child.is_named() {
                operator = child.kind();
                continue;
            }
            if self.source.get(node.start_byte()..child.start_byte()).is_none_or(|gap| gap.contains('\n')) {
                self.unread("a redirection is cut by the end of a line");
            }
            // Further words belong to the command, if it directly precedes them.
            if has_target || operator.ends_with('-') {
                if operator.ends_with('-') || !is_after_command(node) {
                    self.unread("words follow a redirection");
                }
                continue;
            }
            has_target = true;
            self.visit(child, depth + 1);
            let target = Word::decode(child, self.source);
            let duplicates = matches!(operator, ">&" | "<&" | ">&-" | "<&-")
                && target.is_literal()
                && target.text.trim_end_matches('-').chars().all(|c| c.is_ascii_digit());
            if duplicates {
                continue;
            }
            let write = !matches!(operator, "<" | "<&");
            for target in self.with_known(vec![target]).concat() {
                self.out.redirects.push(Redirect { target, write, dirs: self.dirs.clone() });
            }
        }
        if operator.is_empty() {
            self.unread("a redirection could not be read");
        }
    }

    fn heredoc(&mut self, node: Node<'_>, depth: usize) {
        // Quotes around the delimiter at the start of the redirect turn off expansions in the text.
        let start = node.parent().and_then(|p| children(p).into_iter().find(|c| c.kind() == "heredoc_start"));
        let mark = start.map_or("", |start| text_of(start, self.source));
        let quoted = mark.contains(['\'', '"', '\\']);
        let body = text_of(node, self.source);
        let ends = start.and_then(|start| self.source.get(start.end_byte()..)).unwrap_or("?").chars().next();
        let ended = ends.is_none_or(|c| c.is_ascii_whitespace() || ";&|<>)".contains(c));
        match grammar::delimiter(mark).filter(|_| ended) {
            // The grammar ended the text at another line than the shell would.
            Some(end) if !grammar::ends_here(node, end, self.source) => {
                self.unread("a here-document ends elsewhere for the shell");
            }
            Some(end) if !body.lines().any(|line| line.trim_start_matches('\t').starts_with(end)) => {}
            Some(_) => self.unread("a line inside a here-document begins like its end"),
            None => self.unread("the end mark of a here-document is not plain text"),
        }
        if !quoted && body.contains(['$', '`', '\\']) {
            self.doubt("a here-document expands variables or commands (quote its delimiter to prevent that)");
        }
        if !quoted {
            self.visit_all(node, depth);
        }
    }
}

fn text_has_cd(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| matches!(word, "cd" | "pushd" | "popd"))
}

fn union(a: Dirs, b: Dirs) -> Dirs {
    let (mut a, b) = (a?, b?);
    for dir in b {
        if !a.contains(&dir) {
            a.push(dir);
        }
    }
    (a.len() <= MAX_DIRS).then_some(a)
}
