//! Converts a policy to Landlock grants. Landlock has no deny rules: everything that is not granted is denied. "A tree
//! without one place" therefore becomes grants for all siblings of that place and of its parent folders.
//!
//! Limits that follow from this:
//! - Names: the right to list folders is granted for a whole readable tree. So the names in a hidden folder can be
//!   listed there, but nothing in it can be opened.
//! - New files: a file that is created later in a parent folder of an excluded place gets no grant.
//! - A parent folder with more than [`MAX_ENTRIES`] entries is left out.

use crate::policy::Policy;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// If a parent folder of an excluded place has more entries than this, nothing in the folder is granted.
pub(crate) const MAX_ENTRIES: usize = 20_000;

/// The memory that programs of the user share. bubblewrap gives a command its own; with Landlock it is granted only if the user
/// names it among the places that may be written.
const SHARED: &str = "/dev/shm";

/// Rights on a tree, or on a single file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Open files for reading.
    pub read: bool,
    /// List folders.
    pub list: bool,
    pub execute: bool,
    /// Write, create, remove, rename, link.
    pub write: bool,
    /// Open devices for reading and writing, and control them. On a folder of devices, also list, create and remove files.
    pub device: bool,
}

impl Rights {
    fn and(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            list: self.list || other.list,
            execute: self.execute || other.execute,
            write: self.write || other.write,
            device: self.device || other.device,
        }
    }
}

/// Lists the names in a folder; `None` if that is not possible.
pub(crate) type List<'a> = &'a dyn Fn(&Path) -> Option<Vec<PathBuf>>;

/// The grants of a policy, by path.
pub(crate) fn grants(policy: &Policy, list: List<'_>) -> BTreeMap<PathBuf, Rights> {
    let mut out = BTreeMap::new();
    let none = Rights::default();
    let unreadable: Vec<PathBuf> = policy.deny_read.iter().cloned().chain([PathBuf::from(SHARED)]).collect();
    for tree in &policy.read {
        add(&mut out, tree.clone(), Rights { list: true, ..none });
        for path in all_but(tree, &unreadable, list) {
            add(&mut out, path, Rights { read: true, ..none });
        }
    }
    for tree in &policy.execute {
        let excluded: Vec<PathBuf> = policy.deny_execute.iter().chain(&unreadable).cloned().collect();
        for path in all_but(tree, &excluded, list) {
            add(&mut out, path, Rights { execute: true, ..none });
        }
    }
    for tree in &policy.write {
        let excluded: Vec<PathBuf> = policy.deny_write.iter().chain(&policy.deny_read).cloned().collect();
        add(&mut out, tree.clone(), Rights { list: true, ..none });
        for path in all_but(tree, &excluded, list) {
            add(&mut out, path, Rights { write: true, read: true, ..none });
        }
    }
    for device in &policy.devices {
        add(&mut out, device.clone(), Rights { device: true, ..none });
    }
    out
}

/// The grants of a policy that only withholds files: what may be read, and what may be written.
pub(crate) fn denials(policy: &Policy, list: List<'_>) -> BTreeMap<PathBuf, Rights> {
    let mut out = BTreeMap::new();
    let (root, none) = (Path::new("/"), Rights::default());
    for path in all_but(root, &policy.deny_read, list) {
        add(&mut out, path, Rights { read: true, ..none });
    }
    let unwritable: Vec<PathBuf> = policy.deny_write.iter().chain(&policy.deny_read).cloned().collect();
    for path in all_but(root, &unwritable, list) {
        add(&mut out, path, Rights { write: true, ..none });
    }
    out
}

fn add(out: &mut BTreeMap<PathBuf, Rights>, path: PathBuf, rights: Rights) {
    let now = out.entry(path).or_default();
    *now = now.and(rights);
}

/// The paths that together are `tree` without `excluded`.
fn all_but(tree: &Path, excluded: &[PathBuf], list: List<'_>) -> Vec<PathBuf> {
    if excluded.iter().any(|place| tree.starts_with(place)) {
        return Vec::new();
    }
    let inside: Vec<PathBuf> = excluded.iter().filter(|place| place.starts_with(tree)).cloned().collect();
    if inside.is_empty() {
        return vec![tree.to_path_buf()];
    }
    let Some(names) = list(tree).filter(|names| names.len() <= MAX_ENTRIES) else { return Vec::new() };
    names.iter().flat_map(|name| all_but(&tree.join(name), &inside, list)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forest: each line is a path; folders are those that have something below them.
    fn lister(files: &'static [&'static str]) -> impl Fn(&Path) -> Option<Vec<PathBuf>> {
        move |dir| {
            let mut names: Vec<PathBuf> = files
                .iter()
                .filter_map(|f| Path::new(f).strip_prefix(dir).ok())
                .filter_map(|rest| rest.components().next().map(|c| PathBuf::from(c.as_os_str())))
                .collect();
            names.sort();
            names.dedup();
            Some(names)
        }
    }

    #[test]
    fn everything_beside_an_excluded_place_is_granted() {
        let list = lister(&["/home/u/.ssh/id", "/home/u/.cargo/bin/rg", "/home/v/x", "/usr/bin/ls"]);
        let all_but = |tree: &str, excluded: &[&str]| {
            let excluded: Vec<PathBuf> = excluded.iter().map(PathBuf::from).collect();
            all_but(Path::new(tree), &excluded, &list)
                .iter()
                .map(|p| p.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(all_but("/usr", &["/home/u/.ssh"]), ["/usr"]);
        assert_eq!(all_but("/", &["/home/u/.ssh"]), ["/home/u/.cargo", "/home/v", "/usr"]);
        assert_eq!(all_but("/home/u", &["/home/u/.ssh/id"]), ["/home/u/.cargo"]);
        assert_eq!(all_but("/home/u/.ssh", &["/home/u"]), Vec::<String>::new());
        // An excluded place that does not exist takes nothing away from what does.
        assert_eq!(all_but("/home/v", &["/home/v/.aws"]), ["/home/v/x"]);
    }

    #[test]
    fn a_folder_that_cannot_be_listed_grants_nothing() {
        let all = all_but(Path::new("/"), &[PathBuf::from("/a/b")], &|_| None);
        assert_eq!(all, Vec::<PathBuf>::new());
    }
}
