//! Converts the answer of a hook, exit codes and Claude's JSON, to a decision.
//!
//! Pure. An answer that cannot be parsed is an error with the reason; [`crate::engine`] decides about its effect.

use becket_types::{
    HookEvent, HookMessage, HookOutcome, HookPermission, HookSpecial, HookText, cut_end_at_word,
};
use serde_json::Value;

/// Maximum size in bytes of a hook's text for the model.
pub const MAX_CONTEXT: usize = 10_000;

/// Makes the refusal by a hook, with its effect at this event.
pub fn refusal(event: HookEvent, from: &str, reason: &str) -> HookOutcome {
    let reason = if reason.trim().is_empty() {
        format!("the hook {from} gave no reason")
    } else {
        reason.trim().to_owned()
    };
    let mut out = HookOutcome::default();
    match event {
        HookEvent::PreToolUse | HookEvent::PermissionRequest => {
            out.permission = Some(HookPermission::Deny { reason: limited(&reason) });
        }
        HookEvent::UserPromptSubmit
        | HookEvent::UserPromptExpansion
        | HookEvent::PostToolUse
        | HookEvent::PostToolUseFailure
        | HookEvent::PostToolBatch
        | HookEvent::Stop
        | HookEvent::SubagentStop
        | HookEvent::PreCompact
        | HookEvent::ConfigChange
        | HookEvent::PreModelSwitch
        | HookEvent::TaskCreated
        | HookEvent::TaskCompleted
        | HookEvent::TeammateIdle
        | HookEvent::Elicitation
        | HookEvent::ElicitationResult => out.block = Some(text(from, &reason)),
        // Hooks of these events cannot refuse anything, so people get the reason.
        _ => out.messages.push(HookMessage { warning: true, text: format!("{event} hook {from}: {reason}") }),
    }
    out
}

/// Converts plain text on standard output: at some events it is context for the model.
pub fn plain(event: HookEvent, from: &str, stdout: &str) -> HookOutcome {
    let mut out = HookOutcome::default();
    let adds = matches!(
        event,
        HookEvent::UserPromptSubmit
            | HookEvent::UserPromptExpansion
            | HookEvent::SessionStart
            | HookEvent::SubagentStart
            | HookEvent::PreCompact
    );
    if adds && !stdout.trim().is_empty() {
        out.context.push(text(from, stdout.trim()));
    }
    out
}

/// Parses the JSON answer of a hook.
///
/// # Errors
///
/// Returns a message if the answer is not a JSON object or its decision is unknown.
pub fn json(event: HookEvent, from: &str, answer: &Value) -> Result<HookOutcome, String> {
    let Value::Object(keys) = answer else { return Err("its answer is not a JSON object".to_owned()) };
    let word = |key: &str| keys.get(key).and_then(Value::as_str);
    let mut out = match word("decision") {
        None => HookOutcome::default(),
        Some("block" | "deny") => refusal(event, from, word("reason").unwrap_or_default()),
        Some("approve" | "allow") => {
            HookOutcome { permission: allowed(event, word("reason")), ..HookOutcome::default() }
        }
        Some(other) => return Err(format!("its decision {other:?} is unknown; use \"block\" or none")),
    };
    if keys.get("continue").or_else(|| keys.get("continue_")) == Some(&Value::Bool(false)) {
        let reason = word("stopReason").or(word("reason")).filter(|reason| !reason.trim().is_empty());
        out.stop = Some(reason.map_or_else(|| format!("stopped by the hook {from}"), str::to_owned));
    }
    if let Some(message) = word("systemMessage").filter(|message| !message.trim().is_empty()) {
        out.messages.push(HookMessage { warning: false, text: limited(message.trim()) });
    }
    match keys.get("hookSpecificOutput") {
        None | Some(Value::Null) => {}
        Some(Value::Object(specific)) => {
            if let Some(name) = specific.get("hookEventName").and_then(Value::as_str)
                && name != event.as_str()
            {
                return Err(format!("its answer is for {name}, and it was asked at {event}"));
            }
            own_keys(event, from, specific, &mut out)?;
        }
        Some(_) => return Err("hookSpecificOutput is no object".to_owned()),
    }
    // Claude also accepts this key at the top level.
    if let Some(context) = word("additionalContext").filter(|text| !text.trim().is_empty()) {
        out.context.push(text(from, context));
    }
    Ok(out)
}

