//! One row of a block: its spans and their origin, so that it can be coloured later and copied without wrapping.

use crate::highlight::Code;
use crate::text::{self, Joint};
use crate::theme::Theme;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::ops::Range;
use std::sync::Arc;

/// A row of a block's layout.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub line: Line<'static>,
    /// Columns at the left that are not text: marks, numbers, indentation.
    pub gutter: usize,
    /// Relation to the row above.
    pub joint: Joint,
    pub code: Vec<CodeSpans>,
    /// The row belongs to a block of code, which has a background on a full screen.
    pub is_code: bool,
}

/// Spans of a row that are a part of a line of code.
#[derive(Clone, Debug)]
pub struct CodeSpans {
    pub code: Arc<Code>,
    pub line: usize,
    /// Bytes of that line before the first of the spans.
    pub from: usize,
    pub spans: Range<usize>,
}

impl From<Line<'static>> for Row {
    fn from(line: Line<'static>) -> Self {
        Self { line, ..Self::default() }
    }
}

impl Row {
    /// Wraps `spans` after a mark, which is not part of the text.
    pub fn wrapped(
        spans: &[Span<'_>],
        columns: usize,
        first: &Span<'static>,
        rest: &Span<'static>,
    ) -> Vec<Self> {
        let rows = text::wrap_joined(spans, columns, first, rest).into_iter().enumerate();
        rows.map(|(i, (line, joint))| {
            let gutter = text::width(if i == 0 { &first.content } else { &rest.content });
            Self { line, gutter, joint, ..Self::default() }
        })
        .collect()
    }

    /// Returns the line as it is drawn: code has its colours as far as they are known.
    pub(crate) fn styled(&self, theme: &Theme) -> Line<'static> {
        if self.code.is_empty() || theme.syntax.is_none() {
            return self.line.clone();
        }
        let mut spans = Vec::with_capacity(self.line.spans.len() + 8);
        let mut at = 0;
        for part in &self.code {
            spans.extend_from_slice(self.line.spans.get(at..part.spans.start).unwrap_or_default());
            part.colour(&self.line.spans, theme, &mut spans);
            at = part.spans.end;
        }
        spans.extend_from_slice(self.line.spans.get(at..).unwrap_or_default());
        Line { spans, ..self.line.clone() }
    }

    /// Returns the text without marks.
    pub fn text(&self) -> String {
        let mut columns = self.gutter;
        let mut out = String::new();
        for span in &self.line.spans {
            let width = text::width(&span.content);
            if columns >= width {
                columns -= width;
            } else {
                out.push_str(text::skip(&span.content, columns));
                columns = 0;
            }
        }
        out
    }
}

impl CodeSpans {
    fn colour(&self, from: &[Span<'static>], theme: &Theme, out: &mut Vec<Span<'static>>) {
        let mut byte = self.from;
        for span in from.get(self.spans.clone()).unwrap_or_default() {
            let content = span.content.as_ref();
            let mut at = 0;
            self.code.runs(self.line, byte..byte + content.len(), |length, class| {
                let to = content.floor_char_boundary((at + length).min(content.len()));
                if to > at {
                    let style = span.style.patch(theme.class(class));
                    out.push(Span::styled(content[at..to].to_owned(), style));
                    at = to;
                }
            });
            if at < content.len() {
                out.push(Span::styled(content[at..].to_owned(), span.style));
            }
            byte += content.len();
        }
    }
}

/// Lays out plain text line by line, wrapped after a mark.
pub(super) fn paragraph(
    text: &str,
    width: usize,
    first: &'static str,
    rest: &'static str,
    mark: Style,
    style: Style,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in text.lines().chain(text.is_empty().then_some("")) {
        let lead = if rows.is_empty() { first } else { rest };
        let shown = text::visible(line);
        let spans = [Span::styled(shown.as_ref(), style)];
        rows.extend(Row::wrapped(&spans, width, &Span::styled(lead, mark), &Span::styled(rest, mark)));
    }
    rows
}

/// Lays out a line of output after its indentation, cut if it is too wide.
pub(super) fn cut(spans: Vec<Span<'static>>, width: usize) -> Line<'static> {
    let mut room = width.saturating_sub(2);
    let mut out = vec![Span::raw("  ")];
    for span in spans {
        let shown = text::fit(&span.content, room).into_owned();
        room = room.saturating_sub(text::width(&shown));
        let whole = shown == span.content;
        out.push(Span::styled(shown, span.style));
        if !whole || room == 0 {
            break;
        }
    }
    Line::from(out)
}

/// Returns the cells of a row that its background covers: all of them, or those after the text of a line with colours
/// of its own.
pub(super) fn band_area(line: &Line<'_>, row: Rect, whole: bool) -> Rect {
    let from = if whole { 0 } else { text::line_width(line).min(usize::from(row.width)) as u16 };
    Rect { x: row.x + from, width: row.width - from, ..row }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_coloured_when_it_has_been_read_and_keeps_its_text() {
        let code = Code::new("rust", "let x = 1;\n".to_owned());
        let plain = Style::new();
        let line =
            Line::from(vec![Span::raw("  "), Span::styled("let x", plain), Span::styled(" = 1;", plain)]);
        let part = CodeSpans { code: Arc::clone(&code), line: 0, from: 0, spans: 1..3 };
        let row = Row { line, gutter: 2, code: vec![part], ..Row::default() };
        let theme = Theme::dark();
        assert_eq!(row.styled(&theme), row.line);
        code.wanted().unwrap().run();
        let styled = row.styled(&theme);
        assert_eq!(styled.to_string(), row.line.to_string());
        assert!(styled.spans.iter().any(|s| s.content == "let" && s.style.fg.is_some()));
        assert_eq!(row.styled(&Theme::plain()), row.line);
        assert_eq!(row.text(), "let x = 1;");
    }
}
