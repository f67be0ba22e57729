//! The work of a turn that ends without an answer, as one sentence for people: calls that succeeded since their last message.

use becket_session::context::View;
use becket_types::{Part, Role};
use std::collections::HashSet;

/// Maximum number of calls that the sentence names.
const MAX_NAMED_CALLS: usize = 5;
/// Maximum number of characters of an argument that are shown.
const MAX_ARGUMENT_CHARS: usize = 60;
/// Arguments that say what a call worked on.
const SUBJECTS: [&str; 8] =
    ["path", "file_path", "command", "pattern", "query", "url", "name", "description"];

/// Returns a sentence with the last calls since the person's last message. `None` if no call succeeded.
pub(super) fn calls_since_prompt(view: &View) -> Option<String> {
    let mut succeeded = HashSet::new();
    let mut calls: Vec<String> = Vec::new();
    for message in view.messages_for_user().rev() {
        let said = |part: &Part| matches!(part, Part::Text { synthetic: false, .. });
        if message.role == Role::User && message.parts.iter().any(said) {
            break;
        }
        for part in message.parts.iter().rev() {
            match part {
                Part::ToolResult { call_id, is_error: false, .. } => {
                    succeeded.insert(call_id.clone());
                }
                Part::ToolCall { call_id, name, input, .. } if succeeded.contains(call_id) => {
                    let subject = SUBJECTS.iter().find_map(|key| input.get(*key)?.as_str());
                    calls.push(
                        subject.map_or_else(|| name.clone(), |subject| format!("{name} {}", short(subject))),
                    );
                }
                _ => {}
            }
        }
    }
    let more = calls.len().saturating_sub(MAX_NAMED_CALLS);
    calls.truncate(MAX_NAMED_CALLS);
    calls.reverse();
    let more = match more {
        0 => String::new(),
        1 => " (and 1 call before)".to_owned(),
        more => format!(" (and {more} calls before)"),
    };
    (!calls.is_empty()).then(|| format!("Done since your last message: {}{more}.", calls.join("; ")))
}

/// Returns the first line of an argument, cut to a width that fits into a sentence.
fn short(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let shown: String = line.chars().take(MAX_ARGUMENT_CHARS).collect();
    let cut = if shown.len() < text.trim().len() { "…" } else { "" };
    format!("`{shown}{cut}`")
}