fn own_keys(
    event: HookEvent,
    from: &str,
    keys: &serde_json::Map<String, Value>,
    out: &mut HookOutcome,
) -> Result<(), String> {
    let word = |key: &str| keys.get(key).and_then(Value::as_str);
    let reason = word("permissionDecisionReason").unwrap_or_default();
    match word("permissionDecision") {
        None => {}
        Some("deny") => {
            let refused = refusal(event, from, reason);
            out.permission = refused.permission.or(out.permission.take());
            if event == HookEvent::PreModelSwitch {
                out.block = refused.block;
            }
        }
        Some("defer") if event == HookEvent::PreToolUse => {
            let reason =
                if reason.is_empty() { format!("the hook {from} defers it") } else { limited(reason) };
            out.permission = Some(HookPermission::Defer { reason });
        }
        Some("ask" | "defer") => {
            let reason = if reason.is_empty() {
                format!("the hook {from} wants you to decide")
            } else {
                limited(reason)
            };
            out.permission = Some(HookPermission::Ask { reason });
        }
        Some("allow") => out.permission = allowed(event, Some(reason)),
        Some(other) => {
            return Err(format!(
                "its permissionDecision {other:?} is unknown; use allow, deny, ask or defer"
            ));
        }
    }
    special(event, keys, &mut out.special)?;
    out.updated_input = keys.get("updatedInput").filter(|input| input.is_object()).cloned();
    out.updated_output =
        ["updatedToolOutput", "updatedMCPToolOutput"].iter().find_map(|key| keys.get(*key)).cloned();
    if let Some(decision) = keys.get("decision").and_then(Value::as_object) {
        let message = decision.get("message").and_then(Value::as_str);
        match decision.get("behavior").and_then(Value::as_str) {
            Some("allow") => {
                out.permission = allowed(event, message);
                out.updated_input = decision.get("updatedInput").filter(|input| input.is_object()).cloned();
                out.updated_permissions = decision.get("updatedPermissions").cloned();
            }
            Some("deny") => {
                out.permission = refusal(event, from, message.unwrap_or_default()).permission;
                out.interrupt = decision.get("interrupt") == Some(&Value::Bool(true));
            }
            other => return Err(format!("its behavior {other:?} is unknown; use allow or deny")),
        }
    }
    if let Some(context) = word("additionalContext").filter(|text| !text.trim().is_empty()) {
        out.context.push(text(from, context));
    }
    Ok(())
}

/// Reads the keys that only some events take.
fn special(
    event: HookEvent,
    keys: &serde_json::Map<String, Value>,
    out: &mut HookSpecial,
) -> Result<(), String> {
    let word =
        |key: &str| keys.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    match event {
        HookEvent::SessionStart | HookEvent::UserPromptSubmit | HookEvent::PermissionRequest => {
            out.title = word("sessionTitle").map(|title| title.lines().next().unwrap_or_default().to_owned());
            if event == HookEvent::SessionStart {
                out.first_message = word("initialUserMessage").map(str::to_owned);
            }
        }
        HookEvent::PermissionDenied => out.retry = keys.get("retry") == Some(&Value::Bool(true)),
        HookEvent::Elicitation | HookEvent::ElicitationResult => {
            out.elicitation = match word("action") {
                Some(action @ ("accept" | "decline" | "cancel")) => Some((
                    action.to_owned(),
                    keys.get("content").filter(|content| content.is_object()).cloned(),
                )),
                Some(other) => {
                    return Err(format!("its action {other:?} is unknown; use accept, decline or cancel"));
                }
                None => None,
            };
        }
        _ => {}
    }
    Ok(())
}

