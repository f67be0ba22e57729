//! Builds the tools that are offered to the model.

use crate::environment::Environment;
use crate::failure::Failure;
use becket_agent::subagent::{Kind, TaskTool};
use becket_config::Config;
use becket_sandbox::Sandbox;
use becket_tool::{Registry, Tool};
use becket_tool_shell::{Shell, ShellSettings};
use becket_tool_skill::{Scope, SkillDir, SkillTool, Skills};
use becket_types::{ToolSpec, quoted};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the skills of a session: bundled ones, the user's, and those of a trusted project.
pub(crate) fn skills(environment: &Environment, cwd: &Path, config: &Config, trusted: bool) -> Skills {
    let mut dirs = Vec::new();
    let root = crate::settings::project_root(cwd);
    for path in crate::trust::folders(crate::trust::ContentKind::Skills, &root, cwd) {
        dirs.push(SkillDir { path, scope: Scope::Project, trusted });
    }
    let mut add = |dir: PathBuf, scope: Scope| dirs.push(SkillDir { path: dir, scope, trusted: true });
    for dir in &config.instructions.skills.dirs {
        let dir = root.join(dir);
        // The configuration of a project can name folders inside it. Links in them are not followed.
        let scope = if dir.starts_with(&root) { Scope::Project } else { Scope::User };
        if scope == Scope::User || !crate::trust::leads_outside(&root, &dir) {
            add(dir, scope);
        }
    }
    add(environment.config_dir.join("skills"), Scope::User);
    if let Some(agents) = environment.of_home(".agents/skills") {
        add(agents, Scope::User);
    }
    if let Some(claude) = environment.claude_dir() {
        add(claude.join("skills"), Scope::User);
    }
    let mut skills = Skills::discover(&dirs);
    for plugin in environment.plugins.iter() {
        for dir in &plugin.skills {
            skills.add_plugin(&plugin.name, &plugin.root, dir);
        }
    }
    skills.count_uses(&skill_uses(environment));
    skills
}

/// Returns the path of the file that counts how often skills were loaded.
pub(crate) fn skill_uses(environment: &Environment) -> PathBuf {
    environment.data_dir.join("skill-uses")
}

