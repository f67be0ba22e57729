//! Owns the settings that all servers of a session share, and the count of their changes.

use crate::elicitation::Elicitation;
use crate::oauth::TokenStore;
use crate::transport::channel::HostServers;
use crate::transport::http::Proxies;
use becket_sandbox::Programs;
use std::ffi::OsString;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The inputs for starting servers.
#[derive(Clone, Default)]
pub struct HubSettings {
    /// becket's version, which is sent to servers.
    pub version: String,
    pub cwd: PathBuf,
    /// The folders of the workspace, for servers that ask for them.
    pub roots: Vec<PathBuf>,
    /// The outermost folder of the project. Programs of servers that the project does not configure are not looked up in it.
    pub project: Option<PathBuf>,
    /// The environment of the servers' programs, which inherit no other variables.
    pub variables: Vec<(OsString, OsString)>,
    pub programs: Programs,
    pub proxies: Proxies,
    pub elicitation: Elicitation,
    /// The program that drives becket, if it has servers in its own process.
    pub host: Option<HostServers>,
    /// The store of tokens; `None`: no tokens are kept.
    pub tokens: Option<TokenStore>,
    /// Limit in bytes for the definitions in every request. Tools of servers whose definitions do not fit are found by a search.
    pub most_definitions: usize,
}

pub(crate) struct Shared {
    settings: HubSettings,
    /// Counts changes of any server's state, and of the set of servers.
    pub generation: AtomicU64,
}

impl Shared {
    pub(crate) fn new(settings: HubSettings) -> Self {
        Self { settings, generation: AtomicU64::new(1) }
    }

    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }
}

impl Deref for Shared {
    type Target = HubSettings;

    fn deref(&self) -> &HubSettings {
        &self.settings
    }
}
