//! The answers to a question as a numbered list, and the rules that keep typing from choosing one.
//!
//! Every question of a session is answered here: a permission, an undo, a compaction, a change of the context. The caller owns
//! what each answer does; this module owns the cursor, which keys count, and how the list is drawn.
//!
//! The keyboard starts in the composer. Tab gives it to the list. While the composer is empty, so do Up, Down, Enter and the number of an
//! answer, which mark an answer and choose none. Inside the list the arrows move the cursor and Enter chooses. Until the list has the
//! keyboard, the answer that Enter would mark has a background, the sign `WAITS` and its keys.
//!
//! Enter and digits are also keys of typing. A list that got the keyboard by one of them is *careful*: a number moves the cursor and
//! chooses nothing, and only Enter after a pause chooses. After Tab or an arrow, a number chooses too.
//!
//! Invariants:
//! - While the keyboard is in the composer, no character, no Enter and no paste chooses an answer, whenever it comes.
//! - The list takes the keyboard only after the question has been read: it was drawn, and `ARM` milliseconds passed without
//!   a key, or `ARM_TYPING` while the composer holds text.
//! - If the composer holds text when the list takes the keyboard, or if Up, Enter or a number gave it the keyboard, the list answers
//!   only after another `ARM` without a key. So Tab pressed to queue a message, followed by the next message, chooses nothing, nor do Up
//!   and Enter, nor a run of Enters, nor an Enter that is held down.
//! - A key that means nothing to the list gives the keyboard back to the composer, after the digits that a careful list took
//!   (`AnswerList::take_typed`). So a text that begins with a number loses none of it.
//!
//! Holds no clock: [`AnswerList::painted`] asks for a timer, [`AnswerList::due`] reports that it ran out.

use crate::text;
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

/// A question counts as read after this many milliseconds on the screen without a key.
pub(crate) const ARM: u64 = 300;
/// The value of `ARM` while the composer holds text: people pause for longer than `ARM` in the middle of a
/// sentence.
pub(crate) const ARM_TYPING: u64 = 1_500;

/// Sign before the answer at the cursor, while the list has the keyboard.
const CURSOR: char = '❯';
/// Sign before the answer that Enter would mark, while the composer has the keyboard.
const WAITS: char = '▸';
/// Shown beside the answer at the cursor.
pub(crate) const TAKES: &str = "Enter takes it";
/// Shown beside the answer that two presses of Enter give.
pub(crate) const TWICE: &str = "Enter twice";

/// Columns before the words of an answer: the cursor and the number.
const LEAD: usize = 4;
/// Columns between an answer and its keys.
const KEY_GAP: usize = 3;

/// State of a stretch without keys that has to pass before a key counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Quiet {
    /// Starts with the next frame that is drawn.
    #[default]
    Fresh,
    Running,
    Over,
}

/// State of the list: the cursor, the keyboard focus, and the time in which the question is read.
#[derive(Debug, Default)]
pub struct AnswerList {
    cursor: usize,
    /// The list has the keyboard, not the composer.
    focused: bool,
    /// `Over` once the question counts as read. It stays `Over` until the question changes.
    reading: Quiet,
    /// `Over` if an answer counts at once. Matters only while the list has the keyboard.
    settling: Quiet,
    /// The text in the composer was begun before the question was read, so it cannot be a reply to it.
    begun_before: bool,
    /// The list belongs to a follow-up question and has had the keyboard since it appeared, so Tab does not take the keyboard from it.
    follows: bool,
    /// The composer holds text.
    drafts: bool,
    /// The list got the keyboard by a key of typing, so a number chooses nothing.
    careful: bool,
    /// The digits that a careful list took. They belong to the composer if a text follows.
    typed: String,
    /// The key that came too early and had no effect.
    early: Option<Early>,
    /// The list stands below fields that need Enter and digits themselves, so only Tab and the arrows give it the keyboard.
    below_fields: bool,
}

/// A key that came before the question could be read, or before a marked answer could be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    Tab,
    Enter,
}

