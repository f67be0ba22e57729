//! The helper: becket, started again with [`WORD`] as its first argument. It confines itself and then executes the
//! command in its own process.
//!
//! With bubblewrap it does so in two steps: bubblewrap makes the mounts and namespaces, and starts becket once more inside them. The
//! second step checks the mounts, and applies what must not hold for bubblewrap itself: Landlock, where the kernel has it, and the
//! filter of system calls.
//!
//! Two other words after [`WORD`] confine nothing: one runs the self-test, the other undoes changes to protected files after becket
//! was killed.
//!
//! It runs before anything else in `main`, with one thread, and reads no configuration. If any part of the confinement
//! fails, it exits with a message and the command does not run.

use crate::backend::Backend;
use crate::bwrap;
use crate::policy::{Network, Policy};
use crate::record::{self, UNDO};
use crate::request::{PROBE, ProxyRoute, Request};
use crate::{probe, sockets, sys};
use becket_types::SandboxLevel;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use crate::request::WORD;

/// Precedes the request in the second step, inside the mounts and namespaces of bubblewrap.
const INSIDE: &str = "inside";

/// The exit code of a helper that could not confine itself: the code of shells for a command that cannot be executed.
pub const FAILED: u8 = 126;

/// Runs a helper with the arguments after [`WORD`]. Returns only if the command could not be executed: the exit code
/// and a message for people.
pub fn run(words: impl Iterator<Item = OsString>) -> (u8, String) {
    let mut words = words.peekable();
    if words.next_if(|word| word.as_os_str() == OsStr::new(PROBE)).is_some() {
        return probe::inside(words);
    }
    if words.next_if(|word| word.as_os_str() == OsStr::new(UNDO)).is_some() {
        let input = rustix::stdio::stdin().try_clone_to_owned().map_err(|e| e.to_string());
        let undone = input.and_then(|input| record::undo(&input.into()));
        return undone.map_or_else(|why| (1, why), |()| (0, String::new()));
    }
    let is_inside = words.next_if(|word| word.as_os_str() == OsStr::new(INSIDE)).is_some();
    let prepared = Request::take(&mut words).and_then(|request| {
        let command: Vec<OsString> = words.collect();
        if is_inside { inside(&request, &command) } else { confined(request, &command) }
    });
    let why = match prepared {
        Ok(mut prepared) => {
            let error = prepared.exec();
            format!("becket sandbox: cannot start {}: {error}", prepared.get_program().display())
        }
        Err(why) => format!("becket sandbox: not started, because it cannot be confined: {why}"),
    };
    (FAILED, why)
}

/// Applies the confinement to this process as far as possible before the program starts. Returns the program to execute: the
/// command, or bubblewrap with the second step.
fn confined(mut request: Request, command: &[OsString]) -> Result<Command, String> {
    let (program, arguments) = command.split_first().ok_or("there is no command")?;
    if let Some(group) = &request.group {
        // The group limits the resources of the command. If the group cannot be entered, the caller enforces the limits
        // by polling.
        let _ = std::fs::write(group, std::process::id().to_string());
    }
    let policy = &request.policy;
    match &request.backend {
        // Landlock cannot distinguish one local service from another.
        Backend::Landlock { .. } if !policy.unix_sockets.is_empty() => {
            Err("Landlock cannot keep a command to some local services".to_owned())
        }
        // Landlock cannot distinguish the proxy from any other host.
        Backend::Landlock { .. } if policy.network == Network::Proxy => {
            Err("Landlock cannot keep a command to the proxy".to_owned())
        }
        Backend::Landlock { .. } if policy.level == SandboxLevel::DenyRules => {
            sys::restrict_denied(policy).map_err(|e| format!("Landlock: {e}"))?;
            let mut prepared = Command::new(program);
            prepared.args(arguments);
            Ok(prepared)
        }
        Backend::Landlock { .. } => {
            sys::drop_capabilities().map_err(|e| format!("capabilities: {e}"))?;
            sys::restrict(policy).map_err(|e| format!("Landlock: {e}"))?;
            sys::seccomp(policy, false).map_err(|e| format!("seccomp: {e}"))?;
            let mut prepared = Command::new(program);
            prepared.args(arguments);
            Ok(prepared)
        }
        Backend::Bubblewrap { program: bwrap, takes_files } => {
            let mut mounted_policy = policy.clone();
            sockets::hide_others(&mut mounted_policy)?;
            let look = |path: &Path| path.symlink_metadata().ok();
            let open = |path: &Path| match takes_files {
                true => sys::open_kept(path).map(Some),
                false => Ok(None),
            };
            let mut prepared = Command::new(bwrap);
            let second = visible(policy, &request.program)?;
            let (words, mounted) = bwrap::arguments(&mounted_policy, second.mount.as_deref(), &look, &open)?;
            request.mounted = mounted;
            prepared
                .args(words)
                .arg(second.program)
                .args([WORD, INSIDE])
                .args(request.words()?)
                .args(command);
            Ok(prepared)
        }
        Backend::None { why } => Err(why.clone()),
    }
}

