//! The self-test of a backend: a process that is confined like a command tries actions that must fail. Their effects are also
//! checked from outside.

use crate::backend::Backend;
use crate::policy::{Network, Policy};
use crate::request::{PROBE, Request, WORD};
use becket_types::SandboxLevel;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A backend whose self-test takes longer is not used.
const PATIENCE: Duration = Duration::from_secs(2);

const WROTE_OUTSIDE: u8 = 1;
const READ_HIDDEN: u8 = 2;
const CONNECTED: u8 = 4;
const COULD_NOT_WRITE_INSIDE: u8 = 8;

fn places(dir: &Path) -> (PathBuf, PathBuf, PathBuf) {
    (dir.join("outside/file"), dir.join("hidden/secret"), dir.join("work/file"))
}

/// Runs inside the confinement: tries all forbidden actions. The exit code says which of them were not prevented.
pub(crate) fn inside(mut words: impl Iterator<Item = OsString>) -> u8 {
    let dir = PathBuf::from(words.next().unwrap_or_default());
    let port = words.next().and_then(|port| port.to_str()?.parse().ok()).unwrap_or(0);
    let (outside, hidden, work) = places(&dir);
    let mut out = 0;
    if std::fs::write(outside, "x").is_ok() {
        out |= WROTE_OUTSIDE;
    }
    if std::fs::read(hidden).is_ok() {
        out |= READ_HIDDEN;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    if TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok() {
        out |= CONNECTED;
    }
    if std::fs::write(work, "x").is_err() {
        out |= COULD_NOT_WRITE_INSIDE;
    }
    out
}

/// Runs the self-test of `backend` with `program` as the helper, in a new folder below `temp`. `Err` says what failed.
pub(crate) fn test(backend: &Backend, program: &Path, temp: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("the self-test could not be prepared: {e}");
    let dir = tempfile::Builder::new().prefix("becket-test-").tempdir_in(temp).map_err(failed)?;
    let base = dir.path().canonicalize().map_err(failed)?;
    let (outside, hidden, work) = places(&base);
    for folder in [&outside, &hidden, &work].into_iter().filter_map(|path| path.parent()) {
        std::fs::create_dir(folder).map_err(failed)?;
    }
    std::fs::write(&hidden, "secret").map_err(failed)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let all = || vec![PathBuf::from("/")];
    let parent = |path: &Path| path.parent().map(Path::to_path_buf).into_iter().collect::<Vec<_>>();
    let policy = Policy {
        level: SandboxLevel::Workspace,
        read: all(),
        execute: all(),
        write: parent(&work),
        devices: Vec::new(),
        deny_read: parent(&hidden),
        deny_write: Vec::new(),
        protected: Vec::new(),
        deny_execute: Vec::new(),
        network: Network::Off,
    };
    let request = Request {
        backend: backend.clone(),
        policy,
        program: program.to_path_buf(),
        group: None,
        proxy: None,
        mounted: Vec::new(),
    };
    let mut child = Command::new(program)
        .arg(WORD)
        .args(request.words()?)
        .arg(program)
        .args([WORD, PROBE])
        .arg(&base)
        .arg(port.to_string())
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("its self-test took longer than {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let said = child.wait_with_output().map(|out| out.stderr).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).trim().chars().take(200).collect::<String>();
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let verdict = match code {
        Some(0) => Ok(()),
        Some(code) if code < 16 => Err(in_words(code)),
        _ if said.is_empty() => Err(format!("its self-test ended with {status}")),
        _ => Err(said),
    };
    // The exit code comes from inside the confinement, so its claims are checked from here as far as possible.
    if outside.exists() {
        return Err(in_words(WROTE_OUTSIDE));
    }
    if listener.accept().is_ok() {
        return Err(in_words(CONNECTED));
    }
    if verdict.is_ok() && !work.exists() {
        return Err(in_words(COULD_NOT_WRITE_INSIDE));
    }
    verdict
}

fn in_words(code: u8) -> String {
    let all = [
        (WROTE_OUTSIDE, "a write outside was not stopped"),
        (READ_HIDDEN, "a hidden file could be read"),
        (CONNECTED, "a connection was not stopped"),
        (COULD_NOT_WRITE_INSIDE, "a write inside failed"),
    ];
    let failed: Vec<&str> = all.iter().filter(|(bit, _)| code & bit != 0).map(|(_, text)| *text).collect();
    format!("in its self-test {}", failed.join(", and "))
}