/// One answer as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub long: String,
    /// Shorter forms of `long` for narrow screens, the longest first. If none fits, the last one continues in further rows.
    pub shorter: Vec<String>,
    /// The keys that give this answer now, shown after it; empty for none.
    pub keys: &'static str,
    /// Short form for screens with few rows, where all answers share one row.
    pub short: String,
    /// The answer that Enter marks now. It is drawn with a background.
    pub proposed: bool,
    /// `false`: the answer is shown, but choosing it has no effect yet.
    pub enabled: bool,
}

impl Answer {
    /// Creates an answer that can be chosen.
    pub fn new(long: impl Into<String>, short: impl Into<String>) -> Self {
        let (long, short) = (long.into(), short.into());
        Self { long, shorter: Vec::new(), keys: "", short, proposed: false, enabled: true }
    }
}

/// Effect of a key press on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressed {
    /// The answer at this index was chosen, counted from 0.
    Chosen(usize),
    /// The list used the key, or the key was ignored.
    Taken,
    /// Esc was pressed, which refuses.
    Refused,
    /// The key belongs to the composer.
    Text,
}

impl AnswerList {
    /// Creates the list for a follow-up question. It has the keyboard at once, and `ARM` must still pass before it
    /// answers. Tab does not take the keyboard from it, so that the keys of the first question answer this one as well.
    pub fn following() -> Self {
        Self { focused: true, follows: true, reading: Quiet::Over, ..Self::default() }
    }

    /// Creates the list of a follow-up question. It is as careful as this one.
    pub(crate) fn follow_up(&self) -> Self {
        Self { careful: self.careful, drafts: self.drafts, ..Self::following() }
    }

    /// Creates a list below fields that need Enter and digits themselves.
    pub(crate) fn below_fields() -> Self {
        Self { below_fields: true, ..Self::default() }
    }

    /// Returns the key that came too early, if no other key came since.
    pub(crate) fn missed(&self) -> Option<Early> {
        self.early
    }

    /// True if a number only moves the cursor, because the list got the keyboard by a key of typing.
    pub(crate) fn is_careful(&self) -> bool {
        self.careful
    }

    /// Returns the digits that the list took and that turn out to be the beginning of a text. The composer must get them before the key
    /// that gave it the keyboard.
    #[must_use]
    pub(crate) fn take_typed(&mut self) -> String {
        std::mem::take(&mut self.typed)
    }

    /// True if Tab gives the keyboard back to the composer.
    pub(crate) fn leaves_by_tab(&self) -> bool {
        self.focused && !self.follows
    }

    /// True if the list has the keyboard, not the composer.
    pub(crate) fn is_focused(&self) -> bool {
        self.focused
    }

    /// True if the cursor is at this answer, counted from 0.
    pub(crate) fn is_at(&self, at: usize) -> bool {
        self.cursor == at
    }

    /// True if the cursor is at the first answer.
    pub(crate) fn is_at_first(&self) -> bool {
        self.cursor == 0
    }

    /// True if the question has been on the screen for long enough to be read.
    pub(crate) fn is_read(&self) -> bool {
        self.reading == Quiet::Over
    }

    /// True if a text sent now counts as a reply: its author had read the question before starting to write.
    pub(crate) fn takes_reply(&self) -> bool {
        self.is_read() && !self.begun_before
    }

    /// Records that a frame with the question was drawn. Returns the milliseconds after which [`Self::due`] must be
    /// called.
    pub fn painted(&mut self, drafting: bool) -> Option<u64> {
        if self.reading == Quiet::Fresh {
            self.reading = Quiet::Running;
            return Some(if drafting { ARM_TYPING } else { ARM });
        }
        if self.is_read() && self.focused && self.settling == Quiet::Fresh {
            self.settling = Quiet::Running;
            return Some(ARM);
        }
        None
    }

    /// Handles the end of the time that [`Self::painted`] asked for, if no key came in between.
    pub fn due(&mut self, drafting: bool) {
        if self.reading == Quiet::Running {
            self.reading = Quiet::Over;
            self.begun_before = drafting;
        } else if self.settling == Quiet::Running {
            self.settling = Quiet::Over;
        }
    }

    /// Records typing that was not meant for the list. A running time starts again with the next frame.
    pub(crate) fn disturb(&mut self) {
        for quiet in [&mut self.reading, &mut self.settling] {
            if *quiet == Quiet::Running {
                *quiet = Quiet::Fresh;
            }
        }
    }

