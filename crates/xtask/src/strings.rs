//! The list of all strings that a user can see, so that a reviewer can read it in one sitting.
//!
//! Collects string literals with at least two words from the sources of the front ends, and the doc comments of every type
//! that derives one of clap's traits, because clap shows them as help. Each is listed with its file and the item that contains it. Line numbers are left out, so that the list changes
//! only with the strings. Tests and attributes for lints are skipped.
//!
//! `strings.txt` beside `Cargo.toml` is the list. `cargo xtask strings` compares it with the sources, and
//! `cargo xtask strings --update` writes it again. Strings that a user never sees (an SQL statement, a test pattern) may be
//! in the list: it is better to read one too many than to miss one.

use crate::{Problems, files, read};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

const LIST: &str = "crates/xtask/strings.txt";

/// Folders and files whose strings reach a user.
const SOURCES: &[&str] = &[
    "crates/becket/src",
    "crates/print/src",
    "crates/tui/src",
    "crates/config/src",
    "crates/guard/src",
    "crates/agent/src",
    "crates/model/src",
    "crates/mcp/src",
    "crates/hooks/src",
    "crates/sandbox/src",
    "crates/network/src",
    "crates/session/src",
    "crates/exchange/src",
    "crates/snapshot/src",
    "crates/files/src",
    "crates/tool/src",
    "crates/tool-shell/src",
    "crates/tool-edit/src",
    "crates/tool-web/src",
    "crates/tool-lsp/src",
];

/// Traits of clap whose derives turn doc comments into help.
const CLAP: &[&str] = &["Args", "Parser", "Subcommand", "ValueEnum"];

/// Words before the name of an item that may contain a string.
const ITEMS: &[&str] = &["fn", "const", "static", "enum", "struct"];

/// A string, and the item that contains it.
#[derive(Debug, PartialEq)]
struct Shown {
    item: String,
    text: String,
}

pub(crate) fn check(root: &Path) -> Result<Problems, String> {
    let (listed, found) = (read(&root.join(LIST))?, list(root)?);
    if listed == found {
        return Ok(Problems::new());
    }
    let mut problems = vec![format!("{LIST} differs from the sources; run: cargo xtask strings --update")];
    let new = found.lines().filter(|line| !listed.lines().any(|l| l == *line));
    problems.extend(new.take(20).map(|line| format!("  new: {}", line.trim())));
    Ok(problems)
}

pub(crate) fn update(root: &Path) -> Result<Problems, String> {
    let text = list(root)?;
    std::fs::write(root.join(LIST), &text).map_err(|e| format!("{LIST}: {e}"))?;
    println!("strings: {} in {LIST}", text.lines().filter(|line| line.starts_with("  ")).count());
    Ok(Problems::new())
}

fn list(root: &Path) -> Result<String, String> {
    let mut out = String::from(
        "# Strings that a user can see, by file and item. Written by `cargo xtask strings --update`.\n",
    );
    for source in SOURCES {
        let path = root.join(source);
        let paths = if path.is_file() { vec![path] } else { files(&path, &[".rs"])? };
        for path in paths {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            if name.ends_with("tests.rs") || name.contains("/tests/") {
                continue;
            }
            let found = strings(&read(&path)?);
            if found.is_empty() {
                continue;
            }
            let _ = writeln!(out, "\n{name}");
            for Shown { item, text } in found {
                let _ = writeln!(out, "  {item}: {text}");
            }
        }
    }
    Ok(out)
}

/// Strings of one source with at least two words, and its help texts, in order.
fn strings(source: &str) -> Vec<Shown> {
    let source = &source[..start_of_tests(source)];
    let help = help_ranges(source);
    let mut reader = Reader { rest: source, item: String::new(), word: String::new(), before: String::new() };
    let mut found = Vec::new();
    let mut doc = String::new();
    while let Some(token) = reader.next_token() {
        // One byte before the end of the token, so that the last comment of a range is still inside it.
        let at = (source.len() - reader.rest.len()).saturating_sub(1);
        match token {
            Token::Doc(line) if help.iter().any(|range| range.contains(&at)) => {
                let gap = if doc.is_empty() { "" } else { " " };
                doc = format!("{doc}{gap}{}", line.trim());
                continue;
            }
            Token::Text(text) if is_message(&text) && reader.before != "reason" => {
                found.push(Shown { item: reader.item.clone(), text });
            }
            Token::Doc(_) | Token::Text(_) => {}
            // White space between two lines of a doc comment does not end the comment.
            Token::Code(c) if c.is_whitespace() => continue,
            Token::Code(_) => {}
        }
        if !doc.is_empty() {
            let text = std::mem::take(&mut doc);
            let at = found.len() - usize::from(matches!(found.last(), Some(last) if last.text == text));
            found.insert(at, Shown { item: "help".to_owned(), text });
        }
    }
    found
}

