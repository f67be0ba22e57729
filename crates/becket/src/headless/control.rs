//! Control requests that need no turn: queries about the session, and changes of its settings.
//!
//! Every request gets exactly one answer. An unsupported request is answered with an error, so that no program waits
//! for it. This file routes; `settings`, `servers`, `files` and `listing` answer.
//!
//! Signals are requests to end: SIGINT ends the turn, and the run with it. SIGTERM and SIGHUP end the run at once: the turn stays
//! unfinished, and only hooks at the end of the session still run, for at most [`FAREWELL`]. A second signal ends the process.

mod advice;
mod files;
mod listing;
mod servers;
mod settings;
mod update;

pub(super) use listing::models;
pub(super) use servers::Servers;
use settings::ServerMode;
pub(super) use settings::{Batch, LiveSettings};

use super::figures::Rewinding;
use super::jobs::no_task;
use super::opening::is_empty;
use super::{Front, GRACE};
use crate::failure::Failure;
use crate::hooks::OutsideHooks;
use crate::settings::effort_of;
use becket_agent::Live;
use becket_print::ExitStatus;
use becket_types::{
    CallId, Command, Event, HookEvent, MessageId, NoticeLevel, PermissionMode, RewindWhat, UndoPlan,
};
use serde_json::{Value, json};
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::Instant;

fn sets_nothing(body: &Value) -> bool {
    body.as_object()
        .is_some_and(|fields| fields.iter().all(|(key, value)| key == "subtype" || is_empty(value)))
}

/// Time for hooks at the end of the session after a signal. It is a little longer than the agent's own limit for these hooks.
const FAREWELL: Duration = Duration::from_secs(2);

/// The answer to a request. `None`: it comes later.
type Answer = Option<Result<Value, String>>;

impl Front {
    /// Handles a signal. Returns true if the process must end at once.
    pub(super) async fn signalled(&mut self, status: ExitStatus) -> bool {
        let is_terminated = status == ExitStatus::Terminated;
        let known = self.state.ending.map(|(status, _)| status);
        let limit = if is_terminated { FAREWELL } else { GRACE };
        self.state.ending = Some((status, Instant::now() + limit));
        // A second signal ends the process, except a SIGTERM after a SIGINT, which ends the run as a first SIGTERM does.
        if known.is_some_and(|known| known == ExitStatus::Terminated || !is_terminated) {
            return true;
        }
        if !is_terminated {
            self.drop_waiting();
            self.command(Command::Interrupt).await;
            self.end_input().await;
            return false;
        }
        if !self.session.hooks.as_ref().is_some_and(|hooks| hooks.listens(HookEvent::SessionEnd)) {
            return true;
        }
        self.command(Command::Abandon).await;
        false
    }

    /// Answers a request, or forwards it.
    pub(super) async fn request(&mut self, id: String, subtype: &str, body: &Value) -> Result<(), Failure> {
        let answer = match self.query(&id, subtype, body)? {
            Some(answer) => answer,
            None => self.change(&id, subtype, body).await,
        };
        self.send_rules().await;
        match answer {
            Some(Ok(response)) => super::or_fail(self.printer.control_response(&id, &response)),
            Some(Err(why)) => super::or_fail(self.printer.refusal(&id, &why)),
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
            "get_context_usage" => Ok(self.context_usage()),
            "mcp_status" | "mcp_reconnect" | "mcp_toggle" | "mcp_set_servers" => {
                return Ok(Some(self.servers.answer(id, subtype, body)));
            }
            "mcp_call" => {
                let guard = self.live().guard;
                return Ok(Some(self.servers.call(id, body, &guard)));
            }
            "mcp_read_resource" => return Ok(Some(self.servers.read_resource(id, body))),
            "file_suggestions" => {
                files::suggest(&self.session.cwd, &mut self.servers.waits, id, body);
                return Ok(Some(None));
            }
            "read_file" => files::read(&self.session.cwd, &self.live().guard, body),
            "get_session_cost" => Ok(json!({
                "text": format!("Total cost: ${:.4}", self.figures.cost), "total_cost_usd": self.figures.cost,
            })),
            "get_usage" => Ok(self.figures.usage()),
            "get_task_output" => match text("task_id") {
                Some(task) => self.session.jobs.output(task),
                None => Err("get_task_output needs `task_id`".to_owned()),
            },
            "list_models" => Ok(json!({ "models": self.known_models() })),
            "get_settings" => Ok(self.session.live.answer(&self.live())),
            "get_hooks_listing" => {
                let engine = self.session.hooks.as_ref().map(OutsideHooks::engine);
                Ok(listing::hooks(engine, self.session.live.hooks_are_off()))
            }
            "list_permission_rules" => Ok(self.permission_rules()),
            "get_binary_version" => Ok(json!({ "version": env!("CARGO_PKG_VERSION") })),
            "reload_skills" => Ok(self.reload_commands()?),
            "reload_plugins" => {
                self.reload_commands()?;
                match body.get("add_plugins").filter(|plugins| !is_empty(plugins)) {
                    Some(_) => Err(
                        "plugins cannot be added while a session runs; name them at its start: --plugin-dir DIR, or the \
                         option plugins of the SDK"
                            .to_owned(),
                    ),
                    None => Ok(self.plugin_parts()),
                }
            }
            "reload_output_styles" => Ok(json!({ "available_output_styles": ["default"] })),
            "update_settings" => update::write(&self.servers.environment, body),
            "set_has_subscribers" => Ok(json!({})),
            _ => return Ok(None),
        };
        Ok(Some(Some(answer)))
    }

