//! Reads files that becket opens by itself: rules, settings, git's own files, ignore files.
//!
//! Owns one promise: reading such a file ends. A repository can put a named pipe, a device, a socket, a folder or a file of many gigabytes
//! under any name that becket looks for. An ordinary `open` waits until somebody writes into a pipe, and `/dev/zero` never ends.
//!
//! Invariants:
//! - Only regular files are opened. Symbolic links are followed; the target must be regular.
//! - Opening and reading never wait: files stay in non-blocking mode, so that a file of `/proc` that waits for
//!   events returns an error.
//! - Every read has a limit in bytes, which the caller names.
//!
//! [`dir`] also writes: files that becket creates or restores in directories where somebody else can create links. [`private`] writes
//! becket's own files. [`temporary`] names files that are about to replace others.
//!
//! Does not decide if a file may be read. Tools that read a path which the model named use `becket_tool::paths`, which also refuses links.

pub mod dir;
pub mod private;
mod sys;
pub mod temporary;

use rustix::fs::OFlags;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Maximum size in bytes of a file with ignore rules.
pub const MAX_IGNORE_BYTES: u64 = 1 << 20;

/// Opens a regular file for reading, without waiting.
///
/// # Errors
///
/// Fails with `IsADirectory` for a folder, with `InvalidInput` for a pipe, socket or device, and like
/// [`File::open`] otherwise.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // Opening a device can have side effects, so the kind of the file is checked before. It is checked again after opening, because the
    // file may have been replaced in between.
    regular(std::fs::metadata(path)?.file_type())?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let meta = file.metadata()?;
    regular(meta.file_type())?;
    Ok((file, meta))
}

fn regular(kind: FileType) -> io::Result<()> {
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder, not a file"));
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

/// True for the errors of [`open`] about a file that is not regular.
pub fn is_special(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::InvalidInput)
}

/// Returns the content of a regular file of at most `max` bytes.
///
/// # Errors
///
/// Fails like [`open`], and with `FileTooLarge` if the file is larger.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let (bytes, size) = read_start(path, max)?;
    if size > max {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {max} bytes")));
    }
    Ok(bytes)
}

/// Returns the first `max` bytes of a regular file, and the size of the whole file in bytes.
///
/// # Errors
///
/// Fails like [`open`], or if reading fails.
pub fn read_start(path: &Path, max: u64) -> io::Result<(Vec<u8>, u64)> {
    let (file, meta) = open(path)?;
    let mut bytes = Vec::new();
    // The reported size of a file that the kernel generates is 0, and any file can grow while it is read. So one byte more than the limit
    // is read: it shows that there is more.
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    let size = meta.len().max(bytes.len() as u64);
    bytes.truncate(usize::try_from(max).unwrap_or(usize::MAX));
    Ok((bytes, size))
}

/// Returns the text of a regular file of at most `max` bytes.
///
/// # Errors
///
/// Fails like [`read`], and with `InvalidData` if the content is not UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    String::from_utf8(read(path, max)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// True if the library that walks folders can safely read the ignore rules of this folder: each file is missing, or a regular file of at
/// most [`MAX_IGNORE_BYTES`]. A link must lead to another file of ignore rules. If it led to any other file, the files that the walk hides
/// would reveal parts of its text.
///
/// The library opens these files itself, and would wait for a pipe.
pub fn ignore_rules_are_plain(dir: &Path) -> bool {
    const NAMES: [&str; 5] = [".gitignore", ".ignore", ".git", ".git/info/exclude", ".git/commondir"];
    NAMES.iter().all(|name| is_plain(&dir.join(name))) && directory_of_git_is_plain(dir)
}

fn is_plain(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => meta.len() <= MAX_IGNORE_BYTES && !leads_to_another_kind(path),
        // A folder under this name does no harm: the library cannot read it as a file.
        Ok(meta) => meta.is_dir(),
        // The library cannot open the file either, and continues without it.
        Err(_) => true,
    }
}

/// Does the same check for the directories of git that a `.git` file names: the library follows the file to its directory, and from there
/// to the common one.
fn directory_of_git_is_plain(dir: &Path) -> bool {
    let line = |path: &Path| {
        let text = read_text(path, MAX_IGNORE_BYTES).ok()?;
        text.lines().next().map(str::to_owned)
    };
    let Some(named) = line(&dir.join(".git")) else { return true };
    // The library resolves a relative name from the working directory of the process, git from `dir`. Both are examined.
    let Some(named) = named.strip_prefix("gitdir:").map(str::trim) else { return true };
    [dir.join(named), Path::new(named).to_path_buf()].iter().all(|git_dir| {
        let common = git_dir.join("commondir");
        is_plain(&common)
            && line(&common).is_none_or(|common| is_plain(&git_dir.join(common).join("info/exclude")))
    })
}

