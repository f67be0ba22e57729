//! Contents into the blob store: each once, small ones together, within the caps.
//!
//! A file of at least [`ALONE`] bytes is a blob of its own. Smaller ones that are kept in the same moment share a blob
//! (a pack): ten thousand small files would otherwise be ten thousand files to create and to flush.

use crate::sys::{self, Attributes};
use crate::{Store, observe, side};
use becket_types::{BlobId, FileContent, FileNode, hex};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::Path;

/// From this size on, in bytes, a file has a blob of its own.
const ALONE: u64 = 64 << 10;
/// A file that others write to is read so often, at most.
const READS: usize = 4;
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
    Unreadable,
    /// Somebody else wrote to it each time that it was read.
    Changing,
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
            Self::Changing => "something else was writing to it all the time",
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

/// Contents on their way into packs.
#[derive(Default)]
pub(crate) struct Pack {
    /// Closed, and not stored yet.
    full: Vec<Blob>,
    open: Blob,
}

/// What is to be one blob.
#[derive(Default)]
struct Blob {
    bytes: Vec<u8>,
    /// Hash, offset.
    parts: Vec<(BlobId, u64)>,
}

impl Pack {
    fn add(&mut self, id: BlobId, bytes: Vec<u8>) {
        if bytes.len() as u64 >= ALONE {
            self.full.push(Blob { bytes, parts: vec![(id, 0)] });
            return;
        }
        if self.open.bytes.len() + bytes.len() > PACK {
            self.full.push(std::mem::take(&mut self.open));
        }
        self.open.parts.push((id, self.open.bytes.len() as u64));
        self.open.bytes.extend_from_slice(&bytes);
    }

    /// What can be stored now; the rest, too, where nothing more comes.
    fn take(&mut self, last: bool) -> Vec<Blob> {
        let mut full = std::mem::take(&mut self.full);
        if last && !self.open.parts.is_empty() {
            full.push(std::mem::take(&mut self.open));
        }
        full
    }
}

/// A content that was read, and its hash.
pub(crate) struct Content {
    bytes: Vec<u8>,
    id: BlobId,
    attributes: Attributes,
}

impl Content {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let id = BlobId(hex(&Sha256::digest(&bytes)));
        Self { bytes, id, attributes: Attributes::new() }
    }

    /// The content of the file that the record was made of.
    pub(crate) fn read(path: &Path, file: &FileContent, caps: &Caps) -> Result<Self, Refused> {
        if file.size > caps.file {
            return Err(Refused::TooLarge);
        }
        match sys::read_whole(path, caps.file) {
            Ok(Some((bytes, meta, attributes))) if Some(meta.stamp) == file.stamp => {
                Ok(Self { attributes, ..Self::new(bytes) })
            }
            Ok(_) => Err(Refused::Changing),
            Err(_) => Err(Refused::Unreadable),
        }
    }

    /// As [`Content::read`]; where somebody else wrote to the file since it was looked at, the record is made anew,
    /// a few times.
    pub(crate) fn read_now(
        path: &Path,
        mut file: FileContent,
        caps: &Caps,
    ) -> (FileContent, Result<Self, Refused>) {
        for _ in 1..READS {
            match Self::read(path, &file, caps) {
                Err(Refused::Changing) => {}
                done => return (file, done),
            }
            match sys::lstat(path).ok().and_then(|meta| observe::node(path, &meta)) {
                Some(FileNode::File(now)) => file = now,
                _ => return (file, Err(Refused::Unreadable)),
            }
        }
        let last = Self::read(path, &file, caps);
        (file, last)
    }
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

    /// Keeps what stands at `path` now; the record becomes that of what was kept. In `pack` until [`Keeper::close`].
    pub(crate) fn keep_now(
        &mut self,
        path: &Path,
        file: &mut FileContent,
        pack: &mut Pack,
        caps: &Caps,
        store: &dyn Store,
    ) -> Result<(), Refused> {
        let (now, content) = Content::read_now(path, std::mem::take(file), caps);
        *file = now;
        self.take(content?, file, pack, caps)?;
        self.store_beside(pack, store, 0, |_| ());
        Ok(())
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
        self.take(Content::read(path, file, caps)?, file, pack, caps)?;
        self.store_beside(pack, store, 0, |_| ());
        Ok(())
    }

    /// As [`Keeper::keep`], for a content that is at hand; storing is left to [`Keeper::store_beside`].
    pub(crate) fn take(
        &mut self,
        content: Content,
        file: &mut FileContent,
        pack: &mut Pack,
        caps: &Caps,
    ) -> Result<(), Refused> {
        let Content { bytes, id, attributes } = content;
        file.attributes = attributes;
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
        pack.add(id.clone(), bytes);
        file.sha256 = Some(id);
        Ok(())
    }

    /// Stores what is full, and does `work` on each number below `count` beside it.
    pub(crate) fn store_beside<T: Send>(
        &mut self,
        pack: &mut Pack,
        store: &dyn Store,
        count: usize,
        work: impl Fn(usize) -> T + Sync,
    ) -> Vec<T> {
        self.store(pack.take(false), store, count, work)
    }

    /// Stores everything; records of its parts are completed by [`Keeper::place`].
    pub(crate) fn close(&mut self, pack: &mut Pack, store: &dyn Store) {
        self.store(pack.take(true), store, 0, |_| ());
    }

    fn store<T: Send>(
        &mut self,
        full: Vec<Blob>,
        store: &dyn Store,
        count: usize,
        work: impl Fn(usize) -> T + Sync,
    ) -> Vec<T> {
        let blobs = full.len();
        let done = side::each(blobs, count, |at| match full.get(at) {
            Some(blob) => (Some(store.put(&blob.bytes)), None),
            None => (None, Some(work(at - blobs))),
        });
        let (stored, worked): (Vec<_>, Vec<_>) = done.into_iter().unzip();
        for (blob, id) in full.into_iter().zip(stored.into_iter().flatten()) {
            if blob.parts.len() > 1 {
                let parts = blob.parts.into_iter();
                self.kept.extend(parts.map(|(part, at)| (part, Some((id.clone(), at)))));
            }
        }
        worked.into_iter().flatten().collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_somebody_wrote_to_since_it_was_looked_at_is_kept_as_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let look = |path: &Path| match observe::node(path, &sys::lstat(path).unwrap()) {
            Some(FileNode::File(file)) => file,
            other => panic!("{other:?}"),
        };
        std::fs::write(&path, "one\n").unwrap();
        let old = FileContent { git: Some("0".repeat(40)), ..look(&path) };
        // Beside it and into its place: another inode, whatever the clock's resolution.
        std::fs::write(dir.path().join("new"), "one\ntwo\n").unwrap();
        std::fs::rename(dir.path().join("new"), &path).unwrap();
        assert_eq!(Content::read(&path, &old, &Caps::default()).err(), Some(Refused::Changing));
        let (now, content) = Content::read_now(&path, old.clone(), &Caps::default());
        assert_eq!(content.unwrap().bytes, b"one\ntwo\n");
        assert_eq!((now.size, now.git), (8, None), "what a repository holds is the old content");

        std::fs::remove_file(&path).unwrap();
        assert_eq!(Content::read_now(&path, old, &Caps::default()).1.err(), Some(Refused::Unreadable));
    }
}
