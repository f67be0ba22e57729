//! Drawing of the inspector's pages.

use super::{ANSWERS, Inspector, Level, SentRow, SpanRow};
use crate::answers::Answer;
use crate::text::{self, thousands};
use crate::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Clear, Widget as _};

/// From this width on, columns show dates and words instead of times and letters.
const WIDE: usize = 70;
/// From this height on, the chosen row is described in lines of its own.
const TALL: u16 = 16;

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
    fn place(&self, shown: usize) -> String {
        match self.lines.len().checked_sub(shown) {
            Some(rest @ 1..) => format!("{} % · ", 100 * self.top.min(rest) / rest),
            _ => String::new(),
        }
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
        let mut put = |y: u16, line: &str, style: Style| {
            let line = text::fit(&text::visible(line), width).into_owned();
            let fill = " ".repeat(width.saturating_sub(text::width(&line)));
            frame.buffer_mut().set_line(area.x, area.y + y, &Line::styled(line + &fill, style), area.width);
        };
        let rows_below = self.below(width, area.height).len() as u16;
        let room = area.height.saturating_sub(1 + rows_below).max(1);
        let (title, head) = self.head(width);
        let rule = "─".repeat(width.saturating_sub(text::width(&title) + 4));
        put(0, &format!("── {title} {rule}"), theme.accent);
        let mut y = 1;
        if let Some(head) = head.filter(|_| room > 2) {
            put(y, &head, theme.dim);
            y += 1;
        }
        let shown = usize::from(room + 1 - y);
        self.rows = shown;
        for (line, chosen) in self.page(width, shown) {
            put(y, &line, if chosen { theme.selected } else { theme.text });
            y += 1;
        }
        // The scroll position in these lines is known only now that the page was laid out.
        let below = self.below(width, area.height);
        let asking = self.asking.is_some();
        for (n, line) in below.iter().enumerate() {
            let last = n + 1 == below.len();
            let style = if asking && !last {
                theme.text
            } else if asking {
                theme.accent
            } else {
                theme.dim
            };
            put(area.height - (below.len() - n) as u16, line, style);
        }
    }

    /// Returns the title and the names of the columns.
    fn head(&self, width: usize) -> (String, Option<String>) {
        match self.levels.last() {
            Some(Level::Spans { request, page }) => {
                let of = page.as_ref().map_or_else(
                    || if *request == 0 { "now".to_owned() } else { format!("request {request}") },
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
    fn below(&self, width: usize, height: u16) -> Vec<String> {
        let wrapped = |line: &str| -> Vec<String> {
            let line = text::visible(line).into_owned();
            let spans = [ratatui::text::Span::raw(line)];
            let plain = ratatui::text::Span::raw("");
            text::wrap(&spans, width, &plain, &plain).iter().map(ToString::to_string).collect()
        };
        let mut out = Vec::new();
        if let Some((plan, list)) = &self.asking {
            out.push("─".repeat(width));
            let told = |line: &&str| height >= TALL || !line.starts_with("Items: ");
            out.extend(plan.to_string().lines().filter(told).flat_map(wrapped));
            // The last lines of the plan state the cost, so a small screen shows the end.
            let rows_of_answers = if height < TALL { 2 } else { ANSWERS.len() + 1 };
            let most = usize::from(height).saturating_sub(2 + rows_of_answers);
            let skip = out.len().saturating_sub(most);
            out.drain(..skip);
            let answers = ANSWERS.map(|(long, short)| Answer::new(long, short));
            let tight = height < TALL;
            let (lines, _) = list.lines(&answers, width, tight, &Theme::plain());
            out.extend(lines.iter().map(|line| line.to_string().trim_end().to_owned()));
            let keys = if list.is_focused() {
                "↑ ↓ select · Enter answers · Esc cancels"
            } else if width < WIDE {
                "↓, then Enter answers · Esc cancels"
            } else {
                "↓ or Tab, then Enter answers · Esc cancels"
            };
            out.push(keys.to_owned());
            return out;
        }
        if height >= TALL
            && let Some(Level::Spans { page: Some((_, list)), .. }) = self.levels.last()
            && let Some(row) = list.row()
        {
            out.push("─".repeat(width));
            out.push(about(row));
            out.push(text::fit(&row.preview, width).into_owned());
        }
        if !self.said.is_empty() {
            out.extend(wrapped(&self.said).into_iter().take(3));
        }
        out.push(self.keys(width));
        out
    }

    fn keys(&self, width: usize) -> String {
        match self.levels.last() {
            Some(Level::Text { text, .. }) => {
                let place = text.as_ref().map_or_else(String::new, |text| text.place(self.rows));
                format!("{place}Esc back · arrows, PageUp, PageDown")
            }
            Some(Level::Spans { page: Some((_, list)), .. }) => {
                let place = format!("{}/{} · ", list.at() + 1, list.len());
                if width < WIDE {
                    format!("{place}Enter = d c p u r Esc")
                } else {
                    format!("{place}Enter show · = diff · d drop · c collapse · p pin · u undo · r redo")
                }
            }
            _ if width < WIDE => "Enter opens · = diff · u r · Esc".to_owned(),
            _ => "Enter opens · = diff with previous · u undo · r redo · Esc closes".to_owned(),
        }
    }
}

fn mark(chosen: bool) -> &'static str {
    if chosen { "❯ " } else { "  " }
}

fn sent(row: &SentRow, chosen: bool, width: usize) -> String {
    let size = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), thousands);
    let number = if row.number == 0 { "now".to_owned() } else { row.number.to_string() };
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
