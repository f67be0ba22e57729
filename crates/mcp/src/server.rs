//! One server of a session: starts it, reads its lists, handles changes, and connects it again.
//!
//! A separate task per server does all of this; other code only reads the state. If the connection ends, the task tries to open it
//! again after 1, 2, 4 and 8 seconds, at most [`MOST_ATTEMPTS`] times in a row with the first attempt. After that it connects only
//! when a call or a person asks for the server.

use crate::config::{Endpoint, ServerConfig};
use crate::handler::{Handler, Notifications};
use crate::shared::Shared;
use crate::transport::stdio::last_line;
use becket_sandbox::ProcessLog;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{Peer, RoleClient, RunningService};
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

mod connect;
mod listing;

use listing::list;
pub(crate) use listing::{ListedTool, Listing};

/// Maximum time for a start, including the list of tools.
const START: Duration = Duration::from_secs(30);
/// Maximum time of a call without progress, if the configuration sets none.
const CALL: Duration = Duration::from_mins(2);
/// Time for which a call waits for a server that is being started.
const WAIT: Duration = Duration::from_mins(1);
/// Number of consecutive failed starts after which the server is started only when it is needed.
const MOST_ATTEMPTS: u32 = 5;
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A connection that lasted this long resets the count of attempts.
const STABLE: Duration = Duration::from_secs(30);
/// Minimum time between two reads of the lists, however often the server reports changes.
const BETWEEN_LISTS: Duration = Duration::from_secs(2);

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Switched off in the configuration.
    Disabled,
    /// Being started, for the first time or again.
    Pending,
    Connected {
        protocol: String,
    },
    NeedsAuth,
    Failed(String),
}

impl State {
    /// Returns the state's name in the interface for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Pending => "pending",
            Self::Connected { .. } => "connected",
            Self::NeedsAuth => "needs-auth",
            Self::Failed(_) => "failed",
        }
    }
}

/// The state of a server for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub name: String,
    pub state: State,
    /// The command or the address of the server, without secrets.
    pub shown: String,
    /// Names of its tools for the model.
    pub tools: Vec<String>,
    /// Number of resources that the server lists.
    pub resources: usize,
    /// Number of prompts that the server lists.
    pub prompts: usize,
    /// Messages about parts that were left out or repaired.
    pub notes: Vec<String>,
    /// The end of the server's standard error.
    pub stderr: String,
    /// The server's own instructions for the model.
    pub instructions: Option<String>,
    pub about: ServerSummary,
}

/// Facts about a server and its tools for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSummary {
    /// Name and version of the server's program, while it is connected.
    pub implementation: Option<(String, String)>,
    /// The server's configuration, without secrets.
    pub config: Value,
    /// The source of the server's configuration, as in [`ServerConfig::scope`].
    pub scope: Option<String>,
    pub tools: Vec<ToolAbout>,
}

/// A tool of a server with the server's own words about it. Nothing is decided from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAbout {
    /// The name for the model.
    pub name: String,
    pub description: String,
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub open_world: Option<bool>,
    /// The input schema as the server wrote it, unless it is too large.
    pub schema: Value,
}

/// An open connection.
#[derive(Clone)]
pub(crate) struct Live {
    pub peer: Peer<RoleClient>,
    pub handler: Handler,
}

struct Inner {
    /// False while the server is switched off. The state is then always [`State::Disabled`], whatever the task does.
    on: bool,
    state: State,
    live: Option<Live>,
    listing: Arc<Listing>,
}

enum Order {
    Reconnect,
    SwitchOff,
    Stop,
}

