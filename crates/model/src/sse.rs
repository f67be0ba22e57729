//! Server-sent events, as servers really send them.
//!
//! Bytes go in as they arrive, events come out. Knows CR, LF and CRLF line ends, a byte order mark, comments, events of
//! several data lines, characters split anywhere, and a last event without its blank line. Lenient where real servers
//! deviate: a line that starts with `{` counts as data, a field called `error` as an event of that name.
//!
//! Cost is linear in the bytes. An event larger than [`MAX_EVENT`] is an error, not a reason to use up memory.

use crate::{ErrorKind, ModelError};
use std::borrow::Cow;

/// Largest event in bytes.
pub(crate) const MAX_EVENT: usize = 16 * 1024 * 1024;

/// Takes one event: its name (empty where it has none) and its data.
pub(crate) trait Sink {
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError>;
}

impl<F: FnMut(&str, &str) -> Result<(), ModelError>> Sink for F {
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        self(name, data)
    }
}

#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// A line whose end has not come yet.
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    name: String,
    /// The last byte was a CR: a LF that follows belongs to it.
    after_cr: bool,
    past_start: bool,
    /// True once bytes that are not UTF-8 were replaced.
    pub(crate) replaced: bool,
}

impl SseParser {
    pub(crate) fn push(&mut self, mut bytes: &[u8], sink: &mut impl Sink) -> Result<(), ModelError> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            if let Some(data) = self.whole_event(bytes, end) {
                self.replaced |= give(&self.name, data, sink)?;
                self.name.clear();
                bytes = &bytes[end + 2..];
                continue;
            }
            if self.line.is_empty() {
                self.take_line(&bytes[..end], sink)?;
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, sink)?;
                self.line = line;
                self.line.clear();
            }
            let mut next = end + 1;
            if bytes[end] == b'\r' {
                match bytes.get(next) {
                    Some(b'\n') => next += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            bytes = &bytes[next..];
        }
        self.line.extend_from_slice(bytes);
        self.check_size()
    }

    /// Nearly every event ends in one line of data and a blank one, both at hand: its data need not be copied.
    fn whole_event<'b>(&self, bytes: &'b [u8], end: usize) -> Option<&'b [u8]> {
        let here = self.past_start && self.line.is_empty() && !self.has_data;
        let ends = bytes[end..].starts_with(b"\n\n") && end <= MAX_EVENT;
        let value = bytes[..end].strip_prefix(b"data:").filter(|_| here && ends)?;
        Some(value.strip_prefix(b" ").unwrap_or(value))
    }

    /// The stream is over: an event counts even if no blank line follows it.
    pub(crate) fn end(&mut self, sink: &mut impl Sink) -> Result<(), ModelError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, sink)?;
        }
        self.dispatch(sink)
    }

    fn take_line(&mut self, mut line: &[u8], sink: &mut impl Sink) -> Result<(), ModelError> {
        if !self.past_start {
            self.past_start = true;
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(sink);
        }
        if line[0] == b'{' {
            return self.add_data(line);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => self.add_data(value),
            b"event" => {
                self.name.clear();
                self.name.push_str(&String::from_utf8_lossy(value));
                Ok(())
            }
            b"error" => {
                "error".clone_into(&mut self.name);
                self.add_data(value)
            }
            // Comments (an empty field name), `id`, `retry` and unknown fields are ignored.
            _ => Ok(()),
        }
    }

    fn add_data(&mut self, value: &[u8]) -> Result<(), ModelError> {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        self.check_size()
    }

    fn dispatch(&mut self, sink: &mut impl Sink) -> Result<(), ModelError> {
        if !self.has_data {
            self.name.clear();
            return Ok(());
        }
        let result = give(&self.name, &self.data, sink);
        self.data.clear();
        self.has_data = false;
        self.name.clear();
        self.replaced |= result?;
        Ok(())
    }

    fn check_size(&self) -> Result<(), ModelError> {
        if self.data.len() + self.line.len() > MAX_EVENT {
            let message =
                format!("The server sent a single event of more than {} MB.", MAX_EVENT / 1024 / 1024);
            return Err(ModelError::new(ErrorKind::Malformed, message));
        }
        Ok(())
    }
}

/// Passes on an event. Returns true if bytes that are not UTF-8 were replaced: the rest of an answer is worth more than a second
/// request, which may bring the same bytes.
fn give(name: &str, data: &[u8], sink: &mut impl Sink) -> Result<bool, ModelError> {
    let data = String::from_utf8_lossy(data);
    sink.event(name, &data)?;
    Ok(matches!(data, Cow::Owned(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let mut sink = |name: &str, data: &str| {
            events.push((name.to_owned(), data.to_owned()));
            Ok(())
        };
        let mut parser = SseParser::default();
        for chunk in chunks {
            parser.push(chunk, &mut sink).unwrap();
        }
        parser.end(&mut sink).unwrap();
        events
    }

    #[test]
    fn framing_as_servers_send_it() {
        let e = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        for (input, want) in [
            ("data: a\n\n", vec![e("", "a")]),
            ("data:a\n\n", vec![e("", "a")]),
            ("data:  a\n\n", vec![e("", " a")]),
            ("event: x\r\ndata: a\r\n\r\n", vec![e("x", "a")]),
            ("event: x\rdata: a\r\r", vec![e("x", "a")]),
            ("\u{feff}data: a\n\n", vec![e("", "a")]),
            (": ping\n\ndata: a\n\n", vec![e("", "a")]),
            ("data: a\ndata: b\n\n", vec![e("", "a\nb")]),
            ("data\n\n", vec![e("", "")]),
            ("data: a", vec![e("", "a")]),
            ("foo: 1\nretry: x\nid: 7\ndata: a\n\n", vec![e("", "a")]),
            ("event: lonely\n\ndata: a\n\n", vec![e("", "a")]),
            ("{\"error\":1}\n\n", vec![e("", "{\"error\":1}")]),
            ("error: {\"code\":500}\n\n", vec![e("error", "{\"code\":500}")]),
            ("", vec![]),
            ("\n\n\n", vec![]),
        ] {
            assert_eq!(parse(&[input.as_bytes()]), want, "{input:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_huge_events_are_errors() {
        let mut events = Vec::new();
        let mut sink = |_: &str, data: &str| {
            events.push(data.to_owned());
            Ok(())
        };
        let mut parser = SseParser::default();
        parser.push(b"data: \xc3\xa9\n\n", &mut sink).unwrap();
        assert!(!parser.replaced);
        parser.push(b"data: a\xff\n\ndata: b\n\n", &mut sink).unwrap();
        assert!(parser.replaced, "it stays known");
        assert_eq!(events, ["é", "a\u{fffd}", "b"]);

        let mut sink = |_: &str, _: &str| Ok(());
        let mut parser = SseParser::default();
        let chunk = vec![b'x'; 1024 * 1024];
        parser.push(b"data: ", &mut sink).unwrap();
        let error = (0..17).find_map(|_| parser.push(&chunk, &mut sink).err()).unwrap();
        assert_eq!(error.kind, ErrorKind::Malformed);
    }

    proptest! {
        /// However the bytes are cut, the events are the same.
        #[test]
        fn cuts_change_nothing(
            lines in prop::collection::vec("(data|event|id|:|error)(: ?[a-zé😀{}\" ]{0,8})?", 0..12),
            ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r\n", "\r"]), 12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut text = String::new();
            for (line, end) in lines.iter().zip(&ends) {
                text.push_str(line);
                text.push_str(end);
                text.push_str(end);
            }
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            at.push(0);
            at.push(bytes.len());
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(parse(&chunks), parse(&[bytes]));
        }
    }
}
