//! Settings from the binary: which programs may run, and the user's own servers and formatters.

use crate::program::Environment;
use becket_sandbox::Programs;
use becket_types::PermissionMode;
use serde_json::Value;

/// Programs, formatters and language servers of a session.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Environment variables of formatters and servers. Programs are looked up in the folders of its `PATH`.
    pub env: Environment,
    /// Starts formatters and servers, confined or unconfined.
    pub programs: Programs,
    pub format: FormatSettings,
    pub lsp: LspSettings,
}

/// The choice of formatters.
#[derive(Clone, Debug, Default)]
pub struct FormatSettings {
    /// Use of formatters that the project has a configuration for. `None`: only if commands may run without
    /// asking. `Some(false)`: no formatter at all.
    pub auto: Option<bool>,
    /// Names of formatters that always run on their files.
    pub always: Vec<String>,
    /// The user's own formatters. They take precedence.
    pub commands: Vec<CustomFormatter>,
}

/// A program that reads a text and prints it formatted. `{path}` in its arguments is replaced by the file's
/// path.
#[derive(Clone, Debug, Default)]
pub struct CustomFormatter {
    pub name: String,
    pub command: Vec<String>,
    pub extensions: Vec<String>,
}

/// The choice of language servers.
#[derive(Clone, Debug, Default)]
pub struct LspSettings {
    /// Use of language servers, which run build scripts and plugins of the project. `None`: only if commands
    /// may run without asking.
    pub enabled: Option<bool>,
    /// The user's own servers, and changes to built-in ones.
    pub servers: Vec<CustomServer>,
}

/// A language server. Fields that are not set keep the values of the built-in server with this name.
#[derive(Clone, Debug, Default)]
pub struct CustomServer {
    pub name: String,
    /// An empty list switches the server off.
    pub command: Option<Vec<String>>,
    pub extensions: Vec<String>,
    /// Names of files that mark the top folder of a project.
    pub root_markers: Vec<String>,
    pub initialization_options: Option<Value>,
}

/// True if programs that the project can influence may run. `word`: the user's setting. Without it, they run only in a mode in
/// which every command may run.
pub(crate) fn permitted(word: Option<bool>, mode: PermissionMode) -> bool {
    word.unwrap_or(mode == PermissionMode::BypassPermissions)
}
