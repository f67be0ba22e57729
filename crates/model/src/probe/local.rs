//! The window with which Ollama or LM Studio runs a model: facts that their lists in OpenAI's format do not have.
//!
//! Both run a model with a smaller window than the model was made for, and Ollama silently drops the beginning of a longer
//! prompt. So the window in use is what counts: of the loaded model first, then of its settings. A server that is
//! neither of them answers with an error, and nothing is known.

use super::DESCRIBE_TIMEOUT;
use crate::http::Transport;
use serde_json::{Value, json};
use url::Url;

/// Window of a model that Ollama loads without being told one. Newer versions choose more on large machines; the next
/// question after the model was loaded returns the real number.
const OLLAMA_DEFAULT: u64 = 4_096;

/// A window, and true if it is only assumed until the model is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) tokens: u64,
    pub(super) assumed: bool,
}

/// Asks for the window of `name`, for a second at most. `root`: the path
/// below which the server's own API lives.
pub(super) async fn window(transport: &Transport, root: &str, name: &str) -> Option<Window> {
    let at = |path: &str| {
        let mut url = transport.url.clone();
        url.set_path(&format!("{root}{path}"));
        url.set_query(None);
        url
    };
    let get = |url: Url| transport.get_json(url, DESCRIBE_TIMEOUT);
    let asked = async {
        let (studio, loaded) = tokio::join!(get(at("/api/v0/models")), get(at("/api/ps")));
        let known = |tokens: u64| Window { tokens, assumed: false };
        if let Some(tokens) = studio.ok().and_then(|json| studio_window(&json, name)) {
            return Some(known(tokens));
        }
        // Only Ollama answers here, so no other server gets a question that it does not know.
        let loaded = loaded.ok().filter(|json| json["models"].is_array())?;
        if let Some(tokens) = loaded_window(&loaded, name) {
            return Some(known(tokens));
        }
        let show = json!({ "model": name });
        settings_window(&transport.post_json(at("/api/show"), &show, DESCRIBE_TIMEOUT).await.ok()?)
    };
    tokio::time::timeout(DESCRIBE_TIMEOUT, asked).await.ok().flatten()
}

fn positive(value: &Value) -> Option<u64> {
    value.as_u64().filter(|tokens| *tokens > 0)
}

/// LM Studio: `loaded_context_length` while the model is loaded, else the largest.
fn studio_window(json: &Value, name: &str) -> Option<u64> {
    let model = json["data"].as_array()?.iter().find(|model| model["id"] == name)?;
    positive(&model["loaded_context_length"]).or_else(|| positive(&model["max_context_length"]))
}

/// Ollama's list of loaded models. A name without a tag means `latest`.
fn loaded_window(json: &Value, name: &str) -> Option<u64> {
    let is_it = |model: &&Value| {
        [&model["name"], &model["model"]]
            .into_iter()
            .filter_map(Value::as_str)
            .any(|one| one == name || one.strip_suffix(":latest") == Some(name))
    };
    positive(&json["models"].as_array()?.iter().find(is_it)?["context_length"])
}

/// Ollama's settings of a model: `num_ctx` among its parameters, else the default within what the model can do.
fn settings_window(json: &Value) -> Option<Window> {
    let parameters = json["parameters"].as_str().unwrap_or_default();
    let set =
        parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse::<u64>().ok());
    if let Some(tokens) = set.filter(|tokens| *tokens > 0) {
        return Some(Window { tokens, assumed: false });
    }
    let about = json["model_info"].as_object()?;
    let most = about
        .iter()
        .find(|(key, _)| key.ends_with(".context_length"))
        .and_then(|(_, value)| positive(value))?;
    Some(Window { tokens: most.min(OLLAMA_DEFAULT), assumed: true })
}
