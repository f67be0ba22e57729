//! The `web_fetch` tool.

use crate::client::{Allowed, Cut, Fetched, LIMIT, SHOWN_URL, WebClient, host, parse};
use crate::page::{self, Kind};
use crate::proxy::Proxies;
use crate::untrusted;
use becket_network::{Lookup, system_lookup};
use becket_tool::input::Parser;
use becket_tool::{Tool, ToolEnv};
use becket_types::{Access, Effect, ToolOutput, ToolSpec, cut_end};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// Time for which a fetched page is reused.
const FRESH: Duration = Duration::from_mins(15);
/// Maximum number of pages that are kept for reuse, and of their bytes together.
const KEPT: usize = 32;
const KEPT_BYTES: usize = 16 << 20;
/// Time limit for converting a page to Markdown.
const CONVERT: Duration = Duration::from_secs(10);
/// Maximum number of bytes that are shown of a page that comes with an error status.
const ERROR_PAGE: usize = 2_000;

/// Limits of fetches: hosts, proxies and time.
#[derive(Clone, Default)]
pub struct FetchSettings {
    /// Hosts that may be on this machine or its network: names, addresses, `*.suffix`.
    pub allow_hosts: Vec<String>,
    /// Resolves names to addresses; the system's resolver if `None`.
    pub lookup: Option<Lookup>,
    pub proxies: Proxies,
    /// Time limit of a whole fetch; 30 s if `None`.
    pub limit: Option<Duration>,
}

#[derive(Deserialize)]
struct Input {
    url: String,
}

/// Part of a page that is shown.
#[derive(Clone)]
struct Page {
    head: String,
    text: String,
    status: u16,
    url: String,
}

struct CachedPage {
    url: String,
    at: Instant,
    page: Arc<Page>,
}

/// Fetches one address as text.
pub struct WebFetch {
    spec: ToolSpec,
    client: WebClient,
    cache: Mutex<VecDeque<CachedPage>>,
}

impl WebFetch {
    /// Makes the tool with its HTTP client and an empty cache of pages. Nothing is fetched.
    pub fn new(settings: &FetchSettings) -> Self {
        let spec = ToolSpec {
            name: "web_fetch".to_owned(),
            description: "Fetches an http(s) URL as text; HTML becomes Markdown. A redirect to another host is reported, not followed."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"url": {"type": "string"}},
                "required": ["url"]
            }).into(),
        };
        let lookup = settings.lookup.clone().unwrap_or_else(system_lookup);
        Self {
            spec,
            client: WebClient::new(
                Allowed::new(&settings.allow_hosts),
                lookup,
                settings.proxies.clone(),
                settings.limit.unwrap_or(LIMIT),
            ),
            cache: Mutex::default(),
        }
    }

    fn url(&self, input: &Value) -> Result<Url, String> {
        let aliases = [("uri", "url"), ("href", "url"), ("link", "url")];
        let ignored = ["prompt", "description", "format", "timeout", "max_length", "raw"];
        let input: Input = Parser::new(&self.spec).aliases(&aliases).ignore(&ignored).parse(input)?;
        parse(&input.url).map_err(|e| e.to_string())
    }

    fn cached_page(&self, url: &Url) -> Option<Arc<Page>> {
        let mut kept = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|k| k.at.elapsed() < FRESH);
        kept.iter().find(|k| k.url == url.as_str()).map(|k| Arc::clone(&k.page))
    }

    fn cache_page(&self, asked: &Url, page: &Arc<Page>) {
        let mut kept = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(CachedPage { url: asked.to_string(), at: Instant::now(), page: Arc::clone(page) });
        while kept.len() > KEPT || kept.iter().map(|k| k.page.text.len()).sum::<usize>() > KEPT_BYTES {
            kept.pop_front();
        }
    }

    async fn answer(&self, url: Url, env: &ToolEnv) -> Result<ToolOutput, String> {
        if let Some(page) = self.cached_page(&url) {
            return Ok(page_output(&page, " (fetched before, less than 15 min ago)", env));
        }
        let fetched = self.client.fetch(url.clone()).await.map_err(|e| e.to_string())?;
        if let Some(to) = &fetched.redirect {
            let text = format!(
                "{} redirects ({}) to another place: {}\nIt was not followed. Fetch that URL if it is the one you want.",
                path_of(&fetched.hops, &fetched.url),
                fetched.status,
                cut_end(to.as_str(), SHOWN_URL)
            );
            let details =
                json!({"url": fetched.url.as_str(), "status": fetched.status, "redirect": to.as_str()});
            return Ok(ToolOutput { details, ..ToolOutput::text(text) });
        }
        let whole = fetched.status < 400 && matches!(fetched.cut, None | Some(Cut::Size));
        let page = Arc::new(converted(fetched).await?);
        if whole {
            self.cache_page(&url, &page);
        }
        Ok(page_output(&page, "", env))
    }
}

