//! Talks to models: one [`Model`] trait, one adapter per wire format, and the handling of all errors of a stream.
//!
//! Owns wire formats, streaming, retries, typed errors, the catalog of windows and prices, and the scripted model.
//! Knows `types` only: not sessions, not tools, not the agent.
//!
//! Invariants:
//! - Each message becomes wire bytes once. While the context's `generation` stays the same, request N is a byte prefix
//!   of request N+1 up to the end of its last message.
//! - A stream ends with exactly one `Finish` or one typed error. A tool call part is emitted only when it is complete.
//! - Nothing here runs a tool, writes to disk or reads the environment.

mod absent;
mod adapter;
mod anthropic;
mod assemble;
mod auth;
mod base_url;
mod billed;
mod body;
mod body_limit;
pub mod catalog;
mod chat;
mod compat;
mod content;
mod converse;
mod counts;
mod credential;
mod decoder;
mod dialect;
mod effort;
mod endpoint;
mod errors;
#[doc(hidden)]
mod frames;
pub mod fuzzing;
mod gemini;
mod http;
mod ids;
mod json;
mod keys;
mod kind;
mod layout;
mod media;
mod place;
pub mod probe;
mod proxy;
mod record;
mod reference;
mod refused;
mod replay;
mod resolve;
mod responses;
mod retry;
mod rs256;
mod schema;
mod scripted;
mod server_facts;
mod server_model;
mod settings;
mod shape;
mod shortcut;
mod sigv4;
mod split_pair;
mod sse;
mod stream;
mod threads;
mod tls_fault;
mod token_request;
pub mod tokens;
mod wire;

pub use body_limit::{BodyLimit, BodyLimits, byte_size};
pub use compat::{
    CallIds, Compat, CompatChanges, Dial, OutputLimit, ReasoningField, SchemaRules, SystemRole,
};
pub use credential::{Auth, AwsKeys, Credential, KeySource, NoKey, Secret, TokenSource};
pub use endpoint::{Endpoint, Figures};
pub use kind::Kind;
pub use layout::{Layouts, stricter};
pub use media::{image_size, thumbnail, unfetched, unusable_image};
pub use record::{RecordingHead, Tape};
pub use reference::ModelRef;
pub use replay::Recording;
pub use rs256::sign_rs256;
pub use scripted::ScriptedModel;
pub use server_facts::ServerFacts;
pub use settings::{Learned, Proxies, Settings, Sleeper, TimeLimits};
pub use token_request::{Body as TokenBody, TokenFault, TokenRequest, aws_headers, token_request};

use becket_types::{
    Blobs, CacheLifetime, CallId, Context, FinishReason, Millis, Part, Prices, ToolSpec, Usage, WireLayout,
};
use bytes::Bytes;
use futures::stream::BoxStream;
use place::Place;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::sync::Arc;

/// The figures of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// `provider/name`, as the user writes it.
    pub id: String,
    pub provider: String,
    /// The name on the wire.
    pub name: String,
    /// Context window in tokens.
    pub window: u64,
    /// Limit on the input alone, in tokens, if the provider has one; otherwise the window.
    pub input_limit: u64,
    /// Output limit of one answer in tokens.
    pub max_output: u64,
    pub prices: Option<Prices>,
    /// True if the model reads images.
    pub images: bool,
    /// True if the model can think before it answers, so that requests may carry an effort.
    pub reasoning: bool,
    /// Time for which the provider keeps a cached prefix after its last use.
    pub cache_ttl: Millis,
    #[serde(default)]
    pub server: ServerTraits,
    /// The source of these figures, with a date; `default` if the model is not in the catalog.
    pub source: String,
}

/// Traits of a model's server that the agent has to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerTraits {
    /// A request can ask the server to keep its prefix for an hour.
    pub hour_cache: bool,
    /// Calls that the model writes into its text are shown to the user for approval, instead of being reported only.
    pub asks_text_calls: bool,
    /// Maximum number of images in one request, if the server takes fewer than others.
    pub max_images: Option<u32>,
    /// Attachments that the server fetches itself, by their addresses.
    pub fetches: Fetches,
}

