//! The byte cache: each message becomes wire bytes once. A request is the bytes of the previous one plus the new messages.
//!
//! A body is `{…small fixed fields…,"system":…,"tools":[…],"messages":[…]}` with `messages` last, so request N without
//! its closing `]}` is a byte prefix of request N+1 as long as the context's generation is the same. A last message that
//! may still grow (messages of one role in a row share one) is written at send time and not kept.
//!
//! Bytes are kept in few large shared pieces, merged like the digits of a binary counter: a step copies its own bytes and,
//! amortised, each byte a logarithmic number of times. Nothing here knows a wire format.

use crate::{Digest, Request};
use becket_types::{CacheLifetime, ContextMessage, ToolSpec, WireLayout};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Maximum number of contexts whose bytes are kept for one model, because they alternate: the session, subagents,
/// summaries.
const LANES: usize = 4;
/// Limit on the pieces of a body.
const MAX_PIECES: usize = 12;

/// Turns messages into bytes, one after the other. Holds the state that encoding a later message needs.
pub(crate) trait Encoder: Default + Send {
    /// Facts that encoding needs in addition to the message.
    type Env<'a>;

    /// Appends the message. Closes the previous message and writes the comma first.
    fn message(&mut self, message: &ContextMessage, env: &Self::Env<'_>, out: &mut Vec<u8>);

    /// Appends the bytes that close the last message.
    fn close(&self, out: &mut Vec<u8>);
}

/// The inputs of the bytes before the first message.
#[derive(PartialEq)]
struct HeadKey {
    system: Arc<[Arc<str>]>,
    tools: Vec<ToolSpec>,
    max_output: u64,
    effort: Option<String>,
    layout: Option<WireLayout>,
    cache: CacheLifetime,
    empty: bool,
}

impl HeadKey {
    fn fits(&self, request: &Request<'_>) -> bool {
        let same_system =
            Arc::ptr_eq(&self.system, &request.context.system) || self.system == request.context.system;
        same_system
            && self.max_output == request.max_output
            && self.effort.as_deref() == request.effort
            && self.layout == request.layout
            && self.cache == request.cache
            && self.empty == request.context.messages.is_empty()
            && self.tools == request.tools
    }
}

struct EncodedConversation<E> {
    generation: u64,
    layout: Option<WireLayout>,
    /// Lifetime of the provider's cache. The marks for it are part of a message's bytes, so another lifetime makes the
    /// bytes invalid.
    cache: CacheLifetime,
    count: usize,
    first: Option<Arc<ContextMessage>>,
    last: Option<Arc<ContextMessage>>,
    encoder: E,
    pieces: Vec<Bytes>,
    head: Option<(HeadKey, Bytes)>,
    /// Hash of the head and all pieces so far. It starts again with each new head.
    digest: Option<Sha256>,
    used: u64,
}

impl<E: Encoder> EncodedConversation<E> {
    fn new(request: &Request<'_>) -> Self {
        Self {
            generation: request.context.generation,
            layout: request.layout,
            cache: request.cache,
            count: 0,
            first: None,
            last: None,
            encoder: E::default(),
            pieces: Vec::new(),
            head: None,
            digest: None,
            used: 0,
        }
    }

    /// True if the context continues the messages that are encoded here. Within a generation no message changes, so
    /// comparing the first and the last one is enough.
    fn continued_by(&self, request: &Request<'_>) -> bool {
        let messages = &request.context.messages;
        let same = |mine: &Option<Arc<ContextMessage>>, at: usize| match (mine, messages.get(at)) {
            (Some(mine), Some(other)) => Arc::ptr_eq(mine, other) || mine == other,
            _ => false,
        };
        self.generation == request.context.generation
            && self.layout == request.layout
            && self.cache == request.cache
            && self.count > 0
            && self.count <= messages.len()
            && same(&self.first, 0)
            && same(&self.last, self.count - 1)
    }
}

/// Bytes of past requests, by the context that they sent.
pub(crate) struct WireCache<E> {
    conversations: Vec<EncodedConversation<E>>,
    clock: u64,
}

impl<E> Default for WireCache<E> {
    fn default() -> Self {
        Self { conversations: Vec::new(), clock: 0 }
    }
}

impl<E: Encoder> WireCache<E> {
    /// Builds the body of `request` and its SHA-256. `head` writes the bytes before the first message, `tail` closes the body.
    pub(crate) fn body(
        &mut self,
        request: &Request<'_>,
        env: &E::Env<'_>,
        head: impl FnOnce() -> Vec<u8>,
        tail: &'static [u8],
    ) -> (Vec<Bytes>, Digest) {
        self.clock += 1;
        let clock = self.clock;
        let conversation = self.conversation(request);
        conversation.used = clock;
        let messages = &request.context.messages;
        let mut fresh = Vec::new();
        for message in &messages[conversation.count..] {
            conversation.encoder.message(message, env, &mut fresh);
        }
        conversation.count = messages.len();
        conversation.first = messages.first().cloned();
        conversation.last = messages.last().cloned();
        if !fresh.is_empty() {
            if let Some(digest) = &mut conversation.digest {
                digest.update(&fresh);
            }
            add(&mut conversation.pieces, Bytes::from(fresh));
        }
        if !conversation.head.as_ref().is_some_and(|(key, _)| key.fits(request)) {
            let key = HeadKey {
                system: Arc::clone(&request.context.system),
                tools: request.tools.to_vec(),
                max_output: request.max_output,
                effort: request.effort.map(str::to_owned),
                layout: request.layout,
                cache: request.cache,
                empty: messages.is_empty(),
            };
            conversation.head = Some((key, Bytes::from(head())));
            conversation.digest = None;
        }
        let mut body = Vec::with_capacity(conversation.pieces.len() + 2);
        body.extend(conversation.head.iter().map(|(_, bytes)| bytes.clone()));
        body.extend(conversation.pieces.iter().cloned());
        let mut end = Vec::new();
        conversation.encoder.close(&mut end);
        end.extend_from_slice(tail);
        let so_far = conversation.digest.get_or_insert_with(|| {
            let mut digest = Sha256::new();
            for piece in &body {
                digest.update(piece);
            }
            digest
        });
        let digest = so_far.clone().chain_update(&end).finalize().into();
        body.push(Bytes::from(end));
        (body, digest)
    }

