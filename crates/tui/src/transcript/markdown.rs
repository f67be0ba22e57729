//! Markdown as lines, also while it streams in.
//!
//! [`Markdown`] keeps the lines that cannot change and lays out only the rest, so the cost depends on the new text and
//! not on the old. The text is laid out in pieces ([`pieces`]) that do not depend on how it arrived.

mod pieces;
mod render;
mod table;

use super::row::Row;
use crate::highlight::Code;
use crate::theme::Theme;
use pieces::{Context, Pieces};
use std::borrow::Cow;
use std::sync::Arc;

/// The lines of one growing text.
#[derive(Debug, Default)]
pub struct Markdown {
    width: usize,
    theme: &'static str,
    pieces: Pieces,
    /// Lines of the complete pieces, and lines of the rest.
    settled: Vec<Row>,
    tail: Vec<Row>,
    /// Rows up to the end of each complete piece.
    ends: Vec<usize>,
    /// Length of the text that `tail` was laid out from.
    seen: usize,
    codes: Codes,
    /// More text will come, so the beginning of a link at the end of the text is not shown yet.
    grows: bool,
}

/// The code blocks of a text. They keep their highlighting when the text is laid out again.
#[derive(Debug, Default)]
pub(super) struct Codes(Vec<Arc<Code>>);

impl Codes {
    fn get(&mut self, language: &str, text: String) -> Arc<Code> {
        if let Some(have) = self.0.iter().rev().find(|code| code.is(language, &text)) {
            return Arc::clone(have);
        }
        // Only the last code block can grow.
        let grown = self.0.last().and_then(|last| last.grown(language, &text));
        if grown.is_some() {
            self.0.pop();
        }
        let code = grown.unwrap_or_else(|| Code::new(language, text));
        self.0.push(Arc::clone(&code));
        code
    }
}

impl Markdown {
    /// Lays out what is new in `text` and returns the number of lines. `text` may only grow between calls, unless
    /// [`Markdown::reset`] is called.
    pub fn lay_out(&mut self, text: &str, width: usize, theme: &Theme) -> usize {
        if self.width != width || self.theme != theme.name || text.len() < self.seen {
            self.lay_out_anew();
            self.width = width;
            self.theme = theme.name;
        }
        if text.len() != self.seen {
            while let Some(piece) = self.pieces.next(text) {
                let source = source(&piece.context, &text[piece.range], &piece.close);
                render::append(
                    &mut self.settled,
                    &source,
                    piece.context.joined,
                    width,
                    theme,
                    &mut self.codes,
                );
                self.ends.push(self.settled.len());
            }
            self.tail.clear();
            let shown = if self.grows { self.without_open_link(text) } else { text };
            let (from, context) = self.pieces.rest();
            let rest = source(context, shown.get(from..).unwrap_or_default(), "");
            render::append(&mut self.tail, &rest, true, width, theme, &mut self.codes);
            if !context.joined && !self.tail.is_empty() && !self.settled.is_empty() {
                self.tail.insert(0, Row::default());
            }
            self.seen = text.len();
        }
        self.settled.len() + self.tail.len()
    }

    /// Records if more text will come. While it does, the beginning of a link at the end is hidden until the link is complete,
    /// because its Markdown would be read as words.
    pub(crate) fn set_growing(&mut self, grows: bool) {
        if self.grows != grows {
            self.grows = grows;
            // The rest of the text is laid out again, although it did not change.
            self.seen = 0;
        }
    }

    /// Returns the text up to a link that its last line begins and does not complete.
    fn without_open_link<'a>(&self, text: &'a str) -> &'a str {
        let from = self.pieces.open_line().min(text.len());
        let line = &text[from..];
        if self.pieces.is_in_fence() || line.starts_with("    ") || line.starts_with('\t') {
            return text;
        }
        let Some(at) = open_link(line) else { return text };
        let before = &text[..from + at];
        // The Markdown of an image is a link after `!`, so the sign is hidden as well.
        before.strip_suffix('!').unwrap_or(before)
    }

    /// Returns a row of the layout.
    pub fn row(&self, index: usize) -> Option<&Row> {
        match index.checked_sub(self.settled.len()) {
            None => self.settled.get(index),
            Some(rest) => self.tail.get(rest),
        }
    }

    fn lay_out_anew(&mut self) {
        let codes = std::mem::take(&mut self.codes);
        *self = Self { codes, grows: self.grows, ..Self::default() };
    }

    /// Returns the number of pieces that can no longer change. It is the same at every width.
    pub fn settled(&self) -> usize {
        self.ends.len()
    }

    /// Returns the first row after this many pieces.
    pub(crate) fn row_behind(&self, pieces: usize) -> usize {
        let last = pieces.min(self.ends.len()).checked_sub(1);
        last.and_then(|last| self.ends.get(last)).copied().unwrap_or(0)
    }

    /// Discards everything, for another text.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Maximum number of bytes of a link that are held back while it is not complete.
const LONGEST_LINK: usize = 400;

/// Returns the start of a link that the line begins and does not complete: `[words`, `[words]` at the end, or `[words](address`.
fn open_link(line: &str) -> Option<usize> {
    let (mut open, mut in_code) = (None, false);
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (c, open) {
            ('\\', _) => drop(chars.next()),
            ('`', _) => in_code = !in_code,
            _ if in_code => {}
            ('[', None) => open = Some(at),
            (']', Some(_)) => match chars.peek().copied() {
                Some((_, '(')) if chars.any(|(_, c)| c == ')') => open = None,
                Some((_, '(')) | None => {}
                Some(_) => open = None,
            },
            _ => {}
        }
    }
    open.filter(|at| line.len() - at <= LONGEST_LINK)
}

