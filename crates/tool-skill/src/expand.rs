//! Placeholders in the body of a skill or command: `$ARGUMENTS`, `$ARGUMENTS[0]`, `$0`, `$name`, `${CLAUDE_SKILL_DIR}`.
//!
//! Owns the substitution. It makes a single pass, so text from an argument is never expanded again. A backslash before a
//! placeholder keeps it as text. Runs nothing.
//!
//! Skills and commands differ in two ways. In a skill, `$1` is the second word, as in Claude Code, and a number without a
//! word is left unchanged, because the model may load the skill without arguments (`awk '{print $1}'`). In a command,
//! `$1` is the first word, unless the file also uses `$0`, and a number without a word becomes nothing.

use std::path::Path;

/// Changes a word before it is inserted. Gets the word and the text before it.
pub type ChangeWord<'a> = dyn Fn(&str, &str) -> String + 'a;

/// The words of a caller, and the meaning of the placeholders of one file.
#[derive(Clone, Debug)]
pub struct Arguments<'a> {
    text: &'a str,
    words: Vec<String>,
    names: &'a [String],
    dir: Option<String>,
    /// The number of the first word.
    first: usize,
    /// A number without a word becomes nothing.
    drops_missing: bool,
}

/// A placeholder as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
    /// `$ARGUMENTS`
    All,
    /// `$ARGUMENTS[N]`, and `$NAME` by its position: counted from 0.
    Word(usize),
    /// `$N`
    Number(usize),
    /// The skill's directory.
    Dir,
}

impl<'a> Arguments<'a> {
    /// Returns the arguments of a skill. `names`: the names of its words. `dir`: the skill's directory.
    pub(crate) fn of_skill(text: &'a str, names: &'a [String], dir: Option<&Path>) -> Self {
        let text = text.trim();
        let dir = dir.map(|dir| dir.display().to_string());
        Self { text, words: words(text), names, dir, first: 0, drops_missing: false }
    }

    /// Returns the arguments of a command. `body`: its whole text, which decides if numbers are counted from 0 or from 1.
    pub fn of_command(text: &'a str, body: &str) -> Self {
        let text = text.trim();
        let mut out = Self { text, words: words(text), names: &[], dir: None, first: 0, drops_missing: true };
        let mut counts_from_0 = false;
        out.each(body, |part| counts_from_0 |= matches!(part, Found::Placeholder(Placeholder::Number(0), _)));
        out.first = usize::from(!counts_from_0);
        out
    }

    /// Returns `text` with the arguments inserted, and true if the text has a placeholder for them. With `put`, `$ARGUMENTS` becomes
    /// the changed words, separated by spaces.
    pub fn fill(&self, text: &str, put: Option<&ChangeWord<'_>>) -> (String, bool) {
        let mut out = String::with_capacity(text.len() + self.text.len());
        let mut used = false;
        let push = |out: &mut String, word: &str| match put {
            Some(put) => {
                let word = put(word, out);
                out.push_str(&word);
            }
            None => out.push_str(word),
        };
        self.each(text, |part| {
            let (placeholder, written) = match part {
                Found::Text(text) => return out.push_str(text),
                Found::Placeholder(placeholder, written) => (placeholder, written),
            };
            let word = match placeholder {
                Placeholder::Dir => return out.push_str(self.dir.as_deref().unwrap_or_default()),
                Placeholder::All if put.is_none() => Some(self.text),
                Placeholder::All => {
                    for (at, word) in self.words.iter().enumerate() {
                        out.push_str(if at == 0 { "" } else { " " });
                        push(&mut out, word);
                    }
                    None
                }
                Placeholder::Word(at) => self.words.get(at).map(String::as_str),
                Placeholder::Number(number) => {
                    let word = self.numbered(number);
                    // `$10` and `$100` are amounts of money rather than words that the caller left out.
                    if word.is_none() && (!self.drops_missing || number > 9) {
                        return out.push_str(written);
                    }
                    word
                }
            };
            if let Some(word) = word {
                push(&mut out, word);
            }
            used = true;
        });
        (out, used)
    }

    fn numbered(&self, number: usize) -> Option<&str> {
        self.words.get(number.checked_sub(self.first)?).map(String::as_str)
    }

    /// Passes the parts of `text` in order: placeholders, and the text between them without the backslashes that protect a
    /// placeholder.
    fn each<'t>(&self, text: &'t str, mut take: impl FnMut(Found<'t>)) {
        let mut begin = 0;
        let mut at = 0;
        while let Some(found) = text[at..].find('$') {
            let dollar = at + found;
            at = dollar + 1;
            let Some((length, placeholder)) = self.placeholder(&text[dollar..]) else { continue };
            let end = dollar + length;
            let before = &text[begin..dollar];
            let backslashes = before.len() - before.trim_end_matches('\\').len();
            // Two backslashes are two backslashes, and the placeholder after them counts.
            if backslashes % 2 == 1 {
                take(Found::Text(&before[..before.len() - 1]));
                take(Found::Text(&text[dollar..end]));
            } else {
                take(Found::Text(before));
                take(Found::Placeholder(placeholder, &text[dollar..end]));
            }
            (begin, at) = (end, end);
        }
        take(Found::Text(&text[begin..]));
    }

