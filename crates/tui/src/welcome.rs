//! A page before a session begins: it asks one question with a list of answers, such as the model to begin with, or if
//! a directory is trusted.
//!
//! Owns the page, the choice and an input line that is never shown (for a pasted key). The caller acts on the answer,
//! and provides entries that arrive later (servers that were found).
//!
//! Invariants:
//! - Keys pressed before the page was seen choose nothing. The page is armed `ARMED` after a frame, and every key
//!   before that restarts this time. A paste never chooses.
//! - Letters choose nothing, and a number chooses only after an arrow was pressed. Typing a sentence disarms the page
//!   and returns the cursor to the first entry, so the caller's first entry must be harmless.
//! - A secret is never drawn: bullets replace it. It enters no history, kill ring or clipboard, and `Debug` does not
//!   show it.

use crate::decoder::{Decoded, Decoder};
use crate::input::{Effect, Timer};
use crate::menu::{Item, Menu};
use crate::terminal::{Place, Screen};
use crate::text;
use crate::theme::Theme;
use crossterm::event::{
    Event as TerminalEvent, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEventKind,
};
use futures::StreamExt as _;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget as _};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Time without a key, after the page was drawn, before a key counts.
pub(crate) const ARMED: Duration = Duration::from_millis(300);
/// Maximum number of bytes of an input line.
const SECRET_BYTES: usize = 4_096;

/// A possible answer. `Id`: the caller's type for what is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<Id = String> {
    /// Id that is returned to the caller.
    pub id: Id,
    pub item: Item,
    /// The entry asks for a line of input that is never shown, such as a key.
    pub secret: bool,
    /// The entry asks for the address of a server.
    pub address: bool,
}

impl Entry {
    /// Creates an entry with a text as its id that is chosen without further input.
    pub fn new(id: &str, name: &str, detail: &str) -> Self {
        Self::of(id.to_owned(), name, detail)
    }
}

impl<Id> Entry<Id> {
    /// Creates an entry that is chosen without further input.
    pub fn of(id: Id, name: &str, detail: &str) -> Self {
        let item = Item { name: name.to_owned(), detail: detail.to_owned() };
        Self { id, item, secret: false, address: false }
    }

    /// Marks an entry that asks for the address of a server.
    #[must_use]
    pub fn address(self) -> Self {
        Self { address: true, ..self }
    }

    /// Marks an entry that asks for a line of input that is never shown, such as a key.
    #[must_use]
    pub fn secret(self) -> Self {
        Self { secret: true, ..self }
    }
}

/// Result of the page.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer<Id = String> {
    /// The entry with this id was chosen.
    Chosen(Id),
    /// The entry with this id, and the line that was written for it.
    Written(Id, String),
    /// Esc was pressed: no answer.
    None,
}

impl<Id: fmt::Debug> fmt::Debug for Answer<Id> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen(id) => write!(f, "Chosen({id:?})"),
            Self::Written(id, _) => write!(f, "Written({id:?}, ********)"),
            Self::None => f.write_str("None"),
        }
    }
}

/// Judges an input line: `Ok` describes it, `Err` says what is wrong. Shown beside the line while it is written.
pub type Judge = fn(&str) -> Result<String, String>;

/// State of the page.
pub struct Welcome<Id = String> {
    title: String,
    /// Text above the list, to be wrapped.
    text: Vec<String>,
    entries: Vec<Entry<Id>>,
    menu: Menu,
    /// Current activity (a search for servers), shown below the list.
    note: String,
    input: InputLine<Id>,
    top: usize,
    arming: Arming,
    /// Description of what Esc does.
    leaves: &'static str,
}

/// The line that an entry asks for, and the functions that judge it.
///
/// Invariant: `writing` is set from the choice of such an entry until Enter or Esc.
struct InputLine<Id> {
    judge: Judge,
    /// Judges the address of a server.
    judge_address: Judge,
    /// The entry that asks for a line (its id), and the text typed so far.
    writing: Option<(Id, String)>,
    /// The address with which the line begins.
    proposed_address: String,
    /// Fault of the line that was entered; empty after the next key.
    fault: String,
}

/// State that decides which keys count: any key only after the page was on the screen for [`ARMED`] without a key, and
/// numbers only after an arrow.
///
/// Invariant: `focused` implies `armed`.
#[derive(Default)]
struct Arming {
    armed: bool,
    /// An arrow was pressed since the page was armed, so numbers count.
    focused: bool,
    /// Within a session: the timer that arms the page is running.
    waits: bool,
}

