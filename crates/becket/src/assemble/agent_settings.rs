//! Settings of the agent that depend on the run alone. Opens nothing.

use crate::environment::Environment;
use crate::recorded_settings;
use crate::settings::RunSettings;
use becket_agent::prompt::{self, PromptSettings};
use becket_agent::rules::RulesSettings;
use becket_agent::{
    AgentSettings, Asking, LimitSettings, NewLimits, RequestSettings, RunLimits, SecretOutputs,
    SessionSettings, ToolSettings,
};
use becket_config::{Config, SecretsToModel, Settings, Source};
use std::path::PathBuf;

/// Returns the agent settings that depend on the run alone.
pub(super) fn agent_settings(environment: &Environment, run: &RunSettings) -> AgentSettings {
    let config = &run.settings.config;
    AgentSettings {
        roots: run.project.roots.clone(),
        asking: Asking { headless: !run.interactive, asks_host: run.client.asks_host },
        session: SessionSettings {
            title: run.session.title.clone(),
            states: if run.command.is_some() {
                Vec::new()
            } else {
                recorded_settings::states(&run.settings, &run.project)
            },
            ..SessionSettings::default()
        },
        limits: LimitSettings {
            run: RunLimits {
                max_turns: config.limits.max_turns,
                max_usd: config.limits.max_budget_usd,
                max_tokens: config.limits.max_tokens,
                max_wall: config.limits.max_wall,
            },
            ceilings: ceilings(&run.settings),
            new: NewLimits {
                usd: recorded_settings::is_new(&run.settings, "limits.max_budget_usd"),
                tokens: recorded_settings::is_new(&run.settings, "limits.max_tokens"),
            },
            wait_for_quota: config.limits.wait_for_quota,
        },
        tools: ToolSettings {
            secrets: match config.permissions.secrets {
                SecretsToModel::Ask => SecretOutputs::Ask,
                SecretsToModel::Mask => SecretOutputs::Mask,
                SecretsToModel::Send => SecretOutputs::Send,
            },
            snapshots: Some(snapshots(environment, run)),
            aliases: run.additions.tool_aliases.clone(),
            ..ToolSettings::default()
        },
        requests: RequestSettings {
            effort: config.model.effort.map(|e| {
                serde_json::to_value(e).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
            }),
            context_window: config.context.window,
            summaries: !run.command.as_ref().is_some_and(|command| command.asks_no_model),
            ..RequestSettings::default()
        },
        prompt: PromptSettings {
            brief: false,
            replace: run.prompts.replace.clone(),
            append: run.prompts.append.clone(),
            agent: None,
            answer: None,
            skills: None,
            environment_as_message: run.prompts.environment_as_message,
            plan: run.prompts.plan.clone(),
        },
        environment: prompt::Environment {
            cwd: run.project.cwd.clone(),
            extra_dirs: run.project.roots.iter().skip(1).cloned().collect(),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            date: crate::clock::today(environment),
        },
        rules: RulesSettings { untrusted: !run.project.trusted, ..rules(environment, config) },
        ..AgentSettings::default()
    }
}

/// Returns the limits that the administrator of this machine has set. The user can lower them and not raise them.
fn ceilings(settings: &Settings) -> RunLimits {
    let limits = &settings.config.limits;
    let managed = |key: &str| matches!(settings.source(key), Source::Managed(_));
    RunLimits {
        max_turns: limits.max_turns.filter(|_| managed("limits.max_turns")),
        max_usd: limits.max_budget_usd.filter(|_| managed("limits.max_budget_usd")),
        max_tokens: limits.max_tokens.filter(|_| managed("limits.max_tokens")),
        max_wall: limits.max_wall.filter(|_| managed("limits.max_wall")),
    }
}

/// Returns the settings for the copies of files that `becket undo` needs.
fn snapshots(environment: &Environment, run: &RunSettings) -> becket_snapshot::Settings {
    becket_snapshot::Settings {
        roots: run.project.roots.clone(),
        home: environment.home.clone(),
        exclude: vec![environment.data_dir.clone()],
        all_sessions: run.session.persist.then(|| environment.sessions_dir()),
        ..becket_snapshot::Settings::default()
    }
}

fn rules(environment: &Environment, config: &Config) -> RulesSettings {
    let mut user_files: Vec<PathBuf> = vec![environment.config_dir.join("AGENTS.md")];
    let mut own_dirs = vec![environment.config_dir.clone()];
    if let Some(claude) = environment.claude_dir() {
        user_files.push(claude.join("CLAUDE.md"));
        own_dirs.push(claude);
    }
    user_files.extend(config.instructions.rules.files.iter().map(PathBuf::from));
    RulesSettings { user_files, home: environment.home.clone(), own_dirs, ..RulesSettings::default() }
}
