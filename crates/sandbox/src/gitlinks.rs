//! Repositories inside a work tree that git enters because an entry of the index names them.
//!
//! `git status` runs git in each of them and obeys the configuration there. A confined command can make such a repository anywhere
//! in the workspace and add it to the index, so becket examines its configuration when the command ends: it must be as it was
//! before, or name no program. Otherwise its `.git` is renamed, and git takes the folder for an ordinary one.
//!
//! Reads indexes of git, and small files. A repository that no index names is not looked at: git obeys it only for a user who
//! enters its folder.

use crate::content::{Kind, contents_below, is_put_aside, put_aside, real_path};
use crate::nested_git;
use crate::policy::Policy;
use becket_types::OBEYED_IN_GIT_DIR;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest index that is read, in bytes: about two million files.
const MOST_BYTES: u64 = 256 << 20;
const CONFIG_BYTES: u64 = 64 << 10;
/// Maximum number of repositories that are looked at.
const MOST: usize = 1 << 16;
/// The mode of an entry that names a repository.
const GITLINK: u32 = 0o160_000;

/// The files of a repository that change what git runs, with their contents.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct State(#[serde(with = "crate::record::map")] BTreeMap<PathBuf, Kind>);

/// A repository: its git directory, and its work tree. Both are the same folder for a bare repository.
#[derive(Clone)]
struct Repository {
    git_dir: PathBuf,
    tree: PathBuf,
}

impl Repository {
    /// The file without which git takes the work tree for an ordinary folder.
    fn key(&self) -> PathBuf {
        self.tree.join(if self.git_dir == self.tree { "HEAD" } else { ".git" })
    }
}

/// The repositories that git enters from the workspace, with their state before the command.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkedRepositories {
    #[serde(with = "crate::policy::lossless")]
    write: Vec<PathBuf>,
    #[serde(with = "crate::record::map")]
    before: BTreeMap<PathBuf, State>,
    /// Repositories to which a `.git` file or link directly in a writable place led. The policy protects their files, so they are
    /// not compared here.
    #[serde(with = "crate::record::links")]
    led_to: BTreeMap<PathBuf, PathBuf>,
}

impl LinkedRepositories {
    pub(crate) fn before(policy: &Policy) -> Self {
        let linked = linked_repositories(&policy.write).into_iter();
        let before = linked.map(|one| (one.key(), obeyed_state(&one))).collect();
        let led_to = policy.write.iter().filter_map(|place| pointed_to(place));
        let led_to = led_to.map(|one| (one.tree, real(one.git_dir))).collect();
        Self { write: policy.write.clone(), before, led_to }
    }

    /// Renames the `.git` of each repository that could run a program and is not as it was before the command. Adds one line for
    /// each to `out`.
    pub(crate) fn restore(&self, out: &mut Vec<String>) {
        for one in linked_repositories(&self.write) {
            let is_as_before = one.git_dir != one.tree
                && self.led_to.get(&one.tree) == Some(&real(one.git_dir.clone()))
                || self.before.get(&one.key()) == Some(&obeyed_state(&one));
            let is_writable = |path: &Path| self.write.iter().any(|place| path.starts_with(place));
            if is_as_before
                || is_plain(&one.git_dir)
                || !(is_writable(&one.tree) || is_writable(&one.git_dir))
            {
                continue;
            }
            let key = one.key();
            let why = if one.git_dir == one.tree {
                "makes a repository of this folder"
            } else if self.write.contains(&one.tree) {
                "leads git to a repository elsewhere"
            } else {
                "is entered by git because the index names it"
            };
            let what = format!("{} {why}, and its configuration or hooks could run a program", key.display());
            out.push(match put_aside(&key) {
                Some(to) => {
                    let name = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    format!("{what}; it is now {name}")
                }
                None => format!("{what}; it could not be moved aside"),
            });
        }
    }
}