pub(crate) struct Server {
    pub config: ServerConfig,
    shared: Arc<Shared>,
    inner: Mutex<Inner>,
    /// Counts changes of the state.
    changed: watch::Sender<u64>,
    log: ProcessLog,
    orders: mpsc::UnboundedSender<Order>,
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Server {
    /// Makes a server and starts it, unless it is switched off.
    pub(crate) fn start(config: ServerConfig, shared: Arc<Shared>) -> Arc<Self> {
        let (orders, received) = mpsc::unbounded_channel();
        let state = if config.enabled { State::Pending } else { State::Disabled };
        let enabled = config.enabled;
        let server = Arc::new(Self {
            config,
            shared,
            inner: Mutex::new(Inner { on: enabled, state, live: None, listing: Arc::default() }),
            changed: watch::Sender::new(0),
            log: ProcessLog::default(),
            orders,
            task: Mutex::new(None),
        });
        let task = tokio::spawn(Arc::clone(&server).serve(received, enabled));
        *server.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        server
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut Inner)) {
        {
            let mut inner = self.inner();
            change(&mut inner);
            if !inner.on {
                *inner = Inner { on: false, state: State::Disabled, live: None, listing: Arc::default() };
            }
        }
        self.changed.send_modify(|count| *count += 1);
        self.shared.changed();
    }

    pub(crate) fn state(&self) -> State {
        self.inner().state.clone()
    }

    pub(crate) fn listing(&self) -> Arc<Listing> {
        Arc::clone(&self.inner().listing)
    }

    fn start_timeout(&self) -> Duration {
        self.config.start_timeout.unwrap_or(START)
    }

    /// Returns name and version of the connected server's program.
    pub(crate) fn implementation(&self) -> Option<(String, String)> {
        let live = self.inner().live.clone()?;
        let info = live.peer.peer_info()?;
        let program = info.server_info.as_ref()?;
        Some((program.name.clone(), program.version.clone()))
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.config.timeout.unwrap_or(CALL)
    }

    /// Describes changes of protected files by MCP servers that were undone since the last call.
    pub(crate) fn undone(&self) -> Vec<String> {
        self.shared.programs.undone_of_servers()
    }

    pub(crate) fn stderr(&self) -> String {
        self.log.text()
    }

    pub(crate) fn last_words(&self) -> Option<String> {
        last_line(&self.log)
    }

    /// Stores the server's `WWW-Authenticate` header, which says what the next login must ask for.
    pub(crate) fn note_challenge(&self, challenge: Option<&str>) {
        if let (Some(challenge), Some(tokens), Endpoint::Http { url, .. }) =
            (challenge, &self.shared.tokens, &self.config.endpoint)
            && let Ok(url) = url::Url::parse(url)
        {
            tokens.keep_challenge(&self.config.name, &url, challenge);
        }
    }

    /// Opens the connection again. A server that is switched off is switched on.
    pub(crate) fn reconnect(&self) {
        self.set(|inner| {
            if !inner.on {
                (inner.on, inner.state) = (true, State::Pending);
            }
            // Sent while the lock is held, so that the orders have the same sequence as the changes of the state.
            let _ = self.orders.send(Order::Reconnect);
        });
    }

    /// Starts a server whose last start has failed or that needs an authorization.
    pub(crate) fn retry(&self) {
        if !matches!(self.state(), State::Failed(_) | State::NeedsAuth) {
            return;
        }
        self.set(|inner| {
            if inner.on {
                inner.state = State::Pending;
                let _ = self.orders.send(Order::Reconnect);
            }
        });
    }

    /// Ends the connection. The server's lists are empty from now on, and no call connects it.
    pub(crate) fn switch_off(&self) {
        self.set(|inner| {
            inner.on = false;
            let _ = self.orders.send(Order::SwitchOff);
        });
    }

    /// Starts a server that is switched off.
    pub(crate) fn switch_on(&self) {
        if self.state() == State::Disabled {
            self.reconnect();
        }
    }

