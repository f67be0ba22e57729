//! The proxy of a session: connects confined commands with the hosts that the user allows.
//!
//! It runs in a separate thread, so that a large download does not slow down the interface. The thread starts with the first
//! command that needs it and ends with the session. Each command has a [`Pass`]. The proxy serves the port inside the command's
//! network as long as the pass exists, and records refusals in the pass. The result of the command reports these refusals.
//!
//! Invariants: the rules are checked before a name is resolved. A name is resolved once. Every address of a name is
//! judged; if one is refused, the name is refused. Connections are made only to judged addresses.

use crate::door;
use crate::hosts::HostRules;
use crate::request::{self, Kind, Read, Wanted};
use futures::future::BoxFuture;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Host;

/// Time limit for a client to send its whole request.
const FIRST_WORDS: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum number of simultaneous connections of one command. Further connections wait.
const MOST_CONNECTIONS: usize = 256;
/// Maximum number of different refusals that are recorded for one command.
const MOST_NOTED: usize = 20;

/// Resolves names to addresses.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The system's resolver.
pub fn system_lookup() -> Lookup {
    Arc::new(|name: String| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

#[derive(Default)]
struct Passes {
    last: u64,
    open: HashMap<u64, Holder>,
}

/// The proxy's part of a pass.
struct Holder {
    refusals: Arc<Mutex<BTreeSet<String>>>,
    /// Changes when the pass is dropped, which ends the command's connections.
    held: watch::Receiver<()>,
}

/// The permission of one command to use the proxy. When it is dropped, the connections of the command end.
#[derive(Debug)]
pub struct Pass {
    socket: PathBuf,
    number: u64,
    refusals: Arc<Mutex<BTreeSet<String>>>,
    _held: watch::Sender<()>,
}

impl Pass {
    /// Returns the socket of the proxy and the number of this pass, for [`door::enter`].
    pub fn socket(&self) -> (&Path, u64) {
        (&self.socket, self.number)
    }

    /// Returns the refusals so far: a line for each host, of the form `HOST:PORT: REASON`.
    pub fn refusals(&self) -> Vec<String> {
        self.log().lines()
    }

    /// Returns a handle to the refusals, which outlives the pass.
    pub fn log(&self) -> RefusalLog {
        RefusalLog(Arc::clone(&self.refusals))
    }
}

/// The refusals of one command. Holds no permission.
#[derive(Clone, Debug)]
pub struct RefusalLog(Arc<Mutex<BTreeSet<String>>>);

impl RefusalLog {
    /// Returns the refusals so far, as [`Pass::refusals`] does.
    pub fn lines(&self) -> Vec<String> {
        locked(&self.0).iter().cloned().collect()
    }
}

/// The proxy of a session. It ends when it is dropped.
pub struct Proxy {
    folder: TempDir,
    allows_this_machine: bool,
    passes: Arc<Mutex<Passes>>,
    _running: watch::Sender<()>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("folder", &self.folder.path()).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Starts the proxy. Its socket is in a new private folder below `temp`.
    ///
    /// # Errors
    ///
    /// Fails if the folder or the socket cannot be made.
    pub fn start(rules: HostRules, lookup: Lookup, temp: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("becket-proxy-").tempdir_in(temp.canonicalize()?)?;
        let listener = std::os::unix::net::UnixListener::bind(folder.path().join("socket"))?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let passes = Arc::new(Mutex::new(Passes::default()));
        let (running, mut ended) = watch::channel(());
        let allows_this_machine = rules.allows_this_machine();
        let judge = Arc::new(Judge { rules, lookup });
        let known = Arc::clone(&passes);
        std::thread::Builder::new().name("proxy".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = UnixListener::from_std(listener) else { return };
                tokio::select! {
                    _ = ended.changed() => {}
                    () = admit(listener, known, judge) => {}
                }
            });
        })?;
        Ok(Self { folder, allows_this_machine, passes, _running: running })
    }

    /// Makes a pass for one command.
    pub fn pass(&self) -> Pass {
        let (held, receiver) = watch::channel(());
        let refusals = Arc::default();
        let mut passes = locked(&self.passes);
        passes.last += 1;
        let number = passes.last;
        // Removes passes that were dropped before a helper used them.
        passes.open.retain(|_, holder| holder.held.has_changed().is_ok());
        passes.open.insert(number, Holder { refusals: Arc::clone(&refusals), held: receiver });
        Pass { socket: self.folder.path().join("socket"), number, refusals, _held: held }
    }

    /// Returns the hosts for which clients must not use the proxy: the command's own servers, which listen in its own network.
    pub fn left_out(&self) -> &'static str {
        if self.allows_this_machine { "" } else { "localhost,127.0.0.1,::1" }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives ports from helpers and serves them.
async fn admit(listener: UnixListener, passes: Arc<Mutex<Passes>>, judge: Arc<Judge>) {
    let mut served = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The process may have too many open files. Connections that wait are accepted when files are free again.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while served.try_join_next().is_some() {}
        let (passes, judge) = (Arc::clone(&passes), Arc::clone(&judge));
        served.spawn(async move {
            let Ok(Ok(Some((number, port)))) = timeout(door::PATIENCE, received(&stream)).await else {
                return;
            };
            // A pass is removed at its first use, so it serves one port only.
            let Some(Holder { refusals, mut held }) = locked(&passes).open.remove(&number) else { return };
            let ready = port.set_nonblocking(true).and_then(|()| TcpListener::from_std(port));
            let Ok(port) = ready else { return };
            let mut stream = stream;
            if stream.write_all(&[door::SERVED]).await.is_err() {
                return;
            }
            drop(stream);
            tokio::select! {
                // Nothing is sent through this channel; it ends when the pass is dropped.
                _ = held.changed() => {}
                () = serve(port, judge, refusals) => {}
            }
        });
    }
}

