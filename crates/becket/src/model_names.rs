//! The model that a user means: aliases of the configuration, one-word names, whole names, and parts of a name.
//!
//! A part of a name is enough if it fits one model (`opus-4.5`, `gpt5`). If it fits several, nothing is guessed: the
//! failure lists them. Does not open a model and asks no server.

use crate::failure::Failure;
use becket_model::{ErrorKind, ModelError, ModelInfo, ModelRef, Settings, catalog};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Models to use if none is named and the key of the provider exists, in this order.
pub(crate) const DEFAULT_MODELS: &[(&str, &str)] = &[
    ("anthropic", "anthropic/claude-sonnet-5-5"),
    ("openai", "openai/gpt-5.6"),
    ("openrouter", "openrouter/anthropic/claude-sonnet-5.5"),
    ("deepseek", "deepseek/deepseek-v4-pro"),
    ("xai", "xai/grok-4.3"),
    ("mistral", "mistral/devstral-2512"),
    ("moonshot", "moonshot/kimi-k3"),
    ("zai", "zai/glm-5.1"),
    ("minimax", "minimax/MiniMax-M2.5"),
    ("google", "google/gemini-3.1-pro-preview"),
    ("qwen", "qwen/qwen3-coder-plus"),
    ("vercel", "vercel/anthropic/claude-sonnet-5.5"),
    ("groq", "groq/openai/gpt-oss-120b"),
    ("cerebras", "cerebras/gpt-oss-120b"),
    ("together", "together/openai/gpt-oss-120b"),
    ("fireworks", "fireworks/accounts/fireworks/models/gpt-oss-120b"),
    ("huggingface", "huggingface/openai/gpt-oss-120b"),
    ("nvidia", "nvidia/openai/gpt-oss-120b"),
    ("cloudflare", "cloudflare/@cf/openai/gpt-oss-120b"),
    ("bedrock", "bedrock/global.anthropic.claude-sonnet-4-6"),
    ("vertex", "vertex/gemini-3.1-pro-preview"),
];

/// A user's own names of models, `models.aliases`.
pub(crate) type Aliases = BTreeMap<String, String>;

/// A model and, if the user did not write its whole name, a note that says which model is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundModel {
    pub reference: ModelRef,
    pub note: Option<String>,
}

/// Maximum number of names of models that an error message lists.
const MAX_LISTED: usize = 5;
/// Families of models with a name of one word.
const FAMILIES: [&str; 4] = ["sonnet", "opus", "haiku", "fable"];
/// Fewest letters and digits of a part of a name. Less fits almost anything.
const SHORTEST: usize = 3;

