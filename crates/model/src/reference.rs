//! Parses `provider/name`, the form in which users name a model.

use crate::{ErrorKind, ModelError, catalog};
use std::fmt;
use std::path::PathBuf;

/// A provider and the name of a model there, or a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelRef {
    /// `PROVIDER/NAME`. The name may contain slashes.
    Named { provider: String, name: String },
    /// `script:FILE`: answers from a file.
    Script(PathBuf),
    /// `replay:FILE`: the answers of a recorded run.
    Replay(PathBuf),
}

impl ModelRef {
    /// A model of Anthropic.
    pub fn anthropic(name: String) -> Self {
        Self::Named { provider: "anthropic".to_owned(), name }
    }

    /// A model of OpenAI, or of the server at its base URL.
    pub fn openai(name: String) -> Self {
        Self::Named { provider: "openai".to_owned(), name }
    }

    /// A model of a named provider, built in or configured. Neither name is checked.
    pub fn named(provider: &str, name: &str) -> Self {
        Self::Named { provider: provider.to_owned(), name: name.to_owned() }
    }

    /// Parses a user's input. The name of a model in the catalog is enough: the provider follows from it.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotFound`] with the forms that are accepted.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let text = text.trim();
        if let Some(file) = text.strip_prefix("replay:") {
            if file.is_empty() {
                return Err(unknown(
                    text,
                    "`replay:` needs a file that `becket --record FILE` wrote: replay:FILE",
                ));
            }
            return Ok(Self::Replay(PathBuf::from(file)));
        }
        if let Some(file) = text.strip_prefix("script:") {
            if file.is_empty() {
                return Err(unknown(text, "`script:` needs a file: script:path/to/script.json"));
            }
            return Ok(Self::Script(PathBuf::from(file)));
        }
        if text.contains(char::is_control) {
            return Err(unknown(
                &becket_types::invisible::escaped(text),
                "A name is one line without control characters.",
            ));
        }
        match text.split_once('/') {
            Some((provider, name)) if is_provider(provider) && !name.is_empty() => {
                Ok(Self::named(provider, name))
            }
            _ if text.starts_with("claude-") => Ok(Self::anthropic(text.to_owned())),
            _ if bare_openai(text) => Ok(Self::openai(text.to_owned())),
            _ => catalog::maker(text).map(|provider| Self::named(provider, text)).ok_or_else(|| {
                unknown(
                    text,
                    "Write PROVIDER/NAME, such as anthropic/NAME, openai/NAME, ollama/NAME or openrouter/NAME \
                     (`becket models` lists them), script:FILE or replay:FILE.",
                )
            }),
        }
    }

    /// Returns the provider's name; `script` or `replay` if there is no provider.
    pub fn provider(&self) -> &str {
        match self {
            Self::Named { provider, .. } => provider,
            Self::Script(_) => "script",
            Self::Replay(_) => "replay",
        }
    }

    /// The name on the wire; empty for a script and a recording.
    pub fn name(&self) -> &str {
        match self {
            Self::Named { name, .. } => name,
            Self::Script(_) | Self::Replay(_) => "",
        }
    }
}

fn is_provider(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

fn bare_openai(text: &str) -> bool {
    let mut chars = text.chars();
    let reasoning = chars.next() == Some('o') && chars.next().is_some_and(|c| c.is_ascii_digit());
    !text.contains('/') && (text.starts_with("gpt-") || reasoning)
}

fn unknown(text: &str, hint: &str) -> ModelError {
    ModelError::new(ErrorKind::NotFound, format!("`{text}` names no model that becket can talk to."))
        .hint(hint)
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { provider, name } => write!(f, "{provider}/{name}"),
            Self::Script(file) => write!(f, "script:{}", file.display()),
            Self::Replay(file) => write!(f, "replay:{}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_reference() {
        for (text, want) in [
            ("anthropic/claude-sonnet-5", Some(ModelRef::anthropic("claude-sonnet-5".into()))),
            ("claude-sonnet-5", Some(ModelRef::anthropic("claude-sonnet-5".into()))),
            ("openai/gpt-5.6", Some(ModelRef::openai("gpt-5.6".into()))),
            ("openai//models/q4/qwen.gguf", Some(ModelRef::openai("/models/q4/qwen.gguf".into()))),
            ("openai/anthropic/claude-opus-5", Some(ModelRef::openai("anthropic/claude-opus-5".into()))),
            ("gpt-5", Some(ModelRef::openai("gpt-5".into()))),
            ("o3", Some(ModelRef::openai("o3".into()))),
            ("script:demo.json", Some(ModelRef::Script("demo.json".into()))),
            ("script:", None),
            ("replay:run.jsonl", Some(ModelRef::Replay("run.jsonl".into()))),
            ("replay:", None),
            ("openai/", None),
            ("ollama/x", Some(ModelRef::named("ollama", "x"))),
            (
                "openrouter/anthropic/claude-opus-5",
                Some(ModelRef::named("openrouter", "anthropic/claude-opus-5")),
            ),
            ("gemini-2.5-pro", Some(ModelRef::named("google", "gemini-2.5-pro"))),
            ("deepseek-v3.2", Some(ModelRef::named("deepseek", "deepseek-v3.2"))),
            ("qwen3-32b", None),
            ("/models/x.gguf", None),
            ("Ollama/x", None),
            ("openai/x\ny", None),
            ("", None),
        ] {
            let got = ModelRef::parse(text);
            assert_eq!(got.as_ref().ok(), want.as_ref(), "{text}");
            if let Ok(reference) = got {
                assert_eq!(ModelRef::parse(&reference.to_string()).unwrap(), reference);
            }
        }
    }
}