    /// Records a paste into the composer. The keyboard follows it, so that Enter sends the text and chooses nothing.
    pub(crate) fn pasted(&mut self) {
        self.disturb();
        if self.focused {
            self.unfocus();
        }
    }

    /// Records if the composer holds text. Once the composer is empty, nothing is left of a text that was begun before
    /// the question. If a text appears in the composer, for example from an editor, the composer gets the keyboard.
    pub(crate) fn drafting(&mut self, drafting: bool) {
        self.begun_before &= drafting;
        if drafting && !self.drafts && self.focused {
            self.unfocus();
        }
        self.drafts = drafting;
    }

    /// Records that text came into the composer from elsewhere, such as a message that was taken back. That text is no
    /// reply to the question.
    pub(crate) fn text_from_before(&mut self) {
        self.begun_before = true;
    }

    /// Gives the keyboard to the list, with the cursor at the first answer. `settles`: the key may have had another meaning, so the
    /// list waits before it answers.
    pub fn focus(&mut self, settles: bool) {
        (self.focused, self.cursor, self.careful) = (true, 0, false);
        self.settling = if settles { Quiet::Fresh } else { Quiet::Over };
    }

    /// Gives the keyboard to the list by a key of typing, with the cursor at the answer `at`.
    fn mark_answer(&mut self, at: usize) {
        self.focus(true);
        (self.cursor, self.careful) = (at, true);
    }

    /// Gives the keyboard back to the composer.
    pub(crate) fn unfocus(&mut self) {
        (self.focused, self.settling, self.follows, self.careful) = (false, Quiet::Fresh, false, false);
        self.early = None;
    }

    /// Handles a key while `count` answers are offered. `drafting`: the composer holds text.
    pub fn key(&mut self, key: KeyEvent, count: usize, drafting: bool) -> Pressed {
        let plain = key.modifiers.is_empty();
        self.early = None;
        if !self.is_read() {
            self.early = match key.code {
                KeyCode::Tab if plain => Some(Early::Tab),
                KeyCode::Enter if plain && !drafting && !self.below_fields => Some(Early::Enter),
                _ => None,
            };
            self.disturb();
            return Pressed::Text;
        }
        let number = number(key).filter(|at| *at < count);
        if !self.focused {
            let marks = !drafting && !self.below_fields;
            return match key.code {
                KeyCode::Enter if plain && marks => {
                    self.mark_answer(0);
                    Pressed::Taken
                }
                KeyCode::Char(digit) if marks && number.is_some() => {
                    self.mark_answer(number.unwrap_or_default());
                    self.typed = digit.to_string();
                    Pressed::Taken
                }
                KeyCode::Esc if plain => Pressed::Refused,
                KeyCode::Tab if plain => {
                    self.focus(drafting);
                    Pressed::Taken
                }
                KeyCode::Down if plain && !drafting => {
                    self.focus(false);
                    Pressed::Taken
                }
                // Up must not bring an earlier prompt into an empty composer here, because Enter would then send that prompt.
                KeyCode::Up if plain && !drafting => {
                    self.focus(true);
                    Pressed::Taken
                }
                _ => Pressed::Text,
            };
        }
        self.focused_key(key, count, number)
    }

