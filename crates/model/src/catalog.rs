//! The catalog of models: windows, output limits and prices that are known before the first request.
//!
//! It is a dated table shipped with becket (`catalog.json`); nothing is fetched over the network. A model that is not in it
//! gets conservative defaults and the source `default`, so that the caller can tell the user once.

use crate::ModelInfo;
use becket_types::{Millis, Prices, edit_distance};
use serde::Deserialize;
use std::sync::LazyLock;

/// Window, in tokens, of a model that is not in the catalog.
pub const DEFAULT_WINDOW: u64 = 128_000;
/// The source of figures that are assumed because the model is not in the catalog.
pub const UNKNOWN: &str = "default";
/// Output limit, in tokens, of a model that is not in the catalog.
pub(crate) const DEFAULT_MAX_OUTPUT: u64 = 8_192;

/// Providers keep a cached prefix for five minutes after its last use (Anthropic's default; others similar).
const CACHE_TTL: Millis = Millis(5 * 60 * 1000);

#[derive(Deserialize)]
struct Catalog<'a> {
    #[serde(borrow)]
    models: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    provider: &'a str,
    name: &'a str,
    /// [`normal`] of the name.
    #[serde(skip)]
    normal: String,
    window: u64,
    #[serde(default)]
    input_limit: Option<u64>,
    max_output: u64,
    /// Prices of input, output, cache read and cache write, in dollars per million tokens.
    #[serde(default)]
    prices: Option<[f64; 4]>,
    images: bool,
    reasoning: bool,
    source: &'a str,
}

static CATALOG: LazyLock<Vec<Entry<'static>>> = LazyLock::new(|| {
    // The file is part of the program, and a test reads it, so this cannot fail. An empty table would only mean defaults.
    let read = serde_json::from_str::<Catalog<'_>>(include_str!("catalog.json"));
    let mut models = read.map(|catalog| catalog.models).unwrap_or_default();
    for entry in &mut models {
        entry.normal = normal(entry.name);
    }
    models
});

/// Vendors in the table, each with the provider through which becket reaches it.
const MAKERS: &[(&str, &str)] = &[
    ("anthropic", "anthropic"),
    ("openai", "openai"),
    ("google", "google"),
    ("xai", "xai"),
    ("deepseek", "deepseek"),
    ("mistral", "mistral"),
    ("moonshotai", "moonshot"),
    ("zai", "zai"),
    ("minimax", "minimax"),
    ("alibaba", "qwen"),
];

impl Entry<'_> {
    /// The provider that runs the model under this name itself. `None` for open weights that others serve.
    fn maker(&self) -> Option<&'static str> {
        let hosted = ["qwen3-max", "qwen3-coder-plus"].contains(&self.name);
        let open = ["gpt-oss", "gemma"].iter().any(|start| self.name.starts_with(start))
            || (self.provider == "alibaba" && !hosted);
        let found = MAKERS.iter().find(|(vendor, _)| *vendor == self.provider);
        found.filter(|_| !open).map(|(_, provider)| *provider)
    }

    fn info(&self, provider: &str, name: &str) -> ModelInfo {
        ModelInfo {
            id: format!("{provider}/{name}"),
            provider: provider.to_owned(),
            name: name.to_owned(),
            window: self.window,
            input_limit: self.input_limit.unwrap_or(self.window),
            max_output: self.max_output,
            prices: self.prices.map(|[input, output, cache_read, cache_write]| Prices {
                input,
                output,
                cache_read,
                cache_write,
            }),
            images: self.images,
            reasoning: self.reasoning,
            cache_ttl: CACHE_TTL,
            server: crate::ServerTraits::default(),
            source: self.source.to_owned(),
        }
    }
}

/// The figures of the model `name` at `provider`; defaults if it is not in the catalog.
///
/// The name is compared without case, vendor prefix, date, tag, quantisation and file ending, so that
/// `anthropic/claude-sonnet-4.5`, `claude-sonnet-4-5-20250929` and `Qwen3-32B-Q4_K_M.gguf` are found.
pub fn lookup(provider: &str, name: &str) -> ModelInfo {
    find(name).map_or_else(|| default_info(provider, name), |entry| entry.info(provider, name))
}

