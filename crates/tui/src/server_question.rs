//! Questions of MCP servers to the user, as the host passes them on, and the answers. Data only.

use serde_json::{Map, Value};

/// A question of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerQuestion {
    /// Identifies the question in its answer.
    pub number: u64,
    pub server: String,
    pub message: String,
    pub form: ServerForm,
}

/// The form of an MCP server's question.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerForm {
    /// A flat JSON Schema of an object.
    Fields(Value),
    /// An address that the user shall visit.
    Url(String),
}

/// The user's answer to a question of an MCP server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerAnswer {
    /// The values of the form by field name; empty for an address.
    Accept(Map<String, Value>),
    /// The user said no.
    Decline,
    /// The question was closed without an answer.
    Cancel,
}
