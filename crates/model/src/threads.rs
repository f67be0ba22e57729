//! Message threads of Anthropic: a request that continues the last one sends only the new messages.
//!
//! Model: the server keeps the conversation of an answer for some minutes under the answer's id. The whole request is always
//! built, and everything that is recorded or compared is the whole. A shorter body is cut out of its bytes, if
//! all of this holds: the whole begins with the bytes of the request before, exactly one message of the model follows them,
//! and it has the parts that the server sent. If the server refuses or has forgotten the thread, the whole is sent.
//!
//! Does not send anything, and does not count as an attempt.

use crate::wire::put_str;
use crate::{Digest, ModelEvent, Request};
use becket_types::{FinishReason, Part, Role};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The header that requests with threads need.
pub(crate) const BETA: (&str, &str) = ("anthropic-beta", "message-threads-2026-08-12");
/// The server keeps a thread for five minutes. A request takes a moment to arrive.
const KEPT: Duration = Duration::from_secs(280);
/// Fields of a whole request that a thread keeps, and the messages. The first of these fields in
/// the request ends the part that every request repeats.
const KEPT_FIELDS: [&[u8]; 3] = [b",\"system\":[", b",\"tools\":", b",\"messages\":["];

/// The threads of one model. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Threads(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// True if the server does not accept threads.
    off: bool,
    /// The thread that can be continued.
    known: Option<Known>,
    /// The last request that was built.
    built: Option<Built>,
}

struct Known {
    id: String,
    /// The whole request that the answer belongs to, without its end.
    body: Vec<Bytes>,
    /// Number of messages in that request.
    messages: usize,
    /// The parts of the answer.
    parts: Vec<Part>,
    at: Instant,
}

struct Built {
    digest: Digest,
    messages: usize,
    /// True if the messages after those of the known thread begin with its answer, and no other message of them is the
    /// model's.
    continues: bool,
}

/// An answer while it arrives.
pub(crate) struct Answering {
    threads: Threads,
    body: Vec<Bytes>,
    messages: usize,
    parts: Vec<Part>,
}

