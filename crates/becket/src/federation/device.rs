//! Login with a code that the user enters in a browser, on this device or another one (RFC 8628), at a provider whose addresses
//! and client id the user's configuration names (`[providers.NAME.login]`).
//!
//! Owns the flow, the saved login, and its renewal. The refresh token is in the system's keychain, or in a file beside the
//! access token, which only this user can read. One process at a time renews the login, because a refresh token may be
//! valid only once. Tokens go only to the configured addresses, and are never shown.

use super::{
    TemporaryCredential, TokenCache, address, form, is_token, parse_oauth_token, request, request_text,
};
use crate::environment::Environment;
use crate::interactive::preferences;
use crate::keychain::Keychain;
use crate::keys::{KeyLocation, KeyStore};
use becket_config::{LoginConfig, Settings};
use becket_model::{NoKey, Proxies, TokenFault, TokenSource, token_request};
use becket_print::clean;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use url::Url;

/// Grant type of a request with a device code.
const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Pause between two requests if the provider names none, and what a `slow_down` adds to it.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest pause, whatever the provider says.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
/// Lifetime of a code if the provider names none.
const DEFAULT_CODE_LIFETIME: Duration = Duration::from_mins(15);
/// Assumed lifetime, in seconds, of a token that has neither an expiry nor a refresh token.
const DEFAULT_TOKEN_LIFETIME: u64 = 365 * 24 * 3600;
/// Longest code or address that is shown, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// The login of one provider.
#[derive(Clone)]
pub(crate) struct DeviceLogin {
    environment: Environment,
    provider: String,
    client: Client,
    folder: PathBuf,
}

/// The addresses of the configuration, and the name of this client.
#[derive(Clone)]
struct Client {
    proxies: Proxies,
    device_url: String,
    token_url: String,
    id: String,
    scope: Option<String>,
}

/// The saved login, without the access token.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SavedLogin {
    refresh_token: Option<String>,
    /// The name of the refresh token in the system's keychain.
    keychain: Option<String>,
}

/// The instructions for the user: the address to open, and the code to enter there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub address: String,
    pub code: String,
    /// An address that contains the code.
    pub complete: Option<String>,
    pub lifetime: Duration,
}

/// The tokens of a login.
#[derive(Clone)]
pub(crate) struct Tokens {
    grant: TemporaryCredential,
    refresh: Option<String>,
}

