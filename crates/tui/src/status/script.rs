//! Output of the user's status line program as styled text.
//!
//! Colours and weights of the output are kept. Every other escape sequence is dropped (links keep their text), and
//! remaining control characters are made visible, so no escape sequence reaches the terminal.

use crate::ansi::Ansi;
use crate::text;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Maximum number of rows that are shown.
pub const ROWS: usize = 3;

/// The user's status line program, and its last output.
///
/// Invariant: at most one run is waiting. Changes before that run are covered by it.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// The user has such a program.
    pub exists: bool,
    pub lines: Vec<String>,
    /// A run is due after a delay.
    pub waiting: bool,
}

impl Script {
    /// Records a change. Returns true if a run has to be scheduled for it.
    pub(super) fn needs_run(&mut self) -> bool {
        self.exists && !std::mem::replace(&mut self.waiting, true)
    }
}

/// Styles one line of output, cut to `width` columns.
pub fn line(output: &str, width: usize) -> Line<'static> {
    let mut room = width;
    let mut fitting = |span: Span<'static>| {
        let shown = text::fit(&span.content, room).into_owned();
        room -= text::width(&shown).min(room);
        Span::styled(shown, span.style)
    };
    let spans = Ansi::new(Style::new(), true).line(output);
    Line::from(
        spans.into_iter().map(&mut fitting).filter(|span| !span.content.is_empty()).collect::<Vec<_>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::{Color, Modifier};

    #[test]
    fn colours_stay_and_everything_else_is_text() {
        let shown =
            line("a\x1b[1;31mred\x1b[0m \x1b]8;;https://x\x1b\\link\x1b]8;;\x07\x1b[2Jz\u{202e}\x07", 80);
        assert_eq!(shown.to_string(), "ared linkz⟨U+202E⟩␇");
        assert_eq!(shown.spans[1].style, Style::new().fg(Color::Indexed(1)).add_modifier(Modifier::BOLD));
        assert_eq!(shown.spans[2].style, Style::new());
        let color = line("\x1b[38;2;1;2;3mx\x1b[48;5;9my", 80);
        assert_eq!(color.spans[0].style.fg, Some(Color::Rgb(1, 2, 3)));
        assert_eq!(color.spans[1].style.bg, Some(Color::Indexed(9)));
        for broken in ["\x1b", "\x1b[", "\x1b[31", "\x1b]8;;x", "é\x1bé"] {
            assert!(!line(broken, 80).to_string().contains('\x1b'), "{broken:?}");
        }
        assert_eq!(line("0123456789", 5).to_string(), "0123…");
    }
}
