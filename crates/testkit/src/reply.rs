//! One HTTP response, with faults at exact bytes.

use crate::answer::{Answer, Wire};
use crate::converse;
use crate::gate::Gate;
use bytes::Bytes;
use serde_json::Value;
use std::fmt::Write as _;

/// The server's response to one request.
///
/// Offsets count bytes of the response body (of the whole response for [`Reply::raw`]).
#[derive(Clone, Debug)]
pub struct Reply {
    content: Content,
    status: u16,
    headers: Vec<(String, String)>,
    framing: Framing,
    /// Size in bytes of the pieces in which the body is written; 0 for one piece.
    piece: usize,
    events: Vec<(usize, Event)>,
}

#[derive(Clone, Debug)]
enum Content {
    Answer(Box<Answer>),
    Body(Bytes),
    /// The bytes of the whole response, including its head. The connection closes after them.
    Raw(Bytes),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Chunked,
    Length(Option<usize>),
}

#[derive(Clone, Debug)]
enum Event {
    Gate(Gate),
    Close,
    Reset,
    Stall,
}

/// One step of the server on the socket.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Write(Bytes),
    Gate(Gate),
    /// Orderly close of the connection, even if the response is incomplete.
    Close,
    /// Connection reset.
    Reset,
    /// Keeps the connection open and sends nothing more.
    Stall,
}

impl From<Answer> for Reply {
    /// Makes a stream of events in the format of the API to which the request's path belongs.
    fn from(answer: Answer) -> Self {
        Self::new(200, Content::Answer(Box::new(answer)), Framing::Chunked)
            .header("content-type", "text/event-stream; charset=utf-8")
    }
}

impl Reply {
    fn new(status: u16, content: Content, framing: Framing) -> Self {
        Self { content, status, headers: Vec::new(), framing, piece: 0, events: Vec::new() }
    }

    /// Makes a 200 event stream with exactly this body.
    pub fn sse(body: impl Into<Bytes>) -> Self {
        Self::new(200, Content::Body(body.into()), Framing::Chunked)
            .header("content-type", "text/event-stream; charset=utf-8")
    }