/// Returns the repositories that git enters from the writable places, also from one such repository into the next.
fn linked_repositories(write: &[PathBuf]) -> Vec<Repository> {
    let mut todo: VecDeque<Repository> = write.iter().flat_map(|place| repositories(place)).collect();
    let mut seen: BTreeSet<PathBuf> = todo.iter().map(|one| one.tree.clone()).collect();
    let mut out: Vec<Repository> =
        write.iter().filter(|place| is_bare(place)).map(|place| of_itself(place)).collect();
    out.extend(write.iter().filter_map(|place| pointed_to(place)));
    while let Some(Repository { git_dir, tree }) = todo.pop_front() {
        let Ok(tree) = tree.canonicalize() else { continue };
        for name in links_of(&git_dir) {
            // A command can write any name into an index. Git follows only names that stay inside the work tree.
            let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
            let tree = tree.join(&name);
            if !is_below || tree.canonicalize().ok().as_ref() != Some(&tree) {
                continue;
            }
            let Some(git_dir) = git_dir_of(&tree) else { continue };
            if out.len() < MOST && seen.insert(tree.clone()) {
                let one = Repository { git_dir, tree };
                todo.push_back(one.clone());
                out.push(one);
            }
        }
    }
    out
}

/// The directories with the data of these repositories.
pub(crate) fn git_dirs(write: &[PathBuf]) -> Vec<PathBuf> {
    linked_repositories(write).into_iter().map(|one| real(one.git_dir)).collect()
}

/// True if git would take the folder itself for a bare repository. Folders inside a `.git` are left out.
fn is_bare(place: &Path) -> bool {
    let there = |name: &str| place.join(name).symlink_metadata().is_ok();
    let is_of_another = place.components().any(|part| part.as_os_str() == ".git");
    // A `.git` in this folder is not looked at: without a `HEAD` in it, git ignores it.
    !is_of_another && there("HEAD") && (there("commondir") || there("objects") && there("refs"))
}

/// The repository to which a place's own `.git` leads, if that is a file or a link. If `.git` is a folder, the policy protects the
/// files in it.
fn pointed_to(place: &Path) -> Option<Repository> {
    let leads = place.join(".git").symlink_metadata().is_ok_and(|meta| !meta.is_dir());
    let git_dir = git_dir_of(place).filter(|_| leads)?;
    Some(Repository { git_dir, tree: place.to_path_buf() })
}

