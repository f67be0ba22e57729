//! Keys that a cloud gives for the identity of a workload or a person: short-lived, and exchanged when they expire.
//!
//! Owns the exchange as one step: one process at a time asks, and the others take its answer from a file that only this
//! user can read. A key is replaced only by a new one that was given. Each cloud has a file of its own, which knows the
//! identity and the requests. Nothing is asked before the first request to a model.

pub(crate) mod anthropic;
pub(crate) mod aws;
pub(crate) mod azure;
pub(crate) mod device;
pub(crate) mod google;
mod google_aws;
mod google_program;

use crate::environment::Environment;
use becket_model::{NoKey, Proxies, Secret, TokenBody, TokenFault, TokenRequest, TokenSource, token_request};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, TryLockError};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;
use url::{Host, Url};

/// A key is replaced this long before it expires, because a request may take a while to arrive.
const RENEW_BEFORE_EXPIRY: u64 = 60;
/// Longest wait for another process that exchanges the same key.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_POLL: Duration = Duration::from_millis(50);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A key with the time of its expiry.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TemporaryCredential {
    /// A token, or the secret key of AWS.
    pub secret: String,
    /// For AWS: the id of the key, and the token of its session.
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub session: Option<String>,
    /// Time of the expiry, in seconds since 1970.
    pub until: u64,
    /// It is never written to a file.
    #[serde(skip)]
    pub only_in_memory: bool,
}

impl TemporaryCredential {
    /// A token that is valid for this number of seconds from now.
    pub(crate) fn token(token: &str, seconds: u64) -> Self {
        let until = now().saturating_add(seconds);
        Self { secret: token.to_owned(), id: None, session: None, until, only_in_memory: false }
    }

    /// The same key, which must not reach a file.
    pub(crate) fn in_memory(self) -> Self {
        Self { only_in_memory: true, ..self }
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

type Exchange = dyn Fn() -> BoxFuture<'static, Result<TemporaryCredential, NoKey>> + Send + Sync;

/// Gets the key of one identity, keeps it in memory and in a file, and exchanges it when it expires.
#[derive(Clone)]
pub(crate) struct TokenCache {
    in_memory: Arc<Mutex<Option<TemporaryCredential>>>,
    file: PathBuf,
    /// Longest wait for another process that exchanges the same key.
    lock_timeout: Duration,
    exchange: Arc<Exchange>,
}

impl TokenCache {
    /// `identity` distinguishes this key from others of the provider. It has no secret.
    pub(crate) fn new(
        environment: &Environment,
        provider: &str,
        identity: &str,
        exchange: impl Fn() -> BoxFuture<'static, Result<TemporaryCredential, NoKey>> + Send + Sync + 'static,
    ) -> Self {
        let mut hash = DefaultHasher::new();
        identity.hash(&mut hash);
        let folder = format!("{provider}-{:016x}", hash.finish());
        Self {
            in_memory: Arc::default(),
            file: environment.data_dir.join("tokens").join(folder).join("credentials.json"),
            lock_timeout: LOCK_TIMEOUT,
            exchange: Arc::new(exchange),
        }
    }

    /// Sets the longest wait for another process.
    pub(crate) fn patience(self, patience: Duration) -> Self {
        Self { lock_timeout: patience, ..self }
    }

    /// Returns the folder of this key's files.
    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// Keeps a key that was given outside of an exchange.
    pub(crate) async fn store(&self, grant: &TemporaryCredential) -> std::io::Result<()> {
        let lock = lock(&self.file, self.lock_timeout).await;
        let written = write(&self.file, grant);
        drop(lock);
        written
    }

    /// Returns a source of the key, as an adapter of a model asks for it.
    pub(crate) fn into_token_source(self) -> TokenSource {
        TokenSource::new(move |refused| {
            let keeper = self.clone();
            Box::pin(async move { Ok(Secret::new(keeper.get(refused).await?.secret)) })
        })
    }

    /// Returns a valid key. `refused` is true if the last one was refused.
    pub(crate) async fn get(&self, refused: bool) -> Result<TemporaryCredential, NoKey> {
        let mut held = self.in_memory.lock().await;
        if let Some(grant) =
            held.as_ref().filter(|grant| !refused && grant.until > now() + RENEW_BEFORE_EXPIRY)
        {
            return Ok(grant.clone());
        }
        let lock = lock(&self.file, self.lock_timeout).await;
        let last = held.take();
        let is_refused = |grant: &TemporaryCredential| {
            refused && last.as_ref().is_some_and(|last| last.secret == grant.secret)
        };
        let saved = read(&self.file).filter(|grant| grant.until > now() && !is_refused(grant));
        // Another process may have exchanged it meanwhile.
        if let Some(grant) = saved.as_ref().filter(|grant| grant.until > now() + RENEW_BEFORE_EXPIRY) {
            *held = Some(grant.clone());
            return Ok(grant.clone());
        }
        let usable = saved.or(last.clone().filter(|grant| !refused && grant.until > now()));
        let grant = match ((self.exchange)().await, usable) {
            (Ok(grant), _) => {
                // Without the file, each process exchanges its own key.
                if !grant.only_in_memory {
                    let _ = write(&self.file, &grant);
                }
                grant
            }
            // A key that is still valid is better than none.
            (Err(_), Some(usable)) => usable,
            (Err(missing), None) => {
                *held = last;
                return Err(missing);
            }
        };
        drop(lock);
        *held = Some(grant.clone());
        Ok(grant)
    }
}

fn read(file: &Path) -> Option<TemporaryCredential> {
    if crate::sys::open_to_others(file) {
        return None;
    }
    serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
}

fn write(file: &Path, grant: &TemporaryCredential) -> std::io::Result<()> {
    let dir = file.parent().unwrap_or_else(|| Path::new("/"));
    // Only its owner may read a file that this function makes.
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(&serde_json::to_vec(grant)?)?;
    new.persist(file)?;
    Ok(())
}

/// Waits until no other process exchanges this key. `None` if the lock cannot be had within `patience`; then this
/// process exchanges the key without it.
async fn lock(file: &Path, patience: Duration) -> Option<File> {
    let dir = file.parent()?;
    becket_files::private::dir(dir).ok()?;
    let lock = File::options().create(true).truncate(false).write(true).open(dir.join("lock")).ok()?;
    let start = tokio::time::Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Some(lock),
            Err(TryLockError::WouldBlock) if start.elapsed() < patience => {
                tokio::time::sleep(LOCK_POLL).await;
            }
            Err(_) => return None,
        }
    }
}