/// Returns all tools except those that are switched off. The model at the start of the session decides which editing
/// tools are offered. This stays for the whole session, because the tools in its requests must not change. Editing
/// tools that are not offered still work, for models that know them from training or from earlier in the session. If
/// the configuration names tools, exactly those are offered.
pub(crate) fn registry(
    config: &Config,
    skill: SkillTool,
    shell: &Arc<Shell>,
    model: &str,
    more: Vec<Arc<dyn Tool>>,
    lenient: bool,
) -> Result<(Registry, Vec<String>), Failure> {
    let mut notes = Vec::new();
    let mut all = tools(shell, skill);
    all.extend(more);
    let mut registry = Registry::new();
    for tool in all {
        registry.add(tool).map_err(|e| Failure::error(e.to_string()))?;
    }
    if let Some(enabled) = &config.tools.offered.enabled {
        let mut unknown = enabled.iter().filter(|name| registry.get(name).is_none());
        // A program may name tools of the agent that it was written for.
        if lenient {
            notes.extend(unknown.map(|name| {
                format!("--tools: there is no tool {name} here; it is left out", name = quoted(&name))
            }));
        } else if let Some(unknown) = unknown.next() {
            let names = registry.all_names();
            let near = becket_tool::text::nearest(unknown, names.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(Failure::usage(format!(
                "--tools (tools.enabled): there is no tool {unknown:?}{near}"
            ))
            .hint(format!("tools: {}", names.join(", "))));
        }
        registry.retain(|name| enabled.iter().any(|enabled| is_named(enabled, name)));
    } else {
        let dialect = becket_tool_edit::Dialect::for_model(model);
        // Users of an SDK know the tool for notebooks. Elsewhere it would cost every session its definition.
        registry.offer(|name| dialect.offers(name) || lenient && name == becket_tool_edit::NOTEBOOK_EDIT);
    }
    if !lenient {
        notes.extend(unknown_disabled_notes(config, &registry.all_names()));
    }
    registry.retain(|name| !config.tools.offered.disabled.iter().any(|disabled| is_named(disabled, name)));
    Ok((registry, notes))
}

/// True if a setting names the tool `name`: as becket does or as SDK users do, in any case.
fn is_named(given: &str, name: &str) -> bool {
    becket_types::sdk_names::own_name(given).eq_ignore_ascii_case(&becket_types::sdk_names::own_name(name))
}

/// Returns a note for each entry of `tools.disabled` that names none of these tools. Tools of MCP servers come later.
pub(crate) fn unknown_disabled_notes(config: &Config, names: &[String]) -> Vec<String> {
    let disabled = config.tools.offered.disabled.iter().filter(|name| !name.starts_with("mcp__"));
    let unknown = disabled.filter(|given| !names.iter().any(|name| is_named(given, name)));
    let near = |given: &str| {
        let near = becket_tool::text::nearest(given, names.iter().map(String::as_str));
        near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
    };
    unknown
        .map(|name| {
            format!(
                "tools.disabled: there is no tool {name}, so nothing is disabled{}",
                near(name),
                name = quoted(&name)
            )
        })
        .collect()
}

/// Windows up to this size, in tokens, get a short prompt and few tools.
pub(crate) const SMALL_WINDOW: u64 = 12_288;
/// The tools that a model with a small window is offered.
const SMALL_WINDOW_TOOLS: [&str; 8] =
    ["apply_patch", "bash", "edit", "glob", "grep", "read", "recall", "write"];

/// Offers few tools with short descriptions, so that most of a small window is left for the task. The other tools still
/// work if the model calls them. If the configuration names tools, exactly those are offered.
pub(crate) fn fit_small_window(registry: &mut Registry, config: &Config) {
    registry.shorten();
    if config.tools.offered.enabled.is_none() {
        let offered = registry.names();
        let stays = |name: &str| SMALL_WINDOW_TOOLS.contains(&name) || name == "StructuredOutput";
        registry.offer(|name| stays(name) && offered.iter().any(|known| known == name));
    }
}

/// Returns the shell that all commands of a session share.
pub(crate) fn shell(
    environment: &Environment,
    config: &Config,
    spill_dir: Option<PathBuf>,
    sandbox: Option<Arc<Sandbox>>,
) -> Arc<Shell> {
    let mut env = crate::providers::variables_for_programs(environment, config);
    // Scripts look for this variable to learn that an agent runs them. Programs of the Claude Agent SDK rely on it.
    if environment.var("CLAUDE_CODE_ENTRYPOINT").is_some_and(|name| name.starts_with("sdk-")) {
        env.push((OsString::from("CLAUDECODE"), OsString::from("1")));
    }
    for (name, value) in &config.tools.shell.env {
        env.retain(|(n, _)| n != name.as_str());
        env.push((OsString::from(name), OsString::from(value)));
    }
    let withheld = environment.vars.keys().filter(|name| !env.iter().any(|(n, _)| n == name.as_str()));
    let withheld = withheld.cloned().collect();
    let mut settings = ShellSettings::new(env, spill_dir);
    settings.withheld = withheld;
    if let Some(timeout) = config.tools.shell.timeout {
        settings.default_timeout = timeout;
        settings.max_timeout = settings.max_timeout.max(timeout);
    }
    settings.spill.store = Some(environment.sessions_dir());
    settings.sandbox = sandbox;
    settings.keeps_confined = config.tools.sandbox.deny_unconfined;
    settings.spill.others.push(std::env::temp_dir());
    Shell::new(settings)
}

/// Returns the descriptions of all tools, for pages that count their tokens.
pub(crate) fn specs() -> Vec<ToolSpec> {
    let shell = Shell::new(ShellSettings::new(Vec::new(), None));
    let mut all = tools(&shell, SkillTool::new(Arc::new(Skills::discover(&[]))));
    all.extend(crate::integrations::always(&Config::default(), becket_tool_web::Proxies::default()));
    all.push(Arc::new(TaskTool::new(Kind::built_in().into())));
    all.extend(question_tools());
    all.iter().map(|t| t.spec().clone()).collect()
}

/// Returns the tools that put a question to the user.
pub(crate) fn question_tools() -> [Arc<dyn Tool>; 2] {
    [Arc::new(becket_tool_session::AskUser::new()), Arc::new(becket_tool_session::ExitPlan::new())]
}

fn tools(shell: &Arc<Shell>, skill: SkillTool) -> Vec<Arc<dyn Tool>> {
    let mut all: Vec<Arc<dyn Tool>> = vec![Arc::new(becket_tool_read::Read::new())];
    all.extend(becket_tool_edit::tools());
    all.extend(shell.tools());
    all.push(Arc::new(becket_tool_search::Grep::new()));
    all.push(Arc::new(becket_tool_search::Glob::new()));
    all.push(Arc::new(skill));
    all.push(Arc::new(becket_tool_session::Todo::new()));
    all.push(Arc::new(becket_tool_session::Recall::new()));
    all
}

#[cfg(test)]
#[path = "toolbox_tests.rs"]
mod tests;