impl<Id: Clone + PartialEq> Welcome<Id> {
    /// Creates a page with a title, a text above the list, and entries.
    pub fn new(title: &str, text: Vec<String>, entries: Vec<Entry<Id>>) -> Self {
        let mut page = Self {
            title: title.to_owned(),
            text,
            entries,
            menu: Menu::default(),
            note: String::new(),
            input: InputLine {
                judge: |_| Ok(String::new()),
                judge_address: |_| Ok(String::new()),
                writing: None,
                proposed_address: String::new(),
                fault: String::new(),
            },
            top: 0,
            arming: Arming::default(),
            leaves: "leaves",
        };
        page.list();
        page
    }

    /// Sets the line about a running search.
    #[must_use]
    pub fn noting(self, note: &str) -> Self {
        Self { note: note.to_owned(), ..self }
    }

    /// Within a session, Esc only closes the page.
    #[must_use]
    pub fn closing(self) -> Self {
        Self { leaves: "closes", ..self }
    }

    /// Within a session, Esc ends what the page waits for.
    #[must_use]
    pub fn cancelling(self) -> Self {
        Self { leaves: "cancels", ..self }
    }

    /// Handles a key within a session. A key that comes before the page was read restarts the time until it counts as
    /// read.
    pub fn pressed(&mut self, key: KeyEvent) -> Option<Answer<Id>> {
        self.arming.waits &= self.arming.armed;
        self.key(key)
    }

    /// Records that the page was drawn within a session. The page is armed after `ARMED` without a key.
    pub fn painted(&mut self) -> Vec<Effect> {
        if self.arming.armed || std::mem::replace(&mut self.arming.waits, true) {
            return Vec::new();
        }
        vec![Effect::Wake(ARMED.as_millis() as u64, Timer::Page)]
    }

    /// Sets the function that judges addresses.
    #[must_use]
    pub fn judged_address(mut self, judge_address: Judge) -> Self {
        self.input.judge_address = judge_address;
        self
    }

    /// Sets the address that the user entered before. It can be corrected instead of being written again.
    #[must_use]
    pub fn proposing_address(mut self, address: &str) -> Self {
        address.clone_into(&mut self.input.proposed_address);
        self
    }

    /// Sets the function that judges secrets.
    #[must_use]
    pub fn judged(mut self, judge: Judge) -> Self {
        self.input.judge = judge;
        self
    }

    fn list(&mut self) {
        let numbered = |(at, entry): (usize, &Entry<Id>)| {
            let name = format!("{} {}", at + 1, entry.item.name);
            Item { name, detail: entry.item.detail.clone() }
        };
        self.menu.set(self.entries.iter().enumerate().map(numbered).collect());
    }

    /// Inserts entries that arrived later, above the last `before` ones. The entry that the user moved to stays chosen.
    /// Otherwise the cursor stays on the first entry. `note`: the current activity.
    pub fn more(&mut self, entries: Vec<Entry<Id>>, before: usize, note: &str) {
        note.clone_into(&mut self.note);
        let chosen = self.menu.at();
        let at = self.entries.len().saturating_sub(before);
        let holds = self.arming.focused || self.input.writing.is_some();
        let moved = if chosen >= at && holds { chosen + entries.len() } else { chosen };
        self.entries.splice(at..at, entries);
        self.list();
        self.menu.choose(moved);
    }

    /// Sets the line about the current activity.
    pub fn note(&mut self, note: &str) {
        note.clone_into(&mut self.note);
    }

    /// Arms the page after it has been on the screen for long enough.
    pub fn arm(&mut self) {
        self.arming.armed = true;
    }

