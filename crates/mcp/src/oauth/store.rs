//! The store of tokens: the system's keychain, or one file for each server and address that only its owner can read.
//!
//! If tokens are in the keychain, a file of the same name says so. So becket need not ask the keychain when it starts, and a token
//! is never sent to another address. Tokens for another audience are neither stored nor returned. New tokens go to the keychain, if
//! it works, and to the file if not. Refreshed tokens stay where they are. A lock is held while a token is refreshed, so that two
//! processes never use the same refresh token.

use super::audience::Audience;
use async_trait::async_trait;
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde_json::{Value, json};
use std::fmt::Debug;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use url::Url;

/// The key in a file that names the entry of the keychain.
const IN_KEYCHAIN: &str = "keychain";

/// The system's keychain. Its calls wait for another program. Errors are messages for people.
pub trait KeyStore: Debug + Send + Sync {
    /// Saves a secret under this name, and replaces an older one.
    ///
    /// # Errors
    ///
    /// Returns the reason if the secret is not saved whole.
    fn save(&self, name: &str, secret: &str) -> Result<(), String>;

    /// Returns the secret with this name.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is no such secret, or if it cannot be read.
    fn read(&self, name: &str) -> Result<String, String>;

    /// Removes a secret. A secret that is not there counts as removed.
    ///
    /// # Errors
    ///
    /// Returns the reason if the secret is still there.
    fn remove(&self, name: &str) -> Result<(), String>;
}

/// The tokens of all servers.
#[derive(Clone, Debug)]
pub struct TokenStore {
    /// The folder with the files, readable only by its owner.
    pub dir: PathBuf,
    /// `None`: all tokens are in files.
    pub keychain: Option<Arc<dyn KeyStore>>,
    /// True if new tokens go to files although there is a keychain.
    pub in_files: bool,
    /// The reason why the tokens that were stored last are not in the keychain, if becket tried.
    refused: Arc<Mutex<Option<String>>>,
}

/// The place of a server's tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredIn {
    Keychain,
    /// A file, and the reason why the tokens that were stored last are not in the keychain.
    File(PathBuf, Option<String>),
}

impl TokenStore {
    /// Stores tokens in `keychain`, or in files of `dir` if there is none. The folder is created at the first token.
    pub fn new(dir: PathBuf, keychain: Option<Arc<dyn KeyStore>>) -> Self {
        Self { dir, keychain, in_files: false, refused: Arc::default() }
    }

    fn key(server: &str, url: &Url) -> String {
        becket_tool::sha256(format!("{server}\0{url}").as_bytes()).chars().take(32).collect()
    }

    /// Returns the file of a server. A token for one address is never sent to another.
    fn file(&self, server: &str, url: &Url) -> PathBuf {
        self.dir.join(format!("{}.json", Self::key(server, url)))
    }

    /// True if tokens for this server at this address are stored. Reads neither the file nor the keychain.
    pub fn has(&self, server: &str, url: &Url) -> bool {
        self.file(server, url).exists()
    }

    /// Returns the place of a server's tokens; `None` if there are none.
    pub fn place(&self, server: &str, url: &Url) -> Option<StoredIn> {
        let file = self.file(server, url);
        let text = std::fs::read(&file).ok()?;
        if entry_of(&text).is_some() {
            return Some(StoredIn::Keychain);
        }
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(StoredIn::File(file, refused))
    }

