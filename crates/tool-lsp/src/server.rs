//! One language server: its process, its open files and its reports.
//!
//! The protocol runs in its own task; [`Server`] is the handle for the session. Messages change [`State`] and
//! wake all waiters. Requests and results are JSON values that are read leniently, so one nonsensical answer
//! does not cost the whole server.
//!
//! Invariants: a server never changes a file (`workspace/applyEdit` is refused); every wait has a deadline;
//! dropping a server ends its process group.

use crate::frames;
use crate::position::Encoding;
use crate::problems::{KEPT, Problem};
use crate::program::Environment;
use crate::servers::{Spec, language_id};
use async_lsp::router::Router;
use async_lsp::{AnyNotification, AnyRequest, ErrorCode, MainLoop, ResponseError, ServerSocket, lsp_types};
use becket_sandbox::{Prepared, Process, ProcessLog, Start, Streams};
use becket_types::{cut_end, cut_start};
use lsp_types::notification::Notification;
use lsp_types::request::Request;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::io::BufReader;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use url::Url;

/// A server that was not used for this long is stopped. The next use starts it again.
const IDLE: Duration = Duration::from_mins(10);
/// Time limit for the answer to `initialize`.
const START: Duration = Duration::from_mins(1);

/// Time limit for an answer to a request for diagnostics. Edits wait less.
const PULL: Duration = Duration::from_secs(30);
/// Maximum number of files whose diagnostics are kept.
const MAX_FILES: usize = 5_000;

macro_rules! methods {
    ($($kind:ident $name:ident = $method:literal;)*) => { $( methods!(@ $kind $name $method); )* };
    (@ request $name:ident $method:literal) => {
        pub(crate) enum $name {}
        impl Request for $name {
            type Params = Value;
            type Result = Value;
            const METHOD: &'static str = $method;
        }
    };
    (@ notify $name:ident $method:literal) => {
        pub(crate) enum $name {}
        impl Notification for $name {
            type Params = Value;
            const METHOD: &'static str = $method;
        }
    };
}

methods! {
    request Initialize = "initialize";
    request Shutdown = "shutdown";
    request Diagnostic = "textDocument/diagnostic";
    request Definition = "textDocument/definition";
    request References = "textDocument/references";
    request Hover = "textDocument/hover";
    request DocumentSymbol = "textDocument/documentSymbol";
    request WorkspaceSymbol = "workspace/symbol";
    request Rename = "textDocument/rename";
    notify Initialized = "initialized";
    notify Exit = "exit";
    notify DidOpen = "textDocument/didOpen";
    notify DidChange = "textDocument/didChange";
    notify DidSave = "textDocument/didSave";
    notify DidClose = "textDocument/didClose";
    notify WatchedFiles = "workspace/didChangeWatchedFiles";
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Phase {
    #[default]
    Starting,
    Ready,
    Ended(EndCause),
}

/// Why a server has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EndCause {
    /// becket stopped the server because it was not used. This is no fault.
    Idle,
    /// The server failed, with the reason in a few words.
    Fault(String),
}

/// The server's most recent report on one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileReport {
    pub version: Option<i64>,
    /// Value of [`State::count`] for the message that contained the report.
    pub count: u64,
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub version: i64,
    pub text: String,
}

#[derive(Default)]
pub(crate) struct State {
    pub phase: Phase,
    pub capabilities: Value,
    pub encoding: Encoding,
    pub open: BTreeMap<PathBuf, Open>,
    /// Reports that the server published on its own.
    pub pushed: BTreeMap<PathBuf, FileReport>,
    /// Reports that answered a request, with the version of the text at the request.
    pub pulled: BTreeMap<PathBuf, FileReport>,
    /// Number of messages about diagnostics from this server so far.
    pub count: u64,
    progress: HashSet<String>,
    used: Option<Instant>,
    log: ProcessLog,
    stderr_ended: bool,
}

impl State {
    /// Returns why the server has ended, with the last error that it printed.
    pub(crate) fn why(&self) -> Option<String> {
        let Phase::Ended(cause) = &self.phase else { return None };
        let why = match cause {
            EndCause::Idle => "it was not used",
            EndCause::Fault(why) => why,
        };
        let log = self.log.text();
        // Only the end of the output is searched, because an older error need not be the reason.
        let mut lines = cut_start(&log, 2_000).lines().map(str::trim).filter(|l| !l.is_empty());
        let error = lines.clone().find(|l| l.to_lowercase().contains("error"));
        let said = error.or_else(|| lines.next_back()).unwrap_or_default();
        let said = if said.is_empty() { String::new() } else { format!(" ({})", cut_end(said, 160)) };
        Some(format!("{why}{said}"))
    }
}

struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    options: Value,
    root: Url,
    /// Id of a process that the server may watch, in order to exit when that process ends; `None` if it must watch none.
    watched: Option<u32>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.send_modify(|n| *n += 1);
    }
}

