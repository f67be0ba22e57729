//! Reading the transcript with keys: search (Ctrl-F), and a focused block (Alt-Up) to open, to copy and to search from.
//!
//! Owns which of the two is open, and the search text. The composer keeps its text meanwhile.

use crate::hint;
use crate::text;
use crate::theme::Theme;
use crate::transcript::Transcript;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::text::{Line, Span};

/// Search text and previous search text.
#[derive(Debug, Default)]
pub struct Reading {
    /// The search text while it is typed.
    search: Option<String>,
    /// The previous search text.
    last: String,
}

/// Action that follows from a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    None,
    Copy(String),
    /// Report this: there is nothing to copy or to find.
    Say(&'static str),
    /// Bring messages back that the focused compaction removed from the context.
    BringBack,
}

impl Reading {
    /// True if keys go to the search or the focused block.
    pub fn is_open(&self, transcript: &Transcript) -> bool {
        self.search.is_some() || transcript.focused().is_some()
    }

    /// Begins a search.
    pub fn search(&mut self) {
        self.search = Some(String::new());
    }

    /// Handles a key while the search or the focus is open.
    pub fn key(&mut self, key: KeyEvent, transcript: &mut Transcript, theme: &Theme) -> Outcome {
        if self.search.is_some() {
            self.search_key(key, transcript, theme)
        } else {
            self.focus_key(key, transcript, theme)
        }
    }

    fn search_key(&mut self, key: KeyEvent, transcript: &mut Transcript, theme: &Theme) -> Outcome {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let Some(words) = &mut self.search else { return Outcome::None };
        match key.code {
            KeyCode::Esc => self.end_search(transcript),
            KeyCode::Char('c' | 'g') if ctrl => self.end_search(transcript),
            KeyCode::Up => transcript.find_next(true, theme),
            KeyCode::Char('p' | 'r') if ctrl => transcript.find_next(true, theme),
            KeyCode::Enter if key.modifiers.contains(KeyModifiers::SHIFT) => {
                transcript.find_next(true, theme);
            }
            KeyCode::Enter | KeyCode::Char('f' | 'n')
                if words.is_empty() && (ctrl || key.code == KeyCode::Enter) =>
            {
                words.clone_from(&self.last);
                transcript.find(words, theme);
            }
            KeyCode::Enter | KeyCode::Down => transcript.find_next(false, theme),
            KeyCode::Char('f' | 'n') if ctrl => transcript.find_next(false, theme),
            KeyCode::Char('u') if ctrl => {
                words.clear();
                transcript.find(words, theme);
            }
            KeyCode::Backspace => {
                text::delete_back(words);
                transcript.find(words, theme);
            }
            KeyCode::Char(c) if !ctrl => {
                words.push(c);
                transcript.find(words, theme);
            }
            _ => {}
        }
        Outcome::None
    }

    /// Ends the search. The text is kept, so that Enter in an empty search repeats it, and the match stays in view.
    fn end_search(&mut self, transcript: &mut Transcript) {
        if let Some(words) = self.search.take().filter(|words| !words.is_empty()) {
            self.last = words;
        }
        transcript.end_find();
    }

