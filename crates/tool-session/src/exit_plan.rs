//! The `exit_plan` tool: the model shows its plan in permission mode `plan`, and the user decides if it is carried out.
//!
//! The plan reaches the user as the question for permission of the call ([`Tool::asks_person`]). The agent changes the mode
//! when the user agrees. Changes nothing itself.

use becket_tool::input::Parser;
use becket_tool::{PersonQuestion, Tool, ToolEnv};
use becket_types::{Access, PermissionMode, ToolOutput, ToolSpec, is_blank};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

static QUESTION: PersonQuestion = PersonQuestion {
    reason: "the model has a plan and wants to carry it out",
    refused: "The user did not agree to the plan. Stay in permission mode plan, and plan on",
    answers: &[],
    only_in: Some((
        PermissionMode::Plan,
        "The session is not in permission mode plan, so there is no plan to agree to. Go on with the task.",
    )),
};

/// Fields of other agents without an effect here.
const IGNORED: &[&str] = &["allowedPrompts", "planFilePath", "launchSwarm", "teammateCount"];

#[derive(Debug, Deserialize)]
struct Input {
    plan: String,
}

/// Asks the user to agree to a plan. Offered only where somebody can answer.
pub struct ExitPlan {
    spec: ToolSpec,
}

impl ExitPlan {
    /// Makes the tool with its specification.
    pub fn new() -> Self {
        let spec = ToolSpec {
            name: "exit_plan".to_owned(),
            description:
                "Only in permission mode plan: shows the user your finished plan and asks to carry it out."
                    .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"plan": {"type": "string", "description": "Markdown"}},
                "required": ["plan"]
            })
            .into(),
        };
        Self { spec }
    }

    fn plan(&self, input: &Value) -> Result<String, String> {
        let Input { plan } = Parser::new(&self.spec).ignore(IGNORED).parse(input)?;
        if is_blank(&plan) {
            return Err("The plan is empty: write it into `plan`.".to_owned());
        }
        Ok(plan)
    }
}

impl Default for ExitPlan {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for ExitPlan {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        self.plan(input).map(|_| Access::session())
    }

    fn run<'a>(&'a self, input: Value, _: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        let output = match self.plan(&input) {
            Ok(plan) => ToolOutput {
                details: json!({"plan": plan, "isAgent": false}),
                ..ToolOutput::text("User has approved your plan. You can now write and run: carry it out.")
            },
            Err(message) => ToolOutput::error(message),
        };
        Box::pin(std::future::ready(output))
    }

    fn asks_person(&self) -> Option<&'static PersonQuestion> {
        Some(&QUESTION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool::testing::{self, run};
    use std::path::Path;

    #[tokio::test]
    async fn a_plan_has_a_text() {
        let (env, _) = testing::env(Path::new("/"));
        let tool = ExitPlan::new();
        let output = run(&tool, &env, json!({"plan": "1. do it", "allowedPrompts": []})).await;
        assert!(!output.is_error && output.content.starts_with("User has approved your plan"));
        assert_eq!(output.details["plan"], "1. do it");
        for input in [json!({"plan": " \n"}), json!({})] {
            assert!(run(&tool, &env, input.clone()).await.is_error, "{input}");
            assert!(tool.access(&input, &env).is_err());
        }
    }
}