impl Threads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the messages of a request that was built.
    pub(crate) fn built(&self, request: &Request<'_>, digest: Digest) {
        let mut state = self.state();
        let messages = &request.context.messages;
        let continues = state.known.as_ref().is_some_and(|known| {
            let new = messages.get(known.messages..).unwrap_or_default();
            let mut of_model = new.iter().filter(|message| message.message.role == Role::Assistant);
            let first = new.first().is_some_and(|message| message.message.role == Role::Assistant);
            first
                && of_model.next().is_some_and(|message| message.message.parts == known.parts)
                && of_model.next().is_none()
        });
        state.built = Some(Built { digest, messages: messages.len(), continues });
    }

    /// Returns the bodies to try before the whole one, and the observer of the answer.
    pub(crate) fn shorten(&self, whole: &[Bytes], digest: &Digest) -> (Vec<Vec<Bytes>>, Option<Answering>) {
        let state = self.state();
        let Some(built) = state.built.as_ref().filter(|built| !state.off && built.digest == *digest) else {
            return (Vec::new(), None);
        };
        let Some((head, rest)) = whole.split_first() else { return (Vec::new(), None) };
        let mut bodies = Vec::new();
        let known = state.known.as_ref().filter(|known| built.continues && known.at.elapsed() < KEPT);
        bodies.extend(known.and_then(|known| continued(known, head, whole)).map(|body| vec![body]));
        let mut created = vec![with_thread(head, r#"{"type":"create"}"#)];
        created.extend(rest.iter().cloned());
        bodies.push(created);
        let answering = Answering {
            threads: self.clone(),
            body: whole[..whole.len() - 1].to_vec(),
            messages: built.messages,
            parts: Vec::new(),
        };
        (bodies, Some(answering))
    }

    /// Notes that the server refused a body of [`Self::shorten`] with this status. `left`: the bodies that are left to try.
    pub(crate) fn refused(&self, left: usize, status: u16) {
        let mut state = self.state();
        state.known = None;
        // If the server has forgotten the thread, the next body creates one again. If it refuses the last body, which
        // creates one, it has no threads.
        state.off |= left == 0 && status != 404;
    }
}

impl Answering {
    /// Takes an event of the answer. `id`: the answer's id, once it is known.
    pub(crate) fn take(&mut self, event: &ModelEvent, id: impl FnOnce() -> Option<String>) {
        match event {
            ModelEvent::Part { part, .. } => self.parts.push(part.clone()),
            ModelEvent::Finish(FinishReason::Stop | FinishReason::ToolCalls) => {
                let known = id().map(|id| Known {
                    id,
                    body: std::mem::take(&mut self.body),
                    messages: self.messages,
                    parts: std::mem::take(&mut self.parts),
                    at: Instant::now(),
                });
                self.threads.state().known = known;
            }
            _ => {}
        }
    }
}

/// Returns the head with a field for the thread.
fn with_thread(head: &[u8], thread: &str) -> Bytes {
    let mut out = format!("{{\"thread\":{thread},").into_bytes();
    out.extend_from_slice(head.get(1..).unwrap_or_default());
    out.into()
}

/// Returns the request with the new messages alone; `None` if the whole one does not continue the known thread.
fn continued(known: &Known, head: &[u8], whole: &[Bytes]) -> Option<Bytes> {
    let new = new_messages(&after(whole, &known.body)?)?;
    let end = KEPT_FIELDS.iter().filter_map(|field| find(head, field)).min()?;
    let mut thread = br#"{"type":"continue","previous_message_id":"#.to_vec();
    put_str(&mut thread, &known.id);
    thread.push(b'}');
    let mut out = with_thread(&head[..end], std::str::from_utf8(&thread).ok()?).to_vec();
    out.extend_from_slice(b",\"messages\":[");
    out.extend_from_slice(&new);
    Some(out.into())
}

/// Returns the bytes after `start`; `None` if the body does not begin with it.
fn after(body: &[Bytes], start: &[Bytes]) -> Option<Vec<u8>> {
    let mut body = body.iter();
    let mut rest: &[u8] = &[];
    for piece in start {
        let mut piece: &[u8] = piece;
        while !piece.is_empty() {
            if rest.is_empty() {
                rest = body.next()?;
                continue;
            }
            let both = piece.len().min(rest.len());
            if piece[..both] != rest[..both] {
                return None;
            }
            (piece, rest) = (&piece[both..], &rest[both..]);
        }
    }
    let mut out = rest.to_vec();
    body.for_each(|piece| out.extend_from_slice(piece));
    Some(out)
}

/// Returns the messages after the model's answer, with the end of the body. `after`: what follows the request before.
fn new_messages(after: &[u8]) -> Option<Vec<u8>> {
    // The whole request kept its last message open, so the new bytes begin with its end.
    let rest = after.strip_prefix(b"]},")?;
    let mut messages = serde_json::Deserializer::from_slice(rest).into_iter::<Box<RawValue>>();
    let answer = messages.next()?.ok()?;
    if !answer.get().starts_with(r#"{"role":"assistant""#) {
        return None;
    }
    let new = rest.get(messages.byte_offset()..)?.strip_prefix(b",")?;
    new.starts_with(br#"{"role":"user""#).then(|| new.to_vec())
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, size: usize) -> Vec<Bytes> {
        text.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect()
    }

    #[test]
    fn the_new_messages_are_cut_out_of_the_whole() {
        let head =
            r#"{"model":"m","max_tokens":9,"system":[{"type":"text","text":"s"}],"tools":[],"messages":["#;
        let first = format!(r#"{head}{{"role":"user","content":[{{"type":"text","text":"a ]}},{{"}}"#);
        let user = r#"{"role":"user","content":[{"type":"tool_result"}]}]}"#;
        let answer = r#"{"role":"assistant","content":[{"type":"text","text":"]}, \" {"}]}"#;
        for (after, want) in [
            (format!("]}},{answer},{user}"), true),
            // No new message after the answer; no answer; the request continues its last message.
            (format!("]}},{answer}]}}"), false),
            (format!("]}},{user}"), false),
            (format!(",{answer},{user}"), false),
        ] {
            for size in [1, 7, 1000] {
                let known = Known {
                    id: "msg_\"1".to_owned(),
                    body: pieces(&first, 5),
                    messages: 1,
                    parts: Vec::new(),
                    at: Instant::now(),
                };
                let body = continued(&known, head.as_bytes(), &pieces(&format!("{first}{after}"), size));
                assert_eq!(body.is_some(), want, "{after}");
                if let Some(body) = body {
                    let text = std::str::from_utf8(&body).unwrap();
                    let thread = r#""thread":{"type":"continue","previous_message_id":"msg_\"1"}"#;
                    assert_eq!(text, format!(r#"{{{thread},"model":"m","max_tokens":9,"messages":[{user}"#));
                    serde_json::from_str::<serde_json::Value>(text).unwrap();
                }
            }
        }
        assert_eq!(after(&pieces("abc", 1), &pieces("abx", 2)), None);
        assert_eq!(after(&pieces("ab", 1), &pieces("abc", 2)), None);
        assert_eq!(after(&pieces("abcd", 3), &pieces("ab", 1)), Some(b"cd".to_vec()));
    }
}
