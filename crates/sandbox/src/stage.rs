//! The stage of the self-test: the folder and the services against which forbidden actions are tried.
//!
//! Data only: `probe` prepares it, and `sys::ATTEMPTS` acts on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name of a forbidden action that Landlock prevents only from its version 6 on.
pub(crate) const SIGNAL: &str = "send a signal to a process outside";

/// The folder and the services against which the actions are tried.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    dir: PathBuf,
    /// Ports that listen on this machine: TCP over IPv4 and IPv6, and UDP; 0 for none.
    pub ports: [u16; 3],
    /// The process that made the stage.
    pub process: i32,
}

impl Stage {
    /// Makes a stage without services.
    pub(crate) fn new(dir: &Path, process: i32) -> Self {
        Self { dir: dir.to_path_buf(), ports: [0; 3], process }
    }

    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.dir.join("outside").join(name)
    }

    pub(crate) fn hidden(&self) -> PathBuf {
        self.dir.join("hidden/secret")
    }

    /// A path in the folder that may be written.
    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        self.dir.join("work/open").join(name)
    }

    /// A file that must not be written, inside the writable place.
    pub(crate) fn protected(&self) -> PathBuf {
        self.dir.join("work/closed/file")
    }

    pub(crate) fn abstract_name(&self) -> String {
        format!("becket-test-{}-{}", self.process, self.ports[0])
    }

    /// The stage as an argument of the test.
    pub(crate) fn word(&self) -> String {
        let [v4, v6, udp] = self.ports;
        format!("{v4},{v6},{udp},{}", self.process)
    }

    /// Reads the arguments of the test: the folder, and the word.
    pub(crate) fn from_words(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let dir = PathBuf::from(words.next()?);
        let numbers = words.next()?.into_string().ok()?;
        let mut numbers = numbers.split(',');
        let mut port = || numbers.next()?.parse().ok();
        let ports = [port()?, port()?, port()?];
        Some(Self { dir, ports, process: numbers.next()?.parse().ok()? })
    }
}
