//! A tool call in the transcript: its input, state and output. `tool_rows` lays it out.

use super::call_view::CallView;
use super::diff;
use super::subagent::Nested;
use crate::links;
use becket_types::CallId;
use ratatui::style::Style;
use serde_json::Value;
use std::cell::OnceCell;
use std::sync::Arc;

/// A tool call as its block shows it.
#[derive(Debug)]
pub struct ToolCall {
    pub id: CallId,
    pub name: String,
    pub input: Value,
    /// The input as far as it has streamed in.
    pub partial: String,
    pub state: State,
    pub output: Output,
    pub details: Value,
    pub open: bool,
    pub view: Arc<CallView>,
    /// Calls after this one that are summarized in its line: name and subject.
    pub group: Vec<(String, String)>,
    /// The work of the subagent that this call started.
    pub nested: Nested,
    sides: OnceCell<diff::Sides>,
}

/// Output of a call: live while the call runs, then the result as the model read it.
///
/// Invariant: `lines_dropped` is 0 once the call has ended, because a result is never cut here.
#[derive(Debug, Default)]
pub struct Output {
    pub text: String,
    /// Lines that were dropped from the start of a live output.
    pub lines_dropped: usize,
    /// Answer by which the user allowed the call, in a few words; empty if it was not asked about.
    pub allowed: &'static str,
}

impl Output {
    /// Maximum number of bytes of a live output that are kept.
    const LIVE: usize = 64 * 1024;

    /// Sets the result of the ended call.
    fn set(&mut self, result: &str) {
        result.clone_into(&mut self.text);
        self.lines_dropped = 0;
    }

    /// Appends live output. Drops its oldest lines when it has become too long.
    pub fn push(&mut self, chunk: &str) {
        self.text.push_str(chunk);
        if self.text.len() > 2 * Self::LIVE {
            let from = self.text.len() - becket_types::cut_start(&self.text, Self::LIVE).len();
            // Cuts at the start of a line, so that each dropped line is counted once.
            let line = self.text[from..].find('\n').map_or(from, |end| from + end + 1);
            let from = if line < self.text.len() { line } else { from };
            self.lines_dropped += self.text[..from].lines().filter(|line| !line.trim().is_empty()).count();
            self.text.drain(..from);
        }
    }
}

/// State of a call. `millis`: its duration in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The model is still writing the input.
    Streaming,
    /// A question about the call is open.
    Asking,
    /// `seconds`: age of the call at the last tick of the clock. `beat`: seconds since the turn began, which select the sign of the call's
    /// spinner.
    Running {
        seconds: u64,
        beat: u64,
    },
    Done {
        millis: u64,
    },
    Failed {
        millis: u64,
    },
    Interrupted,
    Denied {
        reason: String,
    },
}

impl State {
    /// True if the call has not ended.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Streaming | Self::Asking | Self::Running { .. })
    }
}

impl ToolCall {
    /// Creates a call whose input is streaming in.
    pub fn new(id: CallId, name: String, view: Arc<CallView>) -> Self {
        Self {
            id,
            name,
            input: Value::Null,
            partial: String::new(),
            state: State::Streaming,
            output: Output::default(),
            details: Value::Null,
            open: false,
            view,
            group: Vec::new(),
            nested: Nested::default(),
            sides: OnceCell::new(),
        }
    }

    /// True for successful read-only calls. Several of them in a row share one line.
    pub(crate) fn only_looks(&self) -> bool {
        matches!(self.state, State::Done { .. }) && matches!(self.name.as_str(), "read" | "grep" | "glob")
    }

    /// Sets the result of the ended call.
    pub(crate) fn set_result(&mut self, output: &str, details: &Value) {
        self.output.set(output);
        self.details.clone_from(details);
        self.nested.ended(details);
        self.partial.clear();
        self.sides = OnceCell::new();
    }

    /// Returns the call's input and output as text.
    pub fn source(&self) -> String {
        let came_of_it = changes(self).unwrap_or(&self.output.text);
        format!("{} {}\n{came_of_it}", self.name, self.subject())
    }

    pub(super) fn sides(&self, diff: &str) -> &diff::Sides {
        self.sides.get_or_init(|| {
            let path = self.input.get("path").or_else(|| self.details.get("path")).and_then(Value::as_str);
            let extension = path.and_then(|path| std::path::Path::new(path).extension()?.to_str());
            diff::Sides::new(diff, extension.unwrap_or_default())
        })
    }

    /// Returns the approximate size in bytes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>()
            + self.output.text.len()
            + self.partial.len()
            + held(&self.input)
            + held(&self.details)
    }

    /// Returns the subject of the call in one line: its path, command or pattern.
    pub fn subject(&self) -> String {
        self.view.relative(becket_types::subject(&self.input)).to_owned()
    }

    /// Adds a link to the file to `style`, if the subject is a path.
    pub(super) fn path_link(&self, style: Style) -> Style {
        let Some(path) = self.input.get("path").and_then(Value::as_str).filter(|_| self.group.is_empty())
        else {
            return style;
        };
        if path.starts_with('/') || self.view.workspace.is_empty() {
            return links::to_path(path, style);
        }
        links::to_path(&format!("{}/{path}", self.view.workspace), style)
    }

    /// Returns the hint about the key that opens the call.
    pub(super) fn open_hint(&self) -> String {
        format!("{} opens", crate::keymap::pretty(&self.view.open_key))
    }
}

/// Returns the approximate size of a value in bytes.
fn held(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(held).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + held(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => size_of::<Value>(),
    }
}

/// Returns the numbers of lines that the call added and removed; `None` if it changed no files, or did not tell.
pub(super) fn changed_lines(call: &ToolCall) -> Option<(u64, u64)> {
    let counted = diff::counts(changes(call)?);
    let number = |key| call.details.get(key).and_then(Value::as_u64);
    Some((number("additions").unwrap_or(counted.0 as u64), number("deletions").unwrap_or(counted.1 as u64)))
}

/// Returns the diff of the files that the call changed.
pub(super) fn changes(call: &ToolCall) -> Option<&str> {
    call.details.get("diff").and_then(Value::as_str).filter(|d| !d.is_empty())
}
