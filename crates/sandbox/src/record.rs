//! The record of protected files, for the process that undoes changes after becket was killed.
//!
//! Model: the record lies in memory that has no name. becket writes it as long as confined programs run, and the watchers that end
//! these programs hold the same memory open. If becket is killed, a watcher ends these programs and starts becket as a helper
//! ([`UNDO`]), which reads the record and undoes changes as becket would have done at the end of a program. An empty file means
//! that no program ran.
//!
//! Invariants: a confined program can neither open nor inherit this memory, so the record is becket's own. An interrupted write
//! leaves the previous record valid.

use crate::protected_state::ProtectedState;
use crate::sys;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The word after [`crate::helper::WORD`] that makes the helper undo all changes since the record on standard input.
pub(crate) const UNDO: &str = "undo";

/// Bytes of the header, which holds the position of the record in the file and its length.
const HEAD: u64 = 16;

/// Longest record in bytes. A longer one can only come from an attack on the file, because the recorded contents are limited.
const MOST: u64 = 256 << 20;

/// The writer of a record.
#[derive(Debug)]
pub(crate) struct Record {
    file: File,
    start: u64,
    len: u64,
}

impl Record {
    /// Makes an empty record.
    ///
    /// # Errors
    ///
    /// If the system has no memory without a name.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { file: sys::nameless_memory()?, start: HEAD, len: 0 })
    }

    /// Another handle of the memory, for a watcher.
    ///
    /// # Errors
    ///
    /// If this process has too many open files.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Replaces the record. `None`: no program runs.
    ///
    /// # Errors
    ///
    /// If there is no memory left. The previous record is then valid.
    pub(crate) fn write(&mut self, obeyed: Option<&ProtectedState>) -> io::Result<()> {
        let Some(obeyed) = obeyed else {
            (self.start, self.len) = (HEAD, 0);
            return self.file.set_len(0);
        };
        let bytes = serde_json::to_vec(obeyed)?;
        let len = bytes.len() as u64;
        // The new record is written to unused space, so that an interrupted write leaves the previous one valid.
        let start = if len <= self.start - HEAD { HEAD } else { self.start + self.len };
        self.file.write_all_at(&bytes, start)?;
        let head = [start.to_le_bytes(), len.to_le_bytes()].concat();
        self.file.write_all_at(&head, 0)?;
        (self.start, self.len) = (start, len);
        Ok(())
    }
}

/// Undoes what changed since the record in a file.
///
/// # Errors
///
/// If the file does not hold a record of this version of becket.
pub(crate) fn undo(file: &File) -> Result<(), String> {
    let Some(mut obeyed) = read(file).map_err(|e| format!("the record of protected files: {e}"))? else {
        return Ok(());
    };
    // becket was killed, so nobody can read the lines about what was undone.
    obeyed.check(&[], &mut Vec::new());
    Ok(())
}

fn read(file: &File) -> io::Result<Option<ProtectedState>> {
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    let mut number = [0; 8];
    file.read_exact_at(&mut number, 0)?;
    let start = u64::from_le_bytes(number);
    file.read_exact_at(&mut number, 8)?;
    let len = u64::from_le_bytes(number);
    if len == 0 {
        return Ok(None);
    }
    let len = usize::try_from(len.min(MOST)).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, start)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// The content of a file in JSON: as text if it is UTF-8, otherwise as bytes.
pub(crate) mod bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes(Vec<u8>),
    }

    #[expect(clippy::ref_option, reason = "serde gives the field")]
    pub(crate) fn serialize<S: Serializer>(
        content: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let written = content.as_ref().map(|bytes| match std::str::from_utf8(bytes) {
            Ok(text) => Written::Text(text.to_owned()),
            Err(_) => Written::Bytes(bytes.clone()),
        });
        written.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Written>::deserialize(deserializer)?.map(|written| match written {
            Written::Text(text) => text.into_bytes(),
            Written::Bytes(bytes) => bytes,
        }))
    }
}