/// True if a path is a link to something else than ignore rules: to a file with another name, or to a generated file. Some generated files
/// wait for events although they look regular.
fn leads_to_another_kind(path: &Path) -> bool {
    path.is_symlink()
        && path.canonicalize().is_ok_and(|real| {
            let is_generated = ["/proc", "/sys", "/dev"].iter().any(|dir| real.starts_with(dir));
            let name = real.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            is_generated || !(name.contains("ignore") || path.file_name() == real.file_name())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn fifo(path: &Path) {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fifo(&at("fifo"));
        let _listener = UnixListener::bind(at("socket")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        for (name, target) in [
            ("zero", "/dev/zero"),
            ("tty", "/dev/tty"),
            ("to-fifo", "fifo"),
            ("to-folder", "folder"),
            ("loop", "loop"),
            ("absent", "nothing"),
            ("to-file", "file"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        for (name, want) in [
            ("fifo", "it is a named pipe, not a regular file"),
            ("to-fifo", "it is a named pipe, not a regular file"),
            ("socket", "it is a socket, not a regular file"),
            ("zero", "it is a device, not a regular file"),
            ("tty", "it is a device, not a regular file"),
            ("folder", "it is a folder, not a file"),
            ("to-folder", "it is a folder, not a file"),
        ] {
            for error in [open(&at(name)).unwrap_err(), read_text(&at(name), 9).unwrap_err()] {
                assert_eq!(error.to_string(), want, "{name}");
                assert!(is_special(&error), "{name}");
            }
        }
        for name in ["loop", "absent", "file/x"] {
            assert!(!is_special(&open(&at(name)).unwrap_err()), "{name}");
        }
        for name in ["file", "to-file"] {
            assert_eq!(read_text(&at(name), 4).unwrap(), "text", "{name}");
        }
    }

    #[test]
    fn a_read_ends_at_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (content, max, want) in [
            (&b""[..], 0, Ok("")),
            (b"", 9, Ok("")),
            (b"abc", 3, Ok("abc")),
            (b"abc", 2, Err(ErrorKind::FileTooLarge)),
            (b"a\xff", 9, Err(ErrorKind::InvalidData)),
            (b"a\0", 9, Ok("a\0")),
        ] {
            std::fs::write(&path, content).unwrap();
            let got = read_text(&path, max).map_err(|error| error.kind());
            assert_eq!(got.as_deref(), want.as_ref().copied(), "{content:?} {max}");
        }
        // A sparse file of a terabyte costs no more than the limit.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read_start(&path, 3).unwrap(), (vec![0; 3], 1 << 40));
        assert_eq!(read(&path, 1 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
        // Files of the kernel have size 0 and content.
        assert!(!read(Path::new("/proc/self/stat"), 1 << 16).unwrap().is_empty());
    }

    #[test]
    fn ignore_rules_must_be_plain_files() {
        type Make = fn(&Path);
        let write: Make = |path| std::fs::write(path, "x\n").unwrap();
        let folder: Make = |path| std::fs::create_dir(path).unwrap();
        let zero: Make = |path| symlink("/dev/zero", path).unwrap();
        let generated: Make = |path| symlink("/proc/self/stat", path).unwrap();
        let absent: Make = |path| symlink("absent", path).unwrap();
        let linked: Make = |path| {
            std::fs::write(path.with_file_name(".eslintignore"), "x\n").unwrap();
            symlink(".eslintignore", path).unwrap();
        };
        let secret: Make = |path| {
            std::fs::write(path.with_file_name("id_rsa"), "x\n").unwrap();
            symlink("id_rsa", path).unwrap();
        };
        let pointer: Make = |path| {
            let git_dir = path.with_file_name("data");
            std::fs::create_dir(&git_dir).unwrap();
            std::fs::write(path, format!("gitdir: {}\n", git_dir.display())).unwrap();
        };
        let pointer_to_fifo: Make = |path| {
            std::fs::create_dir(path.with_file_name("data")).unwrap();
            std::fs::write(path, "gitdir: data\n").unwrap();
            fifo(&path.with_file_name("data").join("commondir"));
        };
        let pointer_to_fifo_in_common: Make = |path| {
            let common = path.with_file_name("common");
            std::fs::create_dir_all(common.join("info")).unwrap();
            std::fs::create_dir(path.with_file_name("data")).unwrap();
            std::fs::write(path, "gitdir: data\n").unwrap();
            std::fs::write(path.with_file_name("data").join("commondir"), "../common\n").unwrap();
            fifo(&common.join("info/exclude"));
        };
        let huge: Make = |path| File::create(path).unwrap().set_len(1 << 30).unwrap();
        for (name, make, want) in [
            (".gitignore", write, true),
            (".gitignore", absent, true),
            (".gitignore", folder, true),
            (".gitignore", linked, true),
            (".ignore", linked, true),
            (".gitignore", secret, false),
            (".ignore", secret, false),
            (".gitignore", generated, false),
            (".gitignore", fifo, false),
            (".gitignore", zero, false),
            (".gitignore", huge, false),
            (".ignore", fifo, false),
            (".ignore", write, true),
            (".git", write, true),
            (".git", folder, true),
            (".git", pointer, true),
            (".git", pointer_to_fifo, false),
            (".git", pointer_to_fifo_in_common, false),
            (".git/info/exclude", secret, false),
            (".git", fifo, false),
            (".git", huge, false),
            (".git/info/exclude", write, true),
            (".git/info/exclude", fifo, false),
            (".git/info/exclude", zero, false),
            (".git/commondir", fifo, false),
            ("other", fifo, true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            make(&path);
            assert_eq!(ignore_rules_are_plain(dir.path()), want, "{name}");
        }
    }
}
