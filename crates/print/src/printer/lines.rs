//! `system` and `user` lines of `stream-json`, and the contents of `system/init`.

use super::answered::AnsweredMessages;
use super::totals::Totals;
use crate::shapes;
use becket_types::{
    BlobId, Blobs, CallId, Event, FinishReason, HookOutput, HookProgress, HookResult, HookRun, Message,
    MessageId, Millis, NoticeLevel, Origin, SessionId, Synthetic, Usage, sdk_names,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The version of Claude Code whose lines these are. Clients accept 2.0.0 and newer; the SDKs warn about older ones.
pub const CLAUDE_CODE_VERSION: &str = "2.1.282";

/// The MCP servers of a session.
#[derive(Clone, Debug, Default)]
pub struct McpFacts {
    /// `{name, status}` of each server, at least.
    pub servers: Vec<Value>,
    /// Names of their tools, as the model calls them.
    pub tools: Vec<String>,
    /// Names of the commands for their prompts.
    pub prompts: Vec<String>,
}

/// Facts about the session for `system/init` that are in no event.
#[derive(Clone, Debug, Default)]
pub struct SessionFacts {
    /// Names of the kinds of subagents.
    pub agents: Vec<String>,
    pub slash_commands: Vec<String>,
    /// Name and folder of each plugin.
    pub plugins: Vec<Value>,
    /// Plugins and parts of plugins that could not be used, with the reasons.
    pub plugin_errors: Vec<Value>,
    /// The MCP servers as they are now; `None`: the names from the start of the session are used.
    pub mcp: Option<McpFacts>,
    /// Warnings about options of the program that have no effect here.
    pub warnings: Vec<String>,
    pub effort: Option<String>,
    /// The folder of this session. The folders of its subagents are in the same parent. `None` if the session is not
    /// saved.
    pub folder: Option<PathBuf>,
}

impl SessionFacts {
    /// Returns the path of the ledger of a subagent's session, which contains its whole conversation.
    pub(super) fn ledger_of(&self, session: SessionId) -> Option<String> {
        let folder = self.folder.as_ref()?.parent()?.join(session.to_string());
        Some(folder.join("ledger.jsonl").to_string_lossy().into_owned())
    }
}

struct NoBlobs;

impl Blobs for NoBlobs {
    fn get(&self, _: &BlobId) -> Option<Vec<u8>> {
        None
    }
}

/// The facts about a session that its lines repeat: id, folder, model and others.
pub(super) struct SessionLines {
    /// Images and files of the session.
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) session: String,
    /// The working directory, with which relative paths of calls are made absolute.
    pub(super) cwd: PathBuf,
    /// The event from which `system/init` is made.
    pub(super) started: Option<Event>,
    /// While an event of a subagent is written: the call that started the subagent.
    pub(super) parent: Option<CallId>,
    pub(super) facts: SessionFacts,
    /// The ids of the program's messages that the turn answers.
    pub(super) answered: AnsweredMessages,
    /// Cost and usage so far, for a program that sends several messages.
    pub(super) totals: Totals,
    /// True if runs of hooks have lines.
    pub(super) shows_hooks: bool,
    version: String,
}

impl SessionLines {
    pub(super) fn new(session: String, facts: SessionFacts, version: String) -> Self {
        Self {
            blobs: Arc::new(NoBlobs),
            session,
            cwd: PathBuf::new(),
            started: None,
            parent: None,
            facts,
            answered: AnsweredMessages::default(),
            totals: Totals::default(),
            shows_hooks: false,
            version,
        }
    }

    /// Makes the `system/init` line for the session of `self.started`.
    pub(super) fn init(&self) -> Value {
        let Some(Event::SessionStarted {
            session,
            cwd,
            model,
            tools,
            permission_mode,
            skills,
            api_key_source,
            ..
        }) = &self.started
        else {
            return Value::Null;
        };
        let facts = &self.facts;
        let none = McpFacts::default();
        let mcp = facts.mcp.as_ref().unwrap_or(&none);
        // A tool that a server had at the start may no longer exist, so the present tools of servers are used.
        let own = tools.iter().filter(|tool| facts.mcp.is_none() || !tool.starts_with("mcp__"));
        let tools: Vec<_> = own.chain(&mcp.tools).map(|tool| sdk_names::sdk_name(tool)).collect();
        let commands: Vec<_> = facts.slash_commands.iter().chain(&mcp.prompts).collect();
        let mut line = json!({
            "type": "system", "subtype": "init", "session_id": session, "uuid": MessageId::new(), "cwd": cwd.to_string_lossy(),
            "tools": tools, "mcp_servers": mcp.servers, "model": shapes::model(model),
            "permissionMode": permission_mode, "slash_commands": commands, "agents": facts.agents,
            "skills": skills, "plugins": facts.plugins, "output_style": "default", "apiKeySource": api_key_source,
            "effort": facts.effort, "claude_code_version": CLAUDE_CODE_VERSION,
            "becket_version": self.version, "capabilities": ["interrupt_receipt_v1", "interrupt_cancel_queued_v1", "mcp_read_resource_v1"],
        });
        if !facts.plugin_errors.is_empty() {
            line["plugin_errors"] = json!(facts.plugin_errors);
        }
        if !facts.warnings.is_empty() {
            line["warnings"] = json!(facts.warnings);
        }
        line
    }

