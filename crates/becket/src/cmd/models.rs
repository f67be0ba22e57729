//! `becket models`: the models that becket knows, and those that the configured servers list.

use crate::args::{ConfigArgs, ModelsArgs};
use crate::cmd::short;
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::model_names::known_models;
use crate::models::model_settings;
use crate::settings::configuration;
use becket_model::{ModelInfo, ModelRef, probe};
use becket_print::ExitStatus;
use serde_json::json;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &ModelsArgs,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let config = ConfigArgs { settings: None, setting_sources: None, cd: None };
    let settings = configuration(environment, cwd, &config, Vec::new(), true)?;
    let endpoints = model_settings(environment, &settings);
    if args.refresh {
        return refresh(environment, &settings, &endpoints, args.json, out);
    }
    let known = known_models(&endpoints);
    let remote = if args.remote { remote(environment, &settings, &endpoints)? } else { Vec::new() };
    if args.json {
        let providers: Vec<_> = crate::providers::names(&settings)
            .map(|name| {
                let key = crate::providers::key_place(name, &settings, &endpoints);
                json!({ "name": name, "usable": usable(&endpoints, name), "key": key })
            })
            .collect();
        let body = json!({ "known": known, "providers": providers, "served": remote.iter().map(|(provider, result)| match result {
            Ok(models) => json!({ "provider": provider, "models": models.iter().map(|(n, w)| json!({ "name": n, "window": w })).collect::<Vec<_>>() }),
            Err(e) => json!({ "provider": provider, "error": e }),
        }).collect::<Vec<_>>() });
        write(out, &format!("{body}\n"))?;
        return Ok(exit_status(&remote));
    }
    if args.remote {
        return print_served(&remote, out);
    }
    let head =
        format!("{:<40} {:>7} {:>7}  {:>18}  {}", "model", "window", "output", "$ in / out per M", "as of");
    write(out, &format!("{head}\n"))?;
    let mut unused = Vec::new();
    for name in crate::providers::names(&settings) {
        let models: Vec<&ModelInfo> = known.iter().filter(|info| info.provider == name).collect();
        let key = crate::providers::key_place(name, &settings, &endpoints);
        let key = key.unwrap_or_else(|| "none".to_owned());
        if models.is_empty() && key == "none" && !settings.config.providers.contains_key(name) {
            unused.push(name);
            continue;
        }
        let is_own = crate::providers::has_own_address(environment, &settings, name);
        write(out, &format!("\n{}\n", heading(&endpoints, name, &key, is_own)))?;
        let is_listed = |info: &ModelInfo| !is_own || is_of_user(&endpoints, info);
        for info in models.into_iter().filter(|info| is_listed(info)) {
            write(out, &row(info))?;
        }
        if is_own {
            write(out, "  becket models --remote lists the models of this server\n")?;
        }
    }
    write(
        out,
        &format!(
            "\nAlso built in: {}.\nAny other name works as PROVIDER/NAME; becket assumes a window of 128k until a server\n\
             says otherwise. --json has the source of each figure.\n",
            unused.join(", ")
        ),
    )?;
    Ok(exit_status(&remote))
}

/// Lists the models of the servers alone: the table of known models is long, and `becket models` shows it.
fn print_served(remote: &[(String, ServerList)], out: &mut dyn Write) -> Result<ExitStatus, Failure> {
    for (at, (provider, result)) in remote.iter().enumerate() {
        if at > 0 {
            write(out, "\n")?;
        }
        match result {
            Err(e) => write(out, &format!("{provider}: {e}\n"))?,
            Ok(models) => {
                write(out, &format!("{provider} serves:\n"))?;
                for (name, window) in models {
                    let window = window.map(|w| format!("  window {}", short(w))).unwrap_or_default();
                    write(out, &format!("  {provider}/{name}{window}\n"))?;
                }
            }
        }
    }
    Ok(exit_status(remote))
}

/// Returns exit code 7 if servers were asked and none gave its list. The reasons are in the output.
fn exit_status(remote: &[(String, ServerList)]) -> ExitStatus {
    let none = !remote.is_empty() && remote.iter().all(|(_, served)| served.is_err());
    if none { ExitStatus::ModelUnreachable } else { ExitStatus::Ok }
}

/// True if requests can be sent: there is a key, or none is needed.
pub(crate) fn usable(endpoints: &becket_model::Settings, provider: &str) -> bool {
    endpoints.endpoint(provider).is_some_and(|endpoint| endpoint.credential.is_some() || !endpoint.needs_key)
}

/// True if the table may list this model. A server at an address of the user that needs no key is not the provider's own,
/// so it has only the models that the configuration names.
fn is_of_user(endpoints: &becket_model::Settings, info: &ModelInfo) -> bool {
    endpoints
        .endpoint(&info.provider)
        .is_none_or(|endpoint| endpoint.needs_key || endpoint.models.iter().any(|own| own.name == info.name))
}