/// Finds the model with this name.
///
/// # Errors
///
/// Returns a failure with the nearest names if the name fits no model, or several.
pub(crate) fn find(name: &str, aliases: &Aliases, settings: &Settings) -> Result<FoundModel, Failure> {
    let name = name.trim();
    if let Some(target) = aliases.get(name) {
        let reference = ModelRef::parse(&full_name(target)).map_err(|e| {
            let failure = usage(&e);
            Failure { message: format!("models.aliases.{name}: {}", failure.message), ..failure }
        })?;
        return Ok(FoundModel { reference, note: None });
    }
    // A name with blanks is taken for words to search by, unless it has a `/` or `:`, as a file's name has.
    let is_words = name.contains(' ') && !name.contains(['/', ':']);
    let has_key = |id: &str| {
        let provider = id.split('/').next().unwrap_or_default();
        settings.endpoint(provider).is_some_and(|endpoint| endpoint.credential.is_some())
    };
    // Models that several providers serve are known by the name that each provider gives them.
    let served: Vec<&str> = DEFAULT_MODELS.iter().map(|(_, id)| *id).filter(|id| has_key(id)).collect();
    let error = match ModelRef::parse(&full_name(name)) {
        Ok(reference) if !is_words => {
            // A bare name means its maker, unless only others that serve this model have a key.
            let is_it = |id: &&&str| id.rsplit('/').next() == Some(name);
            if let Some(id) = served.iter().find(is_it).filter(|_| {
                !name.contains('/') && !has_key(&reference.to_string()) && reference.provider() == "openai"
            }) {
                let reference = ModelRef::parse(id).map_err(|e| usage(&e))?;
                return Ok(FoundModel {
                    note: Some(format!("`{name}` means the model {reference}")),
                    reference,
                });
            }
            return Ok(FoundModel { reference, note: None });
        }
        Ok(_) => {
            ModelError::new(ErrorKind::NotFound, format!("`{name}` names no model that becket can talk to."))
                .hint("Write PROVIDER/NAME (`becket models` lists them).")
        }
        Err(error) => error,
    };
    if name.contains(':') || name.contains(char::is_control) {
        return Err(usage(&error));
    }
    let known = known_models(settings);
    let mut ids: Vec<&str> = known.iter().map(|info| info.id.as_str()).collect();
    ids.extend(served.into_iter().filter(|id| !known.iter().any(|info| info.id == *id)));
    let usable = |id: &str| {
        let provider = id.split('/').next().unwrap_or_default();
        settings.endpoint(provider).is_some_and(|e| e.credential.is_some() || !e.needs_key)
    };
    let fitting = best_matches(name, &ids);
    // The same model may be known at several providers. The one that can be used is meant: one with a key before one that
    // needs none, because such a server may not run.
    let keyed: Vec<&str> = fitting.iter().copied().filter(|id| has_key(id)).collect();
    let usable: Vec<&str> = fitting.iter().copied().filter(|id| usable(id)).collect();
    let usable = if keyed.len() == 1 { keyed } else { usable };
    match (fitting.as_slice(), usable.as_slice()) {
        ([one], _) | (_, [one]) => {
            let reference = ModelRef::parse(one).map_err(|e| usage(&e))?;
            Ok(FoundModel { note: Some(format!("`{name}` means the model {reference}")), reference })
        }
        ([], _) => {
            let mut failure = usage(&error);
            let bare = name.rsplit('/').next().unwrap_or(name);
            let names = known.iter().map(|info| info.name.as_str()).chain(aliases.keys().map(String::as_str));
            // A single word is more likely a misspelled name of a family, such as `sonet`.
            let names = names.chain(FAMILIES);
            let near = becket_tool::text::nearest_few(bare, names, 3);
            if bare.len() >= SHORTEST && !near.is_empty() {
                let ids = near.iter().map(|near| {
                    let info = known.iter().find(|info| info.name == **near);
                    info.map_or(*near, |info| info.id.as_str())
                });
                let near: Vec<&str> = ids.collect();
                let rest = failure.hint.map(|hint| format!(" {hint}")).unwrap_or_default();
                failure.hint = Some(format!("did you mean {}?{rest}", near.join(" or ")));
            }
            Err(failure)
        }
        (several, _) => {
            let more = several.len().saturating_sub(MAX_LISTED);
            let mut listed = several[..several.len().min(MAX_LISTED)].join(", ");
            if more > 0 {
                let _ = write!(listed, " and {more} more (`becket models`)");
            }
            Err(Failure::usage(format!("`{name}` fits several models"))
                .hint(format!("name one of them: {listed}")))
        }
    }
}

/// Returns the models to whose names this one fits best.
fn best_matches<'a>(name: &str, ids: &[&'a str]) -> Vec<&'a str> {
    let wanted = words(name);
    if wanted.iter().map(String::len).sum::<usize>() < SHORTEST {
        return Vec::new();
    }
    let ranked: Vec<(u8, &str)> = ids.iter().filter_map(|id| Some((rank(&wanted, id)?, *id))).collect();
    let best = ranked.iter().map(|(rank, _)| *rank).min();
    ranked.into_iter().filter(|(rank, _)| Some(*rank) == best).map(|(_, id)| id).collect()
}

/// Returns how well words fit to a model: 0 all of its name, 1 its end, 2 a part, 3 its words with others between them.
fn rank(wanted: &[String], id: &str) -> Option<u8> {
    let name = words(id.split_once('/').map_or(id, |(_, name)| name));
    let whole = words(id);
    // A gateway's name of a model begins with its maker.
    let last = words(id.rsplit('/').next().unwrap_or(id));
    if name == wanted || whole == wanted || last == wanted {
        return Some(0);
    }
    if name.ends_with(wanted) {
        return Some(1);
    }
    if whole.windows(wanted.len()).any(|some| some == wanted) {
        return Some(2);
    }
    let mut rest = whole.iter();
    wanted.iter().all(|word| rest.any(|one| one == word)).then_some(3)
}

/// Divides a name into its words and numbers: `gpt5` and `GPT-5` are the same.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = None;
    for c in name.chars().flat_map(char::to_lowercase) {
        let kind = c.is_alphanumeric().then(|| c.is_ascii_digit());
        match (kind, words.last_mut()) {
            (Some(_), Some(word)) if kind == last => word.push(c),
            (Some(_), _) => words.push(c.to_string()),
            (None, _) => {}
        }
        last = kind;
    }
    words
}

