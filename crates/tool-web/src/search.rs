//! The `web_search` tool: sends a query to the provider that the user configured.
//!
//! A provider is one entry of `wire`: how to send the query and where to find the results. The user chose the
//! address, so it may be on this machine. Redirects are not followed, because the key must not be sent
//! elsewhere.

use crate::proxy::Proxies;
use crate::untrusted;
use becket_tool::input::Parser;
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, Effect, ToolOutput, ToolSpec, cut_end};
use futures::future::BoxFuture;
use reqwest::{Client, RequestBuilder, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::time::Duration;
use url::Url;

/// Number of results that are requested and shown, and maximum bytes of each result's text.
const RESULTS: usize = 10;
const TEXT: usize = 600;
const MAX_QUERY: usize = 1_000;
const LIMIT: Duration = Duration::from_secs(20);
const MAX_BODY: usize = 2 << 20;

/// The search providers that are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Brave,
    Tavily,
    Exa,
    Searxng,
}

/// A configured provider.
#[derive(Clone)]
pub struct SearchSettings {
    pub provider: Provider,
    /// Address to use instead of the provider's own; required for SearXNG.
    pub url: Option<String>,
    pub key: Option<String>,
    pub proxies: Proxies,
    /// Time limit of a whole search; 20 s if `None`.
    pub limit: Option<Duration>,
}

impl fmt::Debug for SearchSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchSettings")
            .field("provider", &self.provider)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// The reason why there are no results. The text is for the model and never contains the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SearchError {
    #[error(
        "The search provider refuses the key (status {0}). The user has to correct web.search.api_key_env."
    )]
    Key(u16),
    #[error("The search provider asks to wait (status 429). Go on without searching, or try again later.")]
    Limited,
    #[error("The search provider answers with status {0}.")]
    Status(u16),
    #[error("The search provider did not answer in time.")]
    Timeout,
    #[error("The search provider cannot be reached: {0}.")]
    Network(String),
    #[error(
        "The search provider sent an answer that becket cannot read. The user can correct web.search in the configuration."
    )]
    Malformed,
    #[error("The search provider answers with more than {} MB; it was not read.", MAX_BODY >> 20)]
    TooMuch,
}

/// Searches the web.
pub struct WebSearch {
    spec: ToolSpec,
    settings: SearchSettings,
    url: Url,
    client: OnceLock<Result<Client, String>>,
}

/// The protocol of one provider.
struct Wire {
    url: Option<&'static str>,
    needs_key: bool,
    request: fn(&Client, Url, &str, &str) -> RequestBuilder,
    /// JSON pointer to the list of results. `text`: the field of a result that has its text.
    results: &'static str,
    text: &'static str,
}

fn wire(provider: Provider) -> Wire {
    match provider {
        Provider::Brave => Wire {
            url: Some("https://api.search.brave.com/res/v1/web/search"),
            needs_key: true,
            request: |client, mut url, query, key| {
                url.query_pairs_mut().append_pair("q", query).append_pair("count", &RESULTS.to_string());
                client.get(url).header("x-subscription-token", key)
            },
            results: "/web/results",
            text: "description",
        },
        Provider::Tavily => Wire {
            url: Some("https://api.tavily.com/search"),
            needs_key: true,
            request: |client, url, query, key| {
                post(client, url, &json!({"query": query, "max_results": RESULTS})).bearer_auth(key)
            },
            results: "/results",
            text: "content",
        },
        Provider::Exa => Wire {
            url: Some("https://api.exa.ai/search"),
            needs_key: true,
            request: |client, url, query, key| {
                let contents = json!({"text": {"maxCharacters": TEXT}});
                post(client, url, &json!({"query": query, "numResults": RESULTS, "contents": contents}))
                    .header("x-api-key", key)
            },
            results: "/results",
            text: "text",
        },
        Provider::Searxng => Wire {
            url: None,
            needs_key: false,
            request: |client, mut url, query, _| {
                if !url.path().ends_with("/search") {
                    let path = format!("{}/search", url.path().trim_end_matches('/'));
                    url.set_path(&path);
                }
                url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
                client.get(url)
            },
            results: "/results",
            text: "content",
        },
    }
}

fn post(client: &Client, url: Url, body: &Value) -> RequestBuilder {
    client.post(url).header("content-type", "application/json").body(body.to_string())
}