    /// Returns the name of the session's model on the wire.
    pub(super) fn model(&self) -> String {
        match &self.started {
            Some(Event::SessionStarted { model, .. }) => shapes::model(model).to_owned(),
            _ => String::new(),
        }
    }

    /// Returns the line for an event that is a `system` line.
    pub(super) fn system(&self, event: &Event) -> Option<Value> {
        let (subtype, body) = match event {
            Event::CompactionStarted { .. } => ("status", json!({ "status": "compacting" })),
            Event::CompactionFailed { reason } => (
                "status",
                json!({ "status": null, "error": reason, "compact_result": "failed", "compact_error": reason }),
            ),
            Event::CompactBoundary { trigger, pre_tokens, post_tokens, entry, left_out, .. } => {
                let mut metadata = json!({
                    "trigger": if *trigger == becket_types::CompactionTrigger::Manual { "manual" } else { "auto" },
                    "cause": trigger, "pre_tokens": pre_tokens, "post_tokens": post_tokens, "entry": entry,
                });
                if !left_out.is_empty() {
                    metadata["left_out"] = json!(left_out);
                }
                ("compact_boundary", json!({ "compact_metadata": metadata }))
            }
            Event::Retry { attempt, max, delay, status, error } => (
                "api_retry",
                json!({ "attempt": attempt, "max_retries": max, "retry_delay_ms": delay, "error_status": status, "error": error }),
            ),
            Event::QuotaUsedUp { until } => {
                return Some(json!({
                    "type": "rate_limit_event", "uuid": MessageId::new(), "session_id": self.session,
                    "rate_limit_info": { "status": "rejected", "resetsAt": until.0 / 1_000 },
                }));
            }
            Event::PermissionDenied(denial) => {
                let mut body = shapes::denial(denial, &self.cwd);
                body["message"] = json!(shapes::denial_text(denial));
                body["decision_reason"] = json!(denial.reason);
                ("permission_denied", body)
            }
            Event::Notice { level, text } => ("informational", json!({ "level": level, "content": text })),
            Event::SummaryPreparation { state } => {
                ("informational", json!({ "level": NoticeLevel::Info, "content": state.to_string() }))
            }
            Event::Pruned { entry, calls, freed } => {
                ("pruned", json!({ "entry": entry, "calls": calls, "freed_tokens": freed }))
            }
            Event::UndoPlanned(plan) => ("undo_planned", serde_json::to_value(plan).ok()?),
            Event::UndoDone(outcome) => ("undo_done", serde_json::to_value(outcome).ok()?),
            Event::CompactionPlanned(plan) => ("compaction_planned", serde_json::to_value(plan).ok()?),
            Event::CompactionReverted { entry, counts } => {
                ("compaction_reverted", json!({ "entry": entry, "counts": counts }))
            }
            Event::ContextPlanned(plan) => ("context_planned", serde_json::to_value(plan).ok()?),
            Event::ContextChanged { text } => ("context_changed", json!({ "content": text })),
            _ => return None,
        };
        Some(self.system_line(subtype, body))
    }

    /// True if runs of hooks of this event have lines. Those at the start of a session always have, as in Claude Code.
    pub(super) fn shows_hooks_of(&self, event: &str) -> bool {
        self.shows_hooks || matches!(event, "SessionStart" | "Setup")
    }

    /// Returns the line for a hook that has begun or has printed something.
    pub(super) fn hook_progress(&self, progress: &HookProgress) -> Value {
        let HookProgress { id, event, hook, subject, printed } = progress;
        let name = hook_name(event, subject.as_deref());
        let mut body = json!({ "hook_id": id, "hook_name": name, "hook_event": event, "hook_source": hook });
        let Some(HookOutput { stdout, stderr }) = printed else {
            return self.system_line("hook_started", body);
        };
        for (key, text) in
            [("stdout", stdout.clone()), ("stderr", stderr.clone()), ("output", format!("{stdout}{stderr}"))]
        {
            body[key] = json!(text);
        }
        self.system_line("hook_progress", body)
    }

