//! `becket models`: what becket knows of models, and what the configured servers say they have.

use crate::args::{ConfigArgs, ModelsArgs};
use crate::cmd::sessions::write;
use crate::cmd::short;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::models::model_settings;
use crate::settings::configuration;
use becket_model::{ModelInfo, ModelRef, catalog, probe};
use serde_json::json;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &ModelsArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let known = catalog::all();
    let remote = if args.remote { remote(environment, cwd)? } else { Vec::new() };
    if args.json {
        let body = json!({ "known": known, "served": remote.iter().map(|(provider, result)| match result {
            Ok(models) => json!({ "provider": provider, "models": models.iter().map(|(n, w)| json!({ "name": n, "window": w })).collect::<Vec<_>>() }),
            Err(e) => json!({ "provider": provider, "error": e }),
        }).collect::<Vec<_>>() });
        return write(out, &format!("{body}\n"));
    }
    // Those that a server of yours offers come first: the table below them is long.
    for (provider, result) in remote {
        match result {
            Err(e) => write(out, &format!("{provider}: {e}\n\n"))?,
            Ok(models) => {
                write(out, &format!("{provider} serves:\n"))?;
                for (name, window) in models {
                    let window = window.map(|w| format!("  window {}", short(w))).unwrap_or_default();
                    write(out, &format!("  {provider}/{name}{window}\n"))?;
                }
                write(out, "\n")?;
            }
        }
    }
    write(out, &format!("{:<40} {:>7} {:>7}  {:>18}\n", "model", "window", "output", "$ in / out per M"))?;
    for info in &known {
        write(out, &row(info))?;
    }
    write(
        out,
        "\nAny other name works too; its window is then taken as 128k until a server says\n\
         otherwise. --json has the source of each figure.\n",
    )
}

fn row(info: &ModelInfo) -> String {
    let prices = info.prices.map_or_else(|| "-".to_owned(), |p| format!("{} / {}", p.input, p.output));
    format!("{:<40} {:>7} {:>7}  {prices:>18}\n", info.id, short(info.window), short(info.max_output))
}

/// The models of one provider with their windows, or why there is no list.
type Served = Result<Vec<(String, Option<u64>)>, String>;

fn remote(environment: &Environment, cwd: &Path) -> Result<Vec<(&'static str, Served)>, Failure> {
    let config = ConfigArgs { settings: None, setting_sources: None, cd: None };
    let settings = configuration(environment, cwd, &config, Vec::new(), true)?;
    let settings = model_settings(environment, &settings);
    crate::runtime()?.block_on(async {
        let mut out = Vec::new();
        for (provider, reference, endpoint) in [
            ("anthropic", ModelRef::Anthropic(String::new()), &settings.anthropic),
            ("openai", ModelRef::OpenAi(String::new()), &settings.openai),
        ] {
            if endpoint.credential.is_none() && endpoint.base_url.is_none() {
                out.push((provider, Err("not configured (no key, no base URL)".to_owned())));
                continue;
            }
            let listed = probe::list(&reference, &settings).await;
            let listed = listed.map(|models| models.into_iter().map(|m| (m.name, m.window)).collect());
            out.push((provider, listed.map_err(|e| e.message)));
        }
        Ok(out)
    })
}
