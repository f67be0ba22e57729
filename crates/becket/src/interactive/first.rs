//! Questions before a session: is the project trusted, and which model to begin with.
//!
//! Owns the texts of both pages and the effects of their answers. While the page is shown, servers are searched for,
//! each with a time limit. The page never waits for them. Choices are stored in the user's own files.

use super::preferences;
use crate::cmd::{demo, one_line};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::{RunSettings, Screen, project_root};
use crate::{args, keys, models, trust};
use becket_config::{Amend, Secret, Source};
use becket_model::{Endpoint, ErrorKind, ModelRef};
use becket_print::ExitStatus;
use becket_tui::theme::Theme;
use becket_tui::welcome::{self, Answer, Entry, News, Welcome};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;

/// Default addresses of model servers on the user's machine.
const SERVERS: [(&str, &str); 4] = [
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
];
/// Longest time a server may take to list its models.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest time for a server whose address was entered: the user waits for it, and it may be slow to begin.
const PATIENCE_FOR_ENTERED: Duration = Duration::from_secs(20);
/// Most models of one server that are offered.
const MODELS: usize = 5;
const PASTE: &str = "paste";
const ADDRESS: &str = "address";
/// The key of a server whose address was entered.
const SERVER_KEY: &str = "server key";
/// Servers that did not answer are asked again after this time, as long as the page is shown.
const AGAIN: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 3_000 });
const DEMO: &str = "demo";

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
        "Trusted, its settings hold, its rules and skills are given to the model, and its commands to you: those that run \
         programs are shown and asked about once more. Not trusted, nothing of it is used but what forbids. Either way, what the \
         model wants to run is asked about as your permission mode says."
            .to_owned(),
    ]);
    if settings.screen == Screen::Lines {
        return asked_in_lines(&text).map_err(|e| unusable(&e));
    }
    let entries = vec![
        Entry::new("no", "no: work here without these", "asked again next time"),
        Entry::new("yes", "yes: I trust this directory", "remembered for it"),
    ];
    let page = Welcome::new("Do you trust what is in this directory?", text, entries);
    let (_, nothing) = mpsc::unbounded_channel();
    let answer = welcome::run(io::stdout(), theme, page, nothing).await.map_err(|e| unusable(&e))?;
    Ok(match answer {
        Answer::Chosen(id) => Some(id == "yes"),
        Answer::Written(..) | Answer::None => None,
    })
}

