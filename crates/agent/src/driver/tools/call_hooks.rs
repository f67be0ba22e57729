//! Hooks of tool calls: `PreToolUse`, `PermissionRequest`, `PermissionDenied`, `PostToolUse` and `PostToolBatch`.
//!
//! Invariants:
//! - A call that a hook denies does not run, in any mode. A call that the guard denies does not run even if a hook
//!   allows it.
//! - If a hook allows a call, this replaces the user's answer. It does not override an ask rule, or a case that only a
//!   person may allow.
//! - Hooks judge the input that runs. If they change the input, the guard judges it again.

use super::super::Op;
use super::super::hooks::HookCaller;
use super::batch::{HookProgress, HookVerdict, Slot};
use super::outcome::fewer_lines;
use crate::answer::Call;
use crate::hooks::masked;
use crate::settings::SecretOutputs;
use becket_guard::Verdict;
use becket_session::secrets::{mask_published, mask_published_value};
use becket_types::{
    Access, DecidedBy, Effect, Event, HookCall, HookEvent, HookOutcome, HookPermission, HookResult, Millis,
    ToolOutput,
    sdk_names::{EndedCall, PRINTED_LINES, own_input, sdk_input, sdk_name, sdk_result, suggestions},
};
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Hooks that run when a call has ended.
pub(super) struct AfterHooks {
    hooks: Arc<dyn crate::hooks::Hooks>,
    done: Option<HookCall>,
    failed: Option<HookCall>,
    /// True if secrets of known forms are masked in what hooks are given.
    masks: bool,
    events: mpsc::UnboundedSender<Event>,
}

impl AfterHooks {
    /// Runs the hooks. An interrupt ends them, and the output stays as it is at that time.
    pub(super) async fn run(
        self,
        output: &mut ToolOutput,
        time: Duration,
        cancel: &CancellationToken,
    ) -> Option<(HookEvent, HookOutcome)> {
        let failed = output.is_error || output.interrupted;
        let mut call = if failed { self.failed } else { self.done }?;
        call.input.insert("duration_ms".to_owned(), json!(time.as_millis() as u64));
        // A hook may be an address or a model, so secrets are masked for hooks as they are for the session's provider.
        let (content, details, original) = if self.masks {
            let mut details = output.details.clone();
            mask_published_value(&mut details);
            let content = mask_published(&output.content).0.into_owned();
            fewer_lines(&output.content, &content, &mut details);
            let original = output.original.as_deref().map(|text| mask_published(text).0.into_owned());
            (content, details, original)
        } else {
            (output.content.clone(), output.details.clone(), output.original.clone())
        };
        let key = |key: &str| call.input.get(key).cloned().unwrap_or_default();
        let (name, given) = (key("tool_name"), key("tool_input"));
        let ended = EndedCall {
            tool: name.as_str().unwrap_or_default(),
            input: &given,
            text: &content,
            details: &details,
            is_error: output.is_error || failed,
            original: original.as_deref(),
            took: Millis(time.as_millis() as u64),
        };
        if failed {
            let told = sdk_result(&ended);
            let told =
                told.as_ref().and_then(|told| told.as_str()?.strip_prefix("Error: ").map(str::to_owned));
            call.input.insert("error".to_owned(), json!(told.unwrap_or(content)));
            call.input.insert("is_interrupt".to_owned(), json!(output.interrupted));
        } else {
            let result = sdk_result(&ended).unwrap_or_else(|| json!({ "content": content }));
            call.input.insert("tool_response".to_owned(), result);
        }
        let event = call.event;
        let status = self.hooks.status(&call).flatten();
        let _ = self.events.send(Event::HooksStarted { hook_event: event.to_string(), status });
        let outcome = tokio::select! {
            outcome = self.hooks.run(call) => outcome,
            () = cancel.cancelled() => return None,
        };
        let outcome = if self.masks { masked(outcome) } else { outcome };
        if let Some(other) = &outcome.updated_output {
            output.content = words_of(other);
            // The text is now the hook's and has no notes of becket, so the count of lines before such notes is removed.
            output.details.as_object_mut().and_then(|details| details.remove(PRINTED_LINES));
        }
        Some((event, outcome))
    }
}

