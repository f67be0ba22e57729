//! Metadata that an edit keeps: mode with its set-id bits, owner, access lists, attributes, other names. Also
//! files that cannot be written: owned by others, in sticky directories, immutable, on full and read-only
//! file systems.
//!
//! Some cases need root, a mount or `chattr`. If these are unavailable, the case says so on stderr and is
//! skipped.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use becket_tool::testing::{env, run};
use becket_tool::{ToolEnv, sha256};
use becket_types::ToolOutput;
use rustix::fs::XattrFlags;
use serde_json::json;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const NOBODY: u32 = 65534;

fn call(env: &ToolEnv, tool: &str, input: serde_json::Value) -> ToolOutput {
    let tool = becket_tool_edit::tools().into_iter().find(|t| t.spec().name == tool).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(run(&*tool, env, input))
}

fn edit(env: &ToolEnv, name: &str) -> ToolOutput {
    let path = env.cwd.join(name);
    let bytes = std::fs::read(&path).unwrap_or_default();
    env.host.note_content(&path, &sha256(&bytes), bytes);
    call(env, "edit", json!({"path": name, "old": "one", "new": "two"}))
}

fn patch(env: &ToolEnv, body: &str) -> ToolOutput {
    call(env, "apply_patch", json!({"patch": format!("*** Begin Patch\n{body}*** End Patch\n")}))
}

fn put(dir: &Path, name: &str, mode: u32) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, "one\n").unwrap();
    chmod(&path, mode);
    path
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "left out here: {what}");
}

/// Runs the test `name` of this file once more, in another way: in `dir`, which it finds in its environment.
fn again(command: &mut Command, name: &str, dir: &Path) {
    let output = command.env("FAITHFUL_DIR", dir).args(["--exact", name, "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
    let _ = write!(std::io::stderr(), "{said}");
}

/// A copy of this program where everybody may run it.
fn program(dir: &Path) -> PathBuf {
    let copy = dir.join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    chmod(&copy, 0o755);
    copy
}

fn again_dir() -> Option<PathBuf> {
    std::env::var_os("FAITHFUL_DIR").map(PathBuf::from)
}

#[test]
fn every_bit_of_the_mode_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (env, _) = env(dir.path());
    for bits in [0o644, 0o600, 0o755, 0o4755, 0o2755, 0o6711, 0o1644, 0o7777] {
        let name = format!("f{bits:o}");
        let path = put(&env.cwd, &name, bits);
        assert_eq!(mode(&path), bits);
        let output = edit(&env, &name);
        assert!(!output.is_error, "{bits:o}: {}", output.content);
        assert_eq!((mode(&path), std::fs::read(&path).unwrap()), (bits, b"two\n".to_vec()), "{bits:o}");
        // A file with a second name is written in place, so that both names keep the same file.
        std::fs::write(&path, "one\n").unwrap();
        chmod(&path, bits);
        let second = env.cwd.join(format!("{name}-too"));
        std::fs::hard_link(&path, &second).unwrap();
        assert!(!edit(&env, &name).is_error);
        assert_eq!((mode(&second), std::fs::read(&second).unwrap()), (bits, b"two\n".to_vec()), "{bits:o}");
        std::fs::remove_file(&second).unwrap();
        let output = patch(&env, &format!("*** Update File: {name}\n*** Move to: to/{name}\n-two\n+three\n"));
        assert!(!output.is_error, "{bits:o}: {}", output.content);
        let moved = env.cwd.join("to").join(&name);
        assert_eq!((mode(&moved), std::fs::read(&moved).unwrap()), (bits, b"three\n".to_vec()), "{bits:o}");
    }
}

/// An access list: read for another user, by number.
fn access_list(user: u32) -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 4, user), (4, 0, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)];
    let mut out = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(rights.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let size = rustix::fs::getxattr(path, name, value.as_mut_slice()).ok()?;
    Some(value[..size].to_vec())
}

