//! `initialize`: the settings that a program sends before the first turn, and the answer.
//!
//! Its fields become settings of the run before the agent is built, so that the system prompt and the tools are right
//! from the first request on. Hooks that cannot be used and fields of a wrong form are refused with a reason, because a
//! host relies on them. Fields that becket does not use are named in a warning and in the answer.

use super::known_commands::with_local;
use crate::agents::{self, Definition};
use crate::assemble::Assembled;
use crate::plugins::{PluginDir, Plugins};
use crate::settings::{RunSettings, SystemPrompts};
use becket_hooks::{Group, Origin, Source};
use becket_print::Schema;
use becket_types::quoted;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Fields of the request that becket uses.
const FIELDS: [&str; 23] = [
    "subtype",
    "hooks",
    "systemPrompt",
    "appendSystemPrompt",
    "appendSubagentSystemPrompt",
    "jsonSchema",
    "agents",
    "skills",
    "sdkMcpServers",
    "sdkMcpServerConfigs",
    // The list of the servers' tools. becket does not need it, because it asks the servers themselves for their tools.
    "sdkMcpServerManifests",
    "mcpServers",
    "title",
    "forwardSubagentText",
    "plugins",
    "managedSettings",
    "settings",
    "disallowedTools",
    "excludeDynamicSections",
    "planModeInstructions",
    "toolAliases",
    // Asks that an interrupt spares subagents in the background, which becket always does; `stop_task` ends each.
    "perTaskStopAffordance",
    "type",
];

/// Fields that becket cannot carry out, each with the reason or with what to use instead.
const UNSUPPORTED_FIELDS: [(&str, &str); 2] = [
    (
        "agentProgressSummaries",
        "`task_progress` names the calls of a subagent, and no model is asked about them",
    ),
    ("promptSuggestions", "becket suggests no prompts"),
];

/// An `initialize` request that waits for its answer.
#[derive(Debug)]
pub(super) struct Initialize {
    pub(super) request_id: String,
    /// Hooks that are functions of the driving program.
    pub(super) hooks: Vec<Group>,
    /// Fields that have no effect.
    pub(super) unused: Vec<String>,
    /// The plugins that the request names.
    pub(super) plugins: Vec<PluginDir>,
    /// The reason if the request is refused. The run continues without it.
    pub(super) refused: Option<String>,
    /// The whole request. A program may send it again.
    pub body: Value,
}

impl Initialize {
    /// Confirms in the answer which settings, servers and plugins of the request were applied. An SDK ends the session if the
    /// answer lacks these fields.
    fn confirm(&self, answer: &mut Value) {
        let is_given = |name: &str| self.body.get(name).is_some_and(|value| !value.is_null());
        if self.body.get("mcpServers").is_some_and(|servers| !is_empty(servers)) {
            answer["mcp_servers_applied"] = json!(true);
        }
        for (name, confirmed) in [
            ("settings", "settings_applied"),
            ("disallowedTools", "disallowed_tools_applied"),
            ("managedSettings", "managed_settings_applied"),
        ] {
            if is_given(name) {
                answer[confirmed] = json!(true);
            }
        }
        if !self.plugins.is_empty() {
            let errors = answer["plugin_errors"].as_array();
            let loaded = errors.is_none_or(|errors| errors.iter().all(|error| error["path"].is_null()));
            answer["plugins_applied"] = json!(loaded);
        }
    }
}

/// Applies the request to the run, or refuses it as a whole. Warnings are added to `notes`. `variable`: values of variables,
/// which the configuration of a server may name.
pub(super) fn apply(
    request_id: String,
    body: &Value,
    variable: &dyn Fn(&str) -> Option<String>,
    run: &mut RunSettings,
    notes: &mut Vec<String>,
) -> Initialize {
    let (mut fields, refused) = match Fields::read(body, variable) {
        Ok(fields) => (fields, None),
        Err(why) => (Fields::default(), Some(format!("initialize: {why}"))),
    };
    let hooks = std::mem::take(&mut fields.hooks);
    let plugins = std::mem::take(&mut fields.plugins);
    fields.apply(run, notes);
    let unused = unused(body);
    notes.extend(about_unused(&unused));
    Initialize { request_id, hooks, unused, plugins, refused, body: body.clone() }
}

