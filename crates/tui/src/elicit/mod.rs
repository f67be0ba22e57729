//! A question of an MCP server or of the model: a form to fill in, or an address to visit.
//!
//! The page shows who asks, what is asked and everything that would be sent. The rules of [`crate::answers`] hold: the keyboard
//! starts in the composer, and the page takes it only after it has been read. In a field, Enter goes to the next field and
//! never sends. The answers below the fields count only after a pause without keys, so that neither a text that is typed
//! ahead nor a key that is held down accepts anything. Values are checked before they are sent. An address is shown whole.

mod field;
mod pick;

use crate::answers::{Answer, AnswerList, Pressed, writes};
use crate::approval::Writing;
use crate::hint;
use crate::input::{Effect, Request, Timer};
use crate::server_question::{ServerAnswer, ServerForm, ServerQuestion};
use crate::text;
use crate::theme::Theme;
use becket_types::{CallId, Command, Decision};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use field::{Field, FieldKey};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};
use serde_json::{Map, Value, json};

/// Maximum number of characters of a server's message that are shown.
const MOST_MESSAGE: usize = 4_000;
/// Rows of the body that stay visible; with fewer, all answers share one row.
const BODY_ROWS: usize = 8;

/// An open question.
#[derive(Debug)]
pub struct Elicit {
    asker: Asker,
    fields: Vec<Field>,
    /// The field that has the keyboard while the list is focused. An index after the last field: the answers have the keyboard.
    at: usize,
    list: AnswerList,
    /// First row of the body that is shown.
    scrolled: usize,
    /// Rows of the whole body and of its visible part, as drawn last.
    rows: (usize, usize),
}

/// The author of a question, with what the answer needs.
#[derive(Debug)]
enum Asker {
    Server(ServerQuestion),
    /// A call of `ask_user` with its input.
    Model {
        call: CallId,
        input: Value,
    },
}

/// Effect of a key press on the page.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    Stays,
    /// The question is answered.
    Answered(Vec<Effect>),
    /// The key belongs to the composer.
    Text,
}

impl Elicit {
    /// Opens the question of an MCP server.
    pub fn new(question: ServerQuestion) -> Self {
        let fields = match &question.form {
            ServerForm::Fields(schema) => field::fields(schema),
            ServerForm::Url(_) => Vec::new(),
        };
        Self::asked(Asker::Server(question), fields)
    }

    /// Opens the questions of a call of `ask_user`.
    pub fn of_model(call: CallId, input: Value) -> Self {
        let fields = field::questions(&input);
        Self::asked(Asker::Model { call, input }, fields)
    }

    fn asked(asker: Asker, fields: Vec<Field>) -> Self {
        // In a field, Enter goes to the next field and a digit is a part of its text, so these keys give the answers no keyboard.
        let list = if fields.is_empty() { AnswerList::default() } else { AnswerList::below_fields() };
        Self { asker, fields, at: 0, list, scrolled: 0, rows: (0, 0) }
    }

    /// Returns the number of a server's question.
    pub fn number(&self) -> Option<u64> {
        match &self.asker {
            Asker::Server(question) => Some(question.number),
            Asker::Model { .. } => None,
        }
    }

    /// Returns the call whose questions these are.
    pub fn call(&self) -> Option<&CallId> {
        match &self.asker {
            Asker::Server(_) => None,
            Asker::Model { call, .. } => Some(call),
        }
    }

    /// Returns the address that a server names.
    fn url(&self) -> Option<&str> {
        match &self.asker {
            Asker::Server(ServerQuestion { form: ServerForm::Url(url), .. }) => Some(url),
            _ => None,
        }
    }

    /// Records that the page was drawn.
    pub fn painted(&mut self, writing: Writing) -> Vec<Effect> {
        let wake = self.list.painted(writing.drafting);
        wake.map(|millis| Effect::Wake(millis, Timer::Page)).into_iter().collect()
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

    /// Records a possible change of the composer.
    pub fn wrote(&mut self, writing: Writing) {
        self.list.drafting(writing.drafting);
    }

    /// Handles a paste. Returns false if it belongs to the composer.
    pub fn paste(&mut self, text: &str) -> bool {
        self.list.disturb();
        match self.fields.get_mut(self.at).filter(|_| self.list.is_focused()) {
            Some(field) => field.paste(text),
            None => {
                self.list.pasted();
                return false;
            }
        }
        true
    }

    /// Moves the body by `lines`, down if positive. It stops at the first and last row.
    pub fn scroll(&mut self, lines: isize) {
        let most = self.rows.0.saturating_sub(self.rows.1);
        self.scrolled = self.scrolled.saturating_add_signed(lines).min(most);
    }

    /// Handles a key while the page is open.
    pub fn key(&mut self, key: KeyEvent, writing: Writing) -> Outcome {
        let page = isize::try_from(self.rows.1.max(2) - 1).unwrap_or(1);
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            // Interrupts the turn, which also ends the question of the model.
            KeyCode::Char('c') if ctrl && self.call().is_some() => {
                return Outcome::Answered(vec![Effect::Send(Command::Interrupt)]);
            }
            KeyCode::Char('c') if ctrl => return self.answered(ServerAnswer::Cancel),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::PageDown => self.scroll(page),
            KeyCode::Esc if !self.list.is_focused() && writing.takes_escape => return Outcome::Text,
            _ if self.list.is_focused() && self.at < self.fields.len() => return self.field_key(key),
            KeyCode::Up | KeyCode::BackTab if self.list.is_focused() && self.is_first_answer(key) => {
                self.go(self.fields.len() - 1, true);
            }
            _ => return self.answer_key(key, writing),
        }
        Outcome::Stays
    }