type Sleep<'a> = &'a (dyn Fn(Duration) -> BoxFuture<'static, ()> + Sync);

impl Client {
    fn from_environment(environment: &Environment, login: &LoginConfig) -> Option<Self> {
        Some(Self {
            proxies: environment.proxies(),
            device_url: login.device_authorization_url.clone()?,
            token_url: login.token_url.clone()?,
            id: login.client_id.clone()?,
            scope: login.scope.clone().filter(|scope| !scope.trim().is_empty()),
        })
    }

    /// Gets a code, shows it, and waits until the user has entered it.
    async fn log_in(&self, show: &(dyn Fn(&Prompt) + Sync), sleep: Sleep<'_>) -> Result<Tokens, String> {
        let mut fields = vec![("client_id", self.id.as_str())];
        fields.extend(self.scope.as_deref().map(|scope| ("scope", scope)));
        let asked = request(address(&self.device_url)?, form(&fields));
        let answer = object(&request_text(&self.proxies, asked).await.map_err(|fault| fault.why)?);
        let (prompt, device_code) =
            prompt(&answer).map_err(|what| format!("{} sent {what}", host(&self.device_url)))?;
        let named = answer["interval"].as_f64().and_then(|n| Duration::try_from_secs_f64(n).ok());
        let mut interval = named.unwrap_or(DEFAULT_INTERVAL).max(MIN_INTERVAL);
        show(&prompt);
        let (start, mut waited) = (Instant::now(), Duration::ZERO);
        while waited.max(start.elapsed()) < prompt.lifetime {
            sleep(interval).await;
            waited += interval;
            match self.poll(&device_code).await {
                Ok(tokens) => return Ok(tokens),
                Err(fault) => match (fault.code.as_deref(), fault.status) {
                    (Some("authorization_pending"), _) => {}
                    (Some("slow_down"), _) => interval += DEFAULT_INTERVAL,
                    (Some("access_denied"), _) => return Err("it was denied in the browser".to_owned()),
                    (Some("expired_token"), _) => break,
                    // A fault of the network or the service may pass. RFC 8628 asks for longer pauses then.
                    (None, None | Some(429 | 500..)) => interval = (interval * 2).min(Duration::from_mins(1)),
                    _ => return Err(fault.why),
                },
            }
        }
        Err("the code has expired before it was entered".to_owned())
    }

    async fn poll(&self, device_code: &str) -> Result<Tokens, TokenFault> {
        let fields = [("grant_type", DEVICE_CODE), ("device_code", device_code), ("client_id", &self.id)];
        self.tokens(&fields, false).await
    }

    /// Asks for tokens. `again`: after a fault of the network or the service, the request is sent once more.
    async fn tokens(&self, fields: &[(&str, &str)], again: bool) -> Result<Tokens, TokenFault> {
        let wrong = |why: String| TokenFault { status: Some(400), code: None, why };
        let asked = request(address(&self.token_url).map_err(wrong)?, form(fields));
        let text = if again {
            request_text(&self.proxies, asked).await?
        } else {
            token_request(&asked, &self.proxies).await?
        };
        let answer = object(&text);
        // Some providers send errors with status 200.
        if let Some(code) = answer["error"].as_str() {
            let said = answer["error_description"].as_str().unwrap_or(code);
            let why = format!("{} refused: {}", host(&self.token_url), for_terminal(said));
            return Err(TokenFault { status: Some(400), code: Some(code.to_owned()), why });
        }
        if let Some(kind) = answer["token_type"].as_str().filter(|kind| !kind.eq_ignore_ascii_case("bearer"))
        {
            return Err(wrong(format!(
                "{} gives tokens of the type {}, and becket sends only bearer tokens",
                host(&self.token_url),
                for_terminal(kind)
            )));
        }
        let mut grant = parse_oauth_token(&answer, &host(&self.token_url)).map_err(wrong)?;
        let refresh = answer["refresh_token"].as_str().filter(|token| is_token(token)).map(str::to_owned);
        if refresh.is_none() && answer["expires_in"].is_null() {
            grant.until = super::now() + DEFAULT_TOKEN_LIFETIME;
        }
        Ok(Tokens { grant, refresh })
    }
}

/// Returns the address and the code for the user, and the device code with which tokens are requested. `Err`: the fault of the answer.
fn prompt(answer: &Value) -> Result<(Prompt, String), &'static str> {
    let text =
        |keys: &[&str]| keys.iter().find_map(|key| answer[*key].as_str()).filter(|text| !text.is_empty());
    let device_code = text(&["device_code"]).filter(|code| is_token(code)).ok_or("no device code")?;
    let code = text(&["user_code"]).ok_or("no code for you")?;
    // Google's name of the field is older than the standard.
    let page = text(&["verification_uri", "verification_url"]).ok_or("no address for your browser")?;
    let is_page = |text: &&str| Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "https" | "http"));
    let page = Some(page).filter(is_page).ok_or("an address that no browser can open")?;
    let complete = text(&["verification_uri_complete"]).filter(is_page).map(for_terminal);
    let lifetime = answer["expires_in"].as_f64().and_then(|n| Duration::try_from_secs_f64(n).ok());
    let prompt = Prompt {
        address: for_terminal(page),
        code: for_terminal(code),
        complete,
        lifetime: lifetime.unwrap_or(DEFAULT_CODE_LIFETIME),
    };
    Ok((prompt, device_code.to_owned()))
}

/// Returns a server's text for the user's terminal.
fn for_terminal(text: &str) -> String {
    clean(&text.chars().take(MAX_SHOWN_CHARS).collect::<String>()).replace('\n', " ")
}

/// Parses an answer. Anything but a JSON object becomes an empty one, so that the field that is missing is named.
fn object(text: &str) -> Value {
    becket_types::parse_json::<Value>(text)
        .ok()
        .filter(Value::is_object)
        .unwrap_or_else(|| Value::Object(serde_json::Map::new()))
}

