//! Drawing of the inspector's pages.
//!
//! A row of a list that is too long is cut. The chosen row is then described in full below the list, so nothing is lost.

use super::list::List;
use super::{ANSWERS, InspectedRequest, Inspector, Level, SentRow, SpanRow};
use crate::answers::{Answer, TAKES, TWICE};
use crate::hint;
use crate::text::{self, thousands};
use crate::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};

/// From this width on, columns show dates and words instead of times and letters.
const WIDE: usize = 70;
/// Columns that are kept for the position in the page beside the title.
const PLACE: usize = 12;
/// From this height on, answers and keys get more than one line.
const TALL: u16 = 16;
/// From this height on, the chosen row is described in lines of its own.
const DESCRIBED: u16 = 10;

/// Text wrapped at the edge of the screen, with every character made visible.
pub(super) struct Wrapped {
    text: String,
    width: usize,
    lines: Vec<String>,
    top: usize,
}

impl Wrapped {
    pub(super) fn new(text: String) -> Self {
        Self { text, width: 0, lines: Vec::new(), top: 0 }
    }

    pub(super) fn go(&mut self, by: isize) {
        self.top = self.top.saturating_add_signed(by);
    }

    fn lines(&mut self, width: usize, shown: usize) -> &[String] {
        if self.width != width {
            let cut = |line: &str| {
                let line = text::visible(line).into_owned();
                text::chunks(&line, width).into_iter().map(str::to_owned).collect::<Vec<_>>()
            };
            self.lines = self.text.lines().flat_map(cut).collect();
            self.width = width;
        }
        self.top = self.top.min(self.lines.len().saturating_sub(shown));
        &self.lines[self.top..(self.top + shown).min(self.lines.len())]
    }

    /// Describes the scroll position if not all of the text fits.
    fn place(&self, shown: usize) -> Option<String> {
        let rest = self.lines.len().checked_sub(shown).filter(|rest| *rest > 0)?;
        Some(format!("{} %", 100 * self.top.min(rest) / rest))
    }
}