    /// Ends the connection and its task, within a second.
    pub(crate) async fn stop(&self) {
        let _ = self.orders.send(Order::Stop);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut task) = task
            && tokio::time::timeout(Duration::from_secs(1), &mut task).await.is_err()
        {
            task.abort();
        }
    }

    /// Returns once the server is not being started any more.
    pub(crate) async fn wait_until_started(&self) {
        let mut changes = self.changed.subscribe();
        while self.state() == State::Pending {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the open connection. Waits while it is being opened. `Err` is the end of a sentence about the server.
    pub(crate) async fn ready(&self) -> Result<Live, String> {
        // The call needs the server now, so a failed start is repeated.
        self.retry();
        if tokio::time::timeout(WAIT, self.wait_until_started()).await.is_err() {
            return Err(format!("has not answered for {} s while it was being started", WAIT.as_secs()));
        }
        let inner = self.inner();
        match (&inner.state, &inner.live) {
            (State::Connected { .. }, Some(live)) => Ok(live.clone()),
            (State::Disabled, _) => Err("is switched off".to_owned()),
            (State::NeedsAuth, _) => Err(format!(
                "needs an authorization; the user can log in with: becket mcp login {}",
                self.config.name
            )),
            (State::Failed(why), _) => Err(format!("cannot be reached: {why}")),
            _ => Err("is not connected".to_owned()),
        }
    }

    /// Runs the server's task until it is stopped.
    async fn serve(self: Arc<Self>, mut orders: mpsc::UnboundedReceiver<Order>, enabled: bool) {
        let (mut attempts, mut wait) = (0, !enabled);
        loop {
            if wait {
                match orders.recv().await {
                    Some(Order::Reconnect) => attempts = 0,
                    Some(Order::SwitchOff) => continue,
                    Some(Order::Stop) | None => return,
                }
            }
            self.set(|inner| inner.state = State::Pending);
            let marks = Arc::new(Notifications::default());
            let opened = tokio::select! {
                opened = tokio::time::timeout(self.start_timeout(), self.open(&marks)) => opened,
                end = wait_for_stop_order(&mut orders) => match end {
                    ConnectionEnd::SwitchedOff => {
                        wait = true;
                        continue;
                    }
                    _ => return,
                },
            };
            let why = match opened {
                Ok(Ok(service)) => {
                    let since = Instant::now();
                    let end = self.serve_connection(service, &marks, &mut orders).await;
                    if since.elapsed() > STABLE {
                        attempts = 0;
                    }
                    match end {
                        ConnectionEnd::Stopped => return,
                        ConnectionEnd::SwitchedOff => {
                            // If the server was switched on again in the meantime, the next order connects it.
                            self.set(|inner| (inner.state, inner.live) = (State::Pending, None));
                            wait = true;
                            continue;
                        }
                        ConnectionEnd::Reconnect => {
                            (attempts, wait) = (0, false);
                            continue;
                        }
                        ConnectionEnd::Closed => self.with_words("its connection ended"),
                    }
                }
                Ok(Err(connect::Failure::NeedsAuth(challenge))) => {
                    self.note_challenge(challenge.as_deref());
                    self.set(|inner| (inner.state, inner.live) = (State::NeedsAuth, None));
                    wait = true;
                    continue;
                }
                Ok(Err(connect::Failure::Other(why))) => self.with_words(&why),
                Err(_) => self.with_words(&format!(
                    "it was not ready after {} s (a longer limit is set with \"startTimeout\" of the server)",
                    self.start_timeout().as_secs_f64()
                )),
            };
            attempts += 1;
            let again = attempts < MOST_ATTEMPTS && self.worth_another_try();
            let state = if again && self.was_connected() { State::Pending } else { State::Failed(why) };
            self.set(|inner| (inner.state, inner.live) = (state, None));
            wait = !again;
            if again {
                let pause = Duration::from_secs(1 << (attempts - 1).min(6)).min(LONGEST_PAUSE);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    order = orders.recv() => match order {
                        Some(Order::Reconnect) => attempts = 0,
                        Some(Order::SwitchOff) => wait = true,
                        Some(Order::Stop) | None => return,
                    },
                }
            }
        }
    }

    /// False for a program that has never been connected: a new attempt would fail as well.
    fn worth_another_try(&self) -> bool {
        self.was_connected() || matches!(self.config.endpoint, Endpoint::Http { .. })
    }

    fn was_connected(&self) -> bool {
        !self.inner().listing.tools.is_empty() || !self.inner().listing.resources.is_empty()
    }

    fn with_words(&self, why: &str) -> String {
        match last_line(&self.log) {
            Some(line) => format!("{why} (it said: {line})"),
            None => why.to_owned(),
        }
    }

    /// Opens a connection and reads the lists.
    async fn open(
        &self,
        marks: &Arc<Notifications>,
    ) -> Result<RunningService<RoleClient, Handler>, connect::Failure> {
        let handler = Handler {
            server: self.config.name.clone(),
            version: self.shared.version.clone(),
            marks: Arc::clone(marks),
            elicitation: self.shared.elicitation.clone(),
            roots: self.shared.roots.clone(),
        };
        let service = connect::connect(&self.config, &self.shared, &self.log, handler.clone()).await?;
        let peer = service.peer().clone();
        let listing = list(&self.config.name, &peer).await.map_err(|e| connect::service_failure(&e))?;
        let protocol = peer.peer_info().map(|info| info.protocol_version.to_string()).unwrap_or_default();
        self.set(|inner| {
            inner.state = State::Connected { protocol };
            inner.live = Some(Live { peer, handler });
            inner.listing = Arc::new(listing);
        });
        Ok(service)
    }

    /// Serves an open connection until it ends: lists that changed are read again.
    async fn serve_connection(
        &self,
        service: RunningService<RoleClient, Handler>,
        marks: &Notifications,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> ConnectionEnd {
        let peer = service.peer().clone();
        let stop = service.cancellation_token();
        let mut closed = std::pin::pin!(service.waiting());
        let mut told = std::pin::pin!(subscribe(peer.clone(), marks));
        let end = loop {
            tokio::select! {
                _ = &mut closed => return ConnectionEnd::Closed,
                order = orders.recv() => break match order {
                    Some(Order::Reconnect) => ConnectionEnd::Reconnect,
                    Some(Order::SwitchOff) => ConnectionEnd::SwitchedOff,
                    Some(Order::Stop) | None => ConnectionEnd::Stopped,
                },
                () = &mut told => {}
                () = marks.lists.notified() => {
                    if let Ok(listing) = list(&self.config.name, &peer).await {
                        self.update_listing(listing, marks.notified.swap(0, Ordering::Relaxed));
                    }
                    // Notifications that arrive during this pause cause one more read together.
                    tokio::select! {
                        _ = &mut closed => return ConnectionEnd::Closed,
                        () = tokio::time::sleep(BETWEEN_LISTS) => {}
                    }
                }
            }
        };
        stop.cancel();
        let _ = tokio::time::timeout(Duration::from_millis(700), closed).await;
        end
    }

    fn update_listing(&self, mut listing: Listing, notified: u64) {
        if notified > 20 {
            listing.notes.push(format!(
                "it reported {notified} changes of its lists at once; becket read the lists once"
            ));
        }
        if *self.listing() != listing {
            self.set(|inner| inner.listing = Arc::new(listing));
        }
    }
}

enum ConnectionEnd {
    Closed,
    Stopped,
    SwitchedOff,
    Reconnect,
}

/// Waits for an order that interrupts a start.
async fn wait_for_stop_order(orders: &mut mpsc::UnboundedReceiver<Order>) -> ConnectionEnd {
    loop {
        match orders.recv().await {
            // The server is already being started.
            Some(Order::Reconnect) => {}
            Some(Order::SwitchOff) => return ConnectionEnd::SwitchedOff,
            Some(Order::Stop) | None => return ConnectionEnd::Stopped,
        }
    }
}

/// Subscribes to changes, which servers of 2026-07-28 report only to subscribers. Never returns while changes may be
/// reported.
async fn subscribe(peer: Peer<RoleClient>, marks: &Notifications) {
    let is_new = peer.peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::NO_INITIALIZE);
    if is_new {
        let mut filter = SubscriptionFilter::builder();
        if let Some(info) = peer.peer_info() {
            let capabilities = &info.capabilities;
            if capabilities.tools.as_ref().is_some_and(|c| c.list_changed == Some(true)) {
                filter = filter.tools_list_changed();
            }
            if capabilities.resources.as_ref().is_some_and(|c| c.list_changed == Some(true)) {
                filter = filter.resources_list_changed();
            }
            if capabilities.prompts.as_ref().is_some_and(|c| c.list_changed == Some(true)) {
                filter = filter.prompts_list_changed();
            }
        }
        let filter = filter.build();
        if filter != SubscriptionFilter::new()
            && let Ok(mut subscription) = peer.listen(filter).await
        {
            while let Ok(Some(_)) = subscription.next().await {
                marks.notified.fetch_add(1, Ordering::Relaxed);
                marks.lists.notify_one();
            }
        }
    }
    std::future::pending::<()>().await;
}
