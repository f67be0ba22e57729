//! Shortening of outputs: at most 2,000 lines and 50 KB reach the model.
//!
//! Owns the cut. A longer output is stored whole in the session's blob store. A notice at the cut says
//! exactly which lines and bytes are missing and which `recall` returns them. Nothing is dropped silently,
//! and no cut is inside a character.
//!
//! Laws: a shortened output with its notice is within the limits; shortening twice equals shortening once;
//! head and tail are a prefix and a suffix of the whole.

use crate::{ToolEnv, text};
use becket_types::{CallId, ToolOutput, cut_end, cut_end_at_word, cut_start, cut_start_at_word};
use std::fmt::Write;

/// Size limits for the part of an output that the model sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub lines: usize,
    pub bytes: usize,
}

/// The limits of every tool output.
pub const OUTPUT: Limits = Limits { lines: 2_000, bytes: 50 * 1024 };

/// Space that is reserved for the notice.
const NOTICE: Limits = Limits { lines: 1, bytes: 400 };

/// The part of a long output that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The beginning: for files, listings and matches.
    Head,
    /// The beginning and the end: for commands.
    HeadTail,
}

/// The omitted part of an output. Lines count from 1, bytes from 0. `to_line` is the last omitted line;
/// `to_byte` is one past the last omitted byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omitted {
    pub from_line: usize,
    pub to_line: usize,
    /// Number of lines of the whole output.
    pub lines: usize,
    pub from_byte: usize,
    pub to_byte: usize,
    /// Number of bytes of the whole output.
    pub bytes: usize,
    /// True if the cut begins and ends between lines.
    pub whole_lines: bool,
}

