//! Report of a change: short with the changed lines for the model, a diff with word-level marks for people.

use crate::diff;
use crate::encoding::{self, Kind};
use crate::engine::Plan;
use crate::matched::Tier;
use crate::subject::Subject;
use becket_types::{FileChange, FileChangeKind, ToolOutput};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Returns the change of one file as data for people.
pub(crate) fn details(path: &Path, change: &diff::Change, encoding: &str) -> Value {
    json!({
        "path": path.to_string_lossy(),
        "diff": change.unified,
        "marks": change.marks,
        "additions": change.additions,
        "deletions": change.deletions,
        "encoding": encoding,
    })
}

/// Returns the text of a file before it was changed; `None` if its bytes are no text.
pub(crate) fn original(view: &encoding::Decoded<'_>) -> Option<String> {
    (!matches!(view.kind, Kind::Bytes { .. })).then(|| view.text.clone().into_owned())
}

/// Compares the file before and after the plan.
pub(crate) fn change(subject: &Subject<'_>, plan: &Plan, new: &[u8]) -> diff::Change {
    let view = subject.view;
    if plan.regions.is_empty() {
        // Bytes were replaced, so there is no text to compare.
        return diff::Change::default();
    }
    let after = encoding::decode(new);
    match (view.kind, after.kind) {
        (Kind::Bytes { .. }, _) | (_, Kind::Bytes { .. }) => diff::Change::default(),
        (Kind::Utf8, Kind::Utf8) if view.bom == after.bom => {
            let (Some(first), Some(last)) = (plan.cuts.first(), plan.cuts.last()) else {
                return diff::Change::default();
            };
            diff::between(&view.text, &after.text, &(first.range.start - view.bom..last.range.end - view.bom))
        }
        _ => diff::compare(&view.text, &after.text, 0),
    }
}

/// Returns the end of a confirmation: how the text was matched, the encoding, and the size of the change.
pub(crate) fn match_details(subject: &Subject<'_>, plan: &Plan, change: &diff::Change) -> String {
    let mut out = String::new();
    if plan.tiers.len() > 1 {
        let _ = write!(out, ", {} edits", plan.tiers.len());
    }
    if plan.places > plan.tiers.len() {
        let _ = write!(out, ", {} places", plan.places);
    }
    let tolerant: Vec<(usize, Tier)> =
        plan.tiers.iter().copied().enumerate().filter(|(_, tier)| *tier != Tier::Exact).collect();
    for (i, tier) in tolerant {
        let which = if plan.tiers.len() > 1 { format!(" of edit {}", i + 1) } else { String::new() };
        let _ = write!(out, "; `old`{which} was matched {}", tier.words());
    }
    if !subject.view.is_plain() {
        let _ = write!(out, "; kept as {}", subject.view.name());
    }
    let _ = write!(out, " (+{} −{}).", change.additions, change.deletions);
    out
}

pub(crate) fn edited(
    path: &Path,
    subject: &Subject<'_>,
    plan: &Plan,
    new: &[u8],
    note: Option<String>,
) -> ToolOutput {
    let change = change(subject, plan, new);
    let mut content =
        format!("Edited {}{}\n{}", subject.name, match_details(subject, plan, &change), change.snippet);
    if let Some(note) = note {
        let _ = write!(content, "\n{note}");
    }
    let mut details = details(path, &change, subject.view.name());
    if let Some(map) = details.as_object_mut() {
        map.insert("tier".to_owned(), json!(plan.tier()));
        map.insert("places".to_owned(), json!(plan.places));
    }
    ToolOutput {
        content: content.trim_end().to_owned(),
        details,
        changes: vec![FileChange { path: path.to_owned(), kind: FileChangeKind::Update }],
        original: original(subject.view),
        ..ToolOutput::default()
    }
}
