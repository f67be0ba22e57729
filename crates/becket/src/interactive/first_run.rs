//! Questions before a session: is the project trusted, which model to begin with, and the key of a model that has none
//! ([`mod@missing_key`]).
//!
//! Owns the texts of the first two pages and the effects of their answers. While the page is shown, servers are searched for,
//! each with a time limit. The page never waits for them. Choices are stored in the user's own files.

mod missing_key;
mod servers;

pub(super) use self::missing_key::ask as missing_key;
use self::servers::{Listing, Note, Server, ask, query_all};
use super::preferences;
use crate::cmd::{demo, one_line};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::{RunSettings, Screen, project_root};
use crate::{args, keys, models, providers, trust};
use becket_config::{Amend, Secret, Source};
use becket_print::ExitStatus;
use becket_tui::theme::Theme;
use becket_tui::welcome::{self, Answer, Entry, Welcome};
use serde_json::Value;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;

/// Longest time for a server whose address was entered: the user waits for it, and it may be slow to begin.
const PATIENCE_FOR_ENTERED: Duration = Duration::from_secs(20);
/// Advice about an address that does not work.
const CORRECT: &str = "choose \"enter an address\" to correct it";

/// An answer to the question about the model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// A model, `provider/name`.
    Model(String),
    /// A model of an OpenAI-compatible server.
    OfServer {
        base: String,
        name: String,
    },
    /// Enter a key for a known provider, or for the provider of the model that lacks one.
    Key,
    /// Log in with a code, at the provider of the model that lacks a key.
    LogIn,
    /// Enter the address of a server.
    Address,
    /// Enter the key of the server whose address was entered before.
    ServerKey,
    Demo,
}

/// Action after the question about the model.
pub(super) enum Next {
    Session,
    End(ExitStatus),
}

pub(super) fn unusable(error: &io::Error) -> Failure {
    Failure::error(format!("the terminal cannot be used: {error}"))
}

/// Asks if the project is trusted. `None`: the user quits.
pub(super) async fn trusted(
    settings: &RunSettings,
    theme: &Theme,
    brings: &[String],
) -> Result<Option<bool>, Failure> {
    let root = project_root(&settings.project.cwd);
    let mut text = vec![one_line(&root.to_string_lossy(), 400), String::new(), "It brings:".to_owned()];
    text.extend(brings.iter().map(|line| format!("  {line}")));
    text.extend([
        String::new(),
        "If you trust it, becket uses its settings, rules, skills and commands, and still asks before a command runs a \
         program. If you do not, becket uses only its restrictions. Calls of the model follow your permission mode either \
         way."
            .to_owned(),
    ]);
    if settings.screen == Screen::Lines {
        return asked_in_lines(&text).map_err(|e| unusable(&e));
    }
    let entries = vec![
        Entry::of(false, "no: work here without these", "asked again next time"),
        Entry::of(true, "yes: I trust this directory", "remembered for it"),
    ];
    let page = Welcome::new("Do you trust what is in this directory?", text, entries);
    let (_, nothing) = mpsc::unbounded_channel();
    let answer = welcome::run(io::stdout(), theme, page, nothing).await.map_err(|e| unusable(&e))?;
    Ok(match answer {
        Answer::Chosen(trusts) => Some(trusts),
        Answer::Written(..) | Answer::None => None,
    })
}

/// Asks if the project is trusted in plain lines, for screen readers.
fn asked_in_lines(text: &[String]) -> io::Result<Option<bool>> {
    let mut out = io::stdout().lock();
    writeln!(out, "Do you trust what is in this directory?")?;
    for line in text.iter().filter(|line| !line.is_empty()) {
        writeln!(out, "{}", becket_print::clean(line))?;
    }
    write!(out, "Write /y to trust it from now on. Anything else works without it: ")?;
    out.flush()?;
    let mut line = String::new();
    if io::stdin().read_line(&mut line)? == 0 {
        return Ok(None);
    }
    // The slash distinguishes an answer from text that was typed for the conversation.
    Ok(Some(matches!(line.trim(), "/y" | "/yes")))
}

