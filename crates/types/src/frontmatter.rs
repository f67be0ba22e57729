//! Splits a Markdown file into its frontmatter and its body.
//!
//! Owns the borders only: the `---` lines, a byte order mark before them, and both kinds of line ends. Rules files,
//! skills, agents and commands are all split here, so that a file that one of them accepts is accepted by the others.
//! Does not parse the frontmatter.

/// Returns the frontmatter and the body; `None` if the text does not begin with frontmatter.
pub fn split_frontmatter(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches('\u{FEFF}');
    let rest = text.strip_prefix("---")?;
    let rest = rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_its_second_line_of_dashes() {
        for (text, want) in [
            ("---\na: b\n---\nbody\n---\n", Some(("a: b\n", "body\n---\n"))),
            ("---\r\na: b\r\n---\r\nbody", Some(("a: b\r\n", "body"))),
            ("\u{FEFF}---\na: b\n---\nbody", Some(("a: b\n", "body"))),
            ("\u{FEFF}---\r\na: b\r\n---\r\nbody", Some(("a: b\r\n", "body"))),
            ("--- \t\na: b\n--- \nbody", Some(("a: b\n", "body"))),
            ("---\na: b\n---", Some(("a: b\n", ""))),
            ("---\n---\n", Some(("", ""))),
            ("---\n\n---\nbody", Some(("\n", "body"))),
            ("---\na: b\n", None),
            ("---\na: b\n ---\n", None),
            ("---\na: b\n----\n", None),
            ("\n---\na: b\n---\n", None),
            ("----\na\n---\n", None),
            ("---", None),
            ("# no head", None),
            ("\u{FEFF}", None),
            ("", None),
        ] {
            assert_eq!(split_frontmatter(text), want, "{text:?}");
        }
    }
}
