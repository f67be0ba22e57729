//! A model that its server does not know: the error names the models that the server has.
//!
//! Asks for the list only after such an error, once, and with a short time limit. Without a list, the error stays as it is.

use crate::{
    ErrorKind, Model, ModelError, ModelEvent, ModelInfo, ModelRef, Prepared, Request, Settings, probe,
};
use becket_types::{cut_end, edit_distance, invisible};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the list.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of names in the error.
const MOST: usize = 5;
/// Longest name in the error, in bytes.
const LONGEST: usize = 80;

/// A model whose errors name the models of its server.
pub(crate) struct Known {
    model: Arc<dyn Model>,
    reference: ModelRef,
    settings: Arc<Settings>,
}

impl Known {
    pub(crate) fn new(model: Arc<dyn Model>, reference: &ModelRef, settings: &Settings) -> Self {
        Self { model, reference: reference.clone(), settings: Arc::new(settings.clone()) }
    }
}

impl Model for Known {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared, ModelError> {
        self.model.prepare(request)
    }

    fn send(&self, prepared: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        // If the caller will use another model, or can do without the answer, it does not wait for a list.
        let is_told = !prepared.replaceable && !prepared.brief;
        let stream = self.model.send(prepared);
        if !is_told {
            return stream;
        }
        let (reference, settings) = (self.reference.clone(), Arc::clone(&self.settings));
        let named = stream.then(move |item| {
            let (reference, settings) = (reference.clone(), Arc::clone(&settings));
            async move {
                match item {
                    Err(error)
                        if error.kind == ErrorKind::NotFound
                            && matches!(error.status, Some(404 | 405 | 501)) =>
                    {
                        Err(with_names(error, &reference, &settings).await)
                    }
                    other => other,
                }
            }
        });
        named.boxed()
    }

    fn doubt_limits(&self) -> bool {
        self.model.doubt_limits()
    }
}

async fn with_names(mut error: ModelError, reference: &ModelRef, settings: &Settings) -> ModelError {
    let listed = tokio::time::timeout(LIMIT, probe::list(reference, settings)).await;
    let names: Vec<String> =
        listed.ok().and_then(Result::ok).unwrap_or_default().into_iter().map(|one| one.name).collect();
    if let Some(format) = other_format(&error, reference, &names, settings) {
        error.hint = Some(format);
        return error;
    }
    if let Some(has) = has(reference.provider(), reference.name(), &names) {
        // A hint that fits this server, such as how to get the model, stays. The default hint of the error's kind is
        // replaced.
        let own = error.hint.take().filter(|hint| Some(hint.as_str()) != error.kind.default_hint());
        error.hint = Some(own.map_or_else(|| has.clone(), |own| format!("{own} {has}")));
    }
    error
}

/// Advice for a server of the user's own that has no such path: it may speak another format. `None` if the error is about the
/// model, or if a model is missing.
fn other_format(
    error: &ModelError,
    reference: &ModelRef,
    names: &[String],
    settings: &Settings,
) -> Option<String> {
    let provider = reference.provider();
    let endpoint = settings.endpoint(provider)?;
    let is_own = endpoint.url_setting.as_deref() == Some(&format!("providers.{provider}.base_url"));
    let has_it = names.iter().any(|name| name == reference.name());
    let says = error.message.split_once("): ").map_or("", |(_, says)| says).to_lowercase();
    if !is_own || !(has_it || names.is_empty()) || says.contains("model") {
        return None;
    }
    let what = if has_it { "The server lists this model" } else { "If the model's name is right" };
    Some(format!(
        "{what}: then check the path of the base URL, and providers.{provider}.kind, because the server may speak another format."
    ))
}

/// Says which models the server has, the most similar names first. `None` if it lists none, or if it lists the wanted one: then
/// something else is not found.
fn has(provider: &str, wanted: &str, names: &[String]) -> Option<String> {
    if names.is_empty() || names.iter().any(|name| name == wanted) {
        return None;
    }
    let key = |name: &String| {
        let (name, wanted) = (name.to_lowercase(), wanted.to_lowercase());
        let is_part = name.contains(&wanted) || wanted.contains(&name);
        (!is_part, edit_distance(&name, &wanted))
    };
    let mut near: Vec<&String> = names.iter().collect();
    near.sort_by_key(|name| key(name));
    let shown: Vec<String> = near
        .iter()
        .take(MOST)
        .map(|name| cut_end(&invisible::clean(name).replace('\n', " "), LONGEST).to_owned())
        .collect();
    let more = match names.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more (`becket models --remote`)"),
    };
    let (noun, list) = (if names.len() == 1 { "model" } else { "models" }, shown.join(", "));
    Some(format!("The server has the {noun} {list}{more}. Choose one with --model {provider}/{}.", shown[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let many = names(&["llama3.2", "phi4", "qwen3:8b", "qwen3-coder:30b", "gemma3", "mistral", "x"]);
        assert_eq!(
            has("ollama", "qwen3-coder", &many).as_deref(),
            Some(
                "The server has the models qwen3-coder:30b, qwen3:8b, gemma3, llama3.2, phi4 and 2 more (`becket models --remote`). \
                 Choose one with --model ollama/qwen3-coder:30b."
            )
        );
        assert_eq!(
            has("vllm", "gpt", &names(&["one\u{202e}"])).as_deref(),
            Some("The server has the model one<U+202E>. Choose one with --model vllm/one<U+202E>.")
        );
        assert_eq!(has("vllm", "one", &names(&["one", "two"])), None, "the path is wrong, not the name");
        assert_eq!(has("vllm", "one", &[]), None);
    }
}
