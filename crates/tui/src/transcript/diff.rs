//! A unified diff as lines: with line numbers and changed words, and side by side if there is room.
//!
//! Takes the output of edits: `diff` (unified, without file headers) and `marks`, triples of a line index and the start
//! and end of changed bytes. Marks that do not fit the text are ignored. Compares no texts itself.

use super::row::{CodeSpans, Row};
use crate::highlight::Code;
use crate::hint;
use crate::text;
use crate::theme::Theme;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use serde_json::Value;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// From this width on, the old and the new text are shown side by side.
pub(super) const SIDE_BY_SIDE: usize = 120;

/// The old and the new text of a diff, as code of the file's language.
#[derive(Debug)]
pub(super) struct Sides {
    old: Arc<Code>,
    new: Arc<Code>,
}

impl Sides {
    /// `language`: a name or a file extension.
    pub(super) fn new(diff: &str, language: &str) -> Self {
        let (mut old, mut new) = (String::new(), String::new());
        for change in changes(diff) {
            let shown = text::visible(change.text);
            let sides: &mut [&mut String] = match change.kind {
                Kind::Added => &mut [&mut new],
                Kind::Removed => &mut [&mut old],
                Kind::Same => &mut [&mut old, &mut new],
                Kind::Remark => &mut [],
            };
            for side in sides {
                side.push_str(&shown);
                side.push('\n');
            }
        }
        Self { old: Code::new(language, old), new: Code::new(language, new) }
    }
}

/// A line of the diff with its numbers in the old and the new file.
#[derive(Clone, Copy, Debug)]
struct Change<'a> {
    kind: Kind,
    old: Option<usize>,
    new: Option<usize>,
    text: &'a str,
    /// Index among the lines of the diff.
    index: usize,
    /// Index among the lines of [`Sides`]; of the new text if the line is in it.
    side: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Added,
    Removed,
    Same,
    /// A hunk header or a remark.
    Remark,
}

/// Changed bytes, by line of the diff.
type Marks = HashMap<usize, Vec<(usize, usize)>>;

/// Returns the numbers of added and removed lines.
pub(super) fn counts(diff: &str) -> (usize, usize) {
    let count = |sign| diff.lines().filter(|l| l.starts_with(sign)).count();
    (count('+'), count('-'))
}

/// Lays out the first lines of the diff, as many as `extent` allows. If lines are left out, a last row says how many.
pub(super) fn lines(
    diff: &str,
    marks: &Value,
    sides: &Sides,
    width: usize,
    theme: &Theme,
    extent: &Extent,
) -> Vec<Row> {
    let limit = extent.limit();
    let mut rows = changes(diff);
    // Line numbers locate a hunk, so its header is left out. Between two hunks a mark replaces it.
    if rows.first().is_some_and(|row| hunk(row.text).is_some()) {
        rows.remove(0);
    }
    without_blank_edges(&mut rows);
    let widest = rows.iter().filter_map(|r| r.old.max(r.new)).max().unwrap_or(1);
    let painter = Painter { marks: read_marks(marks), sides, digits: widest.to_string().len(), width, theme };
    // Only a diff that has both sides is shown side by side: for a new or a deleted file, one side would be blank.
    let two_sided = rows.iter().any(|row| row.kind == Kind::Same)
        || [Kind::Added, Kind::Removed].iter().all(|kind| rows.iter().any(|row| row.kind == *kind));
    let mut out = if matches!(extent, Extent::Open) && two_sided && width >= SIDE_BY_SIDE {
        painter.beside(&rows, limit)
    } else {
        rows.iter().take(limit).map(|row| painter.unified(row)).collect()
    };
    if rows.len() > limit {
        let hint = match extent {
            Extent::Closed(hint) => format!(" · {hint}"),
            Extent::Open => String::new(),
        };
        let words = format!("  … {} more lines{hint}", rows.len() - limit);
        out.push(Line::from(hint::spans(&words, theme)).into());
    }
    out
}

/// Maximum number of lines of a change that an open call shows.
const OPEN_LINES: usize = 400;
/// Maximum number of lines of a change that a closed call shows.
const CLOSED_LINES: usize = 12;

/// The part of a change that is shown.
pub(super) enum Extent {
    /// The first lines, and this hint about the key that shows the others.
    Closed(String),
    /// Up to `OPEN_LINES` lines, side by side if there is room.
    Open,
}

