//! The server: a thread with a listener, a handler that chooses replies, and all recorded requests.

use crate::answer::Wire;
use crate::http::{Recorded, read_request};
use crate::reply::{Action, Reply};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

type Handler = Box<dyn FnMut(&Recorded) -> Reply + Send>;

struct Shared {
    handler: Mutex<Handler>,
    gets: Mutex<BTreeMap<String, Reply>>,
    recorded: Mutex<Vec<Recorded>>,
    notify: Notify,
    connections: Mutex<usize>,
}

/// A model server on a loopback port. Stops when dropped.
pub struct MockServer {
    address: std::net::SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl MockServer {
    /// Answers each POST with the next reply. Once all replies are used, the server answers with status 500, a message, and a header that
    /// forbids retries.
    pub fn start<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let mut replies: VecDeque<Reply> = replies.into_iter().map(Into::into).collect();
        Self::with(move |_| replies.pop_front().unwrap_or_else(used_up))
    }

    /// Answers each POST with the reply that the handler returns. The handler keeps its own state.
    pub fn with(handler: impl FnMut(&Recorded) -> Reply + Send + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            handler: Mutex::new(Box::new(handler)),
            gets: Mutex::default(),
            recorded: Mutex::default(),
            notify: Notify::new(),
            connections: Mutex::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let state = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, state) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Answers `GET path`, any number of times. Other GETs get a 404.
    #[must_use]
    pub fn get(self, path: &str, reply: impl Into<Reply>) -> Self {
        self.shared.gets.lock().unwrap().insert(path.to_owned(), reply.into());
        self
    }

    /// Returns `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the address on 127.0.0.1, with a port that the system chose.
    pub fn address(&self) -> std::net::SocketAddr {
        self.address
    }

    /// Returns every POST so far, in the order in which the requests were received completely.
    pub fn requests(&self) -> Vec<Recorded> {
        let recorded = self.shared.recorded.lock().unwrap();
        recorded.iter().filter(|r| r.method == "POST").cloned().collect()
    }

    /// Returns all requests, including GETs.
    pub fn all_requests(&self) -> Vec<Recorded> {
        self.shared.recorded.lock().unwrap().clone()
    }

    /// Returns the number of connections that were opened.
    pub fn connections(&self) -> usize {
        *self.shared.connections.lock().unwrap()
    }

    /// Waits until `count` POSTs have arrived, and returns them.
    pub async fn received(&self, count: usize) -> Vec<Recorded> {
        loop {
            let notified = self.shared.notify.notified();
            let requests = self.requests();
            if requests.len() >= count {
                return requests;
            }
            notified.await;
        }
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for MockServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MockServer").field("address", &self.address).finish_non_exhaustive()
    }
}

fn used_up() -> Reply {
    Reply::openai_error(500, "mock_error", "script_used_up", "the mock server has no more replies")
        .header("x-should-retry", "false")
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = {
            let mut count = shared.connections.lock().unwrap();
            *count += 1;
            *count - 1
        };
        let _ = stream.set_nodelay(true);
        connections.spawn(serve(stream, number, Arc::clone(&shared)));
    }
}

async fn serve(mut stream: TcpStream, number: usize, shared: Arc<Shared>) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer, number).await {
        let reply = if request.method == "POST" {
            // If a test's handler panics, the lock is poisoned. Later requests must not fail because of that.
            let mut handler = shared.handler.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            handler(&request)
        } else {
            let path = request.path.split('?').next().unwrap_or_default();
            shared.gets.lock().unwrap().get(path).cloned().unwrap_or_else(|| Reply::status(404))
        };
        let wire = Wire::of_path(&request.path);
        let close = request.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
        shared.recorded.lock().unwrap().push(request);
        shared.notify.notify_waiters();
        if !carry_out(&mut stream, reply.actions(wire)).await || close {
            return;
        }
    }
}

/// Carries out a response's actions on the socket. Returns false if the connection is closed afterwards.
async fn carry_out(stream: &mut TcpStream, actions: Vec<Action>) -> bool {
    for action in actions {
        match action {
            Action::Write(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return false;
                }
                // Yields between two writes, so that the client can receive each piece separately.
                tokio::task::yield_now().await;
            }
            Action::Gate(gate) => gate.pass().await,
            Action::Close => {
                let _ = stream.shutdown().await;
                return false;
            }
            Action::Reset => {
                let _ = stream.set_zero_linger();
                return false;
            }
            Action::Stall => std::future::pending::<()>().await,
        }
    }
    true
}