    /// Handles a key. Returns the answer when the page is finished.
    pub fn key(&mut self, key: KeyEvent) -> Option<Answer<Id>> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if ctrl && key.code == KeyCode::Char('c') {
            return Some(Answer::None);
        }
        if !self.arming.armed {
            return None;
        }
        self.input.fault.clear();
        if self.input.writing.is_some() {
            return self.write(key, ctrl);
        }
        if self.menu.key(key) {
            self.arming.focused = true;
            return None;
        }
        match key.code {
            KeyCode::Esc => Some(Answer::None),
            KeyCode::Char('d') if ctrl => Some(Answer::None),
            KeyCode::Enter => self.entries.get(self.menu.at()).cloned().and_then(|e| self.choose(&e)),
            KeyCode::PageUp => {
                self.top = self.top.saturating_sub(5);
                None
            }
            KeyCode::PageDown => {
                self.top += 5;
                None
            }
            KeyCode::Char(c) if !ctrl => {
                let at =
                    c.to_digit(10).and_then(|n| (n as usize).checked_sub(1)).filter(|_| self.arming.focused);
                let Some(entry) = at.and_then(|at| self.entries.get(at)).cloned() else {
                    self.put_off();
                    return None;
                };
                self.choose(&entry)
            }
            _ => None,
        }
    }

    /// Disarms the page, because the user is typing.
    fn put_off(&mut self) {
        (self.arming.armed, self.arming.focused) = (false, false);
        self.menu.choose(0);
    }

    fn choose(&mut self, entry: &Entry<Id>) -> Option<Answer<Id>> {
        if entry.secret || entry.address {
            let begin = if entry.address { self.input.proposed_address.clone() } else { String::new() };
            self.input.writing = Some((entry.id.clone(), begin));
            // A number may choose an entry without the cursor, so the cursor moves there.
            if let Some(at) = self.entries.iter().position(|known| known.id == entry.id) {
                self.menu.choose(at);
            }
            return None;
        }
        Some(Answer::Chosen(entry.id.clone()))
    }

    /// True if the line is an address, which may be shown.
    fn writes_address(&self) -> bool {
        let id = self.input.writing.as_ref().map(|(id, _)| id);
        self.entries.iter().any(|entry| entry.address && Some(&entry.id) == id)
    }

    fn write(&mut self, key: KeyEvent, ctrl: bool) -> Option<Answer<Id>> {
        let is_address = self.writes_address();
        let judge = if is_address { self.input.judge_address } else { self.input.judge };
        let (id, line) = self.input.writing.as_mut()?;
        match key.code {
            KeyCode::Esc => {
                // A secret is not kept; an address is there again when its entry is chosen again.
                if is_address {
                    self.input.proposed_address = std::mem::take(line);
                }
                self.input.writing = None;
            }
            KeyCode::Enter => match judge(line) {
                Ok(_) => return Some(Answer::Written(id.clone(), std::mem::take(line))),
                Err(why) => {
                    self.input.fault = why;
                    if !is_address {
                        // The line is never shown, so it cannot be corrected and is cleared.
                        line.clear();
                    }
                }
            },
            KeyCode::Char('u' | 'w') if ctrl => line.clear(),
            KeyCode::Backspace => text::delete_back(line),
            KeyCode::Char(c) if !ctrl && line.len() < SECRET_BYTES => line.push(c),
            _ => {}
        }
        None
    }

    /// Handles an event of the terminal. Returns the answer when the page is finished.
    pub fn event(&mut self, event: TerminalEvent) -> Option<Answer<Id>> {
        match event {
            TerminalEvent::Key(key) if key.kind != KeyEventKind::Release => return self.key(key),
            TerminalEvent::Paste(text) => self.paste(&text),
            TerminalEvent::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollUp => self.scroll(-3),
                MouseEventKind::ScrollDown => self.scroll(3),
                _ => {}
            },
            _ => {}
        }
        None
    }

    /// Pastes into the input line, and nowhere else.
    pub fn paste(&mut self, pasted: &str) {
        let Some((_, line)) = &mut self.input.writing else { return };
        let pasted: String = pasted.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
        if line.len() + pasted.len() <= SECRET_BYTES {
            line.push_str(&pasted);
        } else {
            "that is too long".clone_into(&mut self.input.fault);
        }
    }

    /// Scrolls the text, as the mouse wheel does.
    pub fn scroll(&mut self, lines: isize) {
        self.top = self.top.saturating_add_signed(lines);
    }

    /// Draws the page.
    pub fn draw(&mut self, frame: &mut Frame<'_>, theme: &Theme) {
        let area = frame.area();
        Clear.render(area, frame.buffer_mut());
        if area.width == 0 || area.height == 0 {
            return;
        }
        let width = usize::from(area.width);
        let foot = self.foot(width, theme);
        // The list and the keys stay. If there is too little room, the text above scrolls.
        let lines = self.head(width, theme);
        // Descriptions wrap only if nothing else has to scroll for that.
        self.menu.set_wrapping(true);
        let needs = lines.len() + usize::from(self.menu.height_in(width)) + foot.len() + 2;
        self.menu.set_wrapping(needs <= usize::from(area.height));
        let rows = self.menu.height_in(width) + 1;
        let [head, list, note] = [
            area.height.saturating_sub(rows + foot.len() as u16).min(area.height),
            rows.saturating_sub(1).min(area.height.saturating_sub(1)).max(1),
            foot.len() as u16,
        ];
        let head = head.min(lines.len() as u16 + 1);
        let room = usize::from(head).saturating_sub(1);
        self.top = self.top.min(lines.len().saturating_sub(room));
        for (y, line) in lines.iter().skip(self.top).take(room).enumerate() {
            frame.buffer_mut().set_line(area.x, area.y + y as u16, line, area.width);
        }
        let y = area.y + head;
        let list = Rect { y, height: list.min(area.bottom().saturating_sub(y)), ..area };
        if list.height > 0 {
            self.menu.draw(frame, list, theme);
        }
        let y = list.bottom() + u16::from(area.bottom() > list.bottom() + note);
        let mut caret = None;
        for (i, line) in foot.iter().enumerate() {
            let y = y + i as u16;
            if y >= area.bottom() {
                break;
            }
            frame.buffer_mut().set_line(area.x, y, line, area.width);
            if i == 0 && self.input.writing.is_some() {
                caret = Some(Position::new(area.x + (text::line_width(line).min(width - 1)) as u16, y));
            }
        }
        if let Some(caret) = caret {
            frame.set_cursor_position(caret);
        }
    }

    fn head(&self, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        let mut lines = vec![
            Line::styled(text::fit(&text::visible(&self.title), width).into_owned(), theme.accent),
            Line::default(),
        ];
        for row in &self.text {
            let indent = " ".repeat(row.len() - row.trim_start_matches(' ').len());
            let span = Span::styled(text::visible(row.trim_start_matches(' ')).into_owned(), theme.text);
            let (first, rest) = (Span::raw(indent.clone()), Span::raw(indent));
            if row.is_empty() {
                lines.push(Line::default());
            } else {
                lines.extend(text::wrap(&[span], width, &first, &rest));
            }
        }
        lines
    }

    /// Returns the input line with its judgement, the current activity, and the keys.
    fn foot(&self, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        let fit = |text: &str| text::fit(text, width).into_owned();
        let wrapped = |text: &str, style| {
            let span = Span::styled(text::visible(text).into_owned(), style);
            text::wrap(&[span], width, &Span::raw(""), &Span::raw(""))
        };
        let mut lines = Vec::new();
        if let Some((_, line)) = &self.input.writing {
            let is_address = self.writes_address();
            let (input, judge, keys) = if is_address {
                let keys = "Enter asks the server for its models · Ctrl-U clears it · Esc goes back";
                let label = "the address: ";
                // The end of a long address is shown, because the user is writing there.
                let shown = text::visible(line);
                let shown = crate::page::fit_path(&shown, width.saturating_sub(text::width(label) + 1));
                (format!("{label}{shown}"), self.input.judge_address, keys)
            } else {
                let bullets = "•".repeat(line.chars().count().min(width.saturating_sub(12).max(1)));
                let keys = "Enter takes the key · Esc goes back · the key is never shown";
                (format!("the key: {bullets}"), self.input.judge, keys)
            };
            lines.push(Line::styled(fit(&input), theme.accent));
            match judge(line) {
                _ if !self.input.fault.is_empty() => {
                    lines.extend(wrapped(&self.input.fault, theme.outcome.warning));
                }
                Ok(what) if !line.is_empty() => lines.extend(wrapped(&what, theme.outcome.ok)),
                _ => {}
            }
            lines.push(Line::styled(fit(keys), theme.dim));
            return lines;
        }
        if !self.note.is_empty() {
            lines.extend(wrapped(&self.note, theme.dim));
        }
        let keys = format!("↑ ↓, then Enter or a number · Esc {}", self.leaves);
        lines.push(Line::styled(fit(&keys), theme.dim));
        lines
    }
}

