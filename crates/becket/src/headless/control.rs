//! Control requests that need no turn: queries about the session, and changes of its settings.
//!
//! Every request gets exactly one answer. An unsupported request is answered with an error, so that no program waits
//! for it.

use super::Front;
use super::figures::Rewinding;
use super::opening::is_empty;
use super::waits::{Held, Waited};
use crate::failure::Failure;
use crate::settings::effort_of;
use becket_types::{CallId, Command, Event, MessageId, NoticeLevel, RewindWhat, UndoPlan};
use serde_json::{Value, json};

fn sets_nothing(body: &Value) -> bool {
    body.as_object()
        .is_some_and(|fields| fields.iter().all(|(key, value)| key == "subtype" || is_empty(value)))
}

impl Front {
    /// Answers a request, or forwards it.
    pub(super) async fn request(&mut self, id: String, subtype: &str, body: &Value) -> Result<(), Failure> {
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let answer = match subtype {
            // A second `initialize` can no longer set anything, but a program may ask again for the session's
            // abilities.
            "initialize" if sets_nothing(body) => Ok(self.session.greeting.clone()),
            "initialize" => {
                Err("the session has already started; send initialize before the first message".to_owned())
            }
            "set_model" => {
                let command = Command::SetModel { model: self.session.model.clone() };
                self.with_receipt(id, command, json!({})).await;
                return Ok(());
            }
            "set_max_thinking_tokens" => {
                let tokens = body.get("max_thinking_tokens").and_then(Value::as_u64);
                let effort = tokens.map(|tokens| effort_of(tokens).to_owned());
                self.with_receipt(id, Command::SetEffort { effort }, json!({})).await;
                return Ok(());
            }
            "rename_session" => match text("title") {
                Some(title) => {
                    self.with_receipt(id, Command::Rename { title: title.to_owned() }, json!({})).await;
                    return Ok(());
                }
                None => Err("rename_session needs `title`".to_owned()),
            },
            "cancel_async_message" => match text("message_uuid") {
                Some(uuid) => {
                    let waits = self.pending.waiting.iter().any(|known| known.as_deref() == Some(uuid));
                    self.command(Command::Withdraw { client_id: uuid.to_owned() }).await;
                    Ok(json!({ "cancelled": waits }))
                }
                None => Err("cancel_async_message needs `message_uuid`".to_owned()),
            },
            "stop_task" => match text("task_id").map(|task| self.known.tasks.get(task).cloned()) {
                Some(Some(call_id)) => {
                    let what = Box::new(Command::Interrupt);
                    self.command(Command::ToSubagent { call_id, what }).await;
                    Ok(json!({}))
                }
                Some(None) => Err("no task with this id is running".to_owned()),
                None => Err("stop_task needs `task_id`".to_owned()),
            },
            "background_tasks" => {
                let call_id = text("tool_use_id").map(|id| CallId(id.to_owned()));
                self.with_receipt(id, Command::Background { call_id }, json!({})).await;
                return Ok(());
            }
            "rewind_files" => match self.rewind(&id, body).await {
                Ok(()) => return Ok(()),
                Err(why) => Err(why),
            },
            "get_context_usage" => Ok(self.figures.context_usage(&self.session.model)),
            "mcp_status" | "mcp_reconnect" | "mcp_toggle" | "mcp_set_servers" => {
                match self.servers(&id, subtype, body) {
                    Some(answer) => answer,
                    None => return Ok(()),
                }
            }
            "get_session_cost" => Ok(json!({
                "text": format!("Total cost: ${:.4}", self.figures.cost), "total_cost_usd": self.figures.cost,
            })),
            "get_usage" => Ok(json!({ "session": {
                "total_cost_usd": self.figures.cost, "total_duration_ms": self.figures.duration_ms,
                "total_api_duration_ms": self.figures.api_ms,
            } })),
            "list_models" => Ok(json!({ "models": [
                { "value": "default", "displayName": self.session.model, "description": "the model of this session" },
            ] })),
            "get_settings" => Ok(self.session.settings.clone()),
            "list_permission_rules" => Ok(json!({ "state": self.session.rules })),
            "get_binary_version" => Ok(json!({ "version": env!("CARGO_PKG_VERSION") })),
            "reload_skills" => Ok(self.reload_commands()?),
            "set_has_subscribers" => Ok(json!({})),
            other => Err(format!("control request {other:?} is not supported")),
        };
        match answer {
            Ok(response) => super::written(self.printer.control_response(&id, &response)),
            Err(why) => super::written(self.printer.refusal(&id, &why)),
        }
    }

