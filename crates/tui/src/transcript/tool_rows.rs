//! The rows of a tool call: one line with its subject and result; when open, its input and output.
//!
//! Depends on the call alone. Changes nothing.

use super::command_line::{CommandLine, GAP};
use super::diff::{self, Extent};
use super::excerpt::{self, Tests};
use super::row::{Row, paragraph};
use super::tool::{self, State, ToolCall, changes};
use crate::ansi::Ansi;
use crate::hint;
use crate::text;
use crate::theme::Theme;
use crate::todo;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use serde_json::Value;

/// Maximum number of lines of output that an open call shows: more than a result has, but not all that a command of the user
/// may print.
const OPEN_LINES: usize = 10_000;
/// A running call shows its time from this many seconds on.
const SHOWN_SECONDS: u64 = 1;
/// Between the parts of the end of a call's line.
const SEPARATOR: &str = " · ";
const NOT_PERMITTED: &str = "not permitted";

/// The first rows of a call: its mark, its name, its subject and the end of its line.
struct Head<'a> {
    call: &'a ToolCall,
    width: usize,
    theme: &'a Theme,
    mark: Span<'static>,
    /// The hint about the key that opens the call, if the line has one.
    with_key: String,
}

impl<'a> Head<'a> {
    fn new(call: &'a ToolCall, width: usize, theme: &'a Theme) -> Self {
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
        let with_key = format!("{} it", call.open_hint());
        Self { call, width, theme, mark: Span::styled(format!("{mark} "), style), with_key }
    }

    /// Returns the columns that a line with this name, subject and end takes.
    fn needed(&self, name: &str, subject: &str, tail: &[String]) -> usize {
        let tail = tail.join(SEPARATOR);
        let parts = [&*self.mark.content, name, subject, &tail];
        parts.iter().map(|part| text::width(part)).sum::<usize>() + 3
    }

    /// Returns the end of the line.
    fn end(&self, parts: &[String]) -> Vec<Span<'static>> {
        let theme = self.theme;
        let tail = parts.join(SEPARATOR);
        // The exit code of a failed call is as prominent as its mark.
        let failed = matches!(self.call.state, State::Failed { .. });
        let exit = parts.first().filter(|_| failed).map_or(0, String::len);
        let names_key = parts.last() == Some(&self.with_key);
        let mut spans = Vec::new();
        for (part, style) in [(&tail[..exit], theme.outcome.error), (&tail[exit..], theme.dim)] {
            match part {
                "" => {}
                _ if names_key => spans.extend(hint::spans(part, theme)),
                _ => spans.push(Span::styled(part.to_owned(), style)),
            }
        }
        spans
    }

    /// Returns the line in one row. A subject that is too long is cut.
    fn line(&self, name: &str, subject: &str, parts: &[String]) -> Line<'static> {
        let end = self.end(parts);
        let taken = self.needed(name, "", parts);
        let subject = text::fit(&text::visible(subject), self.width.saturating_sub(taken)).into_owned();
        let mut spans = vec![
            self.mark.clone(),
            Span::styled(format!("{name} "), self.theme.accent),
            Span::styled(subject, self.call.path_link(self.theme.text)),
        ];
        spans.extend((!end.is_empty()).then(|| Span::raw("  ")));
        spans.extend(end);
        Line::from(spans)
    }

    /// Returns the line of a command in two rows, with the end of the line in the last of them, or below it if it has no room.
    fn command(&self, command: &str, parts: &[String]) -> Vec<Row> {
        let end = self.end(parts);
        let end_width = end.iter().map(|span| text::width(&span.content)).sum::<usize>();
        let name = Span::styled(format!("{} ", self.call.name), self.theme.accent);
        let lead = text::width(&self.mark.content) + text::width(&name.content);
        let indent = Span::raw("  ");
        let rest = self.width.saturating_sub(indent.content.len());
        let shown = CommandLine::new(command, self.width.saturating_sub(lead), rest, end_width);
        let mut rows: Vec<Row> = Vec::new();
        for (words, joint) in shown.rows {
            let mut spans =
                if rows.is_empty() { vec![self.mark.clone(), name.clone()] } else { vec![indent.clone()] };
            spans.push(Span::styled(words, self.theme.text));
            rows.push(Row { gutter: 2, joint, ..Row::from(Line::from(spans)) });
        }
        let Some(last) = rows.last_mut() else { return rows };
        if !shown.more.is_empty() {
            last.line.push_span(Span::styled(format!(" {}", shown.more), self.theme.dim));
        }
        if end.is_empty() {
            return rows;
        }
        if text::line_width(&last.line) + GAP + end_width <= self.width {
            last.line.push_span(Span::raw("  "));
            last.line.spans.extend(end);
        } else {
            rows.push(Line::from([vec![indent], end].concat()).into());
        }
        rows
    }
}

