//! The lines of output below a closed call: the end of a command's output, or the error of a call that failed. A bar at the
//! left edge separates them from what the model says.
//!
//! Owns the choice of these lines, and the summary of a test run. Depends on the call alone. Runs when the call is laid
//! out, not for each frame.

use super::row::{Row, cut, paragraph};
use super::tool::{State, ToolCall};
use crate::ansi::Ansi;
use crate::hint;
use crate::text;
use crate::theme::Theme;
use becket_types::sdk_names::{PRINTED_LINES, without_exit_code};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use serde_json::Value;
use std::fmt::Write as _;

/// Lines below a command that succeeded.
const DONE: usize = 3;
/// Lines below a command that is running or did not succeed.
const FAILED: usize = 5;
/// Number of the `FAILED` lines that show the error, if the error is not at the end.
const ERROR: usize = 2;
/// Lines of the error of a call that is not a command.
const REASON: usize = 3;
/// The bar before the output of a call that failed. It is heavier, so that it also differs where nothing has a colour.
const FAILED_BAR: &str = "┃ ";

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
        State::Done { .. } if call.nested.has_report() => answer(call, width, theme),
        _ => Vec::new(),
    }
}

/// Returns the first line that a subagent answered. The agent says the rest in its own words.
fn answer(call: &ToolCall, width: usize, theme: &Theme) -> Vec<Row> {
    let first = call.output.text.lines().find(|line| !line.trim().is_empty());
    let spans = first.map(|line| inline_code(line, theme));
    spans.into_iter().map(|spans| barred(spans, call, width, theme)).collect()
}

/// Styles a line of an answer: dim, and code between backticks as in a message.
fn inline_code(line: &str, theme: &Theme) -> Vec<Span<'static>> {
    let plain = |text: &str| Ansi::new(theme.dim, theme.syntax.is_some()).line(text);
    // With an odd number of backticks, one of them is not the edge of code.
    if !line.matches('`').count().is_multiple_of(2) {
        return plain(line);
    }
    let part = |(at, part): (usize, &str)| match at % 2 {
        0 => plain(part),
        _ => vec![Span::styled(text::visible(part).into_owned(), theme.code)],
    };
    line.split('`').enumerate().filter(|(_, part)| !part.is_empty()).flat_map(part).collect()
}

/// Returns the bar before each line of a call's output, as wide as the mark of the call above it.
pub(super) fn bar(call: &ToolCall, theme: &Theme) -> Span<'static> {
    if matches!(call.state, State::Failed { .. }) {
        Span::styled(FAILED_BAR, theme.outcome.error)
    } else {
        Span::styled("│ ", theme.border)
    }
}

/// True for calls whose output was printed by a program.
pub(super) fn is_command(call: &ToolCall) -> bool {
    call.name == "bash" || call.details.get("exit_code").is_some()
}

