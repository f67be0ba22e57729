//! Parses the configuration of hooks: Claude's JSON becomes groups, with a message for each error.
//!
//! An invalid hook does not affect the others: it is left out and reported.

use crate::matcher::Matcher;
use becket_types::HookEvent;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::time::Duration;

/// The kind of source of hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Managed,
    User,
    Project,
    Local,
    Flag,
    Skill,
    Agent,
    Plugin,
    Sdk,
}

impl Origin {
    /// Returns the name of the place in lists for people, such as `--settings`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Flag => "--settings",
            Self::Skill => "skill",
            Self::Agent => "agent",
            Self::Plugin => "plugin",
            Self::Sdk => "sdk",
        }
    }
}

/// The source of hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub origin: Origin,
    /// The file, or the name of a skill or an agent.
    pub place: String,
    /// True for a source in the workspace. Its command hooks always run in the sandbox, because a command may have changed
    /// the programs that they start.
    pub confined: bool,
}

impl Source {
    /// Returns the source for people: `project: .claude/settings.json`.
    pub fn label(&self) -> String {
        if self.place.is_empty() {
            return self.origin.as_str().to_owned();
        }
        format!("{}: {}", self.origin.as_str(), self.place)
    }
}

/// The time within which the hooks of an agent or a skill run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    /// While an agent of this kind works.
    Agent(String),
    /// From the moment at which the session loads this skill.
    Skill(String),
}

/// Hooks of one event with one matcher.
#[derive(Clone, Debug)]
pub struct Group {
    pub event: HookEvent,
    pub matcher: Matcher,
    /// The matcher as written.
    pub matcher_text: String,
    pub handlers: Vec<Handler>,
    pub source: Source,
    /// The time within which the hooks run; `None`: always.
    pub within: Option<Within>,
}

/// One hook.
#[derive(Clone, Debug, PartialEq)]
pub struct Handler {
    pub kind: Kind,
    /// Time limit; `None`: [`Kind::default_timeout`].
    pub timeout: Option<Duration>,
    /// A permission rule that the call must match, such as `Bash(git *)`.
    pub condition: Option<String>,
    /// True if a failure of the hook refuses the action that it would have judged.
    pub fails_closed: bool,
    /// True if becket does not wait for this hook.
    pub beside: bool,
    /// True if the hook runs once in a session.
    pub once: bool,
    /// Text that is shown to people while the hook runs.
    pub status: Option<String>,
    /// Set if the hook itself says whether its command is confined. A hook from a confined [`Source`] is confined anyway.
    pub sandbox: Option<bool>,
    /// Further variables of a command.
    pub variables: Vec<(String, String)>,
}

/// The way to call a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With `args`, the program is started without a shell.
    Command {
        command: String,
        args: Option<Vec<String>>,
    },
    Http {
        url: String,
        headers: Vec<(String, String)>,
        /// Environment variables that `headers` may contain as `$NAME`.
        allowed_variables: Vec<String>,
    },
    McpTool {
        server: String,
        tool: String,
        input: Value,
    },
    Prompt {
        prompt: String,
        model: Option<String>,
    },
    Agent {
        prompt: String,
        model: Option<String>,
    },
    /// A function of the program that drives becket.
    Callback {
        id: String,
    },
}