/// Attachments that a server fetches by their addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fetches {
    Nothing,
    #[default]
    Images,
    ImagesAndDocuments,
}

/// One request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub context: &'a Context,
    pub tools: &'a [ToolSpec],
    pub tool_choice: ToolChoice,
    /// Output limit in tokens.
    pub max_output: u64,
    /// `low`, `medium`, `high`, …; the adapter maps it to the values of its wire format, or leaves it out.
    pub effort: Option<&'a str>,
    /// The layout of messages. Absent: the one that the server is known to accept.
    pub layout: Option<WireLayout>,
    /// The lifetime of the provider's cache, for servers that let a request choose it.
    pub cache: CacheLifetime,
    /// Contents of the images and files that the messages refer to.
    pub blobs: &'a Arc<dyn Blobs>,
}

/// The tool calls that the model may make in its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model decides.
    Auto,
    /// Tools stay listed, but the model may not call one.
    None,
}

/// SHA-256 of a request's body.
pub type Digest = [u8; 32];

/// A request as bytes, ready to be sent, also several times.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The body in pieces. Requests share pieces, so a step costs only its new bytes.
    pub body: Vec<Bytes>,
    /// SHA-256 of the body. Computing it costs only the new bytes.
    pub digest: Digest,
    /// A private value of the adapter (such as the scripted model's cursor); opaque to callers.
    pub tag: u64,
    /// The layout of the messages.
    pub layout: WireLayout,
    /// The caller can switch to another model, so the wait for an overloaded one is short. Adapters leave it false.
    pub replaceable: bool,
    /// The caller can do without the answer (a summary), so failures are retried for a few seconds only. Adapters leave it
    /// false.
    pub brief: bool,
}

impl Prepared {
    /// Returns the length of the body in bytes.
    pub fn len(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }
    /// True if the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An event of a model's answer, the same for every wire format. `index` counts the parts of the answer from 0.
///
/// If a stream breaks in the middle, the text and the reasoning so far are emitted as parts before the error. Unfinished
/// calls are not: a call that was not emitted as a part does not exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
pub enum ModelEvent {
    /// The request is accepted and the answer begins.
    Started {
        /// The provider's id of the request, for questions to its support.
        request_id: Option<String>,
    },
    TextDelta {
        index: u32,
        text: String,
    },
    ReasoningDelta {
        index: u32,
        text: String,
    },
    /// A piece of a call's arguments. The first of a call has empty `json`.
    ToolCallDelta {
        index: u32,
        call_id: CallId,
        name: String,
        json: String,
    },
    /// Part `index` is complete.
    Part {
        index: u32,
        part: Part,
    },
    /// Usage so far; the last one counts.
    Usage(Usage),
    /// The request failed before any content came, and will be sent again after `delay`. This is retry number `attempt` of the
    /// `max` for this kind of error.
    Retry {
        attempt: u32,
        max: u32,
        delay: Millis,
        status: Option<u16>,
        error: String,
    },
    /// A note that the user should see once, such as an unknown stop reason or a repaired deviation.
    Notice(String),
    /// The reason for the end. This is always the last event.
    Finish(FinishReason),
}

/// A model that answers requests.
pub trait Model: Send + Sync {
    /// Returns the name, limits and prices of the model.
    fn info(&self) -> &ModelInfo;

    /// Turns a request into bytes. The cost is that of the messages that are new since the last call with the same generation.
    ///
    /// # Errors
    ///
    /// Fails if the context cannot be expressed in this wire format.
    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError>;

    /// Sends the request, retries failures that allow it until the answer begins, and streams the answer.
    /// Dropping the stream cancels the request.
    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>>;

