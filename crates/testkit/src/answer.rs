//! Answers of a model, independent of a wire format. [`stream`](crate::stream) writes them in each format.

use becket_types::Usage;
use serde_json::Value;

/// The API on which a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Google Gemini.
    Gemini,
    /// Converse of Amazon Bedrock.
    Converse,
}

impl Wire {
    pub(crate) fn of_path(path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        match path {
            _ if path.ends_with("/messages") || path.ends_with("RawPredict") => Self::Anthropic,
            _ if path.ends_with("/responses") => Self::Responses,
            _ if path.ends_with("/converse-stream") => Self::Converse,
            _ if path.contains("enerateContent") => Self::Gemini,
            _ => Self::Chat,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(String),
    Reasoning { text: String, signature: Option<String> },
    Redacted(String),
    Tool { id: String, name: String, arguments: String },
}

/// An answer of a model: parts in order, usage, and stop reason.
///
/// Texts and arguments are streamed in deltas of about [`Answer::deltas`] bytes, cut at character borders.
#[derive(Clone, Debug)]
pub struct Answer {
    pieces: Vec<Piece>,
    usage: Usage,
    stop: Option<String>,
    delta: usize,
}

impl Default for Answer {
    fn default() -> Self {
        let usage = Usage { input: 100, output: 10, ..Usage::default() };
        Self { pieces: Vec::new(), usage, stop: None, delta: 16 }
    }
}

impl Answer {
    /// An answer without content: 100 input and 10 output tokens, sent in pieces of 16 bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an answer with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().and_text(text)
    }

    /// Makes an answer with one tool call.
    pub fn tool(id: &str, name: &str, input: Value) -> Self {
        Self::new().and_tool(id, name, input)
    }

    /// Adds a text.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.pieces.push(Piece::Text(text.into()));
        self
    }

    /// Adds a tool call with this input.
    #[must_use]
    pub fn and_tool(self, id: &str, name: &str, input: Value) -> Self {
        self.and_raw_tool(id, name, &input.to_string())
    }

    /// Adds a tool call whose argument text is sent unchanged, valid or not.
    #[must_use]
    pub fn and_raw_tool(mut self, id: &str, name: &str, arguments: &str) -> Self {
        self.pieces.push(Piece::Tool { id: id.into(), name: name.into(), arguments: arguments.into() });
        self
    }

    /// Adds reasoning; on Anthropic's API with the signature, if one is given.
    #[must_use]
    pub fn and_reasoning(mut self, text: impl Into<String>, signature: Option<&str>) -> Self {
        self.pieces.push(Piece::Reasoning { text: text.into(), signature: signature.map(str::to_owned) });
        self
    }

    /// Adds encrypted reasoning; Anthropic's API only.
    #[must_use]
    pub fn and_redacted(mut self, data: &str) -> Self {
        self.pieces.push(Piece::Redacted(data.into()));
        self
    }

    /// Sets the number of uncached input tokens and of output tokens.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        (self.usage.input, self.usage.output) = (input, output);
        self
    }

    /// Sets the number of tokens read from and written to the cache. Chat Completions does not report writes.
    #[must_use]
    pub fn cached(mut self, read: u64, write: u64) -> Self {
        (self.usage.cache_read, self.usage.cache_write) = (read, write);
        self
    }

    /// Sets the cost that the provider bills, in billionths of a US dollar. Chat Completions reports it, as OpenRouter does.
    #[must_use]
    pub fn billed(mut self, billionths: u64) -> Self {
        self.usage.billed = billionths;
        self
    }

    /// Sets the stop reason in the API's own terms, instead of the one that follows from the parts.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.into());
        self
    }

    /// Sets the size of a delta in bytes; 0 for a single delta.
    #[must_use]
    pub fn deltas(mut self, bytes: usize) -> Self {
        self.delta = bytes;
        self
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(crate) fn usage_of(&self) -> Usage {
        self.usage
    }

    /// Returns the stop reason that the test set, if it set one.
    pub(crate) fn stop_word(&self) -> Option<&str> {
        self.stop.as_deref()
    }

    pub(crate) fn split<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut rest = text;
        let mut out = Vec::new();
        while !rest.is_empty() {
            let size = if self.delta == 0 {
                rest.len()
            } else {
                rest.ceil_char_boundary(self.delta.min(rest.len()))
            };
            let (head, tail) = rest.split_at(size);
            out.push(head);
            rest = tail;
        }
        out
    }
}