impl Kind {
    /// Returns the value of `type` in configurations, such as `mcp_tool`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Command { .. } => "command",
            Self::Http { .. } => "http",
            Self::McpTool { .. } => "mcp_tool",
            Self::Prompt { .. } => "prompt",
            Self::Agent { .. } => "agent",
            Self::Callback { .. } => "callback",
        }
    }

    /// Returns one line for people.
    pub fn label(&self) -> String {
        let text = match self {
            Self::Command { command, args } => {
                let mut text = command.clone();
                for arg in args.iter().flatten() {
                    let _ = write!(text, " {arg}");
                }
                text
            }
            Self::Http { url, .. } => url.clone(),
            Self::McpTool { server, tool, .. } => format!("{server}: {tool}"),
            Self::Prompt { prompt, .. } | Self::Agent { prompt, .. } => prompt.clone(),
            Self::Callback { id } => id.clone(),
        };
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        becket_types::cut_end(line, 200).to_owned()
    }

    /// Returns the time limit if none is configured.
    pub fn default_timeout(&self, event: HookEvent) -> Duration {
        Duration::from_secs(match (self, event) {
            (_, HookEvent::SessionEnd) => 5,
            (Self::Prompt { .. }, _) => 30,
            (Self::Agent { .. }, _) => 60,
            (Self::Command { .. } | Self::Http { .. }, HookEvent::UserPromptSubmit) => 30,
            _ => 600,
        })
    }
}

/// The result of parsing a configuration.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    pub groups: Vec<Group>,
    pub warnings: Vec<String>,
    /// Mistakes in hooks that refuse an action if they fail. They are no mere warnings, because without the hook nobody
    /// would judge the action.
    pub faults: Vec<String>,
}

/// Parses the value of a `hooks` key.
pub fn parse(value: &Value, source: &Source) -> Parsed {
    let mut out = Parsed::default();
    let Value::Object(events) = value else {
        out.mistake(source, value, "hooks is not a table of events");
        return out;
    };
    for (name, groups) in events {
        let Some(event) = HookEvent::parse(name) else {
            let near = HookEvent::ALL
                .iter()
                .map(|event| (becket_types::edit_distance(event.as_str(), name), event.as_str()))
                .min()
                .filter(|(distance, _)| *distance <= 3);
            let near = near.map_or(String::new(), |(_, near)| format!("; did you mean {near}?"));
            out.mistake(source, groups, &format!("there is no hook event {name:?}{near}"));
            continue;
        };
        let Value::Array(list) = groups else {
            out.mistake(source, groups, &format!("hooks.{name} is no list"));
            continue;
        };
        for group in list {
            out.group(event, group, source);
        }
    }
    out
}

impl Parsed {
    /// Limits the hooks to the work of an agent or a skill. The end of an agent's answer is `SubagentStop` if it works for
    /// another agent, so its `Stop` hooks run then, too.
    #[must_use]
    pub fn within(mut self, within: &Within) -> Self {
        if let Within::Agent(_) = within {
            let stops = self.groups.iter().filter(|group| group.event == HookEvent::Stop);
            let ends: Vec<Group> =
                stops.map(|group| Group { event: HookEvent::SubagentStop, ..group.clone() }).collect();
            self.groups.extend(ends);
        }
        for group in &mut self.groups {
            group.within = Some(within.clone());
        }
        self
    }

    /// Records a mistake in `about`, a part of the configuration that is not used because of it.
    fn mistake(&mut self, source: &Source, about: &Value, what: &str) {
        let line = format!("{}: {what}", source.label());
        if refuses(about) { &mut self.faults } else { &mut self.warnings }.push(line);
    }

    fn group(&mut self, event: HookEvent, group: &Value, source: &Source) {
        let Some(table) = group.as_object() else {
            return self.mistake(source, group, &format!("a group of hooks.{event} is not a table"));
        };
        let matcher_text = table.get("matcher").and_then(Value::as_str).unwrap_or_default();
        let matcher = match Matcher::new(matcher_text) {
            Ok(matcher) => matcher,
            Err(why) => return self.mistake(source, group, &format!("hooks.{event} is not used: {why}")),
        };
        // Accepts a hook without the list around it: this is a common mistake, and its meaning is clear.
        let list = match table.get("hooks") {
            Some(Value::Array(list)) => list.clone(),
            Some(_) => return self.mistake(source, group, &format!("hooks.{event}: `hooks` is no list")),
            None if table.contains_key("type") => vec![group.clone()],
            None => return self.mistake(source, group, &format!("hooks.{event}: a group has no `hooks`")),
        };
        let mut handlers = Vec::new();
        for entry in &list {
            let read = entry.as_object().ok_or_else(|| "a hook is not a table".to_owned());
            match read.and_then(|entry| handler(entry, fails_closed(table)?.unwrap_or_default())) {
                Ok(handler) => handlers.push(handler),
                Err(why) => {
                    let own = fails_closed(table).unwrap_or(Some(true)).unwrap_or_default();
                    let about = if own { group } else { entry };
                    self.mistake(source, about, &format!("hooks.{event}: {why}"));
                }
            }
        }
        if !handlers.is_empty() {
            let matcher_text = matcher_text.to_owned();
            let source = source.clone();
            self.groups.push(Group { event, matcher, matcher_text, handlers, source, within: None });
        }
    }
}