#[test]
fn access_lists_and_attributes_stay_and_none_come() {
    const LIST: &str = "system.posix_acl_access";
    let dir = tempfile::tempdir().unwrap();
    let (env, _) = env(dir.path());
    let path = put(&env.cwd, "f", 0o640);
    let set = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(path, name, value, XattrFlags::empty()).is_ok()
    };
    if !set(&path, LIST, &access_list(1234)) || !set(&path, "user.note", b"kept") {
        return skip("access lists and attributes: this file system has none");
    }
    let kept = |path: &Path| (attribute(path, LIST), attribute(path, "user.note"), mode(path));
    let before = kept(&path);
    assert!(before.0.is_some() && before.1.is_some());
    assert!(!edit(&env, "f").is_error);
    assert_eq!(kept(&path), before);
    assert!(!patch(&env, "*** Update File: f\n*** Move to: g\n-two\n+one\n").is_error);
    assert_eq!(kept(&env.cwd.join("g")), before);
    // The directory's defaults for new files do not apply to an existing one.
    let plain = put(&env.cwd, "plain", 0o640);
    assert!(set(&env.cwd, "system.posix_acl_default", &access_list(4321)));
    assert!(!edit(&env, "plain").is_error);
    assert_eq!((attribute(&plain, LIST), mode(&plain)), (None, 0o640));
    assert!(!edit(&env, "g").is_error);
    assert_eq!(kept(&env.cwd.join("g")), before);
    // A file that `write` makes has the same mode and lists as any new file there.
    assert!(!call(&env, "write", json!({"path": "new", "content": "x"})).is_error);
    std::fs::write(env.cwd.join("other"), "x").unwrap();
    assert_eq!(kept(&env.cwd.join("new")), kept(&env.cwd.join("other")));
}

#[test]
fn files_of_others_stay_theirs() {
    if let Some(dir) = again_dir() {
        return as_nobody(&dir);
    }
    if !is_root() {
        return skip("files of others: this needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    chmod(dir.path(), 0o755);
    let program = program(dir.path());
    let room = |name: &str, owner: u32, bits: u32| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        chmod(&path, bits);
        path
    };
    let file = |dir: &Path, name: &str, owner: u32, bits: u32| {
        let path = put(dir, name, bits);
        chown(&path, Some(owner), Some(owner)).unwrap();
        chmod(&path, bits);
    };
    let theirs = room("theirs", NOBODY, 0o755);
    file(&theirs, "root-644", 0, 0o644);
    file(&theirs, "root-666", 0, 0o666);
    file(&theirs, "root-4777", 0, 0o4777);
    file(&theirs, "own-4755", NOBODY, 0o4755);
    std::fs::hard_link(theirs.join("own-4755"), theirs.join("own-4755-too")).unwrap();
    let sticky = room("sticky", 0, 0o1777);
    file(&sticky, "root-666", 0, 0o666);
    file(&sticky, "own-644", NOBODY, 0o644);
    let closed = room("closed", 0, 0o755);
    file(&closed, "own-644", NOBODY, 0o644);
    file(&closed, "root-644", 0, 0o644);
    again(Command::new(program).uid(NOBODY).gid(NOBODY), "files_of_others_stay_theirs", dir.path());
    for (path, owner, bits) in [
        ("theirs/root-644", 0, 0o644),
        ("theirs/root-666", 0, 0o666),
        ("theirs/root-4777", 0, 0o4777),
        ("theirs/own-4755", NOBODY, 0o4755),
        ("sticky/root-666", 0, 0o666),
        ("sticky/own-644", NOBODY, 0o644),
        ("closed/own-644", NOBODY, 0o644),
    ] {
        let path = dir.path().join(path);
        assert_eq!((path.metadata().unwrap().uid(), mode(&path)), (owner, bits), "{}", path.display());
    }
}

fn as_nobody(dir: &Path) {
    for (name, want) in [
        ("theirs/root-644", Some("permission denied")),
        ("theirs/root-666", None),
        ("theirs/root-4777", Some("are lost")),
        ("theirs/own-4755", None),
        ("sticky/root-666", None),
        ("sticky/own-644", None),
        ("closed/own-644", None),
        ("closed/root-644", Some("permission denied")),
    ] {
        let (env, _) = env(dir);
        let before = std::fs::read_dir(dir.join(name).parent().unwrap()).unwrap().count();
        let output = edit(&env, name);
        let now = std::fs::read_to_string(dir.join(name)).unwrap();
        match want {
            None => assert!(!output.is_error && now == "two\n", "{name}: {}", output.content),
            Some(want) => {
                assert!(output.is_error && output.content.contains(want), "{name}: {}", output.content);
                assert!(
                    output.content.to_lowercase().contains("nothing was changed"),
                    "{name}: {}",
                    output.content
                );
                assert_eq!(now, "one\n", "{name}");
            }
        }
        assert_eq!(std::fs::read_dir(dir.join(name).parent().unwrap()).unwrap().count(), before, "{name}");
    }
    // A file of somebody else in a sticky directory can be written to, not taken away; and not moved with its owner.
    let (env, _) = env(dir);
    for (body, why) in [
        ("*** Delete File: sticky/root-666\n", "not permitted|ermission denied"),
        ("*** Update File: theirs/root-666\n*** Move to: theirs/moved\n", "cannot be moved with its owner"),
        ("*** Add File: closed/new\n+x\n", "ermission denied"),
    ] {
        let output = patch(&env, body);
        assert!(
            output.is_error && why.split('|').any(|why| output.content.contains(why)),
            "{body}{}",
            output.content
        );
    }
    assert!(dir.join("sticky/root-666").exists() && dir.join("theirs/root-666").exists());
    assert!(!dir.join("theirs/moved").exists() && !dir.join("closed/new").exists());
}

#[test]
fn an_immutable_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (env, _) = env(dir.path());
    let path = put(&env.cwd, "f", 0o644);
    let chattr = |sign: &str| {
        Command::new("chattr").arg(sign).arg(&path).output().is_ok_and(|output| output.status.success())
    };
    if !chattr("+i") {
        return skip("immutable files: no chattr here, or no right to use it");
    }
    let outputs = [edit(&env, "f"), patch(&env, "*** Delete File: f\n")];
    let names = std::fs::read_dir(&env.cwd).unwrap().count();
    assert!(chattr("-i"));
    for output in outputs {
        assert!(output.is_error && output.content.contains("could not be written"), "{}", output.content);
    }
    assert_eq!((std::fs::read(&path).unwrap(), names), (b"one\n".to_vec(), 1));
}

