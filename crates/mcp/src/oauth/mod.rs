//! Authorization of HTTP servers: obtains tokens, stores them, and refreshes them in one process at a time.
//!
//! `rmcp` implements the protocol (metadata of the resource, PKCE, `iss`, registration, refresh). This module owns the
//! store: one file for each server and address, readable only by its owner, and a lock that is held while a token is
//! refreshed, so that two processes never use the same refresh token.

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use url::Url;

mod discovery;
mod granted;
mod login;
mod manager;

pub use login::{Login, LoginError};
pub(crate) use manager::manager;

/// The folder with the tokens, readable only by its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenStore {
    pub dir: PathBuf,
}

impl TokenStore {
    /// Returns the file of a server. A token for one address is never sent to another.
    fn file(&self, server: &str, url: &Url) -> PathBuf {
        let key = becket_tool::sha256(format!("{server}\0{url}").as_bytes());
        self.dir.join(format!("{}.json", &key[..32]))
    }

    pub fn has(&self, server: &str, url: &Url) -> bool {
        self.file(server, url).exists()
    }

    /// Removes the tokens of a server. Returns false if there were none.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be removed.
    pub fn forget(&self, server: &str, url: &Url) -> io::Result<bool> {
        let _ = std::fs::remove_file(self.challenge_file(server, url));
        match std::fs::remove_file(self.file(server, url)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn challenge_file(&self, server: &str, url: &Url) -> PathBuf {
        self.file(server, url).with_extension("challenge")
    }

    /// Stores the server's requirements for the next authorization.
    pub(crate) fn keep_challenge(&self, server: &str, url: &Url, challenge: &str) {
        let _ = write_private(&self.challenge_file(server, url), challenge.as_bytes());
    }

    pub(crate) fn challenge(&self, server: &str, url: &Url) -> Option<String> {
        std::fs::read_to_string(self.challenge_file(server, url)).ok()
    }

    fn credentials(&self, server: &str, url: &Url) -> FileStore {
        FileStore { file: self.file(server, url) }
    }
}

/// Writes a file that only its owner can read, completely or not at all.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

/// The credentials of one server.
struct FileStore {
    file: PathBuf,
}

fn store_error(error: impl std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait]
impl CredentialStore for FileStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        match std::fs::read(&self.file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(store_error),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(store_error(e)),
        }
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let bytes = serde_json::to_vec(&credentials).map_err(store_error)?;
        write_private(&self.file, &bytes).map_err(store_error)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        match std::fs::remove_file(&self.file) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(store_error(e)),
            _ => Ok(()),
        }
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let path = self.file.with_extension("lock");
        let locked = tokio::task::spawn_blocking(move || {
            let dir = path.parent().unwrap_or(Path::new("/")).to_path_buf();
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
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

/// Makes a manager for an address. Addresses inside the user's network are reached only if the server's own is one.
async fn new_manager(url: &Url) -> Result<AuthorizationManager, AuthError> {
    let is_private = match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_private() || ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unique_local(),
        Some(url::Host::Domain(name)) => name == "localhost" || !name.contains('.'),
        None => false,
    };
    if is_private {
        AuthorizationManager::new_allowing_private_addresses(url.as_str()).await
    } else {
        AuthorizationManager::new(url.as_str()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn tokens_are_for_one_address_and_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = TokenStore { dir: dir.path().join("auth") };
        let (one, other) = (url("https://a.example/mcp"), url("https://b.example/mcp"));
        write_private(&store.file("s", &one), b"{}").unwrap();
        assert!(store.has("s", &one) && !store.has("s", &other) && !store.has("t", &one));
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.file("s", &one)), mode(&store.dir)), (0o600, 0o700));
        assert!(store.forget("s", &one).unwrap());
        assert!(!store.forget("s", &one).unwrap());
    }

    #[tokio::test]
    async fn one_process_refreshes_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let store = TokenStore { dir: dir.path().to_path_buf() };
        let (first, second) = (
            store.credentials("s", &url("https://a.example/")),
            store.credentials("s", &url("https://a.example/")),
        );
        let held = first.acquire_refresh_guard().await.unwrap();
        let mut waiting = std::pin::pin!(second.acquire_refresh_guard());
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(held);
        assert!(waiting.await.unwrap().is_some());
    }
}