/// A name of the table that is similar to `name`, if the table does not have `name` itself.
pub fn near(name: &str) -> Option<&'static str> {
    if find(name).is_some() {
        return None;
    }
    let wanted = normal(name);
    let distance = |entry: &Entry<'_>| edit_distance(&entry.normal, &wanted);
    let best = CATALOG.iter().min_by_key(|entry| distance(entry))?;
    // Few edits lead from a short name to any other, so short names get no suggestion.
    (wanted.len() >= 4 && distance(best) <= 2.max(wanted.len() / 6)).then_some(best.name)
}

/// The provider that runs the model with exactly this name. `None` for open weights, which many providers serve.
pub(crate) fn maker(name: &str) -> Option<&'static str> {
    let wanted = normal(name);
    CATALOG.iter().find(|entry| entry.normal == wanted)?.maker()
}

/// True if only its maker runs the model. A server on this machine that offers such a model is a gateway, so its tokens cost
/// money. Open weights and unknown models may really run on this machine.
pub(crate) fn is_hosted_only(name: &str) -> bool {
    find(name).is_some_and(|entry| match entry.provider {
        "anthropic" | "xai" | "amazon" => true,
        "openai" => !entry.name.starts_with("gpt-oss"),
        "google" => !entry.name.starts_with("gemma"),
        _ => false,
    })
}

fn find(name: &str) -> Option<&'static Entry<'static>> {
    let wanted = normal(name);
    let turned = number_last(&wanted);
    let mut best: Option<&'static Entry<'static>> = None;
    for entry in CATALOG.iter() {
        let candidate = &entry.normal;
        let hit = *candidate == wanted
            || starts_with_word(&wanted, candidate)
            || turned
                .as_ref()
                .is_some_and(|turned| turned == candidate || starts_with_word(turned, candidate));
        if hit && best.is_none_or(|b| b.normal.len() < candidate.len()) {
            best = Some(entry);
        }
    }
    best
}

/// All models of the table, under the provider through which becket reaches them. Open weights are listed under
/// `llamacpp`, a local server that accepts any name for the model it runs. Amazon's models are not listed, because their
/// names at Bedrock depend on the region.
pub fn all() -> Vec<ModelInfo> {
    let reach = |entry: &Entry<'_>| entry.maker().unwrap_or("llamacpp");
    let listed = CATALOG.iter().filter(|entry| entry.provider != "amazon");
    listed.map(|entry| entry.info(reach(entry), entry.name)).collect()
}

fn default_info(provider: &str, name: &str) -> ModelInfo {
    ModelInfo {
        id: format!("{provider}/{name}"),
        provider: provider.to_owned(),
        name: name.to_owned(),
        window: DEFAULT_WINDOW,
        input_limit: DEFAULT_WINDOW,
        max_output: DEFAULT_MAX_OUTPUT,
        prices: None,
        // Unknown, so send images: a server that refuses them reports an error, while leaving them out would go unnoticed.
        images: true,
        // Unknown: an effort that the user asks for is sent, because a server that does not support it returns an error.
        reasoning: true,
        cache_ttl: CACHE_TTL,
        server: crate::ServerTraits::default(),
        source: UNKNOWN.to_owned(),
    }
}

/// True if `long` is `short` with a date, a size or a tag at its end. A word there means another model: `gpt-5-mini` is not
/// `gpt-5`, but `gpt-5-2025-08-07` is.
fn starts_with_word(long: &str, short: &str) -> bool {
    let Some(rest) = long.strip_prefix(short) else { return false };
    let Some(rest) = rest.strip_prefix('-') else { return false };
    rest.split('-').all(|word| {
        let quantised = word.starts_with('q') && word[1..].starts_with(|c: char| c.is_ascii_digit());
        let dated = word.len() >= 2
            && word.chars().all(|c| c.is_ascii_digit())
            && (word.len() > 2 || rest.contains("20"));
        dated
            || quantised
            || matches!(
                word,
                "latest"
                    | "preview"
                    | "instruct"
                    | "it"
                    | "k"
                    | "m"
                    | "s"
                    | "gguf"
                    | "fp8"
                    | "awq"
                    | "mlx"
                    | "ud"
                    | "xl"
                    | "0"
                    | "v1"
            )
    })
}

/// Returns the name of a Claude as Anthropic writes it since 4, if some gateway puts the number before the word
/// (`claude-4-5-sonnet`).
fn number_last(normal: &str) -> Option<String> {
    let rest = &normal[normal.find("claude-")? + "claude-".len()..];
    let is_number = |word: &&str| word.len() <= 2 && word.bytes().all(|b| b.is_ascii_digit());
    let words: Vec<&str> = rest.split('-').collect();
    let at = words.iter().position(|word| !is_number(word))?;
    let (numbers, names) = words.split_at(at);
    Some(
        ["claude"]
            .iter()
            .chain(names.first())
            .chain(numbers)
            .chain(&names[1..])
            .copied()
            .collect::<Vec<_>>()
            .join("-"),
    )
}

