//! The list of files that hold secrets, and the test if a path is on it.
//!
//! Nothing is looked up on disk: a place is secret by its name, even if it does not exist. A search tests every file that it
//! finds, so a name that is not on the list costs no allocation and only a few look-ups.

use globset::GlobBuilder;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Component, Path};
use std::sync::LazyLock;

const SECRET_DIRS: &[&str] =
    &[".ssh", ".aws", ".gnupg", ".azure", ".kube", ".password-store", ".docker", "gcloud", "keyrings", "gh"];

const SECRET_FILES: &[&str] = &[
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    ".envrc.*",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_*_sk",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "*.pkcs12",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".vault-token",
    ".sentryclirc",
    ".dockercfg",
    ".dockerconfigjson",
    ".boto",
    ".s3cfg",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "credentials.yml",
    "credentials.yaml",
    "credentials.db",
    ".credentials",
    ".credentials.*",
    "secret.*",
    "secrets.*",
    "service-account*.json",
    "service_account*.json",
    "client_secret*.json",
    "application_default_credentials.json",
    "*.tfvars",
    "*.tfstate",
    "shadow",
    "gshadow",
    "sudoers",
    "environ",
    "auth.json",
    "hosts.yml",
    "kubeconfig",
    "*.kubeconfig",
    "deploy_key",
    "*_deploy_key",
    ".bash_history",
    ".zsh_history",
    ".psql_history",
    ".python_history",
    ".node_repl_history",
];

/// Names that look like secrets but are public by convention.
const NOT_SECRET: &[&str] = &[
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    ".env.defaults",
    "example.env",
    "sample.env",
    "template.env",
    "secrets.rs",
    "secrets.md",
    "secrets.py",
    "secrets.go",
    "secrets.ts",
    "secrets.js",
    "secret.rs",
    "secret.py",
    "secret.go",
    "secret.ts",
    "secret.js",
    "secret.md",
];

/// The component of `path` that makes it a secret.
pub(crate) fn secret(path: &Path) -> Option<String> {
    let config = path.components().any(|c| matches!(c, Component::Normal(name) if is_config(name)));
    let dir = path.components().find_map(|c| match c {
        Component::Normal(name) => secret_dir(name, config),
        _ => None,
    });
    dir.map(str::to_owned).or_else(|| secret_name(path))
}

/// True if a file that a search found below `root` may hold secrets. The folders above `root` were judged before.
pub fn is_secret_below(root: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(root).unwrap_or(path);
    // Cheap test first: all folders on the list are hidden, or count only below a hidden folder.
    let hidden = |path: &Path| path.as_os_str().as_encoded_bytes().windows(2).any(|pair| pair == b"/.");
    let dirs = below.as_os_str().as_encoded_bytes().first() == Some(&b'.') || hidden(path);
    if dirs {
        let config = path.components().any(|c| matches!(c, Component::Normal(name) if is_config(name)));
        let in_dir = below
            .components()
            .any(|c| matches!(c, Component::Normal(name) if secret_dir(name, config).is_some()));
        if in_dir {
            return true;
        }
    }
    secret_name(path).is_some()
}

fn is_config(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".config") || name.eq_ignore_ascii_case(".local")
}

/// Returns the entry of [`SECRET_DIRS`] for a folder `name`. Names without a dot (`gcloud`, `gh`) count only if `config`
/// is true: the path has `.config` or `.local` in it.
fn secret_dir(name: &OsStr, config: bool) -> Option<&'static str> {
    let find = |name: &str| SECRET_DIRS.iter().find(|dir| **dir == name).copied();
    let dir = with_lower(name, find)?;
    let ambiguous = !dir.starts_with('.');
    (!ambiguous || config).then_some(dir)
}

/// The file's name, if it is on the list.
fn secret_name(path: &Path) -> Option<String> {
    let Some(Component::Normal(last)) = path.components().next_back() else { return None };
    let named = with_lower(last, |name| {
        // Editors keep backups and locks under the same name with these marks around it.
        let name = name.trim_end_matches(['~', '#']).trim_start_matches(".#").trim_start_matches('#');
        NAMES.fits(name) && !NOT_SECRET.contains(&name)
    });
    if !named {
        return None;
    }
    let last = last.to_string_lossy().to_lowercase();
    let fits = match last.as_str() {
        "shadow" | "gshadow" | "sudoers" | "environ" => path.starts_with("/etc") || path.starts_with("/proc"),
        "hosts.yml" | "auth.json" => path.components().any(|c| match c {
            Component::Normal(name) => name.as_encoded_bytes().first() == Some(&b'.'),
            _ => false,
        }),
        _ => true,
    };
    fits.then_some(last)
}

/// Calls `look` with `name` in lower case. A short ASCII name is converted on the stack, without an allocation.
fn with_lower<T>(name: &OsStr, look: impl FnOnce(&str) -> T) -> T {
    let bytes = name.as_encoded_bytes();
    let mut buffer = [0; 80];
    if let Some(short) = buffer.get_mut(..bytes.len())
        && bytes.is_ascii()
    {
        short.copy_from_slice(bytes);
        short.make_ascii_lowercase();
        if let Ok(name) = std::str::from_utf8(short) {
            return look(name);
        }
    }
    look(&name.to_string_lossy().to_lowercase())
}

