//! The tools of a hub for an agent: those in every request, the search for the others, and those for resources.
//!
//! Owns only the choice of what is offered; [`Hub`] knows the servers and their tools.

use crate::hub::Hub;
use crate::server::{Server, State};
use crate::{deferred, naming};
use becket_tool::{OfferedTool, Tool, ToolSource};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// The tools of a hub for an agent.
#[derive(Clone)]
pub struct HubTools(pub Arc<Hub>);

impl std::fmt::Debug for HubTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.servers().iter().map(|server| &server.config.name)).finish()
    }
}

impl ToolSource for HubTools {
    fn generation(&self) -> u64 {
        self.0.shared.generation.load(Ordering::Acquire)
    }

    fn tools(&self) -> Vec<OfferedTool> {
        let named = self.0.named_tools();
        let deferred = self.0.deferred(&named);
        let mut out = Vec::new();
        for named in &named {
            let offered = !deferred.contains(&named.server.config.name);
            if let Some(tool) = named.tool() {
                out.push(OfferedTool { tool: Arc::new(tool), offered });
            }
        }
        let servers = self.0.servers();
        let mut deferring = self.0.deferring.lock().unwrap_or_else(PoisonError::into_inner);
        // While servers are being started, their tools can only be found by the search. Once the search was offered, it stays
        // offered.
        *deferring |= !deferred.is_empty() || servers.iter().any(|server| server.state() == State::Pending);
        if *deferring {
            out.extend(deferred::tools(&self.0).into_iter().map(OfferedTool::offered));
        }
        if servers.iter().any(|server| {
            let listing = server.listing();
            !listing.resources.is_empty() || !listing.templates.is_empty()
        }) {
            out.extend(crate::resources::tools(&self.0).into_iter().map(OfferedTool::offered));
        }
        out
    }

    fn late(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let lower = name.to_ascii_lowercase();
        let is_of = |server: &Arc<Server>| {
            let prefix = format!("mcp__{}__", naming::server_part(&server.config.name)).to_ascii_lowercase();
            server.state() == State::Pending && lower.starts_with(&prefix)
        };
        // The server may have become ready after the request to which the call belongs.
        let has_it = || {
            let named = self.0.named_tools();
            named
                .iter()
                .find(|tool| tool.name.eq_ignore_ascii_case(name))
                .map(|tool| Arc::clone(&tool.server))
        };
        let server = self.0.servers().into_iter().find(is_of).or_else(has_it)?;
        Some(Arc::new(deferred::DeferredTool::new(name, server, Arc::clone(&self.0))))
    }
}