    /// Forgets the limit on bytes that an earlier run found for the server. Returns true if there was one, so that a body
    /// above it is sent now.
    fn doubt_limits(&self) -> bool {
        false
    }
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Key missing, wrong, revoked or without permission.
    Auth,
    /// No credits, spend limit reached.
    Billing,
    /// The provider does not know the model or the path.
    NotFound,
    RateLimit,
    Overloaded,
    /// The server runs, but has not loaded the model into memory yet. Waiting is enough.
    Loading,
    /// 5xx other than overloaded.
    Server,
    /// Cannot connect, connection reset.
    Network,
    /// The server's name does not resolve.
    Dns,
    /// Certificate or handshake; a retry never helps.
    Tls,
    Timeout,
    /// No bytes and no pings for the idle limit.
    Stalled,
    /// The stream ended without its end event, or broke in the middle.
    StreamBroken,
    /// A success status with a body that is not an answer: HTML, 204, wrong shape, nothing.
    Malformed,
    /// Prompt too long. If the error text names the limit, it is in `limit`.
    ContextOverflow,
    /// The body has too many bytes (413).
    TooLarge,
    /// Any other 4xx: sending the same again is useless.
    InvalidRequest,
    /// The server's chat template refuses the messages. While the error is retryable, the same request prepared again has a
    /// stricter layout.
    Template,
    Refusal,
    /// Script file wrong or used up.
    Script,
    /// `--max-wait` would be exceeded.
    WaitTooLong,
}

/// A typed error that says what happened, why, and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ErrorKind,
    /// One or two sentences: what happened and why, in words for people.
    pub message: String,
    /// Advice on what to do.
    pub hint: Option<String>,
    pub status: Option<u16>,
    pub request_id: Option<String>,
    /// True if sending the same request again may succeed.
    pub retryable: bool,
    /// The wait that the server asks for.
    pub retry_after: Option<Millis>,
    /// The true limit, learned from the error's text: tokens for [`ErrorKind::ContextOverflow`], bytes for
    /// [`ErrorKind::TooLarge`]. If the text of a `TooLarge` names none, this is a size that the server is likely to accept.
    pub limit: Option<u64>,
    /// Bytes of the body that was too large.
    pub sent: Option<NonZeroU64>,
}

/// Opens the model that `reference` names. Builds no HTTP client and sends nothing, but reads a script.
///
/// # Errors
///
/// Returns [`ErrorKind::Auth`] if a key is needed and missing, [`ErrorKind::NotFound`] if the provider is unknown or its
/// base URL cannot be used, and [`ErrorKind::Script`] if a script or recording cannot be read.
pub fn open(reference: &ModelRef, settings: &Settings) -> Result<Arc<dyn Model>, ModelError> {
    let (provider, name) = match reference {
        ModelRef::Script(file) => {
            return Ok(Arc::new(
                ScriptedModel::open(file)?.with_window(settings.window).with_retries(settings),
            ));
        }
        ModelRef::Replay(file) => {
            let recording = Recording::open(file)?;
            return recording.model(&recording.head().model, settings);
        }
        ModelRef::Named { provider, name } => (provider, name),
    };
    let endpoint = settings.endpoint(provider).ok_or_else(|| no_provider(provider, name, settings))?;
    let place = Place::new(provider, name, endpoint)?;
    let model: Arc<dyn Model> = match place.kind {
        Kind::Anthropic => Arc::new(anthropic::open(&place, name, settings)?),
        Kind::Chat => Arc::new(chat::open(&place, name, settings)?),
        Kind::Responses => Arc::new(responses::open(&place, name, settings)?),
        Kind::Gemini => Arc::new(gemini::open(&place, name, settings)?),
        Kind::Converse => Arc::new(converse::open(&place, name, settings)?),
    };
    Ok(Arc::new(absent::Known::new(model, reference, settings)))
}

