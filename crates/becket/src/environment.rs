//! The process environment, read once: variables, home folder, and the directories in which becket stores files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Everything that becket takes from its environment.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// Variables that are valid UTF-8. Others cannot be meant for becket.
    pub vars: BTreeMap<String, String>,
    pub home: Option<PathBuf>,
    /// Folder for becket's data of this user on this machine.
    pub data_dir: PathBuf,
    /// Folder of the sessions, the trash and the index: `data_dir`, or the local copy of a store that is shared with
    /// others.
    pub store_dir: PathBuf,
    /// Folder of `config.toml` and the user's AGENTS.md.
    pub config_dir: PathBuf,
}

impl Environment {
    pub(crate) fn read() -> Self {
        let vars: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect();
        Self::from_vars(vars, std::env::home_dir())
    }

    /// Returns the folder for data that can be created again at any time. `None` without a home folder.
    pub(crate) fn cache_dir(&self) -> Option<PathBuf> {
        let named = self.var("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let usual = self.home.as_ref().map(|home| home.join(".cache"));
        named.or(usual).map(|dir| dir.join("becket"))
    }

    /// Returns the user's Claude Code folder: `CLAUDE_CONFIG_DIR`, or `.claude` in the home folder.
    pub(crate) fn claude_dir(&self) -> Option<PathBuf> {
        let named = self.var("CLAUDE_CONFIG_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| self.home.as_ref().map(|home| home.join(".claude")))
    }

    fn from_vars(vars: BTreeMap<String, String>, home: Option<PathBuf>) -> Self {
        // An empty or relative value is ignored, as the XDG specification demands.
        let absolute = |name: &str| vars.get(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let below = |xdg: &str, fallback: &str| {
            absolute(xdg)
                .or_else(|| home.as_ref().map(|home| home.join(fallback)))
                .map_or_else(|| std::env::temp_dir().join("becket"), |dir| dir.join("becket"))
        };
        let data_dir = absolute("BECKET_HOME").unwrap_or_else(|| below("XDG_DATA_HOME", ".local/share"));
        let config_dir = below("XDG_CONFIG_HOME", ".config");
        Self { vars, home, store_dir: data_dir.clone(), data_dir, config_dir }
    }

    /// Creates an environment without variables and home, with everything below `root`, so that nothing of the user's
    /// is read or written.
    pub(crate) fn below(root: &Path) -> Self {
        Self {
            vars: BTreeMap::new(),
            home: None,
            data_dir: root.join("data"),
            store_dir: root.join("data"),
            config_dir: root.join("config"),
        }
    }

    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.store_dir.join("sessions")
    }

    pub(crate) fn index_path(&self) -> PathBuf {
        self.store_dir.join("index.db")
    }

    pub(crate) fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Environment::from_vars(vars, Some("/home/u".into()))
    }

    #[test]
    fn directories_follow_the_xdg_specification() {
        for (vars, data, config) in [
            (&[][..], "/home/u/.local/share/becket", "/home/u/.config/becket"),
            (&[("XDG_DATA_HOME", "/d"), ("XDG_CONFIG_HOME", "/c")], "/d/becket", "/c/becket"),
            (&[("XDG_DATA_HOME", "relative")], "/home/u/.local/share/becket", "/home/u/.config/becket"),
            (&[("BECKET_HOME", "/b")], "/b", "/home/u/.config/becket"),
        ] {
            let got = environment(vars);
            assert_eq!(got.data_dir, PathBuf::from(data), "{vars:?}");
            assert_eq!(got.config_dir, PathBuf::from(config), "{vars:?}");
        }
    }
}
