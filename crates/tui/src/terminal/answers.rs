//! Answers of the terminal to the queries about key reports and images, and the keys that arrive meanwhile.
//!
//! The library that reads keys consumes such answers and does not pass them on. So the terminal is read here for the
//! first moments. Answers are taken out, and everything else becomes the events that the library would make, one for
//! each character. The [`decoder`](crate::decoder) joins sequences. The interface never waits for an answer.
//!
//! [`Answers`] is pure: bytes in, answers and events out.

use super::sys;
use crate::graphics::Protocol;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use std::io;
use std::time::{Duration, Instant};

/// Asks for the size of a cell and the number of colours. Sent before the query that every terminal answers (primary
/// device attributes), so that its answer comes last.
pub(super) const IMAGES: &str = "\x1b[16t\x1b[?1;1;0S";

/// Asks which flags of kitty's keyboard protocol are set. Terminals without the protocol do not answer.
/// <https://sw.kovidgoyal.net/kitty/keyboard-protocol/>
pub(super) const KEYBOARD: &str = "\x1b[?u";

/// Query for the row and the column of the cursor.
pub(super) const CURSOR: &str = "\x1b[6n";

/// Longest time in which answers are expected.
const WITHIN: Duration = Duration::from_millis(500);
/// Interval at which the terminal is polled.
const TICK: Duration = Duration::from_millis(4);
/// After this long without further bytes, a partial sequence is not continued.
const QUIET: Duration = Duration::from_millis(50);
/// Longest answer in bytes. A longer text is not an answer.
const LONGEST: usize = 128;
/// Maximum number of colours in an image.
const MOST_COLOURS: u32 = 255;
/// The device attribute of terminals that draw sixels.
const SIXEL: u32 = 4;

/// An answer or an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Event(Event),
    /// Abilities of the terminal by their numbers (DA1).
    Attributes(Vec<u32>),
    /// Width and height of a cell in pixels.
    Cell(u16, u16),
    /// Number of colours that the terminal shows at once in an image.
    Colours(u32),
    /// The terminal supports kitty's keyboard protocol.
    Keyboard,
    /// The row of the cursor, counted from 0.
    Row(u16),
}

/// Parser from bytes to [`Heard`].
#[derive(Debug, Default)]
pub struct Answers {
    pending: Vec<u8>,
}

/// Parse result for the start of the buffer.
enum ParsedItem {
    /// A complete item of this many bytes.
    Whole(usize, Option<Heard>),
    /// The bytes may be the start of an item.
    Part,
}

impl Answers {
    /// Parses these bytes. The start of an incomplete item is held back.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Heard> {
        self.pending.extend_from_slice(bytes);
        self.heard(false)
    }

    /// Parses what was held back, because no more bytes will come.
    pub fn end(&mut self) -> Vec<Heard> {
        self.heard(true)
    }

    fn heard(&mut self, end: bool) -> Vec<Heard> {
        let mut out = Vec::new();
        let mut at = 0;
        while at < self.pending.len() {
            match found(&self.pending[at..], end) {
                ParsedItem::Whole(length, heard) => {
                    at += length;
                    out.extend(heard);
                }
                ParsedItem::Part => break,
            }
        }
        self.pending.drain(..at);
        out
    }
}

fn found(bytes: &[u8], end: bool) -> ParsedItem {
    match bytes {
        [0x1b] if !end => ParsedItem::Part,
        [0x1b, b'[', rest @ ..] => control(rest, end),
        [0x1b, b'O' | 0x1b, ..] | [0x1b] => key(1, '\u{1b}', KeyModifiers::NONE),
        [0x1b, rest @ ..] => character(rest, 1, KeyModifiers::ALT, end),
        _ => character(bytes, 0, KeyModifiers::NONE, end),
    }
}