fn allowed(event: HookEvent, reason: Option<&str>) -> Option<HookPermission> {
    let asked = matches!(event, HookEvent::PreToolUse | HookEvent::PermissionRequest);
    let reason = reason.filter(|reason| !reason.is_empty()).unwrap_or("a hook allowed it");
    asked.then(|| HookPermission::Allow { reason: limited(reason) })
}

fn text(from: &str, text: &str) -> HookText {
    HookText { from: from.to_owned(), text: limited(text) }
}

fn limited(text: &str) -> String {
    let start = cut_end_at_word(text, MAX_CONTEXT);
    if start.len() == text.len() {
        return text.to_owned();
    }
    format!("{start}\n[cut: the hook gave {} bytes, {MAX_CONTEXT} are used]", text.len())
}

/// Joins answers: the strictest permission wins, reasons and texts are concatenated, the last changed input counts.
pub fn joined(outcomes: impl IntoIterator<Item = HookOutcome>) -> HookOutcome {
    let mut all = HookOutcome::default();
    for one in outcomes {
        all.permission = stricter(all.permission.take(), one.permission);
        all.block = match (all.block.take(), one.block) {
            (Some(first), Some(second)) => Some(HookText {
                from: format!("{}, {}", first.from, second.from),
                text: format!("{}\n{}", first.text, second.text),
            }),
            (first, second) => first.or(second),
        };
        all.stop = all.stop.take().or(one.stop);
        all.updated_input = one.updated_input.or(all.updated_input.take());
        all.updated_output = one.updated_output.or(all.updated_output.take());
        all.updated_permissions = one.updated_permissions.or(all.updated_permissions.take());
        all.interrupt |= one.interrupt;
        all.special = HookSpecial {
            title: one.special.title.or(all.special.title.take()),
            first_message: all.special.first_message.take().or(one.special.first_message),
            retry: all.special.retry | one.special.retry,
            elicitation: all.special.elicitation.take().or(one.special.elicitation),
        };
        all.context.extend(one.context);
        all.messages.extend(one.messages);
        all.runs.extend(one.runs);
    }
    all
}

