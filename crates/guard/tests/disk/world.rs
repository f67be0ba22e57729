//! A workspace on disk beside a folder outside and a home folder, and a guard that looks at them.

use becket_guard::{Files, Guard, GuardSettings, Rules, Verdict};
use becket_types::{Access, PermissionMode};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct Disk;

impl Files for Disk {
    fn entries(&self, dir: &Path) -> io::Result<Vec<(String, bool)>> {
        fs::read_dir(dir)?
            .map(|entry| {
                let entry = entry?;
                Ok((entry.file_name().into_string().unwrap(), entry.path().is_dir()))
            })
            .collect()
    }
    fn text(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }
}

/// Resolves links as the kernel does; parts of the path that do not exist keep their names.
pub(crate) fn walk(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => _ = out.pop(),
            Component::Normal(name) => {
                out.push(name);
                out = out.canonicalize().unwrap_or(out);
            }
            _ => {}
        }
    }
    out
}

/// A workspace `w` beside a folder `out` and a home folder, deleted when dropped.
pub(crate) struct World(pub(crate) PathBuf);

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl World {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("becket-guard-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().canonicalize().unwrap().join(name);
        for dir in ["w/src/deep", "w/docs", "w/p", "out/dir", "home/.ssh", "bin"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        for (path, text) in [
            ("w/a.txt", "hello\n"),
            ("w/b.txt", "b\n"),
            ("w/k.txt", "keep\n"),
            ("w/src/main.rs", "fn main() {}\n"),
            ("w/src/deep/x.rs", "// foo\n"),
            ("w/docs/server.md", "x\n"),
            ("w/server.pem", "SECRET\n"),
            ("w/README.md", "# x\n"),
            ("w/Cargo.toml", "[package]\n"),
            ("w/package.json", "{\"scripts\": {}}\n"),
            ("out/n.txt", "OUTSIDE\n"),
            ("out/dir/m.txt", "OUTSIDE\n"),
            ("home/.ssh/id_rsa", "KEY\n"),
            ("home/.bashrc", "rc\n"),
        ] {
            fs::write(root.join(path), text).unwrap();
        }
        let pwn = root.join("bin/pwn");
        // Quoted: the temporary folder may have spaces in its name.
        let ran = root.join("out/ran").display().to_string().replace('\'', r"'\''");
        fs::write(&pwn, format!("#!/bin/sh\necho ran >> '{ran}'\n")).unwrap();
        fs::set_permissions(&pwn, fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(&pwn, root.join("w/evil")).unwrap();
        Self(root)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn guard(&self, allow: &[&str], mode: PermissionMode) -> Guard {
        Guard::new(GuardSettings {
            rules: Rules::parse(allow, &[], &[]).unwrap(),
            mode,
            roots: vec![self.path("w")],
            home: self.path("home"),
            own: Vec::new(),
        })
        .with_resolver(Arc::new(walk))
        .with_files(Arc::new(Disk))
    }

    pub(crate) fn git(&self, words: &[&str]) {
        let mut git = Command::new("git");
        git.args(words).current_dir(self.path("w")).env("HOME", self.path("home"));
        assert!(git.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success(), "{words:?}");
    }

    pub(crate) fn repository(&self) {
        self.git(&["init", "-q", "-b", "main", "."]);
        self.git(&["add", "-A"]);
        self.git(&["-c", "user.name=x", "-c", "user.email=a@b", "commit", "-qm", "i"]);
    }

    /// Runs a command as the shell tool does, with the variables that the guard asks for.
    pub(crate) fn run(&self, guard: &Guard, command: &str) {
        let _ = self.command(guard, &["timeout", "10"], command).status();
    }

    /// A command as the shell tool starts it, after the words of a launcher.
    pub(crate) fn command(&self, guard: &Guard, launcher: &[&str], command: &str) -> Command {
        let pinned = guard.variables(&Access::execute(command)).iter().copied();
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let mut bash = Command::new(launcher[0]);
        bash.args(&launcher[1..]).args(["bash", "-c", command]).current_dir(self.path("w"));
        bash.env_clear().env("PATH", path).env("HOME", self.path("home")).envs(pinned);
        bash.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        bash
    }

    /// Every file with its content, every link with its target.
    pub(crate) fn state(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut out = BTreeMap::new();
        let mut todo = vec![self.0.clone()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = path.symlink_metadata().unwrap();
                if meta.is_dir() {
                    todo.push(path.clone());
                    out.insert(path, Vec::new());
                } else if meta.is_symlink() {
                    let target = path.read_link().unwrap().into_os_string().into_encoded_bytes();
                    out.insert(path, target);
                } else {
                    let text = fs::read(&path).unwrap();
                    out.insert(path, text);
                }
            }
        }
        out
    }
}

pub(crate) fn verdict(guard: &Guard, command: &str) -> Verdict {
    guard.check("bash", &Access::execute(command), &Value::Null)
}

pub(crate) fn allowed(guard: &Guard, command: &str) -> bool {
    matches!(verdict(guard, command), Verdict::Allow { .. })
}

pub(crate) fn there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}
