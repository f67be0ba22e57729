//! Requests to the program that drives becket, for hooks and tools that the program implements.
//!
//! Model: a [`HostLink`] is a cheap handle. The front end owns the other side, writes each request as a
//! `control_request` line and returns the answer. A request that is dropped is withdrawn with `control_cancel_request`.
//!
//! Invariant: no request waits for ever. When the program closes its side, every open request fails, and so does each
//! later one. The exception is a farewell, a hook at the end of the session: the program often closes its side first and still
//! reads, so the request is written and counts as answered after [`FAREWELL`].

use becket_mcp::elicitation::{Answer, Ask, Form, Question, misfit};
use becket_mcp::{Channel, HostServers};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Time for the driving program to run a hook whose answer cannot reach becket, before the process ends.
const FAREWELL: Duration = Duration::from_millis(500);

/// Sends requests and lines to the driving program.
#[derive(Clone, Debug)]
pub(crate) struct HostLink(mpsc::UnboundedSender<HostMessage>);

/// A message to the driving program that is about to be written.
#[derive(Debug)]
pub(crate) enum HostMessage {
    Request(HostRequest),
    /// A `system` line of this kind, with its fields.
    Line(&'static str, Value),
}

/// A request that is about to be sent.
#[derive(Debug)]
pub(crate) struct HostRequest {
    body: Value,
    reply: oneshot::Sender<Result<Value, String>>,
}

const GONE: &str = "the program that drives becket has closed the connection";

impl HostLink {
    /// Returns the link, and the side that the front end serves.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<HostMessage>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Sends a request and returns its answer. Its `subtype` names its kind.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is no answer.
    pub(crate) async fn request(&self, body: Value) -> Result<Value, String> {
        let (reply, answer) = oneshot::channel();
        self.0.send(HostMessage::Request(HostRequest { body, reply })).map_err(|_| GONE.to_owned())?;
        answer.await.unwrap_or_else(|_| Err(GONE.to_owned()))
    }

    /// Sends a line that needs no answer. If the other program has ended, the line is dropped: nobody needs it.
    fn tell(&self, subtype: &'static str, body: Value) {
        let _ = self.0.send(HostMessage::Line(subtype, body));
    }
}

/// Waits for the next message to the driving program, for ever if there can be none.
pub(super) async fn next_request(
    requests: Option<&mut mpsc::UnboundedReceiver<HostMessage>>,
) -> Option<HostMessage> {
    match requests {
        Some(requests) => requests.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns the MCP servers that live in the driving program, reached through `link`.
pub(super) fn servers(link: &HostLink) -> HostServers {
    let link = link.clone();
    let ask = Arc::new(AskProgram(link.clone()));
    HostServers::new(move |name| Arc::new(ProgramServer { link: link.clone(), name: name.to_owned() }), ask)
}

/// Passes a question of an MCP server to the driving program.
struct AskProgram(HostLink);

impl Ask for AskProgram {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        let link = self.0.clone();
        let mut body = json!({
            "subtype": "elicitation", "mcp_server_name": question.server, "message": question.message,
        });
        match &question.form {
            Form::Fields(schema) => {
                body["mode"] = json!("form");
                body["requested_schema"] = schema.clone();
            }
            Form::Url(url) => {
                body["mode"] = json!("url");
                body["url"] = json!(url);
                body["elicitation_id"] = json!(question.id);
            }
        }
        Box::pin(async move { answer(&question, link.request(body).await) })
    }

    fn completed(&self, server: &str, id: &str) {
        self.0.tell("elicitation_complete", json!({ "mcp_server_name": server, "elicitation_id": id }));
    }
}

/// Returns the driving program's answer to a question. If the program cannot be asked, or its answer does not fit the
/// form, the question is cancelled.
fn answer(question: &Question, given: Result<Value, String>) -> Answer {
    let Ok(given) = given else { return Answer::Cancel };
    match (given["action"].as_str(), &question.form) {
        (Some("accept"), Form::Url(_)) => Answer::Accept(Map::new()),
        (Some("accept"), Form::Fields(schema)) => {
            let content = given["content"].as_object().cloned().unwrap_or_default();
            match misfit(schema, &content) {
                None => Answer::Accept(content),
                Some(why) => {
                    super::note(&format!(
                        "the answer to a question of the MCP server {} is not used: {why}",
                        question.server
                    ));
                    Answer::Cancel
                }
            }
        }
        (Some("decline"), _) => Answer::Decline,
        _ => Answer::Cancel,
    }
}

/// An MCP server in the driving program's process.
struct ProgramServer {
    link: HostLink,
    name: String,
}

impl Channel for ProgramServer {
    fn send(&self, message: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let link = self.link.clone();
        // A notification is sent as a request too. The program's confirmation of it is dropped, as it is no message of the server.
        let is_request = message.get("method").is_some() && message.get("id").is_some();
        let body = json!({ "subtype": "mcp_message", "server_name": self.name, "message": message });
        Box::pin(async move {
            let mut answer = link.request(body).await?;
            Ok(is_request.then(|| answer["mcp_response"].take()))
        })
    }
}

/// Requests that wait for an answer, by id.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    open: HashMap<String, oneshot::Sender<Result<Value, String>>>,
    /// Inputs of calls that were too long for a line: as they were sent to the driving program, and whole. By the ids of requests.
    shortened: HashMap<String, (Value, Value)>,
    next: u64,
    closed: bool,
}

impl OpenRequests {
    /// Returns a new id, unique in this process.
    pub(super) fn id(&mut self) -> String {
        self.next += 1;
        format!("becket_{}", self.next)
    }