/// Parses the bytes after `ESC [`: an answer, or else an Escape key followed by other characters.
fn control(rest: &[u8], end: bool) -> ParsedItem {
    let told = rest.iter().position(|b| !matches!(b, b'0'..=b'9' | b';' | b'?')).unwrap_or(rest.len());
    let numbers = |text: &[u8]| -> Vec<u32> {
        let text = String::from_utf8_lossy(text);
        text.split(';').map(|n| n.parse().unwrap_or_default()).collect()
    };
    let heard = match (&rest[..told], rest.get(told)) {
        (_, None) if !end && told < LONGEST => return ParsedItem::Part,
        ([], Some(b'I')) => Heard::Event(Event::FocusGained),
        ([], Some(b'O')) => Heard::Event(Event::FocusLost),
        ([b'?', text @ ..], Some(b'c')) => Heard::Attributes(numbers(text)),
        ([b'?', b'0'..=b'9', ..], Some(b'u')) => Heard::Keyboard,
        ([b'?', text @ ..], Some(b'S')) => match numbers(text)[..] {
            [1, 0, colours] => Heard::Colours(colours),
            _ => return ParsedItem::Whole(told + 3, None),
        },
        ([b'0'..=b'9', ..], Some(b'R')) => match numbers(&rest[..told])[..] {
            [row, _] => Heard::Row(row.clamp(1, 4_096) as u16 - 1),
            _ => return key(1, '\u{1b}', KeyModifiers::NONE),
        },
        (text, Some(b't')) => match numbers(text)[..] {
            [6, height, width] => Heard::Cell(width.min(4_096) as u16, height.min(4_096) as u16),
            _ => return ParsedItem::Whole(told + 3, None),
        },
        _ => return key(1, '\u{1b}', KeyModifiers::NONE),
    };
    ParsedItem::Whole(told + 3, Some(heard))
}

/// Parses a character. `before`: the number of bytes of the item before the character.
fn character(bytes: &[u8], before: usize, modifiers: KeyModifiers, end: bool) -> ParsedItem {
    let first = &bytes[..bytes.len().min(4)];
    let whole = match str::from_utf8(first) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&first[..error.valid_up_to()]).unwrap_or_default(),
    };
    match whole.chars().next() {
        Some(c) => key(before + c.len_utf8(), c, modifiers),
        None if !end && first.len() < 4 && str::from_utf8(first).is_err_and(|e| e.error_len().is_none()) => {
            ParsedItem::Part
        }
        // An invalid UTF-8 byte is skipped.
        None => ParsedItem::Whole(before + 1, None),
    }
}

/// Returns the key event that the library makes of a character.
fn key(length: usize, c: char, more: KeyModifiers) -> ParsedItem {
    let control = |base: u8, from: char| char::from(c as u8 - from as u8 + base);
    let (code, modifiers) = match c {
        '\u{1b}' => (KeyCode::Esc, KeyModifiers::NONE),
        '\r' => (KeyCode::Enter, KeyModifiers::NONE),
        '\t' => (KeyCode::Tab, KeyModifiers::NONE),
        '\u{7f}' => (KeyCode::Backspace, KeyModifiers::NONE),
        '\0' => (KeyCode::Char(' '), KeyModifiers::CONTROL),
        '\u{1}'..='\u{1a}' => (KeyCode::Char(control(b'a', '\u{1}')), KeyModifiers::CONTROL),
        '\u{1c}'..='\u{1f}' => (KeyCode::Char(control(b'4', '\u{1c}')), KeyModifiers::CONTROL),
        c if c.is_uppercase() => (KeyCode::Char(c), KeyModifiers::SHIFT),
        c => (KeyCode::Char(c), KeyModifiers::NONE),
    };
    ParsedItem::Whole(length, Some(Heard::Event(Event::Key(KeyEvent::new(code, modifiers | more)))))
}

/// Abilities of the terminal, collected from its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalAbilities {
    /// The terminal answered the last query, the one that every terminal answers.
    pub answered: bool,
    pub sixel: bool,
    pub cell: Option<(u16, u16)>,
    pub colours: Option<u32>,
    /// The terminal supports kitty's keyboard protocol.
    pub keyboard: bool,
    /// The row of the cursor when it was asked, counted from 0.
    pub row: Option<u16>,
}

impl TerminalAbilities {
    /// Returns the sixel protocol if the terminal draws sixels. `system`: the cell size in pixels that the system
    /// reports, used if the terminal does not report one.
    pub fn sixels(&self, system: Option<(u16, u16)>) -> Option<Protocol> {
        let cell = self.cell.filter(|(width, height)| *width > 0 && *height > 0).or(system)?;
        let colours = self.colours.filter(|count| *count >= 2).unwrap_or(MOST_COLOURS).min(MOST_COLOURS);
        self.sixel.then_some(Protocol::Sixel { cell, colours: colours as u16 })
    }
}

