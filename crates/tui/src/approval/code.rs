//! Colours of the code in a question about a change, and of the programs in one about a command.
//!
//! Owns the old and the new text of each file's hunks as [`Code`], which is parsed outside the interface's thread when the question
//! is on the screen, and the command in the same way. Until then the code has the colour of its line. Changes no text: the spans of a line hold what the line held.

use crate::highlight::{Class, Code, Job};
use crate::text;
use crate::theme::Theme;
use crate::transcript::changed_words;
use becket_types::FilePreview;
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;
use std::ops::Range;
use std::sync::Arc;

/// The hunks of one file as code of its language.
#[derive(Debug)]
pub(super) struct ChangedCode {
    old: Arc<Code>,
    new: Arc<Code>,
}

/// Index of the next line in the old text, in the new text and in all hunks together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    old: usize,
    new: usize,
    pub(super) line: usize,
}

impl ChangedCode {
    pub(super) fn new(file: &FilePreview) -> Self {
        let (mut old, mut new) = (String::new(), String::new());
        for line in file.hunks.iter().flat_map(|hunk| hunk.lines().skip(1)) {
            let Some((in_old, in_new, code)) = sides(line) else { continue };
            for side in [(in_old, &mut old), (in_new, &mut new)] {
                if let (true, side) = side {
                    side.push_str(&text::visible(code));
                    side.push('\n');
                }
            }
        }
        let language = file.path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        Self { old: Code::new(language, old), new: Code::new(language, new) }
    }

    /// Returns the jobs that parse the code. Each job is returned only once.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Job> {
        [&self.old, &self.new].into_iter().filter_map(Code::wanted)
    }

    /// Returns the spans of the next line of `file`: its sign in `style`, then its code with the changed words marked. `at` moves on.
    pub(super) fn spans(
        &self,
        file: &FilePreview,
        line: &str,
        at: &mut At,
        style: Style,
        theme: &Theme,
    ) -> Vec<Span<'static>> {
        let index = at.line;
        let first = file.marks.partition_point(|mark| mark.0 < index);
        let marks =
            file.marks[first..].iter().take_while(|mark| mark.0 == index).map(|mark| (mark.1, mark.2));
        let mut spans = self.coloured(line, at, style, theme);
        at.line += 1;
        let word = if line.starts_with('+') { theme.diff.added_word } else { theme.diff.removed_word };
        let text = line.get(1..).unwrap_or_default();
        for (from, to) in changed_words(marks, text) {
            // The sign is one byte.
            let shown = |end: usize| 1 + text::visible(&text[..end]).len();
            mark(&mut spans, shown(from)..shown(to), word);
        }
        spans
    }

    fn coloured(&self, line: &str, at: &mut At, style: Style, theme: &Theme) -> Vec<Span<'static>> {
        let Some((in_old, in_new, code)) = sides(line) else {
            return vec![Span::styled(text::visible(line).into_owned(), style)];
        };
        let (side, number) = if in_new { (&self.new, at.new) } else { (&self.old, at.old) };
        (at.old, at.new) = (at.old + usize::from(in_old), at.new + usize::from(in_new));
        let changed = in_old != in_new;
        // As in the transcript: if a background shows what changed, the code has the colour of text until its own colours are known.
        let style = if changed && theme.tint(in_new).is_some() { theme.text } else { style };
        let code = text::visible(code);
        let sign = line.get(..1).unwrap_or(" ").to_owned();
        // In themes without such backgrounds the colour of the text shows what changed, so code gets no colours of its own there.
        if theme.syntax.is_none() || (changed && theme.tint(true).is_none()) {
            let sign_style = if changed { theme.changed_sign(in_new) } else { style };
            return vec![Span::styled(sign, sign_style), Span::styled(code.into_owned(), style)];
        }
        let sign_style = if changed { theme.changed_sign(in_new) } else { style };
        let mut spans = vec![Span::styled(sign, sign_style)];
        let mut from = 0;
        side.runs(number, 0..code.len(), |length, class| {
            let to = code.floor_char_boundary((from + length).min(code.len()));
            if to > from {
                spans.push(Span::styled(code[from..to].to_owned(), theme.text.patch(theme.class(class))));
                from = to;
            }
        });
        spans.push(Span::styled(code[from..].to_owned(), style));
        spans
    }
}

/// Returns a command as code of the shell, line by line as the question shows it.
pub(super) fn command(command: &str) -> Arc<Code> {
    let lines: Vec<_> = command.split('\n').map(text::visible).collect();
    Code::new("bash", lines.join("\n"))
}

/// Returns a line of a command with the names of its programs marked. `number`: the line, from 0. `shown`: the line as it is shown.
pub(super) fn programs(code: &Code, number: usize, shown: &str, theme: &Theme) -> Vec<Span<'static>> {
    let program = theme.code.patch(theme.accent).add_modifier(Modifier::BOLD);
    let mut spans = Vec::new();
    let mut from = 0;
    code.runs(number, 0..shown.len(), |length, class| {
        let to = shown.floor_char_boundary((from + length).min(shown.len()));
        if to > from {
            let style = if class == Class::Function { program } else { theme.code };
            spans.push(Span::styled(shown[from..to].to_owned(), style));
            from = to;
        }
    });
    spans.push(Span::styled(shown[from..].to_owned(), theme.code));
    spans
}

