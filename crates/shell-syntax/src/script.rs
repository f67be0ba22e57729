//! The walk over a parsed script: every simple command with the directories it may run in, every file that a redirect
//! opens, and every doubt.
//!
//! Arithmetic deserves a note: bash evaluates the *contents* of variables in arithmetic, subscripts included, so
//! `$((x))` can run a command that is nowhere in the text. Arithmetic on anything but numbers is therefore a doubt, and
//! so are the other forms that evaluate text (`${x@P}`, `${!x}`, `[[ x -eq y ]]`, `-v`).

mod redirects;
mod values;

use crate::word::{Known, Word, text_of};
use crate::{unwrap, vars};
use redirects::{is_after_command, words_after_redirects};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tree_sitter::{Node, Parser};

/// Longer scripts are not judged: becket asks about them.
pub const MAX_CHARS: usize = 10_000;
/// Longer scripts are not parsed at all.
const MOST_CHARS: usize = 200_000;
const MAX_DEPTH: usize = 200;
const MAX_DIRS: usize = 8;
/// Rounds of loops that are judged one by one; with more, the loop's variable is not known.
const MAX_ROUNDS: usize = 256;

/// The directories in which a command may run: all that are possible at that point; `None` if they cannot be known.
pub type Dirs = Option<Vec<PathBuf>>;

/// One program call.
#[derive(Clone, Debug)]
pub struct Simple {
    pub words: Vec<Word>,
    /// `NAME=value` before the name.
    pub assigns: Vec<String>,
    pub dirs: Dirs,
    /// Text on its standard input, from a here-document or a here-string, as written.
    pub input: Option<String>,
    /// True if its standard input is a pipe.
    pub piped: bool,
}

/// A file that a redirect opens.
#[derive(Clone, Debug)]
pub struct Redirect {
    pub target: Word,
    pub write: bool,
    pub dirs: Dirs,
}

#[derive(Clone, Debug, Default)]
pub struct Script {
    pub commands: Vec<Simple>,
    pub redirects: Vec<Redirect>,
    /// Variables that the script sets, with the values as far as they are known, in the order of the text.
    pub assigns: Vec<(String, Word)>,
    /// Reasons why the script cannot be understood reliably, each in a few words.
    pub doubts: Vec<String>,
    /// True if a part could not be parsed: its effects may be missing above.
    pub unread: bool,
}

/// Resolves the paths of a script.
pub struct Paths<'a> {
    pub home: &'a Path,
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
    let mut out = Script { unread: true, ..Script::default() };
    if source.chars().count() > most {
        out.doubts.push(format!("it is longer than {most} characters"));
        return out;
    }
    if let Some(c) = source.chars().find(|c| is_odd(*c)) {
        out.doubts.push(format!(
            "it holds the character U+{:04X}, which shells and people read differently",
            c as u32
        ));
    }
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
        out.doubts.push("the shell grammar could not be loaded".to_owned());
        return out;
    }
    let Some(masked) = mask(source) else {
        out.doubts.push("it uses every letter beside characters that are not ASCII".to_owned());
        return out;
    };
    let Some(tree) = parser.parse(&masked, None) else {
        out.doubts.push("it could not be parsed".to_owned());
        return out;
    };
    if names_descriptor(source) {
        out.doubts.push("a redirection may set a variable or evaluate a subscript ({name}>)".to_owned());
    }
    let root = tree.root_node();
    out.unread = root.has_error();
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

/// True if a redirection may directly follow a closing brace. Bash takes `{name}>file` as an assignment of the new
/// descriptor to `name`, which may be `PATH` or an array element whose subscript is evaluated. Examines only the text,
/// quoted or not, because the grammar takes such a name for an ordinary word.
fn names_descriptor(source: &str) -> bool {
    let text = source.replace("\\\n", "");
    let mut after_brace = false;
    for c in text.chars() {
        if after_brace && matches!(c, '<' | '>') {
            return true;
        }
        after_brace = c == '}' || (after_brace && c == '&');
    }
    false
}

/// True if a substitution in backquotes is parsed once more after its backslashes are removed.
fn has_escapes(text: &str) -> bool {
    text.starts_with('`') && [r"\\", r"\`", r"\$"].iter().any(|escape| text.contains(escape))
}