/// True for a command that runs or did not succeed, which the reader may need whole.
fn is_needed_whole(call: &ToolCall) -> bool {
    let ended_well = matches!(call.state, State::Done { .. }) && exit_code(call).is_none_or(|code| code == 0);
    let waits = matches!(call.state, State::Streaming | State::Denied { .. });
    excerpt::is_command(call) && !ended_well && !waits
}

pub(super) fn lay_out(call: &ToolCall, width: usize, theme: &Theme) -> Vec<Row> {
    let head = Head::new(call, width, theme);
    if !call.open && !call.group.is_empty() {
        let (name, what) = grouped(call);
        return vec![head.line(&name, &what, &[]).into()];
    }
    let subject = call.subject();
    let one_line = subject.lines().next().unwrap_or_default();
    let is_long = subject.lines().count() > 1;
    let subject_line = format!("{one_line}{}", if is_long { " …" } else { "" });
    let ending = Ending::of(call);
    let mut tail = ending.parts();
    let needed = |tail: &[String]| head.needed(&call.name, &subject_line, tail);
    // The user can look at a subagent at work, so its line names the key if there is room.
    let is_subagent = call.nested.has_calls() || !agent_kind(call).is_empty();
    if matches!(call.state, State::Running { .. }) && !call.open && is_subagent {
        let with_hint = |tail: &[String]| [tail, std::slice::from_ref(&head.with_key)].concat();
        // The key is more important than the cost so far.
        let cheaper = Ending { cost: None, allowed: None, ..ending.clone() }.parts();
        let cheaper = if ending.cost.is_none() || cheaper.is_empty() { tail.clone() } else { cheaper };
        let longer = [with_hint(&tail), with_hint(&cheaper)].into_iter().find(|tail| needed(tail) <= width);
        tail = longer.unwrap_or(tail);
    }
    // The task of a subagent is more important than its kind and its number of calls.
    while is_subagent && tail.len() > 1 && needed(&tail) > width {
        tail.remove(0);
    }
    let is_wide = needed(&tail) > width;
    let mut rows = match &call.state {
        // A reason for a refusal is shown in full, so it goes below if the line has no room for it.
        State::Denied { reason } if is_wide && !reason.is_empty() => {
            let not_permitted = head.line(&call.name, &subject_line, &[NOT_PERMITTED.to_owned()]);
            let mut rows = vec![Row::from(not_permitted)];
            rows.extend(paragraph(reason, width, "  ", "  ", theme.dim, theme.dim));
            rows
        }
        _ if (is_wide || is_long) && !call.open && is_needed_whole(call) => head.command(&subject, &tail),
        _ => vec![Row::from(head.line(&call.name, &subject_line, &tail))],
    };
    if call.open {
        if is_long || is_wide && excerpt::is_command(call) {
            rows.extend(paragraph(&subject, width, "  $ ", "    ", theme.dim, theme.code));
        }
        rows.extend(call.nested.rows(width, &call.view, theme));
        rows.extend(output(call, width, theme));
    } else if call.state.is_live() && call.nested.has_calls() {
        rows.extend(call.nested.recent(width, &call.view, theme));
    } else if let Some(diff) = changes(call) {
        let marks = &call.details["marks"];
        let extent = Extent::Closed(call.open_hint());
        rows.extend(diff::lines(diff, marks, call.sides(diff), width, theme, &extent));
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
    if let Some(items) = todo_items(call) {
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
fn todo_items(call: &ToolCall) -> Option<&[Value]> {
    let items = call.details.get("items").and_then(Value::as_array)?;
    (call.name == "todo").then_some(items.as_slice())
}

fn checklist(item: &Value, width: usize, theme: &Theme) -> Vec<Row> {
    let content = item.get("content").and_then(Value::as_str).unwrap_or_default();
    let (mark, style) = match item.get("status").and_then(Value::as_str) {
        Some("completed") => (todo::DONE, theme.dim),
        Some("in_progress") => (todo::AT_WORK, theme.accent),
        _ => (todo::OPEN, theme.text),
    };
    paragraph(content, width, mark, "    ", style, style)
}

/// The end of a call's line, as parts without separators.
#[derive(Clone)]
struct Ending {
    /// The result in a few words.
    result: Vec<String>,
    /// The way in which the call ended, and its duration.
    ended: Vec<String>,
    cost: Option<String>,
    /// The way in which the user allowed the call.
    allowed: Option<String>,
}

impl Ending {
    fn of(call: &ToolCall) -> Self {
        let allowed = if call.state == State::Asking { "" } else { call.output.allowed };
        let (calls, cost) = call.nested.totals(agent_kind(call));
        let result = Some(result(call)).filter(|result| !result.is_empty()).unwrap_or(calls);
        Self {
            result,
            ended: ended(call),
            cost,
            allowed: Some(allowed.to_owned()).filter(|how| !how.is_empty()),
        }
    }

    fn parts(&self) -> Vec<String> {
        self.result.iter().chain(&self.ended).chain(&self.cost).chain(&self.allowed).cloned().collect()
    }
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
fn result(call: &ToolCall) -> Vec<String> {
    if let Some((added, removed)) = tool::changed_lines(call) {
        let number = |key| call.details.get(key).and_then(Value::as_u64);
        let mut parts = vec![changed_lines(added, removed)];
        if let (Some(rejected), Some(hunks)) = (number("hunks_rejected"), number("hunks")) {
            parts.push(format!("{rejected} of {hunks} hunks rejected"));
        }
        return parts;
    }
    if let Some(items) = todo_items(call) {
        let done = items.iter().filter(|i| i["status"] == "completed").count();
        return vec![format!("{done} of {} done", items.len())];
    }
    Tests::of(call).map(|tests| tests.line()).into_iter().collect()
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

fn ended(call: &ToolCall) -> Vec<String> {
    match &call.state {
        State::Running { seconds, .. } if *seconds >= SHOWN_SECONDS => vec![text::duration(*seconds * 1_000)],
        State::Streaming | State::Running { .. } => Vec::new(),
        State::Asking => vec!["waits for you".to_owned()],
        State::Done { millis } => match exit_code(call).filter(|code| *code != 0) {
            Some(code) => timed(format!("exit code {code}"), *millis),
            None if *millis >= 1_000 => vec![text::duration(*millis)],
            None => Vec::new(),
        },
        State::Failed { millis } => match exit_code(call) {
            Some(code) if result(call).is_empty() => timed(format!("failed (exit code {code})"), *millis),
            Some(code) => timed(format!("exit code {code}"), *millis),
            None => timed("failed".to_owned(), *millis),
        },
        State::Interrupted => vec!["interrupted".to_owned()],
        State::Denied { reason } if reason.is_empty() => vec![NOT_PERMITTED.to_owned()],
        State::Denied { reason } => vec![format!("{NOT_PERMITTED}: {reason}")],
    }
}

/// Returns the words and the duration, which also says if a call failed at once or after a while. 0: the duration is not known, as of
/// a command of the user.
fn timed(words: String, millis: u64) -> Vec<String> {
    match millis {
        0 => vec![words],
        1..100 => vec![words, format!("{millis} ms")],
        _ => vec![words, text::duration(millis)],
    }
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
            ["  ✓ read", "  ▸ write a line that is longer than it", "  ○ test"]
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