impl Extent {
    /// Returns the largest number of lines.
    fn limit(&self) -> usize {
        match self {
            Self::Closed(_) => CLOSED_LINES,
            Self::Open => OPEN_LINES,
        }
    }
}

/// Removes blank context lines at the edges of each hunk, which would show only their numbers.
fn without_blank_edges(rows: &mut Vec<Change<'_>>) {
    let lines: Vec<(bool, DiffLine)> = rows
        .iter()
        .map(|row| {
            let line = match row.kind {
                Kind::Added | Kind::Removed => DiffLine::Changed,
                _ if row.text.trim().is_empty() => DiffLine::Blank,
                _ => DiffLine::Same,
            };
            (row.kind == Kind::Remark, line)
        })
        .collect();
    let mut keep = Vec::with_capacity(lines.len());
    for hunk in lines.split_inclusive(|(remark, _)| *remark) {
        let (body, remark) = match hunk.split_last() {
            Some(((true, _), body)) => (body, true),
            _ => (hunk, false),
        };
        let lines: Vec<DiffLine> = body.iter().map(|(_, line)| *line).collect();
        let shown = without_blank_ends(&lines);
        keep.extend((0..body.len()).map(|at| shown.contains(&at)));
        keep.extend(remark.then_some(true));
    }
    let mut keep = keep.into_iter();
    rows.retain(|_| keep.next().unwrap_or(true));
}

/// A line of a hunk, as far as its edges are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiffLine {
    Changed,
    Same,
    /// An unchanged line without text.
    Blank,
}

/// Returns the lines of a hunk without blank lines at its edges, which would show only their numbers.
pub(crate) fn without_blank_ends(lines: &[DiffLine]) -> Range<usize> {
    let is_filled = |line: &DiffLine| *line != DiffLine::Blank;
    match (lines.iter().position(is_filled), lines.iter().rposition(is_filled)) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..lines.len(),
    }
}

fn changes(diff: &str) -> Vec<Change<'_>> {
    let (mut old, mut new) = (0, 0);
    let (mut old_side, mut new_side) = (0, 0);
    let mut out = Vec::new();
    for (index, line) in diff.lines().enumerate() {
        if let Some((from, to)) = hunk(line) {
            (old, new) = (from, to);
        }
        let text = line.get(1..).unwrap_or_default();
        let row = |kind, old, new, text| {
            let side = if kind == Kind::Removed { old_side } else { new_side };
            Change { kind, old, new, text, index, side }
        };
        out.push(match line.as_bytes().first() {
            Some(b'+') => row(Kind::Added, None, Some(new), text),
            Some(b'-') => row(Kind::Removed, Some(old), None, text),
            Some(b' ') => row(Kind::Same, Some(old), Some(new), text),
            None => row(Kind::Same, Some(old), Some(new), ""),
            _ => row(Kind::Remark, None, None, line),
        });
        let kind = out.last().map_or(Kind::Remark, |r| r.kind);
        let in_old = usize::from(matches!(kind, Kind::Removed | Kind::Same));
        let in_new = usize::from(matches!(kind, Kind::Added | Kind::Same));
        (old, new) = (old + in_old, new + in_new);
        (old_side, new_side) = (old_side + in_old, new_side + in_new);
    }
    out
}

/// Returns the first line numbers from a header such as `@@ -3,4 +3,6 @@`.
fn hunk(line: &str) -> Option<(usize, usize)> {
    let mut sides = line.strip_prefix("@@ -")?.split(" @@").next()?.split(" +");
    let mut first = || sides.next()?.split(',').next()?.parse().ok();
    Some((first()?, first()?))
}

/// Returns the bytes of `text` to mark, in order. `marks`: start and end of words that changed in the line, which has a sign before
/// `text`. Spaces at both ends of a word are left out. A line that is mostly new has no marks, because its background says the same.
pub(crate) fn changed_words(marks: impl Iterator<Item = (usize, usize)>, text: &str) -> Vec<(usize, usize)> {
    let filled = |text: &str| text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count();
    let mut words = Vec::new();
    let (mut at, mut marked) = (0, 0);
    for (from, to) in marks {
        let (from, to) = (from.saturating_sub(1), to.saturating_sub(1));
        let Some(word) = text.get(from..to).filter(|word| from >= at && !word.trim().is_empty()) else {
            continue;
        };
        let from = from + word.len() - word.trim_start().len();
        words.push((from, from + word.trim().len()));
        (at, marked) = (to, marked + filled(word));
    }
    if marked * 3 > filled(text) * 2 { Vec::new() } else { words }
}

