//! One block of the transcript: its content, and the lines of its last layout.
//!
//! Invariant: the lines depend only on the body, the width and the theme. Every change of the body goes through
//! [`Block::change`], which drops the lines. (A growing answer lays out only its new text, see `Markdown`.)

use super::compaction::Compaction;
use super::gap::Gap;
use super::image::Image;
use super::markdown::Markdown;
use super::pasted::{self, Chip};
use super::row::{CodeSpans, Row, paragraph};
use super::tool::ToolCall;
use super::tool_rows;
use crate::page::Sheet;
use crate::text;
use crate::theme::Theme;
use becket_types::{MessageId, Seq};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use std::borrow::Cow;

/// Columns before the text of a block, for its marks.
const GUTTER: usize = 2;
/// Width of [`Block::headline`] in columns.
const HEADLINE: usize = 100;

/// Content of a block.
#[derive(Debug)]
pub enum Body {
    User {
        text: String,
        /// The message arrived while the agent worked, and was answered in that turn.
        steered: bool,
        /// Parts of the text that the user did not type, shown as chips while the message is closed.
        chips: Vec<Chip>,
        open: bool,
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
    Image(Image),
    Compaction(Compaction),
    /// Entries of the session that are not in memory.
    Gap(Gap),
    /// A page drawn from data.
    Sheet(Sheet),
    /// A line by becket itself.
    Note {
        weight: Weight,
        text: String,
    },
    /// A message for the model only, drawn only while hidden messages are revealed.
    Hidden {
        kind: String,
        text: String,
    },
}

/// Importance of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The end of a turn.
    Done,
    Quiet,
    /// The permission mode that holds from now on.
    Mode,
    Warning,
    Error,
}

/// A block with its content and its cached layout.
#[derive(Debug)]
pub struct Block {
    body: Body,
    laid_out: Option<LaidOut>,
    /// The block is summarized in the line of the call before it and not drawn itself.
    summarized: bool,
    /// The session's message that the block belongs to.
    message: Option<(Seq, MessageId)>,
    /// The block is not in the ledger.
    local: bool,
    /// Empty columns before every row: as many as other blocks use for their marks.
    gutter: usize,
}

#[derive(Debug)]
struct LaidOut {
    width: u16,
    theme: &'static str,
    /// Rows of the layout, except those that an answer keeps itself.
    rows: Vec<Row>,
    /// Number of lines, including the empty line after the block.
    count: usize,
}

impl Block {
    /// Creates a block that is not laid out.
    pub fn new(body: Body) -> Self {
        let gutter = if matches!(body, Body::Answer { .. }) { GUTTER } else { 0 };
        Self { body, laid_out: None, summarized: false, message: None, local: false, gutter }
    }

    /// Starts the text at the left edge, as on a page.
    pub(crate) fn at_the_edge(mut self) -> Self {
        self.gutter = 0;
        self
    }

    /// Returns the content.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Changes the content and drops the layout.
    pub fn change(&mut self, change: impl FnOnce(&mut Body)) {
        change(&mut self.body);
        self.laid_out = None;
    }

    /// True if the block is drawn with lines of its own.
    pub fn is_shown(&self, revealed: bool) -> bool {
        !self.summarized && self.is_told(revealed)
    }

    /// Sets the message that the block belongs to.
    pub(crate) fn set_message(&mut self, seq: Seq, id: MessageId) {
        self.message = Some((seq, id));
    }

    /// Marks the block as one that is only in the transcript and not in the ledger.
    pub(crate) fn set_local(&mut self, local: bool) {
        self.local = local;
    }

    /// True if the block is not in the ledger.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Returns the approximate size of the content in bytes.
    pub fn weight(&self) -> usize {
        let said = match &self.body {
            Body::User { text, .. }
            | Body::Answer { text, .. }
            | Body::Thinking { text, .. }
            | Body::Note { text, .. }
            | Body::Hidden { text, .. } => text.len(),
            Body::Tool(call) => call.weight(),
            Body::Compaction(compaction) => {
                let dropped = compaction.dropped.iter().map(|(_, line)| line.len()).sum::<usize>();
                compaction.summary.len() + compaction.anchor.as_ref().map_or(0, String::len) + dropped
            }
            Body::Image(_) | Body::Gap(_) | Body::Sheet(_) => 0,
        };
        said + size_of::<Self>()
    }

    /// Returns the message that the block belongs to.
    pub fn message(&self) -> Option<(Seq, MessageId)> {
        self.message
    }