pub(crate) struct Server {
    pub name: String,
    shared: Arc<Shared>,
    socket: ServerSocket,
    process: Mutex<Option<Process>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Server {
    /// Starts the process and sends `initialize`. Returns without waiting for the answer.
    pub(crate) fn start(
        spec: &Spec,
        program: &Path,
        prepared: &Prepared,
        root: &Path,
        vars: &Environment,
    ) -> Result<Arc<Self>, String> {
        let root_url = Url::from_directory_path(root).map_err(|()| "its folder has no address".to_owned())?;
        let args = spec.command.get(1..).unwrap_or_default();
        let start =
            Start { prepared, lease: None, program: program.as_os_str(), args, dir: root, variables: vars };
        let (process, streams) = Process::start(start).map_err(|e| e.to_string())?;
        let Streams { stdin, stdout, stderr } = streams;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: watch::Sender::new(0),
            options: spec.options.clone().unwrap_or(Value::Null),
            root: root_url,
            // Servers watch becket's process and exit when it has ended. A confined server cannot see processes outside of its
            // sandbox, so it would exit at once.
            watched: (!prepared.is_confined()).then(std::process::id),
        });
        let (main_loop, socket) = MainLoop::new_client(|_| router(&shared));
        let (near, far) = tokio::io::duplex(64 * 1024);
        let state = Arc::clone(&shared);
        let copying = tokio::spawn(async move {
            let why = frames::copy(BufReader::new(stdout), near).await;
            state.update(|s| fail(s, why));
        });
        let state = Arc::clone(&shared);
        let running = tokio::spawn(async move {
            match main_loop.run_buffered(far.compat(), stdin.compat_write()).await {
                Err(async_lsp::Error::Deserialize(_) | async_lsp::Error::Protocol(_)) => {
                    state.update(|s| fail(s, "what it says is not the Language Server Protocol"));
                }
                _ => state.update(|s| fail(s, "it ended")),
            }
        });
        let state = Arc::clone(&shared);
        let complaining = tokio::spawn(async move {
            let log = state.lock().log.clone();
            log.follow(stderr).await;
            state.update(|s| s.stderr_ended = true);
        });
        let server = Arc::new_cyclic(|weak: &Weak<Self>| {
            let starting = tokio::spawn(initialize(socket.clone(), Arc::clone(&shared)));
            let idling = tokio::spawn(end_when_idle(weak.clone()));
            let tasks = vec![copying, running, complaining, starting, idling];
            Self { name: spec.name.clone(), shared, socket, process: Mutex::new(Some(process)), tasks }
        });
        server.lock().used = Some(Instant::now());
        Ok(server)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    pub(crate) fn touch(&self) {
        self.lock().used = Some(Instant::now());
    }

    /// Waits until `test` returns a value for the state, or until the deadline.
    pub(crate) async fn until<T>(
        &self,
        deadline: Instant,
        mut test: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut changed = self.shared.changed.subscribe();
        loop {
            if let Some(found) = test(&mut self.lock()) {
                return Some(found);
            }
            if !matches!(timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
                return None;
            }
        }
    }

