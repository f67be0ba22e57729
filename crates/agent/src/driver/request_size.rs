//! Handles requests that a server or a proxy refuses for their size: makes them smaller, sends them again, and informs
//! the user in one line.
//!
//! The model client knows the size that its server accepts ([`ModelError::limit`]), `session::context::shrink` chooses
//! the contents to shorten, and this file measures the request after each choice. The shortening is recorded as an
//! entry of the ledger, so it is permanent. If it is not enough, it is reverted, and the turn ends with the sizes.
//!
//! Invariant: each attempt has fewer bytes than the previous one, and there are at most [`MAX_ATTEMPTS`] in a row.

use super::conversation::Conversation;
use crate::host::lock;
use crate::reply_error;
use becket_model::{ErrorKind, ModelError, byte_size};
use becket_session::Durability;
use becket_session::context::shrink::{Shrunk, shrink};
use becket_types::{EntryKind, NoticeLevel, Seq};
use std::num::NonZeroU64;

/// Maximum number of consecutive attempts. Each aims at half of the previous size, or at a limit that the server named.
const MAX_ATTEMPTS: u32 = 8;
/// Maximum number of choices for one attempt. Sizes are estimates, so the first choice may not suffice.
const MAX_ROUNDS: u32 = 6;

/// The changes made for one attempt.
#[derive(Debug)]
struct Shortened {
    /// Present size of the request in bytes.
    size: u64,
    media: usize,
    outputs: usize,
    entries: Vec<Seq>,
}

impl Conversation {
    /// Makes a request smaller that was refused for its bytes, or would be. Returns true if the smaller one should be
    /// sent; otherwise `error` explains the sizes.
    pub(super) fn is_made_smaller(&mut self, error: &mut ModelError) -> bool {
        if error.kind != ErrorKind::TooLarge {
            return false;
        }
        let (now, _) = self.request_size();
        let sent = error.sent.map_or(now, NonZeroU64::get);
        if error.limit.is_some_and(|limit| sent <= limit) {
            // The server contradicts itself, so its limit cannot be trusted.
            return false;
        }
        self.wire.refusals.smaller += 1;
        if self.wire.refusals.smaller <= MAX_ATTEMPTS {
            // Leaves room for the next steps, so that not each of them changes what was already sent.
            let aim = error.limit.map_or(sent / 2, |limit| limit - limit / 8);
            let shortened = self.shorten(sent, aim);
            let (_, fits) = self.request_size();
            if fits && shortened.size < sent {
                self.tell_shortened(error, &shortened);
                return true;
            }
            let reverts = shortened.entries.into_iter().map(|entry| EntryKind::Revert { entry });
            self.core.append(reverts.collect(), Durability::Buffered);
            if !fits && self.wire.model.doubt_limits() {
                return true;
            }
            error.message = format!(
                "{} Even without its images and large outputs, the request would have {}.",
                reply_error::sentence(&error.message),
                byte_size(shortened.size)
            );
        }
        self.wire.refusals.smaller = 0;
        false
    }

    /// Shortens the request until it has `aim` bytes, or until nothing is left to shorten.
    fn shorten(&mut self, sent: u64, aim: u64) -> Shortened {
        let mut done = Shortened { size: sent, media: 0, outputs: 0, entries: Vec::new() };
        for _ in 0..MAX_ROUNDS {
            if done.size <= aim {
                break;
            }
            self.core.flush(Durability::Buffered);
            let chosen = shrink(lock(&self.core.session).view(), done.size - aim);
            let Some(Shrunk { entry, media, outputs, .. }) = chosen else { break };
            done.entries.extend(self.core.append(vec![entry], Durability::Buffered));
            let (size, _) = self.request_size();
            (done.media, done.outputs) = (done.media + media, done.outputs + outputs);
            if size >= done.size {
                break;
            }
            done.size = size;
        }
        done
    }

    /// Returns the present size of the request in bytes, and true if no known limit forbids to send it.
    fn request_size(&mut self) -> (u64, bool) {
        match self.prepare() {
            Ok(prepared) => (prepared.len() as u64, true),
            Err(error) => (error.sent.map_or(u64::MAX, NonZeroU64::get), false),
        }
    }

    fn tell_shortened(&mut self, error: &ModelError, shortened: &Shortened) {
        let count = |number: usize, what: &str| match number {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{number} {what}s")),
        };
        let media = count(shortened.media, "image");
        let outputs = count(shortened.outputs, "tool output");
        let what: Vec<String> = media.into_iter().chain(outputs).collect();
        let text = format!(
            "{} becket sends it with {}: {} became short notes, which `recall` opens.",
            reply_error::sentence(&error.message),
            byte_size(shortened.size),
            what.join(" and ")
        );
        // A notice, and not [`Event::Pruned`]: that event reports freed tokens, and this limit is one of bytes.
        self.core.notice(NoticeLevel::Warning, text);
    }
}