/// Returns the names of fields that have no effect here. A field without a value asks for nothing.
fn unused(body: &Value) -> Vec<String> {
    let fields = body.as_object().into_iter().flatten();
    // `systemPromptSnapshot: true` asks that the session keeps its system prompt, which becket always does.
    let is_so = |name: &str, value: &Value| name == "systemPromptSnapshot" && *value == json!(true);
    let asks = fields.filter(|(name, value)| {
        !FIELDS.contains(&name.as_str())
            && (!is_empty(value) || *name == "systemPromptSnapshot")
            && !value.is_null()
            && !is_so(name, value)
    });
    asks.map(|(name, _)| name.clone()).collect()
}

/// Returns a line for each field whose reason is known, and one for all others.
fn about_unused(unused: &[String]) -> Vec<String> {
    let reason = |name: &String| UNSUPPORTED_FIELDS.iter().find(|(known, _)| known == name);
    let known = unused.iter().filter_map(reason);
    let mut out: Vec<String> =
        known.map(|(name, why)| format!("initialize: {name} has no effect: {why}")).collect();
    let others: Vec<&str> = unused.iter().filter(|name| reason(name).is_none()).map(String::as_str).collect();
    if !others.is_empty() {
        out.push(format!("initialize: becket does not use these fields: {}", others.join(", ")));
    }
    out
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

/// The fields of a request. All of them are read before the first is applied, so that a refused request has no effect.
#[derive(Default)]
struct Fields {
    hooks: Vec<Group>,
    prompts: SystemPrompts,
    schema: Option<Schema>,
    /// Definitions of agents, and notes about them.
    agents: Option<(Vec<Definition>, Vec<String>)>,
    skills: Option<Vec<String>>,
    /// Names of the servers in the driving program's own process.
    host_servers: Option<Vec<String>>,
    /// Configurations of other servers, each with one server, and notes about them.
    servers: (Vec<String>, Vec<String>),
    title: Option<String>,
    subagent_text: bool,
    /// Other names that the driving program gives to tools, each with becket's own name of the tool.
    aliases: BTreeMap<String, String>,
    /// Settings of servers in the driving program's own process, by name.
    policies: Vec<(String, Value)>,
    plugins: Vec<PluginDir>,
}

impl Fields {
    /// Reads the fields. A host relies on each of them, so a value that cannot be used is an error. `null` gives no value.
    fn read(body: &Value, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let field = |name: &str| body.get(name).filter(|value| !value.is_null());
        let text = |name: &str| {
            let read = |value: &Value| {
                value.as_str().map(str::to_owned).ok_or_else(|| wrong(name, "a string", value))
            };
            field(name).map(read).transpose()
        };
        let list = |name: &str| field(name).map(|value| texts(name, value)).transpose();
        let schema = field("jsonSchema").map(|schema| Schema::compile(&schema.to_string()));
        let agents = field("agents").map(agents::parse_agents).transpose();
        let flag = |name: &str| match field(name) {
            Some(Value::Bool(wanted)) => Ok(*wanted),
            Some(other) => Err(wrong(name, "true or false", other)),
            None => Ok(false),
        };
        Ok(Self {
            hooks: field("hooks").map_or_else(|| Ok(Vec::new()), callbacks)?,
            prompts: SystemPrompts {
                replace: field("systemPrompt").map(prompt_text).transpose()?,
                append: text("appendSystemPrompt")?.filter(|more| !more.trim().is_empty()),
                append_to_subagents: text("appendSubagentSystemPrompt")?
                    .filter(|more| !more.trim().is_empty()),
                environment_as_message: flag("excludeDynamicSections")?,
                plan: text("planModeInstructions")?.filter(|plan| !plan.trim().is_empty()),
            },
            schema: schema.transpose().map_err(|e| e.to_string())?,
            agents: agents.map_err(|why| format!("agents: {why}"))?,
            skills: list("skills")?,
            host_servers: list("sdkMcpServers")?,
            servers: servers(body.get("mcpServers"), variable)?,
            title: text("title")?,
            subagent_text: flag("forwardSubagentText")?,
            aliases: field("toolAliases").map_or_else(|| Ok(BTreeMap::new()), aliases)?,
            policies: policies(field("sdkMcpServerConfigs"))?,
            plugins: field("plugins").map_or_else(|| Ok(Vec::new()), plugins)?,
        })
    }

    fn apply(self, run: &mut RunSettings, notes: &mut Vec<String>) {
        let (given, known) = (self.prompts, &mut run.prompts);
        known.replace = given.replace.or(known.replace.take());
        known.append = given.append.or(known.append.take());
        known.append_to_subagents = given.append_to_subagents.or(known.append_to_subagents.take());
        known.plan = given.plan.or(known.plan.take());
        known.environment_as_message |= given.environment_as_message;
        if let Some(schema) = self.schema {
            run.output.schema = Some(std::sync::Arc::new(schema));
        }
        if let Some((kinds, warnings)) = self.agents {
            let definitions = &mut run.additions.agents.definitions;
            definitions.retain(|known| !kinds.iter().any(|kind| kind.kind.name == known.kind.name));
            definitions.splice(0..0, kinds);
            notes.extend(warnings);
        }
        if let Some(skills) = self.skills {
            run.additions.only_skills = Some(skills);
        }
        if let Some(names) = self.host_servers
            && let Some(host) = &mut run.client.host_servers
        {
            host.names = names;
        }
        let (servers, about_servers) = self.servers;
        run.additions.mcp.mcp_config.extend(servers);
        notes.extend(about_servers);
        if let Some(title) = self.title {
            run.session.title = Some(title);
        }
        run.output.subagent_text |= self.subagent_text;
        run.additions.tool_aliases.extend(self.aliases);
        for (server, settings) in &self.policies {
            run.client.policies.add(server, settings);
        }
    }
}

/// Returns the reason for refusing a value of another form. Only its beginning is shown.
pub(super) fn wrong(name: &str, form: &str, value: &Value) -> String {
    const SHOWN: usize = 60;
    let value = value.to_string();
    let shown: String = value.chars().take(SHOWN).collect();
    let cut = if shown.len() < value.len() { "…" } else { "" };
    format!("{name} must be {form}, not {shown}{cut}")
}

/// Returns the folders of plugins: `[{type: "local", path, skipMcpDiscovery?}]`.
fn plugins(given: &Value) -> Result<Vec<PluginDir>, String> {
    let wrong = || wrong("plugins", "a list of {type: \"local\", path}", given);
    let one = |plugin: &Value| {
        let path = plugin["path"].as_str().filter(|_| plugin["type"] == "local").ok_or_else(wrong)?;
        Ok(PluginDir { path: path.into(), servers: plugin["skipMcpDiscovery"] != true })
    };
    given.as_array().ok_or_else(wrong)?.iter().map(one).collect()
}

/// Returns the other names that the driving program gives to tools, each with becket's own name of the tool.
fn aliases(given: &Value) -> Result<BTreeMap<String, String>, String> {
    let wrong = || wrong("toolAliases", "an object of tools by name", given);
    let one = |(name, tool): (&String, &Value)| {
        let tool = tool.as_str().ok_or_else(wrong)?;
        Ok((name.clone(), becket_types::sdk_names::own_name(tool).into_owned()))
    };
    given.as_object().ok_or_else(wrong)?.iter().map(one).collect()
}

/// Returns the settings of each server.
fn policies(given: Option<&Value>) -> Result<Vec<(String, Value)>, String> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let servers = given
        .as_object()
        .ok_or_else(|| wrong("sdkMcpServerConfigs", "an object of servers by name", given))?;
    Ok(servers.iter().map(|(server, settings)| (server.clone(), settings.clone())).collect())
}

