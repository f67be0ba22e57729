//! Splits a body in the event stream format of AWS (`application/vnd.amazon.eventstream`) into messages.
//!
//! A message has a length, headers, a payload and two checksums; the library checks them. The payload of a message is one
//! event. The header `:event-type` is its name, or `:exception-type` for an error; both are words that the decoder knows.
//! Cost is linear in the bytes. A message larger than [`MAX_EVENT`] is an error, because it would fill the memory.

use crate::sse::{MAX_EVENT, Sink};
use crate::{ErrorKind, ModelError};
use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use bytes::{Buf as _, BytesMut};
use std::borrow::Cow;

/// Content type of such a body.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";
/// Bytes of the lengths and checksums of a message without headers and payload.
const SMALLEST: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct FrameParser {
    held: BytesMut,
    /// True once bytes that are not UTF-8 were replaced.
    pub(crate) replaced: bool,
}

impl FrameParser {
    /// Takes the next bytes of the body and passes on every message that is complete.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Malformed`] for a length that cannot be right, [`ErrorKind::StreamBroken`] for a wrong
    /// checksum, and the errors of `sink`.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<(), ModelError> {
        self.held.extend_from_slice(bytes);
        while let Some(start) = self.held.first_chunk::<4>() {
            let length = u32::from_be_bytes(*start) as usize;
            if !(SMALLEST..=MAX_EVENT).contains(&length) {
                let message = format!("The server sent a message that claims to have {length} bytes.");
                return Err(ModelError::new(ErrorKind::Malformed, message)
                    .hint("Check that the base URL is that of the Bedrock runtime."));
            }
            if self.held.len() < length {
                self.held.reserve(length - self.held.len());
                break;
            }
            let message = read_message_from(&self.held[..length]).map_err(|error| damaged(&error))?;
            self.held.advance(length);
            self.replaced |= give(&message, sink)?;
        }
        Ok(())
    }

    /// True if a message has begun and is not complete.
    pub(crate) fn is_cut(&self) -> bool {
        !self.held.is_empty()
    }
}

fn damaged(error: &aws_smithy_eventstream::error::Error) -> ModelError {
    ModelError::new(ErrorKind::StreamBroken, format!("A message of the server's answer is damaged: {error}."))
        .hint("Try again; if it stays so, check the network, or a proxy in between.")
}

/// Passes on a message. Returns true if bytes that are not UTF-8 were replaced.
fn give(message: &Message, sink: &mut impl Sink) -> Result<bool, ModelError> {
    let header = |name: &str| {
        let found = message.headers().iter().find(|header| header.name().as_str() == name)?;
        Some(found.value().as_string().ok()?.as_str())
    };
    let payload = &String::from_utf8_lossy(message.payload());
    match header(":message-type") {
        // An error without a type of its own: code and text are in headers.
        Some("error") => {
            let text = header(":error-message").unwrap_or(payload);
            let body = serde_json::json!({"message": text, "type": header(":error-code")}).to_string();
            sink.event("errorException", &body)
        }
        Some("exception") => sink.event(header(":exception-type").unwrap_or("unknownException"), payload),
        _ => sink.event(header(":event-type").unwrap_or_default(), payload),
    }?;
    Ok(matches!(payload, Cow::Owned(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    /// The bytes of one event `messageStop` in base64. AWS's own Python library (botocore 1.44) accepts them.
    const STOP: &str = "AAAAhQAAAFEASIHpDTptZXNzYWdlLXR5cGUHAAVldmVudAs6ZXZlbnQtdHlwZQcAC21lc3NhZ2VTdG9wDTpjb250ZW50LXR5cGUHABBhcHBsaWNhdGlvbi9qc29ueyJzdG9wUmVhc29uIjoiZW5kX3R1cm4iLCJwIjoiYWJjZCJ9wbdmEg==";

    fn parse(chunks: &[&[u8]]) -> (Vec<(String, String)>, Result<(), ModelError>, bool) {
        let mut events = Vec::new();
        let mut parser = FrameParser::default();
        let mut sink = |name: &str, data: &str| {
            events.push((name.to_owned(), data.to_owned()));
            Ok(())
        };
        let result = chunks.iter().try_for_each(|chunk| parser.push(chunk, &mut sink));
        (events, result, parser.is_cut())
    }

    fn stop() -> Vec<u8> {
        STANDARD.decode(STOP).unwrap()
    }

    #[test]
    fn a_message_becomes_an_event() {
        let (events, result, cut) = parse(&[&stop()]);
        assert_eq!(result, Ok(()));
        assert_eq!(
            events,
            [("messageStop".to_owned(), r#"{"stopReason":"end_turn","p":"abcd"}"#.to_owned())]
        );
        assert!(!cut);
    }

    #[test]
    fn lengths_that_cannot_be_right_are_refused_before_they_are_awaited() {
        for start in [&b"\x00\x00\x00\x00rest"[..], b"\x00\x00\x00\x0f", b"\xff\xff\xff\xff", b"<html>"] {
            let (_, result, _) = parse(&[start]);
            assert_eq!(result.unwrap_err().kind, ErrorKind::Malformed, "{start:?}");
        }
    }

    proptest! {
        /// However the bytes are cut, the events are the same; a cut in a message is known.
        #[test]
        fn cuts_change_nothing(cut in any::<prop::sample::Index>(), again in any::<prop::sample::Index>()) {
            let two = [stop(), stop()].concat();
            let (a, b) = (cut.index(two.len()), again.index(two.len()));
            let (a, b) = (a.min(b), a.max(b));
            let (events, result, _) = parse(&[&two[..a], &two[a..b], &two[b..]]);
            prop_assert_eq!(result, Ok(()));
            prop_assert_eq!(events.len(), 2);
            let (events, _, cut) = parse(&[&two[..a]]);
            prop_assert_eq!(events.len(), a / stop().len());
            prop_assert_eq!(cut, a % stop().len() != 0);
        }

        /// A changed byte is an error or a message that is never complete, and no event.
        #[test]
        fn a_changed_byte_is_no_event(at in any::<prop::sample::Index>(), with in 1u8..) {
            let mut bytes = stop();
            let at = at.index(bytes.len());
            bytes[at] ^= with;
            let (events, result, cut) = parse(&[&bytes]);
            prop_assert!(events.is_empty(), "{:?}", events);
            prop_assert!(result.is_err() || cut);
        }
    }
}
