//! Resources of servers: the list, the content, and resources that people attach as `@server:uri`.

use crate::call::{self, CallContext, CallError};
use crate::hub::Hub;
use crate::output::OutputBuilder;
use crate::server::Server;
use crate::tool::spec;
use becket_tool::{Keep, Tool, ToolEnv, finish};
use becket_types::{Access, Effect, ToolOutput, ToolSpec, cut_end};
use futures::future::BoxFuture;
use rmcp::model::{
    ClientRequest, ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult, ResourceContents,
    ServerResult,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum number of lines of one list.
const MOST_LINES: usize = 500;
const MOST_ROUNDS: usize = 10;

/// A resource that people may attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    pub server: String,
    pub uri: String,
    pub name: String,
}

impl Hub {
    /// Returns all resources, by server and in the order of the server.
    pub fn resources(&self) -> Vec<ResourceInfo> {
        let mut out = Vec::new();
        for server in self.servers() {
            for resource in &server.listing().resources {
                out.push(ResourceInfo {
                    server: server.config.name.clone(),
                    uri: resource.uri.clone(),
                    name: resource.name.clone(),
                });
            }
        }
        out
    }

    /// Returns the text of a resource for a message of the user. Binary content is only mentioned.
    ///
    /// # Errors
    ///
    /// Returns a message for people if there is no such server, or if the server does not return the resource.
    pub async fn resource_text(&self, server: &str, uri: &str) -> Result<String, String> {
        let server = self.server(server).ok_or_else(|| format!("there is no MCP server {server}"))?;
        let cancel = CancellationToken::new();
        let result = read(&server, uri, &cancel, &|_| {}).await;
        let result = result.map_err(|output| output.content)?;
        let mut out = String::new();
        for contents in result.contents {
            match contents {
                ResourceContents::TextResourceContents { text, .. } => out.push_str(&text),
                ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                    let kind = mime_type.unwrap_or_default();
                    let _ = writeln!(out, "[{} bytes of base64, {kind}: not shown]", blob.len());
                }
                _ => {}
            }
        }
        Ok(becket_tool::text::clean(&out).into_owned())
    }
}

/// Reads a resource, and returns the server's whole answer.
///
/// # Errors
///
/// Returns a message for people if there is no such server, or if the server does not return the resource.
pub async fn read_whole(hub: &Hub, server: &str, uri: &str) -> Result<Value, String> {
    let server = hub.server(server).ok_or_else(|| format!("there is no MCP server {server}"))?;
    let result = read(&server, uri, &CancellationToken::new(), &|_| {}).await;
    serde_json::to_value(result.map_err(|output| output.content)?).map_err(|error| error.to_string())
}

/// Returns the tools with which the model lists and reads resources.
pub(crate) fn tools(hub: &Arc<Hub>) -> Vec<Arc<dyn Tool>> {
    let server = json!({"type": "string", "description": "Name of the server."});
    let list = spec(
        "mcp_list_resources",
        "List resources and resource templates of the MCP servers of this session.",
        json!({"type": "object", "properties": {"server": server}}),
    );
    let read = spec(
        "mcp_read_resource",
        "Read a resource of an MCP server.",
        json!({
            "type": "object",
            "properties": {"server": server, "uri": {"type": "string", "description": "Address of the resource."}},
            "required": ["server", "uri"],
        }),
    );
    vec![
        Arc::new(ListResources { spec: list, hub: Arc::clone(hub) }),
        Arc::new(ReadResource { spec: read, hub: Arc::clone(hub) }),
    ]
}

struct ListResources {
    spec: ToolSpec,
    hub: Arc<Hub>,
}

impl Tool for ListResources {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Value, _: &ToolEnv) -> Result<Access, String> {
        // The lists are in memory, so the call touches no file and no host.
        Ok(Access::session())
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        let wanted = input.get("server").and_then(Value::as_str);
        let mut lines = Vec::new();
        let servers = self.hub.servers().into_iter();
        for server in servers.filter(|s| wanted.is_none_or(|name| s.config.name == name)) {
            let listing = server.listing();
            let name = &server.config.name;
            for resource in &listing.resources {
                lines.push(line(name, &resource.uri, &resource.name, resource.description.as_deref()));
            }
            for template in &listing.templates {
                let uri = format!("{} (template)", template.uri_template);
                lines.push(line(name, &uri, &template.name, template.description.as_deref()));
            }
        }
        let left = lines.len().saturating_sub(MOST_LINES);
        lines.truncate(MOST_LINES);
        if left > 0 {
            lines.push(format!("{left} more are left out; name a server to see its own."));
        }
        let text = if lines.is_empty() { "There are no resources.".to_owned() } else { lines.join("\n") };
        Box::pin(async move { finish(ToolOutput::text(becket_tool::text::clean(&text)), Keep::Head, env) })
    }
}

fn line(server: &str, uri: &str, name: &str, about: Option<&str>) -> String {
    let about =
        about.map(|text| format!(": {}", cut_end(text.trim(), 200).replace('\n', " "))).unwrap_or_default();
    format!("{server}  {uri}  {name}{about}")
}

struct ReadResource {
    spec: ToolSpec,
    hub: Arc<Hub>,
}

impl Tool for ReadResource {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        let server = input.get("server").and_then(Value::as_str).ok_or("`server` is missing.")?;
        input.get("uri").and_then(Value::as_str).ok_or("`uri` is missing.")?;
        Ok(Access { effect: Effect::Network, subject: Some(server.to_owned()), ..Access::session() })
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (name, uri) = (text("server"), text("uri"));
            let Some(server) = self.hub.server(&name) else {
                let names: Vec<String> = self.hub.servers().iter().map(|s| s.config.name.clone()).collect();
                return ToolOutput::error(format!(
                    "There is no MCP server {name:?}. Servers: {}.",
                    names.join(", ")
                ));
            };
            match read(&server, &uri, &env.cancel, &*env.progress).await {
                Ok(result) => {
                    let mut gathered = OutputBuilder::new(env);
                    for contents in result.contents {
                        gathered.resource(contents);
                    }
                    gathered.output(json!({"mcp": {"server": name, "resource": uri}}))
                }
                Err(output) => output,
            }
        })
    }
}

async fn read(
    server: &Arc<Server>,
    uri: &str,
    cancel: &CancellationToken,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<ReadResourceResult, ToolOutput> {
    let live = server.ready().await;
    let live = live.map_err(|why| {
        ToolOutput::error(format!("Not read: the MCP server {} {why}.", server.config.name))
    })?;
    let timeout = server.timeout();
    let context = CallContext { peer: &live.peer, handler: &live.handler, timeout, cancel, progress };
    let mut params = ReadResourceRequestParams::new(uri);
    for _ in 0..MOST_ROUNDS {
        let request = ReadResourceRequest::new(params.clone());
        let answer = call::send(&context, ClientRequest::ReadResourceRequest(request)).await;
        match answer.map_err(|error| crate::tool::failed(server, &error))? {
            ServerResult::ReadResourceResult(result) => return Ok(result),
            ServerResult::InputRequiredResult(result) => {
                params.request_state.clone_from(&result.request_state);
                let inputs = call::inputs(&live.handler, result).await;
                params.input_responses = inputs.map_err(|error| crate::tool::failed(server, &error))?;
            }
            _ => break,
        }
    }
    Err(crate::tool::failed(server, &CallError::Unexpected("the answer is no resource".to_owned())))
}