/// News while the page is shown: entries to insert above the last `before` ones, and the current activity.
pub struct News<Id = String> {
    pub entries: Vec<Entry<Id>>,
    pub before: usize,
    pub note: String,
}

/// Shows the page until it is answered. The terminal is restored afterwards, and nothing of the page is left on it.
///
/// # Errors
///
/// Fails if the terminal cannot be read or written to.
pub async fn run<W: Write, Id: Clone + PartialEq>(
    out: W,
    theme: &Theme,
    mut page: Welcome<Id>,
    mut news: mpsc::UnboundedReceiver<News<Id>>,
) -> io::Result<Answer<Id>> {
    let mut screen = Screen::enter(out, Place::Alternate)?;
    let mut keys = EventStream::new();
    let mut decoder = Decoder::default();
    let mut armed_at = None;
    let mut listening = true;
    let mut waiting = VecDeque::new();
    let answer = loop {
        while let Some(Decoded::Event(event)) = waiting.pop_front() {
            let pressed = matches!(&event, TerminalEvent::Key(key) if key.kind != KeyEventKind::Release);
            let answer = page.event(event);
            if pressed && !page.arming.armed {
                armed_at = None;
            }
            if let Some(answer) = answer {
                screen.leave()?;
                return Ok(answer);
            }
        }
        screen.draw(|frame| page.draw(frame, theme))?;
        let due = *armed_at.get_or_insert_with(|| Instant::now() + ARMED);
        tokio::select! {
            biased;
            event = keys.next() => {
                let Some(event) = event else { break Answer::None };
                waiting.extend(decoder.take(event?, Instant::now()));
            }
            () = tokio::time::sleep_until(decoder.due().unwrap_or(due).into()), if decoder.due().is_some() => {
                waiting.extend(decoder.expire(Instant::now()));
            }
            found = news.recv(), if listening => match found {
                Some(News { entries, before, note }) => page.more(entries, before, &note),
                None => listening = false,
            },
            () = tokio::time::sleep_until(due.into()), if !page.arming.armed => page.arm(),
        }
    };
    screen.leave()?;
    Ok(answer)
}