fn read_marks(marks: &Value) -> Marks {
    let mut out = Marks::new();
    for mark in marks.as_array().into_iter().flatten() {
        let number = |i: usize| mark.get(i).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        if let (Some(line), Some(from), Some(to)) = (number(0), number(1), number(2)) {
            out.entry(line).or_default().push((from, to));
        }
    }
    out
}

struct Painter<'a> {
    marks: Marks,
    sides: &'a Sides,
    /// Width of a line number in columns.
    digits: usize,
    width: usize,
    theme: &'a Theme,
}

impl Painter<'_> {
    fn unified(&self, row: &Change<'_>) -> Row {
        let look = self.look(row.kind);
        if row.kind == Kind::Remark {
            let remark = if hunk(row.text).is_some() { "⋮".into() } else { text::visible(row.text) };
            let shown = format!("  {remark}");
            return Line::styled(text::fit(&shown, self.width).into_owned(), look.text).into();
        }
        let number = row.new.or(row.old).map(|n| n.to_string()).unwrap_or_default();
        // The number of a changed line has the colour of its sign.
        let style = if matches!(row.kind, Kind::Added | Kind::Removed) { look.mark } else { self.theme.dim };
        let mut spans = vec![
            Span::styled(format!("  {number:>digits$} ", digits = self.digits), style),
            Span::styled(look.sign, look.mark),
        ];
        let code = self.words(row, self.width.saturating_sub(self.digits + 4), &mut spans);
        let line = Line::from(spans).style(self.tint(row.kind));
        Row { line, gutter: self.digits + 4, code: vec![code], ..Row::default() }
    }

    /// Returns the background of a whole line.
    fn tint(&self, kind: Kind) -> Style {
        let tint = match kind {
            Kind::Added => self.theme.tint(true),
            Kind::Removed => self.theme.tint(false),
            Kind::Same | Kind::Remark => None,
        };
        tint.unwrap_or_default()
    }

    /// Lays out removed lines beside the added lines that replace them.
    fn beside(&self, rows: &[Change<'_>], limit: usize) -> Vec<Row> {
        let rows = &rows[..rows.len().min(limit)];
        let half = (self.width - 5) / 2;
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(row) = rows.get(at) {
            match row.kind {
                Kind::Remark => {
                    out.push(self.unified(row));
                    at += 1;
                }
                Kind::Same => {
                    out.push(self.pair(Some(row), Some(row), half));
                    at += 1;
                }
                Kind::Removed | Kind::Added => {
                    let run = |from: usize, kind| rows[from..].iter().take_while(|r| r.kind == kind).count();
                    let removed = run(at, Kind::Removed);
                    let added = run(at + removed, Kind::Added);
                    let (left, right) = rows[at..at + removed + added].split_at(removed);
                    for i in 0..removed.max(added) {
                        out.push(self.pair(left.get(i), right.get(i), half));
                    }
                    at += removed + added;
                }
            }
        }
        out
    }

    fn pair(&self, left: Option<&Change<'_>>, right: Option<&Change<'_>>, half: usize) -> Row {
        let mut spans = vec![Span::raw("  ")];
        let mut code = Vec::new();
        let sides = [left.map(|r| (r, r.old)), right.map(|r| (r, r.new))];
        for (i, side) in sides.into_iter().enumerate() {
            if i == 1 {
                spans.push(Span::styled(" │ ", self.theme.border));
            }
            let from = spans.len();
            if let Some((row, number)) = side {
                let look = self.look(row.kind);
                let number = number.map(|n| n.to_string()).unwrap_or_default();
                // The number of a changed line has the colour of its sign, as in the unified form and in a question.
                let style = if row.kind == Kind::Same { self.theme.dim } else { look.mark };
                spans.push(Span::styled(format!("{number:>digits$} ", digits = self.digits), style));
                spans.push(Span::styled(look.sign, look.mark));
                code.push(self.words(row, half.saturating_sub(self.digits + 2), &mut spans));
            }
            let used: usize = spans[from..].iter().map(|s| text::width(&s.content)).sum();
            let tint = side.map(|(row, _)| self.tint(row.kind)).unwrap_or_default();
            if i == 0 || tint.bg.is_some() {
                spans.push(Span::styled(" ".repeat(half.saturating_sub(used)), tint));
            }
        }
        Row { line: Line::from(spans), gutter: self.digits + 4, code, ..Row::default() }
    }

    /// Returns the style for a kind of line. If code has colours of its own, the background shows what was added or
    /// removed.
    fn look(&self, kind: Kind) -> Look {
        let theme = self.theme;
        let tinted = |added, style: Style| theme.tint(added).map_or(style, |tint| theme.text.patch(tint));
        match kind {
            Kind::Added => Look {
                sign: "+",
                mark: theme.changed_sign(true),
                text: tinted(true, theme.diff.added),
                word: theme.diff.added_word,
            },
            Kind::Removed => Look {
                sign: "-",
                mark: theme.changed_sign(false),
                text: tinted(false, theme.diff.removed),
                word: theme.diff.removed_word,
            },
            Kind::Same => Look { sign: " ", mark: theme.text, text: theme.text, word: theme.text },
            Kind::Remark => Look { sign: " ", mark: theme.dim, text: theme.dim, word: theme.dim },
        }
    }

    /// Appends the text of a line in `room` columns, with the changed words marked.
    fn words(&self, row: &Change<'_>, room: usize, spans: &mut Vec<Span<'static>>) -> CodeSpans {
        let Look { text: style, word: marked, .. } = self.look(row.kind);
        let first = spans.len();
        let (mut at, mut left) = (0, room);
        let mut put = |part: &str, style| {
            if part.is_empty() || left == 0 {
                return;
            }
            let shown = text::visible(part);
            let shown = text::fit(&shown, left).into_owned();
            left = left.saturating_sub(text::width(&shown));
            spans.push(Span::styled(shown, style));
        };
        let marks = self.marks.get(&row.index).into_iter().flatten().copied();
        for (from, to) in changed_words(marks, row.text) {
            put(&row.text[at..from], style);
            put(&row.text[from..to], style.patch(marked));
            at = to;
        }
        put(&row.text[at..], style);
        let code = if row.kind == Kind::Removed { &self.sides.old } else { &self.sides.new };
        // In a sixteen-colour theme the colour shows what changed, so code gets no colours of its own there.
        let coloured = row.kind == Kind::Same || self.theme.tint(true).is_some();
        let to = if coloured { spans.len() } else { first };
        CodeSpans { code: Arc::clone(code), line: row.side, from: 0, spans: first..to }
    }
}