/// Asks for a model if none is configured, and stores the answer.
pub(super) async fn model(environment: &Environment, settings: &mut RunSettings) -> Result<Next, Failure> {
    // A continued session keeps its model.
    let has_model = settings.settings.config.model.name.is_some()
        || crate::recorded_settings::model(environment, settings).is_some();
    if has_model || settings.screen == Screen::Lines {
        return Ok(Next::Session);
    }
    let (preferences, _) = preferences::load(environment, &settings.settings.config);
    let own = settings.settings.config.provider("openai").base_url.clone();
    // If the user named a server, only that one is asked. The model of another server would be chosen with the named
    // server's address at the next start.
    let mut servers = match &own {
        Some(base) => vec![Server::own(base)],
        None => servers::local_servers(environment, &settings.settings),
    };
    let key = settings.settings.credentials.get("openai").filter(|c| c.keychain.is_none());
    let key = key.map(|c| c.value.clone());
    let mut found = Vec::new();
    let mut note: Option<Note> = None;
    // The address that was entered last. It is proposed again, so that it can be corrected.
    let mut proposed = String::new();
    // The server that wants a key, and the key that was entered for it.
    let (mut locked, mut entered): (Option<String>, Option<(String, String)>) = (None, None);
    let answer = loop {
        if !found.is_empty() {
            note.get_or_insert_default();
        }
        let said = note.take();
        let text = said.as_ref().map(|note| note.text.as_str());
        let (page, fixed) = page(environment, settings, std::mem::take(&mut found), text, locked.is_some());
        let page = page.proposing_address(&proposed);
        let news = query_all(
            servers.clone(),
            own.as_deref().map(|base| (base.to_owned(), key.clone())),
            fixed,
            said,
        );
        let answer =
            welcome::run(io::stdout(), &preferences.theme, page, news).await.map_err(|e| unusable(&e))?;
        let Answer::Written(id, text) = &answer else { break answer };
        let base = match id {
            Choice::Address => {
                proposed.clone_from(text);
                address(text).map_err(Failure::usage)?
            }
            Choice::ServerKey => locked.clone().unwrap_or_default(),
            _ => break answer,
        };
        // The key of one server is never sent to another one.
        entered = (*id == Choice::ServerKey).then(|| (base.clone(), text.clone()));
        locked = None;
        let sent = entered.as_ref().map(|(_, key)| Secret::new(key.as_str()));
        match ask(&Server::own(&base), sent.clone(), PATIENCE_FOR_ENTERED).await {
            Listing::Models(models) => found = models,
            Listing::WantsKey => {
                note = Some(Note::new(wants_key(&base, sent.is_some(), may_keep(environment, settings))));
                locked = may_keep(environment, settings).then_some(base);
            }
            Listing::Refused(what) => {
                note =
                    Some(Note::new(format!("the server at {base} {what}; your address is kept: {CORRECT}")));
            }
            Listing::Nothing => {
                let text = format!(
                    "no model server answers at {base}. Start it, and it appears here; or, if the address is wrong, {CORRECT}"
                );
                note = Some(Note { text, awaits: Some(base.clone()) });
                if servers.iter().all(|server| server.base != base) {
                    servers.push(Server::own(&base));
                }
            }
        }
    };
    match answer {
        Answer::None => Ok(Next::End(ExitStatus::Ok)),
        Answer::Chosen(Choice::Demo) => {
            let environment = environment.clone();
            let shown = tokio::task::spawn_blocking(move || {
                demo::run(&environment, &args::DemoArgs { keep: false, json: false }, &mut io::stdout())
            });
            shown.await.map_err(|e| Failure::error(format!("the demo ended: {e}")))?.map(Next::End)
        }
        Answer::Chosen(choice) => {
            if let (Choice::OfServer { base, .. }, Some((of, key))) = (&choice, &entered)
                && base == of
            {
                keep_key(environment, settings, "openai", Some(base), key)?;
            }
            chosen(environment, settings, choice)?;
            Ok(Next::Session)
        }
        Answer::Written(_, key) => pasted(environment, settings, &key).map(|()| Next::Session),
    }
}

fn may_keep(environment: &Environment, settings: &RunSettings) -> bool {
    keys::may_be_kept(environment, &project_root(&settings.project.cwd))
}

/// Describes a server that answers and refuses. `sent`: a key was sent. `may_keep`: a key can be entered here.
fn wants_key(base: &str, sent: bool, may_keep: bool) -> String {
    let what = if sent { "refuses the key" } else { "wants a key" };
    let how = if may_keep {
        "enter it above, or set OPENAI_BASE_URL and OPENAI_API_KEY and start again"
    } else {
        "run `becket login openai`, or set OPENAI_BASE_URL and OPENAI_API_KEY and start again"
    };
    format!("the server at {base} answers, but {what}: {how}")
}

/// Completes an address to a base URL: adds `http://` if there is no scheme, and `/v1` if there is no path.
///
/// # Errors
///
/// Returns a message for the user if the text is not an address.
fn address(text: &str) -> Result<String, String> {
    let text = text.trim().trim_end_matches('/');
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let rest = whole.strip_prefix("http://").or_else(|| whole.strip_prefix("https://"));
    let rest = rest.ok_or("an address begins with http:// or https://")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("for example 192.168.1.20:11434, or https://models.example.com/v1".to_owned());
    }
    Ok(if path.is_empty() { format!("{whole}/v1") } else { whole })
}

