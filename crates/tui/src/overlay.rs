//! A page over the transcript: `/context`, `/diff`, … It scrolls, closes, and may ask a question at its end.
//!
//! A page that asks shows its answers as a numbered list, by the rules of [`crate::answers`]: no letter, Enter or paste
//! answers it, and typed text goes to the composer below. Down scrolls until the end is in view, and then moves to the
//! list; Enter and the number of an answer mark one. Answers other than no count only after the end of the page has been in view.

use crate::answers::{Answer, AnswerList, Early, Pressed, TAKES, TWICE, writes};
use crate::approval::Writing;
use crate::hint;
use crate::input::{Confirm, Effect, Page, Timer};
use crate::text;
use crate::theme::Theme;
use crate::transcript::Transcript;
use becket_types::{Event, MessageId};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};
use std::ops::Range;

/// Rows kept for the text of a page. With fewer, all answers share one row.
const PAGE_ROWS: usize = 5;
/// A page with at least this many rows has a blank row above the line of keys.
const AIRY: u16 = 20;
/// Maximum number of choices that are offered at once, so that each has a digit. A further answer shows the next ones.
const OFFERED: usize = 7;

/// A page and the state of its question.
pub struct Overlay {
    title: String,
    /// The page as the single answer of a transcript, which lays it out, caches and scrolls it.
    page: Transcript,
    /// Possible answers besides no; empty for a page that asks nothing.
    choices: Vec<Choice>,
    /// Index of the first choice that is offered. More than `OFFERED` choices are not offered at once.
    from: usize,
    question: String,
    /// The same page in its other form, if it has one.
    other: Option<OtherForm>,
    /// The label of the answer that changes nothing, long and short.
    no: (&'static str, &'static str),
    /// The page was drawn once and scrolled to its top.
    placed: bool,
    /// The end of the page has been in view, or need not be.
    seen_end: bool,
    list: AnswerList,
}

/// A page with its answers in the form that is not shown.
struct OtherForm {
    page: Transcript,
    choices: Vec<Choice>,
    /// Tells how to get this form.
    hint: String,
    /// Tells how to get the form that is shown now.
    back: String,
}

/// An answer to the page's question.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    label: String,
    short: String,
    effect: Effect,
}

impl Choice {
    /// Creates an answer with a long and a short label. Choosing it has this effect.
    pub fn new(label: &str, short: &str, effect: Effect) -> Self {
        Self { label: label.to_owned(), short: short.to_owned(), effect }
    }
}

/// Effect of a key press on the page.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    Stays(Vec<Effect>),
    Closed,
    /// The key belongs to the composer.
    Text,
    /// The page closes, and the key belongs to the composer.
    Writing,
}

impl Overlay {
    /// Creates a page, with its question if it has one.
    pub fn new(page: Page) -> Self {
        let Some(Confirm { question, request }) = page.confirm.clone() else {
            return Self::choosing(page, Vec::new());
        };
        let yes = Choice::new("Yes", "yes", Effect::Ask(request));
        Self { question, ..Self::choosing(page, vec![yes]) }
    }

    /// Creates a page that asks by its choices alone. No is always added as the last choice.
    pub(crate) fn choosing(page: Page, choices: Vec<Choice>) -> Self {
        let transcript = match page.sheet {
            Some(sheet) => Transcript::sheet(sheet),
            None => {
                let mut transcript = Transcript::page();
                let text = page.markdown;
                transcript.event(&Event::TextDelta { message: MessageId::new(), index: 0, text });
                transcript
            }
        };
        Self {
            title: page.title,
            page: transcript,
            choices,
            from: 0,
            question: String::new(),
            other: None,
            no: ("No, leave everything as it is", "no"),
            placed: false,
            seen_end: false,
            list: AnswerList::default(),
        }
    }

    /// Lets answers count before the end of the page has been in view, because they only take rights away.
    pub(crate) fn answered_at_once(self) -> Self {
        Self { seen_end: true, ..self }
    }

    /// Labels the last answer `Close this page`, for a page that shows something and asks no question.
    pub(crate) fn with_close(self) -> Self {
        Self { no: ("Close this page", "close"), ..self }
    }

