//! One word of a shell command: the text that bash will pass to the program, as far as it can be known from the source.
//!
//! A word is decoded like in bash (quotes, backslashes, `$'…'`). A part that depends on the environment (a variable, a
//! substitution, a brace or tilde form) makes the word [`Known::Dynamic`]: its text allows no conclusions. Any form
//! that the grammar and bash could interpret differently also counts as dynamic.

use std::ops::Range;
use tree_sitter::Node;

/// The degree to which a word is known before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// The program gets exactly `text`.
    Literal,
    /// `text` is a file name pattern; the program gets the matching names.
    Glob,
    /// `<(…)`: the program gets a pipe; the commands inside are judged on their own.
    Pipe,
    /// The result can be anything.
    Dynamic,
}

/// One word of a command, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The decoded text, with unknown parts as written.
    pub text: String,
    /// The word as written in the script.
    pub raw: String,
    pub known: Known,
    /// The name of the variable, if the whole word is one plain expansion in double quotes (`"$f"`).
    pub variable: Option<String>,
    /// Names of the plain variables in the word; `None` if it contains anything else that is dynamic.
    pub variables: Option<Vec<String>>,
    /// True if the word is one argument in any case: no part of it is split into words or matched against file names.
    pub single: bool,
    /// The parts of `text` that stand for values of variables, in order; `None` if anything else must be evaluated.
    pub expansions: Option<Vec<Expansion>>,
}

/// A part of a word's text that stands for the value of a variable. A tilde stands for `HOME`.
#[derive(Clone, Debug, PartialEq)]
pub struct Expansion {
    /// Range of bytes in [`Word::text`].
    pub place: Range<usize>,
    /// Name of the variable.
    pub variable: String,
}

