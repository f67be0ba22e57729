//! Resolving, comparing and opening paths safely.
//!
//! Owns this for every tool. A path is resolved once to a canonical path (no `.`, `..`, symbolic links). The guard decides about
//! the canonical path. Opening that path fails if a component of it has been replaced by a link in the meantime.
//!
//! Invariants:
//! - Paths that do not exist are resolved too: existing components are followed, the rest keep their names.
//! - Pipes, sockets, devices, `/sys`, and all of `/proc` except a list are refused before they are opened.
//!
//! Knows no permission rule and does not read HOME: `~` is an ordinary name.

use crate::sys;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links in one path; the same as the kernel's limit.
const MAX_LINKS: usize = 40;
/// Maximum length of a path in bytes; the same as the kernel's limit.
const MAX_BYTES: usize = 4_096;

/// The reason why a path cannot be used. The text is for the model.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error("The path is empty.")]
    Empty,
    #[error("The path contains a NUL character.")]
    Nul,
    #[error("The path is too long: {0} bytes; at most 4096 can be a path.")]
    TooLong(usize),
    #[error("{}: more than 40 symbolic links on the way; probably a loop.", .0.display())]
    Loop(PathBuf),
    #[error("{} does not exist.", .0.display())]
    NotFound(PathBuf),
    #[error("{} is a directory.", .0.display())]
    Directory(PathBuf),
    #[error("{} is a {what}, not a regular file; it was not opened.", .path.display())]
    Special { path: PathBuf, what: &'static str },
    #[error("{} is refused: {why}. It was not opened.", .path.display())]
    Refused { path: PathBuf, why: &'static str },
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl PathError {
    fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    /// True if the file, or a folder on the way to it, does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}

enum Step {
    Root(OsString),
    Up,
    Down(OsString),
}

fn steps(path: &Path) -> impl DoubleEndedIterator<Item = Step> {
    path.components().filter_map(|c| match c {
        Component::CurDir => None,
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::RootDir | Component::Prefix(_) => Some(Step::Root(c.as_os_str().to_owned())),
    })
}

/// Resolves `path` against the absolute path `base`, following every symbolic link component by component,
/// like the kernel. Components that do not exist keep their names, so the target of a write can be judged
/// before it exists.
///
/// # Errors
///
/// Fails if the path is empty, too long, has too many links, or cannot be examined.
pub fn resolve(base: &Path, path: &Path) -> Result<PathBuf, PathError> {
    if path.as_os_str().is_empty() {
        return Err(PathError::Empty);
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(PathError::Nul);
    }
    if path.as_os_str().len() > MAX_BYTES {
        return Err(PathError::TooLong(path.as_os_str().len()));
    }
    let whole = base.join(path);
    let mut todo: VecDeque<Step> = steps(&whole).collect();
    let mut out = PathBuf::new();
    let mut links = 0;
    while let Some(step) = todo.pop_front() {
        let name = match step {
            Step::Root(root) => {
                out.push(root);
                continue;
            }
            Step::Up => {
                out.pop();
                continue;
            }
            Step::Down(name) => name,
        };
        out.push(name);
        match out.symlink_metadata() {
            Ok(meta) if meta.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(PathError::Loop(whole));
                }
                let target = out.read_link().map_err(|e| PathError::io(&out, e))?;
                out.pop();
                for step in steps(&target).rev() {
                    todo.push_front(step);
                }
            }
            Ok(_) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            // If a component cannot be examined, it may be a link to anywhere. Refusing is the safe choice.
            Err(source) => return Err(PathError::Io { path: out, source }),
        }
    }
    Ok(out)
}

/// True if the resolved `path` is one of the canonical `roots` or inside one. Compares components: `/a/bc` is
/// not inside `/a/b`.
pub fn is_inside(roots: &[PathBuf], path: &Path) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// Files of `/proc` that describe the machine, and that can be read without blocking, side effects or secrets.
const OF_MACHINE: &[&str] = &[
    "cpuinfo",
    "meminfo",
    "version",
    "loadavg",
    "uptime",
    "stat",
    "vmstat",
    "filesystems",
    "swaps",
    "partitions",
    "diskstats",
    "modules",
    "devices",
    "interrupts",
    "sys",
    "pressure",
];
/// Files in a process's folder of `/proc` that can be read without blocking, side effects or secrets.
const OF_PROCESS: &[&str] = &[
    "status",
    "stat",
    "statm",
    "limits",
    "cgroup",
    "mountinfo",
    "mounts",
    "comm",
    "io",
    "maps",
    "smaps_rollup",
    "oom_score",
    "task",
    "net",
];

/// Returns the reason why a resolved path is never opened, regardless of permissions. Under `/proc` and
/// `/sys`, reading can block forever, have side effects, or reveal memory and environment variables. Only
/// files that are known to do none of this may be read.
pub fn refusal(path: &Path) -> Option<&'static str> {
    if path.starts_with("/sys") && path != Path::new("/sys") {
        return Some("it belongs to the kernel and its devices");
    }
    let rest = path.strip_prefix("/proc").ok()?;
    let parts: Vec<&str> = rest.iter().filter_map(|p| p.to_str()).collect();
    let (first, last) = (*parts.first()?, *parts.last()?);
    let of_process = first.bytes().all(|b| b.is_ascii_digit()) || matches!(first, "self" | "thread-self");
    if !of_process {
        let known = OF_MACHINE.contains(&first);
        return (!known).then_some("it is kernel memory or a setting of the kernel");
    }
    // `/proc/7` itself is only a folder, and listing it is harmless.
    let second = parts.get(1)?;
    match last {
        "environ" => Some("it is the environment of a process, where keys and tokens are"),
        "mem" | "pagemap" | "auxv" | "stack" | "syscall" | "clear_refs" | "personality" => {
            Some("it is the memory of a process")
        }
        _ if !OF_PROCESS.contains(second) => Some("it reaches into a running process"),
        // `/proc/7/task/9/…` has the same files for one thread of the process.
        _ if *second == "task" && parts.get(3).is_some_and(|p| !OF_PROCESS.contains(p)) => {
            Some("it reaches into a running process")
        }
        _ => None,
    }
}

