//! Owns the inputs that all servers of a session share, and the count of their changes.

use crate::elicitation::Elicitation;
use crate::oauth::TokenStore;
use crate::transport::channel::Channel;
use crate::transport::http::Proxies;
use becket_sandbox::Programs;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Shared {
    pub version: String,
    pub cwd: PathBuf,
    pub variables: Vec<(OsString, OsString)>,
    pub programs: Programs,
    pub proxies: Proxies,
    pub elicitation: Elicitation,
    pub channels: BTreeMap<String, Arc<dyn Channel>>,
    pub tokens: Option<TokenStore>,
    pub most_definitions: usize,
    /// Counts changes of any server's state.
    pub generation: AtomicU64,
}

impl Shared {
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }
}
