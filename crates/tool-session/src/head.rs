//! Common part of the session's tools: the specification, the input parser used for both access and run, and the declaration
//! ([`Tool::access`]) that nothing outside the session is touched. Contains nothing specific to a tool.

use becket_tool::input::Parser;
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use serde_json::Value;
use std::marker::PhantomData;

/// The specific part of one tool.
pub trait Action: Send + Sync + 'static {
    /// The parsed input.
    type Input: Send + 'static;

    /// Name of the tool.
    const NAME: &'static str;
    /// Description for the model: one line.
    const DESCRIPTION: &'static str;

    /// JSON Schema of the input.
    fn schema() -> Value;

    /// Parses the input.
    ///
    /// # Errors
    ///
    /// Returns a message for the model.
    fn parse(parser: Parser<'_>, input: &Value) -> Result<Self::Input, String>;

    /// Runs the tool. May take a second.
    ///
    /// # Errors
    ///
    /// Returns a message for the model.
    fn run(input: Self::Input, env: &ToolEnv) -> Result<ToolOutput, String>;
}

/// A tool that only touches the session.
pub struct SessionTool<A> {
    spec: ToolSpec,
    action: PhantomData<A>,
}

impl<A: Action> SessionTool<A> {
    /// Makes the tool with the name, description and schema of its action.
    pub fn new() -> Self {
        let (name, description) = (A::NAME.to_owned(), A::DESCRIPTION.to_owned());
        Self { spec: ToolSpec { name, description, input_schema: A::schema().into() }, action: PhantomData }
    }

    fn parse(&self, input: &Value) -> Result<A::Input, String> {
        A::parse(Parser::new(&self.spec), input)
    }
}

impl<A: Action> Default for SessionTool<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Action> Tool for SessionTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        self.parse(input).map(|_| Access::session())
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let input = match self.parse(&input) {
                Ok(input) => input,
                Err(message) => return ToolOutput::error(message),
            };
            let env = env.clone();
            let done = tokio::task::spawn_blocking(move || A::run(input, &env)).await;
            done.unwrap_or_else(|error| Err(format!("The call ended abnormally: {error}.")))
                .unwrap_or_else(ToolOutput::error)
        })
    }
}