impl Omitted {
    /// Returns the one-line notice that replaces the omitted text, without a line break.
    pub fn notice(&self, call: &CallId) -> String {
        let Self { from_line, to_line, lines, from_byte, to_byte, bytes, .. } = self;
        let missing = self.describe();
        let key = if self.whole_lines {
            format!(r#""lines":"{from_line}-{to_line}""#)
        } else {
            format!(r#""bytes":"{from_byte}-{to_byte}""#)
        };
        format!(
            r#"[cut: {missing} of {lines} lines, {bytes} bytes left out; to see them: recall {{"id":"{id}",{key}}}]"#,
            id = cut_end(call.as_str(), 128)
        )
    }

    fn describe(&self) -> String {
        if self.whole_lines {
            format!("lines {}-{} ({} bytes)", self.from_line, self.to_line, self.to_byte - self.from_byte)
        } else {
            format!("bytes {}-{} (lines {}-{})", self.from_byte, self.to_byte, self.from_line, self.to_line)
        }
    }
}

/// A text that exceeds the limits, split into the kept pieces and the omitted part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    pub head: &'a str,
    pub tail: &'a str,
    pub omitted: Omitted,
}

/// Counts lines like an editor: a line break at the end does not start another line.
pub fn count_lines(text: &str) -> usize {
    count_breaks(text) + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Counts line breaks (`\n`).
pub fn count_breaks(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

/// Cuts `text` to the limits; `None` if it fits. The kept pieces together are within the limits, without the space for the notice.
pub fn cut(text: &str, limits: Limits, keep: Keep) -> Option<Cut<'_>> {
    let lines = count_lines(text);
    if text.len() <= limits.bytes && lines <= limits.lines {
        return None;
    }
    let room = Limits {
        lines: limits.lines.saturating_sub(NOTICE.lines),
        bytes: limits.bytes.saturating_sub(NOTICE.bytes),
    };
    let head_room = match keep {
        Keep::Head => room,
        Keep::HeadTail => Limits { lines: room.lines / 2, bytes: room.bytes / 2 },
    };
    let head = head_of(text, head_room);
    let rest = &text[head.len()..];
    let tail = match keep {
        Keep::Head => "",
        Keep::HeadTail => {
            tail_of(rest, Limits { lines: room.lines - head_room.lines, bytes: room.bytes - head_room.bytes })
        }
    };
    let to_byte = text.len() - tail.len();
    let missing = &text[head.len()..to_byte];
    let head_ends_line = head.is_empty() || head.ends_with('\n');
    let from_line = count_lines(head) + usize::from(head_ends_line);
    let omitted = Omitted {
        from_line,
        to_line: from_line + count_lines(missing).max(1) - 1,
        lines,
        from_byte: head.len(),
        to_byte,
        bytes: text.len(),
        whole_lines: head_ends_line && (tail.is_empty() || missing.ends_with('\n')),
    };
    Some(Cut { head, tail, omitted })
}

/// Returns whole lines from the beginning. Cuts inside a line only if stopping before it would waste half of
/// the space.
fn head_of(text: &str, room: Limits) -> &str {
    let window = cut_end(text, room.bytes);
    let (mut end, mut count) = (0, 0);
    for (at, _) in window.match_indices('\n') {
        if count >= room.lines {
            return &text[..end];
        }
        end = at + 1;
        count += 1;
    }
    // `window` may end in the middle of a line. The piece of that line counts as one line.
    if end < window.len() / 2 && count < room.lines {
        cut_end_at_word(text, room.bytes)
    } else {
        &text[..end]
    }
}

fn tail_of(text: &str, room: Limits) -> &str {
    let window = cut_start(text, room.bytes);
    let offset = text.len() - window.len();
    // A line break at the very end closes the last line. It does not start another one.
    let body = window.strip_suffix('\n').unwrap_or(window);
    let mut start = window.len();
    let mut count = 0;
    for (at, _) in body.rmatch_indices('\n') {
        if count >= room.lines {
            return &window[start..];
        }
        start = at + 1;
        count += 1;
    }
    let starts_line = offset == 0 || text[..offset].ends_with('\n');
    if count < room.lines && (starts_line || window.len() - start < window.len() / 2) {
        if starts_line { window } else { cut_start_at_word(text, room.bytes) }
    } else {
        &window[start..]
    }
}

/// Finishes a tool's output: makes invisible characters visible, stores the whole text if it is too long, and
/// cuts it to [`OUTPUT`]. Every tool calls this last. Calling it twice changes nothing.
pub fn finish(output: ToolOutput, keep: Keep, env: &ToolEnv) -> ToolOutput {
    finish_within(output, keep, OUTPUT, env)
}

/// Like [`finish`], with other limits than [`OUTPUT`].
pub(crate) fn finish_within(mut output: ToolOutput, keep: Keep, limits: Limits, env: &ToolEnv) -> ToolOutput {
    if let std::borrow::Cow::Owned(clean) = text::clean(&output.content) {
        output.content = clean;
    }
    let Some(Cut { head, tail, omitted }) = cut(&output.content, limits, keep) else { return output };
    let mut kept = String::with_capacity(limits.bytes);
    kept.push_str(head);
    if !head.is_empty() && !head.ends_with('\n') {
        kept.push('\n');
    }
    let spill = match &output.spill {
        Some(id) => Ok(id.clone()),
        None => env.host.put_blob(output.content.as_bytes()),
    };
    match &spill {
        Ok(_) => kept.push_str(&omitted.notice(&env.call_id)),
        Err(why) => {
            let _ = write!(
                kept,
                "[cut: {} of {} lines left out and not kept: {}]",
                omitted.describe(),
                omitted.lines,
                cut_end(why.lines().next().unwrap_or_default(), 160)
            );
        }
    }
    kept.push('\n');
    kept.push_str(tail);
    output.spill = spill.ok();
    output.content = kept;
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use becket_types::BlobId;
    use proptest::prelude::*;

    fn numbered(range: std::ops::RangeInclusive<usize>) -> String {
        range.fold(String::new(), |mut s, n| {
            let _ = writeln!(s, "{n}");
            s
        })
    }

    #[test]
    fn what_fits_is_left_alone() {
        let (env, host) = testing::env(std::path::Path::new("/"));
        for content in ["", "one", "one\n", &numbered(1..=2_000), &"x".repeat(50 * 1024)] {
            let output = finish(ToolOutput::text(content), Keep::Head, &env);
            assert_eq!(output, ToolOutput::text(content));
        }
        assert!(host.kept().blobs.is_empty());
    }

    #[test]
    fn a_cut_says_which_lines_are_missing_and_how_to_get_them() {
        let (env, host) = testing::env(std::path::Path::new("/"));
        let whole = numbered(1..=3_000);
        let head = finish(ToolOutput::text(whole.clone()), Keep::Head, &env);
        let notice = r#"[cut: lines 2000-3000 (5005 bytes) of 3000 lines, 13893 bytes left out; to see them: recall {"id":"call_1","lines":"2000-3000"}]"#;
        assert_eq!(head.content, format!("{}{notice}\n", numbered(1..=1_999)));
        let id = head.spill.clone().unwrap();
        assert_eq!(host.kept().blobs[id.as_str()], whole.as_bytes());

        let both = finish(ToolOutput::text(whole), Keep::HeadTail, &env);
        let notice = r#"[cut: lines 1000-2000 (5005 bytes) of 3000 lines, 13893 bytes left out; to see them: recall {"id":"call_1","lines":"1000-2000"}]"#;
        assert_eq!(both.content, format!("{}{notice}\n{}", numbered(1..=999), numbered(2_001..=3_000)));
    }

    #[test]
    fn a_piece_of_a_line_counts_as_one() {
        let text = format!("\nshort\n{}", "xxxx ".repeat(20));
        let room = |lines| Limits { lines, bytes: 50 };
        assert_eq!(head_of(&text, room(2)), "\nshort\n");
        // The window of 50 bytes ends within a word.
        assert_eq!(head_of(&text, room(3)), "\nshort\nxxxx xxxx xxxx xxxx xxxx xxxx xxxx xxxx ");
    }

    #[test]
    fn one_endless_line_is_cut_inside_and_named_by_bytes() {
        let (env, _) = testing::env(std::path::Path::new("/"));
        let output = finish(ToolOutput::text("é".repeat(100_000)), Keep::HeadTail, &env);
        let notice = r#"[cut: bytes 25400-174600 (lines 1-1) of 1 lines, 200000 bytes left out; to see them: recall {"id":"call_1","bytes":"25400-174600"}]"#;
        let half = "é".repeat(12_700);
        assert_eq!(output.content, format!("{half}\n{notice}\n{half}"));
    }

    #[test]
    fn a_store_that_refuses_is_said_and_a_spill_already_there_is_kept() {
        let (env, host) = testing::env(std::path::Path::new("/"));
        host.kept().blob_error = Some("disk full".into());
        let output = finish(ToolOutput::text(numbered(1..=3_000)), Keep::Head, &env);
        assert!(output.content.ends_with(
            "[cut: lines 2000-3000 (5005 bytes) of 3000 lines left out and not kept: disk full]\n"
        ));
        assert_eq!(output.spill, None);
        let spilled =
            ToolOutput { spill: Some(BlobId("abc".into())), ..ToolOutput::text(numbered(1..=3_000)) };
        assert_eq!(finish(spilled, Keep::Head, &env).spill, Some(BlobId("abc".into())));
    }

    proptest! {
        #[test]
        fn capped_outputs_fit_and_capping_twice_is_capping_once(
            text in "([a-zé🦀 ]{0,40}\n?){0,120}", lines in 4usize..60, bytes in 900usize..3000, both in any::<bool>()
        ) {
            let (env, _) = testing::env(std::path::Path::new("/"));
            let limits = Limits { lines, bytes };
            let keep = if both { Keep::HeadTail } else { Keep::Head };
            let once = finish_within(ToolOutput::text(text.clone()), keep, limits, &env);
            prop_assert!(once.content.len() <= bytes, "{} > {bytes}", once.content.len());
            prop_assert!(count_lines(&once.content) <= lines);
            prop_assert_eq!(&finish_within(once.clone(), keep, limits, &env), &once);
            if let Some(cut) = cut(&text, limits, keep) {
                prop_assert!(text.starts_with(cut.head) && text.ends_with(cut.tail));
                prop_assert!(cut.omitted.from_byte < cut.omitted.to_byte);
                prop_assert_eq!(cut.head.len(), cut.omitted.from_byte);
                prop_assert_eq!(text.len() - cut.tail.len(), cut.omitted.to_byte);
                if cut.omitted.whole_lines {
                    let wanted: String = text.split_inclusive('\n')
                        .skip(cut.omitted.from_line - 1)
                        .take(cut.omitted.to_line + 1 - cut.omitted.from_line).collect();
                    prop_assert_eq!(wanted, &text[cut.omitted.from_byte..cut.omitted.to_byte]);
                }
            }
        }
    }
}
