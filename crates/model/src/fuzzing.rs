//! Entry points to the stream decoders and the error table for fuzz targets and tests, without a network. Not part of the
//! public API.

use crate::anthropic::AnthropicDecoder;
use crate::assemble::AnswerOf;
use crate::chat::ChatDecoder;
use crate::decoder::Decoder;
use crate::errors::{Failure, classify};
use crate::ids::SeenCalls;
use crate::responses::ResponsesDecoder;
use crate::shortcut::Shortcut;
use crate::sse::SseParser;
use crate::{ErrorKind, ModelEvent};
use becket_types::Part;

/// Decodes a Chat Completions stream and returns its parts and its result as text. `chunks` are the pieces in which the
/// network delivers it. With `in_full`, every event goes through the full decoder; the result must be the same.
pub fn chat(chunks: &[&[u8]], in_full: bool) -> String {
    if in_full {
        decode(ChatDecoder::new(answer()), chunks)
    } else {
        decode(Shortcut::new(ChatDecoder::new, answer()), chunks)
    }
}

/// Decodes like [`chat`], for the Messages API.
pub fn anthropic(chunks: &[&[u8]], in_full: bool) -> String {
    if in_full {
        decode(AnthropicDecoder::new(answer()), chunks)
    } else {
        decode(Shortcut::new(AnthropicDecoder::new, answer()), chunks)
    }
}

/// Decodes like [`chat`], for the Responses API. It has only one way.
pub fn responses(chunks: &[&[u8]]) -> String {
    decode(ResponsesDecoder::new(answer()), chunks)
}

/// True if an error response is classified as a refusal by the server's chat template.
pub fn is_template_error(status: u16, body: &str) -> bool {
    let failure = Failure { status: Some(status), body, ..Failure::default() };
    classify(&failure).kind == ErrorKind::Template
}

fn answer() -> AnswerOf {
    AnswerOf {
        provider: "p".to_owned(),
        model: "m".to_owned(),
        cap: 1_000,
        seen: SeenCalls::default(),
        server: "the server".to_owned(),
        fatal_codes: Vec::new(),
        id: std::sync::Arc::default(),
    }
}

fn decode(mut decoder: impl Decoder, chunks: &[&[u8]]) -> String {
    let mut parser = SseParser::default();
    let result = {
        let mut feed = |name: &str, data: &str| {
            if decoder.ended() { Ok(()) } else { decoder.event(name, data) }
        };
        let pushed = chunks.iter().try_for_each(|chunk| parser.push(chunk, &mut feed));
        pushed.and_then(|()| parser.end(&mut feed))
    };
    decoder.assembler().end();
    // Generated ids differ from run to run, so they are left out.
    let parts: Vec<String> = decoder.assembler().take().iter().map(without_own_ids).collect();
    format!("{parts:?} {result:?}")
}

fn without_own_ids(event: &ModelEvent) -> String {
    match event {
        ModelEvent::Part { part: Part::ToolCall { name, input, invalid, .. }, .. } => {
            format!("call {name} {input} {invalid:?}")
        }
        ModelEvent::ToolCallDelta { name, json, .. } => format!("delta {name} {json}"),
        other => format!("{other:?}"),
    }
}
