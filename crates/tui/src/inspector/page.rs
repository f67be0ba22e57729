//! Owns the pages of the inspector as data: the request for one, and the host's answer.

use std::num::NonZeroUsize;

/// A request to a model that the inspector shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InspectedRequest {
    /// The request that would be sent now.
    #[default]
    Now,
    /// The request that was sent with this number, counted from 1.
    Sent(NonZeroUsize),
}

impl InspectedRequest {
    /// Returns the request with this number; 0 names the one that would be sent now.
    pub fn numbered(number: usize) -> Self {
        NonZeroUsize::new(number).map_or(Self::Now, Self::Sent)
    }
}

/// Page to request from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspect {
    Requests,
    Spans {
        request: InspectedRequest,
    },
    /// The bytes of the span with this index in [`Inspected::Spans`].
    Bytes {
        request: InspectedRequest,
        span: usize,
    },
    /// The differences to the previous request.
    Diff {
        request: InspectedRequest,
    },
}

/// A page as the host returns it.
#[derive(Clone, Debug, PartialEq)]
pub enum Inspected {
    Requests(Vec<SentRow>),
    Spans { head: String, rows: Vec<SpanRow> },
    Text { title: String, text: String },
}

/// A request that was sent. Sizes are in tokens, as the provider reported them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentRow {
    pub request: InspectedRequest,
    /// Date and time of day.
    pub time: String,
    pub tokens: Option<u64>,
    pub cached: Option<u64>,
    /// Purpose of the request if it is not a step of a turn, changes before it to content that was cached, and the
    /// reason for a cache miss.
    pub notes: Vec<String>,
}

/// A span of a request: a part such as the system prompt, a tool or a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanRow {
    /// Entry number of the message; `None` or 0 for a part that is not a message of the session.
    pub seq: Option<u64>,
    pub kind: String,
    /// Name of a rules file or tool, or the role of a message.
    pub label: String,
    /// The file, call, compaction or model that it comes from.
    pub source: Option<String>,
    pub tokens: u64,
    /// `read`, `written` or `fresh`; empty if unknown.
    pub cache: String,
    /// True if the previous request had these bytes at this position.
    pub sent_before: Option<bool>,
    /// Start and end in the bytes of the request.
    pub bytes: Option<(usize, usize)>,
    /// Changes applied to the span: `pruned`, `escaped`, …
    pub applied: Vec<String>,
    pub preview: String,
    /// The user sees this content nowhere else.
    pub hidden: bool,
}