/// [`SECRET_FILES`], sorted by the form of the pattern.
struct Names {
    exact: HashSet<&'static str>,
    /// Extensions, for patterns like `*.pem`.
    endings: HashSet<&'static str>,
    /// The text before and after the star, for other patterns.
    around: Vec<(&'static str, &'static str)>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let mut names = Names { exact: HashSet::new(), endings: HashSet::new(), around: Vec::new() };
    for pattern in SECRET_FILES {
        match pattern.split_once('*') {
            None => _ = names.exact.insert(pattern),
            Some(("", ending)) if ending.rfind('.') == Some(0) => _ = names.endings.insert(&ending[1..]),
            Some(around) => names.around.push(around),
        }
    }
    names
});

impl Names {
    fn fits(&self, name: &str) -> bool {
        self.exact.contains(name)
            || name.rsplit_once('.').is_some_and(|(_, ending)| self.endings.contains(ending))
            || self.around.iter().any(|(start, end)| {
                name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
            })
    }
}

/// The secret that a pattern for file names is likely to match, if there is one.
pub(crate) fn pattern_meets_secret(pattern: &str) -> Option<String> {
    const SAMPLES: &[&str] = &[
        ".env",
        ".env.local",
        ".netrc",
        ".npmrc",
        ".git-credentials",
        "id_rsa",
        "id_ed25519",
        "server.pem",
        "private.key",
        "credentials.json",
        "secrets.yml",
        "prod.env",
    ];
    let path = Path::new(pattern);
    if let Some(found) = secret(path) {
        return Some(found);
    }
    let last = path.file_name()?.to_str()?.to_lowercase();
    let says_something = last.starts_with('.') || last.chars().any(char::is_alphanumeric);
    // A broad pattern such as `*.json` or `s*` is not meant for secrets. A hidden or key-like pattern may be.
    let hidden = last.starts_with('.')
        || ["id_", "cred", "secret", "env", "pem", "key"].iter().any(|w| last.contains(w));
    if !says_something || !hidden || !last.contains(['*', '?', '[', '{']) {
        return None;
    }
    let glob = GlobBuilder::new(&last).literal_separator(true).build().ok()?.compile_matcher();
    SAMPLES.iter().find(|s| glob.is_match(s)).map(|s| (*s).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::wild;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_known_by_name() {
        for path in [
            "/p/.env",
            "/p/.env.production",
            "/p/sub/.ENV",
            "/home/u/.ssh/config",
            "/home/u/.aws/credentials",
            "/p/key.pem",
            "/home/u/.netrc",
            "/home/u/.config/gh/hosts.yml",
            "/etc/shadow",
            "/proc/1/environ",
            "/p/secrets.yml",
            "/p/credentials",
        ] {
            assert!(secret(Path::new(path)).is_some(), "{path}");
        }
        for path in [
            "/p/.env.example",
            "/p/src/environ.rs",
            "/p/src/secrets.rs",
            "/p/gh/main.go",
            "/p/environment",
            "/p/id_rsa.pub",
            "/p/src/credentials/mod.rs",
            "/p/hosts.yml",
            "/p/shadow",
        ] {
            assert_eq!(secret(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn what_was_named_is_judged_already() {
        let below = |root: &str, path: &str| is_secret_below(Path::new(root), Path::new(path));
        assert!(below("/p", "/p/a/.env") && below("/p", "/p/.ssh/config") && below("/p", "/p/.SSH/config"));
        assert!(below("/p", "/p/.config/gh/x") && below("/p/.config", "/p/.config/gh/x"));
        assert!(!below("/home/u/.ssh", "/home/u/.ssh/config"));
        assert!(below("/home/u/.ssh", "/home/u/.ssh/id_rsa"));
        assert!(!below("/p", "/p/gh/main.go") && !below("/home/u/.cache/p", "/home/u/.cache/p/main.go"));
    }

    /// A name from the list, with its stars replaced and its case changed.
    fn name() -> impl Strategy<Value = String> {
        let listed = proptest::sample::select([SECRET_DIRS, SECRET_FILES, NOT_SECRET].concat());
        prop_oneof![
            4 => (listed, "[a-z.k\u{212a}_-]{0,4}", any::<bool>(), "[a-z.]{0,2}").prop_map(|(name, star, up, tail)| {
                let name = name.replace('*', &star);
                if up { name.to_uppercase() } else { name + &tail }
            }),
            // `..` would lead away from the name before it.
            1 => "[a-zA-Z._]{1,100}".prop_filter("a name", |name| name.chars().any(|c| c != '.')),
        ]
    }

    proptest! {
        /// The look-ups give the same results as matching the patterns one by one.
        #[test]
        fn looking_up_is_matching(names in proptest::collection::vec(name(), 1..4)) {
            let path = Path::new("/").join(names.join("/"));
            let lower: Vec<String> = names.iter().flat_map(|n| n.split('/')).filter(|n| !matches!(*n, "" | "." | "..")).map(str::to_lowercase).collect();
            let Some(last) = lower.last() else { return Ok(()) };
            let config = lower.iter().any(|n| n == ".config" || n == ".local");
            let in_dir = lower.iter().any(|n| SECRET_DIRS.contains(&n.as_str()) && (n.starts_with('.') || config));
            let mut named = SECRET_FILES.iter().any(|p| wild(p, last)) && !NOT_SECRET.contains(&last.as_str());
            named &= match last.as_str() {
                "shadow" | "gshadow" | "sudoers" | "environ" => false,
                "hosts.yml" | "auth.json" => lower.iter().any(|n| n.starts_with('.')),
                _ => true,
            };
            prop_assert_eq!(secret(&path).is_some(), in_dir || named, "{:?}", path);
            prop_assert_eq!(is_secret_below(Path::new("/"), &path), in_dir || named, "{:?}", path);
        }
    }
}