/// Returns the known figures of a model without a request: the figures that [`open`] gives it, also if its key is
/// missing. A model that cannot be opened has the figures of the catalog.
pub fn describe(reference: &ModelRef, settings: &Settings) -> ModelInfo {
    let mut settings = settings.clone();
    if let Some(endpoint) = settings.endpoint_mut(reference.provider()) {
        // Nothing is sent.
        endpoint.credential.get_or_insert_with(|| Credential::ApiKey(Secret::new("unused")));
    }
    match (open(reference, &settings), reference) {
        (Ok(model), _) => model.info().clone(),
        (Err(_), ModelRef::Named { provider, name }) => catalog::lookup(provider, name),
        (Err(_), ModelRef::Script(_) | ModelRef::Replay(_)) => catalog::lookup("unknown", "unknown"),
    }
}

/// The error for an unknown provider, with similar names and the way to add one.
fn no_provider(provider: &str, name: &str, settings: &Settings) -> ModelError {
    let near = settings
        .providers()
        .map(|known| (becket_types::edit_distance(known, provider), known))
        .filter(|(distance, known)| *distance <= 2.max(known.len() / 4))
        .min();
    let hint = match near {
        Some((_, known)) => format!("Did you mean {known}/{name}? `becket models` lists the providers."),
        None => format!(
            "`becket models` lists the providers; for a server of your own, write kind and base_url into \
             [providers.{provider}] of your configuration."
        ),
    };
    ModelError::new(
        ErrorKind::NotFound,
        format!("`{provider}/{name}` names no model: there is no provider named `{provider}`."),
    )
    .hint(hint)
}

/// Replaces figures of the catalog by those that the model's server reported and by the user's settings. A model on this
/// machine (`local`) has no price.
fn adjust(
    info: &mut ModelInfo,
    settings: &Settings,
    endpoint: &Endpoint,
    said: Option<probe::ServerModel>,
    local: bool,
) {
    if local && !catalog::is_hosted_only(&info.name) {
        // A model that runs on this machine costs nothing.
        info.prices = None;
    }
    info.images = said.and_then(|said| said.images).unwrap_or(info.images);
    if let Some(own) = endpoint.models.iter().find(|figures| figures.name == info.name) {
        info.max_output = own.max_output.unwrap_or(info.max_output);
        info.images = own.images.unwrap_or(info.images);
        info.reasoning = own.reasoning.unwrap_or(info.reasoning);
        info.prices = own.prices.or(info.prices);
        if let Some(window) = own.window {
            info.window = window;
            info.input_limit = window;
            info.max_output = info.max_output.min(window);
        }
        own.source.as_deref().unwrap_or("the configuration").clone_into(&mut info.source);
    }
    let set = settings.window.map(|window| (window, "set by the user"));
    let known = endpoint.models.iter().any(|own| own.name == info.name && own.window.is_some());
    let said =
        said.and_then(|said| said.window).filter(|_| !known).map(|window| (window, "reported by its server"));
    if let Some((window, source)) = set.or(said) {
        info.window = window;
        info.input_limit = window;
        info.max_output = info.max_output.min(window);
        source.clone_into(&mut info.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_machine_is_free_unless_it_is_a_gateway() {
        let remote = "https://models.example/v1";
        let local = "http://127.0.0.1:4000/v1";
        for (name, url, priced) in [
            ("claude-sonnet-4-5", local, true),
            ("anthropic/claude-opus-4.1", local, true),
            ("gpt-5-mini", local, true),
            ("o3", local, true),
            ("gemini-2.5-pro", local, true),
            ("grok-4", local, true),
            ("gpt-oss-20b", local, false),
            ("deepseek-v3.2", local, false),
            ("deepseek-v3.2", remote, true),
            ("Qwen3-32B-Q4_K_M.gguf", local, false),
            ("my-own-model", local, false),
            ("my-own-model", remote, false),
        ] {
            let endpoint = Endpoint { base_url: Some(url.to_owned()), ..Endpoint::default() };
            let settings = Settings { anthropic: endpoint.clone(), openai: endpoint, ..Settings::default() };
            for reference in [ModelRef::openai(name.to_owned()), ModelRef::anthropic(name.to_owned())] {
                let model = open(&reference, &settings).unwrap();
                assert_eq!(model.info().prices.is_some(), priced, "{name} at {url}");
            }
        }
    }
}
