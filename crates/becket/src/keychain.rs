//! The system's keychain, through the program that the system has for it: `secret-tool` on Linux, `security` on macOS.
//!
//! Owns finding that program, and saving, reading and removing one key. Invariants: a key is in the program's input or
//! output and never among its arguments, which others on this machine can see. No call waits longer than [`PATIENCE`].

use crate::environment::Environment;
use becket_model::{NoKey, Secret, TokenSource};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::Mutex;

/// Longest time for the program. It may ask the user to unlock the keychain, in a window that nobody sees.
const PATIENCE: Duration = Duration::from_secs(15);
/// The reason if the program ends without a key and without words.
const NO_KEY: &str = "it has no such key";
/// The service under which all keys of becket are saved.
const SERVICE: &str = "becket";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SecretTool,
    Security,
}

#[derive(Clone, Debug)]
pub(crate) struct Keychain {
    kind: Kind,
    program: PathBuf,
    patience: Duration,
}

impl Keychain {
    /// Returns the keychain of this session.
    ///
    /// # Errors
    ///
    /// Returns the reason if the session has no keychain.
    pub(crate) fn from_environment(environment: &Environment) -> Result<Self, String> {
        if std::env::consts::OS == "macos" {
            let program = PathBuf::from("/usr/bin/security");
            return Ok(Self { kind: Kind::Security, program, patience: PATIENCE });
        }
        let socket = environment.var("XDG_RUNTIME_DIR").map(|dir| Path::new(dir).join("bus"));
        if environment.var("DBUS_SESSION_BUS_ADDRESS").is_none() && !socket.is_some_and(|path| path.exists())
        {
            return Err("this session has no D-Bus".to_owned());
        }
        let path = environment.var("PATH").unwrap_or_default();
        let program = crate::program_lookup::find_on("secret-tool", path.as_ref())
            .ok_or("secret-tool is not installed")?;
        Ok(Self { kind: Kind::SecretTool, program, patience: PATIENCE })
    }

    /// Saves a key under `name`, and reads it back to be sure that it is there.
    pub(crate) fn save(&self, name: &str, key: &str) -> Result<(), String> {
        let label = format!("becket: {name}");
        match self.kind {
            Kind::SecretTool => {
                let arguments = ["store", "--label", &label, "service", SERVICE, "account", name];
                self.run(&arguments, key)?;
            }
            Kind::Security => {
                // With `-i`, `security` reads its command from its input, so the key is not among its arguments. The
                // key is in hexadecimal, so it needs no quotes.
                let mut hex = String::with_capacity(key.len() * 2);
                for byte in key.bytes() {
                    let _ = write!(hex, "{byte:02x}");
                }
                let line =
                    format!("add-generic-password -U -s {SERVICE} -a \"{name}\" -l \"{label}\" -X {hex}\n");
                self.run(&["-i"], &line)?;
            }
        }
        match self.read(name) {
            Ok(saved) if saved == key => Ok(()),
            Ok(_) => Err("it returned a different key than the saved one".to_owned()),
            Err(why) => Err(why),
        }
    }

    pub(crate) fn read(&self, name: &str) -> Result<String, String> {
        let found = match self.kind {
            Kind::SecretTool => self.run(&["lookup", "service", SERVICE, "account", name], ""),
            Kind::Security => self.run(&["find-generic-password", "-s", SERVICE, "-a", name, "-w"], ""),
        };
        match found.map_err(|why| self.reason(name, why))?.trim() {
            "" => Err(NO_KEY.to_owned()),
            key => Ok(key.to_owned()),
        }
    }

