//! The settings of the session as they are now, with their sources, and the layer of settings that the program changes while
//! the session runs.
//!
//! Rules, mode, model and effort are read from the agent at each request, so nothing here can be out of date. A change is sent
//! to the agent as several commands; the request is answered when the agent has carried out the last one.

use super::listing::{EFFORTS, bare};
use crate::settings::ServerPolicies;
use becket_agent::Live;
use becket_config::{Settings, Source};
use becket_guard::Rule;
use becket_types::{Command, PermissionMode, RuleChange, RuleKind, RuleOwner, sdk_names};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Separates the id of a request from the number of one of its commands.
const PART: char = '\u{1f}';

/// The sources of settings, weakest first.
const SOURCES: [&str; 5] =
    ["userSettings", "projectSettings", "localSettings", "flagSettings", "policySettings"];

/// The settings with which the run began, and those that the driving program has set since.
#[derive(Debug)]
pub(in crate::headless) struct LiveSettings {
    configured: Settings,
    /// The effort with which the run began.
    effort: Option<String>,
    /// The model with which the run began.
    model: String,
    /// Settings of `apply_flag_settings`.
    flags: Map<String, Value>,
    /// Rules for tools of servers that the driving program has set while the session runs.
    policies: ServerPolicies,
    /// Servers whose calls are judged in a stricter mode than the session's, by the rule that matches all their tools.
    pinned: BTreeMap<String, ServerMode>,
}

/// The way in which a program wants the calls of an MCP server to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerMode {
    /// Each call needs a question, in every permission mode.
    Default,
    /// In the mode `bypassPermissions` its calls are judged as in `auto`: a call that no rule allows needs a question.
    Auto,
}

/// A request that the agent carries out in several commands.
#[derive(Debug, Default)]
pub(in crate::headless) struct Batch {
    /// Number of commands without a receipt.
    left: usize,
    /// The failure of the first command that failed.
    pub(super) error: Option<String>,
    /// The permission mode that the request sets.
    pub(super) mode: Option<String>,
    /// The driving program's settings that are in force once all commands have succeeded.
    pub(super) flags: Map<String, Value>,
}

impl LiveSettings {
    pub(in crate::headless) fn new(configured: &Settings, model: &str) -> Self {
        let effort = configured.config.model.effort.and_then(|effort| serde_json::to_value(effort).ok());
        Self {
            effort: effort.and_then(|effort| effort.as_str().map(str::to_owned)),
            configured: configured.clone(),
            model: model.to_owned(),
            flags: Map::new(),
            policies: ServerPolicies::default(),
            pinned: BTreeMap::new(),
        }
    }

    /// Records the rules for tools of servers that the driving program has set while the session runs.
    pub(super) fn set_policies(&mut self, policies: ServerPolicies) {
        self.policies = policies;
    }

    /// Sets the mode of the server whose tools `rule` matches. `None`: the server has no mode of its own.
    pub(super) fn pin(&mut self, rule: String, mode: Option<ServerMode>) {
        match mode {
            Some(mode) => self.pinned.insert(rule, mode),
            None => self.pinned.remove(&rule),
        };
    }

    fn pinned(&self, mode: ServerMode) -> impl Iterator<Item = &String> {
        self.pinned.iter().filter(move |(_, known)| **known == mode).map(|(rule, _)| rule)
    }

    /// Returns the command that sets the servers whose calls are judged as in the mode `auto`.
    pub(super) fn auto_rules(&self) -> Command {
        let rules = self.pinned(ServerMode::Auto).cloned().collect();
        Command::ChangeRules {
            owner: RuleOwner::Auto,
            change: RuleChange::Replace,
            rules: BTreeMap::from([(RuleKind::Ask, rules)]),
        }
    }

    /// True if the context is compacted before it is full.
    pub(super) fn compacts_by_itself(&self) -> bool {
        self.configured.config.context.auto
    }

    pub(super) fn hooks_are_off(&self) -> bool {
        self.configured.config.hooks.disabled || self.configured.managed_limits.only_hooks
    }

    /// Returns the answer to `get_settings`.
    pub(super) fn answer(&self, live: &Live) -> Value {
        let list = |kind| live.guard.rules(kind).map(rule_text).collect::<Vec<_>>();
        let added: Vec<String> = live
            .guard
            .settings()
            .roots
            .iter()
            .skip(1)
            .map(|root| root.to_string_lossy().into_owned())
            .collect();
        let mut effective = self.flags.clone();
        effective.insert("model".to_owned(), json!(bare(&live.model)));
        effective.insert(
            "permissions".to_owned(),
            json!({
                "defaultMode": live.guard.mode().as_str(), "allow": list(RuleKind::Allow),
                "ask": list(RuleKind::Ask), "deny": list(RuleKind::Deny), "additionalDirectories": added,
            }),
        );
        if let Some(effort) = &live.effort {
            effective.insert("effortLevel".to_owned(), json!(effort));
        }
        let sources = SOURCES.iter().filter_map(|source| {
            let settings = self.settings_of_source(source);
            (!settings.is_empty()).then(|| json!({ "source": source, "settings": settings }))
        });
        json!({
            "effective": effective, "sources": sources.collect::<Vec<_>>(),
            "applied": { "model": bare(&live.model), "effort": live.effort },
        })
    }

