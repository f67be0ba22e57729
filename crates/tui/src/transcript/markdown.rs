//! Markdown as lines, also while it streams in.
//!
//! [`Markdown`] keeps the lines of what cannot change any more and lays out only the rest: an answer costs what is new in it,
//! not what is old. The border between the two is an empty line outside of lists, quotes and fences ([`border`]). Text laid
//! out piece by piece gives the same lines as text laid out at once.

mod render;
mod table;

use crate::theme::Theme;
use ratatui::text::Line;

/// The lines of one growing text.
#[derive(Debug, Default)]
pub struct Markdown {
    width: usize,
    theme: &'static str,
    /// Bytes of the text whose lines are in `settled`.
    settled_to: usize,
    settled: Vec<Line<'static>>,
    tail: Vec<Line<'static>>,
    /// Length of the text that `tail` was made from.
    seen: usize,
}

impl Markdown {
    /// Lays out what is new in `text`; the number of lines. `text` may only grow between calls, unless [`Markdown::reset`].
    pub fn lay_out(&mut self, text: &str, width: usize, theme: &Theme) -> usize {
        if self.width != width || self.theme != theme.name || text.len() < self.seen {
            self.reset();
            self.width = width;
            self.theme = theme.name;
        }
        if text.len() != self.seen {
            let border = self.settled_to + border(&text[self.settled_to..]);
            if border > self.settled_to {
                render::append(&mut self.settled, &text[self.settled_to..border], width, theme);
                self.settled_to = border;
            }
            self.tail.clear();
            let mut tail = Vec::new();
            render::append(&mut tail, &text[border..], width, theme);
            if !tail.is_empty() && !self.settled.is_empty() {
                self.tail.push(Line::default());
            }
            self.tail.append(&mut tail);
            self.seen = text.len();
        }
        self.settled.len() + self.tail.len()
    }

    pub fn line(&self, index: usize) -> Option<&Line<'static>> {
        match index.checked_sub(self.settled.len()) {
            None => self.settled.get(index),
            Some(rest) => self.tail.get(rest),
        }
    }

    /// The text is another one.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Up to where `text`, which begins a block, cannot be changed by what follows: behind the last empty line that ends a block
/// for sure. An open fence, a list, a quote, an indented block or a link definition hold it back.
fn border(text: &str) -> usize {
    let mut safe = 0;
    let mut at = 0;
    let mut fence: Option<(char, usize)> = None;
    // What the block before an empty line may still take in.
    let mut sticky = false;
    let mut blank = true;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let trimmed = line.trim_start_matches(' ');
        if let Some((mark, length)) = fence {
            if closes(trimmed, mark, length) {
                fence = None;
            }
            blank = false;
            continue;
        }
        if line.trim().is_empty() {
            blank = line.ends_with('\n');
            continue;
        }
        let holds = is_sticky(line);
        // A block that begins at the margin behind an empty line: nothing before it can change.
        // A line that is not whole yet may become anything.
        let whole = line.ends_with('\n');
        if blank && whole && start > 0 && !(sticky && (holds || line.starts_with([' ', '\t']))) {
            safe = start;
            sticky = false;
        }
        fence = opens(trimmed);
        sticky |= holds;
        blank = false;
    }
    safe
}

/// List items, quotes, indented code, HTML and definitions go on over empty lines.
fn is_sticky(line: &str) -> bool {
    let trimmed = line.trim_start();
    line.starts_with("    ")
        || line.starts_with('\t')
        || trimmed.starts_with(['-', '*', '+', '>', '<', '['])
        || trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['.', ')'])
            && trimmed.starts_with(|c: char| c.is_ascii_digit())
}

fn opens(trimmed: &str) -> Option<(char, usize)> {
    let mark = trimmed.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = trimmed.chars().take_while(|c| *c == mark).count();
    let info = &trimmed[length..];
    (length >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, length))
}

fn closes(trimmed: &str, mark: char, length: usize) -> bool {
    let have = trimmed.chars().take_while(|c| *c == mark).count();
    have >= length && trimmed[have..].trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(markdown: &mut Markdown, text: &str, width: usize) -> Vec<String> {
        let count = markdown.lay_out(text, width, &Theme::plain());
        (0..count).map(|i| markdown.line(i).unwrap().to_string().trim_end().to_owned()).collect()
    }

    fn check(text: &str, want: &[&str]) {
        assert_eq!(lines(&mut Markdown::default(), text, 30), want, "{text:?}");
    }

    #[test]
    fn blocks() {
        check("plain *em* **strong** `code`", &["plain em strong code"]);
        check("# Title\n\ntext", &["# Title", "", "text"]);
        check("- one\n- two\n  - inner\n\n1. a\n2. b", &["- one", "- two", "  - inner", "", "1. a", "2. b"]);
        check("> quoted\n> more", &["│ quoted more"]);
        check("```rust\nfn main() {}\n```", &["  fn main() {}"]);
        check("a\n\n---\n\nb", &["a", "", &"─".repeat(30), "", "b"]);
        check("[text](https://x.y)", &["text (https://x.y)"]);
        check("- [x] done\n- [ ] open", &["- [x] done", "- [ ] open"]);
        check("| a | b |\n|---|---|\n| 1 | 22 |", &["a │ b", "──┼───", "1 │ 22"]);
        check("one two three four five six seven", &["one two three four five six", "seven"]);
        check("x\x1b[31my", &["x␛[31my"]);
    }

    #[test]
    fn an_open_fence_is_code_already() {
        check("```\nlet x", &["  let x"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn streamed_is_the_same_as_whole(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("\n\n"), Just("\n"), Just("# H\n"), Just("- item\n"), Just("1. n\n"), Just("```\n"), Just("    code\n"),
                    Just("> q\n"), Just("| a | b |\n|---|---|\n| c | d |\n"), Just("text "), Just("*em* "), Just("---\n"), Just("  more\n"),
                ],
                0..24,
            ),
            steps in proptest::collection::vec(1usize..40, 1..20),
        ) {
            let text = pieces.concat();
            let whole = lines(&mut Markdown::default(), &text, 24);
            let mut streaming = Markdown::default();
            let mut at = 0;
            for step in steps {
                at = text.floor_char_boundary((at + step).min(text.len()));
                streaming.lay_out(&text[..at], 24, &Theme::plain());
            }
            prop_assert_eq!(lines(&mut streaming, &text, 24), whole);
        }
    }
}
