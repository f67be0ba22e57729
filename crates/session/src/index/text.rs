//! What can be found of an entry.

use crate::export::is_shown;
use becket_types::{Entry, EntryKind, Part, cut_end};

/// Of a tool's output, this much can be found.
const TOOL_TEXT: usize = 8 << 10;

/// Who said it, and what people can look for in it; `None` where there is nothing.
pub(super) fn text_of(entry: &Entry) -> Option<(&'static str, String)> {
    let (role, text) = match &entry.kind {
        EntryKind::Message { message } if is_shown(message) => {
            (message.role.name(), searchable(&message.parts))
        }
        EntryKind::Part { part, .. } => ("assistant", searchable(std::slice::from_ref(part))),
        _ => return None,
    };
    (!text.is_empty()).then_some((role, text))
}

/// What people can look for in these parts.
fn searchable(parts: &[Part]) -> String {
    let mut text = String::new();
    let mut add = |piece: &str| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(piece);
    };
    for part in parts {
        match part {
            Part::Text { text, synthetic: false, .. } => add(text),
            Part::ToolCall { name, input, .. } => add(cut_end(&format!("{name} {input}"), TOOL_TEXT)),
            Part::ToolResult { output, .. } => add(cut_end(output, TOOL_TEXT)),
            Part::Image { name: Some(name), .. } | Part::File { name: Some(name), .. } => add(name),
            Part::Text { .. }
            | Part::Image { .. }
            | Part::File { .. }
            | Part::Reasoning { .. }
            | Part::Unknown(_) => {}
        }
    }
    text
}