    /// Returns the settings of one source, in the SDK's names.
    fn settings_of_source(&self, source: &str) -> Map<String, Value> {
        let mut out = Map::new();
        let mut permissions = Map::new();
        let is_from = |key: &str| source_name(&self.configured.source(key)) == Some(source);
        for (key, name) in [("model", "model"), ("effort", "effortLevel")] {
            if let Some(value) = self.configured.value(key).filter(|_| is_from(key)) {
                out.insert(name.to_owned(), value.clone());
            }
        }
        if let Some(mode) = self.configured.value("permission_mode").filter(|_| is_from("permission_mode")) {
            permissions.insert("defaultMode".to_owned(), mode.clone());
        }
        for (key, name) in [
            ("permissions.allow", "allow"),
            ("permissions.ask", "ask"),
            ("permissions.deny", "deny"),
            ("add_dirs", "additionalDirectories"),
        ] {
            let own = self.configured.sourced(key).into_iter();
            let own: Vec<String> =
                own.filter(|(_, from)| source_name(from) == Some(source)).map(|(item, _)| item).collect();
            if !own.is_empty() {
                permissions.insert(name.to_owned(), json!(own));
            }
        }
        if !permissions.is_empty() {
            out.insert("permissions".to_owned(), Value::Object(permissions));
        }
        if source == "flagSettings" {
            out.extend(self.flags.clone());
        }
        out
    }

    /// Returns the answer to `list_permission_rules`.
    pub(super) fn rules(&self, live: &Live, cwd: &std::path::Path) -> Value {
        let kinds = [
            ("allow", "permissions.allow", RuleKind::Allow),
            ("ask", "permissions.ask", RuleKind::Ask),
            ("deny", "permissions.deny", RuleKind::Deny),
        ];
        let mut out = Vec::new();
        for (behavior, key, kind) in kinds {
            let sourced = self.configured.sourced(key);
            for rule in live.guard.settings().rules.of_kind(kind) {
                let written = |text: &str| Rule::parse(text).is_ok_and(|known| known == *rule);
                let configured = sourced.iter().find(|(text, _)| written(text));
                let source =
                    configured.map_or("session", |(_, source)| source_name(source).unwrap_or("cliArg"));
                out.push(rule_json(behavior, source, rule));
            }
            let owners = [(RuleOwner::Program, "flagSettings"), (RuleOwner::Session, "session")];
            for (owner, source) in owners {
                let rules = live.guard.added_rules(owner).of_kind(kind);
                out.extend(rules.iter().map(|rule| rule_json(behavior, source, rule)));
            }
        }
        let folders = self.configured.sourced("add_dirs");
        let folder = |path: &PathBuf| {
            let named = folders.iter().find(|(text, _)| {
                std::path::Path::new(text).canonicalize().is_ok_and(|known| known == *path)
            });
            let source = named.map_or("session", |(_, source)| source_name(source).unwrap_or("cliArg"));
            json!({ "path": path.to_string_lossy(), "source": source })
        };
        let folders: Vec<Value> = live.guard.settings().roots.iter().skip(1).map(folder).collect();
        json!({ "state": {
            "rules": out, "workspaceDirectories": folders, "originalCwd": cwd.to_string_lossy(), "managedOnly": false,
        } })
    }

    /// Returns the settings of the driving program with these changes, and the commands that bring them into force. A key with
    /// null is removed. `Err` names what cannot be set.
    pub(super) fn change(&self, body: &Value) -> Result<(Map<String, Value>, Vec<Command>), String> {
        let changed = body.get("settings").and_then(Value::as_object);
        let changed = changed.ok_or("apply_flag_settings needs `settings`, an object")?;
        let mut flags = self.flags.clone();
        for (key, value) in changed {
            if value.is_null() {
                flags.remove(key);
            } else {
                flags.insert(key.clone(), value.clone());
            }
        }
        let commands = self.commands(changed, &flags)?;
        Ok((flags, commands))
    }

    /// Records the settings of `apply_flag_settings` that are in force now.
    pub(super) fn set_flags(&mut self, flags: Map<String, Value>) {
        self.flags = flags;
    }

    /// Returns the command that sends the agent the driving program's rules as they are now.
    pub(super) fn program_rules(&self) -> Command {
        self.rules_with(&self.flags)
    }

