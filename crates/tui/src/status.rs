//! The status line, and the line above the composer that says what is going on.
//!
//! Everything shown is derived from events; it says "working" only while a turn runs. Wakes once a second during a turn for
//! the elapsed time, never otherwise.

use crate::input::{Effect, Timer};
use crate::text;
use crate::theme::Theme;
use crate::transcript::block::thousands;
use becket_types::{Cost, Event, TurnResult, Usage};
use ratatui::text::{Line, Span};

#[derive(Debug, Default)]
pub struct Status {
    model: String,
    mode: String,
    directory: String,
    context: Option<(u64, u64)>,
    usage: Usage,
    cost: Cost,
    /// Seconds since the turn began, and what is being done.
    turn: Option<Turn>,
    /// A message that goes away.
    toast: Option<String>,
    queued: usize,
    /// A command of the person's that runs.
    command: Option<String>,
}

#[derive(Debug, Default)]
struct Turn {
    seconds: u64,
    doing: String,
}

impl Status {
    pub fn is_working(&self) -> bool {
        self.turn.is_some()
    }

    pub fn event(&mut self, event: &Event) -> Vec<Effect> {
        match event {
            Event::SessionStarted { model, permission_mode, cwd, .. } => {
                self.model.clone_from(model);
                self.mode.clone_from(permission_mode);
                self.directory = cwd
                    .file_name()
                    .map_or_else(|| cwd.display().to_string(), |name| name.to_string_lossy().into_owned());
            }
            Event::StepStarted { .. } => return self.doing("waiting for the model"),
            Event::TextDelta { .. } => return self.doing("answering"),
            Event::ReasoningDelta { .. } => return self.doing("thinking"),
            Event::ToolCallDelta { name, .. } if !name.is_empty() => {
                return self.doing(&format!("preparing {name}"));
            }
            Event::ToolStarted { name, .. } => return self.doing(&format!("running {name}")),
            Event::PermissionAsked(_) => return self.doing("waiting for you"),
            Event::CompactionStarted { .. } => return self.doing("compacting the context"),
            Event::Retry { attempt, max, delay, error, .. } => {
                let seconds = delay.0.div_ceil(1_000);
                return self.doing(&format!("{error}; try {attempt} of {max} in {seconds} s"));
            }
            Event::AssistantMessage { usage, cost, .. } => {
                self.usage += *usage;
                self.cost += *cost;
            }
            Event::ContextUsed { used, usable, .. } => self.context = Some((used.0, usable.0)),
            Event::TurnFinished(result) => self.finished(result),
            _ => {}
        }
        Vec::new()
    }

    fn finished(&mut self, _result: &TurnResult) {
        self.turn = None;
    }

    fn doing(&mut self, what: &str) -> Vec<Effect> {
        match &mut self.turn {
            Some(turn) => {
                if turn.doing != what {
                    what.clone_into(&mut turn.doing);
                }
                Vec::new()
            }
            None => {
                self.turn = Some(Turn { seconds: 0, doing: what.to_owned() });
                vec![Effect::Wake(1_000, Timer::Clock)]
            }
        }
    }

    /// A prompt was sent: the turn begins for the person who sent it.
    pub fn sent(&mut self) -> Vec<Effect> {
        self.doing("sending")
    }

    /// A second has passed.
    pub fn tick(&mut self) -> Vec<Effect> {
        match &mut self.turn {
            Some(turn) => {
                turn.seconds += 1;
                vec![Effect::Wake(1_000, Timer::Clock)]
            }
            None => Vec::new(),
        }
    }

    pub fn toast(&mut self, text: String) -> Vec<Effect> {
        self.toast = Some(text);
        vec![Effect::Wake(3_000, Timer::Toast)]
    }

    pub fn end_toast(&mut self) {
        self.toast = None;
    }

    /// A command of the person's that runs; `None` when it ended.
    pub fn set_command(&mut self, command: Option<String>) {
        self.command = command;
    }

    pub fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    pub fn set_queued(&mut self, queued: usize) {
        self.queued = queued;
    }

    /// What is going on; empty while idle.
    pub fn activity(&self, width: u16, theme: &Theme) -> Option<Line<'static>> {
        let Some(turn) = &self.turn else {
            let line = format!("◐ $ {} · Esc stops it", text::visible(self.command.as_ref()?));
            return Some(Line::styled(text::fit(&line, usize::from(width)).into_owned(), theme.dim));
        };
        let time = match turn.seconds {
            0 => String::new(),
            s @ 1..60 => format!(" · {s} s"),
            s => format!(" · {} min {} s", s / 60, s % 60),
        };
        let queued = match self.queued {
            0 => String::new(),
            n => format!(" · {n} queued"),
        };
        let line = format!("◐ {}{time}{queued} · Esc interrupts", text::visible(&turn.doing));
        Some(Line::styled(text::fit(&line, usize::from(width)).into_owned(), theme.dim))
    }

    pub fn line(&self, width: u16, theme: &Theme) -> Line<'static> {
        if let Some(toast) = &self.toast {
            return Line::styled(
                text::fit(&text::visible(toast), usize::from(width)).into_owned(),
                theme.accent,
            );
        }
        let context = match self.context {
            Some((used, usable)) if usable > 0 => {
                format!("{} % of {}", used * 100 / usable, thousands(usable))
            }
            _ => String::new(),
        };
        let tokens = if self.usage.is_empty() {
            String::new()
        } else {
            format!("↑{} ↓{}", thousands(self.usage.context().0), thousands(self.usage.output))
        };
        let cost = if self.cost.0 > 0.0 { format!("${:.2}", self.cost.0) } else { String::new() };
        let parts = [self.model.as_str(), &self.mode, &self.directory, &context, &tokens, &cost];
        let shown: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        let line = text::visible(&shown.join(" · ")).into_owned();
        Line::from(Span::styled(text::fit(&line, usize::from(width)).into_owned(), theme.dim))
    }
}
