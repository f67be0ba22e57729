//! Differences between servers with the same wire format, as data: a row for each host with a known deviation.
//!
//! Owns the defaults of each wire format and the table of hosts. The encoders use a [`Compat`] and never a host name; a
//! configuration can change single fields. The facts are from the vendors' pages and their public bug reports, autumn
//! 2026.

use crate::Fetches;
use crate::ids::IdRule;
use crate::kind::Kind;
use crate::wire::put;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use url::Url;

/// Field for the output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLimit {
    MaxTokens,
    MaxCompletionTokens,
    /// The server refuses any such field.
    None,
}

/// The role of the message that holds the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemRole {
    System,
    Developer,
    User,
}

/// Field for the effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dial {
    /// `"reasoning_effort": "high"`.
    ReasoningEffort,
    /// `"reasoning": {"effort": "high"}`.
    Reasoning,
    /// `"thinking": {"type": "enabled"}`.
    Thinking,
    None,
}

/// Call ids that a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallIds {
    Any,
    /// At most 64 letters, digits, `_` and `-`.
    Word,
    /// At most 40 characters.
    Short,
    /// Nine letters and digits.
    Nine,
}

impl CallIds {
    pub(crate) fn rule(self) -> IdRule {
        match self {
            Self::Any => IdRule::Any,
            Self::Word => IdRule::Word,
            Self::Short => IdRule::Short,
            Self::Nine => IdRule::Nine,
        }
    }
}

/// Field in which a model's own reasoning is sent back to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReasoningField {
    /// `reasoning_content`, for models that are known to need it.
    ByModel,
    /// This field, for every model.
    Named(String),
    None,
}

/// Schemas of tools that a server accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchemaRules {
    /// True if `const` must become `enum`, and keywords that OpenAPI 3.0 does not have must be left out.
    pub plain: bool,
    /// True if `anyOf`, `oneOf` and `allOf` at the root of a schema must become one object.
    pub flat: bool,
}

/// Messages that a server accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRules {
    pub system_role: SystemRole,
    pub reasoning_field: ReasoningField,
    /// True if the content of a message that has only calls is `null`; otherwise it is an empty text.
    pub null_content: bool,
    /// True if messages must be sent in an order that all chat templates accept.
    pub strict_order: bool,
    /// The server reads PDF files.
    pub pdf: bool,
    pub fetches: Fetches,
}

/// Tools and calls that a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolRules {
    /// True if each tool must state that its schema is not strict.
    pub says_strict: bool,
    /// `tools` is sent even if there are no tools.
    pub sends_empty: bool,
    pub schemas: SchemaRules,
    pub call_ids: CallIds,
}

/// The dialect of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compat {
    pub output_limit: OutputLimit,
    /// True if the usage of a streamed answer must be requested.
    pub stream_usage: bool,
    /// The server accepts `prompt_cache_key`.
    pub prompt_cache_key: bool,
    pub effort: Dial,
    pub messages: MessageRules,
    pub tools: ToolRules,
    /// A request can ask the server to keep its prefix for an hour.
    pub hour_cache: bool,
    /// True if requests to Anthropic continue a thread of the server and send only the new messages.
    pub message_threads: bool,
    /// Codes of errors for which a retry never helps.
    pub fatal_codes: Vec<String>,
    /// Maximum number of images in one request, if the server takes fewer than others.
    pub max_images: Option<u32>,
    /// Fields of the user's own in the body of each request.
    pub body: Map<String, Value>,
}

/// The user's own changes to the dialect of a server. They are made once the wire format is known, because some providers
/// choose it by the model.
#[derive(Clone)]
pub struct CompatChanges(Arc<dyn Fn(&mut Compat) + Send + Sync>);

impl CompatChanges {
    /// Wraps a function that changes the built-in dialect in place.
    pub fn new(change: impl Fn(&mut Compat) + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }

    pub(crate) fn make(&self, compat: &mut Compat) {
        (self.0)(compat);
    }
}

impl fmt::Debug for CompatChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompatChanges")
    }
}

impl PartialEq for CompatChanges {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// One difference from the defined wire format.
enum Deviation {
    OutputLimit(OutputLimit),
    NoStreamUsage,
    PromptCacheKey,
    Effort(Dial),
    CallIds(CallIds),
    EmptyContent,
    PlainSchemas,
    FlatSchemas,
    /// The server accepts any order of messages.
    AnyOrder,
    Pdf,
    Fetches(Fetches),
    HourCache,
    FatalCodes(&'static [&'static str]),
    MaxImages(u32),
}

use Deviation as D;

