//! Text that may go to a terminal: without control sequences, with invisible characters made visible.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// `text` with C0 and C1 controls (but newline and tab) and bidirectional overrides shown as `\u{…}`.
///
/// A model or a tool can put any bytes into its text; a terminal would obey them.
pub fn clean(text: &str) -> Cow<'_, str> {
    escaped(text, |c, out| out.extend(c.escape_unicode()))
}

/// JSON without the characters that [`clean`] shows: they become `\uXXXX`, which means the same to every program. In JSON they
/// occur in strings only, because the format allows no others between them.
pub fn clean_json(text: &str) -> Cow<'_, str> {
    escaped(text, |c, out| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn escaped(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            escape(c, &mut out);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Passes text on to a terminal, cleaned as [`clean`] does it. For everything that becket prints there but did not write itself:
/// titles, paths, texts of models and tools.
#[derive(Debug)]
pub struct CleanWriter<W: Write> {
    inner: W,
    clean: fn(&str) -> Cow<'_, str>,
    /// The first bytes of a character whose other bytes have not arrived yet.
    partial_char: Vec<u8>,
}

impl<W: Write> CleanWriter<W> {
    /// Cleans text on its way to `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, clean, partial_char: Vec::new() }
    }

    /// Passes JSON on, cleaned as [`clean_json`] does it.
    pub fn of_json(inner: W) -> Self {
        Self { inner, clean: clean_json, partial_char: Vec::new() }
    }
}

impl<W: Write> Write for CleanWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.partial_char);
        all.extend_from_slice(bytes);
        let mut rest = all.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.inner.write_all((self.clean)(text).as_bytes())?;
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.inner.write_all((self.clean)(&String::from_utf8_lossy(good)).as_bytes())?;
                    match error.error_len() {
                        None => {
                            self.partial_char = bad.to_vec();
                            break;
                        }
                        Some(length) => {
                            self.inner.write_all("\u{FFFD}".as_bytes())?;
                            rest = &bad[length..];
                        }
                    }
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
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

    proptest! {
        #[test]
        fn pieces_are_cleaned_as_the_whole(text in ".{0,60}", cuts in prop::collection::vec(0usize..200, 0..6)) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= text.len()).collect();
            cuts.sort_unstable();
            cuts.push(text.len());
            let (mut out, mut from) = (CleanWriter::new(Vec::new()), 0);
            for cut in cuts {
                out.write_all(&text.as_bytes()[from..cut]).unwrap();
                from = cut;
            }
            prop_assert_eq!(String::from_utf8(out.inner).unwrap(), clean(&text).into_owned());
        }

        #[test]
        fn json_keeps_its_meaning_and_loses_what_terminals_obey(text in ".*", odd in "[\u{7f}-\u{9f}\u{202a}-\u{202e}\u{e0001}-\u{e007f}]{0,5}") {
            let value = serde_json::json!({ "a": format!("{text}{odd}"), odd: [text] });
            let mut out = CleanWriter::of_json(Vec::new());
            out.write_all(value.to_string().as_bytes()).unwrap();
            let shown = String::from_utf8(out.inner).unwrap();
            prop_assert!(!shown.chars().any(is_unsafe), "{:?}", shown);
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }

        #[test]
        fn no_bytes_make_it_fail_or_let_an_escape_through(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut out = CleanWriter::new(Vec::new());
            out.write_all(&bytes).unwrap();
            let shown = String::from_utf8(out.inner).unwrap();
            prop_assert!(!shown.chars().any(is_unsafe), "{:?}", shown);
        }
    }
}
