//! The definition of one agent: its keys, from the frontmatter of a file or from JSON, become a [`Kind`] and the parts
//! that a session needs for it.
//!
//! Both forms have the same keys with the same meaning. A key that cannot be used causes a warning, and the agent works
//! without it. A definition of the project may only narrow the permission mode.

use super::tool_lists::ToolLists;
use becket_agent::subagent::{Kind, KindRun};
use becket_tool::text::nearest;
use becket_tool_skill::Head;
use becket_types::{PermissionMode, quoted};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Tools that change nothing. A subagent that has only these is read-only, so it may run beside others.
const READ_ONLY_TOOLS: [&str; 6] = ["read", "grep", "glob", "skill", "todo", "recall"];
/// Tools that an agent needs to read and change its memory. An agent with a memory always gets them.
const MEMORY_TOOLS: [&str; 3] = ["read", "write", "edit"];
/// Values of `effort`.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];
/// Keys of other coding agents that becket does not support. They cause a warning, because ignoring them changes the
/// meaning of the definition.
const UNSUPPORTED_KEYS: [&str; 1] = ["isolation"];
/// Keys of a definition.
const KEYS: [&str; 16] = [
    "name",
    "description",
    "tools",
    "disallowedTools",
    "permission",
    "model",
    "effort",
    "permissionMode",
    "maxTurns",
    "background",
    "memory",
    "mcpServers",
    "hooks",
    "skills",
    "initialPrompt",
    "prompt",
];
/// The source of an agent's definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum DefinedIn {
    #[default]
    BuiltIn,
    /// `--agents`, or the program that drives the run.
    Given,
    User(PathBuf),
    Project(PathBuf),
}

/// The lifetime and the owner of an agent's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryScope {
    /// One memory for all projects.
    User,
    /// A folder of the project that is shared with others.
    Project,
    /// A folder of the project that stays on this machine.
    Local,
}

/// One agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Definition {
    pub kind: Kind,
    /// Skills whose texts are a part of its prompt.
    pub skills: Vec<String>,
    pub memory: Option<MemoryScope>,
    /// Names of the subagents that it may start when it is the session's own agent; `None`: all.
    pub startable_agents: Option<Vec<String>>,
    /// Its hooks: lists of hooks by event, as in a settings file.
    pub hooks: Option<Value>,
    /// MCP servers that only this agent uses: names and configurations.
    pub servers: Vec<(String, Value)>,
    /// The first prompt of a session whose agent it is.
    pub initial_prompt: Option<String>,
    pub place: DefinedIn,
}