/// Style of a line of a diff.
struct Look {
    sign: &'static str,
    mark: Style,
    text: Style,
    word: Style,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DIFF: &str = "@@ -9,3 +9,4 @@\n same\n-let a = 1;\n+let a = 2;\n+let b = 3;\n--- a comment\n\\ No newline at end of file\n";

    fn shown(width: usize, beside: bool) -> Vec<String> {
        let marks = json!([[2, 9, 10], [3, 9, 10], [3, 900, 901], "x"]);
        lines(
            DIFF,
            &marks,
            &Sides::new(DIFF, "rs"),
            width,
            &Theme::dark(),
            &if beside { Extent::Open } else { Extent::Closed(String::new()) },
        )
        .iter()
        .map(|l| l.line.to_string().trim_end().to_owned())
        .collect()
    }

    #[test]
    fn lines_have_numbers_and_nothing_is_taken_for_a_header() {
        assert_eq!(
            shown(60, true),
            [
                "   9  same",
                "  10 -let a = 1;",
                "  10 +let a = 2;",
                "  11 +let b = 3;",
                "  11 --- a comment",
                "  \\ No newline at end of file"
            ]
        );
        assert_eq!(counts(DIFF), (2, 2));
    }

    #[test]
    fn words_that_differ_are_marked() {
        let theme = Theme::dark();
        let lines = lines(
            DIFF,
            &json!([[2, 9, 10]]),
            &Sides::new(DIFF, ""),
            60,
            &theme,
            &Extent::Closed(String::new()),
        );
        let marked: Vec<_> =
            lines[1].line.spans.iter().filter(|s| s.style == theme.diff.removed_word).collect();
        assert_eq!(marked.len(), 1);
        assert_eq!(marked[0].content, "1");
    }