/// Returns the last lines that are not blank, after a count of the lines above them. If a failed command printed its error
/// before them, the error comes first: output that a program buffers appears after what it prints to stderr.
fn tail(call: &ToolCall, most: usize, style: Style, width: usize, theme: &Theme) -> Vec<Row> {
    // The call's line already shows the exit code.
    let output = without_exit_code(&call.output.text, &call.details, call.output.lines_dropped).trim_end();
    let is_silent = call.details.get(PRINTED_LINES).and_then(Value::as_u64) == Some(0);
    if is_silent && output.lines().nth(1).is_none() {
        // The only line tells the model that the command printed nothing.
        return Vec::new();
    }
    let is_blank = |line: &&str| line.trim().is_empty();
    let left_out = left_out(&call.details);
    let all = call.output.lines_dropped + left_out + output.lines().filter(|line| !is_blank(line)).count();
    // A count of one or two lines would hide little and take a row itself.
    let most = if all <= most + 2 { all } else { most };
    let lines: Vec<&str> = output.lines().filter(|line| !is_blank(line)).collect();
    let failed = matches!(call.state, State::Failed { .. });
    let error = if failed && all > most { error_before(&lines, most - ERROR) } else { None };
    let shown = if error.is_some() { most - ERROR } else { most };
    let last = lines.get(lines.len().saturating_sub(shown)..).unwrap_or_default();
    let mut out = Vec::new();
    let mut hidden = all - last.len();
    if let Some((at, error)) = error {
        let above = call.output.lines_dropped + at;
        if above > 0 {
            let text = format!("… {above} line{}", plural(above));
            out.push(barred(vec![Span::styled(text, theme.dim)], call, width, theme));
        }
        let mut ansi = Ansi::new(style, theme.syntax.is_some());
        out.extend(error.iter().flat_map(|line| wrapped(&ansi.line(line), call, width, theme)));
        hidden -= above + error.len();
    }
    if hidden > 0 {
        out.push(more(hidden, error.is_none(), call, width, theme));
    }
    let mut ansi = Ansi::new(style, theme.syntax.is_some());
    let mut rows: Vec<Vec<Span<'static>>> = last.iter().map(|line| ansi.line(line)).collect();
    // The last line of a command is mostly its result, or the reason why it failed.
    let prominent = match &call.state {
        State::Done { .. } => Some(theme.text),
        State::Failed { .. } => Some(theme.outcome.error),
        _ => None,
    };
    if let (Some(prominent), Some(result)) = (prominent, rows.last_mut()) {
        result.iter_mut().filter(|span| span.style == style).for_each(|span| span.style = prominent);
    }
    // The reason why a command failed is shown whole.
    let result = if failed { rows.pop() } else { None };
    out.extend(rows.into_iter().map(|spans| barred(spans, call, width, theme)));
    out.extend(result.iter().flat_map(|spans| wrapped(spans, call, width, theme)));
    out
}

/// Returns the number of lines that a long output lacks in its middle. A note takes their place: it is one of the lines, so it counts for
/// one of them.
fn left_out(details: &Value) -> usize {
    let lines = details.get("lines_left_out").and_then(Value::as_u64).unwrap_or(0);
    usize::try_from(lines).unwrap_or(usize::MAX).saturating_sub(1)
}

