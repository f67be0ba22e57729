//! Tools that are not in every request: the model finds them by a search and calls them through one tool.
//!
//! Definitions of tools are at the beginning of every request, and the provider bills that beginning as cached only
//! while it does not change. So a found tool is never added there. Its definition is the result of `mcp_search`, at the
//! end of the conversation, and `mcp_call` calls it. The guard judges such a call like a call of the tool itself.

use crate::hub::{Hub, NamedTool};
use crate::naming;
use crate::server::{Server, State};
use crate::tool::{self, spec};
use becket_tool::{Keep, Tool, ToolEnv, finish};
use becket_types::{Access, ToolOutput, ToolSpec, cut_end};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const SEARCH: &str = "mcp_search";
pub(crate) const CALL: &str = "mcp_call";

/// Maximum number of definitions in one answer.
const MOST_FOUND: usize = 8;
/// Time for which a search waits for servers that are being started.
const WAIT: Duration = Duration::from_secs(10);

pub(crate) fn tools(hub: &Arc<Hub>) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(Search::new(Arc::clone(hub))), Arc::new(Call::new(Arc::clone(hub)))]
}

struct Search {
    spec: ToolSpec,
    hub: Arc<Hub>,
}

impl Search {
    fn new(hub: Arc<Hub>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"query": {"type": "string", "description": "Words of what the tool should do, or the name of a tool or server. Empty: the servers and the names of their tools."}},
            "required": ["query"],
        });
        let servers = hub.servers();
        let enabled = servers.iter().filter(|server| server.state() != State::Disabled);
        let shown = enabled.map(|server| {
            let about = server.config.description.as_deref();
            let about = about.map(|text| format!(" ({})", cut_end(text.trim(), 200))).unwrap_or_default();
            format!("{}{about}", server.config.name)
        });
        let servers: Vec<String> = shown.collect();
        let text = format!(
            "Find tools of the MCP servers of this session: {}. Gives name, description and input schema of the best \
             matches; call one with mcp_call. Servers that are still being started are waited for.",
            servers.join(", ")
        );
        Self { spec: spec(SEARCH, &text, schema), hub }
    }
}

impl Tool for Search {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Value, _: &ToolEnv) -> Result<Access, String> {
        Ok(Access::session())
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let query = input.get("query").and_then(Value::as_str).unwrap_or_default().to_owned();
            tokio::select! {
                () = self.hub.wait_until_started(WAIT) => {}
                () = env.cancel.cancelled() => return ToolOutput::error("Interrupted."),
            }
            finish(ToolOutput::text(answer(&self.hub, &query)), Keep::Head, env)
        })
    }
}

fn answer(hub: &Hub, query: &str) -> String {
    let named = hub.named_tools();
    let words = words(query);
    let mut out = String::new();
    if words.is_empty() {
        for status in hub.statuses() {
            let _ = writeln!(out, "{} ({}): {}", status.name, status.state.word(), status.tools.join(", "));
        }
        return if out.is_empty() { "There is no MCP server in this session.".to_owned() } else { out };
    }
    let mut found: Vec<(u32, &NamedTool)> =
        named.iter().map(|tool| (score(tool, &words), tool)).filter(|(score, _)| *score > 0).collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    if found.is_empty() {
        let servers: Vec<String> =
            hub.statuses().into_iter().map(|s| format!("{} ({})", s.name, s.state.word())).collect();
        return format!(
            "No tool matches {}. Servers: {}. An empty query lists all names of tools.",
            becket_types::quoted(&query),
            servers.join(", ")
        );
    }
    for (_, tool) in found.iter().take(MOST_FOUND) {
        let Some(listed) = tool.listed() else { continue };
        let about = tool::description(&tool.server.config.name, &listed.tool.description);
        let _ = writeln!(out, "{}\n{about}\ninput schema: {}\n", tool.name, listed.schema);
    }
    let more: Vec<&str> =
        found.iter().skip(MOST_FOUND).take(40).map(|(_, tool)| tool.name.as_str()).collect();
    if !more.is_empty() {
        let _ = writeln!(out, "Further matches: {}", more.join(", "));
    }
    let _ = write!(out, "Call one with mcp_call {{\"tool\": NAME, \"arguments\": {{…}}}}.");
    out
}