    /// Makes a response with this JSON as its body, on one line.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::body(status, "application/json", body.to_string())
    }

    /// Makes a response with this body and its real content length.
    pub fn body(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::new(status, Content::Body(body.into()), Framing::Length(None))
            .header("content-type", content_type)
    }

    /// Makes a response with only a status: no body, no content type.
    pub fn status(status: u16) -> Self {
        Self::new(status, Content::Body(Bytes::new()), Framing::Length(None))
    }

    /// Makes a response of exactly these bytes, including the status line. The connection closes after them.
    pub fn raw(response: impl Into<Bytes>) -> Self {
        Self::new(200, Content::Raw(response.into()), Framing::Chunked)
    }

    /// Makes a reply without any bytes: the server reads the request and closes the connection.
    pub fn nothing() -> Self {
        Self::raw(Bytes::new())
    }

    /// Makes an error in Anthropic's format.
    pub fn anthropic_error(status: u16, kind: &str, message: &str) -> Self {
        let error = serde_json::json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_mock"});
        Self::json(status, &error)
    }

    /// Makes an error in OpenAI's format.
    pub fn openai_error(status: u16, kind: &str, code: &str, message: &str) -> Self {
        let error =
            serde_json::json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
        Self::json(status, &error)
    }

    /// Adds a header. Headers of the same name that were added before stay.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes all headers with this name, ignoring case.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    /// Declares this content length, even if the body has another length.
    #[must_use]
    pub fn declared_length(mut self, length: usize) -> Self {
        self.framing = Framing::Length(Some(length));
        self
    }

    /// Writes the body in pieces of this many bytes. With chunked encoding, each piece is a chunk.
    #[must_use]
    pub fn pieces(mut self, bytes: usize) -> Self {
        self.piece = bytes;
        self
    }

    /// Closes the connection after `offset` bytes.
    #[must_use]
    pub fn cut_at(self, offset: usize) -> Self {
        self.event(offset, Event::Close)
    }

    /// Resets the connection after `offset` bytes.
    #[must_use]
    pub fn reset_at(self, offset: usize) -> Self {
        self.event(offset, Event::Reset)
    }

    /// Sends nothing after `offset` bytes and keeps the connection open.
    #[must_use]
    pub fn stall_at(self, offset: usize) -> Self {
        self.event(offset, Event::Stall)
    }

    /// Waits at the gate after `offset` bytes.
    #[must_use]
    pub fn gate_at(self, offset: usize, gate: &Gate) -> Self {
        self.event(offset, Event::Gate(gate.clone()))
    }

    /// Waits at the gate before any byte of the response is sent.
    #[must_use]
    pub fn gate_before(self, gate: &Gate) -> Self {
        self.event(usize::MAX, Event::Gate(gate.clone()))
    }

    fn event(mut self, offset: usize, event: Event) -> Self {
        self.events.push((offset, event));
        self
    }

    /// Returns the response body for `wire`.
    pub fn body_bytes(&self, wire: Wire) -> Bytes {
        match &self.content {
            Content::Answer(answer) => Bytes::from(answer.body(wire)),
            Content::Body(body) | Content::Raw(body) => body.clone(),
        }
    }

    pub(crate) fn actions(&self, wire: Wire) -> Vec<Action> {
        let body = self.body_bytes(wire);
        let raw = matches!(self.content, Content::Raw(_));
        let chunked = !raw && self.framing == Framing::Chunked;
        let mut actions = Vec::new();
        for (offset, event) in &self.events {
            if let (usize::MAX, Event::Gate(gate)) = (*offset, event) {
                actions.push(Action::Gate(gate.clone()));
            }
        }
        if !raw {
            let answer = matches!(self.content, Content::Answer(_));
            let framed = answer && wire == Wire::Converse;
            actions.push(Action::Write(self.head(body.len(), framed)));
        }
        let mut events: Vec<&(usize, Event)> = self.events.iter().filter(|(o, _)| *o != usize::MAX).collect();
        events.sort_by_key(|(offset, _)| *offset);
        let mut at = 0;
        for (offset, event) in events {
            let offset = (*offset).min(body.len());
            self.write(&body.slice(at..offset.max(at)), chunked, &mut actions);
            at = offset.max(at);
            match event {
                Event::Gate(gate) => actions.push(Action::Gate(gate.clone())),
                Event::Close | Event::Reset | Event::Stall => {
                    actions.push(match event {
                        Event::Close => Action::Close,
                        Event::Reset => Action::Reset,
                        _ => Action::Stall,
                    });
                    return actions;
                }
            }
        }
        self.write(&body.slice(at..), chunked, &mut actions);
        if chunked {
            actions.push(Action::Write(Bytes::from_static(b"0\r\n\r\n")));
        } else if raw {
            actions.push(Action::Close);
        }
        actions
    }

    fn write(&self, bytes: &Bytes, chunked: bool, actions: &mut Vec<Action>) {
        let size = if self.piece == 0 { bytes.len().max(1) } else { self.piece };
        let mut at = 0;
        while at < bytes.len() {
            let piece = bytes.slice(at..(at + size).min(bytes.len()));
            at += piece.len();
            actions.push(Action::Write(if chunked {
                let mut framed = format!("{:x}\r\n", piece.len()).into_bytes();
                framed.extend_from_slice(&piece);
                framed.extend_from_slice(b"\r\n");
                Bytes::from(framed)
            } else {
                piece
            }));
        }
    }

    /// The head of the response. `framed`: the body consists of the binary messages of Converse, which have a content type of their own.
    fn head(&self, length: usize, framed: bool) -> Bytes {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            let value = if framed && name == "content-type" { converse::CONTENT_TYPE } else { value };
            let _ = write!(head, "{name}: {value}\r\n");
        }
        match self.framing {
            Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
            Framing::Length(_) if self.status == 204 => {}
            Framing::Length(declared) => {
                let _ = write!(head, "content-length: {}\r\n", declared.unwrap_or(length));
            }
        }
        head.push_str("\r\n");
        Bytes::from(head)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Mock",
    }
}