    /// Removes the tokens of a server. Returns false if there were none.
    ///
    /// # Errors
    ///
    /// Fails if the file or the entry of the keychain cannot be removed. Then both stay.
    pub fn forget(&self, server: &str, url: &Url) -> io::Result<bool> {
        let file = self.file(server, url);
        if let Some(entry) = std::fs::read(&file).ok().and_then(|text| entry_of(&text)) {
            let keychain = self.keychain.as_ref().ok_or("this system has no keychain".to_owned());
            let removed = keychain.and_then(|keychain| keychain.remove(&entry));
            removed
                .map_err(|why| io::Error::other(format!("its tokens are in the system's keychain: {why}")))?;
        }
        let _ = std::fs::remove_file(self.challenge_file(server, url));
        match std::fs::remove_file(file) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub(super) fn challenge_file(&self, server: &str, url: &Url) -> PathBuf {
        self.file(server, url).with_extension("challenge")
    }

    /// Stores the server's requirements for the next authorization.
    pub(crate) fn keep_challenge(&self, server: &str, url: &Url, challenge: &str) {
        let _ = write_private(&self.challenge_file(server, url), challenge.as_bytes());
    }

    pub(crate) fn challenge(&self, server: &str, url: &Url) -> Option<String> {
        std::fs::read_to_string(self.challenge_file(server, url)).ok()
    }

    /// Returns the tokens of one server. `is_login`: the tokens that are stored next come from a new login, and are not refreshed
    /// ones. `audience`: an audience that the configuration allows beside the server's address.
    pub(super) fn credentials(
        &self,
        server: &str,
        url: &Url,
        audience: Option<&str>,
        is_login: bool,
    ) -> ServerTokens {
        let part: String = crate::naming::server_part(server).chars().take(40).collect();
        let entry = format!("mcp-{part}-{}", Self::key(server, url));
        ServerTokens {
            server: server.to_owned(),
            audience: Audience::new(url, audience),
            file: self.file(server, url),
            entry,
            keychain: self.keychain.clone(),
            is_login,
            in_files: self.in_files,
            refused: Arc::clone(&self.refused),
        }
    }
}

/// Returns the entry of the keychain that a file names.
fn entry_of(text: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(text).ok()?;
    value.get(IN_KEYCHAIN)?.as_str().map(str::to_owned)
}

/// Writes a file that only its owner can read, completely or not at all.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    becket_files::private::dir(dir)?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

fn store_error(error: impl std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

/// The tokens of one server.
#[derive(Clone)]
pub(super) struct ServerTokens {
    server: String,
    /// The server that tokens must be for, when they are stored and when they are sent.
    audience: Audience,
    file: PathBuf,
    /// The name of the entry in the keychain.
    entry: String,
    keychain: Option<Arc<dyn KeyStore>>,
    is_login: bool,
    in_files: bool,
    refused: Arc<Mutex<Option<String>>>,
}

impl ServerTokens {
    fn read(&self) -> Result<Option<StoredCredentials>, String> {
        let text = match std::fs::read(&self.file) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.to_string()),
        };
        let Some(entry) = entry_of(&text) else {
            return serde_json::from_slice(&text).map(Some).map_err(|e| e.to_string());
        };
        let keychain = self.keychain.as_ref().ok_or("this system has no keychain".to_owned());
        let text = keychain.and_then(|keychain| keychain.read(&entry)).map_err(|why| {
            format!(
                "they are in the system's keychain: {why}. Unlock it, or store new ones in a file: becket mcp login {} --file",
                self.server
            )
        })?;
        serde_json::from_str(&text).map(Some).map_err(|e| e.to_string())
    }

    fn write(&self, credentials: &StoredCredentials) -> Result<(), String> {
        let text = serde_json::to_string(credentials).map_err(|e| e.to_string())?;
        let before = std::fs::read(&self.file).ok();
        let in_keychain = before.as_deref().and_then(entry_of);
        let mut refused = None;
        if !self.in_files && (self.is_login || before.is_none() || in_keychain.is_some()) {
            match self.keychain.as_ref().map(|keychain| keychain.save(&self.entry, &text)) {
                Some(Ok(())) => {
                    let marker = json!({ IN_KEYCHAIN: self.entry }).to_string();
                    return write_private(&self.file, marker.as_bytes()).map_err(|e| e.to_string());
                }
                Some(Err(why)) => refused = Some(why),
                None => {}
            }
        }
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
        write_private(&self.file, text.as_bytes()).map_err(|e| e.to_string())?;
        if let (Some(entry), Some(keychain)) = (in_keychain, &self.keychain) {
            // The tokens are in the file now, so the entry is not needed. If the keychain is locked, the entry stays until the next
            // login.
            let _ = keychain.remove(&entry);
        }
        Ok(())
    }

    /// Runs a step that may wait for the keychain.
    async fn blocking<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Self) -> Result<T, String> + Send + 'static,
    ) -> Result<T, AuthError> {
        let own = self.clone();
        tokio::task::spawn_blocking(move || step(&own)).await.map_err(store_error)?.map_err(store_error)
    }
}

