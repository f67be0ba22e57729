//! File contents that are attached to a compaction, so that the model need not read the files again.
//!
//! [`uses`] finds the files that the model was shown, in the messages of the snapshot and in the previous
//! compaction. The driver reads those files ([`FileNow`]); this module opens nothing. [`attach`] renders as
//! many as fit, starting with the file that was used last. The text becomes part of the state message.
//!
//! Rules:
//! - Only lines that the model was shown are attached: after a partial read, only those lines.
//! - Only current content is attached. A file that was changed or deleted is mentioned in one line.
//! - No text is shown twice: lines that a read in the kept tail still shows are omitted.
//! - The files get the space that the summary and the kept messages leave, within the configured share, and only so much that the next
//!   compaction is not due soon. If the tail had to be shortened ([`Layout::level`] above 0), nothing is attached.

use super::Snapshot;
use super::layout::{Layout, Measured};
use crate::context::budget::{estimate_text, part_of};
use crate::context::summary::{FILES_HEAD, escape_tags};
use becket_types::{AttachedFile, CallId, Message, Part, Role, Tokens};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Maximum number of files that the driver is asked to read.
pub const MAX_FILES: usize = 20;
/// Maximum share of the usable window that a view with attached files may fill.
const FULL_SHARE: f64 = 0.45;
/// Maximum share of the largest accepted view, and of the threshold for the next compaction, that a view with attached files may fill.
const BELOW: f64 = 0.80;
/// Minimum space in base tokens for another file.
const MIN_ROOM: u64 = 200;
/// Maximum number of characters shown of a line; the same as in the read tool.
const LINE_CHARS: usize = 2_000;

/// One use of a file by a call. The path is written as in the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUse {
    pub path: String,
    /// Index in the snapshot's messages of the message with the result; `None`: the previous compaction attached the file.
    pub at: Option<usize>,
    pub kind: UseKind,
}

/// The way in which one call used a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UseKind {
    /// Lines `from..=to` of `total` were shown. For some large files the total is unknown.
    Read { from: u64, to: u64, total: Option<u64> },
    /// The model wrote the whole file.
    Written,
    /// The model changed a part of the file.
    Edited,
}

/// The current state of a file, as read by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNow {
    /// Name that the model sees.
    pub path: String,
    /// The names that [`uses`] found for this file; calls may name one file in several ways.
    pub names: Vec<String>,
    pub content: FileContent,
}

/// The state of a file, compared with what the model last saw of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// The file is unchanged since the model last saw it. `hash`: SHA-256 of its bytes.
    Same { hash: String, lines: Arc<[String]> },
    /// The file was changed by something other than the model, so it is not attached.
    Changed,
    /// The file no longer exists.
    Gone,
    /// The file is not attached, for this reason, such as `it is larger than 256 kB`.
    Skipped(&'static str),
}

/// Returns every use of a file, oldest first.
pub fn uses(snapshot: &Snapshot) -> Vec<FileUse> {
    let mut uses: Vec<FileUse> = Vec::new();
    for file in snapshot.previous.iter().flat_map(|p| &p.attached) {
        uses.extend(file.lines.iter().map(|(from, to)| FileUse {
            path: file.path.clone(),
            at: None,
            kind: UseKind::Read { from: *from, to: *to, total: Some(file.total) },
        }));
    }
    let changed: HashMap<&str, Vec<String>> = snapshot
        .journal
        .iter()
        .filter(|line| line.result.contains("\"reads\""))
        .filter_map(|line| {
            let value = line.value();
            let paths = value.get("reads")?.as_object()?.keys().cloned().collect();
            Some((line.call_id, paths))
        })
        .collect();
    let mut inputs: HashMap<&CallId, &Value> = HashMap::new();
    for (at, message) in snapshot.messages.iter().enumerate() {
        for part in &message.parts {
            match part {
                Part::ToolCall { call_id, input, .. } => {
                    inputs.insert(call_id, input);
                }
                // If the output of a read was cut, the model did not see all of its lines, so the read does not count.
                Part::ToolResult { call_id, is_error: false, details, .. }
                    if message.role == Role::Tool && !snapshot.outputs.cuts.contains_key(call_id) =>
                {
                    let input = inputs.get(call_id).copied().unwrap_or(&Value::Null);
                    let paths = changed.get(call_id.as_str());
                    uses.extend(uses_of(at, input, details, paths));
                }
                _ => {}
            }
        }
    }
    uses
}

