//! The person's file of keys, `credentials.toml` beside their configuration: for those who do not keep keys in the environment.
//!
//! Owns where it is and who may read it: its owner alone, else it is refused. It is never in a project. What a key is for is
//! told by how it begins; a key is never shown.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::interactive::wishes;
use becket_config::Amend;
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) const FILE: &str = "credentials.toml";

pub(crate) fn path(environment: &Environment) -> PathBuf {
    environment.config_dir.join(FILE)
}

/// Its path and text, where there is one.
pub(crate) fn read(environment: &Environment) -> Result<Option<(PathBuf, String)>, Failure> {
    let path = path(environment);
    if crate::sys::open_to_others(&path) {
        return Err(Failure::usage(format!("others may read your keys: {}", path.display()))
            .hint(format!("chmod 600 {}", path.display())));
    }
    let text = becket_config::read_text(&path).map_err(|e| Failure::usage(e.to_string()))?;
    Ok(text.map(|text| (path, text)))
}

/// Adds a key. The file is new, and its owner's alone, or stays so.
pub(crate) fn keep(environment: &Environment, provider: &str, key: &str) -> Result<(), String> {
    // What stands there may not be shown with the rest of a message.
    let cannot = |_| {
        format!(
            "{} cannot be changed: it is not TOML of the form anthropic = \"KEY\"",
            path(environment).display()
        )
    };
    let text =
        read(environment).map_err(|failure| failure.message)?.map(|(_, text)| text).unwrap_or_default();
    let new = becket_config::amend(&text, "", provider, &Amend::Set(Value::from(key))).map_err(cannot)?;
    wishes::write(&path(environment), &new)
        .map_err(|e| format!("{} was not written: {e}", path(environment).display()))
}

/// The provider that a key is for, by how it begins.
pub(crate) fn provider(key: &str) -> Result<&'static str, String> {
    let begins = |start: &str| key.starts_with(start);
    match key {
        _ if begins("sk-or-") || begins("AIza") || begins("gsk_") || begins("xai-") => {
            Err("becket knows Anthropic and OpenAI; for another server: OPENAI_BASE_URL and OPENAI_API_KEY"
                .to_owned())
        }
        _ if !begins("sk-") => Err("Anthropic's keys begin with sk-ant-, OpenAI's with sk-".to_owned()),
        _ if !key.bytes().all(|b| b.is_ascii_graphic()) => {
            Err("a key has no blanks and no letters outside ASCII".to_owned())
        }
        _ if key.len() < 20 => Err("that is too short for a key".to_owned()),
        _ if begins("sk-ant-") => Ok("anthropic"),
        _ => Ok("openai"),
    }
}

/// Keys must not come into a repository with the configuration.
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
        keep(&environment, "openai", "sk-0123456789").unwrap();
        keep(&environment, "anthropic", "sk-ant-0123456789").unwrap();
        keep(&environment, "openai", "sk-other").unwrap();
        let (path, text) = read(&environment).unwrap().unwrap();
        assert_eq!(text, "openai = \"sk-other\"\nanthropic = \"sk-ant-0123456789\"\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&environment).unwrap_err().hint.unwrap().starts_with("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "sk-hidden").unwrap();
        let said = keep(&environment, "openai", "sk-secret-too").unwrap_err();
        assert!(!said.contains("hidden") && !said.contains("secret"), "{said}");
        assert!(may_be_kept(&environment, dir.path()));
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        assert!(!may_be_kept(&environment, dir.path()));
    }

    #[test]
    fn a_key_says_whose_it_is() {
        assert_eq!(provider("sk-ant-api03-0123456789"), Ok("anthropic"));
        assert_eq!(provider("sk-proj-0123456789abcdef"), Ok("openai"));
        for wrong in [
            "",
            "hello",
            "sk-",
            "sk-or-v1-0123456789abcdef",
            "AIza0123456789abcdefgh",
            "sk-ant-0123456789 0123456789",
            "sk-ant-0123456789\n0123456789",
            "sk-ant-ключ-0123456789",
        ] {
            assert!(provider(wrong).is_err(), "{wrong}");
        }
    }
}
