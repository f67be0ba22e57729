//! Text that may go to a terminal: without control sequences, with invisible characters made visible.

use std::borrow::Cow;

/// `text` with C0 and C1 controls (but newline and tab) and bidirectional overrides shown as `\u{…}`.
///
/// A model or a tool can put any bytes into its text; a terminal would obey them.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn is_unsafe(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_shown_not_obeyed() {
        assert_eq!(clean("a\x1b[31mb\tc\n"), "a\\u{1b}[31mb\tc\n");
        assert_eq!(clean("x\u{9b}y\u{202e}z"), "x\\u{9b}y\\u{202e}z");
        assert_eq!(clean("plain é 👍"), "plain é 👍");
    }

    proptest! {
        #[test]
        fn no_control_byte_survives(text in ".*") {
            prop_assert!(clean(&text).chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }
    }
}
