//! Makes records of files, directories and links. The contents of files are read by `keep`.

use crate::sys::{self, Kind, Meta};
use becket_types::{FileContent, FileNode, FilePath};
use std::path::Path;

/// Makes the record of `path` from its metadata; `None` for special files, and for links that cannot be read.
pub(crate) fn node(path: &Path, meta: &Meta) -> Option<FileNode> {
    match meta.kind {
        Kind::File => Some(FileNode::File(FileContent {
            mode: meta.mode,
            size: meta.size,
            owner: (meta.owner != sys::own_ids()).then_some(meta.owner),
            stamp: Some(meta.stamp),
            ..FileContent::default()
        })),
        Kind::Dir => Some(FileNode::Dir { mode: meta.mode }),
        Kind::Symlink => Some(FileNode::Symlink { target: FilePath(sys::read_link(path).ok()?) }),
        Kind::Special => None,
    }
}

/// True if the metadata of a file or directory are as recorded. A link always counts as changed, because its target must be read
/// again.
pub(crate) fn unchanged(known: &FileNode, meta: &Meta) -> bool {
    match (known, meta.kind) {
        (FileNode::File(file), Kind::File) => {
            file.stamp == Some(meta.stamp) && file.size == meta.size && file.mode == meta.mode
        }
        (FileNode::Dir { mode }, Kind::Dir) => *mode == meta.mode,
        _ => false,
    }
}

/// True if two records have the same content, mode, owner and link target. Times count only if a content was not read, so
/// that its hash is missing.
pub(crate) fn same(a: Option<&FileNode>, b: Option<&FileNode>) -> bool {
    match (a, b) {
        (Some(FileNode::File(a)), Some(FileNode::File(b))) => {
            let content = match (&a.sha256, &b.sha256) {
                (Some(a), Some(b)) => a == b,
                _ => a.stamp.is_some() && a.stamp == b.stamp,
            };
            content && a.mode == b.mode && a.size == b.size && a.owner == b.owner
        }
        (a, b) => a == b,
    }
}