/// Returns the file uses of one call. `changed`: paths that, according to the journal, the call has written.
fn uses_of(at: usize, input: &Value, details: &Value, changed: Option<&Vec<String>>) -> Vec<FileUse> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let number = |key: &str| details.get(key).and_then(Value::as_u64);
    if details.get("kind").and_then(Value::as_str) == Some("text") {
        let (Some(path), Some(from), Some(to)) = (text("path"), number("from"), number("to")) else {
            return Vec::new();
        };
        let kind = UseKind::Read { from, to, total: number("lines") };
        return vec![FileUse { path: path.to_owned(), at: Some(at), kind }];
    }
    let kind = if text("content").is_some() { UseKind::Written } else { UseKind::Edited };
    let paths = changed.into_iter().flatten();
    paths.map(|path| FileUse { path: path.clone(), at: Some(at), kind: kind.clone() }).collect()
}

/// The attached text and a record of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) text: String,
    pub(super) files: Vec<AttachedFile>,
}

/// Renders the files that fit into the space beside a view of `after` tokens.
pub(super) fn attach(measured: &Measured, layout: &Layout, after: Tokens) -> Attached {
    let snapshot = &measured.snapshot;
    let mut attached = Attached::default();
    if layout.level > 0 || snapshot.disk.files.is_empty() {
        return attached;
    }
    let room = room(measured, after);
    let mut left = room.saturating_sub(estimate_text(FILES_HEAD).0 + 8);
    if left < MIN_ROOM {
        return attached;
    }
    // With several files, no file may take more than half of the space.
    let each = if snapshot.disk.files.len() > 1 { left.div_ceil(2) } else { left };
    let uses = uses(snapshot);
    let visible = visible(measured, layout);
    let mut blocks = Vec::new();
    for file in newest_first(&snapshot.disk.files, &uses) {
        let Some((block, record)) = render(file, &uses, &visible, each.min(left)) else { continue };
        let cost = estimate_text(&block).0 + 2;
        if cost > left {
            continue;
        }
        left -= cost;
        blocks.push(block);
        attached.files.extend(record);
    }
    if !blocks.is_empty() {
        attached.text = format!("{FILES_HEAD}\n\n{}", blocks.join("\n\n"));
    }
    attached
}

/// Returns the base tokens that files may take.
fn room(measured: &Measured, after: Tokens) -> u64 {
    let (budget, policy) = (&measured.snapshot.request.budget, &measured.snapshot.policy);
    let usable = budget.usable();
    let share = part_of(usable, policy.reattach.clamp(0.0, 0.5));
    let accepted = measured.target().map_or(0, |target| part_of(target.0, BELOW));
    let due = part_of(budget.threshold(policy.threshold).0, BELOW);
    let full = part_of(usable, FULL_SHARE).min(accepted).min(due);
    measured.to_base_tokens(share.min(full.saturating_sub(after.0))).0
}

/// Returns the indices of the messages that the new view keeps and whose output is not a stub.
fn visible(measured: &Measured, layout: &Layout) -> HashSet<usize> {
    let snapshot = &measured.snapshot;
    let stubbed: HashSet<&CallId> =
        snapshot.outputs.stubs.iter().chain(snapshot.outputs.prunable.iter().map(|p| &p.call_id)).collect();
    let shows = |message: &Message| message.result_of().is_none_or(|call| !stubbed.contains(call));
    let stays = layout.kept.iter().chain(&layout.tail).copied();
    stays.filter(|at| shows(&snapshot.messages[*at])).collect()
}

fn newest_first<'a>(files: &'a [FileNow], uses: &[FileUse]) -> Vec<&'a FileNow> {
    let newest = |file: &FileNow| uses.iter().rposition(|u| file.names.contains(&u.path));
    let mut found: Vec<(usize, &FileNow)> = files.iter().filter_map(|f| Some((newest(f)?, f))).collect();
    found.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    found.into_iter().map(|(_, file)| file).collect()
}