/// Returns a list of strings.
fn texts(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let read = |item: &Value| item.as_str().map(str::to_owned);
    let list = value.as_array().and_then(|items| items.iter().map(read).collect());
    list.ok_or_else(|| wrong(name, "a list of strings", value))
}

/// Returns the hooks of a request. Each callback gets the driving program's id for it.
pub(super) fn callbacks(hooks: &Value) -> Result<Vec<Group>, String> {
    if is_empty(hooks) {
        return Ok(Vec::new());
    }
    let events = hooks.as_object().ok_or_else(|| wrong("hooks", "an object of events", hooks))?;
    let mut table = serde_json::Map::new();
    // An event without hooks asks for nothing, even if becket does not know it.
    for (event, matchers) in events.iter().filter(|(_, matchers)| !is_empty(matchers)) {
        let name = format!("hooks.{event}");
        let matchers = matchers
            .as_array()
            .ok_or_else(|| wrong(&name, "a list of groups with hookCallbackIds", matchers))?;
        let groups: Result<Vec<Value>, String> =
            matchers.iter().map(|matcher| group(&name, matcher)).collect();
        table.insert(event.clone(), Value::Array(groups?));
    }
    let source = Source { origin: Origin::Sdk, place: String::new(), confined: false };
    let parsed = becket_hooks::parse(&Value::Object(table), &source);
    if !parsed.warnings.is_empty() {
        return Err(parsed.warnings.join("; "));
    }
    Ok(parsed.groups)
}