/// Returns the catalogue, and the configured models that it lacks.
pub(crate) fn known_models(endpoints: &becket_model::Settings) -> Vec<ModelInfo> {
    let mut known = catalog::all();
    for provider in endpoints.providers() {
        for own in endpoints.endpoint(provider).map(|endpoint| endpoint.models.as_slice()).unwrap_or_default()
        {
            if let Some(info) =
                known.iter_mut().find(|info| info.provider == provider && info.name == own.name)
            {
                info.window = own.window.unwrap_or(info.window);
                info.max_output = own.max_output.unwrap_or(info.max_output);
                info.prices = own.prices.or(info.prices);
                own.source.as_deref().unwrap_or("the configuration").clone_into(&mut info.source);
            } else {
                let mut info = catalog::lookup(provider, &own.name);
                info.window = own.window.unwrap_or(info.window);
                info.max_output = own.max_output.unwrap_or(info.max_output);
                info.prices = own.prices.or(info.prices);
                own.source.as_deref().unwrap_or("the configuration").clone_into(&mut info.source);
                known.push(info);
            }
        }
    }
    known
}

/// Expands the one-word name of a family to its newest model. Other names stay, without a suffix for a larger window.
fn full_name(name: &str) -> String {
    let plain = name.strip_suffix("[1m]").unwrap_or(name);
    match plain.to_ascii_lowercase().as_str() {
        "default" | "sonnet" => "anthropic/claude-sonnet-5-5".to_owned(),
        "opus" | "opusplan" | "best" => "anthropic/claude-opus-5-5".to_owned(),
        "haiku" => "anthropic/claude-haiku-4-5".to_owned(),
        "fable" => "anthropic/claude-fable-5".to_owned(),
        _ => plain.to_owned(),
    }
}

/// Converts a failure to open a model: the flags, keys or files are wrong.
pub(crate) fn usage(error: &ModelError) -> Failure {
    let mut failure = Failure::usage(error.message.clone());
    failure.hint.clone_from(&error.hint);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_model::{Endpoint, Figures};

    fn settings() -> Settings {
        let own = Figures { name: "house-model".into(), ..Figures::default() };
        let mine = Endpoint {
            base_url: Some("http://127.0.0.1:9".into()),
            models: vec![own],
            ..Endpoint::default()
        };
        Settings { others: [("mine".to_owned(), mine)].into(), ..Settings::default() }
    }

    #[test]
    fn names_as_people_write_them() {
        let aliases: Aliases = [("cheap", "mine/small"), ("o", "opus"), ("sonnet", "mine/sonnet")]
            .map(|(a, b)| (a.into(), b.into()))
            .into();
        for (name, want) in [
            ("cheap", "mine/small"),
            ("o", "anthropic/claude-opus-5-5"),
            // An alias of the user takes precedence over a built-in name.
            ("sonnet", "mine/sonnet"),
            ("haiku", "anthropic/claude-haiku-4-5"),
            ("anthropic/anything", "anthropic/anything"),
            ("opus-4.5", "anthropic/claude-opus-4-5"),
            ("sonnet-5", "anthropic/claude-sonnet-5"),
            ("GPT5", "openai/gpt-5"),
            ("grok code", "xai/grok-code-fast-1"),
            ("house", "mine/house-model"),
            ("deepseek reasoner", "deepseek/deepseek-reasoner"),
        ] {
            let found = find(name, &aliases, &settings()).map(|found| found.reference.to_string());
            assert_eq!(
                found.map_err(|f| format!("{}: {:?}", f.message, f.hint)),
                Ok(want.to_owned()),
                "{name}"
            );
        }
        // If one provider that serves the model has a key, that provider is chosen.
        let mut keyed = settings();
        let credential = Some(becket_model::Credential::ApiKey(becket_model::Secret::new("k")));
        keyed.others.insert("groq".into(), Endpoint { credential, needs_key: true, ..Endpoint::default() });
        for name in ["gpt oss", "gpt-oss-120b", "GPT-OSS 120B"] {
            let found = find(name, &aliases, &keyed).unwrap();
            assert_eq!(found.reference.to_string(), "groq/openai/gpt-oss-120b", "{name}");
            assert!(found.note.is_some(), "{name}");
        }
        let note = find("opus-4.5", &aliases, &settings()).unwrap().note;
        assert_eq!(note.as_deref(), Some("`opus-4.5` means the model anthropic/claude-opus-4-5"));
        assert_eq!(find("cheap", &aliases, &settings()).unwrap().note, None);
        for (name, message, hint) in [
            ("kimi", "`kimi` fits several models", "moonshot/kimi-k3"),
            ("glm", "`glm` fits several models", "zai/glm-5.1"),
            ("chepa", "`chepa` names no model", "did you mean cheap?"),
            ("groq/", "`groq/` names no model", "PROVIDER/NAME"),
            ("zz", "`zz` names no model", "PROVIDER/NAME"),
        ] {
            let failure = find(name, &aliases, &settings()).unwrap_err();
            assert!(failure.message.starts_with(message), "{name}: {}", failure.message);
            assert!(failure.hint.as_deref().unwrap_or_default().contains(hint), "{name}: {:?}", failure.hint);
        }
    }
}
