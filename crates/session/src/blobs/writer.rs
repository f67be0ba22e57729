//! A blob that is being written: its bytes are hashed and compressed on their way to a file, and are never in memory as a whole.
//!
//! Invariants: if the disk refuses a write, nothing is lost, because the compressed bytes then continue in memory. A writer that is dropped
//! removes its file. In a session that is not saved, a long blob moves from memory to a file without a name, which ends with the process.
//! Does not name the blob: the store does ([`super::BlobStore::keep`]).

use super::LEVEL;
use crate::store::{FromStart, Io, write_all};
use becket_types::{BlobId, hex};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// A blob whose id is known only after its last byte.
pub struct BlobWriter {
    encoder: zstd::stream::write::Encoder<'static, Sink>,
    hash: Sha256,
    bytes: u64,
}

impl fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobWriter").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl BlobWriter {
    pub(super) fn new(sink: Sink) -> io::Result<Self> {
        let encoder = zstd::stream::write::Encoder::new(sink, LEVEL)?;
        Ok(Self { encoder, hash: Sha256::new(), bytes: 0 })
    }

    /// Adds bytes.
    ///
    /// # Errors
    ///
    /// Fails if the disk refuses the bytes, and the bytes that it already has cannot be read back.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.encoder.write_all(bytes)
    }

    /// Returns the number of bytes so far.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// True if nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn finish(self) -> io::Result<(BlobId, Sink)> {
        let sink = self.encoder.finish()?;
        Ok((BlobId(hex(&self.hash.finalize())), sink))
    }
}

/// Maximum number of compressed bytes of a blob in memory, if the session is not saved. A longer blob moves to a file without a name.
pub(super) const MOST_IN_MEMORY: usize = 256 << 10;

/// A destination for compressed bytes: a file, or memory after the disk has refused.
pub(super) struct Sink {
    io: Arc<dyn Io>,
    place: BlobTarget,
    refused: Option<io::Error>,
    /// True if a long blob may move from memory to a file without a name: only in a session that is not saved.
    may_move_to_file: bool,
}

pub(super) enum BlobTarget {
    Disk {
        file: File,
        temp: PathBuf,
        /// Number of bytes that the disk has taken completely.
        len: usize,
    },
    /// A file that no folder lists. The system removes it with its last handle.
    Nameless {
        file: File,
        len: usize,
    },
    Memory(Vec<u8>),
}

/// Moves bytes to a file without a name.
pub(super) fn nameless(io: &dyn Io, packed: &[u8]) -> io::Result<File> {
    let file = tempfile::tempfile()?;
    write_all(io, &file, packed)?;
    Ok(file)
}

/// Reads a file without a name.
pub(super) fn read_nameless(file: &File, len: usize) -> io::Result<Vec<u8>> {
    let mut packed = Vec::with_capacity(len);
    FromStart { file: file.try_clone()?, at: 0 }.take(len as u64).read_to_end(&mut packed)?;
    Ok(packed)
}

impl Sink {
    pub(super) fn on_disk(io: &Arc<dyn Io>, file: File, temp: PathBuf) -> Self {
        let place = BlobTarget::Disk { file, temp, len: 0 };
        Self { io: Arc::clone(io), place, refused: None, may_move_to_file: false }
    }

    /// `refused`: the disk's error, if the bytes should be on disk. `None`: the session is not saved.
    pub(super) fn in_memory(io: &Arc<dyn Io>, refused: Option<io::Error>) -> Self {
        let moves = refused.is_none();
        Self { io: Arc::clone(io), place: BlobTarget::Memory(Vec::new()), refused, may_move_to_file: moves }
    }

    /// Returns the place of the bytes, and the reason if the disk refused them. If there is a file, the caller must rename or remove it.
    pub(super) fn into_parts(mut self) -> (BlobTarget, Option<io::Error>) {
        let place = std::mem::replace(&mut self.place, BlobTarget::Memory(Vec::new()));
        (place, self.refused.take())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let BlobTarget::Disk { temp, .. } = &self.place {
            let _ = self.io.remove(temp);
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let refused = match &mut self.place {
            BlobTarget::Memory(packed) => {
                packed.extend_from_slice(bytes);
                if self.may_move_to_file && packed.len() > MOST_IN_MEMORY {
                    match nameless(self.io.as_ref(), packed) {
                        Ok(file) => self.place = BlobTarget::Nameless { file, len: packed.len() },
                        // If no file without a name can be made, all bytes stay in memory.
                        Err(_) => self.may_move_to_file = false,
                    }
                }
                return Ok(bytes.len());
            }
            BlobTarget::Disk { file, len, .. } | BlobTarget::Nameless { file, len } => {
                match write_all(self.io.as_ref(), file, bytes) {
                    Ok(()) => {
                        *len += bytes.len();
                        return Ok(bytes.len());
                    }
                    Err(error) => error,
                }
            }
        };
        let (mut packed, taken) = match &self.place {
            BlobTarget::Disk { temp, len, .. } => (self.io.read(temp)?, *len),
            BlobTarget::Nameless { file, len } => (read_nameless(file, *len)?, *len),
            BlobTarget::Memory(_) => return Ok(bytes.len()),
        };
        packed.truncate(taken);
        if packed.len() < taken {
            return Err(refused);
        }
        packed.extend_from_slice(bytes);
        if let BlobTarget::Disk { temp, .. } = &self.place {
            let _ = self.io.remove(temp);
            // Only a session that should be saved reports this error. A session that is not saved keeps the bytes in memory anyway.
            self.refused = Some(refused);
        }
        self.may_move_to_file = false;
        self.place = BlobTarget::Memory(packed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::blobs::{BlobStore, id_of};
    use crate::store::Disk;
    use becket_types::Blobs as _;
    use std::io::Read as _;
    use std::sync::Arc;

    /// Bytes that compression makes hardly smaller.
    fn dense(len: usize) -> Vec<u8> {
        let mut state = 1u64;
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(len)
        .collect()
    }

    #[test]
    fn a_long_blob_of_a_session_that_is_not_saved_is_not_in_memory() {
        let blobs = BlobStore::in_memory(Arc::new(Disk), None);
        let (short, long) = (dense(100_000), dense(6 << 20));
        for (bytes, in_memory) in [(&short, 1), (&long, 1)] {
            let mut writer = blobs.writer().unwrap();
            for piece in bytes.chunks(4_000) {
                writer.write(piece).unwrap();
            }
            let id = blobs.keep(writer).unwrap();
            assert_eq!(id, id_of(bytes));
            assert_eq!(blobs.state().memory.len(), in_memory);
            for _ in 0..2 {
                assert!(blobs.get(&id).as_ref() == Some(bytes), "get");
                let mut read = Vec::new();
                blobs.read(&id).unwrap().read_to_end(&mut read).unwrap();
                assert!(read == *bytes, "read");
            }
        }
        assert_eq!(blobs.state().nameless.len(), 1);
        let other = BlobStore::in_memory(Arc::new(Disk), None);
        let id = other.put(&long);
        assert!(other.get(&id).as_ref() == Some(&long) && other.state().memory.is_empty());
        assert!(blobs.flush() && blobs.take_warnings().is_empty());
    }
}
