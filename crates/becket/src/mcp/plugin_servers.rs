//! MCP servers of the run's plugins: `plugin:PLUGIN:SERVER`. Starts nothing.

use super::{Configured, ConfiguredServers, Place};
use crate::environment::Environment;
use becket_mcp::{Endpoint, config};

/// Adds the servers of all plugins. Each gets the variables of its plugin.
pub(super) fn add(environment: &Environment, found: &mut ConfiguredServers) {
    for plugin in environment.plugins.iter() {
        let own = plugin.variables();
        let vars = |name: &str| {
            let of_plugin = own.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            of_plugin.or_else(|| environment.vars.get(name).cloned())
        };
        for (name, entry) in &plugin.servers {
            let name = format!("plugin:{}:{name}", plugin.name);
            match config::server(&name, entry, &vars) {
                Ok((mut server, odd)) => {
                    found.problems.extend(odd);
                    if let Endpoint::Stdio { env, .. } = &mut server.endpoint {
                        for (variable, value) in &own {
                            env.entry(variable.clone()).or_insert_with(|| value.clone());
                        }
                    }
                    let configured = Configured { place: Place::Plugin, config: server, allowed: true };
                    found.servers.insert(name, configured);
                }
                Err(why) => found.problems.push(format!("the MCP server {name:?} is not used: {why}")),
            }
        }
    }
}
