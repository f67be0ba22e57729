//! Output of commands that print parts of sessions: secrets are masked on the way.
//!
//! Whole lines are passed on with each write. A line of JSON is masked by its values, so that a value is also recognized by its
//! key, and stays JSON.

use becket_session::secrets::{mask, mask_value};
use serde_json::Value;
use std::io::{self, Write};

/// Masks the secrets in UTF-8 text. An unfinished line waits for its end or for [`Write::flush`].
pub(crate) struct MaskedWriter<W: Write> {
    inner: W,
    partial_line: Vec<u8>,
}

impl<W: Write> MaskedWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, partial_line: Vec::new() }
    }

    fn pass_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(mask_lines(&String::from_utf8_lossy(bytes)).as_bytes())
    }
}

/// Masks whole lines. JSON is parsed line by line, other text is masked as one, because a private key has several lines.
fn mask_lines(lines: &str) -> String {
    let is_json = |line: &str| line.starts_with(['{', '[']);
    if !lines.lines().all(is_json) {
        return mask(lines).0;
    }
    lines.split_inclusive('\n').map(|line| json(line).unwrap_or_else(|| mask(line).0)).collect()
}

/// Returns a line of JSON with its secrets masked; `None` if it is not JSON.
fn json(line: &str) -> Option<String> {
    let text = line.trim_end_matches('\n');
    let mut value: Value = serde_json::from_str(text).ok()?;
    Some(if mask_value(&mut value) == 0 {
        line.to_owned()
    } else {
        format!("{value}{}", &line[text.len()..])
    })
}

impl<W: Write> Write for MaskedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial_line.extend_from_slice(bytes);
        if let Some(end) = self.partial_line.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.partial_line.split_off(end + 1);
            let lines = std::mem::replace(&mut self.partial_line, rest);
            self.pass_on(&lines)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.partial_line);
        self.pass_on(&rest)?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_json_are_masked_however_they_are_written() {
        let text = "a DB_PASSWORD=hunter22\n{\"password\":\"hunter22\"}\nlast line with é";
        let json = "{\"password\": \"hunter22\", \"n\": 1.50}\n[1, 2]\n";
        for size in 1..text.len() {
            for (text, want) in [
                (text, "a DB_PASSWORD=‹value masked›\n{\"password\":\"‹value masked›\"}\nlast line with é"),
                (json, "{\"password\":\"‹value masked›\",\"n\":1.5}\n[1, 2]\n"),
            ] {
                let mut out = MaskedWriter::new(Vec::new());
                for chunk in text.as_bytes().chunks(size) {
                    out.write_all(chunk).unwrap();
                }
                out.flush().unwrap();
                assert_eq!(String::from_utf8(out.inner).unwrap(), want, "{size}");
            }
        }
    }
}
