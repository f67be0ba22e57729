//! Kinds of agents: the tools of a subagent, its mode and limits, and its part of the system prompt.
//!
//! Owns the choice of tools of a kind, also among tools that come while the session runs, and its permission mode. A kind
//! grants no right by itself: the driver applies it to a copy of the session's guard.

use becket_tool::{OfferedTool, Tool, ToolSource};
use becket_types::PermissionMode;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name on the wire of the tool that starts subagents.
pub const TASK: &str = "task";

/// Last part of a subagent's system prompt.
const INSTRUCTION: &str = "\
# Subagent
You work on one task for another agent. Nobody answers questions. Your last message is all that it gets: make it complete \
and brief: what you did or found, places as `path:line`, what failed, what you did not check.";

/// The file in a memory folder that a kind is shown at its start, and the limits on what is shown of it.
const MEMORY_INDEX: &str = "MEMORY.md";
const MEMORY_LINES: usize = 200;
const MEMORY_BYTES: u64 = 25_000;

/// The tools by which deferred tools of MCP servers are found and called. They name no server.
const INDIRECT: [&str; 2] = ["mcp_search", "mcp_call"];

/// A kind of subagent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Name in lower case. The model uses it to choose this kind.
    pub name: String,
    /// Advice for the model when to use this kind.
    pub description: String,
    /// Text appended to the system prompt of such a subagent.
    pub prompt: String,
    /// Names of the tools that such a subagent may use; `None`: all. Case and `_` are ignored. `mcp__SERVER` names all
    /// tools of a server.
    pub tools: Option<Vec<String>>,
    /// Names of tools that it may not use, in the same form as in `tools`. As in a deny rule, `edit` names every tool that changes
    /// files.
    pub without: Vec<String>,
    /// The MCP servers whose tools such a subagent may use, whatever `tools` says; `None`: `tools` decides.
    pub servers: Option<Vec<String>>,
    /// `provider/name` or an alias; `None`: the model of the agent for which the subagent works.
    pub model: Option<String>,
    pub run: KindRun,
    /// True if such a subagent changes nothing: its permission mode is `plan`, whatever else is allowed. Several may then
    /// run in parallel.
    pub read_only: bool,
}

/// Settings of a kind's runs. A setting that is not given is the session's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindRun {
    pub effort: Option<String>,
    /// The permission mode; `None`: the one of the session. [`Kind::mode`] limits it.
    pub mode: Option<PermissionMode>,
    /// Maximum number of answered requests. The session's limit applies if it is lower.
    pub max_turns: Option<u64>,
    /// True if such a subagent always runs in the background.
    pub background: bool,
    /// The folder in which such subagents keep notes from run to run. They may read and write there without a question.
    pub memory: Option<PathBuf>,
}

impl Kind {
    /// Returns the kinds that always exist.
    pub fn built_in() -> Vec<Self> {
        let kind = |name: &str, description: &str, read_only| Self {
            name: name.to_owned(),
            description: description.to_owned(),
            read_only,
            ..Self::default()
        };
        vec![
            kind("explore", "only reads; several run side by side", true),
            kind("general", "has all tools", false),
        ]
    }

    /// True if subagents of this kind have this tool. A subagent cannot start subagents.
    pub(crate) fn has(&self, tool: &str) -> bool {
        tool != TASK && self.offers(tool)
    }

    /// True if this kind, as the agent of a session, has this tool.
    pub fn offers(&self, tool: &str) -> bool {
        let among = |names: &[String]| names.iter().any(|name| names_tool(name, tool));
        if self.lacks(tool) {
            return false;
        }
        let by_name = self.tools.as_deref().is_none_or(among);
        match (&self.servers, is_of_server(tool)) {
            (Some(servers), true) => servers.iter().any(|server| server_has(server, tool)),
            _ => by_name,
        }
    }

    /// True if the definition takes this tool away. A name means what it means in a deny rule, so that a list that takes `Edit`
    /// away leaves no other tool that changes files.
    fn lacks(&self, tool: &str) -> bool {
        let covers = |name: &String| becket_guard::Rule::parse(name).is_ok_and(|rule| rule.covers_tool(tool));
        self.without.iter().any(|name| names_tool(name, tool) || covers(name))
    }

    /// Returns the permission mode of such a subagent while the session is in `session`. Nothing widens a mode that denies,
    /// and only the session itself can be in `bypassPermissions`.
    pub fn mode(&self, session: PermissionMode) -> PermissionMode {
        use PermissionMode::{BypassPermissions, DontAsk, Plan};
        match (session, self.run.mode) {
            _ if self.read_only => Plan,
            (_, None | Some(BypassPermissions)) => session,
            (Plan | DontAsk, Some(own)) if own != Plan => session,
            (_, Some(own)) => own,
        }
    }