/// A map with paths as keys, stored as a list of pairs, because keys of JSON are text.
pub(crate) mod map {
    use crate::policy::lossless::Written;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        map: &BTreeMap<PathBuf, T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map.iter().map(|(path, value)| (Written::from(path.as_path()), value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<PathBuf, T>, D::Error> {
        let pairs: Vec<(Written, T)> = Vec::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(path, value)| (path.into(), value)).collect())
    }
}

/// A map from paths to paths, stored as a list of pairs.
pub(crate) mod links {
    use crate::policy::lossless::Written;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    pub(crate) fn serialize<S: Serializer>(
        map: &BTreeMap<PathBuf, PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let pairs = map.iter().map(|(a, b)| (Written::from(a.as_path()), Written::from(b.as_path())));
        serializer.collect_seq(pairs)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<PathBuf, PathBuf>, D::Error> {
        let pairs: Vec<(Written, Written)> = Vec::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(a, b)| (a.into(), b.into())).collect())
    }
}

/// A set of paths, stored as a list.
pub(crate) mod set {
    use crate::policy::lossless;
    use serde::{Deserializer, Serializer};
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    pub(crate) fn serialize<S: Serializer>(
        set: &BTreeSet<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        lossless::serialize(&set.iter().cloned().collect::<Vec<_>>(), serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeSet<PathBuf>, D::Error> {
        Ok(lossless::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, PolicyInputs};
    use becket_types::SandboxLevel;
    use std::fs;
    use std::path::Path;

    fn before(root: &Path) -> ProtectedState {
        let inputs = PolicyInputs { roots: vec![root.to_path_buf()], ..PolicyInputs::default() };
        ProtectedState::before(&Policy::new(SandboxLevel::Workspace, &inputs, &root.join("temp"), &[]))
    }

    #[test]
    fn what_changed_since_the_record_is_undone_by_whoever_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::write(root.join(".envrc"), b"mine \xff").unwrap();
        fs::write(root.join("a.code-workspace"), "mine").unwrap();
        let mut record = Record::new().unwrap();
        let file = record.file().unwrap();
        undo(&file).unwrap();
        record.write(Some(&before(&root))).unwrap();
        fs::write(root.join(".envrc"), "evil").unwrap();
        fs::write(root.join("b.code-workspace"), "evil").unwrap();
        std::os::unix::fs::symlink("elsewhere", root.join(".config")).unwrap();
        undo(&file).unwrap();
        assert_eq!(fs::read(root.join(".envrc")).unwrap(), b"mine \xff");
        for name in ["b.code-workspace", ".config"] {
            assert!(root.join(name).symlink_metadata().is_err(), "{name}");
            assert!(root.join(format!("{name}.refused")).symlink_metadata().is_ok(), "{name}");
        }
        assert!(root.join("a.code-workspace").exists());
        // If no program runs, a change is the user's.
        record.write(None).unwrap();
        fs::write(root.join(".envrc"), "other").unwrap();
        undo(&file).unwrap();
        assert_eq!(fs::read(root.join(".envrc")).unwrap(), b"other");
    }

    #[test]
    fn an_interrupted_write_leaves_the_record_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut record = Record::new().unwrap();
        let file = record.file().unwrap();
        for n in 0..20 {
            fs::write(root.join(".envrc"), "x".repeat(n * n % 7 * 1000)).unwrap();
            let (start, len) = (record.start, record.len);
            let mut then = vec![0; usize::try_from(len).unwrap()];
            file.read_exact_at(&mut then, start).unwrap();
            record.write(Some(&before(&root))).unwrap();
            assert!(record.start >= start + len || record.start + record.len <= start, "{n}: they overlap");
            let mut now = vec![0; then.len()];
            file.read_exact_at(&mut now, start).unwrap();
            assert_eq!(then, now, "{n}");
            assert!(file.metadata().unwrap().len() < 4_000_000, "it grows");
        }
    }

    #[test]
    fn a_file_that_holds_no_record_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[16_u64.to_le_bytes(), 3_u64.to_le_bytes()].concat(), 0).unwrap();
        file.write_all_at(b"{}x", 16).unwrap();
        assert!(undo(&file).is_err());
    }
}
