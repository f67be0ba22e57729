//! A piece of Markdown as lines: one walk over the parser's events with a stack of open elements.

use super::Codes;
use super::table::Table;
use crate::links;
use crate::text::{self, Joint};
use crate::theme::Theme;
use crate::transcript::row::{CodeSpans, Row};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use std::borrow::Cow;
use std::sync::Arc;

/// The bar before each line of a quote. The output of tools has another one.
const QUOTE: &str = "▎ ";

/// Appends the layout of `source` to `out`, after an empty line unless it is `joined` to the text before.
pub(super) fn append(
    out: &mut Vec<Row>,
    source: &str,
    joined: bool,
    width: usize,
    theme: &Theme,
    codes: &mut Codes,
) {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut renderer = Renderer {
        out,
        width,
        theme,
        codes,
        inline: Vec::new(),
        styles: vec![theme.text],
        indent: Indent::default(),
        code: None,
        table: None,
        link: None,
        gap: Gap::default(),
    };
    renderer.gap.due = !joined && !renderer.out.is_empty();
    for event in Parser::new_ext(source, options) {
        renderer.event(event);
    }
    renderer.flush();
}

struct Renderer<'a> {
    out: &'a mut Vec<Row>,
    width: usize,
    theme: &'a Theme,
    codes: &'a mut Codes,
    inline: Vec<Span<'static>>,
    styles: Vec<Style>,
    indent: Indent,
    /// The language of an open code block, and its text so far.
    code: Option<(String, String)>,
    table: Option<Table>,
    link: Option<(String, usize)>,
    gap: Gap,
}

/// Start of each line: the quotes and list items that are open.
///
/// Invariant: a marker is pending only while `prefix` ends in the item that it belongs to.
#[derive(Default)]
struct Indent {
    /// Prefix of every line: quote bars and the indentation of list items.
    prefix: Vec<Span<'static>>,
    /// The bullet of an item whose first line has not been written.
    marker: Option<Span<'static>>,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
}

impl Indent {
    /// Returns the width in columns.
    fn columns(&self) -> usize {
        self.prefix.iter().map(|s| text::width(&s.content)).sum()
    }

    /// Opens an item of the innermost list.
    fn open_item(&mut self, style: Style) {
        let nested = self.lists.len() > 1;
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            // A list within a list has a mark of its own.
            _ if nested => "◦ ".to_owned(),
            _ => "• ".to_owned(),
        };
        self.prefix.push(Span::raw(" ".repeat(text::width(&marker))));
        self.marker = Some(Span::styled(marker, style));
    }

    /// Returns the start of the next line, with the pending marker, and the number of quote bars in it.
    fn next_line(&mut self) -> (Vec<Span<'static>>, usize) {
        let mut line = self.prefix.clone();
        let bars = line.iter().take_while(|s| s.content.starts_with(QUOTE)).count();
        if let (Some(marker), Some(last)) = (self.marker.take(), line.last_mut()) {
            *last = marker;
        }
        (line, bars)
    }
}

/// Empty line between two blocks. It is written with the first line of the second block, if that has one.
#[derive(Default)]
struct Gap {
    /// An empty line is due before the next block.
    due: bool,
    /// The empty line, with the bars of the quotes that contain both blocks.
    between: Option<Line<'static>>,
}

