//! The helper: becket, started again with [`WORD`] as its first argument. It confines itself and then executes the
//! command in its own process.
//!
//! It runs before anything else in `main`, with one thread, and reads no configuration. If any part of the confinement
//! fails, it exits with a message and the command does not run.

use crate::backend::Backend;
use crate::bwrap;
use crate::policy::Network;
use crate::request::{PROBE, Request};
use crate::{probe, sys};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

pub use crate::request::WORD;

/// Precedes the request in the second step of a command with the proxy, inside its mounts and namespaces.
const INSIDE: &str = "inside";

/// The exit code of a helper that could not confine itself: the code of shells for a command that cannot be executed.
pub const FAILED: u8 = 126;

/// Runs a helper with the arguments after [`WORD`]. Returns only if the command could not be executed: the exit code
/// and a message for people.
pub fn run(mut words: impl Iterator<Item = OsString>) -> (u8, String) {
    let request = words.next().unwrap_or_default();
    if request == PROBE {
        return (probe::inside(words), String::new());
    }
    let inside = request == INSIDE;
    let request = if inside { words.next().unwrap_or_default() } else { request };
    let command: Vec<OsString> = words.collect();
    let prepared = if inside { connected(&request, &command) } else { confined(&request, &command) };
    let why = match prepared {
        Ok(mut prepared) => {
            let error = prepared.exec();
            format!("becket sandbox: cannot start {}: {error}", prepared.get_program().display())
        }
        Err(why) => format!("becket sandbox: not started, because it cannot be confined: {why}"),
    };
    (FAILED, why)
}

/// Confines this process as far as the backend can do that from here. Returns the program to execute.
fn confined(request: &OsStr, command: &[OsString]) -> Result<Command, String> {
    let text = request;
    let request = read(text)?;
    let (program, arguments) = command.split_first().ok_or("there is no command")?;
    if let Some(group) = &request.group {
        // The group limits the resources of the command. If the group cannot be entered, the caller enforces the limits
        // by polling.
        let _ = std::fs::write(group, std::process::id().to_string());
    }
    let policy = &request.policy;
    match &request.backend {
        // Landlock cannot distinguish the proxy from any other host.
        Backend::Landlock { .. } if policy.network == Network::Proxy => {
            Err("Landlock cannot keep a command to the proxy".to_owned())
        }
        Backend::Landlock { .. } => {
            sys::drop_capabilities().map_err(|e| format!("capabilities: {e}"))?;
            sys::restrict(policy).map_err(|e| format!("Landlock: {e}"))?;
            sys::seccomp(policy, false).map_err(|e| format!("seccomp: {e}"))?;
            let mut prepared = Command::new(program);
            prepared.args(arguments);
            Ok(prepared)
        }
        Backend::Bubblewrap { program: bwrap } => {
            let look = |path: &Path| path.symlink_metadata().ok().map(|meta| meta.file_type());
            let mut prepared = Command::new(bwrap);
            if policy.network == Network::Proxy {
                let way = request.proxy.as_ref().ok_or("the way to the proxy is missing")?;
                prepared.args(bwrap::arguments(policy, None, &look));
                prepared.arg(&way.program).args([WORD, INSIDE]).arg(text).arg(program).args(arguments);
                return Ok(prepared);
            }
            let filter = sys::seccomp_file(policy).map_err(|e| format!("seccomp: {e}"))?;
            let number = sys::keep_open(&filter).map_err(|e| format!("seccomp: {e}"))?;
            // The file must still be open when the program starts.
            std::mem::forget(filter);
            prepared.args(bwrap::arguments(policy, Some(number), &look)).arg(program).args(arguments);
            Ok(prepared)
        }
        Backend::None { why } => Err(why.clone()),
    }
}

/// The second step of a command with the proxy: opens its port, applies the filter of system calls, and returns the
/// program to execute. The filter is applied only now, because it forbids the connection to the proxy.
fn connected(request: &OsStr, command: &[OsString]) -> Result<Command, String> {
    let request = read(request)?;
    let way = request.proxy.as_ref().ok_or("the way to the proxy is missing")?;
    let (program, arguments) = command.split_first().ok_or("there is no command")?;
    let port = becket_network::enter(&way.socket, way.number).map_err(|e| format!("the proxy: {e}"))?;
    sys::seccomp(&request.policy, true).map_err(|e| format!("seccomp: {e}"))?;
    let mut prepared = Command::new(program);
    prepared.args(arguments);
    let (http, socks) = (format!("http://127.0.0.1:{port}"), format!("socks5h://127.0.0.1:{port}"));
    for (name, value) in
        [("HTTP_PROXY", &http), ("HTTPS_PROXY", &http), ("ALL_PROXY", &socks), ("NO_PROXY", &way.left_out)]
    {
        // Some programs read the upper-case name, others the lower-case name.
        prepared.env(name, value).env(name.to_lowercase(), value);
    }
    // Node uses the variables above only if this one is set.
    prepared.env("NODE_USE_ENV_PROXY", "1");
    Ok(prepared)
}

fn read(request: &OsStr) -> Result<Request, String> {
    let text = request.to_str().ok_or("the request is not text")?;
    serde_json::from_str(text).map_err(|e| format!("the request is not valid: {e}"))
}
