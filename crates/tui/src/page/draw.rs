//! Lays out a [`Sheet`] in rows. All pages get their appearance here.
//!
//! Headings begin at the edge and everything else is indented, so a page can be read without colours.

use super::{Cell, Column, Entry, Field, Item, Share, Sheet, State, TableRow, Value, fit_path};
use crate::status::meter::{self, Part};
use crate::text::{self, thousands};
use crate::theme::Theme;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// Indentation of everything except headings, in columns.
const INDENT: usize = 2;
/// Columns between two columns of a table.
const GAP: usize = 2;
/// Largest and smallest length of a bar in cells. With less room there is no bar.
const BAR: (usize, usize) = (30, 6);
/// Maximum number of cells of the bar over the whole width.
const WIDE_BAR: usize = 76;
/// Column in which the meanings of entries begin.
const NAME: usize = 26;
/// Largest width of the labels of fields, in columns.
const LABEL: usize = 18;
/// If fewer columns than this are left after its label, a value gets rows of its own.
const VALUE: usize = 16;
/// Width that a flexible column keeps before other columns are left out.
const FLEXIBLE: usize = 16;
/// Width of the mark of a share, and of its percentage.
const MARK: usize = 2;
const PERCENT: usize = 5;
/// Rows and columns of a plot.
const PLOT: (usize, usize) = (6, 60);

impl Sheet {
    /// Returns the rows of the page on a terminal with this many columns.
    pub fn rows(&self, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        Page { columns: columns.max(1), theme, bars: true, rows: Vec::new() }.of(&self.items)
    }

    /// Returns the page as plain text for screen readers: nothing is cut, and bars are left out.
    pub fn spoken(&self) -> String {
        let rows =
            Page { columns: 1_000, theme: &Theme::plain(), bars: false, rows: Vec::new() }.of(&self.items);
        rows.iter().map(|row| row.to_string().trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

struct Page<'a> {
    columns: usize,
    theme: &'a Theme,
    bars: bool,
    rows: Vec<Line<'static>>,
}

impl Page<'_> {
    fn of(mut self, items: &[Item]) -> Vec<Line<'static>> {
        let mut rest = items;
        while let Some((item, behind)) = rest.split_first() {
            rest = behind;
            match item {
                Item::Heading { text, detail } => self.heading(text, detail),
                Item::Field(first) => {
                    let more = behind.iter().map_while(|item| match item {
                        Item::Field(field) => Some(field),
                        _ => None,
                    });
                    let fields: Vec<&Field> = std::iter::once(first).chain(more).collect();
                    rest = &behind[fields.len() - 1..];
                    self.fields(&fields);
                }
                Item::Bar { parts, of, mark } if self.bars => self.bar(parts, *of, *mark),
                Item::Plot { values } if self.bars => self.plot(values),
                Item::Bar { .. } | Item::Plot { .. } => {}
                Item::Shares { of, rows } => self.shares(*of, rows),
                Item::Table { columns, rows } => self.table(columns, rows),
                Item::Entries(entries) => self.entries(entries),
                Item::Note(text) => self.paragraph(text, INDENT, self.theme.dim),
            }
        }
        self.rows
    }

    /// Returns the number of columns after the indentation.
    fn room(&self) -> usize {
        self.columns.saturating_sub(INDENT)
    }

    /// Adds a row, cut at the edge of the screen. Empty spans are left out.
    fn push(&mut self, spans: Vec<Span<'static>>) {
        let mut left = self.columns;
        let mut kept: Vec<Span<'static>> = Vec::with_capacity(spans.len());
        for mut span in spans {
            let width = text::width(&span.content);
            if width > left {
                span.content = text::fit(&span.content, left).into_owned().into();
            }
            left = left.saturating_sub(width);
            if !span.content.is_empty() {
                kept.push(span);
            }
        }
        self.rows.push(Line::from(kept));
    }