    /// Handles a key while the list has the keyboard. `number`: the answer that the key numbers.
    fn focused_key(&mut self, key: KeyEvent, count: usize, number: Option<usize>) -> Pressed {
        let plain = key.modifiers.is_empty();
        let settled = self.settling == Quiet::Over;
        // A key that moves the cursor shows that the digits before it were no beginning of a text.
        if plain && !matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Enter) {
            self.typed.clear();
        }
        match key.code {
            KeyCode::Esc if plain => return Pressed::Refused,
            KeyCode::Up | KeyCode::Left if plain => self.step(count.saturating_sub(1), count),
            KeyCode::Down | KeyCode::Right if plain => self.step(1, count),
            KeyCode::Home if plain => self.cursor = 0,
            KeyCode::End if plain => self.cursor = count.saturating_sub(1),
            KeyCode::Tab if plain && self.follows => {}
            KeyCode::Tab if plain => self.unfocus(),
            KeyCode::Enter if plain && settled => {
                return Pressed::Chosen(self.cursor.min(count.saturating_sub(1)));
            }
            // Too early: the time starts again, so that a key that is held down never answers. With a modifier it is a new line of a
            // text.
            KeyCode::Enter if plain => (self.settling, self.early) = (Quiet::Fresh, Some(Early::Enter)),
            KeyCode::Char(digit) if self.careful && number.is_some() => {
                (self.cursor, self.settling) = (number.unwrap_or_default(), Quiet::Fresh);
                self.typed.push(digit);
            }
            _ => match number.filter(|_| settled) {
                Some(at) => return Pressed::Chosen(at),
                None => {
                    self.unfocus();
                    return Pressed::Text;
                }
            },
        }
        if self.focused && !settled {
            self.settling = Quiet::Fresh;
        }
        Pressed::Taken
    }

    /// Returns the sign before an answer. There is no cursor until the list has the keyboard.
    fn mark(&self, chosen: bool, proposed: bool) -> char {
        match (self.focused, chosen, proposed) {
            (true, true, _) => CURSOR,
            (false, _, true) => WAITS,
            _ => ' ',
        }
    }

    /// Moves the cursor by `by` answers and wraps around at both ends.
    fn step(&mut self, by: usize, count: usize) {
        if count > 0 {
            self.cursor = (self.cursor.min(count - 1) + by) % count;
        }
    }

    /// Makes the list wait for another `ARM` without a key before it answers. A key that turned a page must not
    /// answer as well while it is held down.
    pub(crate) fn settle_again(&mut self) {
        self.settling = Quiet::Fresh;
    }

    /// Returns the number of rows that the answers take, one below the other.
    pub fn rows(answers: &[Answer], width: usize) -> usize {
        let rows = |answer: &Answer| wrapped(answer, width.saturating_sub(LEAD)).len();
        answers.iter().map(rows).sum()
    }

    /// Returns the answers without a cursor, because the list of hunks above them has it.
    pub(crate) fn resting(
        &self,
        answers: &[Answer],
        width: usize,
        tight: bool,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        self.lines_at(answers, usize::MAX, width, tight, theme)
    }

    /// Returns the answers, one below the other, or all in one row if `tight`. The second value is the row of the cursor.
    pub fn lines(
        &self,
        answers: &[Answer],
        width: usize,
        tight: bool,
        theme: &Theme,
    ) -> (Vec<Line<'static>>, usize) {
        let chosen = self.cursor.min(answers.len().saturating_sub(1));
        let row = if tight { 0 } else { Self::rows(&answers[..chosen], width) };
        (self.lines_at(answers, chosen, width, tight, theme), row)
    }

    fn lines_at(
        &self,
        answers: &[Answer],
        chosen: usize,
        width: usize,
        tight: bool,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        if tight {
            return vec![self.row(answers, chosen, width, theme)];
        }
        let room = width.saturating_sub(LEAD);
        let widest = answers.iter().map(|answer| answer.columns(room)).max().unwrap_or(0);
        let lines = |(at, answer): (usize, &Answer)| -> Vec<Line<'static>> {
            let here = self.focused && at == chosen;
            let proposed = answer.proposed && !self.focused;
            let band = theme.band().filter(|_| proposed).unwrap_or_default();
            let number = match (here, proposed) {
                (true, _) => theme.selected,
                (false, true) => theme.accent.patch(band),
                (false, false) if answer.enabled => theme.accent,
                (false, false) => theme.dim,
            };
            let mut style = style(answer, here, theme).patch(band);
            if proposed {
                style = style.add_modifier(Modifier::BOLD);
            }
            let rows = wrapped(answer, room);
            let last = rows.len() - 1;
            let line = |(row, words): (usize, String)| {
                let lead = match row {
                    0 => format!("{} {} ", self.mark(at == chosen, proposed), at + 1),
                    _ => " ".repeat(LEAD),
                };
                let mut spans = vec![Span::styled(lead, number)];
                let mut used = text::width(&words);
                spans.push(Span::styled(words, style));
                let keys = format!("{}{}", " ".repeat(KEY_GAP), answer.keys);
                if row == last && !answer.keys.is_empty() && used + text::width(&keys) <= room {
                    used += text::width(&keys);
                    spans.push(Span::styled(
                        keys,
                        if here { theme.selected } else { theme.accent.patch(band) },
                    ));
                }
                // The background ends where the longest answer does: over the full width, a window that becomes narrower would break
                // the row in inline mode.
                let end = if here { room } else { (widest + 1).min(room) };
                if here || band.bg.is_some() {
                    spans.push(Span::styled(" ".repeat(end.saturating_sub(used)), style));
                }
                Line::from(spans)
            };
            rows.into_iter().enumerate().map(line).collect()
        };
        answers.iter().enumerate().flat_map(lines).collect()
    }

    /// Returns all answers in one row. If they are wider than the screen, the row starts at a column that keeps the
    /// chosen answer visible.
    fn row(&self, answers: &[Answer], chosen: usize, width: usize, theme: &Theme) -> Line<'static> {
        let piece = |(at, answer): (usize, &Answer)| {
            let here = self.focused && at == chosen;
            let proposed = answer.proposed && !self.focused;
            let mark = self.mark(at == chosen, proposed);
            let words = format!("{mark}{} {}", at + 1, text::visible(&answer.short));
            let band = theme.band().filter(|_| proposed).unwrap_or_default();
            Span::styled(words, style(answer, here, theme).patch(band))
        };
        let pieces: Vec<Span<'static>> = answers.iter().enumerate().map(piece).collect();
        let upto = |first: usize| -> usize {
            pieces[first..chosen.saturating_add(1).min(pieces.len())]
                .iter()
                .map(|p| text::width(&p.content))
                .sum()
        };
        let first = (0..chosen.min(pieces.len()))
            .find(|first| upto(*first) <= width)
            .unwrap_or(chosen.min(pieces.len()));
        let mut left = width;
        let mut spans = Vec::new();
        for piece in pieces.into_iter().skip(first) {
            let fitted = text::fit(&piece.content, left).into_owned();
            left -= text::width(&fitted).min(left);
            spans.push(Span::styled(fitted, piece.style));
            if left == 0 {
                break;
            }
        }
        Line::from(spans)
    }
}