/// Returns the page, and the number of entries that stay last. `first`: entries of a server whose address was entered.
/// `locked`: that server wants a key, which is asked for in place of one of a known provider.
fn page(
    environment: &Environment,
    settings: &RunSettings,
    first: Vec<Entry<Choice>>,
    note: Option<&str>,
    locked: bool,
) -> (Welcome<Choice>, usize) {
    let own_server = settings.settings.config.provider("openai").base_url.is_some();
    let mut entries = first;
    let by_key = models::models_by_key(environment, &settings.settings);
    // With a configured server, the OpenAI key belongs to that server.
    let by_key = by_key.into_iter().filter(|(_, model)| !(own_server && model.starts_with("openai/")));
    entries.extend(
        by_key.map(|(found, model)| {
            Entry::of(Choice::Model(model.clone()), &model, &format!("key in {found}"))
        }),
    );
    let found = entries.len();
    if locked {
        entries.push(Entry::of(Choice::ServerKey, "enter its key", "saved in your configuration").secret());
    } else if may_keep(environment, settings) {
        entries.push(
            Entry::of(Choice::Key, "paste a key", "Anthropic, OpenAI, Google, OpenRouter and others")
                .secret(),
        );
    }
    entries.push(Entry::of(Choice::Address, "enter an address", "of an OpenAI-compatible server").address());
    entries.push(Entry::of(
        Choice::Demo,
        "the demo",
        "a scripted model on a scratch repository; no key, no network",
    ));
    let fixed = entries.len() - found;
    let text = vec![
        "Which model should becket use? Your choice is saved in your configuration; /model and --model change it."
            .to_owned(),
    ];
    let looking = match &settings.settings.config.provider("openai").base_url {
        Some(base) => format!("asking your server at {base} for its models …"),
        None => "looking for llama.cpp, Ollama, LM Studio, vLLM and SGLang on this machine …".to_owned(),
    };
    let page = Welcome::new("Welcome to becket", text, entries)
        .noting(note.unwrap_or(&looking))
        .judged_address(|text| address(text).map(|base| format!("{base} is asked for its models")))
        .judged(if locked { any_key } else { known_key });
    (page, fixed)
}

/// Judges the key of a server of the user's own, which may have any form.
fn any_key(key: &str) -> Result<String, String> {
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("a key has no spaces and only ASCII characters".to_owned());
    }
    Ok("becket uses this key to ask the server; it is saved once you choose a model".to_owned())
}

/// Judges the key of a known provider.
fn known_key(key: &str) -> Result<String, String> {
    keys::provider(key).map(|provider| format!("a key for {provider}; it will be saved for the next time"))
}

/// Applies the choice of a model. The other choices name none.
fn chosen(environment: &Environment, settings: &mut RunSettings, choice: Choice) -> Result<(), Failure> {
    let settings = &mut settings.settings;
    let file = || Source::User(environment.config_dir.join("config.toml"));
    let model = match choice {
        Choice::OfServer { base, name } => {
            let known = settings.config.provider("openai").base_url.as_deref() == Some(base.as_str());
            // Only this server has the model, so its address is saved, too, also if the environment of this start names it.
            if !known || matches!(settings.source("providers.openai.base_url"), Source::Environment(_)) {
                keep(environment, "providers.openai", "base_url", &base)?;
            }
            if !known {
                settings.set("providers.openai.base_url", Value::from(base), file());
            }
            format!("openai/{name}")
        }
        Choice::Model(model) => {
            if let Some((provider, base)) = address_of_environment(environment, settings, &model) {
                keep(environment, &format!("providers.{provider}"), "base_url", &base)?;
            }
            model
        }
        Choice::Key | Choice::LogIn | Choice::Address | Choice::ServerKey | Choice::Demo => return Ok(()),
    };
    keep(environment, "", "model", &model)?;
    settings.set("model", Value::from(model), file());
    Ok(())
}

/// Returns the name and the address of the local server that has this model, if only the environment names the address.
fn address_of_environment(
    environment: &Environment,
    settings: &becket_config::Settings,
    model: &str,
) -> Option<(&'static str, String)> {
    let name = model.split('/').next()?;
    let vendor = becket_config::VENDORS.iter().find(|vendor| vendor.local && vendor.name == name)?;
    if settings.config.provider(name).base_url.is_some() {
        return None;
    }
    let base = providers::endpoint(environment, settings, name).base_url?;
    (base != vendor.base_url).then_some((vendor.name, base))
}

