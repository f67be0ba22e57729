//! `initialize`: the settings that a program sends before the first turn, and the answer.
//!
//! Its fields become settings of the run before the agent is built, so that the system prompt and the tools are right
//! from the first request on. Hooks that cannot be used and fields of a wrong form are refused with a reason, because a
//! host relies on them. Fields that becket does not use are named in a warning and in the answer.

use crate::agents;
use crate::assemble::Assembled;
use crate::settings::RunSettings;
use becket_hooks::{Group, Origin, Source};
use becket_print::Schema;
use serde_json::{Value, json};

/// Fields of the request that becket uses.
const FIELDS: [&str; 13] = [
    "subtype",
    "hooks",
    "systemPrompt",
    "appendSystemPrompt",
    "jsonSchema",
    "agents",
    "skills",
    "sdkMcpServers",
    "sdkMcpServerConfigs",
    "mcpServers",
    "title",
    "forwardSubagentText",
    "type",
];

/// An `initialize` request that waits for its answer.
#[derive(Debug)]
pub(super) struct Initialize {
    pub(super) request_id: String,
    /// Hooks that are functions of the program.
    pub(super) hooks: Vec<Group>,
    /// Fields that have no effect.
    pub(super) unused: Vec<String>,
    /// The request brings MCP servers, and the run uses them.
    pub(super) mcp_servers: bool,
    /// The reason if the request is refused. The run continues without it.
    pub(super) refused: Option<String>,
}

/// Applies the request to the run. Warnings are added to `notes`.
pub(super) fn apply(
    request_id: String,
    body: &Value,
    run: &mut RunSettings,
    notes: &mut Vec<String>,
) -> Initialize {
    let (mut hooks, wrong) = callbacks(body, notes);
    let refused = wrong.or_else(|| set(body, run, notes).err());
    if refused.is_some() {
        // A request that is refused has no effect at all.
        hooks.clear();
    }
    let mcp_servers = refused.is_none() && body.get("mcpServers").is_some_and(|servers| !is_empty(servers));
    let unused = unused(body);
    if !unused.is_empty() {
        notes.push(format!("initialize: becket does not use these fields: {}", unused.join(", ")));
    }
    Initialize { request_id, hooks, unused, mcp_servers, refused }
}

/// Returns the names of fields that have no effect here. A field without a value asks for nothing.
fn unused(body: &Value) -> Vec<String> {
    let fields = body.as_object().into_iter().flatten();
    let asks = fields.filter(|(name, value)| !FIELDS.contains(&name.as_str()) && !is_empty(value));
    asks.map(|(name, _)| name.clone()).collect()
}

/// True for a value with which a field asks for nothing.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Returns the hooks of a request, and the reason if they cannot be used. Each callback gets the program's id for it.
pub(super) fn callbacks(body: &Value, notes: &mut Vec<String>) -> (Vec<Group>, Option<String>) {
    let Some(events) = body.get("hooks").and_then(Value::as_object) else { return (Vec::new(), None) };
    let mut table = serde_json::Map::new();
    for (event, matchers) in events {
        let groups: Vec<Value> = matchers.as_array().into_iter().flatten().map(group).collect();
        table.insert(event.clone(), Value::Array(groups));
    }
    let source = Source { origin: Origin::Sdk, place: String::new(), confined: false };
    let parsed = becket_hooks::parse(&Value::Object(table), &source);
    // A host relies on its hooks. If only some are for unknown events, they cause a warning.
    let given = events.values().filter(|list| list.as_array().is_some_and(|list| !list.is_empty())).count();
    let wrong = (given > 0 && parsed.groups.is_empty() && !parsed.warnings.is_empty())
        .then(|| format!("initialize: {}", parsed.warnings.join("; ")));
    notes.extend(parsed.warnings);
    (parsed.groups, wrong)
}

fn group(matcher: &Value) -> Value {
    let ids = matcher.get("hookCallbackIds").and_then(Value::as_array);
    let timeout = matcher.get("timeout").filter(|timeout| timeout.is_number());
    let hooks: Vec<Value> = ids
        .into_iter()
        .flatten()
        .map(|id| {
            let mut hook = json!({ "type": "callback", "id": id });
            if let Some(timeout) = timeout {
                hook["timeout"] = timeout.clone();
            }
            hook
        })
        .collect();
    let mut group = json!({ "hooks": hooks });
    for key in ["matcher", "onFailure"] {
        if let Some(value) = matcher.get(key).filter(|value| !value.is_null()) {
            group[key] = value.clone();
        }
    }
    group
}

