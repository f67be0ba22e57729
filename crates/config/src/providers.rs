//! `[providers.NAME]`: the keys of a provider, and the providers that becket knows without any configuration.
//!
//! Owns the built-in list as data: wire format, address, and the variables that each vendor names for its key. An entry of the
//! configuration with the same name overlays the built-in one key by key. Nothing here reads the environment or asks a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Model providers by name. Not from a project.
pub type ProvidersConfig = BTreeMap<String, ProviderConfig>;

/// A provider of models: `anthropic`, `openai`, another built-in name, or a name of your own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProviderConfig {
    /// Wire format; needed for a name that is not built in. `openai-chat` fits most servers.
    pub kind: Option<ProviderKind>,
    /// Address of the server. For `anthropic` and `openai`, the variables `ANTHROPIC_BASE_URL` and `OPENAI_BASE_URL` set it as
    /// well.
    pub base_url: Option<String>,
    /// Name of the environment variable that holds the key. The key itself is never in this file.
    pub api_key_env: Option<String>,
    /// Program and arguments that print the key, or JSON with `token` and `expires_in` (seconds).
    pub key_command: Vec<String>,
    /// Login with a code that you enter in a browser, on this device or another one (RFC 8628). `becket login NAME` starts it.
    pub login: LoginConfig,
    #[serde(flatten)]
    pub cloud: CloudConfig,
    /// Place of the key in a request. If not set, the usual place of the wire format.
    pub auth: Option<ProviderAuth>,
    /// Further headers for each request. Not for keys.
    pub headers: BTreeMap<String, String>,
    /// Further fields for the body of each request, such as `provider = { order = ["z-ai"] }` of OpenRouter. Not those that becket
    /// sets itself.
    pub body: BTreeMap<String, serde_json::Value>,
    /// Figures of single models. They override the catalog.
    pub models: Vec<ModelConfig>,
    pub compat: CompatConfig,
}

/// The place of a provider in a cloud.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CloudConfig {
    /// Address at which Google Cloud's credentials are exchanged for a token, if it is not Google's own.
    pub token_url: Option<String>,
    /// Region of Bedrock, location of Vertex.
    pub region: Option<String>,
    /// Project of Vertex, account of Cloudflare.
    pub project: Option<String>,
}

/// A login with a device code. The first three keys are needed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoginConfig {
    /// Address that gives the code.
    pub device_authorization_url: Option<String>,
    /// Address that gives the tokens.
    pub token_url: Option<String>,
    /// Name under which the provider knows this client. It is no secret.
    pub client_id: Option<String>,
    /// Rights to ask for, separated by blanks.
    pub scope: Option<String>,
}

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, and all servers compatible with it.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Google Gemini, `generateContent`.
    Gemini,
}

/// Header that carries the key in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderAuth {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `x-api-key: KEY`.
    XApiKey,
    /// `api-key: KEY`, as in Azure.
    ApiKey,
    /// `x-goog-api-key: KEY`.
    XGoogApiKey,
    /// Requests signed for AWS (SigV4).
    Aws,
    /// A token of Google Cloud, which `key_command` prints.
    Google,
    /// No key.
    None,
}

/// Figures of a model. They override the catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelConfig {
    /// The name on the wire.
    pub name: String,
    /// Context window in tokens.
    pub window: Option<u64>,
    /// Output limit in tokens.
    pub max_output: Option<u64>,
    /// True if the model reads images.
    pub images: Option<bool>,
    /// True if the model accepts an effort.
    pub reasoning: Option<bool>,
    /// US dollars per million tokens: input, output, cache read, cache write.
    pub prices: Option<[f64; 4]>,
    /// Further fields for the body of requests to this model. They override those of the provider.
    pub body: BTreeMap<String, serde_json::Value>,
}