    fn conversation(&mut self, request: &Request<'_>) -> &mut EncodedConversation<E> {
        let at = self
            .conversations
            .iter()
            .position(|conversation| conversation.continued_by(request))
            .unwrap_or_else(|| {
                let fresh = EncodedConversation::new(request);
                if self.conversations.len() < LANES {
                    self.conversations.push(fresh);
                    return self.conversations.len() - 1;
                }
                let oldest = (0..LANES).min_by_key(|i| self.conversations[*i].used).unwrap_or(0);
                self.conversations[oldest] = fresh;
                oldest
            });
        &mut self.conversations[at]
    }
}

/// Adds a piece. Merges the last two while the newer is not smaller than the older, like a carry in a binary counter, or
/// while there are more than [`MAX_PIECES`].
fn add(pieces: &mut Vec<Bytes>, piece: Bytes) {
    pieces.push(piece);
    while let [.., older, newer] = pieces.as_slice()
        && (older.len() <= newer.len() || pieces.len() > MAX_PIECES)
    {
        let mut merged = Vec::with_capacity(older.len() + newer.len());
        merged.extend_from_slice(older);
        merged.extend_from_slice(newer);
        pieces.truncate(pieces.len() - 2);
        pieces.push(Bytes::from(merged));
    }
}

/// A request body made of shared pieces, with its length in bytes.
#[derive(Debug)]
pub(crate) struct Pieces {
    left: VecDeque<Bytes>,
    bytes: u64,
}

impl Pieces {
    pub(crate) fn new(pieces: &[Bytes]) -> Self {
        Self {
            bytes: pieces.iter().map(|p| p.len() as u64).sum(),
            left: pieces.iter().filter(|p| !p.is_empty()).cloned().collect(),
        }
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let piece = self.left.pop_front();
        self.bytes -= piece.as_ref().map_or(0, |p| p.len() as u64);
        Poll::Ready(piece.map(|p| Ok(http_body::Frame::data(p))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.bytes)
    }
}

/// Appends `text` as a JSON string.
pub(crate) fn put_str(out: &mut Vec<u8>, text: &str) {
    put(out, text);
}

/// Appends values as the elements of a list that is open.
pub(crate) fn put_list(out: &mut Vec<u8>, values: &[serde_json::Value]) {
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put(out, value);
    }
}

/// Appends any value as JSON. Writing to memory cannot fail, and no map here has keys that are not strings.
pub(crate) fn put<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_few_and_hold_every_byte(sizes in prop::collection::vec(1usize..3000, 1..400)) {
            let mut pieces = Vec::new();
            let mut want = Vec::new();
            for (i, size) in sizes.iter().enumerate() {
                let piece = vec![i as u8; *size];
                want.extend_from_slice(&piece);
                add(&mut pieces, Bytes::from(piece));
                prop_assert!(pieces.len() <= MAX_PIECES);
            }
            prop_assert_eq!(pieces.concat(), want);
        }
    }

    #[test]
    fn copying_grows_with_the_logarithm() {
        let mut pieces: Vec<Bytes> = Vec::new();
        let mut copied = 0;
        for _ in 0..4096 {
            let before: usize = pieces.iter().map(Bytes::len).sum();
            // The clone keeps the old pieces alive, so that no new piece can get the same address.
            let old = pieces.clone();
            add(&mut pieces, Bytes::from(vec![0; 1000]));
            let kept = |p: &&Bytes| old.iter().any(|o| o.as_ptr() == p.as_ptr());
            let same: usize = pieces.iter().filter(kept).map(Bytes::len).sum();
            copied += before - same;
        }
        assert!(copied <= 4096 * 1000 * 13, "{copied}");
    }
}