impl Definition {
    /// Returns the file that defines the agent, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.place {
            DefinedIn::User(path) | DefinedIn::Project(path) => Some(path),
            DefinedIn::Given | DefinedIn::BuiltIn => None,
        }
    }

    /// Makes a definition from its keys. `name`: used if the keys have no name. Also returns warnings.
    ///
    /// # Errors
    ///
    /// Returns the reason if the keys define no agent: the name is not valid, or the description is missing.
    pub(crate) fn from_keys(
        name: String,
        head: &Head,
        prompt: &str,
        place: DefinedIn,
    ) -> Result<(Self, Vec<String>), String> {
        let name = head.text("name").unwrap_or(name).to_lowercase();
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.chars().count() > 64 || !name.chars().all(plain) {
            return Err(format!(
                "its name {name} is not 1 to 64 letters, digits, `-` and `_`",
                name = quoted(&name)
            ));
        }
        let description = head.text("description").ok_or("it has no description")?;
        let mut wrong = Vec::new();
        let mut put_wrong = |why: String| wrong.push(format!("the agent {name}: {why}"));
        let head = &respelt(head);
        misspelt(head, &mut put_wrong);
        let ToolLists { mut tools, without, starts, remarks } = ToolLists::read(head)?;
        remarks.into_iter().for_each(&mut put_wrong);
        let reads = |names: &Vec<String>| names.iter().all(|name| READ_ONLY_TOOLS.contains(&name.as_str()));
        let mut read_only = tools.as_ref().is_some_and(reads);
        let memory = memory(head, &mut put_wrong);
        if let (Some(_), Some(tools)) = (memory, &mut tools) {
            let missing = MEMORY_TOOLS.iter().filter(|tool| !tools.iter().any(|known| known == **tool));
            let missing: Vec<String> = missing.map(|tool| (*tool).to_owned()).collect();
            tools.extend(missing);
            read_only = false;
        }
        let run = KindRun {
            effort: effort(head, &mut put_wrong),
            mode: mode(head, &place, &mut put_wrong),
            max_turns: max_turns(head, &mut put_wrong),
            background: is_true(head.value("background")),
            memory: None,
        };
        // In the mode `plan` no call changes anything, so such an agent may run beside others.
        read_only |= run.mode == Some(PermissionMode::Plan);
        let (names, servers) = servers(head.value("mcpServers"), &mut put_wrong);
        // Tools of MCP servers may change anything, so an agent with servers is read-only in the mode `plan` alone.
        read_only &= names.as_ref().is_none_or(Vec::is_empty) || run.mode == Some(PermissionMode::Plan);
        let hooks = head.value("hooks").cloned();
        if hooks.as_ref().is_some_and(|hooks| !hooks.is_object()) {
            put_wrong("`hooks` is not a table of events".to_owned());
        }
        for key in UNSUPPORTED_KEYS.iter().filter(|key| head.value(key).is_some()) {
            put_wrong(format!("`{key}` has no effect here"));
        }
        let kind = Kind {
            description,
            prompt: prompt.trim().to_owned(),
            tools,
            without,
            servers: names,
            model: head.text("model").filter(|model| model != "inherit"),
            run,
            read_only,
            name: name.clone(),
        };
        let skills = head.words("skills").unwrap_or_default();
        let hooks = hooks.filter(Value::is_object);
        let initial_prompt = head.text("initialPrompt").filter(|text| !becket_types::is_blank(text));
        Ok((
            Self { kind, skills, memory, startable_agents: starts, hooks, servers, initial_prompt, place },
            wrong,
        ))
    }

    /// Returns the keys that are set, each with its label and its value, for people.
    pub(crate) fn keys(&self) -> Vec<(&'static str, String)> {
        let (kind, run) = (&self.kind, &self.kind.run);
        let list = |names: &[String]| names.join(", ");
        let tools = match &kind.tools {
            Some(tools) => list(tools),
            None if kind.read_only => "all, in permission mode plan".to_owned(),
            None => "all".to_owned(),
        };
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let keys = [
            ("tools", Some(tools)),
            ("without", some(list(&kind.without))),
            ("starts", self.startable_agents.as_deref().map(list)),
            ("MCP servers", kind.servers.as_deref().map(list)),
            ("model", kind.model.clone()),
            ("effort", run.effort.clone()),
            ("permission mode", run.mode.map(|mode| mode.to_string())),
            (
                "at most",
                run.max_turns
                    .map(|turns| format!("{turns} {}", if turns == 1 { "request" } else { "requests" })),
            ),
            ("skills", some(list(&self.skills))),
            ("begins with", self.initial_prompt.clone()),
            ("memory", run.memory.as_ref().map(|folder| folder.display().to_string())),
            (
                "hooks",
                self.hooks
                    .as_ref()
                    .and_then(Value::as_object)
                    .map(|hooks| hooks.keys().cloned().collect::<Vec<_>>().join(", ")),
            ),
            ("runs", run.background.then(|| "in the background".to_owned())),
        ];
        keys.into_iter().filter_map(|(label, value)| Some((label, value?))).collect()
    }

    /// True if the project defines it.
    pub(crate) fn is_of_project(&self) -> bool {
        matches!(self.place, DefinedIn::Project(_))
    }
}

/// Names keys that are probably misspelt or there twice, and keys of one value that have something else.
fn misspelt(head: &Head, wrong: &mut impl FnMut(String)) {
    for key in head.keys().filter(|key| !KEYS.contains(key) && !UNSUPPORTED_KEYS.contains(key)) {
        // A key that means another one and still has its own name is there twice.
        let near = match known_key(key) {
            None if plain(key) == "allowedtools" => Some("tools"),
            None => nearest(key, KEYS),
            known => known,
        };
        if let Some(near) = near {
            wrong(format!("the key `{key}` has no effect; did you mean `{near}`?"));
        }
    }
    for key in ["permissionMode", "maxTurns", "effort", "model"] {
        if head.value(key).is_some_and(Value::is_object) {
            wrong(format!("`{key}` is a table, so it has no effect"));
        }
    }
}

/// Returns the keys under their own names: `disallowed-tools` and `DisallowedTools` are `disallowedTools`. A key that restricts must
/// not lose its effect by its spelling.
fn respelt(head: &Head) -> Head {
    let mut keys = Map::new();
    for key in head.keys() {
        let is_free = |known: &str| head.value(known).is_none() && !keys.contains_key(known);
        let known = known_key(key).filter(|known| *known == key || is_free(known));
        keys.insert(known.unwrap_or(key).to_owned(), head.value(key).cloned().unwrap_or_default());
    }
    Head::new(keys)
}

fn known_key(key: &str) -> Option<&'static str> {
    KEYS.into_iter().find(|known| plain(known) == plain(key))
}

fn plain(key: &str) -> String {
    key.to_lowercase().replace(['-', '_'], "")
}