/// Control and format characters, and white space that the grammar and bash may interpret differently.
fn is_odd(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || (c.is_whitespace() && !c.is_ascii())
        || matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns `source` with every character that is not plain ASCII replaced by a letter that does not occur in it. The
/// replacement has the same number of bytes, so that positions in the tree are positions in the source.
///
/// The grammar's scanner (tree-sitter-bash 0.25.1) looks characters up in a C table without checking their range: `{`
/// followed by a character of a high plane ends the process. To bash these characters are ordinary parts of words, like
/// the letter. The letter must be new, because otherwise a here-document could seem to end early.
fn mask(source: &str) -> Option<String> {
    let plain = |c: char| c == '\n' || c == '\t' || (c.is_ascii() && !c.is_ascii_control());
    if source.chars().all(plain) {
        return Some(source.to_owned());
    }
    let letter = ('a'..='z').chain('A'..='Z').rev().find(|l| !source.contains(*l))?;
    let mut out = String::with_capacity(source.len());
    for c in source.chars() {
        if plain(c) {
            out.push(c);
        } else {
            out.extend(std::iter::repeat_n(letter, c.len_utf8()));
        }
    }
    Some(out)
}

struct Walker<'a> {
    source: &'a str,
    out: Script,
    dirs: Dirs,
    /// Variables that a `for` or an assignment gives known values.
    known: BTreeMap<String, Vec<Word>>,
    paths: &'a Paths<'a>,
    /// The directories after the preceding `cd` if it succeeds.
    moved: Option<Dirs>,
    /// True if a `cd` went through a symbolic link.
    linked: bool,
    /// Standard input of the commands that are visited now: the text, and true for a pipe.
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
        self.out.unread = true;
        self.doubt(what);
    }

    /// Adds a command that runs at this place of the script.
    fn add(&mut self, words: Vec<Word>, assigns: Vec<String>) {
        let (dirs, input) = (self.dirs.clone(), self.input.clone());
        self.out.commands.push(Simple { words, assigns, dirs, input, piped: self.piped });
    }

    fn children(node: Node<'_>) -> Vec<Node<'_>> {
        let mut cursor = node.walk();
        node.children(&mut cursor).collect()
    }

    fn visit(&mut self, node: Node<'_>, depth: usize) {
        if depth > MAX_DEPTH {
            return self.unread("it is nested too deeply");
        }
        if !node.is_named() {
            return;
        }
        self.gaps(node);
        self.words_apart(node);
        self.hidden(node);
        if text_of(node, self.source).starts_with("((") {
            self.doubt("arithmetic on variables evaluates what they hold, and sets them");
        }
        match node.kind() {
            "comment" => self.comment(node),
            "ansi_c_string" if !ends_as_in_bash(text_of(node, self.source)) => {
                self.unread("a quoted text ends elsewhere for the shell");
            }
            "file_descriptor"
            | "heredoc_start"
            | "heredoc_end"
            | "heredoc_content"
            | "string_content"
            | "raw_string"
            | "ansi_c_string"
            | "word"
            | "number"
            | "variable_name"
            | "special_variable_name"
            | "regex"
            | "extglob_pattern"
            | "test_operator" => {
                if node.named_child_count() > 0 {
                    self.visit_all(node, depth);
                }
            }
            "while_statement" => self.rounds(&[node], depth),
            "program" | "compound_statement" | "do_group" | "else_clause" | "elif_clause"
            | "if_statement" | "case_statement" | "case_item" | "negated_command" => {
                self.block(node, depth);
            }
            "command_substitution" if has_escapes(text_of(node, self.source)) => {
                self.unread("it escapes characters inside backquotes, which makes other commands of them");
                self.apart(node, depth);
            }
            "subshell" | "command_substitution" | "process_substitution" => self.apart(node, depth),
            "pipeline" => {
                let before = (self.input.clone(), self.piped);
                for child in Self::children(node) {
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
                for child in Self::children(node) {
                    self.piped = before.1 || child.kind() == "pipeline";
                    self.visit(child, depth + 1);
                }
                (self.input, self.piped) = before;
            }
            "heredoc_body" => self.heredoc(node, depth),
            "herestring_redirect"
            | "string"
            | "concatenation"
            | "translated_string"
            | "command_name"
            | "array"
            | "unary_expression"
            | "parenthesized_expression" => self.visit_all(node, depth),
            "binary_expression" => self.comparison(node, depth),
            "brace_expression" => {}
            "simple_expansion" => {}
            "expansion" => self.expansion(node, depth),
            "arithmetic_expansion" => self.arithmetic(node, depth),
            "variable_assignments" => self.visit_all(node, depth),
            "variable_assignment" => {
                self.assignment(node, depth);
            }
            "declaration_command" => self.declaration(node, depth),
            "unset_command" => self.unset(node),
            "test_command" => self.test(node, depth),
            "for_statement" => self.for_loop(node, depth),
            "c_style_for_statement" => {
                self.doubt("it uses a C-style for loop, whose arithmetic can run commands");
                self.visit_all(node, depth);
            }
            "function_definition" => {
                // The name may be that of a command that is judged by its name later.
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

    /// Checks that the tree accounts for all of the text. The grammar can continue over the end of a line without
    /// marking an error (seen with pipes before a here-document), and take the next command for arguments.
    fn gaps(&mut self, node: Node<'_>) {
        let one_line = matches!(
            node.kind(),
            "command"
                | "declaration_command"
                | "unset_command"
                | "negated_command"
                | "variable_assignment"
                | "variable_assignments"
                | "file_redirect"
                | "herestring_redirect"
        );
        let statement = one_line
            || matches!(
                node.kind(),
                "program"
                    | "compound_statement"
                    | "do_group"
                    | "else_clause"
                    | "elif_clause"
                    | "if_statement"
                    | "while_statement"
                    | "for_statement"
                    | "case_statement"
                    | "case_item"
                    | "subshell"
                    | "pipeline"
                    | "command_substitution"
                    | "process_substitution"
                    | "list"
                    | "redirected_statement"
                    | "function_definition"
                    | "test_command"
            );
        if !statement || node.child_count() == 0 {
            return;
        }
        let mut at = node.start_byte();
        let ends = Self::children(node).into_iter().map(|c| (c.kind(), c.start_byte(), c.end_byte()));
        for (kind, start, end) in ends.chain([("", node.end_byte(), node.end_byte())]) {
            let gap = self.source.get(at..start).unwrap_or("?").replace("\\\n", "");
            let joins = matches!(kind, "|" | "|&" | "&&" | "||" | "file_redirect" | "herestring_redirect");
            if gap.contains(|c: char| !matches!(c, ' ' | '\t' | '\n')) {
                self.unread("a part of it was not read");
            }
            if matches!(kind, ";;" | ";&" | ";;&") && node.kind() != "case_item" {
                self.unread("the end of a case stands outside of one");
            }
            if gap.contains('\n') && !kind.is_empty() && (one_line || joins) {
                self.unread("a command seems to go on over the end of a line");
            }
            at = end;
        }
    }

    /// Handles words that the grammar splits by mistake. It ends a word after a quote if an escaped letter follows
    /// (`'a'\n'b'`). For the shell, text without a blank in between is one word.
    fn words_apart(&mut self, node: Node<'_>) {
        if is_word(node.kind()) {
            return;
        }
        let children = Self::children(node);
        for pair in children.windows(2) {
            let [before, after] = pair else { continue };
            let ends_a_word = is_word(before.kind())
                || matches!(before.kind(), "variable_assignment" | "file_redirect" | "herestring_redirect");
            let gap = self.source.get(before.end_byte()..after.start_byte()).unwrap_or_default();
            if ends_a_word && is_word(after.kind()) && gap.replace("\\\n", "").is_empty() {
                self.unread("words that stand together without a blank were read apart");
            }
        }
    }

    /// Finds backquotes that the grammar takes for text, in patterns and other places. The shell runs their contents.
    fn hidden(&mut self, node: Node<'_>) {
        let kind = node.kind();
        if !matches!(
            kind,
            "word"
                | "number"
                | "regex"
                | "extglob_pattern"
                | "test_operator"
                | "string"
                | "concatenation"
                | "translated_string"
                | "brace_expression"
        ) {
            return;
        }
        let mut pieces = String::new();
        let mut at = node.start_byte();
        for child in Self::children(node).into_iter().filter(|c| c.is_named() && c.kind() != "string_content")
        {
            pieces.push_str(self.source.get(at..child.start_byte()).unwrap_or_default());
            pieces.push(' ');
            at = child.end_byte();
        }
        pieces.push_str(self.source.get(at..node.end_byte()).unwrap_or_default());
        let mut escaped = false;
        let mut before = ' ';
        for c in pieces.chars() {
            let opens =
                (c == '(' && matches!(before, '$' | '<' | '>') && !(kind == "string" && before != '$'))
                    || (matches!(c, '{' | '[') && before == '$');
            if !escaped && (c == '`' || opens) {
                return self.unread("a pattern or a word holds a command that could not be read");
            }
            before = if escaped { ' ' } else { c };
            escaped = c == '\\' && !escaped;
        }
    }

    /// Handles a comment of the grammar. A `#` starts a comment only at the start of a word. After a continued line or
    /// an escaped blank, the shell takes the `#` for a letter of the word and runs the text after it.
    fn comment(&mut self, node: Node<'_>) {
        let before = self.source.get(..node.start_byte()).unwrap_or("?");
        let blank = before.chars().next_back();
        let escapes = before.chars().rev().skip(1).take_while(|c| *c == '\\').count();
        let starts = blank.is_none_or(|c| c.is_ascii_whitespace() || ";&|()".contains(c));
        if !starts || escapes % 2 == 1 {
            self.unread("what looks like a comment may be a part of a word");
        }
    }

    fn visit_all(&mut self, node: Node<'_>, depth: usize) {
        for child in Self::children(node) {
            self.visit(child, depth + 1);
        }
    }

    /// Handles consecutive statements: each of them may have changed the directory or failed to change it.
    fn block(&mut self, node: Node<'_>, depth: usize) {
        for child in Self::children(node) {
            let start = self.dirs.clone();
            self.visit(child, depth + 1);
            self.dirs = union(start, self.dirs.take());
        }
    }

    /// Handles blocks that are repeated: each round starts in the directory in which the previous round ended. If a
    /// block may change the directory, the blocks are read with unknown directories.
    fn rounds(&mut self, nodes: &[Node<'_>], depth: usize) {
        let (commands, redirects) = (self.out.commands.len(), self.out.redirects.len());
        let before = self.dirs.clone();
        for node in nodes {
            self.block(*node, depth);
        }
        if self.dirs != before {
            self.out.commands.truncate(commands);
            self.out.redirects.truncate(redirects);
            self.dirs = None;
            for node in nodes {
                self.block(*node, depth);
            }
            self.dirs = None;
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
        for child in Self::children(node) {
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
                    // Only for a lone `cd` does success say where the next part runs.
                    if !matches!(kind, "command" | "redirected_statement" | "list") {
                        self.moved = None;
                    }
                }
            }
            if !child.is_named() {
                operator = child.kind();
            }
        }
        // A list succeeds with its last part, unless that part did not have to run.
        if operator != "&&" {
            self.moved = None;
        }
    }

    fn command(&mut self, node: Node<'_>, depth: usize) {
        let (mut words, mut assigns) = (Vec::new(), Vec::new());
        for child in Self::children(node) {
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
            // The grammar takes the end of the line before an escaped letter for a part of the word.
            self.unread("a command seems to go on over the end of a line");
        }
        // The grammar does not know `time`, so what follows it is a command, too.
        let mut named = words.iter().skip_while(|word| matches!(word.raw.as_str(), "time" | "-p"));
        if words.is_empty() {
            return;
        }
        if named.next().is_none_or(|word| RESERVED.contains(&word.raw.as_str())) {
            self.unread("a word that is reserved for the grammar stands for a command");
        }
        let rounds = self.with_known(words);
        let before = self.input.clone();
        self.input = self.given(node).or_else(|| before.clone());
        // `command cd x`, `time cd x`, `eval "cd x"`: here the name may be hidden in text.
        let mut leaves = false;
        let several = rounds.len() > 1;
        for words in rounds {
            leaves |= unwrap::is_launcher(&words)
                && words[1..].iter().chain(words.first()).any(|w| w.text == "eval" || text_has_cd(&w.text));
            // Each round of a loop starts where the one before ended.
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
        let last = Self::children(node)
            .into_iter()
            .rfind(|child| matches!(child.kind(), "herestring_redirect" | "heredoc_redirect"))?;
        let inner = Self::children(last);
        if last.kind() == "heredoc_redirect" {
            let body = inner.iter().find(|child| child.kind() == "heredoc_body");
            return Some(body.map_or_else(String::new, |body| text_of(*body, self.source).to_owned()));
        }
        inner.into_iter().rfind(Node::is_named).map(|word| Word::decode(word, self.source).text)
    }

    /// Puts the values of loop variables in place of `"$f"`, where all of them are known: one command for each round of the
    /// loop. A value must never stand beside another one, or the second would be judged as an operand of the first.
    fn with_known(&self, words: Vec<Word>) -> Vec<Vec<Word>> {
        let mut rounds = vec![words];
        let mut done: Vec<String> = Vec::new();
        loop {
            let next = rounds[0].iter().find_map(|word| {
                let name = word.variable.as_ref().filter(|name| !done.contains(name))?;
                Some((name.clone(), self.known.get(name)?))
            });
            let Some((name, values)) = next else { return rounds };
            if rounds.len() * values.len() > MAX_ROUNDS {
                return rounds;
            }
            rounds = rounds
                .iter()
                .flat_map(|words| {
                    values.iter().map(|value| {
                        let put = |word: &Word| {
                            if word.variable.as_ref() == Some(&name) { value } else { word }.clone()
                        };
                        words.iter().map(put).collect()
                    })
                })
                .collect();
            done.push(name);
        }
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

    /// Returns the directories to which `cd` leads. Bash resolves `..` by the text of the path, other programs by the
    /// real parent folder. Both count, and after a link neither can be known.
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
        for child in Self::children(node) {
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
        // The start of the redirect shows if the delimiter was quoted.
        let start =
            node.parent().and_then(|p| Self::children(p).into_iter().find(|c| c.kind() == "heredoc_start"));
        let mark = start.map_or("", |start| text_of(start, self.source));
        let quoted = mark.contains(['\'', '"', '\\']);
        let body = text_of(node, self.source);
        let ends = start.and_then(|start| self.source.get(start.end_byte()..)).unwrap_or("?").chars().next();
        let ended = ends.is_none_or(|c| c.is_ascii_whitespace() || ";&|<>)".contains(c));
        match delimiter(mark).filter(|_| ended) {
            // The grammar may look for another delimiter than the shell.
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

    fn for_loop(&mut self, node: Node<'_>, depth: usize) {
        let mut values = Vec::new();
        let mut name = String::new();
        let mut bodies = Vec::new();
        for child in Self::children(node) {
            match child.kind() {
                "variable_name" => text_of(child, self.source).clone_into(&mut name),
                "do_group" | "compound_statement" => bodies.push(child),
                _ if child.is_named() => {
                    self.visit(child, depth + 1);
                    values.push(Word::decode(child, self.source));
                }
                _ => {}
            }
        }
        if !vars::may_set(&name) {
            self.doubt(format!("it sets {name}, which other programs obey"));
        }
        let followed = !values.is_empty()
            && !self.known.contains_key(&name)
            && values.iter().all(|v| matches!(v.known, Known::Literal | Known::Glob))
            && !set_elsewhere(self.source, &name);
        let unknown = vec![Word { known: Known::Dynamic, ..Word::literal("$?") }];
        self.known.insert(name, if followed { values } else { unknown });
        self.rounds(&bodies, depth + 1);
    }
}

/// True if `$'…'` ends where bash ends it. The grammar takes the longest text that ends with a quote, and a backslash before
/// a quote for an escape even if it is escaped itself.
fn ends_as_in_bash(text: &str) -> bool {
    let Some(body) = text.strip_prefix("$'") else { return false };
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '\'' => return chars.as_str().is_empty(),
            _ => {}
        }
    }
    false
}

/// Words that bash takes for no command where one may begin. The grammar does, where it expects none of them.
const RESERVED: &[&str] = &[
    "then", "else", "elif", "fi", "do", "done", "esac", "{", "}", "if", "in", "case", "for", "while",
    "until", "select", "function", "[[",
];

/// True for nodes that are a word or a part of one.
fn is_word(kind: &str) -> bool {
    matches!(
        kind,
        "word"
            | "number"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "concatenation"
            | "command_name"
            | "simple_expansion"
            | "expansion"
            | "arithmetic_expansion"
            | "command_substitution"
            | "process_substitution"
            | "brace_expression"
            | "regex"
            | "extglob_pattern"
            | "variable_name"
            | "special_variable_name"
            | "test_operator"
    )
}

fn text_has_cd(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| matches!(word, "cd" | "pushd" | "popd"))
}

/// True if anything in the script except this loop may set `name`: the name occurs somewhere without `$` before it.
fn set_elsewhere(source: &str, name: &str) -> bool {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = source.match_indices(name).filter(|(at, _)| {
        let (before, after) = (&source[..*at], &source[at + name.len()..]);
        let whole = !before.ends_with(of_a_name) && !after.starts_with(of_a_name);
        let read = before.ends_with('$') || (before.ends_with("${") && after.starts_with('}'));
        whole && !read
    });
    named.count() != 1 || source.contains("read ")
}

/// Returns the delimiter of a here-document, if it is plain text, quoted or not.
fn delimiter(mark: &str) -> Option<&str> {
    let quoted = |quote: char| mark.strip_prefix(quote).and_then(|m| m.strip_suffix(quote));
    let inner = quoted('\'').or_else(|| quoted('"')).or_else(|| mark.strip_prefix('\\')).unwrap_or(mark);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '!' | '@' | '%' | '+');
    (!inner.is_empty() && inner.chars().all(plain)).then_some(inner)
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
