//! The sections of the configuration: names, types and defaults of their keys. The documentation and editors show the comments
//! of this file.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Models beside `model`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelsConfig {
    /// Models to use, in this order, when the model has no key or cannot be reached.
    pub fallback: Vec<String>,
    /// Model that writes the summaries of compactions. If not set, the session's model.
    pub summary: Option<String>,
    /// Model that writes the titles of sessions. If not set, a title is the first line of the first message.
    pub title: Option<String>,
    /// Model of subagents whose definition names none. If not set, the session's model.
    pub subagent: Option<String>,
    /// Your own names of models: `fast = "groq/openai/gpt-oss-120b"` makes `--model fast` possible.
    pub aliases: BTreeMap<String, String>,
    /// Address of a catalog in the form of models.dev (`https://models.dev/api.json`), which `becket models --refresh`
    /// reads. Not from a project.
    pub catalog: Option<String>,
}

/// The amount of thinking, from least to most. A model without a level gets its next lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// No thinking, or as little as the model can.
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// Permission rules such as `Bash(git *)` or `Read(~/notes/**)`. Deny wins over ask, and ask over allow. The lists of
/// all layers are joined.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PermissionsConfig {
    /// Calls that run without a question. Not from a project.
    pub allow: Vec<String>,
    /// Calls that becket asks about even if a rule allows them.
    pub ask: Vec<String>,
    /// Calls that never run.
    pub deny: Vec<String>,
}

/// The context window and its compaction.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContextConfig {
    /// Size of the window in tokens, at least 4,000, such as `32000` or `"32k"`. If not set, the model's own.
    #[serde(deserialize_with = "count")]
    #[schemars(with = "Option<NumberOrText>")]
    pub window: Option<u64>,
    /// Share of the usable window at which older history is compacted: more than 0, at most 1.
    pub threshold: f64,
    /// Compact automatically.
    pub auto: bool,
    /// Request the summary in the background before the window is full, so that you need not wait for it.
    pub prepare: bool,
    /// Compact between turns, before the provider's cache expires, if that saves more than it costs. Not from a project.
    pub idle_compaction: bool,
    /// Lifetime of the provider's cache, where a request can choose it (Anthropic): `5m`, `1h`, or `auto`: five minutes, and
    /// an hour after the first pause that an hour would have covered. Not from a project.
    pub cache_ttl: CacheTtl,
    /// Small requests between turns that keep the provider's cache from expiring. `auto`: if they would have paid for the pauses
    /// of this session; none before such a pause. `idle`: also before. `off`: none. Not from a project.
    pub cache_warm: CacheWarm,
    /// User turns that stay word for word.
    pub tail_turns: usize,
    /// Tokens of recent history that stay word for word. If not set, a tenth of the usable window, 1,000 to 8,000.
    #[serde(deserialize_with = "count")]
    #[schemars(with = "Option<NumberOrText>")]
    pub keep_recent_tokens: Option<u64>,
    /// Share of the usable window for the files read or edited last, whose content is attached to a compaction: 0
    /// (none) to 0.5.
    pub reattach: f64,
    /// Template of the summary, in place of the built-in one.
    pub template: Option<String>,
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self {
            window: None,
            threshold: 0.9,
            auto: true,
            prepare: true,
            idle_compaction: false,
            cache_ttl: CacheTtl::Auto,
            cache_warm: CacheWarm::Auto,
            tail_turns: 2,
            keep_recent_tokens: None,
            reattach: 0.15,
            template: None,
        }
    }
}

/// Replacing old tool outputs by stubs.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PruneConfig {
    pub enabled: bool,
    /// Name patterns of tools whose outputs are never replaced, such as `mcp__memory__*`.
    pub protect: Vec<String>,
}

impl Default for PruneConfig {
    fn default() -> Self {
        Self { enabled: true, protect: Vec::new() }
    }
}