    /// Waits until the server is ready. `Ok(false)` means: not before the deadline.
    ///
    /// # Errors
    ///
    /// Returns the reason if the server has ended.
    pub(crate) async fn ready(&self, deadline: Instant) -> Result<bool, String> {
        match self.until(deadline, |s| (s.phase != Phase::Starting).then(|| s.why())).await {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(why)) => {
                // The last output of the server, which may say why it ended, may not have been read yet.
                let soon = (Instant::now() + Duration::from_millis(100)).min(deadline);
                self.until(soon, |s| s.stderr_ended.then_some(())).await;
                Err(self.lock().why().unwrap_or(why))
            }
        }
    }

    /// Waits until the server reports no work in progress (loading, indexing).
    pub(crate) async fn settled(&self, deadline: Instant) {
        self.until(deadline, |s| s.progress.is_empty().then_some(())).await;
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.lock().progress.is_empty()
    }

    pub(crate) fn can(&self, capability: &str) -> bool {
        !matches!(self.lock().capabilities.get(capability), None | Some(Value::Null | Value::Bool(false)))
    }

    /// Sends a request and returns the answer.
    ///
    /// # Errors
    ///
    /// Returns the reason in one line: no answer before the deadline, an error of the server, or its end.
    pub(crate) async fn ask<R: Request<Params = Value, Result = Value>>(
        &self,
        params: Value,
        deadline: Instant,
    ) -> Result<Value, String> {
        match timeout_at(deadline, self.socket.request::<R>(params)).await {
            Err(_) => Err("it did not answer in time".to_owned()),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(async_lsp::Error::ServiceStopped)) => {
                Err(self.lock().why().unwrap_or_else(|| "it ended".to_owned()))
            }
            Ok(Err(error)) => {
                Err(cut_end(error.to_string().lines().next().unwrap_or_default(), 200).to_owned())
            }
        }
    }

    /// Requests the diagnostics of an open file. The answer is stored in [`State::pulled`] when it arrives.
    pub(crate) fn pull(self: &Arc<Self>, path: &Path) {
        let Ok(uri) = Url::from_file_path(path) else { return };
        let Some(version) = self.lock().open.get(path).map(|open| open.version) else { return };
        let (server, path) = (Arc::clone(self), path.to_owned());
        tokio::spawn(async move {
            let params = json!({"textDocument": {"uri": uri}});
            let Ok(answer) = server.ask::<Diagnostic>(params, Instant::now() + PULL).await else { return };
            let Some(items) = answer.get("items").and_then(Value::as_array) else { return };
            let problems = items.iter().filter_map(Problem::read).take(KEPT).collect();
            server.shared.update(|s| {
                s.count += 1;
                let newer = |said: &FileReport| said.version.is_some_and(|known| known > version);
                if !s.pulled.get(&path).is_some_and(newer) {
                    s.pulled.insert(path, FileReport { version: Some(version), count: s.count, problems });
                }
            });
        });
    }

    fn notify<N: Notification<Params = Value>>(&self, params: Value) {
        // If the connection is closed, [`State::phase`] says so. The error is therefore ignored here.
        let _ = self.socket.notify::<N>(params);
    }

    /// Tells the server that `text` is now the content of `path`.
    pub(crate) fn send_text(&self, path: &Path, text: &str) {
        let Ok(uri) = Url::from_file_path(path) else { return };
        let mut state = self.lock();
        match state.open.get_mut(path) {
            Some(open) if open.text == text => {}
            Some(open) => {
                open.version += 1;
                text.clone_into(&mut open.text);
                self.notify::<DidChange>(json!({
                    "textDocument": {"uri": uri, "version": open.version}, "contentChanges": [{"text": text}]
                }));
            }
            None => {
                let open = Open { version: 1, text: text.to_owned() };
                state.open.insert(path.to_owned(), open);
                let document =
                    json!({"uri": uri, "languageId": language_id(path), "version": 1, "text": text});
                self.notify::<DidOpen>(json!({"textDocument": document}));
            }
        }
    }

    pub(crate) fn saved(&self, path: &Path) {
        let Ok(uri) = Url::from_file_path(path) else { return };
        let text = self.lock().open.get(path).map(|open| open.text.clone());
        self.notify::<DidSave>(json!({"textDocument": {"uri": uri}, "text": text}));
    }

    /// Tells the server that a file was created (1), changed (2) or deleted (3).
    pub(crate) fn watched(&self, path: &Path, kind: u8) {
        let Ok(uri) = Url::from_file_path(path) else { return };
        if kind == 3 && self.lock().open.remove(path).is_some() {
            self.notify::<DidClose>(json!({"textDocument": {"uri": uri}}));
        }
        self.notify::<WatchedFiles>(json!({"changes": [{"uri": uri, "type": kind}]}));
    }

    /// Asks the server to exit, then kills it.
    async fn end(&self) {
        let _ = timeout(Duration::from_secs(1), self.socket.request::<Shutdown>(Value::Null)).await;
        self.notify::<Exit>(Value::Null);
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut process) = process {
            let _ = timeout(Duration::from_millis(500), process.wait()).await;
        }
        self.shared.update(|s| end(s, EndCause::Idle));
    }
}

/// Records that the server has failed. If it has already ended, the first cause is kept.
fn fail(state: &mut State, why: &str) {
    end(state, EndCause::Fault(cut_end(why, 160).to_owned()));
}

fn end(state: &mut State, cause: EndCause) {
    if !matches!(state.phase, Phase::Ended(_)) {
        state.phase = Phase::Ended(cause);
    }
}

async fn end_when_idle(server: Weak<Server>) {
    let mut wake = Instant::now() + IDLE;
    loop {
        tokio::time::sleep_until(wake).await;
        let Some(server) = server.upgrade() else { return };
        let used = server.lock().used.unwrap_or_else(Instant::now);
        if used.elapsed() >= IDLE {
            return server.end().await;
        }
        wake = used + IDLE;
    }
}