impl Word {
    /// A word that is known: `text` as one argument, without quotes or patterns to interpret.
    pub fn literal(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            raw: text.to_owned(),
            known: Known::Literal,
            variable: None,
            variables: Some(Vec::new()),
            single: true,
            expansions: Some(Vec::new()),
        }
    }

    /// A word that stands for the unknown value of a variable.
    pub(crate) fn of_unknown(variable: &str) -> Self {
        Self { known: Known::Dynamic, variables: Some(vec![variable.to_owned()]), ..Self::literal("$?") }
    }

    /// True if the program gets exactly `text`.
    pub fn is_literal(&self) -> bool {
        self.known == Known::Literal
    }

    /// Decodes an argument, a name or a redirect target.
    pub(crate) fn decode(node: Node<'_>, source: &str) -> Self {
        let raw = text_of(node, source).to_owned();
        let mut word = Self {
            text: String::new(),
            raw,
            known: Known::Literal,
            variable: None,
            variables: Some(Vec::new()),
            single: true,
            expansions: Some(Vec::new()),
        };
        word.push(node, source, 0);
        let own_home = matches!(word.raw.as_bytes(), [b'~'] | [b'~', b'/', ..]);
        // A quoted tilde is an ordinary letter, but callers that resolve `text` would take it for the home folder.
        if !own_home && word.raw.starts_with('~') {
            word.opaque();
        } else if !own_home && word.text.starts_with('~') {
            word.dynamic();
        }
        match expands_unquoted(&word.raw) {
            Some(Unquoted::Braces) => word.opaque(),
            Some(Unquoted::Tilde) => word.dynamic(),
            None => {}
        }
        word.variable = whole_variable(&word);
        word
    }

    /// Returns the value that an assignment of this word gives a variable. `variable` returns the value of a variable; a
    /// missing one counts as empty. `None` if the value depends on more than variables, such as the output of a command.
    ///
    /// Unlike an argument, an assigned value is not split or matched against file names, and a tilde after `:` is expanded.
    pub fn value(&self, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let mut value = String::new();
        let mut at = 0;
        for Expansion { place, variable: name } in self.expansions.as_ref()? {
            value.push_str(self.text.get(at..place.start)?);
            value.push_str(&variable(name).unwrap_or_default());
            at = place.end;
        }
        value.push_str(self.text.get(at..)?);
        Some(value)
    }

    /// Marks the word as one whose text allows no conclusions. [`Word::expansions`] stays valid.
    fn dynamic(&mut self) {
        self.known = Known::Dynamic;
        self.variables = None;
        self.single = false;
    }

    /// Like [`Self::dynamic`], if even the places of variables in the text are uncertain.
    fn opaque(&mut self) {
        self.dynamic();
        self.expansions = None;
    }

    /// Records that the text from `start` to its present end stands for the value of a variable.
    fn expands(&mut self, start: usize, variable: &str) {
        let place = start..self.text.len();
        if let Some(expansions) = &mut self.expansions {
            expansions.push(Expansion { place, variable: variable.to_owned() });
        }
    }

    fn raise(&mut self, known: Known) {
        self.known = self.known.max(known);
    }

    fn push(&mut self, node: Node<'_>, source: &str, depth: usize) {
        let text = text_of(node, source);
        if depth > 64 {
            self.text.push_str(text);
            return self.opaque();
        }
        match node.kind() {
            "command_name" => self.push_children(node, source, depth),
            "word" | "number" | "variable_name" | "special_variable_name" | "test_operator" => {
                if node.named_child_count() == 0 {
                    self.push_plain(text);
                } else {
                    self.push_opaque(text);
                }
            }
            "concatenation" => self.push_children(node, source, depth),
            "string" => self.push_string(node, source),
            "raw_string" => {
                self.text
                    .push_str(text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).unwrap_or(text));
            }
            "ansi_c_string" => match ansi_c(text) {
                Some(decoded) => self.text.push_str(&decoded),
                None => self.push_opaque(text),
            },
            // These values are numbers, which the shell does not split.
            "simple_expansion" if matches!(text, "$?" | "$#" | "$$") => self.push_variable(text),
            "simple_expansion" => {
                self.single = false;
                self.push_variable(text);
            }
            "expansion" if is_name(text.trim_start_matches("${").trim_end_matches('}')) => {
                self.single = false;
                self.push_variable(text);
            }
            "process_substitution" if text.starts_with('<') && self.text.is_empty() => {
                self.text.push_str(text);
                self.raise(Known::Pipe);
                self.expansions = None;
            }
            // The output is unknown; the commands inside are judged separately.
            "command_substitution" => {
                self.single = false;
                self.text.push_str(text);
                self.raise(Known::Dynamic);
                self.expansions = None;
            }
            "==" | "=~" | "=" => self.text.push_str(text),
            _ => self.push_opaque(text),
        }
    }

    fn push_children(&mut self, node: Node<'_>, source: &str, depth: usize) {
        let mut at = node.start_byte();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            if child.start_byte() != at {
                self.opaque();
            }
            at = child.end_byte();
            self.push(child, source, depth + 1);
        }
        if at != node.end_byte() {
            self.opaque();
        }
    }

    fn push_opaque(&mut self, text: &str) {
        self.text.push_str(text);
        self.opaque();
    }

    fn push_variable(&mut self, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.raise(Known::Dynamic);
        let name = text.trim_matches(|c| matches!(c, '$' | '{' | '}'));
        if is_name(name) {
            self.expands(start, name);
        } else {
            // `$?`, `$1` and the like are not variables that can be looked up.
            self.expansions = None;
        }
        if let Some(names) = &mut self.variables {
            names.push(name.to_owned());
        }
    }

    /// Adds unquoted text.
    fn push_plain(&mut self, text: &str) {
        let mut chars = text.chars();
        // In an assigned value, the shell expands a tilde at the beginning and after a colon.
        let is_first = self.text.is_empty() && self.raw.starts_with('~');
        let mut before = if is_first { ':' } else { ' ' };
        while let Some(c) = chars.next() {
            let starts = before == ':';
            before = if c == '\\' { ' ' } else { c };
            match c {
                '\\' => match chars.next() {
                    Some('\n') | None => {}
                    Some(next) => self.text.push(next),
                },
                '~' if starts => {
                    let start = self.text.len();
                    self.text.push(c);
                    match chars.as_str().as_bytes() {
                        [b'/' | b':', ..] => self.expands(start, "HOME"),
                        // The tilde ends the word. If quotes follow it, `raw` does not end with the tilde, and bash does not expand
                        // it.
                        [] if self.raw.ends_with('~') && self.raw.matches('~').count() == 1 => {
                            self.expands(start, "HOME");
                        }
                        // The home folder of another user, as in `~name`.
                        _ => self.expansions = None,
                    }
                }
                '*' | '?' | '[' => {
                    self.single = false;
                    self.raise(Known::Glob);
                    self.text.push(c);
                }
                // An unquoted word of bash cannot contain these characters, so the grammar has misread it.
                '$' | '`' | ';' | '|' | '&' | '<' | '>' | '(' | ')' | '"' | '\'' | ' ' | '\n' | '\t' => {
                    self.text.push(c);
                    self.opaque();
                }
                c => self.text.push(c),
            }
        }
    }

    /// Handles `"…"`: literal parts are between the child nodes.
    fn push_string(&mut self, node: Node<'_>, source: &str) {
        let (mut at, end) = (node.start_byte() + 1, node.end_byte().saturating_sub(1));
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            if child.kind() == "string_content" {
                continue;
            }
            self.push_quoted(source.get(at..child.start_byte()).unwrap_or_default());
            let text = text_of(child, source);
            let single = self.single;
            match child.kind() {
                "simple_expansion" | "expansion" | "command_substitution" => self.push(child, source, 1),
                _ => self.push_opaque(text),
            }
            // Double quotes keep the result together, except for `"$@"` and `"${a[@]}"`.
            self.single = single && (child.kind() == "command_substitution" || !text.contains('@'));
            at = child.end_byte();
        }
        self.push_quoted(source.get(at..end).unwrap_or_default());
    }

    fn push_quoted(&mut self, text: &str) {
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('\n') | None => {}
                    Some(next @ ('$' | '`' | '"' | '\\')) => self.text.push(next),
                    Some(next) => {
                        self.text.push('\\');
                        self.text.push(next);
                    }
                },
                // The grammar found no expansion here, but bash may.
                '`' => {
                    self.text.push(c);
                    self.opaque();
                }
                '$' => {
                    self.text.push(c);
                    if chars.peek().is_some_and(|n| {
                        n.is_ascii_alphanumeric()
                            || matches!(n, '_' | '{' | '(' | '[' | '@' | '*' | '#' | '?' | '!' | '-' | '$')
                    }) {
                        self.opaque();
                    }
                }
                c => self.text.push(c),
            }
        }
    }
}

