//! All servers of a session: starts them in parallel, offers their tools under unique names, and ends them.
//!
//! No method of [`Hub`] waits for a server unless its comment says so. The names of tools depend only on the servers and
//! their lists of tools, so they are the same in every session.

use crate::config::{Endpoint, Exposure, ServerConfig};
use crate::elicitation::Elicitation;
use crate::naming;
use crate::oauth::TokenStore;
use crate::server::{Server, State, Status};
use crate::shared::Shared;
use crate::tool::McpTool;
use crate::transport::channel::Channel;
pub use crate::transport::http::Proxies;
use becket_sandbox::Programs;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The inputs for starting servers.
#[derive(Clone, Default)]
pub struct HubSettings {
    /// becket's version, which is sent to servers.
    pub version: String,
    pub cwd: PathBuf,
    /// Variables of the programs. They inherit no others.
    pub variables: Vec<(OsString, OsString)>,
    pub programs: Programs,
    pub proxies: Proxies,
    pub elicitation: Elicitation,
    /// Servers in the program that drives becket, by name.
    pub channels: BTreeMap<String, Arc<dyn Channel>>,
    pub tokens: Option<TokenStore>,
    /// If the definitions take more bytes than this, tools are found by a search.
    pub most_definitions: usize,
}

/// All servers of a session; see the module.
pub struct Hub {
    servers: BTreeMap<String, Arc<Server>>,
    pub(crate) shared: Arc<Shared>,
    /// Servers whose tools were in a request. They stay there, because the cached beginning of requests contains them.
    direct: Mutex<BTreeSet<String>>,
    /// True once the search for tools was offered.
    pub(crate) deferring: Mutex<bool>,
}

impl Hub {
    /// Starts all servers that are not switched off. Needs a runtime. Does not wait.
    pub fn start(configs: Vec<ServerConfig>, settings: HubSettings) -> Arc<Self> {
        let shared = Arc::new(Shared {
            version: settings.version,
            cwd: settings.cwd,
            variables: settings.variables,
            programs: settings.programs,
            proxies: settings.proxies,
            elicitation: settings.elicitation,
            channels: settings.channels,
            tokens: settings.tokens,
            most_definitions: settings.most_definitions,
            generation: AtomicU64::new(1),
        });
        let start = |config: ServerConfig| (config.name.clone(), Server::start(config, Arc::clone(&shared)));
        let servers = configs.into_iter().map(start).collect();
        Arc::new(Self { servers, shared, direct: Mutex::default(), deferring: Mutex::new(false) })
    }

    /// Waits for the required servers.
    ///
    /// # Errors
    ///
    /// Returns a message about the first required server that cannot be used.
    pub async fn required(&self) -> Result<(), String> {
        for server in self.servers.values().filter(|server| server.config.required) {
            server
                .ready()
                .await
                .map_err(|why| format!("the required MCP server {} {why}", server.config.name))?;
        }
        Ok(())
    }

    /// Waits until no server is being started, or until `limit` is over.
    pub async fn settled(&self, limit: Duration) {
        let all = futures::future::join_all(self.servers.values().map(|server| server.settled()));
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Waits until no server in the host's own process is being started, or until `limit` is over. Returns `None` if there is
    /// no such server.
    pub fn host_settled(self: &Arc<Self>, limit: Duration) -> Option<BoxFuture<'static, ()>> {
        let of_host = |server: &&Arc<Server>| matches!(server.config.endpoint, Endpoint::Host);
        let servers: Vec<Arc<Server>> = self.servers.values().filter(of_host).cloned().collect();
        (!servers.is_empty()).then(|| {
            let all = async move {
                for server in &servers {
                    server.settled().await;
                }
            };
            Box::pin(async move { drop(tokio::time::timeout(limit, all).await) }) as BoxFuture<'static, ()>
        })
    }

    /// Returns states and tools, by name.
    pub fn statuses(&self) -> Vec<Status> {
        let named = self.named();
        let status = |server: &Arc<Server>| {
            let listing = server.listing();
            let tools = named.iter().filter(|tool| Arc::ptr_eq(&tool.server, server));
            Status {
                name: server.config.name.clone(),
                state: server.state(),
                shown: server.config.shown(),
                tools: tools.map(|tool| tool.name.clone()).collect(),
                resources: listing.resources.len() + listing.templates.len(),
                prompts: listing.prompts.len(),
                notes: listing.notes.clone(),
                stderr: server.stderr(),
                instructions: listing.instructions.clone(),
            }
        };
        self.servers.values().map(status).collect()
    }

    /// Opens the connection of a server again. Returns false if no server has this name.
    pub fn reconnect(&self, name: &str) -> bool {
        let server = self.servers.get(name);
        if let Some(server) = server {
            server.reconnect();
        }
        server.is_some()
    }

    /// Stops all servers in parallel, within about a second.
    pub async fn stop(&self) {
        futures::future::join_all(self.servers.values().map(|server| server.stop())).await;
    }

    pub(crate) fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.get(name)
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.values()
    }

    /// Returns all tools of servers that are or were connected, with their names.
    pub(crate) fn named(&self) -> Vec<Named> {
        let (mut taken, mut out) = (BTreeSet::new(), Vec::new());
        for server in self.servers.values().filter(|server| server.state() != State::Disabled) {
            for (index, tool) in server.listing().tools.iter().enumerate() {
                let name = naming::tool_name(&server.config.name, &tool.tool.name, &taken);
                // A tool that is listed twice counts once.
                if taken.insert(name.to_ascii_lowercase()) {
                    out.push(Named { name, server: Arc::clone(server), index });
                }
            }
        }
        out
    }

    /// Returns the servers whose tools are found by a search.
    pub(crate) fn deferred(&self, named: &[Named]) -> BTreeSet<String> {
        let mut direct = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = self.shared.most_definitions;
        let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
        for tool in named {
            *sizes.entry(tool.server.config.name.as_str()).or_default() += tool.size();
        }
        let mut out = BTreeSet::new();
        for (name, size) in &sizes {
            if direct.contains(*name) {
                room = room.saturating_sub(*size);
            }
        }
        for (name, size) in sizes {
            let exposure = self.servers.get(name).and_then(|server| server.config.exposure);
            match exposure {
                Some(Exposure::Direct) => {
                    direct.insert(name.to_owned());
                }
                Some(Exposure::Deferred) => {
                    out.insert(name.to_owned());
                }
                None if direct.contains(name) => {}
                None if size <= room => {
                    room -= size;
                    direct.insert(name.to_owned());
                }
                None => {
                    out.insert(name.to_owned());
                }
            }
        }
        out
    }
}

/// A tool of a server under its name.
pub(crate) struct Named {
    pub name: String,
    pub server: Arc<Server>,
    index: usize,
}

impl Named {
    pub(crate) fn listed(&self) -> Option<crate::server::ListedTool> {
        self.server.listing().tools.get(self.index).cloned()
    }

    /// Returns the size of the definition in bytes.
    fn size(&self) -> usize {
        let Some(listed) = self.listed() else { return 0 };
        let schema = serde_json::to_string(&listed.schema).map_or(0, |text| text.len());
        self.name.len() + listed.tool.description.len().min(2_048) + schema
    }

    pub(crate) fn tool(&self) -> Option<McpTool> {
        let listed = self.listed()?;
        Some(McpTool::new(self.name.clone(), Arc::clone(&self.server), &listed))
    }
}
