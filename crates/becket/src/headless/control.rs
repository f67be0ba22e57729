//! Control requests that need no turn: queries about the session, and changes of its settings.
//!
//! Every request gets exactly one answer. An unsupported request is answered with an error, so that no program waits
//! for it. This file routes; `settings`, `servers`, `files`, `listing` and `rewind` answer.

mod files;
mod listing;
mod rewind;
mod servers;
mod settings;

pub(super) use listing::models;
pub(super) use settings::{Batch, LiveSettings};

use super::Front;
use super::opening::is_empty;
use crate::failure::Failure;
use crate::settings::effort_of;
use becket_types::{CallId, Command, Event};
use serde_json::{Value, json};

fn sets_nothing(body: &Value) -> bool {
    body.as_object()
        .is_some_and(|fields| fields.iter().all(|(key, value)| key == "subtype" || is_empty(value)))
}

/// The answer to a request. `None`: it comes later.
type Answer = Option<Result<Value, String>>;

impl Front {
    /// Answers a request, or forwards it.
    pub(super) async fn request(&mut self, id: String, subtype: &str, body: &Value) -> Result<(), Failure> {
        let answer = match self.query(&id, subtype, body)? {
            Some(answer) => answer,
            None => self.change(&id, subtype, body).await,
        };
        self.send_rules().await;
        match answer {
            Some(Ok(response)) => super::written(self.printer.control_response(&id, &response)),
            Some(Err(why)) => super::written(self.printer.refusal(&id, &why)),
            None => Ok(()),
        }
    }

    /// Answers a request that changes nothing in the agent. `None`: the request is another one.
    fn query(&mut self, id: &str, subtype: &str, body: &Value) -> Result<Option<Answer>, Failure> {
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let answer: Result<Value, String> = match subtype {
            // A second `initialize` can no longer set the session up, but a program may ask again for its abilities.
            "initialize" if sets_nothing(body) => Ok(self.session.greeting.clone()),
            "initialize" => self.initialize_again(body),
            "get_context_usage" => Ok(self.figures.context_usage(listing::bare(&self.live().model))),
            "mcp_status" | "mcp_reconnect" | "mcp_toggle" | "mcp_set_servers" => {
                return Ok(Some(self.servers(id, subtype, body)));
            }
            "mcp_call" => return Ok(Some(self.mcp_call(id, body))),
            "mcp_read_resource" => return Ok(Some(self.mcp_read_resource(id, body))),
            "file_suggestions" => {
                self.suggest_files(id, body);
                return Ok(Some(None));
            }
            "read_file" => self.read_file(body),
            "get_session_cost" => Ok(json!({
                "text": format!("Total cost: ${:.4}", self.figures.cost), "total_cost_usd": self.figures.cost,
            })),
            "get_usage" => Ok(self.figures.usage()),
            "get_task_output" => match text("task_id") {
                Some(task) => self.task_output(task),
                None => Err("get_task_output needs `task_id`".to_owned()),
            },
            "list_models" => Ok(json!({ "models": self.models() })),
            "get_settings" => Ok(self.settings()),
            "get_hooks_listing" => Ok(self.hooks_listing()),
            "list_permission_rules" => Ok(self.permission_rules()),
            "get_binary_version" => Ok(json!({ "version": env!("CARGO_PKG_VERSION") })),
            "reload_skills" => Ok(self.reload_commands()?),
            "reload_plugins" => {
                self.reload_commands()?;
                match body.get("add_plugins").filter(|plugins| !is_empty(plugins)) {
                    Some(_) => Err("becket has no plugins, so none can be added".to_owned()),
                    None => Ok(self.without_plugins()),
                }
            }
            "reload_output_styles" => Ok(json!({ "available_output_styles": ["default"] })),
            "update_settings" => Err(refused_update(body)),
            "set_has_subscribers" => Ok(json!({})),
            _ => return Ok(None),
        };
        Ok(Some(Some(answer)))
    }

    /// Carries out a request that changes something, or refuses one that is not known.
    async fn change(&mut self, id: &str, subtype: &str, body: &Value) -> Answer {
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let command = match subtype {
            "set_model" => Ok(Command::SetModel { model: self.session.model.clone() }),
            "set_max_thinking_tokens" => {
                let tokens = body.get("max_thinking_tokens").and_then(Value::as_u64);
                Ok(Command::SetEffort { effort: tokens.map(|tokens| effort_of(tokens).to_owned()) })
            }
            "rename_session" => match text("title") {
                Some(title) => Ok(Command::Rename { title: title.to_owned() }),
                None => Err("rename_session needs `title`".to_owned()),
            },
            "generate_session_title" => return self.make_title(id, body).await,
            "seed_read_state" => Self::seed(body),
            "background_tasks" => {
                Ok(Command::Background { call_id: text("tool_use_id").map(|id| CallId(id.to_owned())) })
            }
            "interrupt" => return self.interrupt_all(id).await,
            "side_question" => return self.side_question(id, body).await,
            "cancel_async_message" => {
                let Some(uuid) = text("message_uuid") else {
                    return Some(Err("cancel_async_message needs `message_uuid`".to_owned()));
                };
                let waits = self.pending.waiting.iter().any(|known| known.as_deref() == Some(uuid));
                self.command(Command::Withdraw { client_id: uuid.to_owned() }).await;
                return Some(Ok(json!({ "cancelled": waits })));
            }
            "stop_task" => match text("task_id") {
                Some(task) => return self.stop_task(id, task).await,
                None => Err("stop_task needs `task_id`".to_owned()),
            },
            "apply_flag_settings" => {
                return match self.apply_flags(id, body).await {
                    Ok(true) => None,
                    Ok(false) => Some(Ok(json!({}))),
                    Err(why) => Some(Err(why)),
                };
            }
            "rewind_files" => return self.rewind(id, body).await.err().map(Err),
            other => Err(format!("control request {other:?} is not supported")),
        };
        match command {
            Ok(command) => {
                self.with_receipt(id.to_owned(), command, json!({})).await;
                None
            }
            Err(why) => Some(Err(why)),
        }
    }

