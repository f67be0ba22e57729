//! Requests about MCP servers: their states, changes of them, and calls of their tools and resources by the program itself.
//!
//! A call of the program has no question for permission, because the program is the one that would be asked. A deny rule holds
//! for it all the same.

use super::super::waits::{Completion, PendingWork, QueuedLine};
use crate::environment::Environment;
use crate::settings::ServerPolicies;
use becket_guard::{Guard, Verdict};
use becket_mcp::Hub;
use becket_types::{Access, Effect, quoted};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Time limits of a call in milliseconds: least, most, and the one that is used if none is given.
const CALL_LIMITS: (u64, u64, u64) = (1_000, 600_000, 120_000);
/// Longest wait for a server that is still starting.
const STARTING: Duration = Duration::from_secs(30);

/// The MCP servers, and what waits for them.
pub(in crate::headless) struct Servers {
    pub(in crate::headless) hub: Option<Arc<Hub>>,
    /// Prompts and requests that wait for servers.
    pub(in crate::headless) waits: PendingWork,
    pub(in crate::headless) environment: Environment,
    /// Rules for tools of servers that the driving program has just set, for the agent.
    pub(in crate::headless) policies: Option<ServerPolicies>,
}

impl Servers {
    /// Returns the answer to a request about MCP servers. `None`: it comes once the servers have started.
    pub(super) fn answer(&mut self, id: &str, subtype: &str, body: &Value) -> Option<Result<Value, String>> {
        let Some(hub) = self.hub.clone() else {
            return Some(match subtype {
                "mcp_status" => Ok(json!({ "mcpServers": [] })),
                _ => Err("this run has no MCP servers".to_owned()),
            });
        };
        if self.waits.holds() && subtype != "mcp_status" {
            self.waits.hold(QueuedLine::Request(id.to_owned(), subtype.to_owned(), body.clone()));
            return None;
        }
        let (id, name) = (id.to_owned(), body.get("serverName").and_then(Value::as_str).map(str::to_owned));
        Some(match (subtype, name) {
            ("mcp_status", _) => Ok(json!({ "mcpServers": self.statuses() })),
            ("mcp_set_servers", _) => {
                let Some(servers) = body.get("servers").and_then(Value::as_object).cloned() else {
                    return Some(Err("mcp_set_servers needs `servers`, an object".to_owned()));
                };
                let mut policies = ServerPolicies::default();
                servers.iter().for_each(|(name, entry)| policies.add(name, entry));
                self.policies = Some(policies);
                let change = crate::mcp::set_servers(hub, self.environment.clone(), servers);
                self.waits.add(async move { Completion::Answer(id, Ok(change.await)) });
                return None;
            }
            (_, Some(name)) if !hub.has(&name) => {
                Err(format!("there is no MCP server {name} in this session", name = quoted(&name)))
            }
            ("mcp_toggle", Some(name)) => {
                let Some(enabled) = body.get("enabled").and_then(Value::as_bool) else {
                    return Some(Err("mcp_toggle needs `enabled`".to_owned()));
                };
                self.waits.add(async move {
                    Completion::Answer(id, hub.toggle(&name, enabled).await.map(|()| json!({})))
                });
                return None;
            }
            (_, Some(name)) => {
                hub.reconnect(&name);
                Ok(json!({}))
            }
            (subtype, None) => Err(format!("{subtype} needs `serverName`")),
        })
    }

    /// Calls a tool of a server for the driving program. `None`: the answer comes later.
    pub(super) fn call(&mut self, id: &str, body: &Value, guard: &Guard) -> Option<Result<Value, String>> {
        let Some(tool) = body.get("tool").and_then(Value::as_str) else {
            return Some(Err("mcp_call needs `tool`, such as mcp__server__tool".to_owned()));
        };
        let Some(hub) = self.hub.clone() else {
            return Some(Err("this run has no MCP servers".to_owned()));
        };
        let arguments = body.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let checks = body.get("check_permissions").and_then(Value::as_bool) == Some(true);
        if let Err(why) = may_call(guard, tool, &arguments, checks) {
            return Some(Err(why));
        }
        let (least, most, usual) = CALL_LIMITS;
        let limit = body.get("timeout_ms").and_then(Value::as_u64).unwrap_or(usual).clamp(least, most);
        let soft = body.get("soft_error_result").and_then(Value::as_bool) == Some(true);
        let tool = tool.to_owned();
        self.waits.until_cancelled(id, async move {
            hub.wait_until_started(STARTING).await;
            let call = becket_mcp::call_whole(&hub, &tool, arguments);
            let result = tokio::time::timeout(Duration::from_millis(limit), call).await;
            let result = result.map_err(|_| format!("{tool} gave no result within {limit} ms"))??;
            if result["isError"] == json!(true) && !soft { Err(text_of(&result)) } else { Ok(result) }
        });
        None
    }

    /// Reads a resource of a server for the driving program. `None`: the answer comes later.
    pub(super) fn read_resource(&mut self, id: &str, body: &Value) -> Option<Result<Value, String>> {
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(server), Some(uri)) = (text("serverName"), text("uri")) else {
            return Some(Err("mcp_read_resource needs `serverName` and `uri`".to_owned()));
        };
        if !uri.starts_with("ui://") {
            return Some(Err(format!("mcp_read_resource reads ui:// resources only, not {uri}")));
        }
        let Some(hub) = self.hub.clone().filter(|hub| hub.has(&server)) else {
            return Some(Err(format!("there is no MCP server {server:?} in this session")));
        };
        self.waits.until_cancelled(id, async move { becket_mcp::read_whole(&hub, &server, &uri).await });
        None
    }

    /// Returns the states of all servers, with their tools.
    pub(super) fn statuses(&self) -> Vec<Value> {
        self.hub.as_ref().map(|hub| crate::mcp::whole_statuses(hub)).unwrap_or_default()
    }
}

/// Returns why the driving program may not call a tool: a rule denies it, or (with `checks`) no rule allows it.
fn may_call(guard: &Guard, tool: &str, arguments: &Value, checks: bool) -> Result<(), String> {
    let access = Access { effect: Effect::Network, subject: Some(tool.to_owned()), ..Access::session() };
    match guard.check(tool, &access, arguments) {
        Verdict::Deny { reason, rule: Some(_), .. } => Err(reason),
        Verdict::Deny { reason, .. } | Verdict::Ask { reason, .. } if checks => Err(reason),
        _ => Ok(()),
    }
}

/// Returns the text of a tool's result.
fn text_of(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() { "the tool failed without a text".to_owned() } else { texts.join("\n") }
}