/// Text that bash expands outside quotes and the grammar takes for plain text.
enum Unquoted {
    /// `{a,b}` and `{1..9}`, which make several words of one.
    Braces,
    /// A tilde after `=` or `:`, as in `name=~/file`.
    Tilde,
}

/// Finds text that bash expands outside quotes and the grammar takes for plain text. If there are braces and a tilde, returns the
/// braces.
fn expands_unquoted(raw: &str) -> Option<Unquoted> {
    // Bash joins continued lines before it looks for lists.
    let raw = raw.replace("\\\n", "");
    let mut chars = raw.chars();
    let (mut open, mut previous) = (false, ' ');
    let mut tilde = None;
    while let Some(c) = chars.next() {
        // A quoted or escaped letter is no part of a list, and no list or tilde form begins directly after it.
        let plain = match c {
            '\\' => {
                chars.next();
                false
            }
            '\'' | '"' => {
                let escapes = c == '"' || previous == '$';
                while let Some(inner) = chars.next().filter(|inner| *inner != c) {
                    if inner == '\\' && escapes {
                        chars.next();
                    }
                }
                false
            }
            _ => true,
        };
        let lists = open && (c == ',' || (c == '.' && previous == '.'));
        if plain && lists {
            return Some(Unquoted::Braces);
        }
        if plain && c == '~' && matches!(previous, '=' | ':') {
            tilde = Some(Unquoted::Tilde);
        }
        open |= c == '{';
        previous = if plain { c } else { ' ' };
    }
    tilde
}

fn whole_variable(word: &Word) -> Option<String> {
    let inner = word.raw.strip_prefix("\"$")?.strip_suffix('"')?;
    let name = inner.strip_prefix('{').and_then(|i| i.strip_suffix('}')).unwrap_or(inner);
    is_name(name).then(|| name.to_owned())
}

/// True if `text` is a shell variable name.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub(crate) fn text_of<'a>(node: Node<'_>, source: &'a str) -> &'a str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// Decodes `$'…'`; `None` if the meaning of an escape differs between versions.
fn ansi_c(text: &str) -> Option<String> {
    let body = text.strip_prefix("$'")?.strip_suffix('\'')?;
    let mut out = String::new();
    let mut chars = body.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '\\' => out.push('\\'),
            '\'' => out.push('\''),
            '"' => out.push('"'),
            '?' => out.push('?'),
            'x' => out.push(digits(&mut chars, 16, 2, 0x7f)?),
            // The bytes of characters beyond ASCII depend on the locale.
            'u' => out.push(digits(&mut chars, 16, 4, 0x7f)?),
            'U' => out.push(digits(&mut chars, 16, 8, 0x7f)?),
            d @ '0'..='7' => {
                let mut value = d.to_digit(8)?;
                for _ in 0..2 {
                    let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) else { break };
                    value = value * 8 + digit;
                    chars.next();
                }
                out.push(char::from_u32(value).filter(char::is_ascii)?);
            }
            _ => return None,
        }
    }
    // Bash ends the string at a NUL.
    (!out.contains('\0')).then_some(out)
}

fn digits(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    radix: u32,
    max: usize,
    top: u32,
) -> Option<char> {
    let mut value = 0u32;
    let mut count = 0;
    while count < max {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else { break };
        value = value.checked_mul(radix)?.checked_add(digit)?;
        chars.next();
        count += 1;
    }
    (count > 0 && value <= top).then(|| char::from_u32(value)).flatten()
}