    /// Removes a key. A key that is not there counts as removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), String> {
        let removed = match self.kind {
            Kind::SecretTool => self.run(&["clear", "service", SERVICE, "account", name], ""),
            Kind::Security => self.run(&["delete-generic-password", "-s", SERVICE, "-a", name], ""),
        };
        match removed.map_err(|why| self.reason(name, why)) {
            Err(why) if why != NO_KEY && !why.contains("could not be found") => Err(why),
            _ => Ok(()),
        }
    }

    /// Returns the reason of a failure. `secret-tool` says the same about a locked keychain as about a missing key: nothing.
    fn reason(&self, name: &str, why: String) -> String {
        if why != NO_KEY || self.kind != Kind::SecretTool {
            return why;
        }
        // The search finds a key without its text, also in a locked keychain.
        let found = self.run(&["search", "service", SERVICE, "account", name], "");
        if found.is_ok_and(|found| !found.trim().is_empty()) { "it is locked".to_owned() } else { why }
    }

    /// Runs the program and returns its output. Its errors are passed on, but never its output.
    fn run(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut child = Command::new(&self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{} did not start: {e}", self.program.display()))?;
        let id = child.id();
        let (sender, receiver) = mpsc::channel();
        let input = input.to_owned();
        std::thread::spawn(move || {
            if let Some(mut stdin) = child.stdin.take() {
                // A program that has refused reads nothing; its exit code says why.
                let _ = stdin.write_all(input.as_bytes());
            }
            let _ = sender.send(child.wait_with_output());
        });
        let output = match receiver.recv_timeout(self.patience) {
            Ok(output) => output.map_err(|e| format!("{} broke off: {e}", self.program.display()))?,
            Err(_) => {
                crate::sys::kill(id);
                return Err(format!(
                    "it did not answer within {} s, so it may be locked",
                    self.patience.as_secs()
                ));
            }
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = becket_print::clean(said.trim().lines().next().unwrap_or_default()).into_owned();
        Err(if said.is_empty() { NO_KEY.to_owned() } else { said })
    }
}

/// The keychain for tokens of MCP servers. Its program is looked for at each use.
#[derive(Clone, Debug)]
pub(crate) struct OnDemand(pub Environment);

impl becket_mcp::oauth::KeyStore for OnDemand {
    fn save(&self, name: &str, secret: &str) -> Result<(), String> {
        Keychain::from_environment(&self.0)?.save(name, secret)
    }

    fn read(&self, name: &str) -> Result<String, String> {
        Keychain::from_environment(&self.0)?.read(name)
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        Keychain::from_environment(&self.0)?.remove(name)
    }
}

/// Returns the source of a key that is saved under `name`. The keychain is read with the first request.
pub(crate) fn source(environment: &Environment, provider: &str, name: &str) -> TokenSource {
    let keychain = Keychain::from_environment(environment);
    let held: Arc<Mutex<Option<Secret>>> = Arc::default();
    let (provider, name) = (provider.to_owned(), name.to_owned());
    TokenSource::new(move |refused| {
        let (keychain, held, provider, name) =
            (keychain.clone(), Arc::clone(&held), provider.clone(), name.clone());
        Box::pin(async move {
            let mut held = held.lock().await;
            if let Some(key) = held.as_ref().filter(|_| !refused) {
                return Ok(key.clone());
            }
            let read = match keychain {
                Ok(keychain) => tokio::task::spawn_blocking(move || keychain.read(&name))
                    .await
                    .unwrap_or_else(|_| Err("it could not be read".to_owned())),
                Err(why) => Err(why),
            };
            let key = read.map_err(|why| NoKey {
                why: format!("the key is in the system's keychain: {why}"),
                hint: format!(
                    "Unlock the keychain, or save the key in a file: becket login {provider} --file."
                ),
            })?;
            let key = Secret::new(key);
            *held = Some(key.clone());
            Ok(key)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Returns a keychain whose program is the shell script `script`.
    fn keychain(dir: &Path, kind: Kind, script: &str) -> Keychain {
        let program = dir.join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Keychain { kind, program, patience: Duration::from_millis(200) }
    }

    #[test]
    fn a_keychain_that_does_not_work_says_why() {
        let dir = tempfile::tempdir().unwrap();
        for (script, want) in [
            ("cat >/dev/null; echo 'secret-tool: Cannot autolaunch D-Bus' >&2; exit 1", "Cannot autolaunch"),
            ("cat >/dev/null; exit 1", "it has no such key"),
            ("cat >/dev/null; case $1 in lookup) exit 1;; search) echo '[/1]';; esac", "it is locked"),
            ("exit 0", "it has no such key"),
            ("cat >/dev/null; echo other", "a different key"),
            ("exec sleep 60", "may be locked"),
        ] {
            let keychain = keychain(dir.path(), Kind::SecretTool, script);
            let said = keychain.save("groq", "gsk_hidden").unwrap_err();
            assert!(said.contains(want) && !said.contains("hidden"), "{script}: {said}");
        }
    }

    #[test]
    fn a_key_is_never_an_argument() {
        let dir = tempfile::tempdir().unwrap();
        for (kind, stored) in [(Kind::SecretTool, "key-1"), (Kind::Security, "6b65792d31")] {
            let (log, input) = (dir.path().join("log"), dir.path().join("input"));
            let script = format!(
                "echo \"$@\" >> '{}'\ncase \"$1\" in lookup|find-*) echo key-1;; *) cat > '{}';; esac",
                log.display(),
                input.display()
            );
            let keychain = keychain(dir.path(), kind, &script);
            keychain.save("groq@127.0.0.1:80", "key-1").unwrap();
            assert!(std::fs::read_to_string(&input).unwrap().contains(stored), "{kind:?}");
            keychain.remove("groq@127.0.0.1:80").unwrap();
            let log = std::fs::read_to_string(&log).unwrap();
            assert!(!log.contains("key-1") && !log.contains("6b65"), "{log}");
        }
    }

    #[test]
    fn a_session_without_a_bus_or_the_program_has_no_keychain() {
        let dir = tempfile::tempdir().unwrap();
        let of = |vars: &[(&str, &str)]| {
            let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Keychain::from_environment(&Environment { vars, ..Environment::below(dir.path()) }).map(|_| ())
        };
        if std::env::consts::OS == "macos" {
            return;
        }
        let path = dir.path().to_str().unwrap();
        assert_eq!(of(&[("PATH", path)]), Err("this session has no D-Bus".to_owned()));
        let bus = ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");
        assert_eq!(of(&[bus, ("PATH", path)]), Err("secret-tool is not installed".to_owned()));
        let program = dir.path().join("secret-tool");
        std::fs::write(&program, "").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(of(&[bus, ("PATH", path)]), Ok(()));
        assert_eq!(of(&[bus, ("PATH", ".")]), Err("secret-tool is not installed".to_owned()));
    }
}
