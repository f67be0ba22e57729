//! One call of a tool: sent, timed, cancelled, and continued while the server asks for input.
//!
//! A call may take `timeout` without progress. Each progress notification restarts that time; the agent's own limit
//! applies to the whole call. A call that is given up is cancelled at the server.

use crate::handler::{Handler, Progress};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorData, InputRequest,
    InputRequiredResult, InputResponses, JsonObject, ProgressToken, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use serde_json::Value;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of times that a server may ask for input in one call.
const MOST_ROUNDS: usize = 10;

/// The reason why a call has no result.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The server answered with an error.
    Refused(ErrorData),
    /// The connection broke. The server may have carried out the call nevertheless.
    Closed(String),
    TimedOut(Duration),
    Cancelled,
    /// The server requires another authorization. The text is the server's `WWW-Authenticate` header, if it sent one.
    NeedsAuth(Option<String>),
    Unexpected(String),
}

/// All that a call needs besides its request.
pub(crate) struct CallContext<'a> {
    pub peer: &'a Peer<RoleClient>,
    pub handler: &'a Handler,
    pub timeout: Duration,
    pub cancel: &'a CancellationToken,
    pub progress: &'a (dyn Fn(&str) + Send + Sync),
}

pub(crate) async fn call(
    context: &CallContext<'_>,
    tool: &str,
    arguments: JsonObject,
) -> Result<CallToolResult, CallError> {
    let mut params = CallToolRequestParams::new(tool.to_owned());
    params.arguments = Some(arguments);
    for _ in 0..MOST_ROUNDS {
        let request = CallToolRequest::new(params.clone());
        match send(context, ClientRequest::CallToolRequest(request)).await? {
            ServerResult::CallToolResult(result) => return Ok(result),
            ServerResult::InputRequiredResult(result) => {
                params.request_state.clone_from(&result.request_state);
                params.input_responses = inputs(context.handler, result).await?;
            }
            // Some servers send a tool result with missing fields, which `rmcp` takes for another kind of result.
            other => return lenient(other),
        }
    }
    Err(CallError::Unexpected(format!("the server asked for input {MOST_ROUNDS} times in one call")))
}

fn lenient(result: ServerResult) -> Result<CallToolResult, CallError> {
    let value = serde_json::to_value(result).unwrap_or(Value::Null);
    serde_json::from_value(value)
        .map_err(|_| CallError::Unexpected("the server sent something that is not a tool result".to_owned()))
}

/// Answers all questions that the server asks before it gives a result.
pub(crate) async fn inputs(
    handler: &Handler,
    result: InputRequiredResult,
) -> Result<Option<InputResponses>, CallError> {
    let mut responses = InputResponses::new();
    for (key, request) in result.input_requests.unwrap_or_default() {
        let answer = match request {
            InputRequest::Elicitation(request) => serde_json::to_value(handler.elicit(request.params).await),
            InputRequest::ListRoots(_) => serde_json::to_value(handler.listed_roots()),
            _ => {
                return Err(CallError::Unexpected(
                    "the server asks for sampling, which becket does not offer".to_owned(),
                ));
            }
        };
        responses.insert(key, answer.unwrap_or(Value::Null));
    }
    Ok((!responses.is_empty()).then_some(responses))
}

/// Registers a call for progress notifications. Dropping it ends the registration.
struct ProgressRegistration<'a> {
    handler: &'a Handler,
    token: ProgressToken,
}

impl Drop for ProgressRegistration<'_> {
    fn drop(&mut self) {
        let mut calls = self.handler.marks.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.remove(&self.token);
    }
}

/// Sends one request and waits for its answer within the limits.
pub(crate) async fn send(
    context: &CallContext<'_>,
    request: ClientRequest,
) -> Result<ServerResult, CallError> {
    let options = PeerRequestOptions::no_options();
    let sent = context.peer.send_cancellable_request(request, options).await;
    let mut handle = sent.map_err(|e| failure(&e))?;
    let (sender, mut progress) = mpsc::channel(8);
    let token = handle.progress_token.clone();
    context.handler.marks.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), sender);
    let _heard = ProgressRegistration { handler: context.handler, token };
    let mut deadline = Instant::now() + context.timeout;
    loop {
        tokio::select! {
            biased;
            answer = &mut handle.rx => return match answer {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(error)) => Err(failure(&error)),
                Err(_) => Err(CallError::Closed("the connection to the server ended".to_owned())),
            },
            () = context.cancel.cancelled() => {
                cancel(handle, "the user interrupted the call").await;
                return Err(CallError::Cancelled);
            }
            Some(step) = progress.recv() => {
                deadline = Instant::now() + context.timeout;
                (context.progress)(&progress_text(&step));
            }
            () = tokio::time::sleep_until(deadline) => {
                // While a question waits for a person, the time limit starts again.
                if context.handler.marks.questions.load(Ordering::Relaxed) > 0 {
                    deadline = Instant::now() + context.timeout;
                    continue;
                }
                cancel(handle, "the time limit of the call is over").await;
                return Err(CallError::TimedOut(context.timeout));
            }
        }
    }
}

/// Cancels a call at the server. Waits for a second at most, because the server may block the connection.
async fn cancel(handle: RequestHandle<RoleClient>, why: &str) {
    let _ = tokio::time::timeout(Duration::from_secs(1), handle.cancel(Some(why.to_owned()))).await;
}

fn progress_text(progress: &Progress) -> String {
    let mut out = match progress.total {
        Some(total) if total > 0.0 => format!("{:.0}%", (progress.done / total * 100.0).clamp(0.0, 100.0)),
        _ => format!("{}", progress.done),
    };
    if let Some(message) = &progress.message {
        let message = becket_tool::text::clean(message);
        out.push(' ');
        out.push_str(becket_types::cut_end(message.trim(), 200));
    }
    out.push('\n');
    out
}

/// Returns [`CallError::NeedsAuth`] if the error was caused by a missing authorization.
fn needs_authorization(error: &(dyn std::error::Error + 'static)) -> Option<CallError> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(required) = error.downcast_ref::<AuthRequiredError>() {
            return Some(CallError::NeedsAuth(Some(required.www_authenticate_header.clone())));
        }
        if let Some(scope) = error.downcast_ref::<InsufficientScopeError>() {
            return Some(CallError::NeedsAuth(Some(scope.www_authenticate_header.clone())));
        }
        if matches!(error.downcast_ref::<AuthError>(), Some(AuthError::AuthorizationRequired)) {
            return Some(CallError::NeedsAuth(None));
        }
        current = error.source();
    }
    None
}

pub(crate) fn failure(error: &ServiceError) -> CallError {
    match error {
        ServiceError::McpError(data) => CallError::Refused(data.clone()),
        ServiceError::TransportClosed => CallError::Closed("the connection to the server ended".to_owned()),
        ServiceError::TransportSend(why) => needs_authorization(why.error.as_ref()).unwrap_or_else(|| {
            CallError::Closed(crate::transport::http::transport_failure(why.error.as_ref()))
        }),
        ServiceError::Cancelled { .. } => CallError::Cancelled,
        ServiceError::Timeout { timeout } => CallError::TimedOut(*timeout),
        other => CallError::Unexpected(other.to_string()),
    }
}
