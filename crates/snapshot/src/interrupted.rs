//! Finds out which paths an undo or redo had changed when it was interrupted.
//!
//! Before it began, its intention was written to the ledger: the state of every path and the wanted state. A path that is still in
//! the first state was not changed. All other paths count as changed. If somebody else has changed such a path since, the next plan
//! finds another state than the record says and reports a conflict.
//!
//! Also removes the temporary files that the undo left beside these paths, as far as their process is dead.

use crate::apply::OWNER_READS;
use crate::observe;
use crate::plan::look;
use becket_files::temporary;
use becket_types::{FileChanges, FileContent, FileNode, PathChange};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

/// Returns the changes that were made before the interruption, and removes temporary files that were left.
pub(crate) fn changes_made(intended: &FileChanges) -> FileChanges {
    let mut made = FileChanges { files: Vec::new(), manifest: None, ..intended.clone() };
    // If the list of files is lost, it is not known what was done, so the undo counts as interrupted.
    made.interrupted = intended.files.is_empty();
    remove_temporary(&intended.files);
    for change in &intended.files {
        let now = look(&change.path.0).map(|(now, _)| now);
        let Ok(now) = now else {
            made.files.push(change.clone());
            continue;
        };
        if observe::same(change.before.as_ref(), now.as_ref()) {
            made.interrupted = true;
            continue;
        }
        let halfway = is_halfway(change, now.as_ref());
        made.interrupted |= halfway;
        let after = match (now, &change.before) {
            (Some(FileNode::File(now)), Some(FileNode::File(before))) if halfway => {
                Some(FileNode::File(FileContent { mode: now.mode, stamp: now.stamp, ..before.clone() }))
            }
            (now, _) if halfway => now,
            (now, _) => reached(change.after.clone(), now.as_ref()),
        };
        made.files.push(PathChange { after, ..change.clone() });
    }
    made
}

/// Removes the temporary files of paths that were about to be restored.
fn remove_temporary(files: &[PathChange]) {
    let mut folders: BTreeMap<&Path, Vec<&OsStr>> = BTreeMap::new();
    for change in files.iter().filter(|c| !matches!(c.after, Some(FileNode::Dir { .. }) | None)) {
        if let (Some(folder), Some(name)) = (change.path.0.parent(), change.path.0.file_name()) {
            folders.entry(folder).or_default().push(name);
        }
    }
    for (folder, names) in folders {
        temporary::remove_left_beside(folder, &names);
    }
}

/// Returns the wanted state, with the file's present stamp if the file is in that state. The position of the content in the store
/// is known only from the record.
fn reached(mut want: Option<FileNode>, now: Option<&FileNode>) -> Option<FileNode> {
    if let (Some(FileNode::File(want)), Some(FileNode::File(now))) = (&mut want, now) {
        let is_same = want.sha256.is_none() || want.sha256 == now.sha256;
        if is_same && want.size == now.size && want.mode == now.mode {
            want.stamp = now.stamp;
        }
    }
    want
}

/// True if the path is in a state that it has only while an undo runs.
fn is_halfway(change: &PathChange, now: Option<&FileNode>) -> bool {
    let is_dir = |node: Option<&FileNode>| matches!(node, Some(FileNode::Dir { .. }));
    let (before, want) = (change.before.as_ref(), change.after.as_ref());
    match (before, now) {
        // While a file is replaced by a directory, or a directory by a file, nothing is at the path.
        (Some(_), None) => want.is_some() && is_dir(before) != is_dir(want),
        // A directory has this mode until its entries are restored.
        (_, Some(FileNode::Dir { mode: 0o700 })) => is_dir(want) && !observe::same(want, now),
        // The file was made readable for its owner, in order to keep it.
        (Some(FileNode::File(before)), Some(FileNode::File(now))) => {
            let opened = FileContent { mode: before.mode | OWNER_READS, ..before.clone() };
            observe::same(Some(&FileNode::File(opened)), Some(&FileNode::File(now.clone())))
                && !observe::same(want, Some(&FileNode::File(now.clone())))
        }
        _ => false,
    }
}
