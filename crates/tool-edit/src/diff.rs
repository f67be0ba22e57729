//! The result of an edit: a unified diff and counts for people, the changed lines for the model.
//!
//! Pure. Only the surroundings of the change are compared, so the cost depends on the edit and not on the
//! file.

use similar::{ChangeTag, TextDiff};
use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

/// Lines of context around a change in a unified diff.
const CONTEXT: usize = 3;
/// Maximum size in bytes of a diff for people.
const MAX_DIFF_BYTES: usize = 200_000;
/// Maximum number of added lines that the model gets back.
const MAX_MODEL_LINES: usize = 30;

/// A change to a file, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Unified diff with three lines of context, without file headers.
    pub unified: String,
    pub additions: usize,
    pub deletions: usize,
    /// The added lines with their line numbers, for the model.
    pub snippet: String,
    /// The words that differ in replaced lines: line of `unified` (from 0), and start and end byte in it.
    pub marks: Vec<(usize, usize, usize)>,
}

/// Compares two texts that differ only in `changed`, a byte range of `old`: the bytes before it and the bytes after it
/// are the same in `new`.
pub(crate) fn between(old: &str, new: &str, changed: &Range<usize>) -> Change {
    let tail = old.len() - changed.end;
    let from = context_start(old, changed.start);
    let old_end = context_end(old, changed.end);
    let new_end = context_end(new, new.len() - tail);
    let first_line = old[..from].bytes().filter(|b| *b == b'\n').count();
    compare(&old[from..old_end], &new[from..new_end], first_line)
}

fn context_start(text: &str, at: usize) -> usize {
    let mut start = at;
    for i in 0..=CONTEXT {
        match text.as_bytes()[..start].iter().rposition(|b| *b == b'\n') {
            // This newline ends the line before the one that contains `start`.
            Some(newline) if i < CONTEXT => start = newline,
            Some(newline) => return newline + 1,
            None => return 0,
        }
    }
    start
}

fn context_end(text: &str, at: usize) -> usize {
    let mut end = at;
    for _ in 0..=CONTEXT {
        match text.as_bytes()[end..].iter().position(|b| *b == b'\n') {
            Some(newline) => end += newline + 1,
            None => return text.len(),
        }
    }
    end
}

/// Compares two texts that begin at line `offset` (from 0) of the file.
pub(crate) fn compare(old: &str, new: &str, offset: usize) -> Change {
    let diff = TextDiff::configure().timeout(Duration::from_millis(200)).diff_lines(old, new);
    let mut out = Change::default();
    let mut shown = 0;
    let mut last_shown: Option<usize> = None;
    let mut line_number = 0;
    for group in diff.grouped_ops(CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let before = first.old_range().start..last.old_range().end;
        let after = first.new_range().start..last.new_range().end;
        let _ = writeln!(out.unified, "@@ -{} +{} @@", numbers(&before, offset), numbers(&after, offset));
        line_number += 1;
        mark(&diff, &group, line_number, &mut out.marks);
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            line_number += 1;
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            out.deletions += usize::from(sign == '-');
            out.additions += usize::from(sign == '+');
            let line = change.value().trim_end_matches(['\n', '\r']);
            let _ = writeln!(out.unified, "{sign}{line}");
            if change.missing_newline() {
                out.unified.push_str("\\ No newline at end of file\n");
                line_number += 1;
            }
            let Some(number) = change.new_index().filter(|_| sign == '+') else { continue };
            shown += 1;
            if shown <= MAX_MODEL_LINES {
                if last_shown.is_some_and(|last| last + 1 != number) {
                    out.snippet.push_str("…\n");
                }
                last_shown = Some(number);
                let _ =
                    writeln!(out.snippet, "{}\t{}", number + 1 + offset, becket_types::cut_end(line, 500));
            }
        }
    }
    if shown > MAX_MODEL_LINES {
        let _ = writeln!(out.snippet, "… {} more changed lines", shown - MAX_MODEL_LINES);
    }
    if out.unified.len() > MAX_DIFF_BYTES {
        let keep = becket_types::cut_end(&out.unified, MAX_DIFF_BYTES).len();
        out.unified.truncate(keep);
        out.unified.push_str("\n… the rest of the diff is not shown\n");
    }
    out
}

/// Maximum number of lines, old and new together, of a replacement whose words are compared, and of their bytes.
const MAX_MARKED: (usize, usize) = (60, 20_000);

/// Finds the words that differ in replaced lines and appends them to `marks`. `line` is the line of the diff (from 0)
/// after the `@@` line of the group.
pub(crate) fn mark<'a>(
    diff: &TextDiff<'a, 'a, str>,
    group: &[similar::DiffOp],
    mut line: usize,
    marks: &mut Vec<(usize, usize, usize)>,
) {
    for op in group {
        let lines = op.old_range().len() + op.new_range().len();
        let bytes: usize = diff.iter_changes(op).map(|change| change.value().len()).sum();
        if op.tag() != similar::DiffTag::Replace || lines > MAX_MARKED.0 || bytes > MAX_MARKED.1 {
            line +=
                diff.iter_changes(op).map(|change| 1 + usize::from(change.missing_newline())).sum::<usize>();
            continue;
        }
        for change in diff.iter_inline_changes(op) {
            let mut at = 1;
            for (differs, part) in change.iter_strings_lossy() {
                let text = part.trim_end_matches(['\n', '\r']);
                if differs && !text.is_empty() {
                    marks.push((line, at, at + text.len()));
                }
                at += part.len();
            }
            line += 1 + usize::from(change.missing_newline());
        }
    }
}

fn numbers(range: &Range<usize>, offset: usize) -> String {
    let start = if range.is_empty() { range.start } else { range.start + 1 } + offset;
    if range.len() == 1 { start.to_string() } else { format!("{start},{}", range.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_neighbourhood_is_compared() {
        let lines: Vec<String> = (1..=20).map(|i| format!("line {i}\n")).collect();
        let old = lines.concat();
        let new = old.replace("line 10\n", "ten\nand more\n");
        let at = old.find("line 10").unwrap();
        let change = between(&old, &new, &(at..at + 7));
        assert_eq!(
            change,
            Change {
                unified: "@@ -7,7 +7,8 @@\n line 7\n line 8\n line 9\n-line 10\n+ten\n+and more\n line 11\n line 12\n line 13\n"
                    .into(),
                additions: 2,
                deletions: 1,
                snippet: "10\tten\n11\tand more\n".into(),
                marks: Vec::new(),
            }
        );
    }

    #[test]
    fn edges_of_a_file() {
        let change = between("a", "b", &(0..1));
        assert_eq!(
            change.unified,
            "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
        );
        let change = compare("", "a\n", 0);
        assert_eq!((change.unified.as_str(), change.additions), ("@@ -0,0 +1 @@\n+a\n", 1));
        let change = between("a\nb\n", "a\n", &(2..4));
        assert_eq!((change.unified.as_str(), change.deletions), ("@@ -1,2 +1 @@\n a\n-b\n", 1));
    }
}
