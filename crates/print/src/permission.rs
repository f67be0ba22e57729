//! `can_use_tool`: sends a question for permission as a control request, and converts the answer to commands of the
//! agent.
//!
//! The program that drives becket decides. An answer of an unknown shape is a refusal; it never allows a call.

use becket_types::{
    CallId, Command, Decision, PermissionRequest, PermissionUpdate, RuleChange, RuleKind, sdk_names,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Returns the control request for a question.
pub fn can_use_tool(request: &PermissionRequest, agent: Option<&CallId>, cwd: &Path) -> Value {
    let mut out = json!({
        "subtype": "can_use_tool",
        "tool_name": sdk_names::sdk_name(&request.tool),
        "display_name": sdk_names::sdk_name(&request.tool),
        "input": sdk_names::sdk_input(&request.tool, &request.input, cwd),
        "tool_use_id": request.call_id,
        "decision_reason": request.reason,
        "description": request.reason,
        "permission_suggestions": suggestions(request),
    });
    // The rules never allow these calls, and a program must not either: somebody has to see the input.
    if ["ask_user", "exit_plan"].contains(&&*sdk_names::own_name(&request.tool)) {
        out["requires_user_interaction"] = json!(true);
    }
    if let Some(path) = request.access.paths.iter().find(|path| !path.starts_with(cwd)) {
        out["blocked_path"] = json!(path.to_string_lossy());
    }
    if let Some(agent) = agent {
        out["agent_id"] = json!(agent);
    }
    out
}

fn suggestions(request: &PermissionRequest) -> Vec<Value> {
    let rule = request.offer.as_ref().map(|offer| offer.rule.as_str());
    sdk_names::suggestions(rule, request.access.effect == becket_types::Effect::Write)
}

/// The meaning of an answer.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    /// The commands in order. The decision comes last; if the program also interrupts, the interrupt follows it.
    pub commands: Vec<Command>,
    /// Messages for people about updates that cannot be carried out.
    pub notes: Vec<String>,
    /// Changes that must also be written into settings files.
    pub kept: Vec<SettingsChange>,
}

/// A change of a list in a settings file of the user.
#[derive(Debug, PartialEq, Eq)]
pub struct SettingsChange {
    /// In the file for every project; otherwise in the user's own file for this project.
    pub everywhere: bool,
    /// `None`: the list of folders.
    pub kind: Option<RuleKind>,
    pub change: RuleChange,
    /// The rules or folders that are added, removed or set.
    pub values: Vec<String>,
}

/// Returns the commands for an answer about `call`, a call of `tool` with the input that was shown.
pub fn answer_to(call: &CallId, tool: &str, shown: &Value, answer: &Result<Value, String>) -> Answer {
    let mut out = Answer::default();
    let decide = |decision| Command::Decide { call_id: call.clone(), decision };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            out.commands
                .push(decide(deny(&format!("the program that decides about permissions failed: {error}"))));
            return out;
        }
    };
    match answer.get("behavior").and_then(Value::as_str) {
        Some("allow") => {
            for update in answer.get("updatedPermissions").and_then(Value::as_array).into_iter().flatten() {
                updated(update, &mut out);
            }
            let input = answer.get("updatedInput").filter(|input| input.is_object() && *input != shown);
            out.commands.push(decide(match input {
                Some(input) => Decision::AllowChanged { input: sdk_names::own_input(tool, input) },
                None => Decision::AllowOnce,
            }));
        }
        Some("deny") => {
            let message = answer.get("message").and_then(Value::as_str).unwrap_or_default();
            out.commands.push(decide(deny(message)));
            if answer.get("interrupt").and_then(Value::as_bool) == Some(true) {
                out.commands.push(Command::Interrupt);
            }
        }
        _ => {
            let why =
                "the program that decides about permissions answered without `behavior` (allow or deny)";
            out.commands.push(decide(deny(why)));
        }
    }
    out
}

/// Puts long texts back into an input that a program returns. `shown`: the input as the program got it, with long texts shortened;
/// `whole`: the original input. A text that the program returns as it was shown is replaced by the original.
pub fn restore(given: &mut Value, shown: &Value, whole: &Value) {
    match (given, shown, whole) {
        (Value::String(given), Value::String(shown), Value::String(whole)) if given == shown => {
            given.clone_from(whole);
        }
        (Value::Object(given), Value::Object(shown), Value::Object(whole)) => {
            for (name, given) in given {
                if let (Some(shown), Some(whole)) = (shown.get(name), whole.get(name)) {
                    restore(given, shown, whole);
                }
            }
        }
        (Value::Array(given), Value::Array(shown), Value::Array(whole)) => {
            for (given, (shown, whole)) in given.iter_mut().zip(shown.iter().zip(whole)) {
                restore(given, shown, whole);
            }
        }
        _ => {}
    }
}

