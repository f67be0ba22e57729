//! Reads scripts of sed, for rules: decides if one may run a command or write another file.
//!
//! Understands the language of GNU sed far enough to find every command. A script that it cannot read counts as running a
//! command. The table of commands that only read is stricter and has its own reader.

use becket_shell_syntax::Word;

/// The word of a sed command that may run a command or write a file other than its operands; `None` if there is none.
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
                let (letters, suffix) = text[1..].split_once('i').unwrap_or((&text[1..], ""));
                // The suffix of a backup may name another folder; a star in it is the file's name.
                if suffix.contains(['/', '*']) {
                    return Some(shown(word));
                }
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

/// Returns the rest of the script after its first command; `None` unless that command only edits or prints.
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
        // The text goes up to the end of the line. A backslash there continues it on the next line.
        'a' | 'i' | 'c' => {
            let mut escaped = false;
            let end = after.find(|c| {
                let stop = !escaped && c == '\n';
                escaped = c == '\\' && !escaped;
                stop
            });
            Some(&after[end.unwrap_or(after.len())..])
        }
        // A comment ends with its line; a backslash does not continue it.
        '#' => Some(after.find('\n').map_or("", |end| &after[end..])),
        ':' | 'b' | 't' | 'T' => label(after),
        's' => flags(parts(after)?),
        'y' => parts(after),
        _ => None,
    }
}

/// The rest after a label; `None` if implementations may end it at different places. For some it ends at a semicolon, for others
/// only with the line, so nothing on the line may reach beyond it.
fn label(text: &str) -> Option<&str> {
    let text = text.trim_start_matches([' ', '\t']);
    let line = text.lines().next().unwrap_or_default();
    let rest = text.trim_start_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let ends = rest.trim_start_matches([' ', '\t']);
    let is_end = ends.is_empty() || ends.starts_with(['\n', ';', '}']);
    (is_end && !line.ends_with('\\')).then_some(ends)
}

/// The rest after the address; the whole text if there is none.
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

/// The rest after the next `delimiter` without a backslash before it. `None` if a bracket expression contains the delimiter,
/// because implementations differ there.
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

/// The rest after two parts such as `/a/b/`, with any delimiter.
fn parts(text: &str) -> Option<&str> {
    let delimiter =
        text.chars().next().filter(|c| !matches!(c, '\\' | '\n' | ' ' | ';') && !c.is_alphanumeric())?;
    up_to(up_to(&text[delimiter.len_utf8()..], delimiter)?, delimiter)
}

/// The rest after the flags of a substitution; `None` if a flag runs (`e`) or writes (`w`).
fn flags(text: &str) -> Option<&str> {
    let rest = text
        .trim_start_matches(|c: char| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M') || c.is_ascii_digit());
    (rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '}']))
        .then(|| rest.trim_start_matches([' ', '\t']))
        .filter(|rest| rest.is_empty() || rest.starts_with(['\n', ';', '}', '#']))
}