impl Answer {
    /// Returns the columns that the rows of the answer take in `room` columns, with its keys.
    fn columns(&self, room: usize) -> usize {
        let rows = wrapped(self, room);
        let keys = if self.keys.is_empty() { 0 } else { KEY_GAP + text::width(self.keys) };
        let widest = rows.iter().map(|row| text::width(row)).max().unwrap_or(0);
        widest.max(rows.last().map_or(0, |row| text::width(row) + keys)).min(room)
    }
}

/// Returns the words of an answer in rows of at most `room` columns: the longest form that fits, or the shortest one in several rows.
/// An answer is never cut, because it says what it allows.
fn wrapped(answer: &Answer, room: usize) -> Vec<String> {
    let forms = std::iter::once(&answer.long).chain(&answer.shorter);
    let mut words = String::new();
    for form in forms {
        words = text::visible(form).into_owned();
        if text::width(&words) <= room {
            return vec![words];
        }
    }
    let none = Span::raw("");
    let rows = text::wrap(&[Span::raw(words)], room.max(1), &none, &none);
    rows.iter().map(|row| row.to_string().trim_end().to_owned()).collect()
}

/// Returns the style of an answer. Only an answer that has no effect yet is dim.
fn style(answer: &Answer, here: bool, theme: &Theme) -> ratatui::style::Style {
    match (here, answer.enabled) {
        (true, _) => theme.selected,
        (false, true) => theme.text,
        (false, false) => theme.dim,
    }
}

/// Returns the answer that a digit numbers, counted from 0.
fn number(key: KeyEvent) -> Option<usize> {
    match key.code {
        // Some keyboards need Shift to type digits.
        KeyCode::Char(c) if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() => {
            c.to_digit(10).and_then(|n| (n as usize).checked_sub(1))
        }
        _ => None,
    }
}

/// True if the key writes or moves within a text. Keys that submit, cancel or scroll do not.
pub fn writes(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char(_) => !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT),
        KeyCode::Backspace | KeyCode::Delete | KeyCode::Left | KeyCode::Right => true,
        _ => false,
    }
}
