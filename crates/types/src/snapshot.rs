//! States and changes of files: the entries that undo is based on.
//!
//! A path is kept byte for byte ([`FilePath`]). A file is kept as the hash of its content, its mode and the
//! position of its content in the blob store. Nothing here reads or writes a file.

use crate::{BlobId, CallId, Seq, hex};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A path in the system's own encoding. In JSON it is a string, or `{"bytes": hex}` if it is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath(pub PathBuf);

impl FilePath {
    /// Borrows the path, in the system's own encoding.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl From<PathBuf> for FilePath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum PathForm<'a> {
    Text(std::borrow::Cow<'a, str>),
    Bytes { bytes: String },
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => PathForm::Text(text.into()),
            None => PathForm::Bytes { bytes: hex(self.0.as_os_str().as_encoded_bytes()) },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match PathForm::deserialize(deserializer)? {
            PathForm::Text(text) => Ok(Self(PathBuf::from(text.into_owned()))),
            PathForm::Bytes { bytes } => crate::path::from_hex(&bytes)
                .map(Self)
                .ok_or_else(|| serde::de::Error::custom("a path's bytes are not hex")),
        }
    }
}

/// The file, symbolic link or folder at a path. Special files (devices, sockets, pipes) are never recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileNode {
    File(FileContent),
    Symlink {
        target: FilePath,
    },
    Dir {
        /// Permission bits.
        mode: u32,
    },
}

/// A regular file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// Permission bits.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content. It also names the blob with the content, unless `pack` names another. `None`:
    /// the file was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<BlobId>,
    /// The blob that holds this content together with others, and the byte offset of this content in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<(BlobId, u64)>,
    /// The git object with the content, if the file was tracked and unchanged and therefore was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// User and group id, if they differ from those of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<(u32, u32)>,
    /// User extended attributes and the access control list: name to value in hex. Only for files that were
    /// read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Metadata that shows that the file is unchanged, without reading it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<FileStamp>,
}

/// Modification time and change time in nanoseconds since 1970, and the inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp(pub i64, pub i64, pub u64);

/// State of a path. `node` is `None` if nothing existed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    pub path: FilePath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<FileNode>,
}

/// A path whose content was not kept, with a short reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedPath {
    pub path: FilePath,
    pub reason: String,
}

/// State of the files that a call may change, written before the call runs. Only differences from the earlier
/// entries are listed. If the same call has no [`FileChanges`], it never finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSnapshot {
    pub call_id: CallId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileState>,
    /// Blob with the list that belongs in `files`, as a JSON array. Used for long lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<BlobId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPath>,
    /// True if ignored directories were scanned as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
    /// True if the repository's own files (references, index, logs, settings) were scanned as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub git: bool,
    /// For an undo or redo, instead of `files`: the changes that it is about to make. If it is interrupted, the next process
    /// finds out from them how far it got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<FileChanges>,
}

/// State of one path before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    pub path: FilePath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileNode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileNode>,
}

/// The changes to files by a call, an undo or a redo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChanges {
    pub cause: ChangeCause,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathChange>,
    /// Blob with the list that belongs in `files`, as a JSON array. Used for long lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<BlobId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPath>,
    /// True for an undo or redo that was interrupted before it had changed all its paths. `files` then has those that it did
    /// change. The next undo or redo belongs to the same step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// The cause of a recorded change of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeCause {
    /// The tool call that changed them.
    Call(CallId),
    /// An undo of these `file_changes` entries.
    Undo(Vec<Seq>),
    /// A redo: this undo was itself undone.
    Redo(Seq),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_byte_for_byte() {
        let odd = crate::path::from_hex("2f7461ff2e74").unwrap();
        for path in [PathBuf::from("/a b/ü"), odd] {
            let json = serde_json::to_string(&FilePath(path.clone())).unwrap();
            assert_eq!(serde_json::from_str::<FilePath>(&json).unwrap().0, path, "{json}");
        }
        assert!(serde_json::from_str::<FilePath>(r#"{"bytes":"zz"}"#).is_err());
    }

    #[test]
    fn nodes_are_flat_tagged_json() {
        let json =
            r#"{"path":"/a","before":{"type":"file","mode":420,"size":1,"sha256":"aa","stamp":[1,2,3]}}"#;
        let change: PathChange = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&change).unwrap(), json);
        assert!(change.after.is_none());
    }
}
