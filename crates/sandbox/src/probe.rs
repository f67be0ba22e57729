//! The self-test of a backend: a process that is confined like a command tries actions that must fail, and one that must succeed. Their
//! effects are also checked from outside.

use crate::backend::Backend;
use crate::policy::{Network, Policy};
use crate::request::{PROBE, Request, WORD};
use crate::stage::{SIGNAL, Stage};
use crate::sys;
use becket_types::SandboxLevel;
use std::ffi::OsString;
use std::io::Read as _;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A backend whose self-test takes longer is not used.
const PATIENCE: Duration = Duration::from_secs(2);

/// First ABI version of Landlock that keeps commands from sending signals to processes outside.
pub(crate) const SIGNALS_ABI: u32 = 6;

/// The last word in the output of a test that ran to its end.
const END: &str = "end";

/// The passed self-test of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfTest {
    /// Number of forbidden actions that failed, as they must.
    pub forbidden: usize,
    pub took: Duration,
}

/// Runs inside the confinement: tries all forbidden actions. Prints the numbers of the actions that succeeded.
pub(crate) fn inside(words: impl Iterator<Item = OsString>) -> (u8, String) {
    let Some(stage) = Stage::from_words(words) else { return (1, "the self-test has no stage".to_owned()) };
    let mut out: Vec<String> = Vec::new();
    for (number, (_, succeeds)) in sys::ATTEMPTS.iter().enumerate() {
        if succeeds(&stage) {
            out.push(number.to_string());
        }
    }
    if std::fs::write(stage.inside("file"), "x").is_ok() {
        out.push(END.to_owned());
    }
    let printed = rustix::io::write(rustix::stdio::stdout(), out.join(" ").as_bytes());
    (u8::from(printed.is_err()), String::new())
}

/// The services outside of the confinement that the test must not reach.
struct Services {
    tcp: Vec<TcpListener>,
    udp: Option<UdpSocket>,
    unix: Vec<UnixListener>,
}

impl Services {
    /// True if a connection or message has arrived at one of the services.
    fn was_reached(&self) -> bool {
        self.tcp.iter().any(|tcp| tcp.accept().is_ok())
            || self.udp.as_ref().is_some_and(|udp| udp.recv(&mut [0; 1]).is_ok())
            || self.unix.iter().any(|unix| unix.accept().is_ok())
    }
}

fn prepare(dir: &Path) -> std::io::Result<(Stage, Services)> {
    let process = i32::try_from(std::process::id()).unwrap_or_default();
    let mut stage = Stage::new(dir, process);
    let files = ["file", "removed", "moved"].map(|name| stage.outside(name));
    for file in files.iter().chain([&stage.hidden(), &stage.protected()]) {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(file, "as it was")?;
    }
    std::fs::create_dir(stage.inside(""))?;
    let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    // The machine may have no IPv6, and the path may be too long for a socket.
    let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).ok();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok();
    let port = |address: std::io::Result<std::net::SocketAddr>| address.map_or(0, |address| address.port());
    stage.ports = [
        port(v4.local_addr()),
        v6.as_ref().map_or(0, |v6| port(v6.local_addr())),
        udp.as_ref().map_or(0, |udp| port(udp.local_addr())),
    ];
    let unix = UnixListener::bind(stage.outside("socket")).ok().into_iter();
    let unix: Vec<UnixListener> = unix.chain(sys::abstract_listener(&stage.abstract_name())).collect();
    let tcp: Vec<TcpListener> = [Some(v4), v6].into_iter().flatten().collect();
    for one in &tcp {
        one.set_nonblocking(true)?;
    }
    for one in &unix {
        one.set_nonblocking(true)?;
    }
    if let Some(udp) = &udp {
        udp.set_nonblocking(true)?;
    }
    Ok((stage, Services { tcp, udp, unix }))
}

