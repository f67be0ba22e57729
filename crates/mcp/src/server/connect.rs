//! Opens a connection: the program, the address or the host's functions, and the handshake of both protocol
//! generations.
//!
//! Programs get the older handshake (before 2026-07-28) first, because some crash, or behave wrongly, if the first message is
//! unknown to them. HTTP servers are asked for their versions.

use crate::config::{Endpoint, PROJECT, ServerConfig};
use crate::handler::Handler;
use crate::program;
use crate::shared::Shared;
use crate::transport::channel::HostTransport;
use crate::transport::repaired::Repaired;
use crate::transport::stdio::Stdio;
use crate::transport::{http, sse};
use becket_sandbox::{Process, ProcessLog, ProgramKind, Start};
use reqwest::header::HeaderMap;
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService,
    ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::AuthorizationManager;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::time::Duration;
use url::Url;

/// Maximum time for a program that prints headers.
const HELPER: Duration = Duration::from_secs(10);

pub(crate) enum Failure {
    NeedsAuth(Option<String>),
    /// Reason of the failure, shown after `failed:`. In this text, "it" means the server.
    Other(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

pub(crate) fn service_failure(error: &ServiceError) -> Failure {
    match crate::call::failure(error) {
        crate::call::CallError::NeedsAuth(challenge) => Failure::NeedsAuth(challenge),
        crate::call::CallError::Closed(why) => Failure::Other(why),
        _ => Failure::Other(error.to_string()),
    }
}

fn initialize_failure(error: &ClientInitializeError) -> Failure {
    if error.is_authorization_required() {
        return Failure::NeedsAuth(error.auth_challenge().map(str::to_owned));
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            Failure::Other("it ended before it answered".to_owned())
        }
        ClientInitializeError::TransportError { error, .. } => {
            Failure::Other(http::transport_failure(error.error.as_ref()))
        }
        ClientInitializeError::JsonRpcError(data) => Failure::Other(format!("it refuses: {}", data.message)),
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            Failure::Other("it does not answer as an MCP server does".to_owned())
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => initialize_failure(fallback),
        other => Failure::Other(http::reasons(other)),
    }
}

type Service = RunningService<RoleClient, Handler>;

pub(crate) async fn connect(
    config: &ServerConfig,
    shared: &Shared,
    log: &ProcessLog,
    handler: Handler,
) -> Result<Service, Failure> {
    match &config.endpoint {
        Endpoint::Stdio { command, args, env, cwd } => {
            let of_project = config.scope.as_deref() == Some(PROJECT);
            let program = Program { command, args, env, cwd: cwd.as_deref(), of_project };
            let service =
                handler.clone().serve_with_lifecycle(program.start(shared, log)?, initialize()).await;
            match service {
                Ok(service) => Ok(service),
                // The server may support only the newer protocol.
                Err(ClientInitializeError::JsonRpcError(_)) => {
                    let mode = ClientLifecycleMode::Discover { preferred_versions: newest() };
                    let service = handler.serve_with_lifecycle(program.start(shared, log)?, mode).await;
                    service.map_err(|e| initialize_failure(&e))
                }
                Err(error) => Err(initialize_failure(&error)),
            }
        }
        Endpoint::Host => {
            let host = shared.host.as_ref();
            let host =
                host.ok_or_else(|| "no program drives becket that could have this server".to_owned())?;
            let channel = host.channel(&config.name);
            let service = handler.serve_with_lifecycle(HostTransport::new(channel), initialize()).await;
            service.map_err(|e| initialize_failure(&e))
        }
        Endpoint::Http { url, headers, headers_helper, oauth, legacy } => {
            let url = Url::parse(url).map_err(|e| e.to_string())?;
            let mut given = headers.clone();
            if let Some(helper) = headers_helper {
                given.extend(helper_headers(helper, shared).await?);
            }
            let headers = http::headers(&given)?;
            let client = http::client(&url, &shared.proxies)?;
            if *legacy {
                let transport = sse::LegacySse::connect(client, &url, headers).await?;
                let service = handler.serve_with_lifecycle(transport, initialize()).await;
                return service.map_err(|e| initialize_failure(&e));
            }
            let mode = ClientLifecycleMode::Auto {
                preferred_versions: newest(),
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            };
            let way = Http { config, url: &url, oauth, headers: &headers, client, shared };
            let service = way.open(way.manager().await?, handler.clone(), mode).await;
            let service = match service {
                // Some older servers do not answer this question with an error that `rmcp` recognises, so the older handshake is
                // tried.
                Err(error) if !error.is_authorization_required() => {
                    way.open(way.manager().await?, handler, initialize()).await.map_err(|_| error)
                }
                service => service,
            };
            service.map_err(|e| initialize_failure(&e))
        }
    }
}

/// The parts of a connection to an HTTP server, before it is opened.
struct Http<'a> {
    config: &'a ServerConfig,
    url: &'a Url,
    oauth: &'a crate::config::OAuthConfig,
    headers: &'a HeaderMap,
    client: reqwest::Client,
    shared: &'a Shared,
}

