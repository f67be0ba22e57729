//! Import of becket's own JSONL: the ledger's lines unchanged, followed by blobs if they were exported.
//!
//! A line `{"blob":ID,"zstd":BASE64}` is a blob in its stored form. All other lines are the ledger, byte for byte, including damaged
//! ones. [`adopt`] checks and stores them.

use crate::export::{BLOB, BlobLine};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use becket_session::StoreError;
use becket_session::adopt::{CopiedBlob, Imported, SessionCopy, adopt};
use std::path::Path;

/// Stores the session of a file that the user made, such as a backup, below `root` with its own id, in the project of its own
/// directory or of `cwd`.
///
/// # Errors
///
/// Returns the errors of [`adopt`].
pub fn import_own(root: &Path, bytes: &[u8], cwd: Option<&Path>) -> Result<Imported, StoreError> {
    adopt(root, copy(bytes), cwd, None)
}

/// Stores the session of a file that others may have made. Its file changes cannot be undone here, and its state entries `states` are
/// reset.
///
/// # Errors
///
/// Returns the errors of [`adopt`].
pub fn import_from_others(
    root: &Path,
    bytes: &[u8],
    cwd: Option<&Path>,
    states: &[&str],
) -> Result<Imported, StoreError> {
    adopt(root, copy(bytes), cwd, Some(states))
}

fn copy(bytes: &[u8]) -> SessionCopy {
    let mut copy = SessionCopy { ledger: Vec::with_capacity(bytes.len()), blobs: Vec::new() };
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        match line.starts_with(BLOB).then(|| serde_json::from_slice::<BlobLine>(line)) {
            Some(Ok(BlobLine { blob: id, zstd })) => {
                // If the base64 is invalid, the blob stays empty. Then it does not match its id, so it is reported as damaged.
                let packed = STANDARD.decode(zstd).unwrap_or_default();
                copy.blobs.push(CopiedBlob { id, packed });
            }
            _ => copy.ledger.extend_from_slice(line),
        }
    }
    copy
}