/// Lifetime of the provider's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CacheTtl {
    #[default]
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "5m")]
    FiveMinutes,
    #[serde(rename = "1h")]
    Hour,
}

/// Requests that keep the provider's cache from expiring between turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheWarm {
    Off,
    #[default]
    Auto,
    Idle,
}

/// Limits of a session. A project can only lower them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LimitsConfig {
    /// Maximum number of requests to the model in one turn.
    pub max_turns: Option<u64>,
    /// Maximum cost of a session in US dollars, with its summaries and subagents.
    pub max_budget_usd: Option<f64>,
    /// Maximum number of tokens that a session reads and writes.
    #[serde(deserialize_with = "count")]
    #[schemars(with = "Option<NumberOrText>")]
    pub max_tokens: Option<u64>,
    /// Maximum time of a turn: seconds, or text such as `"90s"`, `"10m"`, `"2h"`.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<NumberOrText>")]
    pub max_wall: Option<Duration>,
    /// Maximum wait if a provider asks becket to wait.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<NumberOrText>")]
    pub max_wait: Option<Duration>,
    /// Wait as long as it takes if the provider's quota is used up, also longer than `max_wait`. Not from a project.
    pub wait_for_quota: bool,
}

/// The choice of the tools that the model has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolsConfig {
    /// The only tools that the model has. If not set, all. Not from a project.
    pub enabled: Option<Vec<String>>,
    /// Tools that the model does not have.
    pub disabled: Vec<String>,
}

/// Time limit and environment of shell commands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ShellConfig {
    /// Time limit of a command if the model sets none: seconds, or text such as `"2m"`.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "Option<NumberOrText>")]
    pub timeout: Option<Duration>,
    /// Names of becket's own variables that commands and MCP servers get as well, even if a name looks like a secret; `*` for all
    /// but keys of providers. Not from a project.
    pub pass: Vec<String>,
    /// Variables for every command. Not from a project.
    pub env: BTreeMap<String, String>,
}

/// The treatment of secrets in outputs of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretsToModel {
    /// becket asks before the model, and so its provider, gets keys and tokens of known forms. They are masked if there
    /// is no user to ask.
    #[default]
    Ask,
    /// They are masked without a question.
    Mask,
    /// They are sent unchanged.
    Send,
}

/// The sandbox for commands. A project can only make it stricter.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SandboxConfig {
    pub mode: SandboxMode,
    /// Further folders and files that commands at the workspace level may write, such as caches. Not from a project.
    pub write: Vec<String>,
    /// Paths in the workspace that these commands may not write.
    pub deny_write: Vec<String>,
    /// Further paths that no confined command may read.
    pub deny_read: Vec<String>,
    /// The network of commands at the workspace level. If not set: `proxy` if `allow_hosts` names a host, otherwise
    /// `off`.
    pub network: Option<SandboxNetwork>,
    /// Hosts that commands reach with `network = "proxy"`: `docs.rs`, `*.docs.rs`, `docs.rs:8443`, `*`, addresses, ranges such
    /// as `10.0.0.0/8`. Not from a project.
    pub allow_hosts: Vec<String>,
    /// Hosts that commands never reach, even if `allow_hosts` allows them.
    pub deny_hosts: Vec<String>,
    /// Sockets of local services that commands at the workspace level reach, such as `/run/docker.sock`. Needs bubblewrap. Not from a
    /// project.
    pub unix_sockets: Vec<String>,
    /// If no sandbox works, deny commands that would be confined, instead of asking about them.
    pub fail_if_unavailable: bool,
    /// Run commands that the workspace level confines without a question, also in the modes `default` and
    /// `acceptEdits`. Not from a project.
    pub auto_allow_bash: bool,
    /// Never offer to run a single command outside the sandbox.
    pub deny_unconfined: bool,
    /// Commands that are never confined, such as `docker *`. becket asks about them as without a sandbox. Not from a
    /// project.
    pub excluded_commands: Vec<String>,
}

