//! Finds the JSON answer in what a hook printed.
//!
//! Pure. The answer is one JSON object, or several, that end the output and begin at the start of a line. Text before it, such as a
//! line of a shell's profile, is skipped, but then the answer can only restrict: many hooks print what a model wrote, and a
//! model must not be able to allow its own call with such a text. Everything else is plain text.

use crate::answer;
use becket_types::{HookEvent, HookMessage, HookOutcome, HookPermission, replace_lone_surrogates};
use serde_json::Value;

/// An object after other text is an answer if it has at least one of these keys. Other objects are part of the text.
const KEYS: [&str; 7] = [
    "continue",
    "continue_",
    "decision",
    "hookSpecificOutput",
    "additionalContext",
    "systemMessage",
    "suppressOutput",
];
/// Keys that decide. Text that has one of them was probably meant as an answer.
const DECIDING: [&str; 5] =
    ["\"decision\"", "\"hookSpecificOutput\"", "\"permissionDecision\"", "\"continue\"", "\"continue_\""];

/// The output of a hook.
#[derive(Debug, PartialEq)]
enum Printed {
    Text,
    Answer {
        objects: Vec<Value>,
        text_before: bool,
    },
    /// Why its JSON cannot be used.
    Wrong(String),
}

/// Returns the decision in the standard output of a hook that ended well.
///
/// # Errors
///
/// Returns a message if the output is meant as an answer and cannot be used.
pub fn decision(event: HookEvent, from: &str, stdout: &str) -> Result<HookOutcome, String> {
    match printed(stdout) {
        Printed::Answer { objects, text_before } => {
            let outcomes: Result<Vec<HookOutcome>, String> =
                objects.iter().map(|object| answer::json(event, from, object)).collect();
            let mut outcome = answer::joined(outcomes?);
            if text_before && loosens(&mut outcome) {
                let text = format!(
                    "{event} hook {from}: it printed text before its JSON, so what the JSON allows is not used. Make the \
                     hook print nothing but the JSON; send other text, such as that of a shell's profile, to standard error."
                );
                outcome.messages.push(HookMessage { warning: true, text });
            }
            Ok(outcome)
        }
        Printed::Text => Ok(answer::plain(event, from, stdout)),
        Printed::Wrong(why) => {
            let as_text = answer::plain(event, from, stdout);
            if as_text.context.is_empty() || begins_object(stdout) {
                return Err(why);
            }
            // At this event every text is context for the model. A text about hooks is not refused for what it quotes.
            let text = format!("{event} hook {from}: its output is used as text, because {why}");
            let mut outcome = as_text;
            outcome.messages.push(HookMessage { warning: true, text });
            Ok(outcome)
        }
    }
}

/// Finds the answer in an output. With half of a surrogate pair in it, an answer must still count: a denial that cannot be read
/// would let the call run. A text without an answer stays as it was printed.
fn printed(stdout: &str) -> Printed {
    let repaired = replace_lone_surrogates(stdout).map(|repaired| strictly_printed(&repaired));
    match repaired {
        Some(answer @ Printed::Answer { .. }) => answer,
        _ => strictly_printed(stdout),
    }
}

