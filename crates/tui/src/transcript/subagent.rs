//! The work of a subagent, shown in the call that it works for: its last calls while it works, or all its calls when the
//! block is open.
//!
//! The data comes from the subagent's events while it runs. Once the call has ended, it comes from the report in the
//! call's result, so that a session that is opened again shows the same.

use super::call_view::CallView;
use super::row::{Row, paragraph};
use crate::text;
use crate::theme::Theme;
use becket_types::{CallId, Event, Part, SubagentCall, SubagentReport, subject};
use ratatui::text::{Line, Span};
use serde_json::Value;

/// Calls that are shown below the line of a subagent at work.
const RECENT: usize = 3;
/// Maximum number of calls that are kept while the subagent works.
const LIVE: usize = 200;

/// The calls of a subagent, live or from its report.
#[derive(Debug, Default)]
pub struct Nested {
    calls: Vec<(CallId, SubagentCall)>,
    left_out: u64,
    /// Cost so far, in dollars.
    cost: f64,
    report: Option<SubagentReport>,
}

impl Nested {
    /// Applies an event of the subagent. Returns true if something visible changed.
    pub fn event(&mut self, event: &Event) -> bool {
        match event {
            Event::ToolStarted { call_id, name, input } => self.began(call_id, name, subject(input)),
            Event::PermissionDenied(denial) => {
                self.began(&denial.call_id, &denial.tool, subject(&denial.input));
                self.failed(&denial.call_id);
            }
            Event::ToolFinished { message, .. } => {
                for part in &message.parts {
                    if let Part::ToolResult { call_id, is_error, interrupted, .. } = part
                        && (*is_error || *interrupted)
                    {
                        self.failed(call_id);
                    }
                }
            }
            Event::AssistantMessage { cost, .. } => self.cost += cost.0,
            _ => return false,
        }
        true
    }

    fn began(&mut self, id: &CallId, name: &str, subject: &str) {
        let subject = subject.lines().next().unwrap_or_default().to_owned();
        self.calls.push((id.clone(), SubagentCall { name: name.to_owned(), subject, failed: false }));
        if self.calls.len() > LIVE {
            self.calls.remove(0);
            self.left_out += 1;
        }
    }

    fn failed(&mut self, id: &CallId) {
        if let Some((_, call)) = self.calls.iter_mut().rev().find(|(known, _)| known == id) {
            call.failed = true;
        }
    }

    /// Applies the details of the ended call.
    pub fn ended(&mut self, details: &Value) {
        self.report = SubagentReport::from_details(details);
        if self.report.is_some() {
            self.calls.clear();
        }
    }

    fn calls(&self) -> impl DoubleEndedIterator<Item = &SubagentCall> {
        let told = self.report.iter().flat_map(|report| &report.calls);
        told.chain(self.calls.iter().map(|(_, call)| call))
    }

    /// True once the subagent has ended and its report is known.
    pub(crate) fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// True if the subagent began a call.
    pub fn has_calls(&self) -> bool {
        self.calls().next().is_some()
    }

    fn left_out(&self) -> u64 {
        self.report.as_ref().map_or(self.left_out, |report| report.calls_left_out)
    }

    /// Returns the agent with its number of calls, and its cost, for example `explore`, `12 calls` and `$0.12`. `kind`: the kind
    /// of agent that the call asks for.
    pub(crate) fn totals(&self, kind: &str) -> (Vec<String>, Option<String>) {
        let count = self.calls().count() as u64 + self.left_out();
        let calls = match count {
            0 => String::new(),
            1 => "1 call".to_owned(),
            n => format!("{n} calls"),
        };
        let agent = self.report.as_ref().map_or(kind, |report| &report.agent);
        let agent = text::visible(agent).into_owned();
        let cost = self.report.as_ref().map_or(self.cost, |report| report.cost.0);
        let cost = Some(cost).filter(|usd| *usd > 0.0);
        let parts = [agent, calls].into_iter().filter(|part| !part.is_empty());
        (parts.collect(), cost.map(text::dollars))
    }

    /// Lays out the calls that the subagent began last, the newest one more prominent.
    pub fn recent(&self, width: usize, view: &CallView, theme: &Theme) -> Vec<Row> {
        let mut calls: Vec<&SubagentCall> = self.calls().rev().take(RECENT).collect();
        calls.reverse();
        let newest = calls.len().saturating_sub(1);
        let row = |(at, call): (usize, &SubagentCall)| {
            let name = format!("{} ", text::visible(&call.name));
            let room = width.saturating_sub(text::width(&name) + 2);
            let what = text::fit(&text::visible(view.relative(&call.subject)), room).into_owned();
            let style = match (call.failed, at == newest) {
                (true, _) => theme.outcome.error,
                (_, true) => theme.text,
                _ => theme.dim,
            };
            let spans =
                [Span::styled("│ ", theme.border), Span::styled(name, theme.dim), Span::styled(what, style)];
            Row { gutter: 2, ..Row::from(Line::from(spans.to_vec())) }
        };
        calls.into_iter().enumerate().map(row).collect()
    }

    /// Lays out all calls, one line each.
    pub fn rows(&self, width: usize, view: &CallView, theme: &Theme) -> Vec<Row> {
        let mut rows = Vec::new();
        if self.left_out() > 0 {
            let line = format!("{} earlier calls", self.left_out());
            rows.extend(paragraph(&line, width, "  … ", "    ", theme.dim, theme.dim));
        }
        for call in self.calls() {
            let (mark, style) = if call.failed { ("✗", theme.outcome.error) } else { ("✓", theme.dim) };
            let room = width.saturating_sub(text::width(&call.name) + 5);
            rows.push(
                Line::from(vec![
                    Span::styled(format!("  {mark} "), style),
                    Span::styled(format!("{} ", text::visible(&call.name)), theme.accent),
                    Span::styled(
                        text::fit(&text::visible(view.relative(&call.subject)), room).into_owned(),
                        theme.dim,
                    ),
                ])
                .into(),
            );
        }
        rows
    }
}
