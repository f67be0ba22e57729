//! The composer, in which the user writes messages.
//!
//! Owns the text ([`buffer`]), its keys, the history of prompts, and its drawing. A finished text is passed on as
//! [`Outcome::Submit`] and not interpreted. Keys follow Emacs and readline, or Vim if configured ([`vim`]).

pub mod buffer;
mod search;
pub mod vim;

use crate::input::PastPrompt;
use crate::text;
use crate::theme::Theme;
use buffer::{Buffer, Chip, Piece};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use search::Search;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation as _;
use vim::Vim;

/// A paste with more lines than this becomes a chip: one character that stands for the whole paste ([`buffer`]).
const FOLD_LINES: usize = 8;
/// A paste with more characters than this becomes a chip as well.
const FOLD_CHARS: usize = 1_000;
/// Maximum number of pastes that are remembered.
const PASTES: usize = 20;

/// The text field, its history, and its search.
#[derive(Debug, Default)]
pub struct Composer {
    buffer: Buffer,
    history: Vec<String>,
    /// Pastes of this session, the newest last. A prompt recalled from the history gets its chips back from them.
    pastes: Vec<String>,
    /// Position in the history, and the text that was being written before browsing began. The value has a meaning only
    /// while the prompt at this position is shown unchanged, see [`Self::is_browsing`].
    browsing: Option<(usize, String)>,
    search: Option<Search>,
    vim: Option<Vim>,
    /// First visible row.
    scroll: usize,
}

/// A row of the composer: pieces of text with their looks.
type Row = Vec<(String, Look)>;

/// Style of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Text,
    Chip,
    Selected,
}

/// Effect of a key press on the composer.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The text or the cursor changed.
    Changed,
    /// The key is not for the composer.
    Ignored,
    /// The user submitted the text.
    Submit(Prompt),
}

/// A submitted text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    pub text: String,
    /// Media type and bytes, in order.
    pub images: Vec<(String, Vec<u8>)>,
    /// Byte ranges of the text that were long pastes.
    pub pasted: Vec<Range<usize>>,
    /// The command that the text was made from, as the user wrote it. The transcript shows it in place of the text.
    pub command: Option<String>,
}

impl Prompt {
    /// Creates the prompt that a command stands for.
    pub(crate) fn of_command(command: &str, text: String) -> Self {
        let command = Some(command.to_owned()).filter(|command| *command != text);
        Self { text, command, ..Self::default() }
    }

    /// Returns the prompt as the history keeps it.
    pub fn past(&self) -> PastPrompt {
        PastPrompt { text: self.text.clone(), pasted: self.pasted.clone() }
    }
}

impl Composer {
    /// True if there is no text.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns the text with the content of its chips.
    pub fn text(&self) -> String {
        self.buffer.expanded()
    }

    /// Replaces the text. Each remembered paste that the text contains becomes a chip.
    pub fn set(&mut self, text: &str) {
        self.buffer.set("");
        let mut rest = text;
        let first = |rest: &str| {
            let found =
                self.pastes.iter().filter_map(|paste| Some((rest.find(paste.as_str())?, paste.clone())));
            // If two pastes start at one place, the longer one wins, because it contains the other.
            found.min_by_key(|(at, paste)| (*at, std::cmp::Reverse(paste.len())))
        };
        while let Some((at, paste)) = first(rest) {
            self.buffer.insert(&rest[..at]);
            rest = &rest[at + paste.len()..];
            self.buffer.insert_chip(Chip::Text(paste));
        }
        self.buffer.insert(rest);
    }

    /// Returns the text with one character for each chip.
    pub fn raw(&self) -> &str {
        self.buffer.text()
    }

    /// Returns the cursor as a byte offset in [`Composer::raw`].
    pub fn cursor(&self) -> usize {
        self.buffer.cursor()
    }

    /// Replaces `range` of [`Composer::raw`] with `text`.
    pub fn replace(&mut self, range: Range<usize>, text: &str) {
        self.buffer.replace(range, text);
    }

    /// Turns Vim keys on or off.
    pub(crate) fn set_vim(&mut self, on: bool) {
        self.vim = on.then(Vim::default);
    }

