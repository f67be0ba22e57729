//! Questions of MCP servers to the user of an interactive session.
//!
//! Model: servers start before there is a screen, so their questions go into a channel that the session serves. Each
//! question waits for its answer. If the server gives a question up, or its call is interrupted, the question is withdrawn from the screen.

use becket_mcp::elicitation::{Answer, Ask, Form, Question, misfit};
use becket_tui::input::{Input, Reply};
use becket_tui::server_question::{ServerAnswer, ServerForm, ServerQuestion};
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Asks the user questions of MCP servers. A handle that is cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AskUser {
    inputs: mpsc::UnboundedSender<Input>,
    open: Arc<OpenQuestions>,
}

/// The questions that wait for an answer, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    waiting: Mutex<HashMap<u64, oneshot::Sender<ServerAnswer>>>,
    next: AtomicU64,
}

impl OpenQuestions {
    /// Passes on the answer of the user.
    pub(super) fn answered(&self, number: u64, answer: ServerAnswer) {
        let waits = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        // A failure to send is ignored, because the server may have given up the question meanwhile.
        let _ = waits.map(|waits| waits.send(answer));
    }
}

/// Passes questions on to the interface until it ends.
pub(super) async fn pass_on(
    mut asked: mpsc::UnboundedReceiver<Input>,
    interface: mpsc::UnboundedSender<Input>,
) {
    while let Some(input) = asked.recv().await
        && interface.send(input).is_ok()
    {}
}

/// Withdraws a question when it is dropped without an answer.
struct PendingQuestion {
    ask: AskUser,
    number: u64,
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        let waits = self.ask.open.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
        if waits.is_some() {
            let _ = self.ask.inputs.send(Input::Reply(Reply::ServerAskOver(self.number)));
        }
    }
}

impl AskUser {
    /// Returns the handle, and the inputs for the screen.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Input>) {
        let (inputs, receiver) = mpsc::unbounded_channel();
        (Self { inputs, open: Arc::default() }, receiver)
    }

    pub(super) fn open_questions(&self) -> Arc<OpenQuestions> {
        Arc::clone(&self.open)
    }
}

impl Ask for AskUser {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        let ask = self.clone();
        Box::pin(async move {
            let number = ask.open.next.fetch_add(1, Ordering::Relaxed);
            let (sender, answer) = oneshot::channel();
            ask.open.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, sender);
            let (form, schema) = match question.form {
                Form::Fields(schema) => (ServerForm::Fields(schema.clone()), schema),
                Form::Url(url) => (ServerForm::Url(url), Value::Null),
            };
            let shown = ServerQuestion { number, server: question.server, message: question.message, form };
            let asked = PendingQuestion { ask, number };
            // A session that has ended shows nothing, and the question is cancelled.
            if asked.ask.inputs.send(Input::Reply(Reply::ServerAsks(Box::new(shown)))).is_err() {
                return Answer::Cancel;
            }
            match answer.await {
                Ok(ServerAnswer::Accept(content)) if misfit(&schema, &content).is_none() => {
                    Answer::Accept(content)
                }
                Ok(ServerAnswer::Decline) => Answer::Decline,
                Ok(ServerAnswer::Accept(_) | ServerAnswer::Cancel) | Err(_) => Answer::Cancel,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use serde_json::{Map, json};

    fn question(form: Form) -> Question {
        Question { server: "s".into(), message: "m".into(), id: None, form }
    }

    #[tokio::test]
    async fn a_question_gets_its_answer_and_one_that_is_dropped_is_withdrawn() {
        let (ask, mut inputs) = AskUser::new();
        let open = ask.open_questions();
        let schema = json!({ "properties": { "n": { "type": "integer" } } });
        let fits = Map::from_iter([("n".to_owned(), json!(1))]);
        let misfits = Map::from_iter([("n".to_owned(), json!("x"))]);
        for (number, given, want) in [
            (0, ServerAnswer::Accept(fits.clone()), Answer::Accept(fits)),
            (1, ServerAnswer::Accept(misfits), Answer::Cancel),
            (2, ServerAnswer::Decline, Answer::Decline),
            (3, ServerAnswer::Cancel, Answer::Cancel),
        ] {
            let mut asked = ask.ask(question(Form::Fields(schema.clone())));
            assert!((&mut asked).now_or_never().is_none());
            let Some(Input::Reply(Reply::ServerAsks(shown))) = inputs.recv().await else {
                panic!("not shown")
            };
            assert_eq!(shown.number, number);
            open.answered(number, given);
            assert_eq!(asked.await, want);
        }
        let mut asked = ask.ask(question(Form::Url("https://example.org".into())));
        assert!((&mut asked).now_or_never().is_none());
        drop(asked);
        assert!(matches!(inputs.recv().await, Some(Input::Reply(Reply::ServerAsks(_)))));
        assert_eq!(inputs.recv().await, Some(Input::Reply(Reply::ServerAskOver(4))));
        drop(inputs);
        assert_eq!(ask.ask(question(Form::Url(String::new()))).await, Answer::Cancel);
    }
}