fn host(url: &str) -> String {
    Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

impl DeviceLogin {
    /// Returns the login that the configuration describes for a provider.
    pub(crate) fn from_environment(
        environment: &Environment,
        settings: &Settings,
        provider: &str,
    ) -> Option<Self> {
        let client = Client::from_environment(environment, &settings.config.provider(provider).login)?;
        let login = Self {
            environment: environment.clone(),
            provider: provider.to_owned(),
            client,
            folder: PathBuf::new(),
        };
        let folder = login.token_cache().folder().to_owned();
        Some(Self { folder, ..login })
    }

    /// Keeps the access token. The file's name depends on the address and the client id, so a change of either needs a new login.
    fn token_cache(&self) -> TokenCache {
        let identity = format!("{} {}", self.client.token_url, self.client.id);
        let login = self.clone();
        TokenCache::new(&self.environment, &format!("login-{}", self.provider), &identity, move || {
            let login = login.clone();
            Box::pin(async move { login.renew().await })
        })
    }

    fn file(&self) -> PathBuf {
        self.folder.join("login.json")
    }

    /// Returns the source of this provider's tokens, if there is a login.
    pub(crate) fn source(&self) -> Option<TokenSource> {
        self.file().is_file().then(|| self.token_cache().into_token_source())
    }

    /// Logs in and saves the tokens. `show` gets the address and the code for the user.
    pub(crate) async fn log_in(
        &self,
        show: &(dyn Fn(&Prompt) + Sync),
        place: KeyStore,
    ) -> Result<KeyLocation, String> {
        let tokens = self.client.log_in(show, &|time| Box::pin(tokio::time::sleep(time))).await?;
        let login = self.clone();
        let saved = tokens.clone();
        let kept = blocking(move || login.save(saved.refresh.as_deref(), place)).await?;
        self.token_cache()
            .store(&tokens.grant)
            .await
            .map_err(|e| format!("the login cannot be saved: {e}"))?;
        Ok(kept)
    }

    /// Starts the login as a task of its own. The first value is the address and the code, once the provider has sent them.
    pub(crate) fn start(
        self,
        place: KeyStore,
    ) -> (oneshot::Receiver<Prompt>, JoinHandle<Result<KeyLocation, String>>) {
        let (sender, prompt) = oneshot::channel();
        let sender = Mutex::new(Some(sender));
        let show = move |prompt: &Prompt| {
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner).take();
            sender.map(|sender| sender.send(prompt.clone()));
        };
        (prompt, tokio::spawn(async move { self.log_in(&show, place).await }))
    }

    /// Saves a refresh token. A login without one lasts as long as its access token.
    fn save(&self, refresh: Option<&str>, place: KeyStore) -> Result<KeyLocation, String> {
        let name = format!("login:{}", self.provider);
        let kept = match (refresh, place) {
            (None, _) | (_, KeyStore::File) => KeyLocation::File(None),
            (Some(token), KeyStore::Keychain) => {
                match Keychain::from_environment(&self.environment)
                    .and_then(|keychain| keychain.save(&name, token))
                {
                    Ok(()) => KeyLocation::Keychain,
                    Err(why) => KeyLocation::File(Some(why)),
                }
            }
        };
        let saved = match kept {
            KeyLocation::Keychain => SavedLogin { keychain: Some(name), refresh_token: None },
            KeyLocation::File(_) => SavedLogin { keychain: None, refresh_token: refresh.map(str::to_owned) },
        };
        let text = serde_json::to_string(&saved).unwrap_or_default();
        preferences::write(&self.file(), &text)
            .map_err(|e| format!("{} was not written: {e}", self.file().display()))?;
        Ok(kept)
    }

    /// Describes the place of the login, for a message on one line.
    pub(crate) fn place(&self, kept: &KeyLocation) -> String {
        match kept {
            KeyLocation::Keychain => crate::keys::KEYCHAIN.to_owned(),
            KeyLocation::File(None) => self.file().display().to_string(),
            KeyLocation::File(Some(why)) => format!("{} (not in the keychain: {why})", self.file().display()),
        }
    }

    /// Gets a new access token with the saved refresh token, and saves the next refresh token.
    async fn renew(&self) -> Result<TemporaryCredential, NoKey> {
        let over = |why: String| NoKey { why, hint: format!("Run `becket login {}`.", self.provider) };
        let saved =
            std::fs::read_to_string(self.file()).map_err(|_| over("nobody is logged in".to_owned()))?;
        let saved: SavedLogin = serde_json::from_str(&saved).unwrap_or_default();
        let token = match (saved.refresh_token, saved.keychain.clone()) {
            (Some(token), _) => token,
            (None, Some(name)) => {
                let environment = self.environment.clone();
                let read = blocking(move || Keychain::from_environment(&environment)?.read(&name)).await;
                read.map_err(|why| NoKey {
                    why: format!("the login is in the system's keychain: {why}"),
                    hint: format!("Unlock the keychain, or run `becket login {} --file`.", self.provider),
                })?
            }
            (None, None) => return Err(over("the login has expired".to_owned())),
        };
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", token.as_str()),
            ("client_id", &self.client.id),
        ];
        let tokens = self.client.tokens(&fields, true).await.map_err(|fault| match fault.status {
            Some(400..=403) => over(format!("the login is not valid any more: {}", fault.why)),
            _ => NoKey {
                why: format!("the login could not be renewed: {}", fault.why),
                hint: "Try again when the server can be reached.".to_owned(),
            },
        })?;
        if let Some(next) = tokens.refresh.filter(|next| *next != token) {
            // The previous refresh token may already be invalid. If the keychain is locked now, the new token is saved
            // in the file, so that it is not lost.
            let place = if saved.keychain.is_some() { KeyStore::Keychain } else { KeyStore::File };
            let login = self.clone();
            blocking(move || login.save(Some(&next), place)).await.map_err(over)?;
        }
        Ok(tokens.grant)
    }

    /// Removes all logins of this provider. Returns false if there was none.
    pub(crate) fn forget(&self) -> Result<bool, String> {
        let start = format!("login-{}-", self.provider);
        let entries =
            std::fs::read_dir(self.environment.data_dir.join("tokens")).into_iter().flatten().flatten();
        let is_its = |name: &str| {
            name.strip_prefix(&start)
                .is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        let mut removed = false;
        for folder in entries.filter(|entry| is_its(&entry.file_name().to_string_lossy())) {
            let folder = folder.path();
            let text = std::fs::read_to_string(folder.join("login.json")).unwrap_or_default();
            let saved: SavedLogin = serde_json::from_str(&text).unwrap_or_default();
            if let Some(name) = saved.keychain {
                // If the keychain cannot remove the token, the file that names it is kept, so that a later attempt can.
                Keychain::from_environment(&self.environment)
                    .and_then(|keychain| keychain.remove(&name))
                    .map_err(|why| {
                        format!("the login of {} is still in the system's keychain: {why}", self.provider)
                    })?;
            }
            removed |= !text.is_empty();
            std::fs::remove_dir_all(&folder)
                .map_err(|e| format!("{} cannot be removed: {e}", folder.display()))?;
        }
        Ok(removed)
    }
}

