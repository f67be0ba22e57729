//! Contents of files as they were last read. They are kept so that a refused edit can report what has changed
//! since.
//!
//! Owns the memory bound: at most [`MAX_BYTES`] in total and [`MAX_FILE`] per file; the least recently used
//! copy is evicted first. Nothing is kept on disk, so after a resume only the hashes are known. Copies are
//! used for comparisons only, never as the source of a write.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limit in bytes for all copies together.
pub const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Limit in bytes for one copy. Larger files are not kept.
pub const MAX_FILE: usize = 4 * 1024 * 1024;

/// Copies of file contents, by path.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    files: HashMap<PathBuf, (Arc<Vec<u8>>, u64)>,
    bytes: usize,
    uses: u64,
}

impl Contents {
    /// Keeps a copy and replaces an older one of the same path.
    pub fn put(&mut self, path: &Path, content: Vec<u8>) {
        self.remove(path);
        if content.len() > MAX_FILE {
            return;
        }
        self.uses += 1;
        self.bytes += content.len();
        self.files.insert(path.to_owned(), (Arc::new(content), self.uses));
        while self.bytes > MAX_BYTES {
            let oldest = self.files.iter().min_by_key(|(_, (_, used))| *used).map(|(path, _)| path.clone());
            match oldest {
                Some(path) => self.remove(&path),
                None => return,
            }
        }
    }

    /// Returns the copy of `path`, and counts this as a use. `None` if it was never kept or was evicted.
    pub fn get(&mut self, path: &Path) -> Option<Arc<Vec<u8>>> {
        let (content, used) = self.files.get_mut(path)?;
        self.uses += 1;
        *used = self.uses;
        Some(Arc::clone(content))
    }

    /// Discards the copy of `path`, because the file's content has been read or written since without a copy.
    pub fn remove(&mut self, path: &Path) {
        if let Some((content, _)) = self.files.remove(path) {
            self.bytes -= content.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first_and_the_bound_holds() {
        let mut kept = Contents::default();
        let path = |i: usize| PathBuf::from(format!("/{i}"));
        for i in 0..8 {
            kept.put(&path(i), vec![0; MAX_FILE]);
        }
        assert!(kept.get(&path(0)).is_some());
        kept.put(&path(8), vec![0; MAX_FILE]);
        assert_eq!((kept.get(&path(1)), kept.bytes), (None, MAX_BYTES));
        assert!(kept.get(&path(0)).is_some());
        kept.put(&path(0), vec![0; MAX_FILE + 1]);
        assert_eq!((kept.get(&path(0)), kept.bytes), (None, MAX_BYTES - MAX_FILE));
        kept.put(&path(2), b"x".to_vec());
        assert_eq!(kept.get(&path(2)).as_deref(), Some(&b"x".to_vec()));
        assert_eq!(kept.bytes, MAX_BYTES - 2 * MAX_FILE + 1);
    }
}