impl WebSearch {
    /// Makes the tool from the settings.
    ///
    /// # Errors
    ///
    /// Returns a message for the user that says what is missing in the configuration.
    pub fn new(settings: SearchSettings) -> Result<Self, String> {
        let wire = wire(settings.provider);
        let address = settings
            .url
            .as_deref()
            .or(wire.url)
            .ok_or("web.search.url is missing: this provider has no address of its own")?;
        let url = Url::parse(address).map_err(|e| format!("web.search.url is not an address: {e}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("web.search.url must begin with http:// or https://".to_owned());
        }
        if wire.needs_key && settings.key.as_deref().is_none_or(|k| k.trim().is_empty()) {
            return Err(
                "the key is missing: name the environment variable that holds it in web.search.api_key_env"
                    .to_owned(),
            );
        }
        let spec = ToolSpec {
            name: "web_search".to_owned(),
            description: "Searches the web; results are title, URL and an excerpt.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"]
            })
            .into(),
        };
        Ok(Self { spec, settings, url, client: OnceLock::new() })
    }

    fn query(&self, input: &Value) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Input {
            query: String,
        }
        let aliases = [("q", "query"), ("search", "query"), ("search_query", "query")];
        let ignored = ["allowed_domains", "blocked_domains", "description", "count", "max_results"];
        let input: Input = Parser::new(&self.spec).aliases(&aliases).ignore(&ignored).parse(input)?;
        let query = input.query.trim();
        match query.len() {
            0 => Err("The query is empty.".to_owned()),
            n if n > MAX_QUERY => {
                Err(format!("The query has {n} bytes; at most {MAX_QUERY} are searched for."))
            }
            _ => Ok(query.to_owned()),
        }
    }

    fn client(&self) -> Result<&Client, SearchError> {
        let made = self.client.get_or_init(|| {
            let mut builder = Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .timeout(self.settings.limit.unwrap_or(LIMIT))
                .user_agent(concat!("becket/", env!("CARGO_PKG_VERSION")));
            if let Some(proxy) = self.settings.proxies.for_url(&self.url) {
                let proxy = reqwest::Proxy::all(proxy);
                builder =
                    builder.proxy(proxy.map_err(|_| "the proxy's address is not understood".to_owned())?);
            }
            builder.build().map_err(|e| e.to_string())
        });
        made.as_ref().map_err(|why| SearchError::Network(why.clone()))
    }

    async fn search(&self, query: &str) -> Result<Vec<SearchResult>, SearchError> {
        let wire = wire(self.settings.provider);
        let key = self.settings.key.as_deref().unwrap_or_default().trim();
        let response =
            (wire.request)(self.client()?, self.url.clone(), query, key).send().await.map_err(unreachable)?;
        match response.status().as_u16() {
            200..=299 => {}
            status @ (401 | 403) => return Err(SearchError::Key(status)),
            429 => return Err(SearchError::Limited),
            status => return Err(SearchError::Status(status)),
        }
        let body = body(response).await?;
        let answer: Value = becket_types::parse_json_bytes(&body).map_err(|_| SearchError::Malformed)?;
        let list = match answer.pointer(wire.results) {
            Some(Value::Array(list)) => list.as_slice(),
            // Brave omits this section if it found nothing.
            None if answer.is_object() => &[],
            _ => return Err(SearchError::Malformed),
        };
        Ok(list.iter().filter_map(|item| SearchResult::read(item, wire.text)).take(RESULTS).collect())
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, SearchError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BODY {
            return Err(SearchError::TooMuch);
        }
    }
    Ok(body)
}

fn unreachable(error: reqwest::Error) -> SearchError {
    use std::error::Error as _;
    if error.is_timeout() {
        return SearchError::Timeout;
    }
    let error = error.without_url();
    let mut last = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        last = cause.to_string();
        source = cause.source();
    }
    SearchError::Network(last)
}

struct SearchResult {
    title: String,
    url: String,
    text: String,
}

impl SearchResult {
    fn read(item: &Value, text: &str) -> Option<Self> {
        let get = |key: &str| item.get(key).and_then(Value::as_str).map(str::trim).unwrap_or_default();
        let url = get("url");
        // Each field is put on one line, so that one result cannot look like two.
        let line = |text: &str, max: usize| {
            cut_end(&text.split_whitespace().collect::<Vec<_>>().join(" "), max).to_owned()
        };
        (!url.is_empty()).then(|| Self {
            title: line(get("title"), 200),
            url: line(url, 500),
            text: line(get(text), TEXT),
        })
    }
}

impl Tool for WebSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        self.query(input)?;
        Ok(Access { effect: Effect::Network, ..Access::session() })
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let query = match self.query(&input) {
                Ok(query) => query,
                Err(why) => return ToolOutput::error(why),
            };
            let found = tokio::select! {
                found = self.search(&query) => found,
                () = env.cancel.cancelled() => return ToolOutput { interrupted: true, ..ToolOutput::error("Interrupted.") },
            };
            let found = match found {
                Err(error) => return ToolOutput::error(error.to_string()),
                Ok(found) if found.is_empty() => return ToolOutput::text("Nothing found."),
                Ok(found) => found,
            };
            let mut text = String::new();
            for (number, SearchResult { title, url, text: excerpt }) in found.iter().enumerate() {
                let _ = writeln!(text, "{}. {title}\n   {url}\n   {excerpt}", number + 1);
            }
            let mut output =
                untrusted::output(&format!("{} results", found.len()), &text, "search_results", env);
            output.details = json!({"results": found.iter().map(|f| json!({"title": f.title, "url": f.url})).collect::<Vec<_>>()});
            output
        })
    }
}
