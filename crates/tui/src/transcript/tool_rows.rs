//! The rows of a tool call: one line with its subject and result; when open, its input and output.
//!
//! Depends on the call alone. Changes nothing.

use super::diff::{self, Extent};
use super::excerpt::{self, Tests};
use super::row::{Row, paragraph};
use super::tool::{self, State, ToolCall, changes};
use crate::ansi::Ansi;
use crate::hint;
use crate::text;
use crate::theme::Theme;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use serde_json::Value;

/// Maximum number of lines of output that an open call shows: more than a result has, but not all that a command of the user
/// may print.
const OPEN_LINES: usize = 10_000;
/// A running call shows its time from this many seconds on.
const SHOWN_SECONDS: u64 = 1;
const NOT_PERMITTED: &str = "not permitted";

pub(super) fn lay_out(call: &ToolCall, width: usize, theme: &Theme) -> Vec<Row> {
    let (mark, style): (&str, Style) = match &call.state {
        State::Streaming => ("○", theme.dim),
        State::Asking => ("?", theme.outcome.warning),
        State::Running { beat, .. } => (text::spinner(*beat), theme.accent),
        State::Done { .. } if exit_code(call).is_none_or(|code| code == 0) => ("✓", theme.outcome.ok),
        // A command whose exit code is not 0 did not succeed, and did not fail in the sense of its tool either.
        State::Done { .. } => ("●", theme.outcome.ok),
        State::Failed { .. } | State::Denied { .. } => ("✗", theme.outcome.error),
        State::Interrupted => ("◌", theme.outcome.warning),
    };
    // The exit code of a failed call is as prominent as its mark.
    let failed = matches!(call.state, State::Failed { .. });
    let with_key = format!("{} it", call.open_hint());
    let head = |name: &str, subject: &str, tail: &str| {
        let room = width.saturating_sub(text::width(mark) + text::width(name) + text::width(tail) + 4);
        let mut spans = vec![
            Span::styled(format!("{mark} "), style),
            Span::styled(format!("{name} "), theme.accent),
            Span::styled(text::fit(&text::visible(subject), room).into_owned(), call.path_link(theme.text)),
        ];
        let exit = if failed { tail.find(" · ").unwrap_or(tail.len()) } else { 0 };
        for (part, style) in [(&tail[..exit], theme.outcome.error), (&tail[exit..], theme.dim)] {
            if !part.is_empty() {
                spans.extend((spans.len() == 3).then(|| Span::raw("  ")));
                if part.ends_with(&with_key) {
                    spans.extend(hint::spans(part, theme));
                } else {
                    spans.push(Span::styled(part.to_owned(), style));
                }
            }
        }
        Line::from(spans)
    };
    if !call.open && !call.group.is_empty() {
        let (name, what) = grouped(call);
        return vec![head(&name, &what, "").into()];
    }
    let subject = call.subject();
    let one_line = subject.lines().next().unwrap_or_default();
    let more = if subject.lines().count() > 1 { " …" } else { "" };
    let subject_line = format!("{one_line}{more}");
    let parts = tail(call);
    let mut tail = joined(&parts);
    let needed = |tail: &str| {
        [mark, &call.name, &subject_line, tail].iter().map(|part| text::width(part)).sum::<usize>() + 4
    };
    // A subagent at work can be looked at, which its line says if there is room.
    let is_subagent = call.nested.has_calls() || !agent_kind(call).is_empty();
    if matches!(call.state, State::Running { .. }) && !call.open && is_subagent {
        let with_hint = |tail: &str| format!("{tail} · {with_key}");
        // The key is more important than the cost so far.
        let [before @ .., cost, _] = &parts;
        let cheaper = if cost.is_empty() { tail.clone() } else { joined(before) };
        let cheaper = if cheaper.is_empty() { tail.clone() } else { cheaper };
        let longer = [with_hint(&tail), with_hint(&cheaper)].into_iter().find(|tail| needed(tail) <= width);
        tail = longer.unwrap_or(tail);
    }
    // The task of a subagent is more important than its kind and its number of calls.
    while is_subagent && needed(&tail) > width {
        let Some((first, _)) = tail.split_once(" · ") else { break };
        tail.drain(..first.len() + " · ".len());
    }
    let mut rows = match &call.state {
        // A reason for a refusal is shown in full, so it goes below if the line has no room for it.
        State::Denied { reason } if needed(&tail) > width && !reason.is_empty() => {
            let mut rows = vec![Row::from(head(&call.name, &subject_line, NOT_PERMITTED))];
            rows.extend(paragraph(reason, width, "  ", "  ", theme.dim, theme.dim));
            rows
        }
        _ => vec![Row::from(head(&call.name, &subject_line, &tail))],
    };
    if call.open {
        if subject.lines().count() > 1 {
            rows.extend(paragraph(&subject, width, "  $ ", "    ", theme.dim, theme.code));
        }
        rows.extend(call.nested.rows(width, &call.view, theme));
        rows.extend(output(call, width, theme));
    } else if call.state.is_live() && call.nested.has_calls() {
        rows.extend(call.nested.recent(width, &call.view, theme));
    } else if let Some(diff) = changes(call) {
        let marks = &call.details["marks"];
        rows.extend(diff::lines(
            diff,
            marks,
            call.sides(diff),
            width,
            theme,
            &Extent::Closed(call.open_hint()),
        ));
    } else {
        rows.extend(excerpt::rows(call, width, theme));
    }
    rows
}