impl Renderer<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => self.span(&code, self.theme.code),
            Event::Html(html) | Event::InlineHtml(html) => self.text(html.trim_end_matches('\n')),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.block();
                let columns = self.width.saturating_sub(self.indent.columns());
                self.line(vec![Span::styled("─".repeat(columns), self.theme.border)]);
                self.gap.due = true;
            }
            Event::TaskListMarker(done) => {
                let mark = if done { "[x] " } else { "[ ] " };
                self.span(mark, self.theme.accent);
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.block(),
            Tag::Heading { level, .. } => {
                self.block();
                self.styles.push(self.theme.heading(level == HeadingLevel::H1));
            }
            Tag::BlockQuote(_) => {
                self.block();
                self.indent.prefix.push(Span::styled(QUOTE, self.theme.border));
                self.styles.push(self.theme.quote(self.style()));
            }
            Tag::CodeBlock(kind) => {
                self.block();
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => info.split([' ', ',', '{']).next().unwrap_or_default(),
                    CodeBlockKind::Indented => "",
                };
                self.code = Some((language.to_lowercase(), String::new()));
            }
            Tag::List(first) => {
                if self.indent.lists.is_empty() {
                    self.block();
                } else {
                    self.flush();
                    self.gap = Gap::default();
                }
                self.indent.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                self.indent.open_item(self.theme.dim);
            }
            Tag::Emphasis => self.push_style(Modifier::ITALIC),
            Tag::Strong => self.push_style(Modifier::BOLD),
            Tag::Strikethrough => self.push_style(Modifier::CROSSED_OUT),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.styles.push(links::to(&dest_url, self.theme.link));
                self.link = Some((dest_url.into_string(), self.inline.len()));
            }
            Tag::Table(alignments) => {
                self.block();
                self.table = Some(Table::new(&alignments));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.gap.due = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.gap.due = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.styles.pop();
                self.indent.prefix.pop();
                self.gap.due = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.flush();
                self.indent.lists.pop();
                self.gap.due = self.indent.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                if self.indent.marker.is_some() {
                    self.line(Vec::new());
                }
                self.indent.prefix.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(table) = &mut self.table {
                    table.cell(cell);
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let columns = self.width.saturating_sub(self.indent.columns());
                    for line in table.lines(columns, self.theme) {
                        self.line(line);
                    }
                }
                self.gap.due = true;
            }
            _ => {}
        }
    }

    fn end_code(&mut self) {
        let (language, code) = self.code.take().unwrap_or_default();
        let shown: Vec<_> = code.lines().map(text::visible).collect();
        let diff = matches!(language.as_str(), "diff" | "patch");
        let known = !language.is_empty() && self.theme.syntax.is_some() && !diff;
        let style = if known { self.theme.text } else { self.theme.code_block() };
        let colours = known.then(|| {
            let end = if code.ends_with('\n') { "\n" } else { "" };
            self.codes.get(&language, shown.join("\n") + end)
        });
        let columns = self.width.saturating_sub(self.indent.columns() + 2);
        let headers = if diff { diff_headers(&shown) } else { Vec::new() };
        for (line, shown) in shown.iter().enumerate() {
            let mut from = 0;
            // The words before a block say where a change is, so the headers of the patch are left out.
            let header = headers.get(line);
            let shown: &str = match header {
                Some(Header::Hidden | Header::Hunk { first: true }) => continue,
                Some(Header::Hunk { first: false }) => "⋮",
                Some(Header::Name(name)) => name,
                Some(Header::None) | None => shown,
            };
            // Tables and lists in `text` blocks consist of words, so they are not cut like code.
            let cut = if language == "text" { text::chunks_of_words } else { text::chunks };
            let (style, tint) = match header {
                Some(Header::Name(_)) => (self.theme.text.add_modifier(Modifier::BOLD), Style::new()),
                _ if diff => self.diff_line(shown),
                _ => (style, Style::new()),
            };
            // A line that continues keeps its indentation, so that code whose indentation matters reads right.
            let indentation = shown.len() - shown.trim_start().len();
            let hang = if language == "text" { 0 } else { (indentation + 2).min(columns / 3) };
            let first = cut(shown, columns).first().map_or(0, |piece| piece.len());
            let rest = cut(&shown[first..], columns - hang);
            let rest = rest.into_iter().filter(|piece| !piece.is_empty());
            for piece in std::iter::once(&shown[..first]).chain(rest) {
                let lead = " ".repeat(if from > 0 { 2 + hang } else { 2 });
                let spans = vec![Span::raw(lead), Span::styled(piece.to_owned(), style)];
                let row = self.line(spans);
                row.line.style = tint;
                // Tables and lists of pages are `text` blocks, and changed lines have a background of their own.
                row.is_code = !diff && language != "text";
                row.gutter =
                    row.line.spans[..row.line.spans.len() - 1].iter().map(|s| text::width(&s.content)).sum();
                row.joint = if from > 0 { Joint::Soft(String::new()) } else { Joint::Hard };
                if let Some(code) = &colours {
                    let end = row.line.spans.len();
                    row.code.push(CodeSpans { code: Arc::clone(code), line, from, spans: end - 1..end });
                }
                from += piece.len();
            }
        }
        self.gap.due = true;
    }

    /// Returns the style of a line of a `diff` block and the style of its background.
    fn diff_line(&self, line: &str) -> (Style, Style) {
        let theme = self.theme;
        let added = match line.as_bytes().first() {
            Some(b'+') if !line.starts_with("+++ ") => true,
            Some(b'-') if !line.starts_with("--- ") => false,
            Some(b' ') | None => return (theme.text, Style::new()),
            _ => return (theme.dim, Style::new()),
        };
        let style = if added { theme.diff.added } else { theme.diff.removed };
        let tint = theme.tint(added).unwrap_or_default();
        (style.patch(tint), tint)
    }

    /// Ends a link. Adds its address if the text does not contain it.
    fn end_link(&mut self) {
        self.styles.pop();
        if let Some((url, from)) = self.link.take() {
            let shown: String = self.inline.iter().skip(from).map(|s| s.content.as_ref()).collect();
            if !url.is_empty() && shown != url && !url.starts_with('#') {
                self.inline.push(Span::styled(
                    format!(" ({})", text::visible(&url)),
                    links::to(&url, self.theme.dim),
                ));
            }
        }
    }

    fn push_style(&mut self, modifier: Modifier) {
        let style = self.style().add_modifier(modifier);
        self.styles.push(style);
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn text(&mut self, text: &str) {
        match &mut self.code {
            Some((_, code)) => code.push_str(text),
            None => self.span(text, self.style()),
        }
    }

    fn span(&mut self, text: &str, style: Style) {
        let shown: Vec<_> = text.lines().map(text::visible).collect();
        let shown = if shown.len() == 1 { shown[0].to_string() } else { shown.join(" ") };
        if self.link.is_some() {
            self.inline.push(Span::styled(shown, style));
            return;
        }
        let mut at = 0;
        for range in links::in_text(&shown) {
            if range.start > at {
                self.inline.push(Span::styled(shown[at..range.start].to_owned(), style));
            }
            let address = &shown[range.clone()];
            self.inline.push(Span::styled(address.to_owned(), links::to(address, style)));
            at = range.end;
        }
        self.inline.push(Span::styled(shown[at..].to_owned(), style));
    }

    /// Begins a block after writing out the one before. The empty line between them comes with the new block's first
    /// line, if it has one.
    fn block(&mut self) {
        self.flush();
        // The first block after the empty line decides how many quote bars that line has: a quote begins after its empty line.
        if self.gap.due && self.gap.between.is_none() {
            let bars = self.indent.prefix.iter().filter(|s| s.content.starts_with(QUOTE));
            self.gap.between = Some(Line::from(bars.cloned().collect::<Vec<_>>()));
        }
    }

    fn flush(&mut self) {
        if self.inline.is_empty() {
            return;
        }
        let inline = std::mem::take(&mut self.inline);
        let columns = self.width.saturating_sub(self.indent.columns());
        let none = Span::raw("");
        for (line, joint) in text::wrap_joined(&inline, columns, &none, &none) {
            let indent = self.indent.columns();
            let row = self.line(line.spans);
            if joint != Joint::Hard {
                row.gutter = indent;
            }
            row.joint = joint;
        }
    }

    fn line(&mut self, spans: Vec<Span<'static>>) -> &mut Row {
        if self.gap.due && !self.out.is_empty() {
            self.out.push(self.gap.between.take().unwrap_or_default().into());
        }
        self.gap.due = false;
        let (mut line, bars) = self.indent.next_line();
        line.extend(spans);
        let index = self.out.len();
        self.out.push(Row { line: Line::from(line), gutter: 2 * bars, ..Row::default() });
        &mut self.out[index]
    }
}
/// Kind of a line in a `diff` block: code, or a header that is not shown as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Header {
    None,
    /// Hidden: a line of a file's header.
    Hidden,
    /// The line in a file's header that is shown as this text: the file's name.
    Name(String),
    /// `@@ -1,2 +1,2 @@`; `first`: the first hunk of its file.
    Hunk {
        first: bool,
    },
}

