//! Owns the errors of a server: the type of one error, the errors that are kept between edits, and the comparison of two lists of
//! them.
//!
//! Pure; asks no server. Errors are compared by message, not by line, because edits move lines.

use async_lsp::lsp_types::Position;
use becket_types::cut_end;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum number of diagnostics kept for one file.
pub(crate) const KEPT: usize = 500;

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub at: Position,
    pub message: String,
}

impl Problem {
    /// Reads an error from a diagnostic of the protocol; `None` for warnings and hints.
    pub(crate) fn read(item: &Value) -> Option<Self> {
        if !matches!(item.get("severity").and_then(Value::as_u64), None | Some(1)) {
            return None;
        }
        let start = item.pointer("/range/start")?;
        let number = |key| start.get(key).and_then(Value::as_u64).map(|n| n as u32);
        let message = item.get("message")?.as_str()?.trim();
        let first = message.lines().next().unwrap_or_default();
        Some(Self {
            at: Position::new(number("line")?, number("character").unwrap_or(0)),
            message: cut_end(first, 240).to_owned(),
        })
    }
}

/// Everything known about one server's errors.
#[derive(Default)]
pub(crate) struct Memory {
    /// Number of the server's start to which these errors belong.
    pub start: u32,
    /// Errors that existed before the edit or were already reported.
    pub known: BTreeMap<PathBuf, Vec<Problem>>,
    /// Files that were edited while the server was starting, with their text before the first edit; `None` for new files.
    pub edited_during_start: BTreeMap<PathBuf, Option<String>>,
    /// Files of which the server was sent only the old text, because it has not reported on it yet.
    pub awaiting_baseline: BTreeSet<PathBuf>,
    /// Files whose old errors were unknown at their last edit.
    pub without_baseline: BTreeSet<PathBuf>,
    /// Errors that disappeared when others appeared, although their line is unchanged: the new errors may
    /// only hide them.
    pub hidden: BTreeMap<PathBuf, Vec<Problem>>,
    /// Value of [`crate::server::State::count`] at the end of the last edit.
    pub count: u64,
    /// True once the server has answered an edit. From then on, its errors in other files count as new.
    pub warm: bool,
    /// Number of consecutive edits that the server has not answered.
    pub silent: u32,
    /// True once an edit has waited for the start of the server.
    pub reported_starting: bool,
    /// The last reported reason for having no server.
    pub reported_end: Option<String>,
}

/// Returns the problems of `now` that are not in `before`, compared by message.
pub(crate) fn fresh(now: &[Problem], before: &[Problem]) -> Vec<Problem> {
    let mut old: Vec<&Problem> = before.iter().collect();
    // Problems at an unchanged position are matched first. If two have the same message, the one at another position is then the
    // new one.
    let (same, moved): (Vec<&Problem>, Vec<&Problem>) = now.iter().partition(|p| before.contains(p));
    let mut out = Vec::new();
    for problem in same.into_iter().chain(moved) {
        let found = old.iter().position(|o| *o == problem);
        match found.or_else(|| old.iter().position(|o| o.message == problem.message)) {
            Some(at) => {
                old.swap_remove(at);
            }
            None => out.push(problem.clone()),
        }
    }
    out.sort_by_key(|p| p.at);
    out
}

/// Returns the problems of `now` that are new, without those that other errors had only hidden.
pub(crate) fn new_problems(
    memory: &mut Memory,
    path: &Path,
    known: &[Problem],
    now: &[Problem],
    old: Option<&String>,
    text: Option<String>,
) -> Vec<Problem> {
    let hidden = memory.hidden.remove(path).unwrap_or_default();
    let new = fresh(&fresh(now, known), &hidden);
    let gone = fresh(known, now);
    // If nothing is new, the errors that hid others are fixed, so hidden errors that did not return are fixed too.
    let mut still = if new.is_empty() && !gone.is_empty() { Vec::new() } else { fresh(&hidden, now) };
    if let (false, Some(old), Some(text)) = (new.is_empty(), old, &text) {
        let remains = |problem: &Problem| {
            let line = old.lines().nth(problem.at.line as usize).map(str::trim);
            line.is_some_and(|line| text.lines().any(|other| other.trim() == line))
        };
        still.extend(gone.into_iter().filter(remains));
    }
    if !still.is_empty() {
        memory.hidden.insert(path.to_owned(), still);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(line: u32, message: &str) -> Problem {
        Problem { at: Position::new(line, 0), message: message.to_owned() }
    }

    #[test]
    fn only_what_is_new_is_news() {
        let a = |line| problem(line, "a");
        let b = |line| problem(line, "b");
        for (now, before, want) in [
            (vec![a(1)], vec![], vec![a(1)]),
            (vec![a(9)], vec![a(1)], vec![]), // moved
            (vec![a(1), a(5)], vec![a(5)], vec![a(1)]),
            (vec![a(1), a(2), b(3)], vec![a(7)], vec![a(2), b(3)]),
            (vec![], vec![a(1)], vec![]),
        ] {
            assert_eq!(fresh(&now, &before), want);
        }
    }

    #[test]
    fn diagnostics_are_read_leniently() {
        let range = json!({"start": {"line": 2, "character": 1}, "end": {"line": 2, "character": 4}});
        let read = |value: Value| Problem::read(&value);
        assert_eq!(read(json!({"range": range, "severity": 1, "message": " m\nmore"})).unwrap().message, "m");
        assert!(read(json!({"range": range, "message": "m"})).is_some());
        assert!(read(json!({"range": range, "severity": 2, "message": "m"})).is_none());
        for broken in [
            json!(null),
            json!({}),
            json!({"range": 3, "message": "m"}),
            json!({"range": range, "message": 1}),
        ] {
            assert_eq!(read(broken), None);
        }
    }
}
