//! A large stream goes into the blob store without being in memory whole. Alone in its process, because the test looks at
//! the process's peak memory.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use becket_session::blobs::BlobStore;
use becket_session::store::Disk;
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes that do not compress.
struct Noise {
    left: usize,
    state: u64,
}

impl Read for Noise {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = buf.len().min(self.left) / 8 * 8;
        for chunk in buf[..n].chunks_exact_mut(8) {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            chunk.copy_from_slice(&self.state.to_le_bytes());
        }
        self.left -= n;
        Ok(n)
    }
}

/// The process's largest resident size so far, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn sixty_four_megabytes_pass_through_a_few() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = BlobStore::on_disk(Arc::new(Disk), dir.path());
    blobs.put(b"warm");
    let before = peak();
    blobs.put_from(&mut Noise { left: 64 << 20, state: 0x9e37_79b9_7f4a_7c15 }).unwrap();
    let grown = peak() - before;
    assert!(grown < 16 << 10, "grew by {grown} KiB");
    let size: u64 = std::fs::read_dir(dir.path().join("blobs"))
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(size > 64 << 20, "{size}");
}
