//! Scripts of sed as rules see them: whether one may run a command or write another file.
//!
//! Reads the language of GNU sed far enough to find every command; what it cannot read counts as running something.
//! The table of commands that only read is stricter and has its own reader.

use becket_shell_syntax::Word;

/// The word of a call of sed that may run or write something besides its files.
pub(crate) fn escape(words: &[Word]) -> Option<String> {
    let shown = |word: &Word| if word.is_literal() { word.text.clone() } else { word.raw.clone() };
    let mut scripts: Vec<&Word> = Vec::new();
    let mut positional: Vec<&Word> = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if !word.is_literal() && (text.starts_with(['-', '$', '`', '*', '?', '[']) || !word.single) {
            return Some(shown(word));
        }
        match text {
            "-e" | "--expression" => scripts.push(rest.next()?),
            "--" => positional.extend(rest.by_ref()),
            "--quiet" | "--silent" | "--regexp-extended" | "--posix" | "--in-place" | "--separate"
            | "--null-data" | "--unbuffered" | "--debug" | "--sandbox" | "--version" | "--help" => {}
            _ if text.starts_with("--") => return Some(shown(word)),
            _ if text.starts_with('-') && text.len() > 1 => {
                let letters = text[1..].split('i').next().unwrap_or_default();
                if let Some(before) = letters.strip_suffix('e') {
                    if text.contains('i') || !before.chars().all(|c| "nErsuz".contains(c)) {
                        return Some(shown(word));
                    }
                    scripts.push(rest.next()?);
                } else if !letters.chars().all(|c| "nErsuz".contains(c)) {
                    return Some(shown(word));
                }
            }
            _ => positional.push(word),
        }
    }
    if scripts.is_empty() && !positional.is_empty() {
        scripts.push(positional.remove(0));
    }
    scripts.into_iter().find(|s| !s.is_literal() || !harmless(&s.text)).map(shown)
}

fn harmless(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
        if rest.is_empty() {
            return true;
        }
        match command(rest) {
            Some(after) => rest = after,
            None => return false,
        }
    }
}

/// What follows one command, when that only edits or prints.
fn command(text: &str) -> Option<&str> {
    let mut rest = address(text)?;
    if let Some(second) = rest.trim_start().strip_prefix(',') {
        rest = address(second.trim_start().trim_start_matches(['+', '~']))?;
    }
    let rest = rest.trim_start_matches([' ', '\t', '!']);
    let name = rest.chars().next()?;
    let after = &rest[name.len_utf8()..];
    match name {
        '{' | '}' => Some(after),
        'p' | 'P' | 'd' | 'D' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'F' | 'z' => Some(after),
        'q' | 'Q' | 'l' | 'L' => Some(after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')),
        // Up to the end of the line; a backslash there takes the next one, too.
        'a' | 'i' | 'c' | '#' | ':' | 'b' | 't' | 'T' => {
            let mut escaped = false;
            let end = after.find(|c| {
                let stop = !escaped && (c == '\n' || (c == ';' && matches!(name, ':' | 'b' | 't' | 'T')));
                escaped = c == '\\' && !escaped;
                stop
            });
            Some(&after[end.unwrap_or(after.len())..])
        }
        's' => flags(parts(after)?),
        'y' => parts(after),
        _ => None,
    }
}

/// What follows the address, or all of the text where there is none.
fn address(text: &str) -> Option<&str> {
    let first = text.chars().next()?;
    if first.is_ascii_digit() {
        return Some(text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '~'));
    }
    if first == '$' {
        return Some(&text[1..]);
    }
    let body = match first {
        '/' => &text[1..],
        '\\' => &text[1 + text[1..].chars().next()?.len_utf8()..],
        _ => return Some(text),
    };
    let delimiter = if first == '/' { '/' } else { text[1..].chars().next()? };
    Some(up_to(body, delimiter)?.trim_start_matches(['I', 'M']))
}

/// What follows the next `delimiter` that no backslash stands before. A bracket that holds the delimiter ends the
/// reading: implementations differ there.
fn up_to(text: &str, delimiter: char) -> Option<&str> {
    let (mut escaped, mut bracket) = (false, false);
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == delimiter {
            return (!bracket).then(|| &text[at + c.len_utf8()..]);
        } else if c == '\n' {
            return None;
        } else {
            bracket = (bracket || c == '[') && c != ']';
        }
    }
    None
}

/// `/a/b/`, whatever the delimiter.
fn parts(text: &str) -> Option<&str> {
    let delimiter =
        text.chars().next().filter(|c| !matches!(c, '\\' | '\n' | ' ' | ';') && !c.is_alphanumeric())?;
    up_to(up_to(&text[delimiter.len_utf8()..], delimiter)?, delimiter)
}

/// Flags of a substitution that neither run (`e`) nor write (`w`).
fn flags(text: &str) -> Option<&str> {
    let rest = text
        .trim_start_matches(|c: char| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M') || c.is_ascii_digit());
    (rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '}']))
        .then(|| rest.trim_start_matches([' ', '\t']))
        .filter(|rest| rest.is_empty() || rest.starts_with(['\n', ';', '}', '#']))
}