/// Byte position at which the module with the tests begins, or the end of the source.
fn start_of_tests(source: &str) -> usize {
    let mut at = source.len();
    for (start, _) in source.match_indices("\n#[cfg(") {
        let Some((attribute, after)) = source[start + 1..].split_once('\n') else { continue };
        let declared = after.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
        if attribute.contains("test") && declared.starts_with("mod ") && after.contains('{') {
            at = at.min(start);
        }
    }
    at
}

/// Byte ranges of the types that derive a trait of clap, including the comments and attributes above them. A type ends with the
/// closing brace at its own indentation, or with its first line if that ends in a semicolon.
fn help_ranges(source: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let lines: Vec<(usize, &str)> = source
        .split_inclusive('\n')
        .scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some((start, line.trim_end()))
        })
        .collect();
    for (index, (_, line)) in lines.iter().enumerate() {
        let code = line.trim_start();
        if !code.strip_prefix("#[derive(").is_some_and(|names| {
            names
                .trim_end_matches([']', ')'])
                .split(", ")
                .any(|name| CLAP.contains(&name.trim_start_matches("clap::")))
        }) {
            continue;
        }
        let is_above = |line: &&(usize, &str)| {
            let code = line.1.trim_start();
            code.starts_with("///") || code.starts_with("#[")
        };
        let above = lines[..index].iter().rev().take_while(is_above).last();
        let start = above.map_or(lines[index].0, |(start, _)| *start);
        let indent = &line[..line.len() - code.len()];
        let end = lines[index..].iter().find(|(_, line)| {
            let own = line.strip_prefix(indent).unwrap_or_default();
            own == "}"
                || own.starts_with("pub") && own.ends_with(';')
                || own.starts_with("struct") && own.ends_with(';')
        });
        ranges.push(start..end.map_or(source.len(), |(start, line)| start + line.len()));
    }
    ranges
}

/// True for text with at least two words of two letters, and with a lower-case letter.
fn is_message(text: &str) -> bool {
    let word = |w: &&str| w.chars().filter(|c| c.is_alphabetic()).count() >= 2;
    text.split_whitespace().filter(word).count() >= 2 && text.chars().any(char::is_lowercase)
}

enum Token {
    Doc(String),
    Text(String),
    Code(char),
}

/// A minimal lexer: recognises comments, strings, characters and lifetimes, and takes everything else for code.
struct Reader<'a> {
    rest: &'a str,
    /// Name of the item whose definition began last.
    item: String,
    /// The identifier that is being read, as far as it is read.
    word: String,
    /// The identifier before the current one.
    before: String,
}

