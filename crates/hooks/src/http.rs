//! HTTP hooks: sends the input as a POST of JSON; the body is the answer.
//!
//! Redirects are not followed, so the input of a hook is sent only to the configured address. An address that a project
//! configures may not be on this machine or its network.

use crate::command::ProgramResult;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of bytes of an answer.
const MAX_BODY: usize = 1 << 20;

/// A request of a hook.
#[derive(Debug)]
pub struct Post<'a> {
    pub url: &'a str,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// Time limit for the whole exchange.
    pub limit: Duration,
    /// True if the user configured the address, so that it may be on this machine or in its network.
    pub own: bool,
}

/// Sends the request. A status of success counts as exit code 0 with the body on standard output; any other is an
/// error.
pub async fn post(request: Post<'_>) -> ProgramResult {
    match tokio::time::timeout(request.limit, send(&request)).await {
        Err(_) => ProgramResult::TimedOut,
        Ok(Err(why)) => ProgramResult::NotStarted(why),
        Ok(Ok(ran)) => ran,
    }
}

async fn send(request: &Post<'_>) -> Result<ProgramResult, String> {
    let url = Url::parse(request.url)
        .map_err(|error| format!("the address {:?} is wrong: {error}", request.url))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{url} is no http or https address"));
    }
    let mut builder = Client::builder().redirect(Policy::none()).no_proxy();
    if !request.own {
        let (host, to) = public(&url).await?;
        builder = builder.resolve_to_addrs(&host, &to);
    }
    let client = builder.build().map_err(|error| error.to_string())?;
    let mut post = client.post(url).header("content-type", "application/json").body(request.body.clone());
    for (name, value) in &request.headers {
        post = post.header(name, value);
    }
    let mut answer = post.send().await.map_err(|error| innermost_cause(&error))?;
    let status = answer.status();
    if status.is_redirection() {
        let to = answer.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or("another place");
        return Err(format!("it redirects to {to}, which is not followed; configure that address"));
    }
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| innermost_cause(&error))? {
        if body.len() + piece.len() > MAX_BODY {
            return Ok(ProgramResult::Flooded);
        }
        body.extend_from_slice(&piece);
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    if !status.is_success() {
        return Err(format!("it answered {status}"));
    }
    Ok(ProgramResult::Exited { code: 0, stdout: body, stderr: String::new() })
}

/// Resolves a host. Fails unless all its addresses are on the public network.
async fn public(url: &Url) -> Result<(String, Vec<SocketAddr>), String> {
    let host = url.host_str().ok_or_else(|| format!("{url} names no host"))?;
    let plain = host.trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(443);
    let found: Vec<SocketAddr> = tokio::net::lookup_host((plain, port))
        .await
        .map_err(|error| format!("{host} is not found: {error}"))?
        .collect();
    if let Some(why) = found.iter().find_map(|address| becket_network::refusal(address.ip())) {
        return Err(format!("{host} is {why}, and a project's hook does not go there"));
    }
    Ok((host.to_owned(), found))
}

/// Returns the message of the innermost cause.
fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
