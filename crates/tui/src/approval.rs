//! The question whether a call may run, and its answer.
//!
//! What is shown is what runs: the tool, the resolved paths, the whole command with invisible characters shown. It asks one
//! call after the other, in order. An answer counts only when the question has been on the screen for [`ARM`] milliseconds:
//! keys typed ahead and clicks that only focus the window never approve. What is asked when in doubt is No.

use crate::input::{Effect, Timer};
use crate::text;
use crate::theme::Theme;
use becket_types::{CallId, Command, Decision, PermissionRequest};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use std::collections::VecDeque;

/// A question must have been seen for this long, in milliseconds.
pub const ARM: u64 = 300;

#[derive(Debug, Default)]
pub struct Approvals {
    queue: VecDeque<PermissionRequest>,
    /// The first of the queue has been shown long enough.
    armed: bool,
    /// The timer of the first of the queue was asked for.
    waiting: bool,
    scroll: usize,
    /// Rows of the question, and of the window on it, when drawn last.
    rows: usize,
    window: usize,
    /// The end of the question has been in view.
    seen_end: bool,
    /// Why not, while it is being written.
    reason: Option<String>,
}

impl Approvals {
    pub fn is_open(&self) -> bool {
        !self.queue.is_empty()
    }

    pub fn ask(&mut self, request: PermissionRequest) -> Vec<Effect> {
        let text = format!("{} waits for permission", request.tool);
        self.queue.push_back(request);
        vec![Effect::Notify(text)]
    }

    /// The call was settled elsewhere.
    pub fn settled(&mut self, call: &CallId) {
        let first = self.queue.front().is_some_and(|r| r.call_id == *call);
        self.queue.retain(|r| r.call_id != *call);
        if first {
            self.begin();
        }
    }

    pub fn clear(&mut self) {
        self.queue.clear();
        self.begin();
    }

    fn begin(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        *self = Self { queue, ..Self::default() };
    }

    /// The question was painted: its time begins.
    pub fn painted(&mut self) -> Vec<Effect> {
        if self.queue.is_empty() || self.waiting {
            return Vec::new();
        }
        self.waiting = true;
        vec![Effect::Wake(ARM, Timer::Arm)]
    }

    pub fn arm(&mut self) {
        self.armed = self.waiting;
    }

    pub fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if let Some(reason) = &mut self.reason {
            match key.code {
                KeyCode::Enter => {
                    let reason = Some(reason.trim().to_owned()).filter(|r| !r.is_empty());
                    return self.decide(Decision::Deny { reason });
                }
                KeyCode::Esc => self.reason = None,
                KeyCode::Backspace => {
                    reason.pop();
                }
                KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => reason.push(c),
                _ => {}
            }
            return Vec::new();
        }
        let page = self.window.max(1);
        match key.code {
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll += page,
            _ if !self.armed => {}
            KeyCode::Char('y') if self.seen_end => return self.decide(Decision::AllowOnce),
            KeyCode::Char('s') if self.seen_end => return self.decide(Decision::AllowSession),
            KeyCode::Char('n') | KeyCode::Enter | KeyCode::Esc => {
                return self.decide(Decision::Deny { reason: None });
            }
            KeyCode::Char('r') => self.reason = Some(String::new()),
            _ => {}
        }
        Vec::new()
    }

    fn decide(&mut self, decision: Decision) -> Vec<Effect> {
        let Some(request) = self.queue.pop_front() else { return Vec::new() };
        self.begin();
        vec![Effect::Send(Command::Decide { call_id: request.call_id, decision })]
    }

    /// Rows it wants.
    pub fn height(&self, width: u16, theme: &Theme) -> u16 {
        (self.question(width, theme).len() + 2).min(usize::from(u16::MAX)) as u16
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let question = self.question(area.width, theme);
        self.rows = question.len();
        self.window = usize::from(area.height).saturating_sub(1);
        self.scroll = self.scroll.min(self.rows.saturating_sub(self.window));
        self.seen_end |= self.scroll + self.window >= self.rows;
        let buffer = frame.buffer_mut();
        for (i, line) in question.iter().skip(self.scroll).take(self.window).enumerate() {
            buffer.set_line(area.x, area.y + i as u16, line, area.width);
        }
        let keys = match &self.reason {
            Some(reason) => format!("why not: {}▏  Enter sends it, Esc goes back", text::visible(reason)),
            None if !self.seen_end => "↓ there is more to read before it can be allowed · n no".to_owned(),
            None => "y once · s for this session · n no · r no, and say why".to_owned(),
        };
        if area.height > 0 {
            let keys = text::fit(&keys, usize::from(area.width)).into_owned();
            buffer.set_line(area.x, area.bottom() - 1, &Line::styled(keys, theme.accent), area.width);
        }
    }

    fn question(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        let Some(request) = self.queue.front() else { return Vec::new() };
        let width = usize::from(width);
        let mut lines = vec![Line::styled("─".repeat(width), theme.warning)];
        let others = self.queue.len() - 1;
        let more = if others > 0 { format!("  ({others} more behind it)") } else { String::new() };
        lines.push(Line::from(vec![
            Span::styled("? ", theme.warning),
            Span::styled(format!("{} wants to run", request.tool), theme.accent),
            Span::styled(more, theme.dim),
        ]));
        let mut say = |lead: &'static str, what: &str, style| {
            for (i, line) in what.split('\n').enumerate() {
                let mark = if i == 0 { lead } else { "    " };
                lines.extend(text::wrap(
                    &[Span::styled(text::visible(line).into_owned(), style)],
                    width,
                    &Span::styled(mark, theme.dim),
                    &Span::raw("    "),
                ));
            }
        };
        if let Some(command) = &request.access.command {
            say("  $ ", command, theme.code);
        }
        for path in &request.access.paths {
            say("  → ", &path.to_string_lossy(), theme.code);
        }
        if let Some(subject) = &request.access.subject {
            say("  · ", subject, theme.code);
        }
        if request.access.command.is_none() {
            let input = serde_json::to_string_pretty(&request.input).unwrap_or_default();
            say("    ", &input, theme.dim);
        }
        say("  why ", &request.reason, theme.dim);
        lines
    }
}
