//! The line of a command that runs or did not succeed: in two rows, if one is too short for it.
//!
//! Owns the choice of the text in these rows. A command that fits into two rows is shown whole; of a longer one the rows say how much
//! is missing. Knows no style and no block.

use crate::text::{self, Joint};

/// Columns between a command and the end of its line.
pub(super) const GAP: usize = 2;

/// Fewest columns for the command in a row that also counts what is missing.
const LEAST: usize = 8;

/// A command in rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// The text of each row, and its relation to the row above: one row or two.
    pub rows: Vec<(String, Joint)>,
    /// The amount of text that is missing after the last row; empty if there is none.
    pub more: String,
}

impl CommandLine {
    /// Divides `command` into rows. `first`, `rest`: the columns for it in the first row and in the second one. `end`: the columns of
    /// the end of the line, which follows a command that is cut.
    pub(super) fn new(command: &str, first: usize, rest: usize, end: usize) -> Self {
        let mut lines = command.trim_end().lines();
        let line = text::visible(lines.next().unwrap_or_default());
        let piece = text::chunks_of_words(&line, first.max(1)).first().copied().unwrap_or_default();
        let behind = line[piece.len()..].trim_start();
        let mut rows = vec![(piece.trim_end().to_owned(), Joint::Hard)];
        let (next, joint) = if behind.is_empty() {
            match lines.next() {
                Some(second) => (text::visible(second), Joint::Hard),
                None => return Self { rows, more: String::new() },
            }
        } else {
            let space = if line.len() - behind.len() > piece.trim_end().len() { " " } else { "" };
            (behind.into(), Joint::Soft(space.to_owned()))
        };
        let below = lines.count();
        if below == 0 && text::width(&next) <= rest {
            rows.push((next.into_owned(), joint));
            return Self { rows, more: String::new() };
        }
        let missing = |characters: usize| match (below, characters) {
            (0, 1) => "1 more character".to_owned(),
            (0, n) => format!("{n} more characters"),
            (1, _) => "1 more line".to_owned(),
            (n, _) => format!("{n} more lines"),
        };
        let all = next.chars().count();
        // The count and the mark before it have a space each.
        let taken = end + GAP + text::width(&missing(all)) + 3;
        let counts = taken + LEAST <= rest;
        let shown = text::fit(&next, rest.saturating_sub(if counts { taken } else { 1 }));
        let shown = shown.trim_end_matches('…').trim_end();
        // A narrow row has no room for the count.
        let count = if counts { missing(all - shown.chars().count()) } else { String::new() };
        rows.push((shown.to_owned(), joint));
        Self { rows, more: format!("… {count}").trim_end().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(command: &str) -> (Vec<String>, String) {
        let line = CommandLine::new(command, 10, 40, 4);
        (line.rows.into_iter().map(|(text, _)| text).collect(), line.more)
    }

    #[test]
    fn a_command_that_fits_into_two_rows_is_shown_whole() {
        for (command, rows, more) in [
            ("make", &["make"][..], ""),
            ("make a b c d", &["make a b c", "d"], ""),
            ("make\ncargo test --all\n", &["make", "cargo test --all"], ""),
            ("make\nb\nc\nd", &["make", "b"], "… 2 more lines"),
            ("make\nb\nc", &["make", "b"], "… 1 more line"),
            ("0123456789abcdef", &["0123456789", "abcdef"], ""),
        ] {
            assert_eq!(shown(command), (rows.iter().map(|row| (*row).to_owned()).collect(), more.to_owned()));
        }
        let line = CommandLine::new(&"word ".repeat(40), 20, 60, 10);
        assert_eq!(line.rows.len(), 2);
        assert_eq!(line.more, "… 155 more characters");
    }

    proptest! {
        /// Nothing is missing without a count, and the rows fit.
        #[test]
        fn what_is_missing_is_counted(command in "[a-z ]{0,120}(\n[a-z ]{0,60}){0,4}", first in 25usize..60, end in 0usize..20) {
            let rest = first + 30;
            let line = CommandLine::new(&command, first, rest, end);
            let text: String = line.rows.iter().map(|(text, _)| text.as_str()).collect();
            let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(line.more.is_empty(), solid(&text) == solid(&command));
            prop_assert!(solid(&command).starts_with(&solid(&text)));
            prop_assert!(text::width(&line.rows[0].0) <= first);
            if let Some((second, _)) = line.rows.get(1) {
                let counted = if line.more.is_empty() { 0 } else { text::width(&line.more) + 1 + GAP + end };
                prop_assert!(text::width(second) + counted <= rest, "{:?}", line);
            }
        }
    }
}
