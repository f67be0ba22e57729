//! The answers under a question, and the line that says what the keys do now.

use super::{Approvals, Step, Writing};
use crate::answers::Answer;
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
        let (mut lines, cursor) = self.list.lines(&answers, width, tight, theme);
        lines.push(Line::styled(self.keys(width, writing), theme.accent));
        Foot { lines, cursor }
    }

    /// Returns the first form of the line of keys that fits.
    fn keys(&self, width: usize, writing: Writing) -> String {
        let numbers = match self.answers().len() {
            2 => "1 or 2".to_owned(),
            count => format!("1 to {count}"),
        };
        let mut forms: Vec<String> =
            self.forms(writing).iter().map(|form| form.replace("{numbers}", &numbers)).collect();
        let at = forms.iter().position(|form| text::width(form) <= width).unwrap_or(forms.len() - 1);
        text::fit(&forms.swap_remove(at), width).into_owned()
    }

    /// Returns the forms of the line of keys, the longest first. `{numbers}` stands for the numbers of the answers.
    fn forms(&self, writing: Writing) -> &'static [&'static str] {
        let focused = self.list.is_focused();
        match self.step {
            Step::Hunks(_) if focused => &[
                "↑ ↓ hunk · Space takes it or leaves it out · PageDown scrolls · Esc goes back",
                "↑ ↓ hunk · Space marks · Esc goes back",
                "Space marks · Esc back",
            ],
            _ if focused && !self.seen_end => &[
                "PageDown shows the rest: it must be read before it can be allowed · Esc refuses",
                "PageDown: read on to allow · Esc no",
                "PageDown: read on · Esc no",
            ],
            _ if focused && self.asks_secrets() => &[
                "↑ ↓ choose · Enter or {numbers} answers · Tab: write instead · Esc masks",
                "↑ ↓ · Enter answers · Tab · Esc masks",
                "↑ ↓ Enter · Esc masks",
            ],
            _ if focused => &[
                "↑ ↓ choose · Enter or {numbers} answers · Tab: write instead · Esc: no",
                "↑ ↓ · Enter answers · Tab · Esc no",
                "↑ ↓ Enter · Esc no",
            ],
            _ if writing.drafting && self.takes_reason() => &[
                "Enter refuses and sends your text as the reason · Tab answers · Esc refuses",
                "Enter: no, with this reason · Tab",
                "Enter: no, and why",
            ],
            _ if writing.drafting && self.list.is_read() => &[
                "Enter sends your message, the question stays · pause, then Tab answers · Esc refuses",
                "Enter sends this, the question stays · Tab answers · Esc refuses",
                "Enter sends this · Esc no",
            ],
            _ if writing.drafting => &[
                "Enter sends your message, the question stays · pause, then Tab answers",
                "Enter sends this · pause, Tab answers",
                "Enter sends this",
            ],
            _ if self.asks_secrets() => {
                &["Tab, then {numbers}, to answer · Esc masks it", "↓ answers · Esc masks"]
            }
            _ if !self.seen_end => &[
                "PageDown: read to the end to allow · ↓ answers · or write why · Esc refuses",
                "PageDown: read to the end to allow · ↓ · Esc no",
                "PageDown: read on to allow · Esc no",
                "PageDown: read on · Esc no",
            ],
            _ if writing.takes_escape => {
                &["Tab, then {numbers}, to answer · Esc twice: no", "↓ answers · Esc twice: no"]
            }
            _ => &[
                "Tab, then {numbers}, to answer · Esc: no · Ctrl-C interrupts the turn",
                "Tab, then {numbers}, to answer · Esc: no",
                "↓ answers · Esc no",
            ],
        }
    }
}