impl Inspector {
    /// Draws the page, and the question below it if one is open.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        Clear.render(area, frame.buffer_mut());
        if area.height < 3 || area.width == 0 {
            return;
        }
        let width = usize::from(area.width);
        let mut put = |y: u16, line: Line<'_>| {
            if y >= area.height {
                return;
            }
            let fill = " ".repeat(width.saturating_sub(text::line_width(&line)));
            let style = line.style;
            let mut spans = line.spans;
            spans.push(Span::raw(fill));
            frame.buffer_mut().set_line(area.x, area.y + y, &Line::from(spans).style(style), area.width);
        };
        let plain = |line: &str, style: Style| {
            Line::styled(text::fit(&text::visible(line), width).into_owned(), style)
        };
        let below = self.below(width, area.height, theme);
        let (title, columns) = self.head(width);
        let title = format!("── {title}");
        // On a small screen, the rows of the page count more than the end of the title.
        let mut title = if area.height < TALL {
            vec![text::fit(&text::visible(&title), width.saturating_sub(PLACE)).into_owned()]
        } else {
            wrapped(&title, width)
        };
        let room = area.height.saturating_sub((title.len() + below.len()) as u16).max(1);
        let columns = columns.filter(|_| room > 1);
        let shown = usize::from(room) - usize::from(columns.is_some());
        self.rows = shown;
        let rows = self.page(width, shown);
        // The scroll position is known only now that the page was laid out.
        let place = self.place().map(|place| format!(" {place} ──")).unwrap_or_default();
        if let Some(last) = title.last_mut() {
            let rule = width.saturating_sub(text::width(last) + 1 + text::width(&place));
            *last = format!("{} {}{place}", last.trim_end(), "─".repeat(rule));
        }
        let mut y = 0;
        for line in &title {
            put(y, plain(line, theme.accent));
            y += 1;
        }
        if let Some(columns) = columns {
            put(y, plain(&columns, theme.dim));
            y += 1;
        }
        for (line, chosen) in rows {
            put(y, plain(&line, if chosen { theme.selected } else { theme.text }));
            y += 1;
        }
        let from = area.height.saturating_sub(below.len() as u16);
        for (n, line) in below.into_iter().enumerate() {
            put(from + n as u16, line);
        }
    }

    /// Returns the title and the names of the columns.
    fn head(&self, width: usize) -> (String, Option<String>) {
        match self.levels.last() {
            Some(Level::Spans { request, page }) => {
                let of = page.as_ref().map_or_else(
                    || match request {
                        InspectedRequest::Now => "now".to_owned(),
                        InspectedRequest::Sent(number) => format!("request {number}"),
                    },
                    |(head, _)| head.clone(),
                );
                let columns = if width < WIDE {
                    format!("  {:>5} {:>6}  cache what", "seq", "tokens")
                } else {
                    format!("  {:>6} {:>7}  {:<6} {:<7}  what", "seq", "tokens", "sent", "cache")
                };
                (of, Some(columns))
            }
            Some(Level::Text { title, .. }) => (title.clone(), None),
            _ => {
                let columns = if width < WIDE {
                    format!("  {:>4} {:<5} {:>6} {:>6}  new", "N", "time", "tokens", "cached")
                } else {
                    format!("  {:>5}  {:<16} {:>7} {:>7}  new before it", "N", "time", "tokens", "cached")
                };
                ("requests as they were sent".to_owned(), Some(columns))
            }
        }
    }

    fn page(&mut self, width: usize, shown: usize) -> Vec<(String, bool)> {
        match self.levels.last_mut() {
            Some(Level::Requests(Some(list))) => {
                list.view(shown).map(|(chosen, row)| (sent(row, chosen, width), chosen)).collect()
            }
            Some(Level::Spans { page: Some((_, list)), .. }) => {
                list.view(shown).map(|(chosen, row)| (span(row, chosen, width), chosen)).collect()
            }
            Some(Level::Text { text: Some(text), .. }) => {
                text.lines(width, shown).iter().map(|line| (line.clone(), false)).collect()
            }
            _ => vec![("…".to_owned(), false)],
        }
    }

    /// Returns the lines under the page: the question or the chosen row, the last message, and the keys.
    fn below(&self, width: usize, height: u16, theme: &Theme) -> Vec<Line<'static>> {
        let rule = || Line::styled("─".repeat(width), theme.dim);
        if let Some((plan, list)) = &self.asking {
            let tight = height < TALL;
            let told = |line: &&str| !tight || !line.starts_with("Items: ");
            let plan = plan.to_string();
            let lines = plan.lines().filter(told).flat_map(|line| wrapped(line, width));
            let mut out = vec![rule()];
            out.extend(lines.map(|line| Line::styled(line, theme.text)));
            // The last lines of the plan state the cost, so a small screen shows the end.
            let rows_of_answers = if tight { 2 } else { ANSWERS.len() + 1 };
            let most = usize::from(height).saturating_sub(2 + rows_of_answers);
            let skip = out.len().saturating_sub(most);
            out.drain(..skip);
            let mut answers = ANSWERS.map(|(long, short)| Answer::new(long, short));
            let focused = list.is_focused();
            for (at, answer) in answers.iter_mut().enumerate() {
                (answer.keys, answer.proposed) = match (focused, at) {
                    (true, at) if list.is_at(at) => (TAKES, false),
                    (false, 0) => (TWICE, true),
                    _ => ("", false),
                };
            }
            out.extend(list.lines(&answers, width, tight, theme).0);
            let keys = if focused {
                ["↑ ↓ select · Enter takes it · Esc cancels", "Enter takes it · Esc cancels"]
            } else {
                ["Enter marks, Enter again answers · Esc cancels", "Enter twice answers · Esc cancels"]
            };
            out.push(hint::line(hint::fitting(&keys, width), width, theme));
            return out;
        }
        let mut out = Vec::new();
        if height >= DESCRIBED {
            let about = self.about(width);
            if !about.is_empty() {
                out.push(rule());
                let most = usize::from(height / 4).max(2);
                out.extend(limited(about, most, width).into_iter().map(|line| Line::styled(line, theme.dim)));
            }
        }
        out.extend(wrapped(&self.said, width).into_iter().take(3).map(|line| Line::styled(line, theme.dim)));
        out.extend(self.keys(width, height).iter().map(|keys| hint::line(keys, width, theme)));
        out
    }

    /// Describes the chosen row in full. Empty if its row in the list shows it in full.
    fn about(&self, width: usize) -> Vec<String> {
        let lines = match self.levels.last() {
            Some(Level::Requests(Some(list))) => {
                let Some(row) = list.row() else { return Vec::new() };
                if text::width(&sent(row, true, width)) <= width {
                    return Vec::new();
                }
                vec![row.notes.join(", ")]
            }
            Some(Level::Spans { page: Some((_, list)), .. }) => {
                let Some(row) = list.row() else { return Vec::new() };
                vec![about(row), row.preview.clone()]
            }
            _ => Vec::new(),
        };
        lines.iter().filter(|line| !line.is_empty()).flat_map(|line| wrapped(line, width)).collect()
    }

    /// Describes the position in the page: the number of the chosen row, or the scroll position.
    fn place(&self) -> Option<String> {
        match self.levels.last()? {
            Level::Requests(Some(list)) => (list.len() > self.rows).then(|| place_in(list)),
            Level::Spans { page: Some((_, list)), .. } => Some(place_in(list)),
            Level::Text { text: Some(text), .. } => text.place(self.rows),
            _ => None,
        }
    }

    /// Returns the lines that say what keys do, in the order of all pages: select, open, change, leave.
    fn keys(&self, width: usize, height: u16) -> Vec<String> {
        let forms: &[&str] = match self.levels.last() {
            Some(Level::Text { .. }) => {
                &["PageUp, PageDown and the wheel scroll · Esc goes back", "PageDown scrolls · Esc goes back"]
            }
            Some(Level::Spans { .. }) => &[
                "↑ ↓ select · Enter shows it · = compares · d drops · c collapses · p pins · b restores · u undoes · r redoes · Esc goes back",
                "Enter shows it · d drops · c collapses · p pins · u undoes · Esc goes back",
                "Enter shows it · d drops · u undoes · Esc goes back",
                "Enter shows it · Esc goes back",
            ],
            _ => &[
                "↑ ↓ select · Enter opens it · = compares with the one before · b restores · u undoes · r redoes · Esc closes",
                "Enter opens it · = compares · b restores · u undoes · Esc closes",
                "Enter opens it · Esc closes",
            ],
        };
        let long = hint::wrapped(forms[0], width);
        if long.len() == 1 || height >= TALL && width >= WIDE {
            return long;
        }
        vec![hint::fitting(&forms[1..], width).to_owned()]
    }
}