    fn heading(&mut self, title: &str, detail: &str) {
        if !self.rows.is_empty() {
            self.rows.push(Line::default());
        }
        let style = self.theme.accent.add_modifier(Modifier::BOLD);
        let title = text::visible(title).into_owned();
        let detail = text::visible(detail).into_owned();
        let beside = text::width(&title) + GAP + text::width(&detail) <= self.columns;
        let mut spans = vec![Span::styled(title, style)];
        if beside && !detail.is_empty() {
            spans.push(Span::styled(format!("{}{detail}", " ".repeat(GAP)), self.theme.dim));
        }
        self.push(spans);
        if !beside {
            self.paragraph(&detail, INDENT, self.theme.dim);
        }
    }

    fn paragraph(&mut self, words: &str, indent: usize, style: Style) {
        let indent = if self.columns > 2 * indent { indent } else { 0 };
        for line in wrapped(words, self.columns - indent, style) {
            self.push(before(vec![Span::raw(" ".repeat(indent))], line));
        }
    }

    /// Adds names with their meanings beside them, or below them if the page is too narrow. The meanings of all entries of a page begin
    /// in one column.
    fn entries(&mut self, entries: &[Entry]) {
        let lead = self.columns - self.room();
        let beside = self.columns >= 2 * NAME;
        for entry in entries {
            let name = text::visible(&entry.name).into_owned();
            let arguments = match text::visible(&entry.arguments) {
                arguments if arguments.is_empty() => String::new(),
                arguments => format!(" {arguments}"),
            };
            let used = lead + text::width(&name) + text::width(&arguments);
            let mut first = vec![
                Span::raw(" ".repeat(lead)),
                Span::styled(name, self.theme.accent),
                Span::styled(arguments, self.theme.dim),
            ];
            let indent = if beside { NAME } else { (2 * INDENT).min(self.columns - 1) };
            if beside && used < NAME {
                first.push(Span::raw(" ".repeat(NAME - used)));
            } else {
                self.push(std::mem::take(&mut first));
            }
            let style = if entry.prominent { self.theme.text } else { self.theme.dim };
            let width = self.columns - indent;
            let mut lines = wrapped(&entry.meaning, width, style);
            // A detail that does not fit after the meaning gets its own row below it, with less indentation if it would be broken there.
            let detail = text::visible(&entry.detail).into_owned();
            let mut below = Vec::new();
            match lines.last_mut() {
                Some(last) if text::line_width(last) + GAP + text::width(&detail) <= width => {
                    if !detail.is_empty() {
                        last.spans.push(Span::styled(format!("{}{detail}", " ".repeat(GAP)), self.theme.dim));
                    }
                }
                _ => {
                    let fits = text::width(&detail) <= width;
                    let indent = if fits { indent } else { (2 * INDENT).min(self.columns - 1) };
                    let rows = wrapped(&detail, self.columns - indent, self.theme.dim);
                    below.extend(rows.into_iter().map(|line| (indent, line)));
                }
            }
            for (indent, line) in lines.into_iter().map(|line| (indent, line)).chain(below) {
                let lead = std::mem::take(&mut first);
                let lead = if lead.is_empty() { vec![Span::raw(" ".repeat(indent))] } else { lead };
                self.push(before(lead, line));
            }
            if !first.is_empty() {
                self.push(first);
            }
        }
    }

    fn fields(&mut self, fields: &[&Field]) {
        let marked = fields.iter().any(|field| field.state != State::None);
        let mark = if marked { 2 } else { 0 };
        let longest = fields.iter().map(|field| text::width(&text::visible(&field.label))).max().unwrap_or(0);
        let label = longest.min(LABEL);
        let lead = self.columns - self.room();
        let (indent, beside) = match lead + mark + label + GAP {
            indent if indent + VALUE <= self.columns => (indent, true),
            _ if self.columns > 4 * INDENT + VALUE => (2 * INDENT, false),
            _ => (lead, false),
        };
        for field in fields {
            let (sign, sign_style) = match field.state {
                State::None => ("  ", self.theme.dim),
                State::Good => ("✓ ", self.theme.outcome.ok),
                State::Bad => ("✗ ", self.theme.outcome.error),
            };
            let style = if field.state == State::Bad { self.theme.outcome.error } else { self.theme.text };
            let mut first = vec![Span::raw(" ".repeat(lead))];
            if marked {
                first.push(Span::styled(sign, sign_style));
            }
            let shown = text::visible(&field.label);
            // A long word, such as an id, is whole below its label instead of broken beside it.
            let below = 2 * INDENT;
            let is_long = beside
                && is_word_of(&field.value, self.columns - indent, self.columns - below.min(self.columns));
            let (beside, indent) = if is_long { (false, below) } else { (beside, indent) };
            if beside {
                let shown = text::fit(&shown, label);
                first.push(Span::styled(
                    format!("{}{}", pad(&shown, label, false), " ".repeat(GAP)),
                    self.theme.dim,
                ));
            } else {
                first.push(Span::styled(shown.into_owned(), self.theme.dim));
                self.push(std::mem::take(&mut first));
            }
            let width = self.columns - indent;
            let lines = match &field.value {
                Value::Text(words) => wrapped(words, width, style),
                Value::Path(path) => {
                    vec![Line::styled(fit_path(&text::visible(path), width).into_owned(), style)]
                }
            };
            for line in lines {
                let lead = std::mem::take(&mut first);
                let lead = if lead.is_empty() { vec![Span::raw(" ".repeat(indent))] } else { lead };
                self.push(before(lead, line));
            }
            if !first.is_empty() {
                // The field has no value.
                self.push(first);
            }
        }
    }

