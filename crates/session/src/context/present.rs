//! Proof that protected content is in the context, byte for byte: rules files, pinned messages, open todos,
//! the last message with the user's words.
//!
//! Examines the context that would be sent now. Texts are compared in the form in which the view sends them
//! (becket's own tags are escaped in rules and outputs). Decides nothing; the caller reports missing content.

use super::{View, continuation, escape};
pub use becket_types::Present;
use becket_types::{Message, Part, SystemKind, hex, is_blank};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Checks all protected content. Builds the context if necessary.
pub fn check(view: &mut View) -> Vec<Present> {
    let mut found = Vec::new();
    let context = view.context().clone();
    let texts: Vec<&str> =
        context.messages.iter().flat_map(|m| m.message.parts.iter().filter_map(text_of)).collect();
    let anywhere = |text: &str| texts.iter().any(|t| t.contains(text));

    let inputs = || {
        let parts = context.messages.iter().flat_map(|m| &m.message.parts);
        parts.filter_map(|part| if let Part::ToolCall { input, .. } = part { Some(input) } else { None })
    };

    for item in view.system_items().iter().filter(|i| i.kind == SystemKind::Rules && !is_blank(&i.text)) {
        let name = item.path.as_ref().map_or_else(String::new, |p| format!(" {}", p.display()));
        let sent = escape::escape(&item.text);
        let there = context.system.iter().any(|block| **block == *sent);
        found.push(present(format!("rules{name}"), &item.text, there));
    }
    for item in view.compaction().into_iter().flat_map(|(_, compaction)| &compaction.repeated.rules) {
        let name = item.path.as_ref().map_or_else(String::new, |p| format!(" {}", p.display()));
        found.push(present(format!("rules{name}"), &item.text, anywhere(&escape::escape(&item.text))));
    }
    let is_pinned =
        |m: &Message| view.is_pinned(&m.id) || m.result_of().is_some_and(|id| view.is_call_pinned(id));
    for message in view.live().filter(|m| is_pinned(m)) {
        found.push(message_present(format!("pinned message {}", message.seq), message, &anywhere));
    }
    for id in view.lost_pins() {
        found.push(Present { what: format!("pinned message {id}"), sha256: String::new(), there: false });
    }
    for id in view.lost_pinned_calls() {
        found.push(Present { what: format!("pinned output {id}"), sha256: String::new(), there: false });
    }
    for todo in open_todos(view) {
        // The state message shows a todo on one line.
        let line = todo.split_whitespace().collect::<Vec<_>>().join(" ");
        // If the output of the call that set the list has become a stub, the inputs of that call still contain the todo.
        let called = || inputs().any(|input| says(input, &todo));
        let there = anywhere(&todo) || anywhere(&super::summary::escape_tags(&line)) || called();
        found.push(present(format!("todo: {line}"), &todo, there));
    }
    if let Some(last) = view.live().rev().find(|m| continuation::is_users_words(m)) {
        found.push(message_present(format!("last user message {}", last.seq), last, &anywhere));
    }
    found
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text, .. } => Some(text),
        Part::ToolResult { output, .. } => Some(output),
        _ => None,
    }
}

/// True if the value is this string, or contains it as a whole string at any depth.
fn says(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Array(values) => values.iter().any(|value| says(value, text)),
        Value::Object(map) => map.values().any(|value| says(value, text)),
        _ => false,
    }
}

fn present(what: String, text: &str, there: bool) -> Present {
    Present { what, sha256: hex(&Sha256::digest(text)), there }
}

/// Checks every text and output of the message, each as a whole.
fn message_present(what: String, message: &Message, anywhere: &dyn Fn(&str) -> bool) -> Present {
    let texts =
        message.parts.iter().filter(|p| !matches!(p, Part::Text { ignored: true, .. })).filter_map(text_of);
    let texts: Vec<&str> = texts.filter(|text| !is_blank(text)).collect();
    let there =
        texts.iter().all(|text| anywhere(text) || anywhere(&escape::escape(text)) || wrapped(text, anywhere));
    present(what, &texts.concat(), there)
}

/// True if the text is present inside a reminder. A reminder has its own form of escaping: only its own tag.
fn wrapped(text: &str, anywhere: &dyn Fn(&str) -> bool) -> bool {
    anywhere(&super::reminder::wrap(text))
}

