//! Contents into the blob store: each once, small ones together, within the caps.
//!
//! A file of at least [`ALONE`] bytes is a blob of its own. Smaller ones that are kept in the same moment share a blob
//! (a pack): ten thousand small files would otherwise be ten thousand files to create and to flush.

use crate::{Store, sys};
use becket_types::{BlobId, FileContent, hex};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::Path;

/// From this size on, in bytes, a file has a blob of its own.
const ALONE: u64 = 64 << 10;
/// A pack is closed at this size, in bytes.
const PACK: usize = 4 << 20;

/// Limits on what is kept.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Larger files are not kept, in bytes.
    pub file: u64,
    /// Of one session, in bytes before compression.
    pub session: u64,
    /// Of all sessions, in bytes on disk.
    pub total: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Self { file: 10_000_000, session: 500_000_000, total: 2_000_000_000 }
    }
}

/// Why a content was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    TooLarge,
    SessionFull,
    AllFull,
    /// Unreadable, or written to while it was read.
    Unreadable,
    NoTime,
    /// Ignored files have used up what they may.
    Bulk,
}

impl Refused {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::TooLarge => "larger than 10 MB",
            Self::SessionFull => "the 500 MB of this session are used up",
            Self::AllFull => "the 2 GB of all sessions are used up",
            Self::Unreadable => "it could not be read",
            Self::Bulk => "100 MB of ignored files and objects were kept before this command already",
            Self::NoTime => "there was no time to keep it",
        }
    }
}

/// What has been kept, and where.
#[derive(Default)]
pub(crate) struct Keeper {
    /// Content by hash, and its pack.
    kept: HashMap<BlobId, Option<(BlobId, u64)>>,
    bytes: u64,
    /// Bytes that all sessions had when this one began to keep.
    pub(crate) elsewhere: u64,
}

/// Contents on their way into one pack.
#[derive(Default)]
pub(crate) struct Pack {
    bytes: Vec<u8>,
    /// Hash, offset.
    parts: Vec<(BlobId, u64)>,
}

impl Keeper {
    /// Takes up a content that an earlier record names.
    pub(crate) fn know(&mut self, file: &FileContent) {
        if let Some(id) = &file.sha256
            && self.kept.insert(id.clone(), file.pack.clone()).is_none()
        {
            self.bytes += file.size;
        }
    }

    /// Reads the file that the record was made of, and keeps it; the record gets its hash. In `pack` until
    /// [`Keeper::close`].
    pub(crate) fn keep(
        &mut self,
        path: &Path,
        file: &mut FileContent,
        pack: &mut Pack,
        caps: &Caps,
        store: &dyn Store,
    ) -> Result<(), Refused> {
        if file.size > caps.file {
            return Err(Refused::TooLarge);
        }
        let (bytes, meta) = sys::read_file(path, caps.file).ok().flatten().ok_or(Refused::Unreadable)?;
        if Some(meta.stamp) != file.stamp {
            return Err(Refused::Unreadable);
        }
        self.keep_bytes(&bytes, file, pack, caps, store)
    }

    /// As [`Keeper::keep`], for a content that is at hand.
    pub(crate) fn keep_bytes(
        &mut self,
        bytes: &[u8],
        file: &mut FileContent,
        pack: &mut Pack,
        caps: &Caps,
        store: &dyn Store,
    ) -> Result<(), Refused> {
        let id = BlobId(hex(&Sha256::digest(bytes)));
        if let Some(place) = self.kept.get(&id) {
            file.pack.clone_from(place);
            file.sha256 = Some(id);
            return Ok(());
        }
        let size = bytes.len() as u64;
        if self.bytes + size > caps.session {
            return Err(Refused::SessionFull);
        }
        if self.elsewhere + self.bytes + size > caps.total {
            return Err(Refused::AllFull);
        }
        self.bytes += size;
        self.kept.insert(id.clone(), None);
        if size >= ALONE {
            store.put(bytes);
        } else {
            if pack.bytes.len() + bytes.len() > PACK {
                self.close(pack, store);
            }
            pack.parts.push((id.clone(), pack.bytes.len() as u64));
            pack.bytes.extend_from_slice(bytes);
        }
        file.sha256 = Some(id);
        Ok(())
    }

    /// Writes the pack; records of its parts are completed by [`Keeper::place`].
    pub(crate) fn close(&mut self, pack: &mut Pack, store: &dyn Store) {
        let Pack { bytes, parts } = std::mem::take(pack);
        if parts.is_empty() {
            return;
        }
        let id = store.put(&bytes);
        if parts.len() > 1 {
            for (part, at) in parts {
                self.kept.insert(part, Some((id.clone(), at)));
            }
        }
    }

    /// Where the content of the record stands, once its pack is written.
    pub(crate) fn place(&self, file: &mut FileContent) {
        if let Some(place) = file.sha256.as_ref().and_then(|id| self.kept.get(id)) {
            file.pack.clone_from(place);
        }
    }
}

/// The content that a record names; `None` when it was not kept, or is missing or damaged.
pub(crate) fn content(file: &FileContent, store: &dyn Store, packs: &mut Packs) -> Option<Vec<u8>> {
    let id = file.sha256.as_ref()?;
    let Some((pack, at)) = &file.pack else { return store.get(id) };
    if packs.last.as_ref().is_none_or(|(last, _)| last != pack) {
        packs.last = Some((pack.clone(), store.get(pack)?));
    }
    let (_, bytes) = packs.last.as_ref()?;
    let start = usize::try_from(*at).ok()?;
    let part = bytes.get(start..start.checked_add(usize::try_from(file.size).ok()?)?)?;
    (hex(&Sha256::digest(part)) == id.as_str()).then(|| part.to_vec())
}

/// The pack that was read last.
#[derive(Default)]
pub(crate) struct Packs {
    last: Option<(BlobId, Vec<u8>)>,
}