    fn bar(&mut self, parts: &[(Part, u64)], of: u64, mark: Option<u64>) {
        let cells = self.room().min(WIDE_BAR);
        let bar = meter::stacked(parts, of, mark, cells, self.theme);
        if !bar.is_empty() {
            let mut spans = vec![Span::raw(" ".repeat(self.columns - self.room()))];
            spans.extend(bar);
            self.push(spans);
        }
    }

    fn shares(&mut self, of: u64, rows: &[Share]) {
        let visible = |text: &str| text::width(&text::visible(text));
        let widest = |width: &dyn Fn(&Share) -> usize| rows.iter().map(width).max().unwrap_or(0);
        let value = widest(&|row| visible(&row.value));
        let detail = widest(&|row| visible(&row.detail));
        let natural = widest(&|row| row.label.width());
        // Label, value and share get room first, then the bar, then the detail.
        let fixed = MARK + GAP + value + GAP + PERCENT;
        let label = natural.min(self.room().saturating_sub(fixed)).min(natural.min(24).max(self.room() / 3));
        let left = self.room().saturating_sub(fixed + label);
        let whole = left.saturating_sub(GAP);
        let (least, most) = (BAR.1, BAR.0);
        let with_detail = if detail > 0 { whole.saturating_sub(GAP + detail) } else { whole };
        let (bar, detail) = match (with_detail >= least, whole >= least) {
            (true, _) => (with_detail.min(most), detail > 0),
            (false, true) => (whole.min(most), false),
            _ => (0, false),
        };
        for row in rows {
            let tint = row.part.style(self.theme);
            let percent = match (of, row.amount) {
                (0, _) => String::new(),
                (_, 0) => "0 %".to_owned(),
                (of, amount) => match (amount * 100 + of / 2) / of {
                    0 => "<1 %".to_owned(),
                    n => format!("{n} %"),
                },
            };
            let mut spans = vec![Span::raw(" ".repeat(self.columns - self.room()))];
            if self.bars {
                spans.push(Span::styled(format!("{} ", row.part.mark()), tint));
            }
            spans.push(Span::styled(pad(&row.label.fit(label), label, false), self.theme.text));
            spans.push(Span::raw(" ".repeat(GAP)));
            spans.push(Span::styled(pad(&text::visible(&row.value), value, true), self.theme.text));
            spans.push(Span::raw(" ".repeat(GAP)));
            spans.push(Span::styled(pad(&percent, PERCENT, true), self.theme.dim));
            if self.bars && bar > 0 {
                spans.push(Span::raw(" ".repeat(GAP)));
                let (full, free) = filled(row.amount, of, bar);
                spans.push(Span::styled(row.part.mark().to_string().repeat(full), tint));
                spans.push(Span::styled("·".repeat(free), self.theme.border));
            }
            if detail && !row.detail.is_empty() {
                spans.push(Span::styled(format!("  {}", text::visible(&row.detail)), self.theme.dim));
            }
            self.push(spans);
        }
    }