    /// True if the key goes from the answers back to the fields.
    fn is_first_answer(&self, key: KeyEvent) -> bool {
        !self.fields.is_empty() && (key.code == KeyCode::BackTab || self.list.is_at_first())
    }

    fn field_key(&mut self, key: KeyEvent) -> Outcome {
        if key.code == KeyCode::Esc {
            return self.answered(ServerAnswer::Cancel);
        }
        let used = self.fields.get_mut(self.at).map_or(FieldKey::Unused, |field| field.key(key));
        match (used, key.code) {
            (FieldKey::Used, _) => {}
            (FieldKey::Unused, KeyCode::Up | KeyCode::BackTab) => match self.at.checked_sub(1) {
                Some(before) => self.go(before, true),
                None => self.list.unfocus(),
            },
            (FieldKey::Next, _) | (FieldKey::Unused, KeyCode::Down | KeyCode::Tab | KeyCode::Enter) => {
                self.go(self.at + 1, false);
                if self.at == self.fields.len() {
                    // As if text were being written: the answers count only after a pause.
                    self.list.focus(true);
                }
            }
            _ => {}
        }
        Outcome::Stays
    }

    /// Gives the keyboard to a field, or to the answers after the last field.
    fn go(&mut self, at: usize, from_below: bool) {
        self.at = at;
        if let Some(field) = self.fields.get_mut(at) {
            field.enter(from_below);
        }
    }

    fn answer_key(&mut self, key: KeyEvent, writing: Writing) -> Outcome {
        let read = self.list.is_read();
        let had = self.list.is_focused();
        let pressed = self.list.key(key, self.answers().len(), writing.drafting);
        if !had && self.list.is_focused() {
            self.go(0, false);
        }
        match pressed {
            Pressed::Chosen(at) => self.chosen(at),
            Pressed::Refused => self.answered(ServerAnswer::Cancel),
            // Until the page has been read nothing is sent, so the text stays in the composer.
            Pressed::Text if read && key.code != KeyCode::Tab || writes(key) => Outcome::Text,
            // An Esc that comes before the page was read was meant for the screen before it.
            Pressed::Text if key.code == KeyCode::Esc => Outcome::Text,
            Pressed::Text | Pressed::Taken => Outcome::Stays,
        }
    }

    fn chosen(&mut self, at: usize) -> Outcome {
        let kind = self.answers().get(at).map(|(kind, _)| *kind);
        match kind {
            Some(Kind::Accept) => self.accept(),
            Some(Kind::Decline) => self.answered(ServerAnswer::Decline),
            Some(Kind::Cancel) | None => self.answered(ServerAnswer::Cancel),
        }
    }

    /// Sends the values, or goes to the first field whose value breaks a rule.
    fn accept(&mut self) -> Outcome {
        let mut content = Map::new();
        let mut first = None;
        for (at, field) in self.fields.iter_mut().enumerate() {
            match field.checked() {
                Ok(value) => content.extend(value),
                Err(why) => {
                    field.wrong = Some(why);
                    first = first.or(Some(at));
                }
            }
        }
        if let Some(at) = first {
            self.go(at, false);
            return Outcome::Stays;
        }
        let mut outcome = self.answered(ServerAnswer::Accept(content));
        if let (Outcome::Answered(effects), Some(url)) = (&mut outcome, self.url()) {
            effects.push(Effect::Copy(url.to_owned()));
        }
        outcome
    }

    fn answered(&self, answer: ServerAnswer) -> Outcome {
        Outcome::Answered(vec![match &self.asker {
            Asker::Server(question) => Effect::Ask(Request::AnswerServer { number: question.number, answer }),
            Asker::Model { call, input } => {
                let decision = match answer {
                    ServerAnswer::Accept(answers) => {
                        let mut input = input.clone();
                        input["answers"] = json!(answers);
                        Decision::AllowChanged { input }
                    }
                    ServerAnswer::Decline | ServerAnswer::Cancel => Decision::Deny { reason: None },
                };
                Effect::Send(Command::Decide { call_id: call.clone(), decision })
            }
        }])
    }

