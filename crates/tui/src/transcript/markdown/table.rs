//! Tables: columns are as wide as their widest cell if that fits. Otherwise the widest are narrowed first, and their
//! cells are wrapped.

use crate::text;
use crate::theme::Theme;
use pulldown_cmark::Alignment;
use ratatui::style::Modifier;
use ratatui::text::Span;

const SEPARATOR: &str = " │ ";
/// Smallest width of a column.
const NARROWEST: usize = 3;

pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<Span<'static>>>>,
    row: Vec<Vec<Span<'static>>>,
}

impl Table {
    pub(super) fn new(alignments: &[Alignment]) -> Self {
        Self { alignments: alignments.to_vec(), rows: Vec::new(), row: Vec::new() }
    }

    pub(super) fn cell(&mut self, spans: Vec<Span<'static>>) {
        self.row.push(spans);
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    pub(super) fn lines(&self, columns: usize, theme: &Theme) -> Vec<Vec<Span<'static>>> {
        let widths = self.widths(columns);
        let mut out = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            self.row_lines(row, &widths, number == 0, theme, &mut out);
            if number == 0 {
                let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
                out.push(vec![Span::styled(rule.join("─┼─"), theme.border)]);
            }
        }
        out
    }

    fn widths(&self, columns: usize) -> Vec<usize> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![1; count];
        for row in &self.rows {
            for (i, cell) in row.iter().enumerate() {
                widths[i] = widths[i].max(cell.iter().map(|s| text::width(&s.content)).sum());
            }
        }
        let room = columns.saturating_sub(text::width(SEPARATOR) * count.saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            let Some(widest) = widths.iter_mut().max_by_key(|w| **w).filter(|w| **w > NARROWEST) else {
                break;
            };
            *widest -= 1;
        }
        widths
    }

    fn row_lines(
        &self,
        row: &[Vec<Span<'static>>],
        widths: &[usize],
        head: bool,
        theme: &Theme,
        out: &mut Vec<Vec<Span<'static>>>,
    ) {
        let none = Span::raw("");
        let cells: Vec<Vec<Vec<Span<'static>>>> = widths
            .iter()
            .enumerate()
            .map(|(i, width)| {
                let spans = row.get(i).map(Vec::as_slice).unwrap_or_default();
                text::wrap(spans, *width, &none, &none).into_iter().map(|l| l.spans).collect()
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let mut spans = Vec::new();
            for (i, width) in widths.iter().enumerate() {
                if i > 0 {
                    spans.push(Span::styled(SEPARATOR, theme.border));
                }
                let content = cells[i].get(line).cloned().unwrap_or_default();
                let used: usize = content.iter().map(|s| text::width(&s.content)).sum();
                let free = width.saturating_sub(used);
                let before = match self.alignments.get(i) {
                    Some(Alignment::Right) => free,
                    Some(Alignment::Center) => free / 2,
                    _ => 0,
                };
                spans.push(Span::raw(" ".repeat(before)));
                spans.extend(content.into_iter().map(
                    |s| {
                        if head { s.patch_style(Modifier::BOLD) } else { s }
                    },
                ));
                spans.push(Span::raw(" ".repeat(free - before)));
            }
            out.push(spans);
        }
    }
}