/// Returns one group in the form that configuration files have.
fn group(name: &str, matcher: &Value) -> Result<Value, String> {
    let ids = matcher.get("hookCallbackIds").ok_or_else(|| {
        format!("a group of {}", wrong(name, "an object with the list hookCallbackIds", matcher))
    })?;
    let value = |key: &str| matcher.get(key).filter(|value| !value.is_null());
    let hooks: Vec<Value> = texts("hookCallbackIds", ids)?
        .into_iter()
        .map(|id| {
            let mut hook = json!({ "type": "callback", "id": id });
            if let Some(timeout) = value("timeout") {
                hook["timeout"] = timeout.clone();
            }
            hook
        })
        .collect();
    let mut group = json!({ "hooks": hooks });
    for key in ["matcher", "onFailure"] {
        if let Some(text) = value(key) {
            let is_text = text.is_string();
            group[key] = is_text
                .then(|| text.clone())
                .ok_or_else(|| wrong(&format!("{name}: {key}"), "a string", text))?;
        }
    }
    Ok(group)
}

/// Returns the configurations of servers, one by one, and notes about keys that do nothing.
fn servers(
    servers: Option<&Value>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(Vec<String>, Vec<String>), String> {
    let (mut configs, mut notes) = (Vec::new(), Vec::new());
    let Some(servers) = servers.filter(|servers| !is_empty(servers)) else { return Ok((configs, notes)) };
    let servers =
        servers.as_object().ok_or_else(|| wrong("mcpServers", "an object of servers by name", servers))?;
    for (name, server) in servers {
        let (_, odd) = becket_mcp::config::server(name, server, variable)
            .map_err(|why| format!("mcpServers: {name} cannot be used: {why}", name = quoted(&name)))?;
        notes.extend(odd.into_iter().map(|odd| format!("initialize: {odd}")));
        configs.push(json!({ "mcpServers": { name: server } }).to_string());
    }
    Ok((configs, notes))
}

/// Returns the system prompt as text: one text, or the joined parts of a list.
fn prompt_text(prompt: &Value) -> Result<String, String> {
    match prompt {
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) => Ok(texts("systemPrompt", prompt)?.join("\n\n")),
        _ => Err(wrong("systemPrompt", "a string or a list of strings", prompt)),
    }
}