    fn answers(&self) -> Vec<(Kind, Answer)> {
        match &self.asker {
            Asker::Server(question) => {
                let accept = match &question.form {
                    ServerForm::Fields(_) => Answer::new("Send this to the server", "send"),
                    // becket opens no browser for an address that a server chose, so the answer copies the address.
                    ServerForm::Url(_) => Answer::new("I go there: copy the address", "copy and go"),
                };
                vec![
                    (Kind::Accept, accept),
                    (Kind::Decline, Answer::new("Decline: send a refusal to the server", "decline")),
                    (Kind::Cancel, Answer::new("Cancel: the server gets no answer", "cancel")),
                ]
            }
            Asker::Model { .. } => vec![
                (Kind::Accept, Answer::new("Give these answers", "answer")),
                (Kind::Decline, Answer::new("Do not answer: the model decides itself", "do not answer")),
            ],
        }
    }

    /// Returns the rows of the question and its fields, and the rows of the current field.
    fn body(&self, width: usize, theme: &Theme) -> (Vec<Line<'static>>, std::ops::Range<usize>) {
        let blank = Span::raw("");
        let indent = Span::raw("    ");
        let mut lines = Vec::new();
        let message: String = match &self.asker {
            Asker::Server(question) => question.message.chars().take(MOST_MESSAGE).collect(),
            Asker::Model { .. } => String::new(),
        };
        for line in message.lines() {
            let shown = text::visible(line).into_owned();
            lines.extend(text::wrap(&[Span::styled(shown, theme.text)], width, &blank, &blank));
        }
        if !message.is_empty() || self.number().is_some() {
            lines.push(Line::default());
        }
        if let Some(url) = self.url() {
            let shown = text::visible(url).into_owned();
            let whole = text::chunks(&shown, width.max(1)).into_iter();
            lines.extend(whole.map(|part| Line::styled(part.to_owned(), theme.accent)));
            let host = format!("The address leads to: {}", text::visible(host(url)));
            lines.push(Line::default());
            lines.extend(text::wrap(&[Span::styled(host, theme.text)], width, &blank, &blank));
        }
        let mut current = 0..0;
        for (at, field) in self.fields.iter().enumerate() {
            let here = self.list.is_focused() && at == self.at;
            let from = lines.len();
            if let Some((rows, cursor)) = field.answers(here, width, theme) {
                if at > 0 {
                    lines.push(Line::default());
                }
                question(&mut lines, field, width, theme);
                let first = lines.len();
                lines.extend(rows);
                if here {
                    current = first + cursor.start..first + cursor.end;
                }
                continue;
            }
            let mark = if here { "❯ " } else { "  " };
            let need = if field.required { "" } else { " (optional)" };
            let title = format!("{}{need}: ", field.title);
            let style = if here { theme.selected } else { theme.text };
            let first = Span::styled(mark, theme.accent);
            let value = Span::styled(field.shown(here), theme.accent);
            lines.extend(text::wrap(&[Span::styled(title, style), value], width, &first, &indent));
            let more = [(Some(&field.about), theme.dim), (field.wrong.as_ref(), theme.outcome.error)];
            for (about, style) in more {
                if let Some(about) = about.filter(|about| !about.is_empty()) {
                    lines.extend(text::wrap(&[Span::styled(about.clone(), style)], width, &indent, &indent));
                }
            }
            if here {
                current = from..lines.len();
            }
        }
        (lines, current)
    }

