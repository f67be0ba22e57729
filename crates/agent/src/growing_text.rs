//! A text or reasoning part that grows while an answer streams. A long one moves to a blob of the session, and only its beginning
//! and its end stay in memory.
//!
//! Owns the cut: up to [`LONG_TEXT`] bytes, a text is kept whole. Beyond that, everything goes to the blob as it arrives, and the
//! entry gets the beginning and the end within the limits of tool outputs, with the same notice between them. So the model reads
//! a long answer of its own like a long output, and gets the rest by `recall`.
//!
//! Invariants: the blob holds every byte that was pushed, however it was divided. Memory is bounded by [`LONG_TEXT`] and twice the
//! limit of an output. If the blob cannot be written, the notice says so and the rest of the text is lost; the answer goes on.

use becket_session::blobs::{BlobStore, BlobWriter};
use becket_tool::limits::{self, Keep, OUTPUT, Omitted};
use becket_types::{BlobId, CallId, LONG_TEXT, cut_end, cut_start};

/// Bytes of the end that are kept while more arrives.
const END: usize = OUTPUT.bytes;

/// A text that may still grow.
#[derive(Debug, Default)]
pub(crate) struct GrowingText {
    /// The whole text, or the beginning of a long one.
    start: String,
    /// Set once the text is long.
    rest: Option<Rest>,
}

/// The part of a long text that is not in memory.
#[derive(Debug)]
struct Rest {
    /// Receives the whole text; the reason if it cannot be written.
    blob: Result<BlobWriter, String>,
    /// The end of the text: at least [`END`] bytes.
    end: String,
    bytes: usize,
    breaks: usize,
}

/// A text that no longer grows.
#[derive(Debug)]
pub(crate) enum GrownText {
    Whole(String),
    Long(LongText),
}

/// The beginning and the end of a long text, and the blob with the whole.
#[derive(Debug)]
pub(crate) struct LongText {
    head: String,
    tail: String,
    omitted: Omitted,
    blob: Result<BlobId, String>,
}

impl GrowingText {
    /// Adds text at the end.
    pub(crate) fn push(&mut self, delta: &str, blobs: &BlobStore) {
        let Some(rest) = &mut self.rest else {
            self.start.push_str(delta);
            if self.start.len() > LONG_TEXT {
                self.move_to_blob(blobs);
            }
            return;
        };
        rest.push(delta);
    }

    fn move_to_blob(&mut self, blobs: &BlobStore) {
        let blob = blobs.writer().map_err(|error| error.to_string());
        let mut rest = Rest { blob, end: String::new(), bytes: 0, breaks: 0 };
        rest.push(&self.start);
        self.rest = Some(rest);
        // From here on, only the beginning that will be shown is kept in `start`.
        let kept = limits::cut(&self.start, OUTPUT, Keep::HeadTail).map_or(0, |cut| cut.head.len());
        self.start.truncate(kept);
        self.start.shrink_to_fit();
    }

    /// True if the text has moved to a blob.
    pub(crate) fn is_long(&self) -> bool {
        self.rest.is_some()
    }

    /// Ends the text.
    pub(crate) fn finish(self, blobs: &BlobStore) -> GrownText {
        let Self { start, rest } = self;
        let Some(Rest { blob, end, bytes, breaks }) = rest else { return GrownText::Whole(start) };
        let blob = blob.and_then(|writer| blobs.keep(writer).map_err(|error| error.to_string()));
        let tail = limits::cut(&end, OUTPUT, Keep::HeadTail).map_or("", |cut| cut.tail).to_owned();
        let missing = bytes - start.len() - tail.len();
        let missing_breaks = breaks - limits::count_breaks(&start) - limits::count_breaks(&tail);
        let ends_line = end.strip_suffix(tail.as_str()).is_some_and(|before| before.ends_with('\n'));
        let starts_line = start.is_empty() || start.ends_with('\n');
        let from_line = limits::count_lines(&start) + usize::from(starts_line);
        let omitted = Omitted {
            from_line,
            to_line: from_line + (missing_breaks + usize::from(!ends_line)).max(1) - 1,
            lines: breaks + usize::from(!end.ends_with('\n')),
            from_byte: start.len(),
            to_byte: start.len() + missing,
            bytes,
            whole_lines: starts_line && (tail.is_empty() || ends_line),
        };
        GrownText::Long(LongText { head: start, tail, omitted, blob })
    }
}