    /// Returns the command that sets the rules of the driving program: those of its settings and of its servers.
    fn rules_with(&self, flags: &Map<String, Value>) -> Command {
        let list = |name: &str| -> Vec<String> {
            let rules = flags.get("permissions").and_then(|permissions| permissions.get(name));
            let rules = rules.and_then(Value::as_array).into_iter().flatten();
            rules.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let with = |name: &str, more: &[String]| {
            let mut rules = list(name);
            rules.extend(more.iter().cloned());
            rules
        };
        let ask: Vec<String> =
            self.policies.ask.iter().chain(self.pinned(ServerMode::Default)).cloned().collect();
        Command::ChangeRules {
            owner: RuleOwner::Program,
            change: RuleChange::Replace,
            rules: BTreeMap::from([
                (RuleKind::Allow, list("allow")),
                (RuleKind::Ask, with("ask", &ask)),
                (RuleKind::Deny, with("deny", &self.policies.deny)),
            ]),
        }
    }

    /// Returns the commands that bring settings of the driving program into force. `Err` names what cannot be set.
    fn commands(
        &self,
        changed: &Map<String, Value>,
        flags: &Map<String, Value>,
    ) -> Result<Vec<Command>, String> {
        let mut out = Vec::new();
        for (key, value) in changed {
            match (key.as_str(), value) {
                ("model", Value::String(model)) => out.push(Command::SetModel { model: model.clone() }),
                ("model", Value::Null) => out.push(Command::SetModel { model: self.model.clone() }),
                ("effortLevel", Value::String(effort)) if EFFORTS.contains(&effort.as_str()) => {
                    out.push(Command::SetEffort { effort: Some(effort.clone()) });
                }
                ("effortLevel", Value::Null) => out.push(Command::SetEffort { effort: self.effort.clone() }),
                ("effortLevel", other) => {
                    return Err(format!("effortLevel {other} is none of {}", EFFORTS.join(", ")));
                }
                ("permissions", Value::Null | Value::Object(_)) => {
                    self.permission_commands(value, flags, &mut out)?;
                }
                ("outputStyle", Value::Null) => {}
                ("outputStyle", Value::String(style)) if style == "default" => {}
                (_, Value::Null) => {}
                (key, value) => {
                    return Err(format!(
                        "the setting {key} cannot be {value} here; a running session takes model, effortLevel and permissions"
                    ));
                }
            }
        }
        Ok(out)
    }

    fn permission_commands(
        &self,
        given: &Value,
        flags: &Map<String, Value>,
        out: &mut Vec<Command>,
    ) -> Result<(), String> {
        for (key, value) in given.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                ("allow" | "ask" | "deny" | "additionalDirectories", Value::Array(items))
                    if items.iter().all(Value::is_string) => {}
                ("defaultMode", Value::String(mode)) => {
                    mode.parse::<PermissionMode>()?;
                }
                (_, Value::Null) => {}
                (key, value) => return Err(format!("the setting permissions.{key} cannot be {value} here")),
            }
        }
        out.push(self.rules_with(flags));
        if let Some(mode) = given.get("defaultMode").and_then(Value::as_str) {
            out.push(Command::SetMode { mode: mode.to_owned() });
        }
        let folders = given.get("additionalDirectories").and_then(Value::as_array).into_iter().flatten();
        let folders = folders.filter_map(Value::as_str);
        out.extend(folders.map(|path| Command::AddDirectory { path: Some(PathBuf::from(path)) }));
        Ok(())
    }
}

impl Batch {
    /// Returns the commands of a request, each with an id of its own, and the batch that waits for them.
    pub(super) fn new(id: &str, commands: Vec<Command>, flags: Map<String, Value>) -> (Self, Vec<Command>) {
        let mode = commands.iter().find_map(|command| match command {
            Command::SetMode { mode } => Some(mode.clone()),
            _ => None,
        });
        let batch = Self { left: commands.len(), error: None, mode, flags };
        let part = |(n, what): (usize, Command)| Command::WithReceipt {
            request_id: format!("{id}{PART}{n}"),
            what: Box::new(what),
        };
        (batch, commands.into_iter().enumerate().map(part).collect())
    }

    /// Takes the receipt of one command. Returns true if it was the last one.
    pub(super) fn received(&mut self, error: Option<&String>) -> bool {
        self.left = self.left.saturating_sub(1);
        self.error = self.error.take().or(error.cloned());
        self.left == 0
    }
}

/// Returns the id of the request to which the receipt of a command belongs.
pub(super) fn whole_request(part: &str) -> Option<&str> {
    part.split_once(PART).map(|(id, _)| id)
}

/// Returns the name of a source of settings; `None` for a value of becket itself.
fn source_name(source: &Source) -> Option<&'static str> {
    match source {
        Source::User(_) => Some("userSettings"),
        Source::Project(_) => Some("projectSettings"),
        Source::Local(_) => Some("localSettings"),
        Source::Settings(_) => Some("flagSettings"),
        Source::Managed(_) => Some("policySettings"),
        Source::Environment(_) | Source::Flag(_) | Source::Session | Source::Default => None,
    }
}

/// Returns a rule as the SDK writes it.
fn rule_text(rule: &Rule) -> String {
    match sdk_names::rule_parts(&rule.to_string()) {
        (tool, Some(content)) => format!("{tool}({content})"),
        (tool, None) => tool,
    }
}

fn rule_json(behavior: &str, source: &str, rule: &Rule) -> Value {
    let editability = match source {
        "userSettings" | "projectSettings" | "localSettings" => "persistent",
        "session" | "flagSettings" => "session",
        _ => "readonly",
    };
    json!({ "behavior": behavior, "source": source, "rule": rule_text(rule), "editability": editability })
}