/// Renders one file within `room` base tokens. Returns the text and the record of its lines; `None` if there
/// is nothing to show.
fn render(
    file: &FileNow,
    uses: &[FileUse],
    visible: &HashSet<usize>,
    room: u64,
) -> Option<(String, Option<AttachedFile>)> {
    let mine: Vec<&FileUse> = uses.iter().filter(|u| file.names.contains(&u.path)).collect();
    let name = escape_tags(&file.path);
    let note = |text: &str| Some((format!("{name}: {text}"), None));
    // Every use that showed text of the file is still in the new view. An edit shows none, so a hidden edit does not count.
    let hidden = |u: &&&FileUse| u.at.is_none_or(|at| !visible.contains(&at));
    if mine.iter().all(|u| !hidden(&u) || u.kind == UseKind::Edited) {
        return None;
    }
    let (hash, lines) = match &file.content {
        FileContent::Same { hash, lines } => (hash, lines),
        FileContent::Changed => {
            return note("changed on disk since you saw it. Read it before you rely on it.");
        }
        FileContent::Gone => return note("gone from disk since you saw it."),
        FileContent::Skipped(why) => return note(&format!("not attached, because {why}.")),
    };
    let total = lines.len() as u64;
    let Some(shown) = visible_lines(&mine, total) else {
        return note("edited after you had read a part of it. Read that part again where you need it.");
    };
    let tail: Vec<(u64, u64)> =
        mine.iter().filter(|u| !hidden(u)).filter_map(|u| lines_of(u, total)).collect();
    let ranges = without(&merged(shown), &merged(tail));
    if ranges.is_empty() {
        return None;
    }
    let short = hash.get(..12).unwrap_or(hash);
    let mut block = format!("### {name} (sha256 {short}, {total} lines)");
    let (mut kept, mut left) = (Vec::new(), room.saturating_sub(estimate_text(&block).0 + 40));
    'ranges: for (from, to) in &ranges {
        let gap =
            if *from > 1 || ranges.len() > 1 { format!("\n[lines {from}-{to}]") } else { String::new() };
        let mut last = None;
        for number in *from..=*to {
            let Some(line) = lines.get(number as usize - 1) else { break };
            let line = numbered(number, line);
            let cost = estimate_text(&line).0 + 1;
            if cost > left {
                let rest = ranges.last().map_or(*to, |(_, to)| *to);
                let _ = write!(block, "\n[cut: lines {number}-{rest} that you saw are not attached]");
                kept.extend(last.map(|last| (*from, last)));
                break 'ranges;
            }
            if last.is_none() {
                block.push_str(&gap);
            }
            left -= cost;
            block.push_str(&line);
            last = Some(number);
        }
        kept.extend(last.map(|last| (*from, last)));
    }
    if kept.is_empty() {
        return None;
    }
    let record = AttachedFile { path: file.path.clone(), hash: hash.clone(), total, lines: kept };
    Some((block, Some(record)))
}

fn numbered(number: u64, line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    match line.char_indices().nth(LINE_CHARS) {
        Some((at, _)) => format!("\n{number}\t{} [line cut]", escape_tags(&line[..at])),
        None => format!("\n{number}\t{}", escape_tags(line)),
    }
}

/// Returns the lines of the current file that the model was shown. `None` if an edit moved lines and the
/// model saw only part of the file.
fn visible_lines(uses: &[&FileUse], total: u64) -> Option<Vec<(u64, u64)>> {
    let (mut ranges, mut whole, mut moved): (Vec<(u64, u64)>, bool, bool) = (Vec::new(), false, false);
    // The newest total that a read reported. A later edit may have moved lines.
    let mut told = None;
    for one in uses {
        match &one.kind {
            UseKind::Written => (whole, moved) = (true, false),
            UseKind::Edited => moved = true,
            UseKind::Read { from, to, total: of } => {
                // The earlier ranges belong to another version of the file, unless the model saw all of it and made the edit itself.
                if told.is_some_and(|told| told != *of) && !(moved && whole) {
                    ranges.clear();
                    whole = false;
                }
                moved = false;
                told = Some(*of);
                ranges.push((*from, *to));
                let first = merged(ranges.clone()).first().copied();
                whole |= first.is_some_and(|(from, to)| from == 1 && of.is_some_and(|of| to >= of));
            }
        }
    }
    if whole {
        return Some(vec![(1, total)]);
    }
    let same = told.is_none_or(|of| of.is_none_or(|of| of == total));
    (!ranges.is_empty() && (!moved || same)).then_some(ranges)
}