fn words(query: &str) -> Vec<String> {
    let query = query.to_lowercase();
    query.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1).map(str::to_owned).collect()
}

/// Returns the score of a tool. Words in the name count most, then words in the description.
fn score(tool: &NamedTool, words: &[String]) -> u32 {
    let name = tool.name.to_lowercase();
    let about = tool.listed().map(|listed| listed.tool.description.to_lowercase()).unwrap_or_default();
    let about = cut_end(&about, 4_096);
    words.iter().map(|word| u32::from(name.contains(word)) * 4 + u32::from(about.contains(word))).sum()
}

struct Call {
    spec: ToolSpec,
    hub: Arc<Hub>,
}

impl Call {
    fn new(hub: Arc<Hub>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "tool": {"type": "string", "description": "Name of the tool, as mcp_search gives it."},
                "arguments": {"type": "object", "description": "Input of the tool, by its input schema."},
            },
            "required": ["tool"],
        });
        Self { spec: spec(CALL, "Call a tool that mcp_search found.", schema), hub }
    }

    fn parse_target(input: &Value) -> Option<(String, Value)> {
        let tool = input.get("tool").and_then(Value::as_str)?;
        let arguments = match input.get("arguments") {
            // Some models send the arguments as a string of JSON.
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| json!({})),
            Some(arguments) => arguments.clone(),
            None => json!({}),
        };
        Some((tool.to_owned(), arguments))
    }
}

impl Tool for Call {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn stands_for(&self, input: &Value) -> Option<(String, Value)> {
        // Only tools of servers can be called in this way; other tools have to be called by their own names.
        Self::parse_target(input).filter(|(tool, _)| tool.to_ascii_lowercase().starts_with("mcp__"))
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        let names: Vec<String> = self.hub.named_tools().into_iter().map(|tool| tool.name).collect();
        let asked = Self::parse_target(input).map(|(tool, _)| tool).unwrap_or_default();
        let near = becket_tool::text::nearest(&asked, names.iter().map(String::as_str));
        let near = near.map(|name| format!(" Did you mean {name}?")).unwrap_or_default();
        Err(format!(
            "mcp_call needs the name of a tool of an MCP server, and {asked:?} is none.{near} Find it with mcp_search."
        ))
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async { ToolOutput::error("Not run: mcp_call stands for another tool.") })
    }
}

/// Stands for a tool of a server that has not listed its tools yet. A call waits for the server.
pub(crate) struct DeferredTool {
    spec: ToolSpec,
    server: Arc<Server>,
    hub: Arc<Hub>,
}

impl DeferredTool {
    pub(crate) fn new(name: &str, server: Arc<Server>, hub: Arc<Hub>) -> Self {
        Self { spec: spec(name, "", json!({"type": "object"})), server, hub }
    }
}

impl Tool for DeferredTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        tool::arguments(input)?;
        Ok(tool::access(&self.spec.name))
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let ready = tokio::select! {
                ready = self.server.ready() => ready,
                () = env.cancel.cancelled() => return ToolOutput::error("Interrupted before the server was ready."),
            };
            let name = &self.server.config.name;
            if let Err(why) = ready {
                return ToolOutput::error(format!("Not called: the MCP server {name} {why}."));
            }
            let named = self.hub.named_tools();
            match named.iter().find(|tool| tool.name.eq_ignore_ascii_case(&self.spec.name)) {
                Some(tool) => match tool.listed() {
                    Some(listed) => tool::run(&self.server, &listed.tool.name, input, env).await,
                    None => ToolOutput::error("The server has just changed its tools."),
                },
                None => {
                    let prefix = format!("mcp__{}__", naming::server_part(name));
                    let tools: Vec<&str> =
                        named.iter().map(|t| t.name.as_str()).filter(|t| t.starts_with(&prefix)).collect();
                    ToolOutput::error(format!(
                        "The MCP server {name} has no tool {}. Tools: {}.",
                        self.spec.name,
                        tools.join(", ")
                    ))
                }
            }
        })
    }
}