/// Returns todos that are not completed, from the state of the list.
fn open_todos(view: &View) -> Vec<String> {
    let Some(state) = view.state("todo") else { return Vec::new() };
    let list = ["items", "todos"].iter().find_map(|k| state.get(k)).unwrap_or(state);
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    // Nothing to check: without a compaction, the calls that set the list are still in the view.
    if view.compaction().is_none() {
        return Vec::new();
    }
    let open = items.iter().filter(|item| item["status"] != "completed");
    open.filter_map(|item| item["content"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{ModelScope, Policy};
    use becket_types::{Compaction, Entry, EntryKind, MessageId, Millis, PinTarget, Seq, SystemItem, Tokens};
    use serde_json::json;

    #[test]
    fn each_is_named_and_what_is_gone_is_said() {
        let scope = ModelScope {
            provider: "p".into(),
            model: "m".into(),
            images: true,
            max_images: 4,
            max_media_bytes: 1 << 20,
        };
        let rules = SystemItem {
            kind: SystemKind::Rules,
            path: Some("AGENTS.md".into()),
            text: "Be <b>brief</b>.".into(),
        };
        let pinned = Message::user("keep </system-reminder> this");
        let output = Message::tool_result("c1".into(), "read", "out <verbatim_tail", false);
        let kinds = [
            EntryKind::System { items: vec![rules] },
            EntryKind::Pin { target: PinTarget::Message(pinned.id) },
            EntryKind::Message { message: pinned },
            EntryKind::Message {
                message: Message::assistant(vec![Part::tool_call("c1", "read", json!({}))]),
            },
            EntryKind::Message { message: output },
            EntryKind::Pin { target: PinTarget::Call("c1".into()) },
            EntryKind::State { key: "todo".into(), value: json!([{"content": "x", "status": "pending"}]) },
            EntryKind::Message { message: Message::user("last words") },
        ];
        let entries: Vec<Entry> =
            (1..).zip(kinds).map(|(seq, kind)| Entry { seq: Seq(seq), time: Millis(0), kind }).collect();
        let mut view = View::fold(Policy::default(), scope, &entries);
        let all = check(&mut view);
        let names: Vec<&str> = all.iter().map(|p| p.what.as_str()).collect();
        assert_eq!(names, ["rules AGENTS.md", "pinned message 3", "pinned message 5", "last user message 8"]);
        assert!(all.iter().all(|p| p.there), "{all:#?}");
        assert_eq!(all[3].sha256, hex(&Sha256::digest("last words")));

        // A pinned message that no entry contains, because its line could not be read.
        let gone = EntryKind::Pin { target: PinTarget::Message(MessageId::new()) };
        view.apply(&Entry { seq: Seq(9), time: Millis(0), kind: gone });
        let all = check(&mut view);
        let missing: Vec<&Present> = all.iter().filter(|p| !p.there).collect();
        assert_eq!(missing.len(), 1, "{all:#?}");
    }

    #[test]
    fn what_a_person_went_back_before_is_not_missed_nor_after_it_left_memory() {
        let scope = ModelScope {
            provider: "p".into(),
            model: "m".into(),
            images: true,
            max_images: 4,
            max_media_bytes: 1 << 20,
        };
        let pinned = Message::user("keep this");
        let (id, next) = (pinned.id, Message::user("another way"));
        let compaction = json!({
            "summary": "So far.", "tail_from": 7, "taken_out": [next.id], "tokens_before": 9, "tokens_after": 5,
            "trigger": "manual", "model": "", "source": "fallback", "snapshot_of": 5, "turn_state": "awaiting_user",
        });
        let compaction: Compaction = serde_json::from_value(compaction).unwrap();
        let kinds = [
            EntryKind::Message { message: pinned },
            EntryKind::Pin { target: PinTarget::Message(id) },
            EntryKind::Revert { entry: Seq(1) },
            EntryKind::Message { message: next },
            EntryKind::Message { message: Message::assistant(vec![Part::text("yes")]) },
            EntryKind::Compaction(compaction.into()),
            EntryKind::Message { message: Message::user("last words") },
        ];
        let entries: Vec<Entry> =
            (1..).zip(kinds).map(|(seq, kind)| Entry { seq: Seq(seq), time: Millis(0), kind }).collect();
        let mut view = View::fold(Policy::default(), scope.clone(), &entries);
        let missing = |view: &mut View| check(view).into_iter().filter(|p| !p.there).count();
        assert_eq!(missing(&mut view), 0);
        let mut restored = View::restore(Policy::default(), scope, view.checkpoint()).unwrap();
        assert_eq!(missing(&mut restored), 0);
        view.let_go(Tokens(0));
        assert_eq!(missing(&mut view), 0);
    }
}