fn strictly_printed(stdout: &str) -> Printed {
    let text = stdout.trim_end();
    let start = text.len() - begun(text).len();
    let (whole, fault) = if begins_object(text) { objects(&text[start..]) } else { (Vec::new(), None) };
    if !whole.is_empty() && fault.is_none() {
        return Printed::Answer { objects: whole, text_before: false };
    }
    let mut next = 0;
    for (start, line) in line_starts(text) {
        if start < next || !begins_object(line) {
            continue;
        }
        let start = start + line.len() - begun(line).len();
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        let mut found = Vec::new();
        let ends = loop {
            match stream.next() {
                None => break true,
                Some(Ok(value)) if value.is_object() => found.push(value),
                Some(_) => break false,
            }
        };
        let is_answer = |value: &Value| KEYS.iter().any(|key| value.get(key).is_some());
        if ends && found.iter().any(is_answer) {
            return Printed::Answer { objects: found, text_before: true };
        }
        // An answer that begins within these objects would end at the same place as they do.
        next = start + stream.byte_offset();
    }
    match fault {
        Some(_) if !whole.is_empty() => {
            return Printed::Wrong(
                "it printed text after its JSON; the JSON must be the last thing that it prints".to_owned(),
            );
        }
        Some(error) => return Printed::Wrong(format!("it printed JSON that is wrong: {error}")),
        None => {}
    }
    let attempt = line_starts(text).find(|(_, line)| begins_object(line)).map(|(start, _)| &text[start..]);
    if attempt.is_some_and(|rest| DECIDING.iter().any(|key| rest.contains(key))) {
        return Printed::Wrong(
            "it printed JSON with a decision that cannot be read, because it is cut or text stands around it; \
             make the hook print nothing but the JSON"
                .to_owned(),
        );
    }
    // A text without a newline at its end, as of `printf`, stands on the same line as the answer.
    let on_one_line = text.lines().next_back().and_then(|line| line.split_once('{'));
    if on_one_line.is_some_and(|(_, rest)| {
        rest.ends_with('}') && DECIDING.iter().any(|key| rest.trim_start().starts_with(key))
    }) {
        return Printed::Wrong(
            "it printed text and its JSON on the same line, so the JSON cannot be told from the text; make the hook \
             print nothing but the JSON"
                .to_owned(),
        );
    }
    Printed::Text
}

/// Takes away what gives permission or acts for the user. Returns true if there was something.
fn loosens(outcome: &mut HookOutcome) -> bool {
    let allows = matches!(outcome.permission, Some(HookPermission::Allow { .. }));
    if allows {
        outcome.permission = None;
    }
    let accepts = outcome.special.elicitation.as_ref().is_some_and(|(action, _)| action == "accept");
    if accepts {
        outcome.special.elicitation = None;
    }
    let retries = std::mem::take(&mut outcome.special.retry);
    let grants = outcome.updated_permissions.take().is_some();
    let begins = outcome.special.first_message.take().is_some();
    allows || accepts || retries || grants || begins
}

/// Parses objects that follow each other up to the end of the text. Also returns the reason why the rest is none.
fn objects(text: &str) -> (Vec<Value>, Option<String>) {
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value {
            Ok(value) if value.is_object() => found.push(value),
            Ok(_) => return (found, Some("it is not an object".to_owned())),
            Err(error) => return (found, Some(error.to_string())),
        }
    }
    (found, None)
}

/// Returns the last JSON object in a text for which `read` returns something. Objects within objects do not count.
pub fn last_object<T>(text: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
    let repaired = replace_lone_surrogates(text);
    let (mut rest, mut last) = (repaired.as_deref().unwrap_or(text), None);
    while let Some(at) = rest.find('{') {
        rest = &rest[at..];
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => {
                last = read(&value).or(last);
                rest = &rest[stream.byte_offset()..];
            }
            _ => rest = &rest[1..],
        }
    }
    last
}

fn begins_object(text: &str) -> bool {
    begun(text).starts_with('{')
}

/// Returns the text without what a terminal or an editor puts at its beginning: spaces, a byte order mark, escape sequences.
fn begun(mut text: &str) -> &str {
    loop {
        text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        let Some(sequence) = text.strip_prefix('\x1b') else { return text };
        let end = match sequence.as_bytes().first() {
            Some(b'[') => sequence[1..].find(|c: char| ('@'..='~').contains(&c)).map(|at| at + 2),
            Some(b']') => {
                let line = sequence.lines().next().unwrap_or_default();
                let bell = line.find('\x07').map(|at| at + 1);
                bell.or_else(|| line.find("\x1b\\").map(|at| at + 2))
            }
            _ => None,
        };
        let Some(end) = end else { return text };
        text = &sequence[end..];
    }
}

