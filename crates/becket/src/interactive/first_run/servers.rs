//! Servers of models for the first page: those on the usual ports of this machine, and one that the user named.
//!
//! Owns the search, which goes on while the page is shown, and the entries of the models that were found. A model of a
//! known server is chosen under that server's own name, so the name `openai` stays free. Stores nothing.

use super::{Choice, wants_key};
use crate::cmd::one_line;
use crate::environment::Environment;
use crate::providers;
use becket_config::{Secret, Settings};
use becket_model::{Endpoint, ErrorKind, ModelRef};
use becket_tui::welcome::{Entry, News};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use std::time::Duration;
use tokio::sync::mpsc;

/// Longest time a server may take to list its models.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of models of one server that are offered.
const MODELS: usize = 5;
/// Servers that did not answer are asked again after this time, as long as the page is shown.
const RETRY_INTERVAL: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 3_000 });

/// A server that is asked for its models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub title: String,
    pub base: String,
    /// The built-in provider whose address this is. Another server takes the place of OpenAI's.
    pub provider: Option<&'static str>,
}

impl Server {
    /// A server that the user named.
    pub(super) fn own(base: &str) -> Self {
        Self { title: "your server".to_owned(), base: base.to_owned(), provider: None }
    }
}

/// Returns the servers that people run on their own machine, at the addresses that the configuration and the environment
/// give them. A gateway is left out, because its models cost money.
pub(super) fn local_servers(environment: &Environment, settings: &Settings) -> Vec<Server> {
    let local = becket_config::VENDORS.iter().filter(|vendor| vendor.local && vendor.name != "litellm");
    local
        .filter_map(|vendor| {
            let base = providers::endpoint(environment, settings, vendor.name).base_url?;
            Some(Server { title: vendor.title.to_owned(), base, provider: Some(vendor.name) })
        })
        .collect()
}

/// A note of the page that stays while servers are searched for.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    pub text: String,
    /// The note says that the server at this address does not answer. It is discarded when the server answers.
    pub awaits: Option<String>,
}

impl Note {
    pub(super) fn new(text: String) -> Self {
        Self { text, awaits: None }
    }
}

/// Queries all servers at once and reports each one's models when it answers. Servers without an answer are queried
/// again until the page closes, because they may start later. `said`: the note of the page. Without one, the page reports
/// that no server answers.
pub(super) fn query_all(
    servers: Vec<Server>,
    own: Option<(String, Option<Secret>)>,
    before: usize,
    mut said: Option<Note>,
) -> mpsc::UnboundedReceiver<News<Choice>> {
    let (sender, news) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut silent = servers;
        let (mut any, mut locked) = (false, None);
        while !silent.is_empty() {
            let mut answers: FuturesUnordered<_> = std::mem::take(&mut silent)
                .into_iter()
                .map(|server| {
                    let own = own.as_ref().filter(|(own, _)| *own == server.base);
                    let key = own.and_then(|(_, key)| key.clone());
                    async move { (ask(&server, key, PATIENCE).await, server) }
                })
                .collect();
            while let Some((listing, server)) = answers.next().await {
                let Listing::Models(entries) = listing else {
                    // Only the user's own server is worth a note. Another address of this machine may belong to a program without models.
                    if let Some((base, key)) = own.as_ref().filter(|(base, _)| *base == server.base) {
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
                if let Some(note) = said.as_mut().filter(|note| note.awaits.as_ref() == Some(&server.base)) {
                    *note = Note::default();
                }
                let note = said.as_ref().map(|note| note.text.clone()).unwrap_or_default();
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
                () = tokio::time::sleep(RETRY_INTERVAL) => {}
            }
        }
    });
    news
}

/// Answer of a server to the question for its models.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Listing {
    Models(Vec<Entry<Choice>>),
    /// It refuses a request without a key, or with this one.
    WantsKey,
    /// It has no address, or it answers, but not as a model server does. The text goes on after "the server at …".
    Refused(String),
    /// It did not answer in time, or has no models.
    Nothing,
}

/// Asks a server for its models.
pub(super) async fn ask(server: &Server, key: Option<Secret>, patience: Duration) -> Listing {
    let Server { title, base, provider } = server;
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
        Ok(Err(error)) if error.kind == ErrorKind::Dns => {
            return Listing::Refused(format!("was not reached: {}", one_line(&error.message, 200)));
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
        let choice = match provider {
            Some(provider) => Choice::Model(format!("{provider}/{}", model.name)),
            None => Choice::OfServer { base: base.clone(), name: model.name.clone() },
        };
        let shown = format!("{}/{}", provider.unwrap_or("openai"), one_line(&model.name, 80));
        Entry::of(choice, &shown, &format!("{title} at {base}"))
    };
    Listing::Models(models.iter().take(MODELS).map(entry).collect())
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
        let mut news =
            query_all(vec![Server::own(&base), Server::own("http://127.0.0.1:1/v1")], None, 2, None);
        let mut ids = Vec::new();
        while ids.is_empty() {
            ids.extend(news.recv().await.unwrap().entries.into_iter().map(|e| e.id));
        }
        let of_server = |name: &str| Choice::OfServer { base: base.clone(), name: name.to_owned() };
        assert_eq!(ids, [of_server("qwen"), of_server("a b")]);
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
        let mut news = query_all(vec![Server::own(&base)], None, 2, None);
        let first = news.recv().await.unwrap();
        assert!(first.entries.is_empty() && first.note.contains("appears here"), "{}", first.note);
        let found = loop {
            let next = news.recv().await.unwrap();
            if let Some(entry) = next.entries.first() {
                break entry.id.clone();
            }
        };
        assert_eq!(found, Choice::OfServer { base, name: "late".to_owned() });
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn a_server_that_wants_a_key_is_not_a_silent_one() {
        let refusal = serde_json::json!({"error": {"message": "no key"}});
        let server = becket_testkit::MockServer::with(|_| becket_testkit::Answer::text("no").into())
            .get("/v1/models", becket_testkit::Reply::json(401, &refusal));
        let base = format!("{}/v1", server.url());
        assert_eq!(ask(&Server::own(&base), None, Duration::from_secs(20)).await, Listing::WantsKey);
        assert_eq!(ask(&Server::own("http://127.0.0.1:1/v1"), None, PATIENCE).await, Listing::Nothing);
        let mut news = query_all(vec![Server::own(&base)], Some((base.clone(), None)), 2, None);
        let note = news.recv().await.unwrap().note;
        assert!(note.contains(&format!("{base} answers, but wants a key")), "{note}");
    }

    /// A server at its own port or address is chosen under its own name.
    #[tokio::test]
    async fn known_servers_keep_their_names() {
        let server = becket_testkit::MockServer::with(|_| becket_testkit::Answer::text("no").into()).get(
            "/v1/models",
            becket_testkit::Reply::json(200, &serde_json::json!({"data": [{"id": "qwen"}]})),
        );
        let dir = tempfile::tempdir().unwrap();
        let base = format!("{}/v1", server.url());
        let vars = [("SGLANG_BASE_URL".to_owned(), base.clone())].into_iter().collect();
        let environment = Environment { vars, ..Environment::below(dir.path()) };
        let servers = local_servers(&environment, &Settings::default());
        let names: Vec<&str> = servers.iter().filter_map(|server| server.provider).collect();
        assert_eq!(names, ["ollama", "lmstudio", "llamacpp", "vllm", "sglang"]);
        let Listing::Models(found) = ask(servers.last().unwrap(), None, Duration::from_secs(20)).await else {
            panic!()
        };
        assert_eq!(found[0].id, Choice::Model("sglang/qwen".to_owned()));
    }
}
