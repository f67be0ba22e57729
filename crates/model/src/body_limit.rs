//! The largest request body that a server accepts, as far as becket knows.
//!
//! Servers and the proxies in front of them limit the bytes of a request; this limit says nothing about tokens. Some
//! name the limit when they refuse a request. For the others it lies between the largest accepted body and the smallest
//! refused one. A body above a known limit is not sent; the caller makes the request smaller.
//!
//! The limit from an earlier run may be out of date. [`ServerBody::doubt`] removes it, so that the server is tried
//! again.

use crate::server_facts::ServerFacts;
use crate::{ErrorKind, ModelError};
use becket_types::Millis;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) const HINT: &str = "Use fewer rules and tools, start a new session, or raise the limit of the server or of the \
                               proxy before it (nginx: client_max_body_size).";

/// A detected limit of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyLimit {
    /// Size in bytes of the smallest refused body.
    pub refused: u64,
    /// The limit in bytes, if the server named it.
    pub named: Option<u64>,
    /// Time of the last refusal, since 1970.
    pub at: Millis,
}

impl BodyLimit {
    /// Returns the size in bytes of the largest body that is worth sending.
    fn most(self) -> u64 {
        self.named.unwrap_or(self.refused.saturating_sub(1))
    }
}

/// Limits of servers, by address.
pub type BodyLimits = ServerFacts<BodyLimit>;

/// The limit of one server.
#[derive(Debug)]
pub(crate) struct ServerBody {
    key: String,
    limits: BodyLimits,
    seen: Mutex<Seen>,
}

/// Results of the bodies that this process sent to the server.
#[derive(Debug, Default)]
struct Seen {
    /// Size in bytes of the largest accepted body.
    accepted: u64,
    /// True if a body was refused.
    refused: bool,
}

impl ServerBody {
    pub(crate) fn new(key: String, limits: BodyLimits) -> Self {
        Self { key, limits, seen: Mutex::default() }
    }

    /// Records that a body of `sent` bytes was refused for its size. `named`: the limit in the server's answer.
    /// Completes the error.
    pub(crate) fn refused(&self, sent: u64, error: &mut ModelError, now: Millis) {
        let named = error.limit;
        let said = if error.message.ends_with(['.', '!', '?']) { "" } else { "." };
        let size = byte_size(sent);
        error.sent = NonZeroU64::new(sent);
        if let Some(limit) = named.filter(|limit| sent <= *limit) {
            // A server that names a limit above the refused size contradicts itself, so no limit is learned.
            let limit = byte_size(limit);
            error.message = format!(
                "{}{said} The request had {size}, which is within the limit of {limit}.",
                error.message
            );
            error.hint = Some("Check the limits of the server and of the proxies before it.".to_owned());
            return;
        }
        let before = self.limits.get(&self.key);
        let limit = BodyLimit {
            refused: before.map_or(sent, |before| before.refused.min(sent)),
            named: named.or_else(|| before?.named).filter(|named| *named < sent),
            at: now,
        };
        let mut seen = self.seen();
        seen.refused = true;
        if seen.accepted >= sent {
            // A body of this size was accepted earlier, so the limit became smaller.
            seen.accepted = 0;
        }
        drop(seen);
        self.limits.set(&self.key, limit);
        let most = named.map_or(String::new(), |limit| format!("; at most {} are taken", byte_size(limit)));
        error.message = format!("{}{said} The request had {size}{most}.", error.message);
        error.limit = Some(self.aim(limit));
        error.hint = Some(HINT.to_owned());
    }

    /// Records that a body of `sent` bytes was accepted.
    pub(crate) fn accepted(&self, sent: u64) {
        let mut seen = self.seen();
        seen.accepted = seen.accepted.max(sent);
        drop(seen);
        if self.limits.get(&self.key).is_some_and(|limit| sent > limit.most()) {
            self.limits.forget(&self.key);
        }
    }

    /// Refuses a body that the server would refuse. `fixed`: the limit that the provider documents.
    pub(crate) fn check(&self, sent: u64, fixed: Option<u64>, server: &str) -> Result<(), ModelError> {
        let learned = self.limits.get(&self.key).filter(|limit| sent > limit.most());
        let (known, aim) = match (fixed.filter(|fixed| sent > *fixed), learned) {
            (None, None) => return Ok(()),
            (_, Some(BodyLimit { named: None, refused, .. })) => {
                (format!("refused one of {}", byte_size(refused)), learned.map(|limit| self.aim(limit)))
            }
            (fixed, learned) => {
                let most = learned.map(BodyLimit::most).into_iter().chain(fixed).min();
                (format!("takes at most {}", byte_size(most.unwrap_or_default())), most)
            }
        };
        let message = format!("The request has {}; {server} {known}.", byte_size(sent));
        let mut error = ModelError::new(ErrorKind::TooLarge, message).hint(HINT);
        (error.sent, error.limit) = (NonZeroU64::new(sent), aim);
        Err(error)
    }