    /// Carries out a request that changes something, or refuses one that is not known.
    async fn change(&mut self, id: &str, subtype: &str, body: &Value) -> Answer {
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let command = match subtype {
            "set_model" => match body.get("model").filter(|model| !model.is_null() && !model.is_string()) {
                Some(model) => Err(format!("set_model: `model` must be a string or null, not {model}")),
                None => Ok(Command::SetModel { model: self.session.opening.model.clone() }),
            },
            "set_max_thinking_tokens" => {
                let given = body.get("max_thinking_tokens").filter(|tokens| !tokens.is_null());
                match (given, given.and_then(Value::as_u64)) {
                    (Some(wrong), None) => Err(format!(
                        "set_max_thinking_tokens: `max_thinking_tokens` must be a whole number of at least 0, or null, not \
                         {wrong}"
                    )),
                    (_, tokens) => {
                        Ok(Command::SetEffort { effort: tokens.map(|tokens| effort_of(tokens).to_owned()) })
                    }
                }
            }
            "rename_session" => match text("title") {
                Some(title) => Ok(Command::Rename { title: title.to_owned() }),
                None => Err("rename_session needs `title`".to_owned()),
            },
            "generate_session_title" => return self.make_title(id, body).await,
            "seed_read_state" => files::seed(body),
            "background_tasks" => {
                let call_id = text("tool_use_id").map(|id| CallId(id.to_owned()));
                if call_id.as_ref().is_some_and(|call| !self.known.calls.has(call)) {
                    return Some(Ok(json!({ "backgrounded": false })));
                }
                let answer = json!({ "backgrounded": true });
                self.with_receipt(id.to_owned(), Command::Background { call_id }, answer).await;
                return None;
            }
            "set_mcp_permission_mode_override" => return self.pin_server(id, body).await,
            "interrupt" => return self.interrupt_all(id).await,
            "side_question" => return self.side_question(id, body).await,
            "cancel_async_message" => {
                let Some(uuid) = text("message_uuid") else {
                    return Some(Err("cancel_async_message needs `message_uuid`".to_owned()));
                };
                let here = self.pending.local.len();
                self.pending.local.retain(|line| line.client_id() != Some(uuid));
                if self.pending.local.len() < here {
                    return Some(Ok(json!({ "cancelled": true })));
                }
                let waits = self.pending.waiting.iter().any(|known| known.as_deref() == Some(uuid));
                self.command(Command::Withdraw { client_id: uuid.to_owned() }).await;
                return Some(Ok(json!({ "cancelled": waits })));
            }
            "stop_task" => match text("task_id") {
                Some(task) => return self.stop_task(id, task).await,
                None => Err("stop_task needs `task_id`".to_owned()),
            },
            "apply_flag_settings" => {
                return self.apply_flags(id, body).await;
            }
            "rewind_files" => return self.rewind(id, body).await.err().map(Err),
            other => Err(advice::refusal(other)),
        };
        match command {
            Ok(command) => {
                self.with_receipt(id.to_owned(), command, json!({})).await;
                None
            }
            Err(why) => Some(Err(why)),
        }
    }

