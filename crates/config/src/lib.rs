//! Configuration: layers of files, environment and flags become one immutable [`Settings`], each value with its source.
//!
//! Owns the keys, their types and defaults, the order of the layers and what a project may not set. The binary hands in
//! file contents, the environment and the flags; this crate reads no environment and no home folder by itself, and never
//! writes, runs or contacts anything.
//!
//! Order, strongest first: managed, flags, `--settings`, environment, project local, project, user, default. Scalars are
//! replaced, lists of permissions, folders and names grow, tables merge key by key.
//!
//! Invariants:
//! - A file of the project can only narrow what may happen; what would widen it is ignored with a warning, never silently.
//! - A wrong type is an error with file, line, column and key; an unknown key is a warning with the nearest name.
//! - Parsing is bounded: 1 MB, 32 levels, regular files only.
//! - Secrets are never shown.

mod amend;
mod document;
mod error;
mod explain;
mod files;
mod layers;
mod schema;
mod scope;
mod secret;
mod tree;

pub use amend::{Amend, amend, listed};
pub use error::{ConfigError, Problem};
pub use explain::Row;
pub use files::{MAX_BYTES, Places, read_files, read_text};
pub use layers::{Flag, Inputs, Layer, Origin, Scope, SettingSources, Settings, Source, load};
pub use schema::{
    Config, ContextConfig, Effort, FormatCommand, FormatConfig, LimitsConfig, LspConfig, LspServer,
    PermissionsConfig, ProviderConfig, ProvidersConfig, PruneConfig, RulesConfig, SandboxConfig, SandboxMode,
    SandboxNetwork, SearchConfig, SearchProvider, SecretsToModel, ShellConfig, SkillsConfig,
    StatusLineConfig, ToolsConfig, UiConfig, WebConfig, json_schema,
};
pub use secret::{Credential, Secret};