    /// Returns the lines for a run of a hook: its start, unless a line has named it already, and its result.
    pub(super) fn hook(&self, run: &HookRun) -> Vec<Value> {
        let outcome = match (run.result, run.exit_code) {
            (HookResult::TimedOut, _) => "cancelled",
            (HookResult::Failed, _) | (HookResult::Blocked, Some(2)) => "error",
            (HookResult::Ok | HookResult::Blocked, _) => "success",
        };
        let id = if run.id.is_empty() { becket_types::unique().to_string() } else { run.id.clone() };
        let name = hook_name(&run.event, run.subject.as_deref());
        let which =
            json!({ "hook_id": id, "hook_name": name, "hook_event": run.event, "hook_source": run.hook });
        let mut result = which.clone();
        result["outcome"] = json!(outcome);
        for (key, text) in [("output", run.detail.as_str()), ("stdout", &run.detail), ("stderr", "")] {
            result[key] = json!(text);
        }
        if let Some(code) = run.exit_code {
            result["exit_code"] = json!(code);
        }
        let began = run.id.is_empty().then(|| self.system_line("hook_started", which));
        began.into_iter().chain([self.system_line("hook_response", result)]).collect()
    }

    pub(super) fn system_line(&self, subtype: &str, body: Value) -> Value {
        let mut line = json!({ "type": "system", "subtype": subtype, "session_id": self.session, "uuid": MessageId::new() });
        if let Some(parent) = &self.parent {
            line["parent_tool_use_id"] = json!(parent);
        }
        if let (Value::Object(line), Value::Object(body)) = (&mut line, body) {
            line.extend(body);
        }
        line
    }

    pub(super) fn assistant(
        &self,
        message: &Message,
        finish: &FinishReason,
        usage: &Usage,
        ttft: Option<Millis>,
    ) -> Value {
        let mut line = json!({
            "type": "assistant",
            "message": shapes::assistant_message(message, finish, usage, &*self.blobs, &self.cwd),
            "parent_tool_use_id": self.parent,
            "session_id": self.session,
            "uuid": message.id,
        });
        if let Some(ttft) = ttft {
            line["ttft_ms"] = json!(ttft);
        }
        if matches!(finish, FinishReason::Error | FinishReason::Interrupted) {
            line["aborted"] = json!(true);
        }
        line
    }

    pub(super) fn user(&self, message: &Message) -> Value {
        json!({
            "type": "user",
            "message": shapes::user_message(message, &*self.blobs),
            "parent_tool_use_id": self.parent,
            "session_id": self.session,
            "uuid": message.id,
        })
    }

    /// Makes the result for a message that could not be used. `client_id`: the program's id of the message.
    pub(super) fn no_turn(&self, why: &str, client_id: Option<&str>) -> Value {
        let mut line = shapes::no_turn(why, &self.session);
        self.totals.stamp(&mut line);
        if let Some(id) = client_id {
            // Another turn may be running. The result must name this message, and not the messages of that turn.
            super::answered::stamp(&mut line, (id, &[id.to_owned()]));
        }
        line
    }

    /// Makes the line for a text that becket or a hook gives the model besides the conversation.
    pub(super) fn context_added(&self, message: &Message) -> Value {
        let from = match &message.origin {
            Origin::Synthetic(Synthetic::Hook) => "hook",
            Origin::Synthetic(Synthetic::Rules) => "rules",
            Origin::Synthetic(Synthetic::SessionState) => "state",
            _ => "becket",
        };
        let content = shapes::user_message(message, self.blobs.as_ref())["content"].take();
        let mut line = self.system_line("context_added", json!({ "from": from, "content": content }));
        line["uuid"] = json!(message.id);
        line
    }

    pub(super) fn synthetic(&self, message: &Message) -> Value {
        let mut line = self.user(message);
        debug_assert!(!message.visibility().user);
        line["isSynthetic"] = json!(true);
        if message.metadata.compaction_continue {
            line["metadata"] = json!({ "compaction_continue": true });
            if message.metadata.had_media {
                line["metadata"]["had_media"] = json!(true);
            }
            line["origin"] = json!({ "kind": "auto-continuation" });
        } else if let Origin::Synthetic(Synthetic::Reminder) = message.origin {
            line["origin"] = json!({ "kind": "task-notification" });
        }
        line
    }
}

/// True if a message of becket has a `user` line, as in Claude Code: the text that replaces the conversation after a compaction,
/// and the text of a hook that makes the model continue.
pub(super) fn is_users(message: &Message) -> bool {
    let sends_back = || {
        let hook = message.metadata.extra.get("hook").and_then(Value::as_str).unwrap_or_default();
        hook.starts_with("Stop: ") || hook.starts_with("SubagentStop: ")
    };
    match &message.origin {
        Origin::Synthetic(Synthetic::Hook) => sends_back(),
        Origin::Synthetic(Synthetic::Reminder | Synthetic::Rules | Synthetic::SessionState) => {
            message.metadata.compaction_continue
        }
        _ => true,
    }
}

/// Returns the name of a run as Claude Code writes it: `PreToolUse:Bash`.
fn hook_name(event: &str, subject: Option<&str>) -> String {
    match subject.filter(|subject| !subject.is_empty()) {
        Some(subject) => format!("{event}:{}", sdk_names::sdk_name(subject)),
        None => event.to_owned(),
    }
}
