//! What files were and became: the entries that undo is made of.
//!
//! A path is kept byte for byte ([`FilePath`]), a file by the hash of its content, its mode and its place in the blob
//! store. Nothing here reads or writes a file.

use crate::{BlobId, CallId, Seq, hex};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A path as the system has it. In JSON a string; `{"bytes": hex}` where it is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath(pub PathBuf);

impl FilePath {
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

/// What stands at a path. Special files (devices, sockets, pipes) are never recorded.
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
    /// In bytes.
    pub size: u64,
    /// The content's SHA-256, and the blob that holds it unless `pack` names another. `None`: it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<BlobId>,
    /// The blob in which the content stands among others, and where it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<(BlobId, u64)>,
    /// The object of the repository that held the content when it was not read: the file was tracked and unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// User and group, where they are not those of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<(u32, u32)>,
    /// Extended attributes of the user's and the access list by name, their values in hex; only of files that were read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// How the file is recognised as unchanged without reading it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<FileStamp>,
}

/// Modification and change time in nanoseconds since 1970, and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp(pub i64, pub i64, pub u64);

/// What stood at a path; nothing where `node` is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    pub path: FilePath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<FileNode>,
}

/// A path whose content was not kept, and why, in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedPath {
    pub path: FilePath,
    pub reason: String,
}

/// What is known of the files that a call may change, written before it runs: what differs from what the entries before
/// say. A snapshot without a [`FileChanges`] of the same call was of a call that never ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSnapshot {
    pub call_id: CallId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileState>,
    /// A blob with the list that would stand in `files`, as a JSON array, where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<BlobId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPath>,
    /// Ignored directories were looked into as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
    /// The repository's own files (references, index, logs, settings) were looked at as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub git: bool,
}

/// What one path was and became.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    pub path: FilePath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileNode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileNode>,
}

/// What a call, an undo or a redo did to files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChanges {
    pub cause: ChangeCause,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathChange>,
    /// A blob with the list that would stand in `files`, as a JSON array, where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<BlobId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPath>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeCause {
    Call(CallId),
    /// These `file_changes` entries were undone.
    Undo(Vec<Seq>),
    /// This undo was undone.
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