    /// Registers a request. Returns its id and body, to be written. Returns `None` if the driving program no longer
    /// answers; the request has failed then.
    pub(super) fn take(&mut self, request: HostRequest) -> Option<(String, Value)> {
        let HostRequest { body, reply } = request;
        if self.closed && !is_farewell(&body) {
            let _ = reply.send(Err(GONE.to_owned()));
            return None;
        }
        let id = self.id();
        if self.closed {
            tokio::spawn(async move {
                tokio::time::sleep(FAREWELL).await;
                let _ = reply.send(Ok(json!({})));
            });
            return Some((id, body));
        }
        self.open.insert(id.clone(), reply);
        Some((id, body))
    }

    /// Passes an answer to its request. Returns false if nobody waits for it.
    pub(super) fn answered(&mut self, id: &str, mut outcome: Result<Value, String>) -> bool {
        if let (Some((shown, whole)), Ok(answer)) = (self.shortened.remove(id), &mut outcome)
            && let Some(input) = answer.pointer_mut("/hookSpecificOutput/updatedInput")
        {
            becket_print::restore(input, &shown, &whole);
        }
        self.open.remove(id).is_some_and(|reply| reply.send(outcome).is_ok())
    }

    /// If the tool input in a request was shortened for the driving program, keeps both forms, so that an input which a
    /// hook returns can be made whole again.
    pub(super) fn shown(&mut self, id: &str, mut body: Value, mut shown: Value) {
        let input = |request: &mut Value| {
            request.pointer_mut("/input/tool_input").map(Value::take).unwrap_or_default()
        };
        let (whole, shown) = (input(&mut body), input(&mut shown));
        if whole != shown {
            self.shortened.insert(id.to_owned(), (shown, whole));
        }
    }

    /// Returns the ids of requests that nobody waits for any more.
    pub(super) fn dropped(&mut self) -> Vec<String> {
        let gone: Vec<String> =
            self.open.iter().filter(|(_, reply)| reply.is_closed()).map(|(id, _)| id.clone()).collect();
        for id in &gone {
            self.open.remove(id);
            self.shortened.remove(id);
        }
        gone
    }

    /// True if the driving program has closed its side.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Fails all open requests, because the driving program will not answer any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
        for (_, reply) in self.open.drain() {
            let _ = reply.send(Err(GONE.to_owned()));
        }
    }
}

/// True for the hook at the end of a session: its answer changes nothing.
fn is_farewell(body: &Value) -> bool {
    body["subtype"] == "hook_callback" && body["input"]["hook_event_name"] == "SessionEnd"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_program_fits_the_form_or_cancels() {
        let schema = json!({ "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let form = |form: Form| Question { server: "s".into(), message: "?".into(), id: None, form };
        let (fields, url) = (form(Form::Fields(schema)), form(Form::Url("https://x".into())));
        let content = json!({ "n": 3 }).as_object().unwrap().clone();
        for (question, given, wanted) in [
            (&fields, Ok(json!({ "action": "accept", "content": { "n": 3 } })), Answer::Accept(content)),
            (&fields, Ok(json!({ "action": "accept", "content": { "n": "3" } })), Answer::Cancel),
            (&fields, Ok(json!({ "action": "accept" })), Answer::Cancel),
            (&fields, Ok(json!({ "action": "decline" })), Answer::Decline),
            (&fields, Ok(json!({})), Answer::Cancel),
            (&fields, Err("gone".to_owned()), Answer::Cancel),
            (&url, Ok(json!({ "action": "accept" })), Answer::Accept(Map::new())),
        ] {
            assert_eq!(answer(question, given.clone()), wanted, "{given:?}");
        }
    }

    async fn received(receiver: &mut mpsc::UnboundedReceiver<HostMessage>) -> HostRequest {
        match receiver.recv().await.unwrap() {
            HostMessage::Request(request) => request,
            HostMessage::Line(subtype, _) => panic!("a line {subtype} and no request"),
        }
    }

    #[tokio::test]
    async fn every_request_ends() {
        let (link, mut receiver) = HostLink::new();
        let mut open = OpenRequests::default();
        let ask = |link: &HostLink| {
            let link = link.clone();
            tokio::spawn(async move { link.request(json!({ "subtype": "x" })).await })
        };
        let answered = ask(&link);
        let (id, body) = open.take(received(&mut receiver).await).unwrap();
        assert_eq!(body["subtype"], "x");
        assert!(open.answered(&id, Ok(json!(1))));
        assert!(!open.answered(&id, Ok(json!(2))), "an answer counts once");
        assert_eq!(answered.await.unwrap(), Ok(json!(1)));

        let dropped = ask(&link);
        let (id, _) = open.take(received(&mut receiver).await).unwrap();
        dropped.abort();
        let _ = dropped.await;
        assert_eq!(open.dropped(), [id]);

        let closed = ask(&link);
        open.take(received(&mut receiver).await).unwrap();
        open.close();
        assert_eq!(closed.await.unwrap(), Err(GONE.to_owned()));
        let late = ask(&link);
        assert!(open.take(received(&mut receiver).await).is_none());
        assert_eq!(late.await.unwrap(), Err(GONE.to_owned()));
        let bye = json!({ "subtype": "hook_callback", "input": { "hook_event_name": "SessionEnd" } });
        let farewell = tokio::spawn({
            let (link, bye) = (link.clone(), bye.clone());
            async move { link.request(bye).await }
        });
        let written = open.take(received(&mut receiver).await).unwrap();
        assert_eq!(written.1, bye, "the program may still read");
        assert_eq!(farewell.await.unwrap(), Ok(json!({})), "and nobody waits for its answer for long");
        drop(receiver);
        assert_eq!(link.request(json!({})).await, Err(GONE.to_owned()));
    }
}