/// Asks the same in plain lines, for screen readers.
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
    let has_model =
        settings.settings.config.model.is_some() || crate::remembered::model(environment, settings).is_some();
    if has_model || settings.screen == Screen::Lines {
        return Ok(Next::Session);
    }
    let (preferences, _) = preferences::load(environment, &settings.settings.config);
    let own = settings.settings.config.provider("openai").base_url.clone();
    // A server that the user named is meant. Another one that answers would be listed above it, and the address in the
    // environment would be used again at the next start, with the other one's model.
    let servers: Vec<(String, String)> = match &own {
        Some(base) => vec![("your server".to_owned(), base.clone())],
        None => SERVERS.iter().map(|(name, base)| ((*name).to_owned(), (*base).to_owned())).collect(),
    };
    let key = settings.settings.credentials.get("openai").filter(|c| c.keychain.is_none());
    let key = key.map(|c| c.value.clone());
    let mut found = Vec::new();
    let mut note = None;
    // The server that wants a key, and the key that was entered for it.
    let (mut locked, mut entered): (Option<String>, Option<(String, String)>) = (None, None);
    let answer = loop {
        if !found.is_empty() {
            note.get_or_insert_default();
        }
        let said = note.clone();
        let (page, fixed) =
            page(environment, settings, std::mem::take(&mut found), note.take(), locked.is_some());
        let news =
            look(servers.clone(), own.as_deref().map(|base| (base.to_owned(), key.clone())), fixed, said);
        let answer =
            welcome::run(io::stdout(), &preferences.theme, page, news).await.map_err(|e| unusable(&e))?;
        let Answer::Written(id, text) = &answer else { break answer };
        let base = match id.as_str() {
            ADDRESS => address(text).map_err(Failure::usage)?,
            SERVER_KEY => locked.clone().unwrap_or_default(),
            _ => break answer,
        };
        // The key of one server is never sent to another one.
        entered = (id == SERVER_KEY).then(|| (base.clone(), text.clone()));
        locked = None;
        let sent = entered.as_ref().map(|(_, key)| Secret::new(key.as_str()));
        match ask("your server".to_owned(), base.clone(), sent.clone(), PATIENCE_FOR_ENTERED).await {
            Listing::Models(models) => found = models,
            Listing::WantsKey => {
                note = Some(wants_key(&base, sent.is_some(), may_keep(environment, settings)));
                locked = may_keep(environment, settings).then_some(base);
            }
            Listing::Refused(what) => note = Some(format!("the server at {base} {what}")),
            Listing::Nothing => {
                note = Some(format!(
                    "no model server answers at {base}: check the address, and that the server runs"
                ));
            }
        }
    };
    match answer {
        Answer::None => Ok(Next::End(ExitStatus::Ok)),
        Answer::Chosen(id) if id == DEMO => {
            let environment = environment.clone();
            let shown = tokio::task::spawn_blocking(move || {
                demo::run(&environment, &args::DemoArgs { keep: false, json: false }, &mut io::stdout())
            });
            shown.await.map_err(|e| Failure::error(format!("the demo ended: {e}")))?.map(Next::End)
        }
        Answer::Chosen(id) => {
            if let Some((base, key)) = entered.filter(|(base, _)| id.starts_with(&format!("server {base} ")))
            {
                keep_key(environment, settings, "openai", Some(&base), &key)?;
            }
            chosen(environment, settings, &id)?;
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
    first: Vec<Entry>,
    note: Option<String>,
    locked: bool,
) -> (Welcome, usize) {
    let own_server = settings.settings.config.provider("openai").base_url.is_some();
    let mut entries = first;
    let by_key = models::by_key(&settings.settings);
    // With a configured server, the OpenAI key belongs to that server.
    let by_key = by_key.into_iter().filter(|(_, model)| !(own_server && model.starts_with("openai/")));
    entries.extend(
        by_key.map(|(found, model)| Entry::new(&format!("model {model}"), model, &format!("key in {found}"))),
    );
    let found = entries.len();
    if locked {
        entries.push(Entry::new(SERVER_KEY, "enter its key", "kept in your configuration").secret());
    } else if may_keep(environment, settings) {
        entries.push(Entry::new(PASTE, "paste a key", "Anthropic or OpenAI").secret());
    }
    entries.push(Entry::new(ADDRESS, "enter an address", "of a server that speaks like OpenAI's").address());
    entries.push(Entry::new(
        DEMO,
        "the demo",
        "a scripted model on a scratch repository; no key, no network",
    ));
    let fixed = entries.len() - found;
    let text = vec![
        "Which model is becket to begin with? Your choice is kept in your configuration; /model and --model change it."
            .to_owned(),
    ];
    let looking = match &settings.settings.config.provider("openai").base_url {
        Some(base) => format!("asking your server at {base} for its models …"),
        None => "looking for llama.cpp, Ollama, LM Studio and vLLM on this machine …".to_owned(),
    };
    let page = Welcome::new("Welcome to becket", text, entries)
        .noting(note.as_deref().unwrap_or(&looking))
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

/// Queries all servers at once and reports each one's models when it answers. Servers without an answer are queried
/// again until the page closes, because they may start later. `said`: a note of the page that stays. Without one, the
/// page reports that no server answers.
fn look(
    servers: Vec<(String, String)>,
    own: Option<(String, Option<Secret>)>,
    before: usize,
    said: Option<String>,
) -> mpsc::UnboundedReceiver<News> {
    let (sender, news) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut silent = servers;
        let (mut any, mut locked) = (false, None);
        while !silent.is_empty() {
            let mut answers: FuturesUnordered<_> = std::mem::take(&mut silent)
                .into_iter()
                .map(|(name, base)| {
                    let key = own.as_ref().filter(|(own, _)| *own == base).and_then(|(_, key)| key.clone());
                    async move { (ask(name.clone(), base.clone(), key, PATIENCE).await, (name, base)) }
                })
                .collect();
            while let Some((listing, server)) = answers.next().await {
                let Listing::Models(entries) = listing else {
                    // Another address of this machine may belong to a program without models.
                    if let Some((base, key)) = own.as_ref().filter(|(base, _)| *base == server.1) {
                        locked = Some(match listing {
                            Listing::WantsKey => wants_key(base, key.is_some(), false),
                            Listing::Refused(what) => format!("the server at {base} {what}"),
                            _ => format!(
                                "your server at {base} does not answer yet; it appears here when it does"
                            ),
                        });
                    }
                    silent.push(server);
                    if sender.is_closed() {
                        return;
                    }
                    continue;
                };
                any = true;
                let note = said.clone().unwrap_or_default();
                if sender.send(News { entries, before, note }).is_err() {
                    return;
                }
            }
            if !any && said.is_none() {
                let nothing =
                    "no model server answers on this machine yet; one that you start now appears here";
                let note = locked.clone().unwrap_or_else(|| nothing.to_owned());
                if sender.send(News { entries: Vec::new(), before, note }).is_err() {
                    return;
                }
            }
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    });
    news
}

/// Answer of a server to the question for its models.
#[derive(Debug, PartialEq, Eq)]
enum Listing {
    Models(Vec<Entry>),
    /// It refuses a request without a key, or with this one.
    WantsKey,
    /// It answers, but not as a model server does. The text goes on after "the server at …".
    Refused(String),
    /// It did not answer in time, or has no models.
    Nothing,
}

/// Asks a server for its models.
async fn ask(name: String, base: String, key: Option<Secret>, patience: Duration) -> Listing {
    // No proxy is used, because the server is on this machine or was named by the user.
    let credential = key.map(|key| becket_model::Credential::ApiKey(becket_model::Secret::new(key.expose())));
    let openai = Endpoint { base_url: Some(base.clone()), credential, ..Endpoint::default() };
    let settings = becket_model::Settings { openai, ..becket_model::Settings::default() };
    let any = ModelRef::openai(String::new());
    let listed = tokio::time::timeout(patience, becket_model::probe::list(&any, &settings)).await;
    let models = match listed {
        Ok(Ok(models)) if !models.is_empty() => models,
        Ok(Err(error)) if error.kind == ErrorKind::Auth => return Listing::WantsKey,
        Ok(Err(error)) if error.kind == ErrorKind::NotFound => {
            return Listing::Refused(
                "answers, but has no list of models there: check the path, which mostly ends in /v1"
                    .to_owned(),
            );
        }
        Ok(Err(error)) if !matches!(error.kind, ErrorKind::Network | ErrorKind::Timeout) => {
            return Listing::Refused(format!(
                "answers, but not as a model server: {}",
                one_line(&error.message, 200)
            ));
        }
        _ => return Listing::Nothing,
    };
    let entry = |model: &becket_model::probe::Listed| {
        let id = format!("server {base} {}", model.name);
        Entry::new(&id, &format!("openai/{}", one_line(&model.name, 80)), &format!("{name} at {base}"))
    };
    Listing::Models(models.iter().take(MODELS).map(entry).collect())
}

/// Applies the choice `model NAME` or `server ADDRESS NAME`.
fn chosen(environment: &Environment, settings: &mut RunSettings, id: &str) -> Result<(), Failure> {
    let settings = &mut settings.settings;
    let file = || Source::User(environment.config_dir.join("config.toml"));
    let model = if let Some(rest) = id.strip_prefix("server ") {
        let (base, name) = rest.split_once(' ').unwrap_or((rest, ""));
        if settings.config.provider("openai").base_url.as_deref() != Some(base) {
            keep(environment, "providers.openai", "base_url", base)?;
            settings.set("providers.openai.base_url", Value::from(base), file());
        }
        format!("openai/{name}")
    } else {
        id.strip_prefix("model ").unwrap_or(id).to_owned()
    };
    keep(environment, "", "model", &model)?;
    settings.set("model", Value::from(model), file());
    Ok(())
}

fn pasted(environment: &Environment, settings: &mut RunSettings, key: &str) -> Result<(), Failure> {
    let provider = keys::provider(key).map_err(Failure::usage)?;
    let address = settings.settings.address(provider);
    keep_key(environment, settings, provider, address.as_deref(), key)?;
    let model = models::by_key(&settings.settings).into_iter().find(|(_, model)| model.starts_with(provider));
    let Some((_, model)) = model else { return Ok(()) };
    chosen(environment, settings, &format!("model {model}"))
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
    keys::keep(environment, &kept, key, keys::KeepIn::Keychain).map_err(Failure::error)?;
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
    let answer = trusted(settings, &preferences.theme, &trust::brings(root, &settings.project.cwd)).await?;
    if answer == Some(true) {
        trust::remember(environment, root)
            .map_err(|e| Failure::error(format!("cannot keep that {} is trusted: {e}", root.display())))?;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn servers_that_answer_are_offered_and_others_are_not_waited_for() {
        let server = becket_testkit::MockServer::with(|_| becket_testkit::Answer::text("no").into()).get(
            "/v1/models",
            becket_testkit::Reply::json(200, &serde_json::json!({"data": [{"id": "qwen"}, {"id": "a b"}]})),
        );
        let base = format!("{}/v1", server.url());
        let closed = "http://127.0.0.1:1/v1".to_owned();
        let mut news = look(vec![("mine".into(), base.clone()), ("none".into(), closed)], None, 2, None);
        let mut ids = Vec::new();
        while ids.is_empty() {
            ids.extend(news.recv().await.unwrap().entries.into_iter().map(|e| e.id));
        }
        assert_eq!(ids, [format!("server {base} qwen"), format!("server {base} a b")]);
    }

    /// The first two queries find no server.
    #[tokio::test]
    async fn a_server_that_starts_later_is_found() {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            for (n, stream) in listener.incoming().take(3).enumerate() {
                let mut stream = stream.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).unwrap();
                let body = r#"{"data":[{"id":"late"}]}"#;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                if n == 2 {
                    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
                }
            }
        });
        let mut news = look(vec![("mine".into(), base.clone())], None, 2, None);
        let first = news.recv().await.unwrap();
        assert!(first.entries.is_empty() && first.note.contains("appears here"), "{}", first.note);
        let found = loop {
            let next = news.recv().await.unwrap();
            if let Some(entry) = next.entries.first() {
                break entry.id.clone();
            }
        };
        assert_eq!(found, format!("server {base} late"));
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn a_server_that_wants_a_key_is_not_a_silent_one() {
        let refusal = serde_json::json!({"error": {"message": "no key"}});
        let server = becket_testkit::MockServer::with(|_| becket_testkit::Answer::text("no").into())
            .get("/v1/models", becket_testkit::Reply::json(401, &refusal));
        let base = format!("{}/v1", server.url());
        assert_eq!(ask("mine".into(), base.clone(), None, PATIENCE_FOR_ENTERED).await, Listing::WantsKey);
        assert_eq!(
            ask("none".into(), "http://127.0.0.1:1/v1".into(), None, PATIENCE).await,
            Listing::Nothing
        );
        let mut news = look(vec![("mine".into(), base.clone())], Some((base.clone(), None)), 2, None);
        let note = news.recv().await.unwrap().note;
        assert!(note.contains(&format!("{base} answers, but wants a key")), "{note}");
    }

    /// The choice also holds for settings that are set later, such as the settings of a continued session.
    #[test]
    fn a_choice_outlasts_the_settings_of_a_session() {
        use clap::Parser as _;
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::below(dir.path());
        let run = args::Run::try_parse_from(["becket", "-p", "x"]).unwrap();
        let mut settings = RunSettings::new(run, &environment).unwrap();
        chosen(&environment, &mut settings, "server http://127.0.0.1:9/v1 toy").unwrap();
        settings.settings.remember("model", Value::from("openai/toy"));
        assert_eq!(settings.settings.config.model.as_deref(), Some("openai/toy"));
        let base = settings.settings.config.provider("openai").base_url.as_deref();
        assert_eq!(base, Some("http://127.0.0.1:9/v1"));
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