/// True if a hook in this part of the configuration refuses an action if it fails, or says something unknown about that.
fn refuses(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().any(refuses),
        Value::Object(table) => {
            !matches!(fails_closed(table), Ok(Some(false) | None)) || table.get("hooks").is_some_and(refuses)
        }
        _ => false,
    }
}

/// Returns what `on_failure` says, if it is there.
fn fails_closed(table: &Map<String, Value>) -> Result<Option<bool>, String> {
    let value = ["on_failure", "onFailure"].iter().find_map(|key| table.get(*key));
    match value.map(Value::as_str) {
        None => Ok(None),
        Some(Some("block")) => Ok(Some(true)),
        Some(Some("allow" | "continue")) => Ok(Some(false)),
        Some(_) => Err("`on_failure` is \"block\" or left out".to_owned()),
    }
}

fn handler(table: &Map<String, Value>, closed: bool) -> Result<Handler, String> {
    let text = |key: &str| table.get(key).and_then(Value::as_str).map(str::to_owned);
    let needed =
        |key: &str, kind: &str| text(key).ok_or_else(|| format!("a hook of type {kind} needs `{key}`"));
    let flag = |key: &str| table.get(key).and_then(Value::as_bool).unwrap_or_default();
    let words = |key: &str| {
        let list = table.get(key).and_then(Value::as_array);
        list.map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
    };
    let kind = match text("type").as_deref() {
        Some("command") | None if table.contains_key("command") => {
            Kind::Command { command: needed("command", "command")?, args: words("args") }
        }
        Some("command") => return Err("a hook of type command needs `command`".to_owned()),
        Some("http") => Kind::Http {
            url: needed("url", "http")?,
            headers: table
                .get("headers")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect(),
            allowed_variables: words("allowedEnvVars").unwrap_or_default(),
        },
        Some("mcp_tool") => Kind::McpTool {
            server: needed("server", "mcp_tool")?,
            tool: needed("tool", "mcp_tool")?,
            input: table.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new())),
        },
        Some("prompt") => Kind::Prompt { prompt: needed("prompt", "prompt")?, model: text("model") },
        Some("agent") => Kind::Agent { prompt: needed("prompt", "agent")?, model: text("model") },
        Some("callback") => Kind::Callback { id: needed("id", "callback")? },
        Some(other) => {
            return Err(format!(
                "there is no hook of type {other:?}; use command, http, mcp_tool, prompt or agent"
            ));
        }
        None => return Err("a hook has no `type`".to_owned()),
    };
    let timeout = match table.get("timeout") {
        None => None,
        Some(value) => match value.as_f64() {
            Some(seconds) if seconds > 0.0 && seconds < 1e6 => Some(Duration::from_secs_f64(seconds)),
            _ => return Err(format!("`timeout` is a number of seconds, not {value}")),
        },
    };
    Ok(Handler {
        kind,
        timeout,
        condition: text("if"),
        fails_closed: fails_closed(table)?.unwrap_or(closed),
        beside: flag("async") || flag("asyncRewake"),
        once: flag("once"),
        status: text("statusMessage"),
        sandbox: table.get("sandbox").and_then(Value::as_bool),
        variables: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn source() -> Source {
        Source { origin: Origin::User, place: "settings.json".to_owned(), confined: false }
    }

    #[test]
    fn groups_are_read_and_each_mistake_is_one_line() {
        let parsed = parse(
            &json!({
                "PreToolUse": [
                    {"matcher": "Bash", "on_failure": "block", "hooks": [
                        {"type": "command", "command": "check.sh", "timeout": 5},
                        {"type": "command", "command": "other", "onFailure": "continue", "if": "Bash(git *)", "once": true},
                        {"type": "command"},
                        {"type": "teleport"},
                    ]},
                    {"matcher": "(", "hooks": [{"type": "command", "command": "x"}]},
                    {"type": "http", "url": "http://127.0.0.1/"},
                ],
                "PreTolUse": [],
                "Stop": {"hooks": []},
            }),
            &source(),
        );
        let [first, second] = &parsed.groups[..] else { panic!("{:?}", parsed.groups) };
        assert_eq!((first.event, first.handlers.len()), (HookEvent::PreToolUse, 2));
        assert_eq!(first.handlers[0].timeout, Some(Duration::from_secs(5)));
        assert_eq!((first.handlers[0].fails_closed, first.handlers[1].fails_closed), (true, false));
        assert_eq!(first.handlers[1].condition.as_deref(), Some("Bash(git *)"));
        assert_eq!(second.handlers[0].kind.label(), "http://127.0.0.1/");
        // Both invalid hooks would refuse the action if they failed, so their mistakes are faults.
        assert_eq!(
            parsed.faults,
            [
                "user: settings.json: hooks.PreToolUse: a hook of type command needs `command`",
                "user: settings.json: hooks.PreToolUse: there is no hook of type \"teleport\"; use command, http, mcp_tool, prompt or agent",
            ]
        );
        assert_eq!(
            parsed.warnings,
            [
                "user: settings.json: hooks.PreToolUse is not used: the matcher \"(\" is not a regular expression",
                "user: settings.json: there is no hook event \"PreTolUse\"; did you mean PreToolUse?",
                "user: settings.json: hooks.Stop is no list",
            ]
        );
    }

    /// Wherever the mistake is, a hook that refuses if it fails is never left out with a warning alone.
    #[test]
    fn a_mistake_in_a_hook_that_refuses_is_a_fault() {
        let hook = |more: Value| {
            let mut hook = json!({"type": "command", "command": "check"});
            hook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            hook
        };
        let block = json!({"on_failure": "block"});
        for (value, fault) in [
            (json!({"PreToolUse": [{"hooks": [hook(json!({"type": "comand"}))]}]}), false),
            (
                json!({"PreToolUse": [{"hooks": [hook(json!({"type": "comand", "on_failure": "block"}))]}]}),
                true,
            ),
            (
                json!({"PreToolUse": [{"on_failure": "block", "hooks": [hook(json!({"timeout": "long"}))]}]}),
                true,
            ),
            (json!({"PreToolUse": [{"matcher": "(", "hooks": [hook(block.clone())]}]}), true),
            (json!({"PreTolUse": [{"hooks": [hook(block.clone())]}]}), true),
            (json!({"PreToolUse": {"hooks": [hook(block.clone())]}}), true),
            // A misspelled value of `on_failure` may have meant `block`.
            (json!({"PreToolUse": [{"hooks": [hook(json!({"on_failure": "blok"}))]}]}), true),
            (
                json!({"PreToolUse": [{"hooks": [hook(json!({"on_failure": "allow", "type": "comand"}))]}]}),
                false,
            ),
        ] {
            let parsed = parse(&value, &source());
            assert!(parsed.groups.is_empty(), "{value}");
            assert_eq!(
                (parsed.faults.len(), parsed.warnings.len()),
                if fault { (1, 0) } else { (0, 1) },
                "{value}"
            );
        }
    }
}
