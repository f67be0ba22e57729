//! Reading configuration files from a given set of paths. Only small regular files are read.
//!
//! The caller decides if a managed file is trusted, because file ownership depends on the platform.

use crate::error::{ConfigError, Problem};
use crate::layers::{Layer, Scope, SettingSources};
use std::path::{Path, PathBuf};

/// Maximum size of a configuration file in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

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
    pub fn path(&self, scope: Scope) -> PathBuf {
        match scope {
            Scope::Managed => self.managed.clone(),
            Scope::User => self.config_dir.join("becket").join("config.toml"),
            Scope::Project => self.project.join(".becket").join("config.toml"),
            Scope::Local => self.project.join(".becket").join("config.local.toml"),
        }
    }
}

/// Returns the existing files, weakest first, and warnings for people. A managed file is read regardless of
/// `sources`. If `distrusted` returns a reason for it, it is skipped with a warning.
///
/// # Errors
///
/// Fails if a file exists and cannot be read.
pub fn read_files(
    places: &Places,
    sources: SettingSources,
    distrusted: impl Fn(&Path) -> Option<String>,
) -> Result<(Vec<Layer>, Vec<Problem>), ConfigError> {
    let (mut layers, mut warnings) = (Vec::new(), Vec::new());
    for scope in [Scope::User, Scope::Project, Scope::Local, Scope::Managed] {
        if !sources.reads(scope) {
            continue;
        }
        let path = places.path(scope);
        let why = if scope == Scope::Managed && path.exists() { distrusted(&path) } else { None };
        if let Some(why) = why {
            let message = format!("this managed file is ignored: {why}");
            warnings.push(Problem { origin: path.display().to_string(), at: None, key: None, message });
        } else if let Some(text) = read_text(&path)? {
            layers.push(Layer { scope, path, text });
        }
    }
    Ok((layers, warnings))
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