/// Returns the metadata of a resolved path.
///
/// # Errors
///
/// Fails if nothing exists there, or if it may not be opened.
pub fn inspect(path: &Path) -> Result<Metadata, PathError> {
    if let Some(why) = refusal(path) {
        return Err(PathError::Refused { path: path.to_owned(), why });
    }
    let meta = path.symlink_metadata().map_err(|e| PathError::io(path, e))?;
    check(path, &meta)?;
    Ok(meta)
}

fn check(path: &Path, meta: &Metadata) -> Result<(), PathError> {
    if meta.is_symlink() {
        let why = "it became a symbolic link after its path was resolved";
        return Err(PathError::Refused { path: path.to_owned(), why });
    }
    match sys::special(meta.file_type()) {
        Some(what) => Err(PathError::Special { path: path.to_owned(), what }),
        None => Ok(()),
    }
}

/// Opens a regular file at a resolved path for reading. It is checked before and after opening, and opening
/// does not block. The size in the metadata may be 0 for files that the kernel generates (`/proc/cpuinfo`).
///
/// # Errors
///
/// Fails if the path is not a regular file, may not be opened, or was replaced by a link.
pub fn open_file(path: &Path) -> Result<(File, Metadata), PathError> {
    let before = inspect(path)?;
    if before.is_dir() {
        return Err(PathError::Directory(path.to_owned()));
    }
    open_listed(path)
}

/// Like [`open_file`], for a path that a directory listing has just reported as a regular file. It is checked
/// only once, after opening; opening follows no link and does not block.
///
/// # Errors
///
/// Fails for the same reasons as [`open_file`].
pub fn open_listed(path: &Path) -> Result<(File, Metadata), PathError> {
    if let Some(why) = refusal(path) {
        return Err(PathError::Refused { path: path.to_owned(), why });
    }
    let file = sys::open_read(path).map_err(|e| PathError::io(path, e))?;
    let meta = file.metadata().map_err(|e| PathError::io(path, e))?;
    check(path, &meta)?;
    if meta.is_dir() {
        return Err(PathError::Directory(path.to_owned()));
    }
    Ok((file, meta))
}

