//! Calls of tools that becket itself makes, for hooks: text in, text out, without a session.
//!
//! The server must be one of the session's. A call waits for a server that is being started; the caller limits the time.

use crate::call::{self, CallContext};
use crate::config::Endpoint;
use crate::hub::{Hub, NamedTool};
use crate::tool::{arguments, failed};
use becket_types::cut_end;
use rmcp::model::ContentBlock;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Maximum size of an answer in bytes.
const LONGEST: usize = 1 << 20;

/// Calls a tool by the name that the server gives it, and returns the text of its answer.
///
/// # Errors
///
/// Returns a message for people: no such server, no connection, or the tool's own error.
pub async fn call_tool(hub: &Hub, server: &str, tool: &str, input: Value) -> Result<String, String> {
    let known = hub.server(server).ok_or_else(|| format!("there is no MCP server {server}"))?;
    let arguments = arguments(&input)?;
    let live = known.ready().await.map_err(|why| format!("the MCP server {server} {why}"))?;
    // Nobody cancels this token: a caller that stops waiting drops the whole call.
    let cancel = CancellationToken::new();
    let context = CallContext {
        peer: &live.peer,
        handler: &live.handler,
        timeout: known.timeout(),
        cancel: &cancel,
        progress: &|_| {},
    };
    let result = call::call(&context, tool, arguments).await;
    let result = result.map_err(|error| failed(&known, &error).content)?;
    let texts = result.content.into_iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let text = cut_end(&becket_tool::text::clean(&text), LONGEST).to_owned();
    if result.is_error == Some(true) {
        return Err(format!("the tool {tool} of the MCP server {server} failed: {text}"));
    }
    Ok(text)
}

/// Calls a tool by the name that the model uses, such as `mcp__server__tool`, and returns the whole result as the server gave it.
/// Tools of the host's own process are refused, because the host can call those itself.
///
/// # Errors
///
/// Returns a message for people: no such tool, no connection, or an error of the protocol.
pub async fn call_whole(hub: &Hub, name: &str, input: Value) -> Result<Value, String> {
    let of_host = |tool: &NamedTool| matches!(tool.server.config.endpoint, Endpoint::Host);
    if hub.named_tools().iter().any(|tool| tool.name == name && of_host(tool)) {
        return Err(format!("{name} is a tool of your own process; call it there"));
    }
    call_any(hub, name, input).await
}

/// Calls a tool by the name that the model uses, also a tool of the host's own process, and returns the whole result.
///
/// # Errors
///
/// Returns a message for people: no such tool, no connection, or an error of the protocol.
pub async fn call_any(hub: &Hub, name: &str, input: Value) -> Result<Value, String> {
    let named = hub.named_tools().into_iter().find(|tool| tool.name == name);
    let named = named.ok_or_else(|| format!("there is no tool {name:?} of an MCP server in this session"))?;
    let tool = named.server.listing().tools.get(named.index).map(|listed| listed.tool.name.clone());
    let tool = tool.ok_or_else(|| format!("the tool {name:?} is gone"))?;
    let server = &named.server;
    let arguments = arguments(&input)?;
    let shown = &server.config.name;
    let live = server.ready().await.map_err(|why| format!("the MCP server {shown} {why}"))?;
    let cancel = CancellationToken::new();
    let context = CallContext {
        peer: &live.peer,
        handler: &live.handler,
        timeout: server.timeout(),
        cancel: &cancel,
        progress: &|_| {},
    };
    let result = call::call(&context, &tool, arguments).await;
    let result = result.map_err(|error| failed(server, &error).content)?;
    serde_json::to_value(result).map_err(|error| error.to_string())
}