/// The commands that run in the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// No command is confined.
    #[serde(alias = "danger-full-access")]
    Off,
    /// Commands that run without your approval are confined.
    #[default]
    Auto,
    /// All commands are confined, at least at the workspace level.
    #[serde(alias = "workspace-write")]
    Required,
    /// All commands are confined at the read-only level.
    ReadOnly,
}

impl SandboxMode {
    /// By its name here, or by the name it has in Codex.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "off" | "danger-full-access" => Some(Self::Off),
            "auto" => Some(Self::Auto),
            "required" | "workspace-write" => Some(Self::Required),
            "read-only" => Some(Self::ReadOnly),
            _ => None,
        }
    }

    /// Returns the name in the configuration, such as `read-only`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Required => "required",
            Self::ReadOnly => "read-only",
        }
    }
}

/// The network of confined commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxNetwork {
    #[default]
    Off,
    /// The hosts of `allow_hosts`, through becket's proxy.
    Proxy,
    Full,
}

impl SandboxConfig {
    /// The network that commands have.
    pub fn network(&self) -> SandboxNetwork {
        let unsaid = if self.allow_hosts.is_empty() { SandboxNetwork::Off } else { SandboxNetwork::Proxy };
        self.network.unwrap_or(unsaid)
    }
}

/// Further folders with skills.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SkillsConfig {
    /// Further folders with skills. From a project: inside it.
    pub dirs: Vec<String>,
}

/// Further rules files.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RulesConfig {
    /// Further rules files for the model. From a project: inside it.
    pub files: Vec<String>,
}

/// Formatters after an edit. A project can only switch them off.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FormatConfig {
    /// Run formatters for which the project has a configuration. If not set, only if commands run without a question.
    /// `false`: no formatter at all.
    pub auto: Option<bool>,
    /// Names of formatters that always run on their files, such as `gofmt` or `rustfmt`.
    #[serde(rename = "use")]
    pub always: Vec<String>,
    /// Your own formatters, by name. They take precedence over all others.
    pub commands: BTreeMap<String, FormatCommand>,
}

/// A program that reads a text on standard input and prints it formatted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FormatCommand {
    /// Program and arguments; `{path}` is the file.
    pub command: Vec<String>,
    /// Extensions of its files, such as `toml`.
    pub extensions: Vec<String>,
}

/// Language servers. A project can only switch them off.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LspConfig {
    /// Start language servers. If not set, only if commands run without a question.
    pub enabled: Option<bool>,
    /// Your own servers, and changes to `rust-analyzer`, `typescript`, `pyright`, `gopls`, `clangd`.
    pub servers: BTreeMap<String, LspServer>,
}

/// A language server. Fields that are not set keep the values of the built-in server with this name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LspServer {
    /// Program and arguments; an empty list switches the server off.
    pub command: Option<Vec<String>>,
    /// Extensions of its files, such as `zig`.
    pub extensions: Vec<String>,
    /// Files that mark the root folder of a project.
    pub root_markers: Vec<String>,
    /// Options sent to the server when it starts and when it asks for settings.
    pub initialization_options: BTreeMap<String, serde_json::Value>,
}

/// The web. Not from a project.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WebConfig {
    /// Hosts on this machine or its network that `web_fetch` may reach: names, addresses, `*.suffix`.
    pub allow_hosts: Vec<String>,
    pub search: SearchConfig,
}

/// The provider of `web_search`. Without a provider the tool does not exist.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchConfig {
    pub provider: Option<SearchProvider>,
    /// Address that replaces the provider's own; needed for SearXNG.
    pub url: Option<String>,
    /// Name of the environment variable that holds the key. If not set: `BRAVE_API_KEY`, `TAVILY_API_KEY`,
    /// `EXA_API_KEY`.
    pub api_key_env: Option<String>,
}

/// A provider of web searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchProvider {
    Brave,
    Tavily,
    Exa,
    Searxng,
}