#[async_trait]
impl CredentialStore for ServerTokens {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let found = self.blocking(Self::read).await?;
        match &found {
            // Before a login, the stored tokens are used only for their scopes and then replaced, so their audience does not
            // matter.
            Some(found) if !self.is_login => self.audience.check(found).map_err(AuthError::OAuthError)?,
            _ => {}
        }
        Ok(found)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.audience.check(&credentials).map_err(AuthError::OAuthError)?;
        self.blocking(move |own| own.write(&credentials)).await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let step = |own: &Self| {
            let entry = std::fs::read(&own.file).ok().and_then(|text| entry_of(&text));
            if let (Some(entry), Some(keychain)) = (entry, &own.keychain) {
                keychain.remove(&entry)?;
            }
            match std::fs::remove_file(&own.file) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e.to_string()),
                _ => Ok(()),
            }
        };
        self.blocking(step).await
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let path = self.file.with_extension("lock");
        let locked = tokio::task::spawn_blocking(move || {
            becket_files::private::dir(path.parent().unwrap_or(Path::new("/")))?;
            let file = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            io::Result::Ok(file)
        });
        let file = locked.await.map_err(store_error)?.map_err(store_error)?;
        Ok(Some(CredentialRefreshGuard::new(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    /// A keychain in memory. `Err`: the keychain is locked, with the reason.
    #[derive(Debug)]
    struct Chain(Mutex<Result<BTreeMap<String, String>, String>>);

    impl KeyStore for Chain {
        fn save(&self, name: &str, secret: &str) -> Result<(), String> {
            self.0
                .lock()
                .unwrap()
                .as_mut()
                .map_err(|why| why.clone())?
                .insert(name.to_owned(), secret.to_owned());
            Ok(())
        }
        fn read(&self, name: &str) -> Result<String, String> {
            let held = self.0.lock().unwrap();
            held.as_ref().map_err(Clone::clone)?.get(name).cloned().ok_or("no such key".to_owned())
        }
        fn remove(&self, name: &str) -> Result<(), String> {
            self.0.lock().unwrap().as_mut().map_err(|why| why.clone())?.remove(name);
            Ok(())
        }
    }

    fn tokens(access: &str) -> StoredCredentials {
        let token = json!({ "access_token": access, "token_type": "bearer" });
        serde_json::from_value(json!({ "client_id": "c", "token_response": token })).unwrap()
    }

    fn access(found: &Result<Option<StoredCredentials>, AuthError>) -> String {
        let found = found.as_ref().map_err(ToString::to_string).unwrap().as_ref().unwrap();
        let token = serde_json::to_value(&found.token_response).unwrap();
        token["access_token"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn tokens_are_for_one_address_and_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = TokenStore::new(dir.path().join("auth"), None);
        let (one, other) = (url("https://a.example/mcp"), url("https://b.example/mcp"));
        store.credentials("s", &one, None, true).save(tokens("t")).await.unwrap();
        assert!(store.has("s", &one) && !store.has("s", &other) && !store.has("t", &one));
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.file("s", &one)), mode(&store.dir)), (0o600, 0o700));
        assert_eq!(store.place("s", &one), Some(StoredIn::File(store.file("s", &one), None)));
        assert!(store.forget("s", &one).unwrap());
        assert!(!store.forget("s", &one).unwrap());
    }

    #[tokio::test]
    async fn tokens_in_the_keychain_are_in_no_file_and_stay_there() {
        let dir = tempfile::tempdir().unwrap();
        let chain = Arc::new(Chain(Mutex::new(Ok(BTreeMap::new()))));
        let keychain: Arc<dyn KeyStore> = chain.clone();
        let store = TokenStore::new(dir.path().to_path_buf(), Some(keychain));
        let at = url("https://a.example/mcp");
        store.credentials("s", &at, None, true).save(tokens("secret-1")).await.unwrap();
        store.credentials("s", &at, None, false).save(tokens("secret-2")).await.unwrap();
        assert_eq!(store.place("s", &at), Some(StoredIn::Keychain));
        assert_eq!(access(&store.credentials("s", &at, None, false).load().await), "secret-2");
        let file = std::fs::read_to_string(store.file("s", &at)).unwrap();
        assert!(file.starts_with("{\"keychain\":\"mcp-s-") && !file.contains("secret"), "{file}");

        // The error for a locked keychain says what to do. New tokens then go to the file.
        let held = std::mem::replace(&mut *chain.0.lock().unwrap(), Err("it is locked".to_owned())).unwrap();
        let error = store.credentials("s", &at, None, false).load().await.unwrap_err().to_string();
        assert!(
            error.contains("keychain: it is locked") && error.contains("becket mcp login s --file"),
            "{error}"
        );
        assert!(store.forget("s", &at).is_err() && store.has("s", &at));
        store.credentials("s", &at, None, true).save(tokens("secret-3")).await.unwrap();
        assert!(matches!(store.place("s", &at), Some(StoredIn::File(_, Some(why))) if why == "it is locked"));

        // Refreshed tokens stay in the file, and a login brings them back to the keychain.
        *chain.0.lock().unwrap() = Ok(held);
        store.credentials("s", &at, None, false).save(tokens("secret-4")).await.unwrap();
        assert!(matches!(store.place("s", &at), Some(StoredIn::File(_, None))));
        assert_eq!(access(&store.credentials("s", &at, None, false).load().await), "secret-4");
        store.credentials("s", &at, None, true).save(tokens("secret-5")).await.unwrap();
        assert_eq!(store.place("s", &at), Some(StoredIn::Keychain));
        let in_files = TokenStore { in_files: true, ..store.clone() };
        in_files.credentials("s", &at, None, true).save(tokens("secret-6")).await.unwrap();
        assert!(matches!(store.place("s", &at), Some(StoredIn::File(_, None))));
        assert!(chain.0.lock().unwrap().as_ref().unwrap().is_empty());
        store.credentials("s", &at, None, true).save(tokens("secret-7")).await.unwrap();
        assert!(store.forget("s", &at).unwrap() && !store.has("s", &at));
        assert!(chain.0.lock().unwrap().as_ref().unwrap().is_empty());
    }

    #[tokio::test]
    async fn one_process_refreshes_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let store = TokenStore::new(dir.path().to_path_buf(), None);
        let at = url("https://a.example/");
        let (first, second) =
            (store.credentials("s", &at, None, false), store.credentials("s", &at, None, false));
        let held = first.acquire_refresh_guard().await.unwrap();
        let mut waiting = std::pin::pin!(second.acquire_refresh_guard());
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(held);
        assert!(waiting.await.unwrap().is_some());
    }
}
