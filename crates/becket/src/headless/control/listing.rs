//! Lists that a program may ask for: hooks and models as they are now.

use becket_hooks::{Engine, Group, Handler, Kind, Origin, Within};
use becket_types::HookEvent;
use serde_json::{Value, json};

/// The efforts that a model with reasoning takes.
pub(super) const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// Returns all hooks of the session, and the events at which hooks can run.
pub(super) fn hooks(engine: Option<&Engine>, are_off: bool) -> Value {
    let groups = engine.map(Engine::groups).unwrap_or_default();
    let of = |event: HookEvent| groups.iter().filter(move |group| group.event == event);
    let count = |event| of(event).map(|group| group.handlers.len()).sum::<usize>();
    let entry = |event: HookEvent| json!({ "name": event.as_str(), "summary": summary(event), "supportsMatcher": takes_matcher(event) });
    let with_hooks = HookEvent::ALL.iter().filter(|event| count(**event) > 0);
    let events: Vec<Value> = with_hooks
        .map(|event| {
            let mut entry = entry(*event);
            entry["hookCount"] = json!(count(*event));
            entry
        })
        .collect();
    let rows = HookEvent::ALL.iter().flat_map(|event| of(*event));
    let hooks: Vec<Value> =
        rows.flat_map(|group| group.handlers.iter().map(|handler| row(group, handler))).collect();
    let managed = groups.iter().filter(|group| group.source.origin == Origin::Managed);
    json!({
        "events": events, "hooks": hooks,
        "eventCatalog": HookEvent::ALL.iter().map(|event| entry(*event)).collect::<Vec<_>>(),
        "policy": {
            "disabledByPolicy": false, "managedOnly": false, "pluginOnly": false,
            "allDisabled": are_off,
            "policyHookCount": managed.map(|group| group.handlers.len()).sum::<usize>(),
        },
    })
}

/// Returns the entries of the models that can be used: the session's first model under the name `default`, then all others.
pub(in crate::headless) fn models(first: &str, settings: &becket_model::Settings) -> Vec<Value> {
    let row = |value: &str, info: &becket_model::ModelInfo, about: String| {
        let mut row = json!({
            "value": value, "resolvedModel": bare(&info.id), "displayName": bare(&info.id), "description": about,
            "supportsEffort": info.reasoning,
        });
        if info.reasoning {
            row["supportedEffortLevels"] = json!(EFFORTS);
        }
        row
    };
    let first = crate::models::info(Some(first), settings);
    let mut rows = vec![row("default", &first, "the model of this session".to_owned())];
    for info in crate::model_names::known_models(settings) {
        if crate::cmd::models::usable(settings, &info.provider) {
            let about = format!("{} tokens of context, answers of up to {}", info.window, info.max_output);
            rows.push(row(bare(&info.id), &info, about));
        }
    }
    rows
}

/// Returns the name of a model as SDK programs write it: without `anthropic/`.
pub(in crate::headless) fn bare(id: &str) -> &str {
    id.strip_prefix("anthropic/").unwrap_or(id)
}

fn row(group: &Group, handler: &Handler) -> Value {
    let source = match (group.source.origin, &group.within) {
        (Origin::Managed, _) => "policySettings",
        (Origin::User, _) => "userSettings",
        (Origin::Project, _) => "projectSettings",
        (Origin::Local, _) => "localSettings",
        (Origin::Flag, _) => "flagSettings",
        (Origin::Plugin, _) => "pluginHook",
        (Origin::Sdk | Origin::Skill | Origin::Agent, _) => "sessionHook",
    };
    let label = match handler.kind {
        Kind::Command { .. } => "Command",
        Kind::Http { .. } => "URL",
        Kind::McpTool { .. } => "Tool",
        Kind::Prompt { .. } | Kind::Agent { .. } => "Prompt",
        Kind::Callback { .. } => "Callback",
    };
    let text = becket_tool::text::clean(&handler.kind.label()).into_owned();
    let mut row = json!({
        "event": group.event.as_str(), "matcher": group.matcher_text, "source": source,
        "sourceLabel": group.source.label(), "type": handler.kind.name(),
        "displayText": handler.status.clone().unwrap_or_else(|| text.clone()), "commandText": text,
        "contentLabel": label,
    });
    if let Some(condition) = &handler.condition {
        row["condition"] = json!(condition);
    }
    if let Some(limit) = handler.timeout {
        row["timeout"] = json!(limit.as_secs_f64());
    }
    if let Some(status) = &handler.status {
        row["statusMessage"] = json!(status);
    }
    if handler.once {
        row["runsOnce"] = json!(true);
    }
    if handler.beside {
        row["runsInBackground"] = json!(true);
    }
    if let Some(Within::Agent(name) | Within::Skill(name)) = &group.within {
        row["sourceLabel"] = json!(format!("{} ({name})", group.source.label()));
    }
    row
}

/// True if hooks of this event have a matcher, which selects for example tools.
fn takes_matcher(event: HookEvent) -> bool {
    !matches!(
        event,
        HookEvent::UserPromptSubmit
            | HookEvent::Stop
            | HookEvent::PostToolBatch
            | HookEvent::TaskCreated
            | HookEvent::TaskCompleted
            | HookEvent::TeammateIdle
            | HookEvent::MessageDisplay
    )
}

fn summary(event: HookEvent) -> &'static str {
    match event {
        HookEvent::SessionStart => "When a session begins, is continued or is compacted",
        HookEvent::SessionEnd => "When a session ends",
        HookEvent::InstructionsLoaded => "When a rules file is loaded",
        HookEvent::UserPromptSubmit => "Before a prompt is sent to the model",
        HookEvent::UserPromptExpansion => "When a command or a prompt of a server is expanded",
        HookEvent::PreToolUse => "Before a tool call",
        HookEvent::PermissionRequest => "Before a question for permission",
        HookEvent::PermissionDenied => "After a call was denied",
        HookEvent::PostToolUse => "After a tool call",
        HookEvent::PostToolUseFailure => "After a tool call that failed",
        HookEvent::PostToolBatch => "After all tool calls of a step",
        HookEvent::Notification => "When a person is asked something",
        HookEvent::SubagentStart => "When a subagent begins",
        HookEvent::SubagentStop => "Before a subagent ends",
        HookEvent::TaskCreated => "When the model adds a task to its list",
        HookEvent::TaskCompleted => "When the model completes a task of its list",
        HookEvent::Stop => "Before a turn ends",
        HookEvent::StopFailure => "When a turn ends because the model failed",
        HookEvent::ConfigChange => "When commands, skills or settings change during a session",
        HookEvent::DirectoryAdded => "When a folder joins the workspace",
        HookEvent::PreCompact => "Before a compaction",
        HookEvent::PostCompact => "After a compaction",
        HookEvent::Elicitation => "When an MCP server asks a question",
        HookEvent::ElicitationResult => "Before the answer to a question goes to an MCP server",
        HookEvent::PreModelSwitch => "Before the model changes",
        HookEvent::PostModelSwitch => "After the model has changed",
        HookEvent::Setup
        | HookEvent::MessageDisplay
        | HookEvent::TeammateIdle
        | HookEvent::CwdChanged
        | HookEvent::FileChanged
        | HookEvent::WorktreeCreate
        | HookEvent::WorktreeRemove => "Accepted, and never reached here",
    }
}