/// Deviations of a compatible server. Fields that are not set keep the values of the wire format and the built-in list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompatConfig {
    /// Field for the output limit: `max_tokens`, `max_completion_tokens` or `none`.
    pub output_limit: Option<OutputLimitField>,
    /// Ask for usage in the stream (`stream_options`).
    pub stream_usage: Option<bool>,
    /// Send `prompt_cache_key`.
    pub prompt_cache_key: Option<bool>,
    /// Role of the system prompt: `system`, `developer` or `user`.
    pub system_role: Option<SystemRole>,
    /// Field in which a model's own reasoning is sent back to it, such as `reasoning_content`; `none` for no field.
    pub reasoning_field: Option<String>,
    /// Field for the effort: `reasoning_effort`, `reasoning`, `thinking` or `none`.
    pub effort: Option<EffortDial>,
    #[serde(flatten)]
    pub tools: ToolsCompat,
    /// Send `null` as the content of a message that has only calls; otherwise an empty text.
    pub null_content: Option<bool>,
    /// Send messages in an order that all chat templates accept.
    pub strict_order: Option<bool>,
    /// The server keeps a cached prefix for an hour if a request asks for it (`context.cache_ttl`). Anthropic's own servers do.
    pub hour_cache: Option<bool>,
    /// Send only the new messages with each request, as a thread of Anthropic's server. The server then keeps the conversation
    /// in memory for some minutes.
    pub message_threads: Option<bool>,
    /// Codes of errors for which a retry never helps, such as a used-up quota.
    pub fatal_codes: Vec<String>,
}

/// Deviations about tools and calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolsCompat {
    /// Calls that a model writes into its text instead of making them: `report` (the turn ends and says so), or `ask`: becket
    /// shows each to you and runs it if you approve.
    pub text_calls: Option<TextCalls>,
    /// Send `strict: false` with each tool.
    pub strict_tools: Option<bool>,
    /// Send `tools: []` if there are no tools.
    pub empty_tools: Option<bool>,
    /// Write `const` as `enum` in schemas of tools, and use only keywords of OpenAPI 3.0.
    pub plain_schemas: Option<bool>,
    /// Merge `anyOf` and `oneOf` at the root of a tool's schema into one object.
    pub flat_schemas: Option<bool>,
    /// Call ids that the server accepts: `any`, `word` (64 letters, digits, `_`, `-`), `short` (40 characters), `nine`
    /// (nine letters and digits).
    pub call_ids: Option<CallIds>,
}

/// The treatment of calls in a model's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TextCalls {
    Report,
    Ask,
}

/// The field of a request that limits the length of the answer in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitField {
    MaxTokens,
    MaxCompletionTokens,
    None,
}

/// The role of the message that holds the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SystemRole {
    System,
    Developer,
    User,
}

/// The field of a request for the effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffortDial {
    /// `"reasoning_effort": "high"`.
    ReasoningEffort,
    /// `"reasoning": {"effort": "high"}`.
    Reasoning,
    /// `"thinking": {"type": "enabled"}`.
    Thinking,
    None,
}

/// The form of call ids that a server accepts. Other ids are rewritten in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallIds {
    Any,
    Word,
    Short,
    Nine,
}

/// A provider that needs no configuration but a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vendor {
    /// The name in `NAME/MODEL`.
    pub name: &'static str,
    /// The name for people.
    pub title: &'static str,
    pub kind: ProviderKind,
    /// The address, in which `{region}`, `{location}` and `{project}` are filled in. Empty if the configuration must give it.
    pub base_url: &'static str,
    /// Environment variables that hold the key. The first that is set counts.
    pub keys: &'static [&'static str],
    /// Environment variables that hold the address. The first that is set counts.
    pub urls: &'static [&'static str],
    pub auth: ProviderAuth,
    /// True for a server that runs on the user's own machine, which needs no key.
    pub local: bool,
    /// The page where a person gets a key.
    pub key_page: &'static str,
}

