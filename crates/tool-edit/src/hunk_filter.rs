//! Filter for the hunks of a change: it passes all of them, or all except those that the user rejected. For a preview
//! it records them and ends the call before the write.
//!
//! Every new content passes through here before anything is written. So a preview and a call take the same steps and
//! number hunks in the same way. Lines are compared as they are in the file, so a rejected line keeps its bytes.
//!
//! Invariants: hunks are counted from 0 across all files of a call. Content that is not UTF-8 or larger than [`MAX_BYTES`] is one hunk.

use crate::diff;
use becket_types::{FilePreview, ToolOutput};
use serde_json::Value;
use similar::{DiffOp, DiffTag, TextDiff};
use std::fmt::Write as _;
use std::path::Path;

/// Lines of context around a change, as in every diff for people.
const CONTEXT: usize = 3;
/// Maximum size in bytes. Larger contents are one hunk, and their lines are not shown.
const MAX_BYTES: usize = 2 << 20;

#[derive(Debug, Default)]
pub(crate) struct HunkFilter {
    /// Numbers of the hunks that the user rejected.
    rejected: Vec<usize>,
    /// True for a preview.
    showing: bool,
    /// True once the call has reached the point where it would write.
    shown_all: bool,
    /// Number of the next hunk, which is the number of hunks so far.
    next: usize,
    /// Number of hunks so far that were not rejected.
    kept: usize,
    shown: Vec<FilePreview>,
    /// Text of the hunks that were rejected.
    dropped: String,
}

impl HunkFilter {
    pub(crate) fn without(rejected: Vec<usize>) -> Self {
        Self { rejected, ..Self::default() }
    }

    pub(crate) fn showing() -> Self {
        Self { showing: true, ..Self::default() }
    }

    /// True if the call reached the point where it would write.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown_all
    }

    /// Returns the previews.
    pub(crate) fn previews(self) -> Vec<FilePreview> {
        self.shown
    }

    /// Resets the state for the start or restart of a call.
    pub(crate) fn begin(&mut self) {
        let rejected = std::mem::take(&mut self.rejected);
        *self = Self { rejected, showing: self.showing, ..Self::default() };
    }

    /// Returns the content to write: `new` without the rejected hunks. In a preview, records the hunks and returns all of `new`.
    pub(crate) fn pass(&mut self, path: &Path, old: &[u8], new: Vec<u8>) -> Vec<u8> {
        if !self.showing && self.rejected.is_empty() {
            return new;
        }
        let text = |bytes| std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_BYTES);
        let mut preview = FilePreview { path: path.to_owned(), hunks: Vec::new(), marks: Vec::new() };
        let out = match (text(old), text(&new)) {
            (Some(old), Some(new)) => self.lines(old, new, &mut preview),
            _ => self.whole(old, &new, &mut preview),
        };
        if self.showing {
            self.shown.push(preview);
        }
        out
    }

    fn takes(&mut self, hunk: &str) -> bool {
        let number = self.next;
        self.next += 1;
        let takes = !self.rejected.contains(&number);
        if takes {
            self.kept += 1;
        } else {
            self.dropped.push_str(hunk);
        }
        takes
    }

    fn whole(&mut self, old: &[u8], new: &[u8], preview: &mut FilePreview) -> Vec<u8> {
        let hunk = format!("@@ {} bytes become {} @@\n", old.len(), new.len());
        let out = if self.takes(&hunk) { new } else { old };
        preview.hunks.push(hunk);
        out.to_vec()
    }

    fn lines(&mut self, old: &str, new: &str, preview: &mut FilePreview) -> Vec<u8> {
        // `similar` also ends a line at a carriage return, which is a byte of its line here.
        let split = |text| str::split_inclusive(text, '\n').collect::<Vec<_>>();
        let (before, after) = (split(old), split(new));
        let compared = TextDiff::configure().diff_slices(&before, &after);
        let (mut out, mut at, mut line) = (String::with_capacity(new.len()), 0, 0);
        for group in &compared.grouped_ops(CONTEXT) {
            let hunk = unified(group, &before, &after);
            if self.showing {
                diff::mark(&compared, group, line + 1, &mut preview.marks);
                line += hunk.lines().count();
            }
            if !self.takes(&hunk) {
                for op in group.iter().filter(|op| op.tag() != DiffTag::Equal) {
                    out.push_str(&after[at..op.new_range().start].concat());
                    out.push_str(&before[op.old_range()].concat());
                    at = op.new_range().end;
                }
            }
            preview.hunks.push(hunk);
        }
        out.push_str(&after[at..].concat());
        out.into_bytes()
    }

    /// Call this directly before the first write: it fails if the call must not write.
    ///
    /// # Errors
    ///
    /// Returns a message that ends the call: it was only a preview, or the user rejected every hunk.
    pub(crate) fn ready(&mut self) -> Result<(), String> {
        if self.showing {
            self.shown_all = true;
            return Err("Only shown.".to_owned());
        }
        if !self.rejected.is_empty() && self.kept == 0 {
            return Err(format!(
                "The user rejected every hunk of this; nothing was changed.\n{}",
                self.dropped
            ));
        }
        Ok(())
    }

    /// Adds the rejected hunks to the output: their text for the model, their number for people.
    pub(crate) fn with_note(&self, mut output: ToolOutput) -> ToolOutput {
        if !self.dropped.is_empty() && !output.is_error {
            let _ = write!(
                output.content,
                "\nThe user rejected {} of {} hunks; they were not applied, the rest was:\n{}",
                self.next - self.kept,
                self.next,
                self.dropped.trim_end(),
            );
            if let Value::Object(details) = &mut output.details {
                details.insert("hunks".to_owned(), self.next.into());
                details.insert("hunks_rejected".to_owned(), (self.next - self.kept).into());
            }
        }
        output
    }
}

