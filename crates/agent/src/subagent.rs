//! The `task` tool as the model sees it.
//!
//! Owns the tool's description and the meaning of its input. The driver runs subagents, because it has the session, the
//! model, the guard and the limits that they share.

pub use crate::kind::{Kind, KindRun, KindTools, TASK};
use becket_tool::input::Parser;
use becket_tool::{Delegation, Tool, ToolEnv, text};
use becket_types::{Access, Effect, Part, ToolOutput, ToolSpec, cut_end, is_blank, quoted};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// Argument names of the same tool in other agents.
const ALIASES: &[(&str, &str)] = &[
    ("subagent_type", "agent"),
    ("agent_type", "agent"),
    ("subagent", "agent"),
    ("task", "prompt"),
    ("title", "description"),
    ("run_in_background", "background"),
];
/// Maximum length of a description in characters.
const MAX_DESCRIPTION: usize = 80;
/// Maximum length in bytes of a kind's line in the tool's description.
const MAX_LINE: usize = 300;

const DESCRIPTION: &str = "Give a task to a subagent, which works on its own in a context of its own and returns its last \
message. Use it for wide searches and for parts that can be described whole. It knows nothing of this conversation: say \
all it needs and what to report.";

/// A task for a subagent.
#[derive(Debug, PartialEq)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// Description in one line.
    pub(crate) description: String,
    pub(crate) prompt: String,
    /// Images that follow the prompt.
    pub(crate) images: Vec<Part>,
    /// True if the call does not wait for the subagent's end.
    pub(crate) background: bool,
}

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    description: String,
    prompt: String,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    background: bool,
}

/// The `task` tool: its specification for the model, and the parser of its input.
pub struct TaskTool {
    spec: ToolSpec,
    kinds: Arc<[Kind]>,
}

impl TaskTool {
    /// Makes the tool for these kinds, at least one. If a name occurs twice, the first kind counts.
    pub fn new(kinds: Arc<[Kind]>) -> Self {
        let mut description = format!("{DESCRIPTION}\nAgents:");
        for kind in kinds.iter() {
            let line = kind.description.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = write!(description, "\n- {}: {}", kind.name, cut_end(&line, MAX_LINE));
        }
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        let input_schema = json!({
            "type": "object",
            "properties": {
                "description": {"type": "string", "description": "3 to 7 words"},
                "prompt": {"type": "string"},
                "agent": {"type": "string", "enum": names},
                "background": {"type": "boolean", "description": "Do not wait; a message brings the result"}
            },
            "required": ["description", "prompt", "agent"]
        })
        .into();
        Self { spec: ToolSpec { name: TASK.to_owned(), description, input_schema }, kinds }
    }

    /// Parses the input of a call.
    ///
    /// # Errors
    ///
    /// Returns a message for the model.
    pub(crate) fn task(&self, input: &Value) -> Result<Task, String> {
        // `agent` may be omitted or capitalised, so it is checked here and not by the schema.
        let mut lenient = self.spec.clone();
        let schema = Arc::make_mut(&mut lenient.input_schema);
        schema["required"] = json!(["prompt"]);
        if let Some(agent) = schema.pointer_mut("/properties/agent") {
            *agent = json!({"type": "string"});
        }
        let input: Input = Parser::new(&lenient).aliases(ALIASES).parse(input)?;
        if is_blank(&input.prompt) {
            return Err("`prompt` is empty. Say what the subagent is to do.".to_owned());
        }
        let name = input.agent.as_deref().map(str::trim).filter(|name| !name.is_empty());
        // `general-purpose` is the name of the unrestricted kind in other agents.
        let wanted = match name {
            None | Some("general-purpose") => "general",
            Some(name) => name,
        };
        let named = |name: &str| self.kinds.iter().find(|kind| kind.name.eq_ignore_ascii_case(name));
        // `Plan` is another agent's kind that looks for what a plan needs.
        let found =
            named(wanted).or_else(|| named("explore").filter(|_| wanted.eq_ignore_ascii_case("plan")));
        let kind = found.or_else(|| self.kinds.first().filter(|_| name.is_none()));
        let Some(kind) = kind.cloned() else {
            let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name.as_str()).collect();
            return Err(format!(
                "There is no agent {wanted}. Agents: {}.",
                names.join(", "),
                wanted = quoted(&wanted)
            ));
        };
        let said = [input.description.as_str(), input.prompt.as_str()];
        let line = said.into_iter().find(|text| !is_blank(text)).unwrap_or_default();
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let description = text::clean(&line).chars().take(MAX_DESCRIPTION).collect();
        let background = input.background || kind.run.background;
        Ok(Task { kind, description, prompt: input.prompt, images: Vec::new(), background })
    }

    /// Returns the task of another tool's call.
    ///
    /// # Errors
    ///
    /// Returns a message for the model.
    pub(crate) fn delegated(&self, delegation: Delegation) -> Result<Task, String> {
        let Delegation { description, prompt, agent, model, effort } = delegation;
        let mut task = self.task(
            &json!({ "description": description, "prompt": prompt, "agent": agent.unwrap_or_default() }),
        )?;
        task.kind.model = model.or(task.kind.model);
        task.kind.run.effort = effort.or(task.kind.run.effort);
        Ok(task)
    }
}