impl Rest {
    fn push(&mut self, delta: &str) {
        self.bytes += delta.len();
        self.breaks += limits::count_breaks(delta);
        if let Ok(writer) = &mut self.blob
            && let Err(error) = writer.write(delta.as_bytes())
        {
            self.blob = Err(error.to_string());
        }
        if delta.len() >= 2 * END {
            self.end.clear();
        }
        // A notice needs the character before the tail too, so the end is longer than a tail can be.
        self.end.push_str(cut_start(delta, 2 * END));
        if self.end.len() > 4 * END {
            let from = self.end.len() - cut_start(&self.end, 2 * END).len();
            self.end.drain(..from);
        }
    }
}

impl LongText {
    /// Returns the text as the model reads it. `id` names the message for `recall`; `exact`: the positions in the notice are those
    /// of the message's whole text.
    pub(crate) fn shown(&self, id: Option<&str>, exact: bool) -> String {
        let gap = if self.head.is_empty() || self.head.ends_with('\n') { "" } else { "\n" };
        let notice = match (&self.blob, id) {
            (Ok(_), Some(id)) if exact => self.omitted.notice(&CallId::from(id)),
            (Ok(_), id) => {
                let Omitted { lines, bytes, from_byte, to_byte, .. } = self.omitted;
                let how =
                    id.map_or_else(String::new, |id| format!(r#"; to see them: recall {{"id":"{id}"}}"#));
                format!("[cut: {} bytes of {lines} lines, {bytes} bytes left out{how}]", to_byte - from_byte)
            }
            (Err(why), _) => {
                let Omitted { lines, bytes, from_byte, to_byte, .. } = self.omitted;
                let why = cut_end(why.lines().next().unwrap_or_default(), 160);
                format!(
                    "[cut: {} bytes of {lines} lines, {bytes} bytes left out and not kept: {why}]",
                    to_byte - from_byte
                )
            }
        };
        format!("{}{gap}{notice}\n{}", self.head, self.tail)
    }

    /// Returns the blob with the whole text; `None` if it could not be written.
    pub(crate) fn blob(&self) -> Option<&BlobId> {
        self.blob.as_ref().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_session::store::Disk;
    use becket_types::Blobs as _;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn store() -> BlobStore {
        BlobStore::in_memory(Arc::new(Disk), None)
    }

    fn grown(text: &str, cuts: &[usize], blobs: &BlobStore) -> GrownText {
        let mut growing = GrowingText::default();
        let (mut from, mut at) = (0, 0);
        while from < text.len() {
            let step = cuts.get(at % cuts.len().max(1)).copied().unwrap_or(text.len());
            let to = text.ceil_char_boundary((from + step.max(1)).min(text.len()));
            growing.push(&text[from..to], blobs);
            (from, at) = (to, at + 1);
        }
        growing.finish(blobs)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// However a text is divided into deltas, it comes back byte for byte, and the same is shown.
        #[test]
        fn no_division_changes_a_text(
            line in "[a-zé漢\t ]{1,90}", broken in any::<bool>(), size in 0usize..3 * LONG_TEXT,
            cuts in prop::collection::vec(prop_oneof![1usize..90, 4_000usize..200_000], 1..6),
        ) {
            let unit = if broken { format!("{line}\n") } else { line };
            let repeated = unit.repeat(size / unit.len() + 1);
            let text = cut_end(&repeated, size);
            let blobs = store();
            match grown(text, &cuts, &blobs) {
                GrownText::Whole(whole) => {
                    prop_assert!(text.len() <= LONG_TEXT);
                    prop_assert_eq!(whole, text);
                }
                GrownText::Long(long) => {
                    prop_assert!(text.len() > LONG_TEXT);
                    let whole = blobs.get(long.blob().unwrap()).unwrap();
                    prop_assert!(whole == text.as_bytes(), "the blob differs from the text");
                    // The cut is the one that a tool output of the same text gets.
                    let cut = limits::cut(text, OUTPUT, Keep::HeadTail).unwrap();
                    prop_assert_eq!((long.head.as_str(), long.tail.as_str()), (cut.head, cut.tail));
                    prop_assert_eq!(long.omitted, cut.omitted);
                    let shown = long.shown(Some("m12"), true);
                    prop_assert!(shown.len() <= OUTPUT.bytes && shown.contains(r#"recall {"id":"m12","#), "{}", shown.len());
                }
            }
        }
    }

    #[test]
    fn a_text_whose_blob_cannot_be_written_says_so() {
        let long = LongText {
            head: "a\n".to_owned(),
            tail: "b".to_owned(),
            omitted: Omitted {
                from_line: 2,
                to_line: 3,
                lines: 4,
                from_byte: 2,
                to_byte: 9,
                bytes: 10,
                whole_lines: true,
            },
            blob: Err("disk full".to_owned()),
        };
        assert_eq!(
            long.shown(Some("m1"), true),
            "a\n[cut: 7 bytes of 4 lines, 10 bytes left out and not kept: disk full]\nb"
        );
        assert_eq!(long.blob(), None);
    }
}
