//! The text of an answer that may be longer than what is kept in memory: its beginning and its end, and the blobs that hold the
//! whole.
//!
//! Invariant: the pieces, one after the other, are the whole text byte for byte. A piece whose blob is missing is replaced by a
//! text that says so. Decides nothing about the length at which a text moves to a blob, except the number itself.

use crate::{BlobId, Blobs};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read};
use std::ops::Deref;

/// Bytes of one text or reasoning part of an answer that are kept in memory and in the ledger. The whole of a longer one is in a
/// blob. More than any model writes in one answer, so in practice only a broken or unusual server reaches it.
pub const LONG_TEXT: usize = 1 << 20;

/// Bytes that are read from a blob at a time.
const CHUNK: usize = 64 << 10;

/// A piece of a text, which is in memory or in a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextPiece {
    Text(String),
    /// The bytes of this blob of the session.
    Blob(BlobId),
}

/// The text of an answer. Derefs to the part that is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerText {
    /// The whole text, or the beginning and the end of a long one with a notice between them.
    text: String,
    /// The pieces of the whole; empty if `text` is the whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    whole: Vec<TextPiece>,
}

impl AnswerText {
    /// Makes a text of which `text` is shown. `spill`: the blob with the whole, if `text` is only a part of it.
    pub fn new(text: String, spill: Option<BlobId>) -> Self {
        Self { text, whole: spill.map(TextPiece::Blob).into_iter().collect() }
    }

    /// Returns the part that is shown.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True if the shown text is the whole.
    pub fn is_whole(&self) -> bool {
        self.whole.is_empty()
    }

    /// Adds another text at the end, after `separator`.
    pub fn append(&mut self, separator: &str, next: Self) {
        if !self.is_whole() || !next.is_whole() {
            let mut pieces = std::mem::take(self).into_pieces(&mut self.text);
            pieces.push(TextPiece::Text(separator.to_owned()));
            let mut shown = String::new();
            pieces.extend(next.into_pieces(&mut shown));
            pieces.retain(|piece| !matches!(piece, TextPiece::Text(text) if text.is_empty()));
            self.text.push_str(separator);
            self.text.push_str(&shown);
            self.whole = pieces;
            return;
        }
        self.text.push_str(separator);
        self.text.push_str(&next.text);
    }

    /// Returns the pieces of the whole. The shown part goes to `shown`.
    fn into_pieces(self, shown: &mut String) -> Vec<TextPiece> {
        let pieces =
            if self.whole.is_empty() { vec![TextPiece::Text(self.text.clone())] } else { self.whole };
        *shown = self.text;
        pieces
    }

    /// Passes the whole text on in chunks.
    ///
    /// # Errors
    ///
    /// Returns the errors of `take`.
    pub fn each_chunk(
        &self,
        blobs: &dyn Blobs,
        take: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.is_whole() {
            return take(&self.text);
        }
        self.whole.iter().try_for_each(|piece| match piece {
            TextPiece::Text(text) => take(text),
            TextPiece::Blob(id) => blob_chunks(blobs, id, take),
        })
    }

    /// Returns the whole text.
    pub fn read_whole(&self, blobs: &dyn Blobs) -> String {
        let mut whole = String::new();
        // Adding to a string does not fail.
        let _ = self.each_chunk(blobs, &mut |chunk| {
            whole.push_str(chunk);
            Ok(())
        });
        whole
    }
}

/// Passes the text in a blob on in chunks, each of whole characters. A text takes the place of a missing blob.
///
/// # Errors
///
/// Returns the errors of `take`.
pub fn blob_chunks(
    blobs: &dyn Blobs,
    id: &BlobId,
    take: &mut dyn FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    let Some(mut reader) = blobs.read(id) else {
        return take(&format!("[a part of this text is missing: blob {id} of the session]"));
    };
    let (mut buffer, mut held) = (vec![0; CHUNK], 0);
    loop {
        let read = match reader.read(buffer.get_mut(held..).unwrap_or_default()) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // An error in the middle of a blob comes from the disk, so a text takes the place of the rest.
            Err(error) => return take(&format!("[the rest of this text cannot be read: {error}]")),
        };
        let bytes = buffer.get(..held + read).unwrap_or_default();
        if read == 0 {
            return if bytes.is_empty() { Ok(()) } else { take(&String::from_utf8_lossy(bytes)) };
        }
        // A character at the end may be cut; its beginning waits for the next bytes.
        let end = match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => bytes.len(),
        };
        let (chunk, rest) = bytes.split_at(end);
        if !chunk.is_empty() {
            take(&String::from_utf8_lossy(chunk))?;
        }
        held = rest.len();
        let from = end;
        buffer.copy_within(from..from + held, 0);
    }
}

/// Passes chunks of a text on without the line breaks at the end of the text.
#[derive(Debug, Default)]
pub struct TrimmedChunks {
    /// Line breaks that are passed on if more text follows.
    breaks: usize,
}

impl TrimmedChunks {
    /// Passes a chunk on.
    ///
    /// # Errors
    ///
    /// Returns the errors of `take`.
    pub fn pass(&mut self, chunk: &str, take: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        let kept = chunk.trim_end_matches('\n');
        if !kept.is_empty() {
            take(&"\n".repeat(std::mem::take(&mut self.breaks)))?;
            take(kept)?;
        }
        self.breaks += chunk.len() - kept.len();
        Ok(())
    }
}

impl From<String> for AnswerText {
    fn from(text: String) -> Self {
        Self::new(text, None)
    }
}

impl From<&str> for AnswerText {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Deref for AnswerText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for AnswerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq<str> for AnswerText {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<String> for AnswerText {
    fn eq(&self, other: &String) -> bool {
        self.text == *other
    }
}

impl PartialEq<&str> for AnswerText {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Kept(HashMap<BlobId, Vec<u8>>);

    impl Blobs for Kept {
        fn get(&self, id: &BlobId) -> Option<Vec<u8>> {
            self.0.get(id).cloned()
        }
    }

    #[test]
    fn pieces_are_the_whole_text_wherever_chunks_cut_a_character() {
        // Characters of three bytes, which no chunk of 64 KiB holds evenly.
        let long = "漢".repeat(CHUNK);
        let id = BlobId("b".to_owned());
        let blobs = Kept([(id.clone(), long.clone().into_bytes())].into());
        let mut text = AnswerText::from("before");
        text.append("", AnswerText::new("漢…漢".to_owned(), Some(id)));
        text.append("\n", "after".into());
        assert_eq!(text, "before漢…漢\nafter");
        assert!(!text.is_whole());
        assert_eq!(text.read_whole(&blobs), format!("before{long}\nafter"));
        assert!(text.read_whole(&Kept(HashMap::new())).contains("is missing"));
    }

    #[test]
    fn line_breaks_at_the_end_are_left_out_and_no_others() {
        let mut out = String::new();
        let mut trimmed = TrimmedChunks::default();
        for chunk in ["a\n", "\n", "", "\nb\n", "c", "\n\n", "\n"] {
            let mut take = |text: &str| {
                out.push_str(text);
                Ok(())
            };
            trimmed.pass(chunk, &mut take).unwrap();
        }
        assert_eq!(out, "a\n\n\nb\nc");
    }

    #[test]
    fn short_texts_stay_one_text() {
        let mut text = AnswerText::from("a");
        text.append("\n", "b".into());
        assert!(text.is_whole());
        assert_eq!(serde_json::to_string(&text).unwrap(), r#"{"text":"a\nb"}"#);
    }
}
