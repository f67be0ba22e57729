//! The forbidden actions of the self-test. Each returns true if it succeeded.
//!
//! They are tried inside a confinement, against a stage that the test prepares outside. None of them harms a machine on which
//! nothing confines them: they touch only the stage, and the process that made it.

use crate::stage::{SIGNAL, Stage};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An action, with its name for people.
type Attempt = (&'static str, fn(&Stage) -> bool);

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("change a file outside", |s| append(&s.outside("file"))),
    ("empty a file outside", |s| File::create(s.outside("file")).is_ok()),
    ("make a file outside", |s| File::create_new(s.outside("new")).is_ok()),
    ("make a folder outside", |s| fs::create_dir(s.outside("folder")).is_ok()),
    ("remove a file outside", |s| fs::remove_file(s.outside("removed")).is_ok()),
    ("move a file in from outside", |s| fs::rename(s.outside("moved"), s.inside("moved")).is_ok()),
    ("move a file out", |s| {
        append(&s.inside("own")) && fs::rename(s.inside("own"), s.outside("own")).is_ok()
    }),
    ("change a file outside through a hard link", |s| {
        fs::hard_link(s.outside("file"), s.inside("hard")).is_ok() && append(&s.inside("hard"))
    }),
    ("change a file outside through a symbolic link", |s| {
        symlink(s.outside("file"), s.inside("soft")).is_ok() && append(&s.inside("soft"))
    }),
    ("read a hidden file", |s| fs::read(s.hidden()).is_ok()),
    ("read a hidden file through a link", |s| {
        symlink(s.hidden(), s.inside("link")).is_ok() && fs::read(s.inside("link")).is_ok()
    }),
    ("read a hidden file through /proc", |s| {
        s.hidden()
            .strip_prefix("/")
            .is_ok_and(|rest| fs::read(Path::new("/proc/self/root").join(rest)).is_ok())
    }),
    ("change a protected file", |s| append(&s.protected())),
    ("remove a protected file", |s| fs::remove_file(s.protected()).is_ok()),
    ("move the folder of a protected file away", |s| {
        s.protected().parent().is_some_and(|folder| fs::rename(folder, s.inside("away")).is_ok())
    }),
    ("open a connection over IPv4", |s| connects(SocketAddr::from((Ipv4Addr::LOCALHOST, s.ports[0])))),
    ("open a connection over IPv6", |s| connects(SocketAddr::from((Ipv6Addr::LOCALHOST, s.ports[1])))),
    ("send a datagram", |s| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        socket.and_then(|socket| socket.send_to(b"x", (Ipv4Addr::LOCALHOST, s.ports[2]))).is_ok()
    }),
    ("reach a service through a socket in the file system", |s| {
        UnixStream::connect(s.outside("socket")).is_ok()
    }),
    ("reach a service through an abstract socket", |s| {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(s.abstract_name());
        address.and_then(|address| UnixStream::connect_addr(&address)).is_ok()
    }),
    (SIGNAL, |s| other(s).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())),
    ("open the memory of a process outside", |s| {
        other(s).is_some_and(|pid| File::open(format!("/proc/{}/mem", pid.as_raw_nonzero())).is_ok())
    }),
    ("take an open file of a process outside", |s| {
        other(s).is_some_and(|pid| {
            let process = rustix::process::pidfd_open(pid, PidfdFlags::empty());
            process
                .and_then(|process| rustix::process::pidfd_getfd(process, 0, PidfdGetfdFlags::empty()))
                .is_ok()
        })
    }),
    ("make a device", |s| {
        let null = rustix::fs::makedev(1, 3);
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, s.inside("device"), FileType::CharacterDevice, mode, null).is_ok()
    }),
    ("change its root folder", |s| rustix::process::chroot(s.inside("")).is_ok()),
    ("gain privileges", |_| !rustix::thread::no_new_privs().unwrap_or(false)),
    ("run without a filter of system calls", |_| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        !status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
    }),
];

fn append(path: &Path) -> bool {
    use std::io::Write as _;
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.is_ok_and(|mut file| file.write_all(b"x").is_ok())
}

fn connects(address: SocketAddr) -> bool {
    address.port() != 0 && TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

/// The process that made the stage. In a namespace of processes another one can have its number.
fn other(stage: &Stage) -> Option<Pid> {
    let pid = Pid::from_raw(stage.process)?;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let is_new = own < 32 && stage.process <= own;
    (!is_new).then_some(pid)
}