fn source<'a>(context: &Context, text: &'a str, close: &str) -> Cow<'a, str> {
    if context.lead.is_empty() && close.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned([&context.lead, text, close].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(markdown: &mut Markdown, text: &str, width: usize) -> Vec<String> {
        let count = markdown.lay_out(text, width, &Theme::plain());
        (0..count).map(|i| markdown.row(i).unwrap().line.to_string().trim_end().to_owned()).collect()
    }

    fn check(text: &str, want: &[&str]) {
        assert_eq!(lines(&mut Markdown::default(), text, 30), want, "{text:?}");
    }

    #[test]
    fn blocks() {
        check("plain *em* **strong** `code`", &["plain em strong code"]);
        check("# Title\n\ntext", &["Title", "", "text"]);
        check("- one\n- two\n  - inner\n\n1. a\n2. b", &["• one", "• two", "  ◦ inner", "", "1. a", "2. b"]);
        check("> quoted\n> more", &["▎ quoted more"]);
        check("- a\n\n> b", &["• a", "", "▎ b"]);
        check("a\n\n> b\n>\n> c\n\nd", &["a", "", "▎ b", "▎", "▎ c", "", "d"]);
        check("```rust\nfn main() {}\n```", &["  fn main() {}"]);
        check("a\n\n---\n\nb", &["a", "", &"─".repeat(30), "", "b"]);
        check("[text](https://x.y)", &["text (https://x.y)"]);
        check("- [x] done\n- [ ] open", &["• [x] done", "• [ ] open"]);
        check("| a | b |\n|---|---|\n| 1 | 22 |", &["a │ b", "──┼───", "1 │ 22"]);
        check("one two three four five six seven", &["one two three four five six", "seven"]);
        check("x\x1b[31my", &["x␛[31my"]);
    }

    /// A link that streams in is not shown as Markdown; once the answer has ended, every text is shown.
    #[test]
    fn the_beginning_of_a_link_waits_for_its_end() {
        for (text, growing) in [
            ("See [the documentation of", "See"),
            ("See [the documentation]", "See"),
            ("See [the documentation](https://x", "See"),
            ("See [the documentation](https://x.y)", "See the documentation\n(https://x.y)"),
            ("An image ![of", "An image"),
            ("See [1] and go", "See [1] and go"),
            ("A list `a[0", "A list `a[0"),
            ("one [two\nthree", "one [two three"),
            ("```\na[0", "  a[0"),
            ("    a[0", "  a[0"),
            ("wow! [x]: y", "wow! [x]: y"),
        ] {
            let mut markdown = Markdown::default();
            markdown.set_growing(true);
            assert_eq!(lines(&mut markdown, text, 30).join("\n"), growing, "{text}");
            markdown.set_growing(false);
            let whole = lines(&mut Markdown::default(), text, 30);
            assert_eq!(lines(&mut markdown, text, 30), whole, "{text}");
        }
    }

    #[test]
    fn an_open_fence_is_code_already() {
        check("```\nlet x", &["  let x"]);
    }

    /// A block that is too long for one piece is cut the same however it arrived, nothing is lost, and the rest stays
    /// short.
    #[test]
    fn long_blocks_are_cut_the_same_however_they_come() {
        let repeat = |piece: &dyn Fn(usize) -> String| (0..4_000).map(piece).collect::<String>();
        let texts = [
            repeat(&|i| format!("word{i} *em* ")),
            repeat(&|i| format!("word{i} `code`\n")),
            repeat(&|i| format!("日本{i}")),
            format!("```rust\n{}```\nafter", repeat(&|i| format!("let x = {i};\n\n"))),
            format!("| a | b |\n|---|---|\n{}\nafter", repeat(&|i| format!("| {i} | cell |\n"))),
            repeat(&|i| format!("- item {i}\n  - inner\n")),
            repeat(&|i| format!("> quote {i}\n")),
            repeat(&|i| format!("    code {i}\n")),
        ];
        for text in texts {
            let whole = lines(&mut Markdown::default(), &text, 40);
            for step in [333, 7_001] {
                let mut streaming = Markdown::default();
                let mut at = 0;
                while at < text.len() {
                    at = text.ceil_char_boundary((at + step).min(text.len()));
                    streaming.lay_out(&text[..at], 40, &Theme::plain());
                    assert!(at - streaming.pieces.rest().0 < 48 * 1024, "{}", &text[..40]);
                }
                assert_eq!(lines(&mut streaming, &text, 40), whole);
            }
            let digits = |s: &str| s.chars().filter(char::is_ascii_digit).collect::<String>();
            assert_eq!(digits(&whole.concat()), digits(&text));
            assert!(!whole.iter().any(|l| l.contains("```")));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn streamed_is_the_same_as_whole(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("\n\n"), Just("\n"), Just("# H\n"), Just("- item\n"), Just("1. n\n"), Just("```\n"), Just("    code\n"),
                    Just("> q\n"), Just("| a | b |\n|---|---|\n| c | d |\n"), Just("text "), Just("[a](b) "), Just("[a "), Just("*em* "), Just("---\n"), Just("  more\n"),
                ],
                0..24,
            ),
            steps in proptest::collection::vec(1usize..40, 1..20),
        ) {
            let text = pieces.concat();
            let whole = lines(&mut Markdown::default(), &text, 24);
            let mut streaming = Markdown::default();
            streaming.set_growing(true);
            let mut at = 0;
            for step in steps {
                at = text.floor_char_boundary((at + step).min(text.len()));
                streaming.lay_out(&text[..at], 24, &Theme::plain());
            }
            streaming.set_growing(false);
            prop_assert_eq!(lines(&mut streaming, &text, 24), whole);
        }
    }
}
