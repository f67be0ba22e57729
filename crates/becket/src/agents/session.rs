//! The agents of one session, and the kind that the session's own agent is (`--agent`).
//!
//! A session keeps its agent: the name is recorded in the session's state, and later runs use it unless they name another
//! one. The kind's model, effort, mode and limit apply unless the run sets or the session keeps another value.

use super::{Agents, DefinedIn, Definition, GivenAgents};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::recorded_settings::{self, is_given};
use becket_agent::subagent::{Kind, KindTools};
use becket_config::{Settings, Source};
use becket_model::ErrorKind;
use becket_tool::ToolSource;
use becket_types::quoted;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Returns the first prompt of a session: that of its agent, then the user's.
pub(crate) fn with_initial(initial: Option<&str>, prompt: Option<String>) -> Option<String> {
    match (initial, prompt) {
        (Some(initial), Some(prompt)) => Some(format!("{initial}\n\n{prompt}")),
        (Some(initial), None) => Some(initial.to_owned()),
        (None, prompt) => prompt,
    }
}

/// All agents of a session, and its own.
#[derive(Debug)]
pub(crate) struct SessionAgents {
    pub agents: Agents,
    main: Option<String>,
    /// Warnings about agents that the run itself defines.
    given: Vec<String>,
}

impl SessionAgents {
    /// Finds the agents, and applies the kind of the session's own agent to the settings. `kept`: the name that the session
    /// has recorded.
    ///
    /// # Errors
    ///
    /// Returns a failure for the user if there is no agent of the name that the run gives.
    pub(crate) fn new(
        environment: &Environment,
        cwd: &Path,
        trusted: bool,
        given: &GivenAgents,
        kept: Option<String>,
        settings: &mut Settings,
    ) -> Result<Self, Failure> {
        let mut agents = Agents::find(environment, cwd, trusted, &given.definitions);
        let named = given.main.as_ref().or(kept.as_ref());
        let found = named.and_then(|name| agents.get(name)).cloned();
        match (&found, &given.main, kept) {
            (None, Some(name), _) => {
                let names: Vec<&str> = agents.all.iter().map(|agent| agent.kind.name.as_str()).collect();
                return Err(Failure::usage(format!(
                    "--agent: there is no agent {name}",
                    name = quoted(&name)
                ))
                .hint(format!("agents: {}", names.join(", "))));
            }
            (None, None, Some(name)) => agents.warnings.push(format!(
                "this session ran as the agent {name}, which is not defined any more; it continues without it"
            )),
            _ => {}
        }
        if let Some(definition) = &found {
            apply(definition, settings);
            let name = &definition.kind.name;
            let of_agent = |model: &&String| settings.config.model.name.as_ref() == Some(*model);
            if let Some(model) = definition.kind.model.as_ref().filter(of_agent) {
                let models = crate::models::model_settings(environment, settings);
                let aliases = &settings.config.model.others.aliases;
                let found = crate::model_names::find(model, aliases, &models);
                // A missing key is no failure here, because the user may still give one. An unknown provider or model is.
                let known = found.and_then(|found| match becket_model::open(&found.reference, &models) {
                    Err(error) if error.kind == ErrorKind::NotFound => Err(crate::model_names::usage(&error)),
                    _ => Ok(()),
                });
                known.map_err(|failure| Failure {
                    message: format!(
                        "the agent {name} names a model that cannot be used: {}",
                        failure.message
                    ),
                    ..failure
                })?;
            }
            let names = definition.startable_agents.iter().flatten();
            let missing: Vec<&String> = names.filter(|name| agents.get(name).is_none()).collect();
            agents.warnings.extend(missing.iter().map(|name| {
                format!(
                    "the agent {}: `tools` names the agent {name}, which is not defined",
                    definition.kind.name
                )
            }));
        }
        let main = found.map(|definition| definition.kind.name);
        Ok(Self { agents, main, given: given.warnings.clone() })
    }