async fn received(stream: &UnixStream) -> io::Result<Option<(u64, std::net::TcpListener)>> {
    stream.async_io(Interest::READABLE, || door::receive(stream)).await
}

async fn serve(port: TcpListener, judge: Arc<Judge>, refusals: Arc<Mutex<BTreeSet<String>>>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut clients = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((client, _)) = port.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while clients.try_join_next().is_some() {}
        let (judge, refusals) = (Arc::clone(&judge), Arc::clone(&refusals));
        clients.spawn(async move {
            let _ = client_served(client, &judge, &refusals).await;
            drop(place);
        });
    }
}

/// Serves one connection of a client, from its request to its end.
async fn client_served(
    mut client: TcpStream,
    judge: &Judge,
    refusals: &Mutex<BTreeSet<String>>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let read = timeout(FIRST_WORDS, wanted(&mut client, &mut bytes)).await;
    let wanted = match read.map_err(|_| io::ErrorKind::TimedOut)?? {
        Ok(wanted) => wanted,
        Err(why) => return answer_http(&mut client, "400 Bad Request", why).await,
    };
    let mut host = match judge.connect(&wanted).await {
        Ok(host) => host,
        Err(failure) => {
            let text = format!("{}:{}: {}", wanted.host, wanted.port, failure.text());
            if let Failure::Refused(_) = &failure {
                let mut noted = locked(refusals);
                if noted.len() < MOST_NOTED {
                    noted.insert(text.clone());
                }
            }
            return answer_failure(&mut client, &wanted.kind, &failure, &text).await;
        }
    };
    match wanted.kind {
        Kind::Connect => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
        Kind::Socks => client.write_all(&[request::SOCKS, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?,
        Kind::Http(head) => host.write_all(&head).await?,
    }
    // The client may have sent these bytes before it got an answer, for instance the body of a request.
    host.write_all(&bytes[wanted.used..]).await?;
    tokio::io::copy_bidirectional(&mut client, &mut host).await?;
    Ok(())
}

/// Reads until the client's request is complete. The inner `Err` says why the request is invalid.
async fn wanted(client: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<Result<Wanted, &'static str>> {
    let mut greeted = false;
    loop {
        let read = if greeted { request::read_socks(bytes) } else { request::read(bytes) };
        match read {
            Read::Wanted(wanted) => return Ok(Ok(wanted)),
            Read::Bad(why) => return Ok(Err(why)),
            Read::Greeting(used) => {
                bytes.drain(..used);
                greeted = true;
                client.write_all(&[request::SOCKS, 0]).await?;
                continue;
            }
            Read::More => {}
        }
        if client.read_buf(bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn answer_http(client: &mut TcpStream, status: &str, text: &str) -> io::Result<()> {
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n", text.len() + 1);
    client.write_all(format!("{head}Connection: close\r\n\r\n{text}\n").as_bytes()).await
}

async fn answer_failure(
    client: &mut TcpStream,
    kind: &Kind,
    failure: &Failure,
    text: &str,
) -> io::Result<()> {
    // Reply codes of SOCKS5 (RFC 1928): 2 for not allowed by the rules, 4 for host unreachable.
    let (status, code, text) = match failure {
        Failure::Refused(_) => ("403 Forbidden", 2, format!("The sandbox refused {text}.")),
        Failure::Unreachable(_) => ("502 Bad Gateway", 4, format!("Not reached: {text}.")),
    };
    match kind {
        Kind::Socks => client.write_all(&[request::SOCKS, code, 0, 1, 0, 0, 0, 0, 0, 0]).await,
        Kind::Connect | Kind::Http(_) => answer_http(client, status, &text).await,
    }
}

/// The reason why there is no connection.
enum Failure {
    /// The rules forbid it.
    Refused(String),
    Unreachable(String),
}

impl Failure {
    fn text(&self) -> &str {
        match self {
            Self::Refused(why) | Self::Unreachable(why) => why,
        }
    }
}

struct Judge {
    rules: HostRules,
    lookup: Lookup,
}

impl Judge {
    async fn connect(&self, wanted: &Wanted) -> Result<TcpStream, Failure> {
        let Wanted { host, port, .. } = wanted;
        self.rules.judge(host, *port).map_err(Failure::Refused)?;
        let addresses = match host {
            Host::Ipv4(ip) => vec![IpAddr::V4(*ip)],
            Host::Ipv6(ip) => vec![IpAddr::V6(*ip)],
            Host::Domain(name) => {
                let found = timeout(CONNECT, (self.lookup)(name.clone())).await;
                let unknown =
                    |why: String| Failure::Unreachable(format!("the name cannot be resolved: {why}"));
                let found = found.map_err(|_| unknown("no answer in time".to_owned()))?;
                found.map_err(|e| unknown(e.to_string()))?
            }
        };
        for ip in &addresses {
            self.rules.judge_address(*ip, *port).map_err(Failure::Refused)?;
        }
        let mut last = "the name has no address".to_owned();
        for ip in addresses {
            match timeout(CONNECT, TcpStream::connect(SocketAddr::new(ip, *port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => "no answer in time".clone_into(&mut last),
            }
        }
        Err(Failure::Unreachable(last))
    }
}