    fn table(&mut self, columns: &[Column], rows: &[TableRow]) {
        let marked = self.bars && rows.iter().any(|row| row.part.is_some());
        let mark = if marked { 2 } else { 0 };
        let widths = widths(columns, rows, self.room().saturating_sub(mark));
        let lead = " ".repeat(self.columns - self.room());
        if columns.iter().any(|column| !column.title.is_empty()) {
            let mut spans = vec![Span::raw(lead.clone()), Span::raw(" ".repeat(mark))];
            let cells = columns.iter().zip(&widths).filter_map(|(c, w)| w.map(|w| (c, w)));
            for (n, (column, width)) in cells.enumerate() {
                let gap = if n == 0 { 0 } else { GAP };
                let title = pad(&text::fit(&column.title, width), width, column.right);
                spans.push(Span::styled(format!("{}{title}", " ".repeat(gap)), self.theme.dim));
            }
            self.push(spans);
        }
        for row in rows {
            if !row.cells.is_empty() {
                let mut spans = vec![Span::raw(lead.clone())];
                if marked {
                    let (sign, style) =
                        row.part.map_or((' ', self.theme.dim), |p| (p.mark(), p.style(self.theme)));
                    spans.push(Span::styled(format!("{sign} "), style));
                }
                let cells = row.cells.iter().zip(columns).zip(&widths);
                let cells = cells.filter_map(|((cell, column), width)| width.map(|w| (cell, column, w)));
                let mut indent = lead.len() + mark;
                let mut more = Vec::new();
                for (n, (cell, column, width)) in cells.enumerate() {
                    let gap = if n == 0 { 0 } else { GAP };
                    let plain = column.flexible && !column.faint;
                    let style = if plain { self.theme.text } else { self.theme.dim };
                    indent += gap;
                    let shown = match cell {
                        Cell::Text(words) if column.wraps && width > 0 => {
                            let mut lines = wrapped(words, width, style).into_iter();
                            let first = lines.next().unwrap_or_default();
                            more.extend(lines.map(|line| (indent, line)));
                            first.to_string()
                        }
                        _ => cell.fit(width),
                    };
                    let shown = pad(&shown, width, column.right);
                    spans.push(Span::styled(format!("{}{shown}", " ".repeat(gap)), style));
                    indent += width;
                }
                self.push(spans);
                for (indent, line) in more {
                    self.push(before(vec![Span::raw(" ".repeat(indent))], line));
                }
            }
            if !row.note.is_empty() {
                self.paragraph(&row.note, 2 * INDENT, self.theme.dim);
            }
        }
    }

    fn plot(&mut self, values: &[u64]) {
        let most = values.iter().max().copied().unwrap_or(0);
        let (height, width) = PLOT;
        let axis = text::width(&thousands(most)) + 2;
        let columns = values.len().min(width).min(self.room().saturating_sub(axis));
        if most == 0 || columns == 0 {
            return;
        }
        let least = values.iter().min().copied().unwrap_or(0);
        if least * 10 >= most * 9 {
            // If all values are within a tenth of the largest, the plot would be a solid block, so one row is drawn instead.
            return self.push(vec![
                Span::raw(" ".repeat(self.columns - self.room())),
                Span::styled("▇".repeat(columns), self.theme.accent),
                Span::styled(
                    format!("  {}", thousands(values.last().copied().unwrap_or(most))),
                    self.theme.dim,
                ),
            ]);
        }
        // Each column shows the largest of the values that share it.
        let column = |x: usize| {
            let from = x * values.len() / columns;
            let to = ((x + 1) * values.len() / columns).max(from + 1).min(values.len());
            values[from..to].iter().max().copied().unwrap_or_default()
        };
        for row in (0..height).rev() {
            let line: String = (0..columns)
                .map(|x| {
                    let eighths = (column(x) as f64 / most as f64 * (height * 8) as f64).ceil() as usize;
                    match eighths.saturating_sub(row * 8) {
                        0 => ' ',
                        n => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][n.min(8) - 1],
                    }
                })
                .collect();
            let label = match row {
                _ if row + 1 == height => thousands(most),
                0 => "0".to_owned(),
                _ => String::new(),
            };
            self.push(vec![
                Span::raw(" ".repeat(self.columns - self.room())),
                Span::styled(format!("{} │", pad(&label, axis - 2, true)), self.theme.dim),
                Span::styled(line.trim_end().to_owned(), self.theme.accent),
            ]);
        }
    }
}

