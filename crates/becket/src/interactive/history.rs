//! History of prompts, which all sessions share: one line of JSON each, a string, or an object for a prompt with long pastes.
//!
//! Invariant: each prompt is appended in one write, so that lines of several sessions do not mix.

use becket_tui::input::PastPrompt;
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// Maximum number of prompts that the history file keeps.
const HISTORY: usize = 1_000;

/// Returns the last prompts, newest last; none if the file cannot be read.
pub(super) fn read(path: &Path) -> Vec<PastPrompt> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(HISTORY)..].iter().filter_map(|line| prompt(line)).collect()
}

fn prompt(line: &str) -> Option<PastPrompt> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = value.as_str().or_else(|| value.get("prompt")?.as_str())?.to_owned();
    let ends = value.get("pasted").and_then(Value::as_array).into_iter().flatten();
    let range = |pair: &Value| {
        let at = |index: usize| usize::try_from(pair.get(index)?.as_u64()?).ok();
        Some(at(0)?..at(1)?)
    };
    Some(PastPrompt { text, pasted: ends.filter_map(range).collect() })
}

/// Appends a line in one write, so that lines of several sessions do not mix.
pub(super) fn append(path: &Path, prompt: &PastPrompt) -> io::Result<()> {
    let pasted: Vec<[usize; 2]> = prompt.pasted.iter().map(|range| [range.start, range.end]).collect();
    let line = if pasted.is_empty() {
        Value::from(prompt.text.as_str())
    } else {
        json!({ "prompt": prompt.text, "pasted": pasted })
    };
    becket_files::private::append(path, format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_come_back_with_their_pastes_and_foreign_lines_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/history");
        let prompts = [
            PastPrompt::from("one\nline"),
            PastPrompt { text: "see é: long".into(), pasted: std::iter::once(8..12).collect() },
        ];
        append(&path, &prompts[0]).unwrap();
        std::fs::write(
            &path,
            [&std::fs::read(&path).unwrap()[..], b"{broken\n7\n{\"pasted\": []}\n"].concat(),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        append(&path, &prompts[1]).unwrap();
        assert_eq!(read(&path), prompts);
        // Prompts are for their user alone, also in a file that others could read.
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}