async fn initialize(socket: ServerSocket, shared: Arc<Shared>) {
    let name = shared.root.path_segments().and_then(|mut s| s.rfind(|p| !p.is_empty())).unwrap_or("root");
    let params = json!({
        "processId": shared.watched,
        "clientInfo": {"name": "becket", "version": env!("CARGO_PKG_VERSION")},
        "rootUri": shared.root,
        "rootPath": shared.root.to_file_path().ok(),
        "workspaceFolders": [{"uri": shared.root, "name": name}],
        "initializationOptions": shared.options,
        "capabilities": {
            "general": {"positionEncodings": ["utf-8", "utf-16"]},
            "window": {"workDoneProgress": true},
            "workspace": {"configuration": true, "workspaceFolders": true, "didChangeWatchedFiles": {"dynamicRegistration": false},
                "workspaceEdit": {"documentChanges": true}, "symbol": {}},
            "textDocument": {
                "synchronization": {"didSave": true},
                "publishDiagnostics": {"versionSupport": true},
                "diagnostic": {"dynamicRegistration": false, "relatedDocumentSupport": false},
                "definition": {"linkSupport": true}, "references": {}, "rename": {"prepareSupport": false},
                "hover": {"contentFormat": ["markdown", "plaintext"]},
                "documentSymbol": {"hierarchicalDocumentSymbolSupport": true}
            }
        }
    });
    let answer = timeout(START, socket.request::<Initialize>(params)).await;
    match answer {
        Ok(Ok(result)) => {
            let _ = socket.notify::<Initialized>(json!({}));
            shared.update(|s| {
                s.capabilities = result.get("capabilities").cloned().unwrap_or_default();
                let agreed = s.capabilities.get("positionEncoding").and_then(Value::as_str);
                s.encoding = agreed.and_then(Encoding::parse).unwrap_or_default();
                if s.phase == Phase::Starting {
                    s.phase = Phase::Ready;
                }
            });
        }
        Ok(Err(async_lsp::Error::ServiceStopped)) => shared.update(|s| fail(s, "it ended")),
        Ok(Err(error)) => shared.update(|s| fail(s, &error.to_string())),
        Err(_) => shared.update(|s| fail(s, "it did not start in 60 s")),
    }
}

fn router(shared: &Arc<Shared>) -> Router<()> {
    let mut router: Router<()> = Router::new(());
    let (heard, asked) = (Arc::clone(shared), Arc::clone(shared));
    router.unhandled_notification(move |(), message| {
        handle_notification(&heard, &message);
        ControlFlow::Continue(())
    });
    router.unhandled_request(move |(), request| std::future::ready(answer(&asked, &request)));
    router
}

fn handle_notification(shared: &Shared, message: &AnyNotification) {
    let params = &message.params;
    match message.method.as_str() {
        "textDocument/publishDiagnostics" => {
            let path = params.get("uri").and_then(Value::as_str).and_then(path_of);
            let items = params.get("diagnostics").and_then(Value::as_array);
            let (Some(path), Some(items)) = (path, items) else { return };
            shared.update(|s| {
                s.count += 1;
                let version = params.get("version").and_then(Value::as_i64);
                let problems = items.iter().filter_map(Problem::read).take(KEPT).collect();
                if s.pushed.len() >= MAX_FILES && !s.pushed.contains_key(&path) {
                    return;
                }
                s.pushed.insert(path, FileReport { version, count: s.count, problems });
            });
        }
        "$/progress" => {
            let token = params.get("token").map(ToString::to_string).unwrap_or_default();
            let kind = params.pointer("/value/kind").and_then(Value::as_str).unwrap_or_default();
            shared.update(|s| {
                match kind {
                    "begin" if s.progress.len() < 1_000 => s.progress.insert(token),
                    "end" => s.progress.remove(&token),
                    _ => false,
                };
            });
        }
        _ => {}
    }
}

/// Answers a request from the server to the editor.
fn answer(shared: &Shared, request: &AnyRequest) -> Result<Value, ResponseError> {
    match request.method.as_str() {
        "workspace/configuration" => {
            let items = request.params.get("items").and_then(Value::as_array);
            let one = |item: &Value| {
                let section = item.get("section").and_then(Value::as_str).unwrap_or_default();
                let mut parts = section.split('.').filter(|p| !p.is_empty());
                let found = parts.try_fold(&shared.options, |at, part| at.get(part));
                found.cloned().unwrap_or(Value::Null)
            };
            Ok(items.into_iter().flatten().map(one).collect())
        }
        "workspace/workspaceFolders" => Ok(json!([{"uri": shared.root, "name": "root"}])),
        "workspace/applyEdit" => {
            Ok(json!({"applied": false, "failureReason": "servers do not change files here"}))
        }
        "client/registerCapability"
        | "client/unregisterCapability"
        | "window/workDoneProgress/create"
        | "window/showMessageRequest"
        | "workspace/diagnostic/refresh"
        | "workspace/semanticTokens/refresh"
        | "workspace/inlayHint/refresh"
        | "workspace/codeLens/refresh" => Ok(Value::Null),
        other => Err(ResponseError::new(ErrorCode::METHOD_NOT_FOUND, format!("{other} is not offered"))),
    }
}

/// Converts a `file:` URL to a path.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    Url::parse(uri).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()
}
