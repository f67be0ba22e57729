//! Reads configuration files from a given set of paths: small regular files only.
//!
//! The caller decides if a managed file is trusted, because file ownership depends on the platform.

use crate::error::ConfigError;
use std::path::{Path, PathBuf};

/// Maximum size of a configuration file in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// The file that a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    User,
    Project,
    Local,
    Managed,
}

/// The text of one file. A JSON file is one of Claude Code: only those of its keys count that mean the same in becket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub scope: Scope,
    pub path: PathBuf,
    pub text: String,
}

/// The scopes whose files are read, from `--setting-sources`. Managed files are always read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingSources {
    pub user: bool,
    pub project: bool,
    pub local: bool,
}

impl Default for SettingSources {
    fn default() -> Self {
        Self { user: true, project: true, local: true }
    }
}

impl SettingSources {
    /// True if the file of this scope is read. The administrator's file always is.
    pub fn reads(self, scope: Scope) -> bool {
        match scope {
            Scope::User => self.user,
            Scope::Project => self.project,
            Scope::Local => self.local,
            Scope::Managed => true,
        }
    }
}

impl std::str::FromStr for SettingSources {
    type Err = String;

    /// Parses any of `user,project,local`, separated by commas. Empty text means none.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut out = Self { user: false, project: false, local: false };
        for name in text.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            match name {
                "user" => out.user = true,
                "project" => out.project = true,
                "local" => out.local = true,
                _ => return Err(format!("unknown setting source {name:?}: use user, project, local")),
            }
        }
        Ok(out)
    }
}

/// Paths of the files, chosen by the binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The user's configuration folder, such as `~/.config`.
    pub config_dir: PathBuf,
    /// The project's root.
    pub project: PathBuf,
    /// The administrator's file; usually `/etc/becket/config.toml`.
    pub managed: PathBuf,
}

impl Places {
    /// Returns the path of the scope's file, which need not exist.
    pub fn path(&self, scope: Scope) -> PathBuf {
        match scope {
            Scope::Managed => self.managed.clone(),
            Scope::User => self.config_dir.join("becket").join("config.toml"),
            Scope::Project => self.project.join(".becket").join("config.toml"),
            Scope::Local => self.project.join(".becket").join("config.local.toml"),
        }
    }
}

/// Returns the existing files, weakest first. A managed file is read regardless of `sources`.
///
/// # Errors
///
/// Fails if a file exists and cannot be read, or if `distrusted` returns a reason not to trust an existing managed file. Ignoring
/// such a file would let a user who can change it get rid of the administrator's rules, so becket does not start.
pub fn read_files(
    places: &Places,
    sources: SettingSources,
    distrusted: impl Fn(&Path) -> Option<String>,
) -> Result<Vec<Layer>, ConfigError> {
    let mut layers = Vec::new();
    for scope in [Scope::User, Scope::Project, Scope::Local, Scope::Managed] {
        if !sources.reads(scope) {
            continue;
        }
        let path = places.path(scope);
        let why = if scope == Scope::Managed && path.exists() { distrusted(&path) } else { None };
        if let Some(why) = why {
            let why = format!("this managed file cannot be trusted, so becket does not start: {why}");
            return Err(ConfigError::Refused { path, why });
        }
        if let Some(text) = read_text(&path)? {
            layers.push(Layer { scope, path, text });
        }
    }
    Ok(layers)
}

/// Returns the text of a file; `None` if there is none.
///
/// # Errors
///
/// Fails if the file is too large or cannot be read. Devices, pipes and folders are refused without being
/// opened.
pub fn read_text(path: &Path) -> Result<Option<String>, ConfigError> {
    use std::io::ErrorKind::{FileTooLarge, NotADirectory, NotFound};
    let refused = |why: &str| ConfigError::Refused { path: path.to_path_buf(), why: why.to_owned() };
    let unreadable = |source| ConfigError::Unreadable { path: path.to_path_buf(), source };
    let bytes = match becket_files::read(path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
        Err(error) if error.kind() == FileTooLarge => {
            return Err(refused(
                "is longer than 1 MB; configuration files are small, so this is probably another file",
            ));
        }
        Err(error) if becket_files::is_special(&error) => {
            return Err(refused("is not a regular file; name a plain one"));
        }
        Err(error) => return Err(unreadable(error)),
    };
    let text = String::from_utf8(bytes).map_err(|_| refused("is not UTF-8 text; save it as UTF-8"))?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}