/// Applies the fields, or none of them: everything that can be refused is read first.
fn set(body: &Value, run: &mut RunSettings, notes: &mut Vec<String>) -> Result<(), String> {
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let field = |name: &str| body.get(name).filter(|value| !value.is_null());
    let prompt = field("systemPrompt").map(prompt_text).transpose()?;
    let compiled = |schema: &Value| Schema::compile(&schema.to_string());
    let schema = field("jsonSchema").map(compiled).transpose().map_err(|e| format!("initialize: {e}"))?;
    let given = field("agents").map(agents::of_json).transpose();
    let given = given.map_err(|why| format!("initialize: agents: {why}"))?;
    if let Some(prompt) = prompt {
        run.prompts.replace = Some(prompt);
    }
    if let Some(more) = text("appendSystemPrompt").filter(|more| !more.trim().is_empty()) {
        run.prompts.append = Some(more);
    }
    if let Some(schema) = schema {
        run.output.schema = Some(std::sync::Arc::new(schema));
    }
    if let Some((kinds, warnings)) = given {
        run.additions
            .agents
            .definitions
            .retain(|known| !kinds.iter().any(|kind| kind.kind.name == known.kind.name));
        run.additions.agents.definitions.splice(0..0, kinds);
        notes.extend(warnings);
    }
    if let Some(skills) = body.get("skills").and_then(Value::as_array) {
        run.additions.only_skills =
            Some(skills.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    }
    if let Some(servers) = body.get("sdkMcpServers").and_then(Value::as_array)
        && let Some(host) = &mut run.client.host_servers
    {
        host.names = servers.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    for (server, settings) in body.get("sdkMcpServerConfigs").and_then(Value::as_object).into_iter().flatten()
    {
        run.client.policies.add(server, settings);
    }
    if let Some(servers) = body.get("mcpServers").and_then(Value::as_object) {
        for (name, server) in servers {
            let config = json!({ "mcpServers": { name: server } });
            let problems = becket_mcp::config::parse(&config, &|_: &str| None).problems;
            // One server that cannot be used does not keep the others from being used.
            match problems.first().filter(|problem| !problem.contains("which does nothing")) {
                Some(problem) => notes.push(format!("initialize: {problem}")),
                None => run.additions.mcp.mcp_config.push(config.to_string()),
            }
        }
    }
    if let Some(title) = text("title") {
        run.session.title = Some(title);
    }
    run.output.subagent_text |= body.get("forwardSubagentText").and_then(Value::as_bool) == Some(true);
    Ok(())
}

/// Returns the system prompt as text: one text, or the joined parts of a list.
fn prompt_text(prompt: &Value) -> Result<String, String> {
    match prompt {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => Ok(parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n")),
        _ => Err("initialize: systemPrompt must be a text or a list of texts".to_owned()),
    }
}

/// Returns the answer to `initialize`.
pub(super) fn answer(assembled: &Assembled) -> Value {
    let agents: Vec<Value> = assembled
        .offers
        .agents
        .iter()
        .map(|(name, about)| json!({ "name": name, "description": about }))
        .collect();
    let commands: Vec<Value> = assembled
        .offers
        .commands
        .iter()
        .map(|(name, about, hint)| json!({ "name": name, "description": about, "argumentHint": hint }))
        .collect();
    let settings = assembled.models.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    let models = super::control::models(&assembled.opening.model, &settings);
    json!({
        "commands": commands, "agents": agents, "output_style": "default", "available_output_styles": ["default"],
        "models": models,
        "hook_on_failure_supported": true, "hooks_applied": true,
        "account": { "apiKeySource": assembled.offers.api_key_source },
        "claude_code_version": becket_print::CLAUDE_CODE_VERSION, "becket_version": env!("CARGO_PKG_VERSION"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_become_hooks() {
        let body = json!({ "hooks": {
            "PreToolUse": [{ "matcher": "Bash", "hookCallbackIds": ["hook_0", "hook_1"], "timeout": 5, "onFailure": "block" }],
            "Stop": [{ "matcher": null, "hookCallbackIds": ["hook_2"] }],
        } });
        let (groups, wrong) = callbacks(&body, &mut Vec::new());
        assert_eq!((groups.len(), wrong), (2, None));
        let handlers: usize = groups.iter().map(|group| group.handlers.len()).sum();
        assert_eq!(handlers, 3);
        assert!(groups.iter().any(|group| group.handlers.iter().all(|handler| handler.fails_closed)));
        let (groups, wrong) = callbacks(&json!({ "hooks": null }), &mut Vec::new());
        assert!(groups.is_empty() && wrong.is_none());
    }

    #[test]
    fn fields_without_an_effect_are_named() {
        let body = json!({
            "subtype": "initialize", "hooks": null, "title": "t", "promptSuggestions": true, "excluded": [],
            "planMode": false, "toolAliases": { "a": "b" }, "none": null,
        });
        assert_eq!(unused(&body), ["promptSuggestions", "toolAliases"]);
    }

    #[test]
    fn a_system_prompt_comes_in_two_forms() {
        assert_eq!(prompt_text(&json!("a")), Ok("a".into()));
        assert_eq!(prompt_text(&json!(["a", "b"])), Ok("a\n\nb".into()));
        assert_eq!(prompt_text(&json!([""])), Ok(String::new()));
        assert!(prompt_text(&json!(3)).is_err());
    }
}