    /// Adds another form of this page, which has the same answers in the same order. The words say how to get it, and how to get back.
    pub(crate) fn with_other(mut self, other: Self, hint: String, back: String) -> Self {
        self.other = Some(OtherForm { page: other.page, choices: other.choices, hint, back });
        self
    }

    /// Shows the other form of the page. Returns false if it has none.
    pub(crate) fn show_other(&mut self) -> bool {
        let Some(other) = &mut self.other else { return false };
        std::mem::swap(&mut self.page, &mut other.page);
        std::mem::swap(&mut self.choices, &mut other.choices);
        std::mem::swap(&mut other.hint, &mut other.back);
        // A page shows its beginning when it is drawn for the first time.
        self.placed = false;
        true
    }

    /// True if the page asks a question.
    pub fn asks(&self) -> bool {
        !self.choices.is_empty()
    }

    /// True if the answers have the keyboard, not the composer.
    pub(crate) fn is_focused(&self) -> bool {
        self.asks() && self.list.is_focused()
    }

    /// True if a text sent now answers the question with no.
    pub(crate) fn takes_reply(&self) -> bool {
        self.asks() && self.list.takes_reply()
    }

    /// Records that the page was drawn.
    pub fn painted(&mut self, writing: Writing) -> Vec<Effect> {
        let mut effects = vec![Effect::Highlight(self.page.jobs())];
        if self.asks() {
            let wake = self.list.painted(writing.drafting);
            effects.extend(wake.map(|millis| Effect::Wake(millis, Timer::Page)));
        }
        effects
    }

    /// Handles the end of the time that [`Self::painted`] asked for.
    pub fn arm(&mut self, writing: Writing) {
        self.list.due(writing.drafting);
    }

    /// Returns digits that marked an answer and turn out to be the beginning of a text.
    #[must_use]
    pub(crate) fn take_typed(&mut self) -> String {
        self.list.take_typed()
    }

    /// Records a paste into the composer.
    pub(crate) fn pasted(&mut self) {
        self.list.pasted();
    }

    /// Records a possible change of the composer.
    pub fn wrote(&mut self, writing: Writing) {
        self.list.drafting(writing.drafting);
    }

