//! Configuration: files, environment and flags are merged to one immutable [`Settings`], in which each value
//! has its source.
//!
//! Owns the keys, their types and defaults, the order of the layers, and the limits on what a project may
//! set. The binary passes in file contents, the environment and the flags. This crate reads no environment
//! and no home folder itself, and never writes, runs or contacts anything.
//!
//! Order, strongest first: managed, flags, `--settings`, environment, project local, project, user, default.
//! Scalars are replaced. Lists of permissions, folders and names grow. Tables are merged key by key.
//!
//! Invariants:
//! - A project's file can only restrict what may happen. A value that would allow more is ignored with a
//!   warning, never silently.
//! - A wrong type is an error with file, line, column and key. An unknown key is a warning with the most
//!   similar name.
//! - Parsing is bounded: 1 MB, 32 levels, regular files only.
//! - Secrets are never shown, and a key goes only to the host that it belongs to.

mod amend;
mod anchors;
mod checks;
mod claude;
mod config;
mod document;
mod error;
mod explain;
mod files;
mod key_hosts;
mod keys;
mod layers;
mod provider_checks;
mod providers;
mod restrict;
mod schema;
mod scope;
mod secret;
mod source;
mod tree;

pub use amend::{Amend, amend, listed};
pub use config::{
    Config, HooksConfig, InstructionsConfig, IntegrationsConfig, ModelChoice, RightsConfig, ToolSetConfig,
    json_schema,
};
pub use document::json_value;
pub use error::{ConfigError, Problem};
pub use explain::Row;
pub use files::{Layer, MAX_BYTES, Places, Scope, SettingSources, read_files, read_text};
pub use key_hosts::{KeyOrigin, Withheld, host_of, kept_name, may_sign, search_key_may_go, token_may_go};
pub use layers::{Flag, Inputs, Origin, Settings, load};
pub use providers::{
    CallIds, CloudConfig, CompatConfig, EffortDial, LoginConfig, ModelConfig, OutputLimitField, ProviderAuth,
    ProviderConfig, ProviderKind, ProvidersConfig, SystemRole, TextCalls, VENDORS, Vendor, vendor,
};
pub use schema::{
    CacheTtl, CacheWarm, ContextConfig, Effort, FormatCommand, FormatConfig, LimitsConfig, LspConfig,
    LspServer, PermissionsConfig, PruneConfig, RulesConfig, SandboxConfig, SandboxMode, SandboxNetwork,
    SearchConfig, SearchProvider, SecretsToModel, ShellConfig, SkillsConfig, StatusLineConfig, ToolsConfig,
    UiConfig, WebConfig,
};
pub use secret::{Credential, IN_KEYCHAIN, Secret};
pub use source::{ManagedLimits, Source};
