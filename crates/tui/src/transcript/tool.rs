//! A tool call in the transcript: one line that says what it does and how it went; opened, its input and output.

use super::block::paragraph;
use super::diff;
use crate::text;
use crate::theme::Theme;
use becket_types::CallId;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use serde_json::Value;

/// Lines of output that an open call shows.
const OPEN_LINES: usize = 400;
/// Lines of a diff that a closed call shows.
const CLOSED_LINES: usize = 12;

#[derive(Debug)]
pub struct ToolCall {
    pub id: CallId,
    pub name: String,
    pub input: Value,
    /// The input as far as it has streamed in.
    pub partial: String,
    pub state: State,
    /// Live, then the result as the model read it.
    pub output: String,
    pub details: Value,
    pub open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Streaming,
    Asking,
    Running,
    Done { millis: u64 },
    Failed { millis: u64 },
    Interrupted,
    Denied { reason: String },
}

impl ToolCall {
    pub fn new(id: CallId, name: String) -> Self {
        Self {
            id,
            name,
            input: Value::Null,
            partial: String::new(),
            state: State::Streaming,
            output: String::new(),
            details: Value::Null,
            open: false,
        }
    }

    /// What the call is about, in a line: its path, command, pattern.
    fn subject(&self) -> String {
        const KEYS: [&str; 8] = ["command", "path", "pattern", "url", "query", "name", "id", "call_id"];
        let from =
            |value: &Value| KEYS.iter().find_map(|k| value.get(k).and_then(Value::as_str)).map(str::to_owned);
        from(&self.input).unwrap_or_default()
    }
}

pub(super) fn lay_out(call: &ToolCall, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let (mark, style): (&str, Style) = match &call.state {
        State::Streaming => ("○", theme.dim),
        State::Asking => ("?", theme.warning),
        State::Running => ("◐", theme.accent),
        State::Done { .. } => ("●", theme.ok),
        State::Failed { .. } | State::Denied { .. } => ("✗", theme.error),
        State::Interrupted => ("◌", theme.warning),
    };
    let subject = call.subject();
    let one_line = subject.lines().next().unwrap_or_default();
    let more = if subject.lines().count() > 1 { " …" } else { "" };
    let tail = tail(call);
    let head = format!("{mark} {} ", call.name);
    let room = width.saturating_sub(text::width(&head) + text::width(&tail) + 2);
    let shown = format!("{}{more}", text::visible(one_line));
    let mut lines = vec![Line::from(vec![
        Span::styled(format!("{mark} "), style),
        Span::styled(format!("{} ", call.name), theme.accent),
        Span::styled(text::fit(&shown, room).into_owned(), theme.text),
        Span::styled(if tail.is_empty() { String::new() } else { format!("  {tail}") }, theme.dim),
    ])];
    if call.open {
        if subject.lines().count() > 1 {
            lines.extend(paragraph(&subject, width, "  $ ", "    ", theme.dim, theme.code));
        }
        lines.extend(output(call, width, theme));
    } else if matches!(call.state, State::Running) {
        if let Some(last) = call.output.lines().rev().find(|l| !l.trim().is_empty()) {
            let line = format!("  {}", text::visible(last));
            lines.push(Line::styled(text::fit(&line, width).into_owned(), theme.dim));
        }
    } else if let Some(diff) = changes(call) {
        lines.extend(diff::lines(diff, &call.details["marks"], width, theme, CLOSED_LINES, false));
    }
    lines
}

fn changes(call: &ToolCall) -> Option<&str> {
    call.details.get("diff").and_then(Value::as_str).filter(|d| !d.is_empty())
}

fn output(call: &ToolCall, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    if let Some(diff) = changes(call) {
        return diff::lines(diff, &call.details["marks"], width, theme, OPEN_LINES, true);
    }
    if let Some(items) = todo(call) {
        return items.iter().flat_map(|item| checklist(item, width, theme)).collect();
    }
    let total = call.output.lines().count();
    let style = if matches!(call.state, State::Failed { .. }) { theme.error } else { theme.dim };
    let mut lines = Vec::new();
    for line in call.output.lines().take(OPEN_LINES) {
        let shown = format!("  {}", text::visible(line));
        lines.push(Line::styled(text::fit(&shown, width).into_owned(), style));
    }
    if total > OPEN_LINES {
        lines.push(Line::styled(format!("  … {} more lines", total - OPEN_LINES), theme.dim));
    }
    lines
}

