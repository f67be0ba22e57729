//! Figures of models that `becket models --refresh` took from servers and from a catalog, kept in the data directory.
//!
//! Only figures that differ from the table of this version are kept, of providers that becket knows. A run reads the file and
//! asks nobody. The figures of the configuration override these.

use crate::environment::Environment;
use crate::failure::Failure;
use becket_model::{Figures, ModelError, ModelInfo, Settings, catalog};
use becket_types::Prices;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Figures by provider.
type FiguresByProvider = BTreeMap<String, Vec<Figures>>;
/// The list of one provider, or the reason why there is none.
type List = (String, Result<Vec<Figures>, ModelError>);

/// Maximum number of changes that are printed one by one.
const MAX_LISTED_CHANGES: usize = 60;

fn path(environment: &Environment) -> PathBuf {
    environment.data_dir.join("models.json")
}

fn stored_figures(environment: &Environment) -> FiguresByProvider {
    let text = std::fs::read_to_string(path(environment)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Adds the kept figures to the endpoints, after those of the configuration.
pub(crate) fn add_to(environment: &Environment, settings: &mut Settings) {
    for (provider, models) in stored_figures(environment) {
        if let Some(endpoint) = settings.endpoint_mut(&provider) {
            let mut more = models;
            more.retain(|figures| !endpoint.models.iter().any(|own| own.name == figures.name));
            endpoint.models.extend(more);
        }
    }
}

/// The models of a catalog as lists of providers. Names of providers are those of becket where they differ.
pub(crate) fn by_provider(models: Vec<(String, Figures)>) -> Vec<List> {
    let mut lists: BTreeMap<String, Vec<Figures>> = BTreeMap::new();
    for (provider, figures) in models {
        let own = match provider.as_str() {
            "moonshotai" => "moonshot",
            "alibaba" => "qwen",
            "togetherai" => "together",
            "fireworks-ai" => "fireworks",
            "amazon-bedrock" => "bedrock",
            "google-vertex" => "vertex",
            other => other,
        };
        if becket_config::vendor(own).is_some() {
            lists.entry(own.to_owned()).or_default().push(figures);
        }
    }
    lists.into_iter().map(|(provider, models)| (provider, Ok(models))).collect()
}

/// The outcome of a refresh.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Models by provider, or the error.
    asked: Vec<(String, Result<usize, String>)>,
    /// Model, and what changed.
    changes: Vec<(String, String)>,
}

/// Keeps the figures of these lists, later ones over earlier ones, and compares them with what was known before.
pub(crate) fn keep(environment: &Environment, lists: Vec<List>, today: &str) -> Result<Report, Failure> {
    let before = stored_figures(environment);
    let mut after = before.clone();
    let mut report = Report::default();
    for (provider, list) in lists {
        let models = match list {
            Ok(models) => models,
            Err(error) => {
                report.asked.push((provider, Err(error.message)));
                continue;
            }
        };
        report.asked.push((provider.clone(), Ok(models.len())));
        let known = after.entry(provider.clone()).or_default();
        for mut figures in models {
            let old = known.iter().position(|known| known.name == figures.name);
            if let Some(old) = old.map(|at| known.remove(at)) {
                // A list without prices does not remove those of a catalog.
                figures = merge_figures(figures, old);
            }
            figures.source = Some(format!("becket models --refresh, {today}"));
            if differs(&provider, &figures) {
                known.push(figures);
            }
        }
        known.sort_by(|a, b| a.name.cmp(&b.name));
    }
    after.retain(|_, models| !models.is_empty());
    for (provider, models) in &after {
        for figures in models {
            let old =
                before.get(provider).and_then(|models| models.iter().find(|old| old.name == figures.name));
            if let Some(what) = change(
                &effective_info(provider, &figures.name, old),
                &effective_info(provider, &figures.name, Some(figures)),
            ) {
                report.changes.push((format!("{provider}/{}", figures.name), what));
            }
        }
    }
    let text = serde_json::to_string_pretty(&after).unwrap_or_default();
    let path = path(environment);
    becket_files::private::replace(&path, (text + "\n").as_bytes())
        .map_err(|error| Failure::error(format!("cannot write {}: {error}", path.display())))?;
    Ok(report)
}

/// Returns the newer figures. A figure that they lack comes from the older ones.
fn merge_figures(new: Figures, old: Figures) -> Figures {
    Figures {
        window: new.window.or(old.window),
        max_output: new.max_output.or(old.max_output),
        images: new.images.or(old.images),
        reasoning: new.reasoning.or(old.reasoning),
        prices: new.prices.or(old.prices),
        ..new
    }
}

/// The figures of a model as a run would use them.
fn effective_info(provider: &str, name: &str, figures: Option<&Figures>) -> ModelInfo {
    let mut info = catalog::lookup(provider, name);
    if let Some(figures) = figures {
        info.window = figures.window.unwrap_or(info.window);
        info.max_output = figures.max_output.unwrap_or(info.max_output);
        info.images = figures.images.unwrap_or(info.images);
        info.reasoning = figures.reasoning.unwrap_or(info.reasoning);
        info.prices = figures.prices.or(info.prices);
        info.source = figures.source.clone().unwrap_or(info.source);
    }
    info
}

fn differs(provider: &str, figures: &Figures) -> bool {
    let (table, now) =
        (catalog::lookup(provider, &figures.name), effective_info(provider, &figures.name, Some(figures)));
    let same = (table.window, table.max_output, table.images, table.reasoning, table.prices)
        == (now.window, now.max_output, now.images, now.reasoning, now.prices);
    !same || table.source == catalog::UNKNOWN
}

/// Describes the change. `None` if neither window, maximum output nor prices differ.
fn change(old: &ModelInfo, new: &ModelInfo) -> Option<String> {
    let price = |prices: Option<Prices>| {
        prices.map_or_else(|| "no price".to_owned(), |p| format!("${} / ${} per M", p.input, p.output))
    };
    if old.source == catalog::UNKNOWN {
        return Some(format!("new: window {}, {}", new.window, price(new.prices)));
    }
    let mut words = Vec::new();
    if old.window != new.window {
        words.push(format!("window {} -> {}", old.window, new.window));
    }
    if old.max_output != new.max_output {
        words.push(format!("output {} -> {}", old.max_output, new.max_output));
    }
    if old.prices != new.prices {
        words.push(format!("{} -> {}", price(old.prices), price(new.prices)));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

impl Report {
    pub(crate) fn json(&self) -> Value {
        let asked = self.asked.iter().map(|(provider, result)| match result {
            Ok(models) => json!({ "provider": provider, "models": models }),
            Err(error) => json!({ "provider": provider, "error": error }),
        });
        let changes = self.changes.iter().map(|(model, what)| json!({ "model": model, "change": what }));
        json!({ "asked": asked.collect::<Vec<_>>(), "changes": changes.collect::<Vec<_>>() })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (provider, result) in &self.asked {
            match result {
                Ok(models) => writeln!(f, "{provider}: {models} models")?,
                Err(error) => writeln!(f, "{provider}: {error}")?,
            }
        }
        for (model, what) in self.changes.iter().take(MAX_LISTED_CHANGES) {
            writeln!(f, "  {model}: {what}")?;
        }
        match self.changes.len() {
            0 => writeln!(f, "Nothing changed."),
            n if n > MAX_LISTED_CHANGES => {
                writeln!(f, "  and {} more; --json lists all", n - MAX_LISTED_CHANGES)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_counts_and_is_named() {
        let table = catalog::lookup("anthropic", "claude-sonnet-4-5");
        let figures = |window| Figures {
            name: "claude-sonnet-4-5".to_owned(),
            window: Some(window),
            ..Figures::default()
        };
        assert!(!differs("anthropic", &figures(table.window)));
        assert!(differs("anthropic", &figures(500_000)));
        assert!(differs("groq", &Figures { name: "no-such-model".to_owned(), ..Figures::default() }));
        let new = effective_info("anthropic", "claude-sonnet-4-5", Some(&figures(500_000)));
        assert_eq!(change(&table, &new).as_deref(), Some("window 200000 -> 500000"));
        assert_eq!(change(&table, &table), None);
    }

    #[test]
    fn a_list_without_prices_keeps_those_of_the_catalog() {
        let prices = Some(Prices { input: 1.0, output: 2.0, cache_read: 0.1, cache_write: 1.0 });
        let old = Figures { prices, window: Some(1), ..Figures::default() };
        let new = Figures { window: Some(2), ..Figures::default() };
        assert_eq!(
            (merge_figures(new.clone(), old.clone()).prices, merge_figures(new, old).window),
            (prices, Some(2))
        );
    }

    #[test]
    fn providers_of_a_catalog_have_the_names_of_becket() {
        let of = |provider: &str| (provider.to_owned(), Figures::default());
        let lists = by_provider(vec![of("moonshotai"), of("nobody-knows"), of("groq")]);
        assert_eq!(lists.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["groq", "moonshot"]);
    }
}
