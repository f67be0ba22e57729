//! The block of the file that is most similar to the model's text, as a small diff.
//!
//! Pure. Used only in messages, never to decide where to edit.

use similar::{ChangeTag, TextDiff};
use std::collections::HashMap;
use std::time::Duration;

/// Maximum number of diff lines that a message shows.
const MAX_DIFF_LINES: usize = 24;
/// Maximum number of lines that are compared one by one if no line is equal.
const MAX_FUZZY_LINES: usize = 5_000;
/// Minimum similarity of a line that counts as near.
const FLOOR: f32 = 0.6;

/// The most similar block: its first and last line (from 1), and the diff from the model's text (`-`) to the
/// file's (`+`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SimilarBlock {
    pub first: usize,
    pub last: usize,
    pub diff: String,
}

pub(crate) fn nearest(text: &str, old: &str) -> Option<SimilarBlock> {
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = old.trim_matches('\n').lines().collect();
    let start = by_votes(&lines, &wanted).or_else(|| by_likeness(&lines, &wanted))?;
    let end = end(&lines, &wanted, start);
    Some(SimilarBlock { first: start + 1, last: end, diff: small_diff(&wanted, &lines[start..end]) })
}

/// Returns a diff of the whole block against the model's text.
pub(crate) fn against(block: &str, old: &str) -> String {
    let lines = |text| -> Vec<&str> { str::lines(text).collect() };
    small_diff(&lines(old.trim_matches('\n')), &lines(block))
}

/// Returns the end of the block: as many lines as the model's text, or up to a quarter more or fewer if the model's
/// last line is there.
fn end(lines: &[&str], wanted: &[&str], start: usize) -> usize {
    let n = wanted.len();
    let last = wanted.last().map_or("", |line| line.trim());
    let is_last = |end: &usize| *end > start && lines.get(end - 1).is_some_and(|line| line.trim() == last);
    let ends = start + n - n / 4..=start + n + n / 4 + 1;
    let end = ends.filter(is_last).min_by_key(|end| end.abs_diff(start + n)).unwrap_or(start + n);
    end.min(lines.len())
}

/// Finds the start of the block. Each line of `wanted` that is in the file (ignoring white space around it)
/// votes for a start.
fn by_votes(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, line) in lines.iter().enumerate() {
        let line = line.trim();
        if line.len() > 2 {
            places.entry(line).or_default().push(i);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (k, line) in wanted.iter().enumerate() {
        // A line that occurs everywhere does not indicate a position, so only its first 50 occurrences vote.
        for at in places.get(line.trim()).into_iter().flatten().take(50) {
            if let Some(start) = at.checked_sub(k) {
                *votes.entry(start).or_default() += 1;
            }
        }
    }
    votes.into_iter().max_by_key(|(start, n)| (*n, std::cmp::Reverse(*start))).map(|(start, _)| start)
}

fn by_likeness(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let (k, probe) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len().min(80))?;
    let probe = probe.trim();
    if probe.len() < 3 || probe.len() > 400 {
        return None;
    }
    let like = |line: &str| {
        let line = line.trim();
        if line.len() * 2 < probe.len() || line.len() > probe.len() * 2 {
            return 0.0;
        }
        TextDiff::configure().timeout(Duration::from_millis(5)).diff_chars(line, probe).ratio()
    };
    let scored = lines.iter().take(MAX_FUZZY_LINES).enumerate().map(|(i, line)| (i, like(line)));
    let (at, score) = scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (score >= FLOOR).then(|| at.saturating_sub(k))
}

fn small_diff(model: &[&str], file: &[&str]) -> String {
    let diff = TextDiff::configure().timeout(Duration::from_millis(50)).diff_slices(model, file);
    let mut out = Vec::new();
    for change in diff.iter_all_changes() {
        let sign = match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        out.push(format!("{sign}{}", becket_types::cut_end(change.value(), 300)));
    }
    let cut = out.len().saturating_sub(MAX_DIFF_LINES);
    out.truncate(MAX_DIFF_LINES);
    if cut > 0 {
        out.push(format!("… {cut} more lines"));
    }
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_with_most_equal_lines_is_shown() {
        let text = "a();\nfn f() {\n    one();\n    two();\n}\nfn g() {\n    one();\n}\n";
        let near = nearest(text, "fn f() {\n    one();\n    too();\n}").unwrap();
        assert_eq!((near.first, near.last), (2, 5));
        assert_eq!(near.diff, " fn f() {\n     one();\n-    too();\n+    two();\n }");
    }

    #[test]
    fn a_block_of_another_length_is_shown_to_its_end() {
        let text = "fn f() {\n    one();\n    two();\n    three();\n}\nfn g() {}\n";
        let near = nearest(text, "fn f() {\n    one();\n    three();\n}").unwrap();
        assert_eq!((near.first, near.last), (1, 5));
        assert_eq!(near.diff, " fn f() {\n     one();\n+    two();\n     three();\n }");
    }

    #[test]
    fn a_misspelt_line_is_found_and_nonsense_is_not() {
        assert_eq!(nearest("x\nlet total = count;\n", "let totl = count;").map(|n| n.first), Some(2));
        assert_eq!(nearest("x\nlet total = count;\n", "completely different"), None);
        assert_eq!(nearest("", "abc"), None);
    }
}
