//! The user's saved keys: in the system's keychain, or in `credentials.toml` beside their configuration. The file also
//! names the keys that are in the keychain.
//!
//! Owns the location of the file and its permissions: a file that others can read is refused. It is never in a project.
//! The provider of a key is recognized by its prefix. Keys are never shown.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::interactive::preferences;
use crate::keychain::Keychain;
use becket_config::{Amend, IN_KEYCHAIN};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) const FILE: &str = "credentials.toml";
pub(crate) const KEYCHAIN: &str = "the system's keychain";

/// The place that is tried first for a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyStore {
    /// The keychain, else the file.
    Keychain,
    File,
}

/// The place where a key was saved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyLocation {
    Keychain,
    /// The reason why the key is not in the keychain. `None`: the file was asked for.
    File(Option<String>),
}

impl KeyLocation {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Keychain => KEYCHAIN,
            Self::File(_) => FILE,
        }
    }

    /// Returns the place for a message on one line.
    pub(crate) fn describe(&self, environment: &Environment) -> String {
        match self {
            Self::Keychain => KEYCHAIN.to_owned(),
            Self::File(None) => path(environment).display().to_string(),
            Self::File(Some(why)) => {
                format!("{} (not in the keychain: {why})", path(environment).display())
            }
        }
    }
}

pub(crate) fn path(environment: &Environment) -> PathBuf {
    environment.config_dir.join(FILE)
}

/// Returns path and text of `credentials.toml`, if it exists.
pub(crate) fn read(environment: &Environment) -> Result<Option<(PathBuf, String)>, Failure> {
    let path = path(environment);
    if crate::sys::open_to_others(&path) {
        return Err(Failure::usage(format!("other users can read your keys: {}", path.display()))
            .hint(format!("chmod 600 {}", path.display())));
    }
    let text = becket_config::read_text(&path).map_err(|e| Failure::usage(e.to_string()))?;
    Ok(text.map(|text| (path, text)))
}

/// Stores a key under this name (`becket_config::kept_name`) in the keychain. If that does not work, the key is stored in
/// the file, which is readable by its owner alone.
pub(crate) fn keep(
    environment: &Environment,
    name: &str,
    key: &str,
    place: KeyStore,
) -> Result<KeyLocation, String> {
    let kept = match place {
        KeyStore::File => KeyLocation::File(None),
        KeyStore::Keychain => {
            match Keychain::from_environment(environment).and_then(|keychain| keychain.save(name, key)) {
                Ok(()) => KeyLocation::Keychain,
                Err(why) => KeyLocation::File(Some(why)),
            }
        }
    };
    write(environment, name, if kept == KeyLocation::Keychain { IN_KEYCHAIN } else { key })?;
    Ok(kept)
}

/// Writes a value into `credentials.toml`.
fn write(environment: &Environment, name: &str, value: &str) -> Result<(), String> {
    // The parser's message may quote the file, which contains keys, so it is not shown.
    let cannot = |_| {
        format!(
            "{} cannot be changed: it is not TOML of the form anthropic = \"KEY\"",
            path(environment).display()
        )
    };
    let text =
        read(environment).map_err(|failure| failure.message)?.map(|(_, text)| text).unwrap_or_default();
    let new = becket_config::amend(&text, "", name, &Amend::Set(Value::from(value))).map_err(cannot)?;
    preferences::write(&path(environment), &new)
        .map_err(|e| format!("{} was not written: {e}", path(environment).display()))
}

/// Removes the keys of a provider, for its own address and for others, from the file and from the keychain. Returns false
/// if there was none.
pub(crate) fn forget(environment: &Environment, provider: &str) -> Result<bool, String> {
    let Some((path, text)) = read(environment).map_err(|failure| failure.message)? else { return Ok(false) };
    // Lines have the form `NAME = …` or `"NAME@HOST" = …`.
    let name = |line: &str| {
        line.split_once('=').map_or("", |(name, _)| name.trim().trim_matches(['"', '\''])).to_owned()
    };
    let is_its_line = |line: &&str| name(line).split('@').next() == Some(provider);
    for line in text.lines().filter(is_its_line).filter(|line| line.contains(IN_KEYCHAIN)) {
        // If the keychain cannot remove a key, its line in the file is kept, so that a later attempt can.
        Keychain::from_environment(environment)
            .and_then(|keychain| keychain.remove(&name(line)))
            .map_err(|why| format!("the key for {provider} is still in the system's keychain: {why}"))?;
    }
    let kept: Vec<&str> = text.lines().filter(|line| !is_its_line(line)).collect();
    if kept.len() == text.lines().count() {
        return Ok(false);
    }
    let new: String = kept.iter().flat_map(|line| [line, "\n"]).collect();
    preferences::write(&path, &new).map_err(|e| format!("{} was not written: {e}", path.display()))?;
    Ok(true)
}