fn is_true(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Bool(is)) => *is,
        Some(Value::String(text)) => matches!(text.to_ascii_lowercase().as_str(), "true" | "yes" | "on"),
        _ => false,
    }
}

fn effort(head: &Head, wrong: &mut impl FnMut(String)) -> Option<String> {
    let effort = head.text("effort")?.to_lowercase();
    if EFFORTS.contains(&effort.as_str()) {
        return Some(effort);
    }
    wrong(format!("there is no effort {effort:?}; use one of {}", EFFORTS.join(", ")));
    None
}

/// Returns the permission mode. `None` if it is not given or cannot be used.
fn mode(head: &Head, place: &DefinedIn, wrong: &mut impl FnMut(String)) -> Option<PermissionMode> {
    let text = head.text("permissionMode")?;
    let mode = match text.parse::<PermissionMode>() {
        Ok(mode) => mode,
        Err(why) => {
            wrong(why);
            return None;
        }
    };
    let narrow = mode.is_within(PermissionMode::Default);
    match place {
        DefinedIn::Project(_) if !narrow => {
            wrong(format!("a project cannot set the permission mode {mode}; it has that of the session"));
            None
        }
        _ if mode == PermissionMode::BypassPermissions => {
            wrong(format!("permission mode {mode} is used only in a session that is in this mode"));
            Some(mode)
        }
        _ => Some(mode),
    }
}

fn max_turns(head: &Head, wrong: &mut impl FnMut(String)) -> Option<u64> {
    let text = head.text("maxTurns")?;
    let turns = text.parse::<u64>().ok().filter(|turns| *turns > 0);
    if turns.is_none() {
        wrong(format!("`maxTurns` is a number from 1 on, not {text}", text = quoted(&text)));
    }
    turns
}

fn memory(head: &Head, wrong: &mut impl FnMut(String)) -> Option<MemoryScope> {
    match head.text("memory")?.to_lowercase().as_str() {
        "user" => Some(MemoryScope::User),
        "project" => Some(MemoryScope::Project),
        "local" => Some(MemoryScope::Local),
        other => {
            wrong(format!("there is no memory {other:?}; use user, project or local"));
            None
        }
    }
}