fn pasted(environment: &Environment, settings: &mut RunSettings, key: &str) -> Result<(), Failure> {
    let provider = keys::provider(key).map_err(Failure::usage)?;
    let address = settings.settings.address(provider);
    keep_key(environment, settings, provider, address.as_deref(), key)?;
    let of_provider = |model: &str| model.split('/').next() == Some(provider);
    let model = models::models_by_key(environment, &settings.settings)
        .into_iter()
        .find(|(_, model)| of_provider(model));
    let Some((_, model)) = model else {
        let failure = Failure::usage(format!("the key for {provider} is saved, but no model is chosen"));
        return Err(failure.hint(format!("start becket with --model {provider}/NAME")));
    };
    chosen(environment, settings, Choice::Model(model))
}

/// Stores a key for this address of a provider, and uses it there from now on.
fn keep_key(
    environment: &Environment,
    settings: &mut RunSettings,
    provider: &str,
    address: Option<&str>,
    key: &str,
) -> Result<(), Failure> {
    let kept = becket_config::kept_name(provider, address);
    keys::keep(environment, &kept, key, keys::KeyStore::Keychain).map_err(Failure::error)?;
    settings.settings.add_key(provider, address, key, keys::path(environment));
    Ok(())
}

fn keep(environment: &Environment, section: &str, key: &str, value: &str) -> Result<(), Failure> {
    let path = environment.config_dir.join("config.toml");
    preferences::change(&path, section, key, &Amend::Set(Value::from(value))).map_err(Failure::error)
}

/// Asks if the project is trusted, unless that is known. `None`: the user quits. True: the project is trusted now and
/// was not before.
pub(super) async fn project(
    environment: &Environment,
    settings: &RunSettings,
) -> Result<Option<bool>, Failure> {
    let root: &Path = &project_root(&settings.project.cwd);
    if settings.project.trusted {
        return Ok(Some(false));
    }
    let (preferences, _) = preferences::load(environment, &settings.settings.config);
    let answer =
        trusted(settings, &preferences.theme, &trust::content_lines(root, &settings.project.cwd)).await?;
    if answer == Some(true) {
        trust::remember(environment, root)
            .map_err(|e| Failure::error(format!("cannot save that you trust {}: {e}", root.display())))?;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toy_server() -> Choice {
        Choice::OfServer { base: "http://127.0.0.1:9/v1".to_owned(), name: "toy".to_owned() }
    }

    /// The choice also holds for settings that are set later, such as the settings of a continued session.
    #[test]
    fn a_choice_outlasts_the_settings_of_a_session() {
        use clap::Parser as _;
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let run = args::Run::try_parse_from(["becket", "-p", "x"]).unwrap();
        let mut settings = RunSettings::new(run, &environment).unwrap();
        chosen(&environment, &mut settings, toy_server()).unwrap();
        settings.settings.remember("model", Value::from("openai/toy"));
        assert_eq!(settings.settings.config.model.name.as_deref(), Some("openai/toy"));
        let base = settings.settings.config.provider("openai").base_url.as_deref();
        assert_eq!(base, Some("http://127.0.0.1:9/v1"));
    }

    /// The address of a server that only the environment names is saved with its model, so that the choice works without the
    /// variable, too.
    #[test]
    fn a_choice_outlasts_the_environment() {
        use clap::Parser as _;
        let model = || Choice::Model("sglang/toy".to_owned());
        for (variable, value, choice, want) in [
            (
                "OPENAI_BASE_URL",
                "http://127.0.0.1:9/v1",
                toy_server(),
                "[providers.openai]\nbase_url = \"http://127.0.0.1:9/v1\"",
            ),
            (
                "SGLANG_BASE_URL",
                "http://127.0.0.1:9/v1",
                model(),
                "[providers.sglang]\nbase_url = \"http://127.0.0.1:9/v1\"",
            ),
            ("OTHER", "x", model(), ""),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let vars = [(variable.to_owned(), value.to_owned())].into_iter().collect();
            let environment = Environment { vars, ..Environment::below(dir.path()) };
            let run = args::Run::try_parse_from(["becket", "-p", "x"]).unwrap();
            let mut settings = RunSettings::new(run, &environment).unwrap();
            chosen(&environment, &mut settings, choice).unwrap();
            let saved = std::fs::read_to_string(environment.config_dir.join("config.toml")).unwrap();
            assert!(saved.contains(want) && saved.contains("/toy\""), "{variable}: {saved}");
            assert_eq!(saved.contains("base_url"), !want.is_empty(), "{variable}: {saved}");
        }
    }

    #[test]
    fn an_address_is_completed() {
        for (typed, want) in [
            ("localhost:11434", Some("http://localhost:11434/v1")),
            (" http://192.168.1.20:8080/ ", Some("http://192.168.1.20:8080/v1")),
            ("https://models.example.com/api/v1", Some("https://models.example.com/api/v1")),
            ("", None),
            ("ftp://x", None),
            ("my server", None),
        ] {
            assert_eq!(address(typed).ok().as_deref(), want, "{typed}");
        }
    }
}
