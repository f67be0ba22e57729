//! All servers of a session: starts them in parallel, offers their tools under unique names, and ends them.
//!
//! No method of [`Hub`] waits for a server unless its comment says so. The names of tools depend only on the servers and
//! their lists of tools, so they are the same in every session.

use crate::config::{Endpoint, Exposure, ServerConfig};
use crate::naming;
use crate::server::{Listing, Server, ServerSummary, State, Status, ToolAbout};
use crate::shared::{HubSettings, Shared};
use crate::tool::McpTool;
pub use crate::transport::http::Proxies;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Result of [`Hub::set_dynamic`]: names of servers, and for servers that do not work, name and reason. A server whose
/// configuration changed is removed and added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DynamicChange {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub errors: Vec<(String, String)>,
}

/// All servers of a session; see the module.
pub struct Hub {
    servers: RwLock<BTreeMap<String, Arc<Server>>>,
    /// Names of servers that were set by [`Hub::set_dynamic`] and not by the configuration.
    dynamic: Mutex<BTreeSet<String>>,
    pub(crate) shared: Arc<Shared>,
    /// Names of servers whose tools were offered in every request. They stay there, because removing them would change the cached
    /// beginning of requests.
    direct: Mutex<BTreeSet<String>>,
    /// True once the search for tools was offered. It stays offered for the same reason.
    pub(crate) deferring: Mutex<bool>,
}

impl Hub {
    /// Starts all servers that are not switched off. Needs a runtime. Does not wait.
    pub fn start(configs: Vec<ServerConfig>, settings: HubSettings) -> Arc<Self> {
        let shared = Arc::new(Shared::new(settings));
        let start = |config: ServerConfig| (config.name.clone(), Server::start(config, Arc::clone(&shared)));
        let servers = RwLock::new(configs.into_iter().map(start).collect());
        Arc::new(Self {
            servers,
            dynamic: Mutex::default(),
            shared,
            direct: Mutex::default(),
            deferring: Mutex::new(false),
        })
    }

    /// Replaces the servers of earlier calls, and the servers in the program's own process, by `wanted`. Waits until the new
    /// servers have started. A server that is wanted again with the same configuration stays as it is, unless it failed. Configured
    /// servers stay, except those that `wanted` names.
    pub async fn set_dynamic(&self, wanted: Vec<ServerConfig>) -> DynamicChange {
        let mut out = DynamicChange::default();
        let names: Vec<String> = wanted.iter().map(|config| config.name.clone()).collect();
        let mut stopping = Vec::new();
        {
            let mut servers = self.servers.write().unwrap_or_else(PoisonError::into_inner);
            let mut dynamic = self.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
            let stays = |name: &str, server: &Server| match wanted.iter().find(|config| config.name == name) {
                Some(config) => server.config == *config,
                None => !dynamic.contains(name) && !matches!(server.config.endpoint, Endpoint::Host),
            };
            let gone: Vec<String> = servers
                .iter()
                .filter(|(name, server)| !stays(name, server))
                .map(|(n, _)| n.clone())
                .collect();
            for name in gone {
                stopping.extend(servers.remove(&name));
                out.removed.push(name);
            }
            for config in wanted {
                if let Some(known) = servers.get(&config.name) {
                    known.retry();
                    continue;
                }
                out.added.push(config.name.clone());
                servers.insert(config.name.clone(), Server::start(config, Arc::clone(&self.shared)));
            }
            *dynamic = names.iter().cloned().collect();
        }
        self.shared.changed();
        futures::future::join_all(stopping.iter().map(|server| server.stop())).await;
        for name in names {
            let Some(server) = self.server(&name) else { continue };
            server.wait_until_started().await;
            match server.state() {
                State::Failed(why) => out.errors.push((name, why)),
                State::NeedsAuth => {
                    out.errors
                        .push((name.clone(), format!("it needs an authorization: becket mcp login {name}")));
                }
                State::Disabled | State::Pending | State::Connected { .. } => {}
            }
        }
        out
    }

    /// Switches a server on or off for this session. Waits until it has started, or is stopped.
    ///
    /// # Errors
    ///
    /// Returns a message if no server has this name, or if the server does not start.
    pub async fn toggle(&self, name: &str, enabled: bool) -> Result<(), String> {
        let server =
            self.server(name).ok_or_else(|| format!("there is no MCP server {name:?} in this session"))?;
        if !enabled {
            server.switch_off();
            return Ok(());
        }
        server.switch_on();
        server.ready().await.map(drop).map_err(|why| format!("the MCP server {name} {why}"))
    }

