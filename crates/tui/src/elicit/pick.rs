//! A question of the model: prepared answers, one line for an answer of the user's own, and the keys that choose.
//!
//! Up and Down move through the answers and leave the question at both ends. In a question with one answer, Enter chooses the
//! answer at the cursor. Text that is typed goes into the line of the own answer. Nothing here sends.

use crate::text;
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::{Line, Span};
use serde_json::Value;

/// Maximum number of characters of an own answer.
const MOST_CHARS: usize = 2_000;

/// Prepared answers and the choice among them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pick {
    /// The label of each answer as the model wrote it, and its description.
    options: Vec<(String, String)>,
    chosen: Vec<bool>,
    several: bool,
    /// The row under the cursor. The row after the last option is the user's own answer.
    at: usize,
    own: String,
}

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Picked {
    Stays,
    /// The next field gets the keyboard.
    Next,
    /// The key has no meaning here.
    Unused,
}

impl Pick {
    /// Reads a question of `ask_user`.
    pub(super) fn of(question: &Value) -> Self {
        let words = |option: &Value, key: &str| option[key].as_str().unwrap_or_default().to_owned();
        let options: Vec<(String, String)> = question["options"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|option| (words(option, "label"), words(option, "description")))
            .collect();
        let several = question["multiSelect"] == true;
        Self { chosen: vec![false; options.len()], options, several, at: 0, own: String::new() }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Picked {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        let is_own = self.at >= self.options.len();
        match key.code {
            KeyCode::Char('u') if key.modifiers == KeyModifiers::CONTROL => self.own.clear(),
            KeyCode::Up if plain && self.at > 0 => self.at -= 1,
            KeyCode::Down if plain && !is_own => self.at += 1,
            KeyCode::Enter if plain => {
                if !is_own && !self.several {
                    self.choose(self.at);
                }
                return Picked::Next;
            }
            KeyCode::Char(' ') if plain && !is_own => self.choose(self.at),
            KeyCode::Char(c) if plain && !is_own && self.number(c).is_some() => {
                self.at = self.number(c).unwrap_or_default();
                self.choose(self.at);
            }
            KeyCode::Char(c) if plain => {
                self.at = self.options.len();
                self.write(&c.to_string());
            }
            KeyCode::Backspace if is_own => text::delete_back(&mut self.own),
            KeyCode::Backspace => self.chosen.fill(false),
            _ => return Picked::Unused,
        }
        Picked::Stays
    }

    fn number(&self, c: char) -> Option<usize> {
        let at = (c.to_digit(10)? as usize).checked_sub(1)?;
        (at < self.options.len()).then_some(at)
    }

    fn choose(&mut self, at: usize) {
        if self.several {
            if let Some(chosen) = self.chosen.get_mut(at) {
                *chosen = !*chosen;
            }
        } else {
            self.chosen.iter_mut().enumerate().for_each(|(n, chosen)| *chosen = n == at);
            self.own.clear();
        }
    }

    /// Adds text to the own answer. In a question with one answer it replaces the chosen one.
    pub(super) fn write(&mut self, pasted: &str) {
        self.at = self.options.len();
        let room = MOST_CHARS.saturating_sub(self.own.chars().count());
        self.own.extend(pasted.chars().map(|c| if c.is_control() { ' ' } else { c }).take(room));
        if !self.several {
            self.chosen.fill(false);
        }
    }

    /// Sets the cursor to the first row, or to the last one if it comes from below.
    pub(super) fn enter(&mut self, from_below: bool) {
        self.at = if from_below { self.options.len() } else { 0 };
    }

    /// Returns the answer: the labels of the chosen options and the own answer, with commas between them.
    ///
    /// # Errors
    ///
    /// Returns the reason for people if nothing is chosen.
    pub(super) fn answer(&self) -> Result<Value, String> {
        let chosen = self.options.iter().zip(&self.chosen).filter(|(_, chosen)| **chosen);
        let own = Some(self.own.trim()).filter(|own| !own.is_empty());
        let parts: Vec<&str> = chosen.map(|((label, _), _)| label.as_str()).chain(own).collect();
        if parts.is_empty() {
            return Err("choose an answer, or write your own".to_owned());
        }
        Ok(Value::from(parts.join(", ")))
    }

    pub(super) fn keys(&self) -> &'static str {
        match (self.at >= self.options.len(), self.several) {
            (true, _) => "type your answer",
            (false, true) => "↑ ↓ move · Space chooses",
            (false, false) => "↑ ↓ move · Space or a number chooses",
        }
    }