/// Runs a function that may wait for another program.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("it broke off".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_testkit::{MockServer, Reply};
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    fn client(server: &MockServer) -> Client {
        Client {
            proxies: Proxies::default(),
            device_url: format!("{}/device", server.url()),
            token_url: format!("{}/token", server.url()),
            id: "my-client".to_owned(),
            scope: Some("models offline_access".to_owned()),
        }
    }

    /// Logs in at a server that answers the requests for tokens with these replies, the last one again and again. Returns the
    /// outcome and the seconds of each pause.
    async fn logged_in(device: Value, replies: Vec<Reply>) -> (Result<Tokens, String>, Vec<u64>, MockServer) {
        let replies = Mutex::new(replies);
        let server = MockServer::with(move |request| match request.path.as_str() {
            "/device" => Reply::json(200, &device),
            _ => {
                let mut replies = replies.lock().unwrap();
                if replies.len() > 1 { replies.remove(0) } else { replies[0].clone() }
            }
        });
        let pauses = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&pauses);
        let sleep = move |time: Duration| -> BoxFuture<'static, ()> {
            noted.lock().unwrap().push(time.as_secs());
            Box::pin(std::future::ready(()))
        };
        let got = client(&server).log_in(&|_| {}, &sleep).await;
        let pauses = pauses.lock().unwrap().clone();
        (got, pauses, server)
    }

    fn device(interval: u64, expires_in: u64) -> Value {
        json!({"device_code": "the-device", "user_code": "WDJB-MJHT", "verification_uri": "https://h/device",
            "interval": interval, "expires_in": expires_in})
    }

    fn error(code: &str) -> Reply {
        Reply::json(400, &json!({"error": code}))
    }

    fn given() -> Reply {
        let given = json!({"access_token": "the-token", "token_type": "bearer", "refresh_token": "r1", "expires_in": 60});
        Reply::json(200, &given)
    }

    #[tokio::test]
    async fn the_provider_sets_the_pace() {
        let pending = || error("authorization_pending");
        let with_200 = Reply::json(200, &json!({"error": "authorization_pending"}));
        for (interval, replies, want) in [
            (7, vec![pending(), pending(), given()], vec![7, 7, 7]),
            (1, vec![pending(), error("slow_down"), pending(), given()], vec![1, 1, 6, 6]),
            (2, vec![with_200, given()], vec![2, 2]),
            // A fault of the service may pass; the pauses grow.
            (3, vec![Reply::json(503, &json!({})), Reply::json(500, &json!({})), given()], vec![3, 6, 12]),
        ] {
            let (got, pauses, server) = logged_in(device(interval, 600), replies).await;
            let tokens = got.map_err(|why| panic!("{why}")).unwrap();
            assert_eq!((tokens.grant.secret.as_str(), tokens.refresh.as_deref()), ("the-token", Some("r1")));
            assert_eq!(pauses, want);
            let asked = server.requests();
            assert_eq!(asked[0].text(), "client_id=my-client&scope=models+offline_access");
            assert!(
                asked[1].text().contains("&device_code=the-device&client_id=my-client"),
                "{}",
                asked[1].text()
            );
        }
        let mut without = device(0, 600);
        without.as_object_mut().unwrap().remove("interval");
        assert_eq!(logged_in(without, vec![given()]).await.1, [5]);
    }

    #[tokio::test]
    async fn a_login_that_fails_says_why() {
        let html = || Reply::body(200, "text/html", "<html>planted</html>");
        let mac = Reply::json(200, &json!({"access_token": "t", "token_type": "mac"}));
        for (device, reply, want) in [
            (device(1, 600), error("access_denied"), "it was denied in the browser"),
            (device(1, 600), error("expired_token"), "the code has expired before it was entered"),
            (device(5, 12), error("authorization_pending"), "the code has expired before it was entered"),
            (device(1, 600), error("invalid_client"), "127.0.0.1 refused (status 400): invalid_client"),
            (device(1, 600), html(), "127.0.0.1 sent no token"),
            (device(1, 600), mac, "becket sends only bearer tokens"),
            (json!({"user_code": "a"}), given(), "127.0.0.1 sent no device code"),
            (json!({"device_code": "d", "user_code": "a"}), given(), "sent no address for your browser"),
            (
                json!({"device_code": "d", "user_code": "a", "verification_uri": "javascript:x"}),
                given(),
                "sent an address that no browser can open",
            ),
            (json!("html"), given(), "sent no device code"),
        ] {
            let (got, pauses, _) = logged_in(device, vec![reply]).await;
            let why = got.err().unwrap_or_default();
            assert!(why.contains(want) && !why.contains("planted"), "{why}");
            assert!(pauses.len() <= 3, "{why}: {pauses:?}");
        }
    }

    #[test]
    fn the_words_of_a_server_are_safe_for_the_terminal() {
        let answer = json!({"device_code": "d", "user_code": "A\u{1b}[2JB", "verification_url": "https://h/device",
            "verification_uri_complete": "https://h/device?code=AB", "expires_in": 90});
        let (prompt, _) = prompt(&answer).unwrap();
        assert!(!prompt.code.contains('\u{1b}'), "{prompt:?}");
        assert_eq!(prompt.address, "https://h/device");
        assert_eq!(
            (prompt.complete.as_deref(), prompt.lifetime.as_secs()),
            (Some("https://h/device?code=AB"), 90)
        );
    }
}
