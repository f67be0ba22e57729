//! `StructuredOutput`: the tool with which a model gives an answer that must fit a schema.
//!
//! Its input schema is the user's. An input that does not fit is an error that lists the wrong values, so the model
//! corrects it in the same turn. An input that fits becomes the result's `structured_output`.

use becket_print::Schema;
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;

/// The tool's name, for the model and for programs.
pub(crate) const NAME: &str = "StructuredOutput";

pub(crate) struct StructuredOutput {
    spec: ToolSpec,
    schema: Arc<Schema>,
}

impl StructuredOutput {
    /// Returns `None` if the schema does not describe an object, because the input of a tool is an object.
    pub(crate) fn new(schema: Arc<Schema>) -> Option<Self> {
        let input_schema = schema.value().clone();
        let object = input_schema.get("type").and_then(Value::as_str) == Some("object");
        let description =
            "Gives the final answer of the task in the required form. Call it once, at the end.".to_owned();
        object.then(|| Self {
            spec: ToolSpec { name: NAME.to_owned(), description, input_schema: input_schema.into() },
            schema,
        })
    }
}

impl Tool for StructuredOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Value, _: &ToolEnv) -> Result<Access, String> {
        Ok(Access::session())
    }

    fn run<'a>(&'a self, input: Value, _: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match self.schema.fits(&input) {
                Ok(()) => ToolOutput {
                    details: json!({ "structured_output": input }),
                    ..ToolOutput::text(
                        "The answer fits the schema and is recorded. End your turn now.".to_owned(),
                    )
                },
                Err(problem) => ToolOutput::error(format!(
                    "The input does not fit the schema: {problem}. Call {NAME} again with an input that fits."
                )),
            }
        })
    }
}
