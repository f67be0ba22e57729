//! Writes file contents into the blob store: each content once, small ones packed together, within the limits.
//!
//! A file of at least [`ALONE`] bytes becomes a blob of its own. Smaller files that are kept at the same time share a blob
//! (a pack), because otherwise ten thousand small files would mean ten thousand files to create and to flush.

use crate::sys::{self, Attributes};
use crate::{Store, observe, side};
use becket_types::{BlobId, FileContent, FileNode, hex};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::Path;

/// Smallest file, in bytes, that gets a blob of its own.
const ALONE: u64 = 64 << 10;
/// Limit on attempts to read a file while other programs write to it.
const READS: usize = 4;
/// Size, in bytes, at which a pack is closed.
const PACK: usize = 4 << 20;

/// Limits on kept contents, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Largest file that is kept.
    pub file: u64,
    /// All contents of one session, before compression.
    pub session: u64,
    /// All contents of all sessions, as stored on disk.
    pub total: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Self { file: 10_000_000, session: 500_000_000, total: 2_000_000_000 }
    }
}

/// The reason why a content was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    TooLarge,
    SessionFull,
    AllFull,
    Unreadable,
    /// Other programs wrote to the file during each of [`READS`] attempts to read it.
    Changing,
    NoTime,
    /// The limit of one command for ignored files is used up.
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

/// Keeps contents, and knows those that have been kept and their positions in packs.
#[derive(Default)]
pub(crate) struct Keeper {
    /// Hash of a content to its pack and the offset in it; `None` if it is a blob of its own.
    kept: HashMap<BlobId, Option<(BlobId, u64)>>,
    bytes: u64,
    /// Bytes that other sessions have kept on disk, measured before this one keeps its first content.
    pub(crate) elsewhere: u64,
}

/// Contents that wait to be written as blobs.
#[derive(Default)]
pub(crate) struct Pack {
    /// Complete blobs that are not stored yet.
    full: Vec<Blob>,
    open: Blob,
}

/// The bytes of one future blob, with the contents in it.
#[derive(Default)]
struct Blob {
    bytes: Vec<u8>,
    /// Hash and offset of each content.
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

    /// Takes the complete blobs. With `last`, also the incomplete one, because no more contents will come.
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

    /// Reads the content of the file that the record describes, if the file still has the record's stamp.
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

    /// Reads like [`Content::read`]. If another program has written to the file since the record was made, the record is
    /// made again, at most [`READS`] times.
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
    /// Registers a content that an earlier record names, so that it is not kept twice.
    pub(crate) fn know(&mut self, file: &FileContent) {
        if let Some(id) = &file.sha256
            && self.kept.insert(id.clone(), file.pack.clone()).is_none()
        {
            self.bytes += file.size;
        }
    }

    /// Keeps the present content of `path` and updates the record to match it. A part of `pack` that is not complete is stored only
    /// by [`Keeper::close`].
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

    /// Reads and keeps the file that the record describes, and sets the record's hash. A part of `pack` that is not complete is
    /// stored only by [`Keeper::close`].
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

    /// Keeps a content that was already read. It is stored later, by [`Keeper::store_beside`] or [`Keeper::close`].
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

    /// Stores the complete blobs of `pack`, and in parallel calls `work` with each number below `count`. Returns the results of
    /// `work`.
    pub(crate) fn store_beside<T: Send>(
        &mut self,
        pack: &mut Pack,
        store: &dyn Store,
        count: usize,
        work: impl Fn(usize) -> T + Sync,
    ) -> Vec<T> {
        self.store(pack.take(false), store, count, work)
    }

    /// Stores all blobs of `pack`. Afterwards, [`Keeper::place`] can complete the records of the contents in them.
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

    /// Sets the record's position in its pack. The pack must have been stored.
    pub(crate) fn place(&self, file: &mut FileContent) {
        if let Some(place) = file.sha256.as_ref().and_then(|id| self.kept.get(id)) {
            file.pack.clone_from(place);
        }
    }
}

/// Reads the content that a record names; `None` if it was not kept, is missing, or does not match its hash.
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

/// Caches the pack that was read last.
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
        // Renaming a new file over the old one changes the inode, even if the clock is too coarse to change the time.
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