    /// Returns the placeholder at the start of `rest`, which begins with `$`, and its length.
    fn placeholder(&self, rest: &str) -> Option<(usize, Placeholder)> {
        if self.dir.is_some() {
            let variables = ["${CLAUDE_SKILL_DIR}", "${SKILL_DIR}"];
            if let Some(variable) = variables.iter().find(|variable| rest.starts_with(**variable)) {
                return Some((variable.len(), Placeholder::Dir));
            }
        }
        let after = &rest[1..];
        let name = &after[..after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len())];
        if let Some(at) = self.names.iter().position(|known| known == name) {
            return Some((1 + name.len(), Placeholder::Word(at)));
        }
        if let Some(behind) = after.strip_prefix(ALL) {
            let index = behind.strip_prefix('[').and_then(|behind| behind.split_once(']'));
            return Some(match index.and_then(|(digits, _)| Some((digits.len(), digits.parse().ok()?))) {
                Some((digits, at)) => (1 + ALL.len() + digits + 2, Placeholder::Word(at)),
                None => (1 + ALL.len(), Placeholder::All),
            });
        }
        let digits = &after[..after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len())];
        Some((1 + digits.len(), Placeholder::Number(digits.parse().ok()?)))
    }
}

const ALL: &str = "ARGUMENTS";

/// A part of a text with placeholders.
enum Found<'t> {
    Text(&'t str),
    /// A placeholder, and how it is written.
    Placeholder(Placeholder, &'t str),
}

/// Returns the body of a skill with the caller's arguments inserted. If the body has no placeholder for them, they are appended.
pub(crate) fn expand(body: &str, arguments: &str, names: &[String], dir: Option<&Path>) -> String {
    let arguments = Arguments::of_skill(arguments, names, dir);
    let (mut out, used) = arguments.fill(body, None);
    if !used && !arguments.text.is_empty() {
        out.truncate(out.trim_end().len());
        out.push_str("\n\nARGUMENTS: ");
        out.push_str(arguments.text);
        out.push('\n');
    }
    out
}

/// Splits the arguments of a skill or command at white space. Quotes around words keep them together, and are removed. A quote
/// within a word or without its partner is a character like others, as in `don't`.
fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_quote = matches!(first, '"' | '\'');
        let quoted = is_quote.then(|| closed(&rest[1..], first)).flatten();
        let (word, after) =
            quoted.unwrap_or_else(|| rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())));
        out.push(word.to_owned());
        rest = after.trim_start();
    }
    out
}

/// Divides `text` at the first `quote` that ends a word. Returns the text before and after it.
fn closed(text: &str, quote: char) -> Option<(&str, &str)> {
    let ends = |at: usize| text[at + 1..].chars().next().is_none_or(char::is_whitespace);
    let (at, _) = text.match_indices(quote).find(|(at, _)| ends(*at))?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_table() {
        let names = ["file".to_owned(), "mode".to_owned()];
        for (body, arguments, want) in [
            ("do $ARGUMENTS now", "a b", "do a b now"),
            ("$0 and $1", "'x y' z", "x y and z"),
            ("$ARGUMENTS[1]!", "a b", "b!"),
            ("$file:$mode", "f", "f:"),
            ("$filename", "f", "$filename\n\nARGUMENTS: f\n"),
            ("awk '{print $1}'", "", "awk '{print $1}'"),
            ("no place\n", "a", "no place\n\nARGUMENTS: a\n"),
            ("no place\n", "", "no place\n"),
            ("$ARGUMENTS", "$0 $ARGUMENTS", "$0 $ARGUMENTS"),
            ("run ${CLAUDE_SKILL_DIR}/x.sh for $$", "", "run /s/x.sh for $$"),
            ("!`rm -rf /` $0", "é", "!`rm -rf /` é"),
            ("$0_test $1st \\$0 \\\\$0", "a", "a_test $1st $0 \\\\a"),
            ("\\$1 \\$ARGUMENTS \\$file \\$ \\$x $ARGUMENTS[x]", "f", "$1 $ARGUMENTS $file \\$ \\$x f[x]"),
            ("\\${SKILL_DIR}", "", "${SKILL_DIR}"),
            ("$10 of $100", "0 1 2 3 4 5 6 7 8 9 ten", "ten of $100"),
        ] {
            assert_eq!(expand(body, arguments, &names, Some(Path::new("/s"))), want, "{body}");
        }
    }
}