impl Reader<'_> {
    fn next_token(&mut self) -> Option<Token> {
        loop {
            let rest = self.rest;
            if let Some(comment) = rest.strip_prefix("//") {
                let (line, after) = comment.split_once('\n').unwrap_or((comment, ""));
                self.rest = after;
                if let Some(doc) = line.strip_prefix('/').filter(|doc| !doc.starts_with('/')) {
                    return Some(Token::Doc(doc.to_owned()));
                }
                continue;
            }
            if let Some(comment) = rest.strip_prefix("/*") {
                self.rest = comment.split_once("*/").map_or("", |(_, after)| after);
                continue;
            }
            if let Some(text) = self.raw_string().or_else(|| self.string()) {
                return Some(Token::Text(text));
            }
            // A character such as '"' must not open a string; a lifetime has no closing quote.
            if let Some(character) = rest.strip_prefix('\'') {
                let mut chars = character.chars();
                let first = chars.next()?;
                if first == '\\' {
                    let end = character.get(2..)?.find('\'')? + 3;
                    self.rest = character.get(end..)?;
                    continue;
                }
                if chars.next() == Some('\'') {
                    self.rest = character.get(first.len_utf8() + 1..)?;
                    continue;
                }
            }
            let c = rest.chars().next()?;
            self.rest = &rest[c.len_utf8()..];
            self.see(c);
            return Some(Token::Code(c));
        }
    }

    /// Follows identifiers, to know the name of the item.
    fn see(&mut self, c: char) {
        if c.is_alphanumeric() || c == '_' {
            self.word.push(c);
        } else if !self.word.is_empty() {
            let word = std::mem::take(&mut self.word);
            if ITEMS.contains(&self.before.as_str()) {
                self.item.clone_from(&word);
            }
            self.before = word;
        }
    }

    fn raw_string(&mut self) -> Option<String> {
        if !self.word.is_empty() {
            return None;
        }
        let start = self.rest.strip_prefix('b').unwrap_or(self.rest).strip_prefix('r')?;
        let marks = start.len() - start.trim_start_matches('#').len();
        let body = start.get(marks..)?.strip_prefix('"')?;
        let (text, after) = body.split_once(&format!("\"{}", "#".repeat(marks)))?;
        self.rest = after;
        Some(text.replace('\n', "\\n"))
    }

    /// Reads a string. A line break after a backslash disappears with the blanks after it, as in Rust.
    fn string(&mut self) -> Option<String> {
        let mut rest = self.rest.strip_prefix('"')?;
        let mut text = String::new();
        loop {
            let c = rest.chars().next()?;
            rest = &rest[c.len_utf8()..];
            match c {
                '"' => break,
                '\\' if rest.starts_with('\n') => rest = rest.trim_start(),
                '\\' => {
                    let escaped = rest.chars().next()?;
                    rest = &rest[escaped.len_utf8()..];
                    text.push('\\');
                    text.push(escaped);
                }
                '\n' => text.push_str("\\n"),
                c => text.push(c),
            }
        }
        self.rest = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        strings(source).into_iter().map(|shown| format!("{}: {}", shown.item, shown.text)).collect()
    }

    #[test]
    fn strings_have_the_item_that_contains_them() {
        let source = "const HELP: &str = \"Describe a task\";\nfn f<'a>(x: &'a str) {\n  // \"not this one\"\n  let c = '\"';\n  \
                      print(\"No key was \\\n     found.\\n\"); g(\"word\"); h(r#\"a \"raw\" one\"#);\n}\n";
        assert_eq!(found(source), ["HELP: Describe a task", "f: No key was found.\\n", "f: a \"raw\" one"]);
    }

    #[test]
    fn lint_reasons_tests_and_single_words_are_left_out() {
        let source = "#[expect(lint, reason = \"a long reason\")]\nfn f() { g(\"SELECT A FROM B\", '\\'', \"json\"); }\n\
                      #[cfg(test)]\nmod tests {\n fn t() { g(\"in a test\") }\n}\n";
        assert_eq!(found(source), Vec::<String>::new());
    }

    #[test]
    fn doc_comments_count_only_in_types_of_clap() {
        let args = "struct Args {\n    /// Prints the answer\n    /// and exits.\n    print: bool,\n}\n\n/// Makes a thing.\nfn f() {}\n";
        assert_eq!(found(args), Vec::<String>::new());
        let derived = format!("/// All the options.\n#[derive(Debug, Args)]\n#[command(flatten)]\n{args}");
        assert_eq!(found(&derived), ["help: All the options.", "help: Prints the answer and exits."]);
        let inner = "mod a {\n    #[derive(clap::Subcommand)]\n    enum What {\n        /// List the keys.\n        List {\n        },\n        \
                     /// Show one key.\n        Show,\n    }\n    /// Not a help text.\n    fn f() {}\n}\n";
        assert_eq!(found(inner), ["help: List the keys.", "help: Show one key."]);
        let unit = "#[derive(Parser)]\npub(crate) struct Nothing;\n/// Makes a thing.\nfn f() {}\n";
        assert_eq!(found(unit), Vec::<String>::new());
    }

    #[test]
    fn modules_with_tests_are_left_out_under_every_condition() {
        let source = "fn f() { g(\"seen by users\") }\n#[cfg(all(test, unix))]\npub(crate) mod tests {\n fn t() { g(\"in a test\") }\n}\n";
        assert_eq!(found(source), ["f: seen by users"]);
    }
}
