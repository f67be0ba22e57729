//! Rules as people write them: several in one text, and texts in quotes that mean something else than they seem to.
//!
//! Knows no tools and judges nothing.

/// Splits the value of `--allowedTools` and similar flags: rules separated by commas or blanks outside parentheses.
pub fn split_rules(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ',' || c.is_whitespace()) {
            out.push(String::new());
        } else if let Some(last) = out.last_mut() {
            last.push(c);
        }
    }
    out.retain(|rule| !rule.is_empty());
    out
}

/// True if the text is more than one rule: `Bash(a),Bash(b)`. Read as one, it would be a command that nobody runs.
pub(crate) fn is_several(text: &str) -> bool {
    let is_rule = |piece: &String| {
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-')).unwrap_or(0);
        let (name, rest) = piece.split_at(end);
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && rest.starts_with('(') && rest.ends_with(')')
    };
    let pieces = split_rules(text);
    pieces.len() > 1 && pieces.iter().all(is_rule)
}

/// The text between two quotes that enclose all of it; `None` if there are none, or if they are parts of a longer text.
pub(crate) fn unquoted(text: &str) -> Option<&str> {
    let text = text.trim();
    ['"', '\'', '`'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.is_empty() && !inner.contains(quote)).then_some(inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_rules_in_one_text_are_known() {
        for (text, several) in [
            ("Bash(a),Bash(b)", true),
            ("Bash(a), Read(./b)", true),
            ("Read(a) Edit(b)", true),
            ("Bash(a)", false),
            ("Bash(echo a,b)", false),
            ("Bash(f (x), Bash(y))", false),
            ("Bash(case x in a) echo b)", false),
            ("Read(./a(1)/**)", false),
        ] {
            assert_eq!(is_several(text), several, "{text}");
        }
        for (text, inner) in [
            ("\"x\"", Some("x")),
            (" './a b/**' ", Some("./a b/**")),
            ("\"a\" \"b\"", None),
            ("a \"b\"", None),
            ("\"\"", None),
        ] {
            assert_eq!(unquoted(text), inner, "{text}");
        }
    }
}