/// The path without links, where that is known.
fn real(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

fn of_itself(place: &Path) -> Repository {
    Repository { git_dir: place.to_path_buf(), tree: place.to_path_buf() }
}

/// The repository of a place that may be written, and its further work trees.
fn repositories(place: &Path) -> Vec<Repository> {
    let first = match git_dir_of(place) {
        Some(git_dir) => Some(Repository { git_dir, tree: place.to_path_buf() }),
        None if place.join("HEAD").is_file() => {
            let tree = match place.file_name() {
                Some(name) if name == ".git" => place.parent().map(Path::to_path_buf),
                _ => nested_git::pointer(place).and_then(|dot| dot.parent().map(Path::to_path_buf)),
            };
            tree.map(|tree| Repository { git_dir: place.to_path_buf(), tree })
        }
        None => None,
    };
    let Some(first) = first else { return Vec::new() };
    let further =
        fs::read_dir(first.git_dir.join("worktrees")).into_iter().flatten().flatten().filter_map(|entry| {
            let git_dir = entry.path();
            let tree = nested_git::pointer(&git_dir)?.parent()?.to_path_buf();
            Some(Repository { git_dir, tree })
        });
    further.take(MOST).chain([first.clone()]).collect()
}

/// The directory with the data of the repository in a folder.
fn git_dir_of(tree: &Path) -> Option<PathBuf> {
    let dot = tree.join(".git");
    if fs::metadata(&dot).ok()?.is_dir() {
        return Some(dot);
    }
    let text = becket_files::read_text(&dot, CONFIG_BYTES).ok()?;
    Some(tree.join(text.trim_end().strip_prefix("gitdir:")?.trim_start()))
}

fn obeyed_state(one: &Repository) -> State {
    let dot = one.tree.join(".git");
    let at = |path: PathBuf| contents_below(&path, &real_path(&path));
    let mut out = if dot.is_dir() { BTreeMap::new() } else { at(dot) };
    for name in OBEYED_IN_GIT_DIR {
        out.append(&mut at(one.git_dir.join(name)));
    }
    // A hook that was put aside changes nothing, so it is no difference.
    out.retain(|path, _| !is_put_aside(path));
    State(out)
}

/// True if nothing in a git directory names a program: it is as `git init`, `git clone` and `git submodule` leave it.
fn is_plain(git_dir: &Path) -> bool {
    let hooks =
        |name: &[u8]| !name.ends_with(b".sample") && !is_put_aside(Path::new(OsStr::from_bytes(name)));
    // Templates of git create these folders without files.
    let has_no_files = |name: &&str| match *name {
        "hooks" => has_none(&git_dir.join(name), hooks),
        "remotes" | "branches" => has_none(&git_dir.join(name), |_| true),
        name => git_dir.join(name).symlink_metadata().is_err(),
    };
    let config = becket_files::read_text(&git_dir.join("config"), CONFIG_BYTES);
    let mut rest = OBEYED_IN_GIT_DIR.iter().filter(|name| **name != "config");
    rest.all(has_no_files) && config.is_ok_and(|text| is_plain_config(&text))
}

/// True if a folder is absent, or has no entry that counts.
fn has_none(folder: &Path, counts: impl Fn(&[u8]) -> bool) -> bool {
    match fs::read_dir(folder) {
        Ok(entries) => !entries.flatten().any(|entry| counts(entry.file_name().as_bytes())),
        Err(_) => folder.symlink_metadata().is_err(),
    }
}

/// Settings that name no program and no other file.
const PLAIN: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "worktree",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
        ],
    ),
    ("remote", &["url", "fetch", "pushurl", "tagopt"]),
    ("branch", &["remote", "merge", "rebase"]),
    ("submodule", &["url", "active"]),
    ("extensions", &["objectformat"]),
    ("user", &["name", "email"]),
];

fn is_plain_config(text: &str) -> bool {
    let mut keys: &[&str] = &[];
    text.lines().map(str::trim).filter(|line| !line.is_empty()).all(|line| {
        if line.ends_with('\\') {
            return false;
        }
        if let Some(header) = line.strip_prefix('[') {
            let Some(header) = header.strip_suffix(']') else { return false };
            let (name, of) = header.split_once(' ').unwrap_or((header, ""));
            let is_quoted = of.is_empty()
                || of.len() >= 2
                    && of.starts_with('"')
                    && of.ends_with('"')
                    && !of[1..of.len() - 1].contains(['"', '\\']);
            let found = PLAIN.iter().find(|(section, _)| section.eq_ignore_ascii_case(name));
            keys = found.map_or(&[], |(_, keys)| keys);
            return is_quoted && found.is_some();
        }
        let key = line.split_once('=').map_or(line, |(key, _)| key).trim();
        keys.iter().any(|known| known.eq_ignore_ascii_case(key))
    })
}

/// Inode, size and time of change of an index: differs whenever the index is written again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

/// The names that were read from an index, and its stamp at that time.
type Read = (Stamp, Arc<Vec<PathBuf>>);

/// The names that were read from indexes, so that an index is read once and not at each command.
static READ: Mutex<BTreeMap<PathBuf, Read>> = Mutex::new(BTreeMap::new());

/// The names in the index of a repository that lead to other repositories.
fn links_of(git_dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    // A split index keeps most entries in other files in the same folder.
    let shared = fs::read_dir(git_dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let shared = shared.filter(|name| name.as_bytes().starts_with(b"sharedindex."));
    for name in shared.chain(["index".into()]) {
        out.extend(links_in(&git_dir.join(name)).iter().cloned());
    }
    out
}

fn links_in(index: &Path) -> Arc<Vec<PathBuf>> {
    let Ok(meta) = index.metadata() else { return Arc::default() };
    let stamp = Stamp(meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, names)) = read.get(index).filter(|(known, _)| *known == stamp) {
        return Arc::clone(names);
    }
    let bytes = becket_files::read(index, MOST_BYTES).unwrap_or_default();
    // SHA-1 and SHA-256: the index does not say which of them it uses, so both are tried.
    let names = Arc::new([gitlinks(&bytes, 20), gitlinks(&bytes, 32)].concat());
    read.insert(index.to_path_buf(), (stamp, Arc::clone(&names)));
    names
}