/// The path by which the second step starts becket inside the mounts.
struct SecondStep {
    program: PathBuf,
    /// The path to mount, if the program would not be visible otherwise.
    mount: Option<PathBuf>,
}

/// Returns a path under which becket can be started inside the mounts.
fn visible(policy: &Policy, program: &Path) -> Result<SecondStep, String> {
    let below = |list: &[PathBuf]| list.iter().any(|place| program.starts_with(place));
    if program.starts_with("/proc") || below(&policy.deny_read) {
        // The file was replaced while becket ran, or is hidden. The open file can be executed in any case.
        let file = std::fs::File::open("/proc/self/exe");
        let number = file.and_then(sys::keep_open).map_err(|e| format!("becket's own program: {e}"))?;
        return Ok(SecondStep { program: format!("/proc/self/fd/{number}").into(), mount: None });
    }
    let mount = (!below(&policy.read)).then(|| program.to_path_buf());
    Ok(SecondStep { program: program.to_path_buf(), mount })
}

/// The second step: checks the mounts, opens the port of the proxy, and confines itself further. The filter of system calls is
/// applied only after the port is open, because it forbids the connection to the proxy.
fn inside(request: &Request, command: &[OsString]) -> Result<Command, String> {
    let (program, arguments) = command.split_first().ok_or("there is no command")?;
    bwrap::check(&request.mounted)?;
    let mut prepared = Command::new(program);
    prepared.args(arguments);
    if let (Network::Proxy, way) = (request.policy.network, &request.proxy) {
        connect(way.as_ref().ok_or("the way to the proxy is missing")?, &mut prepared)?;
    }
    if request.policy.level == SandboxLevel::DenyRules {
        // The mounts are all of it. Root must not remove them.
        sys::drop_capabilities().map_err(|e| format!("capabilities: {e}"))?;
        return Ok(prepared);
    }
    // A read-only mount does not keep a command from writing to a named pipe. Landlock does.
    sys::restrict_writes(&request.policy).map_err(|e| format!("Landlock: {e}"))?;
    sys::seccomp(&request.policy, true).map_err(|e| format!("seccomp: {e}"))?;
    Ok(prepared)
}

/// Opens the port of the proxy, and names it in the command's variables.
fn connect(way: &ProxyRoute, command: &mut Command) -> Result<(), String> {
    let port = becket_network::enter(&way.socket, way.number).map_err(|e| format!("the proxy: {e}"))?;
    let (http, socks) = (format!("http://127.0.0.1:{port}"), format!("socks5h://127.0.0.1:{port}"));
    for (name, value) in
        [("HTTP_PROXY", &http), ("HTTPS_PROXY", &http), ("ALL_PROXY", &socks), ("NO_PROXY", &way.left_out)]
    {
        // Some programs read the upper-case name, others the lower-case name.
        command.env(name, value).env(name.to_lowercase(), value);
    }
    // Node uses the variables above only if this one is set.
    command.env("NODE_USE_ENV_PROXY", "1");
    Ok(())
}