    fn focus_key(&mut self, key: KeyEvent, transcript: &mut Transcript, theme: &Theme) -> Outcome {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => transcript.move_focus(true, theme),
            KeyCode::Down | KeyCode::Char('j') => transcript.move_focus(false, theme),
            KeyCode::Home | KeyCode::Char('g') => transcript.focus_end(true, theme),
            KeyCode::End | KeyCode::Char('G') => transcript.focus_end(false, theme),
            KeyCode::Char('u') => transcript.focus_user(true, theme),
            KeyCode::Char('d') if !ctrl => transcript.focus_user(false, theme),
            KeyCode::Char('o') if ctrl => transcript.toggle_open(),
            KeyCode::Enter | KeyCode::Char(' ' | 'o') => transcript.toggle_focused(),
            KeyCode::PageUp => transcript.scroll_pages(-1, theme),
            KeyCode::PageDown => transcript.scroll_pages(1, theme),
            KeyCode::Char('/') => self.search(),
            KeyCode::Char('f') if ctrl => self.search(),
            KeyCode::Char('c') if ctrl => transcript.end_focus(),
            KeyCode::Char('c' | 'y') => {
                return match transcript.copy_focused() {
                    Some(text) if !text.is_empty() => Outcome::Copy(text),
                    _ => Outcome::Say("there is nothing to copy"),
                };
            }
            KeyCode::Char('b') if !ctrl => return Outcome::BringBack,
            KeyCode::Esc | KeyCode::Char('q') => transcript.end_focus(),
            _ => {}
        }
        Outcome::None
    }

    /// Handles the mouse: the wheel scrolls, the left button selects. When it is released, the selected text is copied.
    pub fn mouse(&mut self, mouse: MouseEvent, transcript: &mut Transcript, theme: &Theme) -> Outcome {
        match mouse.kind {
            MouseEventKind::ScrollUp => transcript.scroll(-3, theme),
            MouseEventKind::ScrollDown => transcript.scroll(3, theme),
            MouseEventKind::Down(MouseButton::Left) => transcript.press(mouse.column, mouse.row),
            MouseEventKind::Drag(MouseButton::Left) => transcript.drag(mouse.column, mouse.row, theme),
            MouseEventKind::Up(MouseButton::Left) => {
                return transcript.release(theme).map_or(Outcome::None, Outcome::Copy);
            }
            _ => {}
        }
        Outcome::None
    }

    /// Returns the last line of the screen while a search or a focus is open, and the column of the cursor in it.
    pub fn line(
        &self,
        transcript: &Transcript,
        width: u16,
        theme: &Theme,
    ) -> Option<(Line<'static>, Option<u16>)> {
        let width = usize::from(width);
        let fit = |line: &str| text::fit(line, width).into_owned();
        if let Some(words) = &self.search {
            let (at, count, more) = transcript.found();
            let more = if more { "+" } else { "" };
            let shown = format!("find: {}", text::visible(words));
            let told = if words.is_empty() {
                "Enter repeats the last search · Esc closes".to_owned()
            } else if transcript.is_finding() {
                "searching earlier messages …".to_owned()
            } else {
                format!("{at} of {count}{more} · Enter next · Up previous · Esc closes")
            };
            let cursor = (text::width(&shown) < width).then_some(text::width(&shown) as u16);
            // The search text and the hint are cut separately, because the hint begins where the shown search text ends.
            let shown = fit(&shown);
            let told = format!("   {told}");
            let told = text::fit(&told, width.saturating_sub(text::width(&shown)));
            let mut spans = vec![Span::styled(shown, theme.accent)];
            spans.extend(hint::spans(&told, theme));
            return Some((Line::from(spans), cursor));
        }
        transcript.focused()?;
        let (at, count) = transcript.focus_of();
        let mut keys =
            vec![("Enter", "opens"), ("c", "copies"), ("/", "searches"), ("u, d", "your messages")];
        if transcript.may_bring_back() {
            keys.insert(2, ("b", "restores"));
        }
        keys.push(("Esc", "closes"));
        let place = format!("{at} of {count}");
        let wide = |keys: &[(&str, &str)]| -> usize {
            text::width(&place)
                + keys.iter().map(|(key, does)| text::width(key) + text::width(does) + 4).sum::<usize>()
        };
        // The keys before Esc are left out from the end.
        while keys.len() > 1 && wide(&keys) > width {
            keys.remove(keys.len() - 2);
        }
        let mut spans = vec![Span::styled(fit(&place), theme.dim)];
        for (key, does) in keys {
            spans.push(Span::styled(" · ", theme.dim));
            spans.push(Span::styled(key, theme.accent));
            spans.push(Span::styled(format!(" {does}"), theme.dim));
        }
        Some((Line::from(spans), None))
    }
}
