//! A scratch machine: a workspace, a home folder with secrets, a folder outside, listeners, and a process to attack.

use becket_network::HostRules;
use becket_sandbox::{Backend, BackendKind, Network, PolicyInputs, Sandbox, SandboxSettings};
use becket_types::SandboxLevel;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Text of the secret files. It must be in no output of a confined command.
pub(crate) const SECRET: &str = "TOP-SECRET";
/// Text of the user's other private files. It must be in no output at the read-only level.
pub(crate) const PRIVATE: &str = "PRIVATE-NOTES";
/// Printed by an attack that succeeded.
pub(crate) const DONE: &str = "DID-IT";

pub(crate) struct Ground {
    _dir: TempDir,
    pub(crate) base: PathBuf,
    pub(crate) sandbox: Arc<Sandbox>,
    v4: TcpListener,
    v6: Option<TcpListener>,
    udp: UdpSocket,
    unix: UnixListener,
    victim: Child,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// The grounds of all backends that work here; says which do not.
pub(crate) fn grounds() -> Vec<(BackendKind, Ground)> {
    let mut out = Vec::new();
    for kind in [BackendKind::Bubblewrap, BackendKind::Landlock] {
        let ground = Ground::new(Some(kind));
        match ground.sandbox.backend(SandboxLevel::Workspace) {
            Backend::None { why } => println!("skipped for {kind:?}: {why}"),
            _ => out.push((kind, ground)),
        }
    }
    out
}

/// Environment variable with the helper's path, if the helper is not where it was built.
pub(crate) const HELPER: &str = "BECKET_TEST_HELPER";

pub(crate) fn program() -> PathBuf {
    std::env::var_os(HELPER).map_or_else(|| env!("CARGO_BIN_EXE_sandbox-test-helper").into(), PathBuf::from)
}

fn write(path: PathBuf, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

impl Ground {
    pub(crate) fn new(only: Option<BackendKind>) -> Self {
        Self::with_network(only, Network::Off, &[])
    }

    /// A ground with this network policy. `allow`: hosts that commands reach through the proxy.
    pub(crate) fn with_network(only: Option<BackendKind>, network: Network, allow: &[String]) -> Self {
        // Not below /tmp alone: what is there must be hidden by the policy and not by chance.
        let dir = tempfile::Builder::new().prefix("ground-").tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let at = |name: &str| base.join(name);
        write(at("home/.ssh/id_rsa"), SECRET);
        write(at("home/.aws/credentials"), SECRET);
        write(at("home/store/session.jsonl"), SECRET);
        write(at("home/notes.txt"), PRIVATE);
        write(at("outside/victim.txt"), "as it was");
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("outside/pipe"), mode).unwrap();
        write(at("ws/a.txt"), "hello from the workspace\n");
        write(at("ws/.env"), &format!("KEY={SECRET}"));
        write(at("ws/sub/deep.key"), SECRET);
        write(at("ws/sub/b.txt"), "b\n");
        write(at("ws/.git/HEAD"), "ref: refs/heads/main\n");
        write(at("ws/.git/config"), "[core]\n");
        write(at("ws/.git/hooks/pre-commit"), "#!/bin/sh\n");
        write(at("ws/.git/modules/lib/HEAD"), "ref: refs/heads/main\n");
        write(at("ws/.git/modules/lib/config"), "[core]\n\tworktree = ../../../lib\n");
        write(at("ws/prog"), "#!/bin/sh\necho DID-IT\n");
        std::fs::set_permissions(at("ws/prog"), std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink(at("home/.ssh/id_rsa"), at("ws/link-secret")).unwrap();
        symlink(at("outside"), at("ws/link-out")).unwrap();
        std::fs::create_dir(at("temp")).unwrap();
        let mut secrets = vec![at("home/.ssh"), at("home/.aws")];
        secrets.extend(["/etc/shadow", "/etc/gshadow"].map(PathBuf::from));
        let found = vec![at("ws/.env"), at("ws/sub/deep.key")];
        let own = vec![at("home/store")];
        let sandbox = Arc::new(Sandbox::new(SandboxSettings {
            program: program(),
            inputs: PolicyInputs {
                roots: vec![at("ws")],
                secrets,
                becket_dirs: own,
                network,
                ..PolicyInputs::default()
            },
            find_secrets: Arc::new(move |_| found.clone()),
            refresh: None,
            search: Vec::new(),
            temp: vec![at("temp")],
            only,
            hosts: HostRules::new(allow, &[]).unwrap(),
        }));
        let victim = Command::new("sleep")
            .arg("3600")
            .env("VICTIMS_SECRET", SECRET)
            .current_dir(at("home/.ssh"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let listener = |address: &str| {
            let listener = TcpListener::bind(address).ok()?;
            listener.set_nonblocking(true).unwrap();
            Some(listener)
        };
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let unix = UnixListener::bind(at("outside/sock")).unwrap();
        unix.set_nonblocking(true).unwrap();
        Self {
            v4: listener("127.0.0.1:0").unwrap(),
            v6: listener("[::1]:0"),
            udp,
            unix,
            victim,
            sandbox,
            base,
            _dir: dir,
        }
    }

    /// True if the backend keeps signals from processes outside: a namespace of processes does, and Landlock since version 6.
    pub(crate) fn bounds_signals(&self, level: SandboxLevel) -> bool {
        match self.sandbox.backend(level) {
            Backend::Bubblewrap { .. } => true,
            Backend::Landlock { abi } => *abi >= 6,
            Backend::None { .. } => false,
        }
    }

    /// Runs a script of bash in the workspace.
    pub(crate) fn run(&self, level: SandboxLevel, script: &str) -> Output {
        let confined = self.sandbox.confine(level, None).unwrap();
        let temp = [("TMPDIR".into(), confined.temp.into_os_string())];
        self.run_after(&confined.words, &temp, script)
    }

    /// Runs a script of bash in the workspace, with these words before it and these variables.
    pub(crate) fn run_after(
        &self,
        words: &[OsString],
        variables: &[(OsString, OsString)],
        script: &str,
    ) -> Output {
        self.command(words, variables, script).output().unwrap()
    }

    /// The command of [`Ground::run_after`], not yet started.
    pub(crate) fn command(
        &self,
        words: &[OsString],
        variables: &[(OsString, OsString)],
        script: &str,
    ) -> Command {
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(["bash", "-c", script])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.base.join("home"))
            .envs(variables.iter().map(|(key, value)| (key, value)))
            .env("OUT", self.base.join("outside"))
            .env("WS", self.base.join("ws"))
            .env("BASE", &self.base)
            .env("VICTIM", self.victim.id().to_string())
            .env("V4", port(&self.v4))
            .env("V6", self.v6.as_ref().map_or_else(|| "1".to_owned(), port))
            .env("UDP", self.udp.local_addr().unwrap().port().to_string())
            .current_dir(self.base.join("ws"))
            .stdin(Stdio::null());
        command
    }

    /// The port of the listener on `127.0.0.1`.
    pub(crate) fn port(&self) -> u16 {
        self.v4.local_addr().unwrap().port()
    }

    /// True if anybody has reached a listener since the last call of this function.
    pub(crate) fn was_reached(&self) -> bool {
        let mut bytes = [0; 8];
        self.v4.accept().is_ok()
            || self.v6.as_ref().is_some_and(|v6| v6.accept().is_ok())
            || self.udp.recv(&mut bytes).is_ok()
            || self.unix.accept().is_ok()
    }

    /// Like [`Ground::victim_lives`], after a signal that was certainly sent has had time to arrive.
    pub(crate) fn victim_lives_on(&mut self) -> bool {
        let until = std::time::Instant::now() + std::time::Duration::from_millis(300);
        while std::time::Instant::now() < until && self.victim_lives() {
            std::thread::yield_now();
        }
        self.victim_lives()
    }

    pub(crate) fn victim_lives(&mut self) -> bool {
        self.victim.try_wait().unwrap().is_none()
    }

    /// Everything below `places`: kind, permissions, owner and content.
    pub(crate) fn fingerprint(&self, places: &[&str]) -> BTreeMap<PathBuf, String> {
        let mut out = BTreeMap::new();
        for place in places {
            look(&self.base.join(place), &mut out);
        }
        out
    }
}

fn look(path: &Path, out: &mut BTreeMap<PathBuf, String>) {
    let Ok(meta) = path.symlink_metadata() else { return };
    let mut text = format!("{:o} {} {} {}", meta.mode(), meta.uid(), meta.nlink(), meta.mtime());
    if meta.is_file() {
        text.push_str(&String::from_utf8_lossy(&std::fs::read(path).unwrap()));
    } else if meta.is_symlink() {
        text.push_str(&std::fs::read_link(path).unwrap().to_string_lossy());
    }
    out.insert(path.to_path_buf(), text);
    if meta.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            look(&entry.unwrap().path(), out);
        }
    }
}
