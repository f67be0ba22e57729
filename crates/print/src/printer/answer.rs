//! Writes the answer of a turn, which may be too long for memory: as text, and as `result` of the last JSON line.
//!
//! Invariant: a long answer is read from the session's blobs and written in chunks; it is never in memory as a whole. Control
//! sequences are escaped in each chunk as in a whole text.

use crate::terminal::{self, CleanWriter};
use becket_types::{AnswerText, Blobs, TrimmedChunks};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use std::fmt;
use std::io::{self, BufWriter, Write};

/// Bytes that are written to the output at a time.
const BLOCK: usize = 64 << 10;

/// A text, and the blobs that may hold parts of it.
#[derive(Clone, Copy)]
pub(super) struct WholeAnswer<'a> {
    pub(super) text: &'a AnswerText,
    pub(super) blobs: &'a dyn Blobs,
}

impl WholeAnswer<'_> {
    /// Writes the text with one line break at its end. `to_terminal`: escape sequences are shown, not obeyed.
    pub(super) fn write_text(self, out: &mut dyn Write, to_terminal: bool) -> io::Result<()> {
        let mut trimmed = TrimmedChunks::default();
        self.text.each_chunk(self.blobs, &mut |chunk| {
            trimmed.pass(chunk, &mut |text| {
                let shown = if to_terminal { terminal::clean(text) } else { text.into() };
                out.write_all(shown.as_bytes())
            })
        })?;
        out.write_all(b"\n")
    }

    /// Writes `line` as JSON, and in it the whole text as `result`.
    pub(super) fn write_json(self, line: &Value, out: &mut dyn Write) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(BLOCK, CleanWriter::of_json(out));
        serde_json::to_writer(&mut out, &ResultLine { line, answer: self })?;
        out.flush()
    }
}

/// A line whose `result` is read from blobs while it is written.
struct ResultLine<'a> {
    line: &'a Value,
    answer: WholeAnswer<'a>,
}

impl Serialize for ResultLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(fields) = self.line.as_object() else { return self.line.serialize(serializer) };
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (name, value) in fields {
            if name == "result" {
                map.serialize_entry(name, &JsonText(self.answer))?;
            } else {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// The text as a JSON string.
struct JsonText<'a>(WholeAnswer<'a>);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `collect_str` writes each chunk at once. `serialize_str` would need the whole text.
        serializer.collect_str(self)
    }
}

impl fmt::Display for JsonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WholeAnswer { text, blobs } = self.0;
        text.each_chunk(blobs, &mut |chunk| f.write_str(chunk).map_err(io::Error::other))
            .map_err(|_| fmt::Error)
    }
}
