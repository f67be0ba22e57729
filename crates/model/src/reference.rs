//! `provider/name`: how a user says which model.

use crate::{ErrorKind, ModelError};
use std::fmt;
use std::path::PathBuf;

/// Which adapter talks to the model, and what the model is called there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelRef {
    /// `anthropic/NAME`: Anthropic Messages.
    Anthropic(String),
    /// `openai/NAME`: OpenAI Chat Completions and everything compatible. The name may contain slashes.
    OpenAi(String),
    /// `script:FILE`: answers from a file.
    Script(PathBuf),
}

impl ModelRef {
    /// Parses what the user wrote. A bare `claude-…`, `gpt-…` or `oN…` names its provider by itself.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] that says which forms there are.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let text = text.trim();
        if let Some(file) = text.strip_prefix("script:") {
            if file.is_empty() {
                return Err(unknown(text, "`script:` needs a file: script:path/to/script.json"));
            }
            return Ok(Self::Script(PathBuf::from(file)));
        }
        if text.contains(char::is_control) {
            return Err(unknown(
                &text.escape_debug().to_string(),
                "A name is one line without control characters.",
            ));
        }
        match text.split_once('/') {
            Some(("anthropic", name)) if !name.is_empty() => Ok(Self::Anthropic(name.to_owned())),
            Some(("openai", name)) if !name.is_empty() => Ok(Self::OpenAi(name.to_owned())),
            _ if text.starts_with("claude-") => Ok(Self::Anthropic(text.to_owned())),
            _ if bare_openai(text) => Ok(Self::OpenAi(text.to_owned())),
            _ => Err(unknown(
                text,
                "Write anthropic/NAME, openai/NAME (also for llama.cpp, Ollama, vLLM, LM Studio and OpenRouter, \
                 with OPENAI_BASE_URL), or script:FILE.",
            )),
        }
    }

    pub fn provider(&self) -> &'static str {
        match self {
            Self::Anthropic(_) => "anthropic",
            Self::OpenAi(_) => "openai",
            Self::Script(_) => "script",
        }
    }
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
            Self::Anthropic(name) => write!(f, "anthropic/{name}"),
            Self::OpenAi(name) => write!(f, "openai/{name}"),
            Self::Script(file) => write!(f, "script:{}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_reference() {
        for (text, want) in [
            ("anthropic/claude-sonnet-5", Some(ModelRef::Anthropic("claude-sonnet-5".into()))),
            ("claude-sonnet-5", Some(ModelRef::Anthropic("claude-sonnet-5".into()))),
            ("openai/gpt-5.6", Some(ModelRef::OpenAi("gpt-5.6".into()))),
            ("openai//models/q4/qwen.gguf", Some(ModelRef::OpenAi("/models/q4/qwen.gguf".into()))),
            ("openai/anthropic/claude-opus-5", Some(ModelRef::OpenAi("anthropic/claude-opus-5".into()))),
            ("gpt-5", Some(ModelRef::OpenAi("gpt-5".into()))),
            ("o3", Some(ModelRef::OpenAi("o3".into()))),
            ("script:demo.json", Some(ModelRef::Script("demo.json".into()))),
            ("script:", None),
            ("openai/", None),
            ("ollama/x", None),
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
