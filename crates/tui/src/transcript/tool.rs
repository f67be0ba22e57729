//! A tool call in the transcript: one line that says what it does and how it went; opened, its input and output.

use super::block::paragraph;
use crate::text;
use crate::theme::Theme;
use becket_types::CallId;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use serde_json::Value;

/// Lines of output that an open call shows.
const OPEN_LINES: usize = 400;

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
    } else if let Some(diff) = diff(call) {
        lines.extend(diff_lines(diff, width, theme, 12));
    }
    lines
}

fn diff(call: &ToolCall) -> Option<&str> {
    call.details.get("diff").and_then(Value::as_str).filter(|d| !d.is_empty())
}

fn output(call: &ToolCall, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    if let Some(diff) = diff(call) {
        return diff_lines(diff, width, theme, OPEN_LINES);
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

/// A unified diff, its headers left out.
fn diff_lines(diff: &str, width: usize, theme: &Theme, limit: usize) -> Vec<Line<'static>> {
    let body: Vec<&str> = diff.lines().filter(|l| !l.starts_with("---") && !l.starts_with("+++")).collect();
    let mut lines: Vec<Line<'static>> = body
        .iter()
        .take(limit)
        .map(|line| {
            let style = match line.as_bytes().first() {
                Some(b'+') => theme.added,
                Some(b'-') => theme.removed,
                _ => theme.dim,
            };
            let shown = format!("  {}", text::visible(line));
            Line::styled(text::fit(&shown, width).into_owned(), style)
        })
        .collect();
    if body.len() > limit {
        lines.push(Line::styled(format!("  … {} more lines", body.len() - limit), theme.dim));
    }
    lines
}

/// What stands at the end of the line: how long, how it ended.
fn tail(call: &ToolCall) -> String {
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
