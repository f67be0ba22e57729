//! Integrations beyond files and commands: formatters and language servers after an edit, and the web. Built from the
//! configuration. If a part cannot be built, it is left out with a note.

use crate::environment::Environment;
use crate::providers::variables_for_programs;
use becket_config::{Config, SearchProvider};
use becket_sandbox::Programs;
use becket_tool::Tool;
use becket_tool_lsp::{
    AfterEdit, CustomFormatter, CustomServer, FormatSettings, LspSettings, Settings, formatter_names,
};
use becket_tool_web::{FetchSettings, Provider, Proxies, SearchSettings, WebFetch, WebSearch};
use becket_types::quoted;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// The hook around edits, its tools, and notes for the user.
pub(crate) struct Integrations {
    pub hook: Arc<AfterEdit>,
    pub tools: Vec<Arc<dyn Tool>>,
    pub notes: Vec<String>,
}

pub(crate) fn build(
    environment: &Environment,
    config: &Config,
    roots: &[PathBuf],
    programs: Programs,
) -> Integrations {
    let hook = Arc::new(AfterEdit::new(settings(environment, config, programs)));
    let mut tools: Vec<Arc<dyn Tool>> = always(config, proxies(environment));
    let mut notes = Vec::new();
    if let Some(lsp) = hook.tool(config.permissions.mode, roots) {
        tools.push(Arc::new(lsp));
    }
    match search(environment, config) {
        None => {}
        Some(Ok(tool)) => tools.push(Arc::new(tool)),
        Some(Err(why)) => notes.push(format!("web_search is not offered: {why}")),
    }
    for name in &config.integrations.format.always {
        if !formatter_names().any(|known| known.eq_ignore_ascii_case(name)) {
            let known: Vec<&str> = formatter_names().collect();
            notes.push(format!(
                "format.use names no known formatter: {name}; known: {}",
                known.join(", "),
                name = quoted(&name)
            ));
        }
    }
    Integrations { hook, tools, notes }
}

/// Returns the tools that are offered in every session.
pub(crate) fn always(config: &Config, proxies: Proxies) -> Vec<Arc<dyn Tool>> {
    let allow_hosts = config.integrations.web.allow_hosts.clone();
    let settings = FetchSettings { allow_hosts, proxies, ..FetchSettings::default() };
    vec![Arc::new(WebFetch::new(&settings))]
}

/// Returns the proxies that are also used for models.
fn proxies(environment: &Environment) -> Proxies {
    let becket_model::Proxies { https, http, no_proxy } = environment.proxies();
    Proxies { https, http, no_proxy }
}

fn settings(environment: &Environment, config: &Config, programs: Programs) -> Settings {
    let command = |(name, own): (&String, &becket_config::FormatCommand)| CustomFormatter {
        name: name.clone(),
        command: own.command.clone(),
        extensions: own.extensions.clone(),
    };
    let server = |(name, own): (&String, &becket_config::LspServer)| CustomServer {
        name: name.clone(),
        command: own.command.clone(),
        extensions: own.extensions.clone(),
        root_markers: own.root_markers.clone(),
        initialization_options: (!own.initialization_options.is_empty())
            .then(|| own.initialization_options.clone().into_iter().collect::<Value>()),
    };
    Settings {
        // As for commands, programs of the project do not get becket's keys.
        env: variables_for_programs(environment, config),
        programs,
        format: FormatSettings {
            auto: config.integrations.format.auto,
            always: config.integrations.format.always.clone(),
            commands: config.integrations.format.commands.iter().map(command).collect(),
        },
        lsp: LspSettings {
            enabled: config.integrations.lsp.enabled,
            servers: config.integrations.lsp.servers.iter().map(server).collect(),
        },
    }
}

fn search(environment: &Environment, config: &Config) -> Option<Result<WebSearch, String>> {
    let search = &config.integrations.web.search;
    let (provider, variable) = match search.provider? {
        SearchProvider::Brave => (Provider::Brave, "BRAVE_API_KEY"),
        SearchProvider::Tavily => (Provider::Tavily, "TAVILY_API_KEY"),
        SearchProvider::Exa => (Provider::Exa, "EXA_API_KEY"),
        SearchProvider::Searxng => (Provider::Searxng, ""),
    };
    let home = match provider {
        Provider::Brave => "api.search.brave.com",
        Provider::Tavily => "api.tavily.com",
        Provider::Exa => "api.exa.ai",
        Provider::Searxng => "",
    };
    // The vendor's key goes to another address only if the configuration names the key.
    let may_go =
        search.api_key_env.is_some() || becket_config::search_key_may_go(home, search.url.as_deref());
    let named = search.api_key_env.as_deref().unwrap_or(variable);
    let key = environment.var(named).filter(|_| may_go).map(str::to_owned);
    if !may_go && environment.var(named).is_some() {
        return Some(Err(format!(
            "web.search.url is not {home}, so becket does not send it the key in {named}; if that key is for web.search.url, set \
             web.search.api_key_env = \"{named}\""
        )));
    }
    Some(WebSearch::new(SearchSettings {
        provider,
        url: search.url.clone(),
        key,
        proxies: proxies(environment),
        limit: None,
    }))
}
