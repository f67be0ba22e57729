//! Parsing records of other programs.

use serde_json::Value;

/// Removes the byte order mark that some editors add.
pub(super) fn unmarked(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// Parses a record; `None` if it is not JSON.
pub(super) fn record(line: &str) -> Option<Value> {
    becket_types::parse_json(line).ok()
}