    #[test]
    fn neither_spaces_nor_a_whole_new_line_are_marked() {
        let diff = "@@ -1 +1,2 @@\n-    list(a)\n+    # A comment.\n+    list(a, b)\n";
        let theme = Theme::dark();
        let marks = json!([[2, 5, 17], [3, 1, 5], [3, 11, 14]]);
        let lines = lines(diff, &marks, &Sides::new(diff, ""), 60, &theme, &Extent::Closed(String::new()));
        let marked = |at: usize| -> Vec<String> {
            let spans = lines[at].line.spans.iter().filter(|span| span.style == theme.diff.added_word);
            spans.map(|span| span.content.to_string()).collect()
        };
        assert_eq!((marked(1), marked(2)), (vec![], vec![", b".to_owned()]));
    }

    #[test]
    fn code_of_each_side_is_read_as_one() {
        let sides = Sides::new(DIFF, "rs");
        for job in [sides.old.wanted().unwrap(), sides.new.wanted().unwrap()] {
            job.run();
        }
        let theme = Theme::dark();
        let lines = lines(DIFF, &json!([[3, 9, 10]]), &sides, 60, &theme, &Extent::Closed(String::new()));
        for (line, text) in [(1, "   10 -let a = 1;"), (2, "  10 +let a = 2;"), (3, "  11 +let b = 3;")] {
            let line = lines[line].styled(&theme);
            assert_eq!(line.to_string().trim(), text.trim());
            let keyword = line.spans.iter().find(|s| s.content == "let").unwrap();
            assert!(keyword.style.fg.is_some() && keyword.style.bg.is_some(), "{keyword:?}");
        }
        // The changed word keeps its background under its colour.
        let marked = lines[2].styled(&theme);
        assert!(marked.spans.iter().any(|s| s.content == "2" && s.style.bg == theme.diff.added_word.bg));
    }

    #[test]
    fn sides_stand_beside_each_other_where_there_is_room() {
        let lines = shown(120, true);
        assert_eq!(
            lines[1].split('│').map(str::trim).collect::<Vec<_>>(),
            ["10 -let a = 1;", "10 +let a = 2;"]
        );
        assert_eq!(lines[2].split('│').map(str::trim).collect::<Vec<_>>(), ["", "11 +let b = 3;"]);
        assert!(lines.iter().all(|l| text::width(l) <= 120));
    }

    #[test]
    fn blank_context_at_the_edges_of_a_hunk_is_left_out() {
        let diff = "@@ -1,5 +1,5 @@\n \n a\n-b\n+c\n \n \n d\n\n@@ -20,2 +20,3 @@\n \n+\n e\n";
        let lines = lines(
            diff,
            &Value::Null,
            &Sides::new("", ""),
            40,
            &Theme::plain(),
            &Extent::Closed(String::new()),
        );
        let lines: Vec<String> = lines.iter().map(|row| row.line.to_string().trim_end().to_owned()).collect();
        assert_eq!(
            lines,
            ["   2  a", "   3 -b", "   3 +c", "   4", "   5", "   6  d", "  ⋮", "  21 +", "  22  e"]
        );
        assert_eq!(without_blank_ends(&[DiffLine::Blank, DiffLine::Blank]), 0..2);
    }

    #[test]
    fn a_mark_stands_between_two_hunks() {
        let diff = "@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n";
        let lines = lines(
            diff,
            &Value::Null,
            &Sides::new("", ""),
            40,
            &Theme::plain(),
            &Extent::Closed("x opens".into()),
        );
        let lines: Vec<String> = lines.iter().map(|row| row.line.to_string()).collect();
        assert_eq!(lines, ["  1 -a", "  1 +b", "  ⋮", "  9 -c", "  9 +d"]);
    }

    #[test]
    fn what_is_too_long_is_counted() {
        let many: Vec<String> = (0..30).map(|i| format!("+line {i}\n")).collect();
        let lines = lines(
            &many.concat(),
            &Value::Null,
            &Sides::new("", ""),
            40,
            &Theme::plain(),
            &Extent::Closed("x opens".into()),
        );
        assert_eq!((lines.len(), lines[12].line.to_string()), (13, "  … 18 more lines · x opens".to_owned()));
    }
}