    /// Returns the name of the Vim mode, `None` if Vim keys are off.
    pub fn vim(&self) -> Option<&'static str> {
        self.vim.as_ref().map(|vim| vim.mode().name())
    }

    /// True if Esc has a meaning in the current Vim mode. No other pane gets it then.
    pub(crate) fn takes_escape(&self) -> bool {
        self.vim.as_ref().is_some_and(Vim::takes_escape)
    }

    /// True if the cursor is on the first line.
    pub(crate) fn is_at_top(&self) -> bool {
        !self.buffer.text()[..self.buffer.cursor()].contains('\n')
    }

    /// True if an earlier prompt is shown instead of the text being written. A prompt that was edited is a new text.
    pub(crate) fn is_browsing(&self) -> bool {
        let shown = self.browsing.as_ref().and_then(|(at, _)| self.history.get(*at));
        shown.is_some_and(|shown| *shown == self.buffer.expanded())
    }

    /// True while the history is searched.
    pub(crate) fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Empties the composer.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.browsing = None;
        self.search = None;
        if let Some(vim) = &mut self.vim {
            vim.reset();
        }
    }

    /// Sets the history: previous prompts, oldest first. Long pastes in the newest ones become chips again.
    pub(crate) fn set_history(&mut self, history: Vec<PastPrompt>) {
        let pasted = |past: &PastPrompt| -> Vec<String> {
            past.pasted.iter().filter_map(|range| past.text.get(range.clone()).map(str::to_owned)).collect()
        };
        let mut pastes: Vec<String> = history.iter().rev().flat_map(pasted).take(PASTES).collect();
        pastes.reverse();
        // Pastes of this session are newer.
        pastes.append(&mut self.pastes);
        self.pastes = pastes.split_off(pastes.len().saturating_sub(PASTES));
        self.history = history.into_iter().map(|past| past.text).collect();
    }

    /// Inserts pasted text at the cursor. Long text becomes a chip.
    pub fn paste(&mut self, pasted: &str) {
        // Most terminals send a line end as a carriage return.
        let text = pasted.replace("\r\n", "\n").replace('\r', "\n");
        let long = text.lines().count() > FOLD_LINES || text.chars().nth(FOLD_CHARS).is_some();
        if long {
            if self.pastes.len() == PASTES {
                self.pastes.remove(0);
            }
            self.pastes.push(text.clone());
            self.buffer.insert_chip(Chip::Text(text));
        } else {
            self.buffer.insert(&text);
        }
    }

    /// Inserts a chip for an image.
    pub(crate) fn paste_image(&mut self, media_type: String, bytes: Vec<u8>) {
        self.buffer.insert_chip(Chip::Image { media_type, bytes });
    }

    /// Returns the finished text and empties the composer.
    pub fn take(&mut self) -> Prompt {
        let images = self
            .buffer
            .pieces()
            .filter_map(|p| match p {
                Piece::Chip(Chip::Image { media_type, bytes }) => Some((media_type.clone(), bytes.clone())),
                _ => None,
            })
            .collect();
        let (mut pasted, mut at) = (Vec::new(), 0);
        for piece in self.buffer.pieces() {
            match piece {
                Piece::Text(text) => at += text.len(),
                Piece::Chip(Chip::Text(text)) => {
                    pasted.push(at..at + text.len());
                    at += text.len();
                }
                Piece::Chip(Chip::Image { .. }) => {}
            }
        }
        let prompt = Prompt { text: self.buffer.expanded(), images, pasted, command: None };
        if !prompt.text.trim().is_empty() && self.history.last() != Some(&prompt.text) {
            self.history.push(prompt.text.clone());
        }
        self.clear();
        prompt
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Outcome {
        if self.search.is_some() {
            self.search_key(key);
            return Outcome::Changed;
        }
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        let b = &mut self.buffer;
        if self.vim.as_mut().is_some_and(|vim| vim.key(b, key)) {
            return Outcome::Changed;
        }
        match key.code {
            KeyCode::Enter if shift || alt || ctrl => b.insert("\n"),
            KeyCode::Enter if b.text().ends_with('\\') && b.cursor() == b.text().len() => {
                b.delete_back();
                b.insert("\n");
            }
            KeyCode::Enter => {
                if b.text().trim().is_empty() {
                    return Outcome::Ignored;
                }
                return Outcome::Submit(self.take());
            }
            KeyCode::Char('j') if ctrl => b.insert("\n"),
            KeyCode::Char('a') if ctrl => b.line_start(),
            KeyCode::Char('e') if ctrl => b.line_end(),
            KeyCode::Char('b') if ctrl => b.left(),
            KeyCode::Char('f') if ctrl => b.right(),
            KeyCode::Char('d') if ctrl && !b.is_empty() => b.delete_forward(),
            KeyCode::Char('h') if ctrl => b.delete_back(),
            KeyCode::Char('k') if ctrl => b.kill_to_line_end(),
            KeyCode::Char('u') if ctrl => b.kill_to_line_start(),
            KeyCode::Char('w') if ctrl => b.kill_word_back(),
            KeyCode::Char('y') if ctrl => b.yank(),
            KeyCode::Char('_' | '7') if ctrl => b.undo(),
            KeyCode::Char('b') if alt => b.word_left(),
            KeyCode::Char('f') if alt => b.word_right(),
            KeyCode::Char('d') if alt => b.kill_word_forward(),
            KeyCode::Char('z') if alt && shift => b.redo(),
            KeyCode::Char('z') if alt => b.undo(),
            KeyCode::Left if ctrl || alt => b.word_left(),
            KeyCode::Right if ctrl || alt => b.word_right(),
            KeyCode::Left => b.left(),
            KeyCode::Right => b.right(),
            KeyCode::Home if ctrl => b.start(),
            KeyCode::End if ctrl => b.end(),
            KeyCode::Home => b.line_start(),
            KeyCode::End => b.line_end(),
            KeyCode::Backspace if ctrl || alt => b.kill_word_back(),
            KeyCode::Backspace => b.delete_back(),
            KeyCode::Delete => b.delete_forward(),
            KeyCode::Up if !ctrl => {
                if !b.up() {
                    self.older();
                }
            }
            KeyCode::Down if !ctrl => {
                if !b.down() {
                    self.newer();
                }
            }
            KeyCode::Char('r') if ctrl => self.search = Some(Search::default()),
            KeyCode::Char(c) if !ctrl && !alt => b.insert(c.encode_utf8(&mut [0; 4])),
            _ => return Outcome::Ignored,
        }
        Outcome::Changed
    }

    fn search_key(&mut self, key: KeyEvent) {
        let Some(search) = &mut self.search else { return };
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('r') | KeyCode::Up if ctrl || key.code == KeyCode::Up => {
                search.back(&self.history, search.at.unwrap_or(self.history.len()));
            }
            KeyCode::Char('g' | 'c') if ctrl => self.search = None,
            KeyCode::Esc => self.search = None,
            KeyCode::Backspace => {
                text::delete_back(&mut search.query);
                search.at = None;
                search.again(&self.history);
            }
            KeyCode::Char(c) if !ctrl => {
                search.query.push(c);
                search.again(&self.history);
            }
            // Any other key puts the found prompt into the composer, to be changed or sent.
            _ => {
                let found = search.at;
                self.search = None;
                if let Some(at) = found.filter(|at| *at < self.history.len()) {
                    // Down leads back to the text that the found prompt replaces.
                    let (_, draft) = self.walk();
                    self.set(&self.history[at].clone());
                    self.browsing = Some((at, draft));
                }
            }
        }
    }

    /// Takes the position in the history and the draft. If the shown prompt was edited, browsing starts again at the end of the history,
    /// with the edited text as the draft. The previous draft becomes the newest entry of the history, so that it is not lost.
    fn walk(&mut self) -> (usize, String) {
        let browses = self.is_browsing();
        match self.browsing.take() {
            Some(walk) if browses => return walk,
            Some((_, draft)) if !draft.trim().is_empty() && self.history.last() != Some(&draft) => {
                self.history.push(draft);
            }
            _ => {}
        }
        (self.history.len(), self.buffer.expanded())
    }

    fn older(&mut self) {
        let (at, draft) = self.walk();
        match at.checked_sub(1) {
            Some(at) => {
                self.set(&self.history[at].clone());
                self.browsing = Some((at, draft));
            }
            None if self.history.is_empty() => {}
            None => self.browsing = Some((at, draft)),
        }
    }

    fn newer(&mut self) {
        if !self.is_browsing() {
            return;
        }
        if let Some((at, draft)) = self.browsing.take() {
            match self.history.get(at + 1).cloned() {
                Some(text) => {
                    self.set(&text);
                    self.browsing = Some((at + 1, draft));
                }
                None => self.set(&draft),
            }
        }
    }

    /// Returns the height in rows that the composer needs at this width, at least one.
    pub fn height(&self, width: u16) -> u16 {
        if self.search.is_some() {
            return 1;
        }
        self.rows(usize::from(width)).0.len().min(usize::from(u16::MAX)) as u16
    }

    /// Draws the composer and puts the terminal's cursor where the next character goes, because input methods follow
    /// it. `active`: the composer has the keyboard.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme, hint: &str, active: bool) {
        let width = usize::from(area.width);
        if let Some(search) = &self.search {
            return draw_search(search, &self.history, frame, area, theme);
        }
        let mark = Span::styled("› ", if active { theme.accent } else { theme.dim });
        let (rows, cursor) = self.rows(width);
        let height = usize::from(area.height);
        let (row, column) = cursor;
        self.scroll = self.scroll.min(row).max((row + 1).saturating_sub(height));
        for (i, line) in rows.iter().skip(self.scroll).take(height).enumerate() {
            let lead = match i {
                0 if self.scroll == 0 => mark.clone(),
                0 => Span::styled("⋮ ", theme.dim),
                _ => Span::raw("  "),
            };
            let mut spans = vec![lead];
            spans.extend(line.iter().map(|(text, look)| {
                let style = match look {
                    Look::Text => theme.text,
                    Look::Chip => theme.accent,
                    Look::Selected => theme.selected,
                };
                Span::styled(text.clone(), style)
            }));
            if self.buffer.is_empty() {
                spans.push(Span::styled(
                    text::fit_words(hint, width.saturating_sub(2)).into_owned(),
                    theme.dim,
                ));
            }
            frame.buffer_mut().set_line(area.x, area.y + i as u16, &Line::from(spans), area.width);
        }
        let x = area.x + (2 + column).min(width.saturating_sub(1)) as u16;
        // With no rows at all, the scroll offset is larger than the cursor's row.
        let y = area.y + row.saturating_sub(self.scroll).min(height.saturating_sub(1)) as u16;
        if area.height > 0 && area.width > 0 {
            frame.set_cursor_position(Position::new(x, y));
        }
    }

    /// Lays the text out in rows of styled pieces. Also returns the row and column of the cursor.
    fn rows(&self, width: usize) -> (Vec<Row>, (usize, usize)) {
        let columns = width.saturating_sub(3).max(1);
        let mut rows: Vec<Row> = vec![Vec::new()];
        // Terminals disagree about some widths. `used`: columns by becket's own measure; `room`: columns in the
        // terminal that takes the most.
        let (mut used, mut room) = (0, 0);
        let mut cursor = (0, 0);
        let selected = self.vim.as_ref().and_then(|vim| vim.selected(&self.buffer)).unwrap_or_default();
        for (at, grapheme) in self.buffer.text().grapheme_indices(true) {
            if at == self.buffer.cursor() {
                cursor = (rows.len() - 1, used);
            }
            if grapheme == "\n" {
                rows.push(Vec::new());
                (used, room) = (0, 0);
                continue;
            }
            let chip = grapheme.chars().next().and_then(|c| self.buffer.chip(c));
            let shown = match chip {
                Some(chip) => chip.label(),
                None => text::visible(grapheme).into_owned(),
            };
            let own = text::width(&shown);
            // A disputed cluster is written in one piece with the text after it, so a terminal that gives it more columns
            // moves that text. After any other grapheme the cursor is placed, so the terminal's own width does not matter.
            let most = if text::is_disputed(&shown) { text::most(&shown) } else { own };
            if room + most > columns && used > 0 {
                rows.push(Vec::new());
                (used, room) = (0, 0);
                if at == self.buffer.cursor() {
                    cursor = (rows.len() - 1, 0);
                }
            }
            let look = match chip {
                _ if selected.contains(&at) => Look::Selected,
                Some(_) => Look::Chip,
                None => Look::Text,
            };
            if let Some(row) = rows.last_mut() {
                match row.last_mut() {
                    Some((text, before)) if *before == look && look != Look::Chip => text.push_str(&shown),
                    _ => row.push((shown, look)),
                }
            }
            (used, room) = (used + own, room + most);
        }
        if self.buffer.cursor() == self.buffer.text().len() {
            cursor = (rows.len() - 1, used);
        }
        (rows, cursor)
    }
}

