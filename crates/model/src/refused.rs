//! Memory of requests that a server refused permanently, so that the same bytes are not sent again.
//!
//! Owns the newest of them with their errors. Reads no answer itself.

use crate::ids::{FNV_START, fnv};
use crate::{ErrorKind, ModelError};
use bytes::Bytes;
use std::sync::{Mutex, PoisonError};

/// Number of refused requests that are remembered.
const MOST: usize = 8;

/// Length and hash of each refused body, with the error.
#[derive(Default)]
pub(crate) struct RefusedBodies(Mutex<Vec<(usize, u64, ModelError)>>);

impl RefusedBodies {
    /// The error with which the same bytes were refused before, if they were.
    pub(crate) fn before(&self, body: &[Bytes]) -> Option<ModelError> {
        let refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let length = body.iter().map(Bytes::len).sum::<usize>();
        // Hashing is expensive, and comparing lengths is enough nearly always.
        if !refused.iter().any(|(len, ..)| *len == length) {
            return None;
        }
        let hash = hash(body);
        refused.iter().find(|(len, h, _)| (*len, *h) == (length, hash)).map(|(.., error)| error.clone())
    }

    /// Remembers the body if the error is permanent and about the body.
    pub(crate) fn note(&self, body: &[Bytes], error: &ModelError) {
        let for_good = matches!(
            error.kind,
            ErrorKind::InvalidRequest | ErrorKind::ContextOverflow | ErrorKind::TooLarge
        );
        if error.retryable || !for_good {
            return;
        }
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= MOST {
            refused.remove(0);
        }
        refused.push((body.iter().map(Bytes::len).sum(), hash(body), error.clone()));
    }
}

/// Hashes a body independently of the borders between its pieces, which differ from request to request.
fn hash(body: &[Bytes]) -> u64 {
    body.iter().fold(FNV_START, |hash, piece| fnv(hash, piece))
}