/// Returns the names of all MCP servers of the agent, and the configurations of those that the definition itself contains.
fn servers(
    value: Option<&Value>,
    wrong: &mut impl FnMut(String),
) -> (Option<Vec<String>>, Vec<(String, Value)>) {
    let (mut names, mut own) = (Vec::new(), Vec::new());
    let mut table = |entry: &Value| match entry {
        Value::Object(table) => own.extend(table.iter().map(|(name, value)| (name.clone(), value.clone()))),
        Value::String(text) => {
            names.extend(text.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned));
        }
        _ => wrong("an entry of `mcpServers` is neither a name nor a table".to_owned()),
    };
    match value {
        None => return (None, own),
        Some(Value::Array(list)) => list.iter().for_each(&mut table),
        Some(value) => table(value),
    }
    names.extend(own.iter().map(|(name, _)| name.clone()));
    (Some(names), own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(keys: Value, place: DefinedIn) -> (Definition, Vec<String>) {
        let keys: Map<String, Value> = keys.as_object().unwrap().clone();
        Definition::from_keys("a".to_owned(), &Head::new(keys), "Be strict.\n", place).unwrap()
    }

    #[test]
    fn names_that_are_mistyped_are_reported() {
        let keys = json!({"description": "d", "tools": "Read, Grpe, Glob, mcp__git__read, LS", "modle": "haiku", "color": "red"});
        let (_, wrong) = of(keys, DefinedIn::Given);
        assert_eq!(
            wrong,
            [
                "the agent a: the key `modle` has no effect; did you mean `model`?",
                "the agent a: there is no tool \"grpe\"; did you mean grep?"
            ]
        );
    }

    /// A key that restricts has its effect in every spelling.
    #[test]
    fn a_key_is_understood_in_another_case() {
        for key in ["disallowedTools", "disallowed-tools", "disallowed_tools", "DisallowedTools"] {
            let (found, wrong) = of(json!({"description": "d", key: "Bash"}), DefinedIn::Given);
            assert_eq!((found.kind.without, wrong), (vec!["bash".to_owned()], Vec::new()), "{key}");
        }
        let keys = json!({"description": "d", "permission-mode": "Plan", "max_turns": 3, "Tools": "Read"});
        let (found, wrong) = of(keys, DefinedIn::Given);
        assert_eq!((found.kind.run.mode, found.kind.run.max_turns), (Some(PermissionMode::Plan), Some(3)));
        assert_eq!((found.kind.tools, wrong), (Some(vec!["read".to_owned()]), Vec::new()));
        for (keys, want) in [
            (
                json!({"tools": "Read", "Tools": "Bash"}),
                "the key `Tools` has no effect; did you mean `tools`?",
            ),
            (
                json!({"allowed-tools": "Read"}),
                "the key `allowed-tools` has no effect; did you mean `tools`?",
            ),
            (json!({"permissionMode": {"a": "plan"}}), "`permissionMode` is a table"),
        ] {
            let mut keys = keys;
            keys["description"] = json!("d");
            let (_, wrong) = of(keys.clone(), DefinedIn::Given);
            assert!(wrong.len() == 1 && wrong[0].contains(want), "{keys}: {wrong:?}");
        }
    }

    #[test]
    fn every_key_has_its_meaning() {
        let (found, wrong) = of(
            json!({
                "description": "d", "tools": ["Read", "Agent", "mcp__x"], "disallowedTools": "Bash, WebFetch",
                "model": "inherit", "effort": "High", "permissionMode": "acceptEdits", "maxTurns": 3,
                "background": true, "memory": "user", "skills": ["one", "two"],
                "mcpServers": ["github", {"own": {"command": "x"}}], "hooks": {"Stop": []}, "color": "red",
            }),
            DefinedIn::Given,
        );
        assert_eq!(wrong, Vec::<String>::new());
        let text = |list: &[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            found.kind,
            Kind {
                name: "a".into(),
                description: "d".into(),
                prompt: "Be strict.".into(),
                tools: Some(text(&["read", "task", "mcp__x", "write", "edit"])),
                without: text(&["bash", "webfetch"]),
                servers: Some(text(&["github", "own"])),
                model: None,
                run: KindRun {
                    effort: Some("high".into()),
                    mode: Some(PermissionMode::AcceptEdits),
                    max_turns: Some(3),
                    background: true,
                    memory: None,
                },
                read_only: false,
            }
        );
        assert_eq!((found.skills, found.memory), (text(&["one", "two"]), Some(MemoryScope::User)));
        assert_eq!(found.servers, [("own".to_owned(), json!({"command": "x"}))]);
        assert_eq!(found.hooks, Some(json!({"Stop": []})));
    }

    #[test]
    fn a_list_of_tools_may_name_the_agents_to_start() {
        let text = |list: &[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        for (tools, has, wanted) in [
            (json!("Agent(worker, Tester), Read"), &["task", "read"][..], Some(text(&["worker", "tester"]))),
            (json!("Read Bash(git log *)"), &["read", "bash"], None),
            (
                json!(["Task(a)", "Agent(b)", "Bash(git log:*)"]),
                &["task", "task", "bash"],
                Some(text(&["a", "b"])),
            ),
            (json!("Agent, Task(a)"), &["task", "task"], None),
            (json!("Agent(*)"), &["task"], None),
            (json!("Agent(open"), &["task"], Some(text(&["open"]))),
        ] {
            let (found, wrong) = of(json!({"description": "d", "tools": tools.clone()}), DefinedIn::Given);
            assert_eq!((found.kind.tools, wrong), (Some(text(has)), Vec::new()), "{tools}");
            assert_eq!(found.startable_agents, wanted, "{tools}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_used_is_named() {
        let project = || DefinedIn::Project(PathBuf::from("a.md"));
        for (keys, place, want) in [
            (json!({"effort": "huge"}), DefinedIn::Given, "there is no effort \"huge\""),
            (json!({"maxTurns": 0}), DefinedIn::Given, "`maxTurns` is a number"),
            (json!({"permissionMode": "yolo"}), DefinedIn::Given, "unknown permission mode"),
            (json!({"permissionMode": "acceptEdits"}), project(), "a project cannot set the permission mode"),
            (
                json!({"permissionMode": "bypassPermissions"}),
                DefinedIn::Given,
                "only in a session that is in this mode",
            ),
            (json!({"memory": "cloud"}), DefinedIn::Given, "there is no memory \"cloud\""),
            (json!({"mcpServers": [3]}), DefinedIn::Given, "neither a name nor a table"),
            (json!({"hooks": "x"}), DefinedIn::Given, "not a table of events"),
            (json!({"isolation": "worktree"}), DefinedIn::Given, "`isolation` has no effect"),
        ] {
            let mut keys = keys;
            keys["description"] = json!("d");
            let (_, wrong) = of(keys.clone(), place);
            assert!(wrong.len() == 1 && wrong[0].starts_with("the agent a: "), "{keys}: {wrong:?}");
            assert!(wrong[0].contains(want), "{keys}: {wrong:?}");
        }
        let narrowed = of(json!({"description": "d", "permissionMode": "plan"}), project());
        assert!(narrowed.1.is_empty() && narrowed.0.kind.read_only);
    }
}
