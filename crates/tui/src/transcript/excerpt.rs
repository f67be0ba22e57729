//! The lines of output below a closed call: the end of a command's output, or the error of a call that failed. A bar at the
//! left edge separates them from what the model says.
//!
//! Owns the choice of these lines, and the summary of a test run. Depends on the call alone. Runs when the call is laid
//! out, not for each frame.

use super::row::{Row, cut, paragraph};
use super::tool::{State, ToolCall};
use crate::ansi::Ansi;
use crate::theme::Theme;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::fmt::Write as _;

/// Lines below a command that succeeded.
const DONE: usize = 3;
/// Lines below a command that is running or did not succeed.
const FAILED: usize = 5;
/// Lines of another tool's error.
const REASON: usize = 3;
/// Shown for a command that printed nothing.
const NOTHING: &str = "(no output)";

/// Returns the rows below the line of a closed call; none if its output is not meant for the user.
pub(super) fn rows(call: &ToolCall, width: usize, theme: &Theme) -> Vec<Row> {
    let is_command = is_command(call);
    match &call.state {
        State::Running { .. } => tail(call, FAILED, theme.dim, width, theme),
        State::Done { .. } if is_command => tail(call, DONE, theme.dim, width, theme),
        State::Failed { .. } | State::Interrupted if is_command => {
            tail(call, FAILED, theme.text, width, theme)
        }
        State::Failed { .. } => reason(&call.output.text, width, theme),
        _ => Vec::new(),
    }
}

/// Returns the bar before each line of a call's output, as wide as the mark of the call above it.
pub(super) fn bar(call: &ToolCall, theme: &Theme) -> Span<'static> {
    let style = if matches!(call.state, State::Failed { .. }) { theme.outcome.error } else { theme.border };
    Span::styled("│ ", style)
}

/// True for calls whose output was printed by a program.
pub(super) fn is_command(call: &ToolCall) -> bool {
    call.name == "bash" || call.details.get("exit_code").is_some()
}

/// Returns the last lines that are not blank, after a count of the lines above them.
fn tail(call: &ToolCall, most: usize, style: Style, width: usize, theme: &Theme) -> Vec<Row> {
    let output = without_exit_code(call);
    if output == NOTHING {
        return Vec::new();
    }
    let is_blank = |line: &&str| line.trim().is_empty();
    let all = call.output.lines_dropped + output.lines().filter(|line| !is_blank(line)).count();
    // A count of one or two lines would hide little and take a row itself.
    let most = if all <= most + 2 { all } else { most };
    let mut last: Vec<&str> = output.lines().rev().filter(|line| !is_blank(line)).take(most).collect();
    last.reverse();
    let mut out = Vec::new();
    if all > last.len() {
        out.push(more(all - last.len(), call, width, theme));
    }
    let mut ansi = Ansi::new(style, theme.syntax.is_some());
    let mut rows: Vec<Vec<Span<'static>>> = last.into_iter().map(|line| ansi.line(line)).collect();
    // The last line of a command is mostly its result, or the reason why it failed.
    let prominent = match &call.state {
        State::Done { .. } => Some(theme.text),
        State::Failed { .. } => Some(theme.outcome.error),
        _ => None,
    };
    if let (Some(prominent), Some(result)) = (prominent, rows.last_mut()) {
        result.iter_mut().filter(|span| span.style == style).for_each(|span| span.style = prominent);
    }
    out.extend(rows.into_iter().map(|spans| barred(spans, call, width, theme)));
    out
}

fn more(lines: usize, call: &ToolCall, width: usize, theme: &Theme) -> Row {
    let text = format!("… {lines} earlier line{} · {}", if lines == 1 { "" } else { "s" }, call.open_hint());
    barred(vec![Span::styled(text, theme.dim)], call, width, theme)
}

/// Lays out a line of output after the bar, cut if it is too wide.
fn barred(spans: Vec<Span<'static>>, call: &ToolCall, width: usize, theme: &Theme) -> Row {
    let mut line = cut(spans, width);
    if let Some(first) = line.spans.first_mut() {
        *first = bar(call, theme);
    }
    Row { gutter: 2, ..Row::from(line) }
}

