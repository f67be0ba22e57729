//! The answers under a question, and the line that says what the keys do now.

use super::{Approvals, Does, Spacing, Step, Writing};
use crate::answers::{Answer, AnswerList, Early, TAKES, TWICE};
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
        spacing: Spacing,
        writing: Writing,
        theme: &Theme,
    ) -> Foot {
        let width = usize::from(width);
        let answers = self.answers_with_keys(writing);
        let tight = height < AnswerList::rows(&answers, width) + 1 + body.min(QUESTION_ROWS);
        let (mut lines, cursor) = match self.step {
            // The cursor is in the list of hunks, so no answer is highlighted and Enter gives no answer.
            Step::Hunks(_) if self.list.is_focused() => (self.list.resting(&answers, width, tight, theme), 0),
            _ => self.list.lines(&answers, width, tight, theme),
        };
        if spacing.parts_keys() {
            lines.push(Line::default());
        }
        lines.push(hint::line(&self.keys(width, writing), width, theme));
        Foot { lines, cursor }
    }

    /// Returns the answers with the keys that give them now. While a text is in the composer, the line below says more
    /// than fits here.
    fn answers_with_keys(&self, writing: Writing) -> Vec<Answer> {
        let focused = self.list.is_focused() && !matches!(self.step, Step::Hunks(_)) && !writing.reads_above;
        let rests = !self.list.is_focused() && !writing.drafting && !writing.reads_above;
        let with_keys = |(at, (does, answer)): (usize, (Does, Answer))| {
            let takes = answer.enabled && focused && self.list.is_at(at);
            let (keys, proposed) = match does {
                _ if takes => (TAKES, false),
                Does::Refuse if (rests || focused) && !writing.takes_escape => ("Esc", false),
                _ if at == 0 && rests && self.seen_end => (TWICE, true),
                _ => ("", false),
            };
            Answer { keys, proposed, ..answer }
        };
        self.answers().into_iter().enumerate().map(with_keys).collect()
    }

    /// Returns the first form of the line of keys that fits.
    fn keys(&self, width: usize, writing: Writing) -> String {
        let forms = self.forms(writing).iter().map(|form| self.filled(form));
        let mut shortest = String::new();
        for form in forms {
            if text::width(&form) <= width {
                return form;
            }
            shortest = form;
        }
        shortest
    }

    /// Fills in what Esc does, the numbers of the answers, and what the first one does.
    fn filled(&self, form: &str) -> String {
        let answers = self.answers();
        let refuses = match () {
            () if self.asks_secrets() => "masks it",
            () if self.asks_plan() => "continues planning",
            () => "refuses",
        };
        let numbers = format!("1–{}", answers.len());
        let first = match answers.first().map(|(does, _)| *does) {
            Some(Does::Once) if self.asks_plan() => "agrees",
            Some(Does::Once) => "allows",
            Some(Does::Refuse) => "masks it",
            _ => "answers",
        };
        let filled = form.replace("{refuses}", refuses).replace("{numbers}", &numbers);
        filled.replace("{first}", first)
    }

    /// Returns the forms of the line of keys, the longest first. The names in braces are filled in later.
    fn forms(&self, writing: Writing) -> &'static [&'static str] {
        let focused = self.list.is_focused();
        match self.step {
            _ if writing.reads_above => &[
                "The keys are for the text above · Esc goes back to this question",
                "Esc goes back to this question",
                "Esc goes back",
            ],
            Step::Hunks(_) if focused => &[
                "↑ ↓ select a hunk · Space includes or excludes it · PageDown scrolls · Esc goes back",
                "↑ ↓ select a hunk · Space includes or excludes it · Esc goes back",
                "↑ ↓ select · Space marks · Esc goes back",
                "Space marks · Esc goes back",
            ],
            _ if self.list.missed() == Some(Early::Tab) => &[
                "That Tab came before the question could be read, so it did nothing: press it again",
                "That Tab came too early, so it did nothing: press it again",
                "That Tab came too early; press it again",
                "Press Tab again",
            ],
            _ if self.list.missed() == Some(Early::Enter) => &[
                "That Enter came too early, so it did nothing: press it again",
                "That Enter came too early; press it again",
                "Press Enter again",
            ],
            _ if focused && !self.seen_end => &[
                "Enter or PageDown shows the rest, which must be read to allow · Esc {refuses}",
                "To allow, first Enter or PageDown to the end · Esc {refuses}",
                "To allow, first PageDown · Esc {refuses}",
                "To allow, first PageDown",
            ],
            _ if focused && self.list.is_careful() => &[
                "Enter takes it · ↑ ↓ or {numbers} select another · Esc {refuses} · Ctrl-C interrupts",
                "Enter takes it · ↑ ↓ or {numbers} select another · Esc {refuses}",
                "Enter takes it · ↑ ↓ select · Esc {refuses}",
                "Enter takes it · Esc {refuses}",
                "Enter takes it · Esc refuses",
            ],
            _ if focused => &[
                "↑ ↓ select · Enter or {numbers} answers · Esc {refuses} · Ctrl-C interrupts",
                "↑ ↓ select · Enter or {numbers} answers · Esc {refuses}",
                "Enter answers · Esc {refuses}",
                "Enter answers · Esc refuses",
            ],
            _ if writing.consents && self.takes_reason() => &[
                "Your text answers nothing: Tab, then Enter answers · other words refuse · Esc {refuses}",
                "Your text answers nothing: Tab, then Enter answers · Esc {refuses}",
                "Tab, then Enter answers · Esc refuses",
            ],
            _ if writing.drafting && self.takes_reason() => &[
                "Enter refuses and sends your text as the reason · Tab, then Enter answers",
                "Enter refuses, with this reason · Tab, then Enter answers",
                "Enter refuses, with this reason",
                "Enter refuses",
            ],
            _ if writing.drafting && self.list.is_read() => &[
                "Enter sends your message, the question stays · Tab, then after a pause Enter answers · Esc {refuses}",
                "Enter sends this, the question stays · Tab goes to the answers · Esc {refuses}",
                "Enter sends this, the question stays · Esc {refuses}",
                "Enter sends this · Esc refuses",
            ],
            _ if writing.drafting => &[
                "Enter sends your message, the question stays · after a pause, Tab goes to the answers",
                "Enter sends this, the question stays · after a pause, Tab answers",
                "Enter sends this, the question stays",
                "Enter sends this",
            ],
            _ if !self.seen_end => &[
                "PageDown shows the rest, which must be read to allow · Enter selects · Esc {refuses}",
                "PageDown shows the rest, which must be read to allow · Esc {refuses}",
                "To allow, first PageDown to the end · Esc {refuses}",
                "To allow, first PageDown · Esc {refuses}",
                "To allow, first PageDown",
            ],
            _ if writing.takes_escape => &[
                "Enter marks, Enter again {first} · {numbers} or ↑ ↓ select another · Esc twice {refuses}",
                "Enter twice {first} · Esc twice {refuses}",
                "Enter, Esc: each twice answers",
            ],
            _ => &[
                "Enter marks, Enter again {first} · {numbers} or ↑ ↓ select another · Esc {refuses} · Ctrl-C interrupts",
                "Enter marks, Enter again {first} · {numbers} or ↑ ↓ select another · Esc {refuses}",
                "Enter marks, Enter again {first} · {numbers} selects · Esc {refuses}",
                "Enter marks, Enter again {first} · Esc {refuses}",
                "Enter twice {first} · Esc {refuses}",
                "Enter twice · Esc {refuses}",
            ],
        }
    }
}