    /// Returns one row or more for each answer, and the range of those at the cursor.
    pub(super) fn lines(
        &self,
        here: bool,
        width: usize,
        theme: &Theme,
    ) -> (Vec<Line<'static>>, std::ops::Range<usize>) {
        let mut lines = Vec::new();
        let mut current = 0..0;
        let rest = Span::raw("        ");
        for row in 0..=self.options.len() {
            let from = lines.len();
            let at = here && row == self.at;
            let chosen = self.chosen.get(row).copied().unwrap_or(!self.own.trim().is_empty());
            let sign = match (self.several, chosen) {
                (true, true) => "[x]",
                (true, false) => "[ ]",
                (false, true) => "(•)",
                (false, false) => "( )",
            };
            let lead = Span::styled(format!("  {} {sign} ", if at { "❯" } else { " " }), theme.accent);
            let style = if at { theme.selected } else { theme.text };
            let spans = match self.options.get(row) {
                Some((label, about)) => {
                    let mut spans = vec![Span::styled(text::visible(label).into_owned(), style)];
                    if !about.trim().is_empty() {
                        spans.push(Span::styled(format!(" — {}", text::visible(about)), theme.dim));
                    }
                    spans
                }
                None => {
                    let own = format!("{}{}", text::visible(&self.own), if at { "▏" } else { "" });
                    vec![Span::styled("Your own answer: ", style), Span::styled(own, theme.accent)]
                }
            };
            lines.extend(text::wrap(&spans, width, &lead, &rest));
            if at {
                current = from..lines.len();
            }
        }
        (lines, current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pick(several: bool) -> Pick {
        Pick::of(&json!({
            "question": "Which?", "multiSelect": several,
            "options": [{"label": "a", "description": "first"}, {"label": "b", "description": ""}],
        }))
    }

    fn press(pick: &mut Pick, code: KeyCode) -> Picked {
        pick.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn one_of_them_is_chosen_or_an_own_answer_written() {
        let mut pick = pick(false);
        assert!(pick.answer().is_err());
        press(&mut pick, KeyCode::Down);
        assert_eq!(press(&mut pick, KeyCode::Enter), Picked::Next);
        assert_eq!(pick.answer(), Ok(json!("b")));
        press(&mut pick, KeyCode::Char('1'));
        assert_eq!(pick.answer(), Ok(json!("a")));
        for c in "no 2".chars() {
            press(&mut pick, KeyCode::Char(c));
        }
        assert_eq!(pick.answer(), Ok(json!("no 2")));
        // A chosen answer replaces the own one.
        press(&mut pick, KeyCode::Up);
        press(&mut pick, KeyCode::Char(' '));
        assert_eq!(pick.answer(), Ok(json!("b")));
        press(&mut pick, KeyCode::Backspace);
        assert!(pick.answer().is_err());
    }

    #[test]
    fn several_are_chosen_and_the_ends_lead_out() {
        let mut pick = pick(true);
        assert_eq!(press(&mut pick, KeyCode::Up), Picked::Unused);
        for code in [KeyCode::Char('1'), KeyCode::Char('2'), KeyCode::Down] {
            assert_eq!(press(&mut pick, code), Picked::Stays);
        }
        assert_eq!(press(&mut pick, KeyCode::Down), Picked::Unused, "the own answer is the last row");
        pick.write("c\nd");
        assert_eq!(pick.answer(), Ok(json!("a, b, c d")));
        assert_eq!(press(&mut pick, KeyCode::Enter), Picked::Next);
    }
}