/// Returns the lines of an error above the last `shown` lines, with the number of lines before them.
fn error_before<'l>(lines: &'l [&'l str], shown: usize) -> Option<(usize, &'l [&'l str])> {
    let plain: Vec<String> = lines.iter().map(|line| plain(line)).collect();
    let end = lines.len().saturating_sub(shown);
    // The last line of a traceback names the exception, and the line above it the code.
    let traceback =
        plain.iter().rposition(|line| line.trim_start().starts_with("Traceback (most recent call last)"));
    let raised = traceback.and_then(|at| {
        let below = plain.get(at + 1..)?;
        let indent = |line: &str| line.len() - line.trim_start().len();
        let own = indent(plain.get(at)?);
        below.iter().position(|line| indent(line) <= own).map(|found| at + 1 + found)
    });
    // An error among the last lines is on the screen anyway.
    if raised.is_some_and(|at| at >= end) || plain.get(end..)?.iter().any(|line| is_error(line)) {
        return None;
    }
    let (first, last) = match raised {
        Some(at) => (at.saturating_sub(ERROR - 1), at + 1),
        None => {
            let at = plain.iter().position(|line| is_error(line))?;
            (at, (at + ERROR).min(end))
        }
    };
    Some((first, lines.get(first..last)?))
}

/// True for a line with which compilers, interpreters, shells and test runners say what went wrong.
fn is_error(line: &str) -> bool {
    const BEGINS: [&str; 14] = [
        "error:",
        "error[",
        "error -",
        "error ts",
        "fatal:",
        "fatal error",
        "panic:",
        "npm err!",
        "npm error",
        "--- fail",
        "fail:",
        "uncaught ",
        "exception in thread",
        "e   ",
    ];
    const CONTAINS: [&str; 8] = [
        ": error:",
        ": fatal error:",
        ": error ts",
        "panicked at",
        "command not found",
        "no such file or directory",
        "permission denied",
        "segmentation fault",
    ];
    let lower = line.trim_start().to_lowercase();
    let first = lower.split_once(": ").or_else(|| lower.split_once(':')).map_or("", |(first, _)| first);
    let is_name = !first.is_empty() && first.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    (is_name && (first.ends_with("error") || first.ends_with("exception")))
        || BEGINS.iter().any(|begin| lower.starts_with(begin))
        || CONTAINS.iter().any(|part| lower.contains(part))
}

/// Returns a line without its colours.
fn plain(line: &str) -> String {
    Ansi::new(Style::new(), false).line(line).iter().map(|s| s.content.as_ref()).collect()
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Returns the count of lines that are not shown. `earlier`: no line above it is shown.
fn more(lines: usize, earlier: bool, call: &ToolCall, width: usize, theme: &Theme) -> Row {
    let earlier = if earlier { "earlier " } else { "" };
    let text = format!("… {lines} {earlier}line{} · {}", plural(lines), call.open_hint());
    barred(hint::spans(&text, theme), call, width, theme)
}

/// Rows that a line may take which says why a command failed.
const WRAPPED: usize = 3;

/// Lays out a line that says why a command failed, in several rows if it is wide.
fn wrapped(spans: &[Span<'static>], call: &ToolCall, width: usize, theme: &Theme) -> Vec<Row> {
    let bar = bar(call, theme);
    let mut rows = Row::wrapped(spans, width, &bar, &bar);
    if rows.len() > WRAPPED {
        rows.truncate(WRAPPED);
        if let Some(last) = rows.last_mut() {
            let used = last.line.width();
            if let Some(span) = last.line.spans.last_mut() {
                let room = width.saturating_sub(used - text::width(&span.content));
                span.content = text::fit(&format!("{}…", span.content), room).into_owned().into();
            }
        }
    }
    rows
}

/// Lays out a line of output after the bar, cut if it is too wide.
fn barred(spans: Vec<Span<'static>>, call: &ToolCall, width: usize, theme: &Theme) -> Row {
    let mut line = cut(spans, width);
    if let Some(first) = line.spans.first_mut() {
        *first = bar(call, theme);
    }
    Row { gutter: 2, ..Row::from(line) }
}

/// Returns the first lines of an error, in which tools describe the mistake.
fn reason(output: &str, width: usize, theme: &Theme) -> Vec<Row> {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).take(REASON).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let error = theme.outcome.error;
    let mut rows = paragraph(&lines.join("\n"), width, FAILED_BAR, FAILED_BAR, error, error);
    let cut = rows.len() > REASON + 1;
    rows.truncate(REASON + 1);
    if cut && let Some(last) = rows.last_mut() {
        *last = Line::styled(format!("{FAILED_BAR}…"), error).into();
    }
    rows
}

/// Numbers of passed and failed tests, as a known test runner reported them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tests {
    passed: u64,
    failed: u64,
    /// Packages whose tests passed, for a runner that does not count tests.
    packages: u64,
}

impl Tests {
    /// Adds up the numbers in a call's output. `None` if the output is not that of a known test runner.
    pub(super) fn of(call: &ToolCall) -> Option<Self> {
        let mut all: Option<Self> = None;
        // unittest prints the number of tests above the line with the failures.
        let mut ran = 0;
        for line in call.output.text.lines() {
            let line = plain(line);
            if let Some(count) = tests_run(&line) {
                ran = count;
                continue;
            }
            let found = unittest(&line, ran).or_else(|| counts(&line));
            if !line.trim().is_empty() {
                ran = 0;
            }
            if let Some(found) = found {
                let sum = all.get_or_insert_default();
                sum.passed += found.passed;
                sum.failed += found.failed;
                sum.packages += found.packages;
            }
        }
        all.filter(|tests| tests.passed + tests.failed + tests.packages > 0)
    }

    /// Returns for example `1 failed, 41 passed`.
    pub(super) fn line(&self) -> String {
        let mut out = String::new();
        if self.failed > 0 {
            let _ = write!(out, "{} failed", self.failed);
        }
        // Without `-v`, go names its failed tests only, and the packages whose tests passed.
        let comma = if out.is_empty() { "" } else { ", " };
        if self.packages > 0 && self.passed == 0 {
            let _ = write!(out, "{comma}{} package{} passed", self.packages, plural(self.packages as usize));
        } else if self.passed > 0 || self.failed == 0 {
            let _ = write!(out, "{comma}{} passed", self.passed);
        }
        out
    }
}

/// Parses `Ran 5 tests in 0.001s` of unittest.
fn tests_run(line: &str) -> Option<u64> {
    let (count, rest) = line.strip_prefix("Ran ")?.split_once(' ')?;
    rest.starts_with("test").then(|| count.parse().ok())?
}

/// Parses the last line of unittest, such as `FAILED (failures=2, errors=1)` or `OK`. `ran`: the number of tests from the line above it.
fn unittest(line: &str, ran: u64) -> Option<Tests> {
    let (word, reasons) = line.split_once(" (").unwrap_or((line, ""));
    if ran == 0 || !matches!(word, "OK" | "FAILED") {
        return None;
    }
    let number = |name: &str| -> u64 {
        let found =
            reasons.split([',', ')']).find_map(|reason| reason.trim().strip_prefix(name)?.strip_prefix('='));
        found.and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    let failed = number("failures") + number("errors") + number("unexpected successes");
    Some(Tests { passed: ran.saturating_sub(failed + number("skipped")), failed, packages: 0 })
}

/// Parses a line of go, mocha or node's runner, which count each kind in a line of its own.
fn single_count(line: &str) -> Option<Tests> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let one = |kind: &str, count: u64| match kind {
        "passing" | "pass" | "PASS:" => Some(Tests { passed: count, ..Tests::default() }),
        "failing" | "fail" | "FAIL:" => Some(Tests { failed: count, ..Tests::default() }),
        _ => None,
    };
    let took = |time: &str| time.ends_with(['s', ')']);
    match words.as_slice() {
        ["---", kind @ ("PASS:" | "FAIL:"), ..] if line.starts_with("---") => one(kind, 1),
        ["ok", _, time, ..] if line.starts_with("ok") && (took(time) || *time == "(cached)") => {
            Some(Tests { packages: 1, ..Tests::default() })
        }
        [count, kind @ ("passing" | "failing")] => one(kind, count.parse().ok()?),
        [count, kind @ "passing", time] if time.starts_with('(') => one(kind, count.parse().ok()?),
        ["#" | "ℹ", kind @ ("pass" | "fail"), count] => one(kind, count.parse().ok()?),
        _ => None,
    }
}

/// Parses the summary line of cargo test, nextest, pytest, jest, vitest, mocha, bun, go or node; `None` for other lines.
fn counts(line: &str) -> Option<Tests> {
    if let Some(found) = single_count(line) {
        return Some(found);
    }
    let plain = line.trim();
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
    // pytest counts tests whose preparation failed as errors.
    let errors = number("error").or_else(|| number("errors")).filter(|_| plain.contains(" in "));
    let (passed, failed): (Option<u64>, Option<u64>) = (number("passed"), number("failed"));
    (passed.is_some() || failed.is_some() || errors.is_some()).then(|| Tests {
        passed: passed.unwrap_or(0),
        failed: failed.unwrap_or(0) + errors.unwrap_or(0),
        packages: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

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
            ("===== 2 passed, 1 error in 0.12s =====", 2, 1),
            ("  2 passing (5ms)", 2, 0),
            ("  1 failing", 0, 1),
            ("# pass 3", 3, 0),
            ("ℹ fail 2", 0, 2),
            ("--- FAIL: TestAdd (0.00s)", 0, 1),
            ("--- PASS: TestSub (0.00s)", 1, 0),
        ] {
            assert_eq!(counts(&plain(line)), Some(Tests { passed, failed, packages: 0 }), "{line}");
        }
        let package = Some(Tests { packages: 1, ..Tests::default() });
        assert_eq!(counts("ok  \texample.org/a\t0.002s"), package);
        assert_eq!(counts("ok  \texample.org/a\t(cached)"), package);
        for line in [
            "3 passed",
            "the review has 3 passed",
            "running 3 tests",
            "",
            "=== passed ===",
            "ok then",
            "    --- PASS: TestSub/a (0.00s)",
            "3 passing remarks here",
            "# pass the salt",
        ] {
            assert_eq!(counts(line), None, "{line}");
        }
    }

    fn call(output: &str, failed: bool) -> ToolCall {
        let mut call = ToolCall::new("c1".into(), "bash".to_owned(), Arc::default());
        call.set_result(output, &serde_json::Value::Null);
        call.state = if failed { State::Failed { millis: 1 } } else { State::Done { millis: 1 } };
        call
    }

    #[test]
    fn the_counts_of_runners_with_several_lines() {
        for (output, want) in [
            ("Ran 5 tests in 0.001s\n\nFAILED (failures=2, errors=1)", Some("3 failed, 2 passed")),
            ("Ran 4 tests in 0.001s\n\nOK (skipped=1)", Some("3 passed")),
            ("Ran 1 test in 0.000s\n\nOK", Some("1 passed")),
            (
                "--- FAIL: TestA (0.00s)\n    a_test.go:5: no\nFAIL\nFAIL\tm/a\t0.002s\nok  \tm/b\t0.001s",
                Some("1 failed, 1 package passed"),
            ),
            ("ok  \tm/a\t0.002s\nok  \tm/b\t(cached)", Some("2 packages passed")),
            ("=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \tm/a\t0.002s", Some("1 passed")),
            ("  2 passing (5ms)\n  1 failing", Some("1 failed, 2 passed")),
            ("OK", None),
            ("Ran out of ideas\nOK", None),
        ] {
            assert_eq!(
                Tests::of(&call(output, false)).map(|tests| tests.line()).as_deref(),
                want,
                "{output}"
            );
        }
    }

    #[test]
    fn lines_that_the_result_itself_lacks_are_counted() {
        let mut call = call("a\n[a note]\nb\nc\nd\ne\nf\ng\n", false);
        let first = |call: &ToolCall| rows(call, 60, &Theme::dark())[0].line.to_string();
        assert_eq!(first(&call), "│ … 5 earlier lines · Ctrl-O opens");
        call.details = serde_json::json!({"exit_code": 0, "lines_left_out": 2_500_000});
        assert_eq!(first(&call), "│ … 2500004 earlier lines · Ctrl-O opens");
    }

    #[test]
    fn the_error_of_a_failed_command_is_shown_wherever_it_is() {
        let many = (0..30).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
        let trace = "Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n    f()\nValueError: bad\n";
        let shown = |output: &str| -> Vec<String> {
            let rows = rows(&call(output, true), 60, &Theme::dark());
            rows.iter().map(|row| row.line.spans.iter().map(|s| s.content.as_ref()).collect()).collect()
        };
        for (output, errors) in [
            (format!("{trace}{many}"), &["┃     f()", "┃ ValueError: bad"][..]),
            (
                format!("cat: x: No such file or directory\n{many}"),
                &["┃ cat: x: No such file or directory", "┃ line 0"],
            ),
            (format!("start\nsrc/a.c:3:1: error: no\n{many}"), &["┃ src/a.c:3:1: error: no"]),
        ] {
            let rows = shown(&output);
            assert!(errors.iter().all(|error| rows.iter().any(|row| row == error)), "{rows:?}");
            assert_eq!(rows.last().map(String::as_str), Some("┃ line 29"));
            assert!(rows.len() <= 7 && rows.iter().any(|row| row.contains(" lines · ")), "{rows:?}");
        }
        // An error at the end needs nothing above it.
        for output in [format!("{many}{trace}"), format!("error: early\n{many}error: late")] {
            let rows = shown(&output);
            assert_eq!(rows.len(), 6, "{rows:?}");
            assert!(rows[0].contains("earlier lines"), "{rows:?}");
        }
        let rows = rows(&call(&format!("{trace}{many}"), false), 60, &Theme::dark());
        assert_eq!(rows.len(), 4, "a command that succeeded shows its end");
    }
}
