//! The raw output of a command, kept whole up to a limit: in memory while it is small, then in a file without a name.
//!
//! Model: the first [`HEAD`] bytes and the last [`TAIL`]; the tail is a ring in the file. The file has no name from the
//! start, so it is gone with the process, however that ends.

use becket_tool::Host;
use becket_types::BlobId;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const HEAD: u64 = 16 * 1024 * 1024;
pub(crate) const TAIL: u64 = 48 * 1024 * 1024;
/// More than this goes to the file.
const IN_MEMORY: usize = 512 * 1024;
/// What one session may spill.
const SESSION: u64 = 1024 * 1024 * 1024;

pub(crate) struct Spill {
    directory: PathBuf,
    /// Bytes of blobs of this session so far.
    used: Arc<AtomicU64>,
    small: Vec<u8>,
    file: Option<File>,
    total: u64,
    failed: Option<String>,
}

impl Spill {
    pub(crate) fn new(directory: PathBuf, used: Arc<AtomicU64>) -> Self {
        Self { directory, used, small: Vec::new(), file: None, total: 0, failed: None }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none()
            && let Err(e) = self.write(bytes)
        {
            self.failed = Some(e.to_string());
            self.small = Vec::new();
            self.file = None;
        }
        self.total += bytes.len() as u64;
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            if self.small.len() + bytes.len() <= IN_MEMORY {
                self.small.extend_from_slice(bytes);
                return Ok(());
            }
            if self.used.load(Ordering::Relaxed) >= SESSION {
                return Err(io::Error::other("this session has kept 1 GB of outputs already"));
            }
            std::fs::create_dir_all(&self.directory)?;
            let file = tempfile::tempfile_in(&self.directory)?;
            file.write_all_at(&self.small, 0)?;
            self.small = Vec::new();
            self.file = Some(file);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let (mut at, mut rest) = (self.total, bytes);
        while !rest.is_empty() {
            let (place, room) = if at < HEAD {
                (at, HEAD - at)
            } else {
                let in_ring = (at - HEAD) % TAIL;
                (HEAD + in_ring, TAIL - in_ring)
            };
            let n = rest.len().min(usize::try_from(room).unwrap_or(rest.len()));
            file.write_all_at(&rest[..n], place)?;
            at += n as u64;
            rest = &rest[n..];
        }
        Ok(())
    }

    /// Into the session's blob store. `Err` says why the output is not kept.
    pub(crate) fn keep(self, host: &dyn Host) -> Result<BlobId, String> {
        if let Some(why) = self.failed {
            return Err(why);
        }
        self.used.fetch_add(self.total.min(HEAD + TAIL), Ordering::Relaxed);
        let Some(file) = self.file else {
            return host.put_blob(&self.small);
        };
        let section = |from: u64, to: u64| Section { file: &file, at: from, end: to };
        if self.total <= HEAD + TAIL {
            return host.put_blob_from(&mut section(0, self.total));
        }
        let note = format!("\n[{} bytes left out]\n", self.total - HEAD - TAIL);
        let seam = HEAD + (self.total - HEAD) % TAIL;
        let mut whole = section(0, HEAD)
            .chain(note.as_bytes())
            .chain(section(seam, HEAD + TAIL))
            .chain(section(HEAD, seam));
        host.put_blob_from(&mut whole)
    }
}

/// A part of a file, read without moving its cursor.
struct Section<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let n = self.file.read_at(&mut buffer[..want], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool::testing::TestHost;

    fn kept(total: u64) -> (Vec<u8>, u64) {
        let host = TestHost::default();
        let directory = tempfile::tempdir().unwrap();
        let used = Arc::new(AtomicU64::new(0));
        let mut spill = Spill::new(directory.path().to_owned(), Arc::clone(&used));
        let mut at = 0u64;
        while at < total {
            let n = 1_000_003.min(total - at);
            let chunk: Vec<u8> = (at..at + n).map(|i| (i % 251) as u8).collect();
            spill.push(&chunk);
            at += n;
        }
        let id = spill.keep(&host).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no file with a name");
        (host.get_blob(&id).unwrap(), used.load(Ordering::Relaxed))
    }

    #[test]
    fn whole_up_to_the_limit_and_both_ends_beyond() {
        for total in [0, 1, IN_MEMORY as u64, IN_MEMORY as u64 + 1, HEAD + 5] {
            let (bytes, used) = kept(total);
            assert_eq!((bytes.len() as u64, used), (total, total));
            assert!(bytes.iter().enumerate().all(|(i, b)| *b == (i as u64 % 251) as u8));
        }
        let total = HEAD + TAIL + 7_654_321;
        let (bytes, used) = kept(total);
        let note = b"\n[7654321 bytes left out]\n";
        assert_eq!(used, HEAD + TAIL);
        assert_eq!(bytes.len() as u64, HEAD + TAIL + note.len() as u64);
        let (head, rest) = bytes.split_at(HEAD as usize);
        let tail = rest.strip_prefix(note.as_slice()).unwrap();
        assert!(head.iter().enumerate().all(|(i, b)| *b == (i as u64 % 251) as u8));
        assert!(tail.iter().enumerate().all(|(i, b)| *b == ((total - TAIL + i as u64) % 251) as u8));
    }

    #[test]
    fn a_full_session_keeps_no_more() {
        let used = Arc::new(AtomicU64::new(SESSION));
        let mut spill = Spill::new(std::env::temp_dir(), used);
        spill.push(&vec![b'x'; IN_MEMORY + 1]);
        assert!(spill.keep(&TestHost::default()).unwrap_err().contains("1 GB"));
    }
}