fn unified(group: &[DiffOp], before: &[&str], after: &[&str]) -> String {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return String::new() };
    let old = first.old_range().start..last.old_range().end;
    let new = first.new_range().start..last.new_range().end;
    let mut out = format!(
        "@@ -{},{} +{},{} @@\n",
        old.start + usize::from(!old.is_empty()),
        old.len(),
        new.start + usize::from(!new.is_empty()),
        new.len()
    );
    let mut put = |sign: char, lines: &[&str]| {
        for line in lines {
            let _ = writeln!(out, "{sign}{}", line.trim_end_matches(['\n', '\r']));
        }
    };
    for op in group {
        if op.tag() == DiffTag::Equal {
            put(' ', &after[op.new_range()]);
        } else {
            put('-', &before[op.old_range()]);
            put('+', &after[op.new_range()]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(lines: &[&str]) -> Vec<u8> {
        (lines.join("\n") + "\n").into_bytes()
    }

    #[test]
    fn changed_words_are_marked_in_the_lines_of_all_hunks() {
        let numbers: Vec<String> = (0..40).map(|i| format!("{i} ends here")).collect();
        let mut lines: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let old = text(&lines);
        (lines[2], lines[20]) = ("2 begins here", "twenty\rends here");
        lines.push("one more");
        let mut hunk_filter = HunkFilter::showing();
        hunk_filter.pass(Path::new("/a"), &old, text(&lines));
        let shown = hunk_filter.previews();
        let all: Vec<String> = shown[0].hunks.concat().split_inclusive('\n').map(str::to_owned).collect();
        let marked: Vec<&str> =
            shown[0].marks.iter().map(|(line, from, to)| &all[*line][*from..*to]).collect();
        assert_eq!(shown[0].hunks.len(), 3);
        assert_eq!(marked, ["ends", "begins", "20 ", "twenty"]);
        assert!(shown[0].marks.is_sorted_by_key(|mark| mark.0));
    }

    #[test]
    fn rejected_hunks_keep_their_old_lines() {
        let numbers: Vec<String> = (0..40).map(|i| i.to_string()).collect();
        let mut lines: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let old = text(&lines);
        (lines[2], lines[20], lines[38]) = ("two", "twenty", "end");
        let new = text(&lines);
        let mut hunk_filter = HunkFilter::showing();
        assert_eq!(hunk_filter.pass(Path::new("/a"), &old, new.clone()), new);
        assert!(hunk_filter.ready().is_err());
        let shown = hunk_filter.previews();
        assert_eq!(shown[0].hunks.len(), 3);
        assert_eq!(shown[0].hunks[0], "@@ -1,6 +1,6 @@\n 0\n 1\n-2\n+two\n 3\n 4\n 5\n");
        let mut hunk_filter = HunkFilter::without(vec![0, 2]);
        lines[2] = "2";
        lines[38] = "38";
        assert_eq!(hunk_filter.pass(Path::new("/a"), &old, new.clone()), text(&lines));
        assert_eq!(hunk_filter.ready(), Ok(()));
        let told = hunk_filter.with_note(ToolOutput::text("Edited a."));
        assert!(told.content.contains("rejected 2 of 3 hunks") && told.content.contains("+two"), "{told:?}");
        let told = hunk_filter
            .with_note(ToolOutput { details: json!({"diff": ""}), ..ToolOutput::text("Edited a.") });
        assert_eq!(told.details, json!({"diff": "", "hunks": 3, "hunks_rejected": 2}));
        let mut hunk_filter = HunkFilter::without(vec![0, 1, 2]);
        assert_eq!(hunk_filter.pass(Path::new("/a"), &old, new), old);
        assert!(hunk_filter.ready().unwrap_err().contains("every hunk"));
    }
}