/// Returns the refusal for a question that nobody can answer any more.
pub fn unanswered(call: &CallId) -> Command {
    let reason = "the program that decides about permissions has closed the connection";
    Command::Decide { call_id: call.clone(), decision: deny(reason) }
}

fn deny(message: &str) -> Decision {
    Decision::Deny { reason: Some(message.to_owned()).filter(|message| !message.is_empty()) }
}

/// Processes one entry of `updatedPermissions`.
fn updated(update: &Value, out: &mut Answer) {
    let everywhere = match update.get("destination").and_then(Value::as_str) {
        Some("userSettings") => Some(true),
        // A project's file cannot allow anything, so the rule goes into the user's own file for this project, as with "always" in
        // the terminal.
        Some("projectSettings" | "localSettings") => Some(false),
        _ => None,
    };
    let mut keep = |kind, change, values: Vec<String>| {
        out.kept.extend(everywhere.map(|everywhere| SettingsChange { everywhere, kind, change, values }));
    };
    let texts =
        |folders: &[PathBuf]| folders.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    match PermissionUpdate::parse(update) {
        PermissionUpdate::Rules { kind, change, rules } => {
            keep(Some(kind), change, rules.clone());
            out.commands.push(Command::change_rules(kind, change, rules));
        }
        PermissionUpdate::AddDirectories(folders) => {
            keep(None, RuleChange::Add, texts(&folders));
            out.commands.extend(folders.into_iter().map(|path| Command::AddDirectory { path: Some(path) }));
        }
        PermissionUpdate::RemoveDirectories(folders) => {
            keep(None, RuleChange::Remove, texts(&folders));
            out.commands.extend(folders.into_iter().map(|path| Command::RemoveDirectory { path }));
        }
        PermissionUpdate::SetMode(mode) => out.commands.push(Command::SetMode { mode }),
        PermissionUpdate::Unknown { what, behavior } => out.notes.push(format!(
            "the permission update {what} ({behavior}) cannot be carried out while a session runs; the call is decided \
             without it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{Access, RuleOffer};

    fn request() -> PermissionRequest {
        PermissionRequest {
            call_id: CallId("c1".into()),
            tool: "bash".into(),
            input: json!({ "command": "echo hi" }),
            access: Access::execute("echo hi"),
            reason: "it runs a command".into(),
            offer: Some(RuleOffer {
                rule: "Bash(echo *)".into(),
                covers: String::new(),
                ..RuleOffer::default()
            }),
            nearest: None,
            secrets: None,
            preview: Vec::new(),
        }
    }

    #[test]
    fn a_text_that_was_shown_in_part_comes_back_whole() {
        let whole = json!({ "content": "whole", "edits": [{ "old": "a long text", "new": "b" }], "n": 1 });
        let shown = json!({ "content": "wh…", "edits": [{ "old": "a …", "new": "b" }], "n": 1 });
        let mut same = shown.clone();
        restore(&mut same, &shown, &whole);
        assert_eq!(same, whole);
        let mut changed =
            json!({ "content": "mine", "edits": [{ "old": "a …", "new": "c" }, {}], "more": "x" });
        restore(&mut changed, &shown, &whole);
        let wanted =
            json!({ "content": "mine", "edits": [{ "old": "a long text", "new": "c" }, {}], "more": "x" });
        assert_eq!(changed, wanted);
    }

    #[test]
    fn a_question_has_the_known_names_and_suggests_its_rule() {
        let body = can_use_tool(&request(), None, Path::new("/w"));
        assert_eq!((&body["tool_name"], &body["input"]["command"]), (&json!("Bash"), &json!("echo hi")));
        assert_eq!(
            body["permission_suggestions"],
            json!([{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "echo:*"}],
                    "behavior": "allow", "destination": "session"}])
        );
        let mut write = request();
        write.tool = "edit".into();
        write.input = json!({ "path": "a", "old": "x", "new": "y" });
        write.access = Access::write("/other/a".into());
        write.offer = None;
        let body = can_use_tool(&write, Some(&CallId("t".into())), Path::new("/w"));
        assert_eq!((&body["tool_name"], &body["input"]["file_path"]), (&json!("Edit"), &json!("/w/a")));
        assert_eq!((&body["blocked_path"], &body["agent_id"]), (&json!("/other/a"), &json!("t")));
        assert_eq!(body["permission_suggestions"][0]["mode"], "acceptEdits");
    }

    #[test]
    fn answers_become_commands() {
        let call = CallId("c".into());
        let decide = |decision| Command::Decide { call_id: CallId("c".into()), decision };
        let shown = json!({ "command": "ls" });
        let of = |answer: Value| answer_to(&call, "bash", &shown, &Ok(answer)).commands;
        assert_eq!(of(json!({ "behavior": "allow", "updatedInput": shown })), [decide(Decision::AllowOnce)]);
        assert_eq!(of(json!({ "behavior": "allow" })), [decide(Decision::AllowOnce)]);
        assert_eq!(
            of(
                json!({ "behavior": "allow", "updatedInput": { "command": "pwd", "run_in_background": true } })
            ),
            [decide(Decision::AllowChanged { input: json!({ "command": "pwd", "background": "now" }) })]
        );
        assert_eq!(
            of(json!({ "behavior": "deny", "message": "no", "interrupt": true })),
            [decide(Decision::Deny { reason: Some("no".into()) }), Command::Interrupt]
        );
        let updates = json!([
            { "type": "addRules", "rules": [{ "toolName": "Bash", "ruleContent": "ls:*" }], "behavior": "allow" },
            { "type": "addRules", "rules": [{ "toolName": "Write" }], "behavior": "deny" },
            { "type": "setMode", "mode": "acceptEdits", "destination": "session" },
            { "type": "addDirectories", "directories": ["/x"] },
            { "type": "removeDirectories", "directories": ["/x"] },
        ]);
        let answer = answer_to(
            &call,
            "bash",
            &shown,
            &Ok(json!({ "behavior": "allow", "updatedPermissions": updates })),
        );
        assert_eq!(
            answer.commands,
            [
                Command::change_rules(RuleKind::Allow, RuleChange::Add, vec!["Bash(ls:*)".into()]),
                Command::change_rules(RuleKind::Deny, RuleChange::Add, vec!["Write".into()]),
                Command::SetMode { mode: "acceptEdits".into() },
                Command::AddDirectory { path: Some("/x".into()) },
                Command::RemoveDirectory { path: "/x".into() },
                decide(Decision::AllowOnce),
            ]
        );
        assert_eq!((answer.notes.len(), answer.kept.len()), (0, 0));
    }

    #[test]
    fn updates_change_rules_and_say_where_they_are_kept() {
        let call = CallId("c".into());
        let rules = json!([{ "toolName": "Bash", "ruleContent": "ls:*" }]);
        let list = vec!["Bash(ls:*)".to_owned()];
        for (kind, behavior, update, change) in [
            (RuleKind::Ask, "ask", "addRules", RuleChange::Add),
            (RuleKind::Allow, "allow", "replaceRules", RuleChange::Replace),
            (RuleKind::Deny, "deny", "replaceRules", RuleChange::Replace),
            (RuleKind::Deny, "deny", "removeRules", RuleChange::Remove),
        ] {
            for (destination, everywhere) in [
                (None, None),
                (Some("session"), None),
                (Some("userSettings"), Some(true)),
                (Some("localSettings"), Some(false)),
                (Some("projectSettings"), Some(false)),
            ] {
                let updates = json!([{ "type": update, "behavior": behavior, "rules": rules, "destination": destination }]);
                let answer = Ok(json!({ "behavior": "allow", "updatedPermissions": updates }));
                let answer = answer_to(&call, "bash", &json!({}), &answer);
                assert_eq!(answer.commands[0], Command::change_rules(kind, change, list.clone()));
                let values = list.clone();
                let kept = everywhere.map(|everywhere| SettingsChange {
                    everywhere,
                    kind: Some(kind),
                    change,
                    values,
                });
                assert_eq!(answer.kept, kept.into_iter().collect::<Vec<_>>(), "{destination:?}");
            }
        }
    }

    #[test]
    fn what_is_not_clear_is_a_refusal() {
        let call = CallId("c".into());
        for answer in
            [Ok(json!({})), Ok(json!({ "behavior": "maybe" })), Ok(json!(true)), Err("boom".to_owned())]
        {
            let commands = answer_to(&call, "bash", &json!({}), &answer).commands;
            assert!(
                matches!(
                    &commands[..],
                    [Command::Decide { decision: Decision::Deny { reason: Some(_) }, .. }]
                ),
                "{answer:?}: {commands:?}"
            );
        }
    }
}