/// Sends a request and returns the text of the answer. A fault of the network or the service is tried once more.
async fn ask(proxies: &Proxies, request: TokenRequest) -> Result<String, String> {
    request_text(proxies, request).await.map_err(|fault| fault.why)
}

/// Sends a request and returns the text of the answer, or the whole fault.
async fn request_text(proxies: &Proxies, request: TokenRequest) -> Result<String, TokenFault> {
    let mut answer = token_request(&request, proxies).await;
    if let Err(fault) = &answer
        && fault.status.is_none_or(|status| status == 429 || status >= 500)
    {
        tokio::time::sleep(RETRY_PAUSE).await;
        answer = token_request(&request, proxies).await;
    }
    answer
}

/// Sends a request and parses the answer, a JSON object.
async fn ask_json(proxies: &Proxies, request: TokenRequest) -> Result<Value, String> {
    let host = request.url.host_str().unwrap_or_default().to_owned();
    let text = ask(proxies, request).await?;
    becket_types::parse_json(&text).map_err(|_| format!("{host} sent something that is not JSON"))
}

/// Returns the token of an OAuth answer.
fn parse_oauth_token(json: &Value, host: &str) -> Result<TemporaryCredential, String> {
    let token = json["access_token"].as_str().filter(|token| is_token(token));
    let token = token.ok_or_else(|| format!("{host} sent no token"))?;
    // Managed identities send numbers as texts.
    let number = |key: &str| json[key].as_u64().or_else(|| json[key].as_str()?.parse().ok());
    let seconds = number("expires_in").or_else(|| Some(number("expires_on")?.saturating_sub(now())));
    Ok(TemporaryCredential::token(token, seconds.unwrap_or(300)))
}

fn is_token(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic())
}

fn request(url: Url, body: TokenBody) -> TokenRequest {
    TokenRequest { url, headers: Vec::new(), body, timeout: REQUEST_TIMEOUT, sign: None }
}