/// Draws the search in one row: the searched text and the match.
fn draw_search(search: &Search, history: &[String], frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
    if area.height == 0 || area.width == 0 {
        return;
    }
    let width = usize::from(area.width);
    let found =
        search.at.and_then(|at| history.get(at)).map(|t| text::visible(&t.replace('\n', " ↵ ")).into_owned());
    let asked = text::fit(&format!("earlier: {}", text::visible(&search.query)), width - 1).into_owned();
    let used = text::width(&asked);
    let rest = match &found {
        Some(found) => format!("  {found}"),
        None if search.query.is_empty() => {
            "  Ctrl-R finds an older one · Enter inserts it · Esc goes back".to_owned()
        }
        None => "  no earlier prompt contains that".to_owned(),
    };
    let rest = text::fit(&rest, width.saturating_sub(used)).into_owned();
    let style = if found.is_some() { theme.text } else { theme.dim };
    let line = Line::from(vec![Span::styled(asked, theme.accent), Span::styled(rest, style)]);
    frame.buffer_mut().set_line(area.x, area.y, &line, area.width);
    frame.set_cursor_position(Position::new(area.x + used.min(width - 1) as u16, area.y));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn press(composer: &mut Composer, keys: &str) {
        for key in keys.chars() {
            let (code, modifiers) = match key {
                '↑' => (KeyCode::Up, KeyModifiers::NONE),
                '↓' => (KeyCode::Down, KeyModifiers::NONE),
                '⌫' => (KeyCode::Char('u'), KeyModifiers::CONTROL),
                '?' => (KeyCode::Char('r'), KeyModifiers::CONTROL),
                '⏎' => (KeyCode::Enter, KeyModifiers::NONE),
                c => (KeyCode::Char(c), KeyModifiers::NONE),
            };
            composer.key(KeyEvent::new(code, modifiers));
        }
    }

    fn composer() -> Composer {
        let mut composer = Composer::default();
        let past = |text: &str| PastPrompt { text: text.to_owned(), pasted: Vec::new() };
        composer.set_history(["first", "second"].map(past).to_vec());
        composer
    }

    #[test]
    fn a_paste_is_folded_by_its_characters_in_every_script() {
        for letter in ["a", "й", "漢"] {
            let mut composer = Composer::default();
            composer.paste(&letter.repeat(FOLD_CHARS));
            assert_eq!(composer.pastes.len(), 0, "{letter}");
            composer.paste(&letter.repeat(FOLD_CHARS + 1));
            assert_eq!(composer.pastes.len(), 1, "{letter}");
        }
    }

    #[test]
    fn an_edited_prompt_is_a_new_draft() {
        for (keys, text, browses) in [
            ("↑", "second", true),
            ("↑⌫", "", false),
            ("↑⌫new↑", "second", true),
            ("↑⌫new↑↓", "new", false),
            ("↑!↑↑↓↓", "second!", false),
            // The draft of the first browsing is an entry of the second.
            ("old↑!↑", "old", true),
            ("old↑!↑↓", "second!", false),
            ("old↑↑↓↓", "old", false),
            ("old?fir⏎", "first", true),
            ("old?fir⏎↓↓", "old", false),
            ("↓", "", false),
            ("a↓", "a", false),
        ] {
            let mut composer = composer();
            press(&mut composer, keys);
            assert_eq!((&*composer.text(), composer.is_browsing()), (text, browses), "{keys}");
        }
    }

    proptest! {
        /// Neither a walk through the history nor a search in it loses a text that was typed.
        #[test]
        fn no_text_is_lost_by_a_walk(walks in prop::collection::vec(("[a-z]{1,3}", "(↑|↓|\\?s⏎){1,4}"), 1..6)) {
            let mut composer = composer();
            let mut typed = Vec::new();
            for (text, moves) in walks {
                press(&mut composer, &text);
                typed.push(composer.text());
                press(&mut composer, &moves);
            }
            press(&mut composer, &"↓".repeat(20));
            let mut seen = vec![composer.text()];
            for _ in 0..20 {
                press(&mut composer, "↑");
                seen.push(composer.text());
            }
            for text in &typed {
                // If more was typed after a text, a later text begins with it.
                prop_assert!(seen.iter().any(|seen| seen.starts_with(text.as_str())), "{text} of {typed:?} in {seen:?}");
            }
        }
    }
}