fn path_of(hops: &[String], url: &Url) -> String {
    let mut all: Vec<&str> = hops.iter().map(String::as_str).collect();
    if all.last() != Some(&url.as_str()) {
        all.push(url.as_str());
    }
    let all: Vec<&str> = all.into_iter().map(|hop| cut_end(hop, SHOWN_URL)).collect();
    all.join(" → ")
}

fn page_output(page: &Page, note: &str, env: &ToolEnv) -> ToolOutput {
    let mut output = untrusted::output(&format!("{}{note}", page.head), &page.text, "web_page", env);
    output.is_error = page.status >= 400;
    output.details = json!({"url": page.url, "status": page.status, "bytes": page.text.len()});
    output
}

/// Converts the fetched body to text.
///
/// # Errors
///
/// Returns a message for the model if the body is not text.
async fn converted(fetched: Fetched) -> Result<Page, String> {
    let Fetched { url, hops, status, content_type, body, cut, announced, .. } = fetched;
    let kind = page::kind(&content_type, &body[..body.len().min(1024)]);
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_owned();
    let named = if essence.is_empty() { "no content type" } else { essence.as_str() };
    let mut head = format!("{} — {status}, {named}, {} bytes", path_of(&hops, &url), body.len());
    if let Some(why) = &cut {
        let _ = write!(head, ", {why}");
    }
    if (300..400).contains(&status) {
        head.push_str(", a redirect that leads nowhere");
    }
    let text = match kind {
        Kind::Other => {
            let size = announced.map_or("of unknown size".to_owned(), |n| format!("{n} bytes"));
            return Err(format!(
                "{} is {named}, {size}: only text and HTML are shown (status {status}). To have the file, download it with a command.",
                url.as_str()
            ));
        }
        Kind::Text => page::decode(&content_type, &body),
        Kind::Html => {
            let base = url.to_string();
            let work = tokio::task::spawn_blocking(move || {
                page::markdown(&page::decode(&content_type, &body), &base)
            });
            let (title, text) = tokio::time::timeout(CONVERT, work)
                .await
                .map_err(|_| "The page could not be made into text in 10 s.".to_owned())?
                .map_err(|_| "The page could not be made into text.".to_owned())?;
            // The title comes from the page, so it is shown inside the marks for untrusted text.
            match title {
                Some(title) if !text.starts_with(&format!("# {title}")) => format!("# {title}\n\n{text}"),
                _ => text,
            }
        }
    };
    let text = if status >= 400 { cut_end(&text, ERROR_PAGE).to_owned() } else { text };
    let text = if text.trim().is_empty() { "(no text)".to_owned() } else { text };
    Ok(Page { head, text, status, url: url.to_string() })
}

impl Tool for WebFetch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        let url = self.url(input)?;
        let subject = Some(format!("domain:{}", host(&url)));
        Ok(Access { effect: Effect::Network, subject, ..Access::session() })
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let url = match self.url(&input) {
                Ok(url) => url,
                Err(why) => return ToolOutput::error(why),
            };
            tokio::select! {
                answer = self.answer(url, env) => answer.unwrap_or_else(ToolOutput::error),
                () = env.cancel.cancelled() => ToolOutput { interrupted: true, ..ToolOutput::error("Interrupted.") },
            }
        })
    }
}