    /// Removes a limit from an earlier run. Returns true if there was one.
    pub(crate) fn doubt(&self) -> bool {
        !self.seen().refused && self.limits.forget(&self.key)
    }

    /// Returns a size that the server is likely to accept.
    fn aim(&self, limit: BodyLimit) -> u64 {
        limit.named.unwrap_or_else(|| self.seen().accepted.min(limit.most()).max(limit.refused / 2))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Formats a number of bytes for people: `12 bytes`, `3.4 kB`, `1.0 MB`.
pub fn byte_size(bytes: u64) -> String {
    const KB: f64 = 1024.0;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} kB", bytes as f64 / KB),
        _ => format!("{:.1} MB", bytes as f64 / KB / KB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(limits: &BodyLimits) -> ServerBody {
        ServerBody::new("http://host".into(), limits.clone())
    }

    fn refuse(server: &ServerBody, sent: u64, named: Option<u64>) -> ModelError {
        let mut error = ModelError::new(ErrorKind::TooLarge, "Payload Too Large");
        error.limit = named;
        server.refused(sent, &mut error, Millis(7));
        error
    }

    #[test]
    fn a_limit_that_is_not_named_lies_between_what_was_accepted_and_what_was_refused() {
        let limits = BodyLimits::default();
        let server = server(&limits);
        assert!(server.check(u64::MAX, None, "x").is_ok());
        let error = refuse(&server, 1_000, None);
        assert_eq!((error.sent, error.limit), (NonZeroU64::new(1_000), Some(500)));
        assert_eq!(error.message, "Payload Too Large. The request had 1000 bytes.");
        assert!(server.check(999, None, "x").is_ok());
        let error = server.check(1_000, None, "x").unwrap_err();
        assert_eq!(error.message, "The request has 1000 bytes; x refused one of 1000 bytes.");
        assert_eq!((error.kind, error.limit), (ErrorKind::TooLarge, Some(500)));
        server.accepted(800);
        assert_eq!(server.check(1_000, None, "x").unwrap_err().limit, Some(800));
        // The limit became smaller than the accepted 800 bytes.
        assert_eq!(refuse(&server, 700, None).limit, Some(350));
        // A body above the limit was accepted, so the limit is forgotten.
        server.accepted(5_000);
        assert!(server.check(4_000, None, "x").is_ok());
    }

    #[test]
    fn a_named_limit_counts_unless_it_contradicts_itself() {
        let limits = BodyLimits::default();
        let server = server(&limits);
        let error = refuse(&server, 900, Some(1_000));
        assert_eq!((error.sent, error.limit), (NonZeroU64::new(900), Some(1_000)));
        assert!(error.message.ends_with("which is within the limit of 1000 bytes."), "{}", error.message);
        assert_eq!(limits.get("http://host"), None);
        assert_eq!(refuse(&server, 3_000_000, Some(1_048_576)).limit, Some(1_048_576));
        let error = server.check(1_048_577, None, "x").unwrap_err();
        assert_eq!(error.message, "The request has 1.0 MB; x takes at most 1.0 MB.");
        assert!(server.check(1_048_576, None, "x").is_ok());
        assert!(server.check(1_048_576, Some(1_000_000), "x").is_err(), "what the provider documents");
        // A proxy in front of the server refuses a smaller body and names no limit.
        assert_eq!(refuse(&server, 4_000, None).limit, Some(2_000));
    }

    #[test]
    fn what_an_earlier_run_found_can_be_doubted_and_what_this_one_found_cannot() {
        let limits = BodyLimits::default();
        refuse(&server(&limits), 1_000, None);
        let later = server(&limits);
        assert!(later.check(1_000, None, "x").is_err());
        assert!(later.doubt() && !later.doubt());
        assert!(later.check(1_000, None, "x").is_ok());
        refuse(&later, 1_000, None);
        assert!(!later.doubt());
    }

    #[test]
    fn sizes_for_people() {
        for (bytes, want) in
            [(0, "0 bytes"), (1_023, "1023 bytes"), (1_536, "1.5 kB"), (33_554_432, "32.0 MB")]
        {
            assert_eq!(byte_size(bytes), want);
        }
    }
}