/// Beginnings of the lines that git writes between `diff --git` and `---`.
const GIT_HEADERS: [&str; 11] = [
    "index ",
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "similarity index ",
    "dissimilarity index ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
];

/// Returns the kind of each line of a `diff` block. Each file has its name as a heading if the block is about several files.
fn diff_headers(lines: &[Cow<'_, str>]) -> Vec<Header> {
    let is_hunk = |line: Option<&Cow<'_, str>>| {
        line.is_some_and(|line| line.starts_with("@@ ") && line[3..].contains(" @@"))
    };
    let is_file = |at: usize| {
        lines.get(at).is_some_and(|line| line.starts_with("--- "))
            && lines.get(at + 1).is_some_and(|line| line.starts_with("+++ "))
            && is_hunk(lines.get(at + 2))
    };
    let files = (0..lines.len()).filter(|at| is_file(*at)).count();
    let mut out = vec![Header::None; lines.len()];
    let (mut at, mut fresh) = (0, true);
    while at < lines.len() {
        let git = usize::from(lines[at].starts_with("diff --git "));
        let more =
            lines[at + git..].iter().take_while(|line| GIT_HEADERS.iter().any(|h| line.starts_with(h)));
        let head = if git == 1 { at + 1 + more.count() } else { at };
        if is_file(head) {
            out[at..head + 2].fill(Header::Hidden);
            if files > 1 {
                out[head] = Header::Name(file_name(&lines[head], &lines[head + 1]));
            }
            (at, fresh) = (head + 2, true);
            continue;
        }
        if is_hunk(lines.get(at)) {
            out[at] = Header::Hunk { first: std::mem::replace(&mut fresh, false) };
        } else {
            fresh = false;
        }
        at += 1;
    }
    out
}

