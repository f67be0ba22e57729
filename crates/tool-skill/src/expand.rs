//! Placeholders in the body of a skill: `$ARGUMENTS`, `$ARGUMENTS[0]`, `$0`, `$name`, `${CLAUDE_SKILL_DIR}`.
//!
//! Owns the substitution. It makes a single pass, so text from an argument is never expanded again. A
//! numbered placeholder without an argument is left unchanged (in `awk '{print $1}'` it is not a
//! placeholder). Runs nothing.

use std::path::Path;

/// Returns `body` with the caller's arguments inserted. If the body has no placeholder for them, they are appended.
pub(crate) fn expand(body: &str, arguments: &str, names: &[String], dir: Option<&Path>) -> String {
    let arguments = arguments.trim();
    let words = words(arguments);
    let dir = dir.map(|d| d.display().to_string());
    let mut out = String::with_capacity(body.len() + arguments.len());
    let mut used = false;
    let mut rest = body;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = placeholder(rest, arguments, &words, names, dir.as_deref());
        match found {
            Some((length, value, is_argument)) => {
                out.push_str(value);
                used |= is_argument;
                rest = &rest[length..];
            }
            None => {
                out.push('$');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    if !used && !arguments.is_empty() {
        out.truncate(out.trim_end().len());
        out.push_str("\n\nARGUMENTS: ");
        out.push_str(arguments);
        out.push('\n');
    }
    out
}

/// Returns the length of the placeholder at the start of `rest`, its value, and true if the value is an
/// argument.
fn placeholder<'a>(
    rest: &str,
    arguments: &'a str,
    words: &'a [String],
    names: &[String],
    dir: Option<&'a str>,
) -> Option<(usize, &'a str, bool)> {
    for variable in ["${CLAUDE_SKILL_DIR}", "${SKILL_DIR}"] {
        if rest.starts_with(variable) {
            return dir.map(|dir| (variable.len(), dir, false));
        }
    }
    let after = &rest[1..];
    let name: &str = &after[..after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len())];
    if name == "ARGUMENTS" {
        let index = after[name.len()..].strip_prefix('[').and_then(|r| r.split_once(']'));
        if let Some((digits, _)) = index
            && let Ok(index) = digits.parse::<usize>()
        {
            let value = words.get(index).map_or("", String::as_str);
            return Some((1 + name.len() + digits.len() + 2, value, true));
        }
        return Some((1 + name.len(), arguments, true));
    }
    if let Ok(index) = name.parse::<usize>() {
        return words.get(index).map(|word| (1 + name.len(), word.as_str(), true));
    }
    let index = names.iter().position(|n| n == name)?;
    Some((1 + name.len(), words.get(index).map_or("", String::as_str), true))
}

/// Splits the arguments of a skill or command at white space. Quotes around words keep them together, and are removed. A quote
/// within a word or without its partner is a character like others, as in `don't`.
pub fn words(text: &str) -> Vec<String> {
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
        ] {
            assert_eq!(expand(body, arguments, &names, Some(Path::new("/s"))), want, "{body}");
        }
    }
}