    /// Waits for the required servers.
    ///
    /// # Errors
    ///
    /// Returns a message about the first required server that cannot be used.
    pub async fn required(&self) -> Result<(), String> {
        for server in self.servers().iter().filter(|server| server.config.required) {
            server
                .ready()
                .await
                .map_err(|why| format!("the required MCP server {} {why}", server.config.name))?;
        }
        Ok(())
    }

    /// Waits until no server is being started, or until `limit` is over.
    pub async fn wait_until_started(&self, limit: Duration) {
        let servers = self.servers();
        let all = futures::future::join_all(servers.iter().map(|server| server.wait_until_started()));
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Waits until no server in the host's own process is being started, or until `limit` is over. Returns `None` if there is
    /// no such server.
    pub fn wait_for_host_servers(self: &Arc<Self>, limit: Duration) -> Option<BoxFuture<'static, ()>> {
        let mut servers = self.servers();
        servers.retain(|server| matches!(server.config.endpoint, Endpoint::Host));
        (!servers.is_empty()).then(|| {
            let all = async move {
                for server in &servers {
                    server.wait_until_started().await;
                }
            };
            Box::pin(async move { drop(tokio::time::timeout(limit, all).await) }) as BoxFuture<'static, ()>
        })
    }

    /// Returns the state, tools and other facts of all servers, sorted by name.
    pub fn statuses(&self) -> Vec<Status> {
        let named = self.named_tools();
        let status = |server: &Arc<Server>| {
            let listing = server.listing();
            let tools = named.iter().filter(|tool| Arc::ptr_eq(&tool.server, server));
            Status {
                name: server.config.name.clone(),
                state: server.state(),
                shown: server.config.description(),
                tools: tools.map(|tool| tool.name.clone()).collect(),
                resources: listing.resources.len() + listing.templates.len(),
                prompts: listing.prompts.len(),
                notes: listing.notes.clone(),
                stderr: server.stderr(),
                instructions: listing.instructions.clone(),
                about: ServerSummary {
                    implementation: server.implementation(),
                    config: server.config.public_json(),
                    scope: server.config.scope.clone(),
                    tools: named
                        .iter()
                        .filter(|tool| Arc::ptr_eq(&tool.server, server))
                        .map(|tool| tool_summary(tool, &listing))
                        .collect(),
                },
            }
        };
        self.servers().iter().map(status).collect()
    }

    /// True if a server has this name.
    pub fn has(&self, name: &str) -> bool {
        self.server(name).is_some()
    }

    /// Opens the connection of a server again. Returns false if no server has this name.
    pub fn reconnect(&self, name: &str) -> bool {
        let server = self.server(name);
        if let Some(server) = &server {
            server.reconnect();
        }
        server.is_some()
    }

    /// Stops all servers in parallel, within about a second.
    pub async fn stop(&self) {
        let servers = self.servers();
        futures::future::join_all(servers.iter().map(|server| server.stop())).await;
    }

    pub(crate) fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Returns the servers by name, as they are now.
    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns the tools of all servers that are not switched off, as last listed, with their unique names.
    pub(crate) fn named_tools(&self) -> Vec<NamedTool> {
        let (mut taken, mut out) = (BTreeSet::new(), Vec::new());
        for server in self.servers().iter().filter(|server| server.state() != State::Disabled) {
            for (index, tool) in server.listing().tools.iter().enumerate() {
                let name = naming::tool_name(&server.config.name, &tool.tool.name, &taken);
                // A server may list a tool twice.
                if taken.insert(name.to_ascii_lowercase()) {
                    out.push(NamedTool { name, server: Arc::clone(server), index });
                }
            }
        }
        out
    }

    /// Returns the names of the servers whose tools are found by a search. Records the other servers as direct.
    pub(crate) fn deferred(&self, named: &[NamedTool]) -> BTreeSet<String> {
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
            let exposure = self.server(name).and_then(|server| server.config.exposure);
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

fn tool_summary(tool: &NamedTool, listing: &Listing) -> ToolAbout {
    let Some(listed) = listing.tools.get(tool.index) else {
        return ToolAbout { name: tool.name.clone(), ..ToolAbout::default() };
    };
    let [read_only, destructive, open_world] = listed.tool.hints;
    let description = becket_tool::text::clean(&listed.tool.description).into_owned();
    let schema = listed.original.clone().unwrap_or_else(|| listed.schema.clone());
    ToolAbout { name: tool.name.clone(), description, read_only, destructive, open_world, schema }
}

/// A tool of a server with its unique name.
pub(crate) struct NamedTool {
    pub name: String,
    pub server: Arc<Server>,
    pub(crate) index: usize,
}

impl NamedTool {
    pub(crate) fn listed(&self) -> Option<crate::server::ListedTool> {
        self.server.listing().tools.get(self.index).cloned()
    }

    /// Returns the approximate size of the definition in bytes.
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