    fn context_usage(&self) -> Value {
        let mut usage = self.figures.context_usage(listing::bare(&self.live().model), &self.session.opening);
        usage["isAutoCompactEnabled"] = json!(self.session.live.compacts_by_itself());
        usage
    }

    /// Returns the session's settings as the agent has them now.
    pub(super) fn live(&self) -> Live {
        self.agent.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn permission_rules(&self) -> Value {
        self.session.live.rules(&self.live(), &self.session.cwd)
    }

    /// Returns the models that can be used with the keys of this run, `default` first.
    fn known_models(&self) -> Vec<Value> {
        let settings = self.session.models.read().unwrap_or_else(PoisonError::into_inner);
        models(&self.session.opening.model, &settings)
    }

    /// Returns the lists that change with plugins.
    fn plugin_parts(&self) -> Value {
        json!({
            "commands": self.session.commands.to_json(), "agents": self.session.greeting["agents"],
            "plugins": self.session.greeting["plugins"], "mcpServers": self.servers.statuses(),
            "error_count": self.session.greeting["plugin_errors"].as_array().map_or(0, Vec::len),
        })
    }

    /// Answers `apply_flag_settings`: sets the driving program's settings. The answer comes when the agent has applied all of them.
    async fn apply_flags(&mut self, id: &str, body: &Value) -> Answer {
        let (flags, commands) = match self.session.live.change(body) {
            Ok(change) => change,
            Err(why) => return Some(Err(why)),
        };
        // If the guard refuses the mode, the whole request is refused before any of its rules takes effect.
        let guard = self.live().guard;
        let refused = commands.iter().find_map(|command| match command {
            Command::SetMode { mode } => {
                mode.parse::<PermissionMode>().and_then(|mode| guard.may_enter(mode)).err()
            }
            _ => None,
        });
        if let Some(why) = refused {
            return Some(Err(why));
        }
        if commands.is_empty() {
            self.session.live.set_flags(flags);
            return Some(Ok(json!({})));
        }
        let (batch, commands) = Batch::new(id, commands, flags);
        self.pending.batches.insert(id.to_owned(), batch);
        for command in commands {
            self.command(command).await;
        }
        None
    }

    /// Handles the agent's receipt for one command of a request that has several. Returns false if the receipt is for a whole request.
    pub(super) fn part_received(&mut self, part: &str, error: Option<&String>) -> Result<bool, Failure> {
        let Some(id) = settings::whole_request(part) else { return Ok(false) };
        if !self.pending.batches.get_mut(id).is_some_and(|batch| batch.received(error)) {
            return Ok(true);
        }
        let Some(batch) = self.pending.batches.remove(id) else { return Ok(true) };
        if let Some(why) = batch.error {
            super::or_fail(self.printer.refusal(id, &why))?;
            return Ok(true);
        }
        self.session.live.set_flags(batch.flags);
        if let Some(mode) = &batch.mode {
            super::or_fail(self.printer.mode_changed(mode))?;
        }
        super::or_fail(self.printer.control_response(id, &json!({})))?;
        Ok(true)
    }

    /// Sets the permission mode for the calls of one MCP server, or removes that setting.
    async fn pin_server(&mut self, id: &str, body: &Value) -> Answer {
        let Some(server) = body.get("serverName").and_then(Value::as_str) else {
            return Some(Err("set_mcp_permission_mode_override needs `serverName`".to_owned()));
        };
        let mode = match body.get("mode").map(|mode| (mode, mode.as_str())) {
            Some((Value::Null, _)) => None,
            Some((_, Some("default"))) => Some(ServerMode::Default),
            Some((_, Some("auto"))) => Some(ServerMode::Auto),
            _ => {
                return Some(Err(
                    "set_mcp_permission_mode_override: `mode` must be \"default\", \"auto\" or null"
                        .to_owned(),
                ));
            }
        };
        let rule = becket_mcp::naming::server_rule(server);
        self.session.live.pin(rule, mode);
        let known = self.servers.hub.as_ref().is_some_and(|hub| hub.has(server));
        let answer = if known || mode.is_none() {
            json!({})
        } else {
            json!({ "warning": format!("there is no MCP server {server:?} in this session yet") })
        };
        // The two server modes are set by different commands. Both are sent, because the server may leave the other mode.
        self.command(self.session.live.auto_rules()).await;
        self.with_receipt(id.to_owned(), self.session.live.program_rules(), answer).await;
        None
    }

    /// Sends the agent the driving program's rules again if a change of its servers brought new rules.
    async fn send_rules(&mut self) {
        if let Some(policies) = self.servers.policies.take() {
            self.session.live.set_policies(policies);
            self.command(self.session.live.program_rules()).await;
        }
    }

    /// Ends a task: a command in the background, or a subagent. `None`: the answer comes when it has ended.
    async fn stop_task(&mut self, id: &str, task: &str) -> Answer {
        if self.session.jobs.stop(id, task, &mut self.servers.waits) {
            return None;
        }
        let Some(call_id) = self.known.tasks.get(task).cloned() else { return Some(Err(no_task())) };
        self.command(Command::ToSubagent { call_id, what: Box::new(Command::Interrupt) }).await;
        Some(Ok(json!({})))
    }

    /// Sends the agent a command. When the agent confirms it, the request is answered with `answer`.
    pub(super) async fn with_receipt(&mut self, request_id: String, command: Command, answer: Value) {
        self.pending.receipts.insert(request_id.clone(), answer);
        self.command(Command::WithReceipt { request_id, what: Box::new(command) }).await;
    }

    /// Takes the hooks of a repeated `initialize` in place of the driving program's earlier ones. Other fields must say what
    /// the first request said: they cannot be set again.
    fn initialize_again(&mut self, body: &Value) -> Result<Value, String> {
        let others = body.as_object().into_iter().flatten().filter(|(key, value)| {
            !matches!(key.as_str(), "subtype" | "hooks" | "sdkMcpServerConfigs")
                && !is_empty(value)
                && self.session.initialized.get(key.as_str()) != Some(*value)
        });
        let others: Vec<&str> = others.map(|(key, _)| key.as_str()).collect();
        if !others.is_empty() {
            return Err(format!(
                "the session has already started, so only hooks can be set again, not {}; send them before the first message",
                others.join(", ")
            ));
        }
        let given = body.get("hooks").filter(|hooks| !hooks.is_null());
        let groups = given.map_or_else(|| Ok(Vec::new()), super::opening::callbacks)?;
        let Some(engine) = &self.session.hooks else {
            return Err("this run has no hooks".to_owned());
        };
        engine.engine().remove(becket_hooks::Origin::Sdk, "");
        engine.engine().add(groups);
        Ok(self.session.greeting.clone())
    }

    /// Interrupts the turn and discards the prompts that wait.
    async fn interrupt_all(&mut self, id: &str) -> Answer {
        let held = self.drop_waiting();
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
                    super::or_fail(self.printer.refusal(request_id, why))?;
                }
                return Ok(true);
            }
            _ => return Ok(false),
        };
        if let Some(id) = self.pending.side.take() {
            super::or_fail(self.printer.control_response(&id, &answer))?;
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
            Event::NothingToDo { reason: why }
            | Event::Notice { level: NoticeLevel::Warning | NoticeLevel::Error, text: why } => {
                json!({ "canRewind": false, "error": why })
            }
            _ => return Ok(()),
        };
        let Some(Rewinding { request_id, .. }) = self.pending.rewinding.take() else { return Ok(()) };
        match answer.get("error").and_then(Value::as_str) {
            Some(why) => super::or_fail(self.printer.refusal(&request_id, why)),
            None => super::or_fail(self.printer.control_response(&request_id, &answer)),
        }
    }
}

fn rewound(plan: &UndoPlan) -> Value {
    let lines = plan.paths.iter().filter_map(|path| path.lines);
    let (more, less) = lines.fold((0, 0), |(more, less), (a, b)| (more + a, less + b));
    let files: Vec<Value> = plan.paths.iter().map(|path| json!(path.path.0.to_string_lossy())).collect();
    json!({ "canRewind": true, "filesChanged": files, "insertions": more, "deletions": less })
}
