//! Owns the request to the helper: the words that start it, and the confinement that it applies.
//!
//! Data only: [`helper`](crate::helper) carries it out.

use crate::backend::Backend;
use crate::bwrap::MountPoint;
use crate::policy::Policy;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// The first argument that makes becket a helper.
pub const WORD: &str = "__sandbox";

/// The word in place of the request that runs the self-test, inside a confinement.
pub(crate) const PROBE: &str = "probe";

/// Longest argument, in bytes. Linux allows 128 KiB for one argument; a workspace can have thousands of hidden files.
const MAX_WORD: usize = 100 * 1024;

/// Begins a word with the number of parts into which a long request is divided. The parts follow.
const PARTS: char = '+';

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub backend: Backend,
    pub policy: Policy,
    /// The path of becket, which is started once more inside the mounts of bubblewrap.
    #[serde(with = "crate::policy::lossless::one")]
    pub program: PathBuf,
    /// The file `cgroup.procs` of a control group that the process enters before it is confined.
    pub group: Option<PathBuf>,
    /// The connection to the proxy, with [`Network::Proxy`](crate::Network::Proxy).
    pub proxy: Option<ProxyRoute>,
    /// The mounts that the first step asked bubblewrap for. The second step checks that they are there.
    #[serde(default)]
    pub mounted: Vec<MountPoint>,
}

/// The connection of a confined command to the proxy.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProxyRoute {
    pub socket: PathBuf,
    pub number: u64,
    /// Hosts for which clients must not use the proxy, as in the variable `NO_PROXY`.
    pub left_out: String,
}

impl Request {
    /// Returns the request as words of a command line.
    pub(crate) fn words(&self) -> Result<Vec<OsString>, String> {
        let text = serde_json::to_string(self).map_err(|e| e.to_string())?;
        let mut parts: Vec<OsString> = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let part = becket_types::cut_end(rest, MAX_WORD);
            parts.push(part.into());
            rest = &rest[part.len()..];
        }
        if parts.len() > 1 {
            parts.insert(0, format!("{PARTS}{}", parts.len()).into());
        }
        Ok(parts)
    }

    /// Takes a request from the front of `words`.
    pub(crate) fn take(mut words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut next = || {
            let word = words.next().ok_or("the request is missing")?;
            word.into_string().map_err(|_| "the request is not text")
        };
        let first = next()?;
        let text = match first.strip_prefix(PARTS) {
            None => first,
            Some(count) => {
                let count: usize = count.parse().map_err(|_| "the number of its parts is not valid")?;
                (0..count).map(|_| next()).collect::<Result<String, _>>()?
            }
        };
        serde_json::from_str(&text).map_err(|e| format!("the request is not valid: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyInputs;
    use becket_types::SandboxLevel;
    use std::path::Path;

    #[test]
    fn a_request_of_any_length_arrives() {
        for count in [0, 5_000] {
            let found: Vec<PathBuf> = (0..count).map(|n| format!("/ws/ä/{n:090}.pem").into()).collect();
            let inputs = PolicyInputs { deny_read: found, ..PolicyInputs::default() };
            let policy = Policy::new(SandboxLevel::Workspace, &inputs, Path::new("/tmp/x"), &[]);
            let request = Request {
                backend: Backend::Landlock { abi: 6 },
                policy: policy.clone(),
                program: "/usr/bin/becket".into(),
                group: None,
                proxy: None,
                mounted: Vec::new(),
            };
            let words = request.words().unwrap();
            assert!(words.iter().all(|word| word.len() <= MAX_WORD), "{count}");
            assert_eq!(words.len() == 1, count == 0);
            let mut words = words.into_iter().chain(["rest".into()]);
            assert_eq!(Request::take(&mut words).unwrap().policy, policy);
            assert_eq!(words.next(), Some("rest".into()));
        }
        for wrong in [&["+2", "{}"][..], &["+x"], &["{"], &[]] {
            assert!(Request::take(wrong.iter().map(OsString::from)).is_err(), "{wrong:?}");
        }
    }
}