/// Rows apply to the host and every host below it. The wire format is set if the row applies to only one.
const HOSTS: &[(&str, Option<Kind>, &[Deviation])] = &[
    ("anthropic.com", Some(Kind::Anthropic), &[D::AnyOrder, D::Pdf, D::HourCache]),
    ("amazonaws.com", Some(Kind::Anthropic), &[D::AnyOrder, D::Pdf, D::Fetches(Fetches::Nothing)]),
    ("googleapis.com", Some(Kind::Anthropic), &[D::AnyOrder, D::Pdf, D::Fetches(Fetches::Nothing)]),
    ("amazonaws.com", None, &[D::MaxImages(20)]),
    (
        "openai.com",
        Some(Kind::Chat),
        &[D::OutputLimit(OutputLimit::MaxCompletionTokens), D::CallIds(CallIds::Short), D::AnyOrder, D::Pdf],
    ),
    (
        "openai.azure.com",
        Some(Kind::Chat),
        &[D::OutputLimit(OutputLimit::MaxCompletionTokens), D::CallIds(CallIds::Short), D::AnyOrder, D::Pdf],
    ),
    // Azure's newer hosts, such as `NAME.services.ai.azure.com` and `NAME.cognitiveservices.azure.com`.
    (
        "ai.azure.com",
        Some(Kind::Chat),
        &[D::OutputLimit(OutputLimit::MaxCompletionTokens), D::CallIds(CallIds::Short), D::AnyOrder, D::Pdf],
    ),
    (
        "cognitiveservices.azure.com",
        Some(Kind::Chat),
        &[D::OutputLimit(OutputLimit::MaxCompletionTokens), D::CallIds(CallIds::Short), D::AnyOrder, D::Pdf],
    ),
    ("ai.azure.com", Some(Kind::Responses), &[D::PromptCacheKey, D::Pdf]),
    ("cognitiveservices.azure.com", Some(Kind::Responses), &[D::PromptCacheKey, D::Pdf]),
    (
        "openai.com",
        Some(Kind::Responses),
        &[D::PromptCacheKey, D::Pdf, D::Fetches(Fetches::ImagesAndDocuments)],
    ),
    ("openai.azure.com", Some(Kind::Responses), &[D::PromptCacheKey, D::Pdf]),
    ("googleapis.com", Some(Kind::Gemini), &[D::Pdf]),
    // Google's own endpoint in OpenAI's format has the schema rules of Gemini.
    ("googleapis.com", Some(Kind::Chat), &[D::PlainSchemas, D::FlatSchemas]),
    ("openrouter.ai", Some(Kind::Chat), &[D::Effort(Dial::Reasoning)]),
    // Mistral always reports usage, and refuses unknown fields.
    (
        "mistral.ai",
        Some(Kind::Chat),
        &[D::NoStreamUsage, D::CallIds(CallIds::Nine), D::Effort(Dial::None), D::MaxImages(8)],
    ),
    ("deepseek.com", Some(Kind::Chat), &[D::EmptyContent]),
    ("moonshot.ai", Some(Kind::Chat), &[D::EmptyContent, D::Effort(Dial::None)]),
    // Used-up quotas have status 429 and recover only after days.
    ("z.ai", Some(Kind::Chat), &[D::Effort(Dial::Thinking), D::FatalCodes(&["1113", "1308", "1310"])]),
    ("bigmodel.cn", Some(Kind::Chat), &[D::Effort(Dial::Thinking), D::FatalCodes(&["1113", "1308", "1310"])]),
    ("cerebras.ai", Some(Kind::Chat), &[D::OutputLimit(OutputLimit::MaxCompletionTokens), D::FlatSchemas]),
    ("groq.com", Some(Kind::Chat), &[D::OutputLimit(OutputLimit::MaxCompletionTokens), D::MaxImages(5)]),
    ("x.ai", Some(Kind::Chat), &[D::AnyOrder]),
];

/// The vendor's host of a built-in provider. At another address, such as a company's proxy, the provider keeps its
/// dialect. OpenAI and Anthropic are left out: at other addresses, their names stand for servers that speak like them.
const PROVIDERS: &[(&str, &str)] = &[
    ("openrouter", "openrouter.ai"),
    ("mistral", "mistral.ai"),
    ("deepseek", "deepseek.com"),
    ("moonshot", "moonshot.ai"),
    ("zai", "z.ai"),
    ("cerebras", "cerebras.ai"),
    ("groq", "groq.com"),
    ("xai", "x.ai"),
    ("google", "googleapis.com"),
    ("vertex", "googleapis.com"),
    ("bedrock", "amazonaws.com"),
    ("azure", "openai.azure.com"),
];

impl Compat {
    /// The dialect of a wire format at an address.
    pub fn for_address(kind: Kind, base_url: &str) -> Self {
        Self::at("", kind, base_url)
    }

    /// The dialect of a provider in a wire format at an address: that of the vendor's host, then that of the address.
    pub fn at(provider: &str, kind: Kind, base_url: &str) -> Self {
        let usual = PROVIDERS.iter().find(|(name, _)| *name == provider).map(|(_, host)| (*host).to_owned());
        let host = Url::parse(base_url.trim()).ok().and_then(|url| url.host_str().map(str::to_owned));
        let mut compat = Self::of_kind(kind);
        for host in usual.iter().filter(|usual| Some(*usual) != host.as_ref()).chain(&host) {
            for (suffix, for_kind, deviations) in HOSTS {
                if is_below(host, suffix) && for_kind.is_none_or(|wanted| wanted == kind) {
                    deviations.iter().for_each(|deviation| compat.deviate(deviation));
                }
            }
        }
        compat
    }

