//! A server that the host implements by functions: messages are passed in both directions as JSON values.
//!
//! For servers in the process of a program that drives becket. Each message returns the server's answer, or nothing for a
//! notification. When a call is cancelled, the wait for its answer is dropped, which the host notices, and the server gets a
//! notification. A late answer has no effect.

use super::message;
use crate::elicitation::Ask;
use futures::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// The host's side of a server.
pub trait Channel: Send + Sync {
    /// Passes one JSON-RPC message to the server and returns its answer: the response to a request, `None` for a notification. The
    /// future is dropped when the answer is no longer needed.
    ///
    /// # Errors
    ///
    /// Returns a message for people if the message did not reach the server.
    fn send(&self, message: Value) -> BoxFuture<'static, Result<Option<Value>, String>>;
}

/// A function that returns the channel to the server with this name.
type ToServer = dyn Fn(&str) -> Arc<dyn Channel> + Send + Sync;

/// The program that drives becket, for MCP servers: it has servers in its own process, and it can be asked questions.
#[derive(Clone)]
pub struct HostServers {
    /// Servers that the program named itself, in addition to those of a configuration.
    pub names: Vec<String>,
    channel: Arc<ToServer>,
    /// Passes questions of servers to the program.
    pub ask: Arc<dyn Ask>,
}

impl HostServers {
    /// `channel` returns the channel to the server with this name.
    pub fn new(
        channel: impl Fn(&str) -> Arc<dyn Channel> + Send + Sync + 'static,
        ask: Arc<dyn Ask>,
    ) -> Self {
        Self { names: Vec::new(), channel: Arc::new(channel), ask }
    }

    /// Returns the channel to a server, even if the program has no such server.
    pub fn channel(&self, name: &str) -> Arc<dyn Channel> {
        (self.channel)(name)
    }
}

impl std::fmt::Debug for HostServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostServers").field("names", &self.names).finish_non_exhaustive()
    }
}

pub(crate) struct HostTransport {
    channel: Arc<dyn Channel>,
    answers: mpsc::UnboundedSender<Value>,
    incoming: mpsc::UnboundedReceiver<Value>,
    /// The tasks that wait for answers, by the ids of the requests as JSON.
    waits: Waits,
}

type Waits = Arc<Mutex<HashMap<String, AbortHandle>>>;

impl HostTransport {
    pub(crate) fn new(channel: Arc<dyn Channel>) -> Self {
        let (answers, incoming) = mpsc::unbounded_channel();
        Self { channel, answers, incoming, waits: Waits::default() }
    }
}

impl Transport<RoleClient> for HostTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (channel, answers) = (Arc::clone(&self.channel), self.answers.clone());
        let waits = Arc::clone(&self.waits);
        async move {
            let message = serde_json::to_value(&item).map_err(io::Error::other)?;
            let id = message.get("id").filter(|_| message.get("method").is_some()).cloned();
            if message["method"] == "notifications/cancelled" {
                let key = message["params"]["requestId"].to_string();
                if let Some(wait) = lock(&waits).remove(&key) {
                    wait.abort();
                }
            }
            let key = id.as_ref().map(Value::to_string);
            let (known, done) = (Arc::clone(&waits), key.clone());
            // The task must be registered before it ends and removes itself, so the lock is held until then.
            let mut entries = lock(&known);
            // The answer may take as long as the call, so the sender does not wait for it.
            let wait = tokio::spawn(async move {
                let answer = match (channel.send(message).await, id) {
                    (Ok(answer), _) => answer,
                    (Err(why), Some(id)) => {
                        Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": why}}))
                    }
                    (Err(_), None) => None,
                };
                if let Some(key) = done {
                    lock(&waits).remove(&key);
                }
                if let Some(answer) = answer {
                    let _ = answers.send(answer);
                }
            });
            if let Some(key) = key {
                entries.insert(key, wait.abort_handle());
            }
            drop(entries);
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = message::from_value(self.incoming.recv().await?) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.incoming.close();
        Ok(())
    }
}

fn lock(waits: &Waits) -> std::sync::MutexGuard<'_, HashMap<String, AbortHandle>> {
    waits.lock().unwrap_or_else(PoisonError::into_inner)
}
