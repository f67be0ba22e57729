//! Removes cache folders of language servers that no workspace uses any more.
//!
//! Owns the age limit, and the rule for folders that may be removed. Each folder records its last use in a separate
//! file, so that a server which only reads its caches keeps them. Removes only folders whose names becket makes, and
//! follows no links. Errors are ignored: a folder that cannot be removed stays.

use becket_files::dir::Dir;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The modification time of this file is the last use of the folder.
const USED: &str = ".used";
/// Age limit. A month is longer than most breaks, and caches can be made again.
const KEPT: Duration = Duration::from_hours(30 * 24);

/// Records that `folder` is used now, and removes old sibling folders in a separate thread, because build caches may be
/// large.
pub(crate) fn start(folder: &Path) {
    let _ = mark(folder);
    let folder = folder.to_path_buf();
    let _ = std::thread::Builder::new().name("becket-sweep".to_owned()).spawn(move || {
        remove_old(&folder, SystemTime::now());
    });
}

/// Makes the file [`USED`] again. Programs that may write the folder could have put a link or a pipe under this name.
fn mark(folder: &Path) -> std::io::Result<()> {
    let dir = Dir::open(folder)?;
    let _ = dir.remove(USED.as_ref());
    dir.create_new(USED.as_ref(), 0o600).map(drop)
}

/// Removes sibling folders of `own` that were not used for [`KEPT`].
fn remove_old(own: &Path, now: SystemTime) {
    let Some(entries) = own.parent().and_then(|parent| fs::read_dir(parent).ok()) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let ours =
            name.to_str().is_some_and(|name| name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit()));
        // The type of the entry itself: a link to a folder is no folder.
        let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if ours && folder && path != own && is_old(&path, now) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// True if the folder was last used more than [`KEPT`] before `now`. Without a file [`USED`], the folder's own modification time
/// counts.
fn is_old(folder: &Path, now: SystemTime) -> bool {
    let changed = |path: &Path| path.symlink_metadata().and_then(|meta| meta.modified()).ok();
    let used = changed(&folder.join(USED)).or_else(|| changed(folder));
    used.and_then(|used| now.duration_since(used).ok()).is_some_and(|age| age > KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_record_is_written_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        fs::write(folder.join("mine"), "as it was").unwrap();
        symlink("mine", folder.join(USED)).unwrap();
        mark(&folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("mine")).unwrap(), "as it was");
        assert!(folder.join(USED).symlink_metadata().unwrap().is_file());
        mark(&folder).unwrap();
    }

    #[test]
    fn only_old_folders_of_our_own_names_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join("servers").join(name);
        let names =
            ["00000000000000aa", "00000000000000bb", "00000000000000cc", "mine", "00000000000000dd.old"];
        for name in names {
            fs::create_dir_all(place(name).join("cargo-target/debug")).unwrap();
            fs::write(place(name).join("cargo-target/debug/x"), "x").unwrap();
        }
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, place("00000000000000ee")).unwrap();
        let month = SystemTime::now() + KEPT + Duration::from_mins(1);
        // One of them is used again then.
        fs::write(place("00000000000000bb").join(USED), "").unwrap();
        fs::File::options()
            .write(true)
            .open(place("00000000000000bb").join(USED))
            .unwrap()
            .set_modified(month)
            .unwrap();
        let left = || {
            let mut names: Vec<String> = fs::read_dir(dir.path().join("servers"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let before = left();
        remove_old(&place("00000000000000aa"), SystemTime::now());
        assert_eq!(left(), before, "none of them is old yet");
        remove_old(&place("00000000000000aa"), month);
        let kept =
            ["00000000000000aa", "00000000000000bb", "00000000000000dd.old", "00000000000000ee", "mine"];
        assert_eq!(left(), kept);
        assert!(elsewhere.is_dir());
    }
}
