//! The interface of a decoder of one wire format, and the events of a stream on their way to it.

use crate::assemble::Assembler;
use crate::kind::Kind;
use crate::sse::Sink;
use crate::{ModelError, dialect, split_pair};

/// Decodes the responses of one wire format.
pub(crate) trait Decoder: Send {
    /// Decodes one event of the stream.
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError>;
    /// Decodes a whole answer in one JSON document, because some servers do not stream.
    fn document(&mut self, json: &str) -> Result<(), ModelError>;
    /// True once the end event has arrived.
    fn ended(&self) -> bool;
    /// The wire format.
    fn kind(&self) -> Kind;
    /// True if the decoder itself has no state that affects later events; the assembler's state does not count.
    fn is_blank(&self) -> bool;
    fn assembler(&mut self) -> &mut Assembler;
}

pub(crate) type MakeDecoder = Box<dyn Fn() -> Box<dyn Decoder> + Send>;

/// Takes the events of a stream for a decoder.
pub(crate) struct Feed<'a>(pub(crate) &'a mut dyn Decoder, pub(crate) &'a mut Fed);

/// The events of an answer so far.
#[derive(Default)]
pub(crate) struct Fed {
    /// True once an event has been decoded.
    begun: bool,
    /// Name and data of an event that ends in half of a character, and waits for the other half.
    held: Option<(String, String)>,
}

impl Sink for Feed<'_> {
    fn event(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        let joined = match self.1.held.take() {
            Some((before, mut held)) => {
                let joined = split_pair::join(&mut held, data);
                self.decode(&before, &held)?;
                joined
            }
            None => None,
        };
        let data = joined.as_deref().unwrap_or(data);
        if split_pair::is_cut(data) {
            self.1.held = Some((name.to_owned(), data.to_owned()));
            return Ok(());
        }
        self.decode(name, data)
    }
}

impl Feed<'_> {
    /// Decodes the event that waits for the other half of a character, which does not come.
    pub(crate) fn flush(&mut self) -> Result<(), ModelError> {
        match self.1.held.take() {
            Some((name, data)) => self.decode(&name, &data),
            None => Ok(()),
        }
    }

    fn decode(&mut self, name: &str, data: &str) -> Result<(), ModelError> {
        let Self(decoder, fed) = self;
        if decoder.ended() {
            return Ok(());
        }
        if !data.trim().is_empty() && !std::mem::replace(&mut fed.begun, true) {
            refuse_other(*decoder, data)?;
        }
        decoder.event(name, data)
    }
}

/// Fails if an answer or its first event has another wire format.
pub(crate) fn refuse_other(decoder: &mut dyn Decoder, json: &str) -> Result<(), ModelError> {
    let kind = decoder.kind();
    let answer = decoder.assembler().answer_of();
    dialect::refuse_other(json, kind, &answer.server, &answer.provider)
}