    /// Returns a description of the block in one line.
    pub(crate) fn headline(&self) -> String {
        let (who, text) = match &self.body {
            Body::User { text, chips, .. } => ("you", pasted::closed(text, chips)),
            Body::Answer { text, .. } => ("answer", Cow::Borrowed(text.as_str())),
            Body::Thinking { text, .. } => ("thought", Cow::Borrowed(text.as_str())),
            Body::Tool(call) => (call.name.as_str(), Cow::Owned(call.subject())),
            Body::Image(image) => ("image", Cow::Borrowed(image.name.as_str())),
            Body::Compaction(compaction) => ("summary", Cow::Borrowed(compaction.summary.as_str())),
            Body::Gap(gap) => ("gap", Cow::Owned(gap.line())),
            Body::Sheet(_) => ("page", Cow::Borrowed("")),
            Body::Note { text, .. } => ("note", Cow::Borrowed(text.as_str())),
            Body::Hidden { kind, .. } => ("for the model only", Cow::Borrowed(kind.as_str())),
        };
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        text::fit(&format!("{who}: {}", text::visible(line.trim())), HEADLINE).into_owned()
    }

    /// True if the user may see the block, in its own lines or in the line of another call. Only hidden messages that
    /// are not revealed are not seen.
    pub fn is_told(&self, revealed: bool) -> bool {
        revealed || !matches!(self.body, Body::Hidden { .. })
    }

    /// True if the block is summarized in the line of another call.
    pub(crate) fn is_summarized(&self) -> bool {
        self.summarized
    }

    /// Records if the block is summarized in the line of another call.
    pub(crate) fn set_summarized(&mut self, summarized: bool) {
        self.summarized = summarized;
    }

    /// True if the block may still grow.
    pub fn is_live(&self) -> bool {
        match &self.body {
            Body::Thinking { done, .. } => !done,
            Body::Tool(call) => call.state.is_live(),
            _ => false,
        }
    }

    /// Returns the content, whether open or not. It is used for search and copy.
    pub fn source(&self) -> Cow<'_, str> {
        match &self.body {
            Body::User { text, .. }
            | Body::Answer { text, .. }
            | Body::Thinking { text, .. }
            | Body::Note { text, .. }
            | Body::Hidden { text, .. } => Cow::Borrowed(text),
            Body::Tool(call) => Cow::Owned(call.source()),
            Body::Image(image) => Cow::Borrowed(&image.name),
            Body::Gap(_) => Cow::Borrowed(""),
            Body::Sheet(sheet) => Cow::Owned(sheet.spoken()),
            Body::Compaction(compaction) => match &compaction.anchor {
                Some(anchor) => Cow::Owned(format!("{}\n{anchor}", compaction.summary)),
                None => Cow::Borrowed(&compaction.summary),
            },
        }
    }

    /// Returns if the block is open; `None` if it cannot be opened.
    pub fn open(&self) -> Option<bool> {
        match &self.body {
            Body::User { chips, open, .. } => (!chips.is_empty()).then_some(*open),
            Body::Thinking { open, .. } => Some(*open),
            Body::Compaction(compaction) => Some(compaction.open),
            Body::Tool(call) => Some(call.open),
            _ => None,
        }
    }

    /// Opens or closes the block, if it can be opened.
    pub(crate) fn set_open(&mut self, to: bool) {
        if self.open().is_none_or(|now| now == to) {
            return;
        }
        self.change(|body| match body {
            Body::User { open, .. } | Body::Thinking { open, .. } => *open = to,
            Body::Compaction(compaction) => compaction.open = to,
            Body::Tool(call) => call.open = to,
            _ => {}
        });
    }

    /// Lays the block out if something changed. Returns its number of lines, including the empty line after it.
    pub fn lay_out(&mut self, width: u16, theme: &Theme) -> usize {
        if let Some(have) = &self.laid_out
            && have.width == width
            && have.theme == theme.name
        {
            return have.count;
        }
        let columns = usize::from(width).saturating_sub(self.gutter).max(1);
        let (rows, count) = match &mut self.body {
            Body::Answer { text, layout } => (Vec::new(), layout.lay_out(text, columns, theme)),
            body => {
                let rows = lay_out(body, columns, theme);
                let count = rows.len();
                (rows, count)
            }
        };
        self.laid_out = Some(LaidOut { width, theme: theme.name, rows, count: count + 1 });
        count + 1
    }

    fn row(&self, index: usize) -> Option<&Row> {
        match (&self.body, &self.laid_out) {
            (Body::Answer { layout, .. }, _) => layout.row(index),
            (_, Some(laid_out)) => laid_out.rows.get(index),
            _ => None,
        }
    }

    /// Returns a row of the last layout, with the colours that are known so far.
    pub fn line(&self, index: usize, theme: &Theme) -> Line<'static> {
        let mut line = self.row(index).map(|row| row.styled(theme)).unwrap_or_default();
        if self.gutter > 0 && !line.spans.is_empty() {
            line.spans.insert(0, Span::raw(" ".repeat(self.gutter)));
        }
        line
    }

    /// True for rows of the user's messages, whose background covers the full width.
    pub(crate) fn has_band(&self, index: usize) -> bool {
        matches!(self.body, Body::User { .. }) && self.is_row(index)
    }

    /// True for rows of a block of code in an answer.
    pub(crate) fn is_code(&self, index: usize) -> bool {
        self.row(index).is_some_and(|row| row.is_code)
    }

    /// True if this is a row of the block itself, not the blank row after it.
    pub(crate) fn is_row(&self, index: usize) -> bool {
        self.row(index).is_some()
    }

    /// Returns the columns before a row's text, the text, and its relation to the row above.
    pub fn text(&self, index: usize) -> (usize, String, text::Joint) {
        self.row(index)
            .map_or_else(Default::default, |row| (self.gutter + row.gutter, row.text(), row.joint.clone()))
    }

    /// Returns the code in a row.
    pub fn code(&self, index: usize) -> &[CodeSpans] {
        self.row(index).map(|row| row.code.as_slice()).unwrap_or_default()
    }

    /// Returns the number of pieces of a growing answer (paragraphs, lists, blocks of code) that will not change while
    /// more text arrives. The number is the same at every width.
    pub fn settled(&self) -> usize {
        match &self.body {
            Body::Answer { layout, .. } => layout.settled(),
            _ => 0,
        }
    }

    /// Returns the first row after this many pieces.
    pub(crate) fn row_behind(&self, pieces: usize) -> usize {
        match &self.body {
            Body::Answer { layout, .. } => layout.row_behind(pieces),
            _ => 0,
        }
    }
}