/// Wraps a line at words.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    if line.is_empty() {
        return Vec::new();
    }
    let spans = [Span::raw(text::visible(line).into_owned())];
    let none = Span::raw("");
    text::wrap(&spans, width, &none, &none).iter().map(ToString::to_string).collect()
}

/// Returns at most `most` of the lines. The last one ends with an ellipsis if others are left out.
fn limited(mut lines: Vec<String>, most: usize, width: usize) -> Vec<String> {
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = format!("{}…", text::fit(last.trim_end(), width.saturating_sub(1)));
        }
    }
    lines
}

fn place_in<T>(list: &List<T>) -> String {
    format!("{} of {}", list.at() + 1, list.len())
}

fn mark(chosen: bool) -> &'static str {
    if chosen { "❯ " } else { "  " }
}

fn sent(row: &SentRow, chosen: bool, width: usize) -> String {
    let size = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), thousands);
    let number = match row.request {
        InspectedRequest::Now => "now".to_owned(),
        InspectedRequest::Sent(number) => number.to_string(),
    };
    let (tokens, cached, notes) = (size(row.tokens), size(row.cached), row.notes.join(", "));
    let mark = mark(chosen);
    if width < WIDE {
        let time = row.time.rsplit(' ').next().unwrap_or_default();
        format!("{mark}{number:>4} {time:<5} {tokens:>6} {cached:>6}  {notes}")
    } else {
        format!("{mark}{number:>5}  {:<16} {tokens:>7} {cached:>7}  {notes}", row.time)
    }
}

fn span(row: &SpanRow, chosen: bool, width: usize) -> String {
    let seq = row.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
    let (mark, tokens) = (mark(chosen), thousands(row.tokens));
    let what = if row.label.is_empty() || row.label == row.kind {
        row.kind.clone()
    } else {
        format!("{} {}", row.kind, row.label)
    };
    let applied =
        if row.applied.is_empty() { String::new() } else { format!(" [{}]", row.applied.join(", ")) };
    if width < WIDE {
        let cache = row.cache.chars().next().unwrap_or('-');
        return format!("{mark}{seq:>5} {tokens:>6}  {cache}     {what}{applied}");
    }
    let sent = match row.sent_before {
        Some(true) => "before",
        Some(false) => "new",
        None => "-",
    };
    let cache = if row.cache.is_empty() { "-" } else { &row.cache };
    let preview = &row.preview;
    format!("{mark}{seq:>6} {tokens:>7}  {sent:<6} {cache:<7}  {what}{applied}: {preview}")
}

/// Describes the source of the chosen span.
fn about(row: &SpanRow) -> String {
    let mut parts =
        vec![row.source.clone().map_or_else(|| row.label.clone(), |source| format!("from {source}"))];
    if let Some((from, to)) = row.bytes {
        parts.push(format!("bytes {from}-{to}"));
    }
    parts.extend(row.applied.iter().cloned());
    if row.hidden {
        parts.push("for the model only".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}
