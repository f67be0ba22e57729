//! The process environment, read once: variables, home folder, and the directories in which becket stores files.
//!
//! Owns the rule for shared folders such as `/tmp`: what another user may have prepared there is neither read as the
//! user's configuration nor used for data. If becket's folder for data or for configuration would be such a place, a
//! private folder of this user is used instead.

use crate::plugins::{PluginDir, Plugins};
use becket_model::Proxies;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// Messages for the user about folders that are not used.
    pub notes: Vec<String>,
    /// The plugins of this run. The caller names their folders.
    pub plugins: Arc<Plugins>,
}

impl Environment {
    pub(crate) fn read() -> Self {
        let vars: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect();
        Self::from_vars(vars, std::env::home_dir(), crate::sys::private_temp_dir)
    }

    /// Returns the folder for data that can be created again at any time. `None` without a home folder.
    pub(crate) fn cache_dir(&self) -> Option<PathBuf> {
        let named = self.var("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| self.of_home(".cache")).map(|dir| dir.join("becket"))
    }

    /// Returns the user's Claude Code folder: `CLAUDE_CONFIG_DIR`, or `.claude` in the home folder.
    pub(crate) fn claude_dir(&self) -> Option<PathBuf> {
        self.named_or_of_home("CLAUDE_CONFIG_DIR", ".claude")
    }

    /// Returns the user's Codex folder: `CODEX_HOME`, or `.codex` in the home folder.
    pub(crate) fn codex_dir(&self) -> Option<PathBuf> {
        self.named_or_of_home("CODEX_HOME", ".codex")
    }

    fn named_or_of_home(&self, variable: &str, name: &str) -> Option<PathBuf> {
        match self.var(variable).map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(named) => is_own(&named).then_some(named),
            None => self.of_home(name),
        }
    }

    /// Returns the proxies that the environment names, for all network access.
    pub(crate) fn proxies(&self) -> Proxies {
        let either =
            |upper: &str, lower: &str| self.var(upper).or_else(|| self.var(lower)).map(str::to_owned);
        let all = either("ALL_PROXY", "all_proxy");
        Proxies {
            https: either("HTTPS_PROXY", "https_proxy").or_else(|| all.clone()),
            // In a CGI program, a client can set the upper-case HTTP_PROXY through a request header.
            http: if self.var("REQUEST_METHOD").is_some() {
                self.var("http_proxy").map(str::to_owned).or(all)
            } else {
                either("HTTP_PROXY", "http_proxy").or(all)
            },
            no_proxy: either("NO_PROXY", "no_proxy"),
        }
    }

    /// Returns a path in the home folder, unless another user may have written what is there.
    pub(crate) fn of_home(&self, name: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(name)).filter(|path| is_own(path))
    }

    /// `private` creates a folder that only this user can read and write. It is called only if it is needed.
    fn from_vars(
        vars: BTreeMap<String, String>,
        home: Option<PathBuf>,
        private: impl Fn() -> PathBuf,
    ) -> Self {
        // An empty or relative home would be a folder of the project.
        let home = home.filter(|home| home.is_absolute());
        // An empty or relative value is ignored, as the XDG specification demands.
        let absolute = |name: &str| vars.get(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let below = |xdg: &str, fallback: &str| {
            absolute(xdg)
                .or_else(|| home.as_ref().map(|home| home.join(fallback)))
                .map(|dir| dir.join("becket"))
        };
        let mut notes = Vec::new();
        let mut chosen = |what: &str, dir: Option<PathBuf>, instead: &str| {
            let why = match &dir {
                None => "there is no home folder (HOME)".to_owned(),
                Some(dir) => match crate::sys::written_by_others(dir) {
                    None => return dir.clone(),
                    Some(why) => format!("{} is not used: {why}", dir.display()),
                },
            };
            let private = private().join(instead);
            notes.push(format!("{why}, so becket stores {what} in {}", private.display()));
            private
        };
        let data = absolute("BECKET_HOME").or_else(|| below("XDG_DATA_HOME", ".local/share"));
        let data_dir = chosen("your data", data, "data");
        let config_dir = chosen("your configuration", below("XDG_CONFIG_HOME", ".config"), "config/becket");
        if home.is_none() && notes.len() == 2 {
            let place = data_dir.parent().unwrap_or(&data_dir).display();
            notes = vec![format!(
                "there is no home folder (HOME), so no configuration of yours is read and data is kept in {place}"
            )];
        }
        Self { vars, home, store_dir: data_dir.clone(), data_dir, config_dir, notes, plugins: Arc::default() }
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
            notes: Vec::new(),
            plugins: Arc::default(),
        }
    }

    /// Returns the environment with these plugins in place of its own, if there are any.
    pub(crate) fn with_plugins(&self, dirs: &[PluginDir]) -> Self {
        let mut out = self.clone();
        out.load_plugins(dirs);
        out
    }

    /// Reads the plugins in these folders. A value that cannot be used is a note for the user.
    pub(crate) fn load_plugins(&mut self, dirs: &[PluginDir]) {
        if !dirs.is_empty() {
            let plugins = Plugins::read(dirs, &self.data_dir.join("plugins"));
            self.notes.extend(plugins.warnings());
            self.plugins = Arc::new(plugins);
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

fn is_own(path: &Path) -> bool {
    crate::sys::written_by_others(path).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Environment::from_vars(vars, Some("/home/u".into()), || panic!("no private folder is needed"))
    }

    #[test]
    fn without_a_home_everything_is_in_a_private_folder() {
        for home in [None, Some(""), Some("home"), Some("./x")] {
            let home = home.map(PathBuf::from);
            let got = Environment::from_vars(BTreeMap::new(), home, || "/private".into());
            assert_eq!(got.home, None);
            assert_eq!(got.data_dir, PathBuf::from("/private/data"));
            assert_eq!(got.config_dir, PathBuf::from("/private/config/becket"));
            assert_eq!((got.claude_dir(), got.cache_dir()), (None, None));
            let want = "there is no home folder (HOME), so no configuration of yours is read and data is kept in /private";
            assert_eq!(got.notes, [want]);
        }
        let vars = [("BECKET_HOME".to_owned(), "/b".to_owned())].into_iter().collect();
        let got = Environment::from_vars(vars, None, || "/private".into());
        assert_eq!((got.data_dir, got.config_dir), ("/b".into(), "/private/config/becket".into()));
        assert_eq!(got.notes.len(), 1);
    }

    #[test]
    fn a_home_that_others_can_write_is_left_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        if !crate::sys::tests::reachable(dir.path()) {
            eprintln!("skipped: nobody else can reach the folder for temporary files");
            return;
        }
        let home = dir.path().join("home");
        std::fs::create_dir(&home).unwrap();
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let got = Environment::from_vars(BTreeMap::new(), Some(home.clone()), || "/private".into());
        // The folder around it is private, so nobody else can reach it.
        assert_eq!(got.config_dir, home.join(".config/becket"), "{:?}", got.notes);
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let got = Environment::from_vars(BTreeMap::new(), Some(home.clone()), || "/private".into());
        assert_eq!(got.config_dir, PathBuf::from("/private/config/becket"));
        assert_eq!((got.claude_dir(), got.of_home(".agents/skills")), (None, None));
        assert_eq!(got.notes.len(), 2);
        assert!(got.notes[1].contains("chmod go-w"), "{:?}", got.notes);
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