/// Runs in a mount namespace of its own, so that no mount is left on the machine.
#[test]
fn full_and_read_only_file_systems_are_refused() {
    if let Some(dir) = again_dir() {
        return on_a_small_file_system(&dir);
    }
    let dir = tempfile::tempdir().unwrap();
    let program = program(dir.path());
    let room = dir.path().join("mount");
    std::fs::create_dir(&room).unwrap();
    let mount = "mount -t tmpfs -o size=64k becket-test \"$FAITHFUL_DIR\"";
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(&program).env("FAITHFUL_DIR", &room);
        command
    };
    if !unshare(mount).output().is_ok_and(|output| output.status.success()) {
        return skip("full and read-only file systems: no right to mount");
    }
    for how in [
        // The disk is full, or nearly: a temporary file can be created, but its content does not fit.
        "head -c 57344 /dev/zero > big; ! echo x > over 2>/dev/null; rm -f over",
        "head -c 53248 /dev/zero > big",
        "mount -o remount,ro becket-test .",
    ] {
        let script = format!(
            "set -e; {mount}; cd \"$FAITHFUL_DIR\"; printf 'one\\n' > f; printf 'one\\n' > linked; ln linked second; {how}; exec \"$0\" \"$@\""
        );
        let mut command = unshare(&script);
        again(&mut command, "full_and_read_only_file_systems_are_refused", &room);
    }
}

fn on_a_small_file_system(dir: &Path) {
    let (env, _) = env(dir);
    let names = || std::fs::read_dir(dir).unwrap().count();
    let before = names();
    let big = "x".repeat(30_000);
    for name in ["f", "linked"] {
        let bytes = b"one\n".to_vec();
        env.host.note_content(&env.cwd.join(name), &sha256(&bytes), bytes);
        let output = call(&env, "edit", json!({"path": name, "old": "one", "new": big}));
        let why = ["disk is full", "file system is read-only"];
        assert!(output.is_error && why.iter().any(|why| output.content.contains(why)), "{}", output.content);
        assert_eq!(std::fs::read(dir.join(name)).unwrap(), b"one\n", "{name}");
    }
    let output = call(&env, "write", json!({"path": "deep/er/new", "content": big}));
    assert!(output.is_error, "{}", output.content);
    let output = patch(&env, &format!("*** Update File: f\n-one\n+two\n*** Add File: new\n+{big}\n"));
    assert!(output.is_error, "{}", output.content);
    assert_eq!((std::fs::read(dir.join("f")).unwrap(), names()), (b"one\n".to_vec(), before));
}
