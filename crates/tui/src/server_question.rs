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

#[derive(Clone, Debug, PartialEq)]
pub enum ServerForm {
    /// A flat JSON Schema of an object.
    Fields(Value),
    /// An address that the user shall visit.
    Url(String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ServerAnswer {
    Accept(Map<String, Value>),
    Decline,
    Cancel,
}