    /// Returns the rows under the body, and the row of the chosen answer.
    fn foot(
        &self,
        width: usize,
        height: usize,
        writing: Writing,
        theme: &Theme,
    ) -> (Vec<Line<'static>>, usize) {
        let answers: Vec<Answer> = self.answers().into_iter().map(|(_, answer)| answer).collect();
        let tight = height < answers.len() + 3 + BODY_ROWS;
        let warning = "The server gets what you send. Do not enter passwords or keys.";
        let mut lines = Vec::new();
        if self.number().is_some() && self.url().is_none() {
            lines.push(Line::styled(text::fit(warning, width).into_owned(), theme.dim));
        }
        let in_field = self.at < self.fields.len();
        let (list, row) = if self.list.is_focused() && in_field {
            // A field has the keyboard, so the answers are drawn as a list without the keyboard.
            AnswerList::default().lines(&answers, width, tight, theme)
        } else {
            self.list.lines(&answers, width, tight, theme)
        };
        let row = lines.len() + row;
        lines.extend(list);
        let field = self.fields.get(self.at).map_or("", Field::keys);
        let leaves = if self.number().is_some() { "Esc cancels" } else { "Esc gives no answer" };
        let keys = match (self.list.is_focused(), in_field) {
            (true, true) => vec![
                format!("{field} · Enter or Tab goes on · Shift-Tab goes back · {leaves}"),
                format!("{field} · Enter goes on · {leaves}"),
                format!("{field} · Enter goes on"),
                field.to_owned(),
            ],
            (true, false) => vec![
                format!("↑ ↓ select · Enter or a number answers · {leaves}"),
                format!("Enter answers · {leaves}"),
            ],
            (false, _) if writing.drafting => vec![
                "Enter sends your message, the question stays · after a pause, Tab answers".to_owned(),
                "Enter sends this · after a pause, Tab answers".to_owned(),
                "after a pause, Tab answers".to_owned(),
            ],
            (false, true) if self.number().is_some() => vec![
                format!("Tab fills in the form · PageUp, PageDown scroll · {leaves}"),
                format!("Tab fills in the form · {leaves}"),
            ],
            (false, _) => {
                vec![
                    format!("Tab answers · PageUp, PageDown scroll · {leaves}"),
                    format!("Tab answers · {leaves}"),
                ]
            }
        };
        let forms: Vec<&str> = keys.iter().map(String::as_str).collect();
        lines.push(hint::line(hint::fitting(&forms, width), width, theme));
        (lines, row)
    }

    /// Draws the page.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, writing: Writing, theme: &Theme) {
        Clear.render(area, frame.buffer_mut());
        let width = usize::from(area.width);
        let (foot, row) = self.foot(width, usize::from(area.height), writing, theme);
        let (body, current) = self.body(width, theme);
        let room = usize::from(area.height).saturating_sub(foot.len() + 1);
        self.rows = (body.len(), room);
        if current.end > self.scrolled + room {
            self.scrolled = current.end.saturating_sub(room);
        }
        if !current.is_empty() && current.start < self.scrolled {
            self.scrolled = current.start;
        }
        self.scrolled = self.scrolled.min(body.len().saturating_sub(room));
        let title = match &self.asker {
            Asker::Server(question) => {
                let what = if self.url().is_some() { "asks you to visit an address" } else { "asks" };
                format!("── The MCP server {} {what} ", text::visible(&question.server))
            }
            Asker::Model { .. } => "── The model asks you ".to_owned(),
        };
        let rule = "─".repeat(width.saturating_sub(text::width(&title)));
        let title = text::fit(&format!("{title}{rule}"), width).into_owned();
        let buffer = frame.buffer_mut();
        buffer.set_line(area.x, area.y, &Line::styled(title, theme.accent), area.width);
        for (y, line) in body.iter().skip(self.scrolled).take(room).enumerate() {
            buffer.set_line(area.x, area.y + 1 + y as u16, line, area.width);
        }
        let bottom = area.bottom().saturating_sub(foot.len() as u16).max(area.y + 1);
        for (y, line) in foot.iter().enumerate().take(usize::from(area.bottom().saturating_sub(bottom))) {
            buffer.set_line(area.x, bottom + y as u16, line, area.width);
        }
        if self.list.is_focused() {
            let y = if self.at < self.fields.len() {
                area.y + 1 + current.start.saturating_sub(self.scrolled) as u16
            } else {
                bottom + row as u16
            };
            frame.set_cursor_position(Position::new(area.x, y.min(area.bottom().saturating_sub(1))));
        }
    }
}

/// Adds the heading of a question of the model, and what is wrong with its answer.
fn question(lines: &mut Vec<Line<'static>>, field: &Field, width: usize, theme: &Theme) {
    let blank = Span::raw("");
    let title = if field.title.is_empty() { String::new() } else { format!("{}: ", field.title) };
    let spans = [Span::styled(title, theme.accent), Span::styled(field.about.clone(), theme.text)];
    lines.extend(text::wrap(&spans, width, &blank, &blank));
    if let Some(wrong) = &field.wrong {
        lines.extend(text::wrap(&[Span::styled(wrong.clone(), theme.outcome.error)], width, &blank, &blank));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Accept,
    Decline,
    Cancel,
}

/// Returns the host of an address, without a user name and `@` before it.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_where_the_address_leads() {
        for (url, want) in [
            ("https://example.org/a?b#c", "example.org"),
            ("https://good.org@evil.org/good.org", "evil.org"),
            ("https://evil.org\\@good.org/", "evil.org"),
            ("https://example.org:8443", "example.org:8443"),
            ("mailto:a@b.org", "b.org"),
        ] {
            assert_eq!(host(url), want, "{url}");
        }
    }
}
