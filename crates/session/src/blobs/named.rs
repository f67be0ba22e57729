//! The blobs that an entry names, so that a missing one is found.

use super::BlobStore;
use becket_types::{
    BlobId, Blobs as _, Entry, EntryKind, FileChanges, FileNode, FileState, ImageSource, Part, PathChange,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// Adds the blobs that an entry names to `out`: outputs, attachments, tool specifications, prompts of summaries, and files that an undo
/// needs. `store` holds the lists of files that are too long for an entry. The id of such a list is added too.
pub fn named_by(entry: &Entry, store: &BlobStore, out: &mut BTreeSet<BlobId>) {
    match &entry.kind {
        EntryKind::Message { message } => message.parts.iter().for_each(|part| of_part(part, out)),
        EntryKind::Part { part, .. } => of_part(part, out),
        EntryKind::Tools { specs, .. } => out.extend(specs.clone()),
        EntryKind::Request(request) => out.extend(request.prompt.clone()),
        EntryKind::FileSnapshot(snapshot) => {
            let listed: Vec<FileState> = listed(snapshot.manifest.as_ref(), store, out);
            for state in snapshot.files.iter().chain(&listed) {
                of_node(state.node.as_ref(), out);
            }
            if let Some(undo) = &snapshot.undo {
                of_changes(undo, store, out);
            }
        }
        EntryKind::FileChanges(changes) => of_changes(changes, store, out),
        _ => {}
    }
}

fn of_changes(changes: &FileChanges, store: &BlobStore, out: &mut BTreeSet<BlobId>) {
    let listed: Vec<PathChange> = listed(changes.manifest.as_ref(), store, out);
    for change in changes.files.iter().chain(&listed) {
        of_node(change.before.as_ref(), out);
        of_node(change.after.as_ref(), out);
    }
}

fn of_part(part: &Part, out: &mut BTreeSet<BlobId>) {
    match part {
        Part::Image { source: ImageSource::Blob(id), .. } | Part::File { blob: id, .. } => {
            out.insert(id.clone());
        }
        _ => out.extend(part.spill().cloned()),
    }
}

/// Returns the content of the blob with a list.
fn listed<T: DeserializeOwned>(id: Option<&BlobId>, store: &BlobStore, out: &mut BTreeSet<BlobId>) -> Vec<T> {
    let Some(id) = id else { return Vec::new() };
    out.insert(id.clone());
    store.get(id).and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn of_node(node: Option<&FileNode>, out: &mut BTreeSet<BlobId>) {
    if let Some(FileNode::File(file)) = node {
        let pack = file.pack.as_ref().map(|(id, _)| id);
        out.extend(pack.or(file.sha256.as_ref()).cloned());
    }
}