/// Returns up to three full paths that a missing path may have meant, best first. They are taken from the
/// nearest existing directory. At most 10,000 of its names are compared.
pub fn suggestions(path: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str())) else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(parent) else {
        // The directory does not exist either, so its name may be the mistake.
        return suggestions(parent)
            .into_iter()
            .map(|dir| dir.join(name))
            .filter(|p| p.symlink_metadata().is_ok())
            .collect();
    };
    let names: Vec<String> =
        entries.take(10_000).flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    crate::text::nearest_few(name, names.iter().map(String::as_str), 3)
        .into_iter()
        .map(|n| parent.join(n))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    fn forest() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for d in ["in/a/b", "in2", "out"] {
            std::fs::create_dir_all(root.join(d)).unwrap();
        }
        std::fs::write(root.join("in/a/file"), "x").unwrap();
        std::fs::write(root.join("out/secret"), "x").unwrap();
        symlink("../out", root.join("in/away")).unwrap();
        symlink("a/b", root.join("in/near")).unwrap();
        symlink(root.join("out/new"), root.join("in/dangling")).unwrap();
        symlink("loop2", root.join("in/loop1")).unwrap();
        symlink("loop1", root.join("in/loop2")).unwrap();
        (dir, root)
    }

    #[test]
    fn resolution_table() {
        let (_dir, root) = forest();
        let base = root.join("in");
        for (path, want, inside) in [
            ("a/file", "in/a/file", true),
            (".", "in", true),
            ("a/./b/../file", "in/a/file", true),
            ("missing/x/../y", "in/missing/y", true),
            ("near/../file", "in/a/file", true), // the kernel goes up from a/b, not from in
            ("away/secret", "out/secret", false),
            ("away/not-yet/deep", "out/not-yet/deep", false),
            ("dangling", "out/new", false),
            ("missing/../away/secret", "out/secret", false),
            ("../in2/x", "in2/x", false),
            ("a/file/below", "in/a/file/below", true),
        ] {
            let got = resolve(&base, Path::new(path)).unwrap();
            assert_eq!(got, root.join(want), "{path}");
            assert_eq!(is_inside(std::slice::from_ref(&base), &got), inside, "{path}");
        }
    }

    #[test]
    fn what_cannot_be_resolved_says_why() {
        let (_dir, root) = forest();
        let base = root.join("in");
        assert!(matches!(resolve(&base, Path::new("")), Err(PathError::Empty)));
        assert!(matches!(resolve(&base, Path::new("a\0b")), Err(PathError::Nul)));
        assert!(matches!(resolve(&base, Path::new("loop1/x")), Err(PathError::Loop(_))));
    }

    #[test]
    fn special_files_are_refused_before_they_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let fifo = root.join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.join("sock")).unwrap();
        let pid = std::process::id();
        for (path, want) in [
            (fifo, "named pipe"),
            (root.join("sock"), "socket"),
            (PathBuf::from("/dev/zero"), "character device"),
            (PathBuf::from(format!("/proc/{pid}/environ")), "environment of a process"),
            (PathBuf::from(format!("/proc/{pid}/task/{pid}/environ")), "environment of a process"),
            (PathBuf::from(format!("/proc/{pid}/mem")), "memory of a process"),
            (PathBuf::from(format!("/proc/{pid}/fd/0")), "reaches into a running process"),
            (PathBuf::from("/proc/kcore"), "kernel memory"),
            (PathBuf::from("/proc/kmsg"), "setting of the kernel"),
            (PathBuf::from(format!("/proc/{pid}/cmdline")), "reaches into a running process"),
            (PathBuf::from(format!("/proc/{pid}/task/{pid}/fd/0")), "reaches into a running process"),
            (PathBuf::from("/sys/kernel/tracing/trace_pipe"), "belongs to the kernel"),
            (root.clone(), "is a directory"),
            (root.join("none"), "does not exist"),
        ] {
            let error = open_file(&path).unwrap_err().to_string();
            assert!(error.contains(want), "{}: {error}", path.display());
        }
        assert_eq!(
            resolve(&root, Path::new("/proc/self/environ")).unwrap(),
            PathBuf::from(format!("/proc/{pid}/environ"))
        );
        for path in ["/proc/cpuinfo", "/proc/self/status", "/proc/sys/kernel/osrelease"] {
            let path = resolve(&root, Path::new(path)).unwrap();
            assert!(open_file(&path).is_ok(), "{}", path.display());
        }
    }

    #[test]
    fn a_link_put_in_after_resolution_is_not_followed() {
        let (_dir, root) = forest();
        let path = resolve(&root, Path::new("in/a/file")).unwrap();
        std::fs::remove_dir_all(root.join("in/a")).unwrap();
        std::fs::create_dir(root.join("out/a")).unwrap();
        std::fs::write(root.join("out/a/file"), "secret").unwrap();
        symlink(root.join("out/a"), root.join("in/a")).unwrap();
        assert!(open_file(&path).is_err());
    }

    #[test]
    fn missing_names_bring_the_nearest() {
        let (_dir, root) = forest();
        assert_eq!(suggestions(&root.join("in/a/fiel")), [root.join("in/a/file")]);
        assert_eq!(suggestions(&root.join("inn/a")), [root.join("in/a")]);
        assert!(suggestions(&root.join("in/a/zzzzzzzzz")).is_empty());
    }

    proptest! {
        #[test]
        fn a_resolved_path_is_canonical_and_stays_what_it_is(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just(".."), Just("."), Just("a"), Just("b"), Just("away"), Just("near"), Just("file"),
                    Just("dangling"), Just("new"), Just("secret"),
                ], 1..8)
        ) {
            let (_dir, root) = forest();
            let base = root.join("in");
            let path: PathBuf = parts.iter().collect();
            let got = resolve(&base, &path).unwrap();
            prop_assert!(got.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_))));
            prop_assert_eq!(&resolve(&base, &got).unwrap(), &got);
            if let Ok(real) = base.join(&path).canonicalize() {
                prop_assert_eq!(&got, &real);
            }
        }
    }
}