/// Returns the answer to `initialize`. `request`: the request, if the program has sent one.
pub(super) fn answer(assembled: &Assembled, plugins: &Plugins, request: Option<&Initialize>) -> Value {
    let agents: Vec<Value> = assembled
        .offers
        .agents
        .iter()
        .map(
            |(name, about)| json!({ "name": becket_types::sdk_names::sdk_agent(name), "description": about }),
        )
        .collect();
    let commands = with_local(&assembled.offers.commands);
    let commands: Vec<Value> = commands
        .iter()
        .map(|(name, about, hint)| json!({ "name": name, "description": about, "argumentHint": hint }))
        .collect();
    let settings = assembled.models.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    let models = super::control::models(&assembled.opening.model, &settings);
    let mut answer = json!({
        "commands": commands, "agents": agents, "output_style": "default", "available_output_styles": ["default"],
        "models": models,
        "hook_on_failure_supported": true, "hooks_applied": true,
        "plugins": plugins.init_json(), "plugin_errors": plugins.errors(),
        "account": { "apiKeySource": assembled.offers.api_key_source },
        "claude_code_version": becket_print::CLAUDE_CODE_VERSION, "becket_version": env!("CARGO_PKG_VERSION"),
    });
    if let Some(request) = request {
        request.confirm(&mut answer);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_become_hooks() {
        let hooks = json!({
            "PreToolUse": [{ "matcher": "Bash", "hookCallbackIds": ["hook_0", "hook_1"], "timeout": 5, "onFailure": "block" }],
            "Stop": [{ "matcher": null, "hookCallbackIds": ["hook_2"] }],
            "AnEventOfLater": [],
        });
        let groups = callbacks(&hooks).unwrap();
        assert_eq!(groups.len(), 2);
        let handlers: usize = groups.iter().map(|group| group.handlers.len()).sum();
        assert_eq!(handlers, 3);
        assert!(groups.iter().any(|group| group.handlers.iter().all(|handler| handler.fails_closed)));
    }

    #[test]
    fn a_value_that_cannot_be_used_refuses_the_request() {
        let group = json!([{ "hookCallbackIds": ["h"] }]);
        let refused = |body: &Value| Fields::read(body, &|_| None).err();
        for (body, part) in [
            (json!({ "hooks": [1] }), "hooks must be an object of events, not [1]"),
            (json!({ "hooks": "x" }), "hooks must be an object of events"),
            (json!({ "hooks": { "PreToolUse": "x" } }), "hooks.PreToolUse must be a list of groups"),
            (json!({ "hooks": { "PreToolUse": [{ "matcher": "Write" }] } }), "hookCallbackIds"),
            (json!({ "hooks": { "PreToolUse": ["h"] } }), "hookCallbackIds"),
            (
                json!({ "hooks": { "PreToolUse": [{ "hookCallbackIds": [1] }] } }),
                "hookCallbackIds must be a list of strings",
            ),
            (
                json!({ "hooks": { "PreToolUse": [{ "hookCallbackIds": ["h"], "matcher": 3 }] } }),
                "matcher must be a string",
            ),
            (json!({ "hooks": { "PreToolUse": [{ "hookCallbackIds": ["h"], "timeout": "5" }] } }), "timeout"),
            (json!({ "hooks": { "PreToolUse": group, "Nope": group } }), "no hook event \"Nope\""),
            (json!({ "systemPrompt": 3 }), "systemPrompt must be a string or a list of strings, not 3"),
            (json!({ "systemPrompt": ["a", 3] }), "systemPrompt must be a list of strings"),
            (json!({ "appendSystemPrompt": 3 }), "appendSystemPrompt must be a string, not 3"),
            (
                json!({ "appendSubagentSystemPrompt": 3 }),
                "appendSubagentSystemPrompt must be a string, not 3",
            ),
            (json!({ "jsonSchema": { "type": 3 } }), "schema"),
            (json!({ "agents": [1] }), "agents: an object of agents by name is expected"),
            (json!({ "skills": "x" }), "skills must be a list of strings, not \"x\""),
            (json!({ "skills": ["x", 1] }), "skills must be a list of strings"),
            (json!({ "title": 3 }), "title must be a string, not 3"),
            (json!({ "forwardSubagentText": "yes" }), "forwardSubagentText must be true or false"),
            (json!({ "excludeDynamicSections": "yes" }), "excludeDynamicSections must be true or false"),
            (json!({ "planModeInstructions": 3 }), "planModeInstructions must be a string, not 3"),
            (json!({ "toolAliases": ["a"] }), "toolAliases must be an object of tools by name"),
            (json!({ "toolAliases": { "a": 3 } }), "toolAliases must be an object of tools by name"),
            (json!({ "mcpServers": ["a"] }), "mcpServers must be an object of servers by name, not [\"a\"]"),
            (
                json!({ "mcpServers": { "a": {} } }),
                "\"a\" cannot be used: it has neither a command nor a url",
            ),
            (json!({ "mcpServers": { "a": { "command": "${UNSET}" } } }), "UNSET is not set"),
            (json!({ "plugins": "x" }), "plugins must be a list of"),
            (json!({ "plugins": [{ "type": "remote", "path": "x" }] }), "plugins must be a list of"),
            (json!({ "sdkMcpServers": "x" }), "sdkMcpServers must be a list of strings"),
        ] {
            let why = refused(&body).unwrap_or_else(|| panic!("{body} is accepted"));
            assert!(why.contains(part), "{body}: {why}");
            // The request is refused as well if another field is valid.
            let mut beside = body.clone();
            beside["title"] = body.get("title").cloned().unwrap_or_else(|| json!("t"));
            assert!(refused(&beside).is_some(), "{beside}");
        }
        for body in [
            json!({}),
            json!({ "hooks": null, "systemPrompt": null, "title": null, "agents": null, "skills": null, "mcpServers": null }),
            json!({ "hooks": {}, "skills": [], "mcpServers": {}, "sdkMcpServers": [], "agents": {} }),
            json!({ "hooks": { "PreToolUse": group, "Nope": null }, "systemPrompt": [""], "forwardSubagentText": true }),
            json!({ "mcpServers": { "a": { "command": "x", "unknown": 1 } } }),
        ] {
            assert_eq!(refused(&body), None, "{body}");
        }
        let set = Fields::read(&json!({ "mcpServers": { "a": { "url": "${URL}" } } }), &|_| {
            Some("http://x/".to_owned())
        });
        assert_eq!(set.unwrap().servers.0.len(), 1);
    }

    #[test]
    fn fields_without_an_effect_are_named() {
        let body = json!({
            "subtype": "initialize", "hooks": null, "title": "t", "promptSuggestions": true, "excluded": [],
            "planMode": false, "systemPromptSnapshot": false, "none": null,
        });
        assert_eq!(unused(&body), ["promptSuggestions", "systemPromptSnapshot"]);
        assert!(unused(&json!({ "systemPromptSnapshot": true, "perTaskStopAffordance": true })).is_empty());
        let names =
            |names: &[&str]| about_unused(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(
            names(&["later", "promptSuggestions", "more"]),
            [
                "initialize: promptSuggestions has no effect: becket suggests no prompts",
                "initialize: becket does not use these fields: later, more",
            ]
        );
        assert!(names(&[]).is_empty());
    }

    #[test]
    fn a_system_prompt_comes_in_two_forms() {
        assert_eq!(prompt_text(&json!("a")), Ok("a".into()));
        assert_eq!(prompt_text(&json!(["a", "b"])), Ok("a\n\nb".into()));
        assert_eq!(prompt_text(&json!([""])), Ok(String::new()));
        assert!(prompt_text(&json!(3)).is_err());
    }
}
