//! The MCP servers as a program that drives becket sees and sets them, in the shapes of the Claude Agent SDK.

use crate::environment::Environment;
use becket_mcp::{Hub, State, Status, config};
use becket_print::McpFacts;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Replaces the servers that a driving program has set, and waits for the new ones. Returns the answer to its request.
pub(crate) async fn set_servers(
    hub: Arc<Hub>,
    environment: Environment,
    servers: Map<String, Value>,
) -> Value {
    let vars = |name: &str| environment.vars.get(name).cloned();
    let (mut wanted, mut errors) = (Vec::new(), Map::new());
    for (name, entry) in &servers {
        match config::server(name, entry, &vars) {
            Ok((server, _)) => wanted.push(server),
            Err(why) => {
                errors.insert(name.clone(), json!(why));
            }
        }
    }
    let change = hub.set_dynamic(wanted).await;
    errors.extend(change.errors.into_iter().map(|(name, why)| (name, json!(why))));
    json!({ "added": change.added, "removed": change.removed, "errors": errors })
}

/// Returns the states of all servers, in the shape that the Claude Agent SDK reads.
fn statuses(hub: &Hub) -> Vec<Value> {
    hub.statuses().iter().map(status).collect()
}

fn status(server: &Status) -> Value {
    let tools: Vec<Value> = server.tools.iter().map(|tool| json!({ "name": tool })).collect();
    let mut out = json!({ "name": server.name, "status": server.state.word(), "tools": tools });
    if let State::Failed(why) = &server.state {
        out["error"] = json!(why);
    }
    out
}

/// Returns the states of all servers with everything that the Claude Agent SDK reads about them.
pub(crate) fn whole_statuses(hub: &Hub) -> Vec<Value> {
    hub.statuses()
        .iter()
        .map(|server| {
            let mut out = status(server);
            out["tools"] = server.about.tools.iter().map(tool_json).collect();
            out["config"] = server.about.config.clone();
            if let Some((name, version)) = &server.about.implementation {
                out["serverInfo"] = json!({ "name": name, "version": version });
            }
            if let Some(scope) = &server.about.scope {
                out["scope"] = json!(scope);
                out["source"] = json!(scope);
            }
            out
        })
        .collect()
}

fn tool_json(tool: &becket_mcp::ToolAbout) -> Value {
    let mut annotations = Map::new();
    for (name, hint) in
        [("readOnly", tool.read_only), ("destructive", tool.destructive), ("openWorld", tool.open_world)]
    {
        if let Some(hint) = hint {
            annotations.insert(name.to_owned(), json!(hint));
        }
    }
    let mut out = json!({ "name": tool.name, "description": tool.description });
    if !annotations.is_empty() {
        out["annotations"] = Value::Object(annotations);
    }
    out
}

/// Returns what `system/init` says about the servers as they are now.
pub(crate) fn facts(hub: &Hub) -> McpFacts {
    McpFacts {
        servers: statuses(hub),
        tools: hub.statuses().into_iter().flat_map(|server| server.tools).collect(),
        prompts: hub.prompts().into_iter().map(|prompt| prompt.command).collect(),
    }
}