fn lay_out(body: &Body, width: usize, theme: &Theme) -> Vec<Row> {
    match body {
        Body::User { text, steered, chips, open } => {
            let mark = if *steered { "↳ " } else { "› " };
            let shown = if *open { Cow::Borrowed(text.as_str()) } else { pasted::closed(text, chips) };
            paragraph(&shown, width, mark, "  ", theme.user, theme.user)
        }
        Body::Answer { .. } => Vec::new(),
        Body::Thinking { text, open, done } => thinking(text, *open, *done, width, theme),
        Body::Tool(call) => tool_rows::lay_out(call, width, theme),
        Body::Image(image) => image.lay_out(width, theme),
        Body::Compaction(compaction) => compaction.lay_out(width, theme),
        Body::Gap(gap) => vec![Line::styled(text::fit(&gap.line(), width).into_owned(), theme.dim).into()],
        Body::Sheet(sheet) => sheet.rows(width, theme).into_iter().map(Row::from).collect(),
        Body::Note { weight, text } => {
            let (mark, style, words) = match weight {
                Weight::Done => ("✓ ", theme.outcome.ok, theme.dim),
                Weight::Quiet | Weight::Mode => ("· ", theme.dim, theme.dim),
                Weight::Warning => ("! ", theme.outcome.warning, theme.outcome.warning),
                Weight::Error => ("✗ ", theme.outcome.error, theme.outcome.error),
            };
            paragraph(text, width, mark, "  ", style, words)
        }
        Body::Hidden { kind, text } => {
            let mut rows =
                paragraph(&format!("for the model only: {kind}"), width, "◌ ", "  ", theme.dim, theme.dim);
            rows.extend(paragraph(text, width, "┊ ", "┊ ", theme.dim, theme.dim));
            rows
        }
    }
}

fn thinking(text: &str, open: bool, done: bool, width: usize, theme: &Theme) -> Vec<Row> {
    let style = theme.dim.add_modifier(Modifier::ITALIC);
    if open {
        return thoughts(text, width, theme.dim, style);
    }
    let label = if done { "thought" } else { "thinking" };
    let last = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
    let last = bold_parts(last.trim()).map(|(part, _)| part).collect::<String>();
    let line = format!("∴ {label}: {}", text::visible(&last));
    vec![Line::styled(text::fit(&line, width).into_owned(), style).into()]
}

/// Lays out open thoughts as a paragraph, with text between `**` in bold.
fn thoughts(text: &str, width: usize, mark: Style, style: Style) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in text.lines() {
        let lead = if rows.is_empty() { "∴ " } else { "  " };
        let spans: Vec<Span<'_>> = bold_parts(line)
            .map(|(part, bold)| {
                let style = if bold { style.add_modifier(Modifier::BOLD) } else { style };
                Span::styled(text::visible(part), style)
            })
            .collect();
        rows.extend(Row::wrapped(&spans, width, &Span::styled(lead, mark), &Span::raw("  ")));
    }
    rows
}

/// Splits a line at `**` and marks the bold parts. A `**` without its partner is text.
fn bold_parts(line: &str) -> impl Iterator<Item = (&str, bool)> {
    let paired = line.matches("**").count().is_multiple_of(2);
    let mark = if paired { "**" } else { "\n" };
    line.split(mark).enumerate().map(|(i, part)| (part, i % 2 == 1))
}
