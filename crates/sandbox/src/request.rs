//! Owns the request to the helper: the words that start it, and the confinement that it applies.
//!
//! Data only: [`helper`](crate::helper) carries it out.

use crate::backend::Backend;
use crate::policy::Policy;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The first argument that makes becket a helper.
pub const WORD: &str = "__sandbox";

/// Replaces the request for the self-test, which runs inside a confinement.
pub(crate) const PROBE: &str = "probe";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub backend: Backend,
    pub policy: Policy,
    /// The file `cgroup.procs` of a control group that the process enters before it is confined.
    pub group: Option<PathBuf>,
    /// The connection to the proxy, with [`Network::Proxy`](crate::Network::Proxy).
    pub proxy: Option<ProxyRoute>,
}

/// The connection of a confined command to the proxy.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProxyRoute {
    /// The path of becket, which is started once more inside the confinement.
    pub program: PathBuf,
    pub socket: PathBuf,
    pub number: u64,
    /// The hosts that clients reach without the proxy.
    pub left_out: String,
}