impl Tool for TaskTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        let task = self.task(input)?;
        let effect = if task.kind.read_only { Effect::Session } else { Effect::Delegate };
        Ok(Access { effect, subject: Some(task.kind.name), ..Access::session() })
    }

    /// Not used: the driver runs this tool, because a tool cannot start an agent.
    fn run<'a>(&'a self, _: Value, _: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        let text = "Not run: there is no agent here that could have a subagent.";
        Box::pin(std::future::ready(ToolOutput::error(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> TaskTool {
        let mut kinds = Kind::built_in();
        kinds.push(Kind {
            name: "reviewer".to_owned(),
            description: format!("Reviews.\n{}", "é".repeat(400)),
            prompt: "Be strict.\n".to_owned(),
            ..Kind::default()
        });
        TaskTool::new(kinds.into())
    }

    #[test]
    fn inputs_as_models_write_them() {
        for (input, want) in [
            (json!({"description": "look", "prompt": "Find it", "agent": "explore"}), ("explore", "look")),
            (json!({"description": "look", "prompt": "Find it", "agent": "Explore"}), ("explore", "look")),
            (json!({"prompt": "Find\n it"}), ("general", "Find it")),
            (
                json!({"prompt": "x", "subagent_type": "general-purpose", "description": " "}),
                ("general", "x"),
            ),
            (
                json!({"task": "x", "agent": "reviewer", "title": "t", "run_in_background": true}),
                ("reviewer", "t"),
            ),
            (json!({"prompt": "x", "agent": ""}), ("general", "x")),
            (json!({"prompt": "x", "subagent_type": "Plan"}), ("explore", "x")),
        ] {
            let task = tool().task(&input).unwrap();
            assert_eq!((task.kind.name.as_str(), task.description.as_str()), want, "{input}");
        }
        for (input, want) in [
            (json!({"prompt": " ", "agent": "explore"}), "`prompt` is empty"),
            (
                json!({"prompt": "x", "agent": "nobody"}),
                "There is no agent \"nobody\". Agents: explore, general, reviewer.",
            ),
            (json!({"description": "x"}), "prompt"),
            (json!({"prompt": 3.5, "agent": []}), "must be"),
        ] {
            let error = tool().task(&input).unwrap_err();
            assert!(error.contains(want), "{input}: {error}");
        }
    }

    #[test]
    fn what_only_reads_may_run_beside_others() {
        let tool = tool();
        let effect = |agent: &str| {
            let task = tool.task(&json!({"prompt": "x", "agent": agent})).unwrap();
            if task.kind.read_only { Effect::Session } else { Effect::Delegate }
        };
        assert_eq!([effect("explore"), effect("general")], [Effect::Session, Effect::Delegate]);
    }

    #[test]
    fn the_model_is_told_of_each_kind_in_a_line() {
        let spec = tool().spec().clone();
        let lines: Vec<&str> = spec.description.lines().collect();
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines[4].starts_with("- reviewer: Reviews. é") && lines[4].len() < 320);
        assert_eq!(
            spec.input_schema["properties"]["agent"]["enum"],
            json!(["explore", "general", "reviewer"])
        );
        assert!(tool().kinds[2].instruction().ends_with("did not check.\n\nBe strict."));
    }
}