    fn of_kind(kind: Kind) -> Self {
        Self {
            output_limit: OutputLimit::MaxTokens,
            stream_usage: true,
            prompt_cache_key: false,
            effort: Dial::ReasoningEffort,
            messages: MessageRules {
                system_role: SystemRole::System,
                reasoning_field: ReasoningField::ByModel,
                null_content: true,
                strict_order: matches!(kind, Kind::Anthropic | Kind::Chat | Kind::Converse),
                pdf: kind == Kind::Anthropic,
                fetches: match kind {
                    Kind::Chat | Kind::Responses => Fetches::Images,
                    Kind::Anthropic | Kind::Gemini => Fetches::ImagesAndDocuments,
                    Kind::Converse => Fetches::Nothing,
                },
            },
            tools: ToolRules {
                says_strict: false,
                sends_empty: false,
                schemas: SchemaRules {
                    plain: kind == Kind::Gemini,
                    flat: kind == Kind::Gemini || kind == Kind::Responses,
                },
                call_ids: match kind {
                    Kind::Anthropic | Kind::Responses | Kind::Converse => CallIds::Word,
                    Kind::Chat | Kind::Gemini => CallIds::Any,
                },
            },
            hour_cache: false,
            message_threads: false,
            fatal_codes: Vec::new(),
            max_images: None,
            body: Map::new(),
        }
    }

    /// Appends the user's own fields. Each begins with a comma, so the body must already have a field.
    pub(crate) fn put_body(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.body {
            out.push(b',');
            put(out, name);
            out.push(b':');
            put(out, value);
        }
    }

    fn deviate(&mut self, deviation: &Deviation) {
        match deviation {
            D::OutputLimit(field) => self.output_limit = *field,
            D::NoStreamUsage => self.stream_usage = false,
            D::PromptCacheKey => self.prompt_cache_key = true,
            D::Effort(dial) => self.effort = *dial,
            D::CallIds(ids) => self.tools.call_ids = *ids,
            D::EmptyContent => self.messages.null_content = false,
            D::PlainSchemas => self.tools.schemas.plain = true,
            D::FlatSchemas => self.tools.schemas.flat = true,
            D::AnyOrder => self.messages.strict_order = false,
            D::Pdf => self.messages.pdf = true,
            D::Fetches(what) => self.messages.fetches = *what,
            D::HourCache => self.hour_cache = true,
            D::MaxImages(most) => self.max_images = Some(*most),
            D::FatalCodes(codes) => self.fatal_codes = codes.iter().map(|code| (*code).to_owned()).collect(),
        }
    }
}

fn is_below(host: &str, suffix: &str) -> bool {
    host == suffix || host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_the_dialect_of_their_row() {
        let chat = |url: &str| Compat::for_address(Kind::Chat, url);
        assert_eq!(chat("https://api.openai.com/v1").output_limit, OutputLimit::MaxCompletionTokens);
        assert_eq!(chat("http://127.0.0.1:8080").output_limit, OutputLimit::MaxTokens);
        assert_eq!(chat("https://notopenai.com/v1").output_limit, OutputLimit::MaxTokens);
        assert_eq!(chat("https://openai.com.evil.example/v1").output_limit, OutputLimit::MaxTokens);
        assert_eq!(chat("https://api.mistral.ai/v1").tools.call_ids, CallIds::Nine);
        assert!(!chat("https://api.mistral.ai/v1").stream_usage);
        assert_eq!(chat("https://openrouter.ai/api/v1").effort, Dial::Reasoning);
        assert!(chat("https://api.z.ai/api/paas/v4").fatal_codes.contains(&"1308".to_owned()));
        assert!(!Compat::for_address(Kind::Anthropic, "https://api.anthropic.com").messages.strict_order);
        assert!(
            Compat::for_address(Kind::Anthropic, "https://api.minimax.io/anthropic").messages.strict_order
        );
        assert!(Compat::for_address(Kind::Gemini, "http://x").tools.schemas.plain);
    }

    #[test]
    fn a_provider_keeps_its_dialect_behind_a_proxy() {
        let proxy = "https://llm.example.com/v1";
        for (provider, host) in PROVIDERS {
            for kind in [Kind::Chat, Kind::Responses, Kind::Anthropic, Kind::Gemini, Kind::Converse] {
                let own = Compat::for_address(kind, &format!("https://{host}/v1"));
                assert_eq!(Compat::at(provider, kind, proxy), own, "{provider} {kind:?}");
            }
        }
        assert_eq!(Compat::at("openrouter", Kind::Chat, proxy).effort, Dial::Reasoning);
        assert_eq!(Compat::at("openai", Kind::Chat, proxy), Compat::for_address(Kind::Chat, proxy));
        assert_eq!(Compat::at("groq", Kind::Chat, proxy).max_images, Some(5));
        let azure = "https://r.services.ai.azure.com/openai/v1";
        assert!(Compat::for_address(Kind::Responses, azure).prompt_cache_key);
    }
}