    /// Handles a key while the page is open.
    pub fn key(&mut self, key: KeyEvent, writing: Writing, theme: &Theme) -> Outcome {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if ctrl => return Outcome::Closed,
            KeyCode::PageUp => self.page.scroll_pages(-1, theme),
            KeyCode::PageDown => self.page.scroll_pages(1, theme),
            _ if self.asks() => return self.asked_key(key, writing, theme),
            KeyCode::Esc | KeyCode::Enter => return Outcome::Closed,
            KeyCode::Up => self.scroll(-1, theme),
            KeyCode::Down => self.scroll(1, theme),
            KeyCode::Char(' ') => self.page.scroll_pages(1, theme),
            KeyCode::Home => self.go_to_top(theme),
            KeyCode::End => self.page.scroll_to_end(),
            // Somebody who types wants to write. No letter of the text may be lost.
            KeyCode::Char(_) if writes(key) => return Outcome::Writing,
            _ => {}
        }
        Outcome::Stays(Vec::new())
    }

    fn asked_key(&mut self, key: KeyEvent, writing: Writing, theme: &Theme) -> Outcome {
        let free = !self.list.is_focused() && !writing.drafting;
        match key.code {
            KeyCode::Esc if !self.list.is_focused() && writing.takes_escape => return Outcome::Text,
            KeyCode::Esc => return Outcome::Closed,
            KeyCode::Up if free => self.scroll(-1, theme),
            KeyCode::Down if free && !self.page.follows() => self.scroll(1, theme),
            KeyCode::Home if free => self.go_to_top(theme),
            KeyCode::End if free => self.page.scroll_to_end(),
            _ => {
                let read = self.list.is_read();
                let offered = self.offered();
                let answers = offered.len() + usize::from(self.has_more()) + 1;
                return match self.list.key(key, answers, writing.drafting) {
                    // An answer covers only text that was shown.
                    Pressed::Chosen(at) if at < offered.len() && !self.seen_end => {
                        self.page.scroll_pages(1, theme);
                        self.list.settle_again();
                        Outcome::Stays(Vec::new())
                    }
                    Pressed::Chosen(at) if at < offered.len() => {
                        let effect = self.choices.swap_remove(offered.start + at).effect;
                        self.choices.clear();
                        Outcome::Stays(vec![effect])
                    }
                    Pressed::Chosen(at) if at == offered.len() && self.has_more() => {
                        self.from = if offered.end < self.choices.len() { offered.end } else { 0 };
                        Outcome::Stays(Vec::new())
                    }
                    Pressed::Chosen(_) | Pressed::Refused => Outcome::Closed,
                    // Until the page has been read nothing is sent, so the text stays in the composer.
                    Pressed::Text if read && key.code != KeyCode::Tab || writes(key) => Outcome::Text,
                    Pressed::Text | Pressed::Taken => Outcome::Stays(Vec::new()),
                };
            }
        }
        Outcome::Stays(Vec::new())
    }

    /// Returns the choices that are offered now.
    fn offered(&self) -> Range<usize> {
        self.from..self.choices.len().min(self.from + OFFERED)
    }

    /// True if not all choices are offered at once.
    fn has_more(&self) -> bool {
        self.choices.len() > OFFERED
    }

    /// Scrolls by lines: up if negative, else down.
    pub fn scroll(&mut self, lines: isize, theme: &Theme) {
        self.page.scroll(lines, theme);
    }

    fn go_to_top(&mut self, theme: &Theme) {
        self.page.scroll(isize::MIN / 2, theme);
    }

    /// Lays out the rows under the page. Also returns the row of the chosen answer.
    fn foot(
        &self,
        width: usize,
        height: usize,
        writing: Writing,
        theme: &Theme,
    ) -> (Vec<Line<'static>>, usize) {
        if !self.asks() {
            let forms = [
                "PageUp, PageDown and the wheel scroll · Esc closes",
                "PageDown scrolls · Esc closes",
                "Esc closes",
            ];
            let mut foot = vec![hint::line(&self.keys(&forms, width), width, theme)];
            if height >= usize::from(AIRY) {
                foot.insert(0, Line::default());
            }
            return (foot, 0);
        }
        let offered = self.offered();
        let shown = &self.choices[offered.clone()];
        let answer = |choice: &Choice| Answer {
            enabled: self.seen_end,
            shorter: vec![capitalised(&choice.short)],
            ..Answer::new(&*choice.label, &*choice.short)
        };
        let mut answers: Vec<Answer> = shown.iter().map(answer).collect();
        if self.has_more() {
            let all = self.choices.len();
            let label = format!("Show others ({} to {} of {all} are shown)", offered.start + 1, offered.end);
            answers.push(Answer::new(label, "others"));
        }
        answers.push(Answer {
            keys: if writing.drafting || writing.takes_escape { "" } else { "Esc" },
            ..Answer::new(self.no.0, self.no.1)
        });
        if self.seen_end && !writing.drafting && !self.list.is_focused() {
            (answers[0].keys, answers[0].proposed) = (TWICE, true);
        }
        for (at, answer) in answers.iter_mut().enumerate() {
            if self.list.is_focused() && self.list.is_at(at) && answer.enabled {
                answer.keys = TAKES;
            }
        }
        let mut lines = Vec::new();
        if height >= usize::from(AIRY) {
            lines.push(Line::default());
        }
        if !self.question.is_empty() {
            let question = text::fit(&text::visible(&self.question), width).into_owned();
            lines.push(Line::styled(question, theme.accent));
        }
        let tight = height < lines.len() + AnswerList::rows(&answers, width) + 2 + PAGE_ROWS;
        let (list, cursor) = self.list.lines(&answers, width, tight, theme);
        let cursor = lines.len() + cursor;
        lines.extend(list);
        let forms: [&str; 2] = if let Some(early) = self.list.missed() {
            match early {
                Early::Tab => ["That Tab came too early; press it again", "Press Tab again"],
                Early::Enter => ["That Enter came too early; press it again", "Press Enter again"],
            }
        } else if !self.seen_end && !writing.drafting {
            [
                "PageDown shows the rest, then it can be answered · Esc closes",
                "PageDown shows the rest · Esc closes",
            ]
        } else if self.list.is_focused() {
            ["↑ ↓ select · Enter takes it · Esc closes", "Enter takes it · Esc closes"]
        } else if writing.drafting && self.list.takes_reply() {
            [
                "Enter closes this and sends your message · Tab, then Enter answers",
                "Enter sends it · Tab goes to the answers",
            ]
        } else if writing.drafting {
            [
                "Enter sends your message, this page stays · after a pause, Tab goes to the answers",
                "after a pause, Tab answers",
            ]
        } else {
            [
                "Enter marks, Enter again answers · PageUp, PageDown scroll · Esc closes",
                "Enter twice answers · Esc closes",
            ]
        };
        lines.push(hint::line(&self.keys(&forms, width), width, theme));
        (lines, cursor)
    }

    /// Returns the longest of these lines of keys that fits, after the key for the other form of the page if there is room for it.
    fn keys(&self, forms: &[&str], width: usize) -> String {
        let other =
            self.other.iter().flat_map(|other| forms.iter().map(|form| format!("{} · {form}", other.hint)));
        let other: Vec<String> = other.collect();
        let all: Vec<&str> = other.iter().map(String::as_str).chain(forms.iter().copied()).collect();
        hint::fitting(&all, width).to_owned()
    }

    /// Draws the page, with its question and answers below.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, writing: Writing, theme: &Theme) {
        Clear.render(area, frame.buffer_mut());
        let width = usize::from(area.width);
        let (mut foot, mut cursor) = self.foot(width, usize::from(area.height), writing, theme);
        let edges = area.height > 1 + foot.len() as u16;
        let inner = if edges {
            Rect { y: area.y + 1, height: area.height - 1 - foot.len() as u16, ..area }
        } else {
            area
        };
        self.page.draw(frame, inner, theme);
        if !self.placed {
            // The first drawing has determined the height, so the page can be scrolled to its top now.
            self.placed = true;
            self.go_to_top(theme);
            Clear.render(inner, frame.buffer_mut());
            self.page.draw(frame, inner, theme);
        }
        if !self.seen_end && self.page.follows() && inner.height > 0 {
            // The answers count from now on, so the rows below the page are laid out again to say so in the same frame.
            self.seen_end = true;
            let rows = foot.len();
            (foot, cursor) = self.foot(width, usize::from(area.height), writing, theme);
            foot.truncate(rows);
        }
        if !edges {
            return;
        }
        let place = self.page.position(theme).filter(|(first, last, all)| last - first + 1 < *all);
        let place = place.map(|(first, last, all)| format!("{first}–{last} of {all}")).unwrap_or_default();
        let title = titled(&self.title, &place, width, theme);
        frame.buffer_mut().set_line(area.x, area.y, &title, area.width);
        for (i, line) in foot.iter().enumerate() {
            frame.buffer_mut().set_line(area.x, inner.bottom() + i as u16, line, area.width);
        }
        if self.list.is_focused() {
            frame.set_cursor_position(Position::new(area.x, inner.bottom() + cursor as u16));
        }
    }
}

/// Returns the text with a capital letter at its beginning.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Returns the first row of a page: its title in a rule, and at the right end what part of the page is in view.
pub(crate) fn titled(title: &str, place: &str, width: usize, theme: &Theme) -> Line<'static> {
    let title = text::fit(&format!("── {} ", text::visible(title)), width).into_owned();
    let used = text::width(&title);
    let end = if place.is_empty() { String::new() } else { format!(" {place} ──") };
    let end = if used + text::width(&end) + 2 <= width { end } else { String::new() };
    let rule = "─".repeat(width.saturating_sub(used + text::width(&end)));
    Line::from(vec![Span::styled(title + &rule, theme.accent), Span::styled(end, theme.dim)])
}