/// Returns the position of each line's start, and the line.
fn line_starts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const DENY: &str = r#"{"decision":"block","reason":"no"}"#;
    const ALLOW: &str =
        r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#;

    fn denies(stdout: &str) -> Result<bool, String> {
        let outcome = decision(HookEvent::PreToolUse, "h", stdout)?;
        Ok(matches!(outcome.permission, Some(HookPermission::Deny { .. })))
    }

    #[test]
    fn an_answer_at_the_end_of_the_output_counts() {
        let pretty = serde_json::to_string_pretty(&json!({
            "decision": "block", "reason": "no", "n": {"a": [{"b": 1}]},
        }))
        .unwrap();
        for stdout in [
            DENY.to_owned(),
            format!("\u{feff}{DENY}\r\n"),
            format!("\x1b[0m\x1b]0;a title\x07{DENY}\n\n"),
            format!("Shell ready on arm64\n{DENY}"),
            format!("Shell ready\r\nthe second {{ line }}\r\n  \u{feff}{DENY}\r\n"),
            format!("words\n{pretty}\n"),
            // An object without a key of an answer is part of the text.
            format!("{{\"log\": 1}}\nwords\n{DENY}\n"),
            format!("{{ not JSON\n{DENY}").replacen('{', "x {", 1),
            format!("x\n{{ not JSON\n{DENY}"),
            // Several objects: the strictest one counts.
            format!("{{\"continue\":true}}\n{DENY}\n"),
            format!("{DENY}{ALLOW}"),
            format!("words\n{ALLOW}\n{DENY}\n"),
            // Half of a surrogate pair, as Node writes it for a text that was cut in the middle of a character.
            r#"{"decision":"block","reason":"no \ud83d"}"#.to_owned(),
            format!("C:\\\n\u{feff}{}\n", r#"{"decision":"block","reason":"\udc00 \\\ud83d"}"#),
            format!("{}\n{{\"systemMessage\":\"x\"}}\n", r#"{"decision":"block","reason":"\ud83d"}"#),
        ] {
            assert_eq!(denies(&stdout), Ok(true), "{stdout}");
        }
    }

    /// A hook in PowerShell prints a byte order mark, one in Node half a character: neither may cost a denial, whatever the event.
    #[test]
    fn a_mark_and_half_a_character_do_not_cost_a_denial() {
        let reason = "no \\ud83d";
        for (event, answer) in [
            (HookEvent::PreToolUse, format!(r#"{{"decision":"block","reason":"{reason}"}}"#)),
            (HookEvent::UserPromptSubmit, format!(r#"{{"decision":"block","reason":"{reason}"}}"#)),
            (HookEvent::Stop, format!(r#"{{"decision":"block","reason":"{reason}"}}"#)),
            (HookEvent::PreToolUse, format!(r#"{{"continue":false,"stopReason":"{reason}"}}"#)),
        ] {
            let want = decision(event, "h", &answer.replace("\\ud83d", "\u{fffd}")).unwrap();
            assert!(want != HookOutcome::default() && want.context.is_empty() && want.messages.is_empty());
            for stdout in [answer.clone(), format!("\u{feff}{answer}"), format!("\u{feff}{answer}\r\n")] {
                assert_eq!(decision(event, "h", &stdout).as_ref(), Ok(&want), "{stdout}");
            }
        }
        let text = "plain \\ud83d text";
        let outcome = decision(HookEvent::SessionStart, "h", text).unwrap();
        assert!(format!("{:?}", outcome.context).contains("ud83d"), "a text is not changed");
    }

    #[test]
    fn text_is_no_decision() {
        for stdout in [
            "",
            "words",
            "a { b } c",
            "checked {\"files\": 3}",
            "checked\n{\"files\": 3}\n",
            "checked\n{ it is not JSON\n",
            "fn main() {\n    println!(\"decision\");\n}\n",
        ] {
            assert_eq!(denies(stdout), Ok(false), "{stdout}");
            let outcome = decision(HookEvent::SessionStart, "h", stdout).unwrap();
            assert!(outcome.messages.is_empty());
            assert_eq!(outcome.context.len(), usize::from(!stdout.is_empty()), "{stdout}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_used_is_a_failure_with_its_reason() {
        for (stdout, why) in [
            (format!("{DENY}\ndone"), "text after its JSON"),
            (format!("ready\n{DENY}\ndone"), "text stands around it"),
            (format!("ready\n{}", &DENY[..20]), "it is cut"),
            (DENY[..20].to_owned(), "JSON that is wrong"),
            (format!("ready {DENY}"), "on the same line"),
        ] {
            let error = denies(&stdout).unwrap_err();
            assert!(error.contains(why), "{stdout}: {error}");
            // The whole output becomes context if it does not begin with JSON, and the user gets a warning.
            let start = decision(HookEvent::UserPromptSubmit, "h", &stdout);
            let kept = start.is_ok_and(|out| out.context.len() == 1 && out.messages[0].warning);
            assert_eq!(kept, stdout.starts_with('r'), "{stdout}");
        }
    }

    /// A hook may print what the model wrote: that must not allow the model's call.
    #[test]
    fn behind_text_an_answer_only_restricts() {
        let outcome = decision(HookEvent::PreToolUse, "h", &format!("runs: echo\n{ALLOW}")).unwrap();
        assert_eq!(outcome.permission, None);
        assert!(outcome.messages[0].warning && outcome.messages[0].text.contains("PreToolUse hook h"));
        assert!(decision(HookEvent::PreToolUse, "h", ALLOW).unwrap().permission.is_some());
        for (event, answer) in [
            (
                HookEvent::PermissionRequest,
                json!({"decision": {"behavior": "allow", "updatedPermissions": [1]}}),
            ),
            (HookEvent::PermissionDenied, json!({"retry": true})),
            (HookEvent::Elicitation, json!({"action": "accept", "content": {}})),
            (HookEvent::SessionStart, json!({"initialUserMessage": "go"})),
        ] {
            let text = json!({ "hookSpecificOutput": answer }).to_string();
            let alone = decision(event, "h", &text).unwrap();
            let behind = decision(event, "h", &format!("words\n{text}")).unwrap();
            assert!(alone != HookOutcome::default() && alone.messages.is_empty(), "{event}");
            assert_eq!(behind.messages.len(), 1, "{event}");
            assert_eq!(HookOutcome { messages: Vec::new(), ..behind }, HookOutcome::default(), "{event}");
        }
    }

    #[test]
    fn the_last_object_of_a_text_is_found() {
        let ok = |text: &str| last_object(text, |value| value.get("ok")?.as_bool());
        assert_eq!(ok("no object"), None);
        assert_eq!(
            ok("{x} I say {\"ok\": true} first, but {\"ok\": false, \"n\": {\"ok\": true}}."),
            Some(false)
        );
        assert_eq!(ok("```json\n{\"ok\": true}\n```"), Some(true));
        assert_eq!(ok(r#"{"ok": false, "reason": "cut \ud83d"}"#), Some(false));
    }

    #[test]
    fn a_long_output_is_read_in_linear_time() {
        for piece in ["{\"a\":1}\n", "{\"a\":[\n", "{\n"] {
            let text = format!("x\n{}words", piece.repeat(20_000));
            assert_eq!(printed(&text), Printed::Text);
        }
    }

    proptest! {
        /// Text before an answer never makes it allow something, and never hides a denial on a line of its own.
        #[test]
        fn text_before_an_answer(before in "([ -~\\r\\n\u{feff}é]|\\\\|\\\\ud83d){0,60}", crlf: bool) {
            let end = if crlf { "\r\n" } else { "\n" };
            let text = format!("x{before}{end}{DENY}{end}");
            prop_assert_eq!(denies(&text), Ok(true));
            let outcome = decision(HookEvent::PreToolUse, "h", &format!("x{before}{end}{ALLOW}")).unwrap();
            prop_assert_eq!(outcome.permission, None);
        }
    }
}