/// Returns for example `* groq (Groq), key in GROQ_API_KEY`; the mark means that it can be used. Nobody knows if a server
/// runs on this machine until it is asked, so such a server has the mark only at an address of the user (`is_own`).
fn heading(endpoints: &becket_model::Settings, name: &str, key: &str, is_own: bool) -> String {
    let built_in = becket_config::vendor(name);
    let title = built_in.map(|vendor| format!(" ({})", vendor.title)).unwrap_or_default();
    let is_unknown = key == "none" && !is_own && built_in.is_some_and(|vendor| vendor.local);
    let mark = if usable(endpoints, name) && !is_unknown { "*" } else { "-" };
    let state = match (key, built_in) {
        ("none", _) if is_unknown => "needs no key; start its server on this machine".to_owned(),
        ("none", _) if usable(endpoints, name) => "needs no key".to_owned(),
        ("none", Some(vendor)) if !vendor.keys.is_empty() => format!("no key: set {}", vendor.keys[0]),
        ("none", _) => "no key".to_owned(),
        (key, _) => format!("key in {key}"),
    };
    format!("{mark} {name}{title}, {state}")
}

fn row(info: &ModelInfo) -> String {
    let prices = info.prices.map_or_else(|| "-".to_owned(), |p| format!("{} / {}", p.input, p.output));
    let line =
        format!("{:<40} {:>7} {:>7}  {prices:>18}", info.id, short(info.window), short(info.max_output));
    format!("{line}  {}\n", date_of(&info.source))
}

/// The last date in the source of a model's figures, such as 2026-10.
fn date_of(source: &str) -> &str {
    let is_date = |word: &&str| {
        word.len() >= 7 && word.starts_with("20") && word.bytes().all(|b| b.is_ascii_digit() || b == b'-')
    };
    source.split([' ', ',', ';', '(', ')']).rfind(is_date).unwrap_or("-")
}

/// Asks the configured servers and the catalog, keeps what differs from the table of this version, and prints the changes.
fn refresh(
    environment: &Environment,
    settings: &becket_config::Settings,
    endpoints: &becket_model::Settings,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let asked = reachable_providers(environment, settings, endpoints);
    let catalog = settings.config.model.others.catalog.as_deref();
    if asked.is_empty() && catalog.is_none() {
        return Err(Failure::usage(
            "there is no server to ask: no provider has a key or a configured address",
        )
        .hint("becket login PROVIDER, or set models.catalog = \"https://models.dev/api.json\""));
    }
    let (mut lists, read) = crate::runtime()?.block_on(async {
        let lists = asked.into_iter().map(|name| async move {
            (name.to_owned(), probe::figures(&ModelRef::named(name, ""), endpoints).await)
        });
        let read = async {
            match catalog {
                Some(url) => Some(probe::catalog(url, endpoints).await),
                None => None,
            }
        };
        tokio::join!(futures::future::join_all(lists), read)
    });
    // A provider's own list overrides the catalog, so it comes last.
    if let Some(read) = read {
        let of_catalog = match read {
            Ok(models) => crate::refreshed_models::by_provider(models),
            Err(error) => vec![("models.catalog".to_owned(), Err(error))],
        };
        lists.splice(0..0, of_catalog);
    }
    // No source gave a list, so nothing could be updated.
    let status = if lists.iter().all(|(_, list)| list.is_err()) {
        ExitStatus::ModelUnreachable
    } else {
        ExitStatus::Ok
    };
    let today = crate::clock::today(environment);
    let report = crate::refreshed_models::keep(environment, lists, &today)?;
    let text = if as_json { format!("{}\n", report.json()) } else { report.to_string() };
    write(out, &text)?;
    Ok(status)
}

/// Models of one provider with their windows in tokens, or the reason why there is no list.
type ServerList = Result<Vec<(String, Option<u64>)>, String>;

/// Returns the providers that have a key or a configured address.
fn reachable_providers<'a>(
    environment: &Environment,
    settings: &'a becket_config::Settings,
    endpoints: &becket_model::Settings,
) -> Vec<&'a str> {
    crate::providers::names(settings)
        .filter(|name| {
            let has_key = endpoints.endpoint(name).is_some_and(|endpoint| endpoint.credential.is_some());
            let local = becket_config::vendor(name).is_some_and(|vendor| vendor.local);
            has_key
                || (!local && crate::providers::is_own_server(environment, settings, name))
                || settings.config.provider(name).base_url.is_some()
        })
        .collect()
}

/// Asks every provider that has a key or a configured address.
fn remote(
    environment: &Environment,
    settings: &becket_config::Settings,
    endpoints: &becket_model::Settings,
) -> Result<Vec<(String, ServerList)>, Failure> {
    let asked = reachable_providers(environment, settings, endpoints);
    if asked.is_empty() {
        return Ok(["anthropic", "openai"]
            .map(|name| (name.to_owned(), Err("not configured (no key, no base URL)".to_owned())))
            .into());
    }
    crate::runtime()?.block_on(async {
        let lists = asked.into_iter().map(|name| async move {
            let listed = probe::list(&ModelRef::named(name, ""), endpoints).await;
            let listed = listed.map(|models| models.into_iter().map(|m| (m.name, m.window)).collect());
            (name.to_owned(), listed.map_err(|e| e.message))
        });
        Ok(futures::future::join_all(lists).await)
    })
}