/// Returns the name of a file from the `---` and `+++` lines of its header, and what happened to it.
fn file_name(old: &str, new: &str) -> String {
    // A time can follow the name after a tab.
    let name = |line: &str, prefix: &str| {
        let name = line.get(4..).unwrap_or_default().split('\t').next().unwrap_or_default().trim_end();
        name.strip_prefix(prefix).unwrap_or(name).to_owned()
    };
    match (name(old, "a/"), name(new, "b/")) {
        (old, new) if old == new => new,
        (old, new) if old == "/dev/null" => format!("{new} (new file)"),
        (old, new) if new == "/dev/null" => format!("{old} (deleted)"),
        (old, new) => format!("{old} → {new}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_block_shows_code_and_no_headers_unless_they_tell_files_apart() {
        let headers = |text: &str| {
            let lines: Vec<Cow<'_, str>> = text.lines().map(Cow::Borrowed).collect();
            let shown = diff_headers(&lines);
            let shown = lines.iter().zip(shown).filter_map(|(line, header)| match header {
                Header::None => Some(line.to_string()),
                Header::Name(name) => Some(format!("[{name}]")),
                Header::Hunk { first: false } => Some("⋮".to_owned()),
                Header::Hidden | Header::Hunk { first: true } => None,
            });
            shown.collect::<Vec<_>>().join("\n")
        };
        let hunk = "@@ -1,2 +1,2 @@ fn a()\n-x\n+y\n";
        for (text, want) in [
            (format!("--- a/x\n+++ b/x\n{hunk}{hunk}"), "-x\n+y\n⋮\n-x\n+y"),
            (hunk.to_owned(), "-x\n+y"),
            ("-x\n+y".to_owned(), "-x\n+y"),
            // Removed and added lines that look like the names of files.
            ("--- x\n+++ y\n".to_owned(), "--- x\n+++ y"),
            (format!("--- a/x\n+++ b/x\n{hunk}--- a/z\n+++ b/z\n{hunk}"), "[x]\n-x\n+y\n[z]\n-x\n+y"),
            (
                format!(
                    "diff --git a/x b/w\nsimilarity index 90%\nrename from x\nrename to w\nindex 1..2 100644\n--- a/x\n+++ b/w\n\
                     {hunk}diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+y\n\
                     --- a/d\t2026-01-01\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
                ),
                "[x → w]\n-x\n+y\n[n (new file)]\n+y\n[d (deleted)]\n-x",
            ),
            // One file needs no heading, and a header without text changes stays.
            (format!("diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n{hunk}"), "-x\n+y"),
            (
                "diff --git a/i b/i\nBinary files a/i and b/i differ\n".to_owned(),
                "diff --git a/i b/i\nBinary files a/i and b/i differ",
            ),
        ] {
            assert_eq!(headers(&text), want, "{text}");
        }
    }
}