/// Returns the output without the note about the exit code at its end, which the call's line already shows.
fn without_exit_code(call: &ToolCall) -> &str {
    let output = call.output.text.trim_end();
    let (before, last) = output.rsplit_once('\n').unwrap_or(("", output));
    let says_code = call.details.get("exit_code").and_then(serde_json::Value::as_i64).is_some()
        && last.starts_with("[exit code ")
        && last.ends_with(']');
    if says_code { before.trim_end() } else { output }
}

/// Returns the first lines of an error, in which tools describe the mistake.
fn reason(output: &str, width: usize, theme: &Theme) -> Vec<Row> {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).take(REASON).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let mut rows = paragraph(&lines.join("\n"), width, "│ ", "│ ", theme.outcome.error, theme.outcome.error);
    let cut = rows.len() > REASON + 1;
    rows.truncate(REASON + 1);
    if cut && let Some(last) = rows.last_mut() {
        *last = Line::styled("│ …", theme.outcome.error).into();
    }
    rows
}

/// Numbers of passed and failed tests, as a known test runner reported them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tests {
    passed: u64,
    failed: u64,
}

impl Tests {
    /// Returns `None` if the command's output is not that of a known test runner.
    pub(super) fn of(call: &ToolCall) -> Option<Self> {
        let mut all: Option<Self> = None;
        for line in call.output.text.lines() {
            if let Some(found) = counts(line) {
                let sum = all.get_or_insert_default();
                sum.passed += found.passed;
                sum.failed += found.failed;
            }
        }
        all.filter(|tests| tests.passed + tests.failed > 0)
    }

    /// Returns for example `1 failed, 41 passed`.
    pub(super) fn line(&self) -> String {
        let mut out = String::new();
        if self.failed > 0 {
            let _ = write!(out, "{} failed, ", self.failed);
        }
        let _ = write!(out, "{} passed", self.passed);
        out
    }
}

/// Parses the summary line of cargo test, nextest, pytest, jest, vitest, mocha or bun; `None` for other lines.
fn counts(line: &str) -> Option<Tests> {
    let plain: String =
        Ansi::new(Style::new(), false).line(line).iter().map(|s| s.content.as_ref()).collect();
    let plain = plain.trim();
    let is_summary = plain.starts_with("test result: ")
        || plain.starts_with("Summary [")
        || plain.starts_with("Tests:")
        || plain.starts_with("Tests  ")
        || plain.starts_with("===") && plain.ends_with("===") && plain.contains(" in ")
        || (plain.contains(" passed in ") || plain.contains(" failed in "))
            && plain.starts_with(|c: char| c.is_ascii_digit());
    if !is_summary {
        return None;
    }
    let words: Vec<&str> = plain.split(|c: char| !c.is_alphanumeric() && c != '.').collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let number = |name: &str| {
        words
            .windows(2)
            .filter(|pair| pair[1].trim_end_matches('.') == name)
            .find_map(|pair| pair[0].parse().ok())
    };
    let (passed, failed): (Option<u64>, Option<u64>) = (number("passed"), number("failed"));
    (passed.is_some() || failed.is_some())
        .then(|| Tests { passed: passed.unwrap_or(0), failed: failed.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_test_run_is_read_from_each_known_runner() {
        for (line, passed, failed) in [
            (
                "test result: FAILED. 11 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s",
                11,
                1,
            ),
            ("test result: ok. 5 passed; 0 failed; 0 ignored", 5, 0),
            ("     Summary [   0.151s] 43 tests run: 41 passed, 2 failed, 7 skipped", 41, 2),
            ("===== 1 failed, 3 passed in 0.12s =====", 3, 1),
            ("\u{1b}[32m============ 3 passed in 0.12s ============\u{1b}[0m", 3, 0),
            ("2 failed, 9 passed in 1.10s", 9, 2),
            ("Tests:       1 failed, 3 passed, 4 total", 3, 1),
            ("      Tests  2 failed | 8 passed (10)", 8, 2),
        ] {
            assert_eq!(counts(line), Some(Tests { passed, failed }), "{line}");
        }
        for line in ["3 passed", "the review has 3 passed", "running 3 tests", "", "=== passed ==="] {
            assert_eq!(counts(line), None, "{line}");
        }
    }
}