/// Returns the words of a result that a hook gives, which may have the shape of the SDK's results.
fn words_of(result: &Value) -> String {
    let text = |key: &str| result.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let blocks = |value: &Value| -> Option<String> {
        let texts: Option<Vec<&str>> =
            value.as_array()?.iter().map(|block| block.get("text").and_then(Value::as_str)).collect();
        texts.map(|texts| texts.join("\n"))
    };
    if let Value::String(text) = result {
        return text.clone();
    }
    if result.get("stdout").is_some() || result.get("stderr").is_some() {
        return text("stdout").into_iter().chain(text("stderr")).collect::<Vec<_>>().join("\n");
    }
    let content = result.pointer("/file/content").or_else(|| result.get("content")).unwrap_or(result);
    match content {
        Value::String(text) => text.clone(),
        other => blocks(other).unwrap_or_else(|| result.to_string()),
    }
}

/// Adds to the reason of a denial that a hook denied the call, and which hook. The model reads the reason too, so only the
/// first word of the hook's command is named: the rest may contain a key.
fn with_hook_name(permission: HookPermission, outcome: &HookOutcome) -> HookPermission {
    let HookPermission::Deny { reason } = permission else { return permission };
    let by = outcome.runs.iter().find(|run| run.result == HookResult::Blocked).map(|run| {
        let name = run.hook.split_whitespace().next().unwrap_or_default();
        // A source such as `user: /home/u/.config/becket/config.toml` is named by its path alone.
        let file = run.source.split_once(": ").map(|(_, file)| file).filter(|file| file.starts_with('/'));
        let source = file.unwrap_or(&run.source);
        let place = if source.is_empty() { String::new() } else { format!(" of {source}") };
        format!("the {} hook `{name}`{place}", run.event)
    });
    let by = by.unwrap_or_else(|| "a hook".to_owned());
    HookPermission::Deny { reason: format!("{reason} (denied by {by})") }
}

/// Returns the input of a call for hooks. It has the SDK's keys. Path and command are those that becket resolved, even
/// if the model used another key for them.
fn input_of(tool: &str, input: &Value, access: &Access, cwd: &Path) -> Value {
    let mut input = sdk_input(tool, input, cwd);
    let Value::Object(keys) = &mut input else { return input };
    if let (Effect::Execute, Some(command)) = (access.effect, &access.command) {
        keys.insert("command".to_owned(), json!(command));
    }
    if let (Effect::Read | Effect::Write, "read" | "write" | "edit" | "multi_edit", [path]) =
        (access.effect, tool, access.paths.as_slice())
    {
        keys.insert("file_path".to_owned(), json!(path.to_string_lossy()));
    }
    input
}

impl HookProgress {
    /// True if a hook wants the call to be decided later, and nothing denies it.
    pub(super) fn defers(&self, verdict: &Verdict) -> bool {
        matches!(self.permission, Some(HookPermission::Defer { .. }))
            && !matches!(verdict, Verdict::Deny { .. })
    }

    /// Combines the verdict of the guard with the answer of `PreToolUse`.
    pub(super) fn combine(
        &self,
        by: DecidedBy,
        rule: Option<String>,
        verdict: Verdict,
    ) -> (DecidedBy, Option<String>, Verdict) {
        match (&self.permission, verdict) {
            (Some(HookPermission::Deny { reason }), Verdict::Allow { .. } | Verdict::Ask { .. }) => {
                (DecidedBy::Hook, None, Verdict::deny(reason.clone()))
            }
            (
                Some(HookPermission::Ask { reason } | HookPermission::Defer { reason }),
                Verdict::Allow { .. },
            ) => (DecidedBy::Hook, None, Verdict::Ask { reason: reason.clone(), rule: None }),
            (Some(HookPermission::Allow { reason }), Verdict::Ask { rule: Some(_), .. })
                if by != DecidedBy::Rule =>
            {
                (DecidedBy::Hook, None, Verdict::Allow { why: reason.clone() })
            }
            (_, verdict) => (by, rule, verdict),
        }
    }