impl Http<'_> {
    /// Returns a manager of the server's tokens. Each connection needs its own.
    async fn manager(&self) -> Result<Option<AuthorizationManager>, String> {
        crate::oauth::manager(&self.config.name, self.url, self.oauth, &self.client, self.shared).await
    }

    async fn open(
        &self,
        manager: Option<AuthorizationManager>,
        handler: Handler,
        mode: ClientLifecycleMode,
    ) -> Result<Service, ClientInitializeError> {
        let settings = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .custom_headers(header_map(self.headers))
            .max_sse_event_size(crate::transport::message::LONGEST)
            .reinit_on_expired_session(true);
        let client = self.client.clone();
        match manager {
            Some(manager) => {
                let client = Repaired(rmcp::transport::auth::AuthClient::new(client, manager));
                handler
                    .serve_with_lifecycle(StreamableHttpClientTransport::with_client(client, settings), mode)
                    .await
            }
            None => {
                handler
                    .serve_with_lifecycle(
                        StreamableHttpClientTransport::with_client(Repaired(client), settings),
                        mode,
                    )
                    .await
            }
        }
    }
}

fn initialize() -> ClientLifecycleMode {
    ClientLifecycleMode::Initialize
}

fn newest() -> Vec<ProtocolVersion> {
    vec![ProtocolVersion::V_2026_07_28]
}

fn header_map(headers: &HeaderMap) -> HashMap<http1::HeaderName, http1::HeaderValue> {
    headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

use ::http as http1;

struct Program<'a> {
    command: &'a str,
    args: &'a [String],
    env: &'a BTreeMap<String, String>,
    cwd: Option<&'a str>,
    of_project: bool,
}

impl Program<'_> {
    fn start(&self, shared: &Shared, log: &ProcessLog) -> Result<Stdio, Failure> {
        let prepared = shared.programs.prepare(ProgramKind::McpServer).map_err(|e| e.to_string())?;
        let mut variables = shared.variables.clone();
        for (name, value) in self.env {
            variables.retain(|(known, _)| known != name.as_str());
            variables.push((OsString::from(name), OsString::from(value)));
        }
        let dir = self.cwd.map_or_else(|| shared.cwd.clone(), |dir| shared.cwd.join(dir));
        // When the user allowed a project's server, the question named this program, so the project's folders count for it.
        let avoided = shared.project.as_deref().filter(|_| !self.of_project);
        let search = program::search_path(self.env, &shared.variables, avoided);
        let command = program::find(self.command, &search, &dir).ok_or_else(|| {
            format!("its program {} is not found (is it installed, and in PATH?)", self.command)
        })?;
        let lease = shared.programs.protect_from_server(&prepared);
        let started = Process::start(Start {
            prepared: &prepared,
            lease,
            program: OsStr::new(&command),
            args: self.args,
            dir: &dir,
            variables: &variables,
        });
        let (process, streams) =
            started.map_err(|e| format!("its program {} does not start: {e}", self.command))?;
        Ok(Stdio::new(process, streams, log.clone()))
    }
}

/// Returns the headers that a program prints as a JSON object.
async fn helper_headers(helper: &str, shared: &Shared) -> Result<BTreeMap<String, String>, Failure> {
    let prepared = shared.programs.prepare(ProgramKind::McpServer).map_err(|e| e.to_string())?;
    let args = ["-c".to_owned(), helper.to_owned()];
    let lease = shared.programs.protect_from_server(&prepared);
    let started = Process::start(Start {
        prepared: &prepared,
        lease,
        program: OsStr::new("/bin/sh"),
        args: &args,
        dir: &shared.cwd,
        variables: &shared.variables,
    });
    let (_process, streams) = started.map_err(|e| format!("its headersHelper does not start: {e}"))?;
    drop(streams.stdin);
    let mut text = String::new();
    let mut limited = tokio::io::AsyncReadExt::take(streams.stdout, 64 * 1024);
    let read = tokio::io::AsyncReadExt::read_to_string(&mut limited, &mut text);
    match tokio::time::timeout(HELPER, read).await {
        Err(_) => return Err(format!("its headersHelper took more than {} s", HELPER.as_secs()).into()),
        Ok(Err(error)) => return Err(format!("its headersHelper cannot be read: {error}").into()),
        Ok(Ok(_)) => {}
    }
    becket_types::parse_json(&text)
        .map_err(|e| Failure::Other(format!("its headersHelper did not print a JSON object of strings: {e}")))
}