/// Applies `style` to a range of the spans' joined text, below the spans' own styles. A span that the range would cut within a
/// character stays as it is.
fn mark(spans: &mut Vec<Span<'static>>, bytes: Range<usize>, style: Style) {
    let mut start = 0;
    for span in std::mem::take(spans) {
        let cut = |at: usize| at.clamp(start, start + span.content.len()) - start;
        let (from, to) = (cut(bytes.start), cut(bytes.end));
        start += span.content.len();
        let parts = [span.content.get(..from), span.content.get(from..to), span.content.get(to..)];
        let [Some(before), Some(inside), Some(after)] = parts else {
            spans.push(span);
            continue;
        };
        for (part, style) in [(before, span.style), (inside, style.patch(span.style)), (after, span.style)] {
            if !part.is_empty() {
                spans.push(Span::styled(part.to_owned(), style));
            }
        }
    }
}

/// Returns if a line of a hunk is in the old text and in the new text, and its code. `\ No newline at end of file` is in neither.
fn sides(line: &str) -> Option<(bool, bool, &str)> {
    match line.as_bytes().first() {
        Some(b'+') => Some((false, true, &line[1..])),
        Some(b'-') => Some((true, false, &line[1..])),
        Some(b' ') => Some((true, true, &line[1..])),
        None => Some((true, true, line)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> FilePreview {
        let hunks = [
            "@@ -1,2 +1,3 @@\n def f():\n-    return 1\n+    # why\n+    return \"2\"\n",
            "@@ -9 +10 @@\n-\tx\u{202e}\n\\ No newline at end of file\n",
        ];
        FilePreview { path: path.into(), hunks: hunks.map(str::to_owned).to_vec(), marks: vec![(4, 12, 15)] }
    }

    fn drawn(file: &FilePreview, code: &ChangedCode, theme: &Theme) -> Vec<Vec<Span<'static>>> {
        let mut at = At::default();
        let mut spans = Vec::new();
        for hunk in &file.hunks {
            at.line += 1;
            spans.extend(
                hunk.lines().skip(1).map(|line| code.spans(file, line, &mut at, theme.diff.added, theme)),
            );
        }
        spans
    }

    #[test]
    fn code_of_a_question_is_coloured_and_no_text_changes() {
        for theme in Theme::NAMES.map(|name| Theme::by_name(name).unwrap()) {
            for path in ["a.py", "a.unknown", "a"] {
                let file = file(path);
                let code = ChangedCode::new(&file);
                let before = drawn(&file, &code, &theme);
                code.jobs().for_each(|job| job.run());
                assert_eq!(code.jobs().count(), 0);
                let after = drawn(&file, &code, &theme);
                let text = |rows: &[Vec<Span<'_>>]| -> Vec<String> {
                    rows.iter().map(|spans| spans.iter().map(|s| s.content.as_ref()).collect()).collect()
                };
                let lines = file.hunks.iter().flat_map(|hunk| hunk.lines().skip(1));
                // A tab is drawn from the beginning of the code, not from the sign before it.
                let expected: Vec<String> = lines
                    .map(|line| match line.strip_prefix("-\t") {
                        Some(rest) => format!("-    {}", text::visible(rest)),
                        None => text::visible(line).into_owned(),
                    })
                    .collect();
                assert_eq!((text(&before), text(&after)), (expected.clone(), expected), "{}", theme.name);
            }
        }
        let (theme, file) = (Theme::dark(), file("a.py"));
        let code = ChangedCode::new(&file);
        code.jobs().for_each(|job| job.run());
        let colour = |row: usize, word: &str| {
            let rows = drawn(&file, &code, &theme);
            rows[row].iter().find(|span| span.content == word).map(|span| span.style)
        };
        // A changed word keeps its own colour over the background that marks it.
        let marked = theme.diff.added_word.patch(theme.text.patch(theme.class(Class::String)));
        assert_eq!(colour(3, "\"2\""), Some(marked));
        for (row, word, class) in
            [(0, "def", Class::Keyword), (1, "return", Class::Keyword), (2, "# why", Class::Comment)]
        {
            assert_eq!(colour(row, word), Some(theme.text.patch(theme.class(class))), "{word}");
        }
    }

    #[test]
    fn the_program_of_each_part_of_a_command_is_marked() {
        let text = "cd a && git add -A | tee \"x y\"\nFOO=1 make test; ./run.sh $(date)";
        for theme in Theme::NAMES.map(|name| Theme::by_name(name).unwrap()) {
            let code = command(text);
            let plain = programs(&code, 0, text.lines().next().unwrap(), &theme);
            assert_eq!(
                plain.iter().map(|span| span.content.as_ref()).collect::<String>(),
                text.lines().next().unwrap()
            );
            code.wanted().unwrap().run();
            let mut marked = Vec::new();
            for (number, line) in text.lines().enumerate() {
                let spans = programs(&code, number, line, &theme);
                assert_eq!(spans.iter().map(|span| span.content.as_ref()).collect::<String>(), line);
                let is_marked = |span: &&Span<'_>| span.style != theme.code;
                marked.extend(spans.iter().filter(is_marked).map(|span| span.content.trim().to_owned()));
            }
            assert_eq!(marked, ["cd", "git", "tee", "make", "./run.sh", "date"], "{}", theme.name);
        }
    }
}