/// Summarizes several read-only calls: `read 3 files, grep twice:`, and their subjects.
fn grouped(call: &ToolCall) -> (String, String) {
    let own = (call.name.clone(), call.subject());
    let all = || std::iter::once(&own).chain(&call.group);
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for (name, _) in all() {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let told = counts.iter().map(|(name, count)| match (*name, *count) {
        ("read", 1) => "read 1 file".to_owned(),
        ("read", n) => format!("read {n} files"),
        (name, 1) => format!("{name} once"),
        (name, 2) => format!("{name} twice"),
        (name, n) => format!("{name} {n} times"),
    });
    let told: Vec<String> = told.collect();
    let what: Vec<&str> = all().map(|(_, what)| what.lines().next().unwrap_or_default()).collect();
    (format!("{}:", told.join(", ")), what.join(", "))
}

fn output(call: &ToolCall, width: usize, theme: &Theme) -> Vec<Row> {
    if let Some(diff) = changes(call) {
        let marks = &call.details["marks"];
        return diff::lines(diff, marks, call.sides(diff), width, theme, &Extent::Open);
    }
    if let Some(items) = todo(call) {
        return items.iter().flat_map(|item| checklist(item, width, theme)).collect();
    }
    let style = if matches!(call.state, State::Failed { .. }) { theme.outcome.error } else { theme.dim };
    let mut ansi = Ansi::new(style, theme.syntax.is_some());
    let first = excerpt::bar(call, theme);
    let mut rows = Vec::new();
    let mut lines = call.output.text.lines();
    for line in lines.by_ref().take(OPEN_LINES) {
        rows.extend(Row::wrapped(&hit(call, ansi.line(line), theme), width, &first, &first));
    }
    let left = lines.count();
    if left > 0 {
        rows.push(Line::styled(format!("  … {left} more lines"), theme.dim).into());
    }
    rows
}

/// Styles a search hit: the location is less prominent than the text.
fn hit(call: &ToolCall, spans: Vec<Span<'static>>, theme: &Theme) -> Vec<Span<'static>> {
    let [only] = &spans[..] else { return spans };
    if call.name != "grep" {
        return spans;
    }
    // The form is `path:line:text`, or `line:text` below a line with the path.
    let mut at = 0;
    for part in only.content.split_inclusive(':').take(3) {
        let Some(field) = part.strip_suffix(':') else { break };
        at += part.len();
        if !field.is_empty() && field.trim().bytes().all(|b| b.is_ascii_digit()) {
            let (place, text) = only.content.split_at(at);
            return vec![
                Span::styled(place.to_owned(), theme.accent),
                Span::styled(text.to_owned(), theme.text),
            ];
        }
    }
    spans
}

/// Returns the todo list that a call of `todo` left.
fn todo(call: &ToolCall) -> Option<&[Value]> {
    let items = call.details.get("items").and_then(Value::as_array)?;
    (call.name == "todo").then_some(items.as_slice())
}

fn checklist(item: &Value, width: usize, theme: &Theme) -> Vec<Row> {
    let content = item.get("content").and_then(Value::as_str).unwrap_or_default();
    let (mark, style) = match item.get("status").and_then(Value::as_str) {
        Some("completed") => ("  [x] ", theme.dim),
        Some("in_progress") => ("  [>] ", theme.accent),
        _ => ("  [ ] ", theme.text),
    };
    paragraph(content, width, mark, "      ", style, style)
}

/// Returns the end of the call's line: its result, its duration, how it ended, how the user allowed it.
fn tail(call: &ToolCall) -> [String; 4] {
    let allowed = if call.state == State::Asking { "" } else { call.output.allowed };
    let [what, cost] = call.nested.came_to(agent_kind(call));
    let came_to = Some(came_to(call)).filter(|came_to| !came_to.is_empty()).unwrap_or(what);
    [came_to, ended(call), cost, allowed.to_owned()]
}

/// Joins the parts that are not empty.
fn joined(parts: &[String]) -> String {
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.map(String::as_str).collect::<Vec<_>>().join(" · ")
}

/// Returns for example `added 2 lines, removed 5`.
fn changed_lines(added: u64, removed: u64) -> String {
    let lines = |n: u64| if n == 1 { "1 line".to_owned() } else { format!("{n} lines") };
    match (added, removed) {
        (0, 0) => "no lines changed".to_owned(),
        (0, n) => format!("removed {}", lines(n)),
        (n, 0) => format!("added {}", lines(n)),
        (n, m) => format!("added {}, removed {m}", lines(n)),
    }
}

/// Returns the result in a few words: added and removed lines, or how many todo items are done.
fn came_to(call: &ToolCall) -> String {
    if let Some((added, removed)) = tool::changed_lines(call) {
        let number = |key| call.details.get(key).and_then(Value::as_u64);
        let rejected = match (number("hunks_rejected"), number("hunks")) {
            (Some(rejected), Some(hunks)) => format!(" · {rejected} of {hunks} hunks rejected"),
            _ => String::new(),
        };
        return format!("{}{rejected}", changed_lines(added, removed));
    }
    if let Some(items) = todo(call) {
        let done = items.iter().filter(|i| i["status"] == "completed").count();
        return format!("{done} of {} done", items.len());
    }
    if let Some(tests) = Tests::of(call) {
        return tests.line();
    }
    String::new()
}

/// Returns the kind of agent that a call starts; empty for calls that start none.
fn agent_kind(call: &ToolCall) -> &str {
    let kind = || call.input.get("agent").and_then(Value::as_str).filter(|kind| !kind.is_empty());
    if call.name == "task" { kind().unwrap_or_default() } else { "" }
}

/// Returns the exit code of a command that has ended.
fn exit_code(call: &ToolCall) -> Option<i64> {
    call.details.get("exit_code").and_then(Value::as_i64)
}

fn ended(call: &ToolCall) -> String {
    match &call.state {
        State::Running { seconds, .. } if *seconds >= SHOWN_SECONDS => text::duration(*seconds * 1_000),
        State::Streaming | State::Running { .. } => String::new(),
        State::Asking => "waits for you".to_owned(),
        State::Done { millis } => match exit_code(call).filter(|code| *code != 0) {
            Some(code) => timed(format!("exit code {code}"), *millis),
            None if *millis >= 1_000 => text::duration(*millis),
            None => String::new(),
        },
        State::Failed { millis } => match exit_code(call) {
            Some(code) if came_to(call).is_empty() => timed(format!("failed (exit code {code})"), *millis),
            Some(code) => timed(format!("exit code {code}"), *millis),
            None => "failed".to_owned(),
        },
        State::Interrupted => "interrupted".to_owned(),
        State::Denied { reason } if reason.is_empty() => NOT_PERMITTED.to_owned(),
        State::Denied { reason } => format!("{NOT_PERMITTED}: {reason}"),
    }
}

/// Returns the words with the duration. Less than a tenth of a second is left out: it says nothing, and a session that
/// is opened again does not know the duration.
fn timed(words: String, millis: u64) -> String {
    if millis < 100 { words } else { format!("{words} · {}", text::duration(millis)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::CallId;
    use serde_json::json;
    use std::sync::Arc;

    fn shown(name: &str, details: Value, open: bool) -> Vec<String> {
        let mut call = ToolCall::new(CallId("c".into()), name.to_owned(), Arc::default());
        call.details = details;
        call.state = State::Done { millis: 20 };
        call.open = open;
        lay_out(&call, 40, &Theme::plain()).iter().map(|row| row.line.to_string()).collect()
    }

    #[test]
    fn a_list_of_things_to_do_opens_as_a_checklist() {
        let details = json!({"items": [
            {"content": "read", "status": "completed"},
            {"content": "write a line that is longer than it", "status": "in_progress"},
            {"content": "test", "status": "pending"},
        ]});
        assert_eq!(shown("todo", details.clone(), false), ["✓ todo   1 of 3 done"]);
        assert_eq!(
            shown("todo", details, true)[1..],
            ["  [x] read", "  [>] write a line that is longer than ", "      it", "  [ ] test"]
        );
    }

    #[test]
    fn an_edit_says_how_many_lines_in_its_line() {
        let details = json!({"diff": "@@ -1 +1 @@\n-a\n+b\n", "additions": 1, "deletions": 1});
        assert_eq!(shown("edit", details, false)[0], "✓ edit   added 1 line, removed 1");
        let details = json!({"diff": "@@ -1 +1 @@\n-a\n+b\n", "hunks": 3, "hunks_rejected": 2});
        assert_eq!(
            shown("edit", details, false)[0],
            "✓ edit   added 1 line, removed 1 · 2 of 3 hunks rejected"
        );
    }
}
