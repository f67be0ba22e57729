//! Converting entries to a form that every reader of a ledger accepts: paths as text, limited nesting.
//!
//! The content of an entry may come from a model or a server that nests JSON arbitrarily. A line that is
//! nested too deeply could not be read back. Text is never changed.

use becket_types::{Entry, EntryKind, Part};
use serde_json::Value;
use std::path::PathBuf;

/// Maximum nesting depth of a line. JSON parsers commonly stop at 128.
pub(super) const MAX_DEPTH: usize = 100;

/// True if the entry contains JSON from others, which may be nested arbitrarily.
pub(super) fn holds_values(kind: &EntryKind) -> bool {
    match kind {
        EntryKind::Message { message } => {
            !message.extra.is_empty()
                || !message.metadata.extra.is_empty()
                || message.parts.iter().any(|part| !matches!(part, Part::Text { .. }))
        }
        EntryKind::Part { part, .. } => !matches!(part, Part::Text { .. }),
        EntryKind::ToolJournal { .. }
        | EntryKind::State { .. }
        | EntryKind::Notice { .. }
        | EntryKind::Session { .. }
        | EntryKind::Unknown(_) => true,
        _ => false,
    }
}

/// Converts a path that JSON cannot represent to the form that people would read.
pub(super) fn make_paths_unicode(kind: &mut EntryKind) {
    let EntryKind::System { items } = kind else { return };
    for path in items.iter_mut().filter_map(|item| item.path.as_mut()) {
        if path.to_str().is_none() {
            *path = PathBuf::from(path.to_string_lossy().into_owned());
        }
    }
}

/// Returns the entry with its deepest values as text, so that every reader accepts it; unchanged if that fails.
pub(super) fn flattened(entry: Entry) -> Entry {
    serde_json::to_value(&entry)
        .map(|value| flatten_below(value, MAX_DEPTH / 2))
        .and_then(serde_json::from_value)
        .unwrap_or(entry)
}

/// Replaces values nested deeper than `levels` by their JSON text.
fn flatten_below(value: Value, levels: usize) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => Value::String(value.to_string()),
        Value::Array(items) => items.into_iter().map(|item| flatten_below(item, levels - 1)).collect(),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, item)| (key, flatten_below(item, levels - 1))).collect())
        }
        other => other,
    }
}