/// The interactive session. Not from a project.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UiConfig {
    /// `dark`, `light`, `system`, `high-contrast`, `colour-blind`, `ansi`, `plain`, or one of `ui.themes`.
    pub theme: Option<String>,
    /// Vim's keys in the composer.
    pub vim: bool,
    /// Notifications while another window has the focus: `off`, `bell`, `osc9`, `osc99`, `osc777`. If not set, becket
    /// chooses by the terminal.
    pub notifications: Option<String>,
    pub status_line: StatusLineConfig,
    /// Chords by name, such as `editor = "ctrl+x"`; `/keys` lists the names.
    pub keys: BTreeMap<String, String>,
    /// Your own themes: a `base`, and colours by purpose, such as `accent = "#79b8ff"` or `"cyan"`.
    pub themes: BTreeMap<String, BTreeMap<String, String>>,
}

/// A program that prints the status line. It reads JSON on standard input.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StatusLineConfig {
    /// A command for `sh`.
    pub command: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(inline, untagged)]
#[expect(dead_code, reason = "names the types for the schema alone")]
enum NumberOrText {
    Number(f64),
    Text(String),
}

/// A whole number, also as `"32k"`, `"1.5M"` or `"32_000"`.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let expected = "a whole number of tokens such as 32000 or \"32k\"";
    let in_range = |n: &f64| *n >= 0.0 && n.fract() == 0.0 && *n <= 9e15;
    let value = amount(deserializer, expected, |n| parse_count(n).filter(in_range))?;
    Ok(value.map(|value| value as u64))
}

/// Reads a number, or a text that `parse` understands. Numbers are parsed like texts, so that the same values are refused.
fn amount<'de, D: Deserializer<'de>>(
    deserializer: D,
    expected: &str,
    parse: impl Fn(&str) -> Option<f64>,
) -> Result<Option<f64>, D::Error> {
    let given = serde_json::Value::deserialize(deserializer)?;
    let (text, shown) = match &given {
        // `null` removes the limit that an earlier layer has set.
        serde_json::Value::Null => return Ok(None),
        serde_json::Value::Number(number) => (Some(number.to_string()), number.to_string()),
        serde_json::Value::String(text) => (Some(text.clone()), given.to_string()),
        serde_json::Value::Bool(on) => (None, on.to_string()),
        serde_json::Value::Array(_) => (None, "a list".to_owned()),
        serde_json::Value::Object(_) => (None, "a table".to_owned()),
    };
    let wrong = || serde::de::Error::custom(format!("expected {expected}, not {shown}"));
    text.and_then(|text| parse(&text)).map(Some).ok_or_else(wrong)
}

/// Reads a number with a unit: `"32k"` is 32,000.
pub(crate) fn parse_count(text: &str) -> Option<f64> {
    let text = text.trim().replace(['_', ','], "").to_lowercase();
    let (number, factor) = match text.strip_suffix('k') {
        Some(number) => (number.to_owned(), 1e3),
        None => text.strip_suffix('m').map_or((text.clone(), 1.0), |n| (n.to_owned(), 1e6)),
    };
    let exact = number.parse::<f64>().ok()? * factor;
    // `1.1k` is not exact in binary, so a small error is rounded away. `1.5` without a unit is no whole number.
    (exact.is_finite() && (exact - exact.round()).abs() < 1e-6).then(|| exact.round())
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let expected = "seconds such as 90, or text such as \"90s\", \"10m\", \"2h\"";
    let in_range = |n: &f64| Duration::try_from_secs_f64(*n).is_ok();
    let seconds = amount(deserializer, expected, |text| parse_seconds(text).filter(in_range))?;
    Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
}

/// Reads a time: `"10m"` is 600 seconds.
pub(crate) fn parse_seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let factor = match text[end..].trim() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    text[..end].parse::<f64>().ok().map(|n| n * factor)
}