/// The entries of an index that name repositories, read as git reads them with hashes of this length in bytes. Of a damaged index, the
/// entries before the damage. If an entry of a split index has no name, it replaces one of the other entries, so all names are returned.
fn gitlinks(bytes: &[u8], hash: usize) -> Vec<PathBuf> {
    let mut found = Links::default();
    if bytes.starts_with(b"DIRC")
        && let (Some(version @ 2..=4), Some(count)) = (number(bytes, 4), number(bytes, 8))
    {
        let mut at = 12;
        for _ in 0..count {
            match found.take(bytes, at, version, hash) {
                Some(next) => at = next,
                None => break,
            }
        }
    }
    if found.has_nameless { found.all } else { found.outward }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[derive(Default)]
struct Links {
    outward: Vec<PathBuf>,
    all: Vec<PathBuf>,
    has_nameless: bool,
    /// The name of the previous entry, from which version 4 takes the beginning of the next name.
    name: Vec<u8>,
}

impl Links {
    /// Reads the entry at `start`. Returns the position of the next entry; `None` if the index is damaged.
    fn take(&mut self, bytes: &[u8], start: usize, version: u32, hash: usize) -> Option<usize> {
        const STAT: usize = 40;
        const LONG: usize = 0xfff;
        let mode = number(bytes, start + 24)?;
        if !matches!(mode & 0o170_000, 0o100_000 | 0o120_000 | 0o160_000 | 0o040_000) {
            return None;
        }
        let flags = start + STAT + hash;
        let [high, low] = *bytes.get(flags..flags + 2)?.first_chunk::<2>()?;
        let mut length = usize::from(u16::from_be_bytes([high, low])) & LONG;
        let mut at = flags + if version >= 3 && high & 0x40 != 0 { 4 } else { 2 };
        let mut kept = 0;
        if version == 4 {
            let (cut, after) = varint(bytes, at)?;
            kept = self.name.len().checked_sub(cut)?;
            at = after;
        }
        if length == LONG {
            length = kept + bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
        }
        let own = length.checked_sub(kept)?;
        self.name.truncate(kept);
        self.name.extend_from_slice(bytes.get(at..at + own)?);
        let path = PathBuf::from(OsStr::from_bytes(&self.name));
        if mode == GITLINK {
            self.has_nameless |= self.name.is_empty();
            self.outward.push(path.clone());
        }
        self.all.push(path);
        let end = at + own;
        // In versions 2 and 3, zero bytes fill an entry up to a multiple of eight bytes.
        Some(if version == 4 { end + 1 } else { start + (end - start) / 8 * 8 + 8 })
    }
}

/// Returns a number in the encoding of version 4, and the position after it.
fn varint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut value = 0usize;
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
        value = value.checked_add(1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn git(dir: &Path, words: &[&str]) -> bool {
        let who = ["-c", "user.name=x", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
        let mut git = Command::new("git");
        git.args(who).args(words).current_dir(dir).env("HOME", dir).env("GIT_CONFIG_NOSYSTEM", "1");
        git.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn repository(dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        assert!(git(dir, &["init", "-q", "."]) && git(dir, &["commit", "-q", "--allow-empty", "-m", "x"]));
    }

    #[test]
    fn links_are_found_in_indexes_of_each_version() {
        let dir = tempfile::tempdir().unwrap();
        if !git(dir.path(), &["--version"]) {
            return;
        }
        for format in ["sha1", "sha256"] {
            let root = dir.path().join(format);
            fs::create_dir(&root).unwrap();
            assert!(git(&root, &["init", "-q", &format!("--object-format={format}"), "."]));
            for n in 0..40 {
                fs::write(root.join(format!("a-{}", "x".repeat(n))), "x").unwrap();
            }
            for link in ["sub", "a-deep/one", "z"] {
                let link = root.join(link);
                fs::create_dir_all(&link).unwrap();
                assert!(git(&link, &["init", "-q", &format!("--object-format={format}"), "."]));
                assert!(git(&link, &["commit", "-q", "--allow-empty", "-m", "x"]));
            }
            assert!(git(&root, &["add", "-A"]));
            for prepare in [
                &["update-index", "--index-version", "2"][..],
                &["update-index", "--index-version", "3"],
                &["update-index", "--index-version", "4"],
                &["update-index", "--split-index"],
                &["update-index", "--no-split-index"],
            ] {
                assert!(git(&root, prepare), "{prepare:?}");
                let found = links_of(&root.join(".git"));
                for link in ["a-deep/one", "sub", "z"] {
                    assert!(found.contains(&PathBuf::from(link)), "{format} {prepare:?}: {found:?}");
                }
                assert!(!found.contains(&PathBuf::from("a-x")), "{format} {prepare:?}: {found:?}");
            }
        }
        for bytes in [&b""[..], b"DIRC", b"DIRC\0\0\0\x02\0\0\0\x09", b"PACK\0\0\0\x02\0\0\0\0"] {
            assert!(gitlinks(bytes, 20).is_empty() && gitlinks(bytes, 32).is_empty(), "{bytes:?}");
        }
    }

    #[test]
    fn a_repository_that_names_a_program_is_not_entered_any_more() {
        let dir = tempfile::tempdir().unwrap();
        if !git(dir.path(), &["--version"]) {
            return;
        }
        let root = dir.path().canonicalize().unwrap().join("w");
        repository(&root);
        // A repository that the user made: it stays as it is.
        repository(&root.join("own"));
        assert!(git(&root.join("own"), &["config", "core.fsmonitor", "mine"]) && git(&root, &["add", "own"]));
        repository(&root.join("later"));
        let entered = || LinkedRepositories {
            write: vec![root.clone()],
            before: super::linked_repositories(std::slice::from_ref(&root))
                .into_iter()
                .map(|one| (one.key(), obeyed_state(&one)))
                .collect(),
            led_to: BTreeMap::new(),
        };
        let undone = |before: LinkedRepositories| {
            let mut lines = Vec::new();
            before.restore(&mut lines);
            lines
        };
        let before = entered();
        repository(&root.join("plain"));
        assert!(git(&root.join("plain"), &["remote", "add", "origin", "https://a.example/x"]));
        assert!(git(&root, &["add", "plain", "later"]));
        assert_eq!(undone(before), Vec::<String>::new());
        type Attack<'a> = &'a dyn Fn(&Path);
        let attacks: [Attack<'_>; 5] = [
            &|sub| assert!(git(sub, &["config", "core.fsmonitor", "pwn"])),
            &|sub| fs::write(sub.join(".git/hooks/post-index-change"), "pwn").unwrap(),
            &|sub| fs::write(sub.join(".git/commondir"), "../../evil\n").unwrap(),
            &|sub| fs::write(sub.join(".git/config"), "[include]\n\tpath = x\n").unwrap(),
            &|sub| {
                fs::rename(sub.join(".git"), sub.with_extension("data")).unwrap();
                assert!(git(
                    &sub.with_extension("data"),
                    &["config", "-f", "config", "core.sshCommand", "pwn"]
                ));
                fs::write(sub.join(".git"), format!("gitdir: {}\n", sub.with_extension("data").display()))
                    .unwrap();
            },
        ];
        for (n, attack) in attacks.iter().enumerate() {
            for place in [format!("new{n}"), format!("plain/deep{n}")] {
                let before = entered();
                let sub = root.join(&place);
                repository(&sub);
                assert!(
                    git(sub.parent().unwrap(), &["add", sub.file_name().unwrap().to_str().unwrap()]),
                    "{place}"
                );
                attack(&sub);
                let lines = undone(before);
                assert_eq!(lines.len(), 1, "{place}: {lines:?}");
                assert!(sub.join(".git.refused").exists() && !sub.join(".git").exists(), "{place}");
            }
        }
        assert!(root.join("own/.git").is_dir());
    }

    #[test]
    fn a_folder_does_not_become_a_repository_that_names_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let make = |name: &str, config: &str| {
            let root = root.join(name);
            fs::create_dir_all(root.join("refs/heads")).unwrap();
            let policy = LinkedRepositories {
                write: vec![root.clone()],
                before: BTreeMap::new(),
                led_to: BTreeMap::new(),
            };
            fs::create_dir_all(root.join("objects")).unwrap();
            fs::write(root.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(root.join("config"), config).unwrap();
            let mut lines = Vec::new();
            policy.restore(&mut lines);
            (lines.len(), root.join("HEAD").exists())
        };
        assert_eq!(make("evil", "[core]\n\tworktree = .\n\tfsmonitor = pwn\n"), (1, false));
        assert_eq!(make("plain", "[core]\n\tbare = true\n"), (0, true));
        // A folder `.git` without a `HEAD` does not keep git from using the folder as a bare repository.
        fs::create_dir_all(root.join("beside/.git/hooks")).unwrap();
        assert_eq!(make("beside", "[core]\n\tworktree = .\n\tfsmonitor = pwn\n"), (1, false));
        let point = |name: &str, config: &str, is_link: bool| {
            let (root, data) = (root.join(name), root.join(name).join("build/c"));
            fs::create_dir_all(&data).unwrap();
            let before = LinkedRepositories {
                write: vec![root.clone()],
                before: BTreeMap::new(),
                led_to: BTreeMap::new(),
            };
            fs::write(data.join("config"), config).unwrap();
            if is_link {
                std::os::unix::fs::symlink("build/c", root.join(".git")).unwrap();
            } else {
                fs::write(root.join(".git"), "gitdir: ./build/c\n").unwrap();
            }
            let mut lines = Vec::new();
            before.restore(&mut lines);
            (lines.len(), root.join(".git").symlink_metadata().is_ok())
        };
        for (n, is_link) in [false, true].into_iter().enumerate() {
            let evil = "[core]\n\tfsmonitor = pwn\n";
            assert_eq!(point(&format!("file{n}"), evil, is_link), (1, false), "{is_link}");
            let plain = "[core]\n\tbare = false\n";
            assert_eq!(point(&format!("fine{n}"), plain, is_link), (0, true), "{is_link}");
        }
    }

    /// A command can put any name into an index that it writes itself.
    #[test]
    fn no_name_of_an_index_leads_out_of_the_work_tree() {
        let dir = tempfile::tempdir().unwrap();
        if !git(dir.path(), &["--version"]) {
            return;
        }
        let base = dir.path().canonicalize().unwrap();
        let (root, other) = (base.join("w"), base.join("other"));
        repository(&other);
        assert!(git(&other, &["config", "core.fsmonitor", "mine"]));
        repository(&root);
        let before = LinkedRepositories {
            write: vec![root.clone()],
            before: BTreeMap::new(),
            led_to: BTreeMap::new(),
        };
        std::os::unix::fs::symlink("../other", root.join("link")).unwrap();
        let mut index = b"DIRC\0\0\0\x02\0\0\0\x03".to_vec();
        for name in ["../other", "link", other.to_str().unwrap()] {
            let start = index.len();
            index.extend([0; 24]);
            index.extend(GITLINK.to_be_bytes());
            index.extend([0; 12 + 20]);
            index.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            index.extend(name.as_bytes());
            index.extend(std::iter::repeat_n(0, 8 - (index.len() - start) % 8));
        }
        fs::write(root.join(".git/index"), index).unwrap();
        assert!(links_of(&root.join(".git")).contains(&PathBuf::from("../other")));
        let mut lines = Vec::new();
        before.restore(&mut lines);
        assert_eq!(lines, Vec::<String>::new());
        assert!(other.join(".git/config").exists());
    }
}
