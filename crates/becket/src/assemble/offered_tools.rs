//! The tools that a session begins with. Starts nothing.

use crate::agents::SessionAgents;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::RunSettings;
use crate::structured::StructuredOutput;
use crate::toolbox;
use becket_agent::subagent::{Kind, TASK, TaskTool};
use becket_guard::Guard;
use becket_model::ModelInfo;
use becket_tool::{Registry, Tool};
use becket_tool_shell::Shell;
use becket_tool_skill::{SkillTool, Skills};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The end of the system prompt if the answer goes through [`StructuredOutput`].
const ANSWER: &str = "When the task is done, call the StructuredOutput tool once with the answer. Its input schema is the \
required form; the user reads nothing else.";

/// The form that the run requires of the answer (`--json-schema`).
pub(super) struct AnswerForm {
    pub(super) tool: Option<StructuredOutput>,
    /// The instruction in the system prompt.
    pub(super) instruction: Option<String>,
}

impl AnswerForm {
    /// Chooses between the tool and an instruction with the schema. Adding a tool to a continued session would make its
    /// next request differ from the first byte on, so only a new session and a run that a program drives get the tool.
    pub(super) fn for_run(run: &RunSettings) -> Self {
        let schema = run.output.schema.as_ref();
        let tool = schema
            .filter(|_| run.is_driven() || !run.continues_session())
            .cloned()
            .and_then(StructuredOutput::new);
        let instruction = match &tool {
            Some(_) => Some(ANSWER.to_owned()),
            None => schema.map(|schema| schema.instruction()),
        };
        Self { tool, instruction }
    }
}

/// The parts of a session on which its tools depend.
pub(super) struct ToolParts<'a> {
    pub(super) environment: &'a Environment,
    pub(super) run: &'a RunSettings,
    pub(super) guard: &'a Guard,
    pub(super) session_agents: &'a SessionAgents,
    pub(super) subagents: &'a Arc<[Kind]>,
    pub(super) skills: &'a Arc<Skills>,
    pub(super) engine: Option<&'a becket_hooks::Engine>,
    pub(super) shell: &'a Arc<Shell>,
    pub(super) model: &'a ModelInfo,
}

impl ToolParts<'_> {
    /// Returns the tools that are offered. `integrated`: the tools of integrations. Adds notes for the user.
    ///
    /// # Errors
    ///
    /// Returns a failure for the user if two tools have one name.
    pub(super) fn registry(
        &self,
        integrated: Vec<Arc<dyn Tool>>,
        answer: Option<StructuredOutput>,
        notes: &mut Vec<String>,
    ) -> Result<Registry, Failure> {
        let config = &self.run.settings.config;
        let task: Arc<dyn Tool> = Arc::new(TaskTool::new(Arc::clone(self.subagents)));
        let more = integrated.into_iter().chain([task]).chain(self.question_tools()).collect();
        let driven = self.run.client.driven;
        let (mut tools, unknown) =
            toolbox::registry(config, self.skill_tool(), self.shell, &self.model.name, more, driven)?;
        notes.extend(unknown);
        if let Some(tool) = answer {
            tools.add(Arc::new(tool)).map_err(|e| Failure::error(e.to_string()))?;
        }
        // Checks names of tools that are switched off or not offered as well, because a rule for such a tool is not a
        // mistake.
        notes.extend(self.guard.warnings(&|| {
            let all: BTreeSet<String> =
                toolbox::specs().into_iter().map(|tool| tool.name).chain(tools.all_names()).collect();
            all.into_iter().collect()
        }));
        if self.window_is_small() {
            toolbox::fit_small_window(&mut tools, config);
        }
        let removed = self.guard.removed_tools(&tools.all_names());
        tools.retain(|name| {
            let is_removed = removed.iter().any(|r| r == name) || name == TASK && self.subagents.is_empty();
            !is_removed && self.session_agents.main().is_none_or(|kind| kind.offers(name))
        });
        if let Some(recorded) = self.run.files.replay.as_ref().and_then(|replay| replay.recorded.as_ref()) {
            recorded.answer_for(&mut tools);
        }
        Ok(tools)
    }

    /// True if the context window leaves no room for all tools.
    pub(super) fn window_is_small(&self) -> bool {
        let window = self.run.settings.config.context.window.unwrap_or(self.model.window);
        window <= toolbox::SMALL_WINDOW
    }

    /// Returns the tools that put a question to the user, if somebody can answer. They are offered in every permission mode,
    /// because a change of the mode must not change the tools, with which the provider's cache begins.
    fn question_tools(&self) -> Vec<Arc<dyn Tool>> {
        if !self.run.interactive && !self.run.client.asks_host {
            return Vec::new();
        }
        toolbox::question_tools().into()
    }

    fn skill_tool(&self) -> SkillTool {
        let mut skill = SkillTool::new(Arc::clone(self.skills));
        if self.run.session.persist {
            skill = skill.recorded_in(toolbox::skill_uses(self.environment));
        }
        if let Some(engine) = self.engine.cloned() {
            skill = skill.informing(Arc::new(move |name: &str| engine.skill_loaded(name)));
        }
        skill
    }
}