    /// Returns the text appended to the system prompt of such a subagent. Reads the index of its memory from disk.
    pub(crate) fn instruction(&self) -> String {
        let mut out = INSTRUCTION.to_owned();
        self.push_own_prompt(&mut out);
        out
    }

    /// Returns the text for a session whose agent is of this kind.
    pub fn session_prompt(&self) -> String {
        let mut out = String::new();
        self.push_own_prompt(&mut out);
        out.trim_start().to_owned()
    }

    fn push_own_prompt(&self, out: &mut String) {
        let own = self.prompt.trim();
        if !own.is_empty() {
            let _ = write!(out, "\n\n{own}");
        }
        if let Some(folder) = &self.run.memory {
            let _ = write!(out, "\n\n{}", memory(folder));
        }
    }

    /// Returns rules that let such a subagent use its memory without a question.
    pub fn memory_rules(&self) -> Vec<String> {
        let Some(folder) = &self.run.memory else { return Vec::new() };
        let pattern = folder.to_string_lossy();
        // A folder whose name is itself a pattern gets no rule, so its use is asked about.
        if pattern.contains(['*', '?', '[', ']', '{', '}', '(', ')', '\\', '!']) {
            return Vec::new();
        }
        ["Read", "Edit"].iter().map(|tool| format!("{tool}(/{pattern}/**)")).collect()
    }
}

/// Returns the part of the system prompt about a kind's memory.
fn memory(folder: &Path) -> String {
    let mut out = format!(
        "# Memory\nYour notes from earlier runs are in {}. Look there before you begin. Before you end, keep what will help \
         next time, and correct what is wrong. Its {MEMORY_INDEX} is shown to you at each start (first {MEMORY_LINES} lines): \
         keep it short, and put details into other files there.",
        folder.display()
    );
    let text = memory_text(folder).unwrap_or_default();
    let shown: Vec<&str> = text.lines().take(MEMORY_LINES).collect();
    if shown.is_empty() {
        out.push_str(" It is empty.");
    } else {
        let _ = write!(out, "\n\n<memory>\n{}\n</memory>", shown.join("\n"));
    }
    out
}

/// Returns the index of the notes. A link is not followed: a project could let it lead to any file of the user's.
fn memory_text(folder: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let file = becket_files::dir::Dir::open(&folder.canonicalize()?)?.read(MEMORY_INDEX.as_ref())?;
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(MEMORY_BYTES).read_to_end(&mut bytes)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "")
}

fn is_of_server(tool: &str) -> bool {
    tool.to_ascii_lowercase().starts_with("mcp__")
}

/// True if this entry of a list names the tool: by its name, or as one of a server.
fn names_tool(entry: &str, tool: &str) -> bool {
    let server = entry.strip_suffix("__*").or_else(|| entry.strip_suffix("*")).unwrap_or(entry);
    let of_server = server.to_ascii_lowercase();
    let of_server = of_server.strip_prefix("mcp__").filter(|rest| !rest.contains("__"));
    of_server.is_some_and(|server| server_has(server, tool)) || plain(entry) == plain(tool)
}

/// True if the tool is one of this MCP server.
fn server_has(server: &str, tool: &str) -> bool {
    let part: String =
        server
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c.to_ascii_lowercase() } else { '_' }
            })
            .collect();
    tool.to_ascii_lowercase()
        .strip_prefix("mcp__")
        .and_then(|rest| rest.strip_prefix(&part))
        .is_some_and(|rest| rest.starts_with("__"))
}

/// The tools of a source that a kind has.
#[derive(Debug)]
pub struct KindTools {
    pub source: Arc<dyn ToolSource>,
    pub kind: Kind,
}

impl KindTools {
    fn has(&self, tool: &str) -> bool {
        self.kind.has(tool) || INDIRECT.contains(&tool) && self.is_open() && !self.kind.lacks(tool)
    }

    /// True if the kind may have tools of servers, so that searching them makes sense. A search names other tools too, but
    /// calls of those are refused.
    fn is_open(&self) -> bool {
        match &self.kind.servers {
            Some(servers) => !servers.is_empty(),
            None => self.kind.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| is_of_server(name))),
        }
    }
}

impl ToolSource for KindTools {
    fn generation(&self) -> u64 {
        self.source.generation()
    }

    fn tools(&self) -> Vec<OfferedTool> {
        let mut tools = self.source.tools();
        tools.retain(|offer| self.has(&offer.tool.spec().name));
        tools
    }

    fn late(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.source.late(name).filter(|_| self.kind.has(name))
    }