    /// Takes the warnings that a run shows: those about agents that it names. Others are one line, because the run may not
    /// use these agents at all, and `becket agents` shows their warnings.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.given);
        let own = self.main.as_ref().map(|name| format!("the agent {name}"));
        let is_shown = |warning: &String| {
            !warning.starts_with("the agent ") || own.as_ref().is_some_and(|own| warning.starts_with(own))
        };
        let (shown, others): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.agents.warnings).into_iter().partition(is_shown);
        notes.extend(shown);
        match others.len() {
            0 => {}
            1 => notes.extend(others),
            count => notes.push(format!("{count} warnings about agents; `becket agents` lists them")),
        }
        notes
    }

    /// Returns a note if the session's agent is defined by a project that the user has not trusted. Only headless runs use
    /// such a definition.
    pub(crate) fn note_about_place(&self, environment: &Environment, cwd: &Path) -> Option<String> {
        let definition = self.agents.get(self.main.as_ref()?)?;
        let DefinedIn::Project(file) = &definition.place else { return None };
        let is_trusted = crate::trust::is_trusted(environment, &crate::settings::project_root(cwd));
        (!is_trusted).then(|| {
            format!(
                "the agent {} is defined by the project, in {}, which you have not trusted; a headless run uses it, without its \
                 hooks and servers",
                definition.kind.name,
                file.display()
            )
        })
    }

    /// Returns the prompt with which the session's own agent begins.
    pub(crate) fn initial_prompt(&self) -> Option<&str> {
        self.agents.get(self.main.as_ref()?)?.initial_prompt.as_deref()
    }

    /// Returns the kinds of subagents that the session can have: all, or those that its own agent may start. `append`: text
    /// for the system prompt of each.
    pub(crate) fn kinds(&self, append: Option<&str>) -> Vec<Kind> {
        let mut kinds = self.agents.kinds();
        if let Some(text) = append {
            for kind in &mut kinds {
                let whole = format!("{}\n\n{text}", kind.prompt);
                whole.trim().clone_into(&mut kind.prompt);
            }
        }
        let main = self.main.as_ref().and_then(|name| self.agents.get(name));
        if let Some(names) = main.and_then(|main| main.startable_agents.as_ref()) {
            kinds.retain(|kind| names.contains(&kind.name));
        }
        kinds
    }

    /// Returns the kind of the session's own agent.
    pub(crate) fn main(&self) -> Option<&Kind> {
        self.main.as_ref().and_then(|name| self.agents.get(name)).map(|definition| &definition.kind)
    }

    /// Returns the state that records the session's agent.
    pub(crate) fn state(&self) -> Option<(String, Value)> {
        self.main.as_ref().map(|name| (recorded_settings::AGENT.to_owned(), json!(name)))
    }

    /// Limits `source` to the tools that the session's own agent has: those of its kind, and none of MCP servers that only
    /// other agents use (`private`).
    pub(crate) fn main_tools(&self, source: Arc<dyn ToolSource>, private: &[String]) -> Arc<dyn ToolSource> {
        let mut kind = self.main().cloned().unwrap_or_default();
        let of_main = self.main.as_ref().and_then(|name| self.agents.get(name));
        let own =
            |server: &String| of_main.is_some_and(|main| main.servers.iter().any(|(name, _)| name == server));
        let others = private.iter().filter(|server| !own(server));
        kind.without.extend(others.map(|server| format!("mcp__{}", becket_mcp::naming::server_part(server))));
        if kind == Kind::default() {
            return source;
        }
        Arc::new(KindTools { source, kind })
    }
}

fn apply(definition: &Definition, settings: &mut Settings) {
    let kind = &definition.kind;
    let session = settings.config.permissions.mode;
    let mode = kind.mode(session);
    let values = [
        ("model", kind.model.as_ref().map(|model| json!(model))),
        ("effort", kind.run.effort.as_ref().map(|effort| json!(effort))),
        ("limits.max_turns", kind.run.max_turns.map(|turns| json!(turns))),
        ("permission_mode", (mode != session && kind.run.mode.is_some()).then(|| json!(mode))),
    ];
    for (key, value) in values {
        if let Some(value) = value.filter(|_| !is_given(settings, key) && !settings.is_remembered(key)) {
            settings.set(key, value, Source::Settings(format!("agent {}", kind.name)));
        }
    }
}