    /// Sends the agent a command. When the agent confirms it, the request is answered with `answer`.
    pub(super) async fn with_receipt(&mut self, request_id: String, command: Command, answer: Value) {
        self.pending.receipts.insert(request_id.clone(), answer);
        self.command(Command::WithReceipt { request_id, what: Box::new(command) }).await;
    }

    /// Takes the hooks of a repeated `initialize` in place of the program's earlier ones. Nothing else can be set again.
    fn initialize_again(&mut self, body: &Value) -> Result<Value, String> {
        let others = body.as_object().into_iter().flatten().filter(|(key, value)| {
            !matches!(key.as_str(), "subtype" | "hooks" | "sdkMcpServerConfigs") && !is_empty(value)
        });
        let others: Vec<&str> = others.map(|(key, _)| key.as_str()).collect();
        if !others.is_empty() {
            return Err(format!(
                "the session has already started, so only hooks can be set again, not {}; send them before the first message",
                others.join(", ")
            ));
        }
        let mut notes = Vec::new();
        let (groups, wrong) = super::opening::callbacks(body, &mut notes);
        notes.iter().for_each(|text| super::note(text));
        if let Some(why) = wrong {
            return Err(why);
        }
        let Some(engine) = &self.session.hooks else {
            return Err("this run has no hooks".to_owned());
        };
        engine.engine().remove(becket_hooks::Origin::Sdk, "");
        engine.engine().add(groups);
        Ok(self.session.greeting.clone())
    }

    /// Interrupts the turn and discards the prompts that wait.
    async fn interrupt_all(&mut self, id: &str) -> Answer {
        let held = self.servers.waits.drop_prompts();
        self.pending.withdrawn = Some((id.to_owned(), held));
        self.command(Command::WithdrawAll).await;
        let answer = json!({ "still_queued": [], "cancelled": [] });
        self.with_receipt(id.to_owned(), Command::Interrupt, answer).await;
        None
    }

    /// Asks a question beside the conversation. The answer comes with an event.
    async fn side_question(&mut self, id: &str, body: &Value) -> Answer {
        let Some(question) = body.get("question").and_then(Value::as_str) else {
            return Some(Err("side_question needs `question`".to_owned()));
        };
        if self.pending.side.is_some() {
            return Some(Err(
                "another side question is being answered; ask again after its answer".to_owned()
            ));
        }
        self.pending.side = Some(id.to_owned());
        let what = Box::new(Command::SideQuestion { question: question.to_owned() });
        self.command(Command::WithReceipt { request_id: id.to_owned(), what }).await;
        None
    }

    /// Answers the pending side question with the agent's event. Returns true if the event was about it.
    pub(super) fn side_answered(&mut self, event: &Event) -> Result<bool, Failure> {
        let answer = match event {
            Event::SideAnswer { answer, .. } => json!({ "response": answer, "synthetic": false }),
            Event::SideQuestionFailed { .. } => json!({ "response": null, "synthetic": false }),
            Event::Receipt { request_id, error }
                if self.pending.side.as_deref() == Some(request_id.as_str()) =>
            {
                if let Some(why) = error {
                    self.pending.side = None;
                    super::written(self.printer.refusal(request_id, why))?;
                }
                return Ok(true);
            }
            _ => return Ok(false),
        };
        if let Some(id) = self.pending.side.take() {
            super::written(self.printer.control_response(&id, &answer))?;
        }
        Ok(true)
    }

    /// Makes a title of a description: its first line. With `persist` the session gets it.
    async fn make_title(&mut self, id: &str, body: &Value) -> Answer {
        let given = body.get("description").and_then(Value::as_str).unwrap_or_default();
        let Some(title) = becket_agent::prompt::title(given) else {
            return Some(Err("generate_session_title needs `description`".to_owned()));
        };
        let answer = json!({ "title": title });
        if body.get("persist").and_then(Value::as_bool) == Some(true) {
            self.with_receipt(id.to_owned(), Command::Rename { title }, answer).await;
            return None;
        }
        Some(Ok(answer))
    }
}

/// Returns why a file of settings is not changed.
fn refused_update(body: &Value) -> String {
    let source = body.get("source").and_then(Value::as_str).unwrap_or("this source");
    format!(
        "becket writes no settings of {source}; apply_flag_settings changes them for this session, and becket config path names the \
         user's file"
    )
}