    fn whole(&self) -> Option<Arc<dyn ToolSource>> {
        self.source.whole().or_else(|| Some(Arc::clone(&self.source)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_kind_has_the_tools_that_it_names() {
        let all = ["web_fetch", "bash", "read", "task", "mcp__a__x", "mcp__ab__x"];
        let has = |kind: &Kind| -> Vec<&str> { all.into_iter().filter(|tool| kind.has(tool)).collect() };
        for (kind, want) in [
            (Kind::default(), &["web_fetch", "bash", "read", "mcp__a__x", "mcp__ab__x"][..]),
            (
                Kind { tools: Some(list(&["webfetch", "Bash", "task"])), ..Kind::default() },
                &["web_fetch", "bash"],
            ),
            (
                Kind { without: list(&["Web_Fetch", "mcp__a"]), ..Kind::default() },
                &["bash", "read", "mcp__ab__x"],
            ),
            (Kind { tools: Some(list(&["read", "mcp__a__*"])), ..Kind::default() }, &["read", "mcp__a__x"]),
            (Kind { tools: Some(list(&["mcp__ab__x"])), ..Kind::default() }, &["mcp__ab__x"]),
            (
                Kind { tools: Some(list(&["read"])), servers: Some(list(&["a"])), ..Kind::default() },
                &["read", "mcp__a__x"],
            ),
            (Kind { servers: Some(Vec::new()), ..Kind::default() }, &["web_fetch", "bash", "read"]),
        ] {
            assert_eq!(has(&kind), want, "{kind:?}");
        }
        assert!(Kind::default().offers(TASK));
    }

    /// A name takes away what a deny rule of that name denies.
    #[test]
    fn a_kind_without_edit_has_no_tool_that_changes_files() {
        let all =
            ["edit", "multi_edit", "write", "apply_patch", "notebook_edit", "read", "bash", "mcp__a__edit"];
        for (without, want) in [
            ("edit", &["read", "bash", "mcp__a__edit"][..]),
            ("Edit", &["read", "bash", "mcp__a__edit"]),
            (
                "multi_edit",
                &["edit", "write", "apply_patch", "notebook_edit", "read", "bash", "mcp__a__edit"],
            ),
            ("MultiEdit", &["edit", "write", "apply_patch", "notebook_edit", "read", "bash", "mcp__a__edit"]),
            (
                "write",
                &["edit", "multi_edit", "apply_patch", "notebook_edit", "read", "bash", "mcp__a__edit"],
            ),
            ("mcp__*", &["edit", "multi_edit", "write", "apply_patch", "notebook_edit", "read", "bash"]),
        ] {
            let kind = Kind { without: list(&[without]), ..Kind::default() };
            let has: Vec<&str> = all.into_iter().filter(|tool| kind.has(tool)).collect();
            assert_eq!(has, want, "{without}");
        }
    }

    #[test]
    fn a_mode_of_its_own_widens_no_mode_that_denies() {
        use PermissionMode::{AcceptEdits, Auto, BypassPermissions, Default, DontAsk, Plan};
        for (own, session, want) in [
            (None, Auto, Auto),
            (Some(Plan), Default, Plan),
            (Some(Plan), DontAsk, Plan),
            (Some(AcceptEdits), Default, AcceptEdits),
            (Some(AcceptEdits), Plan, Plan),
            (Some(AcceptEdits), DontAsk, DontAsk),
            (Some(Default), BypassPermissions, Default),
            (Some(BypassPermissions), AcceptEdits, AcceptEdits),
            (Some(BypassPermissions), BypassPermissions, BypassPermissions),
            (Some(DontAsk), Auto, DontAsk),
        ] {
            let kind = Kind { run: KindRun { mode: own, ..KindRun::default() }, ..Kind::default() };
            assert_eq!(kind.mode(session), want, "{own:?} in {session}");
            assert_eq!(Kind { read_only: true, ..kind }.mode(session), Plan);
        }
    }

    #[test]
    fn its_memory_is_shown_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("my notes");
        let run = KindRun { memory: Some(folder.clone()), ..KindRun::default() };
        let kind = Kind { prompt: "Be strict.\n".to_owned(), run, ..Kind::default() };
        assert!(kind.instruction().contains("did not check.\n\nBe strict.\n\n# Memory\n"));
        assert!(
            kind.session_prompt().starts_with("Be strict.")
                && kind.session_prompt().ends_with("It is empty.")
        );
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(MEMORY_INDEX), "line\n".repeat(300)).unwrap();
        let text = kind.instruction();
        assert!(
            text.ends_with("line\n</memory>") && text.matches("\nline").count() == MEMORY_LINES,
            "{text}"
        );
        std::fs::write(dir.path().join("elsewhere"), "OUTSIDE\n").unwrap();
        std::fs::remove_file(folder.join(MEMORY_INDEX)).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), folder.join(MEMORY_INDEX)).unwrap();
        assert!(kind.instruction().ends_with("It is empty."), "a link is not followed");
        assert_eq!(
            kind.memory_rules(),
            [format!("Read(/{}/**)", folder.display()), format!("Edit(/{}/**)", folder.display()),]
        );
    }
}
