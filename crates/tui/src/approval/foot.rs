//! The answers under a question, and the line that says what the keys do now.

use super::{Approvals, Step, Writing};
use crate::answers::Answer;
use crate::hint;
use crate::text;
use crate::theme::Theme;
use ratatui::text::Line;

/// Rows kept for the body of a question, if the body is that long. With fewer rows left, all answers share one row.
const QUESTION_ROWS: usize = 5;

/// The rows under the question. The last one explains the keys.
pub(super) struct Foot {
    pub lines: Vec<Line<'static>>,
    /// The row of the chosen answer.
    pub cursor: usize,
}

impl Approvals {
    /// Lays out the foot for an area of `height` rows, which it shares with a question of `body` rows.
    pub(super) fn foot(
        &self,
        width: u16,
        height: usize,
        body: usize,
        writing: Writing,
        theme: &Theme,
    ) -> Foot {
        let width = usize::from(width);
        let answers: Vec<Answer> = self.answers().into_iter().map(|(_, answer)| answer).collect();
        let tight = height < answers.len() + 1 + body.min(QUESTION_ROWS);
        let (mut lines, cursor) = match self.step {
            // The cursor is in the list of hunks, so no answer is highlighted and Enter gives no answer.
            Step::Hunks(_) if self.list.is_focused() => (self.list.resting(&answers, width, tight, theme), 0),
            _ => self.list.lines(&answers, width, tight, theme),
        };
        lines.push(hint::line(self.keys(width, writing), width, theme));
        Foot { lines, cursor }
    }

    /// Returns the first form of the line of keys that fits.
    fn keys(&self, width: usize, writing: Writing) -> &'static str {
        let forms = self.forms(writing);
        forms.iter().find(|form| text::width(form) <= width).unwrap_or(&forms[forms.len() - 1])
    }

    /// Returns the forms of the line of keys, the longest first.
    fn forms(&self, writing: Writing) -> &'static [&'static str] {
        let focused = self.list.is_focused();
        match self.step {
            Step::Hunks(_) if focused => &[
                "↑ ↓ select a hunk · Space includes or excludes it · PageDown scrolls · Esc goes back",
                "↑ ↓ select a hunk · Space includes or excludes it · Esc goes back",
                "↑ ↓ select · Space marks · Esc goes back",
                "Space marks · Esc goes back",
            ],
            _ if focused && !self.seen_end => &[
                "PageDown shows the rest, which must be read to allow · Esc refuses",
                "PageDown reads on to allow · Esc refuses",
                "PageDown reads on · Esc refuses",
            ],
            _ if focused && self.asks_secrets() => &[
                "↑ ↓ select · Enter answers · Esc masks it · Ctrl-C interrupts",
                "↑ ↓ select · Enter answers · Esc masks it",
                "Enter answers · Esc masks it",
            ],
            _ if focused => &[
                "↑ ↓ select · Enter answers · Esc refuses · Ctrl-C interrupts",
                "↑ ↓ select · Enter answers · Esc refuses",
                "Enter answers · Esc refuses",
            ],
            _ if writing.drafting && self.takes_reason() => &[
                "Enter refuses and sends your text as the reason · Tab, then Enter answers",
                "Enter refuses, with this reason · Tab, then Enter answers",
                "Enter refuses, with this reason",
                "Enter refuses",
            ],
            _ if writing.drafting && self.list.is_read() => &[
                "Enter sends your message, the question stays · pause, then Tab answers · Esc refuses",
                "Enter sends this, the question stays · Tab answers · Esc refuses",
                "Enter sends this · Esc refuses",
            ],
            _ if writing.drafting => &[
                "Enter sends your message, the question stays · pause, then Tab answers",
                "Enter sends this · pause, Tab answers",
                "Enter sends this",
            ],
            _ if self.asks_secrets() => &[
                "↓ or Tab, then Enter answers · Esc masks it · Ctrl-C interrupts",
                "↓ or Tab, then Enter answers · Esc masks it",
                "↓ Enter answers · Esc masks it",
            ],
            _ if !self.seen_end => &[
                "PageDown shows the rest, which must be read to allow · ↓ selects · Esc refuses",
                "PageDown reads on to allow · ↓ selects · Esc refuses",
                "PageDown reads on to allow · Esc refuses",
                "PageDown reads on · Esc refuses",
            ],
            _ if writing.takes_escape => &[
                "↓ or Tab, then Enter answers · Esc twice refuses · Ctrl-C interrupts",
                "↓ Enter answers · Esc twice refuses",
            ],
            _ => &[
                "↓ or Tab, then Enter answers · Esc refuses · Ctrl-C interrupts",
                "↓ or Tab, then Enter answers · Esc refuses",
                "↓ Enter answers · Esc refuses",
            ],
        }
    }
}