/// Runs the self-test of `backend` with `program` as the helper, in a new folder below `temp`. `Err` says what failed.
pub(crate) fn test(backend: &Backend, program: &Path, temp: &Path) -> Result<SelfTest, String> {
    let begun = Instant::now();
    let failed = |e: std::io::Error| format!("the self-test could not be prepared: {e}");
    let dir = tempfile::Builder::new().prefix("becket-test-").tempdir_in(temp).map_err(failed)?;
    let base = dir.path().canonicalize().map_err(failed)?;
    let (stage, services) = prepare(&base).map_err(failed)?;
    let all = || vec![PathBuf::from("/")];
    let parent = |path: &Path| path.parent().map(Path::to_path_buf).into_iter().collect::<Vec<_>>();
    let policy = Policy {
        level: SandboxLevel::Workspace,
        read: all(),
        execute: all(),
        write: vec![base.join("work")],
        deny_read: parent(&stage.hidden()),
        deny_write: parent(&stage.protected()),
        network: Network::Off,
        ..Policy::default()
    };
    let request = Request {
        backend: backend.clone(),
        policy,
        program: program.to_path_buf(),
        group: None,
        proxy: None,
        mounted: Vec::new(),
    };
    let child = Command::new(program)
        .arg(WORD)
        .args(request.words()?)
        .arg(program)
        .args([WORD, PROBE])
        .arg(&base)
        .arg(stage.word())
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let printed = output(child)?;
    let is_old = matches!(backend, Backend::Landlock { abi } if *abi < SIGNALS_ABI);
    let counts = |name: &str| !(is_old && name == SIGNAL);
    let succeeded: Vec<&str> = printed
        .split_whitespace()
        .filter_map(|number| sys::ATTEMPTS.get(number.parse::<usize>().ok()?))
        .map(|(name, _)| *name)
        .filter(|name| counts(name))
        .collect();
    if !succeeded.is_empty() {
        return Err(format!("in its self-test a command could {}", succeeded.join(", and ")));
    }
    // The output comes from inside the confinement, so its claims are checked from outside as far as possible.
    check(&stage, &services, &printed)?;
    Ok(SelfTest {
        forbidden: sys::ATTEMPTS.iter().filter(|(name, _)| counts(name)).count(),
        took: begun.elapsed(),
    })
}

fn check(stage: &Stage, services: &Services, printed: &str) -> Result<(), String> {
    let is_as_before = |file: PathBuf| std::fs::read_to_string(file).is_ok_and(|text| text == "as it was");
    let files = ["file", "removed", "moved"].map(|name| stage.outside(name));
    let is_new = |name: &str| stage.outside(name).symlink_metadata().is_ok();
    if !files.into_iter().all(is_as_before) || ["new", "folder", "own"].iter().any(|name| is_new(name)) {
        return Err("in its self-test a write outside was not stopped".to_owned());
    }
    if !is_as_before(stage.protected()) {
        return Err("in its self-test a protected file was changed".to_owned());
    }
    if services.was_reached() {
        return Err("in its self-test a connection was not stopped".to_owned());
    }
    if !printed.ends_with(END) || !stage.inside("file").exists() {
        return Err("in its self-test a write inside failed".to_owned());
    }
    Ok(())
}

/// Waits for the test process. Returns what it printed; `Err` is its complaint.
fn output(mut child: Child) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("the self-test could not be prepared: {e}");
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
    let (mut printed, mut said) = (String::new(), String::new());
    if let Some(stdout) = child.stdout.take() {
        let _ = stdout.take(4_096).read_to_string(&mut printed);
    }
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(4_096).read_to_string(&mut said);
    }
    let said = said.trim();
    match status.code() {
        Some(0) => Ok(printed),
        _ if said.is_empty() => Err(format!("its self-test ended with {status}")),
        // bubblewrap appends a hint where to read more, which is cut off.
        _ => Err(said.split(" See <").next().unwrap_or(said).chars().take(200).collect()),
    }
}