/// Returns the lines that one use has shown. `None` for an edit, which shows no lines.
fn lines_of(one: &FileUse, total: u64) -> Option<(u64, u64)> {
    match one.kind {
        UseKind::Read { from, to, .. } => Some((from, to)),
        UseKind::Written => Some((1, total)),
        UseKind::Edited => None,
    }
}

/// Sorts ranges and merges overlapping ones.
fn merged(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.retain(|(from, to)| *from >= 1 && from <= to);
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match out.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

/// Returns `ranges` without the lines of `taken`. Both must be merged.
fn without(ranges: &[(u64, u64)], taken: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    for (from, to) in ranges.iter().copied() {
        let mut next = from;
        for (a, b) in taken.iter().copied().filter(|(a, b)| *b >= from && *a <= to) {
            if a > next {
                out.push((next, a - 1));
            }
            next = b + 1;
        }
        if next <= to {
            out.push((next, to));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(from: u64, to: u64, total: u64) -> FileUse {
        FileUse { path: "a".into(), at: Some(0), kind: UseKind::Read { from, to, total: Some(total) } }
    }

    fn made(kind: UseKind) -> FileUse {
        FileUse { path: "a".into(), at: Some(0), kind }
    }

    #[test]
    fn only_lines_that_were_shown_and_are_still_in_their_place_count() {
        let (edited, written) = (made(UseKind::Edited), made(UseKind::Written));
        for (name, uses, total, want) in [
            ("a part", vec![read(10, 20, 100)], 100, Some(vec![(10, 20)])),
            ("the whole", vec![read(1, 100, 100)], 100, Some(vec![(1, 100)])),
            ("the whole in parts", vec![read(1, 60, 100), read(61, 100, 100)], 100, Some(vec![(1, 100)])),
            ("the whole, then an edit", vec![read(1, 100, 100), edited.clone()], 103, Some(vec![(1, 103)])),
            (
                "a part, then an edit of the same length",
                vec![read(5, 9, 100), edited.clone()],
                100,
                Some(vec![(5, 9)]),
            ),
            ("a part, then an edit that moves lines", vec![read(5, 9, 100), edited.clone()], 103, None),
            (
                "read again after it",
                vec![read(5, 9, 100), edited.clone(), read(7, 9, 103)],
                103,
                Some(vec![(7, 9)]),
            ),
            ("written", vec![written.clone()], 7, Some(vec![(1, 7)])),
            ("written, then edited", vec![written, edited.clone()], 9, Some(vec![(1, 9)])),
            ("edited alone", vec![edited], 9, None),
        ] {
            let uses: Vec<&FileUse> = uses.iter().collect();
            assert_eq!(visible_lines(&uses, total).map(merged), want, "{name}");
        }
    }

    #[test]
    fn ranges_are_merged_and_subtracted() {
        assert_eq!(merged(vec![(5, 9), (1, 3), (4, 4), (20, 30), (9, 12), (3, 1)]), [(1, 12), (20, 30)]);
        for (taken, want) in [
            (vec![], vec![(1, 12), (20, 30)]),
            (vec![(3, 4), (25, 40)], vec![(1, 2), (5, 12), (20, 24)]),
            (vec![(1, 30)], vec![]),
            (vec![(12, 20)], vec![(1, 11), (21, 30)]),
        ] {
            assert_eq!(without(&[(1, 12), (20, 30)], &taken), want, "{taken:?}");
        }
    }
}
