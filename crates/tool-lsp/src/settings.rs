//! What the binary hands in: which programs may run, and the user's own.

use crate::process::Environment;
use becket_sandbox::Programs;
use becket_types::PermissionMode;
use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Variables of formatters and servers; `PATH` in it is where they are looked for.
    pub env: Environment,
    /// Starts formatters and servers, confined or not.
    pub programs: Programs,
    pub format: FormatSettings,
    pub lsp: LspSettings,
}

#[derive(Clone, Debug, Default)]
pub struct FormatSettings {
    /// Formatters that the project has a configuration for: `None` only where commands run without a question, `Some(false)`
    /// no formatter at all.
    pub auto: Option<bool>,
    /// Formatters by name that always run on their files.
    pub always: Vec<String>,
    /// The user's own; they come before all others.
    pub commands: Vec<CustomFormatter>,
}

/// A program that reads a text and prints it formatted. `{path}` in its words is the file.
#[derive(Clone, Debug, Default)]
pub struct CustomFormatter {
    pub name: String,
    pub command: Vec<String>,
    pub extensions: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct LspSettings {
    /// `None`: only where commands run without a question. Language servers run build scripts and plugins of the project.
    pub enabled: Option<bool>,
    /// The user's own, and changes to those that are known by name.
    pub servers: Vec<CustomServer>,
}

/// A language server. What is not given stays as it is known under this name.
#[derive(Clone, Debug, Default)]
pub struct CustomServer {
    pub name: String,
    /// `Some` and empty switches the server off.
    pub command: Option<Vec<String>>,
    pub extensions: Vec<String>,
    /// Files that mark the top folder of a project.
    pub root_markers: Vec<String>,
    pub initialization_options: Option<Value>,
}

/// Whether programs that the project can steer may run: by the user's word, else where any command may.
pub(crate) fn permitted(word: Option<bool>, mode: PermissionMode) -> bool {
    word.unwrap_or(mode == PermissionMode::BypassPermissions)
}
