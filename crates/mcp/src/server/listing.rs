//! The lists of a server: its tools, resources and prompts, read page by page.
//!
//! Owns the limits of these lists, and the notes about lists that were cut. Keeps no connection, and does not decide when the lists
//! are read again.

use crate::schema;
use rmcp::model::{PaginatedRequestParams, Prompt, Resource, ResourceTemplate};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;

const MOST_PAGES: usize = 50;
const MOST_TOOLS: usize = 512;

/// A tool as the server lists it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolEntry {
    pub name: String,
    pub description: String,
    /// The server's hints about the tool: it only reads, it is destructive, it reaches beyond the server.
    pub hints: [Option<bool>; 3],
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListedTool {
    pub tool: ToolEntry,
    pub schema: Value,
    /// The schema as the server wrote it, if it was changed and is not too large.
    pub original: Option<Value>,
}

/// Everything that a server lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Listing {
    pub tools: Vec<ListedTool>,
    pub resources: Vec<Resource>,
    pub templates: Vec<ResourceTemplate>,
    pub prompts: Vec<Prompt>,
    pub notes: Vec<String>,
    pub instructions: Option<String>,
}

/// Reads all lists that the server announces.
pub(super) async fn list(server: &str, peer: &Peer<RoleClient>) -> Result<Listing, ServiceError> {
    let info = peer.peer_info();
    let capabilities = info.as_ref().map(|info| info.capabilities.clone()).unwrap_or_default();
    let mut out =
        Listing { instructions: info.and_then(|info| info.instructions.clone()), ..Listing::default() };
    // A server that announces no capabilities may still have tools. It is asked for them and may answer with an error.
    let nothing =
        capabilities.tools.is_none() && capabilities.resources.is_none() && capabilities.prompts.is_none();
    if capabilities.tools.is_some() || nothing {
        match list_tools(server, peer, &mut out).await {
            Err(ServiceError::McpError(_)) if nothing => {}
            other => other?,
        }
    }
    if capabilities.resources.is_some() {
        // These lists are optional: a server that fails here still has its tools.
        out.resources = peer.list_all_resources().await.unwrap_or_default();
        out.templates = peer.list_all_resource_templates().await.unwrap_or_default();
    }
    if capabilities.prompts.is_some() {
        out.prompts = peer.list_all_prompts().await.unwrap_or_default();
    }
    Ok(out)
}

async fn list_tools(server: &str, peer: &Peer<RoleClient>, out: &mut Listing) -> Result<(), ServiceError> {
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let params = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let page = peer.list_tools(params).await?;
        for tool in page.tools {
            if out.tools.len() == MOST_TOOLS {
                out.notes.push(format!("it lists more than {MOST_TOOLS} tools; the others are left out"));
                return Ok(());
            }
            let (schema, why) = schema::repaired(&tool.input_schema);
            let original = why.is_none().then(|| schema::original(&tool.input_schema, &schema)).flatten();
            if let Some(why) = why {
                out.notes.push(format!("the input schema of its tool {:?} is not used: {why}", tool.name));
            }
            let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
            let hints = tool.annotations.as_ref().map_or([None; 3], |hints| {
                [hints.read_only_hint, hints.destructive_hint, hints.open_world_hint]
            });
            out.tools.push(ListedTool {
                tool: ToolEntry { name: tool.name.to_string(), description: description.to_owned(), hints },
                schema,
                original,
            });
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
    out.notes.push(format!("the list of {server} has more than {MOST_PAGES} pages; the others are left out"));
    Ok(())
}
