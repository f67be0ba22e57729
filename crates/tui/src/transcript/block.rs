//! One block of the transcript: what it says, and the lines it was last laid out as.
//!
//! Invariant: the lines depend on the body, the width and the theme alone; every change of the body goes through
//! [`Block::change`], which drops them (a growing answer lays out what is new in it, see `Markdown`).

use super::markdown::Markdown;
use super::tool::{self, ToolCall};
use crate::text;
use crate::theme::Theme;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// What a block says.
#[derive(Debug)]
pub enum Body {
    User {
        text: String,
        /// It came while the agent worked and was answered in that turn.
        steered: bool,
    },
    Answer {
        text: String,
        layout: Markdown,
    },
    Thinking {
        text: String,
        open: bool,
        done: bool,
    },
    Tool(Box<ToolCall>),
    Compaction {
        before: u64,
        after: u64,
        summary: String,
        anchor: Option<String>,
        open: bool,
    },
    /// A line of becket's.
    Note {
        weight: Weight,
        text: String,
    },
    /// A message the model sees and people do not; drawn only while revealed.
    Hidden {
        kind: String,
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    Quiet,
    Warning,
    Error,
}

#[derive(Debug)]
pub struct Block {
    body: Body,
    laid_out: Option<LaidOut>,
}

#[derive(Debug)]
struct LaidOut {
    width: u16,
    theme: &'static str,
    /// Without those that an answer keeps itself.
    lines: Vec<Line<'static>>,
    /// The empty line behind the block included.
    count: usize,
}

impl Block {
    pub fn new(body: Body) -> Self {
        Self { body, laid_out: None }
    }

    pub fn body(&self) -> &Body {
        &self.body
    }

    pub fn change(&mut self, change: impl FnOnce(&mut Body)) {
        change(&mut self.body);
        self.laid_out = None;
    }

    /// Whether it is drawn at all.
    pub fn is_shown(&self, revealed: bool) -> bool {
        revealed || !matches!(self.body, Body::Hidden { .. })
    }

    /// Whether it is open, for blocks that open.
    pub fn open(&self) -> Option<bool> {
        match &self.body {
            Body::Thinking { open, .. } | Body::Compaction { open, .. } => Some(*open),
            Body::Tool(call) => Some(call.open),
            _ => None,
        }
    }

    pub fn set_open(&mut self, to: bool) {
        if self.open().is_none_or(|now| now == to) {
            return;
        }
        self.change(|body| match body {
            Body::Thinking { open, .. } | Body::Compaction { open, .. } => *open = to,
            Body::Tool(call) => call.open = to,
            _ => {}
        });
    }

    /// Lays it out if something changed; the number of its lines, an empty one behind it included.
    pub fn lay_out(&mut self, width: u16, theme: &Theme) -> usize {
        if let Some(have) = &self.laid_out
            && have.width == width
            && have.theme == theme.name
        {
            return have.count;
        }
        let columns = usize::from(width);
        let (lines, count) = match &mut self.body {
            Body::Answer { text, layout } => (Vec::new(), layout.lay_out(text, columns, theme)),
            body => {
                let lines = lay_out(body, columns, theme);
                let count = lines.len();
                (lines, count)
            }
        };
        self.laid_out = Some(LaidOut { width, theme: theme.name, lines, count: count + 1 });
        count + 1
    }

    /// A line of the last layout.
    pub fn line(&self, index: usize) -> Line<'static> {
        let line = match (&self.body, &self.laid_out) {
            (Body::Answer { layout, .. }, _) => layout.line(index),
            (_, Some(laid_out)) => laid_out.lines.get(index),
            _ => None,
        };
        line.cloned().unwrap_or_default()
    }
}

fn lay_out(body: &Body, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    match body {
        Body::User { text, steered } => {
            let mark = if *steered { "↳ " } else { "> " };
            paragraph(text, width, mark, "  ", theme.user, theme.user)
        }
        Body::Answer { .. } => Vec::new(),
        Body::Thinking { text, open, done } => thinking(text, *open, *done, width, theme),
        Body::Tool(call) => tool::lay_out(call, width, theme),
        Body::Compaction { before, after, summary, anchor, open } => {
            compaction(*before, *after, summary, anchor.as_deref(), *open, width, theme)
        }
        Body::Note { weight, text } => {
            let (mark, style) = match weight {
                Weight::Quiet => ("· ", theme.dim),
                Weight::Warning => ("! ", theme.warning),
                Weight::Error => ("✗ ", theme.error),
            };
            paragraph(text, width, mark, "  ", style, style)
        }
        Body::Hidden { kind, text } => {
            let mut lines =
                paragraph(&format!("for the model only: {kind}"), width, "◌ ", "  ", theme.dim, theme.dim);
            lines.extend(paragraph(text, width, "┊ ", "┊ ", theme.dim, theme.dim));
            lines
        }
    }
}

/// Plain text, line by line, wrapped behind a mark.
pub(super) fn paragraph(
    text: &str,
    width: usize,
    first: &'static str,
    rest: &'static str,
    mark: Style,
    style: Style,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for line in text.lines().chain(text.is_empty().then_some("")) {
        let lead = if lines.is_empty() { first } else { rest };
        let shown = text::visible(line);
        lines.extend(text::wrap(
            &[Span::styled(shown.as_ref(), style)],
            width,
            &Span::styled(lead, mark),
            &Span::styled(rest, mark),
        ));
    }
    lines
}

fn thinking(text: &str, open: bool, done: bool, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let style = theme.dim.add_modifier(Modifier::ITALIC);
    if open {
        return paragraph(text, width, "∴ ", "  ", theme.dim, style);
    }
    let label = if done { "thought" } else { "thinking" };
    let last = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
    let line = format!("∴ {label}: {}", text::visible(last.trim()));
    vec![Line::styled(text::fit(&line, width).into_owned(), style)]
}

fn compaction(
    before: u64,
    after: u64,
    summary: &str,
    anchor: Option<&str>,
    open: bool,
    width: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let line = format!("⊟ context compacted {} → {} · see what changed", thousands(before), thousands(after));
    let mut lines = vec![Line::styled(text::fit(&line, width).into_owned(), theme.accent)];
    if open {
        lines.extend(paragraph("summary", width, "  ", "  ", theme.dim, theme.accent));
        lines.extend(paragraph(summary, width, "  ", "  ", theme.dim, theme.text));
        if let Some(anchor) = anchor {
            lines.extend(paragraph("kept word for word", width, "  ", "  ", theme.dim, theme.accent));
            lines.extend(paragraph(anchor, width, "  ", "  ", theme.dim, theme.text));
        }
    }
    lines
}

/// `148k`, `1.2M`, `950`.
pub fn thousands(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{}.{}k", n / 1_000, n % 1_000 / 100),
        10_000..1_000_000 => format!("{}k", n / 1_000),
        _ => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}