fn stricter(a: Option<HookPermission>, b: Option<HookPermission>) -> Option<HookPermission> {
    let rank = |permission: &HookPermission| match permission {
        HookPermission::Allow { .. } => 0,
        HookPermission::Ask { .. } => 1,
        HookPermission::Defer { .. } => 2,
        HookPermission::Deny { .. } => 3,
    };
    match (a, b) {
        (Some(a), Some(b)) => Some(if rank(&b) > rank(&a) { b } else { a }),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn permission(event: HookEvent, answer: Value) -> Result<Option<HookPermission>, String> {
        json(event, "h", &answer).map(|outcome| outcome.permission)
    }

    #[test]
    fn decisions_about_a_call() {
        use HookEvent::{PermissionRequest, PreToolUse, Stop};
        let deny = |reason: &str| Ok(Some(HookPermission::Deny { reason: reason.to_owned() }));
        let allow = |reason: &str| Ok(Some(HookPermission::Allow { reason: reason.to_owned() }));
        let ask = |reason: &str| Ok(Some(HookPermission::Ask { reason: reason.to_owned() }));
        let own = |keys: Value| json!({ "hookSpecificOutput": keys });
        for (event, answer, want) in [
            (PreToolUse, json!({}), Ok(None)),
            (PreToolUse, json!({"decision": "block", "reason": "no"}), deny("no")),
            (PreToolUse, json!({"decision": "approve"}), allow("a hook allowed it")),
            (PreToolUse, json!({"decision": "block"}), deny("the hook h gave no reason")),
            (
                PreToolUse,
                own(json!({"permissionDecision": "deny", "permissionDecisionReason": "x"})),
                deny("x"),
            ),
            (
                PreToolUse,
                own(json!({"permissionDecision": "ask", "permissionDecisionReason": "x"})),
                ask("x"),
            ),
            (
                PreToolUse,
                own(json!({"permissionDecision": "allow", "permissionDecisionReason": "x"})),
                allow("x"),
            ),
            (PermissionRequest, own(json!({"decision": {"behavior": "deny", "message": "m"}})), deny("m")),
            (PermissionRequest, own(json!({"decision": {"behavior": "allow"}})), allow("a hook allowed it")),
            (Stop, json!({"decision": "approve"}), Ok(None)),
        ] {
            assert_eq!(permission(event, answer.clone()), want, "{event} {answer}");
        }
        for wrong in [
            json!([]),
            json!({"decision": "perhaps"}),
            own(json!({"permissionDecision": "yes"})),
            own(json!({"hookEventName": "Stop"})),
            json!({"hookSpecificOutput": 3}),
        ] {
            assert!(permission(PreToolUse, wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_strictest_answer_wins_in_every_order() {
        let all = [
            HookPermission::Allow { reason: "a".into() },
            HookPermission::Ask { reason: "b".into() },
            HookPermission::Defer { reason: "d".into() },
            HookPermission::Deny { reason: "c".into() },
        ];
        for a in &all {
            for b in &all {
                let one = |p: &HookPermission| HookOutcome {
                    permission: Some(p.clone()),
                    ..HookOutcome::default()
                };
                let got = joined([one(a), HookOutcome::default(), one(b)]).permission.unwrap();
                let rank = |p: &HookPermission| all.iter().position(|q| q == p).unwrap();
                assert_eq!(rank(&got), rank(a).max(rank(b)));
            }
        }
    }

    #[test]
    fn some_events_take_answers_of_their_own() {
        let own = |event, keys: Value| json(event, "h", &json!({ "hookSpecificOutput": keys }));
        let defer = json!({ "permissionDecision": "defer", "permissionDecisionReason": "later" });
        assert_eq!(
            own(HookEvent::PreToolUse, defer).unwrap().permission,
            Some(HookPermission::Defer { reason: "later".into() })
        );
        let start =
            own(HookEvent::SessionStart, json!({ "sessionTitle": " a\nb", "initialUserMessage": "go" }));
        let start = start.unwrap().special;
        assert_eq!((start.title.as_deref(), start.first_message.as_deref()), (Some("a"), Some("go")));
        assert!(own(HookEvent::PermissionDenied, json!({ "retry": true })).unwrap().special.retry);
        let answer = json!({ "action": "accept", "content": { "n": 1 } });
        assert_eq!(
            own(HookEvent::Elicitation, answer).unwrap().special.elicitation,
            Some(("accept".into(), Some(json!({ "n": 1 }))))
        );
        assert!(own(HookEvent::ElicitationResult, json!({ "action": "maybe" })).is_err());
        assert_eq!(
            own(HookEvent::Stop, json!({ "sessionTitle": "x" })).unwrap().special,
            HookSpecial::default()
        );
    }

    #[test]
    fn texts_are_limited_and_blocks_reach_whom_they_are_for() {
        let long = "x".repeat(20_000);
        let out = json(
            HookEvent::UserPromptSubmit,
            "h",
            &json!({"hookSpecificOutput": {"additionalContext": long}}),
        )
        .unwrap();
        assert!(out.context[0].text.len() < 10_100 && out.context[0].text.contains("20000 bytes"));
        assert_eq!(refusal(HookEvent::Stop, "h", "go on").block.unwrap().text, "go on");
        assert_eq!(refusal(HookEvent::Notification, "h", "x").messages.len(), 1);
        let out = json(
            HookEvent::Stop,
            "h",
            &json!({"continue": false, "stopReason": "done", "systemMessage": "hi"}),
        )
        .unwrap();
        assert_eq!((out.stop.as_deref(), out.messages[0].text.as_str()), (Some("done"), "hi"));
        assert!(plain(HookEvent::Stop, "h", "words").context.is_empty());
        assert_eq!(plain(HookEvent::SessionStart, "h", "words\n").context[0].text, "words");
    }
}