const CHAT: Vendor = Vendor {
    name: "",
    title: "",
    kind: ProviderKind::OpenaiChat,
    base_url: "",
    keys: &[],
    urls: &[],
    auth: ProviderAuth::Bearer,
    local: false,
    key_page: "",
};

const fn chat(
    name: &'static str,
    title: &'static str,
    base_url: &'static str,
    keys: &'static [&'static str],
    key_page: &'static str,
) -> Vendor {
    Vendor { name, title, base_url, keys, key_page, ..CHAT }
}

const fn own(
    name: &'static str,
    title: &'static str,
    base_url: &'static str,
    keys: &'static [&'static str],
    urls: &'static [&'static str],
) -> Vendor {
    Vendor { name, title, base_url, keys, urls, local: true, ..CHAT }
}

/// The built-in providers, most used first. Addresses and variables are taken from the vendors' pages, autumn 2026.
pub const VENDORS: &[Vendor] = &[
    Vendor {
        name: "anthropic",
        title: "Anthropic",
        kind: ProviderKind::Anthropic,
        base_url: "https://api.anthropic.com",
        keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        urls: &["ANTHROPIC_BASE_URL"],
        auth: ProviderAuth::XApiKey,
        local: false,
        key_page: "https://console.anthropic.com/settings/keys",
    },
    Vendor {
        kind: ProviderKind::OpenaiResponses,
        urls: &["OPENAI_BASE_URL"],
        ..chat(
            "openai",
            "OpenAI",
            "https://api.openai.com/v1",
            &["OPENAI_API_KEY"],
            "https://platform.openai.com/api-keys",
        )
    },
    Vendor {
        name: "google",
        title: "Google Gemini",
        kind: ProviderKind::Gemini,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        urls: &["GEMINI_BASE_URL"],
        auth: ProviderAuth::XGoogApiKey,
        local: false,
        key_page: "https://aistudio.google.com/apikey",
    },
    Vendor {
        name: "vertex",
        title: "Google Vertex AI",
        kind: ProviderKind::Gemini,
        base_url: "https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}",
        keys: &[],
        urls: &[],
        auth: ProviderAuth::Google,
        local: false,
        key_page: "",
    },
    Vendor {
        name: "bedrock",
        title: "Amazon Bedrock",
        kind: ProviderKind::Anthropic,
        base_url: "https://bedrock-runtime.{region}.amazonaws.com",
        keys: &["AWS_BEARER_TOKEN_BEDROCK"],
        urls: &[],
        auth: ProviderAuth::Aws,
        local: false,
        key_page: "",
    },
    Vendor {
        name: "azure",
        title: "Azure OpenAI",
        kind: ProviderKind::OpenaiResponses,
        base_url: "",
        keys: &["AZURE_OPENAI_API_KEY"],
        urls: &["AZURE_OPENAI_ENDPOINT"],
        auth: ProviderAuth::ApiKey,
        local: false,
        key_page: "",
    },
    chat(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        &["OPENROUTER_API_KEY"],
        "https://openrouter.ai/settings/keys",
    ),
    chat(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        &["GROQ_API_KEY"],
        "https://console.groq.com/keys",
    ),
    chat(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        &["MISTRAL_API_KEY"],
        "https://console.mistral.ai/api-keys",
    ),
    chat(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        &["DEEPSEEK_API_KEY"],
        "https://platform.deepseek.com/api_keys",
    ),
    chat("xai", "xAI", "https://api.x.ai/v1", &["XAI_API_KEY"], "https://console.x.ai"),
    chat(
        "cerebras",
        "Cerebras",
        "https://api.cerebras.ai/v1",
        &["CEREBRAS_API_KEY"],
        "https://cloud.cerebras.ai",
    ),
    chat(
        "together",
        "Together AI",
        "https://api.together.xyz/v1",
        &["TOGETHER_API_KEY"],
        "https://api.together.ai/settings/api-keys",
    ),
    chat(
        "fireworks",
        "Fireworks AI",
        "https://api.fireworks.ai/inference/v1",
        &["FIREWORKS_API_KEY"],
        "https://app.fireworks.ai/settings/users/api-keys",
    ),
    chat(
        "huggingface",
        "Hugging Face",
        "https://router.huggingface.co/v1",
        &["HF_TOKEN"],
        "https://huggingface.co/settings/tokens",
    ),
    chat(
        "moonshot",
        "Moonshot AI",
        "https://api.moonshot.ai/v1",
        &["MOONSHOT_API_KEY"],
        "https://platform.moonshot.ai/console/api-keys",
    ),
    chat(
        "zai",
        "Z.ai",
        "https://api.z.ai/api/paas/v4",
        &["ZAI_API_KEY", "ZHIPU_API_KEY"],
        "https://z.ai/manage-apikey/apikey-list",
    ),
    Vendor {
        name: "minimax",
        title: "MiniMax",
        kind: ProviderKind::Anthropic,
        base_url: "https://api.minimax.io/anthropic",
        keys: &["MINIMAX_API_KEY"],
        urls: &[],
        auth: ProviderAuth::XApiKey,
        local: false,
        key_page: "https://platform.minimax.io",
    },
    chat(
        "qwen",
        "Qwen (Alibaba Cloud)",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        &["DASHSCOPE_API_KEY"],
        "https://modelstudio.console.alibabacloud.com",
    ),
    chat(
        "vercel",
        "Vercel AI Gateway",
        "https://ai-gateway.vercel.sh/v1",
        &["AI_GATEWAY_API_KEY"],
        "https://vercel.com/ai-gateway",
    ),
    chat(
        "nvidia",
        "NVIDIA",
        "https://integrate.api.nvidia.com/v1",
        &["NVIDIA_API_KEY"],
        "https://build.nvidia.com",
    ),
    chat(
        "cloudflare",
        "Cloudflare Workers AI",
        "https://api.cloudflare.com/client/v4/accounts/{project}/ai/v1",
        &["CLOUDFLARE_API_KEY", "CLOUDFLARE_API_TOKEN"],
        "https://dash.cloudflare.com/profile/api-tokens",
    ),
    own("litellm", "LiteLLM", "http://127.0.0.1:4000/v1", &["LITELLM_API_KEY"], &["LITELLM_BASE_URL"]),
    own("ollama", "Ollama", "http://127.0.0.1:11434/v1", &["OLLAMA_API_KEY"], &["OLLAMA_HOST"]),
    own("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", &["LMSTUDIO_API_KEY"], &["LMSTUDIO_BASE_URL"]),
    own("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", &["LLAMA_API_KEY"], &["LLAMACPP_BASE_URL"]),
    own("vllm", "vLLM", "http://127.0.0.1:8000/v1", &["VLLM_API_KEY"], &["VLLM_BASE_URL"]),
    own("sglang", "SGLang", "http://127.0.0.1:30000/v1", &["SGLANG_API_KEY"], &["SGLANG_BASE_URL"]),
];

/// The built-in provider of this name.
pub fn vendor(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.name == name)
}

/// True if a provider may have this name: it is the part before the slash of a model's name.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sane() {
        for (at, vendor) in VENDORS.iter().enumerate() {
            assert!(is_name(vendor.name), "{}", vendor.name);
            assert!(VENDORS[..at].iter().all(|other| other.name != vendor.name), "{}", vendor.name);
            let url = vendor.base_url;
            assert!(url.is_empty() || url.starts_with("https://") || vendor.local, "{}", vendor.name);
            assert!(!url.ends_with('/'), "{}", vendor.name);
            let named = |name: &&str| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
            assert!(vendor.keys.iter().chain(vendor.urls).all(named), "{}", vendor.name);
            assert!(vendor.local || !vendor.keys.is_empty() || vendor.auth == ProviderAuth::Google);
        }
    }
}