impl Cell {
    fn width(&self) -> usize {
        let (Self::Text(text) | Self::Path(text)) = self;
        text::width(&text::visible(text))
    }

    fn fit(&self, columns: usize) -> String {
        match self {
            Self::Text(words) => text::fit(&text::visible(words), columns).into_owned(),
            Self::Path(path) => fit_path(&text::visible(path), columns).into_owned(),
        }
    }
}

/// True for a text of one word that is wider than `beside` and not wider than `below`.
fn is_word_of(value: &Value, beside: usize, below: usize) -> bool {
    let Value::Text(words) = value else { return false };
    let width = text::width(&text::visible(words));
    !words.contains(char::is_whitespace) && width > beside && width <= below
}

/// Pads `shown` with spaces up to `width`.
fn pad(shown: &str, width: usize, right: bool) -> String {
    let space = " ".repeat(width.saturating_sub(text::width(shown)));
    if right { format!("{space}{shown}") } else { format!("{shown}{space}") }
}

/// Wraps `words` into rows of this many columns, without spaces at their ends.
fn wrapped(words: &str, columns: usize, style: Style) -> Vec<Line<'static>> {
    let none = Span::raw("");
    let wrap = |line: &str| {
        let spans = [Span::styled(text::visible(line).into_owned(), style)];
        text::wrap(&spans, columns, &none, &none).into_iter().map(trimmed)
    };
    words.lines().flat_map(wrap).collect()
}

/// Puts `lead` at the start of a row.
fn before(mut lead: Vec<Span<'static>>, line: Line<'static>) -> Vec<Span<'static>> {
    // The style may be set on the line instead of its spans.
    let style = line.style;
    lead.extend(line.spans.into_iter().map(|span| Span { style: style.patch(span.style), ..span }));
    lead
}

fn trimmed(mut line: Line<'static>) -> Line<'static> {
    while let Some(last) = line.spans.last_mut() {
        let kept = last.content.trim_end().len();
        if kept > 0 {
            last.content.to_mut().truncate(kept);
            break;
        }
        line.spans.pop();
    }
    line
}

/// Returns the numbers of full and empty cells of a bar. An amount above 0 fills at least one cell.
fn filled(amount: u64, of: u64, cells: usize) -> (usize, usize) {
    if of == 0 || amount == 0 {
        return (0, cells);
    }
    let full = (amount as f64 / of as f64 * cells as f64).round() as usize;
    let full = full.clamp(1, cells);
    (full, cells - full)
}

/// Returns the widths of the columns; `None` for a column that is left out.
fn widths(columns: &[Column], rows: &[TableRow], room: usize) -> Vec<Option<usize>> {
    let natural: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(n, column)| {
            let cells = rows.iter().filter_map(|row| row.cells.get(n)).map(Cell::width).max();
            cells.unwrap_or(0).max(text::width(&column.title))
        })
        .collect();
    let mut widths: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
    loop {
        let kept = widths.iter().flatten().count();
        let gaps = GAP * kept.saturating_sub(1);
        let is_flexible = |n: usize| columns[n].flexible && widths[n].is_some();
        let fixed: usize = (0..columns.len()).filter(|n| !is_flexible(*n)).filter_map(|n| widths[n]).sum();
        let flexible: Vec<usize> = (0..columns.len()).filter(|n| is_flexible(*n)).collect();
        let left = room.saturating_sub(fixed + gaps);
        let least: usize = flexible.iter().map(|n| natural[*n].min(FLEXIBLE)).sum();
        let leaves = (0..columns.len()).filter(|n| widths[*n].is_some()).min_by_key(|n| columns[*n].weight);
        if kept > 1
            && (fixed + gaps + least > room)
            && let Some(n) = leaves
        {
            widths[n] = None;
            continue;
        }
        // Narrow columns keep their width, and wide ones share the rest.
        let mut left = left;
        let mut order = flexible.clone();
        order.sort_by_key(|n| natural[*n]);
        let count = order.len();
        for (at, n) in order.into_iter().enumerate() {
            let width = natural[n].min(left / (count - at));
            widths[n] = Some(width);
            left -= width;
        }
        return widths;
    }
}