    /// Applies the answer of `PermissionRequest` to a question.
    pub(super) fn with_request_answer(&self, by: DecidedBy, verdict: Verdict) -> (DecidedBy, Verdict) {
        match (&self.request, verdict) {
            (Some(HookPermission::Deny { reason }), Verdict::Ask { .. }) => {
                (DecidedBy::Hook, Verdict::deny(reason.clone()))
            }
            (Some(HookPermission::Allow { reason }), Verdict::Ask { rule: Some(_), .. })
                if by != DecidedBy::Rule =>
            {
                (DecidedBy::Hook, Verdict::Allow { why: reason.clone() })
            }
            (_, verdict) => (by, verdict),
        }
    }
}

impl HookCaller<'_> {
    /// Runs `PreToolUse` hooks for a call, once. Returns true if the call waits for them.
    pub(super) fn ask_pre_hooks(
        &self,
        slot: &mut Slot,
        index: usize,
        access: &Access,
        judging: &FuturesUnordered<BoxFuture<'static, HookVerdict>>,
    ) -> bool {
        if slot.hooks.waiting || std::mem::replace(&mut slot.hooks.asked, true) {
            return slot.hooks.waiting;
        }
        let call = self.tool_hook_call(HookEvent::PreToolUse, &slot.call, access, json!({}));
        slot.hooks.waiting = self.judge(index, call, judging);
        slot.hooks.waiting
    }

    /// Runs `PermissionRequest` hooks for a call that needs a question, once. Returns true if the call waits for them.
    pub(super) fn ask_request_hooks(
        &self,
        slot: &mut Slot,
        index: usize,
        access: &Access,
        (reason, rule): (&str, Option<&str>),
        judging: &FuturesUnordered<BoxFuture<'static, HookVerdict>>,
    ) -> bool {
        if slot.hooks.waiting || std::mem::replace(&mut slot.hooks.requested, true) {
            return slot.hooks.waiting;
        }
        let suggestions = suggestions(rule, access.effect == Effect::Write);
        let keys = json!({ "decision_reason": reason, "permission_suggestions": suggestions });
        let call = self.tool_hook_call(HookEvent::PermissionRequest, &slot.call, access, keys);
        slot.hooks.waiting = self.judge(index, call, judging);
        slot.hooks.waiting
    }

    fn judge(
        &self,
        index: usize,
        call: Option<HookCall>,
        judging: &FuturesUnordered<BoxFuture<'static, HookVerdict>>,
    ) -> bool {
        let Some(call) = call else { return false };
        let event = call.event;
        let Some(run) = self.run_hooks(call) else { return false };
        judging.push(async move { HookVerdict { index, event, outcome: run.await } }.boxed());
        true
    }

    fn tool_hook_call(
        &self,
        event: HookEvent,
        call: &Call,
        access: &Access,
        mut keys: Value,
    ) -> Option<HookCall> {
        let hooks = self.conversation.settings.hooks.engine.as_ref()?;
        if !hooks.listens(event) {
            return None;
        }
        let own = self.tools.own_name(&call.name);
        let name = sdk_name(&own);
        keys["tool_name"] = json!(name);
        keys["tool_input"] = input_of(&own, &call.input, access, &self.conversation.settings.environment.cwd);
        keys["tool_use_id"] = json!(call.id);
        let made = self.hook_call(event, Some(&name), keys)?;
        Some(HookCall { call_id: Some(call.id.clone()), ..made })
    }

    /// Runs `PermissionDenied` hooks, which can only observe.
    pub(super) fn call_denied(&mut self, call: &Call, access: &Access, reason: &str) {
        if self.conversation.settings.hooks.engine.is_some() {
            let own = self.tools.own_name(&call.name);
            self.denied_hooks(
                &sdk_name(&own),
                input_of(&own, &call.input, access, &self.conversation.settings.environment.cwd),
                &call.id,
                reason,
            );
        }
    }

    /// Records an answer of hooks about a call, separately from the decision.
    pub(super) fn tool_hooked(&mut self, event: HookEvent, outcome: HookOutcome) {
        self.record_runs(&outcome);
        self.hooking.title = outcome.special.title.or(self.hooking.title.take());
        let texts = outcome.context.into_iter().chain(outcome.block);
        if let Op::Tools(batch) = &mut self.flow.op {
            batch.hook_texts.extend(texts.map(|text| (event, text)));
        }
        if let Some(stop) = outcome.stop {
            self.hooking.stop = Some(stop);
        }
    }

    /// Returns the hooks for the end of a call that starts now.
    pub(super) fn after_hooks(&self, call: &Call, access: &Access) -> Option<AfterHooks> {
        let hooks = self.conversation.settings.hooks.engine.clone()?;
        let made = |event| self.tool_hook_call(event, call, access, json!({}));
        let (done, failed) = (made(HookEvent::PostToolUse), made(HookEvent::PostToolUseFailure));
        (done.is_some() || failed.is_some()).then(|| AfterHooks {
            hooks,
            done,
            failed,
            masks: self.conversation.settings.tools.secrets != SecretOutputs::Send,
            events: self.conversation.core.events.clone(),
        })
    }

    /// Takes the answer of hooks about a waiting call.
    pub(super) fn call_judged(&mut self, HookVerdict { index, event, outcome }: HookVerdict) {
        let Op::Tools(batch) = &mut self.flow.op else { return };
        let tools = &self.tools.registry;
        if let Some(slot) = batch.slots.get_mut(index) {
            slot.hooks.waiting = false;
            let permission =
                outcome.permission.clone().map(|permission| with_hook_name(permission, &outcome));
            match event {
                HookEvent::PermissionRequest => slot.hooks.request = permission,
                _ => slot.hooks.permission = permission,
            }
            if let Some(input) = &outcome.updated_input
                && !matches!(outcome.permission, Some(HookPermission::Deny { .. }))
            {
                let tool =
                    tools.get(&slot.call.name).map_or(slot.call.name.as_str(), |tool| &tool.spec().name);
                slot.call.input = own_input(tool, input);
                slot.hooks.answers |= matches!(outcome.permission, Some(HookPermission::Allow { .. }));
            }
        }
        if outcome.interrupt && outcome.stop.is_none() {
            self.hooking.stop = Some("A hook denied a call and ended the turn.".to_owned());
        }
        self.tool_hooked(event, outcome);
    }

    /// Runs `PostToolBatch` hooks when all results of a step are present. Returns true if the batch waits for them.
    pub(super) fn batch_hooks(&mut self, batch: &mut super::Batch) -> bool {
        if self.conversation.settings.hooks.engine.is_none() || batch.cancel.is_cancelled() {
            return false;
        }
        let calls: Vec<Value> = batch
            .slots
            .iter()
            .map(|slot| {
                let own = self.tools.own_name(&slot.call.name);
                json!({
                    "tool_name": sdk_name(&own),
                    "tool_input": sdk_input(&own, &slot.call.input, &self.conversation.settings.environment.cwd),
                    "tool_use_id": slot.call.id,
                })
            })
            .collect();
        let hook_texts = std::mem::take(&mut batch.hook_texts);
        let touched = std::mem::take(&mut batch.touched);
        match self.wait_after_batch(json!({ "tool_calls": calls }), touched, hook_texts) {
            Ok(()) => true,
            Err((touched, hook_texts)) => {
                (batch.touched, batch.hook_texts) = (touched, hook_texts);
                false
            }
        }
    }
}