/// Returns the provider of a key, recognized by its prefix.
pub(crate) fn provider(key: &str) -> Result<&'static str, String> {
    let begins = |start: &str| key.starts_with(start);
    match key {
        _ if STARTS.iter().all(|(start, _)| !begins(start)) => {
            let known: Vec<&str> = STARTS.iter().map(|(start, _)| *start).collect();
            Err(format!(
                "it does not begin like a key of a known provider ({}); becket login PROVIDER takes others",
                known.join(", ")
            ))
        }
        _ if !key.bytes().all(|b| b.is_ascii_graphic()) => {
            Err("a key has no spaces and only ASCII characters".to_owned())
        }
        _ if key.len() < 20 => Err("that is too short for a key".to_owned()),
        _ => Ok(STARTS.iter().find(|(start, _)| begins(start)).map_or("openai", |(_, provider)| provider)),
    }
}

/// Returns the beginning that keys of this provider have, if `key` does not have it.
pub(crate) fn missing_start(provider: &str, key: &str) -> Option<&'static str> {
    let (start, _) = STARTS.iter().find(|(_, of)| *of == provider)?;
    (!key.starts_with(start)).then_some(*start)
}

/// True if text is probably a key: it begins like the keys of a known provider, or is long with many digits.
pub(crate) fn looks_like_key(text: &str) -> bool {
    const SHORTEST: usize = 8;
    const LONG: usize = 24;
    let begins = STARTS.iter().any(|(start, _)| text.starts_with(start));
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    (begins && text.len() >= SHORTEST) || (text.len() >= LONG && digits >= 3 && !text.contains("://"))
}

/// Prefixes of keys and their providers. A longer prefix comes before a shorter one that it begins with.
const STARTS: &[(&str, &str)] = &[
    ("sk-ant-", "anthropic"),
    ("sk-or-", "openrouter"),
    ("AIza", "google"),
    ("gsk_", "groq"),
    ("xai-", "xai"),
    ("hf_", "huggingface"),
    ("sk-", "openai"),
];

/// True if keys may be stored: they must not get into a repository that contains the configuration.
pub(crate) fn may_be_kept(environment: &Environment, root: &Path) -> bool {
    !(root.join(".git").exists() && environment.config_dir.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn keys_are_the_person_s_alone() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        assert!(read(&environment).unwrap().is_none());
        let keep = |name: &str, key: &str| keep(&environment, name, key, KeyStore::File);
        assert_eq!(keep("openai", "sk-0123456789"), Ok(KeyLocation::File(None)));
        keep("anthropic", "sk-ant-0123456789").unwrap();
        keep("openai", "sk-other").unwrap();
        let (path, text) = read(&environment).unwrap().unwrap();
        assert_eq!(text, "openai = \"sk-other\"\nanthropic = \"sk-ant-0123456789\"\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&environment).unwrap_err().hint.unwrap().starts_with("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "sk-hidden").unwrap();
        let said = keep("openai", "sk-secret-too").unwrap_err();
        assert!(!said.contains("hidden") && !said.contains("secret"), "{said}");
        std::fs::write(&path, "openai = \"sk-1\"\n# mine\ngroq = \"gsk_1\"\n").unwrap();
        keep("groq@127.0.0.1:8080", "key-of-a-server").unwrap();
        assert!(
            read(&environment).unwrap().unwrap().1.contains("\"groq@127.0.0.1:8080\" = \"key-of-a-server\"")
        );
        assert_eq!(forget(&environment, "groq"), Ok(true));
        assert_eq!(forget(&environment, "groq"), Ok(false));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "openai = \"sk-1\"\n# mine\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(may_be_kept(&environment, dir.path()));
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        assert!(!may_be_kept(&environment, dir.path()));
    }

    #[test]
    fn a_key_says_whose_it_is() {
        assert_eq!(missing_start("groq", "short"), Some("gsk_"));
        assert_eq!(missing_start("groq", "gsk_0123"), None);
        assert_eq!(missing_start("openai", "sk-or-0123"), None);
        assert_eq!(missing_start("mistral", "anything"), None);
        assert_eq!(provider("sk-ant-api03-0123456789"), Ok("anthropic"));
        assert_eq!(provider("sk-proj-0123456789abcdef"), Ok("openai"));
        assert_eq!(provider("sk-or-v1-0123456789abcdef"), Ok("openrouter"));
        assert_eq!(provider("AIza0123456789abcdefgh"), Ok("google"));
        for wrong in [
            "",
            "hello",
            "sk-",
            "sk-ant-0123456789 0123456789",
            "sk-ant-0123456789\n0123456789",
            "sk-ant-ключ-0123456789",
        ] {
            assert!(provider(wrong).is_err(), "{wrong}");
        }
    }
}