/// Reads the terminal until it has answered or the time for answers has passed.
pub struct Listener {
    input: sys::Input,
    answers: Answers,
    told: TerminalAbilities,
    began: Instant,
    /// Time of the last bytes.
    last: Instant,
}

/// Result of [`Listener::next`].
#[derive(Debug, PartialEq)]
pub enum Listened {
    Events(Vec<Event>),
    /// The last events, and the collected answers.
    End(Vec<Event>, TerminalAbilities),
}

impl Listener {
    /// Opens the terminal for reading.
    ///
    /// # Errors
    ///
    /// Fails if there is no terminal to read.
    pub fn new() -> io::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            input: sys::Input::open()?,
            answers: Answers::default(),
            told: TerminalAbilities::default(),
            began: now,
            last: now,
        })
    }

    /// Waits for the next events. The future may be dropped without losing input.
    pub async fn next(&mut self) -> Listened {
        loop {
            let mut buffer = [0; 1024];
            let read = self.input.read(&mut buffer);
            let now = Instant::now();
            match read {
                Ok(0) if now.duration_since(self.began) < WITHIN => {
                    // An Escape that is alone is usually a key, so it is held for a shorter time.
                    let quiet = if self.answers.pending.len() == 1 { TICK } else { QUIET };
                    if now.duration_since(self.last) >= quiet {
                        let (events, _) = self.sorted(Answers::end);
                        if !events.is_empty() {
                            return Listened::Events(events);
                        }
                    }
                    tokio::time::sleep(TICK).await;
                }
                Ok(length @ 1..) => {
                    self.last = now;
                    let (events, answered) = self.sorted(|answers| answers.take(&buffer[..length]));
                    // Once the time has passed, the library reads, even if bytes still come.
                    if answered || now.duration_since(self.began) >= WITHIN {
                        return self.end(events);
                    }
                    return Listened::Events(events);
                }
                // The time has passed, or reading failed. The reader of keys will report the failure.
                Ok(0) | Err(_) => return self.end(Vec::new()),
            }
        }
    }

    fn end(&mut self, mut events: Vec<Event>) -> Listened {
        let (more, _) = self.sorted(Answers::end);
        events.extend(more);
        Listened::End(events, self.told)
    }

    /// Sorts answers from events. Returns the events, and true if the last answer was among them.
    fn sorted(&mut self, hear: impl FnOnce(&mut Answers) -> Vec<Heard>) -> (Vec<Event>, bool) {
        let (mut events, mut answered) = (Vec::new(), false);
        for heard in hear(&mut self.answers) {
            match heard {
                Heard::Event(event) => events.push(event),
                Heard::Cell(width, height) => self.told.cell = Some((width, height)),
                Heard::Colours(colours) => self.told.colours = Some(colours),
                Heard::Keyboard => self.told.keyboard = true,
                Heard::Row(row) => self.told.row = Some(row),
                Heard::Attributes(attributes) => {
                    (self.told.answered, self.told.sixel) = (true, attributes.contains(&SIXEL));
                    answered = true;
                }
            }
        }
        (events, answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(text: &str) -> Vec<Heard> {
        text.chars()
            .map(|c| match key(1, c, KeyModifiers::NONE) {
                ParsedItem::Whole(_, Some(heard)) => heard,
                _ => panic!("{c:?} is no key"),
            })
            .collect()
    }

    fn alt(c: char) -> Heard {
        Heard::Event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::ALT)))
    }

    fn heard(text: &str) -> Vec<Heard> {
        let mut answers = Answers::default();
        let mut out = answers.take(text.as_bytes());
        out.extend(answers.end());
        out
    }

    #[test]
    fn answers_are_taken_out_and_the_rest_is_typing() {
        for (text, want) in [
            ("ab", keys("ab")),
            ("\u{1b}", keys("\u{1b}")),
            ("\u{1b}\u{1b}", keys("\u{1b}\u{1b}")),
            ("\u{1b}x\r", [vec![alt('x')], keys("\r")].concat()),
            ("\u{1b}[A", keys("\u{1b}[A")),
            ("\u{1b}OA", keys("\u{1b}OA")),
            ("\u{1b}[200~a\u{1b}[201~", keys("\u{1b}[200~a\u{1b}[201~")),
            ("\u{1b}[?", keys("\u{1b}[?")),
            ("a\u{1b}[?64;1;4cb", [keys("a"), vec![Heard::Attributes(vec![64, 1, 4])], keys("b")].concat()),
            ("\u{1b}[6;20;10t", vec![Heard::Cell(10, 20)]),
            ("\u{1b}[4;20;10t\u{1b}[?1;3;0S", vec![]),
            ("\u{1b}[?1;0;256S", vec![Heard::Colours(256)]),
            ("\u{1b}[?0ua", [vec![Heard::Keyboard], keys("a")].concat()),
            ("\u{1b}[?31u", vec![Heard::Keyboard]),
            ("\u{1b}[12;40R", vec![Heard::Row(11)]),
            ("\u{1b}[R", keys("\u{1b}[R")),
            ("\u{1b}[13;2u", keys("\u{1b}[13;2u")),
            ("\u{1b}[I\u{1b}[O", vec![Heard::Event(Event::FocusGained), Heard::Event(Event::FocusLost)]),
            ("\u{1b}[?99999999999c", vec![Heard::Attributes(vec![0])]),
        ] {
            assert_eq!(heard(text), want, "{text:?}");
        }
        let control = |c| Heard::Event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)));
        assert_eq!(heard("\u{3}\u{1f}\0"), [control('c'), control('7'), control(' ')]);
    }

    #[test]
    fn sixels_are_drawn_where_the_terminal_says_so_and_its_cells_are_known() {
        let told = |sixel, cell, colours| TerminalAbilities {
            answered: true,
            sixel,
            cell,
            colours,
            keyboard: false,
            row: None,
        };
        let sixel = |cell, colours| Some(Protocol::Sixel { cell, colours });
        assert_eq!(told(true, Some((10, 20)), Some(16)).sixels(Some((9, 19))), sixel((10, 20), 16));
        assert_eq!(told(true, Some((10, 0)), Some(65_536)).sixels(Some((9, 19))), sixel((9, 19), 255));
        assert_eq!(told(true, None, Some(0)).sixels(Some((9, 19))), sixel((9, 19), 255));
        assert_eq!(told(true, None, None).sixels(None), None);
        assert_eq!(told(false, Some((10, 20)), None).sixels(None), None);
    }

    #[test]
    fn broken_characters_are_left_out() {
        let mut answers = Answers::default();
        assert_eq!(answers.take(b"a\xffb\xe6\x97"), keys("ab"));
        assert_eq!(answers.take(b"\xa5\xe6"), keys("日"));
        assert_eq!(answers.end(), []);
    }

    proptest! {
        /// Wherever reads end, the same answers are found, and all other input comes out in order.
        #[test]
        fn it_does_not_matter_where_reads_end(
            words in proptest::collection::vec("[a-z日é\r ]{1,5}", 1..6),
            answers in proptest::collection::vec(
                "\u{1b}\\[\\?[0-9]{1,2};[0-9;]{1,9}c|\u{1b}\\[6;[0-9]{1,3};[0-9]{1,3}t|\u{1b}\\[\\?[0-9]{1,2}u", 5),
            cuts in proptest::collection::vec(0_usize..80, 0..6),
        ) {
            let text: String = words.iter().zip(&answers).flat_map(|(w, a)| [w.as_str(), a.as_str()]).collect();
            let whole = heard(&text);
            let mut cut = Answers::default();
            let mut cuts: Vec<usize> = cuts.iter().map(|at| at % (text.len() + 1)).collect();
            cuts.sort_unstable();
            let mut from = 0;
            let mut out = Vec::new();
            for to in cuts.into_iter().chain([text.len()]) {
                out.extend(cut.take(&text.as_bytes()[from..to]));
                from = to;
            }
            out.extend(cut.end());
            prop_assert_eq!(&out, &whole);
            let typed: Vec<Heard> = out.into_iter().filter(|h| matches!(h, Heard::Event(_))).collect();
            let said: String = words.iter().take(answers.len()).map(String::as_str).collect();
            prop_assert_eq!(typed, keys(&said));
        }

        /// Any input is parsed without a panic, and nothing is held back at the end.
        #[test]
        fn anything_comes_out(bytes in proptest::collection::vec(prop_oneof![Just(0x1b_u8), Just(b'['), Just(b'?'), any::<u8>()], 0..60)) {
            let mut answers = Answers::default();
            answers.take(&bytes);
            answers.end();
            prop_assert!(answers.pending.is_empty());
        }
    }
}
