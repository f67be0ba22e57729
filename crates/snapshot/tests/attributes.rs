//! Extended attributes and access lists come back with files that a command removed, moved or replaced.
#![cfg(target_os = "linux")]

mod support;

use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::path::Path;
use support::Lab;

/// Read and write for the owner, read for user 1234, the group, the mask and everybody.
const LIST: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xd2\x04\0\0\x04\0\x04\0\xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";
const NAMES: [&str; 3] = ["user.a", "user.empty", "system.posix_acl_access"];

/// The values of these attributes. A file system without attributes gives none, and then none can be lost.
fn attributes(path: &Path) -> Vec<Option<Vec<u8>>> {
    let value = |name: &&str| {
        let mut value = [0; 200];
        getxattr(path, *name, value.as_mut_slice()).ok().map(|length| value[..length].to_vec())
    };
    NAMES.iter().map(value).collect()
}

#[test]
fn attributes_come_back_whatever_was_done_to_the_file() {
    for command in [
        "rm -f a",
        "rm -rf ./*",
        "mv a b",
        "mv a b; echo other > a",
        "echo other > c; mv c a",
        "cp --remove-destination /dev/null a",
        "python3 -c 'import os; os.remove(\"a\")'",
        "find . -name a -delete",
        "echo other > a",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, home) = (base.join("work"), base.join("home"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&home).unwrap();
        let file = root.join("a");
        std::fs::write(&file, "first\n").unwrap();
        for (name, value) in NAMES.iter().zip([b"\0one\xff".as_slice(), b"", LIST]) {
            let _ = setxattr(&file, *name, value, XattrFlags::empty());
        }
        let before = (attributes(&file), std::fs::read(&file).unwrap());
        let mut lab = Lab::new(&root, &home);
        lab.call(command);
        let (_, applied) = lab.undo(1, false);
        assert!(applied.failed.is_empty(), "{command}: {:?}", applied.failed);
        assert_eq!((attributes(&file), std::fs::read(&file).unwrap()), before, "{command}");
        // After a redo, a second undo restores the attributes from the records of the first undo.
        lab.redo().unwrap();
        lab.undo(1, false);
        assert_eq!((attributes(&file), std::fs::read(&file).unwrap()), before, "{command}, again");
    }
}