fn form(fields: &[(&str, &str)]) -> TokenBody {
    TokenBody::Form(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

fn address(text: &str) -> Result<Url, String> {
    Url::parse(text.trim()).map_err(|_| "an address in the credentials cannot be read".to_owned())
}

/// True for this machine and for the metadata services of Google and AWS beside it.
fn is_loopback_or_metadata_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => matches!(name, "localhost" | "metadata.google.internal"),
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_link_local(),
        // AWS has its metadata service at fd00:ec2::254, too.
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],
        None => false,
    }
}

/// Reads a token that another program keeps in a file. It is read again for each exchange, because it is replaced there.
fn token_in(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path} cannot be read: {e}"))?;
    match text.trim() {
        "" => Err(format!("{path} is empty")),
        token => Ok(token.to_owned()),
    }
}

/// True if the name of this machine's product or maker begins like this, as the clouds write it into their machines.
fn is_machine_of(file: &str, start: &str) -> bool {
    let text = std::fs::read_to_string(Path::new("/sys/class/dmi/id").join(file)).unwrap_or_default();
    text.trim().starts_with(start)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn keeper(
        dir: &Path,
        answer: impl Fn(u64) -> Result<TemporaryCredential, NoKey> + Send + Sync + 'static,
    ) -> TokenCache {
        let count = AtomicU64::new(0);
        TokenCache::new(&Environment::below(dir), "p", "me", move || {
            let answer = answer(count.fetch_add(1, Ordering::Relaxed));
            Box::pin(async move {
                tokio::task::yield_now().await;
                answer
            })
        })
    }

    fn numbered(seconds: u64) -> impl Fn(u64) -> Result<TemporaryCredential, NoKey> {
        move |n| Ok(TemporaryCredential::token(&format!("t{n}"), seconds))
    }

    fn missing() -> NoKey {
        NoKey { why: "no".to_owned(), hint: String::new() }
    }

    #[tokio::test]
    async fn one_exchange_serves_all_requests_and_processes() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (keeper(dir.path(), numbered(3600)), keeper(dir.path(), numbered(3600)));
        let asked = (0..50).map(|n| if n % 2 == 0 { first.get(false) } else { second.get(false) });
        for grant in futures::future::join_all(asked).await {
            assert_eq!(grant.unwrap().secret, "t0");
        }
        assert!(!crate::sys::open_to_others(&first.file));
        // A refused token is exchanged once, and the other keeper takes the new one from the file.
        let other = keeper(dir.path(), |_| Ok(TemporaryCredential::token("renewed", 3600)));
        other.get(false).await.unwrap();
        assert_eq!(other.get(true).await.unwrap().secret, "renewed");
        assert_eq!(first.get(true).await.unwrap().secret, "renewed");
    }

    #[tokio::test]
    async fn a_valid_key_is_not_lost_when_an_exchange_fails() {
        let dir = tempfile::tempdir().unwrap();
        // The key is valid for 30 s only, so it is already due for an exchange.
        let keeper =
            keeper(
                dir.path(),
                |n| if n == 0 { Ok(TemporaryCredential::token("t", 30)) } else { Err(missing()) },
            );
        assert_eq!(keeper.get(false).await.unwrap().secret, "t");
        assert_eq!(keeper.get(false).await.unwrap().secret, "t");
        assert_eq!(keeper.get(true).await.map(|_| ()), Err(missing()));
        // The refusal may have been temporary, so the key is still used.
        assert_eq!(keeper.get(false).await.unwrap().secret, "t");
    }

    #[test]
    fn answers_of_token_endpoints() {
        for (json, want) in [
            (serde_json::json!({"access_token": "a", "expires_in": 100}), Some(100)),
            (serde_json::json!({"access_token": "a", "expires_on": (now() + 50).to_string()}), Some(50)),
            (serde_json::json!({"access_token": "a"}), Some(300)),
            (serde_json::json!({"access_token": "a\nb"}), None),
            (serde_json::json!({}), None),
        ] {
            let got = parse_oauth_token(&json, "h").ok().map(|grant| grant.until - now());
            assert!(got == want || got == want.map(|n| n - 1), "{json}");
        }
    }
}