/// The list that a call of `todo` left.
fn todo(call: &ToolCall) -> Option<&[Value]> {
    let items = call.details.get("items").and_then(Value::as_array)?;
    (call.name == "todo").then_some(items.as_slice())
}

fn checklist(item: &Value, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let content = item.get("content").and_then(Value::as_str).unwrap_or_default();
    let (mark, style) = match item.get("status").and_then(Value::as_str) {
        Some("completed") => ("  [x] ", theme.dim),
        Some("in_progress") => ("  [>] ", theme.accent),
        _ => ("  [ ] ", theme.text),
    };
    paragraph(content, width, mark, "      ", style, style)
}

/// What stands at the end of the line: what it came to, how long, how it ended.
fn tail(call: &ToolCall) -> String {
    let (came_to, ended) = (came_to(call), ended(call));
    let between = if came_to.is_empty() || ended.is_empty() { "" } else { " · " };
    format!("{came_to}{between}{ended}")
}

/// Lines added and removed; things to do that are done.
fn came_to(call: &ToolCall) -> String {
    if let Some(diff) = changes(call) {
        let number = |key| call.details.get(key).and_then(Value::as_u64);
        let counted = diff::counts(diff);
        let added = number("additions").unwrap_or(counted.0 as u64);
        let removed = number("deletions").unwrap_or(counted.1 as u64);
        return format!("+{added} −{removed}");
    }
    if let Some(items) = todo(call) {
        let done = items.iter().filter(|i| i["status"] == "completed").count();
        return format!("{done} of {} done", items.len());
    }
    String::new()
}

fn ended(call: &ToolCall) -> String {
    match &call.state {
        State::Streaming | State::Running => String::new(),
        State::Asking => "waits for you".to_owned(),
        State::Done { millis } => {
            let code = call.details.get("exit_code").and_then(Value::as_i64).filter(|c| *c != 0);
            match code {
                Some(code) => format!("exit {code} · {}", duration(*millis)),
                None if *millis >= 1_000 => duration(*millis),
                None => String::new(),
            }
        }
        State::Failed { millis } => {
            let code = call.details.get("exit_code").and_then(Value::as_i64);
            code.map_or_else(|| "failed".to_owned(), |c| format!("exit {c} · {}", duration(*millis)))
        }
        State::Interrupted => "interrupted".to_owned(),
        State::Denied { reason } if reason.is_empty() => "not permitted".to_owned(),
        State::Denied { reason } => format!("not permitted: {reason}"),
    }
}

/// `340 ms`, `12.3 s`, `4 min 5 s`.
pub(super) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(name: &str, details: Value, open: bool) -> Vec<String> {
        let mut call = ToolCall::new(CallId("c".into()), name.to_owned());
        call.details = details;
        call.state = State::Done { millis: 20 };
        call.open = open;
        lay_out(&call, 40, &Theme::plain()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_of_things_to_do_opens_as_a_checklist() {
        let details = json!({"items": [
            {"content": "read", "status": "completed"},
            {"content": "write a line that is longer than it", "status": "in_progress"},
            {"content": "test", "status": "pending"},
        ]});
        assert_eq!(shown("todo", details.clone(), false), ["● todo   1 of 3 done"]);
        assert_eq!(
            shown("todo", details, true)[1..],
            ["  [x] read", "  [>] write a line that is longer than ", "      it", "  [ ] test"]
        );
    }

    #[test]
    fn an_edit_says_how_many_lines_in_its_line() {
        let details = json!({"diff": "@@ -1 +1 @@\n-a\n+b\n", "additions": 1, "deletions": 1});
        assert_eq!(shown("edit", details, false)[0], "● edit   +1 −1");
    }
}
