//! The whole configuration: its keys at the top level, and the JSON Schema derived from them. The documentation and editors
//! show the comments of this file.
//!
//! A file has its keys at the top level; here, keys that belong together are one part. Each part is read from the whole table
//! and takes its own keys.

use crate::providers::{ProviderConfig, ProvidersConfig};
use crate::schema::{
    ContextConfig, Effort, FormatConfig, LimitsConfig, LspConfig, ModelsConfig, PermissionsConfig,
    PruneConfig, RulesConfig, SandboxConfig, SecretsToModel, ShellConfig, SkillsConfig, ToolsConfig,
    UiConfig, WebConfig,
};
use becket_types::PermissionMode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// becket's configuration.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
#[schemars(title = "becket configuration", default)]
pub struct Config {
    #[schemars(flatten)]
    pub model: ModelChoice,
    #[schemars(flatten)]
    pub permissions: RightsConfig,
    #[schemars(flatten)]
    pub hooks: HooksConfig,
    /// Further folders of the workspace, which may be used like the project's.
    pub add_dirs: Vec<String>,
    pub context: ContextConfig,
    pub prune: PruneConfig,
    pub limits: LimitsConfig,
    /// Model providers by name. Not from a project.
    pub providers: ProvidersConfig,
    #[schemars(flatten)]
    pub tools: ToolSetConfig,
    #[schemars(flatten)]
    pub instructions: InstructionsConfig,
    #[schemars(flatten)]
    pub integrations: IntegrationsConfig,
    pub ui: UiConfig,
}

/// The models of a session.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelChoice {
    /// Model as `provider/name`.
    #[serde(rename = "model")]
    pub name: Option<String>,
    #[serde(rename = "models")]
    pub others: ModelsConfig,
    /// Reasoning effort of the model.
    pub effort: Option<Effort>,
}

/// The rights of tool calls, and of a provider to see secrets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RightsConfig {
    /// `default`, `acceptEdits`, `auto`, `plan`, `dontAsk` or `bypassPermissions`.
    #[serde(rename = "permission_mode")]
    #[schemars(with = "ModeName")]
    pub mode: PermissionMode,
    #[serde(rename = "permissions")]
    pub rules: PermissionsConfig,
    /// Keys and tokens of known forms in outputs of tools: `ask` before they are sent, `mask` or `send`. A project can only mask.
    pub secrets: SecretsToModel,
}

/// Hooks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HooksConfig {
    /// Programs, addresses, prompts and agents that becket calls on events of a session, by event: each a list of
    /// `{matcher, hooks = [{type = "command", command = "…"}]}`. Hooks of a project run only after you have allowed
    /// them.
    #[serde(rename = "hooks")]
    pub by_event: BTreeMap<String, Vec<Value>>,
    /// No hook runs. Not from a project.
    #[serde(rename = "disable_all_hooks")]
    pub disabled: bool,
}

/// The tools that the model has, and the commands of the shell tool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolSetConfig {
    #[serde(rename = "tools")]
    pub offered: ToolsConfig,
    pub shell: ShellConfig,
    pub sandbox: SandboxConfig,
}

/// Files with instructions for the model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InstructionsConfig {
    pub skills: SkillsConfig,
    pub rules: RulesConfig,
}

/// Programs and services that tools use.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntegrationsConfig {
    pub format: FormatConfig,
    pub lsp: LspConfig,
    pub web: WebConfig,
}

/// A value whose type does not fit its key.
#[derive(Debug)]
pub(crate) struct TypeMismatch {
    /// The path of the key, with positions in lists.
    pub path: Vec<String>,
    /// The deserializer's message.
    pub message: String,
}

impl Config {
    /// Reads a table with the keys of all sections. Ignores unknown keys.
    ///
    /// # Errors
    ///
    /// Returns the first value that does not fit its key.
    pub(crate) fn read(table: &Value) -> Result<Self, TypeMismatch> {
        Ok(Self {
            model: part(table)?,
            permissions: part(table)?,
            hooks: part(table)?,
            add_dirs: section(table, "add_dirs")?,
            context: section(table, "context")?,
            prune: section(table, "prune")?,
            limits: section(table, "limits")?,
            providers: section(table, "providers")?,
            tools: part(table)?,
            instructions: part(table)?,
            integrations: part(table)?,
            ui: section(table, "ui")?,
        })
    }

    /// The configuration of a provider; an empty one where there is none.
    pub fn provider(&self, name: &str) -> &ProviderConfig {
        static NONE: LazyLock<ProviderConfig> = LazyLock::new(ProviderConfig::default);
        self.providers.get(name).unwrap_or(&NONE)
    }
}

/// Reads the value of one key. Without the key, the section has its defaults.
fn section<T: DeserializeOwned + Default>(table: &Value, key: &str) -> Result<T, TypeMismatch> {
    let Some(value) = table.get(key) else { return Ok(T::default()) };
    part(value).map_err(|mut misfit: TypeMismatch| {
        misfit.path.insert(0, key.to_owned());
        misfit
    })
}

fn part<T: DeserializeOwned>(value: &Value) -> Result<T, TypeMismatch> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().iter().filter_map(|segment| match segment {
            Segment::Map { key } => Some(key.clone()),
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Enum { variant } => Some(variant.clone()),
            Segment::Unknown => None,
        });
        TypeMismatch { path: path.collect(), message: error.inner().to_string() }
    })
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "names the values for the schema alone")]
enum ModeName {
    Default,
    Manual,
    AcceptEdits,
    Auto,
    Plan,
    DontAsk,
    BypassPermissions,
}

/// The JSON Schema of the configuration, for editors and for the book.
pub fn json_schema() -> serde_json::Value {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema: serde_json::Value = settings.into_generator().into_root_schema_for::<Config>().into();
    close(&mut schema);
    schema
}

/// Forbids unknown keys in the objects of the schema that have named keys.
fn close(schema: &mut serde_json::Value) {
    match schema {
        serde_json::Value::Object(map) => {
            if map.contains_key("properties") && !map.contains_key("additionalProperties") {
                map.insert("additionalProperties".to_owned(), false.into());
            }
            map.values_mut().for_each(close);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Adds all keys of a schema, each with its default.
pub(crate) fn known_keys(schema: &Value, path: &mut Vec<String>, out: &mut Vec<(String, Value)>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        let default = schema.get("default").cloned().unwrap_or(Value::Null);
        out.push((path.join("."), default));
        return;
    };
    for (name, inner) in properties {
        path.push(name.clone());
        known_keys(inner, path, out);
        path.pop();
    }
}
