//! The page `/mcp`: states of MCP servers, their tools and their instructions. `/mcp reconnect NAME` opens a connection
//! again.

use crate::cmd::count;
use becket_mcp::{Hub, State};
use becket_tool::text::clean;
use becket_tui::input::{Custom, Reply};
use becket_types::{TurnTerms, cut_start};
use std::fmt::Write as _;
use std::sync::Arc;

/// Maximum number of bytes of a server's instructions on the page.
const MAX_INSTRUCTION_BYTES: usize = 1_000;

/// Returns the page. `reconnect`: the server to which the connection is opened again first.
pub(super) fn page(hub: Option<&Hub>, reconnect: Option<&str>) -> String {
    let Some(hub) = hub else {
        return "No MCP server is configured. Add one with `becket mcp add NAME -- COMMAND` or `becket mcp add NAME URL`; the \
                next session has it."
            .to_owned();
    };
    let mut out = String::new();
    if let Some(name) = reconnect {
        let known = hub.reconnect(name);
        let line = if known { "is being connected again" } else { "is not a server of this session" };
        let _ = writeln!(out, "{name} {line}.\n");
    }
    for status in hub.statuses() {
        let name = &status.name;
        let state = match &status.state {
            State::Connected { protocol } => format!(
                "connected, protocol {protocol}: {}, {}, {}",
                count(status.tools.len(), "tool"),
                count(status.resources, "resource"),
                count(status.prompts, "prompt")
            ),
            State::Failed(why) => format!("failed: {why}. `/mcp reconnect {name}` tries again"),
            State::NeedsAuth => {
                format!("needs an authorization: `becket mcp login {name}`, then `/mcp reconnect {name}`")
            }
            State::Pending => "being started".to_owned(),
            State::Disabled => "switched off in the configuration".to_owned(),
        };
        let _ = writeln!(out, "## {}\n\n`{}`\n\n{}\n", clean(name), clean(&status.shown), clean(&state));
        if !status.tools.is_empty() {
            let _ = writeln!(
                out,
                "{}\n",
                status.tools.iter().map(|t| format!("`{t}`")).collect::<Vec<_>>().join(" ")
            );
        }
        for note in &status.notes {
            let _ = writeln!(out, "- {}", clean(note));
        }
        let words = cut_start(status.stderr.trim_end(), MAX_INSTRUCTION_BYTES);
        if !words.trim().is_empty() {
            let _ = writeln!(out, "Log of the server:\n\n```\n{}\n```\n", clean(words).replace("```", "'''"));
        }
    }
    out
}

/// Returns the prompts of servers as commands.
pub(super) fn prompts(hub: Option<&Hub>) -> Vec<Custom> {
    let custom = |(name, description, arguments)| Custom { name, arguments, description };
    hub.map(crate::mcp::prompt_commands).unwrap_or_default().into_iter().map(custom).collect()
}

/// Returns the text of a server's prompt, or the reason why there is none.
pub(super) async fn prompt(hub: Option<Arc<Hub>>, name: String, arguments: String) -> Option<Reply> {
    let Some(hub) = hub else {
        return Some(Reply::Done(Err(format!("no MCP server has the prompt {name}"))));
    };
    let words: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
    Some(match crate::mcp::masked_prompt(&hub, &name, &words).await {
        Ok(text) => {
            let command = format!("/{name} {arguments}").trim().to_owned();
            Reply::Prompt { command, text, terms: TurnTerms::default() }
        }
        Err(why) => Reply::Done(Err(why)),
    })
}