    /// Returns the answer to a request about MCP servers. `None`: it comes once the servers have started.
    fn servers(&mut self, id: &str, subtype: &str, body: &Value) -> Option<Result<Value, String>> {
        let Some(hub) = self.servers.hub.clone() else {
            return Some(match subtype {
                "mcp_status" => Ok(json!({ "mcpServers": [] })),
                _ => Err("this run has no MCP servers".to_owned()),
            });
        };
        if self.servers.waits.any() && subtype != "mcp_status" {
            self.servers.waits.hold(Held::Request(id.to_owned(), subtype.to_owned(), body.clone()));
            return None;
        }
        let (id, name) = (id.to_owned(), body.get("serverName").and_then(Value::as_str).map(str::to_owned));
        Some(match (subtype, name) {
            ("mcp_status", _) => Ok(json!({ "mcpServers": crate::mcp::statuses(&hub) })),
            ("mcp_set_servers", _) => {
                let Some(servers) = body.get("servers").and_then(Value::as_object).cloned() else {
                    return Some(Err("mcp_set_servers needs `servers`, an object".to_owned()));
                };
                let change = crate::mcp::set_servers(hub, self.servers.environment.clone(), servers);
                self.servers.waits.add(async move { Waited::Answer(id, Ok(change.await)) });
                return None;
            }
            (_, Some(name)) if !hub.has(&name) => {
                Err(format!("there is no MCP server {name:?} in this session"))
            }
            ("mcp_toggle", Some(name)) => {
                let Some(enabled) = body.get("enabled").and_then(Value::as_bool) else {
                    return Some(Err("mcp_toggle needs `enabled`".to_owned()));
                };
                self.servers.waits.add(async move {
                    Waited::Answer(id, hub.toggle(&name, enabled).await.map(|()| json!({})))
                });
                return None;
            }
            (_, Some(name)) => {
                hub.reconnect(&name);
                Ok(json!({}))
            }
            (subtype, None) => Err(format!("{subtype} needs `serverName`")),
        })
    }

    /// Sends the agent a command. When the agent confirms it, the request is answered with `answer`.
    pub(super) async fn with_receipt(&mut self, request_id: String, command: Command, answer: Value) {
        self.pending.receipts.insert(request_id.clone(), answer);
        self.command(Command::WithReceipt { request_id, what: Box::new(command) }).await;
    }

    async fn rewind(&mut self, id: &str, body: &Value) -> Result<(), String> {
        let given = body
            .get("user_message_id")
            .and_then(Value::as_str)
            .ok_or("rewind_files needs `user_message_id`")?;
        if self.pending.rewinding.is_some() {
            return Err("another rewind_files is under way".to_owned());
        }
        if self.state.in_turn {
            return Err("files can be rewound between turns only; interrupt the turn first".to_owned());
        }
        let to = match self.known.messages.get(given) {
            Some(known) => *known,
            None => given
                .parse::<MessageId>()
                .map_err(|_| format!("there is no user message {given:?} in this session"))?,
        };
        let dry_run = body.get("dry_run").and_then(Value::as_bool) == Some(true);
        self.pending.rewinding = Some(Rewinding { request_id: id.to_owned(), dry_run, plan: None });
        self.command(Command::Rewind { to, what: RewindWhat::Files }).await;
        Ok(())
    }

    /// Advances a rewind by the agent's event.
    pub(super) async fn rewind_saw(&mut self, event: &Event) -> Result<(), Failure> {
        let Some(rewinding) = &mut self.pending.rewinding else { return Ok(()) };
        let answer = match event {
            Event::UndoPlanned(plan) => {
                let told = rewound(plan);
                if rewinding.dry_run || plan.paths.is_empty() {
                    told
                } else {
                    rewinding.plan = Some(told);
                    let command = Command::CarryOut { plan: plan.plan, force: false };
                    self.command(command).await;
                    return Ok(());
                }
            }
            Event::UndoDone(_) => rewinding.plan.take().unwrap_or_else(|| json!({ "canRewind": true })),
            Event::Notice { level: NoticeLevel::Warning | NoticeLevel::Error, text } => {
                json!({ "canRewind": false, "error": text })
            }
            _ => return Ok(()),
        };
        let Some(Rewinding { request_id, .. }) = self.pending.rewinding.take() else { return Ok(()) };
        match answer.get("error").and_then(Value::as_str) {
            Some(why) => super::written(self.printer.refusal(&request_id, why)),
            None => super::written(self.printer.control_response(&request_id, &answer)),
        }
    }
}

fn rewound(plan: &UndoPlan) -> Value {
    let lines = plan.paths.iter().filter_map(|path| path.lines);
    let (more, less) = lines.fold((0, 0), |(more, less), (a, b)| (more + a, less + b));
    let files: Vec<Value> = plan.paths.iter().map(|path| json!(path.path.0.to_string_lossy())).collect();
    json!({ "canRewind": true, "filesChanged": files, "insertions": more, "deletions": less })
}