/// Returns a name as it is compared: without case, vendor prefix, tag and file ending, with `-` between its words.
pub(crate) fn normal(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b' ');
    if name.bytes().all(plain) {
        // Most names of the table: nothing to take off.
        return name
            .chars()
            .map(|c| if matches!(c, '_' | ' ') { '-' } else { c.to_ascii_lowercase() })
            .collect();
    }
    let name = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let name = name.strip_suffix(".gguf").unwrap_or(&name);
    // Bedrock's `us.anthropic.claude-…` and `amazon.nova-…`, OpenRouter's `…:free`, Vertex's `…@20250929`.
    let name = name.rsplit("anthropic.").next().unwrap_or(name);
    let name = name.rsplit("amazon.").next().unwrap_or(name);
    let name = name.split([':', '@']).next().unwrap_or(name);
    name.replace(['.', '_', ' '], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_sane() {
        let models = all();
        assert!(models.len() >= 60, "{}", models.len());
        for model in &models {
            assert!(model.window >= 16_000 && model.max_output > 0, "{}", model.id);
            assert!(model.input_limit <= model.window, "{}", model.id);
            assert!(model.max_output <= model.window, "{}", model.id);
            assert!(model.source.contains("20"), "{}: a source has a date", model.id);
            if let Some(p) = model.prices {
                assert!(p.cache_read <= p.input && p.input <= p.output, "{}", model.id);
            }
        }
        let mut names: Vec<&str> = models.iter().map(|m| m.id.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), models.len(), "a name is there twice");
    }

    #[test]
    fn names_as_servers_write_them() {
        for (name, want) in [
            ("claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5")),
            ("anthropic/claude-sonnet-4.5", Some("claude-sonnet-4-5")),
            ("us.anthropic.claude-sonnet-4-20250514-v1:0", Some("claude-sonnet-4")),
            ("claude-opus-4-1@20250805", Some("claude-opus-4-1")),
            ("us.amazon.nova-pro-v1:0", Some("nova-pro")),
            ("amazon.nova-2-lite-v1:0", Some("nova-2-lite")),
            ("amazon.nova-premier-v1:0", None),
            ("claude-3-5-haiku-latest", Some("claude-3-5-haiku")),
            ("gpt-5-mini", Some("gpt-5-mini")),
            ("gpt-5-2025-08-07", Some("gpt-5")),
            ("gpt-5-colossal", None),
            ("gpt-4o-2024-05-13", Some("gpt-4o")),
            ("deepseek/deepseek-v3.2:free", Some("deepseek-v3.2")),
            ("MiniMax-M2", Some("minimax-m2")),
            ("/models/Qwen3-32B-Q4_K_M.gguf", Some("qwen3-32b")),
            ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", Some("qwen2.5-coder-1.5b-instruct")),
            ("claude-4-5-sonnet", Some("claude-sonnet-4-5")),
            ("databricks-claude-sonnet-4-5", Some("claude-sonnet-4-5")),
            ("anthropic--claude-4.5-sonnet", Some("claude-sonnet-4-5")),
            ("my-own-model", None),
            ("", None),
        ] {
            let info = lookup("openai", name);
            let window = want.map(|w| CATALOG.iter().find(|e| e.name == w).unwrap().window);
            assert_eq!(info.source == "default", want.is_none(), "{name}: {info:?}");
            assert_eq!(info.window, window.unwrap_or(DEFAULT_WINDOW), "{name}");
            assert_eq!(info.id, format!("openai/{name}"));
        }
    }

    #[test]
    fn a_mistyped_model_has_a_near_one() {
        for (name, want) in [
            ("claude-sonet-4-5", Some("claude-sonnet-4-5")),
            ("Claude_Sonnet_4_55", Some("claude-sonnet-4-5")),
            ("claude-sonnet-4-5", None),
            ("claude-sonnet-4-5-20250929", None),
            ("my-own-model", None),
            ("x", None),
            ("", None),
        ] {
            let near = near(name);
            assert_eq!(near.is_some(), want.is_some(), "{name}: {near:?}");
            assert!(want.is_none_or(|want| near.is_some_and(|near| normal(near).starts_with(&normal(want)[..12]))), "{name}: {near:?}");
        }
    }
}
